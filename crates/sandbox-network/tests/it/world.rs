//! A broker with a proxy and a resolver on the loopback, servers, and a resolver of names that
//! answers as a test says.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use sandbox_network::{
    AddressClass, Broker, BrokerOptions, BrokerService, ConnectionRecord, HostName, HostPattern,
    HostRules, Listeners, ProxyToken, Resolve, ServiceReport,
};

/// A watchdog: nothing here takes that long.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(120);

pub(crate) fn rules(allow: &[&str], deny: &[&str]) -> HostRules {
    let read = |list: &[&str]| {
        let patterns = list.iter().map(|text| HostPattern::parse(text).unwrap());
        patterns.collect::<Vec<_>>()
    };
    HostRules::new(read(allow), read(deny))
}

/// Names with their answers, one list of addresses for each call; the last one stays.
#[derive(Default)]
pub(crate) struct Names {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    pub(crate) fn set(&self, name: &str, answers: &[&[&str]]) {
        let read = |list: &&[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        let answers = answers.iter().map(read).collect();
        self.answers
            .lock()
            .unwrap()
            .insert(name.to_owned(), answers);
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Resolve for Names {
    fn resolve(&self, name: &HostName) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(name.to_string());
        let mut answers = self.answers.lock().unwrap();
        match answers.get_mut(name.as_str()) {
            None if name.as_str().ends_with(".test") => Ok(vec![[127, 0, 0, 1].into()]),
            None => Err(io::Error::other("no such name")),
            Some(list) if list.len() > 1 => Ok(list.remove(0)),
            Some(list) => Ok(list[0].clone()),
        }
    }
}

/// 127.0.0.1 is where the servers of the tests are; the rest of the loopback is not public.
pub(crate) fn class_of(address: IpAddr) -> AddressClass {
    if address == IpAddr::from([127, 0, 0, 1]) {
        AddressClass::Public
    } else {
        AddressClass::of(address)
    }
}

pub(crate) struct World {
    pub(crate) broker: Broker,
    pub(crate) names: Arc<Names>,
    pub(crate) proxy: SocketAddr,
    pub(crate) resolver: SocketAddr,
    service: BrokerService,
}

impl World {
    /// A broker whose rules allow these patterns. Names that end in `.test` are at 127.0.0.1.
    pub(crate) fn new(allow: &[&str], deny: &[&str]) -> World {
        World::with(allow, deny, |_| {})
    }

    pub(crate) fn with(
        allow: &[&str],
        deny: &[&str],
        change: impl FnOnce(&mut BrokerOptions),
    ) -> World {
        World::with_token(allow, deny, None, change)
    }

    /// Names have no IPv6 addresses.
    pub(crate) fn without_ipv6(allow: &[&str]) -> World {
        World::start(allow, &[], None, "[::1]:0", |_| {})
    }

    pub(crate) fn with_token(
        allow: &[&str],
        deny: &[&str],
        token: Option<ProxyToken>,
        change: impl FnOnce(&mut BrokerOptions),
    ) -> World {
        World::start(allow, deny, token, "[::]:0", change)
    }

    fn start(
        allow: &[&str],
        deny: &[&str],
        token: Option<ProxyToken>,
        forwarder: &str,
        change: impl FnOnce(&mut BrokerOptions),
    ) -> World {
        let names = Arc::new(Names::default());
        let mut options = BrokerOptions::default().with_classes_for_tests(class_of);
        options.resolve = names.clone();
        options.advice = Arc::new(|host, port| format!("run `allow {}`", host.with_port(port)));
        change(&mut options);
        let broker = Broker::new(rules(allow, deny), options).unwrap();
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        let (resolver, resolver_tcp) = resolver_sockets();
        let (at, resolver_at) = (proxy.local_addr().unwrap(), resolver.local_addr().unwrap());
        let service = broker.serve(Listeners {
            resolver: vec![resolver],
            resolver_tcp: vec![resolver_tcp],
            proxy: vec![proxy],
            proxy_token: token,
            // Only its family matters here: names have IPv6 addresses too.
            forwarders: vec![TcpListener::bind(forwarder).unwrap()],
            ..Listeners::default()
        });
        World {
            broker,
            names,
            proxy: at,
            resolver: resolver_at,
            service: service.unwrap(),
        }
    }

    /// Ends the service and returns its report.
    pub(crate) fn finish(self) -> ServiceReport {
        self.service.finish()
    }

    /// Ends the service and returns its only record.
    pub(crate) fn only_record(self) -> ConnectionRecord {
        let mut records = self.finish().connections;
        assert_eq!(records.len(), 1, "{records:#?}");
        records.remove(0)
    }

    /// A connection to the proxy.
    pub(crate) fn client(&self) -> TcpStream {
        connect(self.proxy)
    }

    /// Sends bytes to the proxy and returns all that comes back.
    pub(crate) fn exchange(&self, request: &str) -> String {
        let mut client = self.client();
        client.write_all(request.as_bytes()).unwrap();
        read_to_end(client)
    }

    /// A tunnel to a host, or the proxy's answer.
    pub(crate) fn tunnel(&self, host: &str, port: u16) -> Result<TcpStream, String> {
        tunnel_by(self.proxy, host, port)
    }

    /// Another service of the same broker, and the address of its proxy.
    pub(crate) fn another_service(&self) -> (BrokerService, SocketAddr) {
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = proxy.local_addr().unwrap();
        let service = self.broker.serve(Listeners {
            proxy: vec![proxy],
            ..Listeners::default()
        });
        (service.unwrap(), at)
    }
}

/// A tunnel to a host through the proxy at an address, or the proxy's answer.
pub(crate) fn tunnel_by(proxy: SocketAddr, host: &str, port: u16) -> Result<TcpStream, String> {
    let mut client = ask_for_tunnel(proxy, host, port);
    let head = read_head(&mut client);
    if head.starts_with("HTTP/1.1 200 ") {
        Ok(client)
    } else {
        Err(head + &read_to_end(client))
    }
}

/// A client that has asked a proxy for a tunnel and not read the answer.
pub(crate) fn ask_for_tunnel(proxy: SocketAddr, host: &str, port: u16) -> TcpStream {
    let mut client = connect(proxy);
    let target = format!("{host}:{port}");
    write!(
        client,
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"
    )
    .unwrap();
    client
}

fn resolver_sockets() -> (UdpSocket, TcpListener) {
    loop {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
            return (udp, tcp);
        }
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream.set_write_timeout(Some(WATCHDOG)).unwrap();
    stream
}

/// Reads until the other side ends or resets.
pub(crate) fn read_to_end(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error}"),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads the head of a message.
pub(crate) fn read_head(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => bytes.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A server on the loopback. Each connection has its thread.
pub(crate) fn server(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    serve_on("127.0.0.1:0", handle)
}

pub(crate) fn serve_on(address: &str, handle: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind(address).unwrap();
    let port = listener.local_addr().unwrap().port();
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let handle = Arc::clone(&handle);
            stream.set_read_timeout(Some(WATCHDOG)).unwrap();
            stream.set_write_timeout(Some(WATCHDOG)).unwrap();
            let small = thread::Builder::new().stack_size(64 * 1024);
            small.spawn(move || handle(stream)).unwrap();
        }
    });
    port
}

/// A server that sends back what it reads.
pub(crate) fn echo_server() -> u16 {
    server(echo)
}

pub(crate) fn echo(mut stream: TcpStream) {
    let mut bytes = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut bytes) {
        if stream.write_all(&bytes[..read]).is_err() {
            return;
        }
    }
}

/// Listens at an address and answers nothing: Linux drops what does not fit into the queue of a
/// listener. Returns the sockets, which end it.
#[cfg(target_os = "linux")]
pub(crate) fn silent_listener(address: SocketAddr) -> Vec<socket2::Socket> {
    use socket2::{Domain, Socket, Type};

    let silent = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    silent.bind(&address.into()).unwrap();
    silent.listen(0).unwrap();
    let at = silent.local_addr().unwrap();
    let fill = |_| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        let _ = socket.connect(&at);
        socket
    };
    let mut sockets: Vec<_> = (0..8).map(fill).collect();
    sockets.push(silent);
    sockets
}

/// Sends bytes through a connection and expects them back.
pub(crate) fn assert_echoes(stream: &mut TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).unwrap();
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, bytes);
}

/// A server for HTTP that answers every request with its head and body, and counts connections.
pub(crate) fn http_server() -> (u16, Arc<Mutex<usize>>) {
    let connections = Arc::new(Mutex::new(0));
    let count = Arc::clone(&connections);
    let port = server(move |mut stream| {
        *count.lock().unwrap() += 1;
        loop {
            let head = read_head(&mut stream);
            if head.is_empty() {
                return;
            }
            let body = read_body(&mut stream, &head);
            let seen = format!("{head}{body}");
            let length = seen.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nKeep-Alive: timeout=5\r\n\
                 Connection: X-Own\r\nX-Own: 1\r\nX-Kept: 1\r\n\r\n"
            );
            let body = if head.starts_with("HEAD ") { "" } else { &seen };
            if stream
                .write_all(format!("{answer}{body}").as_bytes())
                .is_err()
            {
                return;
            }
        }
    });
    (port, connections)
}

fn read_body(stream: &mut impl Read, head: &str) -> String {
    let lower = head.to_ascii_lowercase();
    let mut bytes = Vec::new();
    if lower.contains("transfer-encoding: chunked") {
        while !bytes.ends_with(b"0\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            bytes.push(byte[0]);
        }
    } else if let Some((_, rest)) = lower.split_once("content-length: ") {
        let length = rest.split("\r\n").next().unwrap().parse().unwrap();
        bytes.resize(length, 0);
        stream.read_exact(&mut bytes).unwrap();
    }
    String::from_utf8(bytes).unwrap()
}

/// Reads an answer with a `Content-Length` and returns its head and body.
pub(crate) fn read_answer(stream: &mut impl Read) -> (String, String) {
    let head = read_head(stream);
    let body = read_body(stream, &head);
    (head, body)
}

/// Waits until a condition is true. A watchdog ends the test.
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed() < WATCHDOG, "never happened: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
