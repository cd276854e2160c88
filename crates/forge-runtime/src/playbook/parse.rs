//! Reading a playbook: its structure, then everything that no structure shows.

use serde_saphyr::Spanned;

use super::file::{CaseCondition, CaseScript, Playbook, PlaybookFile, TurnScript};
use super::{structure, validation};

/// Largest accepted playbook, in bytes.
const MAX_BYTES: usize = 4 * 1024 * 1024;

impl Playbook {
    /// Reads a playbook.
    ///
    /// # Errors
    ///
    /// All mistakes of its structure, with line and column; if it is valid, all other mistakes, a line
    /// each.
    pub fn parse(text: &str) -> Result<Self, PlaybookError> {
        if text.len() > MAX_BYTES {
            return Err(PlaybookError(format!(
                "the playbook is larger than {MAX_BYTES} bytes"
            )));
        }
        let file: PlaybookFile =
            serde_saphyr::from_str(text).map_err(|error| structure_error(text, &error))?;
        if file.version.value != 1 {
            return Err(PlaybookError(format!(
                "`version` is {}; this forge reads version 1",
                file.version.value
            )));
        }
        if file.workers.is_none() && file.cases.is_none() {
            return Err(PlaybookError(
                "there are neither `workers` nor `cases`".to_owned(),
            ));
        }
        let complaints = validation::of(&file);
        if !complaints.is_empty() {
            return Err(PlaybookError(complaints.join("\n")));
        }
        let with_line = |turn: Spanned<TurnScript>| TurnScript {
            line: turn.referenced.line(),
            ..turn.value
        };
        let plain = |turns: Vec<Spanned<TurnScript>>| turns.into_iter().map(with_line).collect();
        Ok(Playbook {
            wire: file.wire,
            workers: file
                .workers
                .unwrap_or_default()
                .into_iter()
                .map(|(worker, turns)| (worker, plain(turns)))
                .collect(),
            cases: file
                .cases
                .unwrap_or_default()
                .into_iter()
                .map(|(worker, cases)| {
                    let cases = cases.into_iter().filter_map(|case| {
                        let when = match (case.value.input, case.value.when) {
                            (Some(input), _) => CaseCondition::Input(input),
                            (None, Some(when)) => CaseCondition::True(when),
                            // Complained of above.
                            (None, None) => return None,
                        };
                        Some(CaseScript {
                            when,
                            turns: plain(case.value.turns),
                        })
                    });
                    (worker, cases.collect())
                })
                .collect(),
        })
    }
}

/// Why a playbook could not be read.
///
/// ```
/// let error = forge_runtime::Playbook::parse("version: 2\nworkers: {}").unwrap_err();
/// assert_eq!(error.to_string(), "`version` is 2; this forge reads version 1");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlaybookError(String);

/// Returns the error of a file with a wrong structure. One mistake is told with its line of the file.
fn structure_error(text: &str, error: &serde_saphyr::Error) -> PlaybookError {
    match structure::mistakes(text) {
        mistakes if mistakes.len() > 1 => PlaybookError(mistakes.join("\n")),
        _ => syntax_error(error),
    }
}

/// Returns the parser's error without its own `error:` and name of the file: callers write both.
fn syntax_error(error: &serde_saphyr::Error) -> PlaybookError {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("--> <input>"))
        .collect();
    PlaybookError(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_wrong_is_said_with_its_place() {
        let text = "version: 1
workers:
  main:
    - say: '{{ input'
      expect: [{that: 'a b', else: x}]
    - usage: {input_tokens: 1, cache_read_tokens: 2}
      fail: {status: 200}
      stream: {malformed: 0, slow_ms: 100000}
    - {verbatim: true, say: '{{ fine', calls: [{tool: a, for_each: input}]}
    - set: [{name: x}]
      calls: [{tool: a, stopped: 'true'}, {tool: b, args: {deep: ['{% no %}']}}]
cases:
  main:
    - {turns: []}
    - {when: ')', turns: []}
";
        let mistakes = Playbook::parse(text).unwrap_err().to_string();
        insta::assert_snapshot!(mistakes, @r#"
        line 6 column 7: `usage` counts more tokens of a cache than `input_tokens` (worker `main`, turn 2)
        line 6 column 7: `fail.status` is one of 400 to 599 (worker `main`, turn 2)
        line 6 column 7: `stream.malformed` and `stream.chunk_bytes` count from 1 (worker `main`, turn 2)
        line 6 column 7: `stream.slow_ms` is above 60000 (worker `main`, turn 2)
        line 9 column 7: a `verbatim` turn has no `for_each` (worker `main`, turn 3)
        line 10 column 7: `set` needs either `value` or `text` for `x` (worker `main`, turn 4)
        line 10 column 7: `stopped` and `promise` belong to an `attempt` (worker `main`, turn 4)
        line 14 column 7: a case needs either `input` or `when` (worker `main`)
        line 4 column 7 (worker `main`, turn 1): syntax error: unexpected input after expression (in <expression>:1)
        line 4 column 7 (worker `main`, turn 1): syntax error: unexpected end of input, expected end of variable block (in <string>:1)
        line 10 column 7 (worker `main`, turn 4): syntax error: unknown statement no (in <string>:1)
        line 15 column 7: syntax error: unexpected `)` (in <expression>:1)
        "#);
    }

    #[test]
    fn all_mistakes_of_the_structure_are_said_at_once() {
        let text = "version: one
wire: telex
worker: {}
workers:
  main:
    - says: a
      stop: bored
      calls: [{tool: a, arg: {}}, {args: {}}, {tool: b}]
    - say: fine
    - 7
cases:
  main:
    - {input: a, whne: b, turns: [{sya: a}]}
    - {input: a}
";
        let mistakes = Playbook::parse(text).unwrap_err().to_string();
        insta::assert_snapshot!(mistakes, @r#"
        line 3 column 9: unknown field `worker`, expected one of version, wire, workers, cases
        line 1 column 10: invalid type: string "one", expected u32
        line 2 column 7: unknown variant `telex`, expected one of `anthropic`, `openai-chat`, `openai-responses`
        line 6 column 7: `calls` 1: unknown field `arg`, expected one of `tool`, `args`, `as`, `for_each`, `attempt`, `stopped`, `promise` (worker `main`, turn 1)
        line 6 column 7: `calls` 2: missing field `tool` (worker `main`, turn 1)
        line 6 column 7: unknown field `says`, expected one of `expect`, `set`, `verbatim`, `thinking`, `say`, `calls`, `stop`, `usage`, `fail`, `stream` (worker `main`, turn 1)
        line 6 column 7: unknown variant `bored`, expected one of `done`, `out_of_tokens`, `refused`, `unknown` (worker `main`, turn 1)
        line 10 column 7: a turn is a mapping of keys (worker `main`, turn 3)
        line 13 column 7: unknown field `whne`, expected one of input, when, turns (worker `main`, case 1)
        line 13 column 7: turn 1: unknown field `sya`, expected one of `expect`, `set`, `verbatim`, `thinking`, `say`, `calls`, `stop`, `usage`, `fail`, `stream` (worker `main`, case 1)
        line 14 column 7: missing field `turns` (worker `main`, case 2)
        "#);
    }

    #[test]
    fn an_unknown_filter_is_told_before_it_is_applied() {
        for (turn, is_known) in [
            ("say: '{{ input | uppr }}'", false),
            ("say: '{% for x in input|lnes %}{% endfor %}'", false),
            ("say: \"{{ 'a|b' ~ input | upper|trim }}\"", true),
            ("say: '{# |x #}{% raw %}{{ a|x }}{% endraw %} | x'", true),
            ("expect: [{that: 'input | lngth > 1', else: x}]", false),
            ("expect: [{that: 'input | length > 1', else: x}]", true),
            ("set: [{name: a, value: \"input|find('(a|b)')\"}]", true),
            (
                "calls: [{tool: a, args: {b: ['{{ input|basenam }}']}}]",
                false,
            ),
            ("{verbatim: true, say: '{{ a|x }}'}", true),
        ] {
            let text = format!("version: 1\nworkers:\n  main:\n    - {turn}\n");
            let parsed = Playbook::parse(&text);
            assert_eq!(parsed.is_ok(), is_known, "{turn}");
            let told = parsed.map_err(|error| error.to_string());
            assert!(
                told.err()
                    .is_none_or(|told| told.contains("is not a filter"))
            );
        }
    }

    #[test]
    fn a_wrong_shape_has_its_place() {
        for (text, says) in [
            ("version: 1", "there are neither `workers` nor `cases`"),
            (
                "version: 1\nworkers:\n  main:\n    - says: a\n",
                "line 4 column 7",
            ),
            (
                "version: 1\nworkers: {main: [{thinking: 7}]}",
                "a text, or a list",
            ),
            ("version: 1\nworkers: {main: [{stop: bored}]}", "bored"),
            ("version: 1\nwire: telex\nworkers: {}", "telex"),
        ] {
            let mistake = Playbook::parse(text).unwrap_err().to_string();
            assert!(mistake.contains(says), "{mistake}");
        }
    }
}
