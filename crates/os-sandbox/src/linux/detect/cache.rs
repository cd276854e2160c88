//! Remembers, until the next boot, which probes have passed. Detection starts a confined process
//! under each mechanism, twenty milliseconds that every `forge exec` would pay.
//!
//! Any program that writes in the caller's home can forge the file, perhaps a command whose policy
//! opens it. So an entry can only make a start fail, never make it weaker:
//!
//! - It says "this probe passed", and nothing else. A failed probe is not cached: it runs again each
//!   time (so a user who has just installed bubblewrap need not reboot). A missing, removed or
//!   damaged entry costs time.
//! - It contains no input of a start. The kernel is asked each time for the Landlock version and its
//!   errata, and, under an outer filter, for support of filters; bubblewrap is searched at its fixed
//!   paths, and must not be set-user-id. Only its version is taken from here, for the receipt, and
//!   only if no decision depends on it.
//! - If it wrongly says that a mechanism works, the start fails: rules are made with hard
//!   requirements, the launcher reports each refused step, and under Landlock alone it checks that
//!   signals stay inside before it continues. Then the entry is removed. With a connector that
//!   cannot work, a command lacks its sockets.
//!
//! The cache does not help against a kernel that accepts rules and does not enforce them: only the
//! probe detects that, not a start. Such a kernel does not appear between two commands of one boot:
//! the key contains the boot, this build, the caller, its namespaces, capabilities and label, the
//! kernel's description of its rights, bubblewrap's file, and the settings that decide about
//! namespaces.

use super::super::start::launch::LAUNCHER;
use super::{BWRAP, Report};
use crate::backend::Backend;
use crate::scratch::{make, random};
use crate::support::Support;
use nix::fcntl::OFlag;
use nix::unistd::{getegid, geteuid};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The first line, another one for each format.
const HEADER: &str = "os-sandbox support 1";
const DIRECTORY: &str = "os-sandbox";
const NAME: &str = "support";
/// Prefix of files that a process left when it was killed while it wrote.
const UNFINISHED: &str = ".support-";
/// Bound on the entries, for containers and programs that share a home.
const MAX_ENTRIES: usize = 8;
const MAX_BYTES: u64 = 2048;
const MAX_VERSION_BYTES: usize = 32;
/// Bound on the names checked for unfinished files.
const MAX_SWEPT: usize = 256;
const SWEEP_AGE: Duration = Duration::from_secs(60);

/// Lines of `/proc/thread-self/status` that decide about the setup.
const STATUS: [&str; 5] = ["NoNewPrivs:", "Seccomp:", "CapPrm:", "CapEff:", "CapBnd:"];
const NAMESPACES: [&str; 7] = ["user", "mnt", "pid", "net", "cgroup", "ipc", "uts"];
const SETTINGS: [&str; 6] = [
    "/proc/thread-self/attr/current",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/vm/memfd_noexec",
];

/// End of the word of a connector.
const CONNECTOR: &str = "-connector";

/// Probes that have passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProbeResults {
    pub(super) landlock: bool,
    pub(super) namespaces: bool,
    /// The version of the bubblewrap that passed.
    pub(super) bubblewrap: Option<String>,
    /// `true` only together with bubblewrap.
    pub(super) pins: bool,
    /// The mechanisms with a connector that passed.
    pub(super) connectors: Vec<Backend>,
}

impl ProbeResults {
    /// Collects the passed probes. The pattern names every field, so that a new one does not build
    /// before its author decided whether its probe is cached.
    pub(super) fn of(support: &Support) -> ProbeResults {
        let Support {
            // Detection creates a group each time.
            memory_group: _,
            process_group: _,
            machine_bytes: _,
            // Detection starts it each time.
            launcher: _,
            // The kernel answers each time.
            seccomp: _,
            uid_zero: _,
            // The caller sets it.
            own_container: _,
            own_network: _,
            landlock,
            namespaces,
            bubblewrap,
            pins,
            connector,
            // A mechanism of another system.
            seatbelt: _,
            // A probe runs whenever its program is named.
            birdcage: _,
            // The caller passes them each time.
            containers: _,
        } = support;
        let bubblewrap = bubblewrap.found().map(|bwrap| bwrap.version.clone());
        ProbeResults {
            landlock: landlock.found().is_some(),
            namespaces: namespaces.found().is_some(),
            pins: bubblewrap.is_some() && pins.found().is_some(),
            connectors: connector.working().collect(),
            bubblewrap: bubblewrap.filter(|version| is_version(version)),
        }
    }

    /// `true` if a confined process has passed its probe under some mechanism.
    pub(super) fn has_passed(&self) -> bool {
        self.landlock || self.namespaces || self.bubblewrap.is_some()
    }

    fn words(&self) -> String {
        let mut out = String::new();
        for (known, word) in [
            (self.landlock, " landlock"),
            (self.namespaces, " namespaces"),
        ] {
            if known {
                out.push_str(word);
            }
        }
        for backend in &self.connectors {
            // Writing to a String cannot fail.
            let _ = write!(out, " {backend}{CONNECTOR}");
        }
        if let Some(version) = &self.bubblewrap {
            let _ = write!(out, " bubblewrap={version}");
            if self.pins {
                out.push_str(" pins");
            }
        }
        out
    }

    /// `None` for anything that [`ProbeResults::words`] does not write.
    fn parse(words: &str) -> Option<ProbeResults> {
        let mut known = ProbeResults::default();
        for word in words.split(' ').filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                None => match word {
                    "landlock" => known.landlock = true,
                    "namespaces" => known.namespaces = true,
                    "pins" => known.pins = true,
                    other => {
                        let name = other.strip_suffix(CONNECTOR)?;
                        let mut all = Backend::AUTOMATIC.into_iter();
                        known
                            .connectors
                            .push(all.find(|backend| backend.to_string() == name)?);
                    }
                },
                Some(("bubblewrap", version)) if is_version(version) => {
                    known.bubblewrap = Some(version.to_owned());
                }
                Some(_) => return None,
            }
        }
        (known.words() == words).then_some(known)
    }
}

/// Returns `true` for a version as `bwrap --version` prints it.
fn is_version(text: &str) -> bool {
    (1..=MAX_VERSION_BYTES).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+'))
}

/// The file, and the entry of this process in it.
pub(super) struct ProbeCache {
    directory: PathBuf,
    key: String,
}

impl ProbeCache {
    /// Opens the cache. `None` without a usable directory: no home, a directory that is not the
    /// caller's alone, no `/proc`.
    pub(super) fn open(report: &Report) -> Option<ProbeCache> {
        let (cache, home) = (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"));
        make_base(cache.clone(), home.clone());
        let directory = directory(cache, home)?;
        let key = key(report)?;
        Some(ProbeCache { directory, key })
    }

    /// Returns the known results; none if in doubt.
    pub(super) fn read(&self) -> ProbeResults {
        let entries = self.entries().unwrap_or_default();
        let own = entries.into_iter().find(|(key, _)| *key == self.key);
        own.and_then(|(_, words)| ProbeResults::parse(&words))
            .unwrap_or_default()
    }

    /// Puts this process's entry first. A failed write costs only time.
    pub(super) fn write(&self, known: &ProbeResults) {
        if *known != self.read() {
            let _ = self.replace(known);
        }
    }

    fn entries(&self) -> io::Result<Vec<(String, String)>> {
        if !is_ours(&self.directory) {
            return Ok(Vec::new());
        }
        let file = OpenOptions::new()
            .read(true)
            .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
            .open(self.directory.join(NAME))?;
        let meta = file.metadata()?;
        if !meta.is_file() || meta.uid() != geteuid().as_raw() || meta.mode() & 0o022 != 0 {
            return Ok(Vec::new());
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        Ok(parse(&bytes))
    }

    fn replace(&self, known: &ProbeResults) -> io::Result<()> {
        if !is_ours(&self.directory) {
            match make(&self.directory) {
                // Another process created it a moment ago.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
            if !is_ours(&self.directory) {
                return Ok(());
            }
        }
        self.sweep();
        let mut entries = vec![(self.key.clone(), known.words())];
        entries.extend(
            self.entries()
                .unwrap_or_default()
                .into_iter()
                .filter(|(key, _)| *key != self.key),
        );
        // Written as a whole: a reader sees the old file or the new one, and of two writers one
        // wins.
        let unfinished = self
            .directory
            .join(format!("{UNFINISHED}{:016x}", random()));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)
            .and_then(|mut file| {
                // The umask may have removed permissions.
                file.set_permissions(Permissions::from_mode(0o600))?;
                file.write_all(render(&entries).as_bytes())
            })
            .and_then(|()| fs::rename(&unfinished, self.directory.join(NAME)));
        if written.is_err() {
            // The file may not exist.
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    fn sweep(&self) {
        for entry in fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .take(MAX_SWEPT)
            .flatten()
        {
            let name = entry.file_name();
            let old = || {
                let modified = entry.metadata().and_then(|meta| meta.modified()).ok();
                let age = modified.and_then(|time| time.elapsed().ok());
                age.is_some_and(|age| age > SWEEP_AGE)
            };
            if name
                .to_str()
                .is_some_and(|name| name.starts_with(UNFINISHED))
                && old()
            {
                // Another process may have removed it.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Forgets everything: a mechanism that had passed its probe has failed.
pub(crate) fn forget() {
    let (cache, home) = (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"));
    if let Some(directory) = directory(cache, home)
        && is_ours(&directory)
    {
        // The file may not exist.
        let _ = fs::remove_file(directory.join(NAME));
    }
}

fn render(entries: &[(String, String)]) -> String {
    let mut out = format!("{HEADER}\n");
    for (key, words) in entries.iter().take(MAX_ENTRIES) {
        let line = format!("{key}{words}\n");
        if out.len() + line.len() <= MAX_BYTES as usize {
            out.push_str(&line);
        }
    }
    out
}

/// Parses keys and words. Any unexpected text makes the whole file count as empty.
fn parse(bytes: &[u8]) -> Vec<(String, String)> {
    let whole = || {
        let text = std::str::from_utf8(bytes).ok()?;
        let text = text.strip_prefix(HEADER)?.strip_prefix('\n')?;
        if bytes.len() as u64 > MAX_BYTES || !(text.is_empty() || text.ends_with('\n')) {
            return None;
        }
        let mut entries = Vec::new();
        for line in text.lines().take(MAX_ENTRIES) {
            let (key, words) = line.split_at_checked(64)?;
            if !key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return None;
            }
            entries.push((key.to_owned(), words.to_owned()));
        }
        Some(entries)
    };
    whole().unwrap_or_default()
}

/// Returns `$XDG_CACHE_HOME/os-sandbox` or `~/.cache/os-sandbox`, if the parent directory is the
/// caller's. With `sudo` the home can be another user's, in which root leaves no files.
fn directory(cache: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let base = base(cache, home)?;
    is_own(&base).then(|| base.join(DIRECTORY))
}

fn base(cache: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|p| p.is_absolute());
    absolute(cache).or_else(|| Some(absolute(home)?.join(".cache")))
}

/// Makes the directory of caches in a directory of the caller's, as the XDG specification asks.
fn make_base(cache: Option<OsString>, home: Option<OsString>) {
    if let Some(base) = base(cache, home)
        && !base.exists()
        && base.parent().is_some_and(is_own)
    {
        // Another process may be faster.
        let _ = make(&base);
    }
}

/// Returns `true` for a directory of the caller's.
fn is_own(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == geteuid().as_raw())
}

/// Returns `true` for a directory, not a link, of the caller's that other users cannot open.
fn is_ours(directory: &Path) -> bool {
    fs::symlink_metadata(directory).is_ok_and(|meta| {
        meta.is_dir() && meta.uid() == geteuid().as_raw() && meta.mode() & 0o077 == 0
    })
}

/// Returns a hash of every fact that a probe's result depends on; `None` without a boot identifier.
fn key(report: &Report) -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let status = read("/proc/thread-self/status")?;
    let mut text = format!(
        "{HEADER}\n{}\n{boot}{} {}\n",
        env!("CARGO_PKG_VERSION"),
        geteuid(),
        getegid()
    );
    for line in status.lines() {
        if STATUS.iter().any(|name| line.starts_with(name)) {
            text.push_str(line);
            text.push('\n');
        }
    }
    for name in NAMESPACES {
        let link = fs::read_link(format!("/proc/thread-self/ns/{name}"));
        let _ = writeln!(text, "{:?}", link.ok());
    }
    for path in SETTINGS {
        let _ = writeln!(text, "{:?}", read(path));
    }
    // Rights of this process: they reveal that an outer filter exists, not which one.
    let _ = writeln!(text, "{report:?}");
    for path in BWRAP {
        let meta = fs::metadata(path).map(|meta| {
            let inode = (meta.dev(), meta.ino(), meta.size(), meta.mode(), meta.uid());
            (
                inode,
                meta.mtime(),
                meta.mtime_nsec(),
                meta.ctime(),
                meta.ctime_nsec(),
            )
        });
        let _ = writeln!(text, "{path} {:?}", meta.ok());
    }
    let mut hash = Sha256::new();
    hash.update(text.as_bytes());
    hash.update(LAUNCHER);
    Some(sandbox_names::hex(hash.finalize()))
}

/// Reads a small file of the kernel's.
fn read(path: &str) -> Option<String> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(8192).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::symlink;

    fn cache(base: &Path, key: char) -> ProbeCache {
        ProbeCache {
            directory: base.join(DIRECTORY),
            key: String::from(key).repeat(64),
        }
    }

    fn all() -> ProbeResults {
        ProbeResults {
            landlock: true,
            namespaces: true,
            bubblewrap: Some("0.11.0".to_owned()),
            pins: true,
            connectors: vec![Backend::Namespaces, Backend::Bubblewrap, Backend::Landlock],
        }
    }

    #[test]
    fn what_is_written_is_read_by_the_same_and_by_nobody_else() {
        let base = tempfile::tempdir().unwrap();
        let one = cache(base.path(), 'a');
        assert_eq!(one.read(), ProbeResults::default());
        one.write(&all());
        assert_eq!(one.read(), all());
        assert_eq!(cache(base.path(), 'b').read(), ProbeResults::default());
        let only = ProbeResults {
            landlock: true,
            ..ProbeResults::default()
        };
        cache(base.path(), 'b').write(&only);
        assert_eq!((one.read(), cache(base.path(), 'b').read()), (all(), only));
        let text = fs::read_to_string(base.path().join("os-sandbox/support")).unwrap();
        let (a, b) = ("a".repeat(64), "b".repeat(64));
        assert_eq!(
            text,
            format!(
                "{HEADER}\n{b} landlock\n\
                 {a} landlock namespaces namespaces-connector bubblewrap-connector landlock-connector bubblewrap=0.11.0 pins\n"
            )
        );
    }

    #[test]
    fn the_oldest_entries_go() {
        let base = tempfile::tempdir().unwrap();
        for key in "0123456789abcdef".chars() {
            cache(base.path(), key).write(&all());
        }
        let kept = "0123456789abcdef"
            .chars()
            .filter(|key| cache(base.path(), *key).read() == all())
            .count();
        assert_eq!(kept, MAX_ENTRIES);
        assert_eq!(cache(base.path(), 'f').read(), all());
    }

    #[test]
    fn a_place_that_others_reach_is_not_used() {
        let base = tempfile::tempdir().unwrap();
        let one = cache(base.path(), 'a');
        one.write(&all());
        let dir = base.path().join(DIRECTORY);
        let with = |mode: u32| {
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
            one.read()
        };
        assert_eq!(with(0o770), ProbeResults::default());
        assert_eq!(with(0o701), ProbeResults::default());
        assert_eq!(with(0o700), all());
        fs::set_permissions(dir.join(NAME), fs::Permissions::from_mode(0o620)).unwrap();
        assert_eq!(one.read(), ProbeResults::default());
        // A link to a valid directory is not accepted.
        fs::set_permissions(dir.join(NAME), fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(one.read(), all());
        fs::rename(&dir, base.path().join("elsewhere")).unwrap();
        symlink(base.path().join("elsewhere"), &dir).unwrap();
        assert_eq!(one.read(), ProbeResults::default());
        one.write(&ProbeResults::default());
        let kept = fs::read_to_string(base.path().join("elsewhere").join(NAME)).unwrap();
        assert!(kept.contains("landlock"));
    }

    #[test]
    fn a_writer_that_was_killed_is_swept_up() {
        let base = tempfile::tempdir().unwrap();
        let one = cache(base.path(), 'a');
        one.write(&all());
        let dir = base.path().join(DIRECTORY);
        let (old, new) = (dir.join(".support-old"), dir.join(".support-new"));
        fs::write(&new, HEADER).unwrap();
        let then = std::time::SystemTime::now() - SWEEP_AGE * 2;
        File::create(&old).unwrap().set_modified(then).unwrap();
        one.write(&ProbeResults::default());
        assert!(new.exists() && !old.exists());
        assert_eq!(one.read(), ProbeResults::default());
    }

    #[test]
    fn two_at_once_leave_a_whole_file() {
        let base = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for key in ['a', 'b'] {
                let one = cache(base.path(), key);
                scope.spawn(move || {
                    for turn in 0..200 {
                        let known = if turn % 2 == 0 {
                            all()
                        } else {
                            ProbeResults::default()
                        };
                        one.write(&known);
                        assert!([all(), ProbeResults::default()].contains(&one.read()));
                        // The file is complete, and every line of it parses.
                        let file = fs::read(one.directory.join(NAME)).unwrap();
                        assert!(!parse(&file).is_empty());
                    }
                });
            }
        });
        let left = fs::read_dir(base.path().join(DIRECTORY)).unwrap().count();
        assert_eq!(left, 1);
    }

    #[test]
    fn where_it_lies() {
        let base = tempfile::tempdir().unwrap();
        let home = base.path().join("home");
        fs::create_dir(&home).unwrap();
        let os = |path: &Path| Some(path.as_os_str().to_owned());
        assert_eq!(directory(None, None), None);
        assert_eq!(directory(None, Some("relative".into())), None);
        assert_eq!(
            directory(Some("".into()), os(&base.path().join("gone"))),
            None
        );
        // A look makes nothing.
        assert_eq!(directory(None, os(&home)), None);
        make_base(None, os(&home));
        assert_eq!(
            directory(None, os(&home)),
            Some(home.join(".cache/os-sandbox"))
        );
        let cache = base.path().join("cache");
        make_base(os(&cache), os(&home));
        assert_eq!(
            directory(os(&cache), os(&home)),
            Some(cache.join("os-sandbox"))
        );
        assert_eq!(fs::metadata(&cache).unwrap().mode() & 0o777, 0o700);
    }

    proptest! {
        #[test]
        fn round_trip(passed: [bool; 2], connectors in proptest::sample::subsequence(Backend::AUTOMATIC.to_vec(), 0..4), version in proptest::option::of("[0-9a-zA-Z.+-]{1,32}"), pins: bool) {
            let [landlock, namespaces] = passed;
            let pins = pins && version.is_some();
            let known = ProbeResults {
                landlock,
                namespaces,
                pins,
                bubblewrap: version,
                connectors,
            };
            prop_assert_eq!(ProbeResults::parse(&known.words()), Some(known.clone()));
            let entries = vec![("c".repeat(64), known.words())];
            prop_assert_eq!(parse(render(&entries).as_bytes()), entries);
        }

        #[test]
        fn garbage_says_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(parse(&bytes).is_empty());
            let mut headed = format!("{HEADER}\n").into_bytes();
            headed.extend(&bytes);
            let key = "a".repeat(64);
            let known = parse(&headed).into_iter().find(|(k, _)| *k == key);
            prop_assert!(known.is_none());
        }

        #[test]
        fn words_are_exactly_ours(words in "( (landlock|pins|landlock-connector|bubblewrap=[0-9./ ]{0,40}|.{0,6})){0,4}") {
            if let Some(known) = ProbeResults::parse(&words) {
                prop_assert_eq!(known.words(), words);
            }
        }
    }
}
