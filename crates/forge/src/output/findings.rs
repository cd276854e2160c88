//! Findings for programs: SARIF for code scanning, workflow commands for pull requests.

use std::fmt::Write as _;

use sandbox_config::Diagnostic;
use serde_json::{Value, json};

use crate::output::escape::escape_lines;

/// SARIF 2.1.0, one run.
/// <https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html>
pub(crate) fn sarif(findings: &[Diagnostic]) -> Value {
    let mut codes: Vec<_> = findings.iter().map(Diagnostic::code).collect();
    codes.sort_unstable();
    codes.dedup();
    let rules: Vec<Value> = codes
        .iter()
        .map(|code| {
            json!({
                "id": code.as_str(),
                "shortDescription": { "text": code.meaning() },
            })
        })
        .collect();
    let results: Vec<Value> = findings
        .iter()
        .map(|finding| {
            let index = codes.iter().position(|code| *code == finding.code());
            json!({
                "ruleId": finding.code().as_str(),
                "ruleIndex": index,
                "level": level(finding),
                "message": { "text": message(finding) },
                "locations": location(finding).into_iter().collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "forge",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn level(finding: &Diagnostic) -> &'static str {
    if finding.is_error() {
        "error"
    } else {
        "warning"
    }
}

fn message(finding: &Diagnostic) -> String {
    match finding.help_text() {
        Some(help) => format!("{}\n{help}", finding.message()),
        None => finding.message().to_owned(),
    }
}

fn location(finding: &Diagnostic) -> Option<Value> {
    let mut physical = json!({ "artifactLocation": { "uri": uri(finding.file()?) } });
    if let Some(line) = finding.line() {
        physical["region"] = json!({ "startLine": line, "startColumn": finding.column() });
    }
    Some(json!({ "physicalLocation": physical }))
}

/// A path as a reference (RFC 3986): relative as it is, absolute as `file://`.
fn uri(file: &str) -> String {
    let mut uri = String::new();
    if file.starts_with('/') {
        uri.push_str("file://");
    }
    for byte in file.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            other => {
                let _ = write!(uri, "%{other:02X}");
            }
        }
    }
    uri
}

/// Workflow commands of GitHub Actions, one a line.
pub(crate) fn github(findings: &[Diagnostic]) -> String {
    let mut text = String::new();
    for finding in findings {
        let mut properties = Vec::new();
        if let Some(file) = finding.file() {
            properties.push(format!("file={}", property(file)));
        }
        if let Some(line) = finding.line() {
            properties.push(format!("line={line}"));
        }
        if let Some(column) = finding.column() {
            properties.push(format!("col={column}"));
        }
        properties.push(format!("title={}", property(finding.code().as_str())));
        let _ = writeln!(
            text,
            "::{} {}::{}",
            level(finding),
            properties.join(","),
            data(&message(finding))
        );
    }
    text
}

/// Writes characters that would end the line or the value as `%XX`, and invisible characters in
/// words.
fn data(text: &str) -> String {
    escape_lines(text).replace('%', "%25").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_stays_inside_its_place() {
        assert_eq!(uri("a b/ü#.worker"), "a%20b/%C3%BC%23.worker");
        assert_eq!(uri("/x%y"), "file:///x%25y");
        assert_eq!(property("a,b:c\n%"), "a%2Cb%3Ac%0A%25");
        assert_eq!(data("x\n::error::y"), "x%0A::error::y");
        assert_eq!(data("x\r\u{1b}[2J"), "x\\r\\x1b[2J");
    }
}
