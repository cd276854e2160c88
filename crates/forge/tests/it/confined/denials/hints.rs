//! Hints of `forge exec` after a refusal: their commands and settings are taken from forge's output
//! and used as they are printed.

use std::os::unix::fs::PermissionsExt as _;

use super::super::exec::{mechanisms, mount_layers};
use crate::support::{Ran, World, forge_program, ran};

const ROOT: &str = "sandbox: { root: . }\n";

/// What lifts the refusal.
#[derive(Clone, Copy)]
enum Way {
    /// Each command in the hints.
    Typed,
    /// This project file, as the hint says.
    File(&'static str),
    /// The command without this flag.
    Without(&'static str),
    /// Nothing: no hint names a setting or a rule.
    Nothing,
}

/// Mechanisms of a row.
#[derive(Clone, Copy)]
enum By {
    MountLayers,
    Landlock,
    All,
}

/// A command that is refused.
struct Row {
    by: By,
    /// The project file.
    file: &'static str,
    /// Prepares the project.
    made: &'static str,
    flags: &'static [&'static str],
    line: &'static str,
    /// In the line about the refusal.
    refused: &'static str,
    /// In a hint; empty for rows without one.
    hint: &'static str,
    way: Way,
}

const ROWS: &[Row] = &[
    Row {
        line: "echo x > .git/hooks/x",
        refused: "protected name .git/hooks",
        ..GIT
    },
    Row {
        line: "echo x > .git/info/x",
        refused: "protected name .git/info",
        ..GIT
    },
    Row {
        line: "mv .git g",
        refused: "it holds ",
        ..GIT
    },
    Row {
        made: "git init -q sub",
        line: "mv sub sub2",
        refused: "/sub/.git/",
        ..GIT
    },
    Row {
        made: "touch .gitmodules",
        line: "echo x > .gitmodules",
        refused: "protected name .gitmodules",
        ..GIT
    },
    Row {
        made: "mkdir -p .git/modules/libs/a && touch .git/modules/libs/a/config",
        flags: &["-c", "git.mode=commit"],
        line: "echo x > .git/modules/libs/a/config",
        refused: "protected name .git/modules/*/*/config",
        ..GIT
    },
    Row {
        line: "rm .git/config",
        refused: "protected name .git/config",
        hint: "`sandbox.unprotect: [\".git/config\"]`",
        way: Way::Typed,
        ..GIT
    },
    Row {
        flags: &["-c", "git.mode=read_only"],
        line: "echo x > .git/x",
        refused: "protected name .git)",
        hint: "`git.mode: commit`",
        way: Way::Typed,
        ..GIT
    },
    Row {
        made: "mkdir .git/rebase-merge",
        line: "echo x > .git/rebase-merge/done",
        refused: "protected name .git/rebase-merge",
        hint: "`git.mode: commit`",
        way: Way::Typed,
        ..GIT
    },
    Row {
        made: "mkdir src && echo x > src/.env",
        line: "mv src src2",
        refused: "src/.env: hidden name .env*",
        hint: "`sandbox.unprotect: [\".env*\"]`",
        ..NAMES
    },
    Row {
        made: "mkdir -p a/src && echo x > a/src/.env && mkdir a/src/.vscode",
        line: "mv a b",
        refused: "it holds ",
        hint: "`sandbox.unprotect: [\".env*\", \".vscode\"]`",
        ..NAMES
    },
    Row {
        made: "echo x > .env",
        line: "echo y > .env",
        refused: "hidden name .env*",
        hint: "`sandbox.show: [\".env*\"]`",
        ..NAMES
    },
    // A name that two patterns fit, of which the command meets one after the other.
    Row {
        made: "echo x > .envrc",
        line: "echo y > .envrc",
        refused: "hidden name .env*",
        hint: "`sandbox.unprotect: [\".env*\", \".envrc\"]`",
        ..NAMES
    },
    Row {
        file: "sandbox: { root: ., hide: [.envrc] }\n",
        made: "echo x > .envrc",
        flags: &["--trust"],
        line: "echo y > .envrc",
        refused: "hidden name .env",
        hint: "take \".envrc\" out of `hide`",
        way: Way::File("sandbox: { root: ., show: [\".env*\"], unprotect: [\".env*\", .envrc] }\n"),
        ..NAMES
    },
    Row {
        made: "mkdir .vscode",
        line: "echo y > .vscode/x",
        refused: "protected name .vscode",
        hint: "`sandbox.unprotect: [\".vscode\"]`",
        ..NAMES
    },
    Row {
        made: "mkdir .os-sandbox-quarantine",
        line: "rm -rf .os-sandbox-quarantine",
        refused: "(the quarantine)",
        hint: "forge quarantine list",
        way: Way::Nothing,
        ..NAMES
    },
    Row {
        file: ROOT,
        line: "echo x > forge.yaml",
        refused: "protected name forge.yaml",
        hint: "",
        way: Way::Nothing,
        ..NAMES
    },
    Row {
        made: "mkdir .claude && echo {} > .claude/settings.json",
        flags: &["--preset", "claude", "--no-share"],
        line: "echo x > .claude/settings.json",
        refused: "protected name .claude/settings.json",
        hint: "",
        way: Way::Nothing,
        ..NAMES
    },
    Row {
        file: "sandbox: { root: ., protect: [own.txt] }\n",
        made: "mkdir a && echo x > a/own.txt",
        line: "echo y > a/own.txt",
        refused: "protected name own.txt",
        hint: "take \"own.txt\" out of `protect`",
        way: Way::File(ROOT),
        ..NAMES
    },
    Row {
        file: "sandbox: { root: ., hide: [own.txt] }\n",
        made: "mkdir a && echo x > a/own.txt",
        line: "mv a b",
        refused: "hidden name own.txt",
        hint: "take \"own.txt\" out of `hide`",
        way: Way::File(ROOT),
        ..NAMES
    },
    Row {
        by: By::All,
        flags: &["--read-only"],
        line: "echo x > made",
        refused: "is read-only",
        hint: "leave out --read-only",
        way: Way::Without("--read-only"),
        ..NAMES
    },
    Row {
        by: By::All,
        file: "sandbox: { root: ., readonly: true }\n",
        line: "echo x > made",
        refused: "is read-only",
        hint: "writable in the project file",
        way: Way::File(ROOT),
        ..NAMES
    },
    Row {
        by: By::All,
        line: "echo x > /etc/made",
        refused: "(outside",
        hint: "no rule allows it: it is in a directory of the system",
        way: Way::Nothing,
        ..NAMES
    },
    Row {
        by: By::Landlock,
        // As the hint about a new name beside the project says.
        made: "mkdir ../other",
        line: "echo x > ../other/made",
        refused: "(outside",
        hint: "forge allow --last",
        ..NAMES
    },
    Row {
        by: By::Landlock,
        file: "sandbox: { zones: { data: { path: ./data } } }\n",
        made: "mkdir -p .sandbox/data",
        line: "echo x > made",
        refused: "(outside",
        hint: "or show all by `sandbox: { root: . }`",
        way: Way::File(ROOT),
        ..NAMES
    },
    Row {
        by: By::Landlock,
        line: "python3 -c 'import socket; socket.socket(socket.AF_UNIX)'",
        refused: "local sockets are closed",
        hint: "sandbox.unix_sockets=open",
        ..NAMES
    },
];

const GIT: Row = Row {
    by: By::MountLayers,
    file: "",
    made: "",
    flags: &[],
    line: "",
    refused: "",
    hint: "",
    way: Way::Nothing,
};

const NAMES: Row = Row {
    by: By::MountLayers,
    file: "",
    made: "",
    flags: &[],
    line: "",
    refused: "",
    hint: "",
    way: Way::Typed,
};

impl Row {
    /// Makes a project in which the command is refused.
    fn world(&self) -> World {
        let world = World::new(&[]);
        world.shell("git init -q -b main && git commit -q --allow-empty -m first");
        world.shell(self.made);
        if !self.file.is_empty() {
            world.write("forge.yaml", self.file);
        }
        std::os::unix::fs::symlink(forge_program(), world.outside().join("forge")).unwrap();
        world
    }

    fn exec(&self, world: &World, mechanism: &str, options: &str) -> Ran {
        let flags = self.flags.iter();
        let flags: Vec<&str> = match self.way {
            Way::Without(flag) if options == WITHOUT => {
                flags.copied().filter(|one| *one != flag).collect()
            }
            _ => flags.copied().collect(),
        };
        let options = if options == WITHOUT { "" } else { options };
        let line = self.line.replace('\'', "'\\''");
        let typed = format!(
            "forge exec --mechanism {mechanism} {} {options} -- sh -c '{line}'",
            flags.join(" ")
        );
        shell(world, &typed)
    }

    /// Returns what is wrong.
    fn check(&self, mechanism: &str) -> Option<String> {
        let world = self.world();
        let before = self.exec(&world, mechanism, "");
        let wrong = |why: &str| {
            Some(format!(
                "{mechanism}: {}: {why}\n{}",
                self.line, before.stderr
            ))
        };
        let is_refused = |ran: &Ran| {
            let mut lines = ran.stderr.lines();
            lines.any(|line| line.starts_with("refused: ") && line.contains(self.refused))
        };
        if !is_refused(&before) {
            return wrong("not refused as expected");
        }
        let lines = before.stderr.lines();
        let hints: Vec<&str> = lines.filter(|line| line.starts_with("hint: ")).collect();
        if !(self.hint.is_empty() || hints.iter().any(|line| line.contains(self.hint))) {
            return wrong("the hint is missing");
        }
        let after = match self.way {
            Way::Nothing => {
                let names_setting = hints.iter().any(|hint| names_setting(hint));
                return names_setting
                    .then(|| wrong("no setting lifts it"))
                    .flatten();
            }
            Way::Without(_) => self.exec(&world, mechanism, WITHOUT),
            Way::File(text) => {
                world.write("forge.yaml", text);
                self.exec(&world, mechanism, "")
            }
            Way::Typed => {
                if hints.iter().any(|hint| hint.contains("forge allow --last")) {
                    let ran = shell(&world, "forge allow --last --yes");
                    if ran.code != 0 || !ran.stdout.contains("written") {
                        return wrong("`forge allow --last` offers nothing");
                    }
                }
                let once = hints.iter().filter_map(|hint| hint.split_once("for once"));
                let once: Vec<&str> = once.map(|(_, once)| &once[2..]).collect();
                self.exec(&world, mechanism, &once.join(" "))
            }
        };
        match after.code == 0 && !is_refused(&after) {
            true => None,
            false => wrong(&format!("refused after the hints: {}", after.stderr)),
        }
    }
}

/// Returns `true` for a hint that promises something of a setting or a rule.
fn names_setting(hint: &str) -> bool {
    let words = [
        "-c ",
        "forge allow",
        "forge exec",
        "`sandbox",
        "`git",
        "take ",
    ];
    words.iter().any(|word| hint.contains(word))
}

const WITHOUT: &str = "without the flag";

/// Types a line, with forge in the `PATH`.
fn shell(world: &World, line: &str) -> Ran {
    let mut command = world.command("sh".as_ref(), &["-c", line]);
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", world.outside().display());
    ran(command.env("PATH", path).output().unwrap())
}

#[test]
fn a_hint_lifts_the_refusal_that_it_follows() {
    let world = World::new(&[]);
    let (layers, all) = (mount_layers(&world), mechanisms(&world));
    let mut wrong = Vec::new();
    for row in ROWS {
        let names = match row.by {
            By::MountLayers => layers.clone(),
            By::All => all.clone(),
            By::Landlock => all
                .iter()
                .copied()
                .filter(|one| *one == "landlock")
                .collect(),
        };
        wrong.extend(
            names
                .into_iter()
                .filter_map(|mechanism| row.check(mechanism)),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Each command that a full report proposes is typed as it is printed, whatever names the project's
/// directories.
#[test]
fn a_grant_lifts_the_refusal_as_it_is_typed() {
    let fronts = [
        "",
        ROOT,
        "sandbox: { mode: direct, zones: { data: { path: ./data } } }\n",
        "sandbox: { mounts: [{ source: ./data, target: /data }] }\n",
    ];
    for file in fronts {
        let row = Row {
            file,
            made: "mkdir data",
            ..NAMES
        };
        let world = row.world();
        let shown = world.outside().join("my lib");
        std::fs::create_dir(&shown).unwrap();
        std::fs::write(shown.join("notes"), "the notes\n").unwrap();
        let socket = world.outside().join("s.sock");
        let server = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || while server.accept().is_ok() {});
        let connect = format!(
            "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{}')\"",
            socket.display()
        );
        let read = format!("cat '{}/notes'", shown.display());
        for mechanism in mechanisms(&world) {
            let exec = |exec: &str, line: &str| {
                let flags = format!("--trace=full --mechanism {mechanism}");
                shell(&world, &format!("{exec} {flags} -- {line}"))
            };
            let grant = |ran: &Ran| -> String {
                let grants = ran
                    .stderr
                    .lines()
                    .filter_map(|line| line.strip_prefix("grant: "));
                let grants: Vec<&str> = grants.filter(|one| one.starts_with("forge ")).collect();
                assert_eq!(grants.len(), 1, "{mechanism}: {file}: {}", ran.stderr);
                grants[0].to_owned()
            };
            let before = exec("forge exec", &read);
            assert_ne!(before.code, 0, "{mechanism}: {file}");
            let allow = grant(&before);
            shell(&world, &format!("{allow} --yes")).code(0);
            exec("forge exec", &read).code(0);
            let remove = allow.replace(" allow ", " allow --yes --remove ");
            shell(&world, &remove).code(0);

            let before = exec("forge exec -c sandbox.unix_sockets=[/other.sock]", &connect);
            assert_ne!(before.code, 0, "{mechanism}: {file}");
            let hint = before
                .stderr
                .lines()
                .find(|line| line.contains("for once, "));
            let hint = hint.unwrap_or_else(|| panic!("{mechanism}: {file}: {}", before.stderr));
            let (_, option) = hint.split_once("for once, ").unwrap();
            exec(&format!("forge exec {option}"), &connect).code(0);
        }
    }
}

/// A refused lookup has no name, so the line is for a person who knows it.
#[test]
fn an_address_without_the_network_has_a_line() {
    let world = World::new(&[]);
    let connect = |kind: &str, port: u16| {
        format!(
            "import socket; socket.socket(socket.AF_INET, socket.{kind}).connect(('192.0.2.1', {port}))"
        )
    };
    for mechanism in mount_layers(&world) {
        let exec = |script: &str| {
            let exec = [
                "exec",
                "--mechanism",
                mechanism,
                "--",
                "python3",
                "-c",
                script,
            ];
            world.forge(&exec)
        };
        exec(&connect("SOCK_DGRAM", 53)).says(&["192.0.2.1:53 (the network is off)"]);
        let ran = world.forge(&["allow", "--last"]);
        ran.code(0)
            .says(&["which is not recorded", "forge allow host:NAME"]);
        assert_eq!(ran.stdout, "", "{mechanism}");
        exec(&connect("SOCK_STREAM", 80)).says(&["192.0.2.1:80", "forge allow --last"]);
        let ran = world.forge(&["allow", "--last"]);
        assert!(
            ran.stdout.starts_with("1  host:192.0.2.1:80  (connect"),
            "{}",
            ran.stdout
        );
    }
}

/// The hint names the server of this host, and its option reaches that.
#[test]
fn a_server_of_this_host_is_named() {
    let world = Row { ..NAMES }.world();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || while server.accept().is_ok() {});
    let script = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1].split(':')[2])))";
    let line = |port: u16| format!("python3 -c \"{script}\" http://127.0.0.1:{port}");
    for mechanism in mount_layers(&world) {
        let exec = |options: &str, port: u16| {
            let exec = format!("forge exec --mechanism {mechanism}");
            shell(&world, &format!("{exec} {options} -- {}", line(port)))
        };
        let ran = exec("", port);
        let hint = ran
            .stderr
            .lines()
            .find(|line| line.contains("a server of this host"));
        let hint = hint.unwrap_or_else(|| panic!("{mechanism}: {}", ran.stderr));
        let (_, typed) = hint.split_once("forge exec ").unwrap();
        exec(typed, port).code(0);
        // Nothing listens there.
        let ran = exec("", 1);
        assert!(
            !ran.stderr.contains("a server of this host"),
            "{}",
            ran.stderr
        );
    }
}

/// A program, where it is, options of forge, and the hint.
const PROGRAMS: [(&str, &str, &str, Option<&str>); 6] = [
    ("claude", "", "", None),
    ("claude", "", "--preset claude --no-share", None),
    (
        "claude",
        "home/.local/bin",
        "",
        Some("forge exec --preset claude -- claude"),
    ),
    (
        "claude",
        "home/.local/bin",
        "-c 'sandbox.programs=[~/.local/bin]'",
        Some("forge exec --preset claude -- claude"),
    ),
    (
        "tool",
        "home/bin",
        "",
        Some("-c 'sandbox.programs=[~/bin]'"),
    ),
    ("tool", "home", "", None),
];

/// The command in a hint about a program starts it.
#[test]
fn a_hint_about_a_program_starts_it() {
    for (program, directory, options, hint) in PROGRAMS {
        let world = World::new(&[]);
        std::os::unix::fs::symlink(forge_program(), world.outside().join("forge")).unwrap();
        let at = world.outside().join(directory);
        if !directory.is_empty() {
            std::fs::create_dir_all(&at).unwrap();
            std::fs::write(
                at.join(program),
                "#!/bin/sh\n[ -n \"$CLAUDE_CONFIG_DIR$DISABLE_AUTOUPDATER\" ]\n",
            )
            .unwrap();
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(at.join(program), mode).unwrap();
        }
        let run = |line: &str| shell(&world, &format!("PATH=$PATH:{}; {line}", at.display()));
        let before = run(&format!("forge exec {options} {program}"));
        let about = format!(
            "{program} in {directory:?} with {options:?}: {}",
            before.stderr
        );
        assert_ne!(before.code, 0, "{about}");
        let hints = before
            .stderr
            .split_once("hint: ")
            .map_or("", |(_, hints)| hints);
        let Some(hint) = hint else {
            assert!(!names_setting(hints), "{about}");
            continue;
        };
        assert!(hints.contains(hint), "{about}");
        let typed = match hint.starts_with("-c") {
            true => format!("forge exec {hint} {program}"),
            false => hint.to_owned(),
        };
        let after = run(&typed);
        assert!(
            !after.stderr.contains("no such program"),
            "{about}{}",
            after.stderr
        );
        assert!(!after.stderr.contains("error["), "{about}{}", after.stderr);
    }
}
