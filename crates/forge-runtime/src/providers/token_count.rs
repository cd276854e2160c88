//! Token counts as servers report them. A count is bookkeeping: an odd one never costs the answer
//! that it came with.

use std::fmt::{Formatter, Result as Written};
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A number of tokens. Fractions are rounded up, and a number above [`u64::MAX`] counts as that, so
/// that a limit on tokens holds; a negative number, and any other value, counts as missing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenCount(Option<u64>);

impl TokenCount {
    /// The number; zero if it is missing.
    pub(super) fn or_zero(self) -> u64 {
        self.0.unwrap_or(0)
    }

    /// This count, or `earlier` if this one is missing.
    pub(super) fn or(self, earlier: TokenCount) -> TokenCount {
        TokenCount(self.0.or(earlier.0))
    }

    fn from_float(number: f64) -> Self {
        // A cast of floats stays in bounds.
        TokenCount((number >= 0.0).then_some(number.ceil() as u64))
    }
}

impl<'de> Deserialize<'de> for TokenCount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TokenCountVisitor)
    }
}

/// Defines visits of values that count as missing.
macro_rules! missing {
    ($($visit:ident($($kind:ty)?)),+) => {$(
        fn $visit<E: Error>(self $(, _: $kind)?) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
    )+};
}

struct TokenCountVisitor;

impl<'de> Visitor<'de> for TokenCountVisitor {
    type Value = TokenCount;

    fn expecting(&self, f: &mut Formatter<'_>) -> Written {
        f.write_str("a number of tokens")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<TokenCount, E> {
        Ok(TokenCount(Some(number)))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<TokenCount, E> {
        Ok(TokenCount(u64::try_from(number).ok()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<TokenCount, E> {
        Ok(TokenCount::from_float(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<TokenCount, E> {
        let text = text.trim();
        Ok(match (text.parse(), text.parse()) {
            (Ok(number), _) => TokenCount(Some(number)),
            (Err(_), Ok(number)) => TokenCount::from_float(number),
            (Err(_), Err(_)) => TokenCount::default(),
        })
    }

    missing! { visit_bool(bool), visit_unit() }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<TokenCount, A::Error> {
        while from.next_element::<IgnoredAny>()?.is_some() {}
        Ok(TokenCount::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<TokenCount, A::Error> {
        while from.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(TokenCount::default())
    }
}

/// An object of counts; any other value counts as missing.
#[derive(Debug)]
pub(super) struct OptionalCounts<T>(pub(super) Option<T>);

impl<T> Default for OptionalCounts<T> {
    fn default() -> Self {
        OptionalCounts(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OptionalCounts<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(OptionalCountsVisitor(PhantomData))
    }
}

struct OptionalCountsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OptionalCountsVisitor<T> {
    type Value = OptionalCounts<T>;

    fn expecting(&self, f: &mut Formatter<'_>) -> Written {
        f.write_str("numbers of tokens")
    }

    fn visit_map<A: MapAccess<'de>>(self, from: A) -> Result<OptionalCounts<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(from)).map(|counts| OptionalCounts(Some(counts)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, from: A) -> Result<OptionalCounts<T>, A::Error> {
        TokenCountVisitor
            .visit_seq(from)
            .map(|_| OptionalCounts(None))
    }

    missing! {
        visit_u64(u64), visit_i64(i64), visit_f64(f64), visit_str(&str), visit_bool(bool), visit_unit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_counts() {
        let rows = [
            ("7", Some(7)),
            ("-7", None),
            ("7.2", Some(8)),
            ("-0.5", None),
            ("1e30", Some(u64::MAX)),
            ("99999999999999999999", Some(u64::MAX)),
            ("\"12\"", Some(12)),
            ("\" 1.5e1 \"", Some(15)),
            ("\"NaN\"", None),
            ("\"many\"", None),
            ("null", None),
            ("true", None),
            ("[1, [2]]", None),
            ("{\"a\": {\"b\": 1}}", None),
        ];
        for (text, expected) in rows {
            let read: TokenCount = serde_json::from_str(text).unwrap();
            assert_eq!(read, TokenCount(expected), "{text}");
        }
    }
}
