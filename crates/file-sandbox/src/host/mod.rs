//! The host's files, reached from a directory handle one name at a time.
//!
//! This is the only module that makes system calls, and the line at which another backend enters:
//! above it there are names, handles and what lies at a name, no path of the host. No text with a
//! slash and no `..` ever reaches the system, with one exception: [`sys::open_beneath`] hands a
//! path of plain names to `openat2(2)` with `RESOLVE_NO_SYMLINKS`, which is the same walk done by
//! the kernel in one call. Where that is missing (kernels before 5.6, seccomp, macOS) the walk
//! here does it.

pub(crate) mod sys;
mod walk;

pub(crate) use walk::{Budget, Found, Handle, Last, Nested, Stop, Tree, walk};
