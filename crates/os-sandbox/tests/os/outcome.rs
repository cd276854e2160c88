//! What a case comes to: nothing to say, or what was seen instead.

use std::fmt::{Debug, Display};

/// Of one case, or of a step of it.
pub(crate) type Outcome = Result<(), String>;

pub(crate) fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(otherwise()) }
}

pub(crate) fn expect<T: PartialEq + Debug>(got: T, want: T) -> Outcome {
    ensure(got == want, || format!("{got:?} instead of {want:?}"))
}

pub(crate) fn say(error: impl Display) -> String {
    error.to_string()
}
