//! Who has the last word on a call: every combination of what a project, a tool, a directory and the
//! person's own file can say, through the gate that decides in a run, against the rule in words.
//!
//! The rule: a tool's own setting, else its risk's, else what the tool itself asks for, else the safe
//! default; the stricter of that and the directory's word on the operation; then the project's mode,
//! unless the person's is stricter; then what else the person's own file says, which only makes
//! stricter. Blocked stays blocked.

use file_sandbox::SandboxPath;
use forge_runtime::GrantGate;
use forge_tools::{Gate as _, GateRequest, Intent, Risk, Verdict};
use sandbox_config::{Grant, Sources, TrustedSettings, load};

/// A setting that may be left out.
const SAID: [Option<bool>; 3] = [None, Some(false), Some(true)];

const MODES: [&str; 4] = ["tool", "manual", "auto", "deny"];

/// What the person's own file says.
const USERS: [(&str, User); 5] = [
    ("", User::Nothing),
    (
        "approval: {require_user_permission: {it: true}}",
        User::Asks,
    ),
    (
        "approval: {require_user_permission_by_risk: {read_only: true, writes_workspace: true, \
         writes_fs: true, network: true, exec: true}}",
        User::Asks,
    ),
    ("approval: {mode: manual}", User::Manual),
    ("approval: {mode: deny}", User::Deny),
];

#[derive(Clone, Copy, PartialEq)]
enum User {
    Nothing,
    Asks,
    Manual,
    Deny,
}

/// One directory for each word, and one about which nothing is said.
const PLACES: [(&str, Option<Verdict>); 4] = [
    ("unsaid", None),
    ("free", Some(Verdict::Allow)),
    ("asked", Some(Verdict::Ask)),
    ("never", Some(Verdict::Block)),
];

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "preApproved",
        Verdict::Ask => "ask",
        Verdict::Block => "blocked",
    }
}

fn config(mode: &str, tool: Option<bool>, risk: Option<bool>) -> String {
    let mut text = "sandbox:\n  mode: direct\n  zones:\n".to_owned();
    for (name, said) in PLACES {
        let approval = said.map(word).map_or(String::new(), |word| {
            format!(", approval: {{read: {word}, write: {word}, delete: {word}}}")
        });
        text.push_str(&format!("    {name}: {{path: ./{name}{approval}}}\n"));
    }
    text.push_str(&format!("approval:\n  mode: {mode}\n"));
    if let Some(asks) = tool {
        text.push_str(&format!("  require_user_permission: {{it: {asks}}}\n"));
    }
    if let Some(asks) = risk {
        let all: Vec<String> = Risk::ALL
            .iter()
            .map(|risk| format!("{}: {asks}", risk.as_str()))
            .collect();
        text.push_str(&format!(
            "  require_user_permission_by_risk: {{{}}}\n",
            all.join(", ")
        ));
    }
    text
}

fn grant(config: &str, user: &str) -> Grant {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("golem-forge.config.yaml"), config).unwrap();
    std::fs::write(dir.path().join("user.yaml"), user).unwrap();
    let mut sources = Sources::new(dir.path());
    sources.trust = TrustedSettings::Given;
    sources.user_file = Some(dir.path().join("user.yaml"));
    let project = load(&sources).unwrap_or_else(|mistakes| panic!("{config}\n{user}\n{mistakes}"));
    project.ceiling().clone()
}

fn asks(yes: bool) -> Verdict {
    if yes { Verdict::Ask } else { Verdict::Allow }
}

fn stricter(one: Verdict, other: Verdict) -> Verdict {
    match (one, other) {
        (Verdict::Block, _) | (_, Verdict::Block) => Verdict::Block,
        (Verdict::Ask, _) | (_, Verdict::Ask) => Verdict::Ask,
        (Verdict::Allow, Verdict::Allow) => Verdict::Allow,
    }
}

/// Asks about everything that is not read-only.
fn manual(verdict: Verdict, risk: Risk) -> Verdict {
    stricter(verdict, asks(risk != Risk::ReadOnly))
}

fn deny(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Ask => Verdict::Block,
        other => other,
    }
}

struct Row {
    mode: &'static str,
    by_tool: Option<bool>,
    by_risk: Option<bool>,
    user: User,
    risk: Risk,
    requires: bool,
    /// What the directory says about the operation; none if the call touches no directory.
    place: Option<Verdict>,
}

/// The rule in words, again.
fn expected(row: &Row) -> Verdict {
    let safe = asks(!matches!(row.risk, Risk::ReadOnly | Risk::WritesWorkspace));
    let own = if row.requires { Verdict::Ask } else { safe };
    let tool = row.by_tool.or(row.by_risk).map_or(own, asks);
    let rules = stricter(tool, row.place.unwrap_or(Verdict::Allow));
    let asked = if row.user == User::Asks {
        stricter(rules, Verdict::Ask)
    } else {
        rules
    };
    let by_mode = match row.mode {
        "manual" => manual(asked, row.risk),
        // Of two modes the stricter one holds, so no yes is given in advance.
        "auto" if matches!(row.user, User::Manual | User::Deny) => asked,
        "auto" if asked == Verdict::Ask => Verdict::Allow,
        _ => asked,
    };
    let by_user = match row.user {
        User::Nothing => by_mode,
        User::Asks => stricter(by_mode, Verdict::Ask),
        User::Manual => manual(by_mode, row.risk),
        User::Deny => deny(by_mode),
    };
    if row.mode == "deny" {
        deny(by_user)
    } else {
        by_user
    }
}

fn intents() -> Vec<(Option<Verdict>, Vec<Intent>)> {
    let mut all = vec![(None, Vec::new())];
    for (name, said) in PLACES {
        let path = SandboxPath::parse(&format!("/{name}/x")).unwrap();
        // Reading is free where nothing is said, and the rest is asked about.
        let (read, write) = (said.unwrap_or(Verdict::Allow), said.unwrap_or(Verdict::Ask));
        all.push((Some(read), vec![Intent::Read(path.clone())]));
        all.push((Some(write), vec![Intent::Write(path.clone())]));
        all.push((Some(write), vec![Intent::CreateDir(path.clone())]));
        all.push((Some(write), vec![Intent::Delete(path)]));
    }
    // The strictest of all that a call touches.
    let at = |name: &str| SandboxPath::parse(&format!("/{name}/x")).unwrap();
    let both = vec![Intent::Delete(at("free")), Intent::Write(at("never"))];
    all.push((Some(Verdict::Block), both));
    all
}

#[test]
fn who_has_the_last_word() {
    let mut rows = 0;
    for mode in MODES {
        for by_tool in SAID {
            for by_risk in SAID {
                for (user_file, user) in USERS {
                    let config = config(mode, by_tool, by_risk);
                    let gate = GrantGate::new(grant(&config, user_file));
                    for (place, intents) in intents() {
                        for risk in Risk::ALL {
                            for requires in [false, true] {
                                let row = Row {
                                    mode,
                                    by_tool,
                                    by_risk,
                                    user,
                                    risk,
                                    requires,
                                    place,
                                };
                                let judged = gate.judge(&GateRequest {
                                    tool: "it",
                                    risk,
                                    requires_permission: requires,
                                    needs_network: false,
                                    confined: true,
                                    intents: &intents,
                                });
                                assert_eq!(
                                    judged.verdict,
                                    expected(&row),
                                    "{risk:?}, requires {requires}, {intents:?}\n{config}\n{user_file}\n{:?}",
                                    judged.reasons
                                );
                                assert!(!judged.reasons.is_empty());
                                rows += 1;
                            }
                        }
                    }
                }
            }
        }
    }
    assert_eq!(rows, 4 * 3 * 3 * 5 * 18 * 5 * 2);
}

/// What a program obeys is written only after somebody has said yes to that, whatever the project
/// approves in advance; the question names the program.
#[test]
fn what_programs_obey_is_asked_about() {
    let config = "sandbox:
  mode: direct
  zones:
    free: {path: ./free, approval: {read: preApproved, write: preApproved, delete: preApproved}}
approval:
  require_user_permission: {it: false}
";
    let gate = GrantGate::new(grant(config, ""));
    let judge = |intent: fn(SandboxPath) -> Intent, path: &str| {
        let intents = [intent(SandboxPath::parse(path).unwrap())];
        gate.judge(&GateRequest {
            tool: "it",
            risk: Risk::WritesWorkspace,
            requires_permission: false,
            needs_network: false,
            confined: true,
            intents: &intents,
        })
    };
    for row in sandbox_names::autoloaded::AUTOLOADED_FILES {
        let name = match row.name.strip_suffix('/') {
            Some(directory) => format!("{directory}/x"),
            None => row.name.replace('*', "x"),
        };
        for path in [
            format!("/free/{name}"),
            format!("/free/sub/deep/{}", name.to_uppercase()),
        ] {
            let judgement = judge(Intent::Write, &path);
            assert_eq!(judgement.verdict, Verdict::Ask, "{path}");
            let said = &judgement.reasons[0].text;
            assert!(said.contains(row.by) && said.contains(&path), "{said}");
            assert_eq!(judge(Intent::Read, &path).verdict, Verdict::Allow, "{path}");
        }
    }
    for (path, verdict) in [
        ("/free/src/main.rs", Verdict::Allow),
        ("/free/husky/x", Verdict::Allow),
        ("/free/.github/dependabot.yml", Verdict::Allow),
        // A directory that is moved there brings its workflows along.
        ("/free/.github", Verdict::Ask),
    ] {
        assert_eq!(judge(Intent::Write, path).verdict, verdict, "{path}");
    }
}
