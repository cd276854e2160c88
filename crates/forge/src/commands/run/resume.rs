//! `forge run --resume RUN`: goes on with a run that did not come to an answer, in its own
//! directory: its audit log goes on behind the line that says so, its transcript as well.
//!
//! First everything that can speak against it is looked at, and nothing is written; then the log is
//! taken, which one program at a time can do.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forge_runtime::RunReport;
use forge_runtime::transcript::{
    History, NotResumable, ResumeRecord, RunFingerprint, Transcript, TranscriptError,
    TranscriptProblem, read,
};
use forge_tools::audit::Integrity;
use forge_tools::{Redactor, escape_controls};
use sandbox_config::{Grant, WithoutDirectories};

use super::event_output::EventOutput;
use super::run_record::{self, RunRecord};
use super::{attach, exit_status};
use crate::cli::{Global, RunArgs};
use crate::commands::prelude::*;
use crate::run_view;
use crate::setup;
use crate::state::run_dir::{self, RunDir};
use crate::state::stored_runs::{StoredRun, StoredRuns};

/// The configuration of a resumed run.
pub(super) struct ResumeContext<'a> {
    pub(super) basis: RunFingerprint,
    pub(super) grant: &'a Grant,
    pub(super) answer_schema: Option<Value>,
}

/// The state of a run to resume.
pub(super) enum ResumeState {
    /// It can go on.
    Open(Box<PreviousRun>),
    /// It has its answer, which a program that was killed then may not have shown.
    Answered(AnsweredRun),
}

/// A run that ended with an answer.
pub(super) struct AnsweredRun {
    run: StoredRun,
    report: RunReport,
}

impl AnsweredRun {
    /// Shows the answer again. Nothing is done.
    pub(super) fn print_answer(
        self,
        args: &RunArgs,
        ambient: &Ambient,
        told: &mut EventOutput,
    ) -> Result<ExitKind, CliError> {
        if !ambient.global.quiet {
            stderr::print(format_args!(
                "{} ended with this answer before; nothing was done now",
                self.run.shown()
            ));
        }
        exit_status::print_result(args, ambient, &self.report, told, self.run.path())?;
        told.report = Some(self.report);
        Ok(ExitKind::Done)
    }
}

/// A run to resume, as it is stored.
pub(super) struct PreviousRun {
    run: StoredRun,
    transcript: Transcript,
}

impl PreviousRun {
    /// Finds the run and reads its files.
    pub(super) fn find(ambient: &Ambient, name: &str) -> Result<ResumeState, CliError> {
        let run = find(ambient, name)?;
        if run.is_locked() {
            return Err(held(&run));
        }
        let transcript = transcript(&run)?;
        if let Err(NotResumable::Answered) = History::of(&transcript, true) {
            let report = transcript.answered().ok_or_else(|| answered(&run))?;
            return Ok(ResumeState::Answered(AnsweredRun { run, report }));
        }
        Ok(ResumeState::Open(Box::new(PreviousRun { run, transcript })))
    }

    /// Returns the flags with the project and worker of the run. Flags that changed their rights
    /// have to be given again.
    pub(super) fn with_original_flags(
        &self,
        args: &RunArgs,
        ambient: &Ambient,
    ) -> (RunArgs, Ambient) {
        let (mut args, mut ambient) = (args.clone(), ambient.clone());
        let begin = &self.transcript.begin;
        let directory = &mut ambient.global.directory;
        directory.get_or_insert_with(|| PathBuf::from(&begin.project));
        args.worker = Some(begin.file.clone().unwrap_or_else(|| begin.worker.clone()));
        if run_record::model_flag(&args).is_none() {
            args.model = self.transcript.model_flag().map(str::to_owned);
        }
        (args, ambient)
    }

    /// Returns the directory of the run, with its own files.
    pub(super) fn dir(&self) -> RunDir {
        RunDir::at(self.run.path())
    }

    /// Returns `true` if the run works in copies, whose changes wait for a person.
    pub(super) fn is_reviewed(&self) -> bool {
        self.run.path().join(run_record::REVIEWED).exists()
    }

    /// Returns the schema of `--json-schema` when the run was begun or last resumed.
    pub(super) fn answer_schema(&self) -> Option<&Value> {
        self.transcript.answer_schema()
    }

    /// Takes the run, if it may go on upon that.
    pub(super) fn take(
        self,
        global: &Global,
        args: &RunArgs,
        upon: ResumeContext<'_>,
        redactor: Arc<Redactor>,
    ) -> Result<RunRecord, CliError> {
        let ResumeContext {
            basis,
            grant,
            answer_schema,
        } = upon;
        let before = self.transcript.basis();
        let changes = basis.since(before);
        let accepted: Vec<String> = changes.iter().map(ToString::to_string).collect();
        if !changes.is_empty() && !args.accept_changes {
            return Err(changed(&self.run, &accepted));
        }
        let same_model = basis.model == before.model;
        let past = History::of(&self.transcript, same_model).map_err(|_| answered(&self.run))?;
        self.audit_fits()?;
        let dir = self.dir();
        let attached = dir.read_attachments(&self.transcript.begin.attached)?;
        let conversation = past.conversation().reattach(grant, &attached);
        let conversation = conversation.map_err(attach::refused)?;
        dir.move_result_aside()?;
        let audit =
            dir.audit(grant.is_durable())
                .map_err(|failure| match self.run.is_locked() {
                    true => held(&self.run),
                    false => failure,
                })?;
        // Now no other program can write there.
        let keeper = dir.resume_transcript(&self.transcript, redactor)?;
        let interrupted = past.interrupted().iter().map(ToString::to_string);
        let gone_on = ResumeRecord {
            forge: env!("CARGO_PKG_VERSION").to_owned(),
            model_flag: run_record::model_flag(args),
            basis,
            answer_schema: answer_schema.clone(),
            accepted,
            interrupted: interrupted.collect(),
        };
        keeper
            .resumed(gone_on)
            .and_then(|()| past.keep(&keeper))
            .map_err(|error| run_dir::not_kept(dir.path(), &error))?;
        if !global.quiet {
            print_progress(&self.run, &past);
        }
        Ok(RunRecord {
            review: None,
            dir,
            audit: Arc::new(audit),
            keeper: Some(Arc::new(keeper)),
            input: self.transcript.begin.input,
            conversation,
            answer_schema,
        })
    }

    /// Checks that the audit log is intact, and that the transcript has all of its calls.
    fn audit_fits(&self) -> Result<(), CliError> {
        let unreadable = |error: &std::io::Error| {
            CliError::negative(
                "log.unreadable",
                format!("cannot read the log of {}: {error}", self.run.shown()),
            )
        };
        let verified = self.run.verified().map_err(|error| unreadable(&error))?;
        let noted = self.run.noted_head();
        let wrong = match (&verified.integrity, noted) {
            (Integrity::Broken(found), _) => Some(found.to_string()),
            (Integrity::Whole, Some(noted)) if noted != verified.head => {
                Some("it is whole, but not the log that run.json was written after".to_owned())
            }
            (Integrity::Unsealed | Integrity::Torn { .. }, Some(_)) => {
                Some("its end was cut off: the run had sealed it".to_owned())
            }
            (Integrity::Whole | Integrity::Unsealed | Integrity::Torn { .. }, _) => None,
        };
        if let Some(wrong) = wrong {
            return Err(CliError::negative(
                "log.unreadable",
                format!(
                    "the audit log of {} does not hold: {wrong}",
                    self.run.shown()
                ),
            )
            .hint("`forge log verify` says more; begin a new run"));
        }
        let decided = self.run.decisions().map_err(|error| unreadable(&error))?;
        let known = self.transcript.runs.values().map(|run| run.calls).sum();
        if decided > known {
            return Err(CliError::negative(
                "run.transcript",
                format!(
                    "the transcript of {} has lost its end: the audit log has {}, the transcript \
                     {known}",
                    self.run.shown(),
                    run_view::count(decided, "call")
                ),
            )
            .hint("going on would make calls twice; `forge log show` has them; begin a new run"));
        }
        Ok(())
    }
}

/// By name in the state directory or where the project here keeps its runs; or by its directory.
fn find(ambient: &Ambient, name: &str) -> Result<StoredRun, CliError> {
    if name.contains('/') {
        let dir = Path::new(name);
        return StoredRun::at(dir).ok_or_else(|| {
            CliError::misuse("log.run", format!("there is no run in {}", escape(name)))
        });
    }
    let dir = setup::project_dir(ambient)?;
    let project = setup::project_silently(ambient, WithoutDirectories::DefaultZones).ok();
    let own = project.as_ref().and_then(|project| project.runs_dir());
    let state = ambient.state.as_ref().map(|state| state.join("runs"));
    let mut runs = StoredRuns::default();
    for dir in own.into_iter().chain(state.as_deref()) {
        runs = runs.and(StoredRuns::in_dir(dir)?);
    }
    if name == "last" {
        let has_transcript = |run: &&StoredRun| matches!(run.file("transcript.jsonl"), Ok(Some(_)));
        if let Some(run) = runs.of_project(&dir).find(has_transcript) {
            return Ok(run.clone());
        }
    }
    runs.find(name, &dir).cloned()
}

/// Reads the transcript.
fn transcript(run: &StoredRun) -> Result<Transcript, CliError> {
    let opened = run.file("transcript.jsonl").map_err(|error| {
        CliError::negative(
            "run.transcript",
            format!("cannot read the transcript of {}: {error}", run.shown()),
        )
    })?;
    let file =
        opened.ok_or_else(|| {
            CliError::misuse("run.transcript",
            format!("{} has no transcript, so nothing can go on from it", run.shown()),
        )
        .hint(
            "runs of `forge run` have one, unless it was --ephemeral or `log.transcripts` is false",
        )
        })?;
    read_from(&file).map_err(|damage| damaged(run, &damage))
}

fn read_from(file: &File) -> Result<Transcript, TranscriptError> {
    read(std::io::BufReader::new(file))
}

fn damaged(run: &StoredRun, damage: &TranscriptError) -> CliError {
    let line = usize::try_from(damage.line).unwrap_or(usize::MAX);
    let failure = CliError::negative(
        "run.transcript",
        format!(
            "the transcript of {} cannot be gone on from: {}",
            run.shown(),
            escape_controls(&damage.to_string())
        ),
    )
    .at(&run.path().join("transcript.jsonl"), line, 1);
    match damage.problem {
        TranscriptProblem::Empty => failure.hint("it was stopped before it began; begin a new run"),
        TranscriptProblem::Version { .. } => failure.hint("use the forge that wrote it"),
        TranscriptProblem::NotTheFirst
        | TranscriptProblem::TooLong
        | TranscriptProblem::TooMany
        | TranscriptProblem::NotALine(_)
        | TranscriptProblem::OutOfPlace(_)
        | TranscriptProblem::Unreadable(_) => failure.hint("begin a new run"),
    }
}

fn answered(run: &StoredRun) -> CliError {
    CliError::misuse(
        "run.answered",
        format!(
            "{} ended with an answer: there is nothing to go on with",
            run.shown()
        ),
    )
    .hint(format!(
        "it stands at the end of {}",
        escape_path(&run.path().join("transcript.jsonl"))
    ))
}

fn held(run: &StoredRun) -> CliError {
    CliError::misuse(
        "run.held",
        format!("another program still works on {}", run.shown()),
    )
    .hint("wait for it, or stop it first")
}

fn changed(run: &StoredRun, changes: &[String]) -> CliError {
    let list: Vec<String> = changes
        .iter()
        .map(|change| format!("\n  {change}"))
        .collect();
    CliError::misuse("run.changed",
        format!(
            "{} cannot be resumed as it was, because its configuration has changed since it started:{}",
            run.shown(),
            list.concat()
        ),
    )
    .hint("pass the flags that the run was started with, or pass --accept-changes to resume anyway")
}

fn print_progress(run: &StoredRun, past: &History) {
    let used = past.used();
    stderr::print(format_args!(
        "going on with {}: {} and {} so far",
        run.shown(),
        run_view::count(used.turns, "turn"),
        run_view::count(used.calls, "call")
    ));
    for call in past.interrupted() {
        stderr::print(format_args!("interrupted: {}", escape(&call.to_string())));
    }
}
