//! The places of the broker's directories in a node.

use std::path::{Path, PathBuf};

use os_sandbox::Policy;

use crate::error::NodeError;

/// The paths of the broker's directories on a node.
///
/// ```
/// use forge_node::PathMapping;
/// use os_sandbox::{Access, Policy};
/// use std::path::Path;
///
/// let policy = Policy::builder().mount("/home/me/project", "/", Access::ALL).build().unwrap();
/// let inside = PathMapping::of(&policy);
/// assert_eq!(inside.find(Path::new("/home/me/project/src")).unwrap(), Path::new("/work/src"));
/// assert_eq!(inside.find(Path::new("/home/me")), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathMapping {
    /// At the broker's paths: without a mount in between.
    Same,
    /// Each of these at another place, with everything below it.
    Moved(Vec<(PathBuf, PathBuf)>),
}

impl PathMapping {
    /// The paths at which a mount layer shows the mounts of a policy.
    pub fn of(policy: &Policy) -> PathMapping {
        let mounts = policy.mounts().iter();
        PathMapping::Moved(
            mounts
                .map(|mount| (mount.host().to_owned(), PathBuf::from(mount.inside())))
                .collect(),
        )
    }

    /// Returns the path of a directory of the broker on the node; `None` if the node does not have it.
    pub fn find(&self, host: &Path) -> Option<PathBuf> {
        let moved = match self {
            PathMapping::Same => return Some(host.to_owned()),
            PathMapping::Moved(moved) => moved,
        };
        let longest = moved
            .iter()
            .filter_map(|(from, to)| Some((from, to, host.strip_prefix(from).ok()?)))
            .max_by_key(|(from, _, _)| from.as_os_str().len());
        longest.map(|(_, to, below)| match below.as_os_str().is_empty() {
            true => to.clone(),
            false => to.join(below),
        })
    }
    /// Returns where the directory of a mount is for the node.
    ///
    /// # Errors
    ///
    /// It is not there.
    pub(crate) fn find_mount(&self, host: &Path, mount: &str) -> Result<PathBuf, NodeError> {
        self.find(host).ok_or_else(|| not_there(mount))
    }
}

/// The error for a mount that the node cannot have.
pub(crate) fn not_there(mount: &str) -> NodeError {
    NodeError::Unsupported(format!("{mount} cannot be had there"))
}
