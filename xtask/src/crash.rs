//! `cargo xtask crash`: the test that kills runs and goes on with them, with many kills.

use crate::counted::Counted;

pub(crate) const ABOUT: &str =
    "`forge run` killed at random moments, and gone on with until it is through (--kills N)";

pub(crate) const TEST: Counted = Counted {
    cargo: &["--package", "forge", "--test", "it"],
    test: "confined::crash::a_run_that_is_killed_goes_on",
    mark: "crash",
    columns: &["what", "how often"],
    flag: "--kills",
    times: 200,
    variable: "FORGE_TEST_KILLS",
    nothing: "nothing was killed: the test is for Linux",
    held: "every promise held",
};
