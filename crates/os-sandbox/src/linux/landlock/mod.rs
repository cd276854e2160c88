//! Landlock: the ruleset of a command, and the directories that it opens where nothing is mounted.

pub(super) mod private;
pub(super) mod ruleset;
