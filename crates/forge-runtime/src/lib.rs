//! Workers: what they hold, whom they call, and the loop that runs them with a
//! model.
//!
//! A [`Session`] runs a tree of workers. Each worker holds a
//! [`Grant`](sandbox_config::Grant) that is never more than its caller's; [`equip`]
//! turns a grant into a [`Toolbox`](forge_tools::Toolbox), and nothing else can.
//! The model behind it is a [`Model`]: one of a [`Provider`], or a [`Playbook`], which
//! [`Scripted`] plays against the real tools and [`Wired`] over a real wire as well.
//!
//! # Words
//!
//! * **session**: one run of a worker tree, with its approver, records and budgets.
//! * **turn**: what a model says and calls at once.
//! * **playbook**: a model that is a file.
//! * **transcript**: what the models of a run saw and said, kept so that a run can go on.
//! * **attempt**: a call of a hostile playbook that something has to stop.
#![forbid(unsafe_code)]

mod budget;
#[cfg(feature = "docker")]
pub mod containers;
mod delegate;
#[cfg_attr(not(feature = "docker"), path = "no_docker.rs")]
mod docker;
mod equip;
mod gate;
#[cfg(feature = "wire")]
mod mock_provider;
mod model;
mod playbook;
#[cfg(feature = "providers")]
mod providers;
mod report;
mod repositories;
mod retry;
mod schemas;
mod session;
mod shortened;
pub mod transcript;

pub use delegate::CALL_WORKER;
pub use docker::Docker;
#[cfg(feature = "docker")]
pub use docker::{Containers, Unusable};
pub use equip::{EquipError, Equipped, Isolation, OsSandbox, equip, hosts_not_kept, programs};
pub use gate::GrantGate;
#[cfg(feature = "wire")]
pub use mock_provider::{WireError, Wired};
pub use model::{
    Event, Message, Model, ModelError, Models, Prices, Request, Retry, Stop, Thinking, ToolCall,
    ToolDescription, ToolResult, Usage,
};
pub use playbook::{
    Attempt, Attempts, Playbook, PlaybookError, PlaybookWire, RECORDED, Recording, Scripted,
};
#[cfg(feature = "providers")]
pub use providers::{BadKey, Bounds, Connection, Key, Provider, ProviderError, Wire};
#[cfg(feature = "providers")]
#[doc(hidden)]
pub use providers::{read_stream, read_whole};
pub use report::{Dollars, End, ModelFailure, NoObserver, Observer, RunEvent, RunReport, Time};
pub use repositories::{NoRepositories, Repositories};
pub use retry::Retrying;
pub use schemas::schema_mistakes;
pub use session::{Attachment, Conversation, Session, SessionBuilder, Used};
