//! Servers that were made to be talked to: what they send is bounded in time and memory, what they
//! say is shown as it is and not obeyed, and nobody else is talked to because they say so.

use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use forge_git::{Credential, Credentials, GitErrorKind, GitProgram, GitService, Repo, StagedStore};
use os_sandbox::Support;

use crate::program::confined;
use crate::world::in_memory;

/// No row may take longer, on a slow machine with others at work.
const LONG: Duration = Duration::from_secs(600);

struct Asked {
    post: bool,
    target: String,
    /// Where another server listens that nobody was told to talk to.
    other: String,
}

type Say = fn(&Asked, &mut dyn Write) -> std::io::Result<()>;

fn pkt(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    let mut line = format!("{:04x}", text.len() + 4).into_bytes();
    line.extend_from_slice(text);
    line
}

fn head(to: &mut dyn Write, kind: &str) -> std::io::Result<()> {
    write!(
        to,
        "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-{kind}\r\n\
         Cache-Control: no-cache\r\nConnection: close\r\n\r\n"
    )
}

const ID: &str = "1234567890123456789012345678901234567890";

/// A server of the second protocol, with these abilities more, that knows one branch and answers a
/// fetch with that.
fn second(
    asked: &Asked,
    to: &mut dyn Write,
    able: &[&str],
    fetch: &[Vec<u8>],
) -> std::io::Result<()> {
    if !asked.post {
        head(to, "advertisement")?;
        to.write_all(&pkt("# service=git-upload-pack\n"))?;
        to.write_all(b"0000")?;
        for line in [
            "version 2\n",
            "ls-refs\n",
            "fetch=shallow\n",
            "object-format=sha1\n",
        ] {
            to.write_all(&pkt(line))?;
        }
        for line in able {
            to.write_all(&pkt(line))?;
        }
        return to.write_all(b"0000");
    }
    head(to, "result")?;
    for part in fetch {
        to.write_all(part)?;
    }
    Ok(())
}

/// The same bytes, for as long as anybody takes them.
fn forever(to: &mut dyn Write, bytes: &[u8]) -> std::io::Result<()> {
    let many = bytes.repeat((64 << 10) / bytes.len() + 1);
    loop {
        to.write_all(&many)?;
    }
}

const ROWS: &[(&str, &[GitErrorKind], Say)] = &[
    ("refs without an end", LOST, |_, to| {
        head(to, "advertisement")?;
        to.write_all(&pkt("# service=git-upload-pack\n"))?;
        to.write_all(b"0000")?;
        to.write_all(&pkt(format!("{ID} refs/heads/main\0side-band-64k\n")))?;
        forever(to, &pkt(format!("{ID} refs/heads/x\n")))
    }),
    ("abilities without an end", LOST, |_, to| {
        head(to, "advertisement")?;
        to.write_all(&pkt("# service=git-upload-pack\n"))?;
        to.write_all(b"0000")?;
        to.write_all(&pkt("version 2\n"))?;
        forever(to, &pkt("x=y\n"))
    }),
    ("headers without an end", LOST, |_, to| {
        to.write_all(b"HTTP/1.1 200 OK\r\n")?;
        forever(to, b"X-Much: more\r\n")
    }),
    ("a progress without an end", LOST, |asked, to| {
        second(
            asked,
            to,
            &[],
            &[pkt(format!("{ID} refs/heads/main\n")), pkt("packfile\n")],
        )?;
        if !asked.post {
            return Ok(());
        }
        forever(to, &pkt("\x02\x1b[2Jall is well\r\n"))
    }),
    ("a pack without an end", LOST, |asked, to| {
        second(asked, to, &[], &[])?;
        if !asked.post {
            return Ok(());
        }
        // Whether branches or objects are asked for is in the body; both come, one after the other.
        to.write_all(&pkt(format!("{ID} refs/heads/main\n")))?;
        forever(to, b"0000")
    }),
    ("one byte a second", &[GitErrorKind::TimeLimit], |_, to| {
        to.write_all(b"HTTP/1.1 200 OK\r\nX: ")?;
        loop {
            to.write_all(b"x")?;
            std::thread::sleep(Duration::from_secs(1));
        }
    }),
    ("an error that moves the cursor", FAILED, |_, to| {
        head(to, "advertisement")?;
        to.write_all(&pkt("# service=git-upload-pack\n"))?;
        to.write_all(b"0000")?;
        to.write_all(&pkt(
            "ERR \x1b]0;owned\x07\x1b[2J\u{202e}\u{200b}\u{9b}31m\rgit: pushed\n",
        ))
    }),
    ("a page that moves the cursor", FAILED, |_, to| {
        to.write_all(b"HTTP/1.1 500 No\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n")?;
        to.write_all(&b"\x1b[2J\x9b31m\rremote: ok\n".repeat(10_000))
    }),
    ("to a file", FAILED, |_, to| {
        sent_to(to, "file:///etc/passwd")
    }),
    ("to a program", FAILED, |_, to| sent_to(to, "ext::sh -c id")),
    ("to another server", FAILED, |asked, to| {
        let at = format!("http://{}{}", asked.other, asked.target);
        sent_to(to, &at)
    }),
    ("to itself", FAILED, |asked, to| sent_to(to, &asked.target)),
    ("files of another server", FAILED, |asked, to| {
        let dumb = |to: &mut dyn Write, body: &str| {
            write!(
                to,
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n{body}"
            )
        };
        if asked.target.contains("info/refs") {
            return dumb(to, &format!("{ID}\trefs/heads/main\n"));
        }
        if asked.target.contains("alternates") {
            return dumb(to, &format!("http://{}/x.git/objects\n", asked.other));
        }
        if asked.target.ends_with("HEAD") {
            return dumb(to, "ref: refs/heads/main\n");
        }
        to.write_all(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    }),
    ("bundles of another server", FAILED, |asked, to| {
        let uri = format!("bundle.x.uri=http://{}/x.bundle\n", asked.other);
        let parts = [
            pkt("bundle.version=1\n"),
            pkt("bundle.mode=all\n"),
            pkt(uri),
            b"0000".to_vec(),
        ];
        second(asked, to, &["bundle-uri\n"], &parts)
    }),
    ("packs of another server", FAILED, |asked, to| {
        let uri = format!("{ID} http://{}/x.pack\n", asked.other);
        let parts = [
            pkt(format!("{ID} refs/heads/main\n")),
            b"0000".to_vec(),
            pkt("packfile-uris\n"),
            pkt(uri),
            b"0001".to_vec(),
            pkt("packfile\n"),
        ];
        second(asked, to, &["fetch=packfile-uris\n"], &parts)
    }),
    ("who are you, without an end", LOST_OR_UNKNOWN, |_, to| {
        to.write_all(b"HTTP/1.1 401 Who\r\n")?;
        for n in 0..2_000 {
            write!(to, "WWW-Authenticate: Basic realm=\"\x1b[2J{n}\"\r\n")?;
        }
        to.write_all(b"Content-Length: 0\r\nConnection: close\r\n\r\n")
    }),
    ("who are you, in every way", LOST_OR_UNKNOWN, |_, to| {
        to.write_all(b"HTTP/1.1 401 Who\r\n")?;
        for way in [
            "Negotiate",
            "NTLM",
            "Digest realm=\"x\", nonce=\"y\"",
            "Bearer",
            "Basic realm=\"x\"",
        ] {
            write!(to, "WWW-Authenticate: {way}\r\n")?;
        }
        to.write_all(b"Content-Length: 0\r\nConnection: close\r\n\r\n")
    }),
    ("a name of no branch", FAILED, |asked, to| {
        let parts = [
            pkt(format!("{ID} refs/heads/main/../../../config\n")),
            pkt(format!("{ID} refs/heads/main\n{ID} refs/heads/x\n")),
            pkt(format!("{ID} --upload-pack=x\n")),
            b"0000".to_vec(),
        ];
        second(asked, to, &[], &parts)
    }),
    ("a pack that is none", FAILED, |asked, to| {
        let parts = [
            pkt(format!("{ID} refs/heads/main\n")),
            b"0000".to_vec(),
            pkt("packfile\n"),
            pkt("\x01PACK\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f"),
            b"0000".to_vec(),
        ];
        second(asked, to, &[], &parts)
    }),
    ("lengths that are none", FAILED, |_, to| {
        head(to, "advertisement")?;
        to.write_all(b"ffff-001\xff\xff\0\0zzzz")
    }),
    ("nothing", FAILED, |_, _| Ok(())),
];

/// It goes on for ever: ended for its time or its size, or by git, which has bounds of its own.
const LOST: &[GitErrorKind] = &[
    GitErrorKind::TimeLimit,
    GitErrorKind::TooLarge,
    GitErrorKind::Failed,
];
const LOST_OR_UNKNOWN: &[GitErrorKind] = &[GitErrorKind::Authentication, GitErrorKind::Failed];
const FAILED: &[GitErrorKind] = &[GitErrorKind::Failed, GitErrorKind::NotFound];

fn sent_to(to: &mut dyn Write, place: &str) -> std::io::Result<()> {
    write!(
        to,
        "HTTP/1.1 302 There\r\nLocation: {place}\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\
         Connection: close\r\n\r\n"
    )
}

/// Answers each connection once, until the test's process ends.
fn serve(say: Say, other: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let other = other.clone();
            std::thread::spawn(move || {
                let _whoever_hung_up = answer(stream, say, other);
            });
        }
    });
    address
}

fn answer(mut stream: TcpStream, say: Say, other: String) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? <= 2 {
            break;
        }
        if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = bytes.trim().parse().unwrap_or(0);
        }
    }
    std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink())?;
    let target = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let asked = Asked {
        post: first.starts_with("POST"),
        target,
        other,
    };
    say(&asked, &mut stream)
}

fn token(origin: &str) -> Credentials {
    let token = Credential::token("t0ken-of-somebody").unwrap();
    Credentials::new().with(origin, token).unwrap()
}

/// A server that only counts who comes.
fn counter() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for _ in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (address, count)
}

#[test]
fn a_server_that_is_made_to_be_talked_to_is_given_up() {
    if !confined() {
        return;
    }
    for (what, kinds, say) in ROWS {
        let held = tempfile::tempdir().unwrap();
        let (other, count) = counter();
        let address = serve(*say, other);
        let mut world = in_memory();
        world.repo = Repo::parse(&format!("http://{address}/x.git")).unwrap();
        let program = GitProgram::new(held.path().join("cache"), Support::detect())
            .transfer_limit(Duration::from_secs(5))
            .credentials(token(&format!("http://{address}")));
        world.git = Arc::new(GitService::new(program, StagedStore::in_memory().unwrap()));
        let since = Instant::now();
        let error = world.pull(&["a.md"], "/workspace").unwrap_err();
        assert!(since.elapsed() < LONG, "{what}: {:?}", since.elapsed());
        assert!(
            kinds.contains(&error.kind()),
            "{what}: {:?} {error}",
            error.kind()
        );
        let text = error.to_string();
        let moves = |c: char| (c.is_control() && c != '\n') || "\u{202e}\u{200b}".contains(c);
        assert!(!text.contains(moves), "{what}: {text:?}");
        assert!(text.len() < 8 << 10, "{what}: {} bytes", text.len());
        assert!(
            !text.contains("t0ken") && !text.contains("root:"),
            "{what}: {text}"
        );
        assert_eq!(
            count.load(Ordering::SeqCst),
            0,
            "{what}: another server was asked"
        );
        assert!(
            size(held.path()) < 64 << 20,
            "{what}: {} bytes",
            size(held.path())
        );
    }
}

fn size(dir: &std::path::Path) -> u64 {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let about = entry.metadata().unwrap();
        bytes += match about.is_dir() {
            true => size(&entry.path()),
            false => about.len(),
        };
    }
    bytes
}
