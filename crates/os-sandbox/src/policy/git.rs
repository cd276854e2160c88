//! How much a command may do to the git repositories in its writable mounts. A mode is a list of
//! protected names: what git executes or obeys is in few places (`hooks`, `config`, `info`, the
//! files that point to other directories), and a commit needs to write in none of them.
//!
//! <https://git-scm.com/docs/gitrepository-layout>

use sandbox_names::git::STATE;

/// What a command may do to repositories below writable mounts.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Git {
    /// Whatever the protected names leave.
    #[default]
    Unaware,
    /// Nothing: every `.git` is protected as a whole.
    ReadOnly,
    /// Add, commit, branch, stash, merge, rebase and clean up, but not change what git executes
    /// or obeys: hooks, configuration, `info`, and the files that point to other directories.
    /// In a linked worktree (`git worktree add`) the repository that it belongs to is usable too,
    /// at its own path, if both ends of the link agree; that is decided at each start.
    Commit,
}

/// How deep modules are looked for: their names can contain slashes (`libs/parser`). The price is
/// that a module's branch cannot be called `config` or `hooks`.
const MODULE_DEPTH: usize = 4;

/// What git executes or obeys at the top of a repository's directory, and is judged by what is in
/// it where a command made it.
pub(crate) const OBEYED: [&str; 5] = ["hooks", "config", "config.worktree", "info", "commondir"];

/// Returns `true` if patterns are about what is in repositories.
pub(crate) fn is_about_git(patterns: &[String]) -> bool {
    let of_git = |pattern: &String| pattern.starts_with(".git/");
    patterns.iter().any(of_git)
}

/// What is protected in every repository where anything is, beside what [`Git::patterns`] says:
/// `unaware` is as strict as `commit` in what git obeys, and leaves no rebase that is not done.
pub(crate) fn obeyed_patterns(git: Git) -> impl Iterator<Item = String> {
    let state: &[&str] = match git {
        Git::Unaware => &STATE,
        Git::ReadOnly | Git::Commit => &[],
    };
    let all = sandbox_names::git::OBEYED.iter().chain(state);
    all.map(|name| format!(".git/{name}"))
}

impl Git {
    /// The mode in patterns.
    pub(crate) fn patterns(self) -> Vec<String> {
        match self {
            Git::Unaware => Vec::new(),
            Git::ReadOnly => vec![".git".to_owned()],
            Git::Commit => {
                let mut out: Vec<String> =
                    OBEYED.iter().map(|name| format!(".git/{name}")).collect();
                for name in ["config.worktree", "commondir", "gitdir"] {
                    out.push(format!(".git/worktrees/*/{name}"));
                }
                for depth in 1..=MODULE_DEPTH {
                    let module = format!(".git/modules{}", "/*".repeat(depth));
                    // Deeper, it would also be the objects/info that git writes; without a
                    // configuration of its own, what is in it executes nothing.
                    let names = OBEYED.iter().filter(|name| depth == 1 || **name != "info");
                    out.extend(names.map(|name| format!("{module}/{name}")));
                }
                out
            }
        }
    }
}
