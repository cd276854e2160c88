//! How much of a long test runs. `cargo test` and `cargo xtask test` run a fixed sample of loops and
//! matrices that take long; with the variable [`FULL`], which `cargo xtask test --full` sets, they
//! run whole. The repetitions that are left out are noted in the file that [`NOTES`] names, and printed otherwise.
//!
//! ```
//! // A property test: 32 cases, or 256 in a full run.
//! let cases = test_sample::count("path::any_text", 32, 256);
//! assert!(cases == 32 || cases == 256);
//! ```
#![expect(clippy::print_stdout, reason = "the output of a test")]

use std::fs::OpenOptions;
use std::io::Write as _;

/// The variable that asks for whole tests.
pub const FULL: &str = "FORGE_TEST_FULL";

/// The variable with the file that gets a line for each sample: name, taken, whole; with tabs between.
pub const NOTES: &str = "FORGE_TEST_SAMPLED";

/// Returns `true` if whole tests are asked for.
pub fn is_full() -> bool {
    std::env::var_os(FULL).is_some()
}

/// Returns how often the test `name` repeats its work: `sample`, or `whole` in a full run.
pub fn count<N: Copy + PartialEq + std::fmt::Display>(name: &str, sample: N, whole: N) -> N {
    if is_full() {
        return whole;
    }
    if sample != whole {
        note(name, &sample, &whole);
    }
    sample
}

/// Returns the cases of the test `name` that are in the sample, or all of them in a full run. `keep`
/// gets the index of each case.
pub fn cases<T>(name: &str, cases: Vec<T>, keep: impl Fn(usize, &T) -> bool) -> Vec<T> {
    if is_full() {
        return cases;
    }
    let whole = cases.len();
    let indexed = cases.into_iter().enumerate();
    let sample: Vec<T> = indexed
        .filter_map(|(index, case)| keep(index, &case).then_some(case))
        .collect();
    assert!(!sample.is_empty(), "{name}: the sample is empty");
    if sample.len() < whole {
        note(name, &sample.len(), &whole);
    }
    sample
}

/// A process of another user may not be able to write the file, then the line is printed.
fn note(name: &str, sample: &dyn std::fmt::Display, whole: &dyn std::fmt::Display) {
    let file = std::env::var_os(NOTES).and_then(|path| {
        let mut options = OpenOptions::new();
        options.append(true).create(true).open(path).ok()
    });
    // One write: other tests append at the same time.
    let line = format!("{name}\t{sample}\t{whole}\n");
    let written = file.is_some_and(|mut file| file.write_all(line.as_bytes()).is_ok());
    if !written {
        println!("sampled: {name}: {sample} of {whole} ({FULL})");
    }
}
