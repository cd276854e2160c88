//! `network.loopback_in`: clients outside reach a server of the command on the host's loopback, and the
//! command reaches nothing by it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::{Ran, World, copy_forge, ran};

/// The user of a test that root starts.
const ORDINARY: &str = "65534";
const WATCHDOG: Duration = Duration::from_secs(120);

/// Answers each client, at the end of its bytes, with their number. Arguments: the address and the
/// port, and the number of clients.
const SERVER: &str = "import socket, sys
host, port, clients = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
family = socket.AF_INET6 if ':' in host else socket.AF_INET
server = socket.create_server((host, port), family=family)
print('ready', flush=True)
for _ in range(clients):
    client, _ = server.accept()
    count = 0
    while part := client.recv(65536): count += len(part)
    client.sendall(b'%d bytes' % count)
    client.close()
";

/// Connects to ports of 127.0.0.1 and prints the outcomes, then waits for the end of its input.
const CLIENT: &str = "import socket, sys
for port in sys.argv[1:]:
    try: socket.create_connection(('127.0.0.1', int(port)), timeout=60); print('connected')
    except OSError as error: print(type(error).__name__)
print('ready', flush=True)
sys.stdin.read()
";

/// A user, and a mechanism with a network namespace that works for it here.
struct Case {
    world: World,
    mechanism: &'static str,
    is_ordinary: bool,
}

/// Runs a test for each such mechanism: as this user, and as an ordinary one if this one is root.
#[expect(clippy::print_stderr, reason = "a skip is said")]
fn each(test: impl Fn(&Case)) {
    let is_root = rustix::process::geteuid().is_root();
    let mut tested = 0;
    for mechanism in ["namespaces", "bubblewrap"] {
        for is_ordinary in [false, true].into_iter().filter(|other| is_root || !other) {
            let case = Case::new(mechanism, is_ordinary);
            if case
                .forge(&["exec", "--mechanism", mechanism, "--", "true"])
                .code
                != 0
            {
                eprintln!("skipped: {mechanism} does not work here");
                continue;
            }
            tested += 1;
            test(&case);
        }
    }
    assert!(tested > 0, "this host has no network namespaces");
}

/// Returns a port that is free at this moment.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

impl Case {
    fn new(mechanism: &'static str, is_ordinary: bool) -> Case {
        let world = World::new(&[("server.py", SERVER), ("client.py", CLIENT)]);
        copy_forge(&world.outside().join("forge"), b"");
        if is_ordinary {
            let mut chown = Command::new("chown");
            chown.arg("-R").arg(format!("{ORDINARY}:{ORDINARY}"));
            assert!(chown.arg(world.outside()).status().unwrap().success());
        }
        Case {
            world,
            mechanism,
            is_ordinary,
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let forge = self.world.outside().join("forge");
        if !self.is_ordinary {
            return self.world.command(&forge, args);
        }
        let user = ["--reuid", ORDINARY, "--regid", ORDINARY, "--clear-groups"];
        let forge = [forge.to_str().unwrap()];
        let words = [&user[..], &forge, args].concat();
        self.world.command(Path::new("setpriv"), &words)
    }

    fn forge(&self, args: &[&str]) -> Ran {
        ran(self.command(args).output().unwrap())
    }

    /// Starts a command that publishes a port, and waits until it says that it is ready.
    fn start(&self, port: u16, options: &[&str], words: &[&str]) -> Published {
        let key = format!("network.loopback_in=[{port}]");
        let receipt = self.world.outside().join("receipt.json");
        let before = [
            "exec",
            "--mechanism",
            self.mechanism,
            "-c",
            &key,
            "--receipt",
            receipt.to_str().unwrap(),
        ];
        let args = [&before[..], options, &["--"], words].concat();
        let mut command = self.command(&args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line| line != "ready") {
            let mut line = String::new();
            if output.read_line(&mut line).unwrap() == 0 {
                let ended = child.wait_with_output().unwrap();
                panic!(
                    "{}: {}",
                    self.name(),
                    String::from_utf8_lossy(&ended.stderr)
                );
            }
            lines.push(line.trim_end().to_owned());
        }
        lines.pop();
        Published {
            child,
            _output: output,
            lines,
        }
    }

    fn receipt(&self) -> Value {
        let text = std::fs::read_to_string(self.world.outside().join("receipt.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    fn name(&self) -> String {
        format!("{} (ordinary: {})", self.mechanism, self.is_ordinary)
    }
}

/// A command with a published port.
struct Published {
    child: Child,
    _output: BufReader<ChildStdout>,
    /// The lines before `ready`.
    lines: Vec<String>,
}

impl Published {
    /// Ends the input of the command, and returns its errors.
    fn end(mut self) -> String {
        drop(self.child.stdin.take());
        let ended = self.child.wait_with_output().unwrap();
        let errors = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.success(), "{errors}");
        errors
    }
}

fn connect(ip: IpAddr, port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::new(ip, port), WATCHDOG)?;
    stream.set_read_timeout(Some(WATCHDOG))?;
    Ok(stream)
}

/// Sends bytes, ends that direction, and returns the answer.
fn exchange(ip: IpAddr, port: u16, bytes: usize) -> String {
    let mut stream = connect(ip, port).unwrap();
    stream.write_all(&vec![b'x'; bytes]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// The addresses of this machine's loopback.
fn addresses() -> Vec<IpAddr> {
    let has_ipv6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    [V4, V6]
        .into_iter()
        .filter(|ip| ip.is_ipv4() || has_ipv6)
        .collect()
}

#[test]
fn a_client_outside_reaches_the_server_inside() {
    each(|case| {
        let name = case.name();
        for inside in ["127.0.0.1", "::1", "0.0.0.0"] {
            for options in [&[][..], &["--host", "a.example"]] {
                let port = free_port();
                let outside = addresses();
                let count = outside.len().to_string();
                let words = ["python3", "server.py", inside, &port.to_string(), &count];
                let command = case.start(port, options, &words);
                for ip in &outside {
                    assert_eq!(
                        exchange(*ip, port, 300_000),
                        "300000 bytes",
                        "{name} {inside} {ip}"
                    );
                }
                let line = format!("http://127.0.0.1:{port} is the command's port {port}\n");
                let errors = command.end();
                assert!(errors.contains(&line), "{name}: {errors}");
                let receipt = case.receipt();
                let contacts = receipt["contacts"].as_array().unwrap();
                assert_eq!(contacts.len(), outside.len(), "{name}: {receipt:#}");
                for (contact, ip) in contacts.iter().zip(&outside) {
                    assert_eq!(contact["kind"], "inbound", "{name}");
                    assert_eq!(contact["host"], ip.to_string(), "{name}");
                    assert_eq!(contact["port"], port, "{name}");
                    assert_eq!(contact["outcome"], "connected", "{name}");
                    let (sent, received) = (&contact["sent"], &contact["received"]);
                    assert_eq!(
                        (sent.as_u64(), received.as_u64()),
                        (Some(12), Some(300_000))
                    );
                }
            }
        }
    });
}

/// The port is open for as long as the command runs, on the loopback only, and leads the command
/// nowhere.
#[test]
fn a_published_port_is_a_door_inwards() {
    each(|case| {
        let name = case.name();
        let (port, service) = (free_port(), TcpListener::bind((V4, 0)).unwrap());
        let of_service = service.local_addr().unwrap().port();
        let (inner, outer) = (port.to_string(), of_service.to_string());
        let command = case.start(port, &[], &["python3", "client.py", &inner, &outer]);
        // Neither the listener outside nor a server of the host.
        let refused = "ConnectionRefusedError";
        assert_eq!(command.lines, [refused, refused], "{name}");
        service.set_nonblocking(true).unwrap();
        assert!(service.accept().is_err(), "{name}");
        for ip in addresses() {
            // Connected, and closed at once.
            let got = connect(ip, port).and_then(|mut stream| stream.read(&mut [0; 1]));
            let is_closed = match &got {
                Ok(count) => *count == 0,
                Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
            };
            assert!(is_closed, "{name} {ip}: {got:?}");
        }
        let elsewhere = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
        let error = connect(elsewhere, port).unwrap_err();
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::ConnectionRefused,
            "{name}"
        );
        command.end();
        for ip in addresses() {
            let error = connect(ip, port).unwrap_err();
            assert_eq!(
                error.kind(),
                std::io::ErrorKind::ConnectionRefused,
                "{name}"
            );
        }
        let contacts = &case.receipt()["contacts"];
        assert_eq!(contacts[0]["outcome"], "failed", "{name}: {contacts:#}");
    });
}

#[test]
fn many_clients_at_once() {
    each(|case| {
        const CLIENTS: usize = 200;
        let port = free_port();
        let count = CLIENTS.to_string();
        let words = [
            "python3",
            "server.py",
            "127.0.0.1",
            &port.to_string(),
            &count,
        ];
        let command = case.start(port, &[], &words);
        let mut clients: Vec<TcpStream> =
            (0..CLIENTS).map(|_| connect(V4, port).unwrap()).collect();
        // The server takes them one after the other, and each ends its bytes.
        for client in &mut clients {
            client.write_all(b"abc").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
        }
        for mut client in clients {
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert_eq!(answer, "3 bytes", "{}", case.name());
        }
        command.end();
    });
}

#[test]
fn a_port_in_use_is_named_and_the_command_does_not_start() {
    each(|case| {
        for ip in addresses() {
            let taken = TcpListener::bind((ip, 0)).unwrap();
            let port = taken.local_addr().unwrap().port();
            let key = format!("network.loopback_in=[{port}]");
            let args = [
                "exec",
                "--mechanism",
                case.mechanism,
                "-c",
                &key,
                "--",
                "touch",
                "x",
            ];
            let refused = case.forge(&args);
            let address = SocketAddr::new(ip, port);
            refused.code(125).says(&[
                &format!("cannot publish port {port} of the command"),
                &address.to_string(),
                "hint: ",
            ]);
            assert!(!case.world.project().join("x").exists());
        }
    });
}

#[test]
fn without_a_network_namespace_the_command_is_refused() {
    let world = World::new(&[]);
    let port = free_port();
    let key = format!("network.loopback_in=[{port}]");
    let args = [
        "exec",
        "--mechanism",
        "landlock",
        "-c",
        &key,
        "--",
        "touch",
        "x",
    ];
    let refused = world.forge(&args);
    refused.code(125).says(&[
        "a published port needs a network namespace",
        "loopback_in=[]",
    ]);
    assert!(!world.project().join("x").exists());
    // A command without a sandbox listens on the host's loopback itself, so forge publishes nothing.
    let args = ["exec", "--no-os-sandbox", "-c", &key, "--", "true"];
    let unconfined = world.forge(&args);
    assert!(!unconfined.code(0).stderr.contains("is the command's port"));
}

/// A project's file needs a yes, a person's file can refuse, and both are explained.
#[test]
fn a_project_asks_and_a_person_decides() {
    let port = free_port();
    let file = format!("sandbox: {{ root: . }}\nnetwork: {{ loopback_in: [{port}] }}\n");
    let world = World::new(&[("forge.yaml", &file)]);
    let line = format!("is the command's port {port}");
    let args = ["exec", "--", "true"];
    let untrusted = world.forge(&args);
    assert!(
        !untrusted.code(0).stderr.contains(&line),
        "{}",
        untrusted.stderr
    );
    untrusted.says(&["network"]);
    let shown = world.forge(&["trust", "--show"]);
    let value = format!("loopback_in: {port}");
    assert!(shown.stdout.contains(&value), "{}", shown.stdout);
    let trusted = world.forge(&["--trust", "exec", "--", "true"]);
    trusted.code(0).says(&[&line]);
    let checked = world.forge(&["--trust", "check"]);
    let ports = format!("published ports: {port}");
    assert!(
        checked.code(0).stdout.contains(&ports),
        "{}",
        checked.stdout
    );

    let config = world.outside().join("home/.config/forge");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("config.yaml"), "network: false\n").unwrap();
    let forbidden = world.forge(&["--trust", "exec", "--", "true"]);
    assert!(
        !forbidden.code(0).stderr.contains(&line),
        "{}",
        forbidden.stderr
    );
    forbidden.says(&["your own file"]);
}
