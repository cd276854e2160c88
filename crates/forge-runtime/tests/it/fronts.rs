//! Approval by front-end: zones ask for writing and deleting; everywhere else the
//! mount is silent, and the tool axis decides alone.

use crate::support::World;

/// The code of one call's failure, or `ok`. The worker declares nothing and holds the ceiling.
fn outcome(config: &str, args: &str) -> String {
    let world = World::new(config, &[("main", "")]);
    std::fs::create_dir(world.dir.path().join("workspace")).unwrap();
    let report = world.run(&format!(
        "version: 1
workers:
  main:
    - calls: [{{tool: write_file, args: {args}, as: it}}]
    - say: \"{{{{ results.it.error.code if results.it.error is defined else 'ok' }}}}\"
"
    ));
    match report.end {
        forge_runtime::RunOutcome::Answered { answer } => answer,
        end => panic!("{config}: {end:?}"),
    }
}

#[test]
fn the_mount_axis_and_the_tool_axis() {
    let write = "{path: PLACE/new, content: x}";
    let by_tool = "approval: {require_user_permission: {write_file: true}}\n";
    let by_risk = "approval: {require_user_permission_by_risk: {writes_workspace: true}}\n";
    let never = "approval: {require_user_permission: {write_file: false}}\n";
    for (sandbox, place, more, expected) in [
        (
            "zones: {data: {path: d}, workspace: {path: workspace}}, mode: direct",
            "/workspace",
            "",
            "APPROVAL_REQUIRED",
        ),
        // The stricter of both: a tool that never asks does not quiet the mount.
        (
            "zones: {data: {path: d}, workspace: {path: workspace}}, mode: direct",
            "/workspace",
            never,
            "APPROVAL_REQUIRED",
        ),
        ("root: .", "/workspace", "", "ok"),
        ("root: .", "/workspace", by_tool, "APPROVAL_REQUIRED"),
        ("root: .", "/workspace", by_risk, "APPROVAL_REQUIRED"),
        ("root: ., readonly: true", "/workspace", "", "READ_ONLY"),
        (
            "paths: {workspace: {root: workspace, mode: rw}}",
            "workspace",
            "",
            "ok",
        ),
        (
            "paths: {workspace: {root: workspace, mode: rw}}",
            "workspace",
            by_risk,
            "APPROVAL_REQUIRED",
        ),
        (
            "paths: {workspace: {root: workspace, mode: rw, approval: {write: ask}}}",
            "workspace",
            "",
            "APPROVAL_REQUIRED",
        ),
        (
            "paths: {workspace: {root: workspace, mode: rw, approval: {write: blocked}}}",
            "workspace",
            "",
            "BLOCKED",
        ),
        (
            "paths: {workspace: {root: workspace}}",
            "workspace",
            "",
            "READ_ONLY",
        ),
        ("mounts: [{source: ., target: /}]", "/workspace", "", "ok"),
        ("read_paths: [.], write_paths: [w]", "/project/w", "", "ok"),
        (
            "read_paths: [.], write_paths: [w]",
            "/project",
            "",
            "READ_ONLY",
        ),
    ] {
        let config = format!("sandbox: {{{sandbox}}}\n{more}");
        let args = write.replace("PLACE", place);
        assert_eq!(outcome(&config, &args), expected, "{config}");
    }
}
