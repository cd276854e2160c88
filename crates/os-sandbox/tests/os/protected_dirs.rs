//! Directories that a command cannot change but can read: sockets of the host and hidden names in
//! them are as far away as anywhere, and the files that their links lead to are protected.

use crate::fixture::{Mechanism, World};
use crate::outcome::{ensure, say};
use crate::report::Report;
use os_sandbox::{Access, Command, Git, Policy, UnixSockets};
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Directories of a project, and `true` for a protected one. No pattern for secrets applies in
/// `node_modules`.
const DIRECTORIES: [(&str, bool); 15] = [
    ("plain", false),
    ("node_modules/a", false),
    (".git/objects", false),
    (".git/hooks", true),
    (".git/info", true),
    (".git/unknown", true),
    (".git/modules/m/hooks", true),
    ("sub/.git/hooks", true),
    ("bare.git/hooks", true),
    ("bare.git/hooks/deeper", true),
    (".vscode", true),
    (".vscode/a/b", true),
    (".vscode/node_modules/a", true),
    ("run", true),
    // `core.hooksPath`.
    ("led/in", true),
];

/// Files of a protected directory that a command may read.
const SPARED: [&str; 4] = [
    ".vscode/node_modules/a hidden",
    ".vscode/node_modules/a key",
    "node_modules/a hidden",
    "node_modules/a key",
];

/// Made by a person in each directory, `N` being its number.
const BEFORE: &str = r#"mkdir -p "$1" "$1/empty"
echo secret > "$1/.env"; echo secret > "$1/only"
printf -- '-----BEGIN PRIVATE KEY-----\nsecret\n' > "$1/k.pem"
echo target > "targets/$2"; ln -s "$PWD/targets/$2" "$1/link""#;

/// Done by a command in each directory: a line for each thing that it could do.
const ATTEMPTS: &str = r#"
import os, socket, sys
for number, directory in enumerate(sys.argv[1:]):
    def attempt(name, call):
        try:
            print(directory, name) if call() else None
        except OSError:
            pass
    def connect(name):
        socket.socket(socket.AF_UNIX).connect(f"{directory}/{name}")
        return True
    def read(name):
        return "secret" in open(f"{directory}/{name}").read()
    def write(name):
        return open(name, "w").write("x")
    attempt("socket", lambda: connect("s"))
    attempt("hidden", lambda: read(".env"))
    attempt("key", lambda: read("k.pem"))
    attempt("exact", lambda: directory == "run" and read("only"))
    attempt("target", lambda: write(f"targets/{number}"))
    attempt("new", lambda: write(f"{directory}/new"))
    attempt("deeper", lambda: write(f"{directory}/empty/new"))
    attempt("moved", lambda: os.rename(f"{directory}/empty", f"{directory}/other") is None)
"#;

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    if !mechanism.moves() {
        return;
    }
    report.case("protected directories: a project", project(mechanism));
    report.case("protected directories: read-only", read_only(mechanism));
    report.case("protected directories: links later", later(mechanism));
    report.case(
        "protected directories: links repointed",
        repointed(mechanism),
    );
    report.case("protected directories: programs", programs(mechanism));
    report.case("protected directories: a worktree", worktree(mechanism));
}

fn person(directory: &Path, script: &str, words: &[&str]) -> Result<(), String> {
    let done = std::process::Command::new("sh")
        .args(["-euc", script, "sh"])
        .args(words)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .map_err(say)?;
    ensure(done.status.success(), || {
        String::from_utf8_lossy(&done.stderr).into_owned()
    })
}

/// A project with everything in every directory, and the sockets.
fn populate(world: &World) -> Result<Vec<UnixListener>, String> {
    let top = world.host("rw");
    let script = "git init -q; git init -q sub; git init -q --bare bare.git; mkdir targets
        git init -q --bare .git/modules/m; mkdir -p led/in; git config core.hooksPath led";
    person(&top, script, &[])?;
    let mut sockets = Vec::new();
    for (number, (directory, _)) in DIRECTORIES.iter().enumerate() {
        person(&top, BEFORE, &[directory, &number.to_string()])?;
        sockets.push(UnixListener::bind(top.join(directory).join("s")).map_err(say)?);
    }
    for file in [".git/fsmonitor--daemon.ipc", ".envrc"] {
        sockets.push(UnixListener::bind(top.join(file)).map_err(say)?);
    }
    Ok(sockets)
}

fn attempts(world: &World, access: Access) -> Result<(Vec<String>, String), String> {
    let mut policy = Policy::builder()
        .git(Git::Commit)
        .unix_sockets(UnixSockets::Own)
        .mount(world.host("rw"), "/", access);
    for name in [".vscode", ".envrc", ".env*", "*.pem", ".git/hooks", "run"] {
        policy = policy.protect(name);
    }
    for name in [".env*", "*.pem", "/run/only"] {
        policy = policy.hide(name);
    }
    let plan = world.mechanism.plan(&policy.build().map_err(say)?);
    let output = Command::new(&plan, "python3")
        .args(["-c", ATTEMPTS])
        .args(DIRECTORIES.map(|(directory, _)| directory))
        .output()
        .map_err(say)?;
    let said = output.stdout.text();
    let mut said: Vec<String> = said.lines().map(str::to_owned).collect();
    said.sort();
    Ok((said, format!("{} {}", output.exit, output.stderr.text())))
}

fn project(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let sockets = populate(&world)?;
    let (said, ended) = attempts(&world, Access::ALL)?;
    let open = DIRECTORIES.iter().filter(|(_, protected)| !protected);
    let free = open.flat_map(|(directory, _)| {
        let of = |what| format!("{directory} {what}");
        ["target", "new", "deeper", "moved"].map(of)
    });
    let mut free: Vec<String> = free.chain(SPARED.map(str::to_owned)).collect();
    free.sort();
    ensure(said == free, || format!("{said:?} {ended}"))?;
    for (file, socket) in [".git/fsmonitor--daemon.ipc", ".envrc"]
        .iter()
        .zip(sockets.iter().rev().take(2).rev())
    {
        let script = format!("import socket; socket.socket(socket.AF_UNIX).connect('{file}')");
        socket.set_nonblocking(true).map_err(say)?;
        let policy = Policy::builder()
            .git(Git::Commit)
            .unix_sockets(UnixSockets::Own)
            .protect(".envrc")
            .mount(world.host("rw"), "/", Access::ALL);
        let plan = mechanism.plan(&policy.build().map_err(say)?);
        let output = Command::new(&plan, "python3")
            .args(["-c", &script])
            .output();
        let reached = output.map_err(say)?.exit.success() || socket.accept().is_ok();
        ensure(!reached, || format!("{file} was reached"))?;
    }
    Ok(())
}

fn read_only(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let _sockets = populate(&world)?;
    let (said, ended) = attempts(&world, Access::READ | Access::EXECUTE)?;
    ensure(said == SPARED, || format!("{said:?} {ended}"))
}

/// A link in a protected directory leads to a file that a command creates.
fn later(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let top = world.host("rw");
    let script = "git init -q; mkdir scripts; ln -s ../../scripts/pc .git/hooks/pre-commit";
    person(&top, script, &[])?;
    let policy = Policy::builder()
        .git(Git::Commit)
        .protect(".git/hooks")
        .mount(&top, "/", Access::ALL);
    let plan = mechanism.plan(&policy.build().map_err(say)?);
    let output = Command::new(&plan, "sh")
        .args(["-c", "echo x > scripts/pc"])
        .output();
    let output = output.map_err(say)?;
    ensure(!top.join("scripts/pc").exists(), || {
        format!("{} {}", output.exit, output.stderr.text())
    })
}

/// A command leads a protected link to a directory of the person's: the link is moved away, and the
/// directory stays.
fn repointed(mechanism: Mechanism) -> Result<(), String> {
    for (link, text, now) in [
        (".vscode", "editor", "src"),
        (".vscode", "editor", "src/file"),
        (".envrc", "editor/file", "src/file"),
        ("sub/.vscode", "../editor", "../src"),
        (
            ".git/hooks/pre-commit",
            "../../editor/file",
            "../../src/file",
        ),
        (".git/hooks/more", "../../editor", "../../src"),
        // The command makes it.
        ("sub/.envrc", "", "../src/file"),
    ] {
        let world = World::new(mechanism);
        let top = world.host("rw");
        let script = "git init -q; mkdir editor src sub; echo x > editor/file; echo x > src/file
            test -z \"$2\" || ln -s \"$2\" \"$1\"";
        person(&top, script, &[link, text])?;
        let policy = Policy::builder()
            .git(Git::Commit)
            .protect(".vscode")
            .protect(".envrc")
            .protect(".git/hooks")
            .mount(&top, "/", Access::ALL);
        let plan = mechanism.plan(&policy.build().map_err(say)?);
        let output = Command::new(&plan, "sh")
            .args(["-c", "ln -sfn \"$2\" \"$1\"", "sh", link, now])
            .output();
        let output = output.map_err(say)?;
        let left = std::fs::read_link(top.join(link)).ok();
        let is_back = left.as_deref() == Some(Path::new(text)).filter(|_| !text.is_empty());
        let stays = top.join("src/file").exists() && top.join("editor/file").exists();
        ensure(is_back && stays, || {
            let stderr = output.stderr.text();
            format!(
                "{link} -> {now}: {left:?}, {stays}, {} {stderr}",
                output.exit
            )
        })?;
    }
    Ok(())
}

/// Sockets at any depth below a directory of programs, bound by a relative name.
fn programs(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let tools = world.host("tools");
    let names = ["s", "lib/a/b/s"];
    person(
        world.host("rw").as_path(),
        "mkdir -p \"$1/lib/a/b\"; echo x > \"$1/file\"",
        &[&tools.display().to_string()],
    )?;
    let sockets: Vec<UnixListener> = names
        .iter()
        .map(|name| UnixListener::bind(tools.join(name)))
        .collect::<Result<_, _>>()
        .map_err(say)?;
    let policy = Policy::builder()
        .unix_sockets(UnixSockets::Own)
        .programs(&tools, &tools)
        .mount(world.host("rw"), "/", Access::ALL);
    let plan = mechanism.plan(&policy.build().map_err(say)?);
    let script = format!(
        "import os, socket
for name in {names:?}:
    try: socket.socket(socket.AF_UNIX).connect('{top}/' + name); print(name)
    except OSError: pass
one = socket.socket(socket.AF_UNIX); one.bind('own'); one.listen(); os.remove('own')
print(open('{top}/file').read().strip())",
        top = tools.display()
    );
    let output = Command::new(&plan, "python3")
        .args(["-c", &script])
        .output();
    let output = output.map_err(say)?;
    drop(sockets);
    ensure(output.stdout.text() == "x\n", || {
        format!(
            "{} {} {}",
            output.exit,
            output.stdout.text(),
            output.stderr.text()
        )
    })
}

/// The repository of a linked worktree is shown at its path of the host.
fn worktree(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let top = world.host("rw");
    let script = "git init -q main; cd main; git config user.name n; git config user.email a@b
        git commit -qm a --allow-empty; git worktree add -q ../linked; git worktree add -q ../other
        mkdir .git/objects/zz .git/refs/heads/deep; echo secret > .git/hooks/.env";
    person(&top, script, &[])?;
    let git = top.canonicalize().map_err(say)?.join("main/.git");
    let places = [
        "s",
        "objects/s",
        "objects/zz/s",
        "refs/heads/deep/s",
        "hooks/s",
        "worktrees/other/s",
        "worktrees/linked/s",
    ];
    let sockets: Vec<UnixListener> = places
        .iter()
        .map(|name| UnixListener::bind(git.join(name)))
        .collect::<Result<_, _>>()
        .map_err(say)?;
    let policy = Policy::builder()
        .git(Git::Commit)
        .unix_sockets(UnixSockets::Own)
        .protect(".git/hooks")
        .protect(".env*")
        .hide(".env*")
        .mount(top.join("linked"), "/", Access::ALL);
    let plan = mechanism.plan(&policy.build().map_err(say)?);
    let script = format!(
        "import os, socket, sys
os.chdir('{git}')
print(os.path.exists('objects'))
for name in {places:?}:
    try: socket.socket(socket.AF_UNIX).connect(name); print(name)
    except OSError: pass
print(open('hooks/.env').read() if os.access('hooks/.env', os.R_OK) else '', end='')",
        git = git.display()
    );
    let output = Command::new(&plan, "python3")
        .args(["-c", &script])
        .output();
    let output = output.map_err(say)?;
    drop(sockets);
    ensure(output.stdout.text() == "True\n", || {
        format!(
            "{} {} {}",
            output.exit,
            output.stdout.text(),
            output.stderr.text()
        )
    })
}
