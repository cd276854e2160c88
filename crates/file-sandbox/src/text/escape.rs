//! Names with characters that lie on a screen are shown escaped, and the escape reads back.
//!
//! A newline in a name forges a line of a listing, a bidirectional control reverses it, and a
//! terminal obeys ESC. `\u{…}` represents such a character (and a backslash), `\x{…}` a byte that
//! is not UTF-8. Both are long on purpose: `dir\new.txt`, a path from another system, is not an
//! escape and is refused instead of being read as a newline.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use sandbox_names::invisible::is_invisible;

/// The spelling of a name from disk.
pub(crate) fn escape_name(name: &OsStr) -> Cow<'_, str> {
    if let Some(text) = name.to_str()
        && !text.chars().any(is_escaped)
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    for chunk in name.as_encoded_bytes().utf8_chunks() {
        push_chars(&mut out, chunk.valid(), is_escaped);
        for byte in chunk.invalid() {
            push_escape(&mut out, 'x', u32::from(*byte));
        }
    }
    Cow::Owned(out)
}

/// Returns the name of a spelling; `None` if a backslash does not start one of these escapes.
pub(crate) fn unescape_name(spelled: &str) -> Option<Cow<'_, OsStr>> {
    if !spelled.contains('\\') {
        return Some(Cow::Borrowed(OsStr::new(spelled)));
    }
    let mut bytes = Vec::with_capacity(spelled.len());
    let mut rest = spelled;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let (body, tail) = after.get(1..)?.strip_prefix('{')?.split_once('}')?;
        let code = u32::from_str_radix(body, 16).ok()?;
        match after.as_bytes()[0] {
            b'u' => {
                let c = char::from_u32(code).filter(|c| *c != '\0' && is_escaped(*c))?;
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            b'x' => bytes.push(u8::try_from(code).ok().filter(|byte| *byte >= 0x80)?),
            _ => return None,
        }
        rest = tail;
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(Cow::Owned(os_string(bytes)?))
}

/// A text for a message: control characters escaped, everything else as it is.
pub(crate) fn for_display(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    push_chars(&mut out, text, is_unseen);
    Cow::Owned(out)
}

#[cfg(unix)]
fn os_string(bytes: Vec<u8>) -> Option<OsString> {
    use std::os::unix::ffi::OsStringExt as _;
    Some(OsString::from_vec(bytes))
}

/// On systems whose names are not bytes, only escapes of characters can be read back.
#[cfg(not(unix))]
fn os_string(bytes: Vec<u8>) -> Option<OsString> {
    String::from_utf8(bytes).ok().map(OsString::from)
}

fn push_chars(out: &mut String, text: &str, escaped: fn(char) -> bool) {
    for c in text.chars() {
        if escaped(c) {
            push_escape(out, 'u', u32::from(c));
        } else {
            out.push(c);
        }
    }
}

fn push_escape(out: &mut String, form: char, code: u32) {
    // Writing into a String cannot fail.
    let _ = write!(out, "\\{form}{{{code:x}}}");
}

fn is_escaped(c: char) -> bool {
    c == '\\' || is_dangerous(c)
}

/// Controls (C0, DEL, C1), line and paragraph separators, and bidirectional controls
/// (UAX #9, CVE-2021-42574).
fn is_dangerous(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// In a message also invisible characters: joiners, soft hyphens, tags. In a name they stay, as
/// part of emoji and of other scripts.
fn is_unseen(c: char) -> bool {
    is_dangerous(c) || is_invisible(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_escaped() {
        let rows = [
            ("plain ü 🎉", "plain ü 🎉"),
            ("a\nb", "a\\u{a}b"),
            ("a\\b", "a\\u{5c}b"),
            ("\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
            ("\u{2764}\u{fe0f}\u{3000}b", "\u{2764}\u{fe0f}\u{3000}b"),
        ];
        for (name, spelled) in rows {
            assert_eq!(escape_name(OsStr::new(name)), spelled);
            assert_eq!(unescape_name(spelled).unwrap(), OsStr::new(name));
        }
        assert_eq!(for_display("a\\b\u{7}"), "a\\b\\u{7}");
        assert_eq!(for_display("a\u{200b}\u{e0041}b"), "a\\u{200b}\\u{e0041}b");
    }

    #[cfg(unix)]
    proptest! {
        #[test]
        fn every_name_reads_back(bytes in proptest::collection::vec(1u8..=255, 1..40)) {
            use std::os::unix::ffi::OsStrExt as _;
            let name = OsStr::from_bytes(&bytes);
            let spelled = escape_name(name);
            prop_assert!(!spelled.chars().any(is_dangerous));
            let back = unescape_name(&spelled);
            prop_assert_eq!(back.as_deref(), Some(name));
        }
    }
}
