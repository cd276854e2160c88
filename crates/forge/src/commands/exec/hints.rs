//! Hints of what a person can do about refused attempts. A hint names a setting only if the setting
//! lifts the refusal, and its commands work as they are printed.
//!
//! Entry point: [`HintContext::print`].

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use os_sandbox::{Denial, DenialReason, DeniedOperation, Network, Policy};
use sandbox_config::{NetworkAccess, Project, UNPROTECTABLE};
use sandbox_names::{HIDDEN, PROTECTED, fold, git, pattern};
use serde_json::json;

use super::denials::is_connect;
use super::proposals::RuleOffers;
use crate::output::escape::{escape_path, shell_word};
use crate::output::stderr;
use crate::setup::presets::ActivePresets;

const ALLOW_HINT: &str = "hint: allow it for yourself, in this project: forge allow --last";

/// A command with more denials gets fewer hints: most are of no use to it.
const MANY_DENIALS: usize = 5;
const MAX_HINTS: usize = 3;

const TO_CHANGE_NAME: &str = "to let it change that name";

/// The patterns that the files of the project name, beside the built-in ones.
#[derive(Default)]
pub(crate) struct OwnPatterns {
    protect: Vec<String>,
    hide: Vec<String>,
    /// The project's file, which no setting lets a command change.
    file: Option<PathBuf>,
    /// The directories that rules of the person show.
    shown: Vec<PathBuf>,
    /// Commands reach some hosts and no others.
    has_host_list: bool,
}

impl OwnPatterns {
    /// Returns those of a project, without those that its presets add.
    pub(crate) fn of(project: &Project, presets: Option<&ActivePresets>) -> OwnPatterns {
        let ceiling = project.ceiling();
        let is_of_preset = |pattern: &&String| presets.is_some_and(|one| one.protects(pattern));
        let paths = ceiling.mounts().flat_map(|mount| mount.protected_paths());
        let protect = ceiling.protect().iter().chain(paths);
        OwnPatterns {
            protect: protect.filter(|one| !is_of_preset(one)).cloned().collect(),
            hide: ceiling.hide().to_vec(),
            file: project.file().map(Path::to_owned),
            shown: project
                .personal_dirs()
                .iter()
                .map(|dir| dir.host.clone())
                .collect(),
            has_host_list: matches!(ceiling.network(), NetworkAccess::Hosts(_)),
        }
    }

    /// Replaces the project's network by that of a command, which presets and options extend.
    pub(super) fn with_network_of(self, policy: &Policy) -> OwnPatterns {
        OwnPatterns {
            has_host_list: matches!(policy.network(), Network::Hosts(_)),
            ..self
        }
    }

    /// Returns the settings that show a hidden name.
    pub(super) fn hint_to_show(&self, pattern: &str, path: &str) -> Option<String> {
        let mut settings = LiftedGuards::default();
        let is_known = settings.add_show(pattern, path, self);
        is_known.then(|| settings.describe("to show that name"))
    }

    /// Returns the settings that let a command change a name. `path`: the first name of the reasons.
    fn hint_to_change(&self, reasons: &[DenialReason], path: &str) -> Option<String> {
        if self.file.as_deref() == Some(Path::new(path)) {
            return None;
        }
        let mut settings = LiftedGuards::default();
        for reason in reasons {
            let (is_known, pattern) = match reason {
                DenialReason::Hidden(pattern) => (settings.add_show(pattern, path, self), pattern),
                DenialReason::Protected(pattern) => {
                    (settings.add_unprotect(pattern, self), pattern)
                }
                _ => return None,
            };
            // The built-in names that are hidden are protected too.
            let mut protect = of_name(&self.protect, pattern, path);
            if !(is_known && protect.all(|one| settings.add_unprotect(one, self))) {
                return None;
            }
        }
        Some(settings.describe(TO_CHANGE_NAME))
    }

    fn protects(&self, pattern: &str) -> bool {
        self.protect.iter().any(|one| one == pattern)
    }
}

/// Returns the patterns of a list for the name in a path that a pattern is about.
fn of_name<'a>(
    list: &'a [String],
    pattern: &'a str,
    path: &'a str,
) -> impl Iterator<Item = &'a str> {
    let fits = |one: &str, name: &OsStr| pattern::fits(&fold(one), name);
    let is_of_name = move |one: &&String| {
        let mut names = Path::new(path).iter();
        *one == pattern || names.any(|name| fits(pattern, name) && fits(one, name))
    };
    list.iter().filter(is_of_name).map(String::as_str)
}

/// Settings that lift the guards of names.
#[derive(Default)]
struct LiftedGuards<'a> {
    show: BTreeSet<&'a str>,
    unprotect: BTreeSet<&'a str>,
    git_mode: bool,
    /// Patterns of the project's files, with the keys.
    own: BTreeSet<(&'static str, &'a str)>,
}

impl<'a> LiftedGuards<'a> {
    /// Returns `false` if no setting shows the name.
    fn add_show(&mut self, pattern: &'a str, path: &'a str, own: &'a OwnPatterns) -> bool {
        let mut all = std::iter::once(pattern).chain(of_name(&own.hide, pattern, path));
        all.all(|pattern| {
            let is_own = own.hide.iter().any(|one| one == pattern);
            match HIDDEN.contains(&pattern) {
                true => self.show.insert(pattern),
                false => is_own && self.own.insert(("hide", pattern)),
            };
            is_own || HIDDEN.contains(&pattern)
        })
    }

    /// Returns `false` if no setting lets a command change the name.
    fn add_unprotect(&mut self, pattern: &'a str, own: &OwnPatterns) -> bool {
        if UNPROTECTABLE.contains(&pattern) {
            self.unprotect.insert(pattern);
            return true;
        }
        let of_git = pattern.strip_prefix(".git/");
        if pattern == ".git" || of_git.is_some_and(|name| git::STATE.contains(&name)) {
            self.git_mode = true;
            return true;
        }
        let is_own = !PROTECTED.contains(&pattern) && own.protects(pattern);
        if is_own {
            self.own.insert(("protect", pattern));
        }
        is_own
    }

    fn describe(&self, purpose: &str) -> String {
        let mut keys = Vec::new();
        let mut once = Vec::new();
        for (key, patterns) in [("show", &self.show), ("unprotect", &self.unprotect)] {
            if patterns.is_empty() {
                continue;
            }
            let patterns: Vec<&str> = patterns.iter().copied().collect();
            keys.push(format!("`sandbox.{key}: {patterns:?}`"));
            once.push(format!("-c 'sandbox.{key}=[{}]'", patterns.join(",")));
        }
        if self.git_mode {
            keys.push("`git.mode: commit`".to_owned());
            once.push("-c git.mode=commit".to_owned());
        }
        let own = self.own.iter();
        let own: Vec<String> = own
            .map(|(key, pattern)| format!("take {pattern:?} out of `{key}`"))
            .collect();
        let once = match own.is_empty() {
            true => format!("; for once: {}", once.join(" ")),
            // A setting for one command cannot take names out of a list of the file.
            false => String::new(),
        };
        keys.extend(own);
        format!("{purpose}: {}{once}", keys.join(", "))
    }
}

/// The rights of a command that decide which hints are true.
pub(super) struct HintContext<'a> {
    pub(super) project: &'a Project,
    pub(super) own: OwnPatterns,
    /// `--read-only`.
    pub(super) read_only: bool,
    /// `true` for a worker's command, which no rule of the person's changes.
    pub(super) is_of_worker: bool,
    /// The person's home directory.
    pub(super) home: Option<&'a Path>,
}

impl HintContext<'_> {
    /// Prints a hint for each kind of refusals.
    pub(super) fn print(&self, denials: &[&Denial]) {
        let all: Vec<Denial> = denials.iter().copied().cloned().collect();
        let rules = match self.is_of_worker {
            true => RuleOffers::default(),
            false => RuleOffers::new(&all, &[], self.project, self.home),
        };
        let mut hints: Vec<String> = Vec::new();
        let mut add = |hint: String| {
            if !hints.contains(&hint) {
                hints.push(hint);
            }
        };
        for denial in denials {
            let is_offered = rules
                .offered
                .iter()
                .any(|(_, lifts)| lifts.contains(denial));
            let why_not = rules.without.iter().find(|(one, _)| one == *denial);
            let hint = match denial.reason {
                DenialReason::ReadOnly(_) if self.read_only => {
                    Some("leave out --read-only".to_owned())
                }
                DenialReason::Outside if shared_place(&denial.object).is_some() => {
                    shared_place(&denial.object).map(str::to_owned)
                }
                DenialReason::Outside if !is_of_kernel(&denial.object) => {
                    why_not.map(|(_, why)| {
                        beside_project(denial, self.project)
                            .unwrap_or_else(|| format!("no rule allows it: {why}"))
                    })
                }
                _ if is_offered => None,
                _ => key_hint(denial, &self.own),
            };
            hint.into_iter().for_each(&mut add);
        }
        let bound = match denials.len() > MANY_DENIALS {
            true => MAX_HINTS,
            false => hints.len(),
        };
        for hint in hints.into_iter().take(bound) {
            stderr::print(format!("hint: {hint}"));
        }
        if !(rules.offered.is_empty() || self.read_only) {
            stderr::print(ALLOW_HINT);
        }
    }
}

/// Returns a hint about a place of which each command has its own where something is mounted, and that is
/// the host's under Landlock alone.
fn shared_place(object: &str) -> Option<&'static str> {
    let object = Path::new(object);
    if object.parent() == Some("/tmp".as_ref()) {
        return Some("/tmp is the host's here; the command's own temporary directory is $TMPDIR");
    }
    object.starts_with("/dev/shm").then_some(
        "shared memory and semaphores (/dev/shm) are the host's under Landlock alone; namespaces and \
         bubblewrap give a command its own: forge doctor",
    )
}

/// Returns a hint about the arguments of a command that name a descriptor of the person's shell.
pub(super) fn descriptor_hint<'a>(
    mut words: impl Iterator<Item = &'a str>,
) -> Option<&'static str> {
    let is_descriptor = |word: &str| {
        let number = ["/dev/fd/", "/proc/self/fd/"]
            .iter()
            .find_map(|dir| word.strip_prefix(dir)?.parse::<u32>().ok());
        // The standard streams are passed on.
        number.is_some_and(|number| number > 2)
    };
    words.any(is_descriptor).then_some(
        "hint: descriptors of your shell (`<(…)`) are not passed on: forge exec bash -c '…'",
    )
}

/// About a project directory that is in no mount.
pub(super) const SOME_DIRECTORIES: &str = "the project shows commands some directories below this \
     one, and not its own files: go to one of them, or show all by `sandbox: { root: . }`";

/// Returns the advice about a file in the project's own directory, if no mount shows that.
pub(super) fn advice_for_project_files(path: &Path, project: &Project) -> Option<&'static str> {
    let mut mounts = project.ceiling().mounts();
    let is_shown = mounts.any(|mount| path.starts_with(mount.host()));
    (path.parent() == Some(project.dir()) && !is_shown).then_some(SOME_DIRECTORIES)
}

/// Returns the way to a name in a directory around the project: no rule shows that directory, and one can
/// show a directory in it.
fn beside_project(denial: &Denial, project: &Project) -> Option<String> {
    let object = Path::new(&denial.object);
    let parent = object.parent()?;
    if let Some(advice) = advice_for_project_files(object, project) {
        return Some(advice.to_owned());
    }
    let mut mounts = project.ceiling().mounts();
    let is_around = mounts.any(|mount| mount.host() != parent && mount.host().starts_with(parent));
    if denial.operation != DeniedOperation::Create || !is_around {
        return None;
    }
    let allow = shell_word(&format!("write:{}", denial.object));
    if object.is_dir() {
        return Some(format!("to let it write there: forge allow {allow}"));
    }
    let make = shell_word(&denial.object);
    (!object.exists()).then(|| {
        format!(
            "no rule shows {}, which is around the project, and one can show a directory in it: mkdir \
             {make} && forge allow {allow}",
            escape_path(parent)
        )
    })
}

/// Returns `true` for devices and the kernel's own files, which are in no mount.
pub(super) fn is_of_kernel(object: &str) -> bool {
    ["/dev/", "/proc/", "/sys/"]
        .iter()
        .any(|top| object.starts_with(top))
}

/// Returns the key that would allow it. `None` if another line says it, or nothing would.
pub(crate) fn key_hint(denial: &Denial, own: &OwnPatterns) -> Option<String> {
    let is_read = matches!(
        denial.operation,
        DeniedOperation::Read | DeniedOperation::Execute
    );
    let text = match &denial.reason {
        DenialReason::ReadOnly(mount) if own.shown.iter().any(|dir| dir == Path::new(mount)) => {
            let rule = shell_word(&format!("write:{mount}"));
            format!("to let it write there: forge allow {rule}")
        }
        DenialReason::ReadOnly(mount) => {
            format!("to let it write there: make {mount} writable in the project file")
        }
        DenialReason::Hidden(pattern) if is_read => {
            return own.hint_to_show(pattern, &denial.object);
        }
        reason @ (DenialReason::Hidden(_) | DenialReason::Protected(_)) => {
            return change_hint(std::slice::from_ref(reason), &denial.object, own);
        }
        DenialReason::Holds { reasons, path } => return change_hint(reasons, path, own),
        DenialReason::Quarantine => {
            "forge moves files there that commands may not create: forge quarantine list".to_owned()
        }
        DenialReason::GitConfig(_) => {
            "to change git's configuration in that way: run that git command without forge"
                .to_owned()
        }
        // Only a network namespace keeps a list of hosts beside open sockets, and there they are not closed.
        DenialReason::LocalSocketsClosed if own.has_host_list => {
            "no setting opens local sockets beside a list of hosts under Landlock alone; namespaces and \
             bubblewrap give a command its own: forge doctor"
                .to_owned()
        }
        DenialReason::LocalSocketsClosed => {
            "a look for the name of a user tries a local socket too, and goes on without it; to let a \
             command use local sockets: for once, -c sandbox.unix_sockets=open"
                .to_owned()
        }
        DenialReason::NetworkOff if !is_connect(denial) => {
            "under Landlock alone a command has no network, not even for servers of its own; \
             namespaces give it one: forge doctor"
                .to_owned()
        }
        DenialReason::SocketNotNamed => {
            let setting = format!("sandbox.unix_sockets={}", json!([denial.object]));
            format!("to let it connect: for once, -c {}", shell_word(&setting))
        }
        _ => return None,
    };
    Some(text)
}

/// Returns the settings that let a command change a name, or advice without one.
fn change_hint(reasons: &[DenialReason], path: &str, own: &OwnPatterns) -> Option<String> {
    if let Some(hint) = own.hint_to_change(reasons, path) {
        return Some(hint);
    }
    let is_of_git = |reason: &DenialReason| matches!(reason, DenialReason::Protected(pattern) if pattern.starts_with(".git"));
    reasons.iter().any(is_of_git).then(|| {
        "no setting lets commands change files that git executes or obeys: do it without forge"
            .to_owned()
    })
}
