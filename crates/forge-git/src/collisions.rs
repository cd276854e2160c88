//! Names that are equal to some file system. A tree is foreign and may have any number of them at
//! any depth, so of it only the names near our own paths are kept in memory.

use std::collections::{HashMap, HashSet};

use forge_tools::escape_controls;

use super::error::{GitError, GitErrorKind, refused};
use super::repo_path::{RepoPath, folded};
use super::repositories::TreeEntry;

/// One name of a path of ours, below the one before.
struct KnownName<'a> {
    /// From the top down to it, as it is spelled.
    part: &'a str,
    /// The path of ours that it is of.
    path: &'a RepoPath,
    is_file: bool,
    told: bool,
}

/// Rejects two paths that are equal to a file system that ignores case or composes characters, and
/// a file where another one needs a directory. The flag of each of our paths says if it stays.
/// Returns the mistakes, one line each.
pub(super) fn collisions(paths: &[(&RepoPath, bool)], tree: &[TreeEntry]) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut complain = |path: &RepoPath, other: &str| {
        let other = escape_controls(other);
        complaints.push(format!(
            "'{path}' and '{other}' cannot both be there on every file system."
        ));
    };
    let mut names: Vec<KnownName<'_>> = Vec::new();
    // By the name above, none at the top.
    let mut below: HashMap<(Option<usize>, String), usize> = HashMap::new();
    for (path, _) in paths.iter().filter(|(_, stays)| *stays) {
        let mut above = None;
        for (part, name, is_file) in parts(path.as_str()) {
            let new = names.len();
            let at = *below.entry((above, folded(name))).or_insert(new);
            match names.get(at) {
                None => names.push(KnownName {
                    part,
                    path,
                    is_file,
                    told: false,
                }),
                Some(known) if known.part != part || known.is_file || is_file => {
                    complain(path, known.part);
                    break;
                }
                Some(_) => {}
            }
            above = Some(at);
        }
    }
    let ours: HashSet<&str> = paths.iter().map(|(path, _)| path.as_str()).collect();
    let others = tree.iter().map(|entry| entry.path.as_str());
    for path in others.filter(|path| !ours.contains(path)) {
        let mut above = None;
        for (part, name, is_file) in parts(path) {
            let at = below.get(&(above, folded(name))).copied();
            let Some((at, known)) = at.and_then(|at| Some((at, names.get_mut(at)?))) else {
                break;
            };
            if known.part != part || known.is_file || is_file {
                if !std::mem::replace(&mut known.told, true) {
                    complain(known.path, part);
                }
                break;
            }
            above = Some(at);
        }
    }
    complaints
}

/// The kind of error that they are.
pub(super) fn check_collisions(
    paths: &[(&RepoPath, bool)],
    tree: &[TreeEntry],
) -> Result<(), GitError> {
    refused(GitErrorKind::Refused, collisions(paths, tree))
}

/// Each name of a path: the path down to it, itself, and whether it is the last.
fn parts(path: &str) -> impl Iterator<Item = (&str, &str, bool)> {
    let ends = path.match_indices('/').map(|(at, _)| (at, false));
    let mut begin = 0;
    ends.chain([(path.len(), true)]).map(move |(end, is_file)| {
        let name = &path[begin..end];
        begin = end + 1;
        (&path[..end], name, is_file)
    })
}
