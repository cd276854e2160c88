//! `require`, `git.mode`, `sandbox.review`, `sandbox.programs`, `sandbox.unix_sockets` and
//! `sandbox.survivors`.

use std::path::{Path, PathBuf};

use crate::grant::Grant;
use crate::grant::confinement::{
    GitMode, MAX_SOCKETS, SocketRequest, Survivors, Trace, UnixSockets, socket_problem,
};
use crate::grant::mount::{Mode, Mount};
use crate::grant::programs::{MAX_PROGRAMS, ProgramDirs};
use crate::loading::load_context::LoadContext;
use crate::loading::{reserved_paths, trust_rules};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::fields::{self, MappingFields};
use crate::syntax::word::ConfigWord;
use crate::syntax::yaml::{YamlEntry, YamlNode, YamlValue};

/// The keys at the top of a project file.
pub(crate) fn read_top(
    context: &mut LoadContext<'_>,
    top: &MappingFields<'_>,
    ceiling: &mut Grant,
) {
    let words = [("boundaries", false), ("guards", true)];
    if let Some(guards) = top.word(&mut context.reports, "require", &words) {
        ceiling.confinement.require_guards = guards;
    }
}

/// `git.mode`.
pub(crate) fn read_git(
    context: &mut LoadContext<'_>,
    git: &MappingFields<'_>,
    ceiling: &mut Grant,
) {
    let Some(mode) = git.word(&mut context.reports, "mode", GitMode::WORDS) else {
        return;
    };
    let rule = &trust_rules::GIT_COMMIT;
    if mode != GitMode::Commit || context.agreed_key(rule, git, "mode", "commit") {
        ceiling.confinement.git = mode;
    }
}

/// The keys of `sandbox`; the mounts are known by now.
pub(crate) fn read_sandbox(
    context: &mut LoadContext<'_>,
    section: &MappingFields<'_>,
    ceiling: &mut Grant,
) {
    let survivors = section.word(&mut context.reports, "survivors", Survivors::WORDS);
    let rule = &trust_rules::SURVIVORS;
    if survivors == Some(Survivors::Left) && context.agreed_key(rule, section, "survivors", "left")
    {
        ceiling.confinement.survivors = Survivors::Left;
    }
    ceiling.confinement.trace = section
        .word(&mut context.reports, "trace", Trace::WORDS)
        .unwrap_or_default();
    ceiling.confinement.review = section
        .boolean(&mut context.reports, "review")
        .unwrap_or(false);
    ceiling.confinement.programs = programs(context, section, &ceiling.mounts);
    let Some(entry) = section.get("unix_sockets") else {
        return;
    };
    let sockets = sockets(context, &entry.node, &ceiling.mounts).unwrap_or_default();
    let (rule, value) = (&trust_rules::SOCKETS, sockets.to_string());
    if sockets != UnixSockets::Closed && context.agreed_key(rule, section, "unix_sockets", &value) {
        ceiling.confinement.unix_sockets = sockets;
    }
    let confinement = &ceiling.confinement;
    let is_named = matches!(confinement.unix_sockets, UnixSockets::Named(_));
    if is_named && confinement.survivors == Survivors::Left {
        let left = section.span_of("survivors");
        let message = "sockets are named, and what commands leave behind stays";
        context.report(
            DiagnosticCode::BadValue.at(left, message)
                .related(&entry.node.span, "sockets are named here")
                .help("the process that connects for a command ends with it: write `survivors: ended`"),
        );
    }
}

/// `sandbox.programs`: each directory needs a yes of its own.
fn programs(
    context: &mut LoadContext<'_>,
    section: &MappingFields<'_>,
    mounts: &[Mount],
) -> ProgramDirs {
    let list = section.strings(&mut context.reports, "programs");
    let list = list.unwrap_or_default();
    if list.len() > MAX_PROGRAMS {
        let message = format!("`sandbox.programs` names more than {MAX_PROGRAMS} directories");
        context.report(DiagnosticCode::TooComplex.at(section.span_of("programs"), message));
        return ProgramDirs::default();
    }
    let mut directories: Vec<PathBuf> = Vec::new();
    for (text, item) in list {
        let directory = program_directory(context, text, mounts);
        let Some(directory) = context.reports.take_at(directory, &item.span) else {
            continue;
        };
        let key = format!("sandbox.programs[{text}]");
        let agreed = context.agreed(&trust_rules::PROGRAMS, &key, text, &item.span);
        if agreed && !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    program_dirs(context, directories)
}

/// Returns directories with the person's order and the paths that none of them may contain.
pub(crate) fn program_dirs(context: &LoadContext<'_>, directories: Vec<PathBuf>) -> ProgramDirs {
    if directories.is_empty() {
        return ProgramDirs::default();
    }
    let path = context
        .sources
        .env
        .iter()
        .rev()
        .find(|(name, _)| name == "PATH");
    let kept_out = context.sources.out_of_reach.iter().map(|own| own.path());
    ProgramDirs::new(
        directories,
        path.map(|(_, value)| value.as_str()),
        kept_out.map(Path::to_owned).collect(),
        context.sources.home.clone(),
    )
}

fn program_directory(
    context: &LoadContext<'_>,
    text: &str,
    mounts: &[Mount],
) -> Result<PathBuf, Box<Diagnostic>> {
    let refuse = |why: &str| {
        let message = format!("`{text}` cannot be shown for its programs: {why}");
        Box::new(DiagnosticCode::HostPath.error(message))
    };
    let expanded = context.expand(text).map_err(|problem| refuse(&problem))?;
    let path: PathBuf = Path::new(&expanded).components().collect();
    let climbs = path.components().any(|part| part.as_os_str() == "..");
    if !path.is_absolute() || climbs || expanded.contains('\0') {
        return Err(Box::new(
            refuse("it is not an absolute path").help("write `~/.cargo/bin`, or the whole path"),
        ));
    }
    let real = path.canonicalize().unwrap_or_else(|_| path.clone());
    let kernels_own = ["/proc", "/sys", "/dev"];
    if real.parent().is_none() || kernels_own.iter().any(|dir| real.starts_with(dir)) {
        return Err(refuse("it is not a directory of programs"));
    }
    let home = context.sources.home.as_deref();
    let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
    if home.is_some_and(|home| home.starts_with(&real)) {
        return Err(Box::new(
            refuse("it holds the home directory").help("name the directories of the programs"),
        ));
    }
    let meets = |mount: &&Mount| real.starts_with(&mount.host) || mount.host.starts_with(&real);
    if let Some(mount) = mounts.iter().find(meets) {
        let why = format!("it is not apart from `{}`", mount.name);
        return Err(Box::new(
            refuse(&why).help("programs in what workers work on need no more than that"),
        ));
    }
    if let Some(own) = reserved_paths::meets(&real, &context.sources.out_of_reach) {
        let why = format!(
            "it is not apart from {}, which no worker may reach",
            own.noun()
        );
        let message = format!("`{text}` cannot be shown for its programs: {why}");
        return Err(Box::new(DiagnosticCode::OwnDirectory.error(message)));
    }
    Ok(path)
}

fn sockets(
    context: &mut LoadContext<'_>,
    node: &YamlNode,
    mounts: &[Mount],
) -> Option<UnixSockets> {
    let path = "sandbox.unix_sockets";
    if let YamlValue::Str(_) = &node.value {
        let words = [("closed", false), ("open", true)];
        let open = fields::word(&mut context.reports, node, path, &words)?;
        return Some(if open {
            UnixSockets::Open
        } else {
            UnixSockets::Closed
        });
    }
    if !matches!(node.value, YamlValue::List(_)) {
        let wrong = fields::wrong_type(node, path, "`closed`, `open` or a list");
        return context.refuse(wrong.help("write `[/run/user/1000/agent.sock]`"));
    }
    let list = fields::strings(&mut context.reports, node, path)?;
    if list.len() > MAX_SOCKETS {
        let message = format!("`{path}` names more than {MAX_SOCKETS} sockets");
        return context.refuse(DiagnosticCode::TooComplex.at(&node.span, message));
    }
    let mut named: Vec<PathBuf> = Vec::new();
    for (text, item) in list {
        let socket = socket(context, text, mounts);
        named.extend(context.reports.take_at(socket, &item.span));
    }
    Some(UnixSockets::named(named))
}

fn socket(
    context: &LoadContext<'_>,
    text: &str,
    mounts: &[Mount],
) -> Result<PathBuf, Box<Diagnostic>> {
    let refuse = |why: &str| {
        let message = format!("`{text}` cannot be a socket: {why}");
        Box::new(DiagnosticCode::HostPath.error(message))
    };
    let expanded = context.expand(text).map_err(|problem| refuse(&problem))?;
    let path: PathBuf = Path::new(&expanded).components().collect();
    if let Some(problem) = socket_problem(&path) {
        return Err(Box::new(refuse(problem).help(
            "name it by its path on the host; abstract sockets have none and stay closed",
        )));
    }
    let writable = |mount: &&Mount| mount.mode == Mode::ReadWrite && path.starts_with(&mount.host);
    if let Some(mount) = mounts.iter().find(writable) {
        let why = format!("it lies in `{}`, which commands may write", mount.name);
        return Err(Box::new(refuse(&why).help(
            "a command could put another socket in its place: have the daemon listen elsewhere",
        )));
    }
    if let Some(own) = reserved_paths::lies_in(&path, &context.sources.out_of_reach) {
        let why = format!("it lies in {}, which no worker may reach", own.noun());
        let message = format!("`{text}` cannot be a socket: {why}");
        return Err(Box::new(DiagnosticCode::OwnDirectory.error(message)));
    }
    Ok(path)
}

/// `sandbox.unix_sockets` of a worker: `inherit`, `closed`, or some of the parent's by path.
pub(crate) fn worker_sockets(
    context: &mut LoadContext<'_>,
    sandbox: Option<&YamlEntry>,
) -> Option<(SocketRequest, crate::syntax::text::Span)> {
    let entry = sandbox?.node.entry("unix_sockets")?;
    let (node, path) = (&entry.node, "sandbox.unix_sockets");
    let wish = match &node.value {
        YamlValue::Str(_) => {
            let words = [("closed", false), ("inherit", true)];
            match fields::word(&mut context.reports, node, path, &words)? {
                true => SocketRequest::Inherit,
                false => SocketRequest::These(UnixSockets::Closed),
            }
        }
        _ => {
            let list = fields::strings(&mut context.reports, node, path)?;
            let paths = list
                .iter()
                .map(|(text, _)| Path::new(text).components().collect::<PathBuf>());
            SocketRequest::These(UnixSockets::named(paths))
        }
    };
    Some((wish, node.span.clone()))
}
