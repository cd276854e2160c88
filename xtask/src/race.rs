//! `cargo xtask race`: the race test of file-sandbox, built for release, with many attempts.

use crate::counted::Counted;

pub(crate) const ABOUT: &str =
    "file-sandbox while links and directories are exchanged (--attempts N, for each operation)";

pub(crate) const TEST: Counted = Counted {
    cargo: &["--release", "--package", "file-sandbox", "--test", "it"],
    test: "race::nothing_comes_out_on_any_resolver",
    mark: "race",
    columns: &["resolver", "operation", "attempts", "worked", "exchanges"],
    flag: "--attempts",
    times: 100_000,
    variable: "FILE_SANDBOX_RACE_ATTEMPTS",
    nothing: "no race ran: the test is for Linux",
    held: "no escape",
};
