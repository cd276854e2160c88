//! The files that a line runs, as far as its words name them. A yes for the run counts for a line
//! only if they do: another file in their place would run without a question.

use std::borrow::Cow;
use std::path::PathBuf;

use super::{CommandLine, is_assignment, is_expanded};

/// Programs with a file to run as their first argument, without the digits of a version.
#[rustfmt::skip]
const RUN_FIRST: &[&str] = &[
    ".", "R", "Rscript", "ash", "bash", "bats", "dash", "expect", "fish", "guile", "java", "julia",
    "ksh", "lua", "mksh", "node", "nodejs", "perl", "php", "pypy", "python", "ruby", "sh", "source",
    "zsh",
];

/// Programs that run some of the files that they are handed.
#[rustfmt::skip]
const RUN_SOME: &[&str] = &["awk", "bun", "deno", "gawk", "gdb", "just", "make", "sed"];

/// Files that a program runs without being told.
const OWN_FILES: [&str; 4] = ["GNUmakefile", "makefile", "Makefile", "justfile"];

/// Ends of the names of variables by which programs find the files that they run.
#[rustfmt::skip]
const VARIABLES: &[&str] = &[
    "PATH", "BASH_ENV", "OPT", "OPTS", "OPTIONS", "LIB", "PRELOAD", "STARTUP", "MAKEFLAGS", "MAKEFILES",
];

/// With more directories, files may be in others than those that are looked into.
const MAX_DIRECTORIES: usize = 64;

/// A word that may be the name of a file.
pub(crate) struct RunWord<'l> {
    pub(crate) name: Cow<'l, str>,
    /// `true` if something is run by that name.
    pub(crate) is_run: bool,
}

/// The files that a line runs.
#[derive(Default)]
pub(crate) struct RunFiles<'l> {
    pub(crate) words: Vec<RunWord<'l>>,
    /// The directories to which it changes.
    directories: Vec<&'l str>,
    /// `true` if it may change to others.
    changes_more: bool,
    /// `true` if it may run files that no word names.
    runs_more: bool,
}

impl CommandLine {
    /// The files that the line runs: programs by their paths, and arguments of programs that run
    /// files.
    pub(crate) fn run_files(&self) -> RunFiles<'_> {
        let session = self.session().is_some_and(|state| state.has_variables());
        let mut found = RunFiles {
            runs_more: self.has_hidden_commands() || session,
            ..RunFiles::default()
        };
        for segment in self.segments.iter().chain(&self.starts) {
            found.runs_more |= segment.words.iter().any(|word| sets_program(word));
            let named = segment.words.iter().position(|word| !is_assignment(word));
            if let [program, rest @ ..] = &segment.words[named.unwrap_or(segment.words.len())..] {
                found.add_program(program, rest);
            }
        }
        found
    }
}

impl<'l> RunFiles<'l> {
    /// Returns the directories in which a file may be, from the one where the line starts.
    pub(crate) fn directories(&mut self, start: &str) -> Vec<PathBuf> {
        let mut all = vec![PathBuf::from(start)];
        for directory in &self.directories {
            for from in all.clone() {
                let one = from.join(directory);
                if !all.contains(&one) {
                    all.push(one);
                }
            }
            if all.len() > MAX_DIRECTORIES {
                self.runs_more = true;
                break;
            }
        }
        all
    }

    /// Returns `true` if the line may run files that its words do not name.
    pub(crate) fn runs_more(&self) -> bool {
        let is_relative = |word: &RunWord<'_>| word.is_run && !word.name.starts_with('/');
        self.runs_more || self.changes_more && self.words.iter().any(is_relative)
    }

    fn add_words(&mut self, names: impl IntoIterator<Item: Into<Cow<'l, str>>>, is_run: bool) {
        let names = names.into_iter().map(Into::into);
        self.words
            .extend(names.map(|name| RunWord { name, is_run }));
    }

    fn add_directory(&mut self, directory: &'l str) {
        match is_expanded(directory) {
            true => self.changes_more = true,
            false => self.directories.push(directory),
        }
    }

    fn add_program(&mut self, program: &'l str, rest: &'l [String]) {
        if program.contains('/') {
            self.add_words([program], true);
        }
        for (at, word) in rest.iter().enumerate() {
            let next = rest.get(at + 1).map_or("", String::as_str);
            let given = ["--chdir=", "--directory=", "-C"];
            match given.iter().find_map(|option| word.strip_prefix(option)) {
                Some("") => self.add_directory(next),
                Some(directory) => self.add_directory(directory),
                None => {}
            }
        }
        let name = program.rsplit('/').next().unwrap_or_default();
        let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let name = if bare.is_empty() { name } else { bare };
        match name {
            "cd" => match rest.iter().find(|word| !word.starts_with('-')) {
                Some(directory) => self.add_directory(directory),
                None => self.changes_more = true,
            },
            "pushd" | "popd" => self.changes_more = true,
            "make" | "just" => self.add_words(OWN_FILES, false),
            _ => {}
        }
        if RUN_FIRST.contains(&name) {
            self.add_first(name, rest);
        } else if RUN_SOME.contains(&name) {
            self.add_words(files_of(rest), false);
        }
    }

    /// Adds the arguments of a program whose first one is a file that it runs.
    fn add_first(&mut self, name: &str, rest: &'l [String]) {
        let is_info =
            matches!(rest, [only] if ["--version", "--help", "-V", "-v"].contains(&only.as_str()));
        if is_info || has_text(name, rest) {
            self.add_words(files_of(rest), false);
            return;
        }
        if let ("python" | "pypy", [option, module, ..]) = (name, rest)
            && option == "-m"
            && !is_expanded(module)
        {
            // Without such a file it is a module of the environment.
            let path = module.replace('.', "/");
            self.add_words([format!("{path}.py"), format!("{path}/__main__.py")], false);
            return;
        }
        // The value of an option may stand in front of the file.
        let options = rest.iter().take_while(|word| word.starts_with(['-', '+']));
        let is_first = options.clone().count() == 0;
        self.runs_more |= rest.is_empty() || options.clone().any(|option| names_file(option));
        let before = self.words.len();
        self.add_words(files_of(rest), !is_first);
        match self.words.get_mut(before) {
            Some(word) => word.is_run = true,
            None => self.runs_more = true,
        }
    }
}

/// Returns the arguments other than options.
fn files_of(rest: &[String]) -> impl Iterator<Item = &str> {
    let words = rest.iter().map(String::as_str);
    words.filter(|word| !word.starts_with('-'))
}

/// `true` if the program is given its text by an option, as `sh -c` is.
fn has_text(name: &str, rest: &[String]) -> bool {
    let letter = match name {
        "perl" | "ruby" | "lua" | "node" | "nodejs" | "julia" | "Rscript" | "guile" => 'e',
        _ => 'c',
    };
    let options = rest.iter().take_while(|word| word.starts_with('-'));
    let mut options = options.filter(|word| !word.starts_with("--"));
    options.clone().any(|word| word.contains(letter)) && !options.any(|word| names_file(word))
}

/// `true` for an option that may name a file or a module to run.
fn names_file(option: &str) -> bool {
    option == "-" || option.starts_with("--") || option.contains(['/', 'm', 'M', 'I', 'r'])
}

/// `true` if a word sets a variable that may decide which files a program runs: by its name, or
/// because its value is a path or expanded.
fn sets_program(word: &str) -> bool {
    let name = word.split_once('=').filter(|_| is_assignment(word));
    name.is_some_and(|(name, value)| {
        let name = name.trim_end_matches('+');
        let is_named = name == "ENV" || VARIABLES.iter().any(|end| name.ends_with(end));
        is_named || value.contains(['/', '$', '`', '~'])
    })
}
