//! The front-ends: what project files call the directories they give. All lower to the same rows
//! of one mount table.

pub(crate) mod zones;
