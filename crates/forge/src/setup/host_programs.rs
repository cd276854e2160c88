//! Programs of the host that forge itself starts, outside of the sandbox: git, a browser, ssh, programs
//! that print keys.
//!
//! Entry point: [`HostPrograms::find`]. A program is never one that a command could have put there, and
//! what it starts by name is not either: it gets [`HostPrograms::search_path`]. No other file of this
//! workspace starts a program by its name.

use std::fmt;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use os_sandbox::{Access, Policy};
use sandbox_config::{
    Mode, PROJECT_FILES, PresetLibrary, Project, SharedState, StateMode, WithoutDirectories,
    WritablePlaces,
};

use crate::ambient::Ambient;
use crate::output::escape::{escape, escape_path};
use crate::setup::{self, presets};

/// The person's `PATH` without the directories in which commands write.
#[derive(Clone, Debug)]
pub(crate) struct HostPrograms {
    path: String,
    writable: WritablePlaces,
    /// An active virtual environment, which commands of another project may have written.
    environment: WritablePlaces,
    of_presets: PresetPlaces,
}

/// The directories of a person that presets let a command write, whether one is used now or was before.
/// All presets are read when a program is looked for.
#[derive(Clone, Debug, Default)]
struct PresetPlaces {
    presets_and_home: Option<(PresetLibrary, PathBuf)>,
    found: OnceLock<WritablePlaces>,
}

/// The reason for which a program is not started.
#[derive(Debug)]
pub(crate) struct HostProgramError {
    name: String,
    /// The program that was found, and the fault of its place.
    left_out: Option<(PathBuf, String)>,
}

impl HostProgramError {
    /// Returns `true` if the program exists, in a place that a command could have changed.
    pub(crate) fn is_left_out(&self) -> bool {
        self.left_out.is_some()
    }
}

impl fmt::Display for HostProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = escape(&self.name);
        match &self.left_out {
            None => write!(f, "no program `{name}` is on the PATH"),
            Some((path, why)) => write!(
                f,
                "forge does not start `{name}`: {} {why}; install it elsewhere, or name another by \
                 its absolute path",
                escape_path(path)
            ),
        }
    }
}

impl HostPrograms {
    /// Leaves out the top of the project around the caller, an active virtual environment, and forge's
    /// state, in which kept home directories are. [`HostPrograms::of_project`] leaves out more.
    pub(crate) fn new(ambient: &Ambient) -> HostPrograms {
        let start = ambient.global.directory.as_deref();
        let start = start.unwrap_or(Path::new(".")).canonicalize().ok();
        let environment = ambient.var("VIRTUAL_ENV").map(PathBuf::from);
        let mut programs = HostPrograms {
            path: ambient.var("PATH").unwrap_or_default().to_owned(),
            writable: WritablePlaces::default(),
            environment: WritablePlaces::default(),
            of_presets: PresetPlaces::default(),
        };
        let of_project = start
            .iter()
            .flat_map(|start| project_tops(start).chain([start.as_path()]));
        let home = ambient
            .home
            .as_ref()
            .and_then(|home| home.canonicalize().ok());
        // No command has the home directory: forge's own are in it.
        let is_around_home = |directory: &Path| {
            let home = home.as_ref();
            home.is_some_and(|home| home.starts_with(directory))
        };
        for directory in of_project.map(Path::to_owned).chain(ambient.state.clone()) {
            if !is_around_home(&directory) {
                programs.writable.add(&directory);
            }
        }
        if let Some(environment) = environment.filter(|place| !is_around_home(place)) {
            programs.environment.add(&environment);
        }
        programs
    }

    #[cfg(test)]
    pub(crate) fn of_path(path: &str, writable: WritablePlaces) -> HostPrograms {
        HostPrograms {
            path: path.to_owned(),
            writable,
            environment: WritablePlaces::default(),
            of_presets: PresetPlaces::default(),
        }
    }

    /// Leaves out the places that commands of a project write, and those of all presets.
    pub(crate) fn of_project(ambient: &Ambient, project: &Project) -> HostPrograms {
        let mut programs = HostPrograms::new(ambient);
        let mounts = project.ceiling().mounts();
        let mounts = mounts.filter(|mount| mount.mode() == Mode::ReadWrite);
        mounts.for_each(|mount| programs.writable.add(mount.host()));
        programs.leave_out(project.personal_dirs());
        programs.of_presets = PresetPlaces::new(ambient);
        programs
    }

    /// Leaves out what [`HostPrograms::of_project`] does, for the project around the caller. A project
    /// that cannot be loaded runs no commands, so only presets count.
    pub(crate) fn around_caller(ambient: &Ambient) -> HostPrograms {
        match setup::project_silently(ambient, WithoutDirectories::WholeDirectory) {
            Ok(project) => HostPrograms::of_project(ambient, &project),
            Err(_) => HostPrograms {
                of_presets: PresetPlaces::new(ambient),
                ..HostPrograms::new(ambient)
            },
        }
    }

    /// Leaves out the directories of a person that commands write.
    pub(crate) fn leave_out<'a>(&mut self, dirs: impl IntoIterator<Item = &'a SharedState>) {
        let written = dirs.into_iter().filter(|one| one.writable);
        written.for_each(|one| self.writable.add(&one.host));
    }

    /// Leaves out places that commands of this policy write.
    pub(crate) fn beside_policy(mut self, policy: &Policy) -> HostPrograms {
        let mounts = policy.mounts().iter();
        let mounts = mounts.filter(|mount| mount.access().contains(Access::WRITE));
        mounts.for_each(|mount| self.writable.add(mount.host()));
        self
    }

    /// Finds a program by its name, or checks an absolute path.
    pub(crate) fn find(&self, name: &str) -> Result<PathBuf, HostProgramError> {
        let mut left_out = None;
        for path in self.candidates(name).filter(|path| is_program(path)) {
            match self.problem(&path) {
                None => return Ok(path),
                Some(why) => left_out = left_out.or(Some((path, why))),
            }
        }
        let name = name.to_owned();
        Err(HostProgramError { name, left_out })
    }

    /// Returns the path of a program that is only located, not started. Directories that presets let
    /// commands write are not left out: to read all presets takes longer than a small command.
    pub(crate) fn locate(&self, name: &str) -> Option<PathBuf> {
        let is_left_out = |path: &Path| {
            let places = [&self.writable, &self.environment];
            places
                .iter()
                .any(|places| places.on_the_way_to(path).is_some())
        };
        self.candidates(name)
            .find(|path| is_program(path) && !is_left_out(path))
    }

    /// Returns the command of a program, which finds other programs as this does.
    pub(crate) fn command(&self, name: &str) -> Result<Command, HostProgramError> {
        let mut command = Command::new(self.find(name)?);
        command.env("PATH", self.search_path());
        Ok(command)
    }

    /// Returns the value of `PATH` for a program of the host.
    pub(crate) fn search_path(&self) -> String {
        let directories = std::env::split_paths(&self.path);
        let directories = directories.filter(|directory| {
            directory.is_absolute() && directory.is_dir() && self.problem(directory).is_none()
        });
        // They are parts of a text that was split there.
        let joined = std::env::join_paths(directories).unwrap_or_default();
        joined.to_string_lossy().into_owned()
    }

    /// Returns the reason for which a program or directory is left out.
    pub(crate) fn problem(&self, path: &Path) -> Option<String> {
        if let Some(place) = self.place_on_the_way_to(path).map(changed_by_commands) {
            return Some(place);
        }
        let real = path.canonicalize().ok()?;
        [path, &real].into_iter().find_map(others_write)
    }

    /// Returns the fault of a path that a command can change, or whose end it can change.
    pub(crate) fn place_of_commands(&self, path: &Path) -> Option<String> {
        self.written_place_on_the_way_to(path)
            .map(changed_by_commands)
    }

    /// Returns `true` if a command can change where a path ends.
    pub(crate) fn is_led_by_commands(&self, path: &Path) -> bool {
        self.place_on_the_way_to(path).is_some()
    }

    fn place_on_the_way_to(&self, path: &Path) -> Option<&Path> {
        let of_environment = || self.environment.on_the_way_to(path);
        self.written_place_on_the_way_to(path)
            .or_else(of_environment)
    }

    fn written_place_on_the_way_to(&self, path: &Path) -> Option<&Path> {
        let of_presets = || self.of_presets.find().on_the_way_to(path);
        self.writable.on_the_way_to(path).or_else(of_presets)
    }

    fn candidates<'a>(&'a self, name: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
        // An absolute path replaces the directory, and any one is enough.
        let is_path = name.contains('/');
        let given = is_path
            .then(|| PathBuf::from(name))
            .filter(|path| path.is_absolute());
        let directories = (!is_path).then(|| std::env::split_paths(&self.path));
        let directories = directories
            .into_iter()
            .flatten()
            .filter(|dir| dir.is_absolute());
        given
            .into_iter()
            .chain(directories.map(move |dir| dir.join(name)))
    }
}

impl PresetPlaces {
    fn new(ambient: &Ambient) -> PresetPlaces {
        let home = ambient.home.clone();
        PresetPlaces {
            presets_and_home: home.map(|home| (presets::library(ambient), home)),
            found: OnceLock::new(),
        }
    }

    fn find(&self) -> &WritablePlaces {
        self.found.get_or_init(|| {
            let mut places = WritablePlaces::default();
            if let Some((library, home)) = &self.presets_and_home {
                let names = library.names().into_iter();
                for set in names.filter_map(|name| library.compose(&[name]).ok()) {
                    let written = set.state().filter(|state| state.mode == StateMode::Share);
                    written.for_each(|state| places.add(&home.join(&state.path)));
                }
            }
            places
        })
    }
}

/// Returns those of a directory and of the directories above it that are the top of a project or of a
/// git repository.
pub(crate) fn project_tops(start: &Path) -> impl Iterator<Item = &Path> {
    start.ancestors().filter(|directory| {
        let git = directory.join(".git");
        git.is_file()
            || git.join("HEAD").is_file()
            || PROJECT_FILES
                .iter()
                .any(|name| directory.join(name).is_file())
    })
}

fn changed_by_commands(place: &Path) -> String {
    let place = escape_path(place);
    format!("lies in or leads through {place}, which commands of forge can change")
}

pub(crate) fn is_program(path: &Path) -> bool {
    let about = path.metadata();
    about.is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// Returns the reason if other users can put a program at this path.
fn others_write(path: &Path) -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    // In a user namespace without root it is another number.
    let system = Path::new("/usr").metadata().map_or(0, |about| about.uid());
    for directory in path.ancestors().filter(|directory| directory.is_dir()) {
        let about = directory.metadata().ok()?;
        let shown = escape_path(directory);
        if ![own, system, 0].contains(&about.uid()) {
            return Some(format!("lies in {shown}, which belongs to another user"));
        }
        let (is_open, is_sticky) = (about.mode() & 0o002 != 0, about.mode() & 0o1000 != 0);
        // With the sticky bit others add names, and replace none.
        let is_nearest = path.parent() == Some(directory) || path == directory;
        if is_open && (!is_sticky || is_nearest) {
            return Some(format!("lies in {shown}, in which every user writes"));
        }
    }
    None
}
