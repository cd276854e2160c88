//! What the person's own file says holds at most: in every project, whatever a project or a flag
//! asks for.

use proptest::prelude::*;
use sandbox_config::{
    ApprovalMode, Grant, HostPattern, Layer, NetworkAccess, Risk, Sources, TrustedSettings,
    Verdict, load,
};

use crate::support::{CONFIG, Scratch, codes};

/// A project below a directory with a user file.
struct World {
    scratch: Scratch,
    sources: Sources,
}

fn world(user: &str, project: Option<&str>) -> World {
    let mut scratch = Scratch::new().file("user.yaml", user).dir("p");
    if let Some(text) = project {
        scratch = scratch.file(&format!("p/{CONFIG}"), text);
    }
    let mut sources = scratch.sources();
    sources.start = scratch.path().join("p");
    sources.user_file = Some(scratch.path().join("user.yaml"));
    sources.trust = TrustedSettings::Given;
    World { scratch, sources }
}

fn flagged(user: &str, project: &str, key: &str, value: &str) -> World {
    let mut world = world(user, Some(project));
    world.sources.overrides.push((key.into(), value.into()));
    world
}

/// A user file, a project that asks for more, and whether the user's word holds.
type Row = (&'static str, &'static str, fn(&Grant) -> bool);

const ROWS: &[Row] = &[
    ("network: false", "network: true", |grant| {
        *grant.network() == NetworkAccess::Denied
    }),
    (
        "network: { allow: [a.org, '*.b.org:443'] }",
        "network: true",
        |grant| grant.network().allows("a.org", 1) && !grant.network().allows("c.org", 1),
    ),
    (
        "network: { allow: [a.org, '*.b.org:443'] }",
        "network: { allow: [x.b.org, c.org, a.org] }",
        |grant| {
            let expected = ["a.org", "x.b.org:443"].map(|text| HostPattern::parse(text).unwrap());
            *grant.network() == NetworkAccess::hosts(expected)
        },
    ),
    (
        "network: { allow: ['*.b.org'], deny: [x.b.org] }",
        "network: { allow: ['*.b.org', 'x.b.org'] }",
        |grant| {
            let allows = |host| grant.network().allows(host, 443);
            allows("y.b.org") && !allows("x.b.org") && !allows("b.org")
        },
    ),
    (
        "network: { allow: [a.org] }",
        "network: { allow: [c.org] }",
        |grant| *grant.network() == NetworkAccess::Denied,
    ),
    (
        "approval: { mode: manual }",
        "approval: { mode: auto }",
        |grant| grant.approval().mode() == ApprovalMode::Manual,
    ),
    (
        "approval: { mode: deny }",
        "approval: { mode: manual }",
        |grant| {
            // Asked about by the project, refused by the person.
            let answer = |verdict| {
                grant
                    .approval()
                    .answer("write_file", Risk::WritesFs, verdict)
            };
            answer(Verdict::Allow) == Verdict::Block
        },
    ),
    (
        "approval: { require_user_permission: { shell: true } }",
        "approval: { mode: auto, require_user_permission: { shell: false } }",
        |grant| answer(grant, "shell", Risk::Exec) == Verdict::Ask,
    ),
    (
        "approval: { require_user_permission_by_risk: { exec: true } }",
        "approval: { mode: auto, require_user_permission: { shell: false } }",
        |grant| answer(grant, "shell", Risk::Exec) == Verdict::Ask,
    ),
    (
        "shell: { rules: [{ pattern: 'curl *', approval: blocked, why: no }] }",
        "shell: { rules: [{ pattern: '*', approval: preApproved }] }",
        |grant| decide(grant, "curl") == Verdict::Block && decide(grant, "ls") == Verdict::Allow,
    ),
    (
        "shell: { rules: [{ pattern: 'curl *', approval: blocked }] }",
        "shell: { default: ask }",
        |grant| decide(grant, "curl") == Verdict::Block && decide(grant, "ls") == Verdict::Ask,
    ),
    (
        "shell: { env: { pass: [A] } }",
        "shell: { env: { pass: [A, B] } }",
        |grant| grant.environment().pass() == ["A"],
    ),
    (
        "sandbox: { protect: [mine], hide: [secret] }",
        "sandbox: { protect: [theirs] }",
        |grant| {
            let protects = |name: &str| grant.protect().iter().any(|pattern| pattern == name);
            let hides = grant.hide().iter().any(|pattern| pattern == "secret");
            protects("mine") && protects("theirs") && protects(".git/hooks") && hides
        },
    ),
    (
        "sandbox: { require_os_sandbox: true }",
        "sandbox: { require_os_sandbox: false }",
        Grant::require_os_sandbox,
    ),
    (
        "limits: { max_turns: 7 }",
        "limits: { max_turns: 8 }",
        |grant| grant.limits().max_turns() == 7,
    ),
    ("limits: { max_turns: 7 }", "", |grant| {
        grant.limits().max_turns() == 7
    }),
    // A ceiling is no wish: what nobody asks for stays at its default.
    ("limits: { max_turns: 70 }", "", |grant| {
        grant.limits().max_turns() == 50
    }),
    (
        "limits: { processes: 9 }",
        "limits: { processes: 8 }",
        |grant| grant.limits().processes() == Some(8),
    ),
];

fn answer(grant: &Grant, tool: &str, risk: Risk) -> Verdict {
    let approval = grant.approval();
    approval.answer(tool, risk, approval.tool(tool, risk, None))
}

fn decide(grant: &Grant, command: &str) -> Verdict {
    let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
    grant
        .shell()
        .map_or(Verdict::Block, |rules| rules.decide(&words).verdict())
}

#[test]
fn a_project_gets_at_most_what_the_user_file_allows() {
    for (user, project, holds) in ROWS {
        let world = world(user, Some(project));
        let loaded = match load(&world.sources) {
            Ok(loaded) => loaded,
            Err(mistakes) => panic!("{user} / {project}\n{mistakes}"),
        };
        assert!(holds(loaded.ceiling()), "{user} / {project}");
        // And it is the user file that makes the difference.
        let without = load(&Sources {
            user_file: None,
            ..world.sources
        });
        let same = holds(without.unwrap().ceiling());
        let narrows_nothing = user.contains("70") || user.contains("processes");
        assert_eq!(same, narrows_nothing, "{user} / {project}");
    }
}

#[test]
fn a_flag_reaches_up_to_the_user_file_and_no_further() {
    for (user, key, value, within) in [
        ("", "network", "true", true),
        ("network: true", "network", "true", true),
        ("network: false", "network", "true", false),
        (
            "network: { allow: ['*.a.org'] }",
            "network",
            "{allow: [x.a.org]}",
            true,
        ),
        (
            "network: { allow: ['*.a.org'] }",
            "network",
            "{allow: [b.org]}",
            false,
        ),
        ("limits: { max_turns: 90 }", "limits.max_turns", "90", true),
        ("limits: { max_turns: 90 }", "limits.max_turns", "91", false),
        (
            "limits: { max_tokens: 90 }",
            "limits.max_tokens",
            "null",
            false,
        ),
        ("approval: { mode: tool }", "approval.mode", "auto", false),
        ("approval: { mode: tool }", "approval.mode", "manual", true),
        (
            "approval: { require_user_permission: { shell: true } }",
            "approval.require_user_permission",
            "{shell: false}",
            false,
        ),
        (
            "sandbox: { require_os_sandbox: true }",
            "sandbox.require_os_sandbox",
            "false",
            false,
        ),
        (
            "shell: { env: { pass: [A] } }",
            "shell.env.pass",
            "[B]",
            false,
        ),
        (
            "docker: { mem_limit_mb: 9 }",
            "docker.mem_limit_mb",
            "10",
            false,
        ),
        (
            "delegation: { max_depth: 2 }",
            "delegation.maxDepth",
            "3",
            false,
        ),
    ] {
        let world = flagged(user, "name: p\n", key, value);
        let said = load(&world.sources);
        match (&said, within) {
            (Ok(_), true) => {}
            (Err(mistakes), false) => assert_eq!(
                codes(mistakes)[0],
                "config.above_user_file",
                "{user} / {key}={value}"
            ),
            _ => panic!("{user} / {key}={value}: {said:?}"),
        }
        // A variable is the same voice.
        let variable = format!("FORGE__{}", key.replace('.', "__").to_uppercase());
        let mut by_variable = world.sources.clone();
        by_variable.overrides.clear();
        by_variable.env.push((variable, value.into()));
        assert_eq!(load(&by_variable).is_ok(), within, "{user} / {key}={value}");
    }
}

#[test]
fn who_asked_for_too_much_is_told_with_both_places() {
    let world = flagged(
        "# mine\nnetwork: false\n",
        "network: true\nlimits: { max_turns: 60 }\n",
        "network",
        "true",
    );
    let mistakes = load(&world.sources).unwrap_err().to_string();
    insta::assert_snapshot!(world.scratch.anonymous(&mistakes), @r#"
    error[config.above_user_file]: `network` asks for more than your own file allows
      --> -c network:1:9
       |
     1 | network=true
       |         ^^^^
      ::: <project>/user.yaml:2:10   your own file
       = help: ask for less, or change that line of your own file
    "#);
    let world = self::world("network: false\n", Some("network: true\n"));
    let project = load(&world.sources).unwrap();
    let said = project.warnings()[0].to_string();
    insta::assert_snapshot!(world.scratch.anonymous(&said), @r#"
    warning[config.above_user_file]: `network` asks for more than your own file allows: your own file holds
      --> golem-forge.config.yaml:1:10
       |
     1 | network: true
       |          ^^^^
      ::: <project>/user.yaml:1:10   your own file
    "#);
}

#[test]
fn preferences_of_the_user_file_give_way() {
    let user = "model: u:m\nentry: first\nworker_paths: [mine]\n";
    let world = world(user, Some("entry: second\n"));
    let project = load(&world.sources).unwrap();
    assert_eq!(
        (project.model(), project.entry(), project.worker_paths()),
        (Some("u:m"), "second", ["mine".to_owned()].as_slice())
    );
    assert_eq!(project.origin("model").unwrap().layer(), Layer::User);
    assert_eq!(project.origin("entry").unwrap().layer(), Layer::Project);
    let file = world
        .scratch
        .file("p/mine/w.worker", "---\nname: w\n---\nWork.\n");
    assert_eq!(load(&world.sources).unwrap().workers().unwrap().len(), 1);
    drop(file);
}

#[test]
fn what_a_user_file_cannot_say() {
    for (user, code) in [
        ("name: x", "config.unknown_key"),
        ("nonsense: 1", "config.unknown_key"),
        (
            "sandbox: { zones: { a: { path: ./a } } }",
            "config.unknown_key",
        ),
        ("sandbox: { mode: direct }", "config.unknown_key"),
        ("shell: { default: ask }", "config.unknown_key"),
        ("shell: { env: { set: { A: b } } }", "config.unknown_key"),
        ("limits: { max_turn: 1 }", "config.unknown_key"),
        ("limits: { max_turns: 0 }", "config.bad_value"),
        ("network: sometimes", "config.wrong_type"),
        ("mcp: {}", "config.not_yet"),
        (
            "shell: { rules: [{ pattern: 'ls *', approval: preApproved }] }",
            "config.bad_value",
        ),
        ("a: [", "config.syntax"),
        ("network: false\nnetwork: true", "config.duplicate_key"),
    ] {
        let world = world(user, Some("name: p\n"));
        let mistakes = load(&world.sources).unwrap_err();
        assert_eq!(codes(&mistakes), [code], "{user}\n{mistakes}");
    }
    for user in [
        "network: true",
        "sandbox: { require_os_sandbox: false }",
        "approval: { mode: auto }",
    ] {
        let world = world(user, Some("name: p\n"));
        let project = load(&world.sources).unwrap();
        let said: Vec<&str> = project
            .warnings()
            .iter()
            .map(|one| one.code().as_str())
            .collect();
        assert_eq!(said, ["config.no_effect"], "{user}");
    }
}

/// Guards of one's own open no mounts where a project has none.
#[test]
fn a_user_file_never_opens_anything() {
    let user = "sandbox: { protect: [mine] }\n";
    let scratch = Scratch::new()
        .file("user.yaml", user)
        .file("p/program.yaml", "name: p\n");
    let mut sources = scratch.sources();
    sources.start = scratch.path().join("p");
    sources.user_file = Some(scratch.path().join("user.yaml"));
    assert_eq!(load(&sources).unwrap().ceiling().mounts().count(), 0);
}

const COMMANDS: [&str; 4] = ["curl x", "git push", "git log", "ls"];
const TOOLS: [&str; 3] = ["shell", "read_file", "write_file"];

/// `at_most` holds nothing that `held` does not hold.
fn assert_at_most(grant: &Grant, held: &Grant) {
    assert!(grant.network().is_within(held.network()));
    for tool in TOOLS {
        for risk in Risk::ALL {
            for verdict in [Verdict::Allow, Verdict::Ask, Verdict::Block] {
                let own = grant.approval().answer(tool, risk, verdict);
                assert!(
                    own >= held.approval().answer(tool, risk, verdict),
                    "{tool} {risk}"
                );
            }
            assert!(
                answer(grant, tool, risk) >= answer(held, tool, risk),
                "{tool} {risk}"
            );
        }
    }
    for pattern in held.protect() {
        assert!(grant.protect().contains(pattern));
    }
    for pattern in held.hide() {
        assert!(grant.hide().contains(pattern));
    }
    assert!(grant.require_os_sandbox() >= held.require_os_sandbox());
}

fn network() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        "network: false\n",
        "network: true\n",
        "network: { allow: [a.org, '*.b.org'] }\n",
        "network: { allow: [x.b.org, c.org] }\n",
        "network: { allow: ['*.b.org'], deny: [x.b.org] }\n",
        "network: { allow: [a.org], loopback_out: ['127.0.0.1:1'] }\n",
    ])
}

fn mode() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        "mode: auto,",
        "mode: tool,",
        "mode: manual,",
        "mode: deny,",
    ])
}

fn asks(values: &'static [&'static str]) -> impl Strategy<Value = String> {
    let one = |names: &'static [&'static str]| {
        let pair = (prop::sample::select(names), prop::sample::select(values));
        prop::collection::btree_map(
            pair.clone().prop_map(|(name, _)| name),
            pair.prop_map(|(_, value)| value),
            0..3,
        )
    };
    (mode(), one(&TOOLS), one(&["exec", "network", "writes_fs"])).prop_map(|(mode, tools, risks)| {
        let list = |map: std::collections::BTreeMap<&str, &str>| {
            let entries: Vec<String> = map.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            entries.join(", ")
        };
        format!(
            "approval: {{ {mode} require_user_permission: {{ {} }}, require_user_permission_by_risk: {{ {} }} }}\n",
            list(tools),
            list(risks)
        )
    })
}

fn limits() -> impl Strategy<Value = String> {
    prop::collection::btree_map(
        prop::sample::select(vec![
            "max_turns",
            "processes",
            "max_stdout_kb",
            "max_wall_s",
        ]),
        1..400u64,
        0..3,
    )
    .prop_map(|map| {
        let entries: Vec<String> = map
            .iter()
            .map(|(key, value)| format!("{key}: {value}"))
            .collect();
        format!("limits: {{ {} }}\n", entries.join(", "))
    })
}

fn guards() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        "sandbox: { protect: [a] }\n",
        "sandbox: { hide: [b], require_os_sandbox: true }\n",
        "sandbox: { protect: [c], hide: [a], require_os_sandbox: false }\n",
    ])
}

/// What both kinds of files can say.
fn shared(asked: &'static [&'static str]) -> impl Strategy<Value = String> {
    (network(), asks(asked), limits(), guards())
        .prop_map(|(network, asks, limits, guards)| format!("{network}{asks}{limits}{guards}"))
}

fn rules() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        "shell: { default: ask }\n",
        "shell: { rules: [{ pattern: '*', approval: preApproved }] }\n",
        "shell: { rules: [{ pattern: 'git *', approval: ask }, { pattern: 'git log', approval: blocked }] }\n",
    ])
}

fn blocks() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        "shell: { rules: [{ pattern: 'curl *', approval: blocked }] }\n",
        "shell: { rules: [{ pattern: 'git push *', approval: blocked }] }\n",
    ])
}

/// The project that asks for exactly what a user file leaves open.
fn open(user: &str) -> String {
    let mut text = user.to_owned();
    if !text.starts_with("network:") {
        text.insert_str(0, "network: true\n");
    }
    if !text.contains("mode:") {
        text = text.replace("approval: {", "approval: { mode: auto,");
    }
    let (before, risks) = text.split_once("by_risk: {").unwrap();
    let unsaid: String = Risk::ALL
        .iter()
        .filter(|risk| !risks.split('}').next().unwrap().contains(&risk.to_string()))
        .map(|risk| format!("{risk}: false, "))
        .collect();
    format!("{before}by_risk: {{ {unsaid}{risks}")
}

fn ceiling(user: &str, project: Option<&str>) -> Grant {
    let world = world(user, project);
    match load(&world.sources) {
        Ok(project) => project.ceiling().clone(),
        Err(mistakes) => panic!("{user}\n---\n{project:?}\n{mistakes}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 128, ..ProptestConfig::default() })]

    /// Whatever a trusted project asks for: never above what the same words give where the user
    /// file is the project's, and the user's blocked commands stay blocked.
    #[test]
    fn a_project_never_widens_the_user_file(
        user in shared(&["true"]), blocks in blocks(),
        project in shared(&["true", "false"]), rules in rules(),
    ) {
        let grant = ceiling(&format!("{user}{blocks}"), Some(&format!("{project}{rules}")));
        let held = ceiling("", Some(&open(&user)));
        let limits = ["max_turns", "processes", "max_stdout_kb", "max_wall_s"];
        let said = limits.into_iter().filter(|key| user.contains(key));
        for key in said {
            let of = |grant: &Grant| match key {
                "max_turns" => Some(grant.limits().max_turns()),
                "processes" => grant.limits().processes(),
                "max_stdout_kb" => Some(grant.limits().max_stdout_bytes()),
                _ => grant.limits().max_wall_s(),
            };
            prop_assert!(of(&grant) <= of(&held) && of(&grant).is_some(), "{}", key);
        }
        assert_at_most(&grant, &held);
        for command in COMMANDS {
            if blocks.contains(&format!("'{} *'", command.trim_end_matches(" x"))) {
                prop_assert_eq!(decide(&grant, command), Verdict::Block);
            }
        }
    }

    /// Nobody's yes: never above what holds without a project, either.
    #[test]
    fn an_untrusted_project_never_widens_the_defaults(
        user in shared(&["true"]), project in shared(&["true", "false"]), rules in rules(),
    ) {
        let mut world = world(&user, Some(&format!("{project}{rules}")));
        world.sources.trust = TrustedSettings::Store(std::collections::BTreeSet::new());
        let with = load(&world.sources).unwrap();
        std::fs::remove_file(world.scratch.path().join("p").join(CONFIG)).unwrap();
        let without = load(&world.sources).unwrap();
        assert_at_most(with.ceiling(), without.ceiling());
        for command in COMMANDS {
            prop_assert!(decide(with.ceiling(), command) >= Verdict::Ask);
        }
    }

    /// A meet: it does not matter whose file says which.
    #[test]
    fn the_order_of_the_files_does_not_matter(a in shared(&["true"]), b in shared(&["true"])) {
        let (one, other) = (ceiling(&a, Some(&b)), ceiling(&b, Some(&a)));
        // Off is what holds while no project asks, so only two wishes can be compared.
        if a.starts_with("network:") && b.starts_with("network:") {
            prop_assert_eq!(one.network(), other.network());
        }
        // Neither is `tool` a wish of a user file's.
        let comparable = a.contains("mode:") == b.contains("mode:");
        for tool in TOOLS.into_iter().filter(|_| comparable) {
            for risk in Risk::ALL {
                prop_assert_eq!(answer(&one, tool, risk), answer(&other, tool, risk), "{} {}", tool, risk);
            }
        }
        let sorted = |list: &[String]| { let mut list = list.to_vec(); list.sort(); list };
        prop_assert_eq!(sorted(one.protect()), sorted(other.protect()));
        prop_assert_eq!(sorted(one.hide()), sorted(other.hide()));
        prop_assert_eq!(one.require_os_sandbox(), other.require_os_sandbox());
    }
}
