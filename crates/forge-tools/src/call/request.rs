//! A call as a client makes it.

use std::sync::Arc;

use serde_json::Value;

use crate::approval::Approver;
use crate::blocking_handoff::BlockingHandoff;
use crate::progress::Progress;
use crate::result_quota::ResultPermit;

/// A call as a model made it.
///
/// ```
/// let call = forge_tools::CallRequest::new("read_file", serde_json::json!({"path": "/a"}));
/// assert_eq!(call.tool, "read_file");
/// ```
#[derive(Clone)]
pub struct CallRequest {
    /// The tool's name, in any spelling it answers to.
    pub tool: String,
    /// The arguments as they came.
    pub arguments: Value,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) progress: Option<Progress>,
    pub(crate) place: Option<ResultPermit>,
    pub(crate) handoff: Option<BlockingHandoff>,
}

sandbox_names::debug!(CallRequest { tool, arguments });

impl CallRequest {
    /// A call of `tool` with `arguments`.
    pub fn new(tool: impl Into<String>, arguments: Value) -> Self {
        CallRequest {
            tool: tool.into(),
            arguments,
            approver: None,
            progress: None,
            place: None,
            handoff: None,
        }
    }

    sandbox_names::setters! {
        /// Sets the approver of this call, in place of the toolbox's own: a client that can be asked in
        /// the conversation that the call came in.
        asking(approver: Arc<dyn Approver>) => approver = Some(approver);
        /// Sets the permit for the result, until the client has taken it; see
        /// [`ResultQuota`](crate::ResultQuota).
        with_result_permit(place: ResultPermit) => place = Some(place);
        /// Lets another thread serve other calls while this one blocks its own; see
        /// [`BlockingHandoff`]. Otherwise each call that may wait for files has a thread of its own.
        with_blocking_handoff(handoff: BlockingHandoff) => handoff = Some(handoff);
        /// Sets the receiver of the tool's progress.
        reporting(progress: Progress) => progress = Some(progress);
    }
}
