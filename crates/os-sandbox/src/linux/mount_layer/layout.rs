//! Mounts of a command that a container engine makes: the sandbox finds, holds and sweeps the names
//! as under bubblewrap, and computes the same mounts.

use super::super::below;
use super::super::git_audit::worktree;
use super::super::guards::after::Cleanup;
use super::super::guards::sweep::PostRunScan;
use super::super::guards::{RecordPlace, guard};
use super::super::host_mount::{HostMount, host_mounts, identity};
use super::root::{Op, ops};
use crate::access::Access;
use crate::error::{Error, ErrorKind};
use crate::findings::StartNotes;
use crate::layout::{Layout, LayoutContent, LayoutEntry, Owner};
use crate::policy::Policy;
use crate::promise::Promise;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Sources of mounts, with the identity of each file.
#[derive(Default)]
pub struct MountSources(Vec<(PathBuf, (u64, u64))>);

impl MountSources {
    /// Adds a file or directory of the mechanism's own that the engine opens by path, too.
    ///
    /// # Errors
    /// If the path does not exist, or has a link in it.
    pub fn add(&mut self, path: &Path) -> Result<(), Error> {
        let failed = |error| Error::io(format!("could not open {}", path.display()), error);
        let found = below::place(path).map_err(|errno| failed(errno.into()))?;
        let identity = identity(&File::from(found))?;
        self.0.push((path.to_owned(), identity));
        Ok(())
    }

    /// Checks that each source is still the same file, without a link on the way. An engine opens
    /// each source by path, and a command that runs beside this one could have created a link there
    /// meanwhile.
    ///
    /// # Errors
    /// If a file was replaced.
    pub fn unchanged(&self) -> Result<(), Error> {
        let still = |path: &PathBuf, was: &(u64, u64)| {
            let found = below::place(path).ok().map(File::from)?;
            (identity(&found).ok()? == *was).then_some(())
        };
        let changed = self.0.iter().find(|(path, was)| still(path, was).is_none());
        changed.map_or(Ok(()), |(path, _)| {
            let path = path.display();
            Err(ErrorKind::Enforcement
                .error(format!(
                    "{path} was replaced while the container was started, so it was ended"
                ))
                .with_hint("another program moves it; try again when that is done"))
        })
    }
}

/// Computes the layout from the present state of the mounts. Dropping the layout removes the
/// placeholders that were created for it.
pub(crate) fn layout(policy: &Policy, state_dir: Option<&Path>) -> Result<Layout, Error> {
    let mut mounts = host_mounts(policy)?;
    let of_policy = mounts.len();
    let owners = owners(&mounts)?;
    let remarks = worktree::show(policy, &mut mounts, true);
    let remarks = remarks.into_iter();
    let remarks = remarks.map(|remark| (Promise::WriteOutside, remark));
    let guarded = guard(policy, &mounts, state_dir, RecordPlace::StateDir(state_dir))?;
    let mut sources = MountSources(Vec::new());
    let placed = ops(&mounts, &guarded.names)?
        .into_iter()
        .map(|((_, inside), op)| LayoutEntry {
            inside: OsString::from_vec(inside).into(),
            what: match op {
                Op::Bind {
                    from,
                    writable,
                    identity,
                    ..
                } => {
                    sources.0.push((from.clone(), identity));
                    LayoutContent::Host { from, writable }
                }
                Op::Mask { is_dir, .. } => LayoutContent::Closed { is_dir },
            },
        })
        .collect();
    let directories = mounts[..of_policy].iter().map(|mount| mount.is_dir);
    let directories = directories.collect();
    let held = guarded.held;
    let scan = PostRunScan::new(
        policy,
        mounts,
        guarded.names,
        guarded.running,
        held.as_ref(),
    )?;
    let unrecorded = scan.as_ref().and_then(PostRunScan::remark);
    let remarks = remarks.chain(guarded.remarks).chain(unrecorded);
    Ok(Layout {
        placed,
        owners,
        directories,
        sources,
        notes: StartNotes {
            degraded: guarded.notes,
            annotations: remarks.collect(),
            hidden: guarded.hidden,
        },
        after: Cleanup::new(scan, held, guarded.left),
    })
}

/// Returns the owners of the writable mounts.
fn owners(mounts: &[HostMount]) -> Result<Vec<Owner>, Error> {
    let writable = mounts
        .iter()
        .filter(|mount| mount.access.contains(Access::WRITE));
    let owner = |mount: &HostMount| {
        let meta = mount.handle.metadata();
        let meta = meta.map_err(|error| Error::io("could not look at a mount", error))?;
        Ok(Owner {
            name: mount.inside.clone(),
            uid: meta.uid(),
            gid: meta.gid(),
        })
    };
    writable.map(owner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_was_replaced_is_noticed() {
        let scratch = tempfile::tempdir().expect("a directory");
        let top = scratch.path().canonicalize().expect("its path");
        let at = |name: &str| top.join(name);
        type Change<'a> = &'a dyn Fn();
        let aside = || fs::rename(at("project/.git"), at("aside")).expect("moved");
        let changes: [(&str, Change<'_>, bool); 4] = [
            ("nothing", &|| {}, true),
            (
                "a file in it",
                &|| fs::write(at("project/file"), "").expect("a file"),
                true,
            ),
            (
                "a link in its place",
                &|| {
                    aside();
                    symlink(at("aside"), at("project/.git")).expect("a link");
                },
                false,
            ),
            (
                "another one",
                &|| {
                    aside();
                    fs::create_dir_all(at("project/.git/hooks")).expect("a directory");
                },
                false,
            ),
        ];
        for (what, change, unchanged) in changes {
            let _fresh = fs::remove_dir_all(at("project"));
            let _fresh = fs::remove_dir_all(at("aside"));
            fs::create_dir_all(at("project/.git/hooks")).expect("a directory");
            let policy = Policy::builder()
                .mount(at("project"), "/", Access::ALL)
                .protect(".git/hooks");
            let policy = policy.build().expect("a policy");
            let layout = layout(&policy, Some(&at("state"))).expect("a layout");
            assert!(layout.placed.len() >= 3, "{:?}", layout.placed);
            change();
            let found = layout.sources.unchanged();
            assert_eq!(found.is_ok(), unchanged, "{what}: {found:?}");
        }
    }
}
