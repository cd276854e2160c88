//! How other tools spell a restriction, and how forge does. A restriction that is spelled in
//! another tool's words and ignored would not hold: its author must be told, and told forge's word.
//! These apply in every mapping; a spelling with a meaning in one mapping only is in that mapping's
//! own table, which is asked first.

/// Our words for a key of other tools. `allowedTools`, `allowed_tools` and `allowed-tools` are one
/// spelling.
pub(crate) fn our_words(key: &str) -> Option<&'static str> {
    matching(KEYS, key).next()
}

/// Our words for a value of other tools: a tool's name, a mode.
pub(crate) fn our_values(value: &str) -> impl Iterator<Item = &'static str> {
    matching(VALUES, value)
}

fn matching(table: &'static str, word: &str) -> impl Iterator<Item = &'static str> {
    let is_kept = |c: &char| !matches!(c, '_' | '-' | '.' | ' ');
    // No spelling of the tables is longer, and a foreign word may be of any length.
    let short = Some(word).filter(|word| word.len() <= 48).unwrap_or("");
    let plain: String = short.chars().filter(is_kept).collect();
    let plain = plain.to_ascii_lowercase();
    rows(table)
        .filter(move |(spellings, _)| spellings.split(' ').any(|one| one == plain))
        .map(|(_, words)| words)
}

fn rows(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut lines = table.lines().map(str::trim_start);
    std::iter::from_fn(move || lines.next().zip(lines.next()))
}

/// Spellings without separators, in lower case, and below them ours.
const KEYS: &str = include_str!("other_keys.txt");

/// As [`KEYS`], of values.
const VALUES: &str = include_str!("other_values.txt");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn one_spelling_means_one_thing() {
        let mut seen = BTreeSet::new();
        for spelling in rows(KEYS).flat_map(|(spellings, _)| spellings.split(' ')) {
            assert!(seen.insert(spelling), "{spelling} twice");
            assert!(
                spelling.chars().all(|c| c.is_ascii_lowercase()),
                "{spelling}"
            );
        }
    }
}
