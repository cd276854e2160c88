//! Commands that may have written a file, by the records of the commands that run ([`running`]).
//!
//! Entry point: [`find_possible_writer`]. A file is another's only if a record says that it was there
//! before the command, and the command could not change it or has not.
//!
//! [`running`]: super::running

use super::names::Held;
use super::running::{LAST, MAX_RECORD_BYTES, MAX_RECORDS, PREFIX, content_hash, is_older};
use super::state::{candidates, options};
use crate::policy::Pattern;
use crate::state_dir::boot;
use crate::writers::{FoundFile, PossibleWriter};
use sandbox_names::{hex, unhex};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns a command of this user that runs, and may have made, changed or removed a file with a
/// protected name. `further_states` are state directories beside the usual ones. A command that was
/// started without a record, or is recorded in another state directory, is not found.
///
/// ```
/// use os_sandbox::{FoundFile, find_possible_writer};
/// assert!(find_possible_writer("/nowhere/file".as_ref(), FoundFile::Absent, &[]).is_none());
/// ```
#[must_use]
pub fn find_possible_writer(
    path: &Path,
    found: FoundFile<'_>,
    further_states: &[PathBuf],
) -> Option<PossibleWriter> {
    let place = path.parent()?.canonicalize().ok()?.join(path.file_name()?);
    // Why first: a command makes the link, and a person's file is behind it.
    let target = place.canonicalize().ok().filter(|target| *target != place);
    for state in candidates(None).iter().chain(further_states) {
        let entries = fs::read_dir(state).into_iter().flatten().flatten();
        for entry in entries.take(MAX_RECORDS) {
            let name = entry.file_name();
            if !name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
                continue;
            }
            let Some(record) = CommandRecordText::read(&entry.path()) else {
                continue;
            };
            if record.is_agreed(&place) {
                continue;
            }
            let writer = match &target {
                None => record.writer(&place, found),
                Some(target) => (record.writer(&place, FoundFile::Name))
                    .or_else(|| record.writer(target, found)),
            };
            if writer.is_some() {
                return writer;
            }
        }
    }
    None
}

/// The record of a command that runs, as it was written.
struct CommandRecordText {
    text: String,
    started: SystemTime,
}

impl CommandRecordText {
    /// Returns `None` for a record whose command has ended, was killed or was not started. Why not after a
    /// kill: the record stays until a start with all of its mounts, and a person edits files meanwhile.
    fn read(path: &Path) -> Option<CommandRecordText> {
        let file = options().open(path).ok()?;
        let meta = file.metadata().ok().filter(Metadata::is_file)?;
        let mut text = String::new();
        let mut bounded = (&file).take(MAX_RECORD_BYTES as u64 + 1);
        bounded.read_to_string(&mut text).ok()?;
        let is_running = file.try_lock_shared().is_err();
        let is_there = file.metadata().is_ok_and(|meta| meta.nlink() > 0);
        (text.ends_with(LAST) && is_there && is_running).then(|| CommandRecordText {
            text,
            started: meta.modified().unwrap_or(UNIX_EPOCH),
        })
    }

    fn lines<'r>(&'r self, kind: &'r str) -> impl Iterator<Item = Vec<&'r str>> {
        let lines = self.text.lines().map(|line| line.split(' ').collect());
        lines.filter(move |words: &Vec<&str>| words[0] == kind)
    }

    fn has(&self, start: &str, path: &Path, end: &str) -> bool {
        let path = hex(path.as_os_str().as_bytes());
        self.text.contains(&format!("\n{start} {path}{end}"))
    }

    /// Returns the command, if it may have written the file.
    fn writer(&self, path: &Path, found: FoundFile<'_>) -> Option<PossibleWriter> {
        let top = self.top_of(path)?;
        let is_other = match found {
            FoundFile::Content(meta, content) => {
                self.has("h", path, &format!(" {}\n", content_hash(content)))
                    || self.is_same(path, meta)
                    || self.is_older(&top, path)
            }
            FoundFile::Name => {
                let is_listed = |kind| self.has(kind, path, "\n") || self.has(kind, path, "2f");
                let is_link = self.has("l", path, " ") || self.has("w", path, " ");
                ["p", "c", "b"].into_iter().any(is_listed) || is_link || self.is_older(&top, path)
            }
            // A placeholder was none of the person's.
            FoundFile::Absent => {
                !self.has("h", path, " ")
                    || (path.symlink_metadata()).is_ok_and(|meta| meta.file_type().is_socket())
            }
        };
        let broker = self.lines("x").next();
        (!is_other).then(|| PossibleWriter {
            process: broker.and_then(|words| words.get(1)?.parse().ok()),
            mount: top,
        })
    }

    /// Returns the innermost directory around a path that the command may change.
    fn top_of(&self, path: &Path) -> Option<PathBuf> {
        let tops = self.lines("m").filter_map(|words| {
            let top = PathBuf::from(OsString::from_vec(unhex(words.get(1)?)?));
            path.starts_with(&top).then_some(top)
        });
        tops.max_by_key(|top| top.as_os_str().len())
    }

    /// Returns `true` if a person has agreed that the command writes files of this name.
    fn is_agreed(&self, path: &Path) -> bool {
        let Some(top) = self.top_of(path).filter(|_| !path.ends_with(".git")) else {
            return false;
        };
        let of_mount = hex(top.as_os_str().as_bytes());
        let mut lines = self.lines("y");
        let line = lines.find(|words| words.get(1) == Some(&&*of_mount));
        let patterns = line.and_then(|words| String::from_utf8(unhex(words.get(2)?)?).ok());
        // Another version of forge wrote a record without them.
        patterns.is_some_and(|patterns| {
            let below = path.strip_prefix(&top).unwrap_or(path);
            let mut patterns = patterns.lines().filter_map(|one| Pattern::parse(one).ok());
            !patterns.any(|pattern| pattern.ends(below))
        })
    }

    /// Returns `true` for the file over which a mount is since before the start: the command cannot
    /// change it.
    fn is_same(&self, path: &Path, meta: &Metadata) -> bool {
        let is_held = self
            .lines("x")
            .next()
            .is_some_and(|words| words.get(2) == Some(&&*format!("{:?}", Held::ByMounts)));
        let identity = Some((meta.dev(), meta.ino(), meta.created().ok()));
        let identity = hex(format!("{identity:?}").as_bytes());
        let is_this_boot = self.text.lines().nth(1) == Some(&boot());
        is_held && is_this_boot && self.has("n", path, &format!(" {identity}\n"))
    }

    /// Returns `true` if neither the file nor a directory on the way to it has changed since the start.
    fn is_older(&self, top: &Path, path: &Path) -> bool {
        let mut on_the_way = path.ancestors().take_while(|part| *part != top);
        on_the_way.all(|part| is_older(part, self.started))
    }
}
