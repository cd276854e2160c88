//! Overlays: what a command changes goes to the upper directory, and the lower one stays as it is,
//! to the bit. Where no overlay can be mounted, the plan is refused.

use crate::fixture::{Mechanism, World, probe_program, said, set_mode};
use crate::outcome::{Outcome, ensure, expect, say};
use crate::report::Report;
use os_sandbox::{
    Access, Backend, Command, ErrorKind, Plan, Policy, PolicyBuilder, Requirement, Support,
};
use rustix::fs::{XattrFlags, lgetxattr, llistxattr, setxattr};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// Larger than the memory of most machines, and with one block of content.
const SPARSE_BYTES: u64 = 10 << 30;
/// Of larger files, the hash has the beginning only.
const MAX_HASHED_BYTES: u64 = 1 << 20;

/// An operation in the overlay: its name, words for the probe or a script for `sh`, and what they
/// say. The scripts run in the overlay.
const OPERATIONS: [(&str, Does, &str); 22] = [
    ("create", Does::Sh("echo new > made && cat made"), "new"),
    (
        "overwrite",
        Does::Sh("echo new > file && cat file && stat -c %a file"),
        "new\n640",
    ),
    (
        "append",
        Does::Sh("echo more >> file && cat file"),
        "content\nmore",
    ),
    ("truncate", Does::Probe(&["truncate", "/o/file"]), "ok"),
    (
        "replace by rename",
        Does::Sh("echo new > n && mv n file && cat file"),
        "new",
    ),
    (
        "rename a file",
        Does::Sh("mv file moved && cat moved && ! test -e file"),
        "content",
    ),
    // overlayfs moves no directory of the lower: programs copy it, as between file systems.
    (
        "rename a directory",
        Does::Probe(&["rename", "/o/dir", "/o/moved"]),
        "errno 18",
    ),
    (
        "move a directory",
        Does::Sh("mv dir moved && cat moved/deep/c && ! test -e dir"),
        "c",
    ),
    (
        "rename a new directory",
        Does::Sh("mkdir new && touch new/f && mv new newer && ls newer"),
        "f",
    ),
    (
        "unlink",
        Does::Sh("rm file && ! cat file 2>/dev/null && echo gone"),
        "gone",
    ),
    (
        "unlink and make again",
        Does::Sh("rm file && mkdir file && ls -A file | wc -l"),
        "0",
    ),
    (
        "remove a full directory and make it again",
        Does::Sh("rm -r dir && mkdir dir && ls -A dir | wc -l"),
        "0",
    ),
    (
        "mode",
        Does::Sh("chmod 600 run.sh && stat -c %a run.sh"),
        "600",
    ),
    (
        "mode of a directory",
        Does::Sh("chmod 700 dir && stat -c %a dir"),
        "700",
    ),
    (
        "times",
        Does::Sh("touch -d @86400 file && stat -c %Y file"),
        "86400",
    ),
    (
        "make a link",
        Does::Sh("ln -s file new && readlink new"),
        "file",
    ),
    (
        "replace a link",
        Does::Sh("ln -sfn elsewhere link && readlink link"),
        "elsewhere",
    ),
    (
        "hard link",
        Does::Sh("ln file new && echo x >> new && tail -n 1 file"),
        "x",
    ),
    // Without an index the names of one file in the lower are two files once one is changed.
    (
        "hard link of the lower",
        Does::Sh("echo x >> one && cat other"),
        "pair",
    ),
    (
        "set an attribute",
        Does::Probe(&["attribute", "/o/file", "mine"]),
        "ok",
    ),
    (
        "write in a large file",
        Does::Sh(
            "printf x | dd of=sparse bs=1 seek=5000000000 conv=notrunc 2>/dev/null; stat -c %s sparse",
        ),
        "10737418240",
    ),
    ("run a program of the lower", Does::Sh("./run.sh"), "ran"),
];

type Case = (&'static str, fn(Mechanism) -> Outcome);

enum Does {
    Sh(&'static str),
    Probe(&'static [&'static str]),
}

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    if mechanism.backend() != Backend::Namespaces {
        report.case("an overlay is refused", refused(mechanism));
        return;
    }
    for (name, does, says) in &OPERATIONS {
        report.case(
            &format!("overlay: {name}"),
            operation(mechanism, does, says),
        );
    }
    let cases: [Case; 8] = [
        ("changes are in the upper directory", upper),
        ("protected and hidden names", names),
        ("parts with an access of their own", parts),
        ("the upper directory on another file system", other_system),
        ("its directories are out of reach", reach),
        ("links that the host replaces", links),
        ("a second run sees the first one's changes", again),
        ("what cannot be an overlay", impossible),
    ];
    for (name, case) in cases {
        report.case(&format!("overlay: {name}"), case(mechanism));
    }
}

/// A lower directory with something of every kind, and empty upper and work directories.
struct Layers {
    world: World,
    upper: PathBuf,
}

impl Layers {
    fn new(mechanism: Mechanism) -> Layers {
        let world = World::new(mechanism);
        let lower = world.host("lower");
        for name in ["lower/dir/deep", "lower/kept", "upper", "work"] {
            fs::create_dir_all(world.host(name)).expect("a directory");
        }
        for (name, content) in [
            ("file", "content\n"),
            ("run.sh", "#!/bin/sh\necho ran\n"),
            ("dir/a", "a"),
            ("dir/deep/c", "c\n"),
            ("kept/k", "k"),
            ("secret", "hidden"),
            ("one", "pair\n"),
        ] {
            fs::write(lower.join(name), content).expect("a file");
        }
        set_mode(&lower.join("file"), 0o640);
        set_mode(&lower.join("run.sh"), 0o755);
        symlink("dir/a", lower.join("link")).expect("a link");
        fs::hard_link(lower.join("one"), lower.join("other")).expect("a link");
        let attributes = XattrFlags::empty();
        setxattr(lower.join("file"), "user.lower", b"old", attributes).expect("an attribute");
        let sparse = fs::File::create(lower.join("sparse")).expect("a file");
        sparse.set_len(SPARSE_BYTES).expect("a length");
        let upper = world.host("upper");
        Layers { world, upper }
    }

    fn lower(&self) -> PathBuf {
        self.world.host("lower")
    }

    fn policy(&self) -> PolicyBuilder {
        Policy::builder()
            .mount(self.lower(), "/o", Access::ALL)
            .overlay("/o", &self.upper, self.upper.with_file_name("work"))
            .mount(probe_program(), "/probe", Access::READ | Access::EXECUTE)
            .protect("kept")
            .protect(".vscode")
            .hide("secret")
    }

    fn run(&self, does: &Does) -> Result<String, String> {
        self.run_under(self.policy(), does)
    }

    fn run_under(&self, policy: PolicyBuilder, does: &Does) -> Result<String, String> {
        let policy = policy.build().map_err(say)?;
        let plan = self.world.mechanism.plan(&policy);
        let command = match does {
            Does::Sh(script) => Command::new(&plan, "sh").args(["-c", script]),
            Does::Probe(words) => Command::new(&plan, "/probe").arg("--probe").args(*words),
        };
        Ok(said(command.cwd("/o").output()))
    }
}

fn operation(mechanism: Mechanism, does: &Does, says: &str) -> Outcome {
    let layers = Layers::new(mechanism);
    let before = snapshot(&layers.lower())?;
    let seen = layers.run(does)?;
    expect(seen.as_str(), says)?;
    unchanged(&before, &layers.lower())?;
    layers.world.unharmed()
}

/// Names, kinds, modes, owners, links, times, sizes, contents and attributes of a tree.
fn snapshot(top: &Path) -> Result<BTreeMap<PathBuf, String>, String> {
    let mut out = BTreeMap::new();
    let mut left = vec![top.to_owned()];
    while let Some(path) = left.pop() {
        let meta = fs::symlink_metadata(&path).map_err(say)?;
        let content = if meta.is_dir() {
            for entry in fs::read_dir(&path).map_err(say)? {
                left.push(entry.map_err(say)?.path());
            }
            String::new()
        } else if meta.is_symlink() {
            fs::read_link(&path).map_err(say)?.display().to_string()
        } else {
            use std::io::Read as _;
            let mut bytes = Vec::new();
            let file = fs::File::open(&path).map_err(say)?;
            file.take(MAX_HASHED_BYTES)
                .read_to_end(&mut bytes)
                .map_err(say)?;
            format!("{:?}", Sha256::digest(&bytes))
        };
        let times = [
            meta.mtime(),
            meta.mtime_nsec(),
            meta.ctime(),
            meta.ctime_nsec(),
        ];
        let numbers = (
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.nlink(),
            meta.ino(),
        );
        let size = (meta.size(), meta.blocks());
        let attributes = attributes(&path)?;
        let line = format!("{numbers:?} {times:?} {size:?} {content} {attributes:?}");
        out.insert(path, line);
    }
    Ok(out)
}

fn attributes(path: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut names = vec![0; 4096];
    let bytes = llistxattr(path, &mut names).map_err(say)?;
    let mut out = BTreeMap::new();
    for name in names[..bytes].split(|byte| *byte == 0) {
        if name.is_empty() {
            continue;
        }
        let mut value = vec![0; 4096];
        let bytes = lgetxattr(path, name, &mut value).map_err(say)?;
        value.truncate(bytes);
        out.insert(String::from_utf8_lossy(name).into_owned(), value);
    }
    Ok(out)
}

fn unchanged(before: &BTreeMap<PathBuf, String>, top: &Path) -> Outcome {
    let after = snapshot(top)?;
    for (path, was) in before {
        let is = after.get(path).map_or("gone", String::as_str);
        ensure(is == was, || {
            format!("{}: {was} is now {is}", path.display())
        })?;
    }
    ensure(after.len() == before.len(), || {
        format!("more names: {after:#?}")
    })
}

/// The format of the upper directory: whiteouts, and directories that show nothing of the lower.
fn upper(mechanism: Mechanism) -> Outcome {
    let layers = Layers::new(mechanism);
    let script = "echo new > made && rm file && rm -r dir && mkdir dir && echo b > dir/b";
    expect(layers.run(&Does::Sh(script))?.as_str(), "")?;
    let at = |name: &str| layers.upper.join(name);
    expect(
        fs::read_to_string(at("made")).map_err(say)?.as_str(),
        "new\n",
    )?;
    let whiteout = fs::symlink_metadata(at("file")).map_err(say)?;
    ensure(
        whiteout.mode() & 0o170_000 == 0o020_000 && whiteout.rdev() == 0,
        || format!("{whiteout:?}"),
    )?;
    let opaque = attributes(&at("dir"))?;
    let opaque = opaque.get("user.overlay.opaque");
    expect(opaque.map(Vec::as_slice), Some(&b"y"[..]))?;
    ensure(at("dir/b").is_file() && !at("dir/a").exists(), || {
        "dir".to_owned()
    })
}

fn names(mechanism: Mechanism) -> Outcome {
    let layers = Layers::new(mechanism);
    let before = snapshot(&layers.lower())?;
    for (words, says) in [
        (&["write", "/o/kept/k"][..], "errno 30"),
        (&["rename", "/o/kept", "/o/aside"], "errno 16"),
        (&["delete", "/o/kept/k"], "errno 30"),
        (&["rename", "/o/secret", "/o/aside"], "errno 16"),
    ] {
        expect(layers.run(&Does::Probe(words))?.as_str(), says)?;
    }
    let read = layers.run(&Does::Probe(&["read", "/o/secret"]))?;
    ensure(read.starts_with("errno "), || read.clone())?;
    // What a command makes under a protected name waits in the upper directory.
    let policy = layers.policy().build().map_err(say)?;
    let plan = mechanism.plan(&policy);
    let script = "mkdir -p /o/.vscode /o/new/kept && echo x > /o/.vscode/tasks.json";
    let mut child = Command::new(&plan, "sh")
        .args(["-c", script])
        .spawn()
        .map_err(say)?;
    child.wait().map_err(say)?;
    ensure(child.quarantined().is_empty(), || {
        format!("{:?}", child.quarantined())
    })?;
    let told = child.enforcement().promises.iter().any(|entry| {
        let reason = entry.reason.as_deref().unwrap_or_default();
        entry.promise.name() == "protected names" && reason.contains("upper directory")
    });
    ensure(told, || format!("{:?}", child.enforcement().promises))?;
    ensure(layers.upper.join(".vscode/tasks.json").is_file(), || {
        "not there".to_owned()
    })?;
    unchanged(&before, &layers.lower())?;
    // No placeholder either, where absent names are to be held.
    let held = layers.policy().hold_absent();
    let listed = "ls -A /o | grep -c vscode";
    expect(layers.run_under(held, &Does::Sh(listed))?.as_str(), "1")?;
    unchanged(&before, &layers.lower())
}

fn parts(mechanism: Mechanism) -> Outcome {
    let layers = Layers::new(mechanism);
    let before = snapshot(&layers.lower())?;
    let with = |access| {
        layers
            .policy()
            .mount(layers.lower().join("dir"), "/o/dir", access)
    };
    let write = Does::Probe(&["write", "/o/dir/a"]);
    let read_only = with(Access::READ | Access::EXECUTE);
    expect(layers.run_under(read_only, &write)?.as_str(), "errno 30")?;
    expect(layers.run_under(with(Access::ALL), &write)?.as_str(), "ok")?;
    expect(
        fs::read_to_string(layers.upper.join("dir/a"))
            .map_err(say)?
            .as_str(),
        "changed",
    )?;
    unchanged(&before, &layers.lower())
}

fn other_system(mechanism: Mechanism) -> Outcome {
    let memory = Path::new("/dev/shm");
    if !memory.is_dir() {
        return Ok(());
    }
    let place = tempfile::tempdir_in(memory).map_err(say)?;
    let mut layers = Layers::new(mechanism);
    layers.upper = place.path().join("upper");
    for name in ["upper", "work"] {
        fs::create_dir(place.path().join(name)).map_err(say)?;
    }
    let before = snapshot(&layers.lower())?;
    let script = "echo new > file && ! echo x 2>/dev/null > kept/k && cat file";
    expect(layers.run(&Does::Sh(script))?.as_str(), "new")?;
    unchanged(&before, &layers.lower())
}

/// Neither by its path, nor by what the mount table tells.
fn reach(mechanism: Mechanism) -> Outcome {
    let layers = Layers::new(mechanism);
    let upper = layers.upper.display().to_string();
    for words in [["list", &upper], ["mkdir", &upper]] {
        let policy = layers.policy().build().map_err(say)?;
        let plan = mechanism.plan(&policy);
        let seen = said(
            Command::new(&plan, "/probe")
                .arg("--probe")
                .args(words)
                .output(),
        );
        ensure(seen.starts_with("errno "), || format!("{words:?}: {seen}"))?;
    }
    let table = layers.run(&Does::Sh("grep ' /o ' /proc/self/mountinfo"))?;
    ensure(table.contains("overlay") && !table.contains(&upper), || {
        table.clone()
    })?;
    let climbed = layers.run(&Does::Sh(
        "ls ../upper ../../upper /proc/1/root/upper 2>/dev/null | wc -l",
    ))?;
    expect(climbed.as_str(), "0")
}

/// A link in the lower directory leads nowhere else than it leads inside.
fn links(mechanism: Mechanism) -> Outcome {
    let layers = Layers::new(mechanism);
    let outside = layers.world.host("outside");
    fs::remove_file(layers.lower().join("link")).map_err(say)?;
    symlink(outside.join("file"), layers.lower().join("link")).map_err(say)?;
    let script = "cat link 2>/dev/null || ! echo x 2>/dev/null > link && echo closed";
    expect(layers.run(&Does::Sh(script))?.as_str(), "closed")?;
    layers.world.unharmed()
}

fn again(mechanism: Mechanism) -> Outcome {
    let layers = Layers::new(mechanism);
    expect(
        layers.run(&Does::Sh("echo 1 > made; rm file"))?.as_str(),
        "",
    )?;
    let script = "cat made && ! test -e file";
    expect(layers.run(&Does::Sh(script))?.as_str(), "1")
}

/// Policies and hosts whose changes would not all go to the upper directory.
fn impossible(mechanism: Mechanism) -> Outcome {
    let layers = Layers::new(mechanism);
    let (lower, upper) = (layers.lower(), &layers.upper);
    let own = |policy: PolicyBuilder| policy.build().err().map(|error| error.kind());
    let over = |work: &Path, upper: &Path| {
        let mounts = Policy::builder().mount(&lower, "/o", Access::ALL);
        mounts.overlay("/o", upper, work)
    };
    let work = layers.world.host("work");
    for (name, policy) in [
        ("upper in lower", over(&work, &lower.join("dir"))),
        (
            "lower in upper",
            over(&work, lower.parent().unwrap_or(&lower)),
        ),
        ("work in upper", over(&upper.join("work"), upper)),
        (
            "a mount that shows the upper directory",
            over(&work, upper).mount(upper, "/u", Access::READ),
        ),
        (
            "a mount of the same tree",
            over(&work, upper).mount(lower.join("dir"), "/d", Access::ALL),
        ),
        (
            "a mount in the overlay",
            over(&work, upper).mount(layers.world.host("rw"), "/o/dir", Access::ALL),
        ),
        (
            "a read-only mount",
            Policy::builder()
                .mount(&lower, "/o", Access::READ)
                .overlay("/o", upper, &work),
        ),
        (
            "no such mount",
            over(&work, upper).overlay("/other", upper, &work),
        ),
    ] {
        ensure(own(policy) == Some(ErrorKind::Invalid), || name.to_owned())?;
    }
    // An upper directory that is gone, or a link.
    for name in ["gone", "linked"] {
        let _ = symlink(upper, layers.world.host("linked"));
        let policy = over(&work, &layers.world.host(name)).build().map_err(say)?;
        let seen = said(Command::new(&mechanism.plan(&policy), "true").output());
        ensure(seen.contains("could not open the upper directory"), || {
            seen.clone()
        })?;
    }
    Ok(())
}

fn refused(mechanism: Mechanism) -> Outcome {
    let layers = Layers::new(mechanism);
    let policy = layers.policy().build().map_err(say)?;
    let support = Support::detect();
    for requirement in [
        Requirement::Enforce,
        Requirement::EnforceGuards,
        Requirement::BestEffort,
    ] {
        let plan = Plan::with_mechanism(&policy, &support, requirement, mechanism.backend());
        let error = plan.err().ok_or("a plan without an overlay")?;
        ensure(error.to_string().contains("overlay writes"), || {
            error.to_string()
        })?;
    }
    Ok(())
}
