//! Tools that a model may call, and the one executor that runs them.
//!
//! A [`Toolbox`] holds the worker's resources (a [`FileSandbox`](file_sandbox::FileSandbox), a way
//! to run confined commands) and is the only thing that can hand them to a [`Tool`]. Every call
//! takes one road: find the tool, check the arguments against its schema, ask if the worker is
//! *able* to do it, if a rule blocks it, if a person has to agree, and only then run it; the result
//! is capped and recorded.
//!
//! # Words
//!
//! * **tool**: a [`Spec`] that describes it to a model, and a `prepare` that reads the arguments of
//!   a call ([`Tool`]).
//! * **invocation**: one call of a tool; `intents` names its files and commands, `run` does it
//!   ([`Invocation`]).
//! * **intent**: one thing a call would touch ([`Intent`]).
//! * **gate**: decides about intents ([`Gate`]): allow, ask, or block.
//! * **approver**: answers an *ask* ([`Approver`]).
//! * **record**: the audit entry of a decision ([`CallRecord`], [`Recorder`]).
//!
//! # One call that is allowed, one that is not
//!
//! ```
//! use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
//! use forge_tools::{CallRequest, Toolbox};
//! use serde_json::json;
//!
//! # let rt = tokio::runtime::Builder::new_current_thread().build().unwrap();
//! # rt.block_on(async {
//! let dir = tempfile::tempdir().unwrap();
//! std::fs::write(dir.path().join("a.md"), "hello").unwrap();
//! let mount = Mount::open_ambient(
//!     SandboxPath::parse("/data").unwrap(),
//!     dir.path(),
//!     Mode::ReadOnly,
//!     cap_std::ambient_authority(),
//! )
//! .unwrap();
//! let toolbox = Toolbox::builder()
//!     .files(FileSandbox::new(vec![mount]).unwrap())
//!     .build()
//!     .unwrap();
//!
//! let read = toolbox.call(CallRequest::new("read_file", json!({"path": "/data/a.md"}))).await;
//! assert_eq!(read.content, "hello");
//!
//! let write = toolbox
//!     .call(CallRequest::new("write_file", json!({"path": "/data/a.md", "content": "x"})))
//!     .await;
//! assert_eq!(write.error.unwrap().code, "READ_ONLY");
//! # });
//! ```
#![forbid(unsafe_code)]

mod approval;
pub mod audit;
mod blocking_handoff;
mod builder;
mod call;
mod call_result;
mod captured_stream;
mod change;
mod command_line;
mod command_result;
mod command_runner;
mod deadline;
mod denials;
mod escape;
mod file_changes;
mod gate;
mod host_questions;
mod hosts;
mod mount_access;
mod output;
mod output_store;
mod params;
mod path_locks;
mod processes;
mod programs;
mod progress;
mod question_clock;
mod redact;
mod remote_file_tools;
mod result_quota;
mod run_answers;
mod runner;
mod shell_session;
mod spec;
mod time;
mod tool;
mod tool_context;
mod toolbox;
mod toolbox_inner;
pub mod tools;
mod tree_digest;
mod turn_limits;
mod unified;

pub use approval::{
    ApprovalAnswer, ApprovalRequest, Approver, AutoApprove, HostApprover, NoApprover,
};
pub use audit::{
    AuditLog, CallRecord, DecisionEntry, DecisionRecord, EventKind, MemoryRecorder, NoRecord,
    PolicyEvent, Recorder,
};
pub use blocking_handoff::BlockingHandoff;
pub use builder::{ToolboxBuilder, ToolboxError};
pub use call::ahead::PreparedCall;
pub use call::approved::ApprovedCall;
pub use call::ending::{SettledCalls, settle_calls};
pub use call::request::CallRequest;
pub use call_result::{
    CallFailure, CallResult, Caller, ErrorBody, ExecutionInfo, FailureCode, Reply,
};
pub use change::{Artifact, Effect, FileChange, ReviewedState};
pub use command_line::{CommandLine, CommandSegment, LineError};
pub use command_runner::{
    CommandRunner, CommandSpec, CommandStdin, ExitReport, LocalCommandRunner, RunningCommand,
    describe_exceeded,
};
pub use deadline::{Elapsed, within};
pub use denials::{describe_denials, relevant_denials};
pub use escape::{escape_controls, escape_exactly};
pub use gate::{
    Gate, GateRequest, Intent, Judgement, MountVerdicts, SafeDefaults, Verdict, VerdictReason,
};
pub use host_questions::HostQuestions;
pub use hosts::{
    CommandServices, CredentialService, NamedHostProxy, TemporaryPorts, describe_refused_hosts,
    open_sandbox, with_asked_ports,
};
pub use output::{Field, FieldKind, OutputSchema};
pub use output_store::Truncation;
pub use params::{ArgumentError, ArgumentType, Arguments, Param, ParamKind, Params, ToolArguments};
pub use processes::Processes;
pub use programs::ProgramList;
pub use progress::Progress;
pub use redact::{Redactor, SecretExcerpt, UnknownPlaceholder};
pub use remote_file_tools::RemoteFileTools;
pub use result_quota::{ResultPermit, ResultQuota};
pub use run_answers::RunAnswers;
pub use runner::{CallRunner, LocalRunner};
pub use spec::{Annotations, PreferredRunner, Risk, Spec};
pub use time::{millis, now_ms, rfc3339};
pub use tool::{BoxFuture, Invocation, ReplyFuture, Tool, TypedTool, blocking};
pub use tool_context::{ContextSnapshot, MAX_FILE_WRITE_KEY, ReadOnlyContext, ToolContext};
pub use toolbox::Toolbox;
pub use unified::diff_hunks;
