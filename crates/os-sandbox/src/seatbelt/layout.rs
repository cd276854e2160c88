//! Which directory is which parameter, in which order, and how deep.

use super::SeatbeltRun;
use crate::access::Access;
use crate::error::Error;
use crate::policy::{MountPlacement, Policy, UnixSockets, refuse_writable};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Where everything is, outer directories first.
pub(super) struct SeatbeltLayout {
    pub(super) mounts: Vec<SeatbeltMount>,
    pub(super) private: Vec<Spelled>,
    pub(super) shown: Vec<Spelled>,
    /// Programs outside the system's directories.
    pub(super) programs: Vec<Spelled>,
    /// Named sockets.
    pub(super) sockets: Vec<Spelled>,
    /// Directories on the way to one of the others, each once.
    pub(super) above: Vec<Above>,
}

/// A mount.
pub(super) struct SeatbeltMount {
    /// Which of the policy's.
    pub(super) index: usize,
    pub(super) at: Spelled,
    /// The mount itself and those that it is a part of, outwards: which of the policy's, and their
    /// depths. Patterns count from there.
    pub(super) outward: Vec<(usize, [usize; 2])>,
    /// `true` if it lies in another one.
    pub(super) nested: bool,
}

/// A directory on the way to a mount.
pub(super) struct Above {
    pub(super) name: String,
    path: PathBuf,
    /// `true` if it lies in a mount, so that a command could move it, and the mount below it.
    pub(super) in_mount: bool,
}

/// A path under both names that it can have: the one the kernel knows it by, and the one that
/// goes through a link of the system's (`/tmp`, `/var`, `/etc` lead to `/private/…`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spelled {
    name: String,
    canonical: PathBuf,
    logical: PathBuf,
}

impl SeatbeltLayout {
    pub(super) fn new(policy: &Policy, run: &SeatbeltRun) -> Result<SeatbeltLayout, Error> {
        let mut mounts: Vec<SeatbeltMount> = Vec::new();
        for index in 0..policy.mounts().len() {
            let placed = SeatbeltMount::new(policy, run, index)?;
            if let Some(other) = mounts
                .iter()
                .find(|o| o.at.canonical == placed.at.canonical)
            {
                return Err(Error::invalid(format!(
                    "{} and {} are the same directory",
                    policy.mounts()[index].shown_at(),
                    policy.mounts()[other.index].shown_at()
                ))
                .with_hint("show a directory once; its access is one set"));
            }
            mounts.push(placed);
        }
        refuse_unlike_names(policy, &mounts)?;
        let roots: Vec<Spelled> = mounts.iter().map(|mount| mount.at.clone()).collect();
        for mount in &mut mounts {
            mount.nested = roots.iter().any(|root| mount.at.is_within(root));
        }
        // Stable: equally deep ones stay in the policy's order, whatever their names.
        mounts.sort_by_key(|mount| mount.at.depths());
        let places = |prefix: &str, paths: &[PathBuf]| -> Result<Vec<Spelled>, Error> {
            let place = |(index, path): (usize, &PathBuf)| {
                Spelled::new(format!("{prefix}_{index}"), path, path)
            };
            paths.iter().enumerate().map(place).collect()
        };
        let private = places("PRIVATE", &run.private)?;
        let shown = places("SHOWN", &run.shown)?;
        let programs: Vec<PathBuf> = policy
            .programs()
            .iter()
            .map(|one| one.host().to_owned())
            .collect();
        let programs = places("PROGRAMS", &programs)?;
        let sockets = match policy.unix_sockets() {
            UnixSockets::Named(paths) => places("SOCKET", paths)?,
            UnixSockets::Closed | UnixSockets::Own | UnixSockets::Open => Vec::new(),
        };
        for socket in &sockets {
            if mounts.iter().any(|mount| {
                policy.mounts()[mount.index]
                    .access()
                    .contains(Access::WRITE)
                    && (mount.at.contains(&socket.canonical) || mount.at.contains(&socket.logical))
            }) {
                return Err(refuse_writable(&socket.logical));
            }
        }
        let mut above: Vec<Above> = Vec::new();
        let places = mounts.iter().map(|mount| &mount.at);
        for path in places
            .chain(&private)
            .chain(&shown)
            .chain(&programs)
            .flat_map(Spelled::looked_at)
        {
            for path in path.ancestors().filter(|path| *path != Path::new("/")) {
                if above.iter().all(|other| other.path != path) {
                    above.push(Above {
                        name: format!("ABOVE_{}", above.len()),
                        path: path.to_owned(),
                        in_mount: roots.iter().any(|root| root.contains(path)),
                    });
                }
            }
        }
        Ok(SeatbeltLayout {
            mounts,
            private,
            shown,
            programs,
            sockets,
            above,
        })
    }

    pub(super) fn parameters(&self) -> Vec<(String, OsString)> {
        let mut out = Vec::new();
        let mounts = self.mounts.iter().map(|mount| &mount.at);
        let places = mounts.chain(&self.private).chain(&self.shown);
        let places = places.chain(&self.programs);
        for at in places.chain(&self.sockets) {
            let [canonical, logical] = at.names();
            out.push((canonical, at.canonical.clone().into_os_string()));
            out.push((logical, at.logical.clone().into_os_string()));
        }
        for above in &self.above {
            out.push((above.name.clone(), above.path.clone().into_os_string()));
        }
        out
    }
}

/// A part of a mount that the policy does not see as one, because it names the part by one
/// spelling and the mount by the other: the patterns of the mount would not count in it.
fn refuse_unlike_names(policy: &Policy, mounts: &[SeatbeltMount]) -> Result<(), Error> {
    let shown = |mount: &SeatbeltMount| Path::new(policy.mounts()[mount.index].shown_at());
    for part in mounts {
        match policy.mounts()[part.index].place() {
            MountPlacement::NestedIn(_) | MountPlacement::Covers(_) => continue,
            MountPlacement::Root | MountPlacement::Named | MountPlacement::InWork => {}
        }
        let outer = mounts.iter().find(|outer| {
            outer.index != part.index
                && shown(part)
                    .strip_prefix(shown(outer))
                    .is_ok_and(|rest| part.at.canonical == outer.at.canonical.join(rest))
        });
        if let Some(outer) = outer {
            return Err(Error::invalid(format!(
                "{} is a part of {}, and named by another path",
                shown(part).display(),
                shown(outer).display()
            ))
            .with_hint("name both by the same path: with /private, or both without"));
        }
    }
    Ok(())
}

impl SeatbeltMount {
    fn new(policy: &Policy, run: &SeatbeltRun, index: usize) -> Result<SeatbeltMount, Error> {
        let mounts = policy.mounts();
        let mount = &mounts[index];
        let at = Spelled::new(
            format!("MOUNT_{index}"),
            real(policy, run, index)?,
            mount.host(),
        )?;
        let mut outer = index;
        let mut outer_at = at.clone();
        let mut outward = vec![(index, at.depths())];
        while let MountPlacement::NestedIn(next) = mounts[outer].place() {
            outer = next;
            let real = real(policy, run, outer)?;
            outer_at = Spelled::new(String::new(), real, mounts[outer].host())?;
            outward.push((outer, outer_at.depths()));
        }
        // A command that may write in the outer one could have put a link in the inner one's place.
        let rest = mount.host().strip_prefix(mounts[outer].host());
        if rest.is_ok_and(|rest| canonical(&outer_at.canonical.join(rest)) != at.canonical) {
            return Err(Error::invalid(format!(
                "{} runs through a link inside {}",
                mount.shown_at(),
                mounts[outer].shown_at()
            ))
            .with_hint("a part of a mount must be a real directory or file in it"));
        }
        Ok(SeatbeltMount {
            index,
            at,
            outward,
            nested: false,
        })
    }
}

impl Spelled {
    fn new(name: String, real: &Path, named: &Path) -> Result<Spelled, Error> {
        for path in [real, named] {
            let bytes = path.as_os_str().as_encoded_bytes();
            if bytes.contains(&0) || bytes.contains(&b'\n') {
                return Err(Error::invalid(format!(
                    "a path with a NUL byte or a line end: {path:?}"
                ))
                .with_hint("Seatbelt cannot be told about such a path; rename the directory"));
            }
            if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
                return Err(Error::invalid(format!("not an absolute path: {path:?}")));
            }
        }
        Ok(Spelled {
            name,
            canonical: canonical(real),
            logical: logical(named),
        })
    }

    /// The parameters' names.
    pub(super) fn names(&self) -> [String; 2] {
        [self.name.clone(), format!("{}_LOGICAL", self.name)]
    }

    /// How many components each of the two has.
    fn depths(&self) -> [usize; 2] {
        [&self.canonical, &self.logical].map(|path| {
            path.components()
                .filter(|part| *part != Component::RootDir)
                .count()
        })
    }

    fn contains(&self, path: &Path) -> bool {
        path.starts_with(&self.canonical) || path.starts_with(&self.logical)
    }

    fn is_within(&self, outer: &Spelled) -> bool {
        self != outer
            && (self.canonical.starts_with(&outer.canonical)
                || self.logical.starts_with(&outer.logical))
    }

    /// Paths that are looked at on the way here. A link is itself looked at by its real name.
    fn looked_at(&self) -> [PathBuf; 3] {
        [
            self.canonical.clone(),
            self.logical.clone(),
            canonical(&self.logical),
        ]
    }
}

/// The mount's directory with links followed.
fn real<'a>(policy: &'a Policy, run: &'a SeatbeltRun, index: usize) -> Result<&'a Path, Error> {
    let mounts = policy.mounts();
    match run.real.len() {
        0 => Ok(mounts[index].host()),
        len if len == mounts.len() => Ok(&run.real[index]),
        len => Err(Error::invalid(format!(
            "{len} real directories for {} mounts",
            mounts.len()
        ))),
    }
}

/// The links at the root that every macOS has.
const LINKS: [(&str, &str); 3] = [
    ("/tmp", "/private/tmp"),
    ("/var", "/private/var"),
    ("/etc", "/private/etc"),
];

/// As the kernel knows it, as far as the text says.
pub(super) fn canonical(path: &Path) -> PathBuf {
    moved(path, LINKS)
}

/// As people write it.
pub(super) fn logical(path: &Path) -> PathBuf {
    moved(path, LINKS.map(|(logical, canonical)| (canonical, logical)))
}

/// From components, so that there is no slash at the end, which would match nothing.
fn moved(path: &Path, links: [(&str, &str); 3]) -> PathBuf {
    for (from, to) in links {
        if let Ok(rest) = path.strip_prefix(from) {
            return Path::new(to).join(rest).components().collect();
        }
    }
    path.components().collect()
}
