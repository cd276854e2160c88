//! `fixtures/name-patterns.tsv`, for commands: what `hide` and `protect` cover is what file tools
//! take them to cover, whoever enforces it.

use std::collections::BTreeMap;

use sandbox_names::autoloaded::LoadTrigger;

use super::exec::mechanisms;
use super::mcp::Client;
use crate::support::World;

/// Paths by pattern, with whether the pattern covers them.
pub(crate) fn rows() -> BTreeMap<&'static str, Vec<(&'static str, bool)>> {
    let mut rows = BTreeMap::new();
    let table = include_str!("../../../../../fixtures/name-patterns.tsv");
    for row in table.lines().filter(|line| !line.starts_with('#')) {
        let [pattern, path, covers] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{row:?}");
        };
        let paths: &mut Vec<_> = rows.entry(pattern).or_default();
        paths.push((path, covers == "yes"));
    }
    rows
}

/// A project whose file says `key: [pattern]`.
pub(crate) fn world(key: &str, pattern: &str) -> World {
    World::new(&[(
        "forge.yaml",
        &format!("sandbox: {{ root: ., {key}: [\"{pattern}\"] }}\n"),
    )])
}

/// A command that does something with each path.
pub(crate) fn script(paths: &[(&str, bool)], each: &str) -> String {
    let each = |(path, _): &(&str, bool)| {
        let (around, _) = path.rsplit_once('/').unwrap_or((".", path));
        each.replace("PATH", &format!("'{path}'"))
            .replace("AROUND", &format!("'{around}'"))
    };
    paths.iter().map(each).collect::<Vec<_>>().join("; ")
}

#[test]
fn what_is_hidden_is_not_read_and_what_is_protected_not_written() {
    for (pattern, paths) in rows() {
        for mechanism in mechanisms(&World::new(&[])) {
            if mechanism == "landlock" {
                // Without mounts what is there stays as it is, which the plan says.
                continue;
            }
            let hidden = world("hide", pattern);
            let protected = world("protect", pattern);
            for (path, _) in &paths {
                hidden.write(path, "old");
                protected.write(path, "old");
            }
            let read = script(&paths, "cat PATH 2>/dev/null; echo");
            let run = ["exec", "--mechanism", mechanism, "--", "sh", "-c"];
            let ran = hidden.forge(&[&run[..], &[&read]].concat());
            let seen: Vec<&str> = ran.stdout.lines().collect();
            let write = script(&paths, "echo new > PATH");
            protected.forge(&[&run[..], &[&write]].concat());
            for ((path, covers), seen) in paths.iter().zip(seen) {
                assert_eq!(
                    seen.is_empty(),
                    *covers,
                    "{mechanism} hide {pattern} {path}"
                );
                let text = std::fs::read_to_string(protected.project().join(path)).unwrap();
                assert_eq!(
                    text == "old",
                    *covers,
                    "{mechanism} protect {pattern} {path}"
                );
            }
        }
    }
}

#[test]
fn what_is_made_under_a_protected_name_does_not_stay() {
    for (pattern, paths) in rows() {
        for mechanism in mechanisms(&World::new(&[])) {
            let world = world("protect", pattern);
            let make = script(&paths, "mkdir -p AROUND; echo new > PATH");
            let run = ["exec", "--mechanism", mechanism, "--", "sh", "-c"];
            world.forge(&[&run[..], &[&make]].concat()).code(0);
            for (path, covers) in &paths {
                let stays = world.project().join(path).exists();
                assert_eq!(!stays, *covers, "{mechanism} {pattern} {path}");
            }
        }
    }
}

/// Makes and changes files by a command, and expects that none is new or changed.
fn assert_kept(names: &[String]) {
    for mechanism in mechanisms(&World::new(&[])) {
        let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
        let mut script = String::new();
        for name in names {
            world.write(&format!("old/{name}"), "old");
            script += &format!(
                "mkdir -p $(dirname new/sub/{name}); echo new > new/sub/{name}; echo new > old/{name};"
            );
        }
        let run = ["exec", "--mechanism", mechanism, "--", "sh", "-c", &script];
        world.forge(&run);
        for name in names {
            let made = world.project().join("new/sub").join(name);
            assert!(!made.exists(), "{mechanism} {name}");
            let text = std::fs::read_to_string(world.project().join("old").join(name)).unwrap();
            // Without mounts what is there stays as it is, which the plan says.
            assert!(
                mechanism == "landlock" || text == "old",
                "{mechanism} {name}"
            );
        }
    }
}

/// A project in a directory of another one has rules of its own, so whoever writes its file lifts
/// those of the outer one for the next start there.
#[test]
fn no_command_makes_or_changes_a_project_within_the_project() {
    let names = sandbox_names::autoloaded::AUTOLOADED_FILES.iter();
    let names: Vec<String> = names
        .filter(|row| row.when == LoadTrigger::Forge)
        .map(|row| row.name.replace('*', "main"))
        .collect();
    assert!(names.len() > 5);
    assert_kept(&names);
}

/// Repositories of other programs than git, agents, editors and managers of hooks: one of each kind. All
/// names are in a table of `sandbox-names`.
#[test]
fn no_command_makes_or_changes_files_of_programs_that_start_by_themselves() {
    let names = ".hg/hgrc .hg/sharedpath .sl/config .jj/repo/config.toml .github/hooks/a.json \
        .clinerules/hooks/PreToolUse .factory/hooks.json .pi/extensions/a.ts .kilocode/mcp.json \
        .gitlab/duo/mcp.json .helix/languages.toml .vim/coc-settings.json prek.toml .huskyrc.js \
        grumphp.yml .cargo-husky/hooks/pre-commit";
    let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
    assert_kept(&names);
}

/// A pattern with a leading `/` is a path as workers see it, so it counts in one mount. Startup files
/// of shells are protected at the top of each mount. `forge explain` agrees.
#[test]
fn a_path_counts_in_its_mount_only() {
    let project = "sandbox:
  mode: direct
  zones: { data: { path: data }, ws: { path: ws } }
  hide: [/data/private]
  protect: [/ws/lib/*.lock, /ws/ws/*.lock]
";
    let names = [
        ("data/private/a", Some("forge.yaml:4:10")),
        ("data/src/private/a", None),
        ("ws/private/a", None),
        ("ws/data/private/a", None),
        ("ws/lib/x.lock", Some("forge.yaml:5:13")),
        ("ws/src/lib/x.lock", None),
        ("data/lib/x.lock", None),
        ("data/ws/lib/x.lock", None),
        ("ws/ws/x.lock", Some("forge.yaml:5:29")),
        ("ws/x.lock", None),
        ("ws/.bashrc", Some("which is built in")),
        ("ws/skel/.bashrc", None),
    ];
    for mechanism in mechanisms(&World::new(&[])) {
        if mechanism == "landlock" {
            continue;
        }
        let world = World::new(&[("forge.yaml", project)]);
        for (name, _) in names {
            world.write(name, "old");
        }
        let run = [
            "--trust",
            "exec",
            "--mechanism",
            mechanism,
            "--",
            "sh",
            "-c",
        ];
        let host = world.project();
        let write = names.map(|(name, _)| format!("echo new > {}/{name}", host.display()));
        let ran = world.forge(&[&run[..], &[&write.join("; ")]].concat());
        for (name, guard) in names {
            let text = std::fs::read_to_string(world.project().join(name)).unwrap();
            assert_eq!(
                text == "old",
                guard.is_some(),
                "{mechanism} {name} {}",
                ran.stderr
            );
            let path = format!("/{name}");
            let told = world.forge(&["--trust", "explain", &path, "--write"]);
            let blocked = told.stdout.contains(": block");
            assert_eq!(blocked, guard.is_some(), "{}", told.stdout);
            assert!(
                told.stdout.contains(guard.unwrap_or_default()),
                "{}",
                told.stdout
            );
        }
    }
}

/// Every place that shows a pattern shows it as the file has it, also where only the rest of it
/// counts in a mount.
#[test]
fn a_pattern_is_shown_as_it_was_written() {
    const SCRIPT: &str = "echo x > src/a.py; cat src/secret; echo x > src/new.py; exit 1";
    const REFUSED: &str = "(protected name src/a.py)";
    const IN_JSON: [&str; 2] = [r#""protected":"src/a.py""#, "src/new.py"];
    let zones = "mode: direct, zones: { src: { path: ./src, approval: { write: preApproved } } }";
    for (front, in_tools) in [("root: .", "src/a.py"), (zones, "/src/a.py")] {
        let world = World::new(&[
            (
                "forge.yaml",
                &format!(
                    "sandbox: {{ protect: [src/a.py, src/new.py], hide: [src/secret], {front} }}\n\
                     shell: {{ rules: [{{ pattern: '(sh|echo|cat|exit) *', approval: preApproved }}] }}\n"
                ),
            ),
            ("src/a.py", "a"),
            ("src/secret", "s"),
        ]);
        let forge = |args: &[&str]| {
            let ran = world.forge(&[&["--trust"], args].concat());
            ran.stdout + &ran.stderr
        };
        let command = serde_json::json!({ "command": format!("sh -c '{SCRIPT}'") });
        let mut client = Client::start(&world, &["--trust", "mcp"]);
        let over_mcp = client.call("shell", command.clone()).to_string();
        client.end();
        let shell = ["tools", "call", "shell", &command.to_string()];
        let write = ["tools", "call", "write_file", "path=/src/a.py", "content=x"];
        for (text, parts) in [
            (
                forge(&["exec", "--", "sh", "-c", SCRIPT]),
                &[
                    REFUSED,
                    r#"take "src/a.py" out of `protect`"#,
                    r#"take "src/secret" out of `hide`"#,
                    "(src/new.py: a new name)",
                ][..],
            ),
            (
                forge(&["exec", "--json", "--", "sh", "-c", SCRIPT]),
                &IN_JSON,
            ),
            (
                forge(&["exec", "--trace", "--", "sh", "-c", SCRIPT]),
                &[REFUSED],
            ),
            (
                forge(&["explain", "/src/a.py", "--write"]),
                &["`src/a.py` of `sandbox.protect`", "forge.yaml:1:22"],
            ),
            (
                forge(&["explain", "/src/secret"]),
                &["`src/secret` of `sandbox.hide`", "forge.yaml:1:52"],
            ),
            (forge(&["check"]), &["src/a.py, src/new.py", "src/secret"]),
            // File tools name the path for which the model asked.
            (
                forge(&write),
                &[&*format!("'{in_tools}' is a protected name")],
            ),
            (forge(&shell), &[REFUSED, "src/new.py"]),
            (forge(&[&["--json"], &shell[..]].concat()), &IN_JSON),
            (over_mcp, &[REFUSED, "src/new.py"]),
            (forge(&["log", "show", "last"]), &[]),
        ] {
            for part in parts {
                assert!(text.contains(part), "{front}: no {part} in {text}");
            }
            for rest in [
                "name /a.py",
                "(/new.py",
                r#""/a.py""#,
                r#""/new.py""#,
                r#""/secret""#,
            ] {
                assert!(!text.contains(rest), "{front}: {rest} in {text}");
            }
        }
    }
}
