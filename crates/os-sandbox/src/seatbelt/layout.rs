//! The directories of a profile's parameters, their order and their depths.

use super::SeatbeltRun;
use crate::access::Access;
use crate::error::Error;
use crate::policy::{MountPlacement, Policy, UnixSockets, refuse_writable};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// The paths of a profile, outer directories first.
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
    /// The index in the policy.
    pub(super) index: usize,
    pub(super) at: Spelled,
    /// The mount itself and those that it is a part of, outwards: their indexes in the policy, and
    /// their depths. Patterns count from there.
    pub(super) outward: Vec<(usize, [usize; 2])>,
    /// `true` if the mount is inside another one.
    pub(super) nested: bool,
}

/// A directory on the way to a mount.
pub(super) struct Above {
    pub(super) name: String,
    path: PathBuf,
    /// `true` if the directory is inside a mount, so that a command could move it, and the mount
    /// below it.
    pub(super) in_mount: bool,
}

/// A path under both names that it can have: the name that the kernel uses, and the name through a
/// link of the system (`/tmp`, `/var`, `/etc` lead to `/private/…`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spelled {
    name: String,
    canonical: PathBuf,
    logical: PathBuf,
}

impl SeatbeltLayout {
    pub(super) fn new(policy: &Policy, run: &SeatbeltRun) -> Result<SeatbeltLayout, Error> {
        let (mounts, roots) = place_mounts(policy, run)?;
        let places = |prefix: &str, paths: &[PathBuf]| -> Result<Vec<Spelled>, Error> {
            let place = |(index, path): (usize, &PathBuf)| {
                Spelled::new(format!("{prefix}_{index}"), path, path)
            };
            paths.iter().enumerate().map(place).collect()
        };
        let private = places("PRIVATE", &run.private)?;
        let shown = places("SHOWN", &run.shown)?;
        let programs = policy.programs().iter().map(|one| one.host().to_owned());
        let programs: Vec<PathBuf> = programs.collect();
        let programs = places("PROGRAMS", &programs)?;
        let sockets = match policy.unix_sockets() {
            UnixSockets::Named(paths) => places("SOCKET", paths)?,
            UnixSockets::Closed | UnixSockets::Own | UnixSockets::Open => Vec::new(),
        };
        let writable: Vec<&SeatbeltMount> = mounts
            .iter()
            .filter(|mount| {
                policy.mounts()[mount.index]
                    .access()
                    .contains(Access::WRITE)
            })
            .collect();
        for socket in &sockets {
            if writable.iter().any(|mount| {
                mount.at.contains(&socket.canonical) || mount.at.contains(&socket.logical)
            }) {
                return Err(refuse_writable(&socket.logical));
            }
        }
        let places = mounts.iter().map(|mount| &mount.at);
        let places = places.chain(&private).chain(&shown).chain(&programs);
        let above = directories_above(places, &roots);
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

/// Returns the mounts, outer ones first, and their paths in the policy's order.
fn place_mounts(
    policy: &Policy,
    run: &SeatbeltRun,
) -> Result<(Vec<SeatbeltMount>, Vec<Spelled>), Error> {
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
    // The sort is stable: equally deep ones stay in the policy's order, whatever their names.
    mounts.sort_by_key(|mount| mount.at.depths());
    Ok((mounts, roots))
}

/// Returns every directory on the way to these places, each once.
fn directories_above<'p>(
    places: impl Iterator<Item = &'p Spelled>,
    roots: &[Spelled],
) -> Vec<Above> {
    let mut above: Vec<Above> = Vec::new();
    for path in places.flat_map(Spelled::looked_at) {
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
    above
}

/// Refuses a part of a mount that the policy does not recognise as one, because it names the part
/// by one spelling and the mount by the other: the patterns of the mount would not apply in it.
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

    /// Returns the names of the parameters.
    pub(super) fn names(&self) -> [String; 2] {
        [self.name.clone(), format!("{}_LOGICAL", self.name)]
    }

    /// Returns the number of components of each of the two paths.
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

    /// Returns the paths that a lookup of this path inspects. A link itself is looked up by its
    /// real name.
    fn looked_at(&self) -> [PathBuf; 3] {
        [
            self.canonical.clone(),
            self.logical.clone(),
            canonical(&self.logical),
        ]
    }
}

/// Returns the mount's directory with links followed.
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

/// Returns the kernel's spelling of a path, from its text alone.
pub(super) fn canonical(path: &Path) -> PathBuf {
    moved(path, LINKS)
}

/// Returns the spelling of a path that people write.
pub(super) fn logical(path: &Path) -> PathBuf {
    moved(path, LINKS.map(|(logical, canonical)| (canonical, logical)))
}

/// Replaces a prefix of a path. Builds it from components, without a slash at the end, which would
/// match nothing.
fn moved(path: &Path, links: [(&str, &str); 3]) -> PathBuf {
    for (from, to) in links {
        if let Ok(rest) = path.strip_prefix(from) {
            return Path::new(to).join(rest).components().collect();
        }
    }
    path.components().collect()
}
