//! The schemas of requests, written by hand from the vendors' documentation and checked for every
//! received request: a client that deviates gets an error at once.

use std::sync::LazyLock;

use forge_runtime::Wire;
use jsonschema::Validator;
use serde_json::Value;

/// Most mistakes that are listed.
const MAX_MISTAKES: usize = 5;

/// Longest text of one mistake, with the quoted value.
const MAX_MISTAKE_CHARS: usize = 300;

static ANTHROPIC: LazyLock<Option<Validator>> =
    LazyLock::new(|| compiled(include_str!("anthropic.schema.json")));
static CHAT: LazyLock<Option<Validator>> =
    LazyLock::new(|| compiled(include_str!("openai-chat.schema.json")));
static RESPONSES: LazyLock<Option<Validator>> =
    LazyLock::new(|| compiled(include_str!("openai-responses.schema.json")));

/// Checks `body` as a request on `wire`.
///
/// # Errors
///
/// The mistakes, each with its place.
pub(super) fn check(wire: Wire, body: &Value) -> Result<(), String> {
    let judge = match wire {
        Wire::Anthropic => &ANTHROPIC,
        Wire::OpenAiChat => &CHAT,
        Wire::OpenAiResponses => &RESPONSES,
    };
    let Some(judge) = judge.as_ref() else {
        return Err("the schema of requests cannot be read".to_owned());
    };
    let mistakes: Vec<String> = judge
        .iter_errors(body)
        .take(MAX_MISTAKES)
        .map(|error| {
            let place = error.instance_path().to_string();
            let text: String = error.to_string().chars().take(MAX_MISTAKE_CHARS).collect();
            format!("{place}: {text}")
        })
        .collect();
    match mistakes.is_empty() {
        true => Ok(()),
        false => Err(mistakes.join("; ")),
    }
}

fn compiled(text: &str) -> Option<Validator> {
    let schema: Value = serde_json::from_str(text).ok()?;
    jsonschema::validator_for(&schema).ok()
}
