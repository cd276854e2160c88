//! Records of the commands that run, in the state directory: for each, the protected names that were
//! there before its start. Another command that starts meanwhile takes no name for one of the person's
//! that was not there before this one. After a killed broker, or a
//! scan that could not look everywhere, the record remains without its lock, and the next start in one
//! of its mounts looks for the names that were left.
//!
//! A record is written in whole after the walk and before the command starts, and never to the disk
//! by force: after a power cut it can be missing, as the names can. The records are read before the walk and once more after it. A command that starts and ends
//! between the two is not seen: its names are gone by then, and a new file with the name is judged.

use super::super::git_audit::worktree;
use super::super::host_mount::{HostMount, host_mounts};
use super::command_text::{CommandText, NameFact, RecordedCommand};
use super::everywhere;
use super::hold::is_outside;
use super::names::Held;
use super::quarantine_dir::FileIdentity;
use super::record::Placeholder;
use super::saved::SavedFile;
use super::snapshot::{MountSnapshot, identity};
use super::state::{StateDir, options};
use super::sweep::PostRunScan;
use crate::error::{Error, ErrorKind};
use crate::findings::Findings;
use crate::policy::Policy;
use sandbox_names::hex;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The clock of a file system is that much behind.
const CLOCK_SLACK: Duration = Duration::from_millis(20);

/// Where the records of commands are.
#[derive(Clone, Copy)]
pub(crate) enum RecordPlace<'a> {
    /// A probe makes no names, and in a container of its own a command could write every place.
    Nowhere,
    /// The wanted state directory, or the usual one.
    StateDir(Option<&'a Path>),
}

/// The commands that run, or were left, in mounts of a command that is about to start.
pub(crate) struct RunningCommands {
    /// `Ok(None)` without records, and the reason if they have no place.
    state: Result<Option<StateDir>, String>,
    /// Held until the record is there (`start_lock.rs`).
    starting: Option<File>,
    /// How the command finds the names. Another way finds others.
    held: Held,
    others: Vec<RecordedCommand>,
}

/// A command without a record.
pub(super) struct Unrecorded {
    pub(super) why: String,
    /// Keeps programs that would look for the record waiting; `None` without a state directory.
    pub(super) starting: Option<File>,
}

/// The record of this command. Dropping it removes it, unless it is kept.
pub(crate) struct CommandRecord {
    path: PathBuf,
    file: File,
    is_kept: bool,
}

impl CommandRecord {
    /// Returns the locked file: each process with the descriptor keeps the command alive.
    pub(crate) fn lock(&self) -> &File {
        &self.file
    }

    /// Leaves the record to the next start, because not every name was looked for.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for CommandRecord {
    fn drop(&mut self) {
        if !self.is_kept {
            // If this fails, the next start looks for names once more.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl RunningCommands {
    fn new(state: Result<Option<StateDir>, String>, held: Held) -> RunningCommands {
        RunningCommands {
            state,
            starting: None,
            held,
            others: Vec::new(),
        }
    }

    /// Reads the records before the mounts are walked, and looks for names that killed ones left.
    pub(crate) fn before_walk(
        policy: &Policy,
        mounts: &[HostMount],
        records: RecordPlace<'_>,
        held: Held,
    ) -> Result<(RunningCommands, Findings), Error> {
        if !PostRunScan::is_needed(policy, mounts) {
            return Ok((RunningCommands::new(Ok(None), held), Findings::default()));
        }
        let state = match records {
            RecordPlace::Nowhere => Ok(None),
            RecordPlace::StateDir(wanted) => {
                StateDir::open(wanted, |path| is_outside(path, mounts)).map(Some)
            }
        };
        let mut running = RunningCommands::new(state, held);
        running.lock_start()?;
        running.read(mounts);
        let mut findings = Findings::default();
        if running.others.iter().any(|other| other.left.is_some()) {
            findings = running.sweep_left(policy)?;
        }
        Ok((running, findings))
    }

    /// Keeps programs that write protected names waiting until this command is recorded.
    fn lock_start(&mut self) -> Result<(), Error> {
        let Ok(Some(state)) = &self.state else {
            return Ok(());
        };
        match state.lock_for_start() {
            Ok(Some(lock)) => self.starting = Some(lock),
            Ok(None) => {
                return Err(ErrorKind::Unguarded
                    .error("forge writes protected names at a person's word at the moment")
                    .with_hint("try again when that is done"));
            }
            Err(error) => self.state = Err(error.to_string()),
        }
        Ok(())
    }

    /// Judges the names that killed commands left, as after their ends.
    fn sweep_left(&mut self, policy: &Policy) -> Result<Findings, Error> {
        let all = std::mem::take(&mut self.others).into_iter();
        let (left, live): (Vec<_>, Vec<_>) = all.partition(|other| other.left.is_some());
        self.others = left;
        let mut mounts = host_mounts(policy)?;
        let _remarks = worktree::show(policy, &mut mounts, self.held == Held::ByMounts);
        let names = everywhere(policy, &mounts, self.held)?;
        let changed = mounts.iter().filter(|mount| mount.is_changed());
        let changed: Vec<PathBuf> = changed.map(|mount| mount.host.clone()).collect();
        let mut scan = PostRunScan::of(policy, mounts, names);
        scan.held = self.held;
        let starts = self.others.iter().map(|other| other.started);
        scan.started = starts.min().unwrap_or(scan.started);
        for (mount, before) in scan.mounts.iter().zip(&mut scan.before) {
            self.compare(mount, before, &HashSet::new());
        }
        scan.state = self.state_dir();
        let mut findings = scan.run();
        for found in &mut findings.quarantined {
            found.why.push_str(", left by a command before this one");
        }
        self.others.retain(|other| {
            let mut within = other.text.tops.iter();
            let is_done = findings.failed.is_none()
                && within.all(|top| changed.iter().any(|here| top.host.starts_with(here)));
            if is_done {
                // If this fails, the next start looks once more.
                let _ = fs::remove_file(&other.path);
            }
            !is_done
        });
        self.others.extend(live);
        Ok(findings)
    }

    /// Returns the state directory; `None` without one.
    pub(super) fn state_dir(&self) -> Option<PathBuf> {
        let state = self.state.as_ref().ok()?.as_ref()?;
        Some(state.path().to_owned())
    }

    /// Adds the records that are new.
    fn read(&mut self, mounts: &[HostMount]) {
        let Ok(Some(state)) = &self.state else {
            return;
        };
        for path in state.command_records() {
            if !self.others.iter().any(|other| other.path == path) {
                let read = RecordedCommand::read_or_take(path);
                self.others
                    .extend(read.filter(|other| is_near(other, mounts)));
            }
        }
    }

    /// Takes names that other commands could have made out of the snapshots, and records the rest for those
    /// that start while this command runs. Called after the walk. `own`: placeholders of this run.
    /// The error is the reason for a missing record.
    pub(super) fn record(
        mut self,
        mounts: &[HostMount],
        before: &mut [MountSnapshot],
        own: &[Placeholder],
    ) -> Result<Option<CommandRecord>, Unrecorded> {
        let starting = self.starting.take();
        let written = self.write(mounts, before, own);
        written.map_err(|why| Unrecorded { why, starting })
    }

    fn write(
        mut self,
        mounts: &[HostMount],
        before: &mut [MountSnapshot],
        own: &[Placeholder],
    ) -> Result<Option<CommandRecord>, String> {
        self.read(mounts);
        let own = own.iter().map(|one| one.parent.join(&one.name)).collect();
        let mut text = CommandText::new(self.held);
        for (mount, before) in mounts.iter().zip(before) {
            if mount.is_dir && mount.is_changed() {
                self.compare(mount, before, &own);
                text.add_top(mount);
                add_names(&mut text, mount, before);
            }
        }
        let Some(state) = self.state? else {
            return Ok(None);
        };
        let text = text.to_text()?;
        let path = state.new_command_record();
        // Why under another name: a reader takes the command of an unlocked record for killed.
        let unnamed = state
            .path()
            .join(format!("new-{}", crate::scratch::random()));
        let written = || {
            let file = options().create_new(true).open(&unnamed)?;
            let mut record = CommandRecord {
                path: unnamed.clone(),
                file,
                is_kept: false,
            };
            record.file.try_lock()?;
            (&record.file).write_all(text.as_bytes())?;
            fs::rename(&unnamed, &path)?;
            record.path.clone_from(&path);
            Ok(Some(record))
        };
        written().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
    }

    /// Keeps names from before the other commands too. Where their patterns differ, a file that
    /// has not changed since is kept as well.
    fn compare(&self, mount: &HostMount, before: &mut MountSnapshot, own: &HashSet<PathBuf>) {
        for other in &self.others {
            let text = &other.text;
            let is_judge = text.judges_alike(mount, self.held);
            let stays = |below: &Path, fact: NameFact, value: &str| {
                let host = mount.host.join(below);
                text.top_of(&host).is_none()
                    || text.has_value(&host, fact, value)
                    || own.contains(&host)
                    || !is_judge && (is_older(&host, other.started) || covers(text, mount, below))
            };
            let has = |fact, below: &Path| stays(below, fact, "");
            before.names.retain(|below, (identity, _)| {
                match text.is_this_boot() && !is_git_config(below) {
                    true => stays(below, NameFact::Identity, &identity_text(identity)),
                    false => has(NameFact::There, below),
                }
            });
            let leads = |fact, below: &Path, to: &OsStr| stays(below, fact, &hex(to.as_bytes()));
            (before.links).retain(|below, to| leads(NameFact::Link, below, to));
            (before.guarded_links).retain(|below, to| leads(NameFact::GuardedLink, below, to));
            (before.pointers)
                .retain(|below, was| leads(NameFact::Pointer, below, was.target.as_os_str()));
            before.configs.retain(|below| has(NameFact::Config, below));
            before.bare.retain(|below| has(NameFact::Bare, below));
            before.tracked.retain(|below| has(NameFact::Tracked, below));
            before
                .unlisted
                .retain(|below| has(NameFact::Unlisted, below));
            for (state, todo) in &mut before.todo {
                todo.retain(|line| stays(state, NameFact::Todo, &hex(line)));
            }
            before.saved.keep_only(|below| {
                before.names.contains_key(below) || before.configs.contains(below)
            });
            for below in &before.configs {
                let host = mount.host.join(below);
                let mut saved = text.values(&host, NameFact::Saved).map(SavedFile::parse);
                if let Some(saved) = saved.next().flatten() {
                    before.saved.insert(below.clone(), saved);
                }
            }
        }
    }
}

/// Returns `true` for a record about these mounts. Removes that of a killed command whose mounts are
/// gone.
fn is_near(other: &RecordedCommand, mounts: &[HostMount]) -> bool {
    let tops = || other.text.tops.iter().map(|top| &top.host);
    if other.left.is_some() && tops().all(|top| !top.exists()) {
        let _ = fs::remove_file(&other.path);
        return false;
    }
    tops().any(|top| {
        let mut changed = mounts.iter().filter(|mount| mount.is_changed());
        changed.any(|mount| mount.host.starts_with(top) || top.starts_with(&mount.host))
    })
}

/// Returns `true` for a path in a directory that a mount was over at the start of the command, and
/// that no program has replaced.
fn covers(text: &CommandText, mount: &HostMount, below: &Path) -> bool {
    let is_covered = |around: &Path| {
        let now = identity(mount, around).ok().flatten();
        let host = mount.host.join(around);
        now.is_some() && text.has_value(&host, NameFact::Identity, &identity_text(&now))
    };
    text.has_mounts() && text.is_this_boot() && below.ancestors().skip(1).any(is_covered)
}

/// Returns `true` for a file that has not changed since a command started.
pub(super) fn is_older(host: &Path, started: SystemTime) -> bool {
    let Ok(meta) = host.symlink_metadata() else {
        return false;
    };
    let (Ok(seconds), Ok(nanos)) = (
        u64::try_from(meta.ctime()),
        u32::try_from(meta.ctime_nsec()),
    ) else {
        return false;
    };
    UNIX_EPOCH + Duration::new(seconds, nanos) + CLOCK_SLACK < started
}

/// Returns `true` for configuration of a repository. forge itself replaces it when git asks.
fn is_git_config(below: &Path) -> bool {
    let name = below.file_name().and_then(OsStr::to_str);
    matches!(name, Some("config" | "config.worktree"))
}

/// Returns the text of an identity in a record.
pub(super) fn identity_text(identity: &Option<FileIdentity>) -> String {
    hex(format!("{identity:?}"))
}

pub(super) fn content_hash(content: &[u8]) -> String {
    hex(Sha256::digest(content))
}

/// Adds the state before the command.
fn add_names(text: &mut CommandText, mount: &HostMount, before: &MountSnapshot) {
    let host = |below: &PathBuf| mount.host.join(below);
    for (below, (identity, _)) in &before.names {
        text.add(host(below), NameFact::Identity, identity_text(identity));
        text.add(host(below), NameFact::There, "");
        if let Some(saved) = before.saved.get(below) {
            text.add(host(below), NameFact::Hash, content_hash(saved.text()));
        }
    }
    let links = before.links.iter().map(|link| (NameFact::Link, link));
    let guarded = before.guarded_links.iter();
    let guarded = guarded.map(|link| (NameFact::GuardedLink, link));
    for (fact, (below, to)) in links.chain(guarded) {
        text.add(host(below), fact, hex(to.as_bytes()));
    }
    for (below, was) in &before.pointers {
        let to = hex(was.target.as_os_str().as_bytes());
        text.add(host(below), NameFact::Pointer, to);
    }
    for below in &before.configs {
        text.add(host(below), NameFact::Config, "");
        if let Some(saved) = before.saved.get(below) {
            text.add(host(below), NameFact::Saved, saved.to_line());
        }
    }
    let bare = before.bare.iter().map(|below| (NameFact::Bare, below));
    let tracked = before
        .tracked
        .iter()
        .map(|below| (NameFact::Tracked, below));
    let unlisted = before
        .unlisted
        .iter()
        .map(|below| (NameFact::Unlisted, below));
    for (fact, below) in bare.chain(tracked).chain(unlisted) {
        text.add(host(below), fact, "");
    }
    for (state, todo) in &before.todo {
        for line in todo {
            text.add(host(state), NameFact::Todo, hex(line));
        }
    }
}
