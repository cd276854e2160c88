//! Every block of YAML on a page loads: what people copy must work.

use std::path::PathBuf;

use sandbox_config::{Sources, TrustedSettings, WithoutDirectories, load};

use crate::support::{CONFIG, Scratch, repository};

/// The project that worker files on pages stand in.
const PROJECT: &str = "\
sandbox:
  zones:
    data: { path: ./data, mode: ro }
    workspace: { path: ./workspace, mode: rw }
shell:
  rules:
    - { pattern: \"grep *\", approval: ask }
";

/// Pages whose YAML is not configuration.
const OTHERS: [&str; 1] = ["playbooks.md"];

#[test]
fn every_block_of_yaml_loads() {
    let mut seen = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for (line, block) in blocks(&text) {
            seen += 1;
            let problem = problem(&block);
            assert!(
                problem.is_none(),
                "{}:{line}\n{block}\n{}",
                page.display(),
                problem.unwrap_or_default()
            );
        }
    }
    assert!(seen > 20, "{seen} blocks");
}

fn pages() -> Vec<PathBuf> {
    let crates = std::fs::read_dir(repository("crates")).unwrap();
    let crates = crates.map(|entry| entry.unwrap().path());
    let pages: Vec<PathBuf> = [repository("."), repository("docs")]
        .into_iter()
        .chain(crates)
        .flat_map(|dir| std::fs::read_dir(dir).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .filter(|path| !OTHERS.iter().any(|other| path.ends_with(other)))
        .collect();
    assert!(pages.len() > 8, "{} pages", pages.len());
    pages
}

/// The blocks marked `yaml`, each with the line it begins at.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut open = None;
    for (number, line) in text.lines().enumerate() {
        match (&mut open, line.trim_end()) {
            (None, "```yaml") => open = Some((number + 2, String::new())),
            (Some(_), "```") => blocks.extend(open.take()),
            (Some((_, block)), line) => *block += &format!("{line}\n"),
            (None, _) => {}
        }
    }
    blocks
}

/// What is wrong with a block: a project file, or a worker file if it has front matter.
fn problem(block: &str) -> Option<String> {
    // A first comment names the file; a worker file itself begins with `---`.
    let start = block.find("---\n").filter(|start| {
        let above = &block[..*start];
        above.lines().all(|line| line.starts_with('#'))
    });
    let Some(start) = start else {
        if block.starts_with("# Your own file") {
            let scratch = Scratch::new().file("user.yaml", block);
            let mut sources = scratch.sources();
            sources.user_file = Some(scratch.path().join("user.yaml"));
            return load(&sources).err().map(|mistakes| mistakes.to_string());
        }
        return mistakes(
            &Scratch::with_config(block),
            WithoutDirectories::DefaultZones,
        );
    };
    let worker = "workers/w.worker";
    let file = &block[start..];
    let among_zones = Scratch::new().file(CONFIG, PROJECT).file(worker, file);
    mistakes(&among_zones, WithoutDirectories::DefaultZones)?;
    // Some keys are for root projects.
    mistakes(
        &Scratch::new().file(worker, file),
        WithoutDirectories::WholeDirectory,
    )
}

fn mistakes(scratch: &Scratch, without_directories: WithoutDirectories) -> Option<String> {
    let sources = Sources {
        trust: TrustedSettings::Given,
        without_directories,
        home: Some(scratch.path()),
        ..scratch.sources()
    };
    let loaded = load(&sources).and_then(|project| project.workers());
    loaded.err().map(|mistakes| mistakes.to_string())
}
