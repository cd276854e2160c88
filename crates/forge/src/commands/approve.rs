//! `forge approve`: the requests of every forge process of this user in this project, listed,
//! shown whole and answered.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use forge_tools::escape_controls;

use crate::cli::{ApproveArgs, Global};
use crate::commands::prelude::*;
use crate::output::prompt::{self, PromptAnswer, PromptKind};
use crate::queue::client::{self, OpenQuestion};
use crate::queue::protocol::{ApprovalDecision, QueueRequest, QueueResponse};
use crate::queue::{QueueDirs, is_id};
use crate::setup;

/// Interval at which new requests are looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(300);

pub(crate) fn run(args: &ApproveArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    // A project that this terminal would not trust has requests all the same.
    let project = setup::project_dir(ambient)?;
    let desk = ApprovalClient {
        global: &ambient.global,
        place: ambient.queue(&project),
        allow_command: setup::command_for(&project, "allow"),
        // Without a person at the terminal the requests are only shown.
        asks: ambient.terminal
            && ambient.reason_not_to_ask(ambient.global.no_input).is_none()
            && !ambient.global.json,
        colour: ambient.colour,
        tty: terminal_name(),
    };
    let said = if args.deny {
        Some(ApprovalDecision::Deny)
    } else if args.run {
        Some(ApprovalDecision::AllowRun)
    } else if args.allow {
        Some(ApprovalDecision::AllowOnce)
    } else {
        None
    };
    let outcome = setup::until_stopped(async {
        match (&args.id, said) {
            (None, None) if args.watch => desk.watch().await,
            (None, _) => desk.list().await,
            (Some(id), None) => desk.show(id).await,
            (Some(id), Some(said)) => desk.answer_unasked(id, said, args.reason.clone()).await,
        }
    });
    match outcome {
        // The way to end it is not a failure; the exit code tells the signal.
        Err(stopped) if args.watch => Ok(stopped.exit()),
        outcome => outcome?,
    }
}

/// The approver's side of a terminal.
struct ApprovalClient<'a> {
    global: &'a Global,
    place: QueueDirs,
    /// The command that keeps a yes as a rule.
    allow_command: String,
    asks: bool,
    colour: bool,
    tty: Option<String>,
}

impl ApprovalClient<'_> {
    async fn list(&self) -> Result<ExitKind, CliError> {
        let found = self.found().await;
        if self.global.json {
            let mut pending = Vec::new();
            for each in &found {
                if let Some(text) = client::show(each).await.map_err(not_shown)? {
                    pending.push(object(each, &text));
                }
            }
            print_json(&json!({ "pending": pending }))?;
            return Ok(ExitKind::Done);
        }
        if found.is_empty() {
            print_line("nothing waits for approval")?;
            if !self.global.quiet {
                stderr::print(
                    "only requests of the project here are listed; for another one: forge -C DIR approve",
                );
            }
            return Ok(ExitKind::Done);
        }
        for each in &found {
            print_line(in_short(each))?;
        }
        if !self.global.quiet {
            stderr::print("\neach is shown whole, and answered, by `forge approve ID`");
        }
        Ok(ExitKind::Done)
    }

    async fn show(&self, id: &str) -> Result<ExitKind, CliError> {
        let found = self.find(id).await?;
        let text = self.text(&found).await?;
        if self.asks {
            // A hangup is not an answer; the request stays open.
            if !self.ask(&found, &text).await? {
                return Ok(ExitKind::Negative);
            }
        } else if self.global.json {
            print_json(&object(&found, &text))?;
        } else {
            print_line(whole(&found, &text))?;
        }
        Ok(ExitKind::Done)
    }

    /// Answers without a question: only exactly the listed request, so only by the whole ID, which
    /// holds a digest of it.
    async fn answer_unasked(
        &self,
        id: &str,
        said: ApprovalDecision,
        reason: Option<String>,
    ) -> Result<ExitKind, CliError> {
        if said != ApprovalDecision::Deny && !is_id(id) {
            return Err(CliError::usage(format!(
                "`{}` is not a whole ID, and only a whole ID names exactly one request",
                escape_controls(id)
            ))
            .hint("copy it from `forge approve`"));
        }
        let found = self.find(id).await?;
        let text = self.text(&found).await?;
        if !self.global.quiet {
            stderr::print(whole(&found, &text));
        }
        self.answer(&found, said, reason).await?;
        if self.global.json {
            print_json(&json!({ "id": found.request.id, "answer": said.as_str() }))?;
        }
        Ok(ExitKind::Done)
    }

    async fn watch(&self) -> Result<ExitKind, CliError> {
        let _watching = self.place.watch().map_err(|error| queue_failed(&error))?;
        if !self.global.quiet {
            stderr::print("waiting for requests; Ctrl-C ends it");
        }
        let mut seen = HashSet::new();
        loop {
            let (found, _) = client::list(&self.place).await;
            // A closed request does not come back, so its ID is not needed.
            seen.retain(|id| found.iter().any(|each| &each.request.id == id));
            for each in found {
                if !seen.insert(each.request.id.clone()) {
                    continue;
                }
                // Requests that ended meanwhile or that cannot be shown are skipped.
                match client::show(&each).await {
                    Ok(Some(text)) if self.asks => match self.ask(&each, &text).await {
                        Ok(true) => {}
                        Ok(false) => return Ok(ExitKind::Done),
                        // Another approver was faster, or the call ended: on to the next.
                        Err(failure) => drop(failure.report(false)),
                    },
                    Ok(Some(text)) if self.global.json => {
                        print_json(&object(&each, &text))?;
                    }
                    Ok(Some(text)) => print_line(whole(&each, &text))?,
                    Ok(None) => {}
                    Err(error) => stderr::print(format_args!("warning: {error}")),
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Asks the person here. False: they hung up.
    async fn ask(&self, found: &OpenQuestion, text: &str) -> Result<bool, CliError> {
        let shown = whole(found, text);
        let (left, colour) = (Duration::from_secs(found.request.left_s), self.colour);
        let kind = match &found.request.host {
            Some(_) => PromptKind::QueuedHost,
            None => PromptKind::Queued,
        };
        let typed = tokio::task::spawn_blocking(move || prompt::ask(&shown, left, colour, kind))
            .await
            .map_err(|error| CliError::negative("terminal", error.to_string()))?
            .map_err(|error| CliError::negative("terminal", error.to_string()))?;
        match typed {
            PromptAnswer::Once => {
                self.answer(found, ApprovalDecision::AllowOnce, None)
                    .await?
            }
            PromptAnswer::Run | PromptAnswer::All | PromptAnswer::Always => {
                self.answer(found, ApprovalDecision::AllowRun, None).await?
            }
            PromptAnswer::No { reason } => {
                self.answer(found, ApprovalDecision::Deny, reason).await?
            }
            PromptAnswer::Nothing | PromptAnswer::Withdrawn => {
                return Err(gone(&found.request.id));
            }
            PromptAnswer::HungUp => return Ok(false),
        }
        Ok(true)
    }

    async fn answer(
        &self,
        found: &OpenQuestion,
        said: ApprovalDecision,
        reason: Option<String>,
    ) -> Result<(), CliError> {
        let id = &found.request.id;
        let ask = QueueRequest::Answer {
            id: id.clone(),
            said,
            reason,
            tty: self.tty.clone(),
        };
        match client::answer(found, &ask).await {
            Ok(QueueResponse::Taken) => {
                if !self.global.quiet {
                    let kept = if found.request.waiting {
                        ""
                    } else {
                        "; it is kept for when the call is made again"
                    };
                    stderr::print(format_args!("answered: {}{kept}", said.as_str()));
                    let allows = matches!(
                        said,
                        ApprovalDecision::AllowOnce | ApprovalDecision::AllowRun
                    );
                    let rules = &found.request.rules_to_allow;
                    if allows && let Some(hint) = prompt::allow_hint(&self.allow_command, rules) {
                        stderr::print(hint);
                    }
                }
                Ok(())
            }
            Ok(QueueResponse::Already { how }) => Err(answered_before(id, &how)),
            Ok(QueueResponse::Unknown) => Err(gone(id)),
            Ok(QueueResponse::Unreadable { why }) => Err(CliError::usage(format!(
                "the answer was not taken: {}",
                escape_controls(&why)
            ))),
            Ok(QueueResponse::Open { .. } | QueueResponse::Request { .. }) => {
                Err(queue_failed("no answer that makes sense"))
            }
            Err(error) => Err(queue_failed(&error)),
        }
    }

    async fn found(&self) -> Vec<OpenQuestion> {
        let (found, not_used) = client::list(&self.place).await;
        if !self.global.quiet {
            for why in not_used {
                stderr::print(format_args!("warning: {}", escape_controls(&why)));
            }
        }
        found
    }

    /// The request of this ID, or of the only one that begins so.
    async fn find(&self, id: &str) -> Result<OpenQuestion, CliError> {
        let mut found = self.found().await;
        found.retain(|each| each.request.id.starts_with(id));
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => self.closed(id).await,
            _ => Err(CliError::usage(format!(
                "several requests begin with `{}`",
                escape_controls(id)
            ))),
        }
    }

    /// Handles an unlisted ID: it may have been answered, and its process still knows the answer.
    async fn closed(&self, id: &str) -> Result<OpenQuestion, CliError> {
        if is_id(id)
            && let Some(how) = client::how_closed(&self.place, id).await
        {
            return Err(answered_before(id, &how));
        }
        Err(gone(id))
    }

    async fn text(&self, found: &OpenQuestion) -> Result<String, CliError> {
        let text = client::show(found).await.map_err(not_shown)?;
        text.ok_or_else(|| gone(&found.request.id))
    }
}

fn answered_before(id: &str, how: &str) -> CliError {
    let how = escape_controls(how);
    CliError::negative(
        "approve.answered",
        format!("{id} was answered before: {how}"),
    )
}

fn gone(id: &str) -> CliError {
    CliError::negative("approve.unknown",
        format!("no request {} waits in this project", escape_controls(id)),
    )
    .hint("it was withdrawn, ran out of time or ended with its process, or is of another project: forge -C DIR approve")
}

fn not_shown(error: std::io::Error) -> CliError {
    queue_failed(&error).hint("what cannot be shown whole cannot be approved")
}

fn queue_failed(why: impl std::fmt::Display) -> CliError {
    let why = escape_controls(&why.to_string());
    CliError::negative("approve.queue", format!("the queue cannot be used: {why}"))
}

fn in_short(found: &OpenQuestion) -> String {
    let request = &found.request;
    let left = if request.waiting {
        format!("waits {} s", request.left_s)
    } else {
        format!("open for {} min", request.left_s / 60)
    };
    format!(
        "{}  {left}\n    {}: {}",
        request.id,
        escape_controls(&request.tool),
        escape_controls(&request.what)
    )
}

/// A request as a person has to see it: nothing left out, nothing that moves the cursor.
fn whole(found: &OpenQuestion, text: &str) -> String {
    let mut shown = format!("request   {}\n", found.request.id);
    if let Some(pid) = found.pid {
        shown.push_str(&format!("process   {pid}\n"));
    }
    for line in text.lines() {
        shown.push_str(&escape_controls(line));
        shown.push('\n');
    }
    shown
}

fn object(found: &OpenQuestion, text: &str) -> Value {
    let mut object = json!(found.request);
    object["pid"] = json!(found.pid);
    object["text"] = json!(text);
    object
}

/// The terminal that is typed on.
fn terminal_name() -> Option<String> {
    let name = rustix::termios::ttyname(std::io::stdin(), Vec::new()).ok()?;
    let name = name.into_string().ok()?;
    Path::new(&name).is_absolute().then_some(name)
}
