//! The playbook file: its shape, and reading it.

use std::collections::BTreeMap;
use std::fmt;

use forge_tools::Spec;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor, value::SeqAccessDeserializer};
use serde_json::Value;
use serde_saphyr::Spanned;

use crate::model::{StopReason, Usage, Wire};

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
#[derive(Debug, Clone)]
#[must_use]
pub struct Playbook {
    pub(super) wire: Wire,
    pub(super) workers: BTreeMap<String, Vec<TurnScript>>,
    pub(super) cases: BTreeMap<String, Vec<CaseScript>>,
}

/// The file as it is written, with the places of its turns.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlaybookFile {
    pub(super) version: Spanned<u32>,
    #[serde(default)]
    pub(super) wire: Wire,
    #[serde(default)]
    pub(super) workers: Option<BTreeMap<String, Vec<Spanned<TurnScript>>>>,
    #[serde(default)]
    pub(super) cases: Option<BTreeMap<String, Vec<Spanned<CaseFile>>>>,
}

/// A conversation that is distinguished from a worker's others by its input.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseFile {
    /// The whole input.
    #[serde(default)]
    pub(super) input: Option<String>,
    /// An expression over `input`, `worker` and `request`.
    #[serde(default)]
    pub(super) when: Option<String>,
    pub(super) turns: Vec<Spanned<TurnScript>>,
}

/// A case, without locations.
#[derive(Debug, Clone)]
pub(crate) struct CaseScript {
    pub(crate) when: CaseCondition,
    pub(crate) turns: Vec<TurnScript>,
}

/// The condition of a case.
#[derive(Debug, Clone)]
pub(crate) enum CaseCondition {
    Input(String),
    True(String),
}

/// One turn of one worker's model.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TurnScript {
    /// Checked against the results so far, before the turn is taken.
    pub(crate) expect: Vec<Expectation>,
    /// Names for values that later templates use, computed in order.
    pub(crate) set: Vec<Binding>,
    /// Takes the texts of the turn literally, not as templates.
    pub(crate) verbatim: bool,
    /// Thinking before the text.
    pub(crate) thinking: Thoughts,
    /// The text.
    pub(crate) say: String,
    /// The calls.
    pub(crate) calls: Vec<CallScript>,
    /// Why the model stops; left out: it is done.
    pub(crate) stop: StopReason,
    /// The reported usage.
    pub(crate) usage: Usage,
    /// The provider fails before it answers.
    pub(crate) fail: Option<FailScript>,
    /// Faults while the answer is sent.
    pub(crate) stream: StreamScript,
    /// Line of the turn in the file.
    #[serde(skip)]
    pub(crate) line: u64,
}

/// Blocks of thinking: a text, or a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Thoughts(pub(crate) Vec<ThoughtScript>);

/// One block of thinking.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThoughtScript {
    /// A template.
    pub(crate) text: String,
    /// The provider's seal; left out: one is made up where the wire has seals.
    #[serde(default)]
    pub(crate) signature: Option<String>,
}

impl<'de> Deserialize<'de> for Thoughts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrList;
        impl<'de> Visitor<'de> for TextOrList {
            type Value = Thoughts;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a list of `{text, signature}`")
            }
            fn visit_str<E>(self, text: &str) -> Result<Thoughts, E> {
                Ok(Thoughts(vec![ThoughtScript {
                    text: text.to_owned(),
                    signature: None,
                }]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Thoughts, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Thoughts)
            }
        }
        deserializer.deserialize_any(TextOrList)
    }
}

/// A scripted failure of the provider.
#[doc(hidden)]
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailScript {
    pub status: u16,
    #[serde(default)]
    pub retry_after_s: Option<u32>,
    #[serde(default)]
    pub message: String,
    /// So many times, and then the turn is taken.
    #[serde(default = "once")]
    pub times: u32,
}

/// Faults of a stream.
#[doc(hidden)]
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StreamScript {
    /// The connection ends after so many events.
    pub cut_after: Option<usize>,
    /// The event of this number, from 1, is not JSON.
    pub malformed: Option<usize>,
    /// An error of the provider's, in the stream, before its end.
    pub in_stream_error: Option<String>,
    /// A pause before each event.
    pub slow_ms: u64,
    /// Sends pieces of this many bytes, independent of their content.
    pub chunk_bytes: Option<usize>,
    /// So many times, and then the stream is whole.
    pub times: u32,
}

impl Default for StreamScript {
    fn default() -> Self {
        StreamScript {
            cut_after: None,
            malformed: None,
            in_stream_error: None,
            slow_ms: 0,
            chunk_bytes: None,
            times: once(),
        }
    }
}

fn once() -> u32 {
    1
}

/// A condition that must hold.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expectation {
    /// An expression.
    pub(crate) that: String,
    /// A template with the message for a false condition.
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
    /// Marks the call as an attempt, with this description.
    #[serde(default)]
    pub(crate) attempt: Option<String>,
    /// For an attempt: an expression over `result` that is true if it was stopped.
    /// Left out: it was stopped if the call failed.
    #[serde(default)]
    pub(crate) stopped: Option<String>,
    /// For an attempt that the operating system stops: the enforced promise, as the receipt names
    /// it.
    #[serde(default)]
    pub(crate) promise: Option<String>,
}

impl Playbook {
    /// The JSON Schema (draft 2020-12) of playbooks. It covers keys and types; [`Playbook::parse`]
    /// also checks the templates.
    ///
    /// ```
    /// let schema: serde_json::Value =
    ///     serde_json::from_str(forge_runtime::Playbook::SCHEMA).unwrap();
    /// assert_eq!(schema["properties"]["version"]["const"], 1);
    /// ```
    pub const SCHEMA: &str = include_str!("schema.json");

    /// The workers it has turns for.
    pub fn workers(&self) -> impl Iterator<Item = &str> {
        let only_cases = self
            .cases
            .keys()
            .filter(|name| !self.workers.contains_key(*name));
        self.workers.keys().chain(only_cases).map(String::as_str)
    }

    /// Returns the wire over which it is played.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// Returns the playbook for another wire.
    pub fn over(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    /// Returns a complaint for each argument that its tool among `specs` does not take. Calls of
    /// other tools, and attempts, may send anything.
    ///
    /// ```
    /// let text = "version: 1\nworkers: {main: [{calls: [{tool: read_file, args: {pth: /a}}]}]}";
    /// let playbook = forge_runtime::Playbook::parse(text).unwrap();
    /// let tools = forge_tools::tools::file_tools();
    /// let specs: Vec<_> = tools.iter().map(|tool| tool.spec().clone()).collect();
    /// let found = playbook.unknown_arguments(&specs);
    /// assert!(found[0].starts_with("line 2, `read_file`: `pth` is not an argument"));
    /// ```
    pub fn unknown_arguments(&self, specs: &[Spec]) -> Vec<String> {
        let cases = self.cases.values().flatten();
        let turns = self.workers.values().chain(cases.map(|case| &case.turns));
        let mut found = Vec::new();
        for turn in turns.flatten() {
            for call in turn.calls.iter().filter(|call| call.attempt.is_none()) {
                let spec = specs.iter().find(|spec| spec.answers_to(&call.tool));
                let (Some(spec), Some(given)) = (spec, call.args.as_object()) else {
                    continue;
                };
                let complaints = spec.params.unknown_names(given).into_iter();
                found.extend(
                    complaints.map(|complaint| {
                        format!("line {}, `{}`: {complaint}", turn.line, call.tool)
                    }),
                );
            }
        }
        found
    }

    pub(crate) fn turns(&self, worker: &str) -> Option<&[TurnScript]> {
        self.workers.get(worker).map(Vec::as_slice)
    }

    pub(crate) fn cases(&self, worker: &str) -> &[CaseScript] {
        self.cases.get(worker).map_or(&[], Vec::as_slice)
    }
}
