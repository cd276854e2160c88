//! Project and worker files: mounts, policy, and grants that only narrow.
//!
//! A **project** file says what may be touched at most: that is the **ceiling**, a [`Grant`]. A
//! **worker** file says what it needs: a [`Declaration`]. [`Grant::child`] is their meet and the
//! only way down, so nobody ever holds more than whoever called it. A **mount** is a host
//! directory shown at a sandbox path; a **zone** is what config files call a named mount. A
//! **verdict** says whether something happens, is asked about, or never happens. A file that does
//! not validate yields [`Diagnostics`]: all its mistakes at once, each with file, line, column and
//! what to write instead; nothing runs on it.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! use sandbox_config::{load, Declaration, Mode, Sources, ZoneDeclaration};
//!
//! std::fs::write(dir.path().join("golem-forge.config.yaml"), "
//! sandbox:
//!   zones:
//!     data: { path: ./data, mode: ro }
//!     workspace: { path: ./workspace, mode: rw }
//! ").unwrap();
//! let project = load(&Sources::new(dir.path())).unwrap();
//!
//! // Allowed: a child that reads what its parent can read.
//! let reader = Declaration::zones([ZoneDeclaration::new("data", Mode::ReadOnly)]);
//! let reader = project.ceiling().child(&reader).unwrap();
//! assert_eq!(reader.mount_access("data"), Some(Mode::ReadOnly));
//! assert_eq!(reader.mount_access("workspace"), None);
//!
//! // Denied: a child that writes where its parent only reads.
//! let writer = Declaration::zones([ZoneDeclaration::new("data", Mode::ReadWrite)]);
//! assert_eq!(
//!     project.ceiling().child(&writer).unwrap_err().to_string(),
//!     "Child requests 'rw' on 'data' but parent only has 'ro'",
//! );
//! ```
//!
//! What this crate does not know: tools, models, and how anything is enforced.

#![forbid(unsafe_code)]

mod sources;

mod ceiling;
mod library;
mod project;
mod worker;

mod declaration;
mod escalation;
mod grant;

mod limits;
mod mount;
mod shell;
mod verdict;

mod diagnostic;
mod text;
mod trust;

#[cfg(feature = "files")]
mod files;
#[cfg(any(feature = "files", feature = "process"))]
mod host_dirs;
#[cfg(feature = "process")]
mod process;

mod discover;
mod expand;
mod fields;
mod keys;
mod layers;
mod preferences;
mod read;
mod sections;
mod walk;
mod yaml;
mod zones;

pub use declaration::{Declaration, ZoneDeclaration};
pub use diagnostic::{Code, Diagnostic, Diagnostics};
pub use escalation::Escalation;
pub use grant::{Environment, Grant};
#[cfg(any(feature = "files", feature = "process"))]
pub use host_dirs::GrantError;
pub use limits::Limits;
pub use mount::{Mode, Mount, NetworkAccess};
pub use project::{Project, load};
pub use shell::{Pattern, PatternError, RuleMatch, ShellRules};
pub use sources::{ConfigChoice, Sources, Trust, WithoutFile};
pub use text::{Layer, Origin};
pub use trust::WideningKey;
pub use verdict::{Approval, ApprovalMode, MountApproval, Operation, Risk, Verdict};
pub use worker::{Delegates, Worker};

#[cfg(test)]
mod flips;
#[cfg(test)]
mod narrowing;
