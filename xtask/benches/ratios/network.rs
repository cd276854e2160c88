//! The broker for named hosts, beside a plain connection over loopback. Clients and servers are
//! threads of this process, so each row has the same work on both sides of the broker.

use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use os_sandbox::{
    Command, Directories, NamedHosts, Network, Plan, Policy, Requirement, Sandbox, Support,
};
use sandbox_network::{Broker, BrokerOptions, BrokerService, HostPattern, HostRules, Listeners};

use crate::compare::{Measure, Outcome, median, medians};

/// Shared, so that a server has no buffer.
static CHUNK: [u8; 256 << 10] = [0x5a; 256 << 10];
/// Bytes of one transfer.
const TRANSFER: usize = 128 << 20;
/// A broker reaches at least 0.35 times the throughput of plain loopback.
const TRANSFER_RATIO: f64 = 2.85;
const CONNECTION_MS: f64 = 0.2;
const START_MS: f64 = 3.0;
const CONNECTIONS: usize = 1000;
const MEMORY_MB: f64 = 64.0;
const ROUNDS: usize = 9;
const CONNECTION_ROUNDS: usize = 400;
const START_ROUNDS: usize = 100;

pub(crate) fn measures() -> Result<Vec<Measure>, Box<dyn Error>> {
    let peer = Peer::start()?;
    let brokered = Brokered::start(peer.0)?;
    Ok(vec![
        throughput(peer.0, &brokered)?,
        connection(peer.0, &brokered)?,
        memory(&brokered)?,
        start()?,
    ])
}

/// A server that sends the number of bytes that the client asks for, and waits for its end.
struct Peer(SocketAddr);

impl Peer {
    fn start() -> Result<Peer, Box<dyn Error>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // A client that is gone ends its thread.
                std::thread::spawn(move || answer(stream));
            }
        });
        Ok(Peer(address))
    }
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut asked = [0u8; 8];
    stream.read_exact(&mut asked)?;
    let mut left = usize::try_from(u64::from_ne_bytes(asked)).unwrap_or(0);
    while left > 0 {
        let bytes = left.min(CHUNK.len());
        stream.write_all(&CHUNK[..bytes])?;
        left -= bytes;
    }
    stream.read(&mut asked).map(drop)
}

/// The broker, and the address of its proxy.
struct Brokered {
    proxy: SocketAddr,
    peer: SocketAddr,
    _service: BrokerService,
}

impl Brokered {
    fn start(peer: SocketAddr) -> Result<Brokered, Box<dyn Error>> {
        let rules = HostRules::new([HostPattern::parse(&peer.to_string())?], []);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let proxy = listener.local_addr()?;
        let listeners = Listeners {
            proxy: vec![listener],
            ..Listeners::default()
        };
        let service = Broker::new(rules, BrokerOptions::default())?.serve(listeners)?;
        Ok(Brokered {
            proxy,
            peer,
            _service: service,
        })
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.proxy)?;
        let peer = self.peer;
        write!(stream, "CONNECT {peer} HTTP/1.1\r\nHost: {peer}\r\n\r\n")?;
        let mut head = Vec::new();
        let mut byte = [0u8];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        match head.starts_with(b"HTTP/1.1 200") {
            true => Ok(stream),
            false => Err(std::io::Error::other("the broker refused")),
        }
    }
}

fn fetch(mut stream: TcpStream, bytes: usize) -> Result<(), Box<dyn Error>> {
    stream.write_all(&(bytes as u64).to_ne_bytes())?;
    let mut buffer = vec![0u8; 256 << 10];
    let mut left = bytes;
    while left > 0 {
        match stream.read(&mut buffer)? {
            0 => return Err("the transfer ended early".into()),
            got => left -= got,
        }
    }
    Ok(())
}

fn throughput(peer: SocketAddr, brokered: &Brokered) -> Result<Measure, Box<dyn Error>> {
    let [ours, plain] = medians(
        ROUNDS,
        1,
        [
            Box::new(|| fetch(brokered.connect()?, TRANSFER)),
            Box::new(|| fetch(TcpStream::connect(peer)?, TRANSFER)),
        ],
    )?;
    Ok(Measure {
        name: "network, 128 MiB by the broker",
        outcome: Outcome::Ratio {
            ours,
            other: plain,
            other_name: "over plain loopback",
            target: Some(TRANSFER_RATIO),
        },
    })
}

fn connection(peer: SocketAddr, brokered: &Brokered) -> Result<Measure, Box<dyn Error>> {
    let [ours, plain] = medians(
        CONNECTION_ROUNDS,
        1,
        [
            Box::new(|| fetch(brokered.connect()?, 1)),
            Box::new(|| fetch(TcpStream::connect(peer)?, 1)),
        ],
    )?;
    Ok(Measure {
        name: "network, a connection by the broker",
        outcome: Outcome::Amount {
            got: milliseconds(ours.saturating_sub(plain)),
            unit: "ms",
            of: "over plain loopback",
            target: CONNECTION_MS,
        },
    })
}

fn memory(brokered: &Brokered) -> Result<Measure, Box<dyn Error>> {
    let name = "network, 1 000 connections at once";
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if hard < 6 * CONNECTIONS as u64 {
        let outcome = Outcome::NotHere(format!("{hard} descriptors are too few"));
        return Ok(Measure { name, outcome });
    }
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let before = resident_bytes()?;
    let mut open = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let mut stream = brokered.connect()?;
        // Every buffer has been used once.
        stream.write_all(&(64u64 << 10).to_ne_bytes())?;
        open.push(stream);
    }
    let mut buffer = vec![0u8; 64 << 10];
    for stream in &mut open {
        stream.read_exact(&mut buffer)?;
    }
    let got = resident_bytes()?.saturating_sub(before) as f64 / f64::from(1 << 20);
    Ok(Measure {
        name,
        outcome: Outcome::Amount {
            got,
            unit: "MB",
            of: "resident, with the threads of 1 000 servers",
            target: MEMORY_MB,
        },
    })
}

/// proc_pid_statm(5): the second number is resident pages.
fn resident_bytes() -> Result<usize, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages = text.split_whitespace().nth(1).ok_or("no resident pages")?;
    Ok(pages.parse::<usize>()? * 4096)
}

fn start() -> Result<Measure, Box<dyn Error>> {
    let name = "network, a command with named hosts";
    let hosts = NamedHosts::new(["example.com:443"]).port(443);
    let (Some(named), Some(closed)) =
        (sandbox(Network::Hosts(hosts))?, sandbox(Network::Loopback)?)
    else {
        let outcome = Outcome::NotHere("it needs bubblewrap".to_owned());
        return Ok(Measure { name, outcome });
    };
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..=START_ROUNDS {
        for (at, sandbox) in [&named, &closed].into_iter().enumerate() {
            let begin = Instant::now();
            Command::new(sandbox, "true").output()?;
            if round > 0 {
                times[at].push(begin.elapsed());
            }
        }
    }
    let [ours, other] = times.map(median);
    Ok(Measure {
        name,
        outcome: Outcome::Amount {
            got: milliseconds(ours.saturating_sub(other)),
            unit: "ms",
            of: "over one without a network",
            target: START_MS,
        },
    })
}

fn sandbox(network: Network) -> Result<Option<Sandbox>, Box<dyn Error>> {
    let policy = Policy::builder().network(network).build()?;
    let plan = Plan::new(&policy, &Support::detect(), Requirement::Enforce);
    Ok(plan
        .ok()
        .map(|plan| forge_tools::open_sandbox(plan, Directories::user())))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
