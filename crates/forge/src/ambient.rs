//! The process environment, read once at the start: variables, directories, terminal.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use etcetera::BaseStrategy as _;
use forge_tools::Redactor;
use sandbox_config::ReservedPath;

use crate::cli::{Colors, Global};
use crate::exit::CliError;
use crate::output::describe::TextLayout;
use crate::queue::QueueDirs;
use crate::setup::parent_proxy;

/// A redactor, and the texts that it was made for.
type CachedRedactor = (Vec<String>, Arc<Redactor>);

/// Our surroundings.
#[derive(Debug, Clone)]
pub(crate) struct Ambient {
    /// The options of every command.
    pub(crate) global: Global,
    /// The environment, values that are UTF-8.
    pub(crate) env: Vec<(String, String)>,
    /// Variables whose values are not UTF-8.
    not_text: Vec<(String, OsString)>,
    /// The person's home.
    pub(crate) home: Option<PathBuf>,
    /// Their own configuration file.
    pub(crate) user_file: Option<PathBuf>,
    /// The state directory.
    pub(crate) state: Option<PathBuf>,
    /// The person's directory for sockets, gone when they log out.
    pub(crate) runtime: Option<PathBuf>,
    /// `true` if output on the terminal may be coloured.
    pub(crate) colour: bool,
    /// `true` if the result may be coloured.
    pub(crate) colour_of_result: bool,
    /// `true` if stderr is a terminal that supports cursor movement.
    pub(crate) supports_cursor: bool,
    /// `true` if standard output is a terminal.
    pub(crate) stdout_terminal: bool,
    /// `true` if a person can see a question and type an answer.
    pub(crate) terminal: bool,
    /// `true` if any of the three standard streams is a terminal.
    pub(crate) any_terminal: bool,
    /// Directories that os-sandbox keeps between runs, each with the variable that names it.
    sandbox_keeps: Vec<(PathBuf, &'static str)>,
    /// The last one made.
    redactor: Arc<Mutex<Option<CachedRedactor>>>,
}

/// Variables of forge with paths, which need not be UTF-8.
const PATHS: [&str; 2] = ["FORGE_CONFIG", "FORGE_STATE_DIR"];

/// Variables of the environment.
type Variables<T> = Vec<(String, T)>;

/// Returns the variables of the environment, those that are text and the others.
fn variables() -> (Variables<String>, Variables<OsString>) {
    let (mut text, mut other) = (Vec::new(), Vec::new());
    for (name, value) in std::env::vars_os() {
        let Ok(name) = name.into_string() else {
            continue;
        };
        match value.into_string() {
            Ok(value) => text.push((name, value)),
            // A setting that cannot be read is a mistake, not an absent one.
            Err(value) if name.starts_with("FORGE__") => {
                text.push((name, value.to_string_lossy().into_owned()));
            }
            Err(value) => other.push((name, value)),
        }
    }
    (text, other)
}

/// Returns `true` if a variable of this name decides what forge reaches and does, as text.
fn must_be_text(name: &str) -> bool {
    let is_engine = matches!(name, "DOCKER_HOST" | "DOCKER_TLS_VERIFY");
    let is_own = name.starts_with("FORGE_") && !PATHS.contains(&name);
    is_engine || is_own || parent_proxy::reads(name)
}

/// Returns the person's own file. Both endings are read, as those of a project file are.
fn user_file(settings: &Path) -> PathBuf {
    let [usual, other] = ["config.yaml", "config.yml"].map(|name| settings.join(name));
    match !usual.exists() && other.exists() {
        true => other,
        false => usual,
    }
}

impl Ambient {
    /// Looks around.
    pub(crate) fn from_env(global: Global) -> Self {
        let (env, not_text) = variables();
        let dirs = etcetera::choose_base_strategy().ok();
        let named = |name: &str| path(&env, &not_text, name);
        let state = named("FORGE_STATE_DIR").or_else(|| {
            let dirs = dirs.as_ref()?;
            Some(
                dirs.state_dir()
                    .unwrap_or_else(|| dirs.data_dir())
                    .join("forge"),
            )
        });
        let dumb = named("TERM").is_some_and(|term| term.as_os_str() == "dumb");
        let supports_cursor = std::io::stderr().is_terminal() && !dumb;
        let colour = |screen: bool| match global.color {
            Some(Colors::Always) => true,
            Some(Colors::Never) => false,
            Some(Colors::Auto) | None => match (named("NO_COLOR"), named("CLICOLOR_FORCE")) {
                (Some(_), _) => false,
                (None, Some(force)) if force.as_os_str() != "0" => true,
                (None, _) => screen,
            },
        };
        Ambient {
            home: dirs.as_ref().map(|dirs| dirs.home_dir().to_owned()),
            user_file: dirs
                .as_ref()
                .map(|dirs| user_file(&dirs.config_dir().join("forge"))),
            state,
            runtime: named("XDG_RUNTIME_DIR"),
            colour: colour(supports_cursor),
            colour_of_result: colour(std::io::stdout().is_terminal() && !dumb),
            supports_cursor,
            stdout_terminal: std::io::stdout().is_terminal(),
            any_terminal: std::io::stdin().is_terminal()
                || std::io::stdout().is_terminal()
                || std::io::stderr().is_terminal(),
            terminal: std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
            sandbox_keeps: dirs.as_ref().map_or_else(Vec::new, |dirs| {
                let cache = (dirs.cache_dir(), "XDG_CACHE_HOME");
                let state = dirs.state_dir().map(|state| (state, "XDG_STATE_HOME"));
                let below = |(dir, name): (PathBuf, _)| (dir.join("os-sandbox"), name);
                [cache].into_iter().chain(state).map(below).collect()
            }),
            redactor: Arc::default(),
            env,
            not_text,
            global,
        }
    }

    /// Returns the state directory.
    pub(crate) fn state_dir(&self) -> Result<&Path, CliError> {
        self.state.as_deref().ok_or_else(CliError::no_home)
    }

    /// One variable of the environment, if it is set and not empty.
    pub(crate) fn var(&self, name: &str) -> Option<&str> {
        self.env
            .iter()
            .find(|(known, value)| known == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// Returns the path in one variable of the environment, which need not be UTF-8.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        path(&self.env, &self.not_text, name)
    }

    /// Returns the layout of results.
    pub(crate) fn layout(&self) -> TextLayout {
        let width = crate::output::stderr::stdout_width().filter(|_| self.stdout_terminal);
        TextLayout {
            width,
            colour: self.colour_of_result,
        }
    }

    /// The directory of the person's rules for single projects.
    pub(crate) fn personal_rules(&self) -> Option<PathBuf> {
        let settings = self.user_file.as_deref()?.parent()?;
        Some(settings.join("projects"))
    }

    /// Returns the directories of a project's approval queue.
    pub(crate) fn queue(&self, project: &Path) -> QueueDirs {
        QueueDirs::of(project, self.runtime.as_deref(), self.state.as_deref())
    }

    /// Returns the paths that no worker may reach, even if a project mounts them: a writer there
    /// could agree, answer and forget in the user's name.
    pub(crate) fn out_of_reach(&self) -> Vec<ReservedPath> {
        let mut own = Vec::new();
        if let Some(state) = &self.state {
            own.push((state.clone(), "forge's state directory", "FORGE_STATE_DIR"));
        }
        if let Some(file) = &self.user_file {
            let dir = file.parent().unwrap_or(file);
            let dir = (
                dir.to_owned(),
                "forge's configuration directory",
                "XDG_CONFIG_HOME",
            );
            own.push(dir);
            // It may be a link to where the person keeps their settings.
            own.push((
                file.clone(),
                "the person's own configuration",
                "XDG_CONFIG_HOME",
            ));
        }
        let uid = rustix::process::geteuid().as_raw();
        let usual = PathBuf::from(format!("/run/user/{uid}"));
        for runtime in self.runtime.iter().chain([&usual]) {
            let dir = runtime.join("forge");
            own.push((
                dir,
                "the requests that wait for an answer",
                "XDG_RUNTIME_DIR",
            ));
        }
        for (dir, moved_by) in &self.sandbox_keeps {
            own.push((
                dir.clone(),
                "what the OS sandbox keeps between runs",
                moved_by,
            ));
        }
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        own.into_iter()
            .map(|(path, noun, moved_by)| ReservedPath::new(absolute(path), noun, moved_by))
            .collect()
    }

    /// Refuses an environment in which others could change forge's own files: a home that is not an
    /// absolute path, and directories of forge that are links or that others can write.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        for name in ["HOME", "FORGE_STATE_DIR"] {
            let value = self.path(name);
            if let Some(path) = value.filter(|path| !path.is_absolute()) {
                let shown = crate::output::escape::escape_path(&path);
                let failure = format!("invalid {name} `{shown}`: it must be an absolute path");
                return Err(CliError::misuse("state", failure));
            }
        }
        // Without it, docker would verify its engine, and a client would use the proxy.
        let mut names = self.not_text.iter().map(|(name, _)| name);
        if let Some(name) = names.find(|name| must_be_text(name)) {
            let name = crate::output::escape::escape(name);
            let failure = format!("invalid {name}: the value is not UTF-8");
            let failure = CliError::misuse("config.bad_value", failure);
            return Err(failure.hint("correct it, or unset it"));
        }
        let state = self.state.as_deref();
        // Deeper directories are checked where they are used.
        let below = ["runs", "approvals", "git", "http"];
        let own = state
            .into_iter()
            .flat_map(|state| below.map(|name| state.join(name)));
        let own = state.map(Path::to_owned).into_iter().chain(own);
        let own = own.map(|dir| (dir, "FORGE_STATE_DIR"));
        // The directory of settings may be a link to where a person keeps theirs.
        let settings = self.user_file.as_deref().and_then(Path::parent);
        let settings = settings.and_then(|dir| dir.canonicalize().ok());
        let rules = settings.as_ref().map(|dir| dir.join("projects"));
        let settings = settings.into_iter().chain(rules);
        let settings = settings.map(|dir| (dir, "XDG_CONFIG_HOME"));
        let kept = self.sandbox_keeps.iter().cloned();
        for (dir, moved_by) in own.chain(settings).chain(kept) {
            crate::state::private_dirs::check_own(&dir).map_err(|error| {
                let error = error.to_string();
                // chmod(1) changes no owner.
                let repair = match error.contains("another user") {
                    true => "its owner can give it to you (sudo chown)",
                    false => "give it to yourself alone (chmod u+rwx,go-w)",
                };
                CliError::misuse(
                    "state",
                    format!("a directory that forge keeps files in cannot be used: {error}"),
                )
                .hint(format!(
                    "look at what is there; {repair}, or move it with {moved_by}"
                ))
            })?;
        }
        Ok(())
    }

    /// `true` if the user has turned off all questions.
    pub(crate) fn no_questions(&self, no_input: bool) -> bool {
        no_input || self.var("FORGE_NO_INPUT").is_some()
    }

    /// Returns the redactor of the environment's secrets and of these texts of a project, for
    /// models and for records. The same texts give the same redactor: a placeholder can be written
    /// back after any change of the configuration.
    pub(crate) fn redactor(&self, texts: &[String]) -> Arc<Redactor> {
        let mut last = self.redactor.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, redactor)) = last.as_ref()
            && of == texts
        {
            return Arc::clone(redactor);
        }
        let secrets = self.env.iter().filter(|(name, _)| holds_secret(name));
        let secrets = secrets.map(|(name, value)| (name.as_str(), value.as_str()));
        let named = texts.iter().map(|text| ("text", text.as_str()));
        let made = Arc::new(Redactor::new(secrets.chain(named)));
        *last = Some((texts.to_vec(), Arc::clone(&made)));
        made
    }

    /// Returns the reason why no person can be asked, if there is one.
    pub(crate) fn reason_not_to_ask(&self, no_input: bool) -> Option<&'static str> {
        if no_input {
            Some("--no-input was given")
        } else if self.var("FORGE_NO_INPUT").is_some() {
            Some("FORGE_NO_INPUT is set")
        } else if self.var("CI").is_some() {
            Some("CI is set")
        } else if !self.terminal {
            Some("there is no terminal")
        } else {
            None
        }
    }
}

fn path(env: &[(String, String)], not_text: &[(String, OsString)], name: &str) -> Option<PathBuf> {
    let text = env.iter().map(|(known, value)| (known, OsStr::new(value)));
    let other = not_text.iter().map(|(known, value)| (known, &**value));
    text.chain(other)
        .find(|(known, value)| *known == name && !value.is_empty())
        .map(|(_, value)| PathBuf::from(value))
}

/// `true` if variables of this name hold secrets by custom.
fn holds_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["_KEY", "_TOKEN", "_SECRET"]
        .iter()
        .any(|end| name.ends_with(end))
        || name.contains("PASSWORD")
}
