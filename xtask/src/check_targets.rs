//! `cargo xtask check-targets`: type-checks the workspace for macOS, and os-sandbox's launcher for
//! the other processor it knows, from Linux.
//!
//! The pinned toolchain comes without other targets. Debian packages a compiler together with
//! its own standard library's source (`rustc-web`, `rust-web-src`, made for browsers); unpacked,
//! not installed, they check any target with `-Zbuild-std`. A check never links, so C build
//! scripts get a stub for a compiler.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::failure::{Context, Failure};
use crate::process;
use crate::workspace::{self, EVERYTHING};

pub(crate) const ABOUT: &str =
    "type-check for macOS from Debian (--if-available: skip where that is impossible)";

const TARGETS: [&str; 2] = ["aarch64-apple-darwin", "x86_64-apple-darwin"];

/// The launcher is built by a build script, for the crate's own target, so a check of the
/// workspace never reaches its assembly and system call numbers for another processor.
const LAUNCHER_TARGET: &str = "aarch64-unknown-linux-gnu";

/// What to unpack; their versions and the rest come from the package index.
const PACKAGES: [&str; 2] = ["rustc-web", "rust-web-src"];

/// Parts of that compiler, to be unpacked beside it even where the system has some.
const PARTS: [&str; 3] = ["libstd-rust-web", "libllvm", "rust"];

/// More packages than this is not the compiler we know.
const MAX_PACKAGES: usize = 40;

const STUB: &str = "\
#!/bin/sh
# A check never links, so no object has to hold anything: make the files that are asked for.
out= previous=
for argument do
    case $previous in -o) out=$argument ;; esac
    case $argument in *.a) out=${out:-$argument} ;; esac
    previous=$argument
done
[ -z \"$out\" ] || : >\"$out\"
";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let optional = match arguments {
        [] => false,
        [flag] if flag == "--if-available" => true,
        _ => {
            return Err(Failure::Usage(
                "expected nothing or `--if-available`".into(),
            ));
        }
    };
    let packages = match packages() {
        Ok(packages) => packages,
        Err(why) if optional => {
            println!("check-targets: skipped: {why}");
            return Ok(());
        }
        Err(why) => return Err(why),
    };
    let dir = workspace::cache_dir()?.join("check-targets");
    let root = match unpacked(&dir, &packages) {
        // An index older than the archive names files that are gone.
        Err(_) if process::is_root() => {
            update_index()?;
            unpacked(&dir, &resolve()?)?
        }
        result => result?,
    };
    let stub = dir.join("stub-cc");
    fs::write(&stub, STUB).context(stub.display())?;
    fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).context(stub.display())?;

    for target in TARGETS {
        let mut cargo = cargo(&root, &dir, target)?;
        cargo
            .args(EVERYTHING)
            .args(["--all-targets", "--keep-going", "-Zbuild-std=std"]);
        let variable = target.replace('-', "_");
        for tool in ["CC", "CXX", "AR"] {
            cargo.env(format!("{tool}_{variable}"), &stub);
        }
        checked(target, &mut cargo)?;
    }
    let manifest = launcher_manifest(&dir)?;
    let mut cargo = cargo(&root, &dir, LAUNCHER_TARGET)?;
    cargo
        .arg("-Zbuild-std=core")
        .arg("--manifest-path")
        .arg(manifest);
    checked(&format!("the launcher for {LAUNCHER_TARGET}"), &mut cargo)
}

/// `cargo check` for a target, by the unpacked compiler.
fn cargo(root: &Path, dir: &Path, target: &str) -> Result<Command, Failure> {
    let mut cargo = process::cargo();
    cargo
        .args(["check", "--target", target])
        .env("RUSTC", root.join("usr/bin/rustc"))
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-D warnings")
        .env("LD_LIBRARY_PATH", library_dir(root)?)
        .env("CARGO_TARGET_DIR", dir.join("target"));
    Ok(cargo)
}

fn checked(what: &str, cargo: &mut Command) -> Result<(), Failure> {
    let start = Instant::now();
    process::quiet(cargo)?;
    println!(
        "check-targets: {what} ok, {:.0} s",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// A package of its own around the launcher's source, outside the workspace.
fn launcher_manifest(dir: &Path) -> Result<PathBuf, Failure> {
    let source = workspace::root().join("crates/os-sandbox/launcher/main.rs");
    let manifest = format!(
        "[package]\nname = \"launcher\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [workspace]\n[profile.dev]\npanic = \"abort\"\n\
         [[bin]]\nname = \"launcher\"\npath = {:?}\ntest = false\n",
        source.display().to_string()
    );
    let package = dir.join("launcher");
    fs::create_dir_all(&package).context(package.display())?;
    let path = package.join("Cargo.toml");
    fs::write(&path, manifest).context(path.display())?;
    Ok(path)
}

/// The packages to unpack, with the versions this machine's index offers. The index is brought
/// up to date once if it does not know them.
fn packages() -> Result<BTreeMap<String, String>, Failure> {
    for program in ["apt-get", "apt-cache", "dpkg", "dpkg-query"] {
        if process::find(program).is_none() {
            return Err(Failure::new(format!(
                "this takes Debian's packages, and there is no {program}"
            )));
        }
    }
    match resolve() {
        Err(_) if process::is_root() => {
            update_index()?;
            resolve()
        }
        result => result,
    }
}

fn update_index() -> Result<(), Failure> {
    process::quiet(process::command("apt-get").args(["--quiet", "update"]))
}

fn resolve() -> Result<BTreeMap<String, String>, Failure> {
    let mut found = BTreeMap::new();
    let mut open: Vec<String> = PACKAGES.map(str::to_owned).to_vec();
    while let Some(package) = open.pop() {
        if found.contains_key(&package) {
            continue;
        }
        if found.len() == MAX_PACKAGES {
            return Err(Failure::new(
                "the compiler's package wants more packages than expected",
            ));
        }
        let policy = process::output(process::command("apt-cache").args(["policy", &package]))?;
        let version = candidate(&policy)
            .ok_or_else(|| Failure::new(format!("the package index has no {package}")))?;
        let depends = process::output(process::command("apt-cache").args([
            "depends",
            "--important",
            &package,
        ]))?;
        open.extend(dependencies(&depends).filter(|name| is_part(name) || !is_installed(name)));
        found.insert(package, version);
    }
    Ok(found)
}

/// The `Candidate:` of `apt-cache policy`.
fn candidate(policy: &str) -> Option<String> {
    policy
        .lines()
        .find_map(|line| line.trim().strip_prefix("Candidate:"))
        .map(|version| version.trim().to_owned())
        .filter(|version| version != "(none)")
}

/// The real packages among the `Depends:` of `apt-cache depends`; of alternatives the last.
fn dependencies(depends: &str) -> impl Iterator<Item = String> {
    depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends:"))
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.starts_with('<'))
}

fn is_part(package: &str) -> bool {
    PARTS.iter().any(|part| package.starts_with(part))
}

fn is_installed(package: &str) -> bool {
    let mut query = process::command("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", package]);
    process::captured(&mut query)
        .is_ok_and(|(status, text)| status.success() && text == "installed")
}

/// The directory with the unpacked packages, downloaded only if their versions changed.
fn unpacked(dir: &Path, packages: &BTreeMap<String, String>) -> Result<PathBuf, Failure> {
    let list: String = packages
        .iter()
        .map(|(name, version)| format!("{name}={version}\n"))
        .collect();
    let (root, stamp) = (dir.join("root"), dir.join("packages"));
    if fs::read_to_string(&stamp).is_ok_and(|old| old == list) {
        return Ok(root);
    }
    println!("check-targets: fetching a compiler with its sources (once):\n{list}");
    let downloads = dir.join("downloads");
    for old in [&root, &downloads, &dir.join("target")] {
        if old.exists() {
            fs::remove_dir_all(old).context(old.display())?;
        }
    }
    fs::create_dir_all(&downloads).context(downloads.display())?;
    let mut apt = process::command("apt-get");
    apt.current_dir(&downloads)
        .args(["--quiet", "download"])
        .args(list.lines());
    process::quiet(&mut apt)?;
    for file in fs::read_dir(&downloads).context(downloads.display())? {
        let file = file.context(downloads.display())?.path();
        process::quiet(process::command("dpkg").arg("-x").arg(file).arg(&root))?;
    }
    fs::remove_dir_all(&downloads).context(downloads.display())?;
    // Last: a run cut short starts over.
    fs::write(&stamp, list).context(stamp.display())?;
    Ok(root)
}

/// `usr/lib/x86_64-linux-gnu`, whatever this machine is.
fn library_dir(root: &Path) -> Result<PathBuf, Failure> {
    let lib = root.join("usr/lib");
    for entry in fs::read_dir(&lib).context(lib.display())? {
        let entry = entry.context(lib.display())?;
        if entry.file_name().to_string_lossy().ends_with("-linux-gnu") {
            return Ok(entry.path());
        }
    }
    Err(Failure::new(format!(
        "{}: no directory of libraries",
        lib.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_candidate_is_read_from_the_policy() {
        let policy = "rustc-web:\n  Installed: (none)\n  Candidate: 1.96.0+dfsg1-1~deb12u2\n";
        assert_eq!(candidate(policy).as_deref(), Some("1.96.0+dfsg1-1~deb12u2"));
        assert_eq!(candidate("x:\n  Candidate: (none)\n"), None);
        assert_eq!(candidate(""), None);
    }

    #[test]
    fn dependencies_are_real_packages() {
        let depends = "rustc-web\n  Depends: libc6\n |Depends: mawk\n  Depends: <libc-dev>\n    libc6-dev\n  Depends: libllvm22\n";
        assert_eq!(
            dependencies(depends).collect::<Vec<_>>(),
            ["libc6", "libllvm22"]
        );
    }
}
