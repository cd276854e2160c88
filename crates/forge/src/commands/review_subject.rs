//! The command or run under review.

use sandbox_config::{Project, RunLimits};

/// The facts for the list of reviews.
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "reviews work on Linux only")
)]
pub(crate) struct ReviewSubject<'a> {
    /// The name of the run.
    pub(crate) run: String,
    pub(crate) project: &'a Project,
    /// The command, without secrets.
    pub(crate) command: Vec<String>,
    pub(crate) limits: RunLimits,
}
