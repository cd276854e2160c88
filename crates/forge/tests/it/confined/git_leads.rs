//! Files that the person's git obeys because a configuration says so: the person's own, that of a
//! repository around the project, in it, or below it. File tools and commands alike.

use std::path::Path;
use std::process::Command;

use super::exec::mechanisms;
use crate::support::World;

/// Where the configuration lies, what it says, and what it makes git obey in the project.
const ROWS: [(&str, &str, &str); 21] = [
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

#[test]
fn what_a_persons_own_configuration_names_is_nobodys() {
    for (place, config, target) in ROWS {
        let world = scene(place, config);
        let call = format!("{{\"path\": \"/{target}\", \"content\": \"evil\\n\"}}");
        let ran = forge(&world, &["tools", "call", "write_file", &call]);
        assert_eq!(ran.code, 1, "{config} {target}");
        ran.says(&["path is read-only"]);
        for mechanism in mechanisms(&world) {
            let world = scene(place, config);
            let around = target.rsplit_once('/').map_or(".", |(around, _)| around);
            let script = format!(
                "mkdir -p {around}; echo evil > {target}; rm -f {target}; echo evil > {target}; true"
            );
            let args = ["exec", "--mechanism", mechanism, "--", "sh", "-c", &script];
            let ran = forge(&world, &args);
            let now = text(&world.project().join(target));
            // Without mounts a file that is there can be written, which is told at once.
            let told = mechanism == "landlock" && ran.stderr.contains("was changed while");
            let kept = told || !now.contains("evil");
            assert!(kept, "{mechanism} {config} {target}: {}", ran.stderr);
        }
        // And what it does not name is as it was.
        let world = scene(place, config);
        let ran = forge(
            &world,
            &["exec", "--", "sh", "-c", "echo free > tools/free"],
        );
        ran.code(0);
        assert_eq!(text(&world.project().join("tools/free")), "free\n");
    }
}
