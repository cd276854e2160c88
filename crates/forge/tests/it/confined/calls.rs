//! `forge tools call` where some of the calls are commands.

use crate::support::{PROJECT, World};

const FILE: &str = "golem-forge.config.yaml";

#[test]
fn exit_codes_of_tools_call() {
    let world = World::new(&[(FILE, PROJECT), ("data/a.md", "text")]);
    for (args, code) in [
        (&["read_file", r#"{"path":"/data/a.md"}"#][..], 0),
        (&["readFile", r#"{"path":"data/a.md","maxChars":2}"#], 0),
        (&["read_file", r#"{"path":"/data/b.md"}"#], 1),
        (&["write_file", r#"{"path":"/data/b.md","content":"x"}"#], 1),
        (
            &["write_file", r#"{"path":"/workspace/b.md","content":"x"}"#],
            0,
        ),
        // Deleting is asked about, and nobody is there; --yes is a person's word.
        (&["delete_file", r#"{"path":"/workspace/b.md"}"#], 3),
        (
            &["delete_file", r#"{"path":"/workspace/b.md"}"#, "--yes"],
            0,
        ),
        (&["shell", r#"{"command":"echo hello"}"#], 0),
        (&["shell", r#"{"command":"cat /absent"}"#], 1),
        (&["shell", r#"{"command":"cat /absent"}"#, "--json"], 1),
        (&["shell", r#"{"command":"ls"}"#], 3),
        (&["shell", r#"{"command":"rm -f x"}"#], 1),
        (
            &["shell", r#"{"command":"rm -f x"}"#, "--approve", "all"],
            1,
        ),
        (&["read_file", "{bad"], 2),
        (&["read_file", r#"["/data"]"#], 2),
        (&["read_file", "{}"], 2),
        (&["read_file", r#"{"path":"/data/a.md","size":1}"#], 2),
        (&["red_file", "{}"], 2),
        (&["git_push", "{}"], 2),
    ] {
        let mut all = vec!["--trust", "tools", "call"];
        all.extend(args);
        world.forge(&all).code(code);
    }
    let audit = world.audit();
    assert!(audit.contains("auto-approved by --yes"), "{audit}");
    assert!(audit.contains("there is no terminal"), "{audit}");
}

#[test]
fn trust_holds_for_exactly_what_was_shown() {
    let world = World::new(&[(FILE, PROJECT)]);
    let echo = ["tools", "call", "shell", r#"{"command":"echo hello"}"#];
    let ran = world.forge(&["trust", "--show"]);
    ran.code(0);
    assert!(
        ran.stdout.contains("shell.rules[echo *].approval"),
        "{}",
        ran.stdout
    );
    // Nobody is there to say yes.
    world.forge(&["trust"]).code(3);
    world.forge(&echo).code(3);
    world.forge(&["trust", "--yes"]).code(0);
    world.forge(&echo).code(0);
    // Another rule is another question; the ones agreed to still hold.
    world.write(FILE, &PROJECT.replace("'cat *'", "'dd *'"));
    world.forge(&echo).code(0);
    world
        .forge(&["tools", "call", "shell", r#"{"command":"dd count=0"}"#])
        .code(3);
    world.forge(&["trust", "--revoke"]).code(0);
    world.forge(&echo).code(3);
}

/// A command that failed is not shown as a success, though the call was made.
#[test]
fn a_failed_command_is_seen_as_one() {
    const PLAY: &str = "\
version: 1
workers:
  main:
    - calls:
        - { tool: shell, args: { command: 'echo one' } }
        - { tool: shell, args: { command: 'echo /absent/*; exit 3' } }
    - say: done
";
    let world = World::new(&[
        (FILE, &format!("{PROJECT}model: scripted:play.yaml\n")),
        ("workers/main.worker", "---\nname: main\n---\nGo.\n"),
        ("play.yaml", PLAY),
    ]);
    let ran = world.forge(&["--trust", "run", "--yes"]);
    ran.code(0).says(&[
        "✓ shell echo one: one\n",
        "✗ shell echo /absent/*; exit 3: exit code 3, ",
    ]);
}
