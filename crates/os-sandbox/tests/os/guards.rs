//! Protected and hidden names in projects as large, as deep and as closed as people and commands
//! make them: everything is looked at, or the call fails.

use crate::fixture::{Mechanism, World, open, open_at, set_mode};
use crate::outcome::{ensure, say};
use crate::report::Report;
use os_sandbox::{
    Access, Child, Command, Error, ErrorKind, Exit, Git, Plan, Policy, Promise, PromiseState,
    Requirement, Sandbox, Stdio, Support,
};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    if !mechanism.has_mount_layer() {
        return;
    }
    for case in &CASES {
        report.case(&format!("guards: {}", case.name), check(mechanism, case));
    }
    for (name, outcome) in [
        ("a directory as it was", settled(mechanism)),
        ("deeper than a path is long", bottomless(mechanism)),
        ("names that come and go", restless(mechanism)),
    ] {
        report.case(&format!("guards: {name}"), outcome);
    }
    for (name, before, parts) in SHAPES {
        let outcome = required(mechanism, before, parts);
        report.case(&format!("guards: required in {name}"), outcome);
    }
}

type Shape = (&'static str, &'static str, &'static [(&'static str, bool)]);

/// Projects as they are, made by a person, with the parts that are mounts of their own: each with
/// whether it can be written.
const SHAPES: [Shape; 8] = [
    ("an empty directory", "", &[]),
    (
        "a git repository",
        "git init -q; touch a; git add .; git commit -qm a",
        &[],
    ),
    (
        "a repository with a submodule",
        "git init -q ../other; git -C ../other commit -qm a --allow-empty; git init -q
         git -c protocol.file.allow=always submodule -q add ../other third_party/foo
         git commit -qam b",
        &[],
    ),
    (
        "a linked worktree",
        "git init -q ../main; git -C ../main commit -qm a --allow-empty
         git -C ../main worktree add -q ../made; mv ../made/.git .
         echo \"$PWD/.git\" > ../main/.git/worktrees/made/gitdir",
        &[],
    ),
    (
        "a project with node_modules",
        "for i in $(seq 100); do mkdir -p node_modules/$i/lib; touch node_modules/$i/lib/x.js; done
         touch node_modules/7/.env.example node_modules/8/cert.pem",
        &[],
    ),
    (
        "a project with links",
        "ln -s /etc out; ln -s . loop; mkdir d; ln -s ../d d/up; ln -s nowhere dangling; ln -s d .idea",
        &[],
    ),
    ("zones", "mkdir data out", &[("data", false), ("out", true)]),
    (
        "several mounts, one with a repository",
        "mkdir -p a/b c; git -C a init -q; touch c/.envrc",
        &[("a", true), ("a/b", false), ("c", true)],
    ),
];

/// Guards can be required, and an ordinary command then works and leaves nothing.
fn required(mechanism: Mechanism, before: &str, parts: &[(&str, bool)]) -> Result<(), String> {
    if !matches!(mechanism, Mechanism::Namespaces | Mechanism::Bubblewrap) {
        return Ok(());
    }
    let world = World::new(mechanism);
    let git = "export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b
               export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; set -e";
    person(&world, &format!("{git}\n{before}"))?;
    let top = world.host("rw");
    let mut policy = Policy::builder().git(Git::Commit);
    for name in [".vscode", ".idea", ".envrc", ".env*", "*.pem", ".git/hooks"] {
        policy = policy.protect(name);
    }
    policy = policy.hide(".env*").hide("*.pem");
    policy = match parts {
        [] => policy.mount(&top, "/", Access::ALL),
        parts => parts.iter().fold(policy, |policy, (part, writable)| {
            let access = match writable {
                true => Access::ALL,
                false => Access::READ | Access::EXECUTE,
            };
            policy.mount(top.join(part), format!("/{part}"), access)
        }),
    };
    let policy = policy.build().map_err(say)?;
    let plan = Plan::with_mechanism(
        &policy,
        &Support::detect(),
        Requirement::EnforceGuards,
        mechanism.backend(),
    )
    .map(open)
    .map_err(say)?;
    let at = parts.iter().find(|(_, writable)| *writable);
    let at = at.map_or("/work".to_owned(), |(part, _)| format!("/{part}"));
    let script =
        format!("cd {at} && echo made > made && cat made && mkdir -p sub && rm -r made sub");
    let (child, said, exit) = run(&world, &plan, &script)?;
    ensure(exit.success() && said == "made\n", || {
        format!("{exit} {said} {}", child.enforcement())
    })?;
    ensure(child.quarantined().is_empty(), || {
        format!("{:?}", child.quarantined())
    })?;
    let gap = child.enforcement().promises.iter().find(|one| one.is_gap());
    ensure(gap.is_none(), || format!("{gap:?}"))
}

/// A project, what one command does in it, and what a second one reads.
struct Case {
    name: &'static str,
    /// Made before, by a person.
    before: &'static str,
    /// What the first command does.
    plants: &'static str,
    /// What must be gone from the project after it.
    gone: &'static [&'static str],
    /// A file with a secret, made by a person between the two commands.
    secret: Option<&'static str>,
    /// What the second command does to get at it; it must not print it.
    reads: &'static str,
}

const NOTHING: Case = Case {
    name: "",
    before: "",
    plants: "",
    gone: &[],
    secret: None,
    reads: "true",
};

/// Bounds that there once were, and ordinary things that are beyond them.
const CASES: [Case; 5] = [
    Case {
        name: "a command that makes 20 500 files",
        plants: "mkdir d; cd d; for i in $(seq 205); do mkdir $i; (cd $i; touch $(seq 100)); done
                 mkdir -p z/y/.vscode; echo x > z/y/.vscode/tasks.json; echo y > z/.envrc",
        gone: &["d/z/y/.vscode", "d/z/.envrc"],
        secret: Some("d/z/y/.env"),
        reads: "cat d/z/y/.env",
        ..NOTHING
    },
    Case {
        name: "a directory of 30 000 files",
        before: "mkdir -p packages; cd packages
                 for i in $(seq 300); do mkdir $i; (cd $i; touch $(seq 100)); done",
        plants: "touch packages/7/new; mkdir packages/300/.vscode zz; echo x > zz/.envrc",
        gone: &["packages/300/.vscode", "zz/.envrc"],
        secret: Some("packages/299/.env.local"),
        reads: "cat packages/299/.env.local",
    },
    Case {
        name: "60 directories deep",
        before: "mkdir -p $(printf 'a/%.0s' $(seq 60))",
        plants: "cd $(printf 'a/%.0s' $(seq 60)); mkdir .vscode; mkdir -p $(printf 'b/%.0s' $(seq 60)).idea",
        gone: &[
            "a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/.vscode",
            "a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/b/.idea",
        ],
        secret: Some("a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/.env"),
        reads: "cd $(printf 'a/%.0s' $(seq 36)); cat .env",
    },
    Case {
        name: "500 names",
        before: "for i in $(seq 500); do mkdir -p pkg/$i; echo kept > pkg/$i/.envrc; done",
        plants: "for i in $(seq 500); do echo evil > pkg/$i/.envrc; rm -f pkg/$i/.envrc; done 2> /dev/null
                 mkdir zz; echo x > zz/.envrc; grep -L kept pkg/*/.envrc",
        gone: &["zz/.envrc"],
        secret: Some("pkg/500/.env"),
        reads: "cat pkg/500/.env",
    },
    Case {
        name: "directories that cannot be listed",
        before: "mkdir -p shut/in half; echo x > half/f",
        plants: "mkdir -p d/e; mkdir d/e/.vscode; chmod 111 d/e; chmod 644 d; mkdir -p s/.idea; chmod 0 s
                 mkdir shut/in/.vscode; chmod 111 shut",
        gone: &["d/e/.vscode", "s/.idea", "shut/in/.vscode"],
        secret: Some("half/.env"),
        reads: "chmod 755 half; cat half/.env; mv half other; cat other/.env",
    },
];

fn plan(world: &World) -> Result<Sandbox, String> {
    let mut policy = Policy::builder().mount(world.host("rw"), "/", Access::ALL);
    for name in [".vscode", ".idea", ".envrc", ".env*", "*.pem", ".git/hooks"] {
        policy = policy.protect(name);
    }
    let policy = policy.hide(".env").hide(".env.*").build().map_err(say)?;
    Ok(world.mechanism.plan(&policy))
}

fn start(world: &World, plan: &Sandbox, script: &str) -> Result<Child, Error> {
    Command::new(&open_at(plan, world.host("state")), "sh")
        .args(["-c", script])
        .stdout(Stdio::Piped)
        .spawn()
}

/// What it printed, and how it ended; the child knows what was enforced.
fn run(world: &World, plan: &Sandbox, script: &str) -> Result<(Child, String, Exit), String> {
    let mut child = start(world, plan, script).map_err(say)?;
    let mut said = String::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut said).map_err(say)?;
    }
    let exit = child.wait().map_err(say)?;
    Ok((child, said, exit))
}

fn person(world: &World, script: &str) -> Result<(), String> {
    let done = std::process::Command::new("sh")
        .args(["-c", script])
        .current_dir(world.host("rw"))
        .status();
    ensure(done.as_ref().is_ok_and(|done| done.success()), || {
        format!("{done:?}")
    })
}

fn check(mechanism: Mechanism, case: &Case) -> Result<(), String> {
    let world = World::new(mechanism);
    let plan = plan(&world)?;
    person(&world, case.before)?;
    let (child, said, _) = run(&world, &plan, case.plants)?;
    ensure(said.is_empty(), || format!("changed: {said}"))?;
    looked_everywhere(&child)?;
    // What a command has closed is opened again, to look at what is there.
    let left: Vec<&&str> = case
        .gone
        .iter()
        .filter(|name| exists(&world.host("rw"), Path::new(name)))
        .collect();
    ensure(left.is_empty(), || {
        format!("left: {left:?}, found {:?}", child.quarantined())
    })?;
    if let Some(secret) = case.secret {
        let secret = world.host("rw").join(secret);
        std::fs::write(&secret, "a secret\n").map_err(say)?;
        if case.name.contains("listed") {
            set_mode(&world.host("rw").join("half"), 0o111);
        }
        let (child, said, _) = run(&world, &plan, case.reads)?;
        ensure(!said.contains("a secret"), || said)?;
        looked_everywhere(&child)?;
    }
    person(&world, "chmod -R u+rwx .")
}

/// Whether something is there, seen by who opens what is shut.
fn exists(top: &Path, name: &Path) -> bool {
    let mut at = top.to_owned();
    for part in name {
        if let Ok(meta) = at.symlink_metadata() {
            set_mode(&at, meta.mode() | 0o700);
        }
        at.push(part);
    }
    at.symlink_metadata().is_ok()
}

fn looked_everywhere(child: &Child) -> Result<(), String> {
    let receipt = child.enforcement();
    let entry = receipt
        .promises
        .iter()
        .find(|entry| entry.promise == Promise::ProtectedNames);
    ensure(
        entry.is_some_and(|entry| entry.state == PromiseState::Detected),
        || receipt.to_string(),
    )
}

/// Protected and hidden names that another process makes and removes all the time spoil no start.
fn restless(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let plan = plan(&world)?;
    let over = AtomicBool::new(false);
    let top = world.host("rw");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for name in [".vscode", "sub/.idea"] {
                    let _ = std::fs::create_dir_all(top.join(name));
                }
                let _ = std::fs::write(top.join(".env"), "secret");
                // As fast as programs that are started for it.
                std::thread::sleep(Duration::from_millis(2));
                let _ = std::fs::remove_dir_all(top.join("sub"));
                let _ = std::fs::remove_dir(top.join(".vscode"));
                let _ = std::fs::remove_file(top.join(".env"));
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let all = (0..30).try_for_each(|number| match run(&world, &plan, "true") {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("start {number}: {error}")),
        });
        over.store(true, Ordering::Relaxed);
        all
    })
}

/// Directories whose times have not changed are not listed again after the end; those that have
/// are, however they were changed and whatever their times were set to.
fn settled(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let plan = plan(&world)?;
    person(
        &world,
        "for i in $(seq 50); do mkdir -p old/$i/in; done; mkdir aside; touch aside/f",
    )?;
    let age = |path: &str| {
        let meta = world.host("rw").join(path).symlink_metadata();
        let changed = meta.map_err(say)?.ctime();
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(changed.unsigned_abs());
        changed.elapsed().map_err(say)
    };
    // Times tell changes only of what has been left alone for a while.
    while age("aside")? < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(100));
    }
    let script = "touch -r old/1 stamp
        mkdir old/1/.vscode; touch -r stamp old/1
        mkdir new; mkdir new/.idea; mv new old/2/in/; touch -r stamp old/2/in
        mkdir .vscode2; mv .vscode2 old/3/in/.vscode; touch -r stamp old/3/in
        mv old/4 aside/4; mkdir aside/4/in/.idea
        echo x > old/5/in/.envrc; ln -s /etc old/6/.vscode
        rm -r old/7; mkdir -p old/7/in/.vscode; touch -r stamp old/7 old/7/in";
    let (child, _, _) = run(&world, &plan, script)?;
    looked_everywhere(&child)?;
    for name in [
        "old/1/.vscode",
        "old/2/in/new/.idea",
        "old/3/in/.vscode",
        "aside/4/in/.idea",
        "old/5/in/.envrc",
        "old/6/.vscode",
        "old/7/in/.vscode",
    ] {
        ensure(!exists(&world.host("rw"), Path::new(name)), || {
            format!("{name} is left: {:?}", child.quarantined())
        })?;
    }
    ensure(child.quarantined().len() == 7, || {
        format!("{:?}", child.quarantined())
    })
}

/// No path reaches the innermost of these directories: the command fails, and so does the next.
fn bottomless(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let plan = plan(&world)?;
    let script = "n=$(printf 'a%.0s' $(seq 200)); for i in $(seq 30); do mkdir $n; cd -P $n; done
                  mkdir .vscode";
    let mut child = start(&world, &plan, script).map_err(say)?;
    let refusals = [child.wait().err(), start(&world, &plan, "true").err()];
    for refusal in &refusals {
        let refused = refusal.as_ref().is_some_and(|error| {
            error.kind() == ErrorKind::Unguarded && error.to_string().contains("cannot be listed")
        });
        ensure(refused, || format!("{refusals:?}"))?;
    }
    let receipt = child.enforcement().to_string();
    ensure(receipt.contains("not looked for everywhere"), || receipt)?;
    // The standard library's own removal goes by path.
    person(&world, "rm -rf a*")
}
