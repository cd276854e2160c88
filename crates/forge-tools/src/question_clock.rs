//! The time limit of a command that asks: the time of questions does not count.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sandbox_network::AskHost;

/// Bound on the time that the questions of one command take.
pub(crate) const MAX_ASKING: Duration = Duration::from_secs(60 * 60);

/// The questions of a command, and the clock that they stop.
#[derive(Clone, Debug)]
pub(crate) struct AskingCommand {
    pub(crate) asker: Arc<dyn AskHost>,
    pub(crate) clock: Arc<QuestionClock>,
}

/// The clock of a command, which stands still while a person is asked.
#[derive(Debug, Default)]
pub(crate) struct QuestionClock {
    state: Mutex<ClockState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ClockState {
    /// Open questions.
    open: usize,
    /// The begin of the oldest open question.
    since: Option<Instant>,
    /// The time of questions that are closed.
    closed: Duration,
    has_ended: bool,
    timed_out: bool,
}

/// An open question.
pub(crate) struct Pause<'a>(&'a QuestionClock);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.open -= 1;
        if state.open == 0
            && let Some(since) = state.since.take()
        {
            state.closed += since.elapsed();
        }
        self.0.changed.notify_all();
    }
}

impl QuestionClock {
    fn lock(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the clock until the returned value is dropped.
    pub(crate) fn pause(&self) -> Pause<'_> {
        let mut state = self.lock();
        state.open += 1;
        state.since.get_or_insert_with(Instant::now);
        Pause(self)
    }

    /// Waits until the command has ended, or ends it at its limit. Returns at the end.
    fn watch(&self, begun: Instant, limit: Duration, kill: impl FnOnce()) {
        let mut state = self.lock();
        while !state.has_ended {
            let left = (limit + state.closed).saturating_sub(begun.elapsed());
            if state.open > 0 {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            } else if left.is_zero() {
                state.timed_out = true;
                drop(state);
                return kill();
            } else {
                let waited = self.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

/// Ends a command at its time limit, in which questions do not count.
pub(crate) struct CommandDeadline {
    clock: Arc<QuestionClock>,
    watch: Option<JoinHandle<()>>,
}

impl CommandDeadline {
    /// Starts the watch.
    ///
    /// # Errors
    /// The system is out of threads.
    pub(crate) fn start(
        clock: &Arc<QuestionClock>,
        limit: Duration,
        kill: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<CommandDeadline> {
        let (begun, own) = (Instant::now(), Arc::clone(clock));
        let watch = std::thread::Builder::new().spawn(move || own.watch(begun, limit, kill))?;
        Ok(CommandDeadline {
            clock: Arc::clone(clock),
            watch: Some(watch),
        })
    }

    /// Ends the watch; `true` if it has ended the command.
    pub(crate) fn end(mut self) -> bool {
        self.stop();
        self.clock.lock().timed_out
    }

    fn stop(&mut self) {
        self.clock.lock().has_ended = true;
        self.clock.changed.notify_all();
        if let Some(watch) = self.watch.take() {
            let _panicked = watch.join();
        }
    }
}

impl Drop for CommandDeadline {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A watchdog: nothing here takes that long.
    const WATCHDOG: Duration = Duration::from_secs(120);

    #[test]
    fn a_command_is_ended_at_its_limit() {
        let clock = Arc::default();
        let (kill, killed) = mpsc::channel();
        let limit = Duration::from_millis(1);
        let deadline =
            CommandDeadline::start(&clock, limit, move || kill.send(()).unwrap()).unwrap();
        killed.recv_timeout(WATCHDOG).unwrap();
        assert!(deadline.end());
    }

    #[test]
    fn a_question_does_not_count() {
        let clock: Arc<QuestionClock> = Arc::default();
        let (kill, killed) = mpsc::channel();
        let pause = clock.pause();
        let limit = Duration::from_millis(1);
        let kill = move || kill.send(()).unwrap();
        let deadline = CommandDeadline::start(&clock, limit, kill).unwrap();
        let inner = clock.pause();
        drop(pause);
        std::thread::sleep(Duration::from_millis(100));
        killed.try_recv().unwrap_err();
        drop(inner);
        killed.recv_timeout(WATCHDOG).unwrap();
        assert!(deadline.end());
    }

    #[test]
    fn the_end_of_a_command_ends_its_watch() {
        let clock = Arc::default();
        let kill = || panic!("it has ended");
        let deadline = CommandDeadline::start(&clock, Duration::from_secs(3600), kill).unwrap();
        assert!(!deadline.end());
    }
}
