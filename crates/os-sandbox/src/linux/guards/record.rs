//! Records of the placeholders that a run creates in a person's tree, so that a later run can
//! remove them if this one cannot. Records are lines of text; paths are hexadecimal, because a path
//! can contain any byte. A line that does not parse names no placeholder: nothing is removed for
//! it.

use super::super::below;
use crate::state_dir::boot;
use nix::errno::Errno;
use nix::sys::stat::{FileStat, SFlag};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use sandbox_names::{hex, unhex};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Bound on a record. A path of 4096 bytes takes twice as many; a run makes a few hundred.
pub(crate) const MAX_RECORD_BYTES: u64 = 4 << 20;
/// Bound on the placeholders of one record.
pub(crate) const MAX_HELD: usize = 1000;

const FIRST: &str = "os-sandbox-holds 1";

sandbox_names::word_enum! {
    /// Form of a placeholder.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum PlaceholderKind {
        /// A socket without a listener and without any permission: `open` fails at once (ENXIO or
        /// EACCES), git and most tools ignore it.
        Socket = "socket",
        /// An empty directory, as git expects `hooks` and `info`.
        Directory = "directory",
        /// An empty file, which git reads as no settings. Git stops at a `config.worktree` that it
        /// cannot open.
        Empty = "empty",
        /// A file with the content ".": a `commondir` that names the directory which git uses without
        /// one.
        DotFile = "here",
    }
    fn word
}

/// One placeholder: planned, and, once it is created, its inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placeholder {
    /// The directory on the host, links resolved.
    pub(crate) parent: PathBuf,
    pub(crate) name: OsString,
    pub(crate) form: PlaceholderKind,
    /// Device and inode.
    pub(crate) made: Option<(u64, u64)>,
}

/// Result of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    /// The placeholder is gone, or the file is not (or no longer) ours.
    Gone,
    /// The placeholder exists and could not be removed now.
    Stays,
}

impl PlaceholderKind {
    /// Returns the kind of a placeholder at this path with which git continues to work.
    pub(crate) fn of(path: &Path) -> PlaceholderKind {
        let in_git = path.parent().and_then(Path::file_name) == Some(OsStr::new(".git"));
        match path.file_name().and_then(OsStr::to_str) {
            Some("hooks" | "info" | "remotes" | "branches") if in_git => PlaceholderKind::Directory,
            Some("config" | "config.worktree") if in_git => PlaceholderKind::Empty,
            Some("commondir") if in_git => PlaceholderKind::DotFile,
            _ => PlaceholderKind::Socket,
        }
    }

    pub(crate) fn content(self) -> &'static [u8] {
        match self {
            PlaceholderKind::Socket | PlaceholderKind::Directory | PlaceholderKind::Empty => b"",
            PlaceholderKind::DotFile => b".\n",
        }
    }

    pub(crate) fn is_dir(self) -> bool {
        self == PlaceholderKind::Directory
    }

    fn parse(word: &str) -> Option<PlaceholderKind> {
        let mut all = PlaceholderKind::VARIANTS.iter().copied();
        all.find(|form| form.word() == word)
    }

    /// Returns `true` if the file could be a placeholder of ours.
    pub(crate) fn fits(self, parent: BorrowedFd<'_>, name: &OsStr, stat: &FileStat) -> bool {
        let kind = below::kind(stat);
        let ours = stat.st_uid == geteuid().as_raw();
        let unwritable = stat.st_mode & 0o222 == 0;
        match self {
            PlaceholderKind::Socket => {
                ours && kind == SFlag::S_IFSOCK && stat.st_mode & 0o7777 == 0
            }
            // `rmdir` removes it only if it is empty.
            PlaceholderKind::Directory => ours && kind == SFlag::S_IFDIR,
            PlaceholderKind::Empty | PlaceholderKind::DotFile => {
                let content = self.content();
                ours && unwritable
                    && kind == SFlag::S_IFREG
                    && u64::try_from(stat.st_size) == Ok(content.len() as u64)
                    && reads(parent, name, content)
            }
        }
    }
}

fn reads(parent: BorrowedFd<'_>, name: &OsStr, content: &[u8]) -> bool {
    let mut read = Vec::new();
    below::file(parent, name).is_ok_and(|file| {
        let taken = file.take(content.len() as u64 + 1).read_to_end(&mut read);
        taken.is_ok() && read == content
    })
}

impl Placeholder {
    /// Removes the placeholder, if the file is still the same. `same_boot`: device numbers still
    /// mean the same devices.
    pub(crate) fn remove(&self, same_boot: bool) -> Removed {
        let parent = match below::absolute(&self.parent) {
            Ok(parent) => parent,
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV | Errno::EINVAL) => {
                return Removed::Gone;
            }
            Err(_) => return Removed::Stays,
        };
        let Ok(stat) = below::look(parent.as_fd(), &self.name) else {
            return Removed::Gone;
        };
        let same = match self.made {
            None => true,
            Some((device, inode)) => inode == stat.st_ino && (device == stat.st_dev || !same_boot),
        };
        if !same || !self.form.fits(parent.as_fd(), &self.name, &stat) {
            return Removed::Gone;
        }
        let how = if self.form.is_dir() {
            UnlinkatFlags::RemoveDir
        } else {
            UnlinkatFlags::NoRemoveDir
        };
        match unlinkat(&parent, self.name.as_os_str(), how) {
            // Another program put a file into it, so the directory is that program's now.
            Ok(()) | Err(Errno::ENOENT | Errno::ENOTEMPTY | Errno::EEXIST) => Removed::Gone,
            Err(_) => Removed::Stays,
        }
    }
}

/// Returns the head of a record.
pub(crate) fn head() -> String {
    format!("{FIRST}\n{}\n", boot())
}

/// Returns the line that is written before a placeholder is visible.
pub(crate) fn wanted(placeholder: &Placeholder) -> String {
    format!(
        "want {} {} {}\n",
        placeholder.form.word(),
        hex(placeholder.parent.as_os_str().as_bytes()),
        hex(placeholder.name.as_bytes())
    )
}

/// Returns the line that is written once the placeholder exists; `index` counts the lines of
/// [`wanted`].
pub(crate) fn made(index: usize, (device, inode): (u64, u64)) -> String {
    format!("made {index} {device} {inode}\n")
}

/// Returns the placeholders of a record, and `true` if the record is from this boot.
pub(crate) fn parse(bytes: &[u8]) -> (Vec<Placeholder>, bool) {
    let mut out: Vec<Placeholder> = Vec::new();
    // The last line may be torn.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..whole]);
    let mut lines = text.lines();
    if lines.next() != Some(FIRST) {
        return (out, false);
    }
    let same_boot = lines.next() == Some(&boot());
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["want", form, parent, name] if out.len() < MAX_HELD => {
                if let Some(placeholder) = one(form, parent, name) {
                    out.push(placeholder);
                } else {
                    // Later lines refer to earlier ones by number.
                    return (out, same_boot);
                }
            }
            ["made", index, device, inode] => {
                let place = index
                    .parse()
                    .ok()
                    .and_then(|index: usize| out.get_mut(index));
                if let (Some(place), Ok(device), Ok(inode)) = (place, device.parse(), inode.parse())
                {
                    place.made = Some((device, inode));
                }
            }
            _ => {}
        }
    }
    (out, same_boot)
}

fn one(form: &str, parent: &str, name: &str) -> Option<Placeholder> {
    let parent = PathBuf::from(OsString::from_vec(unhex(parent)?));
    let name = unhex(name)?;
    let plain = !name.is_empty()
        && !matches!(name.as_slice(), b"." | b"..")
        && !name.iter().any(|byte| matches!(byte, b'/' | 0));
    (parent.is_absolute() && plain).then_some(Placeholder {
        form: PlaceholderKind::parse(form)?,
        parent,
        name: OsString::from_vec(name),
        made: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn placeholder(parent: &str, name: &[u8], form: PlaceholderKind) -> Placeholder {
        Placeholder {
            parent: parent.into(),
            name: OsString::from_vec(name.to_vec()),
            form,
            made: None,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut want = vec![
            placeholder("/a b/\u{e9}", b".vscode", PlaceholderKind::Socket),
            placeholder("/a\nb", b"\xff", PlaceholderKind::Directory),
            placeholder("/x", b"commondir", PlaceholderKind::DotFile),
        ];
        let mut text = head();
        for one in &want {
            text.push_str(&wanted(one));
        }
        text.push_str(&made(1, (7, 9)));
        want[1].made = Some((7, 9));
        assert_eq!(parse(text.as_bytes()), (want.clone(), true));
        let other = text.replace(&boot(), "0");
        assert_eq!(parse(other.as_bytes()), (want.clone(), false));
        // Torn in the middle of the last line, which then does not count.
        want[1].made = None;
        assert_eq!(parse(&text.as_bytes()[..text.len() - 1]), (want, true));
    }

    #[test]
    fn garbage_is_nothing() {
        for bad in [
            &b""[..],
            b"\n",
            b"\xff\xfe\0\n\n",
            b"os-sandbox-holds 2\nx\nwant socket 2f 61\n",
            b"os-sandbox-holds 1\nx\nwant socket 61 61\n",
            b"os-sandbox-holds 1\nx\nwant socket 2f 2e2e\n",
            b"os-sandbox-holds 1\nx\nwant socket 2f 612f62\n",
            b"os-sandbox-holds 1\nx\nwant pipe 2f 61\n",
            b"os-sandbox-holds 1\nx\nwant socket 2f 6\n",
            b"os-sandbox-holds 1\nx\nmade 0 1 2\n",
        ] {
            assert_eq!(parse(bad).0, [], "{}", String::from_utf8_lossy(bad));
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(bytes: Vec<u8>, cut in 0usize..200) {
            parse(&bytes);
            let mut record = head().into_bytes();
            record.extend_from_slice(wanted(&placeholder("/a", b"b", PlaceholderKind::Empty)).as_bytes());
            record.truncate(cut);
            record.extend(bytes);
            parse(&record);
        }
    }

    #[test]
    fn forms() {
        for (path, form) in [
            (".vscode", PlaceholderKind::Socket),
            ("hooks", PlaceholderKind::Socket),
            (".git/hooks", PlaceholderKind::Directory),
            ("a/.git/info", PlaceholderKind::Directory),
            (".git/config.worktree", PlaceholderKind::Empty),
            (".git/commondir", PlaceholderKind::DotFile),
            (".git/other", PlaceholderKind::Socket),
        ] {
            assert_eq!(PlaceholderKind::of(Path::new(path)), form, "{path}");
        }
    }
}
