//! `forge exec --preset`: a program gets what its preset names, and nothing else of the person's.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::exec::{mechanisms, mount_layers};
use super::sockets::CLIENT;
use crate::support::{Ran, World, forge_program, ran};

/// A person with a `claude` in ~/.local/bin, which prints its arguments, and with state of it.
fn world() -> World {
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
    let home = world.outside().join("home");
    for dir in [".local/bin", ".claude/hooks", ".ssh"] {
        fs::create_dir_all(home.join(dir)).unwrap();
    }
    for name in ["claude", "codex"] {
        let program = home.join(".local/bin").join(name);
        fs::write(&program, "#!/bin/sh\necho \"$0: $*\"\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (name, text) in [
        (".claude/settings.json", "{}"),
        (".claude/login", "token"),
        (".claude.json", "{\"known\":1}"),
        (".ssh/id", "key"),
    ] {
        fs::write(home.join(name), text).unwrap();
    }
    world
}

/// Moves the program to where an older installer puts it, and returns that directory.
fn move_program_into_state(home: &Path) -> PathBuf {
    let directory = home.join(".claude/local");
    fs::create_dir_all(&directory).unwrap();
    fs::rename(home.join(".local/bin/claude"), directory.join("claude")).unwrap();
    directory
}

impl World {
    fn with_preset(&self, flags: &[&str], script: &str) -> Ran {
        let all = [&["exec"], flags, &["--", "sh", "-c", script]].concat();
        ran(self.preset_command(&all).output().unwrap())
    }

    fn preset_command(&self, args: &[&str]) -> Command {
        let mut command = self.command(forge_program(), args);
        let own = self.outside().join("home/.local/bin");
        command
            .env("PATH", format!("{}:/usr/bin:/bin", own.display()))
            .env("ANTHROPIC_API_KEY", "sk-of-the-person");
        command
    }
}

#[test]
fn a_home_directory_is_kept_for_each_project() {
    let world = world();
    for mechanism in mechanisms(&world) {
        let flags = ["--preset", "claude", "--no-share", "--mechanism", mechanism];
        let name = format!("kept-{mechanism}");
        let write = format!("mkdir -p ~/.config && echo 1 > ~/.config/{name} && echo > ~/.bashrc");
        world.with_preset(&flags, &write).code(0);
        let read = world.with_preset(&flags, &format!("cat ~/.config/{name}; ls -A ~"));
        read.code(0);
        assert!(
            read.stdout.starts_with("1\n"),
            "{mechanism}: {}",
            read.stdout
        );
        // Nothing outside the sandbox obeys it there, so it is not moved to the quarantine.
        assert!(
            read.stdout.contains(".bashrc"),
            "{mechanism}: {}",
            read.stdout
        );
        let other = world.outside().join("other");
        fs::create_dir_all(&other).unwrap();
        let mut elsewhere =
            world.preset_command(&["exec", "--preset", "claude", "--", "sh", "-c", "ls -A ~"]);
        let elsewhere = ran(elsewhere.current_dir(&other).output().unwrap());
        elsewhere.code(0);
        assert_eq!(elsewhere.stdout, "", "{mechanism}");
    }
    assert!(!world.outside().join("home/.bashrc").exists());
}

#[test]
fn nothing_of_the_person_is_shared_without_a_yes() {
    let world = world();
    let home = world.outside().join("home");
    let script = format!(
        "echo key=$ANTHROPIC_API_KEY; cat {0}/.claude/login {0}/.claude.json {0}/.ssh/id ~/.claude/login; \
         echo planted > {0}/.claude/hooks/x",
        home.display()
    );
    for mechanism in mechanisms(&world) {
        for flags in [&["--no-share"][..], &[]] {
            let flags = [flags, &["--preset", "claude", "--mechanism", mechanism]].concat();
            let ran = world.with_preset(&flags, &script);
            assert_eq!(ran.stdout, "key=\n", "{mechanism} {flags:?}");
            ran.says(&["nothing of yours is shared"]);
        }
    }
    assert!(!home.join(".claude/hooks/x").exists());
}

#[test]
fn shared_state_is_at_its_own_path_without_what_the_host_executes() {
    let world = world();
    let home = world.outside().join("home");
    for mechanism in mechanisms(&world) {
        let script = format!(
            "echo key=$ANTHROPIC_API_KEY; cat ~/.claude/login ~/.claude.json; echo; \
             echo {mechanism} > ~/.claude/new.tmp && mv ~/.claude/new.tmp {}/.claude/session-{mechanism}; \
             echo evil > ~/.claude/settings.json; mkdir -p ~/.claude/plugins/evil; \
             echo evil > ~/.claude/hooks/evil; echo 2 > ~/.claude.json; cat {0}/.ssh/id",
            home.display()
        );
        let flags = ["--preset", "claude", "--share", "--mechanism", mechanism];
        let ran = world.with_preset(&flags, &script);
        if mechanism == "landlock" {
            // A change of the hooks would be found too late.
            ran.code(125)
                .says(&["cannot be shared under Landlock alone", "--no-share"]);
            assert_eq!(fs::read_dir(home.join(".claude/hooks")).unwrap().count(), 0);
            continue;
        }
        assert!(
            ran.stdout.starts_with("key=sk-ant-api03-placeholder-")
                && ran.stdout.contains("\ntoken")
                && !ran.stdout.contains("key\n"),
            "{mechanism}: {}",
            ran.stdout
        );
        let text = |name: &str| fs::read_to_string(home.join(name)).ok();
        let session = text(&format!(".claude/session-{mechanism}"));
        assert_eq!(session, Some(format!("{mechanism}\n")), "{mechanism}");
        assert_eq!(
            text(".claude/hooks/evil"),
            None,
            "{mechanism}: {}",
            ran.stderr
        );
        assert_eq!(text(".claude/plugins/evil"), None, "{mechanism}");
        assert!(!home.join(".claude/plugins").exists(), "{mechanism}");
        // The copy is the command's, and stays so.
        assert_eq!(
            text(".claude.json").as_deref(),
            Some("{\"known\":1}"),
            "{mechanism}"
        );
    }
}

/// Every way from shared state to what the person's own programs do: files that they execute or
/// obey, the program itself, and the sockets that they listen on.
#[test]
fn shared_state_is_no_way_to_the_host() {
    let world = world();
    let home = world.outside().join("home");
    let own = move_program_into_state(&home);
    let script = "echo evil > ~/.claude/local/claude; rm -f ~/.claude/local/claude; \
                  for name in settings.json shell-snapshots/x hooks/x plugins/x commands/x agents/x \
                  skills/x rules/x output-styles/x; do mkdir -p $(dirname ~/.claude/$name); \
                  echo evil > ~/.claude/$name; done; python3 client.py stream:$1";
    world.write("client.py", CLIENT);
    let daemon = UnixListener::bind(home.join(".claude/daemon")).unwrap();
    daemon.set_nonblocking(true).unwrap();
    let socket = home.join(".claude/daemon");
    for mechanism in mechanisms(&world) {
        let all = [
            "exec",
            "--preset",
            "claude",
            "--share",
            "--mechanism",
            mechanism,
            "--",
            "sh",
            "-c",
            script,
            "sh",
            socket.to_str().unwrap(),
        ];
        let mut command = world.preset_command(&all);
        command.env("PATH", format!("{}:/usr/bin:/bin", own.display()));
        let ran = ran(command.output().unwrap());
        if mechanism != "landlock" {
            assert_eq!(ran.stdout, "refused\n", "{mechanism}: {}", ran.stderr);
        }
        assert!(daemon.accept().is_err(), "{mechanism}");
        let program = fs::read_to_string(own.join("claude")).unwrap();
        assert!(program.starts_with("#!"), "{mechanism}: {program}");
        let mut search = Command::new("grep");
        search.args(["-rl", "evil", "--exclude-dir=.os-sandbox-quarantine"]);
        let found = search.arg(home.join(".claude")).output().unwrap();
        assert_eq!(String::from_utf8(found.stdout).unwrap(), "", "{mechanism}");
    }
}

/// The program of an agent may be in the directory with its login, and settings may contain keys.
#[test]
fn a_program_is_shown_without_the_state_around_it() {
    let world = world();
    let home = world.outside().join("home");
    let own = move_program_into_state(&home);
    for dir in [".config/goose", ".config/opencode"] {
        fs::create_dir_all(home.join(dir)).unwrap();
        fs::write(home.join(dir).join("secrets.yaml"), "token").unwrap();
    }
    fs::write(home.join(".aider.conf.yml"), "token").unwrap();
    let script = format!(
        "claude hi; cat {0}/.claude/login {0}/.config/*/secrets.yaml {0}/.aider.conf.yml \
         ~/.config/*/secrets.yaml ~/.aider.conf.yml",
        home.display()
    );
    for mechanism in mechanisms(&world) {
        let all = [
            "exec",
            "--preset",
            "claude,goose,opencode,aider",
            "--no-share",
            "--mechanism",
            mechanism,
            "--",
            "sh",
            "-c",
            &script,
        ];
        let mut command = world.preset_command(&all);
        command.env("PATH", format!("{}:/usr/bin:/bin", own.display()));
        let ran = ran(command.output().unwrap());
        assert!(
            ran.stdout.ends_with("claude: hi\n"),
            "{mechanism}: {}",
            ran.stdout
        );
        assert!(!ran.stdout.contains("token"), "{mechanism}: {}", ran.stdout);
    }
}

#[test]
fn the_start_says_what_is_shared() {
    let world = world();
    let says = |flags: &[&str]| world.with_preset(flags, "true").stderr;
    let shared = says(&["--preset", "claude", "--share"]);
    if !shared.contains("Landlock alone") {
        for text in [".claude,", ".claude.json (copy)", "ANTHROPIC_API_KEY"] {
            assert!(shared.contains(text), "{text}: {shared}");
        }
    }
    // A key alone is something, too.
    assert!(says(&["--preset", "aider", "--share"]).contains("shared: ANTHROPIC_API_KEY"));
    assert!(says(&["--preset", "claude"]).contains("nothing of yours is shared (--share)"));
    // Nothing could be shared.
    assert!(!says(&["--preset", "node"]).contains("share"));
}

#[test]
fn settings_of_a_project_are_written_and_its_hooks_are_not() {
    let world = world();
    for mechanism in mechanisms(&world) {
        let script = "mkdir -p .claude/hooks && echo {} > .claude/settings.local.json && \
                      echo x > .claude/hooks/x && echo {} > .claude/settings.json";
        let flags = ["--preset", "claude", "--mechanism", mechanism];
        world.with_preset(&flags, script).says(&["quarantined"]);
        let of_project = |name: &str| world.project().join(".claude").join(name).exists();
        assert!(of_project("settings.local.json"), "{mechanism}");
        assert!(
            !of_project("hooks") && !of_project("settings.json"),
            "{mechanism}"
        );
        fs::remove_dir_all(world.project().join(".claude")).unwrap();
    }
}

/// The list of the project has what was taken from shared state, and the hint's command works there
/// and for each directory outside the project.
#[test]
fn what_was_taken_outside_the_project_comes_back() {
    let world = world();
    let home = world.outside().join("home").canonicalize().unwrap();
    let beside = world.outside().join("beside");
    fs::create_dir_all(&beside).unwrap();
    let beside = beside.canonicalize().unwrap();
    let allow = ["allow", "--yes", &format!("write:{}", beside.display())];
    world.forge(&allow).code(0);
    for mechanism in mount_layers(&world) {
        let script = format!(
            "echo x > {0}/.claude/.envrc; echo y > {1}/.envrc",
            home.display(),
            beside.display()
        );
        let flags = ["--preset", "claude", "--share", "--mechanism", mechanism];
        let ran = world.with_preset(&flags, &script);
        ran.says(&["quarantined", "forge quarantine restore PATH"]);
        let list = world.forge(&["quarantine", "list"]);
        let (shared, envrc) = (home.join(".claude/.envrc"), beside.join(".envrc"));
        for path in [&shared, &envrc] {
            let shown = path.display().to_string();
            assert!(list.stdout.contains(&shown), "{mechanism}: {}", list.stdout);
        }
        // All of the project's: others have been taken from commands of other projects.
        world.forge(&["quarantine", "restore", "--all"]).code(0);
        assert!(!shared.exists(), "{mechanism}");
        let path = shared.to_str().unwrap();
        world.forge(&["quarantine", "restore", path]).code(0);
        assert!(shared.exists() && envrc.exists(), "{mechanism}");
        fs::remove_file(&shared).unwrap();
        fs::remove_file(&envrc).unwrap();
        // One that no rule names any more.
        world.with_preset(&flags, &script).says(&["quarantined"]);
        let other = world.outside().join("other");
        fs::create_dir_all(&other).unwrap();
        let restore = ["quarantine", "restore", envrc.to_str().unwrap()];
        let mut elsewhere = world.preset_command(&restore);
        ran_in(&mut elsewhere, &other).code(0);
        assert!(envrc.exists(), "{mechanism}");
        fs::remove_file(&envrc).unwrap();
        let discard = ["quarantine", "discard", "--yes", path];
        world.forge(&discard).code(0);
    }
}

fn ran_in(command: &mut Command, directory: &Path) -> Ran {
    ran(command.current_dir(directory).output().unwrap())
}

#[test]
fn a_program_of_its_own_runs_without_its_inner_sandbox() {
    let world = world();
    let line = |args: &[&str]| {
        let all = [&["exec", "-q", "--preset"], args].concat();
        let ran = ran(world.preset_command(&all).output().unwrap());
        ran.code(0);
        let (program, arguments) = ran.stdout.trim_end().split_once(": ").unwrap();
        assert!(program.ends_with(args[2]), "{program}");
        arguments.to_owned()
    };
    assert_eq!(
        line(&["codex", "--", "codex", "fix it"]),
        "--sandbox danger-full-access fix it"
    );
    // The person's own choice stays.
    let own = ["codex", "--", "codex", "--sandbox", "read-only"];
    assert_eq!(line(&own), "--sandbox read-only");
    // The argument is for codex alone.
    assert_eq!(
        line(&["codex,claude", "--", "claude", "hi"]),
        "--settings {\"sandbox\":{\"enabled\":false}} hi"
    );
}

#[test]
fn the_receipt_and_the_log_name_the_presets() {
    let world = world();
    let all = [
        "exec", "--json", "--preset", "claude", "--share", "--", "true",
    ];
    let ran = ran(world.preset_command(&all).output().unwrap());
    ran.code(0);
    let receipt: Value = serde_json::from_str(&ran.stdout).unwrap();
    let presets = &receipt["enforcement"]["presets"];
    assert_eq!(presets["presets"][1]["name"], "claude");
    assert_eq!(presets["presets"][1]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(presets["shares"], true);
    assert_eq!(presets["state"][0]["writable"], true);
    let audit = world.audit();
    assert!(
        audit.contains("with the presets agent-programs (") && audit.contains("claude ("),
        "{audit}"
    );
}

#[test]
fn a_link_that_a_command_left_in_its_home_leads_nowhere() {
    let world = world();
    let outside = world.outside().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::create_dir_all(world.outside().join("home/.config/goose")).unwrap();
    world
        .with_preset(&["--preset", "goose", "--share"], "true")
        .code(0);
    let homes = world.outside().join("state/homes");
    let kept = fs::read_dir(&homes)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    fs::remove_dir_all(kept.join(".config")).unwrap();
    symlink(&outside, kept.join(".config")).unwrap();
    // forge refuses instead of following it.
    world
        .with_preset(&["--preset", "goose", "--share"], "true")
        .code(125);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

/// The person's own setting is allowed; a repository does not choose where data can go.
#[test]
fn hosts_of_registries_come_from_the_person() {
    let world = world();
    fs::write(
        world.outside().join("home/.npmrc"),
        "registry=https://me:secret@npm.example.com/\n",
    )
    .unwrap();
    world.write(".npmrc", "registry=https://evil.example.com/\n");
    let hosts = |preset: &str| {
        let all = [
            "exec",
            "--json",
            "--preset",
            preset,
            "--",
            "sh",
            "-c",
            "echo $npm_config_registry",
        ];
        let ran = ran(world.preset_command(&all).output().unwrap());
        ran.code(0);
        ran.stdout
    };
    let with = hosts("node");
    assert!(
        with.contains("npm.example.com:443") && !with.contains("evil"),
        "{with}"
    );
    assert!(
        with.contains("https://npm.example.com/") && !with.contains("secret"),
        "{with}"
    );
    assert!(!hosts("rust").contains("npm.example.com"));
    world
        .with_preset(&["--preset", "node"], "true")
        .says(&["evil.example.com:443, and a repository does not choose hosts"]);
}

#[test]
fn nothing_is_written_with_read_only() {
    let world = world();
    let script = "echo x > ~/.claude/new; echo x > new; cat ~/.claude/login";
    let ran = world.with_preset(&["--preset", "claude", "--share", "--read-only"], script);
    if ran.code == 125 {
        // Landlock alone.
        return;
    }
    assert_eq!(ran.stdout, "token");
    assert!(!world.outside().join("home/.claude/new").exists());
}

#[test]
fn a_command_of_an_agent_that_fails_is_told_of_its_preset() {
    let world = world();
    let run = |args: &[&str]| ran(world.preset_command(args).output().unwrap());
    let told = "forge exec --preset claude -- claude";
    // Not found: its directory is not shown.
    run(&["exec", "claude"]).says(&[told]);
    assert!(
        !run(&["exec", "sh", "-c", "exit 1"])
            .stderr
            .contains("preset")
    );
    assert!(!run(&["exec", "git", "nonsense"]).stderr.contains("preset"));
}

#[test]
fn mistakes_are_told_before_anything_runs() {
    let world = world();
    for (flags, code, text) in [
        (&["--preset", "clude"][..], 125, "did you mean `claude`?"),
        (
            &["--preset", "claude", "--no-os-sandbox"],
            125,
            "cannot be used with",
        ),
        (
            &["--preset", "claude", "--worker", "w"],
            125,
            "cannot be used with",
        ),
        (&["--share"], 125, "--preset"),
    ] {
        let ran = world.with_preset(flags, "echo ran");
        ran.code(code).says(&[text]);
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn presets_are_listed_copied_and_checked() {
    let world = world();
    let list = world.forge(&["preset", "list"]);
    list.code(0);
    assert!(
        list.stdout.contains("claude") && list.stdout.contains("Codex"),
        "{}",
        list.stdout
    );
    let shown = world.forge(&["preset", "show", "claude", "--expanded"]);
    assert!(
        shown
            .stdout
            .contains("hosts, telemetry (off: --host-group)"),
        "{}",
        shown.stdout
    );
    world.forge(&["preset", "copy", "claude", "mine"]).code(0);
    world.forge(&["preset", "check", "mine"]).code(0);
    world.forge(&["preset", "copy", "claude", "mine"]).code(1);
    world.forge(&["preset", "copy", "claude", "../x"]).code(2);
    let mine = world.outside().join("home/.config/forge/presets/mine.yaml");
    fs::write(
        &mine,
        "preset: mine\nabout: x\nhots: {}\nstate: [{ path: /etc }]\n",
    )
    .unwrap();
    let wrong = world.forge(&["preset", "check", "mine"]);
    wrong.code(2).says(&[
        "did you mean `hosts`?",
        "from `~/` on",
        "missing `state.mode`",
    ]);
    // One with mistakes hides no other.
    let list = world.forge(&["preset", "list"]);
    list.code(0);
    assert!(
        list.stdout.contains("has mistakes") && list.stdout.contains("claude"),
        "{}",
        list.stdout
    );
}
