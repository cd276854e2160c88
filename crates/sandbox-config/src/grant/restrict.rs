//! `restrict`, `readonly`, `rebase`: a worker of a project without named zones says which subtree
//! it needs. Names stay as they are, `/src/a` is still `/src/a`; with `rebase: true` the
//! subtree becomes the worker's `/`, and that of every worker it calls: a worker that holds only
//! `/src` as `/` has no name for the directories above it. So a path in a declaration is always
//! counted from the `/` that the caller sees.

use std::path::Path;

use crate::grant::escalation::Violation;
use crate::grant::limits::Limit;
use crate::grant::mount::{Mode, Mount, MountPart, innermost, is_below};
use crate::grant::verdict::{Operation, Verdict};
use crate::syntax::text::Span;

/// The subtree that a worker asks for.
///
/// ```
/// use sandbox_config::Restrict;
/// let reader = Restrict::to("/src/").unwrap().readonly(true);
/// assert_eq!(reader.place(), "/src");
/// assert_eq!(
///     Restrict::to("src").unwrap_err().to_string(),
///     "`src` does not begin with `/`",
/// );
/// ```
#[derive(Clone, Debug)]
pub struct Restrict {
    pub(crate) place: String,
    pub(crate) place_span: Option<Span>,
    pub(crate) readonly: Option<bool>,
    pub(crate) readonly_span: Option<Span>,
    pub(crate) rebase: bool,
    pub(crate) usable: bool,
    /// Operations that a person is asked about or that are blocked in all of it.
    pub(crate) approval: Vec<(Operation, Verdict, Option<Span>)>,
}

/// Why a place cannot be restricted to.
///
/// ```
/// use sandbox_config::Restrict;
/// let error = Restrict::to("/src/../..").unwrap_err();
/// assert_eq!(error.to_string(), "`/src/../..` climbs above `/`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{place}` {why}")]
pub struct RestrictPathError {
    place: String,
    why: &'static str,
}

impl Restrict {
    /// Everything that the caller holds.
    #[must_use]
    pub fn everything() -> Restrict {
        Restrict {
            place: "/".to_owned(),
            place_span: None,
            readonly: None,
            readonly_span: None,
            rebase: false,
            usable: true,
            approval: Vec::new(),
        }
    }

    /// Returns the subtree below this path, `..` taken lexically.
    ///
    /// # Errors
    /// It does not begin with `/`, climbs above it, or holds control characters.
    pub fn to(place: &str) -> Result<Restrict, RestrictPathError> {
        Ok(Restrict {
            place: normal(place)?,
            ..Restrict::everything()
        })
    }

    /// `true`: read-only. `false`: insist on read-write.
    #[must_use]
    pub fn readonly(mut self, readonly: bool) -> Restrict {
        self.readonly = Some(readonly);
        self
    }

    /// The place becomes `/`.
    #[must_use]
    pub fn rebased(mut self) -> Restrict {
        self.rebase = true;
        self
    }

    /// `use: false`: hold it to pass it on, without touching it.
    #[must_use]
    pub fn delegate_only(mut self) -> Restrict {
        self.usable = false;
        self
    }

    /// The place, normalised: `/src`.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }
}

/// A sandbox path: absolute, without `.`, `..`, doubled and trailing slashes.
fn normal(place: &str) -> Result<String, RestrictPathError> {
    let refuse = |why| RestrictPathError {
        place: place.to_owned(),
        why,
    };
    let Some(rest) = place.strip_prefix('/') else {
        return Err(refuse("does not begin with `/`"));
    };
    if place.chars().any(char::is_control) {
        return Err(refuse("holds control characters"));
    }
    let mut names: Vec<&str> = Vec::new();
    for name in rest.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                if names.pop().is_none() {
                    return Err(refuse("climbs above `/`"));
                }
            }
            name => names.push(name),
        }
    }
    Ok(format!("/{}", names.join("/")))
}

/// One directory of an old declaration, as far as it is in the program's sandbox.
#[derive(Clone, Debug)]
pub(crate) struct NarrowedDirectory {
    pub(crate) restrict: Restrict,
    pub(crate) suffixes: Option<Vec<String>>,
    pub(crate) max_file_bytes: Option<u64>,
}

/// Returns the parts of these mounts at any of these paths. The author of an old declaration knew
/// of no parent, so a directory that is not held is left out, and nothing is an escalation.
pub(crate) fn meet_places(held: &[Mount], places: &[NarrowedDirectory]) -> Vec<Mount> {
    let mut list: Vec<Mount> = Vec::new();
    for place in places {
        let mut unheld = Vec::new();
        for mut mount in meet_restrict(held, &place.restrict, &mut unheld) {
            mount.suffixes = match (mount.suffixes.take(), &place.suffixes) {
                (Some(held), Some(own)) => {
                    Some(held.into_iter().filter(|one| own.contains(one)).collect())
                }
                (held, own) => held.or_else(|| own.clone()),
            };
            mount.max_file_bytes = mount.max_file_bytes.smaller(place.max_file_bytes);
            if !list.iter().any(|known| known.target == mount.target) {
                list.push(mount);
            }
        }
    }
    list
}

/// Returns the parts of these mounts at or below a path.
pub(crate) fn meet_restrict(
    held: &[Mount],
    wish: &Restrict,
    violations: &mut Vec<Violation>,
) -> Vec<Mount> {
    let covering = innermost(held, &wish.place).map(|mount| mount.below(wish));
    let inside =
        |mount: &&Mount| mount.target != wish.place && is_below(mount.target(), &wish.place);
    let mut kept: Vec<Mount> = covering.into_iter().collect();
    kept.extend(held.iter().filter(inside).cloned());
    if kept.is_empty() {
        let at = wish.place_span.as_ref();
        violations.push(Violation::outside(at, &wish.place, held));
    }
    if wish.readonly == Some(false)
        && let Some(upgraded) = kept.iter().find(|mount| mount.mode == Mode::ReadOnly)
    {
        violations.push(Violation::upgrade(wish.readonly_span.as_ref(), upgraded));
    }
    for mount in &mut kept {
        mount.usable = wish.usable;
        mount.approval = mount.meet_approval(&wish.approval, violations);
        if wish.readonly == Some(true) && mount.mode == Mode::ReadWrite {
            mount.mode = Mode::ReadOnly;
            if let Some(at) = &wish.readonly_span {
                mount.mode_origin = at.origin();
            }
        }
        if wish.rebase {
            mount.target = rebased(&mount.target, &wish.place);
        }
    }
    kept
}

fn rebased(target: &str, top: &str) -> String {
    let below = target.strip_prefix(top).unwrap_or(target);
    format!("/{}", below.trim_start_matches('/'))
}

impl Mount {
    /// The part of this mount at a place below its target; itself if that is its target.
    fn below(&self, wish: &Restrict) -> Mount {
        let place = wish.place.as_str();
        let names = place.strip_prefix(self.target()).unwrap_or_default();
        let names = names.trim_start_matches('/');
        if names.is_empty() {
            return self.clone();
        }
        let below = match &self.part {
            Some(part) => format!("{}/{names}", part.below),
            None => names.to_owned(),
        };
        Mount {
            target: wish.place.clone(),
            part: Some(MountPart {
                host: self.host.join(Path::new(&below)),
                below,
                origin: wish.place_span.as_ref().map(Span::origin),
            }),
            ..self.clone()
        }
    }

    /// The names from the mount's own directory down to the part that is held; empty: all of it.
    #[cfg(any(feature = "files", feature = "process"))]
    pub(crate) fn part_names(&self) -> impl Iterator<Item = &str> {
        let below = self.part.as_ref().map_or("", |part| part.below.as_str());
        below.split('/').filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_normal() {
        for (place, expected) in [
            ("/", Ok("/")),
            ("/src", Ok("/src")),
            ("/src/", Ok("/src")),
            ("//src//lib/.", Ok("/src/lib")),
            ("/src/../docs", Ok("/docs")),
            ("/..", Err("climbs above `/`")),
            ("/a/../../b", Err("climbs above `/`")),
            ("", Err("does not begin with `/`")),
            ("src", Err("does not begin with `/`")),
            ("./src", Err("does not begin with `/`")),
            ("~/src", Err("does not begin with `/`")),
            ("C:\\src", Err("does not begin with `/`")),
            ("/a\0b", Err("holds control characters")),
            ("/a\nb", Err("holds control characters")),
        ] {
            let read = Restrict::to(place).map(|wish| wish.place);
            let expected = expected.map(str::to_owned);
            assert_eq!(read.map_err(|error| error.why), expected, "{place:?}");
        }
    }
}
