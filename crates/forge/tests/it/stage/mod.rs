//! `forge stage` from outside: what was staged for real bare repositories, looked at, pushed and
//! discarded.

mod looks;
mod world;
