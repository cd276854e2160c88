//! Where the work of a call is done. The executor decides about a call, hands it to a [`Runner`], and
//! does not know which one that is.

use crate::call::{Failure, Reply};
use crate::hands::Hands;
use crate::params::Arguments;
use crate::spec::{Risk, Spec};
use crate::tool::{BoxFuture, Tool};

/// In this process, and commands as the worker's [`Processes`](crate::Processes) start them.
pub(crate) const LOCAL: &str = "local";

/// Does the work of calls that were decided about.
///
/// ```
/// use forge_tools::{Arguments, BoxFuture, Failure, Hands, Reply, Runner, Tool};
///
/// /// As the local one, and says aloud what it does.
/// struct Loud;
///
/// impl Runner for Loud {
///     fn run<'a>(
///         &'a self,
///         tool: &'a dyn Tool,
///         args: Arguments,
///         hands: Hands,
///     ) -> BoxFuture<'a, Result<Reply, Failure>> {
///         eprintln!("{}", tool.spec().name);
///         tool.run(args, hands)
///     }
/// }
/// # forge_tools::Toolbox::builder().runner(Loud).build().unwrap();
/// ```
pub trait Runner: Send + Sync + 'static {
    /// Does it. Called once for each call that goes ahead, with the [`Hands`] that only the
    /// executor makes.
    ///
    /// # Errors
    ///
    /// Whatever went wrong, in words that the model can act on.
    fn run<'a>(
        &'a self,
        tool: &'a dyn Tool,
        args: Arguments,
        hands: Hands,
    ) -> BoxFuture<'a, Result<Reply, Failure>>;

    /// Where a call of this tool would run, for whoever is asked about it; `commands` is where
    /// commands of the worker run. A call that is said to run in `local` is made on a thread that
    /// may wait for files; any other must wait for nothing else than what wakes its future.
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
/// # let _: &dyn forge_tools::Runner =
/// &forge_tools::LocalRunner;
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalRunner;

impl Runner for LocalRunner {
    fn run<'a>(
        &'a self,
        tool: &'a dyn Tool,
        args: Arguments,
        hands: Hands,
    ) -> BoxFuture<'a, Result<Reply, Failure>> {
        tool.run(args, hands)
    }
}
