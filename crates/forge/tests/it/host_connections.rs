//! Many connections of a command to a named host: they take nothing that its guards need.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use crate::support::{World, forge_program};

/// Opens many connections, waits until the server has greeted some of them (the others wait for a
/// place, or are refused), plants a protected name, and ends without closing any.
const PLANT: &str = "import socket, sys
port = int(sys.argv[1])
open_ones = [socket.create_connection(('127.0.0.1', port)) for _ in range(400)]
greeted = 0
for one in open_ones:
    try: greeted += one.recv(1) == b'x'
    except OSError: pass
    if greeted == 5: break
print(greeted)
open('.envrc', 'w').write('planted')
sys.exit(7)
";

/// Every road on which the broker has a connection for the command: none keeps the sweep from its
/// descriptors, however few the process may have.
#[test]
fn planted_names_are_found_however_many_connections_are_open() {
    let world = World::new(&[("plant.py", PLANT)]);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    // A server that greets and never closes.
    std::thread::spawn(move || {
        let mut kept: Vec<TcpStream> = Vec::new();
        for mut stream in listener.incoming().map_while(Result::ok) {
            stream.write_all(b"x").unwrap();
            kept.push(stream);
        }
    });
    for descriptors in [300, 1024] {
        let script = format!("ulimit -Sn {descriptors}; exec \"$0\" \"$@\"");
        let forge = forge_program().to_str().unwrap();
        let host = format!("localhost:{port}");
        let exec = ["exec", "--mechanism", "namespaces", "--host", &host, "--"];
        let command = ["python3", "plant.py", &port];
        let args = [&["-c", &script, forge][..], &exec, &command].concat();
        let ran = world.command("sh".as_ref(), &args).output().unwrap();
        let errors = String::from_utf8_lossy(&ran.stderr);
        if errors.contains("OS sandbox required") {
            println!("skipped: bubblewrap cannot be used here: {errors}");
            return;
        }
        assert_eq!(ran.status.code(), Some(7), "{descriptors}: {errors}");
        assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), "5");
        assert!(errors.contains("quarantined: "), "{descriptors}: {errors}");
        assert!(!world.project().join(".envrc").exists(), "{descriptors}");
    }
}
