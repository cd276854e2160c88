//! A foreign repository, in git's terms, and the credential for it.

use std::path::Path;

use os_sandbox::{Access, Environment};

use super::ProgramSettings;
use super::cache::RepoCache;
use super::credentials::WebCredential;
use super::login::CredentialUsed;
use super::refusals;
use super::run::{GitCommand, GitOutput, OTHER, Remote, run};
use crate::address::{Repo, RepoLocation, ServerOrigin};
use crate::error::{GitError, GitErrorKind};

pub(super) struct RemoteAccess {
    pub(super) reach: Remote,
    pub(super) url: String,
    pub(super) shown: CredentialUsed,
}

impl RemoteAccess {
    pub(super) fn is_of_this_machine(&self) -> bool {
        matches!(self.reach, Remote::Local(..))
    }
}

impl ProgramSettings {
    /// How a repository is reached. A credential helper is asked here.
    pub(super) fn there(&self, repo: &Repo, access: Access) -> Result<RemoteAccess, GitError> {
        match (repo.place(), repo.origin()) {
            (RepoLocation::Local(path), _) => {
                let there = std::fs::canonicalize(path)
                    .ok()
                    .filter(|path| path.is_dir());
                let there = there.ok_or_else(|| refusals::not_found(repo))?;
                // The owner of a link's directory decides its target, later than the author of the
                // repository's name; from here on links are not followed.
                if there != *path {
                    return Err(GitErrorKind::Refused
                        .error(format!("{repo} is not used: there is a link in its path."))
                        .hint("Name the directory itself."));
                }
                Ok(RemoteAccess {
                    reach: Remote::Local(there, access),
                    url: OTHER.to_owned(),
                    shown: CredentialUsed::NoServer,
                })
            }
            (RepoLocation::Web { .. }, Some(origin)) => {
                let protocol = match origin.as_str().starts_with("https:") {
                    true => "https",
                    false => "http",
                };
                let certificates = self.certificates.clone().filter(|_| protocol == "https");
                if certificates.as_ref().is_some_and(|file| !file.is_file()) {
                    return Err(refusals::no_authorities(repo));
                }
                let shown = match self.credentials.login(&origin) {
                    WebCredential::Login(login) => CredentialUsed::Login(origin.clone(), login),
                    WebCredential::Nothing(why) => CredentialUsed::None(origin.clone(), why),
                };
                let header = match &shown {
                    CredentialUsed::Login(_, login) => Some(login.header()),
                    CredentialUsed::NoServer
                    | CredentialUsed::None(..)
                    | CredentialUsed::Agent(_) => None,
                };
                let reach = Remote::Web {
                    protocol,
                    origin: origin.as_str().to_owned(),
                    header,
                    certificates,
                };
                Ok(RemoteAccess {
                    reach,
                    url: repo.to_string(),
                    shown,
                })
            }
            (RepoLocation::Ssh { .. }, Some(origin)) => self.over_ssh(repo, origin),
            (RepoLocation::Web { .. } | RepoLocation::Ssh { .. }, None) => {
                Err(refusals::not_found(repo))
            }
        }
    }

    fn over_ssh(&self, repo: &Repo, origin: ServerOrigin) -> Result<RemoteAccess, GitError> {
        let (agent, known_hosts) = self
            .credentials
            .agent(&origin)
            .map_err(|why| refusals::no_agent(repo, &origin, why))?;
        for (path, what) in [(agent, "ssh agent"), (known_hosts, "list of known hosts")] {
            if !path.exists() {
                let why = format!("the {what} that is named for it is not there");
                return Err(refusals::no_agent(repo, &origin, Some(&why)));
            }
        }
        let program = ssh().ok_or_else(|| {
            GitErrorKind::Unavailable
                .error(format!(
                    "{repo} is not reached: there is no ssh on this machine."
                ))
                .hint("Install OpenSSH's client, or use its https address.")
        })?;
        Ok(RemoteAccess {
            reach: Remote::Ssh {
                program,
                agent: agent.to_owned(),
                known_hosts: known_hosts.to_owned(),
            },
            url: repo.to_string(),
            shown: CredentialUsed::Agent(origin),
        })
    }

    /// Runs git once with the remote. The credential is in none of its output, even if the server
    /// repeats it.
    pub(super) fn talk(
        &self,
        cache: &RepoCache,
        there: &RemoteAccess,
        mut job: GitCommand,
    ) -> Result<GitOutput, GitError> {
        job.reach = there.reach.clone();
        job.wall = self.transfer;
        let mut done = run(&self.support, &self.git, cache.bare(), job)?;
        if let CredentialUsed::Login(origin, login) = &there.shown {
            if refusals::is_unknown(&done) {
                self.credentials.refused(origin, login);
            }
            done.complaint = login.hidden(&done.complaint);
            let answer = String::from_utf8_lossy(&done.answer);
            done.answer = login.hidden(&answer).into_bytes();
        }
        Ok(done)
    }
}

/// Where programs are looked for inside.
fn ssh() -> Option<std::path::PathBuf> {
    let places = Environment::clean().search_path();
    let mut found = std::env::split_paths(&places).map(|place| place.join("ssh"));
    found.find(|path| Path::is_file(path))
}
