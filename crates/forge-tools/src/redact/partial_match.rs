//! Suffixes of a text that further input could complete into a key: streaming callers hold them
//! back.
//!
//! A complete key is held as well, as long as it could be longer: the rest of it would begin the
//! next piece, where it could not be recognised.

use super::assigned::{self, WINDOW};
use super::shapes::{
    AUTHORIZATION, BEARER, BLOCK, HEADER_BYTES, JWT, begins, is_base64, is_bearer, is_dashed, run,
};
use super::table::{MANY, SHAPES};

/// Most that is held back. Keys of 8 192 bits are shorter.
const MOST: usize = 16 * 1024;
/// The longest token in three parts, and the longest header, that is waited for.
const LONG: usize = 4 * 1024;

/// How many bytes at the end of `text` may be the beginning of a key.
pub(super) fn partial_match_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let from = |most: usize| bytes.len().saturating_sub(most);
    let first = |most, held: fn(&[u8], usize) -> bool| {
        (from(most)..bytes.len()).find(|at| held(bytes, *at))
    };
    let all = [
        first(BLOCK.len() + MOST, private_key),
        first(LONG, header),
        first(LONG, token),
        first(MANY + 32, prefixed),
        first(WINDOW, assigned::is_begun),
        first(WINDOW + 64, assigned::is_url_begun),
        first(HEADER_BYTES, escape),
    ];
    let start = all.into_iter().flatten().min();
    let start = start.map_or(bytes.len(), |start| escape_before(bytes, start));
    // Each begins with a byte that is a character by itself.
    debug_assert!(text.is_char_boundary(start));
    bytes.len() - start
}

/// Where the escape begins that a byte is part of, if it is part of one: its last letter may be the
/// first one of a name, and a key behind it begins nowhere without the rest.
fn escape_before(bytes: &[u8], at: usize) -> usize {
    const LONGEST: usize = 6;
    const LONGEST_COLOUR: usize = 28;
    let back = |most: usize, mark: &[u8], inside: fn(&u8) -> bool| {
        let from = at.saturating_sub(most);
        let found = bytes[from..at]
            .iter()
            .rposition(|byte| mark.contains(byte))?;
        let between = &bytes[from + found + 1..at];
        between.iter().all(inside).then_some(from + found)
    };
    back(LONGEST, b"\\%", u8::is_ascii_alphanumeric)
        .or_else(|| {
            back(LONGEST_COLOUR, b"\x1b", |byte| {
                matches!(byte, b'[' | b'0'..=b'9' | b';' | b':')
            })
        })
        .unwrap_or(at)
}

/// Returns `true` if all that is left from `at` on is the beginning of `word`.
fn is_cut(bytes: &[u8], at: usize, word: &str) -> bool {
    let rest = &bytes[at..];
    rest.len() < word.len() && rest.eq_ignore_ascii_case(&word.as_bytes()[..rest.len()])
}

/// Returns `true` if letters of an alphabet reach from `at` to the end.
fn reach(bytes: &[u8], at: usize, of: fn(u8) -> bool) -> bool {
    at + run(bytes, at, of) == bytes.len()
}

fn prefixed(bytes: &[u8], at: usize) -> bool {
    let rest = &bytes[at..];
    let goes_on = SHAPES.iter().any(|shape| {
        let prefix = shape.prefix.as_bytes();
        match rest.strip_prefix(prefix) {
            None => prefix.starts_with(rest),
            Some(body) => {
                body.len() <= shape.max && body.iter().all(|byte| shape.alphabet.has(*byte))
            }
        }
    });
    goes_on && begins(bytes, at)
}

fn token(bytes: &[u8], at: usize) -> bool {
    let mut part = at;
    for number in 0..3 {
        if number < 2 && is_cut(bytes, part, JWT) {
            return begins(bytes, at);
        }
        if number < 2 && !bytes[part..].starts_with(JWT.as_bytes()) {
            return false;
        }
        if reach(bytes, part, is_dashed) {
            return begins(bytes, at);
        }
        let end = part + run(bytes, part, is_dashed);
        if bytes[end] != b'.' {
            return false;
        }
        part = end + 1;
    }
    false
}

/// `Authorization: Bearer` and its value, from the first letter on.
fn header(bytes: &[u8], at: usize) -> bool {
    if is_cut(bytes, at, AUTHORIZATION) {
        return true;
    }
    let behind = at + AUTHORIZATION.len();
    let word = bytes.get(at..behind);
    if word.is_none_or(|word| !word.eq_ignore_ascii_case(AUTHORIZATION.as_bytes())) {
        return false;
    }
    (behind..=at + HEADER_BYTES).any(|at| {
        if at >= bytes.len() || is_cut(bytes, at, BEARER) {
            return at <= bytes.len();
        }
        let spaces = at + BEARER.len();
        let word = &bytes[at..spaces.min(bytes.len())];
        let token = spaces + run(bytes, spaces, |byte| byte == b' ');
        word.eq_ignore_ascii_case(BEARER.as_bytes())
            && (token == bytes.len() || token > spaces && reach(bytes, token, is_bearer))
    })
}

/// A private key whose last line is still missing, and that the text after it does not end.
fn private_key(bytes: &[u8], at: usize) -> bool {
    /// Words between the lines of a key.
    const MAX_BETWEEN: usize = 200;
    const MAX_LABEL: usize = 64;
    if is_cut(bytes, at, BLOCK) {
        return true;
    }
    let Some(rest) = bytes[at..].strip_prefix(BLOCK.as_bytes()) else {
        return false;
    };
    let find = |bytes: &[u8], word: &[u8]| bytes.windows(word.len()).position(|at| at == word);
    let Some(label) = find(rest, b"-----") else {
        return rest.len() <= MAX_LABEL;
    };
    if label > MAX_LABEL || find(&rest[..label], b"PRIVATE KEY").is_none() {
        return false;
    }
    let body = &rest[label + 5..];
    if let Some(end) = find(body, b"-----END ") {
        let line = &body[end + 9..];
        return find(line, b"-----").is_none() && line.len() <= MAX_LABEL;
    }
    let mut between = 0;
    let mut cursor = 0;
    while cursor < body.len() && between <= MAX_BETWEEN {
        let length = run(body, cursor, is_base64);
        between = if length >= 16 {
            0
        } else {
            between + length.max(1)
        };
        cursor += length.max(1);
    }
    between <= MAX_BETWEEN
}

/// An escape that is cut: a key may begin right after it (`\\n`, `%0A`, a colour).
fn escape(bytes: &[u8], at: usize) -> bool {
    let rest = &bytes[at + 1..];
    match bytes[at] {
        b'\\' => rest.len() < 5 && rest.iter().all(u8::is_ascii_alphanumeric),
        b'%' => rest.len() < 2 && rest.iter().all(u8::is_ascii_hexdigit),
        0x1b => rest
            .iter()
            .all(|byte| matches!(byte, b'[' | b'0'..=b'9' | b';' | b':')),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::Redactor;

    /// What is shown of a text that comes in pieces, each as it may be shown.
    fn shown(redactor: &Redactor, pieces: &[&str]) -> String {
        let (mut shown, mut held) = (String::new(), String::new());
        for piece in pieces {
            held.push_str(piece);
            let rest = held.split_off(held.len() - redactor.partial_match_len(&held));
            shown.push_str(&redactor.redact(&held));
            held = rest;
        }
        shown + &redactor.redact(&held)
    }

    /// Put together here, so that no scanner takes this file for a leak.
    fn keys() -> Vec<String> {
        let a = |n| "aB3".repeat(n);
        let pem = "MIIEvQIBADANBgkqhkiG".repeat(3);
        vec![
            format!("sk-ant-api03-{}", a(10)),
            format!("sk-proj-{}", a(10)),
            format!("ghp_{}", a(12)),
            format!("github_pat_{}_x", a(10)),
            format!("AKIA{}", "A1B2".repeat(4)),
            format!("xoxb-{}", "12345-".repeat(4)),
            format!("AIza{}", "aB3-_".repeat(7)),
            format!("eyJ{}.eyJ{}.{}", a(4), a(5), a(9)),
            format!("glpat-{}", a(8)),
            format!("sk_live_{}", a(8)),
            format!("npm_{}", a(12)),
            format!("hf_{}", a(12)),
            "DB_PASSWORD=qX7bL2vN9sK4".to_owned(),
            "\"client_secret\" : \"qX7bL2vN9sK4mZ\"".to_owned(),
            "api-key := 'qX7bL2vN9sK4mZ'".to_owned(),
            "postgres://me:qX7bL2@db.example/x".to_owned(),
            format!("Authorization: Bearer {}", a(9)),
            format!("{{\"authorization\": \"bearer {}\"}}", a(9)),
            format!(
                "-----BEGIN RSA PRIVATE KEY-----\n{pem}\n{pem}\nc2hvcnQ=\n-----END RSA PRIVATE KEY-----"
            ),
            format!(
                "    1\t-----BEGIN PRIVATE KEY-----\n    2\t{pem}\n    3\t-----END PRIVATE KEY-----"
            ),
        ]
    }

    #[test]
    fn no_cut_shows_a_key() {
        let redactor = Redactor::default();
        for key in keys() {
            for before in [
                "",
                "the key is ",
                "A_",
                "x\\n",
                "x\\t",
                "%3D",
                "%3a",
                "%ac",
                "\u{1b}[01;31m",
            ] {
                let text = format!("{before}{key} is it");
                let whole = redactor.redact(&text).into_owned();
                assert!(whole.contains("[redacted: "), "{text}");
                for cut in 0..=text.len() {
                    let pieces = [&text[..cut], &text[cut..]];
                    assert_eq!(shown(&redactor, &pieces), whole, "cut at {cut}: {text}");
                }
                let letters: Vec<&str> = text.split_inclusive(|_| true).collect();
                assert_eq!(shown(&redactor, &letters), whole, "{text}");
            }
        }
    }

    #[test]
    fn what_is_held_is_bounded() {
        let redactor = Redactor::default();
        for (beginning, more) in [
            ("sk-", "a"),
            ("sk-", "sk-"),
            ("eyJ", "a"),
            ("Authorization: Bearer ", "a"),
            ("authorization ", " "),
            ("PASSWORD=", "a1"),
            ("token=", "token="),
            ("://", "a"),
            ("://a:", "://"),
            ("-----BEGIN PRIVATE KEY-----", "A"),
            ("-----BEGIN ", "-----BEGIN "),
            ("\u{1b}[", "1;"),
        ] {
            let text = beginning.to_owned() + &more.repeat(40_000 / more.len());
            let held = redactor.partial_match_len(&text);
            assert!(held <= super::MOST + 16, "{beginning}: {held}");
        }
    }

    #[test]
    fn of_ordinary_text_next_to_nothing_is_held() {
        for text in [
            "",
            "Done.",
            "I read the file",
            "desk",
            "task-1",
            "x = 7",
            "eyes",
            "the token is wrong",
            "password: ask me. ",
            "https://example.com/",
            "AKIAB c",
            "Authorization: none of that kind. ",
            "-----BEGIN CERTIFICATE-----\n",
            "100%zz",
        ] {
            // The first letters of a name may be those of any word.
            assert!(Redactor::default().partial_match_len(text) <= 2, "{text}");
        }
    }

    proptest! {
        /// However it is cut, no more is shown than of the whole.
        #[test]
        fn pieces_show_no_key(
            parts in prop::collection::vec((0_usize..21, "[a-c \n\"é.-]{0,6}"), 1..6),
            cuts in prop::collection::vec(0_usize..400, 0..8),
        ) {
            let keys = keys();
            let text: String = parts
                .iter()
                .map(|(n, filler)| format!("{} {filler} ", keys.get(*n).map_or("", String::as_str)))
                .collect();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|at| text.is_char_boundary(*at)).collect();
            cuts.push(text.len());
            cuts.sort_unstable();
            let mut from = 0;
            let pieces: Vec<&str> = cuts.iter().map(|at| {
                let piece = &text[from..*at];
                from = *at;
                piece
            }).collect();
            let redactor = Redactor::default();
            prop_assert_eq!(shown(&redactor, &pieces), redactor.redact(&text).into_owned());
        }
    }
}
