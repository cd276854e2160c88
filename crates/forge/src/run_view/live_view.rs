//! The view on a terminal: finished work scrolls by; current work is drawn below it and redrawn as
//! it changes.
//!
//! One thread owns the screen, so that a terminal that stands still blocks nothing but the view. It
//! sleeps until the view changes, and draws at once after a pause. The cursor is never hidden and
//! no mode is ever set, so the terminal works after any end of forge.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use forge_runtime::RunEvent;

use super::lines::{LineLayout, ScreenRow, Style};
use super::region;
use super::run::{LineKind, RunView, ViewLine};
use super::screen::Screen;

/// Interval at which times are redrawn.
const TICK: Duration = Duration::from_millis(100);
/// The shortest time between two drawings.
const FRAME: Duration = Duration::from_millis(3);
/// Time limit for a terminal that stands still at the end of a run.
const TERMINAL_TIMEOUT: Duration = Duration::from_secs(2);
/// Bound on lines that wait for a terminal that stands still, or for the answer to a question.
const MAX_WAITING: usize = 20_000;

/// The view.
pub(crate) struct LiveView {
    state: Mutex<LiveState>,
    /// Something is to be drawn.
    wake: Condvar,
    /// The screen was let go of.
    still: Condvar,
    style: Style,
}

struct LiveState {
    run: RunView,
    waiting: VecDeque<ViewLine>,
    dropped: u64,
    dirty: bool,
    /// Number of holders of the screen.
    held: usize,
    /// `true` if lines from before the hold are still to be shown.
    first: bool,
    /// `true` if the screen shows nothing that moves.
    clear: bool,
    ended: bool,
    done: bool,
}

/// The content of one frame, and the state at its time.
struct Frame {
    above: Vec<ScreenRow>,
    rows: Vec<ScreenRow>,
    ended: bool,
    held: bool,
    first: bool,
}

impl LiveView {
    /// The name of the drawing thread.
    pub(crate) const THREAD: &str = "view";

    /// Begins to show a run.
    pub(super) fn start(run: RunView, colour: bool) -> std::io::Result<Arc<Self>> {
        let live = Arc::new(LiveView {
            state: Mutex::new(LiveState {
                run,
                waiting: VecDeque::new(),
                dropped: 0,
                dirty: false,
                held: 0,
                first: false,
                clear: true,
                ended: false,
                done: false,
            }),
            wake: Condvar::new(),
            still: Condvar::new(),
            style: Style { colour },
        });
        let painter = Arc::clone(&live);
        std::thread::Builder::new()
            .name(Self::THREAD.to_owned())
            .spawn(move || {
                let _done = PainterEnd(&painter);
                painter.paint();
            })?;
        Ok(live)
    }

    /// Takes an event. Never waits for the terminal.
    pub(super) fn observe(&self, event: RunEvent<'_>) {
        let mut state = self.lock();
        let lines = state.run.on_event(event, Instant::now());
        for line in lines {
            state.push(line);
        }
        state.dirty = true;
        self.wake.notify_one();
    }

    /// Shows lines of other parts of forge. Returns `false` if the view has ended.
    pub(crate) fn print(&self, text: &str) -> bool {
        self.queue(self.lock(), text)
    }

    /// Shows lines from a panicking thread, whatever lock it holds.
    pub(crate) fn try_print(&self, text: &str) -> bool {
        match self.state.try_lock() {
            Ok(state) => self.queue(state, text),
            Err(TryLockError::Poisoned(state)) => self.queue(state.into_inner(), text),
            Err(TryLockError::WouldBlock) => false,
        }
    }

    fn queue(&self, mut state: MutexGuard<'_, LiveState>, text: &str) -> bool {
        if state.ended || state.done {
            return false;
        }
        for line in text.split('\n') {
            state.push(ViewLine {
                runs: Vec::new(),
                label: String::new(),
                said: LineKind::Other(line.to_owned()),
            });
        }
        state.dirty = true;
        self.wake.notify_one();
        true
    }

    /// Takes everything that moves off the screen, and shows nothing until [`LiveView::release`].
    pub(crate) fn hold(&self) {
        let mut state = self.lock();
        state.held += 1;
        state.first |= state.held == 1;
        state.dirty = true;
        self.wake.notify_one();
        self.wait_while(state, |state| (state.first || !state.clear) && !state.done);
    }

    /// Goes on after [`LiveView::hold`].
    pub(crate) fn release(&self) {
        let mut state = self.lock();
        state.held = state.held.saturating_sub(1);
        state.dirty = true;
        self.wake.notify_one();
    }

    /// Shows the remaining lines, and releases the screen.
    pub(super) fn finish(&self) {
        let mut state = self.lock();
        state.ended = true;
        self.wake.notify_one();
        self.wait_while(state, |state| !state.done);
    }

    /// Waits for the thread that draws, for a bounded time.
    fn wait_while(
        &self,
        state: MutexGuard<'_, LiveState>,
        is_waiting: impl Fn(&mut LiveState) -> bool,
    ) {
        let waited = self
            .still
            .wait_timeout_while(state, TERMINAL_TIMEOUT, is_waiting);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Draws until the end.
    fn paint(&self) {
        let mut lines = LineLayout::new(self.style);
        let mut screen = Screen::default();
        loop {
            let (columns, height) = crate::output::stderr::size();
            // The last column stays empty: terminals differ in their behaviour behind it.
            let width = usize::from(columns).saturating_sub(1).max(10);
            let Frame {
                above,
                rows,
                ended,
                held,
                first,
            } = self
                .lock()
                .frame(&mut lines, self.style, width, usize::from(height));
            // After a question the cursor is not in a line of the view.
            let text = screen.draw(&above, rows, width, ended && held && !first);
            if !text.is_empty() {
                let mut stderr = std::io::stderr().lock();
                // A terminal that is gone shows nothing, and that is all.
                let _ = stderr
                    .write_all(text.as_bytes())
                    .and_then(|()| stderr.flush());
            }
            if held || ended {
                let mut state = self.lock();
                state.clear = true;
                state.first &= !first;
                drop(state);
                self.still.notify_all();
            }
            if ended {
                return;
            }
            std::thread::sleep(FRAME);
            let state = self.lock();
            if !state.dirty && !state.ended {
                drop(
                    self.wake
                        .wait_timeout_while(state, TICK, |state| !state.dirty && !state.ended),
                );
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveState {
    fn push(&mut self, line: ViewLine) {
        if self.waiting.len() == MAX_WAITING {
            self.waiting.pop_front();
            self.dropped += 1;
        }
        self.waiting.push_back(line);
    }

    /// Takes what the next frame shows.
    fn frame(
        &mut self,
        lines: &mut LineLayout,
        style: Style,
        width: usize,
        height: usize,
    ) -> Frame {
        self.dirty = false;
        let (ended, held, first) = (self.ended, self.held > 0, self.first);
        let above = match held && !first && !ended {
            true => Vec::new(),
            false => {
                let waiting = self.drain_lines();
                waiting
                    .iter()
                    .flat_map(|line| lines.rows(line, width))
                    .collect()
            }
        };
        let rows = match held || ended {
            true => Vec::new(),
            false => region::rows(&self.run, Instant::now(), width, height, style),
        };
        self.clear &= rows.is_empty();
        Frame {
            above,
            rows,
            ended,
            held,
            first,
        }
    }

    fn drain_lines(&mut self) -> Vec<ViewLine> {
        let dropped = std::mem::take(&mut self.dropped);
        let note = (dropped > 0).then(|| ViewLine {
            runs: Vec::new(),
            label: String::new(),
            said: LineKind::Other(format!("… {dropped} lines are not shown")),
        });
        note.into_iter().chain(self.waiting.drain(..)).collect()
    }
}

/// Reports the end of the thread, also after a panic.
struct PainterEnd<'a>(&'a LiveView);

impl Drop for PainterEnd<'_> {
    fn drop(&mut self) {
        self.0.lock().done = true;
        self.0.still.notify_all();
    }
}
