//! Errors that the transport answers by itself, before rmcp sees the message.

use std::borrow::Cow;

use rmcp::model::{ErrorCode, RequestId};

pub(super) struct ErrorReply {
    pub(super) code: ErrorCode,
    pub(super) text: Cow<'static, str>,
    pub(super) id: Option<RequestId>,
}

impl ErrorReply {
    /// Of something that is not a request, or not one that can be told from others.
    pub(super) fn invalid_request(
        text: impl Into<Cow<'static, str>>,
        id: Option<RequestId>,
    ) -> Self {
        ErrorReply {
            code: ErrorCode::INVALID_REQUEST,
            text: text.into(),
            id,
        }
    }

    /// The error for a known method whose params do not fit it.
    pub(super) fn malformed(method: &str, id: RequestId) -> Self {
        ErrorReply {
            code: ErrorCode::INVALID_PARAMS,
            text: format!("The params of {method} are malformed.").into(),
            id: Some(id),
        }
    }
}
