//! An engine that nobody else uses: its own socket, data and pid file, no network of its own, and one
//! image that no registry was asked for. Only root can start one; where it cannot be, the tests say
//! so and pass over it. `cargo xtask test` starts one for all test programs, and says where it is.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long the engine may take to answer, and to end.
const WITHIN: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(50);

/// The image: a busybox with its usual names in `/bin`.
pub(crate) const IMAGE: &str = "os-sandbox-test:busybox";

/// Where an engine answers that somebody started for us.
const SHARED: &str = "FORGE_TEST_ENGINE";

/// Waits for its input to end. A line means that all is well; an end without one, that whoever had it
/// was killed: then the engine is ended, and what it leaves is removed.
const GUARD: &str = "read -r line && exit; kill \"$1\" && \
    for tenth in $(seq 600); do kill -0 \"$1\" 2>/dev/null || break; sleep 0.1; done; rm -rf \"$2\"";

/// A running engine. Dropping it ends it, and takes its directory away.
pub(crate) struct Daemon {
    host: String,
    directory: PathBuf,
    /// None if somebody else started it.
    own: Option<Own>,
    /// Where its data is, if that is not in its own directory.
    data: Option<tempfile::TempDir>,
    /// Removed after everything else.
    _scratch: tempfile::TempDir,
}

/// What was started, and will be ended.
struct Own {
    process: Child,
    guard: Child,
    directory: PathBuf,
}

impl Daemon {
    /// One with the image in it: that of `cargo xtask test`, or one of our own. `Err` is why there is
    /// none here.
    pub(crate) fn start() -> Result<Daemon, String> {
        match std::env::var(SHARED) {
            Ok(host) => Daemon::shared(host),
            Err(_) => Daemon::start_in(&std::env::temp_dir(), |_| Vec::new()),
        }
    }

    fn shared(host: String) -> Result<Daemon, String> {
        let scratch = tempfile::tempdir().map_err(|error| format!("no engine: {error}"))?;
        let mut daemon = Daemon {
            host,
            directory: scratch.path().to_owned(),
            own: None,
            data: None,
            _scratch: scratch,
        };
        daemon.answers()?;
        if !daemon
            .try_docker(&["image", "inspect", IMAGE])
            .status
            .success()
        {
            daemon.import(&busybox()?)?;
        }
        Ok(daemon)
    }

    /// One whose data lies below `base`, with more arguments for the daemon; they are asked for with
    /// its directory.
    pub(crate) fn start_in(
        base: &Path,
        more: impl FnOnce(&Path) -> Vec<String>,
    ) -> Result<Daemon, String> {
        Daemon::start_as(base, more, Command::new("dockerd"))
    }

    /// One that has another directory for temporary files than we have, as an engine on another
    /// machine does.
    pub(crate) fn start_elsewhere() -> Result<Daemon, String> {
        let ours = std::env::temp_dir();
        let theirs = match ours.starts_with("/var/tmp") {
            true => Path::new("/tmp"),
            false => Path::new("/var/tmp"),
        };
        let mut unshare = Command::new("unshare");
        let script = "mount -t tmpfs none \"$1\" && shift && exec \"$@\"";
        unshare.args(["--mount", "sh", "-c", script, "sh"]);
        unshare.arg(ours).arg("dockerd");
        Daemon::start_as(theirs, |_| Vec::new(), unshare)
    }

    /// One whose containers have a user namespace (`userns-remap`).
    pub(crate) fn start_remapped() -> Result<Daemon, String> {
        let mut unshare = Command::new("unshare");
        let script = "mount -t tmpfs none /mnt && echo nobody:200000:65536 >/mnt/ids && \
                      mount --bind /mnt/ids /etc/subuid && mount --bind /mnt/ids /etc/subgid && \
                      exec dockerd --userns-remap=nobody:nogroup \"$@\"";
        unshare.args(["--mount", "sh", "-c", script, "sh"]);
        // The containers' root, which is an ordinary user here, passes through.
        let passable = |directory: &Path| {
            let _told = fs::set_permissions(directory, fs::Permissions::from_mode(0o755));
            Vec::new()
        };
        Daemon::start_as(&std::env::temp_dir(), passable, unshare)
    }

    /// One that has so little room for its own data.
    pub(crate) fn start_small(size: &str) -> Result<Daemon, String> {
        let data = tempfile::tempdir().map_err(|error| format!("no engine: {error}"))?;
        let mut unshare = Command::new("unshare");
        let script = "mount -t tmpfs -o \"size=$2\" none \"$1\" && shift 2 && exec \"$@\"";
        unshare.args(["--mount", "sh", "-c", script, "sh"]);
        unshare.arg(data.path()).args([size, "dockerd"]);
        let root = format!("--data-root={}", data.path().display());
        let mut daemon = Daemon::start_as(&std::env::temp_dir(), |_| vec![root], unshare)?;
        daemon.data = Some(data);
        Ok(daemon)
    }

    fn start_as(
        base: &Path,
        more: impl FnOnce(&Path) -> Vec<String>,
        mut dockerd: Command,
    ) -> Result<Daemon, String> {
        if !nix::unistd::geteuid().is_root() {
            return Err("only root can start a container engine".to_owned());
        }
        for program in ["dockerd", "docker"] {
            find(program).ok_or(format!("{program} is not installed (cargo xtask setup)"))?;
        }
        let busybox = busybox()?;
        let failed = |error: io::Error| format!("no engine: {error}");
        let scratch = tempfile::Builder::new()
            .prefix("os-sandbox-docker.")
            .tempdir_in(base)
            .map_err(failed)?;
        let directory = scratch.path().to_owned();
        let host = format!("unix://{}/docker.sock", directory.display());
        let log = directory.join("dockerd.log");
        let output = File::create(&log).map_err(failed)?;
        let process = dockerd
            .arg("--data-root")
            .arg(directory.join("data"))
            .arg("--exec-root")
            .arg(directory.join("exec"))
            .arg("--pidfile")
            .arg(directory.join("dockerd.pid"))
            .args(["--host", &host, "--bridge=none", "--iptables=false"])
            .args(more(&directory))
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(failed)?)
            .stderr(output)
            .spawn()
            .map_err(failed)?;
        let guard = Command::new("sh")
            .args(["-c", GUARD, "guard", &process.id().to_string()])
            .arg(&directory)
            .stdin(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut daemon = Daemon {
            host,
            own: Some(Own {
                process,
                guard,
                directory: directory.clone(),
            }),
            directory,
            data: None,
            _scratch: scratch,
        };
        daemon.answers()?;
        daemon.import(&busybox)?;
        Ok(daemon)
    }

    /// Where it answers, as in `DOCKER_HOST`.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Asks it by the docker client, which must succeed; what it wrote.
    pub(crate) fn docker(&self, arguments: &[&str]) -> String {
        let output = self.try_docker(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "docker {arguments:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    pub(crate) fn try_docker(&self, arguments: &[&str]) -> Output {
        let mut docker = Command::new("docker");
        for name in ["DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY"] {
            docker.env_remove(name);
        }
        docker
            .args(["--host", &self.host])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("the docker client")
    }

    /// Containers and volumes with the label of os-sandbox. Why: tests of `docker run` use the same
    /// engine at the same time.
    pub(crate) fn everything(&self) -> Vec<String> {
        let ours = ["--filter", "label=os-sandbox.owner"];
        let containers = [
            "ps",
            "--all",
            "--format",
            "container {{.Names}} {{.Status}}",
        ];
        let volumes = ["volume", "ls", "--format", "volume {{.Name}}"];
        let containers = self.docker(&[&containers[..], &ours].concat());
        let volumes = self.docker(&[&volumes[..], &ours].concat());
        let lines = containers.lines().chain(volumes.lines());
        lines.map(str::to_owned).collect()
    }

    /// Ends it at once, as a crash does. Its containers end with it or stay, as they like.
    pub(crate) fn kill(&mut self) {
        if let Some(own) = &mut self.own {
            own.kill();
        }
    }

    fn answers(&mut self) -> Result<(), String> {
        let until = Instant::now() + WITHIN;
        while !self.try_docker(&["version"]).status.success() {
            let ended = self.own.as_mut().is_some_and(Own::has_ended);
            if ended || Instant::now() > until {
                let text = fs::read_to_string(self.directory.join("dockerd.log"));
                let text = text.unwrap_or_default();
                let last = text.lines().last().unwrap_or("it said nothing");
                return Err(format!("dockerd does not start here: {last}"));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn import(&self, busybox: &Path) -> Result<(), String> {
        let root = self.directory.join("root");
        self.build(&root, busybox)
            .map_err(|error| format!("no image: {error}"))?;
        let tar = self.directory.join("root.tar");
        let tar = tar.to_str().ok_or("the temporary directory is not UTF-8")?;
        let packed = Command::new("tar")
            .arg("-C")
            .arg(&root)
            .args(["-cf", tar, "."])
            .status();
        if !packed.is_ok_and(|status| status.success()) {
            return Err("no image: tar failed".to_owned());
        }
        let output = self.try_docker(&["import", tar, IMAGE]);
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// A root of its own: directories, two users, a secret, and busybox under each of its names.
    fn build(&self, root: &Path, busybox: &Path) -> io::Result<()> {
        for name in ["bin", "dev", "etc", "proc", "sys", "tmp", "root", "usr/bin"] {
            fs::create_dir_all(root.join(name))?;
        }
        fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777))?;
        let passwd = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n";
        fs::write(root.join("etc/passwd"), passwd)?;
        fs::write(root.join("etc/group"), "root:x:0:\nnogroup:x:65534:\n")?;
        fs::write(root.join("etc/secret"), "a secret of the image\n")?;
        let there = root.join("bin/busybox");
        fs::copy(busybox, &there)?;
        fs::set_permissions(&there, fs::Permissions::from_mode(0o755))?;
        let names = Command::new(&there).arg("--list").output()?;
        for name in String::from_utf8_lossy(&names.stdout).lines() {
            if name != "busybox" {
                symlink("busybox", root.join("bin").join(name))?;
            }
        }
        symlink("/bin/env", root.join("usr/bin/env"))
    }
}

impl Own {
    fn has_ended(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    fn kill(&mut self) {
        let _ended = self.process.kill();
        let _ended = self.process.wait();
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SIGKILL would leave its containerd behind.
        let pid = nix::unistd::Pid::from_raw(self.process.id().cast_signed());
        if !self.has_ended() {
            let _asked = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        }
        let until = Instant::now() + WITHIN;
        while !self.has_ended() && Instant::now() < until {
            std::thread::sleep(POLL);
        }
        self.kill();
        if let Some(mut line) = self.guard.stdin.take() {
            let _told = line.write_all(b"ended\n");
        }
        let _ended = self.guard.wait();
        clear(&self.directory);
    }
}

/// Ends what an engine that crashed has left running, and takes its mounts away: without this its
/// directory could not be removed. All of it has that directory in its words.
fn clear(directory: &Path) {
    let ours = directory.as_os_str().as_encoded_bytes();
    let processes = || fs::read_dir("/proc").into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<i32>().ok();
    let parent = |pid: i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        line.trim().parse::<i32>().ok()
    };
    let is_ours = |path: &Path| {
        let words = fs::read(path.join("cmdline")).unwrap_or_default();
        words.windows(ours.len()).any(|part| part == ours)
    };
    // containerd, and what stands by each container.
    let all: Vec<PathBuf> = processes().map(|entry| entry.path()).collect();
    let left: Vec<i32> = all
        .iter()
        .filter(|path| number(path).is_some() && is_ours(path))
        .filter_map(|path| number(path))
        .collect();
    let inside = all.iter().filter_map(|path| number(path));
    let inside = inside.filter(|pid| parent(*pid).is_some_and(|parent| left.contains(&parent)));
    let me = std::process::id().cast_signed();
    for pid in inside
        .collect::<Vec<_>>()
        .into_iter()
        .chain(left.iter().copied())
    {
        if pid != me {
            let pid = nix::unistd::Pid::from_raw(pid);
            let _ended = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
    }
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let mut places: Vec<&str> = places
        .filter(|place| Path::new(place).starts_with(directory))
        .collect();
    places.reverse();
    if !places.is_empty() {
        let _gone = Command::new("umount").arg("--lazy").args(places).status();
    }
}

/// A static busybox: the host's own, or Debian's package, unpacked into the cache once.
pub(crate) fn busybox() -> Result<PathBuf, String> {
    let here = find("busybox").filter(|path| is_static(path));
    if let Some(path) = here {
        return Ok(path);
    }
    let cached = unpacked("busybox-static")?.join("bin/busybox");
    if is_static(&cached) {
        return Ok(cached);
    }
    Err("the package busybox-static has no static busybox".to_owned())
}

/// A package of Debian that nobody needs to install, unpacked into the cache of tools.
pub(crate) fn unpacked(package: &str) -> Result<PathBuf, String> {
    let place =
        cache().ok_or("no place for the cache of tools: neither XDG_CACHE_HOME nor HOME")?;
    let there = place.join(package);
    if there.is_dir() {
        return Ok(there);
    }
    let failed = |what: &str| format!("{package} is not here and cannot be had: {what} failed");
    fs::create_dir_all(&place).map_err(|error| failed(&error.to_string()))?;
    let scratch = tempfile::tempdir_in(&place).map_err(|error| failed(&error.to_string()))?;
    let run = |command: &mut Command| {
        let output = command
            .current_dir(scratch.path())
            .stdin(Stdio::null())
            .output();
        output.is_ok_and(|output| output.status.success())
    };
    // Not as apt's own user: it could not enter the directory.
    if !run(Command::new("apt-get").args(["-o", "APT::Sandbox::User=root", "download", package])) {
        return Err(failed("apt-get download"));
    }
    let list = fs::read_dir(scratch.path()).map_err(|error| failed(&error.to_string()))?;
    let archive = list.flatten().map(|entry| entry.path());
    let archive = archive
        .into_iter()
        .find(|path| path.extension().is_some_and(|is| is == "deb"));
    let archive = archive.ok_or_else(|| failed("apt-get download"))?;
    if !run(Command::new("dpkg").arg("-x").arg(&archive).arg("unpacked")) {
        return Err(failed("dpkg -x"));
    }
    // Somebody else may have been faster.
    let _there = fs::rename(scratch.path().join("unpacked"), &there);
    match there.is_dir() {
        true => Ok(there),
        false => Err(failed("keeping it")),
    }
}

fn cache() -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Some(base?.join("forge-tools/debian"))
}

/// Whether a program needs no loader: a 64-bit ELF without a header that names one.
fn is_static(path: &Path) -> bool {
    const NAMES_A_LOADER: u64 = 3;
    let Ok(bytes) = fs::read(path) else {
        return false;
    };
    let number = |at: usize, length: usize| {
        let part = bytes.get(at..at + length)?.iter().rev();
        Some(part.fold(0, |so_far, byte| so_far << 8 | u64::from(*byte)))
    };
    let first = || usize::try_from(number(32, 8)?).ok();
    let (Some(first), Some(size), Some(count)) = (first(), number(54, 2), number(56, 2)) else {
        return false;
    };
    let kind = |index: u64| number(first + usize::try_from(index * size).ok()?, 4);
    bytes.starts_with(b"\x7fELF\x02")
        && !(0..count).any(|index| kind(index) == Some(NAMES_A_LOADER))
}

pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
}
