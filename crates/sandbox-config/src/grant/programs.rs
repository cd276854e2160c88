//! `sandbox.programs`: directories with programs outside the system's own, such as `~/.cargo/bin`.

use std::path::{Path, PathBuf};

/// Version managers that search for their programs below HOME, which commands have one of their own
/// for: the directory's name, and the variable that contains its path.
const HOMES: [(&str, &str); 11] = [
    (".asdf", "ASDF_DATA_DIR"),
    (".bun", "BUN_INSTALL"),
    (".goenv", "GOENV_ROOT"),
    (".jenv", "JENV_ROOT"),
    (".nodenv", "NODENV_ROOT"),
    (".nvm", "NVM_DIR"),
    (".pyenv", "PYENV_ROOT"),
    (".rbenv", "RBENV_ROOT"),
    (".rustup", "RUSTUP_HOME"),
    (".sdkman", "SDKMAN_DIR"),
    (".volta", "VOLTA_HOME"),
];

/// Version managers that need no variable.
const FURTHER: [&str; 6] = [".fnm", ".ghcup", ".nodebrew", ".rvm", ".swiftly", ".opam"];

/// Returns `true` for the name of a version manager's directory in a home directory, such as `.nvm`.
/// Its programs need all of it. Of other directories only the programs are shown: keys and state of
/// a program can be beside it.
///
/// ```
/// use sandbox_config::is_version_manager;
/// assert!(is_version_manager(".nvm") && !is_version_manager(".claude"));
/// ```
#[must_use]
pub fn is_version_manager(directory: &str) -> bool {
    FURTHER.contains(&directory) || HOMES.iter().any(|(name, _)| *name == directory)
}

/// Bound on the program directories of one project.
pub(crate) const MAX_PROGRAMS: usize = 64;

/// ProgramDirs of the host that commands can run, beside those of the system.
///
/// ```
/// use sandbox_config::Grant;
/// assert!(Grant::empty().confinement().programs().directories().is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramDirs {
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) search: Vec<PathBuf>,
    /// Directories of forge, which nothing that is found on the way to a program meets.
    pub(crate) kept_out: Vec<PathBuf>,
    /// The person's home directory, which holds their credentials.
    pub(crate) home: Option<PathBuf>,
}

impl ProgramDirs {
    sandbox_names::getters! {
        /// The directories, as absolute paths.
        pub directories: &[PathBuf] = &directories;
        /// Where commands look for programs, before the system's directories: those of the person's
        /// `PATH` that lie in [`directories`](Self::directories), in that order, then the others.
        pub search: &[PathBuf] = &search;
    }

    pub(crate) fn new(
        directories: Vec<PathBuf>,
        path: Option<&str>,
        kept_out: Vec<PathBuf>,
        home: Option<PathBuf>,
    ) -> ProgramDirs {
        let path = path.unwrap_or_default().split(':').map(PathBuf::from);
        let mut search: Vec<PathBuf> = Vec::new();
        for directory in path {
            let within = directories.iter().any(|own| directory.starts_with(own));
            if within && !search.contains(&directory) {
                search.push(directory);
            }
        }
        for own in &directories {
            if !search.iter().any(|known| known.starts_with(own)) {
                search.push(bin_of(own));
            }
        }
        // No variable can hold such a name.
        search.retain(|directory| !directory.as_os_str().as_encoded_bytes().contains(&b':'));
        ProgramDirs {
            directories,
            search,
            kept_out,
            home,
        }
    }

    /// Variables for version managers among them.
    #[cfg_attr(
        not(feature = "process"),
        expect(dead_code, reason = "for commands only")
    )]
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.directories.iter().filter_map(|directory| {
            let name = directory.file_name()?.to_str()?;
            let (_, variable) = HOMES.iter().find(|(known, _)| *known == name)?;
            Some((*variable, directory.as_path()))
        })
    }
}

/// Returns the programs' directory of a directory that is not in `PATH`.
fn bin_of(directory: &Path) -> PathBuf {
    let inner = ["bin", "shims"].map(|name| directory.join(name));
    let inner = inner.into_iter().find(|path| path.is_dir());
    inner.unwrap_or_else(|| directory.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_persons_order() {
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        let directories = paths(&["/h/.cargo/bin", "/h/.nvm", "/h/.local/bin"]);
        let path = "/h/.nvm/v20/bin:/usr/bin:/h/bin:/h/.cargo/bin:/h/.nvm/v20/bin:.";
        let programs = ProgramDirs::new(directories, Some(path), Vec::new(), None);
        let expected = paths(&["/h/.nvm/v20/bin", "/h/.cargo/bin", "/h/.local/bin"]);
        assert_eq!(programs.search(), expected);
        let variables: Vec<_> = programs.variables().collect();
        assert_eq!(variables, [("NVM_DIR", Path::new("/h/.nvm"))]);
    }
}
