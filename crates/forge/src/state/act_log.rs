//! The log of an act of a person outside of a run, such as a push: a run of its own, with the
//! question or the command before it is done, and the result.

use std::path::Path;
use std::time::Instant;

use forge_tools::audit::{AuditLog, EventKind, PolicyEvent};
use forge_tools::{CallRecord, DecisionRecord, Recorder as _, Verdict, VerdictReason};
use serde_json::{Value, json};

use crate::ambient::Ambient;
use crate::exit::CliError;
use crate::state::run_dir::{self, RunDescription, RunDir};

/// An act, as it is logged before it is done.
pub(crate) struct PersonAct<'a> {
    /// The directory of its project.
    pub(crate) project: &'a Path,
    /// The first part of the run's name, beside those of workers.
    pub(crate) run: &'a str,
    /// The act, in the place of a tool.
    pub(crate) name: &'a str,
    /// The facts that identify its objects later on.
    pub(crate) arguments: Value,
    /// The act on each object, in words.
    pub(crate) intents: Vec<String>,
}

/// The log of one act.
pub(crate) struct ActLog {
    dir: RunDir,
    audit: AuditLog,
    record: CallRecord,
    started: Instant,
}

impl ActLog {
    /// Opens the log. An action that cannot be recorded is not done.
    pub(crate) fn open(
        act: PersonAct<'_>,
        ambient: &Ambient,
        redacted: &[String],
    ) -> Result<Self, CliError> {
        let state = ambient.state_dir()?;
        // Not in the project's directory of runs: a project has no say in the records of a person.
        let redactor = ambient.redactor(redacted);
        let about = RunDescription {
            project: act.project.to_path_buf(),
            command: Some(redactor.redact(&act.intents.join(", ")).into_owned()),
            is_act: true,
        };
        let dir = RunDir::described(&state.join("runs"), act.run, about)?;
        let audit = dir.audit(true)?;
        let mut arguments = act.arguments;
        redactor.redact_json(&mut arguments);
        let nothing = DecisionRecord::not_reached("nothing was decided");
        Ok(ActLog {
            dir,
            audit,
            started: Instant::now(),
            record: CallRecord {
                runner: "local",
                ok: false,
                ..CallRecord::of_act(act.name, arguments, act.intents, nothing)
            },
        })
    }

    /// Records the person's answer, or the reason why no person was asked.
    pub(crate) fn answered(&mut self, answer: &'static str, by: &str) -> Result<(), CliError> {
        if answer == "denied" {
            let event = PolicyEvent::new(EventKind::Denied, by);
            self.record.events.push(event);
        }
        let reason = VerdictReason::new("a push is always asked");
        self.decided(DecisionRecord {
            answer: Some(answer),
            by: Some(by.to_owned()),
            ..DecisionRecord::new(Some(Verdict::Ask), vec![reason])
        })
    }

    /// Records an impossible action, about which no person was asked.
    pub(crate) fn not_asked(mut self, why: &CliError) -> Result<(), CliError> {
        self.decided(DecisionRecord::not_reached(why.message()))?;
        self.close(why.code(), Some(why.code()))
    }

    /// A person typed it, and that is all it needs.
    pub(crate) fn typed(&mut self) -> Result<(), CliError> {
        let reason = VerdictReason::new("a person typed it");
        self.decided(DecisionRecord::new(Some(Verdict::Allow), vec![reason]))
    }

    /// Adds a file that the act changed.
    #[cfg(target_os = "linux")]
    pub(crate) fn changed(&mut self, artifact: forge_tools::Artifact) {
        self.record.artifacts.push(artifact);
    }

    /// It came to something else.
    pub(crate) fn close(self, outcome: &str, code: Option<&str>) -> Result<(), CliError> {
        self.end(outcome, code, json!({}))
    }

    fn decided(&mut self, decision: DecisionRecord) -> Result<(), CliError> {
        self.record.decision = decision;
        let asked = self.record.asked();
        self.record.call = self.audit.decided(&asked).map_err(not_recorded)?;
        Ok(())
    }

    /// Records the result, with an object of facts about it for the run's own file.
    pub(crate) fn end(
        mut self,
        outcome: &str,
        code: Option<&str>,
        mut facts: Value,
    ) -> Result<(), CliError> {
        self.record.ok = code.is_none();
        self.record.code = code.map(str::to_owned);
        let took = self.started.elapsed();
        self.record.duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.audit.record(&self.record).map_err(not_recorded)?;
        let sealed = run_dir::seal(&self.audit, outcome)?;
        facts["outcome"] = json!(outcome);
        facts["audit"] = json!(sealed);
        self.dir.finish(&facts)
    }
}

fn not_recorded(error: std::io::Error) -> CliError {
    CliError::state(format!("it cannot be recorded: {error}"))
}
