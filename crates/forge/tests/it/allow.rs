//! `forge allow`: rules of the person's own for one project, and what they do not do.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Ran, World, forge_program, ran};

const PROJECT: &str = "\
sandbox:
  mode: direct
  zones:
    data: { path: ./data }
shell:
  rules:
    - { pattern: 'wc *', approval: ask }
    - { pattern: 'rm *', approval: blocked, why: Use delete_file. }
    - { pattern: 'echo *', approval: preApproved }
  default: ask
";

fn world() -> World {
    World::new(&[("golem-forge.config.yaml", PROJECT), ("data/a.md", "one\n")])
}

/// One more directory, which asks before it is read.
fn world_with_secret() -> World {
    let secret = "    secret: { path: ./secret, approval: { read: ask } }\nshell:";
    let project = PROJECT.replace("shell:", secret);
    World::new(&[
        ("golem-forge.config.yaml", &*project),
        ("data/a.md", "one\n"),
        ("secret/b.md", "two\n"),
    ])
}

/// The person's files of rules.
fn files(world: &World) -> Vec<PathBuf> {
    let dir = world.outside().join("home/.config/forge/projects");
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = paths.filter(|path| is_rules(path)).collect();
    files.sort();
    files
}

fn is_rules(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "rules")
}

fn the_file(world: &World) -> PathBuf {
    let [file] = &files(world)[..] else {
        panic!("not one file: {:?}", files(world));
    };
    file.clone()
}

/// What `forge explain` decides about a command in a directory.
fn verdict_in(world: &World, dir: &str, command: &str) -> Value {
    let args = ["-C", dir, "--trust", "explain", "--json", "--", command];
    let ran = world.forge(&args);
    ran.code(0);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[track_caller]
fn check(world: &World, command: &str, expected: &str) -> Value {
    let explained = verdict_in(world, ".", command);
    assert_eq!(explained["decision"], expected, "{command}: {explained}");
    explained
}

/// A text of the world, without its place.
fn plain(world: &World, ran: &Ran) -> String {
    let hash = the_hash(&ran.stderr);
    format!("{}{}", ran.stdout, ran.stderr)
        .replace(&*world.outside().to_string_lossy(), "[DIR]")
        .replace(&hash, "[HASH]")
}

fn the_hash(text: &str) -> String {
    let end = text.find(".rules").unwrap_or(0);
    text[end.saturating_sub(16)..end].to_owned()
}

#[test]
fn what_would_be_written_is_shown_and_needs_a_yes() {
    let world = world();
    let refused = world.forge(&["allow", "wc *"]);
    refused.code(3);
    assert_eq!(files(&world), Vec::<PathBuf>::new());
    insta::assert_snapshot!(plain(&world, &refused), @r"
    --- (new file)
    +++ [DIR]/home/.config/forge/projects/project-[HASH].rules
    @@ -0,0 +1,3 @@
    +# Commands that forge does not ask about in [DIR]/project, hosts (`host:NAME`), directories (`read:PATH`, `write:PATH`, `programs:PATH`).
    +# One pattern a line; `forge allow` writes here. What is blocked stays blocked.
    +wc *
    error: nobody can be asked whether to write this: there is no terminal

    hint: pass --yes to write exactly this
    ");
    check(&world, "wc -l data/a.md", "ask");

    world.forge(&["allow", "wc *", "--yes"]).code(0);
    let text = std::fs::read_to_string(the_file(&world)).unwrap();
    assert!(text.ends_with("\nwc *\n"), "{text}");
    let again = world.forge(&["allow", "wc *", "--yes"]);
    assert!(again.code(0).stdout.starts_with("unchanged: "));
}

#[test]
fn a_rule_answers_what_is_asked_and_lifts_no_block() {
    let world = world();
    for rule in ["wc *", "rm *", "*"] {
        world.forge(&["allow", rule, "--yes"]).code(0);
    }
    let explained = check(&world, "wc -l data/a.md", "allow");
    let origin = explained["rule"]["origin"].as_str().unwrap();
    let file = the_file(&world);
    assert_eq!(origin, format!("{}:3:1", file.display()), "{explained}");
    check(&world, "make", "allow");
    check(&world, "rm -r data", "block");
    check(&world, "wc data/a.md && rm -r data", "block");
    // Rules do not see all of this.
    check(&world, "wc $(make)", "ask");
    let shown = world.forge(&["--trust", "check"]);
    shown.code(0).says(&[
        "`*` runs unasked, and it is any program",
        "`rm *` never decides: `rm *` (golem-forge.config.yaml:",
    ]);
    assert!(shown.stdout.contains("3 of your own"), "{}", shown.stdout);
    let shown = world.forge(&["--trust", "check", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["personal_rules"][0]["rule"], "wc *");
}

/// A command reads whatever it is shown, so a mount that asks is asked about.
#[test]
fn a_rule_for_a_command_answers_nothing_about_a_mount() {
    let world = world_with_secret();
    world.forge(&["allow", "wc *", "--yes"]).code(0);
    let explained = check(&world, "wc -l data/a.md", "ask");
    let text = explained["rule"]["text"].as_str().unwrap();
    assert!(text.contains("read in /secret is `ask`"), "{explained}");
    world
        .forge(&[
            "--trust",
            "tools",
            "call",
            "shell",
            "command=wc -l data/a.md",
        ])
        .code(3);
    let read = world.forge(&["explain", "/secret/b.md", "--json"]);
    assert!(read.code(0).stdout.contains("ask"), "{}", read.stdout);
}

#[test]
fn another_project_is_not_affected() {
    let world = world();
    let other = world.outside().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("golem-forge.config.yaml"), PROJECT).unwrap();
    world.forge(&["allow", "wc *", "--yes"]).code(0);
    check(&world, "wc x", "allow");
    assert_eq!(verdict_in(&world, "../other", "wc x")["decision"], "ask");
    // It is the project's, wherever in it the person is.
    assert_eq!(verdict_in(&world, "data", "wc x")["decision"], "allow");
    world
        .forge(&["-C", "../other", "allow", "wc *", "--yes"])
        .code(0);
    assert_eq!(files(&world).len(), 2);
}

#[test]
fn what_a_rule_lets_run_is_told_before_it_is_written() {
    for (rule, told) in [
        (
            "find *",
            "runs any program by `-exec`, and deletes by `-delete`",
        ),
        ("sh *", "runs any program by its script"),
        ("python3 *", "runs any program from code given to it"),
        ("rm *", "`rm *` never decides"),
        ("wc *", ""),
    ] {
        let ran = world().forge(&["allow", rule]);
        ran.code(3).says(&[told]);
        assert_eq!(
            ran.stderr.contains("warning:"),
            !told.is_empty(),
            "{}",
            ran.stderr
        );
    }
    let without_shell = World::new(&[("golem-forge.config.yaml", "name: x\n")]);
    without_shell
        .forge(&["allow", "wc *"])
        .code(3)
        .says(&["this project offers no shell"]);
    let of_host = without_shell.forge(&["allow", "host:example.com"]);
    assert!(!of_host.stderr.contains("no shell"), "{}", of_host.stderr);
}

/// A person's rules answer what the project asks about. Where it blocks all else, others do nothing.
#[test]
fn a_rule_that_the_project_never_asks_about_is_told() {
    for default in ["", "  default: blocked\n"] {
        let project = PROJECT.replace("  default: ask\n", default);
        let world = World::new(&[
            ("golem-forge.config.yaml", &*project),
            ("data/a.md", "one\n"),
        ]);
        for (rule, command, works) in [
            ("wc *", "wc -l data/a.md", true),
            ("wc -l *", "wc -l data/a.md", true),
            ("(wc|ls) *", "wc -l data/a.md", true),
            ("ls *", "ls data", false),
            ("(ls|cat) *", "ls data", false),
            ("sh *", "sh x", false),
        ] {
            let ran = world.forge(&["allow", rule, "--yes"]);
            let is_told = ran
                .code(0)
                .stderr
                .contains("has no effect: the project blocks");
            assert_eq!(is_told, !works, "{rule}: {}", ran.stderr);
            assert!(
                works || !ran.stderr.contains("runs unasked"),
                "{}",
                ran.stderr
            );
            check(&world, command, if works { "allow" } else { "block" });
        }
        let shown = world.forge(&["--trust", "check"]);
        shown.code(0).says(&["`ls *` has no effect"]);
    }
}

/// A shell leaves the `~` behind a colon alone.
#[test]
fn a_directory_of_the_home_directory_is_named_by_a_tilde() {
    let world = world();
    let home = world.outside().join("home").canonicalize().unwrap();
    for dir in ["x", "a b"] {
        std::fs::create_dir(home.join(dir)).unwrap();
    }
    for (rule, below) in [
        ("read:~/x", Some("x")),
        ("write: ~/a b", Some("a b")),
        ("programs:~/x", Some("x")),
        ("read:~other/x", None),
        ("read:~", None),
    ] {
        let ran = world.forge(&["allow", rule, "--yes"]);
        let (kind, _) = rule.split_once(':').unwrap();
        let Some(below) = below else {
            ran.code(2);
            continue;
        };
        ran.code(0);
        let written = format!("{kind}:{}", home.join(below).display());
        let text = std::fs::read_to_string(the_file(&world)).unwrap();
        assert!(text.lines().any(|line| line == written), "{rule}: {text}");
        world.forge(&["allow", "--remove", rule, "--yes"]).code(0);
    }
}

/// The rule in the file has the whole path.
#[test]
fn a_directory_is_named_from_where_the_person_stands() {
    let world = world();
    let at = |name: &str| world.project().join(name);
    std::fs::create_dir_all(at("sub")).unwrap();
    std::fs::create_dir_all(world.outside().join("new")).unwrap();
    for (start, rule, path) in [
        (".", "write:../new", world.outside().join("new")),
        ("sub", "read:../../new", world.outside().join("new")),
        ("sub", "read: ./../../new/.", world.outside().join("new")),
    ] {
        world
            .forge_in(&at(start), &["allow", rule, "--yes"])
            .code(0);
        let (kind, _) = rule.split_once(':').unwrap();
        let line = format!("{kind}:{}", path.canonicalize().unwrap().display());
        let text = std::fs::read_to_string(the_file(&world)).unwrap();
        assert!(text.lines().any(|one| one == line), "{rule}: {text}");
        world
            .forge_in(&at(start), &["allow", "--remove", rule, "--yes"])
            .code(0);
    }
}

/// Words that are a rule, and are likely meant as another one.
#[test]
fn what_is_likely_meant_is_told() {
    let world = world();
    std::fs::create_dir_all(world.project().join("sub")).unwrap();
    for (rules, code, says) in [
        (&["npm", "test"][..], 0, "one rule: forge allow 'npm test'"),
        (&["make"], 0, ""),
        (&["npm test", "make"], 0, ""),
        (&["example.com"], 0, "forge allow host:example.com"),
        (&["python3.11"], 0, ""),
        (&["./sub"], 2, "forge allow read:/"),
        (&["/usr/bin"], 2, "forge allow read:/usr/bin"),
        (&["/usr/bin/wc"], 0, ""),
    ] {
        let ran = world.forge(&[&["allow", "--yes"], rules].concat());
        ran.code(code).says(&[says]);
        assert_eq!(ran.stderr.is_empty(), says.is_empty(), "{rules:?}: {ran:?}");
    }
}

#[test]
fn a_wrong_rule_is_shown_where_it_is_wrong() {
    let world = world();
    for (rule, code) in [
        ("./build.sh *", 2),
        ("../x", 2),
        ("node_modules/.bin/tsc", 2),
        ("Bash(npm test:*)", 2),
        ("npm test:*", 2),
        ("cat *.md", 2),
        ("git 'log", 2),
        ("git (log|", 2),
        ("", 2),
        ("# all", 2),
        ("wc\nmake", 2),
        ("wc \u{202e}x", 2),
        ("/usr/bin/wc 'a*b' *", 0),
    ] {
        let ran = world.forge(&["allow", rule, "--yes"]);
        ran.code(code);
        assert_eq!(ran.stderr.contains("RULE:1:"), code == 2, "{}", ran.stderr);
    }
    let all = world.forge(&["allow", "cat *.md", "./run", "wc *", "Bash(ls)", "--yes"]);
    insta::assert_snapshot!(all.code(2).stderr, @r"
    error[rule.bad_pattern]: `./run` is a relative path
      --> RULE:1:1
       |
     1 | ./run
       | ^^^^^
       = help: name a program (`npm`) or an absolute path: a worker can put another file at a relative one

    error[rule.bad_pattern]: `Bash(ls)` is another tool's spelling
      --> RULE:1:1
       |
     1 | Bash(ls)
       | ^^^^^^^^
       = help: write the command alone, for example `npm test *`

    error[rule.bad_pattern]: `*` in `*.md` is not a pattern
      --> RULE:1:5
       |
     1 | cat *.md
       |     ^^^^
       = help: `*` stands alone, for one word or at the end for any rest; quote a `*` that is meant as itself
    ");
    let text = std::fs::read_to_string(the_file(&world)).unwrap();
    assert!(!text.contains("\nwc *\n"), "{text}");
}

#[test]
fn a_damaged_file_is_an_error_with_its_line() {
    let world = world();
    world.forge(&["allow", "wc *", "--yes"]).code(0);
    let file = the_file(&world);
    let good = std::fs::read_to_string(&file).unwrap();
    for (text, place) in [
        (format!("{good}git 'log\n"), ":4:1"),
        (format!("{good}\n  make ./x*\n"), ":5:8"),
        (format!("{good}make\0\n"), ":4:5"),
    ] {
        std::fs::write(&file, text).unwrap();
        for args in [
            &["check"][..],
            &["explain", "--", "wc x"],
            &["allow", "--list"],
            &["allow", "make", "--yes"],
        ] {
            let ran = world.forge(args);
            ran.code(2).says(&[place, "^"]);
        }
    }
    std::fs::write(&file, good).unwrap();
    world.forge(&["check"]).code(0);
    let open = |mode| std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    open(0o666);
    world
        .forge(&["check"])
        .code(2)
        .says(&["other users can write it"]);
    open(0o600);
    let dir = file.parent().unwrap();
    std::fs::set_permissions(dir, Permissions::from_mode(0o777)).unwrap();
    world
        .forge(&["check"])
        .code(2)
        .says(&["can be written by others"]);
}

#[test]
fn writers_at_once_lose_nothing() {
    let world = world();
    let start = |n: usize| {
        let rule = format!("make target-{n}");
        let mut command = world.command(forge_program(), &["allow", &rule, "--yes"]);
        command.stdout(std::process::Stdio::piped());
        command.stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let all: Vec<_> = (0..12).map(start).collect();
    for child in all {
        ran(child.wait_with_output().unwrap()).code(0);
    }
    let list = world.forge(&["allow", "--list", "--json"]);
    let list: Value = serde_json::from_str(&list.code(0).stdout).unwrap();
    let mut rules: Vec<&str> = list["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["rule"].as_str().unwrap())
        .collect();
    rules.sort_unstable();
    let mut wanted: Vec<String> = (0..12).map(|n| format!("make target-{n}")).collect();
    wanted.sort_unstable();
    assert_eq!(rules, wanted);
}

#[test]
fn rules_are_listed_and_taken_back() {
    let world = world();
    let none = world.forge(&["allow", "--list"]);
    assert!(none.code(0).stdout.starts_with("you have no rules for "));
    world.forge(&["allow", "wc *", "make it", "--yes"]).code(0);
    let list = world.forge(&["allow", "--list"]);
    let rules: Vec<&str> = list
        .stdout
        .lines()
        .map(|line| line.split("  ").next().unwrap())
        .collect();
    assert_eq!(rules, ["wc *", "make it"]);
    world
        .forge(&["allow", "--remove", "wc", "--yes"])
        .code(2)
        .says(&["you have no rule `wc` for this project"]);
    world
        .forge(&["allow", "--remove", "wc *"])
        .code(3)
        .says(&["-wc *"]);
    check(&world, "wc x", "allow");
    let gone = world.forge(&["allow", "--remove", "wc *", "--yes", "--json"]);
    let gone: Value = serde_json::from_str(&gone.code(0).stdout).unwrap();
    assert_eq!(gone["state"], "written");
    check(&world, "wc x", "ask");
    check(&world, "make it", "allow");
}

#[test]
fn a_worker_cannot_have_the_file() {
    let world = World::new(&[(
        "golem-forge.config.yaml",
        "sandbox: { mode: direct, zones: { own: { path: ../home/.config/forge/projects } } }\n",
    )]);
    world.forge(&["allow", "wc *", "--yes"]).code(2);
    std::fs::create_dir_all(world.outside().join("home/.config/forge/projects")).unwrap();
    world
        .forge(&["--trust", "check"])
        .code(2)
        .says(&["forge's configuration directory"]);
}

#[cfg(target_os = "linux")]
mod asked {
    use super::*;
    use crate::terminal::pty::{Terminal, USUAL};

    fn call(command: &str) -> Vec<String> {
        let arguments = serde_json::json!({ "command": command }).to_string();
        ["tools", "call", "shell", &arguments]
            .map(str::to_owned)
            .to_vec()
    }

    fn words(list: &[String]) -> Vec<&str> {
        list.iter().map(String::as_str).collect()
    }

    /// Types an answer to the question about a command.
    fn answer(world: &World, command: &str, answer: &str) -> (i32, String) {
        let call = call(command);
        let terminal = Terminal::start(world, USUAL, &words(&call));
        terminal.until("[?] >");
        terminal.type_text(&format!("{answer}\r"));
        let ended = terminal.end();
        (ended.code.unwrap(), ended.screen)
    }

    /// The rule that is offered is the one with which nothing is asked.
    #[test]
    fn after_a_yes_the_rule_that_would_keep_it_is_named() {
        for (command, rules) in [
            ("wc -l /data/a.md", Some(&["wc -l /data/a.md"][..])),
            (
                "wc -c /data/a.md && cat /data/a.md",
                Some(&["wc -c /data/a.md", "cat /data/a.md"]),
            ),
            ("echo 'x  y' '*'", Some(&["echo \"x  y\" \"*\""])),
            // No rule speaks for what rules do not see, for a file that the worker can replace, or
            // for variables.
            ("cat $(echo /data/a.md)", None),
            ("./run", None),
            ("A=b wc /data/a.md", None),
        ] {
            let world = World::new(&[
                (
                    "golem-forge.config.yaml",
                    "sandbox: { mode: direct, zones: { data: { path: ./data } } }\n\
                     shell: { default: ask }\n",
                ),
                ("data/a.md", "one\n"),
            ]);
            let (_, screen) = answer(&world, command, "y");
            let screen = screen.replace('\n', " ");
            let begins = "To be asked no more for this: forge allow ";
            assert_eq!(
                screen.contains(begins),
                rules.is_some(),
                "{command}: {screen}"
            );
            let Some(rules) = rules else { continue };
            let quoted: Vec<String> = rules.iter().map(|rule| format!("'{rule}'")).collect();
            let hint = format!("{begins}{}", quoted.join(" "));
            assert!(screen.contains(&hint), "{screen}");
            let asked = world.forge(&words(&call(command)));
            asked.code(3);
            let args = [&["allow", "--yes"][..], rules].concat();
            world.forge(&args).code(0);
            world.forge(&words(&call(command))).code(0);
            let log = world.forge(&["log", "show", "last"]);
            for rule in rules {
                let reason = format!("the person's own rule `{rule}` for this project");
                assert!(log.stdout.contains(&reason), "{}", log.stdout);
            }
        }
    }

    #[test]
    fn a_mount_that_asks_is_asked_about_whatever_rules_say() {
        let world = world_with_secret();
        let (_, screen) = answer(&world, "wc -l /data/a.md", "y");
        assert!(!screen.contains("forge allow"), "{screen}");
        world.forge(&["allow", "wc *", "--yes"]).code(0);
        let asked = world.forge(&words(&call("wc -l /data/a.md")));
        asked.code(3).says(&["needs a person's approval"]);
    }

    #[test]
    fn the_change_is_confirmed_on_a_terminal() {
        for (typed, code) in [("y", 0), ("", 1), ("n", 1)] {
            let world = world();
            let terminal = Terminal::start(&world, USUAL, &["allow", "find *"]);
            let shown = terminal.until("Write this? [y/N]");
            assert!(shown.contains("+find *"), "{shown}");
            assert!(shown.contains("warning: `find *` runs unasked"), "{shown}");
            terminal.type_text(&format!("{typed}\r"));
            let end = terminal.end();
            assert_eq!(end.code, Some(code), "{typed}");
            let shown = format!("{:?}{}", end.stdout, end.screen);
            let says = shown.contains("nothing was written to");
            assert_eq!(says, code == 1, "{typed}: {shown}");
            assert_eq!(files(&world).len(), usize::from(code == 0), "{typed}");
        }
    }

    /// A yes to everything is recorded as one, lifts no block, and answers nothing that `--yes`
    /// does not answer.
    #[test]
    fn everything_that_asks_is_answered_once() {
        let world = World::new(&[
            (
                "golem-forge.config.yaml",
                "sandbox: { mode: direct, zones: { out: { path: ./out } } }\n\
                 shell: { rules: [{ pattern: 'rm *', approval: blocked }], default: ask }\n",
            ),
            ("workers/main.worker", "---\nname: main\n---\nGo.\n"),
            ("out/a.md", "one\n"),
            (
                "play.yaml",
                "version: 1
workers:
  main:
    - calls: [{ tool: write_file, args: { path: /out/b.md, content: first } }]
    - calls: [{ tool: write_file, args: { path: /out/c.md, content: second } }]
    - calls: [{ tool: shell, args: { command: rm /out/a.md } }]
    - calls: [{ tool: shell, args: { command: echo unconfined } }]
    - say: done
",
            ),
        ]);
        let run = [
            "--trust",
            "run",
            "--no-os-sandbox",
            "--model",
            "scripted:play.yaml",
        ];
        let terminal = Terminal::start(&world, USUAL, &run);
        terminal.until("[?] >");
        terminal.type_text("?\r");
        terminal.until("every later one that asks until forge ends");
        // Keys that are typed before the keys are offered again are discarded.
        terminal.until("the model is told why\n[y] once");
        terminal.type_text("a\r");
        // Nothing would confine it, so `--yes` does not speak for it.
        terminal.until("Allow `echo unconfined`?");
        let exists = |name: &str| world.project().join(name).exists();
        assert!(exists("out/b.md") && exists("out/c.md") && exists("out/a.md"));
        terminal.until("this run  shell with exactly");
        let awaits_answer = || terminal.screen().trim_end().ends_with("[?] >");
        crate::support::eventually("the question can be answered", awaits_answer);
        terminal.type_text("n\r");
        terminal.end();
        let log = world.forge(&["log", "show", "last"]);
        let by = "answer    allowed: a person at the terminal, by [a] everything that asks";
        assert_eq!(log.stdout.matches(by).count(), 2, "{}", log.stdout);
    }
}

/// The decision of `forge explain` about a host, and its rule.
fn host_verdict(world: &World, host: &str) -> (String, String) {
    let ran = world.forge(&["--trust", "explain", "--json", &format!("host:{host}")]);
    ran.code(0);
    let explained: Value = serde_json::from_str(&ran.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&explained["decision"]), explained["rule"].to_string())
}

#[test]
fn a_host_is_added_to_those_of_the_project() {
    let world = world();
    assert_eq!(host_verdict(&world, "one.test:443").0, "block");
    world
        .forge(&["allow", "--yes", "host:One.Test:443", "wc *"])
        .code(0);
    let (decision, rule) = host_verdict(&world, "one.test:443");
    assert_eq!(decision, "allow");
    assert!(rule.contains(".rules:3:1"), "{rule}");
    assert_eq!(host_verdict(&world, "one.test:80").0, "block");
    check(&world, "wc -l data/a.md", "allow");
    // Once more, in another spelling, changes nothing.
    let again = world.forge(&["allow", "--yes", "host:one.test:443"]);
    assert!(
        again.code(0).stdout.starts_with("unchanged: "),
        "{}",
        again.stdout
    );
    let listed = world.forge(&["allow", "--list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.code(0).stdout).unwrap();
    let rules = listed["rules"].as_array().unwrap();
    let rules: Vec<&str> = rules
        .iter()
        .filter_map(|one| one["rule"].as_str())
        .collect();
    assert_eq!(rules, ["wc *", "host:one.test:443"]);
    world
        .forge(&["allow", "--yes", "--remove", "host:one.test:443"])
        .code(0);
    assert_eq!(host_verdict(&world, "one.test:443").0, "block");
    let wrong = world.forge(&["allow", "--yes", "host:https://one.test/"]);
    wrong.code(2);
    assert!(
        wrong.stderr.contains("cannot be allowed: it is a URL"),
        "{}",
        wrong.stderr
    );
    assert!(wrong.stderr.contains("RULE:1:6"), "{}", wrong.stderr);
}

/// A denial in the project or the user file wins over a host that the person allows.
#[test]
fn what_denies_a_host_wins() {
    let denied = format!("{PROJECT}network: {{ allow: [two.test], deny: ['*.one.test'] }}\n");
    let world = World::new(&[
        ("golem-forge.config.yaml", &*denied),
        ("data/a.md", "one\n"),
    ]);
    let rules = ["host:www.one.test", "host:two.test", "host:three.test"];
    let written = world.forge(&[&["--trust", "allow", "--yes"][..], &rules].concat());
    written.code(0);
    for warning in [
        "`host:www.one.test` has no effect: `network.deny` names it, so it stays denied",
        "`host:two.test` has no effect: this project names it already",
    ] {
        assert!(written.stderr.contains(warning), "{}", written.stderr);
    }
    assert!(!written.stderr.contains("three.test"), "{}", written.stderr);
    assert_eq!(host_verdict(&world, "www.one.test:80").0, "block");
    assert_eq!(host_verdict(&world, "two.test:80").0, "allow");
    assert_eq!(host_verdict(&world, "three.test:80").0, "allow");
    let user = world.outside().join("home/.config/forge/config.yaml");
    std::fs::write(
        &user,
        "network: { allow: ['*.test'], deny: [three.test] }\n",
    )
    .unwrap();
    assert_eq!(host_verdict(&world, "three.test:80").0, "block");
    assert_eq!(host_verdict(&world, "two.test:80").0, "allow");
}

/// `--host` replaces the project's hosts and none of its denials.
#[test]
fn a_host_for_one_run_lifts_no_denial() {
    let denied = format!("{PROJECT}network: {{ allow: [two.test], deny: [ads.one.test] }}\n");
    let world = World::new(&[("golem-forge.config.yaml", &*denied)]);
    let exec = [
        "--trust",
        "exec",
        "--mechanism",
        "namespaces",
        "--host",
        "*.one.test",
        "--",
    ];
    let script = "for name in www.one ads.one two; do getent hosts $name.test; done; exit 4";
    let ran = world.forge(&[&exec[..], &["sh", "-c", script]].concat());
    if ran.stderr.contains("OS sandbox required") {
        println!("skipped: bubblewrap cannot be used here: {}", ran.stderr);
        return;
    }
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(ran.stdout.contains("www.one.test"), "{}", ran.stdout);
    for line in [
        "refused: resolve ads.one.test (the rule `ads.one.test` denies it)\n",
        "refused: resolve two.test (no rule names it)\n",
    ] {
        assert!(ran.stderr.contains(line), "{line}: {}", ran.stderr);
    }
}

/// `--last` offers exactly the hosts that the last run was refused.
#[test]
fn the_hosts_of_the_last_run_are_offered() {
    let world = world();
    let none = world.forge(&["allow", "--last"]);
    assert!(
        none.code(0).stdout.contains("was refused nothing"),
        "{}",
        none.stdout
    );
    let command = [
        "exec",
        "--mechanism",
        "namespaces",
        "--host",
        "named.test",
        "--",
    ];
    let script = "getent hosts one.test; getent hosts named.test; \
                  exec 3<>/dev/tcp/127.0.0.53/3128; \
                  printf 'CONNECT two.test:8443 HTTP/1.1\\r\\nHost: two.test:8443\\r\\n\\r\\n' >&3; \
                  cat <&3; exit 4";
    let ran = world.forge(&[&command[..], &["bash", "-c", script]].concat());
    if ran.stderr.contains("OS sandbox required") {
        println!("skipped: bubblewrap cannot be used here: {}", ran.stderr);
        return;
    }
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(ran.stdout.contains("HTTP/1.1 403"), "{}", ran.stdout);
    let advice = "A person can allow it: forge allow host:two.test:8443";
    assert!(ran.stdout.contains(advice), "{}", ran.stdout);
    for line in [
        "refused: resolve one.test (no rule names it)\n",
        "refused: connect two.test:8443 (no rule names it)\n",
        "forge allow --last",
    ] {
        assert!(ran.stderr.contains(line), "{line}: {}", ran.stderr);
    }
    let offered = world.forge(&["allow", "--last", "--json"]);
    let offered: Value = serde_json::from_str(&offered.code(0).stdout).unwrap();
    let expected = ["host:one.test", "host:two.test:8443"];
    assert_eq!(offered["refused"], serde_json::json!(expected));
    assert_eq!(files(&world), Vec::<PathBuf>::new());
    world.forge(&["allow", "--last", "--yes"]).code(0);
    assert_eq!(host_verdict(&world, "one.test:22").0, "allow");
    assert_eq!(host_verdict(&world, "two.test:8443").0, "allow");
    assert_eq!(host_verdict(&world, "two.test:80").0, "block");
    // A command that needs no such host is not told about one.
    let fine =
        world.forge(&[&command[..], &["bash", "-c", "getent hosts one.test; true"]].concat());
    fine.code(0);
    assert!(!fine.stderr.contains("one.test"), "{}", fine.stderr);
    assert!(!fine.stderr.contains("forge allow"), "{}", fine.stderr);
}

/// A rule that would be one about a command, and is meant as something else.
#[test]
fn an_unknown_kind_of_rule_is_refused() {
    let world = world();
    for (rule, says) in [
        ("nonsense:abc", "unknown kind of rule `nonsense:`"),
        ("net:example.com", "host:, read:, write: or programs:"),
        ("list", "did you mean `forge allow --list`?"),
    ] {
        world
            .forge(&["allow", "--yes", rule])
            .code(2)
            .says(&[rule.split(':').next().unwrap(), says]);
    }
    assert_eq!(files(&world), [] as [PathBuf; 0]);
    world.forge(&["allow", "--yes", "list *"]).code(0);
}
