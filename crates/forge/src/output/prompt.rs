//! Questions to the person on the terminal, about a call of this or of another process.
//!
//! Every value is shown whole and with control characters escaped, a screenful at a time; input
//! typed before the end of the text is discarded. Enter, end of input and anything unknown mean no.

use std::io::{BufRead as _, Write as _};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};

use forge_tools::{ApprovalAnswer, ApprovalRequest, Approver, BoxFuture, escape_controls};

use crate::output::escape::shell_word;
use crate::output::stderr;

/// A person does not read more than this, so longer requests are refused: the longest difference
/// with its invisible characters written out, and the text around it.
pub(crate) const MAX_SHOWN_BYTES: usize = 8 * 1024 * 1024;

/// Indentation of values; a continued row begins behind it, so that no value can look like a line
/// of forge.
const CONTINUED: &str = "            ";

/// The kind of a question, which determines the possible answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptKind {
    /// A call, once or as often as it is asked until forge ends; and with it everything else that
    /// asks.
    Call,
    /// A call of another process, once or as often as it is asked until that ends.
    Queued,
    /// A push.
    Push,
}

impl PromptKind {
    fn keys(self) -> &'static str {
        match self {
            PromptKind::Call => "[y] once  [r] this run  [a] everything that asks  [n] no  [?] > ",
            PromptKind::Queued => "[y] once  [r] this run  [n] no  [?] > ",
            PromptKind::Push => "[y] push it  [n] no  [?] > ",
        }
    }

    /// Describes the keys that work before the last page.
    fn turning() -> &'static str {
        // It may be long, and a terminal scrolls back.
        "Enter shows them, e all at once, n says no"
    }

    fn help(self) -> &'static str {
        match self {
            PromptKind::Call => HELP,
            PromptKind::Queued => QUEUED_HELP,
            PromptKind::Push => PUSH_HELP,
        }
    }
}

const PUSH_HELP: &str = "\
y         what was shown becomes the head of the branch
n         no, it stays staged; Enter and anything unknown mean the same
n REASON  no, and the log says why
";

const HELP: &str = "\
y         this call goes ahead, once
r         and so does what the line `this run` names, until forge ends
a         this call and, unseen, every later one that asks until forge ends; as
          with --yes, blocks stay, and what --yes does not answer is asked
n         no; Enter and anything unknown mean the same
n REASON  no, and the model is told why
";

const QUEUED_HELP: &str = "\
y         this call goes ahead, once
r         and so does what the line `this run` names, until its process ends
n         no; Enter and anything unknown mean the same
n REASON  no, and the model is told why
";

/// A person at the terminal that forge was started from.
#[derive(Debug)]
pub(crate) struct TerminalApprover {
    approval_timeout: Duration,
    colour: bool,
    /// The command that keeps a yes as a rule; `None` if it is not to be named.
    allow_command: Option<String>,
    /// Serialises the questions. `true` if the person has agreed to everything that asks.
    turn: tokio::sync::Mutex<bool>,
}

impl TerminalApprover {
    /// A question waits as long as `approval_timeout`; then it counts as no.
    pub(crate) fn new(
        approval_timeout: Duration,
        colour: bool,
        allow_command: Option<String>,
    ) -> Self {
        TerminalApprover {
            approval_timeout,
            colour,
            allow_command,
            turn: tokio::sync::Mutex::new(false),
        }
    }
}

/// Returns how the person would not be asked this again, where rules are enough for that.
pub(crate) fn allow_hint(command: &str, rules: &[String]) -> Option<String> {
    // A rule is printed only if its printed form is the rule itself.
    let is_readable = |rule: &String| escape_controls(rule) == rule.as_str();
    if rules.is_empty() || !rules.iter().all(is_readable) {
        return None;
    }
    let words: Vec<String> = rules.iter().map(|rule| shell_word(rule)).collect();
    Some(format!(
        "To be asked no more for this: {command} {}",
        words.join(" ")
    ))
}

/// The approver in the record, where the person agreed to everything at once.
const TO_ALL: &str = "a person at the terminal, by [a] everything that asks";

impl Approver for TerminalApprover {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        let preview = request.question();
        let (approval_timeout, colour) = (self.approval_timeout, self.colour);
        Box::pin(async move {
            if let Some(reason) = too_long(&preview) {
                return ApprovalAnswer::Unanswered { reason };
            }
            let mut to_all = self.turn.lock().await;
            if *to_all && !request.only_a_person {
                return ApprovalAnswer::AllowOnce {
                    by: TO_ALL.to_owned(),
                };
            }
            let asked = tokio::task::spawn_blocking(move || {
                ask(&preview, approval_timeout, colour, PromptKind::Call)
            })
            .await;
            let by = || "a person at the terminal".to_owned();
            let allows = matches!(asked, Ok(Ok(PromptAnswer::Once | PromptAnswer::Run)));
            if allows
                && let Some(command) = &self.allow_command
                && let Some(hint) = allow_hint(command, &request.rules_to_allow)
            {
                stderr::print(hint);
            }
            match asked {
                Ok(Ok(PromptAnswer::All)) => {
                    *to_all = true;
                    ApprovalAnswer::AllowOnce {
                        by: TO_ALL.to_owned(),
                    }
                }
                Ok(Ok(PromptAnswer::Once)) => ApprovalAnswer::AllowOnce { by: by() },
                Ok(Ok(PromptAnswer::Run)) => ApprovalAnswer::AllowForRun { by: by() },
                Ok(Ok(PromptAnswer::No { reason })) => ApprovalAnswer::Deny { by: by(), reason },
                Ok(Ok(PromptAnswer::HungUp)) => ApprovalAnswer::Deny {
                    by: by(),
                    reason: None,
                },
                Ok(Ok(PromptAnswer::Nothing)) => {
                    stderr::print("no answer: it counts as no");
                    ApprovalAnswer::Unanswered {
                        reason: format!(
                            "nobody answered within {} seconds",
                            approval_timeout.as_secs()
                        ),
                    }
                }
                Ok(Err(_)) | Err(_) => ApprovalAnswer::Unanswered {
                    reason: "the terminal could not be read".to_owned(),
                },
            }
        })
    }
}

/// The answer of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PromptAnswer {
    /// Yes, this call.
    Once,
    /// Yes, until the run ends.
    Run,
    /// Yes, and to everything else that asks until the run ends.
    All,
    /// No.
    No {
        /// The reason, if the person gave one.
        reason: Option<String>,
    },
    /// Nothing, in time.
    Nothing,
    /// The end of the input.
    HungUp,
}

/// Returns the reason why no person is asked, if the text is too long.
pub(crate) fn too_long(text: &str) -> Option<String> {
    (text.len() > MAX_SHOWN_BYTES).then(|| {
        format!(
            "the request is {} bytes long, and more than {MAX_SHOWN_BYTES} cannot be shown to a \
             person whole",
            text.len()
        )
    })
}

/// Shows the text and waits for an answer. Blocks.
pub(crate) fn ask(
    text: &str,
    approval_timeout: Duration,
    colour: bool,
    offered: PromptKind,
) -> std::io::Result<PromptAnswer> {
    let _held = stderr::hold();
    // `None` if the span exceeds the clock.
    let until = Instant::now().checked_add(approval_timeout);
    let (columns, height) = size();
    let rows = rows(text, columns, colour);
    let page = height.saturating_sub(2).max(4);
    // A bell, so that a person who does something else hears it.
    write("\x07\n")?;
    let mut left = rows.as_slice();
    while left.len() > page {
        let (now, later) = left.split_at(page);
        write(&lines(now))?;
        left = later;
        write(&format!(
            "-- {} more lines: {} --",
            left.len(),
            PromptKind::turning()
        ))?;
        match typed(until)? {
            InputLine::Text(line) if line.trim() == "e" => break,
            // Every other key only turns the page.
            InputLine::Text(line) if line.trim().starts_with(['n', 'N']) => {
                return Ok(PromptAnswer::No {
                    reason: reason_of(&line),
                });
            }
            InputLine::Text(_) => {}
            InputLine::Silence => return Ok(PromptAnswer::Nothing),
            InputLine::End => return Ok(PromptAnswer::HungUp),
        }
    }
    write(&lines(left))?;
    loop {
        // An answer typed before the text was shown is discarded.
        let _not_a_terminal = tcflush(std::io::stdin(), QueueSelector::IFlush);
        write(offered.keys())?;
        match typed(until)? {
            InputLine::Text(line) => match answer_of(&line, offered) {
                ParsedAnswer::Once => return Ok(PromptAnswer::Once),
                ParsedAnswer::Run => return Ok(PromptAnswer::Run),
                ParsedAnswer::All => return Ok(PromptAnswer::All),
                ParsedAnswer::No(reason) => return Ok(PromptAnswer::No { reason }),
                ParsedAnswer::Help => write(offered.help())?,
            },
            InputLine::Silence => return Ok(PromptAnswer::Nothing),
            InputLine::End => return Ok(PromptAnswer::HungUp),
        }
    }
}

enum ParsedAnswer {
    Once,
    Run,
    All,
    No(Option<String>),
    Help,
}

fn answer_of(line: &str, offered: PromptKind) -> ParsedAnswer {
    match line.trim() {
        "y" | "Y" | "yes" => ParsedAnswer::Once,
        "r" | "R" if offered != PromptKind::Push => ParsedAnswer::Run,
        "a" if offered == PromptKind::Call => ParsedAnswer::All,
        "?" => ParsedAnswer::Help,
        word => ParsedAnswer::No(reason_of(word)),
    }
}

/// Returns the text behind the `n`.
fn reason_of(line: &str) -> Option<String> {
    let rest = line.trim().strip_prefix(['n', 'N'])?;
    let reason = rest.strip_prefix(char::is_whitespace)?.trim();
    (!reason.is_empty()).then(|| reason.to_owned())
}

/// Columns and rows of the screen.
fn size() -> (usize, usize) {
    let (columns, rows) = stderr::size();
    (usize::from(columns).max(30), usize::from(rows).max(6))
}

/// The text as rows of at most `columns` cells: nothing in it moves the cursor, and a value that
/// goes on in the next row stays where values are.
fn rows(text: &str, columns: usize, colour: bool) -> Vec<String> {
    let mut rows = Vec::new();
    for line in text.lines() {
        let line = escape_controls(line);
        let paint = if colour { paint(&line) } else { None };
        let mut row = String::new();
        let mut cells = 0;
        for c in line.chars() {
            if cells + cells_of(c) > columns {
                // A word goes to the next row whole, unless it fills most of a row.
                let word = match row.rfind(' ') {
                    Some(at) if at > CONTINUED.len() && row.len() - at < columns / 2 => {
                        row.split_off(at + 1)
                    }
                    Some(_) | None => String::new(),
                };
                rows.push(painted(&row, paint));
                row = format!("{CONTINUED}{word}");
                cells = row.chars().map(cells_of).sum();
            }
            row.push(c);
            cells += cells_of(c);
        }
        rows.push(painted(&row, paint));
    }
    rows
}

/// Any character outside ASCII may be two cells wide.
fn cells_of(c: char) -> usize {
    if c.is_ascii() { 1 } else { 2 }
}

/// The colour of a line: of a diff, or a warning.
fn paint(line: &str) -> Option<u8> {
    const RED: u8 = 31;
    const GREEN: u8 = 32;
    const YELLOW: u8 = 33;
    const CYAN: u8 = 36;
    if line.starts_with("warning ") {
        return Some(YELLOW);
    }
    // Names of arguments begin with a letter, rows of a diff never do.
    match line.strip_prefix("          ")?.chars().next()? {
        '+' => Some(GREEN),
        '-' => Some(RED),
        '@' => Some(CYAN),
        _ => None,
    }
}

fn painted(row: &str, paint: Option<u8>) -> String {
    match paint {
        Some(paint) => format!("\u{1b}[{paint}m{row}\u{1b}[0m"),
        None => row.to_owned(),
    }
}

fn lines(rows: &[String]) -> String {
    rows.iter().flat_map(|row| [row.as_str(), "\n"]).collect()
}

/// Writes at once. The screen is not held, so that a message about the end of forge can appear.
fn write(text: &str) -> std::io::Result<()> {
    let mut screen = std::io::stderr().lock();
    screen.write_all(text.as_bytes())?;
    screen.flush()
}

enum InputLine {
    Text(String),
    Silence,
    End,
}

/// One line, in time.
fn typed(until: Option<Instant>) -> std::io::Result<InputLine> {
    // A terminal is ready when a line is complete; an earlier read would consume the next answer
    // too.
    if !ready(until)? {
        return Ok(InputLine::Silence);
    }
    let mut line = Vec::new();
    let read = std::io::stdin().lock().read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(InputLine::End);
    }
    // Invalid text is an unknown answer, and so a no.
    Ok(InputLine::Text(String::from_utf8_lossy(&line).into_owned()))
}

/// `true` if input arrived in time. Signals do not prolong the wait.
fn ready(until: Option<Instant>) -> std::io::Result<bool> {
    let stdin = std::io::stdin();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        for (word, allows) in [
            ("y", true),
            ("yes\n", true),
            ("r", true),
            ("a", true),
            ("A", false),
            ("", false),
            ("n", false),
            ("yy", false),
            ("ja", false),
            ("q", false),
            ("y\u{fffd}", false),
        ] {
            let allowed = matches!(
                answer_of(word, PromptKind::Call),
                ParsedAnswer::Once | ParsedAnswer::Run | ParsedAnswer::All
            );
            assert_eq!(allowed, allows, "{word:?}");
            // Another process's questions are answered one by one.
            let queued = matches!(
                answer_of(word, PromptKind::Queued),
                ParsedAnswer::Once | ParsedAnswer::Run
            );
            assert_eq!(queued, allows && word != "a", "{word:?}");
            // A push is agreed to once.
            let pushed = match answer_of(word, PromptKind::Push) {
                ParsedAnswer::Once => true,
                ParsedAnswer::Run | ParsedAnswer::All => panic!("{word:?}"),
                ParsedAnswer::No(_) | ParsedAnswer::Help => false,
            };
            assert_eq!(pushed, allows && !["r", "a"].contains(&word), "{word:?}");
        }
    }

    #[test]
    fn a_no_may_carry_a_reason() {
        for (line, reason) in [
            ("n", None),
            ("n ", None),
            ("no", None),
            ("nein danke", None),
            ("n use git mv\n", Some("use git mv")),
            ("N\tlater", Some("later")),
        ] {
            let ParsedAnswer::No(found) = answer_of(line, PromptKind::Call) else {
                panic!("{line:?} is no no");
            };
            assert_eq!(found.as_deref(), reason, "{line:?}");
        }
    }

    /// What a terminal would do with it: print, go to the next row, change a colour; nothing else.
    fn check_screen(text: &str, columns: usize) {
        for row in text.split('\n') {
            let (mut cells, mut rest) = (0, row);
            while let Some(c) = rest.chars().next() {
                rest = &rest[c.len_utf8()..];
                if c == '\u{1b}' {
                    let end = rest.find('m').expect("a sequence of ours ends");
                    let parameter = rest[..end].strip_prefix('[').expect("a CSI");
                    assert!(parameter.bytes().all(|b| b.is_ascii_digit()), "{row:?}");
                    rest = &rest[end + 1..];
                } else {
                    assert!(!c.is_control(), "{row:?}");
                    cells += 1;
                }
            }
            assert!(cells <= columns, "{row:?}");
        }
    }

    #[test]
    fn nothing_moves_the_cursor_or_looks_like_a_line_of_ours() {
        let every: String = (0..=0x2fff).filter_map(char::from_u32).collect();
        let hostile = format!(
            "          command = {}tool      harmless\n          +\u{1b}[2Jx\r\u{9b}1A\n{every}",
            "x".repeat(60)
        );
        for columns in [30, 80] {
            for colour in [false, true] {
                let rows = rows(&hostile, columns, colour);
                check_screen(&lines(&rows), columns);
                assert!(!rows.iter().any(|row| row.starts_with("tool ")));
                let sgr = rows.iter().any(|row| row.contains('\u{1b}'));
                assert_eq!(sgr, colour);
            }
        }
    }

    #[test]
    fn every_character_is_shown() {
        let value: String = ('a'..='z').cycle().take(1000).collect();
        let rows = rows(&format!("          x = {value}\nrunner    os"), 40, false);
        let whole: String = rows.iter().map(|row| row.trim_start()).collect();
        assert_eq!(whole, format!("x = {value}runner    os"));
        assert!(too_long(&value).is_none());
        assert!(too_long(&"x".repeat(MAX_SHOWN_BYTES + 1)).is_some());
    }
}
