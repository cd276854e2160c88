//! `forge help`: topics, commands, and the closed list of error codes.

use crate::support::{World, forge_program, ran};

#[test]
fn topics_and_commands() {
    let world = World::new(&[]);
    for (args, says) in [
        (&["help"][..], "exit-codes"),
        (&["help", "exit-codes"], "130 by Ctrl-C"),
        (&["help", "errors"], "worker.exceeds_parent"),
        (&["help", "paths"], "sandbox.root"),
        (&["help", "approvals"], "preApproved"),
        (&["help", "security"], "forge doctor"),
        (&["help", "tools", "call"], "list_files"),
        (&["help", "check"], "--format github"),
    ] {
        let ran = world.forge(args);
        ran.code(0);
        assert_eq!(ran.stderr, "");
        assert!(ran.stdout.contains(says), "{args:?}: {}", ran.stdout);
    }
    world
        .forge(&["help", "nothing"])
        .code(2)
        .says(&["security", "check"]);
    // Clap's own suggestion.
    world.forge(&["chekc"]).code(2).says(&["check"]);
}

/// Every error that these commands can give has its code in `help errors`.
#[test]
fn codes_are_a_closed_list() {
    let world = World::new(&[(
        "golem-forge.config.yaml",
        "sandbox: { root: ., zones: { ws: { path: ws } } }\n",
    )]);
    let known = world.forge(&["help", "errors"]).stdout;
    for args in [
        &["clean"][..],
        &["explain", "nothing"],
        &["worker", "new", "A"],
        &["worker", "show", "nobody"],
        &["check", "absent"],
        &["run", "examples/nope"],
        &["run"],
        &["frobnicate"],
    ] {
        let mut all = args.to_vec();
        all.push("--json");
        let ran = world.forge(&all);
        assert_ne!(ran.code, 0);
        assert_eq!(ran.stdout, "", "{args:?}");
        let last = ran.stderr.lines().last().unwrap();
        let object: serde_json::Value = serde_json::from_str(last).unwrap();
        for key in ["code", "message", "file", "line", "column", "help"] {
            assert!(object["error"].get(key).is_some(), "{args:?}: no {key}");
        }
        let code = object["error"]["code"].as_str().unwrap();
        assert!(
            known.contains(&format!("  {code} ")),
            "{code} is not listed"
        );
    }
}

/// `forge` alone does not build the arguments of its commands; every other way to help does.
#[test]
fn a_command_is_described_alike_everywhere() {
    let world = World::new(&[]);
    let wide = |args: &[&str]| {
        let mut forge = world.command(forge_program(), args);
        ran(forge.env("COLUMNS", "400").output().unwrap())
    };
    let list = wide(&[]);
    list.code(2);
    let commands = |text: &str| -> Vec<(String, String)> {
        let lines = text.lines().skip_while(|line| *line != "Commands:").skip(1);
        let lines = lines.take_while(|line| !line.is_empty());
        let split = lines.filter_map(|line| line.trim().split_once("  "));
        split
            .map(|(name, about)| (name.to_owned(), about.trim().to_owned()))
            .collect()
    };
    let expected = commands(&list.stderr);
    assert!(expected.len() > 20, "{}", list.stderr);
    assert_eq!(commands(&wide(&["--help"]).stdout), expected);
    assert_eq!(commands(&wide(&["-h"]).stdout), expected);
    for (name, about) in &expected {
        let pages = [vec![name, "--help"], vec![name, "-h"], vec!["help", name]];
        for args in pages.iter().filter(|_| name != "help") {
            let page = wide(args);
            assert!(page.stdout.starts_with(about), "{args:?}: {}", page.stdout);
        }
    }
}

#[test]
fn a_missing_directory_is_not_called_a_bad_name() {
    let ran = World::new(&[]).forge(&["run", "examples/nope"]);
    ran.code(2)
        .says(&["neither a directory `examples/nope` nor a worker of that name"]);
}

#[test]
fn examples_stand_before_the_options_and_a_synopsis_keeps_values() {
    let world = World::new(&[]);
    for command in [
        &["run"][..],
        &["exec"],
        &["log", "list"],
        &["tools", "call"],
        &["log", "show", "-C", ".", "--since", "2h"],
    ] {
        let ran = world.forge(&[command, &["--help"]].concat());
        let at = |text: &str| ran.stdout.find(text).unwrap_or_else(|| panic!("{text}"));
        ran.code(0);
        assert!(at("Usage:") < at("\nExamples:"), "{}", ran.stdout);
        assert!(at("\nExamples:") < at("\nOptions:"), "{}", ran.stdout);
        assert!(at("\nOptions:") < at("\nGlobal options:"), "{}", ran.stdout);
        let short = world.forge(&[command, &["-h"]].concat());
        assert!(short.code(0).stdout.lines().count() < ran.stdout.lines().count());
        for page in [&ran.stdout, &short.stdout] {
            let mut heads = page
                .lines()
                .filter(|line| line.ends_with(':') && !line.starts_with(' '));
            assert_eq!(heads.next_back(), Some("Global options:"), "{page}");
        }
    }
    world.forge(&["man", "man"]).code(0);
    let page = std::fs::read_to_string(world.project().join("man/forge-exec.1")).unwrap();
    let synopsis = page
        .lines()
        .skip_while(|line| *line != ".SH SYNOPSIS")
        .nth(1);
    let synopsis = synopsis.unwrap();
    for part in [
        r"[\fB\-\-worker\fR \fIWORKER\fR]",
        r"[\fB\-\-timeout\fR \fISECONDS\fR]",
        r"[\fIGLOBAL OPTIONS\fR] \fICOMMAND\fR...",
    ] {
        assert!(synopsis.contains(part), "{part}: {synopsis}");
    }
}

/// As in the list of `forge` alone.
#[test]
fn every_command_says_its_purpose() {
    let world = World::new(&[]);
    let all = world.forge(&["--help"]);
    let rows = all.stdout.lines().skip_while(|line| *line != "Commands:");
    let rows = rows.skip(1).take_while(|line| !line.is_empty());
    let mut commands = 0;
    for row in rows.filter(|row| !row.starts_with("    ")) {
        let (name, purpose) = row.trim().split_once(' ').unwrap();
        assert!(!purpose.trim().starts_with('`'), "{row}");
        let own = world.forge(&[name, "--help"]);
        let first = own.stdout.lines().next().unwrap();
        assert!(first.starts_with(purpose.trim()), "{row}: {first}");
        commands += 1;
    }
    assert!(commands > 20, "{}", all.stdout);
}

#[test]
fn a_command_with_exchanged_letters_is_suggested() {
    let world = World::new(&[]);
    for (typed, meant) in [("rnu", "run"), ("eecx", "exec"), ("lgo", "log")] {
        let ran = world.forge(&[typed]);
        ran.code(2)
            .says(&[&format!("a similar subcommand exists: '{meant}'")]);
    }
}
