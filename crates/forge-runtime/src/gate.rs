//! Judgement of a call by a grant: the tool axis and the mount axis, the stricter of both.
//!
//! * Tool axis: a matching shell rule, else the project's word on the tool, else
//!   on its risk, else the tool's own, else the safe default. For calling a worker the default is
//!   the caller's delegation list.
//! * Mount axis: the mount's verdict on reading, writing and deleting.
//!
//! The project's approval mode then answers the remaining *ask*.

use file_sandbox::SandboxPath;
use forge_tools::{
    CommandLine, Gate, GateRequest, Intent, Judgement, MountVerdicts, Risk, Verdict, VerdictReason,
};
use sandbox_config::{
    CommandPattern, ConfigOrigin, Grant, Layer, Operation, PersonalRules, RuleMatch,
    RunnerAvailability, RunnerChoice, ShellRules,
};

/// The gate of a worker that holds `grant`.
///
/// ```
/// use forge_runtime::GrantGate;
/// use forge_tools::Gate;
/// let gate = GrantGate::new(sandbox_config::Grant::empty());
/// // Without rules for it, there is no shell.
/// assert!(!gate.offers("shell"));
/// ```
#[derive(Debug, Clone)]
pub struct GrantGate {
    grant: Grant,
    found: IsolationAvailability,
}

/// Availability of the execution sites, determined before the first call.
#[derive(Debug, Clone)]
pub(crate) struct IsolationAvailability {
    /// `true` if an OS sandbox can be enforced; `None` if each call decides.
    pub(crate) os: Option<bool>,
    /// `Ok` if containers can be run, else the reason.
    pub(crate) docker: Result<(), String>,
}

impl Default for IsolationAvailability {
    fn default() -> Self {
        IsolationAvailability {
            os: None,
            docker: Err("nothing that runs containers is available".to_owned()),
        }
    }
}

impl GrantGate {
    /// A gate that speaks for `grant`.
    pub fn new(grant: Grant) -> Self {
        GrantGate {
            grant,
            found: IsolationAvailability::default(),
        }
    }

    /// Returns the gate with knowledge of the available sites.
    pub(crate) fn with_availability(mut self, found: IsolationAvailability) -> Self {
        self.found = found;
        self
    }

    /// Returns the risk of the call: that of its tool, or `writes_fs` if it changes files outside
    /// the project's directory.
    fn risk(&self, request: &GateRequest<'_>) -> Risk {
        let writes_outside = |intent: &Intent| match intent {
            Intent::Write(path) | Intent::CreateDir(path) | Intent::Delete(path) => self
                .mount_of(path.as_str())
                .is_some_and(sandbox_config::Mount::is_outside_project),
            Intent::Read(_) | Intent::ReadBelow(_) | Intent::Execute(_) | Intent::Delegate(_) => {
                false
            }
        };
        let outside = request.intents.iter().any(writes_outside);
        match request.risk {
            Risk::ReadOnly | Risk::WritesWorkspace if outside => Risk::WritesFs,
            risk => risk,
        }
    }

    fn mount_of(&self, path: &str) -> Option<&sandbox_config::Mount> {
        self.grant
            .mounts()
            .filter(|mount| mount.usable() && is_under(path, mount.target()))
            .max_by_key(|mount| mount.target().len())
    }

    fn tool_axis(&self, request: &GateRequest<'_>) -> Judgement {
        let lines = commands_of(request);
        let risk = config_risk(request.risk);
        if let Some(rules) = self.grant.shell()
            && let Some((judgement, by_default)) = lines
                .map(|line| (by_rules(rules, line), by_default(rules, line)))
                .reduce(|(one, of_one), (other, of_other)| (one.and(other), of_one || of_other))
        {
            // A rule for the command replaces the settings for the tool and for its risk. The
            // default is about commands that no rule names, and replaces neither.
            let stated = self.grant.approval().tool_at(request.tool, risk).is_some();
            return match by_default && stated {
                true => judgement.and(self.rule_for(request.tool, risk, None, |_| String::new())),
                false => judgement,
            };
        }
        if delegates(request) {
            return self.delegation_axis(request, risk);
        }
        let requires = request.requires_permission.then_some(true);
        self.rule_for(request.tool, risk, requires, |said| match said {
            true => "the tool's own default".to_owned(),
            false => format!("the default for risk `{}`", request.risk),
        })
    }

    /// Judges a call of a worker: a rule for the worker, for the tool that names it or for the risk,
    /// else the caller's delegation list, which names it.
    fn delegation_axis(&self, request: &GateRequest<'_>, risk: sandbox_config::Risk) -> Judgement {
        let workers = request.intents.iter().filter_map(Intent::delegate);
        let has_rule = self.grant.approval().for_tool(request.tool).is_some();
        let tool = has_rule.then_some(request.tool);
        let names = workers.chain(tool);
        names
            .map(|name| {
                self.rule_for(name, risk, Some(false), |_| {
                    "the worker's delegation list names it".to_owned()
                })
            })
            .reduce(Judgement::and)
            .unwrap_or_else(|| {
                Judgement::new(Verdict::Block, VerdictReason::new("no worker is named"))
            })
    }

    /// Judges by the rule for a name, else by the one for a risk, else by the default: the tool's
    /// requirement, else the safe answer for its risk.
    fn rule_for(
        &self,
        name: &str,
        risk: sandbox_config::Risk,
        requires: Option<bool>,
        default: impl Fn(bool) -> String,
    ) -> Judgement {
        let approval = self.grant.approval();
        let verdict = approval.tool(name, risk, requires);
        let stated = approval.for_tool(name);
        let stated = stated.or_else(|| approval.for_risk(risk));
        if verdict != sandbox_config::Verdict::Allow
            && stated != Some(verdict)
            && approval.minimum(name, risk) == verdict
        {
            return Judgement::new(tools_verdict(verdict), self.own_file(name, risk));
        }
        let at = approval.tool_at(name, risk).and_then(|(_, at)| at);
        let whose = match at.map(ConfigOrigin::layer) {
            Some(Layer::User) => "the person's own",
            Some(Layer::Environment | Layer::CommandLine) => "this call's own",
            Some(Layer::Default | Layer::Project) | None => "the project's",
        };
        let mut reason = VerdictReason::new(if approval.for_tool(name).is_some() {
            format!("{whose} setting for tool `{name}`")
        } else if approval.for_risk(risk).is_some() {
            format!("{whose} setting for risk `{risk}`")
        } else {
            default(requires.is_some())
        });
        if let Some((key, at)) = approval.tool_at(name, risk) {
            let said = match verdict {
                sandbox_config::Verdict::Allow => "false",
                sandbox_config::Verdict::Ask => "true",
                sandbox_config::Verdict::Block => "blocked",
            };
            reason.rule = Some(format!("{key}: {said}"));
            reason.origin = at.map(ToString::to_string);
        }
        Judgement::new(tools_verdict(verdict), reason)
    }

    /// Returns the minimum that the person's own file or a worker's file sets, independent of the
    /// project.
    fn own_file(&self, tool: &str, risk: sandbox_config::Risk) -> VerdictReason {
        let Some((key, at)) = self.grant.approval().minimum_at(tool, risk) else {
            return VerdictReason::new("the person's own file asks for this");
        };
        let whose = match at.map(ConfigOrigin::layer) {
            Some(Layer::Project) => "a worker's own file",
            Some(Layer::Default | Layer::User | Layer::Environment | Layer::CommandLine) | None => {
                "the person's own file"
            }
        };
        VerdictReason {
            text: format!("{whose} asks for this by `{key}`"),
            rule: Some(key),
            origin: at.map(ToString::to_string),
            why: None,
        }
    }

    /// Decides where the call would run, and if it may (docs/decisions/0013-runner-table.md).
    fn place(&self, request: &GateRequest<'_>, mut judgement: Judgement) -> Judgement {
        let execution = self.grant.execution();
        let usable = RunnerAvailability {
            os: self.found.os.unwrap_or(request.confined),
            docker: self.found.docker.is_ok(),
            // Without a person the question itself is the refusal.
            interactive: true,
        };
        let why_not = self.found.docker.as_ref().err().map_or("", String::as_str);
        let risk = config_risk(request.risk);
        let (choice, why) = execution.select_knowing(risk, usable, why_not);
        // For the model: why not is about this machine.
        let (_, general) = execution.select_knowing(risk, usable, "no container can be started");
        let reason = VerdictReason {
            text: general,
            rule: Some(format!("execution.mode: {}", execution.mode())),
            origin: Some(execution.origin().to_string()),
            why: Some(
                "A person has to run `forge doctor --docker`, which says what is missing, or to \
                 change `execution` or `docker` in the project file."
                    .to_owned(),
            ),
        };
        judgement.runner = Some(why);
        match choice {
            RunnerChoice::Run(_) => {}
            RunnerChoice::Confirm(_) if judgement.verdict == Verdict::Block => {}
            RunnerChoice::Confirm(_) => return judgement.because(Verdict::Ask, reason),
            RunnerChoice::Refuse => return judgement.because(Verdict::Block, reason),
        }
        judgement
    }

    /// Returns `true` if blocking rules exist and the command line hides commands from them.
    fn could_be_blocked(&self, request: &GateRequest<'_>) -> bool {
        let mut rules = self.grant.shell().into_iter().flat_map(ShellRules::rules);
        commands_of(request).any(CommandLine::has_hidden_commands)
            && rules.any(|(_, verdict, _)| verdict == sandbox_config::Verdict::Block)
    }

    fn mount_axis(&self, intent: &Intent) -> Option<Judgement> {
        let (path, operation) = match intent {
            Intent::Read(path) | Intent::ReadBelow(path) => (path, Operation::Read),
            Intent::Write(path) | Intent::CreateDir(path) => (path, Operation::Write),
            Intent::Delete(path) => (path, Operation::Delete),
            Intent::Execute(_) | Intent::Delegate(_) => return None,
        };
        // Listing the root shows names of mounts and reads none of them.
        let mount = self.mount_of(path.as_str())?;
        let verdict = mount.approval().verdict(operation);
        let place = self.grant.front().show(mount.target());
        let mut reason = VerdictReason::new(format!("{operation} in {place} is `{verdict}`"));
        reason.rule = Some(format!("approval.{operation}: {verdict}"));
        reason.origin = Some(mount.origin().to_string());
        Some(Judgement::new(tools_verdict(verdict), reason))
    }
}

/// Asks a person before a write to a file that other programs execute or obey: such a write runs
/// code later, independent of the rules for files.
fn obeyed(intent: &Intent) -> Option<Judgement> {
    let Intent::Write(path) = intent else {
        return None;
    };
    let names: Vec<String> = path.as_str().split('/').map(sandbox_names::fold).collect();
    let row = sandbox_names::autoloaded::find_with_contents(&names)?;
    let text = format!("{}: {}", path.as_str(), row.why());
    Some(Judgement::new(Verdict::Ask, VerdictReason::new(text)))
}

impl Gate for GrantGate {
    fn offers(&self, tool: &str) -> bool {
        if tool == "shell" && self.grant.shell().is_none() {
            return false;
        }
        self.grant.allows_tool(tool)
    }

    fn mount(&self, target: &SandboxPath) -> MountVerdicts {
        let mut mounts = self.grant.mounts().filter(|mount| mount.usable());
        // Copies from a caller are not a mount of the grant.
        let Some(mount) = mounts.find(|mount| mount.target() == target.as_str()) else {
            return MountVerdicts::FREE;
        };
        let mode = self.grant.approval();
        let said = |operation, risk| {
            let verdict = mount.approval().verdict(operation);
            tools_verdict(mode.answer("", risk, verdict))
        };
        MountVerdicts {
            read: said(Operation::Read, sandbox_config::Risk::ReadOnly),
            write: said(Operation::Write, sandbox_config::Risk::WritesWorkspace),
            delete: said(Operation::Delete, sandbox_config::Risk::WritesWorkspace),
        }
    }

    fn judge(&self, request: &GateRequest<'_>) -> Judgement {
        let mut judgement = self.judge_by_rules(request);
        if judgement.verdict == Verdict::Ask && !judgement.only_a_person {
            judgement.rules_to_allow = self.rules_to_allow(request);
        }
        judgement
    }
}

impl GrantGate {
    /// Returns the personal rules that would allow exactly this call from now on; empty if rules
    /// alone cannot.
    fn rules_to_allow(&self, request: &GateRequest<'_>) -> Vec<String> {
        let Some(shell) = self.grant.shell() else {
            return Vec::new();
        };
        let lines = commands_of(request);
        let asked = lines.flat_map(CommandLine::segments).filter(|segment| {
            shell.decide(segment.words()).verdict() == sandbox_config::Verdict::Ask
        });
        let patterns: Option<Vec<CommandPattern>> = asked
            .map(|segment| PersonalRules::exact(segment.words()))
            .collect();
        let Some(mut patterns) = patterns else {
            return Vec::new();
        };
        patterns.dedup();
        let rules: Vec<String> = patterns.iter().map(ToString::to_string).collect();
        let with_rules = GrantGate {
            grant: self.grant.with_personal_rules(patterns),
            found: self.found.clone(),
        };
        match with_rules.judge_by_rules(request).verdict {
            Verdict::Allow => rules,
            Verdict::Ask | Verdict::Block => Vec::new(),
        }
    }

    /// Answers the remaining question by the project's approval mode.
    fn answer_by_mode(&self, request: &GateRequest<'_>, judgement: Judgement) -> Judgement {
        let approval = self.grant.approval();
        let mode = approval.mode();
        let risk = config_risk(request.risk);
        let verdict = config_verdict(judgement.verdict);
        let answered = approval.answer(request.tool, risk, verdict);
        // A blocked command could be hidden in the unparsed part: no mode answers for that.
        let answered = if self.could_be_blocked(request) {
            tools_verdict(answered).max(judgement.verdict)
        } else {
            tools_verdict(answered)
        };
        if answered != judgement.verdict {
            let by_mode = tools_verdict(mode.answer(verdict, risk)) == answered;
            let reason = if by_mode {
                let mut reason = VerdictReason::new(format!("approval mode `{mode}`"));
                reason.rule = Some(format!("approval.mode: {mode}"));
                reason.origin = approval.mode_at().map(ToString::to_string);
                reason
            } else {
                self.own_file(request.tool, risk)
            };
            return judgement.because(answered, reason);
        }
        judgement
    }

    fn judge_by_rules(&self, request: &GateRequest<'_>) -> Judgement {
        // `network` is about the worker's own connections. Forge itself talks to the repositories
        // of a grant.
        let reaches_out = request.needs_network && !is_git(request.tool);
        if reaches_out && *self.grant.network() == sandbox_config::NetworkAccess::Denied {
            return Judgement::new(
                Verdict::Block,
                VerdictReason::new("network access is disabled for this worker"),
            );
        }
        let request = &GateRequest {
            risk: self.risk(request),
            ..*request
        };
        let axes = request
            .intents
            .iter()
            .flat_map(|intent| [self.mount_axis(intent), obeyed(intent)])
            .flatten()
            .fold(self.tool_axis(request), Judgement::and);
        let unconfined = request.risk == Risk::Exec
            && !request.confined
            && request
                .intents
                .iter()
                .any(|intent| matches!(intent, Intent::Execute(_)));
        let mut judgement = self.answer_by_mode(request, axes);
        if !delegates(request) && !is_git(request.tool) {
            judgement = self.place(request, judgement);
        }
        // Without confinement of the command no setting replaces a person.
        if unconfined && judgement.verdict != Verdict::Block {
            let reason = VerdictReason::new("no OS sandbox would confine this command");
            judgement = judgement.because(Verdict::Ask, reason);
            judgement.only_a_person = true;
        }
        judgement
    }
}

/// Returns `true` if the request calls a worker. Such a call runs nothing by itself: the calls of
/// the worker are placed one by one.
fn delegates(request: &GateRequest<'_>) -> bool {
    let mut intents = request.intents.iter();
    intents.any(|intent| intent.delegate().is_some())
}

/// Returns the command lines that a call would run.
fn commands_of<'r>(request: &'r GateRequest<'_>) -> impl Iterator<Item = &'r CommandLine> {
    request.intents.iter().filter_map(Intent::command_line)
}

/// Returns `true` if no rule names one of the line's commands, so that the default applies.
fn by_default(rules: &ShellRules, line: &CommandLine) -> bool {
    let mut segments = line.segments().iter();
    segments.any(|segment| rules.decide(segment.words()).rule().is_none())
}

/// Judges a whole line by its strictest part. A line that a shell would expand is never allowed in
/// advance.
fn by_rules(rules: &ShellRules, line: &CommandLine) -> Judgement {
    let judged = line
        .segments()
        .iter()
        .map(|segment| judge_command(rules, segment.words()))
        .reduce(Judgement::and)
        .unwrap_or_else(|| {
            Judgement::new(Verdict::Block, VerdictReason::new("the command is empty"))
        });
    // Another spelling of a command cannot bypass a rule; a program that this command starts is
    // judged like a command of its own.
    let judged = line
        .starts()
        .iter()
        .filter_map(|started| {
            let matched = if started.is_program() {
                rules.decide(started.words())
            } else {
                rules.decide_by_rule(started.words())?
            };
            judge_started(&matched, started.words())
        })
        .fold(judged, Judgement::and);
    // A command that cannot be seen is one that no rule names.
    let judged = match line.has_hidden_commands() {
        true => judged.and(judge_hidden(rules)),
        false => judged,
    };
    match line.approval_reason() {
        Some(why) => judged.and(Judgement::new(
            Verdict::Ask,
            VerdictReason::new(format!("rules cannot see all of it: {why}")),
        )),
        None => judged,
    }
}

/// Judges one command of a line.
fn judge_command(rules: &ShellRules, words: &[String]) -> Judgement {
    let matched = rules.decide(words);
    let program = words.first().map_or("", String::as_str);
    let text = match matched.rule() {
        Some(rule) if matched.is_personal() => {
            format!("`{program}` matches the person's own rule `{rule}` for this project")
        }
        Some(rule) => format!("`{program}` matches the rule `{rule}`"),
        None => format!("no rule for `{program}`"),
    };
    Judgement::new(
        tools_verdict(matched.verdict()),
        match_reason(&matched, text),
    )
}

/// Judges a program that a command starts; `None` if it is allowed.
fn judge_started(matched: &RuleMatch, words: &[String]) -> Option<Judgement> {
    let program = words.first().map_or("", String::as_str);
    let text = match matched.rule() {
        Some(rule) => format!("`{program}`, which this starts, matches the rule `{rule}`"),
        None => format!("no rule for `{program}`, which this starts"),
    };
    let verdict = tools_verdict(matched.verdict());
    (verdict > Verdict::Allow).then(|| Judgement::new(verdict, match_reason(matched, text)))
}

/// Judges the commands that a line hides from the rules by the default.
fn judge_hidden(rules: &ShellRules) -> Judgement {
    let unseen = rules.decide(&[]);
    let reason = VerdictReason {
        text: "no rule for a command that runs out of their sight".to_owned(),
        rule: Some("default".to_owned()),
        origin: Some(unseen.origin().to_string()),
        why: None,
    };
    Judgement::new(tools_verdict(unseen.verdict()), reason)
}

fn match_reason(matched: &RuleMatch, text: String) -> VerdictReason {
    VerdictReason {
        text,
        rule: Some(matched.rule().unwrap_or("default").to_owned()),
        origin: Some(matched.origin().to_string()),
        why: matched.why().map(str::to_owned),
    }
}

/// Returns `true` for the git tools. They run in this process under every runner: forge talks to
/// repositories, with credentials that workers do not see, and stores the staged files.
fn is_git(tool: &str) -> bool {
    forge_git::tools::NAMES.contains(&tool)
}

fn is_under(path: &str, mount: &str) -> bool {
    mount == "/"
        || path
            .strip_prefix(mount)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn config_risk(risk: Risk) -> sandbox_config::Risk {
    match risk {
        Risk::ReadOnly => sandbox_config::Risk::ReadOnly,
        Risk::WritesWorkspace => sandbox_config::Risk::WritesWorkspace,
        Risk::WritesFs => sandbox_config::Risk::WritesFs,
        Risk::Network => sandbox_config::Risk::Network,
        Risk::Exec => sandbox_config::Risk::Exec,
    }
}

fn tools_verdict(verdict: sandbox_config::Verdict) -> Verdict {
    match verdict {
        sandbox_config::Verdict::Allow => Verdict::Allow,
        sandbox_config::Verdict::Ask => Verdict::Ask,
        sandbox_config::Verdict::Block => Verdict::Block,
    }
}

fn config_verdict(verdict: Verdict) -> sandbox_config::Verdict {
    match verdict {
        Verdict::Allow => sandbox_config::Verdict::Allow,
        Verdict::Ask => sandbox_config::Verdict::Ask,
        Verdict::Block => sandbox_config::Verdict::Block,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The levels exist twice, because tools know no configuration and configuration
    /// knows no tools. They are the same words.
    #[test]
    fn risk_levels_have_one_name() {
        for risk in Risk::ALL {
            assert_eq!(config_risk(risk).to_string(), risk.as_str());
        }
        assert_eq!(Risk::ALL.len(), sandbox_config::Risk::ALL.len());
    }
}
