//! Lines for a person at the end of a command: the limit that it met, refused attempts, and guards
//! that differ from the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;

use forge_tools::{CommandLine, describe_refused_hosts};
use os_sandbox::{
    Child, Contact, Denial, DenialReason, DeniedOperation, Enforcement, Entry, Exceeded, Network,
    Policy, Quarantined, Rank, ReportLevel,
};
use sandbox_config::Project;

use super::command_builder::report_level;
use super::hints::{HintContext, OwnPatterns, SOME_DIRECTORIES, descriptor_hint};
use super::proposals::{NoGrant, RuleOffers};
use super::{denials, session_summary};
use crate::ambient::Ambient;
use crate::cli::{ExecArgs, TraceReport};
use crate::output::escape::{escape_path, shell_word};
use crate::output::stderr;
use crate::setup::contact_patterns::{pattern, pattern_of_address};
use crate::setup::presets::ActivePresets;
use crate::setup::{parent_proxy, presets};

/// Hint about quarantined files.
pub(super) const RESTORE_HINT: &str =
    "hint: look at it, and move it back: forge quarantine restore PATH";

/// Hint about the state of a git command that stopped: it lists commands, which the person's git would
/// run.
fn unfinished_hint(state: &Quarantined) -> String {
    let path = &state.path;
    // git marks the directory of `git am` with this file, that of a rebase with another one.
    let is_am = || Some(state.now.as_ref()?.join("applying").exists());
    let go_on = match path.file_name().and_then(OsStr::to_str) {
        Some("rebase-apply") if is_am() == Some(true) => "git am --continue",
        Some("rebase-merge" | "rebase-apply") => "git rebase --continue",
        _ => "git cherry-pick --continue, or git revert --continue",
    };
    format!(
        "hint: git has stopped before it was done; bring its state back and go on without forge: \
         forge quarantine restore {} && {go_on}; or let commands keep it: -c git.mode=commit",
        escape_path(path)
    )
}

/// Names the attempt, not the cause of the failure: only the command knows that.
const UNREACHABLE: &str = "note: the command tried to reach another host, and the network is off; \
                           let it reach one by name: forge exec --host HOST";

/// As above, where hosts are named.
const UNNAMED_ADDRESS: &str = "note: the command tried to reach an address that `network.allow` \
                               does not name";

const ALLOW_HOST_HINT: &str = "hint: allow hosts of the last run: forge allow --last; or for one run: \
                               forge exec --host HOST";

/// Bound on the hints about addresses of one command.
const MAX_ADDRESS_HINTS: usize = 3;

/// Prints the limit that ended the command.
fn print_limit(child: &Child) {
    if let Some(exceeded) = child.exceeded() {
        // The exit code alone (137, or the command's own) does not say why.
        stderr::print(format!(
            "limit: the command used {}",
            describe_limit(&exceeded)
        ));
    }
}

/// A command that has ended, and its policy.
pub(super) struct CommandEnd<'a> {
    pub(super) child: &'a Child,
    pub(super) policy: &'a Policy,
    pub(super) args: &'a ExecArgs,
    pub(super) project: &'a Project,
    pub(super) presets: Option<&'a ActivePresets>,
    pub(super) program: &'a OsStr,
    /// The caller's directory.
    pub(super) here: &'a Path,
    pub(super) is_success: bool,
    /// The exit code, if the command exited by itself.
    pub(super) own_code: Option<i32>,
}

impl CommandEnd<'_> {
    /// Prints the limit that it met, and what it was refused. With `quiet` only reports that the
    /// person asked for.
    pub(super) fn print(&self, quiet: bool, ambient: &Ambient) {
        let receipt = self.child.enforcement();
        let home = ambient.home.as_deref();
        let hints = HintContext {
            project: self.project,
            own: OwnPatterns::of(self.project, self.presets).with_network_of(self.policy),
            read_only: self.args.rights.read_only,
            is_of_worker: self.args.worker.is_some(),
            home,
        };
        print_limit(self.child);
        if let Some(ended) = receipt.ended_processes.as_ref().filter(|_| !quiet) {
            stderr::print(format!("note: {ended}"));
        }
        if matches!(self.args.trace, Some(TraceReport::All | TraceReport::Full)) {
            denials::print_all(receipt, &hints);
        }
        if !quiet {
            self.print_refused(&hints);
        }
        if self.args.trace.is_some() && report_level(self.args, self.policy) == ReportLevel::Full {
            denials::print_grants(receipt, &hints);
        }
        if !(quiet || self.is_success) {
            self.print_hints(ambient);
        }
    }

    fn print_refused(&self, hints: &HintContext<'_>) {
        let receipt = self.child.enforcement();
        // An agent often exits with 0 after a refusal, without the result that it was asked for.
        if self.presets.is_some() {
            let lines = session_summary::describe_connections(receipt);
            lines.into_iter().for_each(stderr::print);
        }
        if self.presets.is_some() || !self.is_success {
            self.print_refusals(hints);
        } else if self.args.trace.is_none() {
            denials::print_unchanged(receipt, hints);
        }
        if !self.is_success {
            // A signal, a limit or the answer "no" is not a file that could not be read.
            let name = Path::new(self.program).file_name().and_then(OsStr::to_str);
            let is_answer = name.is_some_and(|name| ANSWERS_NO_BY_1.contains(&name));
            if self.own_code.is_some_and(|code| code != 1 || !is_answer) {
                let hidden = denials::describe_hidden(receipt, hints);
                hidden.into_iter().for_each(stderr::print);
                self.print_unseen(hints);
            }
            self.print_empty_start();
        }
    }

    /// Prints the files that the command line names, and that are outside of what the command sees: it
    /// says only that such a file does not exist. With the rule that shows it, if there can be one.
    fn print_unseen(&self, hints: &HintContext<'_>) {
        if hints.is_of_worker {
            return;
        }
        let receipt = self.child.enforcement();
        let is_seen = |path: &Path| {
            let mut mounts = receipt.mounts.iter();
            let mut told = receipt.denials.iter();
            mounts.any(|mount| path.starts_with(&mount.inside))
                || told.any(|denial| Path::new(&denial.object).starts_with(path))
        };
        let words = words_of(&self.args.command).filter(|word| word.contains('/'));
        let paths =
            words.filter_map(|word| Some((word, self.here.join(word).canonicalize().ok()?)));
        let unseen: BTreeMap<_, _> = paths.filter(|(_, path)| !is_seen(path)).collect();
        for (word, path) in unseen.into_iter().take(MAX_ADDRESS_HINTS) {
            let read = Denial {
                operation: DeniedOperation::Read,
                object: path.to_string_lossy().into_owned(),
                reason: DenialReason::NotShown,
                program: String::new(),
            };
            let offers = RuleOffers::new(&[read], &[], self.project, hints.home);
            let shows = match (offers.commands(self.project).pop(), offers.without.first()) {
                (Some(command), _) => format!("to show it: {command}"),
                // What the system has there is another matter.
                (None, None | Some((_, NoGrant::OfSystem))) => continue,
                (None, Some((_, why))) => format!("no rule is proposed for it: {why}"),
            };
            let word = forge_tools::escape_controls(word);
            stderr::print(format!(
                "note: {word} is outside of what the command sees; {shows}"
            ));
        }
    }

    /// Prints that the command did not see the files of the directory in which it started, if it
    /// started beside the project's directories and names one of these files.
    fn print_empty_start(&self) {
        let mut mounts = self.project.ceiling().mounts();
        let is_shown = mounts.any(|mount| self.here.starts_with(mount.host()));
        if is_shown || self.args.worker.is_some() {
            return;
        }
        let mut words = words_of(&self.args.command);
        let reads = |word: &str| {
            let program = word.rsplit('/').next().unwrap_or(word);
            let mut rows = READS_BY_NAME.iter();
            let file = rows.find(|(name, _)| *name == program);
            let exists = |name: &str| self.here.join(name).exists();
            let is_path = !matches!(word, "" | "." | "..") && !word.starts_with('/');
            is_path && exists(word) || file.is_some_and(|(_, file)| exists(file))
        };
        if words.any(reads) {
            stderr::print(format_args!("note: {SOME_DIRECTORIES}"));
        }
    }

    /// Prints the attempts of the command that were refused, and how to allow them. A report that
    /// the person asked for has been printed.
    fn print_refusals(&self, hints: &HintContext<'_>) {
        let receipt = self.child.enforcement();
        let group = |one: &Contact| self.presets.and_then(|presets| presets.off_group(one));
        let (off, others): (Vec<_>, Vec<_>) = receipt
            .contacts
            .iter()
            .cloned()
            .partition(|one| group(one).is_some());
        let off = off.iter().filter_map(|one| Some((group(one)?, one)));
        let off = session_summary::describe_off_groups(off);
        off.into_iter().for_each(stderr::print);
        print_refused_hosts(&others);
        if self.args.trace.is_none() {
            let shared = self
                .presets
                .map_or(&[][..], |presets| &presets.dirs().state);
            denials::print(receipt, self.is_success, shared, hints);
        }
        if denials::is_network_off(receipt) {
            let by_name = matches!(self.policy.network(), Network::Hosts(_));
            stderr::print(if by_name {
                UNNAMED_ADDRESS
            } else {
                UNREACHABLE
            });
        }
    }

    /// Prints possible remedies of a failure.
    fn print_hints(&self, ambient: &Ambient) {
        let hint = descriptor_hint(self.args.command.iter().filter_map(|word| word.to_str()));
        hint.into_iter().for_each(stderr::print);
        let programs = programs_of(&self.args.command).into_iter();
        let mut others = programs.filter(|name| BECOME_ANOTHER_USER.contains(&name.as_str()));
        if let Some(name) = others.next() {
            stderr::print(format!(
                "hint: {name} has no effect here: no program in the sandbox becomes another user; run \
                 that without forge"
            ));
        }
        let hint = parent_proxy::hint(self.child.enforcement(), self.policy, ambient);
        hint.into_iter().for_each(stderr::print);
        let backend = self.child.enforcement().backend;
        let is_own = matches!(self.policy.network(), Network::Denied | Network::Loopback)
            && backend.has_own_root();
        let mut words = self.args.command.iter().filter_map(|word| word.to_str());
        if is_own && let Some(server) = words.find_map(|word| host_servers(word).next()) {
            stderr::print(format!(
                "hint: a server of this host listens at {server}, and 127.0.0.1 is the command's \
                 own; to let it reach that one: forge exec --host {server}"
            ));
        }
        let advice = match self.presets {
            Some(_) => None,
            None => presets::advice(self.program, ambient),
        };
        let advice = advice.map(|told| format!("hint: {told}"));
        advice.into_iter().for_each(stderr::print);
    }
}

/// Returns the words of a command line, also those of a script in it.
fn words_of(command: &[OsString]) -> impl Iterator<Item = &str> {
    let words = command.iter().filter_map(|word| word.to_str());
    words.flat_map(|word| word.split([' ', ';', '=', '"', '\'']))
}

/// Returns the names of the programs that a command line starts, also those of a script in it.
fn programs_of(command: &[OsString]) -> Vec<String> {
    let words = command
        .iter()
        .map(|word| shell_word(&word.to_string_lossy()));
    let line = words.collect::<Vec<_>>().join(" ");
    let Ok(line) = CommandLine::parse(&line) else {
        return Vec::new();
    };
    let commands = line.segments().iter().chain(line.starts());
    let programs = commands.filter_map(|one| one.words().first());
    let name = |program: &String| program.rsplit('/').next().unwrap_or_default().to_owned();
    programs.map(name).collect()
}

/// Programs that exit with 1 to say no, and with another code if they cannot read a file.
const ANSWERS_NO_BY_1: [&str; 10] = [
    "[", "cmp", "diff", "egrep", "expr", "false", "fgrep", "grep", "rg", "test",
];

/// Programs that run others as another user: the kernel ignores their set-user-ID bits here
/// (no_new_privs, prctl(2)).
const BECOME_ANOTHER_USER: [&str; 4] = ["sudo", "doas", "pkexec", "su"];

/// Programs that read a file of their directory without being told its name.
const READS_BY_NAME: [(&str, &str); 8] = [
    ("cargo", "Cargo.toml"),
    ("git", ".git"),
    ("go", "go.mod"),
    ("make", "Makefile"),
    ("npm", "package.json"),
    ("npx", "package.json"),
    ("pnpm", "package.json"),
    ("yarn", "package.json"),
];

/// Returns the addresses of the loopback in a word at which servers of this host listen: no other
/// program can have such a port.
fn host_servers(word: &str) -> impl Iterator<Item = String> {
    let behind = |name: &'static str| word.split(name).skip(1).map(move |rest| (name, rest));
    let named = ["127.0.0.1:", "localhost:"].into_iter().flat_map(behind);
    named.filter_map(|(name, rest)| {
        let port = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        let bound = TcpListener::bind(("127.0.0.1", port.parse::<u16>().ok()?));
        let is_used = bound.is_err_and(|error| error.kind() == ErrorKind::AddrInUse);
        is_used.then(|| format!("{name}{port}"))
    })
}

/// Prints the hosts that the command was refused, and how to allow them.
pub(super) fn print_refused_hosts(contacts: &[Contact]) {
    for line in describe_refused_hosts(contacts) {
        stderr::print(line);
    }
    if contacts.iter().any(|one| pattern(one).is_some()) {
        stderr::print(ALLOW_HOST_HINT);
    }
    let addresses: BTreeSet<_> = contacts.iter().filter_map(pattern_of_address).collect();
    for (address, host) in addresses.iter().take(MAX_ADDRESS_HINTS) {
        stderr::print(format!(
            "hint: {host} leads to another network than the internet; if that is yours: forge allow \
             host:{address}"
        ));
    }
}

/// Prints the protected names that were moved to the quarantine, and with `hint` the command that
/// restores them; then those that could not be moved.
pub(super) fn print_quarantined(child: &Child, hint: bool) {
    let found = child.quarantined().iter();
    let (moved, left): (Vec<_>, Vec<_>) = found.partition(|one| one.now.is_some());
    stderr::print_few("quarantined", &moved, "forge quarantine list");
    if !moved.is_empty() && hint {
        let is_state = |name: &OsStr| sandbox_names::git::STATE.iter().any(|state| name == *state);
        let mut all = moved.iter();
        match all.find(|one| one.path.file_name().is_some_and(is_state)) {
            Some(of_git) => stderr::print(unfinished_hint(of_git)),
            None => stderr::print(RESTORE_HINT),
        }
    }
    stderr::print_few("left in place", &left, "forge log show last --json");
    match child.enforcement().more_quarantined {
        0 => {}
        more => stderr::print(format!(
            "note: {more} more protected names were found, and are in no list"
        )),
    }
}

/// Describes the limit that a command met, and its option.
pub(super) fn describe_limit(limit: &Exceeded) -> String {
    match limit {
        Exceeded::Wall(_) => format!("{limit} (--timeout)"),
        Exceeded::Cpu(_) | Exceeded::Memory(_) | Exceeded::Processes(_) | Exceeded::FileSize(_) => {
            forge_tools::describe_exceeded(limit)
        }
    }
}

/// Prints the guards with a state that differs from the plan.
pub(super) fn notes(before: &[Entry], now: &Enforcement) {
    for (before, now) in before.iter().zip(&now.promises) {
        let said = before.reason.as_deref().unwrap_or_default();
        let Some(reason) = now.reason.as_deref().filter(|reason| *reason != said) else {
            continue;
        };
        let new = reason.strip_prefix(said).unwrap_or(reason);
        let new = new.strip_prefix("; ").unwrap_or(new);
        if before.state != now.state {
            stderr::print(format!("warning: {}: {}: {new}", now.promise, now.state));
        } else if now.promise.rank() == Rank::Guard {
            stderr::print(format!("note: {}: {new}", now.promise));
        }
    }
}
