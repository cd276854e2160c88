//! Dumps of the fixtures that load, beside them as `NAME.dump`: effective settings with their
//! origins, findings as JSON, privileged settings, and the fingerprint of each grant. A change of
//! structure leaves all of them as they are.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sandbox_config::{Grant, Project, Sources, TrustedSettings, load};

use crate::fixtures::{compare_with, copy, directories, fixtures, scratch, sources};
use crate::support::{Scratch, repository};

#[test]
fn fixtures_have_their_dumps() {
    let files = fixtures("valid").into_iter();
    let files = files.map(|file| (scratch(&file), format!("{}.dump", file.display())));
    let projects = ["odd", "seeds"].into_iter().flat_map(directories);
    let projects = projects.map(|dir| (copy(&dir), format!("{}/project.dump", dir.display())));
    for (scratch, beside) in files.chain(projects) {
        let Ok(project) = load(&sources(&scratch)) else {
            continue;
        };
        compare_with(beside.as_ref(), &dump(&scratch, &project));
    }
}

/// The order of keys is a feature of serde_json, which any crate of the workspace may ask for.
fn sorted(mut value: serde_json::Value) -> serde_json::Value {
    value.sort_all_objects();
    value
}

fn dump(scratch: &Scratch, project: &Project) -> String {
    let mut out = String::new();
    said_by_files(&mut out, project);
    for finding in project.check() {
        writeln!(out, "finding {}", sorted(finding.to_json())).unwrap();
    }
    for (noun, settings) in [
        ("privileged", project.privileged_settings()),
        ("empty place", project.empty_places()),
    ] {
        for one in settings {
            let (key, value, origin) = (one.key(), one.value(), one.origin());
            let trusted = if one.is_trusted() { "" } else { "not " };
            writeln!(out, "{noun} {key} = {value}, {origin}, {trusted}trusted").unwrap();
        }
    }
    let plain = Scratch::new();
    let before = facts(&plain, plain.load().unwrap().ceiling());
    let ceiling = facts(scratch, project.ceiling());
    differences(&mut out, "ceiling", &before, &ceiling);
    for worker in project.workers().unwrap_or_default() {
        for one in worker.privileged_settings() {
            writeln!(out, "privileged {} = {}", one.key(), one.value()).unwrap();
        }
        if let Ok(grant) = project.ceiling().child(worker.declaration()) {
            differences(&mut out, worker.name(), &ceiling, &facts(scratch, &grant));
        }
    }
    scratch.anonymous(&out)
}

fn facts(scratch: &Scratch, grant: &Grant) -> BTreeMap<String, String> {
    let facts = grant.facts().into_iter();
    facts
        .map(|(fact, value)| (fact, scratch.anonymous(&value)))
        .collect()
}

/// The effective settings that are not the default.
fn said_by_files(out: &mut String, project: &Project) {
    let yaml = project.settings().to_yaml(true);
    let is_mount = |line: &&str| line.starts_with("x-mounts:") || line.contains(" path: ");
    let lines = yaml
        .lines()
        .filter(|line| !line.ends_with("# default") && !is_mount(line));
    let lines: Vec<&str> = lines.collect();
    for (index, line) in lines.iter().enumerate() {
        let depth = |line: &str| line.len() - line.trim_start().len();
        let below = lines.get(index + 1).map_or(0, |next| depth(next));
        if !line.ends_with(':') || below > depth(line) || line.starts_with('#') {
            writeln!(out, "{line}").unwrap();
        }
    }
}

/// The facts of a fingerprint that another one does not have.
fn differences(
    out: &mut String,
    name: &str,
    before: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
) {
    for (fact, value) in now
        .iter()
        .filter(|(fact, value)| before.get(*fact) != Some(value))
    {
        writeln!(out, "{name}: {fact}: {value}").unwrap();
    }
    for fact in before.keys().filter(|fact| !now.contains_key(*fact)) {
        writeln!(out, "{name}: {fact} is absent").unwrap();
    }
}

/// A user file, and projects that ask for more, for less, and for something else.
const USER_FILES: &[(&str, &[&str])] = &[
    (
        "network: false",
        &[
            "network: true",
            "network: { allow: [a.org], loopback_in: [8080] }",
        ],
    ),
    ("network: true", &["", "network: { allow: [a.org] }"]),
    (
        "network: { allow: ['*.a.org', b.org], deny: [x.a.org], loopback_in: [8080] }",
        &[
            "",
            "network: true",
            "network: { allow: [y.a.org, 'b.org:443', c.org], deny: [z.a.org] }",
            "network: { allow: ['*.org'], loopback_out: ['127.0.0.1:1'], loopback_in: [8080, 9090] }",
            "sandbox: { network: { allow: [x.a.org] } }",
        ],
    ),
    (
        "approval: { mode: manual, require_user_permission: { shell: blocked }, require_user_permission_by_risk: { exec: ask } }",
        &[
            "",
            "approval: { mode: auto }",
            "approval: { mode: auto_deny, require_user_permission: { shell: false, write_file: ask } }",
            "permissions: { require_user_permission_by_risk: { exec: false, network: false } }",
        ],
    ),
    (
        "approval: { mode: deny }",
        &["approval: { mode: manual }", "approval: { mode: tool }"],
    ),
    (
        "approval: { mode: auto, require_user_permission: { shell: false } }",
        &[""],
    ),
    (
        "shell: { rules: [{ pattern: 'curl *', approval: blocked }], allow: [git, ls], deny: [rm], session: call, env: { pass: [A] } }",
        &[
            "",
            "shell: { default: ask, deny: [dd], session: worker, env: { pass: [A, B] } }",
            "shell: { rules: [{ pattern: 'curl *', approval: ask }], allow: [git, rm] }",
        ],
    ),
    (
        "sandbox: { protect: [mine], hide: [secret], require_os_sandbox: true, strict_paths: true, durable: false, hardlinks: deny, quota: { max_files: 3 } }",
        &[
            "",
            "sandbox: { protect: [mine, theirs], require_os_sandbox: false, durable: true }",
            "sandbox: { zones: { a: { path: ./a, strict_paths: false, hardlinks: allow, quota: { max_files: 9 } } } }",
        ],
    ),
    (
        "sandbox: { unix_sockets: [/run/a, /run/b], survivors: ended, review: true, trace: full }",
        &[
            "",
            "sandbox: { unix_sockets: open, review: false }",
            "sandbox: { unix_sockets: [/run/b, /run/c], trace: refused }",
            "sandbox: { survivors: left }",
        ],
    ),
    (
        "sandbox: { unix_sockets: open, survivors: left }",
        &["", "sandbox: { unix_sockets: [/run/a] }"],
    ),
    (
        "limits: { max_turns: 7, max_cost_usd: 1.5, processes: 9, max_tokens: null }",
        &[
            "",
            "limits: { max_turns: 8, max_cost_usd: null, processes: 3, max_tokens: 5 }",
        ],
    ),
    (
        "git: { mode: read_only, repositories: [octo/a, { repo: octo/b, access: ro }], allow_executable_config: false }",
        &[
            "",
            "git: { mode: commit, repositories: [octo/b, octo/c, { repo: octo/a, access: ro }] }",
            "git: { repositories: [{ repo: octo/b }], allow_executable_config: true }",
        ],
    ),
    (
        "execution: { mode: docker_required, runners: [docker] }\ndocker: { enabled: true, reuse: call, network_default: none, mem_limit_mb: 9, read_only_root: true }",
        &[
            "",
            "execution_mode: local_only",
            "execution: { mode: prefer_docker, runners: [os, docker] }\ndocker: { reuse: session, network_default: bridge, mem_limit_mb: 10, read_only_root: false }",
        ],
    ),
    (
        "require: guards\ndelegation: { max_depth: 2, child_sandbox_policy: intersect }\nlog: { redact: [tr0ub4dor], transcripts: false }",
        &[
            "",
            "require: boundaries\ndelegation: { maxDepth: 3, max_children: 4 }\nlog: { redact: [hunter2hunter2, tr0ub4dor], transcripts: true }",
        ],
    ),
    (
        "model: ollama:small\nentry: first\nproviders: { ollama: { context_tokens: 9 } }",
        &[
            "",
            "entry: second\nproviders: { ollama: { context_tokens: 8 }, anthropic: { retry_s: 3 } }",
        ],
    ),
];

#[test]
fn user_files_limit_as_they_did() {
    let mut out = String::new();
    for (user, projects) in USER_FILES {
        for project in *projects {
            for (flag, trust) in [
                (None, TrustedSettings::Given),
                (None, TrustedSettings::Store(Default::default())),
                (Some(()), TrustedSettings::Given),
            ] {
                let scratch = Scratch::new().file("user.yaml", user);
                let mut sources = Sources {
                    trust,
                    user_file: Some(scratch.path().join("user.yaml")),
                    ..scratch.sources()
                };
                if let (Some(()), Some((key, value))) = (flag, project.split_once(": ")) {
                    let value = value.replace('\n', "");
                    sources.overrides.push((key.to_owned(), value));
                }
                let scratch = match flag {
                    Some(()) => scratch,
                    None => scratch.file(crate::support::CONFIG, project),
                };
                let loaded = load(&sources);
                writeln!(out, "=== {user} / {project} / {}", sources.overrides.len()).unwrap();
                match loaded {
                    Err(mistakes) => {
                        writeln!(out, "{}\n", scratch.anonymous(&mistakes.to_string())).unwrap()
                    }
                    Ok(project) => writeln!(out, "{}", dump(&scratch, &project)).unwrap(),
                }
            }
        }
    }
    compare_with(&repository("fixtures/config/user-files.dump"), &out);
}
