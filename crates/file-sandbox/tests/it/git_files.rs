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

/// Configuration leads to files of any name: what it names is git's like its own files are, in
/// every kind of repository.
#[test]
fn where_configuration_leads_is_not_written() {
    let keys = [
        ("[core]\n\thooksPath = tools/t\n", "tools/t/pre-commit"),
        (
            "[core]\n\thooksPath = \"$TOP/tools/t\"\n",
            "tools/t/post-commit",
        ),
        ("[core]\n\tattributesFile = ./tools/t\n", "tools/t"),
        ("[core]\n\tfsmonitor = tools/t\n", "tools/t"),
        ("[core]\n\tsshCommand = sh tools/t\n", "tools/t"),
        ("[include]\n\tpath = ../tools/t\n", "tools/t"),
        (
            "[includeIf \"gitdir:/x\"]\n\tpath = ../tools/t\n",
            "tools/t",
        ),
        ("[filter \"x\"]\n\tclean = ./tools/t %f\n", "tools/t"),
        ("[diff \"x\"]\n\ttextconv = tools/t\n", "tools/t"),
        ("[merge \"x\"]\n\tdriver = tools/t %A\n", "tools/t"),
        ("[alias]\n\tst = !sh tools/t\n", "tools/t"),
        ("[alias]\n\tst = !cd tools && ./t\n", "tools/t"),
        (
            "[core]\n\tfsmonitor = \"\\\"$PWD\\\"/tools/t\"\n",
            "tools/t",
        ),
        ("[core]\n\tsshCommand = ssh -Ftools/t\n", "tools/t"),
        ("[alias]\n\tst = !there\n", "there"),
        ("[include]\n\tpath = more\n", "tools/t/pre-push"),
    ];
    // Where the working directory is, and its repository.
    let places = [
        ("", ".git"),
        ("sub/deep", "sub/deep/.git"),
        ("module", ".git/modules/third/party"),
        ("side", ".git"),
    ];
    for (config, target) in keys {
        for (around, git) in places {
            let dir = tempfile::tempdir().unwrap();
            let top = dir.path().canonicalize().unwrap();
            let (work, git) = (top.join(around), top.join(git));
            std::fs::create_dir_all(&git).unwrap();
            std::fs::create_dir_all(&work).unwrap();
            match around {
                "module" => {
                    std::fs::write(work.join(".git"), "gitdir: ../.git/modules/third/party\n")
                        .unwrap();
                }
                "side" => {
                    let own = git.join("worktrees/side");
                    std::fs::create_dir_all(&own).unwrap();
                    std::fs::write(own.join("commondir"), "../..\n").unwrap();
                    let pointer = format!("gitdir: {}\n", own.display());
                    std::fs::write(work.join(".git"), pointer).unwrap();
                }
                _ => {}
            }
            let text = config.replace("$TOP", work.to_str().unwrap());
            // Included files are named from where they are, which for these is elsewhere.
            let relative = !config.contains("../tools") || git == work.join(".git");
            if !relative {
                continue;
            }
            std::fs::write(git.join("config"), text).unwrap();
            std::fs::write(git.join("more"), "[core]\n\thooksPath = tools/t\n").unwrap();
            std::fs::write(work.join("there"), "exit 0\n").unwrap();
            std::fs::write(top.join("other"), "x").unwrap();
            let data = mount("/data", &top, Mode::ReadWrite);
            let files = FileSandbox::new(vec![data.protect(DEFAULT_PROTECTED).unwrap()]).unwrap();
            let at = |name: &str| path(&format!("/data/{around}/{name}").replace("//", "/"));
            let (target, other) = (at(target), path("/data/other"));
            let over = || MoveOptions::new().overwrite(true);
            let outcomes = [
                files.write(&target, "x", Default::default()).map(drop),
                files.append(&target, b"x").map(drop),
                files.copy(&other, &target, over()).map(drop),
                files.rename(&other, &target, over()).map(drop),
                files.delete(&target).map(drop),
            ];
            for (index, outcome) in outcomes.into_iter().enumerate() {
                let error = outcome.expect_err(&format!("{index} {around} {config}"));
                assert_eq!(
                    error.kind(),
                    ErrorKind::ReadOnly,
                    "{index} {config}: {error}"
                );
                assert!(error.to_string().contains("git obeys it"), "{error}");
            }
            // What is on the way can be made, and does not come in from elsewhere or go.
            let (aside, tools) = (at("aside"), at("tools"));
            let inside = at("aside/t/pre-commit");
            files.write(&inside, "x", Default::default()).unwrap();
            if target.as_str().contains("tools") {
                let moved = files.rename(&aside, &tools, Default::default()).map(drop);
                files
                    .write(&at("tools/else"), "x", Default::default())
                    .unwrap();
                let gone = files.rename(&tools, &at("gone"), Default::default());
                for outcome in [moved, gone.map(drop), files.delete_all(&tools)] {
                    let error = outcome.expect_err(config);
                    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{config}: {error}");
                }
            }
        }
    }
}

/// Files with their texts, or links with theirs.
type Pairs = &'static [(&'static str, &'static str)];

/// Repositories whose configuration leads to `hk/t`, from other places than around it.
const BESIDE: [(&str, Pairs, Pairs); 6] = [
    (
        "module",
        &[
            (".git/modules/lib/m/HEAD", ""),
            (
                ".git/modules/lib/m/config",
                "[core]\n\tworktree = ../../../../lib/m\n\thooksPath = ../../hk\n",
            ),
        ],
        &[],
    ),
    (
        "module of a module",
        &[
            (".git/modules/m/HEAD", ""),
            (".git/modules/m/modules/n/HEAD", ""),
            (
                ".git/modules/m/modules/n/config",
                "[core]\n\tworktree = ../../../../../m/n\n\tfsmonitor = ../../hk/t\n",
            ),
        ],
        &[],
    ),
    (
        "worktree",
        &[
            (".git/worktrees/w/HEAD", ""),
            (".git/worktrees/w/gitdir", "TOP/w/.git\n"),
            (
                ".git/worktrees/w/config.worktree",
                "[core]\n\thooksPath = ../hk\n",
            ),
        ],
        &[],
    ),
    (
        "a link to the git directory",
        &[
            ("store/repo/HEAD", ""),
            ("store/repo/config", "[core]\n\thooksPath = hk\n"),
        ],
        &[(".git", "store/repo")],
    ),
    (
        "a link on the way",
        &[
            (".git/HEAD", ""),
            (".git/config", "[core]\n\thooksPath = hooks/own\n"),
        ],
        &[("hooks", "hk/.."), ("own", "hk")],
    ),
    (
        "a link to a configuration",
        &[
            (".git/HEAD", ""),
            (".git/config", "[include]\n\tpath = ../more\n"),
            ("conf/more", "[core]\n\thooksPath = hk\n"),
        ],
        &[("more", "conf/more")],
    ),
];

#[test]
fn where_repositories_beside_lead_is_not_written() {
    for (kind, files, links) in BESIDE {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for (name, text) in files.iter().chain(&[("hk/t", "exit 0\n"), ("free/t", "")]) {
            let file = top.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text.replace("TOP", top.to_str().unwrap())).unwrap();
        }
        for tree in ["lib/m", "m/n", "w"] {
            std::fs::create_dir_all(top.join(tree)).unwrap();
        }
        for (link, to) in links {
            std::os::unix::fs::symlink(to, top.join(link)).unwrap();
        }
        let data = mount("/data", &top, Mode::ReadWrite);
        let files = FileSandbox::new(vec![data.protect(DEFAULT_PROTECTED).unwrap()]).unwrap();
        let over = MoveOptions::new().overwrite(true);
        files
            .write(&path("/data/free/t"), "x", Default::default())
            .unwrap();
        if kind == "a link on the way" {
            // `hooks/own` leads to `hk/../own`, and that to `hk`.
            for link in ["hooks", "own"] {
                let error = files
                    .delete(&path(&format!("/data/{link}")))
                    .expect_err(link);
                assert_eq!(error.kind(), ErrorKind::ReadOnly, "{link}: {error}");
            }
        }
        let target = path("/data/hk/t");
        for outcome in [
            files.write(&target, "x", Default::default()).map(drop),
            files.rename(&path("/data/free/t"), &target, over).map(drop),
            files.delete(&target),
            files.delete_all(&path("/data/hk")),
        ] {
            let error = outcome.expect_err(kind);
            assert_eq!(error.kind(), ErrorKind::ReadOnly, "{kind}: {error}");
        }
    }
}
