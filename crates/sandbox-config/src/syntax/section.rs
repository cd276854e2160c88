//! A section as a type: one declaration is the table of its keys, the struct of its values, their
//! defaults, their accessors and their reader.

use std::marker::PhantomData;

use crate::syntax::diagnostic::DiagnosticCode;
use crate::syntax::fields::{self, Reports};
use crate::syntax::key_table::shape::ValueShape;
use crate::syntax::word::ConfigWord;
use crate::syntax::yaml::{YamlNode, YamlValue};

/// How a value is written in a file, kept in a section, and handed out.
pub(crate) trait KeyKind {
    type Value;
    type Got<'v>;
    const SHAPE: ValueShape;
    const IS_IMPLIED: bool = false;

    /// Reads a value. `None` for a mistake, which is noted.
    fn read(reports: &mut Reports, node: &YamlNode, path: &str) -> Option<Self::Value>;

    fn get(value: &Self::Value) -> Self::Got<'_>;
}

/// A kind whose declaration has a default.
pub(crate) trait BuiltIn<Written>: KeyKind {
    fn built_in(written: Written) -> Self::Value;
}

/// `true` or `false`.
pub(crate) struct Flag;

impl KeyKind for Flag {
    type Value = bool;
    type Got<'v> = bool;
    const SHAPE: ValueShape = ValueShape::Bool;

    fn read(reports: &mut Reports, node: &YamlNode, path: &str) -> Option<bool> {
        fields::boolean(reports, node, path)
    }

    fn get(value: &bool) -> bool {
        *value
    }
}

impl BuiltIn<bool> for Flag {
    fn built_in(written: bool) -> bool {
        written
    }
}

/// One of the words of an enum.
pub(crate) struct Word<T>(PhantomData<T>);

impl<T: ConfigWord> KeyKind for Word<T> {
    type Value = T;
    type Got<'v> = T;
    const SHAPE: ValueShape = T::SHAPE;

    fn read(reports: &mut Reports, node: &YamlNode, path: &str) -> Option<T> {
        fields::word(reports, node, path, T::WORDS)
    }

    fn get(value: &T) -> T {
        *value
    }
}

impl<T: ConfigWord> BuiltIn<&str> for Word<T> {
    /// Returns the first word for a word that is none of them; a test of the section finds that.
    fn built_in(written: &str) -> T {
        let found = T::WORDS.iter().find(|(word, _)| *word == written);
        found.unwrap_or(&T::WORDS[0]).1
    }
}

/// A whole number above 0 of units of this size.
pub(crate) struct Amount<const UNIT: u64 = 1>;

impl<const UNIT: u64> KeyKind for Amount<UNIT> {
    type Value = u64;
    type Got<'v> = u64;
    const SHAPE: ValueShape = ValueShape::Count;

    fn read(reports: &mut Reports, node: &YamlNode, path: &str) -> Option<u64> {
        fields::count(reports, node, path)
    }

    fn get(value: &u64) -> u64 {
        value.saturating_mul(UNIT)
    }
}

impl<const UNIT: u64> BuiltIn<u64> for Amount<UNIT> {
    fn built_in(written: u64) -> u64 {
        written
    }
}

/// As [`Amount`]. The literal is documentation only: without the key the value is `None`, and the
/// code that enforces the limit supplies its own default.
pub(crate) struct ImpliedAmount<const UNIT: u64 = 1>;

impl<const UNIT: u64> KeyKind for ImpliedAmount<UNIT> {
    type Value = Option<u64>;
    type Got<'v> = Option<u64>;
    const SHAPE: ValueShape = ValueShape::Count;
    const IS_IMPLIED: bool = true;

    fn read(reports: &mut Reports, node: &YamlNode, path: &str) -> Option<Option<u64>> {
        fields::count(reports, node, path).map(Some)
    }

    fn get(value: &Option<u64>) -> Option<u64> {
        value.map(|count| count.saturating_mul(UNIT))
    }
}

impl<const UNIT: u64> BuiltIn<u64> for ImpliedAmount<UNIT> {
    fn built_in(_: u64) -> Option<u64> {
        None
    }
}

/// A whole number above 0, or `null` for no limit.
pub(crate) struct AmountOrNull;

impl KeyKind for AmountOrNull {
    type Value = Option<u64>;
    type Got<'v> = Option<u64>;
    const SHAPE: ValueShape = ValueShape::OneOf(&[ValueShape::Count, ValueShape::Null]);

    fn read(reports: &mut Reports, node: &YamlNode, path: &str) -> Option<Option<u64>> {
        match node.value {
            YamlValue::Null => Some(None),
            _ => fields::count(reports, node, path).map(Some),
        }
    }

    fn get(value: &Option<u64>) -> Option<u64> {
        *value
    }
}

impl BuiltIn<u64> for AmountOrNull {
    fn built_in(written: u64) -> Option<u64> {
        Some(written)
    }
}

/// An amount of US dollars, kept in billionths, or `null` for no limit.
pub(crate) struct DollarsOrNull;

impl KeyKind for DollarsOrNull {
    type Value = Option<u64>;
    type Got<'v> = Option<u64>;
    const SHAPE: ValueShape = ValueShape::OneOf(&[ValueShape::Number, ValueShape::Null]);

    /// Up to the most each amount is exact; a limit of nothing would end every run before it begins.
    fn read(reports: &mut Reports, node: &YamlNode, path: &str) -> Option<Option<u64>> {
        const MOST: f64 = 1_000_000.0;
        if let YamlValue::Null = node.value {
            return Some(None);
        }
        let dollars = fields::number(reports, node, path)?;
        let nano = (dollars * 1e9).round() as u64;
        if nano == 0 || dollars > MOST {
            let message = format!("`{path}` must be an amount of US dollars above 0, such as 2.50");
            let bad = DiagnosticCode::BadValue.at(&node.span, message);
            return reports.refuse(if nano == 0 {
                bad.help("to have no limit write `null`, or leave it out")
            } else {
                bad.help(format!("at most {MOST}"))
            });
        }
        Some(Some(nano))
    }

    fn get(value: &Option<u64>) -> Option<u64> {
        *value
    }
}

/// Declares a section. A row is a doc comment, a name, a [`KeyKind`], its default, its accessor after
/// `=>` (after `as` if it is written by hand), and modifiers of the row as in
/// [`key_table!`](crate::syntax::key_table::key_table). `also` names a macro that gets the names,
/// kinds and accessors.
macro_rules! section {
    (@default $kind:ty, $default:literal) => {
        <$kind as $crate::syntax::section::BuiltIn<_>>::built_in($default)
    };
    (@getter [$($doc:literal)+] $visibility:vis $name:ident, $kind:ty) => {};
    (@getter [$($doc:literal)+] $visibility:vis $name:ident, $kind:ty, $getter:ident, $got:ty) => {
        #[doc = concat!("Returns `", stringify!($name), "`, in the unit that this method names.\n")]
        $(#[doc = $doc])+
        #[must_use]
        $visibility fn $getter(&self) -> $got {
            <$kind as $crate::syntax::section::KeyKind>::get(&self.$name)
        }
    };
    (@also [] $($rows:tt)*) => {};
    (@also [$also:ident] $($rows:tt)*) => { $also! { $($rows)* } };
    (@default $kind:ty,) => { None };
    (
        $(#[$meta:meta])*
        $visibility:vis struct $section:ident, $table:ident = $id:literal, $plural:literal;
        keys {
            $(
                $(#[doc = $doc:literal])+
                $name:ident: $kind:ty $(= $default:literal)? $(=> $getter:ident() -> $got:ty)? $(as $own:ident())?
                $(, $modifier:ident $(($argument:expr))?)*;
            )*
        }
        $(foreign $foreign:tt)?
        $(also $also:ident;)?
    ) => {
        $crate::syntax::key_table::key_table! {
            pub(crate) static $table = $id, $plural, blank;
            keys {
                $(
                    $(#[doc = $doc])+
                    $name: <$kind as $crate::syntax::section::KeyKind>::SHAPE
                    $(, default(concat!($default)))?,
                    implied(<$kind as $crate::syntax::section::KeyKind>::IS_IMPLIED)
                    $(, $modifier $(($argument))?)*;
                )*
            }
            $(foreign $foreign)?
        }

        $(#[$meta])*
        $visibility struct $section {
            $(pub(crate) $name: <$kind as $crate::syntax::section::KeyKind>::Value,)*
        }

        impl Default for $section {
            fn default() -> $section {
                $section {
                    $($name: $crate::syntax::section::section!(@default $kind, $($default)?),)*
                }
            }
        }

        impl $section {
            /// Reads the keys that a file has over the values so far.
            pub(crate) fn read(
                &mut self,
                reports: &mut $crate::syntax::fields::Reports,
                section: &$crate::syntax::fields::MappingFields<'_>,
            ) {
                $(
                    if let Some(entry) = section.get(stringify!($name)) {
                        let path = section.dotted(&entry.key);
                        let read = <$kind as $crate::syntax::section::KeyKind>::read;
                        if let Some(value) = read(reports, &entry.node, &path) {
                            self.$name = value;
                        }
                    }
                )*
            }

            $($crate::syntax::section::section! {
                @getter [$($doc)+] $visibility $name, $kind $(, $getter, $got)?
            })*
        }

        $crate::syntax::section::section! {
            @also [$($also)?] $section; $($name, $($getter)? $($own)?;)*
        }
    };
}
pub(crate) use section;
