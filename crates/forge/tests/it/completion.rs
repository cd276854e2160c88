//! What a shell is told when a person presses TAB, by the scripts of `forge completions`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;

use crate::support::{World, forge_program, ran};

const PROJECT: &str = "\
sandbox:
  mode: direct
  zones:
    data: { path: ./data, mode: ro }
    notes: { path: ./notes, mode: rw }
";

const WORKER: &str = "---\nname: main\ndescription: \"Does \\e[31mall\"\n---\nWork.\n";

fn world() -> World {
    World::new(&[
        ("forge.yaml", PROJECT),
        ("workers/main.worker", WORKER),
        ("workers/reader.worker", "---\nname: reader\n---\nRead.\n"),
        ("data/a.md", "a\n"),
        ("notes/b.md", "b\n"),
    ])
}

/// Calls the function of the script as bash does for the last of `words`, of which bash has split
/// the assignments.
fn bash(world: &World, words: &[&str]) -> Vec<String> {
    let output = in_bash(world, words);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr, "", "{words:?}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    stdout.lines().map(str::to_owned).collect()
}

fn in_bash(world: &World, words: &[&str]) -> Output {
    let script = world.outside().join("completion.bash");
    std::fs::write(
        &script,
        world
            .forge(&["completions", "bash"])
            .code(0)
            .stdout
            .as_bytes(),
    )
    .unwrap();
    let call = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; \
                typed=\"${!#}\"; [[ $typed == [=:] ]] && typed=; \
                _clap_complete_forge forge \"$typed\"; \
                for reply in \"${COMPREPLY[@]}\"; do printf '%s\\n' \"$reply\"; done";
    let mut bash = world.command(Path::new("bash"), &["--norc", "-c", call, "bash"]);
    bash.arg(&script).args(words);
    with_forge_in_path(&mut bash).output().unwrap()
}

fn with_forge_in_path(command: &mut Command) -> &mut Command {
    let directory = forge_program().parent().unwrap().display();
    command.env("PATH", format!("{directory}:/usr/bin:/bin"))
}

#[test]
fn names_of_a_project_complete_in_bash() {
    let world = world();
    world
        .forge(&["tools", "call", "list_files", "path=/"])
        .code(0);
    let starts_with = |words: &[&str], start: &str| {
        let all = bash(&world, words);
        all.into_iter()
            .filter(|candidate| candidate.starts_with(start))
            .collect::<Vec<_>>()
    };
    for (words, expected) in [
        (&["forge", "ru"][..], &["run"][..]),
        (&["forge", "run", "ma"], &["main"]),
        (&["forge", "run", "workers/r"], &["workers/reader.worker"]),
        (&["forge", "run", "--resume", "la"], &["last"]),
        (&["forge", "tools", "list", "--worker", "r"], &["reader"]),
        (&["forge", "mcp", "--worker", "=", "ma"], &["main"]),
        (&["forge", "worker", "show", "re"], &["reader"]),
        (&["forge", "explain", "/"], &["/data", "/notes"]),
        (&["forge", "tools", "call", "hash"], &["hash_file"]),
        (
            &["forge", "config", "get", "sandbox.mod"],
            &["sandbox.mode"],
        ),
        (&["forge", "-c", "execution.mod"], &["execution.mode="]),
        (
            &["forge", "-c", "sandbox.mode", "="],
            &["sandboxed", "direct"],
        ),
        (&["forge", "-c", "sandbox.mode", "=", "d"], &["direct"]),
        (&["forge", "-C", "data", "run", "ma"], &["main"]),
        (
            &["forge", "run", "-c", "network", "=", "true", "ma"],
            &["main"],
        ),
        (&["forge", "run", "nobody"], &[]),
        (&["forge", "nosuch", "x"], &[]),
    ] {
        assert_eq!(bash(&world, words), expected, "{words:?}");
    }
    for words in [
        &["forge", "log", "show", ""][..],
        &["forge", "log", "verify", ""],
        &["forge", "run", "--resume", ""],
    ] {
        assert_eq!(starts_with(words, "last"), ["last"], "{words:?}");
        assert_eq!(starts_with(words, "tools-call_").len(), 1, "{words:?}");
    }
    // Those of another project do not.
    std::fs::create_dir(world.outside().join("other")).unwrap();
    std::fs::write(world.outside().join("other/forge.yaml"), "name: other\n").unwrap();
    let elsewhere = bash(&world, &["forge", "-C", "../other", "log", "show", "t"]);
    assert_eq!(elsewhere, [""; 0]);
}

/// Words behind the program of `forge exec` are the program's: files are offered, and neither
/// programs nor options of forge, whatever stands before.
#[test]
fn words_behind_a_program_are_not_completed_as_those_of_forge() {
    let world = world();
    for name in ["sorted.txt", "--world.txt", "A=b.txt"] {
        world.write(name, "");
    }
    for (before, typed, expected) in [
        (&["exec", "cat"][..], "sor", &["sorted.txt"][..]),
        (&["exec", "cat", "x"], "sor", &["sorted.txt"]),
        (&["exec", "--", "cat"], "sor", &["sorted.txt"]),
        (&["exec", "--", "cat", "x"], "sor", &["sorted.txt"]),
        (&["exec", "--env", "A=b", "cat"], "sor", &["sorted.txt"]),
        (
            &["-C", ".", "exec", "--read-only", "cat"],
            "sor",
            &["sorted.txt"],
        ),
        (&["exec", "cat", "--"], "sor", &["sorted.txt"]),
        (&["exec", "cat"], "data/", &["data/a.md"]),
        // Programs of the PATH of the test begin so.
        (&["exec", "cat"], "sha", &[]),
        (&["exec", "git"], "--wor", &["--world.txt"]),
        (&["exec", "git"], "--work", &[]),
        (&["exec", "ls"], "-q", &[]),
        (&["exec", "--", "ls"], "--js", &[]),
        // Before it, they are forge's.
        (&["exec"], "--js", &["--json"]),
        (&["exec", "--env", "A"], "--js", &["--json"]),
        (&["exec"], "sha256su", &["sha256sum"]),
        (&["exec", "--"], "sha256su", &["sha256sum"]),
        (&["exec", "--env", "exec"], "sha256su", &["sha256sum"]),
    ] {
        let words = [&["forge"], before, &[typed]].concat();
        let (code, stdout) = zsh(&world, &words);
        let candidates: Vec<_> = stdout
            .lines()
            .map(|line| line.split(':').next().unwrap())
            .collect();
        assert_eq!((code, &*candidates), (0, expected), "{words:?}");
        assert_eq!(bash(&world, &words), expected, "{words:?}");
    }
}

/// Every value with a list of names in forge offers them, and not those of another command.
#[test]
fn presets_models_topics_and_rules_are_offered() {
    let world = world();
    world.forge(&["allow", "--yes", "npm-x"]).code(0);
    for (words, expected) in [
        (&["exec", "--preset", "rus"][..], &["rust"][..]),
        (&["explain", "--preset", "rus"], &["rust"]),
        (&["preset", "show", "rus"], &["rust"]),
        (&["preset", "show", "mai"], &[]),
        (&["preset", "copy", "rus"], &["rust"]),
        (&["preset", "check", "rus"], &["rust"]),
        (&["preset", "check", "forge.y"], &["forge.yaml"]),
        (&["worker", "show", "mai"], &["main"]),
        (
            &["run", "--model", "openai", ":", "gp"],
            &["openai:gpt-5-mini"],
        ),
        (&["run", "-m", "scr"], &["scripted:"]),
        (
            &["tools", "call", "--model", "anthropic", ":"],
            &["anthropic:claude-haiku-4-5"],
        ),
        (
            &["doctor", "--model", "ollama", ":", "q"],
            &["ollama:qwen3"],
        ),
        (&["allow", "--remove", "npm"], &["npm-x"]),
        (&["help", "exit"], &["exit-codes"]),
        (&["help", "ru"], &["run"]),
        (&["help", "log", "sh"], &["show"]),
        (&["help", "log", "exit"], &[]),
    ] {
        let words = [&["forge"], words].concat();
        let whole: Vec<_> = bash(&world, &words);
        // bash has the part up to a colon already.
        let shown: Vec<_> = expected
            .iter()
            .map(|name| match words.contains(&":") {
                true => name.split_once(':').unwrap().1,
                false => name,
            })
            .collect();
        assert_eq!(whole, shown, "{words:?}");
    }
}

#[test]
fn a_name_that_a_shell_would_execute_is_not_inserted() {
    let world = world();
    world.write("quiet", "");
    world.write("q; touch made", "");
    assert_eq!(bash(&world, &["forge", "run", "-f", "qu"]), ["quiet"]);
    // bash completes file names by itself, with quotes.
    assert_eq!(bash(&world, &["forge", "run", "-f", "q"]), [""; 0]);
    assert!(!world.project().join("made").exists());
}

/// What forge prints for the script of zsh: a candidate and its description a line.
fn zsh(world: &World, words: &[&str]) -> (i32, String) {
    let mut forge = world.command(forge_program(), &["--"]);
    forge
        .args(words)
        .env("_FORGE_COMPLETE", "zsh")
        .env("_CLAP_IFS", "\n")
        .env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
    let ran = ran(forge.output().unwrap());
    assert_eq!(ran.stderr, "");
    (ran.code, ran.stdout)
}

#[test]
fn candidates_have_descriptions_without_control_characters() {
    let world = world();
    let (_, stdout) = zsh(&world, &["forge", "run", "main"]);
    assert_eq!(stdout, "main:Does \\\\x1b[31mall");
    let (_, stdout) = zsh(&world, &["forge", "explain", "/no"]);
    let notes = world.project().join("notes");
    assert_eq!(stdout, format!("/notes:rw {}", notes.display()));
}

#[test]
fn scripts_work_in_the_shells_that_are_here() {
    let world = world();
    for (shell, check, drive) in [
        ("fish", "fish -n s", "source s; complete -C 'forge run ma'"),
        ("zsh", "zsh -n s", ""),
    ] {
        if !Path::new("/usr/bin").join(shell).exists() {
            eprintln!("skipped: {shell} is not installed");
            continue;
        }
        world.write("s", &world.forge(&["completions", shell]).code(0).stdout);
        let mut parse = world.command(Path::new("sh"), &["-c", check]);
        assert!(parse.status().unwrap().success(), "{shell}");
        if !drive.is_empty() {
            let mut driven = world.command(Path::new(shell), &["-c", drive]);
            let output = with_forge_in_path(&mut driven).output().unwrap();
            let stdout = String::from_utf8(output.stdout).unwrap();
            assert_eq!(stdout, "main\tDoes \\x1b[31mall\n", "{shell}");
        }
    }
}

/// Every file below a directory, with what changes when it is written.
fn files(dir: &Path, found: &mut BTreeMap<PathBuf, (SystemTime, u64)>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = std::fs::symlink_metadata(&path).unwrap();
        found.insert(path.clone(), (meta.modified().unwrap(), meta.len()));
        if meta.is_dir() {
            files(&path, found);
        }
    }
}

#[test]
fn completion_writes_nothing_and_a_project_that_cannot_be_used_has_no_names() {
    let world = world();
    let everything = || {
        let mut found = BTreeMap::new();
        files(world.outside(), &mut found);
        found
    };
    let before = everything();
    let (code, stdout) = zsh(&world, &["forge", "run", "mai"]);
    assert_eq!((code, stdout.starts_with("main")), (0, true));
    zsh(&world, &["forge", "log", "show", ""]);
    zsh(&world, &["forge", "explain", ""]);
    assert_eq!(before, everything());

    // Nobody has agreed to this directory.
    let outside = "    docs: { path: /usr/share/doc, mode: ro }\n";
    world.write("forge.yaml", &format!("{PROJECT}{outside}"));
    world.forge(&["check"]).code(2);
    assert_eq!(zsh(&world, &["forge", "run", "mai"]), (0, String::new()));
    assert_eq!(zsh(&world, &["forge", "explain", "/"]), (0, String::new()));
    world.forge(&["trust", "--yes"]).code(0);
    assert!(
        zsh(&world, &["forge", "explain", "/do"])
            .1
            .starts_with("/docs:")
    );

    world.write("forge.yaml", "sandbox: [\n");
    assert_eq!(zsh(&world, &["forge", "run", "mai"]), (0, String::new()));
    // Keys need no project.
    assert!(
        zsh(&world, &["forge", "-c", "sandbox.mod"])
            .1
            .starts_with("sandbox.mode=:")
    );
    std::fs::remove_file(world.project().join("forge.yaml")).unwrap();
    let mut fifo = Command::new("mkfifo");
    fifo.arg(world.project().join("forge.yaml"))
        .stdin(Stdio::null());
    assert!(fifo.status().unwrap().success());
    assert_eq!(zsh(&world, &["forge", "run", "mai"]), (0, String::new()));
    // A shell that is not known prints nothing into the line.
    let mut forge = world.command(forge_program(), &["--", "forge", "r"]);
    let ran = ran(forge.env("_FORGE_COMPLETE", "csh").output().unwrap());
    ran.code(1);
    assert_eq!((ran.stdout, ran.stderr), (String::new(), String::new()));
}
