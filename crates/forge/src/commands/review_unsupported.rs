//! `forge review` where the kernel has no overlayfs.

use crate::ambient::Ambient;
use crate::cli::ReviewArgs;
use crate::exit::{CliError, ExitKind};

pub(crate) fn run(_args: &ReviewArgs, _ambient: &Ambient) -> Result<ExitKind, CliError> {
    Err(CliError::new(
        ExitKind::Isolation,
        "isolation.unavailable",
        "runs with --review need the overlayfs of Linux, so no reviews exist on this system",
    ))
}
