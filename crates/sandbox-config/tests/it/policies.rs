//! From a grant to a policy for commands: what a child's policy allows, its parent's allows too.

use std::path::PathBuf;

use os_sandbox::{Access, Network};
use proptest::prelude::*;
use sandbox_config::{Declaration, Mode, Project, WithoutDirectories, ZoneDeclaration, load};

use crate::support::Scratch;

fn project() -> (Scratch, Project) {
    let scratch = Scratch::with_config(
        "sandbox:\n  mode: direct\n  hide: [secret]\n  zones:\n    data: { path: d, mode: ro }\n    workspace: { path: w }\n    cache: { path: c }\nlimits: { max_stdout_kb: 1, processes: 7 }\nshell: { env: { set: { CI: \"1\" } } }\n",
    );
    let project = scratch.load().unwrap();
    (scratch, project)
}

#[test]
fn mounts_guards_and_limits_arrive() {
    let (scratch, project) = project();
    let policy = project.ceiling().policy().unwrap();
    let host = |path: &str| scratch.path().join(path);
    assert!(policy.allows(host("d/x"), Access::READ | Access::EXECUTE));
    assert!(!policy.allows(host("d/x"), Access::WRITE));
    assert!(policy.allows(host("w/x"), Access::ALL));
    assert!(!policy.allows(host("w/secret"), Access::READ));
    assert!(!policy.allows(host("w/.git/hooks/pre-commit"), Access::WRITE));
    assert!(!policy.allows(host("golem-forge.config.yaml"), Access::READ));
    assert_eq!(policy.network(), &Network::Denied);
    assert_eq!(policy.limits().stdout_bytes, 1024);
    assert_eq!(policy.limits().processes, Some(7));
    assert_eq!(policy.limits().wall, None);
}

#[test]
fn the_root_form_shows_the_directory_and_guards_forges_own_files() {
    let scratch = Scratch::new();
    let mut sources = scratch.sources();
    sources.without_directories = WithoutDirectories::WholeDirectory;
    let policy = load(&sources).unwrap().ceiling().policy().unwrap();
    assert_eq!(policy.mounts()[0].inside(), "/work");
    let host = |path: &str| scratch.path().join(path);
    assert!(policy.allows(host("src/workers/pool.rs"), Access::WRITE));
    for own in ["program.yaml", "workers/a.worker", ".bashrc", ".git/config"] {
        assert!(!policy.allows(host(own), Access::WRITE), "{own}");
    }
}

/// Wherever git takes its configuration from, for commands and for file tools alike.
#[test]
fn what_git_obeys_is_written_by_nobody() {
    let scratch = Scratch::with_config("sandbox: { root: . }\n");
    let project = scratch.load().unwrap();
    let policy = project.ceiling().policy().unwrap();
    let authority = cap_std::ambient_authority();
    let files = project.ceiling().files(authority).unwrap().unwrap();
    for below in [
        ".git/config",
        ".git/config.worktree",
        ".git/commondir",
        ".git/hooks/x",
        ".git/info/attributes",
        ".git/worktrees/w/commondir",
        ".git/worktrees/w/gitdir",
        ".git/worktrees/w/config.worktree",
        ".git/modules/m/config",
        ".git/modules/m/config.worktree",
        ".git/modules/m/commondir",
        ".git/modules/m/hooks/x",
        ".git/modules/m/info/attributes",
        "sub/.git/commondir",
    ] {
        let host = scratch.path().join(below);
        assert!(!policy.allows(&host, Access::WRITE), "{below}");
        assert!(policy.allows(&host, Access::READ), "{below}");
        let path = file_sandbox::SandboxPath::parse(&format!("/{below}")).unwrap();
        let denied = files.check_write(&path).unwrap_err();
        assert_eq!(denied.kind(), file_sandbox::ErrorKind::ReadOnly, "{below}");
    }
    let pointer = file_sandbox::SandboxPath::parse("/sub/.git").unwrap();
    let denied = files.check_write(&pointer).unwrap_err();
    assert_eq!(denied.kind(), file_sandbox::ErrorKind::ReadOnly);
    let data = scratch.path().join(".git/worktrees/w/HEAD");
    assert!(policy.allows(&data, Access::WRITE));
}

#[test]
fn what_is_only_held_is_not_mounted() {
    let (_scratch, project) = project();
    let held = Declaration::zones([ZoneDeclaration::new("cache", Mode::ReadWrite).delegate_only()]);
    let policy = project.ceiling().child(&held).unwrap().policy().unwrap();
    assert!(policy.mounts().is_empty());
}

fn wishes() -> impl Strategy<Value = Vec<(usize, bool)>> {
    proptest::collection::vec((0..3usize, any::<bool>()), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn a_childs_policy_allows_nothing_more(chain in proptest::collection::vec(wishes(), 1..4)) {
        let (scratch, project) = project();
        let probes: Vec<PathBuf> = ["d/x", "w/x", "c/x", "w/secret", "w/.env", "x", "../x"]
            .iter()
            .map(|probe| scratch.path().join(probe))
            .collect();
        let mut held = project.ceiling().clone();
        for wishes in chain {
            let zones = wishes.into_iter().map(|(zone, writes)| {
                let mode = if writes { Mode::ReadWrite } else { Mode::ReadOnly };
                ZoneDeclaration::new(["data", "workspace", "cache"][zone], mode)
            });
            let Ok(child) = held.child(&Declaration::zones(zones)) else {
                continue;
            };
            let (own, parents) = (child.policy().unwrap(), held.policy().unwrap());
            for probe in &probes {
                for access in [Access::READ, Access::WRITE, Access::EXECUTE] {
                    prop_assert!(!own.allows(probe, access) || parents.allows(probe, access));
                }
            }
            held = child;
        }
    }
}
