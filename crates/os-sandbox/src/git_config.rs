//! Changes of git's configuration, and the checks of files that git obeys.

pub(crate) use sandbox_names::git_harm::{
    MAX_BYTES, attributes, change, config, config_of_tree, modules,
};

/// A change of a repository's configuration that git asked for.
///
/// ```
/// use os_sandbox::GitConfigChange;
///
/// let change = GitConfigChange { path: "/work/.git/config".into(), refused: None };
/// assert!(change.refused.is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct GitConfigChange {
    /// The path as the command sees it. Invisible characters are escaped.
    pub path: String,
    /// The reason why the file was not changed. `None` if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}
