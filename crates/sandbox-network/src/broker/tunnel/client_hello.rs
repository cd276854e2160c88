//! The first message of TLS, as far as it names a server (RFC 8446, sections 4.1.2 and 5.1; RFC
//! 6066, section 3). Nothing of it is interpreted further, and nothing in it can exceed a bound.

/// Most bytes of a hello.
const MAX_HELLO: usize = 16 * 1024;
/// Most bytes of the records that carry it, because a client may split it into many.
const MAX_RECORDS: usize = 2 * MAX_HELLO;

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
/// The types of records: change of cipher, alert, handshake, data, heartbeat.
const FIRST_TYPE: u8 = 20;
const LAST_TYPE: u8 = 24;
const CLIENT_HELLO: u8 = 1;
const MAX_FRAGMENT: usize = 1 << 14;
const SERVER_NAME: u16 = 0;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
const HOST_NAME: u8 = 0;

const NOT_FIRST: &str = "the client does not begin with it";

/// The meaning of the first bytes of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HelloStatus {
    /// They do not begin TLS.
    NotTls,
    /// They can become a hello.
    Incomplete,
    /// They begin TLS and are not a hello.
    Invalid(&'static str),
    /// They are a hello, and possibly more.
    Complete(ClientHello),
}

/// The parts of a hello that tell the server's name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientHello {
    /// The name as sent.
    pub(super) server_name: Option<Vec<u8>>,
    /// `true` if an inner hello is encrypted, or pretends to be.
    pub(super) has_encrypted_part: bool,
}

/// Reads the first bytes of a client.
pub(super) fn parse(bytes: &[u8]) -> HelloStatus {
    let message = match collect_message(bytes) {
        Ok(message) => message,
        Err(status) => return status,
    };
    match parse_hello(&message) {
        Some(Ok(hello)) => HelloStatus::Complete(hello),
        Some(Err(why)) => HelloStatus::Invalid(why),
        None => HelloStatus::Invalid("a length in it is wrong"),
    }
}

/// Returns the body of the first handshake message, put together from its records.
fn collect_message(bytes: &[u8]) -> Result<Vec<u8>, HelloStatus> {
    match begins_tls(bytes) {
        None => return Err(HelloStatus::Incomplete),
        Some(false) => return Err(HelloStatus::NotTls),
        Some(true) => {}
    }
    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
        if let Some(body) = complete_body(&message)? {
            return Ok(body);
        }
        let is_first = message.is_empty() && rest.len() == bytes.len();
        let fragment = match next_record(rest, is_first)? {
            Some((fragment, after)) => {
                rest = after;
                fragment
            }
            None if bytes.len() > MAX_RECORDS => {
                return Err(HelloStatus::Invalid("it is too long"));
            }
            None => return Err(HelloStatus::Incomplete),
        };
        message.extend_from_slice(fragment);
    }
}

/// `true` if a server can read the bytes as the first record of TLS. `None` if that is not known yet.
///
/// Every type of record counts, because servers skip some before the hello (a warning, for example).
fn begins_tls(bytes: &[u8]) -> Option<bool> {
    match *bytes {
        [] | [FIRST_TYPE..=LAST_TYPE] => None,
        [FIRST_TYPE..=LAST_TYPE, 3, ..] => Some(true),
        // Go takes any version below 16 in the first record, and tells by the rest.
        [ALERT | HANDSHAKE, ..=15, _, high, low, first, ..] => {
            let length = usize::from(u16::from_be_bytes([high, low]));
            Some(match bytes[0] {
                ALERT => length == 2 && first <= 2,
                _ => length <= MAX_FRAGMENT && first == CLIENT_HELLO,
            })
        }
        [ALERT | HANDSHAKE, ..=15, ..] => None,
        _ => Some(false),
    }
}

/// Returns the body if the message is complete.
fn complete_body(message: &[u8]) -> Result<Option<Vec<u8>>, HelloStatus> {
    match message {
        [kind, ..] if *kind != CLIENT_HELLO => Err(HelloStatus::Invalid(NOT_FIRST)),
        [_, high, middle, low, body @ ..] => {
            let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
            if length > MAX_HELLO {
                return Err(HelloStatus::Invalid("it is too long"));
            }
            Ok(body.get(..length).map(<[u8]>::to_vec))
        }
        _ => Ok(None),
    }
}

type TlsRecord<'a> = (&'a [u8], &'a [u8]);

/// Splits off the fragment of a record. `None` if it is not complete.
fn next_record(bytes: &[u8], is_first: bool) -> Result<Option<TlsRecord<'_>>, HelloStatus> {
    match bytes.first() {
        Some(&HANDSHAKE) => {}
        Some(_) if is_first => return Err(HelloStatus::Invalid(NOT_FIRST)),
        Some(_) => {
            let why = "other records are between its own";
            return Err(HelloStatus::Invalid(why));
        }
        None => return Ok(None),
    }
    if bytes.get(1).is_some_and(|major| *major != 3) {
        return Err(HelloStatus::Invalid("a record has another version"));
    }
    let Some(&[_, _, _, high, low]) = bytes.first_chunk::<5>() else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length == 0 || length > MAX_FRAGMENT {
        return Err(HelloStatus::Invalid("a record has an invalid length"));
    }
    Ok(bytes[5..].split_at_checked(length))
}

/// Reads the body. `None` if a length in it is wrong.
fn parse_hello(body: &[u8]) -> Option<Result<ClientHello, &'static str>> {
    // The version and the random.
    let (_, rest) = body.split_at_checked(2 + 32)?;
    let (_session, rest) = split_u8(rest)?;
    let (_ciphers, rest) = split_u16(rest)?;
    let (_compressions, rest) = split_u8(rest)?;
    let mut hello = ClientHello {
        server_name: None,
        has_encrypted_part: false,
    };
    if rest.is_empty() {
        return Some(Ok(hello));
    }
    let (mut extensions, after) = split_u16(rest)?;
    if !after.is_empty() {
        return None;
    }
    while !extensions.is_empty() {
        let (kind, rest) = extensions.split_first_chunk::<2>()?;
        let (value, rest) = split_u16(rest)?;
        extensions = rest;
        match u16::from_be_bytes(*kind) {
            SERVER_NAME if hello.server_name.is_some() => {
                return Some(Err("it has several server names"));
            }
            SERVER_NAME => match parse_server_name(value)? {
                Ok(name) => hello.server_name = Some(name),
                Err(why) => return Some(Err(why)),
            },
            ENCRYPTED_CLIENT_HELLO => hello.has_encrypted_part = true,
            _ => {}
        }
    }
    Some(Ok(hello))
}

fn parse_server_name(value: &[u8]) -> Option<Result<Vec<u8>, &'static str>> {
    let (list, after) = split_u16(value)?;
    let (kind, rest) = list.split_first()?;
    let (name, others) = split_u16(rest)?;
    if !after.is_empty() {
        return None;
    }
    Some(if *kind != HOST_NAME {
        Err("its server name is not a host's name")
    } else if !others.is_empty() {
        Err("it has several server names")
    } else {
        Ok(name.to_vec())
    })
}

fn split_u8(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*length))
}

fn split_u16(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn u16_prefixed(bytes: &[u8]) -> Vec<u8> {
        let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        [&length[..], bytes].concat()
    }

    fn extension(kind: u16, value: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &u16_prefixed(value)].concat()
    }

    fn server_name(name: &[u8]) -> Vec<u8> {
        let entry = [&[HOST_NAME][..], &u16_prefixed(name)].concat();
        extension(SERVER_NAME, &u16_prefixed(&entry))
    }

    fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([0, 0, 2, 0x13, 1, 1, 0]);
        body.extend(u16_prefixed(&extensions.concat()));
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[CLIENT_HELLO][..], &length[1..], &body].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |fragment: &[u8]| [&[HANDSHAKE, 3, 1][..], &u16_prefixed(fragment)].concat();
        message.chunks(size).flat_map(record).collect()
    }

    fn complete(name: Option<&[u8]>, has_encrypted_part: bool) -> HelloStatus {
        HelloStatus::Complete(ClientHello {
            server_name: name.map(<[u8]>::to_vec),
            has_encrypted_part,
        })
    }

    #[test]
    fn the_name_is_found_in_whole_and_in_split_hellos() {
        let with_name = message(&[extension(43, &[2, 3, 4]), server_name(b"example.com")]);
        for size in [1, 2, 3, 5, 100, MAX_FRAGMENT] {
            let bytes = records(&with_name, size);
            assert_eq!(parse(&bytes), complete(Some(b"example.com"), false));
            for end in 0..bytes.len() {
                assert_eq!(parse(&bytes[..end]), HelloStatus::Incomplete, "{end}");
            }
            let followed = [&bytes[..], &[23, 3, 3, 0, 1, 0]].concat();
            assert_eq!(parse(&followed), complete(Some(b"example.com"), false));
        }
        let without = records(&message(&[]), 1000);
        assert_eq!(parse(&without), complete(None, false));
        let encrypted = message(&[
            server_name(b"a.com"),
            extension(ENCRYPTED_CLIENT_HELLO, &[0]),
        ]);
        assert_eq!(
            parse(&records(&encrypted, 1000)),
            complete(Some(b"a.com"), true)
        );
    }

    #[test]
    fn other_protocols_are_not_tls() {
        for bytes in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"SSH-2.0-x\r\n",
            b"\x16\x02\x01\x00\x10\x02",
            b"\x15\x01\x00\x00\x02\x07",
            b"\x16\x10",
            b"\x13\x03\x01",
            b"\x19\x03\x01",
            b"\x80\x2e\x01\x03\x01",
        ] {
            assert_eq!(parse(bytes), HelloStatus::NotTls, "{bytes:?}");
        }
        assert_eq!(parse(b""), HelloStatus::Incomplete);
    }

    #[test]
    fn tls_begins_with_a_hello_whatever_servers_skip() {
        let fronted = records(&message(&[server_name(b"b.com")]), 1000);
        let refused = HelloStatus::Invalid(NOT_FIRST);
        for minor in 0..=5 {
            for kind in (FIRST_TYPE..=LAST_TYPE).filter(|kind| *kind != HANDSHAKE) {
                let record = [kind, 3, minor, 0, 2, 1, 90];
                for end in 2..=record.len() {
                    assert_eq!(parse(&record[..end]), refused, "{kind} {minor}");
                }
                assert_eq!(parse(&[&record[..], &fronted].concat()), refused);
                assert_eq!(parse(&record[..1]), HelloStatus::Incomplete);
            }
            for first in (0..=u8::MAX).filter(|first| *first != CLIENT_HELLO) {
                let record = [HANDSHAKE, 3, minor, 0, 4, first, 0, 0, 0];
                assert_eq!(parse(&[&record[..], &fronted].concat()), refused, "{first}");
            }
        }
        for major in (0..=15).filter(|major| *major != 3) {
            let alert = [ALERT, major, 1, 0, 2, 1, 90];
            assert_eq!(parse(&[&alert[..], &fronted].concat()), refused, "{major}");
            let mut hello = fronted.clone();
            hello[1] = major;
            let why = "a record has another version";
            assert_eq!(parse(&hello), HelloStatus::Invalid(why), "{major}");
        }
    }

    #[test]
    fn hellos_that_servers_could_read_otherwise_are_invalid() {
        let twice = message(&[server_name(b"a.com"), server_name(b"b.com")]);
        let entry = [&[HOST_NAME][..], &u16_prefixed(b"a.com")].concat();
        let two_in_one = extension(SERVER_NAME, &u16_prefixed(&entry.repeat(2)));
        let other_kind = [&[1][..], &u16_prefixed(b"a.com")].concat();
        let other_kind = extension(SERVER_NAME, &u16_prefixed(&other_kind));
        let mut shorter = message(&[server_name(b"a.com")]);
        let last = shorter.len() - 1;
        shorter.truncate(last);
        shorter[3] -= 1;
        let mut interleaved = records(&twice, 10)[..15].to_vec();
        interleaved.extend([23, 3, 3, 0, 1, 0]);
        for bytes in [
            records(&twice, 1000),
            records(&message(&[two_in_one]), 1000),
            records(&message(&[other_kind]), 1000),
            records(&message(&[extension(SERVER_NAME, &[])]), 1000),
            records(&shorter, 1000),
            interleaved,
            vec![HANDSHAKE, 3, 1, 0, 0],
            vec![HANDSHAKE, 3, 1, 0xff, 0xff],
            records(&[CLIENT_HELLO, 1, 0, 0], 4),
        ] {
            assert!(
                matches!(parse(&bytes), HelloStatus::Invalid(_)),
                "{:?} of {bytes:?}",
                parse(&bytes)
            );
        }
    }

    #[test]
    fn a_hello_in_tiny_records_is_bounded() {
        let long = message(&[extension(21, &[0; 10_000]), server_name(b"a.com")]);
        let bytes = records(&long, 1);
        let first_error = (0..bytes.len())
            .step_by(1024)
            .find(|end| matches!(parse(&bytes[..*end]), HelloStatus::Invalid(_)));
        assert!(first_error.is_some_and(|end| end <= MAX_RECORDS + 1024));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), size in 1usize..50) {
            let _ = parse(&bytes);
            bytes.splice(0..0, [CLIENT_HELLO, 0, 0, 100]);
            let _ = parse(&records(&bytes, size));
        }

        #[test]
        fn one_changed_byte_never_panics(at in 0usize..90, value in any::<u8>()) {
            let mut bytes = records(&message(&[server_name(b"example.com")]), 40);
            let at = at % bytes.len();
            bytes[at] = value;
            let _ = parse(&bytes);
        }
    }
}
