//! `forge quarantine`: lists files that commands created under protected names, moves them back, and
//! removes them.
//!
//! A sweep moves `PATH` of a mount to `.os-sandbox-quarantine/ID/PATH` of that mount. The
//! directories above it in the quarantine are not distinguishable from a directory that was taken
//! itself. So an entry is the topmost path that is missing in the mount: the walk enters a
//! directory of the quarantine only if the mount has a directory of that path.
//!
//! All access goes through directory handles, and no link is followed: commands may have written
//! any content there.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use forge_tools::rfc3339;
use os_sandbox::{QUARANTINE, QuarantineRecords, QuarantineState, StartLock, separate_names};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, openat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use sandbox_config::{Project, WithoutDirectories};
use sandbox_names::original_name;

use crate::cli::{Global, QuarantineAction, QuarantineArgs};
use crate::commands::active_commands::ProtectedWrite;
use crate::commands::prelude::*;
use crate::output::escape::shell_word;
use crate::output::local_time::{local_time, recorded_time};
use crate::output::prompt_terminal::{InputLine, PromptTerminal};
use crate::setup;
use crate::state::remove_contents::{names, open_below, remove_contents, remove_entry};

/// Most entries that are listed without a record that forge moved them there. A command can forge those.
const MAX_UNRECORDED: usize = 10_000;

/// The ignore rules of git in the quarantine.
const IGNORE: &str = ".gitignore";

const RESTORE: ProtectedWrite = ProtectedWrite {
    code: "quarantine.running",
    outcome: "nothing was moved",
    hint: "wait until it has ended, and restore it then",
};

pub(crate) fn run(args: &QuarantineArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let restores = matches!(args.action, Some(QuarantineAction::Restore { .. }));
    // It may ask whether the project is trusted.
    let project = setup::project_or_directory(ambient, WithoutDirectories::WholeDirectory)?;
    // Before a file is compared with its record: a command that has it open has not ended then.
    let starts = restores.then(|| RESTORE.lock_starts(ambient)).transpose()?;
    let mut listing = QuarantineListing::of(&project)?;
    listing.add_shared_state(ambient);
    let typed: &[PathBuf] = match &args.action {
        Some(QuarantineAction::Restore { paths, .. } | QuarantineAction::Discard { paths, .. }) => {
            paths
        }
        Some(QuarantineAction::List) | None => &[],
    };
    for path in typed {
        listing.add_around(&absolute(&ambient.global, path)?);
    }
    listing.sort();
    if listing.unrecorded > MAX_UNRECORDED {
        stderr::print(format_args!(
            "warning: more than {MAX_UNRECORDED} entries that forge has no record of: the rest of them \
             is not listed"
        ));
    }
    for (path, error) in &listing.closed {
        stderr::print(format_args!(
            "warning: {}: {error}; it is not listed",
            escape_path(path)
        ));
    }
    match args.action.as_ref().unwrap_or(&QuarantineAction::List) {
        QuarantineAction::List => list(&ambient.global, &listing),
        QuarantineAction::Restore { paths, all } => {
            restore(&ambient.global, &listing, paths, *all, starts.as_ref())
        }
        QuarantineAction::Discard { paths, all, yes } => {
            let chosen = choose(&ambient.global, &listing, paths, *all)?;
            discard(&chosen, *yes, ambient)
        }
    }
}

/// The content of the quarantines of a project.
#[derive(Default)]
struct QuarantineListing {
    records: QuarantineRecords,
    /// Directories that were looked into.
    mounts: HashSet<PathBuf>,
    entries: Vec<QuarantinedItem>,
    /// Quarantines that cannot be read, and why.
    closed: Vec<(PathBuf, Errno)>,
    /// Entries without a record, those that are not listed too.
    unrecorded: usize,
}

/// One file or directory that was taken.
struct QuarantinedItem {
    mount: PathBuf,
    /// `true` if the mount is a directory of the project.
    of_project: bool,
    /// The sweep's directory, relative to the mount.
    sweep: PathBuf,
    /// Relative to the mount, where it was taken from.
    path: PathBuf,
    /// Its name in the quarantine.
    stored: OsString,
    /// Seconds since 1970, UTC.
    seconds: u64,
    bytes: u64,
    is_dir: bool,
    /// Something of that name is there again.
    occupied: bool,
    state: QuarantineState,
}

impl QuarantinedItem {
    fn origin(&self) -> PathBuf {
        self.mount.join(&self.path)
    }

    fn quarantined(&self) -> PathBuf {
        let path = self.path.with_file_name(&self.stored);
        self.mount.join(&self.sweep).join(path)
    }

    fn taken_at(&self) -> SystemTime {
        recorded_time(Duration::from_secs(self.seconds))
    }

    fn to_json(&self) -> Value {
        json!({
            "path": self.origin().to_string_lossy(),
            "quarantined": self.quarantined().to_string_lossy(),
            "taken_at": rfc3339(self.taken_at()),
            "bytes": self.bytes,
            "directory": self.is_dir,
            "occupied": self.occupied,
            "recorded": self.state == QuarantineState::Unchanged,
        })
    }
}

impl QuarantineListing {
    fn of(project: &Project) -> Result<QuarantineListing, CliError> {
        let mut listing = QuarantineListing {
            records: QuarantineRecords::read(),
            ..QuarantineListing::default()
        };
        let mounts = project.ceiling().mounts().filter(|m| !m.awaits_run());
        let rules = project.personal_dirs().iter();
        let hosts = mounts.map(|mount| mount.host());
        for host in hosts.chain(rules.map(|state| state.host.as_path())) {
            if let Ok(host) = host.canonicalize() {
                let added = listing.add_mount(&host);
                added.map_err(|error| failed(&host, error))?;
            }
        }
        for entry in &mut listing.entries {
            entry.of_project = true;
        }
        Ok(listing)
    }

    /// Adds the quarantines of the directories that presets share. Directories that cannot be read
    /// are left out.
    fn add_shared_state(&mut self, ambient: &Ambient) {
        let library = setup::presets::library(ambient);
        let Some(home) = ambient.home.as_deref() else {
            return;
        };
        let sets = library.names().into_iter();
        for set in sets.filter_map(|name| library.compose(&[name]).ok()) {
            for state in set.state() {
                if let Ok(host) = home.join(&state.path).canonicalize() {
                    let _ = self.add_mount(&host);
                }
            }
        }
    }

    /// Adds the entries that forge moved to the quarantines of the directories above a path: a mount outside the
    /// project can be one of them. Other users can write some of these directories.
    fn add_around(&mut self, path: &Path) {
        let before = self.entries.len();
        for host in path.ancestors().skip(1) {
            let _ = self.add_mount(host);
        }
        let around = self.entries.split_off(before);
        let is_known = |entry: &QuarantinedItem| entry.state != QuarantineState::Unknown;
        self.entries.extend(around.into_iter().filter(is_known));
    }

    /// The recorded ones first, and the oldest of them.
    fn sort(&mut self) {
        self.entries.sort_by_cached_key(|entry| {
            let is_unknown = entry.state == QuarantineState::Unknown;
            let path = (entry.sweep.clone(), entry.path.clone());
            (is_unknown, entry.seconds, path)
        });
    }

    fn add_mount(&mut self, host: &Path) -> rustix::io::Result<()> {
        if !self.mounts.insert(host.to_owned()) {
            return Ok(());
        }
        let top = match rustix::fs::open(host, directory_flags(), Mode::empty()) {
            Ok(top) => top,
            // A mount of a single file has no quarantine.
            Err(Errno::NOTDIR | Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error),
        };
        for name in names(&top)? {
            let name = OsStr::from_bytes(name.to_bytes());
            if !name.as_bytes().starts_with(QUARANTINE.as_bytes()) {
                continue;
            }
            let all = match openat(&top, name, directory_flags(), Mode::empty()) {
                Ok(all) => all,
                Err(Errno::NOTDIR | Errno::LOOP) => continue,
                Err(error) => {
                    self.closed.push((host.join(name), error));
                    continue;
                }
            };
            for id in names(&all)? {
                let id = OsStr::from_bytes(id.to_bytes());
                let (Some(seconds), Ok(sweep)) = (
                    seconds_of(id),
                    openat(&all, id, directory_flags(), Mode::empty()),
                ) else {
                    continue;
                };
                self.add_sweep(host, &top, sweep, &Path::new(name).join(id), seconds)?;
            }
        }
        self.add_renamed(host);
        Ok(())
    }

    /// Adds the files below a mount that forge could not move to the quarantine.
    fn add_renamed(&mut self, host: &Path) {
        let renamed = self.records.renamed_below(host);
        let renamed = renamed.filter_map(|(now, own)| {
            let meta = now.symlink_metadata().ok()?;
            let (around, stored) = (now.parent()?, now.file_name()?);
            let id = stored.as_bytes().strip_prefix(QUARANTINE.as_bytes())?;
            let id = id.strip_prefix(b".")?;
            Some(QuarantinedItem {
                mount: around.to_owned(),
                of_project: false,
                sweep: PathBuf::new(),
                path: own.into(),
                stored: stored.to_owned(),
                seconds: seconds_of(OsStr::from_bytes(id))?,
                bytes: meta.len(),
                is_dir: meta.is_dir(),
                occupied: around.join(own).symlink_metadata().is_ok(),
                state: self.records.state_of(now),
            })
        });
        let known: HashSet<PathBuf> = self
            .entries
            .iter()
            .map(QuarantinedItem::quarantined)
            .collect();
        let new: Vec<_> = renamed
            .filter(|item| !known.contains(&item.quarantined()))
            .collect();
        self.entries.extend(new);
    }

    fn add_sweep(
        &mut self,
        host: &Path,
        top: &OwnedFd,
        sweep: OwnedFd,
        below: &Path,
        seconds: u64,
    ) -> rustix::io::Result<()> {
        let mut queue = vec![(sweep, top.try_clone().map_err(errno)?, PathBuf::new())];
        while let Some((taken, there, path)) = queue.pop() {
            for name in names(&taken)? {
                let stat = statat(&taken, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)?;
                let stored = OsStr::from_bytes(name.to_bytes());
                let own = original_name(stored).unwrap_or(stored);
                let path = path.join(own);
                let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
                let open = |parent: &OwnedFd| {
                    openat(parent, name.as_c_str(), directory_flags(), Mode::empty())
                };
                if is_dir && let (Ok(taken), Ok(there)) = (open(&taken), open(&there)) {
                    queue.push((taken, there, path));
                    continue;
                }
                let now = host.join(below).join(path.with_file_name(stored));
                let state = self.records.state_of(&now);
                if state == QuarantineState::Unknown {
                    self.unrecorded += 1;
                    if self.unrecorded > MAX_UNRECORDED {
                        continue;
                    }
                }
                let bytes = match is_dir {
                    true => open(&taken)
                        .and_then(|dir| remove_contents(&dir, true))
                        .map_or(0, |all| all.bytes),
                    false => u64::try_from(stat.st_size).unwrap_or_default(),
                };
                let again = statat(&there, own, AtFlags::SYMLINK_NOFOLLOW);
                self.entries.push(QuarantinedItem {
                    mount: host.to_owned(),
                    of_project: false,
                    sweep: below.to_owned(),
                    path,
                    stored: stored.to_owned(),
                    seconds,
                    bytes,
                    is_dir,
                    occupied: again.is_ok(),
                    state,
                });
            }
        }
        Ok(())
    }
}

fn list(global: &Global, listing: &QuarantineListing) -> Result<ExitKind, CliError> {
    if global.json {
        let entries = listing.entries.iter();
        let entries: Vec<Value> = entries.map(QuarantinedItem::to_json).collect();
        print_json(&json!({ "entries": entries }))?;
        return Ok(ExitKind::Done);
    }
    if listing.entries.is_empty() && listing.closed.is_empty() {
        print_line("The quarantine is empty.")?;
    }
    for entry in &listing.entries {
        let slash = if entry.is_dir { "/" } else { "" };
        let again = match entry.occupied {
            true => "  (exists again)",
            false => "",
        };
        let doubt = match entry.state {
            QuarantineState::Unchanged => "",
            QuarantineState::Changed => "\n  changed since it was taken: forge does not restore it",
            QuarantineState::Unknown => {
                "\n  not moved there by forge, as far as it knows: a command may have made it"
            }
        };
        print_line(format_args!(
            "{}  {:>9} bytes  {}{slash}{again}\n  now {}{doubt}",
            local_time(entry.taken_at()),
            entry.bytes,
            escape_path(&entry.origin()),
            escape_path(&entry.quarantined()),
        ))?;
    }
    Ok(ExitKind::Done)
}

/// Returns the entries of these paths, or all.
fn choose<'a>(
    global: &Global,
    listing: &'a QuarantineListing,
    paths: &[PathBuf],
    all: bool,
) -> Result<Vec<&'a QuarantinedItem>, CliError> {
    let mut chosen: Vec<&QuarantinedItem> = Vec::new();
    if all {
        chosen.extend(listing.entries.iter().filter(|entry| entry.of_project));
    }
    for path in paths {
        let path = absolute(global, path)?;
        let before = chosen.len();
        chosen.extend(listing.entries.iter().filter(|entry| {
            entry.origin().starts_with(&path) || entry.quarantined().starts_with(&path)
        }));
        if chosen.len() == before {
            return Err(CliError::negative(
                "quarantine.unknown",
                format!(
                    "nothing in the quarantine was taken from {}",
                    escape_path(&path)
                ),
            )
            .hint("see what there is: forge quarantine list"));
        }
    }
    Ok(chosen)
}

/// Removes the entries after a yes.
fn discard(
    chosen: &[&QuarantinedItem],
    yes: bool,
    ambient: &Ambient,
) -> Result<ExitKind, CliError> {
    if !(yes || chosen.is_empty()) {
        confirm_discard(chosen, ambient)?;
    }
    let mut discarded = Vec::new();
    for entry in chosen {
        remove(entry).map_err(|error| failed(&entry.quarantined(), error))?;
        if !ambient.global.json {
            print_line(format!("discarded {}", escape_path(&entry.origin())))?;
        }
        discarded.push(entry.origin().to_string_lossy().into_owned());
    }
    match (ambient.global.json, discarded.is_empty()) {
        (true, _) => print_json(&json!({ "discarded": discarded }))?,
        (false, true) => print_line("The quarantine is empty.")?,
        (false, false) => {}
    }
    Ok(ExitKind::Done)
}

/// Shows the entries, and asks whether to remove them. The error of an answer other than yes.
fn confirm_discard(chosen: &[&QuarantinedItem], ambient: &Ambient) -> Result<(), CliError> {
    let hint = "pass --yes to remove it without a question";
    setup::require_person(ambient, " whether to remove this", hint)?;
    for entry in chosen {
        stderr::print(escape_path(&entry.quarantined()));
    }
    let what = match chosen {
        [_] => "this entry".to_owned(),
        several => format!("these {} entries", several.len()),
    };
    let ask = || {
        let mut terminal = PromptTerminal::Standard;
        terminal.await_pause(None, None)?;
        terminal.write(&format!("Remove {what} for good? [y/N] "))?;
        let line = terminal.read_line(None, None)?;
        Ok(matches!(line, InputLine::Text(line) if matches!(line.trim(), "y" | "Y" | "yes")))
    };
    let asked: std::io::Result<bool> = ask();
    match asked {
        Ok(true) => Ok(()),
        Ok(false) => Err(CliError::negative("quarantine.kept", "nothing was removed")),
        Err(error) => Err(CliError::negative("terminal", error.to_string())),
    }
}

fn restore(
    global: &Global,
    listing: &QuarantineListing,
    paths: &[PathBuf],
    all: bool,
    starts: Option<&StartLock>,
) -> Result<ExitKind, CliError> {
    let mut chosen = choose(global, listing, paths, all)?;
    let named: Result<Vec<PathBuf>, CliError> =
        paths.iter().map(|path| absolute(global, path)).collect();
    let named = named?;
    chosen.retain(|entry| is_recorded(entry) || is_named(entry, &named));
    check(&chosen)?;
    for entry in &chosen {
        let origin = entry.origin();
        let writers = starts.iter().flat_map(|starts| starts.writers_of(&origin));
        RESTORE.check(&origin, writers)?;
    }
    let mut restored = Vec::new();
    for entry in chosen {
        move_back(entry).map_err(|error| {
            let path = entry.quarantined();
            let failure = failed(&path, error);
            match entry.is_dir && error == Errno::ACCESS {
                true => failure.hint(format!(
                    "open the directory first: chmod -R u+rwx {}",
                    shell_word(&path.to_string_lossy())
                )),
                false => failure,
            }
        })?;
        if !global.json {
            print_line(format_args!("restored {}", escape_path(&entry.origin())))?;
        }
        restored.push(entry.origin().to_string_lossy().into_owned());
    }
    match (global.json, restored.is_empty()) {
        (true, _) => print_json(&json!({ "restored": restored }))?,
        (false, true) if !listing.entries.is_empty() => print_line("Nothing was restored.")?,
        (false, true) => print_line("The quarantine is empty.")?,
        (false, false) => {}
    }
    Ok(ExitKind::Done)
}

/// Returns `false` for an entry that a command can have made itself.
fn is_recorded(entry: &QuarantinedItem) -> bool {
    entry.state != QuarantineState::Unknown
}

/// Returns `true` for an entry without a record that a person has named: not a directory above it,
/// where a command can hide others. Tells the person either way.
fn is_named(entry: &QuarantinedItem, named: &[PathBuf]) -> bool {
    let is_named = named.contains(&entry.origin()) || named.contains(&entry.quarantined());
    let path = escape_path(&entry.quarantined());
    match is_named {
        true => stderr::print(format_args!(
            "warning: no record says that forge moved {path} there: a command may have made it"
        )),
        false => stderr::print(format_args!(
            "warning: {path} stays: no record says that forge moved it there; name it to restore it"
        )),
    }
    is_named
}

/// All of them can be moved, or none is.
fn check(chosen: &[&QuarantinedItem]) -> Result<(), CliError> {
    let is_changed = |entry: &&&QuarantinedItem| entry.state == QuarantineState::Changed;
    if let Some(entry) = chosen.iter().find(is_changed) {
        let path = escape_path(&entry.quarantined());
        let text = format!("{path} was changed since it was taken: nothing was moved");
        return Err(CliError::negative("quarantine.changed", text)
            .hint("look at it once more, and move it yourself, or discard it"));
    }
    let refused = |message: String| CliError::negative("quarantine.occupied", message);
    if let Some(entry) = chosen.iter().find(|entry| entry.occupied) {
        return Err(refused(format!(
            "{} exists again: nothing was moved",
            escape_path(&entry.origin())
        ))
        .hint(format!(
            "compare it with {}",
            escape_path(&entry.quarantined())
        )));
    }
    for entry in chosen {
        let same = chosen
            .iter()
            .filter(|other| other.origin() == entry.origin());
        let same: Vec<String> = same
            .map(|other| escape_path(&other.quarantined()).to_string())
            .collect();
        if same.len() > 1 {
            return Err(refused(format!(
                "{} was taken more than once: nothing was moved",
                escape_path(&entry.origin())
            ))
            .hint(format!("name one of them: {}", same.join(" or "))));
        }
    }
    Ok(())
}

/// Moves it back, and removes directories that are empty then.
fn move_back(entry: &QuarantinedItem) -> rustix::io::Result<()> {
    let mount = rustix::fs::open(&entry.mount, directory_flags(), Mode::empty())?;
    let (Some(name), Some(parent)) = (entry.path.file_name(), entry.path.parent()) else {
        return Err(Errno::INVAL);
    };
    let there = open_below(mount.as_fd(), parent)?;
    let taken = open_below(mount.as_fd(), &entry.sweep.join(parent))?;
    // While it is in the quarantine: a failure leaves it there, to be restored once more. By another
    // name a command could change the file that the person has looked at.
    separate_names(taken.as_fd(), &entry.stored).map_err(errno)?;
    if entry.is_dir {
        name_again(&open_below(taken.as_fd(), Path::new(&entry.stored))?)?;
    }
    renameat_with(&taken, &*entry.stored, &there, name, RenameFlags::NOREPLACE)?;
    remove_empty(&mount, entry);
    Ok(())
}

/// Gives the names of repositories back that the quarantine changed.
fn name_again(top: &OwnedFd) -> rustix::io::Result<()> {
    let mut queue = vec![PathBuf::new()];
    while let Some(path) = queue.pop() {
        let directory = open_below(top.as_fd(), &path)?;
        for name in names(&directory)? {
            let stat = statat(&directory, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)?;
            let name = OsStr::from_bytes(name.to_bytes());
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                queue.push(path.join(name));
            } else if let Some(own) = original_name(name) {
                renameat_with(&directory, name, &directory, own, RenameFlags::NOREPLACE)?;
            }
        }
    }
    Ok(())
}

/// Removes an entry with everything in it, and directories that are empty then.
fn remove(entry: &QuarantinedItem) -> rustix::io::Result<()> {
    let mount = rustix::fs::open(&entry.mount, directory_flags(), Mode::empty())?;
    let Some(parent) = entry.path.parent() else {
        return Err(Errno::INVAL);
    };
    let taken = open_below(mount.as_fd(), &entry.sweep.join(parent))?;
    remove_entry(&taken, &entry.stored)?;
    remove_empty(&mount, entry);
    Ok(())
}

/// Directories that hold something stay, and one that cannot be removed is harmless.
fn remove_empty(mount: &OwnedFd, entry: &QuarantinedItem) {
    let left = entry.sweep.join(&entry.path);
    for path in left.ancestors().skip(1) {
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else {
            return;
        };
        let Ok(parent) = open_below(mount.as_fd(), parent) else {
            return;
        };
        if path == entry.sweep {
            let _ = unlinkat(&parent, name, AtFlags::REMOVEDIR);
            let only_ignored = names(&parent).is_ok_and(|names| {
                let mut names = names.iter();
                names.all(|name| name.to_bytes() == IGNORE.as_bytes())
            });
            if only_ignored {
                let _ = unlinkat(&parent, IGNORE, AtFlags::empty());
            }
            continue;
        }
        if unlinkat(&parent, name, AtFlags::REMOVEDIR).is_err() {
            return;
        }
    }
}

/// Resolves a typed path from the caller's directory. The last name may not exist.
fn absolute(global: &Global, path: &Path) -> Result<PathBuf, CliError> {
    let base = global.directory.as_deref().unwrap_or(Path::new("."));
    let typed = std::path::absolute(base.join(path))
        .map_err(|error| CliError::usage(format!("{}: {error}", escape_path(path))))?;
    let mut known = typed.as_path();
    loop {
        if let Ok(real) = known.canonicalize() {
            let rest = typed.strip_prefix(known).unwrap_or(Path::new(""));
            return Ok(real.join(rest).components().collect());
        }
        match known.parent() {
            Some(parent) => known = parent,
            None => return Ok(typed),
        }
    }
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Of the name of a sweep: `SECONDS-NANOSECONDS-PID`.
fn seconds_of(id: &OsStr) -> Option<u64> {
    id.to_str()?.split('-').next()?.parse().ok()
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

fn failed(path: &Path, error: Errno) -> CliError {
    CliError::negative("quarantine", format!("{}: {error}", escape_path(path)))
}
