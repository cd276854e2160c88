//! A command that runs does not choose the project of a forge that is started meanwhile, nor that of a
//! server.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use sandbox_config::PROJECT_FILES;
use serde_json::json;

use super::exec::mechanisms;
use super::mcp::Client;
use crate::support::{World, eventually, forge_program};

const OWN: &str = "sandbox: { root: ., hide: [secrets.txt] }\n";
const OPEN: &str = "sandbox: { root: . }\n";
const WORKER: &str = "---\nname: new\n---\nSay hello.\n";

/// The script of a command, and the directory in which the next forge is started.
struct Road {
    script: String,
    start: &'static str,
    /// The arguments of the next forge.
    next: &'static [&'static str],
    /// `true` if mounts keep the command from doing it.
    only_loose: bool,
}

const EXEC: &[&str] = &["exec", "--", "cat", "secrets.txt"];

fn road(script: impl Into<String>, start: &'static str) -> Road {
    Road {
        script: script.into(),
        start,
        next: EXEC,
        only_loose: false,
    }
}

fn roads() -> Vec<Road> {
    let open = format!("printf '{}'", OPEN.replace('\n', "\\n"));
    let mut roads: Vec<Road> = PROJECT_FILES
        .iter()
        .map(|name| road(format!("{open} > sub/{name}"), "sub"))
        .collect();
    roads.extend([
        road("mkdir sub/.git", "sub"),
        road("git init -q sub", "sub"),
        road("git init -q r; echo gitdir: ../r/.git > sub/.git", "sub"),
        road("ln -s ../open/forge.yaml sub/forge.yaml", "sub"),
        road(
            format!("mkdir -p new/deep; cp secrets.txt new/deep; {open} > new/forge.yaml"),
            "new/deep",
        ),
    ]);
    for next in [
        &["check"][..],
        &["config"],
        &["explain", "/secrets.txt"],
        &["trust", "--yes"],
        &["run", "--model", "scripted:none"],
        &["tools", "list"],
        &["worker", "list"],
        &["mcp"],
    ] {
        let one = road(format!("{open} > sub/forge.yaml"), "sub");
        roads.push(Road { next, ..one });
    }
    let worker = WORKER.replace('\n', "\\n");
    for next in [
        &["worker", "list"][..],
        &["run", "new"],
        &["worker", "show", "new"],
    ] {
        let one = road(format!("printf -- '{worker}' > workers/new.worker"), ".");
        roads.push(Road { next, ..one });
    }
    let app = "mv app old; mkdir -p app/src; cp old/src/* app/src";
    for (script, start) in [
        (format!("{open} > forge.yaml"), "."),
        ("rm forge.yaml".to_owned(), "."),
        (format!("{open} > x; mv x forge.yaml"), "."),
        ("mv sub old; mv open sub".to_owned(), "sub"),
        (app.to_owned(), "app/src"),
    ] {
        let one = road(script, start);
        roads.push(Road {
            only_loose: true,
            ..one
        });
    }
    roads
}

fn project() -> World {
    let world = World::new(&[
        ("forge.yaml", OWN),
        ("secrets.txt", "TOPSECRET"),
        ("sub/secrets.txt", "TOPSECRET"),
        ("open/forge.yaml", OPEN),
        ("open/secrets.txt", "TOPSECRET"),
        ("app/forge.yaml", OWN),
        ("app/src/secrets.txt", "TOPSECRET"),
        ("workers/main.worker", "---\nname: main\n---\nSay hello.\n"),
    ]);
    // The clock of a file system is a little behind.
    std::thread::sleep(std::time::Duration::from_millis(40));
    world
}

fn start(world: &World, mechanism: &str, script: &str) -> Child {
    let script = format!("{script}; touch made; while [ ! -e over ]; do sleep 0.02; done");
    let args = ["exec", "--mechanism", mechanism, "--", "sh", "-c", &script];
    let mut command = world.command(forge_program(), &args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    eventually(&script, || world.project().join("made").exists());
    child
}

#[test]
fn a_running_command_does_not_choose_the_project() {
    let mut wrong = Vec::new();
    for mechanism in mechanisms(&project()) {
        for road in roads() {
            if road.only_loose && mechanism != "landlock" {
                continue;
            }
            let world = project();
            let at = format!("{mechanism}: {} -> {:?}", road.script, road.next);
            let mut child = start(&world, mechanism, &road.script);
            let directory = world.project().join(road.start);
            let ran = world.forge_in(&directory, road.next);
            let process = format!("process {}", child.id());
            let said = [&ran.stdout[..], &ran.stderr].concat();
            let told = said.contains("may have been") && said.contains(&process);
            if !told || ran.code == 0 && road.next != ["mcp"] || said.contains("TOPSECRET") {
                wrong.push(format!("{at}: {said}"));
            }
            world.write("over", "");
            child.wait().unwrap();
            // Under Landlock alone a change of a file that was there is told, and stays.
            let after = world.forge_in(&world.project(), EXEC);
            let is_back = !road.only_loose;
            if is_back && after.stdout.contains("TOPSECRET")
                || after.stderr.contains("may have been")
            {
                wrong.push(format!("{at}, after the end: {after:?}"));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

/// Commands in containers are recorded in a state directory of forge's own.
#[test]
fn a_command_with_a_record_of_containers_does_not_choose_the_project() {
    let world = project();
    let mechanism = mechanisms(&world)[0];
    let open = OPEN.replace('\n', "\\n");
    let mut child = start(
        &world,
        mechanism,
        &format!("printf '{open}' > sub/forge.yaml"),
    );
    let usual = world.outside().join("home/.local/state/os-sandbox");
    let of_containers = world.outside().join("state/containers");
    let mut private = std::fs::DirBuilder::new();
    private
        .mode(0o700)
        .recursive(true)
        .create(&of_containers)
        .unwrap();
    let is_record = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("command-")
    };
    let entries = std::fs::read_dir(&usual).unwrap();
    let records: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(is_record)
        .collect();
    let [record] = records.as_slice() else {
        panic!("{records:?}");
    };
    // Its lock goes along.
    std::fs::rename(record, of_containers.join(record.file_name().unwrap())).unwrap();
    let ran = world.forge_in(&world.project().join("sub"), EXEC);
    let process = format!("process {}", child.id());
    ran.code(125).says(&["may have been made", &process]);
    world.write("over", "");
    child.wait().unwrap();
}

/// A person's project files stay theirs while a command runs, also after changes in place under mounts.
#[test]
fn a_running_command_takes_no_project_of_the_persons() {
    for mechanism in mechanisms(&project()) {
        let world = project();
        let mut child = start(&world, mechanism, "true");
        let forge = |start: &str, args: &[&str], code: i32| {
            let ran = world.forge_in(&world.project().join(start), args);
            assert_eq!(ran.code, code, "{mechanism} {start} {args:?}: {ran:?}");
        };
        for start in [".", "sub", "app", "app/src", "open"] {
            forge(start, &["exec", "--", "true"], 0);
            forge(start, &["check"], 0);
        }
        forge(".", &["worker", "list"], 0);
        if mechanism != "landlock" {
            world.write("forge.yaml", &format!("{OWN}# changed\n"));
            forge("sub", &["exec", "--", "true"], 0);
        }
        world.write("over", "");
        child.wait().unwrap();
    }
}

/// A killed command leaves its record until the next start there. A person edits files meanwhile, and
/// that start looks for what was left.
#[test]
fn a_killed_command_locks_nobody_out() {
    for mechanism in mechanisms(&project()) {
        let world = project();
        let mut child = start(&world, mechanism, "true");
        child.kill().unwrap();
        child.wait().unwrap();
        let saved = world.project().join("saved");
        std::fs::write(&saved, format!("{OWN}# saved by a rename\n")).unwrap();
        std::fs::rename(&saved, world.project().join("forge.yaml")).unwrap();
        // The tree of the command ends a moment after its forge.
        eventually(mechanism, || {
            let ran = world.forge(&["check"]);
            assert!(!ran.stderr.contains("was killed"), "{ran:?}");
            ran.code == 0
        });
    }
}

/// What forge writes for a person would be taken for the command's at its end, and be refused until then.
#[test]
fn forge_writes_no_project_file_beside_a_running_command() {
    let install = ["mcp", "install", "claude", "--scope", "project", "--write"];
    let writes: [(&str, &[&str], &str); 5] = [
        ("sub", &["init", "--yes"], "sub/forge.yaml"),
        (".", &["init", "--yes", "fresh"], "fresh/forge.yaml"),
        (".", &["init", "--yes", "a/b"], "a/b/forge.yaml"),
        (".", &["worker", "new", "other"], "workers/other.worker"),
        (".", &install, ".mcp.json"),
    ];
    for mechanism in mechanisms(&project()) {
        let world = project();
        let at = |name: &str| world.project().join(name);
        let mut child = start(&world, mechanism, "true");
        for (start, words, file) in writes {
            let ran = world.forge_in(&at(start), words);
            let process = format!("process {}", child.id());
            ran.code(1).says(&["nothing was written", &process]);
            assert!(!at(file).exists(), "{mechanism}: {words:?}");
            assert!(!at("fresh").exists() && !at("a").exists());
        }
        world.write("over", "");
        child.wait().unwrap();
        for (start, words, file) in writes {
            world.forge_in(&at(start), words).code(0);
            assert!(at(file).exists(), "{mechanism}: {words:?}");
        }
    }
}

/// The project file of a server is that of its start, whoever makes a nearer one.
#[test]
fn a_server_keeps_its_project_file() {
    let world = project();
    let mut client = Client::start(&world, &["-C", "sub", "mcp"]);
    let check = |client: &mut Client, at: &str| {
        let read = client.call("read_file", json!({ "path": "/secrets.txt" }));
        assert_eq!(read["isError"], true, "{at}: {read}");
    };
    check(&mut client, "at the start");
    world.write("sub/forge.yaml", OPEN);
    client.hear("nearest project file now");
    check(&mut client, "with a nearer file");
    world.write("forge.yaml", &format!("{OWN}limits: {{ max_turns: 3 }}\n"));
    client.hear("changed and is in force");
    check(&mut client, "after a change");
    client.end();
}

/// A file that a command can change in place is not taken while it runs.
#[test]
fn a_server_takes_no_file_that_a_running_command_changed() {
    for mechanism in mechanisms(&project()) {
        if mechanism != "landlock" {
            continue;
        }
        let world = project();
        let mut client = Client::start(&world, &["mcp"]);
        let script = format!("printf '{}' > forge.yaml", OPEN.replace('\n', "\\n"));
        let mut child = start(&world, mechanism, &script);
        client.hear("made or changed");
        let read = client.call("read_file", json!({ "path": "/secrets.txt" }));
        assert_eq!(read["isError"], true, "{read}");
        world.write("over", "");
        child.wait().unwrap();
        client.end();
    }
}
