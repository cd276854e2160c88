//! Mechanism of [`os_sandbox`] that runs commands in containers of a Docker engine. The engine
//! applies the namespaces, mounts, capabilities and limits, and a system call filter of this crate.
//!
//! [`Containers`] is the entry point: a caller passes [`Containers::support`] to
//! [`Support::with_docker`](os_sandbox::Support::with_docker) and the containers to
//! [`Sandbox::with_mechanism`](os_sandbox::Sandbox::with_mechanism). A plan uses the mechanism only
//! if the caller names it.

#![forbid(unsafe_code)]

mod address;
mod config;
mod container;
mod container_requests;
mod containers;
mod copy;
mod copy_streams;
mod engine;
mod engine_connector;
mod filter;
mod images;
mod inside_paths;
mod labels;
mod name;
mod namespace;
mod owner;
mod private_files;
mod probe;
mod reaper;
mod remote_mounts;
mod running;
mod settings;
mod start;
mod supervise;
mod tls;
mod transfer_container;

pub use address::Address;
pub use containers::Containers;
pub use copy::{CopyBackReport, CopyLimits, MountCopies};
pub use engine::Engine;
pub use images::Image;
pub use name::ImageName;
pub use probe::Probed;
pub use reaper::Reaped;
pub use settings::Settings;
