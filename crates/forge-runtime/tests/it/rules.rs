//! What the gate makes of rules, mounts and modes, as a table of real calls.

use std::sync::Arc;

use forge_tools::AutoApprove;

use crate::support::{CONFIG, World};

const MAIN: &str = "sandbox: {zones: [{name: data, mode: ro}, {name: workspace}]}\nshell: {}\n";

/// The code of one call's failure, or `ok`.
fn outcome(config: &str, tool: &str, args: &str, yes: bool) -> String {
    outcome_for("", config, tool, args, yes)
}

/// The same with a file of the person's own.
fn outcome_for(user: &str, config: &str, tool: &str, args: &str, yes: bool) -> String {
    let mut world = World::new(config, &[("main", MAIN)]);
    std::fs::write(world.dir.path().join("user.yaml"), user).unwrap();
    std::fs::create_dir(world.dir.path().join("workspace")).unwrap();
    std::fs::write(world.dir.path().join("workspace/kept"), "kept").unwrap();
    if yes {
        world.approver = Arc::new(AutoApprove::confined());
    }
    let report = world.run(&format!(
        "version: 1
workers:
  main:
    - calls: [{{tool: {tool}, args: {args}, as: it}}]
    - say: \"{{{{ results.it.error.code if results.it.error is defined else 'ok' }}}}\"
"
    ));
    let kept = std::fs::read_to_string(world.dir.path().join("workspace/kept"));
    assert_eq!(kept.unwrap(), "kept", "{tool} {args}");
    for record in world.records.records() {
        assert!(!record.decision.reasons.is_empty());
    }
    match report.end {
        forge_runtime::RunOutcome::Answered { answer } => answer,
        end => panic!("{end:?}"),
    }
}

#[test]
fn rules_mounts_and_modes() {
    let with = |mode: &str| format!("{CONFIG}approval: {{mode: {mode}}}\n");
    let write = "{path: /workspace/new, content: x}";
    let delete = "{path: /workspace/kept}";
    let shell = |line: &str| format!("{{command: \"{line}\"}}");
    // (mode, tool, arguments, with --yes, outcome)
    for (mode, tool, args, yes, expected) in [
        ("tool", "write_file", write.to_owned(), false, "ok"),
        ("tool", "delete_file", delete.to_owned(), false, "BLOCKED"),
        ("tool", "delete_file", delete.to_owned(), true, "BLOCKED"),
        ("auto", "delete_file", delete.to_owned(), true, "BLOCKED"),
        (
            "manual",
            "write_file",
            write.to_owned(),
            false,
            "APPROVAL_REQUIRED",
        ),
        ("manual", "write_file", write.to_owned(), true, "ok"),
        ("manual", "list_files", "{path: /}".to_owned(), false, "ok"),
        ("deny", "shell", shell("ls"), true, "BLOCKED"),
        ("auto", "shell", shell("ls"), false, "ok"),
        (
            "tool",
            "write_file",
            "{path: /data/new, content: x}".to_owned(),
            true,
            "READ_ONLY",
        ),
        ("tool", "shell", shell("echo hi"), false, "ok"),
        ("tool", "shell", shell("ls"), false, "APPROVAL_REQUIRED"),
        ("tool", "shell", shell("ls"), true, "ok"),
        ("tool", "shell", shell("rm workspace/kept"), true, "BLOCKED"),
        ("auto", "shell", shell("rm workspace/kept"), true, "BLOCKED"),
        ("tool", "shell", shell("echo a | cat -"), false, "ok"),
        (
            "tool",
            "shell",
            shell("echo a | wc"),
            false,
            "APPROVAL_REQUIRED",
        ),
        (
            "tool",
            "shell",
            shell("echo a && rm workspace/kept"),
            true,
            "BLOCKED",
        ),
        (
            "tool",
            "shell",
            shell("echo a; echo $(rm workspace/kept)"),
            true,
            "BLOCKED",
        ),
        (
            "tool",
            "shell",
            shell("echo $(rm workspace/kept)"),
            true,
            "BLOCKED",
        ),
        (
            "tool",
            "shell",
            shell("echo `rm workspace/kept`"),
            true,
            "BLOCKED",
        ),
        (
            "tool",
            "shell",
            shell("X=1 rm workspace/kept"),
            true,
            "BLOCKED",
        ),
        (
            "tool",
            "shell",
            shell("! rm workspace/kept"),
            true,
            "BLOCKED",
        ),
        (
            "tool",
            "shell",
            shell("if echo a; then rm workspace/kept; fi"),
            true,
            "BLOCKED",
        ),
        (
            "tool",
            "shell",
            shell("echo $(echo a)"),
            false,
            "APPROVAL_REQUIRED",
        ),
        (
            "tool",
            "shell",
            shell("echo `echo a`"),
            false,
            "APPROVAL_REQUIRED",
        ),
        (
            "tool",
            "shell",
            shell("echo workspace/* | cat -"),
            false,
            "APPROVAL_REQUIRED",
        ),
        (
            "tool",
            "shell",
            shell("echo 'workspace/*' | cat -"),
            false,
            "ok",
        ),
        // A quote in a here-document is data: what follows it runs.
        (
            "tool",
            "shell",
            shell("cat <</dev/null\\ncat '\\n/dev/null\\nrm workspace/kept\\n#'"),
            false,
            "APPROVAL_REQUIRED",
        ),
        (
            "tool",
            "shell",
            shell("echo a > workspace/kept"),
            false,
            "APPROVAL_REQUIRED",
        ),
        (
            "tool",
            "shell",
            shell("echo a &"),
            false,
            "APPROVAL_REQUIRED",
        ),
        (
            "tool",
            "shell",
            shell("echox a"),
            false,
            "APPROVAL_REQUIRED",
        ),
        ("tool", "shell", shell("echo 'a"), true, "COMMAND_SYNTAX"),
        ("tool", "shell", shell("cat /etc/shadow"), false, "ok"),
        (
            "tool",
            "shell",
            shell("no-such-program"),
            true,
            "COMMAND_NOT_FOUND",
        ),
    ] {
        assert_eq!(
            outcome(&with(mode), tool, &args, yes),
            expected,
            "{mode}: {tool} {args}, --yes {yes}"
        );
    }
}

#[test]
fn settings_by_tool_beat_settings_by_risk() {
    for (settings, expected) in [
        (
            "require_user_permission_by_risk: {read_only: true}",
            "APPROVAL_REQUIRED",
        ),
        (
            "require_user_permission: {list_files: true}",
            "APPROVAL_REQUIRED",
        ),
        (
            "require_user_permission_by_risk: {read_only: true}, require_user_permission: {list_files: false}",
            "ok",
        ),
    ] {
        let config = format!("{CONFIG}approval: {{{settings}}}\n");
        assert_eq!(
            outcome(&config, "list_files", "{path: /}", false),
            expected,
            "{settings}"
        );
    }
}

/// `limits.max_file_write_mb` is what a file may have after a call, whichever call it was.
#[test]
fn no_call_leaves_a_file_above_the_limit() {
    let mib = 1024 * 1024;
    // A move deletes where it comes from.
    let config = CONFIG.replace("delete: blocked", "delete: ask");
    let limited = format!("{config}limits: {{max_file_write_mb: 1}}\n");
    let large = "y".repeat(600_000);
    for (tool, args) in [
        (
            "write_file",
            format!("{{path: /workspace/new, content: {large}{large}}}"),
        ),
        (
            "append_file",
            "{path: /workspace/near, content: abcdefghijklmnopqrst}".to_owned(),
        ),
        (
            "edit_file",
            "{path: /workspace/near, old_text: MARK, new_text: abcdefghijklmnopqrst}".to_owned(),
        ),
        (
            "copy_file",
            "{from: /workspace/above, to: /workspace/new}".to_owned(),
        ),
        (
            "move_file",
            "{from: /workspace/above, to: /workspace/new}".to_owned(),
        ),
    ] {
        for (config, code) in [(config.as_str(), "ok"), (limited.as_str(), "TOO_LARGE")] {
            let mut world = World::new(config, &[("main", MAIN)]);
            world.approver = Arc::new(AutoApprove::confined());
            let workspace = world.dir.path().join("workspace");
            std::fs::create_dir(&workspace).unwrap();
            let near = format!("MARK{}", "x".repeat(mib - 10));
            std::fs::write(workspace.join("near"), near).unwrap();
            std::fs::write(workspace.join("above"), "x".repeat(mib + 1)).unwrap();
            let report = world.run(&format!(
                "version: 1
workers:
  main:
    - calls: [{{tool: {tool}, args: {args}, as: it}}]
    - say: \"{{{{ results.it.error.code if results.it.error is defined else 'ok' }}}}\"
"
            ));
            let answer = match report.end {
                forge_runtime::RunOutcome::Answered { answer } => answer,
                end => panic!("{end:?}"),
            };
            let results = world.results();
            assert_eq!(
                answer,
                code,
                "{tool}: {}",
                &results[..results.len().min(400)]
            );
            if code != "ok" {
                assert!(results.contains("limits.max_file_write_mb"), "{tool}");
                assert!(!workspace.join("new").exists(), "{tool}");
            }
        }
    }
}

/// What is written outside the project's directory has a risk of its own.
#[test]
fn writes_outside_the_project_are_asked_about() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("kept"), "kept").unwrap();
    let place = outside.path().canonicalize().unwrap();
    let zones = format!(
        "sandbox: {{mode: direct, zones: {{data: {{path: data, mode: ro}}, workspace: {{path: workspace, approval: {{write: preApproved, delete: preApproved}}}}, far: {{path: {}, approval: {{write: preApproved, delete: preApproved}}}}}}}}\n",
        place.display()
    );
    let stated = |risk: &str, asks: bool| {
        format!("{zones}approval: {{require_user_permission_by_risk: {{{risk}: {asks}}}}}\n")
    };
    let main = "sandbox: inherit\n";
    for (config, tool, args, expected) in [
        (
            zones.clone(),
            "write_file",
            "{path: /workspace/a, content: x}",
            "ok",
        ),
        (
            zones.clone(),
            "write_file",
            "{path: /far/a, content: x}",
            "APPROVAL_REQUIRED",
        ),
        (
            zones.clone(),
            "append_file",
            "{path: /far/a, content: x}",
            "APPROVAL_REQUIRED",
        ),
        (
            zones.clone(),
            "create_dir",
            "{path: /far/d}",
            "APPROVAL_REQUIRED",
        ),
        (
            zones.clone(),
            "copy_file",
            "{from: /workspace/kept, to: /far/k}",
            "APPROVAL_REQUIRED",
        ),
        (
            zones.clone(),
            "delete_file",
            "{path: /far/kept}",
            "APPROVAL_REQUIRED",
        ),
        (zones.clone(), "read_file", "{path: /far/kept}", "ok"),
        (
            stated("writes_fs", false),
            "write_file",
            "{path: /far/a, content: x}",
            "ok",
        ),
        (
            stated("writes_workspace", true),
            "write_file",
            "{path: /workspace/a, content: x}",
            "APPROVAL_REQUIRED",
        ),
    ] {
        let world = World::new(&config, &[("main", main)]);
        std::fs::create_dir(world.dir.path().join("workspace")).unwrap();
        std::fs::create_dir(world.dir.path().join("data")).unwrap();
        std::fs::write(world.dir.path().join("workspace/kept"), "kept").unwrap();
        let report = world.run(&format!(
            "version: 1
workers:
  main:
    - calls: [{{tool: {tool}, args: {args}, as: it}}]
    - say: \"{{{{ results.it.error.code if results.it.error is defined else 'ok' }}}}\"
"
        ));
        match report.end {
            forge_runtime::RunOutcome::Answered { answer } => {
                assert_eq!(answer, expected, "{tool} {args}: {}", world.results());
            }
            end => panic!("{end:?}"),
        }
    }
}

/// What is hidden by its path is so for file tools and for commands, in the directory where a
/// worker sees it.
#[test]
fn a_hidden_path_is_hidden_on_every_road() {
    for (pattern, shown) in [
        ("/data/p/private", 0),
        ("p/private", 0),
        ("priv*", 0),
        ("/work/data/p/private", 0),
        // This path is in the other mount, so all three calls succeed.
        ("/workspace/p/private", 3),
        ("/workspace/other", 3),
    ] {
        let config = format!(
            "sandbox: {{mode: direct, hide: [{pattern}], zones: {{data: {{path: data, mode: ro}}, workspace: {{path: workspace}}}}}}
shell: {{rules: [{{pattern: 'cat *', approval: preApproved}}], default: blocked}}
"
        );
        let world = World::new(&config, &[("main", MAIN)]);
        let private = world.dir.path().join("data/p/private");
        std::fs::create_dir_all(&private).unwrap();
        std::fs::create_dir(world.dir.path().join("workspace")).unwrap();
        std::fs::write(private.join("key"), "the contents").unwrap();
        world.run(
            "version: 1
workers:
  main:
    - calls:
        - {tool: read_file, args: {path: /data/p/private/key}}
        - {tool: search_files, args: {path: /data, pattern: contents}}
        - {tool: shell, args: {command: cat data/p/private/key}}
    - say: done
",
        );
        let results = world.results();
        let seen = results.matches("the contents").count();
        assert_eq!(seen, shown, "{pattern}: {results}");
    }
}

#[test]
fn a_command_that_ran_and_was_stopped_tells_why() {
    let world = World::new(CONFIG, &[("main", MAIN)]);
    world.run(
        "version: 1
workers:
  main:
    - calls:
        - {tool: shell, args: {command: cat /etc/shadow}}
        - {tool: shell, args: {command: \"echo x | cat - >data/new\"}}
    - say: done
",
    );
    let results = world.results();
    assert!(results.contains("[exit code 1]"), "{results}");
    assert!(!world.dir.path().join("data/new").exists());
}

#[test]
fn the_persons_own_file_holds_against_rules_and_modes() {
    let config = format!("{CONFIG}approval: {{mode: auto}}\n");
    let shell = "{command: echo hi}";
    let write = "{path: /workspace/new, content: x}";
    for (user, tool, args, expected) in [
        ("", "shell", shell, "ok"),
        (
            "approval: {require_user_permission_by_risk: {exec: true}}",
            "shell",
            shell,
            "APPROVAL_REQUIRED",
        ),
        (
            "approval: {require_user_permission: {write_file: true}}",
            "write_file",
            write,
            "APPROVAL_REQUIRED",
        ),
        (
            "approval: {mode: manual}",
            "write_file",
            write,
            "APPROVAL_REQUIRED",
        ),
        (
            "approval: {mode: deny}",
            "shell",
            "{command: ls}",
            "BLOCKED",
        ),
        (
            "shell: {rules: [{pattern: 'echo *', approval: blocked}]}",
            "shell",
            shell,
            "BLOCKED",
        ),
    ] {
        assert_eq!(
            outcome_for(user, &config, tool, args, false),
            expected,
            "{user}"
        );
    }
}
