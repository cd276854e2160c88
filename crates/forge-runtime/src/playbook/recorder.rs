//! A playbook made of a run: texts and calls of every worker's model, in their order.
//!
//! It watches as an [`Observer`]. It records events only; a person adds expectations. Secrets are
//! redacted as in transcripts. Of a call, only the handle of a truncated result differs from run to
//! run: it becomes a template over that result.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forge_tools::Redactor;
use serde_json::{Value, json};

use super::templates::MAX_TEMPLATE_BYTES;
use crate::model::{Message, ModelEvent, StopReason, Thinking, ToolCall, ToolResult, Usage};
use crate::report::{Observer, RunEvent};

/// First line of every recording.
///
/// ```
/// assert!(forge_runtime::RECORDING_HEADER.starts_with('#'));
/// ```
pub const RECORDING_HEADER: &str = "# Recorded from a run.\n";

/// Records a run as a playbook, and passes all events on.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// use std::sync::Arc;
/// use forge_runtime::{NoObserver, Playbook, PlaybookRecorder, ScriptedModel, Session};
/// use sandbox_config::{Grant, Sources, load};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::create_dir(dir.path().join("workers")).unwrap();
/// # let text = "---\nname: hello\n---\nSay hello.\n";
/// # std::fs::write(dir.path().join("workers/hello.worker"), text).unwrap();
/// # let worker = load(&Sources::new(dir.path())).unwrap().worker("hello").unwrap();
/// # let text = "version: 1\nworkers: {hello: [{say: 'hi, {{ input }}'}]}";
/// # let model = ScriptedModel::new("live", Playbook::parse(text).unwrap());
/// let recording = Arc::new(PlaybookRecorder::new(Arc::new(NoObserver), Arc::default()));
/// let session = Session::builder(model).observer(recording.clone()).build();
/// rt.block_on(session.run(&worker, Grant::empty(), "you"));
///
/// let playbook = Playbook::parse(&recording.playbook()).unwrap();
/// let model = ScriptedModel::new("recorded", playbook);
/// let session = Session::builder(model).build();
/// let report = rt.block_on(session.run(&worker, Grant::empty(), "somebody else"));
/// assert_eq!(report.end, forge_runtime::RunOutcome::Answered { answer: "hi, you".into() });
/// ```
pub struct PlaybookRecorder {
    inner: Arc<dyn Observer>,
    redactor: Arc<Redactor>,
    /// By the number of the worker's run.
    talks: Mutex<BTreeMap<u64, RecordedConversation>>,
}

/// One conversation of a worker.
#[derive(Debug, Default)]
struct RecordedConversation {
    worker: String,
    input: Option<String>,
    turns: Vec<RecordedTurn>,
    stop: Option<StopReason>,
    usage: Usage,
    /// Templates for the handles of truncated results.
    handles: HashMap<String, String>,
}

#[derive(Debug)]
struct RecordedTurn {
    text: String,
    thinking: Vec<Thinking>,
    calls: Vec<ToolCall>,
    stop: StopReason,
    usage: Usage,
    /// Calls, by their index, whose results later turns refer to.
    named: Vec<usize>,
    /// A call contains a handle, so the turn is made of templates.
    templates: bool,
}

impl PlaybookRecorder {
    /// Records all events, redacted by `redactor`, and passes them on to `inner`.
    pub fn new(inner: Arc<dyn Observer>, redactor: Arc<Redactor>) -> Self {
        PlaybookRecorder {
            inner,
            redactor,
            talks: Mutex::default(),
        }
    }

    /// Returns the playbook of the events so far.
    pub fn playbook(&self) -> String {
        let talks = self.talks();
        let mut by_worker: BTreeMap<&str, Vec<&RecordedConversation>> = BTreeMap::new();
        for talk in talks.values() {
            by_worker.entry(&talk.worker).or_default().push(talk);
        }
        let mut text = format!("{RECORDING_HEADER}version: 1\nwire: anthropic\n");
        let (alone, several): (Vec<_>, Vec<_>) = by_worker
            .into_iter()
            .partition(|(_, talks)| talks.len() == 1);
        for (key, list) in [("workers", alone), ("cases", several)] {
            if list.is_empty() {
                continue;
            }
            let _ = writeln!(text, "{key}:");
            for (worker, talks) in list {
                let _ = writeln!(text, "  {}:", json!(worker));
                for talk in talks {
                    let indent = match key {
                        "cases" => {
                            let input = talk.input.as_deref().unwrap_or_default();
                            let _ = writeln!(text, "    - input: {}", quoted(input));
                            text.push_str("      turns:\n");
                            "        "
                        }
                        _ => "    ",
                    };
                    if talk.turns.is_empty() {
                        // An empty list must be explicit.
                        text.truncate(text.trim_end().len());
                        text.push_str(" []\n");
                    }
                    for turn in &talk.turns {
                        self.write(turn, &talk.handles, indent, &mut text);
                    }
                }
            }
        }
        text
    }

    fn write(
        &self,
        turn: &RecordedTurn,
        handles: &HashMap<String, String>,
        indent: &str,
        text: &mut String,
    ) {
        let said = |raw: &str| {
            let clean = self.redactor.redact(raw);
            match turn.templates {
                true => quoted(&literally(&clean)),
                false => quoted(&clean),
            }
        };
        let mut keys = Vec::new();
        if !turn.templates {
            keys.push("verbatim: true".to_owned());
        }
        if !turn.thinking.is_empty() {
            let blocks = turn.thinking.iter().map(|block| {
                let seal = block.signature.as_deref();
                let seal = seal.map(|seal| format!(", signature: {}", quoted(seal)));
                let seal = seal.unwrap_or_default();
                format!("{{text: {}{seal}}}", said(&block.text))
            });
            let blocks: Vec<String> = blocks.collect();
            keys.push(format!("thinking: [{}]", blocks.join(", ")));
        }
        if !turn.text.is_empty() {
            keys.push(format!("say: {}", said(&turn.text)));
        }
        if !turn.calls.is_empty() {
            keys.push(self.calls(turn, handles, indent));
        }
        if turn.stop != StopReason::Done {
            let stop = json!(turn.stop);
            keys.push(format!("stop: {}", stop.as_str().unwrap_or_default()));
        }
        if turn.usage != Usage::default() {
            keys.push(format!("usage: {}", json!(turn.usage)));
        }
        if keys.is_empty() {
            keys.push("say: \"\"".to_owned());
        }
        for (nth, key) in keys.into_iter().enumerate() {
            let mark = if nth == 0 { "- " } else { "  " };
            let _ = writeln!(text, "{indent}{mark}{key}");
        }
    }

    /// Returns the key with the calls of a turn.
    fn calls(
        &self,
        turn: &RecordedTurn,
        handles: &HashMap<String, String>,
        indent: &str,
    ) -> String {
        let mut calls = "calls:".to_owned();
        for (index, call) in turn.calls.iter().enumerate() {
            let mut arguments = call.arguments.clone();
            self.redactor.redact_json(&mut arguments);
            if turn.templates {
                arguments = templated(arguments, handles);
            }
            let name = match turn.named.contains(&index) {
                true => format!(", as: {}", alias(&call.id)),
                false => String::new(),
            };
            let _ = write!(
                calls,
                "\n{indent}    - {{tool: {}{name}, args: {}}}",
                quoted(&call.tool),
                escaped(&arguments.to_string())
            );
        }
        calls
    }

    fn talks(&self) -> MutexGuard<'_, BTreeMap<u64, RecordedConversation>> {
        self.talks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

sandbox_names::debug!(PlaybookRecorder {});

impl Observer for PlaybookRecorder {
    fn observe(&self, event: RunEvent<'_>) {
        match &event {
            RunEvent::Started { caller, .. } => {
                self.talks().entry(caller.run()).or_default().worker = caller.worker().to_owned();
            }
            RunEvent::Streamed {
                caller,
                event: ModelEvent::End(stop),
            } => {
                self.talks().entry(caller.run()).or_default().stop = Some(*stop);
            }
            RunEvent::Used { caller, usage, .. } => {
                self.talks().entry(caller.run()).or_default().usage = *usage;
            }
            RunEvent::Said { caller, message } => {
                self.talks().entry(caller.run()).or_default().hear(message);
            }
            _ => {}
        }
        self.inner.observe(event);
    }
}

impl RecordedConversation {
    fn hear(&mut self, message: &Message) {
        match message {
            Message::Input { text } => {
                self.input.get_or_insert_with(|| text.clone());
            }
            Message::Model {
                text,
                thinking,
                calls,
            } => {
                let templates = calls.iter().any(|call| self.has_handle(&call.arguments))
                    && fits(text)
                    && thinking.iter().all(|block| fits(&block.text))
                    && calls.iter().all(|call| fits(&call.arguments.to_string()));
                self.turns.push(RecordedTurn {
                    text: text.clone(),
                    thinking: thinking.clone(),
                    calls: calls.clone(),
                    stop: self.stop.take().unwrap_or(StopReason::Done),
                    usage: std::mem::take(&mut self.usage),
                    named: Vec::new(),
                    templates,
                });
            }
            Message::ToolResult(result) => self.result(result),
        }
    }

    fn result(&mut self, result: &ToolResult) {
        let found = ["/cut/output_id", "/structured/output_id"]
            .into_iter()
            .find_map(|path| Some((path, result.detail.pointer(path)?.as_str()?)));
        let (Some((path, handle)), Some(turn)) = (found, self.turns.last_mut()) else {
            return;
        };
        let Some(index) = turn.calls.iter().position(|call| call.id == result.id) else {
            return;
        };
        let path = path.replace('/', ".");
        let from = format!("{{{{ results.{}{path} }}}}", alias(&result.id));
        self.handles.insert(handle.to_owned(), from);
        turn.named.push(index);
    }

    fn has_handle(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.handles.contains_key(text),
            Value::Array(items) => items.iter().any(|item| self.has_handle(item)),
            Value::Object(fields) => fields.values().any(|field| self.has_handle(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
}

/// Returns `true` if it fits into a template.
fn fits(text: &str) -> bool {
    // Each brace may become nine letters.
    text.len() <= MAX_TEMPLATE_BYTES / 9
}

/// A name for the result of the call of this id.
fn alias(id: &str) -> String {
    let letters = id.bytes().map(|byte| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("_{byte:02x}"),
    });
    format!("r_{}", letters.collect::<String>())
}

fn templated(value: Value, handles: &HashMap<String, String>) -> Value {
    match value {
        Value::String(text) => Value::String(match handles.get(&text) {
            Some(from) => from.clone(),
            None => literally(&text),
        }),
        Value::Array(items) => items
            .into_iter()
            .map(|item| templated(item, handles))
            .collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, field)| (name, templated(field, handles)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other,
    }
}

/// A template that makes `text`: a brace that would begin a tag is an expression of its own.
fn literally(text: &str) -> String {
    let mut template = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('{', Some('{' | '%' | '#')) => template.push_str("{{ '{' }}"),
            (letter, _) => template.push(letter),
        }
    }
    template
}

/// A text as YAML takes it: JSON, but for letters that YAML does not read as they are.
fn quoted(text: &str) -> String {
    escaped(&Value::from(text).to_string())
}

fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        let plain = matches!(letter, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
            || letter > '\u{ffff}';
        if plain && !matches!(letter, '\u{feff}' | '\u{2028}' | '\u{2029}') {
            text.push(letter);
        } else {
            let _ = write!(text, "\\u{:04x}", u32::from(letter));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::playbook::templates;

    #[test]
    fn any_text_is_a_template_of_itself() {
        let env = templates::environment();
        let nothing = minijinja::Value::from(BTreeMap::<String, String>::new());
        for text in [
            "",
            "{",
            "{{",
            "{{{",
            "{{{{ x }}}}",
            "{% if %}",
            "{# no #}",
            "}}",
            "{ {",
            "a\n{{b}}\n",
            "{{ '{' }}",
        ] {
            let made = templates::render_text(&env, &literally(text), &nothing);
            assert_eq!(made.unwrap(), text);
        }
    }
}
