//! Settings of a project that the program itself keeps.

use crate::support::{PROJECT, World};

const FILE: &str = "golem-forge.config.yaml";

#[test]
fn a_limit_that_ends_a_run_is_named_with_exit_code_5() {
    let world = World::new(&[
        ("workers/main.worker", "---\nname: main\n---\nGo.\n"),
        (
            "play.yaml",
            "version: 1
workers:
  main:
    - calls: [{tool: nothing}]
      usage: {input_tokens: 90, output_tokens: 10}
    - calls: [{tool: nothing}]
    - say: done
",
        ),
    ]);
    for (limit, key) in [
        ("max_turns: 1", "limits.max_turns"),
        ("max_tokens: 100", "limits.max_tokens"),
        ("repeat_calls: 1", "limits.repeat_calls"),
    ] {
        world.write(
            FILE,
            &format!("{PROJECT}model: scripted:play.yaml\nlimits: {{ {limit} }}\n"),
        );
        world.forge(&["run"]).code(5).says(&[key]);
    }
    world.write(FILE, &format!("{PROJECT}model: scripted:play.yaml\n"));
    world.forge(&["run"]).code(0);
}

#[test]
fn a_command_that_has_to_run_in_docker_does_not_run_here() {
    let world = World::new(&[]);
    for (mode, code) in [
        ("local_only", 0),
        ("prefer_local", 0),
        ("prefer_docker", 125),
        ("docker_required", 125),
    ] {
        world.write(FILE, &format!("execution: {{ mode: {mode} }}\n"));
        let ran = world.forge(&["exec", "--no-os-sandbox", "--", "true"]);
        // Who types `--no-os-sandbox` has confirmed what a person may confirm.
        ran.code(if mode == "prefer_docker" { 0 } else { code });
        let ran = world.forge(&["exec", "--", "true"]);
        if code == 125 {
            ran.code(125).says(&[
                "docker cannot be used",
                &format!("execution.mode: {mode}"),
                "docker.enabled",
            ]);
            // The way round what "required" says is not offered.
            let way_round = ran.stderr.contains("-c execution.mode=prefer_local");
            assert_eq!(way_round, mode == "prefer_docker", "{}", ran.stderr);
        }
    }
}

#[test]
fn a_worker_that_names_its_models_is_not_started_on_another() {
    let world = World::new(&[
        (
            "workers/main.worker",
            "---\nname: main\ncompatible_models: ['scripted:good*']\n---\nGo.\n",
        ),
        ("good.yaml", "version: 1\nworkers: {main: [{say: hi}]}\n"),
        ("bad.yaml", "version: 1\nworkers: {main: [{say: hi}]}\n"),
    ]);
    world.write(FILE, PROJECT);
    let with = |model: &str| world.forge(&["run", "--model", model]);
    with("scripted:good.yaml").code(0);
    with("scripted:bad.yaml")
        .code(2)
        .says(&["does not run on the model", "scripted:good*"]);
    assert_eq!(runs(&world), 1, "a run was begun");
}

fn runs(world: &World) -> usize {
    std::fs::read_dir(world.outside().join("state/runs")).map_or(0, Iterator::count)
}

#[test]
fn a_tool_that_does_not_exist_is_a_mistake() {
    let world = World::new(&[(FILE, PROJECT)]);
    world.write(
        "workers/main.worker",
        "---\nname: main\ntools: [reed_file]\n---\nGo.\n",
    );
    world
        .forge(&["check"])
        .code(2)
        .says(&["unknown tool `reed_file`", "did you mean `read_file`?"]);
}

#[test]
fn a_run_is_kept_where_and_as_the_project_says() {
    let world = World::new(&[
        ("workers/main.worker", "---\nname: main\n---\nGo.\n"),
        ("play.yaml", "version: 1\nworkers: {main: [{say: hi}]}\n"),
    ]);
    let kept = |dir: &str| -> Vec<String> {
        let mut names = Vec::new();
        for run in std::fs::read_dir(world.project().join(dir))
            .into_iter()
            .flatten()
        {
            for file in std::fs::read_dir(run.unwrap().path()).unwrap() {
                names.push(file.unwrap().file_name().into_string().unwrap());
            }
        }
        names.sort();
        names
    };
    let run = |settings: &str| {
        world.write(
            FILE,
            &format!("{PROJECT}model: scripted:play.yaml\n{settings}"),
        );
        world.forge(&["run"])
    };
    run("").code(0);
    assert_eq!(
        kept("../state/runs"),
        ["about.json", "audit.jsonl", "run.json", "transcript.jsonl"]
    );
    run("runs_dir: ./kept/here\nlog: { transcripts: false }\n").code(0);
    assert_eq!(kept("kept/here"), ["about.json", "audit.jsonl", "run.json"]);
    assert_eq!(kept("../state/runs").len(), 4, "kept twice");
    // Somewhere else on the host, if a person agrees.
    run("runs_dir: ../elsewhere\n")
        .code(0)
        .says(&["runs_dir", "forge trust"]);
    assert!(!world.outside().join("elsewhere").exists());
    world.forge(&["--trust", "run"]).code(0);
    assert_eq!(kept("../elsewhere").len(), 4);
    // Where a worker could change what is kept of it.
    run("runs_dir: ./workspace/runs\n").code(2);
}

#[test]
fn the_knowledge_base_is_read_and_not_written() {
    let world = World::new(&[("docs/a.md", "known"), (FILE, PROJECT)]);
    world.write(FILE, &format!("{PROJECT}knowledge_base: ./docs\n"));
    let ran = world.forge(&["tools", "call", "read_file", r#"{"path": "/kb/a.md"}"#]);
    assert_eq!(ran.code(0).stdout.trim(), "known");
    let write = r#"{"path": "/kb/b.md", "content": "x"}"#;
    world
        .forge(&["tools", "call", "write_file", write, "--yes"])
        .code(1)
        .says(&["read-only"]);
    assert!(!world.project().join("docs/b.md").exists());
}
