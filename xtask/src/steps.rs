//! A run of several steps that goes on after a failure and ends with a table: what ran, what
//! was skipped and why.

use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::table::Table;

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// Passed, with parts that could not be tried here.
    Partly(String),
    Failed(String),
    Skipped(String),
}

impl From<Result<(), Failure>> for Outcome {
    fn from(result: Result<(), Failure>) -> Self {
        match result {
            Ok(()) => Outcome::Passed,
            Err(failure) => Outcome::Failed(failure.to_string()),
        }
    }
}

/// The name of a step, and its work, which returns what it would print.
pub(crate) type Beside<'w> = (
    &'static str,
    Box<dyn FnOnce() -> (Outcome, String) + Send + 'w>,
);

/// The steps so far.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Steps {
    done: Vec<(String, Outcome, Duration)>,
}

impl Steps {
    /// Does `work` and remembers how it ended.
    pub(crate) fn run<O: Into<Outcome>>(&mut self, name: &str, work: impl FnOnce() -> O) {
        println!("== {name}");
        // What the step's programs write goes past our buffer.
        let _ = std::io::stdout().flush();
        let start = Instant::now();
        let outcome = work().into();
        self.ended(name, outcome, start.elapsed());
    }

    /// Does the works of each of `lanes` as [`Steps::run`] does, one after the other, while `beside` and
    /// the other lanes run. What they print is shown afterwards, so that the output of two steps is not
    /// mixed.
    pub(crate) fn run_beside(
        &mut self,
        lanes: Vec<Vec<Beside<'_>>>,
        beside: impl FnOnce(&mut Steps),
    ) {
        let names = |lane: &[Beside<'_>]| {
            let names: Vec<&str> = lane.iter().map(|(name, _)| *name).collect();
            names.join(", ")
        };
        let names: Vec<String> = lanes.iter().map(|lane| names(lane)).collect();
        println!("== {}: beside the next steps", names.join(", "));
        let done = thread::scope(|scope| {
            let timed = |(name, work): Beside<'_>| {
                let start = Instant::now();
                let (outcome, shown) = work();
                (name.to_owned(), outcome, shown, start.elapsed())
            };
            let working = lanes
                .into_iter()
                .map(|lane| scope.spawn(move || lane.into_iter().map(timed).collect::<Vec<_>>()));
            let working: Vec<_> = working.collect();
            beside(self);
            let ended = working.into_iter().map(|lane| lane.join());
            ended.collect::<Vec<_>>()
        });
        for (lane, names) in done.into_iter().zip(names) {
            let Ok(lane) = lane else {
                let outcome = Outcome::Failed("its thread panicked".into());
                self.ended(&names, outcome, Duration::ZERO);
                continue;
            };
            for (name, outcome, shown, time) in lane {
                print!("== {name}\n{shown}");
                self.ended(&name, outcome, time);
            }
        }
    }

    fn ended(&mut self, name: &str, outcome: Outcome, time: Duration) {
        if let Outcome::Failed(why) = &outcome {
            println!("FAILED {name}: {}", head(why));
        }
        self.done.push((name.to_owned(), outcome, time));
    }

    /// Prints what the failed steps said, since their output is far above, and the closing table; any
    /// failed step is a failure of the whole.
    pub(crate) fn close(self) -> Result<(), Failure> {
        for (name, outcome, _) in &self.done {
            if let Outcome::Failed(why) = outcome {
                println!("\nFAILED {name}: {why}");
            }
        }
        println!("\n{}", self.table());
        let failed: Vec<&str> = self
            .done
            .iter()
            .filter(|(_, outcome, _)| matches!(outcome, Outcome::Failed(_)))
            .map(|(name, ..)| name.as_str())
            .collect();
        if failed.is_empty() {
            Ok(())
        } else {
            Err(Failure::new(format!("failed: {}", failed.join(", "))))
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new(["step", "result", "time", "why"]);
        for (name, outcome, time) in &self.done {
            let (word, why) = match outcome {
                Outcome::Passed => ("ok", ""),
                Outcome::Partly(why) => ("ok, in part", why.as_str()),
                Outcome::Failed(why) => ("FAILED", why.as_str()),
                Outcome::Skipped(why) => ("skipped", why.as_str()),
            };
            table.row([
                name.clone(),
                word.to_owned(),
                format!("{:.1} s", time.as_secs_f64()),
                head(why).to_owned(),
            ]);
        }
        table
    }
}

fn head(why: &str) -> &str {
    why.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(outcomes: &[(&str, Outcome)]) -> Steps {
        Steps {
            done: outcomes
                .iter()
                .map(|(name, outcome)| {
                    (
                        (*name).to_owned(),
                        outcome.clone(),
                        Duration::from_millis(1_250),
                    )
                })
                .collect(),
        }
    }

    #[test]
    fn the_closing_table_says_what_was_skipped_and_why() {
        let steps = steps(&[
            ("fmt", Outcome::Passed),
            ("test-os", Outcome::Partly("root: not root".into())),
            ("docs", Outcome::Failed("one\ntwo".into())),
            ("deny", Outcome::Skipped("no cargo-deny".into())),
        ]);
        let expected = "\
step     result       time   why
fmt      ok           1.2 s
test-os  ok, in part  1.2 s  root: not root
docs     FAILED       1.2 s  one
deny     skipped      1.2 s  no cargo-deny
";
        assert_eq!(steps.table().to_string(), expected);
    }

    #[test]
    fn one_failed_step_fails_the_whole_and_is_named() {
        let steps = steps(&[
            ("fmt", Outcome::Passed),
            ("docs", Outcome::Failed("x".into())),
        ]);
        assert_eq!(
            steps.close().expect_err("docs failed").to_string(),
            "failed: docs"
        );
    }

    #[test]
    fn skipped_and_partial_steps_do_not_fail() {
        let steps = steps(&[
            ("a", Outcome::Skipped("x".into())),
            ("b", Outcome::Partly("y".into())),
        ]);
        assert!(steps.close().is_ok());
    }

    #[test]
    fn a_step_beside_others_is_told_with_them() {
        let mut steps = Steps::default();
        let failed = || (Outcome::Failed("no".into()), String::new());
        let passed = || (Outcome::Passed, String::new());
        steps.run_beside(
            vec![
                vec![("slow", Box::new(failed)), ("next", Box::new(passed))],
                vec![("other", Box::new(passed))],
            ],
            |steps| steps.run("quick", || Outcome::Passed),
        );
        let told: Vec<_> = steps.done.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(told, ["quick", "slow", "next", "other"]);
        let failure = steps.close().expect_err("the slow one failed");
        assert_eq!(failure.to_string(), "failed: slow");
    }

    #[test]
    fn a_failure_does_not_stop_the_next_step() {
        let mut steps = Steps::default();
        steps.run("first", || Outcome::Failed("no".into()));
        let mut ran = false;
        steps.run("second", || {
            ran = true;
            Outcome::Passed
        });
        assert!(ran);
    }
}
