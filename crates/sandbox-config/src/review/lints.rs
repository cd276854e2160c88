//! Warnings: rights that are written down and never used, rules that never decide, and rules that
//! allow more than they look like.

use std::collections::BTreeSet;

use crate::grant::Grant;
use crate::grant::declaration::MountRequest;
use crate::grant::front_end::DefaultAccess;
use crate::grant::network::NetworkAccess;
use crate::grant::shell::{CommandRule, ProgramLists, RuleList};
use crate::grant::verdict::Verdict;
use crate::project::Project;
use crate::project::personal_rules::PersonalRules;
use crate::review::tree::DelegationNode;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::text::{ConfigOrigin, Layer};
use crate::worker::Worker;

pub(crate) fn rules(ceiling: &Grant, findings: &mut Vec<Diagnostic>) {
    for list in ceiling.shell().into_iter().flat_map(|rules| &rules.lists) {
        some_rules(list, 0, findings);
    }
    let personal = ceiling.shell().map_or(&[][..], |rules| &rules.personal);
    personal_rules(personal, ceiling, findings);
}

pub(crate) fn worker_rules(worker: &Worker, findings: &mut Vec<Diagnostic>) {
    if worker.instructions().trim().is_empty() {
        let message = format!("'{}' has no instructions", worker.name());
        let missing = DiagnosticCode::MissingKey.warning(message);
        let missing = missing.at_origin(worker.origin());
        findings.push(missing.help("write below the second `---` what the worker is to do"));
    }
    if let Some((Some(list), _)) = &worker.declaration().shell {
        some_rules(list, 0, findings);
    }
}

/// A network that one key gives to containers and another one does not.
pub(crate) fn container_network(ceiling: &Grant, findings: &mut Vec<Diagnostic>) {
    let execution = ceiling.execution();
    if let Some(why) = execution.network_in_containers(ceiling.network()) {
        findings.push(
            DiagnosticCode::ContainerNetwork
                .warning(why)
                .at_origin(&execution.network_origin)
                .help(
                    "a container has a network only with `network: true` and \
                     `docker: { network_default: bridge }` together",
                ),
        );
    }
}

impl PersonalRules {
    /// Returns the problems of these rules under the rules of a project: one allows running
    /// anything, or never answers because its command is blocked.
    #[must_use]
    pub fn review(&self, ceiling: &Grant) -> Vec<Diagnostic> {
        let mut findings = Vec::new();
        personal_rules(&self.rules, ceiling, &mut findings);
        for line in &self.hosts {
            let alone = NetworkAccess::hosts([line.pattern.clone()]);
            let without = match ceiling.network() {
                NetworkAccess::Unrestricted => "this project reaches every host already",
                NetworkAccess::Hosts(_) if alone.is_within(ceiling.network()) => {
                    "this project names it already"
                }
                NetworkAccess::Hosts(rules)
                    if rules
                        .denied()
                        .iter()
                        .any(|deny| line.pattern.is_within(deny)) =>
                {
                    "`network.deny` names it, so it stays denied"
                }
                NetworkAccess::Denied | NetworkAccess::Hosts(_) => continue,
            };
            let message = format!("`host:{}` has no effect: {without}", line.pattern);
            findings.push(
                DiagnosticCode::NoEffect
                    .warning(message)
                    .at_origin(&line.origin),
            );
        }
        findings
    }
}

/// Looks at the user's rules for a project, beside the project's blocks.
pub(crate) fn personal_rules(own: &[CommandRule], ceiling: &Grant, findings: &mut Vec<Diagnostic>) {
    let lists = ceiling.shell().into_iter().flat_map(|rules| &rules.lists);
    let lists: Vec<&RuleList> = lists.collect();
    let rules = lists.iter().flat_map(|list| list.rules.iter());
    let blocked: Vec<&CommandRule> = rules
        .filter(|rule| rule.verdict == Verdict::Block)
        .collect();
    let (without_effect, own): (Vec<&CommandRule>, Vec<&CommandRule>) =
        own.iter().partition(|rule| is_never_asked(&lists, rule));
    for rule in without_effect {
        let message = format!(
            "`{}` has no effect: the project blocks every command that its own rules do not name",
            rule.pattern
        );
        findings.push(
            Diagnostic::warning(DiagnosticCode::NoEffect, message)
                .at_origin(&rule.origin)
                .help("your rules answer what the project asks about: only `shell.rules` of its file can allow more"),
        );
    }
    let list = RuleList {
        rules: blocked.iter().copied().chain(own).cloned().collect(),
        default: None,
        programs: ProgramLists::default(),
        origin: ConfigOrigin::built_in(),
    };
    some_rules(&list, blocked.len(), findings);
}

/// `true` if a list of the project blocks commands that its rules do not name, and asks about nothing that
/// this rule could answer.
fn is_never_asked(lists: &[&RuleList], rule: &CommandRule) -> bool {
    let asks = |list: &RuleList| {
        let mut rules = list.rules.iter();
        rules.any(|other| other.verdict == Verdict::Ask && other.can_meet(rule))
    };
    let mut blocking = lists
        .iter()
        .filter(|list| list.default == Some(Verdict::Block));
    blocking.any(|list| !asks(list))
}

/// Looks at the rules from this one on.
fn some_rules(list: &RuleList, from: usize, findings: &mut Vec<Diagnostic>) {
    for (index, rule) in list.rules.iter().enumerate().skip(from) {
        if let Some(over) = decides_before(list, index, rule) {
            // Two rules that read alike, or are in two files, are told apart by their locations.
            let is_elsewhere = over.origin.name() != rule.origin.name();
            let place = match is_elsewhere || over.pattern == rule.pattern {
                true => format!(" ({})", over.origin),
                false => String::new(),
            };
            let message = format!(
                "`{}` never decides: `{}`{place} always does",
                rule.pattern, over.pattern
            );
            let help = match over.verdict {
                Verdict::Block => "a blocked rule wins wherever it stands: remove one of them",
                Verdict::Allow | Verdict::Ask => {
                    "the first match counts: put the narrower one first"
                }
            };
            let finding = DiagnosticCode::Shadowed
                .warning(message)
                .at_origin(&rule.origin);
            findings.push(finding.related_to(&over.origin, "this rule").help(help));
        }
        if rule.verdict == Verdict::Allow
            && let Some((program, how)) = runs_anything(list, index, rule)
        {
            let message = format!("`{}` runs unasked, and {program} {how}", rule.pattern);
            findings.push(
                DiagnosticCode::RunsAnything.warning(message)
                    .at_origin(&rule.origin)
                    .help(
                        "name what it may do, as in `git (log|status) *`, block the options that do \
                         it, as in `find * (-exec|-delete) *`, or write `approval: ask`",
                    ),
            );
        }
    }
}

/// The rule that answers whenever `rule` matches.
fn decides_before<'l>(
    list: &'l RuleList,
    index: usize,
    rule: &CommandRule,
) -> Option<&'l CommandRule> {
    let blocks = |other: &CommandRule| other.verdict == Verdict::Block;
    list.rules
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != index)
        .filter(|(at, other)| match (blocks(rule), blocks(other)) {
            // Of equals the first counts; a blocked rule counts at any position.
            (true, true) | (false, false) => *at < index,
            (false, true) => true,
            (true, false) => false,
        })
        .map(|(_, other)| other)
        .find(|other| other.covers(rule))
}

pub(crate) fn workers(project: &Project, workers: &[Worker], findings: &mut Vec<Diagnostic>) {
    let entry = workers
        .iter()
        .find(|worker| worker.name() == project.entry());
    let named = entry.map(|entry| named_below(entry, workers));
    for worker in workers {
        let name = worker.name();
        let is_entry = name == project.entry();
        let inherits = match (project.ceiling().undeclared, &worker.declaration().mounts) {
            (DefaultAccess::Inherit, MountRequest::Undeclared) => !is_entry,
            (DefaultAccess::Inherit | DefaultAccess::Nothing, _) => false,
        };
        if inherits && project.ceiling().mounts().next().is_some() {
            let message = format!("'{name}' declares no sandbox and inherits all of it");
            findings.push(
                DiagnosticCode::ImplicitInherit
                    .warning(message)
                    .at_origin(worker.origin())
                    .help("write `sandbox: inherit` to say so, or `sandbox: none`."),
            );
        }
        if named.as_ref().is_some_and(|named| !named.contains(name)) {
            let message = format!("no worker calls '{name}'");
            findings.push(
                DiagnosticCode::Unreachable
                    .warning(message)
                    .at_origin(worker.origin())
                    .help(format!(
                        "it runs only by `forge run {name}`: name it in the `workers` of its caller"
                    )),
            );
        }
    }
}

/// Returns a worker and all that it names as its own, and so on. A refused call names its worker as
/// well: the refusal is reported by itself.
fn named_below<'w>(entry: &'w Worker, workers: &'w [Worker]) -> BTreeSet<&'w str> {
    let mut named = BTreeSet::from([entry.name()]);
    let mut left = vec![entry];
    while let Some(caller) = left.pop() {
        let called = workers
            .iter()
            .filter(|other| caller.delegates().allows(other.name()));
        left.extend(called.filter(|other| named.insert(other.name())));
    }
    named
}

/// An entry worker that the project names and that does not exist. The person's own file names one
/// for all projects, and a project does not need the default one.
pub(crate) fn entry(project: &Project, workers: &[Worker], findings: &mut Vec<Diagnostic>) {
    let name = project.entry();
    let named = project
        .origin("entry")
        .filter(|origin| match origin.layer() {
            Layer::Default | Layer::User => false,
            Layer::Project | Layer::Environment | Layer::CommandLine => true,
        });
    if let Some(origin) = named.filter(|_| workers.iter().all(|worker| worker.name() != name)) {
        let names: Vec<&str> = workers.iter().map(Worker::name).take(20).collect();
        let help = match names.as_slice() {
            [] => format!("`forge worker new {name}` writes one"),
            names => format!("workers are: {}", names.join(", ")),
        };
        let message = format!("`entry` names the unknown worker `{name}`");
        let unknown = DiagnosticCode::UnknownWorker.error(message).help(help);
        let unknown = unknown.suggest(name, workers.iter().map(Worker::name));
        findings.push(unknown.at_origin(origin));
    }
}

/// A mount that is declared and that no worker can use.
pub(crate) fn unused_mounts(
    ceiling: &Grant,
    tree: &[DelegationNode],
    findings: &mut Vec<Diagnostic>,
) {
    let mut used = BTreeSet::new();
    let mut left: Vec<&DelegationNode> = tree.iter().collect();
    while let Some(branch) = left.pop() {
        // A worker that may call every worker may pass on all its rights.
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
                DiagnosticCode::UnusedMount
                    .warning(message)
                    .at_origin(mount.origin())
                    .help("remove it, or declare it in the worker that needs it"),
            );
        }
    }
}

/// Where a rule has to be free for its program to run anything.
enum FreePosition {
    /// In the words right behind the program, or behind one of [`CODE_FLAGS`].
    Operand,
    /// Anywhere: options do it at any position.
    Option(&'static [&'static str]),
    /// Behind one of these subcommands.
    Behind(&'static [&'static str]),
}

/// Programs that run other programs or change files beside their purpose: names, the position where
/// a rule has to be free for it, and by which option.
#[rustfmt::skip]
const RUNNERS: &[(&[&str], FreePosition, &str)] = &[
    (&["sh", "bash", "dash", "zsh", "fish", "ksh", "busybox", "toybox"],
        FreePosition::Operand, "runs any program by its script"),
    (&[
        "python", "python3", "node", "deno", "bun", "perl", "ruby", "php", "lua", "Rscript",
        "osascript", "tclsh", "expect", "awk", "gawk", "mawk", "nawk", "m4", "gdb", "sqlite3",
        "psql", "mysql", "jshell", "ghci",
    ],
        FreePosition::Operand, "runs any program from code given to it"),
    (&["awk", "gawk", "mawk", "nawk", "gdb", "sqlite3", "psql", "mysql", "m4"],
        FreePosition::Option(&["-f", "-e", "-x", "-c", "-cmd"]),
        "runs any program from code given to it"),
    (&["sed", "gsed"],
        FreePosition::Option(&["-e", "-f", "-i"]),
        "runs any program by its command `e`, and writes files by `w` and `-i`"),
    (&[
        "env", "xargs", "nohup", "nice", "ionice", "time", "timeout", "setsid", "stdbuf",
        "parallel", "watch", "exec", "command", "builtin", "eval", "trap", "source", ".", "strace",
        "ltrace", "gdbserver", "valgrind", "perf", "script", "flock", "chroot", "unshare",
        "nsenter", "setpriv", "prlimit", "taskset", "chrt", "unbuffer", "entr", "hyperfine",
        "faketime", "start-stop-daemon", "systemd-run", "ssh-agent", "dbus-run-session", "fakeroot",
        "setarch", "choom", "socat", "nc", "ncat", "tmux", "screen", "at", "batch", "crontab",
    ],
        FreePosition::Operand, "runs any program that it is given"),
    (&["sudo", "doas", "su", "pkexec", "runuser"],
        FreePosition::Operand, "runs any program as another user"),
    (&["git"],
        FreePosition::Operand, "runs any program by its aliases, hooks and `-c` settings"),
    (&["git"],
        FreePosition::Behind(&[
            "archive", "bisect", "clone", "config", "daemon", "difftool", "fetch", "filter-branch",
            "grep", "ls-remote", "mergetool", "pull", "push", "rebase", "send-email", "submodule",
            "-c",
        ]), "runs any program by options of this subcommand"),
    (&["find", "gfind"],
        FreePosition::Option(&[
            "-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0",
            "-fprintf",
        ]), "runs any program by `-exec`, and deletes by `-delete`"),
    (&["fd", "fdfind"],
        FreePosition::Option(&["--exec", "-x", "-X"]), "runs any program by `--exec`"),
    (&["tar", "gtar", "bsdtar"],
        FreePosition::Option(&["--to-command", "-I"]),
        "runs any program by `--to-command`, `-I` and `--checkpoint-action`"),
    (&["rsync"],
        FreePosition::Option(&["-e", "--rsh"]), "runs any program by `-e`"),
    (&["rg"],
        FreePosition::Option(&["--pre"]), "runs any program by `--pre`"),
    (&["sort", "gsort"],
        FreePosition::Option(&["--compress-program"]),
        "runs any program by `--compress-program`, and writes files by `-o`"),
    (&["split"],
        FreePosition::Option(&["--filter"]), "runs any program by `--filter`"),
    (&["zip", "7z", "cpio", "pax"],
        FreePosition::Option(&["-TT"]), "runs any program by its options"),
    (&["sdiff", "diff3", "bat", "batcat", "delta", "fzf"],
        FreePosition::Option(&["--pager"]), "runs any program by its options"),
    (&[
        "vi", "vim", "nvim", "view", "ex", "ed", "emacs", "nano", "less", "more", "most", "man",
        "info", "top", "gpg", "mutt", "ftp", "sftp", "lynx", "w3m",
    ],
        FreePosition::Option(&["-c"]), "runs any program that is typed or given into it"),
    (&["ssh", "scp", "docker", "podman", "kubectl", "nerdctl", "lxc", "machinectl"],
        FreePosition::Operand, "runs any program elsewhere"),
    (&[
        "make", "gmake", "ninja", "cmake", "meson", "bazel", "just", "npm", "npx", "pnpm", "yarn",
        "cargo", "go", "uv", "uvx", "pip", "pip3", "pipx", "poetry", "gem", "bundle", "rake",
        "composer", "mvn", "gradle", "dotnet", "swift", "tox", "nox", "pre-commit",
    ],
        FreePosition::Operand, "runs any program that the files here name"),
];

/// Flags after which an interpreter takes code.
const CODE_FLAGS: [&str; 7] = ["-c", "-e", "-E", "-lc", "--eval", "-p", "-m"];

/// Returns the program that a rule lets run anything, and how, unless another rule of the list
/// stops every way to it.
fn runs_anything<'r>(
    list: &RuleList,
    index: usize,
    rule: &'r CommandRule,
) -> Option<(&'r str, &'static str)> {
    let pattern = &rule.pattern;
    let any = Some(("it", "is any program"));
    let first = match pattern.word(0) {
        Some(words) if !words.is_empty() => words,
        Some(_) | None => return any,
    };
    // A word that the rule leaves free, or the rest.
    let free_from = |start: usize| {
        let words = (start..).map_while(|at| pattern.word(at));
        pattern.is_open() || words.into_iter().any(|words| words.is_empty())
    };
    let stopped = |program: &str, option: &str| {
        let commands = [vec![program, option], vec![program, "x", option, "x"]];
        commands.iter().all(|command| {
            let words: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            let decides = |(at, other): (usize, &CommandRule)| {
                let before = other.verdict == Verdict::Block || at < index;
                before && other.verdict != Verdict::Allow && other.matches(&words)
            };
            list.rules.iter().enumerate().any(decides)
        })
    };
    first.into_iter().find_map(|program| {
        let base = program.rsplit('/').next().unwrap_or(program);
        RUNNERS.iter().find_map(|(names, free, how)| {
            let free = names.contains(&base)
                && match free {
                    FreePosition::Operand => match pattern.word(1) {
                        None => pattern.is_open(),
                        Some(words) => {
                            let code = words.iter().any(|word| CODE_FLAGS.contains(word));
                            let rest_is_free = match pattern.word(2) {
                                None => pattern.is_open(),
                                Some(third) => third.is_empty(),
                            };
                            words.is_empty() || (code && rest_is_free)
                        }
                    },
                    FreePosition::Option(options) => {
                        free_from(1) && !options.iter().all(|option| stopped(program, option))
                    }
                    FreePosition::Behind(commands) => {
                        let named = pattern.word(1).unwrap_or_default();
                        named.iter().any(|word| commands.contains(word)) && free_from(2)
                    }
                };
            free.then_some((program, *how))
        })
    })
}
