//! Names that are held below a writable mount: by whom they are mounted (our first process by
//! descriptor, or bubblewrap by path), what a command tries against them, and what somebody who
//! swaps directories for links while commands start gets out of it.

use crate::fixture::{Mechanism, World, open, probe_program};
use crate::hide;
use crate::outcome::{ensure, say};
use crate::report::Report;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use os_sandbox::{
    Access, Backend, Command, Exit, HostSpec, Plan, Policy, PolicyBuilder, Requirement, Support,
};
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Starts in each race.
const STARTS: usize = 200;
/// Factor by which [`STARTS`] grows until one start gets through.
const MORE_STARTS: usize = 20;

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    if !mechanism.has_mount_layer() {
        return;
    }
    let outcome = attacks(mechanism);
    report.case("a command against its pins", outcome);
    report.case("a command against its pins, unfiltered", unfiltered());
    report.case("parts with more access", widened(mechanism));
    report.case("who the command is", identity(mechanism));
    for (name, decoy) in [("an empty directory", false), ("a copy", true)] {
        let outcome = race(mechanism, decoy);
        report.case(&format!("swapped for {name} while starting"), outcome);
    }
}

/// Hosts that do not let us make mounts by descriptor: bubblewrap does it, and the plan says so.
pub(crate) fn stricter() -> usize {
    let mut report = Report::new(Mechanism::Bubblewrap);
    if !Support::detect().pins_by_descriptor() {
        report.skip("a stricter host", "this is one");
        return 0;
    }
    for hidden in ["mounts", "openat2"] {
        let outcome = || {
            // What other hosts have found out is not this one's.
            let cache = tempfile::tempdir().map_err(say)?;
            let output = std::process::Command::new(probe_program())
                .args(["--stricter", hidden])
                .env("XDG_CACHE_HOME", cache.path())
                .output()
                .map_err(say)?;
            ensure(output.status.success(), || format!("{output:?}"))
        };
        report.case(&format!("a host without {hidden}"), outcome());
    }
    report.failures()
}

/// A broker on such a host.
pub(crate) fn main(args: &[String]) -> ExitCode {
    let hidden = args.first().expect("what to hide");
    hide::linux::hide(hidden).expect("a filter");
    let outcome = falls_back().and_then(|()| attacks(Mechanism::Bubblewrap));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn falls_back() -> Result<(), String> {
    let support = Support::detect();
    let bubblewrap = support.bubblewrap().ok_or_else(|| support.to_string())?;
    ensure(!support.pins_by_descriptor(), || support.to_string())?;
    ensure(
        support
            .to_string()
            .contains("\npins        no   the mounts inside"),
        || support.to_string(),
    )?;
    let policy = protecting(Policy::builder().mount("/srv", "/", Access::ALL));
    let sandbox = Mechanism::Bubblewrap.plan(&policy.build().map_err(say)?);
    let plan = sandbox.plan();
    let old = bubblewrap.version().starts_with("0.") && !support.known_holes().is_empty();
    let said = plan.to_string().contains("CVE-2026-87766");
    ensure(old == said, || format!("{plan}"))
}

/// A repository with names of every kind, in a mount of its own.
struct Repository {
    world: World,
    before: BTreeMap<PathBuf, String>,
}

impl Repository {
    fn new(mechanism: Mechanism) -> Result<Repository, String> {
        let world = World::new(mechanism);
        let root = world.host("rw").join("sub");
        for directory in [".git/hooks", ".ssh"] {
            std::fs::create_dir_all(root.join(directory)).map_err(say)?;
        }
        for (file, text) in [
            (".git/config", "[core]"),
            (".git/hooks/kept", "#!/bin/sh"),
            (".env", "SECRET=1"),
            (".ssh/key", "a key"),
        ] {
            std::fs::write(root.join(file), text).map_err(say)?;
        }
        let before = contents(&root)?;
        Ok(Repository { world, before })
    }

    fn policy(&self) -> PolicyBuilder {
        protecting(self.world.policy())
    }

    fn intact(&self) -> Result<(), String> {
        let now = contents(&self.world.host("rw").join("sub"))?;
        ensure(now == self.before, || format!("changed: {now:?}"))?;
        self.world.unharmed()
    }
}

fn protecting(policy: PolicyBuilder) -> PolicyBuilder {
    policy
        .protect(".git/hooks")
        .protect(".git/config")
        .hide(".env*")
        .hide(".ssh")
}

/// Every file with its content, mode and owner, links by what they say.
fn contents(root: &Path) -> Result<BTreeMap<PathBuf, String>, String> {
    let mut out = BTreeMap::new();
    let mut queue = vec![root.to_owned()];
    while let Some(path) = queue.pop() {
        let meta = path.symlink_metadata().map_err(say)?;
        let mut text = format!("{:o} {} {}", meta.mode(), meta.uid(), meta.ino());
        if meta.is_dir() {
            for entry in std::fs::read_dir(&path).map_err(say)? {
                queue.push(entry.map_err(say)?.path());
            }
        } else if meta.is_symlink() {
            text = format!("-> {}", std::fs::read_link(&path).map_err(say)?.display());
        } else {
            text = format!("{text} {}", std::fs::read_to_string(&path).map_err(say)?);
        }
        out.insert(path, text);
    }
    Ok(out)
}

/// One attempt after the other; none may do anything, nor make a later one do something.
fn attacks(mechanism: Mechanism) -> Result<(), String> {
    let repository = Repository::new(mechanism)?;
    let plan = mechanism.plan(&repository.policy().build().map_err(say)?);
    for attempt in [
        "mv .git aside",
        "mv .git ../aside",
        "cd .. && mv sub aside",
        "cd .. && rm -d sub",
        "rm -d .git",
        "rm -d .git/hooks",
        "rm .git/config",
        "rm .env",
        "echo planted > .git/config",
        "echo planted >> .git/config",
        "truncate -s 0 .git/config",
        "echo planted > .git/new && mv -f .git/new .git/config; rm .git/new; false",
        "echo planted > .git/new; mv -f .git/config .git/new; rm .git/new; test -e .git/new",
        "ln .git/config linked && echo planted >> linked",
        "echo planted > x; ln -f x .git/config; rm x; false",
        "echo planted > x; ln -sfn x .git/hooks; rm -f .git/hooks/x x; false",
        "echo planted > .git/hooks/post-commit",
        "mkdir .git/hooks/d",
        "mv .git/hooks/kept x; rm -f x; test ! -e .git/hooks/kept",
        "chmod 777 .git/hooks",
        "chmod 777 .git/config",
        "touch .git/config",
        "cat .env",
        "cat .ssh/key",
        "ls .ssh",
        "chmod 700 .ssh && ls .ssh",
        "chmod 600 .env",
        "cp .env copy",
        "mv .ssh seen",
        "rm -d .ssh",
        "umount .env",
        "umount -l .git/config",
        "umount -l .git",
        "mount -o remount,bind,rw .git/config",
        "mount --bind /work .git/hooks",
        "unshare -Um umount -l .git/config",
        "nsenter -t 1 -m cat .git/config",
        "cat /proc/1/root/work/rw/sub/.env",
        "ls /proc/1/cwd/",
    ] {
        let script = format!("cd {{rw}}/sub && {attempt}");
        let output = repository.world.sh(&plan, &script).map_err(say)?;
        ensure(output.exit != Exit::Code(0), || {
            format!("{attempt}: {output:?}")
        })?;
        repository
            .intact()
            .map_err(|error| format!("{attempt}: {error}"))?;
    }
    for (name, op) in [
        ("swap the file", "exchange {rw}/sub/.git/config {rw}/file"),
        ("swap the directory", "exchange {rw}/sub/.git {rw}/pinned"),
    ] {
        let words: Vec<String> = op.split_whitespace().map(str::to_owned).collect();
        let said = repository.world.probe(&plan, &words);
        ensure(said.starts_with("errno "), || format!("{name}: {said}"))?;
        repository.intact()?;
    }
    Ok(())
}

/// What the filter forbids, the mounts do not allow either: a target that may make namespaces of
/// its own has every capability in them, and still cannot uncover or open anything.
fn unfiltered() -> Result<(), String> {
    let repository = Repository::new(Mechanism::BubblewrapAlone)?;
    let detected = Support::detect();
    for pins_by_descriptor in [true, false] {
        if pins_by_descriptor && !detected.pins_by_descriptor() {
            continue;
        }
        let support = Support::assume(HostSpec {
            bubblewrap: detected
                .bubblewrap()
                .map(|found| found.version().to_owned()),
            pins_by_descriptor,
            ..HostSpec::default()
        });
        let policy = repository.policy().build().map_err(say)?;
        let plan = Plan::with_mechanism(
            &policy,
            &support,
            Requirement::BestEffort,
            Backend::Bubblewrap,
        )
        .map(open)
        .map_err(say)?;
        for name in [".git/config", ".git/hooks", ".git", ".env", ".ssh"] {
            let words = ["uncover".to_owned(), format!("{{rw}}/sub/{name}")];
            let said = repository.world.probe(&plan, &words);
            ensure(said == "ok", || format!("{name}: {said}"))?;
            repository.intact()?;
        }
    }
    Ok(())
}

/// Parts that can be written in a mount that cannot.
fn widened(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let root = world.host("rw");
    for directory in ["out/deep", "shut", "beside"] {
        std::fs::create_dir_all(root.join(directory)).map_err(say)?;
    }
    std::fs::write(root.join("out/.env"), "SECRET=1").map_err(say)?;
    std::fs::write(root.join("out/deep/file"), "deep").map_err(say)?;
    std::fs::write(root.join("shut/file"), "shut").map_err(say)?;
    let read = Access::READ | Access::EXECUTE;
    let policy = Policy::builder()
        .mount(&root, "/", read)
        .mount(root.join("out"), "/out", Access::ALL)
        .mount(root.join("out/deep"), "/out/deep", read)
        .mount(root.join("shut"), "/shut", Access::NONE)
        .mount(root.join("beside"), "/beside", Access::ALL)
        .hide(".env")
        .build()
        .map_err(say)?;
    let plan = mechanism.plan(&policy);
    let script = "echo w > out/new && echo w > beside/new && cat out/deep/file
        echo w > new; echo w > out/deep/file; cat out/.env; cat shut/file; mv out/deep moved
        mv out moved; mount -o remount,rw /work; touch file; echo end";
    let output = world.sh(&plan, script).map_err(say)?;
    ensure(output.stdout.text() == "deepend\n", || {
        format!("{output:?}")
    })?;
    let there = |name: &str| root.join(name).exists();
    ensure(
        there("out/new") && there("beside/new") && !there("new") && !there("moved"),
        || format!("{output:?}"),
    )
}

/// A namespace more does not change who the command is, nor whose the files are.
fn identity(mechanism: Mechanism) -> Result<(), String> {
    let repository = Repository::new(mechanism)?;
    let plan = mechanism.plan(&repository.policy().build().map_err(say)?);
    let script = "id -u; id -g; stat -c %u:%g {rw}/sub; echo x > {rw}/made; stat -c %u:%g {rw}/made
        cat /proc/self/setgroups; grep -c . /proc/self/uid_map
        grep -E '^Cap' /proc/self/status | cut -f2 | sort -u";
    let output = repository.world.sh(&plan, script).map_err(say)?;
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let want = format!("{uid}\n{gid}\n{uid}:{gid}\n{uid}:{gid}\ndeny\n1\n0000000000000000\n");
    ensure(output.stdout.text() == want, || format!("{output:?}"))?;
    let made = repository.world.host("rw").join("made");
    let meta = made.metadata().map_err(say)?;
    ensure((meta.uid(), meta.gid()) == (uid.into(), gid.into()), || {
        format!("{meta:?}")
    })
}

/// Somebody swaps the directory around protected names for a link to outside and back, all the
/// time. A start may fail; it may neither leave anything outside nor run with a name unheld.
fn race(mechanism: Mechanism, decoy: bool) -> Result<(), String> {
    let world = World::new(mechanism);
    let root = world.host("rw");
    let outside = tempfile::tempdir().map_err(say)?;
    let original = root.join("a");
    for place in std::iter::once(original.as_path()).chain(decoy.then_some(outside.path())) {
        std::fs::create_dir_all(place.join(".git/hooks")).map_err(say)?;
        std::fs::write(place.join(".git/config"), "[core]").map_err(say)?;
        std::fs::write(place.join(".env"), "SECRET=1").map_err(say)?;
    }
    // Where bubblewrap keeps the host's root while it makes mounts.
    let prefix = if decoy { "" } else { "/oldroot" };
    let to = format!("{prefix}{}", outside.path().display());
    symlink(to, root.join("b")).map_err(say)?;
    let policy = protecting(Policy::builder().mount(&root, "/", Access::ALL));
    let plan = mechanism.plan(&policy.build().map_err(say)?);
    let (before, kept) = (contents(outside.path())?, contents(&original)?);

    let swap = || {
        renameat2(
            AT_FDCWD,
            &root.join("a"),
            AT_FDCWD,
            &root.join("b"),
            RenameFlags::RENAME_EXCHANGE,
        )
    };
    let done = AtomicBool::new(false);
    let mut started = 0;
    let outcome = std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            let mut round = 0u64;
            let mut swaps = 0;
            while !done.load(Ordering::Relaxed) {
                round += 1;
                swaps += usize::from(swap().is_ok());
                // Sometimes as fast as it goes, sometimes rarely enough for a start to get through.
                if (round / 64).is_multiple_of(2) {
                    std::thread::sleep(Duration::from_micros(round % 64 * 100));
                }
            }
            swaps
        });
        let result = (0..STARTS * MORE_STARTS).try_for_each(|round| {
            // On a busy machine every start may meet a swap: then the race goes on.
            if round >= STARTS && started > 0 {
                return Ok(());
            }
            let script = "for d in a b; do
                echo planted > $d/.git/hooks/planted; echo planted > $d/.git/config
                mv $d/.git $d/moved; rm -f $d/.git/config; cat $d/.env
                done 2>/dev/null";
            if let Ok(output) = Command::new(&plan, "sh").args(["-c", script]).output() {
                started += 1;
                ensure(output.stdout.bytes().is_empty(), || {
                    format!("start {round} read {:?}", output.stdout.text())
                })?;
            }
            Ok::<(), String>(())
        });
        done.store(true, Ordering::Relaxed);
        let swaps = swapper.join().unwrap_or(0);
        result.map(|()| swaps)
    });
    let swaps = outcome?;
    let original = if root.join("a").is_symlink() {
        "b"
    } else {
        "a"
    };
    if original == "b" {
        swap().map_err(say)?;
    }
    let now = contents(&root.join("a"))?;
    ensure(now == kept, || format!("changed: {now:?}"))?;
    ensure(swaps > STARTS && started > 0, || {
        format!("no race: {swaps} swaps, {started} starts")
    })?;
    let now = contents(outside.path())?;
    let by_descriptor = plan.plan().support().pins_by_descriptor();
    // What an old bubblewrap leaves outside is said in its plan.
    let said = !by_descriptor && plan.plan().to_string().contains("CVE-2026-87766");
    ensure(now == before || said, || format!("outside: {now:?}"))
}
