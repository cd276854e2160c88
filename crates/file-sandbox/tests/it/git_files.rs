//! Every file that git's documentation names, below every kind of git directory: what is not
//! content is written by no operation.

use file_sandbox::{DEFAULT_PROTECTED, ErrorKind, FileSandbox, Mode, MoveOptions};

use crate::scene::{mount, path};

const LAYOUT: &str = include_str!("../../../../fixtures/git/layout.txt");

/// Where a git directory lies, and whether all in it is git's.
const PLACES: [(&str, bool); 8] = [
    (".git", true),
    ("sub/.git", true),
    (".GIT", true),
    (".git/modules/a", true),
    (".git/modules/third_party/foo", true),
    (".git/modules/a/modules/b", true),
    (".git/worktrees/side", true),
    ("bare.git", false),
];

#[test]
fn what_is_not_content_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    for (place, _) in PLACES {
        let git = dir.path().join(place);
        for name in ["objects/info", "refs/heads", "logs", "sub"] {
            std::fs::create_dir_all(git.join(name)).unwrap();
        }
        std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    }
    std::fs::write(dir.path().join("other"), "x").unwrap();
    let data = mount("/data", dir.path(), Mode::ReadWrite);
    let files = FileSandbox::new(vec![data.protect(DEFAULT_PROTECTED).unwrap()]).unwrap();
    let mut tried = 0;
    for line in LAYOUT.lines().filter(|line| !line.starts_with('#')) {
        let (name, class) = line.split_once(' ').unwrap();
        for (place, whole) in PLACES {
            let module = place.contains("modules");
            let allowed = match class {
                // A module could be called so.
                "data" if module && name.contains("config") => continue,
                "data" if module && name.starts_with("objects/info") => continue,
                "data" => true,
                "unknown" if module => continue,
                "unknown" => !whole,
                _ => false,
            };
            let at = path(&format!("/data/{place}/{name}"));
            let from = path("/data/other");
            let outcomes = [
                files.write(&at, "x", Default::default()).map(drop),
                files.append(&at, b"x").map(drop),
                files
                    .copy(&from, &at, MoveOptions::new().overwrite(true))
                    .map(drop),
                files.create_dir(&at).map(drop),
            ];
            for (index, outcome) in outcomes.into_iter().enumerate() {
                tried += 1;
                match outcome {
                    Ok(()) => assert!(allowed, "{index} {place}/{name} was written"),
                    Err(error) if !allowed => {
                        // What is no directory there is refused as that.
                        let kinds = [ErrorKind::ReadOnly, ErrorKind::InvalidPath];
                        assert!(kinds.contains(&error.kind()), "{place}/{name}: {error}");
                    }
                    Err(error) if index == 0 => panic!("{place}/{name}: {error}"),
                    Err(_) => {}
                }
            }
            if !allowed {
                let there = dir.path().join(place).join(name);
                assert!(name == "HEAD" || !there.exists(), "{place}/{name}");
            }
        }
    }
    assert!(tried > 2500, "{tried}");
}

/// A directory put together elsewhere brings nothing along.
#[test]
fn a_directory_brings_nothing_along() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join(".git/objects")).unwrap();
    let data = mount("/data", dir.path(), Mode::ReadWrite);
    let files = FileSandbox::new(vec![data.protect(DEFAULT_PROTECTED).unwrap()]).unwrap();
    for (from, inside, to) in [
        ("a", "git-rebase-todo", ".git/rebase-merge"),
        ("b", "rebase-merge/git-rebase-todo", "sub/.git"),
        ("c", "x/hooks/pre-commit", ".git/modules/third"),
        ("d", "alternates", ".git/objects/info"),
        ("e", "origin", ".git/remotes"),
    ] {
        let file = path(&format!("/data/{from}/{inside}"));
        files.write(&file, "exec x\n", Default::default()).unwrap();
        let (from, to) = (path(&format!("/data/{from}")), path(&format!("/data/{to}")));
        let error = files.rename(&from, &to, Default::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    }
}
