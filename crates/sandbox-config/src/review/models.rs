//! Models that a run would not begin with: of an unknown provider, or without the prices that a
//! limit on money needs. Not a mistake of a load: commands that ask no model work as before.

use crate::project::Project;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::text::ConfigOrigin;
use crate::worker::Worker;

/// The project's own model, which workers without one run on.
pub(super) fn project(project: &Project, findings: &mut Vec<Diagnostic>) {
    let (Some(model), Some(at)) = (project.model(), project.origin("model")) else {
        return;
    };
    known(project, model, at, findings);
    if project.ceiling().limits().max_cost_nano_usd().is_some() {
        let limit = project.cost_at();
        priced(project, model, limit.as_ref().unwrap_or(at), findings);
    }
}

/// A worker's own model, and a limit of its own on the project's.
pub(super) fn worker(project: &Project, worker: &Worker, findings: &mut Vec<Diagnostic>) {
    let own = worker.model();
    if let Some(model) = own {
        known(project, model, worker.model_origin(), findings);
    }
    let above = project.ceiling().limits().max_cost_nano_usd();
    let limited = worker.limits().max_cost_nano_usd();
    let said = match (own, above) {
        // Said at the project.
        (None, Some(_)) => None,
        (None, None) => limited.and(project.model()),
        (Some(model), above) => above.or(limited).and(Some(model)),
    };
    if let Some(model) = said {
        priced(project, model, worker.model_origin(), findings);
    }
}

fn known(project: &Project, model: &str, at: &ConfigOrigin, findings: &mut Vec<Diagnostic>) {
    if model.starts_with("scripted:") {
        return;
    }
    if let Err(unknown) = project.provider_of(model)
        && !unknown.is_untrusted()
    {
        findings.push(
            DiagnosticCode::BadValue
                .error(format!("`model: {model}`: {unknown}"))
                .at_origin(at)
                .help(unknown.help()),
        );
    }
}

fn priced(project: &Project, model: &str, at: &ConfigOrigin, findings: &mut Vec<Diagnostic>) {
    let Ok((provider, name)) = project.provider_of(model) else {
        return;
    };
    if provider.prices(name).is_none() {
        let provider = provider.name();
        let message =
            format!("`limits.max_cost_usd` cannot be kept: no prices of `{model}` are known");
        let help = format!(
            "name them in your own file: `providers: {{ {provider}: {{ prices: {{ input: …, output: … }} }} }}`, in US dollars for a million tokens"
        );
        findings.push(
            DiagnosticCode::MissingKey
                .error(message)
                .at_origin(at)
                .help(help),
        );
    }
}
