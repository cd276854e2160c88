//! `forge log export RUN --format csv|otel`: for other programs.
//!
//! `otel` is one line a call, each a request of OTLP's trace service in its JSON encoding with one
//! span, as the file exporter of a collector writes them.

use forge_tools::escape_controls;

use super::calls::{CallFilter, CallReader, LogItem, LoggedCall, text};
use super::{unreadable, verify};
use crate::cli::{LogFormat, Selection};
use crate::commands::prelude::*;
use crate::state::stored_runs::StoredRun;

const COLUMNS: &str = "seq,at_ms,workers,tool,arguments,verdict,reason,rule,origin,answer,by,\
                       runner,ok,code,duration_us,content_bytes,content_sha256,exit_code";

pub(super) fn export(
    run: &StoredRun,
    format: LogFormat,
    selection: &Selection,
) -> Result<ExitKind, CliError> {
    let wanted = CallFilter::new(selection)?;
    let write = |call: &LoggedCall| match format {
        LogFormat::Csv => print_line(row(call)),
        LogFormat::Otel => print_json(&span(run, call)),
    };
    if format == LogFormat::Csv {
        print_line(COLUMNS)?;
    }
    let mut broken = false;
    let mut calls = CallReader::new(run).map_err(|error| unreadable(run, &error))?;
    while let Some(item) = calls.next(false).map_err(|error| unreadable(run, &error))? {
        match item {
            LogItem::Call(call) if wanted.has(&call) => write(&call)?,
            LogItem::Call(_) | LogItem::Note(_) => {}
            LogItem::Broken(at, why) => {
                broken = true;
                stderr::print(format_args!("broken: {at}: {why}"));
            }
        }
    }
    for call in calls.rest().filter(|call| wanted.has(call)) {
        write(&call)?;
    }
    // Lines that are missing leave no trace among the others.
    let (verdict, _) = verify::judge(run);
    let is_damaged = !matches!(verdict.exit, ExitKind::Done | ExitKind::Unsealed);
    if is_damaged && !broken {
        stderr::print(format_args!("broken: {}", verdict.text));
    }
    Ok(ExitKind::negative_if(broken || is_damaged))
}

fn row(call: &LoggedCall) -> String {
    let decided = call.decided();
    let reason = &decided["reasons"][0];
    let came = call.came();
    let cells = [
        call.seq().to_string(),
        call.at_ms().to_string(),
        call.workers().join(" > "),
        call.tool(),
        call.arguments().to_string(),
        text(&decided["verdict"]),
        text(&reason["text"]),
        text(&reason["rule"]),
        text(&reason["origin"]),
        text(&decided["answer"]),
        text(&decided["by"]),
        text(&came["runner"]),
        text(&came["ok"]),
        text(&came["code"]),
        text(&came["duration_us"]),
        text(&came["content_bytes"]),
        text(&came["content_sha256"]),
        text(&came["exit_code"]),
    ];
    cells.map(|cell| quoted(&cell)).join(",")
}

/// Quotes one cell. A model's text is not a formula: a table program takes a text that begins with
/// one of these for one.
fn quoted(cell: &str) -> String {
    let mut shown = escape_controls(cell);
    if shown.starts_with(['=', '+', '-', '@']) {
        shown.insert(0, '\'');
    }
    if shown.contains([',', '"']) || shown.starts_with('\'') {
        format!("\"{}\"", shown.replace('"', "\"\""))
    } else {
        shown
    }
}

fn span(run: &StoredRun, call: &LoggedCall) -> Value {
    let decided = call.decided();
    let came = call.came();
    let start = u128::from(call.at_ms()) * 1_000_000;
    let end = start + u128::from(call.duration_us()) * 1_000;
    let mut attributes = vec![
        attribute("gen_ai.operation.name", "execute_tool"),
        attribute("gen_ai.tool.name", &call.tool()),
        attribute("gen_ai.tool.call.arguments", &call.arguments().to_string()),
        attribute("forge.workers", &call.workers().join(" > ")),
        attribute("forge.verdict", &text(&decided["verdict"])),
        attribute("forge.reasons", &text(&decided["reasons"])),
        attribute("forge.runner", &text(&came["runner"])),
        attribute("forge.result.sha256", &text(&came["content_sha256"])),
    ];
    for (name, value) in [
        ("forge.answer", &decided["answer"]),
        ("forge.approver", &decided["by"]),
        ("error.type", &came["code"]),
        ("process.exit.code", &came["exit_code"]),
    ] {
        if !value.is_null() {
            attributes.push(attribute(name, &text(value)));
        }
    }
    // Of OTLP: 0 unset, 1 ok, 2 error.
    let status = match call.is_failed() {
        Some(false) => 1,
        Some(true) => 2,
        None => 0,
    };
    json!({ "resourceSpans": [{
        "resource": { "attributes": [
            attribute("service.name", "forge"),
            attribute("forge.run", &run.name),
        ] },
        "scopeSpans": [{
            "scope": { "name": "forge.audit" },
            "spans": [{
                "traceId": trace_id(run),
                "spanId": format!("{:016x}", call.seq().saturating_add(1)),
                "name": format!("execute_tool {}", call.tool()),
                "kind": 1,
                "startTimeUnixNano": start.to_string(),
                "endTimeUnixNano": end.to_string(),
                "attributes": attributes,
                "status": { "code": status },
            }],
        }],
    }] })
}

/// 32 hexadecimal digits that only this run has: its second and its random number.
fn trace_id(run: &StoredRun) -> String {
    let random = run.id().split_once('-').map_or("", |(_, random)| random);
    format!("{:016x}{random:0>16}", run.seconds)
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}
