//! Everything that is said to the person beside the result. A standard error that is
//! closed or full must not change what forge does or how it ends, so what cannot be
//! written is dropped; `eprintln!` would panic instead.

use std::fmt::Display;
use std::io::Write as _;

/// Writes one line to standard error.
pub(crate) fn say(text: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
