//! Messages to the person besides the result. A closed or full standard error must not change
//! forge's behaviour or exit code, so failed writes are dropped; `eprintln!` would panic instead.
//!
//! While the view of a run is on the screen, lines go through it, and questions hold it.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};

use rustix::termios::tcgetwinsize;

use crate::run_view::LiveView;

/// The view that has the screen. There is one standard error, so this is one as well.
static VIEW: Mutex<Option<Arc<LiveView>>> = Mutex::new(None);

/// Writes one line to standard error.
pub(crate) fn print(text: impl Display) {
    if !view().is_some_and(|live| live.print(&text.to_string())) {
        // Why one string: a running command writes to the same terminal or pipe.
        let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
    }
}

/// `true` if diagnostics are coloured.
static COLOUR: AtomicBool = AtomicBool::new(false);

/// Turns colours of diagnostics on or off.
pub(crate) fn set_colour(colour: bool) {
    COLOUR.store(colour, Ordering::Relaxed);
}

/// Writes an error, a warning or a hint of one or more lines, in colours where there are any.
pub(crate) fn print_diagnostic(text: &str) {
    match COLOUR.load(Ordering::Relaxed) {
        true => print(painted(text)),
        false => print(text),
    }
}

/// Paints the words and marks by which a diagnostic is read. The text holds no control characters.
fn painted(text: &str) -> String {
    const RED: &str = "\u{1b}[31m";
    const YELLOW: &str = "\u{1b}[33m";
    const CYAN: &str = "\u{1b}[36m";
    const END: &str = "\u{1b}[0m";
    let mut mark = RED;
    let line = |line: &str| {
        let labels = [
            ("error", RED),
            ("warning", YELLOW),
            ("hint", CYAN),
            ("note", CYAN),
        ];
        for (label, colour) in labels {
            let rest = line.strip_prefix(label);
            let Some(end) = rest.and_then(|rest| match rest.starts_with(['[', ':']) {
                true => line.find(':'),
                false => None,
            }) else {
                continue;
            };
            mark = colour;
            let (label, rest) = line.split_at(end);
            return format!("{colour}{label}{END}{rest}");
        }
        let trimmed = line.trim_start();
        for label in ["= help", "= note"] {
            if let Some(rest) = trimmed.strip_prefix(label) {
                let blanks = &line[..line.len() - trimmed.len()];
                return format!("{blanks}{CYAN}{label}{END}{rest}");
            }
        }
        // The carets below a quoted line.
        if let Some((margin, marks)) = line.split_once(" | ")
            && margin.trim().is_empty()
            && marks.trim_start().starts_with('^')
            && let Some(start) = marks.find('^')
        {
            let (blanks, marks) = marks.split_at(start);
            return format!("{margin} | {blanks}{mark}{marks}{END}");
        }
        line.to_owned()
    };
    let lines: Vec<String> = text.split('\n').map(line).collect();
    lines.join("\n")
}

/// Attaches the view to the screen.
pub(crate) fn attach_view(live: &Arc<LiveView>) {
    static PANICS: Once = Once::new();
    *VIEW.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(live));
    // The message of a panic would be written into the view.
    PANICS.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let view = VIEW.try_lock().ok().and_then(|view| view.clone());
            // The view's own thread cannot wait for itself.
            let shown = view.is_some_and(|live| {
                std::thread::current().name() != Some(LiveView::THREAD)
                    && live.try_print(&crate::output::escape::escape_lines(&panic.to_string()))
            });
            if !shown {
                usual(panic);
            }
        }));
    });
}

/// Detaches the view from the screen.
pub(crate) fn detach_view() {
    *VIEW.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// While this is held nothing moves on the screen.
#[must_use]
pub(crate) struct ScreenHold(Option<Arc<LiveView>>);

/// Makes the view, if there is one, stand still and leave the screen.
pub(crate) fn hold() -> ScreenHold {
    let view = view();
    if let Some(live) = &view {
        live.hold();
    }
    ScreenHold(view)
}

impl Drop for ScreenHold {
    fn drop(&mut self) {
        if let Some(live) = &self.0 {
            live.release();
        }
    }
}

/// Returns columns and rows of the screen; the usual size if it is unknown.
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

fn view() -> Option<Arc<LiveView>> {
    VIEW.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Most lines of one kind.
const MAX_FEW: usize = 5;

/// Prints the first of some lines, and the number of the others with the command that lists them.
pub(crate) fn print_few<T: std::fmt::Display>(verb: &str, found: &[T], listed_by: &str) {
    for one in found.iter().take(MAX_FEW) {
        print(format!("{verb}: {one}"));
    }
    match found.len().saturating_sub(MAX_FEW) {
        0 => {}
        more => print(format!("{verb}: {more} more, listed by: {listed_by}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_is_painted_by_its_marks() {
        let text = "warning[rule.shadowed]: `a` never decides: `b` always does\n \
                    --> f:1:2\n   |\n 1 | a\n   | ^\n   = help: put it first\nerrors are words";
        let shown = painted(text).replace('\u{1b}', "␛");
        insta::assert_snapshot!(shown, @r"
        ␛[33mwarning[rule.shadowed]␛[0m: `a` never decides: `b` always does
         --> f:1:2
           |
         1 | a
           | ␛[33m^␛[0m
           ␛[36m= help␛[0m: put it first
        errors are words
        ");
    }
}
