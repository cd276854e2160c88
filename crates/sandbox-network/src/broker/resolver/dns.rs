//! Messages of the domain name system (RFC 1035; EDNS, RFC 6891), as far as a resolver needs them
//! that answers one question with at most one record. The question is given back byte for byte, so
//! that clients that mix upper and lower case find their own spelling again.

// Why not a crate: a question is one header and one name that is never compressed. simple-dns refuses
// types that it does not know, where "no data" is the answer, and allocates by a packet's counters.
// hickory-proto is built with url, rand and tracing.

use std::net::IpAddr;

use crate::host::{HostName, MAX_NAME};

const HEADER: usize = 12;
/// Records after the question that are looked at for EDNS.
const MAX_ADDITIONAL: u16 = 8;
/// Answers are smaller than the 512 bytes that every client takes.
const UDP_SIZE: u16 = 1232;
/// Synthetic addresses do not change while a broker lives.
const TTL_SECONDS: u32 = 60;

pub(super) const A: u16 = 1;
pub(super) const PTR: u16 = 12;
pub(super) const AAAA: u16 = 28;
pub(super) const ANY: u16 = 255;
const OPT: u16 = 41;
const CLASS_IN: u16 = 1;

const RESPONSE: u16 = 1 << 15;
const AUTHORITATIVE: u16 = 1 << 10;
const RECURSION_DESIRED: u16 = 1 << 8;
const RECURSION_AVAILABLE: u16 = 1 << 7;
const OPCODE: u16 = 0xf << 11;

/// A question.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question<'a> {
    id: u16,
    flags: u16,
    /// The question as it was sent. Empty if it could not be read.
    section: &'a [u8],
    has_edns: bool,
    /// The name. `None` if it is not a name of a host.
    pub(super) name: Option<HostName>,
    /// The labels, for names that are not of hosts.
    pub(super) text: String,
    /// The type of record.
    pub(super) kind: u16,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// An address, of the family that was asked for.
    Address(IpAddr),
    /// The name of an address.
    Name(HostName),
    /// The name exists and has no such record.
    NoData,
    /// The name does not exist.
    NameError,
    /// The resolver cannot answer now.
    ServerFailure,
    /// The message is not valid.
    FormatError,
    /// The resolver does not do that.
    NotImplemented,
    /// A version of EDNS that does not exist.
    BadVersion,
}

/// A message that has no question to answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoQuestion<'a> {
    /// Nothing may be answered: it is an answer itself, or too short.
    Ignore,
    /// The answer to it.
    Answer(Question<'a>, Answer),
}

/// Parses a message that should be a question.
pub(super) fn parse(message: &[u8]) -> Result<Question<'_>, NoQuestion<'_>> {
    let field = |at: usize| {
        let bytes = message.get(at..at + 2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let header = [field(0), field(2), field(4), field(6), field(8), field(10)];
    let [
        Some(id),
        Some(flags),
        Some(questions),
        Some(answers),
        Some(authorities),
        Some(additional),
    ] = header
    else {
        return Err(NoQuestion::Ignore);
    };
    if flags & RESPONSE != 0 {
        return Err(NoQuestion::Ignore);
    }
    let mut question = Question {
        id,
        flags,
        section: &[],
        has_edns: false,
        name: None,
        text: String::new(),
        kind: 0,
    };
    if flags & OPCODE != 0 {
        return Err(NoQuestion::Answer(question, Answer::NotImplemented));
    }
    if (questions, answers, authorities) != (1, 0, 0) || additional > MAX_ADDITIONAL {
        return Err(NoQuestion::Answer(question, Answer::FormatError));
    }
    let Some((text, end)) = read_name(message, HEADER) else {
        return Err(NoQuestion::Answer(question, Answer::FormatError));
    };
    let (Some(kind), Some(class)) = (field(end), field(end + 2)) else {
        return Err(NoQuestion::Answer(question, Answer::FormatError));
    };
    question.section = &message[HEADER..end + 4];
    question.name = HostName::parse(&text).ok();
    question.text = text;
    question.kind = kind;
    match find_edns(&message[end + 4..], additional) {
        Some(None) => {}
        Some(Some(0)) => question.has_edns = true,
        Some(Some(_)) => {
            question.has_edns = true;
            return Err(NoQuestion::Answer(question, Answer::BadVersion));
        }
        None => return Err(NoQuestion::Answer(question, Answer::FormatError)),
    }
    if class != CLASS_IN && class != ANY {
        return Err(NoQuestion::Answer(question, Answer::NotImplemented));
    }
    Ok(question)
}

/// Reads the name of a question, which is never compressed. Returns its text, with escapes, and the
/// position after it.
fn read_name(message: &[u8], start: usize) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut at = start;
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        match length {
            0 => return Some((text, at)),
            1..=63 => {}
            _ => return None,
        }
        let label = message.get(at..at + length)?;
        at += length;
        if at - start > MAX_NAME + 1 {
            return None;
        }
        if !text.is_empty() {
            text.push('.');
        }
        for byte in label {
            match byte {
                b'.' | b'\\' | 0..=b' ' | 0x7f.. => text.push_str(&format!("\\{byte:03}")),
                _ => text.push(char::from(*byte)),
            }
        }
    }
}

/// Looks for EDNS among the records after the question. Returns its version, if there is one. `None`
/// if a record is cut off.
fn find_edns(mut bytes: &[u8], count: u16) -> Option<Option<u8>> {
    for _ in 0..count {
        let is_root = bytes.first() == Some(&0);
        bytes = skip_name(bytes)?;
        let (fixed, rest) = bytes.split_first_chunk::<10>()?;
        let [kind_high, kind_low, _, _, _, version, _, _, high, low] = *fixed;
        let length = usize::from(u16::from_be_bytes([high, low]));
        bytes = rest.get(length..)?;
        if is_root && u16::from_be_bytes([kind_high, kind_low]) == OPT {
            return Some(Some(version));
        }
    }
    Some(None)
}

/// Skips a name, which may end in a pointer. The pointer is not followed.
fn skip_name(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        let (length, rest) = bytes.split_first()?;
        match length {
            0 => return Some(rest),
            1..=63 => bytes = rest.get(usize::from(*length)..)?,
            0xc0.. => return rest.get(1..),
            _ => return None,
        }
    }
}

impl Question<'_> {
    /// Returns the message that answers this question.
    pub(super) fn answer(&self, answer: &Answer) -> Vec<u8> {
        let (code, extended) = match answer {
            Answer::Address(_) | Answer::Name(_) | Answer::NoData => (0, 0),
            Answer::FormatError => (1, 0),
            Answer::ServerFailure => (2, 0),
            Answer::NameError => (3, 0),
            Answer::NotImplemented => (4, 0),
            // 16, whose upper bits are in the record of EDNS.
            Answer::BadVersion => (0, 1),
        };
        let data = match answer {
            Answer::Address(IpAddr::V4(address)) => Some((A, address.octets().to_vec())),
            Answer::Address(IpAddr::V6(address)) => Some((AAAA, address.octets().to_vec())),
            Answer::Name(name) => Some((PTR, wire_name(name))),
            _ => None,
        };
        let kept = self.flags & (OPCODE | RECURSION_DESIRED);
        let flags = RESPONSE | AUTHORITATIVE | RECURSION_AVAILABLE | kept | code;
        let mut message = Vec::with_capacity(512);
        for field in [
            self.id,
            flags,
            u16::from(!self.section.is_empty()),
            u16::from(data.is_some()),
            0,
            u16::from(self.has_edns),
        ] {
            message.extend(field.to_be_bytes());
        }
        message.extend(self.section);
        if let Some((kind, data)) = data {
            // A pointer to the name of the question.
            message.extend([0xc0, HEADER as u8]);
            message.extend(kind.to_be_bytes());
            message.extend(CLASS_IN.to_be_bytes());
            message.extend(TTL_SECONDS.to_be_bytes());
            message.extend(u16::try_from(data.len()).unwrap_or_default().to_be_bytes());
            message.extend(data);
        }
        if self.has_edns {
            message.push(0);
            message.extend(OPT.to_be_bytes());
            message.extend(UDP_SIZE.to_be_bytes());
            message.extend([extended, 0, 0, 0, 0, 0]);
        }
        message
    }
}

fn wire_name(name: &HostName) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.as_str().len() + 2);
    for label in name.as_str().split('.') {
        bytes.push(u8::try_from(label.len()).unwrap_or_default());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// Returns the address in a name below `in-addr.arpa` or `ip6.arpa`.
pub(super) fn reverse_address(name: &HostName) -> Option<IpAddr> {
    let text = name.as_str();
    if let Some(reversed) = text.strip_suffix(".in-addr.arpa") {
        let mut parts: Vec<&str> = reversed.split('.').collect();
        parts.reverse();
        let address = parts.join(".").parse::<std::net::Ipv4Addr>().ok()?;
        return Some(address.into());
    }
    let reversed = text.strip_suffix(".ip6.arpa")?;
    let digits: Vec<&str> = reversed.split('.').collect();
    if digits.len() != 32 || digits.iter().any(|digit| digit.len() != 1) {
        return None;
    }
    let text: String = digits.into_iter().rev().collect();
    let bits = u128::from_str_radix(&text, 16).ok()?;
    Some(std::net::Ipv6Addr::from(bits).into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for label in text.split('.').filter(|label| !label.is_empty()) {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend(label.as_bytes());
        }
        bytes.push(0);
        bytes
    }

    fn query(text: &str, kind: u16, additional: &[&[u8]]) -> Vec<u8> {
        let count = u8::try_from(additional.len()).unwrap();
        let mut bytes = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, count];
        bytes.extend(name(text));
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1]);
        bytes.extend(additional.concat());
        bytes
    }

    const EDNS: &[u8] = &[0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 4, 0, 10, 0, 0];
    const EDNS_1: &[u8] = &[0, 0, 41, 0x10, 0, 0, 1, 0, 0, 0, 0];
    const OTHER: &[u8] = &[0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 0, 0, 1, 0];

    #[test]
    fn a_question_comes_back_with_its_spelling_and_one_answer() {
        let bytes = query("ExAmPle.com", A, &[]);
        let question = parse(&bytes).unwrap();
        assert_eq!(question.name, HostName::parse("example.com").ok());
        assert_eq!(question.kind, A);
        let answer = question.answer(&Answer::Address("198.18.1.2".parse().unwrap()));
        let mut expected = vec![0xab, 0xcd, 0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        expected.extend(&bytes[12..]);
        expected.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 1, 2]);
        assert_eq!(answer, expected);
        let refused = question.answer(&Answer::NameError);
        assert_eq!(refused[..8], [0xab, 0xcd, 0x85, 0x83, 0, 1, 0, 0]);
    }

    #[test]
    fn edns_is_answered_and_other_versions_refused() {
        let bytes = query("a.com", AAAA, &[OTHER, EDNS]);
        let answer = parse(&bytes).unwrap().answer(&Answer::NoData);
        assert_eq!(answer[10..12], [0, 1]);
        assert_eq!(
            answer[answer.len() - 11..],
            [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]
        );
        let bytes = query("a.com", A, &[EDNS_1]);
        let Err(NoQuestion::Answer(question, Answer::BadVersion)) = parse(&bytes) else {
            panic!("{:?}", parse(&bytes));
        };
        let answer = question.answer(&Answer::BadVersion);
        assert_eq!(answer[3] & 0xf, 0);
        assert_eq!(answer[answer.len() - 6], 1);
    }

    #[test]
    fn names_of_addresses_are_read_and_written() {
        for (text, address) in [
            ("0.1.18.198.in-addr.arpa", Some("198.18.1.0")),
            ("1.0.0.127.in-addr.arpa", Some("127.0.0.1")),
            ("01.0.0.127.in-addr.arpa", None),
            ("0.0.127.in-addr.arpa", None),
            (
                "0.0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.1.0.0.8.9.d.f.ip6.arpa",
                Some("fd98:18::100"),
            ),
            ("0.0.1.ip6.arpa", None),
            ("example.com", None),
        ] {
            let name = HostName::parse(text).unwrap();
            let address = address.map(|address| address.parse::<IpAddr>().unwrap());
            assert_eq!(reverse_address(&name), address, "{text}");
        }
        let bytes = query("0.1.18.198.in-addr.arpa", PTR, &[]);
        let pointer = Answer::Name(HostName::parse("a.com").unwrap());
        let answer = parse(&bytes).unwrap().answer(&pointer);
        assert!(answer.ends_with(&[0, 7, 1, b'a', 3, b'c', b'o', b'm', 0]));
    }

    #[test]
    fn messages_without_a_question_are_ignored_or_refused() {
        let change = |at: usize, value: u8| {
            let mut bytes = query("a.com", A, &[]);
            bytes[at] = value;
            bytes
        };
        let long = ["a".repeat(63).as_str(); 5].join(".");
        for (bytes, answer) in [
            (vec![0; 11], None),
            (change(2, 0x80), None),
            (change(2, 0x28), Some(Answer::NotImplemented)),
            (change(5, 0), Some(Answer::FormatError)),
            (change(5, 2), Some(Answer::FormatError)),
            (change(7, 1), Some(Answer::FormatError)),
            (change(9, 1), Some(Answer::FormatError)),
            (change(11, 1), Some(Answer::FormatError)),
            (change(10, 255), Some(Answer::FormatError)),
            (change(12, 0xc0), Some(Answer::FormatError)),
            (change(12, 64), Some(Answer::FormatError)),
            (change(12, 63), Some(Answer::FormatError)),
            (change(22, 3), Some(Answer::NotImplemented)),
            (query(&long, A, &[]), Some(Answer::FormatError)),
        ] {
            let expected = answer.as_ref();
            match parse(&bytes) {
                Err(NoQuestion::Ignore) => assert_eq!(expected, None, "{bytes:?}"),
                Err(NoQuestion::Answer(question, answer)) => {
                    assert_eq!(Some(&answer), expected, "{bytes:?}");
                    assert!(question.answer(&answer).len() >= HEADER);
                }
                Ok(question) => panic!("{question:?} of {bytes:?}"),
            }
        }
        let odd = query("a b.com", A, &[]);
        let question = parse(&odd).unwrap();
        assert_eq!(
            (question.name, question.text.as_str()),
            (None, "a\\032b.com")
        );
        assert_eq!(parse(&query("", A, &[])).unwrap().name, None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_panics_and_every_answer_fits(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0usize..12,
        ) {
            let answers = [
                Answer::Address("fd98:18::1".parse().unwrap()),
                Answer::Name(HostName::parse(&["a".repeat(60).as_str(); 4].join(".")).unwrap()),
                Answer::BadVersion,
            ];
            for _ in 0..2 {
                let question = match parse(&bytes) {
                    Ok(question) | Err(NoQuestion::Answer(question, _)) => question,
                    Err(NoQuestion::Ignore) => continue,
                };
                for answer in &answers {
                    let most = if matches!(answer, Answer::Name(_)) { 1232 } else { 512 };
                    prop_assert!(question.answer(answer).len() <= most);
                }
                let header = [0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
                bytes.splice(0..0, header[..at].iter().copied());
            }
        }
    }
}
