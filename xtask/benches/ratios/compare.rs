//! Variants that take turns, and the ratio of their medians.

use std::error::Error;
use std::time::{Duration, Instant};

/// What is done; an error ends the bench, since a failing call measures nothing.
pub(crate) type Work<'a> = Box<dyn FnMut() -> Result<(), Box<dyn Error>> + 'a>;

/// The median times of one run of each piece of `work`: `rounds` rounds, in each of which every
/// piece runs `batch` times in a row. Who begins changes from round to round.
pub(crate) fn medians<const N: usize>(
    rounds: usize,
    batch: u32,
    mut work: [Work<'_>; N],
) -> Result<[Duration; N], Box<dyn Error>> {
    let mut times: [Vec<Duration>; N] = std::array::from_fn(|_| Vec::with_capacity(rounds));
    // The first round warms caches and is thrown away.
    for round in 0..=rounds {
        for turn in 0..N {
            let at = (round + turn) % N;
            let start = Instant::now();
            for _ in 0..batch {
                (work[at])()?;
            }
            if round > 0 {
                times[at].push(start.elapsed() / batch);
            }
        }
    }
    Ok(times.map(median))
}

pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// One line of the table.
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) outcome: Outcome,
}

pub(crate) enum Outcome {
    Ratio {
        ours: Duration,
        other: Duration,
        other_name: &'static str,
        target: Option<f64>,
    },
    /// Something else than time.
    Amount {
        got: f64,
        unit: &'static str,
        of: &'static str,
        target: f64,
    },
    /// The same, held against somebody else's.
    Sizes {
        ours: f64,
        other: f64,
        unit: &'static str,
        other_name: &'static str,
        target: f64,
    },
    NotHere(String),
}

impl Measure {
    /// As a row: the measure, its median, what it is compared with, ratio and target.
    pub(crate) fn cells(&self) -> [String; 7] {
        match &self.outcome {
            Outcome::NotHere(why) => {
                let mut cells = [const { String::new() }; 7];
                cells[0] = self.name.to_owned();
                cells[6] = format!("not measured: {why}");
                cells
            }
            Outcome::Amount {
                got,
                unit,
                of,
                target,
            } => [
                self.name.to_owned(),
                format!("{got:.1} {unit}"),
                (*of).to_owned(),
                String::new(),
                String::new(),
                format!("<= {target} {unit}"),
                (if got <= target { "ok" } else { "ABOVE" }).to_owned(),
            ],
            Outcome::Sizes {
                ours,
                other,
                unit,
                other_name,
                target,
            } => {
                let ratio = ours / other;
                [
                    self.name.to_owned(),
                    format!("{ours:.1} {unit}"),
                    (*other_name).to_owned(),
                    format!("{other:.1} {unit}"),
                    format!("{ratio:.2}"),
                    format!("<= {target}"),
                    (if ratio <= *target { "ok" } else { "ABOVE" }).to_owned(),
                ]
            }
            Outcome::Ratio {
                ours,
                other,
                other_name,
                target,
            } => {
                let ratio = ours.as_secs_f64() / other.as_secs_f64();
                let (target, verdict) = match target {
                    None => (String::new(), ""),
                    Some(target) if ratio <= *target => (format!("<= {target}"), "ok"),
                    Some(target) => (format!("<= {target}"), "ABOVE"),
                };
                [
                    self.name.to_owned(),
                    format!("{ours:.1?}"),
                    (*other_name).to_owned(),
                    format!("{other:.1?}"),
                    format!("{ratio:.2}"),
                    target,
                    verdict.to_owned(),
                ]
            }
        }
    }
}
