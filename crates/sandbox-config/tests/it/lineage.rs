//! How a grant came about: who says what, and where it stands.

use sandbox_config::{AccessQuery, GrantChain, Operation, Project, TrustedSettings, load};

use crate::support::Scratch;

const CONFIG: &str = "\
network: true
sandbox:
  zones:
    data: { path: data, suffixes: [.md] }
    out: { path: out, approval: { delete: blocked } }
shell: { rules: [{ pattern: \"grep *\", approval: ask }] }
";

const BOSS: &str = "\
---
sandbox:
  zones:
    - { name: data, mode: rw, use: false }
    - { name: out, mode: rw }
network: true
shell: {}
workers: [reader]
---
";

const READER: &str = "\
---
sandbox:
  zones:
    - { name: data, mode: ro }
shell: { rules: [{ pattern: \"grep -r *\", approval: blocked }] }
tools: [read_file]
---
";

fn project(scratch: &Scratch) -> Project {
    let mut sources = scratch.sources();
    sources.trust = TrustedSettings::Given;
    load(&sources).unwrap()
}

fn table(lineage: &GrantChain, question: &AccessQuery) -> String {
    lineage
        .ask(question)
        .iter()
        .map(|answer| {
            let at = answer.origin.as_ref().map(ToString::to_string);
            format!(
                "{}: {} ({}) {}\n",
                answer.who,
                answer.verdict,
                answer.rule,
                at.unwrap_or_default()
            )
        })
        .collect()
}

#[test]
fn every_ceiling_answers_with_its_place() {
    let scratch = Scratch::with_config(CONFIG)
        .file("workers/boss.worker", BOSS)
        .file("workers/reader.worker", READER);
    let project = project(&scratch);
    let boss = project.worker("boss").unwrap();
    let reader = project.worker("reader").unwrap();
    let boss = GrantChain::from_project(&project).entry(&boss).unwrap();
    let reader = boss.call(&reader).unwrap();
    assert_eq!(reader.steps().count(), 3);

    let write = AccessQuery::path("/data/a.md", Operation::Write);
    insta::assert_snapshot!(table(&reader, &write), @r#"
    the project: ask (write in /data is `ask`) golem-forge.config.yaml:4:5
    boss: ask (write in /data is `ask`) golem-forge.config.yaml:4:5
    reader: blocked (Zone 'data' is read-only for this worker) workers/reader.worker:4:27
    "#);
    let read = AccessQuery::path("/data/a.md", Operation::Read);
    insta::assert_snapshot!(table(&boss, &read), @r#"
    the project: preApproved (read in /data is `preApproved`) golem-forge.config.yaml:4:5
    boss: blocked (Zone 'data' is held by this worker to be passed on, not to be used) workers/boss.worker:2:1
    "#);
    insta::assert_snapshot!(table(&reader, &read), @r#"
    the project: preApproved (read in /data is `preApproved`) golem-forge.config.yaml:4:5
    boss: preApproved (read in /data is `preApproved`) golem-forge.config.yaml:4:5
    reader: preApproved (read in /data is `preApproved`) golem-forge.config.yaml:4:5
    "#);
    insta::assert_snapshot!(table(&reader, &AccessQuery::path("/data/a.exe", Operation::Read)), @r#"
    the project: blocked (/data takes .md only) golem-forge.config.yaml:4:5
    boss: blocked (/data takes .md only) golem-forge.config.yaml:4:5
    reader: blocked (/data takes .md only) golem-forge.config.yaml:4:5
    "#);
    insta::assert_snapshot!(table(&reader, &AccessQuery::path("/out/a", Operation::Read)), @r#"
    the project: preApproved (read in /out is `preApproved`) golem-forge.config.yaml:5:5
    boss: preApproved (read in /out is `preApproved`) golem-forge.config.yaml:5:5
    reader: blocked (Zone 'out' not available to this worker) workers/reader.worker:2:1
    "#);
    insta::assert_snapshot!(table(&reader, &AccessQuery::Network), @r#"
    the project: preApproved (network: true) golem-forge.config.yaml:1:10
    boss: preApproved (network: true) workers/boss.worker:6:10
    reader: blocked (`network` is not declared; a worker gets it by `network:` in its file) workers/reader.worker:1:1
    "#);
    insta::assert_snapshot!(table(&reader, &AccessQuery::Tool("shell".into())), @r#"
    the project: preApproved (every tool) 
    boss: preApproved (every tool) 
    reader: blocked (tools: [read_file]) workers/reader.worker:1:1
    "#);
    let grep = |text: &str| AccessQuery::Command(text.split(' ').map(str::to_owned).collect());
    insta::assert_snapshot!(table(&reader, &grep("grep -r x")), @r#"
    the project: ask (grep *: ask) golem-forge.config.yaml:6:29
    boss: ask (grep *: ask) golem-forge.config.yaml:6:29
    reader: blocked (grep -r *: blocked) workers/reader.worker:5:29
    "#);
    assert_eq!(reader.decisive(&grep("grep x")).who, "the project");
    assert_eq!(reader.decisive(&grep("grep -r x")).who, "reader");
}
