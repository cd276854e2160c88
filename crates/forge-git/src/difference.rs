//! The difference of two files as a person is shown it before they agree. One binary byte must not
//! hide a file from them: as long as most of it is readable, it is shown.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Instant;

use file_sandbox::ContentHash;
use forge_tools::Redactor;

use super::repo_path::RepoPath;

/// Most lines of a file that is compared.
const MAX_LINES: usize = 400_000;
/// A file is binary if more than one in so many of its bytes are not text.
const READABLE: usize = 4;

/// The row before the hunks of partly binary files, in the form of git's own remarks.
const NOTE: &str = "\\ Bytes that are not text are written as %NN, and % itself as %25\n";

/// Returns a unified diff; of binary content, sizes and hashes. Past `until` it is still right, and
/// only less short. `None` for texts with more lines than a person is shown.
pub(super) fn difference(
    path: &RepoPath,
    old: Option<&[u8]>,
    new: Option<&[u8]>,
    redactor: &Redactor,
    until: Instant,
) -> Option<String> {
    let name = |side: &str, there: bool| match there {
        true => format!("{side}/{path}"),
        false => "/dev/null".to_owned(),
    };
    let (from, to) = (name("a", old.is_some()), name("b", new.is_some()));
    let sides = Sides::of(old.unwrap_or_default(), new.unwrap_or_default());
    let rows = match sides {
        Some(sides) if sides.is_long() => return None,
        Some(sides) => {
            let hunks = forge_tools::diff_hunks(
                &redactor.redact_blocks(&sides.old),
                &redactor.redact_blocks(&sides.new),
                Some(until),
            );
            match sides.has_odd_bytes {
                true => format!("{NOTE}{hunks}"),
                false => hunks,
            }
        }
        None => format!("{}{}", told('-', old), told('+', new)),
    };
    Some(format!("--- {from}\n+++ {to}\n{rows}"))
}

/// `true` if the rows of a difference, without the names of both sides, show the content of the
/// files.
pub(super) fn is_shown<'a>(mut rows: impl Iterator<Item = &'a str>) -> bool {
    let first = rows.next();
    first.is_none_or(|row| row.starts_with("@@") || row == NOTE.trim_end())
}

fn told(sign: char, bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(String::new, |bytes| {
        let hash = ContentHash::of(bytes);
        format!("{sign}({} bytes, SHA-256 {hash})\n", bytes.len())
    })
}

/// Both files as they are shown.
struct Sides<'a> {
    old: Cow<'a, str>,
    new: Cow<'a, str>,
    /// Both are written with `%NN` then, so that each text is of one file only.
    has_odd_bytes: bool,
}

impl<'a> Sides<'a> {
    /// None where they cannot be.
    fn of(old: &'a [u8], new: &'a [u8]) -> Option<Self> {
        if let (Some(old), Some(new)) = (text(old), text(new)) {
            return Some(Sides {
                old: old.into(),
                new: new.into(),
                has_odd_bytes: false,
            });
        }
        (is_readable(old) && is_readable(new)).then(|| Sides {
            old: written(old).into(),
            new: written(new).into(),
            has_odd_bytes: true,
        })
    }

    fn is_long(&self) -> bool {
        let lines = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count();
        lines(&self.old).max(lines(&self.new)) > MAX_LINES
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok();
    text.filter(|text| !text.contains('\0'))
}

fn is_readable(bytes: &[u8]) -> bool {
    let odd = |chunk: std::str::Utf8Chunk<'_>| {
        let zeros = chunk.valid().bytes().filter(|byte| *byte == 0).count();
        zeros + chunk.invalid().len()
    };
    let odd: usize = bytes.utf8_chunks().map(odd).sum();
    // The text of a script is read, even with binary data behind it.
    odd <= bytes.len() / READABLE || bytes.starts_with(b"#!")
}

/// One text for each file.
fn written(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '%' => text.push_str("%25"),
                '\0' => text.push_str("%00"),
                letter => text.push(letter),
            }
        }
        for byte in chunk.invalid() {
            let _cannot_fail = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(old: Option<&[u8]>, new: Option<&[u8]>) -> String {
        let path = RepoPath::parse("x").unwrap();
        difference(&path, old, new, &Redactor::default(), Instant::now()).unwrap()
    }

    #[test]
    fn a_byte_that_is_no_text_hides_nothing() {
        for (old, new, shown) in [
            (
                &b"echo 100%\n# \n"[..],
                &b"rm -rf 100%\n# \xff\n"[..],
                "@@ -1,2 +1,2 @@\n-echo 100%25\n-# \n+rm -rf 100%25\n+# %FF\n",
            ),
            (
                b"one two three\n",
                b"one two thr\0ee\n",
                "@@ -1 +1 @@\n-one two three\n+one two thr%00ee\n",
            ),
            // Not the same, though both have a byte that is no text there.
            (
                b"caf\xe9 is open\n",
                b"caf\xe8 is open\n",
                "@@ -1 +1 @@\n-caf%E9 is open\n+caf%E8 is open\n",
            ),
        ] {
            let all = rows(Some(old), Some(new));
            assert_eq!(all, format!("--- a/x\n+++ b/x\n{NOTE}{shown}"));
            assert!(is_shown(all.lines().skip(2)));
        }
    }

    /// Whoever pushes agrees to every line.
    #[test]
    fn nothing_that_looks_like_a_key_hides_a_line_of_code() {
        let lines = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n".repeat(2);
        for code in ["touch x", "import os; os.system('x')", "reboot"] {
            for new in [
                format!(
                    "#-----BEGIN PRIVATE KEY-----\n{lines}{code}\n{lines}#-----END PRIVATE KEY-----\n"
                ),
                format!("#-----BEGIN PRIVATE KEY-----\n{code}\n{lines}"),
                format!(
                    "#-----BEGIN PRIVATE KEY-----\n{lines}{code}\n#-----END PRIVATE KEY-----\n"
                ),
                format!("#-----BEGIN\n{code}\nPRIVATE KEY-----\n{lines}"),
                format!("Authorization: Bearer /tmp/{code}/0123456789\n"),
            ] {
                let shown = rows(None, Some(new.as_bytes()));
                assert!(shown.contains(code), "{shown}");
            }
        }
    }

    #[test]
    fn what_cannot_be_read_has_sizes() {
        for bytes in [&b"\x7fELF\0\0\0\0"[..], b"a\0b", &[0xff; 100]] {
            let all = rows(None, Some(bytes));
            assert!(all.contains(&format!("\n+({} bytes, SHA-256 ", bytes.len())));
            assert!(!is_shown(all.lines().skip(2)));
            // Nor is what was there shown beside it.
            assert!(!is_shown(
                rows(Some(b"text\n"), Some(bytes)).lines().skip(2)
            ));
        }
        assert!(is_shown(rows(None, Some(b"")).lines().skip(2)));
        let hidden = [b"#!/bin/sh\nid\n", &[0xff; 100][..]].concat();
        assert!(is_shown(rows(None, Some(&hidden)).lines().skip(2)));
    }

    #[test]
    fn texts_with_more_lines_than_anybody_is_shown_are_none() {
        let path = RepoPath::parse("x").unwrap();
        let long = b"\n".repeat(MAX_LINES + 1);
        let of = |old, new| difference(&path, old, new, &Redactor::default(), Instant::now());
        assert_eq!(of(None, Some(&long)), None);
        assert_eq!(of(Some(&long), Some(b"")), None);
        // One line of a long text is shown as of any other.
        let (old, new) = ("a line\n".repeat(300_000), "another\n".to_owned());
        let new = format!("{old}{new}");
        let all = of(Some(old.as_bytes()), Some(new.as_bytes())).unwrap();
        assert!(
            all.ends_with("+another\n") && all.lines().count() < 10,
            "{all}"
        );
    }

    proptest! {
        /// Two files never look the same.
        #[test]
        fn each_text_is_of_one_file(
            one in proptest::collection::vec(prop_oneof![Just(b'%'), Just(b'2'), Just(b'5'), any::<u8>()], 0..12),
            other in proptest::collection::vec(prop_oneof![Just(b'%'), Just(b'2'), Just(b'5'), any::<u8>()], 0..12),
        ) {
            prop_assert_eq!(written(&one) == written(&other), one == other);
        }
    }
}
