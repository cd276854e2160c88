//! `forge explain`: the decision, its rule, and the answer of every link of the chain from the
//! project down. It runs and makes nothing, and uses the code of the real decision: the chain of
//! the grant, the gate of the tools, the names of the file tools.

use std::net::Ipv6Addr;
use std::path::Path;

use file_sandbox::{ErrorKind, FileSandbox, SandboxPath};
use forge_git::tools::NAMES;
use forge_runtime::GrantGate;
use forge_tools::{CommandLine, Gate as _, Intent, Judgement, ProgramList, Spec, VerdictReason};
use os_sandbox::{Plan, Requirement};
use sandbox_config::{
    AccessAnswer, AccessQuery, Grant, GrantChain, Mount, Operation, PresetRights, Project, Verdict,
    WithoutDirectories, Worker,
};

use crate::cli::{ExplainArgs, Global};
use crate::commands::exec::denials::describe_grants;
use crate::commands::exec::proposals::RuleOffers;
use crate::commands::log::refused::RefusedAttempts;
use crate::commands::prelude::*;
use crate::commands::project::allow::exec_project;
use crate::output::describe::{self, TextLayout, Tone};
use crate::output::escape::{escape, shell_word};
use crate::setup;
use crate::setup::{presets, repositories};

pub(crate) fn run(args: &ExplainArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    if let Some(run) = &args.from_run {
        return explain_run(run, ambient);
    }
    let Situation {
        project,
        presets,
        chain,
        last,
    } = Situation::of(args, ambient)?;
    let is_worker = last.is_some();
    let subject = subject(&ambient.global, &project, last, args)?;
    let mut explained = Explanation::of(&project, &chain, subject)?;
    if let Some(alone) = setup::project_alone(ambient, presets)? {
        explained.under_own_file(&GrantChain::from_project(&alone), &project);
    }
    let typed = match project.file().is_none() && !is_worker && explained.kind == "path" {
        true => Some(explain_typed(args, ambient)?),
        false => None,
    };
    if ambient.global.json {
        let mut object = explained.as_json();
        if let Some(typed) = &typed {
            object["exec"] = typed.as_json();
        }
        print_line(object)?;
    } else {
        let as_text = |one: &Explanation| one.as_text(ambient.global.verbose > 0, ambient.layout());
        let text = match &typed {
            None => as_text(&explained),
            Some(typed) => format!(
                "for workers, tools and MCP clients, without a project file:\n{}\n\
                 for commands of `forge exec`, which have the working directory:\n{}",
                as_text(&explained),
                as_text(typed)
            ),
        };
        print_line(text.trim_end())?;
    }
    Ok(ExitKind::Done)
}

/// Explains a path for commands that a person types in a directory without a project file.
fn explain_typed(args: &ExplainArgs, ambient: &Ambient) -> Result<Explanation, CliError> {
    let without_directories = WithoutDirectories::WholeDirectory;
    let project = setup::silently(ambient, None, without_directories, &PresetRights::default())?;
    let subject = subject(&ambient.global, &project, None, args)?;
    Explanation::of(&project, &GrantChain::from_project(&project), subject)
}

/// Prints the refusals of a recorded run, and the grants that would let them pass.
fn explain_run(run: &str, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let state = ambient.state_dir()?;
    let refused = RefusedAttempts::of_run(state, run, &setup::project_dir(ambient)?)?;
    let denials = &refused.denials;
    let project = exec_project(ambient)?;
    let home = ambient.home.as_deref();
    let offers = RuleOffers::new(denials, &refused.of_workers, &project, home);
    let text = if ambient.global.json {
        let (grants, without) = (offers.commands(&project), offers.without.len());
        json!({ "denials": denials, "grants": grants, "without_grant": without }).to_string()
    } else if denials.is_empty() {
        match refused.denied_calls {
            0 => "refused: nothing is recorded".to_owned(),
            calls => format!(
                "no command was refused by the sandbox; {} stopped by rules: forge log show {} --denied",
                if calls == 1 {
                    "1 call was".to_owned()
                } else {
                    format!("{calls} calls were")
                },
                shell_word(run)
            ),
        }
    } else {
        let lines = denials.iter().map(|denial| format!("refused: {denial}"));
        let lines = lines.chain(describe_grants(&offers, &project));
        let lines = lines.map(|line| escape(&line));
        lines.collect::<Vec<_>>().join("\n")
    };
    print_line(text)?;
    Ok(ExitKind::Done)
}

/// The rights that are explained, and their holder.
struct Situation {
    project: Project,
    /// The rights of presets, which count for typed commands alone.
    presets: PresetRights,
    chain: GrantChain,
    /// The last worker of the chain.
    last: Option<Worker>,
}

impl Situation {
    fn of(args: &ExplainArgs, ambient: &Ambient) -> Result<Situation, CliError> {
        let without_directories = WithoutDirectories::DefaultZones;
        let project = setup::project(ambient, None, without_directories)?;
        let read_only = |chain: GrantChain| match args.rights.read_only {
            true => chain.read_only("--read-only"),
            false => chain,
        };
        // Options for a typed command are not about the entry worker.
        if args.worker.is_some() || !args.rights.is_given() {
            let (chain, last) = lineage(&project, args)?;
            if last.is_some() {
                return Ok(Situation {
                    project,
                    presets: PresetRights::default(),
                    chain: read_only(chain),
                    last,
                });
            }
        }
        let presets = presets::rights_to_explain(&project, &args.rights, ambient)?;
        let project = setup::silently(ambient, None, without_directories, &presets)?;
        Ok(Situation {
            chain: read_only(GrantChain::from_project(&project)),
            last: None,
            project,
            presets,
        })
    }
}

/// Returns the chain to explain: `--as`, `--worker`, the entry worker, or the project's; and its
/// last worker.
fn lineage(
    project: &Project,
    args: &ExplainArgs,
) -> Result<(GrantChain, Option<Worker>), CliError> {
    let names: Vec<&str> = match (&args.chain, &args.worker) {
        (Some(chain), _) => chain.split('>').map(str::trim).collect(),
        (None, Some(worker)) => vec![worker],
        (None, None) => Vec::new(),
    };
    let top = GrantChain::from_project(project);
    let Some((first, rest)) = names.split_first() else {
        let workers = project.workers()?;
        let entry = workers
            .into_iter()
            .find(|worker| worker.name() == project.entry());
        return match entry {
            Some(entry) => Ok((top.entry(&entry).map_err(exceeds)?, Some(entry))),
            None => Ok((top, None)),
        };
    };
    let mut caller = project.worker(first)?;
    let mut lineage = top.entry(&caller).map_err(exceeds)?;
    let mut chain = vec![caller.name().to_owned()];
    for name in rest {
        let worker = project.worker(name)?;
        allowed(project, &caller, &worker, &chain)?;
        lineage = lineage.call(&worker).map_err(exceeds)?;
        chain.push(worker.name().to_owned());
        caller = worker;
    }
    Ok((lineage, Some(caller)))
}

fn exceeds(escalation: sandbox_config::Escalation) -> CliError {
    match escalation.diagnostics() {
        Some(diagnostics) => diagnostics.into(),
        None => CliError::misuse("worker.exceeds_parent", escalation.to_string()),
    }
}

/// The delegation rules that a call goes through before any right is looked at.
fn allowed(
    project: &Project,
    caller: &Worker,
    worker: &Worker,
    chain: &[String],
) -> Result<(), CliError> {
    let name = worker.name();
    let refuse = |code, message: String| {
        CliError::misuse(code, message).hint(format!(
            "{} ({}) may call: {}",
            caller.name(),
            caller.shown(),
            describe::delegates(caller)
        ))
    };
    if chain.iter().any(|above| above == name) {
        return Err(refuse(
            "worker.cycle",
            format!("'{name}' is at work above itself"),
        ));
    }
    if !caller.delegates().allows(name) {
        let message = format!("'{}' may not call '{name}'", caller.name());
        return Err(refuse("worker.not_delegated", message));
    }
    if u64::try_from(chain.len()).unwrap_or(u64::MAX) >= project.max_depth() {
        let message = format!(
            "'{name}' would be deeper than the limit of {}",
            project.max_depth()
        );
        return Err(refuse("worker.too_deep", message));
    }
    Ok(())
}

const TYPED_COMMANDS: &str = "this is about calls of workers; a command that you type after \
                              `forge exec` needs no rule";

const NO_FILES: &str = "it needs files, and this worker holds none that it may use";

/// The subject of the question.
#[derive(Debug)]
enum ExplainTarget {
    Path {
        path: SandboxPath,
        operation: Operation,
        /// About the path of this host that was typed.
        note: Option<String>,
    },
    Host {
        name: String,
        port: u16,
    },
    /// An address, or a repository's name in a file.
    Repository {
        name: String,
        staging: bool,
    },
    Tool(Spec),
    /// A call of `name` by `caller`, the last worker of the chain.
    Worker {
        name: String,
        caller: Option<Box<Worker>>,
    },
    Command(CommandLine),
}

fn subject(
    global: &Global,
    project: &Project,
    last: Option<Worker>,
    args: &ExplainArgs,
) -> Result<ExplainTarget, CliError> {
    let Some(word) = args.subject.as_deref() else {
        return command(&args.command).map(ExplainTarget::Command);
    };
    let operation = match (args.write, args.delete) {
        (true, _) => Operation::Write,
        (false, true) => Operation::Delete,
        (false, false) => Operation::Read,
    };
    if let Some(host) = word.strip_prefix("host:") {
        return host_of(host).ok_or_else(|| CliError::usage(reason_against_host(host)));
    }
    if let Some(name) = word.strip_prefix("repo:") {
        return Ok(ExplainTarget::Repository {
            name: name.to_owned(),
            staging: args.write,
        });
    }
    let tools = describe::all_tools()?;
    if let Some(spec) = tools.iter().find(|spec| spec.answers_to(word)) {
        return Ok(ExplainTarget::Tool(spec.clone()));
    }
    if project
        .workers()?
        .iter()
        .any(|worker| worker.name() == word)
    {
        return Ok(ExplainTarget::Worker {
            name: word.to_owned(),
            caller: last.map(Box::new),
        });
    }
    if let Some(path) = existing_path(global, project, word) {
        let note = None;
        return Ok(ExplainTarget::Path {
            path,
            operation,
            note,
        });
    }
    if word.contains('/') {
        return typed_path(project, word, operation);
    }
    check_not_a_key(project, word)?;
    if (word.contains(['.', ':']) || word == "localhost")
        && let Some(host) = host_of(word)
    {
        return Ok(host);
    }
    let names: Vec<&str> = tools.iter().map(|spec| spec.name.as_str()).collect();
    Err(CliError::usage(format!("`{word}` is not a sandbox path, host, tool or worker")).hint(format!(
        "a path begins with `/`, a host with `host:`, a repository with `repo:`, a command comes after `--`; tools are: {}",
        names.join(", ")
    )))
}

/// Returns the sandbox path of a file in the working directory, whose name can look like a host.
fn existing_path(global: &Global, project: &Project, word: &str) -> Option<SandboxPath> {
    if word.starts_with('/') {
        return None;
    }
    let here = global.directory.as_deref().unwrap_or(Path::new("."));
    let file = here.join(word);
    let name = file.file_name()?;
    std::fs::symlink_metadata(&file).ok()?;
    // The parent alone: a link is answered about by its own name.
    let host = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    let host = host
        .unwrap_or(Path::new("."))
        .canonicalize()
        .ok()?
        .join(name);
    // A file outside of every mount keeps its name, which is then not a host's.
    let inside = project.ceiling().sandbox_path(&host);
    let inside = inside.or_else(|| Some(format!("/{}", word.trim_start_matches("./"))));
    SandboxPath::parse(&inside?).ok()
}

/// Returns the path that a word is, as file tools take it: a path of this host in a mount, unless the
/// literal path exists.
fn typed_path(
    project: &Project,
    word: &str,
    operation: Operation,
) -> Result<ExplainTarget, CliError> {
    let literal = SandboxPath::parse(word)
        .map_err(|error| CliError::usage(format!("`{word}` is not a sandbox path: {error}")))?;
    let ceiling = project.ceiling();
    let mount = ceiling.mount_at(literal.as_str());
    let exists = mount.is_some_and(|mount| !is_absent(mount, &literal));
    let inside = match word.starts_with('/') && !exists {
        true => ceiling.sandbox_path(Path::new(word)),
        false => None,
    };
    let inside = inside.and_then(|path| SandboxPath::parse(&path).ok());
    let note = inside.as_ref();
    let note = note.map(|path| format!("this host's {word} is {path} inside"));
    Ok(ExplainTarget::Path {
        path: inside.unwrap_or(literal),
        operation,
        note,
    })
}

/// Refuses a key of the configuration, which looks like a host.
fn check_not_a_key(project: &Project, word: &str) -> Result<(), CliError> {
    if !word.contains('.') || project.settings().get(word).is_err() {
        return Ok(());
    }
    let hint = format!("run `forge config get {word}`; a host is written `host:{word}`");
    Err(CliError::usage(format!("`{word}` is a key of the configuration")).hint(hint))
}

/// Returns the reason for which a text is not a host.
fn reason_against_host(text: &str) -> String {
    let port = text.rsplit_once(':').map_or("", |(_, port)| port);
    match port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_err() {
        true if !port.is_empty() => format!("`{port}` is not a port"),
        _ => format!("`{text}` is not a host"),
    }
}

fn host_of(text: &str) -> Option<ExplainTarget> {
    let (name, port) = match text.rsplit_once(':') {
        // An IPv6 address in brackets, or a name with a port.
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => {
            (name, port.parse().ok()?)
        }
        Some(_) | None => (text, 443),
    };
    let bare = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_name = |name: &str| {
        let labels = name.strip_suffix('.').unwrap_or(name);
        labels
            .split('.')
            .all(|label| !label.is_empty() && label.chars().all(fits))
    };
    let is_host = match bare {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<Ipv6Addr>().is_ok() || is_name(name),
    };
    let name = bare.unwrap_or(name);
    is_host.then(|| ExplainTarget::Host {
        name: name.to_ascii_lowercase(),
        port,
    })
}

/// One word is a whole line, as a model writes it; several are the words of one command.
fn command(words: &[String]) -> Result<CommandLine, CliError> {
    let line = match words {
        [line] => line.clone(),
        words => words
            .iter()
            .map(|word| shell_word(word))
            .collect::<Vec<_>>()
            .join(" "),
    };
    CommandLine::parse(&line).map_err(|error| CliError::usage(format!("the command: {error}")))
}

/// allow, ask, block, or outside of all mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExplainedDecision {
    Judged(Verdict),
    Outside,
}

impl ExplainedDecision {
    fn word(self) -> &'static str {
        match self {
            ExplainedDecision::Judged(verdict) => describe::word(verdict),
            ExplainedDecision::Outside => "outside",
        }
    }

    fn tone(self) -> Tone {
        match self {
            ExplainedDecision::Judged(verdict) => Tone::of(verdict),
            ExplainedDecision::Outside => Tone::Bad,
        }
    }
}

/// The deciding rule, in words and with its position.
#[derive(Debug, Clone)]
struct DecisionSource {
    verdict: Verdict,
    text: String,
    /// `file:line:column`.
    origin: Option<String>,
    why: Option<String>,
}

struct Explanation {
    shown: String,
    kind: &'static str,
    who: Vec<String>,
    decision: ExplainedDecision,
    why: DecisionSource,
    /// From the project down.
    answers: Vec<AccessAnswer>,
    /// The restrictions of each link against the one before.
    narrowed: Vec<Vec<String>>,
    enforcement: Option<ExpectedEnforcement>,
    question: Option<AccessQuery>,
    /// A fact about this host that the answer does not depend on.
    note: Option<String>,
    /// Further restrictions of the grant: of the mount, or of every command.
    held_to: Vec<(&'static str, String)>,
    /// The command that is asked about: lists of programs answer for the whole line.
    line: Option<CommandLine>,
    /// Of the first answers; all others are workers'.
    layers: &'static [&'static str],
}

/// The enforcement of the grant for a command.
enum ExpectedEnforcement {
    Planned(Box<Plan>),
    Impossible(String),
}

impl Explanation {
    fn of(
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
            ExplainTarget::Host { name, port } => {
                explained.shown = format!("connect to {name}:{port}");
                explained.kind = "host";
                explained.note = setup::host_note(grant, &name, port);
                let question = AccessQuery::Host { name, port };
                explained.ask(lineage, &question);
            }
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
                if explained.note.is_none() && grant.shell().is_none() {
                    explained.note = Some(TYPED_COMMANDS.to_owned());
                }
            }
        }
        Ok(explained)
    }

    /// Puts the answer of the project alone before the one that is restricted by the user's own
    /// file.
    fn under_own_file(&mut self, alone: &GrantChain, project: &Project) {
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
                self.decision = ExplainedDecision::Outside;
                self.note = Some(format!(
                    "{path} is a path of this host, in no directory of the project; the path {path} \
                     inside is free"
                ));
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
        let tools = describe::all_tools()?;
        if let Some(judged) = describe::judge_file(grant, &tools, operation, path) {
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
        let offered = describe::tools(lineage.grant()).map_err(describe::internal)?;
        match offered.iter().find(|known| known.name == tool) {
            Some(spec) => {
                let judged = describe::judge(lineage.grant(), spec, &[], true);
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
        let offered = describe::tools(grant).map_err(describe::internal)?;
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
        let judged = describe::judge(grant, spec, &[], true);
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
            self.decide(DecisionSource::from(describe::delegation(
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
        let judged = describe::judge(grant, spec, &intents, confined);
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

    fn as_text(&self, verbose: bool, layout: TextLayout) -> String {
        let who = match self.who.as_slice() {
            [] => "the project".to_owned(),
            names => names.join(" > "),
        };
        let word = self.decision.word();
        let line = format!("{} for {}: {word}", escape(&self.shown), escape(&who));
        let line = layout.wrap(&line, "");
        // The decision ends the line.
        let mut text = match line.trim_end().strip_suffix(word) {
            Some(before) => format!("{before}{}\n", layout.paint(word, self.decision.tone())),
            None => line,
        };
        let mut reason = self.why.text.clone();
        if let Some(origin) = &self.why.origin {
            reason.push_str(&format!("  ({origin})"));
        }
        text.push_str(&layout.wrap(&reason, "  "));
        for line in self.why.why.iter().chain(&self.note) {
            text.push_str(&layout.wrap(line, "  "));
        }
        text.push_str("\nfrom the project down\n");
        text.push_str(&describe::table(&self.answer_rows(), "  ", layout));
        match verbose {
            true => text.push_str(&self.limits_as_text(layout)),
            false => text.push_str(&self.limits_in_short()),
        }
        text
    }

    /// Returns a row for each link of the chain.
    fn answer_rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for (index, answer) in self.answers.iter().enumerate() {
            let origin = answer.origin.as_ref().map(ToString::to_string);
            rows.push(vec![
                answer.who.clone(),
                describe::word(answer.verdict).to_owned(),
                answer.rule.clone(),
                origin.unwrap_or_default(),
            ]);
            if let Some(narrowed) = index.checked_sub(1).and_then(|at| self.narrowed.get(at))
                && !narrowed.is_empty()
                && let Some(row) = rows.last_mut()
            {
                row.push(format!("narrower: {}", narrowed.join(", ")));
            }
        }
        // Reasons beside the rules of the links, such as a name or the risk of the call.
        if let ExplainedDecision::Judged(verdict) = self.decision
            && self
                .answers
                .last()
                .is_some_and(|last| last.verdict != verdict)
        {
            rows.push(vec![
                "this call".to_owned(),
                describe::word(verdict).to_owned(),
                self.why.text.clone(),
                self.why.origin.clone().unwrap_or_default(),
            ]);
        }
        rows
    }

    fn limits_in_short(&self) -> String {
        let more = !self.held_to.is_empty() || self.enforcement.is_some();
        match &self.enforcement {
            Some(ExpectedEnforcement::Impossible(why)) => {
                format!("\nnot enforced: {}\n", escape(why))
            }
            _ if more => "\n-v: the limits of this call, and what enforces them\n".to_owned(),
            _ => String::new(),
        }
    }

    /// Describes the further restrictions of the grant and their enforcement.
    fn limits_as_text(&self, layout: TextLayout) -> String {
        let mut text = String::new();
        if !self.held_to.is_empty() {
            text.push_str("\nheld to\n");
            let rows: Vec<Vec<String>> = self
                .held_to
                .iter()
                .map(|(name, value)| vec![(*name).to_owned(), value.clone()])
                .collect();
            text.push_str(&describe::table(&rows, "  ", layout));
        }
        match &self.enforcement {
            None => {}
            Some(ExpectedEnforcement::Planned(plan)) => {
                text.push_str("\nenforced by\n");
                for line in plan.to_string().lines() {
                    text.push_str(&format!("  {}\n", escape(line)));
                }
            }
            Some(ExpectedEnforcement::Impossible(why)) => {
                text.push_str(&format!("\nnot enforced: {}\n", escape(why)));
            }
        }
        text
    }

    fn as_json(&self) -> Value {
        let chain: Vec<Value> = self
            .answers
            .iter()
            .enumerate()
            .map(|(index, answer)| {
                let narrowed = index.checked_sub(1).and_then(|at| self.narrowed.get(at));
                json!({
                    "who": answer.who,
                    "layer": self.layers.get(index).unwrap_or(&"worker"),
                    "says": describe::word(answer.verdict),
                    "rule": answer.rule,
                    "origin": answer.origin.as_ref().map(describe::origin_json),
                    "narrowed": narrowed,
                })
            })
            .collect();
        let mut object = json!({
            "subject": { "kind": self.kind, "text": self.shown },
            "as": self.who,
            "decision": self.decision.word(),
            "rule": {
                "text": self.why.text,
                "origin": self.why.origin,
                "why": self.why.why,
            },
            "note": self.note,
            "chain": chain,
            "held_to": self.held_to.iter().map(|(name, value)| (name.replace(' ', "_"), json!(value)))
                .collect::<serde_json::Map<_, _>>(),
        });
        object["enforced_by"] = match &self.enforcement {
            None => Value::Null,
            Some(ExpectedEnforcement::Planned(plan)) => json!({
                "mechanism": plan.backend().to_string(),
                "lines": plan.to_string().lines().collect::<Vec<_>>(),
            }),
            Some(ExpectedEnforcement::Impossible(why)) => json!({ "mechanism": null, "why": why }),
        };
        object
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

/// `true` if no file of the host is at `path`, which is in `mount`.
fn is_absent(mount: &Mount, path: &SandboxPath) -> bool {
    let Some(below) = path.as_str().strip_prefix(mount.target()) else {
        return false;
    };
    let at = mount.host().join(below.trim_start_matches('/'));
    let found = std::fs::symlink_metadata(at);
    found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// Returns the source for a hidden or protected name, which overrides the mount.
fn guarded(
    project: &Project,
    grant: &Grant,
    path: &SandboxPath,
    operation: Operation,
) -> Option<DecisionSource> {
    let files = describe::mirror_with_file(grant, path, describe::KEY)
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
            let only = describe::mirror_with(grant, path, &[], std::slice::from_ref(name));
            only.ok().flatten().is_some_and(|only| hidden(&only))
        });
        let without_key = describe::mirror_with_file(grant, path, b"").ok().flatten();
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
    let unguarded = describe::mirror_with(grant, path, &[], &[]);
    let unguarded = unguarded.ok().flatten()?;
    if refused(&unguarded).is_some_and(|other| other.kind() == error.kind()) {
        // Not a matter of the name.
        return Some(DecisionSource::words(Verdict::Block, &error.to_string()));
    }
    let name = most_exact(path, protect.iter()).find(|name| {
        let only = describe::mirror_with(grant, path, std::slice::from_ref(name), &[]);
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
