//! `fixtures/config`: files and what is said about them. The format stands in its README.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sandbox_config::{Operation, Project, load};

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
        let scratch = scratch(&file);
        let said = match load(&scratch.sources()) {
            Err(mistakes) => mistakes.to_string(),
            Ok(project) => {
                let list = project.check();
                assert!(
                    list.iter().any(|one| one.is_error()),
                    "{}: no mistake found",
                    file.display()
                );
                list.iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join("\n\n")
            }
        };
        compare(&file, &scratch.anonymous(&said));
    }
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

/// The examples of the design documents: a directory each, its README names the document.
#[test]
fn seeds_end_as_documented() {
    let dir = repository("fixtures/config/seeds");
    let table = std::fs::read_to_string(dir.join("README.md")).unwrap();
    let mut cases: Vec<PathBuf> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    cases.sort();
    assert!(cases.len() >= 15);
    for case in cases {
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

fn copy(case: &Path) -> Scratch {
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

fn fixtures(kind: &str) -> Vec<PathBuf> {
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

fn scratch(file: &Path) -> Scratch {
    let text = std::fs::read(file).unwrap();
    if file.extension().is_some_and(|end| end == "worker") {
        let name = file.file_name().unwrap().to_str().unwrap();
        Scratch::with_config(PROJECT).file(&format!("workers/{name}"), text)
    } else {
        Scratch::new().file(CONFIG, text)
    }
}

/// `FORGE_UPDATE_FIXTURES=1` writes what is said now; read the diff before you keep it.
fn compare(file: &Path, said: &str) {
    let beside = PathBuf::from(format!("{}.expected", file.display()));
    let said = format!("{}\n", said.trim_end());
    if std::env::var_os("FORGE_UPDATE_FIXTURES").is_some() {
        std::fs::write(&beside, &said).unwrap();
    }
    let expected = std::fs::read_to_string(&beside).unwrap_or_default();
    assert!(
        expected == said,
        "{}\n--- expected\n{expected}\n--- said\n{said}",
        file.display()
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
    for key in project.widening() {
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
