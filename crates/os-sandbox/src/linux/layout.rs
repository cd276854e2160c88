//! The mounts of a command that somebody else makes, an engine: the same names are looked for, held
//! and swept as under bubblewrap, and the same places come of them.

use super::after::After;
use super::bwrap::{Op, ops};
use super::guards::guard;
use super::sweep::Sweep;
use super::view::host_mounts;
use super::worktree;
use crate::access::Access;
use crate::child::Notes;
use crate::error::Error;
use crate::layout::{Layout, Owner, Placed, What};
use crate::policy::Policy;
use crate::promise::Promise;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Looks at the mounts now; what was held for it is given up with the layout.
pub(crate) fn layout(policy: &Policy, state_dir: Option<&Path>) -> Result<Layout, Error> {
    let mut mounts = host_mounts(policy)?;
    let of_policy = mounts.len();
    let mut owners = Vec::new();
    for mount in mounts.iter().filter(|m| m.access.contains(Access::WRITE)) {
        let meta = mount
            .handle
            .metadata()
            .map_err(|error| Error::io("could not look at a mount", error))?;
        owners.push(Owner {
            name: mount.inside.clone(),
            uid: meta.uid(),
            gid: meta.gid(),
        });
    }
    let (shown, remarks) = worktree::linked(policy, &mounts, true);
    mounts.extend(shown);
    let remarks = remarks.into_iter();
    let remarks = remarks.map(|remark| (Promise::WriteOutside, remark));
    let guarded = guard(policy, &mounts, state_dir)?;
    let placed = ops(&mounts, &guarded.names)?
        .into_iter()
        .map(|((_, inside), op)| Placed {
            inside: OsString::from_vec(inside).into(),
            what: match op {
                Op::Bind { from, writable, .. } => What::Host { from, writable },
                Op::Mask { is_dir, .. } => What::Closed { is_dir },
            },
        })
        .collect();
    let directories = mounts[..of_policy].iter().map(|mount| mount.is_dir);
    Ok(Layout {
        placed,
        owners,
        directories: directories.collect(),
        notes: Notes(guarded.notes, remarks.collect()),
        after: After::new(Sweep::new(policy, mounts, guarded.names), guarded.held),
    })
}
