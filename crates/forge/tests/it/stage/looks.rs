//! Looking at what is staged.

use serde_json::Value;

use super::world::{bare, has_git, head, kept, stage, stage_in};
use crate::support::World;

#[test]
fn nothing_is_staged_where_nothing_ever_was() {
    let world = World::new(&[]);
    for args in [&["stage"][..], &["stage", "status"]] {
        let ran = world.forge(args);
        ran.code(0);
        assert_eq!(ran.stdout, "Nothing is staged.\n", "{args:?}");
    }
    let ran = world.forge(&["stage", "--json"]);
    assert_eq!(ran.stdout, "{\"staged\":[],\"damaged\":[]}\n");
    assert!(!world.outside().join("state/git").exists());
}

#[test]
fn one_line_each_the_oldest_first() {
    if !has_git() {
        return;
    }
    let world = World::new(&[]);
    let repo = bare(&world, "r.git", &[("old.md", b"a\nb\n")]);
    let before = head(&repo);
    let one = stage(
        &world,
        &repo,
        &[("new.md", Some(b"x\n")), ("old.md", Some(b"a\nc\n"))],
        "Add a topic\n\nand more",
    );
    let two = stage(&world, &repo, &[("old.md", None)], "Remove it");
    let ran = world.forge(&["stage"]);
    ran.code(0).says(&["forge stage push ID"]);
    let place = repo.to_str().unwrap();
    let expected = format!(
        "{}  just now  file://{place} main  2 files +2 -1  Add a topic\n\
         {}  just now  file://{place} main  1 file +0 -2  Remove it\n",
        &one[..12],
        &two[..12]
    );
    assert_eq!(ran.stdout, expected);
    let object: Value = serde_json::from_str(&world.forge(&["stage", "--json"]).stdout).unwrap();
    let staged = object["staged"].as_array().unwrap();
    assert_eq!(staged.len(), 2);
    assert_eq!(staged[0]["commitId"], one.as_str());
    assert_eq!(staged[0]["message"], "Add a topic\n\nand more\n");
    assert_eq!(staged[0]["files"][0]["operation"], "create");
    assert_eq!(staged[1]["files"][0]["operation"], "delete");
    assert_eq!(head(&repo), before);
}

#[test]
fn projects_do_not_see_each_others() {
    if !has_git() {
        return;
    }
    let world = World::new(&[]);
    let repo = bare(&world, "r.git", &[("a", b"a\n")]);
    let other = world.outside().join("other");
    std::fs::create_dir(&other).unwrap();
    stage_in(&world, &other, &repo, &[("a", Some(b"b\n"))], "Elsewhere");
    assert_eq!(world.forge(&["stage"]).stdout, "Nothing is staged.\n");
    let there = world.forge(&["-C", other.to_str().unwrap(), "stage"]);
    assert!(there.stdout.contains("Elsewhere"), "{}", there.stdout);
}

/// Whoever could write there could have a person push what nobody staged.
#[test]
fn a_place_that_others_can_reach_is_not_used() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let world = World::new(&[]);
    let staged = kept(&world, &world.project());
    let mode = |path: &std::path::Path, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).unwrap();
    };
    std::fs::create_dir_all(&staged).unwrap();
    let key = staged.parent().unwrap();
    let git = key.parent().unwrap();
    for path in [git, key, &staged] {
        mode(path, 0o700);
    }
    world.forge(&["stage"]).code(0);
    for path in [git, key, &staged] {
        mode(path, 0o750);
        let ran = world.forge(&["stage"]);
        ran.code(1).says(&["is open to others"]);
        mode(path, 0o700);
    }
    let state = world.outside().join("state");
    mode(&state, 0o777);
    world
        .forge(&["stage"])
        .code(2)
        .says(&["can be written by others"]);
    mode(&state, 0o755);
    let elsewhere = world.outside().join("elsewhere");
    std::fs::rename(key, &elsewhere).unwrap();
    symlink(&elsewhere, key).unwrap();
    world.forge(&["stage"]).code(1).says(&["is a link"]);
}

/// A change with what a terminal would obey, in text, message and at the end of a file.
fn hostile(world: &World) -> String {
    let repo = bare(world, "r.git", &[("a.md", b"one\n"), ("gone", b"x\n")]);
    let files: &[(&str, Option<&[u8]>)] = &[
        ("a.md", Some(b"one\n\ttwo\x1b[2J\\n \xe2\x80\xaex")),
        ("gone", None),
        ("logo.png", Some(b"\x00\x01")),
        ("nothing", Some(b"")),
    ];
    stage(world, &repo, files, "First\n\n\u{202e}tail")
}

#[test]
fn all_of_it_and_every_character() {
    if !has_git() {
        return;
    }
    let world = World::new(&[]);
    let id = hostile(&world);
    let ran = world.forge(&["stage", "show"]);
    let (head, diff) = ran.code(0).stdout.split_once("\n\n---").unwrap();
    let own = |line: &&str| !line.starts_with("repo") && !line.starts_with("base");
    let head: Vec<&str> = head.lines().filter(own).collect();
    assert_eq!(head[0], format!("id       {id}"));
    assert!(head[2].starts_with("staged   20"), "{head:?}");
    insta::assert_snapshot!(head[3..].join("\n"), @r"
    files    4 files +1 -1

    message
        First

        \u{202e}tail

    files
        update  a.md  +1 -0
        delete  gone  +0 -1
        create  logo.png  not shown, 2 bytes
        create  nothing  +0 -0
    ");
    insta::assert_snapshot!(format!("---{diff}"), @r"
    --- a/a.md
    +++ b/a.md
    @@ -1 +1,2 @@
     one
    +	two\x1b[2J\n \u{202e}x
    \ No newline at end of file
    --- a/gone
    +++ /dev/null
    @@ -1 +0,0 @@
    -x
    --- /dev/null
    +++ b/logo.png
    +(2 bytes, SHA-256 b413f47d13ee2fe6c845b2ee141af81de858df4ec549a58b7970bb96645bc8d2)
    --- /dev/null
    +++ b/nothing
    ");
    assert_eq!(world.forge(&["stage", "diff"]).stdout, format!("---{diff}"));

    let text = world.forge(&["stage", "show", "--json"]).stdout;
    assert!(
        !text.contains('\u{1b}') && !text.contains('\u{202e}'),
        "{text}"
    );
    let object: Value = serde_json::from_str(&text).unwrap();
    let diff = object["files"][0]["diff"].as_str().unwrap();
    assert!(diff.contains("+\ttwo\u{1b}[2J\\n \u{202e}x"), "{diff:?}");
    assert_eq!(object["files"][2]["added"], Value::Null);
    assert_eq!(object["files"][2]["bytes"], 2);
    let text = world.forge(&["stage", "diff", &id, "--json"]).stdout;
    let object: Value = serde_json::from_str(&text).unwrap();
    let whole = object["diffs"][0]["diff"].as_str().unwrap();
    assert!(whole.starts_with(diff), "{whole:?}");
}

#[test]
fn colours_are_for_a_terminal_or_where_they_are_asked_for() {
    if !has_git() {
        return;
    }
    let world = World::new(&[]);
    hostile(&world);
    let coloured = |args: &[&str], variable: Option<(&str, &str)>| {
        let mut command = world.command(crate::support::forge_program(), args);
        command.envs(variable);
        let out = crate::support::ran(command.output().unwrap()).stdout;
        out.contains("\u{1b}[32m+") && out.contains("\u{1b}[31m-")
    };
    for (args, variable, expected) in [
        (&["stage", "diff"][..], None, false),
        (&["stage", "show"], None, false),
        (&["stage", "diff", "--color", "always"], None, true),
        (&["stage", "show", "--color", "always"], None, true),
        (&["stage", "diff"], Some(("CLICOLOR_FORCE", "1")), true),
        (
            &["stage", "diff", "--color", "never"],
            Some(("CLICOLOR_FORCE", "1")),
            false,
        ),
        (
            &["stage", "diff", "--json", "--color", "always"],
            None,
            false,
        ),
    ] {
        assert_eq!(coloured(args, variable), expected, "{args:?} {variable:?}");
    }
}
