//! Repositories that are not called `.git`. Git takes any directory for one that has these names,
//! also without being told to, and then obeys its configuration: a command could make one of a
//! directory, or of the mount itself, for a person's next `git status` (or prompt) to run into.
//!
//! <https://git-scm.com/docs/git-config#Documentation/git-config.txt-safebareRepository>

use super::repository;
use crate::policy::{Git, Pattern, Policy};
use rustix::fs::FileType;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Where git follows links when it writes, below a repository's directory.
const WRITTEN: [&str; 4] = ["logs", "refs", "objects", "worktrees"];

/// Returns `true` if a policy is about repositories at all.
pub(super) fn matters(policy: &Policy, protect: &[Pattern]) -> bool {
    let of_git = |pattern: &Pattern| pattern.each_name().next() == Some(".git");
    !protect.is_empty() && (policy.git() != Git::Unaware || protect.iter().any(of_git))
}

/// Returns `true` if a directory is a part of a repository in which git writes. It never makes a
/// link there itself, and follows those it finds: a link `logs/HEAD` has a person's next commit
/// written wherever it leads.
pub(super) fn is_part(directory: &Path, bare: &[PathBuf]) -> bool {
    let of = |git: &PathBuf| {
        directory.strip_prefix(git).is_ok_and(|rest| {
            let first = rest.iter().next();
            first.is_none_or(|first| WRITTEN.iter().any(|name| first == *name))
        })
    };
    directory.iter().any(|name| name == ".git") || bare.iter().any(of)
}

/// What of a repository one directory's listing has.
pub(super) struct GitDirMarkers<'p> {
    policy: &'p Policy,
    /// In a `.git`, where everything is git's.
    whole: bool,
    head: bool,
    objects: bool,
    refs: bool,
    elsewhere: bool,
    parts: Vec<(OsString, FileType)>,
}

impl<'p> GitDirMarkers<'p> {
    pub(super) fn of(policy: &'p Policy, whole: bool) -> GitDirMarkers<'p> {
        GitDirMarkers {
            policy,
            whole,
            head: false,
            objects: false,
            refs: false,
            elsewhere: false,
            parts: Vec::new(),
        }
    }

    pub(super) fn see(&mut self, name: &OsStr, kind: FileType) {
        match name.to_str().unwrap_or_default() {
            "HEAD" => self.head = true,
            "objects" => self.objects = true,
            "refs" => self.refs = true,
            "commondir" => self.elsewhere = true,
            _ => {}
        }
        let kept =
            repository::keeps_at_top(self.policy, name, self.whole) || repository::is_state(name);
        let link = kind.is_symlink() && self.parts.len() < 1000;
        if kept || link {
            self.parts.push((name.to_owned(), kind));
        }
    }

    /// What git executes or obeys there, and links, if git takes it for a repository. By names
    /// alone: git asks for little more.
    pub(super) fn parts(self) -> Option<Vec<(OsString, FileType)>> {
        let whole = self.head && (self.objects && self.refs || self.elsewhere);
        whole.then_some(self.parts)
    }
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
}
