//! Reasons why a node is missing or gone.

use forge_tools::{CallFailure, FailureCode};

/// The reason why a node is missing or gone; for people.
///
/// ```
/// use forge_node::NodeError;
/// let error = NodeError::Version { ours: 1, theirs: 2, their_program: "9.0.0".into() };
/// assert!(error.to_string().contains("protocol 2"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The other side speaks another version.
    #[error(
        "this forge ({}) speaks protocol {ours} with nodes, and the other side ({their_program}) \
         protocol {theirs}",
        env!("CARGO_PKG_VERSION")
    )]
    Version {
        /// The protocol that is spoken here.
        ours: u32,
        /// That of the other side.
        theirs: u32,
        /// The version of its program.
        their_program: String,
    },
    /// The bytes were not a node's.
    #[error("the other side is not a node: {why}{}", told(.said))]
    Garbage {
        /// The mistake in them.
        why: String,
        /// The beginning of the bytes, controls made visible.
        said: String,
    },
    /// The node cannot provide the requested setup.
    #[error("the node refused its setup: {0}")]
    Refused(String),
    /// This cannot be had in a node.
    #[error("not to be had in a node: {0}")]
    Unsupported(String),
    /// It is not there any more.
    #[error("the node ended: {0}")]
    Ended(String),
    /// It did not answer in time.
    #[error("the node did not answer within {seconds} seconds")]
    Late {
        /// So long it was waited for.
        seconds: u64,
    },
}

fn told(said: &str) -> String {
    match said {
        "" => String::new(),
        said => format!("; it said `{said}`"),
    }
}

/// For the model, which is told of no place and no program.
impl From<NodeError> for CallFailure {
    fn from(error: NodeError) -> CallFailure {
        match error {
            NodeError::Ended(_) => ended(),
            NodeError::Version { .. }
            | NodeError::Garbage { .. }
            | NodeError::Refused(_)
            | NodeError::Unsupported(_)
            | NodeError::Late { .. } => FailureCode::IsolationUnavailable
                .failure("The isolation that this call needs is not available; nothing was done."),
        }
    }
}

impl NodeError {
    /// The bytes of the other side are valid frames and a mistake.
    pub(crate) fn garbage(why: impl Into<String>) -> NodeError {
        NodeError::Garbage {
            why: why.into(),
            said: String::new(),
        }
    }
}

/// A failure of the protocol, which nothing that a model does can cause.
pub(crate) fn internal(message: impl Into<String>) -> CallFailure {
    FailureCode::Internal.failure(message)
}

/// The node ended in the middle of a call.
pub(crate) fn ended() -> CallFailure {
    FailureCode::IsolationEnded
        .failure("The isolation that this call ran in ended before the call did.")
        .hint("Look at what it has done before you try again: some of it may still be under way.")
}
