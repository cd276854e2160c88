//! `hardlinks`, `quota`, `strict_paths` and `durable`: of the sandbox as a whole, and of one mount.

use crate::grant::file_rules::{FileRules, HardLinks};
use crate::keys;
use crate::loading::load_context::LoadContext;
use crate::loading::trust_rules;
use crate::syntax::fields::MappingFields;
use crate::syntax::word::ConfigWord;

/// Read the four keys of `sandbox`, or of one mount.
pub(crate) fn read(context: &mut LoadContext<'_>, section: &MappingFields<'_>) -> FileRules {
    let mut rules = FileRules {
        hard_links: section.word(&mut context.reports, "hardlinks", HardLinks::WORDS),
        strict_paths: section.boolean(&mut context.reports, "strict_paths"),
        durable: section.boolean(&mut context.reports, "durable"),
        ..FileRules::default()
    };
    let rule = &trust_rules::HARD_LINKS;
    if rules.hard_links == Some(HardLinks::Allow)
        && !context.agreed_key(rule, section, "hardlinks", "allow")
    {
        rules.hard_links = None;
    }
    if let Some(quota) = section.section(&mut context.reports, "quota", &keys::QUOTA) {
        rules.max_total_bytes = quota.count(&mut context.reports, "max_bytes");
        rules.max_files = quota.count(&mut context.reports, "max_files");
    }
    rules
}
