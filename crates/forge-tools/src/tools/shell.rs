//! `shell`: runs a command, confined.
//!
//! A plain command is executed as its words, without any shell in between; a line
//! with operators goes to `sh -c`. Rules decide on the words (see
//! [`CommandLine`]), the kernel on what they can do.

use std::time::{Duration, Instant};

use os_sandbox::{Command, ErrorKind, Exit, Killer, Output, Stdio};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::audit::{EventKind, PolicyEvent};
use crate::call::{Code, Failure, Ran, Reply};
use crate::command_line::CommandLine;
use crate::gate::Intent;
use crate::hands::{Hands, View};
use crate::output::{Field, Output as Schema};
use crate::params::{Arguments, Param, Params};
use crate::processes::Processes;
use crate::spec::{Annotations, PreferredRunner, Risk, Spec};
use crate::tool::{BoxFuture, Tool, blocking};

/// Runs a command.
///
/// ```
/// use forge_tools::{Risk, Tool, tools};
/// assert_eq!(tools::shell().spec().risk, Risk::Exec);
/// ```
#[derive(Debug)]
pub struct Shell(Spec);

/// The `shell` tool.
pub fn shell() -> Shell {
    Shell(Spec {
        name: "shell".to_owned(),
        aliases: &[],
        description: "Run a command and return its output and exit code. One plain command \
                      runs as it is written, with quotes but without variables or globs; \
                      pipes and && work where every part is allowed. The working directory \
                      shows the same directories as list_files. Nothing keeps running after \
                      the call."
            .to_owned(),
        params: Params::new([
            Param::text("command", "The command line.").required(),
            Param::integer("timeout_s", "Seconds until it is ended.", 1, 86_400).alias("timeout"),
        ]),
        output: Some(Schema::new([
            Field::integer("exit_code").optional(),
            Field::text("stdout"),
            Field::text("stderr"),
            Field::integer("stdout_bytes"),
            Field::integer("stderr_bytes"),
            Field::text("exceeded").optional(),
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

fn parse(args: &Arguments) -> Result<CommandLine, Failure> {
    CommandLine::parse(args.text("command").unwrap_or_default()).map_err(|error| {
        Failure::new(
            Code::CommandSyntax,
            format!("Cannot run the command: {error}."),
        )
    })
}

impl Tool for Shell {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn decide(&self, args: &Arguments, view: &View<'_>) -> Result<Vec<Intent>, Failure> {
        view.commands()?;
        let line = parse(args)?;
        view.check_programs(&line)?;
        Ok(vec![Intent::Execute(line)])
    }

    fn run<'a>(&'a self, args: Arguments, hands: Hands) -> BoxFuture<'a, Result<Reply, Failure>> {
        Box::pin(async move {
            // Dropped with this future: then the command is ended, or never started.
            let (started, running) = oneshot::channel();
            let work = blocking(move || execute(&args, &hands, started));
            let mut guard = EndIfDropped(Some(running));
            let outcome = work.await;
            guard.0 = None;
            outcome
        })
    }
}
/// Ends a command that nobody waits for any more. If it has not been started yet,
/// whoever starts it finds the other end of the channel gone.
struct EndIfDropped(Option<oneshot::Receiver<Killer>>);

impl Drop for EndIfDropped {
    fn drop(&mut self) {
        if let Some(killer) = self.0.as_mut().and_then(|running| running.try_recv().ok()) {
            killer.kill();
        }
    }
}

fn execute(
    args: &Arguments,
    hands: &Hands,
    started: oneshot::Sender<Killer>,
) -> Result<Reply, Failure> {
    let line = parse(args)?;
    let processes = hands.processes()?;
    // Once more: files may have changed while a person was asked.
    processes.check_programs(&line)?;
    let (program, rest) = match line.argv() {
        Some([program, rest @ ..]) => (program.as_str(), rest.to_vec()),
        Some([]) | None => ("sh", vec!["-c".to_owned(), line.as_str().to_owned()]),
    };
    let timeout = processes.timeout(args.integer("timeout_s"));
    let clock = Instant::now();
    let child = Command::new(processes.plan(), program)
        .args(rest)
        .stdin(Stdio::Null)
        .stdout(Stdio::Piped)
        .stderr(Stdio::Piped)
        .timeout(timeout)
        .spawn()
        .map_err(|error| refused(program, &error))?;
    let killer = child.killer().map_err(|error| refused(program, &error))?;
    if let Err(killer) = started.send(killer) {
        killer.kill();
    }
    let mut enforcement = serde_json::to_value(child.enforcement()).ok();
    let output = child
        .wait_with_output_watching(|_, bytes| {
            if let Some(progress) = hands.progress() {
                progress.add_bytes(bytes as u64);
            }
        })
        .map_err(|error| refused(program, &error))?;
    // Known only after the end.
    if let Some(Value::Object(receipt)) = &mut enforcement
        && let Ok(found) = serde_json::to_value(&output.quarantined)
    {
        receipt.insert("quarantined".to_owned(), found);
    }
    let finished = Finished {
        stderr: with_notes(&output, processes),
        output,
        duration: clock.elapsed(),
    };
    let runner = if processes.is_confined() {
        "os"
    } else {
        "local"
    };
    let mut events = finished.events();
    if finished.output.exit == Exit::TimedOut {
        let seconds = timeout.as_secs();
        let printed = finished.text();
        if finished.output.exceeded.is_none() {
            events.push(PolicyEvent::new(
                EventKind::Exceeded,
                format!("its {seconds} seconds"),
            ));
        }
        return Err(Failure::new(
            Code::TimeLimit,
            format!(
                "The command was ended after {seconds} seconds. Until then it printed:\n{printed}"
            ),
        )
        .hint("Pass a larger timeout_s, or do less in one command.")
        .structured(finished.facts())
        .ran(Ran {
            runner,
            enforcement,
            events,
        }));
    }
    Ok(Reply {
        text: finished.text(),
        structured: Some(finished.facts()),
        enforcement,
        artifacts: Vec::new(),
        events,
        runner,
    })
}

/// A command that ran, whatever it came to.
struct Finished {
    output: Output,
    /// With the notes for the model.
    stderr: String,
    duration: Duration,
}

impl Finished {
    fn facts(&self) -> Value {
        let Output { stdout, stderr, .. } = &self.output;
        json!({
            "exit_code": self.output.exit.code(),
            "stdout": stdout.text(),
            "stderr": self.stderr,
            "stdout_bytes": stdout.total_bytes(),
            "stderr_bytes": stderr.total_bytes(),
            "exceeded": self.output.exceeded.map(|limit| limit.to_string()),
            "quarantined": self.quarantined().collect::<Vec<_>>(),
            "truncated": stdout.truncated() || stderr.truncated(),
            "duration_ms": u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
        })
    }

    fn text(&self) -> String {
        let stdout = &self.output.stdout;
        let mut text = stdout.text().into_owned();
        if stdout.truncated() {
            own_line(&mut text);
            text.push_str(&format!("[cut: {} bytes in all]", stdout.total_bytes()));
        }
        if !self.stderr.is_empty() {
            own_line(&mut text);
            text.push_str("[stderr]\n");
            text.push_str(&self.stderr);
        }
        if !self.output.exit.success() || text.is_empty() {
            own_line(&mut text);
            text.push_str(&format!("[{}]", self.output.exit));
        }
        // Also after a success: a part of the command may have been ended.
        if let Some(exceeded) = self.output.exceeded {
            own_line(&mut text);
            text.push_str(&format!("[limit: the command used {exceeded}]"));
        }
        for path in self.quarantined() {
            own_line(&mut text);
            text.push_str(&format!(
                "[not kept: {path} has a protected name, which no command may make]"
            ));
        }
        text
    }

    fn events(&self) -> Vec<PolicyEvent> {
        let exceeded = self
            .output
            .exceeded
            .map(|limit| PolicyEvent::new(EventKind::Exceeded, limit.to_string()));
        let taken = self
            .quarantined()
            .map(|path| PolicyEvent::new(EventKind::Quarantined, path));
        exceeded.into_iter().chain(taken).collect()
    }

    /// As the command saw them. Where they lie now is a matter of people.
    fn quarantined(&self) -> impl Iterator<Item = String> {
        let found = self.output.quarantined.iter();
        found.map(|found| crate::escape_controls(&found.path.to_string_lossy()))
    }
}

/// What is appended next starts a line.
fn own_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// What the command wrote to standard error, and after a failure what the model
/// should know (F004-34..36).
fn with_notes(output: &Output, processes: &Processes) -> String {
    let stderr = output.stderr.text().into_owned();
    if output.exit.success() {
        return stderr;
    }
    let notes = processes.notes_after(&stderr);
    notes.into_iter().fold(stderr, |text, note| {
        format!("{}\n\n{note}", text.trim_end_matches('\n'))
    })
}

fn refused(program: &str, error: &os_sandbox::Error) -> Failure {
    let program = crate::escape_controls(program);
    match error.kind() {
        ErrorKind::NotFound => Failure::new(
            Code::CommandNotFound,
            format!("Cannot run `{program}`: there is no such program."),
        ),
        ErrorKind::NotExecutable => Failure::new(
            Code::CommandNotExecutable,
            format!("Cannot run `{program}`: it is not executable here."),
        ),
        ErrorKind::Unsupported => Failure::new(
            Code::IsolationUnavailable,
            format!("Cannot run `{program}`: the isolation that is asked for is not available."),
        ),
        // The error's own text may name host paths.
        _ => Failure::new(
            Code::Internal,
            format!("Cannot run `{program}`: it could not be started."),
        ),
    }
}
