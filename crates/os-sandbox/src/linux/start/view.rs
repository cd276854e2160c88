//! Translates sandbox paths to the paths of a target, under each mechanism: the working directory,
//! and programs that are named by a sandbox path.

use super::super::host_mount::{HostMount, join};
use super::super::landlock::private::ScratchDir;
use super::super::wire;
use crate::access::Access;
use crate::policy::{Mount, MountPlacement, Policy};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Paths as the target names them.
pub(crate) struct MountView<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) mounts: &'a [HostMount],
    /// `None` if mounts, HOME and TMPDIR appear at their sandbox paths.
    pub(crate) private: Option<&'a ScratchDir>,
}

impl MountView<'_> {
    /// Returns the working directory, `/work`, as the target must name it.
    pub(crate) fn work(&self) -> PathBuf {
        let Some(private) = self.private else {
            let root = self
                .policy
                .mounts()
                .iter()
                .find(|one| one.place() == MountPlacement::Root);
            return PathBuf::from(root.map_or("/work", Mount::inside));
        };
        match self
            .mounts
            .iter()
            .find(|mount| mount.place == MountPlacement::Root)
        {
            Some(root) => root.host.clone(),
            None => private.work(),
        }
    }

    /// Returns a directory that the caller names by its sandbox path.
    pub(crate) fn directory(&self, cwd: Option<&str>) -> PathBuf {
        let Some(cwd) = cwd else { return self.work() };
        if !cwd.starts_with('/') {
            return self.work().join(cwd);
        }
        self.place(cwd).unwrap_or_else(|| PathBuf::from(cwd))
    }

    /// Returns the candidates for a program: along PATH, or its own path.
    pub(crate) fn candidates(&self, program: &OsStr, path: &OsStr) -> Vec<Vec<u8>> {
        let bytes = program.as_bytes();
        if !bytes.contains(&b'/') {
            return path
                .as_bytes()
                .split(|byte| *byte == b':')
                .filter(|dir| dir.first() == Some(&b'/'))
                .map(|dir| [dir, b"/", bytes].concat())
                .collect();
        }
        let mut out = Vec::new();
        // A program in a mount has its sandbox path everywhere; a program of the system its own
        // path.
        if let Some(placed) = program
            .to_str()
            .filter(|p| p.starts_with('/'))
            .and_then(|p| self.place(p))
        {
            out.push(placed.into_os_string().as_bytes().to_vec());
        }
        if out.first().map(Vec::as_slice) != Some(bytes) {
            out.push(bytes.to_vec());
        }
        out
    }

    /// Returns an absolute sandbox path as the target names it, if a mount or `/work` contains it.
    fn place(&self, path: &str) -> Option<PathBuf> {
        let path = Path::new(path);
        let mut mounts = self.policy.mounts().iter();
        if mounts.any(|mount| mount.is_at_host_path() && path.starts_with(mount.inside())) {
            return Some(path.to_owned());
        }
        if let Ok(rest) = path.strip_prefix("/work") {
            return Some(join(self.work(), rest));
        }
        let named = self
            .policy
            .mounts()
            .iter()
            .zip(self.mounts)
            .filter(|(mount, _)| path.starts_with(mount.seen_as()))
            .max_by_key(|(mount, _)| mount.seen_as().len());
        let (mount, host) = named?;
        let rest = path.strip_prefix(mount.seen_as()).ok()?;
        let base = match self.private {
            None => PathBuf::from(&host.inside),
            Some(_) => host.host.clone(),
        };
        let placed = join(base, rest);
        match host.place {
            // An absolute path could be in this mount or in the system; only an existing file
            // decides.
            MountPlacement::Root | MountPlacement::InWork => {
                join(host.host.clone(), rest).exists().then_some(placed)
            }
            MountPlacement::Named | MountPlacement::NestedIn(_) | MountPlacement::Covers(_) => {
                Some(placed)
            }
        }
    }
}

/// Returns the host paths of the directories that the command may write.
pub(super) fn writable_places(mounts: &[HostMount], private: Option<&ScratchDir>) -> Vec<PathBuf> {
    let own = private.map(|private| [private.home(), private.tmp()]);
    mounts
        .iter()
        .filter(|mount| mount.access.contains(Access::WRITE))
        .map(|mount| mount.host.clone())
        .chain(own.into_iter().flatten())
        .collect()
}

/// Returns the places below which the launcher makes calls for the command, with the rights there.
pub(super) fn call_places(mounts: &[HostMount], private: Option<&ScratchDir>) -> Vec<OsString> {
    let own = private.map(|private| [private.home(), private.tmp()]);
    let own = own.into_iter().flatten();
    let of_mounts = mounts
        .iter()
        .map(|mount| (mount.host.clone(), mount.access));
    let places = of_mounts.chain(own.map(|path| (path, Access::ALL)));
    let row = |(path, access): (PathBuf, Access)| {
        let has = |wanted, right| if access.contains(wanted) { right } else { 0 };
        let rights = has(Access::READ, wire::PLACE_READ) | has(Access::WRITE, wire::PLACE_WRITE);
        let mut row = vec![wire::PLACE + rights];
        row.extend(path.as_os_str().as_bytes());
        OsString::from_vec(row)
    };
    places.map(row).collect()
}
