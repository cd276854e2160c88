//! What each front-end comes to, and what holds where it says nothing.

use sandbox_config::{
    Declaration, Operation, Sources, TrustedSettings, Verdict, WithoutDirectories, load,
};

use super::{scratch, table};
use crate::support::Scratch;

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
            trust: TrustedSettings::Given,
            ..sources
        };
        let project = load(&sources).unwrap_or_else(|mistakes| panic!("{config}\n{mistakes}"));
        assert_eq!(table(&scratch, project.ceiling()), expected, "{config}");
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
    use WithoutDirectories::{DefaultZones, WholeDirectory};
    let zones = &["Zones", "/cache", "/workspace"][..];
    for (file, text, without_directories, expected) in [
        ("golem-forge.config.yaml", "name: x", DefaultZones, zones),
        (
            "golem-forge.config.yaml",
            "name: x",
            WholeDirectory,
            &["Root", "/"],
        ),
        ("forge.yaml", "sandbox: { hide: [x] }", DefaultZones, zones),
        (
            "forge.yaml",
            "sandbox: { hide: [x] }",
            WholeDirectory,
            &["Root", "/"],
        ),
        (
            "forge.yaml",
            "git: { mode: commit }",
            WholeDirectory,
            &["Root", "/"],
        ),
        (
            "forge.yaml",
            "sandbox: { mode: direct }",
            WholeDirectory,
            zones,
        ),
        // The whole directory could not contain them.
        ("forge.yaml", "runs_dir: ./runs", WholeDirectory, zones),
        ("forge.yaml", "log: { dir: ./runs }", WholeDirectory, zones),
        // A program without a sandbox has no files.
        (
            "program.yaml",
            "name: my-program\nmodel: anthropic:claude-haiku-4-5",
            WholeDirectory,
            &["Root"],
        ),
        (
            "program.yml",
            "sandbox: { default: inherit }",
            DefaultZones,
            &["Root"],
        ),
        (
            "program.yaml",
            "sandbox: { root: ., readonly: false }",
            DefaultZones,
            &["Root", "/"],
        ),
        ("other.txt", "", WholeDirectory, &["Root", "/"]),
        (
            "other.txt",
            "",
            DefaultZones,
            &["Zones", "/cache", "/workspace"],
        ),
    ] {
        let scratch = Scratch::new().file(file, text);
        let mut sources = scratch.sources();
        sources.without_directories = without_directories;
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
        sources.without_directories = WithoutDirectories::WholeDirectory;
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

/// Zones ask, the others leave it to the tool axis; what is said, holds.
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
        assert!(project.privileged_settings().is_empty(), "{config}");
        let mount = project.ceiling().mounts().next().unwrap();
        let verdicts = Operation::ALL.map(|operation| mount.approval().verdict(operation));
        assert_eq!(verdicts, expected, "{config}");
    }
}
