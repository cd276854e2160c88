//! Presets of `forge exec`: the answers of the person and their tools, and the home directory that
//! is kept for the commands of a project.

mod outside_keys;
mod project_home;
mod registries;
mod run_authority;
mod tool_settings;
mod url_requests;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use nix::unistd::{User, geteuid};
use os_sandbox::{Backend, Contact, ContactOutcome, Plan, Policy};
use rustix::system::uname;
use sandbox_config::{
    ExtraDirs, FoundRegistry, HostGroup, PresetChoice, PresetLibrary, PresetRights, PresetSet,
    PresetState, Project, SeenName, StateMode, WithoutDirectories,
};
use sandbox_names::hex;
use sandbox_network::{Host, TlsTermination};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::ambient::Ambient;
use crate::cli::{CommandRights, ExecArgs, Global};
use crate::exit::{CliError, ExitKind};
use crate::output::escape::{escape, escape_path};
use crate::output::prompt_terminal::{InputLine, PromptTerminal};
use crate::output::stderr;
use crate::setup;
use crate::setup::host_programs::HostPrograms;
use crate::setup::program_dirs::PathDirs;
use crate::state::trust_store::TrustStore;
pub(crate) use outside_keys::KeyServices;
use outside_keys::OutsideKeys;
use project_home::{HomePlan, LeasedHome};
use run_authority::RunAuthority;
use tool_settings::ToolSettings;
pub(crate) use url_requests::UrlRequests;

/// The origin of the names of presets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PresetsNamedBy {
    /// `--preset`.
    CommandLine,
    /// `sandbox.presets`, with the person's consent.
    Project,
}

/// The presets of one command.
#[derive(Debug)]
pub(crate) struct ActivePresets {
    named_by: PresetsNamedBy,
    set: PresetSet,
    rights: PresetRights,
    home: LeasedHome,
    /// Directories of the person's with programs, which commands read.
    programs: Vec<PathBuf>,
    /// State and keys of the person that a yes shares.
    shareable: Vec<String>,
    /// `true` if the person shares them.
    shares: bool,
    /// Keys that commands use and do not see. Empty if the person shares nothing.
    outside: OutsideKeys,
    /// `None` if TLS ends at forge for no key.
    authority: Option<RunAuthority>,
    /// `None` if the person's tools have no setting that commands get.
    tools: Option<ToolSettings>,
    /// `true` if these keys are handed in where they cannot stay outside.
    hands_in: bool,
    groups: Vec<HostGroup>,
    /// `None` if no origin is named.
    urls: Option<UrlRequests>,
    /// Package registries that files of the project name. Commands do not reach them.
    of_project: Vec<FoundRegistry>,
}

/// Returns the library of presets: forge's own and the person's.
pub(crate) fn library(ambient: &Ambient) -> PresetLibrary {
    match own_directory(ambient) {
        Some(directory) => PresetLibrary::with_directory(directory),
        None => PresetLibrary::built_in(),
    }
}

/// Returns the directory of the person's presets.
pub(crate) fn own_directory(ambient: &Ambient) -> Option<PathBuf> {
    Some(ambient.user_file.as_deref()?.parent()?.join("presets"))
}

/// Returns advice about a command of an agent that was typed without its preset.
pub(crate) fn advice(program: &OsStr, ambient: &Ambient) -> Option<String> {
    let program = program.to_str()?;
    let name = program.rsplit('/').next().unwrap_or(program);
    let preset = library(ambient).for_agent(name)?;
    let preset = preset.name();
    Some(format!(
        "{name} has a preset: forge exec --preset {preset} -- {name}"
    ))
}

/// Loads the project with the presets of the command line, or else with those that the project
/// names and the person has agreed to. `None` without a preset.
pub(crate) fn load_project(
    global: &Global,
    args: &ExecArgs,
    ambient: &Ambient,
) -> Result<(Project, Option<ActivePresets>), CliError> {
    let without_directories = WithoutDirectories::WholeDirectory;
    if !args.rights.presets.is_empty() {
        let set = library(ambient).compose(&args.rights.presets)?;
        let active = activate(global, args, ambient, set, PresetsNamedBy::CommandLine)?;
        let rights = active.rights();
        let project = setup::project_with_presets(ambient, None, without_directories, rights)?;
        return Ok((project, Some(active)));
    }
    let project = setup::project(ambient, None, without_directories)?;
    let unused = match (args.no_os_sandbox, &args.worker) {
        (true, _) => Some("--no-os-sandbox"),
        (_, Some(_)) => Some("--worker"),
        (false, None) => None,
    };
    let set = project.presets();
    match unused {
        Some(flag) if !set.is_empty() && !global.quiet => stderr::print(format!(
            "note: with {flag} the presets of the project are not used: {}",
            set.named().join(", ")
        )),
        Some(_) | None => {}
    }
    if set.is_empty() || unused.is_some() {
        check_preset_flags(&args.rights, &project)?;
        return Ok((project, None));
    }
    // The set that the person has agreed to, and not the files as they are by now.
    let set = set.clone();
    let active = activate(global, args, ambient, set, PresetsNamedBy::Project)?;
    let project = setup::silently(ambient, None, without_directories, active.rights())?;
    Ok((project, Some(active)))
}

/// Refuses options about presets without a preset.
fn check_preset_flags(rights: &CommandRights, project: &Project) -> Result<(), CliError> {
    let flags = [
        (rights.share, "--share"),
        (rights.no_share, "--no-share"),
        (rights.terminate_tls, "--terminate-tls"),
        (!rights.host_groups.is_empty(), "--host-group"),
        (!rights.open_urls.is_empty(), "--open-url"),
    ];
    let Some((_, flag)) = flags.iter().find(|(is_given, _)| *is_given) else {
        return Ok(());
    };
    let mut settings = project.privileged_settings().iter();
    let waits = settings.any(|one| one.key() == PresetSet::KEY && !one.is_trusted());
    let hint = match waits {
        true => "the project names presets that you have not agreed to: `forge trust`",
        false => "name one: --preset NAME",
    };
    let text = format!("{flag} needs a preset, and no preset is used");
    Err(CliError::usage(text).hint(hint))
}

/// Asks the person about sharing, and prepares the home directory.
fn activate(
    global: &Global,
    args: &ExecArgs,
    ambient: &Ambient,
    set: PresetSet,
    named_by: PresetsNamedBy,
) -> Result<ActivePresets, CliError> {
    let home = ambient.home.as_deref();
    let home = home.ok_or_else(|| refused("missing home directory".to_owned()))?;
    let project = setup::project_dir(ambient)?;
    let wishes = ShareRequest::of(&set, home, ambient, args.rights.terminate_tls);
    let shares = match (args.rights.share, args.rights.no_share) {
        (true, _) => true,
        (_, true) => false,
        (false, false) => wishes.ask(global, ambient, named_by.project(&project))?,
    };
    let choice = SharingChoice {
        shares,
        hands_in: args.rights.share,
        groups: &args.rights.host_groups,
    };
    let found = choice.rights(&wishes, &project, home, ambient)?;
    let own_home = home;
    let home = HomePlan::new(&set, home, shares, args.rights.read_only, &found.named);
    let home = home.lease(&project, ambient)?;
    let urls = url_requests(&set, &args.rights, ambient)?;
    let shareable = wishes.names(shares);
    let outside = match shares {
        true => wishes.outside,
        false => OutsideKeys::default(),
    };
    let authority = run_authority(&outside, ambient)?;
    if args.rights.terminate_tls && authority.is_none() && !global.quiet {
        stderr::print("note: --terminate-tls has no effect: no key that you share needs it");
    }
    let dirs = (own_home, ambient.state_dir()?);
    let tools = ToolSettings::create(&set, dirs, ambient, authority.is_some())
        .map_err(|error| refused(format!("the settings of your tools: {error}")))?;
    Ok(ActivePresets {
        named_by,
        tools,
        shareable,
        outside,
        authority,
        hands_in: args.rights.share,
        of_project: found.of_project,
        set,
        rights: found.rights,
        home,
        programs: found.programs,
        shares,
        groups: args.rights.host_groups.clone(),
        urls,
    })
}

impl ActivePresets {
    /// `true` if forge sends keys to servers for the command.
    pub(crate) fn has_keys_outside(&self) -> bool {
        !self.outside.is_empty()
    }
}

/// Returns the authority of the command. `None` if TLS ends at forge for no key.
fn run_authority(
    outside: &OutsideKeys,
    ambient: &Ambient,
) -> Result<Option<RunAuthority>, CliError> {
    let servers = outside.terminated();
    if servers.is_empty() {
        return Ok(None);
    }
    let failed = |why: String| refused(format!("the certificate authority of the command: {why}"));
    let termination = TlsTermination::new(servers).map_err(|error| failed(error.to_string()))?;
    let authority = RunAuthority::create(termination, ambient.state_dir()?, ambient);
    authority
        .map(Some)
        .map_err(|error| failed(error.to_string()))
}

/// Returns the place for requests to open URLs of the origins that the presets or the person name.
fn url_requests(
    set: &PresetSet,
    rights: &CommandRights,
    ambient: &Ambient,
) -> Result<Option<UrlRequests>, CliError> {
    let own = rights.open_urls.iter().map(String::as_str);
    let origins: BTreeSet<&str> = set.open_urls().chain(own).collect();
    if origins.is_empty() {
        return Ok(None);
    }
    let origins = origins.into_iter().map(str::to_owned).collect();
    let made = UrlRequests::create(ambient.state_dir()?, origins);
    let made = made.map_err(|error| refused(format!("the directory for URLs to open: {error}")))?;
    Ok(Some(made))
}

/// Returns the rights that a typed command has by these presets, or else by those that the project names
/// and the person has agreed to. It asks and makes nothing: without a recorded answer nothing is shared.
pub(crate) fn rights_to_explain(
    project: &Project,
    typed: &CommandRights,
    ambient: &Ambient,
) -> Result<PresetRights, CliError> {
    let (set, named_by) = match typed.presets.as_slice() {
        [] => (project.presets().clone(), PresetsNamedBy::Project),
        names => (
            library(ambient).compose(names)?,
            PresetsNamedBy::CommandLine,
        ),
    };
    if set.is_empty() {
        check_preset_flags(typed, project)?;
        return Ok(PresetRights::default());
    }
    let home = ambient.home.as_deref();
    let home = home.ok_or_else(|| refused("missing home directory".to_owned()))?;
    let wishes = ShareRequest::of(&set, home, ambient, typed.terminate_tls);
    let of_project = named_by.project(project.dir());
    let choice = SharingChoice {
        shares: match (typed.share, typed.no_share) {
            (true, _) => true,
            (_, true) => false,
            (false, false) => wishes.recorded(ambient, of_project)?.unwrap_or(false),
        },
        hands_in: typed.share,
        groups: &typed.host_groups,
    };
    Ok(choice.rights(&wishes, project.dir(), home, ambient)?.rights)
}

/// The choices of the person for a command with presets.
struct SharingChoice<'a> {
    shares: bool,
    /// Commands get keys that would stay outside otherwise.
    hands_in: bool,
    groups: &'a [HostGroup],
}

/// The rights of a command with presets, and their origins.
struct FoundRights {
    rights: PresetRights,
    programs: Vec<PathBuf>,
    /// Paths that settings of agents name, in the home directory and the project.
    named: Vec<PathBuf>,
    /// Package registries that files of the project name.
    of_project: Vec<FoundRegistry>,
}

impl SharingChoice<'_> {
    fn rights(
        &self,
        wishes: &ShareRequest<'_>,
        project: &Path,
        home: &Path,
        ambient: &Ambient,
    ) -> Result<FoundRights, CliError> {
        let keys = wishes.outside.keys();
        let keys: Vec<String> = keys.map(|(key, _)| key.to_owned()).collect();
        let registries = registries::find(wishes.set, project, home, ambient);
        let programs = program_dirs(wishes.set, home, ambient);
        let named = wishes.set.named_programs(home, project);
        let in_project = named
            .iter()
            .filter_map(|path| path.strip_prefix(project).ok());
        let choice = PresetChoice {
            named: in_project.map(Path::to_owned).collect(),
            groups: self.groups.to_vec(),
            keys: self.shares,
            // An answer to the question only agrees to their use.
            withheld: if self.hands_in { Vec::new() } else { keys },
            added: match self.shares {
                true => wishes.outside.of_presets().map(str::to_owned).collect(),
                false => Vec::new(),
            },
            programs: programs.clone(),
            registries: registries.own,
        };
        Ok(FoundRights {
            rights: wishes.set.rights(&choice)?,
            programs,
            named,
            of_project: registries.of_project,
        })
    }
}

impl PresetsNamedBy {
    /// Returns the project whose presets an answer about sharing counts for. A yes to presets that a
    /// person names is not one to those that a project names.
    fn project(self, project: &Path) -> Option<&Path> {
        match self {
            PresetsNamedBy::CommandLine => None,
            PresetsNamedBy::Project => Some(project),
        }
    }
}

impl ActivePresets {
    /// Returns `true` if the project names them.
    pub(crate) fn is_of_project(&self) -> bool {
        self.named_by == PresetsNamedBy::Project
    }

    /// Returns `true` for a pattern of names that the presets protect in addition.
    pub(crate) fn protects(&self, pattern: &str) -> bool {
        self.set.protected().any(|one| one == pattern)
    }

    /// Returns the group of a host that was refused because the group is off.
    pub(crate) fn off_group(&self, contact: &Contact) -> Option<HostGroup> {
        let is_unnamed = contact.outcome == ContactOutcome::Refused && contact.rule.is_none();
        let host = Host::parse(&contact.host).ok().filter(|_| is_unnamed)?;
        let group = self.set.group_of(&host, contact.port)?;
        (!group.is_default()).then_some(group)
    }

    /// Returns the rights for the load of the project.
    fn rights(&self) -> &PresetRights {
        &self.rights
    }

    /// Returns the kept home directory and the shared state.
    pub(crate) fn dirs(&self) -> &ExtraDirs {
        &self.home.dirs
    }

    /// Returns a policy with the services of the keys that stay outside, and with the names of the host
    /// and of the user that the presets show.
    pub(crate) fn complete_policy(&self, policy: Policy) -> Result<Policy, CliError> {
        let [host, user] = self.set.identity();
        let names = uname();
        let host = (host == SeenName::Host).then(|| names.nodename().to_str().ok());
        // A user without an entry has no name outside either.
        let user = (user == SeenName::Host).then(|| User::from_uid(geteuid()).ok().flatten());
        let user = user.flatten().map(|user| user.name);
        let with = self.outside.with_services(policy);
        let with = with.and_then(|policy| policy.with_names(host.flatten(), user.as_deref()));
        with.map_err(|error| refused(error.to_string()))
    }

    /// Returns the origin of the names of the host and of the user that commands see under a plan.
    fn seen_names(&self, plan: &Plan) -> [SeenName; 2] {
        // The other mechanisms make no names.
        match plan.backend().has_own_root() {
            true => self.set.identity(),
            false => [SeenName::Host; 2],
        }
    }

    /// Returns the services that a plan has for the keys that stay outside.
    pub(crate) fn key_services(&self, plan: &Plan) -> KeyServices<'_> {
        self.outside.services(plan, self.authority.as_ref())
    }

    /// Returns the directory with the file of authorities that commands trust.
    pub(crate) fn authority_dir(&self) -> Option<&Path> {
        Some(self.authority.as_ref()?.dir())
    }

    /// Returns the directory with settings of the person's tools.
    pub(crate) fn settings_dir(&self) -> Option<&Path> {
        self.tools.as_ref().map(ToolSettings::dir)
    }

    /// Returns the variables by which tools find these settings.
    pub(crate) fn settings_variables(&self) -> &[(String, String)] {
        self.tools.as_ref().map_or(&[], |tools| &tools.variables)
    }

    /// Returns `true` if tools with registries are among the programs.
    pub(crate) fn has_registries(&self) -> bool {
        self.set.registries().next().is_some()
    }

    /// Returns the requests to open URLs.
    pub(crate) fn urls(&self) -> Option<&UrlRequests> {
        self.urls.as_ref()
    }

    /// Returns `true` for a directory of the home directory's, of shared state, or of requests.
    pub(crate) fn has_dir(&self, host: &Path) -> bool {
        let dirs = &self.home.dirs;
        dirs.home.as_deref() == Some(host)
            || dirs.state.iter().any(|state| state.host == host)
            || self.urls.as_ref().is_some_and(|urls| urls.dir() == host)
            || self.authority_dir() == Some(host)
            || self.settings_dir() == Some(host)
    }

    /// Refuses to share state that the person's own programs execute or obey where a change of it is
    /// only found after the end.
    pub(crate) fn check(&self, plan: &Plan) -> Result<(), CliError> {
        let mut state = self.home.dirs.state.iter();
        let guarded = state.find(|one| one.writable && !one.protect.is_empty());
        match guarded {
            Some(state) if plan.backend() == Backend::Landlock => Err(refused(format!(
                "{} cannot be shared under Landlock alone, where a command could change what your \
                 own programs execute there",
                escape_path(&state.host)
            ))
            .hint(
                "start with a home directory of its own: --no-share\n\
                 see what namespaces need on this host: forge doctor",
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the arguments and variables that turn off the program's own sandbox.
    pub(crate) fn inner_sandbox(&self, program: &str) -> (&[String], &[(String, String)]) {
        self.set.inner_sandbox(program)
    }

    /// Returns the presets as receipts and the log have them.
    pub(crate) fn to_json(&self, plan: &Plan) -> Value {
        let is_outside = self.key_services(plan).why_not().is_none();
        let keys = self.outside.places();
        let keys = keys.filter(|_| is_outside || self.hands_in);
        let keys = keys.map(|(key, server, terminates)| {
            outside_keys::to_json(key, Some(server), is_outside, terminates)
        });
        let unfit = self.outside.unfit();
        let unfit = unfit.map(|(key, _)| outside_keys::to_json(key, None, false, false));
        let shared = self.home.dirs.state.iter().map(
            |state| json!({ "path": state.host.display().to_string(), "writable": state.writable }),
        );
        let texts = |paths: &[PathBuf]| -> Vec<String> {
            paths
                .iter()
                .map(|path| path.display().to_string())
                .collect()
        };
        let copies = texts(&self.home.copies).into_iter();
        let copies = copies.map(|path| json!({ "path": path, "writable": false, "copy": true }));
        let [hostname, user] = self.seen_names(plan).map(|seen| seen.to_string());
        json!({
            "presets": self.set.hashes(),
            "identity": { "hostname": hostname, "user": user },
            "named_by": match self.named_by {
                PresetsNamedBy::CommandLine => "command line",
                PresetsNamedBy::Project => "project",
            },
            "shares": self.shares,
            "keys": keys.chain(unfit).collect::<Vec<_>>(),
            "host_groups": self.groups.iter().map(HostGroup::to_string).collect::<Vec<_>>(),
            "home": self.home.dirs.home.as_ref().map(|home| home.display().to_string()),
            "state": shared.chain(copies).collect::<Vec<_>>(),
            "programs": texts(&self.programs),
            "open_urls": self.urls.as_ref().map_or(&[][..], |urls| &urls.origins),
        })
    }

    /// Returns the presets and the choices about them, in words. `plan`: that of a command on this
    /// host.
    pub(crate) fn describe(&self, plan: Option<&Plan>) -> String {
        let share = match self.shares {
            true => "share",
            false => "do not share",
        };
        let hashes = self
            .set
            .presets()
            .iter()
            .map(|one| format!("{} ({})", one.name(), one.sha256()));
        let hashes: Vec<String> = hashes.collect();
        let keys = plan
            .map(|plan| self.describe_keys(plan))
            .unwrap_or_default();
        let keys: Vec<String> = keys.into_iter().map(|line| format!("; {line}")).collect();
        format!(
            "with the presets {}, which {share} state and keys of the person{}",
            hashes.join(", "),
            keys.concat()
        )
    }

    /// Returns a line for each key that stays outside, or cannot.
    pub(crate) fn describe_keys(&self, plan: &Plan) -> Vec<String> {
        let services = self.key_services(plan);
        let mut lines = Vec::new();
        for (key, server, terminates) in self.outside.places() {
            lines.push(match (services.why_not(), self.hands_in) {
                (None, _) if terminates => format!(
                    "{key} stays outside: forge ends TLS to {} and adds it",
                    server.host()
                ),
                (None, _) => format!("{key} stays outside: added for {}", server.host()),
                (Some(why), true) => format!("{key} is handed in: {why}"),
                (Some(why), false) => {
                    format!("{key} is not handed in: {why}; to hand it in all the same: --share")
                }
            });
        }
        for (key, why) in self.outside.unfit() {
            lines.push(format!("{key} is handed in: {why}"));
        }
        lines
    }

    /// Prints the shared state, and the facts that a person should know.
    pub(crate) fn print(&self, plan: &Plan) {
        let shared = match (self.shareable.as_slice(), self.shares) {
            ([], _) => String::new(),
            (all, true) => format!("; shared: {}", all.join(", ")),
            (_, false) => "; nothing of yours is shared (--share)".to_owned(),
        };
        let of_project = match self.named_by {
            PresetsNamedBy::CommandLine => "",
            PresetsNamedBy::Project => " of the project",
        };
        stderr::print(format!(
            "preset {}{of_project}: home directory kept for this project{shared}",
            self.set.named().join(", ")
        ));
        for line in self.describe_keys(plan) {
            stderr::print(line);
        }
        let reads_login = self.shares && self.home.dirs.state.iter().any(|state| state.writable);
        let credential = self
            .set
            .credentials()
            .next()
            .filter(|_| self.outside.is_empty());
        if let Some(credential) = credential.filter(|_| reads_login) {
            stderr::print(format!(
                "note: the login that you share is inside; a key in {} would stay outside",
                credential.key
            ));
        }
        for one in &self.of_project {
            let (file, host) = (escape(&one.place), escape(&one.host));
            stderr::print(format!(
                "note: {file} of the project names {host}, and a repository does not choose hosts: \
                 allow it with --host {host}"
            ));
        }
        // `forge trust` shows those of a project's presets, which count for every command.
        let notes = self.set.notes();
        for note in notes.filter(|_| self.named_by == PresetsNamedBy::CommandLine) {
            stderr::print(format!("note: {}", escape(note)));
        }
    }
}

/// State and keys of the person that exist and that a yes shares.
struct ShareRequest<'a> {
    set: &'a PresetSet,
    state: Vec<&'a PresetState>,
    /// Keys that commands get.
    keys: BTreeSet<&'a str>,
    /// Keys that commands use and do not see.
    outside: OutsideKeys,
}

impl<'a> ShareRequest<'a> {
    fn of(
        set: &'a PresetSet,
        home: &Path,
        ambient: &Ambient,
        terminates_tls: bool,
    ) -> ShareRequest<'a> {
        let exists = |state: &&PresetState| home.join(&state.path).exists();
        let state = set.state().filter(|state| state.needs_yes());
        let is_set = |key: &&str| ambient.var(key).is_some();
        let outside = OutsideKeys::find(set, ambient, terminates_tls);
        let is_inside = |key: &&str| outside.keys().all(|(other, _)| other != *key);
        ShareRequest {
            set,
            state: state.filter(exists).collect(),
            keys: set.keys().filter(is_set).filter(is_inside).collect(),
            outside,
        }
    }

    /// Returns what a yes shares, for one line. Keys that stay outside have lines of their own once
    /// they are shared.
    fn names(&self, shares: bool) -> Vec<String> {
        let state = self.state.iter().map(|state| match state.mode {
            StateMode::Share => format!("~/{}", state.path),
            StateMode::Read => format!("~/{} (read only)", state.path),
            StateMode::Copy => format!("~/{} (copy)", state.path),
        });
        let outside = self.outside.keys().filter(|_| !shares).map(|(key, _)| key);
        let keys = self.keys.iter().copied().chain(outside);
        state.chain(keys.map(str::to_owned)).collect()
    }

    /// Returns what a yes lets the command do, for the question.
    fn lines(&self) -> Vec<String> {
        let state = self.state.iter().map(|state| {
            let verb = match state.mode {
                StateMode::Share => "read and write",
                StateMode::Read => "read",
                StateMode::Copy => "get a copy of",
            };
            let holds = match state.holds.as_slice() {
                [] => String::new(),
                holds => format!(" ({})", holds.join(", ")),
            };
            format!("  {verb} ~/{}{holds}", state.path)
        });
        let keys = self.keys.iter();
        let keys = keys.map(|key| format!("  get the key in {key}"));
        let outside = self.outside.keys().map(|(key, server)| {
            let server = server.host().with_port(server.port());
            format!("  use the key in {key} for {server}, without getting it")
        });
        state.chain(keys).chain(outside).collect()
    }

    /// Returns the hash by which an answer is kept. `project`: the directory of the project that names
    /// the presets; its answers count there alone.
    fn hash(&self, project: Option<&Path>) -> String {
        let names: Vec<&str> = self.set.presets().iter().map(|one| one.name()).collect();
        let mut hash = Sha256::new();
        hash.update(format!("{}\n{}", names.join(","), self.lines().join("\n")));
        if let Some(project) = project {
            hash.update("\nproject ");
            hash.update(project.as_os_str().as_encoded_bytes());
        }
        hex(hash.finalize())
    }

    /// Returns the recorded answer; no without anything to share or a place for answers.
    fn recorded(
        &self,
        ambient: &Ambient,
        project: Option<&Path>,
    ) -> Result<Option<bool>, CliError> {
        let state = ambient.state.as_deref();
        let Some(state) = state.filter(|_| !self.lines().is_empty()) else {
            return Ok(Some(false));
        };
        let hash = self.hash(project);
        let (yes, no) = TrustStore::of_presets(state);
        if yes.read()?.contains(&hash) {
            return Ok(Some(true));
        }
        Ok(no.read()?.contains(&hash).then_some(false))
    }

    /// Returns the recorded answer, or asks. Without a terminal nothing is shared.
    fn ask(
        &self,
        global: &Global,
        ambient: &Ambient,
        project: Option<&Path>,
    ) -> Result<bool, CliError> {
        if let Some(answer) = self.recorded(ambient, project)? {
            return Ok(answer);
        }
        let Some(state) = ambient.state.as_deref() else {
            return Ok(false);
        };
        if ambient.reason_not_to_ask(global.no_input).is_some() {
            return Ok(false);
        }
        let lines = self.lines();
        let hash = self.hash(project);
        let (yes, no) = TrustStore::of_presets(state);
        let subject = match project {
            None => "The preset can share things of yours. The command would",
            Some(_) => {
                "The project names presets that can share things of yours. Each command here would"
            }
        };
        let question = format!(
            "{subject}\n{}\n\
             Without it, the command starts with a home directory of its own for this project.\n",
            lines.join("\n")
        );
        let keys = "[y] share, from now on  [n] do not share, from now on  [o] share once: ";
        let failed = |error: std::io::Error| refused(error.to_string());
        let mut terminal = PromptTerminal::Standard;
        loop {
            terminal.write(&question).map_err(failed)?;
            terminal.await_pause(None, None).map_err(failed)?;
            terminal.write(keys).map_err(failed)?;
            let answer = match terminal.read_line(None, None).map_err(failed)? {
                InputLine::Text(line) => line,
                InputLine::Silence | InputLine::End | InputLine::Withdrawn => return Ok(false),
            };
            let store = match answer.trim() {
                "y" | "yes" => &yes,
                "n" | "no" => &no,
                "o" | "once" => return Ok(true),
                _ => continue,
            };
            store.change(|known| {
                known.insert(hash.clone());
            })?;
            return Ok(std::ptr::eq(store, &yes));
        }
    }
}

/// Returns the directories with the programs of the presets, as far as they exist.
fn program_dirs(set: &PresetSet, home: &Path, ambient: &Ambient) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut add = |directory: PathBuf| {
        let of_system = ["/usr", "/bin", "/sbin"]
            .iter()
            .any(|own| directory.starts_with(own));
        if !of_system && !found.contains(&directory) && directory.exists() {
            found.push(directory);
        }
    };
    let path = ambient.var("PATH").unwrap_or_default();
    let host = HostPrograms::new(ambient);
    for program in set.programs() {
        if let Some(below) = program.strip_prefix("~/") {
            add(home.join(below));
            continue;
        }
        if program.starts_with('/') {
            add(PathBuf::from(program));
            continue;
        }
        let first = std::env::split_paths(path).find(|directory| {
            directory.is_absolute() && directory != home && directory.join(program).is_file()
        });
        if let Some(directory) = first {
            for directory in PathDirs::of(&directory, Some(home)).absolute(home) {
                add(directory);
            }
            let program = directory.join(program);
            let program = (!host.is_led_by_commands(&program)).then_some(program);
            let packages = program.and_then(|program| program.canonicalize().ok());
            packages.as_deref().and_then(packages_around).map(&mut add);
        }
    }
    found
}

/// Returns the outermost `node_modules` around a program: it loads other files of its package.
fn packages_around(program: &Path) -> Option<PathBuf> {
    let around = program.ancestors();
    let packages = around.filter(|path| path.ends_with("node_modules"));
    packages.last().map(Path::to_owned)
}

fn refused(text: String) -> CliError {
    CliError::new(ExitKind::ExecRefused, "preset", text)
}
