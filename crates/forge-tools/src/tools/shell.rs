//! `shell`: runs a command, confined.
//!
//! A plain command is executed as its words, without any shell in between; a line
//! with operators goes to `sh -c`. Rules decide on the words (see
//! [`CommandLine`]), the kernel on what they can do.

use os_sandbox::{Command, ErrorKind, Exit, Output, Stdio};
use serde_json::{Value, json};

use crate::call::{Code, Failure, Reply};
use crate::command_line::CommandLine;
use crate::gate::Intent;
use crate::hands::{Hands, View};
use crate::params::{Arguments, Param, Params};
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
        Ok(vec![Intent::Execute(parse(args)?)])
    }

    fn run<'a>(&'a self, args: Arguments, hands: Hands) -> BoxFuture<'a, Result<Reply, Failure>> {
        blocking(move || {
            let line = parse(&args)?;
            let processes = hands.processes()?;
            let (program, rest) = match line.argv() {
                Some([program, rest @ ..]) => (program.as_str(), rest.to_vec()),
                Some([]) | None => ("sh", vec!["-c".to_owned(), line.as_str().to_owned()]),
            };
            let timeout = processes.timeout(args.integer("timeout_s"));
            let mut command = Command::new(processes.plan(), program);
            command
                .args(rest)
                .stdin(Stdio::Null)
                .stdout(Stdio::Piped)
                .stderr(Stdio::Piped)
                .timeout(timeout);
            let output = command
                .spawn()
                .and_then(|child| child.wait_with_output())
                .map_err(|error| refused(program, &error))?;
            let stderr = with_notes(
                output.stderr.text(),
                output.exit != Exit::Code(0),
                |stderr| processes.notes_after(stderr),
            );
            if output.exit == Exit::TimedOut {
                let facts = facts(&output, &stderr);
                return Err(Failure::new(
                    Code::TimeLimit,
                    format!("The command was ended after {} seconds.", timeout.as_secs()),
                )
                .hint("Pass a larger timeout_s, or do less in one command.")
                .structured(facts));
            }
            Ok(reply(&output, &stderr, processes.is_confined()))
        })
    }
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
        _ => Failure::new(
            Code::Internal,
            format!("Cannot run `{program}`: it could not be started."),
        ),
    }
}

fn with_notes(stderr: String, failed: bool, notes: impl Fn(&str) -> Vec<String>) -> String {
    if !failed {
        return stderr;
    }
    notes(&stderr)
        .into_iter()
        .fold(stderr, |text, note| format!("{text}\n\n{note}"))
}

fn exit_code(exit: &Exit) -> i32 {
    match exit {
        Exit::Code(code) => *code,
        Exit::Signal(signal) => 128 + signal,
        Exit::TimedOut => 124,
    }
}

fn facts(output: &Output, stderr: &str) -> Value {
    json!({
        "exit_code": exit_code(&output.exit),
        "stdout": output.stdout.text(),
        "stderr": stderr,
        "stdout_bytes": output.stdout.total_bytes(),
        "stderr_bytes": output.stderr.total_bytes(),
        "truncated": output.stdout.is_truncated() || output.stderr.is_truncated(),
        "duration_ms": u64::try_from(output.duration.as_millis()).unwrap_or(u64::MAX),
    })
}

fn reply(output: &Output, stderr: &str, confined: bool) -> Reply {
    let mut text = output.stdout.text();
    if output.stdout.is_truncated() {
        text.push_str(&format!(
            "\n[cut: {} bytes in all]",
            output.stdout.total_bytes()
        ));
    }
    if !stderr.is_empty() {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str("[stderr]\n");
        text.push_str(stderr);
    }
    let code = exit_code(&output.exit);
    if code != 0 || text.is_empty() {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[exit code {code}]"));
    }
    Reply {
        text,
        structured: Some(facts(output, stderr)),
        enforcement: serde_json::to_value(&output.enforcement).ok(),
        runner: if confined { "os" } else { "local" },
    }
}
