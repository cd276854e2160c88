//! Repetitions that a run of the tests left out: the crate `test-sample` takes samples of long loops and matrices
//! and notes each one, and the closing table of `cargo xtask test` sums the notes up.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::failure::Failure;
use crate::scratch::Scratch;
use crate::steps::Outcome;
use crate::table::Table;

/// Asks tests to leave nothing out.
const FULL: &str = "FORGE_TEST_FULL";

/// Where tests note their samples.
const NOTES: &str = "FORGE_TEST_SAMPLED";

/// How much of long tests runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Sample,
    Full,
}

impl Extent {
    /// `--full`, or the variable that tests read.
    pub(crate) fn of(full: bool) -> Extent {
        match full || std::env::var_os(FULL).is_some() {
            true => Extent::Full,
            false => Extent::Sample,
        }
    }

    /// Says it to the tests that `command` starts.
    pub(crate) fn tell(self, command: &mut Command) {
        match self {
            Extent::Full => command.env(FULL, "1"),
            Extent::Sample => command.env_remove(FULL),
        };
    }
}

/// The notes of one run.
pub(crate) struct Notes(Scratch);

impl Notes {
    pub(crate) fn new() -> Result<Self, Failure> {
        Scratch::new().map(Notes)
    }

    pub(crate) fn tell(&self, command: &mut Command) {
        command.env(NOTES, self.0.file("notes"));
    }

    /// Lists the samples and returns how the step ended.
    pub(crate) fn close(self, result: Result<(), Failure>) -> Outcome {
        // Without a sample there is no file.
        let text = fs::read_to_string(self.0.file("notes")).unwrap_or_default();
        let sum = shown(&text);
        match (result, sum) {
            (Ok(()), Some(sum)) => Outcome::Partly(sum),
            (result, _) => result.into(),
        }
    }
}

fn shown(text: &str) -> Option<String> {
    // A test that starts itself again notes the same twice.
    let samples: BTreeMap<&str, (&str, &str)> = text
        .lines()
        .filter_map(|line| {
            let (name, counts) = line.split_once('\t')?;
            Some((name, counts.split_once('\t')?))
        })
        .collect();
    let mut table = Table::new(["sampled", "run", "of"]);
    let (mut run, mut whole) = (0, 0);
    for (name, (sample, all)) in &samples {
        run += sample.parse().unwrap_or(0_u64);
        whole += all.parse().unwrap_or(0_u64);
        table.row([*name, sample, all].map(str::to_owned));
    }
    if samples.is_empty() {
        return None;
    }
    println!("\n{table}");
    let count = samples.len();
    Some(format!(
        "sampled: {run} of {whole} repetitions of {count} tests; `--full` runs all"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_up_once_each() {
        let notes = "race\t300\t1000\nrights\t50\t1500\nrace\t300\t1000\n";
        let sum = shown(notes);
        let expected = "sampled: 350 of 2500 repetitions of 2 tests; `--full` runs all";
        assert_eq!(sum.as_deref(), Some(expected));
        assert_eq!(shown(""), None);
    }
}
