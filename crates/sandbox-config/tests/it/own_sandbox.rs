//! Behaviour C3: with `child_sandbox_policy: own` a called worker's declaration is met with the
//! project, not with its caller; for directories only, and never beyond the project.

use sandbox_config::{Declaration, Mode, MountSource, Project, Restrict, ZoneDeclaration};

use crate::support::{Scratch, codes};

const RO: Mode = Mode::ReadOnly;
const RW: Mode = Mode::ReadWrite;

fn project(policy: &str) -> (Scratch, Project) {
    let scratch = Scratch::with_config(&format!(
        "sandbox:\n  paths:\n    a: {{ root: ./a, mode: rw }}\n    b: {{ root: ./b }}\n\
         delegation: {{ child_sandbox_policy: {policy} }}\nshell: {{ default: ask }}\n"
    ));
    let project = scratch.load().unwrap();
    (scratch, project)
}

fn wish(name: &str, mode: Mode) -> Declaration {
    Declaration::zones([ZoneDeclaration::new(name, mode)])
}

#[test]
fn a_worker_draws_on_the_project_and_no_further() {
    let (_scratch, project) = project("own");
    let caller = project.ceiling().child(&wish("b", RO)).unwrap();
    let child = caller.child(&wish("a", RW)).unwrap();
    assert_eq!(child.mount_access("a"), Some(RW));
    assert_eq!(child.mount_access("b"), None);
    assert_eq!(child.drawn_from(), MountSource::Project);
    // The project's word is the last one.
    assert_eq!(
        caller.child(&wish("b", RW)).unwrap_err().to_string(),
        "Child requests 'rw' on 'b' but parent only has 'ro'"
    );
    assert!(caller.child(&wish("c", RO)).is_err());
    // And so on below.
    let grandchild = child.child(&wish("b", RO)).unwrap();
    assert_eq!(grandchild.mount_access("b"), Some(RO));
    let restricted = Declaration::restrict(Restrict::to("/a").unwrap().readonly(true));
    assert_eq!(
        caller.child(&restricted).unwrap().mount_access("a"),
        Some(RO)
    );
}

#[test]
fn whoever_declares_nothing_gets_what_the_caller_has() {
    let (_scratch, project) = project("own");
    let caller = project.ceiling().child(&wish("b", RO)).unwrap();
    for called in [Declaration::undeclared(), Declaration::inherit()] {
        let child = caller.child(&called).unwrap();
        assert_eq!(child.drawn_from(), MountSource::Caller);
        assert_eq!(child.mounts().count(), 1);
    }
    assert_eq!(
        caller.child(&Declaration::none()).unwrap().mounts().count(),
        0
    );
}

#[test]
fn it_is_about_directories_only() {
    let (_scratch, project) = project("own");
    let caller = project.ceiling().child(&wish("b", RO)).unwrap();
    assert!(caller.shell().is_none());
    let refused = caller.child(&wish("a", RW).with_shell()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Child requests the shell but parent doesn't have it"
    );
}

#[test]
fn without_it_a_worker_draws_on_its_caller() {
    let (_scratch, project) = project("intersect");
    let caller = project.ceiling().child(&wish("b", RO)).unwrap();
    assert!(caller.child(&wish("a", RO)).is_err());
    assert_eq!(
        caller.child(&wish("b", RO)).unwrap().drawn_from(),
        MountSource::Caller
    );
}

#[test]
fn it_belongs_to_projects_with_paths() {
    for front in ["zones: { a: { path: a } }", "root: .", "read_paths: [.]"] {
        let config =
            format!("sandbox: {{ {front} }}\ndelegation: {{ child_sandbox_policy: own }}\n");
        let mistakes = Scratch::with_config(&config).load().unwrap_err();
        assert_eq!(codes(&mistakes), ["config.front_end"], "{front}");
    }
}
