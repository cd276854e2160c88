//! Keys that are known by their shape. This runs on every result, so their prefixes are searched by
//! vector instructions, and only the text after a prefix is read byte by byte.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::LazyLock;

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

/// The prefixes of the keys, apart from headers, which are written in any case.
static BEGINNINGS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let beginnings = SHAPES.iter().map(|shape| shape.prefix);
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostFirst)
        .kind(Some(AhoCorasickKind::DFA))
        .build(beginnings.chain([JWT, BLOCK]))
        .ok()
});

/// Headers, and the names to which secrets are assigned.
static NAMED: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let names = NAMES.iter().map(|(name, _)| *name);
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .kind(Some(AhoCorasickKind::DFA))
        .build(names.chain([BEARER]))
        .ok()
});

static URLS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new([URL]).ok());

/// Every key in `text`, in order, none within another.
pub(super) fn find(text: &str) -> Vec<(&'static str, Range<usize>)> {
    // Most texts are a name, a number or a word.
    if text.len() < SHORTEST {
        return Vec::new();
    }
    let bytes = text.as_bytes();
    let mut runs = AlphabetRuns::new(text);
    let mut found = all(text, BEGINNINGS.as_ref(), |at| key(text, &mut runs, at));
    let shaped = found.len();
    found.extend(all(text, NAMED.as_ref(), |at| {
        bearer(bytes, at).or_else(|| assigned(bytes, at))
    }));
    found.extend(all(text, URLS.as_ref(), |at| url_password(bytes, at)));
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

/// A private key in PEM, from its first line to its last; without a last line, as far as it
/// looks like one.
fn private_key(text: &str, at: usize) -> Option<KeyMatch> {
    const MARK: &str = "PRIVATE KEY";
    let rest = text[at..].strip_prefix(BLOCK)?;
    let label = rest.find("-----").filter(|end| *end <= 64)?;
    if !rest[..label].contains(MARK) {
        return None;
    }
    let body = at + BLOCK.len() + label + 5;
    let bytes = text.as_bytes();
    let mut limit = (body + MAX_BLOCK).min(text.len());
    while !text.is_char_boundary(limit) {
        limit -= 1;
    }
    // Of the next one nothing belongs to it.
    let block = &text[body..limit];
    let block = &block[..block.find(BLOCK).unwrap_or(block.len())];
    // The end of the last run of base64 that is long enough to be of a key, with no words between.
    let mut end = None;
    let mut cursor = 0;
    let mut between = 0;
    let stop = block.find("-----END ");
    while cursor < stop.unwrap_or(block.len()) {
        let length = run(bytes, body + cursor, is_base64);
        if length >= 16 {
            between = 0;
            cursor += length;
            end = Some(body + cursor);
        } else {
            let step = length.max(1);
            between += step;
            // A header of an old format is short; a page of prose is not.
            if between > 200 {
                break;
            }
            cursor += step;
        }
    }
    let last = end?;
    let closing = stop.filter(|stop| body + stop - last.min(body + stop) <= 200);
    let end = closing
        .and_then(|stop| {
            let line = &block[stop + 9..];
            line.find("-----")
                .map(|dashes| body + stop + 9 + dashes + 5)
        })
        .or_else(|| closing.map(|stop| body + stop))
        // The rest of the last line may be shorter than a run that counts.
        .unwrap_or_else(|| last + run(bytes, last, is_base64));
    Some(("private-key", at..end))
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
            let covered = |found: &[KeyMatch]| {
                let mut covered = vec![false; text.len()];
                for (_, at) in found {
                    covered[at.clone()].fill(true);
                }
                covered
            };
            let bytes = text.as_bytes();
            let mut runs = AlphabetRuns::new(&text);
            let mut slowly = all(&text, None, |at| key(&text, &mut runs, at));
            slowly.extend(all(&text, None, |at| bearer(bytes, at).or_else(|| assigned(bytes, at))));
            slowly.extend(all(&text, None, |at| url_password(bytes, at)));
            prop_assert_eq!(covered(&find(&text)), covered(&slowly), "{:?}", text);
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
