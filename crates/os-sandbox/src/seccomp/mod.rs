//! The system call filter: a table of rules (`rules`), its meaning (`Table::decide`), and a
//! compiler from the table to the kernel's BPF (`compile`). All pure: compiled in the broker,
//! installed by the launcher, tested against an interpreter of BPF on every system.
//!
//! Semantics of the kernel: <https://man7.org/linux/man-pages/man2/seccomp.2.html>

mod compile;
mod numbers;
mod observed;
mod rules;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use compile::{bytes, compile};
pub use numbers::Arch;
pub use observed::ObservedCalls;
pub(crate) use observed::{CallKind, CallRow};
pub use rules::{FilterSpec, InternetSocketRule, UnixSocketRule, WatchRule, table};
pub use table::{Action, Clause, ENOSYS, EPERM, Range, Rule, Table, Test};
