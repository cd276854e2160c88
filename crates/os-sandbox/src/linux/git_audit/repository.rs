//! Protected files of a repository's directory, by git's own table: in `.git`, in the modules and
//! worktrees below it, and in repositories under another name. And references of a repository:
//! files of the mount that git executes or obeys because its configuration, or a link with a
//! protected name, leads to them.

use super::super::below;
use super::super::host_mount::{HostMount, ObeyedPath};
use super::pointer::{Pointer, read_file};
use crate::git_config;
use crate::key_files::content_of;
use crate::policy::{Git, Policy};
use nix::errno::Errno;
use nix::sys::stat::SFlag;
use sandbox_names::git::{GitPathClass, ReferenceKind, STATE, classify_own, running_line};
use sandbox_names::lexical::normalize;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};

/// Bound on the size of a file.
const MAX_BYTES: u64 = 256 << 10;
/// Bound on the entries of a directory of hooks.
const MAX_HOOKS: usize = 1000;
/// Bound on the number of included configuration files.
const MAX_INCLUDED: usize = 32;

/// Location of a directory relative to the innermost git directory around it.
pub(crate) struct GitDirLocation {
    way: Vec<String>,
    /// `true` if everything in the directory is git's, not only the names that git knows.
    whole: bool,
    /// `true` for a directory among modules, whose names may have slashes: it is a module or a part
    /// of the name of one.
    pub(crate) among_modules: bool,
}

impl GitDirLocation {
    /// Returns `None` outside of every git directory that is known by now.
    pub(crate) fn of(mount: &HostMount, below: &Path, bare: &[PathBuf]) -> Option<GitDirLocation> {
        let names: Vec<&OsStr> = below.iter().collect();
        let dot = names.iter().rposition(|name| *name == ".git");
        let mut whole = mount.linked.is_some() || dot.is_some();
        let mut top = match (mount.linked.is_some(), dot) {
            (true, _) => 0,
            (false, Some(dot)) => dot + 1,
            (false, None) => {
                let around = bare.iter().filter(|git| below.starts_with(git));
                around.map(|git| git.iter().count()).max()?
            }
        };
        loop {
            let rest = &names[top..];
            let modules = match rest.first().and_then(|name| name.to_str()) {
                Some("modules") => 1,
                Some("worktrees") if rest.get(2).is_some_and(|name| *name == "modules") => 3,
                _ => {
                    if let Some(end) = innermost(bare, &names, top) {
                        (top, whole) = (end, false);
                        continue;
                    }
                    return Some(GitDirLocation {
                        way: rest
                            .iter()
                            .map(|name| name.to_string_lossy().into_owned())
                            .collect(),
                        whole,
                        among_modules: false,
                    });
                }
            };
            let module = (top + modules + 1..=names.len()).find(|end| {
                let path: PathBuf = names[..*end].iter().collect();
                bare.contains(&path)
            });
            match module {
                Some(end) => top = end,
                None => {
                    return Some(GitDirLocation {
                        way: Vec::new(),
                        whole,
                        among_modules: true,
                    });
                }
            }
        }
    }

    /// Returns the class of a name in the directory, as far as the audit needs it: everything below
    /// content is content.
    fn part(&self, name: &OsStr) -> GitPathClass {
        if self.among_modules {
            return GitPathClass::Container;
        }
        // A protected name protects everything below it.
        if !self.way.is_empty()
            && !matches!(
                classify_own(&self.way),
                GitPathClass::Data | GitPathClass::GitOnly | GitPathClass::Container
            )
        {
            return GitPathClass::Data;
        }
        let contents = match self.way.first().map(String::as_str) {
            Some("refs" | "logs" | "reftable" | "rr-cache") => true,
            Some("objects") => self.way.get(1).is_some_and(|second| second != "info"),
            _ => false,
        };
        if contents {
            return GitPathClass::Data;
        }
        own(&self.way, name)
    }

    /// Returns `true` for a directory of content, in which a command can make another repository.
    pub(crate) fn is_content(&self) -> bool {
        !self.among_modules
            && !self.way.is_empty()
            && classify_own(&self.way) != GitPathClass::Container
    }

    /// Returns `true` if a name in it is the configuration of a repository.
    pub(crate) fn is_config(&self, name: &OsStr) -> bool {
        !self.among_modules && self.way.is_empty() && name == "config"
    }

    /// Returns `true` if a name in the directory is protected from every command of the policy.
    pub(crate) fn keeps(&self, policy: &Policy, name: &OsStr) -> bool {
        kept(policy, self.part(name), self.whole)
    }

    /// Returns `true` for the state of an unfinished operation, which commands may have.
    pub(crate) fn is_state(&self, policy: &Policy, name: &OsStr) -> bool {
        policy.git() == Git::Commit && self.part(name) == GitPathClass::State
    }
}

/// Returns the length of the deepest repository that is around a path, and longer than `top`.
fn innermost(bare: &[PathBuf], names: &[&OsStr], top: usize) -> Option<usize> {
    let around = bare.iter().filter(|git| {
        let mut parts = git.iter().zip(names);
        git.iter().count() <= names.len() && parts.all(|(part, name)| part == *name)
    });
    let depths = around.map(|git| git.iter().count());
    depths.filter(|depth| *depth > top).max()
}

fn own(way: &[String], name: &OsStr) -> GitPathClass {
    let name = name.to_string_lossy();
    let names: Vec<&str> = way
        .iter()
        .map(String::as_str)
        .chain([name.as_ref()])
        .collect();
    classify_own(&names)
}

fn kept(policy: &Policy, part: GitPathClass, whole: bool) -> bool {
    match part {
        GitPathClass::Obeyed => true,
        GitPathClass::State => policy.git() != Git::Commit,
        GitPathClass::Unknown => whole,
        GitPathClass::Data | GitPathClass::GitOnly | GitPathClass::Container => false,
    }
}

/// Returns `true` if a name at the top of a git directory is protected.
pub(crate) fn keeps_at_top(policy: &Policy, name: &OsStr, whole: bool) -> bool {
    kept(policy, own(&[], name), whole)
}

/// Returns `true` if a name at the top of a git directory is the state of an unfinished operation.
pub(crate) fn is_state(name: &OsStr) -> bool {
    STATE.iter().any(|state| name == *state)
}

/// Returns the lines in the todo lists of an operation, before a command could add to them.
pub(crate) fn todo(mount: &HostMount, state: &Path) -> HashSet<String> {
    let mut lines = HashSet::new();
    for list in ["git-rebase-todo", "todo"] {
        let text = read(mount, &state.join(list)).unwrap_or_default();
        lines.extend(text.lines().map(|line| line.trim().to_owned()));
    }
    lines
}

/// Returns the reason why a person must not continue an operation that a command left.
pub(crate) fn harm_of_state(
    mount: &HostMount,
    state: &Path,
    known: &HashSet<String>,
) -> Option<String> {
    let Ok(directory) = below::directory(mount.handle.as_fd(), state) else {
        return Some("not a directory".to_owned());
    };
    for name in ["git-rebase-todo", "todo", "author-script", "strategy"] {
        let Ok(stat) = below::look(directory.as_fd(), OsStr::new(name)) else {
            continue;
        };
        if below::kind(&stat) == SFlag::S_IFDIR {
            continue;
        }
        let Some(text) = read(mount, &state.join(name)) else {
            return Some(format!("{name} cannot be read"));
        };
        let bad = match name {
            "author-script" => text.lines().find(|line| !is_author(line)),
            "strategy" => text.lines().find(|line| !is_strategy(line)),
            _ => running_line(&text, |line| known.contains(line)),
        };
        if let Some(line) = bad {
            let line: String = line.chars().take(120).collect();
            return Some(format!("git would go on with the line `{line}` of {name}"));
        }
    }
    None
}

/// Returns `true` for `GIT_AUTHOR_NAME='…'` without text outside of the quotes; old versions of git
/// pass the line to a shell.
fn is_author(line: &str) -> bool {
    let values = ["GIT_AUTHOR_NAME=", "GIT_AUTHOR_EMAIL=", "GIT_AUTHOR_DATE="];
    let Some(quoted) = values.iter().find_map(|name| line.strip_prefix(name)) else {
        return line.is_empty();
    };
    // A quote in the value is written `'\''`.
    let inner = quoted
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''));
    inner.is_some_and(|inner| !inner.replace("'\\''", "").contains('\''))
}

fn is_strategy(line: &str) -> bool {
    [
        "",
        "ort",
        "recursive",
        "resolve",
        "octopus",
        "ours",
        "subtree",
    ]
    .contains(&line.trim())
}

/// Returns `true` for a directory of the host in which git finds a repository.
pub(crate) fn is_repository(directory: &Path) -> bool {
    let has = |name: &str| directory.join(name).symlink_metadata().is_ok();
    has(".git") || ["HEAD", "objects", "refs"].into_iter().all(has)
}

/// Bound on the directories of one look for a repository.
const MAX_DIRECTORIES: usize = 20_000;

/// Looks for a repository below a directory of the host, by links too as far as they stay below
/// `top`. Returns what there is: a tree with too many directories counts as one with a repository.
pub(crate) fn find_below(directory: &Path, top: &Path) -> Option<&'static str> {
    let mut seen = HashSet::new();
    let mut queue = vec![directory.to_owned()];
    while let Some(directory) = queue.pop() {
        if !seen.insert(directory.clone()) {
            continue;
        }
        if seen.len() > MAX_DIRECTORIES {
            return Some("more directories than forge looks through");
        }
        if is_repository(&directory) {
            return Some("a directory with a repository in it");
        }
        for entry in std::fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => queue.push(path),
                Ok(kind) if kind.is_symlink() => queue.extend(
                    path.canonicalize()
                        .ok()
                        .filter(|to| to.starts_with(top) && to.is_dir()),
                ),
                _ => {}
            }
        }
    }
    None
}

/// Returns `true` if the file `.git` at `pointer` and the part of a repository in the same mount
/// that it names refer to each other, as `git worktree add` and `git submodule add` create them.
pub(crate) fn is_mutual(mount: &HostMount, pointer: &Path) -> bool {
    let (Some(around), Some(text)) = (pointer.parent(), read(mount, pointer)) else {
        return false;
    };
    let Some(target) = line_after(&text, "gitdir: ").and_then(|path| inside(mount, around, path))
    else {
        return false;
    };
    let names: Vec<&OsStr> = target.iter().collect();
    let Some(dot) = names.iter().position(|name| *name == ".git") else {
        return false;
    };
    match names[dot + 1..] {
        [kind, _] if kind == "worktrees" => {
            let back = read(mount, &target.join("gitdir"));
            let back = back
                .as_deref()
                .and_then(|text| inside(mount, &target, text.trim_end()));
            let common = read(mount, &target.join("commondir"));
            back.as_deref() == Some(pointer)
                && common.is_some_and(|common| common.trim_end() == "../..")
        }
        [kind, _, ..] if kind == "modules" => {
            let config = read(mount, &target.join("config")).unwrap_or_default();
            let entries = sandbox_names::git_config::entries(&config);
            let mut worktrees = entries
                .iter()
                .filter(|entry| entry.section == "core" && entry.key == "worktree");
            let first = worktrees.next();
            worktrees.next().is_none()
                && first
                    .and_then(|entry| inside(mount, &target, &entry.value))
                    .as_deref()
                    == Some(around)
        }
        _ => false,
    }
}

/// Returns the reason why the configuration of a module cannot stay: the rules for any
/// configuration apply, but it may name its own worktree.
pub(crate) fn harm_of_module(mount: &HostMount, config: &Path) -> Option<String> {
    let Some(text) = read(mount, config) else {
        return Some("it cannot be read".to_owned());
    };
    let is_worktree = |line: &&str| {
        let key = line.split_once('=').map(|(key, _)| key.trim());
        key.is_some_and(|key| key.eq_ignore_ascii_case("worktree"))
    };
    let rest: Vec<&str> = text.lines().filter(|line| !is_worktree(line)).collect();
    if let Some(why) = git_config::config(rest.join("\n").as_bytes()) {
        return Some(why);
    }
    let lines: Vec<&str> = text.lines().filter(is_worktree).collect();
    let [line] = lines[..] else {
        return (!lines.is_empty()).then(|| "it has two worktrees".to_owned());
    };
    let value = line.split_once('=').map_or("", |(_, value)| value.trim());
    let agrees = config
        .parent()
        .and_then(|module| inside(mount, module, value))
        .is_some_and(|worktree| is_mutual(mount, &worktree.join(".git")));
    (!agrees).then(|| "it sets core.worktree".to_owned())
}

/// Returns the links among the hooks of a repository.
pub(crate) fn hook_links(mount: &HostMount, git: &Path) -> Vec<PathBuf> {
    let hooks = git.join("hooks");
    let entries = std::fs::read_dir(mount.host.join(&hooks));
    let entries = entries.into_iter().flatten().flatten().take(MAX_HOOKS);
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    links.map(|entry| hooks.join(entry.file_name())).collect()
}

/// References of a mount.
#[derive(Default)]
pub(crate) struct LedFrom {
    /// Files in the mount.
    pub(crate) targets: Vec<ObeyedPath>,
    /// Paths outside the mount, on the host or as commands see them, and the file that names each.
    pub(crate) elsewhere: Vec<(PathBuf, String)>,
    /// Reasons for files that cannot be protected.
    pub(crate) unheld: Vec<String>,
}

/// Returns the targets of links with protected names, and the paths in the configuration of
/// repositories.
pub(crate) fn link_targets(
    mount: &HostMount,
    links: &[PathBuf],
    repositories: &[PathBuf],
    pointers: &[Pointer],
    attributes: &[PathBuf],
) -> LedFrom {
    let mut found = ReferenceCollector {
        mount,
        out: LedFrom {
            ..LedFrom::default()
        },
    };
    for link in links {
        if let Ok(target) = mount.host.join(link).canonicalize() {
            let by = format!("the link {}", mount.shown(link));
            found.add_host(&target, by, Some(link));
        }
    }
    for git in repositories {
        let around = match git.file_name() {
            Some(name) if name == ".git" => git.parent().unwrap_or(git),
            _ => git,
        };
        found.repository(std::slice::from_ref(git), around, attributes);
    }
    for pointer in pointers {
        let around = pointer.below.parent().unwrap_or(Path::new(""));
        let git = [pointer.common_dir(), pointer.target.clone()];
        // Paths of the host are those of the mount, if they are below it.
        let git = git.map(|git| match git.strip_prefix(&mount.host) {
            Ok(below) => below.to_owned(),
            Err(_) => git,
        });
        found.repository(&git, around, attributes);
    }
    found.out
}

struct ReferenceCollector<'a> {
    mount: &'a HostMount,
    out: LedFrom,
}

impl ReferenceCollector<'_> {
    /// Adds the references of a repository: its directory, and the one of a linked worktree, of which
    /// an absolute path is one of the host. `around` is the working tree, in which git starts
    /// programs and resolves their paths.
    fn repository(&mut self, git: &[PathBuf], around: &Path, attributes: &[PathBuf]) {
        let of_git = |git: &PathBuf| [git.join("config"), git.join("config.worktree")];
        let mut files: Vec<PathBuf> = git.iter().flat_map(of_git).collect();
        let mut trees = vec![around.to_owned()];
        let mut leads = Vec::new();
        let mut drivers = false;
        let mut at = 0;
        while let Some(file) = files.get(at).cloned() {
            at += 1;
            let text = match read_any(self.mount, &file) {
                Ok(Some(text)) => text,
                Ok(None) => continue,
                Err(why) => {
                    let file = self.mount.shown(&file);
                    self.out
                        .unheld
                        .push(format!("the files that {file} leads to: {why}"));
                    continue;
                }
            };
            let base = file.parent().unwrap_or(&file);
            trees.extend(worktree_of(self.mount, base, &text));
            let references = sandbox_names::git_config::references(&text);
            drivers |= references.drivers;
            for lead in references.paths {
                let by = format!("{}: {}", self.mount.shown(&file), lead.by);
                if lead.kind == ReferenceKind::Configuration {
                    let included = inside(self.mount, base, &lead.path);
                    files.extend(included.filter(|_| at < MAX_INCLUDED));
                    self.add(base, &lead.path, by);
                } else {
                    leads.push((lead, by));
                }
            }
        }
        for (lead, by) in leads {
            for tree in &trees {
                match lead.kind {
                    ReferenceKind::None | ReferenceKind::Configuration => {}
                    ReferenceKind::File => self.add(tree, &lead.path, by.clone()),
                    ReferenceKind::Program => self.add_program(tree, &lead.path, by.clone()),
                }
            }
        }
        if drivers {
            let by = format!("programs for files in {}", self.mount.shown(&git[0]));
            let of_tree = |file: &&PathBuf| trees.iter().any(|tree| file.starts_with(tree));
            for file in attributes.iter().filter(of_tree) {
                self.out.targets.push(ObeyedPath {
                    below: file.clone(),
                    by: by.clone(),
                    link: None,
                });
            }
        }
    }

    /// Adds a path as it is written; a missing file is not added yet.
    fn add(&mut self, base: &Path, text: &str, by: String) {
        let Some(below) = inside(self.mount, base, text) else {
            let path = normalize(&self.mount.host.join(base).join(text));
            let path = path.canonicalize().unwrap_or(path);
            self.out.elsewhere.push((path, by));
            return;
        };
        let path = self.mount.host.join(&below);
        if let Ok(target) = path.canonicalize() {
            self.add_host(&target, by.clone(), None);
        }
        if path.is_symlink() {
            let link = None;
            self.out.targets.push(ObeyedPath { below, by, link });
        }
    }

    /// Adds a word of a command, if it names a file.
    fn add_program(&mut self, base: &Path, word: &str, by: String) {
        let path = match inside(self.mount, base, word) {
            Some(below) => self.mount.host.join(below),
            None => normalize(&self.mount.host.join(base).join(word)),
        };
        if path.is_file() {
            self.add(base, word, by);
        }
    }

    fn add_host(&mut self, target: &Path, by: String, link: Option<&Path>) {
        let Ok(below) = target.strip_prefix(&self.mount.host) else {
            self.out.elsewhere.push((target.to_owned(), by));
            return;
        };
        if below.as_os_str().is_empty() {
            self.out.unheld.push(format!(
                "{by} leads to all of {}, which cannot be kept",
                self.mount.inside
            ));
        } else {
            self.out.targets.push(ObeyedPath {
                below: below.to_owned(),
                by,
                link: link.map(Path::to_owned),
            });
        }
    }
}

/// Returns the working tree that the configuration of a repository names, if it is in the mount.
fn worktree_of(mount: &HostMount, git: &Path, text: &str) -> Option<PathBuf> {
    let entries = sandbox_names::git_config::entries(text);
    let mut trees = entries.iter().rev();
    let tree = trees.find(|entry| entry.section == "core" && entry.key == "worktree")?;
    inside(mount, git, &tree.value)
}

/// Returns the path below the mount that a text in a file of `base` names, without reading the file
/// system.
fn inside(mount: &HostMount, base: &Path, text: &str) -> Option<PathBuf> {
    // From a file outside the mount.
    let joined = normalize(&base.join(text));
    let path = match base.is_absolute() {
        true => joined.as_path(),
        false => Path::new(text),
    };
    let (base, path) = if path.is_absolute() {
        let own = path
            .strip_prefix(&mount.inside)
            .or_else(|_| path.strip_prefix(&mount.host));
        (Path::new(""), own.ok()?)
    } else {
        (base, path)
    };
    let mut out = base.to_owned();
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(out)
}

fn line_after<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    let line = text.strip_prefix(start)?.trim_end_matches('\n');
    (!line.contains('\n')).then_some(line)
}

/// Returns the text of a file, without following a link.
fn read(mount: &HostMount, path: &Path) -> Option<String> {
    read_any(mount, path).ok().flatten()
}

/// Returns the text of a file, without following a link; `None` if there is none. Other bytes than
/// UTF-8 are replaced: git reads the rest of the file all the same.
fn read_any(mount: &HostMount, path: &Path) -> Result<Option<String>, String> {
    if path.is_absolute() {
        let outside = read_file(path, MAX_BYTES);
        return Ok(outside.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
    }
    let file = match below::file_below(mount.handle.as_fd(), path) {
        Ok(file) => file,
        Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(None),
        Err(Errno::ELOOP) => {
            let target = mount.host.join(path).canonicalize().ok();
            let below = target
                .as_deref()
                .and_then(|target| target.strip_prefix(&mount.host).ok());
            return Ok(below.and_then(|below| read(mount, below)));
        }
        Err(errno) => return Err(errno.desc().to_owned()),
    };
    let told = || {
        format!(
            "it has more than {} KiB, or cannot be read",
            MAX_BYTES >> 10
        )
    };
    let bytes = content_of(file, MAX_BYTES).ok_or_else(told)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_that_is_too_large_counts_as_a_repository() {
        let top = tempfile::tempdir().expect("a directory");
        let path = |number: usize| top.path().join(format!("a/{number}"));
        for number in 0..MAX_DIRECTORIES - 2 {
            std::fs::create_dir_all(path(number)).expect("a new name");
        }
        assert_eq!(find_below(top.path(), top.path()), None);
        std::fs::create_dir(path(MAX_DIRECTORIES)).expect("a new name");
        assert!(find_below(top.path(), top.path()).is_some());
    }

    #[test]
    fn authors() {
        for (line, plain) in [
            ("GIT_AUTHOR_NAME='A B'", true),
            ("GIT_AUTHOR_NAME='O'\\''Hara'", true),
            ("GIT_AUTHOR_DATE='@1 +0000'", true),
            ("", true),
            ("GIT_AUTHOR_NAME='x'; touch y", false),
            ("GIT_AUTHOR_NAME='x'$(touch y)'z'", false),
            ("GIT_AUTHOR_NAME=x", false),
            ("touch y", false),
        ] {
            assert_eq!(is_author(line), plain, "{line}");
        }
    }
}
