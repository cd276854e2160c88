//! Linked worktrees (`git worktree add`): the `.git` of such a directory is a file, the pointer, that
//! names a part of a repository elsewhere, and that part notes the path of the pointer.
//!
//! - A mount that is a linked worktree: under `Git::Commit` the sandbox shows its repository too, at
//!   its own path, because git finds it by that path.
//! - A mount that is a repository: the sandbox shows the pointers of its worktrees, under each mode,
//!   because git considers a worktree without one deleted.
//!
//! A command could have written either path, so it is trusted only if the other side names it in
//! turn; a repository also only if no command of this policy can write in it.
//!
//! Entry point: [`show`].
//!
//! <https://git-scm.com/docs/gitrepository-layout>

use super::super::below;
use super::super::host_mount::{HostMount, Linked};
use super::super::mount_layer::inside_paths;
use crate::access::Access;
use crate::escape::visible;
use crate::policy::{BROAD, Git, MountPlacement, PROGRAMS, Policy, check_not_kernel};
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag};
use nix::unistd::geteuid;
use sandbox_names::git::gitfile_target;
use sandbox_names::lexical::normalize;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Bound on the size of a pointer file.
const MAX_POINTER_BYTES: u64 = 8192;

/// Bound on the other worktrees that git can clean up.
const MAX_OTHERS: usize = 32;

/// Bound on the worktrees of a repository whose pointers are shown.
const MAX_POINTERS: usize = 256;

/// Adds the mounts that git needs and the policy does not name: repositories of linked worktrees, and
/// pointers of the worktrees of repositories. Returns remarks for the receipt.
pub(crate) fn show(policy: &Policy, mounts: &mut Vec<HostMount>, mount_layer: bool) -> Vec<String> {
    let (shown, mut remarks) = linked(policy, mounts, mount_layer);
    mounts.extend(shown);
    if !mount_layer {
        return remarks;
    }
    for index in 0..mounts.len() {
        let repository = &mounts[index];
        if repository.is_dir && repository.access.contains(Access::WRITE) {
            let (shown, more) = pointers(policy, mounts, repository);
            mounts.extend(shown);
            remarks.extend(more);
        }
    }
    remarks
}

/// Returns the repositories of linked worktrees, and remarks for the receipt.
fn linked(
    policy: &Policy,
    mounts: &[HostMount],
    mount_layer: bool,
) -> (Vec<HostMount>, Vec<String>) {
    let (mut out, mut remarks) = (Vec::new(), Vec::new());
    if policy.git() != Git::Commit {
        return (out, remarks);
    }
    let writable = |mount: &&HostMount| mount.is_dir && mount.access.contains(Access::WRITE);
    for mount in mounts.iter().filter(writable) {
        let root = mount.handle.as_fd();
        let pointer = below::look(root, OsStr::new(".git"));
        if !pointer.is_ok_and(|stat| below::kind(&stat) == SFlag::S_IFREG) {
            continue;
        }
        if !mount.is_changed() {
            remarks.push(format!(
                "the repository of the linked worktree {} is not shown: git would change it \
                 directly, past the overlay",
                mount.inside
            ));
            continue;
        }
        let followed = if mount_layer {
            follow(policy, mounts, mount)
        } else {
            Err("needs a mount layer, such as bubblewrap".to_owned())
        };
        match followed {
            Ok((repository, pointer)) => {
                remarks.push(format!(
                    "but for the repository of the linked worktree {}, {}",
                    mount.inside, repository.inside
                ));
                // Two worktrees of one repository would each have to protect the other's parts.
                if out
                    .iter()
                    .any(|one: &HostMount| one.host == repository.host)
                {
                    remarks.push(format!(
                        "{}: only one linked worktree of a repository is followed",
                        mount.inside
                    ));
                    continue;
                }
                out.push(repository);
                out.extend(pointer);
            }
            Err(reason) => remarks.push(format!(
                "the repository of the linked worktree {} is not shown: {}",
                mount.inside,
                visible(&reason)
            )),
        }
    }
    (out, remarks)
}

/// Returns the pointers of the other worktrees of a repository that is shown, and remarks for the
/// receipt. If git finds no pointer at the path that it noted, it considers the worktree deleted:
/// `git worktree prune`, and `git gc` in time, remove its index, its head and its logs.
///
/// <https://git-scm.com/docs/git-worktree#_details>
fn pointers(
    policy: &Policy,
    mounts: &[HostMount],
    repository: &HostMount,
) -> (Vec<HostMount>, Vec<String>) {
    let (mut out, mut remarks) = (Vec::new(), Vec::new());
    let parts = match repository.linked {
        Some(_) => Path::new("worktrees"),
        None => Path::new(".git/worktrees"),
    };
    // Git does not go through what cannot be listed either.
    let ids = std::fs::read_dir(repository.host.join(parts));
    for (index, id) in ids.into_iter().flatten().flatten().enumerate() {
        if index == MAX_POINTERS {
            remarks.push(format!(
                "{} has more than {MAX_POINTERS} worktrees: git considers the others deleted",
                repository.inside
            ));
            break;
        }
        let below = parts.join(id.file_name());
        match pointer_of(policy, mounts, repository, &below) {
            Ok(pointer) => out.extend(pointer),
            Err(reason) => remarks.push(format!(
                "git considers the worktree of {} deleted: {}",
                repository.shown(&below),
                visible(&reason)
            )),
        }
    }
    (out, remarks)
}

/// Returns the pointer of the worktree that a part of a repository belongs to. `None` if a mount
/// shows its path anyway, or if the worktree does not exist or does not name this part in turn: a
/// command could have written the path of any file.
fn pointer_of(
    policy: &Policy,
    mounts: &[HostMount],
    repository: &HostMount,
    below: &Path,
) -> Result<Option<HostMount>, String> {
    let noted = below::directory(repository.handle.as_fd(), below)
        .ok()
        .and_then(|part| read(&part, "gitdir").ok());
    let Some(noted) = noted.filter(|noted| Path::new(noted).ends_with(".git")) else {
        return Ok(None);
    };
    let part = repository.host.join(below);
    // Since git 2.48 it can be relative to the part.
    let pointer = normalize(&part.join(&noted));
    let inside = normalize(&Path::new(&repository.inside).join(below).join(&noted));
    let shows = |mount: &HostMount| {
        let rest = inside.strip_prefix(&mount.inside);
        rest.is_ok_and(|rest| mount.host.join(rest) == pointer)
    };
    if mounts.iter().any(shows) {
        return Ok(None);
    }
    let Some(worktree) = pointer.parent().filter(|path| path.is_absolute()) else {
        return Ok(None);
    };
    let Ok(directory) = below::absolute(worktree) else {
        return Ok(None);
    };
    let names_part = read(&directory, ".git").is_ok_and(|text| {
        let names = gitfile_target(text.as_bytes()).map(OsStr::from_bytes);
        names.is_some_and(|names| normalize(&worktree.join(names)) == part)
    });
    if !names_part {
        return Ok(None);
    }
    placeable(policy, mounts, &inside)?;
    let opened = |errno: nix::Error| format!("{}: {}", pointer.display(), errno.desc());
    let handle = below::place(&pointer).map_err(opened)?;
    let shown = HostMount {
        inside: utf8(&inside)?,
        ..extra_mount(policy, &pointer, Access::READ, handle, None)?
    };
    Ok(Some(shown))
}

fn utf8(path: &Path) -> Result<String, String> {
    let text = path.to_str().ok_or("its path is not UTF-8")?;
    Ok(text.to_owned())
}

/// Returns the repository, and the pointer at its path on the host: without it `git gc` considers
/// the worktree deleted. `None` if a mount shows the pointer at that path anyway.
fn follow(
    policy: &Policy,
    mounts: &[HostMount],
    mount: &HostMount,
) -> Result<(HostMount, Option<HostMount>), String> {
    let pointer = mount.host.join(".git");
    let text = read(&mount.handle, ".git")?;
    let own = gitfile_target(text.as_bytes());
    let own = own.ok_or("its .git is not a pointer to a git directory")?;
    let own = PathBuf::from(OsStr::from_bytes(own));
    if !own.is_absolute() {
        return Err("its .git names a relative path".to_owned());
    }
    let (Some(id), Some(common)) = (own.file_name(), own.parent().and_then(Path::parent)) else {
        return Err("its .git names no part of a repository".to_owned());
    };
    if own.parent().and_then(Path::file_name) != Some(OsStr::new("worktrees")) {
        return Err("its .git names no part of a repository".to_owned());
    }
    if own.canonicalize().ok().as_deref() != Some(&own) {
        return Err(format!(
            "{} is not there, or runs through a link",
            own.display()
        ));
    }
    check_place(policy, mounts, common)?;
    let is_there = Path::new(&mount.inside) == mount.host;
    if !is_there {
        placeable(policy, mounts, &pointer)?;
    }
    let opened = |errno: nix::Error| format!("{}: {}", common.display(), errno.desc());
    let repository = below::absolute(common).map_err(opened)?;
    let part = below::directory(repository.as_fd(), &Path::new("worktrees").join(id));
    let part = part.map_err(opened)?;
    if Path::new(&read(&part, "gitdir")?) != pointer {
        return Err(format!("{} belongs to another worktree", own.display()));
    }
    if read(&part, "commondir")? != "../.." {
        return Err(format!("{} points elsewhere", own.display()));
    }
    check_owner(&repository, &part, common, &own)?;
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = openat(&mount.handle, ".git", flags, Mode::empty()).map_err(opened)?;
    let others = std::fs::read_dir(common.join("worktrees")).into_iter();
    let others = others.flatten().flatten().map(|entry| entry.file_name());
    let linked = Linked {
        id: id.to_owned(),
        others: others.take(MAX_OTHERS).collect(),
    };
    let pointer = match is_there {
        true => None,
        false => Some(extra_mount(policy, &pointer, Access::READ, file, None)?),
    };
    Ok((
        extra_mount(policy, common, mount.access, repository, Some(linked))?,
        pointer,
    ))
}

/// Checks that a repository can be shown at its path of the host: no mount shows a part of it.
fn check_place(policy: &Policy, mounts: &[HostMount], common: &Path) -> Result<(), String> {
    for mount in mounts {
        if common.starts_with(&mount.host) || mount.host.starts_with(common) {
            return Err(format!("{} lies in a mount", common.display()));
        }
    }
    check_not_kernel(common).map_err(|error| error.to_string())?;
    placeable(policy, mounts, common)
}

/// Checks that the repository at `common` and the worktree's part `own` of it belong to the caller.
fn check_owner(
    repository: &OwnedFd,
    part: &OwnedFd,
    common: &Path,
    own: &Path,
) -> Result<(), String> {
    let me = geteuid().as_raw();
    for (name, wanted) in [
        ("HEAD", SFlag::S_IFREG),
        ("objects", SFlag::S_IFDIR),
        ("refs", SFlag::S_IFDIR),
    ] {
        let looked = below::look(repository.as_fd(), OsStr::new(name));
        if !looked.is_ok_and(|stat| below::kind(&stat) == wanted && stat.st_uid == me) {
            return Err(format!(
                "{} is not a repository of the caller",
                common.display()
            ));
        }
    }
    let own_directory = |stat: FileStat| stat.st_uid == me;
    for directory in [repository, part] {
        if !nix::sys::stat::fstat(directory).is_ok_and(own_directory) {
            return Err(format!("{} belongs to another user", own.display()));
        }
    }
    Ok(())
}

/// Returns a mount that the policy does not name, at its path of the host. Without `linked` it is a
/// file.
fn extra_mount(
    policy: &Policy,
    host: &Path,
    access: Access,
    handle: OwnedFd,
    linked: Option<Linked>,
) -> Result<HostMount, String> {
    Ok(HostMount {
        host: host.to_owned(),
        inside: utf8(host)?,
        access,
        // Not at the top, and not linked to from the working directory.
        place: MountPlacement::NestedIn(0),
        is_dir: linked.is_some(),
        handle: handle.into(),
        guards: policy.guards_of_all(),
        is_unguarded: false,
        linked,
        covered: Vec::new(),
        targets: OnceLock::new(),
        overlay: None,
        in_overlay: false,
    })
}

/// Checks that a path of the host is free inside.
fn placeable(policy: &Policy, mounts: &[HostMount], path: &Path) -> Result<(), String> {
    let broad: &[&str] = match policy.system() {
        crate::policy::System::BroadRead => &BROAD,
        crate::policy::System::Minimal | crate::policy::System::None => &["/etc"],
    };
    let own = ["/work", inside_paths::HOME];
    let taken = PROGRAMS
        .iter()
        .chain(broad)
        .chain(&own)
        .any(|one| path.starts_with(one))
        || mounts.iter().any(|mount| path.starts_with(&mount.inside));
    if taken {
        return Err(format!("{} is something else inside", path.display()));
    }
    Ok(())
}

/// Returns the only line of a pointer file.
fn read(directory: &impl AsFd, name: &str) -> Result<String, String> {
    let failed = |what: String| format!("{name} cannot be read: {what}");
    let file = below::file(directory.as_fd(), OsStr::new(name));
    let file: File = file.map_err(|errno| failed(errno.desc().to_owned()))?;
    let mut bytes = Vec::new();
    file.take(MAX_POINTER_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(error.to_string()))?;
    let text = OsString::from_vec(bytes).into_string();
    let text = text.map_err(|_| failed("not UTF-8".to_owned()))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    if line.contains(['\n', '\0']) {
        return Err(failed("more than a line".to_owned()));
    }
    Ok(line.to_owned())
}
