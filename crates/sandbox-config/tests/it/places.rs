//! `knowledge_base`, `runs_dir` and `log`.

use sandbox_config::{Mode, Project, TrustedSettings, load};

use crate::support::{CONFIG, Scratch, codes};

fn read(text: &str, trust: TrustedSettings) -> Result<Project, Vec<String>> {
    let scratch = Scratch::new()
        .dir("outside")
        .dir("p/docs/deep")
        .dir("p/zone")
        .file("p/file", "x")
        .link("../outside", "p/way")
        .file(&format!("p/{CONFIG}"), text);
    let mut sources = scratch.sources();
    sources.start = scratch.path().join("p");
    sources.trust = trust;
    load(&sources).map_err(|mistakes| codes(&mistakes).into_iter().map(str::to_owned).collect())
}

const ZONE: &str = "sandbox: { mode: direct, zones: { z: { path: ./zone, mode: ro } } }\n";

#[test]
fn mistakes_have_codes() {
    for (text, code) in [
        ("knowledge_base: ./file", "config.host_path"),
        ("knowledge_base: ./way", "config.host_path"),
        ("knowledge_base: \"\"", "config.host_path"),
        ("knowledge_base: /", "config.host_path"),
        ("knowledge_base: ../outside", "config.untrusted"),
        ("knowledge_base: ./zone", "config.overlap"),
        ("knowledge_base: .", "config.overlap"),
        ("runs_dir: ./zone", "config.overlap"),
        ("runs_dir: ./zone/runs", "config.overlap"),
        ("runs_dir: .", "config.overlap"),
        ("runs_dir: ./file", "config.host_path"),
        ("runs_dir: 5", "config.wrong_type"),
        ("log: { transcripts: 1 }", "config.wrong_type"),
        ("log: { dir: ./file }", "config.host_path"),
        ("log: { dir: ./zone }", "config.overlap"),
        ("log: { dir: ./a }\nruns_dir: ./b", "config.duplicate_key"),
        ("log: { redact: text }", "config.wrong_type"),
        ("log: { redact: [seven77] }", "config.bad_value"),
        ("log: { redact: ['redacted: '] }", "config.bad_value"),
        ("log: { redact: [\"two\\nlines\"] }", "config.bad_value"),
    ] {
        let said = read(
            &format!("{ZONE}{text}\n"),
            TrustedSettings::Store([].into()),
        )
        .unwrap_err();
        assert_eq!(said, [code], "{text}");
    }
    let root = "sandbox: { root: . }\nknowledge_base: ./docs\n";
    assert_eq!(
        read(root, TrustedSettings::Given).unwrap_err(),
        ["config.mount_name"]
    );
    let taken = "sandbox: { zones: { KB: { path: ./a } } }\nknowledge_base: ./docs\n";
    assert_eq!(
        read(taken, TrustedSettings::Given).unwrap_err(),
        ["config.mount_name"]
    );
}

#[test]
fn the_knowledge_base_is_a_mount_that_is_only_read() {
    let project = read(
        &format!("{ZONE}knowledge_base: ./docs\n"),
        TrustedSettings::Given,
    )
    .unwrap();
    let kb = project.ceiling().mount("kb").unwrap();
    assert_eq!((kb.target(), kb.mode()), ("/kb", Mode::ReadOnly));
    assert!(kb.host().ends_with("p/docs") && kb.creates_host());
    // Outside the project, if a person agrees.
    let project = read("knowledge_base: ../outside\n", TrustedSettings::Given).unwrap();
    assert!(project.ceiling().mount("kb").is_some());
}

#[test]
fn runs_are_kept_elsewhere_if_a_person_agrees() {
    let dir = |text: &str, trust| {
        read(text, trust)
            .unwrap()
            .runs_dir()
            .map(|dir| dir.file_name().unwrap().to_owned())
    };
    let nobody = || TrustedSettings::Store([].into());
    assert_eq!(dir("", nobody()), None);
    assert_eq!(dir("runs_dir: ./kept\n", nobody()), Some("kept".into()));
    assert_eq!(dir("runs_dir: ../outside/r\n", nobody()), None);
    assert_eq!(dir("runs_dir: ./way/r\n", nobody()), None);
    assert_eq!(
        dir("runs_dir: ../outside/r\n", TrustedSettings::Given),
        Some("r".into())
    );
}
