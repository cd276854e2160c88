//! The declaration of a key and of a table of keys.

pub(crate) mod shape;

use crate::syntax::key_table::shape::ValueShape;

/// One key of a mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySpec {
    pub(crate) name: &'static str,
    /// Other spellings that are read like the name.
    pub(crate) aliases: &'static [&'static str],
    /// `false` if the key is documented and refused by name until it has an effect.
    pub(crate) in_effect: bool,
    pub(crate) shape: ValueShape,
    /// One sentence.
    pub(crate) doc: &'static str,
    /// The default of the key, as one would write it; empty: nothing in particular.
    pub(crate) default: &'static str,
    /// A mapping without it is a mistake.
    pub(crate) required: bool,
    pub(crate) merge: MergeRule,
    /// When a project or worker file needs a person's yes for it; empty: never.
    pub(crate) trust: &'static str,
}

/// The merge of the values of several layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeRule {
    /// Authority: the intersection of all layers.
    Meet,
    /// Preference: the strongest layer that says something.
    LastLayer,
    /// A list of refusals: all of them.
    Union,
}

/// The keys of one kind of mapping.
#[derive(Debug)]
pub(crate) struct KeyTable {
    /// Its name in the schemas, and its heading on the reference page.
    pub(crate) id: &'static str,
    /// For "zones have: path, mode, …".
    pub(crate) plural: &'static str,
    /// `true` if `key:` without a value is read as a mapping without keys.
    pub(crate) may_be_blank: bool,
    pub(crate) list: &'static [KeySpec],
    /// Spellings of other tools, and ours.
    pub(crate) foreign: &'static [(&'static str, &'static str)],
}

impl KeySpec {
    /// A key that is read.
    pub(crate) const fn new(name: &'static str, shape: ValueShape, doc: &'static str) -> KeySpec {
        KeySpec {
            name,
            aliases: &[],
            in_effect: true,
            shape,
            doc,
            default: "",
            required: false,
            merge: MergeRule::Meet,
            trust: "",
        }
    }

    /// A key that is documented and refused by name.
    pub(crate) const fn reserved(
        name: &'static str,
        shape: ValueShape,
        doc: &'static str,
    ) -> KeySpec {
        let mut key = KeySpec::new(name, shape, doc);
        key.in_effect = false;
        key
    }

    pub(crate) const fn aliases(mut self, aliases: &'static [&'static str]) -> KeySpec {
        self.aliases = aliases;
        self
    }

    /// Sets the default.
    pub(crate) const fn default(mut self, default: &'static str) -> KeySpec {
        self.default = default;
        self
    }

    pub(crate) const fn required(mut self) -> KeySpec {
        self.required = true;
        self
    }

    /// A preference: the strongest layer wins.
    pub(crate) const fn last_layer_wins(mut self) -> KeySpec {
        self.merge = MergeRule::LastLayer;
        self
    }

    /// The lists of all layers unite.
    pub(crate) const fn unites(mut self) -> KeySpec {
        self.merge = MergeRule::Union;
        self
    }

    /// It widens: when a project or worker file needs a person's yes.
    pub(crate) const fn trust(mut self, when: &'static str) -> KeySpec {
        self.trust = when;
        self
    }
}

impl KeyTable {
    /// Returns `true` if any key of it is read, or it has none to read.
    pub(crate) fn is_read(&self) -> bool {
        self.list.is_empty() || self.list.iter().any(|key| key.in_effect)
    }

    /// This table and every table that a key leads to that is read, each once.
    pub(crate) fn reached(&'static self) -> Vec<&'static KeyTable> {
        let mut found: Vec<&'static KeyTable> = vec![self];
        let mut next = 0;
        while let Some(table) = found.get(next) {
            let mut below = Vec::new();
            for key in table.list.iter().filter(|key| key.in_effect) {
                key.shape.tables(&mut below);
            }
            for table in below.into_iter().filter(|table| table.is_read()) {
                if !found.iter().any(|known| std::ptr::eq(*known, table)) {
                    found.push(table);
                }
            }
            next += 1;
        }
        found
    }
}
