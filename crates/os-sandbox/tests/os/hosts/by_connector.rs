//! Named hosts without a network namespace: the connector connects a command to its proxy, and to
//! nothing else. Each case is a few lines of Python, and the end of their output.

use super::{Answering, Done, receipt_hosts, served};
use crate::fixture::{World, said};
use crate::outcome::{ensure, expect, say};
use crate::report::Report;
use os_sandbox::{Command, DenialReason, NamedHosts, Network, Promise, PromiseState, Sandbox};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

/// `proxy`: its port; `other`: the port of another program that listens on the host's loopback.
const PRELUDE: &str = r#"
import ctypes, os, socket, struct, sys, threading
from socket import *
libc = ctypes.CDLL(None, use_errno=True)
proxy = int(os.environ["http_proxy"].rsplit(":", 1)[1])
other = int(sys.argv[1])
LOCAL = "127.0.0.1"
FAST = 0x20000000
def v4(address, port): return struct.pack("=H", AF_INET) + struct.pack("!H", port) + inet_aton(address) + bytes(8)
def v6(address, port): return struct.pack("=H", AF_INET6) + struct.pack("!HI", port, 0) + inet_pton(AF_INET6, address) + bytes(4)
def raw(s, name, length=None):
    done = libc.connect(s.fileno(), bytes(name), len(name) if length is None else length)
    return 0 if done == 0 else ctypes.get_errno()
def errno(f, *args):
    try: f(*args)
    except OSError as e: return e.errno
    return 0
def talk(s):
    s.setblocking(True); s.sendall(b"abcd"); return s.makefile().readline().strip()
tcp = lambda family=AF_INET: socket(family, SOCK_STREAM)
"#;

/// EISCONN, ENETUNREACH, EAFNOSUPPORT, EACCES, EINVAL and the like are numbers as Linux has them.
const CASES: [(&str, &str, &str); 33] = [
    (
        "the proxy",
        "s = tcp(); s.connect((LOCAL, proxy)); print(talk(s))",
        "abcd at 127.0.0.1:{proxy}",
    ),
    (
        "the proxy, without waiting",
        "import select\n\
         s = tcp(); s.setblocking(False); e = s.connect_ex((LOCAL, proxy)); select.select([], [s], [])\n\
         print(e in (0, 115), s.getsockopt(SOL_SOCKET, SO_ERROR), talk(s))",
        "True 0 abcd at 127.0.0.1:{proxy}",
    ),
    (
        "the proxy, with a time limit",
        "s = create_connection((LOCAL, proxy), 300); print(talk(s))",
        "abcd at 127.0.0.1:{proxy}",
    ),
    (
        "the proxy from an IPv6 socket",
        "s = tcp(AF_INET6); s.connect(('::ffff:127.0.0.1', proxy)); print(talk(s))",
        "abcd at 127.0.0.1:{proxy}",
    ),
    (
        "the proxy by a child",
        "s = tcp()\n\
         if os.fork() == 0: s.connect((LOCAL, proxy)); os._exit(0)\n\
         os.wait(); print(talk(s))",
        "abcd at 127.0.0.1:{proxy}",
    ),
    (
        "the proxy by a copied descriptor",
        "s = tcp(); c = s.dup(); e = errno(c.connect, (LOCAL, other)); c.connect((LOCAL, proxy)); print(e, talk(s))",
        "101 abcd at 127.0.0.1:{proxy}",
    ),
    (
        "a connected socket again",
        "s = tcp(); s.connect((LOCAL, proxy)); print(raw(s, v4(LOCAL, proxy)), raw(s, v4(LOCAL, other)), talk(s))",
        "106 101 abcd at 127.0.0.1:{proxy}",
    ),
    (
        "AF_UNSPEC, then another address",
        "s = tcp(); s.connect((LOCAL, proxy)); print(raw(s, bytes(16)), raw(s, v4(LOCAL, other)))",
        "97 101",
    ),
    (
        "after a refused connect",
        "s = tcp(); e = errno(s.connect, (LOCAL, other)); s.connect((LOCAL, proxy)); print(e, talk(s))",
        "101 abcd at 127.0.0.1:{proxy}",
    ),
    (
        "another port of the loopback",
        "print(errno(tcp().connect, (LOCAL, other)))",
        "101",
    ),
    (
        "the proxy's port at 0.0.0.0",
        "print(errno(tcp().connect, ('0.0.0.0', proxy)))",
        "101",
    ),
    (
        "the proxy's port at other spellings",
        "print([errno(tcp(f).connect, (a, proxy)) for f, a in [(AF_INET, '127.0.0.2'), (AF_INET6, '::1'), (AF_INET6, '::'), (AF_INET6, '::ffff:0.0.0.0'), (AF_INET6, '::127.0.0.1')]])",
        "[101, 101, 101, 101, 101]",
    ),
    (
        "another host",
        "print(errno(tcp().connect, ('203.0.113.9', 443)), errno(tcp(AF_INET6).connect, ('2001:db8::9', 443)))",
        "101 101",
    ),
    (
        "an address of another family",
        "print(raw(tcp(), v6('::ffff:127.0.0.1', proxy)), raw(tcp(AF_INET6), v4(LOCAL, proxy)))",
        "97 97",
    ),
    (
        "lengths that the kernel does not take",
        "print([raw(tcp(), v4(LOCAL, proxy), n) for n in (0, 1, 8, 15, 129, 2**31)])",
        "[97, 97, 97, 97, 22, 22]",
    ),
    (
        "a pointer that leads nowhere",
        "s = tcp(); print(libc.connect(s.fileno(), ctypes.c_void_p(1), 16), ctypes.get_errno())",
        "-1 14",
    ),
    (
        "fast open by sendto",
        "print([errno(tcp().sendto, b'x', FAST, (LOCAL, p)) for p in (proxy, other)])",
        "[95, 95]",
    ),
    (
        "fast open by sendmsg",
        "print([errno(tcp().sendmsg, [b'x'], [], FAST | MSG_NOSIGNAL, (LOCAL, p)) for p in (proxy, other)])",
        "[95, 95]",
    ),
    (
        "fast open by sendmmsg",
        "libc.sendmmsg.restype = ctypes.c_int; print(libc.sendmmsg(tcp().fileno(), bytes(64), 1, FAST), ctypes.get_errno())",
        "-1 95",
    ),
    (
        "fast open by an option",
        "print(errno(tcp().setsockopt, IPPROTO_TCP, 30, 1))",
        "92",
    ),
    (
        "an address without the flag",
        "print(errno(tcp().sendto, b'x', MSG_NOSIGNAL, (LOCAL, other)))",
        "32",
    ),
    (
        "a source route",
        "print(errno(tcp().setsockopt, IPPROTO_IP, 4, bytes([131, 11, 4]) + inet_aton('203.0.113.9') + inet_aton(LOCAL) + b'\\0'))",
        "92",
    ),
    (
        "a routing header",
        "print(errno(tcp(AF_INET6).setsockopt, IPPROTO_IPV6, 57, bytes(24)))",
        "92",
    ),
    (
        "a device",
        "print(errno(tcp().setsockopt, SOL_SOCKET, SO_BINDTODEVICE, b'lo'))",
        "92",
    ),
    (
        "options that lead nowhere",
        "s = tcp(); s.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1); s.setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1); s.setsockopt(IPPROTO_IP, IP_TOS, 8); t = tcp(AF_INET6); t.setsockopt(IPPROTO_IPV6, IPV6_V6ONLY, 0); print('set')",
        "set",
    ),
    (
        "other sockets",
        "print([errno(lambda: socket(*k)) for k in [(AF_INET, SOCK_DGRAM), (AF_INET6, SOCK_DGRAM), (AF_INET, SOCK_RAW, 1), (AF_INET, SOCK_STREAM, 262), (AF_INET, SOCK_STREAM, 132), (AF_INET, SOCK_SEQPACKET), (AF_INET, SOCK_DGRAM, 1)]])",
        "[101, 101, 101, 101, 101, 101, 101]",
    ),
    (
        "packets, virtual machines and SMC",
        "print([errno(lambda: socket(*k)) for k in [(17, SOCK_RAW), (40, SOCK_STREAM), (43, SOCK_STREAM)]])",
        "[97, 97, 97]",
    ),
    (
        "listening, bound or not",
        "s = tcp(); e = errno(s.listen, 1); print(e, errno(tcp().bind, ('', 0)), errno(tcp().bind, (LOCAL, 8080)), errno(tcp(AF_INET6).bind, ('::', 0)))",
        "13 13 13 13",
    ),
    (
        "io_uring",
        "print(libc.syscall(425, 8, bytes(120)), ctypes.get_errno())",
        "-1 38",
    ),
    (
        "a name",
        "try: print(getaddrinfo('one.test', 443))\n\
         except gaierror: print('not known')",
        "not known",
    ),
    (
        "an address that is exchanged meanwhile",
        "name = ctypes.create_string_buffer(v4(LOCAL, proxy), 16); done = False\n\
         def swap():\n    \
             while not done: name[2:4] = struct.pack('!H', other); name[2:4] = struct.pack('!H', proxy)\n\
         sys.setswitchinterval(1e-6); thread = threading.Thread(target=swap); thread.start()\n\
         ports = set()\n\
         for n in range(20000):\n    \
             s = tcp(); e = 0 if libc.connect(s.fileno(), name, 16) == 0 else ctypes.get_errno()\n    \
             ports.add((e, s.getpeername()[1] == proxy if e == 0 else None)); s.close()\n    \
             if n > 400 and (0, True) in ports: break\n\
         done = True; thread.join(); print(ports <= {(0, True), (101, None)}, (0, True) in ports)",
        "True True",
    ),
    (
        "a socket that is exchanged meanwhile",
        "a, b = tcp(), tcp(); number = os.dup(a.fileno()); done = False\n\
         def swap():\n    \
             while not done: os.dup2(b.fileno(), number); os.dup2(a.fileno(), number)\n\
         thread = threading.Thread(target=swap); thread.start()\n\
         found = {libc.connect(number, v4(LOCAL, p), 16) and ctypes.get_errno() for _ in range(200) for p in (other, proxy)}\n\
         done = True; thread.join()\n\
         peers = {s.getpeername()[1] for s in (a, b) if errno(s.getpeername) == 0}\n\
         print(found <= {0, 101, 106}, peers == {proxy})",
        "True True",
    ),
    (
        "many at once",
        "from concurrent.futures import ThreadPoolExecutor as Pool\n\
         def one(_):\n    \
             s = tcp(); s.connect((LOCAL, proxy)); return talk(s)[:7]\n\
         with Pool(40) as pool: print(set(pool.map(one, range(200))))",
        "{'abcd at'}",
    ),
];

pub(super) fn all(world: &World, report: &mut Report) {
    report.case("hosts: the plan", planned(world));
    report.case("hosts: no proxy", super::no_proxy(world));
    for (name, script, end) in CASES {
        report.case(&format!("hosts: {name}"), case(world, script, end));
    }
    report.case("hosts: the variables", variables(world));
    report.case("hosts: a password each", passwords(world));
    report.case("hosts: another command's proxy", proxy_of_another(world));
    report.case("hosts: a service of the loopback", named_service(world));
    report.case("hosts: the receipt", receipt(world));
    report.case("hosts: a denial", denial(world));
    report.case("hosts: the end", end(world));
    report.case("hosts: local sockets beside", local_sockets(world));
}

fn planned(world: &World) -> Done {
    let sandbox = super::sandbox(world);
    let entries = sandbox.plan().entries();
    let entry = entries
        .iter()
        .find(|entry| entry.promise == Promise::Network)
        .ok_or("no promise about the network")?;
    expect(entry.state, PromiseState::Enforced)?;
    let reason = entry.reason.clone().unwrap_or_default();
    let told = "but *.test, without ads.test; a program reaches them by the proxy variables";
    ensure(reason.starts_with(told), || reason.clone())?;
    ensure(sandbox.plan().needs_proxy_variables(), || {
        "other ways".into()
    })
}

/// Runs Python, and checks that no other program was reached.
fn case(world: &World, script: &str, end: &str) -> Done {
    let (sandbox, proxy) = served(world);
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(say)?;
    other.set_nonblocking(true).map_err(say)?;
    let port = other.local_addr().map_err(say)?.port();
    let told = python(&sandbox, script, port);
    let arrived = proxy.arrived.lock().map_err(say)?.first().cloned();
    let own = arrived.unwrap_or_default();
    let end = end.replace("127.0.0.1:{proxy}", &own);
    ensure(told.ends_with(&end), || format!("expected {end:?}: {told}"))?;
    ensure(other.accept().is_err(), || {
        "it reached another program".into()
    })
}

fn python(sandbox: &Sandbox, script: &str, other: u16) -> String {
    let script = format!("{PRELUDE}{script}");
    let port = other.to_string();
    said(
        Command::new(sandbox, "python3")
            .args(["-c", &script, &port])
            .output(),
    )
}

/// The URL has a password, and it is in no file of the command's own directories.
fn variables(world: &World) -> Done {
    let (sandbox, _) = served(world);
    let script = "print(all(os.environ[n] == os.environ['http_proxy'] for n in ('https_proxy', 'HTTPS_PROXY', 'ALL_PROXY', 'YARN_HTTP_PROXY')), len(os.environ['http_proxy'].split('@')[0]), os.environ['NODE_USE_ENV_PROXY'], os.environ['no_proxy'])";
    let told = python(&sandbox, script, 1);
    expect(told.as_str(), "True 79 1 localhost,127.0.0.1,::1")
}

fn passwords(world: &World) -> Done {
    let (sandbox, proxy) = served(world);
    let script = "print(os.environ['http_proxy'].split(':')[2].split('@')[0])";
    let told = [0, 1].map(|_| python(&sandbox, script, 1));
    let passwords = proxy.passwords.lock().map_err(say)?.clone();
    let passwords: Vec<&str> = passwords
        .iter()
        .flatten()
        .map(os_sandbox::ProxyPassword::as_str)
        .collect();
    expect(passwords, told.iter().map(String::as_str).collect())?;
    ensure(told[0] != told[1], || "the same password twice".into())
}

/// While another command of the same sandbox runs, whose proxy listens too.
fn proxy_of_another(world: &World) -> Done {
    let (sandbox, proxy) = served(world);
    let wait = "s = tcp(); s.connect((LOCAL, proxy)); print(proxy, flush=True); sys.stdin.read()";
    let (input, end) = std::io::pipe().map_err(say)?;
    let input = std::fs::File::from(std::os::fd::OwnedFd::from(input));
    let mut first = Command::new(&sandbox, "python3")
        .args(["-c", &format!("{PRELUDE}{wait}"), "1"])
        .stdin(os_sandbox::Stdio::File(input))
        .spawn()
        .map_err(say)?;
    let arrived = || proxy.arrived.lock().map(|list| list.first().cloned());
    let port = loop {
        if let Some(at) = arrived().map_err(say)? {
            break at.rsplit(':').next().and_then(|port| port.parse().ok());
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let told = python(
        &sandbox,
        "print(errno(tcp().connect, (LOCAL, other)))",
        port.ok_or("no port")?,
    );
    drop(end);
    first.wait().map_err(say)?;
    expect(told.as_str(), "101")
}

/// The connector connects it directly, at this port and address only.
fn named_service(world: &World) -> Done {
    let service = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(say)?;
    let address = service.local_addr().map_err(say)?;
    let hosts = NamedHosts::new(["*.test"]).port(443).address(address);
    let policy = world.policy().network(Network::Hosts(hosts));
    let sandbox = world.mechanism.plan(&policy.build().map_err(say)?);
    let serving = std::thread::spawn(move || {
        use std::io::Write as _;
        let (mut stream, _) = service.accept()?;
        stream.write_all(b"service\n")
    });
    let script = "s = tcp(); s.connect((LOCAL, other)); print(s.recv(99).decode().strip(), errno(tcp().connect, ('127.0.0.2', other)), errno(tcp(AF_INET6).connect, ('::1', other)))";
    let told = python(&sandbox, script, address.port());
    expect(told.as_str(), "service 101 101")?;
    serving.join().expect("no panic").map_err(say)
}

fn receipt(world: &World) -> Done {
    let (sandbox, proxy) = served(world);
    let script = format!("{PRELUDE}s = tcp(); s.connect((LOCAL, proxy)); talk(s)");
    let output = Command::new(&sandbox, "python3")
        .args(["-c", &script, "1"])
        .output()
        .map_err(say)?;
    let arrived = proxy.arrived.lock().map_err(say)?.clone();
    expect(receipt_hosts(&output), arrived)?;
    expect(output.enforcement.more_contacts, 3)
}

/// A refused connect is reported once, with its address; a connect to the proxy is not.
fn denial(world: &World) -> Done {
    let (sandbox, _) = served(world);
    let script = format!(
        "{PRELUDE}[errno(tcp().connect, ('203.0.113.9', 443)) for _ in range(3)]\n\
         s = tcp(); s.connect((LOCAL, proxy))\n\
         errno(tcp(AF_INET6).connect, ('::ffff:127.0.0.1', 9))"
    );
    let output = Command::new(&sandbox, "python3")
        .args(["-c", &script, "1"])
        .output()
        .map_err(say)?;
    let denials = output.enforcement.denials.iter();
    let connects: Vec<(&str, bool)> = denials
        .filter(|denial| denial.operation == os_sandbox::DeniedOperation::Connect)
        .map(|denial| {
            (
                denial.object.as_str(),
                denial.reason == DenialReason::NotNamed,
            )
        })
        .collect();
    expect(
        connects,
        vec![("203.0.113.9:443", true), ("127.0.0.1:9", true)],
    )
}

/// Nobody listens once the command has ended.
fn end(world: &World) -> Done {
    let proxy = Closing::default();
    let sandbox = super::sandbox(world).with_host_proxy(Arc::new(proxy));
    let told = python(&sandbox, "print(proxy)", 1);
    let port: u16 = told.parse().map_err(say)?;
    ensure(
        std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err(),
        || "somebody still listens".into(),
    )
}

/// A proxy whose listener is a part of the session.
#[derive(Debug, Default)]
struct Closing {
    _listeners: Vec<TcpListener>,
}

impl os_sandbox::HostProxy for Closing {
    fn serve(
        &self,
        sockets: os_sandbox::ProxySockets,
    ) -> std::io::Result<Box<dyn os_sandbox::ProxySession>> {
        Ok(Box::new(Closing {
            _listeners: sockets.proxies,
        }))
    }
}

impl os_sandbox::ProxySession for Closing {
    fn finish(self: Box<Self>) -> os_sandbox::Contacts {
        os_sandbox::Contacts::default()
    }
}

/// A named local socket and the proxy, by one connector. Nothing listens, as without local sockets.
fn local_sockets(world: &World) -> Done {
    let dir = tempfile::tempdir().map_err(say)?;
    let path = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&path).map_err(say)?;
    let hosts = NamedHosts::new(["*.test"]).port(443);
    let policy = world
        .policy()
        .network(Network::Hosts(hosts))
        .unix_socket(&path);
    let proxy = Answering::default();
    let sandbox = world.mechanism.plan(&policy.build().map_err(say)?);
    let sandbox = sandbox.with_host_proxy(Arc::new(proxy));
    let script = format!(
        "s = tcp(); s.connect((LOCAL, proxy)); u = socket(AF_UNIX, SOCK_STREAM); u.connect('{}'); \
         o = socket(AF_UNIX, SOCK_STREAM); print(talk(s)[:7], errno(o.connect, '/none'), errno(o.listen, 1), \
         raw(socket(AF_UNIX, SOCK_STREAM), v4(LOCAL, proxy)))",
        path.display()
    );
    let told = python(&sandbox, &script, 1);
    expect(told.as_str(), "abcd at 13 13 13")
}
