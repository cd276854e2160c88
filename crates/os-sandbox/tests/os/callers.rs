//! Callers that were started strangely: what they ignore and what their umask is must neither stop
//! them from confining nor reach the command.

use crate::fixture::{Mechanism, mechanisms, probe_program};
use crate::report::Report;
use os_sandbox::{Command, Policy};
use std::process::ExitCode;

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    for (name, before) in [
        ("signals ignored", "trap '' CHLD XFSZ USR1 ALRM QUIT"),
        ("a umask that takes everything", "umask 0777"),
        ("closed streams", "exec <&- 2>&-"),
    ] {
        report.case(&format!("caller: {name}"), one(mechanism, before));
    }
}

fn one(mechanism: Mechanism, before: &str) -> Result<(), String> {
    let output = std::process::Command::new("sh")
        .args(["-c", &format!("{before}; exec \"$0\" \"$@\"")])
        .arg(probe_program())
        .args(["--caller", mechanism.name()])
        .output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout);
    // The C library keeps 32 and 33 to itself, and whoever runs these tests may ignore SIGHUP.
    let kept = said.lines().next().and_then(|line| {
        let mask = u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok()?;
        Some(mask & !(1 << 31 | 1 << 32 | 1))
    });
    match (kept, said.lines().nth(1)) {
        (Some(0), Some("written")) => Ok(()),
        _ => Err(format!("{output:?}")),
    }
}

/// The caller itself.
pub(crate) fn main(args: &[String]) -> ExitCode {
    let mechanism = mechanisms()
        .into_iter()
        .find(|one| args.first().is_some_and(|name| name == one.name()))
        .expect("a mechanism of this host");
    let policy = Policy::builder().build().expect("a policy");
    let script = "grep SigIgn /proc/self/status; umask 022; echo written > $HOME/x && cat $HOME/x";
    let output = Command::new(&mechanism.plan(&policy), "sh")
        .args(["-c", script])
        .output()
        .expect("an end");
    println!("{}", output.stdout.text());
    ExitCode::SUCCESS
}
