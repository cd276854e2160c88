//! Linux only: its enforcers, `openat2`, and sockets with abstract names.

use crate::column::Column;
use crate::commands::support;
use crate::world::say;
use std::collections::BTreeMap;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// Returns an error with the reason if this host lacks a column.
pub(crate) fn here(column: Column) -> Result<(), String> {
    let abi = support().landlock_abi();
    let landlock = |wanted: u32| {
        if abi >= wanted {
            Ok(())
        } else {
            Err(format!("this kernel's Landlock has version {abi}"))
        }
    };
    let mounts = || match support().bubblewrap() {
        Some(_) => Ok(()),
        None => Err("no bubblewrap that works".to_owned()),
    };
    match column {
        Column::Policy | Column::Files | Column::Walk | Column::Memory | Column::Judged => Ok(()),
        Column::Landlock(wanted) => landlock(wanted),
        Column::Bubblewrap => mounts(),
        Column::Layered => mounts().and(landlock(column.abi())),
        Column::Namespaces if support().namespaces() => landlock(column.abi()),
        Column::Namespaces => Err("no namespaces of the launcher that work".to_owned()),
        Column::Seatbelt => Err("not macOS".to_owned()),
        Column::Birdcage => match support().birdcage() {
            Some(_) => landlock(column.abi()),
            None => Err(birdcage::why_not(support())),
        },
        Column::Docker if support().docker() => Ok(()),
        Column::Docker => Err(crate::engine::why_not()),
    }
}

/// Detects the mechanisms of this host.
pub(crate) fn detect() -> os_sandbox::Support {
    crate::engine::with(birdcage::detect())
}

/// The program `os-sandbox-birdcage`, beside this one.
#[cfg(feature = "birdcage")]
mod birdcage {
    use os_sandbox::Support;

    pub(super) fn detect() -> Support {
        Support::detect().with_birdcage(None)
    }

    pub(super) fn why_not(support: &Support) -> String {
        let missing = support.missing().into_iter();
        let mut reasons = missing.filter(|(what, ..)| *what == "birdcage");
        reasons
            .next()
            .map_or_else(String::new, |(_, reason, _)| reason.to_owned())
    }
}

#[cfg(not(feature = "birdcage"))]
mod birdcage {
    use os_sandbox::Support;

    pub(super) fn detect() -> Support {
        Support::detect()
    }

    pub(super) fn why_not(_: &Support) -> String {
        "built without the feature birdcage".to_owned()
    }
}

/// For this process and those that it starts, `openat2(2)` does not exist.
pub(crate) fn hide_openat2() -> Result<(), String> {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    /// `__NR_openat2`, equal on every architecture.
    const NUMBER: i64 = 437;
    let filter = SeccompFilter::new(
        BTreeMap::from([(NUMBER, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(nix::errno::Errno::ENOSYS as u32),
        std::env::consts::ARCH.try_into().map_err(say)?,
    );
    let program = BpfProgram::try_from(filter.map_err(say)?).map_err(say)?;
    seccompiler::apply_filter(&program).map_err(say)?;
    // Why: a mislabelled column would be worse than a missing one.
    let answer = nix::fcntl::openat2(nix::fcntl::AT_FDCWD, ".", nix::fcntl::OpenHow::new());
    match answer {
        Err(nix::errno::Errno::ENOSYS) => Ok(()),
        other => Err(format!("openat2 was to be hidden, and answers {other:?}")),
    }
}

pub(crate) fn abstract_listener(name: &str) -> Result<Option<UnixListener>, String> {
    let address = SocketAddr::from_abstract_name(name).map_err(say)?;
    UnixListener::bind_addr(&address).map(Some).map_err(say)
}

pub(crate) fn abstract_connect(name: &str) -> io::Result<()> {
    let address = SocketAddr::from_abstract_name(name)?;
    UnixStream::connect_addr(&address).map(drop)
}
