//! Texts of models, files and other programs on their way to a person: every character that is
//! invisible or could repaint a terminal is shown as an escape.

use sandbox_names::invisible::is_invisible;

/// Escapes `text` into one line, so that every character that is invisible or could repaint a
/// terminal becomes visible: control characters, bidirectional overrides, zero-width ones, fillers,
/// tags, and spaces that are not the space. Newlines and tabs become `\n` and `\t`. Existing
/// escapes stay as they are, so this does not tell a newline from a literal `\n`;
/// [`escape_exactly`] does.
///
/// ```
/// assert_eq!(forge_tools::escape_controls("a\u{1b}[2Jb\n\u{ad}"), "a\\x1b[2Jb\\n\\u{ad}");
/// ```
pub fn escape_controls(text: &str) -> String {
    escape(text, false, is_invisible)
}

/// Escapes `text` for an agreement: two texts never read alike, since a backslash of the text is
/// shown as two.
///
/// ```
/// assert_eq!(forge_tools::escape_exactly("a\n"), "a\\n");
/// assert_eq!(forge_tools::escape_exactly("a\\n"), "a\\\\n");
/// ```
pub fn escape_exactly(text: &str) -> String {
    escape(text, true, is_invisible)
}

/// Escapes a line of a file for a model, which may write it back: characters of ordinary text (the
/// selector behind an emoji, a space that does not break) stay.
pub(crate) fn escape_line(text: &str) -> String {
    escape(text, false, |c| match c {
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' => false,
        '\u{3000}' | '\u{fe00}'..='\u{fe0f}' => false,
        c => is_invisible(c),
    })
}

fn escape(text: &str, exactly: bool, hidden: impl Fn(char) -> bool) -> String {
    if text
        .bytes()
        .all(|byte| matches!(byte, b' '..=b'~') && !(exactly && byte == b'\\'))
    {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            '\r' => shown.push_str("\\r"),
            '\\' if exactly => shown.push_str("\\\\"),
            ' '..='~' => shown.push(c),
            c if c.is_control() => shown.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if hidden(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The text that an exact escape stands for.
    fn read_back(shown: &str) -> String {
        let (mut text, mut rest) = (String::new(), shown.chars());
        let code = |digits: &str| char::from_u32(u32::from_str_radix(digits, 16).unwrap()).unwrap();
        while let Some(c) = rest.next() {
            if c != '\\' {
                text.push(c);
                continue;
            }
            text.push(match rest.next().unwrap() {
                '\\' => '\\',
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'x' => code(&rest.by_ref().take(2).collect::<String>()),
                'u' => {
                    assert_eq!(rest.next(), Some('{'));
                    code(&rest.by_ref().take_while(|c| *c != '}').collect::<String>())
                }
                other => panic!("{other:?} in {shown:?}"),
            });
        }
        text
    }

    proptest! {
        #[test]
        fn an_exact_escape_has_one_reading(text in r"([\\ntrxu{}0a]|\p{Cc}|\p{Cf}|\PC){0,40}") {
            prop_assert_eq!(read_back(&escape_exactly(&text)), text);
        }

        /// By tables that are not ours.
        #[test]
        fn nothing_that_is_not_seen_stays(
            text in r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u{2800}\u{a0}]{1,60}"
        ) {
            prop_assert!(escape_controls(&text).is_ascii(), "{:?}", escape_controls(&text));
            prop_assert!(escape_exactly(&text).is_ascii());
        }

        #[test]
        fn what_was_escaped_stays_as_it_is(text in r"(\\|\p{Cf}|\PC){0,20}") {
            let shown = escape_exactly(&text);
            prop_assert_eq!(escape_controls(&shown), shown);
        }
    }

    #[test]
    fn letters_stay() {
        let text = "Grüße, 日本語 العربية 한국어 é ✓ → 👍";
        assert_eq!(escape_exactly(text), text);
        assert_eq!(
            escape_line("⚠\u{fe0f}\u{a0}x\u{202e}"),
            "⚠\u{fe0f}\u{a0}x\\u{202e}"
        );
    }
}
