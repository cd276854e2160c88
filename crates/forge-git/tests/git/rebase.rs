//! A branch that moved between staging and pushing: what goes on top of it, and what does not.

use forge_git::{
    BranchName, GitErrorKind, GitRepositories as _, OnDivergence, PushPreview, TreeKind,
};

use crate::world::{rows_and_worlds, wait, with_repositories, worlds};

type Theirs = &'static [(&'static str, Option<&'static str>)];

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comes {
    /// It is put on top.
    OnTop,
    /// All of it is there already.
    AlreadyThere,
    /// Nothing is pushed, for this reason.
    Not(GitErrorKind, &'static str),
}

const BOTH: &str = "Changed by both: ";

#[test]
fn what_goes_on_top_and_what_does_not() {
    use Comes::{AlreadyThere, Not, OnTop};
    use GitErrorKind::{Moved, Refused};
    // What is staged is an update of README.md, a new notes.md, and that other.md goes.
    let rows: &[(Theirs, Comes)] = &[
        (&[("analyses/topic.md", Some("theirs\n"))], OnTop),
        (&[("more/deep/a.md", Some("theirs\n"))], OnTop),
        // One and the same change, of a part and of all.
        (&[("README.md", Some("mine\n"))], OnTop),
        (&[("notes.md", Some("notes\n"))], OnTop),
        (&[("analyses/other.md", None)], OnTop),
        (
            &[
                ("README.md", Some("mine\n")),
                ("notes.md", Some("notes\n")),
                ("analyses/other.md", None),
                ("more.md", Some("more\n")),
            ],
            AlreadyThere,
        ),
        // Another change of the same file.
        (&[("README.md", Some("theirs\n"))], Not(Moved, BOTH)),
        (&[("README.md", None)], Not(Moved, BOTH)),
        (&[("notes.md", Some("theirs\n"))], Not(Moved, BOTH)),
        (&[("analyses/other.md", Some("theirs\n"))], Not(Moved, BOTH)),
        // A longer one, which is not fetched whole to be compared.
        (
            &[(
                "notes.md",
                Some("notes\nand more than all that is staged\n"),
            )],
            Not(Moved, BOTH),
        ),
        // It has another name there.
        (
            &[("README.md", None), ("READ.me", Some("hello\n"))],
            Not(Moved, BOTH),
        ),
        // Something is in the way.
        (
            &[("notes.md/a.md", Some("theirs\n"))],
            Not(Refused, "cannot both be there"),
        ),
        (
            &[("NOTES.md", Some("theirs\n"))],
            Not(Refused, "cannot both be there"),
        ),
    ];
    let worlds = worlds();
    for (row, world) in rows_and_worlds("rebase: row × world", rows.len(), worlds.len()) {
        let (world, (theirs, comes)) = (&worlds[world], &rows[row]);
        let branch = BranchName::parse(&format!("row{row}")).unwrap();
        let before = [
            ("README.md", Some("hello\n")),
            ("analyses/topic.md", Some("one\ntwo\nthree\n")),
            ("analyses/other.md", Some("other\n")),
        ];
        world.others.commit(&branch, &before);
        world.write("/workspace/README.md", "mine\n");
        world.write("/workspace/notes.md", "notes\n");
        let paths = [
            "/workspace/README.md",
            "/workspace/notes.md",
            "/workspace/analyses/other.md",
        ];
        let commit = world.stage_for(&branch, &paths).unwrap();
        world.others.commit(&branch, theirs);
        let pushed = wait(world.git.push(world.approve(&commit), OnDivergence::Rebase));
        let case = format!("{} {theirs:?}: {pushed:?}", world.name);
        let there = |path| world.others.read(&branch, path);
        match comes {
            OnTop | AlreadyThere => {
                assert_eq!(
                    pushed.unwrap().already_there,
                    *comes == AlreadyThere,
                    "{case}"
                );
                assert_eq!(there("README.md").unwrap(), b"mine\n", "{case}");
                assert_eq!(there("notes.md").unwrap(), b"notes\n", "{case}");
                assert_eq!(there("analyses/other.md"), None, "{case}");
            }
            Not(kind, text) => {
                let error = pushed.unwrap_err();
                assert_eq!(error.kind(), *kind, "{case}");
                assert!(error.to_string().contains(text), "{case}");
                wait(world.git.discard(commit.id())).unwrap();
            }
        }
        // Files that are not staged stay.
        for (path, text) in theirs
            .iter()
            .filter(|(path, _)| !["README.md", "notes.md", "analyses/other.md"].contains(path))
        {
            assert_eq!(there(path).as_deref(), text.map(str::as_bytes), "{case}");
        }
    }
}

#[test]
fn a_branch_that_is_gone_is_not_made_anew() {
    let (world, repositories) = with_repositories();
    let main = BranchName::default();
    world
        .others
        .commit(&main, &[("README.md", Some("hello\n"))]);
    world.write("/workspace/notes.md", "notes\n");
    let commit = world.stage(&["/workspace/notes.md"]).unwrap();
    repositories.remove_branch(&world.repo, &main);
    for if_moved in [OnDivergence::Refuse, OnDivergence::Rebase] {
        let error = wait(world.git.push(world.approve(&commit), if_moved)).unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::Moved);
        let text = error.to_string();
        assert!(
            text.contains("there no longer") && !text.contains("--rebase"),
            "{text}"
        );
    }
}

#[test]
fn what_others_made_of_the_right_to_execute_is_theirs() {
    for kind in [TreeKind::Executable, TreeKind::Link] {
        let (world, repositories) = with_repositories();
        let main = BranchName::default();
        world.others.commit(&main, &[("run.sh", Some("old\n"))]);
        world.write("/workspace/run.sh", "new\n");
        let commit = world.stage(&["/workspace/run.sh"]).unwrap();
        // The same content, as something else.
        repositories.plant(&world.repo, &main, "run.sh", kind, "old\n");
        let error = wait(world.git.push(world.approve(&commit), OnDivergence::Rebase)).unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::Moved, "{kind:?}");
        assert!(
            error.to_string().contains("Changed by both: run.sh."),
            "{error}"
        );
    }
}

/// Where a branch moves between the question and the push, what goes there was told to nobody.
#[test]
fn a_yes_is_for_where_it_was_said_to_go() {
    let (world, repositories) = with_repositories();
    let main = BranchName::default();
    let head = || {
        wait(repositories.head(&world.repo, &main))
            .unwrap()
            .unwrap()
    };
    world
        .others
        .commit(&main, &[("README.md", Some("hello\n"))]);
    world.write("/workspace/notes.md", "notes\n");
    let commit = world.stage(&["/workspace/notes.md"]).unwrap();
    world.others.commit(&main, &[("a.md", Some("a\n"))]);
    let on_top = |head| PushPreview::OnTop {
        head,
        there: Vec::new(),
    };
    let told = on_top(head());
    world.others.commit(&main, &[("b.md", Some("b\n"))]);
    for told in [PushPreview::AsStaged, told] {
        let approval = world.approve(&commit).onto(told);
        let error = wait(world.git.push(approval, OnDivergence::Rebase)).unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::Moved);
        assert!(error.to_string().contains("was shown"), "{error}");
        assert!(world.others.read(&main, "notes.md").is_none());
    }
    let approval = world.approve(&commit).onto(on_top(head()));
    wait(world.git.push(approval, OnDivergence::Rebase)).unwrap();
    assert_eq!(world.others.read(&main, "notes.md").unwrap(), b"notes\n");
}

#[cfg(unix)]
mod executable {
    use std::os::unix::fs::PermissionsExt as _;

    use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
    use forge_git::{FileOperation, GitRepositories as _, PushApproval};

    use super::*;
    use crate::world::Person;

    #[test]
    fn a_file_is_staged_with_its_right_to_be_executed() {
        let (plain, executable) = (Some(TreeKind::File), Some(TreeKind::Executable));
        let new = "new file mode 100755\n--- /dev/null\n";
        let changed = "old mode 100644\nnew mode 100755\n--- a/run.sh\n";
        for (there, mode, text, operation, begins) in [
            (
                None,
                0o644,
                "new\n",
                Some(FileOperation::Create),
                "--- /dev/null\n",
            ),
            (None, 0o755, "new\n", Some(FileOperation::Create), new),
            // That others may execute it is no matter.
            (
                None,
                0o655,
                "new\n",
                Some(FileOperation::Create),
                "--- /dev/null\n",
            ),
            (plain, 0o755, "new\n", Some(FileOperation::Update), changed),
            (plain, 0o755, "old\n", Some(FileOperation::Update), changed),
            (plain, 0o644, "old\n", None, ""),
            // A pull gives nobody that right, so it is not taken away either.
            (
                executable,
                0o644,
                "new\n",
                Some(FileOperation::Update),
                "--- a/run.sh\n",
            ),
            (executable, 0o644, "old\n", None, ""),
            (executable, 0o755, "old\n", None, ""),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let at = SandboxPath::parse("/workspace").unwrap();
            let authority = file_sandbox::cap_std::ambient_authority();
            let mount = Mount::open_ambient(at, dir.path(), Mode::ReadWrite, authority).unwrap();
            let (mut world, repositories) = with_repositories();
            world.files = FileSandbox::new(vec![mount]).unwrap();
            let main = BranchName::default();
            repositories.commit(&world.repo, &main, [("README.md", Some("hello\n"))]);
            if let Some(kind) = there {
                repositories.plant(&world.repo, &main, "run.sh", kind, "old\n");
            }
            world.write("/workspace/run.sh", text);
            let right = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(dir.path().join("run.sh"), right).unwrap();
            let staged = world.stage(&["/workspace/run.sh"]);
            let case = format!("{there:?} {mode:o} {text:?}: {staged:?}");
            let Some(operation) = operation else {
                assert_eq!(staged.unwrap_err().kind(), GitErrorKind::Invalid, "{case}");
                continue;
            };
            let commit = staged.unwrap();
            assert_eq!(commit.files()[0].operation(), operation, "{case}");
            assert!(commit.diff().starts_with(begins), "{case}");
            // A person is shown it.
            let person = Person::saying(true);
            let approval = wait(PushApproval::ask(&commit, &person)).unwrap();
            let shown = person.shown.lock().unwrap().join("");
            let is_new = begins.contains("mode 100755");
            assert_eq!(shown.contains("mode 100755"), is_new, "{shown}");
            wait(world.git.push(approval, OnDivergence::Refuse)).unwrap();
            let head = wait(repositories.head(&world.repo, &main))
                .unwrap()
                .unwrap();
            let tree = wait(repositories.tree(&world.repo, &head)).unwrap();
            let kind = tree
                .iter()
                .find(|entry| entry.path == "run.sh")
                .unwrap()
                .kind;
            let expected = match mode & 0o100 != 0 || there == executable {
                true => TreeKind::Executable,
                false => TreeKind::File,
            };
            assert_eq!(kind, expected, "{case}");
        }
    }
}
