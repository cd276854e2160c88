//! Named hosts: programs without settings, programs with a proxy, and attempts to go around it. The
//! proxy of these tests answers every connection itself and records it, so nothing leaves the
//! machine. It allows everything: the decisions are tested in sandbox-network.

mod by_connector;

use crate::fixture::{Mechanism, World, said};
use crate::outcome::{ensure, expect, say};
use crate::report::Report;
use os_sandbox::{
    Command, Contact, ContactKind, ContactOutcome, Contacts, ErrorKind, HostProxy, NamedHosts,
    Network, Promise, PromiseState, ProxyPassword, ProxySession, ProxySockets, Sandbox,
};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};

type Done = Result<(), String>;

/// The address of every name that ends in `.test`.
const NAME_V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 7);
const NAME_V6: Ipv6Addr = Ipv6Addr::new(0xfd98, 0x18, 0, 0, 0, 0, 0, 7);

/// An address that the policy names.
const NAMED_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 5);

/// A proxy that answers each connection with the local address that it arrived at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answering {
    arrived: Arc<Mutex<Vec<String>>>,
    /// The passwords of the commands that it has served.
    passwords: Arc<Mutex<Vec<Option<ProxyPassword>>>>,
}

impl HostProxy for Answering {
    fn serve(&self, sockets: ProxySockets) -> std::io::Result<Box<dyn ProxySession>> {
        let mut passwords = self.passwords.lock().expect("a list");
        passwords.push(sockets.password.clone());
        for listener in sockets.proxies.into_iter().chain(sockets.forwarders) {
            let arrived = Arc::clone(&self.arrived);
            std::thread::spawn(move || answer(&listener, &arrived));
        }
        for resolver in sockets.resolvers {
            std::thread::spawn(move || resolve(&resolver));
        }
        Ok(Box::new(self.clone()))
    }
}

impl ProxySession for Answering {
    fn finish(self: Box<Self>) -> Contacts {
        let arrived = self.arrived.lock().expect("a list");
        let listed = arrived.iter().map(|host| Contact {
            kind: ContactKind::Connection,
            host: host.clone(),
            port: 443,
            address: None,
            sent: 0,
            received: 0,
            rule: None,
            outcome: ContactOutcome::Connected,
            reason: None,
        });
        Contacts {
            listed: listed.collect(),
            more: 3,
            totals: Vec::new(),
        }
    }
}

fn answer(listener: &TcpListener, arrived: &Mutex<Vec<String>>) {
    while let Ok((mut stream, _)) = listener.accept() {
        let at = stream.local_addr().expect("an address").to_string();
        arrived.lock().expect("a list").push(at.clone());
        let mut first = [0u8; 4];
        let asked = stream.read(&mut first).unwrap_or(0);
        // Fails if the target has closed the connection.
        let _ = writeln!(
            stream,
            "{} at {at}",
            String::from_utf8_lossy(&first[..asked])
        );
    }
}

/// Answers questions for names below `.test`, others with NXDOMAIN (RFC 1035, 4.1.1).
fn resolve(socket: &UdpSocket) {
    let mut packet = [0u8; 512];
    while let Ok((bytes, from)) = socket.recv_from(&mut packet) {
        let mut reply = packet[..bytes].to_vec();
        let end = 12
            + reply[12..]
                .iter()
                .position(|byte| *byte == 0)
                .expect("a name")
            + 1;
        let known = reply[12..end].ends_with(b"\x04test\0");
        let kind = u16::from_be_bytes([reply[end], reply[end + 1]]);
        reply.truncate(end + 4);
        let data: &[u8] = match (known, kind) {
            (true, 1) => &NAME_V4.octets(),
            (true, 28) => &NAME_V6.octets(),
            _ => &[],
        };
        reply[2..4].copy_from_slice(if known { &[0x81, 0x80] } else { &[0x81, 0x83] });
        reply[6..12].copy_from_slice(&[0, u8::from(!data.is_empty()), 0, 0, 0, 0]);
        if !data.is_empty() {
            reply.extend_from_slice(&[0xc0, 12, kind.to_be_bytes()[0], kind.to_be_bytes()[1]]);
            reply.extend_from_slice(&[0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
            reply.extend_from_slice(data);
        }
        // As above.
        let _ = socket.send_to(&reply, from);
    }
}

/// A script of bash, and the end of its output.
const REACHED: [(&str, &str, &str); 12] = [
    (
        "a name on a named port",
        "exec 3<>/dev/tcp/one.test/443; echo abc >&3; cat <&3",
        ":443",
    ),
    (
        "a name by IPv4",
        "exec 3<>/dev/tcp/198.18.0.7/443; echo abc >&3; cat <&3",
        "at 198.18.0.7:443",
    ),
    (
        "a name by IPv6",
        "exec 3<>/dev/tcp/fd98:18::7/443; echo abc >&3; cat <&3",
        "at [fd98:18::7]:443",
    ),
    (
        "the proxy of the variables",
        "exec 3<>/dev/tcp/${http_proxy:7:10}/${HTTPS_PROXY:18}; echo abc >&3; cat <&3",
        "at 127.0.0.53:3128",
    ),
    (
        "a named address",
        "exec 3<>/dev/tcp/203.0.113.5/5432; echo abc >&3; cat <&3",
        "at 203.0.113.5:5432",
    ),
    (
        "another port of it",
        "exec 3<>/dev/tcp/203.0.113.5/5434; echo abc >&3; cat <&3",
        "at 203.0.113.5:5434",
    ),
    (
        "a named address of IPv6",
        "exec 3<>/dev/tcp/2001:db8::5/5432; echo abc >&3; cat <&3",
        "at [2001:db8::5]:5432",
    ),
    (
        "a service of the host's loopback, named",
        "exec 3<>/dev/tcp/127.0.0.1/5433; echo abc >&3; cat <&3",
        "at 127.0.0.1:5433",
    ),
    (
        "a name on another port",
        "(exec 3<>/dev/tcp/one.test/444) 2>&1",
        "Connection refused",
    ),
    (
        "another address",
        "(exec 3<>/dev/tcp/192.0.2.1/443) 2>&1",
        "Network is unreachable",
    ),
    (
        "a name that the resolver refuses",
        "(exec 3<>/dev/tcp/example.org/443) 2>&1",
        "not known",
    ),
    (
        "no privilege is left",
        "grep -h ^Cap /proc/self/status | tr -d '0\\t\\n'",
        "CapInh:CapPrm:CapEff:CapBnd:CapAmb:",
    ),
];

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    let world = World::new(mechanism);
    match mechanism.family() {
        "namespaces" | "bubblewrap" => {}
        "landlock" if mechanism.names_sockets() => return by_connector::all(&world, report),
        _ => {
            report.not_posed("named hosts", "refused to plan; see the matrix");
            return;
        }
    }
    report.case("hosts: the plan", planned(&world));
    report.case("hosts: no proxy", no_proxy(&world));
    for (name, script, end) in REACHED {
        report.case(&format!("hosts: {name}"), reached(&world, script, end));
    }
    report.case("hosts: the host's loopback", loopback_of_the_host(&world));
    report.case("hosts: as many as there may be", full(&world));
    report.case("hosts: own servers", own_server(&world));
    report.case("hosts: the receipt", receipt(&world));
    report.case("hosts: a proxy of one command", own_proxy(&world));
}

fn sandbox(world: &World) -> Sandbox {
    let hosts = NamedHosts::new(["*.test"])
        .deny("ads.test")
        .port(443)
        .address((Ipv4Addr::new(203, 0, 113, 5), 5432).into())
        .address((Ipv4Addr::new(203, 0, 113, 5), 5434).into())
        .address((NAMED_V6, 5432).into())
        .address((Ipv4Addr::LOCALHOST, 5433).into());
    let policy = world.policy().network(Network::Hosts(hosts));
    world.mechanism.plan(&policy.build().expect("a policy"))
}

fn served(world: &World) -> (Sandbox, Answering) {
    let proxy = Answering::default();
    let sandbox = sandbox(world).with_host_proxy(Arc::new(proxy.clone()));
    (sandbox, proxy)
}

fn bash(sandbox: &Sandbox, script: &str) -> Result<os_sandbox::Output, os_sandbox::Error> {
    Command::new(sandbox, "bash").args(["-c", script]).output()
}

fn planned(world: &World) -> Done {
    let sandbox = sandbox(world);
    let entries = sandbox.plan().entries();
    let entry = entries
        .iter()
        .find(|entry| entry.promise == Promise::Network)
        .ok_or("no promise about the network")?;
    expect(entry.state, PromiseState::Enforced)?;
    expect(
        entry.reason.as_deref(),
        Some("but *.test, without ads.test"),
    )
}

fn no_proxy(world: &World) -> Done {
    let policy = world
        .policy()
        .network(Network::Hosts(NamedHosts::default()));
    let plan = world.mechanism.plan(&policy.build().expect("a policy"));
    let bare = Sandbox::open(plan.plan().clone(), plan.directories().clone());
    match Command::new(&bare, "true").output() {
        Err(error) if error.kind() == ErrorKind::Invalid => Ok(()),
        other => Err(format!("started without a proxy: {other:?}")),
    }
}

fn reached(world: &World, script: &str, end: &str) -> Done {
    let (sandbox, _) = served(world);
    let said = said(bash(&sandbox, script));
    ensure(said.contains(end), || format!("expected {end:?}: {said}"))
}

/// The other commands of the sandbox have its proxy.
fn own_proxy(world: &World) -> Done {
    let (sandbox, shared) = served(world);
    let own = Answering::default();
    let script = "exec 3<>/dev/tcp/a.test/443 && echo one >&3 && head -1 <&3";
    let command = Command::new(&sandbox, "bash").args(["-c", script]);
    said(command.host_proxy(Arc::new(own.clone())).output());
    let arrived = |proxy: &Answering| proxy.arrived.lock().expect("a list").len();
    expect((arrived(&own), arrived(&shared)), (1, 0))?;
    said(bash(&sandbox, script));
    expect((arrived(&own), arrived(&shared)), (1, 1))
}

fn loopback_of_the_host(world: &World) -> Done {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(say)?;
    let port = listener.local_addr().map_err(say)?.port();
    reached(
        world,
        &format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>&1"),
        "Connection refused",
    )
}

/// The bounds, with ports that the resolver and the proxy have, and with each family of addresses.
fn full(world: &World) -> Done {
    let ports = [1, 53, 3128, 65535].into_iter().chain(1000..);
    let hosts = ports
        .take(NamedHosts::MAX_PORTS)
        .fold(NamedHosts::new(["*.test"]), NamedHosts::port);
    let own = [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 53)];
    let taken = own
        .into_iter()
        .flat_map(|ip| [53, 3128].map(|port| (ip, port).into()));
    let more = (0..).map(|number| (NAMED_V6, 2000 + number).into());
    let hosts = taken
        .chain(more)
        .take(NamedHosts::MAX_ADDRESSES)
        .fold(hosts, NamedHosts::address);
    let policy = world.policy().network(Network::Hosts(hosts));
    let sandbox = world.mechanism.plan(&policy.build().map_err(say)?);
    let script = "exec 3<>/dev/tcp/198.18.0.7/65535; echo abc >&3; cat <&3";
    let said = said(bash(&sandbox, script));
    ensure(said.contains("at 198.18.0.7:65535"), || said.clone())
}

/// Servers of the command itself work beside the proxy, on every port that is not named.
fn own_server(world: &World) -> Done {
    let script = "import socket, threading\n\
        s = socket.create_server(('', 8080))\n\
        threading.Thread(target=lambda: s.accept()[0].sendall(b'own'), daemon=True).start()\n\
        print(socket.create_connection(('localhost', 8080)).recv(3).decode())\n";
    let (sandbox, _) = served(world);
    let said = said(
        Command::new(&sandbox, "python3")
            .args(["-c", script])
            .output(),
    );
    ensure(said.contains("own"), || said.clone())
}

fn receipt(world: &World) -> Done {
    let (sandbox, proxy) = served(world);
    let output = bash(
        &sandbox,
        "exec 3<>/dev/tcp/198.18.0.7/443; echo abc >&3; cat <&3",
    )
    .map_err(say)?;
    expect(receipt_hosts(&output), vec!["198.18.0.7:443".to_owned()])?;
    let passwords = proxy.passwords.lock().map_err(say)?.clone();
    expect(passwords, vec![None])?;
    expect(output.enforcement.more_contacts, 3)?;
    expect(output.enforcement.backend, world.mechanism.backend())?;
    expect(proxy.arrived.lock().map_err(say)?.len(), 1)
}

fn receipt_hosts(output: &os_sandbox::Output) -> Vec<String> {
    let contacts = output.enforcement.contacts.iter();
    contacts.map(|one| one.host.clone()).collect()
}
