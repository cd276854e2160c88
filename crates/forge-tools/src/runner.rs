//! Where the work of a call is done. The executor decides about a call, hands it to a [`CallRunner`], and
//! does not know which one that is.

use crate::call::approved::ApprovedCall;
use crate::call_result::{CallFailure, Reply};
use crate::spec::{Risk, Spec};
use crate::tool::BoxFuture;

/// In this process, and commands as the worker's [`Processes`](crate::Processes) start them.
pub(crate) const LOCAL: &str = "local";

/// Does the work of calls that were decided about.
///
/// ```
/// use forge_tools::{ApprovedCall, BoxFuture, CallFailure, CallRunner, Reply};
///
/// /// As the local one, and says aloud what it does.
/// struct Loud;
///
/// impl CallRunner for Loud {
///     fn run(&self, call: ApprovedCall) -> BoxFuture<'_, Result<Reply, CallFailure>> {
///         eprintln!("{}", call.spec().name);
///         call.run()
///     }
/// }
/// # forge_tools::Toolbox::builder().runner(Loud).build().unwrap();
/// ```
pub trait CallRunner: Send + Sync + 'static {
    /// Does it. Called once for each call that goes ahead.
    ///
    /// # Errors
    ///
    /// The reason of the failure, in words that the model can act on.
    fn run(&self, call: ApprovedCall) -> BoxFuture<'_, Result<Reply, CallFailure>>;

    /// Returns where a call of this tool would run, for the person who is asked about it;
    /// `commands` is where commands of the worker run. A call that runs in `local` is made on a
    /// thread that may wait for files; any other must wait only for events that wake its future.
    fn place(&self, spec: &Spec, commands: &'static str) -> &'static str {
        match spec.risk {
            Risk::Exec => commands,
            Risk::ReadOnly | Risk::WritesWorkspace | Risk::WritesFs | Risk::Network => LOCAL,
        }
    }
}

/// The runner of a toolbox that was given no other: the tools themselves, in this process.
///
/// ```
/// # let _: &dyn forge_tools::CallRunner =
/// &forge_tools::LocalRunner;
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalRunner;

impl CallRunner for LocalRunner {
    fn run(&self, call: ApprovedCall) -> BoxFuture<'_, Result<Reply, CallFailure>> {
        call.run()
    }
}
