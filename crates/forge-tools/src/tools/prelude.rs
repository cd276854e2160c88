//! Imports of every tool.

pub(super) use std::sync::Arc;

pub(super) use serde_json::json;

pub(super) use crate::arguments;
pub(super) use crate::call_result::{CallFailure, Reply};
pub(super) use crate::gate::Intent;
pub(super) use crate::output::Field;
pub(super) use crate::spec::Spec;
pub(super) use crate::tool::{Invocation, ReplyFuture, Tool, blocking};
pub(super) use crate::tool_context::{ReadOnlyContext, ToolContext};
