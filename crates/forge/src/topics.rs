//! The pages of `forge help TOPIC`. The error codes are a closed list: a debug build refuses any
//! other.

use std::fmt::Write as _;

use crate::exit;

/// The topics, in the order in which they are listed.
pub(crate) const TOPICS: [(&str, &str); 5] = [
    ("exit-codes", "what each exit code means"),
    ("errors", "every error code of --json"),
    ("paths", "what workers see, and where it is on the host"),
    (
        "approvals",
        "what happens unasked, what is asked, what never happens",
    ),
    ("security", "what is enforced, by what, and what is not"),
];

/// The codes of errors that are not in a project or worker file.
const CODES: &str = include_str!("topics/errors.txt");

/// Every code with its meaning, sorted.
pub(crate) fn codes() -> Vec<(&'static str, &'static str)> {
    let of_files = sandbox_config::DiagnosticCode::ALL
        .iter()
        .map(|code| (code.as_str(), code.meaning()));
    let own = CODES.lines().filter_map(|line| line.split_once(' '));
    let mut all: Vec<_> = own.chain(of_files).collect();
    all.sort_unstable();
    all
}

/// `true` if `code` is in the closed list.
pub(crate) fn is_code(code: &str) -> bool {
    codes().iter().any(|(known, _)| *known == code)
}

/// One topic's text.
pub(crate) fn text(topic: &str) -> Option<String> {
    Some(match topic {
        "exit-codes" => exit::TABLE.to_owned(),
        "errors" => errors(),
        "paths" => PATHS.to_owned(),
        "approvals" => APPROVALS.to_owned(),
        "security" => SECURITY.to_owned(),
        _ => return None,
    })
}

fn errors() -> String {
    let mut text = "\
With --json, a failure is one line on standard error:
  {\"error\": {\"code\", \"message\", \"file\", \"line\", \"column\", \"help\"}}
Mistakes in configuration files come with `errors`, all of them, beside the first.

Codes:
"
    .to_owned();
    for (code, meaning) in codes() {
        let _ = writeln!(text, "  {code:<24} {meaning}");
    }
    text
}

const PATHS: &str = include_str!("topics/paths.txt");

const APPROVALS: &str = include_str!("topics/approvals.txt");

const SECURITY: &str = include_str!("topics/security.txt");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_listed_once_and_every_topic_has_a_text() {
        let codes = codes();
        for pair in codes.windows(2) {
            assert_ne!(pair[0].0, pair[1].0);
        }
        assert!(is_code("usage") && is_code("config.syntax") && !is_code("nonsense"));
        for (topic, _) in TOPICS {
            assert!(text(topic).is_some(), "{topic}");
        }
    }
}
