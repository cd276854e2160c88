//! The tables of keys that code reads by hand: name, shape, purpose, and `in_effect`. The
//! tables of `limits`, `docker` and `attachment_policy` are made by `section!`, beside their types in
//! `grant/`. Parser, JSON Schemas and reference page read these rows. A key without a row is a
//! mistake.

mod git;
mod network;
mod preset;
mod project;
mod provider;
mod runtime;
mod sandbox;
mod shell;
mod worker;

pub(crate) use git::{GIT, GIT_CREDENTIAL, GIT_REPOSITORY, USER_GIT_CREDENTIAL, WORKER_GIT};
pub(crate) use network::NETWORK;
pub(crate) use preset::HOLDS;
pub(crate) use preset::{
    INNER_SANDBOX, PRESET, PRESET_CREDENTIAL, PRESET_ENV, PRESET_HOSTS, PRESET_IDENTITY,
    PRESET_STATE, REGISTRY, VERIFIED,
};
pub use preset::{SeenName, StateMode};
pub(crate) use project::{APPROVAL, DELEGATION, PROJECT, USER};
pub(crate) use provider::{MODEL_FACTS, PRICE, PROVIDER, USER_PROVIDER};
pub(crate) use runtime::{EXECUTION, LOG};
pub use sandbox::UNPROTECTABLE;
pub(crate) use sandbox::{
    GIT_CONFIG, MOUNT, NAMED_PATH, QUOTA, SANDBOX, WRITTEN_FOR_GIT, ZONE, ZONE_APPROVAL,
};
pub(crate) use shell::{ENVIRONMENT, EXAMPLES, RULE, SHELL, WORKER_SHELL};
pub(crate) use worker::{
    NO_OPTIONS, TOOLSETS, WORKER, WORKER_APPROVAL, WORKER_SANDBOX, WORKER_TOOLSET, WORKER_ZONE,
};

/// Reason that several rows give.
const DIRECTORIES: &str = "which directories there are is for each project to say";

/// Help that several tables give.
const APPROVAL_HELP: &str =
    "use `approval:` with `require_user_permission` and `require_user_permission_by_risk`";
const RULES_HELP: &str = "use `shell.rules:` with `approval: preApproved`, `ask` or `blocked`";
const RULES_AND_HOSTS_HELP: &str = "for commands use `shell.rules:` with `approval: preApproved`, `ask` or `blocked`; for hosts \
                                    `network: { allow: […], deny: […] }`";
const MODE_HELP: &str = "use `mode: ro` or `mode: rw`";

/// Returns the documented spelling of a project key that has another one, by the key above it
/// (`None` at the top); names of variables come in lower case. Elsewhere the word is a name of the
/// project's.
pub(crate) fn canonical<'k>(above: Option<&str>, key: &'k str) -> &'k str {
    let table = match above {
        None => &PROJECT,
        Some("delegation") => &DELEGATION,
        Some(_) => return key,
    };
    table
        .list
        .iter()
        .find(|known| {
            let is_key = |alias: &&str| *alias == key || alias.to_lowercase() == key;
            known.aliases.iter().any(is_key)
        })
        .map_or(key, |known| known.name)
}
