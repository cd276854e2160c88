//! Audit of a repository that a command created (`git init`, `git clone`, `cargo new`): which of
//! its protected files can stay. Everything is read by descriptor, never through a link.

use super::super::below::{self, kind};
use crate::git_config::{self, MAX_BYTES};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, SFlag};
use sandbox_names::git::{GitPathClass, OBEYED, classify};
use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Bound on the entries of one directory.
const MAX_LISTED: usize = 1000;

/// Returns the reason why `name` in `parent`, a part of a repository or a whole repository, is
/// harmful.
pub(crate) fn harm(parent: BorrowedFd<'_>, name: &OsStr) -> Option<String> {
    let what = match below::look(parent, name) {
        Ok(stat) => kind(&stat),
        Err(errno) => return Some(format!("it cannot be looked at: {}", errno.desc())),
    };
    match (name.to_str(), what) {
        (Some("config" | "config.worktree"), SFlag::S_IFREG) => {
            content(parent, name, git_config::config)
        }
        (Some("hooks"), SFlag::S_IFDIR) => each(parent, name, |_, hook, what| {
            let sample = hook.as_bytes().ends_with(b".sample") && what == SFlag::S_IFREG;
            (!sample).then(|| format!("it has the hook {}", hook.display()))
        }),
        (Some(".gitmodules"), SFlag::S_IFREG) => content(parent, name, git_config::modules),
        (Some("alternates" | "http-alternates"), SFlag::S_IFREG) => {
            let elsewhere = |bytes: &[u8]| {
                (!bytes.is_empty()).then(|| "it takes objects from elsewhere".to_owned())
            };
            content(parent, name, elsewhere)
        }
        // Their files redirected git before it had configuration.
        (Some("remotes" | "branches"), SFlag::S_IFDIR) => each(parent, name, |_, file, _| {
            Some(format!("it has {}", file.display()))
        }),
        (Some("info"), SFlag::S_IFDIR) => each(parent, name, |info, file, what| {
            match (file.to_str(), what) {
                (Some("exclude" | "refs" | "sparse-checkout"), SFlag::S_IFREG) => None,
                (Some("attributes"), SFlag::S_IFREG) => content(info, file, git_config::attributes),
                _ => Some(format!("it has {}", file.display())),
            }
        }),
        (Some(".git"), SFlag::S_IFDIR) => each(parent, name, |git, part, what| {
            let part_name = part.to_str().unwrap_or_default();
            if OBEYED.contains(&part_name) {
                harm(git, part).map(|why| format!("{}: {why}", part.display()))
            } else if matches!(
                classify(&[part_name]),
                GitPathClass::Data | GitPathClass::GitOnly
            ) && what != SFlag::S_IFLNK
            {
                (part_name == "objects")
                    .then(|| alternates(git, part))
                    .flatten()
            } else {
                Some(format!("it has {}", part.display()))
            }
        }),
        (_, SFlag::S_IFLNK) => Some("it is a link".to_owned()),
        (Some(".git"), _) => Some("it points to another directory".to_owned()),
        _ => Some("a new name".to_owned()),
    }
}

/// Returns `true` if `name` in `parent`, a part of a repository, leads to one of some working trees:
/// configuration that says where the files are, or the list of further objects. Everything else in it
/// is harmless.
pub(crate) fn leads_to_tree(parent: BorrowedFd<'_>, name: &OsStr, trees: &[&Path]) -> bool {
    let leads = Cell::new(false);
    let is_one = |path: &Path| trees.contains(&path) && below::absolute(path).is_ok();
    let is_tree = |tree: &str| {
        leads.set(is_one(Path::new(tree)));
        leads.get()
    };
    let harm = match name.to_str() {
        Some("config") => content(parent, name, |bytes| {
            git_config::config_of_tree(bytes, &is_tree)
        }),
        Some("alternates") => content(parent, name, |bytes| {
            let text = str::from_utf8(bytes).unwrap_or_default();
            let is_own = |line: &str| {
                let objects = Path::new(line);
                let top = line.strip_suffix("/.git/objects");
                top.is_some_and(is_tree) && below::absolute(objects).is_ok()
            };
            let is_other = text.is_empty() || !text.lines().all(is_own);
            is_other.then(|| "it takes objects from elsewhere".to_owned())
        }),
        _ => return false,
    };
    harm.is_none() && leads.get()
}

/// Returns `true` if `name` in `parent`, a part of a repository that is called as a linked
/// worktree, says no more than `git worktree add` writes: that the other files are where git looks
/// for them anyway.
pub(crate) fn is_plain_worktree(parent: BorrowedFd<'_>, name: &OsStr) -> bool {
    let file = below::look(parent, name).is_ok_and(|stat| kind(&stat) == SFlag::S_IFREG);
    let elsewhere = |bytes: &[u8]| (bytes.trim_ascii_end() != b"../..").then(String::new);
    match name.to_str() {
        // The file names the worktree's directory; git executes nothing because of it.
        Some("gitdir") => file,
        Some("commondir") => file && content(parent, name, elsewhere).is_none(),
        _ => false,
    }
}

/// Returns the harmful setting in a file of attributes.
pub(crate) fn harm_of_attributes(parent: BorrowedFd<'_>, name: &OsStr) -> Option<String> {
    content(parent, name, git_config::attributes)
}

/// Returns the reason if a repository takes objects from another directory.
fn alternates(git: BorrowedFd<'_>, objects: &OsStr) -> Option<String> {
    let info = below::directory(git, &Path::new(objects).join("info")).ok()?;
    ["alternates", "http-alternates"]
        .iter()
        .filter(|name| below::look(info.as_fd(), OsStr::new(name)).is_ok())
        .find_map(|name| harm(info.as_fd(), OsStr::new(name)))
}

fn content(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    judge: impl FnOnce(&[u8]) -> Option<String>,
) -> Option<String> {
    let mut bytes = Vec::new();
    let read = below::file(parent, name).and_then(|file| {
        let taken = file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
        taken.map_err(|error| below::errno(&error))
    });
    match read {
        Ok(_) => judge(&bytes),
        Err(errno) => Some(format!("it cannot be read: {}", errno.desc())),
    }
}

fn each(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    judge: impl Fn(BorrowedFd<'_>, &OsStr, SFlag) -> Option<String>,
) -> Option<String> {
    match list(parent, name) {
        Ok((directory, entries)) => entries
            .iter()
            .find_map(|(entry, what)| judge(directory.as_fd(), entry, *what)),
        Err(errno) => Some(format!("it cannot be listed: {}", errno.desc())),
    }
}

type DirEntries = (Dir, Vec<(OsString, SFlag)>);

fn list(parent: BorrowedFd<'_>, name: &OsStr) -> Result<DirEntries, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut directory = Dir::openat(parent, name, flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in directory.iter() {
        let bytes = entry?.file_name().to_bytes().to_vec();
        if !matches!(bytes.as_slice(), b"." | b"..") {
            names.push(OsString::from_vec(bytes));
        }
        if names.len() > MAX_LISTED {
            return Err(Errno::E2BIG);
        }
    }
    let mut out = Vec::with_capacity(names.len());
    for name in names {
        let what = kind(&below::look(directory.as_fd(), &name)?);
        out.push((name, what));
    }
    Ok((directory, out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn repository(dir: &Path) {
        let git = dir.join(".git");
        for name in ["hooks", "info", "objects/info", "refs"] {
            fs::create_dir_all(git.join(name)).unwrap();
        }
        for (name, text) in [
            ("HEAD", "ref: refs/heads/main\n"),
            ("config", "[core]\n\tbare = false\n"),
            ("hooks/pre-commit.sample", "#!/bin/sh\n"),
            ("info/exclude", "*.o\n"),
        ] {
            fs::write(git.join(name), text).unwrap();
        }
    }

    fn why(dir: &Path, name: &str) -> Option<String> {
        harm(fs::File::open(dir).unwrap().as_fd(), OsStr::new(name))
    }

    #[test]
    fn parts_are_judged_by_what_is_in_them() {
        let fresh = tempfile::tempdir().unwrap();
        repository(fresh.path());
        let git = fresh.path().join(".git");
        assert_eq!(why(fresh.path(), ".git"), None);
        for part in ["config", "hooks", "info"] {
            assert_eq!(why(&git, part), None, "{part}");
        }
        for (name, text, part) in [
            ("hooks/post-checkout", "#!/bin/sh\n", "hooks"),
            ("config", "[core]\nfsmonitor = x\n", "config"),
            (
                "config.worktree",
                "[core]\nfsmonitor = x\n",
                "config.worktree",
            ),
            ("info/attributes", "* filter=x\n", "info"),
            ("info/grafts", "x\n", "info"),
            ("commondir", ".\n", "commondir"),
            ("objects/info/alternates", "/x\n", ".git"),
            ("rebase-merge", "x\n", ".git"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            repository(dir.path());
            let git = dir.path().join(".git");
            fs::write(git.join(name), text).unwrap();
            assert!(why(dir.path(), ".git").is_some(), "{name}");
            if part != ".git" {
                assert!(why(&git, part).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn links_and_pointers_are_harmful() {
        let dir = tempfile::tempdir().unwrap();
        repository(dir.path());
        let git = dir.path().join(".git");
        fs::rename(git.join("config"), git.join("HEAD2")).unwrap();
        std::os::unix::fs::symlink("HEAD2", git.join("config")).unwrap();
        assert!(why(&git, "config").is_some());
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/.git"), "gitdir: ../evil\n").unwrap();
        assert!(why(&dir.path().join("sub"), ".git").is_some());
        assert!(why(dir.path(), "none").is_some());
    }
}
