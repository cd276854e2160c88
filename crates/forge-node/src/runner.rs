//! The runner whose file tools work in a node.

use std::sync::Arc;

use forge_tools::{
    ApprovedCall, BoxFuture, CallFailure, CallRunner, EventKind, FailureCode, LocalRunner,
    PolicyEvent, RemoteFileTools, Reply, Spec,
};
use sandbox_network::AskHost;
use serde_json::Value;

use crate::client::NodeClient;

/// The source of nodes: one for each call, or one for many.
///
/// A [`NodeClient`] is a source of itself.
///
/// ```
/// use forge_node::{NodeClient, NodeError, NodeSource};
/// use forge_tools::{BoxFuture, CallFailure};
///
/// struct NotToday;
///
/// impl NodeSource for NotToday {
///     fn place(&self) -> &'static str {
///         "elsewhere"
///     }
///     fn node(&self) -> BoxFuture<'_, Result<NodeClient, CallFailure>> {
///         Box::pin(async { Err(NodeError::Unsupported("not today".into()).into()) })
///     }
/// }
/// ```
pub trait NodeSource: Send + Sync + 'static {
    /// Where they are, in previews and records.
    fn place(&self) -> &'static str;

    /// Returns a node for one call. Awaited also where only wakers wake it, so work that needs a
    /// runtime's drivers belongs in a task of one.
    ///
    /// # Errors
    ///
    /// No node is available, in words for the model.
    fn node(&self) -> BoxFuture<'_, Result<NodeClient, CallFailure>>;

    /// Returns a node for one command that asks about the hosts that no rule names. By default it does
    /// not ask, and those hosts are refused.
    ///
    /// # Errors
    ///
    /// As [`node`](Self::node).
    fn node_asking(&self, ask: Arc<dyn AskHost>) -> BoxFuture<'_, Result<NodeClient, CallFailure>> {
        drop(ask);
        self.node()
    }

    /// Ends a call in `node`. Afterwards its changes are where the broker looks for them, and
    /// forbidden leftovers were handled. Awaited as [`node`](Self::node) is.
    ///
    /// # Errors
    ///
    /// Its changes are missing, in words for the model.
    fn over(&self, node: NodeClient) -> BoxFuture<'_, Result<CallCompletion, CallFailure>> {
        drop(node);
        Box::pin(async { Ok(CallCompletion::default()) })
    }
}

/// The facts that are known once a call in a node is over.
///
/// ```
/// let over = forge_node::CallCompletion {
///     exceeded: Some("more than 64 MiB of memory".into()),
///     ..forge_node::CallCompletion::default()
/// };
/// assert!(over.quarantined.is_empty());
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallCompletion {
    /// The limit of the node's surroundings that something in them reached, in words for the model.
    pub exceeded: Option<String>,
    /// Protected names that were taken away, as the call saw them.
    pub quarantined: Vec<String>,
    /// The confinement of the node, as it is known now; `None` if nothing was found out since.
    pub receipt: Option<Value>,
}

impl NodeSource for NodeClient {
    fn place(&self) -> &'static str {
        NodeClient::place(self)
    }

    fn node(&self) -> BoxFuture<'_, Result<NodeClient, CallFailure>> {
        Box::pin(async { Ok(self.clone()) })
    }
}

/// Lets file tools do their work in a node. All other tools work here: commands are started by the
/// worker's [`Processes`](forge_tools::Processes), stored results are in this process, and the calls of a
/// called worker are placed one by one.
///
/// See the [module](crate):
///
/// ```
/// fn of(node: forge_node::NodeClient) -> forge_node::NodeRunner {
///     forge_node::NodeRunner::new(node)
/// }
/// ```
#[derive(Clone)]
pub struct NodeRunner {
    source: Arc<dyn NodeSource>,
    names: Arc<[String]>,
}

impl NodeRunner {
    /// In nodes of this source.
    pub fn new(source: impl NodeSource) -> NodeRunner {
        NodeRunner::shared(Arc::new(source))
    }

    /// Uses a source that is shared with others.
    pub fn shared(source: Arc<dyn NodeSource>) -> NodeRunner {
        NodeRunner {
            source,
            names: RemoteFileTools::names().into(),
        }
    }

    /// Returns `true` if a node does the work of this tool.
    pub fn takes(&self, spec: &Spec) -> bool {
        self.names.contains(&spec.name)
    }
}

impl CallRunner for NodeRunner {
    fn run(&self, call: ApprovedCall) -> BoxFuture<'_, Result<Reply, CallFailure>> {
        // A foreign tool of this name is in no toolbox that holds files.
        if !self.takes(call.spec()) || call.context().files().is_err() {
            return call.run();
        }
        Box::pin(async move {
            let node = self.source.node().await?;
            let outcome = node.call(&call).await;
            let over = self.source.over(node).await;
            let (mut reply, over) = joined(outcome, over)?;
            let taken = over.quarantined.iter();
            reply
                .ran
                .events
                .extend(taken.map(|path| PolicyEvent::new(EventKind::Quarantined, path)));
            settled(&mut reply.ran.enforcement, over.receipt);
            Ok(reply)
        })
    }

    fn place(&self, spec: &Spec, commands: &'static str) -> &'static str {
        match self.takes(spec) {
            true => self.source.place(),
            false => LocalRunner.place(spec, commands),
        }
    }
}

/// Joins the outcome of a call with the facts of its end. If memory runs out in a container, the kernel
/// ends the largest process, which can be the node: then the failure names the limit.
pub(crate) fn joined<T>(
    outcome: Result<T, CallFailure>,
    over: Result<CallCompletion, CallFailure>,
) -> Result<(T, CallCompletion), CallFailure> {
    match (outcome, over) {
        (Ok(outcome), over) => over.map(|over| (outcome, over)),
        (Err(mut failure), Ok(over)) if failure.code == FailureCode::IsolationEnded => {
            if let Some(limit) = over.exceeded {
                failure.message.push_str(&format!(" It used {limit}."));
            }
            Err(failure)
        }
        (Err(failure), _) => Err(failure),
    }
}

/// Completes the receipt of a call with the findings at its end.
pub(crate) fn settled(receipt: &mut Option<Value>, over: Option<Value>) {
    let (Some(Value::Object(known)), Some(Value::Object(mut outer))) = (&mut *receipt, over) else {
        return;
    };
    if let Some(inside) = known.remove("inside") {
        outer.insert("inside".to_owned(), inside);
    }
    *receipt = Some(Value::Object(outer));
}
