//! Keys that are known by their shape. This runs on every result, so automata search their prefixes,
//! and only the text after a prefix is read byte by byte.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::assigned::{KeyMatch, URL, assigned, url_password};
use super::table::{Alphabet, NAMES, SHAPES, SHORTEST};

/// How `{"` begins in base64.
pub(super) const JWT: &str = "eyJ";
pub(super) const BLOCK: &str = "-----BEGIN ";
/// In any case.
pub(super) const BEARER: &str = "bearer";

pub(super) fn is_dashed(byte: u8) -> bool {
    Alphabet::Dashed.has(byte)
}

pub(super) fn is_base64(byte: u8) -> bool {
    Alphabet::Base64.has(byte)
}

pub(super) fn is_bearer(byte: u8) -> bool {
    is_dashed(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'=')
}

/// How many bytes from `at` on are of an alphabet.
pub(super) fn run(bytes: &[u8], at: usize, of: fn(u8) -> bool) -> usize {
    bytes
        .get(at..)
        .map_or(0, |rest| rest.iter().take_while(|byte| of(**byte)).count())
}

/// The positions of the last runs of each alphabet. Keys are searched from the left to the right,
/// so that each byte of a text is read once for each alphabet, for any text.
struct AlphabetRuns<'t> {
    bytes: &'t [u8],
    known: [Range<usize>; Alphabet::COUNT],
    /// Of tokens in three parts, none begins before this.
    no_token_before: usize,
}

impl<'t> AlphabetRuns<'t> {
    fn new(text: &'t str) -> Self {
        AlphabetRuns {
            bytes: text.as_bytes(),
            known: std::array::from_fn(|_| 0..0),
            no_token_before: 0,
        }
    }

    fn length(&mut self, at: usize, of: Alphabet) -> usize {
        let known = &mut self.known[of as usize];
        if !known.contains(&at) {
            let rest = self.bytes.get(at..).unwrap_or_default();
            let length = rest.iter().take_while(|byte| of.has(**byte)).count();
            *known = at..at + length;
        }
        known.end - at
    }
}

/// The automata that find the places where a key may begin. Where one is missing, every place is
/// looked at.
#[derive(Clone, Copy, Default)]
struct Automata {
    /// The prefixes of the keys, apart from headers, which are written in any case.
    beginnings: Option<&'static AhoCorasick>,
    /// Headers, and the names to which secrets are assigned.
    names: Option<&'static AhoCorasick>,
    urls: Option<&'static AhoCorasick>,
}

impl Automata {
    fn built() -> Automata {
        static BEGINNINGS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
            let beginnings = SHAPES.iter().map(|shape| shape.prefix);
            AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostFirst)
                .kind(Some(AhoCorasickKind::DFA))
                .build(beginnings.chain([JWT, BLOCK]))
                .ok()
        });
        static NAMED: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
            let names = NAMES.iter().map(|(name, _)| *name);
            AhoCorasick::builder()
                .ascii_case_insensitive(true)
                .kind(Some(AhoCorasickKind::DFA))
                .build(names.chain([BEARER]))
                .ok()
        });
        static URLS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new([URL]).ok());
        Automata {
            beginnings: BEGINNINGS.as_ref(),
            names: NAMED.as_ref(),
            urls: URLS.as_ref(),
        }
    }

    /// Returns none for the first texts of a process: a command that is over in milliseconds records
    /// a few hundred bytes, and building the automata takes longer than looking at each of them.
    fn for_text(text: &str) -> Automata {
        const BYTES_WITHOUT: usize = 8 << 10;
        static LOOKED_AT: AtomicUsize = AtomicUsize::new(0);
        let before = LOOKED_AT.fetch_add(text.len(), Ordering::Relaxed);
        if before.saturating_add(text.len()) <= BYTES_WITHOUT {
            Automata::default()
        } else {
            Automata::built()
        }
    }
}

/// Every key in `text`, in order, none within another.
pub(super) fn find(text: &str) -> Vec<KeyMatch> {
    // Most texts are a name, a number or a word.
    if text.len() < SHORTEST {
        return Vec::new();
    }
    find_with(text, Automata::for_text(text))
}

fn find_with(text: &str, automata: Automata) -> Vec<KeyMatch> {
    let bytes = text.as_bytes();
    let mut runs = AlphabetRuns::new(text);
    let mut found = all(text, automata.beginnings, |at| key(text, &mut runs, at));
    let shaped = found.len();
    found.extend(all(text, automata.names, |at| {
        bearer(bytes, at).or_else(|| assigned(bytes, at))
    }));
    found.extend(all(text, automata.urls, |at| url_password(bytes, at)));
    if found.len() == shaped {
        return found;
    }
    found.sort_by_key(|(_, at)| (at.start, Reverse(at.end)));
    let mut end = 0;
    found.retain(|(_, at)| {
        let apart = at.end > end;
        end = end.max(at.end);
        apart
    });
    found
}

/// Every key that begins where `beginnings` says; without them, it may be anywhere.
fn all(
    text: &str,
    beginnings: Option<&AhoCorasick>,
    mut key: impl FnMut(usize) -> Option<KeyMatch>,
) -> Vec<KeyMatch> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if let Some(beginnings) = beginnings {
            match beginnings.find(&text.as_bytes()[at..]) {
                Some(next) => at += next.start(),
                None => break,
            }
        }
        at = match key(at) {
            Some((kind, range)) => {
                let end = range.end;
                found.push((kind, range));
                end
            }
            None => at + 1,
        };
    }
    found
}

fn key(text: &str, runs: &mut AlphabetRuns<'_>, at: usize) -> Option<KeyMatch> {
    match text.as_bytes()[at] {
        b'e' => token(runs, at),
        b'-' => private_key(text, at),
        _ => prefixed(runs, at),
    }
}

/// `true` if a key may begin here: after neither a letter nor a digit, except one that ends an
/// escape. A `_` joins words (`TOKEN_`), of which the key is one.
pub(super) fn begins(bytes: &[u8], at: usize) -> bool {
    let before = &bytes[..at];
    before
        .last()
        .is_none_or(|byte| !byte.is_ascii_alphanumeric())
        || ends_in_escape(before)
}

/// `true` if the last letters are an escape of the text: `\n` of JSON and of source code, `%0A` of
/// an address, a colour of a terminal.
fn ends_in_escape(before: &[u8]) -> bool {
    let hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    match before {
        [.., b'\\', b'n' | b't' | b'r' | b'b' | b'f' | b'v' | b'0'] => true,
        _ => {
            let tail = |count: usize| before.len().checked_sub(count).map(|at| &before[at..]);
            let coded = |count, mark: &[u8]| {
                tail(count).is_some_and(|tail| tail.starts_with(mark) && hex(&tail[mark.len()..]))
            };
            coded(3, b"%") || coded(4, b"\\x") || coded(6, b"\\u") || ends_in_colour(before)
        }
    }
}

/// `ESC [ 01;31 m`, and `ESC [ K` which some print after it.
fn ends_in_colour(before: &[u8]) -> bool {
    /// The longest that anything prints.
    const MAX_COLOUR_BYTES: usize = 24;
    let Some((b'm' | b'K', rest)) = before.split_last() else {
        return false;
    };
    let codes = rest.iter().rev().take(MAX_COLOUR_BYTES);
    let count = codes
        .take_while(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'))
        .count();
    rest[..rest.len() - count].ends_with(b"\x1b[")
}

fn prefixed(runs: &mut AlphabetRuns<'_>, at: usize) -> Option<KeyMatch> {
    let bytes = runs.bytes;
    if !begins(bytes, at) {
        return None;
    }
    SHAPES.iter().find_map(|shape| {
        if !bytes[at..].starts_with(shape.prefix.as_bytes()) {
            return None;
        }
        let body = at + shape.prefix.len();
        let length = runs.length(body, shape.alphabet);
        let end = body + length;
        let fits = (shape.min..=shape.max).contains(&length)
            && (!shape.digits || bytes[body..end].iter().any(u8::is_ascii_digit));
        fits.then_some((shape.kind, at..end))
    })
}

/// Three parts of base64url with dots between them, the first two of which begin with `{"`.
fn token(runs: &mut AlphabetRuns<'_>, at: usize) -> Option<KeyMatch> {
    let bytes = runs.bytes;
    let begins_part = |at: usize| bytes[at..].starts_with(JWT.as_bytes());
    if at < runs.no_token_before || !begins_part(at) || !begins(bytes, at) {
        return None;
    }
    let mut end = at + runs.length(at, Alphabet::Dashed);
    if end - at < 8 {
        return None;
    }
    // The text after the first part is shared by every key that begins in it.
    runs.no_token_before = end;
    for part in 1..3 {
        if bytes.get(end) != Some(&b'.') {
            return None;
        }
        let from = end + 1;
        end = from + run(bytes, from, is_dashed);
        if end - from < 8 || part < 2 && !begins_part(from) {
            return None;
        }
    }
    Some(("jwt", at..end))
}

/// Most bytes of a header before the word that its token follows.
pub(super) const HEADER_BYTES: usize = 24;
pub(super) const AUTHORIZATION: &str = "authorization";

/// The token after `Authorization: Bearer`, in any spelling of the header.
fn bearer(bytes: &[u8], at: usize) -> Option<KeyMatch> {
    let word = bytes.get(at..at + BEARER.len())?;
    if !word.eq_ignore_ascii_case(BEARER.as_bytes()) || !begins(bytes, at) {
        return None;
    }
    let spaces = run(bytes, at + 6, |byte| byte == b' ');
    let token = at + 6 + spaces;
    let length = run(bytes, token, is_bearer);
    let before = &bytes[at.saturating_sub(HEADER_BYTES)..at];
    let header = before
        .windows(AUTHORIZATION.len())
        .any(|word| word.eq_ignore_ascii_case(AUTHORIZATION.as_bytes()));
    (spaces > 0 && header && length >= 8).then_some(("bearer-token", token..token + length))
}

/// Longest key block that is looked for.
const MAX_BLOCK: usize = 64 * 1024;
/// Longest secret, with the text by which it is recognized.
pub(super) const MAX_BYTES: usize = MAX_BLOCK + 256;

/// Most bytes between two lines of a key: prefixes, quotes and headers.
const MAX_BETWEEN: usize = 200;
/// Shorter runs of base64 only end a key.
const MIN_LINE: usize = 16;
/// Headers of keys, which stand in front of the first line.
const HEADERS: [&str; 3] = ["Proc-Type: ", "DEK-Info: ", "Version: GnuPG "];

/// A private key in PEM, from its first line to its last; without a last line, as far as it
/// looks like one. All other text ends it: a line of code must not pass for a part of a key.
fn private_key(text: &str, at: usize) -> Option<KeyMatch> {
    let bytes = text.as_bytes();
    let rest = bytes[at..].strip_prefix(BLOCK.as_bytes())?;
    let body = at + BLOCK.len() + label(rest, true)?;
    let limit = (body + MAX_BLOCK).min(bytes.len());
    let block = &bytes[body..limit];
    let mut last = None;
    let mut cursor = 0;
    loop {
        let next = cursor + between(&block[cursor..], last.is_none());
        if next - cursor > MAX_BETWEEN {
            break;
        }
        if let Some(end) = block[next..].strip_prefix(b"-----END ") {
            if let Some(label) = label(end, false).filter(|_| last.is_some()) {
                last = Some(body + next + 9 + label);
            }
            break;
        }
        let length = run(block, next, is_base64);
        if !is_key_line(&block[next..next + length]) {
            break;
        }
        cursor = next + length;
        if length < MIN_LINE {
            if last.is_none() {
                break;
            }
            // The last line; OpenPGP writes a checksum behind it.
            let end = cursor + between(&block[cursor..], false);
            let end = match block.get(end) {
                Some(b'=') if run(block, end, is_base64) == 5 => end + 5,
                _ => cursor,
            };
            let next = end + between(&block[end..], false);
            let is_end = next == block.len() || block[next..].starts_with(b"-----END ");
            if !is_end || next - end > MAX_BETWEEN {
                break;
            }
            cursor = end;
        }
        last = Some(body + cursor);
    }
    Some(("private-key", at..last?))
}

/// The length of the rest of a first or last line: `RSA PRIVATE KEY-----`.
fn label(rest: &[u8], of_key: bool) -> Option<usize> {
    const MARK: &[u8] = b"PRIVATE KEY";
    let is_label = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' ';
    let length = run(rest, 0, is_label);
    let is_of_key = !of_key || rest[..length].windows(MARK.len()).any(|word| word == MARK);
    let is_whole = length <= 64 && rest[length..].starts_with(b"-----");
    (is_of_key && is_whole).then_some(length + 5)
}

/// Base64 of bytes has capital and small letters; words and most paths do not.
fn is_key_line(line: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| line.iter().any(is);
    match line.len() {
        0 => false,
        1..MIN_LINE => has(|byte| !byte.is_ascii_lowercase() && *byte != b'/'),
        _ => has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase),
    }
}

/// The length of the text between two lines of a key: blanks, quotes and the ends of lines as
/// source code has them, signs of comments and differences, numbers of lines, and headers.
fn between(rest: &[u8], is_first: bool) -> usize {
    let mut at = 0;
    while at < rest.len() && at <= MAX_BETWEEN {
        at += match &rest[at..] {
            [b'\n', line @ ..] => 1 + line_number(line).unwrap_or(0),
            [b'\\', b'n' | b'r', ..] => 2,
            [byte, ..] if b" \t\r\n\"'`\\,#*>".contains(byte) => 1,
            [b'+', b' ' | b'\r' | b'\n', ..] => 1,
            [b'+' | b'-', end @ ..] if end.starts_with(b"-----END ") => 1,
            [b'-', next, ..] if is_base64(*next) => 1,
            here => match header(here).filter(|_| is_first) {
                Some(length) => length,
                None => break,
            },
        };
    }
    at
}

/// The length of the number in front of a line, as `cat -n` and `grep -n` print it.
fn line_number(line: &[u8]) -> Option<usize> {
    let digits = run(line, 0, |byte| byte == b' ');
    let end = digits + run(line, digits, |byte| byte.is_ascii_digit());
    let is_number = end > digits && matches!(line.get(end), Some(b'\t' | b':' | b'-' | b'|'));
    is_number.then_some(end + 1)
}

/// The length of a header of a key. Its value has no sign with which code calls or expands.
fn header(line: &[u8]) -> Option<usize> {
    let is_plain = |byte: u8| is_bearer(byte) || matches!(byte, b' ' | b',' | b':');
    let name = HEADERS
        .iter()
        .find(|name| line.starts_with(name.as_bytes()))?;
    let value = name.len() + run(line, name.len(), is_plain);
    let system = line[value..].starts_with(b"(GNU/Linux)");
    let length = value + if system { 11 } else { 0 };
    matches!(line.get(length), None | Some(b'\n' | b'\r' | b'\\')).then_some(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece() -> impl Strategy<Value = String> {
        let beginning = prop::sample::select(vec![
            "sk-ant-",
            "sk-",
            "github_pat_",
            "ghp_",
            "gho_",
            "AKIA",
            "ASIA",
            "xoxb-",
            "AIza",
            "eyJ",
            "-----BEGIN RSA PRIVATE KEY-----\n",
            "-----END RSA PRIVATE KEY-----",
            "-----BEGIN ",
            "Authorization: Bearer ",
            "authorization=bEaReR  ",
            "bearer ",
            "glpat-",
            "sk_live_",
            "hf_",
            "PASSWORD=",
            "api-key: \"",
            "https://user:",
            "@host/",
            "\\n",
            "%3D",
            "_",
            ".",
            "é",
            " ",
            "\n",
            "\u{1b}[01;31m",
        ]);
        prop_oneof![
            beginning.prop_map(str::to_owned),
            "[a-zA-Z0-9]{0,50}",
            "[A-Z0-9]{16}",
            "[a-z ._é-]{0,12}",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(test_sample::count("keys: beginnings", 500, 2_000)))]

        /// Looking at every byte finds no more.
        #[test]
        fn no_beginning_is_passed(pieces in prop::collection::vec(piece(), 0..12)) {
            let text = pieces.concat();
            let built = find_with(&text, Automata::built());
            let slowly = find_with(&text, Automata::default());
            prop_assert_eq!(built, slowly, "{:?}", text);
        }
    }

    /// The shortest and the longest key of each row are found under the row's own kind: no earlier
    /// row takes them.
    #[test]
    fn every_row_finds_its_own_keys() {
        for row in SHAPES {
            let letters = (b'0'..=b'z').filter(|byte| row.alphabet.has(*byte));
            let letters: Vec<char> = letters.map(char::from).collect();
            for length in [row.min, row.max] {
                let body: String = letters.iter().cycle().take(length).collect();
                let key = format!("{}{body}", row.prefix);
                assert_eq!(
                    find(&format!("a {key} b")),
                    [(row.kind, 2..2 + key.len())],
                    "{key}"
                );
            }
        }
    }

    /// `~` marks where a key begins and ends; put together here, so that no scanner takes this
    /// file for a leak.
    #[test]
    fn known_shapes() {
        let a = |n| "aB3".repeat(n);
        let pem = |label: &str| {
            format!(
                "~-----BEGIN {label}PRIVATE KEY-----\n{}\n{}\n-----END {label}PRIVATE KEY-----~\n",
                "MIIEvQIBADANBgkqhkiG".repeat(3),
                "c2hvcnQ="
            )
        };
        let key = |prefix: &str, end: &str| {
            let lines = format!("{prefix}{}{end}", a(20)).repeat(3);
            format!(
                "{prefix}~-----BEGIN RSA PRIVATE KEY-----{end}{lines}{prefix}c2hvcnQ={end}{prefix}-----END RSA PRIVATE KEY-----~{end}"
            )
        };
        let rows = [
            ("anthropic-key", format!("key=~sk-ant-api03-{}~;", a(10))),
            ("api-key", format!("\"~sk-proj-{}~\"", a(10))),
            ("github-token", format!("~ghp_{}~", a(12))),
            ("github-token", format!("url https://~gho_{}~@host", a(12))),
            ("github-token", format!("~github_pat_{}_x~", a(10))),
            ("aws-key", format!("id: ~AKIA{}~\n", "A1B2".repeat(4))),
            ("slack-token", format!("~xoxb-{}~ ", "12345-".repeat(4))),
            ("google-key", format!("~AIza{}~", "aB3-_".repeat(7))),
            ("jwt", format!("t=~eyJ{}.eyJ{}.{}~", a(4), a(5), a(9))),
            ("bearer-token", "Authorization: Bearer ~abc.def~12345~\n".replace("f~1", "f1")),
            ("bearer-token", "{\"authorization\": \"bearer ~0123456789~\"}".to_owned()),
            ("private-key", pem("")),
            ("private-key", pem("RSA ")),
            ("private-key", pem("OPENSSH ")),
            ("private-key", format!("\"{}\"", pem("").replace('\n', "\\n"))),
            ("private-key", format!("~-----BEGIN PRIVATE KEY-----\n{}~\n[cut]", "MIIEvQIBADANBgkq".repeat(4))),
            // As texts have them: quoted, commented, numbered, in a difference, with headers.
            ("private-key", key("\"", "\\n\" +\n")),
            ("private-key", key("    # ", "\n")),
            ("private-key", key("+", "\r\n")),
            ("private-key", key("-", "\n")),
            ("private-key", key("", " ")),
            ("private-key", pem("RSA ").replacen("KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n", 1)),
            ("private-key", format!(
                "~-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v1.4.11 (GNU/Linux)\n\n{}\nxQ==\n=aB3d\n-----END PGP PRIVATE KEY BLOCK-----~\n",
                a(20)
            )),
            ("private-key", format!(
                "7:~-----BEGIN RSA PRIVATE KEY-----\n8:{}\n9:c2hvcnQ=\n10:-----END RSA PRIVATE KEY-----~\n",
                a(20)
            )),
            ("private-key", format!(
                "     9\t~-----BEGIN RSA PRIVATE KEY-----\n    10\t{}\n    11\tc2hvcnQ=\n    12\t-----END RSA PRIVATE KEY-----~\n",
                a(20)
            )),
            // Other text ends one.
            ("private-key", format!("~-----BEGIN PRIVATE KEY-----\n{}~\nrm x\n{}\n-----END PRIVATE KEY-----", a(20), a(20))),
            ("private-key", format!("~-----BEGIN PRIVATE KEY-----\n{}~\nreboot\n-----END PRIVATE KEY-----", a(20))),
            ("private-key", format!("~-----BEGIN PRIVATE KEY-----\n{}~\n-----END $(rm x)-----", a(20))),
            ("", format!("-----BEGIN PRIVATE KEY-----\nrm x\n{}\n-----END PRIVATE KEY-----", a(20))),
            ("", format!("-----BEGIN PRIVATE KEY-----\nComment: $(rm)\n{}\n-----END PRIVATE KEY-----", a(20))),
            ("", format!("-----BEGIN\nrm x\nPRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", a(20))),
            ("", "-----BEGIN PRIVATE KEY-----\n/usr/local/bin/something/else\n-----END PRIVATE KEY-----".to_owned()),
            // Where one begins: behind what joins words, and behind what stands for another letter.
            ("github-token", format!("TOKEN_~ghp_{}~", a(12))),
            ("aws-key", format!("KEY_~AKIA{}~", "A1B2".repeat(4))),
            ("github-token", format!(r#"{{"a": "x\n~ghp_{}~\n"}}"#, a(12))),
            ("github-token", format!(r"x\\n~ghp_{}~ ", a(12))),
            ("slack-token", format!(r"\t~xoxb-{}~ ", "12345-".repeat(4))),
            ("anthropic-key", format!(r"\r~sk-ant-api03-{}~;", a(10))),
            ("github-token", format!(r"\x0a~ghp_{}~ \u000a", a(12))),
            ("github-token", format!(r"\u000a~ghp_{}~", a(12))),
            ("github-token", format!("?token%3D~ghp_{}~", a(12))),
            ("github-token", format!("\u{1b}[01;31m\u{1b}[K~ghp_{}~\u{1b}[m", a(12))),
            ("github-token", format!("\u{1b}[01;31m~ghp_{}~\u{1b}[m", a(12))),
            ("jwt", format!(r"\n~eyJ{}.eyJ{}.{}~", a(4), a(5), a(9))),
            ("", format!("xghp_{}", a(12))),
            ("", format!("nghp_{} 0ghp_{}", a(12), a(12))),
            ("", format!("mghp_{} [31mghp_{} 20ghp_{}", a(12), a(12), a(12))),
            ("", format!("u000aghp_{} x0aghp_{}", a(12), a(12))),
            ("", format!("desk-{} ta_sk-{}", a(10), "circle-".repeat(4))),
            ("", "FOO_AKIA_BAR my_sk-learn_test_of_pipelines".to_owned()),
            ("", format!("sk-{}", "circle-child-".repeat(3))),
            ("", format!("task-{}", a(10))),
            ("", format!("AKIA{}", "A1B2".repeat(5))),
            ("", "Authorization: Bearer $TOKEN".to_owned()),
            ("", "the bearer of this letter, 12345678".to_owned()),
            ("", "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqMIIEvQIBADANBgkq\n-----END CERTIFICATE-----".to_owned()),
            ("", "begins with `-----BEGIN PRIVATE KEY-----` and so on, as everybody knows".to_owned()),
            ("", "eyJ.eyJ.x ghp_short xoxb-1 AIzaShort".to_owned()),
        ];
        for (kind, marked) in rows {
            let text = marked.replace('~', "");
            let found = find(&text);
            if kind.is_empty() {
                assert_eq!(found, [], "{text}");
                continue;
            }
            let start = marked.find('~').unwrap();
            let end = marked.rfind('~').unwrap() - 1;
            assert_eq!(found, [(kind, start..end)], "{text}");
        }
    }
}
