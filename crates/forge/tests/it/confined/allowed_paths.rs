//! `forge allow --last`: directories and programs that the last run was refused.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::exec::mechanisms;
use crate::support::{Ran, World};

/// A directory of the person outside of every project. Not below `/tmp`, which commands have their own
/// one of.
fn persons_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

/// The person's file of rules for the project, if it exists.
fn rules(world: &World) -> Option<String> {
    let dir = world.outside().join("home/.config/forge/projects");
    let entries = std::fs::read_dir(dir).ok()?;
    let mut paths = entries.map(|entry| entry.unwrap().path());
    let file = paths.find(|path| path.extension().is_some_and(|end| end == "rules"))?;
    Some(std::fs::read_to_string(file).unwrap())
}

fn remove_rules(world: &World) {
    std::fs::remove_dir_all(world.outside().join("home/.config/forge/projects")).unwrap();
}

fn shell(world: &World, mechanism: &str, flags: &[&str], line: &str) -> Ran {
    let command = ["--mechanism", mechanism, "--", "sh", "-c", line];
    world.forge(&[&["exec"], flags, &command].concat())
}

fn offered(world: &World) -> Value {
    let ran = world.forge(&["allow", "--last", "--json"]);
    serde_json::from_str(&ran.code(0).stdout).unwrap()
}

/// Returns the reason for which no rule is offered for the one refusal of an object.
#[track_caller]
fn why_not(offered: &Value, object: &str) -> String {
    let denials = offered["denials"].as_array().unwrap();
    let mut of_object = denials
        .iter()
        .filter(|one| one["denial"]["object"] == object);
    let (one, more) = (of_object.next(), of_object.next());
    assert!(more.is_none(), "{object}: {offered}");
    let one = one.unwrap_or_else(|| panic!("{object}: {offered}"));
    one["why_not"].as_str().unwrap().to_owned()
}

fn write_program(path: &Path) {
    std::fs::write(path, "#!/bin/sh\necho the tool runs\n").unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Refused, allowed, and the same command passes; what it needs and nothing around it.
#[test]
fn refused_directories_are_allowed_one_by_one() {
    let world = World::new(&[("a.txt", "alpha\n")]);
    let persons = persons_dir();
    let at = |name: &str| persons.path().join(name).display().to_string();
    for name in ["reference", "out", "tools", "other"] {
        std::fs::create_dir(persons.path().join(name)).unwrap();
    }
    std::fs::write(at("reference/notes"), "the notes\n").unwrap();
    std::fs::write(at("other/secret"), "the secret\n").unwrap();
    write_program(&persons.path().join("tools/tool"));
    let line = format!(
        "cat {}/notes && echo x > {}/made && {}/tool",
        at("reference"),
        at("out"),
        at("tools")
    );
    // Each attempt is made, whatever came of the one before.
    let attempts = line.replace(" && ", "; ");
    for mechanism in mechanisms(&world) {
        let ran = shell(&world, mechanism, &["--trace=full"], &attempts);
        assert_ne!(ran.code, 0, "{mechanism}: {}", ran.stderr);
        let expected = [
            format!("write:{}", at("out")),
            format!("read:{}", at("reference")),
            format!("programs:{}", at("tools")),
        ];
        let found = offered(&world);
        assert_eq!(found["refused"], serde_json::json!(expected), "{mechanism}");
        let listed = world.forge(&["allow", "--last"]);
        let notes = at("reference/notes");
        let reason = match mechanism {
            "landlock" => "outside",
            _ => "no mount shows it",
        };
        listed
            .code(0)
            .says(&["hint: allow one of them: forge allow RULE"]);
        let row = format!("2  {}  (read {notes} ({reason}), to cat)\n", expected[1]);
        assert!(
            listed.stdout.contains(&row),
            "{mechanism}: {}",
            listed.stdout
        );
        assert_eq!(rules(&world), None);
        // Without a yes nothing is written.
        world.forge(&["allow", &expected[1]]).code(3);
        assert_eq!(rules(&world), None);

        // The rule for reads grants no write, and no read elsewhere.
        world.forge(&["allow", "--yes", &expected[1]]).code(0);
        let ran = shell(&world, mechanism, &[], &attempts);
        assert_eq!(ran.stdout, "the notes\n", "{mechanism}: {}", ran.stderr);
        shell(
            &world,
            mechanism,
            &[],
            &format!("echo x > {}/new", at("reference")),
        )
        .code(2);

        shell(&world, mechanism, &["--trace=full"], &attempts);
        let written = world.forge(&["allow", "--last", "--yes"]);
        let shown = format!("+write:{}\n", at("out"));
        assert!(
            written.code(0).stdout.contains(&shown),
            "{}",
            written.stdout
        );
        let ran = shell(&world, mechanism, &[], &line);
        assert_eq!(
            ran.code(0).stdout,
            "the notes\nthe tool runs\n",
            "{mechanism}"
        );
        let none = shell(
            &world,
            mechanism,
            &[],
            &format!("cat {}", at("other/secret")),
        );
        assert_eq!(none.stdout, "", "{mechanism}");
        // They are the person's, in this project and for commands that they type.
        let only_read = shell(&world, mechanism, &["--read-only"], &line);
        assert_eq!(
            only_read.stdout, "the notes\n",
            "{mechanism}: {}",
            only_read.stderr
        );
        assert_eq!(std::fs::read_dir(world.project()).unwrap().count(), 1);
        remove_rules(&world);
        std::fs::remove_file(at("out/made")).unwrap();
    }
}

/// Without full reports too: a refused write, and a program that forge did not find.
#[test]
fn writes_and_missing_programs_need_no_trace() {
    let world = World::new(&[]);
    let persons = persons_dir();
    let out = persons.path().join("out");
    std::fs::create_dir(&out).unwrap();
    for mechanism in mechanisms(&world) {
        let ran = shell(
            &world,
            mechanism,
            &[],
            &format!("echo x > {}/made", out.display()),
        );
        assert_ne!(ran.code, 0, "{mechanism}: {}", ran.stderr);
        ran.says(&["hint: allow it for yourself, in this project: forge allow --last"]);
        let found = offered(&world);
        let expected = [format!("write:{}", out.display())];
        assert_eq!(found["refused"], serde_json::json!(expected), "{mechanism}");
        assert_eq!(found["without_reads"], true, "{mechanism}");
        world
            .forge(&["allow", "--last"])
            .says(&["note: refused reads are only recorded with `forge exec --trace=full`"]);

        let tool = persons.path().join("tool");
        write_program(&tool);
        let tool = tool.display().to_string();
        let command = ["exec", "--mechanism", mechanism, "--", &tool];
        let missing = world.forge(&command);
        assert_ne!(missing.code, 0, "{mechanism}");
        let found = offered(&world);
        let expected = format!("programs:{}", persons.path().display());
        assert_eq!(
            found["refused"],
            serde_json::json!([expected]),
            "{mechanism}"
        );
        world.forge(&["allow", "--last", "--yes"]).code(0);
        assert_eq!(world.forge(&command).code(0).stdout, "the tool runs\n");
        remove_rules(&world);
    }
}

/// Refusals that no rule of a person lifts are listed with the reason.
#[test]
fn what_no_rule_lifts_has_a_reason() {
    let world = World::new(&[(".env", "KEY=1\n")]);
    let persons = persons_dir();
    let at = |name: &str| persons.path().join(name).display().to_string();
    for name in [".ssh", "plain"] {
        std::fs::create_dir(persons.path().join(name)).unwrap();
    }
    std::fs::write(at(".ssh/key"), "the key").unwrap();
    let newline = format!("{}/a\\nrefused: write b\\033[2J", at("plain"));
    let line = format!(
        "cat {}; cat .env; echo x > /etc/made; printf x > \"$(printf '{newline}')\"; true",
        at(".ssh/key"),
    );
    for mechanism in mechanisms(&world) {
        shell(&world, mechanism, &["--trace=full"], &line).code(0);
        let found = offered(&world);
        assert_eq!(
            found["refused"],
            serde_json::json!([]),
            "{mechanism}: {found}"
        );
        let secret = "its path has a protected or hidden name, or one of a place of credentials";
        assert_eq!(why_not(&found, &at(".ssh/key")), secret, "{mechanism}");
        let system = "it is in a directory of the system";
        assert_eq!(why_not(&found, "/etc/made"), system, "{mechanism}");
        let escaped = format!("{}/a\\nrefused: write b\\u{{1b}}[2J", at("plain"));
        let unclear = "its name holds characters that no rule can have";
        assert_eq!(why_not(&found, &escaped), unclear, "{mechanism}");
        let listed = world.forge(&["allow", "--last"]);
        listed.code(0);
        let forged = |line: &str| line.starts_with("refused: write b") || line.contains('\x1b');
        assert!(!listed.stderr.lines().any(forged), "{}", listed.stderr);
        // Landlock alone hides no names.
        if mechanism != "landlock" {
            let env = world.project().join(".env").display().to_string();
            assert_eq!(why_not(&found, &env), "a rule of yours does not change it");
            listed.says(&["to show that name: `sandbox.show: [\".env*\"]`"]);
        }
        world.forge(&["allow", "--last", "--yes"]);
        assert_eq!(rules(&world), None, "{mechanism}");
    }
}

/// What the hints say is typed, step by step.
#[test]
fn a_directory_beside_the_project_is_made_by_hand_and_allowed() {
    let world = World::new(&[]);
    let persons = persons_dir();
    let new = persons.path().join("new");
    let shown = new.display();
    world.shell(&format!(
        "git init -q {0}/p && git -C {0}/p commit -q --allow-empty -m first",
        persons.path().display()
    ));
    let project = persons.path().join("p");
    for mechanism in mechanisms(&world) {
        let add = [
            "exec",
            "--mechanism",
            mechanism,
            "--",
            "git",
            "worktree",
            "add",
            "../new",
        ];
        let add = || world.forge_in(&project, &add);
        add().says(&[&format!("mkdir {shown} && forge allow write:{shown}")]);
        std::fs::create_dir(&new).unwrap();
        let ran = add();
        // Under Landlock alone git sees the directory, and is not allowed to look whether it is empty.
        if mechanism != "landlock" {
            ran.says(&[&format!(
                "hint: to let it write there: forge allow write:{shown}"
            )]);
        }
        let allow = format!("write:{shown}");
        world
            .forge_in(&project, &["allow", "--yes", &allow])
            .code(0);
        assert!(add().code(0).stderr.contains("Preparing worktree"));
        remove_rules(&world);
        world.shell(&format!(
            "git -C {} worktree remove --force {shown}; git -C {0} branch -D new",
            project.display(),
        ));
    }
}

/// A command can make any link. The rule names the directory behind it, and a link that comes later
/// leads nowhere.
#[test]
fn a_link_of_a_command_leads_nowhere_else() {
    let world = World::new(&[]);
    let persons = persons_dir();
    let (out, secret) = (persons.path().join("out"), persons.path().join("secret"));
    let make = |path: &PathBuf| std::fs::create_dir(path).unwrap();
    make(&secret);
    std::fs::write(secret.join("file"), "the secret\n").unwrap();
    for mechanism in mechanisms(&world) {
        make(&out);
        let line = format!("ln -sfn {} link; echo x > link/made", out.display());
        shell(&world, mechanism, &[], &line);
        let rule = format!("write:{}", out.display());
        assert_eq!(
            offered(&world)["refused"],
            serde_json::json!([rule]),
            "{mechanism}"
        );

        // Before the yes.
        std::fs::remove_dir(&out).unwrap();
        symlink(&secret, &out).unwrap();
        let found = offered(&world);
        assert_eq!(found["refused"], serde_json::json!([]), "{mechanism}");
        let object = out.join("made").display().to_string();
        let link = format!("the path leads through a link to {}", secret.display());
        assert_eq!(why_not(&found, &object), link, "{mechanism}");
        let typed = world.forge(&["allow", "--yes", &rule]);
        typed.code(2).says(&["it leads through a link to"]);
        assert_eq!(rules(&world), None);

        // After it.
        std::fs::remove_file(&out).unwrap();
        make(&out);
        world.forge(&["allow", "--yes", &rule]).code(0);
        std::fs::remove_dir(&out).unwrap();
        symlink(&secret, &out).unwrap();
        let ran = shell(
            &world,
            mechanism,
            &[],
            &format!("cat {}/file", out.display()),
        );
        assert_eq!(ran.stdout, "", "{mechanism}");
        ran.says(&[&format!(
            "`{rule}` has no effect: it leads through a link to"
        )]);
        assert!(!secret.join("made").exists());
        remove_rules(&world);
        std::fs::remove_file(&out).unwrap();
    }
}

/// A command is refused more than is recorded, and more than a file of rules holds.
#[test]
fn a_thousand_refusals_are_bounded() {
    let world = World::new(&[]);
    let persons = persons_dir();
    for number in 0..1_000 {
        std::fs::create_dir(persons.path().join(number.to_string())).unwrap();
    }
    let line = format!(
        "i=0; while [ $i -lt 1000 ]; do : > {}/$i/x; i=$((i+1)); done 2>&-; true",
        persons.path().display()
    );
    for mechanism in mechanisms(&world) {
        let line = line.replace(": >", "command : >");
        shell(&world, mechanism, &[], &line).code(0);
        let found = offered(&world);
        let rules_offered = found["refused"].as_array().unwrap().len();
        assert!(
            (64..=256).contains(&rules_offered),
            "{mechanism}: {rules_offered}"
        );
        assert_eq!(found["more_denials"], true, "{mechanism}");
        let all = world.forge(&["allow", "--last", "--yes"]);
        assert_ne!(all.code, 0, "{mechanism}: {}", all.stdout);
        all.says(&[
            "more than 64 directories",
            "note: more was refused than a run records",
        ]);
        assert_eq!(rules(&world), None, "{mechanism}");
    }
}

/// A worker has the directories that it holds.
#[test]
fn a_worker_gets_no_directory_of_the_person() {
    let project = "sandbox:\n  mode: direct\n  zones:\n    data: { path: ./data }\n";
    let worker = "---\nname: main\nsandbox: inherit\n---\nDo it.\n";
    let world = World::new(&[
        ("golem-forge.config.yaml", project),
        ("workers/main.worker", worker),
        ("data/a.md", "one\n"),
    ]);
    let persons = persons_dir();
    std::fs::write(persons.path().join("notes"), "the notes\n").unwrap();
    let rule = format!("read:{}", persons.path().display());
    let line = format!("cat {}/notes; echo x > {0}/made", persons.path().display());
    for mechanism in mechanisms(&world) {
        let run = |flags: &[&str]| {
            let command = ["--mechanism", mechanism, "--", "sh", "-c", &line];
            world.forge(&[&["--trust", "-C", "data", "exec"], flags, &command].concat())
        };
        run(&["--worker", "main"]);
        let found = offered(&world);
        assert_eq!(
            found["refused"],
            serde_json::json!([]),
            "{mechanism}: {found}"
        );
        let made = persons.path().join("made").display().to_string();
        assert!(
            why_not(&found, &made).contains("`sandbox.mounts`"),
            "{mechanism}"
        );
        world.forge(&["--trust", "allow", "--yes", &rule]).code(0);
        assert_eq!(run(&["--worker", "main"]).stdout, "", "{mechanism}");
        assert_eq!(run(&[]).stdout, "the notes\n", "{mechanism}");
        remove_rules(&world);
    }
}
