//! Questions to the person on the terminal, about a call of this or of another process.
//!
//! Every value is shown whole and with control characters escaped, a screenful at a time; input
//! typed before the end of the text is discarded. Enter, end of input and anything unknown mean no.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forge_tools::{ApprovalAnswer, ApprovalRequest, Approver, BoxFuture, escape_controls};

use crate::output::describe::in_colour;
use crate::output::escape::shell_word;
use crate::output::prompt_terminal::{InputLine, PromptTerminal, Withdrawal, withdrawable};
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
    /// A host that a running command wants to reach; with `true`, also by a rule from now on.
    Host(bool),
    /// A host that a command of another process wants to reach.
    QueuedHost,
}

impl PromptKind {
    fn keys(self) -> &'static str {
        match self {
            PromptKind::Call => "[y] once  [r] this run  [a] everything that asks  [n] no  [?] > ",
            PromptKind::Queued => "[y] once  [r] this run  [n] no  [?] > ",
            PromptKind::Push => "[y] push it  [n] no  [?] > ",
            PromptKind::Host(true) => "[y] this command  [r] this run  [w] always  [n] no  [?] > ",
            PromptKind::Host(false) | PromptKind::QueuedHost => {
                "[y] this command  [r] this run  [n] no  [?] > "
            }
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
            PromptKind::Host(true) => HOST_HELP,
            PromptKind::Host(false) | PromptKind::QueuedHost => HOST_HELP_WITHOUT_RULE,
        }
    }
}

const HOST_HELP: &str = include_str!("prompt/host.txt");

const HOST_HELP_WITHOUT_RULE: &str = include_str!("prompt/host_without_rule.txt");

const PUSH_HELP: &str = include_str!("prompt/push.txt");

const HELP: &str = include_str!("prompt/call.txt");

const QUEUED_HELP: &str = include_str!("prompt/queued.txt");

/// Writes rules for a person who answers "always".
pub(crate) trait RuleWriter: std::fmt::Debug + Send + Sync {
    /// Shows the change for these workers and asks. Returns `false` if nothing is written, which it
    /// tells.
    ///
    /// # Errors
    /// The terminal is gone.
    fn write(
        &self,
        rules: &[String],
        workers: &[String],
        prompt: &Prompt<'_>,
        terminal: &mut PromptTerminal,
    ) -> std::io::Result<bool>;
}

/// A person at the terminal that forge was started from.
#[derive(Debug)]
pub(crate) struct TerminalApprover {
    approval_timeout: Duration,
    colour: bool,
    /// The command that keeps a yes as a rule; `None` if it is not to be named.
    allow_command: Option<String>,
    /// Writes a rule about a host; `None` if rules cannot be written.
    rules: Option<Arc<dyn RuleWriter>>,
    terminal: TerminalChoice,
    /// Serialises the questions. `true` if the person has agreed to everything that asks.
    turn: tokio::sync::Mutex<bool>,
}

impl TerminalApprover {
    /// A question waits as long as `approval_timeout`; then it counts as no.
    pub(crate) fn new(
        approval_timeout: Duration,
        colour: bool,
        allow_command: Option<String>,
        rules: Option<Arc<dyn RuleWriter>>,
    ) -> Self {
        TerminalApprover {
            approval_timeout,
            colour,
            allow_command,
            rules,
            terminal: TerminalChoice::Standard,
            turn: tokio::sync::Mutex::new(false),
        }
    }

    /// Asks on the controlling terminal, while a command has standard input and output.
    pub(crate) fn on_controlling_terminal(self) -> Self {
        TerminalApprover {
            terminal: TerminalChoice::Controlling,
            ..self
        }
    }

    /// Shows a question and returns its answer. It is withdrawn if the future is dropped.
    async fn show(&self, request: &ApprovalRequest) -> std::io::Result<PromptAnswer> {
        // Dropped with this future.
        let (_hold, withdrawal) = withdrawable()?;
        let question = TerminalQuestion {
            text: request.question(),
            until: Instant::now().checked_add(self.approval_timeout),
            colour: self.colour,
            host_rules: request
                .host
                .is_some()
                .then(|| request.rules_to_allow.clone()),
            workers: request.caller.chain().to_vec(),
            writer: self.rules.clone(),
            terminal: self.terminal,
            withdrawal,
        };
        let asked = tokio::task::spawn_blocking(move || question.ask()).await;
        asked.map_err(std::io::Error::other)?
    }
}

/// The terminal of an approver.
#[derive(Debug, Clone, Copy)]
enum TerminalChoice {
    Standard,
    Controlling,
}

/// A question on its way to a thread that may wait.
struct TerminalQuestion {
    text: String,
    /// `None` if the span exceeds the clock.
    until: Option<Instant>,
    colour: bool,
    /// The rules about the host; `None` of a question about a call.
    host_rules: Option<Vec<String>>,
    workers: Vec<String>,
    writer: Option<Arc<dyn RuleWriter>>,
    terminal: TerminalChoice,
    withdrawal: Withdrawal,
}

impl TerminalQuestion {
    /// Asks until there is an answer: a rule that the person does not confirm is none.
    fn ask(&self) -> std::io::Result<PromptAnswer> {
        let _held = stderr::hold();
        let mut terminal = match self.terminal {
            TerminalChoice::Standard => PromptTerminal::Standard,
            TerminalChoice::Controlling => PromptTerminal::controlling()?,
        };
        let kind = match &self.host_rules {
            Some(_) => PromptKind::Host(self.writer.is_some()),
            None => PromptKind::Call,
        };
        let prompt = Prompt {
            text: &self.text,
            until: self.until,
            colour: self.colour,
            kind,
            withdrawal: Some(&self.withdrawal),
        };
        loop {
            let answer = prompt.ask(&mut terminal)?;
            match (&answer, &self.writer, &self.host_rules) {
                (PromptAnswer::Always, Some(writer), Some(rules)) => {
                    if writer.write(rules, &self.workers, &prompt, &mut terminal)? {
                        return Ok(answer);
                    }
                }
                (PromptAnswer::Withdrawn, ..) => {
                    terminal.write("\nthe question is withdrawn: what asked it has ended\n")?;
                    return Ok(answer);
                }
                _ => return Ok(answer),
            }
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
        Box::pin(async move {
            if let Some(reason) = too_long(&request.question()) {
                return ApprovalAnswer::Unanswered { reason };
            }
            let mut to_all = self.turn.lock().await;
            if *to_all && !request.only_a_person {
                return ApprovalAnswer::allow_once(TO_ALL.to_owned());
            }
            let asked = self.show(request).await;
            let allows = matches!(asked, Ok(PromptAnswer::Once | PromptAnswer::Run));
            // A key of the question about a host writes its rule.
            let is_told = request.host.is_some() && self.rules.is_some();
            if allows
                && !is_told
                && let Some(command) = &self.allow_command
                && let Some(hint) = allow_hint(command, &request.rules_to_allow)
            {
                stderr::print(hint);
            }
            *to_all |= matches!(asked, Ok(PromptAnswer::All));
            self.answer(asked)
        })
    }
}

impl TerminalApprover {
    fn answer(&self, asked: std::io::Result<PromptAnswer>) -> ApprovalAnswer {
        let by = || "a person at the terminal".to_owned();
        match asked {
            Ok(PromptAnswer::All) => ApprovalAnswer::allow_once(TO_ALL.to_owned()),
            Ok(PromptAnswer::Once) => ApprovalAnswer::allow_once(by()),
            Ok(PromptAnswer::Run) => ApprovalAnswer::AllowForRun { by: by() },
            Ok(PromptAnswer::Always) => ApprovalAnswer::AllowForRun {
                by: format!("{}, by a rule for this project", by()),
            },
            Ok(PromptAnswer::No { reason }) => ApprovalAnswer::Deny { by: by(), reason },
            Ok(PromptAnswer::HungUp) => {
                ApprovalAnswer::unanswered("the input ended without an answer")
            }
            Ok(PromptAnswer::Nothing) => {
                stderr::print("no answer: it counts as no");
                ApprovalAnswer::unanswered(format!(
                    "nobody answered within {} seconds",
                    self.approval_timeout.as_secs()
                ))
            }
            Ok(PromptAnswer::Withdrawn) => ApprovalAnswer::unanswered("the question was withdrawn"),
            Err(_) => ApprovalAnswer::unanswered("the terminal could not be read"),
        }
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
    /// Yes, until the run ends and by a rule from then on.
    Always,
    /// No.
    No {
        /// The reason, if the person gave one.
        reason: Option<String>,
    },
    /// Nothing, in time.
    Nothing,
    /// The end of the input.
    HungUp,
    /// The question was withdrawn.
    Withdrawn,
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

/// Shows the text on standard error and waits for an answer. Blocks.
pub(crate) fn ask(
    text: &str,
    approval_timeout: Duration,
    colour: bool,
    kind: PromptKind,
) -> std::io::Result<PromptAnswer> {
    let _held = stderr::hold();
    let prompt = Prompt {
        text,
        until: Instant::now().checked_add(approval_timeout),
        colour,
        kind,
        withdrawal: None,
    };
    prompt.ask(&mut PromptTerminal::Standard)
}

/// A question as it is shown.
pub(crate) struct Prompt<'a> {
    text: &'a str,
    /// `None` if it has no time limit.
    until: Option<Instant>,
    colour: bool,
    kind: PromptKind,
    withdrawal: Option<&'a Withdrawal>,
}

impl Prompt<'_> {
    /// Shows the question and waits for an answer. Blocks.
    fn ask(&self, terminal: &mut PromptTerminal) -> std::io::Result<PromptAnswer> {
        let (columns, height) = terminal.size();
        let columns = usize::from(columns).max(30);
        let rows = rows(self.text, columns, self.colour);
        let page = usize::from(height).max(6).saturating_sub(2).max(4);
        // A bell, so that a person who does something else hears it.
        terminal.write("\x07\n")?;
        let mut left = rows.as_slice();
        while left.len() > page {
            let (now, later) = left.split_at(page);
            terminal.write(&lines(now))?;
            left = later;
            terminal.write(&format!(
                "-- {} more lines: {} --",
                left.len(),
                PromptKind::turning()
            ))?;
            match self.typed(terminal)? {
                Ok(line) if line.trim() == "e" => break,
                // Every other key only turns the page.
                Ok(line) if line.trim().starts_with(['n', 'N']) => {
                    return Ok(PromptAnswer::No {
                        reason: reason_of(&line),
                    });
                }
                Ok(_) => {}
                Err(end) => return Ok(end),
            }
        }
        terminal.write(&lines(left))?;
        loop {
            terminal.await_pause(self.until, self.withdrawal)?;
            terminal.write(self.kind.keys())?;
            let line = match self.typed(terminal)? {
                Ok(line) => line,
                Err(end) => return Ok(end),
            };
            match answer_of(&line, self.kind) {
                Some(answer) => return Ok(answer),
                None => terminal.write(self.kind.help())?,
            }
        }
    }

    /// Shows a change and asks if it is to be written. A question that ends meanwhile is a no.
    pub(crate) fn confirm(
        &self,
        text: &str,
        terminal: &mut PromptTerminal,
    ) -> std::io::Result<bool> {
        terminal.write(&format!("{}\n", text.trim_end()))?;
        terminal.await_pause(self.until, self.withdrawal)?;
        terminal.write("Write this? [y/N] ")?;
        let typed = self.typed(terminal)?;
        Ok(matches!(
            typed.as_deref().map(str::trim),
            Ok("y" | "Y" | "yes")
        ))
    }

    /// Reads a line; an error is the answer without one.
    fn typed(
        &self,
        terminal: &mut PromptTerminal,
    ) -> std::io::Result<Result<String, PromptAnswer>> {
        Ok(match terminal.read_line(self.until, self.withdrawal)? {
            InputLine::Text(line) => Ok(line),
            InputLine::Silence => Err(PromptAnswer::Nothing),
            InputLine::End => Err(PromptAnswer::HungUp),
            InputLine::Withdrawn => Err(PromptAnswer::Withdrawn),
        })
    }
}

/// Returns the answer in a line; `None` for a request for help.
fn answer_of(line: &str, offered: PromptKind) -> Option<PromptAnswer> {
    Some(match line.trim() {
        "y" | "Y" | "yes" => PromptAnswer::Once,
        "r" | "R" if offered != PromptKind::Push => PromptAnswer::Run,
        "a" if offered == PromptKind::Call => PromptAnswer::All,
        "w" if offered == PromptKind::Host(true) => PromptAnswer::Always,
        "?" => return None,
        word => PromptAnswer::No {
            reason: reason_of(word),
        },
    })
}

/// Returns the text behind the `n`.
fn reason_of(line: &str) -> Option<String> {
    let rest = line.trim().strip_prefix(['n', 'N'])?;
    let reason = rest.strip_prefix(char::is_whitespace)?.trim();
    (!reason.is_empty()).then(|| reason.to_owned())
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
        Some(paint) => in_colour(paint, row),
        None => row.to_owned(),
    }
}

fn lines(rows: &[String]) -> String {
    rows.iter().flat_map(|row| [row.as_str(), "\n"]).collect()
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
                Some(PromptAnswer::Once | PromptAnswer::Run | PromptAnswer::All)
            );
            assert_eq!(allowed, allows, "{word:?}");
            // Another process's questions are answered one by one.
            let queued = matches!(
                answer_of(word, PromptKind::Queued),
                Some(PromptAnswer::Once | PromptAnswer::Run)
            );
            assert_eq!(queued, allows && word != "a", "{word:?}");
            // A push is agreed to once.
            let pushed = match answer_of(word, PromptKind::Push) {
                Some(PromptAnswer::Once) => true,
                Some(PromptAnswer::No { .. }) | None => false,
                Some(_) => panic!("{word:?}"),
            };
            assert_eq!(pushed, allows && !["r", "a"].contains(&word), "{word:?}");
            // The key for every later question does not speak for hosts.
            for kind in [PromptKind::Host(true), PromptKind::QueuedHost] {
                let host = match answer_of(word, kind) {
                    Some(PromptAnswer::Once | PromptAnswer::Run) => true,
                    Some(PromptAnswer::No { .. }) | None => false,
                    Some(_) => panic!("{word:?}"),
                };
                assert_eq!(host, allows && word != "a", "{word:?}");
            }
        }
        let always = |kind| answer_of("w", kind) == Some(PromptAnswer::Always);
        assert!(always(PromptKind::Host(true)));
        for kind in [
            PromptKind::Host(false),
            PromptKind::QueuedHost,
            PromptKind::Call,
        ] {
            assert!(!always(kind), "{kind:?}");
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
            let Some(PromptAnswer::No { reason: found }) = answer_of(line, PromptKind::Call) else {
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
