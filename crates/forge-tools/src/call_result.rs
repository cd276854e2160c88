//! The caller and the result of a call: for the model as text, for programs as JSON.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::audit::{DecisionRecord, EventKind, PolicyEvent};
use crate::change::Artifact;
use crate::output_store::Truncation;

/// The worker on whose behalf a call is made.
///
/// ```
/// let caller = forge_tools::Caller::new("main").child("report");
/// assert_eq!(caller.to_string(), "main > report");
/// assert_eq!(caller.worker(), "report");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Caller {
    chain: Vec<String>,
    /// A number for each of the chain.
    runs: Vec<u64>,
}

impl Caller {
    /// A worker at the entry, without a caller.
    pub fn new(worker: impl Into<String>) -> Self {
        Caller {
            chain: vec![worker.into()],
            runs: vec![0],
        }
    }

    /// A worker called by this one.
    pub fn child(&self, worker: impl Into<String>) -> Self {
        let mut child = self.clone();
        child.chain.push(worker.into());
        child.runs.push(0);
        child
    }

    /// Adds a number that no other run of a worker has in this tree: a worker may be called twice
    /// at once.
    ///
    /// ```
    /// let caller = forge_tools::Caller::new("main").numbered(1).child("report").numbered(4);
    /// assert_eq!(caller.runs(), [1, 4]);
    /// ```
    pub fn numbered(mut self, run: u64) -> Self {
        if let Some(last) = self.runs.last_mut() {
            *last = run;
        }
        self
    }

    sandbox_names::getters! {
        /// The number of this run of the worker; 0 if it was given none.
        pub run: u64 = runs.last().copied().unwrap_or(0);
        /// The numbers of all runs from the entry worker down.
        pub runs: &[u64] = &runs;
        /// All workers from the entry worker down.
        pub chain: &[String] = &chain;
        /// The worker itself; empty where no worker is involved.
        pub worker: &str = chain.last().map_or("", String::as_str);
    }
}

impl std::fmt::Display for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.chain.join(" > "))
    }
}

/// Why a call failed, as a stable code.
///
/// A refused file operation keeps the file sandbox's own code
/// ([`FailureCode::File`]); the rest are the executor's. Blocked by a rule, denied by a
/// person and outside the sandbox are three different codes.
///
/// ```
/// assert_eq!(forge_tools::FailureCode::Blocked.as_str(), "BLOCKED");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureCode {
    /// No such tool, or not offered to this worker.
    UnknownTool,
    /// The arguments do not fit the tool's schema.
    InvalidArguments,
    /// The worker holds no files.
    NoFiles,
    /// The worker holds no way to run commands.
    NoCommands,
    /// The file sandbox refused or the file system failed.
    File(file_sandbox::ErrorKind),
    /// A rule forbids it; no question is asked.
    Blocked,
    /// A person said no.
    Denied,
    /// The call needs a person's approval, and no person could be asked.
    ApprovalRequired,
    /// A command could not be taken apart into words.
    CommandSyntax,
    /// The program does not exist.
    CommandNotFound,
    /// The program exists and cannot be executed.
    CommandNotExecutable,
    /// The command was ended at its time limit.
    TimeLimit,
    /// The isolation that the policy asks for cannot be had.
    IsolationUnavailable,
    /// The isolated place that the call ran in ended before the call did.
    IsolationEnded,
    /// A worker asked for more than its caller holds.
    Escalation,
    /// The called worker failed.
    WorkerFailed,
    /// A repository, or git.
    Git,
    /// No result is kept under that handle.
    UnknownOutput,
    /// A limit of the run was reached.
    Limit,
    /// The caller did not wait for the result.
    Cancelled,
    /// A fault of the tool.
    Internal,
}

/// Gives each code its text, in both directions.
macro_rules! code_texts {
    ($($code:ident = $text:literal,)+) => {
        impl FailureCode {
            /// The code as it appears in results and records.
            pub fn as_str(self) -> &'static str {
                match self {
                    FailureCode::File(kind) => kind.code(),
                    $(FailureCode::$code => $text,)+
                }
            }

            /// Returns the code with this text, for a failure that another process reports.
            ///
            /// ```
            /// use forge_tools::FailureCode;
            /// assert_eq!(FailureCode::from_code("BLOCKED"), Some(FailureCode::Blocked));
            /// ```
            pub fn from_code(text: &str) -> Option<FailureCode> {
                match text {
                    $($text => Some(FailureCode::$code),)+
                    _ => file_sandbox::ErrorKind::from_code(text).map(FailureCode::File),
                }
            }
        }
    };
}

code_texts! {
    UnknownTool = "UNKNOWN_TOOL",
    InvalidArguments = "INVALID_ARGUMENTS",
    NoFiles = "NO_FILES",
    NoCommands = "NO_COMMANDS",
    Blocked = "BLOCKED",
    Denied = "DENIED",
    ApprovalRequired = "APPROVAL_REQUIRED",
    CommandSyntax = "COMMAND_SYNTAX",
    CommandNotFound = "COMMAND_NOT_FOUND",
    CommandNotExecutable = "COMMAND_NOT_EXECUTABLE",
    TimeLimit = "TIME_LIMIT",
    IsolationUnavailable = "ISOLATION_UNAVAILABLE",
    IsolationEnded = "ISOLATION_ENDED",
    Escalation = "PERMISSION_ESCALATION",
    WorkerFailed = "WORKER_FAILED",
    Git = "GIT_ERROR",
    UnknownOutput = "UNKNOWN_OUTPUT",
    Limit = "LIMIT",
    Cancelled = "CANCELLED",
    Internal = "INTERNAL",
}

impl FailureCode {
    /// Returns a failure with this code.
    pub fn failure(self, message: impl Into<String>) -> CallFailure {
        CallFailure::new(self, message)
    }

    /// Returns the policy event that the record of a call with this code has.
    pub(crate) fn stopped_by_policy(self) -> Option<EventKind> {
        use file_sandbox::ErrorKind as File;
        match self {
            FailureCode::Blocked | FailureCode::Denied | FailureCode::ApprovalRequired => {
                Some(EventKind::Denied)
            }
            FailureCode::NoFiles
            | FailureCode::NoCommands
            | FailureCode::Escalation
            | FailureCode::IsolationUnavailable
            | FailureCode::File(
                File::OutsideSandbox
                | File::ReadOnly
                | File::SuffixNotAllowed
                | File::Escape
                | File::PermissionEscalation,
            ) => Some(EventKind::Refused),
            FailureCode::Limit | FailureCode::File(File::TooLarge | File::Quota) => {
                Some(EventKind::Exceeded)
            }
            // A command says itself which limit it was.
            FailureCode::TimeLimit
            | FailureCode::UnknownTool
            | FailureCode::IsolationEnded
            | FailureCode::Git
            | FailureCode::UnknownOutput
            | FailureCode::InvalidArguments
            | FailureCode::File(_)
            | FailureCode::CommandSyntax
            | FailureCode::CommandNotFound
            | FailureCode::CommandNotExecutable
            | FailureCode::WorkerFailed
            | FailureCode::Cancelled
            | FailureCode::Internal => None,
        }
    }

    /// Returns `true` if the call itself was malformed: the caller's mistake, not an answer of the
    /// sandbox or of a person (`forge tools call` exits 2 for these).
    pub fn is_usage(self) -> bool {
        matches!(
            self,
            FailureCode::UnknownTool | FailureCode::InvalidArguments
        )
    }
}

/// A failed call, in words for the model.
///
/// ```
/// use forge_tools::{FailureCode, CallFailure};
/// let failure = FailureCode::Blocked.failure("Not allowed here.").hint("Use delete_file.");
/// assert_eq!(failure.to_string(), "Not allowed here.\nUse delete_file.");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFailure {
    /// The kind of failure.
    pub code: FailureCode,
    /// The attempted operation, its object, and the reason of the failure.
    pub message: String,
    /// A suggestion for the next attempt.
    pub hint: Option<String>,
    /// The path it is about, as it was asked for.
    pub path: Option<String>,
    /// The output of a command before it failed, or the schema.
    pub structured: Option<Box<Value>>,
    /// Where it failed and how it was confined, if it got so far.
    pub ran: Option<Box<ExecutionInfo>>,
}

impl CallFailure {
    /// A failure with its message.
    pub fn new(code: FailureCode, message: impl Into<String>) -> Self {
        CallFailure {
            code,
            message: message.into(),
            hint: None,
            path: None,
            structured: None,
            ran: None,
        }
    }

    /// The failure of a call whose caller no longer waits.
    pub fn cancelled() -> Self {
        FailureCode::Cancelled.failure("The call was cancelled.")
    }

    sandbox_names::setters! {
        /// Adds where it failed.
        ran(ran: ExecutionInfo) = Some(Box::new(ran));
        /// Adds a suggestion for the next attempt.
        hint(hint: impl Into<String>) = Some(hint.into());
        /// Adds facts for programs.
        structured(facts: Value) = Some(Box::new(facts));
    }
}

impl std::fmt::Display for CallFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n{hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CallFailure {}

impl From<file_sandbox::Error> for CallFailure {
    fn from(error: file_sandbox::Error) -> Self {
        let whole = error.to_string();
        let hint = error.hint();
        // The sentence alone: the hint is shown on the lines after it.
        let message = match &hint {
            Some(hint) => whole
                .strip_suffix(hint.as_str())
                .map_or(whole.as_str(), str::trim_end),
            None => &whole,
        };
        CallFailure {
            code: match error.kind() {
                file_sandbox::ErrorKind::ReadBlocked => FailureCode::Blocked,
                file_sandbox::ErrorKind::Cancelled => FailureCode::Cancelled,
                kind => FailureCode::File(kind),
            },
            message: message.to_owned(),
            hint,
            path: Some(error.path().to_owned()),
            structured: None,
            ran: None,
        }
    }
}

/// Where a call ran that failed, for its record.
///
/// ```
/// use forge_tools::{FailureCode, CallFailure, ExecutionInfo};
/// let ran = ExecutionInfo { runner: "os", enforcement: None, events: Vec::new(), artifacts: Vec::new() };
/// let failure = FailureCode::TimeLimit.failure("It was ended.").ran(ran);
/// assert_eq!(failure.ran.unwrap().runner, "os");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionInfo {
    /// Where.
    pub runner: &'static str,
    /// The confinement that was applied.
    pub enforcement: Option<Value>,
    /// The events of policies.
    pub events: Vec<PolicyEvent>,
    /// The files that it left behind or took away nevertheless.
    pub artifacts: Vec<Artifact>,
}

/// The result of a tool.
///
/// ```
/// let reply = forge_tools::Reply::text("ok").structured(serde_json::json!({"n": 1}));
/// assert_eq!(reply.text, "ok");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// For the model.
    pub text: String,
    /// The result for programs; absent if the text is everything.
    pub structured: Option<Value>,
    /// Where the work was done.
    pub ran: ExecutionInfo,
}

impl ExecutionInfo {
    /// Returns what is known of a call that ran here, without a process.
    pub fn at(runner: &'static str) -> Self {
        ExecutionInfo {
            runner,
            enforcement: None,
            events: Vec::new(),
            artifacts: Vec::new(),
        }
    }
}

impl Reply {
    /// A reply of the in-process runner.
    pub fn text(text: impl Into<String>) -> Self {
        Reply {
            text: text.into(),
            structured: None,
            ran: ExecutionInfo::at("local"),
        }
    }

    /// Adds the structured form.
    pub fn structured(mut self, facts: Value) -> Self {
        self.structured = Some(facts);
        self
    }

    /// Adds a file that the call left behind or took away.
    pub fn artifact(mut self, artifact: Artifact) -> Self {
        self.ran.artifacts.push(artifact);
        self
    }
}

/// The error part of a [`CallResult`].
///
/// ```
/// let body = forge_tools::ErrorBody {
///     code: "NOT_FOUND".into(), message: "File not found: /a".into(), hint: None, path: None,
/// };
/// assert_eq!(serde_json::to_value(&body).unwrap()["code"], "NOT_FOUND");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorBody {
    /// The stable code.
    pub code: String,
    /// The message.
    pub message: String,
    /// A suggestion for the next attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The path it is about, as it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// The outcome of one call, complete.
///
/// See [`Toolbox::call`](crate::Toolbox::call) for how one comes about:
///
/// ```
/// fn show(result: &forge_tools::CallResult) -> String {
///     result.to_json().to_string()
/// }
/// ```
#[derive(Debug, Clone)]
pub struct CallResult {
    /// `true` if the tool succeeded.
    pub ok: bool,
    /// The tool's advertised name (or the requested name, if it is unknown).
    pub tool: String,
    /// For the model: the result, or the failure in words.
    pub content: String,
    /// The result for programs.
    pub structured: Option<Value>,
    /// Why it failed.
    pub error: Option<ErrorBody>,
    /// The failure's code, typed.
    pub code: Option<FailureCode>,
    /// Where it ran; `none` if it did not get that far.
    pub runner: &'static str,
    /// The decision and its reasons.
    pub decision: DecisionRecord,
    /// The confinement of the work, if a process did it.
    pub enforcement: Option<Value>,
    /// The files that the call left behind or took away.
    pub artifacts: Vec<Artifact>,
    /// The part of the result that is not shown, if it was too long.
    pub cut: Option<Truncation>,
    /// The events of policies.
    pub events: Vec<PolicyEvent>,
    /// From the call to the result.
    pub duration: Duration,
}

impl CallResult {
    /// The object that `forge tools call --json` prints.
    pub fn to_json(&self) -> Value {
        let mut object = json!({
            "ok": self.ok,
            "tool": self.tool,
            "content": self.content,
            "structured": self.structured,
            "runner": self.runner,
            "decision": self.decision,
        });
        if let Some(error) = &self.error {
            object["error"] = json!(error);
        }
        if let Some(enforcement) = &self.enforcement {
            object["enforcement"] = enforcement.clone();
        }
        if let Some(cut) = &self.cut {
            object["cut"] = json!(cut);
        }
        object
    }
}
