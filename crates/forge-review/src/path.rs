//! A path below the root of a mount: names only, so that it cannot lead out.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A relative path without `.`, `..` and empty names. The empty path is the root itself.
///
/// ```
/// # #[cfg(target_os = "linux")] {
/// use forge_review::TreePath;
/// assert!(TreePath::parse("src/main.rs".as_ref()).is_some());
/// assert!(TreePath::parse("../main.rs".as_ref()).is_none());
/// # }
/// ```
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreePath {
    names: Vec<OsString>,
}

impl TreePath {
    /// Reads a path. `None` if it is absolute or has a name that is `..`; `.` and double slashes
    /// are left out.
    pub fn parse(path: &Path) -> Option<TreePath> {
        use std::path::Component;
        let mut names = Vec::new();
        for component in path.components() {
            match component {
                Component::CurDir => {}
                Component::Normal(name) => names.push(name.to_owned()),
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
            }
        }
        Some(TreePath { names })
    }

    /// Returns the path of `name` in this directory.
    pub(crate) fn join(&self, name: &OsStr) -> TreePath {
        let mut names = self.names.clone();
        names.push(name.to_owned());
        TreePath { names }
    }

    /// Returns the names, outermost first.
    pub fn names(&self) -> &[OsString] {
        &self.names
    }

    /// Returns the directory and the last name; `None` for the root.
    pub(crate) fn split_last(&self) -> Option<(TreePath, &OsStr)> {
        let (last, above) = self.names.split_last()?;
        let names = above.to_vec();
        Some((TreePath { names }, last))
    }

    /// Returns `true` if this is `other` or a path below it.
    pub fn starts_with(&self, other: &TreePath) -> bool {
        self.names.starts_with(&other.names)
    }

    /// Returns the paths of the directories above, outermost first, without the root.
    pub(crate) fn parents(&self) -> impl Iterator<Item = TreePath> + '_ {
        (1..self.names.len()).map(|end| TreePath {
            names: self.names[..end].to_vec(),
        })
    }

    /// Returns the names as the tables of names compare them.
    pub(crate) fn folded_names(&self) -> Vec<String> {
        let names = self.names.iter();
        names
            .map(|name| sandbox_names::fold(&name.to_string_lossy()))
            .collect()
    }

    /// Returns the directories around this path, outermost first, with a name of generated files
    /// (dependencies, environments, build output). `is_dir` if the path itself is a directory.
    pub(crate) fn generated_roots(&self, is_dir: bool) -> impl Iterator<Item = TreePath> + '_ {
        let names = self.folded_names();
        let is_generated = move |at: &usize| {
            sandbox_names::exempt::is_dependencies(&names[*at]) || is_objects(&names[..=*at])
        };
        let dirs = self.names.len() - usize::from(!is_dir && !self.names.is_empty());
        (0..dirs).filter(is_generated).map(|at| TreePath {
            names: self.names[..=at].to_vec(),
        })
    }

    /// Returns the path as text of the file system; `.` for the root.
    pub fn to_os_string(&self) -> OsString {
        if self.names.is_empty() {
            return OsString::from(".");
        }
        self.names.join(OsStr::new("/"))
    }
}

/// Returns `true` for the object store of a repository, by its folded names.
pub(crate) fn is_objects(names: &[String]) -> bool {
    matches!(names, [.., git, objects] if git == ".git" && objects == "objects")
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_os_string().fmt(f)
    }
}

/// Text for a message. It may contain control characters: callers escape it for a terminal.
impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_os_string().to_string_lossy().fmt(f)
    }
}

/// Bytes as JSON: text, or hexadecimal digits if they are not UTF-8.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum BytesAsJson {
    Text(String),
    Hex { hex: String },
}

pub(crate) fn serialize_bytes<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    match std::str::from_utf8(bytes) {
        Ok(text) => to.serialize_str(text),
        Err(_) => BytesAsJson::Hex {
            hex: sandbox_names::hex(bytes),
        }
        .serialize(to),
    }
}

pub(crate) fn deserialize_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let hex = match BytesAsJson::deserialize(from)? {
        BytesAsJson::Text(text) => return Ok(text.into_bytes()),
        BytesAsJson::Hex { hex } => hex,
    };
    let bytes = sandbox_names::unhex(&hex);
    bytes.ok_or_else(|| serde::de::Error::custom("invalid hexadecimal digits"))
}

/// A path of the host as JSON: text, or hexadecimal digits if it is not UTF-8.
pub(crate) mod path_as_json {
    use super::{deserialize_bytes, serialize_bytes};
    use serde::{Deserializer, Serializer};
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        serialize_bytes(path.as_os_str().as_bytes(), to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Ok(OsString::from_vec(deserialize_bytes(from)?).into())
    }
}

impl Serialize for TreePath {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        serialize_bytes(self.to_os_string().as_bytes(), to)
    }
}

impl<'de> Deserialize<'de> for TreePath {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let path = OsString::from_vec(deserialize_bytes(from)?);
        let path = TreePath::parse(Path::new(&path));
        path.ok_or_else(|| serde::de::Error::custom("the path leads out of its mount"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_path_reads_back(bytes in proptest::collection::vec(1u8..=255, 1..40)) {
            let path = OsString::from_vec(bytes);
            if let Some(path) = TreePath::parse(Path::new(&path)) {
                let json = serde_json::to_string(&path).unwrap();
                prop_assert_eq!(serde_json::from_str::<TreePath>(&json).unwrap(), path);
            }
        }
    }

    #[test]
    fn paths_that_lead_out() {
        for path in ["..", "a/..", "/a", "/"] {
            assert!(TreePath::parse(Path::new(path)).is_none(), "{path}");
            let json = serde_json::to_string(path).unwrap();
            assert!(serde_json::from_str::<TreePath>(&json).is_err(), "{path}");
        }
        let root = TreePath::parse(Path::new(".")).unwrap();
        assert_eq!(root, TreePath::default());
        let path = TreePath::parse(Path::new("a//b/./c/")).unwrap();
        assert_eq!(path.to_string(), "a/b/c");
        let parents: Vec<String> = path.parents().map(|path| path.to_string()).collect();
        assert_eq!(parents, ["a", "a/b"]);
    }
}
