//! Finds the names that a policy protects or hides below the mounts, before a start and once more
//! after the end. The walk follows no links and visits the nearest names first. It needs only names
//! and their kinds, which a directory's listing has, so a file costs no system call of its own. A
//! protected directory is entered too, because a command reads it: hidden names and sockets are in
//! it like anywhere, and its links lead to files that other programs obey. If a directory cannot be
//! examined, the result is [`ScanResult::incomplete`]: then the command is not started, or its
//! output is not passed on.

use super::super::below;
use super::super::git_audit::bare;
use super::super::git_audit::repository::{self, GitDirLocation};
use super::super::host_mount::{HostMount, ObeyedPath};
use super::listings::{Lister, ListingCache};
use super::ready_patterns::{Guards, LastNames};
use super::secrets::Secrets;
use crate::access::Access;
use crate::policy::{Git, GitConfig, Pattern, Policy, UnixSockets};
use crate::quarantine::QUARANTINE;
use nix::errno::Errno;
use nix::sys::stat::SFlag;
use nix::unistd::geteuid;
use rustix::fs::FileType;
use sandbox_names::git;
use sandbox_names::git_index::TrackedFiles;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Bound on the entries of one mount.
const MAX_ENTRIES: usize = 1_000_000;
/// Bound on the directories that are open at a time because the command has closed them.
const MAX_REOPENED: usize = 256;
/// Bound on the names held in one mount; each costs a mount, and a namespace has 100 000.
const MAX_NAMES: usize = 10_000;
/// Bound on the repeated listings of directories whose entries have moved.
const MAX_AGAIN: usize = 1000;
/// Bound on the links that are remembered in one mount.
const MAX_LINKS: usize = 100_000;

/// Protected or hidden name below a mount.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GuardedPath {
    /// Relative to the mount.
    pub(crate) below: PathBuf,
    pub(crate) is_dir: bool,
    pub(crate) hide: bool,
    /// `true` for a directory that cannot be listed: the command must not reach its contents.
    pub(crate) unlisted: bool,
}

/// Result of a walk, and `incomplete` if the walk did not reach everything.
#[derive(Debug, Default)]
pub(crate) struct ScanResult {
    pub(crate) found: Vec<GuardedPath>,
    /// Links with protected names, and links in repositories: a link cannot be mounted over.
    pub(crate) links: Vec<PathBuf>,
    /// Links to protected targets: these, and those below protected names.
    pub(crate) guarded_links: Vec<PathBuf>,
    /// Directories that git recognizes as repositories under any name.
    pub(crate) bare: Vec<PathBuf>,
    /// Local sockets outside of hidden directories.
    sockets: Vec<PathBuf>,
    /// Directories called `.git` that are not protected as a whole.
    pub(crate) repositories: Vec<PathBuf>,
    /// Directories called `.git` that are protected as a whole: the files that they name are
    /// elsewhere.
    whole: Vec<PathBuf>,
    /// Configuration of repositories. It is protected, unless it is judged after the end or when a
    /// layer is applied.
    pub(crate) configs: Vec<PathBuf>,
    /// Protected lists of modules, `.gitmodules`.
    pub(crate) module_lists: Vec<PathBuf>,
    /// Unfinished rebases and similar operations, if the policy lets commands have them.
    pub(crate) states: Vec<PathBuf>,
    /// Files that are protected because a link or a repository's configuration leads to them.
    pub(crate) targets: Vec<ObeyedPath>,
    /// Host paths that links and configuration lead to, possibly in other mounts.
    elsewhere: Vec<(PathBuf, String)>,
    /// Reasons for files among these that cannot be protected.
    pub(crate) unheld: Vec<String>,
    /// Files that are not hidden or protected because git tracks them.
    pub(crate) tracked: Vec<PathBuf>,
    /// The indexes that were read, by the tops of their repositories, with the paths that end in a
    /// hidden name.
    pub(crate) indexes: HashMap<PathBuf, TrackedFiles>,
    /// Indexes of repositories that were not read, and why.
    pub(crate) unread: Vec<String>,
    /// Directories that the caller may not list.
    pub(crate) unlisted: Vec<PathBuf>,
    /// Reason of an incomplete walk.
    pub(crate) incomplete: Option<String>,
    /// `true` if a program moves directories while the walk runs, so that it could have missed one.
    pub(crate) unsettled: bool,
    /// Number of entries.
    pub(crate) entries: usize,
    /// Listings for the next walk.
    pub(crate) memory: ListingCache,
}

/// Directories whose permissions a command removed, opened for a walk. Dropping it restores the
/// permissions.
#[derive(Default)]
pub(crate) struct ReopenedDirs(Vec<(OwnedFd, u32)>);

/// How a command finds the names that a walk found at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// Mounts are over them: it cannot change protected names, nor anything in a hidden directory.
    ByMounts,
    /// As they are.
    ByNothing,
}

/// Walks one mount before a command starts.
pub(crate) fn find(policy: &Policy, mount: &HostMount, held: Held) -> ScanResult {
    // Where no mounts are made, a command can open a directory that its user has closed. Without this
    // look the names in it would be unknown after the end.
    let mut opened = (held == Held::ByNothing).then(ReopenedDirs::default);
    let mut names = find_but(policy, mount, held, &|_, _| false, None, opened.as_mut());
    let own = policy.unix_sockets() == &UnixSockets::Own && !mount.is_unguarded;
    let is_socket = |stat: &nix::sys::stat::FileStat| below::kind(stat) == SFlag::S_IFSOCK;
    if own && !mount.is_dir && nix::sys::stat::fstat(&mount.handle).is_ok_and(|s| is_socket(&s)) {
        names.incomplete = Some(format!("{} is a local socket", mount.inside));
    }
    for socket in std::mem::take(&mut names.sockets) {
        if own {
            names.add(mount, socket, FileType::Socket, true);
        }
    }
    names
}

/// Protects files in writable mounts that other mounts lead to. Returns the mounts that need a
/// second walk for it.
pub(crate) fn follow_between(
    policy: &Policy,
    mounts: &[HostMount],
    names: &[ScanResult],
) -> Vec<usize> {
    if !policy.protects_names() || mounts.len() == 1 {
        return Vec::new();
    }
    let mut elsewhere: Vec<(PathBuf, String)> = Vec::new();
    for (mount, names) in mounts.iter().zip(names) {
        elsewhere.extend(names.elsewhere.iter().cloned());
        // The mount is read-only, so it was not walked; but git executes its configuration.
        if mount.is_dir && !mount.access.contains(Access::WRITE) {
            let git = match mount.linked {
                Some(_) => PathBuf::new(),
                None => PathBuf::from(".git"),
            };
            let links = repository::hook_links(mount, &git);
            elsewhere.extend(repository::link_targets(mount, &links, &[git], &[]).elsewhere);
        }
    }
    let mut again = Vec::new();
    for (index, mount) in mounts.iter().enumerate() {
        if !mount.access.contains(Access::WRITE) {
            continue;
        }
        let below = |path: &Path| {
            let below = path.strip_prefix(&mount.host);
            let below = below.or_else(|_| path.strip_prefix(&mount.inside));
            below.ok().map(Path::to_owned)
        };
        let targets: Vec<ObeyedPath> = elsewhere
            .iter()
            .filter_map(|(path, by)| {
                let below = below(path).filter(|below| !below.as_os_str().is_empty())?;
                let by = by.clone();
                let link = None;
                Some(ObeyedPath { below, by, link })
            })
            .collect();
        if !targets.is_empty() && mount.targets.set(targets).is_ok() {
            again.push(index);
        }
    }
    again
}

/// Walks one mount. `known` (a path, and `true` for a link) names entries that are neither listed
/// nor counted. With the memory of an earlier walk only changed directories are listed. If `opened`
/// is given, directories that the caller owns and cannot list are opened and recorded there.
pub(crate) fn find_but(
    policy: &Policy,
    mount: &HostMount,
    held: Held,
    known: &dyn Fn(&Path, bool) -> bool,
    earlier: Option<&mut ListingCache>,
    mut opened: Option<&mut ReopenedDirs>,
) -> ScanResult {
    let mut names = ScanResult::default();
    let protect: &[Pattern] = if mount.access.contains(Access::WRITE) {
        &mount.guards.protect
    } else {
        &[]
    };
    let hide: &[Pattern] = if mount.access.contains(Access::READ) {
        &mount.guards.hide
    } else {
        &[]
    };
    if !mount.is_dir {
        return names;
    }
    let own_sockets = policy.unix_sockets() == &UnixSockets::Own && !mount.is_unguarded;
    if protect.is_empty() && hide.is_empty() && !own_sockets {
        names.quarantine(mount);
        return names;
    }
    let pointers = policy.git() != Git::Unaware && !protect.is_empty();
    let git_matters = bare::matters(policy, protect);
    let notable = LastNames::new(protect.iter().chain(hide), beside_patterns());
    let (protected_names, hidden_names) = (Guards::new(protect), Guards::new(hide));
    let is_first = earlier.is_none();
    let secrets = Secrets::new(mount, is_first);
    let sealed_look = SealedLook {
        mount,
        hidden: &hidden_names,
        secrets: &secrets,
        is_first,
        git_matters,
    };
    let mut lister = Lister::new(mount, earlier);
    // `true` for a directory in which the command cannot change a name.
    let mut queue = VecDeque::from([(PathBuf::new(), false)]);
    // Directories that are protected as a whole.
    let mut sealed_dirs: Vec<PathBuf> = Vec::new();
    let mut followed: HashSet<PathBuf> = HashSet::new();
    let mut again = 0usize;
    let mut guarded_links: Vec<PathBuf> = Vec::new();
    let mut attributes: Vec<PathBuf> = Vec::new();
    loop {
        let Some((below, sealed)) = queue.pop_front() else {
            // Links and configuration lead to further directories, which have links of their own.
            let links = std::mem::take(&mut guarded_links);
            if protect.is_empty() || names.incomplete.is_some() {
                break;
            }
            names.guarded_links.extend(links.iter().cloned());
            let mut targets = names.follow(mount, &links, &attributes, &mut followed, known);
            targets.retain(|target| !sealed_dirs.iter().any(|top| target.starts_with(top)));
            if targets.is_empty() {
                break;
            }
            sealed_dirs.extend(targets.iter().cloned());
            queue.extend(targets.into_iter().map(|target| (target, true)));
            continue;
        };
        if lister.is_due() {
            let pending = std::iter::once(&below).chain(queue.iter().map(|(path, _)| path));
            lister.list_ahead(pending, &|name| notable.may_have(name));
        }
        let in_git = mount.linked.is_some() || below.iter().any(|name| name == ".git");
        let part = git_matters && (mount.linked.is_some() || bare::is_part(&below, &names.bare));
        let place = git_matters.then(|| GitDirLocation::of(mount, &below, &names.bare));
        let place = place.flatten();
        // `true` if every name in the directory has a meaning.
        let whole = !sealed && (in_git || part || place.is_some());
        let mut list = |below: &Path| lister.list(below, whole, &|name| notable.may_have(name));
        let listed = match list(&below) {
            Err(Errno::EACCES | Errno::EPERM) if !known(&below, false) => match &mut opened {
                Some(opened) => opened.open(mount, &below).and_then(|()| list(&below)),
                None => Err(Errno::EACCES),
            },
            listed => listed,
        };
        let listing = match listed {
            Ok(listing) => listing,
            Err(errno) if moved(errno) && !below.as_os_str().is_empty() => {
                // The directory has moved, possibly to a place that the walk has passed, so its
                // parent is listed again.
                lister.forget_ahead();
                again += 1;
                if again > MAX_AGAIN {
                    names.unsettled = true;
                    break;
                }
                let around = below.parent().unwrap_or(Path::new("")).to_owned();
                queue.retain(|(path, _)| path.parent() != Some(&around));
                let sealed = sealed_dirs.iter().any(|top| around.starts_with(top));
                queue.push_back((around, sealed));
                continue;
            }
            Err(Errno::EACCES | Errno::EPERM) => {
                // A command that may not list it could still change its permissions, or know its
                // contents.
                if opens(mount, &below) {
                    if below.as_os_str().is_empty() {
                        names.incomplete = Some(format!("{} cannot be listed", mount.inside));
                        break;
                    }
                    names.found.push(GuardedPath {
                        below: below.clone(),
                        is_dir: true,
                        hide: true,
                        unlisted: true,
                    });
                }
                names.unlisted.push(below);
                continue;
            }
            Err(errno) => {
                let place = short(&mount.shown(&below));
                names.incomplete = Some(format!("{place} cannot be listed: {}", errno.desc()));
                break;
            }
        };
        names.entries = names.entries.saturating_add(listing.count);
        if names.entries > MAX_ENTRIES {
            names.incomplete = Some(format!(
                "{} has more than {MAX_ENTRIES} files and directories",
                mount.inside
            ));
            break;
        }
        let named = mount.named(&below);
        let top = below.as_os_str().is_empty();
        // The names are those of branches, which are arbitrary.
        let data = mount.linked.as_ref().is_some_and(|one| one.is_data(&below));
        let among_modules = place.as_ref().is_some_and(|place| place.among_modules);
        let is_seen = |entry: &&(OsString, FileType)| {
            mount.covered.is_empty() || !mount.is_covered(&below.join(&entry.0))
        };
        let entries = listing.entries.iter().filter(is_seen);
        for (name, kind) in entries.clone() {
            let kind = *kind;
            if sealed {
                let at = (&*below, &*named);
                let inner = sealed_look.entry(&mut names, &mut guarded_links, at, (name, kind));
                queue.extend(inner.map(|inner| (inner, true)));
                continue;
            }
            let is_config = |place: &GitDirLocation| {
                // Among modules it makes its directory one.
                let of_module = place.among_modules && name == "config";
                kind.is_file() && (place.is_config(name) || of_module)
            };
            let is_config = in_git && place.as_ref().is_some_and(is_config);
            let is_loose = match policy.git_config() {
                GitConfig::Kept => false,
                GitConfig::Judged => mount.is_layered(),
                GitConfig::JudgedAfter => true,
            };
            if is_config && is_loose {
                names.configs.push(below.join(name));
                continue;
            }
            let own = top && name == QUARANTINE;
            let foreign = mount
                .linked
                .as_ref()
                .is_some_and(|one| one.foreign(&below, name));
            let candidate = secrets.candidate(&below, name, kind);
            let holds = |pattern: &Pattern| candidate.is_held_by(pattern);
            let hidden = own || hidden_names.has(&named, name, &holds);
            let pointer = pointers && name == ".git" && !kind.is_dir();
            let link = part && kind.is_symlink();
            let kept = place
                .as_ref()
                .is_some_and(|place| place.keeps(policy, name));
            let protected = pointer || foreign || kept || protected_names.has(&named, name, &holds);
            if candidate.is_spared() {
                names.tracked.push(below.join(name));
            }
            let guarded = hidden || protected;
            if protected && !hidden {
                if is_config {
                    names.configs.push(below.join(name));
                } else if name == ".gitmodules" && kind.is_file() && !in_git {
                    names.module_lists.push(below.join(name));
                }
            }
            // Links to another repository are excepted: repositories are recognized by their
            // contents.
            if protected && !data && kind.is_symlink() && name != ".git" {
                guarded_links.push(below.join(name));
            }
            if name == ".gitattributes" && kind.is_file() {
                attributes.push(below.join(name));
            }
            if place
                .as_ref()
                .is_some_and(|place| place.is_state(policy, name))
            {
                names.states.push(below.join(name));
            }
            if link || guarded && !data {
                let path = below.join(name);
                let is_covered = held == Held::ByMounts && (is_first || known(&path, false));
                if kind.is_dir() && hidden && !is_covered {
                    // The command can make a repository in it.
                    queue.push_back((path.clone(), false));
                }
                if name == ".git" && kind.is_dir() {
                    names.whole.push(path.clone());
                }
                if kind.is_dir() && !hidden {
                    sealed_dirs.push(path.clone());
                    queue.push_back((path.clone(), true));
                }
                if !known(&path, kind.is_symlink()) {
                    let is_open = || own_sockets && kind == FileType::Socket;
                    let closed = hidden || is_open() && !is_placeholder(mount, &path);
                    names.add(mount, path, kind, closed);
                }
            } else if kind == FileType::Socket {
                names.sockets.push(below.join(name));
            } else if kind.is_dir() {
                let path = below.join(name);
                if name == ".git" {
                    names.repositories.push(path.clone());
                }
                // The directory of this scan is the scan's own.
                if below != Path::new(QUARANTINE) || !known(&path, false) {
                    queue.push_back((path, false));
                }
            }
        }
        let is_sealed = sealed && held == Held::ByMounts;
        let is_content = place.as_ref().is_some_and(GitDirLocation::is_content);
        let may_be_git_dir =
            git_matters && (!in_git || among_modules || is_content || sealed != is_sealed);
        let parts = may_be_git_dir.then(|| bare::parts_of_git_dir(policy, among_modules, entries));
        let parts = parts.flatten();
        if is_sealed && parts.is_some() {
            names.whole.push(below);
        } else if let Some(parts) = parts {
            for (name, kind) in parts {
                let path = below.join(&name);
                if names.configs.contains(&path) {
                    continue;
                }
                if repository::is_state(&name) && policy.git() == Git::Commit {
                    names.states.push(path);
                    continue;
                }
                let queued = queue.iter_mut().rev().take(listing.entries.len());
                for (_, sealed) in queued.filter(|(below, _)| *below == path) {
                    *sealed = true;
                    sealed_dirs.push(path.clone());
                }
                if is_first && held == Held::ByMounts && name == "config" && kind.is_file() {
                    names.configs.push(path.clone());
                }
                if !known(&path, kind.is_symlink()) {
                    names.add(mount, path, kind, false);
                }
            }
            names.bare.push(below);
        }
        if names.incomplete.is_some() {
            break;
        }
    }
    names.memory = lister.memory;
    (names.indexes, names.unread) = secrets.into_indexes();
    if again > 0 || !names.bare.is_empty() || !names.targets.is_empty() {
        let mut once = HashSet::new();
        names.found.retain(|found| once.insert(found.below.clone()));
        names.sockets.retain(|socket| once.insert(socket.clone()));
        names.links.retain(|link| once.insert(link.clone()));
        names.repositories.retain(|git| once.insert(git.clone()));
        let mut once = HashSet::new();
        names.bare.retain(|git| once.insert(git.clone()));
    }
    names
}

/// The walk through directories in which a command cannot change a name, but reads.
struct SealedLook<'a> {
    mount: &'a HostMount,
    hidden: &'a Guards<'a>,
    secrets: &'a Secrets<'a>,
    /// `false` after the end of the command: then no name here is its own.
    is_first: bool,
    git_matters: bool,
}

impl SealedLook<'_> {
    /// Examines a name in the directory `below`, which patterns call `named`. Returns the path of a
    /// directory to enter.
    fn entry(
        &self,
        names: &mut ScanResult,
        links: &mut Vec<PathBuf>,
        (below, named): (&Path, &Path),
        (name, kind): (&OsStr, FileType),
    ) -> Option<PathBuf> {
        let path = below.join(name);
        let candidate = self.secrets.candidate(below, name, kind);
        let holds = |pattern: &Pattern| candidate.is_held_by(pattern);
        if kind.is_symlink() {
            if links.len() >= MAX_LINKS {
                names.incomplete = Some(format!(
                    "{} has more than {MAX_LINKS} links in protected directories",
                    self.mount.inside
                ));
            } else if name != ".git" {
                links.push(path);
            }
        } else if self.hidden.has(named, name, &holds) {
            if self.is_first {
                names.add(self.mount, path, kind, true);
            }
        } else if kind == FileType::Socket {
            names.sockets.push(path);
        } else if kind.is_dir() {
            if self.git_matters && name == ".git" {
                names.whole.push(path.clone());
            }
            return Some(path);
        }
        None
    }
}

/// Returns the names outside of repositories that are relevant whatever the patterns are: git
/// recognizes repositories by them, or executes and obeys them there.
fn beside_patterns() -> impl Iterator<Item = &'static str> {
    let told = ["HEAD", "objects", "refs", "commondir"];
    let own = [".git", ".gitattributes", QUARANTINE];
    let own = own.into_iter().chain(told);
    own.chain(git::OBEYED).chain(git::STATE)
}

/// Shortens a very long path to its beginning and its end.
fn short(path: &str) -> String {
    const EACH: usize = 80;
    let count = path.chars().count();
    if count <= 2 * EACH {
        return path.to_owned();
    }
    let first: String = path.chars().take(EACH).collect();
    let last: String = path.chars().skip(count - EACH).collect();
    format!("{first}…{last}")
}

impl ReopenedDirs {
    /// Gives the caller, if it is the owner, permission to list and enter a directory.
    fn open(&mut self, mount: &HostMount, below: &Path) -> Result<(), Errno> {
        if self.0.len() >= MAX_REOPENED {
            return Err(Errno::EMFILE);
        }
        // That of the mount may not be entered itself.
        let directory = match below.as_os_str().is_empty() {
            true => mount
                .handle
                .as_fd()
                .try_clone_to_owned()
                .map_err(|error| below::errno(&error)),
            false => below::directory(mount.handle.as_fd(), below),
        }?;
        let stat = nix::sys::stat::fstat(&directory)?;
        if stat.st_uid != geteuid().as_raw() {
            return Err(Errno::EACCES);
        }
        let mode = stat.st_mode & 0o7777;
        // A read-only mount forbids it.
        below::set_mode(directory.as_fd(), mode | 0o700).map_err(|_| Errno::EACCES)?;
        self.0.push((directory, mode));
        Ok(())
    }
}

impl Drop for ReopenedDirs {
    fn drop(&mut self) {
        // The innermost first: the descriptors do not need the path, but an error may show it.
        for (directory, mode) in self.0.drain(..).rev() {
            // The directory belongs to the command, whose user can open it permanently.
            let _ = below::set_mode(directory.as_fd(), mode);
        }
    }
}

/// Returns `true` if an errno says that a directory has moved or is a link now.
fn moved(errno: Errno) -> bool {
    matches!(errno, Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP)
}

/// Returns `true` for a socket to which no process connects: a placeholder of another run.
fn is_placeholder(mount: &HostMount, below: &Path) -> bool {
    let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
        return false;
    };
    below::directory(mount.handle.as_fd(), parent)
        .and_then(|parent| below::look(parent.as_fd(), name))
        .is_ok_and(|stat| stat.st_mode & 0o7777 == 0)
}

/// Returns `true` if a command could reach the contents of an unlisted directory: its owner can
/// list it, and a user who may enter it can know the names in it.
fn opens(mount: &HostMount, below: &Path) -> bool {
    let looked = match (below.parent(), below.file_name()) {
        (Some(parent), Some(name)) => below::directory(mount.handle.as_fd(), parent)
            .and_then(|parent| below::look(parent.as_fd(), name)),
        _ => nix::sys::stat::fstat(&mount.handle),
    };
    looked.is_ok_and(|stat| stat.st_uid == geteuid().as_raw() || stat.st_mode & 0o011 != 0)
}

impl GuardedPath {
    /// Returns `true` if one of these directories is around it.
    pub(crate) fn is_in(&self, directories: &HashSet<&Path>) -> bool {
        let mut around = self.below.ancestors().skip(1);
        around.any(|directory| directories.contains(directory))
    }
}

impl ScanResult {
    /// Returns the protected directories that a command can read.
    pub(crate) fn sealed(&self) -> HashSet<&Path> {
        let sealed = self
            .found
            .iter()
            .filter(|found| found.is_dir && !found.hide);
        sealed.map(|found| found.below.as_path()).collect()
    }

    /// Adds the files that links and the configuration of repositories lead to. Returns those that
    /// are directories, except below a name that was found. `followed` has the repositories of
    /// earlier calls.
    fn follow(
        &mut self,
        mount: &HostMount,
        links: &[PathBuf],
        attributes: &[PathBuf],
        followed: &mut HashSet<PathBuf>,
        known: &dyn Fn(&Path, bool) -> bool,
    ) -> Vec<PathBuf> {
        let git: Vec<PathBuf> = (self.repositories.iter())
            .chain(&self.bare)
            .chain(&self.whole)
            .cloned()
            .collect();
        let git = match mount.linked {
            Some(_) => vec![PathBuf::new()],
            None => git,
        };
        let git = git.into_iter().filter(|git| followed.insert(git.clone()));
        let git: Vec<PathBuf> = git.collect();
        let from = repository::link_targets(mount, links, &git, attributes);
        self.unheld.extend(from.unheld);
        self.elsewhere.extend(from.elsewhere);
        let mut directories = Vec::new();
        let found = self.found.iter().map(|found| found.below.clone());
        let mut covered: HashSet<PathBuf> = found.collect();
        // Once.
        let by_others = mount.targets.get().filter(|_| self.targets.is_empty());
        let by_others = by_others.into_iter().flatten().cloned();
        for one in from.targets.into_iter().chain(by_others) {
            if !one.below.ancestors().any(|around| covered.contains(around))
                && let (Some(parent), Some(name)) = (one.below.parent(), one.below.file_name())
                && let Ok(stat) = below::directory(mount.handle.as_fd(), parent)
                    .and_then(|parent| below::look(parent.as_fd(), name))
            {
                let kind = FileType::from_raw_mode(stat.st_mode);
                if kind.is_dir() {
                    directories.push(one.below.clone());
                }
                if !known(&one.below, false) {
                    self.add(mount, one.below.clone(), kind, false);
                    covered.insert(one.below.clone());
                }
            }
            self.targets.push(one);
        }
        directories
    }

    fn add(&mut self, mount: &HostMount, below: PathBuf, kind: FileType, hide: bool) {
        let (list, bound) = match kind.is_symlink() {
            true => (self.links.len(), MAX_LINKS),
            false => (self.found.len(), MAX_NAMES),
        };
        if list >= bound {
            self.incomplete = Some(format!(
                "{} has more than {bound} {}",
                mount.inside,
                match kind.is_symlink() {
                    true => "links in repositories or with protected names",
                    false => "protected and hidden names",
                }
            ));
        } else if kind.is_symlink() {
            self.links.push(below);
        } else {
            self.found.push(GuardedPath {
                below,
                is_dir: kind.is_dir(),
                hide,
                unlisted: false,
            });
        }
    }

    /// Adds the quarantine, the only name that is guarded without patterns and a walk.
    fn quarantine(&mut self, mount: &HostMount) {
        let looked = below::look(mount.handle.as_fd(), OsStr::new(QUARANTINE));
        let there = looked.is_ok_and(|stat| below::kind(&stat) == SFlag::S_IFDIR);
        if there && mount.access.contains(Access::READ) {
            self.found.push(GuardedPath {
                below: PathBuf::from(QUARANTINE),
                is_dir: true,
                hide: true,
                unlisted: false,
            });
        }
    }
}
