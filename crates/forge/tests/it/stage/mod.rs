//! `forge stage` from outside: what was staged for real bare repositories, looked at, pushed and
//! discarded.

mod discards;
mod looks;
#[cfg(target_os = "linux")]
mod pushes;
#[cfg(target_os = "linux")]
mod stopped;
mod world;
