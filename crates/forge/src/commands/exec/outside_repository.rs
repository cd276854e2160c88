//! A note about a repository that git does not find inside, because its directory is in no mount.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use os_sandbox::mechanism::MountPlacement;
use os_sandbox::{Access, Git, Mount, Plan, Policy};

use crate::output::escape::escape_path;
use crate::output::stderr;

/// Bound on a file of git that names another directory.
const MAX_POINTER_BYTES: u64 = 8192;

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
        let shown = escape_path(top);
        return (!is_seen(&git.join("HEAD"))).then(|| {
            format!(
                "note: git finds no repository: it begins at {shown}, which the command does not \
                 see; start there: forge -C {shown} exec"
            )
        });
    }
    let repository = of_worktree(&git)?;
    if is_seen(&repository.join("HEAD")) || policy.git() == Git::Commit && is_shown {
        return None;
    }
    let shown = escape_path(&repository);
    let commit = match is_shown {
        true => "; to let git commit too, instead of that rule: -c git.mode=commit",
        false => "",
    };
    Some(format!(
        "note: git finds no repository: that of this worktree is {shown}, which the command does \
         not see; to let git read it: forge allow read:{shown}{commit}"
    ))
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Returns the repository of a linked worktree, by its file `.git`. Why both ways: a command can write
/// that file, and not one of the repository, which names the worktree in turn.
fn of_worktree(pointer: &Path) -> Option<PathBuf> {
    let part = pointed_to(pointer, "gitdir: ")?;
    let back = pointed_to(&part.join("gitdir"), "")?;
    if back != pointer.canonicalize().ok()? {
        return None;
    }
    pointed_to(&part.join("commondir"), "")
}

/// Returns the path that a file holds behind a prefix, without links.
fn pointed_to(file: &Path, prefix: &str) -> Option<PathBuf> {
    let about = fs::symlink_metadata(file).ok()?;
    if !about.is_file() {
        return None;
    }
    let mut text = String::new();
    let mut open = fs::File::open(file).ok()?.take(MAX_POINTER_BYTES);
    open.read_to_string(&mut text).ok()?;
    let path = text.strip_prefix(prefix)?.trim_end_matches(['\r', '\n']);
    file.parent()?.join(path).canonicalize().ok()
}
