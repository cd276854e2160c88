//! The five front-ends: what each lowers to, and what none of them may say.

use file_sandbox::ErrorKind;
use os_sandbox::Access;
use sandbox_config::{
    Declaration, FrontEnd, Grant, Operation, Sources, Trust, Verdict, WithoutFile, load,
};

use crate::support::{Scratch, codes};

/// A project with some directories, in `p`; `outside` lies beside it.
fn scratch(config: &str) -> (Scratch, Sources) {
    let scratch = Scratch::new()
        .dir("outside")
        .dir("p/data/deep")
        .dir("p/src/lib")
        .dir("p/docs")
        .file("p/file.txt", "x")
        .file("p/golem-forge.config.yaml", config)
        .link("data", "p/link")
        .link("../outside", "p/way-out");
    let mut sources = scratch.sources();
    sources.start = scratch.path().join("p");
    (scratch, sources)
}

/// `front`, then a row per mount: target, host, mode.
fn table(scratch: &Scratch, grant: &Grant) -> Vec<String> {
    let mut rows = vec![format!("{:?}", grant.front())];
    for mount in grant.mounts() {
        let host = mount.host().display().to_string();
        let host = host.replace(&scratch.path().display().to_string(), "");
        rows.push(format!("{} {host} {}", mount.target(), mount.mode()));
    }
    rows
}

#[test]
fn all_lower_to_one_table() {
    for (config, expected) in [
        (
            "",
            &[
                "Zones",
                "/cache /p/.sandbox/cache rw",
                "/workspace /p/.sandbox/workspace rw",
            ][..],
        ),
        (
            "sandbox: { zones: { d: { path: ./d } } }",
            &["Zones", "/d /p/.sandbox/d rw"],
        ),
        (
            "sandbox: { root: s, mode: sandboxed }",
            &[
                "Zones",
                "/cache /p/s/cache rw",
                "/workspace /p/s/workspace rw",
            ],
        ),
        (
            "sandbox: { mode: direct, zones: { d: { path: ./data, mode: ro } } }",
            &["Zones", "/d /p/data ro"],
        ),
        ("sandbox: { root: '.' }", &["Root", "/ /p rw"]),
        (
            "sandbox: { root: ./src/../data, readonly: true }",
            &["Root", "/ /p/data ro"],
        ),
        (
            "sandbox: { paths: { a: { root: ./data }, b: { root: new, mode: rw } } }",
            &["Paths", "/a /p/data ro", "/b /p/new rw"],
        ),
        (
            "sandbox: { mounts: [{ source: ., target: / }] }",
            &["Mounts", "/ /p rw"],
        ),
        (
            "sandbox: { mounts: [{ source: ./data, target: /d/ }, { source: ./docs, target: /usr-docs, readonly: true }] }",
            &["Mounts", "/d /p/data rw", "/usr-docs /p/docs ro"],
        ),
        // Below another mount: its own part only, under any name that the part has.
        (
            "sandbox: { mounts: [{ source: ., target: / }, { source: ./src/lib, target: /src/lib, readonly: true }] }",
            &["Mounts", "/ /p rw", "/src/lib /p/src/lib ro"],
        ),
        (
            "sandbox: { mounts: [{ source: ./data, target: /d, readonly: true }, { source: ./data/deep, target: /d/deep }] }",
            &["Mounts", "/d /p/data ro", "/d/deep /p/data/deep rw"],
        ),
        (
            "sandbox: { read_paths: [docs, ./src/../data], write_paths: [out/new] }",
            &[
                "PathLists",
                "/docs /p/docs ro",
                "/data /p/data ro",
                "/new /p/out/new rw",
            ],
        ),
        (
            "sandbox: { read_paths: [.], write_paths: [out, data/deep] }",
            &[
                "PathLists",
                "/project /p ro",
                "/project/out /p/out rw",
                "/project/data/deep /p/data/deep rw",
            ],
        ),
        (
            "sandbox: { write_paths: [.] }",
            &["PathLists", "/project /p rw"],
        ),
        ("sandbox: { paths: {} }", &["Paths"]),
        ("sandbox: { mounts: [] }", &["Mounts"]),
        ("sandbox: { read_paths: [] }", &["PathLists"]),
    ] {
        let (scratch, sources) = scratch(config);
        // Some are written in place, outside of any repository.
        let sources = Sources {
            trust: Trust::Given,
            ..sources
        };
        let project = load(&sources).unwrap_or_else(|mistakes| panic!("{config}\n{mistakes}"));
        assert_eq!(table(&scratch, project.ceiling()), expected, "{config}");
    }
}

#[test]
fn mistakes_of_host_paths_and_names() {
    for (config, expected) in [
        // A project has one front-end.
        (
            "sandbox: { paths: {}, zones: {} }",
            &["config.front_end"][..],
        ),
        ("sandbox: { root: ., paths: {} }", &["config.front_end"]),
        (
            "sandbox: { mode: direct, mounts: [] }",
            &["config.front_end"],
        ),
        (
            "sandbox: { zones: {}, readonly: true }",
            &["config.front_end"],
        ),
        (
            "sandbox: { mounts: [], write_paths: [], paths: {} }",
            &["config.front_end", "config.front_end"],
        ),
        ("sandbox: { readonly: true }", &["config.front_end"]),
        // A root is there, below the project, and not through a link.
        ("sandbox: { root: missing }", &["config.host_path"]),
        ("sandbox: { root: .. }", &["config.host_path"]),
        (
            "sandbox: { root: data/../../outside }",
            &["config.host_path"],
        ),
        ("sandbox: { root: /etc }", &["config.host_path"]),
        ("sandbox: { root: link }", &["config.host_path"]),
        ("sandbox: { root: link/deep }", &["config.host_path"]),
        ("sandbox: { root: way-out }", &["config.host_path"]),
        ("sandbox: { root: file.txt }", &["config.host_path"]),
        ("sandbox: { root: '' }", &["config.host_path"]),
        // A link is no root of anything, and the way through one needs a yes.
        (
            "sandbox: { paths: { a: { root: link } } }",
            &["config.host_path"],
        ),
        (
            "sandbox: { mounts: [{ source: way-out, target: / }] }",
            &["config.host_path"],
        ),
        ("sandbox: { read_paths: [link] }", &["config.host_path"]),
        (
            "sandbox: { paths: { a: { root: link/deep } } }",
            &["config.untrusted"],
        ),
        (
            "sandbox: { mounts: [{ source: link/deep, target: / }] }",
            &["config.untrusted"],
        ),
        (
            "sandbox: { write_paths: [link/deep] }",
            &["config.untrusted"],
        ),
        (
            "sandbox: { read_paths: [../outside] }",
            &["config.untrusted"],
        ),
        (
            "sandbox: { mode: direct, zones: { a: { path: / } } }",
            &["config.host_path"],
        ),
        (
            "sandbox: { paths: { a: { root: / } } }",
            &["config.host_path"],
        ),
        (
            "sandbox: { mounts: [{ source: /, target: / }] }",
            &["config.host_path"],
        ),
        ("sandbox: { read_paths: [/] }", &["config.host_path"]),
        // One directory, one set of rights; also by `..` and, agreed to, through a link.
        (
            "sandbox: { mode: direct, zones: { a: { path: data, mode: ro }, b: { path: src/../data, mode: ro } } }",
            &["config.overlap"],
        ),
        (
            "sandbox: { paths: { a: { root: data }, b: { root: ./data/deep } } }",
            &["config.overlap"],
        ),
        (
            "sandbox: { paths: { a: { root: data/deep }, b: { root: link/deep } } }",
            &["config.untrusted", "config.overlap"],
        ),
        (
            "sandbox: { mounts: [{ source: data, target: /a }, { source: data/deep, target: /b }] }",
            &["config.overlap"],
        ),
        (
            "sandbox: { mounts: [{ source: data, target: /a }, { source: data, target: /a }] }",
            &["config.overlap"],
        ),
        (
            "sandbox: { read_paths: [data], write_paths: [data] }",
            &["config.overlap"],
        ),
        (
            "sandbox: { read_paths: [data, data/deep] }",
            &["config.overlap"],
        ),
        (
            "sandbox: { write_paths: [data], read_paths: [data/deep] }",
            &["config.overlap"],
        ),
        // Two at one place; names that differ in case only.
        (
            "sandbox: { mounts: [{ source: data, target: /a }, { source: docs, target: /a/ }] }",
            &["config.mount_name"],
        ),
        (
            "sandbox: { write_paths: [data, out/data] }",
            &["config.mount_name"],
        ),
        (
            "sandbox: { paths: { a: { root: data }, A: { root: docs } } }",
            &["config.mount_name"],
        ),
        (
            "sandbox: { mounts: [{ source: data, target: /a }, { source: docs, target: /A }] }",
            &["config.mount_name"],
        ),
        (
            "sandbox: { write_paths: [out/Docs], read_paths: [docs] }",
            &["config.mount_name"],
        ),
        // What the system needs, where mounts appear at `/`.
        (
            "sandbox: { paths: { etc: { root: data } } }",
            &["config.mount_name"],
        ),
        (
            "sandbox: { mounts: [{ source: data, target: /usr }] }",
            &["config.mount_name"],
        ),
        (
            "sandbox: { mounts: [{ source: data, target: /Work }] }",
            &["config.mount_name"],
        ),
        ("sandbox: { read_paths: [src/lib] }", &["config.mount_name"]),
        // Deeper places are parts of what is above them, and nothing else.
        (
            "sandbox: { mounts: [{ source: data, target: /a/b }] }",
            &["config.mount_name"],
        ),
        (
            "sandbox: { mounts: [{ source: ., target: / }, { source: ../outside, target: /o }] }",
            &["config.mount_name", "config.untrusted"],
        ),
        (
            "sandbox: { mounts: [{ source: src, target: / }, { source: docs, target: /docs }] }",
            &["config.mount_name"],
        ),
        (
            "sandbox: { mounts: [{ source: ., target: / }, { source: data, target: /docs }] }",
            &["config.mount_name", "config.overlap"],
        ),
        (
            "sandbox: { mounts: [{ source: ., target: '/*' }] }",
            &["config.mount_name"],
        ),
        (
            "sandbox: { mounts: [{ source: missing, target: / }] }",
            &["config.host_path"],
        ),
        ("sandbox: { read_paths: [missing] }", &["config.host_path"]),
    ] {
        let (_scratch, sources) = scratch(config);
        let mut found = match load(&sources) {
            Ok(_) => panic!("{config} was accepted"),
            Err(mistakes) => codes(&mistakes),
        };
        found.sort_unstable();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected, "{config}");
    }
}

/// Both places, in the words of the front-end.
#[test]
fn a_mistake_between_two_names_both() {
    for (config, texts) in [
        (
            "sandbox:\n  root: .\n  paths: {}\n",
            [
                "`sandbox` has two front-ends: `root` and `paths`",
                "config.yaml:3:3",
                "config.yaml:2:3   `root` is here",
            ],
        ),
        (
            "sandbox:\n  paths:\n    a: { root: data }\n    b: { root: data/deep }\n",
            [
                "path `b` lies inside path `a`",
                "config.yaml:4:16",
                "config.yaml:3:16   path `a`",
            ],
        ),
        (
            "sandbox:\n  mounts:\n    - { source: ., target: / }\n    - { source: data, target: /x }\n",
            [
                "/x lies below /, and is not that part of its directory",
                "config.yaml:4:31",
                "config.yaml:3:28   / is here",
            ],
        ),
        (
            "sandbox:\n  read_paths: [data]\n  write_paths: [out/data]\n",
            [
                "paths `data` and `out/data` are both at /data",
                "config.yaml:3:17",
                "config.yaml:2:16   the other one",
            ],
        ),
    ] {
        let (_scratch, sources) = scratch(config);
        let said = load(&sources).unwrap_err().to_string();
        for text in texts {
            assert!(said.contains(text), "no {text:?} in\n{said}");
        }
    }
}

/// A flag is a second voice on the same tree, not a second front-end of its own.
#[test]
fn flags_meet_the_same_rules() {
    let (scratch, mut sources) = scratch("sandbox: { paths: { a: { root: data } } }");
    sources.overrides = vec![("sandbox.root".into(), "src".into())];
    let said = load(&sources).unwrap_err().to_string();
    assert!(said.contains("-c sandbox.root:1:"), "{said}");
    sources.overrides = vec![("sandbox.paths.a.root".into(), "../outside".into())];
    let project = load(&sources).unwrap();
    assert_eq!(
        table(&scratch, project.ceiling()),
        ["Paths", "/a /outside ro"]
    );
}

#[test]
fn what_holds_without_a_word() {
    for (file, text, without_file, expected) in [
        (
            "golem-forge.config.yaml",
            "name: x",
            WithoutFile::RootAtStart,
            &["Zones", "/cache", "/workspace"][..],
        ),
        (
            "golem-forge.config.yaml",
            "sandbox: { hide: [x] }",
            WithoutFile::RootAtStart,
            &["Zones", "/cache", "/workspace"],
        ),
        // Seed 001: a program without a sandbox has no files.
        (
            "program.yaml",
            "name: my-program\nmodel: anthropic:claude-haiku-4-5",
            WithoutFile::RootAtStart,
            &["Root"],
        ),
        (
            "program.yml",
            "sandbox: { default: inherit }",
            WithoutFile::DefaultZones,
            &["Root"],
        ),
        (
            "program.yaml",
            "sandbox: { root: ., readonly: false }",
            WithoutFile::DefaultZones,
            &["Root", "/"],
        ),
        ("other.txt", "", WithoutFile::RootAtStart, &["Root", "/"]),
        (
            "other.txt",
            "",
            WithoutFile::DefaultZones,
            &["Zones", "/cache", "/workspace"],
        ),
    ] {
        let scratch = Scratch::new().file(file, text);
        let mut sources = scratch.sources();
        sources.without_file = without_file;
        let project = load(&sources).unwrap();
        let mut shown = vec![format!("{:?}", project.ceiling().front())];
        shown.extend(
            project
                .ceiling()
                .mounts()
                .map(|mount| mount.target().to_owned()),
        );
        assert_eq!(shown, expected, "{file}: {text}");
    }
}

/// A flag that says something about the sandbox does not turn the directory into zones.
#[test]
fn exec_without_a_file_stays_a_root_project() {
    for (key, value, expected) in [
        ("sandbox.hide", "[x]", "/ <dir> rw"),
        ("sandbox.readonly", "true", "/ <dir> ro"),
        ("sandbox.root", "sub", "/ <dir>/sub rw"),
    ] {
        let scratch = Scratch::new().dir("sub");
        let mut sources = scratch.sources();
        sources.without_file = WithoutFile::RootAtStart;
        sources.overrides = vec![(key.into(), value.into())];
        let project = load(&sources).unwrap();
        let rows = table(&scratch, project.ceiling());
        assert_eq!(rows[1].replace("/ ", "/ <dir>"), expected, "{key}");
    }
}

/// C2: a called worker without a declaration.
#[test]
fn the_undeclared_worker_of_each_front_end() {
    for (front, held) in [
        ("zones: { d: { path: data } }", 0),
        ("root: .", 1),
        ("paths: { d: { root: data } }", 1),
        ("mounts: [{ source: ., target: / }]", 1),
        ("read_paths: [data]", 1),
    ] {
        for (default, expected) in [
            ("", held),
            (", default: none", 0),
            (", default: inherit", 1),
        ] {
            let config = format!("sandbox: {{ {front}{default} }}");
            let (_scratch, sources) = scratch(&config);
            let project = load(&sources).unwrap();
            let child = project.ceiling().child(&Declaration::undeclared()).unwrap();
            assert_eq!(child.mounts().count(), expected, "{config}");
        }
    }
}

/// Decision 16: zones ask, the others leave it to the tool axis; what is said, holds.
#[test]
fn approval_of_each_front_end() {
    use Verdict::{Allow, Ask, Block};
    for (config, expected) in [
        ("zones: { d: { path: d } }", [Allow, Ask, Ask]),
        ("root: .", [Allow, Allow, Allow]),
        ("paths: { d: { root: d } }", [Allow, Allow, Allow]),
        (
            "paths: { d: { root: d, approval: { read: ask, write: blocked, delete: preApproved } } }",
            [Ask, Block, Allow],
        ),
        (
            "mounts: [{ source: data, target: /d }]",
            [Allow, Allow, Allow],
        ),
        ("write_paths: [d]", [Allow, Allow, Allow]),
    ] {
        let (_scratch, sources) = scratch(&format!("sandbox: {{ {config} }}"));
        let project = load(&sources).unwrap();
        assert!(project.widening().is_empty(), "{config}");
        let mount = project.ceiling().mounts().next().unwrap();
        let verdicts = Operation::ALL.map(|operation| mount.approval().verdict(operation));
        assert_eq!(verdicts, expected, "{config}");
    }
}

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
        sources.trust = Trust::Given;
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
            policy.allows(&host("data/new.md"), Access::WRITE),
            "{config}"
        );
        assert!(
            !policy.allows(&host("docs/new.md"), Access::WRITE),
            "{config}"
        );
        assert!(
            !policy.allows(&scratch.path().join("outside/x"), Access::READ),
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

/// Checks between rows sort first. Comparing each with each takes half a minute for ten thousand
/// rows and a quarter of an hour for the longer list, and the watchdog barks.
#[test]
fn very_many_rows() {
    fn lines(count: usize, row: fn(usize) -> String) -> String {
        (0..count).map(row).collect::<Vec<_>>().join("\n")
    }
    let zones = lines(10_000, |i| format!("    z{i}: {{ path: ./z{i} }}"));
    let mounts = lines(10_000, |i| {
        format!("    - {{ source: ./data/deep, target: /m{i} }}")
    });
    let listed = lines(60_000, |i| format!("    - o/{i}"));
    for (config, rows) in [
        (format!("sandbox:\n  zones:\n{zones}"), Some(10_000)),
        (format!("sandbox:\n  write_paths:\n{listed}"), Some(60_000)),
        // Every one is the same directory.
        (format!("sandbox:\n  mounts:\n{mounts}"), None),
    ] {
        let (_scratch, sources) = scratch(&config);
        let (done, watchdog) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(load(&sources).map(|p| p.ceiling().mounts().count())));
        let loaded = watchdog
            .recv_timeout(std::time::Duration::from_secs(120))
            .expect("rows are compared each with each");
        assert_eq!(loaded.ok(), rows);
    }
}
