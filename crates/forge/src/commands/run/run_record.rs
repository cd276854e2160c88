//! The records of a running run: its directory, its audit log, its transcript.

use std::sync::Arc;

use forge_runtime::transcript::{
    AttachedFile, FORMAT, RunFingerprint, TranscriptHeader, TranscriptRecorder,
};
use forge_runtime::{
    Attachment, Conversation, Message, Observer, RunEvent, RunOutcome, RunReport, SessionBuilder,
};
use forge_tools::audit::AuditLog;
use forge_tools::{Recorder, Redactor};
use sandbox_config::Worker;

use super::{attach, resume_hint};

use crate::cli::RunArgs;
use crate::commands::prelude::*;
use crate::commands::review_subject::ReviewSubject;
use crate::commands::reviewed::{self, ReviewedRun};
use crate::setup::target::RunTarget;
use crate::state::run_dir::{self, RunDir, TranscriptFileWriter};

/// The file in the directory of a run that works in copies.
pub(super) const REVIEWED: &str = "under-review";

/// The input of a new run.
pub(super) struct RunInput {
    /// The task of the entry worker.
    pub(super) input: String,
    /// Copies of files for it.
    pub(super) attached: Vec<Attachment>,
    /// The schema of its answer, which overrides the worker's own.
    pub(super) answer_schema: Option<Value>,
}

/// A run that no other program can write to.
pub(super) struct RunRecord {
    pub(super) dir: RunDir,
    pub(super) audit: Arc<AuditLog>,
    /// `None` if the run keeps no transcript.
    pub(super) keeper: Option<Arc<TranscriptFileWriter>>,
    /// The task of the entry worker.
    pub(super) input: String,
    /// The schema of the answer of this run.
    pub(super) answer_schema: Option<Value>,
    /// The conversation at the start, or at the point of resumption.
    pub(super) conversation: Conversation,
    /// The copies in which it works; `None`: it changes directories at once.
    pub(super) review: Option<ReviewedRun>,
}

impl RunRecord {
    /// A new run.
    pub(super) fn begin(
        args: &RunArgs,
        ambient: &Ambient,
        chosen: &mut RunTarget,
        asked: RunInput,
        model: &str,
        redactor: &Arc<Redactor>,
    ) -> Result<Self, CliError> {
        let RunInput {
            input,
            attached,
            answer_schema,
        } = asked;
        // A rejected attachment leaves no run behind.
        let conversation = attach::conversation(chosen, &input, &attached, redactor)?;
        // Includes the list of the files.
        let input = match conversation.messages() {
            [Message::Input { text }] => text.clone(),
            _ => input,
        };
        let shown = redactor.redact(input.trim_start().lines().next().unwrap_or_default());
        let shown = Some(&*shown).filter(|_| !args.ephemeral);
        let dir = RunDir::create(&chosen.project, ambient, chosen.worker.name(), shown)?;
        let review = Self::place(&dir, args, chosen, shown, ambient)?;
        let (project, worker) = (&chosen.project, &chosen.worker);
        let audit = Arc::new(dir.audit(project.ceiling().is_durable())?);
        let keeper = if project.keeps_transcripts() && !args.ephemeral {
            let keeper = dir.transcript(Arc::clone(redactor))?;
            let attached = dir.store_attachments(&attached, redactor)?;
            let file = chosen.alone.as_ref();
            let file = file.map(|file| file.canonicalize().unwrap_or_else(|_| file.clone()));
            let begun = keeper.begin(TranscriptHeader {
                format: FORMAT,
                forge: env!("CARGO_PKG_VERSION").to_owned(),
                name: dir.name(),
                project: project.dir().to_string_lossy().into_owned(),
                worker: worker.name().to_owned(),
                file: file.map(|file| file.to_string_lossy().into_owned()),
                model_flag: model_flag(args),
                input: input.clone(),
                attached: attached.iter().map(AttachedFile::of).collect(),
                answer_schema: answer_schema.clone(),
                basis: basis(chosen, model, answer_schema.as_ref(), redactor),
            });
            begun.map_err(|error| run_dir::not_kept(dir.path(), &error))?;
            Some(Arc::new(keeper))
        } else {
            None
        };
        Ok(RunRecord {
            dir,
            audit,
            keeper,
            conversation,
            input,
            answer_schema,
            review,
        })
    }

    /// Gives a run its own directory, and copies of the others if its changes wait for a person.
    fn place(
        dir: &RunDir,
        args: &RunArgs,
        chosen: &mut RunTarget,
        input: Option<&str>,
        ambient: &Ambient,
    ) -> Result<Option<ReviewedRun>, CliError> {
        chosen.grant = dir.mount_in_run(chosen.grant.clone())?;
        let all = args.review || chosen.grant.confinement().reviews_changes();
        let words = ["forge", "run", chosen.worker.name()].into_iter();
        let subject = ReviewSubject {
            run: dir.name(),
            project: &chosen.project,
            command: words.chain(input).map(str::to_owned).collect(),
            limits: *chosen.grant.limits(),
        };
        let (grant, review) =
            reviewed::prepare_worker(chosen.grant.clone(), all, subject, ambient)?;
        chosen.grant = grant;
        if review.is_some() {
            dir.keep(REVIEWED, "")?;
        }
        Ok(review)
    }

    /// Sets the schema of this run's answer.
    pub(super) fn with_answer_schema(&self, session: SessionBuilder) -> SessionBuilder {
        match &self.answer_schema {
            Some(schema) => session.output_schema(schema.clone()),
            None => session,
        }
    }

    /// Returns the recorder: an action that the transcript does not record is not done.
    pub(super) fn recorder(&self) -> Arc<dyn Recorder> {
        let audit = Arc::clone(&self.audit) as Arc<dyn Recorder>;
        match &self.keeper {
            Some(keeper) => Arc::new(TranscriptRecorder::new(audit, Arc::clone(keeper))),
            None => audit,
        }
    }

    /// Returns the observer: the transcript first, then `shown`.
    pub(super) fn observer(&self, shown: Arc<dyn Observer>) -> Arc<dyn Observer> {
        match &self.keeper {
            Some(keeper) => Arc::new(ObserverPair(Arc::clone(keeper), shown)),
            None => shown,
        }
    }

    /// Returns `true` if the run can be resumed: it keeps a transcript, and has no answer.
    pub(super) fn can_go_on(&self, report: Option<&RunReport>) -> bool {
        self.keeper.is_some() && !report.is_some_and(|report| report.end.is_answer())
    }

    /// Prints the command that resumes a run without an answer, or the reason why it cannot be
    /// resumed.
    pub(super) fn print_resume_hint(
        &self,
        args: &RunArgs,
        ambient: &Ambient,
        report: Option<&RunReport>,
    ) {
        let answered = report.is_some_and(|report| report.end.is_answer());
        // Without a turn there is nothing to resume.
        let is_unstarted = report.is_some_and(|report| {
            report.turns == 0 && matches!(report.end, RunOutcome::SetupFailed { .. })
        });
        let Some(keeper) = self.keeper.as_ref().filter(|_| !ambient.global.quiet) else {
            return;
        };
        if let Some(failure) = keeper.failure() {
            stderr::print(format_args!(
                "warning: the transcript is not whole: {}",
                escape(&failure.to_string())
            ));
        } else if !(answered || is_unstarted) {
            let end = report.map(|report| &report.end);
            let line = resume_hint::describe(&self.dir.name(), args, ambient, end);
            stderr::print(escape(&line));
        }
    }
}

struct ObserverPair(Arc<TranscriptFileWriter>, Arc<dyn Observer>);

impl Observer for ObserverPair {
    fn observe(&self, event: RunEvent<'_>) {
        self.0.observe(event);
        self.1.observe(event);
    }
}

/// Returns the fingerprint of a run of `chosen`.
pub(super) fn basis(
    chosen: &RunTarget,
    model: &str,
    answer_schema: Option<&Value>,
    redactor: &Redactor,
) -> RunFingerprint {
    let RunTarget {
        worker,
        grant,
        workers,
        ..
    } = chosen;
    let basis = RunFingerprint::of(model, worker, grant, workers, redactor);
    // Of the playbook's or the run's model, and of those that workers name.
    let models = workers.iter().filter_map(Worker::model).chain([model]);
    let basis = models.fold(basis, |basis, model| {
        match chosen.project.provider_of(model) {
            Ok((provider, _)) => {
                let address = format!("{} at {}", provider.wire(), provider.base_url());
                basis.reaching(provider.name(), &address)
            }
            Err(_) => basis,
        }
    });
    match answer_schema {
        None => basis,
        Some(schema) => basis.answering(schema),
    }
}

/// The model, if the command line names one.
pub(super) fn model_flag(args: &RunArgs) -> Option<String> {
    let replayed = args.replay.as_ref();
    let replayed = replayed.map(|file| format!("scripted:{file}"));
    args.model.clone().or(replayed)
}
