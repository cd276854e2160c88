//! The one check: what was seen against what the case says of the column. Nothing gets through
//! because nobody looked: an answer that no word of the fixtures explains is wrong, and so is a
//! word that explains nothing any more.

use crate::case::{Case, Cell, Listed};
use crate::column::Column;

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It worked, and said this.
    Through(String),
    Denied(String),
}

/// Holds one answer against the case. `listed` says what the plan makes of the case's promise.
pub(crate) fn judge(
    case: &Case,
    column: Column,
    seen: &Seen,
    listed: Option<Listed>,
) -> Result<(), String> {
    let wrong = match (case.cell(column), seen) {
        (Cell::Allow | Cell::AllowBut(_), Seen::Through(_))
        | (Cell::Deny | Cell::DenyBut(_), Seen::Denied(_)) => return Ok(()),
        (Cell::Gap, Seen::Through(_)) => match listed {
            Some(Listed::Open | Listed::Refused) => return Ok(()),
            Some(Listed::No) | None => "SILENTLY ALLOWED: the plan lists no such gap".to_owned(),
        },
        (Cell::Deny, Seen::Through(text)) => match listed {
            Some(Listed::Open | Listed::Refused) => {
                format!("got through, listed by the plan and not by the case: {text:?}")
            }
            Some(Listed::No) | None => format!("SILENTLY ALLOWED: {text:?}"),
        },
        (Cell::Allow, Seen::Denied(text)) => format!("denied without a difference: {text}"),
        (Cell::Gap, Seen::Denied(text)) => format!("no gap any more: {text}"),
        (Cell::AllowBut(_), Seen::Denied(text)) => {
            format!("the difference does not show any more: {text}")
        }
        (Cell::DenyBut(_), Seen::Through(text)) => {
            format!("the difference does not show any more: {text:?}")
        }
        // A case says it for everybody, and is asked for one.
        (Cell::AllowRoot(_) | Cell::GapNotRoot, _) => "nobody knows for whom".to_owned(),
        (Cell::NotPosed, _) => "posed where it should not be".to_owned(),
    };
    Err(format!("{}: {:?}: {wrong}", column.name(), case.name))
}
