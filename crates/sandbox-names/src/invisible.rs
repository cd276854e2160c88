//! The characters that a reader does not see: one table for every place that prints names and texts
//! of others.

/// Characters that are invisible or look like another one. Unicode 16.0: the general categories Cf,
/// Zl, Zp and, of Zs, all but the space itself (`extracted/DerivedGeneralCategory.txt`), the
/// property Default_Ignorable_Code_Point (`DerivedCoreProperties.txt`), and the braille pattern
/// that is blank. In order.
static INVISIBLE: &[(char, char)] = &[
    ('\u{a0}', '\u{a0}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{2000}', '\u{200f}'),
    ('\u{2028}', '\u{202f}'),
    ('\u{205f}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3000}', '\u{3000}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Returns `true` for a character that is invisible or looks like another one. Controls are apart
/// ([`char::is_control`]).
///
/// ```
/// use sandbox_names::invisible::is_invisible;
/// assert!(is_invisible('\u{202e}') && is_invisible('\u{3164}') && !is_invisible('é'));
/// ```
#[must_use]
pub fn is_invisible(c: char) -> bool {
    let after = INVISIBLE.partition_point(|(first, _)| *first <= c);
    after > 0 && c <= INVISIBLE[after - 1].1
}

#[cfg(test)]
mod tests {
    use super::INVISIBLE;

    #[test]
    fn the_table_is_in_order() {
        assert!(INVISIBLE.is_sorted_by(|a, b| a.1 < b.0));
    }
}
