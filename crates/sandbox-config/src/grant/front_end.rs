//! How a project file spells its directories, and the default of a worker that declares none.

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
    /// `zones`: named directories, at `/name`. Also the default without any key.
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
    /// Returns a sandbox path as messages show it if the user did not write it: `./portfolio` in a
    /// project with `paths`, `/data` otherwise.
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
            _ => path.to_owned(),
        }
    }

    /// Returns the word for one of its directories.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            FrontEnd::Zones => "zone",
            FrontEnd::Root | FrontEnd::Mounts => "mount",
            FrontEnd::Paths | FrontEnd::PathLists => "path",
        }
    }

    /// Returns the access of a called worker without a `sandbox` key, unless `sandbox.default` sets
    /// it.
    pub(crate) fn undeclared(self) -> DefaultAccess {
        match self {
            FrontEnd::Zones => DefaultAccess::Nothing,
            _ => DefaultAccess::Inherit,
        }
    }
}

/// The answer to a worker that declares nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultAccess {
    Nothing,
    Inherit,
}
