//! A git server on loopback: `git http-backend` behind as much of HTTP as git speaks, and behind TLS.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What it does with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    /// This status, and a page.
    Status(&'static str),
    /// To the same path of another server.
    Elsewhere(String),
    /// Hangs up after a half of what it has to say to a request for this.
    HalfAnswer(&'static str),
    /// Hangs up after so many bytes of a request for this.
    HalfRequest(&'static str, usize),
    /// Says nothing to a request for this, and hangs on.
    Silent(&'static str),
    /// Bytes that are no answer.
    Garbage,
    /// An answer that does not end.
    Endless,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) first: String,
    pub(crate) authorization: String,
    pub(crate) chunked: bool,
}

/// Ends with the test's process.
pub(crate) struct Server {
    pub(crate) origin: String,
    /// From now on nothing is answered, and connections stay open.
    pub(crate) silent: Arc<AtomicBool>,
    pub(crate) mood: Arc<Mutex<Mood>>,
    /// It knows the first protocol only.
    pub(crate) old: Arc<AtomicBool>,
    pub(crate) asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub(crate) fn is(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

trait Wire: Read + Write {}
impl<W: Read + Write> Wire for W {}

/// Serves what is in `root`; to whoever shows `authorization`, if there is one.
pub(crate) fn serve(root: &Path, authorization: Option<String>) -> Server {
    serve_with(root, authorization, None)
}

/// The same, with a certificate.
pub(crate) fn serve_with(
    root: &Path,
    authorization: Option<String>,
    tls: Option<Arc<rustls::ServerConfig>>,
) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let scheme = if tls.is_some() { "https" } else { "http" };
    let origin = format!("{scheme}://{}", listener.local_addr().unwrap());
    let server = Server {
        origin,
        silent: Arc::default(),
        mood: Arc::new(Mutex::new(Mood::Well)),
        old: Arc::default(),
        asked: Arc::default(),
    };
    let (quiet, mood) = (Arc::clone(&server.silent), Arc::clone(&server.mood));
    let (root, asked) = (root.to_owned(), Arc::clone(&server.asked));
    let old = Arc::clone(&server.old);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (root, authorization) = (root.clone(), authorization.clone());
            let (quiet, mood) = (Arc::clone(&quiet), Arc::clone(&mood));
            let (tls, asked) = (tls.clone(), Arc::clone(&asked));
            let old = old.load(Ordering::SeqCst);
            std::thread::spawn(move || {
                let wire: Box<dyn Wire> = match tls {
                    None => Box::new(stream),
                    Some(tls) => {
                        let connection = rustls::ServerConnection::new(tls).unwrap();
                        Box::new(rustls::StreamOwned::new(connection, stream))
                    }
                };
                let _whoever_hung_up =
                    answer(wire, root, authorization, &quiet, &mood, &asked, old);
            });
        }
    });
    server
}

fn answer(
    wire: Box<dyn Wire>,
    root: PathBuf,
    authorization: Option<String>,
    silent: &AtomicBool,
    mood: &Mutex<Mood>,
    asked: &Mutex<Vec<Asked>>,
    old: bool,
) -> std::io::Result<()> {
    let mut wire = BufReader::new(wire);
    let mut first = String::new();
    wire.read_line(&mut first)?;
    let mut words = first.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        wire.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None => break,
        }
    }
    let header = |name: &str| {
        let found = headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    };
    let chunked = header("transfer-encoding") == "chunked";
    let length: usize = header("content-length").parse().unwrap_or(0);
    let noted = || {
        asked.lock().unwrap().push(Asked {
            first: first.trim_end().to_owned(),
            authorization: header("authorization").to_owned(),
            chunked,
        });
    };
    if silent.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_secs(120));
        return Ok(());
    }
    let mood = mood.lock().unwrap().clone();
    let reply = |status: &str, more: &str, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\n{more}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let posts = |what: &str| method == "POST" && target.ends_with(what);
    let halves = matches!(&mood, Mood::HalfAnswer(what) if posts(what));
    match &mood {
        Mood::Status(status) => {
            noted();
            let page = reply(status, "Content-Type: text/plain\r\n", "a page\n");
            return wire.get_mut().write_all(page.as_bytes());
        }
        Mood::Elsewhere(origin) => {
            noted();
            let to = format!("Location: {origin}{target}\r\n");
            let page = reply("302 Found", &to, "");
            return wire.get_mut().write_all(page.as_bytes());
        }
        Mood::Garbage => return wire.get_mut().write_all(&[0x5a; 100_000]),
        Mood::Endless => {
            let kind = "application/x-git-upload-pack-advertisement";
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n");
            let line = format!(
                "{:04x}{:0>40} refs/heads/{:0>60}\n",
                4 + 40 + 1 + 11 + 61,
                1,
                1
            );
            let mut much = head + "001e# service=git-upload-pack\n0000";
            loop {
                wire.get_mut().write_all(much.as_bytes())?;
                much = line.repeat(1000);
            }
        }
        Mood::HalfRequest(what, bytes) if posts(what) => {
            noted();
            let mut some = vec![0; *bytes];
            return wire.read_exact(&mut some);
        }
        Mood::Silent(what) if posts(what) => {
            noted();
            std::thread::sleep(Duration::from_secs(120));
            return Ok(());
        }
        Mood::Well | Mood::HalfAnswer(_) | Mood::HalfRequest(..) | Mood::Silent(_) => {}
    }
    if authorization.is_some_and(|wanted| header("authorization") != wanted) {
        noted();
        let page = reply(
            "401 Unauthorized",
            "WWW-Authenticate: Basic realm=\"git\"\r\n",
            "",
        );
        return wire.get_mut().write_all(page.as_bytes());
    }
    let body = match chunked {
        true => chunks(&mut wire)?,
        false => {
            let mut body = vec![0; length];
            wire.read_exact(&mut body)?;
            body
        }
    };
    noted();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", &method)
        .env("REMOTE_ADDR", "127.0.0.1")
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env(
            "GIT_PROTOCOL",
            if old { "" } else { header("git-protocol") },
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut stdin = child.stdin.take().unwrap();
    std::thread::spawn(move || {
        let _it_read_enough = stdin.write_all(&body);
    });
    let output = child.wait_with_output()?.stdout;
    let end = output
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap_or(0);
    let head = String::from_utf8_lossy(&output[..end]).into_owned();
    let status = head.lines().find_map(|line| line.strip_prefix("Status: "));
    let rest: Vec<&str> = head
        .lines()
        .filter(|line| !line.starts_with("Status: "))
        .collect();
    let content = &output[end + 4..];
    let head = format!(
        "HTTP/1.1 {}\r\n{}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        status.unwrap_or("200 OK"),
        rest.join("\r\n"),
        content.len(),
    );
    let said = match halves {
        true => &content[..content.len() / 2],
        false => content,
    };
    wire.get_mut().write_all(head.as_bytes())?;
    wire.get_mut().write_all(said)?;
    wire.get_mut().flush()
}

fn chunks(wire: &mut BufReader<Box<dyn Wire>>) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        wire.read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        wire.read_exact(&mut chunk)?;
        body.extend_from_slice(&chunk[..size]);
        if size == 0 {
            return Ok(body);
        }
    }
}

/// An authority, and a certificate by it for this name, made with openssl; or why not.
pub(crate) fn certificate(
    names: &str,
    authority: &Path,
) -> Result<Arc<rustls::ServerConfig>, String> {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let scratch = tempfile::tempdir().unwrap();
    let openssl = |arguments: &[&str]| {
        let output = Command::new("openssl")
            .args(arguments)
            .current_dir(&scratch)
            .output()
            .map_err(|error| format!("openssl: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    };
    let at = |name: &str| scratch.path().join(name);
    let new = [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ];
    let first = ["-x509", "-days", "2", "-subj", "/CN=test authority"];
    let out = ["-keyout", "ca.key", "-out", "ca.pem"];
    openssl(&[&["req"][..], &new, &first, &out].concat())?;
    let out = ["-subj", "/CN=test", "-keyout", "key.pem", "-out", "csr"];
    openssl(&[&["req"][..], &new, &out].concat())?;
    std::fs::write(at("names"), format!("subjectAltName={names}\n")).unwrap();
    let by = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"];
    let out = [
        "-in", "csr", "-days", "2", "-extfile", "names", "-out", "cert.pem",
    ];
    openssl(&[&["x509", "-req"][..], &by, &out].concat())?;
    std::fs::copy(at("ca.pem"), authority).unwrap();
    let chain = CertificateDer::from_pem_file(at("cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(at("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .unwrap();
    Ok(Arc::new(config))
}
