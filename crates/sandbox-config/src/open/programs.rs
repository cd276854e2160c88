//! The directories and files that commands must see so that the programs of `sandbox.programs` run
//! (feature `process`): the directories themselves, and the targets of their links.
//!
//! A link is followed to the file at its end, hop by hop, and each hop is shown, but no directory
//! around it: `~/.local/bin/tool` may lead into a user's work. The exception are virtual
//! environments of Python, in which tools are installed (pipx, uv): a program in one needs all of
//! it, and the interpreter that it was made from.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::grant::programs::ProgramDirs;

/// Bound on the names looked at in one directory, and on the hops of one link; a kernel follows as
/// many (path_resolution(7)).
const MAX_NAMES: usize = 10_000;
const MAX_HOPS: usize = 40;

/// Path in the sandbox, and the host path without links.
pub(crate) type VisibleFiles = BTreeMap<PathBuf, PathBuf>;

/// Returns the existing ones, except those that commands see anyway (`known`).
pub(crate) fn shown(programs: &ProgramDirs, known: &dyn Fn(&Path) -> bool) -> VisibleFiles {
    let mut found = ProgramSearch {
        programs,
        known,
        shown: VisibleFiles::new(),
    };
    for directory in programs.directories() {
        found.add(directory);
    }
    for directory in programs.directories().iter().chain(programs.search()) {
        found.links_of(directory);
    }
    let all: Vec<PathBuf> = found.shown.keys().cloned().collect();
    let inner = |at: &PathBuf| all.iter().any(|other| other != at && at.starts_with(other));
    found.shown.retain(|at, _| !inner(at));
    found.shown
}

struct ProgramSearch<'a> {
    programs: &'a ProgramDirs,
    known: &'a dyn Fn(&Path) -> bool,
    shown: VisibleFiles,
}

impl ProgramSearch<'_> {
    /// Shows a path and the target of its link.
    fn add(&mut self, path: &Path) {
        if let Ok(real) = path.canonicalize() {
            self.show(path, &real);
            self.show(&real, &real);
        }
    }

    fn show(&mut self, at: &Path, real: &Path) {
        if !(self.known)(at) {
            self.shown.insert(at.to_owned(), real.to_owned());
        }
    }

    fn links_of(&mut self, directory: &Path) {
        let Ok(entries) = directory.read_dir() else {
            return;
        };
        for entry in entries.take(MAX_NAMES).flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                self.follow(&entry.path());
            }
        }
    }

    fn follow(&mut self, link: &Path) {
        let Ok(end) = link.canonicalize() else {
            return;
        };
        if !end.is_file() {
            return;
        }
        let mut at = link.to_owned();
        for _ in 0..MAX_HOPS {
            let Ok(to) = at.read_link() else {
                break;
            };
            let around = at.parent().map(Path::to_owned).unwrap_or_default();
            let around = around.canonicalize().unwrap_or(around);
            at = plain(&around.join(to));
            self.show(&at, &end);
        }
        self.show(&end, &end);
        let venv = end.parent().and_then(Path::parent);
        if let Some(venv) = venv.filter(|venv| venv.join("pyvenv.cfg").is_file()) {
            self.venv(venv);
        }
    }

    /// pyvenv.cfg says where the interpreter is (PEP 405).
    fn venv(&mut self, venv: &Path) {
        if !self.may_be_shown(venv) || self.shown.contains_key(venv) {
            return;
        }
        self.add(venv);
        let settings = std::fs::read_to_string(venv.join("pyvenv.cfg")).unwrap_or_default();
        let home = settings.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == "home").then(|| PathBuf::from(value.trim()))
        });
        let prefix = home.as_deref().filter(|home| home.ends_with("bin"));
        let prefix = prefix.and_then(Path::parent);
        if let Some(prefix) = prefix.filter(|prefix| self.may_be_shown(prefix)) {
            self.add(prefix);
        }
        self.follow(&venv.join("bin/python"));
    }

    /// Returns `true` if it is a directory of its own: neither the home directory, nor one around
    /// it or around forge's own.
    fn may_be_shown(&self, directory: &Path) -> bool {
        let Ok(real) = directory.canonicalize() else {
            return false;
        };
        let mut kept_out = self.programs.kept_out.iter();
        !kept_out.any(|own| own.starts_with(&real) || own.starts_with(directory))
            && real.components().count() > 2
    }
}

/// Without `.` and `..`, by text: the directories around it have no links.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_and_nothing_around_them_is_shown() {
        let base = tempfile::tempdir().unwrap();
        let home = base.path().canonicalize().unwrap();
        let at = |path: &str| home.join(path);
        for path in [
            "bin",
            "share/tool/1.0",
            "work/secret",
            "pipx/venvs/black/bin",
            "python/3.12/bin",
        ] {
            create_dir_all(at(path)).unwrap();
        }
        for file in [
            "share/tool/1.0/tool",
            "work/secret/script",
            "pipx/venvs/black/bin/black",
            "python/3.12/bin/python3.12",
        ] {
            write(at(file), "#!/bin/sh\n").unwrap();
        }
        let settings = format!("home = {}\n", at("python/3.12/bin").display());
        write(at("pipx/venvs/black/pyvenv.cfg"), settings).unwrap();
        symlink("1.0", at("share/tool/current")).unwrap();
        for (link, to) in [
            ("bin/tool", "../share/tool/current/tool"),
            ("bin/script", "../work/secret/script"),
            ("bin/black", "../pipx/venvs/black/bin/black"),
            ("bin/dangling", "../nothing"),
            ("bin/directory", "../work"),
        ] {
            symlink(to, at(link)).unwrap();
        }
        let interpreter = at("python/3.12/bin/python3.12");
        symlink(interpreter, at("pipx/venvs/black/bin/python")).unwrap();
        let programs = ProgramDirs::new(vec![at("bin")], None, vec![home.clone()]);
        let shown = shown(&programs, &|_| false);
        let shown: Vec<_> = shown.keys().map(|path| path.strip_prefix(&home)).collect();
        let shown: Vec<_> = shown.into_iter().map(|path| path.unwrap()).collect();
        let expected = [
            "bin",
            "pipx/venvs/black",
            "python/3.12",
            "share/tool/1.0/tool",
            "share/tool/current/tool",
            "work/secret/script",
        ];
        assert_eq!(shown, expected.map(Path::new));
    }
}
