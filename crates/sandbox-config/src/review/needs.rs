//! Keys of workers that give nothing without another key, names that belong to another worker, and
//! missing directories.

use crate::grant::Grant;
use crate::grant::declaration::MountRequest;
use crate::grant::mount::{Mode, Mount};
use crate::grant::restrict::Restrict;
use crate::project::Project;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
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
    let is_tool = NEEDS
        .iter()
        .flat_map(|need| need.tools)
        .chain(&OTHER_TOOLS)
        .any(|tool| *tool == name);
    if is_tool {
        let message = format!("a worker cannot be called `{name}`: that is a tool's name");
        findings.push(
            DiagnosticCode::BadValue
                .error(message)
                .at_origin(worker.origin())
                .help("workers are called by their names, as tools are: take another one"),
        );
    }
    let ceiling = worker.ceiling(project.ceiling());
    let declaration = worker.declaration();
    if let MountRequest::Restrict(wish) = &declaration.mounts {
        findings.extend(leads_nowhere(&ceiling, wish));
    }
    let held = if name == project.entry() {
        ceiling.entry(declaration)
    } else {
        ceiling.child(declaration)
    };
    let Ok(grant) = held else { return };
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
        findings.push(match &wish.at {
            Some(at) => finding.at(at),
            None => finding.at_origin(worker.origin()),
        });
    }
}

/// Returns `true` if a path is a file, or is missing and cannot come to be.
fn leads_nowhere(ceiling: &Grant, wish: &Restrict) -> Option<Diagnostic> {
    let mount = ceiling.mount_at(&wish.place)?;
    let below = wish.place.strip_prefix(mount.target()).unwrap_or_default();
    let host = mount.host().join(below.trim_start_matches('/'));
    let what = match std::fs::metadata(&host) {
        Ok(found) if found.is_dir() => return None,
        Ok(_) => "is a file: a worker is shown directories",
        // A worker may make it before this one is called.
        Err(_) if mount.mode() == Mode::ReadWrite || !mount.host().exists() => return None,
        Err(_) => "does not exist, and no worker may create it",
    };
    let message = format!("`restrict: {}` {what}", wish.place);
    let finding = DiagnosticCode::BadValue.error(message);
    Some(match &wish.place_span {
        Some(at) => finding.at(at),
        None => finding,
    })
}
