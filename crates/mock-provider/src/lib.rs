//! The server's side of the providers' wires, on loopback, for tests.
//!
//! [`MockModel`] is a [`Model`](forge_runtime::Model): a [`Playbook`](forge_runtime::Playbook) that is
//! played into a server and comes back through the client that real providers are spoken to with. So
//! a test exercises the request that is built, the parser of streams, retries and budgets.
//!
//! ```text
//! loop ── ModelRequest ──▶ HttpModel ── HTTP ──▶ server ── ParsedRequest ──▶ ScriptedModel
//!   │                         ▲                     │                    │
//!   │                         └── bytes of a vendor ┴──── PlayedTurn ◀───┘
//!   └── details of results, worker's name ──▶ PendingTurns ──▶ server
//! ```
//!
//! The wire carries exactly the content for a vendor. The rest that templates need (the structured
//! results, the worker's name) waits in `pending`, inside the process; the key of the request, a
//! fresh one for every turn, retrieves it. The received request is compared with the sent one: a
//! client that loses a part gets an error.
#![forbid(unsafe_code)]

mod anthropic;
mod chat;
mod diff;
mod mock_model;
mod parsed_request;
mod pending;
mod response;
mod responses;
mod schemas;
mod server;
mod stream_event;
#[cfg(test)]
mod tests;

pub use mock_model::{MockModel, MockProviderError};
