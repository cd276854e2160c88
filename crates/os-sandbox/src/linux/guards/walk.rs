//! Finds the names that a policy protects or hides below the mounts, before a start and once more
//! after the end. The walk follows no links and visits the nearest names first. It needs only names
//! and their kinds, which a directory's listing has, so a file costs no system call of its own. A
//! protected directory is entered too, because a command reads it: hidden names and sockets are in
//! it like anywhere, and its links lead to files that other programs obey. If a directory cannot be
//! examined, the result is [`ScanResult::incomplete`]: then the command is not started, or its
//! output is not passed on.

use super::super::below;
use super::super::git_audit::bare;
use super::super::git_audit::fresh;
use super::super::git_audit::pointer::Pointer;
use super::super::git_audit::repository::{self, GitDirLocation};
use super::super::host_mount::{HostMount, ObeyedPath};
use super::listings::{CachedListing, Lister, ListingCache};
use super::names::{GuardedPath, Held, MAX_LINKS, ScanResult};
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
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bound on the entries of one mount.
pub(super) const MAX_ENTRIES: usize = 1_000_000;
/// Bound on the directories that are open at a time because the command has closed them.
const MAX_REOPENED: usize = 256;
/// Bound on a path that a person is to type.
const MAX_SHOWN_BYTES: usize = 160;
/// Bound on the repeated listings of directories whose entries have moved.
const MAX_AGAIN: usize = 1000;

/// Directories whose permissions a command removed, opened for a walk. Dropping it restores the
/// permissions.
#[derive(Default)]
pub(crate) struct ReopenedDirs(Vec<(OwnedFd, u32)>);

/// Walks one mount before a command starts.
pub(crate) fn find(policy: &Policy, mount: &HostMount, held: Held) -> ScanResult {
    // Without mounts a command can open a directory that its user has closed. Unless the walk enters it
    // now, the names in it are unknown after the end.
    let mut opened = (held == Held::ByNothing).then(ReopenedDirs::default);
    let mut names = find_new(policy, mount, held, None, opened.as_mut());
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
            let pointers: Vec<Pointer> = Pointer::read(mount, &git).into_iter().collect();
            let from = repository::link_targets(mount, &links, &[git], &pointers, &[]);
            elsewhere.extend(from.elsewhere);
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

/// Returns `true` for a path (and `true` for a link) that is neither listed nor counted again.
type KnownNames<'a> = &'a dyn Fn(&Path, bool) -> bool;

/// Results of an earlier walk of the mount.
pub(super) struct EarlierWalk<'a> {
    pub(super) known: KnownNames<'a>,
    /// Only directories that have changed since are listed again.
    pub(super) listings: &'a mut ListingCache,
}

/// Walks one mount, for the names that an earlier walk does not know. If `opened` is given,
/// directories that the caller owns and cannot list are opened and recorded there.
pub(super) fn find_new(
    policy: &Policy,
    mount: &HostMount,
    held: Held,
    earlier: Option<EarlierWalk<'_>>,
    opened: Option<&mut ReopenedDirs>,
) -> ScanResult {
    if !mount.is_dir {
        return ScanResult::default();
    }
    let (known, listings) = earlier.map(|one| (one.known, one.listings)).unzip();
    let Some(rules) = WalkRules::new(policy, mount, held, known) else {
        return quarantine_of(mount);
    };
    let notable = &rules.notable;
    let matters = |name: &[u8]| notable.may_have(name);
    let walk = MountWalk {
        rules: &rules,
        lister: Lister::new(mount, listings, &matters),
        opened,
        names: ScanResult::default(),
        queue: VecDeque::from([QueuedDir::default()]),
        sealed_dirs: Vec::new(),
        followed: HashSet::new(),
        parts: HashMap::new(),
        repeated: 0,
        guarded_links: Vec::new(),
        pointers: Vec::new(),
        attributes: Vec::new(),
    };
    let mut names = walk.run();
    (names.indexes, names.unread) = rules.secrets.into_indexes();
    names
}

/// Returns the quarantine, the only name that is guarded without patterns and a walk.
fn quarantine_of(mount: &HostMount) -> ScanResult {
    let looked = below::look(mount.handle.as_fd(), OsStr::new(QUARANTINE));
    let there = looked.is_ok_and(|stat| below::kind(&stat) == SFlag::S_IFDIR);
    let mut names = ScanResult::default();
    if there && mount.access.contains(Access::READ) {
        names.add(mount, QUARANTINE.into(), FileType::Directory, true);
    }
    names
}

/// The rules for the names in a mount during one walk.
struct WalkRules<'a> {
    policy: &'a Policy,
    mount: &'a HostMount,
    held: Held,
    /// The names of an earlier walk. `None` before the command starts: later, no new name is a
    /// person's.
    known: Option<KnownNames<'a>>,
    protects: bool,
    /// `true` if commands have only the local sockets that they make themselves.
    own_sockets: bool,
    git_matters: bool,
    notable: LastNames,
    protected: Guards<'a>,
    hidden: Guards<'a>,
    secrets: Secrets<'a>,
}

/// How a name is guarded.
struct EntryGuard {
    hidden: bool,
    protected: bool,
    /// `true` if it is not guarded, or less, because git tracks it.
    is_spared: bool,
}

impl<'a> WalkRules<'a> {
    /// Returns `None` if no name in the mount can be guarded, except for the quarantine.
    fn new(
        policy: &'a Policy,
        mount: &'a HostMount,
        held: Held,
        known: Option<KnownNames<'a>>,
    ) -> Option<WalkRules<'a>> {
        let applicable = |patterns: &'a [Pattern], access| match mount.access.contains(access) {
            true => patterns,
            false => &[],
        };
        let protect = applicable(&mount.guards.protect, Access::WRITE);
        let hide = applicable(&mount.guards.hide, Access::READ);
        let own_sockets = policy.unix_sockets() == &UnixSockets::Own && !mount.is_unguarded;
        if protect.is_empty() && hide.is_empty() && !own_sockets {
            return None;
        }
        Some(WalkRules {
            policy,
            mount,
            held,
            known,
            protects: !protect.is_empty(),
            own_sockets,
            git_matters: bare::matters(policy, protect),
            notable: LastNames::new(protect.iter().chain(hide), beside_patterns()),
            protected: Guards::new(protect),
            hidden: Guards::new(hide),
            secrets: Secrets::new(mount, known.is_none()),
        })
    }

    fn is_first(&self) -> bool {
        self.known.is_none()
    }

    fn is_known(&self, path: &Path, is_link: bool) -> bool {
        self.known.is_some_and(|known| known(path, is_link))
    }

    /// Returns `true` if configuration of repositories is judged later, not protected.
    fn judges_config(&self) -> bool {
        match self.policy.git_config() {
            GitConfig::Kept => false,
            GitConfig::Judged => self.mount.is_layered(),
            GitConfig::JudgedAfter => true,
        }
    }

    /// Returns `true` if the files of a repository are those of another mount.
    fn keeps_tree(&self, git: &Path) -> bool {
        let directory = below::directory(self.mount.handle.as_fd(), git);
        let trees = self.policy.working_trees(&self.mount.host);
        directory.is_ok_and(|git| fresh::leads_to_tree(git.as_fd(), OsStr::new("config"), &trees))
    }

    fn guard_of(&self, entry: WalkEntry<'_>) -> EntryGuard {
        let WalkEntry { dir, name, kind } = entry;
        let candidate = self.secrets.candidate(&dir.below, name, kind);
        let holds = |pattern: &Pattern| candidate.is_held_by(pattern);
        let own = dir.is_top() && name == QUARANTINE;
        let hidden = own || self.hidden.has(&dir.named, name, &holds);
        let pointer =
            self.protects && self.policy.git() != Git::Unaware && name == ".git" && !kind.is_dir();
        let linked = self.mount.linked.as_ref();
        let protected = pointer
            || linked.is_some_and(|linked| linked.foreign(&dir.below, name))
            || (dir.location.as_ref()).is_some_and(|place| place.keeps(self.policy, name))
            || self.protected.has(&dir.named, name, &holds);
        EntryGuard {
            hidden,
            protected,
            is_spared: candidate.is_spared(),
        }
    }
}

/// A directory that the walk will visit.
#[derive(Default)]
struct QueuedDir {
    below: PathBuf,
    /// `true` if the command cannot change a name in it.
    sealed: bool,
}

/// A directory that is visited, and its place in repositories.
struct VisitedDir {
    below: PathBuf,
    /// Its path as patterns have it.
    named: PathBuf,
    sealed: bool,
    /// `true` for a git directory, and everything below one.
    in_git: bool,
    /// `true` if git follows links in it when it writes.
    is_written: bool,
    /// `true` if its names are those of branches, which are arbitrary.
    is_data: bool,
    location: Option<GitDirLocation>,
}

impl VisitedDir {
    fn new(rules: &WalkRules<'_>, bare: &[PathBuf], dir: QueuedDir) -> VisitedDir {
        let QueuedDir { below, sealed } = dir;
        let (mount, linked) = (rules.mount, rules.mount.linked.as_ref());
        let location = || GitDirLocation::of(mount, &below, bare);
        VisitedDir {
            named: mount.named(&below),
            sealed,
            in_git: linked.is_some() || below.iter().any(|name| name == ".git"),
            is_written: rules.git_matters && (linked.is_some() || bare::is_part(&below, bare)),
            is_data: linked.is_some_and(|one| one.is_data(&below)),
            location: rules.git_matters.then(location).flatten(),
            below,
        }
    }

    fn is_top(&self) -> bool {
        self.below.as_os_str().is_empty()
    }

    /// Returns `true` if every name in the directory has a meaning.
    fn is_whole(&self) -> bool {
        !self.sealed && (self.in_git || self.is_written || self.location.is_some())
    }

    fn is_among_modules(&self) -> bool {
        (self.location.as_ref()).is_some_and(|location| location.among_modules)
    }

    /// Returns the names that git obeys in the directory if git recognizes it as a repository under
    /// any name.
    fn git_dir_parts<'e>(
        &self,
        rules: &WalkRules<'_>,
        entries: impl Iterator<Item = &'e (OsString, FileType)> + Clone,
    ) -> Option<Vec<(OsString, FileType)>> {
        let is_content = (self.location.as_ref()).is_some_and(GitDirLocation::is_content);
        let is_changed = self.sealed && rules.held == Held::ByNothing;
        let among_modules = self.is_among_modules();
        let may_be = !self.in_git || among_modules || is_content || is_changed;
        (rules.git_matters && may_be)
            .then(|| bare::parts_of_git_dir(rules.policy, among_modules, entries))
            .flatten()
    }
}

/// A name in a visited directory.
#[derive(Clone, Copy)]
struct WalkEntry<'d> {
    dir: &'d VisitedDir,
    name: &'d OsStr,
    kind: FileType,
}

impl WalkEntry<'_> {
    fn path(&self) -> PathBuf {
        self.dir.below.join(self.name)
    }

    /// Returns `true` for the configuration of a repository.
    fn is_config(&self) -> bool {
        let is_config = |place: &GitDirLocation| {
            // Among modules it makes its directory one.
            place.is_config(self.name) || place.among_modules && self.name == "config"
        };
        self.dir.in_git && self.kind.is_file() && self.dir.location.as_ref().is_some_and(is_config)
    }
}

/// A walk through one mount.
struct MountWalk<'r> {
    rules: &'r WalkRules<'r>,
    lister: Lister<'r>,
    opened: Option<&'r mut ReopenedDirs>,
    names: ScanResult,
    queue: VecDeque<QueuedDir>,
    /// Directories that are protected as a whole.
    sealed_dirs: Vec<PathBuf>,
    /// Repositories whose configuration was followed.
    followed: HashSet<PathBuf>,
    /// The number of entries in each directory at the top.
    parts: HashMap<PathBuf, usize>,
    /// Number of repeated listings.
    repeated: usize,
    /// Links that have not been followed yet.
    guarded_links: Vec<PathBuf>,
    /// Files and links called `.git` that have not been followed yet.
    pointers: Vec<PathBuf>,
    /// Files of attributes.
    attributes: Vec<PathBuf>,
}

impl MountWalk<'_> {
    fn run(mut self) -> ScanResult {
        while self.names.incomplete.is_none() && !self.names.unsettled {
            if self.queue.is_empty() {
                self.follow();
            }
            let Some(dir) = self.queue.pop_front() else {
                break;
            };
            self.visit(dir);
        }
        let mut names = self.names;
        names.memory = self.lister.memory;
        if self.repeated > 0 || !names.bare.is_empty() || !names.targets.is_empty() {
            names.remove_duplicates();
        }
        names
    }

    fn visit(&mut self, dir: QueuedDir) {
        let rules = self.rules;
        if self.lister.is_due() {
            let pending = std::iter::once(&dir).chain(&self.queue);
            self.lister.list_ahead(pending.map(|dir| &dir.below));
        }
        let dir = VisitedDir::new(rules, &self.names.bare, dir);
        let listing = match self.list(&dir) {
            Ok(listing) => listing,
            Err(errno) => return self.pass_unlisted(dir, errno),
        };
        self.names.entries = self.names.entries.saturating_add(listing.count);
        let part: PathBuf = dir.below.iter().take(1).collect();
        *self.parts.entry(part).or_default() += listing.count;
        if self.names.entries > MAX_ENTRIES {
            let most = self.parts.iter().max_by_key(|(_, count)| **count);
            let most = most.map(|(part, _)| rules.mount.shown(part));
            self.names.incomplete = Some(format!(
                "{} has more than {MAX_ENTRIES} files and directories, most of them in {}",
                rules.mount.inside,
                most.unwrap_or_default()
            ));
            return;
        }
        let is_seen = |entry: &&(OsString, FileType)| {
            rules.mount.covered.is_empty() || !rules.mount.is_covered(&dir.below.join(&entry.0))
        };
        let entries = listing.entries.iter().filter(is_seen);
        for (name, kind) in entries.clone() {
            let (dir, kind) = (&dir, *kind);
            let entry = WalkEntry { dir, name, kind };
            match dir.sealed {
                true => self.examine_sealed(entry),
                false => self.examine(entry),
            }
        }
        if let Some(parts) = dir.git_dir_parts(rules, entries) {
            self.protect_git_dir(dir, parts, listing.entries.len());
        }
    }

    fn list(&mut self, dir: &VisitedDir) -> Result<Arc<CachedListing>, Errno> {
        let (rules, below) = (self.rules, &*dir.below);
        let whole = dir.is_whole() || dir.sealed && rules.held == Held::ByNothing;
        match self.lister.list(below, whole) {
            // Without mounts the walk before the command opened it too.
            Err(Errno::EACCES | Errno::EPERM)
                if rules.held == Held::ByNothing || !rules.is_known(below, false) =>
            {
                let opened = self.opened.as_mut().ok_or(Errno::EACCES)?;
                opened.open(rules.mount, below)?;
                self.lister.list(below, whole)
            }
            listed => listed,
        }
    }

    /// Decides how the walk continues after a directory that it cannot list.
    fn pass_unlisted(&mut self, dir: VisitedDir, errno: Errno) {
        let mount = self.rules.mount;
        match errno {
            errno if moved(errno) && !dir.is_top() => self.list_parent_again(&dir.below),
            Errno::EACCES | Errno::EPERM => {
                // A command that may not list it could still change its permissions, or know its
                // contents.
                let is_open = opens(mount, &dir.below);
                if is_open && dir.is_top() {
                    let reason = format!("{} cannot be listed", mount.inside);
                    self.names.incomplete = Some(reason);
                } else if is_open {
                    self.names.found.push(GuardedPath {
                        below: dir.below.clone(),
                        is_dir: true,
                        hide: true,
                        unlisted: true,
                    });
                }
                self.names.unlisted.push(dir.below);
            }
            Errno::ENAMETOOLONG => {
                let top = mount.shown(&self.top_of_chain(dir.below));
                self.names.incomplete = Some(format!(
                    "the directories in {top} are too deep, and cannot be listed: look at it, and \
                     remove it (rm -r)"
                ));
            }
            errno => {
                let place = short(&mount.shown(&dir.below));
                let reason = format!("{place} cannot be listed: {}", errno.desc());
                self.names.incomplete = Some(reason);
            }
        }
    }

    /// Returns the directory around a very deep one that a person can look at: the top of a chain of
    /// directories with nothing else in them, or one above it with a short path.
    fn top_of_chain(&mut self, mut top: PathBuf) -> PathBuf {
        while let Some(around) = top.parent().filter(|around| *around != Path::new("")) {
            let listed = self.lister.list(around, false);
            let is_alone = listed.is_ok_and(|listing| listing.count == 1);
            if !is_alone && top.as_os_str().len() <= MAX_SHOWN_BYTES {
                break;
            }
            top = around.to_owned();
        }
        top
    }

    /// Lists the parent of a directory that has moved, possibly to a place that the walk has passed.
    fn list_parent_again(&mut self, below: &Path) {
        self.lister.forget_ahead();
        self.repeated += 1;
        if self.repeated > MAX_AGAIN {
            self.names.unsettled = true;
            return;
        }
        let around = below.parent().unwrap_or(Path::new("")).to_owned();
        self.queue.retain(|dir| dir.below.parent() != Some(&around));
        let sealed = self.is_sealed(&around);
        self.enter(around, sealed);
    }

    fn enter(&mut self, below: PathBuf, sealed: bool) {
        self.queue.push_back(QueuedDir { below, sealed });
    }

    /// Enters a directory that is protected as a whole.
    fn enter_sealed(&mut self, below: PathBuf) {
        self.sealed_dirs.push(below.clone());
        self.enter(below, true);
    }

    fn is_sealed(&self, below: &Path) -> bool {
        self.sealed_dirs.iter().any(|top| below.starts_with(top))
    }

    /// Examines a name in a directory that is protected as a whole: the command reads it, and
    /// changes names in it only if nothing is mounted over it.
    fn examine_sealed(&mut self, entry: WalkEntry<'_>) {
        let (rules, WalkEntry { dir, name, kind }) = (self.rules, entry);
        let path = entry.path();
        if rules.held == Held::ByNothing && !rules.is_known(&path, false) {
            self.names.add_within(&path);
        }
        let candidate = rules.secrets.candidate(&dir.below, name, kind);
        let holds = |pattern: &Pattern| candidate.is_held_by(pattern);
        if kind.is_symlink() {
            if rules.is_first() && rules.hidden.has(&dir.named, name, &holds) {
                self.names.hidden_links.push(path.clone());
            }
            if self.guarded_links.len() >= MAX_LINKS {
                self.names.incomplete = Some(format!(
                    "{} has more than {MAX_LINKS} links in protected directories",
                    rules.mount.inside
                ));
            } else if name != ".git" {
                self.guarded_links.push(path);
            }
        } else if rules.hidden.has(&dir.named, name, &holds) {
            // After the end of the command no name here is its own.
            if rules.is_first() {
                self.names.add(rules.mount, path, kind, true);
            }
        } else if kind == FileType::Socket {
            self.names.sockets.push(path);
        } else if kind.is_dir() {
            if rules.git_matters && name == ".git" {
                self.names.whole.push(path.clone());
            }
            self.enter(path, true);
        }
    }

    /// Examines a name in a directory in which the command can change names.
    fn examine(&mut self, entry: WalkEntry<'_>) {
        let (rules, WalkEntry { dir, name, kind }) = (self.rules, entry);
        if entry.is_config() && rules.judges_config() {
            self.names.configs.push(entry.path());
            return;
        }
        let guard = rules.guard_of(entry);
        self.note_for_git(entry, &guard);
        if guard.hidden && kind.is_symlink() && rules.is_first() {
            self.names.hidden_links.push(entry.path());
        }
        let is_link_of_git = dir.is_written && kind.is_symlink();
        if is_link_of_git || (guard.hidden || guard.protected) && !dir.is_data {
            self.guard(entry, guard.hidden);
        } else if kind.is_symlink() && name != ".git" {
            // Before a command, only those that are compared after its end.
            if !rules.is_first() || rules.mount.guards.links_stay {
                self.names.plain_links.push(entry.path());
            }
        } else if kind == FileType::Socket {
            self.names.sockets.push(entry.path());
        } else if kind.is_dir() {
            let path = entry.path();
            if name == ".git" {
                self.names.repositories.push(path.clone());
            }
            // The directory of this scan is the scan's own.
            if dir.below != Path::new(QUARANTINE) || !rules.is_known(&path, false) {
                self.enter(path, false);
            }
        }
    }

    /// Notes the files that git tracks, obeys or continues with.
    fn note_for_git(&mut self, entry: WalkEntry<'_>, guard: &EntryGuard) {
        let WalkEntry { dir, name, kind } = entry;
        if guard.is_spared {
            self.names.tracked.push(entry.path());
        }
        if guard.protected && !guard.hidden {
            if entry.is_config() {
                self.names.configs.push(entry.path());
            } else if name == ".gitmodules" && kind.is_file() && !dir.in_git {
                self.names.module_lists.push(entry.path());
            }
        }
        // Links to another repository are excepted: repositories are recognized by their contents.
        if guard.protected && !dir.is_data && kind.is_symlink() && name != ".git" {
            self.guarded_links.push(entry.path());
        }
        if name == ".git" && !kind.is_dir() {
            self.pointers.push(entry.path());
        }
        if name == ".gitattributes" && kind.is_file() {
            self.attributes.push(entry.path());
        }
        let location = dir.location.as_ref();
        if location.is_some_and(|place| place.is_state(self.rules.policy, name)) {
            self.names.states.push(entry.path());
        }
    }

    /// Adds a guarded name, and enters it if it is a directory.
    fn guard(&mut self, entry: WalkEntry<'_>, hidden: bool) {
        let (rules, kind, path) = (self.rules, entry.kind, entry.path());
        if kind.is_dir() {
            let is_covered =
                rules.held == Held::ByMounts && (rules.is_first() || rules.is_known(&path, false));
            if entry.name == ".git" {
                self.names.whole.push(path.clone());
            }
            if !hidden {
                self.enter_sealed(path.clone());
            } else if !is_covered {
                // The command can make a repository in it.
                self.enter(path.clone(), false);
            }
        }
        if !rules.is_known(&path, kind.is_symlink()) {
            let is_open = rules.own_sockets && kind == FileType::Socket;
            let closed = hidden || is_open && !is_placeholder(rules.mount, &path);
            self.names.add(rules.mount, path, kind, closed);
        }
    }

    /// Protects the parts of a directory that git recognizes as a repository. `listed` is the number
    /// of its names.
    fn protect_git_dir(
        &mut self,
        dir: VisitedDir,
        parts: Vec<(OsString, FileType)>,
        listed: usize,
    ) {
        let rules = self.rules;
        if dir.sealed && rules.held == Held::ByMounts {
            self.names.whole.push(dir.below);
            return;
        }
        let keeps_tree = rules.is_first() && rules.keeps_tree(&dir.below);
        for (name, kind) in parts {
            let path = dir.below.join(&name);
            if self.names.configs.contains(&path) {
                continue;
            }
            // An agent writes ignored names there at each step. It is judged after the end.
            if keeps_tree && name == "info" && kind.is_dir() {
                continue;
            }
            if repository::is_state(&name) && rules.policy.git() == Git::Commit {
                self.names.states.push(path);
                continue;
            }
            let queued = self.queue.iter_mut().rev().take(listed);
            for queued in queued.filter(|queued| queued.below == path) {
                queued.sealed = true;
                self.sealed_dirs.push(path.clone());
            }
            let is_covered = rules.is_first() && rules.held == Held::ByMounts;
            if is_covered && name == "config" && kind.is_file() {
                self.names.configs.push(path.clone());
            }
            if !rules.is_known(&path, kind.is_symlink()) {
                self.names.add(rules.mount, path, kind, false);
            }
        }
        self.names.bare.push(dir.below);
    }

    /// Adds the files that links and the configuration of repositories lead to, and enters those
    /// that are directories: they have links of their own.
    fn follow(&mut self) {
        let (rules, mount) = (self.rules, self.rules.mount);
        if !rules.protects {
            return;
        }
        let links = std::mem::take(&mut self.guarded_links);
        self.names.guarded_links.extend(links.iter().cloned());
        let mut git = match mount.linked {
            Some(_) => vec![PathBuf::new()],
            None => {
                let names = &self.names;
                [&*names.repositories, &names.bare, &names.whole].concat()
            }
        };
        git.retain(|git| self.followed.insert(git.clone()));
        let pointers = std::mem::take(&mut self.pointers).into_iter();
        let pointers: Vec<Pointer> = pointers
            .filter_map(|below| Pointer::read(mount, &below))
            .collect();
        let from = repository::link_targets(mount, &links, &git, &pointers, &self.attributes);
        self.names.pointers.extend(pointers);
        self.names.unheld.extend(from.unheld);
        self.names.elsewhere.extend(from.elsewhere);
        let found = self.names.found.iter().map(|found| found.below.clone());
        let mut covered: HashSet<PathBuf> = found.collect();
        // Once.
        let by_others = (mount.targets.get()).filter(|_| self.names.targets.is_empty());
        let by_others = by_others.into_iter().flatten().cloned();
        for one in from.targets.into_iter().chain(by_others) {
            // A later walk does not list names that were guarded at the start, and judges the rest.
            let is_covered = |around: &Path| match rules.is_first() {
                true => covered.contains(around),
                false => around != one.below && rules.is_known(around, false),
            };
            if !one.below.ancestors().any(is_covered)
                && let Ok(stat) = mount.look(&one.below)
            {
                let kind = FileType::from_raw_mode(stat.st_mode);
                if kind.is_dir() && !self.is_sealed(&one.below) {
                    self.enter_sealed(one.below.clone());
                }
                if !rules.is_known(&one.below, false) {
                    self.names.add(mount, one.below.clone(), kind, false);
                    covered.insert(one.below.clone());
                }
            }
            self.names.targets.push(one);
        }
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
    let looked = mount.look(below);
    looked.is_ok_and(|stat| stat.st_mode & 0o7777 == 0)
}

/// Returns `true` if a command could reach the contents of an unlisted directory: its owner can
/// list it, and a user who may enter it can know the names in it.
fn opens(mount: &HostMount, below: &Path) -> bool {
    let looked = match below.as_os_str().is_empty() {
        true => nix::sys::stat::fstat(&mount.handle),
        false => mount.look(below),
    };
    looked.is_ok_and(|stat| stat.st_uid == geteuid().as_raw() || stat.st_mode & 0o011 != 0)
}
