//! Mistakes with their location: code, file, line, column, caret, and a correction. The shape is
//! the one rustc made familiar; the texts are ours, and tests hold them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use crate::syntax::escape::{self, shorten, visible};
use crate::syntax::other_tools;
use crate::syntax::text::{ConfigOrigin, Layer, Span};

macro_rules! codes {
    ($($variant:ident = $code:literal, $meaning:literal;)+) => {
        /// The closed list of codes. Programs match on them; people look them up.
        ///
        /// ```
        /// use sandbox_config::DiagnosticCode;
        /// assert_eq!(DiagnosticCode::UnknownKey.as_str(), "config.unknown_key");
        /// assert!(DiagnosticCode::ALL.contains(&DiagnosticCode::UnknownKey));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DiagnosticCode {
            $(#[doc = concat!("`", $code, "`: ", $meaning, ".")] $variant,)+
        }

        impl DiagnosticCode {
            /// Every code, in the order of this list.
            pub const ALL: &'static [DiagnosticCode] = &[$(DiagnosticCode::$variant),+];

            /// The stable spelling.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(DiagnosticCode::$variant => $code,)+
                }
            }

            /// Returns its meaning, in a line: `forge help errors` prints it.
            ///
            /// ```
            /// use sandbox_config::DiagnosticCode;
            /// assert_eq!(DiagnosticCode::Overlap.meaning(), "two mounts share host files");
            /// ```
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self {
                    $(DiagnosticCode::$variant => $meaning,)+
                }
            }
        }
    };
}

codes! {
    Syntax = "config.syntax", "the text is not YAML";
    TooComplex = "config.too_complex", "too deep, too many values, too many mistakes";
    Unreadable = "config.unreadable", "the file cannot be read: absent, a directory, no permission";
    TooLarge = "config.too_large", "the file is larger than the cap";
    NotUtf8 = "config.not_utf8", "the file is not UTF-8";
    Empty = "config.empty", "the file holds no keys";
    TwoFiles = "config.two_files", "two project files in one directory";
    ForeignFile = "config.foreign_file", "a project file above that belongs to another user";
    CutOff = "config.cut_off", "a `.git` inside of a repository keeps its project file from governing";
    MadeByCommand = "config.made_by_command", "a command may have made or changed a file that determines the project";
    UnknownKey = "config.unknown_key", "an unknown key";
    ForeignKey = "config.foreign_key", "a restriction in a spelling that forge does not use";
    NotYet = "config.not_yet", "a documented key that has no effect yet";
    DuplicateKey = "config.duplicate_key", "the same key twice in one mapping";
    MissingKey = "config.missing_key", "a required key is absent";
    WrongType = "config.wrong_type", "a value of another type than the key takes";
    BadValue = "config.bad_value", "a value outside of the key's list or range";
    FrontEnd = "config.front_end", "more than one front-end, or keys of one in another";
    MountName = "config.mount_name", "a mount name that cannot be used";
    HostPath = "config.host_path", "a host path that leaves where it must stay, is a link, or does not exist";
    Overlap = "config.overlap", "two mounts share host files";
    OwnDirectory = "config.own_directory", "a mount holds a directory of forge's own, or lies in one";
    UnknownZone = "config.unknown_zone", "a worker names a zone that the project does not have";
    Untrusted = "config.untrusted", "a key that widens permissions, and you have not agreed to it";
    AboveUserFile = "config.above_user_file", "a key asks for more than the person's own file allows";
    FrontMatter = "worker.front_matter", "a worker file without its `---` lines";
    UnknownWorker = "worker.unknown", "a worker that does not exist";
    TwoWorkers = "worker.two_files", "two workers with one name";
    FileName = "worker.file_name", "a worker's name is not its file's";
    ExceedsParent = "worker.exceeds_parent", "a worker asks for more than its caller holds";
    ExampleFailed = "rule.example_failed", "a rule's own example contradicts the rule";
    BadPattern = "rule.bad_pattern", "a pattern that cannot be read";
    NoEffect = "config.no_effect", "a key without effect beside another";
    Alias = "config.alias", "another spelling of a word, read as ours";
    ImplicitInherit = "worker.implicit_inherit", "a worker declares no sandbox and inherits all of it";
    UnknownPreset = "preset.unknown", "a preset that does not exist";
    Cycle = "worker.cycle", "workers that call each other, or presets that include each other, in a circle";
    TooDeep = "worker.too_deep", "a call that is deeper than `delegation.max_depth`";
    Unreachable = "worker.unreachable", "a worker that no worker calls";
    UnusedMount = "config.unused_mount", "a mount that no worker uses";
    ContainerNetwork = "docker.network", "one key gives containers the network, and another takes it";
    Shadowed = "rule.shadowed", "a rule that never decides, because others always do";
    RunsAnything = "rule.runs_anything", "a pre-approved rule whose program runs any other";
    WideHosts = "network.wide", "a pattern that names every host of a top-level domain";
}

impl DiagnosticCode {
    pub(crate) fn error(self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(self, message)
    }

    pub(crate) fn warning(self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::warning(self, message)
    }

    /// A mistake at a place of a text.
    pub(crate) fn at(self, span: &Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(self, message).at(span)
    }
}

/// One mistake or warning.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::write(dir.path().join("golem-forge.config.yaml"), "sandbox:\n  zonse: {}\n").unwrap();
/// use sandbox_config::{load, Sources};
/// let mistakes = load(&Sources::new(dir.path())).unwrap_err();
/// let first = mistakes.iter().next().unwrap();
/// assert_eq!((first.line(), first.column()), (Some(2), Some(3)));
/// assert_eq!(first.help_text(), Some("did you mean `zones`?"));
/// ```
#[derive(Clone, Debug)]
pub struct Diagnostic {
    code: DiagnosticCode,
    error: bool,
    message: String,
    at: Option<Span>,
    label: Option<String>,
    /// The line that it points at is not shown.
    hides: bool,
    file: Option<String>,
    related: Vec<(ConfigOrigin, String)>,
    notes: Vec<String>,
    help: Option<String>,
}

impl Diagnostic {
    pub(crate) fn error(code: DiagnosticCode, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            error: true,
            message: shorten(message.into()),
            at: None,
            label: None,
            hides: false,
            file: None,
            related: Vec::new(),
            notes: Vec::new(),
            help: None,
        }
    }

    pub(crate) fn warning(code: DiagnosticCode, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            error: false,
            ..Diagnostic::error(code, message)
        }
    }

    pub(crate) fn at(mut self, span: &Span) -> Diagnostic {
        self.at = Some(span.clone());
        self
    }

    /// At a place, if it has one.
    pub(crate) fn at_any(self, span: Option<&Span>) -> Diagnostic {
        match span {
            Some(span) => self.at(span),
            None => self,
        }
    }

    pub(crate) fn reworded(mut self, message: String) -> Diagnostic {
        self.message = shorten(message);
        self
    }

    /// Marks a line that may contain a secret: it is named and not shown.
    pub(crate) fn hiding(mut self) -> Diagnostic {
        self.hides = true;
        self
    }

    /// At the place that an origin remembers; none for a built-in value.
    pub(crate) fn at_origin(self, origin: &ConfigOrigin) -> Diagnostic {
        self.at_any(origin.span())
    }

    /// For a mistake that has a file and no place in it.
    pub(crate) fn in_file(mut self, shown: &str) -> Diagnostic {
        self.file = Some(shown.to_owned());
        self
    }

    pub(crate) fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = Some(shorten(label.into()));
        self
    }

    pub(crate) fn related(self, span: &Span, note: impl Into<String>) -> Diagnostic {
        self.related_to(&span.origin(), note)
    }

    /// Adds a second location, if it has one: built-in values have none.
    pub(crate) fn related_to(
        mut self,
        origin: &ConfigOrigin,
        note: impl Into<String>,
    ) -> Diagnostic {
        if origin.name().is_some() {
            self.related.push((origin.clone(), shorten(note.into())));
        }
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Diagnostic {
        self.notes.push(shorten(note.into()));
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(shorten(help.into()));
        self
    }

    /// Adds the known name that is nearest to `name`, if one is near.
    pub(crate) fn suggest<'n>(
        self,
        name: &str,
        known: impl IntoIterator<Item = &'n str>,
    ) -> Diagnostic {
        let known: Vec<&str> = known.into_iter().collect();
        let foreign = other_tools::our_values(name).find(|ours| known.contains(ours));
        match foreign.or_else(|| nearest(name, known)) {
            Some(near) => self.help(format!("did you mean `{near}`?")),
            None => self,
        }
    }

    sandbox_names::getters! {
        /// The code.
        pub code: DiagnosticCode = code;
        /// An error stops the load; a warning does not.
        pub is_error: bool = error;
        /// Returns the mistake, on one line.
        pub message: &str = &message;
        /// Returns the correction.
        pub help_text: Option<&str> = help.as_deref();
        /// The layer of the text that it points at.
        pub(crate) layer: Option<Layer> = at.as_ref().map(Span::layer);
    }

    /// The file as shown, or the name of the variable or flag.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        match (&self.at, &self.file) {
            (Some(span), _) => Some(&span.text.name),
            (None, file) => file.as_deref(),
        }
    }

    /// Returns the file on disk, if any.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.at.as_ref().and_then(|span| span.text.path.as_deref())
    }

    sandbox_names::getters! {
        /// Line, from 1.
        pub line: Option<u32> = at.as_ref().map(|span| span.line);
        /// Column in characters, from 1.
        pub column: Option<u32> = at.as_ref().map(|span| span.column);
        /// Returns further facts.
        pub notes: impl Iterator<Item = &str> = notes.iter().map(String::as_str);
    }

    /// The machine form. Lines and columns count from 1, columns in characters; `end` is the place
    /// after the last character. Absent parts are null, or empty lists:
    /// `{"severity","code","message","file","line","column","end":{"line","column"},"label",
    /// "notes":[…],"help","related":[{"file","line","column","end","message"}]}`
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let related = self.related.iter().map(|(origin, note)| {
            serde_json::json!({
                "file": origin.name(),
                "line": origin.line(),
                "column": origin.column(),
                "end": origin.span().map(end),
                "message": note,
            })
        });
        serde_json::json!({
            "severity": if self.error { "error" } else { "warning" },
            "code": self.code.as_str(),
            "message": self.message,
            "file": self.file(),
            "line": self.line(),
            "column": self.column(),
            "end": self.at.as_ref().map(end),
            "label": self.label,
            "notes": self.notes,
            "help": self.help,
            "related": related.collect::<Vec<_>>(),
        })
    }
}

/// A line that one of them hides is shown by no other.
fn hide_their_lines(list: &mut [Diagnostic]) {
    let line = |one: &Diagnostic| Some((one.file()?.to_owned(), one.line()?));
    let hidden: BTreeSet<(String, u32)> = list
        .iter()
        .filter(|one| one.hides)
        .filter_map(line)
        .collect();
    for one in list {
        one.hides |= line(one).is_some_and(|line| hidden.contains(&line));
    }
}

fn end(span: &Span) -> serde_json::Value {
    serde_json::json!({ "line": span.line, "column": span.column + span.width })
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = if self.error { "error" } else { "warning" };
        write!(
            f,
            "{severity}[{}]: {}",
            self.code.as_str(),
            visible(&self.message)
        )?;
        let gutter = self
            .at
            .as_ref()
            .map_or(1, |span| span.line.to_string().len());
        let pad = " ".repeat(gutter);
        if let Some(span) = &self.at {
            write!(
                f,
                "\n {pad}--> {}:{}:{}",
                visible(&span.text.name),
                span.line,
                span.column
            )?;
            let escape::CaretExcerpt {
                line,
                before,
                carets,
            } = match self.hides {
                true => escape::hidden(),
                false => escape::window(span),
            };
            let carets = "^".repeat(carets);
            write!(f, "\n {pad} |\n {} | {line}", span.line)?;
            write!(f, "\n {pad} | {}{carets}", " ".repeat(before))?;
            if let Some(label) = &self.label {
                write!(f, " {}", visible(label))?;
            }
        } else if let Some(file) = &self.file {
            write!(f, "\n {pad}--> {}", visible(file))?;
        }
        for (origin, note) in &self.related {
            write!(
                f,
                "\n {pad}::: {}   {}",
                visible(&origin.to_string()),
                visible(note)
            )?;
        }
        for note in &self.notes {
            write!(f, "\n {pad} = note: {}", visible(note))?;
        }
        if let Some(help) = &self.help {
            for (i, line) in help.lines().enumerate() {
                let lead = if i == 0 { "= help:" } else { "       " };
                write!(f, "\n {pad} {lead} {}", visible(line))?;
            }
        }
        Ok(())
    }
}

/// All mistakes of one load; never empty.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::write(dir.path().join("golem-forge.config.yaml"), "a: 1\nb: 2\n").unwrap();
/// use sandbox_config::{load, Sources};
/// let mistakes = load(&Sources::new(dir.path())).unwrap_err();
/// assert_eq!(mistakes.iter().count(), 2);
/// assert_eq!(mistakes.to_json()["error"]["line"], 1);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Diagnostics {
    first: Box<Diagnostic>,
    rest: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Returns the errors of a list of findings with its warnings; `None` without an error.
    ///
    /// ```
    /// assert!(sandbox_config::Diagnostics::of(Vec::new()).is_none());
    /// ```
    #[must_use]
    pub fn of(mut findings: Vec<Diagnostic>) -> Option<Diagnostics> {
        let first_error = findings.iter().position(Diagnostic::is_error)?;
        hide_their_lines(&mut findings);
        let first = findings.remove(first_error);
        // What else is wrong in a file follows its first mistake.
        findings.sort_by_key(|one| one.file() != first.file());
        Some(Diagnostics {
            first: Box::new(first),
            rest: findings,
        })
    }

    /// All of them, the first error first.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        std::iter::once(&*self.first).chain(&self.rest)
    }

    /// `{"error": {…}, "errors": [{…}, …]}`: the first mistake where every command puts it, and
    /// all of them beside it.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "error": self.first.to_json(),
            "errors": self.iter().map(Diagnostic::to_json).collect::<Vec<_>>(),
        })
    }

    pub(crate) fn into_list(self) -> Vec<Diagnostic> {
        let mut list = vec![*self.first];
        list.extend(self.rest);
        list
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(first: Diagnostic) -> Diagnostics {
        Diagnostics {
            first: Box::new(first),
            rest: Vec::new(),
        }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = self.iter().peekable();
        while let Some(diagnostic) = all.next() {
            let next = all.peek().filter(|next| {
                let codes = (diagnostic.code, next.code);
                codes == (DiagnosticCode::Untrusted, DiagnosticCode::Untrusted)
            });
            // One command agrees to all of them.
            if next.is_some_and(|next| next.help == diagnostic.help) {
                let mut brief = diagnostic.clone();
                brief.help = None;
                brief.fmt(f)?;
            } else {
                diagnostic.fmt(f)?;
            }
            if all.peek().is_some() {
                f.write_str("\n\n")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// Returns the candidate nearest to a word, if it is near enough to be a typo.
///
/// ```
/// assert_eq!(sandbox_config::nearest("rnu", ["run", "exec"]), Some("run"));
/// assert_eq!(sandbox_config::nearest("deploy", ["run", "exec"]), None);
/// ```
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A foreign word of any length must not cost a quadratic comparison.
    if word.len() > 64 {
        return None;
    }
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let distance = strsim::osa_distance(&lower, &candidate.to_lowercase());
            let near = match candidate.chars().count() {
                0..=3 => 1,
                4..=7 => 2,
                _ => 3,
            };
            (distance <= near).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_listed() {
        let mut seen: Vec<_> = DiagnosticCode::ALL
            .iter()
            .map(|code| code.as_str())
            .collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), DiagnosticCode::ALL.len());
    }

    #[test]
    fn nearest_is_a_typo_and_not_a_guess() {
        let keys = ["zones", "mode", "root"];
        assert_eq!(nearest("zonse", keys), Some("zones"));
        assert_eq!(nearest("mdoe", keys), Some("mode"));
        assert_eq!(nearest("kubernetes", keys), None);
        assert_eq!(nearest("", keys), None);
    }
}
