//! What is not staged, and what is not pulled.

use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
use forge_git::{
    BranchName, GitErrorKind, GitLimits, GitService, Repo, RepoPath, SecretPolicy, StageRequest,
    StagedStore, TreeKind,
};

use crate::memory::MemoryRepositories;

use crate::world::{in_memory, wait, worlds};

#[test]
fn no_spelling_of_gits_own_names_is_a_path() {
    let refused = [
        ".git",
        ".git/config",
        "a/.git/hooks/post-commit",
        ".GIT/x",
        ".Git",
        ".git.",
        ".git ",
        ".git. . /x",
        ".git::$INDEX_ALLOCATION/x",
        ".git:x",
        "git~1/x",
        "GIT~2",
        ".g\u{200c}it/x",
        "\u{feff}.git",
        ".gi\u{200d}t\u{200e}",
        ".\u{ff47}it/x",
        ".git\u{fe0f}/x",
        ".g\u{e0020}it/x",
        "\u{3164}.git",
        ".. /x",
        "a/.\u{200b}./x",
        "\u{200b}",
        ".gitmodules",
        ".GITMODULES",
        "sub/.gitmodules ",
        "gitmod~1",
        "GI7EBA~1",
        "",
        "/",
        "/x",
        "..",
        "a/../b",
        "./a",
        "a//b",
        "a/",
        "a\\.git\\x",
        "a\nb",
        "a\0b",
        "\u{1b}[0m",
    ];
    for path in refused {
        let error = RepoPath::parse(path).expect_err(path);
        assert_eq!(error.kind(), GitErrorKind::Refused);
        assert!(!error.to_string().contains('\u{1b}'));
    }
    for path in [
        ".gitignore",
        ".github/x",
        "a.git",
        "git",
        "x~1",
        "Grüße/日本.md",
        ".gitx/y",
    ] {
        RepoPath::parse(path).expect(path);
    }
}

#[test]
fn what_would_run_elsewhere_is_not_staged() {
    for path in [
        ".github/workflows/ci.yml",
        ".GitHub/Workflows/ci.yml",
        ".husky/pre-commit",
        "sub/.vscode/tasks.json",
        ".envrc",
        ".gitattributes",
        ".gitattributes ",
        ".gitattributes::$DATA",
        ".vscode./tasks.json",
        ".github/workflows\u{200b}/ci.yml",
        ".cargo/config.toml",
        "sub/.npmrc",
        ".gdbinit",
        "golem-forge.config.yaml",
        "workers/main.worker",
    ] {
        let world = in_memory();
        world
            .others
            .commit(&BranchName::default(), &[("README.md", Some("hello\n"))]);
        let at = format!("/workspace/{path}");
        world.write(&at, "x\n");
        let error = world.stage(&[&at]).unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::Refused, "{path}");
        assert!(error.to_string().contains(path), "{error}");
    }
}

#[test]
fn what_windows_cannot_check_out_is_not_staged() {
    for path in [
        "CON",
        "aux.txt",
        "a/Nul.tar.gz",
        "com1",
        "lpt\u{b9}.md",
        "CONIN$",
        "end.",
        "end /x",
        "a:b",
        "what?.md",
        "a|b",
        "<a>",
        "\"a\"",
        "a*",
    ] {
        let world = in_memory();
        world
            .others
            .commit(&BranchName::default(), &[("README.md", Some("hello\n"))]);
        let at = format!("/workspace/{path}");
        world.write(&at, "x\n");
        let error = world.stage(&[&at]).unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::Refused, "{path}: {error}");
        assert!(error.to_string().contains("Windows"), "{error}");
    }
    for path in ["console", "auxiliary/x", "com10", "nulls.txt", ".x", "a b"] {
        let path = RepoPath::parse(path).unwrap();
        assert_eq!(path.unfit_for_windows(), None, "{path}");
    }
}

#[test]
fn names_that_are_one_elsewhere_are_not_staged() {
    for (theirs, ours) in [
        ("README.md", &["readme.md"][..]),
        ("docs/a.md", &["Docs/b.md"]),
        ("docs/a.md", &["docs"]),
        ("docs", &["docs/a.md"]),
        ("x", &["caf\u{e9}", "cafe\u{301}"]),
        ("x", &["a/b", "A/c"]),
    ] {
        let world = in_memory();
        let theirs = [(theirs, Some("x\n"))];
        world.others.commit(&BranchName::default(), &theirs);
        let paths: Vec<String> = ours.iter().map(|own| format!("/workspace/{own}")).collect();
        for path in &paths {
            world.write(path, "mine\n");
        }
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let error = world.stage(&paths).unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::Refused, "{ours:?}: {error}");
    }
    // A new spelling in place of the old one is one file.
    let world = in_memory();
    world
        .others
        .commit(&BranchName::default(), &[("README.md", Some("x\n"))]);
    world.write("/workspace/Readme.md", "x\n");
    let commit = world
        .stage(&["/workspace/Readme.md", "/workspace/README.md"])
        .unwrap();
    assert_eq!(commit.files().len(), 2);
}

#[test]
fn keys_are_not_staged() {
    for world in worlds() {
        let key = format!("ghp_{}", "a1B2c3D4e5".repeat(4));
        world.write("/workspace/notes.md", &format!("one\ntwo\nkey: {key}\n"));
        let error = world.stage(&["/workspace/notes.md"]).unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::Secrets);
        let text = error.to_string();
        assert!(text.contains("'notes.md' line 3"), "{text}");
        assert!(!text.contains(&key));
    }
}

#[test]
fn nothing_is_staged_that_changes_nothing_or_is_no_file() {
    for world in worlds() {
        world.write("/workspace/README.md", "hello\n");
        world.write("/workspace/dir/a", "a\n");
        for (paths, kind) in [
            (&["/workspace/README.md"][..], GitErrorKind::Invalid),
            (&["/workspace/dir"], GitErrorKind::Invalid),
            (&["/workspace/nowhere"], GitErrorKind::NotFound),
            (&["/fixed/x"], GitErrorKind::Refused),
            (&["/workspace"], GitErrorKind::Refused),
            (&[], GitErrorKind::TooLarge),
        ] {
            let error = world.stage(paths).unwrap_err();
            assert_eq!(error.kind(), kind, "{paths:?}: {error}");
        }
    }
}

#[test]
fn one_call_carries_so_much_and_no_more() {
    let mut world = in_memory();
    let repositories = MemoryRepositories::new();
    let repo = Repo::parse("octo/small").unwrap();
    let files: Vec<String> = (0..4).map(|n| format!("{n}.md")).collect();
    let theirs = files
        .iter()
        .map(|path| (path.as_str(), Some("0123456789\n")));
    repositories.commit(&repo, &BranchName::default(), theirs);
    let limits = GitLimits {
        files: 3,
        file_bytes: 20,
        total_bytes: 30,
    };
    let git = GitService::new(repositories, StagedStore::in_memory().unwrap()).limits(limits);
    world.git = std::sync::Arc::new(git);
    world.repo = repo;
    for path in &files {
        world.write(&format!("/workspace/{path}"), "abcdefghijk\n");
    }
    world.write("/workspace/long.md", "a line that is too long\n");
    for (paths, fits) in [
        (&["/workspace/0.md", "/workspace/1.md"][..], true),
        (
            &["/workspace/0.md", "/workspace/1.md", "/workspace/2.md"],
            false,
        ),
        (&["/workspace/long.md"], false),
        (
            &[
                "/workspace/0.md",
                "/workspace/1.md",
                "/workspace/2.md",
                "/workspace/3.md",
            ],
            false,
        ),
    ] {
        assert_eq!(world.stage(paths).is_ok(), fits, "{paths:?}");
    }
    for (paths, fits) in [
        (&["0.md", "1.md"][..], true),
        (&["0.md", "1.md", "2.md"], false),
        (&["0.md", "1.md", "2.md", "3.md"], false),
    ] {
        assert_eq!(
            world.pull(paths, "/workspace/in").is_ok(),
            fits,
            "{paths:?}"
        );
    }
}

#[test]
fn links_submodules_and_unsafe_names_are_not_pulled() {
    let mut world = in_memory();
    let repositories = MemoryRepositories::new();
    let (repo, main) = (Repo::parse("octo/hostile").unwrap(), BranchName::default());
    repositories.commit(&repo, &main, [("d/a.md", Some("a\n"))]);
    for (path, kind) in [
        ("d/link", TreeKind::Link),
        ("d/sub", TreeKind::Submodule),
        ("d/../../../etc/passwd", TreeKind::File),
        ("d/.git/hooks/post-checkout", TreeKind::Executable),
        ("d/a\nb", TreeKind::File),
    ] {
        repositories.plant(&repo, &main, path, kind, "hostile\n");
    }
    world.git = std::sync::Arc::new(GitService::new(
        repositories,
        StagedStore::in_memory().unwrap(),
    ));
    world.repo = repo;
    let pulled = world.pull(&["d"], "/workspace").unwrap();
    assert_eq!(pulled.files.len(), 1);
    assert_eq!(pulled.skipped.len(), 5, "{:?}", pulled.skipped);
    assert!(pulled.skipped.iter().all(|(path, _)| !path.contains('\n')));
    // Nor is anything put in the place of a link.
    world.write("/workspace/d/link", "mine\n");
    let error = world.stage(&["/workspace/d/link"]).unwrap_err();
    assert_eq!(error.kind(), GitErrorKind::Refused);
}

/// What is hidden is as if it were not there, and what is not there is to go. Nobody may say so of a
/// name that they may not take away, nor learn in the difference what the repository has there.
#[test]
fn what_may_not_be_taken_away_is_not_staged_as_gone() {
    let mount = |at| Mount::memory(SandboxPath::parse(at).unwrap(), Mode::ReadWrite);
    let fixed = Mount::memory(SandboxPath::parse("/fixed").unwrap(), Mode::ReadOnly);
    for (mount, from, name) in [
        (
            mount("/workspace").hide([".env*"]).unwrap(),
            "/workspace",
            ".env",
        ),
        (
            mount("/workspace").protect(["*.key"]).unwrap(),
            "/workspace",
            "a/id.key",
        ),
        (fixed, "/fixed", "a.md"),
    ] {
        let mut world = in_memory();
        let theirs = [(name, Some("content of the repository\n"))];
        world.others.commit(&BranchName::default(), &theirs);
        world.files = FileSandbox::new(vec![mount]).unwrap();
        let request = StageRequest {
            repo: world.repo.clone(),
            branch: BranchName::default(),
            files: vec![world.files.path(&format!("{from}/{name}")).unwrap()],
            from: SandboxPath::parse(from).unwrap(),
            message: "Gone".into(),
            secrets: SecretPolicy::Refused,
        };
        let error = wait(world.git.stage(&world.files, request)).unwrap_err();
        assert!(
            matches!(error.kind(), GitErrorKind::File(_)),
            "{name}: {error}"
        );
        assert!(!error.to_string().contains("content"), "{error}");
    }
}

#[test]
fn no_address_is_an_option_or_a_program() {
    for address in [
        "ssh://-oProxyCommand=id/x",
        "ssh://-oProxyCommand=id@host/x",
        "ssh://host:-22/x",
        "-oProxyCommand=id@host:x",
        "me@-oProxyCommand=id:x",
        "--upload-pack=id",
        "ext::sh -c id",
        "fd::17",
        "git://host/x",
        "ftp://host/x",
        "https://me:key@host/x",
        "https://host\n/x",
        "https://host%0a/x",
        "https://host/x?y=z",
        "https://host/x#y",
        "https://host/a/../b",
        "https://[::1/x",
        "http://127.0.0.1.example.com/x",
        "file://host/x",
        "C:\\x",
        "host:x",
        "",
    ] {
        assert!(Repo::parse(address).is_err(), "{address:?}");
    }
}

#[test]
fn a_key_in_the_words_of_a_commit_is_not_staged() {
    // Put together here, so that no scanner of this repository takes it for one.
    let key = format!("ghp_{}", "abcdefghij0123456789ABCDEFGHIJ012345");
    let world = in_memory();
    world
        .others
        .commit(&BranchName::default(), &[("a.md", Some("a\n"))]);
    let with_key = format!("notes-{key}");
    for (message, branch, name) in [
        (key.as_str(), "main", "a.md"),
        ("x", with_key.as_str(), "a.md"),
        ("x", "main", with_key.as_str()),
    ] {
        world.write(&format!("/workspace/{name}"), "mine\n");
        let request = StageRequest {
            repo: world.repo.clone(),
            branch: BranchName::parse(branch).unwrap(),
            files: vec![world.files.path(&format!("/workspace/{name}")).unwrap()],
            from: SandboxPath::parse("/workspace").unwrap(),
            message: message.into(),
            secrets: SecretPolicy::Refused,
        };
        let error = wait(world.git.stage(&world.files, request)).unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::Secrets, "{error}");
        assert!(!error.to_string().contains(&key), "{error}");
    }
}
