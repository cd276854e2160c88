//! Removes a tree that a target left: of any depth, with any permissions, and with links to any
//! path. `std::fs::remove_dir_all` needs a descriptor and a stack frame for each level, and a
//! target can create any number of levels; this code empties every directory into the top one, so
//! that two levels are open at a time. No path is used that could contain a link.

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, renameat};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::CString;
use std::fs::Permissions;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Names read at a time: a target can have created more than fit into memory.
const MAX_LISTED: usize = 4096;

/// Bound on the levels that are removed.
const MAX_ROUNDS: usize = 1 << 20;

/// Removes the directory `path` and everything in it, as far as possible. The next sweep handles
/// the rest.
pub(crate) fn remove(path: &Path) {
    if let Ok(top) = open_up(AT_FDCWD, path) {
        let mut removal = Removal { top, changes: 0 };
        for _ in 0..MAX_ROUNDS {
            let before = removal.changes;
            // Every change takes a name away or brings it nearer to the top.
            if removal.level().is_err() || removal.changes == before {
                break;
            }
        }
    }
    let _ = unlinkat(AT_FDCWD, path, UnlinkatFlags::RemoveDir);
}

struct Removal {
    top: OwnedFd,
    changes: u64,
}

impl Removal {
    /// Removes the files in the top directory, and moves up the entries two levels below it.
    fn level(&mut self) -> Result<(), Errno> {
        for (name, kind) in list(self.top.as_fd())? {
            let top = self.top.as_fd();
            if gone(top, &name, kind) {
                self.changes += 1;
                continue;
            }
            let Ok(below) = open_up(top, name.as_c_str()) else {
                continue;
            };
            for (child, kind) in list(below.as_fd()).unwrap_or_default() {
                if gone(below.as_fd(), &child, kind) || self.move_up(&below, &child) {
                    self.changes += 1;
                }
            }
            if gone(self.top.as_fd(), &name, kind) {
                self.changes += 1;
            }
        }
        Ok(())
    }

    fn move_up(&self, from: &OwnedFd, name: &CString) -> bool {
        // Why open: a directory that cannot be written cannot be moved.
        let Ok(_directory) = open_up(from, name.as_c_str()) else {
            return false;
        };
        // A name may be taken already; the next one is not.
        (0..16).any(|next| {
            let to = format!(".{:016x}", self.changes.wrapping_add(next));
            renameat(from, name.as_c_str(), &self.top, to.as_str()).is_ok()
        })
    }
}

/// Removes a file or an empty directory. Returns `true` if it is gone.
fn gone(at: BorrowedFd<'_>, name: &CString, kind: Option<Type>) -> bool {
    let unlink = |flag| unlinkat(at, name.as_c_str(), flag).is_ok();
    kind != Some(Type::Directory) && unlink(UnlinkatFlags::NoRemoveDir)
        || unlink(UnlinkatFlags::RemoveDir)
}

/// Lists the names in a directory, without `.` and `..`.
fn list(directory: BorrowedFd<'_>) -> Result<Vec<(CString, Option<Type>)>, Errno> {
    let again = openat(directory, ".", READ, Mode::empty())?;
    let mut out = Vec::new();
    for entry in Dir::from_fd(again)?.iter().take(MAX_LISTED) {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            out.push((entry.file_name().to_owned(), entry.file_type()));
        }
    }
    Ok(out)
}

const READ: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// Opens a directory, never through a link, with all rights of the owner. A target may have taken
/// them away.
fn open_up<P: ?Sized + nix::NixPath>(at: impl AsFd, name: &P) -> Result<OwnedFd, Errno> {
    let place = openat(at, name, READ.union(OFlag::O_PATH), Mode::empty())?;
    if fstat(&place)?.st_mode & 0o700 != 0o700 {
        let path = format!("/proc/self/fd/{}", place.as_raw_fd());
        std::fs::set_permissions(path, Permissions::from_mode(0o700))
            .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))?;
    }
    openat(&place, ".", READ, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn mkdir(at: impl AsFd, name: &str) -> OwnedFd {
        nix::sys::stat::mkdirat(&at, name, Mode::S_IRWXU).expect("a directory");
        openat(&at, name, READ, Mode::empty()).expect("opened")
    }

    #[test]
    fn a_tree_deeper_than_descriptors_stack_and_path_length() {
        let base = tempfile::tempdir().expect("a directory");
        let top = base.path().join("top");
        fs::create_dir(&top).expect("a directory");
        for width in ["a", "b"] {
            let mut at = openat(AT_FDCWD, &top, READ, Mode::empty()).expect("opened");
            at = mkdir(&at, width);
            for _ in 0..3000 {
                at = mkdir(&at, "d");
            }
            let file = openat(&at, "file", OFlag::O_CREAT | OFlag::O_WRONLY, Mode::empty());
            file.expect("a file");
        }
        // Such a tree could not be cleared away by the directory's own end.
        let kept = base.path().to_owned();
        remove(&top);
        assert!(!top.exists());
        assert_eq!(fs::read_dir(kept).expect("a list").count(), 0);
    }

    #[test]
    fn nothing_behind_a_link_and_no_permissions_in_the_way() {
        let base = tempfile::tempdir().expect("a directory");
        let (top, outside) = (base.path().join("top"), base.path().join("outside"));
        fs::create_dir_all(top.join("x/y/z")).expect("directories");
        fs::create_dir(&outside).expect("a directory");
        fs::write(outside.join("file"), "kept").expect("a file");
        fs::set_permissions(&outside, Permissions::from_mode(0o500)).expect("a mode");
        symlink(&outside, top.join("link")).expect("a link");
        symlink(&outside, top.join("x/y/link")).expect("a link");
        symlink(&outside, base.path().join("top-link")).expect("a link");
        fs::write(top.join("x/y/file"), "").expect("a file");
        // As if it had been moved there already.
        fs::create_dir_all(top.join(".0000000000000001/full")).expect("directories");
        for dir in ["x/y/z", "x/y", "x", ""] {
            fs::set_permissions(top.join(dir), Permissions::from_mode(0o000)).expect("a mode");
        }
        remove(&base.path().join("top-link"));
        remove(&top);
        assert!(!top.exists());
        assert_eq!(
            fs::read_to_string(outside.join("file")).expect("kept"),
            "kept"
        );
        let mode = fs::metadata(&outside).expect("kept").permissions().mode();
        assert_eq!(mode & 0o777, 0o500);
    }
}
