//! `forge exec`: what a command can reach, and whose exit code it is.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::time::Duration;

use crate::support::{PROJECT, World, forge_program, ran};

const FILE: &str = "golem-forge.config.yaml";

/// Every mechanism that this host has, each forced by name. The tests of os-sandbox
/// make sure that none is left out unseen.
pub(super) fn mechanisms(world: &World) -> Vec<&'static str> {
    working(world, &["namespaces", "landlock"])
}

/// The mechanisms with mounts and a network namespace.
pub(super) fn mount_layers(world: &World) -> Vec<&'static str> {
    working(world, &["namespaces", "bubblewrap"])
}

fn working(world: &World, names: &[&'static str]) -> Vec<&'static str> {
    let works = |name: &&&str| {
        let ran = world.forge(&["exec", "--mechanism", name, "--", "true"]);
        ran.code == 0
    };
    let all: Vec<_> = names.iter().filter(works).copied().collect();
    assert!(!all.is_empty(), "this host has none of {names:?}");
    all
}

#[test]
fn nothing_outside_is_read_or_written() {
    let world = World::new(&[("inside.txt", "inside")]);
    std::fs::write(world.outside().join("secret"), "the planted secret").unwrap();
    let home = std::env::home_dir().unwrap();
    let marker = home.join(format!(".forge-test-{}", std::process::id()));
    for mechanism in mechanisms(&world) {
        let script = format!(
            "cat /etc/shadow; cat {secret}; echo x > {marker}; echo x >> {secret}; \
             echo x > ~/.bashrc; ls {outside}/home; cat inside.txt; echo new > made.txt",
            secret = world.outside().join("secret").display(),
            marker = marker.display(),
            outside = world.outside().display(),
        );
        let ran = world.forge(&["exec", "--mechanism", mechanism, "--", "sh", "-c", &script]);
        ran.code(0);
        assert_eq!(ran.stdout, "inside", "{mechanism}: {}", ran.stderr);
        assert!(!marker.exists(), "{mechanism}");
        let secret = std::fs::read_to_string(world.outside().join("secret")).unwrap();
        assert_eq!(secret, "the planted secret", "{mechanism}");
        let made = std::fs::read_to_string(world.project().join("made.txt")).unwrap();
        assert_eq!(made, "new\n", "{mechanism}");
        assert!(!world.outside().join("home/.bashrc").exists());
    }
}

/// Options of forge end where the command begins, with or without `--`.
#[test]
fn the_command_needs_no_dashes() {
    let world = World::new(&[("a.txt", "alpha\n")]);
    let rows: [(&[&str], i32, &str); 5] = [
        (&["exec", "cat", "a.txt"], 0, "alpha\n"),
        (&["exec", "--read-only", "ls", "--", "a.txt"], 0, "a.txt\n"),
        (
            &["exec", "sh", "-c", "echo $0 $1", "x", "--json"],
            0,
            "x --json\n",
        ),
        (&["exec", "--", "cat", "--", "a.txt"], 0, "alpha\n"),
        (&["exec", "--tiemout", "5", "true"], 125, ""),
    ];
    for (arguments, code, stdout) in rows {
        let ran = world.forge(arguments);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (code, stdout),
            "{arguments:?} {}",
            ran.stderr
        );
    }
}

#[test]
fn networking_off_means_off() {
    let world = World::new(&[]);
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    tcp.set_nonblocking(true).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{} || echo tcp refused; \
         echo x >/dev/udp/127.0.0.1/{} || echo udp refused",
        tcp.local_addr().unwrap().port(),
        udp.local_addr().unwrap().port(),
    );
    for mechanism in mechanisms(&world) {
        let ran = world.forge(&[
            "exec",
            "--mechanism",
            mechanism,
            "--",
            "bash",
            "-c",
            &script,
        ]);
        // Without a network namespace there are no sockets; with one, nobody listens there.
        let refusal = match mechanism {
            "namespaces" => "Connection refused",
            _ => "Network is unreachable",
        };
        ran.says(&[refusal]);
        // UDP tells nobody whether something arrived.
        let told = ran.stdout.ends_with("udp refused\n");
        assert_eq!(
            told,
            mechanism != "namespaces",
            "{mechanism}: {}",
            ran.stdout
        );
        assert!(tcp.accept().is_err(), "{mechanism}");
        assert!(udp.recv(&mut [0; 8]).is_err(), "{mechanism}");
    }
}

#[test]
fn the_exit_code_is_the_commands_own() {
    let world = World::new(&[("not-executable", "text")]);
    for mechanism in mechanisms(&world) {
        for (command, code) in [
            (&["true"][..], 0),
            (&["sh", "-c", "exit 7"], 7),
            (&["sh", "-c", "exit 125"], 125),
            (&["sh", "-c", "kill -9 $$"], 137),
            (&["no-such-program"], 127),
            (&["./not-executable"], 126),
        ] {
            let mut all = vec!["exec", "--mechanism", mechanism, "--"];
            all.extend(command);
            world.forge(&all).code(code);
        }
        world
            .forge(&[
                "exec",
                "--mechanism",
                mechanism,
                "--timeout",
                "1",
                "--",
                "sleep",
                "60",
            ])
            .code(124);
    }
}

#[test]
fn the_receipt_says_what_was_enforced() {
    let world = World::new(&[]);
    for mechanism in mechanisms(&world) {
        world
            .forge(&[
                "exec",
                "--mechanism",
                mechanism,
                "--receipt",
                "../receipt.json",
                "--",
                "true",
            ])
            .code(0);
        let text = std::fs::read_to_string(world.outside().join("receipt.json")).unwrap();
        let receipt: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(receipt["backend"], *mechanism);
        assert_eq!(receipt["seccomp"], true);
        assert!(receipt["landlock_abi"].is_u64());
        let promises = receipt["promises"].as_array().unwrap();
        let state = |name: &str| {
            promises
                .iter()
                .find(|entry| entry["promise"] == name)
                .unwrap_or_else(|| panic!("no {name} in {text}"))["state"]
                .clone()
        };
        assert_eq!(state("network"), "enforced");
        assert_eq!(state("write outside"), "enforced");
        if mechanism == "landlock" {
            // What Landlock alone cannot keep is there to read.
            assert_eq!(state("process list"), "absent");
        }
    }
}

/// A protected name in a new directory cannot be prevented: it is taken away, and the person and the
/// receipt are told.
#[test]
fn what_was_taken_away_is_said() {
    let world = World::new(&[]);
    if !mechanisms(&world).contains(&"namespaces") {
        eprintln!("skipped: no mount layer here");
        return;
    }
    let ran = world.forge(&[
        "exec",
        "--receipt",
        "../receipt.json",
        "--",
        "sh",
        "-c",
        "mkdir -p new/.vscode; echo x > new/.vscode/tasks.json",
    ]);
    ran.code(0);
    // The project is where it is outside.
    let taken = world.project().join("new/.vscode");
    let taken = taken.to_str().unwrap();
    assert!(
        ran.stderr
            .contains(&format!("quarantined: {taken} (.vscode: ")),
        "{}",
        ran.stderr
    );
    assert!(!world.project().join("new/.vscode").exists());
    let text = std::fs::read_to_string(world.outside().join("receipt.json")).unwrap();
    let receipt: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(receipt["quarantined"][0]["path"], taken);
}

/// One object on standard output, with what the command printed in it.
#[test]
fn json_is_one_object_on_standard_output() {
    let world = World::new(&[]);
    let script = "echo out; echo err >&2; printf 'x%.0s' $(seq 300000); exit 3";
    for mechanism in mechanisms(&world) {
        for flag in [&["--json"][..], &["--receipt", "-"]] {
            let first = [&["exec", "--mechanism", mechanism][..], flag].concat();
            let ran = world.forge(&[&first[..], &["--", "sh", "-c", script]].concat());
            ran.code(3);
            assert_eq!(ran.stderr, "");
            let said: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
            assert_eq!(
                (&said["ended"], &said["number"]),
                (&"exit".into(), &3.into())
            );
            let stdout = said["stdout"]["text"].as_str().unwrap();
            assert!(stdout.starts_with("out\nxxx"), "{mechanism}");
            assert_eq!(said["stdout"]["bytes"], 300_004);
            assert_eq!(said["stdout"]["truncated"], true);
            assert_eq!(said["stderr"]["text"], "err\n");
            assert_eq!(said["enforcement"]["backend"], mechanism);
        }
    }
}

/// The receipt is true at the end, whatever the command did to it, and the same as with `--json`.
#[test]
fn the_receipt_is_the_one_of_the_end() {
    let world = World::new(&[]);
    let victim = world.outside().join("victim");
    std::fs::write(&victim, "untouched").unwrap();
    let link = format!("rm r.json; ln -s {} r.json", victim.display());
    let cases = [
        ("true", false),
        ("cat r.json > /dev/null; touch other", false),
        ("echo '{}' > r.json", true),
        ("rm r.json; echo '{}' > r.json", true),
        ("rm r.json; mkdir r.json", true),
        (link.as_str(), true),
    ];
    for mechanism in mechanisms(&world) {
        for (script, forged) in cases {
            let _fresh = std::fs::remove_file(world.project().join("r.json"));
            // The command is faster than the first receipt.
            let script = format!("until grep -qs backend r.json; do sleep 0.01; done; {script}");
            let run = |more: &[&str]| {
                let args = [
                    more,
                    &[
                        "exec",
                        "--mechanism",
                        mechanism,
                        "--receipt",
                        "r.json",
                        "--",
                    ],
                ];
                let args = [args.concat(), vec!["sh", "-c", &script]].concat();
                world.forge(&args)
            };
            let ran = run(&[]);
            if script.contains("mkdir") {
                // Nothing can be renamed over a directory.
                ran.code(125);
                std::fs::remove_dir(world.project().join("r.json")).unwrap();
                continue;
            }
            ran.code(0);
            let told = ran
                .stderr
                .contains("r.json was changed while the command ran");
            assert_eq!(told, forged, "{mechanism}: {script}: {}", ran.stderr);
            let ran = run(&["--json"]);
            let said: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
            let text = std::fs::read_to_string(world.project().join("r.json")).unwrap();
            let receipt: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(said["enforcement"], receipt, "{mechanism}: {script}");
            assert_eq!(receipt["backend"], mechanism);
        }
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "untouched");
    let left = std::fs::read_dir(world.project()).unwrap().flatten();
    let left = left.filter(|one| one.file_name().to_string_lossy().contains("forge-tmp"));
    assert_eq!(left.count(), 0);
}

/// Where not everything can be looked at, the call fails with the reason: to the person, in the
/// receipt, and in what `check` says beforehand.
#[test]
fn what_cannot_be_looked_at_fails_the_command() {
    let world = World::new(&[]);
    if !mechanisms(&world).contains(&"namespaces") {
        eprintln!("skipped: no mount layer here");
        return;
    }
    let deep = "n=$(printf 'a%.0s' $(seq 200)); for i in $(seq 30); do mkdir $n; cd -P $n; done";
    let exec = |script| {
        let receipt = [
            "exec",
            "--receipt",
            "../receipt.json",
            "--",
            "sh",
            "-c",
            script,
        ];
        world.forge(&receipt)
    };
    let ran = exec(deep);
    ran.code(125);
    assert!(ran.stderr.contains("cannot be listed"), "{}", ran.stderr);
    let text = std::fs::read_to_string(world.outside().join("receipt.json")).unwrap();
    assert!(
        text.contains("not looked for everywhere after the end"),
        "{text}"
    );
    let ran = exec("touch ran");
    ran.code(125);
    assert!(ran.stderr.contains("cannot be listed"), "{}", ran.stderr);
    assert!(!world.project().join("ran").exists());
    // The directory that a person removes is named whole.
    let top = world.project().join("a".repeat(200));
    ran.says(&[
        &format!("the directories in {} are", top.display()),
        "rm -r",
    ]);
    std::fs::write(world.project().join(FILE), "sandbox:\n  root: .\n").unwrap();
    let checked = world.forge(&["--trust", "check"]);
    assert!(
        checked.stderr.contains("every command is refused"),
        "{}",
        checked.stderr
    );
    let quiet = world.forge(&["--trust", "-q", "check"]);
    assert!(
        !quiet.stderr.contains("every command is refused"),
        "{}",
        quiet.stderr
    );
    let removed = std::process::Command::new("sh")
        .args(["-c", "rm -r \"$1\"", "sh"])
        .arg(top)
        .status();
    assert!(removed.unwrap().success());
    exec("true").code(0);
}

/// A very deep directory beside others, and one that was taken, do not hide where they are.
#[test]
fn a_deep_directory_is_found_by_a_person() {
    let chain =
        "n=$(printf 'a%.0s' $(seq 200)); for i in $(seq 30); do mkdir $n; touch f; cd -P $n; done";
    for mechanism in mechanisms(&World::new(&[])) {
        let world = World::new(&[("src/mine", "")]);
        let exec = |script: &str| {
            let args = ["exec", "--mechanism", mechanism, "--", "sh", "-c", script];
            world.forge(&args)
        };
        exec(&format!("cd src; {chain}")).code(125);
        let shown = world.project().join("src");
        exec("true")
            .code(125)
            .says(&[&format!("the directories in {} are", shown.display())]);
        std::fs::remove_dir_all(shown).unwrap();
        let taken = exec(&format!("mkdir .vscode; cd .vscode; {chain}"));
        assert!(
            !taken.stderr.contains("could still have a repository"),
            "{}",
            taken.stderr
        );
        world
            .forge(&["quarantine", "discard", "--all", "--yes"])
            .code(0);
        exec("true").code(0);
    }
}

#[test]
fn a_directory_with_mounts_in_it_shows_them() {
    let world = World::new(&[(FILE, PROJECT), ("data/a.md", "A"), ("workspace/b.md", "B")]);
    for mechanism in mechanisms(&world) {
        let ran = world.forge(&[
            "exec", "--mechanism", mechanism, "--", "sh", "-c",
            "ls; cat data/a.md workspace/b.md; echo x > data/a.md || echo refused; echo C > workspace/c.md",
        ]);
        ran.code(0);
        // Without a mount layer its names are those of the host, which are nobody's.
        let names = match mechanism {
            "landlock" => "",
            _ => "data\nworkspace\n",
        };
        assert_eq!(
            ran.stdout,
            format!("{names}ABrefused\n"),
            "{mechanism}: {}",
            ran.stderr
        );
        assert_eq!(
            std::fs::read_to_string(world.project().join("data/a.md")).unwrap(),
            "A"
        );
        std::fs::remove_file(world.project().join("workspace/c.md")).unwrap();
    }
    // Read-only narrows further.
    let ran = world.forge(&[
        "exec",
        "--read-only",
        "--",
        "sh",
        "-c",
        "echo C > workspace/c.md",
    ]);
    assert_ne!(ran.code, 0);
    assert!(!world.project().join("workspace/c.md").exists());
}

#[test]
fn nothing_of_the_environment_passes_but_what_is_named() {
    let world = World::new(&[]);
    let output = world
        .command(crate::support::forge_program(), &["exec", "--", "env"])
        .env("OPENAI_API_KEY", "sk-secret")
        .env("LD_PRELOAD", "")
        .env("LANG", "C.UTF-8")
        .output()
        .unwrap();
    let ran = crate::support::ran(output);
    ran.code(0);
    assert!(!ran.stdout.contains("sk-secret"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("FORGE_"), "{}", ran.stdout);
    assert!(ran.stdout.contains("PATH="), "{}", ran.stdout);
}

#[test]
fn nothing_survives_a_killed_forge() {
    let world = World::new(&[]);
    for mechanism in mechanisms(&world) {
        let beat = world.project().join("beat");
        let _ = std::fs::remove_file(&beat);
        let mut child = world
            .command(
                crate::support::forge_program(),
                &[
                    "exec",
                    "--mechanism",
                    mechanism,
                    "--",
                    "sh",
                    "-c",
                    "setsid sh -c 'while :; do echo x >> beat; sleep 0.05; done' & sleep 60",
                ],
            )
            .spawn()
            .unwrap();
        let wait_for = |what: &dyn Fn() -> bool| {
            for _ in 0..600 {
                if what() {
                    return true;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            false
        };
        let size = || std::fs::metadata(&beat).map_or(0, |meta| meta.len());
        assert!(wait_for(&|| size() > 4), "{mechanism}: it never started");
        child.kill().unwrap();
        child.wait().unwrap();
        // Stopped once the size stays the same over ten beats.
        let still = || {
            let before = size();
            std::thread::sleep(Duration::from_millis(500));
            size() == before
        };
        assert!(wait_for(&still), "{mechanism}: it goes on");
    }
}

#[test]
fn output_goes_straight_through() {
    let world = World::new(&[]);
    let mut child = world
        .command(
            crate::support::forge_program(),
            &["exec", "--", "sh", "-c", "cat; echo done"],
        )
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"typed\n").unwrap();
    let mut text = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(text, "typed\ndone\n");
}

#[test]
fn on_a_terminal_ctrl_c_is_the_commands_to_answer() {
    let world = World::new(&[]);
    for mechanism in mechanisms(&world) {
        let command = format!(
            "exec {} exec --mechanism {mechanism} -- sh -c \
             'trap \"echo caught; exit 9\" INT; echo ready; while :; do sleep 0.1; done'",
            crate::support::forge_program().display()
        );
        // script(1) gives it a terminal, and passes on what we type.
        let mut child = world
            .command(Path::new("script"), &["-qec", &command, "/dev/null"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = child.stdout.take().unwrap();
        let mut seen = Vec::new();
        let mut byte = [0];
        while !seen.ends_with(b"ready") {
            assert_eq!(
                output.read(&mut byte).unwrap(),
                1,
                "{mechanism}: no command"
            );
            seen.push(byte[0]);
        }
        let mut keys = child.stdin.take().unwrap();
        keys.write_all(b"\x03").unwrap();
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("caught"), "{mechanism}: {rest}");
        assert_eq!(child.wait().unwrap().code(), Some(9), "{mechanism}");
    }
}

#[test]
fn a_receipt_does_not_follow_what_a_command_planted() {
    let world = World::new(&[]);
    let victim = world.outside().join("victim");
    std::fs::create_dir(world.outside().join("elsewhere")).unwrap();
    let plant = format!(
        "ln -s {} link.json; ln -s {} dir; mkfifo fifo.json; ln -s real.json inside.json",
        victim.display(),
        world.outside().join("elsewhere").display()
    );
    world.forge(&["exec", "--", "sh", "-c", &plant]).code(0);
    let absolute = world.project().join("link.json");
    for receipt in [
        "link.json",
        "./link.json",
        "dir/r.json",
        "fifo.json",
        "inside.json",
        absolute.to_str().unwrap(),
    ] {
        std::fs::write(&victim, "untouched").unwrap();
        world
            .forge(&["exec", "--receipt", receipt, "--", "touch", "ran"])
            .code(125);
        assert_eq!(
            std::fs::read_to_string(&victim).unwrap(),
            "untouched",
            "{receipt}"
        );
        assert!(!world.project().join("ran").exists(), "{receipt}");
    }
    let elsewhere = std::fs::read_dir(world.outside().join("elsewhere")).unwrap();
    assert_eq!(elsewhere.count(), 0);
    for receipt in ["plain.json", "/dev/null", "/dev/stderr"] {
        world
            .forge(&["exec", "--receipt", receipt, "--", "true"])
            .code(0);
    }
}

/// The lines of the one log that a world has.
fn log(world: &World) -> Vec<serde_json::Value> {
    let text = world.audit();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_command_is_recorded_before_it_starts_and_when_it_is_over() {
    let ended = |code: i32, outcome: &str, ok: bool, args: &[&str]| {
        let world = World::new(&[(FILE, PROJECT)]);
        world
            .forge(&[&["-q", "--trust", "exec"], args].concat())
            .code(code);
        let lines = log(&world);
        let of = |kind: &str| lines.iter().find(|line| line["kind"] == kind).unwrap();
        let (decision, execution) = (of("decision"), of("execution"));
        assert_eq!(decision["tool"], "exec");
        assert_eq!(execution["call"], decision["seq"]);
        assert_eq!(
            (&execution["ok"], &of("end")["outcome"]),
            (&ok.into(), &outcome.into())
        );
        world.forge(&["log", "verify"]).code(0);
        let shown = world.forge(&["log", "show"]);
        shown.code(0);
        assert!(
            shown.stdout.contains("  exec {\"command\":["),
            "{}",
            shown.stdout
        );
        (decision.clone(), execution.clone())
    };
    let (decision, execution) = ended(3, "exit code 3", true, &["--", "sh", "-c", "exit 3"]);
    assert_eq!(decision["arguments"]["command"][2], "exit 3");
    assert_eq!(decision["decision"]["verdict"], "allow");
    assert_eq!(
        decision["decision"]["reasons"][0]["text"],
        "a person typed it"
    );
    assert_eq!(execution["runner"], "os");
    assert!(
        execution["enforcement"]["backend"].is_string(),
        "{execution}"
    );

    let (_, execution) = ended(
        124,
        "timed out",
        false,
        &["--timeout", "1", "--", "sleep", "60"],
    );
    assert_eq!(execution["code"], "TIME_LIMIT");

    let (decision, execution) = ended(0, "exit code 0", true, &["--no-os-sandbox", "--", "true"]);
    let why = &decision["decision"]["reasons"][0]["text"];
    assert_eq!(why, "a person typed it, with --no-os-sandbox");
    assert_eq!(execution["runner"], "local");

    let (_, execution) = ended(127, "not started", false, &["--", "no-such-program"]);
    assert_eq!(execution["code"], "exec");

    let nowhere = ["-c", "execution.mode=docker_required", "--", "true"];
    let (decision, execution) = ended(125, "isolation.unavailable", false, &nowhere);
    assert_eq!(decision["decision"]["verdict"], "block");
    assert_eq!(execution["events"][0]["event"], "refused");
}

#[test]
fn what_cannot_be_recorded_is_not_run_and_secrets_are_not_recorded() {
    use crate::support::{forge_program, ran};

    let world = World::new(&[(FILE, PROJECT)]);
    let with = |variable: &str, value: &str, args: &[&str]| {
        let mut command = world.command(forge_program(), args);
        ran(command.env(variable, value).output().unwrap())
    };
    let touch = ["exec", "--no-os-sandbox", "--", "touch", "made"];
    let state = world.outside().join("no-state");
    std::fs::create_dir(&state).unwrap();
    std::fs::write(state.join("runs"), "a file where a directory is due").unwrap();
    with("FORGE_STATE_DIR", state.to_str().unwrap(), &touch)
        .code(125)
        .says(&["cannot keep the run in ", "no-state/runs"]);
    assert!(!world.project().join("made").exists());

    let secret = "a-secret-of-the-test-4711";
    let echo = ["--trust", "exec", "--", "echo", secret];
    let said = with("DEPLOY_TOKEN", secret, &echo);
    said.code(0);
    assert_eq!(said.stdout.trim_end(), secret);
    let log = world.audit();
    assert!(log.contains("\"exec\"") && !log.contains(secret), "{log}");
}

/// A file that says nothing of directories changes what it names, not what commands see.
#[test]
fn a_project_file_without_directories_leaves_the_whole_project() {
    let world = World::new(&[
        ("inside.txt", "inside"),
        ("workers/w.worker", "---\n---\nGo.\n"),
    ]);
    for text in [
        "",
        "name: x\n",
        "git: { mode: commit }\n",
        "sandbox: { show: [\".env*\"] }\n",
        "sandbox: { unprotect: [.vscode] }\n",
        "network: { loopback_in: [8123] }\n",
        "limits: { processes: 100 }\n",
    ] {
        std::fs::write(world.project().join("forge.yaml"), text).unwrap();
        for mechanism in mechanisms(&world) {
            if mechanism == "landlock" && text.starts_with("network") {
                continue;
            }
            let script = "cat inside.txt && echo new > new.txt";
            let flags = [
                "--trust",
                "exec",
                "--mechanism",
                mechanism,
                "--",
                "sh",
                "-c",
                script,
            ];
            let ran = world.forge(&flags);
            assert_eq!(
                (ran.code, &*ran.stdout),
                (0, "inside"),
                "{text}: {}",
                ran.stderr
            );
        }
    }
}

/// Of the caller's variables a command gets those of the terminal and the language, and those that
/// are named.
#[test]
fn variables_are_named_or_those_of_the_terminal() {
    let world = World::new(&[]);
    let outside = [
        ("LC_ALL", "C.UTF-8"),
        ("TZ", "Europe/Berlin"),
        ("CI", "true"),
        ("NO_COLOR", "1"),
        ("CC", "mine"),
        ("LC_SECRET", "secret"),
        ("A_TOKEN", "secret"),
    ];
    let run = |flags: &[&str], script: &str| {
        let all = [&["exec"], flags, &["--", "sh", "-c", script]].concat();
        let mut forge = world.command(forge_program(), &all);
        ran(forge.envs(outside).output().unwrap())
    };
    let script = "echo $LC_ALL,$TZ,$CI,$NO_COLOR,$CC,$LC_SECRET,$A_TOKEN,$X";
    for mechanism in mechanisms(&world) {
        for (flags, shown) in [
            (&[][..], "C.UTF-8,Europe/Berlin,true,1,,,,\n"),
            (&["--env", "CC"], "C.UTF-8,Europe/Berlin,true,1,mine,,,\n"),
            (
                &["--env=CC=a b", "--env", "X=\"1=2\"", "--env", "CI="],
                "C.UTF-8,Europe/Berlin,,1,a b,,,\"1=2\"\n",
            ),
        ] {
            let flags = [flags, &["--mechanism", mechanism]].concat();
            let ran = run(&flags, script);
            assert_eq!(ran.stdout, shown, "{mechanism} {flags:?}: {}", ran.stderr);
        }
    }
    for (variable, told) in [
        (
            "ABSENT",
            "error: --env ABSENT: environment variable not found",
        ),
        ("1X=2", "`1X` is no name"),
        ("=2", "`` is no name"),
        ("PATH=/x", "PATH"),
    ] {
        run(&["--env", variable], "true").code(125).says(&[told]);
    }
}

/// `survivors: left` is told where it has no effect, and `-v` shows how the command is confined.
#[test]
fn what_has_no_effect_is_told_and_what_is_enforced_is_shown() {
    let world = World::new(&[(FILE, "sandbox: { survivors: left, root: . }\n")]);
    for mechanism in mechanisms(&world) {
        let exec = [
            "--trust",
            "exec",
            "--mechanism",
            mechanism,
            "-v",
            "--",
            "true",
        ];
        let ran = world.forge(&exec);
        ran.code(0).says(&["survivors "]);
        let told = ran
            .stderr
            .contains("`sandbox.survivors: left` has no effect with ");
        assert_eq!(told, mechanism != "landlock", "{mechanism}: {}", ran.stderr);
        let brief = world.forge(&["--trust", "exec", "--mechanism", mechanism, "--", "true"]);
        assert!(!brief.stderr.contains("survivors  "), "{}", brief.stderr);
    }
}

/// A command can give a file any name, and a name is in the receipt.
#[test]
fn a_secret_in_a_name_is_not_in_the_log() {
    const SECRET: &str = "zq8Kx7Lm3Pw9Rt5Vb2Nc6Hj4";
    let script = format!("touch /etc/{SECRET}; mkdir -p .vscode/{SECRET}; touch {SECRET}");
    let world = World::new(&[]);
    for mechanism in mechanisms(&world) {
        let args = [
            "exec",
            "--mechanism",
            mechanism,
            "--trace=full",
            "--",
            "sh",
            "-c",
            &script,
        ];
        let mut command = world.command(forge_program(), &args);
        ran(command.env("MY_TOKEN", SECRET).output().unwrap()).code(0);
        let log = world.audit();
        assert!(!log.contains(SECRET), "{mechanism}: {log}");
        assert!(log.contains("MY_TOKEN"), "{mechanism}: {log}");
    }
}

/// A file that reaches the limit of its size ends a write, not forge.
#[test]
fn a_limit_on_file_sizes_is_told() {
    let world = World::new(&[]);
    let script = "for i in $(seq 900); do mkdir -p d$i/.vscode; done";
    let forge = forge_program().to_str().unwrap();
    // Small limits are met before the command starts.
    for limit in [
        "--fsize=0",
        "--fsize=4096",
        "--fsize=90000",
        "--fsize=200000",
    ] {
        let args = [limit, forge, "exec", "--", "sh", "-c", script];
        let output = world.command("prlimit".as_ref(), &args).output().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(signal, None, "{limit}: {told}");
        let is_told = told.contains("error:") || told.contains("quarantined:");
        assert!(is_told, "{limit}: {told}");
    }
}

/// The message is about the mistake in the command line.
#[test]
fn a_wrong_word_is_named() {
    let zones = "sandbox: { mode: direct, zones: { data: { path: ./data, mode: staged } } }\n";
    let world = World::new(&[("data/a", "")]);
    let dir = "is a directory, not a program";
    for (args, says) in [
        (&["."][..], dir),
        (&["./data"], dir),
        (
            &["--receipt", ".", "true"],
            "cannot write the receipt to .: is a directory",
        ),
    ] {
        let ran = world.forge(&[&["exec"], args].concat());
        assert_ne!(ran.code, 0, "{args:?}");
        ran.says(&[says]);
    }
    world.write("forge.yaml", zones);
    let ran = world.forge(&["exec", "--no-os-sandbox", "true"]);
    ran.says(&[
        "--no-os-sandbox turns off",
        "hint: leave out --no-os-sandbox",
    ]);
    assert!(!ran.stderr.contains("missing"), "{}", ran.stderr);
}

/// Programs that read `USER` or `LOGNAME` find the user of the sandbox.
#[test]
fn the_user_has_a_name() {
    let world = World::new(&[]);
    let script = "echo $USER $LOGNAME $(id -un)";
    for mechanism in mechanisms(&world) {
        let exec = |more: &[&str]| {
            let first = ["exec", "--mechanism", mechanism];
            let ran = world.forge(&[&first, more, &["--", "sh", "-c", script]].concat());
            ran.code(0);
            ran.stdout
        };
        let names = exec(&[]);
        let names: Vec<&str> = names.split_whitespace().collect();
        assert_eq!(names.len(), 3, "{mechanism}: {names:?}");
        assert!(
            names.iter().all(|name| *name == names[2]),
            "{mechanism}: {names:?}"
        );
        let set = exec(&["--env", "USER=me"]);
        assert_eq!(set, format!("me {0} {0}\n", names[2]), "{mechanism}");
    }
}

/// `localhost` is a name of both families, whatever the host's file says.
#[test]
fn localhost_is_named_for_both_families() {
    let world = World::new(&[]);
    for mechanism in mount_layers(&world) {
        let script =
            "grep -c '^127.0.0.1.*localhost' /etc/hosts; grep -c '^::1.*localhost' /etc/hosts";
        let ran = world.forge(&["exec", "--mechanism", mechanism, "--", "sh", "-c", script]);
        ran.code(0);
        assert!(!ran.stdout.contains('0'), "{mechanism}: {}", ran.stdout);
    }
}

/// A program says of a file that it is not shown, only that it does not exist.
#[test]
fn a_file_outside_is_told_with_the_rule_that_shows_it() {
    let world = World::new(&[("in", "")]);
    for (name, text) in [("other/o", "o"), ("notes", "n"), ("home/.ssh/id", "k")] {
        let path = world.outside().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    for mechanism in mechanisms(&world) {
        for (line, told) in [
            ("cat ../other/o", "forge allow read:"),
            ("cat in > /dev/null; cat < ../other/o", "forge allow read:"),
            ("cat ../notes", "no rule is proposed for it"),
            ("cat ../home/.ssh/id", "a place of credentials"),
            ("cat ../missing", ""),
            ("cat ./missing", ""),
            ("cat /etc/missing", ""),
            ("test -e ../other/o", ""),
        ] {
            let script = format!("{line} || exit");
            let args = ["exec", "--mechanism", mechanism, "--"];
            let words: Vec<&str> = match line.starts_with("test ") {
                true => line.split(' ').collect(),
                false => vec!["sh", "-c", &script],
            };
            let ran = world.forge(&[&args[..], &words].concat());
            let at = format!("{mechanism} {line}: {}", ran.stderr);
            let note = ran
                .stderr
                .lines()
                .find(|line| line.contains("outside of what"));
            // Under Landlock alone the name is there.
            if ran.code == 0 && mechanism == "landlock" {
                continue;
            }
            assert!(ran.code != 0, "{at}");
            assert_eq!(note.is_some(), !told.is_empty(), "{at}");
            assert!(note.unwrap_or_default().contains(told), "{at}");
        }
    }
}

/// `sudo` says that a flag is set, `su` asks for a password.
#[test]
fn programs_that_become_another_user_are_told() {
    let world = World::new(&[]);
    world.write("bin/sudo", "#!/bin/sh\nexit 1\n");
    world.shell("chmod +x bin/sudo");
    for (words, is_told) in [
        (&["bin/sudo", "apt", "install", "x"][..], true),
        (&["sh", "-c", "cd bin && ./sudo ls"], true),
        (&["sh", "-c", "ls bin/sudo; exit 1"], false),
        (&["ls", "sudo"], false),
    ] {
        let ran = world.forge(&[&["exec", "--"], words].concat());
        assert!(ran.code != 0, "{words:?}");
        let told = ran.stderr.contains("becomes another user");
        assert_eq!(told, is_told, "{words:?}: {}", ran.stderr);
    }
}
