//! Protected names that do not exist yet, and names that appear: what a command can make of them,
//! what a person sees meanwhile, and what is left afterwards.

use crate::fixture::{Mechanism, World, mechanisms, open_at};
use crate::outcome::{ensure, say};
use crate::report::Report;
use os_sandbox::{
    Access, Command, Output, Policy, PolicyBuilder, Promise, PromiseState, Sandbox, Stdio,
};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A watchdog, not a measure.
const WITHIN: Duration = Duration::from_secs(600);

/// The usual list: exact names, then patterns.
const EXACT: [&str; 14] = [
    ".git/hooks",
    ".git/config",
    ".git/info",
    ".gitmodules",
    ".ssh",
    ".envrc",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".cursor",
    ".claude",
    ".codex",
    ".gemini",
    ".devcontainer",
];
const PATTERNS: [&str; 3] = [".env*", "*.key", ".git/modules/*/hooks"];

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    if !mechanism.has_mount_layer() {
        report.case("names: absent without a mount layer", without(mechanism));
        return;
    }
    for (name, outcome) in [
        ("absent names cannot be made", absent(mechanism)),
        ("absent names leave no trace", without_trace(mechanism)),
        ("existing names cannot be changed", present(mechanism)),
        ("new names are quarantined", quarantined(mechanism)),
        ("a new name that cannot be moved", stubborn(mechanism)),
        ("links with protected names", links(mechanism)),
        ("secrets in a new directory stay", secrets(mechanism)),
        ("a name that a person replaces", replaced(mechanism)),
        ("a part that a person replaces", part_replaced(mechanism)),
        ("a read-only directory", read_only(mechanism)),
        ("a directory that cannot be listed", unlisted(mechanism)),
        ("links planted on the way", planted(mechanism)),
        ("two runs in one directory", concurrent(mechanism)),
        ("a killed caller", killed(mechanism)),
        ("no place to write down", stateless(mechanism)),
        ("parts of mounts", parts(mechanism)),
        ("no descriptor reaches the command", descriptors(mechanism)),
    ] {
        report.case(&format!("names: {name}"), outcome);
    }
}

/// A project with a repository that lacks what can be absent, and another one in it.
fn project(world: &World) -> Result<(), String> {
    for git in [".git", "sub/.git"] {
        let git = world.host("rw").join(git);
        for name in ["objects", "refs", "modules/lib"] {
            std::fs::create_dir_all(git.join(name)).map_err(say)?;
        }
        std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").map_err(say)?;
    }
    Ok(())
}

fn policy(world: &World) -> PolicyBuilder {
    let mut policy = Policy::builder()
        .mount(world.host("rw"), "/", Access::ALL)
        .mount(
            crate::fixture::probe_program(),
            "/probe",
            Access::READ | Access::EXECUTE,
        );
    for name in EXACT.iter().chain(&PATTERNS) {
        policy = policy.protect(*name);
    }
    policy
        .hide(".env*")
        .hide("*.key")
        .hide(".ssh")
        .hold_absent()
}

fn plan(world: &World) -> Result<Sandbox, String> {
    Ok(world.mechanism.plan(&policy(world).build().map_err(say)?))
}

fn run(world: &World, plan: &Sandbox, script: &str) -> Result<Output, String> {
    Command::new(&open_at(plan, world.host("state")), "sh")
        .args(["-c", script])
        .output()
        .map_err(say)
}

/// Everything that could be done to a name.
fn attack(names: &[&str]) -> String {
    let list = names.join(" ");
    format!(
        "r() {{ /probe --probe rename $1 $2 >&2; }}
        for n in {list}; do {{
            echo evil > evil.$$
            rm -rf $n; r $n moved.$$; r evil.$$ $n; echo evil > $n; echo evil >> $n
            mkdir -p $n; echo evil > $n/evil; ln -sfn evil $n; ln -f evil.$$ $n; chmod 777 $n
            rmdir $n; touch $n; rm -f evil.$$
        }} 2>/dev/null; done
        (r .git aside; r sub/.git aside; r sub aside) 2>/dev/null; true"
    )
}

/// Kind, mode and content of everything below.
fn listing(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut out = BTreeMap::new();
    let mut queue = vec![dir.to_owned()];
    while let Some(at) = queue.pop() {
        for entry in std::fs::read_dir(at).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(meta) = path.symlink_metadata() else {
                continue;
            };
            let content = if meta.is_file() {
                std::fs::read_to_string(&path).unwrap_or_default()
            } else if meta.is_symlink() {
                format!("{:?}", std::fs::read_link(&path))
            } else {
                String::new()
            };
            out.insert(path.clone(), format!("{:o} {content}", meta.mode()));
            if meta.is_dir() {
                queue.push(path);
            }
        }
    }
    out
}

fn same(
    before: &BTreeMap<PathBuf, String>,
    after: &BTreeMap<PathBuf, String>,
) -> Result<(), String> {
    let changed: Vec<_> = before
        .iter()
        .filter(|(path, what)| after.get(*path) != Some(what))
        .chain(after.iter().filter(|(path, _)| !before.contains_key(*path)))
        .collect();
    ensure(changed.is_empty(), || format!("changed: {changed:?}"))
}

fn without(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    project(&world)?;
    let plan = plan(&world)?;
    let entry = plan
        .plan()
        .entries()
        .iter()
        .find(|e| e.promise == Promise::ProtectedNames);
    ensure(
        entry.is_some_and(|e| e.state == PromiseState::Degraded),
        || format!("{entry:?}"),
    )?;
    let kept = world.host("rw").join(".git/hooks");
    std::fs::create_dir(&kept).map_err(say)?;
    std::fs::write(kept.join("pre-commit"), "true\n").map_err(say)?;
    std::fs::write(world.host("rw").join(".envrc"), "true\n").map_err(say)?;
    let before = listing(&world.host("rw"));
    run(&world, &plan, "true")?;
    same(&before, &listing(&world.host("rw")))?;
    // What appears is moved away, and what is changed is told, whatever its times are set to.
    let script = "mkdir -p new/.vscode; echo x > new/.vscode/tasks.json; echo x > .mcp.json
                  touch -r .git/hooks/pre-commit stamp; echo evil > .git/hooks/pre-commit
                  touch -r stamp .git/hooks/pre-commit; rm .envrc";
    let mut child = Command::new(&open_at(&plan, world.host("state")), "sh")
        .args(["-c", script])
        .spawn()
        .map_err(say)?;
    child.wait().map_err(say)?;
    let found: Vec<_> = child.quarantined().iter().map(|one| &one.pattern).collect();
    ensure(found.len() == 2, || format!("{found:?}"))?;
    for name in ["new/.vscode", ".mcp.json"] {
        ensure(!world.host("rw").join(name).exists(), || name.to_owned())?;
    }
    let receipt = child.enforcement().to_string();
    for name in [".git/hooks was changed", ".envrc was changed"] {
        ensure(receipt.contains(name), || receipt.clone())?;
    }
    let kept = std::fs::read_dir(world.host("state")).map_err(say)?;
    let mut kept: Vec<_> = kept.flatten().map(|entry| entry.file_name()).collect();
    kept.sort();
    // Of the files that were moved away, and of no command.
    ensure(kept == ["quarantines", "starts"], || {
        format!("records: {kept:?}")
    })
}

fn absent(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    project(&world)?;
    let plan = plan(&world)?;
    let before = listing(&world.host("rw"));
    let mut names: Vec<&str> = EXACT.to_vec();
    names.extend(["sub/.git/hooks", "sub/.git/config", "sub/.git/info"]);
    let output = run(&world, &plan, &attack(&names))?;
    ensure(output.enforcement.quarantined.is_empty(), || {
        format!("{:?}", output.enforcement.quarantined)
    })?;
    same(&before, &listing(&world.host("rw")))?;
    // Nothing is left to say either.
    let mut left: Vec<_> = std::fs::read_dir(world.host("state"))
        .map_err(say)?
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    left.sort();
    ensure(left == ["lock", "starts"], || format!("{left:?}"))?;
    ensure(output.exit.success(), || format!("{output:?}"))
}

/// The default: nothing of ours stands in the directory, for the command or for a person who looks
/// meanwhile, and what a command makes of an absent name is taken away before its result is there.
fn without_trace(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    project(&world)?;
    let mut policy = Policy::builder().mount(world.host("rw"), "/", Access::ALL);
    for name in EXACT.iter().chain(&PATTERNS) {
        policy = policy.protect(*name);
    }
    let plan = mechanism.plan(&policy.build().map_err(say)?);
    let before = listing(&world.host("rw"));
    let made: Vec<&str> = EXACT
        .into_iter()
        .filter(|name| *name != ".git/info")
        .collect();
    let script = format!(
        "ls -A; read go; for n in {}; do mkdir -p $n && echo evil > $n/x || echo evil > $n; done",
        made.join(" ")
    );
    let mut child = Command::new(&open_at(&plan, world.host("state")), "sh")
        .args(["-c", &script])
        .stdin(Stdio::Piped)
        .stdout(Stdio::Piped)
        .spawn()
        .map_err(say)?;
    let mut said = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let entries = std::fs::read_dir(world.host("rw")).map_err(say)?.flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.sort_unstable();
    for expected in names {
        let name = said.next().ok_or("nothing")?.map_err(say)?;
        ensure(*name == *expected, || format!("inside there is {name}"))?;
    }
    same(&before, &listing(&world.host("rw")))?;
    drop(child.stdin.take());
    child.wait().map_err(say)?;
    let mut found: Vec<&str> = Vec::new();
    for one in child.quarantined() {
        found.push(
            one.path
                .strip_prefix("/work")
                .map_err(say)?
                .to_str()
                .ok_or("a name")?,
        );
    }
    found.sort_unstable();
    let mut want = made;
    want.sort_unstable();
    ensure(found == want, || format!("{found:?}"))?;
    let after = listing(&world.host("rw"));
    let is_ours = |path: &&PathBuf| {
        path.components()
            .any(|part| part.as_os_str() == ".os-sandbox-quarantine")
    };
    let left: Vec<_> = after
        .keys()
        .filter(|path| !is_ours(path) && !before.contains_key(*path))
        .collect();
    ensure(left.is_empty(), || format!("left: {left:?}"))?;
    let kept = std::fs::read_dir(world.host("state")).map_err(say)?;
    let mut kept: Vec<_> = kept.flatten().map(|entry| entry.file_name()).collect();
    kept.sort();
    // Of the files that were moved away, and of no command.
    ensure(kept == ["quarantines", "starts"], || {
        format!("records: {kept:?}")
    })
}

fn present(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    project(&world)?;
    let mut names: Vec<String> = EXACT.map(str::to_owned).to_vec();
    names.extend([".env", ".env.local", "tls.key", ".git/modules/lib/hooks"].map(str::to_owned));
    let nested: Vec<String> = names.iter().map(|name| format!("sub/{name}")).collect();
    names.extend(nested);
    for (index, name) in names.iter().enumerate() {
        let path = world.host("rw").join(name);
        if index % 2 == 0 && !name.contains(".env") && !name.contains(".key") {
            std::fs::create_dir(&path).map_err(say)?;
            std::fs::write(path.join("mine"), "mine").map_err(say)?;
        } else {
            std::fs::write(&path, "mine").map_err(say)?;
        }
    }
    let plan = plan(&world)?;
    let before = listing(&world.host("rw"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let output = run(&world, &plan, &attack(&names))?;
    same(&before, &listing(&world.host("rw")))?;
    ensure(output.enforcement.quarantined.is_empty(), || {
        format!("{:?}", output.enforcement.quarantined)
    })
}

fn quarantined(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    project(&world)?;
    let plan = plan(&world)?;
    let before = listing(&world.host("rw"));
    let made = [
        ".env.local",
        "new.key",
        ".git/modules/lib/hooks",
        "sub/.env",
        "sub/.vscode",
        "new/.claude",
        "new/er/.envrc",
        "fresh/.git/hooks",
    ];
    let script = format!(
        "mkdir -p new/er fresh/.git/info fresh/.git/objects fresh/.git/refs
         echo x > fresh/.git/HEAD; echo '*.o' > fresh/.git/info/exclude
         printf '[core]\\n\\tbare = false\\n' > fresh/.git/config
         for n in {}; do case $n in *hooks|*vscode|*claude) mkdir $n; echo evil > $n/pre-commit;;
         *) echo evil > $n;; esac; done",
        made.join(" ")
    );
    let mut child = Command::new(&open_at(&plan, world.host("state")), "sh")
        .args(["-c", &script])
        .spawn()
        .map_err(say)?;
    child.wait().map_err(say)?;
    let mut found: Vec<String> = Vec::new();
    for one in child.quarantined() {
        let path = one.path.strip_prefix("/work").map_err(say)?;
        found.push(path.display().to_string());
        let now = one.now.clone().ok_or_else(|| format!("{one}"))?;
        ensure(now.exists() && now.ends_with(path), || format!("{one}"))?;
    }
    found.sort();
    let mut want: Vec<String> = made.map(str::to_owned).to_vec();
    want.sort();
    ensure(found == want, || format!("{found:?}"))?;
    ensure(child.enforcement().quarantined.len() == want.len(), || {
        "no receipt".to_owned()
    })?;
    let entry = child
        .enforcement()
        .promises
        .iter()
        .find(|e| e.promise == Promise::ProtectedNames);
    ensure(
        entry.is_some_and(|e| e.state == PromiseState::Detected),
        || format!("{entry:?}"),
    )?;
    for name in made {
        let path = world.host("rw").join(name);
        ensure(path.symlink_metadata().is_err(), || {
            format!("{name} is still there")
        })?;
    }
    // What was not against any pattern stays, what was there is as it was, and the quarantine is
    // closed to the next command and not swept itself.
    let after = listing(&world.host("rw"));
    for (path, what) in &before {
        ensure(after.get(path) == Some(what), || {
            format!("{} changed", path.display())
        })?;
    }
    ensure(world.host("rw").join("fresh/.git/config").exists(), || {
        "config went".to_owned()
    })?;
    let script = "ls .os-sandbox-quarantine/* || mv .os-sandbox-quarantine x || echo closed";
    let output = run(&world, &plan, script)?;
    ensure(
        output.stdout.text() == "closed\n" && output.enforcement.quarantined.is_empty(),
        || format!("{output:?}"),
    )?;
    same(&after, &listing(&world.host("rw")))
}

/// Directories that nobody may write in, and a quarantine that was taken.
fn stubborn(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let plan = plan(&world)?;
    let output = run(
        &world,
        &plan,
        "echo mine > .os-sandbox-quarantine; mkdir -p a/.vscode; echo evil > a/.vscode/x
         chmod 0555 a/.vscode a; true",
    )?;
    let [one] = output.enforcement.quarantined.as_slice() else {
        return Err(format!("{output:?}"));
    };
    ensure(
        one.now.as_ref().is_some_and(|now| now.join("x").exists()),
        || format!("{one}"),
    )?;
    let a = world.host("rw").join("a").metadata().map_err(say)?;
    ensure(a.mode() & 0o777 == 0o555, || format!("{:o}", a.mode()))
}

fn links(mechanism: Mechanism) -> Result<(), String> {
    use std::os::unix::fs::symlink;
    let world = World::new(mechanism);
    let at = |name: &str| world.host("rw").join(name);
    symlink("file", at(".env.old")).map_err(say)?;
    symlink("file", at(".vscode")).map_err(say)?;
    symlink("file", at(".envrc")).map_err(say)?;
    let plan = plan(&world)?;
    let output = run(
        &world,
        &plan,
        "ln -sfn evil .vscode; rm .envrc; echo evil > .envrc; ln -s evil .env.new; true",
    )?;
    let mut names: Vec<_> = output
        .enforcement
        .quarantined
        .iter()
        .map(|one| one.path.clone())
        .collect();
    names.sort();
    let want = ["/work/.env.new", "/work/.envrc", "/work/.vscode"].map(PathBuf::from);
    ensure(names == want, || format!("{names:?}"))?;
    for name in [".env.old", ".vscode", ".envrc"] {
        let to = std::fs::read_link(at(name)).map_err(say)?;
        ensure(to == Path::new("file"), || {
            format!("{name} leads to {}", to.display())
        })?;
    }
    ensure(at(".env.new").symlink_metadata().is_err(), || {
        ".env.new".to_owned()
    })
}

fn secrets(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let plan = plan(&world)?;
    let script = "mkdir -p venv/lib; echo > venv/lib/cacert.pem; echo > venv/.env.example";
    let output = run(&world, &plan, script)?;
    let there = world.host("rw").join("venv/lib/cacert.pem").exists();
    ensure(output.enforcement.quarantined.is_empty() && there, || {
        format!("{output:?}")
    })
}

/// A mount over a name goes when somebody else replaces the name: the command can change the new one,
/// so what was there before is put back after the end.
fn replaced(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let names = [".mcp.json", "sub/.envrc", ".vscode"];
    for name in names {
        let path = world.host("rw").join(name);
        std::fs::create_dir_all(path.parent().ok_or("no parent")?).map_err(say)?;
        std::fs::write(&path, "mine").map_err(say)?;
    }
    let plan = plan(&world)?;
    let script =
        "echo x >> .mcp.json || echo kept; read line; echo evil >> .mcp.json && echo taken";
    let mut child = Command::new(&open_at(&plan, world.host("state")), "sh")
        .args(["-c", script])
        .stdin(Stdio::Piped)
        .stdout(Stdio::Piped)
        .spawn()
        .map_err(say)?;
    let mut said = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let first = said.next().ok_or("nothing")?.map_err(say)?;
    ensure(first == "kept", || first.clone())?;
    // As an editor saves, and in place.
    let new = world.host("new");
    std::fs::write(&new, "new").map_err(say)?;
    std::fs::rename(&new, world.host("rw").join(".mcp.json")).map_err(say)?;
    std::fs::write(world.host("rw").join("sub/.envrc"), "new").map_err(say)?;
    std::fs::remove_file(world.host("rw").join(".vscode")).map_err(say)?;
    drop(child.stdin.take());
    let last = said.next().ok_or("nothing more")?.map_err(say)?;
    child.wait().map_err(say)?;
    ensure(last == "taken", || last.clone())?;
    let now = std::fs::read_to_string(world.host("rw").join(".mcp.json")).map_err(say)?;
    let aside = child.enforcement().quarantined.first().cloned();
    let aside = aside.and_then(|one| one.now).ok_or("not moved")?;
    let aside = std::fs::read_to_string(aside).map_err(say)?;
    ensure(now == "mine" && aside == "newevil\n", || {
        format!("{now} {aside}")
    })?;
    let entry = child
        .enforcement()
        .promises
        .iter()
        .find(|e| e.promise == Promise::ProtectedNames)
        .ok_or("no entry")?;
    let reason = entry.reason.clone().unwrap_or_default();
    ensure(
        entry.state == PromiseState::Degraded
            && reason.matches("was replaced").count() == 2
            && reason.contains("/work/.vscode is as before the start again")
            && reason.contains("/work/.mcp.json was replaced"),
        || format!("{entry:?}"),
    )
}

/// A part's own access is a boundary: the command does not outlive it.
fn part_replaced(mechanism: Mechanism) -> Result<(), String> {
    for narrower in ["file", "dir"] {
        let world = World::new(mechanism);
        let rw = world.host("rw");
        std::fs::write(rw.join("file"), "mine").map_err(say)?;
        std::fs::create_dir(rw.join("dir")).map_err(say)?;
        std::fs::write(rw.join("other"), "mine").map_err(say)?;
        let policy = Policy::builder()
            .mount(&rw, "/", Access::READ | Access::WRITE)
            .mount(rw.join(narrower), "/part", Access::READ)
            .protect("other");
        let plan = mechanism.plan(&policy.build().map_err(say)?);
        let script = format!(
            "echo ready; read line; read line; echo evil >> {narrower} || echo evil > {narrower}/x"
        );
        let mut child = Command::new(&open_at(&plan, world.host("state")), "sh")
            .args(["-c", &script])
            .stdin(Stdio::Piped)
            .stdout(Stdio::Piped)
            .timeout(WITHIN)
            .spawn()
            .map_err(say)?;
        let mut said = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        said.next().ok_or("nothing")?.map_err(say)?;
        let mut input = child.stdin.take().ok_or("no input")?;
        // Another name that loses its mount ends nothing.
        std::fs::write(rw.join("new"), "new").map_err(say)?;
        std::fs::rename(rw.join("new"), rw.join("other")).map_err(say)?;
        input.write_all(b"on\n").map_err(say)?;
        std::thread::sleep(Duration::from_millis(100));
        ensure(child.try_wait().map_err(say)?.is_none(), || {
            "ended for a name".to_owned()
        })?;
        std::fs::rename(rw.join(narrower), rw.join("aside")).map_err(say)?;
        let ended = child.wait();
        drop(input);
        let error = match ended {
            Ok(exit) => return Err(format!("{narrower}: {exit}")),
            Err(error) => error.to_string(),
        };
        ensure(error.contains("was replaced by another program"), || error)?;
        ensure(!rw.join(narrower).exists(), || "written".to_owned())?;
    }
    Ok(())
}

/// Closed by one command, opened by the next, which knows that nobody looked into it.
fn unlisted(mechanism: Mechanism) -> Result<(), String> {
    if nix::unistd::geteuid().is_root() {
        // Nothing is closed to such a caller.
        return Ok(());
    }
    let world = World::new(mechanism);
    let plan = plan(&world)?;
    let closed = world.host("rw").join("closed");
    let first = run(&world, &plan, "mkdir -p closed/.vscode; chmod 000 closed")?;
    let second = run(
        &world,
        &plan,
        "chmod 755 closed || mv closed x || echo kept; mkdir closed/.idea",
    );
    let mode = closed.symlink_metadata().map_err(say)?.mode();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o755)).map_err(say)?;
    let second = second?;
    ensure(first.exit.success() && mode & 0o7777 == 0, || {
        format!("{mode:o} {first:?}")
    })?;
    ensure(second.stdout.text() == "kept\n", || format!("{second:?}"))?;
    ensure(!closed.join(".idea").exists(), || "made".to_owned())
}

fn read_only(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    project(&world)?;
    crate::fixture::set_mode(&world.host("rw"), 0o555);
    let mut child = Command::new(&open_at(&plan(&world)?, world.host("state")), "true")
        .spawn()
        .map_err(say)?;
    let entry = child
        .enforcement()
        .promises
        .iter()
        .find(|e| e.promise == Promise::ProtectedNames);
    let entry = entry.cloned();
    let ended = child.wait().map_err(say)?;
    crate::fixture::set_mode(&world.host("rw"), 0o755);
    let root = nix::unistd::geteuid().is_root();
    let want = if root {
        PromiseState::Detected
    } else {
        PromiseState::Degraded
    };
    ensure(entry.as_ref().is_some_and(|e| e.state == want), || {
        format!("{entry:?}")
    })?;
    let reason = entry.and_then(|e| e.reason).unwrap_or_default();
    ensure(root || reason.contains("cannot be held"), || reason)?;
    ensure(ended.success(), || format!("{ended}"))
}

/// The parent of a name is a link to somewhere else: nothing is made there, and it is said.
fn planted(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let outside = world.host("outside");
    std::os::unix::fs::symlink(&outside, world.host("rw").join(".git")).map_err(say)?;
    std::os::unix::fs::symlink(&outside, world.host("rw").join("sub")).map_err(say)?;
    std::fs::create_dir(world.host("rw").join("nested")).map_err(say)?;
    std::os::unix::fs::symlink(&outside, world.host("rw").join("nested/.git")).map_err(say)?;
    let mut child = Command::new(&open_at(&plan(&world)?, world.host("state")), "sh")
        .args(["-c", "ls -A /work; sleep 0"])
        .spawn()
        .map_err(say)?;
    let reason = format!("{}", child.enforcement());
    let outcome = world.unharmed();
    child.wait().map_err(say)?;
    outcome?;
    world.unharmed()?;
    ensure(reason.contains(".git is a link"), || reason)
}

fn concurrent(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    project(&world)?;
    let plan = plan(&world)?;
    let before = listing(&world.host("rw"));
    let start = || {
        Command::new(&open_at(&plan, world.host("state")), "sh")
            .args(["-c", &format!("read go; {}", attack(&EXACT))])
            .stdin(Stdio::Piped)
            .spawn()
            .map_err(say)
    };
    let mut first = start()?;
    let held = world.host("rw").join(".vscode");
    let is_socket = || {
        held.symlink_metadata()
            .is_ok_and(|meta| meta.file_type().is_socket())
    };
    ensure(is_socket(), || "nothing is held".to_owned())?;
    let mut second = start()?;
    // A whole run in between, and the end of the first, take nothing from the second.
    run(&world, &plan, "true")?;
    ensure(is_socket(), || "a third run took it away".to_owned())?;
    first
        .stdin
        .take()
        .ok_or("no input")?
        .write_all(b"\n")
        .map_err(say)?;
    first.wait().map_err(say)?;
    ensure(is_socket(), || "the first run took it away".to_owned())?;
    second
        .stdin
        .take()
        .ok_or("no input")?
        .write_all(b"\n")
        .map_err(say)?;
    second.wait().map_err(say)?;
    ensure(second.quarantined().is_empty(), || {
        format!("{:?}", second.quarantined())
    })?;
    same(&before, &listing(&world.host("rw")))
}

fn killed(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    project(&world)?;
    let before = listing(&world.host("rw"));
    let mut broker = std::process::Command::new(crate::fixture::probe_program())
        .args(["--holder", mechanism.name()])
        .args([world.host("rw"), world.host("state")])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .map_err(say)?;
    let mut line = String::new();
    if let Some(stdout) = broker.stdout.take() {
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)
            .map_err(say)?;
    }
    let held = world.host("rw").join(".vscode").symlink_metadata().is_ok();
    broker.kill().map_err(say)?;
    broker.wait().map_err(say)?;
    ensure(held && line == "started\n", || {
        format!("nothing was held: {line}")
    })?;
    let left = world.host("rw").join(".vscode").symlink_metadata().is_ok();
    ensure(left, || "nobody could have removed it yet".to_owned())?;
    // Another policy; again while the killed tree is still ending.
    let other = Policy::builder()
        .mount(world.host("rw"), "/data", Access::ALL)
        .protect(".other")
        .build()
        .map_err(say)?;
    let plan = mechanism.plan(&other);
    let until = Instant::now() + WITHIN;
    loop {
        run(&world, &plan, "true")?;
        match same(&before, &listing(&world.host("rw"))) {
            Err(changed) if Instant::now() > until => return Err(changed),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
            Ok(()) => return Ok(()),
        }
    }
}

/// A caller that starts a command and waits to be killed.
pub(crate) fn holder(args: &[String]) -> ExitCode {
    let [mechanism, rw, state] = args else {
        return ExitCode::FAILURE;
    };
    let mechanism = mechanisms()
        .into_iter()
        .find(|one| one.name() == mechanism)
        .expect("a mechanism of this host");
    let mut policy = Policy::builder().mount(rw, "/", Access::ALL).hold_absent();
    for name in EXACT {
        policy = policy.protect(name);
    }
    let plan = mechanism.plan(&policy.build().expect("a policy"));
    let child = Command::new(&open_at(&plan, state.as_str()), "sleep")
        .arg("1000")
        .spawn();
    let mut child = child.expect("a child");
    println!("started");
    child.wait().expect("never");
    ExitCode::FAILURE
}

fn stateless(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let plan = plan(&world)?;
    std::os::unix::fs::symlink(world.host("ro"), world.host("linked")).map_err(say)?;
    for (state, said) in [
        (world.host("linked"), "not a directory"),
        (
            world.host("rw").join("state"),
            "where the command can write",
        ),
        (PathBuf::from("relative"), "absolute"),
    ] {
        let mut child = Command::new(&open_at(&plan, &state), "true")
            .spawn()
            .map_err(say)?;
        let entries = &child.enforcement().promises;
        let entry = entries
            .iter()
            .find(|e| e.promise == Promise::ProtectedNames)
            .cloned();
        child.wait().map_err(say)?;
        let good = entry.as_ref().is_some_and(|e| {
            e.state == PromiseState::Degraded && e.reason.as_ref().is_some_and(|r| r.contains(said))
        });
        ensure(good, || format!("{}: {entry:?}", state.display()))?;
    }
    Ok(())
}

/// A writable part of a read-only mount, and one of a writable one that is shown twice.
fn parts(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    for name in ["rw/part", "ro/open"] {
        std::fs::create_dir(world.host(name)).map_err(say)?;
    }
    let policy = Policy::builder()
        .mount(world.host("rw"), "/rw", Access::ALL)
        .mount(world.host("rw/part"), "/part", Access::ALL)
        .mount(world.host("ro"), "/ro", Access::READ)
        .mount(
            world.host("ro/open"),
            "/ro/open",
            Access::READ | Access::WRITE,
        )
        .mount(
            crate::fixture::probe_program(),
            "/probe",
            Access::READ | Access::EXECUTE,
        )
        .protect(".vscode")
        .hold_absent()
        .build()
        .map_err(say)?;
    let plan = mechanism.plan(&policy);
    let before = (listing(&world.host("rw")), listing(&world.host("ro")));
    let places = ["/rw", "/rw/part", "/part", "/ro", "/ro/open"];
    let names: Vec<String> = places.map(|place| format!("{place}/.vscode")).to_vec();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let script = format!("cd /tmp; {}", attack(&names));
    let output = run(&world, &plan, &script)?;
    ensure(output.enforcement.quarantined.is_empty(), || {
        format!("{output:?}")
    })?;
    same(&before.0, &listing(&world.host("rw")))?;
    same(&before.1, &listing(&world.host("ro")))
}

fn descriptors(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let output = Command::new(&open_at(&plan(&world)?, world.host("state")), "/probe")
        .args(["--probe", "fds"])
        .output()
        .map_err(say)?;
    let text = output.stdout.text();
    ensure(text.trim() == "ok 0 1 2", || format!("{text}"))
}
