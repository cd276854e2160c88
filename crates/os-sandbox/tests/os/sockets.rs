//! Named sockets: daemons of the host, played by threads here, some of them named and some not.
//! What was reached is what the daemons saw, not what the target says.

use crate::fixture::{Mechanism, World, open, said};
use crate::report::Report;
use nix::libc::{
    self, EACCES, EBADF, ECONNREFUSED, EFAULT, EINVAL, EISCONN, ENETUNREACH, ENOENT, ENOTSOCK,
};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, bind, listen,
    sendmsg, socket,
};
use os_sandbox::{
    Command, Network, Plan, PolicyBuilder, Promise, Requirement, Sandbox, Support, UnixSockets,
};
use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A file that may be read, since a descriptor is opened by name once more to read it.
const HANDED: &str = "/usr/lib/os-release";

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
                let secret = std::fs::File::open(HANDED).expect("a file");
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

    fn plan(&self, network: Network) -> Sandbox {
        let policy = self.policy().network(network).build().expect("a policy");
        self.world.mechanism.plan(&policy)
    }

    /// `{d}` is the directory of the daemons.
    fn probe(&self, plan: &Sandbox, op: &str) -> String {
        let dir = self.world.host("daemons").display().to_string();
        let words: Vec<String> = op
            .split_whitespace()
            .map(|word| word.replace("{d}", &dir))
            .collect();
        self.world.probe(plan, &words)
    }
}

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    if !mechanism.names_sockets() {
        report.skip("sockets", "they cannot be connected from outside here");
        return;
    }
    let host = Host::new(mechanism);
    let plan = host.plan(Network::Denied);
    let check = |report: &mut Report, plan: &Sandbox, name: &str, op: &str, want: &str| {
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
            "beside many that wait",
            "very-full {d}/f {d}/a".into(),
            "ok pong".into(),
        ),
        (
            "its own wait",
            "keeps-its-wait {d}/a {d}/f".into(),
            "ok Err(EAGAIN) true".into(),
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
        // On a loopback of its own nobody listens.
        (
            "TCP",
            "tcp 1".into(),
            errno(match mechanism.has_mount_layer() {
                true => ECONNREFUSED,
                false => ENETUNREACH,
            }),
        ),
        ("descriptors", "fds".into(), "ok 0 1 2".into()),
    ];
    for (name, op, want) in rows {
        check(report, &plan, name, &op, &want);
    }
    let handed = std::fs::read_to_string(HANDED).expect("a file");
    check(
        report,
        &plan,
        "a file from a daemon",
        "receive-file {d}/a",
        &format!("ok {}", handed.trim()),
    );
    internet(&host, report, &check);
    python(&host, &plan, report);
    ssh_agent(&host, report);
    streams(&host, report);
    held_up(&host, &plan, report);
    closed_without(&host, report);
    names(&host, report);
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

type Check<'a> = dyn Fn(&mut Report, &Sandbox, &str, &str, &str) + 'a;

/// The connector makes these connects as well.
fn internet(host: &Host, report: &mut Report, check: &Check<'_>) {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = tcp.local_addr().expect("an address").port();
    // The port of a client: no other program listens there meanwhile.
    let client = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let closed = client.local_addr().expect("an address").port();
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

fn python(host: &Host, plan: &Sandbox, report: &mut Report) {
    let name = "sockets: python";
    if !std::path::Path::new("/usr/bin/python3").exists() {
        report.not_posed(name, "no /usr/bin/python3");
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

/// Sockets that the caller has, as streams of a command that may make none.
fn streams(host: &Host, report: &mut Report) {
    let make =
        |kind| socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
    let (one, other) = UnixStream::pair().expect("a pair");
    let (gone, _) = UnixStream::pair().expect("a pair");
    let (datagrams, _kept) = std::os::unix::net::UnixDatagram::pair().expect("a pair");
    let listener = listening(&host.world.host("listener"), SockType::Stream, 1);
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let tcp = std::net::TcpStream::connect(tcp.local_addr().expect("an address"));
    let plan = host.world.plan();
    for (name, stream, fine) in [
        ("connected", OwnedFd::from(one), true),
        ("connected once", gone.into(), true),
        ("TCP", tcp.expect("a stream").into(), true),
        ("fresh", make(SockType::Stream), false),
        ("listening", listener, false),
        ("datagrams", make(SockType::Datagram), false),
        ("connected datagrams", datagrams.into(), false),
    ] {
        let output = Command::new(&plan, "true").stdin(stream).output();
        let seen = match output {
            Ok(output) => output.exit.success(),
            Err(error) if error.to_string().contains("local socket") => false,
            Err(error) => {
                report.case(
                    &format!("sockets: as a stream: {name}"),
                    Err(error.to_string()),
                );
                continue;
            }
        };
        report.case(
            &format!("sockets: as a stream: {name}"),
            match seen == fine {
                true => Ok(()),
                false => Err(format!("started: {seen}")),
            },
        );
    }
    drop(other);
}

/// The agent is the daemon that people name first.
fn ssh_agent(host: &Host, report: &mut Report) {
    let name = "sockets: ssh-agent";
    let path = host.world.host("daemons").join("agent");
    let agent = std::process::Command::new("ssh-agent")
        .arg("-D")
        .arg("-a")
        .arg(&path)
        .stdout(std::process::Stdio::null())
        .spawn();
    let (Ok(mut agent), true) = (agent, std::path::Path::new("/usr/bin/ssh-add").exists()) else {
        report.not_posed(name, "no ssh-agent or no ssh-add");
        return;
    };
    while !path.exists() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let policy = host.policy().unix_socket(&path).build().expect("a policy");
    let output = Command::new(&host.world.mechanism.plan(&policy), "ssh-add")
        .arg("-l")
        .env("SSH_AUTH_SOCK", &path)
        .output();
    agent.kill().expect("a kill");
    agent.wait().expect("an end");
    report.case(
        name,
        match output {
            Ok(output) if output.stdout.text().contains("no identities") => Ok(()),
            other => Err(format!("{other:?}")),
        },
    );
}

/// A target that does its best to keep its connector waiting does not keep its caller waiting.
fn held_up(host: &Host, plan: &Sandbox, report: &mut Report) {
    let full = host.world.host("daemons").join("f");
    let output = Command::new(plan, "/probe")
        .args(["--probe", "stall"])
        .arg(full)
        .timeout(std::time::Duration::from_secs(2))
        .output();
    report.case(
        "sockets: a connector that is held up",
        match output {
            Ok(output) if output.exit == os_sandbox::Exit::TimedOut => Ok(()),
            other => Err(format!("{other:?}")),
        },
    );
}

/// A host where nobody can connect for the command: refused, and by best effort closed.
fn closed_without(host: &Host, report: &mut Report) {
    let support = Support::detect().without_named_sockets();
    let policy = host.policy().build().expect("a policy");
    let backend = host.world.mechanism.backend();
    let support = match host.world.mechanism.is_alone() {
        true => support.with_landlock_at_most(0),
        false => support,
    };
    let plan = |requirement| Plan::with_mechanism(&policy, &support, requirement, backend);
    let refused = plan(Requirement::Enforce).err();
    let refused = refused.is_some_and(|error| {
        let mut gaps = error.gaps().iter();
        gaps.any(|gap| gap.promise == Promise::UnixSockets)
    });
    let said = host.probe(
        &open(plan(Requirement::BestEffort).expect("a plan")),
        "talk {d}/a",
    );
    report.case(
        "sockets: without a connector",
        match (refused, said == format!("errno {EACCES}")) {
            (true, true) => Ok(()),
            _ => Err(format!("refused {refused}, {said}")),
        },
    );
}

/// What a path stands for is found out at the start, and not where the command could lay links.
fn names(host: &Host, report: &mut Report) {
    let dir = host.world.host("daemons");
    let link = host.world.host("link");
    std::os::unix::fs::symlink(&dir, &link).expect("a link");
    let planted = host.world.host("rw").join("planted");
    std::os::unix::fs::symlink(&dir, &planted).expect("a link");
    let around = host.world.host("around");
    std::os::unix::fs::symlink(host.world.host("rw"), &around).expect("a link");
    let later = dir.join("later");
    let mechanism = host.world.mechanism;
    let run = |path: &std::path::Path| {
        let policy = host.world.policy().unix_socket(path).build();
        let plan = mechanism.plan(&policy.map_err(|error| error.to_string())?);
        let words = ["talk".to_owned(), path.display().to_string()];
        match host.world.probe(&plan, &words) {
            said if said == "ok pong" => Ok(()),
            said => Err(said),
        }
    };
    let refused = |result: Result<(), String>| match result {
        Err(said) if said.contains("may write") => Ok(()),
        other => Err(format!("{other:?}")),
    };
    report.case("sockets: by way of a link", run(&link.join("a")));
    report.case(
        "sockets: below a writable mount",
        refused(run(&planted.join("a"))),
    );
    report.case(
        "sockets: by way of a writable mount",
        refused(run(&around.join("planted/a"))),
    );
    let gone = run(&host.world.host("nowhere").join("a"));
    report.case(
        "sockets: in a directory that is not there",
        match gone {
            Err(said) if said.contains("directory of the socket") => Ok(()),
            other => Err(format!("{other:?}")),
        },
    );
    // A link in the place of the socket itself, put there after the start.
    let policy = host
        .world
        .policy()
        .unix_socket(&later)
        .build()
        .expect("a policy");
    let plan = mechanism.plan(&policy);
    let go = host.world.host("rw").join("go");
    let child = Command::new(&plan, "/probe")
        .args(["--probe", "talk-after"])
        .arg(format!("{}/go", host.world.inside("rw")))
        .arg(&later)
        .spawn();
    std::os::unix::fs::symlink(dir.join("b"), &later).expect("a link");
    std::fs::write(&go, "").expect("a file");
    let said = said(child.and_then(os_sandbox::Child::wait_with_output));
    report.case(
        "sockets: a link that came later",
        match said == format!("errno {EACCES}") {
            true => Ok(()),
            false => Err(said),
        },
    );
}
