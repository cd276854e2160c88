//! A table of delegations, with the exact texts in both renderings.

use sandbox_config::{
    Declaration, Mode, NetworkAccess, Operation, Project, TrustedSettings, Verdict,
    ZoneDeclaration, load,
};

use crate::support::Scratch;

const RO: Mode = Mode::ReadOnly;
const RW: Mode = Mode::ReadWrite;

fn project(zones: &str) -> (Scratch, Project) {
    let scratch = Scratch::with_config(&format!("sandbox:\n  zones:\n{zones}"));
    let project = scratch.load().unwrap();
    (scratch, project)
}

fn wish(zones: &[(&str, Mode)]) -> Declaration {
    Declaration::zones(
        zones
            .iter()
            .map(|(name, mode)| ZoneDeclaration::new(*name, *mode)),
    )
}

#[test]
fn rows_f000_15_to_20() {
    let (_scratch, project) =
        project("    data: { path: d }\n    workspace: { path: w }\n    cache: { path: c }\n");
    let parent = project.ceiling();
    let child = parent.child(&wish(&[("data", RW)])).unwrap();
    assert_eq!(child.mounts().count(), 1);
    assert_eq!(child.mount_access("data"), Some(RW));
    assert_eq!(child.mount_access("cache"), None);
    assert_eq!(
        parent
            .child(&Declaration::undeclared())
            .unwrap()
            .mounts()
            .count(),
        0
    );
    assert_eq!(parent.child(&wish(&[])).unwrap().mounts().count(), 0);

    let child = parent.child(&wish(&[("data", RO)])).unwrap();
    assert!(child.child(&wish(&[("workspace", RO)])).is_err());
    assert!(child.child(&wish(&[("data", RW)])).is_err());
    let grandchild = child.child(&wish(&[("data", RO)])).unwrap();
    assert_eq!(grandchild.mount_access("data"), Some(RO));
    // The parent is what it was.
    assert_eq!(parent.mount_access("data"), Some(RW));
}

#[test]
fn texts_f000_16_and_18() {
    let (_scratch, project) = project("    data: { path: d, mode: ro }\n");
    let refused = project
        .ceiling()
        .child(&wish(&[("data", RW), ("logs", RO)]))
        .unwrap_err();
    insta::assert_snapshot!(refused, @r#"
    Child requests zone 'logs' but parent doesn't have it
    Child requests 'rw' on 'data' but parent only has 'ro'
    "#);
    insta::assert_snapshot!(refused.for_model(), @r#"
    Child requests 'logs' but parent doesn't have it
    Available: data
    Child requests 'rw' on 'data' but parent only has 'ro'
    "#);
    insta::assert_snapshot!(refused.for_person(), @r#"
    error[worker.exceeds_parent]: Child requests zone 'logs' but parent doesn't have it
       = note: Available zones: data

    error[worker.exceeds_parent]: Child requests 'rw' on 'data' but parent only has 'ro'
      ::: golem-forge.config.yaml:3:28   zone 'data' is ro here
       = help: declare `mode: ro`, or make the zone rw in the project config
    "#);
}

#[test]
fn a_pure_parent_has_nothing_to_give() {
    let refused = sandbox_config::Grant::empty()
        .child(&wish(&[("data", RO)]))
        .unwrap_err();
    insta::assert_snapshot!(refused.for_model(), @r#"
    Child requests 'data' but parent doesn't have it
    Available: none
    "#);
}

#[test]
fn hold_but_not_use() {
    let (_scratch, project) = project("    data: { path: d }\n");
    let held = Declaration::zones([ZoneDeclaration::new("data", RW).delegate_only()]);
    let coordinator = project.ceiling().child(&held).unwrap();
    assert!(!coordinator.mount("data").unwrap().usable());
    let child = coordinator.child(&wish(&[("data", RW)])).unwrap();
    assert!(child.mount("data").unwrap().usable());
}

#[test]
fn what_is_unstated_a_worker_may_settle_and_what_is_stated_it_may_tighten() {
    let (_scratch, project) = project(
        "    drafts: { path: d }\n    final: { path: f, approval: { write: ask, delete: blocked } }\n",
    );
    let ceiling = project.ceiling();
    assert_eq!(
        ceiling.mount_approval("drafts", Operation::Write),
        Verdict::Ask
    );
    let settled = Declaration::zones([
        ZoneDeclaration::new("drafts", RW).approval(Operation::Write, Verdict::Allow)
    ]);
    let worker = ceiling.child(&settled).unwrap();
    assert_eq!(
        worker.mount_approval("drafts", Operation::Write),
        Verdict::Allow
    );
    let looser = Declaration::zones([
        ZoneDeclaration::new("final", RW).approval(Operation::Write, Verdict::Allow)
    ]);
    assert_eq!(
        ceiling.child(&looser).unwrap_err().to_string(),
        "Child requests 'preApproved' for write on 'final' but parent only has 'ask'"
    );
    // Not held at all: blocked.
    assert_eq!(
        worker.mount_approval("final", Operation::Read),
        Verdict::Block
    );
}

#[test]
fn network_and_shell_are_asked_for() {
    let scratch = Scratch::with_config("network: true\nshell: { default: ask }\n");
    let mut sources = scratch.sources();
    sources.trust = TrustedSettings::Given;
    let project = load(&sources).unwrap();
    let nothing = project.ceiling().child(&Declaration::inherit()).unwrap();
    assert_eq!(nothing.network(), &NetworkAccess::Denied);
    assert!(nothing.shell().is_none());
    let both = Declaration::inherit()
        .with_shell()
        .with_network(NetworkAccess::Unrestricted);
    let child = project.ceiling().child(&both).unwrap();
    assert!(child.shell().is_some());
    assert_eq!(child.network(), &NetworkAccess::Unrestricted);
    insta::assert_snapshot!(nothing.child(&both).unwrap_err().for_model(), @r#"
    Child requests network access but parent doesn't have it
    Child requests the shell but parent doesn't have it
    "#);
}

#[test]
fn no_text_for_a_model_says_zone_or_names_the_host() {
    let (scratch, project) = project("    data: { path: d, mode: ro, suffixes: [.md] }\n");
    let all = Declaration::zones([
        ZoneDeclaration::new("data", RW)
            .approval(Operation::Read, Verdict::Allow)
            .suffixes([".exe"]),
        ZoneDeclaration::new("logs", RW),
    ])
    .with_shell()
    .with_network(NetworkAccess::Unrestricted);
    let text = project.ceiling().child(&all).unwrap_err().for_model();
    assert!(!text.contains("zone"), "{text}");
    assert!(
        !text.contains(&scratch.path().display().to_string()),
        "{text}"
    );
    assert_eq!(text.lines().count(), 7, "{text}");
}

#[test]
fn texts_f000_24_and_25() {
    let (scratch, project) =
        project("    data: { path: d }\n    cache: { path: c }\n    out: { path: o }\n");
    let declared = Declaration::zones([
        ZoneDeclaration::new("data", RO),
        ZoneDeclaration::new("out", RW).delegate_only(),
    ]);
    let child = project.ceiling().child(&declared).unwrap();
    let mut said = String::new();
    for (path, operation) in [
        ("/data/x", Operation::Read),
        ("/cache/x", Operation::Read),
        ("/data/x", Operation::Write),
        ("/data/x", Operation::Delete),
        ("/out/x", Operation::Read),
        ("/", Operation::Read),
    ] {
        said.push_str(&format!("{operation} {path}\n"));
        if let Some(refusal) = child.refusal(path, operation) {
            let (person, model) = (refusal.for_person(), refusal.for_model());
            said.push_str(&format!("  {person}\n  {}\n", model.replace('\n', "\n  ")));
            assert!(!model.to_lowercase().contains("zone"), "{model}");
            assert!(!model.contains(&scratch.path().display().to_string()));
        }
    }
    insta::assert_snapshot!(said, @r#"
    read /data/x
    read /cache/x
      Zone 'cache' not available to this worker
      '/cache' not available to this worker
      Available: /data
    write /data/x
      Zone 'data' is read-only for this worker
      '/data' is read-only for this worker
    delete /data/x
      Zone 'data' is read-only for this worker
      '/data' is read-only for this worker
    read /out/x
      Zone 'out' is held by this worker to be passed on, not to be used
      '/out' is held by this worker to be passed on, not to be used
      Available: /data
    read /
    "#);
}
