//! The sections of a project file besides its mounts: approval, shell, limits, network.

use std::collections::BTreeMap;

use sandbox_names::loader_variables::is_loader_variable;

use crate::grant::EnvironmentGrant;
use crate::grant::limits::{LIMITS, RunLimits};
use crate::grant::shell::{
    CommandPattern, CommandRule, ProgramLists, RuleList, ShellRules, example_words,
};
use crate::grant::verdict::{
    ApprovalMode, ApprovalPolicy, ApprovalRequirement, Risk, Verdict, asked, risk_key, tool_key,
};
use crate::keys;
use crate::loading::load_context::LoadContext;
use crate::loading::trust_rules;
use crate::loading::worker_names::{CALL, Delegates, is_name};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, nearest};
use crate::syntax::fields::{self, MappingFields, Reports};
use crate::syntax::text::{Layer, SourceLocation, Span};
use crate::syntax::word::ConfigWord;
use crate::syntax::yaml::{YamlEntry, YamlNode, YamlValue, written_value};

/// Reads `limits` over the given defaults.
pub(crate) fn limits(
    reports: &mut Reports,
    entry: Option<&YamlEntry>,
    base: RunLimits,
) -> RunLimits {
    let mut limits = base;
    let Some(section) =
        entry.and_then(|entry| MappingFields::open(reports, &entry.node, "limits", &LIMITS))
    else {
        return limits;
    };
    limits.read(reports, &section);
    limits
}

pub(crate) const APPROVAL_MODES: [(&str, ApprovalMode); 8] = [
    ("tool", ApprovalMode::Tool),
    ("manual", ApprovalMode::Manual),
    ("auto", ApprovalMode::Auto),
    ("deny", ApprovalMode::Deny),
    ("interactive", ApprovalMode::Tool),
    ("approve_all", ApprovalMode::Auto),
    ("auto_deny", ApprovalMode::Deny),
    ("reject_all", ApprovalMode::Deny),
];

/// `approval`.
pub(crate) fn approval(context: &mut LoadContext<'_>, entry: Option<&YamlEntry>) -> ApprovalPolicy {
    let mut approval = ApprovalPolicy::default();
    let Some(section) =
        entry.and_then(|entry| context.open(&entry.node, "approval", &keys::APPROVAL))
    else {
        return approval;
    };
    approval_mode(context, &section, &mut approval);
    if let Some(seconds) = section.count(&mut context.reports, "timeout_s") {
        approval.timeout_s = seconds;
    }
    requirements(context, &section, &mut approval, |context, requirement| {
        let StatedVerdict {
            entry,
            risk,
            verdict,
        } = requirement;
        let key = match risk {
            Some(risk) => risk_key(risk),
            None => {
                check_tool_or_worker(context, entry);
                tool_key(&entry.key)
            }
        };
        // A call that is unasked by default needs no yes.
        let is_unasked = risk.is_some_and(|risk| risk.safe_default() == Verdict::Allow);
        let rule = &trust_rules::UNASKED;
        let mut agreed = || context.agreed(rule, &key, "false", &entry.node.span);
        verdict > Verdict::Allow || is_unasked || agreed()
    });
    approval
}

/// A verdict about a tool, or about a risk.
#[derive(Clone, Copy)]
struct StatedVerdict<'n> {
    entry: &'n YamlEntry,
    risk: Option<Risk>,
    verdict: Verdict,
}

/// Adds the verdicts about tools and about risks that `counts` accepts.
fn requirements<'n>(
    context: &mut LoadContext<'_>,
    section: &MappingFields<'n>,
    approval: &mut ApprovalPolicy,
    counts: impl Fn(&mut LoadContext<'_>, StatedVerdict<'n>) -> bool,
) {
    for (entry, verdict) in verdicts(context, section, "require_user_permission") {
        let risk = None;
        if counts(
            context,
            StatedVerdict {
                entry,
                risk,
                verdict,
            },
        ) {
            let requirement = ApprovalRequirement::at(verdict, &entry.key_span);
            approval.by_tool.insert(entry.key.clone(), requirement);
        }
    }
    for (entry, verdict) in verdicts(context, section, "require_user_permission_by_risk") {
        let risk = risk(&mut context.reports, entry);
        if let Some(of_it) = risk
            && counts(
                context,
                StatedVerdict {
                    entry,
                    risk,
                    verdict,
                },
            )
        {
            let requirement = ApprovalRequirement::at(verdict, &entry.key_span);
            approval.by_risk.insert(of_it, requirement);
        }
    }
}

fn approval_mode(
    context: &mut LoadContext<'_>,
    section: &MappingFields<'_>,
    approval: &mut ApprovalPolicy,
) {
    if let Some(mode) = section.word(&mut context.reports, "mode", &APPROVAL_MODES) {
        let at = section.span_of("mode");
        if let Some(word) = section.string(&mut context.reports, "mode")
            && word != mode.to_string()
        {
            let message = format!("`{word}` is read as `{mode}`");
            context.report(DiagnosticCode::Alias.warning(message).at(at));
        }
        let agreed = mode != ApprovalMode::Auto
            || context.agreed_key(&trust_rules::MODE_AUTO, section, "mode", "auto");
        approval.mode = if agreed { mode } else { ApprovalMode::Tool };
        approval.mode_at = SourceLocation::at(at);
    }
}

/// Notes a name that is not a tool's: a worker of the project has to have it. The user file is
/// about workers of other projects as well, so there only a typo of a tool is refused.
fn check_tool_or_worker(context: &mut LoadContext<'_>, entry: &YamlEntry) {
    let name = entry.key.as_str();
    let Some(known) = context.sources.known_tools.as_deref() else {
        return;
    };
    let unknown = unknown_tool(known, name).filter(|_| name != CALL);
    let Some(unknown) = unknown else { return };
    let is_typo = || nearest(name, known.iter().map(String::as_str)).is_some();
    let is_of_user = entry.key_span.layer() == Layer::User;
    if !is_name(name) || is_of_user && is_typo() {
        context.report(unknown.at(&entry.key_span));
    } else if !is_of_user {
        let named = (name.to_owned(), entry.key_span.clone());
        context.named_workers.push(named);
    }
}

/// `approval` of a worker: it can only add questions, so nothing needs a yes. It names tools, and
/// workers that it may call.
pub(crate) fn worker_approval(
    context: &mut LoadContext<'_>,
    entry: &YamlEntry,
    delegates: &Delegates,
) -> Option<ApprovalPolicy> {
    let table = &keys::WORKER_APPROVAL;
    let section = context.open(&entry.node, "approval", table)?;
    let mut approval = ApprovalPolicy::default();
    let modes = [
        ("tool", ApprovalMode::Tool),
        ("manual", ApprovalMode::Manual),
        ("deny", ApprovalMode::Deny),
    ];
    if let Some(mode) = section.word(&mut context.reports, "mode", &modes) {
        approval.mode = mode;
        approval.mode_at = SourceLocation::at(section.span_of("mode"));
    }
    requirements(context, &section, &mut approval, |context, requirement| {
        let StatedVerdict {
            entry,
            risk,
            verdict,
        } = requirement;
        if risk.is_none() && entry.key != CALL && !delegates.allows(&entry.key) {
            let known = context.sources.known_tools.as_deref();
            let called: Vec<&str> = match delegates {
                Delegates::None | Delegates::All => Vec::new(),
                Delegates::Listed(names) => names.iter().map(String::as_str).collect(),
            };
            let unknown = known.map(|known| unknown_tool_or_worker(known, &called, &entry.key));
            if let Some(problem) = unknown.flatten() {
                context.report(problem.at(&entry.key_span));
            }
        }
        only_more(context, entry, verdict)
    });
    Some(approval)
}

fn only_more(context: &mut LoadContext<'_>, entry: &YamlEntry, verdict: Verdict) -> bool {
    let stricter = verdict > Verdict::Allow;
    if !stricter {
        let said = match &entry.node.value {
            YamlValue::Str(word) => word,
            _ => "false",
        };
        let message = format!("`{}: {said}`: a worker can only ask for more", entry.key);
        let mistake = DiagnosticCode::BadValue.at(&entry.node.span, message);
        context.report(
            mistake.help("remove it: what is not asked about is for the project file to say"),
        );
    }
    stricter
}

fn risk(reports: &mut Reports, entry: &YamlEntry) -> Option<Risk> {
    let found = Risk::WORDS.iter().find(|(word, _)| *word == entry.key);
    if let Some((_, risk)) = found {
        return Some(*risk);
    }
    let unknown = DiagnosticCode::UnknownKey
        .at(&entry.key_span, format!("unknown risk `{}`", entry.key))
        .label(format!("risks are: {}", Risk::NAMES.join(", ")));
    reports.refuse(unknown.suggest(&entry.key, Risk::NAMES.iter().copied()))
}

/// Returns the entries of a mapping to whether a person is asked, or to a verdict.
fn verdicts<'n>(
    context: &mut LoadContext<'_>,
    section: &MappingFields<'n>,
    key: &'static str,
) -> Vec<(&'n YamlEntry, Verdict)> {
    let Some(entry) = section.get(key) else {
        return Vec::new();
    };
    let path = section.dotted(key);
    let entries =
        fields::free_mapping(&mut context.reports, &entry.node, &path).unwrap_or_default();
    entries
        .into_iter()
        .filter_map(|entry| {
            let path = fields::join(&path, &entry.key);
            let verdict = approval_verdict(&mut context.reports, &entry.node, &path)?;
            Some((entry, verdict))
        })
        .collect()
}

/// Returns the verdict of a rule about a tool or a risk.
pub(crate) fn approval_verdict(
    reports: &mut Reports,
    node: &YamlNode,
    path: &str,
) -> Option<Verdict> {
    match &node.value {
        YamlValue::Str(word) if fields::old_boolean(word).is_none() => {
            fields::word(reports, node, path, Verdict::WORDS)
        }
        _ => fields::boolean(reports, node, path).map(asked),
    }
}

pub(crate) fn unknown_tool(known: &[String], name: &str) -> Option<Diagnostic> {
    if known.iter().any(|tool| tool == name) {
        return None;
    }
    let unknown = DiagnosticCode::BadValue.error(format!("unknown tool `{name}`"));
    let unknown = unknown.help(format!("tools are: {}", known.join(", ")));
    Some(unknown.suggest(name, known.iter().map(String::as_str)))
}

/// As [`unknown_tool`], where workers can be named as well.
pub(crate) fn unknown_tool_or_worker(
    known: &[String],
    workers: &[&str],
    name: &str,
) -> Option<Diagnostic> {
    if known.iter().any(|tool| tool == name) || workers.contains(&name) {
        return None;
    }
    let message = format!("unknown tool or worker `{name}`");
    let unknown = Diagnostic::error(DiagnosticCode::BadValue, message);
    const SHOWN: usize = 20;
    let workers_are = match workers {
        [] => "there are no workers".to_owned(),
        _ => {
            let more = if workers.len() > SHOWN { ", …" } else { "" };
            let shown = &workers[..workers.len().min(SHOWN)];
            format!("workers are: {}{more}", shown.join(", "))
        }
    };
    let all = known
        .iter()
        .map(String::as_str)
        .chain(workers.iter().copied());
    let help = format!("{workers_are}; tools are: {}", known.join(", "));
    Some(unknown.help(help).suggest(name, all))
}

/// `shell` of a project: rules if it configures any, and the environment.
pub(crate) fn shell(
    context: &mut LoadContext<'_>,
    entry: Option<&YamlEntry>,
) -> (Option<ShellRules>, EnvironmentGrant) {
    let Some((entry, section)) = entry.and_then(|entry| {
        let section = context.open(&entry.node, "shell", &keys::SHELL)?;
        Some((entry, section))
    }) else {
        return (None, EnvironmentGrant::default());
    };
    let (mut rules, default) = rules(&mut context.reports, &section);
    let programs = programs(&mut context.reports, &section);
    let consent = section.get("rules").is_some() || section.get("default").is_some();
    let configured = consent || programs.allow.is_some();
    // A list of programs alone decides that a program may run, not that it may run unasked.
    let unstated = if consent {
        Verdict::Block
    } else {
        Verdict::Ask
    };
    // A pre-approved command runs a program without asking: exec risk, so a file that came with a
    // repository needs a yes, rule by rule. Without it the rule asks.
    let stated: Vec<(CommandRule, &YamlNode)> = rules.clone();
    for (index, (rule, node)) in rules.iter_mut().enumerate() {
        if rule.verdict == Verdict::Allow {
            let around = command_context(&section, &stated, index);
            let key = format!("shell.rules[{}].approval", rule.pattern);
            let value = "preApproved";
            if !context.agreed_with(&trust_rules::COMMAND, &key, value, &around, &node.span) {
                rule.verdict = Verdict::Ask;
            }
        }
    }
    let rules = configured.then(|| ShellRules {
        lists: vec![RuleList {
            rules: rules.into_iter().map(|(rule, _)| rule).collect(),
            default: Some(default.unwrap_or(unstated)),
            programs,
            origin: entry.key_span.origin(),
        }],
        personal: std::sync::Arc::default(),
    });
    (rules, environment(context, &section))
}

/// Returns the other settings that decide the effect of a pre-approved command, as the project's
/// file spells them: the rules that come before it, the ones that block at any position, the
/// default, the programs, and the variables that programs start with. Nothing from the user.
fn command_context(
    section: &MappingFields<'_>,
    rules: &[(CommandRule, &YamlNode)],
    own: usize,
) -> String {
    let rules: Vec<(&str, String)> = rules
        .iter()
        .enumerate()
        .filter(|(index, (rule, node))| {
            let decides = *index < own || rule.verdict == Verdict::Block;
            decides && node.span.layer() == Layer::Project
        })
        .map(|(_, (rule, _))| (rule.pattern.text(), rule.verdict.to_string()))
        .collect();
    let key = |key| {
        section
            .get(key)
            .and_then(|entry| written_value(&entry.node))
    };
    let rest = ["default", "allow", "deny", "env", "session"].map(key);
    serde_json::json!([rules, rest]).to_string()
}

/// `shell` of a worker: its rules and default can only tighten, so nothing needs a yes.
pub(crate) fn worker_shell(reports: &mut Reports, entry: &YamlEntry) -> Option<RuleList> {
    if let YamlValue::Null = entry.node.value {
        return reports.refuse(
            fields::wrong_type(&entry.node, "shell", "a mapping")
                .help("write `shell: {}` for the shell under the project's rules"),
        );
    }
    let section = MappingFields::open(reports, &entry.node, "shell", &keys::WORKER_SHELL)?;
    let (rules, default) = rules(reports, &section);
    Some(RuleList {
        programs: programs(reports, &section),
        rules: rules.into_iter().map(|(rule, _)| rule).collect(),
        default,
        origin: entry.key_span.origin(),
    })
}

/// `allow` and `deny`: programs, not commands.
fn programs(reports: &mut Reports, section: &MappingFields<'_>) -> ProgramLists {
    let mut read = |key: &'static str| {
        let list = section.strings(reports, key)?;
        let mut names = Vec::new();
        for (text, node) in list {
            let parts: Vec<&str> = text.split('/').collect();
            let name = !text.contains('/') && !text.is_empty();
            let path = text.starts_with('/')
                && parts[1..]
                    .iter()
                    .all(|part| !part.is_empty() && *part != "." && *part != "..");
            let words = text.contains(|c: char| c.is_whitespace() || c.is_control());
            // A word that sets a variable is not a program, and no command would ever match it.
            let sets = text.contains('=');
            if (name || path) && !words && !sets {
                names.push(text.to_owned());
                continue;
            }
            let message = format!("`{text}` is not a program");
            let bad = DiagnosticCode::BadValue.at(&node.span, message);
            reports.add(bad.help(if words {
                "a program stands alone; commands with arguments are `shell.rules`"
            } else if sets {
                "a program stands alone; variables are `shell.env.set`"
            } else {
                "write a name (`git`) or an absolute path (`/usr/bin/git`)"
            }));
        }
        Some(names)
    };
    let at = |key| {
        let entry = section.get(key);
        entry.map_or_else(SourceLocation::default, |entry| {
            SourceLocation::at(&entry.key_span)
        })
    };
    ProgramLists {
        allow: read("allow"),
        deny: read("deny").unwrap_or_default(),
        allow_at: at("allow"),
        deny_at: at("deny"),
    }
}

/// Every command is compared with every rule.
const MAX_RULES: usize = 1_000;

/// Returns the rules, each with the node of its `approval`, and the default.
fn rules<'n>(
    reports: &mut Reports,
    section: &MappingFields<'n>,
) -> (Vec<(CommandRule, &'n YamlNode)>, Option<Verdict>) {
    const PATH: &str = "shell.rules";
    let items = section.get("rules").and_then(|entry| {
        let items = fields::list(reports, &entry.node, PATH)?;
        Some(fields::at_most(
            reports,
            &entry.node,
            PATH,
            items,
            MAX_RULES,
        ))
    });
    let items = items.unwrap_or_default().iter().enumerate();
    let rules = items.filter_map(|(index, item)| rule(reports, item, index));
    let rules = rules.collect();
    let words = [("blocked", Verdict::Block), ("ask", Verdict::Ask)];
    (rules, section.word(reports, "default", &words))
}

fn rule<'n>(
    reports: &mut Reports,
    node: &'n YamlNode,
    index: usize,
) -> Option<(CommandRule, &'n YamlNode)> {
    let path = format!("shell.rules[{index}]");
    let fields = MappingFields::open(reports, node, &path, &keys::RULE)?;
    let why = fields.string(reports, "why").map(str::to_owned);
    let verdict = fields.word(reports, "approval", Verdict::WORDS);
    let text = fields.string(reports, "pattern")?;
    let entry = fields.get("pattern")?;
    let pattern = match CommandPattern::parse(text) {
        Ok(pattern) => pattern,
        Err(problem) => {
            let message = format!("the pattern cannot be read: {problem}");
            return reports.refuse(DiagnosticCode::BadPattern.at(&entry.node.span, message));
        }
    };
    let read_for = verdict.unwrap_or(Verdict::Allow);
    check_examples(reports, &fields, &pattern, read_for, &entry.node);
    let approval = fields.get("approval")?;
    let rule = CommandRule {
        pattern,
        verdict: verdict?,
        why,
        origin: entry.node.span.origin(),
    };
    Some((rule, &approval.node))
}

fn check_examples(
    reports: &mut Reports,
    rule: &MappingFields<'_>,
    pattern: &CommandPattern,
    verdict: Verdict,
    at: &YamlNode,
) {
    let Some(examples) = rule.section(reports, "examples", &keys::EXAMPLES) else {
        return;
    };
    for (key, should_match) in [("match", true), ("no_match", false)] {
        for (example, node) in examples.strings(reports, key).unwrap_or_default() {
            let matches = match example_words(example) {
                Ok(words) => pattern.matches_in(verdict, &words),
                Err(problem) => {
                    let message = format!("the example cannot be split into words: {problem}");
                    reports.add(DiagnosticCode::ExampleFailed.at(&node.span, message));
                    continue;
                }
            };
            if matches != should_match {
                let verdict = if should_match {
                    "should match but does not"
                } else {
                    "should not match but does"
                };
                reports.add(
                    DiagnosticCode::ExampleFailed
                        .at(&node.span, format!("example `{example}` {verdict}"))
                        .note(format!(
                            "pattern at {}:{} is `{pattern}`",
                            at.span.line, at.span.column
                        )),
                );
            }
        }
    }
}

/// The variables that forge sets itself.
const OWN_VARIABLES: [&str; 3] = ["PATH", "HOME", "TMPDIR"];

fn environment(context: &mut LoadContext<'_>, shell: &MappingFields<'_>) -> EnvironmentGrant {
    let words = [("call", false), ("worker", true)];
    let mut environment = EnvironmentGrant {
        session: shell.word(&mut context.reports, "session", &words) == Some(true),
        ..EnvironmentGrant::default()
    };
    let Some(section) = shell.section(&mut context.reports, "env", &keys::ENVIRONMENT) else {
        return environment;
    };
    for (name, node) in section
        .strings(&mut context.reports, "pass")
        .unwrap_or_default()
    {
        if !variable_name(&mut context.reports, name, &node.span) {
            continue;
        }
        if is_loader_variable(name) {
            let message = format!("`{name}` makes programs run other code and is never passed on");
            let help = format!("give it a value of your own: `set: {{ {name}: … }}`");
            let refused = DiagnosticCode::BadValue.at(&node.span, message);
            context.report(refused.help(help));
            continue;
        }
        let key = format!("shell.env.pass[{name}]");
        // Every command gets it, so naming it widens nothing.
        let passed_anyway = sandbox_names::is_ambient_variable(name);
        if passed_anyway || context.agreed(&trust_rules::PASS, &key, name, &node.span) {
            environment.pass.push(name.to_owned());
        }
    }
    let set = section
        .get("set")
        .and_then(|entry| fields::free_mapping(&mut context.reports, &entry.node, "shell.env.set"));
    let mut values = BTreeMap::new();
    for entry in set.unwrap_or_default() {
        let path = format!("shell.env.set.{}", entry.key);
        let value = fields::string(&mut context.reports, &entry.node, &path);
        if let Some(value) = value
            && variable_name(&mut context.reports, &entry.key, &entry.key_span)
            && hook_agreed(context, &entry.key, value, &entry.node.span)
        {
            values.insert(entry.key.clone(), value.to_owned());
        }
    }
    environment.set = values;
    environment
}

/// Variables by which a loader or an interpreter is told to run other code: setting one changes the
/// effect of every allowed command.
fn hook_agreed(context: &mut LoadContext<'_>, name: &str, value: &str, span: &Span) -> bool {
    if !is_loader_variable(name) {
        return true;
    }
    let key = format!("shell.env.set.{name}");
    context.agreed(&trust_rules::HOOK, &key, value, span)
}

fn variable_name(reports: &mut Reports, name: &str, span: &Span) -> bool {
    let plain = name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    let problem = if !plain || name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        Some(format!("`{name}` is not a variable's name"))
    } else if OWN_VARIABLES.contains(&name) {
        Some(match name {
            "PATH" => {
                "`PATH` is set by forge itself; `sandbox.programs` adds directories".to_owned()
            }
            _ => format!("`{name}` is set by forge itself"),
        })
    } else {
        None
    };
    match problem {
        None => true,
        Some(problem) => {
            reports.add(DiagnosticCode::BadValue.at(span, problem));
            false
        }
    }
}
