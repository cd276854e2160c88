//! `execution` (and its other spelling, `execution_mode`) and `docker`: where calls run.

use crate::grant::docker::{ContainerNetwork, DOCKER, DockerSettings};
use crate::grant::execution::{ExecutionMode, ExecutionSettings};
use crate::keys;
use crate::loading::load_context::LoadContext;
use crate::loading::trust_rules::{DOCKER_HOST, DOCKER_IMAGE, DOCKER_NETWORK};
use crate::syntax::diagnostic::DiagnosticCode;
use crate::syntax::fields::{self, MappingFields};
use crate::syntax::word::ConfigWord;
use crate::syntax::yaml::{YamlEntry, YamlNode, YamlValue};

/// Both sections of a project file.
pub(crate) fn execution(
    context: &mut LoadContext<'_>,
    top: &MappingFields<'_>,
) -> ExecutionSettings {
    let mut execution = ExecutionSettings::default();
    let section = top.section(&mut context.reports, "execution", &keys::EXECUTION);
    let own = section.as_ref().and_then(|section| section.get("mode"));
    let mode = match (own, top.get("execution_mode")) {
        (Some(own), Some(alias)) => stronger(context, own, alias),
        (own, alias) => own.or(alias),
    };
    if let Some(entry) = mode {
        let path = if entry.key == "mode" {
            "execution.mode"
        } else {
            let message = "`execution_mode` is read as `execution: { mode: … }`";
            context.report(DiagnosticCode::Alias.warning(message).at(&entry.key_span));
            "execution_mode"
        };
        execution.origin = entry.node.span.origin();
        let words = ExecutionMode::WORDS;
        let mode = fields::word(&mut context.reports, &entry.node, path, words);
        execution.mode = mode.unwrap_or(execution.mode);
    }
    if let Some(section) = &section {
        runners(context, section, &mut execution);
    }
    if let Some(entry) = top.get("docker") {
        execution.docker = docker(context, &entry.node);
        execution.network_origin = network_at(&entry.node).span.origin();
    }
    execution
}

/// One value in two spellings: said by two layers the stronger one holds, said by one it is a
/// mistake.
fn stronger<'n>(
    context: &mut LoadContext<'_>,
    own: &'n YamlEntry,
    alias: &'n YamlEntry,
) -> Option<&'n YamlEntry> {
    let (a, b) = (own.node.span.layer(), alias.node.span.layer());
    if a == b {
        context.report(
            DiagnosticCode::DuplicateKey
                .at(
                    &alias.key_span,
                    "`execution_mode` is another spelling of `execution.mode`, and both are given",
                )
                .related(&own.key_span, "the other one")
                .help("keep `execution.mode`"),
        );
    }
    Some(if b > a { alias } else { own })
}

fn runners(
    context: &mut LoadContext<'_>,
    section: &MappingFields<'_>,
    execution: &mut ExecutionSettings,
) {
    let Some(entry) = section.get("runners") else {
        return;
    };
    let Some(items) = fields::list(&mut context.reports, &entry.node, "execution.runners") else {
        return;
    };
    (execution.os, execution.containers) = (false, false);
    for item in items {
        if matches!(&item.value, YamlValue::Str(word) if word == "kubernetes") {
            let message = "the runner `kubernetes` does not exist yet";
            let mistake = DiagnosticCode::NotYet.at(&item.span, message);
            context.report(mistake.help("runners are: os, docker"));
            continue;
        }
        let words = [("os", false), ("docker", true)];
        match fields::word(&mut context.reports, item, "execution.runners", &words) {
            Some(false) => execution.os = true,
            Some(true) => execution.containers = true,
            None => {}
        }
    }
    let nowhere = match execution.mode {
        ExecutionMode::LocalOnly => !execution.os,
        ExecutionMode::DockerRequired => !execution.containers,
        ExecutionMode::PreferLocal | ExecutionMode::PreferDocker => items.is_empty(),
    };
    if nowhere {
        let mode = execution.mode;
        let message = format!("no runner is left: `execution.mode` is `{mode}`");
        let mistake = DiagnosticCode::BadValue.at(&entry.node.span, message);
        context.report(mistake.help("leave `runners` out, or list what the mode uses"));
    }
}

/// Returns the node that sets the network of containers, or else the whole section.
fn network_at(docker: &YamlNode) -> &YamlNode {
    let own = docker.entry("network_default");
    own.map_or(docker, |entry| &entry.node)
}

fn docker(context: &mut LoadContext<'_>, node: &YamlNode) -> DockerSettings {
    let mut docker = DockerSettings::default();
    let Some(section) = context.open(node, "docker", &DOCKER) else {
        return docker;
    };
    docker.read(&mut context.reports, &section);
    // Returns `true` if the section does not say the value of the key, or may.
    let mut agreed = |rule, key: &'static str, value: Option<&str>| {
        let said = section.get(key).and_then(|entry| entry.node.as_str());
        match value.filter(|value| said == Some(*value)) {
            Some(value) => context.agreed_key(rule, &section, key, value),
            None => true,
        }
    };
    // The image decides which programs run, and the engine gets the workspace's files: one that a
    // repository names needs a yes.
    if !agreed(&DOCKER_IMAGE, "image", Some(&docker.image)) {
        docker.image = DockerSettings::default().image;
    }
    if !agreed(&DOCKER_HOST, "host", docker.host.as_deref()) {
        docker.host = None;
    }
    let network = docker.network_default.to_string();
    let bridge = (docker.network_default == ContainerNetwork::Bridge).then_some(network.as_str());
    if !agreed(&DOCKER_NETWORK, "network_default", bridge) {
        docker.network_default = ContainerNetwork::None;
    }
    docker
}
