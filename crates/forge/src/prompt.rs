//! Asking a person on the terminal.
//!
//! Every value is shown whole and with control characters escaped. Enter, end of
//! input and anything unknown mean no.

use std::io::{BufRead as _, Write as _};

use forge_tools::{Answer, ApprovalRequest, Approver, BoxFuture};

/// A person at the terminal that forge was started from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terminal;

impl Approver for Terminal {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        let preview = request.preview();
        Box::pin(async move {
            let asked = tokio::task::spawn_blocking(move || ask(&preview)).await;
            match asked {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) | Err(_) => Answer::Unanswered {
                    reason: "the terminal could not be read".to_owned(),
                },
            }
        })
    }
}

fn ask(preview: &str) -> std::io::Result<Answer> {
    let mut screen = std::io::stderr().lock();
    write!(screen, "\n{preview}[y] once  [r] this run  [n] no > ")?;
    screen.flush()?;
    // Whoever ends forge meanwhile has something to say as well.
    drop(screen);
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(answer_of(line.trim()))
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
