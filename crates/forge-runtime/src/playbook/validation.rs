//! Checks a playbook whose structure is valid and reports all mistakes, each with its location.

use serde_json::Value;
use serde_saphyr::{Location, Spanned};

use super::file::{CaseFile, PlaybookFile, TurnScript};
use super::templates::{self, TemplateSource};

/// Most complaints that are listed; a playbook with more is not a playbook.
const MAX_COMPLAINTS: usize = 50;

/// Largest token count of a turn; vendors' clients count in 32 bits.
const MAX_TOKENS: u64 = 1_000_000_000;

/// Longest pause before an event, and longest time a provider asks to be left alone.
const MAX_SLOW_MS: u64 = 60_000;

/// Returns all mistakes in `file`.
pub(super) fn of(file: &PlaybookFile) -> Vec<String> {
    let mut found = PlaybookCheck::default();
    for (worker, turns) in file.workers.iter().flatten() {
        found.turns(worker, turns);
    }
    for (worker, cases) in file.cases.iter().flatten() {
        for case in cases {
            found.case(worker, case);
        }
    }
    // The compiler of templates recurses, and a template may consist of operators only.
    templates::on_deep_stack(move || {
        let env = templates::environment();
        let mut list = found.list;
        for (at, source) in found.templates {
            if let Err(error) = templates::check(&env, &source) {
                list.push(format!("{at}: {}", templates::explain(&error)));
            }
        }
        list.truncate(MAX_COMPLAINTS);
        list
    })
    .unwrap_or_else(|| vec!["its templates could not be read".to_owned()])
}

#[derive(Default)]
struct PlaybookCheck {
    list: Vec<String>,
    templates: Vec<(String, TemplateSource)>,
}

impl PlaybookCheck {
    fn case(&mut self, worker: &str, case: &Spanned<CaseFile>) {
        let at = place(case.referenced);
        if case.value.input.is_some() == case.value.when.is_some() {
            self.list.push(format!(
                "{at}: a case needs either `input` or `when` (worker `{worker}`)"
            ));
        }
        if let Some(when) = &case.value.when {
            self.templates
                .push((at, TemplateSource::Expression(when.clone())));
        }
        self.turns(worker, &case.value.turns);
    }

    fn turns(&mut self, worker: &str, turns: &[Spanned<TurnScript>]) {
        for (index, turn) in turns.iter().enumerate() {
            let at = place(turn.referenced);
            let whose = format!("(worker `{worker}`, turn {})", index + 1);
            for complaint in shape(&turn.value) {
                self.list.push(format!("{at}: {complaint} {whose}"));
            }
            for source in sources(&turn.value) {
                self.templates.push((format!("{at} {whose}"), source));
            }
        }
    }
}

/// Mistakes that no schema of the file shows.
fn shape(turn: &TurnScript) -> Vec<String> {
    let mut found = Vec::new();
    for binding in &turn.set {
        if binding.value.is_some() == binding.text.is_some() {
            found.push(format!(
                "`set` needs either `value` or `text` for `{}`",
                binding.name
            ));
        }
    }
    for call in &turn.calls {
        if call.attempt.is_none() && (call.stopped.is_some() || call.promise.is_some()) {
            found.push("`stopped` and `promise` belong to an `attempt`".to_owned());
        }
        if turn.verbatim && call.for_each.is_some() {
            found.push("a `verbatim` turn has no `for_each`".to_owned());
        }
    }
    let usage = turn.usage;
    if usage.input_tokens.max(usage.output_tokens) > MAX_TOKENS {
        found.push(format!("`usage` is above {MAX_TOKENS} tokens"));
    }
    let cached = usage
        .cache_read_tokens
        .saturating_add(usage.cache_write_tokens);
    if cached > usage.input_tokens {
        found.push("`usage` counts more tokens of a cache than `input_tokens`".to_owned());
    }
    if let Some(fail) = &turn.fail
        && !(400..=599).contains(&fail.status)
    {
        found.push("`fail.status` is one of 400 to 599".to_owned());
    }
    let stream = &turn.stream;
    if stream.malformed == Some(0) || stream.chunk_bytes == Some(0) {
        found.push("`stream.malformed` and `stream.chunk_bytes` count from 1".to_owned());
    }
    if stream.slow_ms > MAX_SLOW_MS {
        found.push(format!("`stream.slow_ms` is above {MAX_SLOW_MS}"));
    }
    found
}

/// Every template and expression of a turn.
fn sources(turn: &TurnScript) -> Vec<TemplateSource> {
    let mut found = Vec::new();
    let mut expression = |text: &Option<String>| {
        found.extend(text.clone().map(TemplateSource::Expression));
    };
    for binding in &turn.set {
        expression(&binding.value);
    }
    for call in &turn.calls {
        expression(&call.for_each);
        expression(&call.stopped);
    }
    for expectation in &turn.expect {
        found.push(TemplateSource::Expression(expectation.that.clone()));
        found.push(TemplateSource::Template(expectation.otherwise.clone()));
    }
    for binding in &turn.set {
        found.extend(binding.text.clone().map(TemplateSource::Template));
    }
    if turn.verbatim {
        return found;
    }
    found.push(TemplateSource::Template(turn.say.clone()));
    for thought in &turn.thinking.0 {
        found.push(TemplateSource::Template(thought.text.clone()));
    }
    for call in &turn.calls {
        found.extend(call.attempt.clone().map(TemplateSource::Template));
        texts(&call.args, &mut found);
    }
    found
}

fn texts(value: &Value, found: &mut Vec<TemplateSource>) {
    match value {
        Value::String(text) => found.push(TemplateSource::Template(text.clone())),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

pub(super) fn place(at: Location) -> String {
    format!("line {} column {}", at.line(), at.column())
}
