//! The host that an HTTP/1 request names on a plain connection (RFC 9112, sections 2 and 3.2).
//!
//! Bytes are passed on as they come, so that no protocol waits. A line of a request's head is checked
//! before its end is passed on, so a server sees no complete line that names another host. What
//! servers could read in several ways is refused; what is not HTTP/1 is left alone.

use crate::host::{Host, HostName};

/// Most bytes of a line.
const MAX_LINE: usize = 32 * 1024;

/// The reason to refuse a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HostHeaderError {
    /// It names another host: the text as sent.
    OtherHost(Vec<u8>),
    /// It cannot be read in one way only.
    Invalid(&'static str),
}

/// The check of a client's first request.
#[derive(Debug)]
pub(super) struct HostHeaderCheck<'a> {
    host: &'a HostName,
    state: HostHeaderState,
    /// The bytes of the line that is not complete.
    line: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostHeaderState {
    /// The first line, which tells whether it is HTTP/1.
    RequestLine,
    Headers {
        has_host: bool,
    },
    /// The head has ended, or it is another protocol.
    Done,
}

impl HostHeaderCheck<'_> {
    /// Returns the check for a connection to a host.
    pub(super) fn new(host: &HostName) -> HostHeaderCheck<'_> {
        HostHeaderCheck {
            host,
            state: HostHeaderState::RequestLine,
            line: Vec::new(),
        }
    }

    /// `true` if further bytes are not looked at.
    pub(super) fn is_done(&self) -> bool {
        self.state == HostHeaderState::Done
    }

    /// Checks further bytes, before they are passed on.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), HostHeaderError> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            self.state = match self.state {
                HostHeaderState::RequestLine => self.check_first_line()?,
                HostHeaderState::Headers { has_host } => self.check_header(has_host)?,
                HostHeaderState::Done => HostHeaderState::Done,
            };
            if self.is_done() {
                self.line = Vec::new();
                return Ok(());
            }
            if self.line.ends_with(b"\n") {
                self.line.clear();
            }
        }
        Ok(())
    }

    fn check_first_line(&self) -> Result<HostHeaderState, HostHeaderError> {
        // Servers skip empty lines, and some skip spaces too.
        let spaces = self.line.iter().take_while(|byte| is_space(**byte));
        let line = &self.line[spaces.count()..];
        let Some(first) = line.first() else {
            return Ok(match self.line.len() > MAX_LINE {
                true => HostHeaderState::Done,
                false => HostHeaderState::RequestLine,
            });
        };
        if !is_token_byte(*first) {
            return Ok(HostHeaderState::Done);
        }
        if line.len() > MAX_LINE {
            return match is_like_a_request(line) {
                true => Err(invalid("its first line is too long")),
                false => Ok(HostHeaderState::Done),
            };
        }
        if !line.ends_with(b"\n") {
            return Ok(HostHeaderState::RequestLine);
        }
        let has_version = has_version(line);
        if !has_version && names_a_url(line) {
            return Err(invalid("it is HTTP/0.9"));
        }
        // HTTP/2 begins with words of HTTP/1 (RFC 9113, section 3.4), and its names are compressed.
        if !has_version || self.line == b"PRI * HTTP/2.0\r\n" {
            return Ok(HostHeaderState::Done);
        }
        self.check_request_line()?;
        Ok(HostHeaderState::Headers { has_host: false })
    }

    fn check_request_line(&self) -> Result<(), HostHeaderError> {
        const WRONG: HostHeaderError = invalid("its first line is not valid");
        let line = line_content(&self.line)?;
        // Empty lines before it were removed with their ends.
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let [method, target, b"HTTP/1.0" | b"HTTP/1.1"] = words[..] else {
            return Err(WRONG);
        };
        if !method.iter().copied().all(is_token_byte) || target.is_empty() {
            return Err(WRONG);
        }
        if target.starts_with(b"/") || target == b"*" {
            return Ok(());
        }
        let authority = if method.eq_ignore_ascii_case(b"CONNECT") {
            target
        } else {
            let scheme_end = target.windows(3).position(|three| three == b"://");
            let rest = &target[scheme_end.ok_or(WRONG)? + 3..];
            let is_end = |byte: &u8| matches!(byte, b'/' | b'?' | b'#');
            rest.split(is_end).next().unwrap_or_default()
        };
        self.compare(authority)
    }

    fn check_header(&self, has_host: bool) -> Result<HostHeaderState, HostHeaderError> {
        if self.line.len() > MAX_LINE {
            return Err(invalid("a line of its head is too long"));
        }
        if !self.line.ends_with(b"\n") {
            return Ok(HostHeaderState::Headers { has_host });
        }
        let line = line_content(&self.line)?;
        if line.is_empty() {
            return Ok(HostHeaderState::Done);
        }
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (name, value) = (parts.next().unwrap_or_default(), parts.next());
        let is_name = !name.is_empty() && name.iter().copied().all(is_token_byte);
        let (Some(value), true) = (value, is_name) else {
            return Err(invalid("a line of its head is not a header"));
        };
        if !name.eq_ignore_ascii_case(b"host") {
            return Ok(HostHeaderState::Headers { has_host });
        }
        if has_host {
            return Err(invalid("it has several Host headers"));
        }
        let value = value.trim_ascii();
        if !value.is_empty() {
            self.compare(value)?;
        }
        Ok(HostHeaderState::Headers { has_host: true })
    }

    /// Compares a host with an optional port. The port is not compared: the connection has one.
    fn compare(&self, authority: &[u8]) -> Result<(), HostHeaderError> {
        let named = std::str::from_utf8(authority).ok();
        let named = named.and_then(|text| Host::parse_with_optional_port(text).ok());
        match named {
            Some((Host::Name(name), _)) if name == *self.host => Ok(()),
            _ => Err(HostHeaderError::OtherHost(authority.to_vec())),
        }
    }
}

const fn invalid(why: &'static str) -> HostHeaderError {
    HostHeaderError::Invalid(why)
}

/// Returns a line without its end, which is CR LF or LF.
fn line_content(line: &[u8]) -> Result<&[u8], HostHeaderError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.iter().any(|byte| matches!(byte, 0 | b'\r')) {
        true => Err(invalid("a line of its head contains NUL or CR")),
        false => Ok(line),
    }
}

/// White space at which some server splits: that of Latin-1.
fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | 0x1c..=b' ' | 0x85 | 0xa0)
}

/// Returns the words of a line, split at all that some server could take for white space.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let words = line.split(|byte| !byte.is_ascii_graphic());
    words.filter(|word| !word.is_empty())
}

/// Returns `true` if some server reads a line as a request of HTTP/1: its last word is a version, or
/// any word behind that of a method. Some servers read nothing behind the version.
fn has_version(line: &[u8]) -> bool {
    let is_version = |word: &[u8]| {
        let start = word.get(..5);
        start.is_some_and(|start| start.eq_ignore_ascii_case(b"HTTP/"))
    };
    let is_method = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_');
    let method = words(line).next().unwrap_or_default();
    match method.iter().all(is_method) {
        true => words(line).skip(1).any(is_version),
        false => words(line).last().is_some_and(is_version),
    }
}

/// Returns `true` for a request without a version (HTTP/0.9) that names a host.
fn names_a_url(line: &[u8]) -> bool {
    let mut words = words(line);
    let method = words.next().unwrap_or_default();
    let target = words.next().unwrap_or_default();
    method.eq_ignore_ascii_case(b"GET") && target.windows(3).any(|three| three == b"://")
}

/// `true` if a line without an end can begin a request: a method, a space, and the start of a target.
fn is_like_a_request(line: &[u8]) -> bool {
    let method = line.iter().take_while(|byte| is_token_byte(**byte)).count();
    let rest = &line[method..];
    let spaces = rest.iter().take_while(|byte| is_space(**byte));
    let target = &rest[spaces.count()..];
    let is_target = target
        .first()
        .is_some_and(|byte| *byte == b'/' || byte.is_ascii_alphabetic());
    rest.len() > target.len() && is_target
}

/// `true` for the characters of methods and names of headers (RFC 9110, section 5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn host() -> HostName {
        HostName::parse("a.example").unwrap()
    }

    /// Checks bytes in parts of a size. Returns `Ok(true)` if the rest is not looked at.
    fn check(bytes: &[u8], size: usize) -> Result<bool, HostHeaderError> {
        let host = host();
        let mut check = HostHeaderCheck::new(&host);
        for part in bytes.chunks(size) {
            check.push(part)?;
        }
        Ok(check.is_done())
    }

    fn other(text: &str) -> Result<bool, HostHeaderError> {
        Err(HostHeaderError::OtherHost(text.as_bytes().to_vec()))
    }

    const NOT_HEADER: &str = "a line of its head is not a header";
    const NOT_LINE: &str = "its first line is not valid";
    const OLD: &str = "it is HTTP/0.9";

    #[test]
    fn requests_name_the_host_or_are_refused() {
        for (head, checked) in [
            ("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", Ok(true)),
            ("GET / HTTP/1.1\nHost: a.example\n\n", Ok(true)),
            ("GET / HTTP/1.1\r\nhOST:\tA.EXAMPLE.:81 \r\n\r\n", Ok(true)),
            (
                "\r\n\r\nGET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
                Ok(true),
            ),
            ("OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n", Ok(true)),
            ("GET / HTTP/1.0\r\nAccept: */*\r\n\r\n", Ok(true)),
            ("GET http://a.example:80/x HTTP/1.1\r\n", Ok(false)),
            ("CONNECT a.example:443 HTTP/1.1\r\n\r\n", Ok(true)),
            ("GET / HTTP/1.1\r\nHost: b.example\r\n", other("b.example")),
            (
                "GET / HTTP/1.1\nHost: b.example:80\n",
                other("b.example:80"),
            ),
            (
                "GET / HTTP/1.1\r\nHost: x.a.example\r\n",
                other("x.a.example"),
            ),
            ("GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n", other("192.0.2.1")),
            (
                "X / HTTP/1.0\r\nA: b\r\nHOST:b.example\r\n",
                other("b.example"),
            ),
            (
                "\r\n\r\nGET / HTTP/1.1\r\nHost: b.example\r\n",
                other("b.example"),
            ),
            (
                "GET / HTTP/1.1\r\nHost: a.example b\r\n",
                other("a.example b"),
            ),
            (
                "GET / HTTP/1.1\r\nHost: x@a.example\r\n",
                other("x@a.example"),
            ),
            ("GET http://b.example HTTP/1.1\r\n", other("b.example")),
            (
                "GET HTTP://b.example?a.example HTTP/1.1\r\n",
                other("b.example"),
            ),
            (
                "GET http://a.example@b.example/ HTTP/1.1\r\n",
                other("a.example@b.example"),
            ),
            ("CONNECT b.example:443 HTTP/1.1\r\n", other("b.example:443")),
            (
                "GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n",
                other("b.example"),
            ),
            (
                "GET / HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n",
                Err(invalid("it has several Host headers")),
            ),
            (
                "GET / HTTP/1.1\r\nHost:\r\nhost: b.example\r\n",
                Err(invalid("it has several Host headers")),
            ),
            (
                "GET / HTTP/1.1\r\nHost : b.example\r\n",
                Err(invalid(NOT_HEADER)),
            ),
            ("GET / HTTP/1.1\r\nA: b\r\n c\r\n", Err(invalid(NOT_HEADER))),
            ("GET / HTTP/1.1\r\n:b.example\r\n", Err(invalid(NOT_HEADER))),
            (
                "GET / HTTP/1.1\r\n\0Host: b.example\r\n",
                Err(invalid("a line of its head contains NUL or CR")),
            ),
            (
                "GET / HTTP/1.1\r\nA: b\rHost: b.example\r\n",
                Err(invalid("a line of its head contains NUL or CR")),
            ),
            ("GET  / HTTP/1.1\r\n", Err(invalid(NOT_LINE))),
            (" GET / HTTP/1.1\r\n", Err(invalid(NOT_LINE))),
            ("GET\t/ HTTP/1.1\r\n", Err(invalid(NOT_LINE))),
            ("GET / http/1.1\r\n", Err(invalid(NOT_LINE))),
            ("GET / HTTP/2.0\r\n", Err(invalid(NOT_LINE))),
            ("GET / x HTTP/1.1\r\n", Err(invalid(NOT_LINE))),
            ("GET http://b.example/\r\n", Err(invalid(OLD))),
            ("get  HTTP://b.example\r\n", Err(invalid(OLD))),
            ("\r\n GET\thttp://a.example/\n", Err(invalid(OLD))),
            ("GET b.example/ HTTP/1.1\r\n", Err(invalid(NOT_LINE))),
        ] {
            for size in [1, 2, 7, head.len()] {
                assert_eq!(check(head.as_bytes(), size), checked, "{head:?} by {size}");
            }
        }
    }

    /// Each server splits the first line at its own white space: Python's at that of Latin-1, some at
    /// any control character, and some read nothing behind the version.
    #[test]
    fn no_spelling_of_the_first_line_passes_another_host() {
        type LineWith = fn(&[u8]) -> Vec<u8>;
        let spaces = (1..=b' ').chain(0x7f..=0xff);
        let forms: [LineWith; 7] = [
            |space| [b"GET", space, b"/ HTTP/1.1"].concat(),
            |space| [b"GET / ", space, b"HTTP/1.1"].concat(),
            |space| [b"GET /", space, b"HTTP/1.1"].concat(),
            |space| [b"GET / HTTP/1.1", space].concat(),
            |space| [b"GET / HTTP/1.1 ", space, b"x"].concat(),
            |space| [b"GET", space, b"http://b.example/"].concat(),
            |space| [b"M-SEARCH /", space, b"http/1.0", space, b"x y"].concat(),
        ];
        let check_line = |line: &[u8]| {
            let head = [line, b"\r\nHost: b.example\r\n"].concat();
            let checked = check(&head, head.len());
            assert!(checked.is_err(), "{}: {checked:?}", line.escape_ascii());
            assert_eq!(check(&head, 1), checked, "{}", line.escape_ascii());
        };
        for space in spaces.filter(|byte| *byte != b'\n') {
            forms.iter().for_each(|line| check_line(&line(&[space])));
        }
        for space in [
            b"\x0b", b"\x0c", b"\x1c", b"\x1d", b"\x1e", b"\x1f", b"\x85", b"\xa0",
        ] {
            check_line(&[space, &b"GET / HTTP/1.1"[..]].concat());
            check_line(&[b" ", space, &b"\r\n"[..], space, b"GET / HTTP/1.1"].concat());
        }
    }

    #[test]
    fn other_protocols_are_left_alone() {
        for bytes in [
            &b"SSH-2.0-x\r\n"[..],
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\x00\x01\x02",
            b"{\"a\": 1}",
            b"EHLO b.example\r\n",
            b"GET key\r\n",
            b"GET /\r\n",
            b"*1\r\n$4\r\nPING\r\n",
            b"10.0.0.1 - - \"GET / HTTP/1.1\" 200\n",
            b"\x80GET / HTTP/1.1\r\n",
            b"HTTP\r\n",
        ] {
            assert_eq!(check(bytes, bytes.len()), Ok(true), "{bytes:?}");
            assert_eq!(check(bytes, 1), Ok(true), "{bytes:?}");
        }
        for bytes in [&b""[..], b"S", b"GET / HTTP/1.1", b"\r\n\r\n"] {
            assert_eq!(check(bytes, 1), Ok(false), "{bytes:?}");
        }
    }

    #[test]
    fn lines_are_bounded() {
        let long = "x".repeat(MAX_LINE);
        let first = format!("GET /{long}");
        let wrong = Err(invalid("its first line is too long"));
        assert_eq!(check(first.as_bytes(), 1000), wrong);
        let header = format!("GET / HTTP/1.1\r\nA: {long}\r\n");
        for size in [1000, header.len()] {
            let wrong = Err(invalid("a line of its head is too long"));
            assert_eq!(check(header.as_bytes(), size), wrong);
        }
        for other in [
            format!("{long}x"),
            format!("X {{{long}"),
            " ".repeat(MAX_LINE + 1),
        ] {
            assert_eq!(check(other.as_bytes(), 1000), Ok(true));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_size_of_parts_makes_no_difference(
            words in proptest::collection::vec(
                proptest::sample::select(vec![
                    "GET / HTTP/1.1", "GET http://", "a.example", "b.example", "Host:", "Host", ":",
                    " ", "\r\n", "\n", "\r", "\0", "A: b", "\t", "HTTP/", "x",
                ]),
                0..12,
            ),
            size in 1usize..9,
        ) {
            let text = words.concat();
            prop_assert_eq!(check(text.as_bytes(), size), check(text.as_bytes(), usize::MAX));
        }
    }
}
