//! The public API of the crates that other projects depend on, as snapshots: a change of it is a
//! change in `snapshots/`, which a reviewer sees. `cargo insta review` accepts one.
//!
//! It is read from rustdoc's JSON, whose format belongs to one version of the compiler, as
//! `public-api` in Cargo.toml does: both change together. On Linux alone, because the API of
//! `os-sandbox` has parts of one system.
#![cfg(target_os = "linux")]

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const CRATES: [&str; 5] = [
    "file_sandbox",
    "os_sandbox",
    "sandbox_config",
    "sandbox_names",
    "sandbox_network",
];

/// Lets rustdoc write JSON. The variable is for rustdoc alone: build scripts of dependencies look at
/// it too, and would build them again.
const RUSTDOC: &str = "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n";

#[test]
fn a_change_of_the_public_api_is_seen() {
    let json = documented().unwrap();
    for name in CRATES {
        let api = public_api::Builder::from_rustdoc_json(json.join(format!("{name}.json")))
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .omit_auto_derived_impls(true)
            .build()
            .unwrap();
        insta::assert_snapshot!(name, api.to_string());
    }
}

/// The step `cargo doc` of `cargo xtask test` has written it already, and says where.
const DOCUMENTED: &str = "FORGE_TEST_DOCUMENTED";

/// Documents the workspace, with the packages and features of every other step, so that no
/// dependency is built for this; returns the directory of the JSON.
fn documented() -> io::Result<PathBuf> {
    if let Some(there) = std::env::var_os(DOCUMENTED) {
        return Ok(there.into());
    }
    let scratch = tempfile::tempdir()?;
    let rustdoc = scratch.path().join("rustdoc");
    fs::write(&rustdoc, RUSTDOC)?;
    fs::set_permissions(&rustdoc, Permissions::from_mode(0o755))?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args([
            "doc",
            "--quiet",
            "--locked",
            "--workspace",
            "--all-features",
        ])
        .args(["--lib", "--no-deps"])
        .current_dir(&root)
        .env("RUSTDOC", rustdoc)
        .env("RUSTDOCFLAGS", "-Z unstable-options --output-format json");
    let output = cargo.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    Ok(target_dir(&root)?.join("doc"))
}

fn target_dir(root: &Path) -> io::Result<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--format-version", "1"]);
    let output = cargo.current_dir(root).output()?;
    let about: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let directory = about["target_directory"].as_str();
    directory
        .map(PathBuf::from)
        .ok_or(ErrorKind::NotFound.into())
}
