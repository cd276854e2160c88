//! Asking a person on the terminal.
//!
//! Every value is shown whole and with control characters escaped. Enter, end of
//! input and anything unknown mean no.

use std::io::{BufRead as _, Write as _};
use std::time::{Duration, Instant};

use crate::stderr::say;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use forge_tools::{Answer, ApprovalRequest, Approver, BoxFuture};

/// A person at the terminal that forge was started from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terminal {
    /// How long a question waits; then it counts as no.
    pub(crate) patience: Duration,
}

impl Approver for Terminal {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        let preview = request.preview();
        let patience = self.patience;
        Box::pin(async move {
            let asked = tokio::task::spawn_blocking(move || ask(&preview, patience)).await;
            match asked {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) | Err(_) => Answer::Unanswered {
                    reason: "the terminal could not be read".to_owned(),
                },
            }
        })
    }
}

fn ask(preview: &str, patience: Duration) -> std::io::Result<Answer> {
    let mut screen = std::io::stderr().lock();
    write!(screen, "\n{preview}[y] once  [r] this run  [n] no > ")?;
    screen.flush()?;
    // Whoever ends forge meanwhile has something to say as well.
    drop(screen);
    // A terminal is ready when a line is; whoever reads earlier would take the next answer too.
    if !ready(patience)? {
        say("no answer: it counts as no");
        return Ok(Answer::Unanswered {
            reason: format!("nobody answered within {} seconds", patience.as_secs()),
        });
    }
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(answer_of(line.trim()))
}

/// Whether something was typed in time. Signals do not prolong it.
fn ready(patience: Duration) -> std::io::Result<bool> {
    let stdin = std::io::stdin();
    // None: longer than a clock can say.
    let until = Instant::now().checked_add(patience);
    loop {
        let left = until.map_or(Duration::MAX, |until| {
            until.saturating_duration_since(Instant::now())
        });
        // poll(2) counts milliseconds in an int.
        let step = left.min(Duration::from_secs(3600));
        let timeout = Timespec {
            tv_sec: i64::try_from(step.as_secs()).unwrap_or(0),
            tv_nsec: i64::from(step.subsec_nanos()),
        };
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) if left <= step => return Ok(false),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

fn answer_of(word: &str) -> Answer {
    let by = "a person at the terminal".to_owned();
    match word {
        "y" | "Y" | "yes" => Answer::AllowOnce { by },
        "r" | "R" => Answer::AllowForRun { by },
        _ => Answer::Deny { by, reason: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        for (word, allows) in [
            ("y", true),
            ("yes", true),
            ("r", true),
            ("", false),
            ("n", false),
            ("yy", false),
            ("ja", false),
            ("q", false),
        ] {
            assert_eq!(answer_of(word).allows(), allows, "{word:?}");
        }
    }
}
