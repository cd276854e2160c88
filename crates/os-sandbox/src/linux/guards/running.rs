//! Records of the commands that run, in the state directory: for each, the protected names that were
//! there before its start. Another command that starts meanwhile takes no name for one of the person's
//! that was not there before this one. After a killed broker, or a
//! scan that could not look everywhere, the record remains without its lock, and the next start in one
//! of its mounts looks for the names that were left.
//!
//! A record is written in whole after the walk and before the command starts, and never to the disk
//! by force: after a power cut it can be missing, as the names can. Its lines are compared as they
//! are. The records are read before the walk and once more after it. A command that starts and ends
//! between the two is not seen: its names are gone by then, and a new file with the name is judged.

use super::super::git_audit::worktree;
use super::super::host_mount::{HostMount, host_mounts};
use super::command_text::{CommandText, FIRST};
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
use crate::policy::{MountGuards, Pattern, Policy};
use crate::state_dir::boot;
use sandbox_names::hex;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(super) const PREFIX: &str = "command-";
pub(super) const LAST: &str = "end";
/// Bound on the records that are read.
pub(super) const MAX_RECORDS: usize = 4096;
/// Bound on one record. A command with more has none.
pub(super) const MAX_RECORD_BYTES: usize = 32 << 20;
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
    others: Vec<CommandBaseline>,
}

/// A command without a record.
pub(super) struct Unrecorded {
    pub(super) why: String,
    /// Keeps programs that would look for the record waiting; `None` without a state directory.
    pub(super) starting: Option<File>,
}

/// The record of another command.
struct CommandBaseline {
    path: PathBuf,
    /// Locked, if the command's broker is gone.
    left: Option<File>,
    mounts: Vec<PathBuf>,
    lines: HashSet<String>,
    is_this_boot: bool,
    /// `true` if mounts are over the protected names that were there.
    has_mounts: bool,
    started: SystemTime,
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
            let mut within = other.mounts.iter();
            let is_done = findings.failed.is_none()
                && within.all(|mount| changed.iter().any(|here| mount.starts_with(here)));
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
                self.others.extend(CommandBaseline::read(path, mounts));
            }
        }
    }

    /// Takes names that other commands could have made out of the snapshots, and records the rest for those
    /// that start while this command runs. Called after the walk. `own`: placeholders of this run.
    /// The error says why there is no record.
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
        let (process, held) = (std::process::id(), self.held);
        let mut text = format!(
            "{FIRST}\n{}\nx {process} {held:?}\n{}{process}\n",
            boot(),
            CommandText::PROCESS
        );
        for (mount, before) in mounts.iter().zip(before) {
            if mount.is_dir && mount.is_changed() {
                self.compare(mount, before, &own);
                text.push_str(&mount_line(mount, self.held));
                text.push_str(&patterns_line(mount));
                text.push_str(&CommandText::mount_lines(mount, self.held));
                lines(mount, before, &mut text);
            }
        }
        text.push_str(CommandText::END);
        let Some(state) = self.state? else {
            return Ok(None);
        };
        if text.len() > CommandText::MAX_BYTES {
            return Err(format!(
                "the names that are there need more than {} MiB",
                CommandText::MAX_BYTES >> 20
            ));
        }
        let path = state
            .path()
            .join(format!("{PREFIX}{:016x}", crate::scratch::random()));
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
        let patterns = mount_line(mount, self.held);
        for other in &self.others {
            let is_judge = other.lines.contains(patterns.trim_end());
            let stays = |below: &Path, line: &str| {
                let host = mount.host.join(below);
                let is_within = other.mounts.iter().any(|top| host.starts_with(top));
                !is_within
                    || other.lines.contains(line.trim_end())
                    || own.contains(&host)
                    || !is_judge && (other.is_older(&host) || other.covers(mount, below))
            };
            let has = |kind, below: &Path| stays(below, &path_line(kind, mount, below));
            before.names.retain(|below, (identity, _)| {
                match other.is_this_boot && !is_git_config(below) {
                    true => stays(below, &name_line(mount, below, identity)),
                    false => has('p', below),
                }
            });
            let text = |kind, below: &Path, text: &OsString| {
                stays(below, &text_line(kind, mount, below, text.as_bytes()))
            };
            before.links.retain(|below, to| text('l', below, to));
            before
                .guarded_links
                .retain(|below, to| text('g', below, to));
            before.configs.retain(|below| has('c', below));
            before.bare.retain(|below| has('b', below));
            let target = |below: &Path, to: &Path| {
                stays(
                    below,
                    &text_line('w', mount, below, to.as_os_str().as_bytes()),
                )
            };
            before
                .pointers
                .retain(|below, was| target(below, &was.target));
            before.tracked.retain(|below| has('t', below));
            before.unlisted.retain(|below| has('u', below));
            for (state, todo) in &mut before.todo {
                todo.retain(|line| stays(state, &text_line('d', mount, state, line.as_bytes())));
            }
            before.saved.keep_only(|below| {
                before.names.contains_key(below) || before.configs.contains(below)
            });
            for below in &before.configs {
                let prefix = path_line('s', mount, below).replace('\n', " ");
                let mut lines = other.lines.iter();
                let saved = lines.find_map(|line| SavedFile::parse(line.strip_prefix(&prefix)?));
                if let Some(saved) = saved {
                    before.saved.insert(below.clone(), saved);
                }
            }
        }
    }
}

impl CommandBaseline {
    /// Returns `None` for a record that is not about these mounts, or whose command was not started.
    fn read(path: PathBuf, mounts: &[HostMount]) -> Option<CommandBaseline> {
        let file = options().open(&path).ok()?;
        let meta = file.metadata().ok().filter(fs::Metadata::is_file)?;
        let left = file.try_lock().is_ok();
        let text = CommandText::read(&file);
        let tops: Vec<PathBuf> = (text.iter())
            .flat_map(CommandText::tops)
            .map(|top| top.host)
            .collect();
        let is_gone = tops.iter().all(|top| !top.exists());
        if is_gone && left {
            // Its command was not started, or its mounts are gone.
            let _ = fs::remove_file(&path);
        }
        let is_near = tops.iter().any(|top| {
            let mut changed = mounts.iter().filter(|mount| mount.is_changed());
            changed.any(|mount| mount.host.starts_with(top) || top.starts_with(&mount.host))
        });
        let text = text?;
        let has_mounts = text.tops().all(|top| top.has_mounts);
        (!is_gone && is_near).then(|| CommandBaseline {
            // A record without a name is one of a command that has ended meanwhile.
            left: (left && meta.nlink() > 0 && path.exists()).then_some(file),
            path,
            mounts: tops,
            is_this_boot: text.boot == boot(),
            has_mounts,
            lines: text.lines,
            started: meta.modified().unwrap_or(UNIX_EPOCH),
        })
    }

    /// Returns `true` for a path in a directory that a mount was over at the start of the command, and
    /// that no program has replaced.
    fn covers(&self, mount: &HostMount, below: &Path) -> bool {
        let is_covered = |around: &Path| {
            let now = identity(mount, around).ok().flatten();
            now.is_some()
                && self
                    .lines
                    .contains(name_line(mount, around, &now).trim_end())
        };
        self.has_mounts && self.is_this_boot && below.ancestors().skip(1).any(is_covered)
    }

    /// Returns `true` for a file that has not changed since the command started.
    fn is_older(&self, host: &Path) -> bool {
        is_older(host, self.started)
    }
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

fn mount_line(mount: &HostMount, held: Held) -> String {
    let mut hash = Sha256::new();
    // The number of the kinds of lines: another version judges by other ones.
    hash.update(format!("3 {held:?}\n"));
    let MountGuards { protect, hide, .. } = &mount.guards;
    for (kind, patterns) in [('+', protect), ('-', hide)] {
        for pattern in patterns {
            hash.update(format!("{kind}{}\n", pattern.text()));
        }
    }
    let patterns = hex(hash.finalize());
    format!("m {} {patterns}\n", hex(mount.host.as_os_str().as_bytes()))
}

/// Returns the protected patterns of a mount, for the question which command wrote a file.
fn patterns_line(mount: &HostMount) -> String {
    let patterns = mount.guards.protect.iter().map(Pattern::text);
    let patterns: Vec<&str> = patterns.collect();
    let host = hex(mount.host.as_os_str().as_bytes());
    format!("y {host} {}\n", hex(patterns.join("\n")))
}

fn path_line(kind: char, mount: &HostMount, below: &Path) -> String {
    let host = mount.host.join(below);
    format!("{kind} {}\n", hex(host.as_os_str().as_bytes()))
}

fn text_line(kind: char, mount: &HostMount, below: &Path, text: &[u8]) -> String {
    let host = mount.host.join(below);
    format!(
        "{kind} {} {}\n",
        hex(host.as_os_str().as_bytes()),
        hex(text)
    )
}

fn name_line(mount: &HostMount, below: &Path, identity: &Option<FileIdentity>) -> String {
    let identity = format!("{identity:?}");
    text_line('n', mount, below, identity.as_bytes())
}

pub(super) fn content_hash(content: &[u8]) -> String {
    hex(Sha256::digest(content))
}

/// Writes the state before the command.
fn lines(mount: &HostMount, before: &MountSnapshot, out: &mut String) {
    for (below, (identity, _)) in &before.names {
        out.push_str(&name_line(mount, below, identity));
        out.push_str(&path_line('p', mount, below));
        if let Some(saved) = before.saved.get(below) {
            let hash = content_hash(saved.text());
            let line = path_line('h', mount, below).replace('\n', " ");
            out.push_str(&format!("{line}{hash}\n"));
        }
    }
    for (kind, links) in [('l', &before.links), ('g', &before.guarded_links)] {
        for (below, text) in links {
            out.push_str(&text_line(kind, mount, below, text.as_bytes()));
        }
    }
    for (below, was) in &before.pointers {
        let to = was.target.as_os_str();
        out.push_str(&text_line('w', mount, below, to.as_bytes()));
    }
    for below in &before.configs {
        out.push_str(&path_line('c', mount, below));
        if let Some(saved) = before.saved.get(below) {
            let line = path_line('s', mount, below).replace('\n', " ");
            out.push_str(&format!("{line}{}\n", saved.to_line()));
        }
    }
    let bare = before.bare.iter().map(|below| ('b', below));
    let tracked = before.tracked.iter().map(|below| ('t', below));
    let unlisted = before.unlisted.iter().map(|below| ('u', below));
    for (kind, below) in bare.chain(tracked).chain(unlisted) {
        out.push_str(&path_line(kind, mount, below));
    }
    for (state, todo) in &before.todo {
        for line in todo {
            out.push_str(&text_line('d', mount, state, line.as_bytes()));
        }
    }
}
