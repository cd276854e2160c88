//! The one check: compares the result of an attempt with the expectation of the case for the
//! column. A result without an explanation in the fixtures is an error, and so is an explanation
//! that no result needs any more.

use crate::case::{Case, Cell, Listed};
use crate::column::Column;

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It succeeded, with this output.
    Through(String),
    Denied(String),
}

/// Compares one result with the case. `listed` is the state of the case's promise in the plan.
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
        // `Case::cell` has resolved these for the present user.
        (Cell::AllowRoot(_) | Cell::GapNotRoot, _) => "nobody knows for whom".to_owned(),
        (Cell::NotPosed, _) => "posed where it should not be".to_owned(),
    };
    Err(format!("{}: {:?}: {wrong}", column.name(), case.name))
}
