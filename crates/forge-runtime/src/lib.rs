//! Workers: their grants, their calls of each other, and the loop that runs them with a model.
//!
//! A [`Session`] runs a tree of workers. Each worker holds a
//! [`Grant`](sandbox_config::Grant) that is never more than its caller's; [`equip`]
//! turns a grant into a [`Toolbox`](forge_tools::Toolbox), and nothing else can.
//! The model behind it is a [`Model`]: one of a [`ProviderEndpoint`], or a [`Playbook`], which
//! [`ScriptedModel`] plays against the real tools.
//!
//! # Words
//!
//! * **session**: one run of a worker tree, with its approver, records and budgets.
//! * **turn**: one answer of a model, with text and calls.
//! * **playbook**: a model that is a file.
//! * **transcript**: the record of all model input and output of a run, from which it can be
//!   resumed.
//! * **attempt**: a forbidden call of a hostile playbook, which a layer has to stop.
#![forbid(unsafe_code)]

mod budget;
mod confinement;
pub mod containers;
mod delegate;
mod docker;
mod equip;
mod gate;
mod model;
mod playbook;
mod providers;
mod report;
mod repositories;
mod retry;
mod schemas;
mod session;
mod shortened;
pub mod transcript;

pub use confinement::OsSandbox;
pub use delegate::CALL_WORKER;
pub use docker::{ContainerSource, ContainersUnavailable, NodeContainers};
pub use equip::{
    EquipError, Extras, Isolation, WorkerEquipment, describe_parent_proxy, equip, hosts_not_kept,
    programs,
};
pub use gate::GrantGate;
pub use model::{
    Message, Model, ModelError, ModelEvent, ModelRequest, Retry, StopReason, Thinking, TokenPrices,
    ToolCall, ToolDescription, ToolResult, Usage, Wire,
};
pub use playbook::{
    AttackAttempt, AttackAttempts, Playbook, PlaybookError, PlaybookRecorder, RECORDING_HEADER,
    ScriptedModel,
};
#[doc(hidden)]
pub use playbook::{FailScript, PlayedTurn, StreamScript, text_pieces};
pub use providers::{
    HttpModel, ProviderEndpoint, ProviderError, ProviderKey, ProviderKeyError, ResponseLimits,
};
#[doc(hidden)]
pub use providers::{read_stream, read_whole};
pub use report::{
    Dollars, ElapsedTime, ModelFailure, NoObserver, Observer, RunEvent, RunOutcome, RunReport,
};
pub use repositories::{RepositoriesUnavailable, RepositorySource};
pub use retry::RetryingModel;
pub use schemas::schema_mistakes;
pub use session::{Attachment, Conversation, Session, SessionBuilder, UsageTotals};
