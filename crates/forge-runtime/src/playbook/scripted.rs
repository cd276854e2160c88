//! The scripted model: plays a playbook as a model would speak.
//!
//! It has no state of its own. The next turn and the earlier results are read from the
//! conversation, as a real model reads them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use minijinja::value::Serde;
use minijinja::{Environment, Value};
use serde_json::json;
use tokio::sync::{OnceCell, mpsc};

use super::attempts::{AttackAttempt, AttackAttempts, stopped_by};
use super::file::{Binding, CallScript, CaseCondition, Playbook, TurnScript};
use super::played_turn::PlayedTurn;
use super::templates;
use crate::model::{
    Message, Model, ModelError, ModelEvent, ModelRequest, Thinking, TokenPrices, ToolCall,
    ToolResult,
};
use crate::retry::RetryingModel;

/// Most calls one turn may make; a `for_each` over a huge list is a mistake.
const MAX_CALLS_PER_TURN: usize = 2_000;

/// Retry limit of a turn, as for providers without a configured one.
const RETRY_MS: u64 = 120_000;

/// The first pause. It is short; `retry_after_s` sets a longer one.
const FIRST_PAUSE_MS: u64 = 50;

/// Queued events of a turn.
const QUEUE: usize = 64;

/// A model that plays a [`Playbook`], with the data that its wire carries, and with the retries of a
/// real provider's failures.
///
/// Its turns need a tokio runtime with time.
///
/// ```
/// use forge_runtime::{Model, Playbook, ScriptedModel};
/// let playbook = Playbook::parse("version: 1\nworkers: {main: [{say: hi}]}").unwrap();
/// let model = ScriptedModel::new("demo.yaml", playbook);
/// assert_eq!(model.name(), "scripted:demo.yaml");
/// ```
#[derive(Debug, Clone)]
pub struct ScriptedModel {
    label: String,
    playbook: Arc<Playbook>,
    attempts: AttackAttempts,
}

impl ScriptedModel {
    /// A model that plays `playbook`; `label` names it in records.
    pub fn new(label: impl Into<String>, playbook: Playbook) -> Self {
        ScriptedModel {
            label: label.into(),
            playbook: Arc::new(playbook),
            attempts: AttackAttempts::default(),
        }
    }

    /// Returns the attempts so far; the list is updated during the run.
    pub fn attempts(&self) -> AttackAttempts {
        self.attempts.clone()
    }

    fn play(&self, request: &ModelRequest) -> Result<PlayedTurn, ModelError> {
        let index = request.turns_so_far();
        let play = TurnPlayer {
            env: templates::environment(),
            worker: &request.worker,
            turn: index + 1,
        };
        let turns = self.turns(&play, request)?;
        let mut known = play.context(request, turns)?;
        if let Some(before) = index.checked_sub(1).and_then(|last| turns.get(last)) {
            self.judge_attempts(&play, before, request, &known)?;
        }
        let script = turns.get(index).ok_or_else(|| {
            ModelError::Playbook(format!(
                "turn {} of worker `{}` was asked for, and the playbook has {}",
                index + 1,
                request.worker,
                turns.len()
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
        let said = |template: &str| match script.verbatim {
            true => Ok(template.to_owned()),
            false => play.text(template, &context),
        };
        let thinking = script.thinking.0.iter().map(|thought| {
            Ok(Thinking {
                text: said(&thought.text)?,
                signature: thought.signature.clone(),
            })
        });
        let calls = play.calls(script, &known)?;
        let is_early = calls.is_empty() && play.turn < turns.len();
        let line = turns.first().map_or(0, |first| first.line);
        self.attempts.played(play.worker, line, play.turn, is_early);
        Ok(PlayedTurn {
            thinking: thinking.collect::<Result<_, ModelError>>()?,
            text: said(&script.say)?,
            calls,
            usage: script.usage,
            stop: script.stop,
            fail: script.fail.clone(),
            stream: script.stream.clone(),
        })
    }

    /// The turns of this conversation: of the first case that it fits, else the worker's.
    fn turns(
        &self,
        play: &TurnPlayer<'_>,
        request: &ModelRequest,
    ) -> Result<&[TurnScript], ModelError> {
        let mut known = None;
        for case in self.playbook.cases(&request.worker) {
            let fits = match &case.when {
                CaseCondition::Input(input) => input == input_of(request),
                CaseCondition::True(condition) => {
                    let context = known.get_or_insert_with(|| {
                        let mut known = play.basics(request);
                        known.insert("request".to_owned(), shown(request));
                        Value::from(known)
                    });
                    play.value_in(condition, context)?.is_true()
                }
            };
            if fits {
                return Ok(&case.turns);
            }
        }
        self.playbook.turns(&request.worker).ok_or_else(|| {
            ModelError::Playbook(format!("it has no turns for worker `{}`", request.worker))
        })
    }

    /// Plays on a stack of its own.
    #[doc(hidden)]
    pub fn play_on_own_stack(&self, request: &ModelRequest) -> Result<PlayedTurn, ModelError> {
        templates::on_deep_stack(|| self.play(request)).unwrap_or_else(|| {
            Err(ModelError::Playbook(
                "its template could not be evaluated".to_owned(),
            ))
        })
    }

    /// Records for each attempt of the last turn if it was stopped.
    fn judge_attempts(
        &self,
        play: &TurnPlayer<'_>,
        before: &TurnScript,
        request: &ModelRequest,
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
            let attempt = AttackAttempt {
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
            self.attempts.push(before.line, attempt);
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
        Ok(())
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> String {
        format!("scripted:{}", self.label)
    }

    /// Free, so that a limit on money does not prevent playing.
    fn prices(&self) -> Option<TokenPrices> {
        Some(TokenPrices::default())
    }

    fn turn(&self, request: Arc<ModelRequest>) -> mpsc::Receiver<ModelEvent> {
        RetryingModel::new(Arc::new(TurnAttempts::new(self.clone())), RETRY_MS)
            .first_pause_ms(FIRST_PAUSE_MS)
            .turn(request)
    }
}

/// The attempts at one turn. The turn is played once for all of them: each gets an equal answer, and
/// no attack is judged twice.
#[derive(Debug, Clone)]
struct TurnAttempts {
    model: ScriptedModel,
    played: Arc<OnceCell<Result<PlayedTurn, ModelError>>>,
    count: Arc<AtomicU32>,
}

impl TurnAttempts {
    fn new(model: ScriptedModel) -> Self {
        TurnAttempts {
            model,
            played: Arc::default(),
            count: Arc::default(),
        }
    }

    async fn speak(
        &self,
        request: Arc<ModelRequest>,
        events: &mpsc::Sender<ModelEvent>,
    ) -> Result<(), ModelError> {
        // Templates can take their time.
        let play = || async {
            let model = self.model.clone();
            let played = tokio::task::spawn_blocking(move || model.play_on_own_stack(&request));
            played
                .await
                .unwrap_or_else(|_| Err(ModelError::Playbook("it could not be played".to_owned())))
        };
        let played = self.played.get_or_init(play).await.clone()?;
        let attempt = self.count.fetch_add(1, Ordering::Relaxed);
        played
            .send(self.model.playbook.wire(), attempt, events)
            .await
    }
}

impl Model for TurnAttempts {
    fn name(&self) -> String {
        self.model.name()
    }

    fn turn(&self, request: Arc<ModelRequest>) -> mpsc::Receiver<ModelEvent> {
        let (events, turn) = mpsc::channel(QUEUE);
        let attempts = self.clone();
        tokio::spawn(async move {
            let outcome = tokio::select! {
                biased;
                () = events.closed() => return,
                outcome = attempts.speak(request, &events) => outcome,
            };
            if let Err(error) = outcome {
                let _gone = events.send(ModelEvent::Failed(error)).await;
            }
        });
        turn
    }
}

/// One turn being played.
struct TurnPlayer<'a> {
    env: Environment<'static>,
    worker: &'a str,
    turn: usize,
}

impl TurnPlayer<'_> {
    /// Returns the bindings before any result.
    fn basics(&self, request: &ModelRequest) -> BTreeMap<String, Value> {
        BTreeMap::from([
            ("input".to_owned(), Value::from(input_of(request))),
            ("worker".to_owned(), Value::from(self.worker)),
        ])
    }

    /// Returns the bindings for templates: `input`, `worker`, `results`, and `request` if any
    /// template uses it.
    fn context(
        &self,
        request: &ModelRequest,
        turns: &[TurnScript],
    ) -> Result<BTreeMap<String, Value>, ModelError> {
        let mut results = BTreeMap::<String, Value>::new();
        let mut bindings = self.basics(request);
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
        bindings.insert("results".to_owned(), Value::from(results));
        let done = request.turns_so_far().min(turns.len());
        // A conversation can be long, and most turns do not look at it.
        if turns.iter().take(done + 1).any(asks_for_request) {
            bindings.insert("request".to_owned(), shown(request));
        }
        // Names set in earlier turns stay known; they are computed again, from unchanged results,
        // so that the conversation stays the only state.
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
                    args if script.verbatim => args.clone(),
                    args => templates::render(&self.env, args, &context)
                        .map_err(|error| self.fault(&error))?,
                };
                calls.push(ToolCall {
                    id: format!("call_{}_{index}_{}", self.turn, calls.len()),
                    tool: call.tool.clone(),
                    arguments,
                });
            }
        }
        Ok(calls)
    }

    /// Groups the results by call script, as given by their ids.
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

/// Ids are `call_turn_script_number`: letters that every vendor takes.
fn script_index(id: &str) -> Option<usize> {
    id.split('_').nth(2)?.parse().ok()
}

fn input_of(request: &ModelRequest) -> &str {
    let input = request.messages.iter().find_map(|message| match message {
        Message::Input { text } => Some(text.as_str()),
        Message::Model { .. } | Message::ToolResult(_) => None,
    });
    input.unwrap_or_default()
}

/// Returns the request as seen by the model, for conditions over it.
fn shown(request: &ModelRequest) -> Value {
    let messages = request.messages.iter().map(|message| match message {
        Message::Input { text } => json!({"role": "input", "text": text}),
        Message::Model { text, calls, .. } => {
            json!({"role": "model", "text": text, "calls": calls})
        }
        Message::ToolResult(result) => json!({
            "role": "tool_result",
            "tool": result.tool,
            "content": result.content,
            "is_error": result.is_error,
        }),
    });
    let last = last_results(request).pop();
    Value::from(Serde(json!({
        "instructions": request.instructions,
        "tools": request.tools,
        "messages": messages.collect::<Vec<_>>(),
        "last_result": last.map(|result| result.content.as_str()).unwrap_or_default(),
    })))
}

fn asks_for_request(script: &TurnScript) -> bool {
    let asks = |text: &str| text.contains("request");
    let asks_in = |text: &Option<String>| text.as_deref().is_some_and(asks);
    let conditions = script.expect.iter();
    conditions
        .flat_map(|e| [&e.that, &e.otherwise])
        .any(|text| asks(text))
        || script
            .set
            .iter()
            .any(|b| asks_in(&b.value) || asks_in(&b.text))
        || asks(&script.say)
        || script.thinking.0.iter().any(|thought| asks(&thought.text))
        || script.calls.iter().any(|call| {
            asks_in(&call.for_each) || asks_in(&call.stopped) || asks_in(&call.attempt)
                // The texts in it equal those of the file, except for their quotes.
                || asks(&call.args.to_string())
        })
}

fn results_by_turn(request: &ModelRequest) -> Vec<Vec<&ToolResult>> {
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

fn last_results(request: &ModelRequest) -> Vec<&ToolResult> {
    results_by_turn(request).pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(messages: Vec<Message>) -> Arc<ModelRequest> {
        Arc::new(ModelRequest {
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

    async fn next(model: &ScriptedModel, messages: Vec<Message>) -> Result<String, String> {
        let (mut text, mut calls) = (String::new(), Vec::new());
        let mut events = model.turn(request(messages));
        while let Some(event) = events.recv().await {
            match event {
                ModelEvent::Text(more) => text.push_str(&more),
                ModelEvent::Call(call) => calls.push(format!("{}{}", call.tool, call.arguments)),
                ModelEvent::Retry(_) => {
                    text.clear();
                    calls.clear();
                }
                ModelEvent::End(_) => {
                    calls.push(text);
                    return Ok(calls.join(" "));
                }
                ModelEvent::Failed(error) => return Err(error.to_string()),
                ModelEvent::Thinking(_) | ModelEvent::Heartbeat | ModelEvent::Usage(_) => {}
            }
        }
        Err(ModelError::Cut.to_string())
    }

    fn model(text: &str) -> ScriptedModel {
        ScriptedModel::new("test", Playbook::parse(text).unwrap())
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
            "call_1_0_0",
            json!({"ok": true, "structured": {"names": ["a", "b"]}}),
        ));
        assert_eq!(
            next(&model, talk.clone()).await.unwrap(),
            r#"read{"path":"x/a","n":2} read{"path":"x/b","n":2} "#
        );
        talk.push(said(vec![]));
        talk.push(result("call_2_0_0", json!({"ok": true, "content": "A"})));
        let short = talk.clone();
        talk.push(result("call_2_0_1", json!({"ok": true, "content": "B"})));
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
        let talk = |detail| vec![said(vec![]), result("call_1_0_0", detail)];
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
            "the playbook cannot go on: turn 1 of worker `main` was asked for, and the playbook has 0"
        );
        assert!(next(&model, vec![]).await.is_err());
    }
}
