//! The playbook file: its shape, and reading it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::model::Usage;

/// Largest accepted playbook, in bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// A parsed playbook.
///
/// ```
/// let playbook = forge_runtime::Playbook::parse("
/// version: 1
/// workers:
///   main:
///     - say: hello
/// ").unwrap();
/// assert_eq!(playbook.workers().collect::<Vec<_>>(), ["main"]);
/// ```
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Playbook {
    version: u32,
    workers: BTreeMap<String, Vec<TurnScript>>,
}

/// One turn of one worker's model.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TurnScript {
    /// Checked against the results so far, before the turn is taken.
    pub(crate) expect: Vec<Expectation>,
    /// Names for values that later templates use, computed in order.
    pub(crate) set: Vec<Binding>,
    /// What the model says.
    pub(crate) say: String,
    /// What the model calls.
    pub(crate) calls: Vec<CallScript>,
    /// What the turn is said to have used.
    pub(crate) usage: Usage,
}

/// A condition that must hold.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expectation {
    /// An expression.
    pub(crate) that: String,
    /// A template that says what is wrong if it is false.
    #[serde(rename = "else")]
    pub(crate) otherwise: String,
}

/// A named value: of an expression, or a text that a template makes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Binding {
    /// The name.
    pub(crate) name: String,
    /// An expression.
    #[serde(default)]
    pub(crate) value: Option<String>,
    /// A template.
    #[serde(default)]
    pub(crate) text: Option<String>,
}

/// One call, or one for each item of a list.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallScript {
    /// The tool.
    pub(crate) tool: String,
    /// Its arguments; strings are templates.
    #[serde(default)]
    pub(crate) args: Value,
    /// The name under which later templates find the result.
    #[serde(rename = "as", default)]
    pub(crate) alias: Option<String>,
    /// An expression that gives a list: one call each, with `item` bound.
    #[serde(default)]
    pub(crate) for_each: Option<String>,
    /// The call is an attempt at something forbidden, described by this.
    #[serde(default)]
    pub(crate) attempt: Option<String>,
    /// For an attempt: an expression over `result` that is true if it was stopped.
    /// Left out: it was stopped if the call failed.
    #[serde(default)]
    pub(crate) stopped: Option<String>,
    /// For an attempt that the operating system stops: the promise that was kept,
    /// as the receipt names it.
    #[serde(default)]
    pub(crate) promise: Option<String>,
}

impl Playbook {
    /// The JSON Schema (draft 2020-12) of playbooks. It knows keys and kinds; whether templates
    /// can be read only running them tells.
    ///
    /// ```
    /// let schema: serde_json::Value =
    ///     serde_json::from_str(forge_runtime::Playbook::SCHEMA).unwrap();
    /// assert_eq!(schema["properties"]["version"]["const"], 1);
    /// ```
    pub const SCHEMA: &str = include_str!("schema.json");

    /// Reads a playbook.
    ///
    /// # Errors
    ///
    /// What is wrong with it, with line and column.
    pub fn parse(text: &str) -> Result<Self, PlaybookError> {
        if text.len() > MAX_BYTES {
            return Err(PlaybookError(format!(
                "the playbook is larger than {MAX_BYTES} bytes"
            )));
        }
        let playbook: Playbook =
            serde_saphyr::from_str(text).map_err(|error| PlaybookError(error.to_string()))?;
        if playbook.version != 1 {
            return Err(PlaybookError(format!(
                "`version` is {}; this forge reads version 1",
                playbook.version
            )));
        }
        for (worker, turns) in &playbook.workers {
            for (index, turn) in turns.iter().enumerate() {
                for binding in &turn.set {
                    if binding.value.is_some() == binding.text.is_some() {
                        return Err(PlaybookError(format!(
                            "`set` needs either `value` or `text` for `{}` \
                             (worker `{worker}`, turn {})",
                            binding.name,
                            index + 1
                        )));
                    }
                }
                for call in &turn.calls {
                    if call.attempt.is_none() && (call.stopped.is_some() || call.promise.is_some())
                    {
                        return Err(PlaybookError(format!(
                            "`stopped` and `promise` belong to an `attempt` \
                             (worker `{worker}`, turn {})",
                            index + 1
                        )));
                    }
                }
            }
        }
        Ok(playbook)
    }

    /// The workers it has turns for.
    pub fn workers(&self) -> impl Iterator<Item = &str> {
        self.workers.keys().map(String::as_str)
    }

    pub(crate) fn turns(&self, worker: &str) -> Option<&[TurnScript]> {
        self.workers.get(worker).map(Vec::as_slice)
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
