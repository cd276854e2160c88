//! A git server on loopback: `git http-backend` behind as much of HTTP as git speaks.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends with the test's process.
pub(crate) struct Server {
    pub(crate) origin: String,
    /// From now on nothing is answered, and connections stay open.
    pub(crate) silent: Arc<AtomicBool>,
}

/// Serves what is in `root`; to whoever shows `authorization`, if there is one.
pub(crate) fn serve(root: &Path, authorization: Option<String>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let silent = Arc::new(AtomicBool::new(false));
    let (root, quiet) = (root.to_owned(), Arc::clone(&silent));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (root, authorization) = (root.clone(), authorization.clone());
            let quiet = Arc::clone(&quiet);
            std::thread::spawn(move || {
                let _whoever_hung_up = answer(stream, root, authorization, &quiet);
            });
        }
    });
    Server { origin, silent }
}

fn answer(
    mut stream: TcpStream,
    root: PathBuf,
    authorization: Option<String>,
    silent: &AtomicBool,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut words = first.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None => break,
        }
    }
    let header = |name: &str| {
        let found = headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    };
    if silent.load(Ordering::SeqCst) {
        std::thread::sleep(std::time::Duration::from_secs(120));
        return Ok(());
    }
    if authorization.is_some_and(|wanted| header("authorization") != wanted) {
        return stream.write_all(
            b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"git\"\r\n\
              Content-Length: 0\r\nConnection: close\r\n\r\n",
        );
    }
    let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", method)
        .env("REMOTE_ADDR", "127.0.0.1")
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
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
    let head = format!(
        "HTTP/1.1 {}\r\n{}\r\nConnection: close\r\n\r\n",
        status.unwrap_or("200 OK"),
        rest.join("\r\n")
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&output[end + 4..])
}
