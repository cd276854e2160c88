//! Named sockets: daemons of the host, played by threads here, some of them named and some not.
//! What was reached is what the daemons saw, not what the target says.

use crate::fixture::{Mechanism, World, said};
use crate::report::Report;
use nix::libc::{
    self, EACCES, EBADF, ECONNREFUSED, EFAULT, EINVAL, EISCONN, ENETUNREACH, ENOENT, ENOTSOCK,
};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, bind, listen,
    sendmsg, socket,
};
use os_sandbox::{Command, Network, Plan, PolicyBuilder, UnixSockets};
use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rounds of a race.
const ROUNDS: u32 = 4000;

/// A daemon that answers, and counts whom it answered.
struct Daemon {
    path: PathBuf,
    seen: Arc<AtomicUsize>,
}

impl Daemon {
    fn start(path: PathBuf, kind: SockType) -> Daemon {
        let listener = UnixListener::from(listening(&path, kind, 4096));
        let seen = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&seen);
        // Ends with the test program.
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || serve(stream));
            }
        });
        Daemon { path, seen }
    }

    fn seen(&self) -> usize {
        self.seen.load(Ordering::Relaxed)
    }
}

fn serve(mut stream: UnixStream) {
    let mut request = [0u8; 4];
    while stream.read_exact(&mut request).is_ok() {
        let sent = match &request {
            b"ping" => stream.write_all(b"pong").is_ok(),
            _ => {
                let secret = std::fs::File::open("/etc/hostname").expect("a file");
                let fds = [secret.as_raw_fd()];
                let rights = [ControlMessage::ScmRights(&fds)];
                let one = [IoSlice::new(b"x")];
                sendmsg::<()>(stream.as_raw_fd(), &one, &rights, MsgFlags::empty(), None).is_ok()
            }
        };
        if !sent {
            return;
        }
    }
}

fn listening(path: &std::path::Path, kind: SockType, backlog: i32) -> OwnedFd {
    let fd = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
    bind(fd.as_raw_fd(), &UnixAddr::new(path).expect("a name")).expect("a name");
    listen(&fd, Backlog::new(backlog).expect("a backlog")).expect("a listener");
    fd
}

/// Three daemons in a directory outside of the mounts: `a` and `m` (messages) are named, and so
/// are `f`, which accepts nobody, and `g`, which is gone; `b` is not.
struct Host {
    world: World,
    a: Daemon,
    b: Daemon,
    _m: Daemon,
    _full: OwnedFd,
}

impl Host {
    fn new(mechanism: Mechanism) -> Host {
        let world = World::new(mechanism);
        let dir = world.host("daemons");
        std::fs::create_dir(&dir).expect("a directory");
        Host {
            a: Daemon::start(dir.join("a"), SockType::Stream),
            b: Daemon::start(dir.join("b"), SockType::Stream),
            _m: Daemon::start(dir.join("m"), SockType::SeqPacket),
            _full: listening(&dir.join("f"), SockType::Stream, 1),
            world,
        }
    }

    fn policy(&self) -> PolicyBuilder {
        let dir = self.world.host("daemons");
        ["a", "m", "f", "g"]
            .iter()
            .fold(self.world.policy(), |policy, name| {
                policy.unix_socket(dir.join(name))
            })
    }

    fn plan(&self, network: Network) -> Plan {
        let policy = self.policy().network(network).build().expect("a policy");
        self.world.mechanism.plan(&policy)
    }

    /// `{d}` is the directory of the daemons.
    fn probe(&self, plan: &Plan, op: &str) -> String {
        let dir = self.world.host("daemons").display().to_string();
        let words: Vec<String> = op
            .split_whitespace()
            .map(|word| word.replace("{d}", &dir))
            .collect();
        self.world.probe(plan, &words)
    }
}

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    let host = Host::new(mechanism);
    let plan = host.plan(Network::Denied);
    let check = |report: &mut Report, plan: &Plan, name: &str, op: &str, want: &str| {
        let said = host.probe(plan, op);
        let outcome = match said == want {
            true => Ok(()),
            false => Err(format!("{op}: {said} instead of {want}")),
        };
        report.case(&format!("sockets: {name}"), outcome);
    };
    let errno = |number: i32| format!("errno {number}");
    let name = format!("os-sandbox-named-{}", std::process::id());
    let abstract_name = SocketAddr::from_abstract_name(&name).expect("a name");
    let _abstract = UnixListener::bind_addr(&abstract_name).expect("a listener");
    let rows: Vec<(&str, String, String)> = vec![
        ("a named one", "talk {d}/a".into(), "ok pong".into()),
        ("messages", "talk-messages {d}/m".into(), "ok pong".into()),
        (
            "without waiting",
            "talk-without-waiting {d}/a".into(),
            "ok pong".into(),
        ),
        (
            "junk behind the name",
            "talk-junk {d}/a".into(),
            "ok pong".into(),
        ),
        ("many at once", "many {d}/a 200".into(), "ok 200".into()),
        (
            "descriptors of its own",
            "talk-own-descriptors {d}/a".into(),
            errno(libc::ENOTCONN),
        ),
        ("connected already", "twice {d}/a".into(), errno(EISCONN)),
        ("one that is not named", "talk {d}/b".into(), errno(EACCES)),
        ("one that is gone", "talk {d}/g".into(), errno(ENOENT)),
        ("an abstract one", format!("abstract {name}"), errno(EACCES)),
        ("a way round", "talk {d}/../daemons/a".into(), errno(EACCES)),
        ("a doubled slash", "talk {d}//a".into(), errno(EACCES)),
        ("a slash at the end", "talk {d}/a/".into(), errno(EACCES)),
        ("more behind the name", "talk {d}/ab".into(), errno(EACCES)),
        ("a relative name", "talk a".into(), errno(EACCES)),
        ("datagrams", "kind 2 {d}/a".into(), errno(EACCES)),
        ("raw", "kind 3 {d}/a".into(), errno(EACCES)),
        (
            "a number that is not open",
            "odd 999 data 110".into(),
            errno(EBADF),
        ),
        ("a file", "odd file data 110".into(), errno(ENOTSOCK)),
        ("no memory", "odd fd 8 110".into(), errno(EFAULT)),
        ("too long", "odd fd data 129".into(), errno(EINVAL)),
        ("far too long", "odd fd data -1".into(), errno(EINVAL)),
        ("an empty address", "odd fd data 0".into(), errno(EACCES)),
        ("a family of zero", "odd fd data 110".into(), errno(EACCES)),
        (
            "its own",
            "own-listener {rw}/own".into(),
            format!("ok listens, errno {EACCES}"),
        ),
        (
            "beside a full one",
            "full {d}/f {d}/a".into(),
            "ok pong".into(),
        ),
        (
            "interrupted",
            "interrupted {d}/f".into(),
            "ok Err(EINTR)".into(),
        ),
        (
            "often interrupted",
            format!("often-interrupted {{d}}/a {ROUNDS}"),
            "ok".into(),
        ),
        (
            "an address that changes",
            format!("swap-address {{d}}/a {{d}}/b {ROUNDS}"),
            "ok".into(),
        ),
        ("TCP", "tcp 1".into(), errno(ENETUNREACH)),
        ("descriptors", "fds".into(), "ok 0 1 2".into()),
    ];
    for (name, op, want) in rows {
        check(report, &plan, name, &op, &want);
    }
    let hostname = std::fs::read_to_string("/etc/hostname").expect("a file");
    check(
        report,
        &plan,
        "a file from a daemon",
        "receive-file {d}/a",
        &format!("ok {}", hostname.trim()),
    );
    internet(&host, report, &check);
    python(&host, &plan, report);
    // Told, not judged: the cost of one connect.
    let open = host.world.policy().unix_sockets(UnixSockets::Open).build();
    let open = host.world.mechanism.plan(&open.expect("a policy"));
    for (what, waits) in [("that may wait", "yes"), ("that does not wait", "no")] {
        let op = format!("time {{d}}/a 300 {waits}");
        let direct = match host.world.mechanism.has_mount_layer() {
            true => "-".to_owned(),
            false => host.probe(&open, &op),
        };
        println!(
            "  {}: microseconds for a connect {what}: {}, direct {direct}",
            mechanism.name(),
            host.probe(&plan, &op),
        );
    }
    report.case(
        "sockets: nobody else was reached",
        match host.b.seen() {
            0 => Ok(()),
            seen => Err(format!("{seen} connects")),
        },
    );
    report.case(
        "sockets: the named one was reached",
        match host.a.seen() {
            0 => Err("never".to_owned()),
            _ => Ok(()),
        },
    );
}

type Check<'a> = dyn Fn(&mut Report, &Plan, &str, &str, &str) + 'a;

/// The connector makes these connects as well.
fn internet(host: &Host, report: &mut Report, check: &Check<'_>) {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = tcp.local_addr().expect("an address").port();
    let closed = {
        let gone = TcpListener::bind("127.0.0.1:0").expect("a listener");
        gone.local_addr().expect("an address").port()
    };
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let udp_port = udp.local_addr().expect("an address").port();
    let plan = host.plan(Network::Unrestricted);
    for (name, op, want) in [
        ("TCP", format!("tcp {port}"), "ok".to_owned()),
        (
            "TCP without waiting",
            format!("tcp-timeout {port}"),
            "ok".to_owned(),
        ),
        (
            "TCP to nobody",
            format!("tcp {closed}"),
            format!("errno {ECONNREFUSED}"),
        ),
        ("UDP", format!("udp-connect {udp_port}"), "ok".to_owned()),
        ("a named one", "talk {d}/a".to_owned(), "ok pong".to_owned()),
        (
            "another one",
            "talk {d}/b".to_owned(),
            format!("errno {EACCES}"),
        ),
        (
            "a socket that changes",
            format!("swap-socket {{d}}/a {{d}}/b {port} {ROUNDS}"),
            "ok".to_owned(),
        ),
    ] {
        check(
            report,
            &plan,
            &format!("with a network: {name}"),
            &op,
            &want,
        );
    }
    if host.world.mechanism.has_mount_layer() {
        let plan = host.plan(Network::Loopback);
        check(report, &plan, "with a loopback: TCP", "tcp-many 50", "ok");
        let refused = format!("errno {ECONNREFUSED}");
        check(
            report,
            &plan,
            "with a loopback: the host's",
            &format!("tcp {port}"),
            &refused,
        );
    }
}

fn python(host: &Host, plan: &Plan, report: &mut Report) {
    let name = "sockets: python";
    if !std::path::Path::new("/usr/bin/python3").exists() {
        report.skip(name, "no /usr/bin/python3");
        return;
    }
    let script = "import socket, sys\n\
        s = socket.socket(socket.AF_UNIX)\n\
        s.connect(sys.argv[1])\n\
        s.sendall(b'ping')\n\
        print('ok', s.recv(4).decode())\n";
    let output = Command::new(plan, "/usr/bin/python3")
        .args(["-c", script])
        .arg(&host.a.path)
        .output();
    report.case(
        name,
        match said(output) {
            text if text == "ok pong" => Ok(()),
            text => Err(text),
        },
    );
}
