//! Exit codes: a contract, one enum. `forge help` prints the same table.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use sandbox_config::{DiagnosticCode, Diagnostics};
use serde_json::{Value, json};

use crate::foreign_flags::foreign_flag;
use crate::output::escape::escape_lines;
use crate::output::stderr;

/// The result of a command, as an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitKind {
    /// Done.
    Done,
    /// Done, with a negative result.
    Negative,
    /// Usage or configuration.
    Usage,
    /// A call needed an approval, and no person could give it.
    Unanswered,
    /// A key is missing, or its provider does not take it.
    Credentials,
    /// A limit ended the run.
    Limit,
    /// Required isolation is not available.
    Isolation,
    /// A provider that cannot be reached, also after trying again, or a repository.
    Unreachable,
    /// `log verify`: every line is as written, but not every log has its end.
    Unsealed,
    /// `exec`: forge refused or failed before the command ran.
    ExecRefused,
    /// `exec --fail-on-quarantine`: something was moved to the quarantine.
    Quarantined,
    /// The result of the command of `exec` (its code, 124, 126, 127, 128 + signal), or the signal
    /// that stopped forge itself.
    Command(u8),
    /// Ctrl-C ended the command, or forge itself.
    Interrupted,
}

impl ExitKind {
    /// Returns [`ExitKind::Negative`] after a failure.
    pub(crate) fn negative_if(failed: bool) -> ExitKind {
        match failed {
            true => ExitKind::Negative,
            false => ExitKind::Done,
        }
    }

    /// Returns the number of the exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            ExitKind::Done => 0,
            ExitKind::Negative => 1,
            ExitKind::Usage => 2,
            ExitKind::Unanswered => 3,
            ExitKind::Credentials => 4,
            ExitKind::Limit => 5,
            ExitKind::Isolation => 6,
            ExitKind::Unreachable => 7,
            ExitKind::Unsealed => 8,
            ExitKind::Quarantined => 123,
            ExitKind::ExecRefused => 125,
            ExitKind::Command(code) => code,
            ExitKind::Interrupted => 130,
        }
    }
}

/// The table for `--help`.
pub(crate) const TABLE: &str = include_str!("topics/exit_codes.txt");

/// The error code of unusable arguments.
pub(crate) const USAGE: &str = "usage";

/// Reports unusable arguments, or prints the requested help. A caller that asked for JSON gets JSON
/// here too, although the flag is still an unparsed word.
pub(crate) fn unusable(error: &clap::Error) -> ExitKind {
    let words = || std::env::args_os().skip(1).take_while(|word| word != "--");
    let output = |format: &str| {
        let mut pairs = words().zip(words().skip(1));
        words().any(|word| word == format!("--output={format}").as_str())
            || pairs.any(|(flag, word)| flag == "--output" && word == format)
    };
    let first = words().next();
    let hint = match (first.as_deref().and_then(OsStr::to_str), error.kind()) {
        (Some("explain"), ErrorKind::UnknownArgument) => {
            Some("a command comes after `--`: forge explain -- npm test")
        }
        (Some("exec"), ErrorKind::UnknownArgument) => foreign_flag(error),
        _ => None,
    };
    let streams = output("stream-json");
    let asked_for_json = streams || output("json") || words().any(|word| word == "--json");
    // For `exec` 2 could be the command's own code; a failure of forge before it is 125.
    let exit = if words().any(|word| word == "exec") {
        ExitKind::ExecRefused
    } else {
        ExitKind::Usage
    };
    if !error.use_stderr() {
        // Help and version. A reader that is gone wants no more of it.
        let _ = error.print();
        ExitKind::Done
    } else if asked_for_json {
        let text = in_plain_words(&error.render().to_string());
        let message = text.trim().trim_start_matches("error: ");
        let failure = CliError::usage(message).exits(exit).maybe_hint(hint);
        if streams {
            crate::run_view::failed(&failure);
        }
        failure.report(true)
    } else {
        let text = error.render();
        let plain = in_plain_words(&text.to_string());
        match plain == text.to_string() {
            true => drop(error.print()),
            false => stderr::print_diagnostic(&plain),
        }
        if let Some(hint) = hint {
            stderr::print_diagnostic(&format!("\nhint: {hint}"));
        }
        exit
    }
}

/// Replaces what a parser says about a number, and about a flag with a value.
fn in_plain_words(text: &str) -> String {
    [
        ("invalid digit found in string", "not a whole number"),
        (
            "cannot parse integer from empty string",
            "not a whole number",
        ),
        (
            "number too large to fit in target type",
            "the number is too large",
        ),
        (" found; no more were expected", ": it takes no value"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (said, plain)| {
        let plain = match (*plain, text.contains("<SECONDS>")) {
            ("not a whole number", true) => "not a whole number of seconds",
            (plain, _) => plain,
        };
        text.replace(said, plain)
    })
}

/// Most mistakes that an MCP client is told of at once.
const MAX_CLIENT_ERRORS: usize = 5;

/// An error that ends a command, for people and, with `--json`, for programs.
#[derive(Debug)]
pub(crate) struct CliError {
    exit: ExitKind,
    code: &'static str,
    message: String,
    hint: Option<String>,
    diagnostics: Option<Diagnostics>,
    is_silent: bool,
    /// In a file that is not the configuration's.
    place: Option<Box<FileLocation>>,
}

#[derive(Debug)]
struct FileLocation {
    file: PathBuf,
    line: usize,
    column: usize,
}

impl CliError {
    /// A failure with its exit code, its stable code and its message.
    pub(crate) fn new(exit: ExitKind, code: &'static str, message: impl Into<String>) -> Self {
        debug_assert!(crate::topics::is_code(code), "{code} is not listed");
        CliError {
            exit,
            code,
            message: message.into(),
            hint: None,
            diagnostics: None,
            is_silent: false,
            place: None,
        }
    }

    /// The result could not be written. A reader that wants no more (`| head`) is told nothing,
    /// as if the signal had ended forge: 128 + SIGPIPE.
    pub(crate) fn stdout(error: std::io::Error) -> Self {
        let mut failure = CliError::negative("stdout", error.to_string());
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            failure.exit = ExitKind::Command(141);
            failure.is_silent = true;
        }
        failure
    }

    /// A negative result, or a failure that has no exit code of its own.
    pub(crate) fn negative(code: &'static str, message: impl Into<String>) -> Self {
        CliError::new(ExitKind::Negative, code, message)
    }

    /// A mistake in the arguments or in the configuration.
    pub(crate) fn misuse(code: &'static str, message: impl Into<String>) -> Self {
        CliError::new(ExitKind::Usage, code, message)
    }

    /// A command of `exec` that was not started.
    pub(crate) fn exec_refused(code: &'static str, message: impl Into<String>) -> Self {
        CliError::new(ExitKind::ExecRefused, code, message)
    }

    /// A mistake in the arguments.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        CliError::misuse(USAGE, message)
    }

    /// A failure of forge's own files.
    pub(crate) fn state(message: impl Into<String>) -> Self {
        CliError::negative("state", message)
    }

    /// A file of forge's own that cannot be read or written, and the variable that names another
    /// directory for it.
    pub(crate) fn own_file(
        what: impl std::fmt::Display,
        error: &dyn std::fmt::Display,
        moved_by: &str,
    ) -> Self {
        CliError::state(format!("cannot use {what}: {error}")).hint(format!(
            "set {moved_by} to a directory that you can write to"
        ))
    }

    /// The failure of a user without a home directory.
    pub(crate) fn no_home() -> Self {
        CliError::state("missing home directory")
    }

    sandbox_names::getters! {
        /// Returns the text of the error.
        pub(crate) message: &str = &message;
        /// The stable code.
        pub(crate) code: &'static str = code;
        /// Returns the hint.
        pub(crate) hint_text: Option<&str> = hint.as_deref();
        /// Returns the mistakes in configuration files, if the error is about them.
        pub(crate) diagnostics: Option<&Diagnostics> = diagnostics.as_ref();
        /// Returns the exit code of this error.
        pub(crate) exit: ExitKind = exit;
    }

    /// Adds a hint.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a hint, if any.
    pub(crate) fn maybe_hint(mut self, hint: Option<impl Into<String>>) -> Self {
        self.hint = hint.map(Into::into).or(self.hint);
        self
    }

    /// Adds the position in a file, for programs.
    pub(crate) fn at(mut self, file: &Path, line: usize, column: usize) -> Self {
        self.place = Some(Box::new(FileLocation {
            file: file.to_owned(),
            line,
            column,
        }));
        self
    }

    /// Changes the exit code, for a command that promises other ones.
    pub(crate) fn exits(mut self, exit: ExitKind) -> Self {
        self.exit = exit;
        self
    }

    /// `true` if a project or worker file is at fault.
    pub(crate) fn is_configuration(&self) -> bool {
        self.diagnostics.is_some() || self.code == "worker.exceeds_parent"
    }

    /// `true` if a mounted directory is unavailable.
    pub(crate) fn is_mount(&self) -> bool {
        self.code == "mount.unavailable"
    }

    /// `true` for mistakes in the text of project files, and not in the directories that they name.
    pub(crate) fn is_of_file(&self) -> bool {
        use DiagnosticCode::{HostPath, Unreadable, Untrusted};
        self.diagnostics.as_ref().is_some_and(|all| {
            let mut errors = all.iter().filter(|one| one.is_error());
            errors.all(|one| !matches!(one.code(), HostPath | Unreadable | Untrusted))
        })
    }

    /// `true` if missing trust is the only problem.
    pub(crate) fn is_untrusted(&self) -> bool {
        self.diagnostics.as_ref().is_some_and(|all| {
            let mut errors = all.iter().filter(|one| one.is_error());
            errors.all(|one| one.code() == DiagnosticCode::Untrusted)
        })
    }

    /// Returns the text for an MCP client, which shows it to a model: the problem and its position,
    /// without the values, since those name places of the host.
    pub(crate) fn for_client(&self) -> String {
        if self.is_mount() {
            return "A directory of this project cannot be opened, so there are no tools until it \
                    can. A person has to see to it; `forge check` shows which."
                .to_owned();
        }
        let mut text = match self.is_untrusted() {
            true => {
                "A person has not agreed to this project's configuration, so there are no tools. \
                 `forge trust` shows them what it asks for."
            }
            false => {
                "The configuration of this project is not valid, so there are no tools. A person \
                 has to correct it; `forge check` shows them how."
            }
        }
        .to_owned();
        if self.diagnostics.is_none() {
            text.push_str(&format!("\n{}", self.code));
        }
        let errors = self.diagnostics.iter().flat_map(|list| list.iter());
        for error in errors
            .filter(|each| each.is_error())
            .take(MAX_CLIENT_ERRORS)
        {
            // One code is named after a word of the file that models never see.
            let code = error.code().as_str().replace("zone", "mount");
            text.push_str(&format!("\n{code}"));
            let file = error.file().map(std::path::Path::new);
            if let Some(name) = file.and_then(|file| file.file_name()) {
                text.push_str(&format!(" at {}", name.display()));
                for place in [error.line(), error.column()].into_iter().flatten() {
                    text.push_str(&format!(":{place}"));
                }
            }
        }
        text
    }

    /// The line for programs.
    pub(crate) fn to_json(&self) -> Value {
        if let Some(diagnostics) = &self.diagnostics {
            let mut object = diagnostics.to_json();
            if let Some(hint) = &self.hint {
                let help = object["error"]["help"].as_str();
                let help = help.map_or_else(|| hint.clone(), |help| format!("{help}\n{hint}"));
                object["error"]["help"] = help.into();
            }
            return object;
        }
        json!({"error": {
            "code": self.code,
            "message": self.message,
            "file": self.place.as_ref().map(|place| place.file.to_string_lossy()),
            "line": self.place.as_ref().map(|place| place.line),
            "column": self.place.as_ref().map(|place| place.column),
            "help": self.hint,
        }})
    }

    /// Prints it to standard error.
    pub(crate) fn report(&self, as_json: bool) -> ExitKind {
        if self.is_silent {
            return self.exit;
        }
        match (&self.diagnostics, as_json) {
            (_, true) => stderr::print(self.to_json()),
            (Some(diagnostics), false) => {
                stderr::print_diagnostic(&escape_lines(&diagnostics.to_string()));
                self.print_hint();
            }
            (None, false) => {
                // A mistake in a file describes itself.
                let message = escape_lines(&self.message);
                if message.starts_with("error[") {
                    stderr::print_diagnostic(&message);
                } else {
                    stderr::print_diagnostic(&format!("error: {message}"));
                }
                self.print_hint();
            }
        }
        self.exit
    }

    fn print_hint(&self) {
        if let Some(hint) = &self.hint {
            stderr::print_diagnostic(&format!("\nhint: {}", escape_lines(hint)));
        }
    }
}

impl From<Diagnostics> for CliError {
    fn from(diagnostics: Diagnostics) -> Self {
        CliError {
            exit: ExitKind::Usage,
            code: "config",
            message: diagnostics.to_string(),
            hint: None,
            diagnostics: Some(diagnostics),
            is_silent: false,
            place: None,
        }
    }
}
