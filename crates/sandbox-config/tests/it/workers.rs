//! Worker files: found by name, refused with their own line numbers.

use sandbox_config::{Delegates, Mode, TrustedSettings, Verdict, load};

use crate::support::{Scratch, codes};

const PROJECT: &str = "\
sandbox:
  zones:
    data: { path: ./data, mode: ro }
    workspace: { path: ./workspace }
shell:
  rules:
    - { pattern: \"grep *\", approval: preApproved }
    - { pattern: \"wc *\", approval: ask }
";

fn project() -> Scratch {
    Scratch::with_config(PROJECT)
}

#[test]
fn the_whole_of_a_worker() {
    let scratch = project().file(
        "workers/scan.worker",
        "---\nname: scan\ndescription: Scans\nmodel: a:b\nsandbox:\n  zones:\n    - { name: data, mode: ro, use: false }\nshell:\n  rules: [{ pattern: \"grep -r *\", approval: blocked, why: too slow }]\n  default: blocked\ntools: [shell]\nworkers: [report]\nlimits: { max_turns: 3 }\n---\n\n# Scan\n\nLook.\n",
    );
    let mut sources = scratch.sources();
    sources.trust = TrustedSettings::Given;
    let project = load(&sources).unwrap();
    let scan = project.worker("scan").unwrap();
    assert_eq!(scan.instructions(), "# Scan\n\nLook.\n");
    assert_eq!(scan.delegates(), &Delegates::Listed(vec!["report".into()]));
    assert_eq!(scan.shown(), "workers/scan.worker");
    let grant = project.entry_grant(&scan).unwrap();
    assert_eq!(grant.mount_access("data"), Some(Mode::ReadOnly));
    assert!(!grant.mount("data").unwrap().usable());
    assert!(grant.allows_tool("shell") && !grant.allows_tool("read_file"));
    assert_eq!(grant.limits().max_turns(), 3);
    let decide = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        grant.shell().unwrap().decide(&words)
    };
    assert_eq!(decide(&["grep", "x"]).verdict(), Verdict::Block);
    assert_eq!(decide(&["grep", "-r", "x"]).why(), Some("too slow"));
    assert_eq!(
        decide(&["grep", "-r", "x"]).origin().to_string(),
        "workers/scan.worker:9:22"
    );
}

#[test]
fn the_entry_without_a_declaration_holds_the_ceiling() {
    let scratch = project()
        .file("workers/main.worker", "---\nname: main\n---\nGo.\n")
        .file(
            "workers/pure.worker",
            "---\nname: pure\nsandbox: none\n---\nGo.\n",
        );
    let project = scratch.load().unwrap();
    let main = project.worker("main").unwrap();
    let held = project.entry_grant(&main).unwrap();
    assert_eq!(&held, project.ceiling());
    let pure = project.worker("pure").unwrap();
    assert_eq!(project.entry_grant(&pure).unwrap().mounts().count(), 0);
    // Called, it gets what it declares: nothing.
    assert_eq!(held.child(main.declaration()).unwrap().mounts().count(), 0);
}

#[test]
fn names_that_lead_nowhere() {
    let scratch = project().file("workers/report.worker", "---\nname: report\n---\nx\n");
    let project = scratch.load().unwrap();
    insta::assert_snapshot!(project.worker("reprot").unwrap_err(), @r#"
    error[worker.unknown]: unknown worker `reprot`
       = help: did you mean `report`?
    "#);
    insta::assert_snapshot!(project.worker("../etc/passwd").unwrap_err(), @r#"
    error[config.bad_value]: `../etc/passwd` cannot be a worker's name
       = help: lower-case letters, digits, `_` and `-`, a letter first, at most 64 of them: it becomes a tool's name
    "#);
    let empty = Scratch::new();
    let none = empty.load().unwrap().worker("main").unwrap_err();
    insta::assert_snapshot!(none, @r#"
    error[worker.unknown]: unknown worker `main`
       = help: no worker files in: workers, .workers; run `forge init` or `forge worker new main` to create one
    "#);
}

#[test]
fn two_of_one_name() {
    let scratch = project()
        .file("workers/a.worker", "---\nname: a\n---\nx\n")
        .file(".workers/a.worker", "---\nname: a\n---\nx\n");
    let project = scratch.load().unwrap();
    assert_eq!(
        codes(&project.worker("a").unwrap_err()),
        ["worker.two_files"]
    );
    assert_eq!(codes(&project.workers().unwrap_err()), ["worker.two_files"]);
}

#[test]
fn a_name_in_another_file_is_found_with_a_warning() {
    let scratch = project().file(".workers/b.worker", "---\nname: a\n---\nx\n");
    let worker = scratch.load().unwrap().worker("a").unwrap();
    assert_eq!(worker.warnings().len(), 1);
}

#[test]
fn a_broken_worker_is_never_skipped() {
    let scratch = project()
        .file("workers/a.worker", "---\nname: a\n---\nx\n")
        .file("workers/b.worker", "name: b\n");
    let project = scratch.load().unwrap();
    assert!(project.worker("a").is_ok());
    assert_eq!(
        codes(&project.workers().unwrap_err()),
        ["worker.front_matter"]
    );
    assert!(project.check().iter().any(|one| one.is_error()));
}

#[test]
fn crlf_and_bom() {
    let scratch = project().file(
        "workers/a.worker",
        "\u{feff}---\r\nname: a\r\nmodel: 5\r\n---\r\nx\r\n",
    );
    let mistakes = scratch.load().unwrap().worker("a").unwrap_err();
    let first = mistakes.iter().next().unwrap();
    assert_eq!((first.line(), first.column()), (Some(3), Some(8)));
}

#[test]
fn tools_are_checked_if_they_are_known() {
    let scratch = project().file(
        "workers/a.worker",
        "---\nname: a\ntools: [raed_file]\n---\nx\n",
    );
    let mut sources = scratch.sources();
    assert!(load(&sources).unwrap().worker("a").is_ok());
    sources.known_tools = Some(vec!["read_file".into()]);
    let mistakes = load(&sources).unwrap().worker("a").unwrap_err();
    insta::assert_snapshot!(mistakes, @r#"
    error[config.bad_value]: unknown tool `raed_file`
      --> workers/a.worker:3:9
       |
     3 | tools: [raed_file]
       |         ^^^^^^^^^
       = help: did you mean `read_file`?
    "#);
}

#[test]
fn a_thousand_workers() {
    let mut scratch = project();
    for i in 0..1_000 {
        let text = format!(
            "---\nname: w{i}\ndescription: d\nsandbox:\n  zones:\n    - {{ name: data, mode: ro }}\n---\nx\n"
        );
        scratch = scratch.file(&format!("workers/w{i}.worker"), text);
    }
    assert_eq!(scratch.load().unwrap().workers().unwrap().len(), 1_000);
}

/// A repository could keep every command busy for hours with them.
#[test]
fn worker_files_are_bounded_one_and_all() {
    let keys = format!("x-a: [{}]\n", "1,".repeat(300_000));
    let long =
        Scratch::with_config("{}").file("workers/a.worker", format!("---\n{keys}---\nGo.\n"));
    let mistakes = long.load().unwrap().workers().unwrap_err();
    assert_eq!(codes(&mistakes), ["config.too_complex"], "{mistakes}");

    let body = format!("---\n---\n{}", "word ".repeat(200_000));
    let many = (0..18).fold(Scratch::with_config("{}"), |many, i| {
        many.file(&format!("workers/w{i}.worker"), &body)
    });
    let mistakes = many.load().unwrap().workers().unwrap_err();
    assert_eq!(codes(&mistakes), ["config.too_complex"], "{mistakes}");
}

/// Whatever is wrong with a zone's name, the rest of it is read.
#[test]
fn a_zone_without_a_known_name_is_read_to_its_end() {
    for name in ["name: \"\", ", "name: dta, ", ""] {
        let worker = format!(
            "---\nsandbox: {{ zones: [{{ {name}approval: {{ write: maybe }} }}] }}\n---\nGo.\n"
        );
        let scene = Scratch::with_config("{}").file("workers/a.worker", worker);
        let mistakes = scene.load().unwrap().workers().unwrap_err();
        assert_eq!(mistakes.iter().count(), 2, "{mistakes}");
        assert!(codes(&mistakes).contains(&"config.bad_value"), "{mistakes}");
    }
}
