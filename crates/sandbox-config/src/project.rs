//! A project: its file walked once, into a ceiling that every worker's rights are a meet of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::discover::{PROJECT_FILES, discover};
use crate::escalation::Escalation;
use crate::fields::{Fields, Reports};
use crate::grant::{Grant, Undeclared};
use crate::keys;
use crate::layers::{empty_root, lay, overlays};
use crate::limits::Limits;
use crate::mount::{DEFAULT_HIDE, DEFAULT_PROTECT, Mode, Mount};
use crate::preferences::{self, Layers, Preferences};
use crate::read::read;
use crate::sections;
use crate::sources::{ConfigChoice, Sources, WithoutFile};
use crate::text::{Layer, Origin, Span, Text};
use crate::trust::WideningKey;
use crate::verdict::MountApproval;
use crate::walk::Walk;
use crate::worker::{Library, Worker};
use crate::yaml::{self, Node, Value};
use crate::zones::{self, PLACEMENTS, Placement, Placing, climbs};

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
    origins: BTreeMap<String, Origin>,
    ceiling: Grant,
    max_depth: u64,
    warnings: Vec<Diagnostic>,
    widening: Vec<WideningKey>,
    library: Library,
}

/// Find, read and check a project.
///
/// # Errors
/// Every mistake of the project file, the person's file, variables and flags, in one go.
pub fn load(sources: &Sources) -> Result<Project, Diagnostics> {
    let found = locate(sources)?;
    let mut walk = Walk::new(sources, &found.dir);
    let project_text = found.file.as_ref().map(|file| {
        read(file, &found.show(file), Layer::Project).map_err(|problem| Diagnostics::from(*problem))
    });
    let project_text = project_text.transpose()?;
    let root = match &project_text {
        Some(text) => yaml::parse(text).map_err(|problem| Diagnostics::from(*problem))?,
        None => None,
    };
    if let (Some(text), None) = (&project_text, &root) {
        walk.reports.add(
            Diagnostic::warning(
                Code::Empty,
                "the project file holds no keys: all defaults apply",
            )
            .at(&Span::start(text))
            .help("a zone project by default has cache and workspace, both rw"),
        );
    }
    let mut layers = Layers::new();
    user_file(&mut walk.reports, sources, &found, &mut layers);
    let no_text = Text::inline("project".into(), Layer::Default, String::new());
    let mut root = root.unwrap_or_else(|| empty_root(&no_text));
    preferences_of(&root, &mut layers);
    for overlay in overlays(&mut walk.reports, sources) {
        if let [key] = overlay.keys.as_slice()
            && preferences::KEYS.contains(&key.as_str())
        {
            layers.set(key, &overlay.node);
        }
        lay(&mut root, overlay);
    }
    let read = read_project(&mut walk, &root, &found);
    let Walk {
        reports, widening, ..
    } = walk;
    let warnings = reports.finish()?;
    let (preferences, origins) = layers.finish();
    Ok(Project {
        library: Library {
            dirs: read.worker_dirs,
            show_from: found.start,
            project: found.dir.clone(),
            trust: sources.trust.clone(),
            known_tools: sources.known_tools.clone(),
        },
        dir: found.dir,
        file: found.file,
        preferences,
        origins,
        ceiling: read.ceiling,
        max_depth: read.max_depth,
        warnings,
        widening,
    })
}

impl Project {
    /// The project directory, absolute, without links.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The project file, if there is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
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

    /// `model`, from the strongest layer that names one.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.preferences.model.as_deref()
    }

    /// The worker that `forge run` starts.
    #[must_use]
    pub fn entry(&self) -> &str {
        &self.preferences.entry
    }

    /// `worker_paths`, as written.
    #[must_use]
    pub fn worker_paths(&self) -> &[String] {
        &self.preferences.worker_paths
    }

    /// Where a preference (`name`, `model`, `entry`, `worker_paths`) comes from.
    #[must_use]
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.origins.get(key)
    }

    /// What anybody in this project may hold at most.
    #[must_use]
    pub fn ceiling(&self) -> &Grant {
        &self.ceiling
    }

    /// How deep workers may call workers; the entry worker is at depth 1.
    #[must_use]
    pub fn max_depth(&self) -> u64 {
        self.max_depth
    }

    /// What is odd and not wrong.
    #[must_use]
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The widening keys of the project file, agreed to or not. Workers have their own.
    #[must_use]
    pub fn widening(&self) -> &[WideningKey] {
        &self.widening
    }

    /// Every worker on the search paths, by name.
    ///
    /// # Errors
    /// Every mistake of every worker file; a broken one is never skipped.
    pub fn workers(&self) -> Result<Vec<Worker>, Diagnostics> {
        self.library.all(&self.ceiling)
    }

    /// One worker by name.
    ///
    /// # Errors
    /// No worker has this name (the nearest is named), or its file holds mistakes.
    pub fn worker(&self, name: &str) -> Result<Worker, Diagnostics> {
        self.library.one(name, &self.ceiling)
    }

    /// What the entry worker holds: the ceiling if it declares no sandbox, else the meet.
    ///
    /// # Errors
    /// It declares more than the ceiling.
    pub fn entry_grant(&self, worker: &Worker) -> Result<Grant, Escalation> {
        self.ceiling.entry(worker.declaration())
    }

    /// What `forge check` says beside a successful load: every mistake and warning of the worker
    /// files, and every declaration that exceeds the ceiling.
    #[must_use]
    pub fn check(&self) -> Vec<Diagnostic> {
        let workers = match self.workers() {
            Ok(workers) => workers,
            Err(mistakes) => return mistakes.into_list(),
        };
        let mut list = Vec::new();
        for worker in &workers {
            list.extend_from_slice(worker.warnings());
            if let Err(escalation) = self.ceiling.child(worker.declaration()) {
                list.extend(escalation.diagnostics_list());
            }
        }
        list
    }
}

/// Where the project is.
struct Found {
    /// Canonical; names in messages are relative to it.
    start: PathBuf,
    dir: PathBuf,
    file: Option<PathBuf>,
}

impl Found {
    fn show(&self, path: &Path) -> String {
        show(&self.start, path)
    }
}

/// A path as messages show it.
pub(crate) fn show(start: &Path, path: &Path) -> String {
    path.strip_prefix(start)
        .ok()
        .filter(|relative| !relative.as_os_str().is_empty())
        .unwrap_or(path)
        .display()
        .to_string()
}

fn locate(sources: &Sources) -> Result<Found, Diagnostics> {
    let unreadable = |path: &Path, error: std::io::Error| {
        let shown = path.display().to_string();
        Diagnostics::from(
            Diagnostic::error(Code::Unreadable, format!("cannot read {shown}: {error}"))
                .in_file(&shown),
        )
    };
    let start = sources
        .start
        .canonicalize()
        .map_err(|error| unreadable(&sources.start, error))?;
    if !start.is_dir() {
        let shown = sources.start.display().to_string();
        return Err(Diagnostics::from(
            Diagnostic::error(Code::Unreadable, format!("{shown} is not a directory"))
                .in_file(&shown),
        ));
    }
    let home = sources
        .home
        .as_ref()
        .and_then(|home| home.canonicalize().ok());
    let file = match &sources.choice {
        ConfigChoice::None => None,
        ConfigChoice::File(file) => Some(start.join(file)),
        ConfigChoice::Discover => discover(&start, home.as_deref(), |path| show(&start, path))
            .map_err(|problem| Diagnostics::from(*problem))?,
    };
    let dir = match file.as_deref().and_then(Path::parent) {
        Some(parent) => parent
            .canonicalize()
            .map_err(|error| unreadable(parent, error))?,
        None => start.clone(),
    };
    Ok(Found { start, dir, file })
}

/// The person's own file: preferences only, for now.
fn user_file(reports: &mut Reports, sources: &Sources, found: &Found, layers: &mut Layers) {
    let Some(path) = &sources.user_file else {
        return;
    };
    // Absent is the ordinary case; anything else that cannot be read is a mistake.
    if std::fs::symlink_metadata(path).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
        return;
    }
    let parsed = read(path, &found.show(path), Layer::User).and_then(|text| yaml::parse(&text));
    match parsed {
        Ok(None) => {}
        Ok(Some(node)) => {
            if let Some(fields) = Fields::open(reports, &node, "", &keys::USER) {
                version(reports, &fields);
                if fields.string(reports, "model").is_some()
                    && let Some(entry) = fields.get("model")
                {
                    layers.set("model", &entry.node);
                }
            }
        }
        Err(problem) => reports.add(*problem),
    }
}

fn preferences_of(root: &Node, layers: &mut Layers) {
    let Value::Map(entries) = &root.value else {
        return;
    };
    for entry in entries {
        let key = keys::canonical(&entry.key);
        if preferences::KEYS.contains(&key) {
            layers.set(key, &entry.node);
        }
    }
}

/// What the walk over the merged tree yields.
struct ReadProject {
    ceiling: Grant,
    max_depth: u64,
    worker_dirs: Vec<PathBuf>,
}

/// How deep workers may call workers when nobody says (seed 000).
const DEFAULT_MAX_DEPTH: u64 = 5;

fn read_project(walk: &mut Walk<'_>, root: &Node, found: &Found) -> ReadProject {
    let Some(top) = Fields::open(&mut walk.reports, root, "", &keys::PROJECT) else {
        return ReadProject {
            ceiling: Grant::empty(),
            max_depth: DEFAULT_MAX_DEPTH,
            worker_dirs: Vec::new(),
        };
    };
    version(&mut walk.reports, &top);
    for key in ["name", "model"] {
        if let Some(text) = top.string(&mut walk.reports, key)
            && (text.trim().is_empty() || text.chars().any(char::is_control))
        {
            let message = format!("`{key}` is empty or holds control characters");
            walk.reports
                .add(Diagnostic::error(Code::BadValue, message).at(&value_span(&top, key)));
        }
    }
    if let Some(entry) = top.string(&mut walk.reports, "entry")
        && !crate::worker::is_name(entry)
    {
        walk.reports
            .add(crate::worker::bad_name(entry).at(&value_span(&top, "entry")));
    }
    let worker_dirs = worker_dirs(&mut walk.reports, &top, found);
    let mut ceiling = Grant::empty();
    sandbox(walk, &top, found, &mut ceiling);
    protect_own_files(
        &mut walk.reports,
        &mut ceiling.mounts,
        found,
        &worker_dirs,
        root,
    );
    ceiling.network = sections::project_network(walk, top.get("network"));
    ceiling.approval = sections::approval(walk, top.get("approval"));
    (ceiling.shell, ceiling.environment) = sections::shell(walk, top.get("shell"));
    ceiling.limits = sections::limits(&mut walk.reports, top.get("limits"), Limits::default());
    let max_depth = top
        .get("delegation")
        .and_then(|entry| {
            Fields::open(
                &mut walk.reports,
                &entry.node,
                "delegation",
                &keys::DELEGATION,
            )
        })
        .and_then(|delegation| delegation.count(&mut walk.reports, "max_depth"))
        .unwrap_or(DEFAULT_MAX_DEPTH);
    ReadProject {
        ceiling,
        max_depth,
        worker_dirs,
    }
}

fn version(reports: &mut Reports, top: &Fields<'_>) {
    let Some(entry) = top.get("version") else {
        return;
    };
    if !matches!(entry.node.value, Value::Int(1)) {
        reports.add(
            Diagnostic::error(Code::BadValue, "this forge reads `version: 1`").at(&entry.node.span),
        );
    }
}

/// Where a key's value stands; the mapping itself if the key is absent.
fn value_span(fields: &Fields<'_>, key: &'static str) -> Span {
    fields
        .get(key)
        .map_or(&fields.span, |entry| &entry.node.span)
        .clone()
}

fn worker_dirs(reports: &mut Reports, top: &Fields<'_>, found: &Found) -> Vec<PathBuf> {
    let Some(list) = top.strings(reports, "worker_paths") else {
        return vec![found.dir.join("workers"), found.dir.join(".workers")];
    };
    let mut dirs = Vec::new();
    for (text, node) in list {
        let path = Path::new(text);
        if text.is_empty() || text.contains('\0') || path.is_absolute() || climbs(path) {
            reports.add(
                Diagnostic::error(
                    Code::HostPath,
                    format!("`{text}` is not a directory below the project"),
                )
                .at(&node.span),
            );
            continue;
        }
        dirs.push(found.dir.join(path.components().collect::<PathBuf>()));
    }
    dirs
}

/// `sandbox`: the front-end, and the guards that hold for every mount.
fn sandbox(walk: &mut Walk<'_>, top: &Fields<'_>, found: &Found, ceiling: &mut Grant) {
    ceiling.protect = DEFAULT_PROTECT.map(str::to_owned).into();
    ceiling.hide = DEFAULT_HIDE.map(str::to_owned).into();
    let section = top
        .get("sandbox")
        .and_then(|entry| Fields::open(&mut walk.reports, &entry.node, "sandbox", &keys::SANDBOX));
    let Some(section) = section else {
        let is_program = found
            .file
            .as_deref()
            .and_then(Path::file_stem)
            .is_some_and(|stem| stem == "program");
        let root_form =
            found.file.is_none() && walk.sources.without_file == WithoutFile::RootAtStart;
        ceiling.mounts = if root_form {
            ceiling.undeclared = Undeclared::Inherit;
            root_mount(&mut walk.reports, &found.dir)
                .into_iter()
                .collect()
        } else if is_program {
            // Seed 001: a program without a sandbox has no files.
            Vec::new()
        } else {
            zones::default_zones(walk, &default_placing(found))
        };
        return;
    };
    let placing = placing(walk, &section, found);
    ceiling.mounts = match section.get("zones") {
        Some(entry) => zones::read(walk, &entry.node, &placing),
        None => zones::default_zones(walk, &placing),
    };
    let undeclared = [
        ("none", Undeclared::Nothing),
        ("inherit", Undeclared::Inherit),
    ];
    if let Some(undeclared) = section.word(&mut walk.reports, "default", &undeclared) {
        ceiling.undeclared = undeclared;
    }
    ceiling.require_os_sandbox = section
        .boolean(&mut walk.reports, "require_os_sandbox")
        .unwrap_or(false);
    let protect = patterns(&mut walk.reports, &section, "protect");
    unite(&mut ceiling.protect, protect);
    let hide = patterns(&mut walk.reports, &section, "hide");
    unite(&mut ceiling.hide, hide);
    if ceiling.protect.len() + ceiling.hide.len() > MAX_PATTERNS {
        let message = format!("more than {MAX_PATTERNS} protected and hidden names");
        walk.reports
            .add(Diagnostic::error(Code::TooComplex, message).at(&section.span));
    }
}

fn default_placing(found: &Found) -> Placing {
    Placing {
        placement: Placement::Sandboxed,
        root: found.dir.join(".sandbox"),
    }
}

fn placing(walk: &mut Walk<'_>, section: &Fields<'_>, found: &Found) -> Placing {
    let default = default_placing(found);
    let placement = section.word(&mut walk.reports, "mode", &PLACEMENTS);
    let Some(text) = section.string(&mut walk.reports, "root") else {
        return Placing {
            placement: placement.unwrap_or(default.placement),
            ..default
        };
    };
    let span = &value_span(section, "root");
    if section.get("mode").is_none() && section.get("zones").is_none() {
        walk.reports.add(
            Diagnostic::error(
                Code::NotYet,
                "`sandbox.root` without zones has no effect yet",
            )
            .at(span)
            .help("this is the form of a root project; for zones add `mode:` or `zones:`"),
        );
    }
    let path = Path::new(text);
    if text.is_empty() || text.contains('\0') || path.is_absolute() || climbs(path) {
        walk.reports.add(
            Diagnostic::error(
                Code::HostPath,
                format!("`sandbox.root: {text}` is not a directory below the project"),
            )
            .at(span),
        );
        return default;
    }
    if placement == Some(Placement::Direct) {
        walk.reports.add(
            Diagnostic::warning(
                Code::NoEffect,
                "`sandbox.root` has no effect in direct mode",
            )
            .at(span),
        );
    }
    Placing {
        placement: placement.unwrap_or(default.placement),
        root: found.dir.join(path.components().collect::<PathBuf>()),
    }
}

/// The whole directory as one mount at `/`: the root form (decisions 17).
fn root_mount(reports: &mut Reports, dir: &Path) -> Option<Mount> {
    if dir.parent().is_none() {
        reports.add(
            Diagnostic::error(
                Code::HostPath,
                "the root of the file system cannot be a project",
            )
            .help("start in a directory of your own, or use -C DIR"),
        );
        return None;
    }
    Some(Mount {
        name: "/".to_owned(),
        target: "/".to_owned(),
        host: dir.to_path_buf(),
        anchor: dir.to_path_buf(),
        create: false,
        mode: Mode::ReadWrite,
        suffixes: None,
        max_file_bytes: None,
        approval: MountApproval::WORKSPACE,
        usable: true,
        own_files: Vec::new(),
        origin: Origin::built_in(),
        mode_origin: Origin::built_in(),
    })
}

/// The defaults included; os-sandbox takes 256, and some are our own files.
const MAX_PATTERNS: usize = 200;

/// `protect` and `hide`: names, or paths from the mount's root, with `*` inside a component.
fn patterns(reports: &mut Reports, section: &Fields<'_>, key: &'static str) -> Vec<String> {
    let mut list = Vec::new();
    for (pattern, node) in section.strings(reports, key).unwrap_or_default() {
        let trimmed = pattern.trim_end_matches('/');
        let bad = trimmed.is_empty()
            || trimmed.contains('\0')
            || trimmed.split('/').any(|part| part == ".." || part == ".");
        if bad {
            let message = format!("`{pattern}` is not a name or path below a mount");
            reports.add(Diagnostic::error(Code::BadPattern, message).at(&node.span));
        } else {
            list.push(trimmed.to_owned());
        }
    }
    list
}

fn unite(list: &mut Vec<String>, more: Vec<String>) {
    for pattern in more {
        if !list.contains(&pattern) {
            list.push(pattern);
        }
    }
}

/// A worker that could write the project file or a worker file would write its own rights.
fn protect_own_files(
    reports: &mut Reports,
    mounts: &mut [Mount],
    found: &Found,
    worker_dirs: &[PathBuf],
    root: &Node,
) {
    let named = found.file.iter().cloned();
    let project_files = PROJECT_FILES.iter().map(|name| found.dir.join(name));
    let worker_files = worker_dirs.iter().map(|dir| dir.join("*.worker"));
    let mut own: Vec<PathBuf> = named.chain(project_files).chain(worker_files).collect();
    own.sort();
    own.dedup();
    for mount in mounts {
        mount.own_files = own
            .iter()
            .filter_map(|file| file.strip_prefix(&mount.host).ok())
            .filter_map(Path::to_str)
            .map(|relative| format!("/{relative}"))
            .collect();
        let among_workers = worker_dirs.iter().any(|dir| mount.host.starts_with(dir));
        if among_workers && mount.mode == Mode::ReadWrite {
            reports.add(
                Diagnostic::error(
                    Code::HostPath,
                    format!(
                        "zone `{}` would let workers rewrite worker files",
                        mount.name
                    ),
                )
                .at(&root.span)
                .help("make it ro, or move it out of the worker search paths"),
            );
        }
    }
}
