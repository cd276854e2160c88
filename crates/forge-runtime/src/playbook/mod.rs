//! Playbooks: a model that is a file.
//!
//! A playbook lists, for each worker, the turns its model takes. Texts and call arguments are
//! templates over the *real* results of earlier calls, and a failed expectation fails the run with
//! its message. Tools are not mocked: the calls go through the executor, sandbox and audit of every
//! model. So a playbook is a demo, a regression test of workers, and a demonstration of a hostile
//! model.

mod attempts;
mod file;
mod parse;
mod played_turn;
mod recorder;
mod scripted;
mod structure;
mod templates;
mod validation;

pub use attempts::{AttackAttempt, AttackAttempts};
pub use file::{FailScript, Playbook, StreamScript};
pub use parse::PlaybookError;
pub use played_turn::{PlayedTurn, text_pieces};
pub use recorder::{PlaybookRecorder, RECORDING_HEADER};
pub use scripted::ScriptedModel;
