//! Files through directory handles: mounts, modes and limits that no path can evade.
//!
//! For programs that let others (a language model, a plugin, a user) name files. Paths are not
//! checked and then used: every name is looked up on an open directory, so that the checked object
//! is the opened one.
//!
//! # Terms
//! - A **mount** shows one directory of the host at a path in the sandbox, with a **mode** (`ro` or
//!   `rw`) and **limits** (suffixes, size, hard links). The longest target wins.
//! - A **sandbox path** names an object below the sandbox's own `/`. It cannot climb.
//! - A **root** is the target of a mount. It can be neither written nor deleted itself.
//! - An **escape** is a link that leads out of every mount. It is always refused.
//! - **Protected** names can be read but not changed; **hidden** ones are as if absent.
//!
//! # The smallest example
//! ```
//! # let temporary = tempfile::tempdir()?;
//! # let project = temporary.path().join("project");
//! use file_sandbox::{FileSandbox, cap_std::ambient_authority};
//! let files = FileSandbox::direct(&project, None, ambient_authority())?;
//! let note = files.path("/workspace/note.md")?;
//! files.write(&note, "Hello 世界", Default::default())?;
//! assert_eq!(files.read(&note, Default::default())?.content, "Hello 世界");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Allowed and denied
//! ```
//! use file_sandbox::{ErrorKind, FileSandbox, Mode, Mount, SandboxPath, WriteOptions};
//!
//! # let host = tempfile::tempdir()?;
//! let mount = Mount::open_ambient(
//!     SandboxPath::parse("/notes")?,
//!     host.path(),
//!     Mode::ReadWrite,
//!     cap_std::ambient_authority(),
//! )?;
//! let files = FileSandbox::new(vec![mount])?;
//!
//! files.write(&SandboxPath::parse("notes/a.md")?, "Hello 世界", WriteOptions::new())?;
//!
//! # #[cfg(unix)]
//! std::os::unix::fs::symlink("/etc", host.path().join("etc"))?;
//! let denied = files.read(&SandboxPath::parse("notes/etc/passwd")?, Default::default());
//! assert_eq!(denied.unwrap_err().kind(), ErrorKind::Escape);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it does not protect
//! This crate does not confine a program that is started on the directories: that is the task of an
//! OS sandbox. A process that can move a directory out of a mount while an operation runs moves the
//! open handle along.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(all(feature = "search", feature = "edit", feature = "encodings")),
    allow(
        dead_code,
        reason = "helpers and error texts that only some features use"
    )
)]

mod path;

mod mount;

mod sandbox;

mod ops;

#[cfg(feature = "tokio")]
mod async_files;

mod error;

mod backend;
mod cancellation;
mod hash;
mod host;
mod resolve;
mod text;

#[cfg(feature = "tokio")]
pub use async_files::AsyncFiles;
pub use cancellation::CancellationToken;
#[doc(no_inline)]
pub use cap_std;
pub use error::{Error, ErrorKind};
pub use hash::{ContentHash, ParseHashError};
pub use mount::Mount;
pub use mount::limits::{HardLinks, Limits};
pub use mount::mode::{Mode, ParseModeError};
pub use mount::name_rules::{DEFAULT_HIDDEN, DEFAULT_PROTECTED};
pub use ops::{
    AppendOptions, AppendOutcome, DeleteOptions, EntryKind, IgnoredEntries, ListEntry, ListKinds,
    ListOptions, Listing, MoveOptions, MoveOutcome, OpenFile, ReadOptions, SkippedEntry, Stat,
    TextSlice, TotalChars, TruncationReason, WalkOptions, WriteOptions, WriteOutcome,
};
#[cfg(feature = "edit")]
pub use ops::{EditOptions, EditOutcome, MAX_EDITED_BYTES, Replacement};
#[cfg(feature = "search")]
pub use ops::{SearchHit, SearchOptions, SearchResults};
pub use path::SandboxPath;
pub use sandbox::queries::ResolvedLocation;
pub use sandbox::restrict::Restriction;
pub use sandbox::{FileSandbox, FileSandboxBuilder, RootStyle};
pub use text::TextEncoding;
pub use text::mask::TextMask;

#[cfg(all(doctest, feature = "edit"))]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
