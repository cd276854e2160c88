//! Lists from a server, with a bound on their length.
//!
//! An empty item is three bytes on the wire and a hundred times that in memory, so that a bound
//! on bytes alone bounds little; the reading stops at the first item that is too many.

use std::fmt::{Formatter, Result as Written};
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use crate::model::ModelError;

/// Most items of one list, and most calls or blocks of one answer: hardly more than the calls of
/// a turn that would be made, each of the others being refused in a line of its own.
pub(super) const MAX_ITEMS: usize = 2_048;

/// Items of a list that was not too long.
#[derive(Debug)]
pub(super) struct BoundedList<T>(Vec<T>);

impl<T> Default for BoundedList<T> {
    fn default() -> Self {
        BoundedList(Vec::new())
    }
}

impl<T> BoundedList<T> {
    sandbox_names::getters! {
        pub(super) iter: std::slice::Iter<'_, T> = 0.iter();
        pub(super) is_empty: bool = 0.is_empty();
    }
}

impl<T> IntoIterator for BoundedList<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for BoundedList<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(BoundedListVisitor(PhantomData))
    }
}

struct BoundedListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for BoundedListVisitor<T> {
    type Value = BoundedList<T>;

    fn expecting(&self, f: &mut Formatter<'_>) -> Written {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<BoundedList<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element()? {
            if items.len() == MAX_ITEMS {
                return Err(A::Error::custom(format_args!(
                    "a list of more than {MAX_ITEMS} items"
                )));
            }
            items.push(item);
        }
        Ok(BoundedList(items))
    }
}

/// Checks that an answer may have one more item.
pub(super) fn room(items: usize, what: &str) -> Result<(), ModelError> {
    match items < MAX_ITEMS {
        true => Ok(()),
        false => Err(ModelError::Malformed(format!(
            "it has more than {MAX_ITEMS} {what}"
        ))),
    }
}
