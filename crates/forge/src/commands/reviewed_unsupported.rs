//! `--review` on systems other than Linux.

pub(crate) use std::convert::{Infallible as ReviewedChanges, Infallible as ReviewedRun};

use std::path::Path;

use os_sandbox::Policy;
use sandbox_config::Grant;

use crate::cli::ReviewLayer;
use crate::commands::prelude::*;
use crate::commands::review_subject::ReviewSubject;
use crate::signals::CommandSignals;

fn unavailable() -> CliError {
    CliError::exec_refused("isolation.unavailable", "--review works on Linux only")
}

pub(crate) fn prepare(
    _policy: Policy,
    _layer: ReviewLayer,
    _is_chosen: impl Fn(&Path) -> bool,
    _subject: ReviewSubject<'_>,
    _ambient: &Ambient,
) -> Result<(Policy, Option<ReviewedRun>), CliError> {
    Err(unavailable())
}

pub(crate) fn prepare_worker(
    grant: Grant,
    all: bool,
    _subject: ReviewSubject<'_>,
    _ambient: &Ambient,
) -> Result<(Grant, Option<ReviewedRun>), CliError> {
    if !all && !grant.mounts().any(sandbox_config::Mount::is_staged) {
        return Ok((grant, None));
    }
    Err(unavailable())
}

pub(crate) fn resume_worker(
    _grant: &Grant,
    _run: &str,
    _ambient: &Ambient,
) -> Result<(Grant, ReviewedRun), CliError> {
    Err(unavailable())
}

pub(crate) fn describe(run: &ReviewedRun) -> String {
    match *run {}
}

pub(crate) fn plan_json(run: &ReviewedRun) -> Value {
    match *run {}
}

pub(crate) fn is_overlay(run: &ReviewedRun) -> bool {
    match *run {}
}

pub(crate) fn print_start(run: &ReviewedRun) {
    match *run {}
}

pub(crate) fn started(
    run: &mut ReviewedRun,
    _stop: impl FnOnce() + Send + 'static,
) -> Result<(), CliError> {
    match *run {}
}

pub(crate) fn end(run: ReviewedRun, _goes_on: bool) -> Result<ReviewedChanges, CliError> {
    match run {}
}

pub(crate) fn exceeded(changes: &ReviewedChanges) -> Option<&str> {
    match *changes {}
}

pub(crate) fn to_json(changes: &ReviewedChanges) -> Value {
    match *changes {}
}

pub(crate) fn print_foreign(changes: &ReviewedChanges) {
    match *changes {}
}

pub(crate) fn show(
    _ambient: &Ambient,
    changes: &ReviewedChanges,
    _signals: Option<&CommandSignals>,
) {
    match *changes {}
}
