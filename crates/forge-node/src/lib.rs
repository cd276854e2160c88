//! Tools and commands in another place: the protocol between a *broker*, which decides about calls,
//! and a *node*, which does their work at its place (in a container, mostly).
//!
//! The node is this program itself: its tools, on a sandbox of one kind, and its commands under a
//! plan of one kind, so that limits, endings, texts and refusals are as in a local run.
//! `docs/node.md` describes the protocol. It runs over any two streams; when the stream from the
//! broker ends, the node ends everything that it started, and itself.
//!
//! * [`serve`]: the node's side.
//! * [`NodeClient`]: the broker's side of one connection, made with a [`Setup`].
//! * [`NodeRunner`] and [`NodeCommandRunner`]: they let the file tools and the commands of a
//!   [`Toolbox`](forge_tools::Toolbox) work there; both take nodes from a [`NodeSource`].
//!
//! # Over a pipe of this process
//!
//! ```
//! use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
//! use forge_node::{NodeConnectOptions, ServeOptions, NodeClient, NodeRunner, PathMapping, Setup, serve};
//! use forge_tools::{CallRequest, Toolbox};
//! use serde_json::json;
//!
//! # let rt = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
//! # rt.block_on(async {
//! # let dir = tempfile::tempdir().unwrap();
//! std::fs::write(dir.path().join("a.md"), "hello").unwrap();
//! let authority = cap_std::ambient_authority();
//! let data = SandboxPath::parse("/data").unwrap();
//! let mount = Mount::open_ambient(data, dir.path(), Mode::ReadOnly, authority).unwrap();
//! let files = FileSandbox::new(vec![mount]).unwrap();
//!
//! let (ours, theirs) = tokio::io::duplex(64 * 1024);
//! let (reader, writer) = tokio::io::split(theirs);
//! tokio::spawn(serve(reader, writer, ServeOptions::new(authority)));
//!
//! let setup = Setup::new().files(&files, &PathMapping::Same).unwrap();
//! let (reader, writer) = tokio::io::split(ours);
//! let node = NodeClient::connect(reader, writer, setup, NodeConnectOptions::new("elsewhere")).await.unwrap();
//! let toolbox = Toolbox::builder().files(files).runner(NodeRunner::new(node)).build().unwrap();
//!
//! let read = toolbox.call(CallRequest::new("read_file", json!({"path": "/data/a.md"}))).await;
//! assert_eq!((read.content.as_str(), read.runner), ("hello", "elsewhere"));
//! let write = json!({"path": "/data/a.md", "content": "x"});
//! let refused = toolbox.call(CallRequest::new("write_file", write)).await;
//! assert_eq!(refused.error.unwrap().code, "READ_ONLY");
//! # });
//! ```
#![forbid(unsafe_code)]

mod calls;
mod client;
mod command;
mod connection;
mod error;
mod files;
mod frame;
mod message;
mod node_state;
mod path_mapping;
mod runner;
mod server;
mod setup;
mod task;
mod usage;
mod window;
mod wire_commands;
mod wire_files;

pub use client::{NodeClient, NodeConnectOptions};
pub use command::{CommandEvent, NodeCommand, NodeCommandRunner};
pub use error::NodeError;
pub use message::{PROTOCOL, Stats};
pub use path_mapping::PathMapping;
pub use runner::{CallCompletion, NodeRunner, NodeSource};
pub use server::{ServeOptions, serve};
pub use setup::Setup;
