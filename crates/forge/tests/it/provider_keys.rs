//! Keys of model providers: they reach the provider, and nobody and nothing else.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::{Ran, World, copy_forge, forge_program, ran};
use crate::vendor::{Vendor, call, refusal, says};

/// No shape of it looks like a key, and its variable's name says nothing either.
const CANARY: &str = "canary-wfq8zzk1-mine-alone";
const VARIABLE: &str = "MINE_ALONE";
/// Whoever runs forge in this test is no administrator, who may read everything.
const NOBODY: u32 = 65_534;

const PROJECT: &str = "\
model: mine:m
sandbox:
  mode: direct
  zones: { data: { path: ./data, approval: { write: preApproved } } }
shell: { default: ask }
";

/// A project whose model is at `url`, with the key from there.
fn world(url: &str, key: &str) -> World {
    let world = World::new(&[
        ("golem-forge.config.yaml", PROJECT),
        (
            "workers/main.worker",
            "---\nname: main\n---\nLook around.\n",
        ),
        ("data/here", "x"),
    ]);
    let home = world.outside().join("home");
    std::fs::create_dir_all(home.join(".config/forge")).unwrap();
    let provider = format!("wire: openai-chat, base_url: '{url}', {key}, retry_s: 5");
    let file = home.join(".config/forge/config.yaml");
    std::fs::write(file, format!("providers: {{ mine: {{ {provider} }} }}\n")).unwrap();
    // Helpers run in the person's home.
    std::fs::write(home.join("key.txt"), format!("{CANARY}\n")).unwrap();
    world
}

/// Runs forge as an ordinary user.
fn as_a_person(world: &World, args: &[&str], variable: Option<&str>) -> Ran {
    let mut command = match rustix::process::geteuid().is_root() {
        false => world.command(forge_program(), args),
        true => {
            let program = world.outside().join("forge");
            if !program.exists() {
                copy_forge(&program, b"");
            }
            let owner = format!("{NOBODY}:{NOBODY}");
            let chown = Command::new("chown")
                .arg("-R")
                .arg(&owner)
                .arg(world.outside())
                .status();
            assert!(chown.unwrap().success());
            let program = program.to_str().unwrap();
            let id = NOBODY.to_string();
            let mut words = vec!["--reuid", &id, "--regid", &id, "--clear-groups", program];
            words.extend(args);
            world.command(Path::new("setpriv"), &words)
        }
    };
    if let Some(value) = variable {
        command.env(VARIABLE, value);
    }
    ran(command.output().unwrap())
}

fn holding(dir: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            holding(&path, found);
        } else if let Ok(bytes) = std::fs::read(&path)
            && String::from_utf8_lossy(&bytes).contains(CANARY)
        {
            found.push(path.display().to_string());
        }
    }
}

/// The provider refuses with the key in its words, after calls that looked for it: in their own
/// environment, and in what others of the same person can read of every process.
#[test]
fn nobody_is_told_a_key() {
    // Not the canary itself, which would be taken out of the result and not be seen to be there. In
    // the command and everybody above it: other tests have the key beside this one.
    let look = "sh -c 'env; p=$$; while [ \"$p\" -gt 1 ]; do grep -lsa wfq8zzk1 /proc/$p/environ; \
                p=$(sed -n \"s/^PPid:[^0-9]*//p\" /proc/$p/status); done; echo looked'";
    let rows = [
        ("api_key_env: MINE_ALONE", Some(CANARY)),
        ("api_key_command: [cat, key.txt]", None),
    ];
    for (key, variable) in rows {
        let vendor = Vendor::start(vec![
            says(&[call("c1", "shell", &json!({"command": look}))]),
            says(&[call("c2", "list_files", &json!({"path": "/data"}))]),
            refusal(
                401,
                &json!({"error": {"message": format!("no such key: {CANARY}")}}),
            ),
        ]);
        let world = world(&vendor.url, key);
        for json in [false, true] {
            let args = ["run", "main", "go", "--no-os-sandbox", "--yes", "--json"];
            let args = &args[..args.len() - usize::from(!json)];
            let forge = as_a_person(&world, args, variable);
            let shown = format!("{}{}", forge.stdout, forge.stderr);
            assert!(shown.contains("[key]"), "{key}: {shown}");
            assert!(!shown.contains(CANARY), "{key}: {shown}");
        }
        let asked = vendor.asked();
        assert_eq!(asked.len(), 4, "{key}: {asked:?}");
        for asked in &asked {
            assert!(
                asked.head.contains(&format!("Bearer {CANARY}")),
                "{key}: {}",
                asked.head
            );
            assert!(!asked.body.contains(CANARY), "{key}: {}", asked.body);
        }
        // The calls were made, and what they saw was sent.
        let told: serde_json::Value = serde_json::from_str(&asked[1].body).unwrap();
        let messages = told["messages"].as_array().unwrap();
        let seen = messages.last().unwrap()["content"].as_str().unwrap();
        assert!(
            seen.contains("PATH=") && seen.contains("looked"),
            "{key}: {seen}"
        );
        assert!(
            !seen.contains("/environ") && !seen.contains(VARIABLE),
            "{key}: {seen}"
        );
        let mut found = Vec::new();
        holding(&world.outside().join("state"), &mut found);
        holding(&world.project(), &mut found);
        assert!(found.is_empty(), "{key}: {found:?}");
        let runs = std::fs::read_dir(world.outside().join("state/runs")).unwrap();
        assert_eq!(runs.count(), 2, "{key}");
    }
}

/// The provider repeats the key in its answer, also where only a reader of JSON sees it: no file,
/// no program and no person is shown it, and an answer in JSON stays JSON.
#[test]
fn an_answer_with_a_key_in_it() {
    let plain = format!("your key is {CANARY}");
    let escaped = CANARY.replace("wfq", "\\u0077fq");
    let structured = format!("{{\"said\": \"key {escaped}\"}}");
    let key = "api_key_env: MINE_ALONE";
    for (content, is_json) in [(plain, false), (structured, true)] {
        let vendor = Vendor::start(vec![says(&[json!({"content": content})])]);
        let world = world(&vendor.url, key);
        let run = ["run", "main", "go", "--ephemeral"];
        for more in [
            &[][..],
            &["--json"],
            &["--output", "stream-json"],
            &["-o", "answer"],
        ] {
            let forge = as_a_person(&world, &[&run[..], more].concat(), Some(CANARY));
            forge.code(0);
            let shown = format!("{}{}", forge.stdout, forge.stderr);
            assert!(!shown.contains("wfq8zzk1"), "{more:?}: {shown}");
            let answer = match more {
                [] => forge.stdout.clone(),
                ["-o", _] => std::fs::read_to_string(world.project().join("answer")).unwrap(),
                _ => {
                    let last = forge.stdout.lines().last().unwrap();
                    let line: serde_json::Value = serde_json::from_str(last).unwrap();
                    let answer = line["report"]["answer"].as_str();
                    answer.unwrap_or_else(|| panic!("{line}")).to_owned()
                }
            };
            assert!(answer.contains("[redacted: "), "{more:?}: {answer}");
            if is_json {
                assert!(!answer.contains("0077fq8"), "{more:?}: {answer}");
                let value: serde_json::Value = serde_json::from_str(&answer).unwrap();
                assert!(value["said"].as_str().unwrap().starts_with("key [redacted"));
            }
        }
        let mut found = Vec::new();
        holding(&world.outside().join("state"), &mut found);
        holding(&world.project(), &mut found);
        assert!(found.is_empty(), "{content}: {found:?}");
    }
}

/// A key that is not there, or is none, is said before anything begins, with what to do.
#[test]
fn a_key_that_is_missing() {
    let vendor = Vendor::start(vec![String::new()]);
    let rows = [
        (
            "api_key_env: MINE_ALONE",
            None,
            "MINE_ALONE is not set",
            "export MINE_ALONE=",
        ),
        (
            "api_key_env: MINE_ALONE",
            Some("a b\u{7f}"),
            "holds characters that no key has",
            "",
        ),
        (
            "api_key_env: MINE_ALONE",
            Some("sk-1234"),
            "unusable key for the provider `mine`: MINE_ALONE: the key is shorter than 8 bytes",
            "",
        ),
        (
            "api_key_command: [no-such-program]",
            None,
            "`no-such-program`: ",
            "",
        ),
        (
            "api_key_command: ['false']",
            None,
            "`false`: it ended with exit status: 1",
            "",
        ),
        ("api_key_command: ['true']", None, "the key is empty", ""),
        (
            "api_key_command: [head, -c, '99999', /dev/zero]",
            None,
            "more than any key",
            "",
        ),
        (
            "api_key_command: [sh, -c, 'echo why >&2; exit 3']",
            None,
            "why\n",
            "",
        ),
    ];
    for (key, variable, why, hint) in rows {
        let world = world(&vendor.url, key);
        let mut command = world.command(forge_program(), &["run", "main", "go"]);
        if let Some(value) = variable {
            command.env(VARIABLE, value);
        }
        let forge = ran(command.output().unwrap());
        forge.code(4).says(&[why, hint]);
    }
    assert!(vendor.asked().is_empty());
}

/// A helper is told no other provider's key, and where it runs no project has put anything.
#[test]
fn what_a_helper_gets() {
    let vendor = Vendor::start(vec![says(&[json!({"content": "Done."})])]);
    let helper = "api_key_command: [sh, -c, 'env > seen; pwd >> seen; echo k-from-helper']";
    let world = world(&vendor.url, helper);
    let mut command = world.command(forge_program(), &["run", "main", "go"]);
    command.env("ANTHROPIC_API_KEY", CANARY).env("LANG", "C");
    let forge = ran(command.output().unwrap());
    assert_eq!(forge.code(0).stdout, "Done.\n");
    let seen = std::fs::read_to_string(world.outside().join("home/seen")).unwrap();
    assert!(seen.contains("LANG=C") && seen.contains("HOME="), "{seen}");
    assert!(!seen.contains(CANARY), "{seen}");
    assert!(vendor.asked()[0].head.contains("Bearer k-from-helper"));
}

/// Called workers have models of their own; one that nobody can have fails where it is called.
#[test]
fn every_worker_has_its_own_model() {
    let others = Vendor::start(vec![says(&[json!({"content": "from the other"})])]);
    let vendor = Vendor::start(vec![
        says(&[call("c1", "helper", &json!({"input": "help"}))]),
        says(&[call("c2", "lost", &json!({"input": "help"}))]),
        says(&[json!({"content": "Done."})]),
    ]);
    let world = world(&vendor.url, "api_key_env: MINE_ALONE");
    let file = world.outside().join("home/.config/forge/config.yaml");
    let config = format!(
        "providers:\n  mine: {{ wire: openai-chat, base_url: '{}' }}\n  other: {{ wire: openai-chat, base_url: '{}' }}\n  lost: {{ wire: openai-chat, base_url: 'https://lost.invalid/v1', api_key_env: NOT_SET }}\n",
        vendor.url, others.url
    );
    std::fs::write(file, config).unwrap();
    let front = "---\nname: main\nworkers: [helper, lost]\n---\nCall.\n";
    world.write("workers/main.worker", front);
    world.write(
        "workers/helper.worker",
        "---\nname: helper\nmodel: other:m2\n---\nHelp.\n",
    );
    world.write(
        "workers/lost.worker",
        "---\nname: lost\nmodel: lost:m3\n---\nHelp.\n",
    );
    let forge = world.forge(&["run", "main", "go", "--yes"]);
    assert_eq!(forge.code(0).stdout, "Done.\n");
    let asked = others.asked();
    assert_eq!(asked.len(), 1);
    assert!(
        asked[0].body.contains("\"model\":\"m2\""),
        "{}",
        asked[0].body
    );
    let asked = vendor.asked();
    assert!(
        asked[1].body.contains("from the other"),
        "{}",
        asked[1].body
    );
    assert!(
        asked[2].body.contains("NOT_SET is not set"),
        "{}",
        asked[2].body
    );
}

/// A certificate that nobody vouches for is none the next time either, and the key is not sent.
#[test]
fn a_certificate_that_nobody_vouches_for_is_not_tried_again() {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("skipped: no openssl here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str| dir.path().join(name).display().to_string();
    let (key, certificate) = (of("key"), of("certificate"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes"])
        .args([
            "-subj",
            "/CN=localhost",
            "-keyout",
            &key,
            "-out",
            &certificate,
        ])
        .output()
        .unwrap();
    assert!(made.status.success());
    // A free port, taken again at once.
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let mut server = Command::new("openssl")
        .args(["s_server", "-www", "-accept", &format!("127.0.0.1:{port}")])
        .args(["-key", &key, "-cert", &certificate])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    while line.trim() != "ACCEPT" {
        line.clear();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "it does not listen");
    }
    let world = world(
        &format!("https://127.0.0.1:{port}/v1"),
        &format!("api_key_env: {VARIABLE}"),
    );
    let ran = as_a_person(&world, &["run", "say something"], Some(CANARY));
    server.kill().unwrap();
    let output = server.wait_with_output().unwrap();
    ran.code(7).says(&["certificate"]);
    assert!(!ran.stderr.contains("again"), "{}", ran.stderr);
    // One handshake, which ended with our alert.
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text.matches("alert certificate").count(), 1, "{text}");
}
