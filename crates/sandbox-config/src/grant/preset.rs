//! The rights that presets add for one command, as values: built by `preset`, given to a load in
//! [`Sources`](crate::Sources).

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::grant::network::HostLine;

/// A file or directory of a person that commands see at its own path.
///
/// ```
/// let state = sandbox_config::SharedState {
///     host: "/home/me/.claude".into(),
///     writable: true,
///     executable: false,
///     protect: vec!["/settings.json".into()],
/// };
/// assert!(state.writable);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedState {
    /// The absolute path, without links.
    pub host: PathBuf,
    /// `true` if commands may write.
    pub writable: bool,
    /// `true` if commands may execute programs in it.
    pub executable: bool,
    /// The names in it that commands do not change, beside those of every mount.
    pub protect: Vec<String>,
}

/// Rights that presets add to a project's ceiling ([`PresetSet::rights`](crate::PresetSet::rights)).
/// The limits of the user file still hold for them, and hosts that the project denies stay denied.
///
/// ```
/// let none = sandbox_config::PresetRights::default();
/// assert!(none.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct PresetRights {
    pub(crate) hosts: Vec<HostLine>,
    pub(crate) programs: Vec<PathBuf>,
    pub(crate) protect: Vec<String>,
    pub(crate) unprotect: Vec<String>,
    pub(crate) pass: Vec<String>,
    pub(crate) set: BTreeMap<String, String>,
}

impl PresetRights {
    /// Returns `true` if they add nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
            && self.programs.is_empty()
            && self.protect.is_empty()
            && self.unprotect.is_empty()
            && self.pass.is_empty()
            && self.set.is_empty()
    }
}
