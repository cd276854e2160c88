//! A project: its file walked once, into a ceiling that every worker's rights are a meet of.

pub(crate) mod ceiling;
pub(crate) mod layers;
pub(crate) mod library;
mod model_providers;
pub(crate) mod personal_paths;
pub(crate) mod personal_rules;
pub(crate) mod preferences;
mod preset_rights;
pub(crate) mod run_storage;
pub(crate) mod settings;
mod standalone_worker;
pub(crate) mod user;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::grant::Grant;
use crate::grant::escalation::Escalation;
use crate::grant::network::HostLine;
use crate::keys;
use crate::loading::load_context::{LoadContext, LoadFacts};
use crate::loading::location::{ProjectLocation, locate};
use crate::loading::reserved_paths::{self, ReservedPath};
use crate::loading::sources::Sources;
use crate::loading::trust::PrivilegedSetting;
use crate::open::guards;
use crate::preset::set::PresetSet;
use crate::project::ceiling::{ReadProject, read_project};
use crate::project::layers::{empty_root, normalize_network, overlay_value, overlays};
use crate::project::library::WorkerCatalog;
use crate::project::personal_paths::PersonalPaths;
use crate::project::preferences::{Layers, Preferences};
use crate::project::settings::EffectiveSettings;
use crate::project::user::{UserFile, user_file};
use crate::settings::git::GitSettings;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, Diagnostics};
use crate::syntax::read::read_checked;
use crate::syntax::text::{ConfigOrigin, Layer, SourceText, Span};
use crate::syntax::yaml::{self, YamlNode, YamlValue};
use crate::worker::Worker;

/// A loaded project. Exists only if its configuration holds no mistake.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::create_dir(dir.path().join("workers")).unwrap();
/// # std::fs::write(dir.path().join("workers/main.worker"),
/// #     "---\nname: main\n---\nSay hello.\n").unwrap();
/// # std::fs::write(dir.path().join("golem-forge.config.yaml"), "name: demo\n").unwrap();
/// use sandbox_config::{load, Sources};
/// let project = load(&Sources::new(dir.path())).unwrap();
/// assert_eq!((project.name(), project.entry()), ("demo", "main"));
/// let main = project.worker("main").unwrap();
/// assert_eq!(project.entry_grant(&main).unwrap().mounts().count(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Project {
    dir: PathBuf,
    file: Option<PathBuf>,
    preferences: Preferences,
    origins: BTreeMap<String, ConfigOrigin>,
    pub(crate) read: ReadProject,
    facts: LoadFacts,
    warnings: Vec<Diagnostic>,
    pub(crate) personal_paths: PersonalPaths,
    library: WorkerCatalog,
    /// Everything that was said, met.
    root: YamlNode,
}

/// Find, read and check a project.
///
/// # Errors
/// Every mistake of the project file, the person's file, variables and flags, in one go.
pub fn load(sources: &Sources) -> Result<Project, Diagnostics> {
    let found = locate(sources)?;
    let mut context = LoadContext::new(sources, &found.dir);
    let root = read_root(&mut context, &found)?;
    let user = user_file(&mut context.reports, sources, &found);
    let (root, layers) = merge_layers(&mut context, user.as_ref(), root);
    let mut read = read_project(&mut context, &root, &found);
    let paths = personal_rules::add(&mut context, &found, &mut read.ceiling);
    preset_rights::add(&mut context, &root, &mut read.ceiling);
    if let Some(user) = &user {
        user.meet_grant(&mut read.ceiling);
    }
    let out_of_reach = check_mounts(&mut context, &read);
    let personal_paths =
        personal_paths::add(&mut context, &out_of_reach, &paths, &mut read.ceiling);
    let library = WorkerCatalog {
        dirs: std::mem::take(&mut read.worker_dirs),
        sources: Sources {
            out_of_reach,
            ..sources.for_workers(&found.start)
        },
        show_from: found.start,
        project: found.dir.clone(),
        own_files: read.own_files.clone(),
    };
    library.check_names(&mut context, &read.ceiling);
    let LoadContext { reports, facts, .. } = context;
    read.ceiling = read.delegation.open(read.ceiling);
    let (preferences, origins) = layers.finish();
    Ok(Project {
        library,
        dir: found.dir,
        file: found.file,
        preferences,
        origins,
        read,
        facts,
        warnings: reports.finish()?,
        personal_paths,
        root,
    })
}

/// Lays preferences, variables and flags over the tree, and meets it with the user file.
fn merge_layers(
    context: &mut LoadContext<'_>,
    user: Option<&UserFile>,
    root: Option<YamlNode>,
) -> (YamlNode, Layers) {
    let mut layers = Layers::new();
    for (key, node) in user.into_iter().flat_map(UserFile::preferences) {
        layers.set(&key, node);
    }
    let no_text = SourceText::inline("project".into(), Layer::Default, String::new());
    let mut root = root.unwrap_or_else(|| empty_root(&no_text));
    normalize_network(&mut root);
    preferences_of(&root, &mut layers);
    for overlay in overlays(&mut context.reports, context.sources) {
        if let [(key, _)] = overlay.keys.as_slice()
            && preferences::KEYS.contains(&key.as_str())
        {
            layers.set(key, &overlay.node);
        }
        overlay_value(&mut root, overlay);
    }
    normalize_network(&mut root);
    if let Some(user) = user {
        user.meet(context, &mut root);
    }
    (root, layers)
}

/// Refuses mounts in reserved paths or guarded names, and returns these paths with the directory of
/// runs.
fn check_mounts(context: &mut LoadContext<'_>, read: &ReadProject) -> Vec<ReservedPath> {
    guards::report(&mut context.reports, &read.ceiling);
    let mut out_of_reach = context.sources.out_of_reach.clone();
    if let Some(runs) = &read.storage.runs_dir {
        out_of_reach.push(ReservedPath::new(runs, "the directory of runs", "runs_dir"));
    }
    reserved_paths::report(
        &mut context.reports,
        &read.ceiling.mounts,
        read.ceiling.front(),
        &out_of_reach,
    );
    out_of_reach
}

/// Parses the project file. `None` if the project has none, or it holds no keys.
fn read_root(
    context: &mut LoadContext<'_>,
    found: &ProjectLocation,
) -> Result<Option<YamlNode>, Diagnostics> {
    let Some(file) = &found.file else {
        return Ok(None);
    };
    let check = context.sources.writer_check.as_deref();
    let text = read_checked(file, &found.show(file), Layer::Project, check)
        .map_err(|problem| Diagnostics::from(*problem))?;
    let root = yaml::parse(&text).map_err(|problem| Diagnostics::from(*problem))?;
    if root.is_none() {
        let message = "the project file holds no keys: all defaults apply";
        let mistake = DiagnosticCode::Empty
            .warning(message)
            .at(&Span::start(&text));
        context.report(mistake.help("a zone project by default has cache and workspace, both rw"));
    }
    Ok(root)
}

impl Project {
    sandbox_names::getters! {
        /// The project directory, absolute, without links.
        pub dir: &Path = &dir;
        /// Returns the project file, if it has one.
        pub file: Option<&Path> = file.as_deref();
        /// `model`, from the strongest layer that names one.
        pub model: Option<&str> = preferences.model.as_deref();
        /// The worker that `forge run` starts.
        pub entry: &str = &preferences.entry;
        /// `worker_paths`, as written.
        pub worker_paths: &[String] = &preferences.worker_paths;
        /// Returns the upper limit of every grant in this project.
        pub ceiling: &Grant = &read.ceiling;
        /// Returns the largest depth to which workers may call workers; the entry worker is at depth 1.
        pub max_depth: u64 = read.delegation.max_depth;
        /// How many workers one run of a worker may start.
        pub max_children: u64 = read.delegation.max_children;
        /// Returns `sandbox.root`, the parent of every mount of a sandboxed zone project: files in it
        /// are forge's to delete. `None` if mounts are directories of the user's own.
        ///
        /// ```
        /// # let dir = tempfile::tempdir().unwrap();
        /// let mut sources = sandbox_config::Sources::new(dir.path());
        /// let project = sandbox_config::load(&sources).unwrap();
        /// assert_eq!(project.ephemeral_root(), Some(&*project.dir().join(".sandbox")));
        /// sources.overrides.push(("sandbox.mode".into(), "direct".into()));
        /// assert_eq!(sandbox_config::load(&sources).unwrap().ephemeral_root(), None);
        /// ```
        pub ephemeral_root: Option<&Path> = facts.ephemeral_root.as_deref();
        pub(crate) network_at: Option<&ConfigOrigin> = facts.network_at.as_ref();
        pub(crate) network_lines: &[HostLine] = &facts.network_lines;
        /// Returns the directory of runs; `None`: the state directory of the user who runs them.
        pub runs_dir: Option<&Path> = read.storage.runs_dir.as_deref();
        /// Returns `true` if the conversation of models is kept.
        pub keeps_transcripts: bool = read.storage.transcripts;
        /// Returns texts to redact, beside the secrets that tools know by themselves.
        ///
        /// ```
        /// # let dir = tempfile::tempdir().unwrap();
        /// # std::fs::write(dir.path().join("golem-forge.config.yaml"),
        /// #     "log: { redact: [tr0ub4dor&3] }\n").unwrap();
        /// use sandbox_config::{load, Sources};
        /// assert_eq!(load(&Sources::new(dir.path())).unwrap().redacted(), ["tr0ub4dor&3"]);
        /// ```
        pub redacted: &[String] = &read.storage.redact;
        /// Returns the text of staged commits and forge's credentials for servers. Repositories are in
        /// grants.
        pub git: &GitSettings = &read.git;
        /// Returns the presets that the project names and that the person has agreed to.
        ///
        /// ```
        /// # let dir = tempfile::tempdir().unwrap();
        /// # std::fs::write(dir.path().join("golem-forge.config.yaml"),
        /// #     "sandbox: { presets: [rust] }\n").unwrap();
        /// use sandbox_config::{load, Sources, TrustedSettings};
        /// let mut sources = Sources::new(dir.path());
        /// assert!(load(&sources).unwrap().presets().is_empty());
        /// sources.trust = TrustedSettings::Given;
        /// assert_eq!(load(&sources).unwrap().presets().named(), ["rust"]);
        /// ```
        pub presets: &PresetSet = &read.presets;
        /// Returns the warnings.
        pub warnings: &[Diagnostic] = &warnings;
        /// The privileged settings of the project file, agreed to or not. Workers have their own.
        pub privileged_settings: &[PrivilegedSetting] = &facts.privileged;
        /// Returns settings for directories that workers may change and that are empty now, outside any
        /// git repository. As soon as one contains files, its key is a privileged setting. A program
        /// that stores these hashes before workers write there does not ask about files that workers
        /// made.
        pub empty_places: &[PrivilegedSetting] = &facts.empty_places;
        /// The directories that are searched for workers, in order; they need not exist.
        pub worker_dirs: &[PathBuf] = &library.dirs;
    }

    /// `name`, else the directory's name.
    #[must_use]
    pub fn name(&self) -> &str {
        let dir_name = || self.dir.file_name().and_then(|name| name.to_str());
        self.preferences
            .name
            .as_deref()
            .or_else(dir_name)
            .unwrap_or("project")
    }

    /// Where a preference (`name`, `model`, `entry`, `worker_paths`) comes from.
    #[must_use]
    pub fn origin(&self, key: &str) -> Option<&ConfigOrigin> {
        self.origins.get(key)
    }

    /// Every key that holds, with its value and where that comes from: `forge config`.
    #[must_use]
    pub fn settings(&self) -> EffectiveSettings {
        EffectiveSettings::new(&self.root, &self.facts.privileged, &self.read.ceiling)
    }

    /// Returns the location of `limits.max_cost_usd`, if it is set.
    pub(crate) fn cost_at(&self) -> Option<ConfigOrigin> {
        let limits = self.root.entry("limits")?;
        let cost = limits.node.entry("max_cost_usd")?;
        Some(cost.node.span.origin())
    }

    /// `true` if `network` is a mapping with lists.
    pub(crate) fn lists_hosts(&self) -> bool {
        let network = self.root.entry("network");
        network.is_some_and(|network| matches!(network.node.value, YamlValue::Map(_)))
    }

    /// Every worker on the search paths, by name.
    ///
    /// # Errors
    /// Every mistake of every worker file; a broken one is never skipped.
    pub fn workers(&self) -> Result<Vec<Worker>, Diagnostics> {
        self.library.all(&self.read.ceiling)
    }

    /// One worker by name.
    ///
    /// # Errors
    /// No worker has this name (the nearest is named), or its file holds mistakes.
    pub fn worker(&self, name: &str) -> Result<Worker, Diagnostics> {
        self.library.one(name, &self.read.ceiling)
    }

    /// Returns the grant of the entry worker: the ceiling if it declares no sandbox, else the meet.
    ///
    /// # Errors
    /// It declares more than the ceiling.
    pub fn entry_grant(&self, worker: &Worker) -> Result<Grant, Escalation> {
        worker
            .ceiling(&self.read.ceiling)
            .entry(worker.declaration())
    }
}

fn preferences_of(root: &YamlNode, layers: &mut Layers) {
    for entry in root.as_map().into_iter().flatten() {
        let key = keys::canonical(None, &entry.key);
        if preferences::KEYS.contains(&key) {
            layers.set(key, &entry.node);
        }
    }
}
