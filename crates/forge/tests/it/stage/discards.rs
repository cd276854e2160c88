//! `forge stage discard`, and a place that somebody has damaged.

use serde_json::Value;

use super::world::{bare, has_git, head, kept, stage};
use crate::support::World;

const SOME: &[(&str, Option<&[u8]>)] = &[("a", Some(b"b\n"))];

#[test]
fn all_that_are_named_or_none() {
    if !has_git() {
        return;
    }
    let world = World::new(&[]);
    let repo = bare(&world, "r.git", &[("a", b"a\n")]);
    let before = head(&repo);
    let ids: Vec<String> = ["One", "Two", "Three"]
        .iter()
        .map(|message| stage(&world, &repo, SOME, message))
        .collect();
    let count = || world.forge(&["stage"]).stdout.lines().count();
    world
        .forge(&["stage", "discard", &ids[0], "ffff"])
        .code(2)
        .says(&["nothing is staged as `ffff`"]);
    assert_eq!(count(), 3);
    // Twice the same is once.
    let ran = world.forge(&["stage", "discard", &ids[0], &ids[0][..20]]);
    ran.code(0);
    assert_eq!(ran.stdout, format!("discarded {}\n", ids[0]));
    assert_eq!(count(), 2);
    world.forge(&["stage", "discard", &ids[0]]).code(2);
    let ran = world.forge(&["stage", "discard", &ids[1], &ids[2], "--json"]);
    let object: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(object["discarded"][1], ids[2].as_str());
    assert_eq!(world.forge(&["stage"]).stdout, "Nothing is staged.\n");
    assert_eq!(head(&repo), before);
    let listed = world.forge(&["log", "list"]).stdout;
    assert_eq!(listed.matches("discarded: 1 call").count(), 2, "{listed}");
    world.forge(&["log", "verify"]).code(0);
}

#[test]
fn a_prefix_names_one_and_only_one() {
    if !has_git() {
        return;
    }
    let world = World::new(&[]);
    let repo = bare(&world, "r.git", &[("a", b"a\n")]);
    world
        .forge(&["stage", "show"])
        .code(2)
        .says(&["nothing is staged"]);
    let one = stage(&world, &repo, SOME, "One");
    let shown = world.forge(&["stage", "show"]);
    shown.code(0);
    assert!(shown.stdout.contains(&one), "{}", shown.stdout);
    let two = stage(&world, &repo, SOME, "Two");
    for (args, says) in [
        (&["stage", "show"][..], "2 commits are staged"),
        (&["stage", "push"], "2 commits are staged"),
        (&["stage", "show", &one[..1]], "is the beginning of 2 ids"),
        (&["stage", "show", ""], "nothing is staged as ``"),
        (&["stage", "show", "../x"], "nothing is staged as `../x`"),
        (&["stage", "show", "\u{1b}[2J"], "as `\\x1b[2J`"),
    ] {
        world.forge(args).code(2).says(&[says]);
    }
    let short = (1..32).find(|n| one[..*n] != two[..*n]).unwrap();
    for id in [&one, &two] {
        let ran = world.forge(&["stage", "show", &id[..short], "--json"]);
        let object: Value = serde_json::from_str(&ran.code(0).stdout).unwrap();
        assert_eq!(object["commitId"], id.as_str());
    }
}

/// One that cannot be read hides no other, is not pushed, and can be thrown away.
#[test]
fn what_is_damaged_hides_nothing() {
    if !has_git() {
        return;
    }
    let world = World::new(&[]);
    let repo = bare(&world, "r.git", &[("a", b"a\n")]);
    let bad = stage(&world, &repo, SOME, "Bad");
    let good = stage(&world, &repo, SOME, "Good");
    let staged = kept(&world, &world.project()).join("staged");
    std::fs::write(staged.join(&bad).join("commit.json"), "{\"version\":1").unwrap();
    let ran = world.forge(&["stage"]);
    ran.code(0);
    assert!(ran.stdout.contains("Good"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains(&format!("{bad}  damaged  ")),
        "{}",
        ran.stdout
    );
    for command in ["show", "diff", "push"] {
        let ran = world.forge(&["stage", command, &bad]);
        ran.code(1).says(&["cannot be read", "Discard it"]);
    }
    world.forge(&["stage", "show", &good]).code(0);
    world.forge(&["stage", "discard", &bad]).code(0);
    let left = world.forge(&["stage", "--json"]).stdout;
    let object: Value = serde_json::from_str(&left).unwrap();
    assert_eq!(object["staged"].as_array().unwrap().len(), 1);
    assert_eq!(object["damaged"].as_array().unwrap().len(), 0);
}
