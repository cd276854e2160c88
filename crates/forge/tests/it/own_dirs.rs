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
