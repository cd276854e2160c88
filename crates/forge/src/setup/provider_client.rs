//! Models behind HTTP as the configuration names them: the one place where its providers become
//! connections.

use std::sync::Arc;

use forge_runtime::{Model, ProviderKey, RetryingModel};
use sandbox_config::{Project, ProviderSettings, UnknownProvider};

use crate::exit::CliError;
use crate::setup::keys::ApiKeys;

/// The model of a name, `provider:model`, with its key, tried again as the provider says.
pub(crate) fn model(
    named: &str,
    project: &Project,
    keys: &mut ApiKeys<'_>,
) -> Result<Arc<dyn Model>, CliError> {
    let (provider, model) = find(project, named)?;
    let key = keys.of(provider)?;
    let connected = provider_of(provider, model, key, provider.streams())?
        .model(model)
        .map_err(|error| unusable(provider, &error))?;
    let total_ms = provider.retry_s().saturating_mul(1_000);
    Ok(Arc::new(RetryingModel::new(Arc::new(connected), total_ms)))
}

/// The provider that a model's name begins with, and the rest of the name.
pub(crate) fn find<'p, 'm>(
    project: &'p Project,
    named: &'m str,
) -> Result<(&'p ProviderSettings, &'m str), CliError> {
    project
        .provider_of(named)
        .map_err(|unknown: UnknownProvider| {
            CliError::misuse("model.unknown", unknown.to_string()).hint(unknown.help())
        })
}

/// Returns a provider with the known properties of one of its models.
pub(crate) fn provider_of(
    provider: &ProviderSettings,
    model: &str,
    key: Option<ProviderKey>,
    stream: bool,
) -> Result<forge_runtime::ProviderEndpoint, CliError> {
    let max_tokens = provider.max_tokens(model);
    let mut made = forge_runtime::ProviderEndpoint::new(
        provider.name(),
        provider.wire(),
        provider.base_url(),
        max_tokens,
    )
    .map_err(|error| unusable(provider, &error))?
    .stream(stream);
    if let Some(key) = key {
        made = made.key(key);
    }
    if let Some(tokens) = provider.context_tokens(model) {
        made = made.context_tokens(tokens);
    }
    if let Some(prices) = provider.prices(model) {
        made = made.prices(prices);
    }
    Ok(made)
}

pub(crate) fn unusable(
    provider: &ProviderSettings,
    error: &forge_runtime::ProviderError,
) -> CliError {
    CliError::misuse(
        "model.unknown",
        format!("the provider `{}` cannot be used: {error}", provider.name()),
    )
}
