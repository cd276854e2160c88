//! Keys of the project file that somebody else enforces: each flips what can be seen from
//! outside.

use crate::support::World;

const FILE: &str = "golem-forge.config.yaml";

/// One call of forge, without and with a key.
struct Flip {
    key: &'static str,
    /// The project file, and the line that is added to it.
    file: &'static str,
    line: &'static str,
    /// Run before, with the key; must succeed.
    prepare: &'static [&'static str],
    args: &'static [&'static str],
    /// Exit code, and what standard output and error hold.
    without: (i32, &'static str),
    with: (i32, &'static str),
}

const BARE: Flip = Flip {
    key: "",
    file: "",
    line: "",
    prepare: &[],
    args: &[],
    without: (0, ""),
    with: (0, ""),
};

fn rows() -> Vec<Flip> {
    vec![Flip {
        key: "network.allow",
        line: "network: { allow: [example.com] }",
        args: &["exec", "--", "true"],
        with: (125, "choose `network: false` or `network: true`"),
        ..BARE
    }]
}

#[test]
fn every_key_can_be_seen_from_outside() {
    for row in rows() {
        for (text, (code, says)) in [
            (row.file.to_owned(), row.without),
            (format!("{}{}\n", row.file, row.line), row.with),
        ] {
            let world = World::new(&[(FILE, &text)]);
            let trusting = |args: &[&str]| world.forge(&[&["--trust", "--quiet"], args].concat());
            if !row.prepare.is_empty() {
                trusting(row.prepare).code(0);
            }
            let ran = trusting(row.args);
            let both = format!("{}{}", ran.stdout, ran.stderr);
            assert_eq!(ran.code, code, "{}\n{text}\n{both}", row.key);
            assert!(both.contains(says), "{}\n{text}\n{both}", row.key);
        }
    }
}

#[test]
fn a_list_of_hosts_never_turns_into_every_host() {
    let config = "network: { allow: [example.com] }\nshell: { default: ask }\n";
    let world = World::new(&[(FILE, config)]);
    for args in [
        &["exec", "--", "true"][..],
        &["tools", "call", "shell", r#"{"command":"true"}"#, "--yes"],
    ] {
        let ran = world.forge(&[&["--trust"], args].concat());
        assert_ne!(ran.code, 0);
        ran.says(&["a list of hosts is not enforceable yet", "-c network=false"]);
        assert!(!ran.stderr.contains("--no-os-sandbox"), "{}", ran.stderr);
        // What the text says helps.
        let off = [&["--trust", "-c", "network=false"], args].concat();
        world.forge(&off).code(0);
    }
    // Without a yes there is no network at all, and nothing to refuse.
    world.forge(&["exec", "--", "true"]).code(0);
}
