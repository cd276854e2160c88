//! Built-in names where they are nobody's secret and nothing that a program obeys: in dependencies,
//! and in templates. File tools and commands say the same.

use super::exec::mechanisms;
use crate::support::World;

const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n";
const CERT: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

/// A path, whether it is shown, and whether a command may create it.
const ROWS: [(&str, bool, bool); 13] = [
    (".env", false, false),
    (".env.local", false, false),
    (".env.example", true, true),
    ("app/.env.sample", true, true),
    ("app/.env.template", true, true),
    ("app/.env.dist", true, true),
    (".venv/lib/certifi/cacert.pem", true, true),
    ("node_modules/pkg/.vscode/settings.json", true, true),
    ("node_modules/pkg/.env", true, true),
    ("vendor/pkg/.idea/x.xml", true, true),
    ("node_modules/pkg/.envrc", true, false),
    ("node_modules/pkg/.git/hooks/post-commit", true, false),
    (".vscode/settings.json", true, false),
];

#[test]
fn what_others_published_is_shown_and_stays() {
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
    for (path, ..) in ROWS {
        world.write(path, "text of it\n");
    }
    for (path, shown, _) in ROWS {
        let call = format!("{{\"path\": \"/{path}\"}}");
        let ran = world.forge(&["tools", "call", "read_file", &call]);
        assert_eq!(
            ran.stdout.contains("text of it"),
            shown,
            "{path}: {}",
            ran.stdout
        );
    }
    for mechanism in mechanisms(&world) {
        for (path, shown, _) in ROWS {
            // Without mounts nothing can be hidden, which the plan says.
            let shown = shown || mechanism == "landlock";
            let ran = world.forge(&["exec", "--mechanism", mechanism, "--", "cat", path]);
            assert_eq!(ran.stdout == "text of it\n", shown, "{mechanism} {path}");
        }
    }
    for (path, _, stays) in ROWS {
        for mechanism in mechanisms(&world) {
            let world = World::new(&[]);
            let (around, _) = path.rsplit_once('/').unwrap_or((".", path));
            std::fs::create_dir_all(world.project().join("app")).unwrap();
            let script = format!("mkdir -p {around} && echo made > {path}");
            let args = ["exec", "--mechanism", mechanism, "--", "sh", "-c", &script];
            let ran = world.forge(&args);
            ran.code(0);
            let there = world.project().join(path).exists();
            assert_eq!(there, stays, "{mechanism} {path}: {}", ran.stderr);
        }
    }
}

#[test]
fn a_built_in_name_is_overridden_by_name_and_with_a_yes() {
    let file = "sandbox: { root: ., show: [\"*.pem\"], unprotect: [.vscode, \"*.pem\"] }\n";
    let world = || World::new(&[("forge.yaml", file), ("ca.pem", KEY)]);
    for mechanism in mechanisms(&world()) {
        for (trust, stays) in [(&[][..], false), (&["--trust"], true)] {
            let world = world();
            let script = "cat ca.pem; mkdir -p .vscode .idea; echo x > .vscode/made; \
                          echo x > .idea/made; (echo x >> ca.pem); true";
            let args = ["exec", "--mechanism", mechanism, "--", "sh", "-c", script];
            let ran = world.forge(&[trust, &args].concat());
            ran.code(0);
            // Without mounts nothing can be hidden, which the plan says.
            let shown = stays || mechanism == "landlock";
            assert_eq!(ran.stdout.contains("PRIVATE KEY"), shown, "{mechanism}");
            let text = std::fs::read_to_string(world.project().join("ca.pem")).unwrap();
            assert_eq!(text != KEY, shown, "{mechanism}");
            for (path, stays) in [(".vscode/made", stays), (".idea/made", false)] {
                let made = world.project().join(path).exists();
                assert_eq!(made, stays, "{mechanism} {path}: {}", ran.stderr);
            }
        }
    }
    let world = world();
    let read = ["tools", "call", "read_file", r#"{"path": "/ca.pem"}"#];
    assert!(!world.forge(&read).stdout.contains("PRIVATE KEY"));
    let ran = world.forge(&[&["--trust"], &read[..]].concat());
    assert!(ran.stdout.contains("PRIVATE KEY"), "{}", ran.stderr);
    world
        .forge(&["-c", "sandbox.show=[.git/config]", "check"])
        .code(2)
        .says(&["`.git/config` is none of the built-in names that `show` is about"]);
}

/// A path, what the file holds, and whether that is shown.
const PEM: [(&str, &str, bool); 6] = [
    ("cert.pem", CERT, true),
    ("certs/ca.PEM", CERT, true),
    ("key.pem", KEY, false),
    (
        "certs/both.pem",
        "-----BEGIN CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\n",
        false,
    ),
    ("binary.pem", "\0\u{1}", false),
    ("key.txt", KEY, true),
];

fn pem_world() -> World {
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
    for (path, text, _) in PEM {
        world.write(path, text);
    }
    std::os::unix::fs::symlink("cert.pem", world.project().join("link.pem")).unwrap();
    std::os::unix::fs::symlink("key.pem", world.project().join("to_key.pem")).unwrap();
    world
}

#[test]
fn pem_files_are_judged_by_their_content() {
    let world = pem_world();
    for (path, text, shown) in PEM
        .iter()
        .chain(&[("link.pem", CERT, true), ("to_key.pem", KEY, false)])
    {
        let call = format!("{{\"path\": \"/{path}\"}}");
        let ran = world.forge(&["tools", "call", "read_file", &call]);
        let word = text
            .split('-')
            .find(|word| word.contains("BEGIN"))
            .unwrap_or("\0");
        assert_eq!(ran.stdout.contains(word), *shown, "{path}: {}", ran.stdout);
    }
    for mechanism in mechanisms(&world) {
        // Without mounts nothing can be hidden or kept, which the plan says.
        let keeps = mechanism != "landlock";
        for (path, text, shown) in PEM {
            let world = pem_world();
            let run = |words: &[&str]| {
                world.forge(&[&["exec", "--mechanism", mechanism, "--"], words].concat())
            };
            assert_eq!(
                run(&["cat", path]).stdout == text,
                shown || !keeps,
                "{mechanism} {path}"
            );
            let write = format!("echo more >> {path}");
            run(&["sh", "-c", &write]);
            let now = std::fs::read_to_string(world.project().join(path)).unwrap();
            assert_eq!(now != text, shown || !keeps, "{mechanism} {path}");
        }
        let world = pem_world();
        let script = format!(
            "printf %s '{CERT}' > new.pem; printf %s '{KEY}' > made.pem; mkdir dir; \
             ln -s ../key.txt dir/new.pem; ln -sf cert.pem to_key.pem; rm link.pem; rm cert.pem"
        );
        let ran = world.forge(&["exec", "--mechanism", mechanism, "--", "sh", "-c", &script]);
        ran.code(0);
        for (path, stays) in [
            ("new.pem", true),
            ("made.pem", true),
            ("dir/new.pem", true),
            ("link.pem", false),
            ("cert.pem", false),
        ] {
            let there = world.project().join(path).symlink_metadata().is_ok();
            assert_eq!(there, stays, "{mechanism} {path}: {}", ran.stderr);
        }
        // What led to a key leads there again.
        let led = std::fs::read_link(world.project().join("to_key.pem")).unwrap();
        assert_eq!(
            led,
            std::path::Path::new("key.pem"),
            "{mechanism}: {}",
            ran.stderr
        );
        // From the next start on, a key is a key.
        let ran = world.forge(&["exec", "--mechanism", mechanism, "--", "cat", "made.pem"]);
        assert_eq!(ran.stdout == KEY, !keeps, "{mechanism}");
    }
}
