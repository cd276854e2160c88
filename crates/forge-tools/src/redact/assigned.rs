//! Secrets that are known by their place instead of their shape: values assigned to `password` or
//! `CLIENT_SECRET`, and the password in a URL.
//!
//! Source code assigns to such names as well, so a value has to look as if it was made up: letters
//! and digits, many different ones, and no words in a row. The decision about a value depends on
//! nothing before the name, so that a text may come in pieces.

use std::ops::Range;

use super::table::{NAMES, NameMeaning, PLACES};

/// Longest value, in bytes.
const MAX_VALUE: usize = 256;
/// Quotes and blanks between a name, its operator, and the value.
const MAX_BETWEEN: usize = 8;
/// Longest name of a user in a URL.
const MAX_USER: usize = 64;
/// The text before a URL's user and password.
pub(super) const URL: &str = "://";

/// Bytes at the end of a text that a secret with its name can take.
pub(super) const WINDOW: usize = 16 + 2 * MAX_BETWEEN + 2 + MAX_VALUE + 1;

pub(super) type KeyMatch = (&'static str, Range<usize>);

/// The text behind a name.
enum AssignedText {
    /// The text ends before the value does.
    Cut,
    /// A value of this place.
    Value(Range<usize>),
    /// Something else.
    Nothing,
}

/// Returns the secret that is assigned to the name at `at`, if one is.
pub(super) fn assigned(bytes: &[u8], at: usize) -> Option<KeyMatch> {
    NAMES.iter().find_map(|(name, named)| {
        let end = at + name.len();
        if !bytes.get(at..end)?.eq_ignore_ascii_case(name.as_bytes()) || is_place(bytes, at, name) {
            return None;
        }
        match behind(bytes, end) {
            AssignedText::Value(value) if is_made_up(&bytes[value.clone()], *named) => {
                let kind = match named {
                    NameMeaning::Password => "password",
                    NameMeaning::Secret => "secret",
                };
                Some((kind, value))
            }
            AssignedText::Cut | AssignedText::Value(_) | AssignedText::Nothing => None,
        }
    })
}

/// `true` if a value of a field of this name is a secret. A `token` in fields is too often
/// something else.
pub(super) fn is_secret_field(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let named = NAMES
        .iter()
        .find(|(end, _)| name.ends_with(end) && *end != "token");
    named.is_some_and(|(_, named)| {
        let is_value = value.len() <= MAX_VALUE && value.bytes().all(is_value);
        is_value && begins_value(value.as_bytes()) && is_made_up(value.as_bytes(), *named)
    })
}

/// `true` if the text from `at` on is a name, or the beginning of one, and all that follows could
/// still become the value that is assigned to it.
pub(super) fn is_begun(bytes: &[u8], at: usize) -> bool {
    let rest = &bytes[at..];
    NAMES.iter().any(|(name, _)| {
        let name = name.as_bytes();
        if rest.len() < name.len() {
            return rest.eq_ignore_ascii_case(&name[..rest.len()]);
        }
        rest[..name.len()].eq_ignore_ascii_case(name)
            && match behind(bytes, at + name.len()) {
                AssignedText::Cut => true,
                AssignedText::Value(value) => value.end == bytes.len(),
                AssignedText::Nothing => false,
            }
    })
}

/// A `page_token` is not a secret.
fn is_place(bytes: &[u8], at: usize, name: &str) -> bool {
    let before = bytes[..at].trim_suffix_joint();
    name == "token"
        && PLACES.iter().any(|place| {
            let from = before.len().saturating_sub(place.len());
            before[from..].eq_ignore_ascii_case(place.as_bytes())
        })
}

/// A name without the separator to the next one.
trait Joined {
    fn trim_suffix_joint(&self) -> &Self;
}

impl Joined for [u8] {
    fn trim_suffix_joint(&self) -> &[u8] {
        match self {
            [rest @ .., b'_' | b'-' | b' '] => rest,
            whole => whole,
        }
    }
}

fn behind(bytes: &[u8], end: usize) -> AssignedText {
    let is_between = |byte: u8| matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'`' | b'\\' | b']');
    let skip = |from: usize| {
        let between = bytes[from..].iter().take(MAX_BETWEEN);
        from + between.take_while(|byte| is_between(**byte)).count()
    };
    let mut at = skip(end);
    match bytes.get(at) {
        None => return AssignedText::Cut,
        Some(b'=' | b':') => at += 1,
        Some(_) => return AssignedText::Nothing,
    }
    if let Some(b'=' | b'>') = bytes.get(at) {
        at += 1;
    }
    let start = skip(at);
    // After an escape the value is on another line.
    let is_escape = start > at && bytes[start - 1] == b'\\';
    let rest = &bytes[start..];
    let length = rest
        .iter()
        .take(MAX_VALUE + 1)
        .take_while(|byte| is_value(**byte))
        .count();
    if rest.is_empty() || length == rest.len() && length <= MAX_VALUE {
        // At the end of a text the value is as long as it is.
        return match rest.is_empty() || is_escape || !begins_value(rest) {
            true if rest.is_empty() => AssignedText::Cut,
            true => AssignedText::Nothing,
            false => AssignedText::Value(start..bytes.len()),
        };
    }
    let goes_on = matches!(rest[length], b'(' | b'[' | b'{');
    if is_escape || goes_on || length == 0 || length > MAX_VALUE || !begins_value(rest) {
        return AssignedText::Nothing;
    }
    AssignedText::Value(start..start + length)
}

/// Bytes of which values are: no quotes, no brackets, and nothing that ends a word.
fn is_value(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || b"!#$%&*+-./:=?@^_~".contains(&byte)
}

/// Variables, options, references and paths of a language begin otherwise.
fn begins_value(value: &[u8]) -> bool {
    !matches!(
        value.first(),
        None | Some(b':' | b'$' | b'%' | b'&' | b'*' | b'@' | b'=' | b'-')
    ) && value.get(..2) != Some(b"./")
        && value.get(..2) != Some(b"~/")
}

/// `true` if such a value is only written as a secret.
fn is_made_up(value: &[u8], named: NameMeaning) -> bool {
    let has = |is: fn(&u8) -> bool| value.iter().any(is);
    let letters = has(u8::is_ascii_alphabetic);
    let digits = has(u8::is_ascii_digit);
    let parts = || value.split(|byte| matches!(byte, b'_' | b'-' | b'.' | b'/' | b':'));
    let words = parts().all(is_word);
    if value.windows(3).any(|three| three == b"://") {
        return false;
    }
    match named {
        NameMeaning::Password => {
            let marks = has(|byte| {
                matches!(
                    byte,
                    b'!' | b'#' | b'$' | b'%' | b'&' | b'*' | b'+' | b'@' | b'^' | b'~'
                )
            });
            let is_path = value.first() == Some(&b'/');
            value.len() >= 8
                && letters
                && (digits || marks)
                && !is_path
                && !(words && parts().count() > 1)
                && entropy(value) >= 2.3
        }
        NameMeaning::Secret => {
            value.len() >= 12 && letters && digits && !words && entropy(value) >= 3.0
        }
    }
}

/// `true` of a word, a word with a number behind it, and words joined by capitals.
fn is_word(part: &[u8]) -> bool {
    const MAX_DIGITS: usize = 4;
    const MAX_LETTERS: usize = 24;
    let digits = part
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let word = &part[..part.len() - digits];
    if digits > MAX_DIGITS || word.len() > MAX_LETTERS || !word.iter().all(u8::is_ascii_alphabetic)
    {
        return false;
    }
    let is_joint = |two: &&[u8]| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase();
    let joints = word.windows(2).filter(is_joint).count();
    word.is_empty() || word.len() / (joints + 1) >= 3 || joints == 0
}

/// Bits in each byte of a value, by how often its bytes are there.
fn entropy(value: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in value {
        counts[usize::from(*byte)] += 1;
    }
    // A value has few bytes, so nothing is lost.
    let length = f64::from(u32::try_from(value.len()).unwrap_or(u32::MAX));
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / length)
        .map(|share| -share * share.log2())
        .sum()
}

/// Finds the password in a URL, from the text behind `://` on.
fn in_url(bytes: &[u8], at: usize) -> AssignedText {
    let user = bytes[at..].iter().take(MAX_USER + 1).take_while(|byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'%' | b'+' | b'~' | b'-')
    });
    let start = at + user.count();
    match bytes.get(start) {
        None => return AssignedText::Cut,
        Some(b':') if start - at <= MAX_USER => {}
        Some(_) => return AssignedText::Nothing,
    }
    let start = start + 1;
    const NOT_IN_A_PASSWORD: &[u8] = b"/?#\"'<>@\\`{}()$,[]|";
    let is_password = |byte: u8| {
        !byte.is_ascii_whitespace()
            && !byte.is_ascii_control()
            && !NOT_IN_A_PASSWORD.contains(&byte)
    };
    let password = bytes[start..].iter().take(MAX_VALUE + 1);
    let end = start + password.take_while(|byte| is_password(**byte)).count();
    match bytes.get(end) {
        _ if end - start > MAX_VALUE => AssignedText::Nothing,
        None => AssignedText::Cut,
        Some(b'@') => AssignedText::Value(start..end),
        Some(_) => AssignedText::Nothing,
    }
}

/// Returns the password of the URL whose `://` is at `at`.
pub(super) fn url_password(bytes: &[u8], at: usize) -> Option<KeyMatch> {
    const EXAMPLES: &[&str] = &[
        "pass", "passwd", "password", "pwd", "secret", "token", "user",
    ];
    let behind = at + URL.len();
    if bytes.get(at..behind)? != URL.as_bytes() {
        return None;
    }
    let AssignedText::Value(value) = in_url(bytes, behind) else {
        return None;
    };
    let (user, password) = (&bytes[behind..value.start - 1], &bytes[value.clone()]);
    let is_example = EXAMPLES
        .iter()
        .any(|example| password.eq_ignore_ascii_case(example.as_bytes()));
    let (first, rest) = password.split_first()?;
    let is_same = rest.iter().all(|byte| byte == first);
    (password.len() >= 4 && !is_example && !is_same && password != user)
        .then_some(("url-password", value))
}

/// `true` if the text from `at` on is the beginning of a URL whose password may still come.
pub(super) fn is_url_begun(bytes: &[u8], at: usize) -> bool {
    let rest = &bytes[at..];
    match rest.strip_prefix(URL.as_bytes()) {
        None => URL.as_bytes().starts_with(rest),
        Some(_) => matches!(in_url(bytes, at + URL.len()), AssignedText::Cut),
    }
}
