//! The role of every key of projects in the user file, as its row says: a limit over every project
//! with the meet of two values, a preference, or no effect, with the reason. A test wants a role for
//! every key that is read, so a new key of projects neither limits nothing by accident nor is
//! forgotten.

use crate::keys::PROJECT;
use crate::syntax::key_table::{KeySpec, UserKeyRole};

/// Keys of `sandbox` that a mount may have for itself, too: there they are met as well.
pub(crate) const OF_MOUNTS: [&str; 4] = ["durable", "hardlinks", "quota", "strict_paths"];

/// Returns the row of a key with its role. A role covers everything below its key.
pub(crate) fn role(names: &[&str]) -> Option<(&'static KeySpec, UserKeyRole)> {
    let mut tables = vec![&PROJECT];
    for (at, name) in names.iter().enumerate() {
        let mut rows = tables.iter().flat_map(|table| table.list);
        let row = rows.find(|row| row.name == *name)?;
        if let Some(role) = row.role() {
            let depth = at + 1 + usize::from(row.user_each);
            return (names.len() == depth).then_some((row, role));
        }
        tables = Vec::new();
        row.shape.tables(&mut tables);
    }
    None
}
