//! Repositories of workers, from outside: what the configuration grants is what there are tools for,
//! files go there and back, and nothing has left when a run is over.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Ran, World, forge_program};

const FILE: &str = "golem-forge.config.yaml";

/// A bare repository beside the project, whose `topic.md` says `one`.
fn bare(world: &World, name: &str) -> PathBuf {
    let path = world.outside().join(name);
    let work = world.outside().join(format!("work-{name}"));
    git(
        world.outside(),
        &["init", "-q", "-b", "main", work.to_str().unwrap()],
    );
    std::fs::create_dir(work.join("notes")).unwrap();
    std::fs::write(work.join("notes/topic.md"), "one\ntwo\n").unwrap();
    git(&work, &["add", "-A"]);
    git(&work, &["commit", "-q", "-m", "Begin"]);
    let from = work.to_str().unwrap();
    git(
        world.outside(),
        &["clone", "-q", "--bare", from, path.to_str().unwrap()],
    );
    path
}

fn git(dir: &Path, args: &[&str]) -> String {
    let ran = Command::new("git")
        .current_dir(dir)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args(["-c", "user.name=me", "-c", "user.email=me@localhost"])
        .args(["-c", "safe.directory=*"])
        .args(args)
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "git {args:?}: {complaint}");
    String::from_utf8(ran.stdout).unwrap()
}

fn heads(bare: &Path) -> String {
    git(bare, &["for-each-ref"])
}

const ZONES: &str = "\
sandbox:
  mode: direct
  zones:
    workspace: { path: ./workspace, approval: { write: preApproved } }
";

const PLAY: &str = "\
version: 1
workers:
  main:
    - calls: [{ tool: git_pull, args: { repo: ../one.git, paths: [notes] } }]
    - calls: [{ tool: edit_file, args: { path: /workspace/notes/topic.md, old_text: two, new_text: three } }]
    - calls: [{ tool: git_stage, args: { repo: ../one.git, files: [/workspace/notes/topic.md], message: Say three } }]
    - calls: [{ tool: git_list_staged, args: {} }]
    - say: done
";

fn staging(extra: &str) -> World {
    let world = World::new(&[
        (
            FILE,
            &format!(
                "{ZONES}model: scripted:play.yaml\ngit:\n  repositories: [../one.git]\n{extra}"
            ),
        ),
        (
            "workers/main.worker",
            "---\nname: main\nsandbox: { zones: [{ name: workspace }] }\ngit: { repositories: [../one.git] }\n---\nGo.\n",
        ),
        ("play.yaml", PLAY),
        ("workspace/own.md", "own\n"),
    ]);
    bare(&world, "one.git");
    world
}

/// The files of the only run.
fn kept(world: &World) -> (String, String) {
    let runs = world.outside().join("state/runs");
    let run = std::fs::read_dir(runs).unwrap().next().unwrap().unwrap();
    let text = |name: &str| std::fs::read_to_string(run.path().join(name)).unwrap();
    (text("transcript.jsonl"), text("audit.jsonl"))
}

#[test]
fn a_worker_pulls_edits_and_stages_and_nothing_leaves() {
    let world =
        staging("  author: reports <reports@example.com>\n  trailer: 'Reviewed-by: nobody'\n");
    let before = heads(&world.outside().join("one.git"));
    world.forge(&["--trust", "run", "--yes"]).code(0);
    assert_eq!(heads(&world.outside().join("one.git")), before);
    let work = world.project().join("workspace/notes/topic.md");
    assert_eq!(std::fs::read_to_string(work).unwrap(), "one\nthree\n");
    let staged = world.forge(&["--json", "stage", "status"]);
    staged.code(0);
    let staged: Value = serde_json::from_str(&staged.stdout).unwrap();
    let list = staged["staged"].as_array().unwrap();
    assert_eq!(list.len(), 1, "{staged}");
    assert_eq!(list[0]["branch"], "main");
    let shown = world.forge(&["stage", "show"]);
    for expected in ["Reviewed-by: nobody", "-two", "+three"] {
        assert!(shown.stdout.contains(expected), "{}", shown.stdout);
    }
    let (transcript, audit) = kept(&world);
    // What it was for is on record, and no model has learned where it lies.
    for expected in ["git_stage", "../one.git", "main"] {
        assert!(audit.contains(expected), "{audit}");
    }
    let host = world.outside().display().to_string();
    for line in transcript.lines().filter(|line| line.contains("git_")) {
        assert!(!line.contains(&host), "{line}");
    }
}

/// Without a yes to the project's keys there is no repository: no worker has a tool for it, and one
/// that declares it asks for more than there is.
#[test]
fn nobody_has_agreed_to_a_repository_elsewhere() {
    let world = staging("");
    let tools =
        |flags: &[&str]| names(&world.forge(&[flags, &["--json", "tools", "list"]].concat()));
    assert!(tools(&["--trust"]).contains(&"git_stage".to_owned()));
    world
        .forge(&["tools", "list"])
        .code(2)
        .says(&["The worker requests repository '../one.git' but the project doesn't have it"]);
    world
        .forge(&["check"])
        .says(&["`git.repositories[../one.git]` lets workers pull from a repository elsewhere"]);
}

fn names(ran: &Ran) -> Vec<String> {
    ran.code(0);
    let list: Value = serde_json::from_str(&ran.stdout).unwrap();
    let tools = list["tools"].as_array().unwrap().iter();
    let named = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    tools
        .map(named)
        .filter(|name| name.starts_with("git_"))
        .collect()
}

const FAMILY: &str = "\
model: scripted:play.yaml
git:
  repositories: [./one.git, ./two.git]
";

fn family(play: &str) -> World {
    let worker = |front: &str| {
        format!(
            "---\ndescription: x\nsandbox: {{ zones: [{{ name: workspace }}] }}\n{front}---\nGo.\n"
        )
    };
    let world = World::new(&[
        (FILE, &format!("{ZONES}{FAMILY}")),
        (
            "workers/main.worker",
            &worker("workers: [less, other]\ngit: { repositories: [./one.git] }\n"),
        ),
        (
            "workers/less.worker",
            &worker("git: { repositories: [{ repo: ./one.git, access: ro }] }\n"),
        ),
        (
            "workers/other.worker",
            &worker("git: { repositories: [./two.git] }\n"),
        ),
        ("workers/none.worker", &worker("")),
        ("play.yaml", play),
        ("workspace/a.md", "a\n"),
    ]);
    for name in ["one.git", "two.git"] {
        let made = bare(&world, name);
        std::fs::rename(made, world.project().join(name)).unwrap();
    }
    world
}

#[test]
fn each_worker_has_the_tools_of_its_own_repositories() {
    let world = family("version: 1\nworkers: {}\n");
    let tools =
        |worker: &str| names(&world.forge(&["--json", "tools", "list", "--worker", worker]));
    let all = tools("main");
    assert!(all.contains(&"git_stage".to_owned()), "{all:?}");
    assert_eq!(all, tools("other"));
    let less = tools("less");
    assert!(less.contains(&"git_pull".to_owned()), "{less:?}");
    assert!(!less.contains(&"git_stage".to_owned()), "{less:?}");
    assert_eq!(tools("none"), [""; 0]);
    // A repository that somebody else has is none, whatever it is called.
    let call = |worker: &str, repo: &str| {
        let args = json!({ "repo": repo, "paths": ["notes"] }).to_string();
        let call = [
            "tools", "call", "git_pull", &args, "--worker", worker, "--yes",
        ];
        world.forge(&call)
    };
    call("main", "./one.git").code(0);
    let address = format!("file://{}", world.project().join("two.git").display());
    for (worker, repo, why) in [
        ("main", "./two.git", "is not one that you may use"),
        ("other", "./one.git", "is not one that you may use"),
        ("main", &address, "is not one that you may use"),
    ] {
        call(worker, repo).code(1).says(&[why]);
    }
    // What one has staged is nothing to the others.
    let args = json!({ "repo": "./one.git", "files": ["/workspace/a.md"], "message": "A" });
    let staged = world.forge(&[
        "tools",
        "call",
        "git_stage",
        &args.to_string(),
        "--worker",
        "main",
    ]);
    staged.code(0);
    let listed =
        |worker: &str| world.forge(&["tools", "call", "git_list_staged", "{}", "--worker", worker]);
    assert!(listed("main").stdout.contains("A"));
    assert_eq!(listed("other").stdout, "Nothing is staged.\n");
}

#[test]
fn a_called_worker_holds_no_repository_that_its_caller_does_not() {
    let world = family(
        "\
version: 1
workers:
  main:
    - calls: [{ tool: less, args: { input: go } }]
    - calls: [{ tool: other, args: { input: go } }]
    - say: done
  less:
    - calls: [{ tool: git_pull, args: { repo: ./one.git, paths: [notes] } }]
    - calls: [{ tool: git_stage, args: { repo: ./one.git, files: [/workspace/a.md], message: A } }]
    - say: less is done
",
    );
    world.forge(&["run", "--yes"]).code(0);
    let (transcript, _) = kept(&world);
    for expected in [
        "Pulled 1 file",
        "less is done",
        "Child requests repository './two.git' but parent doesn't have it",
    ] {
        assert!(transcript.contains(expected), "no {expected}\n{transcript}");
    }
    let staged = world.forge(&["--json", "stage", "status"]);
    let staged: Value = serde_json::from_str(&staged.stdout).unwrap();
    assert_eq!(staged["staged"], json!([]));
}

#[test]
fn a_client_is_offered_them() {
    let world = family("version: 1\nworkers: {}\n");
    let mut server = world
        .command(forge_program(), &["mcp", "--worker", "less"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut to = server.stdin.take().unwrap();
    let mut from = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut ask = |id: u32, method: &str, params: Value| -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(to, "{message}").unwrap();
        serde_json::from_str(&from.next().unwrap().unwrap()).unwrap()
    };
    ask(
        1,
        "initialize",
        json!({ "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" } }),
    );
    let list = ask(2, "tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().unwrap();
    let has = |name: &str| tools.iter().any(|tool| tool["name"] == name);
    assert!(
        has("git_pull") && !has("git_stage") && !has("git_push"),
        "{list}"
    );
    drop(to);
    assert!(server.wait().unwrap().success());
}

/// What a variable holds that `git.credentials` names is a secret, whatever the variable is called.
#[test]
fn a_token_is_in_no_text_and_in_no_command() {
    let secret = "correct-horse-battery";
    let world = World::new(&[
        (
            FILE,
            &format!(
                "{ZONES}model: scripted:play.yaml\nshell: {{ rules: [{{ pattern: '*', approval: preApproved }}] }}\n\
            git:\n  repositories: [./one.git]\n  credentials: {{ 'https://git.example.com': {{ token_env: MINE }} }}\n"
            ),
        ),
        (
            "workers/main.worker",
            "---\nname: main\nsandbox: { zones: [{ name: workspace }] }\nshell: {}\ngit: { repositories: [./one.git] }\n---\nGo.\n",
        ),
        (
            "play.yaml",
            "\
version: 1
workers:
  main:
    - calls: [{ tool: shell, args: { command: env } }]
    - calls: [{ tool: read_file, args: { path: /workspace/a.md } }]
    - calls: [{ tool: git_pull, args: { repo: ./one.git, paths: [notes] } }]
    - say: done
",
        ),
        ("workspace/a.md", &format!("it is {secret}\n")),
    ]);
    let made = bare(&world, "one.git");
    std::fs::rename(made, world.project().join("one.git")).unwrap();
    let ran = world
        .command(forge_program(), &["--trust", "run", "--yes", "-v"])
        .env("MINE", secret)
        .output()
        .unwrap();
    let ran = crate::support::ran(ran);
    ran.code(0);
    let (transcript, audit) = kept(&world);
    assert!(transcript.contains("it is [redacted"), "{transcript}");
    for text in [&ran.stdout, &ran.stderr, &transcript, &audit] {
        assert!(!text.contains(secret) && !text.contains("MINE="), "{text}");
    }
    // Without a model as well, which has a look at keys of its own.
    let args = [
        "--trust",
        "tools",
        "call",
        "read_file",
        r#"{"path":"/workspace/a.md"}"#,
    ];
    let called = world
        .command(forge_program(), &args)
        .env("MINE", secret)
        .output();
    let called = crate::support::ran(called.unwrap());
    called.code(0);
    assert!(
        called.stdout.contains("it is [redacted"),
        "{}",
        called.stdout
    );
}

/// Who reads what is granted finds repositories, with access and place, and servers; no token.
#[test]
fn what_is_granted_is_shown_with_its_place() {
    let world = World::new(&[
        (
            FILE,
            &format!(
                "{ZONES}git:\n  repositories: [./one.git, {{ repo: octo/style, access: ro }}]\n  credentials: {{ 'https://github.com': {{ token_env: MINE }} }}\n"
            ),
        ),
        (
            "workers/main.worker",
            "---\nname: main\nsandbox: { zones: [{ name: workspace }] }\ngit: { repositories: [./one.git, { repo: octo/style, access: ro }] }\n---\nGo.\n",
        ),
    ]);
    let made = bare(&world, "one.git");
    std::fs::rename(made, world.project().join("one.git")).unwrap();
    let shown = |args: &[&str]| {
        let ran = world.command(forge_program(), &[&["--trust"], args].concat());
        let ran = { ran }
            .env("MINE", "correct-horse-battery")
            .output()
            .unwrap();
        let ran = crate::support::ran(ran);
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!text.contains("correct-horse"), "{text}");
        (ran.code, text)
    };
    #[rustfmt::skip]
    let rows: &[(&[&str], &[&str])] = &[
        (&["check"], &["octo/style ro, https://github.com/octo/style.git (golem-forge.config.yaml:6:37)",
            "https://github.com: the token in MINE (golem-forge.config.yaml:7:", "; git ./one.git rw, octo/style ro"]),
        (&["--json", "check"], &["\"address\":\"https://github.com/octo/style.git\"", "\"source\":\"the token in MINE\""]),
        (&["worker", "show", "main"], &["repository: ./one.git rw", "git_stage"]),
        (&["config", "show"], &["repo: octo/style", "token_env: MINE"]),
        (&["explain", "repo:octo/style"], &["ask"]),
        (&["explain", "repo:octo/style", "--write"], &["block", "octo/style is ro"]),
        (&["explain", "repo:./one.git", "--write"], &["allow"]),
        (&["explain", "repo:octo/other"], &["block", "`git.repositories` does not name it"]),
        (&["explain", "git_stage"], &["git_stage"]),
        (&["doctor", "--git"], &["ok      git: git version", "ok      confinement: git runs under the OS sandbox",
            "ok      repository ./one.git: rw", "ok      https://github.com: the token in MINE"]),
    ];
    for (args, expected) in rows {
        let (_, text) = shown(args);
        for part in *expected {
            assert!(text.contains(part), "{args:?}: no {part:?}\n{text}");
        }
    }
    // Each thing that fails ends with one command to type.
    std::fs::remove_dir_all(world.project().join("one.git")).unwrap();
    let ran = world.forge(&["--trust", "doctor", "--git"]);
    ran.code(1);
    for part in [
        "failed  repository ./one.git",
        "try: git init --bare",
        "failed  https://github.com: MINE is not set",
        "try: export MINE=…",
    ] {
        assert!(ran.stdout.contains(part), "no {part:?}\n{}", ran.stdout);
    }
    let ran = world.forge(&["doctor", "--git"]);
    assert!(ran.stdout.contains("try: forge trust"), "{}", ran.stdout);
}

/// The example's second worker: its fix is staged, and the branch is as it was.
#[test]
fn a_reviewed_file_is_mended_and_staged() {
    let world = World::new(&[]);
    crate::playbooks::example(&world, "code-review");
    let (project, remotes) = (world.project(), world.project().join("remotes"));
    let work = world.outside().join("work");
    std::fs::create_dir(&remotes).unwrap();
    std::fs::rename(project.join("inputs"), &work).unwrap();
    std::fs::create_dir(project.join("inputs")).unwrap();
    git(&work, &["init", "-q", "-b", "main", "."]);
    git(&work, &["add", "-A"]);
    git(&work, &["commit", "-q", "-m", "Begin"]);
    git(
        &remotes,
        &[
            "clone",
            "-q",
            "--bare",
            work.to_str().unwrap(),
            "ledger.git",
        ],
    );
    let before = heads(&remotes.join("ledger.git"));
    let ran = world.forge(&["run", "fixer", "--yes"]);
    ran.code(0).says(&["push what nobody has looked at"]);
    assert!(ran.stdout.starts_with("Staged "), "{}", ran.stdout);
    let diff = world.forge(&["stage", "diff"]);
    for line in [
        "-    os.system(",
        "+    subprocess.run([",
        "+import subprocess",
    ] {
        assert!(diff.stdout.contains(line), "{}", diff.stdout);
    }
    assert_eq!(heads(&remotes.join("ledger.git")), before);
}

/// A company's own authorities are named as they are to other programs.
#[test]
fn authorities_are_those_of_ssl_cert_file() {
    let repo = "https://127.0.0.1:1/x.git";
    let play = format!(
        "version: 1\nworkers:\n  main:\n    - calls: [{{ tool: git_pull, args: {{ repo: '{repo}', \
         paths: [notes] }} }}]\n    - say: done\n"
    );
    for (file, told) in [
        ("/nowhere/ca.pem", "SSL_CERT_FILE names it"),
        ("", "connect to 127.0.0.1"),
    ] {
        let world = World::new(&[
            (
                FILE,
                &format!("{ZONES}model: scripted:play.yaml\ngit:\n  repositories: ['{repo}']\n"),
            ),
            (
                "workers/main.worker",
                &format!(
                    "---\nname: main\nsandbox: {{ zones: [{{ name: workspace }}] }}\ngit: {{ \
                     repositories: ['{repo}'] }}\n---\nGo.\n"
                ),
            ),
            ("play.yaml", &play),
            ("workspace/a.md", "a\n"),
        ]);
        let ran = world
            .command(forge_program(), &["--trust", "run", "--yes"])
            .env("SSL_CERT_FILE", file)
            .output()
            .unwrap();
        crate::support::ran(ran).code(0);
        let (transcript, _) = kept(&world);
        assert!(transcript.contains(told), "{transcript}");
    }
}
