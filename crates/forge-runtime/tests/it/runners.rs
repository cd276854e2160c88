//! `execution`: where calls run, or why they do not.

use std::sync::Arc;

use forge_tools::{AutoApprove, NoApprover};

use crate::support::{CONFIG, World};

const MAIN: &str = "sandbox: {zones: [{name: data, mode: ro}, {name: workspace}]}\nshell: {}\n";

/// What a read, a write and a command come to: `ok`, or the code.
fn outcomes(section: &str, yes: bool) -> (String, String, World) {
    let config = format!("{CONFIG}{section}\n");
    let mut world = World::new(&config, &[("main", MAIN)]);
    world.approver = if yes {
        Arc::new(AutoApprove::confined())
    } else {
        Arc::new(NoApprover::because("this is a test"))
    };
    let report = world.run(
        "version: 1
workers:
  main:
    - calls:
        - {tool: list_files, args: {path: /}, as: read}
        - {tool: write_file, args: {path: /workspace/a, content: x}, as: write}
        - {tool: shell, args: {command: echo hi}, as: shell}
    - say: >-
        {% for one in [results.read, results.write, results.shell] -%}
        {{ one.error.code if one.error is defined else 'ok' }}{{ ' ' if not loop.last }}
        {%- endfor %}
",
    );
    let said = match report.end {
        forge_runtime::RunOutcome::Answered { answer } => answer,
        end => panic!("{end:?}"),
    };
    let chosen = world
        .records
        .records()
        .iter()
        .map(|record| record.decision.runner.clone().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    (said, chosen, world)
}

#[test]
fn the_mode_decides_where_calls_run() {
    for (section, yes, expected) in [
        ("", false, "ok ok ok"),
        ("execution_mode: local_only", false, "ok ok ok"),
        // Pre-approved by a rule that was written for docker: somebody has to confirm.
        (
            "execution: {mode: prefer_docker}",
            false,
            "ok ok APPROVAL_REQUIRED",
        ),
        ("execution: {mode: prefer_docker}", true, "ok ok ok"),
        (
            "execution: {mode: prefer_docker}\napproval: {mode: auto}",
            false,
            "ok ok APPROVAL_REQUIRED",
        ),
        (
            "execution: {mode: docker_required}",
            true,
            "BLOCKED BLOCKED BLOCKED",
        ),
        (
            "execution: {mode: docker_required}\ndocker: {enabled: true}",
            true,
            "BLOCKED BLOCKED BLOCKED",
        ),
        ("execution: {runners: [docker]}", true, "ok ok BLOCKED"),
    ] {
        let (said, chosen, _) = outcomes(section, yes);
        assert_eq!(said, expected, "{section} {yes}");
        assert_eq!(outcomes(section, yes).1, chosen, "not the same twice");
    }
}

#[test]
fn a_refusal_names_docker_the_reason_and_the_setting() {
    let (_, chosen, world) = outcomes("execution: {mode: docker_required}", true);
    insta::assert_snapshot!(world.results().lines().take(2).collect::<Vec<_>>().join("\n"), @r"
    ✗ list_files: list_files is blocked here: `execution.mode: docker_required`, and docker cannot be used: it is not enabled (`docker.enabled`).
    A person has to run `forge doctor --docker`, which says what is missing, or to change `execution` or `docker` in the project file. Asking again does not change it.
    ");
    insta::assert_snapshot!(chosen.lines().next().unwrap(), @"`execution.mode: docker_required`, and docker cannot be used: it is not enabled (`docker.enabled`)");
    let (_, chosen, _) = outcomes(
        "execution: {mode: docker_required}\ndocker: {enabled: true}",
        true,
    );
    insta::assert_snapshot!(chosen.lines().next().unwrap(), @"`execution.mode: docker_required`, and docker cannot be used: nothing that runs containers is available");
    let (_, chosen, _) = outcomes("execution: {mode: prefer_docker}", true);
    insta::assert_snapshot!(chosen, @r"
    local: risk `read_only` under `execution.mode: prefer_docker`
    local: risk `writes_workspace` under `execution.mode: prefer_docker`
    local if a person agrees: `execution.mode: prefer_docker`, and docker cannot be used: it is not enabled (`docker.enabled`)
    ");
}

#[test]
fn calling_a_worker_runs_nothing_by_itself() {
    let config = format!("{CONFIG}execution: {{mode: docker_required}}\n");
    let world = World::new(&config, &[("main", "workers: [child]\n"), ("child", "")]);
    world.run(
        "version: 1
workers:
  main:
    - calls: [{tool: child, args: {input: x}}]
    - say: done
  child:
    - say: finished
",
    );
    assert_eq!(world.results(), "✓ child: finished");
}
