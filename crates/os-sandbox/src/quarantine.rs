//! Protected names that a command made where nothing could keep it from doing so: what they were,
//! and where they are now.

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
pub const QUARANTINE: &str = ".os-sandbox-quarantine";

/// A protected name that appeared while a command ran, and was moved out of the way after it.
///
/// A command cannot replace a protected name that exists. It can create an absent one, unless the
/// policy holds it ([`PolicyBuilder::hold_absent`](crate::PolicyBuilder::hold_absent)). New names
/// are looked for when the command has ended, before its result is returned.
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
    #[cfg_attr(feature = "serde", serde(serialize_with = "text"))]
    pub path: PathBuf,
    /// The protected name or pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub why: String,
    /// Where it is on the host; `None` if it could not be moved and is still there.
    #[cfg_attr(feature = "serde", serde(serialize_with = "text_if_there"))]
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
            None => f.write_str(" could not be moved"),
        }
    }
}

/// A path need not be text, and a receipt is written whatever a command called its files.
#[cfg(feature = "serde")]
fn text<S: serde::Serializer>(path: &std::path::Path, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&path.to_string_lossy())
}

#[cfg(feature = "serde")]
fn text_if_there<S: serde::Serializer>(path: &Option<PathBuf>, out: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => text(path, out),
        None => out.serialize_none(),
    }
}

#[cfg(all(test, feature = "serde"))]
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
