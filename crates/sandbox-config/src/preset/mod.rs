//! Presets: the hosts, programs, state and variables that a known program needs, as data. A preset
//! only adds rights, and only where a person names it for one command.

pub(crate) mod library;
mod named_programs;
mod read;
pub(crate) mod server_url;
pub(crate) mod set;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::keys::{SeenName, StateMode};
use crate::syntax::text::ConfigOrigin;
use sandbox_network::HostPattern;
use server_url::ServerUrl;

/// One preset file.
///
/// ```
/// use sandbox_config::PresetLibrary;
/// let claude = PresetLibrary::built_in().read("claude").unwrap();
/// assert_eq!(claude.commands(), ["claude"]);
/// assert!(claude.file().is_none());
/// ```
#[derive(Clone, Debug)]
pub struct Preset {
    name: String,
    about: String,
    file: Option<PathBuf>,
    text: String,
    sha256: String,
    extends: Vec<String>,
    verified: Option<VerifiedVersion>,
    commands: Vec<String>,
    programs: Vec<String>,
    state: Vec<PresetState>,
    hosts: Vec<PresetHost>,
    open_urls: Vec<String>,
    registries: Vec<RegistrySetting>,
    keys: Vec<String>,
    pass: Vec<String>,
    credentials: Vec<PresetCredential>,
    set: Vec<(String, String)>,
    inner_args: Vec<String>,
    inner_env: Vec<(String, String)>,
    /// The names of the host and of the user.
    identity: [SeenName; 2],
    protect: Vec<String>,
    unprotect: Vec<String>,
    notes: Vec<String>,
}

impl Preset {
    sandbox_names::getters! {
        /// Returns the name.
        pub name: &str = &name;
        /// Returns the program that it is for, in one line.
        pub about: &str = &about;
        /// Returns the person's file; `None` for a built-in preset.
        pub file: Option<&Path> = file.as_deref();
        /// Returns the text of the file.
        pub text: &str = &text;
        /// Returns the SHA-256 of the text, in hexadecimal.
        pub sha256: &str = &sha256;
        /// Returns the names of the presets that it includes.
        pub extends: &[String] = &extends;
        /// Returns the version of the program that it was tried with.
        pub verified: Option<&VerifiedVersion> = verified.as_ref();
        /// Returns the names of the programs that it is for.
        pub commands: &[String] = &commands;
    }

    pub(crate) fn turns_off_a_sandbox(&self) -> bool {
        !(self.inner_args.is_empty() && self.inner_env.is_empty())
    }

    /// Returns `true` if it names hosts.
    pub(crate) fn has_hosts(&self) -> bool {
        !self.hosts.is_empty()
    }
}

/// The version of a program that a preset was tried with.
///
/// ```
/// let claude = sandbox_config::PresetLibrary::built_in().read("claude").unwrap();
/// assert!(claude.verified().is_some_and(|verified| !verified.version.is_empty()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedVersion {
    /// The program.
    pub tool: String,
    /// Its version.
    pub version: String,
    /// The day, `YYYY-MM-DD`.
    pub date: String,
    /// The extent of the trial.
    pub how: Option<String>,
}

/// A file or directory that a program keeps in the home directory.
///
/// ```
/// use sandbox_config::{PresetLibrary, StateMode};
/// let set = PresetLibrary::built_in().compose(&["claude".into()]).unwrap();
/// let login = set.state().find(|state| state.path == ".claude").unwrap();
/// assert_eq!(login.mode, StateMode::Share);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetState {
    /// The path below the home directory.
    pub path: String,
    /// The way in which commands get it.
    pub mode: StateMode,
    /// The contents that a question about it names.
    pub holds: Vec<String>,
    /// Patterns of names in it that commands do not change.
    pub protect: Vec<String>,
}

impl PresetState {
    /// Returns `true` if commands get it only after the person's yes.
    #[must_use]
    pub fn needs_yes(&self) -> bool {
        self.mode != StateMode::Read || !self.holds.is_empty()
    }
}

/// A key that stays outside, and the one server to which forge adds it.
///
/// ```
/// let set = sandbox_config::PresetLibrary::built_in().compose(&["claude".into()]).unwrap();
/// let credential = set.credentials().next().unwrap();
/// assert_eq!(credential.key, "ANTHROPIC_API_KEY");
/// assert_eq!(credential.header, "x-api-key");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetCredential {
    /// The variable with the key.
    pub key: String,
    /// The server.
    pub server: ServerUrl,
    /// The variable in which the program reads the base URL. `None`: it speaks TLS to the server's own
    /// name.
    pub base_url: Option<String>,
    /// The header with the key.
    pub header: String,
    /// The text in place of the key.
    pub placeholder: String,
    pub(crate) args: Vec<String>,
    pub(crate) commands: Vec<String>,
    pub(crate) origin: ConfigOrigin,
}

impl PresetCredential {
    /// Returns the arguments that lead a program to a base URL. Most programs read a variable.
    ///
    /// ```
    /// let set = sandbox_config::PresetLibrary::built_in().compose(&["codex".into()]).unwrap();
    /// let credential = set.credentials().next().unwrap();
    /// let url = "http://127.0.0.1:3129/v1";
    /// assert!(credential.arguments("codex", url)[1].contains(url));
    /// assert!(credential.arguments("bash", url).is_empty());
    /// ```
    #[must_use]
    pub fn arguments(&self, program: &str, base_url: &str) -> Vec<String> {
        let name = program.rsplit('/').next().unwrap_or(program);
        let args = self
            .args
            .iter()
            .filter(|_| self.commands.iter().any(|known| known == name));
        args.map(|argument| argument.replace("{base_url}", base_url))
            .collect()
    }
}

/// A host of a preset.
#[derive(Clone, Debug)]
pub(crate) struct PresetHost {
    pub(crate) group: HostGroup,
    pub(crate) pattern: HostPattern,
    pub(crate) origin: ConfigOrigin,
}

/// A group of hosts of a preset.
///
/// ```
/// use sandbox_config::HostGroup;
/// assert!(HostGroup::Api.is_default() && !HostGroup::Telemetry.is_default());
/// assert_eq!(HostGroup::Update.to_string(), "update");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostGroup {
    /// Hosts that the program works with.
    Api,
    /// Hosts of a login.
    Login,
    /// Hosts from which the program updates itself.
    Update,
    /// Hosts that the program reports its use to.
    Telemetry,
}

impl HostGroup {
    /// Every group, with its key in a preset file.
    pub const ALL: [(HostGroup, &'static str); 4] = [
        (HostGroup::Api, "api"),
        (HostGroup::Login, "login"),
        (HostGroup::Update, "update"),
        (HostGroup::Telemetry, "telemetry"),
    ];

    /// Returns `true` if commands reach the group unless the person says otherwise.
    #[must_use]
    pub fn is_default(self) -> bool {
        matches!(self, HostGroup::Api | HostGroup::Login)
    }
}

impl fmt::Display for HostGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = HostGroup::ALL.iter().find(|(group, _)| group == self);
        f.write_str(found.map_or("", |(_, key)| key))
    }
}

/// A setting of a person's tools that contains the address of a package registry.
///
/// ```
/// let set = sandbox_config::PresetLibrary::built_in().compose(&["node".into()]).unwrap();
/// assert!(set.registries().any(|setting| setting.env.as_deref() == Some("npm_config_registry")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrySetting {
    /// The variable that contains the address.
    pub env: Option<String>,
    /// Files with the setting, relative to the project or with a leading `~/`.
    pub files: Vec<String>,
    /// Patterns of the names of the setting in the files.
    pub keys: Vec<String>,
    /// The variable that names a copy of the person's file.
    pub copy: Option<String>,
    /// Patterns of further settings in the copy.
    pub keep: Vec<String>,
}
