//! What `forge config` shows: every key with its origin, and a project file that means the same.

use sandbox_config::{Grant, Layer, Operation, Risk, TrustedSettings, Verdict, load};

use crate::support::{CONFIG, Scratch, repository};

/// What a ceiling allows, without where it was said.
fn shown(grant: &Grant) -> String {
    let mounts: Vec<String> = grant
        .mounts()
        .map(|mount| {
            let verdicts = Operation::ALL.map(|operation| mount.approval().verdict(operation));
            format!(
                "{} {} {:?} {:?} {:?} {verdicts:?} {:?}",
                mount.target(),
                mount.mode(),
                mount.host(),
                mount.suffixes(),
                mount.max_file_bytes(),
                mount.own_files()
            )
        })
        .collect();
    let answers: Vec<Verdict> = ["shell", "write_file", "other"]
        .into_iter()
        .flat_map(|tool| Risk::ALL.map(|risk| (tool, risk)))
        .flat_map(|(tool, risk)| {
            [None, Some(true), Some(false)].map(|requires| (tool, risk, requires))
        })
        .map(|(tool, risk, requires)| {
            let approval = grant.approval();
            approval.answer(tool, risk, approval.tool(tool, risk, requires))
        })
        .collect();
    let rules: Vec<(String, Verdict)> = grant
        .shell()
        .iter()
        .flat_map(|shell| shell.rules())
        .map(|(pattern, verdict, _)| (pattern.to_owned(), verdict))
        .collect();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let decided = grant
        .shell()
        .map(|shell| ["ls", "rm x", "grep x"].map(|text| shell.decide(&words(text)).verdict()));
    format!(
        "{mounts:#?}\n{}\n{answers:?}\n{rules:?}\n{decided:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{}",
        grant.network(),
        grant.limits(),
        grant.environment(),
        grant.protect(),
        grant.hide(),
        grant.require_os_sandbox()
    )
}

const FULL: &str = "\
x-mine: {a: 1}
name: \"a: b # c\"
model: 'p:m'
sandbox:
  mode: direct
  zones:
    data: {path: ./data, mode: ro, suffixes: [.md], max_file_bytes: 1e3}
    own: {path: ./own, approval: {delete: preApproved, write: blocked}}
  protect: [mine, \"*.key\"]
network: {allow: [a.org, '*.b.org:443']}
approval:
  mode: auto
  require_user_permission: {shell: false, write_file: true}
shell:
  rules:
    - {pattern: 'grep *', approval: preApproved, why: \"line\\nbreak\", examples: {match: [grep x]}}
    - {pattern: 'rm *', approval: blocked}
  env: {pass: [CC, LANG], set: {CI: \"1\", A: 'true'}}
limits: {max_turns: 9}
delegation: {maxDepth: 3}
";

#[test]
fn what_is_shown_loads_to_the_same_ceiling() {
    let texts = [
        "",
        "limits: {}\n",
        FULL,
        "sandbox: {root: sub}\n",
        "sandbox: {root: sub, readonly: true}\n",
        "sandbox: {paths: {a: {root: ./a, mode: rw}}}\n",
        "sandbox: {root: sb, zones: {a: {path: a}}}\n",
        "shell: {env: {set: {A: b}}}\n",
        "shell: {default: ask}\napproval: {mode: manual}\n",
    ];
    let user = "limits: {max_turns: 7, processes: 5}\nshell: {rules: [{pattern: 'ls *', approval: blocked}]}\napproval: {require_user_permission_by_risk: {exec: true}}\nsandbox: {hide: [secret]}\n";
    for (name, text) in texts.iter().map(|text| (CONFIG, *text)).chain([
        ("program.yaml", "name: p\n"),
        ("program.yaml", "sandbox: {root: .}\n"),
    ]) {
        for (trust, user) in [(true, ""), (false, ""), (true, user), (false, user)] {
            let scratch = Scratch::new()
                .dir("sub")
                .dir("a")
                .file("user.yaml", user)
                .file(name, text);
            let mut sources = scratch.sources();
            sources.user_file = Some(scratch.path().join("user.yaml"));
            if trust {
                sources.trust = TrustedSettings::Given;
            }
            let first = load(&sources).unwrap_or_else(|mistakes| panic!("{text}\n{mistakes}"));
            for origins in [false, true] {
                let printed = first.settings().to_yaml(origins);
                std::fs::write(scratch.path().join(name), &printed).unwrap();
                let second =
                    load(&sources).unwrap_or_else(|mistakes| panic!("{printed}\n{mistakes}"));
                assert_eq!(
                    shown(second.ceiling()),
                    shown(first.ceiling()),
                    "{text}\n{printed}"
                );
                let ignored = second
                    .privileged_settings()
                    .iter()
                    .filter(|key| !key.is_trusted());
                let ignored: Vec<String> = ignored.map(|key| format!("{key:?}")).collect();
                assert!(
                    ignored.is_empty(),
                    "{ignored:#?}
{printed}"
                );
                assert_eq!(
                    (second.name(), second.model(), second.max_depth()),
                    (first.name(), first.model(), first.max_depth())
                );
                // And once more it is the same text.
                let lines = |text: String| {
                    let lines = text.lines().filter(|line| !line.starts_with('#'));
                    lines.map(str::to_owned).collect::<Vec<_>>()
                };
                assert_eq!(
                    lines(second.settings().to_yaml(false)),
                    lines(first.settings().to_yaml(false))
                );
            }
        }
    }
}

#[test]
fn the_example_is_shown_as_it_is() {
    let text =
        std::fs::read_to_string(repository("examples/dep-audit").join("forge.yaml")).unwrap();
    let scratch = Scratch::with_config(&text).dir("inputs").dir("workspace");
    let mut sources = scratch.sources();
    sources.trust = TrustedSettings::Given;
    sources.home = Some(scratch.path());
    let first = load(&sources).unwrap();
    std::fs::write(scratch.path().join(CONFIG), first.settings().to_yaml(true)).unwrap();
    assert_eq!(
        shown(load(&sources).unwrap().ceiling()),
        shown(first.ceiling())
    );
}

#[test]
fn every_value_says_who_said_it_and_what_is_ignored_is_marked() {
    let scratch = Scratch::new()
        .file("user.yaml", "limits: { max_turns: 7 }\nmodel: u:m\n")
        .file(
            CONFIG,
            "network: true\nlimits: { max_turns: 8, max_stdout_kb: 9 }\nshell:\n  rules: [{ pattern: \"grep *\", approval: preApproved }]\n",
        );
    let mut sources = scratch.sources();
    sources.user_file = Some(scratch.path().join("user.yaml"));
    sources
        .env
        .push(("FORGE__LIMITS__MEMORY_MB".into(), "64".into()));
    sources
        .overrides
        .push(("delegation.max_depth".into(), "2".into()));
    let settings = load(&sources).unwrap().settings();
    let origin = |key: &str| {
        let list = settings.list();
        let one = list.iter().find(|one| one.key() == key).unwrap();
        (
            one.origin().layer(),
            one.origin().line(),
            one.origin().column(),
        )
    };
    for (key, expected) in [
        ("model", (Layer::User, 2, 8)),
        ("limits.max_turns", (Layer::User, 1, 22)),
        ("limits.max_stdout_kb", (Layer::Project, 2, 40)),
        ("limits.memory_mb", (Layer::Environment, 1, 26)),
        ("delegation.max_depth", (Layer::CommandLine, 1, 22)),
        ("limits.max_stderr_kb", (Layer::Default, 0, 0)),
        ("network", (Layer::Default, 0, 0)),
        ("shell.rules[0].approval", (Layer::Project, 4, 42)),
    ] {
        assert_eq!(origin(key), expected, "{key}");
    }
    assert_eq!(settings.get("network").unwrap(), false);
    assert_eq!(settings.get("shell.rules").unwrap()[0]["approval"], "ask");
    let ignored: Vec<&str> = settings.ignored().iter().map(|key| key.key()).collect();
    assert_eq!(ignored, ["network", "shell.rules[grep *].approval"]);
    let text = settings.to_yaml(true);
    for line in [
        "max_turns: 7  # user ",
        "max_stdout_kb: 9  # project golem-forge.config.yaml:2:40",
        "memory_mb: 64  # env FORGE__LIMITS__MEMORY_MB",
        "max_depth: 2  # flag -c delegation.max_depth",
        "network: false  # default",
        "# network: true (golem-forge.config.yaml:1:10) is ignored, you have not agreed to it: the network stays off",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn keys_are_found_or_the_nearest_is_named() {
    let scratch = Scratch::with_config("sandbox: { zones: { a.b: { path: ./x } } }\n");
    let settings = scratch.load().unwrap().settings();
    assert_eq!(settings.get("sandbox.zones.a.b.path").unwrap(), "./x");
    assert_eq!(settings.get("sandbox.mode").unwrap(), "sandboxed");
    assert_eq!(settings.get("delegation.maxDepth").unwrap(), 5);
    assert!(settings.get("sandbox").unwrap().is_object());
    // A key that exists and about which nobody said anything.
    assert!(settings.get("model").unwrap().is_null());
    for (key, nearest) in [
        ("sandbox.mdoe", Some("sandbox.mode")),
        ("modle", Some("model")),
        ("sandbox.zones.a.b.path.more", None),
        ("", None),
    ] {
        let unknown = settings.get(key).unwrap_err();
        assert_eq!(unknown.nearest(), nearest, "{key}");
    }
}
