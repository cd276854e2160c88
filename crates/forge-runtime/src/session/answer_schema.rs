//! Answers of a given shape: a worker's `output_schema`.
//!
//! The answer is one JSON value: the whole text, or the content of its only fenced block (````
//! ```json ````), since models tend to add words around it. Two blocks are ambiguous, and so a
//! problem like any other. The caller gets the value alone, without fence and words.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;

use crate::schemas::{CompiledSchema, compiled};
use crate::shortened::shortened;

/// Most problems in one message.
const MAX_PROBLEMS: usize = 20;
/// Longest problem, in characters.
const MAX_PROBLEM_CHARS: usize = 300;
/// Longest text, and most text within a value, that is held against a schema.
const MAX_BYTES: usize = 256 * 1024;
/// Most values in a value.
const MAX_VALUES: usize = 10_000;
/// Above this product of the sizes of schema and value, the list of all problems may exceed the
/// memory: only the first is reported.
const MAX_FOR_ALL_PROBLEMS: u64 = 1_000_000;
/// Longest that a check is waited for.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout where the check blocks its thread: no cancellation ends that wait.
const BLOCKING_CHECK_TIMEOUT: Duration = Duration::from_secs(1);
/// A check recurses with a recursive schema as deep as the value, whose depth the JSON parser
/// bounds to 128. The memory is only reserved, and committed on use.
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// Most checks at a time, abandoned ones included.
const MAX_CHECKS: usize = 32;

static CHECKS: AtomicUsize = AtomicUsize::new(0);

/// A schema that answers are held against, compiled once.
pub(crate) struct AnswerSchema {
    compiled: Arc<CompiledSchema>,
    text: String,
    /// A check took too long: later checks are refused, since nothing can stop the first.
    is_slow: AtomicBool,
}

impl AnswerSchema {
    /// # Errors
    ///
    /// If it is not a JSON Schema, refers to an external one, or is too much work.
    pub(crate) fn new(schema: &Value) -> Result<AnswerSchema, String> {
        let compiled =
            compiled(schema).map_err(|mistake| shortened(&mistake.problem, MAX_PROBLEM_CHARS))?;
        Ok(AnswerSchema {
            compiled: Arc::new(compiled),
            text: schema.to_string(),
            is_slow: AtomicBool::new(false),
        })
    }

    /// Returns the addition to the instructions.
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
    /// All mismatches.
    pub(crate) async fn check<'a>(&self, answer: &'a str) -> Result<&'a str, Vec<String>> {
        let (text, value) = parsed(answer).map_err(|problem| vec![problem])?;
        let (tell, told) = oneshot::channel();
        self.start(value, |found| {
            // The receiver may have timed out.
            let _ = tell.send(found);
        })?;
        match tokio::time::timeout(CHECK_TIMEOUT, told).await {
            Ok(Ok(found)) => found.map(|()| text),
            Ok(Err(_)) => Err(vec![NOT_CHECKED.to_owned()]),
            Err(_) => Err(self.too_slow()),
        }
    }

    /// Blocking variant: see [`AnswerSchema::check_value`].
    ///
    /// # Errors
    ///
    /// All mismatches.
    pub(crate) fn check_now(&self, answer: &str) -> Result<(), Vec<String>> {
        let (_, value) = parsed(answer).map_err(|problem| vec![problem])?;
        self.check_value(&value)
    }

    /// Blocking variant. Takes at most a second, and that once.
    ///
    /// # Errors
    ///
    /// All mismatches.
    pub(crate) fn check_value(&self, value: &Value) -> Result<(), Vec<String>> {
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        self.start(value.clone(), move |found| {
            // The receiver may have timed out.
            let _ = tell.send(found);
        })?;
        match told.recv_timeout(BLOCKING_CHECK_TIMEOUT) {
            Ok(found) => found,
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                Err(vec![NOT_CHECKED.to_owned()])
            }
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => Err(self.too_slow()),
        }
    }

    fn too_slow(&self) -> Vec<String> {
        self.is_slow.store(true, Ordering::Relaxed);
        vec![TOO_SLOW.to_owned()]
    }

    /// Checks on a thread of its own, since nothing can stop a check: at the end of a run the
    /// thread is abandoned, and the process does not wait for it.
    fn start(
        &self,
        value: Value,
        tell: impl FnOnce(Result<(), Vec<String>>) + Send + 'static,
    ) -> Result<(), Vec<String>> {
        let values = measured(&value).map_err(|problem| vec![problem])?;
        if self.is_slow.load(Ordering::Relaxed) {
            return Err(vec![TOO_SLOW.to_owned()]);
        }
        let counted = CheckPermit::new().ok_or_else(|| vec![NOT_CHECKED.to_owned()])?;
        let compiled = Arc::clone(&self.compiled);
        std::thread::Builder::new()
            .name("schema".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let found = problems(&compiled, &value, values);
                drop(counted);
                tell(found);
            })
            .map(drop)
            .map_err(|_| vec![NOT_CHECKED.to_owned()])
    }
}

const TOO_SLOW: &str =
    "holding it against the schema takes too long; make the value smaller and less nested";
const NOT_CHECKED: &str = "it could not be held against the schema";

/// One of the checks at a time.
struct CheckPermit;

impl CheckPermit {
    fn new() -> Option<CheckPermit> {
        let counted = CheckPermit;
        (CHECKS.fetch_add(1, Ordering::Relaxed) < MAX_CHECKS).then_some(counted)
    }
}

impl Drop for CheckPermit {
    fn drop(&mut self) {
        CHECKS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts the values in a value.
fn measured(value: &Value) -> Result<usize, String> {
    let (mut values, mut bytes) = (0, 0);
    let mut ahead = vec![value];
    while let Some(next) = ahead.pop() {
        values += 1;
        match next {
            Value::Object(map) => {
                bytes += map.keys().map(String::len).sum::<usize>();
                ahead.extend(map.values());
            }
            Value::Array(items) => ahead.extend(items),
            Value::String(text) => bytes += text.len(),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        if values > MAX_VALUES {
            return Err(format!(
                "it has more than {MAX_VALUES} values, which is the most that is held against a schema"
            ));
        }
    }
    match bytes > MAX_BYTES {
        true => Err(too_long()),
        false => Ok(values),
    }
}

fn too_long() -> String {
    format!(
        "it is longer than {} KiB, which is the most that is held against a schema",
        MAX_BYTES / 1024
    )
}

fn problems(compiled: &CompiledSchema, value: &Value, values: usize) -> Result<(), Vec<String>> {
    let values = u64::try_from(values).unwrap_or(u64::MAX);
    if compiled.size.saturating_mul(values) > MAX_FOR_ALL_PROBLEMS {
        let first = compiled.validator.validate(value);
        return first.map_err(|error| vec![told(&error)]);
    }
    let mut problems: Vec<String> = Vec::new();
    for error in compiled.validator.iter_errors(value) {
        if problems.len() == MAX_PROBLEMS {
            problems.push("and more".to_owned());
            break;
        }
        problems.push(told(&error));
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems),
    }
}

fn told(error: &jsonschema::ValidationError<'_>) -> String {
    let at = error.instance_path().to_string();
    let at = if at.is_empty() { "/" } else { &at };
    shortened(&format!("{at}: {error}"), MAX_PROBLEM_CHARS)
}

/// Returns the message to the model about a mismatch.
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

/// The value of an answer, as it is written and as it is.
fn parsed(answer: &str) -> Result<(&str, Value), String> {
    let text = payload(answer)?;
    if text.len() > MAX_BYTES {
        return Err(too_long());
    }
    let value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    Ok((text, value))
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
    // A value with such a line inside a string is JSON as it is.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn an_answer_may_stand_in_one_fence() {
        let shape = AnswerSchema::new(&json!({
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
            let mut found = shape.check(answer).await;
            if let Err(problems) = &mut found {
                problems.sort();
            }
            assert_eq!(&found, expected, "{answer}");
        }
        assert!(shape.check("no JSON").await.unwrap_err()[0].starts_with("it is not JSON"));
    }

    #[tokio::test]
    async fn problems_are_bounded() {
        let shape = AnswerSchema::new(&json!({"items": {"type": "integer"}})).unwrap();
        let answer = json!(vec!["x".repeat(2_000); 100]).to_string();
        let problems = shape.check(&answer).await.unwrap_err();
        assert_eq!(problems.len(), MAX_PROBLEMS + 1);
        assert!(problems.iter().all(|problem| problem.len() < 400));
    }

    #[test]
    fn what_is_no_schema_is_said() {
        assert!(AnswerSchema::new(&json!({"type": "nothing"})).is_err());
        assert!(AnswerSchema::new(&json!({"$ref": "https://example.com/x.json"})).is_err());
    }

    #[tokio::test]
    async fn what_is_held_against_a_schema_is_bounded() {
        let shape = AnswerSchema::new(&json!({"uniqueItems": true})).unwrap();
        let most: Vec<usize> = (0..MAX_VALUES - 1).collect();
        assert_eq!(shape.check_value(&json!(most)), Ok(()));
        let many: Vec<usize> = (0..MAX_VALUES).collect();
        let long = json!("x".repeat(MAX_BYTES + 1));
        for (value, problem) in [(json!(many), "10000 values"), (long, "256 KiB")] {
            for found in [
                shape.check(&value.to_string()).await.map(drop),
                shape.check_value(&value),
            ] {
                let problems = found.unwrap_err();
                assert!(problems[0].contains(problem), "{problems:?}");
            }
        }
    }

    /// A check that takes longer than anybody waits.
    fn slow() -> (AnswerSchema, Value) {
        let schema = json!({"format": "slow"});
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .with_format("slow", |_: &str| {
                std::thread::sleep(CHECK_TIMEOUT * 4);
                true
            })
            .build(&schema);
        let shape = AnswerSchema {
            compiled: Arc::new(CompiledSchema {
                validator: validator.unwrap(),
                size: 2,
            }),
            text: schema.to_string(),
            is_slow: AtomicBool::new(false),
        };
        (shape, json!("x"))
    }

    #[tokio::test]
    async fn nobody_waits_long_for_a_check() {
        let (shape, value) = slow();
        let began = std::time::Instant::now();
        assert_eq!(shape.check_value(&value), Err(vec![TOO_SLOW.to_owned()]));
        // The second is not begun.
        let text = value.to_string();
        assert_eq!(shape.check(&text).await, Err(vec![TOO_SLOW.to_owned()]));
        assert!(began.elapsed() < CHECK_TIMEOUT);
    }

    #[tokio::test]
    async fn what_ends_a_run_ends_the_wait() {
        let (shape, value) = slow();
        let text = value.to_string();
        let end = tokio::time::sleep(Duration::from_millis(100));
        tokio::select! {
            found = shape.check(&text) => panic!("{found:?}"),
            () = end => {}
        }
    }
}
