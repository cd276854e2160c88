//! `sandbox.paths`: named directories with suffixes and sizes. Read-only unless they say
//! otherwise; shown as `./portfolio`.

use crate::grant::mount::{Mode, Mount};
use crate::grant::verdict::MountApproval;
use crate::keys;
use crate::loading::load_context::LoadContext;
use crate::mount_syntax::named::{self, NamedMountSyntax};
use crate::mount_syntax::path_scope::PathScope;
use crate::syntax::yaml::YamlNode;

static FORM: NamedMountSyntax = NamedMountSyntax {
    noun: "path",
    section: "sandbox.paths",
    keys: &keys::NAMED_PATH,
    path_key: "root",
    mode: Mode::ReadOnly,
    approval: MountApproval::SILENT,
};

/// Read `sandbox.paths`.
pub(crate) fn read(context: &mut LoadContext<'_>, node: &YamlNode) -> Vec<Mount> {
    named::read(context, node, &FORM, PathScope::Anywhere)
}
