//! The confined target: does one thing and says what came of it, `ok`, `ok TEXT` or `errno N`.

use crate::{attempts, raw, tracing, words};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::libc;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::process::ExitCode;
use std::time::Duration;

pub(crate) fn main(args: &[String]) -> ExitCode {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["each", attempts @ ..] = &words[..] {
        for attempt in attempts {
            println!("{}", said(&attempt.split(' ').collect::<Vec<_>>()));
        }
        return ExitCode::SUCCESS;
    }
    match run(&words) {
        Ok(text) => println!("ok {text}"),
        Err(error) => match error.raw_os_error() {
            Some(errno) => println!("errno {errno}"),
            None => {
                println!("error {error}");
                return ExitCode::FAILURE;
            }
        },
    }
    ExitCode::SUCCESS
}

/// One line, whatever comes of it.
fn said(words: &[&str]) -> String {
    match run(words) {
        Ok(text) => format!("ok {}", text.escape_debug()),
        Err(error) => match error.raw_os_error() {
            Some(errno) => format!("errno {errno}"),
            None => format!("error {error}"),
        },
    }
}

fn run(words: &[&str]) -> io::Result<String> {
    if let Some(result) = attempts::run(words).or_else(|| tracing::run(words)) {
        return result;
    }
    let done = |()| String::new();
    match *words {
        ["read", path] => fs::read_to_string(path),
        ["list", path] => Ok(fs::read_dir(path)?.count().to_string()),
        ["write", path] => fs::write(path, "changed").map(done),
        ["append", path] => OpenOptions::new()
            .append(true)
            .open(path)?
            .write_all(b"x")
            .map(done),
        ["truncate", path] => OpenOptions::new()
            .write(true)
            .open(path)?
            .set_len(0)
            .map(done),
        ["truncate-path", path] => {
            let mut bytes = path.as_bytes().to_vec();
            bytes.push(0);
            number(raw::call(
                libc::SYS_truncate,
                [raw::DATA, 0, 0, 0, 0, 0],
                &mut bytes,
            ))
        }
        ["delete", path] => fs::remove_file(path).map(done),
        ["mkdir", path] => fs::create_dir(path).map(done),
        ["rename", from, to] => fs::rename(from, to).map(done),
        ["exchange", from, to] => {
            renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::RENAME_EXCHANGE)
                .map(done)
                .map_err(io::Error::from)
        }
        ["uncover", path] => crate::uncover::run(path),
        ["link", from, to] => fs::hard_link(from, to).map(done),
        ["symlink", from, to] => std::os::unix::fs::symlink(from, to).map(done),
        ["mode", path, mode] => {
            fs::set_permissions(path, PermissionsExt::from_mode(octal(mode)?)).map(done)
        }
        ["create-mode", path, mode] => OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(octal(mode)?)
            .open(path)
            .map(|_| String::new()),
        ["attribute", path, value] => {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(path, "user.own", value.as_bytes(), flags)
                .map(done)
                .map_err(io::Error::from)
        }
        ["exec", path] => {
            let output = std::process::Command::new(path).output()?;
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        ["reach", address] => TcpStream::connect(address).map(|_| String::new()),
        ["tcp", port] => TcpStream::connect(("127.0.0.1", parse(port)?)).map(|_| String::new()),
        ["tcp6", port] => TcpStream::connect(("::1", parse(port)?)).map(|_| String::new()),
        ["listen"] => std::net::TcpListener::bind(("127.0.0.1", 0)).map(|_| String::new()),
        ["own-loopback"] => {
            let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
            TcpStream::connect(listener.local_addr()?).map(|_| String::new())
        }
        ["udp", port] => {
            let socket = UdpSocket::bind(("127.0.0.1", 0))?;
            socket
                .send_to(b"x", ("127.0.0.1", parse(port)?))
                .map(|_| String::new())
        }
        ["unix", path] => std::os::unix::net::UnixStream::connect(path).map(|_| String::new()),
        ["abstract", name] => {
            use std::os::linux::net::SocketAddrExt;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            std::os::unix::net::UnixStream::connect_addr(&address).map(|_| String::new())
        }
        ["pair"] => {
            let (mut a, mut b) = std::os::unix::net::UnixStream::pair()?;
            a.write_all(b"x")?;
            b.read_exact(&mut [0]).map(done)
        }
        ["fds"] => fds(),
        ["env"] => {
            // Without those that the caller of the tests happens to have: a CI service sets `CI`.
            let is_always_set = |name: &str| ["LANG", "TERM"].contains(&name);
            let mut names: Vec<String> = std::env::vars_os()
                .map(|(name, _)| name.display().to_string())
                .filter(|name| is_always_set(name) || !sandbox_names::is_ambient_variable(name))
                .collect();
            names.sort();
            Ok(names.join(" "))
        }
        ["status", field] => {
            let text = fs::read_to_string("/proc/self/status")?;
            let line = text.lines().find_map(|line| line.strip_prefix(field));
            Ok(line
                .unwrap_or_default()
                .trim_start_matches(':')
                .trim()
                .to_owned())
        }
        ["call", number_text, ref rest @ ..] => {
            let mut args = [0u64; 6];
            for (slot, word) in args.iter_mut().zip(rest) {
                *slot = if *word == "DATA" {
                    raw::DATA
                } else {
                    words::number(word).map_err(io::Error::other)?
                };
            }
            let called = words::number(number_text).map_err(io::Error::other)?;
            number(raw::call(called as i64, args, &mut [0u8; 4096]))
        }
        ["hold", path, how] => hold(path, how),
        ["hogs", count, megabytes, then] => hogs(parse(count)?, megabytes, then),
        ["reserve", gigabytes] => reserve(parse(gigabytes)?),
        ["hog", megabytes] => hog(parse(megabytes)?),
        ["children", count, then] => children(parse(count)?, then),
        ["files", count] => files(parse(count)?),
        // With a word to be found by.
        ["spin"] | ["spin", _] => loop {
            std::thread::sleep(Duration::from_secs(3600));
        },
        _ => crate::connects::run(words),
    }
}

/// Every open descriptor but the one that lists them.
fn fds() -> io::Result<String> {
    let mut open = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let to = fs::read_link(entry.path()).unwrap_or_default();
        if !to.to_string_lossy().ends_with("/fd") {
            open.push(entry.file_name().display().to_string());
        }
    }
    open.sort();
    Ok(open.join(" "))
}

/// Starts a process that holds a lock on a file for ever, detached in one of several ways, waits
/// until it has it, and then ends or stays.
fn hold(path: &str, how: &str) -> io::Result<String> {
    let (detach, then) = how.split_once('+').unwrap_or((how, "exit"));
    let ready = format!("{path}.ready");
    match detach {
        // The holder itself.
        "self" => {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(path)?;
            file.lock()?;
            fs::write(&ready, "")?;
            loop {
                std::thread::sleep(Duration::from_secs(3600));
            }
        }
        "background" | "setsid" | "double" => {
            let me = std::env::current_exe()?;
            let mut command = match detach {
                "background" => std::process::Command::new(&me),
                "setsid" => {
                    let mut command = std::process::Command::new("setsid");
                    command.arg(&me);
                    command
                }
                // The middle one ends at once; the holder belongs to nobody.
                _ => {
                    let mut command = std::process::Command::new("sh");
                    command
                        .args(["-c", "setsid setsid \"$0\" \"$@\" >/dev/null 2>&1 &"])
                        .arg(&me);
                    command
                }
            };
            command.args(["--probe", "hold", path, "self"]);
            // The streams are nobody's business: a holder that keeps them must not keep us.
            let mut child = command.spawn()?;
            if detach == "double" {
                child.wait()?;
            }
        }
        other => return Err(io::Error::other(format!("no such way: {other}"))),
    }
    while !fs::exists(&ready)? {
        std::thread::sleep(Duration::from_millis(2));
    }
    match then {
        "exit" => Ok(String::new()),
        _ => loop {
            std::thread::sleep(Duration::from_secs(3600));
        },
    }
}

/// Starts processes that each fill some memory, and says how many of them could; then ends with
/// them or stays. No clock is involved: all of them hold what they have until all have answered.
fn hogs(count: usize, megabytes: &str, then: &str) -> io::Result<String> {
    let start = || {
        std::process::Command::new(std::env::current_exe()?)
            .args(["--probe", "hog", megabytes])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
    };
    let mut hogs = (0..count)
        .map(|_| start())
        .collect::<io::Result<Vec<_>>>()?;
    for hog in &mut hogs {
        if let Some(out) = &mut hog.stdout {
            // One that was ended says nothing.
            let _ = out.read(&mut [0; 16])?;
        }
    }
    stay_if(then);
    let mut well = 0;
    for mut hog in hogs {
        drop(hog.stdin.take());
        well += usize::from(hog.wait()?.success());
    }
    Ok(well.to_string())
}

fn hog(megabytes: usize) -> io::Result<String> {
    let mut memory = vec![0u8; megabytes << 20];
    for page in memory.chunks_mut(4096) {
        page[0] = 1;
    }
    std::hint::black_box(&memory);
    println!("full");
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(String::new())
}

/// Takes addresses, and uses none of them.
fn reserve(gigabytes: u64) -> io::Result<String> {
    let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let args = [
        0,
        gigabytes << 30,
        protection.cast_unsigned().into(),
        how.cast_unsigned().into(),
        u64::MAX,
        0,
    ];
    number(raw::call(libc::SYS_mmap, args, &mut [])).map(|_| String::new())
}

/// Starts processes until it cannot, and says how many there were.
fn children(count: usize, then: &str) -> io::Result<String> {
    let mut children = Vec::new();
    while children.len() < count {
        let child = std::process::Command::new(std::env::current_exe()?)
            .args(["--probe", "spin"])
            .spawn();
        match child {
            Ok(child) => children.push(child),
            Err(_) => break,
        }
    }
    stay_if(then);
    Ok(children.len().to_string())
}

fn files(count: usize) -> io::Result<String> {
    let mut open = Vec::new();
    while open.len() < count
        && let Ok(file) = fs::File::open("/dev/null")
    {
        open.push(file);
    }
    Ok(open.len().to_string())
}

fn stay_if(then: &str) {
    if then == "stay" {
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }
}

fn number(result: Result<i64, i32>) -> io::Result<String> {
    result
        .map(|value| value.to_string())
        .map_err(io::Error::from_raw_os_error)
}

fn parse<T: std::str::FromStr>(word: &str) -> io::Result<T> {
    word.parse()
        .map_err(|_| io::Error::other(format!("not a number: {word}")))
}

fn octal(word: &str) -> io::Result<u32> {
    u32::from_str_radix(word, 8).map_err(io::Error::other)
}
