//! `forge help`: topics, commands, and the closed list of error codes.

use crate::support::World;

#[test]
fn topics_and_commands() {
    let world = World::new(&[]);
    for (args, says) in [
        (&["help"][..], "exit-codes"),
        (&["help", "exit-codes"], "130 by Ctrl-C"),
        (&["help", "errors"], "worker.exceeds_parent"),
        (&["help", "paths"], "sandbox.root"),
        (&["help", "approvals"], "preApproved"),
        (&["help", "security"], "forge doctor"),
        (&["help", "tools", "call"], "list_files"),
        (&["help", "check"], "--format github"),
    ] {
        let ran = world.forge(args);
        ran.code(0);
        assert_eq!(ran.stderr, "");
        assert!(ran.stdout.contains(says), "{args:?}: {}", ran.stdout);
    }
    world
        .forge(&["help", "nothing"])
        .code(2)
        .says(&["security", "check"]);
    // Clap's own suggestion.
    world.forge(&["chekc"]).code(2).says(&["check"]);
}

/// Every error that these commands can give has its code in `help errors`.
#[test]
fn codes_are_a_closed_list() {
    let world = World::new(&[(
        "golem-forge.config.yaml",
        "sandbox: { root: ., zones: { ws: { path: ws } } }\n",
    )]);
    let known = world.forge(&["help", "errors"]).stdout;
    for args in [
        &["clean"][..],
        &["explain", "nothing"],
        &["worker", "new", "A"],
        &["worker", "show", "nobody"],
        &["check", "absent"],
        &["run", "examples/nope"],
        &["run"],
        &["frobnicate"],
    ] {
        let mut all = args.to_vec();
        all.push("--json");
        let ran = world.forge(&all);
        assert_ne!(ran.code, 0);
        assert_eq!(ran.stdout, "", "{args:?}");
        let last = ran.stderr.lines().last().unwrap();
        let object: serde_json::Value = serde_json::from_str(last).unwrap();
        for key in ["code", "message", "file", "line", "column", "help"] {
            assert!(object["error"].get(key).is_some(), "{args:?}: no {key}");
        }
        let code = object["error"]["code"].as_str().unwrap();
        assert!(
            known.contains(&format!("  {code} ")),
            "{code} is not listed"
        );
    }
}

#[test]
fn a_missing_directory_is_not_called_a_bad_name() {
    let ran = World::new(&[]).forge(&["run", "examples/nope"]);
    ran.code(2)
        .says(&["neither a directory `examples/nope` nor a worker of that name"]);
}
