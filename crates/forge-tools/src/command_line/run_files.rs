//! The files that a line runs, as far as its words name them. A yes for the run counts for a line
//! only if they do: another file in their place would run without a question.

use std::borrow::Cow;

use super::{CommandLine, is_assignment, is_expanded};

/// Programs whose first argument is a file that they run, without the digits of a version.
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

/// The files that a line runs.
#[derive(Default)]
pub(crate) struct RunFiles<'l> {
    /// Words that may be the name of one; `true` if something is run by that name.
    pub(crate) words: Vec<(Cow<'l, str>, bool)>,
    /// The directories to which it changes.
    pub(crate) directories: Vec<&'l str>,
    /// `true` if it may run others.
    pub(crate) runs_more: bool,
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
                found.by(program, rest);
            }
        }
        found
    }
}

impl<'l> RunFiles<'l> {
    fn by(&mut self, program: &'l str, rest: &'l [String]) {
        if program.contains('/') {
            self.words.push((program.into(), true));
        }
        for (at, word) in rest.iter().enumerate() {
            let next = rest.get(at + 1).map_or("", String::as_str);
            let given = ["--chdir=", "--directory=", "-C"];
            let directory = given.iter().find_map(|option| word.strip_prefix(option));
            self.directories
                .extend(directory.map(|own| if own.is_empty() { next } else { own }));
        }
        let name = program.rsplit('/').next().unwrap_or_default();
        let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let name = if bare.is_empty() { name } else { bare };
        match name {
            "cd" => match rest.iter().find(|word| !word.starts_with('-')) {
                Some(directory) if !is_expanded(directory) => self.directories.push(directory),
                Some(_) | None => self.directories.push("$"),
            },
            "pushd" | "popd" => self.directories.push("$"),
            "make" | "just" => self
                .words
                .extend(OWN_FILES.map(|file| (file.into(), false))),
            _ => {}
        }
        let takes_file = RUN_FIRST.contains(&name);
        if !takes_file && !RUN_SOME.contains(&name) {
            return;
        }
        let files = rest.iter().filter(|word| !word.starts_with('-'));
        let is_info =
            matches!(rest, [only] if ["--version", "--help", "-V", "-v"].contains(&only.as_str()));
        if !takes_file || is_info || has_text(name, rest) {
            self.words.extend(files.map(|file| (file.into(), false)));
            return;
        }
        if let ("python" | "pypy", [option, module, ..]) = (name, rest)
            && option == "-m"
            && !is_expanded(module)
        {
            // Without such a file it is a module of the environment.
            let path = module.replace('.', "/");
            let files = [format!("{path}.py"), format!("{path}/__main__.py")];
            self.words.extend(files.map(|file| (file.into(), false)));
            return;
        }
        // The value of an option may stand in front of the file.
        let options = rest.iter().take_while(|word| word.starts_with(['-', '+']));
        let is_first = options.clone().count() == 0;
        self.runs_more |= rest.is_empty() || options.clone().any(|option| names_file(option));
        let before = self.words.len();
        self.words
            .extend(files.map(|file| (file.into(), !is_first)));
        match self.words.get_mut(before) {
            Some((_, runs)) => *runs = true,
            None => self.runs_more = true,
        }
    }
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

/// `true` if a word sets a variable that may decide which files a program runs: by its name, or because its
/// value is a path or expanded.
fn sets_program(word: &str) -> bool {
    let name = word.split_once('=').filter(|_| is_assignment(word));
    name.is_some_and(|(name, value)| {
        let name = name.trim_end_matches('+');
        let is_named = name == "ENV" || VARIABLES.iter().any(|end| name.ends_with(end));
        is_named || value.contains(['/', '$', '`', '~'])
    })
}
