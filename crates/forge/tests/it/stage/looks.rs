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
    world.forge(&["stage"]).code(1).says(&["others can write"]);
    mode(&state, 0o755);
    let elsewhere = world.outside().join("elsewhere");
    std::fs::rename(key, &elsewhere).unwrap();
    symlink(&elsewhere, key).unwrap();
    world.forge(&["stage"]).code(1).says(&["is a link"]);
}
