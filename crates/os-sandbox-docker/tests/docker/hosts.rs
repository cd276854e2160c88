//! Named hosts of commands in containers, with the real broker. Its resolver gives names below `.test`
//! the address of servers that a test has started on this machine's loopback.

use crate::daemon::Daemon;
use crate::fixture::{World, open_at, plan, settings};
use os_sandbox::{
    Access, Command, Contact, ContactKind, ContactOutcome, Contacts, Error, ErrorKind, Exit,
    HostProxy, NamedHosts, Network, Output, Policy, PolicyBuilder, Promise, PromiseState,
    ProxySession, ProxySockets, Sandbox, Stdio,
};
use sandbox_network::{
    AddressClass, Broker, BrokerOptions, BrokerService, ConnectionVerdict, HostName, HostPattern,
    HostRules, Listeners, Protocol, Resolve,
};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Generous: only that it ends is asked.
const WITHIN: Duration = Duration::from_secs(600);

/// Knows every name below `.test`.
struct TestNames;

impl Resolve for TestNames {
    fn resolve(&self, name: &HostName) -> io::Result<Vec<IpAddr>> {
        match name.to_string().ends_with(".test") {
            true => Ok(vec![Ipv4Addr::LOCALHOST.into()]),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// The broker as the proxy of a sandbox.
#[derive(Debug)]
struct BrokerProxy(Broker);

impl BrokerProxy {
    fn new(patterns: &[&str]) -> Arc<BrokerProxy> {
        let rules = patterns.iter().map(|text| HostPattern::parse(text));
        let rules = rules.collect::<Result<Vec<_>, _>>().expect("patterns");
        let mut options = BrokerOptions::default();
        options.resolve = Arc::new(TestNames);
        // The servers of the tests are on the loopback.
        let options = options.with_classes_for_tests(|_| AddressClass::Public);
        let broker = Broker::new(HostRules::new(rules, Vec::new()), options);
        Arc::new(BrokerProxy(broker.expect("a broker")))
    }
}

impl HostProxy for BrokerProxy {
    fn serve(&self, sockets: ProxySockets) -> io::Result<Box<dyn ProxySession>> {
        let service = self.0.serve(Listeners {
            resolver: sockets.resolvers,
            resolver_tcp: sockets.resolver_listeners,
            proxy: sockets.proxies,
            forwarders: sockets.forwarders,
            ..Listeners::default()
        })?;
        Ok(Box::new(BrokerSession(service)))
    }
}

#[derive(Debug)]
struct BrokerSession(BrokerService);

impl ProxySession for BrokerSession {
    fn finish(self: Box<Self>) -> Contacts {
        let report = self.0.finish();
        let listed = report.connections.into_iter().map(|record| Contact {
            kind: match record.protocol {
                Protocol::Dns => ContactKind::Lookup,
                _ => ContactKind::Connection,
            },
            outcome: match record.verdict {
                ConnectionVerdict::Allowed => ContactOutcome::Connected,
                ConnectionVerdict::Refused => ContactOutcome::Refused,
                ConnectionVerdict::Failed => ContactOutcome::Failed,
            },
            reason: record.reason.map(|reason| reason.to_string()),
            host: record.host,
            port: record.port,
            address: record.address,
            sent: record.sent,
            received: record.received,
            rule: record.rule.map(|rule| rule.to_string()),
        });
        Contacts {
            listed: listed.collect(),
            more: report.omitted,
            totals: Vec::new(),
        }
    }
}

/// A proxy that does not start.
#[derive(Debug)]
struct BrokenProxy;

impl HostProxy for BrokenProxy {
    fn serve(&self, _: ProxySockets) -> io::Result<Box<dyn ProxySession>> {
        Err(io::Error::other("not today"))
    }
}

/// A server of this machine. It answers `GET` with a page, and another line with that line. Each end of
/// a connection is told.
fn server() -> (u16, Receiver<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a server");
    let port = listener.local_addr().expect("its address").port();
    let (told, ends) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let told = told.clone();
            std::thread::spawn(move || {
                let first = answer(&stream).unwrap_or_default();
                // The test may be over.
                let _gone = told.send(first);
            });
        }
    });
    (port, ends)
}

/// Returns the first line, once the client has closed the connection.
fn answer(mut stream: &TcpStream) -> io::Result<String> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    if line.starts_with("GET ") {
        let page = "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\npage\n";
        stream.write_all(page.as_bytes())?;
        stream.shutdown(std::net::Shutdown::Write)?;
    } else {
        write!(stream, "heard {line}")?;
    }
    // A connection that is cut off ends in an error.
    let _end = reader.read_to_end(&mut Vec::new());
    Ok(line)
}

fn named(policy: PolicyBuilder, port: u16) -> PolicyBuilder {
    let hosts = NamedHosts::new([format!("one.test:{port}")]).port(port);
    policy.network(Network::Hosts(hosts))
}

fn sandbox(world: &World, engine: &Daemon, port: u16) -> Sandbox {
    let proxy = BrokerProxy::new(&[&format!("one.test:{port}")]);
    let sandbox = world.plan(engine, named(world.policy(), port));
    sandbox.with_host_proxy(proxy)
}

fn text(output: &Output) -> String {
    format!("{}{}", output.stdout.text(), output.stderr.text())
}

/// A script with `PORT` for the server's port, and a part of what it prints.
const REACHED: [(&str, &str, &str); 15] = [
    ("by the proxy", "wget -q -O - http://one.test:PORT/", "page"),
    (
        "by name",
        "env -i wget -q -O - http://one.test:PORT/",
        "page",
    ),
    ("without HTTP", "echo one | nc one.test PORT", "heard one"),
    (
        "another name by the proxy",
        "wget -q -O - http://other.test:PORT/",
        "403",
    ),
    (
        "another name",
        "env -i wget -q -O - http://other.test:PORT/",
        "bad address",
    ),
    (
        "another port",
        "env -i wget -q -O - http://one.test:1/",
        "refused",
    ),
    ("the host's loopback", "echo one | nc 127.0.0.1 PORT", ""),
    (
        "the host's loopback by the proxy",
        "wget -q -O - http://127.0.0.1:PORT/ --header x:y; echo; \
         echo 'GET http://127.0.0.1:PORT/ HTTP/1.0\n' | nc 127.0.0.53 3128",
        "403",
    ),
    (
        "another address",
        "env -i wget -q -O - http://192.0.2.1/",
        "unreachable",
    ),
    (
        "another resolver, over UDP",
        "nslookup one.test 192.0.2.1",
        "unreachable",
    ),
    (
        "nobody else's names",
        "cat /etc/resolv.conf /etc/hosts; echo x 2>/dev/null >/etc/hosts || echo kept",
        "nameserver 127.0.0.53\n127.0.0.1 localhost sandbox\n::1 localhost\nkept",
    ),
    ("the name of the host", "hostname", "sandbox"),
    (
        "no privilege",
        "grep -h ^Cap /proc/self/status | tr -d '0\\t\\n'",
        "CapInh:CapPrm:CapEff:CapBnd:CapAmb:",
    ),
    (
        "no other device",
        "grep -c : /proc/net/dev; ip route | wc -l",
        "1\n0",
    ),
    (
        "own servers",
        "nc -l -p 7777 -e echo own & n=0; until nc 127.0.0.1 7777 </dev/null || \
         [ $n -ge 6000 ]; do n=$((n+1)); sleep 0.1; done",
        "own",
    ),
];

pub(crate) fn reach(engine: &Daemon) {
    let world = World::of(0);
    let (port, _ends) = server();
    let sandbox = sandbox(&world, engine, port);
    let entries = sandbox.plan().entries();
    let network = entries.iter().find(|one| one.promise == Promise::Network);
    let network = network.expect("a promise about the network");
    assert_eq!(network.state, PromiseState::Enforced);
    let remark = format!("but one.test:{port}");
    assert_eq!(network.reason.as_deref(), Some(&*remark));
    for (name, script, want) in REACHED {
        let script = script.replace("PORT", &port.to_string());
        let said = text(&world.sh(&sandbox, &script));
        assert!(said.contains(want), "{name}: {said}");
        assert!(!said.contains("page") || want == "page", "{name}: {said}");
        assert!(
            !said.contains("heard") || want == "heard one",
            "{name}: {said}"
        );
    }
    assert_eq!(engine.everything(), Vec::<String>::new());
}

/// The receipt lists what was reached and refused.
pub(crate) fn receipts(engine: &Daemon) {
    let world = World::of(0);
    let (port, _ends) = server();
    let sandbox = sandbox(&world, engine, port);
    let script = format!(
        "wget -q -O - http://one.test:{port}/; wget -q -O - http://other.test:{port}/; true"
    );
    let output = world.sh(&sandbox, &script);
    let contacts = output.enforcement.contacts.iter();
    let seen: Vec<(&str, u16, ContactOutcome, bool)> = contacts
        .filter(|one| one.kind == ContactKind::Connection)
        .map(|one| (&*one.host, one.port, one.outcome, one.received > 0))
        .collect();
    assert_eq!(
        seen,
        [
            ("one.test", port, ContactOutcome::Connected, true),
            ("other.test", port, ContactOutcome::Refused, false),
        ],
        "{output:?}"
    );
    let network = output.enforcement.container.map(|one| one.network);
    assert_eq!(network.as_deref(), Some("none"));
}

/// Containers at one time, each with its own list and its own sockets.
pub(crate) fn two(engine: &Daemon) {
    let world = World::of(0);
    let (port, _ends) = server();
    let reaches = sandbox(&world, engine, port);
    let hosts = NamedHosts::new(["two.test"]).port(port);
    let other = world.plan(engine, world.policy().network(Network::Hosts(hosts)));
    let other = other.with_host_proxy(BrokerProxy::new(&["two.test"]));
    let script = format!(
        "read line; for name in one two; do env -i wget -q -O - http://$name.test:{port}/ \
         2>/dev/null && echo $name; done"
    );
    let start = |sandbox: &Sandbox| {
        let command = world.command(sandbox, "sh").args(["-c", &script]);
        let command = command.stdin(Stdio::Piped).stdout(Stdio::Piped);
        command.spawn().expect("a container")
    };
    let mut children = [start(&reaches), start(&other)];
    for child in &mut children {
        drop(child.stdin.take());
    }
    // The second one ends first for the first time that it is waited for.
    for (mut child, want) in children.into_iter().zip(["page\none\n", ""]).rev() {
        let mut said = Vec::new();
        child
            .wait_streaming(|_, bytes| said.extend_from_slice(bytes))
            .expect("its end");
        let said = String::from_utf8_lossy(&said).into_owned();
        match want {
            "" => assert_eq!(said, "page\ntwo\n", "only its own"),
            want => assert_eq!(said, want),
        }
    }
    assert_eq!(engine.everything(), Vec::<String>::new());
}

/// Returns the sources of the mounts of all containers of ours that there are while `start` runs, a line
/// each: the one with the network ends once the command's has joined it.
fn watched<T>(engine: &Daemon, start: impl FnOnce() -> T) -> (T, String) {
    let started = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sources = scope.spawn(|| {
            let mut sources = String::new();
            loop {
                let is_last = started.load(std::sync::atomic::Ordering::Acquire);
                let ours = [
                    "ps",
                    "--all",
                    "--quiet",
                    "--filter",
                    "label=os-sandbox.owner",
                ];
                let ids = engine.docker(&ours);
                let format = "{{range .HostConfig.Mounts}}{{.Source}}\n{{end}}";
                let inspect = ["inspect", "--format", format]
                    .into_iter()
                    .chain(ids.lines());
                // One that has ended meanwhile is no error.
                let output = engine.try_docker(&inspect.collect::<Vec<_>>());
                sources += &String::from_utf8_lossy(&output.stdout);
                if is_last {
                    return sources;
                }
            }
        });
        let value = start();
        started.store(true, std::sync::atomic::Ordering::Release);
        (value, sources.join().expect("a thread"))
    })
}

/// The engine opens the sources of mounts as root, by path. Those that a command's containers have
/// besides the policy's mounts lie in the state directory, which no command has in a mount.
pub(crate) fn own_files(engine: &Daemon) {
    let world = World::of(0);
    let mount = |inside: &str| {
        let policy = Policy::builder().mount(world.path("project"), inside, Access::ALL);
        policy.hide(".env").hide(".ssh")
    };
    std::fs::create_dir(world.path("project/.ssh")).expect("a directory");
    std::fs::write(world.path("project/.env"), "key").expect("a file");
    let own = world.path("own");
    std::os::unix::fs::symlink(world.path("data"), &own).expect("a link");
    let settings = settings().mount(&own, "/own").expect("a mount");
    let policy = named(mount("/named"), 443).publish_port(4711);
    let sandbox = plan(engine.host(), settings, &policy.build().expect("a policy"));
    let sandbox = sandbox.with_host_proxy(BrokerProxy::new(&["one.test"]));
    // The address of a socket has 108 bytes, and the directory may have a longer path.
    let deep = world.path("state").join("d".repeat(100));
    for state in [world.path("state"), deep] {
        let sandbox = open_at(&sandbox, &state);
        let (child, sources) = watched(engine, || {
            let command = Command::new(&sandbox, "sleep").arg("1000");
            command.spawn()
        });
        let child = child.expect("a container");
        let known = [&state, &world.path("project"), &world.path("data")];
        let known = known.map(|path| path.canonicalize().expect("a path"));
        let mut names: Vec<&str> = Vec::new();
        for source in sources
            .lines()
            .filter(|line| !line.is_empty())
            .map(Path::new)
        {
            let place = known.iter().find(|place| source.starts_with(place));
            assert!(place.is_some(), "{} in {sources}", source.display());
            names.extend(source.file_name().and_then(|name| name.to_str()));
        }
        for name in [
            "work",
            "closed-file",
            "closed-directory",
            "names-0",
            "tmp",
            "data",
        ] {
            assert!(names.contains(&name), "{name} in {sources}");
        }
        drop(child);
        let left: Vec<_> = std::fs::read_dir(&state)
            .expect("a directory")
            .flatten()
            .collect();
        let left = left.iter().map(|entry| entry.file_name());
        let left: Vec<_> = left
            .filter(|name| name.as_encoded_bytes().starts_with(b"os-sandbox."))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(engine.everything(), Vec::<String>::new());
    }
    // A mount that the command can write holds neither them nor a link to them.
    let link = world.path("project/link");
    std::os::unix::fs::symlink(world.path("state"), link).expect("a link");
    for state in ["project/state", "project/link/deep"] {
        let sandbox = open_at(&sandbox, world.path(state));
        let refused = Command::new(&sandbox, "true").output();
        let refused = refused.expect_err("a state directory in a mount");
        assert!(
            refused.to_string().contains("holds the state directory"),
            "{state}: {refused}"
        );
    }
}

/// A program that can write in the state directory all the same does not choose what the engine
/// opens: the container is ended.
pub(crate) fn replaced(engine: &Daemon) {
    use std::sync::atomic::{AtomicBool, Ordering};
    let world = World::of(0);
    std::fs::create_dir(world.path("project/.ssh")).expect("a directory");
    let policy = world.policy().hide(".ssh");
    let sandbox = world.plan(engine, named(policy, 443));
    let sandbox = sandbox.with_host_proxy(BrokerProxy::new(&["one.test"]));
    // Replaces `name` in a new directory of a command, once.
    let replace = |directory: &Path, name: &str| -> io::Result<()> {
        let (made, was) = (directory.join(name), directory.join("was"));
        // The socket is the last file that is made beside the launcher.
        let complete = name.starts_with("home") || directory.join("tmp/broker").exists();
        if was.exists() || !complete {
            return Ok(());
        }
        match made.is_dir() {
            true => {
                std::fs::rename(&made, &was)?;
                std::os::unix::fs::symlink(&was, &made)
            }
            false => {
                std::fs::copy(&made, &was)?;
                std::fs::rename(&was, &made)?;
                std::fs::write(&was, "")
            }
        }
    };
    for name in [
        "home/closed-directory",
        "home/names-0",
        "tmp/launcher",
        "tmp",
    ] {
        let started = |_: &u32| {
            let done = AtomicBool::new(false);
            let came = std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let state = std::fs::read_dir(world.path("state"));
                        for entry in state.expect("a directory").flatten() {
                            // The broker may be removing it.
                            let _gone = replace(&entry.path(), name);
                        }
                    }
                });
                let came = world.command(&sandbox, "true").output();
                done.store(true, Ordering::Relaxed);
                came
            });
            match came {
                Ok(_) => true,
                Err(error) => !error.to_string().contains("was replaced while"),
            }
        };
        // A replacement before the first look is not noticed, and a container without the file ends.
        assert!(!(0..20).all(|attempt| started(&attempt)), "{name}");
    }
}

/// Another program of this user that reaches the socket gets nothing, and the launcher all.
pub(crate) fn strangers(engine: &Daemon) {
    use std::sync::atomic::{AtomicBool, Ordering};
    let world = World::of(0);
    let (port, _ends) = server();
    let sandbox = sandbox(&world, engine, port);
    let done = AtomicBool::new(false);
    let (said, heard) = std::thread::scope(|scope| {
        let stranger = scope.spawn(|| {
            let mut heard = Vec::new();
            while !done.load(Ordering::Relaxed) && heard.len() < 3 {
                let state = std::fs::read_dir(world.path("state")).expect("a directory");
                let sockets = state.flatten().map(|entry| entry.path().join("tmp/broker"));
                for mut stream in sockets.filter_map(|path| UnixStream::connect(path).ok()) {
                    let mut job = Vec::new();
                    let _cut = stream.read_to_end(&mut job);
                    heard.push(job);
                }
            }
            heard
        });
        let script = format!("env -i wget -q -O - http://one.test:{port}/");
        let said = text(&world.sh(&sandbox, &script));
        done.store(true, Ordering::Relaxed);
        (said, stranger.join().expect("a thread"))
    });
    assert!(!heard.is_empty(), "it never reached the socket");
    assert!(heard.iter().all(Vec::is_empty), "it got the job");
    assert_eq!(said, "page\n");
}

/// A container that another program kills: its connections end.
pub(crate) fn killed(engine: &Daemon) {
    let world = World::of(0);
    let (port, ends) = server();
    let sandbox = sandbox(&world, engine, port);
    let script = format!("(echo one; sleep 1000) | nc one.test {port}");
    let command = world.command(&sandbox, "sh").args(["-c", &script]);
    let mut child = command.stdin(Stdio::Null).spawn().expect("a container");
    let mut line = [0; 9];
    let stdout = child.stdout.as_mut().expect("a pipe");
    stdout.read_exact(&mut line).expect("it is connected");
    assert_eq!(&line, b"heard one");
    let ours = engine.docker(&[
        "ps",
        "--quiet",
        "--no-trunc",
        "--filter",
        "label=os-sandbox.owner",
    ]);
    for id in ours.lines() {
        // The container of the network may have ended meanwhile.
        let _gone = engine.try_docker(&["kill", id]);
    }
    assert_eq!(child.wait().expect("its end"), Exit::Signal(9));
    assert_eq!(ends.recv_timeout(WITHIN).expect("its end"), "one\n");
    let contacts = &child.enforcement().contacts;
    assert_eq!(contacts.len(), 1, "{contacts:?}");
    drop(child);
    assert_eq!(engine.everything(), Vec::<String>::new());
}

/// A command does not start without its sockets.
pub(crate) fn fails_closed(engine: &Daemon) {
    let world = World::of(0);
    let bare = world.plan(engine, named(world.policy(), 443));
    let touch = |sandbox: &Sandbox| world.command(sandbox, "touch").arg("started").output();
    let refused = |sandbox: &Sandbox, kind: ErrorKind, why: &str| {
        let error: Error = touch(sandbox).expect_err("refused");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(why), "{error}");
        assert!(!world.path("project/started").exists());
    };
    refused(&bare, ErrorKind::Invalid, "has no proxy");
    let broken = bare.with_host_proxy(Arc::new(BrokenProxy));
    refused(&broken, ErrorKind::Io, "could not start");
    let begun = Instant::now();
    while !engine.everything().is_empty() {
        assert!(begun.elapsed() < WITHIN, "{:?}", engine.everything());
        std::thread::sleep(Duration::from_millis(20));
    }
    match Daemon::start_elsewhere() {
        Ok(elsewhere) => {
            let other = world.plan(&elsewhere, named(world.policy(), 443));
            let other = other.with_host_proxy(BrokerProxy::new(&["one.test"]));
            refused(&other, ErrorKind::Unsupported, "does not share the files");
        }
        Err(reason) => println!("  skipped: {reason}"),
    }
}

/// Both containers have one user namespace, and root inside is an ordinary user here.
pub(crate) fn remapped(_: &Daemon) {
    let engine = match Daemon::start_remapped() {
        Ok(engine) => engine,
        Err(reason) => {
            println!("  skipped: {reason}");
            return;
        }
    };
    let world = World::of(0);
    let (port, _ends) = server();
    let sandbox = sandbox(&world, &engine, port);
    let script = format!(
        "cut -c 1-22 /proc/self/uid_map; env -i wget -q -O - http://one.test:{port}/; \
         wget -q -O - http://other.test:{port}/"
    );
    let said = text(&world.sh(&sandbox, &script));
    for part in ["200000", "page", "403"] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(engine.everything(), Vec::<String>::new());
}

/// The end of the broker ends the connections of what stays, and refuses new ones.
pub(crate) fn broker(engine: &Daemon) {
    let world = World::of(0);
    let (port, ends) = server();
    let mut killed = crate::losses::live("hosts", engine, &world)
        .arg(port.to_string())
        .spawn()
        .expect("a broker");
    let mut line = String::new();
    let mut said = BufReader::new(killed.stdout.take().expect("a pipe"));
    said.read_line(&mut line).expect("it says so");
    assert_eq!(line, "heard one\n");
    killed.kill().expect("it was there");
    killed.wait().expect("its end");
    assert_eq!(ends.recv_timeout(WITHIN).expect("its end"), "one\n");
    let begun = Instant::now();
    while !world.path("project/refused").exists() {
        assert!(begun.elapsed() < WITHIN, "a new connection is not refused");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The next start removes what is left.
    let plain = world.plan(engine, world.policy());
    assert_eq!(world.sh(&plain, "true").exit, Exit::Code(0));
    assert_eq!(engine.everything(), Vec::<String>::new());
}

/// The broker that is killed.
pub(crate) fn life(host: &str, project: &Path, state: &Path, port: &str) -> ExitCode {
    let port: u16 = port.parse().expect("a port");
    let policy = Policy::builder().mount(project, "/", Access::ALL);
    let policy = named(policy, port).build().expect("a policy");
    let proxy = BrokerProxy::new(&[&format!("one.test:{port}")]);
    let sandbox = open_at(&plan(host, settings(), &policy), state).with_host_proxy(proxy);
    let script = format!(
        "mkfifo $HOME/input; (echo one; sleep 1000) >$HOME/input & \
         nc one.test {port} <$HOME/input; \
         wget -q -O - http://one.test:{port}/ || touch refused; sleep 1000"
    );
    let command = os_sandbox::Command::new(&sandbox, "sh").args(["-c", &script]);
    let mut child = command.stdin(Stdio::Null).spawn().expect("a container");
    let mut line = [0; 10];
    let stdout = child.stdout.as_mut().expect("a pipe");
    stdout.read_exact(&mut line).expect("it is connected");
    let _told = io::stdout().write_all(&line);
    let _told = io::stdout().flush();
    std::thread::sleep(WITHIN);
    drop(child);
    ExitCode::FAILURE
}
