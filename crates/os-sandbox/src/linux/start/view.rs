//! How sandbox paths and host paths meet: where a working directory or program named by its sandbox
//! path lies under each mechanism.

use super::super::host_mount::{HostMount, join};
use super::super::landlock::private::ScratchDir;
use crate::policy::{Mount, MountPlacement, Policy};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where the target finds things.
pub(crate) struct MountView<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) mounts: &'a [HostMount],
    /// `None` if mounts, HOME and TMPDIR appear at their sandbox paths.
    pub(crate) private: Option<&'a ScratchDir>,
}

impl MountView<'_> {
    /// The working directory, `/work`, as the target must name it.
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

    /// A directory that the caller names by its sandbox path.
    pub(crate) fn directory(&self, cwd: Option<&str>) -> PathBuf {
        let Some(cwd) = cwd else { return self.work() };
        if !cwd.starts_with('/') {
            return self.work().join(cwd);
        }
        self.place(cwd).unwrap_or_else(|| PathBuf::from(cwd))
    }

    /// Where to look for a program: along PATH, or where its path says.
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
        // A program in a mount goes by its sandbox path everywhere; one of the system by its own.
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

    /// An absolute sandbox path, if a mount or `/work` has it.
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
            // Every absolute path could be meant, or one of the system; only what is there is.
            MountPlacement::Root | MountPlacement::InWork => {
                join(host.host.clone(), rest).exists().then_some(placed)
            }
            MountPlacement::Named | MountPlacement::NestedIn(_) | MountPlacement::Covers(_) => {
                Some(placed)
            }
        }
    }
}
