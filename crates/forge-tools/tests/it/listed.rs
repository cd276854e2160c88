//! Lists of programs, from outside: the file behind a word is what counts, when it is started.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use forge_tools::{
    ApprovalAnswer, ApprovalRequest, Approver, BoxFuture, Processes, ProgramList, Toolbox, Verdict,
};
use os_sandbox::{Access, Environment, Plan, Policy, Requirement, Support};
use serde_json::json;

use crate::support::{Always, call};

fn toolbox(
    dir: &Path,
    environment: Environment,
    list: ProgramList,
    verdict: Verdict,
    approver: impl Approver,
) -> Toolbox {
    let policy = Policy::builder()
        .mount(dir, "/", Access::ALL)
        .env(environment)
        .build()
        .unwrap();
    let plan = Plan::new(&policy, &Support::detect(), Requirement::Enforce).unwrap();
    Toolbox::builder()
        .processes(Processes::new(plan).programs(vec![list]))
        .gate(Always(verdict))
        .approver(approver)
        .build()
        .unwrap()
}

fn deny(name: &str) -> ProgramList {
    ProgramList {
        deny: vec![name.to_owned()],
        ..ProgramList::default()
    }
}

fn allow(names: &[&str]) -> ProgramList {
    ProgramList {
        allow: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        ..ProgramList::default()
    }
}

/// Agrees, and meanwhile makes the link lead elsewhere.
struct Swaps(PathBuf);

impl Approver for Swaps {
    fn ask<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        std::fs::remove_file(&self.0).unwrap();
        symlink("/usr/bin/touch", &self.0).unwrap();
        Box::pin(async { ApprovalAnswer::AllowOnce { by: "test".into() } })
    }
}

#[test]
fn a_link_that_leads_elsewhere_since_it_was_agreed_to_is_not_started() {
    for (list, runs_before) in [(deny("touch"), true), (allow(&["echo"]), false)] {
        let dir = tempfile::tempdir().unwrap();
        let tool = dir.path().join("tool");
        symlink("/usr/bin/echo", &tool).unwrap();
        let plain = toolbox(
            dir.path(),
            Environment::clean(),
            list.clone(),
            Verdict::Allow,
            Swaps(tool.clone()),
        );
        let before = call(&plain, "shell", json!({"command": "./tool made"}));
        assert_eq!(before.ok, runs_before, "{}", before.content);
        let swapped = toolbox(
            dir.path(),
            Environment::clean(),
            list,
            Verdict::Ask,
            Swaps(tool),
        );
        let result = call(&swapped, "shell", json!({"command": "./tool made"}));
        assert_eq!(result.error.unwrap().code, "BLOCKED");
        assert!(!dir.path().join("made").exists());
    }
}

/// Names are looked up where commands look, not where this process would.
#[test]
fn names_are_looked_up_along_the_path_of_commands() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("bin")).unwrap();
    symlink("/usr/bin/touch", dir.path().join("bin/echo")).unwrap();
    for (path, list, made) in [
        (None, deny("touch"), false),
        (None, allow(&["echo"]), false),
        (Some("/work/bin:/usr/bin"), deny("touch"), false),
        (Some("/work/bin:/usr/bin"), deny("nothing"), true),
    ] {
        let environment = match path {
            Some(path) => Environment::clean().set("PATH", path),
            None => Environment::clean(),
        };
        let blocked = path.is_some() && list == deny("touch");
        let toolbox = toolbox(
            dir.path(),
            environment,
            list,
            Verdict::Allow,
            forge_tools::AutoApprove::confined(),
        );
        let result = call(&toolbox, "shell", json!({"command": "echo made"}));
        assert_eq!(result.ok, !blocked, "{path:?}: {}", result.content);
        assert_eq!(dir.path().join("made").exists(), made, "{path:?}");
    }
}

/// Nothing of a line runs if one of its programs may not.
#[test]
fn every_program_of_a_line_is_looked_at_before_any_is_started() {
    let dir = tempfile::tempdir().unwrap();
    symlink("/bin/rm", dir.path().join("harmless")).unwrap();
    std::fs::write(dir.path().join("by-perl"), "#!/usr/bin/perl\n").unwrap();
    for (list, rest) in [
        (deny("rm"), "rm x"),
        (deny("rm"), "./harmless x"),
        (deny("rm"), "env /bin/rm x"),
        (deny("rm"), "xargs -n 1 rm"),
        (deny("rm"), "sh -c 'cat y; rm x'"),
        (deny("rm"), "cat \"$(rm x)\""),
        (deny("perl"), "./by-perl"),
        (allow(&["touch"]), "cat x"),
        (allow(&["touch", "env"]), "env cat x"),
    ] {
        let toolbox = toolbox(
            dir.path(),
            Environment::clean(),
            list,
            Verdict::Allow,
            forge_tools::AutoApprove::confined(),
        );
        for joined in ["|", "&&", ";", "||"] {
            let command = format!("touch made {joined} {rest}");
            let result = call(&toolbox, "shell", json!({"command": command}));
            assert_eq!(result.error.unwrap().code, "BLOCKED", "{command}");
            assert!(!dir.path().join("made").exists(), "{command}");
        }
    }
}
