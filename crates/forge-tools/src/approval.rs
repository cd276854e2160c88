//! Approvers: they answer when a call needs a person's agreement.

use std::sync::Arc;

use serde_json::Value;

use crate::call_result::Caller;
use crate::change::FileChange;
use crate::escape::{escape_controls, escape_exactly};
use crate::gate::VerdictReason;
use crate::tool::BoxFuture;

/// Everything a person is shown before answering.
///
/// ```
/// use forge_tools::{ApprovalRequest, Caller};
/// let request = ApprovalRequest {
///     caller: Caller::new("main"),
///     tool: "shell".into(),
///     arguments: serde_json::json!({"command": "make"}),
///     intents: vec!["run make".into()],
///     changes: Vec::new(),
///     runner: "os",
///     network: false,
///     reasons: Vec::new(),
///     confined: true,
///     only_a_person: false,
///     rules_to_allow: Vec::new(),
///     host: None,
/// };
/// assert!(request.preview().contains("run make"));
/// ```
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// The worker that asks.
    pub caller: Caller,
    /// The tool.
    pub tool: String,
    /// Its arguments, whole.
    pub arguments: Value,
    /// The intents of the call, in words.
    pub intents: Vec<String>,
    /// The changes that the call would make to files.
    pub changes: Vec<FileChange>,
    /// Where it would run: `local`, `os` for a command under an OS sandbox, or the name that the
    /// [`CallRunner`](crate::CallRunner) gives.
    pub runner: &'static str,
    /// `true` if it could talk to other machines.
    pub network: bool,
    /// Why it is asked.
    pub reasons: Vec<VerdictReason>,
    /// `true` if a command would run under an OS sandbox.
    pub confined: bool,
    /// No stored preference may answer this one.
    pub only_a_person: bool,
    /// The rules with which a person would not be asked about this call; none if no rule does.
    pub rules_to_allow: Vec<String>,
    /// The host and port that the running command of this call wants to reach; `None` of a question
    /// about the call itself.
    pub host: Option<String>,
}

/// Characters of the question in one line.
const MAX_HEADLINE_CHARS: usize = 60;

/// Most characters of the intents in a sentence about the call.
const MAX_SCOPE_CHARS: usize = 300;

/// The longest difference that a person is shown: all files of a call together.
pub(crate) const MAX_DIFFERENCE_BYTES: usize = 1024 * 1024;

/// Most bytes of the rest of a question.
const MAX_BESIDE_BYTES: usize = 256 * 1024;

impl ApprovalRequest {
    /// Returns the reason why the question cannot be shown whole. An approver that shows questions
    /// must then not agree (see [`Approver::shows`]).
    pub fn truncation_reason(&self) -> Option<String> {
        if let Some(why) = self.not_seen() {
            return Some(why);
        }
        let bytes: usize = self.changes.iter().map(|change| change.diff().len()).sum();
        if bytes > MAX_DIFFERENCE_BYTES {
            return Some(format!(
                "the difference has {bytes} bytes, and a person is shown at most \
                 {MAX_DIFFERENCE_BYTES} of one call; a long text can be written in pieces, with \
                 append_file"
            ));
        }
        let beside = self.beside().len();
        (beside > MAX_BESIDE_BYTES).then(|| too_long(beside, MAX_BESIDE_BYTES))
    }

    /// Returns the reason why the question cannot be shown within `max_bytes`.
    pub fn truncation_reason_within(&self, max_bytes: usize) -> Option<String> {
        self.not_seen().or_else(|| {
            let bytes = self.preview().len();
            (bytes > max_bytes).then(|| too_long(bytes, max_bytes))
        })
    }

    fn not_seen(&self) -> Option<String> {
        let change = self.changes.iter().find(|change| !change.is_whole())?;
        let path = escape_controls(change.path());
        Some(format!("what becomes of {path} cannot be shown whole"))
    }

    /// Returns `true` if every file that it is about is as it would be afterwards already.
    pub fn changes_nothing(&self) -> bool {
        !self.changes.is_empty() && self.changes.iter().all(FileChange::is_nothing)
    }

    /// Returns `true` if an answer counts for this call only, because the next one could run other
    /// files.
    pub fn counts_once(&self) -> bool {
        self.changes.iter().any(FileChange::is_unnamed)
    }

    /// Describes the scope of an answer that counts more than once: this tool, its intents, this
    /// worker. The duration is up to the caller.
    ///
    /// ```
    /// # use forge_tools::{ApprovalRequest, Caller};
    /// # let request = ApprovalRequest { caller: Caller::new("main"), tool: "write_file".into(),
    /// #   arguments: serde_json::Value::Null, intents: vec!["write /out/a.md".into()],
    /// #   changes: vec![], runner: "local", network: false, reasons: vec![], confined: true,
    /// #   only_a_person: false, rules_to_allow: vec![], host: None };
    /// assert_eq!(
    ///     request.scope(),
    ///     "write_file with exactly these arguments (write /out/a.md), for worker main"
    /// );
    /// ```
    pub fn scope(&self) -> String {
        let worker = match self.caller.worker() {
            "" => String::new(),
            worker => format!(", for worker {}", escape_exactly(worker)),
        };
        if let Some(host) = &self.host {
            return format!(
                "all connections of commands to {}{worker}",
                escape_exactly(host)
            );
        }
        let touched = escape_exactly(&self.intents.join(", "));
        if self.counts_once() {
            return "this call only: the line does not say which files it runs".to_owned();
        }
        // The long form is shown whole above; twice would be too much to read.
        let touched = match touched.chars().count() {
            0 => String::new(),
            1..=MAX_SCOPE_CHARS => format!(" ({touched})"),
            _ => " (all that is shown here)".to_owned(),
        };
        let tool = escape_exactly(&self.tool);
        let difference = match self.changes.is_empty() {
            true => "",
            false => " and this difference",
        };
        format!("{tool} with exactly these arguments{difference}{touched}{worker}")
    }

    /// The question for a person who may answer for the whole run: the [preview](Self::preview),
    /// followed by the scope of such an answer.
    pub fn question(&self) -> String {
        let mut text = self.preview();
        text.push_str(&format!("{:<10}{}\n", "this run", self.scope()));
        text
    }

    /// The question as plain text: every value whole, invisible characters escaped, and two
    /// questions never alike (see [`escape_exactly`](crate::escape_exactly)).
    pub fn preview(&self) -> String {
        let mut text = self.beside();
        for change in &self.changes {
            // Not `lines`, which takes a carriage return for a part of the line's end.
            for row in change.diff().split_terminator('\n') {
                text.push_str(&format!("{:<10}{}\n", "", escape_row(row)));
            }
        }
        text
    }

    /// The question in one line; the lines below it have everything that it leaves out.
    fn headline(&self) -> String {
        let argument = |name: &str| self.arguments[name].as_str();
        let what = match (argument("command"), argument("path"), argument("from")) {
            (Some(command), ..) => format!("`{command}`"),
            (None, Some(path), _) => format!("{} {path}", self.tool),
            (None, None, Some(from)) => {
                let to = argument("to").unwrap_or_default();
                format!("{} {from} {to}", self.tool)
            }
            (None, None, None) => self.tool.clone(),
        };
        let what = escape_exactly(&what);
        let reach = match &self.host {
            Some(host) => format!(" to reach {}", escape_exactly(host)),
            None => String::new(),
        };
        if what.chars().count() <= MAX_HEADLINE_CHARS {
            return format!("Allow {what}{reach}?\n");
        }
        let begins: String = what.chars().take(MAX_HEADLINE_CHARS).collect();
        format!("Allow {begins}…{reach}?\n")
    }

    /// Everything but the changes.
    fn beside(&self) -> String {
        let mut text = self.headline();
        let mut line = |label: &str, value: &str| {
            text.push_str(&format!("{label:<10}{}\n", escape_exactly(value)));
        };
        if !self.caller.worker().is_empty() {
            line("worker", &self.caller.to_string());
        }
        line("tool", &self.tool);
        if let Value::Object(arguments) = &self.arguments {
            for (name, value) in arguments {
                let value = match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                line("", &format!("{name} = {value}"));
            }
        }
        for intent in &self.intents {
            line("would", intent);
        }
        line("runner", self.runner);
        line("network", if self.network { "on" } else { "off" });
        if !self.confined {
            line(
                "warning",
                "no OS sandbox: the command could touch anything you can",
            );
        }
        for reason in &self.reasons {
            let place = reason.origin.as_deref().unwrap_or("built in");
            line("asked", &format!("{} ({place})", reason.text));
        }
        text
    }
}

fn too_long(bytes: usize, limit: usize) -> String {
    format!(
        "the question has {bytes} bytes, and at most {limit} can be shown to a person whole; the \
         same can be done in smaller pieces"
    )
}

/// Escapes a row of a difference. The note that a file ends without a line break is not part of the
/// row.
fn escape_row(row: &str) -> String {
    const NO_LINE_BREAK: &str = "\\ No newline at end of file";
    match row {
        NO_LINE_BREAK => NO_LINE_BREAK.to_owned(),
        row => escape_exactly(row),
    }
}

/// The answer of an approver.
///
/// ```
/// use forge_tools::ApprovalAnswer;
/// let answer = ApprovalAnswer::Deny { by: "a person".into(), reason: None };
/// assert!(!answer.allows());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// This call goes ahead.
    AllowOnce {
        /// The person or rule that answered.
        by: String,
    },
    /// This call goes ahead, and so does every later call of this tool by this worker with equal
    /// arguments until the run ends.
    AllowForRun {
        /// The person or rule that answered.
        by: String,
    },
    /// No.
    Deny {
        /// The person or rule that answered.
        by: String,
        /// Their reason; the model sees it.
        reason: Option<String>,
    },
    /// The question could not be asked.
    Unanswered {
        /// Why not.
        reason: String,
    },
    /// The question is not answered yet and stays open: once a person has agreed, a repeated call
    /// goes ahead.
    Pending {
        /// The reason why the answer is missing.
        reason: String,
        /// How it is answered; the model sees it.
        hint: String,
    },
}

impl ApprovalAnswer {
    /// Allows the call, in the name of a person or a rule.
    pub fn allow_once(by: impl Into<String>) -> Self {
        ApprovalAnswer::AllowOnce { by: by.into() }
    }

    /// The question could not be asked, for a reason.
    pub fn unanswered(reason: impl Into<String>) -> Self {
        ApprovalAnswer::Unanswered {
            reason: reason.into(),
        }
    }

    /// Returns `true` if the call goes ahead.
    pub fn allows(&self) -> bool {
        match self {
            ApprovalAnswer::AllowOnce { .. } | ApprovalAnswer::AllowForRun { .. } => true,
            ApprovalAnswer::Deny { .. }
            | ApprovalAnswer::Unanswered { .. }
            | ApprovalAnswer::Pending { .. } => false,
        }
    }
}

/// Answers the questions of the executor. Questions arrive one at a time.
///
/// ```
/// use forge_tools::{ApprovalAnswer, ApprovalRequest, Approver, BoxFuture};
///
/// struct Cautious;
/// impl Approver for Cautious {
///     fn ask<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
///         Box::pin(async { ApprovalAnswer::Deny { by: "policy".into(), reason: None } })
///     }
/// }
/// ```
pub trait Approver: Send + Sync + 'static {
    /// `true` if a person is shown the question. The executor then refuses a question that cannot
    /// be shown whole, before any answer.
    fn shows(&self) -> bool {
        true
    }

    /// `true` if a person can answer now. A running command asks about hosts only then; otherwise
    /// they are refused at once.
    fn is_attended(&self) -> bool {
        self.shows()
    }

    /// Asks, and waits for the answer. The question is withdrawn when the future is dropped.
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer>;
}

impl Approver for Arc<dyn Approver> {
    fn shows(&self) -> bool {
        (**self).shows()
    }

    fn is_attended(&self) -> bool {
        (**self).is_attended()
    }

    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        (**self).ask(request)
    }
}

/// The approver of an unattended run: it refuses every question.
///
/// ```
/// let nobody = forge_tools::NoApprover::because("stdin is not a terminal");
/// # let _ = nobody;
/// ```
#[derive(Debug, Clone)]
pub struct NoApprover {
    reason: String,
}

impl NoApprover {
    /// States the reason why questions cannot be asked.
    pub fn because(reason: impl Into<String>) -> Self {
        NoApprover {
            reason: reason.into(),
        }
    }
}

impl Approver for NoApprover {
    fn shows(&self) -> bool {
        false
    }

    fn ask<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move { ApprovalAnswer::unanswered(self.reason.clone()) })
    }
}

/// `--yes`: a person agreed to everything that may be agreed to. It never lifts a block, for which
/// no question is asked; it does not answer questions that only a person can answer (that a text
/// which looks like a key is harmless, say); and it does not cover commands that run unconfined,
/// unless the person has said that as well.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// use forge_tools::{ApprovalRequest, Approver, AutoApprove, Caller};
/// # let mut request = ApprovalRequest { caller: Caller::new("w"), tool: "t".into(),
/// #   arguments: serde_json::Value::Null, intents: vec![], changes: vec![],
/// #   runner: "os", network: false, reasons: vec![], confined: true,
/// #   only_a_person: false, rules_to_allow: vec![], host: None };
/// assert!(rt.block_on(AutoApprove::confined().ask(&request)).allows());
///
/// (request.only_a_person, request.confined) = (true, false);
/// assert!(!rt.block_on(AutoApprove::confined().ask(&request)).allows());
/// assert!(rt.block_on(AutoApprove::even_unconfined().ask(&request)).allows());
///
/// // Only a person can say what is no secret, say.
/// request.confined = true;
/// assert!(!rt.block_on(AutoApprove::even_unconfined().ask(&request)).allows());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct AutoApprove {
    unconfined: bool,
}

impl AutoApprove {
    /// Yes, but not to commands without an OS sandbox.
    pub fn confined() -> Self {
        AutoApprove { unconfined: false }
    }

    /// Yes, also to commands without an OS sandbox: the person turned it off.
    pub fn even_unconfined() -> Self {
        AutoApprove { unconfined: true }
    }
}

impl Approver for AutoApprove {
    fn shows(&self) -> bool {
        false
    }

    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            if request.only_a_person && request.confined {
                ApprovalAnswer::unanswered("--yes does not speak for what only a person can say")
            } else if request.only_a_person && !self.unconfined {
                ApprovalAnswer::unanswered(
                    "--yes does not speak for commands without an OS sandbox; with \
                             --no-os-sandbox it does",
                )
            } else {
                ApprovalAnswer::allow_once("auto-approved by --yes")
            }
        })
    }
}

/// For hosts that show their own prompt before every call they make
/// (`--approver host`). A command without an OS sandbox is still refused: the host
/// cannot know that it would run unconfined.
///
/// ```
/// # let _: &dyn forge_tools::Approver = &
/// forge_tools::HostApprover;
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct HostApprover;

impl Approver for HostApprover {
    fn shows(&self) -> bool {
        false
    }

    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            if request.only_a_person {
                let what = match request.confined {
                    true => "what only a person can say",
                    false => "a command without an OS sandbox",
                };
                ApprovalAnswer::unanswered(format!("the host program cannot answer for {what}"))
            } else {
                ApprovalAnswer::allow_once("the host program's own prompt")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_about_a_host_names_it_first() {
        let request = ApprovalRequest {
            caller: Caller::new("main"),
            tool: "shell".into(),
            arguments: serde_json::json!({"command": "npm install"}),
            intents: vec!["connect to registry.example:443".into()],
            changes: Vec::new(),
            runner: "os",
            network: true,
            reasons: vec![VerdictReason::new("no rule of `network` names it")],
            confined: true,
            only_a_person: true,
            rules_to_allow: vec!["host:registry.example:443".into()],
            host: Some("registry.example:443".into()),
        };
        insta::assert_snapshot!(request.question(), @r"
        Allow `npm install` to reach registry.example:443?
        worker    main
        tool      shell
                  command = npm install
        would     connect to registry.example:443
        runner    os
        network   on
        asked     no rule of `network` names it (built in)
        this run  all connections of commands to registry.example:443, for worker main
        ");
    }

    #[test]
    fn nothing_in_a_preview_can_move_the_cursor() {
        let request = ApprovalRequest {
            caller: Caller::new("main"),
            tool: "shell".into(),
            arguments: serde_json::json!({"command": "ls\u{1b}[1A\r\u{9b}2K \u{202e}x"}),
            intents: vec!["run ls\u{7}".into(), "write /a".into()],
            changes: vec![FileChange::new("/a", None, "x\u{1b}[0m\n")],
            runner: "local",
            network: true,
            reasons: vec![VerdictReason::new("risk `exec`")],
            confined: false,
            only_a_person: true,
            rules_to_allow: Vec::new(),
            host: None,
        };
        insta::assert_snapshot!(request.question(), @r"
        Allow `ls\x1b[1A\r\x9b2K \u{202e}x`?
        worker    main
        tool      shell
                  command = ls\x1b[1A\r\x9b2K \u{202e}x
        would     run ls\x07
        would     write /a
        runner    local
        network   on
        warning   no OS sandbox: the command could touch anything you can
        asked     risk `exec` (built in)
                  --- (new file)
                  +++ /a
                  @@ -0,0 +1 @@
                  +x\x1b[0m
        this run  shell with exactly these arguments and this difference (run ls\x07, write /a), for worker main
        ");
    }
}
