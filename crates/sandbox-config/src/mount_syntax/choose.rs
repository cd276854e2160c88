//! Chooses the front-end of a project file and lowers it. Exactly one per file: two would be two
//! opinions about one tree.

use std::path::Path;

use crate::grant::front_end::FrontEnd;
use crate::grant::mount::{Mode, Mount};
use crate::loading::load_context::LoadContext;
use crate::loading::location::ProjectLocation;
use crate::loading::sources::WithoutDirectories;
use crate::mount_syntax::zones::Placing;
use crate::mount_syntax::{mounts, path_lists, paths, root, zones};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::escape::visible;
use crate::syntax::fields::MappingFields;
use crate::syntax::yaml::YamlEntry;

/// The mounts of a project without a front-end key.
enum DefaultFrontEnd {
    DefaultZones,
    /// A program without a sandbox has no files.
    Nothing,
    /// Commands that a person types.
    WholeDirectory,
}

impl DefaultFrontEnd {
    fn for_project(
        context: &LoadContext<'_>,
        found: &ProjectLocation,
        has_runs: bool,
    ) -> DefaultFrontEnd {
        let stem = found.file.as_deref().and_then(Path::file_stem);
        match (stem, context.sources.without_directories) {
            (Some(stem), _) if stem == "program" => DefaultFrontEnd::Nothing,
            (_, WithoutDirectories::DefaultZones) => DefaultFrontEnd::DefaultZones,
            _ if has_runs => DefaultFrontEnd::DefaultZones,
            (_, WithoutDirectories::WholeDirectory) => DefaultFrontEnd::WholeDirectory,
        }
    }
}

/// Reads the front-end of `sandbox`, if it has one. `has_runs`: the project has directories for runs
/// or knowledge, which its whole directory could not contain.
pub(crate) fn mount_table(
    context: &mut LoadContext<'_>,
    section: Option<&MappingFields<'_>>,
    found: &ProjectLocation,
    has_runs: bool,
) -> (FrontEnd, Vec<Mount>) {
    refuse_credentials(context);
    let unspoken = DefaultFrontEnd::for_project(context, found, has_runs);
    let spoken = section.map(spoken).unwrap_or_default();
    let (Some(section), Some((front, first))) = (section, spoken.first()) else {
        return match unspoken {
            DefaultFrontEnd::DefaultZones => {
                let placing = Placing::unstated(found);
                context.facts.ephemeral_root = placing.ephemeral_root();
                (FrontEnd::Zones, zones::default_zones(context, &placing))
            }
            DefaultFrontEnd::Nothing => (FrontEnd::Root, Vec::new()),
            DefaultFrontEnd::WholeDirectory => {
                let mount =
                    root::whole_directory(&mut context.reports, context.dir, Mode::ReadWrite);
                (FrontEnd::Root, mount.into_iter().collect())
            }
        };
    };
    for (_, entry) in &spoken[1..] {
        context.report(two_front_ends(first, entry));
    }
    // All of them are read, so that all mistakes are told; only one comes back.
    // A root that is missing beside another front-end is not the mistake.
    let of_exec = matches!(unspoken, DefaultFrontEnd::WholeDirectory) && found.file.is_none();
    let whole = of_exec || spoken.len() > 1;
    let mut tables: Vec<Vec<Mount>> = spoken
        .iter()
        .map(|(front, _)| lower(context, *front, section, found, whole))
        .collect();
    (*front, tables.swap_remove(0))
}

/// Refuses a project in a place where programs of the person store credentials.
fn refuse_credentials(context: &mut LoadContext<'_>) {
    let home = context.sources.home.as_deref();
    let home = home.and_then(|home| home.canonicalize().ok());
    let below = home.and_then(|home| context.dir.strip_prefix(home).ok());
    if let Some(place) = below.and_then(sandbox_names::credentials) {
        let message = format!(
            "{} is in ~/{place}, where credentials are stored: a project cannot be there",
            visible(&context.dir.to_string_lossy())
        );
        context.report(
            DiagnosticCode::HostPath
                .error(message)
                .help("start in a directory of your own, or use -C DIR"),
        );
    }
}

/// The front-ends that a section speaks, each with a key that says so, in the file's order.
fn spoken<'n>(section: &MappingFields<'n>) -> Vec<(FrontEnd, &'n YamlEntry)> {
    // `root` belongs to zones if another key declares zones.
    let has_zones = section.get("zones").or(section.get("mode"));
    let root = match has_zones {
        Some(_) => section.get("readonly"),
        None => section.get("root").or(section.get("readonly")),
    };
    let mut spoken: Vec<(FrontEnd, &YamlEntry)> = [
        (FrontEnd::Zones, has_zones),
        (FrontEnd::Root, root),
        (FrontEnd::Paths, section.get("paths")),
        (FrontEnd::Mounts, section.get("mounts")),
        (
            FrontEnd::PathLists,
            section.get("read_paths").or(section.get("write_paths")),
        ),
    ]
    .into_iter()
    .filter_map(|(front, entry)| Some((front, entry?)))
    .collect();
    spoken.sort_by_key(|(_, entry)| {
        let span = &entry.key_span;
        (span.layer(), span.line, span.column)
    });
    spoken
}

fn two_front_ends(first: &YamlEntry, second: &YamlEntry) -> Diagnostic {
    let message = format!(
        "`sandbox` has two front-ends: `{}` and `{}`",
        first.key, second.key
    );
    let help = match second.key.as_str() {
        "readonly" => "zones say `mode: ro`; `readonly` stands beside `root` alone",
        _ => {
            "keep one of: zones (with mode and root), root (with readonly), paths, mounts, read_paths and write_paths"
        }
    };
    DiagnosticCode::FrontEnd
        .at(&second.key_span, message)
        .related(&first.key_span, format!("`{}` is here", first.key))
        .help(help)
}

fn lower(
    context: &mut LoadContext<'_>,
    front: FrontEnd,
    section: &MappingFields<'_>,
    found: &ProjectLocation,
    whole_by_default: bool,
) -> Vec<Mount> {
    match front {
        FrontEnd::Zones => {
            let placing = Placing::read(context, section, found);
            context.facts.ephemeral_root = placing.ephemeral_root();
            match section.get("zones") {
                Some(entry) => zones::read(context, &entry.node, &placing),
                None => zones::default_zones(context, &placing),
            }
        }
        FrontEnd::Root => root::read(context, section, whole_by_default)
            .into_iter()
            .collect(),
        FrontEnd::Paths => match section.get("paths") {
            Some(entry) => paths::read(context, &entry.node),
            None => Vec::new(),
        },
        FrontEnd::Mounts => match section.get("mounts") {
            Some(entry) => mounts::read(context, &entry.node),
            None => Vec::new(),
        },
        FrontEnd::PathLists => path_lists::read(context, section),
    }
}
