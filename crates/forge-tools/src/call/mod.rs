//! The road of a call: request, parsed, judged, approved, outcome.

pub(crate) mod ahead;
pub(crate) mod approved;
pub(crate) mod asking;
pub(crate) mod judged;
pub(crate) mod outcome;
pub(crate) mod pending;
pub(crate) mod request;
