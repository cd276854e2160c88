//! `forge doctor --git`: checks the repositories of the project: git, its confinement, and the
//! credentials for each server. No server is contacted, and no helper is run.

use std::fmt::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use forge_git::{BranchName, GitErrorKind, GitProgram, GitRepositories as _, Repo};
use sandbox_config::{CredentialSource, GitCredential, Project, Repository, WithoutDirectories};

use super::report::{self, CheckState, DoctorCheck};
use crate::commands::prelude::*;
use crate::output::escape::escape_lines;
use crate::setup;
use crate::setup::host_programs::HostPrograms;

enum GitCheckOutcome {
    Ok(String),
    /// A fact that may be intended.
    Note(String),
    /// The problem, and one command to type.
    Failed(String, String),
}

impl GitCheckOutcome {
    fn of(self, what: impl Into<String>) -> DoctorCheck {
        let (state, detail, hint) = match self {
            GitCheckOutcome::Ok(detail) => (CheckState::Ok, detail, None),
            GitCheckOutcome::Note(detail) => (CheckState::Note, detail, None),
            GitCheckOutcome::Failed(detail, hint) => (CheckState::Failed, detail, Some(hint)),
        };
        DoctorCheck {
            what: what.into(),
            state,
            detail,
            hint,
        }
    }
}

pub(crate) fn run(ambient: &Ambient) -> Result<ExitKind, CliError> {
    let project = setup::project(ambient, None, WithoutDirectories::DefaultZones)?;
    let checks = checks(&project, ambient)?;
    let failed = report::has_failed(&checks);
    let mut text = String::new();
    if ambient.global.json {
        let rows = report::facts(&checks, "hint");
        text = json!({ "git": { "ok": !failed, "checks": rows } }).to_string();
    } else {
        for check in &checks {
            let (what, detail) = (escape_lines(&check.what), escape_lines(&check.detail));
            let _ = writeln!(text, "{:<7} {what}: {detail}", check.state.word());
            if let Some(hint) = &check.hint {
                let _ = writeln!(text, "        try: {}", escape_lines(hint));
            }
        }
    }
    print_line(text.trim_end())?;
    Ok(ExitKind::negative_if(failed))
}

fn checks(project: &Project, ambient: &Ambient) -> Result<Vec<DoctorCheck>, CliError> {
    let programs = HostPrograms::of_project(ambient, project);
    let mut checks = vec![program(&programs).of("git")];
    let git_is_there = checks[0].state == CheckState::Ok;
    if git_is_there {
        checks.push(confined()?.of("confinement"));
    }
    let repositories = project.ceiling().repositories();
    if repositories.is_empty() {
        let none = "none: no worker has a git tool (`git.repositories`)";
        checks.push(GitCheckOutcome::Note(none.to_owned()).of("repositories"));
    }
    for one in repositories {
        let what = format!("repository {}", one.name());
        checks.push(repository(project, one).of(what));
    }
    for one in project.git().credentials() {
        checks.push(credential(one, &programs, ambient).of(one.server()));
    }
    for server in project.git().untrusted() {
        let detail = "the project names credentials, and you have not agreed to that";
        let failed = GitCheckOutcome::Failed(detail.to_owned(), "forge trust".to_owned());
        checks.push(failed.of(server));
    }
    Ok(checks)
}

fn program(programs: &HostPrograms) -> GitCheckOutcome {
    let install = "install git (apt-get install git)";
    let git = match programs.find("git") {
        Ok(git) => git,
        Err(error) => return GitCheckOutcome::Failed(error.to_string(), install.to_owned()),
    };
    let ran = Command::new(&git)
        .arg("--version")
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .output();
    match ran {
        Ok(ran) if ran.status.success() => {
            let version = String::from_utf8_lossy(&ran.stdout);
            GitCheckOutcome::Ok(format!("{}, {}", version.trim(), git.display()))
        }
        Ok(ran) => GitCheckOutcome::Failed(
            format!("{} ends with {}", git.display(), ran.status),
            install.to_owned(),
        ),
        Err(error) => {
            GitCheckOutcome::Failed(format!("{}: {error}", git.display()), install.to_owned())
        }
    }
}

/// Runs git as a pull would, over an empty directory: its message that this is not a repository
/// proves that it ran.
fn confined() -> Result<GitCheckOutcome, CliError> {
    let place = tempfile::tempdir().map_err(|error| {
        let why = format!("cannot make a temporary directory: {error}");
        CliError::state(why)
    })?;
    let (cache, empty) = (place.path().join("cache"), place.path().join("empty"));
    for dir in [&cache, &empty] {
        std::fs::create_dir(dir).map_err(|error| CliError::state(error.to_string()))?;
    }
    let program = GitProgram::new(&cache, setup::host_support());
    let repo = Repo::parse(&empty.to_string_lossy());
    let repo = repo.map_err(|error| CliError::negative("git", error.message()))?;
    let branch = BranchName::default();
    let asked = setup::until_stopped(async { program.head(&repo, &branch).await })?;
    Ok(match asked {
        Err(error) if error.kind() == GitErrorKind::Unavailable => {
            GitCheckOutcome::Failed(error.message().to_owned(), "forge doctor".to_owned())
        }
        Ok(_) | Err(_) => GitCheckOutcome::Ok("git runs under the OS sandbox".to_owned()),
    })
}

fn repository(project: &Project, one: &Repository) -> GitCheckOutcome {
    let access = one.access();
    if let Some(path) = one.address().strip_prefix("file://") {
        let path = Path::new(path);
        let is_one = path.join("HEAD").is_file() || path.join(".git").exists();
        return match is_one {
            true => GitCheckOutcome::Ok(format!("{access}, {}", path.display())),
            false => GitCheckOutcome::Failed(
                format!("{} is not a repository", path.display()),
                format!("git init --bare {}", path.display()),
            ),
        };
    }
    let server = Repo::parse(one.address())
        .ok()
        .and_then(|repo| Some(repo.origin()?.as_str().to_owned()));
    let server = server.unwrap_or_default();
    let git = project.git();
    let said = git
        .credentials()
        .iter()
        .any(|known| known.server() == server)
        || git.untrusted().contains(&server);
    match said {
        true => GitCheckOutcome::Ok(format!("{access}, {}", one.address())),
        false => GitCheckOutcome::Note(format!(
            "{access}, {}; no credentials for {server} (`git.credentials`)",
            one.address()
        )),
    }
}

fn credential(one: &GitCredential, programs: &HostPrograms, ambient: &Ambient) -> GitCheckOutcome {
    match one.source() {
        CredentialSource::Variable(name) => match ambient.var(name) {
            Some(value) if !value.is_empty() => GitCheckOutcome::Ok(format!("the token in {name}")),
            Some(_) | None => {
                GitCheckOutcome::Failed(format!("{name} is not set"), format!("export {name}=…"))
            }
        },
        CredentialSource::Helper(words) => {
            let name = words.first().map_or("", String::as_str);
            match programs.find(name) {
                Ok(path) => GitCheckOutcome::Ok(format!("the helper {}", path.display())),
                Err(error) => {
                    GitCheckOutcome::Failed(error.to_string(), format!("command -v {name}"))
                }
            }
        }
        CredentialSource::Agent { known_hosts } => {
            agent(one, known_hosts.as_deref(), programs, ambient)
        }
    }
}

fn agent(
    one: &GitCredential,
    known_hosts: Option<&Path>,
    programs: &HostPrograms,
    ambient: &Ambient,
) -> GitCheckOutcome {
    let start = "eval \"$(ssh-agent)\" && ssh-add";
    let Some(socket) = ambient.var("SSH_AUTH_SOCK") else {
        let detail = "SSH_AUTH_SOCK is not set: no agent runs";
        return GitCheckOutcome::Failed(detail.to_owned(), start.to_owned());
    };
    if let Err(error) = UnixStream::connect(socket) {
        let detail = format!("no agent answers at {socket}: {error}");
        return GitCheckOutcome::Failed(detail, start.to_owned());
    }
    if let Err(error) = programs.find("ssh") {
        let detail = error.to_string();
        return GitCheckOutcome::Failed(
            detail,
            "install ssh (apt-get install openssh-client)".to_owned(),
        );
    }
    let own = ambient
        .home
        .as_ref()
        .map(|home| home.join(".ssh/known_hosts"));
    let file = known_hosts.map(Path::to_path_buf).or(own);
    match file.filter(|file| file.is_file()) {
        Some(file) => GitCheckOutcome::Ok(format!("your agent; hosts by {}", file.display())),
        None => {
            let host = one.server().trim_start_matches("ssh://");
            let detail = "missing known_hosts file, so forge trusts no host".to_owned();
            GitCheckOutcome::Failed(detail, format!("ssh -T ssh://{host}"))
        }
    }
}
