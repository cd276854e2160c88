//! `sandbox.presets`: a project names presets, and a person agrees to what they contain.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::users::UserWorld;
use crate::support::{Ran, World, ran};

const PROJECT: &str = "sandbox: { root: ., presets: [tool] }\n";

/// A preset of the person's with a login, a key and a variable.
const TOOL: &str = "\
preset: tool
about: a program of a test
state: [{ path: ~/.tool, mode: share, holds: [tokens] }]
hosts: { api: [api.tool.example], update: [new.tool.example] }
env: { keys: [TOOL_KEY], set: { TOOL_MODE: inside } }
notes: [it needs an account]
";

const OWN_PRESETS: &str = "home/.config/forge/presets";

fn prepare(world: &World) {
    world.write("forge.yaml", PROJECT);
    let home = world.outside().join("home");
    fs::create_dir_all(home.join(".tool")).unwrap();
    fs::write(home.join(".tool/login"), "token").unwrap();
    fs::create_dir_all(world.outside().join(OWN_PRESETS)).unwrap();
    let file = world.outside().join(OWN_PRESETS).join("tool.yaml");
    fs::write(file, TOOL).unwrap();
}

impl UserWorld {
    /// Runs a script in the project, with a key of the person's.
    fn exec(&self, flags: &[&str], script: &str) -> Ran {
        let args = [&["exec"], flags, &["--", "sh", "-c", script]].concat();
        let mut command = self.command(&args);
        ran(command
            .env("TOOL_KEY", "key-of-the-person")
            .output()
            .unwrap())
    }

    fn receipt(&self, flags: &[&str]) -> Value {
        let flags = [flags, &["--json"]].concat();
        let ran = self.exec(&flags, "true");
        ran.code(0);
        serde_json::from_str::<Value>(&ran.stdout).unwrap()["enforcement"].clone()
    }
}

const SHOW_MODE: &str = "echo mode=$TOOL_MODE";

#[test]
fn an_untrusted_preset_is_not_used_and_told() {
    UserWorld::each(prepare, |user| {
        let first = user.exec(&[], SHOW_MODE);
        first.code(0).says(&[
            "`sandbox.presets` gives commands the hosts, programs and variables of presets (tool), \
             and you have not agreed to that: no preset is used",
            "`forge trust`",
        ]);
        assert_eq!(first.stdout, "mode=\n");
        // From the second time on it is one line.
        let second = user.exec(&[], SHOW_MODE);
        assert_eq!(
            second.stderr,
            "warning: you have not agreed to sandbox.presets: see `forge trust`\n"
        );
        assert_eq!(user.receipt(&[])["presets"], Value::Null);
        assert!(!user.world.outside().join("state/homes").exists());
        let share = user.exec(&["--share"], SHOW_MODE);
        share
            .code(125)
            .says(&["--share needs a preset", "not agreed to: `forge trust`"]);
    });
}

#[test]
fn the_contents_are_shown_before_the_yes_and_used_after_it() {
    UserWorld::each(prepare, |user| {
        let shown = user.forge(&["trust", "--show"]);
        shown.code(0);
        let file = user.world.outside().join(OWN_PRESETS).join("tool.yaml");
        for text in [
            "sandbox.presets: tool",
            &format!("({})", file.display()),
            "    hosts, api: api.tool.example",
            "    reads and writes after your yes: ~/.tool",
            "    gets keys after your yes: TOOL_KEY",
            "    sets variables: TOOL_MODE=inside",
            "    note: it needs an account",
        ] {
            assert!(shown.stdout.contains(text), "{text}: {}", shown.stdout);
        }
        let object = user.forge(&["trust", "--show", "--json"]);
        let object: Value = serde_json::from_str(&object.stdout).unwrap();
        let contents = &object["widening"][0]["contents"];
        assert_eq!(contents["hosts"]["api"][0], "api.tool.example");

        user.forge(&["trust", "--yes"]).code(0);
        let used = user.exec(&[], SHOW_MODE);
        assert_eq!(used.stdout, "mode=inside\n", "{}", used.stderr);
        used.says(&["preset tool of the project: home directory kept"]);
        let receipt = user.receipt(&[]);
        let presets = &receipt["presets"];
        assert_eq!(presets["presets"][0]["name"], "tool");
        assert_eq!(presets["named_by"], "project");
        assert!(
            receipt.to_string().contains("api.tool.example"),
            "{receipt}"
        );
        let name_it = user.receipt(&["--preset", "rust"]);
        // The command line replaces those of the project.
        assert_eq!(name_it["presets"]["named_by"], "command line");
        assert!(!name_it.to_string().contains("\"tool\""), "{name_it}");
        let without = user.exec(&["-c", "sandbox.presets=[]"], SHOW_MODE);
        assert_eq!(without.stdout, "mode=\n");
        assert_eq!(without.stderr, "");
        user.exec(&["--no-os-sandbox"], SHOW_MODE)
            .says(&["with --no-os-sandbox the presets of the project are not used: tool"]);
        user.forge(&["trust", "--revoke"]).code(0);
        assert_eq!(user.exec(&[], SHOW_MODE).stdout, "mode=\n");
    });
}

#[test]
fn a_changed_preset_needs_another_yes() {
    UserWorld::each(prepare, |user| {
        user.forge(&["trust", "--yes"]).code(0);
        assert_eq!(user.exec(&[], SHOW_MODE).stdout, "mode=inside\n");
        let changed = TOOL.replace("api.tool.example", "other.example");
        user.write(&format!("{OWN_PRESETS}/tool.yaml"), &changed);
        let ran = user.exec(&[], SHOW_MODE);
        ran.code(0).says(&["you have not agreed to"]);
        assert_eq!(ran.stdout, "mode=\n");
        user.forge(&["trust", "--yes"]).code(0);
        assert_eq!(user.exec(&[], SHOW_MODE).stdout, "mode=inside\n");
        // One that it includes counts as well.
        let outer = "preset: outer\nabout: x\nextends: [tool]\n";
        user.write(&format!("{OWN_PRESETS}/outer.yaml"), outer);
        user.write("project/forge.yaml", &PROJECT.replace("tool", "outer"));
        user.forge(&["trust", "--yes"]).code(0);
        assert_eq!(user.exec(&[], SHOW_MODE).stdout, "mode=inside\n");
        user.write(&format!("{OWN_PRESETS}/tool.yaml"), TOOL);
        assert_eq!(user.exec(&[], SHOW_MODE).stdout, "mode=\n");
    });
}

/// A yes to a project is none to the login and the keys, and an answer to a question about a preset
/// that the person typed does not count for one that a project names.
#[test]
fn state_and_keys_need_a_yes_of_their_own() {
    UserWorld::each(prepare, |user| {
        user.forge(&["trust", "--yes"]).code(0);
        let script = format!(
            "echo key=$TOOL_KEY; cat ~/.tool/login {}/home/.tool/login",
            user.world.outside().display()
        );
        let apart = user.exec(&[], &script);
        assert_eq!(apart.stdout, "key=\n");
        apart.says(&["nothing of yours is shared (--share)"]);
        let shared = user.exec(&["--share"], &script);
        // Under Landlock alone state is shared, too: nothing in it is executed outside.
        assert_eq!(shared.stdout, "key=key-of-the-person\ntokentoken");
        assert_eq!(user.exec(&[], &script).stdout, "key=\n");
        assert!(user.receipt(&[])["presets"]["state"][0].is_null());
    });
}

#[test]
fn hostile_names_are_refused() {
    let many: Vec<String> = (0..10_000).map(|at| format!("p{at}")).collect();
    let rows = [
        ("[clude]".to_owned(), "did you mean `claude`?"),
        (
            "[../../evil]".to_owned(),
            "`../../evil` cannot be the name of a preset",
        ),
        (
            "[/etc/passwd]".to_owned(),
            "`/etc/passwd` cannot be the name of a preset",
        ),
        (
            "[\"a\\u001b[2Jb\"]".to_owned(),
            "cannot be the name of a preset",
        ),
        (format!("[{}]", many.join(", ")), "more than 64 presets"),
        (format!("[{}]", "x".repeat(65)), "cannot be the name"),
        ("tool".to_owned(), "`sandbox.presets` must be a list"),
        ("[[tool]]".to_owned(), "must be a string"),
        // It exists in the project, and nowhere else.
        ("[evil]".to_owned(), "unknown preset `evil`"),
    ];
    UserWorld::each(prepare, |user| {
        let evil = "preset: evil\nabout: x\nenv: { set: { TOOL_MODE: evil } }\n";
        for place in ["presets/evil.yaml", ".forge/presets/evil.yaml", "evil.yaml"] {
            user.write(&format!("project/{place}"), evil);
        }
        user.write("evil.yaml", evil);
        for (list, text) in &rows {
            let project = format!("sandbox: {{ root: ., presets: {list} }}\n");
            user.write("project/forge.yaml", &project);
            for args in [
                &["trust", "--yes"][..],
                &["exec", "--trust", "--", "echo", "ran"],
            ] {
                let ran = user.forge(args);
                assert_ne!(ran.code, 0, "{list:.80} {args:?}");
                assert_eq!(ran.stdout, "", "{list:.80} {args:?}");
                ran.says(&[text]);
                assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
                assert!(ran.stderr.len() < 4000, "{}", ran.stderr.len());
            }
        }
    });
}

/// Neither of two presets with one name is used.
#[test]
fn an_own_preset_does_not_replace_a_built_in_one() {
    UserWorld::each(prepare, |user| {
        user.write(
            "project/forge.yaml",
            "sandbox: { root: ., presets: [rust] }\n",
        );
        user.forge(&["trust", "--yes"]).code(0);
        let text = TOOL.replace("preset: tool", "preset: rust");
        user.write(&format!("{OWN_PRESETS}/rust.yaml"), &text);
        let ran = user.exec(&[], SHOW_MODE);
        ran.code(125).says(&[
            "presets/rust.yaml has the name of a built-in preset",
            "forge.yaml:1",
        ]);
        assert_eq!(ran.stdout, "");
    });
}

#[test]
fn presets_are_explained_as_typed_commands_have_them() {
    UserWorld::each(prepare, |user| {
        let check = |args: &[&str], expected: &str| {
            let ran = user.forge(&[&["--json", "explain"], args].concat());
            ran.code(0);
            let object: Value = serde_json::from_str(&ran.stdout).unwrap();
            assert_eq!(object["decision"], expected, "{args:?}: {}", ran.stdout);
        };
        let host = "host:api.tool.example";
        check(&[host], "block");
        check(&["--preset", "tool", host], "allow");
        user.forge(&["trust", "--yes"]).code(0);
        check(&[host], "allow");
        check(&["--preset", "rust", host], "block");
        check(&["-c", "sandbox.presets=[]", host], "block");
        // The other options about rights, as `forge exec` takes them.
        let update = "host:new.tool.example";
        let group = ["--host-group", "update"];
        check(&[update], "block");
        check(&[&group[..], &[update]].concat(), "allow");
        check(
            &[&["--preset", "tool"][..], &group, &[update]].concat(),
            "allow",
        );
        check(&["--host", "other.example", "host:other.example"], "allow");
        let own = user.world.project().join("a.txt").display().to_string();
        check(&["--write", &own], "allow");
        check(&["--write", "--read-only", &own], "block");
        let bare = ["-c", "sandbox.presets=[]", "explain", "--share", host];
        user.forge(&bare).code(2).says(&["--share needs a preset"]);
        // The person's own file limits presets, too.
        user.write(
            "home/.config/forge/config.yaml",
            "network: { deny: [api.tool.example] }\n",
        );
        check(&[host], "block");
        let unknown = user.forge(&["explain", "--preset", "none-such", host]);
        unknown.code(2).says(&["none-such"]);
    });
}

/// A preset that shows the names outside.
const NAMES: &str = "\
preset: names
about: a program of a test
identity: { hostname: host, user: host }
";

/// Prints the name of the host and the name of the user, as programs find them.
const SHOW_NAMES: &str = "uname -n; id -un; whoami; \
    [ ! -x /usr/bin/python3 ] || /usr/bin/python3 -c \
    'import getpass, socket; print(socket.gethostname()); print(getpass.getuser())'; \
    [ ! -x /usr/bin/node ] || /usr/bin/node -e \
    'console.log(os.hostname()); console.log(os.userInfo().username)'";

#[test]
fn the_names_outside_are_seen_where_a_preset_shows_them() {
    let prepare_both = |world: &World| {
        prepare(world);
        fs::write(world.outside().join(OWN_PRESETS).join("names.yaml"), NAMES).unwrap();
    };
    UserWorld::each(prepare_both, |user| {
        let mut outside = user.program(Path::new("sh"), &["-c", SHOW_NAMES]);
        let outside = ran(outside.output().unwrap()).stdout;
        let name = outside.lines().nth(1).unwrap();
        let mut ran_with = 0;
        for mechanism in ["namespaces", "bubblewrap", "landlock"] {
            let flags = ["--mechanism", mechanism];
            if user.exec(&flags, "true").code != 0 {
                continue;
            }
            ran_with += 1;
            let has_own = mechanism != "landlock";
            for (preset, is_shown) in [("names", true), ("tool", false)] {
                let flags = [&flags[..], &["--preset", preset, "--no-share"]].concat();
                let case = format!("{mechanism}, {preset}, {name}");
                let seen = user.exec(&flags, SHOW_NAMES).code(0).stdout.clone();
                assert_eq!(seen == outside, is_shown || !has_own, "{case}: {seen}");
                // Every program finds the same name, and an address for it.
                if has_own {
                    let named = "test \"$(cat /etc/hostname)\" = \"$(uname -n)\" && \
                                 timeout 10 getent hosts \"$(uname -n)\" > /dev/null";
                    assert_eq!(user.exec(&flags, named).code, 0, "{case}");
                }
                let variables = user.exec(&flags, "echo $USER $LOGNAME").stdout;
                let inside = seen.lines().nth(1).unwrap();
                assert_eq!(variables, format!("{inside} {inside}\n"), "{case}");
                let identity = &user.receipt(&flags)["presets"]["identity"];
                let origin = if is_shown || !has_own {
                    "host"
                } else {
                    "sandbox"
                };
                let expected = serde_json::json!({ "hostname": origin, "user": origin });
                assert_eq!(*identity, expected, "{case}");
            }
        }
        assert!(ran_with > 0, "this host confines nothing");
    });
}
