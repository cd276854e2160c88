//! Git as a model has it: through the executor.

use forge_git::tools::{RepoAccess, RepoGrants};
use forge_git::{PushApproval, StagedId, tools};
use forge_tools::{AutoApprove, CallRequest, CallResult, Toolbox};
use serde_json::{Value, json};

use crate::argument_samples::are_read;
use crate::world::{Person, World, wait, worlds};

pub(crate) fn granted(world: &World) -> RepoGrants {
    [(world.repo.clone(), RepoAccess::ReadWrite)]
        .into_iter()
        .collect()
}

fn toolbox(world: &World) -> Toolbox {
    let mut builder = Toolbox::builder()
        .files(world.files.clone())
        .approver(AutoApprove::confined());
    for tool in tools::all(world.git.clone(), granted(world)) {
        builder = builder.boxed_tool(tool);
    }
    builder.build().unwrap()
}

fn call(world: &World, tool: &str, arguments: Value) -> CallResult {
    wait(toolbox(world).call(CallRequest::new(tool, arguments)))
}

fn structured(result: CallResult) -> Value {
    assert!(result.error.is_none(), "{:?}", result.error);
    result.structured.unwrap()
}

#[test]
fn arguments_of_every_tool_are_read() {
    let world = worlds().remove(0);
    are_read(&tools::all(world.git.clone(), granted(&world)));
}

#[test]
fn a_file_goes_out_and_back_in_the_words_of_the_documents() {
    for world in worlds() {
        let repo = world.repo.to_string();
        let pulled = structured(call(
            &world,
            "pullFromGit",
            json!({ "repo": repo, "paths": ["analyses/topic.md"] }),
        ));
        assert_eq!(
            pulled,
            json!({
                "success": true,
                "pulled": ["/workspace/analyses/topic.md"],
                "conflicts": [],
                "skipped": [],
            })
        );
        world.write("/workspace/analyses/topic.md", "mine\n");
        let arguments = json!({
            "repo": repo,
            "files": ["/workspace/analyses/topic.md"],
            "message": "Rewrite",
        });
        let staged = structured(call(&world, "stageForPush", arguments));
        let id = staged["commitId"].as_str().unwrap().to_owned();
        let files = json!([{ "path": "analyses/topic.md", "operation": "update" }]);
        assert_eq!(staged["files"], files);

        let diff = call(&world, "git_diff", json!({ "commit_id": id }));
        assert!(
            diff.content.contains("-one\n-two\n-three\n+mine\n"),
            "{}",
            diff.content
        );
        let listed = structured(call(&world, "gitListStaged", json!({})));
        assert_eq!(listed["commits"][0]["commitId"], id);
        assert_eq!(listed["commits"][0]["message"], "Rewrite");
        assert_eq!(listed["commits"][0]["files"], files);
        // Nothing that a model can call pushes it.
        let push = call(&world, "git_push", json!({ "commit_id": id }));
        assert_eq!(push.error.unwrap().code, "UNKNOWN_TOOL");
        assert_eq!(
            world.there("analyses/topic.md").as_deref(),
            Some("one\ntwo\nthree\n")
        );

        structured(call(&world, "gitDiscard", json!({ "commitId": id })));
        let again = call(&world, "git_discard", json!({ "commit_id": id }));
        let error = again.error.unwrap();
        assert_eq!(error.code, "GIT_ERROR");
        assert_eq!(again.structured.unwrap()["operation"], "discard");
        let gone = wait(world.git.diff(&StagedId::parse(&id).unwrap()));
        assert!(gone.is_err());
    }
}

#[test]
fn what_is_refused_is_refused_in_words() {
    for world in worlds() {
        let repo = world.repo.to_string();
        let key = format!("ghp_{}", "a1B2c3D4e5".repeat(4));
        world.write("/workspace/key.md", &format!("{key}\n"));
        world.write("/workspace/a.md", "a\n");
        for (tool, arguments, code, text) in [
            (
                "git_pull",
                json!({ "repo": repo, "paths": ["README.md"], "into": "/fixed" }),
                "READ_ONLY",
                "read-only",
            ),
            (
                "git_pull",
                json!({ "repo": "/etc", "paths": ["README.md"] }),
                "GIT_ERROR",
                "not one that you may use",
            ),
            (
                "git_pull",
                json!({ "repo": "ext::sh -c id", "paths": ["README.md"] }),
                "GIT_ERROR",
                "not one that you may use",
            ),
            (
                "git_pull",
                json!({ "repo": repo, "paths": ["../../etc/passwd"] }),
                "GIT_ERROR",
                "climbs",
            ),
            (
                "git_pull",
                json!({ "repo": repo, "paths": ["README.md"], "branch": "--upload-pack=id" }),
                "GIT_ERROR",
                "Not the name of a branch",
            ),
            (
                "git_stage",
                json!({ "repo": repo, "files": ["/workspace/key.md"], "message": "m" }),
                "APPROVAL_REQUIRED",
                "looks like a secret",
            ),
            (
                "git_stage",
                json!({ "repo": "octo/other", "files": ["/workspace/a.md"], "message": "m" }),
                "GIT_ERROR",
                "not one that you may use",
            ),
            (
                "git_stage",
                json!({ "repo": repo, "files": ["/workspace/a.md"], "message": "m",
                        "secrets": "agreed" }),
                "INVALID_ARGUMENTS",
                "secrets",
            ),
        ] {
            let result = call(&world, tool, arguments.clone());
            let error = result.error.unwrap();
            assert_eq!(error.code, code, "{arguments}: {error:?}");
            assert!(
                result.content.contains(text),
                "{arguments}: {}",
                result.content
            );
            assert!(!result.content.contains(&key));
            assert!(!result.content.to_lowercase().contains("zone"));
        }
    }
}

#[test]
fn a_pull_is_asked_about_and_a_push_is_not_theirs_to_ask() {
    let world = worlds().remove(0);
    let mut builder = Toolbox::builder().files(world.files.clone());
    for tool in tools::all(world.git.clone(), granted(&world)) {
        builder = builder.boxed_tool(tool);
    }
    let toolbox = builder.approver(Person::saying(false)).build().unwrap();
    let arguments = json!({ "repo": world.repo.to_string(), "paths": ["README.md"] });
    let denied = wait(toolbox.call(CallRequest::new("git_pull", arguments)));
    assert_eq!(denied.error.unwrap().code, "DENIED");
    let readme = world.files.path("/workspace/README.md").unwrap();
    assert!(!world.files.exists(&readme).unwrap());
    world.write("/workspace/README.md", "mine\n");
    let commit = world.stage(&["/workspace/README.md"]).unwrap();
    assert!(wait(PushApproval::ask(&commit, &AutoApprove::confined())).is_err());
}

/// Of some parts of every tool, as they are listed.
fn bytes(specs: &[forge_tools::Spec], keys: &[&str]) -> usize {
    let part = |spec: &forge_tools::Spec| {
        let whole = spec.to_json();
        let part = |key: &&str| ((*key).to_owned(), whole[*key].clone());
        keys.iter().map(part).collect::<Value>()
    };
    let listed: Vec<Value> = specs.iter().map(part).collect();
    serde_json::to_string(&listed).unwrap().len()
}

/// The list is in a model's context from its first word on.
#[test]
fn all_tools_together_fit_into_what_they_may_take() {
    let world = worlds().remove(0);
    let mut builder = Toolbox::builder().files(world.files.clone());
    for tool in tools::all(world.git.clone(), granted(&world)) {
        builder = builder.boxed_tool(tool);
    }
    let toolbox = builder.build().unwrap();
    let (git, mut first): (Vec<_>, Vec<_>) = toolbox
        .specs()
        .cloned()
        .partition(|spec| spec.name.starts_with("git_"));
    first.push(forge_tools::tools::shell().spec().clone());
    assert_eq!((first.len(), git.len()), (15, 6));
    let read = ["name", "description", "input_schema"];
    let fifteen = bytes(&first, &read);
    let whole: Vec<_> = first.iter().chain(&git).cloned().collect();
    let all = bytes(&whole, &[&read[..], &["output_schema"]].concat());
    assert!(fifteen <= 8 * 1024, "{fifteen} bytes");
    assert!(all <= 14 * 1024, "{all} bytes");
    // None of them is a push, by whatever name.
    let names = whole.iter().flat_map(|spec| {
        let aliases = spec.aliases.iter().copied();
        aliases.chain([spec.name.as_str()])
    });
    for name in names {
        let push = name.to_lowercase().contains("push");
        assert!(!push || name.to_lowercase().starts_with("stage"), "{name}");
    }
}
