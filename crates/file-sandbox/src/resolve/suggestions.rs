//! Suggests existing names for a missing one. A suggestion is shown, never used silently.

use std::ffi::{OsStr, OsString};

use unicode_normalization::UnicodeNormalization as _;

use crate::backend::{AnyDir, BackendDir as _, BackendNames as _, FileKind};
use crate::text::escape;

/// Entries compared; in a larger directory the suggestion may miss the best name.
const MAX_ENTRIES: usize = 2_000;
const MAX_SUGGESTED: usize = 3;
/// If a name is this close, the others are not suggested.
const CLOSE: u32 = 400;

/// Returns at most three names in `dir`, the nearest first.
pub(crate) async fn suggest(
    dir: &AnyDir,
    missing: &OsStr,
    visible: impl Fn(&OsString) -> bool,
) -> Vec<String> {
    let Ok(mut entries) = dir.names().await else {
        return Vec::new();
    };
    let asked = fold(&escape::escape_name(missing));
    let mut scored: Vec<(u32, String)> = Vec::new();
    for _ in 0..MAX_ENTRIES {
        let Ok(Some((name, kind))) = entries.next().await else {
            break;
        };
        // A placeholder of the OS sandbox, mostly; no tool reads one.
        if !matches!(kind, Some(FileKind::Socket)) && visible(&name) {
            let name = escape::escape_name(&name).into_owned();
            scored.push((distance(&asked, &fold(&name)), name));
        }
    }
    scored.sort();
    if scored.first().is_some_and(|(best, _)| *best <= CLOSE) {
        scored.retain(|(score, _)| *score <= CLOSE);
    }
    scored
        .into_iter()
        .take(MAX_SUGGESTED)
        .map(|(_, name)| name)
        .collect()
}

/// Folds names that look alike into one form: composed or not (macOS decomposes), with any space
/// (U+202F before "PM" in the names of macOS screenshots), any quotation mark, in any case.
fn fold(name: &str) -> String {
    name.nfkc()
        .map(|c| match c {
            c if c.is_whitespace() => ' ',
            '\u{2018}' | '\u{2019}' => '\'',
            '\u{201c}' | '\u{201d}' => '"',
            '\u{2010}'..='\u{2015}' => '-',
            c => c,
        })
        .flat_map(char::to_lowercase)
        .collect()
}

/// Returns the distance in thousandths, 0 for names that look alike. A shared stem counts as near,
/// because a wrong extension is the most frequent mistake.
fn distance(asked: &str, name: &str) -> u32 {
    let whole = strsim::normalized_damerau_levenshtein(asked, name);
    let stems = strsim::normalized_damerau_levenshtein(stem(asked), stem(name)) * 0.9;
    thousandths(1.0 - whole.max(stems))
}

fn stem(name: &str) -> &str {
    match name.rfind('.') {
        Some(dot) if dot > 0 => &name[..dot],
        _ => name,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value lies between 0 and 1000"
)]
fn thousandths(part: f64) -> u32 {
    (part.clamp(0.0, 1.0) * 1000.0) as u32
}
