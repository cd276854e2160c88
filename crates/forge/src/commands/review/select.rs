//! Words of a command line as paths of a review.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use forge_review::{ChangeSelection, MountedPath, RunReview, TreePath};

use super::unknown;
use crate::cli::{ApplyArgs, Global};
use crate::exit::CliError;
use crate::output::escape::escape;

/// Returns the paths that words name.
pub(super) fn paths(
    global: &Global,
    review: &RunReview,
    words: &[OsString],
) -> Result<Vec<MountedPath>, CliError> {
    words
        .iter()
        .map(|word| path(global, review, word))
        .collect()
}

/// Reads a path from the caller's directory, or as it is listed.
fn path(global: &Global, review: &RunReview, word: &OsStr) -> Result<MountedPath, CliError> {
    let has_change = |(mount, path): &MountedPath| {
        let mut changes = review.changes();
        changes.any(|(m, change)| m == *mount && change.path.starts_with(path))
    };
    let mut readings = below_mounts(global, review, Path::new(word))?;
    readings.extend(as_listed(review, Path::new(word)));
    readings.into_iter().find(has_change).ok_or_else(|| {
        unknown(format!(
            "{}: the run did not change it, or the change is applied",
            escape(&word.to_string_lossy())
        ))
        .hint("`forge review show` lists the changes")
    })
}

/// Returns the readings of a path of the host. Links on the way are followed, the last name is not.
fn below_mounts(
    global: &Global,
    review: &RunReview,
    word: &Path,
) -> Result<Vec<MountedPath>, CliError> {
    let base = global.directory.as_deref().unwrap_or(Path::new("."));
    let base = base.canonicalize().map_err(|error| {
        CliError::usage(format!("{}: {error}", escape(&base.to_string_lossy())))
    })?;
    let mut typed = PathBuf::new();
    for component in base.join(word).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                typed.pop();
            }
            other => typed.push(other),
        }
    }
    let mounts = review.mounts.iter().enumerate();
    let readings = mounts.filter_map(|(mount, known)| {
        let host = known
            .host
            .canonicalize()
            .unwrap_or_else(|_| known.host.clone());
        let below = typed
            .strip_prefix(&host)
            .or_else(|_| typed.strip_prefix(&known.host));
        Some((mount, TreePath::parse(below.ok()?)?))
    });
    Ok(readings.collect())
}

/// Returns the reading of a path as lists print it.
fn as_listed(review: &RunReview, word: &Path) -> Option<MountedPath> {
    let path = TreePath::parse(word)?;
    let [_] = review.mounts.as_slice() else {
        let (first, _) = path.names().split_first()?;
        let mut mounts = review.mounts.iter();
        let mount = mounts.position(|mount| mount.name.as_str() == first)?;
        return Some((mount, TreePath::parse(word.strip_prefix(first).ok()?)?));
    };
    Some((0, path))
}

/// Returns the selection of `forge review apply`.
pub(super) fn selection(
    global: &Global,
    review: &RunReview,
    words: &[OsString],
    args: &ApplyArgs,
) -> Result<ChangeSelection, CliError> {
    let mut hunks: BTreeMap<MountedPath, BTreeSet<usize>> = BTreeMap::new();
    for word in &args.hunks {
        let (at, numbers) = hunk(word)?;
        hunks
            .entry(path(global, review, at)?)
            .or_default()
            .extend(numbers);
    }
    Ok(ChangeSelection {
        all: words.is_empty() && hunks.is_empty(),
        paths: paths(global, review, words)?,
        hunks,
        protected: paths(global, review, &args.include_protected)?,
    })
}

/// Reads `PATH:N,N`.
fn hunk(word: &OsStr) -> Result<(&OsStr, Vec<usize>), CliError> {
    let refused = || {
        let shown = escape(&word.to_string_lossy());
        CliError::usage(format!(
            "invalid hunk `{shown}`: expected PATH:N or PATH:N,N"
        ))
    };
    let bytes = word.as_bytes();
    let colon = bytes
        .iter()
        .rposition(|byte| *byte == b':')
        .ok_or_else(refused)?;
    let (path, numbers) = (&bytes[..colon], &bytes[colon + 1..]);
    let numbers = std::str::from_utf8(numbers).map_err(|_| refused())?;
    let numbers: Result<Vec<usize>, _> = numbers.split(',').map(str::parse).collect();
    match (path, numbers) {
        ([], _) | (_, Err(_)) => Err(refused()),
        (path, Ok(numbers)) => Ok((OsStr::from_bytes(path), numbers)),
    }
}
