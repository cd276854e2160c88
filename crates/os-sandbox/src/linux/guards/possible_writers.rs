//! Commands that may have written a file, by the records of the commands that run ([`running`]).
//!
//! Entry point: [`find_possible_writer`]. A file is another's only if a record says that it was there
//! before the command, and the command could not change it or has not.
//!
//! [`running`]: super::running

use super::command_text::{NameFact, RecordedCommand};
use super::running::{content_hash, identity_text, is_older};
use super::state::{StateDir, candidates};
use crate::policy::Pattern;
use crate::writers::{FoundFile, PossibleWriter};
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Returns a command of this user that runs, and may have made, changed or removed a file with a
/// protected name. `further_states` are state directories beside the usual ones. A command that was
/// started without a record, or is recorded in another state directory, is not found; one whose record
/// cannot be read may have written each file that has changed since it started.
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
    let states = candidates(None).into_iter();
    let states = states.chain(further_states.iter().cloned());
    let records = states.flat_map(|state| StateDir::at(state).command_records());
    let mut running = records.filter_map(RecordedCommand::read_running);
    running.find_map(|record| {
        if is_agreed(&record, &place) {
            return None;
        }
        match &target {
            None => writer(&record, &place, found),
            Some(target) => {
                writer(&record, &place, FoundFile::Name).or_else(|| writer(&record, target, found))
            }
        }
    })
}

/// Returns the command, if it may have written the file.
fn writer(record: &RecordedCommand, path: &Path, found: FoundFile<'_>) -> Option<PossibleWriter> {
    let text = &record.text;
    let top = &text.top_of(path)?.host;
    let is_other = match found {
        FoundFile::Content(meta, content) => {
            text.has_value(path, NameFact::Hash, &content_hash(content))
                || is_held(record, path, meta)
                || is_untouched(record, top, path)
        }
        FoundFile::Name => {
            let names = [NameFact::There, NameFact::Config, NameFact::Bare];
            let links = [NameFact::Link, NameFact::Pointer];
            names.iter().any(|fact| text.has_below(path, *fact))
                || links.iter().any(|fact| text.has(path, *fact))
                || is_untouched(record, top, path)
        }
        // A placeholder was none of the person's.
        FoundFile::Absent => {
            !text.has(path, NameFact::Hash)
                || (path.symlink_metadata()).is_ok_and(|meta| meta.file_type().is_socket())
        }
    };
    (!is_other).then(|| PossibleWriter {
        process: Some(text.process).filter(|process| *process != 0),
        mount: top.clone(),
    })
}

/// Returns `true` if a person has agreed that the command writes files of this name.
fn is_agreed(record: &RecordedCommand, path: &Path) -> bool {
    let Some(top) = (record.text.top_of(path)).filter(|_| !path.ends_with(".git")) else {
        return false;
    };
    let below = path.strip_prefix(&top.host).unwrap_or(path);
    let protects = |text: &String| Pattern::parse(text).is_ok_and(|pattern| pattern.ends(below));
    !record.text.is_unknown() && !top.protect.iter().any(protects)
}

/// Returns `true` for the file over which a mount is since before the start: the command cannot
/// change it.
fn is_held(record: &RecordedCommand, path: &Path, meta: &Metadata) -> bool {
    let identity = Some((meta.dev(), meta.ino(), meta.created().ok()));
    let text = &record.text;
    text.has_mounts()
        && text.is_this_boot()
        && text.has_value(path, NameFact::Identity, &identity_text(&identity))
}

/// Returns `true` if neither the file nor a directory on the way to it has changed since the start.
fn is_untouched(record: &RecordedCommand, top: &Path, path: &Path) -> bool {
    let mut on_the_way = path.ancestors().take_while(|part| *part != top);
    on_the_way.all(|part| is_older(part, record.started))
}
