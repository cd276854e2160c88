//! The confined target's side of the socket cases: ways to ask for a connect, honest and not.

use crate::raw;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, bind,
    connect, listen, recvmsg, socket,
};
use std::io::{self, IoSliceMut, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

pub(crate) fn run(words: &[&str]) -> io::Result<String> {
    match *words {
        ["talk", path] => talk(UnixStream::connect(path)?),
        ["talk-messages", path] => {
            let fd = make(AddressFamily::Unix, SockType::SeqPacket, false)?;
            connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
            talk(UnixStream::from(fd))
        }
        ["talk-without-waiting", path] => {
            let fd = make(AddressFamily::Unix, SockType::Stream, true)?;
            connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
            let stream = UnixStream::from(fd);
            stream.set_nonblocking(false)?;
            talk(stream)
        }
        // What is behind the NUL is not part of the name.
        ["talk-junk", path] => {
            let fd = make(AddressFamily::Unix, SockType::Stream, false)?;
            let mut bytes = local(path.as_bytes());
            bytes.push(0);
            bytes.extend_from_slice(b"junk");
            address(&fd, &mut bytes)?;
            talk(UnixStream::from(fd))
        }
        // Its own table of descriptors, where the number means another socket.
        ["talk-own-descriptors", path] => {
            let fd = make(AddressFamily::Unix, SockType::Stream, false)?;
            let number = fd.as_raw_fd();
            let mut bytes = local(path.as_bytes());
            std::thread::scope(|scope| {
                scope
                    .spawn(move || -> io::Result<()> {
                        let files = libc::CLONE_FILES as u64;
                        plain(libc::SYS_unshare, [files, 0, 0, 0, 0, 0])?;
                        let other = make(AddressFamily::Unix, SockType::Stream, false)?;
                        let (from, to) = (other.as_raw_fd() as u64, number as u64);
                        plain(libc::SYS_dup3, [from, to, 0, 0, 0, 0])?;
                        let length = bytes.len() as u64;
                        let at = [to, raw::DATA, length, 0, 0, 0];
                        raw::call(libc::SYS_connect, at, &mut bytes)
                            .map(drop)
                            .map_err(io::Error::from_raw_os_error)
                    })
                    .join()
                    .expect("no panic")
            })?;
            // The one of the same number here is as it was.
            UnixStream::from(fd)
                .peer_addr()
                .map(|_| "connected".to_owned())
        }
        ["twice", path] => {
            let fd = make(AddressFamily::Unix, SockType::Stream, false)?;
            connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
            connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
            Ok(String::new())
        }
        ["kind", kind, path] => {
            let kind: u64 = kind.parse().map_err(io::Error::other)?;
            let number = plain(libc::SYS_socket, [libc::AF_UNIX as u64, kind, 0, 0, 0, 0])?;
            let mut bytes = local(path.as_bytes());
            let length = bytes.len() as u64;
            let at = [number as u64, raw::DATA, length, 0, 0, 0];
            raw::call(libc::SYS_connect, at, &mut bytes)
                .map(|_| String::new())
                .map_err(io::Error::from_raw_os_error)
        }
        // Descriptor, address and length as numbers: `fd` is a socket, `file` is none.
        ["odd", number, pointer, length] => {
            let fd = make(AddressFamily::Unix, SockType::Stream, false)?;
            let file = std::fs::File::open("/dev/null")?;
            let number = match number {
                "fd" => fd.as_raw_fd() as u64,
                "file" => file.as_raw_fd() as u64,
                other => other.parse().map_err(io::Error::other)?,
            };
            let pointer = match pointer {
                "data" => raw::DATA,
                other => other.parse().map_err(io::Error::other)?,
            };
            let length: i64 = length.parse().map_err(io::Error::other)?;
            let at = [number, pointer, length as u64, 0, 0, 0];
            raw::call(libc::SYS_connect, at, &mut [0u8; 256])
                .map(|_| String::new())
                .map_err(io::Error::from_raw_os_error)
        }
        ["receive-file", path] => receive_file(&mut UnixStream::connect(path)?),
        ["own-listener", path] => {
            let fd = make(AddressFamily::Unix, SockType::Stream, false)?;
            bind(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
            listen(&fd, Backlog::new(1)?)?;
            match UnixStream::connect(path) {
                Ok(_) => Ok("connected".to_owned()),
                Err(error) => Ok(format!(
                    "listens, errno {}",
                    error.raw_os_error().unwrap_or(0)
                )),
            }
        }
        ["stall", full] => stall(full),
        // When there is a file.
        ["talk-after", go, path] => {
            while !std::fs::exists(go)? {
                std::thread::sleep(Duration::from_millis(2));
            }
            talk(UnixStream::connect(path)?)
        }
        // What the connector does to the wait of a socket is not to be seen.
        ["keeps-its-wait", path, full] => {
            let fd = make(AddressFamily::Unix, SockType::Stream, false)?;
            let time = nix::sys::time::TimeVal::new(0, 500_000);
            nix::sys::socket::setsockopt(&fd, nix::sys::socket::sockopt::SendTimeout, &time)?;
            let wait = |fd: &OwnedFd| {
                nix::sys::socket::getsockopt(fd, nix::sys::socket::sockopt::SendTimeout)
            };
            let full = connect(fd.as_raw_fd(), &UnixAddr::new(full)?);
            let after_full = wait(&fd)?;
            connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
            let same = wait(&fd)? == time && after_full == time;
            Ok(format!("{full:?} {same}"))
        }
        ["many", path, count] => many(path, count.parse().map_err(io::Error::other)?),
        ["full", full, path] => beside_a_full_one(full, path),
        ["very-full", full, path] => beside_many_waiting(full, path),
        ["interrupted", full] => interrupted(full),
        ["often-interrupted", path, rounds] => {
            often_interrupted(path, rounds.parse().map_err(io::Error::other)?)
        }
        ["swap-address", named, other, rounds] => {
            swap_address(named, other, rounds.parse().map_err(io::Error::other)?)
        }
        ["swap-socket", named, other, port, rounds] => swap_socket(
            named,
            other,
            port.parse().map_err(io::Error::other)?,
            rounds.parse().map_err(io::Error::other)?,
        ),
        ["udp-connect", port] => {
            let port: u16 = port.parse().map_err(io::Error::other)?;
            let socket = UdpSocket::bind(("127.0.0.1", 0))?;
            socket.connect(("127.0.0.1", port))?;
            socket.send(b"x").map(|_| String::new())
        }
        ["tcp-timeout", port] => {
            let port: u16 = port.parse().map_err(io::Error::other)?;
            let to = std::net::SocketAddr::from(([127, 0, 0, 1], port));
            TcpStream::connect_timeout(&to, Duration::from_secs(600)).map(|_| String::new())
        }
        ["tcp-many", count] => {
            let listener = TcpListener::bind(("127.0.0.1", 0))?;
            let to = listener.local_addr()?;
            for _ in 0..count.parse::<u32>().map_err(io::Error::other)? {
                TcpStream::connect(to)?;
                listener.accept()?;
            }
            Ok(String::new())
        }
        // Time of one connect, for whoever wants to know.
        ["time", path, rounds, waits] => {
            let rounds: u32 = rounds.parse().map_err(io::Error::other)?;
            let start = std::time::Instant::now();
            for _ in 0..rounds {
                let fd = make(AddressFamily::Unix, SockType::Stream, waits == "no")?;
                connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
            }
            Ok(format!(
                "{:.1}",
                start.elapsed().as_secs_f64() * 1e6 / f64::from(rounds)
            ))
        }
        _ => Err(io::Error::other(format!("no such operation: {words:?}"))),
    }
}

fn make(family: AddressFamily, kind: SockType, nonblocking: bool) -> io::Result<OwnedFd> {
    let mut flags = SockFlag::SOCK_CLOEXEC;
    if nonblocking {
        flags |= SockFlag::SOCK_NONBLOCK;
    }
    Ok(socket(family, kind, flags, None)?)
}

fn talk(mut stream: UnixStream) -> io::Result<String> {
    stream.write_all(b"ping")?;
    let mut answer = [0u8; 4];
    stream.read_exact(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn local(path: &[u8]) -> Vec<u8> {
    let mut bytes = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
    bytes.extend_from_slice(path);
    bytes
}

fn address(fd: &OwnedFd, bytes: &mut [u8]) -> io::Result<()> {
    let at = [
        fd.as_raw_fd() as u64,
        raw::DATA,
        bytes.len() as u64,
        0,
        0,
        0,
    ];
    raw::call(libc::SYS_connect, at, bytes)
        .map(drop)
        .map_err(io::Error::from_raw_os_error)
}

fn plain(number: i64, args: [u64; 6]) -> io::Result<i64> {
    raw::call(number, args, &mut []).map_err(io::Error::from_raw_os_error)
}

fn receive_file(stream: &mut UnixStream) -> io::Result<String> {
    stream.write_all(b"file")?;
    let mut byte = [0u8; 1];
    let mut room = nix::cmsg_space!([i32; 1]);
    let mut into = [IoSliceMut::new(&mut byte)];
    let got = recvmsg::<()>(
        stream.as_raw_fd(),
        &mut into,
        Some(&mut room),
        MsgFlags::empty(),
    )?;
    for message in got.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = message
            && let Some(fd) = fds.first()
        {
            return std::fs::read_to_string(format!("/proc/self/fd/{fd}"));
        }
    }
    Err(io::Error::other("no descriptor came"))
}

/// All at once, and all of them open at the same time.
fn many(path: &str, count: usize) -> io::Result<String> {
    let open = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|_| scope.spawn(|| UnixStream::connect(path)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect::<io::Result<Vec<_>>>()
    })?;
    let mut done = 0;
    for stream in open {
        talk(stream)?;
        done += 1;
    }
    Ok(done.to_string())
}

/// A connect to a listener that accepts nobody waits, and another one does not wait for it.
fn beside_a_full_one(full: &str, path: &str) -> io::Result<String> {
    let held: Vec<UnixStream> = fill(full)?;
    // Waits until the end of this process.
    let full = full.to_owned();
    std::thread::spawn(move || UnixStream::connect(full));
    std::thread::sleep(Duration::from_millis(20));
    let said = talk(UnixStream::connect(path)?)?;
    drop(held);
    Ok(said)
}

/// More connects that wait than are waited for: the rest is told to try again, and a listener with
/// room is still reached.
fn beside_many_waiting(full: &str, path: &str) -> io::Result<String> {
    let _held = fill(full)?;
    let told = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    for _ in 0..100 {
        let (full, told) = (full.to_owned(), std::sync::Arc::clone(&told));
        // Waits until the end of this process, or is told.
        std::thread::spawn(move || {
            let error = UnixStream::connect(full).err();
            if error.is_some_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                told.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    while told.load(Ordering::Relaxed) < 36 {
        std::thread::sleep(Duration::from_millis(2));
    }
    talk(UnixStream::connect(path)?)
}

/// Connects until the next one would wait.
fn fill(path: &str) -> io::Result<Vec<UnixStream>> {
    let mut held = Vec::new();
    loop {
        let fd = make(AddressFamily::Unix, SockType::Stream, true)?;
        match connect(fd.as_raw_fd(), &UnixAddr::new(path)?) {
            Ok(()) => held.push(UnixStream::from(fd)),
            Err(nix::Error::EAGAIN) => return Ok(held),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// A signal handler of this thread ends a connect that waits.
fn interrupted(full: &str) -> io::Result<String> {
    let _held = fill(full)?;
    raw::on_alarm(false);
    raw::alarm_every(Duration::from_millis(30));
    let fd = make(AddressFamily::Unix, SockType::Stream, false)?;
    let result = connect(fd.as_raw_fd(), &UnixAddr::new(full)?);
    raw::alarm_every(Duration::ZERO);
    Ok(format!("{result:?}"))
}

/// Signals whose handler lets calls go on are not seen by anybody.
fn often_interrupted(path: &str, rounds: u32) -> io::Result<String> {
    raw::on_alarm(true);
    raw::alarm_every(Duration::from_micros(70));
    for round in 0..rounds {
        let fd = make(AddressFamily::Unix, SockType::Stream, round % 2 == 0)?;
        loop {
            match connect(fd.as_raw_fd(), &UnixAddr::new(path)?) {
                Ok(()) => break,
                // The listener is slower than this loop.
                Err(nix::Error::EAGAIN) => std::thread::yield_now(),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
    raw::alarm_every(Duration::ZERO);
    Ok(String::new())
}

/// Two names of one length, exchanged byte by byte under the kernel's and the connector's eyes.
fn swap_address(named: &str, other: &str, rounds: u32) -> io::Result<String> {
    let (named, other) = (local(named.as_bytes()), local(other.as_bytes()));
    let memory: Vec<AtomicU8> = named.iter().map(|byte| AtomicU8::new(*byte)).collect();
    let stop = AtomicBool::new(false);
    let mut counts = [0u32; 3];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for bytes in [&other, &named] {
                    for (slot, byte) in memory.iter().zip(bytes) {
                        slot.store(*byte, Ordering::Relaxed);
                    }
                }
            }
        });
        let result = (0..rounds).try_for_each(|round| -> io::Result<()> {
            let fd = make(AddressFamily::Unix, SockType::Stream, round % 2 == 0)?;
            let pointer = memory.as_ptr() as u64;
            let at = [fd.as_raw_fd() as u64, pointer, memory.len() as u64, 0, 0, 0];
            match raw::call(libc::SYS_connect, at, &mut []) {
                Ok(_) => counts[0] += 1,
                Err(libc::EACCES) => counts[1] += 1,
                Err(_) => counts[2] += 1,
            }
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        result
    })?;
    if counts[0] == 0 || counts[1] == 0 {
        return Err(io::Error::other(format!(
            "nothing was exchanged: {counts:?}"
        )));
    }
    Ok(String::new())
}

/// One number that means an internet socket and a local one in turns, with an address that only
/// the former may have, and one that neither may.
fn swap_socket(named: &str, other: &str, port: u16, rounds: u32) -> io::Result<String> {
    let mut internet = (libc::AF_INET as u16).to_ne_bytes().to_vec();
    internet.extend_from_slice(&port.to_be_bytes());
    internet.extend_from_slice(&[127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut addresses = [local(other.as_bytes()), internet, local(named.as_bytes())];
    let stop = AtomicBool::new(false);
    let fixed = make(AddressFamily::Unix, SockType::Stream, true)?;
    let number = fixed.as_raw_fd() as u64;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let kinds = [AddressFamily::Inet, AddressFamily::Unix];
            while !stop.load(Ordering::Relaxed) {
                for family in kinds {
                    if let Ok(fresh) = make(family, SockType::Stream, true) {
                        let from = fresh.as_raw_fd() as u64;
                        let _ = plain(libc::SYS_dup3, [from, number, 0, 0, 0, 0]);
                    }
                }
            }
        });
        for round in 0..rounds {
            let bytes = &mut addresses[round as usize % 3];
            let at = [number, raw::DATA, bytes.len() as u64, 0, 0, 0];
            let _ = raw::call(libc::SYS_connect, at, bytes);
        }
        stop.store(true, Ordering::Relaxed);
    });
    Ok(String::new())
}

/// Sockets that wait and do not wait in turns: a connect that was looked at as one that returns at
/// once may then wait for ever.
fn stall(full: &str) -> io::Result<String> {
    let _held = fill(full)?;
    std::thread::scope(|scope| {
        for _ in 0..30 {
            let fd = make(AddressFamily::Unix, SockType::Stream, true)?;
            let number = fd.as_raw_fd();
            scope.spawn(move || {
                loop {
                    for flags in [0, libc::O_NONBLOCK] {
                        let set = [number as u64, libc::F_SETFL as u64, flags as u64, 0, 0, 0];
                        let _ = plain(libc::SYS_fcntl, set);
                    }
                }
            });
            scope.spawn(move || {
                loop {
                    let _ = connect(fd.as_raw_fd(), &UnixAddr::new(full)?);
                }
                #[expect(unreachable_code, reason = "names the type of the loop's errors")]
                io::Result::Ok(())
            });
        }
        Ok(String::new())
    })
}
