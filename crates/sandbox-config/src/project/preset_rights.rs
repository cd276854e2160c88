//! The rights that presets add to a project's ceiling. The person names presets for one command, so
//! nothing of it needs a yes; names that the project denies or protects stay so.

use crate::grant::Grant;
use crate::grant::network::denied_hosts;
use crate::loading::load_context::LoadContext;
use crate::settings::confinement::program_dirs;
use crate::syntax::yaml::{YamlNode, YamlValue};

/// Adds the rights of the sources' presets. `root` is the tree that the ceiling was read from.
pub(crate) fn add(context: &mut LoadContext<'_>, root: &YamlNode, ceiling: &mut Grant) {
    let presets = &context.sources.presets;
    if presets.is_empty() {
        return;
    }
    let sandbox = root.entry("sandbox");
    let own = sandbox.and_then(|sandbox| sandbox.node.entry("protect"));
    let own = own.and_then(|own| own.node.as_list()).unwrap_or_default();
    let is_own = |name: &str| own.iter().any(|item| item.as_str() == Some(name));
    let mut protect = ceiling.protect.to_vec();
    protect.retain(|name| !presets.unprotect.contains(name) || is_own(name));
    for name in &presets.protect {
        if !protect.contains(name) {
            protect.push(name.clone());
        }
    }
    ceiling.protect = protect.into();

    let mut environment = ceiling.environment.as_ref().clone();
    for name in &presets.pass {
        if !environment.pass.contains(name) {
            environment.pass.push(name.clone());
        }
    }
    for (name, value) in &presets.set {
        let entry = environment.set.entry(name.clone());
        entry.or_insert_with(|| value.clone());
    }
    ceiling.environment = environment.into();

    if !presets.programs.is_empty() {
        let mut directories = ceiling.confinement.programs.directories().to_vec();
        for directory in &presets.programs {
            if !directories.contains(directory) {
                directories.push(directory.clone());
            }
        }
        ceiling.confinement.programs = program_dirs(context, directories);
    }

    // `-c network=false` is the person's word for this run, too.
    let network = root.entry("network").map(|entry| &entry.node);
    let is_off = |node: &YamlNode| matches!(node.value, YamlValue::Bool(false));
    if network.is_some_and(|node| is_off(node) && node.span.layer().is_own_voice()) {
        return;
    }
    let hosts = presets.hosts.iter().map(|line| line.pattern.clone());
    let denied = denied_hosts(&context.facts.network_lines);
    ceiling.network = ceiling.network.with_hosts(hosts, denied);
    context
        .facts
        .network_lines
        .extend(presets.hosts.iter().cloned());
}
