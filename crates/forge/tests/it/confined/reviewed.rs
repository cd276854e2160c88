//! `forge exec --review`: a command changes nothing in the project until a person applies it.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use os_sandbox::Support;
use rustix::process::Signal;
use serde_json::Value;

use super::exec::mechanisms;
use crate::support::World;
use crate::terminal::pty::{Setup, Terminal, USUAL};

fn world(settings: &str) -> World {
    let world = World::new(&[("forge.yaml", settings)]);
    for (name, text) in [("a.txt", "1\n"), ("b.txt", "2\n"), ("old/c.txt", "3\n")] {
        world.write(name, text);
    }
    world
}

const PROJECT: &str = "sandbox: { root: . }\n";
const CHANGE: &str = "echo new > a.txt; rm b.txt; rm -r old; echo made > made.txt; mkdir .vscode; \
                      echo {} > .vscode/tasks.json";

/// A host without namespaces of its own refuses, and changes nothing.
pub(super) fn has_overlays() -> bool {
    let has = Support::detect().namespaces();
    if !has {
        let why = "skipped: this host lets nobody make namespaces, which overlays need";
        let _told = writeln!(std::io::stderr(), "{why}");
    }
    has
}

fn untouched(world: &World) {
    let text = |name: &str| fs::read_to_string(world.project().join(name)).unwrap_or_default();
    assert_eq!(
        (text("a.txt").as_str(), text("b.txt").as_str()),
        ("1\n", "2\n")
    );
    assert_eq!(text("old/c.txt"), "3\n");
    for name in ["made.txt", ".vscode"] {
        assert!(!world.project().join(name).exists(), "{name}");
    }
}

#[test]
fn changes_wait_and_are_applied() {
    let world = world(PROJECT);
    if !has_overlays() {
        return;
    }
    let ran = world.forge(&[
        "exec",
        "--review",
        "--",
        "sh",
        "-c",
        &format!("{CHANGE}; exit 3"),
    ]);
    // The exit code is the command's.
    ran.code(3).says(&[
        "deletions",
        "b.txt",
        "old",
        "protected",
        ".vscode",
        "a.txt",
        "made.txt",
        "forge review apply",
    ]);
    untouched(&world);
    let shown = world.forge(&["review", "show"]);
    shown.code(0);
    assert!(
        shown.stdout.contains("b.txt") && shown.stdout.contains("+new"),
        "{}",
        shown.stdout
    );
    world.forge(&["review", "apply"]).code(0);
    let text = |name: &str| fs::read_to_string(world.project().join(name)).ok();
    assert_eq!(text("a.txt").as_deref(), Some("new\n"));
    assert_eq!(text("made.txt").as_deref(), Some("made\n"));
    assert_eq!((text("b.txt"), text("old/c.txt")), (None, None));
    assert!(!world.project().join(".vscode").exists(), "nobody named it");
}

#[test]
fn changes_are_discarded() {
    let world = world(PROJECT);
    if !has_overlays() {
        return;
    }
    world
        .forge(&["exec", "--review", "--", "sh", "-c", CHANGE])
        .code(0);
    untouched(&world);
    world.forge(&["review", "discard"]).code(0);
    untouched(&world);
    let reviews = world.outside().join("state/reviews");
    assert_eq!(fs::read_dir(reviews).unwrap().count(), 0);
}

#[test]
fn nothing_is_left_without_changes() {
    let world = world(PROJECT);
    if !has_overlays() {
        return;
    }
    let left = || {
        fs::read_dir(world.outside().join("state/reviews"))
            .unwrap()
            .count()
    };
    // The set-group-id and sticky bits of a shared project are part of its mode.
    for mode in [0o755, 0o700, 0o777, 0o2775, 0o1777] {
        let permissions = PermissionsExt::from_mode(mode);
        fs::set_permissions(world.project(), permissions).unwrap();
        let ran = world.forge(&["exec", "--review", "--", "cat", "a.txt"]);
        ran.code(0).says(&["review: no changes"]);
        assert_eq!(left(), 0);
    }
    // A command that does not start has no changes either.
    world
        .forge(&["exec", "--review", "--", "./missing"])
        .code(127);
    assert_eq!(left(), 0);
}

#[test]
fn the_project_can_ask_for_it() {
    let world = world("sandbox: { root: ., review: true }\n");
    if !has_overlays() {
        return;
    }
    let ran = world.forge(&["exec", "--json", "--", "sh", "-c", CHANGE]);
    ran.code(0);
    untouched(&world);
    let object: Value = serde_json::from_str(&ran.stdout).unwrap();
    let review = &object["review"];
    assert!(review["changes"].as_u64().unwrap() >= 4, "{object}");
    let promises = object["enforcement"]["promises"].to_string();
    assert!(promises.contains("overlay writes"), "{promises}");
    // No mechanism without overlays stands in, and nothing runs unconfined instead.
    for (without, says) in [
        (&["--mechanism", "landlock"][..], "overlay writes"),
        (&["--no-os-sandbox"], "what keeps changes apart"),
    ] {
        let args = [&["exec"], without, &["--", "sh", "-c", CHANGE]].concat();
        world.forge(&args).code(125).says(&[says]);
        untouched(&world);
    }
    world
        .forge(&["-c", "sandbox.review=false", "exec", "--", "rm", "b.txt"])
        .code(0);
    assert!(!world.project().join("b.txt").exists());
}

#[test]
fn zones_and_their_read_only_neighbours() {
    let world = world(
        "sandbox: { zones: { in: { path: ./old, mode: ro }, out: { path: ./out } }, mode: direct }\n",
    );
    if !has_overlays() {
        return;
    }
    fs::create_dir(world.project().join("out")).unwrap();
    let script = "cp /work/in/c.txt /work/out/ && ! touch /work/in/x 2>&-";
    let directory = world.project().join("out");
    let directory = directory.to_str().unwrap();
    world
        .forge(&[
            "-C", directory, "exec", "--review", "--", "sh", "-c", script,
        ])
        .code(0)
        .says(&["c.txt"]);
    assert_eq!(fs::read_dir(directory).unwrap().count(), 0);
}

#[test]
fn links_of_the_command_are_not_followed() {
    let world = world(PROJECT);
    if !has_overlays() {
        return;
    }
    let outside = world.outside().join("victim");
    fs::write(&outside, "mine").unwrap();
    symlink(&outside, world.project().join("link")).unwrap();
    world
        .forge(&[
            "exec",
            "--review",
            "--",
            "sh",
            "-c",
            "rm link; echo x > link; ln -s /etc/passwd l",
        ])
        .code(0);
    world.forge(&["review", "apply"]).code(0);
    assert_eq!(fs::read_to_string(&outside).unwrap(), "mine");
    assert_eq!(
        fs::read_to_string(world.project().join("link")).unwrap(),
        "x\n"
    );
}

fn git(world: &World, args: &[&str]) -> String {
    let done = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.com"])
        .args(args)
        .current_dir(world.project())
        .output()
        .unwrap();
    assert!(done.status.success(), "{args:?}: {done:?}");
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn a_commit_is_applied_after_git_has_looked_at_the_project() {
    let world = world(PROJECT);
    if !has_overlays() {
        return;
    }
    git(&world, &["init", "--quiet"]);
    git(&world, &["add", "."]);
    git(&world, &["commit", "--quiet", "-m", "one"]);
    let commit = "echo new > a.txt; \
                  git -c user.name=a -c user.email=a@example.com commit --quiet -am two";
    let ran = world.forge(&["exec", "--review", "--", "sh", "-c", commit]);
    ran.code(0)
        .says(&[".git/objects/", "3 added", "entries of git's index"]);
    // git writes other times for this file into its index.
    let index = || fs::read(world.project().join(".git/index")).unwrap();
    let before = index();
    let file = world.project().join("old/c.txt");
    let file = fs::File::options().write(true).open(file).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(86_400))
        .unwrap();
    git(&world, &["status"]);
    assert_ne!(before, index());
    world.forge(&["review", "apply"]).code(0);
    assert_eq!(git(&world, &["log", "--format=%s"]), "two\none\n");
    assert_eq!(git(&world, &["status", "--porcelain"]), "");
    git(&world, &["fsck", "--strict"]);
}

#[test]
fn files_of_others_are_named_as_the_cause() {
    let world = world(PROJECT);
    if !has_overlays() {
        return;
    }
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root gives files to a group of others");
        return;
    }
    let group = Some(12_345);
    std::os::unix::fs::chown(world.project().join("a.txt"), None, group).unwrap();
    let ran = world.forge(&["exec", "--review", "--", "sh", "-c", "echo x > a.txt"]);
    ran.code(2)
        .says(&["files of other users or groups", "a.txt", "hint: "]);
    let ran = world.forge(&["exec", "--review", "--", "sh", "-c", "exit 0"]);
    ran.code(0);
    assert!(!ran.stderr.contains("other users"), "{}", ran.stderr);
}

#[test]
fn a_person_answers_at_the_end() {
    if !has_overlays() {
        return;
    }
    const QUESTION: &str = "[a] apply all  [s] show  [k] keep for later  [d] discard: ";
    let question = QUESTION.trim_end();
    let setup = Setup {
        piped: false,
        ..USUAL
    };
    let end_of_input = "\u{4}";
    for (typed, told, is_applied, is_kept) in [
        (&["a\r"][..], "applied", true, false),
        (&["s\r", "d\r"], "+new", false, false),
        (&["what\r", "k\r"], question, false, true),
        (&["\r", end_of_input], question, false, true),
    ] {
        let world = world(PROJECT);
        let script = "echo new > a.txt; rm b.txt; exit 3";
        let args = ["exec", "--review", "--", "sh", "-c", script];
        let terminal = Terminal::start(&world, setup, &args);
        for (number, keys) in typed.iter().enumerate() {
            terminal.until_times(question, number + 1);
            terminal.type_text(keys);
        }
        let ended = terminal.end_with_command();
        // The exit code is the command's, whatever the answer was.
        assert_eq!(ended.code, Some(3), "{typed:?}:\n{}", ended.screen);
        assert!(ended.screen.contains(told), "{typed:?}:\n{}", ended.screen);
        let text = |name: &str| fs::read_to_string(world.project().join(name)).ok();
        let found = (text("a.txt"), text("b.txt").is_some());
        let wanted = match is_applied {
            true => (Some("new\n".to_owned()), false),
            false => (Some("1\n".to_owned()), true),
        };
        assert_eq!(found, wanted, "{typed:?}:\n{}", ended.screen);
        let list = world.forge(&["review", "list", "--json"]);
        assert_eq!(
            list.stdout.contains("\"changes\":2"),
            is_kept,
            "{typed:?}: {}{}",
            list.stdout,
            list.stderr
        );
    }
}

/// They keep the changes for later, and the exit code is the command's.
#[test]
fn signals_end_the_question() {
    if !has_overlays() {
        return;
    }
    let setup = Setup {
        piped: false,
        ..USUAL
    };
    // The terminal of the test is not the controlling one, so Ctrl-C is a signal.
    for signal in [Signal::INT, Signal::TERM] {
        let world = world(PROJECT);
        let script = "echo new > a.txt; exit 3";
        let args = ["exec", "--review", "--", "sh", "-c", script];
        let terminal = Terminal::start(&world, setup, &args);
        terminal.until("[d] discard:");
        terminal.signal(signal);
        let ended = terminal.end_with_command();
        assert_eq!(ended.code, Some(3), "{}", ended.screen);
        assert!(ended.screen.contains("kept for later"), "{}", ended.screen);
        let list = world.forge(&["review", "list", "--json"]);
        assert!(list.stdout.contains("\"changes\":1"), "{}", list.stdout);
    }
}

/// An apply is listed with its project, in one line even if it failed.
#[test]
fn an_apply_is_recorded_in_its_project() {
    if !has_overlays() {
        return;
    }
    let world = world(PROJECT);
    let args = ["exec", "--review", "--", "sh", "-c", "echo new > a.txt"];
    world.forge(&args).code(0);
    fs::write(world.project().join("a.txt"), "mine\n").unwrap();
    world.forge(&["review", "apply"]).code(1);
    let list = world.forge(&["log", "list", "--json"]);
    let list: Value = serde_json::from_str(&list.code(0).stdout).unwrap();
    let [apply, exec] = &list["runs"].as_array().unwrap()[..] else {
        panic!("{list}");
    };
    assert_eq!(apply["project"], exec["project"], "{list}");
    let list = world.forge(&["log", "list"]);
    assert_eq!(list.code(0).stdout.lines().count(), 2, "{}", list.stdout);
    assert!(!list.stdout.contains("a.txt\\n"), "{}", list.stdout);
}

#[test]
fn changes_of_modes_and_links_are_listed() {
    if !has_overlays() {
        return;
    }
    let world = world(PROJECT);
    std::os::unix::fs::symlink("a.txt", world.project().join("link")).unwrap();
    let script = "echo 2 >> a.txt; chmod 755 a.txt; ln -sf b.txt link; mkdir new; echo 1 > new/f";
    let ran = world.forge(&["exec", "--review", "--", "sh", "-c", script]);
    ran.code(0).says(&[
        "a.txt  (2 → 4 bytes; mode 0644 → 0755)",
        "link  (link to a.txt → link to b.txt)",
        "new/f  (2 bytes)",
        "2 modified, 1 added",
    ]);
}

/// A project that a worker changes by its file tools, by commands and by a worker that it calls.
const RUN: &str = "\
sandbox: { root: . }
shell: { rules: [{ pattern: '*', approval: preApproved }] }
";

const CHANGES: &str = r#"
version: 1
workers:
  main:
    - calls:
        - { tool: write_file, args: { path: /made.txt, content: "by a tool\n" } }
        - { tool: edit_file, args: { path: /a.txt, old_text: "1", new_text: "one" } }
        - { tool: move_file, args: { from: /b.txt, to: /moved.txt } }
        - { tool: delete_file, args: { path: /gone.txt } }
    - calls:
        - tool: shell
          args: { command: "sh -c 'cat made.txt a.txt moved.txt && rm -r old && echo by a command > command.txt && mv d.txt e.txt && chmod 600 mode.txt && pwd -P'" }
          as: shell
    - calls: [{ tool: search_files, args: { pattern: by a, path: / }, as: found }]
    - calls: [{ tool: child, args: { input: go }, as: child }]
    - say: "{{ results.shell.content }}|{{ results.found.content }}|{{ results.child.content }}"
  child:
    - calls: [{ tool: read_file, args: { path: /command.txt }, as: text }]
    - calls: [{ tool: write_file, args: { path: /child.txt, content: "by a child\n" } }]
    - say: "{{ results.text.content }}"
"#;

const ANSWER: &str = "by a tool\none\n2\n/work\n|/command.txt:1: by a command\n\
                      /made.txt:1: by a tool|by a command\n";

fn worker_world(playbook: &str) -> World {
    let world = world(RUN);
    let worker = |more: &str| format!("---\ndescription: x\n{more}---\nGo.\n");
    for (name, text) in [
        ("gone.txt", "3\n"),
        ("d.txt", "4\n"),
        ("mode.txt", "5\n"),
        ("workers/main.worker", &worker("workers: [child]\n")),
        ("workers/child.worker", &worker("")),
    ] {
        world.write(name, text);
    }
    symlink("/etc/hostname", world.project().join("outside")).unwrap();
    fs::write(world.outside().join("play.yaml"), playbook).unwrap();
    world
}

impl World {
    /// Runs the playbook, with more flags.
    fn play(&self, flags: &[&str]) -> crate::support::Ran {
        let model = format!("scripted:{}", self.outside().join("play.yaml").display());
        let run = [
            "--trust", "run", "--yes", "--model", &model, "main", "do it",
        ];
        self.forge(&[&run[..2], flags, &run[2..]].concat())
    }
}

/// Names, kinds, modes and contents of the project; times and identities too.
fn tree(world: &World, with_times: bool) -> Vec<String> {
    use std::os::unix::fs::MetadataExt as _;
    let mut found = Vec::new();
    let mut queue = vec![world.project()];
    while let Some(path) = queue.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let mut text = format!("{} {:o}", path.display(), meta.mode());
        text = text.replace(world.project().to_str().unwrap(), "");
        if meta.is_dir() {
            queue.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else if meta.is_symlink() {
            text += &format!(" -> {:?}", fs::read_link(&path).unwrap());
        } else {
            text += &format!(" {:?}", fs::read_to_string(&path).unwrap());
        }
        if with_times {
            let times = (meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
            text += &format!(" {} {times:?}", meta.ino());
        }
        found.push(text);
    }
    found.sort();
    found
}

fn reviews(world: &World) -> usize {
    let reviews = fs::read_dir(world.outside().join("state/reviews"));
    reviews.map_or(0, Iterator::count)
}

#[test]
fn a_run_changes_nothing_until_it_is_applied() {
    let direct = worker_world(CHANGES);
    assert_eq!(
        direct.play(&[]).code(0).stdout.trim_end(),
        ANSWER.trim_end()
    );
    for flags in [&["--review"][..], &["-c", "sandbox.review=true"]] {
        let world = worker_world(CHANGES);
        let before = tree(&world, true);
        let ran = world.play(flags);
        ran.code(0).says(&[
            "review: changes are made in a copy of 12 files and directories",
            "deletions",
            "gone.txt",
            "child.txt",
            "the project is unchanged; forge review show main_",
        ]);
        // The worker sees its changes, and no path of the host.
        assert_eq!(ran.stdout.trim_end(), ANSWER.trim_end());
        assert_eq!(tree(&world, true), before);
        let run = fs::read_dir(world.outside().join("state/runs"))
            .unwrap()
            .next();
        let facts = fs::read(run.unwrap().unwrap().path().join("run.json")).unwrap();
        let facts: Value = serde_json::from_slice(&facts).unwrap();
        assert_eq!(facts["review"]["changes"], 11, "{}", facts["review"]);
        assert_eq!(
            facts["review"]["copy"]["objects"], 12,
            "{}",
            facts["review"]
        );
        world.forge(&["review", "apply"]).code(0);
        assert_eq!(tree(&world, false), tree(&direct, false));
        // Another one is discarded.
        let before = tree(&world, true);
        world.play(flags);
        world.forge(&["review", "discard"]).code(0);
        assert_eq!(tree(&world, true), before);
        assert_eq!(reviews(&world), 0);
    }
}

const APPENDS: &str = "
version: 1
workers:
  main:
    - calls: [{ tool: append_file, args: { path: /a.txt, content: a } }]
    - calls: [{ tool: append_file, args: { path: /a.txt, content: b } }]
    - calls: [{ tool: append_file, args: { path: /d.txt, content: c } }]
    - say: done
";

#[test]
fn a_run_goes_on_in_its_copy() {
    let world = worker_world(APPENDS);
    let before = tree(&world, true);
    world.play(&["--review", "--max-turns", "2"]).code(5);
    assert_eq!(tree(&world, true), before);
    world.forge(&["review", "show"]).code(0);
    let goes_on = [
        "--trust",
        "run",
        "--resume",
        "main",
        "--yes",
        "--max-turns",
        "9",
        "--accept-changes",
    ];
    world.forge(&goes_on).code(0).says(&["d.txt"]);
    assert_eq!(tree(&world, true), before);
    // The person edits one of the files meanwhile.
    world.write("d.txt", "mine\n");
    let refused = world.forge(&["review", "apply"]);
    refused.code(1).says(&["changed in the project", "d.txt"]);
    world.forge(&["review", "apply", "a.txt"]).code(0);
    let text = |name: &str| fs::read_to_string(world.project().join(name)).unwrap();
    assert_eq!(
        (text("a.txt").as_str(), text("d.txt").as_str()),
        ("1\nab", "mine\n")
    );

    // What was discarded is not gone on with in the project itself.
    let world = worker_world(APPENDS);
    let before = tree(&world, true);
    world.play(&["--review", "--max-turns", "2"]).code(5);
    world.forge(&["review", "discard"]).code(0);
    let refused = world.forge(&goes_on);
    refused
        .code(2)
        .says(&["its changes were applied or discarded"]);
    assert_eq!(tree(&world, true), before);
}

const WAITS: &str = r#"
version: 1
workers:
  main:
    - calls: [{ tool: write_file, args: { path: /made.txt, content: "by a tool\n" } }]
    - calls: [{ tool: shell, args: { command: "sh -c 'rm gone.txt; echo > started; sleep 600'" } }]
    - say: done
"#;

#[test]
fn a_run_that_is_killed_leaves_its_changes() {
    let world = worker_world(WAITS);
    let before = tree(&world, true);
    let model = format!("scripted:{}", world.outside().join("play.yaml").display());
    let args = [
        "--trust", "run", "--review", "--yes", "--model", &model, "main", "do it",
    ];
    let mut run = world
        .command(crate::support::forge_program(), &args)
        .spawn()
        .unwrap();
    let started = || {
        let reviews = fs::read_dir(world.outside().join("state/reviews"));
        let mut reviews = reviews.into_iter().flatten().flatten();
        reviews.any(|review| review.path().join("mounts/project/copy/started").exists())
    };
    while !started() {
        assert!(run.try_wait().unwrap().is_none(), "the run ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    world
        .forge(&["review", "show"])
        .code(1)
        .says(&["another forge process uses this review"]);
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(tree(&world, true), before);
    let shown = world.forge(&["review", "show"]);
    shown.code(0);
    for name in ["gone.txt", "made.txt", "started"] {
        assert!(shown.stdout.contains(name), "{}", shown.stdout);
    }
    world.forge(&["review", "apply"]).code(0);
    assert!(!world.project().join("gone.txt").exists());
    assert!(world.project().join("made.txt").exists());
}

/// Without an overlay a command works in a copy if it is told to.
#[test]
fn a_command_works_in_a_copy() {
    let world = world(PROJECT);
    let here = world.project();
    let command = format!("{CHANGE}; pwd");
    let ran = world.forge(&["exec", "--review=copy", "--", "sh", "-c", &command]);
    ran.code(0).says(&["in a copy of", "made.txt"]);
    assert_eq!(ran.stdout.trim_end(), here.to_str().unwrap());
    untouched(&world);
    assert!(world.audit().contains("changes are made in a copy of"));
    world.forge(&["review", "apply"]).code(0);
    let text = |name: &str| fs::read_to_string(world.project().join(name)).ok();
    assert_eq!(text("made.txt").as_deref(), Some("made\n"));
    assert_eq!((text("b.txt"), text("old/c.txt")), (None, None));
    assert!(
        !world.project().join(".vscode").exists(),
        "quarantined, as without a review"
    );
    let args = [
        "exec",
        "--review=copy",
        "--mechanism",
        "landlock",
        "--",
        "true",
    ];
    let told = "cannot show a copy at the path of the project";
    world.forge(&args).code(125).says(&[told]);
    // The refusal of an overlay names it where it works, whatever hosts are listed.
    let args = ["exec", "--review", "--mechanism"];
    for hosts in [&[][..], &["-c", "network.allow=[example.com]"]] {
        for (mechanism, is_named) in [("bubblewrap", true), ("landlock", false)] {
            if !mechanisms(&world).contains(&mechanism) {
                eprintln!("skipped: this host has no {mechanism}");
                continue;
            }
            let args = [&args[..], &[mechanism], hosts, &["--", "true"]].concat();
            let ran = world.forge(&args);
            ran.code(125)
                .says(&["hint: ", "changes the project at once"]);
            let hints = ran.stderr.split_once("hint: ").unwrap().1;
            assert_eq!(hints.contains("--review=copy"), is_named, "{hints}");
            assert!(
                !hints.starts_with("or ") && !hints.contains("network"),
                "{hints}"
            );
        }
    }
}

/// A command under review, and the limit that it meets.
struct Bound {
    limits: &'static str,
    command: &'static str,
    codes: &'static [i32],
    /// `None`: it meets no limit.
    says: Option<&'static str>,
}

const BOUNDS: [Bound; 6] = [
    Bound {
        limits: "review_mb: 8",
        command: "head -c 40000000 /dev/zero > large; sleep 60",
        codes: &[137],
        says: Some("more than 8 MiB (limits.review_mb)"),
    },
    Bound {
        limits: "review_files: 500",
        command: "mkdir d; for i in $(seq 2000); do : > d/f$i; done; sleep 60",
        codes: &[137],
        says: Some("more than 500 files (limits.review_files)"),
    },
    Bound {
        limits: "review_mb: 8",
        command: "mkdir -m 300 d; head -c 40000000 /dev/zero > d/large; sleep 60",
        codes: &[137],
        says: Some("more than 8 MiB (limits.review_mb)"),
    },
    // The command has ended when it is noticed, or is ended.
    Bound {
        limits: "review_files: 10",
        command: "seq 20 | while read i; do : > f$i; done",
        codes: &[0, 137],
        says: Some("more than 10 files (limits.review_files)"),
    },
    Bound {
        limits: "review_mb: 1",
        command: "truncate -s 10G sparse; sleep 0.5",
        codes: &[0],
        says: None,
    },
    Bound {
        limits: "review_mb: 8, review_files: 10",
        command: "head -c 4000000 /dev/zero > large; sleep 0.5",
        codes: &[0],
        says: None,
    },
];

#[test]
fn changes_have_a_limit() {
    let overlays = has_overlays().then_some("--review=overlay");
    for layer in ["--review=copy"].into_iter().chain(overlays) {
        for row in &BOUNDS {
            let world = world(&format!("{PROJECT}limits: {{ {} }}\n", row.limits));
            let ran = world.forge(&["exec", layer, "--", "sh", "-c", row.command]);
            assert!(
                row.codes.contains(&ran.code),
                "{}: {}",
                ran.code,
                ran.stderr
            );
            match row.says {
                Some(says) => ran.says(&["limit: ", says]),
                None => ran.says(&["added"]),
            };
            assert_eq!(
                ran.stderr.contains("limit: "),
                row.says.is_some(),
                "{}",
                ran.stderr
            );
            assert!(world.audit().contains(row.says.unwrap_or_default()));
            untouched(&world);
            // The changes up to the limit stay, and can be applied.
            world.forge(&["review", "apply"]).code(0);
            let made = |name: &str| world.project().join(name).exists();
            assert!(made("large") || made("d") || made("f1") || made("sparse"));
        }
    }
}

/// Four reviews may wait that are as large as the limit of one; nothing of a refused one is left.
#[test]
fn all_reviews_have_a_limit() {
    let world = world(&format!("{PROJECT}limits: {{ review_mb: 4 }}\n"));
    let write = |more: &str| {
        let command = format!("head -c 4000000 /dev/zero > large{more}");
        world.forge(&["exec", "--review=copy", "--", "sh", "-c", &command])
    };
    for _ in 0..4 {
        write("").code(0);
    }
    let told = "bytes (limits.review_mb; other reviews hold the rest)";
    write("; sleep 60").code(137).says(&["limit: ", told]);
    write("").code(125).says(&[
        "the reviews that wait hold 16777216 bytes together",
        "exec_",
        "limits.review_mb",
    ]);
    assert_eq!(reviews(&world), 5);
}

#[test]
fn the_receipt_has_the_plan_of_a_review() {
    let world = world(&format!("{PROJECT}limits: {{ review_mb: 8 }}\n"));
    let ran = world.forge(&["exec", "--json", "--review=copy", "--", "sh", "-c", CHANGE]);
    let object: Value = serde_json::from_str(&ran.code(0).stdout).unwrap();
    let plan = &object["enforcement"]["review"];
    let here = world.project();
    assert_eq!(plan["in"], "copy", "{object}");
    assert_eq!(plan["directories"][0], here.to_str().unwrap());
    assert_eq!(
        (&plan["max_bytes"], &plan["max_files"]),
        (&(8 << 20).into(), &200_000.into())
    );
}

const GROWS: &str = r#"
version: 1
workers:
  main:
    - calls:
        - { tool: write_file, args: { path: /one.txt, content: "1\n" } }
        - { tool: write_file, args: { path: /two.txt, content: "2\n" } }
        - { tool: write_file, args: { path: /three.txt, content: "3\n" } }
    - calls: [{ tool: shell, args: { command: "sleep 60" } }]
    - say: done
"#;

#[test]
fn a_run_whose_copy_grows_is_ended() {
    let world = worker_world(GROWS);
    let before = tree(&world, true);
    let ran = world.play(&["--review", "-c", "limits.review_files=14"]);
    ran.code(5)
        .says(&["the copy holds more than 14 files (limits.review_files)"]);
    assert_eq!(tree(&world, true), before);
    world.forge(&["review", "apply"]).code(0);
    assert!(world.project().join("three.txt").exists());
}

/// A name that a scan moves away after a command is not applied either, whatever the review is.
#[test]
fn what_git_would_obey_is_not_applied() {
    if !has_overlays() {
        return;
    }
    const MAKE: &str = "mkdir -p $d/objects $d/refs; echo 'ref: refs/heads/main' > $d/HEAD; \
        printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = ..\\n\\tfsmonitor = false\\n' \
        > $d/config";
    let rows = [
        (format!("d=x; {MAKE}"), "x/HEAD"),
        (format!("d=target/x; {MAKE}"), "target/x/HEAD"),
        (
            "mkdir y; echo . > y/commondir; ln -s z y/HEAD".to_owned(),
            "y/HEAD",
        ),
        (
            "ln -s /etc/hostname .git/COMMIT_EDITMSG".to_owned(),
            ".git/COMMIT_EDITMSG",
        ),
        (
            "ln -s /etc/hostname .git/refs/heads/l".to_owned(),
            ".git/refs/heads/l",
        ),
        (
            "echo > real/config.worktree".to_owned(),
            "real/config.worktree",
        ),
    ];
    for layer in ["--review", "--review=copy"] {
        for (script, path) in &rows {
            let world = world(PROJECT);
            git(&world, &["init", "--quiet"]);
            git(&world, &["init", "--quiet", "--bare", "real"]);
            let script = format!("echo new > a.txt; {script}");
            world
                .forge(&["exec", layer, "--", "sh", "-c", &script])
                .code(0);
            world.forge(&["review", "apply"]).code(0);
            let found = fs::symlink_metadata(world.project().join(path));
            assert!(found.is_err(), "{layer} {path}");
            let text = fs::read_to_string(world.project().join("a.txt")).unwrap();
            assert_eq!(text, "new\n", "{layer} {path}");
            assert!(!world.project().join(sandbox_names::QUARANTINE).exists());
        }
    }
}

#[test]
fn a_quarantine_is_kept_and_told_without_other_changes() {
    let world = world(PROJECT);
    if !has_overlays() {
        return;
    }
    let script = "mkdir .vscode; echo {} > .vscode/tasks.json";
    let ran = world.forge(&["exec", "--review=copy", "--", "sh", "-c", script]);
    ran.code(0)
        .says(&["quarantined: ", "never applied", "forge review discard"]);
    assert_eq!(reviews(&world), 1);
    world.forge(&["review", "discard"]).code(0);
    assert_eq!(reviews(&world), 0);
}
