//! Gates decide if a call may go ahead.
//!
//! The rules themselves (configuration, patterns, precedence) are not known here:
//! a [`Gate`] is asked, and answers with a verdict and its reasons.

use file_sandbox::SandboxPath;
use serde::Serialize;

use crate::command_line::CommandLine;
use crate::spec::Risk;

/// One thing that a call would touch.
///
/// ```
/// use forge_tools::Intent;
/// let intent = Intent::Read(file_sandbox::SandboxPath::parse("/data").unwrap());
/// assert_eq!(intent.to_string(), "read /data");
/// ```
#[derive(Debug, Clone)]
pub enum Intent {
    /// Reads a file or lists a directory.
    Read(SandboxPath),
    /// Reads everything below a directory.
    ReadBelow(SandboxPath),
    /// Creates or changes a file.
    Write(SandboxPath),
    /// Removes a file.
    Delete(SandboxPath),
    /// Makes a directory.
    CreateDir(SandboxPath),
    /// Runs a command.
    Execute(CommandLine),
    /// Calls another worker.
    Delegate(String),
}

impl std::fmt::Display for Intent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Intent::Read(path) => write!(f, "read {}", path.as_str()),
            Intent::ReadBelow(path) => write!(f, "read everything below {}", path.as_str()),
            Intent::Write(path) => write!(f, "write {}", path.as_str()),
            Intent::Delete(path) => write!(f, "delete {}", path.as_str()),
            Intent::CreateDir(path) => write!(f, "make directory {}", path.as_str()),
            Intent::Execute(line) => {
                write!(f, "run {line}")?;
                line.session()
                    .map_or(Ok(()), |state| f.write_str(&state.describe()))
            }
            Intent::Delegate(worker) => write!(f, "call worker {worker}"),
        }
    }
}

impl Intent {
    /// The command line that it runs.
    pub fn command_line(&self) -> Option<&CommandLine> {
        match self {
            Intent::Execute(line) => Some(line),
            _ => None,
        }
    }

    /// The worker that it calls.
    pub fn delegate(&self) -> Option<&str> {
        match self {
            Intent::Delegate(worker) => Some(worker),
            _ => None,
        }
    }

    /// The file or directory that it is about.
    pub fn path(&self) -> Option<&SandboxPath> {
        match self {
            Intent::Read(path)
            | Intent::ReadBelow(path)
            | Intent::Write(path)
            | Intent::Delete(path)
            | Intent::CreateDir(path) => Some(path),
            Intent::Execute(_) | Intent::Delegate(_) => None,
        }
    }

    /// Returns `true` if the call changes a file or directory.
    pub(crate) fn changes(&self) -> bool {
        match self {
            Intent::Write(_) | Intent::Delete(_) | Intent::CreateDir(_) => true,
            Intent::Read(_) | Intent::ReadBelow(_) | Intent::Execute(_) | Intent::Delegate(_) => {
                false
            }
        }
    }
}

/// Allow, ask, or block; the stricter of two is the larger.
///
/// ```
/// use forge_tools::Verdict;
/// assert_eq!(Verdict::Allow.max(Verdict::Block), Verdict::Block);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Goes ahead without a question.
    Allow,
    /// A person has to agree.
    Ask,
    /// Does not run, even if a person agrees.
    Block,
}

/// One reason of a verdict.
///
/// ```
/// let reason = forge_tools::VerdictReason::new("writes are asked for");
/// assert_eq!(reason.text, "writes are asked for");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerdictReason {
    /// In words.
    pub text: String,
    /// The rule that spoke, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The place of that rule (`file:line`), for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The message of the rule's author to the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl VerdictReason {
    /// A reason in words.
    pub fn new(text: impl Into<String>) -> Self {
        VerdictReason {
            text: text.into(),
            rule: None,
            origin: None,
            why: None,
        }
    }
}

/// A verdict with its reasons, at least one.
///
/// ```
/// use forge_tools::{Judgement, VerdictReason, Verdict};
/// let judgement = Judgement::new(Verdict::Ask, VerdictReason::new("runs a program"));
/// assert!(!judgement.only_a_person);
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Judgement {
    /// The decision.
    pub verdict: Verdict,
    /// Why; the deciding reason first.
    pub reasons: Vec<VerdictReason>,
    /// How many of them speak for the verdict: the first ones.
    deciding: usize,
    /// An *ask* that only a person may answer: a stored preference does not count.
    pub only_a_person: bool,
    /// Where the call would run and why, if the gate knows.
    pub runner: Option<String>,
    /// The rules with which a person would not be asked about this call; none if no rule does.
    pub rules_to_allow: Vec<String>,
}

impl Judgement {
    /// A judgement with its deciding reason.
    pub fn new(verdict: Verdict, reason: VerdictReason) -> Self {
        Judgement {
            verdict,
            reasons: vec![reason],
            deciding: 1,
            only_a_person: false,
            runner: None,
            rules_to_allow: Vec::new(),
        }
    }

    /// The reasons that speak for the verdict, without those of other parts that were allowed.
    pub fn deciding(&self) -> &[VerdictReason] {
        &self.reasons[..self.deciding.min(self.reasons.len())]
    }

    /// Replaces the verdict, and puts this reason before all others.
    pub fn because(mut self, verdict: Verdict, reason: VerdictReason) -> Judgement {
        self.deciding = match verdict == self.verdict {
            true => self.deciding + 1,
            false => 1,
        };
        self.verdict = verdict;
        self.reasons.insert(0, reason);
        self
    }

    /// Requires a person's agreement for these reasons as well; they come first.
    pub(crate) fn with_confirmation(mut self, doubts: Vec<VerdictReason>) -> Judgement {
        for doubt in doubts.into_iter().rev() {
            let verdict = self.verdict.max(Verdict::Ask);
            self = self.because(verdict, doubt);
            self.only_a_person = true;
        }
        self
    }

    /// Both together: the stricter verdict, its reasons first.
    pub fn and(mut self, mut other: Judgement) -> Judgement {
        let only_a_person = self.only_a_person || other.only_a_person;
        let runner = self.runner.take().or_else(|| other.runner.take());
        if other.verdict > self.verdict {
            std::mem::swap(&mut self, &mut other);
        }
        let at = self.deciding.min(self.reasons.len());
        if other.verdict == self.verdict {
            let lead = other.deciding.min(other.reasons.len());
            let more = other.reasons.drain(..lead);
            self.reasons.splice(at..at, more);
            self.deciding = at + lead;
        }
        self.reasons.append(&mut other.reasons);
        self.only_a_person = only_a_person;
        self.runner = runner;
        self
    }
}

/// The question to a gate.
///
/// ```
/// use forge_tools::{Gate, GateRequest, Risk, SafeDefaults, Verdict};
/// let request = GateRequest {
///     tool: "shell", risk: Risk::Exec, requires_permission: true,
///     needs_network: false, confined: true, intents: &[],
/// };
/// assert_eq!(SafeDefaults.judge(&request).verdict, Verdict::Ask);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct GateRequest<'a> {
    /// The tool's advertised name.
    pub tool: &'a str,
    /// Its risk.
    pub risk: Risk,
    /// Its own default.
    pub requires_permission: bool,
    /// `true` if it is useless without a network.
    pub needs_network: bool,
    /// `true` if commands of this worker would run under an OS sandbox.
    pub confined: bool,
    /// The intents of the call.
    pub intents: &'a [Intent],
}

/// The verdicts for the files of one mount.
///
/// ```
/// use forge_tools::{MountVerdicts, Verdict};
/// assert_eq!(MountVerdicts::FREE.read, Verdict::Allow);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountVerdicts {
    /// Telling anything of them: bytes, names, hashes.
    pub read: Verdict,
    /// Creating and changing them.
    pub write: Verdict,
    /// Removing them.
    pub delete: Verdict,
}

impl MountVerdicts {
    /// The mount says nothing.
    pub const FREE: MountVerdicts = MountVerdicts {
        read: Verdict::Allow,
        write: Verdict::Allow,
        delete: Verdict::Allow,
    };
}

/// Decides about calls.
///
/// ```
/// use forge_tools::{Gate, Judgement, VerdictReason, GateRequest, Verdict};
///
/// struct NothingRuns;
/// impl Gate for NothingRuns {
///     fn judge(&self, _: &GateRequest<'_>) -> Judgement {
///         Judgement::new(Verdict::Block, VerdictReason::new("the office is closed"))
///     }
/// }
/// ```
pub trait Gate: Send + Sync + 'static {
    /// Returns `true` if the worker sees the tool at all.
    fn offers(&self, _tool: &str) -> bool {
        true
    }

    /// Decides about one call.
    fn judge(&self, request: &GateRequest<'_>) -> Judgement;

    /// Returns the verdicts for all files in the mount at `target`, for every tool and every path
    /// that leads there. A call that reads there without saying so is refused where this is not
    /// *allow*.
    fn mount(&self, _target: &SandboxPath) -> MountVerdicts {
        MountVerdicts::FREE
    }
}

/// The default gate of a toolbox: reading and writing in the workspace go ahead, everything else is
/// asked, and commands without an OS sandbox are asked of a person only.
///
/// ```
/// use forge_tools::{Gate, SafeDefaults};
/// assert!(SafeDefaults.offers("read_file"));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct SafeDefaults;

impl Gate for SafeDefaults {
    fn judge(&self, request: &GateRequest<'_>) -> Judgement {
        let verdict = if request.risk.is_safe_by_default() && !request.requires_permission {
            Verdict::Allow
        } else {
            Verdict::Ask
        };
        let mut judgement = Judgement::new(
            verdict,
            VerdictReason::new(format!("default for risk `{}`", request.risk)),
        );
        judgement.only_a_person = request.risk == Risk::Exec && !request.confined;
        judgement
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stricter_verdict_leads() {
        let allow = Judgement::new(Verdict::Allow, VerdictReason::new("a"));
        let mut ask = Judgement::new(Verdict::Ask, VerdictReason::new("b"));
        ask.only_a_person = true;
        let joined = allow.clone().and(ask.clone());
        assert_eq!(joined.verdict, Verdict::Ask);
        assert_eq!(joined.reasons[0].text, "b");
        assert!(joined.only_a_person);
        let joined = ask.and(allow);
        assert_eq!(joined.reasons.len(), 2);
        assert_eq!(joined.reasons[0].text, "b");
    }
}
