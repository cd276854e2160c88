//! A file's text and places in it. Every value that comes out of a file keeps its place, so that
//! any later complaint (an escalation hours into a run, too) can point at file, line and column.

use std::path::{Path, PathBuf};
use std::sync::Arc;

sandbox_names::word_enum! {
    /// Which of the layers a value comes from, weakest first.
    ///
    /// ```
    /// use sandbox_config::Layer;
    /// assert!(Layer::Project < Layer::CommandLine);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Layer {
        /// Built in.
        Default = "default",
        /// The person's own file, outside every project.
        User = "user",
        /// The project file or a worker file: it came with the repository.
        Project = "project",
        /// A `FORGE__…` variable.
        Environment = "env",
        /// `-c KEY=VALUE`.
        CommandLine = "flag",
    }
    /// The word that `forge config show --origin` prints.
    pub fn word
}

impl Layer {
    /// Returns `true` if a person said it, rather than a file that came with a repository.
    #[must_use]
    pub fn is_own_voice(self) -> bool {
        match self {
            Layer::Default | Layer::User | Layer::Environment | Layer::CommandLine => true,
            Layer::Project => false,
        }
    }
}

/// The origin of a value: layer, and file and line, if any.
///
/// ```
/// use sandbox_config::{Layer, ConfigOrigin};
/// let origin = ConfigOrigin::built_in();
/// assert_eq!(origin.layer(), Layer::Default);
/// assert_eq!(origin.to_string(), "default");
/// ```
#[derive(Clone, Debug)]
pub struct ConfigOrigin {
    layer: Layer,
    name: Option<Arc<str>>,
    line: u32,
    column: u32,
    /// For a caret in a later message; ignored by `==`.
    span: Option<Span>,
}

/// Equal layers and equal locations.
impl PartialEq for ConfigOrigin {
    fn eq(&self, other: &ConfigOrigin) -> bool {
        (self.layer, &self.name, self.line, self.column)
            == (other.layer, &other.name, other.line, other.column)
    }
}

impl Eq for ConfigOrigin {}

/// Location of a value. Ignored by `==`: values are equal at any location.
#[derive(Clone, Default)]
pub(crate) struct SourceLocation(pub(crate) Option<ConfigOrigin>);

impl SourceLocation {
    pub(crate) fn at(span: &Span) -> SourceLocation {
        SourceLocation(Some(span.origin()))
    }

    pub(crate) fn origin(&self) -> Option<&ConfigOrigin> {
        self.0.as_ref()
    }
}

impl PartialEq for SourceLocation {
    fn eq(&self, _: &SourceLocation) -> bool {
        true
    }
}

impl Eq for SourceLocation {}

impl std::fmt::Debug for SourceLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("_")
    }
}

impl ConfigOrigin {
    /// Returns the origin of a built-in value.
    #[must_use]
    pub fn built_in() -> ConfigOrigin {
        ConfigOrigin {
            layer: Layer::Default,
            name: None,
            line: 0,
            column: 0,
            span: None,
        }
    }

    sandbox_names::getters! {
        /// Returns the location, if any.
        pub(crate) span: Option<&Span> = span.as_ref();
        /// The layer.
        pub layer: Layer = layer;
        /// The file as shown to people, or the name of the variable or flag.
        pub name: Option<&str> = name.as_deref();
        /// Line, from 1; 0 for a built-in value.
        pub line: u32 = line;
        /// Column in characters, from 1; 0 for a built-in value.
        pub column: u32 = column;
    }
}

impl std::fmt::Display for ConfigOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name}:{}:{}", self.line, self.column),
            None => f.write_str(self.layer.word()),
        }
    }
}

/// One text that was read, under the name that messages show.
pub(crate) struct SourceText {
    pub(crate) layer: Layer,
    /// As shown in messages.
    pub(crate) name: String,
    /// The file itself; none for variables and flags.
    pub(crate) path: Option<PathBuf>,
    pub(crate) text: String,
    /// Byte offset of each line's first character.
    starts: Vec<usize>,
    /// Where the YAML begins: behind the `KEY=` of a flag or variable.
    yaml_at: usize,
}

impl SourceText {
    pub(crate) fn file(name: String, path: &Path, layer: Layer, text: String) -> Arc<SourceText> {
        SourceText::new(name, Some(path.to_path_buf()), layer, text, 0)
    }

    pub(crate) fn inline(name: String, layer: Layer, text: String) -> Arc<SourceText> {
        SourceText::new(name, None, layer, text, 0)
    }

    /// `KEY=VALUE`, of which the value is YAML.
    pub(crate) fn setting(name: String, layer: Layer, key: &str, value: &str) -> Arc<SourceText> {
        SourceText::new(name, None, layer, format!("{key}={value}"), key.len() + 1)
    }

    /// The part that is YAML.
    pub(crate) fn yaml(&self) -> &str {
        self.text.get(self.yaml_at..).unwrap_or("")
    }

    /// Returns the number of characters before the YAML, on the first line.
    pub(crate) fn before(&self) -> u32 {
        let before = self.text.get(..self.yaml_at).unwrap_or("");
        u32::try_from(before.chars().count()).unwrap_or(u32::MAX)
    }

    /// A column of the YAML as one of the text.
    pub(crate) fn column(&self, line: u32, column: u32) -> u32 {
        if line == 1 {
            column.saturating_add(self.before())
        } else {
            column
        }
    }

    fn new(
        name: String,
        path: Option<PathBuf>,
        layer: Layer,
        text: String,
        yaml_at: usize,
    ) -> Arc<SourceText> {
        // As YAML counts them: `\n`, `\r\n`, and `\r` alone.
        let bytes = text.as_bytes();
        let ends_line = |at: usize| match bytes[at] {
            b'\n' => true,
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        };
        let after_breaks = (0..bytes.len())
            .filter(|at| ends_line(*at))
            .map(|at| at + 1);
        let starts = std::iter::once(0).chain(after_breaks).collect();
        Arc::new(SourceText {
            layer,
            name,
            path,
            text,
            starts,
            yaml_at,
        })
    }

    /// A place of one character. A parser that waits for more text complains behind the end:
    /// that becomes the place behind the last character.
    pub(crate) fn inside(self: &Arc<SourceText>, line: u32, column: u32) -> Span {
        let lines = self.starts.len() - usize::from(self.starts.last() == Some(&self.text.len()));
        let last = u32::try_from(lines).unwrap_or(u32::MAX).max(1);
        let (line, column) = match line {
            0 => (1, self.column(1, 1)),
            line if line > last => (last, u32::MAX),
            line => (line, self.column(line, column.max(1))),
        };
        let behind = self.line(line).chars().count() + 1;
        Span {
            text: Arc::clone(self),
            line,
            column: column.min(u32::try_from(behind).unwrap_or(u32::MAX)),
            width: 1,
        }
    }

    /// The place of a byte that begins a character.
    pub(crate) fn place_of(self: &Arc<SourceText>, offset: usize) -> Span {
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        let before = self.text.get(start..offset).unwrap_or("");
        let mark = usize::from(line == 1 && before.starts_with('\u{feff}'));
        let clamp = |number| u32::try_from(number).unwrap_or(u32::MAX);
        self.inside(clamp(line), clamp(before.chars().count() - mark + 1))
    }

    /// The line's text without its ending, `line` from 1.
    pub(crate) fn line(&self, line: u32) -> &str {
        let index = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
        let Some(&start) = self.starts.get(index) else {
            return "";
        };
        let end = self.starts.get(index + 1).copied();
        let line = self.text.get(start..end.unwrap_or(self.text.len()));
        let line = line.unwrap_or("").trim_end_matches(['\n', '\r']);
        // A byte order mark is not part of the first line; elsewhere it is a character.
        let mark = (index == 0).then(|| line.strip_prefix('\u{feff}'));
        mark.flatten().unwrap_or(line)
    }
}

/// Without the text itself, which every place in it would repeat.
impl std::fmt::Debug for SourceText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Text")
            .field("layer", &self.layer)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A location in a text: the target of a caret.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) text: Arc<SourceText>,
    pub(crate) line: u32,
    pub(crate) column: u32,
    /// In characters, on this line; at least 1.
    pub(crate) width: u32,
}

impl Span {
    /// The first character of a text.
    pub(crate) fn start(text: &Arc<SourceText>) -> Span {
        Span {
            text: Arc::clone(text),
            line: 1,
            column: 1,
            width: 1,
        }
    }

    pub(crate) fn layer(&self) -> Layer {
        self.text.layer
    }

    pub(crate) fn origin(&self) -> ConfigOrigin {
        ConfigOrigin {
            layer: self.layer(),
            name: Some(self.text.name.as_str().into()),
            line: self.line,
            column: self.column,
            span: Some(self.clone()),
        }
    }
}
