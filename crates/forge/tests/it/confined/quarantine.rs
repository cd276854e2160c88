//! `forge quarantine`: what a command created under a protected name is listed, and moved back.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use super::exec::{mechanisms, mount_layers};
use super::users::UserWorld;
use crate::support::{Ran, World, eventually, ran};

const PLANTS: &str = "mkdir -p new .vscode; echo 1 > .vscode/tasks.json; echo 2 > new/.mcp.json; \
                      ln -s tasks.json new/.vscode";

fn listed(world: &World) -> Vec<Value> {
    let ran = world.forge(&["quarantine", "list", "--json"]);
    ran.code(0);
    let all: Value = serde_json::from_str(&ran.stdout).unwrap();
    all["entries"].as_array().unwrap().clone()
}

#[test]
fn what_was_taken_is_listed_and_comes_back() {
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
    world.forge(&["quarantine", "list"]).code(0);
    assert_eq!(listed(&world), [] as [Value; 0]);
    for mechanism in mechanisms(&world) {
        let exec = |script: &str, more: &[&str]| -> Ran {
            let first = ["exec", "--mechanism", mechanism];
            let last = ["--", "sh", "-c", script];
            world.forge(&[&first, more, &last].concat())
        };
        let ran = exec(PLANTS, &[]);
        ran.code(0)
            .says(&["quarantined: ", "forge quarantine restore PATH"]);
        let entries = listed(&world);
        let paths: Vec<&str> = entries
            .iter()
            .map(|entry| entry["path"].as_str().unwrap())
            .collect();
        let at = |name: &str| world.project().join(name).to_str().unwrap().to_owned();
        let expected = [at(".vscode"), at("new/.mcp.json"), at("new/.vscode")];
        assert_eq!(paths, expected, "{mechanism}");
        // One of them, from the directory that it was in.
        world
            .forge(&["-C", "new", "quarantine", "restore", ".mcp.json"])
            .code(0);
        let text = std::fs::read_to_string(world.project().join("new/.mcp.json")).unwrap();
        assert_eq!(text, "2\n");
        // Something of the person's is there meanwhile: nothing moves.
        std::fs::create_dir(world.project().join(".vscode")).unwrap();
        std::fs::write(world.project().join(".vscode/tasks.json"), "mine").unwrap();
        let refused = world.forge(&["quarantine", "restore", "--all"]);
        refused.code(1).says(&["exists again", "nothing was moved"]);
        assert!(!world.project().join("new/.vscode").is_symlink());
        std::fs::remove_dir_all(world.project().join(".vscode")).unwrap();
        world.forge(&["quarantine", "restore", "--all"]).code(0);
        assert!(world.project().join("new/.vscode").is_symlink());
        let text = std::fs::read_to_string(world.project().join(".vscode/tasks.json")).unwrap();
        assert_eq!(text, "1\n");
        assert_eq!(listed(&world), [] as [Value; 0], "{mechanism}");
        assert!(!world.project().join(".os-sandbox-quarantine").exists());
        world
            .forge(&["quarantine", "restore", ".vscode"])
            .code(1)
            .says(&["nothing in the quarantine was taken from"]);
        for name in ["new", ".vscode"] {
            std::fs::remove_dir_all(world.project().join(name)).unwrap();
        }
    }
}

/// New files of commands in protected directories that were there before, with no mount over them;
/// the names that are taken, and whether a change of other names is told.
const WITHIN: [(&str, &[&str], bool); 7] = [
    (
        "echo evil > .git/hooks/post-commit; chmod +x .git/hooks/post-commit",
        &[".git/hooks/post-commit"],
        false,
    ),
    (
        "ln -s ../../evil .git/hooks/pre-push",
        &[".git/hooks/pre-push"],
        false,
    ),
    (
        "mkdir -p .claude/a/b; echo evil > .claude/a/b/c",
        &[".claude/a"],
        false,
    ),
    (
        "echo evil > .vscode/in/launch.json",
        &[".vscode/in/launch.json"],
        false,
    ),
    (
        "mv .vscode/in .vscode/out; echo evil > .vscode/tasks.json",
        &[".vscode/out", ".vscode/tasks.json"],
        true,
    ),
    ("echo evil >> .claude/settings.json", &[], true),
    (
        "echo evil > .claude/new; rm .claude/new; touch main.c",
        &[],
        false,
    ),
];

#[test]
fn a_new_name_in_a_protected_directory_is_taken() {
    let scene = || {
        let world = World::new(&[
            (".claude/settings.json", "{}"),
            (".vscode/in/one.json", "{}"),
        ]);
        ran(world
            .command(Path::new("git"), &["init", "-q"])
            .output()
            .unwrap())
        .code(0);
        world
    };
    let world = scene();
    if !mechanisms(&world).contains(&"landlock") {
        return;
    }
    for (script, taken, is_told) in WITHIN {
        let world = scene();
        let all = [
            "exec",
            "--mechanism",
            "landlock",
            "--fail-on-quarantine",
            "--",
            "sh",
            "-c",
            script,
        ];
        let ended = world.forge(&all);
        let is_taken = !taken.is_empty();
        assert_eq!(ended.code != 0, is_taken, "{script}: {}", ended.stderr);
        let paths: Vec<String> = (listed(&world).iter())
            .map(|entry| entry["path"].as_str().unwrap().to_owned())
            .collect();
        let at = |name: &&str| world.project().join(name).to_str().unwrap().to_owned();
        let expected: Vec<String> = taken.iter().map(at).collect();
        assert_eq!(paths, expected, "{script}: {}", ended.stderr);
        let is_noted = ended.stderr.contains("was changed while");
        assert_eq!(is_noted, is_told, "{script}: {}", ended.stderr);
        // The next command finds it as it was before.
        let next = world.forge(&["exec", "--mechanism", "landlock", "--", "true"]);
        next.code(0);
        assert!(!next.stderr.contains("quarantined"), "{}", next.stderr);
    }
}

/// Programs that read the whole project meet no directory that they cannot list.
#[test]
fn a_command_sees_an_empty_quarantine() {
    let world = World::new(&[]);
    let everyday = [
        "cp -a . /tmp/copy",
        "tar cf /tmp/all.tar .",
        "find . -name x",
        "grep -rq second .",
        "git status --porcelain",
        "git add -A",
        "test -z \"$(ls -A .os-sandbox-quarantine)\"",
        "! touch .os-sandbox-quarantine/new",
        "! ls .os-sandbox-quarantine/*",
    ];
    world.forge(&["exec", "git", "init", "-q", "."]).code(0);
    // Landlock alone hides nothing.
    for mechanism in mount_layers(&world) {
        let exec = |script: &str| {
            let flags = ["exec", "--mechanism", mechanism, "--", "sh", "-c", script];
            world.forge(&flags)
        };
        exec("echo second > file; touch .mcp.json").code(0);
        for script in everyday {
            let ran = exec(script);
            assert_eq!(ran.code, 0, "{mechanism}: {script}: {}", ran.stderr);
        }
        let failed = exec("exit 3");
        assert_eq!(failed.stderr, "", "{mechanism}");
    }
    assert!(!listed(&world).is_empty());
}

/// The same name, taken from two commands: which one is meant has to be said.
#[test]
fn two_of_one_name_are_told_apart() {
    let world = World::new(&[]);
    for text in ["first", "second"] {
        let script = format!("echo {text} > .mcp.json");
        world.forge(&["exec", "--", "sh", "-c", &script]).code(0);
    }
    let refused = world.forge(&["quarantine", "restore", ".mcp.json"]);
    refused.code(1).says(&["taken more than once"]);
    let entries = listed(&world);
    let second = entries[1]["quarantined"].as_str().unwrap();
    world.forge(&["quarantine", "restore", second]).code(0);
    let text = std::fs::read_to_string(world.project().join(".mcp.json")).unwrap();
    assert_eq!(text, "second\n");
    assert_eq!(listed(&world).len(), 1);
}

#[test]
fn the_exit_code_tells_of_it_on_request() {
    let world = World::new(&[]);
    let exec = |script: &str| {
        world
            .forge(&["exec", "--fail-on-quarantine", "--", "sh", "-c", script])
            .code
    };
    assert_eq!(exec("true"), 0);
    assert_eq!(exec("exit 7"), 7);
    assert_eq!(exec("touch .mcp.json"), 123);
    assert_eq!(exec("touch .mcp.json; exit 7"), 123);
}

/// The list of a receipt is bounded, and says so.
#[test]
fn a_receipt_counts_the_names_that_it_does_not_list() {
    let world = World::new(&[]);
    let script = "seq 1200 | xargs mkdir; for one in *; do : > $one/.mcp.json; done";
    for mechanism in mechanisms(&world) {
        let flags = ["exec", "--json", "--mechanism", mechanism];
        let ran = world.forge(&[&flags[..], &["--", "sh", "-c", script]].concat());
        ran.code(0);
        let object: Value = serde_json::from_str(&ran.stdout).unwrap();
        let enforced = &object["enforcement"];
        let listed = enforced["quarantined"].as_array().unwrap().len();
        let more = enforced["more_quarantined"].as_u64().unwrap();
        assert_eq!((listed, more), (1000, 200), "{mechanism}");
        std::fs::remove_dir_all(world.project()).unwrap();
        std::fs::create_dir(world.project()).unwrap();
    }
}

/// Where the quarantine cannot be written, a file stays in its directory under another name. It is
/// listed and comes back as every other; a quarantine that cannot be read is not an empty one.
#[test]
fn what_is_not_in_the_quarantine_is_listed_too() {
    let open = |world: &World, name: &str| {
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(world.project().join(name), mode).unwrap();
    };
    for mechanism in mechanisms(&World::new(&[])) {
        for (script, name) in [
            ("echo 1 > .envrc; chmod 500 .", ".envrc"),
            ("mkdir sub; echo 1 > sub/.envrc; chmod 500 .", "sub/.envrc"),
        ] {
            let user = UserWorld::ordinary(|_| {});
            let at = format!("{mechanism} {script}");
            let exec = ["exec", "--mechanism", mechanism, "--", "sh", "-c", script];
            let ran = user.forge(&exec);
            open(&user.world, ".");
            ran.says(&[".envrc"]);
            assert!(
                !user.world.project().join(name).exists(),
                "{at}: {}",
                ran.stderr
            );
            let list = user.forge(&["quarantine", "list", "--json"]);
            let list: Value = serde_json::from_str(&list.stdout).unwrap();
            let origin = user.world.project().join(name);
            assert_eq!(
                list["entries"][0]["path"],
                origin.to_str().unwrap(),
                "{at}: {list}"
            );
            assert_eq!(list["entries"][0]["recorded"], true, "{at}: {list}");
            user.forge(&["quarantine", "restore", name]).code(0);
            assert_eq!(std::fs::read_to_string(origin).unwrap(), "1\n", "{at}");
            let list = user.forge(&["quarantine", "list"]);
            assert!(list.stdout.contains("is empty"), "{at}: {}", list.stdout);
        }
    }
    let user = UserWorld::ordinary(|_| {});
    let quarantine = user.world.project().join(".os-sandbox-quarantine");
    std::fs::create_dir(&quarantine).unwrap();
    std::fs::set_permissions(&quarantine, std::fs::Permissions::from_mode(0o000)).unwrap();
    let list = user.forge(&["quarantine", "list"]);
    open(&user.world, ".os-sandbox-quarantine");
    assert!(!list.stdout.contains("is empty"), "{}", list.stdout);
    list.says(&[".os-sandbox-quarantine: Permission denied", "not listed"]);
}

/// A project's own directory of that name is nothing that leads out of it.
#[test]
fn links_in_the_quarantine_lead_nowhere() {
    let world = World::new(&[]);
    let elsewhere = world.outside().join("elsewhere");
    std::fs::create_dir_all(elsewhere.join("1-2-3/sub")).unwrap();
    std::fs::write(elsewhere.join("1-2-3/secret"), "secret").unwrap();
    let top = world.project().join(".os-sandbox-quarantine");
    std::os::unix::fs::symlink(&elsewhere, &top).unwrap();
    assert_eq!(listed(&world), [] as [Value; 0]);
    std::fs::remove_file(&top).unwrap();
    std::fs::create_dir(&top).unwrap();
    std::os::unix::fs::symlink(elsewhere.join("1-2-3"), top.join("1-2-3")).unwrap();
    assert_eq!(listed(&world), [] as [Value; 0]);
    std::fs::create_dir_all(top.join("4-5-6")).unwrap();
    std::os::unix::fs::symlink(elsewhere.join("1-2-3"), top.join("4-5-6/link")).unwrap();
    let entries = listed(&world);
    assert_eq!(entries.len(), 1);
    world.forge(&["quarantine", "restore", "link"]).code(0);
    assert!(world.project().join("link").is_symlink());
    assert!(elsewhere.join("1-2-3/secret").exists());
}

/// After a person has looked, nothing changes what comes back, and nothing of a command's passes for
/// what forge took.
#[test]
fn what_is_in_the_quarantine_is_what_was_taken() {
    let forged = ".os-sandbox-quarantine/1796000000-000000001-1/src/build.rs";
    for mechanism in mechanisms(&World::new(&[])) {
        let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n"), ("src/a", "")]);
        let exec = |script: &str| {
            let args = ["exec", "--mechanism", mechanism, "--", "sh", "-c", script];
            world.forge(&args).code(0);
        };
        // While there is no quarantine.
        exec(&format!(
            "mkdir -p $(dirname {forged}); echo evil > {forged}"
        ));
        assert_eq!(listed(&world)[0]["recorded"], false);
        let shown = world.forge(&["quarantine", "list"]);
        assert!(
            shown.stdout.contains("a command may have made it"),
            "{shown:?}"
        );
        let all = world.forge(&["quarantine", "restore", "--all"]);
        assert!(
            !world.project().join("src/build.rs").exists(),
            "{mechanism}"
        );
        all.code(0)
            .says(&["no record says that forge moved it there"]);
        std::fs::remove_dir_all(world.project().join(".os-sandbox-quarantine")).unwrap();

        exec("echo taken > .bashrc");
        assert_eq!(listed(&world)[0]["recorded"], true);
        let shown = world.forge(&["quarantine", "list"]);
        assert!(
            !shown.stdout.contains("a command may have made it"),
            "{shown:?}"
        );
        let taken = listed(&world)[0]["quarantined"]
            .as_str()
            .unwrap()
            .to_owned();
        let below = taken.split_once("/project/").unwrap().1;
        for name in [below, forged, "src/.os-sandbox-quarantine/x"] {
            let call = format!("{{\"path\": \"/{name}\", \"content\": \"evil\"}}");
            let ran = world.forge(&["tools", "call", "--yes", "write_file", &call]);
            assert_eq!(ran.code, 1, "{name}: {}", ran.stderr);
            let ran = world.forge(&[
                "tools",
                "call",
                "read_file",
                &format!("{{\"path\": \"/{name}\"}}"),
            ]);
            assert_eq!(ran.code, 1, "{name}: {}", ran.stderr);
        }
        exec(&format!("echo evil > {below}; true"));
        let ran = world.forge(&["quarantine", "restore", ".bashrc"]);
        let now = std::fs::read_to_string(world.project().join(".bashrc")).unwrap_or_default();
        match mechanism {
            "landlock" => drop(ran.code(1).says(&["was changed since it was taken"])),
            _ => drop(ran.code(0)),
        }
        assert!(!now.contains("evil"), "{mechanism}");
    }
}

/// An entry without a record comes back only by its own name, wherever it was planted: in the
/// quarantine, in a directory with such a name, or above the project, where another user can write.
#[test]
fn a_directory_names_nothing_that_was_planted() {
    let mechanism = mechanisms(&World::new(&[]))[0];
    let quarantines = [".os-sandbox-quarantine", ".os-sandbox-quarantine-x"];
    for quarantine in quarantines {
        let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n"), ("src/a", "")]);
        let script = format!(
            "echo taken > src/.envrc; top={quarantine}/1700000000-1-1
            git=$top/src/.git.os-sandbox-quarantined; mkdir -p $git/objects $git/refs
            echo ref: refs/heads/m > $git/HEAD.os-sandbox-quarantined
            echo '[core]' > $git/config; echo evil > $top/.bashrc"
        );
        let args = ["exec", "--mechanism", mechanism, "--", "sh", "-c", &script];
        world.forge(&args).code(0);
        let around = world.outside().join(quarantine).join("1700000000-1-1");
        std::fs::create_dir_all(around.join("project/src/.vscode")).unwrap();
        let project = world.project();
        let planted = ["src/.git", ".bashrc", "src/.vscode"];
        let sweep = format!("{quarantine}/1700000000-1-1");
        for typed in ["src", ".", "src/", &sweep, "src/.vscode", "--all"] {
            world.forge(&["quarantine", "restore", typed]);
            let back: Vec<_> = planted.map(|name| project.join(name)).into();
            assert!(
                !back.iter().any(|path| path.exists()),
                "{quarantine} {typed}"
            );
        }
        assert!(project.join("src/.envrc").exists());
        world
            .forge(&["quarantine", "restore", ".bashrc"])
            .code(0)
            .says(&["a command may have made it"]);
        assert!(project.join(".bashrc").exists());
    }
}

/// Entries that a command can have made itself do not push out those of forge: whatever their names say
/// about their age, and wherever they are.
#[test]
fn forged_entries_push_nothing_out() {
    let mechanism = mechanisms(&World::new(&[]))[0];
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
    let script =
        "mkdir -p d/.vscode; echo 1 >d/.vscode/a; for n in $(seq 20); do echo >.env.$n; done";
    let args = ["exec", "--mechanism", mechanism, "--", "sh", "-c", script];
    world.forge(&args).code(0);
    let real = listed(&world);
    assert!(real.len() > 1, "{real:?}");
    let sweep = real[0]["quarantined"].as_str().unwrap();
    let sweep = sweep.split_once(".os-sandbox-quarantine/").unwrap().1;
    let sweep = sweep.split_once('/').unwrap().0;
    let quarantine = world.project().join(".os-sandbox-quarantine");
    for forged in [
        "1-1-1",
        "2-1-1",
        "9999999999-1-1",
        sweep,
        &format!("{sweep}/d"),
    ] {
        let directory = quarantine.join(forged);
        std::fs::create_dir_all(&directory).unwrap();
        for number in 0..4000 {
            std::fs::write(directory.join(format!("f{number}")), "").unwrap();
        }
    }
    let told = world.forge(&["quarantine", "list", "--json"]);
    let all = listed(&world);
    assert_eq!(
        all[..real.len()],
        real,
        "the entries of forge are not the first"
    );
    assert!(
        all[..real.len()]
            .iter()
            .all(|entry| entry["recorded"] == true)
    );
    told.says(&["more than 10000 entries that forge has no record of"]);
    assert_eq!(all.len(), real.len() + 10_000);
}

/// Names below a directory of the project.
fn names_below(directory: &std::path::Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        names.push(path.display().to_string());
        if path.is_dir() && !path.is_symlink() {
            names.extend(names_below(&path));
        }
    }
    names
}

/// Names of another user, which cannot be moved: a few lines, none of them about a move, and nothing
/// in the quarantine.
#[test]
fn names_that_cannot_be_moved_stay_and_are_counted() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: this needs files of two users");
        return;
    }
    for (count, is_lost, lines) in [(1, true, 1), (200, true, 6), (1, false, 1), (200, false, 6)] {
        let user = UserWorld::ordinary(|_| {});
        let project = user.world.project();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
        std::fs::set_permissions(&project, open).unwrap();
        let script =
            "touch began; i=0; while [ ! -e end ] && [ $i -lt 600 ]; do sleep .1; i=$((i+1)); done";
        let args = ["exec", "--json", "--", "sh", "-c", script];
        let args = if count == 1 {
            &args[..]
        } else {
            &["exec", "--", "sh", "-c", script]
        };
        let mut command = user.command(args);
        command.stdout(std::process::Stdio::piped());
        let child = command.stderr(std::process::Stdio::piped()).spawn();
        let child = child.unwrap();
        eventually("started", || project.join("began").exists());
        for number in 0..count {
            let around = project.join(format!("x{number}"));
            std::fs::create_dir_all(around.join(".vscode")).unwrap();
            if !is_lost {
                for path in [&around, &around.join(".vscode")] {
                    std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
                }
            }
        }
        std::fs::write(project.join("end"), "").unwrap();
        let ran = ran(child.wait_with_output().unwrap());
        ran.code(0);
        if count == 1 {
            let receipt: Value = serde_json::from_str(&ran.stdout).unwrap();
            let found = &receipt["enforcement"]["quarantined"];
            assert_eq!(found.as_array().unwrap().len(), 1, "{receipt}");
            assert_eq!(found[0]["now"].is_null(), is_lost, "{receipt}");
            continue;
        }
        let about = |verb: &str| {
            ran.stderr
                .lines()
                .filter(|line| line.starts_with(verb))
                .count()
        };
        let (moved, left) = if is_lost { (0, lines) } else { (lines, 0) };
        assert_eq!(about("quarantined: "), moved, "{}", ran.stderr);
        assert_eq!(about("left in place: "), left, "{}", ran.stderr);
        let total = if is_lost {
            "left in place: 195 more"
        } else {
            "quarantined: 195 more"
        };
        ran.says(&[total]);
        assert!(
            ran.stderr.len() < 3_000,
            "{} bytes: {}",
            ran.stderr.len(),
            ran.stderr
        );
        let warnings = ran
            .stderr
            .lines()
            .filter(|line| line.starts_with("warning: "));
        assert_eq!(warnings.count(), usize::from(is_lost), "{}", ran.stderr);
        let kept = names_below(&project.join(".os-sandbox-quarantine"));
        assert_eq!(kept.is_empty(), is_lost, "{kept:?}");
        assert_eq!(project.join("x0/.vscode").exists(), is_lost);
    }
}

/// What is discarded is gone, and nobody is taken to have agreed.
#[test]
fn discarding_needs_a_yes_and_removes_for_good() {
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
    world.forge(&["exec", "--", "sh", "-c", PLANTS]).code(0);
    assert_eq!(listed(&world).len(), 3);
    let refused = world.forge(&["quarantine", "discard", "--all"]);
    refused.code(3).says(&["nobody can be asked", "--yes"]);
    assert_eq!(listed(&world).len(), 3);
    world.forge(&["quarantine", "discard"]).code(2);
    world
        .forge(&["quarantine", "discard", "absent", "--yes"])
        .code(1);
    world
        .forge(&["quarantine", "discard", ".vscode", "--yes"])
        .code(0);
    assert_eq!(listed(&world).len(), 2);
    world
        .forge(&["quarantine", "discard", "new", "--yes"])
        .code(0);
    assert_eq!(listed(&world), [] as [Value; 0]);
    assert!(!world.project().join(".os-sandbox-quarantine").exists());
    assert!(world.project().join("new").is_dir());
    let empty = world.forge(&["quarantine", "discard", "--all", "--yes"]);
    assert_eq!(empty.code(0).stdout, "The quarantine is empty.\n");
}

/// A project file with mistakes stands between no person and their files.
#[test]
fn a_broken_project_file_keeps_nothing_back() {
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
    let script = "mkdir .vscode && touch .vscode/a .mcp.json .envrc";
    world.forge(&["exec", "--", "sh", "-c", script]).code(0);
    world.write("forge.yaml", "sandbox: [\n");
    world
        .forge(&["quarantine", "list"])
        .code(0)
        .says(&["warning: the project file has mistakes", "forge check"]);
    assert_eq!(listed(&world).len(), 3);
    world.forge(&["quarantine", "restore", ".mcp.json"]).code(0);
    assert!(world.project().join(".mcp.json").exists());
    world
        .forge(&["quarantine", "discard", "--yes", ".envrc"])
        .code(0);
    assert_eq!(listed(&world).len(), 1);
    let path = world.forge(&["config", "path"]);
    assert!(path.code(0).stdout.contains("forge.yaml"), "{path:?}");
    world.write(".sandbox/workspace/made", "");
    world.forge(&["clean"]).code(0).says(&["has mistakes"]);
    assert!(!world.project().join(".sandbox/workspace/made").exists());
    world.forge(&["exec", "--", "true"]).code(125);
}
