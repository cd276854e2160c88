//! Where calls run, with a real engine and without one: every cell of the table, files in a
//! container against files here, one container for a session, and a person's own command.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::confined::patterns;
use crate::daemon::{self, Daemon};
use crate::support::{Ran, World, forge_program, ran};

/// An address that nobody listens at: the client is there, the engine is not.
const DOWN: &str = "unix:///nonexistent/docker.sock";

struct Engine<'a> {
    world: &'a World,
    host: &'a str,
}

impl Engine<'_> {
    fn forge(&self, args: &[&str]) -> Ran {
        let mut command = self.world.command(forge_program(), args);
        ran(command.env("DOCKER_HOST", self.host).output().unwrap())
    }
}

fn config(execution: &str, docker: &str) -> String {
    let image = daemon::IMAGE;
    format!(
        "sandbox:
  mode: direct
  zones: {{ workspace: {{ path: ./workspace, approval: {{ write: preApproved, delete: preApproved }} }} }}
model: scripted:playbook.yaml
shell: {{ default: ask, rules: [{{ pattern: \"*\", approval: preApproved }}] }}
execution: {{ {execution} }}
docker: {{ enabled: true, image: '{image}'{docker} }}
"
    )
}

/// One test, since an engine is dear.
#[test]
fn calls_run_where_the_project_says() {
    let engine = match Daemon::start() {
        Ok(engine) => engine,
        Err(reason) => {
            eprintln!("skipped: {reason}");
            return;
        }
    };
    every_cell_of_the_table(&engine);
    files_are_the_same_inside(&engine);
    a_session_has_one_container_and_outlives_it(&engine);
    commands_are_the_victims_of_their_memory(&engine);
    the_persons_terminal_gets_filtered_output(&engine);
    a_persons_command_has_its_streams_and_its_exit_code(&engine);
    everyday_commands_find_what_they_find_under_bubblewrap(&engine);
    what_could_not_be_started_is_told(&engine);
    named_hosts_hold_in_containers(&engine);
    ports_are_published(&engine);
    no_file_of_a_container_is_where_commands_write(&engine);
    the_doctor_says_what_is_in_the_way(&engine);
    names_mean_what_they_mean_elsewhere(&engine);
    the_examples_run(&engine);
    nothing_is_left(&engine);
}

/// Mode, whether an engine answers, the tool, flags, and what comes of it: the runner, or the code.
const CELLS: &[(&str, bool, &str, &[&str], &str)] = &[
    ("mode: local_only", true, "write_file", &[], "local"),
    ("mode: local_only", true, "shell", &[], "os"),
    ("mode: prefer_local", true, "write_file", &[], "local"),
    ("mode: prefer_local", true, "shell", &[], "os"),
    ("mode: prefer_local", false, "shell", &[], "os"),
    (
        "mode: prefer_local, runners: [docker]",
        true,
        "shell",
        &[],
        "docker",
    ),
    (
        "mode: prefer_local, runners: [docker]",
        false,
        "shell",
        &[],
        "BLOCKED",
    ),
    ("mode: prefer_docker", true, "write_file", &[], "local"),
    ("mode: prefer_docker", true, "shell", &[], "docker"),
    ("mode: prefer_docker", false, "write_file", &[], "local"),
    (
        "mode: prefer_docker",
        false,
        "shell",
        &[],
        "APPROVAL_REQUIRED",
    ),
    ("mode: prefer_docker", false, "shell", &["--yes"], "os"),
    ("mode: docker_required", true, "write_file", &[], "docker"),
    ("mode: docker_required", true, "shell", &[], "docker"),
    (
        "mode: docker_required",
        false,
        "write_file",
        &["--yes"],
        "BLOCKED",
    ),
    (
        "mode: docker_required",
        false,
        "shell",
        &["--yes"],
        "BLOCKED",
    ),
];

fn every_cell_of_the_table(engine: &Daemon) {
    for (mode, up, tool, flags, expected) in CELLS {
        let world = World::new(&[("golem-forge.config.yaml", &config(mode, ""))]);
        let here = Engine {
            world: &world,
            host: if *up { engine.host() } else { DOWN },
        };
        let arguments = match *tool {
            "shell" => r#"{"command": "touch workspace/made"}"#,
            _ => r#"{"path": "/workspace/made", "content": "x"}"#,
        };
        let mut args = vec!["--trust", "tools", "call", tool, arguments, "--json"];
        args.extend(*flags);
        let ran = here.forge(&args);
        let result: Value = serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|error| panic!("{mode} {up} {tool}: {error}: {}", ran.stderr));
        let found = match result["ok"].as_bool() {
            Some(true) => result["runner"].as_str(),
            Some(false) | None => result["error"]["code"].as_str(),
        };
        assert_eq!(
            found,
            Some(*expected),
            "{mode} {up} {tool} {flags:?}: {result}"
        );
        let made = world.project().join("workspace/made").exists();
        assert_eq!(made, result["ok"] == true, "{mode} {up} {tool}");
        if expected
            .chars()
            .all(|letter| letter.is_uppercase() || letter == '_')
        {
            // Docker, the reason and the setting.
            let content = result["content"].as_str().unwrap();
            for word in ["docker cannot be used", "`execution."] {
                assert!(content.contains(word), "{mode} {up} {tool}: {content}");
            }
        }
        let why = result["decision"]["runner"].as_str().unwrap();
        assert!(why.contains("execution."), "{why}");
    }
}

/// Calls of every file tool, their mistakes included. What they answer does not depend on where they
/// are done.
const FILES: &str = r#"
version: 1
workers:
  main:
    - calls:
        - { tool: write_file, args: { path: /workspace/a/b.md, content: "one\ntwo\n" }, as: c1 }
    - calls: [{ tool: append_file, args: { path: /workspace/a/b.md, content: "three\n" }, as: c2 }]
    - calls: [{ tool: read_file, args: { path: /workspace/a/b.md }, as: c3 }]
    - calls: [{ tool: edit_file, args: { path: /workspace/a/b.md, old_text: two, new_text: "2" }, as: c4 }]
    - calls: [{ tool: copy_file, args: { from: /workspace/a/b.md, to: /workspace/c.md }, as: c5 }]
    - calls: [{ tool: list_files, args: { path: /workspace, pattern: "**/*" }, as: c6 }]
    - calls: [{ tool: search_files, args: { path: /workspace, pattern: "thr" }, as: c7 }]
    - calls: [{ tool: hash_file, args: { path: /workspace/c.md }, as: c8 }]
    - calls: [{ tool: file_exists, args: { path: /workspace/none }, as: c9 }]
    - calls: [{ tool: create_dir, args: { path: /workspace/d }, as: c10 }]
    - calls: [{ tool: read_file, args: { path: /workspace/a/none }, as: c11 }]
    - calls: [{ tool: read_file, args: { path: /etc/passwd }, as: c12 }]
    - calls: [{ tool: write_file, args: { path: /kb/x, content: x }, as: c13 }]
    - calls: [{ tool: read_file, args: { path: /workspace/../kb/k.md }, as: c14 }]
    - calls: [{ tool: edit_file, args: { path: /workspace/c.md, old_text: none, new_text: x }, as: c15 }]
    - calls: [{ tool: write_file, args: { path: /workspace/.git/hooks/x, content: x }, as: c16 }]
    - calls: [{ tool: move_file, args: { from: /workspace/c.md, to: /workspace/d/c.md }, as: c17 }]
    - calls: [{ tool: read_file, args: { path: /workspace/link }, as: c18 }]
    - say: "{% for n in range(1, 19) %}{{ n }} {{ results['c' ~ n].ok }} {{ results['c' ~ n].content }}\n{% endfor %}"
"#;

fn files_are_the_same_inside(engine: &Daemon) {
    let answers = |mode: &str| {
        let config = format!("{}knowledge_base: ./kb\n", config(mode, ", reuse: session"));
        let world = World::new(&[
            ("golem-forge.config.yaml", config.as_str()),
            ("playbook.yaml", FILES),
            ("kb/k.md", "known"),
            ("workspace/keep", "x"),
            ("workers/main.worker", "---\nname: main\n---\nGo.\n"),
        ]);
        std::os::unix::fs::symlink("/etc/passwd", world.project().join("workspace/link")).unwrap();
        let here = Engine {
            world: &world,
            host: engine.host(),
        };
        let ran = here.forge(&["--trust", "run", "main", "go", "--yes"]);
        ran.code(0);
        let shown = here.forge(&["log", "show", "last", "--json"]);
        let shown: Value = serde_json::from_str(&shown.code(0).stdout).unwrap();
        let ran_in = shown["summary"]["runners"]["chosen"].clone();
        (ran.stdout, ran_in, shown["summary"]["artifacts"].clone())
    };
    let (local, ran_in, left_here) = answers("mode: local_only");
    assert!(ran_in["local"].as_u64() > Some(10), "{ran_in}");
    assert!(local.contains("1 True Written 8 characters"), "{local}");
    assert!(local.contains("14 True known"), "{local}");
    let (inside, ran_in, left_there) = answers("mode: docker_required");
    assert!(ran_in["docker"].as_u64() > Some(10), "{ran_in}");
    assert_eq!(ran_in["local"], Value::Null);
    assert_eq!(inside, local);
    assert_eq!(left_there, left_here);
}

const SESSION: &str = r#"
version: 1
workers:
  main:
    - calls: [{ tool: shell, args: { command: "cut -d ' ' -f 22 /proc/1/stat" }, as: one }]
    - calls: [{ tool: shell, args: { command: "sh -c 'touch workspace/began; sleep 300'", timeout_s: 300 }, as: killed }]
    - calls: [{ tool: shell, args: { command: "cut -d ' ' -f 22 /proc/1/stat" }, as: two }]
    - calls: [{ tool: shell, args: { command: "cut -d ' ' -f 22 /proc/1/stat" }, as: three }]
    - say: "{{ results.one.content | trim }}|{{ results.killed.content | trim }}|{{ results.two.content | trim }}|{{ results.three.content | trim }}"
"#;

/// What is told of a container is when its first process was started.
fn a_session_has_one_container_and_outlives_it(engine: &Daemon) {
    let config = config("mode: prefer_docker", ", reuse: session");
    let world = World::new(&[
        ("golem-forge.config.yaml", config.as_str()),
        ("playbook.yaml", SESSION),
        ("workers/main.worker", "---\nname: main\n---\nGo.\n"),
    ]);
    let mut command = world.command(forge_program(), &["--trust", "run", "main", "go"]);
    let mut child = command
        .env("DOCKER_HOST", engine.host())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Killed from outside as soon as the command runs in it.
    let began = world.project().join("workspace/began");
    let until = Instant::now() + Duration::from_secs(600);
    while !began.exists() && Instant::now() < until && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let mount = world.project().canonicalize().unwrap();
    for id in engine.docker(&["ps", "--quiet"]).lines() {
        let mounts = engine.try_docker(&["inspect", "--format", "{{json .Mounts}}", id]);
        if String::from_utf8_lossy(&mounts.stdout).contains(mount.to_str().unwrap()) {
            engine.docker(&["kill", id]);
        }
    }
    let ran = ran(child.wait_with_output().unwrap());
    ran.code(0);
    let words: Vec<&str> = ran.stdout.trim().split('|').collect();
    let [one, killed, two, three] = words[..] else {
        panic!("{}", ran.stdout);
    };
    assert!(
        killed.starts_with("The isolation that this call ran in ended"),
        "{killed}"
    );
    // The next call started another one, which the one after it shared.
    assert_ne!(one, two);
    assert_eq!(two, three);
}

const VICTIMS: &str = r#"
version: 1
workers:
  main:
    - calls: [{ tool: shell, args: { command: "cut -d ' ' -f 22 /proc/1/stat" }, as: one }]
    - calls: [{ tool: shell, args: { command: "sh -c 'for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18; do { head -c 8000000 /dev/zero; sleep 5; } | tail & done; wait; exit 1'" }, as: several }]
    - calls: [{ tool: shell, args: { command: "tail /dev/zero" }, as: alone }]
    - calls: [{ tool: shell, args: { command: "cut -d ' ' -f 22 /proc/1/stat" }, as: two }]
    - say: "{{ results.one.content | trim }}|{{ results.several.content }}|{{ results.alone.content }}|{{ results.two.content | trim }}"
"#;

/// The kernel ends the command, whose processes are smaller than the node, and the node serves the next
/// call.
fn commands_are_the_victims_of_their_memory(engine: &Daemon) {
    let config = config("mode: prefer_docker", ", reuse: session, mem_limit_mb: 128");
    let world = World::new(&[
        ("golem-forge.config.yaml", config.as_str()),
        ("workspace/keep", "x"),
        ("playbook.yaml", VICTIMS),
        ("workers/main.worker", "---\nname: main\n---\nGo.\n"),
    ]);
    let here = Engine {
        world: &world,
        host: engine.host(),
    };
    let ran = here.forge(&["--trust", "run", "main", "go"]);
    ran.code(0);
    let words: Vec<&str> = ran.stdout.trim().split('|').collect();
    let [one, several, alone, two] = words[..] else {
        panic!("{}", ran.stdout);
    };
    for killed in [several, alone] {
        assert!(killed.contains("more than 128 MiB of memory"), "{killed}");
    }
    assert_eq!(one, two, "the node was ended with the command");
}

/// As for a command on this host: each of the streams that is the person's terminal is filtered.
fn the_persons_terminal_gets_filtered_output(engine: &Daemon) {
    use crate::terminal::pty::{Setup, Terminal, USUAL};
    let config = config("mode: docker_required", "");
    let world = World::new(&[("golem-forge.config.yaml", config.as_str())]);
    world.write("input", "");
    let script = "for at in 1 2; do printf 'a\\033]52;c;aGVsbG8=\\007\\033]0;title\\033\\\\b\\n' >&$at; done; \
                  printf 'e\\033]' >&2; exit 3";
    for (line, shown, noted, kept) in [
        ("F", 2, 2, false),
        ("F | cat >out; exit 3", 1, 1, true),
        ("F 2>out", 1, 0, true),
        ("F <input", 2, 2, false),
        ("cat input | F >out", 1, 1, true),
        ("F >out 2>&1", 0, 0, true),
    ] {
        let forge = format!(
            "'{}' --trust exec -- sh -c \"$1\"",
            forge_program().display()
        );
        let line = line.replace('F', &forge);
        let mut command = world.command(Path::new("sh"), &["-c", &line, "sh", script]);
        command.env("DOCKER_HOST", engine.host());
        let setup = Setup {
            piped: false,
            ..USUAL
        };
        let ended = Terminal::start_command(setup, command).end_with_command();
        assert_eq!(ended.code, Some(3), "{line}: {:?}", ended.raw);
        assert_eq!(
            ended.raw.matches("ab\r\n").count(),
            shown,
            "{line}: {:?}",
            ended.raw
        );
        assert!(!ended.raw.contains("\x1b]"), "{line}: {:?}", ended.raw);
        let note = "note: not passed on to your terminal: 1 use of the clipboard, 1 window title";
        assert_eq!(
            ended.raw.matches(note).count(),
            noted,
            "{line}: {:?}",
            ended.raw
        );
        if kept {
            let out = std::fs::read_to_string(world.project().join("out")).unwrap();
            assert!(
                out.contains("a\x1b]52;c;aGVsbG8=\x07\x1b]0;title\x1b\\b\n"),
                "{line}: {out:?}"
            );
        }
    }
}

const QUARANTINED: &str = r#"
version: 1
workers:
  main:
    - calls: [{ tool: shell, args: { command: "sh -c 'mkdir -p workspace/k/.vscode; echo x > workspace/k/.vscode/tasks.json'" }, as: one }]
    - calls: [{ tool: shell, args: { command: "echo second" }, as: two }]
    - say: "{{ results.one.content }} {{ results.one.structured.quarantined }}\n{{ results.two.content }}"
"#;

fn a_persons_command_has_its_streams_and_its_exit_code(engine: &Daemon) {
    use std::io::Write as _;
    let config = config("mode: docker_required", "");
    let world = World::new(&[("golem-forge.config.yaml", config.as_str())]);
    let args = [
        "--trust",
        "exec",
        "--receipt",
        "receipt.json",
        "--",
        "sh",
        "-c",
    ];
    let script = "cat; echo err >&2; echo x > /workspace/made; exit 7";
    let mut command = world.command(forge_program(), &[&args[..], &[script]].concat());
    let mut child = command
        .env("DOCKER_HOST", engine.host())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let long = "0123456789abcde\n".repeat(40_000);
    let text = long.clone();
    // Beside: what comes back has to be read meanwhile.
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let done = ran(child.wait_with_output().unwrap());
    writer.join().unwrap().unwrap();
    done.code(7).says(&["err"]);
    assert!(done.stdout == long, "{} bytes", done.stdout.len());
    let made = world.project().join("workspace/made");
    assert_eq!(std::fs::read_to_string(made).unwrap(), "x\n");
    // Nothing is left in the moment in which forge ends, neither there nor here.
    let left = || {
        let names = std::fs::read_dir(world.project().join("workspace")).unwrap();
        let mut names: Vec<String> = names
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        // The engine removes a container in its own time.
        let mut left = engine.everything();
        left.retain(|one| !one.contains("Removal In Progress"));
        (left, names)
    };
    assert_eq!(left(), (Vec::new(), vec!["made".to_owned()]));
    let receipt = std::fs::read_to_string(world.project().join("receipt.json")).unwrap();
    let receipt: Value = serde_json::from_str(&receipt).unwrap();
    assert_eq!(receipt["backend"], "docker");
    assert!(receipt["inside"].is_object(), "{receipt}");
    let here = Engine {
        world: &world,
        host: engine.host(),
    };
    here.forge(&["--trust", "exec", "--", "no-such-program"])
        .code(127);
    // Nothing of this machine is there, and nothing is writable but what was given.
    let looks = "ls /home 2>&1; touch /x; wget -T 2 http://127.0.0.1:9 2>&1; id -u";
    here.forge(&["--trust", "exec", "--", "sh", "-c", looks])
        .code(0);
    // Protected names at new places are taken away before the result is there, and that is said.
    let makes = "cd workspace; mkdir -p n/.git/hooks m/.vscode; echo x > n/.git/hooks/pre-commit; \
                 echo x > m/.vscode/tasks.json";
    let flags = [
        "--trust",
        "exec",
        "--receipt",
        "receipt.json",
        "--",
        "sh",
        "-c",
        makes,
    ];
    here.forge(&flags).code(0).says(&["quarantined: "]);
    let receipt = std::fs::read_to_string(world.project().join("receipt.json")).unwrap();
    let receipt: Value = serde_json::from_str(&receipt).unwrap();
    // The node inside looks first, and what it took away is no longer there for who looks after it.
    let taken: usize = [&receipt["quarantined"], &receipt["inside"]["quarantined"]]
        .iter()
        .filter_map(|found| found.as_array().map(Vec::len))
        .sum();
    assert!(taken >= 2, "{receipt}");
    for name in [
        "workspace/n/.git/hooks/pre-commit",
        "workspace/m/.vscode/tasks.json",
    ] {
        assert!(!world.project().join(name).exists(), "{name}");
    }
    assert_eq!(engine.everything(), Vec::<String>::new());
    // A call after such a one is a call like any other; and in a session it is said at the end.
    for (reuse, told) in [
        ("call", "[not kept: /workspace/k/.vscode "),
        ("session", "quarantined: "),
    ] {
        let set = format!("docker.reuse={reuse}");
        world.write("playbook.yaml", QUARANTINED);
        world.write("workers/main.worker", "---\nname: main\n---\nGo.\n");
        let ran = here.forge(&["--trust", "-c", &set, "run", "main", "go"]);
        ran.code(0);
        assert!(
            ran.stdout.ends_with("\nsecond\n"),
            "{reuse}: {}",
            ran.stdout
        );
        let kept = world.project().join("workspace/k/.vscode/tasks.json");
        assert!(!kept.exists(), "{reuse}");
        assert_eq!(engine.everything(), Vec::<String>::new(), "{reuse}");
        let said = ran.stdout + &ran.stderr;
        assert!(said.contains(told), "{reuse}: {said}");
    }
    // For one command, whatever the project prefers.
    let receipt = |config: &str, runner: &str| {
        world.write("golem-forge.config.yaml", config);
        let flags = ["--trust", "exec", "--runner", runner, "--receipt", "r.json"];
        here.forge(&[&flags[..], &["--", "true"]].concat()).code(0);
        let text = std::fs::read_to_string(world.project().join("r.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["backend"].clone()
    };
    let local = self::config("mode: local_only", "").replace("enabled: true", "enabled: false");
    assert_eq!(receipt(&local, "docker"), "docker");
    assert_ne!(receipt(&config, "local"), "docker");
    world.write("golem-forge.config.yaml", &config);
    let down = Engine {
        world: &world,
        host: DOWN,
    };
    down.forge(&["--trust", "exec", "--", "true"])
        .code(125)
        .says(&[
            "no runner is available",
            "docker cannot be used",
            "/nonexistent/docker.sock",
        ]);
}

/// What comes of an everyday command in a container, compared with bubblewrap.
enum Compared {
    Same,
    /// It differs, for this reason.
    Differs(&'static str),
}

use Compared::{Differs, Same};

/// The programs are the same busybox on both roads.
const EVERYDAY: &[(&str, Compared)] = &[
    (
        "pwd",
        Differs("a container has the project at /work; here it is where it is outside"),
    ),
    ("ls .", Same),
    ("ls -a ~", Same),
    ("ls /workspace /ro 2>&1", Same),
    ("cd / && ls -d dev etc home proc tmp work", Same),
    ("ls / > /dev/null && echo listed", Same),
    ("ls /home /tmp", Same),
    (
        "ls /",
        Differs("the image has its own directories, and an engine adds /sys"),
    ),
    (
        "echo ~; echo $TMPDIR; stat -c '%a %u' ~ /tmp /dev/shm",
        Same,
    ),
    ("touch ~/x && rm ~/x && echo made", Same),
    ("df /tmp | tail -1 | cut -d ' ' -f 1", Same),
    (
        "df -k /tmp | tail -1 | tr -s ' ' | cut -d ' ' -f 2",
        Differs("at most 256 MiB, and half of `docker.mem_limit_mb`"),
    ),
    ("echo x > /tmp/a && cat /tmp/a && rm /tmp/a", Same),
    ("cp $BIN/busybox /tmp/b && /tmp/b echo ran; rm /tmp/b", Same),
    ("dirname $(mktemp) $(mktemp -d); rm -r /tmp/tmp.*", Same),
    (
        "echo x > /dev/shm/a && ln /dev/shm/a /dev/shm/b && cat /dev/shm/b; rm /dev/shm/*",
        Same,
    ),
    (
        "cp $BIN/busybox /dev/shm/b && /dev/shm/b echo ran; rm /dev/shm/b",
        Same,
    ),
    (
        "head -c 100000000 /dev/zero > /dev/shm/large && wc -c < /dev/shm/large; rm /dev/shm/large",
        Same,
    ),
    ("id -u; id -g; id -un", Same),
    ("cat /etc/passwd", Differs("users are the image's own")),
    ("hostname; uname -n", Same),
    // Settings of git are those of commands on this machine.
    (
        "env | grep -v -E '^(OS_SANDBOX|GIT_CONFIG_[A-Z0-9_]*|SHLVL|PWD|_)=' | sort",
        Same,
    ),
    (
        "echo $OS_SANDBOX",
        Differs("the name of what confines the command itself"),
    ),
    ("nproc; umask; tty", Same),
    (
        "ulimit -c; ulimit -d; ulimit -f; ulimit -n; ulimit -t",
        Same,
    ),
    (
        "grep processes /proc/self/limits",
        Differs("processes are counted by the container's own limit, `docker.pids_limit`"),
    ),
    (
        "echo x > /dev/null; head -c 3 /dev/zero | wc -c; head -c 3 /dev/urandom | wc -c",
        Same,
    ),
    ("echo x | tee /dev/fd/2 2>&1", Same),
    (
        "ls /dev",
        Differs("an engine has /dev/mqueue and no /dev/core"),
    ),
    (
        "touch /workspace/f && chmod 700 /workspace/f && stat -c %a /workspace/f; rm /workspace/f",
        Same,
    ),
    (
        "touch /tmp/f && chown $(id -u) /tmp/f && cp -a /tmp/f /tmp/g && mkfifo /tmp/p && ls /tmp; rm /tmp/*",
        Same,
    ),
    (
        "for d in / /etc /usr /bin /home /ro; do touch $d/x 2>/dev/null && echo $d; done; echo none",
        Same,
    ),
    ("cat /etc/shadow 2>/dev/null || echo none", Same),
    ("nc -w 1 127.0.0.1 9 2>&1", Same),
    (
        "kill -9 1 2>/dev/null; echo $?; kill -0 1 2>/dev/null; echo $?",
        Same,
    ),
    ("sleep 600 & echo left", Same),
    ("(exit 7)", Same),
    ("no-such-program 2>/dev/null", Same),
    (
        "grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status",
        Same,
    ),
    (
        "cat /proc/1/comm",
        Differs("the container's own first process, and the node's"),
    ),
];

fn everyday_commands_find_what_they_find_under_bubblewrap(engine: &Daemon) {
    let busybox = daemon::busybox().expect("the image was made of it");
    let zones = config("mode: docker_required", "")
        .replace("zones: {", "zones: { ro: { path: ./ro, mode: ro },");
    let root = "sandbox: { root: . }\nshell: { default: ask }\n\
                execution: { mode: docker_required }\n"
        .to_owned()
        + &format!("docker: {{ enabled: true, image: '{}' }}\n", daemon::IMAGE);
    for (front, config, bin) in [
        ("zones", zones, "/workspace/bin"),
        ("root", root, "/work/workspace/bin"),
    ] {
        let world = World::new(&[
            ("golem-forge.config.yaml", &config),
            ("workspace/keep", "x"),
            ("ro/keep", "x"),
        ]);
        let here = Engine {
            world: &world,
            host: engine.host(),
        };
        let there = world.project().join("workspace/bin");
        std::fs::create_dir(&there).unwrap();
        std::fs::copy(&busybox, there.join("busybox")).unwrap();
        let mut script = format!(
            "B={bin}/busybox; $B --list | while read -r n; do [ $n = busybox ] || \
             $B ln -sf busybox {bin}/$n; done; export PATH={bin} BIN={bin}\n"
        );
        for (index, (command, _)) in EVERYDAY.iter().enumerate() {
            script.push_str(&format!(
                "echo '##{index}'; ( {command}\n); echo \"-> $?\"\n"
            ));
        }
        world.write("workspace/script", &script);
        let came = |runner: &str| -> Vec<String> {
            let program = format!("{bin}/busybox");
            let file = format!("{bin}/../script");
            let args = [
                "--trust", "exec", "--runner", runner, "--", &program, "sh", &file,
            ];
            let ran = here.forge(&args);
            ran.code(0);
            let parts = ran.stdout.split("##").skip(1);
            parts
                .map(|part| part.split_once('\n').unwrap().1.to_owned())
                .collect()
        };
        let (bubblewrap, docker) = (came("local"), came("docker"));
        assert_eq!(bubblewrap.len(), EVERYDAY.len(), "{front}: {bubblewrap:?}");
        let mut wrong = String::new();
        for (index, (command, compared)) in EVERYDAY.iter().enumerate() {
            let found = (bubblewrap.get(index), docker.get(index));
            match (compared, found.0 == found.1) {
                (Same, true) | (Differs(_), false) => {}
                (Same, false) => wrong.push_str(&format!(
                    "`{command}` differs:\nunder bubblewrap:\n{}in a container:\n{}",
                    found.0.map_or("", String::as_str),
                    found.1.map_or("", String::as_str)
                )),
                (Differs(why), true) => {
                    wrong.push_str(&format!("`{command}` does not differ; its reason: {why}\n"));
                }
            }
        }
        assert!(wrong.is_empty(), "{front}\n{wrong}");
    }
}

/// Why no container could be started is for people: the model learns that none could.
fn what_could_not_be_started_is_told(engine: &Daemon) {
    let two =
        config("mode: docker_required", "").replace("zones: {", "zones: { two: { path: ./two },");
    let tight = config("mode: docker_required", ", mem_limit_mb: 128");
    let plain = config("mode: docker_required", "");
    for (about, config, host, arguments, model, person) in [
        (
            "two owners",
            &two,
            engine.host(),
            r#"{"command": "pwd"}"#,
            &["The isolation that this call needs is not available"][..],
            &["a container has one user", "to do: give both to one user"][..],
        ),
        (
            "no engine",
            &plain,
            DOWN,
            r#"{"command": "pwd"}"#,
            &[
                "no container can be started",
                "`execution.mode: docker_required`",
            ],
            &[
                "no container engine answers at unix:///nonexistent",
                "to do: start the engine",
            ],
        ),
        (
            "a program that the image has not",
            &plain,
            engine.host(),
            r#"{"command": "no-such-program"}"#,
            &[
                "there is no such program",
                "its image does not have this program",
            ],
            &[],
        ),
        (
            "more memory than the container has",
            &tight,
            engine.host(),
            r#"{"command": "tail /dev/zero"}"#,
            &["more than 128 MiB of memory"],
            &[],
        ),
        (
            // Each is smaller than the node, and holds its memory until all have theirs.
            "more memory in several processes",
            &tight,
            engine.host(),
            r#"{"command": "sh -c 'for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18; do { head -c 8000000 /dev/zero; sleep 5; } | tail & done; wait; exit 1'"}"#,
            &["more than 128 MiB of memory"],
            &[],
        ),
    ] {
        let world = World::new(&[
            ("golem-forge.config.yaml", config),
            ("workspace/keep", "x"),
            ("two/keep", "x"),
            (
                "playbook.yaml",
                &format!(
                    "version: 1\nworkers:\n  main:\n    - calls: [{{ tool: shell, args: {arguments}, \
                     as: one }}]\n    - say: '{{{{ results.one.content }}}}'\n"
                ),
            ),
            ("workers/main.worker", "---\nname: main\n---\nGo.\n"),
        ]);
        let two = world.project().join("two");
        std::os::unix::fs::chown(&two, Some(1234), Some(1234)).unwrap();
        let here = Engine {
            world: &world,
            host,
        };
        let ran = here.forge(&["--trust", "run", "main", "go"]);
        ran.code(0);
        for words in model {
            assert!(ran.stdout.contains(words), "{about}: {}", ran.stdout);
        }
        let logged = here.forge(&["log", "show", "last"]);
        for words in person {
            assert!(ran.stderr.contains(words), "{about}: {}", ran.stderr);
            assert!(!ran.stdout.contains(words), "{about}: {}", ran.stdout);
            assert!(logged.stdout.contains(words), "{about}: {}", logged.stdout);
        }
        assert!(!ran.stdout.contains("/nonexistent"), "{}", ran.stdout);
        let ran = here.forge(&["--trust", "tools", "call", "shell", arguments]);
        for words in person {
            assert!(ran.stderr.contains(words), "{about}: {}", ran.stderr);
        }
        for words in model {
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(said.contains(words), "{about}: {said}");
        }
        // The way around what is required is no advice.
        let ran = here.forge(&["--trust", "exec", "--", "no-such-program"]);
        assert!(
            !ran.stderr.contains("execution.mode=prefer_local"),
            "{about}: {}",
            ran.stderr
        );
        let hint = match about {
            "two owners" => "hint: give both to one user",
            "no engine" => "hint: start the engine",
            _ => "forge image build --base IMAGE",
        };
        ran.says(&[hint]);
    }
}

fn the_doctor_says_what_is_in_the_way(engine: &Daemon) {
    let config = config("mode: docker_required", "");
    let world = World::new(&[
        ("golem-forge.config.yaml", config.as_str()),
        ("two/keep", "x"),
    ]);
    let two = world.project().join("two");
    std::os::unix::fs::chown(two, Some(1234), Some(1234)).unwrap();
    let missing = "docker.image=no-such-image:1";
    for (host, set, code, said) in [
        (engine.host(), "name=x", 0, "Containers work: Docker "),
        (
            DOWN,
            "name=x",
            1,
            "no container engine answers at unix:///nonexistent",
        ),
        (
            engine.host(),
            missing,
            1,
            "to do: build it with `forge image build`",
        ),
        (
            engine.host(),
            "docker.enabled=false",
            0,
            "This project does not use them",
        ),
        (
            engine.host(),
            "network=true",
            0,
            "note: commands in containers have no network: `network` is on",
        ),
        (
            engine.host(),
            "sandbox.zones.two.path=./two",
            1,
            "to do: give both to one user",
        ),
    ] {
        let mut args = vec!["--trust", "-c", set, "doctor", "--docker"];
        // What is required and switched off is a mistake of its own.
        if set == "docker.enabled=false" {
            args.splice(1..1, ["-c", "execution.mode=prefer_docker"]);
        }
        let here = Engine {
            world: &world,
            host,
        };
        let ran = here.forge(&args);
        ran.code(code);
        assert!(ran.stdout.contains(said), "{set}: {}", ran.stdout);
    }
}

/// Asks for a host that is refused, and for one that is allowed.
const HOSTS: &str = r#"
version: 1
workers:
  main:
    - calls: [{ tool: shell, args: { command: "sh -c 'wget -q -O - http://127.0.0.1:PORT/ && ! wget -q -O - http://other.invalid/ && exit 3'" }, as: one }]
    - say: "{{ results.one.content }}"
"#;

/// A server of this machine, and a name that no rule allows.
fn named_hosts_hold_in_containers(engine: &Daemon) {
    use std::io::{BufRead as _, BufReader, Write as _};
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines
                .next()
                .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
            {}
            // The client may be gone.
            let _sent = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\npage\n");
        }
    });
    let config = format!(
        "{}network: {{ allow: ['localhost:{port}'] }}\n",
        config("mode: docker_required", "")
    );
    let world = World::new(&[
        ("golem-forge.config.yaml", config.as_str()),
        ("playbook.yaml", &HOSTS.replace("PORT", &port)),
        ("workers/main.worker", "---\nname: main\n---\nGo.\n"),
    ]);
    let here = Engine {
        world: &world,
        host: engine.host(),
    };
    let both = format!(
        "wget -q -O - http://127.0.0.1:{port}/ && ! wget -q -O - http://other.invalid/ && exit 3"
    );
    let flags = ["--trust", "exec", "--receipt", "r.json", "--", "sh", "-c"];
    let ran = here.forge(&[&flags[..], &[&both]].concat());
    assert_eq!(ran.code(3).stdout, "page\n");
    ran.says(&["refused: connect other.invalid:80", "forge allow --last"]);
    let receipt = std::fs::read_to_string(world.project().join("r.json")).unwrap();
    let receipt: Value = serde_json::from_str(&receipt).unwrap();
    let outcomes: Vec<&Value> = receipt["contacts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|contact| &contact["outcome"])
        .collect();
    assert_eq!(outcomes, ["connected", "refused"], "{receipt}");
    // The same for a model: its note, and the record of the call.
    let ran = here.forge(&["--trust", "run", "main", "go"]);
    ran.code(0);
    for said in ["page", "refused: connect other.invalid:80"] {
        assert!(ran.stdout.contains(said), "{}", ran.stdout);
    }
    let allowed = here.forge(&["--trust", "allow", "--last", "--json"]);
    assert!(
        allowed.stdout.contains("other.invalid"),
        "{}",
        allowed.stdout
    );
    here.forge(&["--trust", "doctor", "--docker"]).code(0);
    let session = ["--trust", "-c", "docker.reuse=session"];
    here.forge(&[&session[..], &["run", "main", "go"]].concat())
        .says(&["docker.reuse: call"]);
    assert_eq!(engine.everything(), Vec::<String>::new());
}

/// Files that a container mounts besides the mounts of the project, in a directory of forge's.
const OWN_FILES: &[&str] = &[
    "home/closed-directory",
    "home/closed-file",
    "home/names-0",
    "tmp/broker",
    "tmp/launcher",
    "tmp/token",
    "token",
];

/// The engine opens, as root, what the mounts of a container name. Another command may have the
/// temporary directory as its project, and here it replaces each file of forge's there by a link to
/// a file outside.
fn no_file_of_a_container_is_where_commands_write(engine: &Daemon) {
    use std::sync::atomic::{AtomicBool, Ordering};

    let base = "docker_required, runners: [docker]";
    let hosts = "network: { allow: ['localhost:9'], loopback_in: [4711] }";
    let calls: [(&str, &str, &[&str]); 4] = [
        ("closed", "", &["exec", "--", "cat", "workspace/.ssh/id"]),
        ("hosts", hosts, &["exec", "--", "cat", "workspace/.ssh/id"]),
        (
            "tool",
            "",
            &[
                "tools",
                "call",
                "shell",
                r#"{"command": "cat workspace/.ssh/id"}"#,
            ],
        ),
        ("doctor", "", &["doctor", "--docker"]),
    ];
    for (name, more, args) in calls {
        let config = format!("{}{more}\n", config(&format!("mode: {base}"), ""));
        let world = World::new(&[
            ("golem-forge.config.yaml", config.as_str()),
            ("workspace/.ssh/id", "own"),
        ]);
        let (temporary, outside) = (world.outside().join("tmp"), world.outside().join("outside"));
        for dir in [&temporary, &outside] {
            std::fs::create_dir(dir).unwrap();
        }
        std::fs::write(outside.join("id"), "OUTSIDE").unwrap();
        let done = AtomicBool::new(false);
        let (ran, seen) = std::thread::scope(|scope| {
            let replacing = scope.spawn(|| {
                let mut seen = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    for entry in std::fs::read_dir(&temporary).unwrap().flatten() {
                        let closed = entry.path().join("home/closed-directory");
                        if closed.is_dir() && !closed.is_symlink() {
                            let _gone = std::fs::rename(&closed, entry.path().join("was"));
                            let _gone = std::os::unix::fs::symlink(&outside, &closed);
                        }
                        // What forge tries the mechanisms of this machine in is no container's.
                        let files = OWN_FILES.iter().map(|name| entry.path().join(name));
                        seen.extend(files.filter(|file| file.exists()));
                    }
                }
                seen
            });
            let mut command = world.command(forge_program(), &[&["--trust"], args].concat());
            command
                .env("DOCKER_HOST", engine.host())
                .env("TMPDIR", &temporary);
            let ran = ran(command.output().unwrap());
            done.store(true, Ordering::Relaxed);
            (ran, replacing.join().unwrap())
        });
        assert!(!ran.stdout.contains("OUTSIDE"), "{name}: {}", ran.stdout);
        assert!(seen.is_empty(), "{name}: {seen:?} {}", ran.stderr);
        if name == "doctor" {
            ran.code(0);
        } else {
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(said.contains("Permission denied"), "{name}: {said}");
        }
    }
}

/// A server in a container is reached on this machine's loopback at the published port, with the network
/// off and beside named hosts, and no longer once its command has ended.
fn ports_are_published(engine: &Daemon) {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    for network in ["", "allow: [a.example], "] {
        let port = std::net::TcpListener::bind(("127.0.0.1", 0))
            .and_then(|listener| listener.local_addr())
            .unwrap()
            .port();
        let config = format!(
            "{}network: {{ {network}loopback_in: [{port}] }}\n",
            config("mode: docker_required", "")
        );
        let world = World::new(&[
            ("golem-forge.config.yaml", config.as_str()),
            ("workspace/page", "from inside\n"),
        ]);
        let serve = format!(
            "httpd -p 127.0.0.1:{port} -h /workspace; \
             while [ ! -e /workspace/stop ]; do sleep 0.1; done"
        );
        let flags = ["--trust", "exec", "--receipt", "r.json", "--", "sh", "-c"];
        let mut command = world.command(forge_program(), &[&flags[..], &[&serve]].concat());
        let mut child = command
            .env("DOCKER_HOST", engine.host())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let page = || {
            let mut stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.write_all(b"GET /page HTTP/1.0\r\n\r\n")?;
            let mut page = String::new();
            stream.read_to_string(&mut page).map(|_| page)
        };
        let mut seen = page();
        let until = Instant::now() + Duration::from_secs(600);
        // Before the server listens, a connection is closed without an answer.
        while !seen.as_ref().is_ok_and(|page| page.contains("200 OK"))
            && Instant::now() < until
            && child.try_wait().unwrap().is_none()
        {
            std::thread::sleep(Duration::from_millis(50));
            seen = page();
        }
        world.write("workspace/stop", "");
        let ran = ran(child.wait_with_output().unwrap());
        let seen = seen.unwrap_or_else(|error| format!("{error}: {}", ran.stderr));
        assert!(seen.ends_with("from inside\n"), "{seen}: {}", ran.stderr);
        ran.code(0);
        assert!(page().is_err(), "the port is open after the command");
        let receipt = std::fs::read_to_string(world.project().join("r.json")).unwrap();
        let receipt: Value = serde_json::from_str(&receipt).unwrap();
        let contacts = receipt["contacts"].as_array().unwrap();
        assert!(
            contacts
                .iter()
                .any(|contact| contact["kind"] == "inbound" && contact["outcome"] == "connected"),
            "{receipt}"
        );
        assert_eq!(engine.everything(), Vec::<String>::new());
    }
}

/// `fixtures/name-patterns.tsv`.
fn names_mean_what_they_mean_elsewhere(engine: &Daemon) {
    let image = format!("docker.image={}", daemon::IMAGE);
    for (pattern, paths) in patterns::rows() {
        let world = patterns::world("hide", pattern);
        for (path, _) in &paths {
            world.write(path, "old");
        }
        let here = Engine {
            world: &world,
            host: engine.host(),
        };
        let read = patterns::script(&paths, "cat PATH 2>/dev/null; echo");
        let run = ["-c", "docker.enabled=true", "-c", &image];
        let run = [&run[..], &["exec", "--runner", "docker", "--", "sh", "-c"]].concat();
        let ran = here.forge(&[&run[..], &[&read]].concat());
        ran.code(0);
        for ((path, covers), seen) in paths.iter().zip(ran.stdout.lines()) {
            assert_eq!(seen.is_empty(), *covers, "hide {pattern} {path}");
        }
    }
}

fn the_examples_run(engine: &Daemon) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for (name, files, commands) in [
        ("local-only", "local", "os"),
        ("docker-preferred", "local", "docker"),
        ("docker-required", "docker", "docker"),
    ] {
        let world = World::new(&[]);
        for file in ["forge.yaml", "playbook.yaml", "workers/main.worker"] {
            let text = std::fs::read_to_string(examples.join(name).join(file)).unwrap();
            world.write(file, &text);
        }
        let here = Engine {
            world: &world,
            host: engine.host(),
        };
        here.forge(&["--trust", "check"]).code(0);
        let image = format!("docker.image={}", daemon::IMAGE);
        let ran = here.forge(&["--trust", "-c", &image, "run"]);
        ran.code(0);
        assert!(ran.stdout.starts_with('3'), "{name}: {}", ran.stdout);
        let shown = here.forge(&["log", "show", "last", "--json"]);
        let shown: Value = serde_json::from_str(&shown.code(0).stdout).unwrap();
        let calls = shown["calls"].as_array().unwrap();
        let places: Vec<&Value> = calls
            .iter()
            .map(|call| &call["execution"]["runner"])
            .collect();
        assert_eq!(places, [files, commands], "{name}");
    }
}

/// An engine that has other files than this machine: what a call needs goes there, and what it
/// changed comes back before it is told.
#[test]
fn an_engine_elsewhere_is_given_copies() {
    let engine = match Daemon::start_elsewhere() {
        Ok(engine) => engine,
        Err(reason) => {
            eprintln!("skipped: {reason}");
            return;
        }
    };
    let config = config("mode: docker_required", "");
    let world = World::new(&[
        ("golem-forge.config.yaml", config.as_str()),
        ("workspace/old", "old\n"),
        ("workspace/gone", "x"),
    ]);
    let here = Engine {
        world: &world,
        host: engine.host(),
    };
    let at = |path: &str| world.project().join("workspace").join(path);
    let tag = "forge-test-elsewhere:1";
    let args = ["exec", "--", "sh", "-c"];
    let exec = |more: &[&str], script: &str| {
        let image = format!("docker.image={tag}");
        let words = [&["--trust", "-c", &image][..], more, &args, &[script]].concat();
        here.forge(&words)
    };

    // This program cannot be mounted there, so it has to be in the image.
    let ran = here.forge(&["--trust", "exec", "--", "true"]);
    ran.code(125).says(&[
        "does not see the files of this machine",
        "forge image build",
    ]);
    here.forge(&["image", "build", "--tag", tag, "--base", daemon::IMAGE])
        .code(0);
    // One container for many calls would bring nothing back between them.
    exec(&["-c", "docker.reuse=session"], "true")
        .code(125)
        .says(&[
            "does not see the files of this machine",
            "docker.reuse: call",
        ]);

    let ran = exec(
        &[],
        "cat workspace/old; echo new > workspace/made; rm workspace/gone; exit 3",
    );
    ran.code(3);
    assert_eq!(ran.stdout, "old\n");
    assert_eq!(std::fs::read_to_string(at("made")).unwrap(), "new\n");
    assert!(!at("gone").exists());

    for (tool, arguments, content) in [
        ("read_file", r#"{"path": "/workspace/made"}"#, "new\n"),
        (
            "write_file",
            r#"{"path": "/workspace/a/b", "content": "more"}"#,
            "Written 4 characters",
        ),
        ("shell", r#"{"command": "cat workspace/a/b"}"#, "more"),
        ("delete_file", r#"{"path": "/workspace/old"}"#, "Deleted"),
    ] {
        let image = format!("docker.image={tag}");
        let args = ["--trust", "-c", &image, "tools", "call", tool, arguments];
        let ran = here.forge(&[&args[..], &["--json"]].concat());
        let result: Value = serde_json::from_str(&ran.code(0).stdout).unwrap();
        assert_eq!(result["runner"], "docker", "{tool}: {result}");
        let said = result["content"].as_str().unwrap();
        assert!(said.contains(content), "{tool}: {said}");
    }
    assert_eq!(std::fs::read_to_string(at("a/b")).unwrap(), "more");
    assert!(!at("old").exists());
    nothing_is_left(&engine);
}

fn nothing_is_left(engine: &Daemon) {
    let until = Instant::now() + Duration::from_secs(600);
    while !engine.everything().is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(engine.everything(), Vec::<String>::new());
}

/// A name and its value.
type Variable = (&'static str, &'static [u8]);

/// Variables, and a text of the refusal. A variable names a directory by the path of the world, and
/// `PORT` is a listener's.
const ENGINES: &[(&[Variable], &str)] = &[
    // An engine that a command could be, or whose authority it could write.
    (
        &[("DOCKER_HOST", b"unix://PROJECT/d.sock")],
        "could choose the container engine",
    ),
    (
        &[
            ("DOCKER_HOST", b"tcp://127.0.0.1:PORT"),
            ("DOCKER_TLS_VERIFY", b"1"),
            ("DOCKER_CERT_PATH", b"PROJECT/certs"),
        ],
        "could choose the container engine",
    ),
    // Text that cannot be read is not absent: TLS would be off, or another engine would answer.
    (
        &[
            ("DOCKER_HOST", b"tcp://127.0.0.1:PORT"),
            ("DOCKER_TLS_VERIFY", b"\xff"),
            ("DOCKER_CERT_PATH", b"PROJECT/certs"),
        ],
        "invalid DOCKER_TLS_VERIFY: the value is not UTF-8",
    ),
    (
        &[("DOCKER_HOST", b"tcp://\xff")],
        "invalid DOCKER_HOST: the value is not UTF-8",
    ),
    (
        &[("https_proxy", b"http://\xff")],
        "invalid https_proxy: the value is not UTF-8",
    ),
    (
        &[("NO_PROXY", b"\xff")],
        "invalid NO_PROXY: the value is not UTF-8",
    ),
    (
        &[("FORGE_NO_INPUT", b"\xff")],
        "invalid FORGE_NO_INPUT: the value is not UTF-8",
    ),
    // A path needs no text, and is the one that is used.
    (
        &[
            ("DOCKER_HOST", b"tcp://127.0.0.1:PORT"),
            ("DOCKER_TLS_VERIFY", b"1"),
            ("DOCKER_CERT_PATH", b"OUTSIDE/certs\xff"),
        ],
        "ca.pem",
    ),
];

/// The engine gets the files of mounts, and its answers are what forge reports.
#[test]
fn no_engine_is_reached_that_a_command_could_choose() {
    use std::os::unix::ffi::OsStringExt as _;

    let replaced = |text: &[u8], pairs: &[(&str, &str)]| {
        let mut out = text.to_vec();
        for (from, to) in pairs {
            if let Some(at) = out
                .windows(from.len())
                .position(|part| part == from.as_bytes())
            {
                out.splice(at..at + from.len(), to.bytes());
            }
        }
        std::ffi::OsString::from_vec(out)
    };
    for (variables, refusal) in ENGINES {
        let config = config("mode: docker_required", "");
        let world = World::new(&[
            ("golem-forge.config.yaml", config.as_str()),
            ("certs/ca.pem", ""),
        ]);
        let socket = world.project().join("d.sock");
        let local = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let remote = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        local.set_nonblocking(true).unwrap();
        remote.set_nonblocking(true).unwrap();
        let port = remote.local_addr().unwrap().port().to_string();
        let outside = world.outside().to_str().unwrap().to_owned();
        let project = format!("{outside}/project");
        let pairs = [
            ("PROJECT", &*project),
            ("OUTSIDE", &*outside),
            ("PORT", &*port),
        ];
        for args in [
            &["--trust", "exec", "--", "id"][..],
            &["--trust", "doctor", "--docker"],
            &["--trust", "image", "build", "--base", "x"],
        ] {
            let mut command = world.command(forge_program(), args);
            for (name, value) in *variables {
                command.env(name, replaced(value, &pairs));
            }
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let said = said + &String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success(), "{variables:?} {args:?}: {said}");
            assert!(said.contains(refusal), "{variables:?} {args:?}: {said}");
            assert!(local.accept().is_err(), "{variables:?} {args:?}");
            assert!(remote.accept().is_err(), "{variables:?} {args:?}");
        }
    }
    // The engine that a project names is judged too.
    let world = World::new(&[("keep", "")]);
    let path = world.project().join("d.sock");
    let local = std::os::unix::net::UnixListener::bind(&path).unwrap();
    local.set_nonblocking(true).unwrap();
    let host = format!(", host: 'unix://{}'", path.display());
    world.write(
        "golem-forge.config.yaml",
        &config("mode: docker_required", &host),
    );
    let ran = world.forge(&["--trust", "doctor", "--docker"]);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("could choose the container engine"), "{said}");
    assert!(local.accept().is_err());
}
