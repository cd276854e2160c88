//! Front-end P: named directories with suffixes and sizes (seed 004). Read-only unless they say
//! otherwise; shown as `./portfolio`.

use crate::front::named::{self, Form};
use crate::front::place::Reach;
use crate::grant::mount::{Mode, Mount};
use crate::grant::verdict::MountApproval;
use crate::project::walk::Walk;
use crate::syntax::keys;
use crate::syntax::yaml::Node;

static FORM: Form = Form {
    noun: "path",
    section: "sandbox.paths",
    keys: &keys::NAMED_PATH,
    path_key: "root",
    mode: Mode::ReadOnly,
    approval: MountApproval::SILENT,
};

/// Read `sandbox.paths`.
pub(crate) fn read(walk: &mut Walk<'_>, node: &Node) -> Vec<Mount> {
    named::read(walk, node, &FORM, Reach::Anywhere)
}
