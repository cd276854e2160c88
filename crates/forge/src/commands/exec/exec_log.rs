//! The log of a command that a person typed: the same two lines as of a call, the decision before
//! it starts and the result after.

use std::sync::Arc;
use std::time::Instant;

use forge_tools::Redactor;
use forge_tools::audit::{AuditLog, EventKind, PolicyEvent};
use forge_tools::{CallRecord, DecisionEntry, DecisionRecord, Recorder, Verdict, VerdictReason};
use os_sandbox::{Backend, Enforcement};
use sandbox_config::Project;

use super::missing::MissingProgram;
use crate::cli::ExecArgs;
use crate::commands::prelude::*;
use crate::setup::repositories;
use crate::state::run_dir::{self, RunDir};

/// The name of the tool in the log.
pub(super) const TOOL: &str = "exec";

/// The log of one command.
pub(super) struct ExecLog {
    dir: RunDir,
    audit: Arc<AuditLog>,
    record: CallRecord,
    redactor: Arc<Redactor>,
    started: Instant,
}

/// The result of a command.
pub(super) struct ExecOutcome<'a> {
    pub(super) exit: &'a os_sandbox::Exit,
    pub(super) exceeded: Option<String>,
    pub(super) enforcement: &'a Enforcement,
}

impl ExecLog {
    /// Opens the log. A command that cannot be recorded does not run.
    pub(super) fn open(
        project: &Project,
        args: &ExecArgs,
        ambient: &Ambient,
    ) -> Result<Self, CliError> {
        let words: Vec<String> = args
            .command
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let redactor = ambient.redactor(&repositories::secrets_of(project, ambient));
        let mut arguments = json!({ "command": words });
        redactor.redact_json(&mut arguments);
        let intent = redactor
            .redact(&format!("run {}", words.join(" ")))
            .into_owned();
        let dir = RunDir::create(project, ambient, TOOL, intent.strip_prefix("run "))?;
        let audit = Arc::new(dir.audit(project.ceiling().is_durable())?);
        let nothing = DecisionRecord::not_reached("nothing was decided");
        Ok(ExecLog {
            dir,
            audit,
            started: Instant::now(),
            redactor,
            record: CallRecord {
                workers: args.worker.iter().cloned().collect(),
                ok: false,
                ..CallRecord::of_act(TOOL, arguments, vec![intent], nothing)
            },
        })
    }

    sandbox_names::getters! {
        /// Returns the log, for the answers of a person while the command runs.
        pub(super) recorder: Arc<dyn Recorder> = audit.clone();
        /// Returns the directory of the log.
        pub(super) dir: &RunDir = &dir;
    }

    /// Returns the command, without secrets.
    pub(super) fn words(&self) -> Vec<String> {
        let words = self.record.arguments["command"].as_array();
        let words = words.into_iter().flatten();
        words
            .filter_map(|word| word.as_str().map(str::to_owned))
            .collect()
    }

    /// Records the approval: typing the command is the agreement.
    pub(super) fn allowed(
        &mut self,
        runner: String,
        unconfined: bool,
        described: impl Iterator<Item = String>,
    ) -> Result<(), CliError> {
        let typed = if unconfined {
            "a person typed it, with --no-os-sandbox"
        } else {
            "a person typed it"
        };
        let reasons = [typed.to_owned()].into_iter().chain(described);
        let reasons = reasons.map(VerdictReason::new).collect();
        self.decided(DecisionRecord {
            runner: Some(runner),
            ..DecisionRecord::new(Some(Verdict::Allow), reasons)
        })
    }

    /// Builds the tables of known keys, which the end of the command needs.
    pub(super) fn prepare_end(&self) {
        let _plain = self.redactor.redact("a text without secrets");
    }

    /// Records that the command does not run. Returns the error to exit with: this one, or that of
    /// the log.
    pub(super) fn refused(self, why: CliError) -> CliError {
        let recorded = self.record_refusal(&why);
        recorded.err().unwrap_or(why).exits(ExitKind::ExecRefused)
    }

    fn record_refusal(mut self, why: &CliError) -> Result<(), CliError> {
        let reasons = vec![VerdictReason::new(why.message())];
        self.decided(DecisionRecord::new(Some(Verdict::Block), reasons))?;
        self.close_refused(why)
    }

    fn close_refused(mut self, why: &CliError) -> Result<(), CliError> {
        let event = PolicyEvent::new(EventKind::Refused, why.message());
        self.record.events.push(event);
        self.close(why.code(), Some(why.code()))
    }

    /// It went ahead, and could not be started.
    pub(super) fn not_started(self, why: &CliError) -> Result<(), CliError> {
        self.close("not started", Some(why.code()))
    }

    /// Records that commands do not see the program: a command that did not start has no receipt.
    pub(super) fn not_shown(&mut self, missing: &MissingProgram) {
        let denial = missing.denial();
        self.record.enforcement = denial.map(|denial| json!({ "denials": [denial] }));
    }

    /// Records a run with an uncertain result.
    pub(super) fn failed(
        mut self,
        why: &CliError,
        enforcement: &Enforcement,
    ) -> Result<(), CliError> {
        self.enforced(enforcement);
        self.close_refused(why)
    }

    fn enforced(&mut self, enforcement: &Enforcement) {
        self.record.runner = match enforcement.backend {
            Backend::None => "local",
            Backend::Docker => "docker",
            _ => "os",
        };
        self.record.enforcement = serde_json::to_value(enforcement).ok();
        let found = enforcement.quarantined.iter();
        self.record.events.extend(
            found.map(|found| {
                PolicyEvent::new(EventKind::Quarantined, found.path.to_string_lossy())
            }),
        );
    }

    pub(super) fn ended(mut self, ended: &ExecOutcome<'_>) -> Result<(), CliError> {
        self.note(EventKind::Exceeded, &ended.exceeded);
        self.enforced(ended.enforcement);
        self.record.exit_code = Some(i64::from(ended.exit.code()));
        self.close_exit(ended.exit)
    }

    /// Records the end of a command in a container.
    pub(super) fn ended_there(mut self, ended: &forge_tools::ExitReport) -> Result<(), CliError> {
        self.record.runner = "docker";
        self.record.enforcement.clone_from(&ended.enforcement);
        self.note(EventKind::Exceeded, &ended.exceeded);
        self.note(EventKind::Quarantined, &ended.quarantined);
        self.close_exit(&ended.exit)
    }

    fn note<'d>(&mut self, kind: EventKind, details: impl IntoIterator<Item = &'d String>) {
        let events = details.into_iter();
        let events = events.map(|detail| PolicyEvent::new(kind, detail));
        self.record.events.extend(events);
    }

    fn close_exit(self, exit: &os_sandbox::Exit) -> Result<(), CliError> {
        let code = match exit {
            os_sandbox::Exit::TimedOut => Some("TIME_LIMIT"),
            os_sandbox::Exit::Code(_) | os_sandbox::Exit::Signal(_) => None,
        };
        self.close(&exit.to_string(), code)
    }

    fn decided(&mut self, decision: DecisionRecord) -> Result<(), CliError> {
        self.record.decision = decision;
        let asked: DecisionEntry<'_> = self.record.asked();
        self.record.call = self.audit.decided(&asked).map_err(not_recorded)?;
        Ok(())
    }

    fn close(mut self, outcome: &str, code: Option<&str>) -> Result<(), CliError> {
        // The receipt names files, and a command can give a file any name.
        if let Some(receipt) = &mut self.record.enforcement {
            self.redactor.redact_json(receipt);
        }
        for event in &mut self.record.events {
            event.detail = self.redactor.redact(&event.detail).into_owned();
        }
        self.record.ok = code.is_none();
        self.record.code = code.map(str::to_owned);
        let took = self.started.elapsed();
        self.record.duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.audit.record(&self.record).map_err(not_recorded)?;
        run_dir::seal(&self.audit, outcome).map(drop)
    }
}

fn not_recorded(error: std::io::Error) -> CliError {
    CliError::exec_refused("state", format!("the command cannot be recorded: {error}"))
}
