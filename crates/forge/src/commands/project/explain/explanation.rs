//! The answer about a target, judged by the code of the real decision.

use std::path::Path;

use file_sandbox::{ErrorKind, FileSandbox, SandboxPath};
use forge_git::tools::NAMES;
use forge_runtime::GrantGate;
use forge_tools::{CommandLine, Gate as _, Intent, Judgement, ProgramList, Spec, VerdictReason};
use os_sandbox::{Plan, Requirement};
use sandbox_config::{
    AccessAnswer, AccessQuery, Grant, GrantChain, Operation, Project, Verdict, Worker,
};

use crate::commands::prelude::*;
use crate::commands::project::explain::target::{ExplainTarget, is_absent};
use crate::output::describe::{self, Tone};
use crate::setup;
use crate::setup::offered_tools;
use crate::setup::repositories;

const TYPED_COMMANDS: &str = "this is about calls of workers; a command that you type after \
                              `forge exec` needs no rule";

const NO_FILES: &str = "it needs files, and this worker holds none that it may use";

/// allow, ask, block, or outside of all mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExplainedDecision {
    Judged(Verdict),
    Outside,
}

impl ExplainedDecision {
    pub(super) fn word(self) -> &'static str {
        match self {
            ExplainedDecision::Judged(verdict) => describe::word(verdict),
            ExplainedDecision::Outside => "outside",
        }
    }

    pub(super) fn tone(self) -> Tone {
        match self {
            ExplainedDecision::Judged(verdict) => Tone::of(verdict),
            ExplainedDecision::Outside => Tone::Bad,
        }
    }
}

/// The deciding rule, in words and with its position.
#[derive(Debug, Clone)]
pub(super) struct DecisionSource {
    pub(super) verdict: Verdict,
    pub(super) text: String,
    /// `file:line:column`.
    pub(super) origin: Option<String>,
    pub(super) why: Option<String>,
}

pub(super) struct Explanation {
    pub(super) shown: String,
    pub(super) kind: &'static str,
    pub(super) who: Vec<String>,
    pub(super) decision: ExplainedDecision,
    pub(super) why: DecisionSource,
    /// From the project down.
    pub(super) answers: Vec<AccessAnswer>,
    /// The restrictions of each link against the one before.
    pub(super) narrowed: Vec<Vec<String>>,
    pub(super) enforcement: Option<ExpectedEnforcement>,
    pub(super) question: Option<AccessQuery>,
    /// A fact about this host that the answer does not depend on.
    pub(super) note: Option<String>,
    /// Further restrictions of the grant: of the mount, or of every command.
    pub(super) held_to: Vec<(&'static str, String)>,
    /// The command that is asked about: lists of programs answer for the whole line.
    pub(super) line: Option<CommandLine>,
    /// Of the first answers; all others are workers'.
    pub(super) layers: &'static [&'static str],
}

/// The enforcement of the grant for a command.
pub(super) enum ExpectedEnforcement {
    Planned(Box<Plan>),
    Impossible(String),
}

impl Explanation {
    pub(super) fn of(
        project: &Project,
        lineage: &GrantChain,
        subject: ExplainTarget,
    ) -> Result<Explanation, CliError> {
        let grant = lineage.grant();
        let who = lineage.steps().skip(1).map(|step| step.who().to_owned());
        let steps: Vec<_> = lineage.steps().collect();
        let narrowed = steps.iter().zip(steps.iter().skip(1));
        let narrowed = narrowed.map(|(above, below)| above.grant().excess_over(below.grant()));
        let mut explained = Explanation {
            shown: String::new(),
            kind: "",
            who: who.collect(),
            decision: ExplainedDecision::Judged(Verdict::Block),
            why: DecisionSource::words(Verdict::Block, ""),
            answers: Vec::new(),
            narrowed: narrowed.collect(),
            enforcement: None,
            question: None,
            note: None,
            held_to: Vec::new(),
            line: None,
            layers: &["project"],
        };
        match subject {
            ExplainTarget::Path {
                path,
                operation,
                note,
            } => {
                explained.path(project, lineage, &path, operation)?;
                explained.note = note.or(explained.note);
            }
            ExplainTarget::Host { name, port, note } => explained.host(lineage, (name, port), note),
            ExplainTarget::Repository { name, staging } => {
                explained.repository(project, lineage, &name, staging)?;
            }
            ExplainTarget::Tool(spec) => explained.tool(lineage, &spec)?,
            ExplainTarget::Worker { name, caller } => {
                explained.worker(lineage, &name, caller.as_deref())
            }
            ExplainTarget::Command(line) => {
                explained.note = setup::host_list_remark(grant);
                explained.command(lineage, &line, grant);
                let is_blocked = explained.decision == ExplainedDecision::Judged(Verdict::Block);
                if explained.note.is_none() && (grant.shell().is_none() || is_blocked) {
                    explained.note = Some(TYPED_COMMANDS.to_owned());
                }
            }
        }
        Ok(explained)
    }

    /// Puts the answer of the project alone before the one that is restricted by the user's own
    /// file.
    pub(super) fn under_own_file(&mut self, alone: &GrantChain, project: &Project) {
        let Some(question) = &self.question else {
            return;
        };
        if let (Some(by_itself), Some(met)) = (
            answers(alone, question, self.line.as_ref())
                .into_iter()
                .next(),
            self.answers.first_mut(),
        ) {
            if by_itself.verdict != met.verdict {
                let whose = format!("{}:", met.who);
                self.why.text = self.why.text.replacen(&whose, "your own file:", 1);
            }
            met.who = "your own file".to_owned();
            self.answers.insert(0, by_itself);
            let taken = alone.grant().excess_over(project.ceiling());
            self.narrowed.insert(0, taken);
        }
        self.layers = &["project", "user"];
    }

    /// Asks every link; the last answer decides, and its first source is the rule.
    fn ask(&mut self, lineage: &GrantChain, question: &AccessQuery) {
        self.answers = lineage.ask(question);
        self.question = Some(question.clone());
        self.why = DecisionSource::from(lineage.decisive(question));
        self.decision = ExplainedDecision::Judged(self.why.verdict);
    }

    /// Returns a note if the project alone, which holds the commands that a person types, answers
    /// otherwise than the workers.
    fn project_note(&self) -> Option<String> {
        let project = self.answers.first().filter(|_| !self.who.is_empty())?;
        let differs = ExplainedDecision::Judged(project.verdict) != self.decision;
        differs.then(|| {
            format!(
                "a command that you type after `forge exec` is held to the project alone: {}",
                describe::word(project.verdict)
            )
        })
    }

    fn host(&mut self, lineage: &GrantChain, (name, port): (String, u16), note: Option<String>) {
        self.shown = format!("connect to {name}:{port}");
        self.kind = "host";
        let of_host = setup::host_note(lineage.grant(), &name, port);
        self.ask(lineage, &AccessQuery::Host { name, port });
        let notes = [note, of_host, self.project_note()];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        self.note = (!notes.is_empty()).then(|| notes.join("; "));
    }

    fn path(
        &mut self,
        project: &Project,
        lineage: &GrantChain,
        path: &SandboxPath,
        operation: Operation,
    ) -> Result<(), CliError> {
        self.shown = format!("{operation} {}", path.as_str());
        self.kind = "path";
        let grant = lineage.grant();
        self.ask(lineage, &AccessQuery::path(path.as_str(), operation));
        if grant.mount_at(path.as_str()).is_none() {
            if path.is_root()
                && grant.mounts().any(|mount| mount.usable())
                && operation == Operation::Read
            {
                self.decide(DecisionSource::words(
                    Verdict::Allow,
                    "listing the root shows the mounts' names",
                ));
            } else {
                self.decision = ExplainedDecision::Outside;
            }
            return Ok(());
        }
        if let Some(mount) = grant.mount_at(path.as_str()) {
            self.held_to = vec![("file rules", describe::file_rules(mount))];
            let is_absent = is_absent(mount, path);
            if is_absent && path.asked().starts_with('/') && Path::new(path.as_str()).exists() {
                let text = "a path of this host, in no directory of the project";
                self.why = DecisionSource::words(Verdict::Block, text);
                self.decision = ExplainedDecision::Outside;
                self.note = Some(format!("the path {path} inside is free"));
                return Ok(());
            }
            if is_absent && operation != Operation::Write {
                let note = "nothing is at this path now: the answer is about its name";
                self.note = Some(note.to_owned());
            }
        }
        if let Some(guarded) = guarded(project, grant, path, operation) {
            self.stricter(guarded);
        }
        let tools = offered_tools::all_tools()?;
        if let Some(judged) = offered_tools::judge_file(grant, &tools, operation, path) {
            self.stricter(DecisionSource::from(judged));
        }
        Ok(())
    }

    fn repository(
        &mut self,
        project: &Project,
        lineage: &GrantChain,
        name: &str,
        staging: bool,
    ) -> Result<(), CliError> {
        let mut known = project.ceiling().repositories().iter();
        let known = known.find(|known| known.name() == name);
        let address = match known {
            Some(known) => known.address().to_owned(),
            None => repositories::address(name)
                .map_err(|why| CliError::usage(format!("invalid repository `{name}`: {why}")))?,
        };
        self.shown = match staging {
            true => format!("stage for {name}"),
            false => format!("pull from {name}"),
        };
        self.kind = "repository";
        self.ask(lineage, &AccessQuery::Repository { address, staging });
        if self.why.verdict == Verdict::Block {
            return Ok(());
        }
        let tool = match staging {
            true => "git_stage",
            false => "git_pull",
        };
        let offered = offered_tools::tools(lineage.grant()).map_err(offered_tools::internal)?;
        match offered.iter().find(|known| known.name == tool) {
            Some(spec) => {
                let judged = offered_tools::judge(lineage.grant(), spec, &[], true);
                self.stricter(DecisionSource::from(judged));
            }
            None => {
                let text = format!("it is not offered `{tool}`: {NO_FILES}");
                self.decide(DecisionSource::words(Verdict::Block, &text));
            }
        }
        Ok(())
    }

    fn tool(&mut self, lineage: &GrantChain, spec: &Spec) -> Result<(), CliError> {
        self.shown = format!("offer {}", spec.name);
        self.kind = "tool";
        let grant = lineage.grant();
        self.ask(lineage, &AccessQuery::Tool(spec.name.clone()));
        let offered = offered_tools::tools(grant).map_err(offered_tools::internal)?;
        if !offered.iter().any(|known| known.name == spec.name) {
            if self.why.verdict != Verdict::Block {
                let what = if spec.name == "shell" {
                    "it needs `shell` in the project and in every worker on the way"
                } else if NAMES.contains(&spec.name.as_str()) {
                    "it needs `git.repositories` in the project and in every worker on the way, \
                     with `rw` for what stages, and files"
                } else {
                    NO_FILES
                };
                self.decide(DecisionSource::words(Verdict::Block, what));
            }
            return Ok(());
        }
        if spec.name == "shell" {
            // The rules answer for each command, and replace the rule of the tool.
            self.why.text =
                "it is offered, and its rules judge each command: `forge explain -- CMD`"
                    .to_owned();
            return Ok(());
        }
        let judged = offered_tools::judge(grant, spec, &[], true);
        self.stricter(DecisionSource::from(judged));
        Ok(())
    }

    /// A call of a worker: `tools` of those on the way, the caller's delegation list, then the
    /// approval rules, in the words of the gate.
    fn worker(&mut self, lineage: &GrantChain, name: &str, caller: Option<&Worker>) {
        self.shown = format!("call {name}");
        self.kind = "worker";
        self.ask(lineage, &AccessQuery::Tool(name.to_owned()));
        let refusal = match caller {
            Some(caller) if caller.name() == name => Some(format!("'{name}' does not call itself")),
            Some(caller) if !caller.delegates().allows(name) => Some(format!(
                "{} ({}) may call: {}",
                caller.name(),
                caller.shown(),
                describe::delegates(caller)
            )),
            Some(_) => None,
            None => Some("no worker would call it: pass --worker CALLER".to_owned()),
        };
        if let Some(text) = refusal {
            self.decide(DecisionSource::words(Verdict::Block, &text));
        } else if self.why.verdict != Verdict::Block {
            self.decide(DecisionSource::from(offered_tools::delegation(
                lineage.grant(),
                name,
            )));
        }
    }

    fn command(&mut self, lineage: &GrantChain, line: &CommandLine, grant: &Grant) {
        self.shown = format!("run {}", line.as_str());
        self.kind = "command";
        // The strictest of the line's commands speaks for it in the chain.
        let questions: Vec<AccessQuery> = line
            .segments()
            .iter()
            .map(|segment| AccessQuery::Command(segment.words().to_vec()))
            .collect();
        let strictest = questions
            .iter()
            .max_by_key(|question| lineage.decisive(question).verdict);
        if let Some(question) = strictest {
            self.ask(lineage, question);
            self.answers = answers(lineage, question, Some(line));
        }
        self.line = Some(line.clone());
        self.held_to = describe::commands(grant);
        if grant.shell().is_none() {
            return;
        }
        self.enforcement = Some(enforcement(grant));
        let confined = matches!(self.enforcement, Some(ExpectedEnforcement::Planned(_)));
        let shell = forge_tools::tools::shell();
        let spec = shell.spec();
        if !GrantGate::new(grant.clone()).offers("shell") {
            self.decide(DecisionSource::words(
                Verdict::Block,
                "`tools` does not name shell",
            ));
            return;
        }
        if let Some((who, reason)) = lineage
            .steps()
            .find_map(|step| Some((step.who(), refusal(step.grant(), lineage, line)?)))
        {
            self.decide(DecisionSource {
                verdict: Verdict::Block,
                text: format!("{who}: {}", reason.text),
                origin: reason.origin,
                why: reason.why,
            });
            return;
        }
        // A command reads every mount that it sees, so a mount that asks is asked about.
        let gate = GrantGate::new(grant.clone());
        let mounts = grant.mounts().filter(|mount| mount.usable());
        let mounts = mounts.filter_map(|mount| SandboxPath::parse(mount.target()).ok());
        let asks = |target: &SandboxPath| gate.mount(target).read == forge_tools::Verdict::Ask;
        let mut intents = vec![Intent::Execute(line.clone())];
        intents.extend(mounts.filter(asks).map(Intent::Read));
        let judged = offered_tools::judge(grant, spec, &intents, confined);
        // The gate sees the whole line, the mode and the confinement, so it has the last word.
        let judged = DecisionSource::from(judged);
        if judged.verdict != self.why.verdict {
            self.decide(judged);
        } else if judged.origin == self.why.origin {
            self.why.why = judged.why;
        }
    }

    fn decide(&mut self, why: DecisionSource) {
        self.decision = ExplainedDecision::Judged(why.verdict);
        self.why = why;
    }

    fn stricter(&mut self, why: DecisionSource) {
        if why.verdict > self.why.verdict {
            self.decide(why);
        }
    }
}

impl DecisionSource {
    fn words(verdict: Verdict, text: &str) -> DecisionSource {
        DecisionSource {
            verdict,
            text: text.to_owned(),
            origin: None,
            why: None,
        }
    }
}

impl DecisionSource {
    /// Returns the source for a name of `sandbox.protect` or `sandbox.hide`, with its position.
    fn guard(project: &Project, text: &str, key: &str, name: Option<&str>) -> DecisionSource {
        let origin = name.and_then(|name| project.settings().item_at(key, name));
        DecisionSource {
            origin: origin.as_ref().map(ToString::to_string),
            why: name.map(|name| match origin {
                Some(_) => format!("the name is `{name}` of `{key}`"),
                None if key == "sandbox.hide" => {
                    format!("the name is `{name}`, which is built in; to show it: `sandbox.show`")
                }
                None => format!("the name is `{name}`, which is built in (`{key}`)"),
            }),
            ..DecisionSource::words(Verdict::Block, text)
        }
    }
}

impl From<AccessAnswer> for DecisionSource {
    fn from(answer: AccessAnswer) -> DecisionSource {
        DecisionSource {
            verdict: answer.verdict,
            text: format!("{}: {}", answer.who, answer.rule),
            origin: answer.origin.map(|origin| origin.to_string()),
            why: None,
        }
    }
}

impl From<Judgement> for DecisionSource {
    fn from(judgement: Judgement) -> DecisionSource {
        let verdict = describe::verdict_of(&judgement);
        let decides = judgement.deciding().first().cloned();
        match decides.or_else(|| judgement.reasons.into_iter().next()) {
            Some(reason) => DecisionSource {
                verdict,
                text: reason.text,
                origin: reason.origin,
                why: reason.why,
            },
            None => DecisionSource::words(verdict, "the rules"),
        }
    }
}

/// Returns the `shell.allow` or `shell.deny` of a grant in the chain that refuses a line of the
/// last one, by the function that the tool uses.
fn refusal(grant: &Grant, lineage: &GrantChain, line: &CommandLine) -> Option<VerdictReason> {
    let policy = lineage.grant().policy_as_written().ok()?;
    ProgramList::refusal(&forge_runtime::programs(grant), line, &policy)
}

/// Returns the answers of every link, lists of programs included.
fn answers(
    lineage: &GrantChain,
    question: &AccessQuery,
    line: Option<&CommandLine>,
) -> Vec<AccessAnswer> {
    let mut answers = lineage.ask(question);
    let Some(line) = line else {
        return answers;
    };
    for (answer, step) in answers.iter_mut().zip(lineage.steps()) {
        if answer.verdict != Verdict::Block
            && let Some(reason) = refusal(step.grant(), lineage, line)
        {
            answer.verdict = Verdict::Block;
            answer.rule = reason.text;
            answer.origin = step.grant().shell().and_then(|rules| {
                let lists = rules.programs();
                let mut places = lists.flat_map(|list| [list.allow_at(), list.deny_at()]);
                let found = places.find(|at| at.map(ToString::to_string) == reason.origin);
                found.flatten().cloned()
            });
        }
    }
    answers
}

/// Returns the source for a hidden or protected name, which overrides the mount.
fn guarded(
    project: &Project,
    grant: &Grant,
    path: &SandboxPath,
    operation: Operation,
) -> Option<DecisionSource> {
    let files = offered_tools::mirror_with_file(grant, path, offered_tools::KEY)
        .ok()
        .flatten()?;
    let mount = grant.mount_at(path.as_str())?;
    let (_, protect, hide) = grant.file_guards(mount);
    let guard = |text: &str, key: &str, name: Option<&String>| {
        let name = name.map(|name| grant.pattern_as_written(mount, name));
        Some(DecisionSource::guard(project, text, key, name))
    };
    let hidden = |files: &FileSandbox| {
        let outcome = files.resolve(path);
        outcome.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    if hidden(&files) {
        let name = most_exact(path, hide.iter()).find(|name| {
            let only = offered_tools::mirror_with_key(grant, path, &[], std::slice::from_ref(name));
            only.ok().flatten().is_some_and(|only| hidden(&only))
        });
        let without_key = offered_tools::mirror_with_file(grant, path, b"")
            .ok()
            .flatten();
        let text = match without_key.is_some_and(|files| !hidden(&files)) {
            true => {
                "a file of this name is hidden (`sandbox.hide`) if it holds a private key: it is \
                 shown as absent"
            }
            false => "the name is hidden (`sandbox.hide`): it is shown as absent",
        };
        return guard(text, "sandbox.hide", name);
    }
    let refused = |files: &FileSandbox| match operation {
        Operation::Read => None,
        Operation::Write => files.check_write(path).err(),
        Operation::Delete => files.check_delete(path).err(),
    };
    let error = refused(&files)?;
    let unguarded = offered_tools::mirror_with_key(grant, path, &[], &[]);
    let unguarded = unguarded.ok().flatten()?;
    if refused(&unguarded).is_some_and(|other| other.kind() == error.kind()) {
        // Not a matter of the name.
        return Some(DecisionSource::words(Verdict::Block, &error.to_string()));
    }
    let name = most_exact(path, protect.iter()).find(|name| {
        let only = offered_tools::mirror_with_key(grant, path, std::slice::from_ref(name), &[]);
        only.ok()
            .flatten()
            .is_some_and(|only| refused(&only).is_some())
    });
    guard(&error.to_string(), "sandbox.protect", name)
}

/// Returns the names with those that end the path first: one name of a git directory protects
/// others in it too.
fn most_exact<'n>(
    path: &SandboxPath,
    names: impl Iterator<Item = &'n String>,
) -> impl Iterator<Item = &'n String> {
    let path = format!("/{}", path.as_str().trim_start_matches('/'));
    let is_exact = |name: &String| path.ends_with(&format!("/{}", name.trim_start_matches('/')));
    let (exact, others): (Vec<_>, Vec<_>) = names.partition(|name| is_exact(name));
    exact.into_iter().chain(others)
}

/// Returns this host's enforcement of the grant. Detected, not tried with this command.
fn enforcement(grant: &Grant) -> ExpectedEnforcement {
    let policy = match grant.policy_as_written() {
        Ok(policy) => policy,
        Err(error) => return ExpectedEnforcement::Impossible(error.for_person()),
    };
    match Plan::new(&policy, &setup::host_support(), Requirement::Enforce) {
        Ok(plan) => ExpectedEnforcement::Planned(Box::new(plan)),
        Err(error) => ExpectedEnforcement::Impossible(error.to_string()),
    }
}
