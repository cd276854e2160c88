//! A note about a repository that git does not find inside, because its directory is in no mount.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use os_sandbox::mechanism::MountPlacement;
use os_sandbox::{Access, Git, Mount, Plan, Policy};

use sandbox_names::git::gitfile_target;
use sandbox_names::git_config;

use crate::bounded;
use crate::output::escape::escape_path;
use crate::output::stderr;

/// Bound on a file of git that names another directory.
const MAX_POINTER_BYTES: u64 = 8192;
/// Bound on the configuration of a submodule.
const MAX_CONFIG_BYTES: u64 = 256 << 10;

/// Prints the note, if there is one.
pub(super) fn print(plan: &Plan, here: &Path) {
    let is_shown = plan.backend().has_own_root();
    let note = describe(plan.policy(), here, is_shown);
    note.into_iter().for_each(stderr::print);
}

/// Describes the repository around `here`, if the directory is in a mount and the repository is in
/// none. `is_shown`: the mechanism shows the repository of a linked worktree where the policy asks for
/// it.
fn describe(policy: &Policy, here: &Path, is_shown: bool) -> Option<String> {
    let is_seen = |path: &Path| policy.allows(path, Access::READ);
    let top = here.ancestors().find(|above| exists(&above.join(".git")))?;
    let git = top.join(".git");
    if !is_seen(here) {
        return None;
    }
    if git.is_dir() {
        // A project that shows some directories leaves out its repository on purpose.
        let is_root = |mount: &Mount| mount.place() == MountPlacement::Root;
        if !policy.mounts().iter().any(is_root) || !exists(&git.join("HEAD")) {
            return None;
        }
        return (!is_seen(&git.join("HEAD"))).then(|| begins_at(top));
    }
    let repository =
        OutsideRepository::of_worktree(&git).or_else(|| OutsideRepository::of_submodule(&git))?;
    if !is_seen(&git) {
        return Some(begins_at(top));
    }
    let offers_commit = is_shown && repository.kind == "worktree";
    let is_linked = policy.git() == Git::Commit && offers_commit;
    if is_seen(&repository.path.join("HEAD")) || is_linked {
        return None;
    }
    let kind = repository.kind;
    let shown = escape_path(&repository.path);
    let commit = match offers_commit {
        true => "; to let git commit too, instead of that rule: -c git.mode=commit",
        false => "",
    };
    Some(format!(
        "note: git finds no repository: that of this {kind} is {shown}, which the command does not \
         see; to let git read it: forge allow read:{shown}{commit}"
    ))
}

fn begins_at(top: &Path) -> String {
    let shown = escape_path(top);
    format!(
        "note: git finds no repository: it begins at {shown}, which the command does not see; \
         start there: forge -C {shown} exec"
    )
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// The repository to which a file `.git` leads. Why both ways: a command can write that file, and not
/// one of the repository, which names the directory in turn.
struct OutsideRepository {
    kind: &'static str,
    path: PathBuf,
}

impl OutsideRepository {
    fn of_worktree(pointer: &Path) -> Option<OutsideRepository> {
        let part = part(pointer)?;
        if named_in(&part.join("gitdir"))? != pointer.canonicalize().ok()? {
            return None;
        }
        let path = named_in(&part.join("commondir"))?;
        let kind = "worktree";
        Some(OutsideRepository { kind, path })
    }

    fn of_submodule(pointer: &Path) -> Option<OutsideRepository> {
        let path = part(pointer)?;
        let config = bounded::read_text(&path.join("config"), MAX_CONFIG_BYTES).ok()?;
        let entries = git_config::entries(&config);
        let top = entries
            .iter()
            .rfind(|entry| entry.name() == "core.worktree")?;
        let top = path.join(&top.value).canonicalize().ok()?;
        let kind = "submodule";
        (top == pointer.parent()?.canonicalize().ok()?).then_some(OutsideRepository { kind, path })
    }
}

/// Returns the directory that a file `.git` names, without links.
fn part(pointer: &Path) -> Option<PathBuf> {
    if fs::symlink_metadata(pointer).ok()?.is_symlink() {
        return None;
    }
    let content = bounded::read_bytes(pointer, MAX_POINTER_BYTES).ok()?;
    let part = OsStr::from_bytes(gitfile_target(&content)?);
    pointer.parent()?.join(part).canonicalize().ok()
}

/// Returns the path in a file of git, without links.
fn named_in(file: &Path) -> Option<PathBuf> {
    let content = bounded::read_bytes(file, MAX_POINTER_BYTES).ok()?;
    let path = OsStr::from_bytes(content.trim_ascii_end());
    file.parent()?.join(path).canonicalize().ok()
}
