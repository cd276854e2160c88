//! `forge init`: what it writes is valid without a warning, and it overwrites nothing.

use crate::support::World;

const FILE: &str = "forge.yaml";

/// What a directory holds, and what the proposal must say.
const KINDS: [(&[&str], &[&str]); 19] = [
    (&[], &["workspace: { path: ./workspace }"]),
    (&["Cargo.toml"], &["root: .", "cargo (build"]),
    (&["package.json"], &["root: .", "npm (run"]),
    (&["package.json", "yarn.lock"], &["yarn (install"]),
    (&["package.json", "pnpm-lock.yaml"], &["pnpm (install"]),
    (&["pyproject.toml"], &["pytest"]),
    (&["requirements.txt"], &["pytest"]),
    (&["go.mod"], &["go (build"]),
    (&["pom.xml"], &["mvn (compile"]),
    (&["build.gradle.kts"], &["./gradlew"]),
    (&["Makefile"], &["make *"]),
    (
        &["Cargo.toml", "package.json", "Makefile"],
        &["cargo (build", "npm (run", "make *"],
    ),
    (
        &["data/a.csv", "reports/b.md"],
        &["\"data\": { path: \"./data\", mode: ro }", "workspace"],
    ),
    (
        &["data/a.csv", ".gitignore"],
        &["\"data\": { path: \"./data\", mode: ro }"],
    ),
    // Of no kind that forge knows: the files are shown all the same.
    (&["Gemfile"], &["root: ."]),
    (&["CMakeLists.txt", "src/a.c"], &["root: ."]),
    (&["README.md", "docs/a.md"], &["root: ."]),
    (&[".gitignore"], &["root: ."]),
    (&[".sandbox/a"], &["workspace: { path: ./workspace }"]),
];

#[test]
fn what_it_writes_is_valid_without_a_warning() {
    for (files, expected) in KINDS {
        for how in ["--yes", "--minimal"] {
            let world = World::new(&[]);
            for file in files {
                world.write(file, "");
            }
            let ran = world.forge(&["init", how]);
            ran.code(0);
            assert_eq!(ran.stderr, "", "{files:?}");
            let config = std::fs::read_to_string(world.project().join(FILE)).unwrap();
            if how == "--yes" {
                for part in expected {
                    assert!(config.contains(part), "{files:?}: no {part} in\n{config}");
                }
            }
            let check = world.forge(&["check"]);
            check.code(0);
            assert_eq!(check.stderr, "", "{files:?} {how}\n{config}");
        }
    }
}

#[test]
fn it_writes_these_files_and_says_what_comes_next() {
    let world = World::new(&[("Cargo.toml", ""), (".gitignore", "target")]);
    world.write(".git/HEAD", "");
    let ran = world.forge(&["init", "--yes"]);
    ran.code(0);
    insta::assert_snapshot!(ran.stdout, @r"
    written: forge.yaml
    written: workers/main.worker
    next:
      forge check
      forge run 'Say what this project is about'
    There is no model yet: set `model:` in the project file or FORGE_MODEL, or pass one of
      --model anthropic:claude-haiku-4-5   before that: export ANTHROPIC_API_KEY=…
      --model openai:gpt-5-mini            before that: export OPENAI_API_KEY=…
      --model ollama:qwen3                 before that: ollama serve; ollama pull qwen3
    ");
    let read = |name: &str| std::fs::read_to_string(world.project().join(name)).unwrap();
    insta::assert_snapshot!(read(FILE), @r#"
    # What workers may do here at most; `forge check` shows what it comes to.
    # The whole project; what git, editors and forge itself run or read is never written.
    sandbox:
      root: .
    approval:
      # Every change is asked about. Remove this to let workers write.
      require_user_permission_by_risk: { writes_workspace: true }
    # Which commands may run. Nothing else does; `default: ask` would ask.
    shell:
      rules:
        - pattern: "cargo (build|check|clippy|doc|fmt|test|tree) *"
          approval: ask
          examples: { match: ["cargo test --lib"], no_match: ["cargo install ripgrep"] }
        - pattern: "cargo (login|owner|publish|yank) *"
          approval: blocked
          why: what is published is a person's decision
          examples: { match: ["cargo publish"], no_match: ["cargo build"] }
        - pattern: "git (status|diff|log|show|blame) *"
          approval: ask
          examples: { match: ["git log -1"], no_match: ["git -C /elsewhere log"] }
        - pattern: "git push *"
          approval: blocked
          why: what leaves this machine is a person's decision
          examples: { match: ["git push origin main"], no_match: ["git status"] }
    "#);
    assert_eq!(read(".gitignore"), "target");
    // No temporary is left.
    let names: Vec<String> = std::fs::read_dir(world.project())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 5, "{names:?}");
}

/// Programs of the person's are proposed where a tool chain may need them.
#[test]
fn programs_are_proposed_for_a_tool_chain() {
    for (file, has_programs) in [("Cargo.toml", true), ("notes.md", false)] {
        let world = World::new(&[(file, "")]);
        let home = world.outside().join("home");
        std::fs::create_dir_all(home.join(".local/bin")).unwrap();
        let mut command = world.command(crate::support::forge_program(), &["init", "--yes"]);
        let path = format!("{}:/usr/bin:/bin", home.join(".local/bin").display());
        let ran = crate::support::ran(command.env("PATH", path).output().unwrap());
        ran.code(0);
        let config = std::fs::read_to_string(world.project().join(FILE)).unwrap();
        assert_eq!(
            config.contains("programs: [~/.local/bin]"),
            has_programs,
            "{config}"
        );
    }
}

/// Commands of the project do not see a repository above it, or that of a linked worktree.
#[test]
fn there_are_rules_for_git_where_it_finds_a_repository() {
    for (file, has_rules, is_told) in [
        (".git/HEAD", true, false),
        (".git", false, true),
        ("../.git/HEAD", false, true),
        ("none", false, false),
    ] {
        let world = World::new(&[("Cargo.toml", ""), (file, "")]);
        let ran = world.forge(&["init", "--yes"]);
        let note = "the repository is outside of this directory";
        assert_eq!(
            ran.code(0).stderr.contains(note),
            is_told,
            "{file}: {}",
            ran.stderr
        );
        let config = std::fs::read_to_string(world.project().join(FILE)).unwrap();
        assert_eq!(config.contains("git push"), has_rules, "{file}: {config}");
    }
}

#[test]
fn zones_are_those_that_were_named() {
    let world = World::new(&[]);
    world.write("data/a.csv", "");
    let zones = "data:./data:ro,out:./out";
    world.forge(&["init", "--zones", zones]).code(0);
    let config = std::fs::read_to_string(world.project().join(FILE)).unwrap();
    assert!(
        config.contains("\"data\": { path: \"./data\", mode: ro }"),
        "{config}"
    );
    assert!(
        config.contains("\"out\": { path: \"./out\", mode: rw }"),
        "{config}"
    );
    world.forge(&["check"]).code(0);
}

#[test]
fn a_directory_is_made_and_named_in_what_comes_next() {
    let world = World::new(&[]);
    let ran = world.forge(&["init", "--minimal", "new/one"]);
    ran.code(0);
    assert!(
        ran.stdout.contains("next:\n  forge -C new/one check\n"),
        "{}",
        ran.stdout
    );
    world.forge(&["-C", "new/one", "check"]).code(0);
}

#[test]
fn mistakes_write_nothing() {
    for (zones, expected) in [
        ("data", "expected NAME:PATH"),
        ("data:./data:rx", "expected NAME:PATH"),
        ("etc:./etc", "`etc` is a reserved name"),
        ("a:./a,b:./a/b", "zone `b` lies inside zone `a`"),
        ("a:./a,a:./b", "`a`"),
        ("A B:./a", "`A B`"),
    ] {
        let world = World::new(&[]);
        for dir in [".", "new/one"] {
            let ran = world.forge(&["init", "--zones", zones, dir]);
            ran.code(2);
            assert!(ran.stderr.contains(expected), "{zones}: {}", ran.stderr);
            // The name of a temporary file is not one that a person can open.
            assert!(!ran.stderr.contains(".forge.yaml."), "{}", ran.stderr);
            assert_eq!(
                std::fs::read_dir(world.project()).unwrap().count(),
                0,
                "{zones}"
            );
        }
    }
}

#[test]
fn a_yes_goes_with_each_choice() {
    for (args, expected) in [
        (&["--minimal"][..], "./workspace"),
        (&["--zones", "a:./a"], "./a"),
    ] {
        let world = World::new(&[]);
        let args = [&["init", "--yes"], args].concat();
        world.forge(&args).code(0);
        let config = std::fs::read_to_string(world.project().join(FILE)).unwrap();
        assert!(config.contains(expected), "{config}");
    }
}

#[test]
fn a_project_above_is_named() {
    let said = "belongs to the project of";
    for (dir, is_said) in [("sub", true), ("new/one", true), (".git/../repo", false)] {
        let world = World::new(&[
            (FILE, "name: above\n"),
            ("sub/a", ""),
            ("repo/.git/HEAD", ""),
        ]);
        std::fs::create_dir_all(world.project().join(".git")).unwrap();
        let ran = world.forge(&["init", "--yes", dir]);
        ran.code(0);
        assert_eq!(ran.stderr.contains(said), is_said, "{dir}: {}", ran.stderr);
    }
}

/// A directory that is a link leads to files of somebody else.
#[test]
fn nothing_is_written_through_a_link() {
    let (link, left) = ("workers", 0);
    let world = World::new(&[]);
    let elsewhere = world.outside().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, world.project().join(link)).unwrap();
    let ran = world.forge(&["init", "--yes"]);
    ran.code(1).says(&["cannot write", link, "is a link"]);
    assert_eq!(
        std::fs::read_dir(&elsewhere).unwrap().count(),
        left,
        "{link}"
    );
    assert!(!world.project().join(FILE).exists(), "{link}");
    let ran = world.forge(&[
        "-c",
        &format!("worker_paths=[{link}/sub]"),
        "worker",
        "new",
        "x",
    ]);
    assert_ne!(ran.code, 0, "{link}");
    assert_eq!(
        std::fs::read_dir(&elsewhere).unwrap().count(),
        left,
        "{link}"
    );
}

#[test]
fn nothing_is_overwritten() {
    for file in [FILE, "program.yml", "workers/main.worker"] {
        let world = World::new(&[(file, "mine\n")]);
        let ran = world.forge(&["init", "--yes"]);
        ran.code(1);
        assert!(ran.stderr.contains("is there already"), "{}", ran.stderr);
        let text = std::fs::read_to_string(world.project().join(file)).unwrap();
        assert_eq!(text, "mine\n");
    }
}

#[test]
fn without_a_terminal_it_says_why_it_cannot_ask() {
    let world = World::new(&[]);
    for (args, reason) in [
        (&["init"] as &[&str], "there is no terminal"),
        (&["init", "--no-input"], "--no-input was given"),
    ] {
        let ran = world.forge(args);
        ran.code(2);
        assert!(ran.stderr.contains(reason), "{}", ran.stderr);
        assert!(ran.stderr.contains("--yes"), "{}", ran.stderr);
        assert!(ran.stderr.contains("path: ./workspace"), "{}", ran.stderr);
    }
    assert_eq!(std::fs::read_dir(world.project()).unwrap().count(), 0);
}

/// A terminal of the test's own, by util-linux's `script`; nothing else here needs one.
#[cfg(target_os = "linux")]
#[test]
fn on_a_terminal_it_shows_the_proposal_and_takes_only_a_clear_yes() {
    use std::io::Write as _;
    use std::process::Stdio;

    for (answer, written) in [
        ("y", true),
        ("m", true),
        ("", false),
        ("n", false),
        ("ja", false),
        // Asks again.
        ("?\ny", true),
        ("?\n?\nn", false),
    ] {
        let world = World::new(&[("Cargo.toml", ""), (".git/HEAD", "")]);
        let command = format!("{} init", crate::support::forge_program().display());
        let mut script = world.command("script".as_ref(), &["-qec", &command, "/dev/null"]);
        let mut child = match script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() {
            Ok(child) => child,
            Err(error) => {
                writeln!(std::io::stderr(), "skipped: no `script`: {error}").unwrap();
                return;
            }
        };
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "{answer}").unwrap();
        let output = child.wait_with_output().unwrap();
        drop(input);
        let screen = String::from_utf8_lossy(&output.stdout);
        // What is typed may be echoed anywhere between.
        assert!(screen.contains("git, Rust."), "{screen}");
        assert!(screen.contains("cargo (build|check"), "{screen}");
        assert_eq!(
            world.project().join(FILE).exists(),
            written,
            "{answer:?}: {screen}"
        );
        assert_eq!(output.status.code(), Some(i32::from(!written)), "{screen}");
    }
}

/// What somebody agreed to in `init` is agreed to, and so is what workers then write.
#[test]
fn what_is_typed_next_works() {
    for (files, git) in [
        (&[("Cargo.toml", "")][..], true),
        (&[("Cargo.toml", "")], false),
        (&[("data/a.csv", "1")], false),
        (&[("data/a.csv", "1"), ("reports/b.md", "")], false),
        (&[], false),
    ] {
        for how in ["--yes", "--minimal"] {
            let world = World::new(files);
            if !git {
                std::fs::remove_dir(world.outside().join(".git")).unwrap();
            }
            world.forge(&["init", how]).code(0).says(&[]);
            world.forge(&["check"]).code(0);
            std::fs::create_dir_all(world.project().join("workspace")).unwrap();
            world.write("workspace/made-by-a-worker", "");
            world.forge(&["check"]).code(0);
        }
    }
}

/// Not asked for again: what workers wrote where nothing was. Nothing but that.
#[test]
fn a_directory_that_was_empty_needs_no_yes_later() {
    let config = "sandbox: { mode: direct, zones: { out: { path: ./out } } }\n";
    let world = World::new(&[(FILE, config)]);
    std::fs::remove_dir(world.outside().join(".git")).unwrap();
    world.forge(&["tools", "list"]).code(0);
    world.write("out/made-by-a-worker", "");
    world.forge(&["tools", "list"]).code(0);
    let other = World::new(&[(FILE, config), ("out/somebodys", "")]);
    std::fs::remove_dir(other.outside().join(".git")).unwrap();
    other
        .forge(&["tools", "list"])
        .code(2)
        .says(&["is written in place, holds files"]);
}

#[test]
fn a_home_directory_is_no_project() {
    let world = World::new(&[]);
    for dir in ["../home", "/", ".."] {
        let ran = world.forge(&["init", "--yes", dir]);
        ran.code(2).says(&["a project cannot be there"]);
    }
    assert!(!world.outside().join("home").join(FILE).exists());
}

/// Neither `init` nor a command without a project file takes a place of credentials for a project.
#[test]
fn a_place_of_credentials_is_no_project() {
    let world = World::new(&[]);
    let home = world.outside().join("home");
    let credentials = sandbox_names::CREDENTIALS.iter();
    let credentials = credentials.flat_map(|row| [(*row).to_owned(), format!("{row}/below/it")]);
    for (place, is_refused) in credentials.map(|place| (place, true)).chain([
        ("p/.docker".to_owned(), false),
        (".config/p".to_owned(), false),
    ]) {
        let dir = home.join(&place);
        let shown = dir.to_str().unwrap();
        for is_there in [false, true] {
            let ran = world.forge(&["init", "--minimal", shown]);
            assert_eq!(ran.code == 2, is_refused, "{place}: {}", ran.stderr);
            assert_eq!(dir.exists(), is_there || !is_refused, "{place}");
            std::fs::create_dir_all(&dir).unwrap();
        }
        for command in [&["check"][..], &["tools", "list"], &["explain", "--", "ls"]] {
            let ran = world.forge(&[&["-C", shown], command].concat());
            let says = ran.stderr.contains("where credentials are stored");
            assert_eq!(says, is_refused, "{place} {command:?}: {}", ran.stderr);
        }
    }
}

/// `init` lists the files that it has written, and each command that keeps something for a person names
/// the variable for another directory.
#[test]
fn a_state_directory_that_cannot_be_written_is_told_with_its_variable() {
    let nowhere = |world: &World, args: &[&str]| {
        let mut command = world.command(crate::support::forge_program(), args);
        for name in ["FORGE_STATE_DIR", "XDG_CONFIG_HOME"] {
            command.env(name, "/proc/nowhere");
        }
        crate::support::ran(command.output().unwrap())
    };
    for args in [
        &["init", "--yes"][..],
        &["init", "--minimal"],
        &["init", "--yes", "."],
    ] {
        let world = World::new(&[("f", "x\n")]);
        std::fs::remove_dir(world.outside().join(".git")).unwrap();
        let ran = nowhere(&world, args);
        assert!(
            ran.stdout
                .contains("written: forge.yaml\nwritten: workers/main.worker\nnext:\n")
        );
        let hint = "set FORGE_STATE_DIR to a directory that you can write to, and run `forge";
        ran.code(0)
            .says(&["warning: the files are written, but your consent", hint]);
        world.forge(&["trust", "--yes"]).code(0);
        world.forge(&["check"]).code(0);
    }
    let untrusted = "sandbox: { root: . }\n";
    for (args, variable) in [
        (&["trust", "--yes"][..], "FORGE_STATE_DIR"),
        (&["allow", "--yes", "npm test"], "XDG_CONFIG_HOME"),
        (
            &["run", "--trust", "-m", "scripted:play.yaml"],
            "FORGE_STATE_DIR",
        ),
    ] {
        let world = World::new(&[
            (FILE, untrusted),
            ("workers/main.worker", "---\nname: main\n---\nGo.\n"),
            (
                "play.yaml",
                "version: 1\nworkers: { main: [{ say: over }] }\n",
            ),
        ]);
        std::fs::remove_dir(world.outside().join(".git")).unwrap();
        let hint = format!("hint: set {variable}");
        nowhere(&world, args)
            .code(1)
            .says(&["cannot ", "/proc/nowhere", &hint]);
    }
}

#[test]
fn what_is_in_the_way_is_said_with_what_to_do() {
    let world = World::new(&[
        ("f", "x\n"),
        ("a/forge.yaml", ""),
        ("b/forge.yaml", ""),
        ("b/workers/main.worker", ""),
    ]);
    for (dir, code, says) in [
        (
            "f",
            2,
            &["f is not a directory", "name a directory: forge init DIR"][..],
        ),
        ("a", 1, &["is there already", "`forge worker new main`"]),
        ("b", 1, &["is there already", "start in another directory"]),
    ] {
        let ran = world.forge(&["init", "--yes", dir]);
        ran.code(code).says(says);
        assert_eq!(ran.stdout, "");
        assert!(!ran.stderr.contains("Found:"), "{}", ran.stderr);
    }
}
