//! Calls that somebody is asked about: what can be done is asked, and what cannot is not.

use std::sync::Arc;

use file_sandbox::{FileSandbox, Limits, Mode, Mount, SandboxPath};
use forge_git::tools;
use forge_tools::{Approver, CallRequest, CallResult, Toolbox};
use serde_json::{Value, json};

use crate::tools::granted;
use crate::world::{Person, World, wait, worlds};

/// Files of which `/workspace` takes `.md` only, hides `secret.md` and protects `fixed.md`.
fn files() -> FileSandbox {
    let mount = |at, mode| Mount::memory(SandboxPath::parse(at).unwrap(), mode);
    let workspace = mount("/workspace", Mode::ReadWrite)
        .with_file(&SandboxPath::parse("/secret.md").unwrap(), b"mine\n")
        .unwrap()
        .with_limits(Limits::new().suffixes([".md"]))
        .hide(["secret.md"])
        .unwrap()
        .protect(["fixed.md"])
        .unwrap();
    FileSandbox::new(vec![workspace, mount("/fixed", Mode::ReadOnly)]).unwrap()
}

/// The result, and what was asked.
fn call(world: &World, tool: &str, arguments: Value) -> (CallResult, Vec<String>) {
    let person = Arc::new(Person::saying(true));
    let approver: Arc<dyn Approver> = person.clone();
    let mut builder = Toolbox::builder()
        .files(world.files.clone())
        .gate(crate::secrets::Rules(forge_tools::Verdict::Ask))
        .approver(approver);
    for tool in tools::all(world.git.clone(), granted(world)) {
        builder = builder.boxed_tool(tool);
    }
    let result = wait(
        builder
            .build()
            .unwrap()
            .call(CallRequest::new(tool, arguments)),
    );
    let shown = person.shown.lock().unwrap().clone();
    (result, shown)
}

#[test]
fn a_person_is_asked_about_what_can_be_done() {
    for mut world in worlds() {
        world.files = files();
        let repo = world.repo.to_string();
        let theirs = [
            ("secret.md", Some("theirs\n")),
            ("fixed.md", Some("theirs\n")),
        ];
        world.others.commit(&Default::default(), &theirs);
        let pull = |paths: &[&str]| json!({ "repo": repo, "paths": paths, "into": "/workspace" });
        let stage = |files: &[&str], from: &str| json!({ "repo": repo, "files": files, "from": from, "message": "m" });
        for (tool, arguments, asked) in [
            // A directory has no suffix.
            (
                "git_pull",
                pull(&["analyses"]),
                Some("make directory /workspace/analyses"),
            ),
            (
                "git_pull",
                pull(&["README.md"]),
                Some("write /workspace/README.md"),
            ),
            ("git_pull", pull(&["fixed.md"]), None),
            // What is not there is to go, if it was this worker's to take away.
            (
                "git_stage",
                stage(&["/workspace/gone.md"], "/workspace"),
                Some("read /workspace/gone.md"),
            ),
            (
                "git_stage",
                stage(&["/workspace/secret.md"], "/workspace"),
                None,
            ),
            (
                "git_stage",
                stage(&["/workspace/fixed.md"], "/workspace"),
                None,
            ),
            ("git_stage", stage(&["/fixed/README.md"], "/fixed"), None),
        ] {
            let main = Default::default();
            world.others.commit(&main, &[("gone.md", Some("theirs\n"))]);
            let (result, shown) = call(&world, tool, arguments.clone());
            let case = format!("{arguments}: {result:?} {shown:?}");
            match asked {
                Some(asked) => {
                    assert_eq!(result.error, None, "{case}");
                    assert!(shown[0].contains(asked), "{case}");
                }
                None => assert!(result.error.is_some(), "{case}"),
            }
        }
        // Nothing of what was refused is staged.
        let staged = wait(world.git.list_staged()).unwrap().commits;
        assert_eq!(staged.len(), 1);
        assert_eq!(staged[0].files()[0].path().as_str(), "gone.md");
    }
}
