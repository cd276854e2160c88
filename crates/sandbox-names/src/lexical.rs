//! Paths as texts.

use std::path::{Component, Path, PathBuf};

/// Removes `.` and `..` from a path, as if no part of it were a link. Nothing is above the root.
///
/// ```
/// use sandbox_names::lexical::normalize;
/// assert_eq!(normalize("/a/./b/../c".as_ref()), std::path::Path::new("/a/c"));
/// ```
#[must_use]
pub fn normalize(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => out.push(part),
        }
    }
    out
}
