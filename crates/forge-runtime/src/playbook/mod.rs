//! Playbooks: a model that is a file.
//!
//! A playbook lists, for each worker, the turns its model takes. Texts and call
//! arguments are templates over the *real* results of earlier calls, and
//! expectations fail the run loudly when a tool answered otherwise. Nothing is
//! mocked: the calls go through the same executor, sandbox and audit as any
//! model's. So a playbook is a demo, a regression test of workers, and a way to
//! show what happens when a model turns hostile.

mod attempts;
mod file;
mod recorder;
mod scripted;
mod templates;
mod validation;

pub use attempts::{AttackAttempt, AttackAttempts};
#[cfg(feature = "wire")]
pub(crate) use file::StreamScript;
pub use file::{Playbook, PlaybookError, PlaybookWire};
pub use recorder::{PlaybookRecorder, RECORDING_HEADER};
#[cfg(feature = "wire")]
pub(crate) use scripted::PlayedTurn;
pub use scripted::ScriptedModel;
