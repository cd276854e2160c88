//! Targets of protected links: no operation changes a file that a program obeys through a link,
//! whatever makes the link protected and whatever the link leads to.

use std::os::unix::fs::symlink;
use std::path::Path;

use file_sandbox::{
    DEFAULT_PROTECTED, EditOptions, Error, ErrorKind, FileSandbox, Mode, MoveOptions, Replacement,
};

use crate::scene::{mount, path};

/// A link, its text, its target in the mount, and `true` if the target is protected by it.
const LINKS: [(&str, &str, &str, bool); 22] = [
    (
        ".git/hooks/pre-commit",
        "../../scripts/pc",
        "scripts/pc",
        true,
    ),
    (
        ".git/hooks/deep/run",
        "../../../scripts/pc",
        "scripts/pc",
        true,
    ),
    (".git/hooks", "../scripts", "scripts/pc", true),
    (".git/config", "../scripts/config", "scripts/config", true),
    (
        ".git/info/attributes",
        "../../scripts/pc",
        "scripts/pc",
        true,
    ),
    (".git/unknown", "../scripts/pc", "scripts/pc", true),
    (
        ".git/modules/a/hooks/x",
        "../../../../scripts/pc",
        "scripts/pc",
        true,
    ),
    (
        ".git/modules/a/b/hooks/x",
        "../../../../../scripts/pc",
        "scripts/pc",
        true,
    ),
    ("scripts/.git/hooks/x", "../../pc", "scripts/pc", true),
    (
        "scripts/sub/.git/hooks/x",
        "../../pc",
        "scripts/sub/pc",
        true,
    ),
    (".vscode/tasks.json", "../scripts/pc", "scripts/pc", true),
    (".vscode/a/b/c", "../../../scripts/pc", "scripts/pc", true),
    ("scripts/.vscode", "sub", "scripts/sub/pc", true),
    (".envrc", "scripts/pc", "scripts/pc", true),
    ("own/tool.lock", "../scripts/pc", "scripts/pc", false),
    ("one.lock", "scripts/pc", "scripts/pc", true),
    (
        ".config/fish/conf.d/x",
        "../../../scripts/pc",
        "scripts/pc",
        true,
    ),
    ("ci/own/run", "../../scripts/pc", "scripts/pc", true),
    (".git/hooks/chain", "../../hop", "scripts/pc", true),
    // Not protected.
    (".git/objects/x", "../../scripts/pc", "scripts/pc", false),
    ("plain/x", "../scripts/pc", "scripts/pc", false),
    (
        "node_modules/.vscode/x",
        "../../scripts/pc",
        "scripts/pc",
        false,
    ),
];

/// An operation, and the file that it changes.
type Change = (&'static str, fn(&FileSandbox, &str) -> Result<(), Error>);

const CHANGES: [Change; 9] = [
    ("write", |files, at| {
        files.write(&path(at), "x", Default::default()).map(drop)
    }),
    ("append", |files, at| {
        files.append(&path(at), b"x").map(drop)
    }),
    ("edit", |files, at| {
        let replacement = Replacement::new("text", "other");
        files
            .edit(&path(at), &[replacement], EditOptions::new())
            .map(drop)
    }),
    ("delete", |files, at| files.delete(&path(at))),
    ("move away", |files, at| {
        files
            .rename(&path(at), &path("/data/away"), MoveOptions::new())
            .map(drop)
    }),
    ("move over", |files, at| {
        let options = MoveOptions::new().overwrite(true);
        files
            .rename(&path("/data/other"), &path(at), options)
            .map(drop)
    }),
    ("copy over", |files, at| {
        let options = MoveOptions::new().overwrite(true);
        files
            .copy(&path("/data/other"), &path(at), options)
            .map(drop)
    }),
    ("move its directory", |files, at| {
        let above = path(at).parent().unwrap();
        files
            .rename(&above, &path("/data/away"), MoveOptions::new())
            .map(drop)
    }),
    ("delete its directory", |files, at| {
        let above = path(at).parent().unwrap();
        files.delete_all(&above)
    }),
];

fn scene(top: &Path, link: &str, text: &str, target: Option<&str>) -> FileSandbox {
    for dir in ["scripts/sub", "plain", "own", ".git/objects", ".git/refs"] {
        std::fs::create_dir_all(top.join(dir)).unwrap();
    }
    for file in ["scripts/sub/x", "other", "scripts/x"]
        .into_iter()
        .chain(target)
    {
        std::fs::write(top.join(file), "text").unwrap();
    }
    symlink("scripts/pc", top.join("hop")).unwrap();
    std::fs::create_dir_all(top.join(link).parent().unwrap()).unwrap();
    symlink(text, top.join(link)).unwrap();
    let rules = DEFAULT_PROTECTED.iter().chain(&["/*.lock", "ci/*/run"]);
    let data = mount("/data", top, Mode::ReadWrite).protect(rules).unwrap();
    FileSandbox::new(vec![data]).unwrap()
}

#[test]
fn no_operation_changes_the_target_of_a_protected_link() {
    let mut wrong = Vec::new();
    for (link, text, target, is_protected) in LINKS {
        for (change, make) in CHANGES {
            for exists in [true, false] {
                let dir = tempfile::tempdir().unwrap();
                let files = scene(dir.path(), link, text, exists.then_some(target));
                let outcome = make(&files, &format!("/data/{target}"));
                let is_read_only =
                    matches!(&outcome, Err(error) if error.kind() == ErrorKind::ReadOnly);
                // Nothing is there to be changed, or to be moved with the directory.
                let is_idle =
                    !exists && !["write", "append", "move over", "copy over"].contains(&change);
                let moves_links = change.contains("directory")
                    && link.starts_with(Path::new(target).parent().unwrap().to_str().unwrap());
                if !is_idle && !moves_links && is_read_only != is_protected {
                    wrong.push(format!("{change} {link} {target} {exists}: {outcome:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} {wrong:#?}", wrong.len());
}

/// A link, its text, and a link on its way with its text: if that one is replaced, the protected
/// one leads elsewhere, also if it led to nothing or out of the mount.
const ON_THE_WAY: [[&str; 4]; 6] = [
    [
        "one.lock",
        "shared/current/x",
        "shared/current",
        "../scripts",
    ],
    [
        ".vscode",
        "shared/current/sub",
        "shared/current",
        "../scripts",
    ],
    [
        ".vscode/tasks.json",
        "../shared/current/x",
        "shared/current",
        "../scripts",
    ],
    [
        ".git/hooks/pre-commit",
        "../../shared/current/x",
        "shared/current",
        "../scripts",
    ],
    [
        ".envrc",
        "shared/current/gone",
        "shared/current",
        "../scripts",
    ],
    [".envrc", "shared/current/x", "shared/current", "/nowhere"],
];

#[test]
fn no_link_on_the_way_is_replaced() {
    for [link, text, way, way_text] in ON_THE_WAY {
        for (change, make) in CHANGES {
            if ["write", "append", "edit", "copy over"].contains(&change) {
                // These go through the link.
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let files = scene(dir.path(), link, text, None);
            std::fs::create_dir(dir.path().join("shared")).unwrap();
            symlink(way_text, dir.path().join(way)).unwrap();
            symlink("nowhere", dir.path().join("shared/free")).unwrap();
            let error = make(&files, &format!("/data/{way}")).expect_err(link);
            assert_eq!(
                error.kind(),
                ErrorKind::ReadOnly,
                "{change} {link}: {error}"
            );
            if !change.contains("directory") {
                make(&files, "/data/shared/free").expect(link);
            }
        }
    }
}
