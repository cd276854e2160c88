//! A child can do no more than its parent, whatever it declares.

use std::fs;
use std::os::unix::fs::symlink;

use file_sandbox::{ErrorKind, FileSandbox, ListOptions, Mode, Restriction, SandboxPath};
use proptest::prelude::*;

use crate::scene::{Scene, mount, path};

/// Readable and writable ones.
type Roots = (&'static [&'static str], &'static [&'static str]);

#[test]
fn table() {
    let scene = Scene::new();
    let (ro, rw) = (Mode::ReadOnly, Mode::ReadWrite);
    let keep = |at: &str| Restriction::new().keep(path(at));
    let keep_as = |at: &str, mode| Restriction::new().keep_as(path(at), mode);
    let escalation = Err(ErrorKind::PermissionEscalation);
    let rows: [(Restriction, Result<Roots, ErrorKind>); 17] = [
        (
            Restriction::new(),
            Ok((&["/data", "/docs", "/ref"], &["/data", "/docs"])),
        ),
        (Restriction::nothing(), Ok((&[], &[]))),
        (keep("/data"), Ok((&["/data"], &["/data"]))),
        (
            keep("/"),
            Ok((&["/data", "/docs", "/ref"], &["/data", "/docs"])),
        ),
        (keep_as("/data", ro), Ok((&["/data"], &[]))),
        (keep_as("/data", rw), Ok((&["/data"], &["/data"]))),
        (keep("/ref"), Ok((&["/ref"], &[]))),
        (keep("/data/sub"), Ok((&["/data/sub"], &["/data/sub"]))),
        (keep_as("/ref", rw), escalation),
        (keep_as("/", rw), escalation),
        (keep("/logs"), escalation),
        (keep("/data/in_dir"), escalation),
        (keep("/data/out_dir"), escalation),
        (keep("/data/none"), Err(ErrorKind::NotFound)),
        (keep("/data/a.md"), Err(ErrorKind::NotAFile)),
        (
            Restriction::new().read_only(true),
            Ok((&["/data", "/docs", "/ref"], &[])),
        ),
        (Restriction::new().read_only(false), escalation),
    ];
    for (restriction, expected) in rows {
        let child = scene.files.restrict(&restriction);
        let roots = child.map(|c| (c.readable_roots(), c.writable_roots()));
        match (roots, expected) {
            (Ok((read, write)), Ok(expected)) => {
                assert_eq!(
                    (&read[..], &write[..]),
                    (&*own(expected.0), &*own(expected.1))
                );
            }
            (Err(error), Err(kind)) => assert_eq!(error.kind(), kind, "{restriction:?}"),
            (roots, expected) => panic!("{restriction:?}: {roots:?}, not {expected:?}"),
        }
    }
    // The parent is as before.
    assert_eq!(scene.files.writable_roots(), ["/data", "/docs"]);
    scene
        .files
        .write(&path("/data/still.txt"), "x", Default::default())
        .unwrap();
}

fn own(roots: &[&str]) -> Vec<String> {
    roots.iter().map(|root| (*root).to_owned()).collect()
}

#[test]
fn what_a_child_lacks_is_outside() {
    let scene = Scene::new();
    let child = scene
        .files
        .restrict(&Restriction::new().keep(path("/ref")))
        .unwrap();
    let denied = child.exists(&path("/data/a.md")).unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::OutsideSandbox);
    let top = child
        .list(&SandboxPath::root(), ListOptions::new())
        .unwrap();
    assert_eq!(top.entries.len(), 1);
    // A link into a mount that the child does not have leads outside.
    let denied = child
        .read(&path("/ref/to_data"), Default::default())
        .unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Escape);
    // A grandchild cannot come back up.
    let up = child.restrict(&Restriction::new().keep(path("/data")));
    assert_eq!(up.unwrap_err().kind(), ErrorKind::PermissionEscalation);
}

#[test]
fn a_subtree_keeps_the_rules_of_its_mount() {
    let scene = Scene::new();
    let git = scene
        .files
        .restrict(&Restriction::new().keep(path("/data/.git")))
        .unwrap();
    let denied = git
        .write(&path("/data/.git/hooks/x"), "x", Default::default())
        .unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::ReadOnly);
    let denied = git.delete(&path("/data/.git")).unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::ReadOnly);
    let sub = scene
        .files
        .restrict(&Restriction::new().keep(path("/data/sub")))
        .unwrap();
    // `chain2 -> ../out_rel` climbs out of the child before it climbs out of the parent.
    let denied = sub
        .read(&path("/data/sub/chain2"), Default::default())
        .unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Escape);
}

const NAMES: [&str; 4] = ["a", "b", "c", ".env"];

fn some_path() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(&NAMES[..]), 0..4)
        .prop_map(|names| format!("/{}", names.join("/")))
}

fn some_mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::ReadOnly), Just(Mode::ReadWrite)]
}

fn some_restriction() -> impl Strategy<Value = Restriction> {
    let places = proptest::collection::vec((some_path(), proptest::option::of(some_mode())), 0..3);
    (places, proptest::option::of(any::<bool>())).prop_map(|(places, read_only)| {
        let restriction =
            places
                .into_iter()
                .fold(Restriction::new(), |r, (place, mode)| match mode {
                    Some(mode) => r.keep_as(path(&place), mode),
                    None => r.keep(path(&place)),
                });
        match read_only {
            Some(read_only) => restriction.read_only(read_only),
            None => restriction,
        }
    })
}

#[derive(Clone, Debug)]
enum Thing {
    Dir(String),
    File(String),
    Link(String, String),
}

fn some_thing() -> impl Strategy<Value = Thing> {
    prop_oneof![
        some_path().prop_map(Thing::Dir),
        some_path().prop_map(Thing::File),
        (some_path(), "(\\.\\./){0,3}[abc](/[abc])?").prop_map(|(at, to)| Thing::Link(at, to)),
    ]
}

/// Makes what can be made; collisions are part of the game.
fn grow(host: &std::path::Path, things: &[Thing]) {
    for thing in things {
        let at = |path: &str| host.join(&path[1..]);
        let _ = match thing {
            Thing::Dir(path) => fs::create_dir_all(at(path)),
            Thing::File(path) => fs::write(at(path), "x"),
            Thing::Link(path, to) => symlink(to, at(path)),
        };
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn a_child_can_do_no_more_than_its_parent(
        modes in (some_mode(), some_mode()),
        things in proptest::collection::vec(some_thing(), 0..12),
        restrictions in (some_restriction(), some_restriction()),
        asked in proptest::collection::vec(some_path(), 1..12),
    ) {
        let host = tempfile::tempdir().unwrap();
        fs::create_dir_all(host.path().join("one")).unwrap();
        fs::create_dir_all(host.path().join("two")).unwrap();
        grow(&host.path().join("one"), &things);
        grow(&host.path().join("two"), &things);
        let parent = FileSandbox::new(vec![
            mount("/", &host.path().join("one"), modes.0).hide([".env"]).unwrap(),
            mount("/a/b", &host.path().join("two"), modes.1).protect(["c"]).unwrap(),
        ]).unwrap();
        let answers = |files: &FileSandbox| -> Vec<(bool, bool)> {
            asked.iter().map(|at| (files.can_read(&path(at)), files.can_write(&path(at)))).collect()
        };
        let before = answers(&parent);
        let Ok(child) = parent.restrict(&restrictions.0) else { return Ok(()) };
        let grandchild = child.restrict(&restrictions.1).ok();
        for (lower, upper) in [(Some(child.clone()), &parent), (grandchild, &child)] {
            let Some(lower) = lower else { continue };
            for (at, (low, up)) in asked.iter().zip(answers(&lower).into_iter().zip(answers(upper))) {
                // A directory above a root is shown by a child though its parent has the file
                // system's own one there, or none: showing it tells nothing but its own roots.
                let shown_only = lower.mode_at(&path(at)).is_none();
                prop_assert!(!low.0 || up.0 || shown_only, "read {at}");
                prop_assert!(!low.1 || up.1, "write {at}");
            }
        }
        prop_assert_eq!(answers(&parent), before);
    }

    /// The same for a child with a top of its own, whose `/a` is the parent's `/top/a`.
    #[test]
    fn a_child_with_a_top_of_its_own_can_do_no_more(
        modes in (some_mode(), some_mode()),
        things in proptest::collection::vec(some_thing(), 0..12),
        top in some_path(),
        first in proptest::option::of(some_restriction()),
        asked in proptest::collection::vec(some_path(), 1..12),
    ) {
        let host = tempfile::tempdir().unwrap();
        fs::create_dir_all(host.path().join("one")).unwrap();
        fs::create_dir_all(host.path().join("two")).unwrap();
        grow(&host.path().join("one"), &things);
        grow(&host.path().join("two"), &things);
        let parent = FileSandbox::new(vec![
            mount("/", &host.path().join("one"), modes.0).hide([".env"]).unwrap(),
            mount("/a/b", &host.path().join("two"), modes.1).protect(["c"]).unwrap(),
        ]).unwrap();
        let restriction = first.unwrap_or_default().rebase(path(&top));
        let Ok(child) = parent.restrict(&restriction) else { return Ok(()) };
        for at in &asked {
            let below = path(&format!("{top}/{at}"));
            let at = path(at);
            let shown_only = child.mode_at(&at).is_none();
            prop_assert!(!child.can_read(&at) || parent.can_read(&below) || shown_only, "read {at}");
            prop_assert!(!child.can_write(&at) || parent.can_write(&below), "write {at}");
        }
    }
}
