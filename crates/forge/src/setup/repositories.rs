//! Access to the repositories of workers: by the git program, with the configured credentials.
//! Variables with tokens are read here; their values go to the process that talks to that server,
//! to the redactor, and nowhere else.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forge_git::{
    Author, Credential, Credentials, GitBackend, GitError, GitProgram, GitService, Repo,
};
use forge_runtime::{RepositoriesUnavailable, RepositorySource};
use forge_tools::Redactor;
use os_sandbox::Support;
use sandbox_config::{CredentialSource, GitCredential, Project};

use crate::ambient::Ambient;
use crate::exit::CliError;
use crate::setup::authorities::{self, AUTHORITY_FILE};
use crate::setup::host_programs::HostPrograms;
use crate::setup::keys::shield;
use crate::state::staging::Staging;

/// Returns the one spelling of an address, or the reason why it is invalid: the check of a
/// configuration.
pub(crate) fn address(text: &str) -> Result<String, String> {
    match Repo::parse(text) {
        Ok(repo) => Ok(repo.to_string()),
        Err(error) => {
            // The text itself is shown beside it.
            let why = error.message().rsplit_once(" (");
            let why = why.map_or(error.message(), |(_, why)| why.trim_end_matches(")."));
            Err(why.to_owned())
        }
    }
}

/// Git, as a project has it.
pub(crate) struct ProjectGit {
    staging: Staging,
    author: Author,
    trailer: Option<String>,
    executable_config: bool,
    credentials: Credentials,
    /// The certificate authorities, if they are not the system's own.
    certificates: Option<PathBuf>,
    /// Detects secrets in staged files, besides the detection by shape.
    redactor: Arc<Redactor>,
}

impl ProjectGit {
    /// Nothing is opened for it yet.
    pub(crate) fn of(project: &Project, ambient: &Ambient) -> Result<Self, CliError> {
        let settings = project.git();
        Ok(ProjectGit {
            staging: Staging::of(project.dir(), ambient)?,
            author: Author::parse(settings.author()).map_err(|error| unfit(&error))?,
            trailer: settings.trailer().map(str::to_owned),
            executable_config: project.ceiling().allows_executable_config(),
            credentials: credentials(project, ambient)?,
            certificates: certificates(project, ambient)?,
            redactor: ambient.redactor(&secrets_of(project, ambient)),
        })
    }

    /// Opens git, confined by means of this host.
    pub(crate) fn open(&self, support: Support) -> Result<GitService<GitProgram>, CliError> {
        let program = self.staging.program(support)?;
        let mut program = program.credentials(self.credentials.clone());
        if let Some(file) = &self.certificates {
            program = program.certificates(file);
        }
        let git = GitService::new(program, self.staging.open()?)
            .author(self.author.clone())
            .redactor(Arc::clone(&self.redactor))
            .allow_executable_config(self.executable_config);
        match &self.trailer {
            None => Ok(git),
            Some(line) => git.trailer(line).map_err(|error| unfit(&error)),
        }
    }
}

/// Returns the access of a project's workers to repositories.
pub(crate) fn repositories(
    project: &Project,
    ambient: &Ambient,
) -> Result<RepositorySource, CliError> {
    if project.ceiling().repositories().is_empty() {
        return Ok(RepositorySource::default());
    }
    let git = ProjectGit::of(project, ambient)?;
    Ok(RepositorySource::opened_by(move |support| {
        let opened = git
            .open(support)
            .map_err(|failure| RepositoriesUnavailable {
                reason: failure.message().to_owned(),
                hint: failure.hint_text().map(str::to_owned),
            })?;
        Ok(Arc::new(opened) as Arc<dyn GitBackend>)
    }))
}

/// Returns the hidden values of a project and the tokens, whatever the names of the variables.
pub(crate) fn secrets_of(project: &Project, ambient: &Ambient) -> Vec<String> {
    let tokens = variables(project).filter_map(|name| ambient.var(name));
    let mut texts = project.redacted().to_vec();
    texts.extend(tokens.map(str::to_owned));
    texts
}

/// The variables that hold tokens.
pub(crate) fn variables(project: &Project) -> impl Iterator<Item = &str> {
    let named = project.git().credentials().iter();
    named.filter_map(|credential| match credential.source() {
        CredentialSource::Variable(name) => Some(name.as_str()),
        CredentialSource::Helper(_) | CredentialSource::Agent { .. } => None,
    })
}

fn credentials(project: &Project, ambient: &Ambient) -> Result<Credentials, CliError> {
    let mut all = Credentials::new();
    for one in project.git().credentials() {
        let credential = credential(one, project, ambient)?;
        all = all
            .with(one.server(), credential)
            .map_err(|error| unfit(&error))?;
    }
    for server in project.git().untrusted() {
        let why = "the project says how, and you have not agreed to that (`forge trust`)";
        all = all
            .with(server, Credential::absent(why))
            .map_err(|error| unfit(&error))?;
    }
    Ok(all)
}

fn credential(
    one: &GitCredential,
    project: &Project,
    ambient: &Ambient,
) -> Result<Credential, CliError> {
    match one.source() {
        CredentialSource::Variable(name) => match ambient.var(name) {
            None => Ok(Credential::absent(format!("{name} is not set"))),
            Some(token) => {
                shield()?;
                let unfit = |_: GitError| Credential::absent(format!("{name} holds no token"));
                Ok(Credential::token(token).unwrap_or_else(unfit))
            }
        },
        CredentialSource::Helper(words) => {
            shield()?;
            let [name, arguments @ ..] = words.as_slice() else {
                return Ok(Credential::absent("the credential helper has no name"));
            };
            let programs = HostPrograms::of_project(ambient, project);
            let program = match programs.find(name) {
                Ok(program) => program.into_os_string(),
                Err(error) => return Ok(Credential::absent(error.to_string())),
            };
            let tokens: Vec<&str> = variables(project).collect();
            let known = |name: &str| Credential::HELPER_VARIABLES.contains(&name);
            let variables = ambient.env.iter().filter(|(name, _)| known(name));
            // The token of one server is not for another.
            let variables = variables.filter(|(name, _)| !tokens.contains(&name.as_str()));
            let variables =
                variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
            let path = OsString::from(programs.search_path());
            let variables = variables.chain([(OsString::from("PATH"), path)]);
            let command = [program]
                .into_iter()
                .chain(arguments.iter().map(OsString::from));
            Credential::helper(command, variables).map_err(|error| unfit(&error))
        }
        CredentialSource::Agent { known_hosts } => {
            let own = || Some(ambient.home.as_deref()?.join(".ssh/known_hosts"));
            let known_hosts = known_hosts.clone().or_else(own);
            match (ambient.var("SSH_AUTH_SOCK"), known_hosts) {
                (Some(socket), Some(known_hosts)) if Path::new(socket).is_absolute() => {
                    Credential::agent(socket, known_hosts).map_err(|error| unfit(&error))
                }
                (Some(_), Some(_)) => Ok(Credential::absent("SSH_AUTH_SOCK is not a path")),
                (None, _) => Ok(Credential::absent(
                    "SSH_AUTH_SOCK is not set: no agent runs",
                )),
                (Some(_), None) => Ok(Credential::absent("missing home directory")),
            }
        }
    }
}

/// Returns the certificate authorities of other programs, which a company may set. A missing file
/// is reported when a server is verified.
fn certificates(project: &Project, ambient: &Ambient) -> Result<Option<PathBuf>, CliError> {
    let Some(file) = ambient.path(AUTHORITY_FILE) else {
        return Ok(None);
    };
    authorities::check(ambient, &HostPrograms::of_project(ambient, project))?;
    Ok(std::path::absolute(file).ok())
}

fn unfit(error: &GitError) -> CliError {
    let failure = CliError::misuse("config.bad_value", error.message());
    failure.maybe_hint(error.advice())
}
