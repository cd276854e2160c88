//! The names that a start would find in the mounts of a policy, in advance: protected and hidden
//! names, directories that cannot be searched, and links, which cannot be mounted over.

use crate::error::Error;
use crate::platform;
use crate::policy::Policy;

/// The content of one mount, as a start would find it now.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Survey {
    /// The mount as the command sees it. All paths of a survey are relative to it.
    pub mount: String,
    /// The number of files and directories in it.
    pub entries: usize,
    /// The number of protected or hidden ones.
    pub names: usize,
    /// Links with protected names, and links in repositories, which cannot be mounted over.
    pub links: Vec<String>,
    /// Directories that cannot be listed, and whose content cannot be reached.
    pub unlisted: Vec<String>,
    /// Configuration of git that runs programs or leads elsewhere, with its text.
    pub git: Vec<String>,
    /// The reason why the survey is incomplete. Every command is then refused.
    pub incomplete: Option<String>,
}

impl Survey {
    /// Reads each mount now, without running or changing anything. Returns an empty list if none of
    /// the system's mechanisms searches for names.
    ///
    /// # Errors
    /// If a mount cannot be opened.
    pub fn of(policy: &Policy) -> Result<Vec<Survey>, Error> {
        platform::survey(policy)
    }
}
