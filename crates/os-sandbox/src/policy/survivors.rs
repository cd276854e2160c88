//! The fate of the processes that a command leaves behind.

/// The fate of the processes that a command leaves behind.
///
/// ```
/// use os_sandbox::{Policy, Survivors};
///
/// let policy = Policy::builder().survivors(Survivors::Left).build()?;
/// assert_eq!(policy.survivors(), Survivors::Left);
/// assert_eq!(Survivors::default(), Survivors::Ended);
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Survivors {
    /// They end with the command, whether it ends by itself, by a limit, by the caller or with the
    /// caller.
    #[default]
    Ended,
    /// They continue to run, as confined as the command was. Plan and receipt list the promise as
    /// absent, which then does not cause a refusal. The command has no supervisor, so a start costs
    /// less. A request or the limit on time ends only the command's first process, the limit
    /// applies only while the caller waits, and the first process also survives a caller that is
    /// killed. All commands of a plan share HOME and TMPDIR, which are removed with the plan.
    ///
    /// A pid namespace ends everything in any case.
    Left,
}
