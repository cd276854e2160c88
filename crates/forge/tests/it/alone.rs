//! A worker file that belongs to no project runs without files and commands, whatever it
//! asks for, and wherever it is started.

use crate::support::World;

const PLAYBOOK: &str = "\
version: 1
workers:
  x:
    - calls:
        - { tool: read_file, args: { path: /secret.txt } }
        - { tool: write_file, args: { path: /made.txt, content: x } }
        - { tool: shell, args: { command: 'touch made.txt' } }
    - say: done
";

fn run(world: &World, more: &[&str]) -> crate::support::Ran {
    let args = ["--trust", "run", "--yes", "--model", "scripted:play.yaml"];
    world.forge(&[&args[..], more].concat())
}

#[test]
fn a_file_alone_has_no_files() {
    for front in [
        "",
        "sandbox: inherit",
        "sandbox: none",
        "shell: {}",
        "network: true",
        "sandbox: {}",
    ] {
        let worker = format!("---\n{front}\n---\nGo.\n");
        let world = World::new(&[
            ("tools/x.worker", &worker),
            ("play.yaml", PLAYBOOK),
            ("secret.txt", "the planted secret"),
        ]);
        for file in [
            "tools/x.worker",
            "./tools/../tools/x.worker",
            world.project().join("tools/x.worker").to_str().unwrap(),
        ] {
            let ran = run(&world, &[file]);
            ran.code(0);
            assert_eq!(ran.stdout, "done\n", "{front}");
            assert!(!ran.stderr.contains("planted"), "{front}: {}", ran.stderr);
            for made in ["made.txt", ".sandbox", "tools/made.txt", "tools/.sandbox"] {
                assert!(!world.project().join(made).exists(), "{front}: {made}");
            }
            let audit: Vec<_> = std::fs::read_dir(world.outside().join("state/runs"))
                .unwrap()
                .map(|run| run.unwrap().path().join("transcript.jsonl"))
                .filter_map(|file| std::fs::read_to_string(file).ok())
                .collect();
            assert!(!audit.concat().contains("planted"), "{front}");
        }
    }
}

#[test]
fn one_that_asks_for_directories_is_told_how_to_get_them() {
    for front in [
        "sandbox: { restrict: /src }",
        "sandbox: { readonly: true }",
        "sandbox: { zones: [{ name: src }] }",
        "sandbox: { paths: { src: { root: . } } }",
    ] {
        let worker = format!("---\n{front}\n---\nGo.\n");
        let world = World::new(&[("x.worker", &worker), ("play.yaml", PLAYBOOK)]);
        run(&world, &["x.worker"]).code(2).says(&[
            "a worker that is run by its file has no files",
            "x.worker:2:1",
            "forge init",
        ]);
    }
}

/// In a project a file is the worker of the project that it is, or nobody.
#[test]
fn a_file_of_a_project_is_its_worker() {
    let world = World::new(&[
        ("golem-forge.config.yaml", "sandbox: { root: . }\n"),
        (
            "workers/x.worker",
            "---\nsandbox: { restrict: / }\n---\nGo.\n",
        ),
        ("other/x.worker", "---\n---\nGo.\n"),
        ("play.yaml", PLAYBOOK),
    ]);
    run(&world, &["workers/x.worker"]).code(0);
    assert!(world.project().join("made.txt").exists());
    std::fs::remove_file(world.project().join("made.txt")).unwrap();
    run(&world, &["other/x.worker"])
        .code(2)
        .says(&["is not a worker of the project", "--no-config"]);
    run(&world, &["--no-config", "other/x.worker"]).code(0);
    assert!(!world.project().join("made.txt").exists());
}
