//! Settings of a person's tools that make installs safer or lead them to the right place, for
//! commands in a kept home directory: copies of files with the settings that a preset names, and the
//! authorities that the person's variables name. No copy has a user name or a password.

use std::io;
use std::path::Path;

use sandbox_config::{PresetSet, RegistrySetting};

use super::registries::{own_files, path_of, settings};
use super::run_authority::VARIABLES;
use crate::ambient::Ambient;
use crate::bounded::read_text;
use crate::setup::command_dir::CommandDir;

/// Bound on a file with settings.
const MAX_BYTES: u64 = 1 << 20;
/// Bound on a file with authorities.
const MAX_AUTHORITY_BYTES: u64 = 8 << 20;

/// The copies of one command, and the variables that name them.
#[derive(Debug)]
pub(super) struct ToolSettings {
    dir: CommandDir,
    pub(super) variables: Vec<(String, String)>,
}

impl ToolSettings {
    /// Writes the copies below `state`; `None` if the person has nothing to copy. `ends_tls`: commands
    /// get the authority of the run, which has those of the person.
    pub(super) fn create(
        set: &PresetSet,
        (home, state): (&Path, &Path),
        ambient: &Ambient,
        ends_tls: bool,
    ) -> io::Result<Option<ToolSettings>> {
        let copies = set.registries().filter_map(|setting| {
            let variable = setting.copy.clone()?;
            // A file that the person's variable names is the tool's own business.
            let is_free = ambient.var(&variable).is_none();
            let text = is_free.then(|| copy(setting, home)).flatten()?;
            Some((variable, text))
        });
        let authorities = VARIABLES.iter().filter(|_| !ends_tls).filter_map(|name| {
            let file = ambient.var(name)?;
            let text = read_text(Path::new(file), MAX_AUTHORITY_BYTES).ok()?;
            // Only certificates are public.
            let is_public = text.contains("-----BEGIN") && !text.contains("PRIVATE KEY-----");
            is_public.then(|| ((*name).to_owned(), text))
        });
        let files: Vec<(String, String)> = copies.chain(authorities).collect();
        if files.is_empty() {
            return Ok(None);
        }
        let dir = CommandDir::create(state, "settings")?;
        let mut variables = Vec::new();
        for (variable, text) in files {
            let path = dir.path().join(&variable);
            std::fs::write(&path, text)?;
            variables.push((variable, path.display().to_string()));
        }
        Ok(Some(ToolSettings { dir, variables }))
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// Returns the settings that commands get of the person's files. `None` if none is in the home directory:
/// commands see the files of the system.
///
/// The copy takes the place of a file of the system (npm), so it has the settings of that too, where the
/// later one of two lines counts. In files with sections the same section twice is an error (pip), and
/// the tool reads the file of the system beside the copy.
fn copy(setting: &RegistrySetting, home: &Path) -> Option<String> {
    let read = |file: &String| read_text(&path_of(file, home, home), MAX_BYTES).ok();
    let (own, of_system): (Vec<_>, Vec<_>) =
        own_files(setting, home).partition(|file| file.starts_with('~'));
    let own = own.into_iter().find_map(read)?;
    let has_sections = own.lines().any(|line| line.trim_start().starts_with('['));
    let of_system: Vec<String> = match has_sections {
        true => Vec::new(),
        false => of_system.into_iter().filter_map(read).collect(),
    };
    let wanted = [&*setting.keys, &*setting.keep].concat();
    let home = format!("{}/", home.display());
    let mut copy = String::new();
    let mut has_one = false;
    for text in of_system.iter().chain([&own]) {
        for setting in settings(text, &wanted) {
            let line = setting.line;
            // Values of npm, whose file has no sections, end with the line. A variable is not there, and
            // may hold a key.
            let is_kept = setting.is_wanted
                && (has_sections || !setting.goes_on)
                && !line.contains("${")
                && !is_credential(line);
            has_one |= is_kept;
            if is_kept || line.trim_start().starts_with('[') {
                // Commands have another home directory.
                copy += &without_user(line).replace(&home, "~/");
                copy.push('\n');
            }
        }
    }
    has_one.then_some(copy)
}

/// `true` for a line that sets a token, a password or a user name, also of one server (`//host/:_auth=`).
fn is_credential(line: &str) -> bool {
    let name = line.split('=').next().unwrap_or_default().trim();
    let name = name.to_ascii_lowercase();
    let secret = ["_auth", "password", "username", "token"];
    !name.contains("://")
        && (name.starts_with("//") || secret.iter().any(|word| name.contains(word)))
}

/// Returns a line with the addresses in it without user names and passwords.
fn without_user(line: &str) -> String {
    let mut parts = line.split("://");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(['/', '?', '#', '"', '\'', ' ', '\t', ',']);
        let (host, rest) = part.split_at(end.unwrap_or(part.len()));
        let host = host.rsplit('@').next().unwrap_or_default();
        out += &format!("://{host}{rest}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_no_credential() {
        let home = tempfile::tempdir().unwrap();
        let setting = RegistrySetting {
            env: None,
            files: vec!["x".to_owned(), "~/rc".to_owned()],
            keys: vec!["registry".to_owned(), "@*:registry".to_owned()],
            copy: Some("X".to_owned()),
            keep: vec![
                "ignore-scripts".to_owned(),
                "index".to_owned(),
                "prefix".to_owned(),
            ],
        };
        assert_eq!(copy(&setting, home.path()), None);
        let text = format!(
            "registry=https://u:p@a.example/\n//a.example/:_authToken=secret\n\
             @own:registry = https://u@b.example/x@y\n_password=secret\nemail=me\n\
             [global]\nindex =\n  https://u:p@c.example/a https://d.example\n  ${{TOKEN}}\n\
             password = secret\n  secret\nignore-scripts=true\nregistry=https://${{T}}@a.example/\n\
             prefix={}/.npm\n",
            home.path().display()
        );
        std::fs::write(home.path().join("rc"), text).unwrap();
        let expected = "registry=https://a.example/\n@own:registry = https://b.example/x@y\n[global]\n\
                        index =\n  https://c.example/a https://d.example\nignore-scripts=true\n\
                        prefix=~/.npm\n";
        assert_eq!(copy(&setting, home.path()).as_deref(), Some(expected));
        std::fs::write(home.path().join("rc"), "[global]\nemail=me\n").unwrap();
        assert_eq!(copy(&setting, home.path()), None);
        // npm's lines may be indented, and none goes on.
        for (start, next) in [("", ""), ("  ", "  "), ("", "  "), ("  ", "    ")] {
            let secrets = ["//a.example/:_authToken", "_auth", "_password", "username"];
            for secret in secrets {
                let text = format!("{start}registry=https://a.example/\n{next}{secret}=SECRET\n");
                std::fs::write(home.path().join("rc"), text).unwrap();
                let expected = format!("{start}registry=https://a.example/\n");
                assert_eq!(copy(&setting, home.path()), Some(expected), "{secret}");
            }
        }
    }

    #[test]
    fn a_copy_in_the_place_of_a_file_of_the_system_has_its_settings() {
        let dir = tempfile::tempdir().unwrap();
        let (home, system) = (dir.path().join("home"), dir.path().join("npmrc"));
        std::fs::create_dir(&home).unwrap();
        let setting = RegistrySetting {
            env: None,
            files: vec!["~/rc".to_owned(), system.to_string_lossy().into_owned()],
            keys: vec!["registry".to_owned()],
            copy: Some("X".to_owned()),
            keep: vec!["cafile".to_owned(), "index".to_owned()],
        };
        let both = "registry=https://a.example/\ncafile=/etc/ca.pem\n";
        std::fs::write(&system, format!("{both}email=me\n")).unwrap();
        // The tool reads it itself.
        assert_eq!(copy(&setting, &home), None);
        for (own, expected) in [
            ("email=me\n", Some(both.to_owned())),
            (
                "registry=https://b.example/\n",
                Some(format!("{both}registry=https://b.example/\n")),
            ),
            ("[global]\nemail=me\n", None),
            (
                "[global]\nindex=https://b.example/\n",
                Some("[global]\nindex=https://b.example/\n".to_owned()),
            ),
        ] {
            std::fs::write(home.join("rc"), own).unwrap();
            assert_eq!(copy(&setting, &home), expected, "{own}");
        }
    }
}
