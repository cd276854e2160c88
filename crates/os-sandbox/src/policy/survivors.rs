//! What becomes of the processes that a command leaves behind.

/// What becomes of the processes that a command leaves behind.
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
    /// They are ended with it, however it ends: by itself, by a limit, by the caller or with it.
    #[default]
    Ended,
    /// They stay, as confined as the command was, for as long as they like: plan and receipt list
    /// the promise as absent, which is then no reason to refuse. Nobody supervises the command: a
    /// start costs less, but a request or the limit on time ends the command's first process only,
    /// the limit only while the caller waits, and a caller that is killed leaves that one too.
    /// HOME and TMPDIR are one for all commands of a plan, and go away with the plan.
    ///
    /// Under bubblewrap the namespace ends everything in any case.
    Left,
}
