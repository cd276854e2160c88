//! Builds the launcher: a static program without libc, for the target that the crate is built
//! for, with the compiler that builds the crate. It needs no cargo, no network, no C compiler; only
//! the linker that links every Rust program. See `launcher/main.rs` for what it is.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=launcher");
    println!("cargo::rerun-if-changed=build.rs");
    let os = env::var("CARGO_CFG_TARGET_OS")?;
    let arch = env::var("CARGO_CFG_TARGET_ARCH")?;
    if os != "linux" {
        return Ok(());
    }
    if !matches!(arch.as_str(), "x86_64" | "aarch64") {
        return Err(format!(
            "os-sandbox confines on Linux on x86_64 and aarch64; this target is {arch}. \
             System call numbers and the launcher's entry point are written per architecture."
        )
        .into());
    }
    let target = env::var("TARGET")?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?).join("launcher");
    let rustc = env::var_os("RUSTC").ok_or("RUSTC is not set")?;
    let mut command = Command::new(&rustc);
    command
        .args([
            "--crate-name",
            "launcher",
            "--crate-type",
            "bin",
            "--edition",
            "2024",
        ])
        .args(["--target", &target])
        .args([
            "-C",
            "panic=abort",
            "-C",
            "opt-level=s",
            "-C",
            "lto",
            "-C",
            "codegen-units=1",
        ])
        .args([
            "-C",
            "relocation-model=static",
            "-C",
            "target-feature=+crt-static",
        ])
        .args([
            "-C",
            "overflow-checks=on",
            "-C",
            "debuginfo=0",
            "-C",
            "strip=symbols",
        ])
        .args(["-C", "force-unwind-tables=no"])
        .args([
            "-C",
            "link-arg=-nostartfiles",
            "-C",
            "link-arg=-nostdlib",
            "-C",
            "link-arg=-static",
        ])
        .args([
            "-C",
            "link-arg=-Wl,--build-id=none,-z,noexecstack,-z,norelro",
        ])
        .arg("launcher/main.rs")
        .arg("-o")
        .arg(&out);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = std::ffi::OsString::from("linker=");
        option.push(linker);
        command.arg("-C").arg(option);
    }
    // Flags meant for the crate (coverage, sanitizers, other linkers' arguments) would bring a
    // runtime along that a program without libc cannot have.
    command
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    let output = command
        .output()
        .map_err(|error| format!("could not start {}: {error}", rustc.display()))?;
    if !output.status.success() {
        return Err(format!(
            "the launcher of os-sandbox could not be built for {target}.\n\
             It is linked like any Rust program; cross builds need a linker for the target \
             (CARGO_TARGET_<TARGET>_LINKER).\n{}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    Ok(())
}
