//! All files that a program needs to run without its host: itself, and, unless it is static, its
//! loader and its libraries. An image of forge contains them, and containers of other images get
//! them as mounts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use super::elf::Elf;

/// Directory of forge in a container: not a name that a mount can have.
pub const INSIDE: &str = "/.forge";
/// The program's own name there.
const PROGRAM: &str = "forge";
/// Most libraries that a program may need.
const MAX_LIBRARIES: usize = 256;

/// One file of a [`ProgramBundle`], and its name in the bundle's directory.
///
/// ```
/// # fn main() -> Result<(), forge_runtime::containers::ProgramError> {
/// # if !cfg!(target_os = "linux") { return Ok(()) }
/// # let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
/// # let own = std::env::current_exe().unwrap();
/// use forge_runtime::containers::ProgramBundle;
/// let program = ProgramBundle::of(&own, &maps)?;
/// assert_eq!(program.parts()[0].name(), "forge");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramFile {
    name: String,
    host: PathBuf,
}

impl ProgramFile {
    sandbox_names::getters! {
        /// Its name below [`INSIDE`].
        pub name: &str = &name;
        /// The file.
        pub host: &Path = &host;
    }
}

/// A program with all files it needs.
///
/// ```
/// # fn main() -> Result<(), forge_runtime::containers::ProgramError> {
/// # if !cfg!(target_os = "linux") { return Ok(()) }
/// use forge_runtime::containers::{INSIDE, ProgramBundle};
/// // What this process was started from, and what it has mapped.
/// let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
/// let own = std::env::current_exe().unwrap();
///
/// let program = ProgramBundle::of(&own, &maps)?;
/// let command = program.command();
/// assert!(command.iter().all(|word| word.starts_with(INSIDE) || word.starts_with("--")));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramBundle {
    /// The program itself, then its dependencies, by name.
    parts: Vec<ProgramFile>,
    loader: Option<DynamicLoader>,
    architecture: &'static str,
}

/// The loader of a program that is not static.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DynamicLoader {
    name: String,
    /// The path at which programs look for it.
    path: String,
}

/// Why a program cannot be taken along.
///
/// ```
/// use forge_runtime::containers::ProgramBundle;
/// use std::path::Path;
///
/// let error = ProgramBundle::of(Path::new("/nonexistent/forge"), "").unwrap_err();
/// assert!(error.to_string().contains("/nonexistent/forge"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} cannot be put into a container: {why}", .file.display())]
pub struct ProgramError {
    file: PathBuf,
    why: String,
}

impl ProgramBundle {
    /// Returns the bundle of the program in this file, which runs as a process with these `maps`
    /// (`/proc/PID/maps`). A static program needs no `maps`.
    ///
    /// # Errors
    /// [`ProgramError`] if it is not a program for Linux, or a dependency is missing.
    pub fn of(file: &Path, maps: &str) -> Result<ProgramBundle, ProgramError> {
        let own = read(file)?;
        // The system reports the loader, not the program that the loader was told to start.
        if own.interpreter.is_none() && own.own_name.is_some() {
            let why = "it is a library, or a loader: start forge directly, not through one";
            return Err(refused(file, why.to_owned()));
        }
        let mut program = ProgramBundle {
            parts: Vec::new(),
            loader: None,
            architecture: own.architecture,
        };
        let mut others = BTreeSet::new();
        if let Some(path) = &own.interpreter {
            let loader = Path::new(path);
            let name =
                named(loader).ok_or_else(|| refused(file, format!("its loader is {path}")))?;
            others.insert(ProgramFile {
                name: name.clone(),
                host: loader.to_owned(),
            });
            program.loader = Some(DynamicLoader {
                name,
                path: path.clone(),
            });
            libraries(file, &own, maps, &mut others)?;
        }
        program.parts.push(ProgramFile {
            name: PROGRAM.to_owned(),
            host: file.to_owned(),
        });
        program.parts.extend(others);
        Ok(program)
    }

    sandbox_names::getters! {
        /// Its files: the program first.
        pub parts: &[ProgramFile] = &parts;
        /// The processor that it is for, in the words of images.
        pub architecture: &'static str = architecture;
    }

    /// Returns the command that starts it from [`INSIDE`], independent of the rest of the image;
    /// arguments follow.
    pub fn command(&self) -> Vec<String> {
        let program = format!("{INSIDE}/{PROGRAM}");
        match &self.loader {
            None => vec![program],
            Some(loader) => vec![
                format!("{INSIDE}/{}", loader.name),
                "--library-path".to_owned(),
                INSIDE.to_owned(),
                program,
            ],
        }
    }

    /// Returns the paths at which it looks for its dependencies when it is started directly, with
    /// the names in [`INSIDE`] to which they have to lead.
    pub(super) fn looked_for(&self) -> Vec<(String, &str)> {
        let Some(loader) = &self.loader else {
            return Vec::new();
        };
        let mut found = vec![(loader.path.clone(), loader.name.as_str())];
        for part in self.parts.iter().skip(1) {
            let beside = part.host.with_file_name(&part.name);
            if let Some(path) = beside.to_str()
                && path != loader.path
            {
                found.push((path.to_owned(), part.name.as_str()));
            }
        }
        found
    }
}

/// Finds the transitive dependencies of `own` among the mapped files.
fn libraries(
    file: &Path,
    own: &Elf,
    maps: &str,
    found: &mut BTreeSet<ProgramFile>,
) -> Result<(), ProgramError> {
    let mut mapped = BTreeMap::new();
    for path in executable(maps) {
        // Other mapped files are not dependencies.
        if let Ok(elf) = read(path)
            && let Some(name) = elf.own_name.clone().or_else(|| named(path))
        {
            mapped.insert(name, (path, elf));
        }
    }
    let mut wanted = own.needed.clone();
    let mut seen = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let Some((path, elf)) = mapped.get(&name).filter(|_| seen.len() <= MAX_LIBRARIES) else {
            return Err(refused(
                file,
                format!("its library {name} is not to be found"),
            ));
        };
        wanted.extend(elf.needed.iter().cloned());
        if !found.iter().any(|part| part.name == name) {
            found.insert(ProgramFile {
                name,
                host: (*path).to_owned(),
            });
        }
    }
    Ok(())
}

/// The files of which code is mapped: `begin-end perms offset device inode path`.
fn executable(maps: &str) -> BTreeSet<&Path> {
    let mut files = BTreeSet::new();
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let runs = words.nth(1).is_some_and(|perms| perms.contains('x'));
        if let Some(at) = line.find('/')
            && runs
        {
            files.insert(Path::new(&line[at..]));
        }
    }
    files
}

fn read(path: &Path) -> Result<Elf, ProgramError> {
    let file = File::open(path).map_err(|error| refused(path, error.to_string()))?;
    let is_file = file.metadata().is_ok_and(|facts| facts.is_file());
    if !is_file {
        return Err(refused(path, "not a file".to_owned()));
    }
    Elf::read(&file).map_err(|why| refused(path, why))
}

fn named(path: &Path) -> Option<String> {
    path.file_name()?.to_str().map(str::to_owned)
}

fn refused(file: &Path, why: String) -> ProgramError {
    ProgramError {
        file: file.to_owned(),
        why,
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn own() -> ProgramBundle {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        ProgramBundle::of(&std::env::current_exe().unwrap(), &maps).unwrap()
    }

    /// In a directory of its own, through the loader that is there too.
    #[test]
    fn what_was_found_is_all_that_is_needed() {
        let program = own();
        let dir = tempfile::tempdir().unwrap();
        for part in program.parts() {
            std::fs::copy(part.host(), dir.path().join(part.name())).unwrap();
        }
        let place = dir.path().to_str().unwrap();
        let words = program.command();
        let words: Vec<String> = words
            .iter()
            .map(|word| word.replace(INSIDE, place))
            .collect();
        let ran = Command::new(&words[0])
            .args(&words[1..])
            .args(["--list", "containers::program"])
            .output()
            .unwrap();
        assert!(
            String::from_utf8_lossy(&ran.stdout).contains("what_was_found"),
            "{ran:?}"
        );
        // Not from elsewhere: without one of them it does not start.
        if let Some(library) = program
            .parts()
            .iter()
            .find(|part| part.name().starts_with("libc."))
        {
            let traced = Command::new(&words[0])
                .args(&words[1..])
                .env("LD_TRACE_LOADED_OBJECTS", "1")
                .output()
                .unwrap();
            let list = String::from_utf8_lossy(&traced.stdout).into_owned();
            assert!(
                list.contains(&format!("{place}/{}", library.name())),
                "{list}"
            );
        }
    }

    #[test]
    fn names_are_unique_and_the_program_comes_first() {
        let program = own();
        assert_eq!(program.parts()[0].name(), "forge");
        let names: BTreeSet<&str> = program.parts().iter().map(ProgramFile::name).collect();
        assert_eq!(names.len(), program.parts().len());
        assert_eq!(program.loader.is_none(), program.parts().len() == 1);
        for (path, name) in program.looked_for() {
            assert!(
                path.starts_with('/') && names.contains(name),
                "{path} {name}"
            );
        }
    }

    #[test]
    fn a_loader_is_no_program() {
        if let Some(loader) = own().loader {
            let error = ProgramBundle::of(Path::new(&loader.path), "").unwrap_err();
            assert!(
                error.to_string().contains("start forge directly"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_library_that_is_not_mapped_is_named() {
        let program = ProgramBundle::of(&std::env::current_exe().unwrap(), "");
        if let Err(error) = program {
            assert!(error.to_string().contains("is not to be found"), "{error}");
        }
    }

    #[test]
    fn only_what_is_code_of_files_counts() {
        let maps = "\
7f00-7f01 r--p 00000000 fe:00 1 /lib/a.so
7f01-7f02 r-xp 00001000 fe:00 1 /lib/a b.so
7f02-7f03 r-xp 00000000 00:00 0 [vdso]
7f03-7f04 r-xp 00000000 00:00 0
nonsense
";
        assert_eq!(executable(maps), BTreeSet::from([Path::new("/lib/a b.so")]));
    }
}
