//! `forge doctor --mcp`: starts our own server as a client does, and reports the behaviour of
//! well-known clients that a person should know of.

mod client;

use std::io::BufReader;

use clap::ValueEnum as _;
use forge_mcp::REFUSED_AT_ONCE;
use forge_tools::audit::{LineReader, RawLine};

use super::report::{self, CheckState, DoctorCheck};
use crate::commands::prelude::*;
use crate::install::{
    Audience, EditError, McpClient, OUR_PLACES, Scope, ServerCommand, ServerEntry, SettingsEdit,
    SettingsFile, SettingsRoots, edit, start,
};
use crate::output::escape::escape_path;
use crate::setup;
use crate::state::stored_runs::StoredRuns;
use client::{ProtocolEra, ServerSession, run_session};

/// Runs of the server that are looked through for clients that refuse by themselves.
const RUNS: usize = 20;
/// Lines of each of them.
const LINES: usize = 20_000;

/// All of them, in the order in which they are shown.
#[derive(Default)]
struct McpChecks(Vec<DoctorCheck>);

impl McpChecks {
    fn add(&mut self, what: &'static str, state: CheckState, detail: impl Into<String>) {
        self.0.push(DoctorCheck {
            what: what.to_owned(),
            state,
            detail: detail.into(),
            hint: None,
        });
    }

    fn hint(&mut self, hint: impl Into<String>) {
        if let Some(last) = self.0.last_mut() {
            last.hint = Some(hint.into());
        }
    }
}

pub(super) fn run(ambient: &Ambient) -> Result<ExitKind, CliError> {
    let server = ServerCommand::here(ambient, "forge", None, None, Audience::ThisUser)?;
    let mut findings = McpChecks::default();
    let talks: Vec<ServerSession> = [ProtocolEra::Handshake, ProtocolEra::Stateless]
        .into_iter()
        .filter_map(|era| conversation(&server, era, ambient, &mut findings))
        .collect();
    if let [one, other] = talks.as_slice() {
        if names(&one.tools) == names(&other.tools) {
            findings.add("same tools", CheckState::Ok, "in both eras");
        } else {
            findings.add("same tools", CheckState::Failed, "the two eras list others");
        }
    }
    environment(ambient, &mut findings);
    project(&server, &mut findings);
    if let Some(told) = setup::describe_missing_project(ambient) {
        findings.add("project", CheckState::Warning, told);
    }
    questions(ambient, &mut findings);
    settings(ambient, &server, &mut findings)?;
    let failed = report::has_failed(&findings.0);
    let tools = talks.first().map(|talk| names(&talk.tools));
    let text = if ambient.global.json {
        let checks = report::facts(&findings.0, "help");
        let tools = tools.unwrap_or_default();
        json!({"mcp": {"ok": !failed, "checks": checks, "tools": tools}}).to_string()
    } else {
        report::table(&findings.0, 11, &" ".repeat(21))
    };
    print_line(text.trim_end())?;
    Ok(ExitKind::negative_if(failed))
}

/// Opens, lists, reads, hangs up; and says how that was.
fn conversation(
    server: &ServerCommand,
    era: ProtocolEra,
    ambient: &Ambient,
    findings: &mut McpChecks,
) -> Option<ServerSession> {
    let what = era.word();
    let talk = match run_session(server, era, &ambient.env) {
        Ok(talk) => talk,
        Err(why) => {
            findings.add(what, CheckState::Failed, why);
            findings.hint("`forge mcp < /dev/null` says why it does not start");
            return None;
        }
    };
    let opened = format!(
        "{}, first answer after {} ms, {} tools",
        talk.version,
        talk.first_answer.as_millis(),
        talk.tools.len()
    );
    match &talk.called {
        None if talk.tools.is_empty() => {
            findings.add(what, CheckState::Failed, talk.instructions.clone());
            findings.hint("forge check");
        }
        None => findings.add(
            what,
            CheckState::Warning,
            format!("{opened}; none that only reads"),
        ),
        Some((name, result)) if result["isError"] == true => {
            let text = result["content"][0]["text"].as_str().unwrap_or_default();
            findings.add(
                what,
                CheckState::Failed,
                format!("{opened}; {name}: {text}"),
            );
            findings.hint(format!("forge tools call {name} '{{\"path\": \"/\"}}'"));
        }
        Some((name, _)) => findings.add(what, CheckState::Ok, format!("{opened}; {name} answers")),
    }
    if !talk.ended.success() {
        findings.add(
            what,
            CheckState::Failed,
            format!("it ended with {}", talk.ended),
        );
    }
    Some(talk)
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect()
}

/// Reports variables that are set here but not in a client: clients pass on little of their
/// environment.
fn environment(ambient: &Ambient, findings: &mut McpChecks) {
    let is_lost = |name: &&str| {
        name.starts_with("FORGE_")
            && !OUR_PLACES.contains(name)
            && (*name != "FORGE_CONFIG" || ambient.global.no_config)
    };
    let names = ambient.env.iter().map(|(name, _)| name.as_str());
    let mut lost: Vec<&str> = names.filter(is_lost).collect();
    lost.sort_unstable();
    if lost.is_empty() {
        findings.add(
            "environment",
            CheckState::Note,
            "clients pass on little of theirs: HOME, PATH and a few more",
        );
    } else {
        findings.add(
            "environment",
            CheckState::Warning,
            format!(
                "set here, and not where a client starts it: {}",
                lost.join(", ")
            ),
        );
        findings
            .hint("put it into the project file, or give `-c KEY=VALUE` to `forge mcp install`");
    }
}

/// Clients start servers in directories of their own choosing.
fn project(server: &ServerCommand, findings: &mut McpChecks) {
    let place = server.arguments.get(1).map_or("", String::as_str);
    findings.add(
        "directory",
        CheckState::Note,
        format!(
            "clients start the servers of a person's settings in any directory, so `forge mcp \
             install` writes -C {place} there; those of a project's settings start in the project"
        ),
    );
}

/// Reports the approver of the server's questions.
fn questions(ambient: &Ambient, findings: &mut McpChecks) {
    let dir = setup::project_dir(ambient).ok();
    let queue = if dir.is_some_and(|dir| ambient.queue(&dir).is_watched()) {
        "a terminal with `forge approve --watch` answers now"
    } else {
        "no terminal answers with `forge approve --watch` now"
    };
    let hasty = ambient.state.as_deref().map_or(0, count_instant_refusals);
    if hasty > 0 {
        let hasty = crate::run_view::count(hasty as u64, "call");
        let detail = format!(
            "a client refused {hasty} sooner than a person can read: it says that it can \
             ask, and does not; {queue}"
        );
        findings.add("questions", CheckState::Warning, detail);
    } else {
        let detail =
            format!("some clients never show them (elicitation), so they are queued; {queue}");
        findings.add("questions", CheckState::Note, detail);
    }
    findings.hint("forge approve --watch");
}

/// Questions that clients answered by themselves, in the latest runs of the server.
fn count_instant_refusals(state: &std::path::Path) -> usize {
    let Ok(runs) = StoredRuns::read(state) else {
        return 0;
    };
    let latest = runs.newest_first().filter(|run| run.worker == "mcp");
    let mut count = 0;
    for run in latest.take(RUNS) {
        let Ok(Some(file)) = run.segment(0) else {
            continue;
        };
        let mut lines = LineReader::new(BufReader::new(file));
        for _ in 0..LINES {
            let Ok(Some(RawLine::Whole(line))) = lines.next_line() else {
                break;
            };
            let line: Value = serde_json::from_slice(line).unwrap_or_default();
            count += usize::from(line["decision"]["by"] == REFUSED_AT_ONCE);
        }
    }
    count
}

/// Checks the entries for this server in the settings of clients.
fn settings(
    ambient: &Ambient,
    server: &ServerCommand,
    findings: &mut McpChecks,
) -> Result<(), CliError> {
    let start = start(&ambient.global)?;
    let places = SettingsRoots::here(ambient.home.as_deref(), &ambient.env);
    let mut seen = Vec::new();
    for client in McpClient::value_variants() {
        for scope in [Scope::Project, Scope::User] {
            let place = client.place(scope, &start, &places);
            let Some(target) = place.and_then(|place| SettingsFile::new(place, scope)) else {
                continue;
            };
            let path = target.path();
            if seen.contains(&path) {
                continue;
            }
            let Ok(Some(found)) = target.read() else {
                continue;
            };
            let audience = Audience::of(*client, scope);
            let for_scope = ServerCommand::here(ambient, &server.name, None, None, audience)?;
            let shown = format!("{}: {}", client.word(), escape_path(&path));
            seen.push(path);
            add_entry_check(*client, [&for_scope, server], &found.text, &shown, findings);
        }
    }
    if !findings.0.iter().any(|each| each.what == "settings") {
        findings.add(
            "settings",
            CheckState::Note,
            "no client has been told of this server",
        );
        findings.hint("forge mcp install --help");
    }
    Ok(())
}

/// Compares a client's settings with the entries of both servers: a person's own entry in a
/// project's file may name this machine.
fn add_entry_check(
    client: McpClient,
    servers: [&ServerCommand; 2],
    text: &str,
    shown: &str,
    findings: &mut McpChecks,
) {
    let entries = servers.map(|server| ServerEntry::new(client, server));
    let [first, second] = entries.map(|each| edit(client.format(), Some(text), &each, false));
    let outcome = match second {
        Ok(SettingsEdit::Unchanged) => second,
        Ok(_) | Err(_) => first,
    };
    match outcome {
        Ok(SettingsEdit::Unchanged) => findings.add("settings", CheckState::Ok, shown),
        // It knows other servers, and not this one.
        Ok(SettingsEdit::New(_)) | Err(EditError::Shape(_)) => {}
        Err(EditError::Other(command)) => findings.add(
            "settings",
            CheckState::Note,
            format!("{shown}: `forge` starts something else: {command}"),
        ),
        Err(EditError::Syntax {
            line,
            column,
            message,
        }) => findings.add(
            "settings",
            CheckState::Warning,
            format!("{shown}:{line}:{column}: {message}"),
        ),
    }
}
