//! Local sockets: a command's own work where they can be told from the host's, and no daemon of the
//! host is reached by any name that it has inside.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;

use super::exec::mechanisms;
use crate::support::World;

/// Listens, connects, and says what was reached; abstract names begin with `@`.
pub(super) const CLIENT: &str = r#"
import socket, sys
for kind, name in [word.split(":", 1) for word in sys.argv[1:]]:
    name = "\0" + name[1:] if name.startswith("@") else name
    try:
        if kind == "own":
            server = socket.socket(socket.AF_UNIX)
            server.bind(name); server.listen(1)
        if kind == "datagram":
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", name)
        else:
            socket.socket(socket.AF_UNIX).connect(name)
        print("reached")
    except OSError as error:
        print("refused")
"#;

struct Daemons {
    stream: UnixListener,
    datagram: UnixDatagram,
    hidden: UnixListener,
    at_abstract: UnixListener,
    name: String,
}

impl Daemons {
    fn start(project: &Path) -> Daemons {
        std::fs::create_dir_all(project.join("sub/.ssh")).unwrap();
        let name = format!("forge-test-{}-{}", std::process::id(), project.display());
        let at = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let daemons = Daemons {
            stream: UnixListener::bind(project.join("sub/daemon")).unwrap(),
            datagram: UnixDatagram::bind(project.join("messages")).unwrap(),
            hidden: UnixListener::bind(project.join("sub/.ssh/agent")).unwrap(),
            at_abstract: UnixListener::bind_addr(&at).unwrap(),
            name,
        };
        for one in [&daemons.stream, &daemons.hidden, &daemons.at_abstract] {
            one.set_nonblocking(true).unwrap();
        }
        daemons.datagram.set_nonblocking(true).unwrap();
        daemons
    }

    fn nobody_came(&self) -> bool {
        let listeners = [&self.stream, &self.hidden, &self.at_abstract];
        listeners.iter().all(|one| one.accept().is_err())
            && self.datagram.recv(&mut [0; 9]).is_err()
    }
}

#[test]
fn a_command_reaches_its_own_and_no_others() {
    let file = |network| format!("sandbox: {{ root: . }}\nnetwork: {network}\n");
    for network in [false, true] {
        let world = World::new(&[("forge.yaml", &file(network)), ("client.py", CLIENT)]);
        let daemons = Daemons::start(&world.project());
        let at_abstract = format!("stream:@{}", daemons.name);
        for mechanism in mechanisms(&world) {
            let words = [
                "--trust",
                "exec",
                "--mechanism",
                mechanism,
                "--",
                "python3",
                "client.py",
                "own:/tmp/own",
                "own:made.sock",
                "own:@own-of-it",
                "stream:sub/daemon",
                "datagram:messages",
                "stream:sub/.ssh/agent",
                &at_abstract,
            ];
            let ran = world.forge(&words);
            ran.code(0);
            let own = if mechanism == "namespaces" {
                "reached"
            } else {
                "refused"
            };
            let expected = [own, own, own, "refused", "refused", "refused", "refused"];
            let said: Vec<&str> = ran.stdout.lines().collect();
            assert_eq!(
                said, expected,
                "{mechanism}, network {network}: {}",
                ran.stderr
            );
            assert!(daemons.nobody_came(), "{mechanism}, network {network}");
            let _ = std::fs::remove_file(world.project().join("made.sock"));
        }
    }
}

#[test]
fn everyday_programs_find_their_sockets() {
    let world = World::new(&[]);
    if !mechanisms(&world).contains(&"namespaces") {
        eprintln!("skipped: no bubblewrap here");
        return;
    }
    for command in [
        "import multiprocessing as m; d = m.Manager().dict(); d[1] = 2; print(d)",
        "import multiprocessing as m; m.set_start_method('forkserver'); p = m.Process(target=print); p.start(); p.join(); print({1: 2})",
    ] {
        let ran = world.forge(&[
            "exec",
            "--mechanism",
            "namespaces",
            "--",
            "python3",
            "-c",
            command,
        ]);
        ran.code(0);
        assert!(ran.stdout.contains("{1: 2}"), "{}", ran.stderr);
    }
}
