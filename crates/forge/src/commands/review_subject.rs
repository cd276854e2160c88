//! The command or run under review.

use sandbox_config::{Project, RunLimits};

/// Hint about a command for which no overlay can be mounted.
pub(crate) const IN_A_COPY: &str = "or make the changes in a copy of the project: --review=copy";

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
