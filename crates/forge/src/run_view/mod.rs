//! A run as it goes on. For the person watching, on standard error: a view that moves, on a
//! terminal, or else lines. For programs, on standard output: events.

mod cells;
mod events;
mod lines;
mod live_view;
mod region;
mod run;
mod screen;
mod words;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use forge_runtime::{Observer, RunEvent};
use forge_tools::Redactor;

use crate::output::stderr;

pub(crate) use events::{EventStream, RunResult, RunStart, SCHEMA, failed};
pub(crate) use live_view::LiveView;
pub(crate) use words::{count, tokens};

use lines::{LineLayout, Style};
use run::{DetailLevel, RunView};

/// Options of the view of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ViewOptions {
    /// Not at all.
    pub(crate) quiet: bool,
    /// With all that is known.
    pub(crate) verbose: bool,
    pub(crate) colour: bool,
    /// On a terminal that moves the cursor when it is told to.
    pub(crate) supports_cursor: bool,
    /// `true` if the answer appears on the same screen anyway.
    pub(crate) answer_is_seen: bool,
}

/// Receives the events of a run for the view and the stream.
pub(crate) struct RunWatcher {
    view: ViewKind,
    stream: Option<Arc<EventStream>>,
}

enum ViewKind {
    Nothing,
    Plain {
        state: Mutex<PlainView>,
        whole: bool,
    },
    Live(Arc<LiveView>),
}

struct PlainView {
    run: RunView,
    lines: LineLayout,
}

impl RunWatcher {
    /// Starts to watch. The caller has to [end](ViewGuard) it.
    pub(crate) fn start(
        look: ViewOptions,
        redactor: &Arc<Redactor>,
        stream: Option<Arc<EventStream>>,
    ) -> (Arc<Self>, ViewGuard) {
        let wanted = DetailLevel {
            more: look.verbose,
            answer: look.supports_cursor && !look.answer_is_seen,
        };
        let run = || RunView::new(wanted, Arc::clone(redactor), Instant::now());
        let live = match look.supports_cursor && !look.quiet {
            // Without a thread there are lines.
            true => LiveView::start(run(), look.colour).ok(),
            false => None,
        };
        let view = match (&live, look.quiet) {
            (Some(live), _) => {
                stderr::attach_view(live);
                ViewKind::Live(Arc::clone(live))
            }
            (None, true) => ViewKind::Nothing,
            (None, false) => ViewKind::Plain {
                state: Mutex::new(PlainView {
                    run: run(),
                    lines: LineLayout::new(Style {
                        colour: look.colour,
                    }),
                }),
                whole: look.verbose,
            },
        };
        let watcher = Arc::new(RunWatcher { view, stream });
        (watcher, ViewGuard(live))
    }
}

/// Ends the view when it is dropped.
#[must_use]
pub(crate) struct ViewGuard(Option<Arc<LiveView>>);

impl Drop for ViewGuard {
    fn drop(&mut self) {
        if let Some(live) = &self.0 {
            live.finish();
            stderr::detach_view();
        }
    }
}

impl Observer for RunWatcher {
    fn observe(&self, event: RunEvent<'_>) {
        match &self.view {
            ViewKind::Nothing => {}
            ViewKind::Plain { state, whole } => {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                for line in state.run.on_event(event, Instant::now()) {
                    for text in state.lines.plain(&line, *whole) {
                        stderr::print(text);
                    }
                }
            }
            ViewKind::Live(live) => live.observe(event),
        }
        if let Some(stream) = &self.stream {
            stream.observe(event);
        }
    }
}

#[cfg(test)]
mod tests;
