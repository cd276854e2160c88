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
                "-c execution.mode=prefer_local",
            ]);
        }
    }
}
