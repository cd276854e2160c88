//! Verifies that a log is still as written.
//!
//! Every line names its number and the hash of the line before it, so a changed, removed, inserted
//! or moved line breaks the chain at that place; the seal, whose every byte follows from the lines
//! before it, shows that the end is the end. A chain cannot show that all of it was rewritten: for
//! that, compare [`VerificationReport::head`] with a copy that was stored elsewhere.

use std::io::BufRead;

use super::line::{self, Head, NOTHING_BEFORE};
use super::read::{LineReader, RawLine};

/// The position of a line.
///
/// ```
/// use forge_tools::audit::LogPosition;
/// assert_eq!(LogPosition { segment: 0, line: 3 }.to_string(), "line 3 of audit.jsonl");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPosition {
    /// Which file, counted from 0.
    pub segment: u32,
    /// Which line of it, counted from 1.
    pub line: u64,
}

impl std::fmt::Display for LogPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let file = line::segment_name(self.segment);
        write!(f, "line {} of {file}", self.line)
    }
}

/// The result of a verification.
///
/// ```
/// use forge_tools::audit::Integrity;
/// assert_eq!(Integrity::Whole.to_string(), "whole");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Integrity {
    /// Every line is as written, up to the seal.
    Whole,
    /// Every present line is as written, but the seal is missing: the run goes on, was killed, or
    /// the end was cut off.
    Unsealed,
    /// The log is unsealed and its last line is torn, as after a kill or a power cut. The next
    /// program that opens the log repairs it.
    Torn {
        /// Where it is.
        at: LogPosition,
    },
    /// The log is not as written.
    Broken(LogDefect),
}

impl std::fmt::Display for Integrity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Integrity::Whole => f.write_str("whole"),
            Integrity::Unsealed => f.write_str(
                "not sealed, as after a kill: its lines are unchanged, and more may be missing",
            ),
            Integrity::Torn { at } => write!(f, "{at} is torn; the lines before it hold"),
            Integrity::Broken(found) => found.fmt(f),
        }
    }
}

/// Where a chain is broken first, and how.
///
/// ```
/// use forge_tools::audit::{LogDefect, LogPosition};
/// let edited = LogDefect::Edited { at: LogPosition { segment: 0, line: 2 } };
/// assert_eq!(edited.to_string(), "line 2 of audit.jsonl was edited");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogDefect {
    /// A line is not the one that the next line was written after.
    Edited {
        /// The line.
        at: LogPosition,
    },
    /// Lines are missing.
    Cut {
        /// The line that should come after them.
        before: LogPosition,
        /// How many.
        missing: u64,
    },
    /// A line is out of place, or repeated.
    Reordered {
        /// The line.
        at: LogPosition,
    },
    /// A line that is none of this log.
    Foreign {
        /// The line.
        at: LogPosition,
        /// The reason.
        why: &'static str,
    },
}

impl std::fmt::Display for LogDefect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LogDefect::Edited { at } => write!(f, "{at} was edited"),
            LogDefect::Cut { before, missing: 1 } => write!(f, "a line is missing before {before}"),
            LogDefect::Cut { before, missing } => {
                write!(f, "{missing} lines are missing before {before}")
            }
            LogDefect::Reordered { at } => write!(f, "{at} is not in its place"),
            LogDefect::Foreign { at, why } => write!(f, "{at} is not of this log: {why}"),
        }
    }
}

/// The findings of [`Verifier`].
///
/// ```
/// let found = forge_tools::audit::verify(&b""[..]).unwrap();
/// assert_eq!((found.lines, found.segments), (0, 1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerificationReport {
    /// The outcome.
    pub integrity: Integrity,
    /// Lines that hold, from the first one.
    pub lines: u64,
    /// Files.
    pub segments: u32,
    /// The hash of the last line that holds: it changes with any byte of the log.
    pub head: String,
    /// Bytes of the last file up to there.
    pub(super) sound_bytes: u64,
}

/// Follows the chain through the files of a log, in bounded memory.
///
/// ```
/// use forge_tools::audit::{Integrity, Verifier};
/// let mut verifier = Verifier::new();
/// verifier.segment(&b""[..]).unwrap();
/// assert_eq!(verifier.finish().integrity, Integrity::Unsealed);
/// ```
#[derive(Debug)]
pub struct Verifier {
    seq: u64,
    prev: String,
    /// The position of the line with the hash `prev`.
    last: LogPosition,
    segments: u32,
    sound_bytes: u64,
    sealed: bool,
    torn: Option<LogPosition>,
    walk: ChainState,
}

/// How the lines so far hang together.
#[derive(Debug)]
enum ChainState {
    Sound,
    /// The line at `at` does not name the hash of the one at `last`: which of the two was edited,
    /// the next line tells.
    Mismatch {
        at: LogPosition,
        hash: String,
    },
    /// Lines from `self.seq` on are not there, unless they come later.
    Missing {
        before: LogPosition,
        missing: u64,
    },
    Broken(LogDefect),
}

impl Default for Verifier {
    fn default() -> Self {
        Verifier::new()
    }
}

impl Verifier {
    /// Before the first line.
    pub fn new() -> Self {
        Verifier {
            seq: 0,
            prev: NOTHING_BEFORE.to_owned(),
            last: LogPosition {
                segment: 0,
                line: 1,
            },
            segments: 0,
            sound_bytes: 0,
            sealed: false,
            torn: None,
            walk: ChainState::Sound,
        }
    }

    /// Reads the next file of the log.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn segment(&mut self, input: impl BufRead) -> std::io::Result<()> {
        let mut lines = LineReader::new(input);
        let mut at = LogPosition {
            segment: self.segments,
            line: 0,
        };
        self.segments += 1;
        self.sound_bytes = 0;
        while let Some(line) = lines.next_line()? {
            at.line += 1;
            self.line(at, line);
            if matches!(self.walk, ChainState::Broken(_)) {
                break;
            }
        }
        // A file begins with its first line. A kill leaves an empty one, but a log that had ended
        // never begins another file.
        if at.line == 0 && self.sealed && at.segment > 0 {
            at.line = 1;
            self.foreign(at, "it comes after the seal");
        }
        Ok(())
    }

    /// One line; each is given once.
    fn line(&mut self, at: LogPosition, line: RawLine<'_>) {
        if let Some(torn) = self.torn.take() {
            return self.foreign(torn, "it is not whole, and the log goes on after it");
        }
        let bytes = match line {
            RawLine::Whole(bytes) => bytes,
            RawLine::Torn(_) => {
                self.torn = Some(at);
                return;
            }
            RawLine::TooLong(_) => return self.foreign(at, "it is longer than any that we write"),
        };
        let Ok(head) = serde_json::from_slice::<Head<'_>>(bytes) else {
            return self.foreign(at, "it has no number and hash");
        };
        match &self.walk {
            ChainState::Sound => self.sound(at, bytes, &head),
            ChainState::Mismatch { at: second, hash } => {
                let edited = if head.prev == hash {
                    self.last
                } else {
                    *second
                };
                self.walk = ChainState::Broken(LogDefect::Edited { at: edited });
            }
            ChainState::Missing { .. } => {
                if head.seq == self.seq {
                    self.walk = ChainState::Broken(LogDefect::Reordered { at });
                }
            }
            ChainState::Broken(_) => {}
        }
    }

    fn sound(&mut self, at: LogPosition, bytes: &[u8], head: &Head<'_>) {
        if head.seq > self.seq {
            self.walk = ChainState::Missing {
                before: at,
                missing: head.seq - self.seq,
            };
            return;
        }
        if head.seq < self.seq {
            self.walk = ChainState::Broken(LogDefect::Reordered { at });
            return;
        }
        let hash = line::hash(bytes);
        if head.prev != self.prev {
            self.walk = ChainState::Mismatch { at, hash };
            return;
        }
        let is_seal = head.kind == "seal";
        if is_seal && bytes != line::seal(self.seq, &self.prev) {
            self.walk = ChainState::Broken(LogDefect::Edited { at });
            return;
        }
        if self.sealed && head.kind != "resumed" {
            return self.foreign(at, "it comes after the seal");
        }
        self.sealed = is_seal;
        self.seq = self.seq.saturating_add(1);
        self.prev = hash;
        self.last = at;
        self.sound_bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    }

    /// A line that is none of ours: unless an earlier one is to blame.
    fn foreign(&mut self, at: LogPosition, why: &'static str) {
        self.walk = ChainState::Broken(match &self.walk {
            ChainState::Sound => LogDefect::Foreign { at, why },
            ChainState::Mismatch { .. } => LogDefect::Edited { at: self.last },
            ChainState::Missing { before, missing } => LogDefect::Cut {
                before: *before,
                missing: *missing,
            },
            ChainState::Broken(found) => found.clone(),
        });
    }

    /// The outcome.
    pub fn finish(self) -> VerificationReport {
        let integrity = match self.walk {
            ChainState::Broken(found) => Integrity::Broken(found),
            // The first line has nothing before it that could have been edited.
            ChainState::Mismatch { at, .. } if self.seq == 0 => {
                Integrity::Broken(LogDefect::Edited { at })
            }
            ChainState::Mismatch { .. } => Integrity::Broken(LogDefect::Edited { at: self.last }),
            ChainState::Missing { before, missing } => {
                Integrity::Broken(LogDefect::Cut { before, missing })
            }
            ChainState::Sound => match self.torn {
                Some(at) => Integrity::Torn { at },
                None if self.sealed => Integrity::Whole,
                None => Integrity::Unsealed,
            },
        };
        VerificationReport {
            integrity,
            lines: self.seq,
            segments: self.segments,
            head: self.prev,
            sound_bytes: self.sound_bytes,
        }
    }
}

/// Verifies a log of one file.
///
/// ```
/// use forge_tools::audit::{LogDefect, Integrity, verify};
/// let found = verify(&b"hello\n"[..]).unwrap();
/// assert!(matches!(found.integrity, Integrity::Broken(LogDefect::Foreign { .. })));
/// ```
///
/// # Errors
///
/// It cannot be read.
pub fn verify(input: impl BufRead) -> std::io::Result<VerificationReport> {
    let mut verifier = Verifier::new();
    verifier.segment(input)?;
    Ok(verifier.finish())
}
