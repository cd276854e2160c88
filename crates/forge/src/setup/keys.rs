//! API keys of model providers: their sources and their protection.
//!
//! The environment of the process start stays readable in `/proc` after any change of our copy, so
//! removing a variable would hide nothing (and no safe call does it). The protection is another: as
//! soon as a key is loaded no other process can read our memory or environment (`PR_SET_DUMPABLE`),
//! child processes get only an environment that was made for them, and every value goes to the
//! redactor.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::{Child, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use forge_runtime::ProviderKey;
use sandbox_config::{ApiKey, Project, ProviderSettings};

use crate::ambient::Ambient;
use crate::exit::{CliError, ExitKind};
use crate::setup::host_programs::HostPrograms;
use crate::setup::{authorities, repositories};

/// Time limit for a program to print a key; a person may have to unlock a store.
const HELPER_PATIENCE: Duration = Duration::from_secs(60);
/// Longest key, in bytes.
const MAX_KEY_BYTES: u64 = 16 * 1024;

/// The keys of one command, each fetched once.
pub(crate) struct ApiKeys<'a> {
    ambient: &'a Ambient,
    programs: HostPrograms,
    /// Variables that hold keys, which are removed from a helper's environment.
    variables: Vec<String>,
    found: BTreeMap<String, Option<ProviderKey>>,
}

impl<'a> ApiKeys<'a> {
    pub(crate) fn new(ambient: &'a Ambient, project: &Project) -> Self {
        let variables = project.providers().filter_map(|each| match each.key() {
            ApiKey::Variable(name) => Some(name.clone()),
            ApiKey::None | ApiKey::Command(_) => None,
        });
        let of_git = repositories::variables(project).map(str::to_owned);
        ApiKeys {
            ambient,
            programs: HostPrograms::of_project(ambient, project),
            variables: variables.chain(of_git).collect(),
            found: BTreeMap::new(),
        }
    }

    /// The key of a provider, if it wants one.
    pub(crate) fn of(
        &mut self,
        provider: &ProviderSettings,
    ) -> Result<Option<ProviderKey>, CliError> {
        if let Some(key) = self.found.get(provider.name()) {
            return Ok(key.clone());
        }
        if !matches!(provider.key(), ApiKey::None) {
            authorities::check(self.ambient, &self.programs)?;
        }
        let key = match provider.key() {
            ApiKey::None => None,
            ApiKey::Variable(name) => Some(self.variable(provider, name)?),
            ApiKey::Command(words) => Some(self.helper(provider, words)?),
        };
        self.found.insert(provider.name().to_owned(), key.clone());
        Ok(key)
    }

    /// Returns all values that no text may show: fetched keys, and keys in variables.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let fetched = self.found.values().flatten();
        let fetched = fetched.map(|key| key.reveal().to_owned());
        let around = self
            .variables
            .iter()
            .filter_map(|name| self.ambient.var(name));
        let mut secrets: Vec<String> = fetched.chain(around.map(str::to_owned)).collect();
        secrets.sort_unstable();
        secrets.dedup();
        secrets
    }

    fn variable(&self, provider: &ProviderSettings, name: &str) -> Result<ProviderKey, CliError> {
        let Some(value) = self.ambient.var(name) else {
            let failure = no_key("missing", provider, &format!("{name} is not set"));
            return Err(failure.hint(format!("export {name}=…")));
        };
        shield()?;
        ProviderKey::new(value)
            .map_err(|why| no_key("unusable", provider, &format!("{name}: {why}")))
    }

    fn helper(
        &self,
        provider: &ProviderSettings,
        words: &[String],
    ) -> Result<ProviderKey, CliError> {
        shield()?;
        let shown = format!("`{}`", words.join(" "));
        let printed = self.run(words).map_err(|why| {
            no_key("missing", provider, &format!("{shown}: {why}")).hint(shown.clone())
        })?;
        ProviderKey::new(printed)
            .map_err(|why| no_key("unusable", provider, &format!("{shown}: {why}")))
    }

    /// Returns the standard output of a program. Its standard error goes to the person.
    fn run(&self, words: &[String]) -> Result<String, String> {
        let [program, arguments @ ..] = words else {
            return Err("it names no program".to_owned());
        };
        let env = self.ambient.env.iter();
        let env = env.filter(|(name, _)| !self.variables.contains(name));
        let home = self.ambient.home.as_deref();
        let mut command = self
            .programs
            .command(program)
            .map_err(|error| error.to_string())?;
        let mut child = command
            .args(arguments)
            .env_clear()
            .envs(env.map(|(name, value)| (name, value)))
            .env("PATH", self.programs.search_path())
            // Not in a project, which could have put something there for it.
            .current_dir(home.unwrap_or(std::path::Path::new("/")))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let printed = read(&mut child);
        // It has been read to its end, or is of no use any more.
        if printed.is_err() {
            let _gone = child.kill();
        }
        let ended = child.wait().map_err(|error| error.to_string())?;
        let printed = printed?;
        match ended.success() {
            true => Ok(printed),
            false => Err(format!("it ended with {ended}")),
        }
    }
}

fn read(child: &mut Child) -> Result<String, String> {
    let Some(stdout) = child.stdout.take() else {
        return Err("its output is not there".to_owned());
    };
    let (done, outcome) = channel();
    // A holder of the other end of the pipe may outlive the program; the thread then stays.
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.take(MAX_KEY_BYTES + 1).read_to_end(&mut bytes);
        let _gone = done.send(read.map(|_| bytes));
    });
    let until = Instant::now() + HELPER_PATIENCE;
    let bytes = outcome
        .recv_timeout(HELPER_PATIENCE)
        .map_err(|_| format!("nothing within {} s", HELPER_PATIENCE.as_secs()))?
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_KEY_BYTES {
        return Err("it prints more than any key".to_owned());
    }
    // It has closed its output, and should end now.
    while child.try_wait().is_ok_and(|ended| ended.is_none()) {
        if Instant::now() > until {
            return Err("it does not end".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    String::from_utf8(bytes).map_err(|_| "it prints what no key holds".to_owned())
}

fn no_key(problem: &str, provider: &ProviderSettings, why: &str) -> CliError {
    let message = format!(
        "{problem} key for the provider `{}`: {why}",
        provider.name()
    );
    CliError::new(ExitKind::Credentials, "model.credentials", message)
}

/// Makes the process undumpable: only root reads its memory or environment, and other processes of
/// the same user do not.
#[cfg(target_os = "linux")]
pub(crate) fn shield() -> Result<(), CliError> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| {
        CliError::new(
            ExitKind::Credentials,
            "model.credentials",
            format!("keys cannot be kept from other processes: {error}"),
        )
    })
}

/// Other systems do not let a process read another one's environment, or have no such switch.
#[cfg(not(target_os = "linux"))]
pub(crate) fn shield() -> Result<(), CliError> {
    Ok(())
}
