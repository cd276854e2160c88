//! Protected names that a command made where nothing could keep it from doing so: what they were,
//! and where they are now.

use std::fmt;
use std::path::PathBuf;

/// A protected name that appeared while a command ran, and was moved out of the way after it.
///
/// Names that exist, and absent ones without `*` in directories that exist, cannot be made at all.
/// Others can: in a new directory, or by a pattern. They are looked for when the command has
/// ended, before its result is there.
///
/// ```
/// use os_sandbox::Quarantined;
///
/// let found = Quarantined {
///     path: "/work/new/.vscode".into(),
///     pattern: ".vscode".into(),
///     why: "a new name".into(),
///     now: Some("/home/me/project/.os-sandbox-quarantine/1/new/.vscode".into()),
/// };
/// assert!(found.to_string().starts_with("/work/new/.vscode (.vscode: a new name)"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Quarantined {
    /// Where the command saw it.
    pub path: PathBuf,
    /// The protected name or pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub why: String,
    /// Where it is on the host; `None` if it could not be moved and is still there.
    pub now: Option<PathBuf>,
}

impl fmt::Display for Quarantined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({}: {})",
            self.path.display(),
            self.pattern,
            self.why
        )?;
        match &self.now {
            Some(now) => write!(f, " is now {}", now.display()),
            None => f.write_str(" could not be moved"),
        }
    }
}
