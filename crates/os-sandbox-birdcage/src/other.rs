//! Systems other than Linux: birdcage's part for macOS is not used.

use std::process::ExitCode;

pub(crate) fn run() -> Result<ExitCode, String> {
    Err("is used on Linux only".to_owned())
}
