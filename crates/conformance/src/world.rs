//! A tree on the host, and the processes and servers outside that a command must not reach. Cases
//! that change the tree get a fresh one; the others share one.

use crate::case::Case;
use crate::policy::{PolicySpec, fill, outside};
use crate::tree::{Picture, Tree, picture};
use crate::verb::Verb;
use os_sandbox::Policy;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

/// The content that `write`, `create` and `append` put into a file, and the values that `chmod` and
/// `times` set.
pub(crate) const WRITTEN: &str = "written";
pub(crate) const MODE: u32 = 0o640;
pub(crate) const TIME_S: u64 = 1_000_000_000;

pub(crate) struct World<'a> {
    _dir: tempfile::TempDir,
    pub(crate) top: PathBuf,
    pub(crate) tree: &'a Tree,
    pub(crate) spec: &'a PolicySpec,
    pub(crate) policy: Policy,
    /// Commands see the mounts at their paths of the host.
    is_in_place: bool,
    probe: PathBuf,
    values: BTreeMap<String, String>,
    around: Around,
}

/// The processes and servers that must not be reached.
struct Around {
    victim: Child,
    tcp: TcpListener,
    udp: UdpSocket,
    sockets: Vec<UnixListener>,
    _abstract: Option<UnixListener>,
    _inherited: OwnedFd,
}

impl Drop for Around {
    fn drop(&mut self) {
        // Some cases test that the target can kill it.
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

impl<'a> World<'a> {
    pub(crate) fn new(tree: &'a Tree, spec: &'a PolicySpec) -> Result<World<'a>, String> {
        World::below(&std::env::temp_dir(), tree, spec, false)
    }

    /// Makes a world in which commands see the mounts at their paths of the host.
    pub(crate) fn in_place(tree: &'a Tree, spec: &'a PolicySpec) -> Result<World<'a>, String> {
        // Commands have a /tmp of their own.
        World::below(Path::new("/var/tmp"), tree, spec, true)
    }

    /// Makes the tree in a temporary directory below this one.
    fn below(
        place: &Path,
        tree: &'a Tree,
        spec: &'a PolicySpec,
        is_in_place: bool,
    ) -> Result<World<'a>, String> {
        let dir = tempfile::tempdir_in(place).map_err(say)?;
        // Temporary directories may be reached through a link.
        let top = dir.path().canonicalize().map_err(say)?;
        let sockets = tree.make(&top)?;
        for socket in &sockets {
            socket.set_nonblocking(true).map_err(say)?;
        }
        let probe = std::env::current_exe().map_err(say)?;
        let mut policy = spec.policy(&top, Some(&probe))?;
        if is_in_place {
            policy = policy.at_host_paths().map_err(say)?;
        }
        let local = ("127.0.0.1", 0);
        let tcp = TcpListener::bind(local).map_err(say)?;
        tcp.set_nonblocking(true).map_err(say)?;
        let udp = UdpSocket::bind(local).map_err(say)?;
        udp.set_nonblocking(true).map_err(say)?;
        let name = format!("conformance{}", top.display());
        // A descriptor that the broker forgot to close: not close-on-exec.
        let file = File::open(top.join("outside")).map_err(say)?;
        let inherited = nix::unistd::dup(&file).map_err(say)?;
        let victim = Command::new("sleep")
            .arg("600")
            .stdin(Stdio::null())
            .spawn()
            .map_err(say)?;
        let values = [
            ("outside", outside(&top)),
            ("victim", victim.id().to_string()),
            ("port", tcp.local_addr().map_err(say)?.port().to_string()),
            ("udp", udp.local_addr().map_err(say)?.port().to_string()),
            ("fd", inherited.as_raw_fd().to_string()),
            ("abstract", name.clone()),
        ];
        Ok(World {
            _dir: dir,
            tree,
            spec,
            policy,
            is_in_place,
            values: values.map(|(name, value)| (name.to_owned(), value)).into(),
            probe,
            around: Around {
                victim,
                tcp,
                udp,
                sockets,
                _abstract: crate::host::abstract_listener(&name)?,
                _inherited: inherited,
            },
            top,
        })
    }

    /// Returns the path of the probe for a command, with or without a mount layer.
    pub(crate) fn probe(&self, mounts: bool) -> &Path {
        match mounts && !self.is_in_place {
            true => Path::new("/probe"),
            false => &self.probe,
        }
    }

    /// Returns the words of a case with paths of the host.
    pub(crate) fn on_host(&self, case: &Case) -> Vec<String> {
        self.words(case, |path| self.spec.host(&self.top, path))
    }

    /// Returns the words of a case with paths as a mount layer shows them.
    pub(crate) fn inside(&self, case: &Case) -> Vec<String> {
        self.words(case, |path| self.spec.inside(&self.policy, path))
    }

    /// Returns the words of a case with paths of file tools.
    pub(crate) fn for_tools(&self, case: &Case) -> Vec<String> {
        self.words(case, str::to_owned)
    }

    fn words(&self, case: &Case, path: impl Fn(&str) -> String) -> Vec<String> {
        words(case, &self.values, path)
    }

    pub(crate) fn picture(&self) -> Result<Picture, String> {
        picture(&self.top)
    }

    /// Returns the process or server that was reached.
    pub(crate) fn reached(&mut self) -> Option<&'static str> {
        // A signal takes a moment to end a process, a connect none to arrive.
        if !matches!(self.around.victim.try_wait(), Ok(None)) {
            return Some("the process outside was ended");
        }
        if self.around.tcp.accept().is_ok() {
            return Some("the TCP server outside was reached");
        }
        if self.around.udp.recv(&mut [0; 8]).is_ok() {
            return Some("the UDP server outside was reached");
        }
        if self.around.sockets.iter().any(|one| one.accept().is_ok()) {
            return Some("a local socket was reached");
        }
        None
    }

    /// Returns the resolved paths of a case, in the order of [`Verb::uses`].
    pub(crate) fn places(&self, case: &Case) -> Vec<Option<PathBuf>> {
        places(self.tree, &self.top, case, &self.on_host(case))
    }
}

/// Fills in placeholders; maps a path without one by `path`.
pub(crate) fn words(
    case: &Case,
    values: &BTreeMap<String, String>,
    path: impl Fn(&str) -> String,
) -> Vec<String> {
    let is_path = |at: usize| {
        matches!(case.verb, Verb::Unix) || case.verb.uses().iter().any(|(word, ..)| *word == at)
    };
    case.words
        .iter()
        .enumerate()
        .map(|(at, word)| {
            if word.contains('{') || !is_path(at) {
                fill(word, values)
            } else {
                path(word)
            }
        })
        .collect()
}

pub(crate) fn places(
    tree: &Tree,
    top: &Path,
    case: &Case,
    words: &[String],
) -> Vec<Option<PathBuf>> {
    case.verb
        .uses()
        .iter()
        .map(|(at, last, _)| tree.real(top, Path::new(&words[*at]), *last))
        .collect()
}

/// Checks from outside that a successful attempt had its effect. `before` has the earlier contents
/// of the files.
pub(crate) fn done(
    case: &Case,
    places: &[Option<PathBuf>],
    before: &[Option<Vec<u8>>],
) -> Result<(), String> {
    let at = |index: usize| -> Result<&Path, String> {
        places
            .get(index)
            .and_then(Option::as_deref)
            .ok_or_else(|| "a loop, and it worked".to_owned())
    };
    let holds = |index: usize, bytes: &[u8]| -> Result<bool, String> {
        Ok(fs::read(at(index)?).is_ok_and(|now| now == bytes))
    };
    let there =
        |index: usize| -> Result<bool, String> { Ok(at(index)?.symlink_metadata().is_ok()) };
    let old = |index: usize| before.get(index).cloned().flatten().unwrap_or_default();
    let good = match case.verb {
        Verb::Write | Verb::Create => holds(0, WRITTEN.as_bytes())?,
        Verb::Append => holds(0, &[old(0), WRITTEN.into()].concat())?,
        Verb::Truncate => holds(0, b"")?,
        Verb::Delete | Verb::Rmdir => !there(0)?,
        Verb::Mkdir => at(0)?.is_dir(),
        Verb::Copy => there(0)? && holds(1, &old(0))?,
        Verb::Rename => !there(0)? && there(1)? && (at(1)?.is_dir() || holds(1, &old(0))?),
        Verb::Hardlink => {
            let inode = |index| at(index)?.symlink_metadata().map_err(say).map(|m| m.ino());
            inode(0)? == inode(1)?
        }
        Verb::Symlink => fs::read_link(at(0)?).is_ok(),
        Verb::Chmod => mode_of(at(0)?).is_some_and(|mode| mode == MODE),
        Verb::Setid => mode_of(at(0)?).is_some_and(|mode| mode == 0o4755),
        Verb::Times => fs::metadata(at(0)?)
            .and_then(|meta| meta.modified())
            .is_ok_and(|time| time == SystemTime::UNIX_EPOCH + Duration::from_secs(TIME_S)),
        Verb::Read
        | Verb::List
        | Verb::Stat
        | Verb::Readlink
        | Verb::Execute
        | Verb::Tcp
        | Verb::Udp
        | Verb::Listen
        | Verb::OwnLoopback
        | Verb::Unix
        | Verb::Abstract
        | Verb::Pair
        | Verb::Bind
        | Verb::Signal
        | Verb::SignalOwn
        | Verb::Descriptor
        | Verb::Variable => true,
    };
    if good {
        Ok(())
    } else {
        Err("it said so, and it was not done".to_owned())
    }
}

fn mode_of(path: &Path) -> Option<u32> {
    let meta = fs::metadata(path).ok()?;
    Some(meta.permissions().mode() & 0o7777)
}

/// Returns the contents of the files at some paths; `None` for a directory or a missing file.
pub(crate) fn held(places: &[Option<PathBuf>]) -> Vec<Option<Vec<u8>>> {
    places
        .iter()
        .map(|place| {
            let place = place.as_deref()?;
            place.is_file().then(|| fs::read(place).ok())?
        })
        .collect()
}

pub(crate) fn say(error: impl std::fmt::Display) -> String {
    error.to_string()
}
