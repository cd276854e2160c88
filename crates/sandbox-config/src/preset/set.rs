//! Several presets as one: printed by `forge preset show --expanded`, and compiled for a load.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::grant::network::HostLine;
use crate::grant::preset::PresetRights;
use crate::keys::SeenName;
use crate::preset::named_programs;
use crate::preset::{HostGroup, Preset, PresetCredential, PresetState, RegistrySetting};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, Diagnostics};
use crate::syntax::text::{Layer, SourceText, Span};
use sandbox_names::pattern;
use sandbox_network::{Host, HostPattern};

/// The presets of one command, included ones first.
///
/// ```
/// use sandbox_config::{HostGroup, PresetLibrary};
/// let set = PresetLibrary::built_in().compose(&["claude".into()]).unwrap();
/// let hosts: Vec<String> = set.hosts(HostGroup::is_default).collect();
/// assert!(hosts.contains(&"api.anthropic.com:443".to_owned()));
/// assert!(set.keys().any(|key| key == "ANTHROPIC_API_KEY"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct PresetSet {
    presets: Vec<Preset>,
    /// The names from which the others follow.
    named: Vec<String>,
}

/// The decisions of the person and their tools about the presets of one command.
///
/// ```
/// use sandbox_config::{PresetChoice, PresetLibrary};
/// let set = PresetLibrary::built_in().compose(&["claude".into()]).unwrap();
/// assert!(!set.rights(&PresetChoice::default()).unwrap().is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct PresetChoice {
    /// Groups of hosts beside `api` and `login`.
    pub groups: Vec<HostGroup>,
    /// `true` if commands get the person's keys.
    pub keys: bool,
    /// Keys that they do not get although `keys` is `true`.
    pub withheld: Vec<String>,
    /// Keys that forge adds outside, to the servers that the presets name. Those become reachable.
    pub added: Vec<String>,
    /// Directories with the programs of the presets.
    pub programs: Vec<PathBuf>,
    /// Paths in the project that settings of agents name, from its top.
    pub named: Vec<PathBuf>,
    /// Package registries that the person's tools are set to.
    pub registries: Vec<FoundRegistry>,
}

/// The address of a package registry, and where it was found.
///
/// ```
/// let found = sandbox_config::FoundRegistry {
///     env: Some("npm_config_registry".into()),
///     url: "https://npm.example.com/".into(),
///     host: "npm.example.com:443".into(),
///     place: "~/.npmrc".into(),
/// };
/// assert!(found.url.starts_with("https://"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRegistry {
    /// The variable in which commands get it.
    pub env: Option<String>,
    /// The address without user name and password.
    pub url: String,
    /// Host and port.
    pub host: String,
    /// The variable or file that contains it.
    pub place: String,
}

impl PresetSet {
    sandbox_names::getters! {
        /// Returns the presets, included ones first.
        pub presets: &[Preset] = &presets;
        /// Returns the names that a person or a project gave; included presets are not among them.
        pub named: &[String] = &named;
        /// Returns `true` if it has no presets.
        pub is_empty: bool = presets.is_empty();
    }

    pub(super) fn push(&mut self, preset: Preset) {
        self.presets.push(preset);
    }

    pub(super) fn push_named(&mut self, name: &str) {
        if !self.named.iter().any(|known| known == name) {
            self.named.push(name.to_owned());
        }
    }

    /// The key of a project file that names presets.
    pub const KEY: &'static str = "sandbox.presets";

    /// Returns the SHA-256 of everything that the presets add, in hexadecimal.
    ///
    /// ```
    /// let library = sandbox_config::PresetLibrary::built_in();
    /// let hash = |name: &str| library.compose(&[name.to_owned()]).unwrap().sha256();
    /// assert_eq!(hash("rust"), hash("rust"));
    /// assert_ne!(hash("rust"), hash("go"));
    /// ```
    #[must_use]
    pub fn sha256(&self) -> String {
        sandbox_names::hex(Sha256::digest(self.to_json().to_string()))
    }

    /// Returns the texts in a list of each preset.
    fn texts(&self, of: fn(&Preset) -> &[String]) -> impl Iterator<Item = &str> {
        self.presets.iter().flat_map(of).map(String::as_str)
    }

    /// Returns the files and directories of the home directory.
    pub fn state(&self) -> impl Iterator<Item = &PresetState> {
        self.presets.iter().flat_map(|preset| &preset.state)
    }

    /// Returns the names of the presets with state or keys that commands get only after a yes.
    ///
    /// ```
    /// let library = sandbox_config::PresetLibrary::built_in();
    /// let set = library.compose(&["node".into(), "claude".into()]).unwrap();
    /// assert!(set.personal().eq(["claude"]));
    /// ```
    pub fn personal(&self) -> impl Iterator<Item = &str> {
        let is_personal = |preset: &&Preset| {
            let mut state = preset.state.iter();
            state.any(PresetState::needs_yes)
                || !preset.keys.is_empty()
                || !preset.credentials.is_empty()
        };
        let personal = self.presets.iter().filter(is_personal);
        personal.map(|preset| preset.name.as_str())
    }

    /// Returns the files and directories in this state, and in directories of these names in a
    /// project, that settings in it name: programs that the agents outside start.
    ///
    /// ```
    /// let home = tempfile::tempdir().unwrap();
    /// std::fs::create_dir(home.path().join(".claude")).unwrap();
    /// let settings = r#"{ "statusLine": { "command": "bash ~/.claude/line.sh" } }"#;
    /// std::fs::write(home.path().join(".claude/settings.json"), settings).unwrap();
    /// let set = sandbox_config::PresetLibrary::built_in().compose(&["claude".into()]).unwrap();
    /// let named = set.named_programs(home.path(), "/srv/project".as_ref());
    /// assert!(named.contains(&home.path().join(".claude/line.sh")));
    /// ```
    #[must_use]
    pub fn named_programs(&self, home: &Path, project: &Path) -> Vec<PathBuf> {
        named_programs::find(
            self.presets.iter().flat_map(|preset| &preset.state),
            home,
            project,
        )
    }

    /// Returns the settings that contain addresses of package registries.
    pub fn registries(&self) -> impl Iterator<Item = &RegistrySetting> {
        self.presets.iter().flat_map(|preset| &preset.registries)
    }

    /// Returns the names and paths of the programs that commands may run.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.texts(|preset| &preset.programs)
    }

    /// Returns the variables that contain keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.texts(|preset| &preset.keys)
    }

    /// Returns the keys that can stay outside. An entry of a preset replaces those for the same key
    /// in presets that it includes.
    pub fn credentials(&self) -> impl Iterator<Item = &PresetCredential> {
        let presets = self.presets.iter().enumerate();
        let each = presets.flat_map(|(index, preset)| {
            let credentials = preset.credentials.iter();
            credentials.map(move |one| (index, one))
        });
        each.filter(|(index, one)| {
            let mut outer = self.presets.iter().skip(index + 1);
            !outer.any(|preset| {
                preset.credentials.iter().any(|other| other.key == one.key)
                    && self.includes(preset, &self.presets[*index].name)
            })
        })
        .map(|(_, one)| one)
    }

    /// Returns `true` if a preset includes another one. Included presets come before.
    fn includes(&self, outer: &Preset, name: &str) -> bool {
        outer.extends.iter().any(|included| {
            let mut presets = self.presets.iter();
            included == name
                || presets
                    .find(|preset| preset.name == *included)
                    .is_some_and(|preset| self.includes(preset, name))
        })
    }

    /// Returns the variables of the person that commands get without a question.
    pub fn passed(&self) -> impl Iterator<Item = &str> {
        self.texts(|preset| &preset.pass)
    }

    /// Returns the variables with a value, as `NAME=VALUE`.
    pub fn variables(&self) -> impl Iterator<Item = String> {
        let set = self.presets.iter().flat_map(|preset| &preset.set);
        set.map(|(name, value)| format!("{name}={value}"))
    }

    /// Returns the origins whose URLs commands may open in the person's browser.
    ///
    /// ```
    /// let set = sandbox_config::PresetLibrary::built_in().compose(&["codex".into()]).unwrap();
    /// assert!(set.open_urls().eq(["https://auth.openai.com"]));
    /// ```
    pub fn open_urls(&self) -> impl Iterator<Item = &str> {
        self.texts(|preset| &preset.open_urls)
    }

    /// Returns the names of the host and of the user that commands see.
    ///
    /// ```
    /// use sandbox_config::{PresetLibrary, SeenName};
    /// let set = PresetLibrary::built_in().compose(&["gemini".into()]).unwrap();
    /// assert_eq!(set.identity(), [SeenName::Host, SeenName::Host]);
    /// ```
    #[must_use]
    pub fn identity(&self) -> [SeenName; 2] {
        [0, 1].map(|which| {
            let is_host = |preset: &Preset| preset.identity[which] == SeenName::Host;
            match self.presets.iter().any(is_host) {
                true => SeenName::Host,
                false => SeenName::Sandbox,
            }
        })
    }

    /// Returns the built-in protected names that commands may write.
    pub fn unprotected(&self) -> impl Iterator<Item = &str> {
        self.texts(|preset| &preset.unprotect)
    }

    /// Returns the names that are protected in addition.
    pub fn protected(&self) -> impl Iterator<Item = &str> {
        self.texts(|preset| &preset.protect)
    }

    /// Returns the facts that a person should know. That a person has to name hosts is left out for a
    /// preset that another one extends with hosts.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        let has_hosts = |preset: &Preset| {
            let mut extending = self.presets.iter().filter(|one| !one.hosts.is_empty());
            extending.any(|one| one.extends.contains(&preset.name))
        };
        self.presets.iter().flat_map(move |preset| {
            let is_named = has_hosts(preset);
            let notes = preset.notes.iter().map(String::as_str);
            notes.filter(move |note| !(is_named && note.contains("--host ")))
        })
    }

    /// Returns the hosts of some groups.
    pub fn hosts(&self, groups: impl Fn(HostGroup) -> bool) -> impl Iterator<Item = String> {
        let hosts = self.presets.iter().flat_map(|preset| &preset.hosts);
        let hosts = hosts.filter(move |host| groups(host.group));
        hosts.map(|host| host.pattern.to_string())
    }

    /// Returns the group with a host. `port`: 0 for any.
    #[must_use]
    pub fn group_of(&self, host: &Host, port: u16) -> Option<HostGroup> {
        let mut hosts = self.presets.iter().flat_map(|preset| &preset.hosts);
        let found = hosts.find(|one| match port {
            0 => one.pattern.names(host),
            port => one.pattern.matches_host(host, port),
        });
        found.map(|one| one.group)
    }

    /// Returns the rights that the presets add.
    ///
    /// # Errors
    /// The host of a package registry is not a host.
    pub fn rights(&self, choice: &PresetChoice) -> Result<PresetRights, Diagnostics> {
        let is_on = |group: HostGroup| group.is_default() || choice.groups.contains(&group);
        let mut rights = PresetRights {
            programs: choice.programs.clone(),
            ..PresetRights::default()
        };
        for preset in &self.presets {
            let hosts = preset.hosts.iter().filter(|host| is_on(host.group));
            let lines =
                hosts.map(|host| HostLine::allowed(host.pattern.clone(), host.origin.clone()));
            rights.hosts.extend(lines);
            rights.protect.extend(preset.protect.iter().cloned());
            rights.unprotect.extend(preset.unprotect.iter().cloned());
            rights.pass.extend(preset.pass.iter().cloned());
            if choice.keys {
                let keys = preset.keys.iter();
                let handed_in = keys.filter(|key| !choice.withheld.contains(key));
                rights.pass.extend(handed_in.cloned());
            }
            // An outer preset replaces the value of one that it includes.
            rights.set.extend(preset.set.iter().cloned());
        }
        let named = choice.named.iter().filter_map(|path| path.to_str());
        rights.protect.extend(named.map(pattern::covering));
        let added = |one: &&PresetCredential| choice.added.contains(&one.key);
        for one in self.credentials().filter(added) {
            let pattern = HostPattern::exactly(one.server.host(), one.server.port());
            let line = pattern.map(|pattern| HostLine::allowed(pattern, one.origin.clone()));
            rights.hosts.extend(line);
        }
        for found in &choice.registries {
            let text = format!("{}\n", found.host);
            let text = SourceText::inline(found.place.clone(), Layer::CommandLine, text);
            let at = Span::start(&text);
            let pattern = HostPattern::parse(&found.host).map_err(|problem| {
                let message = format!("`{}` is not a host: {problem}", found.host);
                let bad = Diagnostic::error(DiagnosticCode::BadValue, message).at(&at);
                Diagnostics::from(bad.help(problem.help()))
            })?;
            rights.hosts.push(HostLine::allowed(pattern, at.origin()));
            if let Some(name) = &found.env {
                rights.set.insert(name.clone(), found.url.clone());
            }
        }
        Ok(rights)
    }

    /// Returns the arguments and variables that turn off the sandbox of a program itself.
    #[must_use]
    pub fn inner_sandbox(&self, program: &str) -> (&[String], &[(String, String)]) {
        let name = program.rsplit('/').next().unwrap_or(program);
        let mut presets = self.presets.iter().rev();
        let found = presets.find(|preset| preset.commands.iter().any(|known| known == name));
        found.map_or((&[], &[]), |preset| {
            (preset.inner_args.as_slice(), preset.inner_env.as_slice())
        })
    }

    /// Returns the names of the programs whose own sandbox the presets turn off.
    #[must_use]
    pub fn without_inner_sandbox(&self) -> Vec<String> {
        let presets = self.presets.iter().filter(|one| one.turns_off_a_sandbox());
        presets
            .flat_map(|one| one.commands.iter().cloned())
            .collect()
    }

    /// Returns everything that the presets add, for `forge preset show --expanded` and receipts.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let texts = |list: &mut dyn Iterator<Item = &str>| -> Value { list.collect() };
        let hosts = HostGroup::ALL.map(|(group, key)| {
            let hosts: Vec<String> = self.hosts(|one| one == group).collect();
            (key.to_owned(), json!(hosts))
        });
        let state = self.state().map(|state| {
            json!({
                "path": format!("~/{}", state.path),
                "mode": state.mode.to_string(),
                "holds": state.holds,
                "protect": state.protect,
            })
        });
        let registries = self
            .registries()
            .map(|setting| json!({ "env": setting.env, "files": setting.files }));
        let inner = self.presets.iter().filter(|one| one.turns_off_a_sandbox());
        let inner = inner.map(
            |one| json!({ "commands": one.commands, "args": one.inner_args, "env": one.inner_env }),
        );
        let credentials = self.credentials().map(|one| {
            json!({
                "key": one.key,
                "server": one.server.to_string(),
                "base_url": one.base_url,
                "header": one.header,
                "args": one.args,
            })
        });
        let [hostname, user] = self.identity();
        json!({
            "presets": self.hashes(),
            "programs": texts(&mut self.programs()),
            "state": state.collect::<Vec<_>>(),
            "hosts": serde_json::Map::from_iter(hosts),
            "open_urls": texts(&mut self.open_urls()),
            "registries": registries.collect::<Vec<_>>(),
            "env": {
                "keys": texts(&mut self.keys()),
                "pass": texts(&mut self.passed()),
                "set": self.variables().collect::<Vec<_>>(),
            },
            "credentials": credentials.collect::<Vec<_>>(),
            "inner_sandbox": inner.collect::<Vec<_>>(),
            "identity": { "hostname": hostname.to_string(), "user": user.to_string() },
            "protect": texts(&mut self.protected()),
            "unprotect": texts(&mut self.unprotected()),
            "notes": texts(&mut self.notes()),
        })
    }

    /// Returns the name and the SHA-256 of each preset's file.
    #[must_use]
    pub fn hashes(&self) -> Value {
        let each = self.presets.iter();
        let each = each.map(|one| json!({ "name": one.name(), "sha256": one.sha256() }));
        each.collect()
    }
}
