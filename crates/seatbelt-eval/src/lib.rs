//! Evaluates a Seatbelt profile (the language of `sandbox-exec`) on any system. It knows the part
//! of the language that os-sandbox writes; everything else is an error, never ignored.
//!
//! # Terms
//!
//! - *operation*: an action of a process, such as `file-read-data`; operations form a tree, in
//!   which `file-read*` is its parent
//! - *subject*: the object of the action: a path, an address, a name ([`Subject`])
//! - *reading*: the precedence of rules that disagree. Published measurements differ, so both are
//!   evaluated, and a profile that depends on the difference is an error: the last matching rule of
//!   all decides; or the rules for the operation itself decide before those for its parent, and
//!   among them the last
//!
//! # Allowed and denied
//!
//! ```
//! use seatbelt_eval::{Profile, Subject};
//!
//! let text = r#"(version 1) (deny default) (allow file-read* (subpath (param "ROOT")))"#;
//! let profile = Profile::parse(text, &[("ROOT", b"/data")])?;
//! assert!(profile.allows("file-read-data", &Subject::path(b"/data/a"))?);
//! assert!(!profile.allows("file-read-data", &Subject::path(b"/database"))?);
//! assert!(!profile.allows("file-write-data", &Subject::path(b"/data/a"))?);
//! # Ok::<(), seatbelt_eval::Error>(())
//! ```
//!
//! # In reading order

#![forbid(unsafe_code)]

mod filter;
mod operations;
mod profile;
mod regex;
mod sexpr;
mod subject;

pub use profile::Profile;
pub use subject::{Host, Subject, Target};

/// Why a profile cannot be read, or a question not be answered.
///
/// ```
/// use seatbelt_eval::{Error, Profile};
///
/// let unknown = Profile::parse("(version 1) (deny default) (allow mind-read)", &[]);
/// assert!(matches!(unknown, Err(Error::Unknown { .. })));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not made of lists, strings and symbols.
    #[error("not a profile: {what} at byte {at}")]
    Syntax {
        /// The mistake.
        what: &'static str,
        /// Where.
        at: usize,
    },
    /// Something that this crate does not know, or not in this place.
    #[error("unknown {what}: {text}")]
    Unknown {
        /// The expected construct: an operation, a filter, …
        what: &'static str,
        /// The piece of the profile.
        text: String,
    },
    /// A parameter that is used and not given, or given and not used.
    #[error("parameter {name}: {what}")]
    Parameter {
        /// Its name.
        name: String,
        /// The mistake.
        what: &'static str,
    },
    /// The two readings answer differently.
    #[error(
        "{operation} of {subject}: the last rule of all says {by_order}, the rules for the operation say {by_operation}"
    )]
    Ambiguous {
        /// The operation that was asked about.
        operation: String,
        /// The subject that was asked about.
        subject: String,
        /// `true` if the last matching rule allows it.
        by_order: bool,
        /// `true` if the rules for the most specific operation allow it.
        by_operation: bool,
    },
}
