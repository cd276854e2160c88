//! The tools that a grant offers and the gate's answer about a call of one, without opening a
//! directory of the host.

use std::sync::Arc;

use file_sandbox::{FileSandbox, Limits, SandboxPath};
use forge_git::tools::{RepoAccess, all as all_of_git};
use forge_git::{GitBackend, GitService, NoRepositories, Repo, StagedStore};
use forge_runtime::{GrantGate, OsSandbox, RepositorySource};
use forge_tools::{Gate as _, GateRequest, Intent, Judgement, Risk, Spec, Toolbox};
use sandbox_config::{Grant, Mode, Mount, Operation};

use crate::exit::CliError;

/// Returns the judgement of the gate about a call of the tool that stands for an operation on a
/// file. `None` if the tools have none.
pub(crate) fn judge_file(
    grant: &Grant,
    tools: &[Spec],
    operation: Operation,
    path: &SandboxPath,
) -> Option<Judgement> {
    let (name, intent) = match operation {
        Operation::Read => ("read_file", Intent::Read(path.clone())),
        Operation::Write => ("write_file", Intent::Write(path.clone())),
        Operation::Delete => ("delete_file", Intent::Delete(path.clone())),
    };
    let spec = tools.iter().find(|spec| spec.name == name)?;
    Some(judge(grant, spec, &[intent], true))
}

/// Returns the judgement of the gate about a call of a tool.
pub(crate) fn judge(grant: &Grant, spec: &Spec, intents: &[Intent], confined: bool) -> Judgement {
    GrantGate::new(grant.clone()).judge(&GateRequest {
        tool: &spec.name,
        risk: spec.risk,
        requires_permission: spec.requires_permission,
        needs_network: spec.needs_network,
        confined,
        intents,
    })
}

/// Returns the judgement of `caller`'s approval rules about calls of a worker.
pub(crate) fn delegation(caller: &Grant, worker: &str) -> Judgement {
    GrantGate::new(caller.clone()).judge(&GateRequest {
        tool: worker,
        risk: Risk::Exec,
        requires_permission: false,
        needs_network: false,
        confined: true,
        intents: &[Intent::Delegate(worker.to_owned())],
    })
}

/// Opens the usable mounts empty: questions about a *name* go to the code that answers tools, and
/// no directory of the host is opened or made for them.
pub(crate) fn open_empty_mirror(grant: &Grant) -> Result<Option<FileSandbox>, file_sandbox::Error> {
    mirrored(grant, None, |mount| grant.file_guards(mount))
}

/// The content of a file that every rule for private keys protects.
pub(crate) const KEY: &[u8] = b"-----BEGIN PRIVATE KEY-----";

/// Returns the mirror of a grant with a file at a path.
pub(crate) fn mirror_with_file(
    grant: &Grant,
    path: &SandboxPath,
    content: &[u8],
) -> Result<Option<FileSandbox>, file_sandbox::Error> {
    mirrored(grant, Some((path, content)), |mount| {
        grant.file_guards(mount)
    })
}

/// Returns a mirror with a private key at a path, in which only the given names are protected and
/// hidden. It tells which of them guards the path.
pub(crate) fn mirror_with_key(
    grant: &Grant,
    path: &SandboxPath,
    protect: &[String],
    hide: &[String],
) -> Result<Option<FileSandbox>, file_sandbox::Error> {
    mirrored(grant, Some((path, KEY)), |mount| {
        (mount.mode(), protect.to_vec(), hide.to_vec())
    })
}

fn mirrored(
    grant: &Grant,
    file: Option<(&SandboxPath, &[u8])>,
    guards: impl Fn(&Mount) -> (Mode, Vec<String>, Vec<String>),
) -> Result<Option<FileSandbox>, file_sandbox::Error> {
    let mut mounts = Vec::new();
    for mount in grant.mounts().filter(|mount| mount.usable()) {
        let (mode, protect, hide) = guards(mount);
        let mode = match mode {
            Mode::ReadOnly => file_sandbox::Mode::ReadOnly,
            Mode::ReadWrite => file_sandbox::Mode::ReadWrite,
        };
        let mut limits = Limits::new();
        if let Some(suffixes) = mount.suffixes() {
            limits = limits.suffixes(suffixes);
        }
        let mut mirror = file_sandbox::Mount::memory(SandboxPath::parse(mount.target())?, mode)
            .with_limits(limits)
            .protect(&protect)?
            .hide(&hide)?;
        let owner = |path: &SandboxPath| grant.mount_at(path.as_str()).map(Mount::target);
        if let Some((path, content)) = file
            && owner(path) == Some(mount.target())
            && let Some(below) = (path.as_str()).strip_prefix(mount.target().trim_end_matches('/'))
            && !below.is_empty()
            && !path.asked().ends_with('/')
        {
            let below = SandboxPath::parse(below)?;
            // No file can be created there: the name alone decides.
            mirror = mirror.clone().with_file(&below, content).unwrap_or(mirror);
        }
        mounts.push(mirror);
    }
    if mounts.is_empty() {
        return Ok(None);
    }
    FileSandbox::new(mounts).map(Some)
}

/// The built-in tools that a holder of `grant` is offered, the shell last.
pub(crate) fn tools(grant: &Grant) -> Result<Vec<Spec>, String> {
    let gate = GrantGate::new(grant.clone());
    let offers_shell = grant.shell().is_some() && gate.offers("shell");
    let mut builder = Toolbox::builder().gate(gate);
    if let Some(files) = open_empty_mirror(grant).map_err(|error| error.to_string())? {
        builder = builder.files(files);
    }
    // The list of tools does not depend on the location of the repositories.
    let git = of_git()?.tools(grant, &OsSandbox::Off);
    for tool in git.map_err(|error| error.to_string())? {
        builder = builder.boxed_tool(tool);
    }
    let toolbox = builder.build().map_err(|error| error.to_string())?;
    let mut specs: Vec<Spec> = toolbox.specs().cloned().collect();
    if offers_shell {
        specs.push(forge_tools::tools::shell().spec().clone());
    }
    Ok(specs)
}

/// Returns the specs of every built-in tool.
pub(crate) fn all_tools() -> Result<Vec<Spec>, CliError> {
    every_tool().map_err(internal)
}

pub(crate) fn internal(error: String) -> CliError {
    CliError::negative("config.tool_name", error)
}

fn every_tool() -> Result<Vec<Spec>, String> {
    let everything = SandboxPath::parse("/workspace").map_err(|error| error.to_string())?;
    let mount = file_sandbox::Mount::memory(everything, file_sandbox::Mode::ReadWrite);
    let files = FileSandbox::new(vec![mount]).map_err(|error| error.to_string())?;
    let mut builder = Toolbox::builder().files(files);
    let repo = Repo::parse("/").map_err(|error| error.message().to_owned())?;
    let granted = [(repo, RepoAccess::ReadWrite)].into_iter().collect();
    for tool in all_of_git(git_without_repositories()?, granted) {
        builder = builder.boxed_tool(tool);
    }
    let toolbox = builder.build().map_err(|error| error.to_string())?;
    let mut specs: Vec<Spec> = toolbox.specs().cloned().collect();
    specs.push(forge_tools::tools::shell().spec().clone());
    Ok(specs)
}

/// Opens git without any repository, to list its tools.
fn git_without_repositories() -> Result<Arc<dyn GitBackend>, String> {
    let store = StagedStore::in_memory().map_err(|error| error.message().to_owned())?;
    Ok(Arc::new(GitService::new(NoRepositories, store)))
}

fn of_git() -> Result<RepositorySource, String> {
    git_without_repositories().map(RepositorySource::of)
}
