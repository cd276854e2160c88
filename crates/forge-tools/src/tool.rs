//! The contract of a tool and of one call of it.

use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde::de::DeserializeOwned;

use crate::call_result::{CallFailure, FailureCode, Reply};
use crate::change::FileChange;
use crate::gate::{Intent, VerdictReason};
use crate::params::{Arguments, ToolArguments};
use crate::spec::Spec;
use crate::tool_context::{ReadOnlyContext, ToolContext};

/// A future that can cross threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The result of [`Invocation::run`].
pub type ReplyFuture = BoxFuture<'static, Result<Reply, CallFailure>>;

/// One thing that a model may call.
///
/// ```
/// use std::sync::Arc;
/// use forge_tools::{CallFailure, Intent, Invocation, ReadOnlyContext, Reply, ReplyFuture};
/// use forge_tools::{Spec, Toolbox, ToolContext, TypedTool};
///
/// #[derive(serde::Deserialize)]
/// struct Ping {}
///
/// impl Invocation for Ping {
///     fn intents(&self, _: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
///         Ok(Vec::new())
///     }
///     fn run(self: Arc<Self>, _: ToolContext) -> ReplyFuture {
///         Box::pin(async { Ok(Reply::text("pong")) })
///     }
/// }
///
/// let ping = TypedTool::<Ping>::boxed(Spec::looks("ping", "Answers pong."));
/// let toolbox = Toolbox::builder().boxed_tool(ping).build().unwrap();
/// assert!(toolbox.specs().any(|spec| spec.name == "ping"));
/// ```
pub trait Tool: Send + Sync + 'static {
    /// The tool's description of itself; equal on every call.
    fn spec(&self) -> &Spec;

    /// Reads the arguments of one call, which fit the parameters of the spec.
    ///
    /// # Errors
    ///
    /// The tool does not read what its parameters accept.
    fn prepare(&self, args: &Arguments) -> Result<Arc<dyn Invocation>, CallFailure>;
}

/// One call of a tool, with its arguments read: the judged call is the one that runs.
pub trait Invocation: Send + Sync + 'static {
    /// Returns the intents of the call. Reads files, and changes nothing.
    ///
    /// # Errors
    ///
    /// When the worker is not able to do it at all: no approval can change that, so no question is
    /// asked.
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure>;

    /// Returns reasons to ask a person even if the tool is pre-approved. Usually empty. It is an
    /// *ask* that no preference answers (see [`Judgement::only_a_person`](crate::Judgement)). May
    /// read the files of the call, and blocks.
    fn confirmation_reasons(&self, _view: &ReadOnlyContext<'_>) -> Vec<VerdictReason> {
        Vec::new()
    }

    /// Checks for failures that are certain. Called only before a question, since the call itself
    /// would find them; blocks.
    ///
    /// # Errors
    ///
    /// The call cannot succeed: no question is asked.
    fn check(&self, _view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        Ok(())
    }

    /// Returns the changes that the call would make to files, for the person who is asked. Called
    /// only before a question; may read the files that the call would change, and blocks.
    fn preview(&self, _view: &ReadOnlyContext<'_>) -> Vec<FileChange> {
        Vec::new()
    }

    /// Does it. Only the executor can call this, since only it makes [`ToolContext`].
    ///
    /// # Errors
    ///
    /// The reason of the failure, in words that the model can act on.
    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture;
}

/// A tool whose arguments are all that a call of it needs.
pub struct TypedTool<A> {
    spec: Spec,
    args: PhantomData<fn() -> A>,
}

impl<A: Invocation + DeserializeOwned> TypedTool<A> {
    /// The tool with this description, whose parameters are the fields of `A`.
    pub fn boxed(spec: Spec) -> Box<dyn Tool> {
        Box::new(TypedTool::<A> {
            spec,
            args: PhantomData,
        })
    }
}

impl Spec {
    /// Returns the tool with this description, whose parameters are the fields of `A`.
    pub fn tool<A: Invocation + ToolArguments + DeserializeOwned>(self) -> Box<dyn Tool> {
        TypedTool::<A>::boxed(self.arguments::<A>())
    }
}

impl<A: Invocation + DeserializeOwned> Tool for TypedTool<A> {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn prepare(&self, args: &Arguments) -> Result<Arc<dyn Invocation>, CallFailure> {
        Ok(Arc::new(args.read::<A>()?))
    }
}

/// Runs blocking work without holding up the other calls.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # rt.block_on(async {
/// let reply = forge_tools::blocking(|| Ok(forge_tools::Reply::text("done"))).await;
/// assert_eq!(reply.unwrap().text, "done");
/// # });
/// ```
pub fn blocking<'a, F>(work: F) -> BoxFuture<'a, Result<Reply, CallFailure>>
where
    F: FnOnce() -> Result<Reply, CallFailure> + Send + 'static,
{
    Box::pin(async move {
        let stopped = || {
            FailureCode::Internal
                .failure("The tool stopped unexpectedly; nothing else was affected.")
        };
        if MAY_WAIT.get() {
            return catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(stopped()));
        }
        match tokio::task::spawn_blocking(work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(stopped()),
        }
    })
}

thread_local! {
    /// `true` if this thread may block, so that [`blocking`] runs the work here.
    static MAY_WAIT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` to its end on this thread, a worker thread of the runtime that may block.
pub(crate) fn here<T>(work: impl Future<Output = T>) -> T {
    struct Mark;
    impl Drop for Mark {
        fn drop(&mut self) {
            MAY_WAIT.set(false);
        }
    }
    let mut work = pin!(work);
    let mark = Mark;
    MAY_WAIT.set(true);
    let first = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    drop(mark);
    match first {
        Poll::Ready(outcome) => outcome,
        // It waits for something else than files, which only the runtime can wake it for.
        Poll::Pending => {
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work))
        }
    }
}
