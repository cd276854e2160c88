//! `forge log show RUN`: each call in one line, and below it the reason; then the usage of each
//! worker.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use forge_tools::escape_controls;

use super::calls::{CallFilter, CallReader, LogItem, LoggedCall, list, text};
use super::run_usage::{self, RunUsage};
use super::summary::CallSummary;
use super::verify::LogVerdict;
use super::{unreadable, verify};
use crate::cli::{Global, Selection};
use crate::commands::prelude::*;
use crate::output::byte_count::byte_count;
use crate::output::escape::{escape_json, escape_lines};
use crate::output::local_time::local_time;
use crate::run_view;
use crate::state::stored_runs::StoredRun;

/// Characters of arguments in the line of a call; `--json` has all of them.
const MAX_ARGUMENTS_CHARS: usize = 100;
/// Interval at which a followed log is read.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(super) fn show(
    global: &Global,
    run: &StoredRun,
    selection: &Selection,
    follow: bool,
) -> Result<ExitKind, CliError> {
    let wanted = CallFilter::new(selection)?;
    let mut printer = CallPrinter {
        json: global.json,
        one_object: global.json && !follow,
        first: true,
        broken: false,
    };
    printer.begin(run)?;
    let mut summary = CallSummary::default();
    let mut calls = CallReader::new(run).map_err(|error| unreadable(run, &error))?;
    loop {
        // Asked first: lines written until then are read after it.
        let running = follow && run.is_locked();
        while let Some(item) = calls
            .next(running)
            .map_err(|error| unreadable(run, &error))?
        {
            match item {
                LogItem::Call(call) => {
                    summary.add(&call);
                    if wanted.has(&call) {
                        printer.call(&call)?;
                    }
                }
                LogItem::Note(note) => printer.note(&note)?,
                LogItem::Broken(at, why) => {
                    printer.broken = true;
                    printer.line(&format!("broken: {at}: {why}"))?;
                }
            }
        }
        if !running {
            break;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    for call in calls.rest() {
        summary.add(&call);
        if wanted.has(&call) {
            printer.call(&call)?;
        }
    }
    print_end(run, selection, &wanted, &summary, &mut printer)?;
    Ok(ExitKind::negative_if(printer.broken))
}

/// Prints the verdict about the log, and the usage of the workers and of the whole run.
fn print_end(
    run: &StoredRun,
    selection: &Selection,
    wanted: &CallFilter<'_>,
    summary: &CallSummary,
    printer: &mut CallPrinter,
) -> Result<(), CliError> {
    // Lines that are missing leave no trace among the others.
    let (verdict, _) = verify::judge(run);
    printer.verdict(&verdict)?;
    // Asked first: a run that ends meanwhile is not taken for one that was stopped.
    let at_work = run.is_locked();
    let told = run.read_transcript();
    let left = RunUsage::of(run, at_work, &told);
    let worker = selection.worker.as_deref();
    if printer.one_object {
        let workers = run_usage::workers(&told, worker);
        let workers = workers.map(|(number, run)| run_usage::worker_object(number, run));
        let mut more = left.fields();
        more.push(("workers", workers.collect()));
        more.push(("summary", summary.to_json()));
        more.push(("integrity", verdict.word.into()));
        printer.end(more)?;
    } else {
        for (number, run) in run_usage::workers(&told, worker) {
            printer.text(&run_usage::worker_shown(number, run, at_work))?;
        }
        if let Some(summary) = summary.shown().filter(|_| !wanted.only_some()) {
            printer.text(&summary)?;
        }
        if let Some(left) = left.shown() {
            printer.text(&format!("in all: {left}"))?;
        }
        if let Some(answer) = unfit_answer(run).filter(|_| !wanted.only_some()) {
            printer.text("the answer that does not fit:")?;
            printer.text(escape_lines(&answer).trim_end())?;
        }
    }
    Ok(())
}

/// Returns the answer of a run that ended because it does not fit its schema.
fn unfit_answer(run: &StoredRun) -> Option<String> {
    let report = run
        .report()
        .filter(|report| report["end"] == "unfit_answer")?;
    Some(text(&report["answer"]))
}

/// To standard output: text, one object, or, for a log that is followed, one object a call.
struct CallPrinter {
    json: bool,
    one_object: bool,
    first: bool,
    broken: bool,
}

impl CallPrinter {
    fn begin(&self, run: &StoredRun) -> Result<(), CliError> {
        if self.one_object {
            let name = Value::from(run.name.as_str());
            return print_text(format_args!("{{\"run\":{name},\"calls\":["));
        }
        self.text(&format!("run {}", run.shown()))
    }

    fn call(&mut self, call: &LoggedCall) -> Result<(), CliError> {
        if self.one_object {
            let comma = if self.first { "" } else { "," };
            self.first = false;
            return print_text(format_args!(
                "{comma}{}",
                escape_json(&call.to_json().to_string())
            ));
        }
        if self.json {
            return print_json(&call.to_json());
        }
        print_line(rendered(call).trim_end())
    }

    fn note(&self, note: &Value) -> Result<(), CliError> {
        let at = moment(note["at_ms"].as_u64().unwrap_or_default());
        match note["kind"].as_str() {
            Some("resumed") => {
                let torn = match note["torn_bytes"].as_u64() {
                    Some(bytes) => format!(
                        "; a torn line of {} is in audit.torn",
                        run_view::count(bytes, "byte")
                    ),
                    None => String::new(),
                };
                self.text(&format!("{at}  the log goes on{torn}"))
            }
            Some("end") => self.text(&format!(
                "{at}  ended: {}",
                escape_controls(&text(&note["outcome"]))
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Prints the verdict about a log that is not whole, unless a broken line was printed.
    fn verdict(&mut self, verdict: &LogVerdict) -> Result<(), CliError> {
        match verdict.exit {
            ExitKind::Done => Ok(()),
            ExitKind::Unsealed => self.text(&verdict.text),
            _ if self.broken => Ok(()),
            _ => {
                self.broken = true;
                self.line(&format!("broken: {}", verdict.text))
            }
        }
    }

    /// Prints a line that must be seen; on standard error if the result is for programs.
    fn line(&self, line: &str) -> Result<(), CliError> {
        if self.json {
            stderr::print(line);
            return Ok(());
        }
        print_line(line)
    }

    fn text(&self, line: &str) -> Result<(), CliError> {
        if self.json { Ok(()) } else { print_line(line) }
    }

    /// The rest of the one object.
    fn end(&self, more: Vec<(&'static str, Value)>) -> Result<(), CliError> {
        let more: String = more
            .into_iter()
            .map(|(name, value)| format!(",\"{name}\":{value}"))
            .collect();
        print_line(escape_json(&format!(
            "],\"broken\":{}{more}}}",
            self.broken
        )))
    }
}

fn moment(at_ms: u64) -> String {
    local_time(UNIX_EPOCH + Duration::from_millis(at_ms))
}

/// One call; every text of it escaped.
fn rendered(call: &LoggedCall) -> String {
    let mut arguments = escape_controls(&call.arguments().to_string());
    if let Some((cut, _)) = arguments.char_indices().nth(MAX_ARGUMENTS_CHARS) {
        arguments.truncate(cut);
        arguments.push('…');
    }
    let came = call.came();
    let mut shown = format!(
        "{}  {}  {} {arguments}  {}",
        moment(call.at_ms()),
        escape_controls(&call.workers().join(" > ")),
        escape_controls(&call.tool()),
        escape_controls(&call.outcome()),
    );
    if call.execution.is_some() {
        let _ = write!(
            shown,
            "  {}  {}  {}",
            duration(call.duration_us()),
            run_view::count(came["content_bytes"].as_u64().unwrap_or_default(), "byte"),
            escape_controls(&text(&came["runner"])),
        );
    }
    shown.push('\n');
    let mut below = |label: &str, what: String| {
        let _ = writeln!(shown, "    {label:<10}{}", escape_controls(&what));
    };
    let decided = call.decided();
    let verdict = match decided["verdict"].as_str() {
        Some(verdict) => verdict.to_owned(),
        None => "undecided".to_owned(),
    };
    for (n, reason) in list(&decided["reasons"]).iter().enumerate() {
        let label = if n == 0 { verdict.as_str() } else { "and" };
        below(label, of_reason(reason));
    }
    if !decided["answer"].is_null() {
        let by = text(&decided["by"]);
        below("answer", format!("{}: {by}", text(&decided["answer"])));
    }
    if !decided["runner"].is_null() {
        below("runner", text(&decided["runner"]));
    }
    for (label, text) in describe_result(came) {
        below(&label, text);
    }
    shown
}

/// Returns the rows about the result of a call, each with its label.
fn describe_result(came: &Value) -> Vec<(String, String)> {
    let receipt = &came["enforcement"];
    let mut rows = Vec::new();
    if let Some(backend) = receipt["backend"].as_str() {
        rows.push(("enforced".to_owned(), format!("by {backend}")));
    }
    if receipt.get("cut").is_some() {
        rows.push(("enforced".to_owned(), "its record was cut".to_owned()));
    }
    let mut add_list = |elements: &Value, row: fn(&Value) -> (String, String)| {
        rows.extend(
            list(elements)
                .iter()
                .map(|element| match cut_items(element) {
                    Some(more) => ("and".to_owned(), more),
                    None => row(element),
                }),
        );
    };
    add_list(&receipt["contact_totals"], |total| {
        ("connected".to_owned(), of_total(total))
    });
    add_list(&came["events"], |event| {
        (text(&event["event"]), text(&event["detail"]))
    });
    add_list(&came["artifacts"], |artifact| {
        (text(&artifact["effect"]), of_artifact(artifact))
    });
    rows
}

/// Returns the text of the element that ends a list which was cut.
fn cut_items(element: &Value) -> Option<String> {
    let count = element["cut_items"].as_u64()?;
    Some(format!("{count} more, which the line does not hold"))
}

fn of_total(total: &Value) -> String {
    let count = |field: &str| total[field].as_u64().unwrap_or_default();
    let rule = match total["kind"].as_str() {
        Some("inbound") => format!("clients with port {}", text(&total["rule"])),
        _ => text(&total["rule"]),
    };
    let connections = run_view::count(count("connections"), "connection");
    let (sent, received) = (byte_count(count("sent")), byte_count(count("received")));
    format!("{rule} ({connections}, sent {sent}, received {received})")
}

fn of_artifact(artifact: &Value) -> String {
    let mut what = text(&artifact["path"]);
    if let Some(bytes) = artifact["bytes"].as_u64() {
        let _ = write!(what, "  {}", run_view::count(bytes, "byte"));
    }
    if let Some(hash) = artifact["sha256"].as_str() {
        let _ = write!(what, "  sha256 {hash}");
    }
    what
}

fn of_reason(reason: &Value) -> String {
    let mut shown = text(&reason["text"]);
    match (reason["rule"].as_str(), reason["origin"].as_str()) {
        (Some(rule), Some(origin)) => {
            let _ = write!(shown, "  ({rule}, {origin})");
        }
        (Some(one), None) | (None, Some(one)) => {
            let _ = write!(shown, "  ({one})");
        }
        (None, None) => {}
    }
    shown
}

fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} us"),
        1_000..1_000_000 => format!("{}.{} ms", us / 1_000, us / 100 % 10),
        _ => format!("{}.{} s", us / 1_000_000, us / 100_000 % 10),
    }
}
