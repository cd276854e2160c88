//! Keys of workers that give nothing without another key, names that belong to another worker, and
//! missing directories.

use std::path::Path;

use crate::grant::Grant;
use crate::grant::declaration::MountRequest;
use crate::grant::mount::{Mode, Mount};
use crate::grant::restrict::Restrict;
use crate::project::Project;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, nearest};
use crate::worker::Worker;
use crate::worker::tools::FILE_TOOLS;

/// A right that a key needs.
struct Need {
    /// The tools that need it.
    tools: &'static [&'static str],
    missing: fn(&Grant) -> bool,
    /// The missing key, and the correction.
    why: &'static str,
    help: &'static str,
}

const NEEDS: [Need; 3] = [
    Need {
        tools: FILE_TOOLS,
        missing: |grant| !grant.mounts().any(Mount::usable),
        why: "it is shown no files",
        help: "declare what it needs in `sandbox`, or remove the tool",
    },
    Need {
        tools: &["shell"],
        missing: |grant| grant.shell().is_none(),
        why: "it has no `shell`",
        help: "write `shell: {}` in the worker and `shell` rules in the project file, or remove the tool",
    },
    Need {
        tools: &[
            "git_status",
            "git_pull",
            "git_stage",
            "git_diff",
            "git_list_staged",
            "git_discard",
        ],
        missing: |grant| grant.repositories.is_empty(),
        why: "it has no repository",
        help: "name one in `git.repositories`, or remove the tool",
    },
];

/// Tools that are offered without anything of the above.
const OTHER_TOOLS: [&str; 2] = ["read_output", "call_worker"];

/// Reports the mistakes of one worker, for any caller. A refused worker is skipped.
pub(crate) fn worker(project: &Project, worker: &Worker, findings: &mut Vec<Diagnostic>) {
    let name = worker.name();
    let tools = NEEDS.iter().flat_map(|need| need.tools);
    if tools.chain(&OTHER_TOOLS).any(|tool| *tool == name) {
        let message = format!("a worker cannot be called `{name}`: that is a tool's name");
        findings.push(
            DiagnosticCode::BadValue
                .error(message)
                .at_origin(worker.origin())
                .help("workers are called by their names, as tools are: take another one"),
        );
    }
    let ceiling = worker.ceiling(project.ceiling());
    // A worker of the old form brings mounts of its own.
    directories(project, &ceiling, findings);
    let declaration = worker.declaration();
    if let MountRequest::Restrict(wish) = &declaration.mounts {
        findings.extend(leads_nowhere(&ceiling, wish, name == project.entry()));
    }
    let Ok(grant) = project.held(worker) else {
        return;
    };
    for tool in declaration.tools.iter().flatten() {
        let need = NEEDS
            .iter()
            .find(|need| need.tools.contains(&tool.as_str()));
        if let Some(need) = need.filter(|need| (need.missing)(&grant)) {
            let message = format!("'{name}' asks for `{tool}`, and {}", need.why);
            findings.push(
                DiagnosticCode::NoEffect
                    .error(message)
                    .at_origin(worker.origin())
                    .help(need.help),
            );
        }
    }
    let no_files = matches!(declaration.mounts, MountRequest::Nothing);
    if let Some(wish) = declaration.repositories.iter().flatten().next()
        && no_files
    {
        let message = format!(
            "'{name}' asks for the repository `{}`, and it is shown no files: git tools pull into \
             files and stage files",
            wish.name
        );
        let finding = DiagnosticCode::NoEffect
            .error(message)
            .help("declare what it needs in `sandbox`, or remove `git`");
        let finding = finding.at_origin(worker.origin());
        findings.push(finding.at_any(wish.at.as_ref()));
    }
}

/// Reports a path that is a file, or that is missing: where no worker can create it, or where none
/// has run before this one.
fn leads_nowhere(ceiling: &Grant, wish: &Restrict, is_entry: bool) -> Option<Diagnostic> {
    let mount = ceiling.mount_at(&wish.place)?;
    let below = wish.place.strip_prefix(mount.target()).unwrap_or_default();
    let host = mount.host().join(below.trim_start_matches('/'));
    let what = match std::fs::metadata(&host) {
        Ok(found) if found.is_dir() => return None,
        Ok(_) => "is a file: a worker is shown directories",
        // The missing mount is reported instead.
        Err(_) if below.is_empty() || mount.awaits_run() => return None,
        Err(_) if mount.mode() == Mode::ReadOnly => "does not exist, and no worker may create it",
        Err(_) if is_entry => "does not exist, and no worker runs before this one",
        Err(_) => "does not exist; a worker that runs before has to create it",
    };
    let message = format!("`restrict: {}` {what}", wish.place);
    let can_come = what.ends_with("has to create it");
    let finding = match can_come {
        true => DiagnosticCode::HostPath.warning(message),
        false => DiagnosticCode::HostPath.error(message),
    };
    let parent = Path::new(&wish.place).parent();
    let finding = match near_directory(&host).zip(parent) {
        Some((near, parent)) => {
            finding.help(format!("did you mean `{}`?", parent.join(near).display()))
        }
        None => finding,
    };
    Some(finding.at_any(wish.place_span.as_ref()))
}

/// Reports missing directories of the mounts that files declare: one that forge does not create, a
/// read-only one that it would create empty, and one that looks misspelled.
pub(crate) fn directories(project: &Project, ceiling: &Grant, findings: &mut Vec<Diagnostic>) {
    let missing = |mount: &&Mount| {
        mount.origin().span().is_some() && !mount.awaits_run() && !mount.host().is_dir()
    };
    for mount in ceiling.mounts().filter(missing) {
        let host = mount.host();
        let (name, shown) = (mount.name(), host.display());
        let own_root = project
            .ephemeral_root()
            .filter(|root| host.starts_with(root));
        let in_project = own_root
            .and_then(|root| host.strip_prefix(root).ok())
            .filter(|below| project.dir().join(below).is_dir());
        let near = near_directory(host).map(|near| host.with_file_name(near));
        let message = format!("the directory of `{name}` does not exist: {shown}");
        let help = match (in_project, near) {
            _ if !mount.creates_host() => "create it, or correct its path".to_owned(),
            (Some(below), _) => format!(
                "zones are below `sandbox.root`; for ./{} of the project write `mode: direct`",
                below.display()
            ),
            (None, Some(near)) => format!("did you mean {}?", near.display()),
            (None, None) if mount.mode() == Mode::ReadOnly && own_root.is_none() => {
                "the first call would make an empty one: create it, or correct its path".to_owned()
            }
            (None, None) => continue,
        };
        let finding = match mount.creates_host() {
            true => Diagnostic::warning(DiagnosticCode::HostPath, message),
            false => Diagnostic::error(DiagnosticCode::HostPath, message),
        };
        findings.push(finding.at_origin(mount.origin()).help(help));
    }
}

/// Entries of a directory in which a misspelled name is looked for.
const MAX_NEIGHBOURS: usize = 1000;

/// Returns the name of a directory beside a missing one, if it is near enough to be meant.
fn near_directory(missing: &Path) -> Option<String> {
    let wanted = missing.file_name()?.to_str()?;
    let entries = std::fs::read_dir(missing.parent()?).ok()?;
    let entries = entries.take(MAX_NEIGHBOURS).filter_map(Result::ok);
    let names: Vec<String> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    nearest(wanted, names.iter().map(String::as_str)).map(str::to_owned)
}
