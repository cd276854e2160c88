//! The reader of `attachment_policy`.

use crate::grant::attachments::AttachmentPolicy;
use crate::keys;
use crate::loading::load_context::LoadContext;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::fields::MappingFields;

/// The key of a worker file.
pub(crate) fn policy(context: &mut LoadContext<'_>, top: &MappingFields<'_>) -> AttachmentPolicy {
    let mut policy = AttachmentPolicy::default();
    let table = &keys::ATTACHMENTS;
    let Some(section) = top.section(&mut context.reports, "attachment_policy", table) else {
        return policy;
    };
    if let Some(count) = section.count(&mut context.reports, "max_attachments") {
        policy.max_attachments = count;
    }
    if let Some(bytes) = section.count(&mut context.reports, "max_total_bytes") {
        policy.max_total_bytes = bytes;
    }
    policy.allowed_suffixes = suffixes(context, &section, "allowed_suffixes");
    policy.denied_suffixes = suffixes(context, &section, "denied_suffixes");
    policy
}

fn suffixes(
    context: &mut LoadContext<'_>,
    section: &MappingFields<'_>,
    key: &'static str,
) -> Vec<String> {
    let mut list = Vec::new();
    for (suffix, node) in section
        .strings(&mut context.reports, key)
        .unwrap_or_default()
    {
        if suffix.starts_with('.') && suffix.len() > 1 && !suffix.contains('/') {
            list.push(suffix.to_lowercase());
        } else {
            let bare = suffix.trim_start_matches(['.', '*']);
            context.reports.add(
                Diagnostic::error(
                    DiagnosticCode::BadValue,
                    format!("`{suffix}` is not a suffix"),
                )
                .at(&node.span)
                .help(format!("write `.{bare}`")),
            );
        }
    }
    list
}
