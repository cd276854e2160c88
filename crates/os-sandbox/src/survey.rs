//! What a start would find in the mounts of a policy, looked at beforehand: whether protected and
//! hidden names can be looked for everywhere, and what nothing can be mounted over.

use crate::error::Error;
use crate::platform;
use crate::policy::Policy;

/// What is in one mount, as a start would find it now.
///
/// ```
/// use os_sandbox::{Access, Policy, Survey};
///
/// # let dir = std::env::temp_dir().join(format!("survey-{}", std::process::id()));
/// # std::fs::create_dir_all(dir.join("src")).unwrap();
/// # let dir = dir.canonicalize().unwrap();
/// let policy = Policy::builder().mount(&dir, "/project", Access::ALL).protect(".envrc").build()?;
/// let surveys = Survey::of(&policy)?;
/// # if cfg!(target_os = "linux") {
/// assert_eq!((surveys[0].entries, surveys[0].names), (1, 0));
/// assert!(surveys[0].incomplete.is_none());
/// # }
/// # std::fs::remove_dir_all(dir).unwrap();
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Survey {
    /// The mount as the command sees it. All paths below are its.
    pub mount: String,
    /// Files and directories in it.
    pub entries: usize,
    /// How many of them are protected or hidden.
    pub names: usize,
    /// Links with protected names, and links in repositories: nothing can be mounted over them.
    pub links: Vec<String>,
    /// Directories that cannot be listed: nothing in them can be reached.
    pub unlisted: Vec<String>,
    /// Configuration of git that runs programs or leads elsewhere, and what it says.
    pub git: Vec<String>,
    /// Why not everything can be looked at: every command is refused.
    pub incomplete: Option<String>,
}

impl Survey {
    /// Looks at each mount now; nothing is run or changed. Where no mechanism looks for names,
    /// the list is empty.
    ///
    /// # Errors
    /// If a mount cannot be opened.
    pub fn of(policy: &Policy) -> Result<Vec<Survey>, Error> {
        platform::survey(policy)
    }
}
