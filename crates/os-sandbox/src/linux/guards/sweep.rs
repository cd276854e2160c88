//! Scan after the end of a process tree: protected names that did not exist before. No mechanism
//! prevents a command from creating a name in a directory that it created itself, or a name that
//! only a pattern covers. So the scan finds them before the caller gets the result, and moves them
//! to a place where no program looks for them. Everything is moved by descriptor, never through a
//! link.

use super::super::below;
use super::super::git_audit::bare;
use super::super::git_audit::fresh;
use super::super::git_audit::pointer::{Pointer, resolved};
use super::super::git_audit::repository::{self, GitDirLocation};
use super::super::host_mount::{HostMount, ObeyedPath};
use super::fingerprint::{NameFingerprint, changed, fingerprint};
use super::hold::writable;
use super::listings::ListingCache;
use super::names::{Held, ScanResult};
use super::quarantine_dir::Quarantine;
use super::quarantine_record::QuarantineRecords;
use super::running::{CommandRecord, RunningCommands, Unrecorded};
use super::saved::SavedFile;
use super::snapshot::{MountSnapshot, identity};
use super::state::PlaceholderLease;
use super::walk::{EarlierWalk, ReopenedDirs, find_new};
use crate::access::Access;
use crate::error::Error;
use crate::escape::visible;
use crate::findings::Findings;
use crate::git_config;
use crate::policy::{Git, Pattern, Policy};
use crate::promise::Promise;
use crate::quarantine::{QUARANTINE, QuarantineState, Quarantined};
use crate::single_name::separate_names;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::SFlag;
use nix::unistd::{AccessFlags, faccessat, geteuid, symlinkat};
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bound on the walks of one mount: each moves the names that it finds, after which later walks can
/// find more.
const MAX_ROUNDS: usize = 64;
/// Descriptors that a scan has at most at a time, but for directories that the command has closed.
const SCAN_DESCRIPTORS: usize = 16;

/// The rule of links in a mount whose links stay.
const LINK: &str = "a link";
/// Reason to put a file back.
const GONE: &str = "it was removed, or no file that can be read";

/// State of each mount before the start, and the scan that compares with it.
pub(crate) struct PostRunScan {
    policy: Policy,
    pub(super) mounts: Vec<HostMount>,
    pub(super) before: Vec<MountSnapshot>,
    pub(super) started: SystemTime,
    /// How the command finds the names.
    pub(super) held: Held,
    /// For each mount, fingerprints of the names that a command can change; empty if it cannot.
    loose: Vec<HashMap<PathBuf, NameFingerprint>>,
    /// Removed after a whole scan. The error is the reason for a missing one.
    record: Result<Option<CommandRecord>, Unrecorded>,
    /// The state directory; `None` without one.
    pub(super) state: Option<PathBuf>,
}

impl PostRunScan {
    /// `names` include placeholders. `None` if no protected name can appear.
    pub(crate) fn new(
        policy: &Policy,
        mounts: Vec<HostMount>,
        names: Vec<ScanResult>,
        running: RunningCommands,
        held: Option<&PlaceholderLease>,
    ) -> Result<Option<PostRunScan>, Error> {
        if !PostRunScan::is_needed(policy, &mounts) {
            return Ok(None);
        }
        let failed = |errno: Errno| Error::io("protected names cannot be compared", errno.into());
        has_descriptors(&mounts).map_err(failed)?;
        let mut scan = PostRunScan::of(policy, mounts, names);
        scan.state = running.state_dir();
        let own = held.map_or(&[][..], |held| &held.placeholders);
        scan.record = running.record(&scan.mounts, &mut scan.before, own);
        Ok(Some(scan))
    }

    /// Takes the state of the mounts for the one before the command.
    pub(super) fn of(
        policy: &Policy,
        mounts: Vec<HostMount>,
        names: Vec<ScanResult>,
    ) -> PostRunScan {
        let before = mounts
            .iter()
            .zip(names)
            .map(|(mount, names)| MountSnapshot::new(mount, names));
        PostRunScan {
            policy: policy.clone(),
            before: before.collect(),
            started: SystemTime::now(),
            mounts,
            held: Held::ByMounts,
            loose: Vec::new(),
            record: Ok(None),
            state: None,
        }
    }

    /// Returns the locked record, or the lock of starts without one. The supervisor shares it.
    pub(crate) fn lock(&self) -> Option<&File> {
        match &self.record {
            Ok(record) => record.as_ref().map(CommandRecord::lock),
            Err(unrecorded) => unrecorded.starting.as_ref(),
        }
    }

    /// Returns a remark if the command is not recorded.
    pub(crate) fn remark(&self) -> Option<(Promise, String)> {
        let why = &self.record.as_ref().err()?.why;
        let remark = format!(
            "without a record of this command for others, and for a start after a kill: {}",
            visible(why)
        );
        Some((Promise::ProtectedNames, remark))
    }

    /// Returns `true` if a protected name could appear.
    pub(crate) fn is_needed(policy: &Policy, mounts: &[HostMount]) -> bool {
        let open = |mount: &HostMount| mount.is_dir && mount.is_changed();
        policy.protects_names() && mounts.iter().any(open)
    }

    /// Records fingerprints of the names, because nothing is mounted over them; the scan compares
    /// after the end.
    pub(crate) fn of_loose_names(mut self) -> PostRunScan {
        self.held = Held::ByNothing;
        let each = self.mounts.iter().zip(&self.before);
        self.loose = each
            .map(|(mount, before)| {
                let protects = |below: &Path| {
                    let named = mount.named(below);
                    let mut patterns = mount.guards.protect.iter();
                    patterns.any(|pattern| pattern.ends(&named))
                };
                let names = before.names.iter();
                let names = names.filter(|(below, (_, hide))| !hide || protects(below));
                // Its fingerprint has the entries of a directory.
                let names = names.filter(|(below, _)| before.protected_around(below).is_none());
                let names = names.map(|(below, _)| (below.clone(), fingerprint(mount, below)));
                names.collect()
            })
            .collect();
        self
    }

    /// Scans all mounts, and moves protected names into the quarantine.
    pub(crate) fn run(mut self) -> Findings {
        let mut findings = Findings::default();
        let id = id();
        let mut befores = std::mem::take(&mut self.before);
        if let Err(errno) = has_descriptors(&self.mounts) {
            findings.fail(errno.desc());
            befores.clear();
        }
        for (index, (mount, before)) in self.mounts.iter().zip(&mut befores).enumerate() {
            if !mount.is_dir || !mount.is_changed() {
                continue;
            }
            let memory = std::mem::take(&mut before.memory);
            let loose = self.loose.get(index);
            if loose.is_none() {
                before.find_replaced(mount, &mut findings);
            }
            let mut scan = MountScan {
                scan: &self,
                mount,
                before,
                quarantine: Quarantine::new(mount, &id, self.state.as_deref()),
                judged: HashSet::new(),
                findings: &mut findings,
            };
            if let Err(reason) = scan.run(memory) {
                scan.findings.fail(&reason);
            }
            scan.restore_files();
            if let Some(loose) = loose {
                changed(mount, loose, scan.findings);
            }
        }
        findings.note_all_left();
        if findings.failed.is_some()
            && let Ok(Some(record)) = &mut self.record
        {
            record.keep();
        }
        findings
    }
}

/// Scan of one mount.
struct MountScan<'a> {
    scan: &'a PostRunScan,
    mount: &'a HostMount,
    before: &'a MountSnapshot,
    quarantine: Quarantine<'a>,
    /// Names that were judged, each once: those that stay may be there still.
    judged: HashSet<PathBuf>,
    findings: &'a mut Findings,
}

/// The pattern that a name violates, and the reason.
struct GuardViolation {
    pattern: String,
    why: String,
}

impl MountScan<'_> {
    /// Walks until everything was seen, and moves the names that cannot stay. The error is the reason
    /// of an incomplete scan.
    fn run(&mut self, mut memory: ListingCache) -> Result<(), String> {
        let mut opened = ReopenedDirs::default();
        for round in 1..=MAX_ROUNDS {
            let after = self.walk(&mut memory, &mut opened);
            let incomplete = self.gap(&after);
            let candidates = self.candidates(&after);
            let mut moved = self.judge_states(&after.states);
            moved |= self.judge_pointers(&after.pointers);
            moved |= self.judge_links(&after.plain_links);
            for (below, is_link) in &candidates {
                moved |= self.judge(below, *is_link, &after);
            }
            moved |= self.judge_within(&after.within);
            if incomplete.is_none() && !after.unsettled {
                return Ok(());
            }
            if round == MAX_ROUNDS || incomplete.is_some() && !moved {
                return Err(incomplete.unwrap_or_else(|| {
                    format!("directories in {} are moved about", self.mount.inside)
                }));
            }
            memory = after.memory;
        }
        Ok(())
    }

    fn walk(&self, memory: &mut ListingCache, opened: &mut ReopenedDirs) -> ScanResult {
        let own = Path::new(QUARANTINE).join(self.quarantine.id);
        let records = OnceCell::new();
        // Another command's scan has moved it there.
        let is_recorded = |path: &Path| {
            let read = || QuarantineRecords::of(self.scan.state.iter().cloned());
            let is_there = || {
                let records: &QuarantineRecords = records.get_or_init(read);
                let host = self.mount.host.join(path);
                records.state_of(&host) == QuarantineState::Unchanged
                    || records.has_only_recorded(&host)
            };
            path.starts_with(QUARANTINE) && path != Path::new(QUARANTINE) && is_there()
        };
        let known = |path: &Path, is_link: bool| {
            self.judged.contains(path)
                || path == own
                || self.before.knows(path, is_link)
                || is_recorded(path)
        };
        let earlier = EarlierWalk {
            known: &known,
            listings: memory,
        };
        let policy = &self.scan.policy;
        find_new(
            policy,
            self.mount,
            self.scan.held,
            Some(earlier),
            Some(opened),
        )
    }

    /// Returns the reason why a walk did not see everything.
    fn gap(&mut self, after: &ScanResult) -> Option<String> {
        let new = after.unlisted.iter();
        let new = new.filter(|one| !self.before.unlisted.contains(one));
        let (foreign, own): (Vec<_>, Vec<_>) = new.partition(|one| is_foreign(self.mount, one));
        for one in foreign {
            let shown = self.mount.shown(one);
            let note = format!("{shown} cannot be listed, and belongs to another user");
            self.findings.note(Promise::ProtectedNames, &note);
        }
        let closed = || {
            let first = own.first();
            first.map(|one| format!("{} cannot be listed", self.mount.shown(one)))
        };
        let is_cut = after.is_within_cut && !self.before.is_within_cut;
        let cut = || is_cut.then(|| "protected directories have too many new names".to_owned());
        after.incomplete.clone().or_else(closed).or_else(cut)
    }

    /// Returns the names that can be the command's, and `true` for links.
    fn candidates(&self, after: &ScanResult) -> Vec<(PathBuf, bool)> {
        let before = self.before;
        let found = after.found.iter();
        let found = found.filter(|one| !(one.unlisted && is_foreign(self.mount, &one.below)));
        let found = found.map(|found| &found.below);
        let configs = after.configs.iter();
        let configs = configs.filter(|config| !before.configs.contains(*config));
        // Links to private keys: the file that replaced one may not be a secret.
        let replaced = before.links.keys().filter(|link| {
            let name = self.mount.named(link);
            let mut patterns = self.mount.guards.protect.iter();
            patterns.any(|one| one.is_by_content() && one.ends(&name))
                && before.changed_link(self.mount, link)
        });
        let links = after.links.iter().chain(replaced).map(|link| (link, true));
        let names = found.chain(configs).map(|name| (name, false));
        let all = names.chain(links);
        all.map(|(below, is_link)| (below.clone(), is_link))
            .collect()
    }

    fn is_writable(&self, below: &Path) -> bool {
        writable(&self.scan.mounts, &self.mount.host.join(below))
    }

    /// Takes the unfinished operations that a person must not continue. Returns `true` if it took
    /// one.
    fn judge_states(&mut self, states: &[PathBuf]) -> bool {
        let mut moved = false;
        let none = HashSet::new();
        for state in states {
            let todo = self.before.todo.get(state).unwrap_or(&none);
            if self.judged.contains(state) || !self.is_writable(state) {
                continue;
            }
            if let Some(why) = repository::harm_of_state(self.mount, state, todo) {
                moved = true;
                self.judged.insert(state.clone());
                let violation = GuardViolation {
                    pattern: ".git".to_owned(),
                    why: visible(&why),
                };
                self.take(state, violation, None);
            }
        }
        moved
    }

    /// Takes the new entries of directories that were protected before, and over which nothing was
    /// mounted. Returns `true` if it took one.
    fn judge_within(&mut self, within: &[PathBuf]) -> bool {
        let before = self.before;
        let mut taken = HashSet::new();
        for below in within.iter().filter(|_| !before.is_within_cut) {
            let Some(top) = before.protected_around(below) else {
                continue;
            };
            let is_gone = below.ancestors().any(|around| taken.contains(around));
            if is_gone || !self.is_writable(below) || !self.judged.insert(below.clone()) {
                continue;
            }
            taken.insert(below.as_path());
            let violation = GuardViolation {
                pattern: pattern_of(self.mount, top),
                why: "a new name in a protected directory".to_owned(),
            };
            self.take(below, violation, None);
        }
        !taken.is_empty()
    }

    /// Takes the files and links called `.git` that lead git where nothing is judged. Returns `true`
    /// if it took one.
    fn judge_pointers(&mut self, pointers: &[Pointer]) -> bool {
        let mut moved = false;
        let (mount, before) = (self.mount, self.before);
        let found = pointers
            .iter()
            .filter_map(|pointer| Some((&pointer.below, self.harm_of_pointer(pointer)?)));
        // The file is there, and git cannot read it any more.
        let broken = before.pointers.iter().filter_map(|(below, was)| {
            let is_broken = Pointer::read(mount, below).is_none()
                && matches!(identity(mount, below), Ok(Some(_)));
            let why = || format!("it leads nowhere, and led to {}", was.target.display());
            is_broken.then(|| (below, why()))
        });
        let harmful: Vec<_> = found.chain(broken).collect();
        for (below, why) in harmful {
            if !self.is_writable(below) || !self.judged.insert(below.clone()) {
                continue;
            }
            moved = true;
            let violation = GuardViolation {
                pattern: ".git".to_owned(),
                why: visible(&why),
            };
            let was = before.pointers.get(below);
            let taken = self.take(below, violation, was.and_then(|was| was.file.as_ref()));
            if let (true, Some(text)) = (taken, was.and_then(|was| was.link.as_ref())) {
                restore(mount, below, text);
            }
        }
        moved
    }

    /// Takes links to directories where nothing is judged, if git finds a repository there: a person
    /// would obey it after a cd into one. Takes new links that lead where the command may not write, if
    /// programs outside write in the mount. Returns `true` if it took one.
    fn judge_links(&mut self, links: &[PathBuf]) -> bool {
        let mounts = self.scan.mounts.iter();
        let unjudged: Vec<&Path> = mounts
            .filter(|mount| mount.is_dir && mount.is_unguarded)
            .filter(|mount| mount.access.contains(Access::WRITE))
            .map(|mount| mount.host.as_path())
            .collect();
        let mut moved = false;
        for below in links {
            let away = self.leads_away(below).map(|why| (why, LINK));
            let found = away.or_else(|| {
                let why = leads_to_repository(&self.mount.host.join(below), &unjudged)?;
                Some((why, ".git"))
            });
            if let Some((why, pattern)) = found
                && self.is_writable(below)
                && self.judged.insert(below.clone())
            {
                let violation = GuardViolation {
                    pattern: pattern.to_owned(),
                    why: visible(&why),
                };
                let taken = self.take(below, violation, None);
                if let (true, Some(text)) = (taken, self.before.links.get(below)) {
                    restore(self.mount, below, text);
                }
                moved |= taken;
            }
        }
        moved
    }

    /// Returns the reason why a new link of a mount whose links stay cannot stay.
    fn leads_away(&self, below: &Path) -> Option<String> {
        let mount = self.mount;
        if !mount.guards.links_stay || !self.before.changed_link(mount, below) {
            return None;
        }
        let target = resolved(&mount.host.join(below), 0);
        let guards = &mount.guards;
        let is_guarded = |inner: &Path| {
            let mut patterns = guards.protect.iter().chain(&guards.hide);
            patterns.any(|pattern| pattern.covers(inner))
                || (inner.ancestors()).any(|one| self.before.names.contains_key(one))
        };
        let to = target.display();
        match target.strip_prefix(&mount.host) {
            Err(_) => Some(format!("it leads to {to}, out of {}", mount.inside)),
            Ok(inner) => is_guarded(inner).then(|| format!("it leads to {to}, which is protected")),
        }
    }

    /// Returns the reason why a file or link called `.git` cannot stay. Its age alone does not excuse
    /// it: commands can make the repository later.
    fn harm_of_pointer(&self, pointer: &Pointer) -> Option<String> {
        let (target, mounts) = (&pointer.target, &self.scan.mounts);
        let to = target.display();
        let was = self.before.pointers.get(&pointer.below);
        if let Some(was) = was.filter(|was| was.target != *target) {
            let was = was.target.display();
            return Some(format!("it leads to {to}, and led to {was}"));
        }
        let around = mounts
            .iter()
            .filter(|mount| mount.is_dir && target.starts_with(&mount.host));
        let Some(mount) = around.max_by_key(|mount| mount.host.iter().count()) else {
            let before = &self.before.pointers;
            // A path of the sandbox means nothing outside.
            let is_inside = |mount: &HostMount| target.starts_with(&mount.inside);
            let is_known = before.values().any(|known| known.target == *target)
                || mounts.iter().any(is_inside) && !target.exists();
            return (!is_known).then(|| format!("it leads to {to}, outside of what is judged"));
        };
        let below = target.strip_prefix(&mount.host).unwrap_or(target);
        let first = below.iter().next().unwrap_or_default();
        if mount.is_unguarded && mount.access.contains(Access::WRITE) {
            Some(format!("it leads to {to}, where nothing is judged"))
        } else {
            let is_quarantine = first.as_bytes().starts_with(QUARANTINE.as_bytes());
            is_quarantine.then(|| "it leads into the quarantine".to_owned())
        }
    }

    /// Judges a name. Returns `true` if it cannot stay.
    fn judge(&mut self, below: &Path, is_link: bool, after: &ScanResult) -> bool {
        if !self.judged.insert(below.to_owned()) {
            return false;
        }
        let (mount, before) = (self.mount, self.before);
        let same = is_link && !before.changed_link(mount, below);
        if same || !self.is_writable(below) {
            return false;
        }
        let target = after.targets.iter().find(|target| target.below == *below);
        let was_link = before.links.contains_key(below);
        let violation = || self.violation(below, (is_link, was_link), &after.bare);
        // Files that stay are judged once more, when no other command can change them by another name.
        let found = violation().or_else(|| self.separate(below).or_else(violation));
        let violation = match found {
            Some(violation) => violation,
            None => {
                let Some(target) = target else { return false };
                if let Some(link) = before.repointed_link(mount, target) {
                    return self.take_link(link, below, &after.bare);
                }
                let Some(violation) = target_violation(mount, target) else {
                    return false;
                };
                violation
            }
        };
        self.take_name(below, violation, &after.bare);
        true
    }

    /// Gives a new file content that no other name has: the next command could change it by that name.
    /// Returns the violation if that fails.
    fn separate(&self, below: &Path) -> Option<GuardViolation> {
        let parent = below::directory(self.mount.handle.as_fd(), below.parent()?).ok()?;
        match separate_names(parent.as_fd(), below.file_name()?) {
            Err(error) if error.kind() != ErrorKind::NotFound => Some(GuardViolation {
                pattern: pattern_of(self.mount, below),
                why: visible(&format!("it has another name: {error}")),
            }),
            _ => None,
        }
    }

    /// Takes a link that the command made or gave another target, and puts one back that was there
    /// before. Returns `true` if it cannot stay.
    fn take_link(&mut self, link: &Path, target: &Path, bare: &[PathBuf]) -> bool {
        let before = self.before.guarded_links.get(link);
        let own = self.violation(link, (true, before.is_some()), bare);
        // Its target may be the person's. A link that the command may make can stay.
        let stays = own.is_none() && before.is_none() || !self.is_writable(link);
        if stays || !self.judged.insert(link.to_owned()) {
            return false;
        }
        let violation = GuardViolation {
            pattern: own.map_or_else(|| ".git".to_owned(), |own| own.pattern),
            why: visible(&format!("it leads to {}", self.mount.shown(target))),
        };
        if let (true, Some(text)) = (self.take(link, violation, None), before) {
            restore(self.mount, link, text);
        }
        true
    }

    /// Takes a name that cannot stay, and puts the earlier file back.
    fn take_name(&mut self, below: &Path, mut violation: GuardViolation, bare: &[PathBuf]) {
        let before = self.before;
        // The command made a repository of this directory, which stops being one without `HEAD`. The
        // other files may be the person's own.
        let around = below.parent().filter(|around| {
            bare.iter().any(|git| git == around) && !before.bare.contains(*around)
        });
        let head = around.map(|around| around.join("HEAD"));
        let below = match (&head, below.file_name()) {
            (Some(head), Some(name)) => {
                if !self.judged.insert(head.clone()) {
                    return;
                }
                let (name, why) = (name.display(), violation.why);
                violation.why = format!("it makes a repository of the directory: {name}: {why}");
                head
            }
            _ => below,
        };
        violation.why = before.explain(below, violation.why);
        let taken = self.take(below, violation, before.saved.get(below));
        if let (true, Some(text)) = (taken, before.links.get(below)) {
            restore(self.mount, below, text);
        }
    }

    /// Restores files that are gone, and configuration that a command could change and that has
    /// settings which git would obey.
    fn restore_files(&mut self) {
        let (mount, before) = (self.mount, self.before);
        let is_loose = |below: &&PathBuf| {
            before.replaced.contains(*below) || !before.names.contains_key(*below)
        };
        let is_config = |below: &Path| before.configs.contains(below);
        let others = before.saved.paths().filter(|below| !is_config(below));
        for below in before.configs.iter().chain(others).filter(is_loose) {
            if !self.is_writable(below) {
                continue;
            }
            let Some(saved) = before.saved.get(below) else {
                let path = shown(mount, below);
                self.findings.fail(&format!(
                    "what {} said before could not be read",
                    path.display()
                ));
                continue;
            };
            let why = match is_config(below) {
                true => harm_of_change(mount, below, saved),
                false => (identity(mount, below) == Ok(None)).then(|| GONE.to_owned()),
            };
            if let Some(why) = why {
                let violation = GuardViolation {
                    pattern: pattern_of(mount, below),
                    why: before.explain(below, visible(&why)),
                };
                self.take(below, violation, Some(saved));
            }
        }
    }

    /// Returns the violation of a new name; `None` if the name can stay.
    fn violation(
        &self,
        below: &Path,
        (link, was_link): (bool, bool),
        bare: &[PathBuf],
    ) -> Option<GuardViolation> {
        let (mount, policy) = (self.mount, &self.scan.policy);
        let name = below.file_name()?;
        let around = below.parent()?;
        let parent = below::directory(mount.handle.as_fd(), around).ok()?;
        let what = below::kind(&below::look(parent.as_fd(), name).ok()?);
        // A hidden name is protected for the secret in it, and in a directory that the command
        // itself created it is not a person's secret: pip brings certificates along, called *.pem.
        let secret = |pattern: &Pattern| mount.guards.hide.contains(pattern);
        let named = mount.named(below);
        let patterns = mount.guards.protect.iter();
        // This applies to a private key that the command creates, in any directory.
        let mut matched =
            patterns.filter(|one| one.ends(&named) && (was_link || !one.is_by_content()));
        let counts = matched.find(|one| !secret(one) || !self.is_new(&parent));
        let text = match counts {
            Some(pattern) => pattern.text(),
            None if name == ".git" && policy.git() != Git::Unaware => ".git",
            // The name belongs to another worktree.
            None if mount.linked.is_some() => ".git",
            // Git would follow it, or obey it.
            None if link && bare::is_part(around, bare) => ".git",
            None if self.is_gits(around, name, bare) => ".git",
            // The name is only hidden, and the command may have new files.
            None => return None,
        };
        // The socket is a placeholder of another run; no program can use it.
        if what == SFlag::S_IFSOCK {
            return None;
        }
        // Commands may create worktrees and modules, as they may clone.
        let of = |kind: &str| around.iter().any(|name| name == kind);
        if of("worktrees") && fresh::is_plain_worktree(parent.as_fd(), name)
            || name == ".git" && repository::is_mutual(mount, below)
        {
            return None;
        }
        let why = if of("modules") && name == "config" && what == SFlag::S_IFREG {
            repository::harm_of_module(mount, below)?
        } else if text.split('/').next() == Some(".git") || text == ".gitmodules" {
            if fresh::leads_to_tree(parent.as_fd(), name, &policy.working_trees(&mount.host)) {
                return None;
            }
            fresh::harm(parent.as_fd(), name)?
        } else if what == SFlag::S_IFLNK {
            "a new link".to_owned()
        } else {
            "a new name".to_owned()
        };
        Some(GuardViolation {
            pattern: counts.map_or(text, Pattern::written).to_owned(),
            why: visible(&why),
        })
    }

    /// Returns `true` if git's table protects the name.
    fn is_gits(&self, around: &Path, name: &OsStr, bare: &[PathBuf]) -> bool {
        let policy = &self.scan.policy;
        bare::matters(policy, &self.mount.guards.protect)
            && GitDirLocation::of(self.mount, around, bare)
                .is_some_and(|place| place.keeps(policy, name))
    }

    /// Returns `true` if a directory was created after the start; `false` if the file system has no
    /// times of birth.
    fn is_new(&self, directory: &OwnedFd) -> bool {
        let file = directory.try_clone().map(File::from);
        let born = file
            .and_then(|file| file.metadata())
            .and_then(|meta| meta.created());
        born.is_ok_and(|born| born >= self.scan.started)
    }

    /// Moves a name into the quarantine, puts a saved file in its place, and reports both. Returns
    /// `true` if the name was moved.
    fn take(&mut self, below: &Path, violation: GuardViolation, saved: Option<&SavedFile>) -> bool {
        let GuardViolation { pattern, mut why } = violation;
        let path = shown(self.mount, below);
        let original = self.before.original(below);
        let taken = self.quarantine.take(below, original, saved);
        if let Some(errno) = self.quarantine.not_restored.take() {
            let path = path.display();
            self.findings
                .fail(&format!("{path} could not be put back: {}", errno.desc()));
        } else if let (Ok(Some(_)), Some(_)) = (&taken, saved) {
            why.push_str("; what was there before is there again");
        }
        if let Some(errno) = self.quarantine.not_disabled.take() {
            let path = path.display();
            self.findings.fail(&format!(
                "{path} was taken, and could still have a repository: {}",
                errno.desc()
            ));
        }
        let reason = match &taken {
            Ok(Some(_)) => None,
            Ok(None) => Some(format!("is as before the start again: {why}")),
            Err(Errno::ESTALE) => return false,
            Err(Errno::ENOENT) if saved.is_some() => {
                Some("was removed with its directory".to_owned())
            }
            Err(errno) => {
                self.findings.note_left(&path, errno.desc());
                None
            }
        };
        if let Some(reason) = reason {
            let note = format!("{} {reason}", path.display());
            self.findings.note(Promise::ProtectedNames, &note);
        }
        let is_gone = matches!(taken, Ok(None) | Err(Errno::ENOENT)) && saved.is_some();
        let now = taken.ok().flatten();
        let is_taken = now.is_some();
        if !is_gone {
            self.findings.add_quarantined(Quarantined {
                path,
                pattern,
                why,
                now,
            });
        }
        is_taken
    }
}

/// Returns the reason why a link cannot stay that leads to one of the directories `unjudged`, where
/// git finds a repository.
fn leads_to_repository(link: &Path, unjudged: &[&Path]) -> Option<String> {
    let is_needed = !unjudged.is_empty();
    let target = is_needed.then(|| link.canonicalize().ok()).flatten()?;
    let top = unjudged.iter().find(|top| target.starts_with(top))?;
    if !target.is_dir() {
        return None;
    }
    let mut around = target.ancestors().take_while(|one| one.starts_with(top));
    let what = match around.any(repository::is_repository) {
        true => "the repository",
        false => repository::find_below(&target, top)?,
    };
    let to = target.display();
    Some(format!(
        "it leads to {what} at {to}, where nothing is judged"
    ))
}

/// Returns the violation of a new file to which git, or a link with a protected name, leads;
/// attributes are judged by their content.
fn target_violation(mount: &HostMount, target: &ObeyedPath) -> Option<GuardViolation> {
    let name = target.below.file_name()?;
    let parent = below::directory(mount.handle.as_fd(), target.below.parent()?).ok()?;
    below::look(parent.as_fd(), name).ok()?;
    let (pattern, why) = match name == ".gitattributes" {
        true => (
            ".gitattributes",
            fresh::harm_of_attributes(parent.as_fd(), name)?,
        ),
        false => (".git", format!("{} leads to it", target.by)),
    };
    Some(GuardViolation {
        pattern: pattern.to_owned(),
        why: visible(&why),
    })
}

/// Restores a link that a command replaced. If that fails, the replacement is gone nevertheless.
fn restore(mount: &HostMount, below: &Path, text: &OsStr) {
    if let (Some(parent), Some(name)) = (below.parent(), below.file_name())
        && let Ok(parent) = below::directory(mount.handle.as_fd(), parent)
    {
        let _ = symlinkat(text, &parent, name);
    }
}

/// Returns the reason why changed configuration cannot stay.
fn harm_of_change(mount: &HostMount, below: &Path, was: &SavedFile) -> Option<String> {
    let Some(now) = SavedFile::read(mount, below) else {
        return Some(GONE.to_owned());
    };
    match was.opened_by(&now) {
        Some(why) => Some(why.to_owned()),
        None if was.text() == now.text() => None,
        None => git_config::change(was.text(), now.text()),
    }
}

/// Checks that this process can open as many descriptors as a scan takes. Without them, a file that
/// cannot be opened would count as gone or replaced.
fn has_descriptors(mounts: &[HostMount]) -> Result<(), Errno> {
    let handles = mounts.iter().map(|mount| mount.handle.as_fd()).cycle();
    let each = handles.take(SCAN_DESCRIPTORS);
    let all: std::io::Result<Vec<OwnedFd>> = each.map(|one| one.try_clone_to_owned()).collect();
    all.map(drop).map_err(|error| below::errno(&error))
}

/// Returns the pattern that guards a name. Configuration of repositories has none of its own.
fn pattern_of(mount: &HostMount, below: &Path) -> String {
    let named = mount.named(below);
    let mut patterns = mount.guards.protect.iter().chain(&mount.guards.hide);
    let found = patterns.find(|pattern| pattern.ends(&named));
    let gits = match below.ends_with("hooks") {
        true => ".git/hooks",
        false => ".git/config",
    };
    found.map_or(gits, Pattern::written).to_owned()
}

fn shown(mount: &HostMount, below: &Path) -> PathBuf {
    Path::new(&mount.inside).join(below)
}

/// Returns a name for one scan: the time, and further digits for two scans in one second.
fn id() -> String {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    format!(
        "{}-{:09}-{}",
        since.as_secs(),
        since.subsec_nanos(),
        std::process::id()
    )
}

/// Returns `true` for a directory of another user that this user may not enter: a command neither made it
/// nor put anything below it.
fn is_foreign(mount: &HostMount, below: &Path) -> bool {
    let is_others = mount
        .look(below)
        .is_ok_and(|stat| stat.st_uid != geteuid().as_raw());
    let (Some(around), Some(name)) = (below.parent(), below.file_name()) else {
        return false;
    };
    let refused = below::directory(mount.handle.as_fd(), around).and_then(|around| {
        let flags = AtFlags::AT_EACCESS | AtFlags::AT_SYMLINK_NOFOLLOW;
        faccessat(&around, name, AccessFlags::X_OK, flags)
    });
    is_others && refused == Err(Errno::EACCES)
}
