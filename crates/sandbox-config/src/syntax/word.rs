//! Values that are one of a closed list of words.

use crate::syntax::key_table::shape::ValueShape;

/// A type whose values are words in a file.
pub(crate) trait ConfigWord: Copy + 'static {
    const WORDS: &'static [(&'static str, Self)];
    const NAMES: &'static [&'static str];
    const SHAPE: ValueShape = ValueShape::Words(Self::NAMES, &[]);
}

/// Declares an enum whose variants are written as words, in the order in which messages list them.
macro_rules! words {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$meta])*
        $vis enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $crate::syntax::word::ConfigWord for $name {
            const WORDS: &'static [(&'static str, $name)] = &[$(($word, $name::$variant)),+];
            const NAMES: &'static [&'static str] = &[$($word),+];
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $($name::$variant => $word,)+
                })
            }
        }
    };
}
pub(crate) use words;
