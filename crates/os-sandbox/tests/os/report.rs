//! What became of each case: on standard output, and as JSON Lines for whoever asks.

use crate::fixture::Mechanism;
use os_sandbox::Support;
use std::io::Write;

/// The outcomes of one set of cases.
pub(crate) struct Report {
    mechanism: Mechanism,
    failures: usize,
}

impl Report {
    pub(crate) fn new(mechanism: Mechanism) -> Report {
        Report {
            mechanism,
            failures: 0,
        }
    }

    pub(crate) fn failures(&self) -> usize {
        self.failures
    }

    /// `Ok` passed, `Err` says what was seen instead.
    pub(crate) fn case(&mut self, name: &str, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.line(name, "pass", ""),
            Err(seen) => {
                self.failures += 1;
                println!("  {}: {name}: {seen}", self.mechanism.name());
                self.line(name, "fail", &seen);
            }
        }
    }

    /// A case that this host cannot even pose, such as a program that is not installed.
    pub(crate) fn skip(&mut self, name: &str, reason: &str) {
        println!("  {}: {name}: skipped: {reason}", self.mechanism.name());
        self.line(name, "skip", reason);
    }

    /// A case that this host cannot pose for a reason that is not the mechanism's: a program is
    /// not installed, or only root could set it up.
    pub(crate) fn not_posed(&mut self, name: &str, reason: &str) {
        println!("  {name}: not posed: {reason}");
        self.line(name, "not posed", reason);
    }

    fn line(&self, case: &str, outcome: &str, reason: &str) {
        let case = match self.mechanism {
            Mechanism::Namespaces | Mechanism::Bubblewrap | Mechanism::Landlock => case.to_owned(),
            Mechanism::NamespacesAlone | Mechanism::BubblewrapAlone => {
                format!("without landlock: {case}")
            }
            Mechanism::BubblewrapByPath => format!("pins by path: {case}"),
            #[cfg(feature = "birdcage")]
            Mechanism::Birdcage => case.to_owned(),
            #[cfg(feature = "birdcage")]
            Mechanism::BirdcageAlone => format!("without landlock: {case}"),
        };
        append(&serde_json::json!({
            "mechanism": self.mechanism.family(),
            "case": case,
            "outcome": outcome,
            "reason": reason,
        }));
    }
}

/// Detection itself: what is missing here is told, with a reason.
pub(crate) fn support() -> usize {
    let support = Support::detect_fresh();
    let text = support.to_string();
    print!("{text}");
    // A pin that does not hold is a mistake of ours, whatever is used in its place.
    let mut failures = usize::from(text.contains("it could"));
    for (what, reason, _) in support.missing() {
        // Parts that limits are made of are not mechanisms with cases of their own.
        if !what.ends_with("cgroup") {
            append(&serde_json::json!({
                "mechanism": what, "case": "all", "outcome": "skip", "reason": reason,
            }));
        }
        if reason.is_empty() || reason.contains("it could") {
            println!("  {what}: {reason}");
            failures += 1;
        }
    }
    failures
}

fn append(line: &serde_json::Value) {
    let Some(path) = std::env::var_os("FORGE_TEST_OS_REPORT") else {
        return;
    };
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .expect("the report can be written");
    writeln!(file, "{line}").expect("the report can be written");
}
