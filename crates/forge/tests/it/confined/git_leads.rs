//! Files that the person's git obeys because a configuration says so: the person's own, that of a
//! repository around the project, in it, or below it. File tools and commands alike.

use std::path::Path;
use std::process::Command;

use super::exec::mechanisms;
use crate::support::World;

/// Where the configuration lies, what it says, and what it makes git obey in the project.
const ROWS: [(&str, &str, &str); 26] = [
    (
        "home",
        "[core]\n\thooksPath = .githooks\n",
        ".githooks/pre-commit",
    ),
    (
        "home",
        "[core]\n\thooksPath = .githooks\n",
        "nested/.githooks/post-commit",
    ),
    (
        "home",
        "[core]\n\thooksPath = \"PROJECT/tools/hooks\"\n",
        "tools/hooks/pre-commit",
    ),
    (
        "home",
        "[include]\n\tpath = \"PROJECT/conf/git\"\n",
        "conf/git",
    ),
    ("home", "[alias]\n\tst = \"!sh tools/st\"\n", "tools/st"),
    (
        "around",
        "[core]\n\thooksPath = project/tools/hooks\n",
        "tools/hooks/pre-commit",
    ),
    (
        "around",
        "[filter \"x\"]\n\tclean = project/tools/st\n",
        "tools/st",
    ),
    ("own", "[core]\n\tfsmonitor = $PWD/tools/st\n", "tools/st"),
    (
        "own",
        "[core]\n\tfsmonitor = \"\\\"$PWD\\\"/tools/st\"\n",
        "tools/st",
    ),
    (
        "own",
        "[filter \"x\"]\n\tclean = \"\\\"$(git rev-parse --show-toplevel)/tools/st\\\"\"\n",
        "tools/st",
    ),
    ("own", "[core]\n\tsshCommand = ssh -Ftools/st\n", "tools/st"),
    ("own", "[alias]\n\tx = !cd tools && ./st\n", "tools/st"),
    (
        "own",
        "[alias]\n\tx = \"!f() { cd tools; . ./st; }; f\"\n",
        "tools/st",
    ),
    ("own", "[difftool \"d\"]\n\tpath = tools/st\n", "tools/st"),
    ("own", "[mergetool \"d\"]\n\tpath = tools/st\n", "tools/st"),
    ("own", "[guitool \"d\"]\n\tcmd = sh tools/st\n", "tools/st"),
    ("own", "[man \"d\"]\n\tcmd = tools/st\n", "tools/st"),
    ("own", "[man \"d\"]\n\tpath = tools/st\n", "tools/st"),
    ("own", "[tar \"d\"]\n\tcommand = tools/st\n", "tools/st"),
    ("own", "[imap]\n\ttunnel = tools/st\n", "tools/st"),
    ("own", "[gc]\n\trecentObjectsHook = tools/st\n", "tools/st"),
    ("own", "[hook \"d\"]\n\tcommand = tools/st\n", "tools/st"),
    ("own", "[remote \"d\"]\n\turl = ext::tools/st\n", "tools/st"),
    (
        "own",
        "[url \"ext::tools/st \"]\n\tinsteadOf = foo:\n",
        "tools/st",
    ),
    (
        "own",
        "[core]\n\thooksPath = .husky/_\n",
        ".husky/pre-commit",
    ),
    (
        "nested",
        "[core]\n\tfsmonitor = tools/st\n",
        "nested/tools/st",
    ),
];

fn scene(place: &str, config: &str) -> World {
    let world = World::new(&[
        ("forge.yaml", "sandbox: { root: . }\n"),
        ("tools/st", "exit 0\n"),
        ("conf/git", "[user]\n\tname = n\n"),
        ("nested/tools/st", "exit 0\n"),
        (".husky/pre-commit", "exit 0\n"),
    ]);
    let config = config.replace("PROJECT", world.project().to_str().unwrap());
    let file = match place {
        "home" => world.outside().join("home/.gitconfig"),
        _ => {
            let around = match place {
                "own" => world.project().join(".git"),
                "nested" => world.project().join("nested/.git"),
                _ => world.project().parent().unwrap().join(".git"),
            };
            for name in ["objects", "refs"] {
                std::fs::create_dir_all(around.join(name)).unwrap();
            }
            std::fs::write(around.join("HEAD"), "ref: refs/heads/main\n").unwrap();
            around.join("config")
        }
    };
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    // git reads on after a byte that is not UTF-8.
    let comment = if place == "nested" {
        &b"# J\xfcrgen\n"[..]
    } else {
        b""
    };
    std::fs::write(file, [comment, config.as_bytes()].concat()).unwrap();
    world
}

fn forge(world: &World, args: &[&str]) -> crate::support::Ran {
    let mut command: Command = world.command(crate::support::forge_program(), args);
    command.env("HOME", world.outside().join("home"));
    crate::support::ran(command.output().unwrap())
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// A file that file tools and commands must not change, nor create.
fn check(scene: &dyn Fn() -> World, told: &str, target: &str) {
    let world = scene();
    let was = text(&world.project().join(target));
    let call = format!("{{\"path\": \"/{target}\", \"content\": \"evil\\n\"}}");
    let ran = forge(&world, &["tools", "call", "write_file", &call]);
    assert_eq!(ran.code, 1, "{told} {target}");
    ran.says(&["path is read-only"]);
    assert_eq!(text(&world.project().join(target)), was);
    let world = scene();
    let script = format!("mkdir -p $(dirname {target}); echo evil > {target}");
    forge(&world, &["exec", "--review", "--", "sh", "-c", &script]);
    forge(&world, &["review", "apply"]);
    let now = text(&world.project().join(target));
    assert!(!now.contains("evil"), "review: {told} {target}");
    for mechanism in mechanisms(&world) {
        let world = scene();
        let around = target.rsplit_once('/').map_or(".", |(around, _)| around);
        let script = format!(
            "mkdir -p {around}; echo evil > {target}; rm -f {target}; echo evil > {target}; true"
        );
        let args = ["exec", "--mechanism", mechanism, "--", "sh", "-c", &script];
        let ran = forge(&world, &args);
        let now = text(&world.project().join(target));
        // Without mounts a file that is there can be written, which is told at once.
        let is_told = mechanism == "landlock" && ran.stderr.contains("was changed while");
        let kept = is_told || !now.contains("evil");
        assert!(kept, "{mechanism} {told} {target}: {}", ran.stderr);
    }
}

#[test]
fn what_a_configuration_names_is_nobodys() {
    for (place, config, target) in ROWS {
        check(&|| scene(place, config), config, target);
    }
    // And what it does not name is as it was.
    let world = scene(ROWS[0].0, ROWS[0].1);
    let args = ["exec", "--", "sh", "-c", "echo free > tools/free"];
    forge(&world, &args).code(0);
    assert_eq!(text(&world.project().join("tools/free")), "free\n");
}

/// The repository is around the project: its hooks are links into it, and what it names is not
/// there yet.
#[test]
fn what_a_repository_around_leads_to_is_nobodys() {
    for (place, config, link, target) in [
        ("around", "", ".git/hooks/pre-commit", "tools/st"),
        (
            "around",
            "[core]\n\thooksPath = hk\n",
            "hk/pre-commit",
            "tools/st",
        ),
        (
            "around",
            "[core]\n\tfsmonitor = project/tools/new\n",
            "",
            "tools/new",
        ),
        ("home", "[core]\n\tfsmonitor = tools/new\n", "", "tools/new"),
        (
            "around",
            "[filter \"x\"]\n\tclean = evil\n",
            "",
            "tools/.gitattributes",
        ),
    ] {
        let scene = || {
            let world = scene(place, config);
            if !link.is_empty() {
                let link = world.project().parent().unwrap().join(link);
                std::fs::create_dir_all(link.parent().unwrap()).unwrap();
                std::os::unix::fs::symlink(world.project().join(target), link).unwrap();
            }
            world
        };
        check(&scene, &format!("{config} {link}"), target);
    }
}

/// A read-only mount has the repository, and a writable one what its hook leads to.
#[test]
fn a_hook_in_a_read_only_mount_leads_to_a_writable_one() {
    let world = World::new(&[
        (
            "forge.yaml",
            "sandbox: { paths: { repo: { root: ./repo, mode: ro }, scripts: { root: ./scripts, mode: rw } } }\n",
        ),
        ("repo/.git/HEAD", "ref: refs/heads/main\n"),
        ("repo/.git/objects/x", ""),
        ("repo/.git/refs/x", ""),
        ("repo/.git/hooks/x", ""),
        ("scripts/st", "exit 0\n"),
    ]);
    let hook = world.project().join("repo/.git/hooks/pre-commit");
    std::os::unix::fs::symlink("../../../scripts/st", hook).unwrap();
    for mechanism in mechanisms(&world) {
        let script = "cd /scripts || cd scripts; echo evil > st";
        let args = ["exec", "--mechanism", mechanism, "--", "sh", "-c", script];
        let ran = forge(&world, &args);
        let is_told = mechanism == "landlock" && ran.stderr.contains("was changed while");
        let now = text(&world.project().join("scripts/st"));
        assert!(is_told || now == "exit 0\n", "{mechanism}: {}", ran.stderr);
    }
}
