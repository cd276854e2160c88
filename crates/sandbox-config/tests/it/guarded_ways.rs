//! A name that is guarded in every project is guarded under whatever other name a project file
//! shows it: the way from the project to a mount counts.

use file_sandbox::SandboxPath;
use sandbox_config::{Diagnostics, Project, TrustedSettings, load};

use crate::support::{Scratch, codes};

/// What lies in the project, and is somebody's own.
const FILES: [&str; 5] = [
    ".git/config",
    ".git/hooks/pre-commit",
    ".ssh/id_rsa",
    ".vscode/tasks.json",
    "src/.env.d/key",
];

fn scene(yaml: &str) -> Scratch {
    let scene = Scratch::with_config(yaml)
        .dir(".git/info")
        .dir("src/.ENV.d");
    FILES
        .iter()
        .fold(scene, |scene, file| scene.file(file, "mine"))
}

/// With a person's yes to everything, which is no yes to this.
fn trusting(scene: &Scratch) -> Result<Project, Diagnostics> {
    let mut sources = scene.sources();
    sources.trust = TrustedSettings::Given;
    load(&sources)
}

#[test]
fn a_mount_in_a_guarded_name_is_a_mistake() {
    for yaml in [
        "sandbox: { paths: { h: { root: ./.git/hooks, mode: rw } } }",
        "sandbox: { paths: { s: { root: ./.ssh } } }",
        "sandbox: { paths: { s: { root: ./src/.env.d } } }",
        "sandbox: { paths: { s: { root: ./src/.ENV.d } } }",
        "sandbox: { root: .git/hooks }",
        "sandbox: { mounts: [{ source: .git/hooks, target: / }] }",
        "sandbox: { mode: direct, zones: { v: { path: .vscode } } }",
        "sandbox: { write_paths: [.git/info] }",
        "sandbox: { root: .ssh, zones: { a: { path: a } } }",
        "sandbox: { paths: { d: { root: ./src, mode: rw } }, protect: [src] }",
    ] {
        let scene = scene(yaml);
        let mistakes = trusting(&scene).expect_err(yaml);
        assert_eq!(codes(&mistakes), ["config.host_path"], "{yaml}\n{mistakes}");
    }
}

#[test]
fn what_is_left_of_a_guard_counts_below_the_mount() {
    for (yaml, at) in [
        (
            "sandbox: { paths: { g: { root: ./.git, mode: rw } } }",
            "/g",
        ),
        ("sandbox: { root: .git }", ""),
        ("sandbox: { mounts: [{ source: .git, target: / }] }", ""),
        (
            "sandbox: { mode: direct, zones: { g: { path: .git } } }",
            "/g",
        ),
    ] {
        let scene = scene(yaml);
        let project = trusting(&scene).expect(yaml);
        let files = project.ceiling().files(cap_std::ambient_authority());
        let files = files.unwrap().unwrap();
        let can_write =
            |name: &str| files.can_write(&SandboxPath::parse(&format!("{at}{name}")).unwrap());
        for name in ["/config", "/CONFIG", "/hooks/pre-commit", "/info/exclude"] {
            assert!(!can_write(name), "{yaml} {name}");
        }
        assert!(can_write("/description"), "{yaml}");
        let policy = project.ceiling().policy().expect(yaml);
        for name in ["config", "hooks/pre-commit"] {
            let host = scene.path().join(".git").join(name);
            assert!(
                !policy.allows(&host, os_sandbox::Access::WRITE),
                "{yaml} {name}"
            );
        }
    }
}

/// Reading what is only protected is nobody's harm.
#[test]
fn a_read_only_mount_may_lie_in_a_protected_name() {
    let scene = scene("sandbox: { paths: { h: { root: ./.git/hooks } } }");
    let project = trusting(&scene).unwrap();
    assert_eq!(project.ceiling().mounts().count(), 1);
}
