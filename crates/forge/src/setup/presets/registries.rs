//! The package registries that a person's tools are set to. forge knows no host of a registry: it
//! reads the setting that the tool would read.

use std::path::Path;

use sandbox_config::{FoundRegistry, PresetSet, RegistrySetting};

use crate::ambient::Ambient;
use crate::bounded::read_text;

/// Bound on the size of a file with settings, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Returns the registries that the settings name, each once.
pub(super) fn find(
    set: &PresetSet,
    project: &Path,
    home: &Path,
    ambient: &Ambient,
) -> Vec<FoundRegistry> {
    let mut found: Vec<FoundRegistry> = Vec::new();
    for setting in set.registries() {
        for one in of(setting, project, home, ambient) {
            if !found.contains(&one) {
                found.push(one);
            }
        }
    }
    found
}

/// Returns the address in the variable, or else those in the first file that has any.
fn of(
    setting: &RegistrySetting,
    project: &Path,
    home: &Path,
    ambient: &Ambient,
) -> Vec<FoundRegistry> {
    let in_variable = setting.env.as_deref().and_then(|name| {
        let found = registry(ambient.var(name)?, name)?;
        Some(FoundRegistry {
            env: Some(name.to_owned()),
            ..found
        })
    });
    if let Some(found) = in_variable {
        return vec![found];
    }
    for file in &setting.files {
        let path = match file.strip_prefix("~/") {
            Some(below) => home.join(below),
            None => project.join(file),
        };
        let Ok(text) = read_text(&path, MAX_BYTES) else {
            continue;
        };
        let values = values(&text, &setting.keys);
        let found: Vec<FoundRegistry> = values.filter_map(|value| registry(value, file)).collect();
        if let [one] = found.as_slice() {
            return vec![FoundRegistry {
                env: setting.env.clone(),
                ..one.clone()
            }];
        }
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
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

/// Reads an address. User name and password are left out: commands do not get them.
fn registry(value: &str, place: &str) -> Option<FoundRegistry> {
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
            ("registry=file:///tmp/x\n", "registry", None),
            ("# registry=https://npm.example.com/\n", "registry", None),
        ] {
            let keys = [key.to_owned()];
            let found = values(text, &keys).find_map(|value| registry(value, "x"));
            assert_eq!(
                found.as_ref().map(|one| one.host.as_str()),
                expected,
                "{text}"
            );
            assert!(found.is_none_or(|one| !one.url.contains("u:p")), "{text}");
        }
    }
}
