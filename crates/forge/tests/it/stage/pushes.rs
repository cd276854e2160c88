//! `forge stage push` on a terminal: what a person is shown, and what their answer does.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::world::{bare, git, has_git, head, kept, shown, someone_pushes, stage};
use crate::support::{World, copy_forge};
use crate::terminal::pty::{Ended, Setup, Terminal, USUAL};

const ASKED: &str = "[y] push it  [n] no  [?] >";

/// A repository with one file, and a change of it staged.
fn staged() -> (World, PathBuf, String) {
    let world = World::new(&[]);
    let repo = bare(&world, "r.git", &[("a.md", b"one\ntwo\n"), ("b", b"b\n")]);
    let files: &[(&str, Option<&[u8]>)] = &[("a.md", Some(b"one\n2\n"))];
    let id = stage(&world, &repo, files, "Say it in digits\n\n+ and more");
    (world, repo, id)
}

/// Pushes and answers.
fn push(world: &World, id: &str, more: &[&str], answer: &str) -> Ended {
    let args = [&["stage", "push", id][..], more].concat();
    let terminal = Terminal::start(world, USUAL, &args);
    terminal.until(ASKED);
    terminal.type_text(answer);
    terminal.end()
}

fn is_staged(world: &World, id: &str) -> bool {
    let text = world.forge(&["stage", "--json"]).stdout;
    let object: Value = serde_json::from_str(&text).unwrap();
    let staged = object["staged"].as_array().unwrap();
    staged.iter().any(|commit| commit["commitId"] == id)
}

#[test]
fn a_person_sees_all_of_it_and_says_yes() {
    if !has_git() {
        return;
    }
    let (world, repo, id) = staged();
    let before = head(&repo);
    let terminal = Terminal::start(&world, USUAL, &["stage", "push", &id[..12]]);
    let screen = terminal.until(ASKED);
    for row in [
        &format!("push      {id}") as &str,
        "branch    main",
        "message   | Say it in digits",
        "          | + and more",
        "files     1 file +1 -1",
        "update    a.md",
        "          @@ -1,2 +1,2 @@",
        "           one",
        "          -two",
        "          +2",
    ] {
        assert!(screen.lines().any(|line| line == row), "{row:?}\n{screen}");
    }
    assert!(screen.contains("to        file:///"), "{screen}");
    assert_eq!(head(&repo), before, "nothing is done before the answer");
    terminal.type_text("y\n");
    let ended = terminal.end();
    assert_eq!(ended.code, Some(0), "{}", ended.screen);
    let after = head(&repo);
    assert_ne!(after, before);
    let place = repo.to_str().unwrap();
    assert_eq!(
        ended.stdout.unwrap(),
        format!("{after}  main  file://{place}\n")
    );
    assert_eq!(shown(&repo, "a.md"), "one\n2\n");
    let said = git(&repo, &["log", "-1", "--format=%an <%ae>|%B", "main"]);
    assert_eq!(
        said.trim_end(),
        "forge <forge@localhost>|Say it in digits\n\n+ and more"
    );
    assert_eq!(git(&repo, &["rev-parse", "main^"]).trim(), before);
    assert!(!is_staged(&world, &id));
    // Added rows are green, and those of a message are not.
    assert!(
        ended.raw.contains("\u{1b}[32m          +2"),
        "{}",
        ended.raw
    );
    assert!(!ended.raw.contains("m          | +"), "{}", ended.raw);

    // It is in the log: what was agreed to, by whom, and what came of it.
    let listed = world.forge(&["log", "list"]).stdout;
    assert!(listed.contains(&format!("pushed {after}")), "{listed}");
    world.forge(&["log", "verify"]).code(0);
    let log: Value =
        serde_json::from_str(&world.forge(&["log", "show", "last", "--json"]).stdout).unwrap();
    let call = &log["calls"][0]["decision"];
    assert_eq!(call["tool"], "stage_push", "{log}");
    assert_eq!(call["decision"]["answer"], "allowed", "{log}");
    assert_eq!(call["decision"]["by"], "a person at the terminal", "{log}");
    let commit = &call["arguments"]["commits"][0];
    assert_eq!(commit["commitId"], id.as_str());
    assert_eq!(commit["digest"].as_str().unwrap().len(), 64);
}

#[test]
fn only_a_clear_yes_is_one() {
    if !has_git() {
        return;
    }
    let (world, repo, id) = staged();
    let before = head(&repo);
    for answer in ["n\n", "\n", "r\n", "yo\n", "n not this way\n", "\u{4}"] {
        let ended = push(&world, &id, &[], answer);
        assert_eq!(ended.code, Some(1), "{answer:?}: {}", ended.screen);
        assert_eq!(ended.stdout.as_deref(), Some(""), "{answer:?}");
        assert!(ended.screen.contains("It stays staged"), "{}", ended.screen);
        assert_eq!(
            ended.screen.contains("said no: not this way"),
            answer.contains("way")
        );
        assert_eq!(head(&repo), before, "{answer:?}");
        assert!(is_staged(&world, &id), "{answer:?}");
    }
    let listed = world.forge(&["log", "list"]).stdout;
    assert_eq!(listed.matches("denied: 1 call").count(), 6, "{listed}");
}

#[test]
fn nobody_else_agrees() {
    if !has_git() {
        return;
    }
    let (world, repo, id) = staged();
    let before = head(&repo);
    let nobody = world.forge(&["stage", "push", &id]);
    nobody.code(3).says(&[
        "a push is always asked, and nobody can be: there is no terminal",
        &format!("forge stage push {id}"),
    ]);
    for (args, code, says) in [
        (&["stage", "push", &id, "--yes"][..], 2, "no --yes"),
        (&["stage", "push", &id, "--approve", "all"], 2, "--approve"),
        (&["--no-input", "stage", "push", &id], 3, "--no-input"),
    ] {
        let ended = Terminal::start(&world, USUAL, args).end();
        assert_eq!(ended.code, Some(code), "{args:?}: {}", ended.screen);
        assert!(ended.screen.contains(says), "{}", ended.screen);
    }
    let setup = Setup {
        env: &[("TERM", "xterm"), ("CI", "1")],
        ..USUAL
    };
    let ended = Terminal::start(&world, setup, &["stage", "push", &id]).end();
    assert_eq!(ended.code, Some(3), "{}", ended.screen);
    assert_eq!(head(&repo), before);
    assert!(is_staged(&world, &id));
    // Whoever could write a project file cannot answer in a person's name either.
    world.write(
        "golem-forge.config.yaml",
        "sandbox: { root: . }\napproval: { mode: auto }\n",
    );
    world.forge(&["--trust", "stage", "push", &id]).code(3);
    assert_eq!(head(&repo), before);
}

#[test]
fn a_branch_that_has_moved_is_refused_or_built_upon() {
    if !has_git() {
        return;
    }
    let (world, repo, id) = staged();
    // While somebody reads.
    let terminal = Terminal::start(&world, USUAL, &["stage", "push", &id]);
    terminal.until(ASKED);
    someone_pushes(&world, &repo, &[("b", b"other\n")]);
    let moved = head(&repo);
    terminal.type_text("y\n");
    // And before anybody was asked.
    let again = Terminal::start(&world, USUAL, &["stage", "push", &id]);
    for ended in [terminal.end(), again.end()] {
        assert_eq!(ended.code, Some(1), "{}", ended.screen);
        let joined = ended.screen.replace('\n', " ");
        for text in ["has moved from", "Changed there: b.", "--rebase"] {
            assert!(joined.contains(text), "{text}: {}", ended.screen);
        }
    }
    assert_eq!(head(&repo), moved);
    assert!(is_staged(&world, &id));

    let terminal = Terminal::start(&world, USUAL, &["stage", "push", &id, "--rebase"]);
    let screen = terminal.until(ASKED);
    assert!(
        screen.contains(&format!("on top of {moved}, to")),
        "{screen}"
    );
    terminal.type_text("n\n");
    assert_eq!(terminal.end().code, Some(1));
    let ended = push(&world, &id, &["--rebase", "--json"], "y\n");
    assert_eq!(ended.code, Some(0), "{}", ended.screen);
    let object: Value = serde_json::from_str(&ended.stdout.unwrap()).unwrap();
    assert_eq!(object["commitSha"], head(&repo).as_str());
    assert_eq!(object["commitId"], id.as_str());
    assert_eq!(shown(&repo, "a.md"), "one\n2\n");
    assert_eq!(shown(&repo, "b"), "other\n");
    assert_eq!(git(&repo, &["rev-parse", "main^"]).trim(), moved);

    // What both have changed is nobody's to replay.
    let files: &[(&str, Option<&[u8]>)] = &[("b", Some(b"mine\n"))];
    let id = stage(&world, &repo, files, "Mine");
    someone_pushes(&world, &repo, &[("b", b"theirs\n")]);
    let moved = head(&repo);
    let ended = Terminal::start(&world, USUAL, &["stage", "push", &id, "--rebase"]).end();
    assert_eq!(ended.code, Some(1), "{}", ended.screen);
    assert!(
        ended.screen.contains("Changed by both: b."),
        "{}",
        ended.screen
    );
    assert_eq!(head(&repo), moved);
    assert!(is_staged(&world, &id));
}

#[test]
fn what_is_there_already_is_no_part_of_what_a_rebase_shows() {
    if !has_git() {
        return;
    }
    let (world, repo, _) = staged();
    let files: &[(&str, Option<&[u8]>)] = &[("a.md", Some(b"one\n2\n")), ("b", Some(b"same\n"))];
    let id = stage(&world, &repo, files, "Both");
    someone_pushes(&world, &repo, &[("b", b"same\n")]);
    let refused = Terminal::start(&world, USUAL, &["stage", "push", &id]).end();
    let joined = refused.screen.replace('\n', " ");
    assert!(
        joined.contains("What both changed is the same: --rebase puts the rest on top."),
        "{joined}"
    );
    let terminal = Terminal::start(&world, USUAL, &["stage", "push", &id, "--rebase"]);
    let screen = terminal.until(ASKED);
    for row in [
        "files     1 file +1 -1",
        "unchanged b, which is there already as it would become",
        "update    a.md",
    ] {
        assert!(screen.lines().any(|line| line == row), "{row:?}\n{screen}");
    }
    assert!(!screen.contains("+same"), "{screen}");
    terminal.type_text("y\n");
    assert_eq!(terminal.end().code, Some(0));
    let made = git(&repo, &["diff", "--name-only", "main^", "main"]);
    assert_eq!(made, "a.md\n");
}

#[test]
fn rebase_is_not_advised_where_it_would_be_refused() {
    if !has_git() {
        return;
    }
    let (world, repo, _) = staged();
    let id = stage(&world, &repo, &[("notes", Some(b"a file\n"))], "Notes");
    someone_pushes(&world, &repo, &[("notes/a.md", b"in a directory\n")]);
    let ended = Terminal::start(&world, USUAL, &["stage", "push", &id]).end();
    assert_eq!(ended.code, Some(1), "{}", ended.screen);
    let joined = ended.screen.replace('\n', " ");
    assert!(joined.contains("--rebase does not help: "), "{joined}");
    assert!(!joined.contains("puts"), "{joined}");
    let ended = Terminal::start(&world, USUAL, &["stage", "push", &id, "--rebase"]).end();
    assert_eq!(ended.code, Some(1), "{}", ended.screen);
}

#[test]
fn nobody_is_asked_about_a_push_that_the_repository_refuses() {
    if !has_git() {
        return;
    }
    let world = World::new(&[]);
    let outside = world.outside();
    git(outside, &["init", "-q", "-b", "main", "work-there"]);
    let there = outside.join("work-there");
    std::fs::write(there.join("a.md"), "one\n").unwrap();
    git(&there, &["add", "-A"]);
    git(&there, &["commit", "-q", "-m", "Begin"]);
    let id = stage(&world, &there, &[("a.md", Some(b"two\n"))], "Two");
    let refused = |text: &str| {
        let ended = Terminal::start(&world, USUAL, &["stage", "push", &id]).end();
        assert_eq!(ended.code, Some(1), "{}", ended.screen);
        // Lines are wrapped at words, and the length of paths differs.
        let words = |text: &str| text.split_whitespace().collect::<String>();
        let joined = words(&ended.screen);
        assert!(joined.contains(&words(text)), "{joined}");
        assert!(!joined.contains(&words("[y] push it")), "{joined}");
        assert!(is_staged(&world, &id));
    };
    refused("branch 'main' is checked out there");
    // In another directory of the same repository as well.
    git(&there, &["checkout", "-q", "-b", "other"]);
    git(&there, &["worktree", "add", "-q", "../second", "main"]);
    refused("branch 'main' is checked out there");
    git(&there, &["worktree", "remove", "../second"]);
    let hook = there.join(".git/hooks/pre-receive");
    std::fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
    refused("its hook pre-receive would have to be asked");
    std::fs::remove_file(&hook).unwrap();
    let ended = push(&world, &id, &[], "y\n");
    assert_eq!(ended.code, Some(0), "{}", ended.screen);
    assert_eq!(shown(&there, "a.md"), "two\n");
}

#[test]
fn a_branch_that_is_not_there_is_said_to_begin() {
    if !has_git() {
        return;
    }
    let (world, repo, _) = staged();
    let gone = std::process::Command::new("git")
        .arg("-C")
        .arg(&repo)
        .args(["-c", "safe.directory=*", "update-ref", "-d"])
        .arg("refs/heads/main")
        .status();
    assert!(gone.unwrap().success());
    let id = stage(&world, &repo, &[("a.md", Some(b"a\n"))], "A beginning");
    let terminal = Terminal::start(&world, USUAL, &["stage", "push", &id]);
    let screen = terminal.until(ASKED);
    let said = "warning   there is no such branch: it begins with these files";
    assert!(screen.contains(said), "{screen}");
    assert!(
        screen.contains("author    forge <forge@localhost>"),
        "{screen}"
    );
    terminal.type_text("n\n");
    assert_eq!(terminal.end().code, Some(1));
}

#[test]
fn a_binary_file_is_told_by_size_and_hash() {
    if !has_git() {
        return;
    }
    let (world, repo, _) = staged();
    let bytes: Vec<u8> = (0..=255).cycle().take(3000).collect();
    let id = stage(&world, &repo, &[("logo.png", Some(&bytes))], "A logo");
    let listed = world.forge(&["stage", "show", &id]).stdout;
    assert!(
        listed.contains("create  logo.png  not shown, 3000 bytes"),
        "{listed}"
    );
    let terminal = Terminal::start(&world, USUAL, &["stage", "push", &id]);
    let screen = terminal.until(ASKED);
    assert!(screen.contains("+(3000 bytes, SHA-256 "), "{screen}");
    let warning = "warning   its content is not shown: it is not text";
    assert!(screen.lines().any(|line| line == warning), "{screen}");
    terminal.type_text("y\n");
    assert_eq!(terminal.end().code, Some(0));
    let there = std::process::Command::new("git")
        .arg("-C")
        .arg(&repo)
        .args(["-c", "safe.directory=*", "show", "main:logo.png"])
        .output()
        .unwrap();
    assert_eq!(there.stdout, bytes);
}

/// The right to be executed is a change that is in no row of a text.
#[test]
fn what_becomes_a_program_is_said_to() {
    if !has_git() {
        return;
    }
    let world = World::new(&[]);
    let repo = bare(&world, "r.git", &[("old.sh", b"echo\n")]);
    let files: &[(&str, Option<&[u8]>)] = &[
        ("empty.sh", Some(b"")),
        ("new.sh", Some(b"echo new\n")),
        ("old.sh", Some(b"echo\n")),
        ("plain", Some(b"x\n")),
    ];
    let id = stage(&world, &repo, files, "Programs");
    let listed = world.forge(&["stage", "show", &id]).stdout;
    for row in [
        "    create  empty.sh  +0 -0  becomes executable",
        "    create  new.sh  +1 -0  becomes executable",
        "    update  old.sh  +0 -0  becomes executable",
        "    create  plain  +1 -0",
    ] {
        assert!(listed.lines().any(|line| line == row), "{row}\n{listed}");
    }
    let text = world.forge(&["stage", "show", &id, "--json"]).stdout;
    let object: Value = serde_json::from_str(&text).unwrap();
    let becomes = |file: usize| object["files"][file]["becomesExecutable"].clone();
    assert_eq!((becomes(2), becomes(3)), (true.into(), false.into()));
    let terminal = Terminal::start(&world, USUAL, &["stage", "push", &id]);
    let screen = terminal.until(ASKED);
    let rows: Vec<&str> = screen
        .lines()
        .skip_while(|row| !row.starts_with("files"))
        .collect();
    let program = "warning   it becomes a program: a file that may be executed";
    let expected = [
        "files     4 files +2 -0",
        "create    empty.sh",
        program,
        "create    new.sh",
        program,
        "          @@ -0,0 +1 @@",
        "          +echo new",
        "update    old.sh",
        program,
        "create    plain",
        "          @@ -0,0 +1 @@",
        "          +x",
    ];
    assert_eq!(rows[..expected.len()], expected, "{screen}");
    terminal.type_text("y\n");
    assert_eq!(terminal.end().code, Some(0));
    let there = git(&repo, &["ls-tree", "main", "old.sh"]);
    assert!(there.starts_with("100755 "), "{there}");
}

/// Nothing of it moves the cursor, poses as a line of ours, or is not seen.
#[test]
fn hostile_names_and_messages_are_shown_as_what_they_are() {
    if !has_git() {
        return;
    }
    let (world, repo, _) = staged();
    let files: &[(&str, Option<&[u8]>)] = &[
        ("a.md  +0 -0", Some(b"x\n")),
        (
            "plain",
            Some(b"\x1b[2J\x1b]0;owned\x07\r\n-- a/x\n++ b/x\npush      other\n\xe2\x80\xaex\n"),
        ),
    ];
    let message = "Fix\n\npush      trust me\n@@ -1 +1 @@\n+x\nfiles     0 files +0 -0\u{202e}";
    let id = stage(&world, &repo, files, message);
    let terminal = Terminal::start(&world, USUAL, &["stage", "push", &id]);
    let screen = terminal.until(ASKED);
    for row in [
        "create    a.md  +0 -0",
        "          +\\x1b[2J\\x1b]0;owned\\x07\\r",
        "          +\\u{202e}x",
        "          | push      trust me",
        "          | files     0 files +0 -0\\u{202e}",
    ] {
        assert!(screen.lines().any(|line| line == row), "{row:?}\n{screen}");
    }
    let begins = |text: &str| screen.lines().filter(|row| row.starts_with(text)).count();
    assert_eq!((begins("push "), begins("files ")), (1, 1), "{screen}");
    terminal.type_text("n\n");
    // Looks at every byte that came.
    assert_eq!(terminal.end().code, Some(1));

    let setup = Setup {
        piped: false,
        ..USUAL
    };
    for args in [
        &["stage"][..],
        &["stage", "show", &id],
        &["stage", "diff", &id],
    ] {
        let ended = Terminal::start(&world, setup, args).end();
        assert_eq!(ended.code, Some(0), "{args:?}");
        assert!(
            ended.raw.contains("\u{1b}[32m") != (args.len() == 1),
            "{args:?}"
        );
    }
}

#[test]
fn a_thousand_files_are_shown_to_the_last() {
    if !has_git() {
        return;
    }
    let (world, repo, _) = staged();
    let names: Vec<String> = (0..1000).map(|n| format!("d{}/f{n:03}", n % 10)).collect();
    let files: Vec<(&str, Option<&[u8]>)> = names
        .iter()
        .map(|name| (name.as_str(), Some(b"x\n".as_slice())))
        .collect();
    let id = stage(&world, &repo, &files, "Many");
    let listed = world.forge(&["stage", "show", &id]).stdout;
    let created = |name: &String| listed.contains(&format!("    create  {name}  +1 -0\n"));
    assert!(names.iter().all(created));
    let setup = Setup { rows: 200, ..USUAL };
    let terminal = Terminal::start(&world, setup, &["stage", "push", &id]);
    // What is shown at once is two rows less than the screen has.
    let mut left: usize = 3007;
    while left > 198 {
        left -= 198;
        terminal.until(&format!("-- {left} more lines"));
        terminal.type_text("\n");
    }
    terminal.until(ASKED);
    terminal.type_text("y\n");
    let ended = terminal.end();
    assert_eq!(ended.code, Some(0), "{}", ended.screen);
    let plain = ended.raw.replace("\u{1b}[0m", "");
    assert!(
        names
            .iter()
            .all(|name| plain.contains(&format!("create    {name}")))
    );
    let there = git(&repo, &["ls-tree", "-r", "--name-only", "main"]);
    assert_eq!(there.lines().count(), 1002);
}

/// Longer than any other question may be: it can be scrolled through.
#[test]
fn a_long_difference_is_shown_at_once_to_who_wants_that() {
    if !has_git() {
        return;
    }
    let (world, repo, _) = staged();
    let text: String = (0..12_000)
        .map(|n| format!("line {n} {}\n", "x".repeat(30)))
        .collect();
    let files: &[(&str, Option<&[u8]>)] = &[("long", Some(text.as_bytes()))];
    let id = stage(&world, &repo, files, "Long");
    let start = || Terminal::start(&world, USUAL, &["stage", "push", &id]);
    let terminal = start();
    terminal.until("Enter shows them, e all at once, n says no");
    terminal.type_text("n\n");
    assert_eq!(terminal.end().code, Some(1));
    let terminal = start();
    terminal.until("e all at once");
    terminal.type_text("e\n");
    terminal.until(ASKED);
    terminal.type_text("y\n");
    let ended = terminal.end();
    assert_eq!(ended.code, Some(0), "{}", ended.screen);
    let mut rest = ended.raw.as_str();
    for n in 0..12_000 {
        let line = format!("+line {n} x");
        let at = rest.find(&line).unwrap_or_else(|| panic!("{line}"));
        rest = &rest[at..];
    }
    assert_eq!(shown(&repo, "long"), text);
}

/// Two who agreed to the same: one pushes it, and the other one learns that it is gone.
#[test]
fn of_two_who_push_the_same_one_does() {
    if !has_git() {
        return;
    }
    let (world, repo, id) = staged();
    let before = head(&repo);
    let start = || Terminal::start(&world, USUAL, &["stage", "push", &id]);
    let both = [start(), start()];
    for terminal in &both {
        terminal.until(ASKED);
    }
    for terminal in &both {
        terminal.type_text("y\n");
    }
    let mut ended = both.map(Terminal::end);
    ended.sort_by_key(|ended| ended.code);
    let [one, other] = ended;
    assert_eq!(
        (one.code, other.code),
        (Some(0), Some(1)),
        "{}",
        other.screen
    );
    assert!(
        other.screen.contains("Nothing is staged as"),
        "{}",
        other.screen
    );
    assert_eq!(git(&repo, &["rev-parse", "main^"]).trim(), before);
}

/// A push that was ended between the transfer and the removal is recognised by the next one.
#[test]
fn what_the_branch_has_already_is_no_longer_staged() {
    if !has_git() {
        return;
    }
    let (world, repo, id) = staged();
    let place = kept(&world, &world.project()).join("staged").join(&id);
    let aside = world.outside().join("aside");
    copy(&place, &aside);
    assert_eq!(push(&world, &id, &[], "y\n").code, Some(0));
    let after = head(&repo);
    copy(&aside, &place);
    assert!(is_staged(&world, &id));
    let ended = push(&world, &id, &["--json"], "y\n");
    assert_eq!(ended.code, Some(0), "{}", ended.screen);
    let object: Value = serde_json::from_str(&ended.stdout.unwrap()).unwrap();
    assert_eq!(object["alreadyThere"], true);
    assert_eq!(head(&repo), after);
    assert!(!is_staged(&world, &id));
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// With no rights but those of anybody.
#[test]
fn an_ordinary_user_pushes_as_well() {
    if !has_git() {
        return;
    }
    let (world, repo, id) = staged();
    let before = head(&repo);
    let args = ["stage", "push", &id];
    let terminal = match rustix::process::geteuid().is_root() {
        false => Terminal::start(&world, USUAL, &args),
        true => {
            let program = world.outside().join("forge");
            copy_forge(&program, b"");
            let chown = std::process::Command::new("chown")
                .args(["-R", "65534:65534"])
                .arg(world.outside())
                .status();
            assert!(chown.unwrap().success());
            let words = ["--reuid=65534", "--regid=65534", "--clear-groups"];
            let words = [&words[..], &[program.to_str().unwrap()], &args].concat();
            Terminal::start_program(&world, USUAL, Path::new("setpriv"), &words)
        }
    };
    terminal.until(ASKED);
    terminal.type_text("y\n");
    let ended = terminal.end();
    assert_eq!(ended.code, Some(0), "{}", ended.screen);
    assert_ne!(head(&repo), before);
}

/// What cannot be recorded is not done.
#[test]
fn without_a_log_nothing_is_pushed_or_discarded() {
    if !has_git() {
        return;
    }
    let (world, repo, id) = staged();
    let before = head(&repo);
    let runs = world.outside().join("state/runs");
    std::fs::write(&runs, "").unwrap();
    for args in [["stage", "push", &id], ["stage", "discard", &id]] {
        let ended = Terminal::start(&world, USUAL, &args).end();
        assert_eq!(ended.code, Some(1), "{args:?}: {}", ended.screen);
        assert!(
            ended.screen.contains("cannot keep the run"),
            "{}",
            ended.screen
        );
    }
    assert_eq!(head(&repo), before);
    assert!(is_staged(&world, &id));
}
