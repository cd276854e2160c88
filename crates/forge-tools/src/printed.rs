//! What a command printed on one stream, as a model is shown it: within the stream's own limit,
//! and more of it for `read_output`.

use os_sandbox::Captured;

use crate::redact::Redactor;

/// Most bytes of one stream that are kept for `read_output`.
const MAX_WHOLE_BYTES: usize = 4 * 1024 * 1024;

/// One stream of a command that has ended.
pub(crate) struct Printed {
    /// Within the limit.
    pub(crate) shown: String,
    /// Everything that was kept; none if that is what is shown.
    pub(crate) whole: Option<String>,
    /// Bytes that the command printed.
    pub(crate) total_bytes: u64,
}

impl Printed {
    /// Where the stream goes while the command runs.
    pub(crate) fn capture(limit: usize) -> Captured {
        Captured::new(limit.max(MAX_WHOLE_BYTES))
    }

    /// Secrets go first: a half of one is not known as such.
    pub(crate) fn new(captured: &Captured, limit: usize, redactor: &Redactor) -> Self {
        let text = captured.text();
        let whole = redactor.redact(&text);
        let total_bytes = captured.total_bytes();
        if whole.len() <= limit {
            return Printed {
                shown: whole.into_owned(),
                whole: None,
                total_bytes,
            };
        }
        let (head, tail) = both_ends(&whole, limit);
        let bytes = total_bytes.saturating_sub((head.len() + tail.len()) as u64);
        let lines = captured
            .total_line_ends()
            .saturating_sub(line_ends(head) + line_ends(tail));
        let newline = if head.is_empty() || head.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        Printed {
            shown: format!(
                "{head}{newline}[cut here: {bytes} bytes in {lines} lines are not shown]\n{tail}"
            ),
            whole: Some(whole.into_owned()),
            total_bytes,
        }
    }

    /// Whether something is not shown.
    pub(crate) fn truncated(&self) -> bool {
        self.whole.is_some()
    }

    /// Everything that was kept.
    pub(crate) fn whole(&self) -> &str {
        self.whole.as_deref().unwrap_or(&self.shown)
    }
}

fn line_ends(text: &str) -> u64 {
    text.bytes().filter(|byte| *byte == b'\n').count() as u64
}

/// The first and the last half of `limit` bytes of a text that is longer: whole characters, and
/// whole lines where less than a quarter is lost by it.
fn both_ends(text: &str, limit: usize) -> (&str, &str) {
    let part = limit / 2;
    let head = &text[..text.floor_char_boundary(part)];
    let tail = &text[text.ceil_char_boundary(text.len() - part)..];
    let late = head.ceil_char_boundary(head.len() - head.len() / 4);
    let early = tail.floor_char_boundary(tail.len() / 4);
    let head_end = head[late..].rfind('\n').map(|at| late + at + 1);
    let tail_start = tail[..early].find('\n').map(|at| at + 1);
    (
        &head[..head_end.unwrap_or(head.len())],
        &tail[tail_start.unwrap_or(0)..],
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn printed(text: &str, limit: usize, redactor: &Redactor) -> Printed {
        let mut captured = Printed::capture(limit);
        text.as_bytes()
            .chunks(7)
            .for_each(|part| captured.push(part));
        Printed::new(&captured, limit, redactor)
    }

    #[test]
    fn the_line_in_between_says_how_much_is_missing() {
        let text: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let printed = printed(&text, 60, &Redactor::default());
        insta::assert_snapshot!(printed.shown, @"
        line 0
        line 1
        line 2
        line 3
        [cut here: 738 bytes in 93 lines are not shown]
        line 97
        line 98
        line 99
        ");
        assert_eq!(printed.whole(), text);
        assert_eq!(printed.total_bytes, 790);
    }

    proptest! {
        /// Wherever the cut falls, no part of a secret that is long enough to tell is left.
        #[test]
        fn a_secret_at_the_cut_is_not_halved(before in 0_usize..80, after in 0_usize..80) {
            let secret = "hunter2-0123456789";
            let redactor = Redactor::new([("KEY", secret)]);
            let text = format!("{}{secret}{}", "a".repeat(before), "b".repeat(after));
            let printed = printed(&text, 60, &redactor);
            for part in [&secret[..6], &secret[secret.len() - 6..]] {
                prop_assert!(!printed.shown.contains(part), "{}", printed.shown);
                prop_assert!(!printed.whole().contains(part));
            }
        }

        #[test]
        fn the_ends_are_the_ends_within_the_limit(text in "(\\PC|\n){0,200}", limit in 0_usize..300) {
            let printed = printed(&text, limit, &Redactor::default());
            prop_assert_eq!(printed.whole(), &text);
            if text.len() <= limit {
                prop_assert_eq!(printed.shown, text);
            } else {
                let (head, tail) = both_ends(&text, limit);
                prop_assert!(head.len() + tail.len() <= limit);
                prop_assert!(text.starts_with(head) && text.ends_with(tail));
                prop_assert!(printed.shown.starts_with(head) && printed.shown.ends_with(tail));
            }
        }
    }
}
