//! More words of the probe: attempts that take several steps.

use crate::raw;
use nix::libc;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

/// `None`: not a word of this list.
pub(crate) fn run(words: &[&str]) -> Option<io::Result<String>> {
    Some(match *words {
        // For what must not be changed even if the sandbox should fail.
        ["open-write", path] => fs::OpenOptions::new()
            .append(true)
            .open(path)
            .map(|_| String::new()),
        ["times", path] => times(path),
        ["chown", path] => {
            std::os::unix::fs::chown(path, Some(nix::unistd::getuid().as_raw()), None).map(none)
        }
        ["xattr", path] => attribute(path),
        ["climb", from, to, then] => climb(from, to, then),
        ["entropy", path] => entropy(path),
        ["device", path] => device(path),
        ["fast-open", port] => fast_open(port),
        ["udp-reply", port] => udp_reply(port),
        ["pidfd-signal", pid] => pidfd_signal(pid),
        ["own", pid] => own(pid),
        ["find-process", word] => find_process(word),
        ["through-descriptors", path] => through_descriptors(path),
        ["variable", name] => match std::env::var_os(name) {
            Some(value) => Ok(value.display().to_string()),
            None => Err(errno(libc::ENOENT)),
        },
        ["allocate", mb] => allocate(mb, Duration::ZERO),
        // A supervisor that looks now and then must get the time to.
        ["allocate-and-stay", mb] => allocate(mb, Duration::from_secs(60)),
        ["fork", count] => fork(count, Duration::ZERO),
        ["fork-and-stay", count] => fork(count, Duration::from_secs(60)),
        ["signal-threads"] => signal_threads(),
        _ => return None,
    })
}

fn none((): ()) -> String {
    String::new()
}

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

fn number<T: std::str::FromStr>(word: &str) -> io::Result<T> {
    word.parse()
        .map_err(|_| io::Error::other(format!("not a number: {word}")))
}

fn call(number: i64, args: [u64; 6], data: &mut [u8]) -> io::Result<i64> {
    raw::call(number, args, data).map_err(errno)
}

/// By path: a file opened for writing would be another question.
fn times(path: &str) -> io::Result<String> {
    let mut data = c_path(path);
    call(
        libc::SYS_utimensat,
        [at_cwd(), raw::DATA, 0, 0, 0, 0],
        &mut data,
    )
    .map(|_| String::new())
}

/// By path as well. All three pointers lead to the same text: a link of that name in a place of
/// our own leads to the file.
fn attribute(path: &str) -> io::Result<String> {
    const NAME: &str = "user.os_sandbox";
    let before = std::env::current_dir()?;
    std::env::set_current_dir(std::env::temp_dir())?;
    let _ = fs::remove_file(NAME);
    std::os::unix::fs::symlink(path, NAME)?;
    let args = [raw::DATA, raw::DATA, raw::DATA, 1, 0, 0];
    let result = call(libc::SYS_setxattr, args, &mut c_path(NAME));
    fs::remove_file(NAME)?;
    std::env::set_current_dir(before)?;
    result.map(|_| String::new())
}

fn c_path(path: &str) -> Vec<u8> {
    let mut bytes = path.as_bytes().to_vec();
    bytes.push(0);
    bytes.resize(4096, 0);
    bytes
}

fn at_cwd() -> u64 {
    i64::from(libc::AT_FDCWD) as u64
}

/// Into a directory, which is then moved; `..` is where it lies now.
fn climb(from: &str, to: &str, then: &str) -> io::Result<String> {
    std::env::set_current_dir(from)?;
    fs::rename(from, to)?;
    fs::read_to_string(then)
}

/// A request that only the device itself answers.
fn entropy(path: &str) -> io::Result<String> {
    const RNDGETENTCNT: u64 = 0x8004_5200;
    let file = File::open(path)?;
    let fd = u64::from(file.as_raw_fd().unsigned_abs());
    call(
        libc::SYS_ioctl,
        [fd, RNDGETENTCNT, raw::DATA, 0, 0, 0],
        &mut [0; 4096],
    )
    .map(|_| String::new())
}

fn device(path: &str) -> io::Result<String> {
    use nix::sys::stat::{Mode, SFlag, makedev, mknod};
    mknod(path, SFlag::S_IFBLK, Mode::S_IRUSR, makedev(8, 0))
        .map(none)
        .map_err(Into::into)
}

/// Connects without `connect`, which is all that Landlock looks at.
fn fast_open(port: &str) -> io::Result<String> {
    let numbers = [libc::AF_INET, libc::SOCK_STREAM, 0].map(|n| u64::from(n.unsigned_abs()));
    let args = [numbers[0], numbers[1], numbers[2], 0, 0, 0];
    let fd = call(libc::SYS_socket, args, &mut [])? as u64;
    // struct sockaddr_in; its first byte is also what is sent.
    let mut address = [0u8; 4096];
    address[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    address[2..4].copy_from_slice(&number::<u16>(port)?.to_be_bytes());
    address[4..8].copy_from_slice(&[127, 0, 0, 1]);
    let flags = u64::from(libc::MSG_FASTOPEN.unsigned_abs());
    let args = [fd, raw::DATA, 1, flags, raw::DATA, 16];
    call(libc::SYS_sendto, args, &mut address).map(|_| String::new())
}

/// UDP tells nobody whether something arrived, but the same host says when a port is closed.
fn udp_reply(port: &str) -> io::Result<String> {
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    socket.connect(("127.0.0.1", number(port)?))?;
    socket.send(b"x")?;
    std::thread::sleep(Duration::from_millis(5));
    socket.send(b"x").map(|_| String::new())
}

fn pidfd_signal(pid: &str) -> io::Result<String> {
    let fd = call(libc::SYS_pidfd_open, [number(pid)?, 0, 0, 0, 0, 0], &mut [])?;
    let args = [fd as u64, 15, 0, 0, 0, 0];
    call(libc::SYS_pidfd_send_signal, args, &mut []).map(|_| String::new())
}

/// Names a process as the owner of a pipe, asks for SIGKILL when it can be read, and writes to it.
fn own(pid: &str) -> io::Result<String> {
    let (mut reader, mut writer) = std::os::unix::net::UnixStream::pair()?;
    let fd = u64::from(reader.as_raw_fd().unsigned_abs());
    let fcntl = |command: i32, value: u64| {
        call(
            libc::SYS_fcntl,
            [fd, command.unsigned_abs().into(), value, 0, 0, 0],
            &mut [],
        )
    };
    const F_SETSIG: i32 = 10;
    fcntl(libc::F_SETOWN, number(pid)?)?;
    fcntl(F_SETSIG, 9)?;
    fcntl(libc::F_SETFL, libc::O_ASYNC.unsigned_abs().into())?;
    writer.write_all(b"x")?;
    reader.read_exact(&mut [0])?;
    Ok(String::new())
}

/// Whether some other process has the word in its command line.
fn find_process(word: &str) -> io::Result<String> {
    let me = std::process::id().to_string();
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let numeric = name
            .to_str()
            .is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
        if !numeric || name == *me {
            continue;
        }
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&line).into_owned();
        if arguments.split('\0').any(|argument| argument == word) {
            return Ok(String::new());
        }
    }
    Err(errno(libc::ENOENT))
}

/// Opens a relative path from every descriptor that could have come along.
fn through_descriptors(path: &str) -> io::Result<String> {
    let mut data = c_path(path);
    for fd in (0..1024).filter(|fd| *fd != raw::DATA) {
        if let Ok(opened) = raw::call(libc::SYS_openat, [fd, raw::DATA, 0, 0, 0, 0], &mut data) {
            return Ok(format!("{opened} from {fd}"));
        }
    }
    Err(errno(libc::ENOENT))
}

fn allocate(mb: &str, stay: Duration) -> io::Result<String> {
    let bytes = number::<usize>(mb)? << 20;
    let mut memory: Vec<u8> = Vec::new();
    memory
        .try_reserve_exact(bytes)
        .map_err(|_| errno(libc::ENOMEM))?;
    // Reserved is not used: a control group counts pages that were written to.
    memory.resize(bytes, 1);
    std::thread::sleep(stay);
    std::hint::black_box(memory);
    Ok(String::new())
}

/// Many processes at once, which end before this returns.
fn fork(count: &str, stay: Duration) -> io::Result<String> {
    let mut children = Vec::new();
    let mut result = Ok(String::new());
    for _ in 0..number::<usize>(count)? {
        match std::process::Command::new("/bin/sleep").arg("600").spawn() {
            Ok(child) => children.push(child),
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    if result.is_ok() {
        std::thread::sleep(stay);
    }
    for mut child in children {
        let _ = child.kill();
        let _ = child.wait();
    }
    result
}

/// A thread signals another one of the same program: a scope must let that pass.
fn signal_threads() -> io::Result<String> {
    let main = nix::unistd::gettid().as_raw();
    let process = u64::from(std::process::id());
    std::thread::spawn(move || {
        let args = [process, u64::from(main.unsigned_abs()), 0, 0, 0, 0];
        call(libc::SYS_tgkill, args, &mut []).map(|_| String::new())
    })
    .join()
    .map_err(|_| io::Error::other("a thread"))?
}
