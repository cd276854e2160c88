//! The repositories that a worker may use, and its rights. An address may be any place of this
//! machine or of the network, so a repository that is not in here is never used, listed or
//! discarded.

use forge_tools::{CallFailure, FailureCode, escape_controls};

use crate::address::{Repo, RepoLocation};
use crate::error::{GitError, GitErrorKind};

/// Most characters of the requested name in an error.
const MAX_SHOWN: usize = 200;
/// Most names in one hint.
const MAX_NAMED: usize = 20;

/// The rights to a repository; the more it allows the larger.
///
/// ```
/// use forge_git::tools::RepoAccess;
/// assert_eq!(RepoAccess::ReadWrite.min(RepoAccess::ReadOnly), RepoAccess::ReadOnly);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RepoAccess {
    /// Files are pulled out of it.
    ReadOnly,
    /// Files are pulled out of it, and staged for it.
    ReadWrite,
}

/// The repositories of one worker, exactly these. A repository that is named twice is granted as
/// the narrower of both says.
///
/// ```
/// use forge_git::Repo;
/// use forge_git::tools::{RepoGrants, RepoAccess};
///
/// let reports = Repo::parse("octo/reports")?;
/// let mut granted: RepoGrants = [(reports.clone(), RepoAccess::ReadWrite)].into_iter().collect();
/// // One of this machine, by the name under which a model knows it.
/// granted.named("./remotes/x.git", Repo::parse("/srv/remotes/x.git")?, RepoAccess::ReadOnly);
/// assert_eq!(granted.access(&reports), Some(RepoAccess::ReadWrite));
/// assert_eq!(granted.access(&Repo::parse("/srv/remotes")?), None);
/// # Ok::<(), forge_git::GitError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepoGrants {
    rows: Vec<RepoGrant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct RepoGrant {
    /// As the model is told of it.
    name: String,
    repo: Repo,
    access: RepoAccess,
}

impl RepoGrants {
    /// One more, which a model knows under its address; one at GitHub as `owner/name`.
    pub fn add(&mut self, repo: Repo, access: RepoAccess) {
        let address = repo.to_string();
        let at_github = address.strip_prefix("https://github.com/");
        let name = at_github.and_then(|path| path.strip_suffix(".git"));
        let name = name.unwrap_or(&address).to_owned();
        self.named(&name, repo, access);
    }

    /// Adds a repository under the name by which a model knows it: a path of this machine is not
    /// for a model. Its address is understood as well.
    pub fn named(&mut self, name: &str, repo: Repo, access: RepoAccess) {
        match self.rows.iter_mut().find(|row| row.repo == repo) {
            Some(row) => row.access = row.access.min(access),
            None => self.rows.push(RepoGrant {
                name: name.to_owned(),
                repo,
                access,
            }),
        }
    }

    /// Returns the rights to a repository; `None` without any.
    pub fn access(&self, repo: &Repo) -> Option<RepoAccess> {
        self.row(repo).map(|row| row.access)
    }

    /// `true` without any repository.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All of them.
    pub(super) fn repositories(&self) -> Vec<Repo> {
        self.rows.iter().map(|row| row.repo.clone()).collect()
    }

    /// Returns `true` if files may be staged for any of them.
    pub(super) fn any_takes_files(&self) -> bool {
        let takes = |row: &RepoGrant| row.access == RepoAccess::ReadWrite;
        self.rows.iter().any(takes)
    }

    /// `true` if this worker may see commits staged for it.
    pub(super) fn takes_files(&self, repo: &Repo) -> bool {
        self.access(repo) == Some(RepoAccess::ReadWrite)
    }

    /// As the model is told of it.
    pub(super) fn name(&self, repo: &Repo) -> String {
        self.row(repo)
            .map_or_else(|| repo.to_string(), |row| row.name.clone())
    }

    /// The repository of a call, if it is granted for that.
    pub(super) fn asked(&self, asked: &str, for_what: RepoAccess) -> Result<Repo, CallFailure> {
        let named = self.rows.iter().find(|row| row.name == asked);
        // A malformed address is not granted either, and the list of granted ones helps more than
        // the reason.
        let is_host_path = asked.starts_with('/') || asked.starts_with("file:");
        let is_relative = |row: &&RepoGrant| row.name.starts_with('.');
        // Models know no paths of the host: a repository with a relative path is known by that.
        let by_address = || {
            let row = self.row(&Repo::parse(asked).ok()?);
            row.filter(|row| !(is_host_path && is_relative(row)))
        };
        let plain = |name: &str| {
            name.trim_start_matches("./")
                .trim_end_matches('/')
                .to_owned()
        };
        let by_path = || {
            let mut local = self.rows.iter().filter(is_relative);
            local.find(|row| plain(&row.name) == plain(asked))
        };
        let row = named.or_else(by_address).or_else(by_path);
        let shown: String = asked.chars().take(MAX_SHOWN).collect();
        let shown = escape_controls(&shown);
        match row {
            Some(row) if row.access >= for_what => Ok(row.repo.clone()),
            Some(_) => Err(FailureCode::Git
                .failure(format!(
                    "Repository '{shown}' is read-only: files can be pulled, not staged."
                ))
                .hint(self.hint(for_what))),
            None => Err(FailureCode::Git
                .failure(format!("Repository '{shown}' is not one that you may use."))
                .hint(self.hint(for_what))),
        }
    }

    fn row(&self, repo: &Repo) -> Option<&RepoGrant> {
        self.rows.iter().find(|row| row.repo == *repo)
    }

    fn hint(&self, for_what: RepoAccess) -> String {
        let fits = |row: &&RepoGrant| row.access >= for_what;
        let names: Vec<&str> = self
            .rows
            .iter()
            .filter(fits)
            .map(|row| row.name.as_str())
            .collect();
        let more = match names.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let shown = names.get(..MAX_NAMED).unwrap_or(&names).join(", ");
        format!("You may use: {shown}{more}.")
    }

    /// An error in the words of the model: no address of this machine.
    pub(super) fn failure(&self, error: GitError) -> CallFailure {
        // In git's own words there may be places that a repository of this machine points to.
        let is_of_git = error.kind() == GitErrorKind::Failed;
        let mut failure = CallFailure::from(error);
        let mut addresses: Vec<(String, &str)> = Vec::new();
        for row in &self.rows {
            if let RepoLocation::Local(path) = row.repo.place() {
                let path = path.display().to_string();
                addresses.push((format!("file://{path}"), &row.name));
                addresses.push((path, &row.name));
            }
        }
        // The longest first: one may be the beginning of another.
        addresses.sort_by_key(|(address, _)| std::cmp::Reverse(address.len()));
        for (address, name) in addresses.iter().filter(|(address, _)| address.len() > 1) {
            failure.message = failure.message.replace(address, name);
            failure.hint = failure.hint.map(|hint| hint.replace(address, name));
        }
        if is_of_git {
            failure.message = without_paths(&failure.message);
        }
        failure
    }
}

/// With a word for each path of this machine.
fn without_paths(text: &str) -> String {
    let begins =
        |before: Option<char>| before.is_none_or(|c| !c.is_alphanumeric() && !"/.:-_".contains(c));
    let ends = |c: char| c.is_whitespace() || "'\"`:;,)".contains(c);
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('/') {
        let (head, tail) = rest.split_at(at);
        out.push_str(head);
        let end = tail.find(ends).unwrap_or(tail.len());
        let (path, after) = tail.split_at(end);
        match begins(out.chars().next_back()) && path.len() > 1 {
            true => out.push_str("(a path)"),
            false => out.push_str(path),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

impl FromIterator<(Repo, RepoAccess)> for RepoGrants {
    fn from_iter<I: IntoIterator<Item = (Repo, RepoAccess)>>(rows: I) -> Self {
        let mut granted = RepoGrants::default();
        for (repo, access) in rows {
            granted.add(repo, access);
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::without_paths;

    #[test]
    fn no_path_of_this_machine_is_told() {
        for (said, told) in [
            (
                "unable to normalize alternate object path: /home/me/nb/.git/objects\n",
                "unable to normalize alternate object path: (a path)\n",
            ),
            ("in '/srv/a b': no", "in '(a path) b': no"),
            ("./r.git: a/b, 1/2 and //", "./r.git: a/b, 1/2 and (a path)"),
            ("https://host/x.git is gone", "https://host/x.git is gone"),
            ("", ""),
        ] {
            assert_eq!(without_paths(said), told);
        }
    }
}
