//! A grant written out for `check`, `explain` and `worker`: in words for people and as JSON.

use comfy_table::{ColumnConstraint, ContentArrangement};
use file_sandbox::SandboxPath;
use forge_runtime::Dollars;
use forge_tools::{Judgement, Spec};
use sandbox_config::{
    CallStatus, ConfigOrigin, Confinement, Delegates, DelegationNode, ExecutionMode, FileRules,
    GitConfigMode, GitMode, Grant, HardLinks, Mode, Mount, NetworkAccess, Operation, RunLimit,
    ShellRules, Survivors, Trace, UnixSockets, Verdict, Worker,
};
use serde_json::{Value, json};

use crate::output::describe_git;
use crate::output::escape::{escape, escape_path};
use crate::run_view::count;
use crate::setup::offered_tools::{delegation, judge_file};

/// Narrower than this no table is readable.
const MIN_WIDTH: u16 = 30;

/// Built-in names that are listed one by one; more are counted.
const MAX_NAMED: usize = 5;

/// Columns of a screen that has room for host paths beside verdicts.
const WIDE: u16 = 100;

/// The layout of a result: for a screen, or as it is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TextLayout {
    /// Columns of the screen; `None` where the result goes elsewhere, and nothing is wrapped.
    pub(crate) width: Option<u16>,
    pub(crate) colour: bool,
}

/// The judgement of a word in a result, or its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Bold,
    Dim,
    Good,
    Doubtful,
    Bad,
}

impl Tone {
    pub(crate) fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allow => Tone::Good,
            Verdict::Ask => Tone::Doubtful,
            Verdict::Block => Tone::Bad,
        }
    }

    /// Returns the text in the colour of the tone.
    pub(crate) fn paint(self, text: &str) -> String {
        match self {
            Tone::Plain => text.to_owned(),
            Tone::Bold => in_colour(1, text),
            Tone::Dim => in_colour(2, text),
            Tone::Bad => in_colour(31, text),
            Tone::Good => in_colour(32, text),
            Tone::Doubtful => in_colour(33, text),
        }
    }
}

/// Returns the text in the colour of this number (ECMA-48, SGR).
pub(crate) fn in_colour(number: u8, text: &str) -> String {
    format!("\u{1b}[{number}m{text}\u{1b}[0m")
}

impl TextLayout {
    /// Returns the text in the colour of its tone, if colours are on.
    pub(crate) fn paint(self, text: &str, tone: Tone) -> String {
        match self.colour {
            true => tone.paint(text),
            false => text.to_owned(),
        }
    }

    /// `true` if the reader is a person at a screen.
    pub(crate) fn is_screen(self) -> bool {
        self.width.is_some()
    }

    /// Returns a line with its end; on a screen it goes on in further rows.
    pub(crate) fn wrap(self, line: &str, indent: &str) -> String {
        table(&[vec![line.to_owned()]], indent, self)
    }
}

/// Lays out columns as wide as their longest cell, two blanks between. On a screen cells are
/// wrapped at words. Cells hold text of files, so each is escaped here.
pub(crate) fn table(rows: &[Vec<String>], indent: &str, layout: TextLayout) -> String {
    arrange(rows, indent, layout, 0)
}

/// Keeps the first `whole` columns as wide as their longest cells, regardless of the others.
fn arrange(rows: &[Vec<String>], indent: &str, layout: TextLayout, whole: usize) -> String {
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::NOTHING);
    let indent_width = u16::try_from(indent.len()).unwrap_or(0);
    match layout.width {
        None => table.set_content_arrangement(ContentArrangement::Disabled),
        Some(width) => table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width.saturating_sub(indent_width).max(MIN_WIDTH)),
    };
    for row in rows {
        table.add_row(row.iter().map(|cell| escape(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for column in table.column_iter_mut().take(whole) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    let rows = table.lines();
    rows.map(|row| format!("{indent}{}\n", row.trim_end()))
        .collect()
}

/// Lays out a [`table`] whose first column is a coloured word. The first `whole` columns are not
/// wrapped.
pub(crate) fn verdict_table(
    rows: &[(Tone, Vec<String>)],
    indent: &str,
    layout: TextLayout,
    whole: usize,
) -> String {
    let cells: Vec<Vec<String>> = rows.iter().map(|(_, cells)| cells.clone()).collect();
    let mut text = String::new();
    let mut rows = rows.iter().peekable();
    for line in arrange(&cells, indent, layout, whole).lines() {
        let word = |row: &&(Tone, Vec<String>)| row.1.first().map(|word| escape(word));
        let painted = rows.peek().and_then(|row| {
            let word = word(row)?;
            if word.is_empty() {
                return Some(format!("{line}\n"));
            }
            let rest = line.strip_prefix(indent)?.strip_prefix(&word)?;
            Some(format!("{indent}{}{rest}\n", layout.paint(&word, row.0)))
        });
        match painted {
            Some(line) => {
                text.push_str(&line);
                rows.next();
            }
            // A row goes on in the next line.
            None => text.push_str(&format!("{line}\n")),
        }
    }
    text
}

/// The mount table, with its heading.
pub(crate) fn mount_table(
    grant: &Grant,
    indent: &str,
    layout: TextLayout,
    verbose: bool,
) -> String {
    let heading = [
        "NAME", "PATH", "MODE", "READ", "WRITE", "DELETE", "FILES", "HOST", "FROM",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(grant.mounts().map(|mount| {
        vec![
            mount.name().to_owned(),
            mount.target().to_owned(),
            mode(mount),
            effective(grant, mount, Operation::Read),
            effective(grant, mount, Operation::Write),
            effective(grant, mount, Operation::Delete),
            files_of(mount),
            host(mount),
            mount.origin().to_string(),
        ]
    }));
    if rows.len() == 1 {
        return format!("{indent}no files\n");
    }
    if layout.width.is_some() && !verbose {
        // Why: nine columns do not fit a screen. The name is the path, and `any` is the usual value
        // of FILES.
        let shows_host = layout.width >= Some(WIDE);
        let has_suffixes = grant.mounts().any(|mount| files_of(mount) != "any");
        let shown = |column: usize| match column {
            0 | 8 => false,
            7 => shows_host,
            6 => has_suffixes,
            _ => true,
        };
        for row in &mut rows {
            let mut column = 0..;
            row.retain(|_| column.next().is_some_and(shown));
        }
    }
    let mut text = table(&rows, indent, layout);
    if layout.width.is_some() && !verbose {
        text.push_str(&layout.wrap("-v: host paths, and the lines that grant them", indent));
    }
    text
}

/// Describes the runner of calls, as far as it is known without an attempt.
fn runner(grant: &Grant) -> String {
    let execution = grant.execution();
    let mode = execution.mode();
    let image = execution.docker().image();
    match (mode, execution.without_docker()) {
        (ExecutionMode::LocalOnly | ExecutionMode::PreferLocal, _) => mode.to_string(),
        (_, Some(why)) => format!("{mode}, and docker cannot be used: {why}"),
        (ExecutionMode::PreferDocker, None) => {
            format!("{mode}: commands in a container of {image}, files here")
        }
        (ExecutionMode::DockerRequired, None) => {
            format!("{mode}: files and commands in a container of {image}, or nowhere")
        }
    }
}

/// Returns the host path of a mount.
pub(crate) fn host(mount: &Mount) -> String {
    match mount.awaits_run() {
        true => "(made for each run)".to_owned(),
        false => escape_path(mount.host()),
    }
}

/// Returns the host path for programs: null until a run determines it.
pub(crate) fn host_json(mount: &Mount) -> Value {
    match mount.awaits_run() {
        true => Value::Null,
        false => Value::from(mount.host().to_string_lossy()),
    }
}

fn mode(mount: &Mount) -> String {
    let mode = mount.mode_word();
    match mount.usable() {
        true => mode.to_owned(),
        false => format!("{mode} (not used)"),
    }
}

/// Returns the decision about a file of the mount: by the rules for the tool, the mount, the
/// approval mode and the user's own file together. A read-only mount has no decision about writes.
fn effective(grant: &Grant, mount: &Mount, operation: Operation) -> String {
    if operation != Operation::Read && mount.mode() == Mode::ReadOnly {
        return "-".to_owned();
    }
    let tools = forge_tools::tools::file_tools();
    let tools: Vec<Spec> = tools.iter().map(|tool| tool.spec().clone()).collect();
    let path = SandboxPath::parse(mount.target()).ok();
    let judged =
        path.and_then(|path| judge_file(&grant.staged_in_overlays(), &tools, operation, &path));
    let verdict = match judged {
        Some(judged) => verdict_of(&judged),
        None => mount.approval().verdict(operation),
    };
    verdict.to_string()
}

/// Returns the verdict in the words of configuration files.
pub(crate) fn verdict_of(judged: &Judgement) -> Verdict {
    match judged.verdict {
        forge_tools::Verdict::Allow => Verdict::Allow,
        forge_tools::Verdict::Ask => Verdict::Ask,
        forge_tools::Verdict::Block => Verdict::Block,
    }
}

fn files_of(mount: &Mount) -> String {
    let kinds = mount
        .suffixes()
        .map_or("any".to_owned(), |suffixes| suffixes.join(" "));
    match mount.max_file_bytes() {
        Some(bytes) => format!("{kinds}, up to {}", count(bytes, "byte")),
        None => kinds,
    }
}

/// The network in words: off, on, or the hosts; and the published ports.
pub(crate) fn network(grant: &Grant) -> String {
    let ports = grant.published_ports();
    match ports.is_empty() {
        true => grant.network().to_string(),
        false => format!("{}; published ports: {ports}", grant.network()),
    }
}

/// The shell in a few words.
pub(crate) fn shell(grant: &Grant) -> String {
    let Some(shell) = grant.shell() else {
        return "not offered".to_owned();
    };
    let mut text = match shell.rules().count() {
        1 => "1 rule".to_owned(),
        count => format!("{count} rules"),
    };
    match shell.personal_rules().count() {
        0 => {}
        own => text.push_str(&format!(", {own} of your own (`forge allow --list`)")),
    }
    for programs in shell.programs() {
        match programs.allow() {
            None => {}
            Some([]) => text.push_str(", no program"),
            Some(allow) => text.push_str(&format!(", only {}", allow.join(" "))),
        }
        if !programs.deny().is_empty() {
            text.push_str(&format!(", never {}", programs.deny().join(" ")));
        }
    }
    text
}

/// The person's rules for this project, for programs.
pub(crate) fn personal_rules_json(grant: &Grant) -> Value {
    let rules = grant
        .shell()
        .into_iter()
        .flat_map(ShellRules::personal_rules);
    rules
        .map(|(rule, origin)| json!({ "rule": rule, "origin": origin_json(origin) }))
        .collect()
}

/// Returns `shell.allow` and `shell.deny` of every link of the chain, for programs.
fn programs_json(rules: &ShellRules) -> Value {
    let lists = rules.programs().map(|programs| {
        json!({
            "allow": programs.allow(),
            "allow_at": programs.allow_at().map(origin_json),
            "deny": programs.deny(),
            "deny_at": programs.deny_at().map(origin_json),
        })
    });
    lists.collect()
}

/// Describes the network of commands, on any runner.
fn network_of_commands(grant: &Grant) -> String {
    match grant.execution().network_in_containers(grant.network()) {
        Some(why) => format!("{}; {why}", network(grant)),
        None if *grant.network() == NetworkAccess::Denied => {
            format!("{} (`network.allow` names hosts)", network(grant))
        }
        None => network(grant),
    }
}

/// Describes all rights in one line: `data ro, workspace rw; shell; network`.
pub(crate) fn rights(grant: &Grant) -> String {
    let mounts: Vec<String> = grant
        .mounts()
        .map(|mount| format!("{} {}", mount.name(), mode(mount)))
        .collect();
    let mut text = if mounts.is_empty() {
        "no files".to_owned()
    } else {
        mounts.join(", ")
    };
    if grant.shell().is_some() {
        text.push_str("; shell");
    }
    match grant.network() {
        NetworkAccess::Denied => {}
        NetworkAccess::Hosts(_) => text.push_str("; network to some hosts"),
        NetworkAccess::Unrestricted => text.push_str("; network"),
    }
    let ports = grant.published_ports();
    if !ports.is_empty() {
        text.push_str(&format!("; published ports {ports}"));
    }
    if let Some(repositories) = describe_git::in_a_line(grant) {
        text.push_str(&format!("; git {repositories}"));
    }
    text
}

/// Describes the rules of file tools for links, full directories, `..` and the disk in one mount.
pub(crate) fn file_rules(mount: &Mount) -> String {
    let rules = mount.file_rules();
    let links = match rules.hard_links() {
        HardLinks::Allow => "files with further names: written",
        HardLinks::ReadOnly => "files with further names: read only",
        HardLinks::Deny => "files with further names: refused",
    };
    let mut list = vec![links.to_owned()];
    list.extend(
        rules
            .max_files()
            .map(|files| format!("up to {}", count(files, "file"))),
    );
    let bytes = rules.max_total_bytes();
    list.extend(bytes.map(|bytes| format!("up to {} in all", count(bytes, "byte"))));
    if rules.strict_paths() {
        list.push("no `..`".to_owned());
    }
    if rules.durable() {
        list.push("on the disk before a call returns".to_owned());
    }
    list.join(", ")
}

/// Returns the restrictions of every command besides mounts and network, name and value.
pub(crate) fn commands(grant: &Grant) -> Vec<(&'static str, String)> {
    let confinement = grant.confinement();
    let sockets = match confinement.unix_sockets() {
        UnixSockets::Closed => "closed".to_owned(),
        UnixSockets::Open => "open".to_owned(),
        UnixSockets::Named(paths) => {
            let paths: Vec<String> = paths.iter().map(|path| escape_path(path)).collect();
            format!("only {}", paths.join(" "))
        }
    };
    let environment = grant.environment();
    let set = environment.set().iter();
    let set = set.map(|(name, value)| format!("{name}={value}"));
    let mut variables: Vec<String> = environment.pass().to_vec();
    variables.extend(set);
    let environment = match variables.as_slice() {
        [] => "forge's own variables only".to_owned(),
        list => format!("forge's own, {}", list.join(", ")),
    };
    let survivors = match confinement.survivors() {
        Survivors::Ended => "ended with their command",
        Survivors::Left => "left running without namespaces; a PID namespace ends all",
    };
    let strictness = match (confinement.requires_guards(), grant.require_os_sandbox()) {
        (true, _) => "an OS sandbox that keeps guards, too",
        (false, true) => "an OS sandbox",
        (false, false) => {
            "nothing; without an OS sandbox a person is asked about each command of a worker"
        }
    };
    let programs = confinement.programs().directories().iter();
    let programs: Vec<String> = programs.map(|path| escape_path(path)).collect();
    let mut rows = vec![
        ("network", network_of_commands(grant)),
        ("unix sockets", sockets),
        ("environment", environment),
        ("git", git_in_words(confinement)),
        ("survivors", survivors.to_owned()),
        ("required", strictness.to_owned()),
        ("runner", runner(grant)),
        ("limits", limits_in_words(grant)),
    ];
    if confinement.trace() == Trace::Full {
        let text = "refused reads and executions, too, and all that a command touches";
        rows.push(("reports", text.to_owned()));
    }
    if confinement.reviews_changes() {
        rows.push(("review", "changes wait until you apply them".to_owned()));
    }
    if !programs.is_empty() {
        rows.push(("programs", format!("the system's, {}", programs.join(" "))));
    }
    rows
}

fn git_in_words(confinement: &Confinement) -> String {
    let git = match confinement.git() {
        GitMode::Unaware => "repositories are files like others",
        GitMode::ReadOnly => "repositories are read only",
        GitMode::Commit => "commits, but nothing that git runs or obeys",
    };
    match confinement.git_config() {
        GitConfigMode::Kept => git.to_owned(),
        GitConfigMode::Judged => format!("{git}; git may add remotes, branches and modules"),
        GitConfigMode::JudgedAfter => {
            format!("{git}; git may change .git/config, which is looked at after the end")
        }
    }
}

/// Returns all restrictions outside the mount table, name and value.
pub(crate) fn confinement(grant: &Grant) -> Vec<(&'static str, String)> {
    let mut rows = commands(grant);
    for mount in grant.mounts() {
        if *mount.file_rules() != FileRules::default() {
            let text = format!("{}: {}", mount.name(), file_rules(mount));
            rows.push(("file rules", text));
        }
    }
    rows.extend(describe_git::repositories(grant));
    rows.push((
        "protected",
        names(grant.protect(), file_sandbox::DEFAULT_PROTECTED),
    ));
    rows.push(("hidden", names(grant.hide(), file_sandbox::DEFAULT_HIDDEN)));
    rows
}

/// The names that a project adds, and how many there are besides in every project.
fn names(held: &[String], everywhere: &[&str]) -> String {
    let is_built_in = |name: &&String| everywhere.contains(&name.as_str());
    let kept = held.iter().filter(is_built_in).count();
    let mut list = vec![match kept {
        // A few are named.
        0..=MAX_NAMED => held
            .iter()
            .filter(is_built_in)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" "),
        _ => format!("{kept} built-in names (`forge config show`)"),
    }];
    let own = held.iter().filter(|name| !is_built_in(name));
    list.extend(own.cloned());
    let gone: Vec<&str> = everywhere
        .iter()
        .copied()
        .filter(|name| !held.iter().any(|kept| kept == name))
        .collect();
    if !gone.is_empty() {
        list.push(format!("without {}", gone.join(" ")));
    }
    list.retain(|part| !part.is_empty());
    list.join(", ")
}

/// Returns all restrictions outside the mount table as rows of a table.
pub(crate) fn confinement_table(grant: &Grant, indent: &str, layout: TextLayout) -> String {
    let rows: Vec<Vec<String>> = confinement(grant)
        .into_iter()
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect();
    table(&rows, indent, layout)
}

/// Describes the limits as the file spells them.
fn limits_in_words(grant: &Grant) -> String {
    let list = limits(grant).into_iter().filter_map(|limit| {
        let written = limit.written?;
        Some(match limit.key {
            "max_cost_usd" => format!("max_cost_usd {}", Dollars(written)),
            key => format!("{key} {written}"),
        })
    });
    list.collect::<Vec<_>>().join(", ")
}

/// Returns the limits that hold, first the ones that every grant has.
fn limits(grant: &Grant) -> Vec<RunLimit> {
    let mut list = grant.limits().list();
    list.retain(|limit| limit.value.is_some());
    list.sort_by_key(|limit| limit.is_optional);
    list
}

/// The delegation tree, one line a worker.
pub(crate) fn tree(branches: &[DelegationNode], entry: &str, layout: TextLayout) -> String {
    let mut rows = Vec::new();
    for branch in branches {
        tree_rows(branch, None, 1, entry, &mut rows);
    }
    table(&rows, "", layout)
}

fn tree_rows(
    branch: &DelegationNode,
    caller: Option<&Grant>,
    depth: usize,
    entry: &str,
    rows: &mut Vec<Vec<String>>,
) {
    let is_entry = depth == 1 && branch.worker() == entry;
    let mark = if is_entry { " (entry)" } else { "" };
    let name = format!("{}{}{mark}", "  ".repeat(depth), branch.worker());
    let mut facts = match branch.standing() {
        CallStatus::Holds => rights(branch.grant()),
        CallStatus::AsShown => format!("{} (its calls: as shown)", rights(branch.grant())),
        CallStatus::Refused(escalation) => {
            format!("refused: {}", escalation.to_string().replace('\n', "; "))
        }
        CallStatus::Missing => "refused: there is no such worker".to_owned(),
        CallStatus::Cycle => "refused: it is at work above".to_owned(),
        CallStatus::TooDeep => "refused: too deep".to_owned(),
    };
    if branch.calls_any() {
        facts.push_str("; calls any worker");
    }
    match caller.map(|caller| delegation(caller, branch.worker()).verdict) {
        Some(forge_tools::Verdict::Ask) => facts.push_str("; calls of it are asked"),
        Some(forge_tools::Verdict::Block) => facts.push_str("; calls of it are blocked"),
        Some(forge_tools::Verdict::Allow) | None => {}
    }
    let narrower = if branch.narrowed().is_empty() {
        String::new()
    } else {
        format!("narrower: {}", branch.narrowed().join(", "))
    };
    rows.push(vec![name, facts, narrower]);
    for call in branch.calls() {
        tree_rows(call, Some(branch.grant()), depth + 1, entry, rows);
    }
}

/// Returns the origin of a value, for programs.
pub(crate) fn origin_json(origin: &ConfigOrigin) -> Value {
    match origin.name() {
        Some(name) => json!({
            "layer": origin.layer().word(), "file": name,
            "line": origin.line(), "column": origin.column(),
        }),
        None => json!({"layer": origin.layer().word(), "file": null, "line": null, "column": null}),
    }
}

/// A whole grant for programs.
pub(crate) fn grant_json(grant: &Grant) -> Value {
    json!({
        "mounts": mounts_json(grant),
        "network": network(grant),
        "shell": grant.shell().map(|rules| json!({
            "rules": rules.rules().map(|(pattern, verdict, origin)| json!({
                "pattern": pattern,
                "approval": verdict.to_string(),
                "origin": origin_json(origin),
            })).collect::<Vec<_>>(),
            "programs": programs_json(rules),
        })),
        "repositories": describe_git::repositories_json(grant),
        "allow_executable_config": grant.allows_executable_config(),
        "tools": grant.tools(),
        "limits": limits_json(grant),
        "confinement": confinement_json(grant),
    })
}

pub(crate) fn limits_json(grant: &Grant) -> Value {
    let limits = limits(grant).into_iter();
    let limits = limits.map(|limit| (limit.name.to_owned(), json!(limit.value)));
    Value::Object(limits.collect())
}

/// Returns the restrictions of commands and file tools, for programs.
pub(crate) fn confinement_json(grant: &Grant) -> Value {
    let confinement = grant.confinement();
    json!({
        "unix_sockets": match confinement.unix_sockets() {
            UnixSockets::Closed => json!(false),
            UnixSockets::Open => json!("open"),
            UnixSockets::Named(paths) => {
                paths.iter().map(|path| path.to_string_lossy()).collect()
            }
        },
        "programs": confinement.programs().directories(),
        "environment": {
            "pass": grant.environment().pass(),
            "set": grant.environment().set(),
        },
        "git": confinement.git().to_string(),
        "git_config": confinement.git_config().to_string(),
        "survivors": confinement.survivors().to_string(),
        "trace": confinement.trace().to_string(),
        "review": confinement.reviews_changes(),
        "require_os_sandbox": grant.require_os_sandbox(),
        "require_guards": confinement.requires_guards(),
        "execution_mode": grant.execution().mode().to_string(),
        "protect": grant.protect(),
        "hide": grant.hide(),
    })
}

/// The mount table for programs.
pub(crate) fn mounts_json(grant: &Grant) -> Value {
    let rows = grant.mounts().map(|mount| {
        let verdict = |operation| mount.approval().verdict(operation).to_string();
        json!({
            "name": mount.name(),
            "path": mount.target(),
            "host": host_json(mount),
            "mode": mount.mode_word(),
            "usable": mount.usable(),
            "approval": {
                "read": verdict(Operation::Read),
                "write": verdict(Operation::Write),
                "delete": verdict(Operation::Delete),
            },
            "suffixes": mount.suffixes(),
            "max_file_bytes": mount.max_file_bytes(),
            "file_rules": {
                "hardlinks": mount.file_rules().hard_links().to_string(),
                "max_files": mount.file_rules().max_files(),
                "max_total_bytes": mount.file_rules().max_total_bytes(),
                "strict_paths": mount.file_rules().strict_paths(),
            },
            "origin": origin_json(mount.origin()),
        })
    });
    rows.collect()
}

/// The delegation tree for programs.
pub(crate) fn tree_json(branch: &DelegationNode) -> Value {
    branch_json(branch, None)
}

fn branch_json(branch: &DelegationNode, caller: Option<&Grant>) -> Value {
    let (standing, why) = match branch.standing() {
        CallStatus::Holds => ("holds", None),
        CallStatus::AsShown => ("as_shown", None),
        CallStatus::Refused(escalation) => ("refused", Some(escalation.to_string())),
        CallStatus::Missing => ("missing", None),
        CallStatus::Cycle => ("cycle", None),
        CallStatus::TooDeep => ("too_deep", None),
    };
    json!({
        "worker": branch.worker(),
        "standing": standing,
        "why": why,
        "mounts": mounts_json(branch.grant()),
        "network": network(branch.grant()),
        "repositories": describe_git::repositories_json(branch.grant()),
        "shell": branch.grant().shell().is_some(),
        "narrowed": branch.narrowed(),
        "calls_any": branch.calls_any(),
        "approval": caller.map(|caller| delegation(caller, branch.worker()).verdict),
        "calls": branch.calls().iter().map(|call| branch_json(call, Some(branch.grant()))).collect::<Vec<_>>(),
    })
}

/// Describes the workers that a worker may call.
pub(crate) fn delegates(worker: &Worker) -> String {
    match worker.delegates() {
        Delegates::None => "nobody".to_owned(),
        Delegates::All => "any worker".to_owned(),
        Delegates::Listed(names) => names.join(", "),
    }
}

/// Returns the callable workers, for programs.
pub(crate) fn delegates_json(worker: &Worker) -> Value {
    match worker.delegates() {
        Delegates::None => json!([]),
        Delegates::All => json!(["*"]),
        Delegates::Listed(names) => json!(names),
    }
}

/// Allow, ask or block, as `explain` says it.
pub(crate) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Block => "block",
    }
}
