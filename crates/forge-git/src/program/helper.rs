//! A credential helper, asked in git's own protocol: lines of `name=value`, and an empty one.
//!
//! Helpers have answered for the wrong server because of an additional line in a name
//! (CVE-2020-5260, CVE-2024-52006). The input is a parsed origin; the output is refused as a whole
//! as soon as one line is unexpected.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::login::Login;
use crate::address::ServerOrigin;

/// Some ask a person to open a keyring.
const TIME: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(10);
const MAX_ANSWER_BYTES: u64 = 64 << 10;
const MAX_COMPLAINT_BYTES: usize = 2 << 10;

/// The person's own program.
#[derive(Clone)]
pub(super) struct Helper {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) variables: BTreeMap<OsString, OsString>,
}

/// Asks the helper for the credential of that server; the error says why it is unknown.
pub(super) fn ask(helper: &Helper, origin: &ServerOrigin) -> Result<Login, String> {
    let name = helper.program.to_string_lossy();
    let failed = |why: String| {
        let why = forge_tools::escape_controls(&why);
        format!("the credential helper {name} {why}")
    };
    let (protocol, host) = origin.parts();
    // Without a path: a helper that is asked for one ignores credentials for the whole server.
    let asked = format!("protocol={protocol}\nhost={host}\n\n");
    let answer = run(helper, "get", &asked).map_err(failed)?;
    parse(&answer, protocol, host).map_err(|why| failed(why.to_owned()))
}

/// Tells it that its answer is of no use. It is never told to keep one: whether a password is kept
/// is not for us to say.
pub(super) fn erase(helper: &Helper, origin: &ServerOrigin, login: &Login) {
    let (protocol, host) = origin.parts();
    let (user, password) = (login.user(), login.password());
    let told =
        format!("protocol={protocol}\nhost={host}\nusername={user}\npassword={password}\n\n");
    let _it_may_keep_none = run(helper, "erase", &told);
}

fn parse(answer: &[u8], protocol: &str, host: &str) -> Result<Login, &'static str> {
    let text = std::str::from_utf8(answer).map_err(|_| "answered with bytes that are not text")?;
    let mut found: BTreeMap<&str, &str> = BTreeMap::new();
    for line in text.split('\n').take_while(|line| !line.is_empty()) {
        if line.chars().any(char::is_control) {
            return Err("answered with control characters");
        }
        let (name, value) = line.split_once('=').ok_or("answered in another protocol")?;
        if found.insert(name, value).is_some() && !name.ends_with("[]") {
            return Err("answered the same twice");
        }
    }
    if matches!(found.get("quit"), Some(&("1" | "true"))) {
        return Err("says that nobody is to be asked");
    }
    let another = |name: &str, ours: &str| found.get(name).is_some_and(|said| *said != ours);
    if another("protocol", protocol) || another("host", host) || found.contains_key("url") {
        return Err("answered for another server");
    }
    let (Some(user), Some(password)) = (found.get("username"), found.get("password")) else {
        return Err("knows no user and password for it");
    };
    let login = Login::new(user, password)
        .map_err(|_| "answered with a user or password that cannot be one")?;
    let Some(until) = found.get("password_expiry_utc") else {
        return Ok(login);
    };
    let until = until.parse().map_err(|_| "answered in another protocol")?;
    let login = login.until(until);
    match login.has_expired() {
        true => Err("knows only a password that has expired"),
        false => Ok(login),
    }
}

/// For the fuzz targets: a value taken from an answer is never written as two lines.
#[cfg(fuzzing)]
pub(super) fn answered(answer: &[u8]) {
    if let Ok(login) = parse(answer, "https", "github.com") {
        let written = format!("{}{}{}", login.user(), login.password(), login.header());
        assert!(!written.contains(char::is_control));
    }
}

fn run(helper: &Helper, operation: &str, input: &str) -> Result<Vec<u8>, String> {
    let until = Instant::now() + TIME;
    let mut child = Command::new(&helper.program)
        .args(&helper.arguments)
        .arg(operation)
        .env_clear()
        .envs(&helper.variables)
        .env("GIT_TERMINAL_PROMPT", "0")
        // Outside of the terminal's own group: it cannot read from there, and ends with its
        // children.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot be started: {error}"))?;
    let (pipe, input) = (child.stdin.take(), input.to_owned());
    std::thread::spawn(move || {
        if let Some(mut pipe) = pipe {
            let _it_may_not_read = pipe.write_all(input.as_bytes());
        }
    });
    let answer = read(child.stdout.take());
    let complaint = read(child.stderr.take());
    let done = wait(&mut child, &answer, until);
    if done.is_err() {
        end(&mut child);
    }
    let (answer, success) = done?;
    if success {
        return Ok(answer);
    }
    let left = until.saturating_duration_since(Instant::now());
    let said = complaint.recv_timeout(left.min(Duration::from_secs(1)));
    let mut said = said.unwrap_or_default();
    said.truncate(MAX_COMPLAINT_BYTES);
    let said = String::from_utf8_lossy(&said);
    Err(match said.trim() {
        "" => "failed".to_owned(),
        said => format!("failed: {said}"),
    })
}

/// Reads its output to the end on another thread: a child of it may hold the pipe open.
fn read(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _what_came = pipe.take(MAX_ANSWER_BYTES + 1).read_to_end(&mut bytes);
        }
        let _nobody_waits = send.send(bytes);
    });
    receive
}

fn wait(
    child: &mut Child,
    answer: &Receiver<Vec<u8>>,
    until: Instant,
) -> Result<(Vec<u8>, bool), String> {
    let late = || format!("gave no answer within {} seconds", TIME.as_secs());
    let left = until.saturating_duration_since(Instant::now());
    let answer = answer.recv_timeout(left).map_err(|_| late())?;
    if u64::try_from(answer.len()).unwrap_or(u64::MAX) > MAX_ANSWER_BYTES {
        return Err("answered without end".to_owned());
    }
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok((answer, status.success())),
            Ok(None) if Instant::now() < until => std::thread::sleep(TICK),
            Ok(None) => return Err(late()),
            Err(error) => return Err(format!("was lost: {error}")),
        }
    }
}

fn end(child: &mut Child) {
    // Not waited for yet, so its number is still its own, and its group's.
    if let Some(group) = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        let _gone = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _gone = child.kill();
    let _reaped = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_whole_or_not_at_all() {
        for (answer, taken) in [
            ("username=me\npassword=pass=word\n", Ok("me:pass=word")),
            (
                "protocol=https\nhost=h:1\nusername=me\npassword=p\nextra=x\ncapability[]=a\ncapability[]=b\n\nrest",
                Ok("me:p"),
            ),
            (
                "username=me\npassword=p\npassword_expiry_utc=99999999999\n",
                Ok("me:p"),
            ),
            (
                "username=me\npassword=p\npassword_expiry_utc=1\n",
                Err("expired"),
            ),
            (
                "username=me\npassword=p\npassword_expiry_utc=soon\n",
                Err("protocol"),
            ),
            ("", Err("no user")),
            ("password=p\n", Err("no user")),
            ("username=me\npassword=\n", Err("cannot be one")),
            ("username=m:e\npassword=p\n", Err("cannot be one")),
            ("username=me\npassword=a\npassword=b\n", Err("twice")),
            ("username=me\r\npassword=p\r\n", Err("control")),
            ("username=me\npassword=p\0\n", Err("control")),
            ("quit=1\nusername=me\npassword=p\n", Err("nobody")),
            (
                "host=evil\nusername=me\npassword=p\n",
                Err("another server"),
            ),
            (
                "protocol=http\nusername=me\npassword=p\n",
                Err("another server"),
            ),
            (
                "url=https://evil\nusername=me\npassword=p\n",
                Err("another server"),
            ),
            ("Password: p\n", Err("protocol")),
        ] {
            let parsed = parse(answer.as_bytes(), "https", "h:1");
            let parsed = parsed.map(|login| format!("{}:{}", login.user(), login.password()));
            match (parsed, taken) {
                (Ok(login), Ok(wanted)) => assert_eq!(login, wanted),
                (Err(why), Err(wanted)) => assert!(why.contains(wanted), "{answer:?}: {why}"),
                (parsed, _) => panic!("{answer:?}: {parsed:?}"),
            }
        }
        assert!(parse(b"username=\xff\npassword=p\n", "https", "h").is_err());
    }
}
