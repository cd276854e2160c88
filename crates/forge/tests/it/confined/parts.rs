//! Workers that are restricted to a part of the project, from outside: their commands see the part
//! under the names that their file tools use, from the working directory, and nothing around it.

use crate::confined::exec::mechanisms;
use crate::support::{Ran, World};

const FILE: &str = "golem-forge.config.yaml";

struct Part {
    project: &'static str,
    /// Of the worker.
    sandbox: &'static str,
    /// Where the part is, from the working directory; all that is around it.
    at: &'static str,
    listed: &'static str,
    /// Its directory on the host.
    host: &'static str,
    writes: bool,
}

const ROOT: &str = "root: .";
const NAMED: &str = "mounts: [{ source: src, target: /data }]";

const PARTS: [Part; 9] = [
    part("restrict: /src", "src", "src src/lib", "src"),
    part("restrict: /src/lib", "src/lib", "src src/lib", "src/lib"),
    // The system's own is at /lib, and is not meant.
    part("restrict: /lib", "lib", "lib", "lib"),
    part("restrict: /usr/lib", "usr/lib", "usr usr/lib", "usr/lib"),
    part("restrict: /src, rebase: true", ".", "lib", "src"),
    part("restrict: /src/lib, rebase: true", ".", "", "src/lib"),
    Part {
        writes: false,
        ..part(
            "restrict: /src/lib, readonly: true",
            "src/lib",
            "src src/lib",
            "src/lib",
        )
    },
    Part {
        writes: false,
        ..part(
            "restrict: /lib, rebase: true, readonly: true",
            ".",
            "",
            "lib",
        )
    },
    Part {
        project: NAMED,
        ..part(
            "restrict: /data/lib",
            "data/lib",
            "data data/lib",
            "src/lib",
        )
    },
];

const fn part(
    sandbox: &'static str,
    at: &'static str,
    listed: &'static str,
    host: &'static str,
) -> Part {
    Part {
        project: ROOT,
        sandbox,
        at,
        listed,
        host,
        writes: true,
    }
}

fn world(part: &Part) -> World {
    let config = format!(
        "sandbox: {{ {} }}\nshell: {{ default: ask }}\n",
        part.project
    );
    let worker = format!(
        "---\nsandbox: {{ {} }}\nshell: {{}}\n---\nWorks.\n",
        part.sandbox
    );
    let world = World::new(&[
        (FILE, &config),
        ("workers/w.worker", &worker),
        ("src/f.txt", "held by src"),
        ("src/lib/f.txt", "held by src/lib"),
        ("lib/f.txt", "held by lib"),
        ("usr/lib/f.txt", "held by usr/lib"),
        ("docs/f.txt", "the planted secret"),
    ]);
    std::fs::write(world.outside().join("secret"), "the planted secret").unwrap();
    world
}

/// Reads, writes, lists, and tries what is around.
fn script(world: &World, part: &Part) -> String {
    format!(
        "pwd >&2; cat {at}/f.txt; echo; find . -follow -mindepth 1 -type d | cut -c3- | sort | xargs; \
         echo new > {at}/new.txt; \
         for f in docs/f.txt ../docs/f.txt {at}/../docs/f.txt {at}/../../docs/f.txt {project}/docs/f.txt {secret}; \
         do cat $f; echo x >> $f; done; echo x > {project}/made.txt; echo x > {at}/../made.txt; \
         mkdir made; ln -s / made; true",
        at = part.at,
        project = world.project().display(),
        secret = world.outside().join("secret").display(),
    )
}

#[track_caller]
fn check(world: &World, part: &Part, what: &str, stdout: &str, stderr: &str, lists: bool) {
    let named = format!("{} {what}\n{stdout}\n{stderr}", part.sandbox);
    let project = world.project();
    assert!(
        stdout.contains(&format!("held by {}\n", part.host)),
        "{named}"
    );
    assert!(!stdout.contains("planted"), "{named}");
    let made = project.join(part.host).join("new.txt");
    assert_eq!(made.exists(), part.writes, "{named}");
    let _ = std::fs::remove_file(made);
    // As `/` it is the working directory, in which a command may make what it likes.
    if part.at == "." {
        let own = project.join(part.host).join("made");
        assert_eq!(own.exists(), part.writes, "{named}");
        let _ = std::fs::remove_dir_all(own);
    }
    for place in ["docs/f.txt", "../secret"] {
        let text = std::fs::read_to_string(project.join(place)).unwrap();
        assert_eq!(text, "the planted secret", "{named}");
    }
    for made in [
        "made.txt",
        "made",
        "src/made.txt",
        "usr/made.txt",
        "docs/made.txt",
    ] {
        assert!(!project.join(made).exists(), "{made}: {named}");
    }
    assert!(
        !lists || stdout.lines().any(|line| line == part.listed),
        "{named}: expected {:?}",
        part.listed
    );
}

/// A person's command finds the part where it is outside, and starts above it.
#[test]
fn commands_of_restricted_workers() {
    for part in &PARTS {
        let world = world(part);
        let part = &Part {
            at: part.host,
            ..*part
        };
        for mechanism in mechanisms(&world) {
            let ran = world.forge(&[
                "--trust",
                "--quiet",
                "exec",
                "--worker",
                "w",
                "--mechanism",
                mechanism,
                "--",
                "sh",
                "-c",
                &script(&world, part),
            ]);
            ran.code(0);
            check(&world, part, mechanism, &ran.stdout, &ran.stderr, false);
            let inside = ran.stderr.lines().next();
            assert_eq!(inside, world.project().to_str(), "{}", part.sandbox);
        }
    }
}

#[test]
fn the_shell_of_restricted_workers() {
    for part in &PARTS {
        let world = world(part);
        let command = format!("sh -c '{}'", script(&world, part));
        let call = serde_json::json!({ "command": command }).to_string();
        let args = [
            "--trust", "--quiet", "tools", "call", "--worker", "w", "shell", &call, "--yes",
        ];
        for (what, hidden) in [
            ("the shell", None),
            ("the shell without namespaces", Some("userns")),
        ] {
            let ran = match hidden {
                None => world.forge(&args),
                Some(hidden) => world.forge_without(&[hidden], &args),
            };
            ran.code(0);
            check(&world, part, what, &ran.stdout, &ran.stderr, true);
        }
    }
}

/// Commands run beside a mount that they cannot read, and do not see it.
#[test]
fn commands_beside_a_mount_that_is_not_read() {
    const BLOCKED: &str = "approval: { read: blocked }";
    for (sandbox, own) in [
        (
            format!("zones: {{ src: {{ path: src }}, docs: {{ path: docs, {BLOCKED} }} }}"),
            "",
        ),
        (
            "zones: { src: { path: src }, docs: { path: docs } }".to_owned(),
            "sandbox: { zones: [{ name: src }, { name: docs, approval: { read: blocked } }] }\n",
        ),
    ] {
        let sandbox = format!("mode: direct, {sandbox}");
        let config = format!("sandbox: {{ {sandbox} }}\nshell: {{ default: ask }}\n");
        let world = World::new(&[
            (FILE, &config),
            (
                "workers/w.worker",
                &format!("---\n{own}shell: {{}}\n---\nWorks.\n"),
            ),
            ("src/f.txt", "held by src"),
            ("src/lib/f.txt", "held by src/lib"),
            ("docs/f.txt", "the planted secret"),
        ]);
        let script = format!(
            "cd {src} 2>/dev/null || cd /work/src || cd /work; cat f.txt; cd ..; \
             cat docs/f.txt lib/f.txt /docs/f.txt /lib/f.txt {project}/docs/f.txt; true",
            src = world.project().join("src").display(),
            project = world.project().display(),
        );
        let see = |ran: &Ran, what: &str| {
            let named = format!("{sandbox}: {what}");
            assert_eq!(ran.code, 0, "{named}: {}", ran.stderr);
            assert!(
                ran.stdout.contains("held by src"),
                "{named}: {}",
                ran.stdout
            );
            assert!(!ran.stdout.contains("planted"), "{named}: {}", ran.stdout);
        };
        let call = serde_json::json!({ "command": format!("sh -c '{script}'") }).to_string();
        let shell = [
            "--trust", "--quiet", "tools", "call", "--worker", "w", "shell", &call, "--yes",
        ];
        see(&world.forge(&shell), "the shell");
        see(
            &world.forge_without(&["userns"], &shell),
            "without namespaces",
        );
        for mechanism in ["namespaces", "bubblewrap", "landlock"] {
            let args = [
                "--trust",
                "--quiet",
                "exec",
                "--worker",
                "w",
                "--mechanism",
                mechanism,
            ];
            if world.forge(&[&args[..], &["--", "true"]].concat()).code == 0 {
                let args = [&args[..], &["--", "sh", "-c", &script]].concat();
                see(&world.forge(&args), mechanism);
            }
        }
    }
}

/// File tools and commands mean the same by a name.
#[test]
fn both_mean_the_same() {
    for part in &PARTS {
        let world = world(part);
        let path = format!("/{}/f.txt", part.at).replace("/./", "/");
        let call = serde_json::json!({ "path": path }).to_string();
        let read = world.forge(&[
            "--trust",
            "--quiet",
            "tools",
            "call",
            "--worker",
            "w",
            "read_file",
            &call,
        ]);
        read.code(0);
        let held = format!("held by {}", part.host);
        assert!(
            read.stdout.contains(&held),
            "{}: {}",
            part.sandbox,
            read.stdout
        );
    }
}
