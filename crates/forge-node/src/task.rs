//! One call under way in a node, as the reader of its frames controls it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use file_sandbox::CancellationToken;
use tokio::sync::mpsc;

use crate::frame::{FrameKind, NodeFrame};
use crate::message::{Signal, WindowMore};
use crate::window::{SendWindow, WINDOW_BYTES, cost};

/// A call under way, as the reader of its frames sees it.
pub(crate) struct NodeTask {
    pub(crate) cancel: CancellationToken,
    /// The window for data to the broker.
    pub(crate) window: Arc<SendWindow>,
    kill: Mutex<KillState>,
    input: Mutex<InputFeed>,
    /// Amount that the broker may still send.
    granted: AtomicI64,
}

/// The receiver of input, which may end before anything takes it.
#[derive(Default)]
enum InputFeed {
    #[default]
    NotYet,
    To(mpsc::UnboundedSender<Vec<u8>>),
    Over,
}

enum KillState {
    NotYet,
    With(Box<dyn FnOnce() + Send>),
    /// It was requested already.
    Asked,
}

impl Default for NodeTask {
    fn default() -> Self {
        NodeTask {
            cancel: CancellationToken::new(),
            window: SendWindow::new(WINDOW_BYTES),
            kill: Mutex::new(KillState::NotYet),
            input: Mutex::default(),
            granted: AtomicI64::new(0),
        }
    }
}

impl NodeTask {
    /// Takes a frame for the call; returns the mistake in words.
    pub(crate) fn take(&self, frame: NodeFrame) -> Result<(), String> {
        match frame.kind {
            FrameKind::Input => {
                let cost = i64::from(cost(frame.body.len()));
                if self.granted.fetch_sub(cost, Ordering::Relaxed) < cost {
                    return Err("more input than there is room for".to_owned());
                }
                if let InputFeed::To(input) = &*lock(&self.input) {
                    let _ended = input.send(frame.body);
                }
                Ok(())
            }
            FrameKind::InputEnd => {
                self.no_more_input();
                Ok(())
            }
            FrameKind::Window => self.window.widen(&frame),
            FrameKind::Signal => {
                let Signal { signal } = frame.parse()?;
                match signal {
                    9 => self.kill(),
                    other => return Err(format!("signal {other}")),
                }
                Ok(())
            }
            FrameKind::Cancel => {
                self.cancel();
                Ok(())
            }
            other => Err(format!("{other:?} for a call")),
        }
    }

    /// Cancels the call: its caller is gone, and its further output is dropped.
    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
        self.window.close();
        self.no_more_input();
        self.kill();
    }

    pub(crate) fn no_more_input(&self) {
        *lock(&self.input) = InputFeed::Over;
    }

    fn kill(&self) {
        let kill = std::mem::replace(&mut *lock(&self.kill), KillState::Asked);
        if let KillState::With(kill) = kill {
            kill();
        }
    }

    pub(crate) fn killed_by(&self, kill: Box<dyn FnOnce() + Send>) {
        let mut place = lock(&self.kill);
        match *place {
            KillState::NotYet => *place = KillState::With(kill),
            KillState::With(_) | KillState::Asked => {
                drop(place);
                kill();
            }
        }
    }

    /// Returns the channel of all later input.
    pub(crate) fn listen(&self) -> mpsc::UnboundedReceiver<Vec<u8>> {
        let (input, inbox) = mpsc::unbounded_channel();
        let mut feed = lock(&self.input);
        match *feed {
            InputFeed::NotYet => *feed = InputFeed::To(input),
            // Without a sender.
            InputFeed::To(_) | InputFeed::Over => {}
        }
        inbox
    }

    /// Lets the broker send more, and says so.
    pub(crate) fn grant(&self, bytes: u32, id: u32) -> NodeFrame {
        self.granted.fetch_add(i64::from(bytes), Ordering::Relaxed);
        let body = serde_json::to_vec(&WindowMore { bytes }).unwrap_or_default();
        NodeFrame::new(FrameKind::Window, id, body)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
