//! Everything that is said to the person beside the result. A standard error that is
//! closed or full must not change what forge does or how it ends, so what cannot be
//! written is dropped; `eprintln!` would panic instead.
//!
//! While a view of a run moves on the screen, lines go through it, and who wants to ask something
//! has it stand still.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::{Arc, Mutex, Once, PoisonError};

use rustix::termios::tcgetwinsize;

use crate::show::Live;

/// The view that has the screen. There is one standard error, so this is one as well.
static VIEW: Mutex<Option<Arc<Live>>> = Mutex::new(None);

/// Writes one line to standard error.
pub(crate) fn say(text: impl Display) {
    if !view().is_some_and(|live| live.say(&text.to_string())) {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }
}

/// From now on the screen is this view's.
pub(crate) fn shown_by(live: &Arc<Live>) {
    static PANICS: Once = Once::new();
    *VIEW.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(live));
    // What a panic says would be written into the view.
    PANICS.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let view = VIEW.try_lock().ok().and_then(|view| view.clone());
            // The view's own thread cannot wait for itself.
            let shown = view.is_some_and(|live| {
                std::thread::current().name() != Some(Live::THREAD)
                    && live.say_at_once(&crate::visible::visible_lines(&panic.to_string()))
            });
            if !shown {
                usual(panic);
            }
        }));
    });
}

/// From now on the screen is nobody's.
pub(crate) fn shown_by_nobody() {
    *VIEW.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// While this is held nothing moves on the screen.
#[must_use]
pub(crate) struct Held(Option<Arc<Live>>);

/// Makes the view, if there is one, stand still and leave the screen.
pub(crate) fn hold() -> Held {
    let view = view();
    if let Some(live) = &view {
        live.hold();
    }
    Held(view)
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(live) = &self.0 {
            live.release();
        }
    }
}

/// Columns and rows of the screen; what is usual where it does not say.
pub(crate) fn size() -> (u16, u16) {
    let size = tcgetwinsize(std::io::stderr()).ok();
    let of = |found: Option<u16>, usual| found.filter(|found| *found > 0).unwrap_or(usual);
    (
        of(size.map(|size| size.ws_col), 80),
        of(size.map(|size| size.ws_row), 24),
    )
}

/// Columns of the screen that standard output is; `None` if it does not say.
pub(crate) fn stdout_width() -> Option<u16> {
    let size = tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}

fn view() -> Option<Arc<Live>> {
    VIEW.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
