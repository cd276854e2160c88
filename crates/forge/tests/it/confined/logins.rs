//! `open_urls`: a command opens URLs of named origins in the person's browser, and a login's answer
//! reaches the port on which the command waits for it, while it waits.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::exec::{mechanisms, mount_layers};
use crate::support::{Ran, World, forge_program, ran};

/// An agent that logs in: it listens, opens a URL and prints the path of the answer.
const AGENT: &str = "import http.server, subprocess, sys, urllib.parse, webbrowser
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print('answered', self.path, flush=True)
        self.send_response(200); self.send_header('Content-Length', '2'); self.end_headers()
        self.wfile.write(b'ok')
    def log_message(self, *_): pass
port, how = int(sys.argv[1]), sys.argv[2]
server = http.server.HTTPServer(('127.0.0.1', port), Answer)
server.timeout = 20
back = urllib.parse.quote(f'http://localhost:{port}/callback', safe='')
url = f'https://claude.ai/oauth?state=1&redirect_uri={back}'
if how == 'webbrowser': assert webbrowser.open(url)
else: subprocess.run([how, url], check=True)
server.handle_request()
";

/// A browser: it notes its arguments and follows `redirect_uri`.
const BROWSER: &str = "#!/usr/bin/python3
import sys, urllib.parse, urllib.request
open(__file__ + '.log', 'a').write(repr(sys.argv[1:]) + '\\n')
query = urllib.parse.parse_qs(urllib.parse.urlsplit(sys.argv[1]).query)
for back in query.get('redirect_uri', []):
    if back.startswith('http://localhost:'):
        got = urllib.request.urlopen(back + '?code=7', timeout=20).read()
        open(__file__ + '.log', 'a').write('got ' + got.decode() + '\\n')
";

fn world() -> World {
    let world = World::new(&[
        ("forge.yaml", "sandbox: { root: . }\n"),
        ("agent.py", AGENT),
    ]);
    let browser = world.outside().join("browser");
    fs::write(&browser, BROWSER).unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    world
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

impl World {
    fn browser_log(&self) -> PathBuf {
        self.outside().join("browser.log")
    }

    fn opened(&self) -> String {
        let log = fs::read_to_string(self.browser_log()).unwrap_or_default();
        let _ = fs::remove_file(self.browser_log());
        log
    }

    fn login_command(&self, mechanism: &str, flags: &[&str], command: &[&str]) -> Command {
        let first = [
            "exec",
            "--no-share",
            "--preset",
            "claude",
            "--mechanism",
            mechanism,
        ];
        let all = [&first[..], flags, &["--"], command].concat();
        let mut command = self.command(forge_program(), &all);
        command
            .env("PATH", "/usr/bin:/bin")
            .env("BROWSER", self.outside().join("browser"));
        command
    }

    fn logs_in(&self, mechanism: &str, flags: &[&str], command: &[&str]) -> Ran {
        let mut command = self.login_command(mechanism, flags, command);
        ran(command.output().unwrap())
    }
}

#[test]
fn a_login_opens_the_browser_and_gets_its_answer() {
    let world = world();
    for mechanism in mount_layers(&world) {
        for how in ["xdg-open", "sensible-browser", "www-browser", "webbrowser"] {
            let port = free_port();
            let agent = ["python3", "agent.py", &port.to_string(), how];
            let ran = world.logs_in(mechanism, &[], &agent);
            let told = format!("{mechanism} {how}: {} {}", ran.stdout, ran.stderr);
            assert_eq!(ran.stdout, "answered /callback?code=7\n", "{told}");
            ran.code(0).says(&[
                "opened a URL of https://claude.ai in your browser",
                "URLs for your browser: 1 opened",
            ]);
            let record = world.forge(&["log", "show", "last", "--json"]).stdout;
            for part in ["\"open_url\"", "https://claude.ai"] {
                assert!(record.contains(part), "{told}: {record}");
            }
            let log = world.opened();
            let url = format!(
                "['https://claude.ai/oauth?state=1&redirect_uri=http%3A%2F%2Flocalhost%3A{port}%2Fcallback']\n"
            );
            assert!(log.starts_with(&url), "{told}: {log}");
            assert!(
                TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err(),
                "{told}"
            );
        }
    }
}

#[test]
fn the_port_of_a_login_closes_after_its_answer() {
    let world = world();
    for mechanism in mount_layers(&world) {
        let port = free_port();
        // Listens on until the test is over: only forge closes the way to it.
        let script = format!(
            "python3 agent.py {port} xdg-open && python3 -m http.server -b 127.0.0.1 {port} & read _; kill %1"
        );
        let mut command = world.login_command(mechanism, &[], &["bash", "-c", &script]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let connects = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        let until = |wanted: bool| {
            (0..100).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(100));
                fs::read_to_string(world.browser_log()).is_ok_and(|log| log.contains("got ok"))
                    && connects() == wanted
            })
        };
        assert!(until(false), "{mechanism}: the port stays open");
        let ended_before = child.try_wait().unwrap().is_some();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(
            !ended_before,
            "{mechanism}: the port closed only at the end"
        );
        world.opened();
    }
}

/// URLs that are refused, and a part of the line that says so.
fn refused() -> Vec<(String, &'static str)> {
    let back = |target: &str| format!("https://claude.ai/o?redirect_uri={target}");
    let rows = [
        ("https://example.com/", "does not name https://example.com"),
        ("https://claude.ai.example.com/", "does not name"),
        (
            "https://claude.ai:8443/",
            "does not name https://claude.ai:8443",
        ),
        ("http://claude.ai/", "does not begin with https://"),
        ("javascript:alert(1)", "does not begin with https://"),
        ("file:///etc/passwd", "does not begin with https://"),
        ("--help", "does not begin with https://"),
        ("https://me@claude.ai/", "user name"),
        ("https://claude.ai@example.com/", "user name"),
        ("https://@claude.ai/", "user name"),
        ("https://claude.ai\\@example.com/", "characters"),
        ("https://claude.ai/\u{1b}[2J", "characters"),
        ("https://claude.ai/\t", "characters"),
        ("https://claude.ai/a b", "characters"),
        ("https://cl\u{430}ude.ai/", "characters"),
    ];
    let rows = rows.map(|(url, why)| (url.to_owned(), why));
    let ports = [
        "http://localhost:80/",
        "http://localhost:1023/",
        "http://127.0.0.1/",
        "http://localhost:0/",
    ];
    let ports = ports.map(|target| (back(target), "below 1024"));
    let long = format!("https://claude.ai/{}", "a".repeat(3000));
    let twice = back("http://localhost:5000/&redirect_uri=http://localhost:5001/");
    let others = [(long, "longer than"), (twice, "two values")];
    rows.into_iter().chain(ports).chain(others).collect()
}

#[test]
fn other_urls_are_not_opened() {
    let world = world();
    for mechanism in mechanisms(&world) {
        for (url, why) in refused() {
            let ran = world.logs_in(mechanism, &[], &["sh", "-c", "xdg-open \"$1\"", "sh", &url]);
            let told = format!("{mechanism} {url:?}: {}", ran.stderr);
            assert!(ran.stderr.contains(why), "{told}");
            assert!(
                ran.stderr.contains("URLs for your browser: 1 refused"),
                "{told}"
            );
            assert!(!ran.stderr.contains('\u{1b}'), "{told}");
            assert_eq!(world.opened(), "", "{told}");
        }
    }
}

#[test]
fn an_answer_elsewhere_opens_no_port_and_a_port_in_use_opens_no_browser() {
    let world = world();
    let open = "xdg-open \"$1\"; sleep 1";
    for mechanism in mount_layers(&world) {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let elsewhere = format!("https://claude.ai/o?redirect_uri=http://example.com:{port}/");
        let ran = world.logs_in(mechanism, &[], &["sh", "-c", open, "sh", &elsewhere]);
        ran.code(0).says(&["URLs for your browser: 1 opened"]);
        assert!(world.opened().contains("example.com"), "{mechanism}");
        let here = format!("https://claude.ai/o?redirect_uri=http://localhost:{port}/");
        let ran = world.logs_in(mechanism, &[], &["sh", "-c", open, "sh", &here]);
        ran.code(0)
            .says(&["another program of this machine uses", "1 refused"]);
        assert_eq!(world.opened(), "", "{mechanism}");
    }
}

#[test]
fn many_requests_are_bounded() {
    let world = world();
    let script = "i=0; while [ $i -lt 1000 ]; do xdg-open https://example.com/$i; i=$((i+1)); done";
    let mechanism = mount_layers(&world)[0];
    let ran = world.logs_in(mechanism, &[], &["sh", "-c", script]);
    ran.code(0)
        .says(&["more than 20 URLs", "URLs for your browser: 1000 refused"]);
    assert!(ran.stderr.lines().count() < 40, "{}", ran.stderr);
}

#[test]
fn the_person_names_more_origins() {
    let world = world();
    let mechanism = mount_layers(&world)[0];
    let open = ["sh", "-c", "xdg-open https://example.com/"];
    let ran = world.logs_in(mechanism, &["--open-url", "https://example.com"], &open);
    ran.code(0).says(&["opened a URL of https://example.com"]);
    let is_open = || fs::read(world.browser_log()).is_ok_and(|log| log.ends_with(b"\n"));
    let wait = || std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(
        (0..100).any(|_| is_open() || {
            wait();
            false
        }),
        "no browser"
    );
    assert_eq!(world.opened(), "['https://example.com/']\n");
    for bad in [
        "http://example.com",
        "https://example.com/",
        "https://EXAMPLE.com",
        "https://*",
    ] {
        let ran = world.logs_in(mechanism, &["--open-url", bad], &open);
        assert!(ran.stderr.contains("no path"), "{bad}: {}", ran.stderr);
    }
}
