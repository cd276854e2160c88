//! Behaviour from outside: calls in, results and records out.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[cfg(feature = "process")]
mod commands;
mod executor;
#[cfg(feature = "mcp")]
mod mcp;
mod support;
mod texts;
