//! Classes of the paths below a git directory, which decide who may write them.
//!
//! This is an allow-list: an unknown name is not writable. Sources:
//! <https://git-scm.com/docs/gitrepository-layout>, `path.c`, `sequencer.c` and `builtin/am.c`.

/// The class of a path below a git directory.
///
/// ```
/// use sandbox_names::git::{GitPathClass, classify};
/// assert_eq!(classify(&["objects", "pack", "x.pack"]), GitPathClass::Data);
/// assert_eq!(classify(&["objects", "info", "alternates"]), GitPathClass::Obeyed);
/// assert_eq!(classify(&["worktrees", "side", "rebase-merge", "git-rebase-todo"]), GitPathClass::State);
/// assert_eq!(classify(&["modules", "third_party", "foo", "hooks", "x"]), GitPathClass::Obeyed);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitPathClass {
    /// Contents and messages, which git reads and runs nothing for.
    Data,
    /// Git writes it in everyday work, and no other program has a reason to: `HEAD`, locks.
    GitOnly,
    /// A rebase, merge or sequence that is not done: git goes on with it, its commands included.
    State,
    /// Git executes or obeys it, or follows it elsewhere.
    Obeyed,
    /// A directory on the way to other git directories: `modules`, `worktrees`.
    Container,
    /// Unknown to this table.
    Unknown,
}

/// Paths below a git directory that git executes, obeys, or follows elsewhere, as far as they need
/// no pattern.
pub const OBEYED: [&str; 9] = [
    "hooks",
    "config",
    "config.worktree",
    "info",
    "commondir",
    "remotes",
    "branches",
    "objects/info/alternates",
    "objects/info/http-alternates",
];

/// Names that git obeys below `worktrees/ID`.
pub const OBEYED_IN_WORKTREE: [&str; 3] = ["config.worktree", "commondir", "gitdir"];

/// Returns the path in a file `.git`, which leads to the git directory of a linked worktree or a
/// submodule, as git reads it (`read_gitfile` of `setup.c`); `None` if git does not follow the file. A
/// relative path begins at the file's directory.
///
/// ```
/// use sandbox_names::git::gitfile_target;
/// assert_eq!(gitfile_target(b"gitdir: ../repo/.git/worktrees/side\r\n"), Some(&b"../repo/.git/worktrees/side"[..]));
/// assert_eq!(gitfile_target(b"gitdir:  a \n"), Some(&b" a "[..]));
/// assert_eq!(gitfile_target(b"gitdir:a\n"), None);
/// assert_eq!(gitfile_target(b"gitdir: \n"), None);
/// assert_eq!(gitfile_target(b"gitdir: a\n\0b"), Some(&b"a\n"[..]));
/// ```
#[must_use]
pub fn gitfile_target(content: &[u8]) -> Option<&[u8]> {
    let path = content.strip_prefix(b"gitdir: ")?;
    let end = path.iter().rposition(|byte| !b"\r\n".contains(byte))?;
    // To the kernel, the path ends at a NUL.
    path[..=end].split(|byte| *byte == 0).next()
}

/// Directories with the state of an unfinished operation.
pub const STATE: [&str; 3] = ["rebase-merge", "rebase-apply", "sequencer"];

/// Names with everything below them.
#[rustfmt::skip]
const DATA: [&str; 13] = [
    "objects", "refs", "logs", "reftable", "index", "packed-refs", "COMMIT_EDITMSG", "MERGE_MSG",
    "SQUASH_MSG", "TAG_EDITMSG", "NOTES_EDITMSG", "ORIG_HEAD", "FETCH_HEAD",
];

const KEPT: [&str; 28] = [
    "HEAD",
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_RR",
    "MERGE_AUTOSTASH",
    "AUTO_MERGE",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "EDIT_DESCRIPTION",
    "ADD_EDIT.patch",
    "addp-hunk-edit.diff",
    "description",
    "shallow",
    "gc.pid",
    "gc.log",
    "packed-refs.new",
    "rr-cache",
    "lost-found",
    "locked",
    "lfs/objects",
    "lfs/tmp",
    "lfs/incomplete",
    "lfs/cache",
    "lfs/logs",
    // The name under which opencode keeps the sessions of a repository.
    "opencode",
    "NOTES_MERGE_REF",
    "NOTES_MERGE_PARTIAL",
];

/// Beginnings of the names of files that git creates and usually removes again.
const KEPT_BEGINNINGS: [&str; 6] = [
    "BISECT_",
    "index.",
    "sharedindex",
    "next-index-",
    "NOTES_MERGE_WORKTREE",
    "tmp_",
];

/// Returns the class of the path `names` below a git directory. A module's name may contain
/// slashes: of all possible readings, the strictest class wins.
///
/// ```
/// use sandbox_names::git::{GitPathClass, classify};
/// for (path, want) in [
///     ("HEAD", GitPathClass::GitOnly),
///     ("config", GitPathClass::Obeyed),
///     ("Hooks/pre-commit", GitPathClass::Obeyed),
///     ("refs/heads/config", GitPathClass::Data),
///     ("index.lock", GitPathClass::GitOnly),
///     ("config.lock", GitPathClass::Unknown),
///     ("worktrees/a/HEAD", GitPathClass::GitOnly),
///     ("worktrees/a/gitdir", GitPathClass::Obeyed),
///     ("worktrees/a/hooks", GitPathClass::Unknown),
///     ("modules/a/b/objects/ab/cd", GitPathClass::Data),
///     ("modules/a/modules/b/info/attributes", GitPathClass::Obeyed),
///     ("jj", GitPathClass::Unknown),
/// ] {
///     assert_eq!(classify(&path.split('/').collect::<Vec<_>>()), want, "{path}");
/// }
/// ```
#[must_use]
pub fn classify<S: AsRef<str>>(names: &[S]) -> GitPathClass {
    let Some(first) = names.first().map(AsRef::as_ref) else {
        return GitPathClass::Container;
    };
    match (first.to_ascii_lowercase().as_str(), names) {
        ("worktrees", [_, _, rest @ ..]) => classify_in_worktree(rest),
        ("modules", [_, _, ..]) => classify_in_modules(&names[1..]),
        ("worktrees" | "modules", _) => GitPathClass::Container,
        _ => classify_in_git_dir(names),
    }
}

/// Like [`classify`], for one git directory without its modules: [`GitPathClass::Container`] for
/// every path in a module, because only the files tell where a module's name ends.
///
/// ```
/// use sandbox_names::git::{GitPathClass, classify_own};
/// assert_eq!(classify_own(&["modules", "a", "refs", "heads", "config"]), GitPathClass::Container);
/// assert_eq!(classify_own(&["refs", "heads", "config"]), GitPathClass::Data);
/// ```
#[must_use]
pub fn classify_own<S: AsRef<str>>(names: &[S]) -> GitPathClass {
    let is = |at: usize, name: &str| {
        names
            .get(at)
            .is_some_and(|one| one.as_ref().eq_ignore_ascii_case(name))
    };
    if is(0, "modules") || is(0, "worktrees") && is(2, "modules") {
        return GitPathClass::Container;
    }
    classify(names)
}

/// Classifies a path below a git directory without modules and worktrees.
fn classify_in_git_dir<S: AsRef<str>>(names: &[S]) -> GitPathClass {
    if is_one(&OBEYED, names) {
        return GitPathClass::Obeyed;
    }
    if is_one(&STATE, names) {
        return GitPathClass::State;
    }
    let first = names.first().map(AsRef::as_ref).unwrap_or_default();
    if first.eq_ignore_ascii_case("lfs") && names.len() == 1 {
        return GitPathClass::GitOnly;
    }
    if is_one(&DATA, names) {
        return GitPathClass::Data;
    }
    let begins = |beginning: &&str| {
        first
            .get(..beginning.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(beginning))
    };
    if is_one(&KEPT, names) || KEPT_BEGINNINGS.iter().any(begins) {
        return GitPathClass::GitOnly;
    }
    let first = first.to_ascii_lowercase();
    let lock = first
        .strip_suffix(".lock")
        .map(|locked| classify_in_git_dir(&[locked]));
    match lock {
        Some(GitPathClass::Data | GitPathClass::GitOnly) if names.len() == 1 => {
            GitPathClass::GitOnly
        }
        _ => GitPathClass::Unknown,
    }
}

fn classify_in_worktree<S: AsRef<str>>(names: &[S]) -> GitPathClass {
    let Some(first) = names.first() else {
        return GitPathClass::Container;
    };
    if first.as_ref().eq_ignore_ascii_case("modules") {
        return classify(names);
    }
    if is_one(&OBEYED_IN_WORKTREE, names) {
        return GitPathClass::Obeyed;
    }
    match classify_in_git_dir(names) {
        // Git looks for these in the main directory.
        GitPathClass::Obeyed => GitPathClass::Unknown,
        other => other,
    }
}

fn classify_in_modules<S: AsRef<str>>(names: &[S]) -> GitPathClass {
    let is = |at: usize, name: &str| names[at].as_ref().eq_ignore_ascii_case(name);
    let readings = (1..names.len())
        // `refs/remotes` has branches of others.
        .filter(|at| !(is(at - 1, "refs") && is(*at, "remotes")))
        .map(|at| classify(&names[at..]));
    let mut found = GitPathClass::Container;
    for reading in readings {
        match reading {
            GitPathClass::Obeyed => return GitPathClass::Obeyed,
            GitPathClass::State => found = GitPathClass::State,
            // The outer reading: a log is called `HEAD` as well.
            GitPathClass::GitOnly | GitPathClass::Data if found == GitPathClass::Container => {
                found = reading
            }
            GitPathClass::GitOnly
            | GitPathClass::Data
            | GitPathClass::Container
            | GitPathClass::Unknown => {}
        }
    }
    found
}

/// `true` if `names` are one of the paths, or below one.
fn is_one<S: AsRef<str>>(paths: &[&str], names: &[S]) -> bool {
    let first = names.first().map_or("", AsRef::as_ref);
    // Why: walks ask about every directory, and a split costs more than a look at the beginning.
    let begins = |path: &&&str| {
        let head = path.get(..first.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(first))
    };
    paths.iter().filter(begins).any(|path| {
        let mut below = names.iter();
        path.split('/').all(|part| {
            below
                .next()
                .is_some_and(|name| name.as_ref().eq_ignore_ascii_case(part))
        })
    })
}

/// Keys of git's configuration whose value is a program, with arguments or as a line for a shell.
#[rustfmt::skip]
const PROGRAM_KEYS: [&str; 35] = [
    "core.fsmonitor", "core.sshcommand", "core.editor", "core.pager", "core.askpass",
    "core.gitproxy", "core.alternaterefscommand", "sequence.editor", "diff.external",
    "interactive.difffilter", "credential.helper", "gpg.program", "gpg.*.program",
    "gpg.ssh.defaultkeycommand", "filter.*.clean", "filter.*.smudge", "filter.*.process",
    "diff.*.command", "diff.*.textconv", "merge.*.driver", "difftool.*.cmd", "mergetool.*.cmd",
    "difftool.*.path", "mergetool.*.path", "guitool.*.cmd", "man.*.cmd", "man.*.path",
    "tar.*.command", "imap.tunnel", "gc.recentobjectshook", "hook.*.command", "trailer.*.cmd",
    "trailer.*.command", "uploadpack.packobjectshook", "submodule.*.update",
];

/// Keys of any name below them, whose values are programs.
const PROGRAM_SECTIONS: [&str; 6] = ["alias", "pager", "remote", "sendemail", "web", "browser"];

/// Keys whose value is a file or directory that git obeys.
const FILE_KEYS: [&str; 6] = [
    "core.hookspath",
    "core.attributesfile",
    "init.templatedir",
    "include.path",
    "includeif.*.path",
    "gpg.ssh.allowedsignersfile",
];

/// The kind of file that the value of a git configuration key refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// A file or directory that git obeys.
    File,
    /// More configuration.
    Configuration,
    /// A program and its arguments.
    Program,
    /// Neither a file nor a program.
    None,
}

/// Returns the kind of file that a git configuration key, `section.key` or `section.sub.key`,
/// refers to.
///
/// ```
/// use sandbox_names::git::{ReferenceKind, reference_kind};
/// assert_eq!(reference_kind("core", None, "hooksPath"), ReferenceKind::File);
/// assert_eq!(reference_kind("includeIf", Some("gitdir:~/x/"), "path"), ReferenceKind::Configuration);
/// assert_eq!(reference_kind("filter", Some("x"), "clean"), ReferenceKind::Program);
/// assert_eq!(reference_kind("alias", None, "st"), ReferenceKind::Program);
/// assert_eq!(reference_kind("user", None, "name"), ReferenceKind::None);
/// ```
#[must_use]
pub fn reference_kind(section: &str, sub: Option<&str>, key: &str) -> ReferenceKind {
    let (section, key) = (section.to_ascii_lowercase(), key.to_ascii_lowercase());
    let is = |known: &&str| {
        let mut parts = known.split('.');
        let (first, last) = (parts.next(), parts.next_back());
        let middle = parts.next();
        let fits = match (middle, sub) {
            (Some("*"), Some(_)) | (None, None) => true,
            (Some(name), Some(sub)) => name.eq_ignore_ascii_case(sub),
            // `credential.https://example.org.helper`.
            (None, Some(_)) => matches!(section.as_str(), "credential" | "core"),
            (Some(_), None) => false,
        };
        fits && first == Some(section.as_str()) && last == Some(key.as_str())
    };
    if FILE_KEYS.iter().any(is) {
        return match section.as_str() {
            "include" | "includeif" => ReferenceKind::Configuration,
            _ => ReferenceKind::File,
        };
    }
    let remote = matches!(key.as_str(), "uploadpack" | "receivepack" | "vcs");
    let section_runs = match section.as_str() {
        "remote" => remote,
        other => PROGRAM_SECTIONS.contains(&other),
    };
    if PROGRAM_KEYS.iter().any(is) || section_runs {
        return ReferenceKind::Program;
    }
    ReferenceKind::None
}

/// Commands of a rebase's todo list that execute no program, in both spellings.
#[rustfmt::skip]
const HARMLESS: [&str; 24] = [
    "pick", "p", "reword", "r", "edit", "e", "squash", "s", "fixup", "f", "break", "b", "drop",
    "d", "label", "l", "reset", "t", "merge", "m", "noop", "revert", "update-ref", "u",
];

/// Returns the first line of a todo list (`git-rebase-todo`, `sequencer/todo`) that executes a
/// program or is unknown.
///
/// ```
/// use sandbox_names::git::running_line;
/// assert_eq!(running_line("pick abc x\n# exec\n\n", |_| false), None);
/// assert_eq!(running_line("pick abc x\nexec make\n", |_| false), Some("exec make"));
/// assert_eq!(running_line("exec make\n", |line| line == "exec make"), None);
/// ```
pub fn running_line(text: &str, known: impl Fn(&str) -> bool) -> Option<&str> {
    text.lines().map(str::trim).find(|line| {
        let first = line.split_whitespace().next().unwrap_or_default();
        let plain = first.is_empty() || first.starts_with(['#', ';']) || HARMLESS.contains(&first);
        !plain && !known(line)
    })
}
