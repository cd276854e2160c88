//! Worker trees on real directories, driven by playbooks.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod delegation;
mod rules;
mod support;
