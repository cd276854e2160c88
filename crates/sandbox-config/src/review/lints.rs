//! What is odd and not wrong: rights that are written down and never used, rules that never
//! decide, and rules that allow more than they look like.

use std::collections::BTreeSet;

use crate::grant::declaration::MountWish;
use crate::grant::shell::{Pattern, Rule, RuleList};
use crate::grant::verdict::Verdict;
use crate::grant::{Grant, Undeclared};
use crate::project::Project;
use crate::review::tree::Branch;
use crate::syntax::diagnostic::{Code, Diagnostic};
use crate::worker::Worker;

pub(crate) fn rules(ceiling: &Grant, findings: &mut Vec<Diagnostic>) {
    for list in ceiling.shell().into_iter().flat_map(|rules| &rules.lists) {
        rule_list(list, findings);
    }
}

pub(crate) fn worker_rules(worker: &Worker, findings: &mut Vec<Diagnostic>) {
    if let Some((Some(list), _)) = &worker.declaration().shell {
        rule_list(list, findings);
    }
}

fn rule_list(list: &RuleList, findings: &mut Vec<Diagnostic>) {
    for (index, rule) in list.rules.iter().enumerate() {
        if let Some(over) = decides_before(list, index, rule) {
            let message = format!(
                "`{}` never decides: `{}` always does",
                rule.pattern, over.pattern
            );
            let help = match over.verdict {
                Verdict::Block => "a blocked rule wins wherever it stands: remove one of them",
                Verdict::Allow | Verdict::Ask => {
                    "the first match counts: put the narrower one first"
                }
            };
            let finding = Diagnostic::warning(Code::Shadowed, message).at_origin(&rule.origin);
            let finding = match over.origin.span() {
                Some(span) => finding.related(span, "this rule"),
                None => finding,
            };
            findings.push(finding.help(help));
        }
        if rule.verdict == Verdict::Allow
            && let Some(program) = rule.pattern.runs_anything()
        {
            let (program, how) = program;
            let message = format!("`{}` runs unasked, and {program} {how}", rule.pattern);
            findings.push(
                Diagnostic::warning(Code::RunsAnything, message)
                    .at_origin(&rule.origin)
                    .help(
                        "name what it may do, as in `git (log|status) *`, or write `approval: ask`",
                    ),
            );
        }
    }
}

/// The rule that answers whenever `rule` matches.
fn decides_before<'l>(list: &'l RuleList, index: usize, rule: &Rule) -> Option<&'l Rule> {
    let blocks = |other: &Rule| other.verdict == Verdict::Block;
    list.rules
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != index)
        .filter(|(at, other)| match (blocks(rule), blocks(other)) {
            // Of equals the first counts; a blocked rule counts wherever it stands.
            (true, true) | (false, false) => *at < index,
            (false, true) => true,
            (true, false) => false,
        })
        .map(|(_, other)| other)
        .find(|other| other.pattern.covers(&rule.pattern))
}

pub(crate) fn workers(
    project: &Project,
    workers: &[Worker],
    reached: &BTreeSet<&str>,
    findings: &mut Vec<Diagnostic>,
) {
    let has_entry = workers
        .iter()
        .any(|worker| worker.name() == project.entry());
    for worker in workers {
        let name = worker.name();
        let is_entry = name == project.entry();
        let inherits = match (project.ceiling().undeclared, &worker.declaration().mounts) {
            (Undeclared::Inherit, MountWish::Undeclared) => !is_entry,
            (Undeclared::Inherit | Undeclared::Nothing, _) => false,
        };
        if inherits && project.ceiling().mounts().next().is_some() {
            let message = format!("'{name}' declares no sandbox and inherits all of it");
            findings.push(
                Diagnostic::warning(Code::ImplicitInherit, message)
                    .at_origin(worker.origin())
                    .help("write `sandbox: inherit` to say so, or `sandbox: none`."),
            );
        }
        if has_entry && !reached.contains(name) {
            let message = format!("nobody calls '{name}'");
            findings.push(
                Diagnostic::warning(Code::Unreachable, message)
                    .at_origin(worker.origin())
                    .help(format!(
                        "it runs only by `forge run {name}`: name it in the `workers` of its caller"
                    )),
            );
        }
    }
}

/// A mount that somebody declared and no worker can use.
pub(crate) fn unused_mounts(ceiling: &Grant, tree: &[Branch], findings: &mut Vec<Diagnostic>) {
    let mut used = BTreeSet::new();
    let mut left: Vec<&Branch> = tree.iter().collect();
    while let Some(branch) = left.pop() {
        // Whoever may call everybody may pass on what it holds.
        let passes_on = branch.calls_any();
        let mounts = branch.grant().mounts();
        used.extend(
            mounts
                .filter(|mount| mount.usable() || passes_on)
                .map(|mount| mount.name()),
        );
        left.extend(branch.calls());
    }
    if tree.is_empty() {
        return;
    }
    for mount in ceiling
        .mounts()
        .filter(|mount| !used.contains(mount.name()))
    {
        if mount.origin().span().is_some() {
            let message = format!("no worker uses `{}`", mount.name());
            findings.push(
                Diagnostic::warning(Code::UnusedMount, message)
                    .at_origin(mount.origin())
                    .help("remove it, or declare it in the worker that needs it"),
            );
        }
    }
}

/// Programs that exist to run other programs, and by what.
const RUNNERS: [(&[&str], &str); 7] = [
    (
        &["sh", "bash", "dash", "zsh", "fish", "ksh", "busybox"],
        "runs any program by its script",
    ),
    (
        &[
            "python",
            "python3",
            "node",
            "deno",
            "bun",
            "perl",
            "ruby",
            "php",
            "lua",
            "Rscript",
            "osascript",
        ],
        "runs any program from code given to it",
    ),
    (
        &[
            "env", "xargs", "nohup", "nice", "time", "timeout", "setsid", "stdbuf", "parallel",
            "watch", "exec",
        ],
        "runs any program that it is given",
    ),
    (
        &["sudo", "doas", "su", "pkexec"],
        "runs any program as somebody else",
    ),
    (
        &["git"],
        "runs any program by its aliases, hooks and `-c` settings",
    ),
    (
        &["ssh", "docker", "podman", "kubectl"],
        "runs any program elsewhere",
    ),
    (
        &[
            "make", "npm", "npx", "pnpm", "yarn", "cargo", "go", "uv", "pip",
        ],
        "runs any program that the files here name",
    ),
];

/// Flags after which an interpreter takes code.
const CODE_FLAGS: [&str; 7] = ["-c", "-e", "-E", "-lc", "--eval", "-p", "-m"];

impl Pattern {
    /// The program that such a rule lets run anything, and how.
    fn runs_anything(&self) -> Option<(&str, &'static str)> {
        let first = match self.word(0) {
            None => return Some(("it", "is any program")),
            Some(words) if words.is_empty() => return Some(("it", "is any program")),
            Some(words) => words,
        };
        let (program, how) = first.iter().find_map(|word| {
            let base = word.rsplit('/').next().unwrap_or(word);
            let how = RUNNERS.iter().find(|(names, _)| names.contains(&base))?.1;
            Some((*word, how))
        })?;
        // Free from the second word on, or after a flag that takes code.
        let free = match self.word(1) {
            None => self.is_open(),
            Some(words) => {
                let code = words.iter().any(|word| CODE_FLAGS.contains(word));
                let rest_is_free = match self.word(2) {
                    None => self.is_open(),
                    Some(third) => third.is_empty(),
                };
                words.is_empty() || (code && rest_is_free)
            }
        };
        free.then_some((program, how))
    }
}
