//! The package registries that a person's tools are set to. forge knows no host of a registry: it
//! reads the setting that the tool would read.

use std::path::Path;

use sandbox_config::{FoundRegistry, PresetSet, RegistrySetting};

use crate::ambient::Ambient;
use crate::bounded::read_text;

/// Bound on the size of a file with settings, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The registries that settings name.
#[derive(Debug, Default)]
pub(super) struct RegistrySearch {
    /// From variables and files of the person: commands reach them.
    pub(super) own: Vec<FoundRegistry>,
    /// From files of the project. A repository does not choose hosts, so the person is told.
    pub(super) of_project: Vec<FoundRegistry>,
}

/// Looks for the registries, each once.
pub(super) fn find(
    set: &PresetSet,
    project: &Path,
    home: &Path,
    ambient: &Ambient,
) -> RegistrySearch {
    let mut search = RegistrySearch::default();
    for setting in set.registries() {
        let in_files = |of_person: bool| {
            let files = setting.files.iter();
            let files = files.filter(move |file| is_of_person(file) == of_person);
            files.flat_map(|file| in_file(setting, file, project, home))
        };
        let in_variable = setting.env.as_deref().and_then(|name| {
            let found = registries(ambient.var(name)?, name);
            (!found.is_empty()).then_some(found)
        });
        let mut own = in_variable.unwrap_or_else(|| in_files(true).collect());
        // One address fits the variable.
        if let [one] = own.as_mut_slice() {
            one.env.clone_from(&setting.env);
        }
        add(&mut search.own, own);
        add(&mut search.of_project, in_files(false));
    }
    let RegistrySearch { own, of_project } = &mut search;
    of_project.retain(|one| own.iter().all(|known| known.host != one.host));
    search
}

fn add(all: &mut Vec<FoundRegistry>, more: impl IntoIterator<Item = FoundRegistry>) {
    for one in more {
        if !all.contains(&one) {
            all.push(one);
        }
    }
}

fn is_of_person(file: &str) -> bool {
    file.starts_with("~/") || file.starts_with('/')
}

fn in_file(
    setting: &RegistrySetting,
    file: &str,
    project: &Path,
    home: &Path,
) -> Vec<FoundRegistry> {
    let path = match file.strip_prefix("~/") {
        Some(below) => home.join(below),
        None => project.join(file),
    };
    let text = read_text(&path, MAX_BYTES).unwrap_or_default();
    let values = values(&text, &setting.keys);
    values.flat_map(|value| registries(value, file)).collect()
}

/// Returns the values of settings: lines `NAME = VALUE` (INI, TOML, environment) and `NAME: VALUE`
/// (YAML) whose name is one of the keys.
fn values<'t>(text: &'t str, keys: &'t [String]) -> impl Iterator<Item = &'t str> {
    text.lines().filter_map(|line| {
        let line = line.trim();
        let is_name = |name: &str| keys.iter().any(|key| key == name.trim().trim_matches('"'));
        let pair = line.split_once('=').filter(|(name, _)| is_name(name));
        let (_, value) = pair.or_else(|| line.split_once(':').filter(|(name, _)| is_name(name)))?;
        Some(value.trim().trim_matches(['"', '\'']))
    })
}

/// Reads the addresses of a value. GOPROXY separates several by commas or bars.
fn registries(value: &str, place: &str) -> Vec<FoundRegistry> {
    let addresses = value.split([',', '|']);
    addresses
        .filter_map(|address| registry(address, place))
        .collect()
}

/// Reads an address. User name and password are left out: commands do not get them.
fn registry(value: &str, place: &str) -> Option<FoundRegistry> {
    let value = value.trim();
    let address = value.strip_prefix("sparse+").unwrap_or(value);
    let mut url = url::Url::parse(address).ok()?;
    let port = match url.scheme() {
        "https" | "http" => url.port_or_known_default()?,
        _ => return None,
    };
    let host = url.host_str()?.to_owned();
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    Some(FoundRegistry {
        env: None,
        host: format!("{host}:{port}"),
        url: url.to_string(),
        place: place.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_tools() {
        for (text, key, expected) in [
            (
                "registry=https://npm.example.com/a/\n",
                "registry",
                Some("npm.example.com:443"),
            ),
            ("@own:registry=https://npm.example.com/\n", "registry", None),
            (
                "[global]\nindex-url = https://u:p@pip.example.com:8443/simple\n",
                "index-url",
                Some("pip.example.com:8443"),
            ),
            (
                "[source.mirror]\nregistry = \"sparse+https://c.example.com/i/\"\n",
                "registry",
                Some("c.example.com:443"),
            ),
            (
                "npmRegistryServer: \"http://127.0.0.1:4873\"\n",
                "npmRegistryServer",
                Some("127.0.0.1:4873"),
            ),
            ("GOPROXY=off\n", "GOPROXY", None),
            (
                "GOPROXY=off,https://go.example.com|direct\n",
                "GOPROXY",
                Some("go.example.com:443"),
            ),
            ("registry=file:///tmp/x\n", "registry", None),
            ("# registry=https://npm.example.com/\n", "registry", None),
        ] {
            let keys = [key.to_owned()];
            let found = values(text, &keys).find_map(|value| registries(value, "x").pop());
            assert_eq!(
                found.as_ref().map(|one| one.host.as_str()),
                expected,
                "{text}"
            );
            assert!(found.is_none_or(|one| !one.url.contains("u:p")), "{text}");
        }
    }
}
