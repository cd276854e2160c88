//! The current state of a run as rows: every active worker, its model's text, its calls, and below
//! them the totals of the run.

use std::time::Instant;

use forge_runtime::Dollars;

use super::cells::{cells, clean, wrap};
use super::lines::{ScreenRow, Style, indent};
use super::run::{ActiveWorker, Activity, RunView};
use super::words;
use crate::output::describe::Tone;

/// Most calls of one worker that are shown.
const MAX_CALLS: usize = 4;
/// Most rows of one model's text.
const MAX_TEXT_ROWS: usize = 16;
/// Separates finished work from current work.
const BETWEEN: &str = "┄┄┄┄┄┄┄┄";
/// Bound on a text's end, in bytes: more than any screen shows.
const MAX_TAIL_BYTES: usize = 8 * 1024;
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Interval of the spinner, in milliseconds.
const SPIN_MS: u128 = 100;

/// The rows, as many as fit.
pub(super) fn rows(
    run: &RunView,
    now: Instant,
    width: usize,
    height: usize,
    style: Style,
) -> Vec<ScreenRow> {
    let at_work = run.at_work();
    if at_work.is_empty() {
        return Vec::new();
    }
    // The line between, and one above it.
    let room = height.saturating_sub(3).max(2);
    let view = RegionLayout {
        now,
        width,
        style,
        spinner: spinner(run, now),
    };
    let heads: usize = at_work.iter().map(|worker| view.head(worker).len()).sum();
    let speaking = at_work.iter().filter(|worker| !worker.tail.is_empty());
    let speaking = speaking.count().max(1);
    let each = (room.saturating_sub(heads + 1) / speaking).clamp(1, MAX_TEXT_ROWS);
    let mut rows: Vec<ScreenRow> = Vec::new();
    for worker in &at_work {
        let mut head = view.head(worker);
        let calls = head.split_off(1);
        rows.append(&mut head);
        rows.extend(view.tail(run, worker, each));
        rows.extend(calls);
    }
    if rows.len() >= room {
        rows.truncate(room.saturating_sub(2));
        let text = format!("… {} at work", words::count(at_work.len() as u64, "worker"));
        rows.push(style.row(width, &[(Tone::Dim, &text)]));
    }
    rows.insert(0, style.row(width, &[(Tone::Dim, BETWEEN)]));
    rows.push(view.whole(run));
    rows
}

fn spinner(run: &RunView, now: Instant) -> &'static str {
    let spins = now.saturating_duration_since(run.began).as_millis() / SPIN_MS;
    SPINNER[usize::try_from(spins % SPINNER.len() as u128).unwrap_or(0)]
}

struct RegionLayout {
    now: Instant,
    width: usize,
    style: Style,
    spinner: &'static str,
}

impl RegionLayout {
    /// Returns a row with the worker and its activity, and a row for each call.
    fn head(&self, worker: &ActiveWorker) -> Vec<ScreenRow> {
        let at = indent(&worker.runs);
        let doing = self.doing(worker);
        let name = format!("{at}▸ {}", worker.label);
        let mut rows = vec![
            self.style
                .row(self.width, &[(Tone::Bold, &name), (Tone::Dim, &doing)]),
        ];
        for call in worker.calls.iter().take(MAX_CALLS) {
            let since = self.now.saturating_duration_since(call.since);
            let since = match since.as_secs() {
                0 => String::new(),
                _ => format!("  {}", words::span(since)),
            };
            // The duration is visible even if the call is long.
            let lead = format!("{at}  {} ", self.spinner);
            let room = self.width.saturating_sub(cells(&lead) + cells(&since));
            let what = super::cells::fit(&call.what, room);
            rows.push(self.style.row(
                self.width,
                &[
                    (Tone::Dim, &lead),
                    (Tone::Plain, &what),
                    (Tone::Dim, &since),
                ],
            ));
        }
        if let Some(more) = worker.calls.len().checked_sub(MAX_CALLS).filter(|n| *n > 0) {
            let text = format!("{at}    and {}", words::count(more as u64, "more call"));
            rows.push(self.style.row(self.width, &[(Tone::Dim, &text)]));
        }
        rows
    }

    fn doing(&self, worker: &ActiveWorker) -> String {
        let since = |since: &Instant| words::span(self.now.saturating_duration_since(*since));
        match &worker.doing {
            Activity::Beginning | Activity::Speaking => String::new(),
            Activity::Calling if worker.calls.is_empty() => String::new(),
            Activity::Calling => match worker.calls.len() {
                1 => "  1 call".to_owned(),
                calls => format!("  {calls} calls"),
            },
            Activity::Asking { since: then } => format!("  waits for its model, {}", since(then)),
            Activity::Thinking { since: then } => format!("  thinks, {}", since(then)),
            Activity::Waiting { until, why } => {
                let left = until.saturating_duration_since(self.now);
                format!("  {why}, again in {}", words::until(left))
            }
        }
    }

    /// Returns the last `most` rows of a model's text.
    fn tail(&self, run: &RunView, worker: &ActiveWorker, most: usize) -> Vec<ScreenRow> {
        if worker.tail.trim().is_empty() {
            return Vec::new();
        }
        let lead = format!("{}  │ ", indent(&worker.runs));
        let room = self.width.saturating_sub(cells(&lead));
        let start = worker.tail.len().saturating_sub(MAX_TAIL_BYTES);
        let tail = &worker.tail[worker.tail.ceil_char_boundary(start)..];
        let tail = run.redacted(tail);
        let mut found: Vec<String> = Vec::new();
        for line in tail.trim_end_matches('\n').rsplit('\n') {
            let line = line.strip_suffix('\r').unwrap_or(line);
            let mut above = wrap(&clean(line), room);
            above.append(&mut found);
            found = above;
            if found.len() >= most {
                break;
            }
        }
        let first = found.len().saturating_sub(most);
        found[first..]
            .iter()
            .map(|text| {
                let parts = [(Tone::Dim, lead.as_str()), (Tone::Plain, text)];
                self.style.row(self.width, &parts)
            })
            .collect()
    }

    /// The run.
    fn whole(&self, run: &RunView) -> ScreenRow {
        let mut parts = vec![words::span(self.now.saturating_duration_since(run.began))];
        parts.push(words::count(run.turns, "turn"));
        parts.push(words::count(run.calls, "call"));
        if run.tokens > 0 {
            parts.push(words::tokens(run.tokens));
        }
        if let Some(cost) = run.cost_nano_usd.filter(|cost| *cost > 0) {
            parts.push(Dollars(cost).to_string());
        }
        let text = format!("{} {}", self.spinner, parts.join(" · "));
        self.style.row(self.width, &[(Tone::Dim, &text)])
    }
}
