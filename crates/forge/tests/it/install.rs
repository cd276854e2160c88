//! `forge mcp install`: what becomes of the settings of clients. The files are in
//! `fixtures/clients`.

use std::path::{Path, PathBuf};

use crate::support::{Ran, World, forge_program, ran};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/clients")
}

/// Where a client keeps its settings, from the test's own directory.
const PLACES: [(&str, &str); 12] = [
    ("claude", "project/.mcp.json"),
    ("codex", "home/.codex/config.toml"),
    ("vscode", "project/.vscode/mcp.json"),
    ("cursor", "project/.cursor/mcp.json"),
    ("zed", "home/.config/zed/settings.json"),
    ("gemini", "project/.gemini/settings.json"),
    ("goose", "home/.config/goose/config.yaml"),
    (
        "claude-desktop",
        "home/.config/Claude/claude_desktop_config.json",
    ),
    ("windsurf", "home/.codeium/windsurf/mcp_config.json"),
    ("cline", "home/.cline/data/settings/cline_mcp_settings.json"),
    ("opencode", "project/opencode.json"),
    (".mcp.json", "project/.mcp.json"),
];

impl World {
    /// With the places for our own files where they usually are.
    fn install(&self, args: &[&str]) -> Ran {
        let mut all = vec!["mcp", "install"];
        all.extend(args);
        let mut command = self.command(forge_program(), &all);
        ran(command.env_remove("FORGE_STATE_DIR").output().unwrap())
    }

    fn settings(&self, client: &str) -> PathBuf {
        let place = PLACES.iter().find(|(name, _)| *name == client).unwrap().1;
        let path = self.outside().join(place);
        // macOS has another custom, and these tests one table.
        if cfg!(target_os = "macos") && client == "zed" {
            assert!(place.contains(".config"));
        }
        path
    }

    fn with_settings(client: &str, text: &[u8]) -> (Self, PathBuf) {
        let world = World::new(&[]);
        let path = world.settings(client);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        (world, path)
    }

    fn filled(&self, text: &str) -> String {
        text.replace("{forge}", forge_program().to_str().unwrap())
            .replace("{project}", self.project().to_str().unwrap())
    }
}

/// Names in the directory of a file: nothing of ours may be left there.
fn neighbours(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path.parent().unwrap()).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("forge-"))
        .collect()
}

fn is_written(client: &str, before: &str, after: &str, what: &str) {
    let (world, path) = World::with_settings(client, before.as_bytes());
    let after = world.filled(after);
    let first = world.install(&[client, "--write"]);
    first.code(0);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, after, "{what}");
    assert!(first.stdout.starts_with("written: "), "{}", first.stdout);
    assert!(first.stdout.contains("\n+"), "{}", first.stdout);
    let second = world.install(&[client, "--write"]);
    second.code(0);
    assert!(
        second.stdout.starts_with("unchanged: "),
        "{}",
        second.stdout
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), after, "{what}");
    assert_eq!(neighbours(&path), [""; 0]);
}

#[test]
fn everything_else_stays_as_it_was() {
    let mut count = 0;
    for entry in std::fs::read_dir(fixtures()).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_none_or(|extension| extension != "before")
        {
            continue;
        }
        count += 1;
        let case = path.file_stem().unwrap().to_str().unwrap();
        let clients = PLACES.iter().map(|(client, _)| *client);
        let client = clients
            .filter(|client| case.starts_with(client))
            .max_by_key(|client| client.len())
            .unwrap();
        let before = std::fs::read_to_string(&path).unwrap();
        let refused = path.with_extension("refused");
        if let Ok(expected) = std::fs::read_to_string(&refused) {
            let (world, file) = World::with_settings(client, before.as_bytes());
            let ran = world.install(&[client, "--write"]);
            assert_ne!(ran.code, 0, "{case}");
            ran.says(&[expected.trim_end()]);
            assert!(!ran.stderr.contains("secret-value"), "{}", ran.stderr);
            assert_eq!(std::fs::read_to_string(&file).unwrap(), before, "{case}");
            assert_eq!(neighbours(&file), [""; 0]);
            continue;
        }
        let after = std::fs::read_to_string(path.with_extension("after")).unwrap();
        is_written(client, &before, &after, case);
        let mark = |text: &str| format!("\u{feff}{text}");
        is_written(client, &mark(&before), &mark(&after), case);
        if before.contains('\n') {
            let crlf = |text: &str| text.replace('\n', "\r\n");
            is_written(client, &crlf(&before), &crlf(&after), case);
        }
    }
    assert!(count >= 30, "{count}");
}

/// Every client: printed and written say the same, and the file is made where there is none.
#[test]
fn what_is_printed_is_what_is_written() {
    for (client, _) in PLACES {
        let world = World::new(&[]);
        let file = world.settings(client);
        let printed = world.install(&[client]);
        printed.code(0).says(&["--write", file.to_str().unwrap()]);
        assert!(!file.exists());
        world.install(&[client, "--write"]).code(0);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), printed.stdout);
        let facts = world.install(&[client, "--write", "--json"]);
        let facts: serde_json::Value = serde_json::from_str(&facts.code(0).stdout).unwrap();
        assert_eq!(facts["state"], "unchanged");
        assert_eq!(facts["text"], printed.stdout.as_str());
        assert_eq!(facts["file"], file.to_str().unwrap());
    }
}

/// The client's own command, as the client's parser takes it, in the scope of the file. Gemini CLI
/// rejects a `--` here; `codex mcp add` cannot say `tool_timeout_sec`, so no command is offered.
#[test]
fn the_printed_command_names_the_scope() {
    let rows: [(&[&str], Option<&[&str]>); 6] = [
        (
            &["claude"],
            Some(&["claude", "mcp", "add", "--scope", "project", "forge", "--"]),
        ),
        (
            &["claude", "--scope", "user"],
            Some(&["claude", "mcp", "add", "--scope", "user", "forge", "--"]),
        ),
        (&["claude", "--file", "other.json"], None),
        (
            &["gemini"],
            Some(&["gemini", "mcp", "add", "--scope", "project", "forge"]),
        ),
        (&["codex"], None),
        (&["zed"], None),
    ];
    for (arguments, expected) in rows {
        let world = World::new(&[]);
        let facts = world.install(&[arguments, &["--json"]].concat());
        let facts: serde_json::Value = serde_json::from_str(&facts.code(0).stdout).unwrap();
        let Some(expected) = expected else {
            assert_eq!(facts["command"], serde_json::Value::Null, "{arguments:?}");
            continue;
        };
        let words: Vec<&str> = facts["command"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap())
            .collect();
        assert_eq!(words[..expected.len()], *expected, "{arguments:?}");
        assert!(words[expected.len()].ends_with("forge"), "{words:?}");
    }
}

#[test]
fn the_server_is_started_as_here() {
    let world = World::new(&[]);
    let config = world.project().join("x.yaml");
    let entry = |client: &str| {
        let mut command = world.command(
            forge_program(),
            &[
                "--config",
                "x.yaml",
                "-c",
                "network=false",
                "mcp",
                "install",
                client,
                "--worker",
                "reader",
                "--approver",
                "queue",
                "--json",
            ],
        );
        let facts = ran(command.output().unwrap());
        let facts: serde_json::Value = serde_json::from_str(&facts.code(0).stdout).unwrap();
        facts["entry"].clone()
    };
    let rest = serde_json::json!([
        "-c",
        "network=false",
        "mcp",
        "--worker",
        "reader",
        "--approver",
        "queue"
    ]);
    let arguments = |first: serde_json::Value| {
        let lists = [&first, &rest].map(|list| list.as_array().unwrap().clone());
        serde_json::Value::from(lists.concat())
    };
    let user = entry("codex");
    assert_eq!(user["command"], forge_program().to_str().unwrap());
    assert_eq!(
        user["args"],
        arguments(serde_json::json!([
            "-C",
            world.project(),
            "--config",
            config
        ]))
    );
    // Clients pass on next to nothing of their environment.
    let state = world.outside().join("state");
    assert_eq!(user["env"], serde_json::json!({"FORGE_STATE_DIR": state}));
    for (client, directory) in [(".mcp.json", None), ("vscode", Some("${workspaceFolder}"))] {
        let team = entry(client);
        let mut first = Vec::new();
        if let Some(directory) = directory {
            first.extend(["-C", directory]);
        }
        first.extend(["--config", "x.yaml"]);
        assert_eq!(team["command"], "forge");
        assert_eq!(team["args"], arguments(first.into()), "{client}");
        assert_eq!(team["env"], serde_json::Value::Null);
    }
    world
        .forge(&["--trust", "mcp", "install", "codex"])
        .code(2)
        .says(&["forge trust"]);
    world.install(&["codex", "--name", "a b"]).code(2);
    world
        .install(&["zed", "--scope", "project"])
        .code(2)
        .says(&["no settings of scope project"]);
}

/// A file that a team commits names nothing of this machine; what it cannot carry is told.
#[test]
fn a_file_of_the_project_holds_no_path_of_this_machine() {
    let mut project_files = 0;
    for (client, place) in PLACES {
        if !place.starts_with("project/") {
            continue;
        }
        project_files += 1;
        let world = World::new(&[("forge.yaml", "name: p\n")]);
        let written = world.install(&[client, "--write"]);
        written.code(0).says(&["PATH leads to no or another one"]);
        let text = std::fs::read_to_string(world.settings(client)).unwrap();
        assert!(!text.contains(world.outside().to_str().unwrap()), "{text}");
        assert!(!text.contains(forge_program().to_str().unwrap()), "{text}");
        // Its own settings of the user's scope name both.
        let user = world.install(&[client, "--scope", "user", "--json"]);
        if user.code == 0 {
            let facts: serde_json::Value = serde_json::from_str(&user.stdout).unwrap();
            let entry = facts["entry"].to_string();
            assert!(entry.contains(world.project().to_str().unwrap()), "{entry}");
            assert_eq!(facts["notes"], serde_json::json!([]));
        }
    }
    assert_eq!(project_files, 6);

    let world = World::new(&[]);
    let elsewhere = world.outside().join("x.yaml");
    let elsewhere = elsewhere.to_str().unwrap();
    let arguments = ["--config", elsewhere, "mcp", "install", "claude", "--write"];
    world.forge(&arguments).code(0).says(&[
        elsewhere,
        "is a path of this machine",
        "FORGE_STATE_DIR",
    ]);
    let text = std::fs::read_to_string(world.settings("claude")).unwrap();
    assert!(!text.contains("FORGE_STATE_DIR"), "{text}");
}

/// An entry of somebody else that starts forge with other settings is not taken for ours.
#[test]
fn variables_of_an_entry_that_is_there_are_told() {
    for (name, value, program, told) in [
        ("FORGE_CONFIG", "/x", None, Some("FORGE_CONFIG=/x")),
        ("FORGE_STATE_DIR", "/x", None, Some("FORGE_STATE_DIR=/x")),
        ("PATH", "/x/bin", None, Some("PATH=/x/bin")),
        ("LD_PRELOAD", "/x.so", None, Some("LD_PRELOAD=/x.so")),
        ("RUST_LOG", "hush", None, None),
        ("API_TOKEN", "hush", Some("other"), Some("API_TOKEN=…")),
    ] {
        let world = World::new(&[("forge.yaml", "name: p\n")]);
        world.install(&["claude", "--write"]).code(0);
        let file = world.settings("claude");
        let text = std::fs::read_to_string(&file).unwrap();
        let mut all: serde_json::Value = serde_json::from_str(&text).unwrap();
        let entry = &mut all["mcpServers"]["forge"];
        entry["env"] = serde_json::json!({ name: value });
        if let Some(program) = program {
            entry["command"] = program.into();
        }
        std::fs::write(&file, all.to_string()).unwrap();
        let again = world.install(&["claude", "--write"]);
        match told {
            Some(told) => again.code(1).says(&[&format!(", with {told}")]),
            None => again.code(0),
        };
        assert!(!again.stderr.contains("hush"), "{name}");
        let now = std::fs::read_to_string(&file).unwrap();
        assert_eq!(now, all.to_string(), "{name}");
    }
}

#[test]
fn a_missing_project_is_mentioned() {
    for (files, is_said) in [(&[][..], true), (&[("forge.yaml", "name: p\n")], false)] {
        let world = World::new(files);
        let ran = world.install(&["claude", "--scope", "user"]);
        let said = ran.code(0).stderr.contains("`forge init` writes one");
        assert_eq!(said, is_said, "{}", ran.stderr);
    }
}

#[test]
fn a_forge_in_path_is_not_mentioned() {
    let world = World::new(&[("forge.yaml", "name: p\n")]);
    let program = forge_program();
    for (dir, expected) in [(program.parent().unwrap(), 0), (world.outside(), 1)] {
        let mut command = world.command(program, &["mcp", "install", ".mcp.json", "--json"]);
        command.env_remove("FORGE_STATE_DIR").env("PATH", dir);
        let facts = ran(command.output().unwrap());
        let facts: serde_json::Value = serde_json::from_str(&facts.code(0).stdout).unwrap();
        let notes = facts["notes"].as_array().unwrap();
        assert_eq!(notes.len(), expected, "{notes:?}");
    }
}

/// A person who wonders why nothing happens in an untrusted folder has read the reason before.
#[test]
fn the_trust_of_a_folder_is_mentioned() {
    for (client, text) in [
        ("claude", Some("asks once whether to use the servers")),
        ("codex", Some("projects that it trusts")),
        ("vscode", Some("trusted folders only")),
        ("cursor", Some("asks before it starts a server")),
        ("gemini", Some("folders that it does not trust")),
        ("opencode", None),
    ] {
        let world = World::new(&[("forge.yaml", "name: p\n")]);
        let project = world.install(&[client, "--scope", "project"]);
        let notes = &project.code(0).stderr;
        assert_eq!(
            notes.contains("trust") || notes.contains("asks"),
            text.is_some(),
            "{notes}"
        );
        project.says(text.as_slice());
        let user = world.install(&[client, "--scope", "user"]);
        assert!(!user.code(0).stderr.contains("note: "), "{}", user.stderr);
    }
}

#[test]
fn another_server_of_that_name_stays_unless_told() {
    let (world, file) = World::with_settings("codex", b"");
    world.install(&["codex", "--write"]).code(0);
    // What a person chose is theirs.
    let text = std::fs::read_to_string(&file).unwrap();
    let chosen = text.replace("360", "30") + "enabled_tools = [\"read_file\"]\n";
    std::fs::write(&file, &chosen).unwrap();
    let same = world.install(&["codex", "--write"]);
    assert!(same.code(0).stdout.starts_with("unchanged"));
    let other = ["codex", "--write", "--worker", "reader"];
    world.install(&other).code(1).says(&["--replace", "mcp"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), chosen);
    let mut replacing = other.to_vec();
    replacing.push("--replace");
    world.install(&replacing).code(0);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"--worker\", \"reader\""), "{text}");
    assert_eq!(text.matches("[mcp_servers.forge]").count(), 1);
    let mut named = other.to_vec();
    named.extend(["--name", "forge-reader"]);
    world.install(&named).code(0);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("[mcp_servers.forge-reader]"), "{text}");
}

#[test]
fn replacing_works_in_every_format() {
    for client in ["claude", "goose", "codex"] {
        let world = World::new(&[]);
        let file = world.settings(client);
        world.install(&[client, "--write"]).code(0);
        world
            .install(&[client, "--write", "--name", "next"])
            .code(0);
        let again = [client, "--write", "--worker", "w", "--replace"];
        world.install(&again).code(0);
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text.matches("--worker").count(), 1, "{text}");
        assert_eq!(
            text.matches("next").count(),
            1 + usize::from(client == "goose")
        );
        assert!(world.install(&again).stdout.starts_with("unchanged"));
    }
}

#[test]
fn modes_stay_and_new_files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let world = World::new(&[]);
    let file = world.settings("codex");
    world.install(&["codex", "--write"]).code(0);
    assert_eq!(mode(&file), 0o600);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let other = ["codex", "--write", "--name", "b"];
    world.install(&other).code(0);
    assert_eq!(mode(&file), 0o640);
    world.install(&["claude", "--write"]).code(0);
    assert_eq!(mode(&world.settings("claude")), 0o644);
}

#[test]
fn a_link_is_told_and_not_followed() {
    let world = World::new(&[]);
    let elsewhere = world.outside().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let real = elsewhere.join("mcp.json");
    std::fs::write(&real, "{}\n").unwrap();

    let link = world.project().join(".vscode");
    std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
    let shown = [
        link.to_str().unwrap(),
        elsewhere.to_str().unwrap(),
        "--file",
    ];
    world.install(&["vscode", "--write"]).code(1).says(&shown);
    let settings = world.settings("claude");
    std::os::unix::fs::symlink(&real, &settings).unwrap();
    world
        .install(&["claude", "--write"])
        .code(1)
        .says(&["is a link to", real.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(&real).unwrap(), "{}\n");
    // A dangling one makes no file, either.
    std::os::unix::fs::symlink("nowhere", world.project().join(".cursor")).unwrap();
    world.install(&["cursor", "--write"]).code(1);
    assert!(!world.project().join("nowhere").exists());

    let file = real.to_str().unwrap();
    world
        .install(&["vscode", "--write", "--file", file])
        .code(0);
    let text = std::fs::read_to_string(&real).unwrap();
    assert!(text.contains("\"servers\""), "{text}");
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn what_is_no_settings_file_is_left_alone() {
    let fifo = |path: &Path| {
        let made = std::process::Command::new("mkfifo").arg(path).status();
        assert!(made.unwrap().success());
    };
    let directory = |path: &Path| std::fs::create_dir(path).unwrap();
    let bytes = |path: &Path| std::fs::write(path, b"{\"a\": \"\xff\"}").unwrap();
    let makes: [&dyn Fn(&Path); 3] = [&fifo, &directory, &bytes];
    for make in makes {
        let world = World::new(&[]);
        make(&world.settings("claude"));
        let ran = world.install(&["claude", "--write", "--json"]);
        ran.code(1).says(&["\"client.file\""]);
    }
}

#[test]
fn a_mistake_has_its_place_for_programs() {
    let (world, file) = World::with_settings("cursor", b"{\n  \"a\": 01\n}\n");
    let ran = world.install(&["cursor", "--write", "--json"]);
    ran.code(2);
    let last = ran.stderr.lines().last().unwrap();
    let error: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!(error["error"]["code"], "client.syntax");
    assert_eq!(error["error"]["file"], file.to_str().unwrap());
    assert_eq!(error["error"]["line"], 2);
    assert!(
        error["error"]["column"]
            .as_u64()
            .is_some_and(|column| column > 5)
    );
}

/// The server would refuse it at its first start.
#[test]
fn a_worker_that_does_not_exist_is_not_installed() {
    let worker = "---\nname: reader\n---\nRead.\n";
    let world = World::new(&[
        ("forge.yaml", "name: p\n"),
        ("workers/reader.worker", worker),
    ]);
    let refused = world.install(&["claude", "--write", "--worker", "raeder"]);
    refused
        .code(2)
        .says(&["unknown worker `raeder`", "did you mean `reader`?"]);
    assert!(!world.settings("claude").exists());
    world
        .install(&["claude", "--write", "--worker", "reader"])
        .code(0);
    // A project without workers has none of any name; a directory without a project may get one.
    let world = World::new(&[("forge.yaml", "name: p\n")]);
    let refused = world.install(&["claude", "--worker", "reader"]);
    refused.code(2).says(&["unknown worker `reader`"]);
    let world = World::new(&[]);
    world.install(&["claude", "--worker", "reader"]).code(0);
}
