//! Short texts for a run: a call, its result, a span of time, a number of tokens.

use std::time::Duration;

use forge_runtime::ToolCall;
use serde_json::Value;

use super::cells::clean;
use crate::output::escape::shortened;

/// Longest foreign text in one line, in characters.
pub(super) const MAX_LINE_CHARS: usize = 160;

/// Longest reason of a retry, in characters: the time follows it in the line.
const MAX_REASON_CHARS: usize = 120;

/// Arguments that describe a call, the most descriptive first.
const TELLING: [&str; 11] = [
    "command", "path", "from", "source", "to", "target", "pattern", "worker", "input", "handle",
    "url",
];

/// Describes a call in one line: the tool and its subject.
pub(super) fn call(call: &ToolCall) -> String {
    let about = match &call.arguments {
        Value::Object(arguments) => {
            let telling: Vec<String> = TELLING
                .iter()
                .filter_map(|name| arguments.get(*name))
                .map(shown)
                .take(2)
                .collect();
            telling.join(" ")
        }
        other => shown(other),
    };
    cut(&format!("{} {about}", call.tool))
}

/// Describes a call with every argument.
pub(super) fn call_whole(call: &ToolCall) -> String {
    clean(&format!("{} {}", call.tool, call.arguments))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Describes the result of a call in one line: a refusal by its text, a result by its size if it is
/// longer than a line.
pub(super) fn outcome(content: &str, is_error: bool) -> String {
    let text = content.trim_end();
    let first = text.lines().next().unwrap_or_default();
    let lines = text.lines().count();
    let text = match (is_error, lines) {
        (false, 2..) => format!("{lines} lines"),
        (true, _) | (false, _) => first.to_owned(),
    };
    cut(&text)
}

/// Describes the reason of a retry. The time of the retry follows it.
pub(super) fn retry(reason: &str) -> String {
    let reason = reason.strip_prefix("the ").unwrap_or(reason);
    let line = reason.lines().next().unwrap_or_default();
    shortened(clean(line.trim_end()), MAX_REASON_CHARS)
}

/// Cleaned, and not longer than a line should be.
pub(super) fn cut(text: &str) -> String {
    shortened(clean(text.trim_end()), MAX_LINE_CHARS)
}

/// A span of time as people say it.
pub(super) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Describes the remaining time, rounded up to at least one second while some is left.
pub(super) fn until(left: Duration) -> String {
    span(Duration::from_secs(
        left.as_millis()
            .div_ceil(1000)
            .try_into()
            .unwrap_or(u64::MAX),
    ))
}

/// A number with its noun.
pub(crate) fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// A number of tokens.
pub(crate) fn tokens(number: u64) -> String {
    match number {
        0..10_000 => count(number, "token"),
        10_000..1_000_000 => format!("{}.{}k tokens", number / 1000, number / 100 % 10),
        _ => format!("{}.{}M tokens", number / 1_000_000, number / 100_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_says_what_it_is_about() {
        for (arguments, said) in [
            (json!({"path": "/a", "content": "x"}), "t /a"),
            (json!({"to": "/b", "from": "/a"}), "t /a /b"),
            (json!({"command": "ls\u{1b}[2J\n"}), "t ls\\x1b[2J"),
            (json!({"other": 1}), "t"),
            (json!("no object"), "t no object"),
        ] {
            let made = ToolCall {
                id: String::new(),
                tool: "t".into(),
                arguments,
            };
            assert_eq!(call(&made), said);
        }
    }

    #[test]
    fn numbers() {
        let seconds = |seconds| span(Duration::from_secs(seconds));
        assert_eq!(
            [seconds(9), seconds(64), seconds(3723)],
            ["9 s", "1 min 04 s", "1 h 02 min"]
        );
        assert_eq!(until(Duration::from_millis(1)), "1 s");
        assert_eq!(
            [tokens(1), tokens(9_999), tokens(12_345), tokens(1_250_000)],
            ["1 token", "9999 tokens", "12.3k tokens", "1.2M tokens"]
        );
        assert_eq!(cut(&"x".repeat(200)).chars().count(), MAX_LINE_CHARS + 1);
        assert_eq!(
            retry(&"x".repeat(200)).chars().count(),
            MAX_REASON_CHARS + 1
        );
    }
}
