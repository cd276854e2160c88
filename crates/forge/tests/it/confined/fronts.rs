//! Every front-end from outside: file tools and commands read and write the same places, and
//! neither leaves them.

use crate::confined::exec::mechanisms;
use crate::support::World;

const FILE: &str = "golem-forge.config.yaml";

/// A project with `data/a.md` and `docs/a.md`, and how one front-end shows it.
struct Front {
    name: &'static str,
    sandbox: &'static str,
    /// `data/a.md` for tools.
    data: &'static str,
    /// The same for commands, from their working directory.
    data_inside: &'static str,
    /// A place that is not writable, for both: in `docs`, or outside of everything.
    closed: (&'static str, &'static str),
    /// What the refusal of the tool says.
    refusal: &'static str,
    /// What writing and deleting unasked ends with, where nobody is there.
    unasked: i32,
}

const FRONTS: [Front; 6] = [
    Front {
        name: "zones",
        sandbox: "mode: direct, zones: { data: { path: data }, docs: { path: docs, mode: ro } }",
        data: "/data/a.md",
        data_inside: "data/a.md",
        closed: ("/docs/new.md", "docs/new.md"),
        refusal: "Writable paths: /data",
        unasked: 3,
    },
    Front {
        name: "root",
        sandbox: "root: data",
        data: "/a.md",
        data_inside: "a.md",
        closed: ("/../docs/new.md", "../docs/new.md"),
        refusal: "outside",
        unasked: 0,
    },
    Front {
        name: "paths",
        sandbox: "paths: { portfolio: { root: data, mode: rw }, pipeline: { root: docs } }",
        data: "portfolio/a.md",
        data_inside: "portfolio/a.md",
        closed: ("./pipeline/new.md", "pipeline/new.md"),
        refusal: "Writable paths: ./portfolio",
        unasked: 0,
    },
    Front {
        name: "mounts",
        sandbox: "mounts: [{ source: ., target: /, readonly: true }, { source: data, target: /data }]",
        data: "/data/a.md",
        data_inside: "data/a.md",
        closed: ("/docs/new.md", "docs/new.md"),
        refusal: "Writable paths: /data",
        unasked: 0,
    },
    Front {
        name: "named mounts",
        sandbox: "mounts: [{ source: data, target: /d }, { source: docs, target: /usr-docs, readonly: true }]",
        data: "/d/a.md",
        data_inside: "d/a.md",
        closed: ("/usr-docs/new.md", "usr-docs/new.md"),
        refusal: "Writable paths: /d",
        unasked: 0,
    },
    Front {
        name: "path lists",
        sandbox: "read_paths: [.], write_paths: [data]",
        data: "/project/data/a.md",
        data_inside: "project/data/a.md",
        closed: ("/project/docs/new.md", "project/docs/new.md"),
        refusal: "Writable paths: /project/data",
        unasked: 0,
    },
];

fn world(front: &Front) -> World {
    let config = format!("sandbox: {{ {} }}\n", front.sandbox);
    let world = World::new(&[
        (FILE, &config),
        ("data/a.md", "what data holds"),
        ("docs/a.md", "what docs hold"),
    ]);
    std::fs::write(world.outside().join("secret"), "the planted secret").unwrap();
    world
}

#[test]
fn file_tools_of_every_front_end() {
    for front in &FRONTS {
        let world = world(front);
        let call = |tool: &str, path: &str, more: &str| {
            let args = format!("{{\"path\": {path:?}{more}}}");
            world.forge(&["--trust", "--quiet", "tools", "call", tool, &args])
        };
        let name = front.name;
        let read = call("read_file", front.data, "");
        read.code(0);
        assert!(
            read.stdout.contains("what data holds"),
            "{name}: {}",
            read.stdout
        );
        let secret = world.outside().join("secret");
        for outside in [secret.to_str().unwrap(), "/etc/passwd", "/../../secret"] {
            let read = call("read_file", outside, "");
            read.code(1);
            assert!(!read.stdout.contains("planted"), "{name}: {}", read.stdout);
        }
        // Zones ask for both, and nobody is there; the tool axis alone allows them.
        call("write_file", front.data, ", \"content\": \"new\"").code(front.unasked);
        let kept = std::fs::read_to_string(world.project().join("data/a.md")).unwrap();
        assert_eq!(kept == "new", front.unasked == 0, "{name}: {kept}");
        call("delete_file", front.data, "").code(front.unasked);
        assert_eq!(
            world.project().join("data/a.md").exists(),
            front.unasked != 0,
            "{name}"
        );
        let (closed, _) = front.closed;
        let refused = call("write_file", closed, ", \"content\": \"new\"");
        refused.code(1);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(said.contains(front.refusal), "{name}: {said}");
        assert!(!said.contains("zone"), "{name}: {said}");
        assert!(!world.project().join("docs/new.md").exists(), "{name}");
    }
}

#[test]
fn commands_of_every_front_end() {
    for front in &FRONTS {
        let world = world(front);
        let name = front.name;
        for mechanism in mechanisms(&world) {
            // A person's command finds everything where it is outside.
            let script = format!(
                "cat data/a.md; echo new > data/a.md.new; echo x > docs/new.md; cat {secret}; ls data",
                secret = world.outside().join("secret").display(),
            );
            let args = ["--trust", "--quiet", "exec", "--mechanism", mechanism, "--"];
            let ran = world.forge(&[&args[..], &["sh", "-c", &script]].concat());
            ran.code(0);
            assert!(
                ran.stdout.starts_with("what data holds"),
                "{name} {mechanism}: {}{}",
                ran.stdout,
                ran.stderr
            );
            assert!(!ran.stdout.contains("planted"), "{name} {mechanism}");
            let made = world.project().join("data/a.md.new");
            assert_eq!(
                std::fs::read_to_string(&made).unwrap(),
                "new\n",
                "{name} {mechanism}"
            );
            std::fs::remove_file(made).unwrap();
            assert!(
                !world.project().join("docs/new.md").exists(),
                "{name} {mechanism}"
            );
        }
    }
}

/// The working directory of a worker's commands shows what
/// `list_files("/")` shows.
#[test]
fn the_working_directory_shows_the_mounts() {
    for front in &FRONTS {
        let world = world(front);
        let config = format!(
            "sandbox: {{ {} }}\nshell: {{ default: ask }}\n",
            front.sandbox
        );
        world.write(FILE, &config);
        let listed = world.forge(&[
            "--trust",
            "--quiet",
            "--json",
            "tools",
            "call",
            "list_files",
            r#"{"path": "/"}"#,
        ]);
        listed.code(0);
        let call = r#"{"command": "ls"}"#;
        let ls = [
            "--trust", "--quiet", "tools", "call", "shell", call, "--yes",
        ];
        for (mechanism, hidden) in [("namespaces", None), ("landlock", Some("userns"))] {
            let ran = match hidden {
                None => world.forge(&ls),
                Some(hidden) => world.forge_without(&[hidden], &ls),
            };
            ran.code(0);
            for name in ran.stdout.lines() {
                assert!(
                    listed.stdout.contains(&format!("{name:?}"))
                        || listed.stdout.contains(&format!("{name}/")),
                    "{} {mechanism}: {name} in {}",
                    front.name,
                    listed.stdout
                );
            }
            assert!(!ran.stdout.is_empty(), "{} {mechanism}", front.name);
        }
    }
}

/// A whole run of each: what the model is told of its calls, and what became of the files.
#[test]
fn runs_of_every_front_end() {
    for front in &FRONTS {
        let (closed, closed_inside) = front.closed;
        let name = front.name;
        let command = format!(
            "sh -c 'cat {data}; echo made > {data}.made; echo x > {closed_inside}; true'",
            data = front.data_inside
        );
        let secret = "{{ input }}";
        let playbook = format!(
            "\
version: 1
workers:
  main:
    - calls:
        - {{ tool: read_file, args: {{ path: {data:?} }}, as: read }}
        - {{ tool: read_file, args: {{ path: \"{secret}\" }}, as: outside }}
        - {{ tool: write_file, args: {{ path: {closed:?}, content: x }}, as: closed }}
        - {{ tool: write_file, args: {{ path: {data:?}, content: new }}, as: write }}
    - calls:
        - {{ tool: shell, args: {{ command: {command:?} }}, as: shell }}
    - say: |
        read: {{{{ results.read.content }}}}
        outside: {{{{ results.outside.error.code }}}}
        closed: {{{{ results.closed.content }}}}
        write: {{{{ results.write.ok }}}}
        shell: {{{{ results.shell.structured.stdout if results.shell.ok else '' }}}}
",
            data = front.data,
        );
        for yes in [true, false] {
            let world = world(front);
            let config = format!(
                "model: scripted:p.yaml\nsandbox: {{ {} }}\nshell: {{ default: ask }}\n",
                front.sandbox
            );
            world.write(FILE, &config);
            world.write("p.yaml", &playbook);
            let worker = "---\nname: main\nsandbox: inherit\nshell: {}\n---\nWork.\n";
            world.write("workers/main.worker", worker);
            let outside = world.outside().join("secret");
            let args = ["--trust", "--quiet", "run", "main"];
            let consent: &[&str] = if yes { &["--yes"] } else { &[] };
            let outside = outside.to_str().unwrap();
            let ran = world.forge(&[&args[..], &[outside], consent].concat());
            let said = format!("{}{}", ran.stdout, ran.stderr);
            // Nobody could be asked about the command.
            assert_eq!(ran.code, if yes { 0 } else { 3 }, "{name} {yes}: {said}");
            for expected in [
                "read: what data holds",
                if yes || front.unasked == 0 {
                    "write: True"
                } else {
                    "write: False"
                },
            ] {
                assert!(
                    ran.stdout.contains(expected),
                    "{name} {yes}: {expected}\n{said}"
                );
            }
            assert!(ran.stdout.contains(front.refusal), "{name} {yes}: {said}");
            assert!(!said.contains("planted"), "{name} {yes}: {said}");
            assert!(!ran.stdout.contains("zone"), "{name} {yes}: {said}");
            let project = world.project();
            let data = std::fs::read_to_string(project.join("data/a.md")).unwrap();
            assert_eq!(
                data == "new",
                yes || front.unasked == 0,
                "{name} {yes}: {said}"
            );
            // The command comes after the write, and prints what it left.
            assert_eq!(
                ran.stdout.contains("shell: new"),
                yes,
                "{name} {yes}: {said}"
            );
            assert_eq!(project.join("data/a.md.made").exists(), yes, "{name} {yes}");
            assert!(
                !project.join("docs/new.md").exists(),
                "{name} {yes}: {said}"
            );
        }
    }
}
