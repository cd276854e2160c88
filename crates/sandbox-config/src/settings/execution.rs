//! `execution` (and its other spelling, `execution_mode`) and `docker`: where calls run.

use crate::grant::execution::{
    ContainerNetwork, DockerSettings, ExecutionMode, ExecutionSettings, Reuse,
};
use crate::keys;
use crate::loading::load_context::LoadContext;
use crate::loading::trust_rules::{DOCKER_HOST, DOCKER_IMAGE, DOCKER_NETWORK, TrustRule};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::fields::{self, MappingFields};
use crate::syntax::text::Span;
use crate::syntax::yaml::{YamlEntry, YamlNode, YamlValue};

/// Both sections of a project file.
pub(crate) fn execution(
    context: &mut LoadContext<'_>,
    top: &MappingFields<'_>,
) -> ExecutionSettings {
    let mut execution = ExecutionSettings::default();
    let section = top.get("execution").and_then(|entry| {
        MappingFields::open(
            &mut context.reports,
            &entry.node,
            "execution",
            &keys::EXECUTION,
        )
    });
    let own = section.as_ref().and_then(|section| section.get("mode"));
    let mode = match (own, top.get("execution_mode")) {
        (Some(own), Some(alias)) => stronger(context, own, alias),
        (own, alias) => own.or(alias),
    };
    if let Some(entry) = mode {
        let path = if entry.key == "mode" {
            "execution.mode"
        } else {
            context.reports.add(
                Diagnostic::warning(
                    DiagnosticCode::Alias,
                    "`execution_mode` is read as `execution: { mode: … }`",
                )
                .at(&entry.key_span),
            );
            "execution_mode"
        };
        execution.origin = entry.node.span.origin();
        let word = fields::word(
            &mut context.reports,
            &entry.node,
            path,
            &ExecutionMode::WORDS,
        );
        if let Some(mode) = word {
            execution.mode = mode;
        }
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
        context.reports.add(
            Diagnostic::error(
                DiagnosticCode::DuplicateKey,
                "`execution_mode` is another spelling of `execution.mode`, and both are given",
            )
            .at(&alias.key_span)
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
            context.reports.add(
                Diagnostic::error(
                    DiagnosticCode::NotYet,
                    "the runner `kubernetes` does not exist yet",
                )
                .at(&item.span)
                .help("runners are: os, docker"),
            );
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
        let message = format!(
            "no runner is left: `execution.mode` is `{}`",
            execution.mode
        );
        context.reports.add(
            Diagnostic::error(DiagnosticCode::BadValue, message)
                .at(&entry.node.span)
                .help("leave `runners` out, or list what the mode uses"),
        );
    }
}

/// Returns the node that sets the network of containers, or else the whole section.
fn network_at(docker: &YamlNode) -> &YamlNode {
    let own = docker.entry("network_default");
    own.map_or(docker, |entry| &entry.node)
}

fn docker(context: &mut LoadContext<'_>, node: &YamlNode) -> DockerSettings {
    let mut docker = DockerSettings::default();
    let Some(section) = MappingFields::open(&mut context.reports, node, "docker", &keys::DOCKER)
    else {
        return docker;
    };
    if let Some(enabled) = section.boolean(&mut context.reports, "enabled") {
        docker.enabled = enabled;
    }
    if let Some(image) = image(context, &section) {
        docker.image = image;
    }
    docker.host = host(context, &section);
    let networks = [
        ("none", ContainerNetwork::None),
        ("bridge", ContainerNetwork::Bridge),
    ];
    if let Some(network) = section.word(&mut context.reports, "network_default", &networks) {
        let closed = network == ContainerNetwork::None;
        if closed
            || agreed(
                context,
                &section,
                &DOCKER_NETWORK,
                "network_default",
                "bridge",
            )
        {
            docker.network = network;
        }
    }
    if let Some(milli) = cpu_limit_milli(context, &section) {
        docker.cpu_limit_milli = milli;
    }
    if let Some(mb) = section.count(&mut context.reports, "mem_limit_mb") {
        docker.mem_limit_mb = mb;
    }
    if let Some(pids) = section.count(&mut context.reports, "pids_limit") {
        docker.pids_limit = pids;
    }
    if let Some(read_only) = section.boolean(&mut context.reports, "read_only_root") {
        docker.read_only_root = read_only;
    }
    let reuse = [("call", Reuse::Call), ("session", Reuse::Session)];
    if let Some(reuse) = section.word(&mut context.reports, "reuse", &reuse) {
        docker.reuse = reuse;
    }
    docker
}

/// The image decides which programs run, so one that a repository names needs a yes.
fn image(context: &mut LoadContext<'_>, section: &MappingFields<'_>) -> Option<String> {
    let image = section.string(&mut context.reports, "image")?;
    let plain = image
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "._-/:@".contains(c));
    if !plain || !image.starts_with(|c: char| c.is_ascii_alphanumeric()) || image.len() > 512 {
        bad(
            context,
            section,
            "image",
            image,
            "an image",
            "forge-sandbox:1",
        );
        return None;
    }
    agreed(context, section, &DOCKER_IMAGE, "image", image).then(|| image.to_owned())
}

/// The engine gets the workspace's files, so one that a repository names needs a yes.
fn host(context: &mut LoadContext<'_>, section: &MappingFields<'_>) -> Option<String> {
    let entry = section.get("host")?;
    if matches!(entry.node.value, YamlValue::Null) {
        return None;
    }
    let host = section.string(&mut context.reports, "host")?;
    let place = ["unix://", "tcp://", "ssh://"]
        .iter()
        .find_map(|scheme| host.strip_prefix(scheme));
    let plain = |c: char| c.is_ascii_graphic();
    if !place.is_some_and(|place| !place.is_empty() && place.chars().all(plain)) {
        let example = "unix:///run/docker.sock, tcp://… or ssh://…";
        bad(
            context,
            section,
            "host",
            host,
            "an engine's address",
            example,
        );
        return None;
    }
    agreed(context, section, &DOCKER_HOST, "host", host).then(|| host.to_owned())
}

/// `1.5` processors as thousandths.
fn cpu_limit_milli(context: &mut LoadContext<'_>, section: &MappingFields<'_>) -> Option<u64> {
    /// More processors than any engine has.
    const MOST: f64 = 4_096.0;
    let entry = section.get("cpu_limit")?;
    let number = match &entry.node.value {
        YamlValue::Int(number) => Some(*number as f64),
        YamlValue::Float(number) => Some(*number),
        _ => None,
    };
    let milli = number
        .filter(|number| (0.001..=MOST).contains(number))
        .map(|number| (number * 1_000.0).round() as u64);
    if milli.is_none() {
        context.reports.add(
            Diagnostic::error(
                DiagnosticCode::BadValue,
                "`docker.cpu_limit` must be a number of processors above 0, such as 1.5",
            )
            .at(&entry.node.span),
        );
    }
    milli
}

fn agreed(
    context: &mut LoadContext<'_>,
    section: &MappingFields<'_>,
    rule: &'static TrustRule,
    key: &'static str,
    value: &str,
) -> bool {
    let span = value_span(section, key);
    let key = section.dotted(key);
    context.agreed(rule, &key, value, &span)
}

fn bad(
    context: &mut LoadContext<'_>,
    section: &MappingFields<'_>,
    key: &'static str,
    value: &str,
    what: &str,
    example: &str,
) {
    let span = value_span(section, key);
    let message = format!("`{}: {value}` is not {what}", section.dotted(key));
    context.reports.add(
        Diagnostic::error(DiagnosticCode::BadValue, message)
            .at(&span)
            .help(format!("for example {example}")),
    );
}

fn value_span(section: &MappingFields<'_>, key: &'static str) -> Span {
    section
        .get(key)
        .map_or(&section.span, |entry| &entry.node.span)
        .clone()
}
