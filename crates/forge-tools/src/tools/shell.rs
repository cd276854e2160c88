//! `shell`: runs a command, confined.
//!
//! A plain command is executed as its words, without any shell in between; a line with operators
//! goes to `sh -c`. Rules decide on the words (see [`CommandLine`]), the kernel on their effects.

use std::sync::Arc;
use std::time::{Duration, Instant};

use os_sandbox::{Captured, Contact, Denial, DenialReason, Exit};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::audit::{EventKind, PolicyEvent};
use crate::call::ending::CallCommand;
use crate::call_result::{CallFailure, ExecutionInfo, FailureCode, Reply};
use crate::captured_stream::CapturedStream;
use crate::change::FileChange;
use crate::command_line::CommandLine;
use crate::command_result::CommandResult;
use crate::command_runner::{CommandSpec, CommandStdin, ExitReport, RunningCommand};
use crate::denials::{describe_denials, relevant_denials};
use crate::escape::escape_controls;
use crate::file_changes::FileChangeTracker;
use crate::gate::Intent;
use crate::hosts::describe_refused_hosts;
use crate::output::{Field, OutputSchema as Schema};
use crate::params::{Param, Params};
use crate::processes::{MAX_TIMEOUT, Processes};
use crate::question_clock::{CommandDeadline, MAX_ASKING};
use crate::redact::Redactor;
use crate::shell_session::{SCRIPT, is_gone, quoted};
use crate::spec::{Annotations, PreferredRunner, Risk, Spec};
use crate::tool::{Invocation, ReplyFuture, Tool, TypedTool, blocking};
use crate::tool_context::{ReadOnlyContext, ToolContext};

/// Ends a command.
type KillFn = Box<dyn FnOnce() + Send>;

/// The arguments of `shell`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shell {
    command: String,
    timeout_s: Option<u64>,
}

const DESCRIPTION: &str = "Run a command and return its output and exit code. One plain command \
                           runs as it is written, with quotes but without variables or globs; \
                           pipes and && work where every part is allowed. The working directory \
                           shows the same directories as list_files. Nothing keeps running after \
                           the call.";

/// The description for a worker that has a session.
const SESSION_DESCRIPTION: &str = "Run a command and return its output and exit code. It begins \
                                   where the one before it ended: in its directory, with its \
                                   variables. One plain command runs as it is written, with quotes \
                                   but without variables or globs; pipes and && work where every \
                                   part is allowed. The first begins in a directory that shows the \
                                   same directories as list_files. Nothing keeps running after the \
                                   call.";

/// The `shell` tool of a worker whose commands may take as long as any.
///
/// ```
/// assert_eq!(forge_tools::tools::shell().spec().risk, forge_tools::Risk::Exec);
/// ```
pub fn shell() -> Box<dyn Tool> {
    tool(MAX_TIMEOUT.as_secs(), false)
}

/// The `shell` tool, for calls of at most `max_seconds`.
pub(crate) fn tool(max_seconds: u64, in_session: bool) -> Box<dyn Tool> {
    let description = match in_session {
        true => SESSION_DESCRIPTION,
        false => DESCRIPTION,
    };
    let most = i64::try_from(max_seconds).unwrap_or(i64::MAX);
    TypedTool::<Shell>::boxed(Spec {
        name: "shell".to_owned(),
        aliases: &[],
        description: description.to_owned(),
        params: Params::new([
            Param::text("command", "The command line.").required(),
            Param::integer("timeout_s", "Seconds until it is ended.", 1, most).alias("timeout"),
        ]),
        output: Some(Schema::new([
            Field::integer("exit_code").optional(),
            Field::text("stdout"),
            Field::text("stderr"),
            Field::integer("stdout_bytes"),
            Field::integer("stderr_bytes"),
            Field::text("exceeded").optional(),
            Field::text("output_id").optional(),
            Field::text("session").optional(),
            Field::text_list("quarantined"),
            Field::flag("truncated"),
            Field::integer("duration_ms"),
        ])),
        risk: Risk::Exec,
        preferred_runner: PreferredRunner::Docker,
        needs_network: false,
        requires_permission: true,
        annotations: Annotations::RUN,
    })
}

impl Shell {
    fn line(&self) -> Result<CommandLine, CallFailure> {
        CommandLine::parse(&self.command).map_err(|error| {
            FailureCode::CommandSyntax.failure(format!("Cannot run the command: {error}."))
        })
    }
}

impl Invocation for Shell {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        view.commands()?;
        let line = view.begin(self.line()?)?;
        view.check_programs(&line)?;
        Ok(vec![Intent::Execute(line)])
    }

    /// The scripts that it names: an agreement covers their content.
    fn preview(&self, view: &ReadOnlyContext<'_>) -> Vec<FileChange> {
        match self.line().and_then(|line| view.begin(line)) {
            Ok(line) => view.scripts(&line),
            Err(_) => Vec::new(),
        }
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        Box::pin(async move {
            // Dropped with this future: then the command is ended, or never started.
            let (started, running) = oneshot::channel();
            let command = CallCommand::begin(context.call.clone());
            let work = blocking(move || {
                let outcome = match command.is_left() {
                    true => Err(CallFailure::cancelled()),
                    false => execute(&self, &context, started),
                };
                command.ended(&outcome);
                outcome
            });
            let mut guard = EndIfDropped(Some(running));
            let outcome = work.await;
            guard.0 = None;
            outcome
        })
    }
}

/// Ends a command whose caller is gone. If it has not been started yet, its starter finds the other
/// end of the channel closed.
struct EndIfDropped(Option<oneshot::Receiver<KillFn>>);

impl Drop for EndIfDropped {
    fn drop(&mut self) {
        if let Some(kill) = self.0.as_mut().and_then(|running| running.try_recv().ok()) {
            kill();
        }
    }
}

fn execute(
    call: &Shell,
    context: &ToolContext,
    started: oneshot::Sender<KillFn>,
) -> Result<Reply, CallFailure> {
    let processes = context.processes()?;
    // As it was judged: a concurrent call may have changed the session since.
    let line = match &context.session {
        Some(state) => call.line()?.in_session(Arc::clone(state)),
        None => call.line()?,
    };
    // Once more: files may have changed while a person was asked.
    processes.check_programs(&line)?;
    context.check_all_seen()?;
    let timeout = processes.timeout(call.timeout_s);
    let clock = Instant::now();
    let changes = FileChangeTracker::before(context.files.as_ref());
    let limits = processes.policy().limits();
    let limits = [limits.stdout_bytes, limits.stderr_bytes];
    let mut captured = limits.map(CapturedStream::capture);
    let report = run_to_end(processes, context, &line, timeout, started, &mut captured)?;
    let ([stdout, stderr], cut_by) = truncate(&captured, limits, context);
    let mut finished = CommandResult {
        exit: report.exit,
        exceeded: report.exceeded,
        stdout,
        stderr,
        cut_by,
        notes: Vec::new(),
        quarantined: report.quarantined,
        duration: clock.elapsed(),
        output_id: None,
        session: update_session(processes, &line, &report.said),
    };
    if !finished.exit.success() {
        finished.notes = notes_of_failure(
            processes,
            finished.stderr.whole(),
            report.enforcement.as_ref(),
            &context.redactor,
        );
    }
    if finished.has_more() && context.reads_outputs {
        finished.output_id = context.outputs.keep(&finished.whole(), Instant::now());
    }
    let (artifacts, untracked) = changes.after();
    let mut events = finished.events();
    events.extend(untracked);
    let ran = ExecutionInfo {
        runner: processes.place(),
        enforcement: report.enforcement,
        events,
        artifacts,
    };
    to_reply(&finished, ran, timeout, processes.longest_timeout())
}

/// Returns the reply of a command that ended by itself, or the failure of one that was ended.
fn to_reply(
    finished: &CommandResult,
    mut ran: ExecutionInfo,
    timeout: Duration,
    longest: Duration,
) -> Result<Reply, CallFailure> {
    if finished.exit == Exit::TimedOut {
        if finished.exceeded.is_none() {
            let limit = format!("its {} seconds", timeout.as_secs());
            ran.events
                .push(PolicyEvent::new(EventKind::Exceeded, limit));
        }
        return Err(timed_out(finished, timeout, longest).ran(ran));
    }
    Ok(Reply {
        text: finished.text(),
        structured: Some(finished.facts()),
        ran,
    })
}

/// Starts a command, collects its output and waits for its end.
fn run_to_end(
    processes: &Processes,
    context: &ToolContext,
    line: &CommandLine,
    timeout: Duration,
    started: oneshot::Sender<KillFn>,
    captured: &mut [Captured; 2],
) -> Result<ExitReport, CallFailure> {
    let (running, deadline) = start(processes, context, line, timeout)?;
    if let Err(kill) = started.send(running.killer()?) {
        kill();
    }
    let mut report = running.wait(&mut |stream, bytes| {
        if let Some(progress) = context.progress() {
            progress.add_bytes(bytes.len() as u64);
        }
        captured[stream as usize].push(bytes);
    })?;
    if deadline.is_some_and(CommandDeadline::end) {
        report.exit = Exit::TimedOut;
    }
    Ok(report)
}

/// Starts a command. One that may ask about hosts gets a time limit in which questions do not count.
fn start(
    processes: &Processes,
    context: &ToolContext,
    line: &CommandLine,
    timeout: Duration,
) -> Result<(Box<dyn RunningCommand>, Option<CommandDeadline>), CallFailure> {
    let Some(questions) = &context.host_questions else {
        let spec = command_spec(line, timeout);
        return Ok((processes.starter().start(spec)?, None));
    };
    let spec = command_spec(line, timeout.saturating_add(MAX_ASKING));
    let asker = Arc::clone(&questions.asker);
    let running = processes.starter().start_asking(spec, asker)?;
    let deadline = CommandDeadline::start(&questions.clock, timeout, running.killer()?);
    match deadline {
        Ok(deadline) => Ok((running, Some(deadline))),
        Err(_) => Err(FailureCode::Internal
            .failure("Cannot run the command: its time limit cannot be watched.")),
    }
}

/// Returns the notes for the model after a failed command: the documented ones, then what was refused.
fn notes_of_failure(
    processes: &Processes,
    stderr: &str,
    enforcement: Option<&Value>,
    redactor: &Redactor,
) -> Vec<String> {
    // The receipt of a node has that of the command inside.
    let inside = enforcement.and_then(|receipt| receipt.get("inside"));
    let receipt = inside.or(enforcement);
    let field = |name: &str| receipt.and_then(|receipt| receipt.get(name)).cloned();
    let mut notes = processes.notes_after(stderr, field("unreachable").is_some());
    // The broker connects the commands of a node too.
    let contacts = enforcement.and_then(|receipt| receipt.get("contacts"));
    let contacts: Option<Vec<Contact>> =
        contacts.and_then(|contacts| serde_json::from_value(contacts.clone()).ok());
    let mut refused = describe_refused_hosts(&contacts.unwrap_or_default());
    let denials: Option<Vec<Denial>> =
        field("denials").and_then(|denials| serde_json::from_value(denials).ok());
    let mut denials = denials.unwrap_or_default();
    // A model must not learn by a report that a path exists which no mount shows.
    denials.retain(|denial| denial.reason != DenialReason::NotShown);
    // A long name is cut, and a part of a secret is not known as such.
    for denial in &mut denials {
        redactor.redact_in_place(&mut denial.object);
    }
    refused.extend(describe_denials(
        &relevant_denials(&denials, Some(stderr)),
        processes.writable(),
        field("more_denials").is_some(),
    ));
    if !refused.is_empty() {
        // A node's words are not ours.
        let refused = refused.iter().map(|line| escape_controls(line));
        notes.push(refused.collect::<Vec<_>>().join("\n"));
    }
    notes
}

/// Describes the process of a command line: its words, a shell, or the script of a session.
fn command_spec(line: &CommandLine, timeout: Duration) -> CommandSpec {
    let shell = |text: &str| vec!["-c".to_owned(), text.to_owned()];
    let (program, rest) = match (line.session(), line.argv()) {
        (Some(state), argv) => {
            let mut arguments = shell(SCRIPT);
            arguments.push("sh".to_owned());
            arguments.extend(state.arguments());
            arguments.push(argv.map_or_else(|| line.as_str().to_owned(), quoted));
            ("sh", arguments)
        }
        (None, Some([program, rest @ ..])) => (program.as_str(), rest.to_vec()),
        (None, Some([]) | None) => ("sh", shell(line.as_str())),
    };
    let state = line.session().map(|state| state.arguments());
    CommandSpec {
        input: match state {
            Some(_) => CommandStdin::StatusSocket,
            None => CommandStdin::Nothing,
        },
        timeout: Some(timeout),
        line: Some((line.as_str().to_owned(), state.unwrap_or_default())),
        ..CommandSpec::new(program, rest)
    }
}

/// Fits both streams into one result; returns them with the settings that truncated them.
fn truncate(
    captured: &[Captured; 2],
    stated: [usize; 2],
    context: &ToolContext,
) -> ([CapturedStream; 2], Vec<&'static str>) {
    let printed = [0, 1].map(|n| usize::try_from(captured[n].total_bytes()).unwrap_or(usize::MAX));
    let limits = fitting(stated, printed, context.outputs.page());
    let streams = [0, 1].map(|n| CapturedStream::new(&captured[n], limits[n], &context.redactor));
    let keys = ["limits.max_stdout_kb", "limits.max_stderr_kb"];
    let cut_by = [0, 1]
        .into_iter()
        // The size of one result is not a setting.
        .filter(|&n| streams[n].truncated() && limits[n] == stated[n])
        .map(|n| keys[n])
        .collect();
    (streams, cut_by)
}

/// Stores the session state after a command; returns the reason why it is unknown, if it is.
fn update_session(processes: &Processes, line: &CommandLine, said: &[u8]) -> Option<&'static str> {
    let (session, state) = (processes.current_session()?, line.session()?);
    let unknown = match state.after(said) {
        Ok(after) => {
            session.set(after);
            None
        }
        Err(why) => Some(why),
    };
    match is_gone(said) {
        true => Some(
            "its directory is gone, so nothing was run; the next command begins where the first did",
        ),
        false => unknown,
    }
}

/// The failure of a command that was ended at its time limit.
fn timed_out(finished: &CommandResult, timeout: Duration, longest: Duration) -> CallFailure {
    let (seconds, printed) = (timeout.as_secs(), finished.text());
    FailureCode::TimeLimit
        .failure(format!(
            "The command was ended after {seconds} seconds. Until then it printed:\n{printed}"
        ))
        .hint(if timeout < longest {
            format!(
                "Pass a larger timeout_s (at most {}), or do less in one command.",
                longest.as_secs()
            )
        } else {
            "No call may take longer here (limits.timeout_s_max): do less in one command."
                .to_owned()
        })
        .structured(finished.facts())
}

/// Limits of the two streams with which their output fits into one result: it is truncated once,
/// and the marks count only bytes of the command.
fn fitting(limits: [usize; 2], printed: [usize; 2], page: usize) -> [usize; 2] {
    // The marks, and the words about the end.
    let most = page - page / 8;
    let [stdout, stderr] = [0, 1].map(|n| limits[n].min(printed[n]));
    if stdout.saturating_add(stderr) <= most {
        return limits.map(|limit| limit.min(most));
    }
    // A stream that needs less than half leaves the rest to the other.
    let stderr = stderr.min((most / 2).max(most.saturating_sub(stdout)));
    [stdout.min(most - stderr), stderr]
}
