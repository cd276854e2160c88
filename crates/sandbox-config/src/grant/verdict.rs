//! Consent: operations that happen unasked, are asked about, or never happen. Capability (may the
//! mount be written at all) is a different axis; the stricter of the two holds.

use std::collections::BTreeMap;

use crate::syntax::text::{ConfigOrigin, SourceLocation, Span};
use crate::syntax::word::words;

words! {
    /// The decision about an operation of a worker. Ordered by strictness, so the meet is `max`.
    ///
    /// ```
    /// use sandbox_config::Verdict;
    /// assert_eq!(Verdict::Allow.max(Verdict::Ask), Verdict::Ask);
    /// assert_eq!(Verdict::Block.to_string(), "blocked");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Verdict {
        /// `preApproved`: it happens.
        Allow = "preApproved",
        /// `ask`: a person decides.
        Ask = "ask",
        /// `blocked`: it never happens, in no mode.
        Block = "blocked",
    }
}

words! {
    /// An operation on a file, as far as approval is concerned.
    ///
    /// ```
    /// use sandbox_config::Operation;
    /// assert_eq!(Operation::Delete.to_string(), "delete");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Operation {
        /// Reading, listing, searching.
        Read = "read",
        /// Creating and changing.
        Write = "write",
        /// Removing, and the source side of a move.
        Delete = "delete",
    }
}

impl Operation {
    /// All three.
    pub const ALL: [Operation; 3] = [Operation::Read, Operation::Write, Operation::Delete];
}

/// A verdict for each operation on one mount. An operation without an explicit verdict is
/// *unstated*: a worker's own declaration may still settle it either way, and until then the
/// mount's default holds. An explicit verdict can only become stricter.
///
/// ```
/// use sandbox_config::{MountApproval, Operation, Verdict};
/// let zone = MountApproval::ASKING;
/// assert_eq!(zone.verdict(Operation::Read), Verdict::Allow);
/// assert_eq!(zone.verdict(Operation::Delete), Verdict::Ask);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountApproval {
    pub(crate) read: VerdictSetting,
    pub(crate) write: VerdictSetting,
    pub(crate) delete: VerdictSetting,
}

/// A verdict, explicit or by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VerdictSetting {
    /// No file sets a verdict; this one holds meanwhile.
    Default(Verdict),
    Explicit(Verdict),
}

impl VerdictSetting {
    pub(crate) fn verdict(self) -> Verdict {
        match self {
            VerdictSetting::Default(verdict) | VerdictSetting::Explicit(verdict) => verdict,
        }
    }

    /// Returns the strictest verdict that may still be loosened to: the right that is held, as
    /// opposed to the one in use. Monotone under every declaration.
    pub(crate) fn ceiling(self) -> Verdict {
        match self {
            VerdictSetting::Default(_) => Verdict::Allow,
            VerdictSetting::Explicit(verdict) => verdict,
        }
    }
}

impl MountApproval {
    /// Zone projects: reading is free, writing and deleting are asked about.
    pub const ASKING: MountApproval = MountApproval {
        read: VerdictSetting::Default(Verdict::Allow),
        write: VerdictSetting::Default(Verdict::Ask),
        delete: VerdictSetting::Default(Verdict::Ask),
    };

    /// Every other project: the mount has no word of its own, and the tool axis decides alone.
    pub const SILENT: MountApproval = MountApproval {
        read: VerdictSetting::Default(Verdict::Allow),
        write: VerdictSetting::Default(Verdict::Allow),
        delete: VerdictSetting::Default(Verdict::Allow),
    };

    /// Returns the verdict for an operation.
    #[must_use]
    pub fn verdict(&self, operation: Operation) -> Verdict {
        self.stated(operation).verdict()
    }

    pub(crate) fn stated(&self, operation: Operation) -> VerdictSetting {
        match operation {
            Operation::Read => self.read,
            Operation::Write => self.write,
            Operation::Delete => self.delete,
        }
    }

    pub(crate) fn set_verdict(&mut self, operation: Operation, verdict: Verdict) {
        let place = match operation {
            Operation::Read => &mut self.read,
            Operation::Write => &mut self.write,
            Operation::Delete => &mut self.delete,
        };
        *place = VerdictSetting::Explicit(verdict);
    }
}

words! {
    /// How much harm a kind of tool can do.
    ///
    /// ```
    /// use sandbox_config::Risk;
    /// assert_eq!(Risk::WritesFs.to_string(), "writes_fs");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Risk {
        /// Changes nothing.
        ReadOnly = "read_only",
        /// Changes files of the workspace.
        WritesWorkspace = "writes_workspace",
        /// Changes files elsewhere within the mounts.
        WritesFs = "writes_fs",
        /// Talks to the network.
        Network = "network",
        /// Runs programs.
        Exec = "exec",
    }
}

impl Risk {
    /// All five, mildest first.
    pub const ALL: [Risk; 5] = [
        Risk::ReadOnly,
        Risk::WritesWorkspace,
        Risk::WritesFs,
        Risk::Network,
        Risk::Exec,
    ];

    /// Returns the verdict if neither the project nor the tool sets one.
    #[must_use]
    pub fn safe_default(self) -> Verdict {
        match self {
            Risk::ReadOnly | Risk::WritesWorkspace => Verdict::Allow,
            Risk::WritesFs | Risk::Network | Risk::Exec => Verdict::Ask,
        }
    }
}

sandbox_names::word_enum! {
    /// `approval.mode`: how rules become answers in the whole project.
    ///
    /// ```
    /// use sandbox_config::{ApprovalMode, Risk, Verdict};
    /// assert_eq!(ApprovalMode::Auto.answer(Verdict::Ask, Risk::Exec), Verdict::Allow);
    /// assert_eq!(ApprovalMode::Auto.answer(Verdict::Block, Risk::Exec), Verdict::Block);
    /// assert_eq!(ApprovalMode::Manual.answer(Verdict::Allow, Risk::Exec), Verdict::Ask);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ApprovalMode {
        /// A question is answered with yes; a blocked call stays blocked.
        Auto = "auto",
        /// The rules decide.
        Tool = "tool",
        /// Everything that is not read-only is asked about.
        Manual = "manual",
        /// A question is answered with no.
        Deny = "deny",
    }
    fn word
}

impl ApprovalMode {
    /// Applies the mode to a verdict. Never turns a Block into anything else.
    #[must_use]
    pub fn answer(self, verdict: Verdict, risk: Risk) -> Verdict {
        match (self, verdict) {
            (_, Verdict::Block) | (ApprovalMode::Deny, Verdict::Ask) => Verdict::Block,
            (ApprovalMode::Tool, other) => other,
            (ApprovalMode::Auto, Verdict::Allow | Verdict::Ask) => Verdict::Allow,
            (ApprovalMode::Deny, Verdict::Allow) => Verdict::Allow,
            (ApprovalMode::Manual, Verdict::Ask) => Verdict::Ask,
            (ApprovalMode::Manual, Verdict::Allow) => match risk {
                Risk::ReadOnly => Verdict::Allow,
                Risk::WritesWorkspace | Risk::WritesFs | Risk::Network | Risk::Exec => Verdict::Ask,
            },
        }
    }
}

sandbox_names::display!(ApprovalMode = word());

/// The tool axis of approval: the mode, and the project's rules for risks and tools.
///
/// ```
/// use sandbox_config::{ApprovalPolicy, ApprovalMode, Risk, Verdict};
/// let approval = ApprovalPolicy::default();
/// assert_eq!(approval.mode(), ApprovalMode::Tool);
/// assert_eq!(approval.tool("shell", Risk::Exec, None), Verdict::Ask);
/// assert_eq!(approval.tool("read_file", Risk::ReadOnly, None), Verdict::Allow);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalPolicy {
    pub(crate) mode: ApprovalMode,
    pub(crate) mode_at: SourceLocation,
    pub(crate) by_risk: BTreeMap<Risk, ApprovalRequirement>,
    pub(crate) by_tool: BTreeMap<String, ApprovalRequirement>,
    pub(crate) timeout_s: u64,
    /// The requirements of the user file, independent of the project.
    pub(crate) floor: MinimumStrictness,
}

/// The verdict of a rule about a tool or a risk, and its location.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ApprovalRequirement {
    pub(crate) verdict: Verdict,
    pub(crate) at: SourceLocation,
}

impl ApprovalRequirement {
    pub(crate) fn at(verdict: Verdict, span: &Span) -> ApprovalRequirement {
        let at = SourceLocation::at(span);
        ApprovalRequirement { verdict, at }
    }
}

impl std::fmt::Debug for ApprovalRequirement {
    // Why: recorded runs have the former name of the type in their fingerprint.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asks")
            .field("verdict", &self.verdict)
            .field("at", &self.at)
            .finish()
    }
}

/// The strictness that nothing lifts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MinimumStrictness {
    manual: bool,
    deny: bool,
    mode_at: SourceLocation,
    tools: BTreeMap<String, ApprovalRequirement>,
    risks: BTreeMap<Risk, ApprovalRequirement>,
}

impl Default for ApprovalPolicy {
    fn default() -> ApprovalPolicy {
        ApprovalPolicy {
            mode: ApprovalMode::Tool,
            mode_at: SourceLocation::default(),
            by_risk: BTreeMap::new(),
            by_tool: BTreeMap::new(),
            timeout_s: 300,
            floor: MinimumStrictness::default(),
        }
    }
}

impl ApprovalPolicy {
    sandbox_names::getters! {
        /// The mode.
        pub mode: ApprovalMode = mode;
        /// Returns the location of the mode; `None` if it is the default.
        pub mode_at: Option<&ConfigOrigin> = mode_at.origin();
        /// Returns the seconds after which an unanswered question counts as no.
        pub timeout_s: u64 = timeout_s;
    }

    /// Returns the project's verdict for a risk, if it has one.
    #[must_use]
    pub fn for_risk(&self, risk: Risk) -> Option<Verdict> {
        self.by_risk.get(&risk).map(|asks| asks.verdict)
    }

    /// Returns the project's verdict for one tool, if it has one.
    #[must_use]
    pub fn for_tool(&self, tool: &str) -> Option<Verdict> {
        self.by_tool.get(tool).map(|asks| asks.verdict)
    }

    /// Returns the key behind [`ApprovalPolicy::tool`] and its location; `None` if no file names
    /// the tool or its risk.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # std::fs::write(dir.path().join("golem-forge.config.yaml"),
    /// #     "approval: { require_user_permission: { write_file: true } }\n").unwrap();
    /// use sandbox_config::{load, Risk, Sources};
    /// let project = load(&Sources::new(dir.path())).unwrap();
    /// let approval = project.ceiling().approval();
    /// let (key, at) = approval.tool_at("write_file", Risk::WritesWorkspace).unwrap();
    /// assert_eq!(key, "approval.require_user_permission.write_file");
    /// assert_eq!(at.unwrap().line(), 1);
    /// assert!(approval.tool_at("read_file", Risk::ReadOnly).is_none());
    /// ```
    #[must_use]
    pub fn tool_at(&self, tool: &str, risk: Risk) -> Option<(String, Option<&ConfigOrigin>)> {
        let by_tool = self.by_tool.get(tool).map(|asks| (tool_key(tool), asks));
        let said = by_tool.or_else(|| Some((risk_key(risk), self.by_risk.get(&risk)?)));
        said.map(|(key, asks)| (key, asks.at.origin()))
    }

    /// As [`ApprovalPolicy::tool_at`] for the requirements of the user file.
    #[must_use]
    pub fn minimum_at(&self, tool: &str, risk: Risk) -> Option<(String, Option<&ConfigOrigin>)> {
        let by_tool = self.floor.tools.get(tool);
        let by_tool = by_tool.map(|asks| (tool_key(tool), asks));
        let by_risk = self.floor.risks.get(&risk);
        let by_risk = by_risk.map(|asks| (risk_key(risk), asks));
        // Of two that are as strict, the one about the tool.
        let stricter = [by_risk, by_tool].into_iter().flatten();
        let place = stricter.max_by_key(|(_, asks)| asks.verdict);
        let place = place.map(|(key, asks)| (key, &asks.at));
        let mode = || {
            (self.floor.manual || self.floor.deny)
                .then(|| ("approval.mode".to_owned(), &self.floor.mode_at))
        };
        place.or_else(mode).map(|(key, at)| (key, at.origin()))
    }

    /// Returns the verdict of the tool axis, before the mode: override, else risk, else the tool's
    /// own (`requires`), else the safe default. A matching shell rule replaces this answer.
    #[must_use]
    pub fn tool(&self, tool: &str, risk: Risk, requires: Option<bool>) -> Verdict {
        self.for_tool(tool)
            .or_else(|| self.for_risk(risk))
            .or_else(|| requires.map(asked))
            .unwrap_or_else(|| risk.safe_default())
            .max(self.minimum(tool, risk))
    }

    /// Returns the lower limit for every rule and mode: the user file may require a question.
    #[must_use]
    pub fn minimum(&self, tool: &str, risk: Risk) -> Verdict {
        let tool = self.floor.tools.get(tool);
        let both = [tool, self.floor.risks.get(&risk)].into_iter().flatten();
        both.map(|asks| asks.verdict)
            .max()
            .unwrap_or(Verdict::Allow)
    }

    /// Applies the project's and the user's mode to a verdict about a call; never less than
    /// [`ApprovalPolicy::minimum`].
    #[must_use]
    pub fn answer(&self, tool: &str, risk: Risk, verdict: Verdict) -> Verdict {
        let least = self.minimum(tool, risk);
        let mut answer = self.mode.answer(verdict.max(least), risk);
        if self.floor.manual {
            answer = ApprovalMode::Manual.answer(answer, risk);
        }
        answer = answer.max(least);
        if self.floor.deny || self.mode == ApprovalMode::Deny {
            answer = ApprovalMode::Deny.answer(answer, risk);
        }
        answer
    }

    /// Returns the meet with the policy of the user file, or of a worker.
    pub(crate) fn at_most(mut self, own: &ApprovalPolicy) -> ApprovalPolicy {
        // The mode `auto` disables questions; a blocked call stays blocked.
        let counts = match own.mode {
            ApprovalMode::Auto => Verdict::Block,
            ApprovalMode::Tool | ApprovalMode::Manual | ApprovalMode::Deny => Verdict::Ask,
        };
        match own.mode {
            // The project's mode has been met with it already.
            ApprovalMode::Auto | ApprovalMode::Tool => {}
            ApprovalMode::Manual => self.floor.manual = true,
            ApprovalMode::Deny => self.floor.deny = true,
        }
        if matches!(own.mode, ApprovalMode::Manual | ApprovalMode::Deny) {
            self.floor.mode_at = own.mode_at.clone();
        }
        tighten(&mut self.floor.tools, &own.by_tool, counts);
        tighten(&mut self.floor.risks, &own.by_risk, counts);
        self
    }
}

/// Adds the rules that are at least as strict as `counts`; of two rules the stricter one stays.
fn tighten<K: Ord + Clone>(
    floor: &mut BTreeMap<K, ApprovalRequirement>,
    own: &BTreeMap<K, ApprovalRequirement>,
    counts: Verdict,
) {
    for (key, asks) in own.iter().filter(|(_, asks)| asks.verdict >= counts) {
        let held = floor.entry(key.clone()).or_insert_with(|| asks.clone());
        if asks.verdict > held.verdict {
            *held = asks.clone();
        }
    }
}

pub(crate) fn tool_key(tool: &str) -> String {
    format!("approval.require_user_permission.{tool}")
}

pub(crate) fn risk_key(risk: Risk) -> String {
    format!("approval.require_user_permission_by_risk.{risk}")
}

pub(crate) fn asked(person: bool) -> Verdict {
    if person { Verdict::Ask } else { Verdict::Allow }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mode_lifts_a_block() {
        for mode in [
            ApprovalMode::Auto,
            ApprovalMode::Tool,
            ApprovalMode::Manual,
            ApprovalMode::Deny,
        ] {
            for risk in Risk::ALL {
                assert_eq!(mode.answer(Verdict::Block, risk), Verdict::Block);
            }
        }
    }

    #[test]
    fn override_beats_risk_beats_tool_beats_default() {
        let mut approval = ApprovalPolicy::default();
        assert_eq!(approval.tool("t", Risk::Exec, Some(false)), Verdict::Allow);
        let asks = |person| ApprovalRequirement {
            verdict: asked(person),
            at: SourceLocation::default(),
        };
        approval.by_risk.insert(Risk::Exec, asks(true));
        assert_eq!(approval.tool("t", Risk::Exec, Some(false)), Verdict::Ask);
        approval.by_tool.insert("t".into(), asks(false));
        assert_eq!(approval.tool("t", Risk::Exec, Some(true)), Verdict::Allow);
    }
}
