//! Answers of a given shape: a worker's `output_schema`.
//!
//! The answer is one JSON value: the whole text, or what stands in its only fenced block
//! (```` ```json ````), since models like to say a word around it. With two blocks nobody
//! knows which is meant, so that is a problem like any other. What is given on is the value
//! alone, without fence and words.

use jsonschema::Validator;
use serde_json::Value;

/// Most problems that are told at once.
const MAX_PROBLEMS: usize = 20;
/// Longest problem, in characters.
const MAX_PROBLEM_CHARS: usize = 300;

/// A schema that answers are held against, compiled once.
pub(crate) struct Shape {
    validator: Validator,
    text: String,
}

impl Shape {
    /// # Errors
    ///
    /// It is no JSON Schema, or refers to one elsewhere.
    pub(crate) fn new(schema: &Value) -> Result<Shape, String> {
        let validator =
            jsonschema::draft202012::new(schema).map_err(|error| shortened(&error.to_string()))?;
        Ok(Shape {
            validator,
            text: schema.to_string(),
        })
    }

    /// What the model is told beside its instructions.
    pub(super) fn instructions(&self) -> String {
        format!(
            "\n\nYour last message, the one without tool calls, is your answer. It must be one \
             JSON value that fits this JSON Schema, and nothing else:\n{}\n",
            self.text
        )
    }

    /// The answer's value, as it was written.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub(crate) fn check<'a>(&self, answer: &'a str) -> Result<&'a str, Vec<String>> {
        let text = payload(answer).map_err(|problem| vec![problem])?;
        let value: Value =
            serde_json::from_str(text).map_err(|error| vec![format!("it is not JSON: {error}")])?;
        self.check_value(&value).map(|()| text)
    }

    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub(crate) fn check_value(&self, value: &Value) -> Result<(), Vec<String>> {
        let mut problems: Vec<String> = Vec::new();
        for error in self.validator.iter_errors(value) {
            if problems.len() == MAX_PROBLEMS {
                problems.push("and more".to_owned());
                break;
            }
            let at = error.instance_path().to_string();
            let at = if at.is_empty() { "/" } else { &at };
            problems.push(shortened(&format!("{at}: {error}")));
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(problems),
        }
    }
}

/// What the model is told of an answer that does not fit.
pub(super) fn repair(problems: &[String]) -> String {
    let list: String = problems
        .iter()
        .map(|problem| format!("- {problem}\n"))
        .collect();
    format!(
        "Your answer does not fit the JSON Schema:\n{list}Answer again, with the whole JSON value \
         and nothing else."
    )
}

/// The part of an answer that is meant to be JSON.
fn payload(answer: &str) -> Result<&str, String> {
    let whole = answer.trim();
    if whole.is_empty() {
        return Err("it is empty".to_owned());
    }
    let mut blocks = Vec::new();
    let mut open: Option<usize> = None;
    let mut at = 0;
    for line in whole.split_inclusive('\n') {
        let next = at + line.len();
        if line.trim().starts_with("```") {
            open = match open {
                None => Some(next),
                Some(start) => {
                    blocks.push(&whole[start..at]);
                    None
                }
            };
        }
        at = next;
    }
    // A value that holds such a line inside a string is JSON as it stands.
    match blocks.as_slice() {
        _ if whole.starts_with(['{', '[', '"']) => Ok(whole),
        [] => Ok(whole),
        [one] => Ok(one.trim()),
        more => Err(format!(
            "it has {} fenced blocks, and it is not clear which one is the answer",
            more.len()
        )),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_PROBLEM_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_may_stand_in_one_fence() {
        let shape = Shape::new(&json!({
            "type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}},
            "additionalProperties": false,
        }));
        let shape = shape.unwrap();
        let good = Ok("{\"n\": 1}");
        for (answer, expected) in [
            (r#"{"n": 1}"#, &good),
            (" \n{\"n\": 1}\n", &good),
            ("```json\n{\"n\": 1}\n```", &good),
            ("Here it is:\n\n```\n{\"n\": 1}\n```\nThat is all.", &good),
            ("", &Err(vec!["it is empty".to_owned()])),
            (
                "```\n1\n```\n```\n2\n```",
                &Err(vec![
                    "it has 2 fenced blocks, and it is not clear which one is the answer"
                        .to_owned(),
                ]),
            ),
            (
                r#"{"m": "x"}"#,
                &Err(vec![
                    "/: \"n\" is a required property".to_owned(),
                    "/: Additional properties are not allowed ('m' was unexpected)".to_owned(),
                ]),
            ),
        ] {
            let mut found = shape.check(answer);
            if let Err(problems) = &mut found {
                problems.sort();
            }
            assert_eq!(&found, expected, "{answer}");
        }
        assert!(shape.check("no JSON").unwrap_err()[0].starts_with("it is not JSON"));
    }

    #[test]
    fn problems_are_bounded() {
        let shape = Shape::new(&json!({"items": {"type": "integer"}})).unwrap();
        let answer = json!(vec!["x".repeat(10_000); 100]).to_string();
        let problems = shape.check(&answer).unwrap_err();
        assert_eq!(problems.len(), MAX_PROBLEMS + 1);
        assert!(problems.iter().all(|problem| problem.len() < 400));
    }

    #[test]
    fn what_is_no_schema_is_said() {
        assert!(Shape::new(&json!({"type": "nothing"})).is_err());
        assert!(Shape::new(&json!({"$ref": "https://example.com/x.json"})).is_err());
    }
}
