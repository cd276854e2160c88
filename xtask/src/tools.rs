//! Programs that are built from source once and kept in the cache, apart from the target
//! directory: building cargo-deny takes minutes, and a fresh clone should not pay again.

use std::fs;
use std::path::PathBuf;

use crate::failure::{Context, Failure};
use crate::process;
use crate::scratch::Scratch;
use crate::workspace;

/// The cargo-deny releases whose `deny.toml` is ours.
const CARGO_DENY: &str = "0.20";

/// The cached cargo-deny, or one on `PATH`, if it is of the right version.
pub(crate) fn cargo_deny() -> Result<Option<PathBuf>, Failure> {
    let cached = workspace::cache_dir()?.join("bin/cargo-deny");
    let candidates = std::iter::once(cached).chain(process::find("cargo-deny"));
    for candidate in candidates {
        let version = process::output(process::command(&candidate).arg("--version"));
        if version.is_ok_and(|text| is_version(&text, CARGO_DENY)) {
            return Ok(Some(candidate));
        }
    }
    Ok(None)
}

/// Builds cargo-deny into the cache.
pub(crate) fn install_cargo_deny() -> Result<(), Failure> {
    let cache = workspace::cache_dir()?;
    let mut cargo = process::cargo();
    // Its own target directory: ours is cleaned, and this one is only needed once.
    cargo.env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS");
    cargo.args(["install", "--locked", "--quiet", "cargo-deny", "--version"]);
    cargo.arg(format!("^{CARGO_DENY}")).arg("--root").arg(cache);
    process::shown(&mut cargo)
}

/// Where packages of Debian are unpacked, each in a directory of its name; the tests look there.
fn unpacked(package: &str) -> Result<PathBuf, Failure> {
    Ok(workspace::cache_dir()?.join("debian").join(package))
}

/// Whether it is there.
pub(crate) fn is_unpacked(package: &str) -> Result<bool, Failure> {
    Ok(unpacked(package)?.is_dir())
}

/// Fetches a package of Debian and unpacks it; nothing is installed.
pub(crate) fn unpack(package: &str) -> Result<(), Failure> {
    let place = unpacked(package)?;
    let above = place.parent().unwrap_or(&place);
    fs::create_dir_all(above).context(above.display())?;
    let scratch = Scratch::new()?;
    // Not as apt's own user: it could not enter the directory.
    let mut apt = process::command("apt-get");
    apt.args(["-o", "APT::Sandbox::User=root", "download", package]);
    process::captured(apt.current_dir(scratch.path())).and_then(|(status, _)| {
        match status.success() {
            true => Ok(()),
            false => Err(Failure::new("apt-get download failed")),
        }
    })?;
    let mut list = fs::read_dir(scratch.path()).context("the package")?;
    let archive = list
        .next()
        .ok_or_else(|| Failure::new("apt-get fetched nothing"))?;
    let archive = archive.context("the package")?.path();
    // Beside its place, so that it is there whole or not at all.
    let half = above.join(format!(".{package}.{}", std::process::id()));
    let done = process::quiet(process::command("dpkg").arg("-x").arg(&archive).arg(&half))
        .and_then(|()| fs::rename(&half, &place).context(place.display()));
    if done.is_err() {
        let _ = fs::remove_dir_all(&half);
    }
    done
}

/// Whether `cargo-deny 0.20.2` is a release of `0.20`.
fn is_version(text: &str, wanted: &str) -> bool {
    text.split_whitespace()
        .nth(1)
        .and_then(|version| version.strip_prefix(wanted))
        .is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_compared_by_component() {
        assert!(is_version("cargo-deny 0.20.2\n", "0.20"));
        for other in [
            "cargo-deny 0.2.0",
            "cargo-deny 0.200.1",
            "cargo-deny 0.19.9",
            "cargo-deny",
            "",
        ] {
            assert!(!is_version(other, "0.20"), "{other}");
        }
    }
}
