//! The measurement itself, for the only system with overlays.

use std::error::Error;
use std::fs;
use std::os::fd::AsFd as _;
use std::time::Instant;

use forge_review::{
    FileDiff, LayerLimits, NewMount, OpenReview, ReviewDir, ReviewLimits, RunInfo, open_host_dir,
};

const DIRECTORIES: usize = 1_000;
const FILES_EACH: usize = 100;
const CHANGED: usize = 1_000;
const ROUNDS: usize = 5;

pub(super) fn run() -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let (lower, reviews) = (scratch.path().join("lower"), scratch.path().join("reviews"));
    fs::create_dir(&reviews)?;
    let text = |first: &str| format!("{first}\n{}", "a line of some text\n".repeat(200));
    for directory in 0..DIRECTORIES {
        let directory = lower.join(format!("d{directory}"));
        fs::create_dir_all(&directory)?;
        for file in 0..FILES_EACH {
            fs::write(directory.join(format!("f{file}")), text("old"))?;
        }
    }
    let reviews = open_host_dir(&reviews)?;
    let about = RunInfo {
        run: "run-1".to_owned(),
        project: lower.clone(),
        command: Vec::new(),
        at_ms: 0,
    };
    let handle = open_host_dir(&lower)?;
    let mount = NewMount {
        name: "project",
        lower: handle.as_fd(),
        host: &lower,
        copy: false,
        protected: &[],
    };
    let mut dir = ReviewDir::create(reviews.as_fd(), &about, &[mount], &LayerLimits::default())?;
    let upper = scratch.path().join("reviews/run-1/mounts/project/upper");
    for n in 0..CHANGED {
        let directory = upper.join(format!("d{n}"));
        fs::create_dir(&directory)?;
        fs::write(directory.join("f7"), text("new"))?;
    }
    let lowers = || open_host_dir(&lower).map(|lower| vec![Some(lower)]);
    let mut listed = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        dir.record(&lowers()?, &|_, _| None, &ReviewLimits::default())?;
        listed.push(begun.elapsed());
    }
    let (review, _) = OpenReview::new(dir, lowers()?)?;
    assert_eq!(review.review().changes().count(), CHANGED);
    let begun = Instant::now();
    for (mount, change) in review.review().changes() {
        assert!(matches!(review.diff(mount, change)?, FileDiff::Text(hunks) if hunks.len() == 1));
    }
    let compared = begun.elapsed();
    listed.sort();
    println!(
        "list {:?} (median of {ROUNDS}), compare {compared:?}, together at most 0.5 s",
        listed[ROUNDS / 2]
    );
    Ok(())
}
