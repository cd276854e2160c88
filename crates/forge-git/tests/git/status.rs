//! What has become of files since they were pulled, as a model is told.

use std::sync::Arc;

use forge_git::tools::{self, RepoAccess, RepoGrants};
use forge_git::{BranchName, FileState, GitService, Repo, Status};
use forge_tools::{AutoApprove, CallRequest, Toolbox};
use serde_json::json;

use crate::memory::MemoryRepositories;

use crate::tools::granted;
use crate::world::{World, files, in_memory, wait, worlds};

fn toolbox(world: &World, granted: RepoGrants) -> Toolbox {
    let mut builder = Toolbox::builder()
        .files(world.files.clone())
        .approver(AutoApprove::confined());
    for tool in tools::all(world.git.clone(), granted) {
        builder = builder.boxed_tool(tool);
    }
    builder.build().unwrap()
}

fn status(world: &World) -> Status {
    wait(
        world
            .git
            .status(&world.files, std::slice::from_ref(&world.repo)),
    )
    .unwrap()
}

/// Path, state, and whether it is staged as it is.
fn rows(status: &Status) -> Vec<(&str, FileState, bool)> {
    let row = |file: &'_ forge_git::StatusFile| (file.state, file.staged.is_some());
    let rows = status.files.iter();
    rows.map(|file| (file.path.as_str(), row(file).0, row(file).1))
        .collect()
}

fn delete(world: &World, path: &str) {
    world
        .files
        .delete(&world.files.path(path).unwrap())
        .unwrap();
}

#[test]
fn what_is_no_longer_as_it_was_pulled_is_listed() {
    use FileState::{Deleted, Modified};
    let (topic, other) = (
        "/workspace/analyses/topic.md",
        "/workspace/analyses/other.md",
    );
    for world in worlds() {
        assert_eq!(status(&world), Status::default());
        world
            .pull(&["analyses", "README.md"], "/workspace")
            .unwrap();
        assert_eq!((rows(&status(&world)), status(&world).pulled), (vec![], 3));
        // The same length, so that it is the content that tells.
        world.write(topic, "one\nTWO\nthree\n");
        delete(&world, other);
        world.write("/workspace/new.md", "never pulled\n");
        let changed = [(other, Deleted, false), (topic, Modified, false)];
        assert_eq!(rows(&status(&world)), changed.clone());
        // A part of it is staged, and then it changes again.
        let first = world.stage(&[topic, other]).unwrap();
        let staged = [(other, Deleted, true), (topic, Modified, true)];
        assert_eq!(rows(&status(&world)), staged);
        assert_eq!(status(&world).files[0].staged.as_ref(), Some(first.id()));
        let second = world.stage(&[topic]).unwrap();
        assert_eq!(status(&world).files[1].staged.as_ref(), Some(second.id()));
        world.write(topic, "again\n");
        let again = [(other, Deleted, true), (topic, Modified, false)];
        assert_eq!(rows(&status(&world)), again);
        wait(world.git.discard(first.id())).unwrap();
        assert_eq!(rows(&status(&world)), changed);
        world.write(topic, "one\ntwo\nthree\n");
        world.write(other, "other\n");
        assert_eq!(rows(&status(&world)), []);
        // No other repository is looked at.
        world.write(topic, "again\n");
        let elsewhere = [Repo::parse("octo/elsewhere").unwrap()];
        let status = wait(world.git.status(&world.files, &elsewhere)).unwrap();
        assert_eq!(status, Status::default());
    }
}

#[test]
fn files_of_another_run_are_not_deleted_ones() {
    let dir = tempfile::tempdir().unwrap();
    let repositories = MemoryRepositories::new();
    let repo = Repo::parse("octo/kept").unwrap();
    let hello = [("README.md", Some("hello\n")), ("a.md", Some("a\n"))];
    repositories.commit(&repo, &BranchName::default(), hello);
    let world = || World {
        git: Arc::new(GitService::new(
            repositories.clone(),
            crate::staying::store(dir.path()),
        )),
        repo: repo.clone(),
        ..in_memory()
    };
    let first = world();
    first.pull(&["README.md", "a.md"], "/workspace").unwrap();
    delete(&first, "/workspace/README.md");
    delete(&first, "/workspace/a.md");
    // Here they were there a moment ago.
    assert_eq!(rows(&status(&first)).len(), 2);
    // Elsewhere they never were.
    let mut second = world();
    second.files = files();
    assert_eq!(status(&second), Status::default());
    // Where one of them is, the other was.
    second.write("/workspace/a.md", "a\n");
    assert_eq!(
        rows(&status(&second)),
        [("/workspace/README.md", FileState::Deleted, false)]
    );
}

#[test]
fn a_model_is_told_in_words_and_rows() {
    let world = worlds().remove(0);
    let toolbox = self::toolbox(&world, granted(&world));
    let call = |tool: &str, arguments| wait(toolbox.call(CallRequest::new(tool, arguments)));
    assert_eq!(
        call("gitStatus", json!({})).content,
        "No files were pulled."
    );
    let repo = "octo/reports";
    call(
        "git_pull",
        json!({ "repo": repo, "paths": ["README.md", "analyses"] }),
    );
    assert_eq!(
        call("git_status", json!({})).content,
        "All 3 pulled files are as they were pulled."
    );
    delete(&world, "/workspace/README.md");
    world.write("/workspace/analyses/topic.md", "mine\n");
    let files = ["/workspace/README.md"];
    let staged = call(
        "git_stage",
        json!({ "repo": repo, "files": files, "message": "m" }),
    );
    let id = staged.structured.unwrap()["commitId"]
        .as_str()
        .unwrap()
        .to_owned();
    let told = call("git_status", json!({}));
    insta::assert_snapshot!(told.content.replace(&id, "ID"), @r"
    deleted /workspace/README.md (branch main of octo/reports, staged as ID)
    modified /workspace/analyses/topic.md (branch main of octo/reports)
    ");
    assert_eq!(
        told.structured.unwrap(),
        json!({ "files": [
            { "path": "/workspace/README.md", "status": "deleted", "staged": true },
            { "path": "/workspace/analyses/topic.md", "status": "modified", "staged": false },
        ]})
    );
    // Who may stage nothing is told of nothing that is staged.
    let only_pulls = [(world.repo.clone(), RepoAccess::ReadOnly)];
    let toolbox = self::toolbox(&world, only_pulls.into_iter().collect());
    let told = wait(toolbox.call(CallRequest::new("git_status", json!({}))));
    assert!(!told.content.contains(&id), "{}", told.content);
    assert_eq!(told.structured.unwrap()["files"][0]["staged"], false);
}
