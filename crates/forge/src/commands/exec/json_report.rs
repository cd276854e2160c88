//! The receipt as JSON, and the object of `forge exec --json`.

use os_sandbox::{Captured, Enforcement, Limits, Plan, Stream};

use crate::commands::prelude::*;
use crate::setup::presets::ActivePresets;

/// Returns the receipt as text.
pub(super) fn as_text(
    enforcement: &Enforcement,
    presets: Option<&ActivePresets>,
    plan: &Plan,
    review: Option<&Value>,
) -> String {
    serde_json::to_string_pretty(&as_json(enforcement, presets, plan, review)).unwrap_or_default()
}

/// Returns the receipt, with the presets that were used and the plan of the review.
pub(super) fn as_json(
    enforcement: &Enforcement,
    presets: Option<&ActivePresets>,
    plan: &Plan,
    review: Option<&Value>,
) -> Value {
    // It has no maps with keys other than strings, and no numbers outside JSON.
    let mut receipt = serde_json::to_value(enforcement).unwrap_or_default();
    if let Some(presets) = presets {
        receipt["presets"] = presets.to_json(plan);
    }
    if let Some(review) = review {
        receipt["review"] = review.clone();
    }
    receipt
}

/// The output of a command for `--json`: the beginning and the end of each stream.
pub(super) struct CapturedOutput {
    stdout: Captured,
    stderr: Captured,
}

impl CapturedOutput {
    pub(super) fn new(limits: &Limits) -> CapturedOutput {
        CapturedOutput {
            stdout: Captured::new(limits.stdout_bytes),
            stderr: Captured::new(limits.stderr_bytes),
        }
    }

    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => self.stdout.push(bytes),
            Stream::Stderr => self.stderr.push(bytes),
        }
    }
}

/// Prints the facts behind the exit code, so that the source of a 125 is known, and the output of
/// the command.
pub(super) fn report(
    exit: &os_sandbox::Exit,
    exceeded: Option<String>,
    printed: &CapturedOutput,
    enforcement: Value,
    review: Option<Value>,
) -> Result<(), CliError> {
    let (kind, number) = match exit {
        os_sandbox::Exit::Code(code) => ("exit", Some(*code)),
        os_sandbox::Exit::Signal(signal) => ("signal", Some(*signal)),
        os_sandbox::Exit::TimedOut => ("time_limit", None),
    };
    let stream = |captured: &Captured| {
        json!({
            "text": captured.text(),
            "bytes": captured.total_bytes(),
            "truncated": captured.truncated(),
        })
    };
    let mut object = json!({
        "ended": kind,
        "number": number,
        "exceeded": exceeded,
        "stdout": stream(&printed.stdout),
        "stderr": stream(&printed.stderr),
        "enforcement": enforcement,
    });
    if let Some(review) = review {
        object["review"] = review;
    }
    print_json(&object)
}
