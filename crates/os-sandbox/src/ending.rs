//! Commands that have not ended, so that a program can wait for all of them before its own end. The
//! work after a command is a part of it: names that it created are moved away then.

use crate::quarantine::Quarantined;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bound on the stored findings from the ends of dropped commands.
#[cfg(feature = "tokio")]
const MAX_FOUND: usize = 1_000;

/// The commands of this process that have not ended.
struct UnendedCommands {
    count: usize,
    /// The findings that no caller has taken.
    found: Vec<Quarantined>,
}

static UNENDED: Mutex<UnendedCommands> = Mutex::new(UnendedCommands {
    count: 0,
    found: Vec::new(),
});
static ENDED: Condvar = Condvar::new();

fn unended() -> MutexGuard<'static, UnendedCommands> {
    UNENDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a command from before its start until the work after its end is done.
#[derive(Debug)]
pub(crate) struct CountedCommand(());

impl CountedCommand {
    pub(crate) fn new() -> CountedCommand {
        unended().count += 1;
        CountedCommand(())
    }
}

impl Drop for CountedCommand {
    fn drop(&mut self) {
        unended().count -= 1;
        ENDED.notify_all();
    }
}

/// Waits until every command of this process has ended and its leftovers were handled, at most for
/// `within`, and returns the names that were quarantined by then after commands whose
/// [`AsyncChild`](crate::AsyncChild) was dropped. For programs before their own end: otherwise that
/// work stops with them. It ends no command by itself.
///
/// ```
/// use std::time::Duration;
///
/// assert!(os_sandbox::settle(Duration::from_secs(1)).is_empty());
/// ```
#[must_use]
pub fn settle(within: Duration) -> Vec<Quarantined> {
    let waited = ENDED.wait_timeout_while(unended(), within, |unended| unended.count > 0);
    let (mut unended, _) = waited.unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut unended.found)
}

/// Keeps findings that no caller takes any more.
#[cfg(feature = "tokio")]
pub(crate) fn keep(found: Vec<Quarantined>) {
    let mut unended = unended();
    let room = MAX_FOUND.saturating_sub(unended.found.len());
    unended.found.extend(found.into_iter().take(room));
}

/// Waits for the end of a dropped command, and handles its leftovers.
#[cfg(feature = "tokio")]
pub(crate) fn end((mut process, counted): (Box<dyn crate::process::Process>, CountedCommand)) {
    keep(process.finish_dropped());
    drop(process);
    drop(counted);
}
