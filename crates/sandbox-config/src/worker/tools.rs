//! `tools`, and the shapes it is read from besides: camelCase names, and golem's `toolsets`.

use crate::keys;
use crate::loading::load_context::LoadContext;
use crate::loading::worker_names::{CALL, Delegates, bad_name, is_name};
use crate::settings::sections::unknown_tool;
use crate::syntax::diagnostic::DiagnosticCode;
use crate::syntax::fields::{self, MappingFields};
use crate::syntax::text::ConfigOrigin;
use crate::syntax::yaml::YamlEntry;

/// Other spellings of tools' names.
const ALIASES: [(&str, &str); 6] = [
    ("readFile", "read_file"),
    ("writeFile", "write_file"),
    ("listFiles", "list_files"),
    ("deleteFile", "delete_file"),
    ("pullFromGit", "git_pull"),
    ("stageForPush", "git_stage"),
];

/// The tools that a worker has because of its files (`forge_tools::tools::file_tools`); also those
/// of golem's `filesystem`.
#[rustfmt::skip]
pub(crate) const FILE_TOOLS: &[&str] = &[
    "read_file", "write_file", "append_file", "edit_file", "list_files", "search_files",
    "delete_file", "move_file", "copy_file", "create_dir", "file_exists", "file_info", "hash_file",
];

/// The tools and workers that a file asks for.
pub(crate) struct RequestedTools {
    /// `None`: all that the rights make possible.
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) delegates: Delegates,
    pub(crate) delegates_at: Vec<ConfigOrigin>,
}

/// `tools` and `workers`, or `toolsets`.
pub(crate) fn wanted(context: &mut LoadContext<'_>, top: &MappingFields<'_>) -> RequestedTools {
    let listed = top
        .strings(&mut context.reports, "workers")
        .unwrap_or_default();
    let (delegates, delegates_at) = delegates(context, listed);
    let mut wanted = RequestedTools {
        tools: tools(context, top, &delegates),
        delegates,
        delegates_at,
    };
    if let Some(entry) = top.get("toolsets") {
        toolsets(context, top, entry, &mut wanted);
    }
    wanted
}

fn tools(
    context: &mut LoadContext<'_>,
    top: &MappingFields<'_>,
    delegates: &Delegates,
) -> Option<Vec<String>> {
    let list = top.strings(&mut context.reports, "tools")?;
    let mut names = Vec::new();
    for (written, node) in list {
        let alias = ALIASES.iter().find(|(alias, _)| *alias == written);
        let name = alias.map_or(written, |(_, name)| name);
        if alias.is_some() {
            let message = format!("`{written}` is read as `{name}`");
            context.report(DiagnosticCode::Alias.warning(message).at(&node.span));
        }
        let is_worker = name == CALL || delegates.allows(name);
        if let Some(known) = context
            .sources
            .known_tools
            .as_deref()
            .filter(|_| !is_worker)
            && let Some(problem) = unknown_tool(known, name)
        {
            context.report(problem.at(&node.span));
        }
        names.push(name.to_owned());
    }
    Some(names)
}

fn delegates(
    context: &mut LoadContext<'_>,
    list: Vec<(&str, &crate::syntax::yaml::YamlNode)>,
) -> (Delegates, Vec<ConfigOrigin>) {
    if list.iter().any(|(name, _)| *name == "*") {
        return (Delegates::All, Vec::new());
    }
    for (name, node) in &list {
        if !is_name(name) {
            context.report(bad_name(name).at(&node.span));
        }
    }
    if list.is_empty() {
        return (Delegates::None, Vec::new());
    }
    let at = list.iter().map(|(_, node)| node.span.origin()).collect();
    let names = list.into_iter().map(|(name, _)| name.to_owned()).collect();
    (Delegates::Listed(names), at)
}

/// Returns the tools of the named families, and sets the workers.
fn toolset_names(
    context: &mut LoadContext<'_>,
    sets: &MappingFields<'_>,
    wanted: &mut RequestedTools,
) -> Vec<String> {
    let mut tools: Vec<String> = Vec::new();
    if let Some(files) = sets.get("filesystem") {
        let path = "toolsets.filesystem";
        context.open(&files.node, path, &keys::NO_OPTIONS);
        let known = context.sources.known_tools.as_deref();
        let exists = |name: &str| known.is_none_or(|known| known.iter().any(|tool| tool == name));
        tools.extend(
            FILE_TOOLS
                .iter()
                .filter(|name| exists(name))
                .map(|name| (*name).to_owned()),
        );
    }
    if let Some(shell) = sets.get("shell") {
        let path = "toolsets.shell";
        context.open(&shell.node, path, &keys::NO_OPTIONS);
        tools.push("shell".to_owned());
    }
    if let Some(workers) = sets.get("workers") {
        let path = "toolsets.workers";
        let allowed = context
            .open(&workers.node, path, &keys::WORKER_TOOLSET)
            .and_then(|section| section.get("allowed_workers"))
            .and_then(|entry| {
                let path = "toolsets.workers.allowed_workers";
                fields::strings(&mut context.reports, &entry.node, path)
            });
        (wanted.delegates, wanted.delegates_at) = delegates(context, allowed.unwrap_or_default());
        match &wanted.delegates {
            Delegates::None => {}
            Delegates::Listed(names) => {
                tools.push(CALL.to_owned());
                tools.extend(names.iter().cloned());
            }
            Delegates::All => tools.push(CALL.to_owned()),
        }
    }
    tools
}

/// golem's shape: every family that is named, and nothing else.
fn toolsets(
    context: &mut LoadContext<'_>,
    top: &MappingFields<'_>,
    entry: &YamlEntry,
    wanted: &mut RequestedTools,
) {
    let path = "toolsets";
    let Some(sets) = context.open(&entry.node, path, &keys::TOOLSETS) else {
        return;
    };
    for key in ["tools", "workers"] {
        if let Some(twice) = top.get(key) {
            context.report(
                DiagnosticCode::DuplicateKey
                    .at(
                        &entry.key_span,
                        format!("`toolsets` and `{key}` say the same thing"),
                    )
                    .related(&twice.key_span, "the other one")
                    .help("keep `tools` and `workers`"),
            );
        }
    }
    let tools = toolset_names(context, &sets, wanted);
    let lines = match &wanted.delegates {
        Delegates::None => String::new(),
        Delegates::Listed(names) => format!("\nworkers: [{}]", names.join(", ")),
        Delegates::All => "\nworkers: [\"*\"]".to_owned(),
    };
    let message = "`toolsets` is read as `tools` and `workers`";
    let mistake = DiagnosticCode::Alias.warning(message).at(&entry.key_span);
    context.report(mistake.help(format!("write:\ntools: [{}]{lines}", tools.join(", "))));
    wanted.tools = Some(tools);
}
