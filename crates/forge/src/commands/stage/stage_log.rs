//! The log of a push or a discard: a run of its own, with the question before it is done, and the
//! result.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use forge_git::PushReport;
use forge_tools::audit::{AuditLog, EventKind, PolicyEvent};
use forge_tools::{CallRecord, DecisionRecord, Recorder as _, Verdict, VerdictReason};
use sandbox_names::hex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::StagedSelection;
use crate::ambient::Ambient;
use crate::exit::{CliError, ExitKind};
use crate::state::run_dir::{self, RunDir};

/// The name of such a run, beside those of workers.
const RUN: &str = "stage";

/// The log of one push or one discard.
pub(super) struct StageLog {
    dir: RunDir,
    audit: AuditLog,
    record: CallRecord,
    started: Instant,
}

impl StageLog {
    /// Opens the log. An action that cannot be recorded is not done.
    pub(super) fn open(
        what: &str,
        commits: &[StagedSelection<'_>],
        ambient: &Ambient,
        redacted: &[String],
    ) -> Result<Self, CliError> {
        let state = ambient
            .state
            .as_deref()
            .ok_or_else(|| CliError::new(ExitKind::Negative, "state", "missing home directory"))?;
        // Not in the project's directory of runs: a project has no say in the records of a person.
        let dir = RunDir::under(&state.join("runs"), RUN)?;
        let audit = dir.audit(true)?;
        let redactor = ambient.redactor(redacted);
        let facts = commits.iter().map(facts).collect::<Vec<Value>>();
        let mut arguments = json!({ "commits": facts });
        redactor.redact_json(&mut arguments);
        let intent = |commit: &StagedSelection<'_>| format!("{what} {}", commit.id());
        Ok(StageLog {
            dir,
            audit,
            started: Instant::now(),
            record: CallRecord {
                call: None,
                at_ms: SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .map_or(0, |since| {
                        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
                    }),
                workers: Vec::new(),
                tool: what.to_owned(),
                arguments,
                intents: commits.iter().map(intent).collect(),
                decision: DecisionRecord::not_reached("nothing was decided"),
                runner: "local",
                ok: false,
                code: None,
                content_bytes: 0,
                content_sha256: hex(Sha256::digest([])),
                duration_us: 0,
                enforcement: None,
                artifacts: Vec::new(),
                events: Vec::new(),
            },
        })
    }

    /// Records the person's answer, or the reason why no person was asked.
    pub(super) fn answered(&mut self, answer: &'static str, by: &str) -> Result<(), CliError> {
        if answer == "denied" {
            let event = PolicyEvent::new(EventKind::Denied, by);
            self.record.events.push(event);
        }
        self.decided(DecisionRecord {
            verdict: Some(Verdict::Ask),
            reasons: vec![VerdictReason::new("a push is always asked")],
            runner: None,
            answer: Some(answer),
            by: Some(by.to_owned()),
        })
    }

    /// Records an impossible action, about which no person was asked.
    pub(super) fn not_asked(mut self, why: &CliError) -> Result<(), CliError> {
        self.decided(DecisionRecord::not_reached(why.message()))?;
        self.close(why.code(), Some(why.code()))
    }

    /// A person typed it, and that is all it needs.
    pub(super) fn typed(&mut self) -> Result<(), CliError> {
        self.decided(DecisionRecord {
            verdict: Some(Verdict::Allow),
            reasons: vec![VerdictReason::new("a person typed it")],
            runner: None,
            answer: None,
            by: None,
        })
    }

    /// It is there.
    pub(super) fn pushed(self, pushed: &PushReport) -> Result<(), CliError> {
        let facts = json!({ "commitSha": pushed.commit.as_str(), "url": pushed.url });
        let outcome = match pushed.already_there {
            true => format!("{} was there already", pushed.commit),
            false => format!("pushed {}", pushed.commit),
        };
        self.end(&outcome, None, facts)
    }

    /// It came to something else.
    pub(super) fn close(self, outcome: &str, code: Option<&str>) -> Result<(), CliError> {
        self.end(outcome, code, Value::Null)
    }

    fn decided(&mut self, decision: DecisionRecord) -> Result<(), CliError> {
        self.record.decision = decision;
        let asked = self.record.asked();
        self.record.call = self.audit.decided(&asked).map_err(not_recorded)?;
        Ok(())
    }

    fn end(mut self, outcome: &str, code: Option<&str>, facts: Value) -> Result<(), CliError> {
        self.record.ok = code.is_none();
        self.record.code = code.map(str::to_owned);
        let took = self.started.elapsed();
        self.record.duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.audit.record(&self.record).map_err(not_recorded)?;
        let sealed = run_dir::seal(&self.audit, outcome)?;
        self.dir.finish(&json!({
            "outcome": outcome,
            "pushed": facts,
            "audit": sealed,
        }))
    }
}

/// Returns the facts that identify a commit later on.
fn facts(commit: &StagedSelection<'_>) -> Value {
    match commit {
        StagedSelection::Whole(commit) => json!({
            "commitId": commit.id().as_str(),
            "repo": commit.repo().to_string(),
            "branch": commit.branch().as_str(),
            "message": commit.message(),
            "files": commit.files().len(),
            "digest": hex(commit.digest()),
        }),
        StagedSelection::Damaged(damaged) => json!({
            "commitId": damaged.id.as_str(),
            "damaged": damaged.why.message(),
        }),
    }
}

fn not_recorded(error: std::io::Error) -> CliError {
    CliError::new(
        ExitKind::Negative,
        "state",
        format!("it cannot be recorded: {error}"),
    )
}
