//! The usage of the models of a run, the ends of its workers, and whether it can be resumed: from
//! its transcript, or from the notes of its programs at their ends if the transcript is missing or
//! damaged.

use forge_runtime::transcript::{History, Transcript, WorkerRun};
use forge_runtime::{Dollars, Usage};
use serde_json::{Value, json};

use crate::output::escape::{escape, shortened};
use crate::run_view;
use crate::state::stored_runs::{StoredRun, StoredTranscript};

/// Longest text about the end of a worker or the damage of a transcript, in characters; `--json`
/// has the whole.
const MAX_END_CHARS: usize = 200;

/// Usage and transcript of a run.
pub(super) struct RunUsage {
    /// `None` if unknown, or if no model was asked.
    used: Option<ModelUsage>,
    state: TranscriptState,
    /// `true` if it has no answer, its transcript exists, and no program works on it.
    resumable: bool,
}

/// The state of the transcript.
enum TranscriptState {
    Kept,
    Damaged(String),
    Nothing,
}

/// The usage of all workers, in all programs that worked on the run.
struct ModelUsage {
    turns: u64,
    tokens: u64,
    cost_nano_usd: u64,
}

impl ModelUsage {
    fn reported(report: &Value) -> Self {
        let count = |name: &str| report[name].as_u64().unwrap_or_default();
        ModelUsage {
            turns: count("turns"),
            tokens: count("tokens"),
            cost_nano_usd: count("cost_nano_usd"),
        }
    }

    fn kept(transcript: &Transcript) -> Self {
        let runs = || transcript.runs.values();
        let usage = runs().fold(Usage::default(), |sum, run| sum.saturating_add(run.usage));
        let sum = |each: fn(&WorkerRun) -> u64| runs().map(each).fold(0, u64::saturating_add);
        ModelUsage {
            turns: sum(|run| run.turns),
            tokens: usage.total(),
            cost_nano_usd: sum(|run| run.cost_nano_usd.unwrap_or(0)),
        }
    }

    fn shown(&self) -> String {
        let mut parts = vec![run_view::count(self.turns, "turn")];
        parts.extend((self.tokens > 0).then(|| run_view::tokens(self.tokens)));
        let cost = Dollars(self.cost_nano_usd);
        parts.extend((self.cost_nano_usd > 0).then(|| cost.to_string()));
        parts.join(", ")
    }
}

impl RunUsage {
    /// Reads it for a list. A run with an answer noted its usage, so its transcript is not read.
    pub(super) fn briefly(run: &StoredRun) -> Self {
        match run.report().filter(|report| report["end"] == "answered") {
            Some(report) => RunUsage {
                used: Some(ModelUsage::reported(&report)),
                state: match run.file("transcript.jsonl") {
                    Ok(Some(_)) => TranscriptState::Kept,
                    Ok(None) => TranscriptState::Nothing,
                    Err(error) => TranscriptState::Damaged(error.to_string()),
                },
                resumable: false,
            },
            // Asked first: a run that ends meanwhile is not taken for one that was stopped.
            None => RunUsage::of(run, run.is_locked(), &run.read_transcript()),
        }
    }

    /// Reads it for a run with or without a program at work.
    pub(super) fn of(run: &StoredRun, at_work: bool, told: &StoredTranscript) -> Self {
        let reported = || {
            run.newest_report()
                .map(|report| ModelUsage::reported(&report))
        };
        match told {
            StoredTranscript::Kept(transcript) => RunUsage {
                used: Some(ModelUsage::kept(transcript)),
                state: TranscriptState::Kept,
                resumable: !at_work && History::of(transcript, true).is_ok(),
            },
            StoredTranscript::Damaged(why) => RunUsage {
                used: reported(),
                state: TranscriptState::Damaged(why.clone()),
                resumable: false,
            },
            StoredTranscript::Nothing => RunUsage {
                used: reported(),
                state: TranscriptState::Nothing,
                resumable: false,
            },
        }
    }

    /// For a person, if there is anything to say: no model was asked in calls of a client.
    pub(super) fn shown(&self) -> Option<String> {
        let mut parts: Vec<String> = self.used.iter().map(ModelUsage::shown).collect();
        match &self.state {
            TranscriptState::Kept if self.resumable => parts.push("can be resumed".to_owned()),
            TranscriptState::Kept => {}
            TranscriptState::Damaged(why) => {
                parts.push(format!("damaged transcript: {}", short(why)))
            }
            TranscriptState::Nothing if self.used.is_some() => {
                parts.push("no transcript".to_owned())
            }
            TranscriptState::Nothing => {}
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// The fields for programs.
    pub(super) fn fields(&self) -> Vec<(&'static str, Value)> {
        let used = |each: fn(&ModelUsage) -> u64| Value::from(self.used.as_ref().map(each));
        let (state, damage) = match &self.state {
            TranscriptState::Kept => ("kept", None),
            TranscriptState::Damaged(why) => ("damaged", Some(why.as_str())),
            TranscriptState::Nothing => ("none", None),
        };
        vec![
            ("turns", used(|used| used.turns)),
            ("tokens", used(|used| used.tokens)),
            ("cost_nano_usd", used(|used| used.cost_nano_usd)),
            ("transcript", state.into()),
            ("damage", damage.into()),
            ("resumable", self.resumable.into()),
        ]
    }
}

/// The runs of workers in a transcript, those of `worker` if that is said.
pub(super) fn workers<'a>(
    told: &'a StoredTranscript,
    worker: Option<&'a str>,
) -> impl Iterator<Item = (u64, &'a WorkerRun)> {
    let runs = match told {
        StoredTranscript::Kept(transcript) => Some(&transcript.runs),
        StoredTranscript::Damaged(_) | StoredTranscript::Nothing => None,
    };
    let wanted = move |run: &WorkerRun| {
        worker.is_none_or(|worker| run.workers.last().is_some_and(|last| last == worker))
    };
    let runs = runs
        .into_iter()
        .flatten()
        .map(|(number, run)| (*number, run));
    runs.filter(move |(_, run)| wanted(run))
}

/// One run of a worker in a line.
pub(super) fn worker_shown(number: u64, run: &WorkerRun, at_work: bool) -> String {
    let mut used = vec![
        run_view::count(run.turns, "turn"),
        run_view::count(run.calls, "call"),
    ];
    used.extend((run.usage.total() > 0).then(|| run_view::tokens(run.usage.total())));
    let cost = run.cost_nano_usd.filter(|cost| *cost > 0);
    used.extend(cost.map(|cost| Dollars(cost).to_string()));
    let end = match &run.end {
        Some(end) => short(&end.to_string()),
        None if at_work => "at work".to_owned(),
        None => "did not end".to_owned(),
    };
    format!(
        "worker {number}  {}  {}  {}  {end}",
        escape(&run.workers.join(" > ")),
        escape(run.model.as_deref().unwrap_or("no model yet")),
        used.join(", "),
    )
}

/// The object of one run of a worker.
pub(super) fn worker_object(number: u64, run: &WorkerRun) -> Value {
    json!({
        "run": number,
        "above": run.above,
        "workers": run.workers,
        "model": run.model,
        "turns": run.turns,
        "calls": run.calls,
        "retries": run.retries.len(),
        "usage": run.usage,
        "tokens": run.usage.total(),
        "cost_nano_usd": run.cost_nano_usd,
        "end": run.end,
    })
}

/// Escapes and shortens a text of a model or of an edited file.
fn short(text: &str) -> String {
    shortened(escape(text), MAX_END_CHARS)
}
