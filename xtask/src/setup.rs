//! `cargo xtask setup`: makes this machine able to run `cargo xtask test`. Says what it installs
//! and why, does nothing the second time, and never leaves a step out quietly.

use std::io::Write as _;
use std::process::Command;

use crate::failure::Failure;
use crate::mcp;
use crate::process;
use crate::tools;

pub(crate) const ABOUT: &str = "install what the tests need (apt or brew; cargo-deny into the cache, the judges of MCP into target; --clients: real MCP clients, 1 GB, too)";

/// A program the tests start, and the packages that bring it.
struct Need {
    program: &'static str,
    why: &'static str,
    /// `None`: the system has no package of it, and the tests there do without.
    apt: Option<&'static str>,
    brew: Option<&'static str>,
}

const NEEDS: &[Need] = &[
    Need {
        program: "git",
        why: "the README's commands run in a copy of what git tracks",
        apt: Some("git"),
        brew: Some("git"),
    },
    Need {
        program: "bwrap",
        why: "the mount and namespace layer of os-sandbox",
        apt: Some("bubblewrap"),
        brew: None,
    },
    Need {
        program: "setpriv",
        why: "runs the sandbox tests as an ordinary user",
        apt: Some("util-linux"),
        brew: None,
    },
    Need {
        program: "docker",
        why: "the client of the Docker runner",
        apt: Some("docker.io"),
        brew: Some("docker"),
    },
    Need {
        program: "dockerd",
        why: "the daemon of the Docker runner (started by the tests, for themselves)",
        apt: Some("docker.io"),
        brew: None,
    },
    Need {
        program: "rg",
        why: "the measure for searching and globbing",
        apt: Some("ripgrep"),
        brew: Some("ripgrep"),
    },
    Need {
        program: "python3",
        why: "a target that opens sockets and starts processes",
        apt: Some("python3"),
        brew: Some("python3"),
    },
];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let clients = match arguments {
        [] => false,
        [flag] if flag == "--clients" => true,
        _ => return Err(Failure::Usage("expected nothing or `--clients`".into())),
    };
    let missing: Vec<&Need> = NEEDS
        .iter()
        .filter(|need| process::find(need.program).is_none())
        .collect();
    let there: Vec<&str> = NEEDS
        .iter()
        .map(|need| need.program)
        .filter(|program| process::find(program).is_some())
        .collect();
    say(&format!("already there: {}", there.join(", ")));
    install_packages(&missing)?;

    if let Some(path) = tools::find(&tools::CARGO_DENY)? {
        say(&format!("already there: cargo-deny ({})", path.display()));
    } else {
        say(
            "building cargo-deny into the cache (once, a few minutes): checks licences, bans and sources",
        );
        tools::install(&tools::CARGO_DENY)?;
        if tools::find(&tools::CARGO_DENY)?.is_none() {
            return Err(Failure::new("cargo-deny was installed but does not start"));
        }
    }
    unpack_packages()?;
    from_npm()?;
    if clients {
        mcp_clients()?;
    }
    say("ready: run `cargo xtask test`");
    Ok(())
}

/// What the tests of containers take out of a package that nobody needs installed.
const UNPACKED: [(&str, &str); 3] = [
    ("busybox-static", "an image of one program"),
    ("openssh-server", "an engine that is reached by ssh"),
    ("libwrap0", "a library of openssh-server"),
];

fn unpack_packages() -> Result<(), Failure> {
    let missing: Vec<_> = UNPACKED
        .iter()
        .filter_map(|(package, why)| match tools::is_unpacked(package) {
            Ok(true) => None,
            Ok(false) => Some(Ok((package, why))),
            Err(failure) => Some(Err(failure)),
        })
        .collect::<Result<_, _>>()?;
    if missing.is_empty() {
        say("already there: packages of Debian in the cache");
        return Ok(());
    }
    if process::find("apt-get").is_none() || process::find("dpkg").is_none() {
        for (package, why) in missing {
            say(&format!(
                "not on this system: Debian's {package} ({why}); its tests are skipped"
            ));
        }
        return Ok(());
    }
    for (package, why) in missing {
        say(&format!("unpacking {package} into the cache: {why}"));
        // The list of packages may be old, or none.
        if tools::unpack(package).is_err() {
            process::quiet(apt(&[package])?.arg("update"))?;
            if let Err(failure) = tools::unpack(package) {
                say(&format!(
                    "{package} cannot be had ({failure}); its tests are skipped"
                ));
            }
        }
    }
    Ok(())
}

/// npm itself is not installed: it brings hundreds of packages of its own on some systems.
fn from_npm() -> Result<(), Failure> {
    say("the judges of MCP, from npm into the target directory");
    match mcp::install()? {
        Some(mcp::Installed::Before) => say("already there: the judges of MCP"),
        Some(mcp::Installed::Now) => {
            say("installed: the conformance suite and the inspector of MCP, and a Node for them");
        }
        None => say(
            "not on this system: npm, or a Node from it; the judges of MCP are skipped by \
             `cargo xtask test`",
        ),
    }
    Ok(())
}

/// Installs the clients that read what `forge mcp install` writes.
fn mcp_clients() -> Result<(), Failure> {
    say(
        "MCP clients, from npm into the cache (about 1 GB): they read what `forge mcp install` writes",
    );
    match mcp::install_clients()? {
        Some(mcp::Installed::Before) => say("already there: MCP clients"),
        Some(mcp::Installed::Now) => say("installed: MCP clients"),
        None => say("not on this system: npm; MCP clients are skipped by `cargo xtask test`"),
    }
    Ok(())
}

fn install_packages(missing: &[&Need]) -> Result<(), Failure> {
    if missing.is_empty() {
        return Ok(());
    }
    let (manager, package): (&str, fn(&Need) -> Option<&'static str>) = if cfg!(target_os = "macos")
    {
        ("brew", |need| need.brew)
    } else {
        ("apt-get", |need| need.apt)
    };
    let mut packages: Vec<&str> = Vec::new();
    for need in missing {
        match package(need) {
            Some(package) => {
                say(&format!(
                    "installing {package} for `{}`: {}",
                    need.program, need.why
                ));
                if !packages.contains(&package) {
                    packages.push(package);
                }
            }
            None => say(&format!(
                "not on this system: `{}` ({}); its tests are skipped",
                need.program, need.why
            )),
        }
    }
    if packages.is_empty() {
        return Ok(());
    }
    if process::find(manager).is_none() {
        return Err(Failure::new(format!(
            "there is no {manager} here; install these by hand: {}",
            packages.join(" ")
        )));
    }
    if manager == "brew" {
        process::shown(process::command("brew").arg("install").args(&packages))?;
    } else {
        let install = ["install", "--yes", "--no-install-recommends"];
        process::quiet(apt(&packages)?.arg("update"))?;
        process::quiet(apt(&packages)?.args(install).args(&packages))?;
    }
    // A package that no longer holds its program must not pass for success.
    let still: Vec<&str> = missing
        .iter()
        .filter(|need| package(need).is_some() && process::find(need.program).is_none())
        .map(|need| need.program)
        .collect();
    match still.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "installed, but still not in PATH: {}",
            still.join(", ")
        ))),
    }
}

/// apt-get as root, or through sudo if that needs no password.
fn apt(packages: &[&str]) -> Result<Command, Failure> {
    let mut command = if process::is_root() {
        let mut command = process::command("env");
        command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]);
        command
    } else if process::quiet(process::command("sudo").args(["-n", "true"])).is_ok() {
        let mut command = process::command("sudo");
        command.args(["-n", "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
        command
    } else {
        return Err(Failure::new(format!(
            "not root, and sudo without a password is not available; run this and start again:\n  \
             sudo apt-get update && sudo apt-get install --yes --no-install-recommends {}",
            packages.join(" ")
        )));
    };
    command.args(["--quiet", "-o", "DPkg::Lock::Timeout=120"]);
    Ok(command)
}

fn say(line: &str) {
    println!("setup: {line}");
    // Before the output of what it announces.
    let _ = std::io::stdout().flush();
}
