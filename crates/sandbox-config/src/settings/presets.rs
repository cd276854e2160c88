//! `sandbox.presets`: the presets that a project names for `forge exec`.

use crate::loading::load_context::LoadContext;
use crate::loading::trust_rules;
use crate::preset::library::{MAX_PRESETS, PresetLibrary, invalid_name, is_name};
use crate::preset::set::PresetSet;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::fields::MappingFields;

/// Reads the presets that a project names. Empty if a person has not agreed to their contents, of
/// which the consent has a hash.
pub(crate) fn read(context: &mut LoadContext<'_>, section: &MappingFields<'_>) -> PresetSet {
    let Some(entry) = section.get("presets") else {
        return PresetSet::default();
    };
    let list = section.strings(&mut context.reports, "presets");
    let list = list.unwrap_or_default();
    if list.len() > MAX_PRESETS {
        let message = format!("`sandbox.presets` names more than {MAX_PRESETS} presets");
        let many = Diagnostic::error(DiagnosticCode::TooComplex, message);
        context.report(many.at(&entry.node.span));
        return PresetSet::default();
    }
    let library = match &context.sources.own_presets {
        Some(directory) => PresetLibrary::with_directory(directory),
        None => PresetLibrary::built_in(),
    };
    let mut set = PresetSet::default();
    let before = context.reports.errors();
    for (name, item) in &list {
        if !is_name(name) {
            context.report(invalid_name(name).at(&item.span));
            continue;
        }
        let Err(mistakes) = library.add(name, &mut set) else {
            continue;
        };
        for mistake in mistakes.into_list() {
            context.report(match mistake.layer() {
                // In the preset's own file.
                Some(_) => mistake.related(&item.span, "the project names the preset here"),
                None => mistake.at(&item.span),
            });
        }
    }
    if list.is_empty() || context.reports.errors() > before {
        return PresetSet::default();
    }
    let names = set.named().join(", ");
    let contents = set.sha256();
    let rule = &trust_rules::PRESETS;
    match context.agreed_with(rule, PresetSet::KEY, &names, &contents, &entry.node.span) {
        true => set,
        false => PresetSet::default(),
    }
}
