//! From a grant to open directories.

use file_sandbox::{ErrorKind, WriteOptions};
use sandbox_config::{Declaration, Grant, Mode, TrustedSettings, ZoneDeclaration, load};

use crate::support::Scratch;

fn open(grant: &Grant) -> Option<file_sandbox::FileSandbox> {
    grant.files(cap_std::ambient_authority()).unwrap()
}

#[test]
fn zones_are_made_and_bounded() {
    let scratch = Scratch::with_config(
        "sandbox: { zones: { data: { path: ./d, mode: ro, suffixes: [.md], max_file_bytes: 3 } } }\n",
    );
    let project = scratch.load().unwrap();
    assert!(!scratch.path().join(".sandbox").exists());
    let files = open(project.ceiling()).unwrap();
    assert!(scratch.path().join(".sandbox/d").is_dir());
    std::fs::write(scratch.path().join(".sandbox/d/a.md"), "long").unwrap();
    let path = files.path("/data/a.md").unwrap();
    assert_eq!(
        files.read(&path, Default::default()).unwrap_err().kind(),
        ErrorKind::TooLarge
    );
    let refused = files.write(&path, "x", WriteOptions::new()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
}

#[test]
fn what_is_only_held_is_not_opened() {
    let scratch = Scratch::new();
    let project = scratch.load().unwrap();
    let held = Declaration::zones([
        ZoneDeclaration::new("cache", Mode::ReadWrite).delegate_only(),
        ZoneDeclaration::new("workspace", Mode::ReadOnly),
    ]);
    let coordinator = project.ceiling().child(&held).unwrap();
    assert_eq!(open(&coordinator).unwrap().readable_roots(), ["/workspace"]);
    let pure = project.ceiling().child(&Declaration::none()).unwrap();
    assert!(open(&pure).is_none());
}

#[test]
fn outside_the_project_nothing_is_made() {
    let scratch = Scratch::new().file(
        "p/golem-forge.config.yaml",
        "sandbox: { mode: direct, zones: { out: { path: ../absent } } }\n",
    );
    let mut sources = scratch.sources();
    sources.start = scratch.path().join("p");
    sources.trust = TrustedSettings::Given;
    let error = load(&sources)
        .unwrap()
        .ceiling()
        .files(cap_std::ambient_authority())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot open /out: its directory does not exist"
    );
    // A person is told where it is looked for, and by which setting.
    let told = error.for_person();
    assert!(
        told.contains("/absent, by golem-forge.config.yaml:1:35)"),
        "{told}"
    );
    assert!(!scratch.path().join("absent").exists());
}

#[test]
fn a_link_that_came_later_is_not_followed() {
    let scratch = Scratch::new();
    let project = scratch.load().unwrap();
    let scratch = scratch
        .dir("elsewhere")
        .dir(".sandbox")
        .link("../elsewhere", ".sandbox/cache");
    let error = project
        .ceiling()
        .files(cap_std::ambient_authority())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot open /cache: it is not a directory"
    );
    assert!(
        scratch
            .path()
            .join("elsewhere")
            .read_dir()
            .unwrap()
            .next()
            .is_none()
    );
}

#[test]
fn forges_own_files_are_read_only() {
    let scratch = Scratch::with_config("sandbox: { mode: direct, zones: { all: { path: . } } }\n")
        .dir(".git")
        .dir("workers");
    let project = scratch.load().unwrap();
    let files = open(project.ceiling()).unwrap();
    for own in [
        "/all/golem-forge.config.yaml",
        "/all/program.yml",
        "/all/workers/new.worker",
        "/all/.git/hooks/pre-commit",
        "/all/sub/.ssh/id",
    ] {
        let path = files.path(own).unwrap();
        assert!(
            files.write(&path, "x", WriteOptions::new()).is_err(),
            "{own}"
        );
    }
    let path = files.path("/all/src/workers/pool.rs").unwrap();
    assert!(files.write(&path, "x", WriteOptions::new()).is_ok());
}
