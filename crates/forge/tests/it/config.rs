//! `forge config` and `forge trust`, through the program.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::{PROJECT, World};

const FILE: &str = "golem-forge.config.yaml";

/// A project, and a file of the person's own.
fn world(user: &str) -> World {
    let world = World::new(&[(FILE, PROJECT)]);
    let dir = world.outside().join("home/.config/forge");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("config.yaml"), user).unwrap();
    world
}

#[test]
fn show_is_a_project_file_and_get_is_one_value() {
    let world = world("limits: { max_turns: 7 }\n");
    let shown = world.forge(&["config", "show", "-q"]);
    shown.code(0);
    assert!(shown.stdout.contains("max_turns: 7\n"), "{}", shown.stdout);
    let with_origin = world.forge(&["config", "show", "--origin", "-q"]).stdout;
    assert!(
        with_origin.contains("max_turns: 7  # user "),
        "{with_origin}"
    );
    assert!(with_origin.contains("config.yaml:1:22"), "{with_origin}");
    assert!(
        with_origin.contains("path: /data, mode: ro, host: "),
        "{with_origin}"
    );
    assert!(
        with_origin.contains("is ignored, you have not agreed to it"),
        "{with_origin}"
    );
    // It loads, and means the same.
    world.write(FILE, &shown.stdout);
    let again = world.forge(&["config", "show", "-q"]);
    let keys = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(keys(&again.code(0).stdout), keys(&shown.stdout));

    world.write(FILE, PROJECT);
    let object: serde_json::Value =
        serde_json::from_str(&world.forge(&["config", "show", "--json"]).stdout).unwrap();
    let turns = object["settings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["key"] == "limits.max_turns")
        .unwrap();
    assert_eq!(
        (&turns["value"], &turns["origin"]["layer"]),
        (&7.into(), &"user".into())
    );
    assert_eq!(turns["origin"]["line"], 1);

    for (args, expected) in [
        (&["config", "get", "limits.max_turns"][..], "7\n"),
        (&["config", "get", "sandbox.mode"], "direct\n"),
        (
            &["config", "get", "sandbox.root", "--sandbox-root", "tmp"],
            "tmp\n",
        ),
        (
            &[
                "config",
                "get",
                "limits.max_turns",
                "-c",
                "limits.max_turns=3",
            ],
            "3\n",
        ),
        (&["config", "get", "sandbox.zones.data.path"], "./data\n"),
        (&["config", "get", "model"], "null\n"),
    ] {
        assert_eq!(world.forge(args).code(0).stdout, expected, "{args:?}");
    }
    world
        .forge(&["config", "get", "limits.max_trun"])
        .code(2)
        .says(&[
            "unknown key `limits.max_trun`",
            "did you mean `limits.max_turns`?",
        ]);
    let unset = world.forge(&["config", "get", "sandbox.paths"]);
    unset.code(0).says(&["note: nothing sets `sandbox.paths`"]);
    for args in [
        &["set", "model", "x"][..],
        &["edit"],
        &["--json", "set", "-x"],
    ] {
        let ran = world.forge(&[&["config"], args].concat());
        let own = format!("{FILE}, or your own ");
        ran.code(2)
            .says(&["forge changes no settings", &own, "forge/config.yaml"]);
    }
    let paths = world.forge(&["config", "path", "-q"]).stdout;
    assert!(
        paths.contains(FILE) && paths.contains("forge/config.yaml"),
        "{paths}"
    );
}

/// Where a file is looked for is a table of `sandbox-config`; here, that the flags reach it.
#[test]
fn the_flags_say_which_file_is_read() {
    let world = World::new(&[
        (FILE, "name: here\n"),
        ("a/b/kept", ""),
        ("other/mine.yaml", "name: mine\n"),
        ("broken/program.yaml", "name: [\n"),
    ]);
    for (args, expected) in [
        (&["config", "get", "name"][..], "here\n"),
        (&["-C", "a/b", "config", "get", "name"], "here\n"),
        (
            &["--config", "other/mine.yaml", "config", "get", "name"],
            "mine\n",
        ),
        (
            &[
                "-C",
                "other",
                "--config",
                "mine.yaml",
                "config",
                "get",
                "name",
            ],
            "mine\n",
        ),
        (&["--no-config", "config", "get", "name"], "null\n"),
        (
            &["-C", "broken", "--no-config", "config", "get", "name"],
            "null\n",
        ),
    ] {
        assert_eq!(world.forge(args).code(0).stdout, expected, "{args:?}");
    }
    // A good file above does not stand in for a broken one.
    let broken = world.forge(&["-C", "broken", "config", "get", "name"]);
    broken.code(2).says(&["config.syntax", "program.yaml:1:"]);
    let both = world.forge(&["--no-config", "--config", "x", "check"]);
    both.code(2).says(&["cannot be used with"]);
    world.write("a/program.yml", "");
    world.write("a/program.yaml", "");
    world.forge(&["-C", "a/b", "check"]).code(2).says(&[
        "config.two_files",
        "program.yaml and ",
        "program.yml",
    ]);
}

#[test]
fn a_flag_above_ones_own_file_exits_2_and_names_its_line() {
    let world = world("# mine\nnetwork: false\n");
    let ran = world.forge(&["check", "-c", "network=true"]);
    ran.code(2).says(&[
        "config.above_user_file",
        "-c network:1:9",
        "config.yaml:2:10",
    ]);
    let command = world.command(crate::support::forge_program(), &["check"]);
    let mut command = command;
    command.env("FORGE__NETWORK", "true");
    let ran = crate::support::ran(command.output().unwrap());
    ran.code(2).says(&["FORGE__NETWORK:1:16"]);
}

/// Root from the flag, mode still from the file.
#[test]
fn the_sandbox_root_of_a_flag_wins_and_the_mode_stays() {
    let world = World::new(&[(
        FILE,
        "sandbox: {mode: sandboxed, root: .sandbox, zones: {a: {path: a}}}\n",
    )]);
    let ran = world.forge(&["config", "show", "--sandbox-root", "tmp", "--json"]);
    let object: serde_json::Value = serde_json::from_str(&ran.code(0).stdout).unwrap();
    let host = object["mounts"][0]["host"].as_str().unwrap();
    assert!(host.ends_with("project/tmp/a"), "{host}");
}

#[test]
fn trust_is_bound_to_what_was_shown() {
    let world = World::new(&[(FILE, "network: true\n")]);
    let network = |args: &[&str]| {
        let mut all = vec!["config", "get", "network", "-q"];
        all.extend(args);
        world.forge(&all).code(0).stdout.trim().to_owned()
    };
    assert_eq!(network(&[]), "false");
    // One's own word needs nobody's.
    assert_eq!(network(&["-c", "network=true"]), "true");
    assert_eq!(network(&["--trust"]), "true");
    assert_eq!(network(&[]), "false");
    let shown = world.forge(&["trust", "--show"]);
    assert!(
        shown.code(0).stdout.contains("network: true"),
        "{}",
        shown.stdout
    );
    assert!(
        shown
            .stdout
            .contains("golem-forge.config.yaml:1:10, not agreed")
    );
    assert_eq!(network(&[]), "false");
    // Without a terminal nobody can be asked.
    world.forge(&["trust"]).code(3);
    let yes = world.forge(&["trust", "--yes"]);
    let says = "Agreed to 1 setting; `forge trust --revoke` takes it back.\n";
    assert!(yes.code(0).stdout.ends_with(says), "{}", yes.stdout);
    assert_eq!(network(&[]), "true");
    let store = world.outside().join("state/trusted");
    let mode = std::fs::metadata(&store).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Another value, another question.
    world.write(FILE, "network: {allow: [a.org]}\n");
    assert_eq!(network(&[]), "false");
    world.write(FILE, "name: other\nnetwork: true\n");
    assert_eq!(network(&[]), "true");
    // What was never agreed to is not counted.
    world.write(
        FILE,
        "name: other\nnetwork: true\nlog: { dir: ../elsewhere }\n",
    );
    let revoked = world.forge(&["trust", "--revoke"]);
    let says = "Revoked 1 setting; `forge trust` agrees again.\n";
    assert!(revoked.code(0).stdout.ends_with(says), "{}", revoked.stdout);
    assert_eq!(network(&[]), "false");
}

#[test]
fn which_files_are_read_is_told_before_anybody_agrees() {
    let zones = "sandbox: { mode: direct, zones: { up: { path: ../up } } }\n";
    let world = World::new(&[(FILE, zones)]);
    world.forge(&["config", "show"]).code(2);
    let ran = world.forge(&["config", "path"]);
    assert!(ran.code(0).stdout.contains(FILE), "{}", ran.stdout);
}

/// What is agreed to is what is read: no name of a file or a pattern repaints the question.
#[test]
fn what_is_shown_before_a_yes_is_one_line_a_key() {
    let world = World::new(&[
        (
            FILE,
            "shell:\n  rules:\n    - { pattern: \"x\\e[2J\\n::error::y\\u202e *\", approval: preApproved }\n",
        ),
        (
            "workers/a\u{1b}[1A\n::error::b.worker",
            "---\nname: main\nshell: { rules: [{ pattern: \"y\\e[2K *\", approval: preApproved }] }\n---\nGo.\n",
        ),
    ]);
    for args in [&["trust", "--show"][..], &["trust"]] {
        let ran = world.forge(args);
        assert!(ran.stdout.contains("\\x1b[2J"), "{}", ran.stdout);
        for text in [&ran.stdout, &ran.stderr] {
            let hidden = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!text.contains(hidden), "{text:?}");
            let is_command = |line: &str| line.trim_start().starts_with("::");
            assert!(!text.lines().any(is_command), "{text}");
        }
    }
}

#[test]
fn a_store_that_is_not_ones_own_is_not_believed() {
    let world = World::new(&[(FILE, "network: true\n")]);
    world.forge(&["trust", "--yes"]).code(0);
    let store = world.outside().join("state/trusted");
    let good = std::fs::read_to_string(&store).unwrap();
    let mode = |path: &std::path::Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    // What a change that was killed leaves behind does not matter.
    std::fs::write(store.with_extension("new"), "half").unwrap();
    world.forge(&["trust", "--yes"]).code(0);
    assert_eq!(std::fs::read_to_string(&store).unwrap(), good);

    for text in ["garbage\n", &good[..40], &good.to_uppercase(), "\u{0}\n"] {
        std::fs::write(&store, text).unwrap();
        for args in [&["check"][..], &["trust", "--yes"], &["trust", "--show"]] {
            world
                .forge(args)
                .code(2)
                .says(&["cannot be read", "line 1", "rm "]);
        }
    }
    std::fs::write(&store, &good).unwrap();
    mode(&store, 0o620);
    world
        .forge(&["check"])
        .code(2)
        .says(&["can be written by others"]);
    mode(&store, 0o600);
    mode(&world.outside().join("state"), 0o777);
    world
        .forge(&["check"])
        .code(2)
        .says(&["can be written by others"]);
    mode(&world.outside().join("state"), 0o755);
    world.forge(&["check"]).code(0);
    // A state directory elsewhere is named by its variable, and not by a link.
    let (state, moved) = (world.outside().join("state"), world.outside().join("moved"));
    std::fs::rename(&state, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &state).unwrap();
    world.forge(&["check"]).code(2).says(&["is a link"]);
    std::fs::remove_file(&state).unwrap();
    std::fs::rename(&moved, &state).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&state, Some(0), None).unwrap();
    }
    std::fs::rename(&store, store.with_extension("moved")).unwrap();
    std::os::unix::fs::symlink(store.with_extension("moved"), &store).unwrap();
    world.forge(&["check"]).code(2).says(&["is a link"]);
    if rustix::process::geteuid().is_root() {
        std::fs::remove_file(&store).unwrap();
        std::fs::write(&store, &good).unwrap();
        mode(&store, 0o600);
        std::os::unix::fs::chown(&store, Some(65534), None).unwrap();
        world
            .forge(&["check"])
            .code(2)
            .says(&["belongs to another user"]);
    } else {
        eprintln!("skipped: only root can give a file away");
    }
}

/// The hint names the project, wherever it is typed.
#[test]
fn trust_is_typed_as_it_is_printed() {
    let worker = "---\nname: main\n---\nGo.\n";
    let playbook = "version: 1\nworkers: { main: [{ say: done }] }\n";
    for (start, args) in [
        ("", &["-C", "the project"][..]),
        ("the project", &[]),
        ("the project/workers", &[]),
    ] {
        let world = World::new(&[]);
        let project = world.outside().join("the project");
        std::fs::create_dir_all(project.join("workers")).unwrap();
        std::fs::write(project.join(FILE), "network: true\n").unwrap();
        std::fs::write(project.join("workers/main.worker"), worker).unwrap();
        std::fs::write(project.join("play.yaml"), playbook).unwrap();
        let run = |args: &[&str]| {
            let mut command = world.command(crate::support::forge_program(), args);
            command.current_dir(world.outside().join(start));
            crate::support::ran(command.output().unwrap())
        };
        let check = [args, &["check"]].concat();
        let ran = run(&check);
        let (_, typed) = ran
            .stderr
            .split_once("if you trust this project: `forge ")
            .unwrap();
        let (typed, _) = typed.split_once('`').unwrap();
        let line = format!("$0 {typed} --yes");
        let forge = crate::support::forge_program();
        let mut shell = world.command("sh".as_ref(), &["-c", &line]);
        let shell = shell.arg(forge).current_dir(world.outside().join(start));
        crate::support::ran(shell.output().unwrap()).code(0);
        assert!(!run(&check).stderr.contains("trust this project"), "{line}");
    }
    let world = World::new(&[]);
    std::fs::create_dir(world.project().join("deep")).unwrap();
    let ran = world.forge(&["-C", "deep", "trust"]);
    assert!(
        ran.code(0).stdout.contains("deep has no project file"),
        "{}",
        ran.stdout
    );
}

/// One question for all that the project asks for: a person who answers it is not warned of the rest
/// by each later command.
#[cfg(target_os = "linux")]
#[test]
fn a_question_about_consent_has_all_settings() {
    use crate::terminal::pty::{Terminal, USUAL};

    let needed = "sandbox: { root: . }\n";
    let both = "sandbox: { root: . }\nnetwork: true\n";
    let of_worker = "---\nname: main\nnetwork: true\n---\nGo.\n";
    let plain = "---\nname: main\n---\nGo.\n";
    for (config, worker, typed, agreed) in [
        (needed, plain, "y", Some(("not agreed", 0))),
        (needed, plain, "a", None),
        (both, plain, "y", Some(("not agreed", 1))),
        (both, plain, "a", Some(("not agreed", 0))),
        (both, plain, "?\ra", Some(("not agreed", 0))),
        (both, plain, "n", None),
        (both, plain, "", None),
        (both, of_worker, "a", Some(("not agreed", 0))),
    ] {
        let world = World::new(&[(FILE, config), ("workers/main.worker", worker)]);
        std::fs::remove_dir(world.outside().join(".git")).unwrap();
        let terminal = Terminal::start(&world, USUAL, &["tools", "list"]);
        terminal.until(match config == both {
            true => "Agree? [y] to the first  [a] to all  [n, Enter] to nothing:",
            false => "Agree to these keys, as they are now? [y/N]",
        });
        terminal.type_text(&format!("{typed}\r"));
        let ended = terminal.end();
        let case = format!("{config}{worker}{typed}: {}", ended.screen);
        assert_eq!(
            ended.code,
            Some(if agreed.is_some() { 0 } else { 2 }),
            "{case}"
        );
        let shown = world.forge(&["trust", "--show"]).stdout.clone();
        match agreed {
            Some((word, times)) => {
                assert_eq!(shown.matches(word).count(), times, "{case}\n{shown}")
            }
            None => assert!(!shown.contains(", agreed)"), "{case}\n{shown}"),
        }
    }
}
