//! Records of a command that makes noise: the connections that it was allowed, the mechanism and the
//! promises stay in the log and in the receipt, and no text says that nothing was refused.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::Value;

use crate::support::World;

/// Uploads to the first port, and functions that make noise.
const PRELUDE: &str = r#"
import os, socket, sys
proxy = os.environ['http_proxy'].split('//')[1].strip('/')
user, _, address = proxy.rpartition('@')
host, port = address.split(':')
import base64
auth = 'Proxy-Authorization: Basic ' + base64.b64encode(user.encode()).decode() + '\r\n' if user else ''
def connect(name):
    s = socket.create_connection((host, int(port)))
    s.sendall(f'CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n{auth}\r\n'.encode())
    return s, s.recv(99).split()[1]
def upload():
    s, code = connect('localhost:' + sys.argv[1])
    assert code == b'200', code
    s.sendall(b'x' * 40000)
    s.shutdown(socket.SHUT_WR)
    while s.recv(9999): pass
def short_names():
    for i in range(700): connect(f'x{i}.no:80')
def long_names():
    for i in range(100): connect('.'.join(['a' * 60] * 4)[:238] + f'.{i}.no:80')
def long_paths():
    for i in range(64):
        for p in ('/usr/lib/' + ('\x01' * 200 + '/') * 4 + '\x01' * 180 + str(i), '/usr/lib/' + ('d' * 240 + '/') * 4 + 'd' * 20 + str(i)):
            try: os.mkdir(p)
            except OSError: pass
def allowed():
    for i in range(1010):
        s, code = connect('localhost:' + sys.argv[2])
        assert code == b'200', code
        s.close()
def protected():
    for i in range(300): os.makedirs(f'{i}-{"q" * 200}/.vscode')
def files():
    for i in range(400): open(f'{i}-{"f" * 230}', 'w').close()
"#;

/// Answers each connection, after its end, with a byte.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let _ = stream.read_to_end(&mut Vec::new());
                let _ = stream.write_all(b"!");
            });
        }
    });
    port
}

#[test]
fn noise_removes_no_connection_from_the_records_and_no_promise() {
    let (first, second) = (serve().to_string(), serve().to_string());
    for calls in [
        "upload()",
        "short_names(); upload()",
        "upload(); long_paths(); long_names()",
        "long_paths(); long_names(); upload()",
        "upload(); protected(); files(); short_names()",
        "allowed(); upload()",
        "allowed(); upload(); long_paths(); long_names(); short_names(); protected(); files()",
    ] {
        let world = World::new(&[("script.py", &format!("{PRELUDE}{calls}\n"))]);
        let receipt = world.outside().join("receipt.json");
        let ran = world.forge(&[
            "exec",
            "--receipt",
            receipt.to_str().unwrap(),
            "--host",
            &format!("localhost:{first}"),
            "--host",
            &format!("localhost:{second}"),
            "--",
            "python3",
            "script.py",
            &first,
            &second,
        ]);
        ran.code(0);
        let receipt: Value =
            serde_json::from_str(&std::fs::read_to_string(receipt).unwrap()).unwrap();
        let audit = world.audit();
        let mut lines = audit
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let line = lines.find(|line| line["kind"] == "execution").unwrap();
        for (name, record) in [("receipt", &receipt), ("log", &line["enforcement"])] {
            let totals = record["contact_totals"].as_array();
            let rule = format!("localhost:{first}");
            let is_upload = |one: &Value| {
                one["rule"] == rule
                    && one["connections"] == 1
                    && one["sent"].as_u64() >= Some(40_000)
            };
            let has_upload = totals.is_some_and(|all| all.iter().any(is_upload));
            assert!(has_upload, "{calls}: {name}: {totals:?}");
            assert!(record["backend"].is_string(), "{calls}: {name}");
            assert_eq!(record["promises"], receipt["promises"], "{calls}: {name}");
            if !calls.contains("allowed") {
                let contacts = record["contacts"].as_array().unwrap();
                let is_listed = contacts.iter().any(|one| one["outcome"] == "connected");
                assert!(is_listed, "{calls}: {name}");
            }
        }
        if calls.contains("names") {
            let explained = world.forge(&["explain", "--from-run", "last"]).stdout;
            assert!(!explained.contains("nothing"), "{calls}: {explained}");
            let allowed = world.forge(&["allow", "--last"]);
            let text = format!("{}{}", allowed.stdout, allowed.stderr);
            assert!(!text.contains("refused nothing"), "{calls}: {text}");
        }
        let shown = world.forge(&["log", "show"]).stdout;
        assert!(
            shown.contains(&format!("localhost:{first} (1 connection")),
            "{calls}: {shown}"
        );
    }
}
