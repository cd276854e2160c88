//! The person's rules for one project: commands that this person is not asked about there, hosts
//! that commands reach beside those that the project names, and directories that commands see.
//!
//! They are in a file of the user's, one for each project directory, outside the project: one
//! pattern of a command, `host:PATTERN` or a [directory](super::personal_paths) a line, `#` begins a
//! comment. A rule for commands answers
//! a question of the project and its workers. It never lifts a block, and gives no right that the
//! worker does not have. A host becomes a part of the project's network: hosts that the project or
//! the user file denies stay denied, and a worker that lists hosts keeps to its own list.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use sandbox_network::HostPattern;
use sha2::{Digest as _, Sha256};

use crate::grant::Grant;
use crate::grant::network::{HostLine, denied_hosts};
use crate::grant::shell::{CommandPattern, CommandRule};
use crate::grant::verdict::Verdict;
use crate::loading::load_context::LoadContext;
use crate::loading::location::ProjectLocation;
use crate::project::personal_paths::{MAX_PATHS, PersonalPath};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, Diagnostics};
use crate::syntax::escape::{is_hidden, visible};
use crate::syntax::fields::Reports;
use crate::syntax::read::read;
use crate::syntax::text::{ConfigOrigin, Layer, SourceText, Span};

/// Every command that is asked about is compared with every rule.
const MAX_RULES: usize = 1_000;

/// Bytes of the hash of a project's path that are part of a file's name.
const HASH_BYTES: usize = 8;

/// The text of a file of a person's rules for one project.
///
/// ```
/// use sandbox_config::PersonalRules;
/// let none = PersonalRules::parse("x.rules", "").unwrap();
/// let text = none.with("/home/a/p".as_ref(), &["npm test *".into()]).unwrap();
/// let rules = PersonalRules::parse("x.rules", &text).unwrap();
/// let list: Vec<String> = rules.iter().map(|(rule, _)| rule).collect();
/// assert_eq!(list, ["npm test *"]);
/// assert!(rules.with("/home/a/p".as_ref(), &["./run *".into()]).is_err());
/// assert!(!rules.without("npm test *").unwrap().contains("npm"));
/// ```
#[derive(Clone, Debug)]
pub struct PersonalRules {
    text: String,
    pub(crate) rules: Vec<CommandRule>,
    pub(crate) hosts: Vec<HostLine>,
    pub(crate) paths: Vec<PersonalPath>,
}

/// The beginning of a line that names a host.
const HOST: &str = "host:";

/// One line of the file that is not a comment.
enum PersonalRule {
    Command(CommandRule),
    Host(HostLine),
    Path(PersonalPath),
}

impl PersonalRule {
    /// Returns the line in the form that the file has.
    fn text(&self) -> String {
        match self {
            PersonalRule::Command(rule) => rule.pattern.text().to_owned(),
            PersonalRule::Host(line) => format!("{HOST}{}", line.pattern),
            PersonalRule::Path(line) => line.text(),
        }
    }
}

impl PersonalRules {
    /// Returns the name of the file for the project in this directory, which is absolute and
    /// without links.
    ///
    /// ```
    /// use sandbox_config::PersonalRules;
    /// let name = PersonalRules::file_name("/home/a/my project".as_ref());
    /// assert_eq!(name, "my_project-8d0f7c133f101f64.rules");
    /// ```
    #[must_use]
    pub fn file_name(project: &Path) -> String {
        let hash = Sha256::digest(project.as_os_str().as_encoded_bytes());
        let hash = sandbox_names::hex(&hash[..HASH_BYTES]);
        let name = project.file_name().unwrap_or_default().to_string_lossy();
        let plain = |c: char| match c.is_ascii_alphanumeric() || c == '-' {
            true => c,
            false => '_',
        };
        let name: String = name.chars().take(40).map(plain).collect();
        format!("{name}-{hash}.rules")
    }

    /// Reads a file; one that is absent holds no rules. `shown` is its name in messages.
    ///
    /// # Errors
    /// The file cannot be read, other users can write it, or it holds a line that is not a rule.
    pub fn read(file: &Path, shown: &str) -> Result<PersonalRules, Diagnostics> {
        match std::fs::metadata(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return PersonalRules::parse(shown, "");
            }
            // A program that can write there answers for this person.
            Ok(meta) if meta.is_file() && meta.mode() & 0o022 != 0 => {
                let message = format!("cannot use {shown}: other users can write it");
                let mistake = DiagnosticCode::Unreadable.error(message).in_file(shown);
                return Err(mistake
                    .help("look at what is there, then run `chmod go-w` on it")
                    .into());
            }
            Ok(_) | Err(_) => {}
        }
        let text = read(file, shown, Layer::User).map_err(|problem| Diagnostics::from(*problem))?;
        Self::of(&text)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// A line is not a rule.
    pub fn parse(shown: &str, text: &str) -> Result<PersonalRules, Diagnostics> {
        Self::of(&SourceText::inline(
            shown.to_owned(),
            Layer::User,
            text.to_owned(),
        ))
    }

    fn of(text: &Arc<SourceText>) -> Result<PersonalRules, Diagnostics> {
        let mut reports = Reports::default();
        let mut own = PersonalRules {
            text: text.text.clone(),
            rules: Vec::new(),
            hosts: Vec::new(),
            paths: Vec::new(),
        };
        let mut start = 0;
        for line in text.text.split_inclusive('\n') {
            let span = Span {
                width: 1,
                ..text.place_of(start)
            };
            start += line.len();
            let line = line.trim_end();
            if is_comment(line) {
                continue;
            }
            if own.iter().count() == MAX_RULES {
                let message = format!("more than {MAX_RULES} rules");
                reports.add(DiagnosticCode::TooComplex.at(&span, message));
                break;
            }
            match rule(line, &span) {
                Ok(PersonalRule::Command(rule)) => own.rules.push(rule),
                Ok(PersonalRule::Host(line)) => own.hosts.push(line),
                Ok(PersonalRule::Path(_)) if own.paths.len() == MAX_PATHS => {
                    let message = format!("more than {MAX_PATHS} directories");
                    reports.add(DiagnosticCode::TooComplex.at(&span, message));
                    break;
                }
                Ok(PersonalRule::Path(line)) => own.paths.push(line),
                Err(mistake) => reports.add(*mistake),
            }
        }
        reports.finish()?;
        Ok(own)
    }

    /// Returns the text as it is.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the rules with their locations: those for commands, then the hosts, then the
    /// directories, each in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (String, &ConfigOrigin)> {
        let rules = self.rules.iter();
        let rules = rules.map(|rule| (rule.pattern.text().to_owned(), &rule.origin));
        let hosts = self.hosts.iter();
        let hosts = hosts.map(|line| (format!("{HOST}{}", line.pattern), &line.origin));
        let paths = self.paths.iter();
        let paths = paths.map(|line| (line.text(), &line.origin));
        rules.chain(hosts).chain(paths)
    }

    /// Returns the locations of the rules for commands.
    pub fn command_origins(&self) -> impl Iterator<Item = &ConfigOrigin> {
        self.rules.iter().map(|rule| &rule.origin)
    }

    /// Returns the rule for exactly this command; `None` if it cannot be one.
    ///
    /// ```
    /// use sandbox_config::PersonalRules;
    /// let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
    /// assert_eq!(PersonalRules::exact(&words("npm test")).unwrap().text(), "npm test");
    /// assert!(PersonalRules::exact(&words("./build now")).is_none());
    /// ```
    #[must_use]
    pub fn exact(words: &[String]) -> Option<CommandPattern> {
        let text = CommandPattern::of_words(words)?.text().to_owned();
        let typed = SourceText::inline("RULE".to_owned(), Layer::CommandLine, text.clone());
        match rule(&text, &Span::start(&typed)).ok()? {
            PersonalRule::Command(rule) => Some(rule.pattern),
            PersonalRule::Host(_) | PersonalRule::Path(_) => None,
        }
    }

    fn has(&self, pattern: &str) -> bool {
        self.iter().any(|(known, _)| known == pattern)
    }

    /// Returns the text with these rules at its end, for the project in this directory. Rules that
    /// are there already are not repeated.
    ///
    /// # Errors
    /// A pattern cannot be read, or is not one that approves a command in advance.
    pub fn with(&self, project: &Path, patterns: &[String]) -> Result<String, Diagnostics> {
        let mut reports = Reports::default();
        let mut text = self.text.clone();
        let mut added: Vec<String> = Vec::new();
        for pattern in patterns {
            let typed = SourceText::inline("RULE".to_owned(), Layer::CommandLine, pattern.clone());
            let pattern = match rule(pattern.trim_end(), &Span::start(&typed)) {
                Ok(rule) => rule.text(),
                Err(mistake) => {
                    reports.add(*mistake);
                    continue;
                }
            };
            if self.has(&pattern) || added.contains(&pattern) {
                continue;
            }
            if text.is_empty() {
                text = format!(
                    "# Commands that forge does not ask about in {}, hosts (`host:NAME`), directories (`read:PATH`, \
                     `write:PATH`, `programs:PATH`).\n\
                     # One pattern a line; `forge allow` writes here. What is blocked stays blocked.\n",
                    visible(&project.to_string_lossy())
                );
            }
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&pattern);
            text.push('\n');
            added.push(pattern);
        }
        reports.finish()?;
        Ok(text)
    }

    /// Returns the text without a rule; `None` if the rule is not there.
    #[must_use]
    pub fn without(&self, pattern: &str) -> Option<String> {
        let pattern = pattern.trim();
        let lines = self.text.split_inclusive('\n');
        self.has(pattern)
            .then(|| lines.filter(|line| line.trim() != pattern).collect())
    }
}

/// Gives a project's ceiling the rules of the user for it, and returns the directories among them.
/// Mistakes are reported.
pub(crate) fn add(
    context: &mut LoadContext<'_>,
    found: &ProjectLocation,
    ceiling: &mut Grant,
) -> Vec<PersonalPath> {
    let Some(dir) = &context.sources.personal_rules else {
        return Vec::new();
    };
    let file = dir.join(PersonalRules::file_name(&found.dir));
    let rules = match PersonalRules::read(&file, &found.show(&file)) {
        Ok(rules) => rules,
        Err(mistakes) => {
            context.reports.extend(mistakes.into_list());
            return Vec::new();
        }
    };
    let hosts = rules.hosts.iter().map(|line| line.pattern.clone());
    let denied = denied_hosts(&context.facts.network_lines);
    ceiling.network = ceiling.network.with_hosts(hosts, denied);
    context.facts.network_lines.extend(rules.hosts);
    if let Some(shell) = &mut ceiling.shell {
        shell.personal = rules.rules.into();
    }
    rules.paths
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

/// Returns the first word with an unquoted `*` inside, and its offset.
fn inner_asterisk(text: &str) -> Option<(usize, &str)> {
    if text.contains(['\'', '"']) {
        return None;
    }
    let mut from = 0;
    for word in text.split_whitespace() {
        let offset = text[from..].find(word).map_or(from, |found| from + found);
        from = offset + word.len();
        // `*` is a word of its own; inside of quotes it is meant as itself.
        if word != "*" && word.contains('*') {
            return Some((offset, word));
        }
    }
    None
}

/// One line of a file of rules.
struct RuleLine<'l> {
    line: &'l str,
    /// The line without the blanks before it.
    text: &'l str,
    /// The place of the line's first character.
    start: &'l Span,
}

impl RuleLine<'_> {
    fn at(&self, offset: usize, part: &str) -> Span {
        let chars = |text: &str| u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        let indent = self.line.len() - self.text.len();
        let before = self.line.get(..indent + offset).unwrap_or("");
        Span {
            column: self.start.column.saturating_add(chars(before)),
            width: chars(part).max(1),
            ..self.start.clone()
        }
    }

    /// A mistake in `part`, which begins at `offset`.
    fn mistake(&self, message: String, offset: usize, part: &str, help: &str) -> Box<Diagnostic> {
        let at = self.at(offset, part);
        let mistake = DiagnosticCode::BadPattern.at(&at, message);
        Box::new(match help {
            "" => mistake,
            help => mistake.help(help),
        })
    }

    fn origin(&self) -> ConfigOrigin {
        self.at(0, self.text).origin()
    }
}

/// Reads a line as a rule. `start` is the place of its first character.
fn rule(line: &str, start: &Span) -> Result<PersonalRule, Box<Diagnostic>> {
    let text = line.trim_start();
    let line = RuleLine { line, text, start };
    if is_comment(text) {
        let help = "write the command, for example `npm test *`";
        return Err(line.mistake("the rule is empty".to_owned(), 0, text, help));
    }
    let mut chars = text.char_indices();
    if let Some((offset, _)) = chars.find(|(_, c)| is_hidden(*c) && *c != '\t') {
        let message = "the rule holds a character that is not seen".to_owned();
        return Err(line.mistake(message, offset, "x", ""));
    }
    if let Some(host) = text.strip_prefix(HOST) {
        let pattern = HostPattern::parse(host.trim()).map_err(|problem| {
            let message = format!("`{host}` cannot be allowed: {problem}");
            line.mistake(message, HOST.len(), host, problem.help())
        })?;
        return Ok(PersonalRule::Host(HostLine::allowed(
            pattern,
            line.origin(),
        )));
    }
    if let Some((access, path)) = PersonalPath::split(text) {
        let parsed = PersonalPath::parse_path(path).ok_or_else(|| {
            line.mistake(
                format!("`{path}` cannot be shown: it is not an absolute path without `..`"),
                text.len() - path.len(),
                path,
                "write the whole path: `forge allow` takes a leading `~` for your home directory, \
                 and the file has none",
            )
        })?;
        return Ok(PersonalRule::Path(PersonalPath {
            access,
            path: parsed,
            origin: line.origin(),
        }));
    }
    Ok(PersonalRule::Command(CommandRule {
        pattern: command_pattern(&line)?,
        verdict: Verdict::Allow,
        why: None,
        origin: line.origin(),
    }))
}

/// Reads a line as the pattern of a command that only one program can be meant by.
fn command_pattern(line: &RuleLine<'_>) -> Result<CommandPattern, Box<Diagnostic>> {
    let text = line.text;
    let pattern = CommandPattern::parse(text).map_err(|problem| {
        line.mistake(
            format!("the pattern cannot be read: {problem}"),
            0,
            text,
            "",
        )
    })?;
    let first = text.split_whitespace().next().unwrap_or(text);
    if first.starts_with(|c: char| c.is_ascii_uppercase()) && first.contains('(') {
        let message = format!("`{first}` is another tool's spelling");
        let help = "write the command alone, for example `npm test *`";
        return Err(line.mistake(message, 0, first, help));
    }
    let mut programs = pattern.word(0).unwrap_or_default().into_iter();
    if let Some(program) =
        programs.find(|program| program.contains('/') && !program.starts_with('/'))
    {
        return Err(line.mistake(
            format!("`{program}` is a relative path"),
            0,
            first,
            "name a program (`npm`) or an absolute path: a worker can put another file at a \
             relative one",
        ));
    }
    if let Some((offset, word)) = inner_asterisk(text) {
        return Err(line.mistake(
            format!("`*` in `{word}` is not a pattern"),
            offset,
            word,
            "`*` stands alone, for one word or at the end for any rest; quote a `*` that is \
             meant as itself",
        ));
    }
    Ok(pattern)
}
