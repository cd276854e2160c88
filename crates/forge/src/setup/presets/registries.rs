//! The package registries that a person's tools are set to. forge knows no host of a registry: it
//! reads the setting that the tool would read.

use std::path::{Path, PathBuf};

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
        let in_project = setting.files.iter().filter(|file| !is_of_person(file));
        let in_project = in_project.flat_map(|file| in_file(setting, file, project, home));
        let files: Vec<&String> = own_files(setting, home).collect();
        let in_own = files
            .iter()
            .flat_map(|file| in_file(setting, file, project, home));
        let in_variable = setting.env.as_deref().and_then(|name| {
            let found = registries(ambient.var(name)?, name);
            (!found.is_empty()).then_some(found)
        });
        let mut own = in_variable.unwrap_or_else(|| in_own.collect());
        // The first file with the setting counts, and one address fits the variable.
        let sets = |file: &&&String| {
            let text = read_text(&path_of(file, project, home), MAX_BYTES).unwrap_or_default();
            values(&text, &setting.keys).next().is_some()
        };
        let deciding = files.iter().find(sets);
        if let Some((first, rest)) = own.split_first_mut()
            && deciding.is_none_or(|file| first.place == **file)
            && rest.iter().all(|one| one.place != first.place)
        {
            first.env.clone_from(&setting.env);
        }
        add(&mut search.own, own);
        add(&mut search.of_project, in_project);
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

/// Returns the files of the person: those in the home directory, and the first of the system's that is
/// there. A tool reads one of these.
pub(super) fn own_files<'s>(
    setting: &'s RegistrySetting,
    home: &Path,
) -> impl Iterator<Item = &'s String> {
    let files = |start| {
        setting
            .files
            .iter()
            .filter(move |file| file.starts_with(start))
    };
    let of_system = files("/").find(|file| path_of(file, home, home).is_file());
    files("~/").chain(of_system)
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
    let text = read_text(&path_of(file, project, home), MAX_BYTES).unwrap_or_default();
    values(&text, &setting.keys)
        .flat_map(|value| registries(value, file))
        .collect()
}

/// Returns the path of a file that a preset names.
pub(super) fn path_of(file: &str, project: &Path, home: &Path) -> PathBuf {
    match file.strip_prefix("~/") {
        Some(below) => home.join(below),
        None => project.join(file),
    }
}

/// A line of a file with settings.
pub(super) struct SettingLine<'t> {
    pub(super) line: &'t str,
    /// `true` if it sets one of the keys, or goes on with its value.
    pub(super) is_wanted: bool,
    /// `true` in a value that began in a line before.
    pub(super) goes_on: bool,
}

/// Reads lines `NAME = VALUE` (INI, TOML, environment), `NAME: VALUE` (YAML) and `NAME "VALUE"` (Yarn 1).
/// A value goes on in lines that are indented more, to the end of a list.
pub(super) fn settings<'t>(
    text: &'t str,
    keys: &'t [String],
) -> impl Iterator<Item = SettingLine<'t>> {
    // The indentation of the line with the key, while its value may go on.
    let mut key = None;
    text.lines().map(move |line| {
        let indent = line.len() - line.trim_start().len();
        let goes_on = key.is_some_and(|key| indent > key || line.starts_with(']'));
        // The name of a scope has a colon.
        let mut ends = line.match_indices(['=', ':', ' ']);
        let has_key = ends.any(|(end, _)| is_one_of(keys, &line[..end]));
        match (has_key, goes_on) {
            (true, _) => key = Some(indent),
            (false, true) => {}
            (false, false) => key = None,
        }
        SettingLine {
            line,
            is_wanted: has_key || goes_on,
            goes_on,
        }
    })
}

fn is_one_of(keys: &[String], name: &str) -> bool {
    let name = name.trim().trim_matches('"');
    keys.iter().any(|key| match key.split_once('*') {
        Some((start, end)) => {
            name.len() >= key.len() && name.starts_with(start) && name.ends_with(end)
        }
        None => key == name,
    })
}

/// Returns the lines of settings.
fn values<'t>(text: &'t str, keys: &'t [String]) -> impl Iterator<Item = &'t str> {
    let wanted = settings(text, keys).filter(|one| one.is_wanted);
    wanted.map(|one| one.line)
}

/// Reads the addresses of a value. GOPROXY separates several by commas or bars, pip by spaces.
fn registries(value: &str, place: &str) -> Vec<FoundRegistry> {
    let addresses = value.split([',', '|', ' ', '\t', '"', '\'', '=']);
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
                "@own:registry=https://npm.example.com/\n",
                "@*:registry",
                Some("npm.example.com:443"),
            ),
            (
                "registry \"https://npm.example.com/\"\n",
                "registry",
                Some("npm.example.com:443"),
            ),
            (
                "[x]\nextra-index-url =\n    https://u:p@a.example.com/x\n    https://b.example.com\nc=d\n",
                "extra-index-url",
                Some("b.example.com:443"),
            ),
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
            let found = values(text, &keys).filter_map(|value| registries(value, "x").pop());
            let found = found.last();
            assert_eq!(
                found.as_ref().map(|one| one.host.as_str()),
                expected,
                "{text}"
            );
            assert!(found.is_none_or(|one| !one.url.contains("u:p")), "{text}");
        }
    }
}
