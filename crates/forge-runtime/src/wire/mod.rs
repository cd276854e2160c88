//! Playbooks behind the real wire: a server on loopback that speaks the vendors' formats.
//!
//! [`Wired`] is a [`Model`]: a [`Playbook`](crate::Playbook) that is played not into the loop
//! but into a server, and comes back through the client that real providers are spoken to with.
//! So a run with a playbook exercises all that a run with a provider does: the request that is
//! built, the parser of streams, retries, budgets.
//!
//! ```text
//! loop ── Request ──▶ Connection ── HTTP ──▶ server ── Asked ──▶ Scripted
//!   │                     ▲                     │                    │
//!   │                     └── bytes of a vendor ┴──── Played ◀───────┘
//!   └── details of results, worker's name ──▶ Desk ──▶ server
//! ```
//!
//! The wire carries what a vendor would get, and nothing else. What templates need beyond it
//! (the structured results, the worker's name) lies on the [`desk`] meanwhile, inside the
//! process; the key of the request is the ticket that fetches it, a fresh one for every turn.
//! What arrives is held against what was sent: a client that loses something is told so.

mod answer;
mod anthropic;
mod asked;
mod beside;
mod chat;
mod desk;
mod frames;
mod responses;
mod schemas;
mod server;
#[cfg(test)]
mod tests;
mod wired;

pub use wired::{WireError, Wired};
