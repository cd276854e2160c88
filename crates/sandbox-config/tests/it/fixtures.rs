//! `fixtures/config`: files and what is said about them. The format stands in its README.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sandbox_config::{DiagnosticCode, Operation, Project, Sources, TrustedSettings, load};

use crate::support::{CONFIG, Scratch, repository};

/// For worker files: the project that they stand in.
const PROJECT: &str = "\
sandbox:
  zones:
    data: { path: ./data, mode: ro }
    workspace: { path: ./workspace, mode: rw }
shell:
  rules:
    - { pattern: \"grep *\", approval: ask }
";

#[test]
fn invalid_files_are_refused_as_expected() {
    for file in fixtures("invalid") {
        let said = said(&scratch(&file), &file);
        compare(&file, &said);
    }
    for case in directories("invalid") {
        let said = said(&copy(&case), &case);
        compare(&case.join("project"), &said);
    }
}

#[test]
fn odd_projects_load_and_are_warned_about() {
    for case in directories("odd") {
        let scratch = copy(&case);
        let project = load(&sources(&scratch)).unwrap();
        let list = project.check();
        assert!(list.iter().all(|one| !one.is_error()), "{}", case.display());
        let list: Vec<String> = list.iter().map(ToString::to_string).collect();
        compare(
            &case.join("project"),
            &scratch.anonymous(&list.join("\n\n")),
        );
    }
}

/// A project's directory may hold the person's own file (`user.yaml`), and say that a person has
/// agreed to everything (`trusted`).
pub(crate) fn sources(scratch: &Scratch) -> Sources {
    let mut sources = scratch.sources();
    let user = scratch.path().join("user.yaml");
    sources.user_file = user.is_file().then_some(user);
    if scratch.path().join("trusted").exists() {
        sources.trust = TrustedSettings::Given;
    }
    sources
}

/// What is said about a project that holds a mistake.
fn said(scratch: &Scratch, file: &Path) -> String {
    let said = match load(&sources(scratch)) {
        Err(mistakes) => mistakes.to_string(),
        Ok(project) => {
            let list = project.check();
            assert!(
                list.iter().any(|one| one.is_error()),
                "{}: no mistake found",
                file.display()
            );
            let list: Vec<String> = list.iter().map(ToString::to_string).collect();
            list.join("\n\n")
        }
    };
    scratch.anonymous(&said)
}

/// What stands in no file: it is about files that cannot be checked in.
const ELSEWHERE: [DiagnosticCode; 7] = [
    DiagnosticCode::ForeignFile,
    DiagnosticCode::CutOff,
    DiagnosticCode::MadeByCommand,
    DiagnosticCode::UnknownPreset,
    DiagnosticCode::Unreadable,
    DiagnosticCode::TooLarge,
    DiagnosticCode::OwnDirectory,
];

#[test]
fn every_code_has_a_fixture() {
    let mut expected = String::new();
    let mut dirs = vec![repository("fixtures/config")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|end| end == "expected") {
                expected += &std::fs::read_to_string(&path).unwrap();
            }
        }
    }
    let without: Vec<&str> = DiagnosticCode::ALL
        .iter()
        .filter(|code| !ELSEWHERE.contains(code))
        .map(|code| code.as_str())
        .filter(|code| !expected.contains(&format!("[{code}]")))
        .collect();
    assert_eq!(without, <[&str; 0]>::default());
}

#[test]
fn valid_files_mean_what_is_expected() {
    for file in fixtures("valid") {
        let scratch = scratch(&file);
        let project = match load(&scratch.sources()) {
            Ok(project) => project,
            Err(mistakes) => panic!("{}:\n{mistakes}", file.display()),
        };
        compare(&file, &scratch.anonymous(&table(&project)));
    }
}

/// The examples of the first design: a directory each, with a README about all of them.
#[test]
fn seeds_end_as_documented() {
    let dir = repository("fixtures/config/seeds");
    let table = std::fs::read_to_string(dir.join("README.md")).unwrap();
    for case in directories("seeds") {
        let name = case.file_name().unwrap().to_str().unwrap();
        assert!(table.contains(&format!("`{name}`")), "{name} has no row");
        let scratch = copy(&case);
        let said = match load(&scratch.sources()) {
            Err(mistakes) => mistakes.to_string(),
            Ok(project) => whole(&project),
        };
        compare(&case.join("project"), &scratch.anonymous(&said));
    }
}

pub(crate) fn directories(kind: &str) -> Vec<PathBuf> {
    let dir = repository("fixtures/config").join(kind);
    let mut cases: Vec<PathBuf> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    cases.sort();
    assert!(!cases.is_empty(), "no projects in {}", dir.display());
    cases
}

pub(crate) fn copy(case: &Path) -> Scratch {
    let mut scratch = Scratch::new();
    let mut dirs = vec![case.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let relative = path.strip_prefix(case).unwrap().to_str().unwrap();
                scratch = scratch.file(relative, std::fs::read(&path).unwrap());
            }
        }
    }
    scratch
}

/// The table if everything is well, otherwise what is wrong with the workers.
fn whole(project: &Project) -> String {
    let findings = project.check();
    if !findings.iter().any(|one| one.is_error()) {
        return table(project);
    }
    let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
    findings.join("\n\n")
}

pub(crate) fn fixtures(kind: &str) -> Vec<PathBuf> {
    let dir = repository("fixtures/config").join(kind);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|end| end == "yaml" || end == "worker")
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no fixtures in {}", dir.display());
    files
}

pub(crate) fn scratch(file: &Path) -> Scratch {
    let text = std::fs::read(file).unwrap();
    if file.extension().is_some_and(|end| end == "worker") {
        let name = file.file_name().unwrap().to_str().unwrap();
        Scratch::loose()
            .file(CONFIG, PROJECT)
            .file(&format!("workers/{name}"), text)
    } else {
        Scratch::loose().file(CONFIG, text)
    }
}

/// `FORGE_UPDATE_FIXTURES=1` writes what is said now; read the diff before you keep it.
fn compare(file: &Path, said: &str) {
    compare_with(format!("{}.expected", file.display()).as_ref(), said);
}

pub(crate) fn compare_with(beside: &Path, said: &str) {
    let said = format!("{}\n", said.trim_end());
    if std::env::var_os("FORGE_UPDATE_FIXTURES").is_some() {
        std::fs::write(beside, &said).unwrap();
    }
    let expected = std::fs::read_to_string(beside).unwrap_or_default();
    assert!(
        expected == said,
        "{}\n--- expected\n{expected}\n--- said\n{said}",
        beside.display()
    );
}

/// The resolved table of a project and of its workers.
fn table(project: &Project) -> String {
    let mut out = String::new();
    writeln!(
        out,
        "project {} entry {} depth {}",
        model(project.model()),
        project.entry(),
        project.max_depth()
    )
    .unwrap();
    grant(&mut out, project.ceiling());
    for warning in project.warnings() {
        writeln!(out, "{warning}").unwrap();
    }
    for key in project.privileged_settings() {
        writeln!(out, "widens: {} = {}", key.key(), key.value()).unwrap();
    }
    for worker in project.workers().unwrap() {
        writeln!(
            out,
            "worker {} {} calls {:?}",
            worker.name(),
            model(worker.model()),
            worker.delegates()
        )
        .unwrap();
        grant(
            &mut out,
            &project.ceiling().child(worker.declaration()).unwrap(),
        );
        for warning in worker.warnings() {
            writeln!(out, "{warning}").unwrap();
        }
    }
    out
}

fn model(model: Option<&str>) -> &str {
    model.unwrap_or("(no model)")
}

fn grant(out: &mut String, grant: &sandbox_config::Grant) {
    for mount in grant.mounts() {
        let approval: Vec<String> = Operation::ALL
            .iter()
            .map(|operation| format!("{operation}={}", mount.approval().verdict(*operation)))
            .collect();
        writeln!(
            out,
            "  {} {} {} {}{}",
            mount.target(),
            mount.mode(),
            mount.host().display(),
            approval.join(" "),
            if mount.usable() { "" } else { " (held only)" }
        )
        .unwrap();
    }
    writeln!(
        out,
        "  network {:?}, shell {}",
        grant.network(),
        grant.shell().is_some()
    )
    .unwrap();
    for (pattern, verdict, origin) in grant.shell().iter().flat_map(|rules| rules.rules()) {
        writeln!(out, "  rule `{pattern}` {verdict} ({origin})").unwrap();
    }
}
