//! Directories made below one that a person named: a link on the way leads to another's files,
//! which `create_dir_all` would follow.

use std::io::{Error, ErrorKind, Result};
use std::path::{Component, Path};

/// Makes every directory of `below` in `base`, and refuses what is there and is none.
pub(crate) fn make_below(base: &Path, below: &Path) -> Result<()> {
    let mut dir = base.to_owned();
    for component in below.components() {
        match component {
            Component::CurDir => continue,
            Component::Normal(name) => dir.push(name),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Error::new(ErrorKind::InvalidInput, "it leads out of here"));
            }
        }
        match std::fs::create_dir(&dir) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made?,
        }
        let found = std::fs::symlink_metadata(&dir)?;
        if !found.is_dir() {
            let what = if found.is_symlink() {
                "a link"
            } else {
                "no directory"
            };
            let name = crate::visible::visible_path(dir.strip_prefix(base).unwrap_or(&dir));
            let message = format!("`{name}` is {what}");
            return Err(Error::new(ErrorKind::NotADirectory, message));
        }
    }
    Ok(())
}
