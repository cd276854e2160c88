//! What a review costs: the start of a command in an overlay, a build in one, and the list of changes.

use std::error::Error;
use std::fs;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

use forge_review::{
    FileDiff, LayerLimits, NewMount, OpenReview, ReviewDir, ReviewLimits, RunInfo, open_host_dir,
};

use crate::compare::{Measure, Outcome, median};

const DIRECTORIES: usize = 1_000;
const FILES_EACH: usize = 100;
const CHANGED: usize = 1_000;
const ROUNDS: usize = 5;

const LIST_MS: f64 = 500.0;

pub(crate) fn measures() -> Result<Vec<Measure>, Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let (lower, reviews) = (scratch.path().join("lower"), scratch.path().join("reviews"));
    fs::create_dir(&reviews)?;
    for directory in 0..DIRECTORIES {
        let directory = lower.join(format!("d{directory}"));
        fs::create_dir_all(&directory)?;
        for file in 0..FILES_EACH {
            fs::write(directory.join(format!("f{file}")), text("old"))?;
        }
    }
    let took = listed_and_compared(&lower, &reviews)?;
    Ok(vec![Measure {
        name: "review, 1 000 changes among 100 000 files listed and compared",
        outcome: Outcome::Amount {
            got: took.as_secs_f64() * 1e3,
            unit: "ms",
            of: "after the command",
            target: LIST_MS,
        },
    }])
}

fn text(first: &str) -> String {
    format!("{first}\n{}", "a line of some text\n".repeat(200))
}

fn listed_and_compared(lower: &Path, reviews: &Path) -> Result<Duration, Box<dyn Error>> {
    let handle = open_host_dir(lower)?;
    let about = RunInfo {
        run: "run-1".to_owned(),
        project: lower.to_owned(),
        command: Vec::new(),
        at_ms: 0,
    };
    let mount = NewMount {
        name: "project",
        lower: handle.as_fd(),
        host: lower,
        copy: false,
        protected: &[],
    };
    let parent = open_host_dir(reviews)?;
    let mut dir = ReviewDir::create(parent.as_fd(), &about, &[mount], &LayerLimits::default())?;
    let upper = reviews.join("run-1/mounts/project/upper");
    for n in 0..CHANGED {
        let directory = upper.join(format!("d{n}"));
        fs::create_dir(&directory)?;
        fs::write(directory.join("f7"), text("new"))?;
    }
    let lowers = || open_host_dir(lower).map(|lower| vec![Some(lower)]);
    let mut listed = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        dir.record(&lowers()?, &|_, _| None, &ReviewLimits::default())?;
        listed.push(begun.elapsed());
    }
    let (review, _) = OpenReview::new(dir, lowers()?)?;
    let begun = Instant::now();
    let mut compared = 0;
    for (mount, change) in review.review().changes() {
        let diff = review.diff(mount, change)?;
        compared += usize::from(matches!(diff, FileDiff::Text(hunks) if hunks.len() == 1));
    }
    let took = begun.elapsed();
    match compared == CHANGED {
        true => Ok(median(listed) + took),
        false => Err(format!("{compared} differences, not {CHANGED}").into()),
    }
}
