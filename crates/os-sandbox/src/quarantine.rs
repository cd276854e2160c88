//! Protected names that a command created where they could not be blocked, with their new paths.

use crate::escape::{Visible, visible};
use std::fmt;
use std::path::PathBuf;

/// The directory at the root of a mount to which protected names are moved. Commands can neither
/// read nor change it.
///
/// Each sweep has a directory of its own below it, named `SECONDS-NANOSECONDS-PID` by the time
/// (since 1970, UTC) and the process. In there a name is at the path that it had below the mount.
/// If something else of this name is in the way, the directory is called
/// `.os-sandbox-quarantine.SECONDS-NANOSECONDS-PID`.
pub use sandbox_names::QUARANTINE;

/// The state of a file in a quarantine since a scan moved it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuarantineState {
    /// It is as it was.
    Unchanged,
    /// A program has changed it.
    Changed,
    /// No record says that a scan moved it: a program may have made it there.
    Unknown,
}

/// A protected name that appeared while a command ran, and was moved away afterwards.
///
/// A command cannot replace a protected name that exists. It can create an absent one, unless the
/// policy reserves it ([`PolicyBuilder::hold_absent`](crate::PolicyBuilder::hold_absent)). After
/// the end of the command, a scan finds new names before the result is returned.
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
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Quarantined {
    /// The path as the command saw it.
    #[serde(serialize_with = "text")]
    pub path: PathBuf,
    /// The protected name or pattern.
    pub pattern: String,
    /// The reason why the name is not allowed.
    pub why: String,
    /// The path on the host. `None` if the name could not be moved and is still at its old path.
    #[serde(serialize_with = "text_if_there")]
    pub now: Option<PathBuf>,
}

impl fmt::Display for Quarantined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({}: {})",
            Visible(self.path.as_os_str()),
            self.pattern,
            visible(&self.why)
        )?;
        match &self.now {
            Some(now) => write!(f, " is now {}", Visible(now.as_os_str())),
            None => f.write_str(", which could not be moved"),
        }
    }
}

/// Serialises a path. A path may not be text, and a receipt must be written for every name that a
/// command chose.
fn text<S: serde::Serializer>(path: &std::path::Path, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&path.to_string_lossy())
}

fn text_if_there<S: serde::Serializer>(path: &Option<PathBuf>, out: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => text(path, out),
        None => out.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_receipt_is_written_whatever_files_are_called() {
        let strange = PathBuf::from(OsStr::from_bytes(b"/work/\xff\x1b[2K/.vscode"));
        let found = Quarantined {
            path: strange.clone(),
            pattern: ".vscode".into(),
            why: "it has \u{1b}[2K".into(),
            now: Some(strange),
        };
        let json = serde_json::to_string(&found).expect("a text");
        assert!(json.contains(".vscode"), "{json}");
        assert!(!found.to_string().contains('\u{1b}'), "{found}");
    }
}
