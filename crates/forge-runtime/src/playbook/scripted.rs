//! The scripted model: plays a playbook as a model would speak.
//!
//! It keeps no state of its own. Which turn is next, and what earlier calls came
//! to, are read off the conversation, as a real model reads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::value::Serde;
use minijinja::{Environment, Value};
use serde_json::json;
use tokio::sync::mpsc;

use super::attempts::{Attempt, Attempts, stopped_by};
use super::file::{Binding, CallScript, Playbook, TurnScript};
use super::templates;
use crate::model::{
    Event, Message, Model, ModelError, Prices, Request, Stop, ToolCall, ToolResult, Usage,
};

/// Most calls one turn may make; a `for_each` over a huge list is a mistake.
const MAX_CALLS_PER_TURN: usize = 2_000;

/// Enough for a template of [`templates::MAX_TEMPLATE_BYTES`] that is all operators.
const STACK_BYTES: usize = 256 * 1024 * 1024;

/// A model that plays a [`Playbook`].
///
/// ```
/// use forge_runtime::{Model, Playbook, Scripted};
/// let playbook = Playbook::parse("version: 1\nworkers: {main: [{say: hi}]}").unwrap();
/// let model = Scripted::new("demo.yaml", playbook);
/// assert_eq!(model.name(), "scripted:demo.yaml");
/// ```
#[derive(Debug)]
pub struct Scripted {
    label: String,
    playbook: Playbook,
    attempts: Attempts,
}

impl Scripted {
    /// A model that plays `playbook`; `label` names it in records.
    pub fn new(label: impl Into<String>, playbook: Playbook) -> Self {
        Scripted {
            label: label.into(),
            playbook,
            attempts: Attempts::default(),
        }
    }

    /// The attempts made so far, kept up to date while the run goes on.
    pub fn attempts(&self) -> Attempts {
        self.attempts.clone()
    }

    fn play(&self, request: &Request) -> Result<Played, ModelError> {
        let turns = self.playbook.turns(&request.worker).ok_or_else(|| {
            ModelError::Playbook(format!("it has no turns for worker `{}`", request.worker))
        })?;
        let index = request.turns_so_far();
        let play = Play {
            env: templates::environment(),
            worker: &request.worker,
            turn: index + 1,
        };
        let mut known = play.context(request, turns)?;
        if let Some(before) = index.checked_sub(1).and_then(|last| turns.get(last)) {
            self.judge_attempts(&play, before, request, &known)?;
        }
        let script = turns.get(index).ok_or_else(|| {
            ModelError::Playbook(format!(
                "worker `{}` has {} turns, and turn {} was asked for",
                request.worker,
                turns.len(),
                index + 1
            ))
        })?;
        for binding in &script.set {
            let value = play.bind(binding, &known)?;
            known.insert(binding.name.clone(), value);
        }
        let context = Value::from(known.clone());
        for expectation in &script.expect {
            if !play.value_in(&expectation.that, &context)?.is_true() {
                let message = play.text(&expectation.otherwise, &context)?;
                return Err(ModelError::Expectation(format!(
                    "{message} (worker `{}`, turn {}: {})",
                    play.worker, play.turn, expectation.that
                )));
            }
        }
        let text = play.text(&script.say, &context)?;
        let calls = play.calls(script, &known)?;
        Ok(Played {
            text,
            calls,
            usage: script.usage,
        })
    }

    /// Plays on a stack of its own: the template language recurses once for each
    /// operator of an expression, and a playbook may be nothing but operators.
    fn play_aside(&self, request: &Request) -> Result<Played, ModelError> {
        let failed = || ModelError::Playbook("its template could not be evaluated".to_owned());
        std::thread::scope(|scope| {
            std::thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, || self.play(request))
                .map_err(|_| failed())?
                .join()
                .unwrap_or_else(|_| Err(failed()))
        })
    }

    /// Whether each attempt of the turn before was stopped.
    fn judge_attempts(
        &self,
        play: &Play<'_>,
        before: &TurnScript,
        request: &Request,
        known: &BTreeMap<String, Value>,
    ) -> Result<(), ModelError> {
        let results = last_results(request);
        for (script, result) in play.scripts_of(before, &results) {
            let Some(what) = &script.attempt else {
                continue;
            };
            let mut with_result = known.clone();
            with_result.insert("result".to_owned(), Value::from(Serde(&result.detail)));
            let context = Value::from(with_result);
            let stopped = match &script.stopped {
                Some(condition) => play.value_in(condition, &context)?.is_true(),
                None => result.is_error,
            };
            let (layer, rule) = stopped_by(&result.detail, script.promise.as_deref());
            let attempt = Attempt {
                worker: request.worker.clone(),
                what: play.text(what, &context)?,
                stopped,
                layer,
                rule,
            };
            let failure = (!stopped).then(|| {
                ModelError::Expectation(format!(
                    "nothing stopped \"{}\" (worker `{}`): {}",
                    attempt.what, request.worker, result.content
                ))
            });
            self.attempts.push(attempt);
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
        Ok(())
    }
}

impl Model for Scripted {
    fn name(&self) -> String {
        format!("scripted:{}", self.label)
    }

    /// Nothing, so that a limit on money is no reason not to play.
    fn prices(&self) -> Option<Prices> {
        Some(Prices::default())
    }

    fn turn(&self, request: Arc<Request>) -> mpsc::Receiver<Event> {
        let (events, turn) = mpsc::channel(MAX_CALLS_PER_TURN + 3);
        // The channel holds a whole turn, so nothing here can be refused.
        match self.play_aside(&request) {
            Ok(played) => {
                if !played.text.is_empty() {
                    let _ = events.try_send(Event::Text(played.text));
                }
                for call in played.calls {
                    let _ = events.try_send(Event::Call(call));
                }
                let _ = events.try_send(Event::Usage(played.usage));
                let _ = events.try_send(Event::End(Stop::Done));
            }
            Err(error) => {
                let _ = events.try_send(Event::Failed(error));
            }
        }
        turn
    }
}

/// A turn as it was played.
struct Played {
    text: String,
    calls: Vec<ToolCall>,
    usage: Usage,
}

/// One turn being played.
struct Play<'a> {
    env: Environment<'static>,
    worker: &'a str,
    turn: usize,
}

impl Play<'_> {
    /// What templates see: `input`, `worker`, `results`.
    fn context(
        &self,
        request: &Request,
        turns: &[TurnScript],
    ) -> Result<BTreeMap<String, Value>, ModelError> {
        let mut results = BTreeMap::<String, Value>::new();
        let mut bindings = BTreeMap::<String, Value>::new();
        for (script, outcomes) in turns.iter().zip(results_by_turn(request)) {
            for (call, chunk) in self.grouped(script, &outcomes) {
                let Some(alias) = &call.alias else { continue };
                let values: Vec<Value> = chunk
                    .iter()
                    .map(|result| Value::from(Serde(&result.detail)))
                    .collect();
                let value = if call.for_each.is_some() {
                    Value::from(values)
                } else {
                    values.into_iter().next().unwrap_or_default()
                };
                results.insert(alias.clone(), value);
            }
        }
        let input = request.messages.iter().find_map(|message| match message {
            Message::Input { text } => Some(text.as_str()),
            Message::Model { .. } | Message::ToolResult(_) => None,
        });
        bindings.insert("input".to_owned(), Value::from(input.unwrap_or_default()));
        bindings.insert("worker".to_owned(), Value::from(self.worker));
        bindings.insert("results".to_owned(), Value::from(results));
        // Names set in earlier turns stay known; they are computed again, from the
        // same results, so that the conversation stays the only state.
        let done = request.turns_so_far().min(turns.len());
        for script in &turns[..done] {
            for binding in &script.set {
                if let Ok(value) = self.bind(binding, &bindings) {
                    bindings.insert(binding.name.clone(), value);
                }
            }
        }
        Ok(bindings)
    }

    fn calls(
        &self,
        script: &TurnScript,
        known: &BTreeMap<String, Value>,
    ) -> Result<Vec<ToolCall>, ModelError> {
        let mut calls = Vec::new();
        for (index, call) in script.calls.iter().enumerate() {
            let items: Vec<Option<Value>> = match &call.for_each {
                None => vec![None],
                Some(expression) => self
                    .value(expression, known)?
                    .try_iter()
                    .map_err(|error| self.fault(&error))?
                    .map(Some)
                    .collect(),
            };
            for item in items {
                if calls.len() >= MAX_CALLS_PER_TURN {
                    return Err(ModelError::Playbook(format!(
                        "turn {} of worker `{}` makes more than {MAX_CALLS_PER_TURN} calls",
                        self.turn, self.worker
                    )));
                }
                let mut scope = known.clone();
                if let Some(item) = item {
                    scope.insert("item".to_owned(), item);
                }
                let context = Value::from(scope);
                let arguments = match &call.args {
                    serde_json::Value::Null => json!({}),
                    args => templates::render(&self.env, args, &context)
                        .map_err(|error| self.fault(&error))?,
                };
                calls.push(ToolCall {
                    id: format!("{}.{index}.{}", self.turn, calls.len()),
                    tool: call.tool.clone(),
                    arguments,
                });
            }
        }
        Ok(calls)
    }

    /// Which results belong to which call script: the id says.
    fn grouped<'s, 'r>(
        &self,
        script: &'s TurnScript,
        results: &[&'r ToolResult],
    ) -> Vec<(&'s CallScript, Vec<&'r ToolResult>)> {
        script
            .calls
            .iter()
            .enumerate()
            .map(|(index, call)| {
                let mine = results
                    .iter()
                    .filter(|result| script_index(&result.id) == Some(index))
                    .copied()
                    .collect();
                (call, mine)
            })
            .collect()
    }

    fn scripts_of<'s, 'r>(
        &self,
        script: &'s TurnScript,
        results: &[&'r ToolResult],
    ) -> Vec<(&'s CallScript, &'r ToolResult)> {
        self.grouped(script, results)
            .into_iter()
            .flat_map(|(call, mine)| mine.into_iter().map(move |result| (call, result)))
            .collect()
    }

    fn bind(
        &self,
        binding: &Binding,
        known: &BTreeMap<String, Value>,
    ) -> Result<Value, ModelError> {
        match (&binding.value, &binding.text) {
            (Some(expression), _) => self.value(expression, known),
            (None, Some(template)) => self
                .text(template, &Value::from(known.clone()))
                .map(Value::from),
            (None, None) => Ok(Value::UNDEFINED),
        }
    }

    fn value(
        &self,
        expression: &str,
        known: &BTreeMap<String, Value>,
    ) -> Result<Value, ModelError> {
        self.value_in(expression, &Value::from(known.clone()))
    }

    fn value_in(&self, expression: &str, context: &Value) -> Result<Value, ModelError> {
        templates::evaluate(&self.env, expression, context).map_err(|error| self.fault(&error))
    }

    fn text(&self, template: &str, context: &Value) -> Result<String, ModelError> {
        templates::render_text(&self.env, template, context).map_err(|error| self.fault(&error))
    }

    fn fault(&self, error: &minijinja::Error) -> ModelError {
        ModelError::Playbook(format!(
            "worker `{}`, turn {}: {}",
            self.worker,
            self.turn,
            templates::explain(error)
        ))
    }
}

/// Ids are `turn.script.number`.
fn script_index(id: &str) -> Option<usize> {
    id.split('.').nth(1)?.parse().ok()
}

fn results_by_turn(request: &Request) -> Vec<Vec<&ToolResult>> {
    let mut turns: Vec<Vec<&ToolResult>> = Vec::new();
    for message in &request.messages {
        match message {
            Message::Input { .. } => {}
            Message::Model { .. } => turns.push(Vec::new()),
            Message::ToolResult(result) => {
                if let Some(turn) = turns.last_mut() {
                    turn.push(result);
                }
            }
        }
    }
    turns
}

fn last_results(request: &Request) -> Vec<&ToolResult> {
    results_by_turn(request).pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::collect;

    fn request(messages: Vec<Message>) -> Arc<Request> {
        Arc::new(Request {
            worker: "main".into(),
            instructions: String::new(),
            tools: Vec::new(),
            messages,
        })
    }

    fn result(id: &str, detail: serde_json::Value) -> Message {
        Message::ToolResult(ToolResult {
            id: id.into(),
            tool: "t".into(),
            content: "text".into(),
            is_error: detail["ok"] == json!(false),
            detail,
        })
    }

    fn said(calls: Vec<ToolCall>) -> Message {
        Message::Model {
            thinking: vec![],
            text: String::new(),
            calls,
        }
    }

    async fn next(model: &Scripted, messages: Vec<Message>) -> Result<String, String> {
        match collect(model.turn(request(messages)), |_| {}).await {
            Ok(turn) => Ok(turn
                .calls
                .iter()
                .map(|call| format!("{}{}", call.tool, call.arguments))
                .chain([turn.text])
                .collect::<Vec<_>>()
                .join(" ")),
            Err(error) => Err(error.to_string()),
        }
    }

    fn model(text: &str) -> Scripted {
        Scripted::new("test", Playbook::parse(text).unwrap())
    }

    #[tokio::test]
    async fn a_template_of_nothing_but_operators_is_an_error_or_a_value() {
        for (say, expected) in [
            (format!("{{{{ {}1 }}}}", "-".repeat(30_000)), Ok("1")),
            (format!("{{{{ {}1 }}}}", "1+".repeat(15_000)), Ok("15001")),
            (format!("{{{{ {}1 }}}}", "not ".repeat(8_000)), Ok("True")),
            (
                format!("{{{{ {}1 }}}}", "-".repeat(100_000)),
                Err("longer than 32768 bytes"),
            ),
        ] {
            let text = format!("version: 1\nworkers: {{main: [{{say: '{say}'}}]}}");
            let outcome = next(&model(&text), vec![Message::Input { text: "go".into() }]).await;
            match (outcome, expected) {
                (Ok(said), Ok(expected)) => assert_eq!(said, expected),
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                (outcome, expected) => panic!("{outcome:?}, not {expected:?}"),
            }
        }
    }

    #[tokio::test]
    async fn templates_see_the_real_results() {
        let model = model(
            "
version: 1
workers:
  main:
    - calls:
        - {tool: list, as: names}
    - set: [{name: many, value: 'results.names.structured.names'}]
      calls:
        - {tool: read, for_each: many, args: {path: 'x/{{ item }}', n: '{{ many | length }}'}, as: files}
    - expect:
        - {that: 'results.files | length == 2', else: 'got {{ results.files | length }}'}
      say: '{{ many | join(\",\") }}: {{ results.files[1].content }}'
",
        );
        let mut talk = vec![Message::Input { text: "go".into() }];
        assert_eq!(next(&model, talk.clone()).await.unwrap(), "list{} ");
        talk.push(said(vec![]));
        talk.push(result(
            "1.0.0",
            json!({"ok": true, "structured": {"names": ["a", "b"]}}),
        ));
        assert_eq!(
            next(&model, talk.clone()).await.unwrap(),
            r#"read{"path":"x/a","n":2} read{"path":"x/b","n":2} "#
        );
        talk.push(said(vec![]));
        talk.push(result("2.0.0", json!({"ok": true, "content": "A"})));
        let short = talk.clone();
        talk.push(result("2.0.1", json!({"ok": true, "content": "B"})));
        assert_eq!(next(&model, talk).await.unwrap(), " a,b: B".trim_start());
        assert_eq!(
            next(&model, short).await.unwrap_err(),
            "an expectation failed: got 1 (worker `main`, turn 3: results.files | length == 2)"
        );
    }

    #[tokio::test]
    async fn an_attempt_that_nothing_stopped_fails_the_run() {
        let text = "
version: 1
workers:
  main:
    - calls:
        - {tool: read, attempt: read the keys}
    - say: done
";
        let model = model(text);
        let talk = |detail| vec![said(vec![]), result("1.0.0", detail)];
        let refused = json!({"ok": false, "error": {"code": "OUTSIDE_SANDBOX"}});
        assert_eq!(next(&model, talk(refused)).await.unwrap(), "done");
        assert_eq!(
            next(&model, talk(json!({"ok": true}))).await.unwrap_err(),
            "an expectation failed: nothing stopped \"read the keys\" (worker `main`): text"
        );
        insta::assert_snapshot!(model.attempts().to_string(), @r"
        attempt       | stopped by   | rule or mechanism
        read the keys | file sandbox | OUTSIDE_SANDBOX
        read the keys | NOTHING      | no receipt
        ");
    }

    #[tokio::test]
    async fn the_end_of_a_playbook_is_not_an_answer() {
        let model = model("version: 1\nworkers: {main: []}");
        assert_eq!(
            next(&model, vec![]).await.unwrap_err(),
            "the playbook cannot go on: worker `main` has 0 turns, and turn 1 was asked for"
        );
        assert!(next(&model, vec![]).await.is_err());
    }
}
