//! The head of a client's first request, read strictly: whatever two readers could understand in two
//! ways is refused. Requests that hyper serves are read a second time, by hyper.

use crate::host::Host;

/// Most bytes of a head.
pub(crate) const MAX_HEAD: usize = 32 * 1024;
/// Most headers of a head, as hyper has it.
pub(crate) const MAX_HEADERS: usize = 100;

/// A request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProxyRequest {
    /// A tunnel to a host.
    Connect {
        /// The host.
        host: Host,
        /// The port.
        port: u16,
        /// The `Proxy-Authorization` header.
        authorization: Option<Vec<u8>>,
    },
    /// Any other method.
    Other,
}

/// Parses the head. `None` if it is not complete.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<ProxyRequest>, &'static str> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let head = &bytes[..end.map_or(bytes.len(), |end| end + 4)];
    check_line_ends(head)?;
    let Some(length) = end.map(|end| end + 4) else {
        return Ok(None);
    };
    if length > MAX_HEAD {
        return Err("its head is longer than 32 KiB");
    }
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(parsed)) if parsed == length => {}
        Ok(_) => return Err("its lines end in several ways"),
        Err(httparse::Error::TooManyHeaders) => return Err("it has more than 100 headers"),
        Err(_) => return Err("it is not HTTP/1"),
    }
    let has = |name: &str| {
        let named = |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case(name);
        request.headers.iter().any(|header| named(&header))
    };
    if has("content-length") && has("transfer-encoding") {
        return Err("it has two lengths");
    }
    if request.method != Some("CONNECT") {
        return Ok(Some(ProxyRequest::Other));
    }
    if has("content-length") || has("transfer-encoding") {
        return Err("CONNECT has no body");
    }
    if bytes.len() > length {
        return Err("bytes follow CONNECT before its answer");
    }
    let target = request.path.unwrap_or_default();
    let (host, port) =
        Host::parse_with_port(target).map_err(|_| "CONNECT needs `host:port` and nothing else")?;
    let hosts = request.headers.iter();
    let hosts = hosts.filter(|header| header.name.eq_ignore_ascii_case("host"));
    let is_http_11 = request.version == Some(1);
    check_host(
        &host,
        port,
        None,
        hosts.map(|header| header.value),
        is_http_11,
    )?;
    let mut headers = request.headers.iter();
    let authorization = headers.find(|one| one.name.eq_ignore_ascii_case("proxy-authorization"));
    Ok(Some(ProxyRequest::Connect {
        host,
        port,
        authorization: authorization.map(|header| header.value.to_vec()),
    }))
}

/// Checks that the `Host` headers name the target. A header without a port means the default one, or
/// any if there is no default.
pub(super) fn check_host<'a>(
    host: &Host,
    port: u16,
    default_port: Option<u16>,
    mut headers: impl Iterator<Item = &'a [u8]>,
    is_http_11: bool,
) -> Result<(), &'static str> {
    let value = match (headers.next(), headers.next()) {
        (Some(value), None) => value,
        (None, _) if is_http_11 => return Err("it has no Host header"),
        (None, _) => return Ok(()),
        (Some(_), Some(_)) => return Err("it has several Host headers"),
    };
    let differs = "its Host header is not its target";
    let value = std::str::from_utf8(value).map_err(|_| differs)?;
    let named = Host::parse_with_optional_port(value.trim_matches([' ', '\t']));
    let (named, named_port) = named.map_err(|_| differs)?;
    let same_port = match named_port.or(default_port) {
        Some(named) => named == port,
        None => true,
    };
    if named == *host && same_port {
        Ok(())
    } else {
        Err(differs)
    }
}

/// Returns the host of a request for a record, as far as it can be told. Paths are not part of it,
/// and a target with `@` has none, because the text before it could be a password.
pub(super) fn target_of(bytes: &[u8]) -> String {
    let line = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let target = line.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    let target = String::from_utf8_lossy(target);
    let authority = target.split_once("://").map_or(&*target, |(_, rest)| rest);
    if authority.contains('@') {
        return String::new();
    }
    let host = authority.split(['/', '?', '#']).next().unwrap_or_default();
    host.trim_end().to_owned()
}

/// Refuses lines that do not end in CR LF, and NUL. A CR at the end may get its LF later.
fn check_line_ends(head: &[u8]) -> Result<(), &'static str> {
    let mut previous = 0;
    for byte in head {
        match (previous, byte) {
            (_, 0) => return Err("it contains NUL"),
            (b'\r', b'\n') => {}
            (b'\r', _) | (_, b'\n') => return Err("its lines do not end in CR LF"),
            (b'\n', b' ' | b'\t') => return Err("a header is folded"),
            _ => {}
        }
        previous = *byte;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn connect(host: &str, port: u16) -> Result<Option<ProxyRequest>, &'static str> {
        let host = Host::parse(host).unwrap();
        Ok(Some(ProxyRequest::Connect {
            host,
            port,
            authorization: None,
        }))
    }

    #[test]
    fn heads_are_read_or_refused() {
        let differs = || Err("its Host header is not its target");
        let malformed = || Err("CONNECT needs `host:port` and nothing else");
        for (head, read) in [
            (
                "CONNECT a.com:443 HTTP/1.1\r\nHost: a.com:443\r\n\r\n",
                connect("a.com", 443),
            ),
            (
                "CONNECT A.com.:443 HTTP/1.1\r\nhost:\ta.COM \r\n\r\n",
                connect("a.com", 443),
            ),
            ("CONNECT a.com:443 HTTP/1.0\r\n\r\n", connect("a.com", 443)),
            (
                "CONNECT [::1]:5 HTTP/1.1\r\nHost: [::1]:5\r\n\r\n",
                connect("::1", 5),
            ),
            (
                "GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n",
                Ok(Some(ProxyRequest::Other)),
            ),
            ("CONNECT a.com:443 HTTP/1.1\r\nHost: a.com", Ok(None)),
            ("CONNECT a.com:443 HTTP/1.1\r", Ok(None)),
            ("", Ok(None)),
            (
                "CONNECT a.com:443 HTTP/1.1\r\n\r\n",
                Err("it has no Host header"),
            ),
            (
                "CONNECT a.com:443 HTTP/1.1\r\nHost: a.com\r\nHost: a.com\r\n\r\n",
                Err("it has several Host headers"),
            ),
            (
                "CONNECT a.com:443 HTTP/1.1\r\nHost: b.com\r\n\r\n",
                differs(),
            ),
            (
                "CONNECT a.com:443 HTTP/1.1\r\nHost: a.com:80\r\n\r\n",
                differs(),
            ),
            ("CONNECT a.com:443 HTTP/1.1\r\nHost:\r\n\r\n", differs()),
            (
                "CONNECT a.com:443 HTTP/1.1\r\nHost: u@a.com\r\n\r\n",
                differs(),
            ),
            (
                "CONNECT a.com:443 HTTP/1.1\r\nHost: a.com, b.com\r\n\r\n",
                differs(),
            ),
            ("CONNECT a.com HTTP/1.1\r\nHost: a.com\r\n\r\n", malformed()),
            (
                "CONNECT u@a.com:443 HTTP/1.1\r\nHost: a.com\r\n\r\n",
                malformed(),
            ),
            (
                "CONNECT http://a.com:443 HTTP/1.1\r\nHost: a.com\r\n\r\n",
                malformed(),
            ),
            (
                "CONNECT a.com:443/ HTTP/1.1\r\nHost: a.com\r\n\r\n",
                malformed(),
            ),
            (
                "CONNECT 127.1:443 HTTP/1.1\r\nHost: 127.1\r\n\r\n",
                malformed(),
            ),
            (
                "CONNECT a.com:443 HTTP/1.1\r\nHost: a.com\r\n\r\nmore",
                Err("bytes follow CONNECT before its answer"),
            ),
            (
                "CONNECT a.com:443 HTTP/1.1\r\nHost: a.com\r\nContent-Length: 0\r\n\r\n",
                Err("CONNECT has no body"),
            ),
            (
                "CONNECT a.com:443 HTTP/1.1\r\nHost: a.com\r\nTransfer-Encoding: chunked\r\n\r\n",
                Err("CONNECT has no body"),
            ),
            (
                "POST http://a.com/ HTTP/1.1\r\nHost: a.com\r\nContent-Length: 1\r\n\
                 Transfer-Encoding: chunked\r\n\r\n",
                Err("it has two lengths"),
            ),
            (
                "CONNECT a.com:443 HTTP/1.1\r\nHost: a.com\r\n more\r\n\r\n",
                Err("a header is folded"),
            ),
            (
                "CONNECT a.com:443 HTTP/1.1\nHost: a.com\n\n",
                Err("its lines do not end in CR LF"),
            ),
            (
                "CONNECT a.com:443 HTTP/1.1\r\nHost: a.com\rX: b\r\n\r\n",
                Err("its lines do not end in CR LF"),
            ),
            (
                "CONNECT a.com:443 HTTP/1.1\r\nHost: a.com\0\r\n\r\n",
                Err("it contains NUL"),
            ),
            (
                "connect a.com:443 HTTP/1.1\r\nHost: a.com\r\n\r\n",
                Ok(Some(ProxyRequest::Other)),
            ),
            ("\r\n\r\n", Err("its lines end in several ways")),
            ("nonsense\r\n\r\n", Err("it is not HTTP/1")),
            (
                "CONNECT a.com:443 HTTP/1.1\r\nHost : a.com\r\n\r\n",
                Err("it is not HTTP/1"),
            ),
        ] {
            assert_eq!(parse(head.as_bytes()), read, "{head:?}");
        }
        let many = format!(
            "GET http://a.com/ HTTP/1.1\r\n{}\r\n",
            "A: b\r\n".repeat(101)
        );
        assert_eq!(parse(many.as_bytes()), Err("it has more than 100 headers"));
        let long = format!("GET http://a.com/{} HTTP/1.1\r\n\r\n", "a".repeat(MAX_HEAD));
        assert_eq!(
            parse(long.as_bytes()),
            Err("its head is longer than 32 KiB")
        );
    }

    #[test]
    fn a_record_has_no_credentials_and_no_path() {
        for (head, host) in [
            ("CONNECT a.com:443 HTTP/1.1\r\n", "a.com:443"),
            ("CONNECT u:p@a.com:443 HTTP/1.1\r\n", ""),
            ("GET http://a.com/secret?token=x HTTP/1.1\r\n", "a.com"),
            ("GET /secret HTTP/1.1\r\n", ""),
            ("CONNECT u:p/q@a.com:443 HTTP/1.1\r\n", ""),
            ("GET\r\n", ""),
            ("", ""),
        ] {
            assert_eq!(target_of(head.as_bytes()), host, "{head:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_target_is_one_host_however_the_head_is_filled(
            target in "[a-z0-9.:@/\\[\\]%\\-]{0,20}", host in "[a-zA-Z0-9.:@\\[\\] ]{0,20}",
            header in "[\\x00-\\x7f]{0,30}",
        ) {
            let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {host}\r\n{header}\r\n\r\n");
            if let Ok(Some(ProxyRequest::Connect { host: named, port, .. })) = parse(head.as_bytes()) {
                prop_assert_eq!(Host::parse_with_port(&target), Ok((named.clone(), port)));
                let (other, _) = Host::parse_with_optional_port(host.trim()).unwrap();
                prop_assert_eq!(other, named);
            }
        }
    }
}
