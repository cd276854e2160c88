//! The table beside the list of files that git's documentation and source name.

use sandbox_names::git::{GitPathClass, OBEYED, STATE, classify};

const LAYOUT: &str = include_str!("../../../fixtures/git/layout.txt");

fn rows() -> impl Iterator<Item = (Vec<&'static str>, GitPathClass)> {
    let lines = LAYOUT.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let (path, class) = line.split_once(' ').expect(line);
        let class = match class {
            "data" => GitPathClass::Data,
            "kept" => GitPathClass::GitOnly,
            "state" => GitPathClass::State,
            "obeyed" => GitPathClass::Obeyed,
            "unknown" => GitPathClass::Unknown,
            other => panic!("{other}"),
        };
        (path.split('/').collect(), class)
    })
}

#[test]
fn what_git_names_is_known() {
    for (path, class) in rows() {
        assert_eq!(classify(&path), class, "{path:?}");
        let upper: Vec<String> = path.iter().map(|name| name.to_uppercase()).collect();
        assert_eq!(classify(&upper), class, "{upper:?}");
    }
}

#[test]
fn a_worktree_and_a_module_have_the_same() {
    for (path, class) in rows() {
        let below = |above: &[&'static str]| classify(&[above, &path].concat());
        let in_worktree = match (class, path[0]) {
            (_, "commondir" | "config.worktree") => GitPathClass::Obeyed,
            // Git looks for these in the main directory.
            (GitPathClass::Obeyed, _) => GitPathClass::Unknown,
            (class, _) => class,
        };
        assert_eq!(below(&["worktrees", "side"]), in_worktree, "{path:?}");
        for module in [
            &["modules", "a"][..],
            &["modules", "third_party", "foo"],
            &["modules", "a", "modules", "b"],
            &["worktrees", "side", "modules", "a"],
        ] {
            // A branch of that name is no branch there: the strictest reading holds.
            let strict = path.contains(&"config") || path.contains(&"info");
            match class {
                GitPathClass::Unknown => {
                    assert!(!matches!(below(module), GitPathClass::Data), "{path:?}")
                }
                GitPathClass::Data if strict => {}
                class => assert_eq!(below(module), class, "{module:?} {path:?}"),
            }
        }
    }
}

#[test]
fn what_is_obeyed_is_in_the_list() {
    for name in OBEYED.iter().chain(&STATE) {
        let named = rows().any(|(path, _)| path.join("/").starts_with(name));
        assert!(named, "{name}");
    }
}
