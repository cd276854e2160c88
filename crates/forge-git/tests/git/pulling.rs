//! What a pull does to what is there, and where it stops.

use std::sync::Arc;

use file_sandbox::{ErrorKind, FileSandbox, Limits, Mode, Mount, SandboxPath};
use forge_git::{BranchName, GitErrorKind, GitService, PullOutcome, Repo, StagedStore};

use crate::memory::MemoryRepositories;

use crate::world::{World, in_memory, wait, worlds};

fn limited(limits: Limits) -> FileSandbox {
    let at = SandboxPath::parse("/workspace").unwrap();
    let mount = Mount::memory(at, Mode::ReadWrite).with_limits(limits);
    let mount = mount.protect([".env", "*.key"]).unwrap();
    FileSandbox::new(vec![mount]).unwrap()
}

/// A world whose branch has these files.
fn world(limits: Limits, theirs: &[(&str, &str)]) -> World {
    let world = World {
        files: limited(limits),
        ..in_memory()
    };
    let theirs: Vec<(&str, Option<&str>)> = theirs
        .iter()
        .map(|(path, text)| (*path, Some(*text)))
        .collect();
    world.others.commit(&BranchName::default(), &theirs);
    world
}

fn names(world: &World) -> Vec<String> {
    let top = SandboxPath::parse("/workspace").unwrap();
    let options = file_sandbox::ListOptions::new().pattern("**");
    let listing = world.files.list(&top, options).unwrap();
    listing
        .entries
        .into_iter()
        .map(|entry| entry.name)
        .collect()
}

#[test]
fn what_the_place_does_not_take_is_refused_whole() {
    let two = &[("d/a.md", "a\n"), ("d/b.exe", "bb\n")][..];
    let file = |kind| GitErrorKind::File(kind);
    for (limits, theirs, kind, part) in [
        (
            Limits::new().suffixes([".md"]),
            two,
            file(ErrorKind::SuffixNotAllowed),
            "d/b.exe",
        ),
        (
            Limits::new().max_file_bytes(2),
            two,
            file(ErrorKind::TooLarge),
            "d/b.exe",
        ),
        (
            Limits::new(),
            &[("d/.env", "x\n"), ("d/a.md", "a\n")],
            file(ErrorKind::ReadOnly),
            "d/.env",
        ),
        (
            Limits::new(),
            &[("d/a.md", "a\n"), ("d/id.key", "x\n")],
            file(ErrorKind::ReadOnly),
            "d/id.key",
        ),
    ] {
        let world = world(limits, theirs);
        let error = world.pull(&["d"], "/workspace").unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(names(&world), Vec::<String>::new());
        // What it does take comes alone.
        if theirs == two {
            world.pull(&["d/a.md"], "/workspace").unwrap();
            assert_eq!(names(&world), ["d/a.md"]);
        }
    }
}

#[test]
fn a_file_is_not_put_where_a_directory_is_nor_below_a_file() {
    for (own, theirs, part) in [
        ("d/a/own.md", "d/a", "is a directory"),
        ("d/a", "d/a/theirs.md", "d/a"),
    ] {
        let world = world(Limits::new(), &[(theirs, "theirs\n"), ("d/0.md", "0\n")]);
        world.write(&format!("/workspace/{own}"), "mine\n");
        let error = world.pull(&["d"], "/workspace").unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(names(&world), [own]);
        assert_eq!(world.text(&format!("/workspace/{own}")), "mine\n");
    }
}

#[test]
fn where_it_had_to_stop_is_said() {
    let ten: Vec<(String, &str)> = (0..10)
        .map(|n| (format!("d/{n}.md"), "ten bytes\n"))
        .collect();
    let ten: Vec<(&str, &str)> = ten
        .iter()
        .map(|(path, text)| (path.as_str(), *text))
        .collect();
    for (room, done) in [
        (
            35,
            "3 of 10 files were pulled before that: /workspace/d/0.md, /workspace/d/1.md, /workspace/d/2.md.",
        ),
        (5, "No file was pulled before that."),
    ] {
        let world = world(Limits::new().max_total_bytes(room, "quota.max_bytes"), &ten);
        let error = world.pull(&["d"], "/workspace").unwrap_err();
        assert_eq!(
            error.kind(),
            GitErrorKind::File(ErrorKind::Quota),
            "{error}"
        );
        assert!(error.to_string().contains(done), "{error}");
        assert_eq!(names(&world).len() as u64, room / 10);
        // Those that came are known, and those that did not are no local edits.
        let again = world.pull(&["d/0.md"], "/workspace");
        if room == 35 {
            assert_eq!(again.unwrap().files[0].outcome, PullOutcome::Unchanged);
            let status = wait(
                world
                    .git
                    .status(&world.files, std::slice::from_ref(&world.repo)),
            );
            assert_eq!(status.unwrap().files.len(), 7);
        }
    }
}

#[test]
fn a_thousand_files_come_and_one_more_does_not() {
    for (count, fits) in [(1000, true), (1001, false)] {
        let many: Vec<(String, &str)> = (0..count).map(|n| (format!("d/{n}.md"), "x\n")).collect();
        let many: Vec<(&str, &str)> = many
            .iter()
            .map(|(path, text)| (path.as_str(), *text))
            .collect();
        let world = world(Limits::new(), &many);
        let pulled = world.pull(&["d"], "/workspace");
        assert_eq!(
            pulled.map(|pulled| pulled.files.len()).ok(),
            fits.then_some(1000)
        );
    }
}

#[test]
fn what_went_from_the_branch_stays_here_and_is_named() {
    for world in worlds() {
        world.pull(&["analyses"], "/workspace").unwrap();
        world.write("/workspace/analyses/topic.md", "edited\n");
        let theirs = [
            ("analyses/other.md", None),
            ("analyses/topic.md", None),
            ("analyses/new.md", Some("new\n")),
        ];
        world.others.commit(&BranchName::default(), &theirs);
        let pulled = world.pull(&["analyses"], "/workspace").unwrap();
        let gone: Vec<&str> = pulled.gone.iter().map(SandboxPath::as_str).collect();
        assert_eq!(
            gone,
            [
                "/workspace/analyses/other.md",
                "/workspace/analyses/topic.md"
            ]
        );
        assert_eq!(pulled.files.len(), 1);
        assert_eq!(world.text("/workspace/analyses/topic.md"), "edited\n");
        // By its name it is no mistake either; what never was there is.
        let pulled = world.pull(&["analyses/topic.md"], "/workspace").unwrap();
        assert_eq!((pulled.files.len(), pulled.gone.len()), (0, 1));
        let error = world
            .pull(&["analyses/topics.md"], "/workspace")
            .unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::NotFound);
    }
}

#[test]
fn what_was_deleted_here_comes_back() {
    for world in worlds() {
        let path = "/workspace/analyses/topic.md";
        world.pull(&["analyses"], "/workspace").unwrap();
        world
            .files
            .delete(&world.files.path(path).unwrap())
            .unwrap();
        let pulled = world.pull(&["analyses"], "/workspace").unwrap();
        let outcome = |at: &str| {
            pulled
                .files
                .iter()
                .find(|file| file.path.as_str() == at)
                .unwrap()
                .outcome
        };
        assert_eq!(outcome(path), PullOutcome::Created);
        assert_eq!(world.text(path), "one\ntwo\nthree\n");
    }
}

/// What is noted before anything is written, and what a kill may leave of the rest.
#[test]
fn a_pull_that_was_killed_takes_nothing_of_its_own_for_an_edit() {
    use PullOutcome::{Conflict, Merged, Updated};
    let (first, second) = ("1\n2\n3\n4\n", "1\n2\nIII\n4\n");
    let third = "1\n2\nIII\nIV\n";
    for (local, outcome, after) in [
        // It had not come to this file, or it had, or somebody edited what was there.
        (first, Updated, third),
        (second, Updated, third),
        ("one\n2\n3\n4\n", Merged, "one\n2\nIII\nIV\n"),
        // Which of both it was edited from is not known, so somebody has to look.
        (
            "one\n2\nIII\n4\n",
            Conflict,
            "one\n2\n<<<<<<< local\nIII\n4\n=======\nIII\nIV\n>>>>>>> main\n",
        ),
        (
            "1\n2\nthree\n4\n",
            Conflict,
            "1\n2\n<<<<<<< local\nthree\n4\n=======\nIII\nIV\n>>>>>>> main\n",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (mut world, repositories) = crate::world::with_repositories();
        let store = crate::staying::store(dir.path());
        world.git = Arc::new(GitService::new(repositories.clone(), store));
        let commit = |text| {
            let file = [("a.md", Some(text))];
            repositories.commit(&world.repo, &BranchName::default(), file);
        };
        let index = || {
            let places = std::fs::read_dir(dir.path().join("pulled/places")).unwrap();
            let at = places.last().unwrap().unwrap().path();
            let text = std::fs::read_to_string(&at).unwrap();
            (
                at,
                serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            )
        };
        commit(first);
        world.pull(&["a.md"], "/workspace").unwrap();
        let base = index().1["files"]["a.md"]["base"].clone();
        commit(second);
        world.pull(&["a.md"], "/workspace").unwrap();
        // As it was before the last step.
        let (at, mut noted) = index();
        let row = &mut noted["files"]["a.md"];
        assert_ne!(row["base"], base);
        row["next"] = row["base"].take();
        row["base"] = base;
        std::fs::write(at, noted.to_string()).unwrap();
        world.write("/workspace/a.md", local);
        commit(third);
        let pulled = world.pull(&["a.md"], "/workspace").unwrap();
        assert_eq!(pulled.files[0].outcome, outcome, "{local}");
        assert_eq!(world.text("/workspace/a.md"), after);
    }
}

#[test]
fn an_error_names_the_file_that_it_is_about() {
    let world = world(Limits::new().suffixes([".md"]), &[("d/b.exe", "x\n")]);
    let error = world.pull(&["d"], "/workspace").unwrap_err();
    assert_eq!(error.path(), Some("/workspace/d/b.exe"));
    assert!(
        error.advice().is_some_and(|hint| !hint.is_empty()),
        "{error:?}"
    );
    assert!(!error.message().contains(error.advice().unwrap()));
}

/// Where the memory of what was pulled is lost, nothing else is.
#[test]
fn a_lost_memory_loses_no_edit() {
    let dir = tempfile::tempdir().unwrap();
    let pulled = dir.path().join("pulled");
    let spoil = |what: &str| match what {
        "all" => std::fs::remove_dir_all(&pulled).unwrap(),
        "contents" => std::fs::remove_dir_all(pulled.join("contents")).unwrap(),
        "index" => {
            for entry in std::fs::read_dir(pulled.join("places")).unwrap() {
                std::fs::write(entry.unwrap().path(), "{\"version\":1").unwrap();
            }
        }
        _ => {
            for above in std::fs::read_dir(pulled.join("contents")).unwrap() {
                for entry in std::fs::read_dir(above.unwrap().path()).unwrap() {
                    std::fs::write(entry.unwrap().path(), "something else\n").unwrap();
                }
            }
        }
    };
    for what in ["all", "contents", "index", "other contents"] {
        let repositories = MemoryRepositories::new();
        let repo = Repo::parse("octo/kept").unwrap();
        let commit =
            |text| repositories.commit(&repo, &BranchName::default(), [("a.md", Some(text))]);
        commit("one\ntwo\nthree\n");
        let store: StagedStore = crate::staying::store(dir.path());
        let world = World {
            git: Arc::new(GitService::new(repositories.clone(), store)),
            repo: repo.clone(),
            ..in_memory()
        };
        world.pull(&["a.md"], "/workspace").unwrap();
        world.write("/workspace/a.md", "mine\ntwo\nthree\n");
        commit("one\ntwo\ntheirs\n");
        spoil(what);
        let pulled = world.pull(&["a.md"], "/workspace").unwrap();
        assert_eq!(pulled.files[0].outcome, PullOutcome::Conflict, "{what}");
        let text = world.text("/workspace/a.md");
        assert!(
            text.contains("mine\n") && text.contains("theirs\n"),
            "{what}: {text}"
        );
        let _next = std::fs::remove_dir_all(dir.path().join("pulled"));
    }
}
