//! The changes that a command may make to git repositories in its writable mounts. A mode is a list
//! of protected names: the files that git executes or obeys are in few places (`hooks`, `config`,
//! `info`, the files that point to other directories), and a commit writes to none of them.
//!
//! <https://git-scm.com/docs/gitrepository-layout>

use sandbox_names::git::STATE;

/// The changes that a command may make to repositories below writable mounts.
///
/// ```
/// use os_sandbox::{Access, Git, Policy};
/// use std::path::Path;
///
/// let policy = Policy::builder()
///     .mount("/home/me/project", "/", Access::ALL)
///     .git(Git::Commit)
///     .build()?;
/// assert!(policy.allows(Path::new("/home/me/project/.git/index"), Access::WRITE));
/// assert!(!policy.allows(Path::new("/home/me/project/.git/hooks/pre-commit"), Access::WRITE));
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Git {
    /// Every change that the protected names allow.
    #[default]
    Unaware,
    /// None: every `.git` is protected as a whole.
    ReadOnly,
    /// Add, commit, branch, stash, merge, rebase and clean up, but not change the files that git
    /// executes or obeys: hooks, configuration, `info`, and the files that point to other
    /// directories. In a linked worktree (`git worktree add`) the repository that it belongs to is
    /// usable too, at its own path, if both ends of the link agree. Each start decides that.
    Commit,
}

/// The changes of a repository's configuration, `.git/config`, that are let through although the file
/// is protected. git replaces the file for `git config`, `git remote add` and `git push -u`. Harmless
/// are the identity of the committer, and new remotes, branches and modules: nothing that makes git
/// execute or obey more than before, or changes the addresses of fetch and push.
///
/// ```
/// use os_sandbox::{Access, GitConfig, Policy};
/// let policy = Policy::builder().mount("/home/me/project", "/", Access::ALL);
/// let policy = policy.protect(".git/config").git_config(GitConfig::Judged).build()?;
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum GitConfig {
    /// None.
    #[default]
    Kept,
    /// Harmless ones, each judged before it is made, while the command runs. git gets EPERM for
    /// others. This needs a mount layer and reports ([`ReportLevel`](crate::ReportLevel)); without
    /// reports the file is kept. Under Landlock alone, which cannot keep it, it is
    /// [`JudgedAfter`](GitConfig::JudgedAfter); other mechanisms keep it. In an overlay, git gets EPERM
    /// too, and other programs can change the file: whoever applies the upper directory has to judge
    /// it.
    Judged,
    /// All until the end of the command. Then harmless ones stay. A file with others is moved to the
    /// quarantine, and the previous one is put back. Until then every git process there obeys the new
    /// configuration, so this setting waives a guard for that time. Mechanisms that cannot look
    /// afterwards keep the file.
    JudgedAfter,
}

/// Depth of the search for modules: their names can contain slashes (`libs/parser`). The price is
/// that a module's branch cannot be called `config` or `hooks`.
const MODULE_DEPTH: usize = 4;

/// The names that [`Git::Commit`] protects at the top of a repository's directory, and in modules:
/// [`sandbox_names::git::OBEYED`] without the names that only old versions of git read.
const OBEYED_BY_NEW_GIT: [&str; 5] = ["hooks", "config", "config.worktree", "info", "commondir"];

/// Returns `true` if patterns name files in repositories.
pub(crate) fn is_about_git(patterns: &[String]) -> bool {
    let of_git = |pattern: &String| pattern.starts_with(".git/");
    patterns.iter().any(of_git)
}

/// Returns the names that are protected in every repository with protected names, in addition to
/// [`Git::patterns`]. `unaware` is as strict as `commit` about files that git obeys, and does not
/// leave an unfinished rebase.
pub(crate) fn obeyed_patterns(git: Git) -> impl Iterator<Item = String> {
    let state: &[&str] = match git {
        Git::Unaware => &STATE,
        Git::ReadOnly | Git::Commit => &[],
    };
    let all = sandbox_names::git::OBEYED.iter().chain(state);
    all.map(|name| format!(".git/{name}"))
}

impl Git {
    /// Returns the patterns of the mode.
    pub(crate) fn patterns(self) -> Vec<String> {
        match self {
            Git::Unaware => Vec::new(),
            Git::ReadOnly => vec![".git".to_owned()],
            Git::Commit => {
                let mut out: Vec<String> = OBEYED_BY_NEW_GIT
                    .iter()
                    .map(|name| format!(".git/{name}"))
                    .collect();
                for name in sandbox_names::git::OBEYED_IN_WORKTREE {
                    out.push(format!(".git/worktrees/*/{name}"));
                }
                for depth in 1..=MODULE_DEPTH {
                    let module = format!(".git/modules{}", "/*".repeat(depth));
                    // At a deeper level, it would also be the objects/info that git writes. Without
                    // a configuration of its own, the content of that directory executes nothing.
                    let names = OBEYED_BY_NEW_GIT
                        .iter()
                        .filter(|name| depth == 1 || **name != "info");
                    out.extend(names.map(|name| format!("{module}/{name}")));
                }
                out
            }
        }
    }
}
