//! The directories and files that commands must see so that the programs of `sandbox.programs` run
//! (feature `process`): the directories themselves, and the targets of their links.
//!
//! A link is followed to the file at its end, hop by hop, and each hop is shown, but no directory
//! around it: `~/.local/bin/tool` may lead into a user's work. The exception are virtual
//! environments of Python, in which tools are installed (pipx, uv): a program in one needs all of
//! it, and the interpreter that it was made from.
//!
//! A path that leads through a directory in which commands write shows nothing but an installation of
//! Python, which the interpreter of a project's own virtual environment needs. Nothing that is found
//! shows credentials or directories of forge.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sandbox_names::CREDENTIALS;
use sandbox_names::lexical::normalize;

use crate::grant::programs::ProgramDirs;
use crate::loading::writable_places::WritablePlaces;

/// Bound on the names looked at in one directory, and on the hops of one link; a kernel follows as
/// many (path_resolution(7)).
const MAX_NAMES: usize = 10_000;
const MAX_HOPS: usize = 40;

/// Path in the sandbox, and the host path without links.
pub(crate) type VisibleFiles = BTreeMap<PathBuf, PathBuf>;

/// Returns the existing ones, except those that commands see anyway (`known`).
pub(crate) fn shown(
    programs: &ProgramDirs,
    writable: &WritablePlaces,
    known: &dyn Fn(&Path) -> bool,
) -> VisibleFiles {
    let mut found = ProgramSearch {
        programs,
        writable,
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
    writable: &'a WritablePlaces,
    known: &'a dyn Fn(&Path) -> bool,
    shown: VisibleFiles,
}

impl ProgramSearch<'_> {
    /// Returns `true` if a command can change where a path ends.
    fn is_led_by_commands(&self, path: &Path) -> bool {
        self.writable.on_the_way_to(path).is_some()
    }

    /// Shows a path and the target of its link.
    fn add(&mut self, path: &Path) {
        if self.is_led_by_commands(path) {
            return;
        }
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
        if !end.is_file() || self.is_private(&end) {
            return;
        }
        if self.is_led_by_commands(link) {
            self.show_python(link);
            self.show_python(&end.with_file_name("python"));
            return;
        }
        self.show_hops(link, &end);
        self.show(&end, &end);
        let venv = end.parent().and_then(Path::parent);
        if let Some(venv) = venv.filter(|venv| venv.join("pyvenv.cfg").is_file()) {
            self.venv(venv);
        }
    }

    /// Shows each name that a link leads to on the way to its end.
    fn show_hops(&mut self, link: &Path, end: &Path) {
        let mut at = link.to_owned();
        for _ in 0..MAX_HOPS {
            let Ok(to) = at.read_link() else {
                break;
            };
            let around = at.parent().map(Path::to_owned).unwrap_or_default();
            let around = around.canonicalize().unwrap_or(around);
            at = normalize(&around.join(to));
            self.show(&at, end);
        }
    }

    /// Shows the installation of Python to which a link leads.
    fn show_python(&mut self, link: &Path) {
        let Ok(end) = link.canonicalize() else {
            return;
        };
        if let Some(prefix) = self.python_around(&end) {
            self.show(&prefix, &prefix);
            self.show_hops(link, &end);
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
        let prefix = home.and_then(|home| self.python_around(&home.join("python")));
        if let Some(prefix) = prefix {
            self.add(&prefix);
        }
        self.follow(&venv.join("bin/python"));
    }

    /// Returns the directory of an installation of Python around a program in its `bin`. A virtual
    /// environment is none: it has no modules of the language.
    fn python_around(&self, program: &Path) -> Option<PathBuf> {
        let bin = program.parent().filter(|bin| bin.ends_with("bin"))?;
        let prefix = bin.parent().filter(|prefix| self.may_be_shown(prefix))?;
        let libraries = prefix.join("lib").read_dir().ok()?.take(MAX_NAMES);
        let is_python = |name: &str| name.starts_with("python") || name.starts_with("pypy");
        let mut libraries = libraries.flatten().filter(|entry| {
            entry.file_name().to_str().is_some_and(is_python)
                && entry.path().join("os.py").is_file()
        });
        libraries.next().map(|_| prefix.to_owned())
    }

    /// Returns `true` if it is a directory of its own: neither the home directory, nor one around
    /// it or private.
    fn may_be_shown(&self, directory: &Path) -> bool {
        let Ok(real) = directory.canonicalize() else {
            return false;
        };
        !self.is_private(&real) && !self.is_private(directory) && real.components().count() > 2
    }

    /// Returns `true` for the home directory and those around it, and for what is, holds or lies in
    /// a directory of forge or one with credentials.
    fn is_private(&self, path: &Path) -> bool {
        let home = self.programs.home.iter();
        let home = home.flat_map(|home| [Some(home.clone()), home.canonicalize().ok()]);
        let home: Vec<PathBuf> = home.flatten().collect();
        let credentials = home.iter();
        let credentials =
            credentials.flat_map(|home| CREDENTIALS.iter().map(|name| home.join(name)));
        let kept_out = self.programs.kept_out.iter().cloned();
        let mut private = kept_out
            .chain(credentials)
            .flat_map(|one| [one.canonicalize().ok(), Some(one)]);
        home.iter().any(|home| home.starts_with(path))
            || private
                .any(|one| one.is_some_and(|one| one.starts_with(path) || path.starts_with(&one)))
    }
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
            "python/3.12/lib/python3.12",
        ] {
            create_dir_all(at(path)).unwrap();
        }
        for file in [
            "share/tool/1.0/tool",
            "work/secret/script",
            "pipx/venvs/black/bin/black",
            "python/3.12/bin/python3.12",
            "python/3.12/lib/python3.12/os.py",
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
        let programs = ProgramDirs::new(vec![at("bin")], None, vec![], Some(home.clone()));
        let shown = shown(&programs, &WritablePlaces::default(), &|_| false);
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

    /// Each row: a name in a directory in which commands write, and its target; the same in a
    /// directory of the person, with a settings file that a command cannot write; what is shown.
    #[test]
    fn nothing_is_shown_that_a_command_points_at() {
        const VENV: &str = "work/.venv";
        let rows: [(&str, &str, &[&str]); 9] = [
            ("key", "../../../.ssh/id", &[]),
            ("notes", "../../../private/bin/notes", &[]),
            ("state", "../../../state/runs/bin/forge", &[]),
            ("node", "../../../other/node_modules/x/cli", &[]),
            ("python", "../../../venv/bin/python", &[]),
            ("python", "../../../.ssh/bin/python3", &[]),
            ("python", "../../../pyenv/bin/python3", &["pyenv"]),
            (
                "python",
                "../../../current/bin/python3",
                &["current/bin/python3", "pyenv"],
            ),
            ("python3", "/usr/bin/env", &[]),
        ];
        for (name, target, expected) in rows {
            for by_home in [false, true] {
                let base = tempfile::tempdir().unwrap();
                let home = base.path().canonicalize().unwrap();
                let at = |path: &str| home.join(path);
                for file in [
                    ".ssh/id",
                    ".ssh/bin/python3",
                    ".ssh/lib/python3.1/os.py",
                    "private/bin/notes",
                    "state/runs/bin/forge",
                    "other/node_modules/x/cli",
                    "venv/bin/python",
                    "venv/lib/python3.1/site.txt",
                    "pyenv/bin/python3",
                    "pyenv/lib/python3.1/os.py",
                    "work/.venv/bin/x",
                    "bin/own",
                ] {
                    create_dir_all(at(file).parent().unwrap()).unwrap();
                    write(at(file), "").unwrap();
                }
                symlink("pyenv", at("current")).unwrap();
                let link = at(VENV).join("bin").join(name);
                symlink(target, &link).unwrap();
                let home_line = format!("home = {}\n", at("private/bin").display());
                write(at(VENV).join("pyvenv.cfg"), home_line).unwrap();
                // A person's own link into the project is one more way there.
                let directory = if by_home {
                    at("bin")
                } else {
                    at(VENV).join("bin")
                };
                symlink(&link, at("bin").join(name)).unwrap();
                symlink(at(VENV).join("bin/x"), at("bin/x")).unwrap();
                let state = vec![at("state")];
                let programs = ProgramDirs::new(vec![directory], None, state, Some(home.clone()));
                let work = WritablePlaces::new([at("work")]);
                let known = |path: &Path| {
                    path.starts_with("/usr") || path.starts_with(at("work")) || path == at("bin")
                };
                let shown = shown(&programs, &work, &known);
                let shown: Vec<_> = shown.keys().map(|one| one.strip_prefix(&home)).collect();
                let shown: Vec<_> = shown.into_iter().map(|one| one.unwrap()).collect();
                let expected: Vec<_> = expected.iter().map(Path::new).collect();
                assert_eq!(shown, expected, "{name} {target} {by_home}");
            }
        }
    }
}
