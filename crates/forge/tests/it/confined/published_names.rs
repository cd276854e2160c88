//! Built-in names where they are nobody's secret and nothing that a program obeys: in dependencies,
//! and in templates. File tools and commands say the same.

use super::exec::mechanisms;
use crate::support::World;

/// A path, whether it is shown, and whether a command may create it.
const ROWS: [(&str, bool, bool); 14] = [
    (".env", false, false),
    (".env.local", false, false),
    (".env.example", true, true),
    ("app/.env.sample", true, true),
    ("app/.env.template", true, true),
    ("app/.env.dist", true, true),
    ("key.pem", false, false),
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
    let world = || World::new(&[("forge.yaml", file), ("ca.pem", "text of it\n")]);
    for mechanism in mechanisms(&world()) {
        for (trust, stays) in [(&[][..], false), (&["--trust"], true)] {
            let world = world();
            let script = "cat ca.pem; mkdir -p .vscode .idea; echo x > .vscode/made; \
                          echo x > .idea/made; echo x > made.pem";
            let args = ["exec", "--mechanism", mechanism, "--", "sh", "-c", script];
            let ran = world.forge(&[trust, &args].concat());
            ran.code(0);
            // Without mounts nothing can be hidden, which the plan says.
            let shown = stays || mechanism == "landlock";
            assert_eq!(ran.stdout.contains("text of it"), shown, "{mechanism}");
            for (path, stays) in [
                (".vscode/made", stays),
                ("made.pem", stays),
                (".idea/made", false),
            ] {
                let made = world.project().join(path).exists();
                assert_eq!(made, stays, "{mechanism} {path}: {}", ran.stderr);
            }
        }
    }
    let world = world();
    let read = ["tools", "call", "read_file", r#"{"path": "/ca.pem"}"#];
    assert!(!world.forge(&read).stdout.contains("text of it"));
    let ran = world.forge(&[&["--trust"], &read[..]].concat());
    assert!(ran.stdout.contains("text of it"), "{}", ran.stderr);
    world
        .forge(&["-c", "sandbox.show=[.git/config]", "check"])
        .code(2)
        .says(&["`.git/config` is none of the built-in names that `show` is about"]);
}
