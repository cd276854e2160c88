//! Programs that the settings of agents name: status lines, hooks, helpers for keys, servers. The agent
//! outside starts them, so commands do not change them. Entry point:
//! [`PresetSet::named_programs`](crate::PresetSet::named_programs).

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::{File, read_dir};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sandbox_names::lexical::normalize;
use sandbox_names::{fold, named_paths, pattern};

use crate::keys::StateMode;
use crate::preset::PresetState;

/// Bound on a file that is read. Agents keep history in files with settings.
const MAX_BYTES: u64 = 8 << 20;
/// Bound on a file whose relative words are looked for in each directory.
const MAX_SEARCHED_BYTES: usize = 256 << 10;
/// Bound on a text with a command.
const MAX_TEXT_BYTES: usize = 4096;
/// Bounds on the number of files, on entries of a directory, and on its depth.
const MAX_FILES: usize = 256;
const MAX_ENTRIES: usize = 1000;
const MAX_DEPTH: usize = 2;
/// Bound on the directories of one file from which relative words count.
const MAX_BASES: usize = 16;
/// Bound on the names that are found. A policy takes 256 patterns.
const MAX_FOUND: usize = 128;

/// Endings of files with settings.
const SETTINGS: [&str; 5] = ["json", "jsonc", "toml", "yaml", "yml"];
/// Endings of programs.
const PROGRAMS: [&str; 14] = [
    "bash", "cjs", "fish", "js", "lua", "mjs", "php", "pl", "ps1", "py", "rb", "sh", "ts", "zsh",
];
/// Parts of the names of files that agents write although settings name them: logins are in rules about
/// reading.
const WRITTEN: [&str; 4] = ["auth", "cred", "history", "token"];
/// Endings of files that programs write.
const DATA: [&str; 10] = [
    "csv", "db", "jsonl", "lock", "log", "pid", "sock", "sqlite", "sqlite3", "txt",
];
/// Names in the directory of a program with several files.
const PACKAGE: [&str; 10] = [
    "package.json",
    "node_modules",
    "index.js",
    "pyproject.toml",
    "requirements.txt",
    "__main__.py",
    "main.py",
    "server.py",
    "pyvenv.cfg",
    ".venv",
];

/// A file that is read.
struct SourceFile {
    path: PathBuf,
    /// The directory in which the agent runs what it names.
    around: PathBuf,
    /// `true` for settings; `false` for a program or a text, of which only words that are programs count.
    is_settings: bool,
}

/// Names that are found in the directories of agents.
struct NamedPrograms<'a> {
    home: &'a Path,
    /// The directories of agents, as they are named and without links, with their protected names.
    inside: Vec<(PathBuf, &'a [String])>,
    files: Vec<SourceFile>,
    found: BTreeSet<PathBuf>,
}

/// Returns the paths in the state of agents, in the home directory and in a project, that settings in it
/// name: existing files and absent ones, and directories of programs.
pub(super) fn find<'a>(
    state: impl Iterator<Item = &'a PresetState> + Clone,
    home: &Path,
    project: &Path,
) -> Vec<PathBuf> {
    let places = [home, project].map(|around| state.clone().map(move |one| (around, one)));
    let places = places.into_iter().flatten();
    let inside = places.clone().flat_map(|(around, one)| {
        let path = around.join(&one.path);
        let each = path.canonicalize().into_iter().chain([path]);
        each.map(|path| (path, one.protect.as_slice()))
    });
    let mut programs = NamedPrograms {
        home,
        inside: inside.collect(),
        files: Vec::new(),
        found: BTreeSet::new(),
    };
    for (around, one) in places {
        programs.add_settings(around, one);
    }
    let mut at = 0;
    while at < programs.files.len().min(MAX_FILES) && programs.found.len() < MAX_FOUND {
        programs.read(at);
        at += 1;
    }
    programs.found.into_iter().collect()
}

impl NamedPrograms<'_> {
    /// Adds the files that commands do not change.
    fn add_settings(&mut self, around: &Path, state: &PresetState) {
        let place = around.join(&state.path);
        if place.is_file() {
            return self.add_file(place, around);
        }
        let is_kept = |name: &OsStr| {
            let mut patterns = state.protect.iter();
            patterns.any(|one| is_covered(one, Path::new(name)))
        };
        let entries = read_dir(&place).into_iter().flatten().flatten();
        for entry in entries.take(MAX_ENTRIES) {
            let path = entry.path();
            match state.mode == StateMode::Read && has_ending(&path, &SETTINGS) {
                _ if is_kept(&entry.file_name()) => self.add_tree(path, around, 0),
                true => self.add_file(path, around),
                false => {}
            }
        }
    }

    fn add_tree(&mut self, path: PathBuf, around: &Path, depth: usize) {
        if !path.is_dir() {
            return self.add_file(path, around);
        }
        if depth < MAX_DEPTH && self.files.len() < MAX_FILES {
            let entries = read_dir(&path).into_iter().flatten().flatten();
            for entry in entries.take(MAX_ENTRIES) {
                self.add_tree(entry.path(), around, depth + 1);
            }
        }
    }

    fn add_file(&mut self, path: PathBuf, around: &Path) {
        if self.files.len() < MAX_FILES && !self.files.iter().any(|one| one.path == path) {
            let is_settings = has_ending(&path, &SETTINGS);
            let around = around.to_owned();
            self.files.push(SourceFile {
                path,
                around,
                is_settings,
            });
        }
    }

    fn read(&mut self, at: usize) {
        let SourceFile {
            path,
            around,
            is_settings,
        } = &self.files[at];
        let (around, is_settings) = (around.clone(), *is_settings);
        let Some(text) = text_of(path) else { return };
        let mut bases = Vec::new();
        if text.len() <= MAX_SEARCHED_BYTES {
            let dirs = self.inside.iter().map(|(dir, _)| dir.clone());
            bases.push(around.clone());
            bases.extend(dirs.filter(|dir| dir.starts_with(&around)));
            bases.extend(path.parent().map(Path::to_owned));
        }
        let is_json = is_settings && has_ending(path, &["json", "jsonc"]);
        // In a large file, only words that need no directory count.
        let fixed = [
            "~/".to_owned(),
            "$".to_owned(),
            self.home.display().to_string(),
        ];
        let words = words(&text, is_json, |text| {
            !bases.is_empty() || fixed.iter().any(|part| text.contains(part))
        });
        // Directories, such as those of `cd` and `cwd`.
        let directories: Vec<PathBuf> = (words.iter())
            .flat_map(|word| self.places(word, &bases))
            .filter(|(place, _)| place.is_dir())
            .map(|(place, _)| place)
            .take(MAX_BASES)
            .collect();
        if is_settings {
            let programs = directories.iter().filter(|one| has_programs(one));
            let programs: Vec<PathBuf> = programs.cloned().collect();
            programs.into_iter().for_each(|one| self.add(one));
        }
        bases.extend(directories);
        for word in &words {
            for (place, is_relative) in self.places(word, &bases) {
                self.examine(place, is_settings, is_relative, &around);
            }
        }
    }

    /// Adds a file that is named.
    fn examine(&mut self, place: PathBuf, is_settings: bool, is_relative: bool, around: &Path) {
        let is_program = is_program(&place);
        if is_settings && !is_data(&place) || is_program {
            // A relative word is mostly none of a path.
            let is_absent = !is_relative && is_settings && place.symlink_metadata().is_err();
            if place.is_file() || is_absent {
                self.add(place.clone());
            }
        }
        if is_program && place.is_file() {
            let package = self.package_of(&place);
            package.into_iter().for_each(|one| self.add(one));
            self.add_file(place, around);
        }
    }

    /// Returns the paths of a word that are in a directory of an agent, and `true` for those of a
    /// relative word.
    fn places(&self, word: &str, bases: &[PathBuf]) -> Vec<(PathBuf, bool)> {
        let is_inside = |(path, _): &(PathBuf, bool)| {
            let mut inside = self.inside.iter();
            inside.any(|(dir, protect)| {
                path.strip_prefix(dir).is_ok_and(|below| {
                    below != Path::new("") && !protect.iter().any(|one| is_covered(one, below))
                })
            })
        };
        let fixed = match word.strip_prefix("~/") {
            Some(below) => Some(self.home.join(below)),
            None => word.starts_with('/').then(|| PathBuf::from(word)),
        };
        let relative = bases.iter().filter(|_| fixed.is_none());
        let relative = relative.map(|base| (normalize(&base.join(word)), true));
        let fixed = fixed.iter().map(|path| (normalize(path), false));
        fixed.chain(relative).filter(is_inside).collect()
    }

    /// Returns the directory with the files that a program loads.
    fn package_of(&self, program: &Path) -> Option<PathBuf> {
        let (dir, _) = self
            .inside
            .iter()
            .find(|(dir, _)| program.starts_with(dir))?;
        let above = program.ancestors().skip(1).take_while(|one| one != dir);
        let above: Vec<&Path> = above.collect();
        let package = above.iter().rev().find(|dir| is_package(dir));
        package.or(above.first()).map(|dir| dir.to_path_buf())
    }

    /// Adds a path without links: of the name itself, and of the file to which it leads.
    fn add(&mut self, path: PathBuf) {
        let around = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
        let paths = [path.canonicalize().ok(), Some(around().unwrap_or(path))];
        if self.found.len() < MAX_FOUND {
            self.found.extend(paths.into_iter().flatten());
        }
    }
}

/// Returns the words of the texts in a file that are `wanted`, each once: of quoted texts without their
/// escapes, and of lines. Rules about tools, such as `Read(~/a)`, start nothing.
fn words(text: &str, is_json: bool, wanted: impl Fn(&str) -> bool) -> HashSet<String> {
    let mut words = HashSet::new();
    for line in text.lines() {
        let mut texts = quoted_texts(line);
        if !is_json {
            texts.push(line.to_owned());
        }
        let is_rule = |text: &str| {
            let tool = text.strip_suffix(')').and_then(|text| text.split_once('('));
            tool.is_some_and(|(tool, _)| tool.chars().all(char::is_alphanumeric))
        };
        for text in texts {
            if text.len() <= MAX_TEXT_BYTES && wanted(&text) && !is_rule(&text) {
                words.extend(named_paths(&text));
                words.insert(text);
            }
        }
    }
    words.retain(|word| word.contains(['/', '.']) && !word.contains(['*', '\n']));
    words
}

/// Returns the texts in quotes in a line of JSON, TOML or YAML.
fn quoted_texts(line: &str) -> Vec<String> {
    let (mut texts, mut chars) = (Vec::new(), line.chars());
    while let Some(mark) = chars.find(|c| ['"', '\''].contains(c)) {
        let mut text = String::new();
        while let Some(c) = chars.next().filter(|c| *c != mark) {
            match (c, mark) {
                ('\\', '"') => match chars.next() {
                    Some('n' | 't' | 'r') => text.push(' '),
                    Some('u') => {
                        let code: String = chars.by_ref().take(4).collect();
                        let code = u32::from_str_radix(&code, 16).ok();
                        text.extend(code.and_then(char::from_u32));
                    }
                    other => text.extend(other),
                },
                (c, _) => text.push(c),
            }
        }
        texts.push(text);
    }
    texts
}

fn text_of(file: &Path) -> Option<String> {
    let is_file = std::fs::metadata(file).is_ok_and(|about| about.is_file());
    let open = is_file.then(|| File::open(file).ok()).flatten()?;
    let mut bytes = Vec::new();
    open.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    let is_text = !bytes.iter().take(MAX_TEXT_BYTES).any(|byte| *byte == 0);
    is_text.then(|| String::from_utf8_lossy(&bytes).into_owned())
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    let ending = path.extension().and_then(OsStr::to_str);
    ending.is_some_and(|ending| endings.contains(&&*ending.to_ascii_lowercase()))
}

/// `true` if a pattern from the top covers a path.
fn is_covered(pattern: &str, below: &Path) -> bool {
    let folded = fold(pattern.trim_start_matches('/'));
    let mut names = below.iter();
    pattern.starts_with('/')
        && (folded.split('/')).all(|one| names.next().is_some_and(|name| pattern::fits(one, name)))
}

/// `true` for a file that programs write.
fn is_data(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = fold(&name);
    has_ending(path, &DATA) || WRITTEN.iter().any(|part| name.contains(part))
}

fn is_program(path: &Path) -> bool {
    let is_executable = |about: std::fs::Metadata| about.permissions().mode() & 0o111 != 0;
    has_ending(path, &PROGRAMS) || path.is_file() && path.metadata().is_ok_and(is_executable)
}

/// `true` for a directory of a program, and for one in which a shell looks for programs.
fn has_programs(directory: &Path) -> bool {
    let entries = read_dir(directory).into_iter().flatten().flatten();
    let mut entries = entries.take(MAX_ENTRIES).map(|entry| entry.path());
    is_package(directory) || entries.any(|one| !one.is_dir() && is_program(&one))
}

fn is_package(directory: &Path) -> bool {
    PACKAGE.iter().any(|name| directory.join(name).exists())
}
