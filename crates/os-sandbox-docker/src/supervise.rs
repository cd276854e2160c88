//! The task that supervises a running container: it waits for the end, ends the container at its
//! deadline or on request, and removes it. The task itself always ends, even if the engine does not
//! answer.

use super::container::{ContainerHandle, ContainerOutcome, ContainerStatus};
use super::copy_streams::{Copying, Streams, copy};
use super::engine::{Engine, error_text};
use super::running::StopSignal;
use bollard::container::AttachContainerResults;
use bollard::models::EventMessage;
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use futures_util::stream::BoxStream;
use os_sandbox::mechanism::LimitHit;
use os_sandbox::{Error, ErrorKind, Exit};
use std::pin::pin;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

/// Interval between looks at a container that sends no events.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Interval between looks at a container after the engine's event stream has ended.
const LOOK_OFTEN: Duration = Duration::from_millis(50);
/// Bound on the time in which an engine removes an ended container by itself, before the task
/// removes it.
const REMOVED_WITHIN: Duration = Duration::from_secs(5);
/// Bound on the time until the output arrives after the end, if no caller has to read it.
const DRAIN_WITHIN: Duration = Duration::from_secs(5);
/// Base of exit codes for signals: the code is this number plus the signal.
const SIGNALS: i64 = 128;
const SIGKILL: i64 = 9;

/// A container that was started.
pub(super) struct StartedContainer {
    pub(super) made: ContainerHandle,
    pub(super) attached: AttachContainerResults,
    pub(super) events: Events,
}

pub(super) type Events = BoxStream<'static, Result<EventMessage, bollard::errors::Error>>;

pub(super) async fn supervise(
    begun: StartedContainer,
    engine: Engine,
    streams: Streams,
    wall: Option<Duration>,
    end: StopSignal,
) -> ContainerOutcome {
    let StartedContainer {
        made,
        attached,
        events,
    } = begun;
    let mut watch = ContainerMonitor {
        made,
        engine,
        deadline: wall.and_then(|wall| Instant::now().checked_add(wall)),
        timed_out: false,
        memory: false,
    };
    let Copying { input, output } = match copy(attached, streams) {
        Ok(copying) => copying,
        Err(error) => {
            let _gone = watch.made.remove().await;
            return Err(error);
        }
    };
    let mut events = Some(events);
    let ended = watch.until_end(&mut events, &end.stop).await;
    if let Some(input) = input {
        input.abort();
    }
    let code = match ended {
        Ok(code) => code,
        Err(error) => {
            output.abort();
            // If the engine is gone, the next start removes the container.
            let _gone = timeout(DRAIN_WITHIN, watch.made.remove()).await;
            return Err(error);
        }
    };
    let read = watch.drain(output, code, &end.stop).await;
    let engine = watch.engine.clone();
    let (timed_out, memory) = (watch.timed_out, watch.memory);
    watch.gone(events).await.map_err(|error| {
        let text = format!(
            "the container could not be removed: {}; the next start tries again",
            error_text(&error)
        );
        Error::new(ErrorKind::Enforcement, text).with_hint(engine.address().hint())
    })?;
    read?;
    Ok((exit(code, timed_out), memory.then_some(LimitHit::Memory)))
}

struct ContainerMonitor {
    made: ContainerHandle,
    engine: Engine,
    deadline: Option<Instant>,
    timed_out: bool,
    memory: bool,
}

impl ContainerMonitor {
    /// Waits for the end of the container, and returns its exit code.
    async fn until_end(
        &mut self,
        events: &mut Option<Events>,
        stop: &Notify,
    ) -> Result<i64, Error> {
        let mut beat = Instant::now() + LOOK_EVERY;
        loop {
            let until = self.deadline.map_or(beat, |deadline| deadline.min(beat));
            match next_event(events, stop, until).await {
                ContainerEvent::Told(Some(Ok(event))) => {
                    if let Some(code) = self.heard(&event) {
                        return Ok(code);
                    }
                }
                ContainerEvent::Told(None | Some(Err(_))) => {
                    *events = None;
                    beat = Instant::now();
                }
                ContainerEvent::Stop => self.kill().await?,
                ContainerEvent::Late
                    if self
                        .deadline
                        .is_some_and(|deadline| deadline <= Instant::now()) =>
                {
                    self.deadline = None;
                    self.timed_out = true;
                    self.kill().await?;
                }
                ContainerEvent::Late => {
                    if let Some(code) = self.read_state().await? {
                        return Ok(code);
                    }
                    let every = match events {
                        Some(_) => LOOK_EVERY,
                        None => LOOK_OFTEN,
                    };
                    beat = Instant::now() + every;
                }
            }
        }
    }

    /// Returns the exit code if the event is the end of the container.
    fn heard(&mut self, event: &EventMessage) -> Option<i64> {
        match event.action.as_deref() {
            Some("oom") => self.memory = true,
            Some("die") => {
                let attributes = event.actor.as_ref()?.attributes.as_ref()?;
                return attributes.get("exitCode")?.parse().ok();
            }
            _ => {}
        }
        None
    }

    async fn read_state(&mut self) -> Result<Option<i64>, Error> {
        match self
            .made
            .status()
            .await
            .map_err(|error| self.lost(&error))?
        {
            ContainerStatus::Runs => Ok(None),
            ContainerStatus::Ended(code, memory) => {
                self.memory |= memory;
                Ok(Some(code))
            }
            ContainerStatus::Gone => Err(ErrorKind::Enforcement.error(
                "the command's container was removed by another program, and how it ended with it",
            )),
        }
    }

    /// Waits until the container is gone. The engine removes it by itself and sends an event.
    /// Repeated requests would slow the removal down.
    async fn gone(self, events: Option<Events>) -> Result<(), bollard::errors::Error> {
        let Some(mut events) = events else {
            return self.made.remove().await;
        };
        let removed = async {
            while let Some(Ok(event)) = events.next().await {
                if event.action.as_deref() == Some("destroy") {
                    return true;
                }
            }
            false
        };
        match timeout(REMOVED_WITHIN, removed).await {
            Ok(true) => {
                self.made.mark_removed();
                Ok(())
            }
            Ok(false) | Err(_) => self.made.remove().await,
        }
    }

    async fn kill(&self) -> Result<(), Error> {
        self.made.kill().await.map_err(|error| self.lost(&error))
    }

    fn lost(&self, why: &bollard::errors::Error) -> Error {
        let address = self.engine.address();
        let text = format!(
            "the container engine at {address} was lost while the command ran: {}; the command may \
             still run",
            error_text(why)
        );
        let hint = "start the engine; the next start there removes what is left";
        Error::new(ErrorKind::Enforcement, text).with_hint(hint)
    }

    /// Waits until all output has been read, until the deadline of the command at most.
    async fn drain(
        &mut self,
        output: tokio::task::JoinHandle<Result<(), bollard::errors::Error>>,
        code: i64,
        stop: &Notify,
    ) -> Result<(), Error> {
        let abort = output.abort_handle();
        let mut output = pin!(output);
        let killed = code == SIGNALS + SIGKILL;
        let mut until = killed.then(|| Instant::now() + DRAIN_WITHIN);
        loop {
            let bound = match (until, self.deadline) {
                (Some(until), Some(deadline)) => Some(until.min(deadline)),
                (until, deadline) => until.or(deadline),
            };
            let step = async {
                match select(output.as_mut(), pin!(stop.notified())).await {
                    Either::Left((read, _)) => Some(read),
                    Either::Right(_) => None,
                }
            };
            let step = match bound {
                Some(bound) => timeout_at(bound, step).await,
                None => Ok(step.await),
            };
            match step {
                Ok(Some(Ok(Err(error)))) if !killed => return Err(self.unread(&error)),
                Ok(Some(_)) => return Ok(()),
                Ok(None) => until = Some(Instant::now() + LOOK_OFTEN),
                Err(_) => {
                    self.timed_out |= !killed && until.is_none();
                    abort.abort();
                    return Ok(());
                }
            }
        }
    }

    fn unread(&self, error: &bollard::errors::Error) -> Error {
        ErrorKind::Enforcement.error(format!(
            "what the command printed was lost on the way: {}",
            error_text(error)
        ))
    }
}

/// Next event for the supervising task.
enum ContainerEvent {
    Told(Option<Result<EventMessage, bollard::errors::Error>>),
    /// The caller asks for the end of the container.
    Stop,
    Late,
}

async fn next_event(events: &mut Option<Events>, stop: &Notify, until: Instant) -> ContainerEvent {
    let next = async {
        match events {
            Some(events) => events.next().await,
            None => std::future::pending().await,
        }
    };
    let either = async {
        match select(pin!(next), pin!(stop.notified())).await {
            Either::Left((told, _)) => ContainerEvent::Told(told),
            Either::Right(_) => ContainerEvent::Stop,
        }
    };
    timeout_at(until, either)
        .await
        .unwrap_or(ContainerEvent::Late)
}

/// Returns the exit, with signals in the encoding of a shell. A command may have ended by itself
/// just before its deadline.
fn exit(code: i64, timed_out: bool) -> Exit {
    match code {
        _ if timed_out && code == SIGNALS + SIGKILL => Exit::TimedOut,
        code if (SIGNALS + 1..=SIGNALS + 64).contains(&code) => {
            Exit::Signal(i32::try_from(code - SIGNALS).unwrap_or(0))
        }
        code => Exit::Code(i32::try_from(code).unwrap_or(i32::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits() {
        for (code, timed_out, want) in [
            (0, false, Exit::Code(0)),
            (127, false, Exit::Code(127)),
            (128, false, Exit::Code(128)),
            (137, false, Exit::Signal(9)),
            (143, false, Exit::Signal(15)),
            (193, false, Exit::Code(193)),
            (255, false, Exit::Code(255)),
            (137, true, Exit::TimedOut),
            (0, true, Exit::Code(0)),
        ] {
            assert_eq!(exit(code, timed_out), want, "{code} {timed_out}");
        }
    }
}
