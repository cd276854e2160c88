//! `forge doctor --model`: whether a model makes calls, asked of it once in a stream and once in
//! one piece. Servers of local models differ in just that: many write a call as text.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forge_runtime::{
    Message, Model as _, ModelError, ModelEvent, ModelRequest, StopReason, ToolDescription,
};
use sandbox_config::{ApiKey, ProviderSettings, Wire, WithoutDirectories};

use super::report::{self, CheckState, DoctorCheck};
use crate::commands::prelude::*;
use crate::output::escape::{escape, shortened};
use crate::setup;
use crate::setup::keys::ApiKeys;
use crate::setup::provider_client;

/// The offered tool and its expected argument.
const TOOL: &str = "report_weather";
const CITY: &str = "Reykjavik";
/// Time limit for a small answer; the first one may load the model.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Longest quoted answer, in characters.
const MAX_SAID_CHARS: usize = 200;

/// The result of one question.
struct ModelProbe {
    stream: bool,
    outcome: ProbeOutcome,
    took: Duration,
}

enum ProbeOutcome {
    /// One call, as it was asked for.
    Called,
    /// The model wrote the call as text instead of making it.
    CallAsText(String),
    /// Something else.
    NoCall(String),
    /// A call of something else, or with other arguments.
    OtherCall(String),
    Failed(ModelError),
    Silent,
}

pub(super) fn run(ambient: &Ambient, named: Option<&str>) -> Result<ExitKind, CliError> {
    let project = setup::project(ambient, None, WithoutDirectories::DefaultZones)?;
    let own = || {
        let entry = project.worker(project.entry()).ok();
        entry.and_then(|entry| entry.model().map(str::to_owned))
    };
    let named = named
        .or_else(|| ambient.var("FORGE_MODEL"))
        .map(str::to_owned)
        .or_else(own)
        .or_else(|| project.model().map(str::to_owned));
    let Some(named) = named else {
        return Err(CliError::misuse("model.missing", "no model is configured")
            .hint("forge doctor --model provider:model"));
    };
    if named.starts_with("scripted:") {
        return Err(CliError::usage(format!(
            "`{named}` is a playbook: there is no endpoint to probe"
        )));
    }
    let (provider, model) = provider_client::find(&project, &named)?;
    let key = ApiKeys::new(ambient, &project).of(provider)?;
    let mut probes = Vec::new();
    for stream in [true, false] {
        let connected = provider_client::provider_of(provider, model, key.clone(), stream)?
            .model(model)
            .map_err(|error| provider_client::unusable(provider, &error))?;
        let began = Instant::now();
        let outcome = setup::until_stopped(ask(&connected))?;
        probes.push(ModelProbe {
            stream,
            outcome,
            took: began.elapsed(),
        });
    }
    let answers = ProbeReport {
        named: &named,
        provider,
        probes,
    };
    let text = match ambient.global.json {
        true => answers.facts().to_string(),
        false => answers.table(),
    };
    print_line(text.trim_end())?;
    Ok(answers.exit())
}

/// Asks for one call.
async fn ask(model: &forge_runtime::HttpModel) -> ProbeOutcome {
    let request = Arc::new(ModelRequest {
        worker: "doctor".to_owned(),
        instructions: "You test tools. Use the tool that you are asked to use.".to_owned(),
        tools: vec![ToolDescription {
            name: TOOL.to_owned(),
            description: "Tells the weather in a city.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
                "additionalProperties": false,
            }),
        }],
        messages: vec![Message::Input {
            text: format!("Call the tool {TOOL} once, with the city {CITY}. Do nothing else."),
        }],
    });
    let mut turn = model.turn(request);
    let mut text = String::new();
    let mut calls = Vec::new();
    let answer = async {
        while let Some(event) = turn.recv().await {
            match event {
                ModelEvent::Text(more) => text.push_str(&more),
                ModelEvent::Call(call) => calls.push(call),
                ModelEvent::Thinking(_)
                | ModelEvent::Heartbeat
                | ModelEvent::Retry(_)
                | ModelEvent::Usage(_) => {}
                ModelEvent::End(stop) => return Ok(stop),
                ModelEvent::Failed(error) => return Err(error),
            }
        }
        Err(ModelError::Cut)
    };
    let stop = match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
        Err(_) => return ProbeOutcome::Silent,
        Ok(Err(error)) => return ProbeOutcome::Failed(error),
        Ok(Ok(stop)) => stop,
    };
    match calls.as_slice() {
        [call] if call.tool == TOOL && call.arguments == json!({"city": CITY}) => {
            ProbeOutcome::Called
        }
        [] if text.contains(TOOL) => ProbeOutcome::CallAsText(short(&text)),
        [] if stop == StopReason::MaxTokens => {
            ProbeOutcome::NoCall("it ran out of tokens before it came to a call".to_owned())
        }
        [] if text.trim().is_empty() => ProbeOutcome::NoCall("it said nothing at all".to_owned()),
        [] => ProbeOutcome::NoCall(format!("it said: {}", short(&text))),
        [call, more @ ..] => {
            let first = format!("{} {}", call.tool, call.arguments);
            ProbeOutcome::OtherCall(short(&match more.len() {
                0 => first,
                others => format!("{} calls; the first is {first}", others + 1),
            }))
        }
    }
}

/// Shortens a model's text to one line.
fn short(text: &str) -> String {
    shortened(escape(text.trim()), MAX_SAID_CHARS)
}

impl ModelProbe {
    fn what(&self) -> &'static str {
        match self.stream {
            true => "in a stream",
            false => "in one piece",
        }
    }

    fn is_ok(&self) -> bool {
        matches!(self.outcome, ProbeOutcome::Called)
    }

    fn detail(&self) -> String {
        match &self.outcome {
            ProbeOutcome::Called => format!("one call, after {} ms", self.took.as_millis()),
            ProbeOutcome::CallAsText(text) => format!("tool call returned as text: {text}"),
            ProbeOutcome::NoCall(why) => format!("no call: {why}"),
            ProbeOutcome::OtherCall(what) => format!("not the call that was asked for: {what}"),
            ProbeOutcome::Failed(error) => error.to_string(),
            ProbeOutcome::Silent => format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()),
        }
    }
}

struct ProbeReport<'a> {
    named: &'a str,
    provider: &'a ProviderSettings,
    probes: Vec<ModelProbe>,
}

impl ProbeReport<'_> {
    /// `true` if the configured mode of the model works.
    fn works(&self) -> bool {
        let used = |probe: &&ModelProbe| probe.stream == self.provider.streams();
        self.probes.iter().filter(used).all(ModelProbe::is_ok)
    }

    /// Returns one command to type for a failed probe.
    fn hint(&self, probe: &ModelProbe) -> Option<String> {
        let name = self.provider.name();
        let other_works = self
            .probes
            .iter()
            .any(|each| each.stream != probe.stream && each.is_ok());
        let again = |set: &str| format!("forge doctor --model {} -c {set}", self.named);
        Some(match &probe.outcome {
            ProbeOutcome::Called => return None,
            ProbeOutcome::CallAsText(_) | ProbeOutcome::NoCall(_) | ProbeOutcome::OtherCall(_)
                if other_works && probe.stream == self.provider.streams() =>
            {
                again(&format!("providers.{name}.stream={}", !probe.stream))
            }
            // Its server has to know how this model writes a call. Ollama has its own templates.
            ProbeOutcome::CallAsText(_)
                if self.provider.wire() == Wire::OpenAiChat && name != "ollama" =>
            {
                "llama-server --jinja --model FILE".to_owned()
            }
            ProbeOutcome::CallAsText(_) | ProbeOutcome::NoCall(_) | ProbeOutcome::OtherCall(_) => {
                format!("forge doctor --model {name}:ANOTHER")
            }
            ProbeOutcome::Failed(ModelError::Credentials(_)) => match self.provider.key() {
                ApiKey::Variable(variable) => format!("export {variable}=…"),
                ApiKey::Command(words) => words.join(" "),
                ApiKey::None => again(&format!("providers.{name}.api_key_env=NAME")),
            },
            ProbeOutcome::Failed(ModelError::Unreachable(_) | ModelError::NoConnection(_))
            | ProbeOutcome::Silent => {
                format!("curl -v {}", self.provider.base_url())
            }
            // The provider is there, and knows no model of this name.
            ProbeOutcome::Failed(ModelError::Rejected {
                status: Some(404),
                message,
            }) if message.to_lowercase().contains("model") => {
                format!("forge doctor --model {name}:ANOTHER")
            }
            // Most local servers have the older wire alone.
            ProbeOutcome::Failed(ModelError::Rejected {
                status: Some(404), ..
            }) if self.provider.wire() == Wire::OpenAiResponses => {
                again(&format!("providers.{name}.wire=openai-chat"))
            }
            ProbeOutcome::Failed(_) => again(&format!("providers.{name}.base_url=URL")),
        })
    }

    fn exit(&self) -> ExitKind {
        let used = |probe: &&ModelProbe| probe.stream == self.provider.streams();
        let failed = self.probes.iter().filter(used).find(|probe| !probe.is_ok());
        match failed.map(|probe| &probe.outcome) {
            None => ExitKind::Done,
            Some(ProbeOutcome::Failed(ModelError::Credentials(_))) => ExitKind::Credentials,
            Some(
                ProbeOutcome::Failed(ModelError::Unreachable(_) | ModelError::NoConnection(_))
                | ProbeOutcome::Silent,
            ) => ExitKind::Unreachable,
            Some(_) => ExitKind::Negative,
        }
    }

    /// Returns the checks: a failure of the configured mode, a warning about the other one.
    fn checks(&self) -> Vec<DoctorCheck> {
        let check = |probe: &ModelProbe| DoctorCheck {
            what: probe.what().to_owned(),
            state: match (probe.is_ok(), probe.stream == self.provider.streams()) {
                (true, _) => CheckState::Ok,
                (false, true) => CheckState::Failed,
                (false, false) => CheckState::Warning,
            },
            detail: probe.detail(),
            hint: self.hint(probe),
        };
        self.probes.iter().map(check).collect()
    }

    fn facts(&self) -> Value {
        json!({"model": {
            "ok": self.works(),
            "name": self.named,
            "wire": self.provider.wire().to_string(),
            "base_url": self.provider.base_url(),
            "checks": report::facts(&self.checks(), "help"),
        }})
    }

    fn table(&self) -> String {
        format!(
            "{} at {}, {}\n{}",
            escape(self.named),
            escape(self.provider.base_url()),
            self.provider.wire(),
            report::table(&self.checks(), 13, "")
        )
    }
}
