//! Forge's own directories are out of every worker's reach, whichever command starts the worker.

use crate::support::{World, forge_program, ran};

const CONFIG: &str = "version: 1\nsandbox: { root: . }\n";

/// A project at home: what was agreed to, the person's own file and the logs lie in it.
#[test]
fn a_project_that_holds_forges_own_directories_is_refused() {
    let world = World::new(&[("golem-forge.config.yaml", CONFIG)]);
    let at_home = |args: &[&str]| {
        let mut command = world.command(forge_program(), args);
        command.env("HOME", world.project());
        command.env_remove("FORGE_STATE_DIR");
        ran(command.output().unwrap())
    };
    for (args, code) in [
        (&["tools", "list"][..], 2),
        (&["tools", "call", "list_files", r#"{"path":"/"}"#], 2),
        (&["run", "hello"], 2),
        (&["check"], 2),
        (&["exec", "--", "true"], 125),
        (&["--no-config", "exec", "--", "true"], 125),
    ] {
        let ran = at_home(args);
        ran.code(code).says(&[
            "[config.own_directory]",
            "forge's state directory",
            "forge's configuration directory",
            "FORGE_STATE_DIR",
        ]);
        if args[0] != "--no-config" {
            ran.says(&["golem-forge.config.yaml:2:"]);
        }
    }
    // A client gets no tool, and nothing is kept where it could reach.
    at_home(&["mcp"]).code(0).says(&["config.own_directory"]);
    assert!(!world.project().join(".local/state/forge").exists());
    // A directory of the project's own is as good as ever.
    world.write("sub/golem-forge.config.yaml", CONFIG);
    at_home(&[
        "-C",
        "sub",
        "tools",
        "call",
        "list_files",
        r#"{"path":"/"}"#,
    ])
    .code(0);
}

/// Each of them by itself, and by its variable.
#[test]
fn whatever_names_the_directory_it_is_refused() {
    for (name, dir) in [
        ("FORGE_STATE_DIR", "project/state"),
        ("XDG_CONFIG_HOME", "project/config"),
        ("XDG_RUNTIME_DIR", "project/run"),
        ("XDG_CACHE_HOME", "project/cache"),
        ("XDG_STATE_HOME", "project/state"),
    ] {
        let world = World::new(&[("golem-forge.config.yaml", CONFIG)]);
        let mut command = world.command(forge_program(), &["tools", "list"]);
        command.env(name, world.outside().join(dir));
        ran(command.output().unwrap())
            .code(2)
            .says(&["[config.own_directory]", name]);
        world.forge(&["tools", "list"]).code(0);
    }
}

/// The person's file is often a link into a repository of settings.
#[test]
fn a_repository_that_holds_the_persons_own_file_is_refused() {
    let world = World::new(&[("golem-forge.config.yaml", CONFIG), ("mine.yaml", "")]);
    let dir = world.outside().join("home/.config/forge");
    std::fs::create_dir_all(&dir).unwrap();
    std::os::unix::fs::symlink(world.project().join("mine.yaml"), dir.join("config.yaml")).unwrap();
    world
        .forge(&["tools", "list"])
        .code(2)
        .says(&["[config.own_directory]", "the person's own configuration"]);
}

/// A file of another log, after a gap.
#[test]
fn a_file_of_another_log_is_a_break() {
    let world = World::new(&[("golem-forge.config.yaml", CONFIG)]);
    world
        .forge(&["tools", "call", "list_files", r#"{"path":"/"}"#])
        .code(0);
    world.forge(&["log", "verify"]).code(0);
    let runs = world.outside().join("state/runs");
    let run = runs.read_dir().unwrap().next().unwrap().unwrap().path();
    std::fs::copy(run.join("audit.jsonl"), run.join("audit.2.jsonl")).unwrap();
    let found = world.forge(&["log", "verify"]);
    assert!(
        found
            .code(1)
            .stdout
            .contains("the file before it is missing"),
        "{}",
        found.stdout
    );
}

/// Where forge keeps its files, and nobody else may.
const KEPT: &[(&str, &str)] = &[
    ("FORGE_STATE_DIR", "state"),
    ("FORGE_STATE_DIR", "state/runs"),
    ("FORGE_STATE_DIR", "state/approvals"),
    ("FORGE_STATE_DIR", "state/git"),
    ("FORGE_STATE_DIR", "state/http"),
    ("XDG_CONFIG_HOME", "home/.config/forge"),
    ("XDG_CACHE_HOME", "home/.cache/os-sandbox"),
    ("XDG_STATE_HOME", "home/.local/state/os-sandbox"),
];

const COMMANDS: &[(&[&str], i32)] = &[
    (&["tools", "list"], 2),
    (&["run", "hello"], 2),
    (&["log", "list"], 2),
    (&["log", "verify"], 2),
    (&["trust"], 2),
    (&["approve"], 2),
    (&["stage", "status"], 2),
    (&["check"], 2),
    (&["mcp"], 2),
    (&["exec", "--no-os-sandbox", "--", "true"], 125),
];

#[test]
fn a_directory_of_forges_that_others_can_change_is_refused_by_every_command() {
    use std::os::unix::fs::PermissionsExt;
    for (variable, kept) in KEPT {
        let world = World::new(&[("golem-forge.config.yaml", CONFIG)]);
        let dir = world.outside().join(kept);
        std::fs::create_dir_all(&dir).unwrap();
        world.forge(&["tools", "list"]).code(0);
        let mode = |mode| std::fs::set_permissions(&dir, PermissionsExt::from_mode(mode)).unwrap();
        for open in [0o775, 0o777, 0o1777] {
            mode(open);
            for (args, code) in COMMANDS {
                let ran = world.forge(args);
                ran.code(*code)
                    .says(&["can be written by others", variable]);
            }
        }
        mode(0o755);
        // The person's settings may lie elsewhere; nothing else is a link.
        if *variable == "XDG_CONFIG_HOME" {
            continue;
        }
        let elsewhere = world.outside().join("elsewhere");
        std::fs::rename(&dir, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &dir).unwrap();
        for (args, code) in COMMANDS {
            world.forge(args).code(*code).says(&["is a link", variable]);
        }
    }
}

#[test]
fn a_home_that_is_no_absolute_path_is_refused() {
    let world = World::new(&[("golem-forge.config.yaml", CONFIG)]);
    for name in ["HOME", "FORGE_STATE_DIR"] {
        for (args, code) in COMMANDS {
            let mut command = world.command(forge_program(), args);
            command.env_remove("FORGE_STATE_DIR").env(name, "here");
            let ran = ran(command.output().unwrap());
            ran.code(*code)
                .says(&[&format!("invalid {name} `here`"), "absolute"]);
        }
    }
    let left: Vec<_> = world.project().read_dir().unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}
