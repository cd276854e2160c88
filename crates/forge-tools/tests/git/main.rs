//! Git, from outside: one suite for every place that holds repositories.
#![expect(clippy::unwrap_used, reason = "tests; helpers are not seen as such")]

mod refusals;
mod staying;
mod suite;
mod world;
