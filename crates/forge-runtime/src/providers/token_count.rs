//! Token counts as servers report them. A count is bookkeeping: an odd one never costs the answer
//! that it came with.

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _};
use serde_json::Value;

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
        Ok(match Value::deserialize(from)? {
            Value::Number(number) => match (number.as_u64(), number.as_f64()) {
                (Some(number), _) => TokenCount(Some(number)),
                (None, Some(number)) => TokenCount::from_float(number),
                (None, None) => TokenCount::default(),
            },
            Value::String(text) => match (text.trim().parse(), text.trim().parse()) {
                (Ok(number), _) => TokenCount(Some(number)),
                (Err(_), Ok(number)) => TokenCount::from_float(number),
                (Err(_), Err(_)) => TokenCount::default(),
            },
            _ => TokenCount::default(),
        })
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

impl<'de, T: DeserializeOwned> Deserialize<'de> for OptionalCounts<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let counts = Some(Value::deserialize(from)?).filter(Value::is_object);
        let counts = counts.map(T::deserialize).transpose();
        counts.map(OptionalCounts).map_err(D::Error::custom)
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
