//! Names of workers, and the list of workers that a worker may call.

use std::path::Path;

use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};

/// The workers that a worker may call.
///
/// ```
/// use sandbox_config::Delegates;
/// assert!(Delegates::Listed(vec!["report".into()]).allows("report"));
/// assert!(!Delegates::None.allows("report"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delegates {
    /// No worker: `workers` is absent or empty.
    None,
    /// These.
    Listed(Vec<String>),
    /// `["*"]`: every worker of the project.
    All,
}

impl Delegates {
    /// Returns `true` if a worker may be called.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        match self {
            Delegates::None => false,
            Delegates::Listed(names) => names.iter().any(|listed| listed == name),
            Delegates::All => true,
        }
    }
}

/// Returns `true` if a worker may have this name: `^[a-z][a-z0-9_-]{0,63}$`, because it becomes a
/// tool's.
///
/// ```
/// assert!(sandbox_config::is_worker_name("formatter"));
/// assert!(!sandbox_config::is_worker_name("../x"));
/// ```
#[must_use]
pub fn is_worker_name(name: &str) -> bool {
    is_name(name)
}

pub(crate) fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-'))
}

pub(crate) fn bad_name(name: &str) -> Diagnostic {
    DiagnosticCode::BadValue.error(format!("`{name}` cannot be a worker's name")).help(
        "lower-case letters, digits, `_` and `-`, a letter first, at most 64 of them: it becomes a tool's name",
    )
}

/// Names a worker.
pub(crate) const CALL: &str = "call_worker";

pub(crate) fn stem(file: &Path) -> &str {
    file.file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or("")
}
