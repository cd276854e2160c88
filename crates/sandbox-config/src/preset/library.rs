//! The presets that there are: forge's own, and those in a directory of the person's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::preset::set::PresetSet;
use crate::preset::{Preset, read};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, Diagnostics, nearest};
use crate::syntax::read::read as read_text;
use crate::syntax::text::{Layer, SourceText};

/// Bound on the presets of one command, those that are included counted too.
pub(crate) const MAX_PRESETS: usize = 64;

macro_rules! built_in {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../presets/", $name, ".yaml")))),+]
    };
}

/// The built-in presets, by name.
static BUILT_IN: &[(&str, &str)] = built_in![
    "agent-programs",
    "aider",
    "claude",
    "codex",
    "copilot",
    "cursor",
    "gemini",
    "git-https",
    "go",
    "goose",
    "jvm",
    "node",
    "opencode",
    "python",
    "rust",
];

/// The built-in presets, and those in one directory, `NAME.yaml` each.
///
/// ```
/// use sandbox_config::PresetLibrary;
/// let library = PresetLibrary::built_in();
/// assert!(library.names().contains(&"claude".to_owned()));
/// let mistakes = library.read("clude").unwrap_err();
/// assert_eq!(mistakes.iter().next().unwrap().message(), "unknown preset `clude`");
/// ```
#[derive(Clone, Debug, Default)]
pub struct PresetLibrary {
    own: Option<PathBuf>,
}

impl PresetLibrary {
    /// Returns the built-in presets alone.
    #[must_use]
    pub fn built_in() -> PresetLibrary {
        PresetLibrary::default()
    }

    /// Returns the built-in presets, and those in a directory, which need not exist.
    #[must_use]
    pub fn with_directory(own: impl Into<PathBuf>) -> PresetLibrary {
        PresetLibrary {
            own: Some(own.into()),
        }
    }

    /// Returns the names, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: BTreeSet<String> = BUILT_IN.iter().map(|(name, _)| (*name).into()).collect();
        let entries = self.own.iter().filter_map(|own| own.read_dir().ok());
        for entry in entries.flatten().flatten() {
            let file = entry.file_name();
            let name = file.to_str().and_then(|name| name.strip_suffix(".yaml"));
            names.extend(name.filter(|name| is_name(name)).map(str::to_owned));
        }
        names.into_iter().collect()
    }

    /// Reads one preset.
    ///
    /// # Errors
    /// The name is unknown, the file contains mistakes, or a file has the name of a
    /// built-in preset.
    pub fn read(&self, name: &str) -> Result<Preset, Diagnostics> {
        let own = self
            .own
            .as_ref()
            .map(|own| own.join(format!("{name}.yaml")));
        let own = own.filter(|file| is_name(name) && file.symlink_metadata().is_ok());
        let built_in = BUILT_IN.iter().find(|(known, _)| *known == name);
        match (own, built_in) {
            (Some(file), Some(_)) => {
                let message = format!("{} has the name of a built-in preset", file.display());
                let taken = Diagnostic::error(DiagnosticCode::BadValue, message);
                Err(taken
                    .help("rename it; `extends:` takes over what the other one has")
                    .into())
            }
            (Some(file), None) => PresetLibrary::read_file(&file),
            (None, Some((_, text))) => PresetLibrary::parse(name, text),
            (None, None) => Err(self.unknown(name)),
        }
    }

    /// Returns the preset for an agent, by the name of its program. Presets without hosts are not
    /// for agents; people know compilers and package managers as programs without a login.
    #[must_use]
    pub fn for_agent(&self, program: &str) -> Option<Preset> {
        let names = self.names().into_iter();
        // Why: a command that fails looks for one, and reading all costs more than it does.
        let mut candidates = names.filter(|name| self.may_be_for(name, program));
        candidates.find_map(|name| {
            let preset = self.read(&name).ok()?;
            let is_for = preset.commands().iter().any(|known| known == program);
            (is_for && preset.has_hosts()).then_some(preset)
        })
    }

    /// Returns `false` if a line with the commands of a built-in preset lacks the program.
    fn may_be_for(&self, name: &str, program: &str) -> bool {
        let text = BUILT_IN.iter().find(|(known, _)| *known == name);
        text.is_none_or(|(_, text)| {
            let mut lines = text.lines();
            lines.any(|line| line.starts_with("commands:") && line.contains(program))
        })
    }

    /// Reads a preset file, wherever it is.
    ///
    /// # Errors
    /// It cannot be read, or it contains mistakes.
    pub fn read_file(file: &Path) -> Result<Preset, Diagnostics> {
        // The person's own voice: it is theirs, and they name it.
        let text = read_text(file, &file.display().to_string(), Layer::CommandLine)
            .map_err(|problem| Diagnostics::from(*problem))?;
        let stem = file.file_stem().and_then(|stem| stem.to_str());
        read::preset(&text, stem.unwrap_or_default())
    }

    /// Reads a text as the preset of this name.
    ///
    /// # Errors
    /// It contains mistakes, or the name is none.
    pub fn parse(name: &str, text: &str) -> Result<Preset, Diagnostics> {
        if !is_name(name) {
            return Err(invalid_name(name).into());
        }
        let shown = format!("preset {name}");
        let text = SourceText::inline(shown, Layer::CommandLine, text.to_owned());
        read::preset(&text, name)
    }

    fn unknown(&self, name: &str) -> Diagnostics {
        let names = self.names();
        let unknown = Diagnostic::error(
            DiagnosticCode::UnknownPreset,
            format!("unknown preset `{name}`"),
        );
        let near = nearest(name, names.iter().map(String::as_str));
        unknown
            .help(match near {
                Some(near) => format!("did you mean `{near}`? `forge preset list` shows all"),
                None => format!("these are: {}", names.join(", ")),
            })
            .into()
    }

    /// Reads the named presets and those that they include. An included preset comes before the one
    /// that includes it, and none comes twice.
    ///
    /// # Errors
    /// One of them cannot be read, presets include each other in a circle, or there are more than 64.
    pub fn compose(&self, names: &[String]) -> Result<PresetSet, Diagnostics> {
        let mut set = PresetSet::default();
        for name in names {
            self.add(name, &mut set)?;
        }
        Ok(set)
    }

    /// Adds a preset, and those that it includes, to a set.
    pub(crate) fn add(&self, name: &str, set: &mut PresetSet) -> Result<(), Diagnostics> {
        self.include(name, &mut Vec::new(), set)?;
        set.push_named(name);
        Ok(())
    }

    fn include(
        &self,
        name: &str,
        on_the_way: &mut Vec<String>,
        set: &mut PresetSet,
    ) -> Result<(), Diagnostics> {
        if set.presets().iter().any(|known| known.name() == name) {
            return Ok(());
        }
        if on_the_way.iter().any(|outer| outer == name) {
            let circle = format!("{} includes itself", on_the_way.join(" → "));
            return Err(Diagnostic::error(DiagnosticCode::Cycle, circle).into());
        }
        if set.presets().len() + on_the_way.len() >= MAX_PRESETS {
            let message = format!("more than {MAX_PRESETS} presets, included ones counted");
            return Err(Diagnostic::error(DiagnosticCode::TooComplex, message).into());
        }
        let preset = self.read(name)?;
        on_the_way.push(name.to_owned());
        for included in preset.extends() {
            self.include(included, on_the_way, set)?;
        }
        on_the_way.pop();
        set.push(preset);
        Ok(())
    }
}

pub(crate) fn is_name(name: &str) -> bool {
    crate::loading::worker_names::is_name(name)
}

/// Returns the mistake of a name that no preset can have.
pub(crate) fn invalid_name(name: &str) -> Diagnostic {
    let message = format!("`{name}` cannot be the name of a preset");
    let bad = Diagnostic::error(DiagnosticCode::BadValue, message);
    bad.help("lower-case letters, digits, `_` and `-`, a letter first")
}
