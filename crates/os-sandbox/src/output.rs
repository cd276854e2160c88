//! The end of a command and its output, in bounded memory.

use crate::captured::Captured;
use crate::enforcement::Enforcement;
use crate::exceeded::Exceeded;
use crate::exit::Exit;

/// The end of a command, its output, and its receipt.
///
/// ```
/// use os_sandbox::{Command, Directories, Plan, Policy, Requirement, Sandbox, Support};
///
/// # if !cfg!(target_os = "linux") { return Ok(()); }
/// let plan = Plan::new(&Policy::builder().build()?, &Support::detect(), Requirement::Enforce)?;
/// let sandbox = Sandbox::open(plan, Directories::user());
/// let output = Command::new(&sandbox, "echo").arg("hello").output()?;
/// assert_eq!((output.exit.code(), &*output.stdout.text()), (0, "hello\n"));
/// assert_eq!(output.enforcement.backend, sandbox.plan().backend());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The end of the command.
    pub exit: Exit,
    /// The limit that the command ran into.
    pub exceeded: Option<Exceeded>,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// The receipt, including the protected names that were found after the end.
    pub enforcement: Enforcement,
}
