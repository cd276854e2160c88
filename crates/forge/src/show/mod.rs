//! A run as it goes on. For the person watching, on standard error: a view that moves, on a
//! terminal, or else lines. For programs, on standard output: events.

mod cells;
mod events;
mod lines;
mod live;
mod region;
mod run;
mod screen;
mod words;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use forge_runtime::{Observer, RunEvent};
use forge_tools::Redactor;

use crate::stderr;

pub(crate) use events::{Beginning, Outcome, SCHEMA, Stream, failed};
pub(crate) use live::Live;
pub(crate) use words::{count, tokens};

use lines::{Lines, Style};
use run::{Run, Wanted};

/// How a run is shown to the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// Not at all.
    pub(crate) quiet: bool,
    /// With all that is known.
    pub(crate) verbose: bool,
    pub(crate) colour: bool,
    /// On a terminal that moves the cursor when it is told to.
    pub(crate) moves: bool,
    /// Whether the answer is seen on the same screen anyway.
    pub(crate) answer_is_seen: bool,
}

/// Is told what happens, and passes it on.
pub(crate) struct Watcher {
    view: View,
    stream: Option<Arc<Stream>>,
}

enum View {
    Nothing,
    Plain { state: Mutex<Plain>, whole: bool },
    Live(Arc<Live>),
}

struct Plain {
    run: Run,
    lines: Lines,
}

impl Watcher {
    /// Begins to watch. Whoever holds what comes out has to [end](Watching) it.
    pub(crate) fn start(
        look: Look,
        redactor: &Arc<Redactor>,
        stream: Option<Arc<Stream>>,
    ) -> (Arc<Self>, Watching) {
        let wanted = Wanted {
            more: look.verbose,
            answer: look.moves && !look.answer_is_seen,
        };
        let run = || Run::new(wanted, Arc::clone(redactor), Instant::now());
        let live = match look.moves && !look.quiet {
            // Without a thread there are lines.
            true => Live::start(run(), look.colour).ok(),
            false => None,
        };
        let view = match (&live, look.quiet) {
            (Some(live), _) => {
                stderr::shown_by(live);
                View::Live(Arc::clone(live))
            }
            (None, true) => View::Nothing,
            (None, false) => View::Plain {
                state: Mutex::new(Plain {
                    run: run(),
                    lines: Lines::new(Style {
                        colour: look.colour,
                    }),
                }),
                whole: look.verbose,
            },
        };
        let watcher = Arc::new(Watcher { view, stream });
        (watcher, Watching(live))
    }
}

/// As long as this is there the screen is the view's.
#[must_use]
pub(crate) struct Watching(Option<Arc<Live>>);

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(live) = &self.0 {
            live.finish();
            stderr::shown_by_nobody();
        }
    }
}

impl Observer for Watcher {
    fn observe(&self, event: RunEvent<'_>) {
        match &self.view {
            View::Nothing => {}
            View::Plain { state, whole } => {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                for line in state.run.take(event, Instant::now()) {
                    for text in state.lines.plain(&line, *whole) {
                        stderr::say(text);
                    }
                }
            }
            View::Live(live) => live.observe(event),
        }
        if let Some(stream) = &self.stream {
            stream.observe(event);
        }
    }
}

#[cfg(test)]
mod tests;
