//! The official conformance suite, on the server of the example `mcp_judged`: what each revision
//! of the protocol requires, frozen at its release.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;

use super::expected::{Check, Expected};
use super::judges::Judges;
use crate::failure::{Context, Failure};
use crate::process;
use crate::scratch::Scratch;
use crate::workspace;

/// What both kinds of client are held to.
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Where the expected failures are.
const EXPECTED: &str = "xtask/mcp/expected-failures.txt";

/// It takes a few seconds; this is only against a hang.
const LIMIT_S: u64 = 300;

/// Runs it. Everything that did not go as expected.
pub(super) fn judge(judges: &Judges, server: &Path) -> Result<Vec<String>, Failure> {
    let path = workspace::root().join(EXPECTED);
    let text = fs::read_to_string(&path).context(path.display())?;
    let expected = match Expected::parse(&text, &REVISIONS) {
        Ok(expected) => expected,
        Err(wrong) => return Ok(wrong),
    };
    let scratch = Scratch::new()?;
    let server = Server::start(server)?;
    let mut failed = BTreeMap::new();
    for revision in REVISIONS {
        let results = scratch.file(revision);
        let mut suite = judges.conformance();
        suite
            .args(["server", "--requirements", revision, "--url", &server.url])
            .arg("--output-dir")
            .arg(&results)
            .env("HOME", scratch.path());
        // Its exit code counts expected failures as well.
        let (code, said) = process::watched(&mut suite, LIMIT_S)?;
        let ran = checks(&results)?;
        let wanted = scenarios(&judges.requirements(revision))?;
        for scenario in &wanted {
            if !ran.iter().any(|check| check.scenario == *scenario) {
                println!("{said}");
                let why = format!("{revision}: `{scenario}` did not run (exit {code:?})");
                return Err(Failure::new(why));
            }
        }
        let passed = ran
            .iter()
            .filter(|check| check.verdict == Verdict::Passed)
            .count();
        let not_passed = note(&mut failed, revision, ran);
        println!(
            "conformance suite, {revision}: {} scenarios, {passed} checks passed, {not_passed} not",
            wanted.len()
        );
    }
    println!("expected not to pass: {} entries", expected.len());
    Ok(expected.compare(&failed))
}

/// What the suite says of one check.
struct Judged {
    scenario: String,
    id: String,
    verdict: Verdict,
}

#[derive(PartialEq, Eq)]
enum Verdict {
    Passed,
    /// Not tried, or only told.
    Nothing,
    /// Not what must be, or not what should be, and why.
    Bad(String),
}

fn note(failed: &mut BTreeMap<Check, String>, revision: &str, ran: Vec<Judged>) -> usize {
    let before = failed.len();
    for check in ran {
        if let Verdict::Bad(why) = check.verdict {
            failed.insert((revision.to_owned(), check.scenario, check.id), why);
        }
    }
    failed.len() - before
}

/// What the suite left below `dir`: `server-SCENARIO-TIME/checks.json`, one for each scenario.
fn checks(dir: &Path) -> Result<Vec<Judged>, Failure> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).context(dir.display())? {
        let entry = entry.context(dir.display())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(scenario) = scenario(&name) else {
            return Err(Failure::new(format!("not a result of a scenario: {name}")));
        };
        let path = entry.path().join("checks.json");
        let text = fs::read(&path).context(path.display())?;
        let list: Vec<Value> = serde_json::from_slice(&text).context(path.display())?;
        for check in list {
            let word = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
            let verdict = match check["status"].as_str() {
                Some("SUCCESS") => Verdict::Passed,
                Some("SKIPPED" | "INFO") => Verdict::Nothing,
                _ => Verdict::Bad(first_line(&word("errorMessage"), &word("description"))),
            };
            found.push(Judged {
                scenario: scenario.to_owned(),
                id: word("id"),
                verdict,
            });
        }
        // A scenario may have nothing to check, and has run all the same.
        found.push(Judged {
            scenario: scenario.to_owned(),
            id: String::new(),
            verdict: Verdict::Nothing,
        });
    }
    Ok(found)
}

fn first_line(message: &str, otherwise: &str) -> String {
    let text = if message.is_empty() {
        otherwise
    } else {
        message
    };
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(200).collect()
}

/// `server-ping-2026-11-21T21-18-22-584Z` is of `ping`.
fn scenario(name: &str) -> Option<&str> {
    const TIME: usize = "-2026-11-21T21-18-22-584Z".len();
    let rest = name.strip_prefix("server-")?;
    rest.get(..rest.len().checked_sub(TIME)?)
}

/// The scenarios of a server that the suite's own file names: those required, and those that it
/// only looks at.
fn scenarios(file: &Path) -> Result<Vec<String>, Failure> {
    let text = fs::read_to_string(file).context(file.display())?;
    let found = named(&text);
    if found.len() < 10 {
        let why = format!("{}: it is written in another way now", file.display());
        return Err(Failure::new(why));
    }
    Ok(found)
}

fn named(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut part = "";
    let mut looked_at = None;
    for line in text.lines() {
        if let Some(title) = line.strip_suffix(':').filter(|title| !title.contains(' ')) {
            part = title;
        } else if let Some(name) = line.strip_prefix("  - scenario: ") {
            looked_at = Some(name);
        } else if let Some(name) = line.strip_prefix("  - ") {
            found.extend((part == "server").then(|| name.to_owned()));
        } else if line.trim() == "leg: server" {
            found.extend(looked_at.map(str::to_owned));
        }
    }
    found
}

/// The server of the example. Ends with its standard input.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(program: &Path) -> Result<Self, Failure> {
        let mut command = process::command(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context(program.display())?;
        let mut url = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout)
                .read_line(&mut url)
                .context("the address of the judged server")?;
        }
        let server = Server {
            child,
            url: url.trim().to_owned(),
        };
        if server.url.starts_with("http://127.0.0.1:") {
            Ok(server)
        } else {
            Err(Failure::new("the judged server did not start"))
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_found_in_the_name_of_its_result() {
        assert_eq!(
            scenario("server-ping-2026-11-21T21-18-22-584Z"),
            Some("ping")
        );
        let long = "server-server-stateless-2026-11-21T21-18-22-584Z";
        assert_eq!(scenario(long), Some("server-stateless"));
        assert_eq!(scenario("server-ping"), None);
        assert_eq!(scenario("x"), None);
    }

    #[test]
    fn the_suite_says_what_it_requires() {
        let text = "\
revision: 2026-07-28

server:
  - ping
  - tools-list

client:
  - tools_call

not_scored:
  - scenario: auth/jwt
    leg: client
    reason: extension
  - scenario: tasks
    leg: server
    reason: extension
";
        assert_eq!(named(text), ["ping", "tools-list", "tasks"]);
    }
}
