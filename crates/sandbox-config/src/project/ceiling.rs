//! From the merged tree to the ceiling: mounts, guards, and the sections that bind every worker.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use sandbox_names::lexical::normalize;
use sandbox_network::AskableHosts;

use crate::grant::Grant;
use crate::grant::confinement::GitConfigMode;
use crate::grant::front_end::{DefaultAccess, FrontEnd};
use crate::grant::limits::RunLimits;
use crate::grant::mount::{DEFAULT_HIDE, DEFAULT_PROTECT, Mode, Mount};
use crate::grant::network::denied_hosts;
use crate::keys;
use crate::loading::discover::PROJECT_FILES;
use crate::loading::load_context::LoadContext;
use crate::loading::location::ProjectLocation;
use crate::loading::trust_rules::{self, TrustRule};
use crate::mount_syntax::choose::mount_table;
use crate::mount_syntax::file_rules;
use crate::mount_syntax::path_scope::climbs;
use crate::preset::set::PresetSet;
use crate::project::run_storage::{self, RunStorage};
use crate::provider::{Providers, read};
use crate::settings::git::{self, GitSettings};
use crate::settings::{confinement, execution, git_leads, network, presets, sections};
use crate::syntax::diagnostic::DiagnosticCode;
use crate::syntax::fields::{MappingFields, Reports};
use crate::syntax::text::{Layer, Span};
use crate::syntax::yaml::{YamlNode, YamlValue};

/// The result of reading the merged tree.
#[derive(Clone, Debug)]
pub(crate) struct ReadProject {
    pub(crate) ceiling: Grant,
    pub(crate) delegation: DelegationLimits,
    pub(crate) providers: Providers,
    pub(crate) storage: RunStorage,
    pub(crate) worker_dirs: Vec<PathBuf>,
    pub(crate) own_files: ForgeFiles,
    pub(crate) git: GitSettings,
    pub(crate) presets: PresetSet,
}

impl ReadProject {
    fn empty() -> ReadProject {
        ReadProject {
            ceiling: Grant::empty(),
            delegation: DelegationLimits::default(),
            providers: Providers::default(),
            storage: RunStorage::default(),
            worker_dirs: Vec::new(),
            own_files: ForgeFiles::default(),
            git: GitSettings::default(),
            presets: PresetSet::default(),
        }
    }
}

/// How far workers may call workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DelegationLimits {
    pub(crate) max_depth: u64,
    pub(crate) max_children: u64,
    /// `child_sandbox_policy: own`.
    pub(crate) own: bool,
}

impl DelegationLimits {
    /// Returns the ceiling, which workers with rights of their own do not take from their callers.
    pub(crate) fn open(self, ceiling: Grant) -> Grant {
        match self.own {
            true => ceiling.open_to_all(),
            false => ceiling,
        }
    }
}

impl Default for DelegationLimits {
    fn default() -> DelegationLimits {
        DelegationLimits {
            max_depth: 5,
            max_children: 16,
            own: false,
        }
    }
}

fn check_preferences(reports: &mut Reports, top: &MappingFields<'_>) {
    for key in ["name", "model"] {
        if let Some(text) = top.string(reports, key)
            && (text.trim().is_empty() || text.chars().any(char::is_control))
        {
            let message = format!("`{key}` is empty or holds control characters");
            reports.add(DiagnosticCode::BadValue.at(top.span_of(key), message));
        }
    }
    if let Some(entry) = top.string(reports, "entry")
        && !crate::loading::worker_names::is_name(entry)
    {
        reports.add(crate::loading::worker_names::bad_name(entry).at(top.span_of("entry")));
    }
}

fn read_git(
    context: &mut LoadContext<'_>,
    top: &MappingFields<'_>,
    ceiling: &mut Grant,
) -> GitSettings {
    let Some(section) = top.section(&mut context.reports, "git", &keys::GIT) else {
        return GitSettings::default();
    };
    confinement::read_git(context, &section, ceiling);
    git::read(context, &section, ceiling)
}

/// Reads the merged tree.
pub(crate) fn read_project(
    context: &mut LoadContext<'_>,
    root: &YamlNode,
    found: &ProjectLocation,
) -> ReadProject {
    let Some(top) = context.open(root, "", &keys::PROJECT) else {
        return ReadProject::empty();
    };
    version(&mut context.reports, &top);
    check_preferences(&mut context.reports, &top);
    let worker_dirs = worker_dirs(&mut context.reports, &top, found);
    let mut ceiling = Grant::empty();
    let presets = sandbox(context, &top, found, &mut ceiling);
    for mount in Arc::make_mut(&mut ceiling.mounts).iter_mut() {
        mount.outside = !mount.awaits_run() && !mount.host.starts_with(&found.dir);
    }
    let storage = run_storage::read_storage(context, &top, &ceiling.mounts);
    let own_files = ForgeFiles::of(found, &worker_dirs);
    own_files.protect(
        &mut context.reports,
        ceiling.front,
        Arc::make_mut(&mut ceiling.mounts),
        &root.span,
    );
    git_leads::protect(context.sources, Arc::make_mut(&mut ceiling.mounts));
    context.facts.network_at = top.get("network").map(|entry| entry.node.span.origin());
    confinement::read_top(context, &top, &mut ceiling);
    let git = read_git(context, &top, &mut ceiling);
    (ceiling.network, ceiling.published_ports) =
        network::project_network(context, top.get("network"));
    let denied = denied_hosts(&context.facts.network_lines);
    ceiling.askable_hosts = AskableHosts::default().without(denied).into();
    ceiling.approval = sections::approval(context, top.get("approval")).into();
    let (shell, environment) = sections::shell(context, top.get("shell"));
    ceiling.shell = shell;
    ceiling.environment = environment.into();
    git::keep_from_commands(context, &git, &ceiling);
    ceiling.limits = sections::limits(
        &mut context.reports,
        top.get("limits"),
        RunLimits::default(),
    );
    ceiling.limits.timeout_s_max = Some(ceiling.limits.timeout_s_max());
    ceiling.execution = execution::execution(context, &top).into();
    let delegation = delegation(&mut context.reports, &top, ceiling.front);
    let providers = read::providers(context, &top);
    ReadProject {
        ceiling,
        delegation,
        providers,
        storage,
        worker_dirs,
        own_files,
        git,
        presets,
    }
}

fn delegation(reports: &mut Reports, top: &MappingFields<'_>, front: FrontEnd) -> DelegationLimits {
    let mut delegation = DelegationLimits::default();
    let Some(section) = top.section(reports, "delegation", &keys::DELEGATION) else {
        return delegation;
    };
    if let Some(depth) = section.count(reports, "max_depth") {
        delegation.max_depth = depth;
    }
    if let Some(children) = section.count(reports, "max_children") {
        delegation.max_children = children;
    }
    delegation.own = own_policy(reports, &section, front);
    delegation
}

/// `child_sandbox_policy: own`: a called worker has the directories that it declares, also those
/// that its caller does not hold. For projects with `sandbox.paths` only.
fn own_policy(reports: &mut Reports, section: &MappingFields<'_>, front: FrontEnd) -> bool {
    let words = [("intersect", false), ("own", true)];
    let own = section.word(reports, "child_sandbox_policy", &words) == Some(true);
    if own && front != FrontEnd::Paths {
        let message = "`child_sandbox_policy: own` is for projects with `sandbox.paths`";
        let mistake = DiagnosticCode::FrontEnd.at(section.span_of("child_sandbox_policy"), message);
        reports
            .add(mistake.help(
                "remove it: here a called worker gets what it declares and its caller holds",
            ));
        return false;
    }
    own
}

pub(crate) fn version(reports: &mut Reports, top: &MappingFields<'_>) {
    let version = top.get("version").map(|entry| &entry.node.value);
    if !matches!(version, None | Some(YamlValue::Int(1))) {
        let at = top.span_of("version");
        reports.add(DiagnosticCode::BadValue.at(at, "this forge reads `version: 1`"));
    }
}

fn worker_dirs(
    reports: &mut Reports,
    top: &MappingFields<'_>,
    found: &ProjectLocation,
) -> Vec<PathBuf> {
    let Some(list) = top.strings(reports, "worker_paths") else {
        return vec![found.dir.join("workers"), found.dir.join(".workers")];
    };
    let mut dirs: Vec<PathBuf> = Vec::new();
    let mut places: Vec<&YamlNode> = Vec::new();
    for (text, node) in list {
        let path = Path::new(text);
        if text.is_empty() || text.contains('\0') || path.is_absolute() || climbs(path) {
            let message = format!("`{text}` is not a directory below the project");
            reports.add(DiagnosticCode::HostPath.at(&node.span, message));
            continue;
        }
        let dir = found.dir.join(normalize(path));
        if let Some(twin) = dirs.iter().position(|known| *known == dir) {
            reports.add(
                DiagnosticCode::BadValue
                    .at(&node.span, format!("`{text}` is searched already"))
                    .related(&places[twin].span, "the first one")
                    .help("remove one of them: each directory is searched once"),
            );
            continue;
        }
        dirs.push(dir);
        places.push(node);
    }
    dirs
}

/// `sandbox`: the front-end, and the guards that hold for every mount. Returns the presets that it
/// names.
fn sandbox(
    context: &mut LoadContext<'_>,
    top: &MappingFields<'_>,
    found: &ProjectLocation,
    ceiling: &mut Grant,
) -> PresetSet {
    ceiling.protect = without(DEFAULT_PROTECT, &[]);
    ceiling.hide = without(DEFAULT_HIDE, &[]);
    let section = top.section(&mut context.reports, "sandbox", &keys::SANDBOX);
    let of_runs = run_storage::names_directories(top);
    let (front, mut mounts) = mount_table(context, section.as_ref(), found, of_runs);
    ceiling.front = front;
    ceiling.undeclared = front.undeclared();
    // Before the settings that apply to every mount.
    run_storage::knowledge_base(context, top, &mut mounts);
    ceiling.mounts = mounts.into();
    let Some(section) = section else {
        return PresetSet::default();
    };
    if let (Some(top), Some(inner)) = (top.get("network"), section.get("network")) {
        let twice = DiagnosticCode::DuplicateKey.error("`network` stands at two places");
        context.report(
            twice
                .at(&inner.key_span)
                .related(&top.key_span, "the other one")
                .help("keep the one at the top level"),
        );
    }
    let undeclared = [
        ("none", DefaultAccess::Nothing),
        ("inherit", DefaultAccess::Inherit),
    ];
    if let Some(undeclared) = section.word(&mut context.reports, "default", &undeclared) {
        ceiling.undeclared = undeclared;
    }
    ceiling.require_os_sandbox = section
        .boolean(&mut context.reports, "require_os_sandbox")
        .unwrap_or(false);
    let general = file_rules::read(context, &section);
    for mount in Arc::make_mut(&mut ceiling.mounts) {
        mount.file_rules = mount.file_rules.or(general);
    }
    confinement::read_sandbox(context, &section, ceiling);
    guards(context, &section, ceiling);
    presets::read(context, &section)
}

/// The protected and hidden names of every mount.
fn guards(context: &mut LoadContext<'_>, section: &MappingFields<'_>, ceiling: &mut Grant) {
    let gone = taken_back(context, section, "show", DEFAULT_HIDE, &trust_rules::SHOW);
    ceiling.hide = without(DEFAULT_HIDE, &gone);
    let known = &keys::UNPROTECTABLE;
    let mut gone = taken_back(
        context,
        section,
        "unprotect",
        known,
        &trust_rules::UNPROTECT,
    );
    // File tools never write it, and a check reads the commands' changes of it.
    if gone.iter().any(|name| name == keys::GIT_CONFIG) {
        gone.retain(|name| name != keys::GIT_CONFIG);
        ceiling.confinement.git_config = GitConfigMode::JudgedAfter;
    }
    ceiling.protect = without(DEFAULT_PROTECT, &gone);
    for key in ["protect", "hide"] {
        let read = patterns(&mut context.reports, section, key, ceiling);
        let is_of_git = |name: &String| keys::WRITTEN_FOR_GIT.contains(&name.as_str());
        if key == "protect" && read.iter().any(is_of_git) {
            ceiling.confinement.git_config = GitConfigMode::Kept;
        }
        let list = match key {
            "protect" => &mut ceiling.protect,
            _ => &mut ceiling.hide,
        };
        unite(list, read);
    }
    if ceiling.protect.len() + ceiling.hide.len() > MAX_PATTERNS {
        let message = format!("more than {MAX_PATTERNS} protected and hidden names");
        context.report(DiagnosticCode::TooComplex.at(section.span, message));
    }
}

/// The defaults included; os-sandbox takes 256, and some are our own files.
const MAX_PATTERNS: usize = 200;

/// `show` and `unprotect`: built-in names, each of which needs a yes of its own.
fn taken_back(
    context: &mut LoadContext<'_>,
    section: &MappingFields<'_>,
    key: &'static str,
    known: &[&str],
    rule: &'static TrustRule,
) -> Vec<String> {
    let mut gone = Vec::new();
    let list = section.strings(&mut context.reports, key);
    for (text, item) in list.unwrap_or_default() {
        if !known.contains(&text) {
            let message = format!("`{text}` is none of the built-in names that `{key}` is about");
            let wrong = DiagnosticCode::BadValue.at(&item.span, message);
            let wrong = wrong.help(format!("these are: {}", known.join(" ")));
            context.report(wrong.suggest(text, known.iter().copied()));
            continue;
        }
        let dotted = format!("sandbox.{key}[{text}]");
        if context.agreed(rule, &dotted, text, &item.span) {
            gone.push(text.to_owned());
        }
    }
    gone
}

fn without(rows: &[&str], gone: &[String]) -> Arc<[String]> {
    rows.iter()
        .filter(|row| !gone.iter().any(|gone| gone == *row))
        .map(|row| (*row).to_owned())
        .collect()
}

/// `protect` and `hide`: names that count anywhere, and paths as workers see them. Each mount that
/// contains a path keeps its own part of the path.
fn patterns(
    reports: &mut Reports,
    section: &MappingFields<'_>,
    key: &'static str,
    ceiling: &mut Grant,
) -> Vec<String> {
    let mut list = Vec::new();
    for (text, node) in section.strings(reports, key).unwrap_or_default() {
        let pattern = match text.trim_end_matches('/') {
            "" => text,
            trimmed => trimmed,
        };
        // Workers of projects with `paths` see `./data`.
        let pattern = match pattern.strip_prefix("./") {
            Some(path) if ceiling.front == FrontEnd::Paths => format!("/{path}"),
            Some(_) | None => pattern.to_owned(),
        };
        // As `config show` writes them: these count at the top of every mount.
        if DEFAULT_PROTECT.contains(&pattern.as_str()) {
            list.push(pattern);
            continue;
        }
        if let Some((at, why)) = sandbox_names::pattern::problem(&pattern) {
            let message = format!("`{text}` cannot be held: {why} (character {})", 1 + at);
            let mistake = DiagnosticCode::BadPattern.at(&node.span, message);
            reports.add(mistake.help("a name counts at any depth, `/` first names a path as workers see it, `*` is any text in one name"));
            continue;
        }
        if pattern.starts_with('/') {
            let lies_in_one = root_pattern(reports, ceiling, (key, text, &node.span), &pattern);
            // The person's own file speaks for every project.
            let everywhere = node.span.origin().layer() == Layer::User;
            // Mounts that could not be read have their own mistake.
            if !(lies_in_one || everywhere || ceiling.mounts.is_empty()) {
                let tops: Vec<String> = ceiling
                    .mounts
                    .iter()
                    .map(|mount| format!("`{}`", mount.target))
                    .collect();
                let message = format!("`{text}` lies in no mount, so it would hold nothing");
                let mistake = DiagnosticCode::BadPattern.at(&node.span, message);
                reports.add(mistake.help(format!("workers see {}", tops.join(", "))));
                continue;
            }
        }
        list.push(pattern);
    }
    list
}

/// Adds a path to each mount that contains it; returns `true` if a mount does.
fn root_pattern(
    reports: &mut Reports,
    ceiling: &mut Grant,
    written: (&'static str, &str, &Span),
    pattern: &str,
) -> bool {
    let (key, text, span) = written;
    let mut lies_in_one = false;
    for mount in Arc::make_mut(&mut ceiling.mounts) {
        let parts = mount.paths_of(pattern).into_iter().map(str::to_owned);
        for rest in parts.collect::<Vec<_>>() {
            lies_in_one = true;
            let kept = match key {
                "protect" => &mut mount.rooted.protect,
                _ => &mut mount.rooted.hide,
            };
            if rest.is_empty() {
                let message = format!("`{text}` names a whole mount");
                let mistake = DiagnosticCode::BadPattern.at(span, message);
                reports.add(mistake.help("leave the mount out, or make it `ro`"));
            } else if !kept.contains(&rest) {
                kept.push(rest);
            }
        }
    }
    lies_in_one
}

fn unite(list: &mut Arc<[String]>, more: Vec<String>) {
    let mut all = list.to_vec();
    for pattern in more {
        // One too many is enough to be refused.
        if all.len() <= MAX_PATTERNS && !all.contains(&pattern) {
            all.push(pattern);
        }
    }
    *list = all.into();
}

/// Forge's own project and worker files.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForgeFiles {
    dir: PathBuf,
    files: Vec<PathBuf>,
    worker_dirs: Vec<PathBuf>,
}

impl ForgeFiles {
    fn of(found: &ProjectLocation, worker_dirs: &[PathBuf]) -> ForgeFiles {
        let named = found.file.iter().cloned();
        let project_files = PROJECT_FILES.iter().map(|name| found.dir.join(name));
        let worker_files = worker_dirs.iter().map(|dir| dir.join("*.worker"));
        let mut files: Vec<PathBuf> = named.chain(project_files).chain(worker_files).collect();
        files.sort();
        files.dedup();
        ForgeFiles {
            dir: found.dir.clone(),
            files,
            worker_dirs: worker_dirs.to_vec(),
        }
    }

    /// A worker that could write the project file or a worker file would write its own rights.
    pub(crate) fn protect(
        &self,
        reports: &mut Reports,
        front: FrontEnd,
        mounts: &mut [Mount],
        at: &Span,
    ) {
        for mount in mounts {
            let way = mount.host.strip_prefix(&self.dir).unwrap_or(&mount.host);
            mount.way = way
                .components()
                .filter_map(|part| match part {
                    Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
                    _ => None,
                })
                .collect();
            mount.own_files = self
                .files
                .iter()
                .filter_map(|file| file.strip_prefix(&mount.host).ok())
                .filter_map(Path::to_str)
                .map(|relative| format!("/{}", sandbox_names::pattern::covering(relative)))
                .collect();
            let among_workers = self
                .worker_dirs
                .iter()
                .any(|dir| mount.host.starts_with(dir));
            if among_workers && mount.mode == Mode::ReadWrite {
                reports.add(
                    DiagnosticCode::HostPath
                        .at(
                            at,
                            format!(
                                "{} `{}` would let workers rewrite worker files",
                                front.noun(),
                                mount.name
                            ),
                        )
                        .help("make it ro, or move it out of the worker search paths"),
                );
            }
        }
    }
}
