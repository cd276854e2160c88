//! The record of a command that runs: the process that started it, the directories that it can change,
//! and the names that were there before. `running.rs` says when it is written and read.
//!
//! Entry points: [`CommandText::to_text`] and [`RecordedCommand::read`]. A record is text in lines: a
//! head, the directories, the names, and an end. Bytes that are not of forge are hexadecimal.

use super::super::host_mount::HostMount;
use super::names::Held;
use crate::policy::Pattern;
use crate::state_dir::boot;
use sandbox_names::{hex, unhex};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The first line. Its number changes with the form, and with how a name is judged.
const FIRST: &str = "os-sandbox-command 3";
const LAST: &str = "end";
/// The beginning of a line about a directory.
const TOP: &str = "in";
/// Bound on one record. A command with more has none.
pub(super) const MAX_RECORD_BYTES: usize = 32 << 20;

sandbox_names::word_enum! {
    /// What a record says about a name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum NameFact {
        /// It is protected or hidden, and is there.
        There = "there",
        /// Device, inode and birth of the file.
        Identity = "identity",
        /// The hash of its content.
        Hash = "hash",
        /// The text of a link with a protected name.
        Link = "link",
        /// The text of a link to a protected file.
        GuardedLink = "guarded-link",
        /// The directory to which a `.git` leads.
        Pointer = "pointer",
        /// It is configuration of a repository.
        Config = "config",
        /// The content and mode of a configuration.
        Saved = "saved",
        /// It is a repository of another name.
        Bare = "bare",
        /// The command may change it because git tracks it.
        Tracked = "tracked",
        /// It is a directory that cannot be listed.
        Unlisted = "unlisted",
        /// A command of an unfinished operation of git.
        Todo = "todo",
    }
    fn word
}

impl NameFact {
    fn parse(word: &str) -> Option<NameFact> {
        let mut all = NameFact::VARIANTS.iter().copied();
        all.find(|fact| fact.word() == word)
    }
}

/// A directory that the command can change.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RecordedTop {
    pub(super) host: PathBuf,
    /// Device and inode.
    pub(super) identity: (u64, u64),
    pub(super) protect: Vec<String>,
    pub(super) hide: Vec<String>,
}

/// The content of a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CommandText {
    /// The boot of the machine, empty for none.
    boot: String,
    /// The process that started the command; 0 if it is unknown.
    pub(super) process: u32,
    /// How the command finds the names.
    held: String,
    pub(super) tops: Vec<RecordedTop>,
    names: HashMap<PathBuf, Vec<(NameFact, String)>>,
}

impl RecordedTop {
    fn of(mount: &HostMount) -> RecordedTop {
        let meta = mount.handle.metadata();
        let texts =
            |patterns: &[Pattern]| patterns.iter().map(|one| one.text().to_owned()).collect();
        RecordedTop {
            host: mount.host.clone(),
            identity: meta.map_or((0, 0), |meta| (meta.dev(), meta.ino())),
            protect: texts(&mount.guards.protect),
            hide: texts(&mount.guards.hide),
        }
    }

    /// Returns the patterns of protected and hidden names.
    pub(super) fn patterns(&self) -> impl Iterator<Item = Pattern> {
        let texts = self.protect.iter().chain(&self.hide);
        texts.filter_map(|text| Pattern::parse(text).ok())
    }

    fn to_line(&self) -> String {
        let (device, inode) = self.identity;
        let [protect, hide] = [&self.protect, &self.hide].map(|texts| hex(texts.join("\n")));
        let host = hex(self.host.as_os_str().as_bytes());
        format!("{TOP} {host} {device} {inode} {protect} {hide}\n")
    }

    fn parse(words: &[&str]) -> Option<RecordedTop> {
        let [host, device, inode, protect, hide] = words else {
            return None;
        };
        let texts = |word: &str| {
            let text = String::from_utf8(unhex(word)?).ok()?;
            let texts = text.split('\n').filter(|text| !text.is_empty());
            Some(texts.map(str::to_owned).collect())
        };
        Some(RecordedTop {
            host: path_of(host)?,
            identity: (device.parse().ok()?, inode.parse().ok()?),
            protect: texts(protect)?,
            hide: texts(hide)?,
        })
    }
}

impl CommandText {
    /// Returns the record of a command of this process, without its directories and names.
    pub(super) fn new(held: Held) -> CommandText {
        CommandText {
            boot: boot(),
            process: std::process::id(),
            held: format!("{held:?}"),
            tops: Vec::new(),
            names: HashMap::new(),
        }
    }

    /// Returns the record of a command about which nothing is known: it can change everything.
    fn unknown() -> CommandText {
        CommandText {
            boot: String::new(),
            process: 0,
            held: String::new(),
            tops: vec![RecordedTop {
                host: "/".into(),
                identity: (0, 0),
                protect: Vec::new(),
                hide: Vec::new(),
            }],
            names: HashMap::new(),
        }
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn add_top(&mut self, mount: &HostMount) {
        self.tops.push(RecordedTop::of(mount));
    }

    /// Adds a fact about a name. `value` has no line feed.
    pub(super) fn add(&mut self, path: PathBuf, fact: NameFact, value: impl Into<String>) {
        self.names
            .entry(path)
            .or_default()
            .push((fact, value.into()));
    }

    /// Returns `true` if it is from this boot of the machine: identities of files mean the same.
    pub(super) fn is_this_boot(&self) -> bool {
        self.boot == boot()
    }

    /// Returns `true` if mounts are over the protected names that were there.
    pub(super) fn has_mounts(&self) -> bool {
        self.held == format!("{:?}", Held::ByMounts)
    }

    /// Returns `true` if the command finds the names in a mount as one with the same patterns does.
    pub(super) fn judges_alike(&self, mount: &HostMount, held: Held) -> bool {
        let same = RecordedTop::of(mount);
        let is_same = |top: &RecordedTop| {
            (&top.host, &top.protect, &top.hide) == (&same.host, &same.protect, &same.hide)
        };
        self.held == format!("{held:?}") && self.tops.iter().any(is_same)
    }

    /// Returns the innermost directory around a path that the command can change.
    pub(super) fn top_of(&self, path: &Path) -> Option<&RecordedTop> {
        let around = self.tops.iter().filter(|top| path.starts_with(&top.host));
        around.max_by_key(|top| top.host.as_os_str().len())
    }

    /// Returns the values of a fact about a name.
    pub(super) fn values(&self, path: &Path, fact: NameFact) -> impl Iterator<Item = &str> {
        let facts = self.names.get(path).into_iter().flatten();
        let facts = facts.filter(move |(one, _)| *one == fact);
        facts.map(|(_, value)| value.as_str())
    }

    pub(super) fn has(&self, path: &Path, fact: NameFact) -> bool {
        self.values(path, fact).next().is_some()
    }

    pub(super) fn has_value(&self, path: &Path, fact: NameFact, value: &str) -> bool {
        self.values(path, fact).any(|one| one == value)
    }

    /// Returns `true` for a fact about a path, or about one below it.
    pub(super) fn has_below(&self, path: &Path, fact: NameFact) -> bool {
        self.has(path, fact) || {
            let mut below = self.names.keys().filter(|one| one.starts_with(path));
            below.any(|one| self.has(one, fact))
        }
    }

    /// Returns the text of the record, or the reason why it has none.
    pub(super) fn to_text(&self) -> Result<String, String> {
        let CommandText {
            boot,
            process,
            held,
            ..
        } = self;
        let mut text = format!("{FIRST}\n{boot}\n{process} {held}\n");
        for top in &self.tops {
            text.push_str(&top.to_line());
        }
        for (path, facts) in &self.names {
            let path = hex(path.as_os_str().as_bytes());
            for (fact, value) in facts {
                text.push_str(&format!("{} {path} {value}\n", fact.word()));
            }
        }
        text.push_str(LAST);
        match text.len() > MAX_RECORD_BYTES {
            true => Err(format!(
                "the names that are there need more than {} MiB",
                MAX_RECORD_BYTES >> 20
            )),
            false => Ok(text),
        }
    }

    /// Parses a record; `None` if it has another form or is not whole.
    fn parse(text: &str) -> Option<CommandText> {
        let mut lines = text.strip_suffix(LAST)?.lines();
        if lines.next() != Some(FIRST) {
            return None;
        }
        let boot = lines.next()?.to_owned();
        let (process, held) = lines.next()?.split_once(' ')?;
        let mut record = CommandText {
            boot,
            process: process.parse().ok()?,
            held: held.to_owned(),
            tops: Vec::new(),
            names: HashMap::new(),
        };
        for line in lines {
            let (word, rest) = line.split_once(' ')?;
            if word == TOP {
                let words: Vec<&str> = rest.split(' ').collect();
                record.tops.push(RecordedTop::parse(&words)?);
            } else {
                let (path, value) = rest.split_once(' ')?;
                record.add(path_of(path)?, NameFact::parse(word)?, value);
            }
        }
        Some(record)
    }
}

fn path_of(hex: &str) -> Option<PathBuf> {
    Some(OsString::from_vec(unhex(hex)?).into())
}

/// A record of a command that has not ended, or was killed.
#[derive(Debug)]
pub(super) struct RecordedCommand {
    pub(super) path: PathBuf,
    /// Locked, if the command runs no more.
    pub(super) left: Option<File>,
    pub(super) started: SystemTime,
    pub(super) text: CommandText,
}

impl RecordedCommand {
    /// Reads the record of a command that runs. `None` if it has ended or was killed. A record that
    /// cannot be read is one of a command that can change everything.
    pub(super) fn read_running(path: PathBuf) -> Option<RecordedCommand> {
        let read = RecordedCommand::read(path, File::try_lock_shared)?;
        read.left.is_none().then_some(read)
    }

    /// Reads a record, and takes the lock of one whose command was killed. `None` without a record, and
    /// for one of a killed command that cannot be read: which names it left is unknown.
    pub(super) fn read_or_take(path: PathBuf) -> Option<RecordedCommand> {
        RecordedCommand::read(path, File::try_lock)
    }

    fn read(path: PathBuf, lock: fn(&File) -> Result<(), TryLockError>) -> Option<RecordedCommand> {
        let file = super::state::options().open(&path).ok()?;
        file.metadata().ok().filter(fs::Metadata::is_file)?;
        let is_left = lock(&file).is_ok();
        let mut text = String::new();
        let mut bounded = (&file).take(MAX_RECORD_BYTES as u64 + 1);
        let is_read = bounded.read_to_string(&mut text).is_ok();
        let parsed = CommandText::parse(&text).filter(|_| is_read);
        // A record without a name is one of a command that has ended meanwhile.
        let meta = file.metadata().ok().filter(|meta| meta.nlink() > 0)?;
        Some(RecordedCommand {
            text: match is_left {
                true => parsed?,
                false => parsed.unwrap_or_else(CommandText::unknown),
            },
            started: meta.modified().unwrap_or(UNIX_EPOCH),
            left: is_left.then_some(file),
            path,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> CommandText {
        let mut text = CommandText::new(Held::ByMounts);
        text.tops.push(RecordedTop {
            host: "/w/a project".into(),
            identity: (1, 2),
            protect: vec![".git".to_owned(), "/.envrc".to_owned()],
            hide: Vec::new(),
        });
        let name = PathBuf::from(OsString::from_vec(b"/w/\xff\n".to_vec()));
        text.add(name, NameFact::There, "");
        text.add("/w/x".into(), NameFact::Saved, "420 0 0 1 6162");
        text.add("/w/x".into(), NameFact::Todo, hex("pick\n"));
        text
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let text = record().to_text().unwrap();
        assert_eq!(CommandText::parse(&text), Some(record()));
    }

    /// Cut anywhere, or with a line of another form, it is not a record.
    #[test]
    fn a_part_of_a_record_is_none() {
        let text = record().to_text().unwrap();
        for end in 0..text.len() {
            assert_eq!(CommandText::parse(&text[..end]), None, "{:?}", &text[..end]);
        }
        for (from, to) in [
            (FIRST, "os-sandbox-command 2"),
            ("there ", "x "),
            (TOP, "on"),
        ] {
            assert_eq!(
                CommandText::parse(&text.replacen(from, to, 1)),
                None,
                "{to}"
            );
        }
    }

    /// The record of a command that runs counts as one of everything if it cannot be read. Nobody guesses
    /// what a killed one has left.
    #[test]
    fn a_record_that_cannot_be_read_is_one_of_everything_while_its_command_runs() {
        let dir = tempfile::tempdir().unwrap();
        let whole = record().to_text().unwrap();
        for text in [
            "",
            "os-sandbox-command 9\n\n1 x\nend",
            &whole[..whole.len() - 1],
        ] {
            let path = dir.path().join("command-1");
            fs::write(&path, text).unwrap();
            assert!(
                RecordedCommand::read_or_take(path.clone()).is_none(),
                "{text:?}"
            );
            let broker = File::open(&path).unwrap();
            broker.lock().unwrap();
            for read in [RecordedCommand::read_running, RecordedCommand::read_or_take] {
                let read = read(path.clone()).expect("a command");
                assert!(read.left.is_none() && read.text.top_of("/w/x".as_ref()).is_some());
            }
        }
    }
}
