//! birdcage: by name only, what it leaks covered or refused, and what it leaves on the host.

use crate::fixture::{Mechanism, World, open, said};
use crate::outcome::say;
use crate::report::Report;
use os_sandbox::{
    Backend, Command, Network, Plan, Policy, Promise, PromiseState, Requirement, Support,
};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// This host with birdcage, tried once.
pub(crate) fn support() -> Support {
    static SUPPORT: OnceLock<Support> = OnceLock::new();
    let look = || Support::detect().with_birdcage(Some(&program()));
    SUPPORT.get_or_init(look).clone()
}

/// Where cargo puts programs, one above its tests, or where somebody has copied both so.
fn program() -> PathBuf {
    let me = std::env::current_exe().expect("own path");
    let above = me.parent().and_then(Path::parent);
    above
        .map(|directory| directory.join("os-sandbox-birdcage"))
        .unwrap_or_else(|| PathBuf::from("os-sandbox-birdcage"))
}

/// Nobody gets it without asking for it, and where it does not work it says why.
pub(crate) fn named() -> usize {
    let mut report = Report::new(Mechanism::BirdcageAlone);
    if program().exists() {
        report.case("works where bubblewrap does", works());
    } else {
        let how = "cargo build -p os-sandbox-birdcage has not been run";
        report.skip("works where bubblewrap does", how);
    }
    report.case("by name only", by_name());
    report.case("programs that are none", wrong_programs());
    report.failures()
}

fn works() -> Result<(), String> {
    let support = support();
    match (support.birdcage(), support.bubblewrap()) {
        (None, Some(_)) => Err(format!("{support}")),
        _ => Ok(()),
    }
}

fn by_name() -> Result<(), String> {
    let policy = Policy::builder().build().map_err(say)?;
    let plan = Plan::new(&policy, &support(), Requirement::BestEffort).map_err(say)?;
    if plan.backend() == Backend::Birdcage {
        return Err("chosen without being asked for".to_owned());
    }
    let support = Support::detect();
    let asked = Plan::with_mechanism(
        &policy,
        &support,
        Requirement::BestEffort,
        Backend::Birdcage,
    );
    match asked {
        Err(refused) if refused.hint().contains("with_birdcage") => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

fn wrong_programs() -> Result<(), String> {
    for (path, why) in [
        ("/nonexistent", "is not there"),
        ("/bin/true", "does not work"),
        ("/etc/passwd", "does not work"),
    ] {
        let support = Support::detect().with_birdcage(Some(Path::new(path)));
        let missing = support.missing();
        let row = missing.iter().find(|row| row.0 == "birdcage");
        if support.birdcage().is_some() || !row.is_some_and(|row| row.1.contains(why)) {
            return Err(format!("{path}: {row:?}"));
        }
    }
    Ok(())
}

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    report.case("what a command cannot do", attempts(mechanism));
    report.case("kernel settings", settings(mechanism));
    report.case("protected names", protected(mechanism));
    report.case("loopback is closed", loopback(mechanism));
    report.case("descriptors and variables", inherited(mechanism));
    report.case("the broker stays free", broker_free(mechanism));
}

/// None does harm if it gets through.
fn attempts(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let plan = world.plan();
    for script in [
        "cat {outside}/file",
        "ls {outside}",
        "echo x > {ro}/file",
        "rm {ro}/file",
        "chmod 777 {ro}/file",
        "echo x > {outside}/new",
        "cat /etc/shadow",
        "cat {rw}/link",
        "{ro}/script",
        ": >> /usr/bin/env",
        "chmod 666 /dev/null",
        ": >> /etc/passwd",
        "echo x > {rw}/pinned/x",
        "ls /sys/kernel",
        "mount -t tmpfs none {rw}",
        "unshare -U true",
        "kill -0 1",
        "cat /proc/1/environ",
        "readlink /proc/1/fd/0",
    ] {
        let output = world.sh(&plan, script).map_err(say)?;
        // birdcage's own first process belongs to the same namespace: a signal that says nothing
        // can be sent to it where Landlock does not keep signals in.
        let harmless = script == "kill -0 1" && mechanism == Mechanism::BirdcageAlone;
        if output.exit.success() && !harmless {
            return Err(format!("{script}: {output:?}"));
        }
    }
    let output = world.sh(&plan, "echo y > {rw}/new; cat {rw}/new {ro}/file");
    if said(output) != "y\nro content" {
        return Err("what is allowed does not work".to_owned());
    }
    world.unharmed()
}

/// A command of uid 0 owns /proc/sys in there: refused without Landlock, closed with it.
fn settings(mechanism: Mechanism) -> Result<(), String> {
    let policy = Policy::builder().build().map_err(say)?;
    let support = match mechanism {
        Mechanism::BirdcageAlone => support().with_landlock_at_most(0),
        _ => support(),
    };
    let plan = Plan::with_mechanism(&policy, &support, Requirement::Enforce, Backend::Birdcage);
    let root = nix::unistd::geteuid().is_root();
    let leaks = root && mechanism == Mechanism::BirdcageAlone;
    let plan = match plan {
        Err(refused) if leaks => {
            let gaps: Vec<Promise> = refused.gaps().iter().map(|gap| gap.promise).collect();
            return match gaps.contains(&Promise::KernelSettings) {
                true => Ok(()),
                false => Err(refused.to_string()),
            };
        }
        Ok(plan) if !leaks => plan,
        other => return Err(format!("{other:?}")),
    };
    // Opened, not written.
    let script = "for f in kernel/core_pattern vm/overcommit_memory; do
        (: >> /proc/sys/$f) 2>/dev/null && echo $f; done; true";
    let output = Command::new(&open(plan), "sh")
        .args(["-c", script])
        .output();
    match said(output).as_str() {
        "" => Ok(()),
        open => Err(format!("can be written: {open}")),
    }
}

fn protected(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let git = world.host("rw").join("nested/.git");
    std::fs::create_dir_all(git.join("hooks")).map_err(say)?;
    std::fs::write(git.join("config"), "[core]").map_err(say)?;
    let policy = world.policy();
    let policy = policy
        .protect(".git/hooks")
        .protect(".git/config")
        .protect(".envrc");
    let plan = mechanism.plan(&policy.build().map_err(say)?);
    let script = "cd rw
        echo x > nested/.git/hooks/pre-commit
        echo x > nested/.git/config
        mv nested/.git aside
        rm -rf nested/.git
        mv nested other
        echo x > .envrc
        rm -f .envrc
        echo data > nested/.git/index && echo written";
    let output = world.sh(&plan, script).map_err(say)?;
    let kept = std::fs::read_to_string(git.join("config")).map_err(say)? == "[core]"
        && std::fs::read_dir(git.join("hooks")).map_err(say)?.count() == 0
        && git.join("index").exists()
        && !world.host("rw").join(".envrc").exists();
    match output.stdout.text().as_ref() {
        "written\n" if kept => Ok(()),
        _ => Err(format!("{output:?}")),
    }
}

/// Nothing of the host's can be reached, and the plan says that neither can one's own.
fn loopback(mechanism: Mechanism) -> Result<(), String> {
    let policy = Policy::builder().network(Network::Loopback);
    let policy = policy.build().map_err(say)?;
    let plan =
        |requirement| Plan::with_mechanism(&policy, &support(), requirement, Backend::Birdcage);
    if plan(Requirement::Enforce).is_ok() {
        return Err(format!("planned under {}", mechanism.name()));
    }
    let plan = plan(Requirement::BestEffort).map_err(say)?;
    let degraded = plan
        .gaps()
        .any(|gap| gap.promise == Promise::Network && gap.state == PromiseState::Degraded);
    let proof = open(plan.clone()).prove().map_err(say)?;
    match degraded && proof.holds() {
        true => Ok(()),
        false => Err(format!("{plan}{proof}")),
    }
}

/// birdcage hands on what is open, so nothing may be: here a directory that its caller has open
/// without close-on-exec.
fn inherited(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let directory = std::fs::File::open(world.host("outside")).map_err(say)?;
    nix::fcntl::fcntl(
        &directory,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()),
    )
    .map_err(say)?;
    let plan = world.plan();
    let fds = world.probe(&plan, &["fds".to_owned()]);
    let env = world.probe(&plan, &["env".to_owned()]);
    let clean = !env.contains("OS_SANDBOX_") && !env.contains("BASH_ENV");
    match fds == "ok 0 1 2" && clean {
        true => Ok(()),
        false => Err(format!("{fds}; {env}")),
    }
}

/// Neither this process nor the host has changed after a run.
fn broker_free(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let look = || {
        let namespaces = ["user", "mnt", "pid", "net", "ipc"]
            .map(|name| std::fs::read_link(format!("/proc/self/ns/{name}")).ok());
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let filters: Vec<String> = status
            .lines()
            .filter(|line| line.starts_with("Seccomp") || line.starts_with("NoNewPrivs"))
            .map(str::to_owned)
            .collect();
        (namespaces, filters, std::env::vars_os().count())
    };
    let before = look();
    world.sh(&world.plan(), "true").map_err(say)?;
    match look() == before {
        true => world.unharmed(),
        false => Err(format!("{before:?} and now {:?}", look())),
    }
}
