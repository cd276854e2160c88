//! Front-end P: named directories with suffixes and sizes (seed 004). Read-only unless they say
//! otherwise; shown as `./portfolio`.

use crate::front::named::{self, NamedMountSyntax};
use crate::front::place::PathScope;
use crate::grant::mount::{Mode, Mount};
use crate::grant::verdict::MountApproval;
use crate::project::walk::LoadContext;
use crate::syntax::keys;
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
pub(crate) fn read(walk: &mut LoadContext<'_>, node: &YamlNode) -> Vec<Mount> {
    named::read(walk, node, &FORM, PathScope::Anywhere)
}
