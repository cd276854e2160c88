//! `--review` where the kernel has no overlayfs.

pub(super) use std::convert::{Infallible as ReviewedChanges, Infallible as ReviewedRun};

use std::path::Path;

use os_sandbox::Policy;
use sandbox_config::Project;

use super::ExecLog;
use crate::ambient::Ambient;
use crate::cli::Global;
use crate::exit::{CliError, ExitKind};

pub(super) fn prepare(
    _policy: Policy,
    _project: &Project,
    _is_of_presets: impl Fn(&Path) -> bool,
    _log: &ExecLog,
    _ambient: &Ambient,
) -> Result<(Policy, Option<ReviewedRun>), CliError> {
    Err(CliError::new(
        ExitKind::ExecRefused,
        "isolation.unavailable",
        "--review needs the overlayfs of Linux",
    ))
}

pub(super) fn started(run: &mut ReviewedRun) {
    match *run {}
}

pub(super) fn end(run: ReviewedRun) -> Result<ReviewedChanges, CliError> {
    match run {}
}

pub(super) fn facts(changes: &ReviewedChanges) -> (&str, usize) {
    match *changes {}
}

pub(super) fn print(changes: &ReviewedChanges, _lines: Option<u16>) {
    match *changes {}
}

pub(super) fn print_foreign(changes: &ReviewedChanges) {
    match *changes {}
}

pub(super) fn ask(
    _global: &Global,
    _ambient: &Ambient,
    changes: &ReviewedChanges,
) -> Result<(), CliError> {
    match *changes {}
}
