//! macOS only: the profile under the real `sandbox-exec`.

use crate::column::Column;
use crate::commands::support;
use os_sandbox::Support;
use std::io;
use std::os::unix::net::UnixListener;

/// Returns an error with the reason if this host lacks a column.
pub(crate) fn here(column: Column) -> Result<(), String> {
    match column {
        // Without openat2 both are the portable resolver.
        Column::Policy | Column::Files | Column::Walk | Column::Memory | Column::Judged => Ok(()),
        Column::Landlock(_)
        | Column::Bubblewrap
        | Column::Layered
        | Column::Namespaces
        | Column::Birdcage => Err("not Linux".to_owned()),
        Column::Seatbelt if support().seatbelt() => Ok(()),
        Column::Seatbelt => Err("no Seatbelt that works".to_owned()),
        Column::Docker => Err("not tried here: the probe is not a Linux program".to_owned()),
    }
}

/// Detects the mechanisms of this host.
pub(crate) fn detect() -> Support {
    Support::detect()
}

/// Does nothing: macOS has no `openat2`.
pub(crate) fn hide_openat2() -> Result<(), String> {
    Ok(())
}

/// Returns `None`: macOS has no abstract names.
pub(crate) fn abstract_listener(_: &str) -> Result<Option<UnixListener>, String> {
    Ok(None)
}

pub(crate) fn abstract_connect(_: &str) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
