//! A copy of the files that git knows in this checkout, as a reader's fresh clone would have them,
//! but with today's contents. It is in the target directory and stays there between runs.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Context, Failure};
use crate::process;
use crate::scratch::Scratch;

/// How deep a directory tree may be.
const MAX_DEPTH: usize = 32;

/// Tracked files and new ones that are not ignored, relative to `root`.
pub(crate) fn files(root: &Path) -> Result<BTreeSet<PathBuf>, Failure> {
    let list = process::output(process::command("git").current_dir(root).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    // A file deleted but not yet committed is still listed.
    Ok(list
        .split_terminator('\0')
        .map(PathBuf::from)
        .filter(|path| is_file_or_link(&root.join(path)))
        .collect())
}

/// `true` for regular files and for links, wherever they lead.
fn is_file_or_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file() || found.is_symlink())
}

/// The copy: a checkout, and directories for what programs keep.
#[derive(Debug)]
pub(crate) struct Copy {
    checkout: PathBuf,
    state: PathBuf,
}

/// Brings the copy in `dir` up to date. Unchanged files keep their times.
pub(crate) fn copy(root: &Path, dir: &Path) -> Result<Copy, Failure> {
    let checkout = dir.join("checkout");
    let state = dir.join("state");
    if state.exists() {
        fs::remove_dir_all(&state).context(state.display())?;
    }
    for made in [&checkout, &state] {
        fs::create_dir_all(made).context(made.display())?;
    }
    let files = files(root)?;
    remove_others(&checkout, Path::new(""), &files, MAX_DEPTH)?;
    for file in &files {
        let (from, to) = (root.join(file), checkout.join(file));
        if from.is_symlink() {
            copy_link(&from, &to)?;
            continue;
        }
        let fresh = fs::read(&from).context(from.display())?;
        if fs::read(&to).is_ok_and(|old| old == fresh) {
            continue;
        }
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).context(parent.display())?;
        }
        // A copy onto a link would write where the link leads.
        if to.is_symlink() {
            fs::remove_file(&to).context(to.display())?;
        }
        // Copies the permissions too: scripts stay executable.
        fs::copy(&from, &to).context(to.display())?;
    }
    // A reader's checkout has this directory once forge is built.
    let target = checkout.join("target");
    fs::create_dir_all(&target).context(target.display())?;
    if !checkout.join(".git").exists() {
        process::quiet(
            process::command("git")
                .current_dir(&checkout)
                .args(["init", "--quiet"]),
        )?;
    }
    Ok(Copy { checkout, state })
}

/// Copies a link as a link.
fn copy_link(from: &Path, to: &Path) -> Result<(), Failure> {
    let target = fs::read_link(from).context(from.display())?;
    if fs::read_link(to).is_ok_and(|old| old == target) {
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).context(parent.display())?;
    }
    if is_file_or_link(to) {
        fs::remove_file(to).context(to.display())?;
    }
    symlink(target, to).context(to.display())
}

/// Where commands of a page run.
#[derive(Debug)]
pub(crate) struct Place {
    dir: PathBuf,
    /// Variables, and none where they must not be set.
    env: Vec<(&'static str, Option<PathBuf>)>,
    /// Goes away with the place.
    _scratch: Option<Scratch>,
}

/// Where programs keep what is theirs.
const PLACES: [&str; 4] = [
    "XDG_STATE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
];

impl Copy {
    /// Returns the directory of the checkout.
    pub(crate) fn into_checkout(self) -> PathBuf {
        self.checkout
    }

    /// In the copy, with nothing kept from an earlier run.
    pub(crate) fn checkout(&self) -> Place {
        Place {
            dir: self.checkout.clone(),
            env: PLACES
                .iter()
                .map(|name| (*name, Some(self.state.join(name))))
                .collect(),
            _scratch: None,
        }
    }
}

impl Place {
    /// An empty directory, with an empty home. Both have short paths: a socket's has room for
    /// some hundred bytes, and forge keeps sockets in the home.
    pub(crate) fn empty() -> Result<Self, Failure> {
        let scratch = Scratch::new()?;
        let (dir, home) = (scratch.file("project"), scratch.file("home"));
        for made in [&dir, &home] {
            fs::create_dir(made).context(made.display())?;
        }
        let mut env: Vec<_> = PLACES.iter().map(|name| (*name, None)).collect();
        env.extend([("XDG_RUNTIME_DIR", None), ("HOME", Some(home))]);
        Ok(Place {
            dir,
            env,
            _scratch: Some(scratch),
        })
    }

    /// Writes a file of a page. `name` is a relative path without `..`.
    pub(crate) fn write(&self, name: &Path, text: &str) -> Result<(), Failure> {
        let path = self.dir.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).context(parent.display())?;
        }
        fs::write(&path, text).context(path.display())
    }

    /// Makes `command` run here, with the program `forge` first in `PATH`.
    pub(crate) fn enter(&self, command: &mut Command, forge: &Path) -> Result<(), Failure> {
        let path = env::var_os("PATH").unwrap_or_default();
        let programs = forge.parent().map(Path::to_path_buf);
        let path =
            env::join_paths(programs.into_iter().chain(env::split_paths(&path))).context("PATH")?;
        command.current_dir(&self.dir).env("PATH", path);
        // Pages show what a person sees at a terminal, and in CI forge asks no questions.
        command.env_remove("CI");
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Ok(())
    }
}

fn remove_others(
    top: &Path,
    below: &Path,
    keep: &BTreeSet<PathBuf>,
    depth: usize,
) -> Result<(), Failure> {
    let dir = top.join(below);
    if depth == 0 {
        return fs::remove_dir_all(&dir).context(dir.display());
    }
    for entry in fs::read_dir(&dir).context(dir.display())? {
        let entry = entry.context(dir.display())?;
        let path = below.join(entry.file_name());
        let is_dir = entry.file_type().context(dir.display())?.is_dir();
        if path == Path::new(".git") || keep.contains(&path) {
            continue;
        } else if is_dir
            && keep
                .range(path.clone()..)
                .next()
                .is_some_and(|next| next.starts_with(&path))
        {
            remove_others(top, &path, keep, depth - 1)?;
        } else if is_dir {
            fs::remove_dir_all(entry.path()).context(entry.path().display())?;
        } else {
            fs::remove_file(entry.path()).context(entry.path().display())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_what_git_lists_and_nothing_left_over() {
        let scratch = Scratch::new().expect("a scratch directory");
        let root = scratch.file("root");
        for (file, text) in [
            ("a/b.txt", "one"),
            ("kept", "two"),
            (".gitignore", "ignored\n"),
            ("ignored", "x"),
        ] {
            let path = root.join(file);
            fs::create_dir_all(path.parent().expect("below root")).expect("mkdir");
            fs::write(path, text).expect("write");
        }
        symlink("/nowhere", root.join("link")).expect("a link");
        process::quiet(
            process::command("git")
                .current_dir(&root)
                .args(["init", "--quiet"]),
        )
        .expect("git init");

        let dir = scratch.file("copy");
        let made = copy(&root, &dir).expect("first copy");
        fs::create_dir_all(made.checkout.join("junk/deep")).expect("mkdir");
        fs::write(made.checkout.join("a/more"), "x").expect("write");
        fs::write(made.checkout.join("kept"), "changed").expect("write");
        fs::write(made.state.join("kept"), "x").expect("write");

        let made = copy(&root, &dir).expect("second copy");
        let seen = files(&made.checkout).expect("git in the copy");
        let expected = [".gitignore", "a/b.txt", "kept", "link"].map(PathBuf::from);
        assert_eq!(seen, BTreeSet::from(expected));
        let target = fs::read_link(made.checkout.join("link")).expect("a link");
        assert_eq!(target, Path::new("/nowhere"));
        assert_eq!(
            fs::read_to_string(made.checkout.join("kept")).expect("read"),
            "two"
        );
        assert!(!made.checkout.join("junk").exists());
        assert!(!made.state.join("kept").exists());
    }
}
