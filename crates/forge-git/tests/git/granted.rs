//! What a worker may do with which repository, and what it is told of the others: nothing.

use std::sync::Arc;

use forge_git::tools::{self, RepoAccess, RepoGrants};
use forge_git::{BranchName, GitService, Repo, StagedId, StagedStore};
use forge_tools::{AutoApprove, CallRequest, CallResult, Toolbox};
use serde_json::{Value, json};

use crate::memory::MemoryRepositories;

use crate::world::{World, in_memory, wait};

const OWN: &str = "octo/own";
const FIXED: &str = "octo/fixed";
const OTHERS: &str = "octo/others";

fn repo(name: &str) -> Repo {
    Repo::parse(name).unwrap()
}

/// A world with three repositories.
fn world() -> World {
    let repositories = MemoryRepositories::new();
    for name in [OWN, FIXED, OTHERS, "/srv/secret/place.git"] {
        let readme = [("README.md", Some("hello\n"))];
        repositories.commit(&repo(name), &BranchName::default(), readme);
    }
    let mut world = in_memory();
    world.git = Arc::new(GitService::new(
        repositories,
        StagedStore::in_memory().unwrap(),
    ));
    world.repo = repo(OTHERS);
    world
}

fn granted(rows: &[(&str, RepoAccess)]) -> RepoGrants {
    rows.iter()
        .map(|(name, access)| (repo(name), *access))
        .collect()
}

fn toolbox(world: &World, granted: RepoGrants) -> Toolbox {
    let mut builder = Toolbox::builder()
        .files(world.files.clone())
        .approver(AutoApprove::confined());
    for tool in tools::all(world.git.clone(), granted) {
        builder = builder.boxed_tool(tool);
    }
    builder.build().unwrap()
}

fn call(toolbox: &Toolbox, tool: &str, arguments: Value) -> CallResult {
    wait(toolbox.call(CallRequest::new(tool, arguments)))
}

#[test]
fn only_what_the_access_permits_is_offered() {
    use RepoAccess::{ReadOnly, ReadWrite};
    let world = world();
    for (rows, offered) in [
        (&[][..], &[][..]),
        (&[(FIXED, ReadOnly)], &["git_pull", "git_status"]),
        (
            &[(FIXED, ReadOnly), (OWN, ReadWrite)],
            &[
                "git_diff",
                "git_discard",
                "git_list_staged",
                "git_pull",
                "git_stage",
                "git_status",
            ],
        ),
        // Said twice: the narrower.
        (
            &[(OWN, ReadOnly), (OWN, ReadWrite)],
            &["git_pull", "git_status"],
        ),
        (
            &[(OWN, ReadWrite), (OWN, ReadOnly)],
            &["git_pull", "git_status"],
        ),
    ] {
        let toolbox = toolbox(&world, granted(rows));
        let mut names: Vec<&str> = toolbox
            .specs()
            .map(|spec| spec.name.as_str())
            .filter(|name| name.starts_with("git_"))
            .collect();
        names.sort_unstable();
        assert_eq!(names, offered, "{rows:?}");
    }
}

#[test]
fn what_is_staged_for_others_is_not_there() {
    let world = world();
    world.write("/workspace/README.md", "of others\n");
    // Nothing at all; of a repository that is not granted; of one that is only to be pulled from.
    let hidden = [
        StagedId::parse(&"0".repeat(32)).unwrap(),
        stage_in(&world, OTHERS),
        stage_in(&world, FIXED),
    ];
    let rows = [(OWN, RepoAccess::ReadWrite), (FIXED, RepoAccess::ReadOnly)];
    let toolbox = toolbox(&world, granted(&rows));
    let before = wait(world.git.list_staged()).unwrap();
    assert_eq!(before.commits.len(), 2);
    for tool in ["git_diff", "git_discard"] {
        // Every one of them reads as one that was never there.
        let answers: Vec<String> = hidden
            .iter()
            .map(|id| {
                let result = call(&toolbox, tool, json!({ "commit_id": id.as_str() }));
                assert_eq!(result.error.as_ref().unwrap().code, "GIT_ERROR");
                let facts = result.structured.unwrap();
                format!("{}\n{facts}", result.content).replace(id.as_str(), "ID")
            })
            .collect();
        assert!(
            answers[0].contains("Nothing is staged as ID."),
            "{}",
            answers[0]
        );
        assert!(
            answers.iter().all(|answer| *answer == answers[0]),
            "{answers:?}"
        );
    }
    let listed = call(&toolbox, "git_list_staged", json!({}));
    assert_eq!(listed.content, "Nothing is staged.");
    assert_eq!(listed.structured.unwrap(), json!({ "commits": [] }));
    assert_eq!(wait(world.git.list_staged()).unwrap(), before);
    // Their own is.
    let own = stage_in(&world, OWN);
    let listed = call(&toolbox, "git_list_staged", json!({}));
    let commits = listed.structured.unwrap()["commits"].clone();
    assert_eq!(commits.as_array().unwrap().len(), 1);
    assert_eq!(commits[0]["commitId"], own.as_str());
    let discarded = call(
        &toolbox,
        "git_discard",
        json!({ "commit_id": own.as_str() }),
    );
    assert_eq!(discarded.error, None);
    assert_eq!(wait(world.git.list_staged()).unwrap(), before);
}

fn stage_in(world: &World, name: &str) -> StagedId {
    let rows = [(name, RepoAccess::ReadWrite)];
    let toolbox = toolbox(world, granted(&rows));
    world.write("/workspace/README.md", "changed\n");
    let arguments = json!({ "repo": name, "files": ["/workspace/README.md"], "message": "m" });
    let staged = call(&toolbox, "git_stage", arguments);
    assert_eq!(staged.error, None);
    let id = staged.structured.unwrap()["commitId"].clone();
    StagedId::parse(id.as_str().unwrap()).unwrap()
}

#[test]
fn what_may_only_be_read_is_not_staged_for() {
    let world = world();
    let rows = [(OWN, RepoAccess::ReadWrite), (FIXED, RepoAccess::ReadOnly)];
    let toolbox = toolbox(&world, granted(&rows));
    world.write("/workspace/README.md", "changed\n");
    for (name, text) in [
        (
            FIXED,
            format!(
                "Repository '{FIXED}' is read-only: files can be pulled, not staged.\n\
                 You may use: {OWN}."
            ),
        ),
        (
            OTHERS,
            format!("Repository '{OTHERS}' is not one that you may use.\nYou may use: {OWN}."),
        ),
    ] {
        let arguments = json!({ "repo": name, "files": ["/workspace/README.md"], "message": "m" });
        let result = call(&toolbox, "git_stage", arguments);
        assert_eq!(result.error.unwrap().code, "GIT_ERROR");
        assert_eq!(result.content, text);
    }
    let arguments = json!({ "repo": FIXED, "paths": ["README.md"] });
    assert_eq!(call(&toolbox, "git_pull", arguments).error, None);
}

#[test]
fn a_place_of_this_machine_is_known_by_its_name_only() {
    let world = world();
    let mut granted = RepoGrants::default();
    let place = repo("/srv/secret/place.git");
    granted.named("./place.git", place, RepoAccess::ReadWrite);
    granted.named(
        "./gone.git",
        repo("/srv/secret/gone.git"),
        RepoAccess::ReadOnly,
    );
    let toolbox = toolbox(&world, granted);
    world.write("/workspace/README.md", "changed\n");
    let stage =
        |repo: &str| json!({ "repo": repo, "files": ["/workspace/README.md"], "message": "m" });
    let pull = |repo: &str| json!({ "repo": repo, "paths": ["nowhere"] });
    for (tool, arguments, failed) in [
        ("git_stage", stage("./place.git"), false),
        ("git_list_staged", json!({}), false),
        ("git_pull", pull("./place.git"), true),
        ("git_pull", pull("./gone.git"), true),
        ("git_stage", stage("./gone.git"), true),
        ("git_stage", stage("./other.git"), true),
    ] {
        let result = call(&toolbox, tool, arguments.clone());
        assert_eq!(result.error.is_some(), failed, "{arguments}: {result:?}");
        let told = format!("{} {:?}", result.content, result.structured);
        assert!(!told.contains("/srv"), "{told}");
    }
    let listed = call(&toolbox, "git_list_staged", json!({}));
    assert_eq!(
        listed.structured.unwrap()["commits"][0]["repo"],
        "./place.git"
    );
}
