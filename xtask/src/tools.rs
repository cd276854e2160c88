//! Programs that are built from source once and kept in the cache, apart from the target
//! directory: building cargo-deny takes minutes, and a fresh clone should not pay again.

use std::fs;
use std::path::PathBuf;

use crate::failure::{Context, Failure};
use crate::process;
use crate::scratch::Scratch;
use crate::workspace;

/// A program that is built from its source, as crates name it.
pub(crate) struct Tool {
    pub(crate) package: &'static str,
    program: &'static str,
    /// The releases whose settings are ours.
    version: &'static str,
}

/// Reads `deny.toml`.
pub(crate) const CARGO_DENY: Tool = Tool {
    package: "cargo-deny",
    program: "cargo-deny",
    version: "0.20",
};

/// Reads `dist-workspace.toml`, which names the same version.
pub(crate) const DIST: Tool = Tool {
    package: "cargo-dist",
    program: "dist",
    version: "0.34",
};

/// Reads the metadata of the crate `forge`.
pub(crate) const CARGO_DEB: Tool = Tool {
    package: "cargo-deb",
    program: "cargo-deb",
    version: "3",
};

/// Returns the cached program, or the one in `PATH`, if it is of the right version.
pub(crate) fn find(tool: &Tool) -> Result<Option<PathBuf>, Failure> {
    let cached = workspace::cache_dir()?.join("bin").join(tool.program);
    let candidates = std::iter::once(cached).chain(process::find(tool.program));
    for candidate in candidates {
        let version = process::output(process::command(&candidate).arg("--version"));
        if version.is_ok_and(|text| is_version(&text, tool.version)) {
            return Ok(Some(candidate));
        }
    }
    Ok(None)
}

/// Returns the program of a tool that was installed before.
pub(crate) fn require(tool: &Tool) -> Result<PathBuf, Failure> {
    find(tool)?.ok_or_else(|| Failure::new(format!("{} is not installed", tool.package)))
}

/// Builds the tool into the cache.
pub(crate) fn install(tool: &Tool) -> Result<(), Failure> {
    let cache = workspace::cache_dir()?;
    let mut cargo = process::cargo();
    // Its own target directory: ours is cleaned, and this one is only needed once.
    cargo.env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS");
    cargo.args(["install", "--locked", "--quiet", tool.package, "--version"]);
    cargo
        .arg(format!("^{}", tool.version))
        .arg("--root")
        .arg(cache);
    process::shown(&mut cargo)
}

/// Where packages of Debian are unpacked, each in a directory of its name; the tests look there.
pub(crate) fn unpacked(package: &str) -> Result<PathBuf, Failure> {
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

/// Returns whether `cargo-deny 0.20.2`, or only `0.20.2`, is a release of `0.20`.
fn is_version(text: &str, wanted: &str) -> bool {
    text.split_whitespace()
        .last()
        .and_then(|version| version.strip_prefix(wanted))
        .is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_compared_by_component() {
        assert!(is_version("cargo-deny 0.20.2\n", "0.20"));
        assert!(is_version("3.8.0\n", "3"));
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
