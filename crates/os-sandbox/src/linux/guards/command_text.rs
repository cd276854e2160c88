//! The text of a command's record: a head, lines about its mounts, lines about the names that were there
//! (`running.rs`), and an end. A record without its end is not whole.

use super::super::host_mount::HostMount;
use super::names::Held;
use crate::policy::Pattern;
use sandbox_names::{hex, unhex};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The first line. Its number changes with the kinds of lines: a record of another form is not read.
pub(super) const FIRST: &str = "os-sandbox-command 2";
/// The beginnings of lines about a mount: itself, and its patterns.
const TOP: &str = "r ";
const PATTERN: &str = "+ ";

/// A record that was read.
#[derive(Debug)]
pub(super) struct CommandText {
    pub(super) boot: String,
    pub(super) lines: HashSet<String>,
}

/// A directory that the command can change.
#[derive(Debug)]
pub(super) struct RecordedTop {
    pub(super) host: PathBuf,
    /// Device and inode.
    pub(super) identity: (u64, u64),
    /// `true` if mounts are over the protected names in it that were there before the command.
    pub(super) has_mounts: bool,
}

impl CommandText {
    pub(super) const END: &str = "end";
    /// The beginning of the line with the process that started the command.
    pub(super) const PROCESS: &str = "a ";
    /// Bound on one record. A command with more has none.
    pub(super) const MAX_BYTES: usize = 32 << 20;

    /// Returns the lines about a mount.
    pub(super) fn mount_lines(mount: &HostMount, held: Held) -> String {
        let host = hex(mount.host.as_os_str().as_bytes());
        let has_mounts = held == Held::ByMounts;
        let (device, inode) = mount.handle.metadata().map_or((0, 0), |meta| {
            use std::os::unix::fs::MetadataExt;
            (meta.dev(), meta.ino())
        });
        let mut text = format!("{TOP}{host} {device} {inode} {has_mounts}\n");
        let guards = &mount.guards;
        for pattern in guards.protect.iter().chain(&guards.hide) {
            text.push_str(&format!("{PATTERN}{host} {}\n", hex(pattern.text())));
        }
        text
    }

    /// Reads a record; `None` if it is not whole.
    pub(super) fn read(file: &File) -> Option<CommandText> {
        let mut text = String::new();
        let mut bounded = file.take(CommandText::MAX_BYTES as u64 + 1);
        bounded.read_to_string(&mut text).ok()?;
        let mut all = text.strip_suffix(CommandText::END)?.lines();
        let is_known = all.next() == Some(FIRST);
        let boot = all.next().filter(|_| is_known)?.to_owned();
        let lines = all.map(str::to_owned).collect();
        Some(CommandText { boot, lines })
    }

    pub(super) fn process(&self) -> Option<u32> {
        let mut lines = self.lines.iter();
        lines.find_map(|line| line.strip_prefix(CommandText::PROCESS)?.parse().ok())
    }

    pub(super) fn tops(&self) -> impl Iterator<Item = RecordedTop> {
        self.lines.iter().filter_map(|line| {
            let mut words = line.strip_prefix(TOP)?.split(' ');
            Some(RecordedTop {
                host: path_of(words.next()?)?,
                identity: (words.next()?.parse().ok()?, words.next()?.parse().ok()?),
                has_mounts: words.next()?.parse().ok()?,
            })
        })
    }

    /// Returns the patterns of protected and hidden names, each with the directory of its mount.
    pub(super) fn patterns(&self) -> impl Iterator<Item = (PathBuf, Pattern)> {
        self.lines.iter().filter_map(|line| {
            let (host, text) = line.strip_prefix(PATTERN)?.split_once(' ')?;
            let text = String::from_utf8(unhex(text)?).ok()?;
            Some((path_of(host)?, Pattern::parse(&text).ok()?))
        })
    }

    /// Returns `true` if the record has a line of one of these kinds about a path.
    pub(super) fn lists(&self, kinds: &[char], path: &Path) -> bool {
        let path = hex(path.as_os_str().as_bytes());
        let mut kinds = kinds.iter();
        kinds.any(|kind| self.lines.contains(&format!("{kind} {path}")))
    }
}

fn path_of(hex: &str) -> Option<PathBuf> {
    Some(OsString::from_vec(unhex(hex)?).into())
}
