//! Repositories that are not called `.git`. Git recognizes any directory with these names as a
//! repository, even without an option, and then obeys its configuration: a command could make a
//! repository of a directory, or of the mount itself, which a person's next `git status` (or
//! prompt) uses.
//!
//! <https://git-scm.com/docs/git-config#Documentation/git-config.txt-safebareRepository>

use super::repository;
use crate::policy::{Git, Pattern, Policy};
use rustix::fs::FileType;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Directories of a repository in which git follows links when it writes.
const WRITTEN: [&str; 4] = ["logs", "refs", "objects", "worktrees"];

/// Returns `true` if a policy is about repositories at all.
pub(crate) fn matters(policy: &Policy, protect: &[Pattern]) -> bool {
    let of_git = |pattern: &Pattern| pattern.each_name().next() == Some(".git");
    !protect.is_empty() && (policy.git() != Git::Unaware || protect.iter().any(of_git))
}

/// Returns `true` if git writes in this directory of a repository. Git never creates a link there
/// itself, and follows existing ones: a link `logs/HEAD` redirects the writes of a person's next
/// commit to its target.
pub(crate) fn is_part(directory: &Path, bare: &[PathBuf]) -> bool {
    let of = |git: &PathBuf| {
        directory.strip_prefix(git).is_ok_and(|rest| {
            let first = rest.iter().next();
            first.is_none_or(|first| WRITTEN.iter().any(|name| first == *name))
        })
    };
    directory.iter().any(|name| name == ".git") || bare.iter().any(of)
}

/// Returns the names in a directory that git executes or obeys there, and links, if git recognizes
/// the directory as a repository; `None` if it does not. The names alone decide: git checks little
/// more. `whole` says that everything in the directory is git's.
pub(crate) fn parts_of_git_dir<'e>(
    policy: &Policy,
    whole: bool,
    entries: impl Iterator<Item = &'e (OsString, FileType)> + Clone,
) -> Option<Vec<(OsString, FileType)>> {
    let has = |wanted: &str| entries.clone().any(|(name, _)| name == wanted);
    // Why: the first look decides for nearly every directory of a large project.
    if !(has("HEAD") && (has("commondir") || has("objects") && has("refs"))) {
        return None;
    }
    let is_part = |(name, kind): &&(OsString, FileType)| {
        repository::keeps_at_top(policy, name, whole)
            || repository::is_state(name)
            || kind.is_symlink()
    };
    Some(entries.clone().filter(is_part).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_links_are_followed() {
        let bare = [PathBuf::from(""), PathBuf::from("a/b.git")];
        for (directory, part) in [
            ("", true),
            ("logs/refs", true),
            ("src", false),
            ("a/b.git", true),
            ("a/b.git/refs/heads", true),
            ("a/b.git/src", false),
            ("c/.git", true),
            ("c/.git/modules/x/logs", true),
            ("c/d.git", false),
        ] {
            assert_eq!(is_part(Path::new(directory), &bare), part, "{directory}");
        }
    }

    #[test]
    fn every_link_of_a_repository_is_a_part() {
        let policy = Policy::builder().git(Git::Commit).build().unwrap();
        let entry = |name: String, kind| (OsString::from(name), kind);
        let links = (0..3000).map(|number| entry(format!("l{number}"), FileType::Symlink));
        let mut entries: Vec<_> = links.collect();
        let parts = |entries: &[(OsString, FileType)]| {
            parts_of_git_dir(&policy, false, entries.iter()).map(|parts| parts.len())
        };
        for name in ["objects", "refs", "config", "src"] {
            entries.push(entry(name.to_owned(), FileType::Directory));
        }
        assert_eq!(parts(&entries), None);
        entries.push(entry("HEAD".to_owned(), FileType::RegularFile));
        // The links and `config`.
        assert_eq!(parts(&entries), Some(3001));
        entries.retain(|(name, _)| name != "refs");
        assert_eq!(parts(&entries), None);
        entries.push(entry("commondir".to_owned(), FileType::RegularFile));
        assert_eq!(parts(&entries), Some(3002));
    }
}
