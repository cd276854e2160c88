//! What a front-end opens, for file tools and for commands alike.

use file_sandbox::ErrorKind;
use os_sandbox::Access;
use sandbox_config::{FrontEnd, TrustedSettings, load};

use super::scratch;

/// What a grant opens: a path that is read, one that is written, one that is refused, and the
/// roots as messages show them.
#[test]
fn files_of_each_front_end() {
    for (config, read, written, refused, roots) in [
        (
            "mode: direct, zones: { data: { path: data } }",
            "/data/a.md",
            "/data/new.md",
            "/docs/a.md",
            "/data",
        ),
        ("root: data", "/a.md", "/new.md", "/../docs/a.md", "/"),
        (
            "paths: { data: { root: data, mode: rw } }",
            "data/a.md",
            "./data/new.md",
            "/docs/a.md",
            "./data",
        ),
        (
            "mounts: [{ source: ., target: / }, { source: docs, target: /docs, readonly: true }]",
            "/docs/a.md",
            "/data/new.md",
            "/docs/new.md",
            "/",
        ),
        (
            "mounts: [{ source: ., target: /, readonly: true }, { source: data, target: /data }]",
            "/docs/a.md",
            "/data/new.md",
            "/docs/new.md",
            "/data",
        ),
        (
            "read_paths: [.], write_paths: [data]",
            "/project/docs/a.md",
            "/project/data/new.md",
            "/project/docs/new.md",
            "/project/data",
        ),
    ] {
        let (scratch, mut sources) = scratch(&format!("sandbox: {{ {config} }}"));
        for dir in ["data", "docs"] {
            std::fs::write(scratch.path().join("p").join(dir).join("a.md"), "text").unwrap();
        }
        sources.trust = TrustedSettings::Given;
        let project = load(&sources).unwrap();
        let grant = project.ceiling();
        let files = grant.files(cap_std::ambient_authority()).unwrap().unwrap();
        assert_eq!(files.writable_roots(), [roots], "{config}");
        let path = files.path(read).unwrap();
        assert!(
            files.read(&path, Default::default()).is_ok(),
            "{config} {read}"
        );
        let path = files.path(written).unwrap();
        files.write(&path, "x", Default::default()).unwrap();
        let kept = scratch.path().join("p/data/new.md");
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "x", "{config}");
        let denied = files
            .path(refused)
            .and_then(|path| files.write(&path, "x", Default::default()));
        let kind = denied.unwrap_err().kind();
        assert!(
            matches!(
                kind,
                ErrorKind::ReadOnly | ErrorKind::OutsideSandbox | ErrorKind::InvalidPath
            ),
            "{config} {refused}: {kind:?}"
        );
        // Commands under the same grant.
        let policy = grant.policy().unwrap();
        let host = |path: &str| project.dir().join(path);
        assert!(
            policy.allows(host("data/new.md"), Access::WRITE),
            "{config}"
        );
        assert!(
            !policy.allows(host("docs/new.md"), Access::WRITE),
            "{config}"
        );
        assert!(
            !policy.allows(scratch.path().join("outside/x"), Access::READ),
            "{config}"
        );
    }
}

/// Roots that must be there are not made, the others are.
#[test]
fn missing_directories() {
    for (config, made) in [
        ("zones: { new: { path: new } }", Some(".sandbox/new")),
        ("paths: { new: { root: new } }", Some("new")),
        ("write_paths: [new]", Some("new")),
        ("read_paths: [.], write_paths: [new/er]", Some("new/er")),
    ] {
        let (scratch, sources) = scratch(&format!("sandbox: {{ {config} }}"));
        let project = load(&sources).unwrap();
        let made = made.map(|dir| scratch.path().join("p").join(dir));
        assert!(made.iter().all(|dir| !dir.exists()), "{config}");
        project
            .ceiling()
            .files(cap_std::ambient_authority())
            .unwrap();
        assert!(made.iter().all(|dir| dir.is_dir()), "{config}");
    }
}

#[test]
fn what_cannot_be_opened_is_named_in_the_front_ends_words() {
    let (scratch, sources) = scratch("sandbox: { paths: { new: { root: new } } }");
    let project = load(&sources).unwrap();
    std::fs::write(scratch.path().join("p/new"), "a file").unwrap();
    let error = project
        .ceiling()
        .files(cap_std::ambient_authority())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot open ./new: it is not a directory"
    );
    let error = project.ceiling().policy().unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot open ./new: it is not a directory"
    );
    assert_eq!(project.ceiling().front(), FrontEnd::Paths);
}
