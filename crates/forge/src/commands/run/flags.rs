//! Flags of `forge run` that are configuration: each is read as `-c KEY=VALUE` is, so that the
//! person's own file stays above it and a mistake in it has its place.

use std::path::Path;

use sandbox_config::Worker;

use super::attach::NamedFiles;
use crate::cli::RunArgs;
use crate::commands::prelude::*;
use crate::setup::target::run_target;

/// Returns the surroundings with the global flags extended by the flags of this run.
pub(super) fn applied(args: &RunArgs, ambient: &Ambient) -> Result<Ambient, CliError> {
    let mut ambient = ambient.clone();
    let limits = args.limits.given();
    ambient
        .global
        .set
        .extend(limits.map(|(key, _, value)| format!("{key}={value}")));
    if let Some(url) = &args.base_url {
        let provider = provider(args, &ambient)?;
        let url = serde_json::json!(url);
        let setting = format!("providers.{provider}.base_url={url}");
        ambient.global.set.push(setting);
    }
    Ok(ambient)
}

/// Returns the provider whose endpoint `--base-url` is.
fn provider(args: &RunArgs, ambient: &Ambient) -> Result<String, CliError> {
    if args.replay.is_some() {
        return Err(CliError::usage("--base-url: a playbook has no address"));
    }
    let typed = args.model.as_deref().or_else(|| ambient.var("FORGE_MODEL"));
    let model = match typed {
        Some(model) => Some(model.to_owned()),
        None => {
            let mut silent = ambient.clone();
            silent.global.quiet = true;
            let chosen = run_target(args, &silent)?;
            let own = chosen.worker.model().map(str::to_owned);
            own.or_else(|| chosen.project.model().map(str::to_owned))
        }
    };
    let provider = model
        .as_deref()
        .and_then(|model| model.split_once(':'))
        .map(|(provider, _)| provider);
    match provider {
        Some("scripted") => Err(CliError::usage("--base-url: a playbook has no address")),
        Some(provider) => Ok(provider.to_owned()),
        None => Err(CliError::usage(
            "--base-url: no model names a provider; pass --model provider:model",
        )),
    }
}

/// A schema above this is refused when it is looked at; no need to read more.
const MAX_SCHEMA_BYTES: u64 = 1024 * 1024;

/// Returns the schema of `--json-schema`, or the one of the resumed run.
pub(super) fn answer_schema(
    worker: &Worker,
    flag: Option<&Path>,
    kept: Option<&Value>,
    files: &mut NamedFiles<'_>,
) -> Result<Option<Value>, CliError> {
    let unfit = |message: String| CliError::misuse("run.schema", message);
    let (schema, shown) = match (flag, kept) {
        (None, None) => return Ok(None),
        (None, Some(kept)) => (kept.clone(), "what the run keeps".to_owned()),
        (Some(file), _) => {
            let shown = file.display().to_string();
            let text = files.read_text(file, MAX_SCHEMA_BYTES, "run.schema")?;
            let schema: Value = serde_json::from_str(&text).map_err(|error| {
                let failure = unfit(format!("{shown} is not JSON: {error}"));
                failure.at(file, error.line(), error.column())
            })?;
            (schema, shown)
        }
    };
    worker
        .clone()
        .answering(schema.clone(), forge_runtime::schema_mistakes)
        .map(|_| Some(schema))
        .map_err(|mistakes| {
            let list: Vec<String> = mistakes
                .iter()
                .map(|one| match one.at.as_str() {
                    "" => one.problem.clone(),
                    at => format!("at {at}: {}", one.problem),
                })
                .collect();
            unfit(format!("{shown} is not a JSON Schema: {}", list.join("; ")))
        })
}
