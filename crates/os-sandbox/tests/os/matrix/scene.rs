//! What a case runs in: directories on the host, the words of its setup done, its policy built.

use super::expect::{Case, Enforcer};
use crate::fixture::{probe_program, set_mode};
use crate::outcome::say;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use os_sandbox::Policy;
use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

/// What lies outside every sandbox and lives as long as a run: listeners that nobody may reach, a
/// process that nobody may touch, and open descriptors that nobody may inherit.
pub(crate) struct Outside {
    tcp: TcpListener,
    open: TcpListener,
    udp: UdpSocket,
    abstract_name: String,
    _abstract: UnixListener,
    victim: std::process::Child,
    leaked: Vec<i32>,
    toolchain: Option<PathBuf>,
}

impl Outside {
    pub(crate) fn new() -> Outside {
        let name = format!("os-sandbox-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        // Open in the broker, also high ones and directories, and not marked close-on-exec.
        let secret = fs::File::open("/").expect("a directory");
        let leaked = [20, 700]
            .into_iter()
            .map(|at| {
                nix::fcntl::fcntl(&secret, nix::fcntl::FcntlArg::F_DUPFD(at)).expect("a copy")
            })
            .collect();
        let listen = || TcpListener::bind("127.0.0.1:0").expect("a listener");
        Outside {
            tcp: listen(),
            open: listen(),
            udp: UdpSocket::bind("127.0.0.1:0").expect("a socket"),
            _abstract: UnixListener::bind_addr(&address).expect("a listener"),
            abstract_name: name,
            victim: std::process::Command::new("sleep")
                .arg("86399")
                .spawn()
                .expect("a victim"),
            leaked,
            toolchain: toolchain(),
        }
    }

    /// Nobody was reached, and nobody was harmed.
    pub(crate) fn unharmed(&mut self) -> Result<(), String> {
        self.tcp.set_nonblocking(true).expect("a flag");
        self.udp.set_nonblocking(true).expect("a flag");
        if self.tcp.accept().is_ok() || self.udp.recv(&mut [0; 8]).is_ok() {
            return Err("something arrived at a listener outside".to_owned());
        }
        match self.victim.try_wait() {
            Ok(None) => Ok(()),
            other => Err(format!("the process outside: {other:?}")),
        }
    }

    fn values(&self) -> BTreeMap<String, String> {
        let port = |listener: &TcpListener| listener.local_addr().expect("an address").port();
        [
            ("port", port(&self.tcp).to_string()),
            ("open_port", port(&self.open).to_string()),
            (
                "udp_port",
                self.udp
                    .local_addr()
                    .expect("an address")
                    .port()
                    .to_string(),
            ),
            ("victim", self.victim.id().to_string()),
            ("broker", std::process::id().to_string()),
            ("abstract", self.abstract_name.clone()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        for fd in &self.leaked {
            let _ = nix::unistd::close(*fd);
        }
    }
}

/// The Rust toolchain, which is seldom a part of the system and is mounted for the case that
/// needs it.
pub(crate) fn toolchain() -> Option<PathBuf> {
    let given = std::env::var_os("FORGE_TEST_TOOLCHAIN").map(PathBuf::from);
    let path = given.or_else(|| {
        let output = std::process::Command::new("rustc")
            .args(["--print", "sysroot"])
            .output();
        let text = String::from_utf8(output.ok()?.stdout).ok()?;
        Some(PathBuf::from(text.trim()))
    })?;
    path.join("bin/cargo").is_file().then_some(path)
}

/// Why there is no toolchain that this user could mount.
pub(crate) fn toolchain_missing() -> Option<String> {
    toolchain()
        .is_none()
        .then(|| "no Rust toolchain that this user can read".to_owned())
}

/// The directories of one case, or of several that need the same.
pub(crate) struct Scene {
    dir: tempfile::TempDir,
    pub(crate) policy: Policy,
    values: BTreeMap<String, String>,
    _sockets: Vec<UnixListener>,
}

impl Scene {
    pub(crate) fn new(case: &Case, outside: &Outside) -> Result<Scene, String> {
        let dir = tempfile::tempdir().map_err(say)?;
        // A real path: a temporary directory may be reached through a link.
        let at = dir.path().canonicalize().map_err(say)?;
        for name in ["rw", "ro", "outside"] {
            let path = at.join(name);
            fs::create_dir(&path).map_err(say)?;
            fs::write(path.join("file"), format!("{name} content")).map_err(say)?;
        }
        let script = at.join("ro/script");
        fs::write(&script, "#!/bin/sh\necho ran\n").map_err(say)?;
        set_mode(&script, 0o755);
        let mut values = outside.values();
        for name in ["rw", "ro", "outside"] {
            values.insert(name.to_owned(), at.join(name).display().to_string());
        }
        values.insert("dir".to_owned(), at.display().to_string());
        values.insert("probe".to_owned(), probe_program().display().to_string());
        if let Some(path) = &outside.toolchain {
            values.insert("toolchain".to_owned(), path.display().to_string());
        }
        let mut sockets = Vec::new();
        for word in &case.setup {
            set_up(&fill(word, &values), &mut sockets)
                .map_err(|error| format!("{word}: {error}"))?;
        }
        let host = |text: &str| PathBuf::from(fill(text, &values));
        let policy = super::policy::build(&case.policy, host, Some(&probe_program()))?;
        Ok(Scene {
            dir,
            policy,
            values,
            _sockets: sockets,
        })
    }

    /// Words as the target says them: mounts by the names that they have there.
    pub(crate) fn inside(&self, text: &str, enforcer: Enforcer) -> String {
        let mut values = self.values.clone();
        for mount in self.policy.mounts() {
            let name = match mount.shown_at() {
                "/" => "rw".to_owned(),
                shown => shown.trim_start_matches('/').replace('/', "."),
            };
            let path = match enforcer {
                Enforcer::MountLayer | Enforcer::Both => mount.inside().to_owned(),
                Enforcer::Landlock => mount.host().display().to_string(),
            };
            values.insert(name, path);
        }
        fill(text, &values)
    }

    /// Words as the host says them.
    pub(crate) fn host(&self, text: &str) -> String {
        fill(text, &self.values)
    }

    /// Whether everything outside the writable mount is as it was, and what the case asks for.
    pub(crate) fn after(&self, wanted: &[String]) -> Result<(), String> {
        for name in ["ro", "outside"] {
            let path = self.dir.path().join(name);
            let content =
                fs::read_to_string(path.join("file")).map_err(|e| format!("{name}: {e}"))?;
            let mut names: Vec<String> = fs::read_dir(&path)
                .map_err(|e| format!("{name}: {e}"))?
                .flatten()
                .map(|entry| entry.file_name().display().to_string())
                .filter(|name| !name.starts_with("of-the-case"))
                .collect();
            names.sort();
            let expected: &[&str] = if name == "ro" {
                &["file", "script"]
            } else {
                &["file"]
            };
            if content != format!("{name} content") || names != expected {
                return Err(format!("{name} was changed: {content:?} {names:?}"));
            }
        }
        for word in wanted {
            holds(&self.host(word)).map_err(|error| format!("{word}: {error}"))?;
        }
        Ok(())
    }
}

pub(crate) fn fill(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut out = text.to_owned();
    for (name, value) in values {
        out = out.replace(&format!("{{{name}}}"), value);
    }
    out
}

fn set_up(words: &str, sockets: &mut Vec<UnixListener>) -> Result<(), String> {
    let words: Vec<&str> = words.splitn(3, ' ').collect();
    match words[..] {
        ["dir", path] => fs::create_dir_all(path).map_err(say),
        ["file", path, text] => {
            if let Some(parent) = Path::new(path).parent() {
                fs::create_dir_all(parent).map_err(say)?;
            }
            fs::write(path, text).map_err(say)
        }
        ["link", path, to] => symlink(to, path).map_err(say),
        ["copy", path, from] => fs::copy(from, path).map(drop).map_err(say),
        ["mode", path, mode] => {
            set_mode(Path::new(path), u32::from_str_radix(mode, 8).map_err(say)?);
            Ok(())
        }
        ["socket", path] => {
            sockets.push(UnixListener::bind(path).map_err(say)?);
            Ok(())
        }
        ["node", path, numbers] => {
            let (major, minor) = numbers.split_once(' ').ok_or("two numbers")?;
            let device = makedev(major.parse().map_err(say)?, minor.parse().map_err(say)?);
            mknod(
                path,
                SFlag::S_IFCHR,
                Mode::from_bits_truncate(0o666),
                device,
            )
            .map_err(say)
        }
        _ => Err("no such word".to_owned()),
    }
}

fn holds(words: &str) -> Result<(), String> {
    let words: Vec<&str> = words.splitn(3, ' ').collect();
    let good = match words[..] {
        ["content", path, text] => fs::read_to_string(path).is_ok_and(|have| have == text),
        ["there", path] => fs::symlink_metadata(path).is_ok(),
        ["absent", path] => fs::symlink_metadata(path).is_err(),
        ["empty", path] => fs::read_dir(path).is_ok_and(|entries| entries.count() == 0),
        ["alive", pid] => fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X ")),
        // Nobody holds it any more, whoever did; a holder says so before anything ends.
        ["unlocked", path] => fs::File::open(path).is_ok_and(|file| file.try_lock().is_ok()),
        _ => return Err("no such word".to_owned()),
    };
    if good {
        Ok(())
    } else {
        Err("it is not so".to_owned())
    }
}
