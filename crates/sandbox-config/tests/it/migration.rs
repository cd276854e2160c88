//! Old workers, and docs/migrating.md: what stands there loads.

use sandbox_config::{Declaration, GrantChain, Mode, Project};

use crate::support::{Scratch, repository};

const OLD: &str = "\
---
sandbox:
  paths:
    cache: { root: ./cache, mode: rw, suffixes: [.json, .txt] }
    notes: { root: ./notes, max_file_bytes: 1000 }
---
Old.
";

const MOUNTS: &str = "\
---
sandbox:
  mounts:
    - { source: ./src, target: /src, readonly: true }
---
Old.
";

/// With the worker `old`.
fn with(file: &str, config: &str, worker: &str) -> Scratch {
    Scratch::new()
        .file(file, config)
        .file("workers/old.worker", worker)
        .dir("cache")
        .dir("notes")
        .dir("src")
}

fn said(scratch: &Scratch) -> String {
    let project = scratch.load().unwrap();
    match project.workers() {
        Err(mistakes) => mistakes.to_string(),
        Ok(workers) => {
            let warnings: Vec<String> = workers[0]
                .warnings()
                .iter()
                .map(ToString::to_string)
                .collect();
            warnings.join("\n\n")
        }
    }
}

fn held(project: &Project) -> Vec<String> {
    let worker = project.worker("old").unwrap();
    let grant = project.entry_grant(&worker).unwrap();
    grant
        .mounts()
        .map(|mount| {
            format!(
                "{} {} {:?} {:?}",
                mount.target(),
                mount.mode(),
                mount.suffixes(),
                mount.max_file_bytes()
            )
        })
        .collect()
}

#[test]
fn where_directories_have_names_the_new_form_is_printed() {
    let zones = "sandbox: { zones: { cache: { path: ./cache } } }\n";
    let zones = with("golem-forge.config.yaml", zones, OLD);
    insta::assert_snapshot!(said(&zones), @r#"
    error[config.front_end]: `sandbox.paths` in a worker is an old form: the project says what there is
      --> workers/old.worker:3:3
       |
     3 |   paths:
       |   ^^^^^
       = help: write
               sandbox:
                 zones:
                   - { name: cache, mode: rw, suffixes: [.json, .txt] }
                   - { name: notes, mode: ro, max_file_bytes: 1000 }
               and in the project file, which has no such zone yet
               sandbox:
                 zones:
                   notes: { path: ./notes, mode: ro, max_file_bytes: 1000 }
    "#);
    let paths = "sandbox: { paths: { notes: { root: ./notes } } }\n";
    let paths = with("golem-forge.config.yaml", paths, OLD);
    insta::assert_snapshot!(said(&paths), @r#"
    error[config.front_end]: `sandbox.paths` in a worker is an old form: the project says what there is
      --> workers/old.worker:3:3
       |
     3 |   paths:
       |   ^^^^^
       = help: write
               sandbox:
                 zones:
                   - { name: cache, mode: rw, suffixes: [.json, .txt] }
                   - { name: notes, mode: ro, max_file_bytes: 1000 }
               and in the project file, which has no such path yet
               sandbox:
                 paths:
                   cache: { root: ./cache, mode: rw, suffixes: [.json, .txt] }
    "#);
    let mounts = with("golem-forge.config.yaml", "", MOUNTS);
    insta::assert_snapshot!(said(&mounts), @r#"
    error[config.front_end]: `sandbox.mounts` in a worker is an old form: the project says what there is
      --> workers/old.worker:3:3
       |
     3 |   mounts:
       |   ^^^^^^
       = help: write
               sandbox:
                 zones:
                   - { name: src, mode: ro }
               and in the project file, which has no such zone yet
               sandbox:
                 zones:
                   src: { path: ./src, mode: ro }
    "#);
    let both = OLD.replace("  paths:", "  restrict: /a\n  paths:");
    insta::assert_snapshot!(said(&with("program.yaml", "name: p\n", &both)), @r#"
    error[config.front_end]: `paths` is an old form and stands alone
      --> workers/old.worker:4:3
       |
     4 |   paths:
       |   ^^^^^
      ::: workers/old.worker:3:3   `restrict` is here
       = help: keep the other one: the project says what there is
    "#);
}

/// What the error prints is a valid project and a valid worker.
#[test]
fn what_is_printed_can_be_pasted() {
    let zones = "sandbox:\n  zones:\n    other: { path: ./other }\n";
    let text = said(&with("golem-forge.config.yaml", zones, OLD));
    let block = |after: &str| -> String {
        let (_, rest) = text.split_once(after).unwrap();
        let lines: Vec<&str> = rest.lines().skip(1).map(str::trim_end).collect();
        let indent = lines[0].len() - lines[0].trim_start().len();
        lines
            .iter()
            .take_while(|line| line.len() > indent && !line[indent..].starts_with("and "))
            .map(|line| format!("{}\n", &line[indent..]))
            .collect()
    };
    let worker = format!("---\n{}---\nNew.\n", block("= help: write"));
    let config = block("which has no such zone yet");
    let scratch = with("golem-forge.config.yaml", &config, &worker);
    let project = scratch.load().unwrap();
    assert_eq!(
        held(&project),
        [
            "/cache rw Some([\".json\", \".txt\"]) None",
            "/notes ro None Some(1000)"
        ]
    );
}

#[test]
fn a_program_without_a_sandbox_takes_it_as_its_own() {
    let scratch = with("program.yaml", "name: p\n", OLD);
    insta::assert_snapshot!(said(&scratch), @r#"
    warning[config.alias]: `sandbox.paths` in a worker is an old form: the program has no sandbox, so this one is read as the program's
      --> workers/old.worker:3:3
       |
     3 |   paths:
       |   ^^^^^
       = help: move it to the program's file
               sandbox:
                 paths:
                   cache: { root: ./cache, mode: rw, suffixes: [.json, .txt] }
                   notes: { root: ./notes, mode: ro, max_file_bytes: 1000 }
    "#);
    let project = scratch.load().unwrap();
    assert_eq!(
        held(&project),
        [
            "/cache rw Some([\".json\", \".txt\"]) None",
            "/notes ro None Some(1000)"
        ]
    );
    assert!(project.check().iter().all(|one| !one.is_error()));
    // Nobody else holds it: called by another worker it gets what that one has, which is nothing.
    assert_eq!(project.ceiling().mounts().count(), 0);
    let old = project.worker("old").unwrap();
    assert!(project.ceiling().child(old.declaration()).is_err());
    // Those whom it calls draw on it.
    let lineage = GrantChain::from_project(&project).entry(&old).unwrap();
    let child = lineage.grant().child(&Declaration::inherit()).unwrap();
    assert_eq!(child.mounts().count(), 2);
}

#[test]
fn a_program_with_a_sandbox_is_only_narrowed() {
    let config = "sandbox: { root: . , readonly: true }\n";
    let scratch = with("program.yaml", config, OLD);
    insta::assert_snapshot!(said(&scratch), @r#"
    warning[config.alias]: `sandbox.paths` in a worker is an old form: the program's sandbox holds, and this only narrows it
      --> workers/old.worker:3:3
       |
     3 |   paths:
       |   ^^^^^
       = help: a worker has one subtree: let the program list `paths`, and name them here
    "#);
    assert_eq!(
        held(&scratch.load().unwrap()),
        [
            "/cache ro Some([\".json\", \".txt\"]) None",
            "/notes ro None Some(1000)"
        ]
    );
    // What lies outside of the program's sandbox is not held.
    let scratch = with("program.yaml", "sandbox: { root: ./cache }\n", OLD);
    insta::assert_snapshot!(said(&scratch), @r#"
    warning[config.alias]: `sandbox.paths` in a worker is an old form: the program's sandbox holds, and this only narrows it
      --> workers/old.worker:3:3
       |
     3 |   paths:
       |   ^^^^^
       = note: outside of it, and not held: notes
       = help: write
               sandbox:
                 restrict: /
    "#);
    assert_eq!(
        held(&scratch.load().unwrap()),
        ["/ rw Some([\".json\", \".txt\"]) None"]
    );
    let scratch = with("program.yaml", "sandbox: { root: . }\n", MOUNTS);
    insta::assert_snapshot!(said(&scratch), @r#"
    warning[config.alias]: `sandbox.mounts` in a worker is an old form: the program's sandbox holds, and this only narrows it
      --> workers/old.worker:3:3
       |
     3 |   mounts:
       |   ^^^^^^
       = help: write
               sandbox:
                 restrict: /src
                 readonly: true
    "#);
    assert_eq!(held(&scratch.load().unwrap()), ["/src ro None None"]);
}

#[test]
fn it_cannot_write_its_own_rights() {
    let whole = "---\nsandbox: { paths: { all: { root: ., mode: rw } } }\n---\n";
    let scratch = with("program.yaml", "name: p\n", whole);
    let project = scratch.load().unwrap();
    let grant = project
        .entry_grant(&project.worker("old").unwrap())
        .unwrap();
    let own = grant.mount("all").unwrap().own_files();
    assert!(own.contains(&"/workers/*.worker".to_owned()), "{own:?}");
    assert_eq!(grant.mount_access("all"), Some(Mode::ReadWrite));
    let among = "---\nsandbox: { paths: { w: { root: ./workers, mode: rw } } }\n---\n";
    let said = said(&with("program.yaml", "name: p\n", among));
    assert!(
        said.contains("would let workers rewrite worker files"),
        "{said}"
    );
}

/// Each section of the page: files, and whether they stand under `Before` (with a code) or `After`.
#[test]
fn the_page_is_true() {
    let page = std::fs::read_to_string(repository("docs/migrating.md")).unwrap();
    let mut tried = 0;
    for part in page.split("\nBefore: ").skip(1).flat_map(|part| {
        let (before, after) = part.split_once("\nAfter:").unwrap();
        let after = after.split("\n## ").next().unwrap();
        [before, after]
    }) {
        let code = part.lines().next().unwrap().trim_matches('`');
        let mut blocks = part.split("```yaml ").skip(1);
        let scratch = blocks
            .by_ref()
            .fold(Scratch::new().dir("src"), |scratch, block| {
                let (name, rest) = block.split_once('\n').unwrap();
                scratch.file(name, rest.split("```").next().unwrap())
            });
        let project = scratch.load().unwrap();
        let codes: Vec<&str> = match project.workers() {
            Ok(workers) => {
                for worker in &workers {
                    project.entry_grant(worker).unwrap();
                }
                let all = workers.iter().flat_map(|worker| worker.warnings().to_vec());
                all.map(|one| one.code().as_str()).collect()
            }
            Err(mistakes) => mistakes.iter().map(|one| one.code().as_str()).collect(),
        };
        let expected: Vec<&str> = if code.is_empty() { vec![] } else { vec![code] };
        assert_eq!(codes, expected, "{part}");
        tried += 1;
    }
    assert_eq!(tried, 6);
    let own = page
        .split("## A child")
        .nth(1)
        .unwrap()
        .split("```")
        .nth(1)
        .unwrap();
    let (name, text) = own.trim_start_matches("yaml ").split_once('\n').unwrap();
    assert!(Scratch::new().file(name, text).load().is_ok());
}
