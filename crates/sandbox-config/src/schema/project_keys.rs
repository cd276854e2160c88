//! The names of the keys, for who types one.

use crate::keys::PROJECT;
use crate::syntax::fields::join;
use crate::syntax::key_table::KeyTable;
use crate::syntax::key_table::shape::ValueShape;

/// A key of project files with a value of its own.
#[derive(Clone, Debug)]
pub struct ProjectKey {
    path: String,
    description: &'static str,
    words: Vec<&'static str>,
}

impl ProjectKey {
    sandbox_names::getters! {
        /// Returns the dotted key, as `-c KEY=VALUE` takes it.
        pub path: &str = &path;
        /// Returns the sentence of the reference page.
        pub description: &'static str = description;
        /// Returns the words that the value can be. Empty if the value is free.
        pub words: &[&'static str] = &words;
    }
}

/// Returns the keys of project files that have a fixed name, in the order of the reference page.
///
/// ```
/// let keys = sandbox_config::schema::project_keys();
/// let mode = keys.iter().find(|key| key.path() == "sandbox.mode").unwrap();
/// assert!(mode.words().contains(&"direct"));
/// ```
#[must_use]
pub fn project_keys() -> Vec<ProjectKey> {
    let mut keys = Vec::new();
    collect_keys(&PROJECT, "", &mut keys);
    keys
}

fn collect_keys(table: &'static KeyTable, path: &str, keys: &mut Vec<ProjectKey>) {
    for key in table.list.iter().filter(|key| key.in_effect) {
        let path = join(path, key.name);
        let mut words = Vec::new();
        let mut has_value = false;
        collect_words(&key.shape, &path, keys, &mut words, &mut has_value);
        if has_value {
            keys.push(ProjectKey {
                path,
                description: key.doc,
                words,
            });
        }
    }
}

/// Adds the words of one shape, and the keys below it.
fn collect_words(
    shape: &'static ValueShape,
    path: &str,
    keys: &mut Vec<ProjectKey>,
    words: &mut Vec<&'static str>,
    has_value: &mut bool,
) {
    match shape {
        ValueShape::Section(below) => return collect_keys(below, path, keys),
        ValueShape::OneOf(shapes) => {
            for shape in *shapes {
                collect_words(shape, path, keys, words, has_value);
            }
        }
        ValueShape::Words(known, _) => words.extend(*known),
        ValueShape::Bool => words.extend(["true", "false"]),
        ValueShape::True => words.push("true"),
        _ => {}
    }
    *has_value = true;
}
