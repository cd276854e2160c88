//! The front-ends: what project files call the directories they give. All lower to the same rows
//! of one mount table; which one it was decides the words of messages and what a called worker
//! without a declaration gets (behaviour C1, C2).

pub(crate) mod choose;
mod mount_table;
pub(crate) mod mounts;
pub(crate) mod named;
mod path_lists;
pub(crate) mod path_scope;
pub(crate) mod paths;
mod root;
mod zones;

/// How a project file spells its directories. A file has one of them.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use sandbox_config::{load, FrontEnd, Sources};
/// let project = load(&Sources::new(dir.path())).unwrap();
/// assert_eq!(project.ceiling().front(), FrontEnd::Zones);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrontEnd {
    /// `zones`: named directories, at `/name`. What holds without any key, too.
    Zones,
    /// `root` alone: one directory, at `/`.
    Root,
    /// `paths`: named directories, at `/name`, shown as `./name`.
    Paths,
    /// `mounts`: each with its own target.
    Mounts,
    /// `read_paths` and `write_paths`: host directories, named after themselves.
    PathLists,
}

impl FrontEnd {
    /// A sandbox path as messages show it where nobody asked for it in words of their own:
    /// `./portfolio` in a project with `paths`, `/data` otherwise.
    ///
    /// ```
    /// use sandbox_config::FrontEnd;
    /// assert_eq!(FrontEnd::Paths.show("/portfolio"), "./portfolio");
    /// assert_eq!(FrontEnd::Zones.show("/data"), "/data");
    /// ```
    #[must_use]
    pub fn show(self, path: &str) -> String {
        match self {
            FrontEnd::Paths => format!(".{path}"),
            FrontEnd::Zones | FrontEnd::Root | FrontEnd::Mounts | FrontEnd::PathLists => {
                path.to_owned()
            }
        }
    }

    /// What people call one of its directories.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            FrontEnd::Zones => "zone",
            FrontEnd::Root | FrontEnd::Mounts => "mount",
            FrontEnd::Paths | FrontEnd::PathLists => "path",
        }
    }

    /// What a called worker without a `sandbox` key gets, unless `sandbox.default` says it.
    pub(crate) fn undeclared(self) -> DefaultAccess {
        match self {
            FrontEnd::Zones => DefaultAccess::Nothing,
            FrontEnd::Root | FrontEnd::Paths | FrontEnd::Mounts | FrontEnd::PathLists => {
                DefaultAccess::Inherit
            }
        }
    }
}

/// The answer to a worker that declares nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultAccess {
    Nothing,
    Inherit,
}
