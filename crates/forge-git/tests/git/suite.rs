//! What holds for every place that holds repositories.

use forge_git::{
    BranchName, FileOperation, GitErrorKind, GitOperation, OnDivergence, PullOutcome, PushApproval,
    StagedId,
};
use forge_tools::AutoApprove;

use crate::world::{Person, World, rows_and_worlds, wait, worlds};

fn staged_ids(world: &World) -> Vec<StagedId> {
    let staged = wait(world.git.list_staged()).unwrap().commits;
    staged.iter().map(|commit| commit.id().clone()).collect()
}

#[test]
fn what_is_staged_is_compared_with_the_branch() {
    for world in worlds() {
        world.write("/workspace/README.md", "hello\n");
        world.write("/workspace/new.md", "new\n");
        world.write("/workspace/analyses/topic.md", "one\nTWO\nthree\n");
        let commit = world
            .stage(&[
                "/workspace/new.md",
                "/workspace/analyses/topic.md",
                "/workspace/analyses/other.md",
                "/workspace/README.md",
            ])
            .unwrap();
        let files: Vec<(&str, FileOperation, &str)> = commit
            .files()
            .iter()
            .map(|file| (file.path().as_str(), file.operation(), file.diff()))
            .collect();
        assert_eq!(
            files,
            [
                (
                    "analyses/other.md",
                    FileOperation::Delete,
                    "--- a/analyses/other.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-other\n",
                ),
                (
                    "analyses/topic.md",
                    FileOperation::Update,
                    "--- a/analyses/topic.md\n+++ b/analyses/topic.md\n@@ -1,3 +1,3 @@\n one\n\
                     -two\n+TWO\n three\n",
                ),
                (
                    "new.md",
                    FileOperation::Create,
                    "--- /dev/null\n+++ b/new.md\n@@ -0,0 +1 @@\n+new\n",
                ),
            ],
            "{}",
            world.name
        );
        assert_eq!(commit.message(), "A change\n");
        assert_eq!(wait(world.git.diff(commit.id())).unwrap(), commit);
        // Nothing has left.
        assert_eq!(world.there("new.md"), None, "{}", world.name);
    }
}

#[test]
fn what_is_pushed_is_what_was_staged() {
    for world in worlds() {
        world.write("/workspace/analyses/topic.md", "staged\n");
        world.write("/workspace/new/deep.bin", "\0\u{1}\n");
        // Names with quotes are only of files that others have made.
        let odd = "new/we\"ird M 100644 日本.md";
        let gone = "new/\"go\"ne";
        let others = [(odd, Some("even\n")), (gone, Some("there\n"))];
        world.others.commit(&BranchName::default(), &others);
        world.write(&format!("/workspace/{odd}"), "odd\n");
        let commit = world
            .stage(&[
                "/workspace/analyses/topic.md",
                "/workspace/analyses/other.md",
                "/workspace/new/deep.bin",
                &format!("/workspace/{odd}"),
                &format!("/workspace/{gone}"),
            ])
            .unwrap();
        assert!(
            commit.diff().contains("+(3 bytes, SHA-256 "),
            "{}",
            world.name
        );
        world.write("/workspace/analyses/topic.md", "edited later\n");
        let pushed = wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap();
        assert!(pushed.url.contains(if world.name == "memory" {
            "github.com/octo/reports/commit/"
        } else {
            "://"
        }));
        assert_eq!(
            world.there("analyses/topic.md").as_deref(),
            Some("staged\n")
        );
        assert_eq!(world.there("analyses/other.md"), None);
        assert_eq!(world.there("new/deep.bin").as_deref(), Some("\0\u{1}\n"));
        assert_eq!(world.there(odd).as_deref(), Some("odd\n"));
        assert_eq!(world.there(gone), None);
        assert_eq!(world.there("README.md").as_deref(), Some("hello\n"));
        assert_eq!(staged_ids(&world), []);
    }
}

#[test]
fn nothing_is_pushed_that_nobody_agreed_to() {
    for world in worlds() {
        world.write("/workspace/README.md", "changed\n");
        let commit = world.stage(&["/workspace/README.md"]).unwrap();
        let person = Person::saying(false);
        let denied = wait(PushApproval::ask(&commit, &person)).unwrap_err();
        assert_eq!(denied.kind(), GitErrorKind::NotAgreed);
        let shown = person.shown.lock().unwrap().join("");
        for part in ["-hello", "+changed", "A change", "push to "] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        // Nobody is shown anything by --yes.
        let unseen = wait(PushApproval::ask(&commit, &AutoApprove::even_unconfined())).unwrap_err();
        assert_eq!(unseen.kind(), GitErrorKind::NotAgreed);
        assert_eq!(staged_ids(&world), [commit.id().clone()]);
        assert_eq!(world.there("README.md").as_deref(), Some("hello\n"));

        // An answer for what has gone is for nothing.
        let approval = world.approve(&commit);
        wait(world.git.discard(commit.id())).unwrap();
        let error = wait(world.git.push(approval, OnDivergence::Refuse)).unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::NotFound);
        assert_eq!(error.operation(), Some(GitOperation::Push));
    }
}

#[test]
fn what_is_discarded_is_gone_once() {
    for world in worlds() {
        world.write("/workspace/README.md", "one\n");
        let first = world.stage(&["/workspace/README.md"]).unwrap();
        world.write("/workspace/README.md", "two\n");
        let second = world.stage(&["/workspace/README.md"]).unwrap();
        assert_eq!(
            staged_ids(&world),
            [first.id().clone(), second.id().clone()]
        );
        wait(world.git.discard(first.id())).unwrap();
        let again = wait(world.git.discard(first.id())).unwrap_err();
        assert_eq!(again.kind(), GitErrorKind::NotFound);
        assert_eq!(again.operation(), Some(GitOperation::Discard));
        assert_eq!(staged_ids(&world), [second.id().clone()]);
    }
}

#[test]
fn a_branch_that_moved_is_not_pushed_to() {
    for world in worlds() {
        let main = BranchName::default();
        world.write("/workspace/README.md", "mine\n");
        let commit = world.stage(&["/workspace/README.md"]).unwrap();
        world
            .others
            .commit(&main, &[("analyses/topic.md", Some("theirs\n"))]);
        let error = wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::Moved, "{}: {error}", world.name);
        let text = error.to_string();
        assert!(text.contains("Changed there: analyses/topic.md."), "{text}");
        assert!(text.contains("--rebase"), "{text}");
        assert_eq!(world.there("README.md").as_deref(), Some("hello\n"));
        // Nothing of it was touched there.
        wait(world.git.push(world.approve(&commit), OnDivergence::Rebase)).unwrap();
        assert_eq!(world.there("README.md").as_deref(), Some("mine\n"));
        assert_eq!(
            world.there("analyses/topic.md").as_deref(),
            Some("theirs\n")
        );

        world.write("/workspace/README.md", "mine again\n");
        let commit = world.stage(&["/workspace/README.md"]).unwrap();
        world
            .others
            .commit(&main, &[("README.md", Some("theirs\n"))]);
        for if_moved in [OnDivergence::Refuse, OnDivergence::Rebase] {
            let error = wait(world.git.push(world.approve(&commit), if_moved)).unwrap_err();
            assert_eq!(error.kind(), GitErrorKind::Moved);
            assert!(
                error.to_string().contains("Changed by both: README.md."),
                "{error}"
            );
        }
        assert_eq!(world.there("README.md").as_deref(), Some("theirs\n"));
        assert_eq!(staged_ids(&world), [commit.id().clone()]);
    }
}

#[test]
fn a_file_that_came_into_the_way_is_no_rebase() {
    for world in worlds() {
        world.write("/workspace/notes", "a file\n");
        let commit = world.stage(&["/workspace/notes"]).unwrap();
        let theirs = [("notes/a.md", Some("in a directory\n"))];
        world.others.commit(&BranchName::default(), &theirs);
        let error = wait(world.git.push(world.approve(&commit), OnDivergence::Rebase)).unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::Refused, "{error}");
        assert_eq!(
            world.there("notes/a.md").as_deref(),
            Some("in a directory\n")
        );
    }
}

#[test]
fn a_branch_that_takes_nothing_leaves_it_staged() {
    for world in worlds() {
        world.write("/workspace/README.md", "mine\n");
        let commit = world.stage(&["/workspace/README.md"]).unwrap();
        world.others.protect(&BranchName::default());
        let error = wait(world.git.push(world.approve(&commit), OnDivergence::Refuse)).unwrap_err();
        assert_eq!(
            error.kind(),
            GitErrorKind::Rejected,
            "{}: {error}",
            world.name
        );
        assert!(error.to_string().contains("did not take it"), "{error}");
        assert_eq!(staged_ids(&world), [commit.id().clone()]);
        assert_eq!(world.there("README.md").as_deref(), Some("hello\n"));
    }
}

#[test]
fn pulled_files_lie_as_in_the_repository() {
    for world in worlds() {
        let pulled = world
            .pull(&["analyses", "README.md"], "/workspace")
            .unwrap();
        let files: Vec<(&str, PullOutcome)> = pulled
            .files
            .iter()
            .map(|file| (file.path.as_str(), file.outcome))
            .collect();
        assert_eq!(
            files,
            [
                ("/workspace/README.md", PullOutcome::Created),
                ("/workspace/analyses/other.md", PullOutcome::Created),
                ("/workspace/analyses/topic.md", PullOutcome::Created),
            ]
        );
        assert_eq!(
            world.text("/workspace/analyses/topic.md"),
            "one\ntwo\nthree\n"
        );
        let again = world.pull(&["README.md"], "/workspace").unwrap();
        assert_eq!(again.files[0].outcome, PullOutcome::Unchanged);
    }
}

#[test]
fn local_edits_are_not_taken_away() {
    let rows = [
        (
            "ONE\ntwo\nthree\n",
            "one\ntwo\nTHREE\n",
            PullOutcome::Merged,
            "ONE\ntwo\nTHREE\n",
        ),
        (
            "one\nmine\nthree\n",
            "one\ntheirs\nthree\n",
            PullOutcome::Conflict,
            "one\n<<<<<<< local\nmine\n=======\ntheirs\n>>>>>>> main\nthree\n",
        ),
        (
            "one\ntwo\nthree\n",
            "theirs\n",
            PullOutcome::Updated,
            "theirs\n",
        ),
        ("mine\n", "one\ntwo\nthree\n", PullOutcome::Kept, "mine\n"),
        ("mine\0\n", "theirs\n", PullOutcome::Conflict, "mine\0\n"),
    ];
    let count = worlds().len();
    for (row, world) in rows_and_worlds("pull: local edit × world", rows.len(), count) {
        let (local, theirs, outcome, after) = rows[row];
        let world = worlds().remove(world);
        let path = "/workspace/analyses/topic.md";
        world.pull(&["analyses/topic.md"], "/workspace").unwrap();
        world.write(path, local);
        let theirs = [("analyses/topic.md", Some(theirs)), ("x", Some("x"))];
        world.others.commit(&BranchName::default(), &theirs);
        let pulled = world.pull(&["analyses/topic.md"], "/workspace").unwrap();
        assert_eq!(pulled.files[0].outcome, outcome, "{local:?}");
        let bytes = world
            .files
            .read_bytes(&world.files.path(path).unwrap(), 1000);
        assert_eq!(bytes.unwrap(), after.as_bytes());
    }
}

#[test]
fn a_pull_that_cannot_be_done_writes_nothing() {
    for world in worlds() {
        for (paths, into, kind, text) in [
            (
                &["README.md", "missing"][..],
                "/workspace",
                GitErrorKind::NotFound,
                "File not found: missing",
            ),
            (
                &["README.md"],
                "/fixed",
                GitErrorKind::File(file_sandbox::ErrorKind::ReadOnly),
                "read-only",
            ),
            (
                &["README.md"],
                "/elsewhere",
                GitErrorKind::File(file_sandbox::ErrorKind::OutsideSandbox),
                "/elsewhere",
            ),
        ] {
            let error = world.pull(paths, into).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert_eq!(error.operation(), Some(GitOperation::Pull));
            assert!(error.to_string().contains(text), "{error}");
        }
        let workspace = world.files.path("/workspace").unwrap();
        let left = world.files.list(&workspace, Default::default()).unwrap();
        assert_eq!(left.entries, []);
    }
}
