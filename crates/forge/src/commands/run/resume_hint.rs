//! The command that resumes a run, and the setting of the limit that ended it.
//!
//! Entry points: [`describe`] and [`describe_limit`]. The printed command works as it is typed.

use forge_runtime::{ModelFailure, RunOutcome};
use sandbox_config::{DiagnosticCode, Layer, Project, WithoutDirectories};

use crate::cli::{ApproverName, LimitFlags, RunArgs};
use crate::commands::prelude::*;
use crate::output::escape::shell_word;
use crate::setup;

const COST: &str = "limits.max_cost_usd";

/// Returns the line with the command that resumes a run: with the options of its start, and others
/// in place of the limit or the model that stopped it.
pub(super) fn describe(
    run: &str,
    args: &RunArgs,
    ambient: &Ambient,
    end: Option<&RunOutcome>,
) -> String {
    let met = end.and_then(met_limit);
    let stopped_by = match end {
        // The option would stop it again.
        Some(RunOutcome::NoPrices { .. }) => Some(COST),
        _ => met.map(|(key, _)| key),
    };
    let mut resumed = ambient.clone();
    let set = &mut resumed.global.set;
    set.retain(|set| stopped_by.is_none_or(|key| set.split('=').next() != Some(key)));
    let is_changed = met.is_some() || set.len() < ambient.global.set.len();
    let mut begins = "it goes on with".to_owned();
    if let Some((key, value)) = met {
        set.push(format!("{key}={}", doubled(key, value)));
        if is_above_user_file(&resumed) {
            resumed.global.set.pop();
            begins = format!("it goes on, once `{key}` of your own file allows more, with");
        }
    }
    let mut line = format!("{begins}: forge run --resume {run}");
    line += &options(args, &resumed);
    line += if is_changed { " --accept-changes" } else { "" };
    line + end.map_or("", other_model)
}

/// Returns the options of a run that resuming does not remember.
fn options(args: &RunArgs, ambient: &Ambient) -> String {
    let (global, approval) = (&ambient.global, &args.approval);
    let config = global.config.iter().map(|file| file.to_string_lossy());
    let config = config.map(|file| ("--config", file));
    let root = global.sandbox_root.iter();
    let root = root.map(|root| ("--sandbox-root", root.into()));
    let set = global.set.iter().map(|set| ("-c", set.into()));
    let given = config.chain(root).chain(set);
    let given = given.map(|(option, value)| format!(" {option} {}", shell_word(&value)));
    let mut options: String = given.collect();
    let approver = match approval.approver {
        Some(ApproverName::Host) => " --approver host",
        Some(ApproverName::Queue) => " --approver queue",
        None => "",
    };
    options += approver;
    for (is_given, option) in [
        (global.no_config, " --no-config"),
        (global.trust, " --trust"),
        (global.no_input, " --no-input"),
        (approval.yes || approval.approve.is_some(), " --yes"),
        (approval.no_os_sandbox, " --no-os-sandbox"),
        (approval.parent_proxy, " --parent-proxy"),
    ] {
        options += if is_given { option } else { "" };
    }
    options
}

/// Returns `true` if the user's own file refuses a setting of the command line.
fn is_above_user_file(ambient: &Ambient) -> bool {
    let loaded = setup::project_silently(ambient, WithoutDirectories::DefaultZones);
    let failure = loaded.err();
    let diagnostics = failure.as_ref().and_then(|failure| failure.diagnostics());
    diagnostics.is_some_and(|all| {
        all.iter()
            .any(|one| one.is_error() && one.code() == DiagnosticCode::AboveUserFile)
    })
}

/// Returns the hint about the setting of the limit that ended a run.
pub(super) fn describe_limit(
    end: &RunOutcome,
    limits: &LimitFlags,
    project: &Project,
) -> Option<String> {
    let key = end.limit_key()?;
    let settings = project.settings().list();
    let of_user = settings.iter().find(|setting| {
        let value = match setting.value() {
            Value::Number(number) if key == COST => number.as_f64().map(|usd| (usd * 1e9) as u64),
            value => value.as_u64(),
        };
        setting.key() == key
            && setting.origin().layer() == Layer::User
            && met_limit(end).is_none_or(|(_, met)| value == Some(met))
    });
    let option = limits.given().find(|(set, ..)| *set == key);
    Some(match (of_user, option) {
        (Some(setting), _) => format!("`{key}` of your own file sets it ({})", setting.origin()),
        (None, Some((_, option, _))) => format!("pass a higher `{option}`"),
        (None, None) => format!("`{key}` sets it, in the project and the worker"),
    })
}

/// Returns the key and the value of the limit that a run met. A count of repeated calls begins anew.
fn met_limit(end: &RunOutcome) -> Option<(&'static str, u64)> {
    let value = match end {
        RunOutcome::TurnLimit { turns: met }
        | RunOutcome::CallLimit { calls: met }
        | RunOutcome::TokenLimit { tokens: met }
        | RunOutcome::WallLimit { seconds: met }
        | RunOutcome::WorkingLimit { seconds: met }
        | RunOutcome::CostLimit { nano_usd: met } => *met,
        _ => return None,
    };
    Some((end.limit_key()?, value))
}

fn doubled(key: &str, met: u64) -> String {
    let unit = if key == COST { "e-9" } else { "" };
    format!("{}{unit}", met.saturating_mul(2).max(1))
}

/// Returns the options of a run that cannot go on with its model.
fn other_model(end: &RunOutcome) -> &'static str {
    match end {
        RunOutcome::ModelFailed {
            cause: ModelFailure::Rejected,
            ..
        }
        | RunOutcome::WrongModel { .. } => " -m PROVIDER:MODEL --accept-changes",
        _ => "",
    }
}
