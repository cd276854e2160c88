//! The reference: `Policy::allows`, asked about where the described tree really has the paths.

use crate::case::Case;
use crate::fixtures::Fixtures;
use crate::policy::{assumed_top, outside};
use crate::verdict::Seen;
use crate::world::{places, words};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The words of a case in the assumed world.
pub(crate) fn assumed_words(fixtures: &Fixtures, case: &Case) -> Vec<String> {
    let top = assumed_top();
    let values = BTreeMap::from([("outside".to_owned(), outside(&top))]);
    words(case, &values, |path| fixtures.policy(case).host(&top, path))
}

/// Where its paths are there.
pub(crate) fn assumed_places(fixtures: &Fixtures, case: &Case) -> Vec<Option<PathBuf>> {
    let words = assumed_words(fixtures, case);
    places(fixtures.tree(case), &assumed_top(), case, &words)
}

pub(crate) fn ask(fixtures: &Fixtures, case: &Case) -> Result<Seen, String> {
    let policy = fixtures.policy(case).policy(&assumed_top(), None)?;
    let places = assumed_places(fixtures, case);
    for ((_, _, access), place) in case.verb.uses().iter().zip(places) {
        let Some(place) = place else {
            return Ok(Seen::Denied("a loop".to_owned()));
        };
        if !policy.allows(&place, *access) {
            return Ok(Seen::Denied(format!("no {access} of {}", place.display())));
        }
    }
    Ok(Seen::Through(String::new()))
}
