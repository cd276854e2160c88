//! Forge's own directories are in no mount, and no mount lies in one, however either is written.

use sandbox_config::{ReservedPath, WithoutDirectories, load};

use crate::support::Scratch;

/// What a project in `project` shows, where forge's own lies (below the same directory), and what
/// is said.
#[test]
fn no_mount_holds_what_is_forges_own_or_lies_in_it() {
    let scratch = Scratch::new()
        .dir("home/project/data")
        .dir("home/.local/state/forge/in")
        .dir("home/elsewhere")
        .dir("home/project/deep/state")
        .link("../../elsewhere", "home/project/data/link")
        .link("project/deep", "home/shortcut")
        .link("nowhere/yet", "home/project/dangling");
    let root = |dir: &str| format!("sandbox: {{ root: {dir} }}\n");
    let zone = |dir: &str, mode: &str| {
        format!("sandbox:\n  mode: direct\n  zones:\n    data: {{ path: {dir}, mode: {mode} }}\n")
    };
    for (config, own, expected) in [
        (root("."), "home/.local/state/forge", None),
        (zone("..", "rw"), "home/.local/state/forge", Some("holds")),
        (
            zone("../.local", "rw"),
            "home/.local/state/forge",
            Some("holds"),
        ),
        (
            zone("../.local", "ro"),
            "home/.local/state/forge",
            Some("holds"),
        ),
        (
            zone("../.local/state/forge", "rw"),
            "home/.local/state/forge",
            Some("holds"),
        ),
        (
            zone("../.local/state/forge/in", "rw"),
            "home/.local/state/forge",
            Some("lies in"),
        ),
        // What is not there yet.
        (zone("..", "rw"), "home/.config/forge", Some("holds")),
        (root("."), "home/.config/forge", None),
        (zone("./new", "rw"), "home/project/new/state", Some("holds")),
        (zone("./new", "rw"), "home/project/NEW/State", Some("holds")),
        (
            zone("./new/state/in", "rw"),
            "home/project/new/state",
            Some("lies in"),
        ),
        (zone("./new", "rw"), "home/project/newer", None),
        // By way of links.
        (root("."), "home/shortcut/state", Some("holds")),
        (root("."), "home/shortcut/state/not/yet", Some("holds")),
        (
            zone("./data", "rw"),
            "home/project/data/link/forge",
            Some("holds a link that leads to"),
        ),
        (zone("./data", "ro"), "home/project/data/link/forge", None),
        (
            zone("./nowhere", "rw"),
            "home/project/dangling/forge",
            Some("holds"),
        ),
        (
            zone("./data", "rw"),
            "home/project/../project/data/x",
            Some("holds"),
        ),
    ] {
        let project = scratch.path().join("home/project");
        let config_file = project.join(crate::support::CONFIG);
        std::fs::write(&config_file, &config).unwrap();
        let mut sources = sandbox_config::Sources::new(&project);
        sources.trust = sandbox_config::TrustedSettings::Given;
        let own = scratch.path().join(own);
        sources.out_of_reach = vec![ReservedPath::new(&own, "forge's state", "FORGE_STATE_DIR")];
        let said = load(&sources).err().map(|mistakes| {
            let first = mistakes.iter().next().unwrap();
            assert_eq!(first.code().as_str(), "config.own_directory", "{mistakes}");
            assert!(first.line().is_some(), "{mistakes}");
            assert!(first.help_text().unwrap().contains("FORGE_STATE_DIR"));
            first.message().to_owned()
        });
        match (expected, &said) {
            (None, None) => {}
            (Some(verb), Some(said)) => {
                let text = format!(" {verb} forge's state {}", own.display());
                assert!(said.contains(&text), "{config}{said}");
            }
            (_, _) => panic!("{config}{}: {said:?}", own.display()),
        }
    }
}

#[test]
fn a_directory_without_a_project_file_is_no_exception() {
    let scratch = Scratch::new();
    let mut sources = scratch.sources();
    sources.without_directories = WithoutDirectories::WholeDirectory;
    sources.out_of_reach = vec![ReservedPath::new(scratch.path().join("s"), "state", "VAR")];
    assert!(load(&sources).is_err());
    sources.without_directories = WithoutDirectories::DefaultZones;
    assert!(load(&sources).is_ok());
}

/// A worker of the old form brings its own directories.
#[test]
fn directories_that_a_worker_brings_are_held_to_the_same() {
    let scratch = Scratch::new().file("program.yaml", "name: p\n").file(
        "workers/w.worker",
        "---\nname: w\nsandbox:\n  paths:\n    all: { root: ./data, mode: rw }\n---\nBody.\n",
    );
    let mut sources = scratch.sources();
    sources.trust = sandbox_config::TrustedSettings::Given;
    assert!(load(&sources).unwrap().worker("w").is_ok());
    let own = scratch.path().join("data/state");
    sources.out_of_reach = vec![ReservedPath::new(own, "state", "VAR")];
    let refused = load(&sources).unwrap().worker("w").unwrap_err();
    let codes: Vec<&str> = refused.iter().map(|one| one.code().as_str()).collect();
    assert!(codes.contains(&"config.own_directory"), "{refused}");
}

#[test]
fn a_socket_of_forges_own_cannot_be_named() {
    let scratch = Scratch::new().dir("run/forge");
    let socket = scratch.path().join("run/forge/ab/1.sock");
    let text = format!("sandbox: {{ unix_sockets: [{}] }}\n", socket.display());
    std::fs::write(scratch.path().join(crate::support::CONFIG), text).unwrap();
    let mut sources = scratch.sources();
    sources.trust = sandbox_config::TrustedSettings::Given;
    assert!(load(&sources).is_ok());
    let own = scratch.path().join("run/forge");
    sources.out_of_reach = vec![ReservedPath::new(own, "the queue", "XDG_RUNTIME_DIR")];
    let refused = load(&sources).unwrap_err();
    let first = refused.iter().next().unwrap();
    assert_eq!(first.code().as_str(), "config.own_directory");
}
