//! URLs that a command opens in the person's browser, and the port at which a login answers it.

mod browser;
mod request;

use std::collections::BTreeMap;
use std::io::{PipeReader, PipeWriter, Read as _};
use std::sync::Arc;
use std::thread::JoinHandle;

use forge_tools::audit::{EventKind, PolicyEvent};
use forge_tools::{
    CallRecord, DecisionRecord, FailureCode, Recorder, TemporaryPorts, Verdict, VerdictReason,
};
use os_sandbox::{Network, Plan};
use rustix::event::{PollFd, PollFlags, poll};

use crate::commands::prelude::*;
use crate::setup::host_programs::HostPrograms;
use crate::setup::presets::UrlRequests;
use request::{Lines, UrlRequest};

/// Bound on the requests of one command that are judged. Further ones are refused and counted.
const MAX_REQUESTS: u32 = 20;
/// Bound on the reads after the end of the command: as much as a pipe holds.
const READS_AFTER_END: u32 = 16;

/// Judges the requests of one command until this is finished.
pub(super) struct UrlOpener {
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<BTreeMap<&'static str, u32>>>,
}

impl UrlOpener {
    pub(super) fn start(
        requests: &UrlRequests,
        ports: TemporaryPorts,
        (plan, programs): (&Plan, HostPrograms),
        recorder: Arc<dyn Recorder>,
        ambient: &Ambient,
        quiet: bool,
    ) -> Result<UrlOpener, CliError> {
        let failed = |error: std::io::Error| {
            let text = format!("the opener of URLs: {error}");
            CliError::exec_refused("preset", text)
        };
        let judge = Judge {
            origins: requests.origins.clone(),
            browser: ambient.var("BROWSER").map(str::to_owned),
            programs: programs.beside_policy(plan.policy()),
            plan: plan.clone(),
            ports,
            recorder,
            quiet,
            done: BTreeMap::new(),
        };
        let fifo = requests.reader().map_err(failed)?;
        let (stopped, stop) = std::io::pipe().map_err(failed)?;
        let thread = std::thread::Builder::new()
            .name("open-urls".to_owned())
            .spawn(move || judge.run(fifo, &stopped))
            .map_err(failed)?;
        Ok(UrlOpener {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Judges no more requests. Returns a line about those that were made.
    pub(super) fn finish(mut self) -> Option<String> {
        self.stop = None;
        let done = self.thread.take()?.join().ok()?;
        let parts = done.iter().map(|(word, count)| format!("{count} {word}"));
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| format!("URLs for your browser: {}", parts.join(", ")))
    }
}

struct Judge {
    origins: Vec<String>,
    browser: Option<String>,
    programs: HostPrograms,
    plan: Plan,
    ports: TemporaryPorts,
    recorder: Arc<dyn Recorder>,
    quiet: bool,
    done: BTreeMap<&'static str, u32>,
}

impl Judge {
    fn run(mut self, mut fifo: std::fs::File, stopped: &PipeReader) -> BTreeMap<&'static str, u32> {
        let mut lines = Lines::default();
        let mut buffer = [0; 4096];
        let mut left = READS_AFTER_END;
        while left > 0 {
            let mut both = [
                PollFd::new(&fifo, PollFlags::IN),
                PollFd::new(stopped, PollFlags::IN),
            ];
            match poll(&mut both, None) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return self.done,
                Ok(_) => {}
            }
            let has_ended = !both[1].revents().is_empty();
            if has_ended && both[0].revents().is_empty() {
                return self.done;
            }
            left -= u32::from(has_ended);
            match fifo.read(&mut buffer) {
                Ok(count) => {
                    for line in lines.push(&buffer[..count]) {
                        self.judge(&line);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return self.done,
            }
        }
        self.done
    }

    fn judge(&mut self, line: &[u8]) {
        let judged: u32 = self.done.values().sum();
        if judged >= MAX_REQUESTS {
            if judged == MAX_REQUESTS {
                self.tell(&format!(
                    "the command asked to open more than {MAX_REQUESTS} URLs: all further ones are refused"
                ));
            }
            *self.done.entry("refused").or_default() += 1;
            return;
        }
        let read = UrlRequest::read(line, &self.origins);
        let origin = match &read {
            Ok(request) => request.origin.clone(),
            Err(refusal) => refusal.origin.clone().unwrap_or_default(),
        };
        let mut record = record(&origin, read.as_ref().err().map(|refusal| &*refusal.why));
        // The log has the decision before anything is done.
        let decided = self.recorder.decided(&record.asked());
        let opened = read.map_err(|refusal| refusal.why).and_then(|request| {
            record.call = decided.map_err(|error| format!("it is not in the log: {error}"))?;
            self.open(&request).inspect_err(|_| {
                record.ok = false;
                record.code = Some(FailureCode::IsolationUnavailable.as_str().to_owned());
            })
        });
        let (word, told) = match &opened {
            Ok(()) => (
                "opened",
                format!("opened a URL of {origin} in your browser"),
            ),
            Err(why) => ("refused", format!("no URL is opened: {why}")),
        };
        self.tell(&told);
        if let Err(error) = self.recorder.record(&record) {
            self.tell(&format!(
                "warning: the end of this is not in the log: {error}"
            ));
        }
        *self.done.entry(word).or_default() += 1;
    }

    fn open(&self, request: &UrlRequest) -> Result<(), String> {
        if let Some(port) = request.callback {
            self.publish(port)?;
        }
        let quiet = self.quiet;
        let failed = move |status: std::process::ExitStatus| {
            if !quiet {
                stderr::print(format_args!(
                    "your browser failed ({status}): open the URL yourself, if the command shows it, or set BROWSER"
                ));
            }
        };
        browser::open(
            self.browser.as_deref(),
            &self.programs,
            &request.url,
            failed,
        )
        .map_err(|error| format!("no browser starts: {error}; set BROWSER to one"))
    }

    /// Publishes the port of a login's answer. Without it the answer, which holds a secret, could
    /// reach another program.
    fn publish(&self, port: u16) -> Result<(), String> {
        if matches!(self.plan.policy().network(), Network::Unrestricted)
            || self.plan.published_ports().any(|known| known == port)
        {
            return Ok(());
        }
        if !self.plan.can_publish_ports() {
            return Err(format!(
                "the login answers on port {port}, which only namespaces and bubblewrap can open"
            ));
        }
        let fits = self.plan.policy().check_port(port);
        let published = fits.and_then(|()| self.ports.publish(port));
        published.map_err(|error| error.to_string())
    }

    fn tell(&self, line: &str) {
        if !self.quiet {
            stderr::print(escape(line));
        }
    }
}

/// Describes a request; `refused` is the reason why its URL may not be opened.
fn record(origin: &str, refused: Option<&str>) -> CallRecord {
    let (verdict, reason) = match refused {
        None => (Verdict::Allow, "open_urls names the origin"),
        Some(why) => (Verdict::Block, why),
    };
    let decision = DecisionRecord::new(Some(verdict), vec![VerdictReason::new(reason)]);
    let (arguments, intents) = (
        json!({ "origin": origin }),
        vec![format!("open a URL of {origin}")],
    );
    let denied = refused.map(|why| PolicyEvent::new(EventKind::Denied, why));
    CallRecord {
        ok: refused.is_none(),
        code: refused.map(|_| FailureCode::Denied.as_str().to_owned()),
        events: denied.into_iter().collect(),
        ..CallRecord::of_act("open_url", arguments, intents, decision)
    }
}
