//! Run a command confined by the kernel, and know exactly what was enforced.
//!
//! # Terms
//!
//! - *policy*: the access of a command; pure data, the same on every system ([`Policy`])
//! - *support*: the mechanisms that this host can enforce, found by probes ([`Support`])
//! - *plan*: policy × support → the mechanism that keeps each promise, and the gaps ([`Plan`])
//! - *sandbox*: an opened plan, with the resources that its commands share ([`Sandbox`])
//! - *boundary* and *guard*: a promise without which a command does not start, and one that a plan
//!   lists as absent when it cannot be kept ([`Rank`])
//! - *broker* and *target*: the calling program, and the confined one
//! - *receipt*: the restrictions that were applied to a command ([`Enforcement`])
//!
//! # Allowed
//!
//! ```
//! use os_sandbox::{
//!     Access, Command, Directories, Exit, Plan, Policy, Requirement, Sandbox, Support,
//! };
//!
//! # let project = std::env::temp_dir().join(format!("os-sandbox-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&project)?;
//! let policy = Policy::builder().mount(&project, "/", Access::ALL).build()?;
//! # if !cfg!(target_os = "linux") { return Ok(()); }
//! let plan = Plan::new(&policy, &Support::detect(), Requirement::Enforce)?;
//! let sandbox = Sandbox::open(plan, Directories::user());
//! let output = Command::new(&sandbox, "sh").args(["-c", "echo hello > note; cat note"]).output()?;
//! assert_eq!(output.exit, Exit::Code(0));
//! assert_eq!(output.stdout.text(), "hello\n");
//! assert_eq!(output.enforcement.policy, policy.hash()); // the receipt
//! # std::fs::remove_dir_all(&project)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Denied
//!
//! ```
//! use os_sandbox::{Command, Directories, Exit, Plan, Policy, Requirement, Sandbox, Support};
//!
//! # if !cfg!(target_os = "linux") { return Ok(()); }
//! let plan = Plan::new(&Policy::builder().build()?, &Support::detect(), Requirement::Enforce)?;
//! let sandbox = Sandbox::open(plan, Directories::user());
//! let output = Command::new(&sandbox, "cat").arg("/etc/shadow").output()?;
//! assert_ne!(output.exit, Exit::Code(0));
//! assert_eq!(output.stdout.text(), "");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! All features are off by default.
//!
//! - `serde`: plans and receipts can be serialised, and the hosts and local sockets of a policy also
//!   read
//! - `tokio`: an async interface
//! - `birdcage`: one more mechanism ([`Backend::Birdcage`]), by the program of the crate
//!   `os-sandbox-birdcage`, which is linked with the crate [birdcage](https://docs.rs/birdcage).
//!   birdcage is licensed under the **GPL-3.0-or-later**, other than this crate: that program is a
//!   derived work of it.
//!
//! # In reading order

#![forbid(unsafe_code)]
#![cfg_attr(
    not(target_os = "linux"),
    expect(
        dead_code,
        unused_imports,
        reason = "what only the backend of Linux uses is checked everywhere"
    )
)]

mod access;
#[cfg(feature = "tokio")]
mod async_child;
mod backend;
pub mod birdcage;
mod captured;
mod child;
mod command;
mod denials;
mod detection;
mod ending;
mod enforcement;
mod error;
mod escape;
mod exceeded;
mod exit;
mod findings;
mod git_config;
mod holes;
mod host_proxy;
mod key_files;
mod layout;
pub mod mechanism;
mod output;
mod plan;
mod policy;
mod process;
mod promise;
mod proof;
mod quarantine;
mod reports;
mod sandbox;
mod scratch;
mod seatbelt;
mod seccomp;
mod single_name;
mod state_dir;
mod streams;
mod support;
mod survey;
mod terminal;
mod writers;

#[cfg(not(target_os = "linux"))]
mod plain;
#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
mod platform;
#[cfg(target_os = "macos")]
#[path = "macos/mod.rs"]
mod platform;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
#[path = "unsupported.rs"]
mod platform;

pub use access::Access;
#[cfg(feature = "tokio")]
pub use async_child::AsyncChild;
pub use backend::Backend;
pub use captured::{Captured, Gap};
pub use child::{Child, Stream};
pub use command::{Command, Session};
pub use denials::{Denial, DenialReason, DeniedOperation};
pub use ending::settle;
pub use enforcement::{EndedProcesses, Enforcement, HiddenPath, ShownContainer, ShownMount};
pub use error::{Error, ErrorKind};
pub use exceeded::Exceeded;
pub use exit::Exit;
pub use git_config::GitConfigChange;
pub use holes::KnownVulnerability;
pub use host_proxy::{
    CommandSockets, Contact, ContactKind, ContactOutcome, ContactTotal, Contacts, HostProxy,
    ProxyPassword, ProxySession, ProxySockets, PublishedPort, listen_on_loopback,
};
pub use output::Output;
pub use plan::{Plan, PlanError, Requirement};
pub use platform::{ActiveCommand, QuarantineRecords, StartLock, find_possible_writer};
pub use policy::{
    Environment, Git, GitConfig, Limits, MAX_PUBLISHED_PORTS, Mount, NamedHosts, Network,
    OverlayDirs, ParentProxySetting, Policy, PolicyBuilder, ProgramDir, Survivors, System,
    UnixSockets,
};
pub use process::Killer;
pub use promise::{Enforcer, Entry, Promise, PromiseState, Rank};
pub use proof::{Expected, Observation, Proof, ProofCheck};
pub use quarantine::{QUARANTINE, QuarantineState, Quarantined};
pub use reports::{ReportLevel, Touched};
pub use sandbox::{Directories, Sandbox};
pub use seatbelt::{SeatbeltProfile, SeatbeltRun};
pub use single_name::separate_names;
pub use streams::Stdio;
pub use support::{Bubblewrap, HostSpec, MechanismReport, Support};
pub use survey::Survey;
pub use terminal::{Terminal, TerminalEvent};
pub use writers::{FoundFile, PossibleWriter};
