//! The sources of a configuration. The library reads no environment of its own: variables, home and
//! flags are handed in, so a test or another program sets each of them exactly.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value as Json;

use crate::grant::preset::PresetRights;
use crate::loading::reserved_paths::ReservedPath;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};

/// Everything that a load reads, besides the config files themselves.
///
/// ```
/// use sandbox_config::{ConfigChoice, Sources, TrustedSettings};
/// let mut sources = Sources::new("/some/project");
/// sources.overrides.push(("sandbox.mode".into(), "direct".into()));
/// assert_eq!(sources.choice, ConfigChoice::Discover);
/// ```
#[derive(Clone, Debug)]
pub struct Sources {
    /// Where to start looking: the working directory, or `-C DIR`.
    pub start: PathBuf,
    /// `--config`, `--no-config`, or neither.
    pub choice: ConfigChoice,
    /// `-c KEY=VALUE`, in order.
    pub overrides: Vec<(String, String)>,
    /// The environment: `FORGE__…` and `FORGE_MODEL` are read as config, `ANTHROPIC_BASE_URL`,
    /// `OPENAI_BASE_URL` and `OLLAMA_HOST` as addresses of the built-in providers, the rest is there
    /// for `${VAR}` in host paths.
    pub env: Vec<(String, String)>,
    /// The value of a leading `~` in host paths, and the end of discovery.
    pub home: Option<PathBuf>,
    /// The user file, if any; an absent file is fine.
    pub user_file: Option<PathBuf>,
    /// The directory of the person's rules for single projects ([`PersonalRules`]); absent is
    /// fine.
    ///
    /// [`PersonalRules`]: crate::PersonalRules
    pub personal_rules: Option<PathBuf>,
    /// The user's trust decisions.
    pub trust: TrustedSettings,
    /// The default without a project file.
    pub without_directories: WithoutDirectories,
    /// The tools that exist. Given: unknown names in the config are mistakes.
    pub known_tools: Option<Vec<String>>,
    /// The validator of JSON Schemas. If given: an invalid schema of a worker is a mistake.
    pub schema_check: Option<SchemaCheck>,
    /// The parser of addresses of repositories. If given: an invalid address is a mistake, and two
    /// spellings of one are one repository.
    pub repository_check: Option<RepositoryCheck>,
    /// Names commands that may have written a file. If given: a project file, a worker or a `.git`
    /// that one may have written is a mistake.
    pub writer_check: Option<Arc<dyn WriterCheck>>,
    /// Paths that no mount may contain or be inside of, such as the program's own directories;
    /// `runs_dir` is always out of reach.
    pub out_of_reach: Vec<ReservedPath>,
    /// The directory of the person's presets; absent is fine.
    pub own_presets: Option<PathBuf>,
    /// The rights that presets add to the ceiling, named by the person for this run.
    pub presets: PresetRights,
}

impl Sources {
    /// Returns the commands with which a person trusts the project, as they are typed.
    pub(crate) fn trust_help(&self) -> String {
        let start = self.start.to_string_lossy().replace('\'', r"'\''");
        let place = match start.as_str() {
            "." | "./" => String::new(),
            start => format!("-C '{start}' "),
        };
        format!("if you trust this project: `forge {place}trust`, or `--trust` for one run")
    }

    /// Discover a project from `start`; no environment, no home, nothing trusted.
    #[must_use]
    pub fn new(start: impl Into<PathBuf>) -> Sources {
        Sources {
            start: start.into(),
            choice: ConfigChoice::Discover,
            overrides: Vec::new(),
            env: Vec::new(),
            home: None,
            user_file: None,
            personal_rules: None,
            trust: TrustedSettings::Store(BTreeSet::new()),
            without_directories: WithoutDirectories::DefaultZones,
            known_tools: None,
            schema_check: None,
            repository_check: None,
            writer_check: None,
            out_of_reach: Vec::new(),
            own_presets: None,
            presets: PresetRights::default(),
        }
    }

    /// Returns the sources of worker files: trust, checks and names, without configuration.
    pub(crate) fn for_workers(&self, start: &Path) -> Sources {
        Sources {
            trust: self.trust.clone(),
            known_tools: self.known_tools.clone(),
            schema_check: self.schema_check,
            repository_check: self.repository_check,
            writer_check: self.writer_check.clone(),
            env: self.env.clone(),
            home: self.home.clone(),
            ..Sources::new(start)
        }
    }
}

/// Which project file to read.
///
/// ```
/// use sandbox_config::ConfigChoice;
/// assert_ne!(ConfigChoice::None, ConfigChoice::Discover);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigChoice {
    /// Walk up from `start`.
    Discover,
    /// This file; its directory is the project.
    File(PathBuf),
    /// No file, even if one exists.
    None,
}

/// The user's trust in a project's privileged settings.
///
/// ```
/// use sandbox_config::TrustedSettings;
/// let stored = TrustedSettings::Store(["9f86d0…".to_owned()].into());
/// assert_ne!(stored, TrustedSettings::Given);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustedSettings {
    /// `--trust`: everything in this run.
    Given,
    /// The hashes ([`PrivilegedSetting::hash`](crate::PrivilegedSetting::hash)) that `forge trust` stored.
    Store(BTreeSet<String>),
}

/// The directories of a project that names none: without a file, or with one that has no `root`,
/// `zones`, `mounts` or `paths`. `program.yaml` gives none then.
///
/// ```
/// use sandbox_config::{load, Sources, WithoutDirectories};
/// # let dir = tempfile::tempdir().unwrap();
/// let mut sources = Sources::new(dir.path());
/// sources.without_directories = WithoutDirectories::WholeDirectory;
/// let project = load(&sources).unwrap();
/// assert_eq!(project.ceiling().mounts().next().unwrap().target(), "/");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutDirectories {
    /// `cache` and `workspace` under `.sandbox`: `run`, `tools`, `mcp`.
    DefaultZones,
    /// The project's directory, read-write, as a root project: `exec`.
    WholeDirectory,
}

/// Takes the address of a repository apart: the one spelling of it, or why it is none.
///
/// ```
/// let judge: sandbox_config::RepositoryCheck = |text| match text.strip_prefix("https://") {
///     Some(_) => Ok(text.to_lowercase()),
///     None => Err("write an https address".into()),
/// };
/// let mut sources = sandbox_config::Sources::new("/some/project");
/// sources.repository_check = Some(judge);
/// ```
pub type RepositoryCheck = fn(&str) -> Result<String, String>;

/// A search for commands that may have written a file.
///
/// ```
/// use sandbox_config::{ProjectFileState, Sources, WriterCheck, WriterFinding};
/// use std::path::Path;
///
/// #[derive(Debug)]
/// struct OneCommand;
/// impl WriterCheck for OneCommand {
///     fn find(&self, path: &Path, _: ProjectFileState<'_>) -> Option<WriterFinding> {
///         let reason = "a command makes it".to_owned();
///         let help = "wait for its end".to_owned();
///         path.ends_with("sub/forge.yaml").then_some(WriterFinding { reason, help })
///     }
/// }
/// let mut sources = Sources::new("/some/project");
/// sources.writer_check = Some(std::sync::Arc::new(OneCommand));
/// ```
pub trait WriterCheck: Debug + Send + Sync {
    /// Returns the command that may have written the file at a path; `None` if it is a person's.
    fn find(&self, path: &Path, state: ProjectFileState<'_>) -> Option<WriterFinding>;
}

/// How a file was found that a project depends on.
///
/// ```
/// assert!(matches!(sandbox_config::ProjectFileState::Absent, sandbox_config::ProjectFileState::Absent));
/// ```
#[derive(Clone, Copy, Debug)]
pub enum ProjectFileState<'f> {
    /// It was opened, and has this content.
    Read(&'f Metadata, &'f [u8]),
    /// There is a file of the name.
    Present,
    /// There is none.
    Absent,
}

/// A command that may have written a file.
///
/// ```
/// let finding = sandbox_config::WriterFinding { reason: "a command runs".into(), help: "wait".into() };
/// assert!(!finding.help.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterFinding {
    /// The reason, without the path.
    pub reason: String,
    /// The advice.
    pub help: String,
}

impl WriterFinding {
    /// Returns the mistake about a file, which is shown in this way.
    pub(crate) fn about(self, shown: &str) -> Box<Diagnostic> {
        let message = format!("{shown} {}", self.reason);
        let mistake = DiagnosticCode::MadeByCommand.error(message);
        Box::new(mistake.in_file(shown).help(self.help))
    }
}

/// Returns the mistakes of a JSON Schema (draft 2020-12); empty if it is valid.
///
/// ```
/// use sandbox_config::{SchemaCheck, SchemaMistake, Sources};
/// let only_mappings: SchemaCheck = |schema| match schema.get("type") {
///     Some(kind) if kind == "object" => Vec::new(),
///     _ => vec![SchemaMistake { at: "/type".into(), problem: "not a mapping".into() }],
/// };
/// let mut sources = Sources::new("/some/project");
/// sources.schema_check = Some(only_mappings);
/// ```
pub type SchemaCheck = fn(&Json) -> Vec<SchemaMistake>;

/// One thing that is wrong with a schema.
///
/// ```
/// let mistake = sandbox_config::SchemaMistake { at: String::new(), problem: "it is a list".into() };
/// assert!(mistake.at.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaMistake {
    /// Where, as a JSON pointer; empty: the whole.
    pub at: String,
    /// The mistake.
    pub problem: String,
}
