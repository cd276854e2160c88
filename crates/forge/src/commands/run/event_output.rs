//! The output of `--output stream-json`: in every case the last line is the result.

use std::path::PathBuf;
use std::sync::Arc;

use forge_runtime::{AttackAttempts, RunReport};
use forge_tools::Redactor;

use crate::commands::prelude::*;
use crate::run_view::{EventStream, RunResult, RunStart};

/// The known results of a run so far.
#[derive(Default)]
pub(super) struct EventOutput {
    stream: Option<Arc<EventStream>>,
    kept: Option<PathBuf>,
    pub(super) report: Option<RunReport>,
    pub(super) attempts: AttackAttempts,
    pub(super) review: Option<Value>,
}

impl EventOutput {
    /// The run begins.
    pub(super) fn begin(&mut self, start: &RunStart<'_>, redactor: &Arc<Redactor>) {
        self.kept = Some(start.run.to_owned());
        if let Some(stream) = &self.stream {
            stream.redact(Arc::clone(redactor));
            stream.begin(start);
        }
    }

    /// Returns the stream of events.
    pub(super) fn stream(&self) -> Option<Arc<EventStream>> {
        self.stream.clone()
    }
}

/// Does `work`, and tells how it ended, however it did.
pub(super) fn with_event_output(
    global: &Global,
    work: impl FnOnce(&mut EventOutput) -> Result<ExitKind, CliError>,
) -> Result<ExitKind, CliError> {
    let mut told = EventOutput::default();
    if !global.streams() {
        return work(&mut told);
    }
    let stream =
        EventStream::start().map_err(|error| CliError::negative("runtime", error.to_string()))?;
    told.stream = Some(Arc::clone(&stream));
    let outcome = work(&mut told);
    let (exit, error) = match &outcome {
        Ok(exit) => (*exit, None),
        Err(failure) => (failure.exit(), Some(failure)),
    };
    let written = stream.end(&RunResult {
        exit_code: exit.code(),
        report: told.report.as_ref(),
        attempts: &told.attempts.list(),
        review: told.review.as_ref(),
        run: told.kept.as_deref(),
        error,
    });
    match written {
        // A failed run reports its own error, even if the stream fails too.
        Err(error) if outcome.is_ok() => Err(CliError::stdout(error)),
        Ok(()) | Err(_) => outcome,
    }
}
