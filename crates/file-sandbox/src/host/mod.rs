//! The host's files, reached from a directory handle one name at a time.
//!
//! This is the only module that makes system calls. No text with a slash and no `..` ever reaches
//! the system, with one exception: [`sys::open_beneath`] hands a path of plain names to
//! `openat2(2)` with `RESOLVE_NO_SYMLINKS`, which is the walk of `path_walk.rs` in one call of the
//! kernel. Without it (kernels before 5.6, seccomp, macOS) the walk does the work.

mod dir;
pub(crate) mod sys;

pub(crate) use dir::{HostDir, HostFile, HostNames};
