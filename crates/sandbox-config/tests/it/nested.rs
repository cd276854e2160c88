//! Mounts of other directories below a mount, as project files name them and as workers hold them.

use sandbox_config::{Declaration, Grant, Mode, Restrict, ZoneDeclaration};

use crate::support::Scratch;

const CONFIG: &str = "sandbox:
  mounts:
    - { source: ./project, target: / }
    - { source: ./cache, target: /cache, readonly: true }
    - { source: ./npm, target: /cache/npm }
    - { source: ./tmp, target: /build/tmp }
    - { source: ./notes, target: /notes, readonly: true }
    - { source: ./project/src, target: /src, readonly: true }
";

fn scratch() -> Scratch {
    Scratch::with_config(CONFIG)
        .file("project/src/a.rs", "a")
        .file("project/cache/covered", "covered")
        .file("project/cache/npm/covered", "covered")
        .file("cache/c", "c")
        .dir("cache/npm")
        .file("npm/n", "n")
        .file("notes/n", "n")
        .file("tmp/t", "t")
}

fn ceiling(scratch: &Scratch) -> Grant {
    scratch.load().unwrap().ceiling().clone()
}

fn restricted(held: &Grant, place: &str) -> Grant {
    held.child(&Declaration::restrict(Restrict::to(place).unwrap()))
        .unwrap()
}

fn targets(grant: &Grant) -> Vec<String> {
    let mut all: Vec<String> = grant
        .mounts()
        .map(|mount| format!("{} {}", mount.target(), mount.mode()))
        .collect();
    all.sort();
    all
}

#[test]
fn a_child_holds_the_mounts_below_its_place_and_no_other() {
    let scratch = scratch();
    let held = ceiling(&scratch);
    for (place, expected) in [
        (
            "/",
            &[
                "/ rw",
                "/build/tmp rw",
                "/cache ro",
                "/cache/npm rw",
                "/notes ro",
                "/src ro",
            ][..],
        ),
        ("/src", &["/src ro"]),
        ("/cache", &["/cache ro", "/cache/npm rw"]),
        ("/cache/npm", &["/cache/npm rw"]),
        ("/build", &["/build rw", "/build/tmp rw"]),
        ("/docs", &["/docs rw"]),
    ] {
        assert_eq!(targets(&restricted(&held, place)), expected, "{place}");
    }
    let read_only = Restrict::everything().readonly(true);
    let read_only = held.child(&Declaration::restrict(read_only)).unwrap();
    assert!(
        read_only
            .mounts()
            .all(|mount| mount.mode() == Mode::ReadOnly)
    );
    let rebased = Restrict::to("/cache").unwrap().rebased();
    let rebased = held.child(&Declaration::restrict(rebased)).unwrap();
    assert_eq!(targets(&rebased), ["/ ro", "/npm rw"]);
    // Asked for by name, a mount brings what covers places below it.
    let named = Declaration::zones([ZoneDeclaration::new("cache", Mode::ReadOnly)]);
    assert_eq!(
        targets(&held.child(&named).unwrap()),
        ["/cache ro", "/cache/npm ro"]
    );
}

#[cfg(feature = "files")]
#[test]
fn file_tools_see_the_deepest_mount() {
    use file_sandbox::ErrorKind;

    let scratch = scratch();
    let held = ceiling(&scratch);
    let delegate_only = Declaration::zones([
        ZoneDeclaration::new("/", Mode::ReadWrite),
        ZoneDeclaration::new("cache", Mode::ReadOnly).delegate_only(),
    ]);
    let delegate_only = held.child(&delegate_only).unwrap();
    for (grant, at, expected) in [
        (&held, "/cache/c", Ok("c")),
        (&held, "/cache/npm/n", Ok("n")),
        (&held, "/build/tmp/t", Ok("t")),
        (&held, "/notes/n", Ok("n")),
        (&held, "/cache/covered", Err(ErrorKind::NotFound)),
        (&held, "/cache/npm/covered", Err(ErrorKind::NotFound)),
        (
            &restricted(&held, "/src"),
            "/cache/c",
            Err(ErrorKind::OutsideSandbox),
        ),
        (&restricted(&held, "/src"), "/src/a.rs", Ok("a")),
        (&delegate_only, "/src/a.rs", Ok("a")),
        // A mount that is only held uncovers nothing.
        (&delegate_only, "/cache/c", Err(ErrorKind::NotFound)),
        (&delegate_only, "/cache/covered", Err(ErrorKind::NotFound)),
    ] {
        let files = grant.files(cap_std::ambient_authority()).unwrap().unwrap();
        let read = files.read(&files.path(at).unwrap(), Default::default());
        let read = read.map(|read| read.content).map_err(|error| error.kind());
        assert_eq!(read.as_deref().map_err(|kind| *kind), expected, "{at}");
    }
}

#[cfg(feature = "process")]
#[test]
fn commands_see_it_in_place_of_a_directory() {
    let scratch = scratch();
    let held = ceiling(&scratch);
    // Nothing is made in the person's tree.
    let refused = held.policy().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cannot open /build/tmp: commands see it in place of a directory of the mount at /, which \
         has none of that name; create an empty one there"
    );
    assert!(
        refused.for_person().contains("project/build/tmp"),
        "{}",
        refused.for_person()
    );
    assert!(!scratch.path().join("project/build").exists());
    let scratch = scratch.dir("project/build/tmp");
    let held = ceiling(&scratch);
    let delegate_only = Declaration::zones([
        ZoneDeclaration::new("/", Mode::ReadWrite),
        ZoneDeclaration::new("cache", Mode::ReadOnly).delegate_only(),
        ZoneDeclaration::new("notes", Mode::ReadOnly).delegate_only(),
    ]);
    for (grant, expected) in [
        (
            held.clone(),
            &[
                "/ project",
                "/notes notes",
                "/src project/src",
                "/work/build/tmp tmp",
                "/work/cache cache",
                "/work/cache/npm npm",
            ][..],
        ),
        (restricted(&held, "/src"), &["/src project/src"]),
        (
            restricted(&held, "/cache"),
            &["/cache cache", "/cache/npm npm"],
        ),
        (
            restricted(&held, "/build"),
            &["/work/build project/build", "/work/build/tmp tmp"],
        ),
        // What they covered is closed, and what covers nothing is left out.
        (
            held.child(&delegate_only).unwrap(),
            &[
                "/ project",
                "/cache project/cache",
                "/cache/npm project/cache/npm",
                "/src project/src",
                "/work/build/tmp tmp",
            ],
        ),
    ] {
        let policy = grant.policy().unwrap();
        let mut seen: Vec<String> = policy
            .mounts()
            .iter()
            .map(|mount| {
                let host = mount.host().strip_prefix(scratch.path()).unwrap();
                format!("{} {}", mount.shown_at(), host.display())
            })
            .collect();
        seen.sort();
        assert_eq!(seen, expected);
    }
}

#[test]
fn a_file_has_one_place_and_one_set_of_rights() {
    for (mounts, expected) in [
        // A directory of the outer mount under another name.
        (
            "{ source: ./project, target: / }, { source: ./project/src, target: /lib }",
            "lies inside mount `/`",
        ),
        (
            "{ source: ./project/src, target: / }, { source: ./project, target: /up }",
            "lies inside mount `/up`",
        ),
        (
            "{ source: ./project, target: / }, { source: ./project, target: /again }",
            "are the same directory",
        ),
        (
            "{ source: ./project, target: / }, { source: ./npm, target: /a }, { source: ./npm, target: /b }",
            "same directory",
        ),
        (
            "{ source: ./project, target: / }, { source: ./npm, target: /A }, { source: ./tmp, target: /a }",
            "differ in case",
        ),
        (
            "{ source: ./npm, target: /a/b }",
            "lies below no other mount",
        ),
    ] {
        let scratch = Scratch::with_config(&format!("sandbox: {{ mounts: [{mounts}] }}\n"))
            .dir("project/src")
            .dir("npm")
            .dir("tmp");
        let told = scratch.mistakes();
        assert!(told.contains(expected), "{mounts}: {told}");
    }
}
