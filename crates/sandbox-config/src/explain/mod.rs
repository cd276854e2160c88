//! Explains why a worker may do something: which grant on the way down decides.

pub(crate) mod chain;
