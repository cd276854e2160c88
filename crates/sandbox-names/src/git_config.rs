//! Parses git's configuration as git does, and lists the files that git executes or obeys because
//! of it.
//!
//! <https://git-scm.com/docs/git-config>

use crate::git::{ReferenceKind, reference_kind};
use crate::git_command::named_paths;

/// One value of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitConfigEntry {
    /// In lower case.
    pub section: String,
    /// As it is written: of `[filter "x"]`, `x`.
    pub sub: Option<String>,
    /// In lower case.
    pub key: String,
    /// Without quotes, escapes and comment.
    pub value: String,
    /// The line of the value as it is written, with those that continue it.
    pub line: String,
}

impl GitConfigEntry {
    /// `section.sub.key`.
    pub fn name(&self) -> String {
        match &self.sub {
            Some(sub) => format!("{}.{sub}.{}", self.section, self.key),
            None => format!("{}.{}", self.section, self.key),
        }
    }
}

/// Returns every value of a configuration, as git reads it, without the lines that git ignores.
#[must_use]
pub fn entries(text: &str) -> Vec<GitConfigEntry> {
    let mut out = Vec::new();
    let mut section: Option<(String, Option<String>)> = None;
    let mut lines = without_mark(text).lines();
    while let Some(line) = lines.next() {
        let (mut written, mut part) = (line.to_owned(), trim(line));
        let (mut line, mut quoted) = (part.to_owned(), false);
        while is_continued(part, &mut quoted) {
            line.pop();
            part = lines.next().unwrap_or_default();
            line.push_str(part);
            written.push_str(part);
        }
        let mut rest = line.as_str();
        if let Some(header) = rest.strip_prefix('[') {
            let quoted = header.find('"').and_then(|start| {
                let end = header[start + 1..].find("\"]")?;
                Some((
                    &header[..start],
                    &header[start + 1..start + 1 + end],
                    start + end + 3,
                ))
            });
            let (name, sub, end) = match (quoted, header.find(']')) {
                (Some((name, sub, end)), _) => {
                    let sub = sub.replace("\\\"", "\"").replace("\\\\", "\\");
                    (name, Some(sub), end)
                }
                // In this form case says nothing.
                (None, Some(end)) => match header[..end].split_once('.') {
                    Some((name, sub)) => (name, Some(sub.to_ascii_lowercase()), end + 1),
                    None => (&header[..end], None, end + 1),
                },
                (None, None) => continue,
            };
            section = Some((trim(name).to_ascii_lowercase(), sub));
            rest = trim(&header[end..]);
        }
        let Some((section, sub)) = &section else {
            continue;
        };
        if rest.is_empty() || rest.starts_with(['#', ';']) {
            continue;
        }
        let (key, value) = rest.split_once('=').unwrap_or((rest, "true"));
        out.push(GitConfigEntry {
            section: section.clone(),
            sub: sub.clone(),
            key: trim(key).to_ascii_lowercase(),
            value: value_of(trim(value)),
            line: written,
        });
    }
    out
}

/// Returns `true` if the next line continues a part of a line: the part ends with a backslash that
/// belongs to no escape or comment. `quoted`: the part begins in quotes; changed to its end.
fn is_continued(part: &str, quoted: &mut bool) -> bool {
    let mut chars = part.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => *quoted = !*quoted,
            '\\' if chars.next().is_none() => return true,
            '#' | ';' if !*quoted => return false,
            _ => {}
        }
    }
    false
}

/// Returns `true` for a line that git reads in one way only: an empty line, a comment, `[section]`,
/// `[section "name"]`, or `key = value` without escapes.
#[must_use]
pub fn is_plain_line(line: &str) -> bool {
    let line = trim(line);
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    if line.is_empty() || line.starts_with(['#', ';']) {
        return true;
    }
    if line.contains('\\') {
        return false;
    }
    if let Some(header) = line
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        let Some((section, quoted)) = header.split_once(' ') else {
            return is_word(header);
        };
        let name = quoted
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        return is_word(section) && name.is_some_and(|name| !name.contains('"'));
    }
    line.split_once('=')
        .is_some_and(|(key, value)| is_word(trim(key)) && value.matches('"').count() % 2 == 0)
}

/// Removes the byte order mark at the start, which git ignores.
#[must_use]
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Removes what git takes for white space.
fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r'])
}

/// A value without its quotes, escapes, comment, and the blanks at its end that are not in quotes.
fn value_of(text: &str) -> String {
    let (mut out, mut quoted) = (String::new(), false);
    let mut end = 0;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => quoted = !quoted,
            '\\' => out.push(match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(other) => other,
                None => break,
            }),
            '#' | ';' if !quoted => break,
            ' ' | '\t' if !quoted => {
                out.push(c);
                continue;
            }
            c => out.push(c),
        }
        end = out.len();
    }
    out.truncate(end);
    out
}

/// A path that a configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferencedPath {
    /// The key: `core.hookspath`.
    pub by: String,
    /// The use that git makes of it. A [`ReferenceKind::Program`] is a word of a command, which
    /// need not be a file.
    pub kind: ReferenceKind,
    /// As it is written.
    pub path: String,
}

/// The paths that a configuration names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Each path that it names.
    pub paths: Vec<ReferencedPath>,
    /// `true` if it has programs for files, so that attributes assign files to them.
    pub drivers: bool,
}

/// Returns the command of a URL that git runs: `ext::COMMAND` (gitremote-ext(7)).
fn remote_command(entry: &GitConfigEntry) -> Option<&str> {
    let url = match (&*entry.section, &*entry.key) {
        ("remote", "url" | "pushurl") => &entry.value,
        ("url", "insteadof" | "pushinsteadof") => entry.sub.as_deref()?,
        _ => return None,
    };
    url.strip_prefix("ext::")
}

/// Returns the paths that a configuration names.
///
/// ```
/// use sandbox_names::git_config::references;
/// let led = references("[core]\n\thooksPath = tools/hooks\n[alias]\n\tst = !sh tools/st\n");
/// let paths: Vec<&str> = led.paths.iter().map(|lead| lead.path.as_str()).collect();
/// assert_eq!(paths, ["tools/hooks", "sh", "tools/st"]);
/// assert!(!led.drivers);
/// ```
#[must_use]
pub fn references(text: &str) -> References {
    let mut out = References::default();
    for entry in entries(text) {
        let command = remote_command(&entry);
        let kind = match command {
            Some(_) => ReferenceKind::Program,
            None => reference_kind(&entry.section, entry.sub.as_deref(), &entry.key),
        };
        let by = entry.name();
        let mut add = |path: &str| {
            out.paths.push(ReferencedPath {
                by: by.clone(),
                kind,
                path: path.to_owned(),
            });
        };
        match kind {
            ReferenceKind::None => {}
            ReferenceKind::File | ReferenceKind::Configuration => {
                add(&entry.value);
                // Husky's hooks in `.husky/_` run those of the same name in `.husky`.
                let around = entry.value.trim_end_matches('/').strip_suffix("/_");
                around.filter(|_| entry.key == "hookspath").map(add);
            }
            ReferenceKind::Program => {
                let line = match entry.section.as_str() {
                    _ if command.is_some() => command.unwrap_or_default(),
                    "alias" => entry.value.strip_prefix('!').unwrap_or_default(),
                    _ => entry.value.trim_start_matches('!'),
                };
                named_paths(line).iter().for_each(|path| add(path));
                let driver = ["filter", "diff", "merge"].contains(&entry.section.as_str());
                out.drivers |= driver && !entry.value.starts_with("git-lfs ");
            }
        }
    }
    out
}
