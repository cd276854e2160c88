//! Files of the broker that a container mounts besides the policy's mounts: a directory of links if
//! no mount is the working directory, an empty file and directory that cover hidden paths, and the
//! files about names of hosts.

use super::settings::{OwnMount, Settings};
use os_sandbox::mechanism::{
    Layout, LayoutContent, LayoutEntry, MountPlacement, NAME_FILES, Scratch,
};
use os_sandbox::{Access, Error, Mount, Plan, Policy};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Files of the broker that a container mounts besides the policy's mounts; they exist until the
/// container ends.
#[derive(Default)]
pub(super) struct PrivateFiles {
    scratch: Option<Scratch>,
    /// Directory of links, which is the working directory if no mount is.
    pub(super) work: Option<PathBuf>,
    /// Cover of closed paths, if a path is closed.
    pub(super) closed: Option<ClosedCovers>,
    /// Files about names of hosts, with their paths inside. Empty if the command reaches no named
    /// hosts.
    pub(super) names: Vec<(PathBuf, &'static str)>,
    /// The caller's own mounts, with the host's paths without links.
    pub(super) own: Vec<OwnMount>,
}

/// A file and a directory without permissions, which no process inside can open. (A directory in
/// memory would get the permissions of the directory that it covers.)
pub(super) struct ClosedCovers {
    pub(super) file: PathBuf,
    pub(super) directory: PathBuf,
}

impl ClosedCovers {
    fn new(within: &Path) -> Result<ClosedCovers, Error> {
        let made = ClosedCovers {
            file: within.join("closed-file"),
            directory: within.join("closed-directory"),
        };
        let nobody = Permissions::from_mode(0o0);
        let file = || {
            File::options()
                .write(true)
                .create_new(true)
                .open(&made.file)
        };
        file()
            .and_then(|file| file.set_permissions(nobody.clone()))
            .and_then(|()| fs::create_dir(&made.directory))
            .and_then(|()| fs::set_permissions(&made.directory, nobody.clone()))
            .map_err(|error| Error::io("could not make what stands for a closed place", error))?;
        Ok(made)
    }
}

impl PrivateFiles {
    /// Makes the files for a command, and adds them to the sources that are checked after the start.
    pub(super) fn new(
        plan: &Plan,
        layout: &mut Layout,
        settings: &Settings,
        state_dir: Option<&Path>,
    ) -> Result<PrivateFiles, Error> {
        let policy = plan.policy();
        let mut made = PrivateFiles {
            own: settings
                .mounts
                .iter()
                .map(OwnMount::resolved)
                .collect::<Result<_, _>>()?,
            ..PrivateFiles::default()
        };
        let root = |mount: &Mount| mount.place() == MountPlacement::Root;
        if !policy.mounts().iter().any(root) {
            let scratch = work(policy, &layout.directories, state_dir)?;
            made.work = Some(scratch.work());
            made.scratch = Some(scratch);
        }
        let wanted = |is_dir: bool| {
            let closed = |one: &LayoutEntry| one.what == LayoutContent::Closed { is_dir };
            layout.placed.iter().any(closed)
        };
        if wanted(true) || wanted(false) {
            made.closed = Some(ClosedCovers::new(&made.directory(policy, state_dir)?)?);
        }
        if plan.proxied_hosts().is_some() {
            let directory = made.directory(policy, state_dir)?;
            let name = |(index, (inside, text)): (usize, (&'static str, &str))| {
                let file = directory.join(format!("names-{index}"));
                fs::write(&file, text)?;
                fs::set_permissions(&file, Permissions::from_mode(0o644))?;
                Ok((file, inside))
            };
            let names = NAME_FILES.into_iter().enumerate().map(name);
            made.names = names
                .collect::<io::Result<_>>()
                .map_err(|error| Error::io("could not make a container's own files", error))?;
        }
        for path in made.sources() {
            layout.sources.add(path)?;
        }
        Ok(made)
    }

    /// Returns the files that the engine opens by path.
    fn sources(&self) -> impl Iterator<Item = &Path> {
        let closed = self.closed.iter();
        let closed = closed.flat_map(|closed| [&closed.file, &closed.directory]);
        let names = self.names.iter().map(|(file, _)| file);
        let own = self.own.iter().map(|own| &own.host);
        let all = self.work.iter().chain(closed).chain(names).chain(own);
        all.map(PathBuf::as_path)
    }

    /// Returns a directory for files, which is made at the first call.
    fn directory(&mut self, policy: &Policy, state_dir: Option<&Path>) -> Result<PathBuf, Error> {
        let scratch = match self.scratch.take() {
            Some(scratch) => scratch,
            None => scratch(policy, state_dir)?,
        };
        Ok(self.scratch.insert(scratch).home())
    }
}

/// Creates a private directory in the state directory, which no command may have in a mount: the
/// engine opens paths in it as root, and a command that replaces one chooses what the engine opens.
pub(super) fn scratch(policy: &Policy, state_dir: Option<&Path>) -> Result<Scratch, Error> {
    let made = Scratch::in_state(state_dir)?;
    let home = made.home();
    // Each directory on the way as it is named, too: a command could replace a link in it.
    let way = [Some(home.as_path()), state_dir].into_iter().flatten();
    let way: Vec<PathBuf> = way
        .flat_map(Path::ancestors)
        .filter_map(|part| part.canonicalize().ok())
        .collect();
    let holds = |mount: &&Mount| {
        let is_around = |host: PathBuf| way.iter().any(|part| part.starts_with(&host));
        // A mount that cannot be resolved may hold it.
        mount.access().contains(Access::WRITE)
            && mount.host().canonicalize().map_or(true, is_around)
    };
    match policy.mounts().iter().find(holds) {
        None => Ok(made),
        Some(mount) => Err(Error::invalid(format!(
            "the mount {} holds the state directory, with files that a container mounts",
            mount.inside()
        ))
        .with_hint("choose a state directory outside the mounts (`Directories::with_state`)")),
    }
}

/// Makes a link for each named mount, and mount points for the mounts below `/work`. The command
/// may read this directory.
fn work(policy: &Policy, directories: &[bool], state_dir: Option<&Path>) -> Result<Scratch, Error> {
    let mounts = policy.mounts();
    // A deeper name gets a link for its first directory, which the names below it share.
    let named = mounts
        .iter()
        .filter(|mount| mount.place() == MountPlacement::Named)
        .filter_map(|mount| mount.inside().trim_start_matches('/').split('/').next());
    let links: BTreeSet<&str> = named.collect();
    let links: Vec<(String, PathBuf)> = links
        .into_iter()
        .map(|name| (name.to_owned(), Path::new("/").join(name)))
        .collect();
    let made = scratch(policy, state_dir)?.with(&links)?;
    let failed = |error| Error::io("could not make the working directory", error);
    open(&made.work()).map_err(failed)?;
    for (mount, is_dir) in mounts.iter().zip(directories) {
        if mount.place() == MountPlacement::InWork
            && let Some(name) = mount.in_work()
        {
            way(&made.work(), Path::new(name), *is_dir).map_err(failed)?;
        }
    }
    Ok(made)
}

fn way(work: &Path, name: &Path, is_dir: bool) -> io::Result<()> {
    let mut at = work.to_owned();
    let mut parts = name.iter().peekable();
    while let Some(part) = parts.next() {
        at.push(part);
        if parts.peek().is_none() && !is_dir {
            fs::write(&at, "")?;
        } else if !at.is_dir() {
            fs::create_dir(&at)?;
            open(&at)?;
        }
    }
    Ok(())
}

fn open(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl PrivateFiles {
        /// Returns the paths as if they had been made at `path`.
        pub(crate) fn at(path: &str) -> PrivateFiles {
            PrivateFiles {
                scratch: None,
                work: None,
                closed: Some(ClosedCovers {
                    file: Path::new(path).join("file"),
                    directory: Path::new(path).join("directory"),
                }),
                names: Vec::new(),
                own: Vec::new(),
            }
        }
    }

    #[test]
    fn a_directory_of_links() {
        let scratch = tempfile::tempdir().unwrap();
        let host = |name: &str| scratch.path().join(name);
        for name in ["a", "b", "c"] {
            fs::create_dir(host(name)).unwrap();
        }
        fs::write(host("file"), "").unwrap();
        let policy = Policy::builder()
            .mount(host("a"), "/a", Access::READ)
            .mount(host("b"), "/deep/b", Access::READ)
            .mount(host("c"), "/work/src/c", Access::READ)
            .mount(host("file"), "/work/src/file", Access::READ)
            .build()
            .unwrap();
        let state = host("state");
        let made = work(&policy, &[true, true, true, false], Some(&state)).unwrap();
        assert!(made.work().starts_with(state.canonicalize().unwrap()));
        let at = |name: &str| made.work().join(name);
        assert_eq!(fs::read_link(at("a")).unwrap(), Path::new("/a"));
        assert_eq!(fs::read_link(at("deep")).unwrap(), Path::new("/deep"));
        assert!(at("src/c").is_dir() && at("src/file").is_file());
        for open in ["", "src", "src/c"] {
            let mode = fs::metadata(at(open)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o755, "{open}");
        }
    }
}
