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
    /// `true` if leaving the key out is not the same as writing its default.
    pub(crate) is_implied: bool,
    /// A mapping without it is a mistake.
    pub(crate) required: bool,
    /// The help of that mistake. `{name}` is the name of the entry that lacks the key.
    pub(crate) if_absent: &'static str,
    pub(crate) merge: MergeRule,
    /// When a project or worker file needs a person's yes for it; empty: never.
    pub(crate) trust: &'static str,
    /// The role in a user file, unless it follows from the rest of the row.
    user: Option<UserKeyRole>,
    /// `true` if each entry of the mapping has that role.
    pub(crate) user_each: bool,
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

/// The role of a key in a user file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UserKeyRole {
    /// The value is an upper limit for every project.
    Limit(MeetRule),
    /// A preference that any later layer replaces.
    Preference,
    /// An entry replaces the project's entry of that name as a whole.
    Whole,
    /// Concerns the user file itself.
    Own,
    /// The user file must not have the key; the text is the reason.
    No(&'static str),
}

/// How two values of one key meet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MeetRule {
    /// `false`, then fewer hosts, then `true`.
    Network,
    /// `closed`, then fewer sockets, then `open`.
    Sockets,
    /// `approval.mode`, by strictness.
    Mode,
    /// The stricter verdict; `true` is `ask`.
    Consent,
    /// The stricter word or switch, of these from the loosest to the strictest.
    Stricter(&'static [&'static str]),
    /// The smaller number.
    Least,
    /// Both lists.
    Unite,
    /// The blocked rules of both; a user file has no others.
    Blocked,
    /// The intersection of both lists; nothing is the default.
    Within,
    /// The repositories of both lists, with the smaller access; none is the default.
    Repositories,
    /// The intersection of both lists; everything is the default.
    Only,
}

impl MeetRule {
    /// `true` if either says so.
    pub(crate) const TRUE: MeetRule = MeetRule::Stricter(&["false", "true"]);
    /// `false` if either says so.
    pub(crate) const FALSE: MeetRule = MeetRule::Stricter(&["true", "false"]);
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
            is_implied: false,
            required: false,
            if_absent: "",
            merge: MergeRule::Meet,
            trust: "",
            user: None,
            user_each: false,
        }
    }

    /// Documents the key and refuses it by name.
    pub(crate) const fn reserved(mut self) -> KeySpec {
        self.in_effect = false;
        self
    }

    pub(crate) const fn shape(mut self, shape: ValueShape) -> KeySpec {
        self.shape = shape;
        self
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

    pub(crate) const fn implied(mut self, is_implied: bool) -> KeySpec {
        self.is_implied = is_implied;
        self
    }

    pub(crate) const fn required(mut self, if_absent: &'static str) -> KeySpec {
        self.required = true;
        self.if_absent = if_absent;
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

/// The role in the user file.
impl KeySpec {
    /// Returns the role. A number is a limit, a preference one of the user's, and lists that unite
    /// do so; any other row names its role.
    pub(crate) fn role(&self) -> Option<UserKeyRole> {
        let derived = match self.merge {
            MergeRule::LastLayer => Some(UserKeyRole::Preference),
            MergeRule::Union => Some(UserKeyRole::Limit(MeetRule::Unite)),
            MergeRule::Meet => match self.shape {
                ValueShape::Count
                | ValueShape::Number
                | ValueShape::OneOf([ValueShape::Count | ValueShape::Number, ValueShape::Null]) => {
                    Some(UserKeyRole::Limit(MeetRule::Least))
                }
                _ => None,
            },
        };
        self.user.or(derived)
    }

    pub(crate) const fn user(mut self, role: UserKeyRole) -> KeySpec {
        self.user = Some(role);
        self
    }

    /// The value of a user file is a limit.
    pub(crate) const fn user_limit(self, meet: MeetRule) -> KeySpec {
        self.user(UserKeyRole::Limit(meet))
    }

    /// The words, from the loosest to the strictest: the value of a user file is a limit.
    pub(crate) const fn stricter(self, order: &'static [&'static str]) -> KeySpec {
        self.user_limit(MeetRule::Stricter(order))
    }

    pub(crate) const fn user_limits_each(mut self, meet: MeetRule) -> KeySpec {
        self.user_each = true;
        self.user_limit(meet)
    }

    /// An entry of a user file replaces the project's of that name.
    pub(crate) const fn user_owns_each(mut self) -> KeySpec {
        self.user_each = true;
        self.user(UserKeyRole::Whole)
    }

    /// Refused in a user file, because.
    pub(crate) const fn project_only(self, why: &'static str) -> KeySpec {
        self.user(UserKeyRole::No(why))
    }
}

impl KeyTable {
    /// Returns the row of a key, for another table that has it too. Does not compile if this table
    /// lacks the key.
    pub(crate) const fn key(&self, name: &str) -> KeySpec {
        let mut at = 0;
        while !is_equal(self.list[at].name.as_bytes(), name.as_bytes()) {
            at += 1;
        }
        self.list[at]
    }

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

const fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// Returns the text of a doc comment, whose lines begin with a space each.
pub(crate) const fn sentence(doc: &str) -> &str {
    doc.split_at(1).1
}

/// Declares a [`KeyTable`]: its id, the words before the list of its keys, and `blank` if `key:`
/// without a value is an empty mapping. A row is a doc comment, a name, a shape and modifiers, which
/// are methods of [`KeySpec`], or `name of TABLE` for a row of another table.
macro_rules! key_table {
    (@row [] $name:ident [of $table:ident] [$($modifier:ident $(($argument:expr))?),*]) => {
        $table.key(stringify!($name)) $(.$modifier($($argument)?))*
    };
    (@row [$($doc:literal)+] $name:ident [: $shape:expr] [$($modifier:ident $(($argument:expr))?),*]) => {
        $crate::syntax::key_table::KeySpec::new(
            stringify!($name),
            $shape,
            $crate::syntax::key_table::sentence(concat!($($doc),+)),
        ) $(.$modifier($($argument)?))*
    };
    (@blank) => { false };
    (@blank blank) => { true };
    (@foreign) => { &[] };
    (@foreign $foreign:expr) => { $foreign };
    (
        $visibility:vis static $table:ident = $id:literal, $plural:literal $(, $blank:ident)?;
        keys {
            $(
                $(#[doc = $doc:literal])*
                $name:ident $(of $other:ident)? $(: $shape:expr)?
                $(, $modifier:ident $(($argument:expr))?)*;
            )*
        }
        $(foreign { $($($foreign:literal)|+ => $help:expr,)* })?
        $(foreign = $all_foreign:expr;)?
    ) => {
        $visibility static $table: $crate::syntax::key_table::KeyTable =
            $crate::syntax::key_table::KeyTable {
                id: $id,
                plural: $plural,
                may_be_blank: $crate::syntax::key_table::key_table!(@blank $($blank)?),
                list: &[$(
                    $crate::syntax::key_table::key_table!(
                        @row [$($doc)*] $name [$(of $other)? $(: $shape)?]
                            [$($modifier $(($argument))?),*]
                    ),
                )*],
                foreign: $crate::syntax::key_table::key_table!(
                    @foreign $($all_foreign)? $(&[$($(($foreign, $help),)+)*])?
                ),
            };
    };
}
pub(crate) use key_table;
