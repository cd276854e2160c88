//! Repositories that a command makes where nobody looks for one: the person's next git in the
//! project must not obey their configuration.

use std::path::Path;
use std::process::Command;

use super::exec::mechanisms;
use crate::support::World;

/// Where the command makes the directory of a repository.
const PLACES: [&str; 24] = [
    "e",
    "x.pem",
    "x.pem/e",
    "new/.env1",
    "new/.env1/e",
    ".os-sandbox-quarantine/e",
    ".os-sandbox-quarantine/1-2-3/e",
    ".git/objects/e",
    ".git/objects/aa",
    ".git/objects/info/e",
    ".git/objects/e/f",
    ".git/logs/e",
    ".git/logs/refs/e",
    ".git/refs/heads/e",
    ".git/reftable/e",
    ".git/rr-cache/e",
    ".git/lost-found/e",
    ".git/lfs/objects/e",
    ".git/lfs/tmp/e",
    ".git/locked",
    ".git/gc.pid",
    ".git/ORIG_HEAD",
    ".git/tmp_x",
    ".git/index.d",
];

/// `$1`: the place. `$2`: the file that git creates when it obeys.
const MAKE: &str = "set -e
    rm -rf \"$1\"; mkdir -p \"$1/objects\" \"$1/refs\"; echo 'ref: refs/heads/main' > \"$1/HEAD\"
    printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tfsmonitor = touch %s;false\\n' \"$2\" > \"$1/config\"";

/// How the person's git comes to it.
const WAYS: [&str; 3] = [
    // A module.
    "mkdir sub; echo \"gitdir: ../$1\" > sub/.git
     git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub",
    "mkdir sub; ln -s \"../$1\" sub/.git
     git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub",
    // A remote, whose hooks a push runs.
    "mkdir -p \"$1/hooks\"; printf '#!/bin/sh\\ntouch %s\\n' \"$2\" > \"$1/hooks/pre-receive\"
     chmod +x \"$1/hooks/pre-receive\"
     git remote add b \"./$1\" && git config branch.main.remote b
     git config branch.main.merge refs/heads/main || true",
];

fn git(world: &World, args: &[&str]) -> Command {
    let mut git = world.command(Path::new("git"), args);
    git.env("GIT_CONFIG_NOSYSTEM", "1");
    git
}

/// Runs git in the project as the person does.
fn person(world: &World) {
    for args in [&["status"][..], &["diff"], &["push"]] {
        let _ = git(world, args).output().unwrap();
    }
}

fn scene() -> World {
    let world = World::new(&[("file", "text\n")]);
    for args in [
        &["init", "-q", "-b", "main"][..],
        &["config", "user.name", "n"],
        &["config", "user.email", "n@example.com"],
        &["add", "file"],
        &["commit", "-q", "-m", "first"],
    ] {
        assert!(git(&world, args).status().unwrap().success(), "{args:?}");
    }
    world
}

#[test]
fn no_directory_of_a_command_becomes_a_repository_that_is_obeyed() {
    let probe = World::new(&[]);
    let mut escaped = Vec::new();
    for mechanism in mechanisms(&probe) {
        for (at, place) in PLACES.iter().enumerate() {
            for (number, way) in WAYS.iter().enumerate() {
                // What is looked at is the same under both: one way for each place is enough.
                if mechanism == "landlock" && at % WAYS.len() != number {
                    continue;
                }
                let world = scene();
                let obeyed = world.outside().join("obeyed");
                let script = format!("{MAKE}\n{way}");
                let obeyed_text = obeyed.to_str().unwrap();
                let all = [
                    "exec",
                    "--mechanism",
                    mechanism,
                    "--",
                    "sh",
                    "-c",
                    &script,
                    "sh",
                    place,
                    obeyed_text,
                ];
                let ran = world.forge(&all);
                person(&world);
                if obeyed.exists() {
                    escaped.push(format!("{mechanism} {place} way {number}: {}", ran.stderr));
                }
            }
        }
    }
    assert!(escaped.is_empty(), "{}", escaped.join("\n"));
}

/// The same words of a person are obeyed: the test can fail.
#[test]
fn what_a_person_makes_is_obeyed() {
    for way in WAYS {
        let world = scene();
        let obeyed = world.outside().join("obeyed");
        let script = format!("{MAKE}\n{way}");
        let args = ["-c", &script, "sh", "e", obeyed.to_str().unwrap()];
        let made = world.command(Path::new("sh"), &args).output().unwrap();
        let told = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success(), "{told}");
        person(&world);
        assert!(obeyed.exists(), "{way}: {told}");
    }
}

/// The configuration of a module is judged as that of a repository is.
#[test]
fn a_module_is_configured_as_a_repository_is() {
    let world = scene();
    let module = world.outside().join("module");
    let module = module.to_str().unwrap();
    let from = world.project().to_str().unwrap().to_owned();
    let allowed = ["-c", "protocol.file.allow=always"];
    assert!(
        git(&world, &["clone", "-q", &from, module])
            .status()
            .unwrap()
            .success()
    );
    let add = [
        &allowed[..],
        &["submodule", "--quiet", "add", module, "sub"],
    ]
    .concat();
    assert!(git(&world, &add).status().unwrap().success());
    let config = world.project().join(".git/modules/sub/config");
    for mechanism in mechanisms(&world) {
        for (setting, stays) in [("user.name", true), ("core.fsmonitor", false)] {
            let was = std::fs::read_to_string(&config).unwrap();
            let set = ["git", "-C", "sub", "config", setting, "evil"];
            let ran = world.forge(&[&["exec", "--mechanism", mechanism, "--"][..], &set].concat());
            let now = std::fs::read_to_string(&config).unwrap();
            assert_eq!(
                now.contains("evil"),
                stays,
                "{mechanism} {setting}: {}",
                ran.stderr
            );
            std::fs::write(&config, was).unwrap();
        }
    }
}
