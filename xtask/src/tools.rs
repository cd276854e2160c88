//! Programs that are built from source once and kept in the cache, apart from the target
//! directory: building cargo-deny takes minutes, and a fresh clone should not pay again.

use std::path::PathBuf;

use crate::failure::Failure;
use crate::process;
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
