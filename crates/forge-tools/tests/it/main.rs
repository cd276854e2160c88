//! Behaviour from outside: calls in, results and records out.

mod executor;
#[cfg(feature = "mcp")]
mod mcp;
mod support;
mod texts;
