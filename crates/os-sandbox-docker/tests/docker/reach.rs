//! The ways to an engine: what works, what is refused, and what is said then. Every wait ends.

use crate::daemon::{Daemon, find, unpacked};
use os_sandbox::ErrorKind;
use os_sandbox_docker::{Address, Engine};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Nothing takes longer, whatever is at the other end.
const BOUND: Duration = Duration::from_secs(600);

/// What is said where nothing can be used: the address, and each of these.
fn refused(address: Address, says: &[&str]) {
    let shown = address.to_string();
    let since = Instant::now();
    let error = Engine::at(address).map(drop).expect_err(&shown);
    assert!(since.elapsed() < BOUND, "{shown}: {:?}", since.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{shown}: {error}");
    assert!(error.hint().is_some(), "{shown}: no hint");
    let text = error.to_string();
    for part in says.iter().chain([&shown.as_str()]) {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

fn parse(text: &str) -> Address {
    Address::parse(text).expect(text)
}

pub(crate) fn unix(engine: &Daemon) {
    let connected = Engine::connect(Some(engine.host())).expect("an engine");
    connected.ping().expect("it answers");
    assert!(!connected.version().is_empty());
    assert_eq!(connected.address().to_string(), engine.host());
    let scratch = tempfile::tempdir().expect("a directory");
    let at = |name: &str| format!("unix://{}", scratch.path().join(name).display());
    refused(parse(&at("nothing")), &["No such file"]);
    fs::write(scratch.path().join("file"), "").expect("a file");
    refused(parse(&at("file")), &["refused"]);
    // Names are only names.
    let odd = "a b,c:d\"e\\f%20?x#y";
    let socket = engine.host().strip_prefix("unix://").expect("a path");
    std::os::unix::fs::symlink(socket, scratch.path().join(odd)).expect("a link");
    Engine::connect(Some(&at(odd))).expect("an engine behind an odd name");
    // Somebody who answers, and not as an engine does.
    for (name, answer) in [
        ("closes", ""),
        ("silent", "-"),
        ("talks", "SSH-2.0-OpenSSH\r\n"),
        ("empty", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
        (
            "old",
            "HTTP/1.1 200 OK\r\nContent-Length: 46\r\n\r\n{\"ApiVersion\":\"1.24\",\"Version\":\"1.12\",\"Os\":\"\"}",
        ),
    ] {
        let listener = std::os::unix::net::UnixListener::bind(scratch.path().join(name));
        let listener = listener.expect("a socket");
        std::thread::spawn(move || {
            let mut held = Vec::new();
            while let Ok((mut stream, _)) = listener.accept() {
                use std::io::{Read, Write};
                if answer != "-" {
                    let _asked = stream.read(&mut [0; 4096]);
                    let _told = stream.write_all(answer.as_bytes());
                } else {
                    held.push(stream);
                }
            }
        });
        let says: &[&str] = match name {
            "silent" => &["within"],
            "old" => &["1.24", "1.40"],
            _ => &[],
        };
        refused(parse(&at(name)), says);
    }
}

/// A port of the loopback that nobody has.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

/// An authority, and a certificate by it for the loopback, made with openssl.
fn certificates(directory: &Path) {
    fs::create_dir_all(directory).expect("a directory");
    let openssl = |arguments: &[&str]| {
        let output = Command::new("openssl")
            .args(arguments)
            .current_dir(directory)
            .output();
        let output = output.expect("openssl");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {arguments:?}: {errors}");
    };
    let new = |name: &str, more: &[&str]| {
        let (key, request, subject) = (
            format!("{name}key.pem"),
            format!("{name}.csr"),
            format!("/CN=test {name}"),
        );
        let curve = [
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ];
        let mut arguments = vec!["req", "-keyout", &key, "-out", &request, "-subj", &subject];
        arguments.extend(curve);
        arguments.extend(more);
        openssl(&arguments);
    };
    fs::write(
        directory.join("names"),
        "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n",
    )
    .expect("a file");
    new("ca", &["-x509", "-days", "2"]);
    fs::rename(directory.join("ca.csr"), directory.join("ca.pem")).expect("renamed");
    for (name, certificate) in [("server-", "server-cert.pem"), ("", "cert.pem")] {
        new(name, &[]);
        let request = format!("{name}.csr");
        openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "ca.pem",
            "-CAkey",
            "cakey.pem",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            "names",
            "-out",
            certificate,
        ]);
    }
}

pub(crate) fn tcp_and_tls(_: &Daemon) {
    if find("openssl").is_none() {
        println!("  skipped: openssl is not installed");
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let (good, other) = (scratch.path().join("good"), scratch.path().join("other"));
    certificates(&good);
    certificates(&other);
    let (plain, tls) = (free_port(), free_port());
    let address = format!("tcp://127.0.0.1:{plain}");
    let path = |name: &str| good.join(name).display().to_string();
    let daemon = Daemon::start_in(&std::env::temp_dir(), |_| {
        vec![format!("--host={address}"), "--tls=false".to_owned()]
    });
    let daemon = daemon.expect("an engine");
    let connected = Engine::connect(Some(&address)).expect("an engine at a port");
    connected.ping().expect("it answers");
    refused(
        parse(&address)
            .with_certificates(&good)
            .expect("certificates"),
        &[],
    );
    drop(daemon);
    refused(parse(&address), &["refused"]);

    let address = format!("tcp://127.0.0.1:{tls}");
    let daemon = Daemon::start_in(&std::env::temp_dir(), |_| {
        vec![
            format!("--host={address}"),
            "--tlsverify".to_owned(),
            format!("--tlscacert={}", path("ca.pem")),
            format!("--tlscert={}", path("server-cert.pem")),
            format!("--tlskey={}", path("server-key.pem")),
        ]
    });
    let _daemon = daemon.expect("an engine with TLS");
    let with = |directory: &Path| parse(&address).with_certificates(directory);
    let connected = Engine::at(with(&good).expect("certificates")).expect("an engine by TLS");
    for _ in 0..3 {
        connected.ping().expect("it answers");
    }
    refused(parse(&address), &[]);
    // The same engine by a name that its certificate has not.
    let named = parse(&format!("tcp://localhost:{tls}"));
    let named = named.with_certificates(&good).expect("certificates");
    refused(named, &["certificate not valid for name"]);
    refused(with(&other).expect("certificates"), &["certificate"]);
    // The right authority, and a certificate of the other.
    for name in ["cert.pem", "key.pem"] {
        fs::copy(other.join(name), good.join(name)).expect("a copy");
    }
    refused(with(&good).expect("certificates"), &[]);
    // A key that is not that certificate's.
    fs::copy(good.join("server-key.pem"), good.join("key.pem")).expect("a copy");
    let wrong = with(&good).map(drop).expect_err("another key");
    assert_eq!(wrong.kind(), ErrorKind::Invalid);
}

pub(crate) fn ssh(engine: &Daemon) {
    let prepared = match Sshd::start(engine) {
        Ok(prepared) => prepared,
        Err(reason) => {
            println!("  skipped: {reason}");
            return;
        }
    };
    let address = format!("ssh://root@127.0.0.1:{}", prepared.port);
    prepared.connects(&address);
}

/// A server for ssh on the loopback, with its own keys; the client's are found by HOME, so that the
/// client's part runs in a process with another one.
struct Sshd {
    server: std::process::Child,
    port: u16,
    home: tempfile::TempDir,
}

impl Sshd {
    fn start(engine: &Daemon) -> Result<Sshd, String> {
        for program in ["ssh", "ssh-keygen"] {
            find(program).ok_or(format!("{program} is not installed"))?;
        }
        let (sshd, libraries) = match find("sshd") {
            Some(sshd) => (sshd, None),
            None => (
                unpacked("openssh-server")?.join("usr/sbin/sshd"),
                Some(unpacked("libwrap0")?.join("usr/lib")),
            ),
        };
        let libraries = libraries.map(|all| {
            let list = fs::read_dir(&all).into_iter().flatten().flatten();
            let inner = list.map(|entry| entry.path()).filter(|path| path.is_dir());
            std::env::join_paths(inner.chain([all.clone()])).unwrap_or_default()
        });
        let home = tempfile::tempdir().map_err(|error| error.to_string())?;
        Sshd::with(engine, (&sshd, libraries), home)
            .map_err(|error| format!("no sshd here: {error}"))
    }

    fn with(
        engine: &Daemon,
        (sshd, libraries): (&Path, Option<std::ffi::OsString>),
        home: tempfile::TempDir,
    ) -> Result<Sshd, String> {
        let text = |error: std::io::Error| error.to_string();
        let at = |name: &str| home.path().join(name);
        fs::create_dir(at(".ssh")).map_err(text)?;
        fs::set_permissions(at(".ssh"), fs::Permissions::from_mode(0o700)).map_err(text)?;
        for key in ["host", ".ssh/id_ed25519"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(at(key))
                .status();
            if !made.is_ok_and(|status| status.success()) {
                return Err("ssh-keygen failed".to_owned());
            }
        }
        fs::copy(at(".ssh/id_ed25519.pub"), at("authorized")).map_err(text)?;
        let port = free_port();
        let key = fs::read_to_string(at("host.pub")).map_err(text)?;
        fs::write(at("known"), format!("[127.0.0.1]:{port} {key}")).map_err(text)?;
        // Not the host's own server, nor its users' settings: everything is said here.
        let docker = find("docker").ok_or("docker is not installed")?;
        let forced = format!(
            "{} --host {} system dial-stdio",
            docker.display(),
            engine.host()
        );
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {host}\nAuthorizedKeysFile {keys}\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\n\
             StrictModes no\nPermitRootLogin yes\nPidFile none\nForceCommand {forced}\n",
            host = at("host").display(),
            keys = at("authorized").display(),
        );
        fs::write(at("sshd_config"), config).map_err(text)?;
        // The user that it wants is made in a mount namespace of its own, not on the host.
        let users = fs::read_to_string("/etc/passwd").map_err(text)?;
        let user = match users.contains("\nsshd:") {
            true => "",
            false => "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n",
        };
        fs::write(at("passwd"), format!("{users}{user}")).map_err(text)?;
        let script = "mount --bind \"$1\" /etc/passwd && mount -t tmpfs none /run && \
                      mkdir -m 755 /run/sshd && shift && exec \"$@\"";
        let log = fs::File::create(at("log")).map_err(text)?;
        let mut server = Command::new("unshare");
        server.args(["--mount", "sh", "-c", script, "sh"]);
        server.arg(at("passwd")).arg(sshd);
        if let Some(libraries) = libraries {
            server.env("LD_LIBRARY_PATH", libraries);
        }
        let server = server
            .args(["-D", "-e", "-f"])
            .arg(at("sshd_config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(text)?;
        let mut started = Sshd { server, port, home };
        let until = Instant::now() + Duration::from_secs(600);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if started.server.try_wait().map_err(text)?.is_some() || Instant::now() > until {
                let log = fs::read_to_string(started.home.path().join("log"));
                return Err(log.unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(started)
    }

    /// Runs the client's part with our HOME. ssh itself reads the home from the list of users, so the
    /// program is one that names the files.
    fn connects(&self, address: &str) {
        let at = |name: &str| self.home.path().join(name).display().to_string();
        let programs = self.home.path().join("programs");
        fs::create_dir(&programs).expect("a directory");
        let real = find("ssh").expect("ssh");
        let wrapper = |known: &str, key: &str| {
            let script = format!(
                "#!/bin/sh\necho \"$@\" >> {log}\nenv > {log}.env\nexec {real} -F none -o UserKnownHostsFile={known} -i {key} \"$@\"\n",
                log = at("arguments"),
                real = real.display(),
                known = at(known),
                key = at(key),
            );
            fs::write(programs.join("ssh"), script).expect("a script");
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(programs.join("ssh"), mode).expect("a mode");
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = format!("{}:{}", programs.display(), path.to_string_lossy());
        let run = || {
            let output = Command::new(std::env::current_exe().expect("own path"))
                .args(["--reach", address])
                .arg(programs.join("ssh"))
                .env("PATH", &path)
                .env("SOME_API_KEY", "secret")
                .stdin(Stdio::null())
                .output()
                .expect("run again");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        wrapper("known", ".ssh/id_ed25519");
        let said = run();
        assert!(said.starts_with("answers"), "{said}");
        let environment = fs::read_to_string(at("arguments.env")).expect("the environment");
        assert!(!environment.contains("secret"), "{environment}");
        let starts = fs::read_to_string(at("arguments")).expect("the arguments");
        // One for the version, kept for the rest.
        assert_eq!(starts.lines().count(), 1, "{starts}");
        wrapper("unknown", ".ssh/id_ed25519");
        let said = run();
        assert!(said.contains("Host key verification failed"), "{said}");
        assert!(
            !self.home.path().join("unknown").exists(),
            "it was taken for the right one"
        );
        wrapper("known", "host");
        let said = run();
        assert!(said.contains("Permission denied"), "{said}");
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ended = self.server.kill();
        let _ended = self.server.wait();
    }
}

/// `--reach ADDRESS SSH`: says whether an engine answers there, by that program.
pub(crate) fn main(arguments: &[String]) -> std::process::ExitCode {
    let connected = match arguments {
        [address, ssh] => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            Engine::at(parse(address).ssh(ssh, path))
        }
        _ => Engine::connect(arguments.first().map(String::as_str)),
    };
    match connected {
        Ok(engine) => {
            let pings = [engine.ping(), engine.ping()];
            println!("answers {pings:?}");
        }
        Err(error) => println!("{error}\n{}", error.hint().unwrap_or_default()),
    }
    std::process::ExitCode::SUCCESS
}
