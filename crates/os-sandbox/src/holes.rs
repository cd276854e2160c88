//! Published holes of bubblewrap, by version, and the mitigation of each. A version tells only the
//! known holes. A probe tells if a mechanism works (`linux/detect.rs`). Distributions fix holes
//! without a new version, so a listed hole may be closed; the opposite error would be worse.

use crate::support::{Bubblewrap, Support};
use std::fmt;

/// Major, minor and patch. A missing number is 0.
type Version = [u32; 3];

/// A published hole of the detected `bwrap`.
///
/// ```
/// use os_sandbox::{HostSpec, Support};
///
/// let host = |version: &str| Support::assume(HostSpec {
///     bubblewrap: Some(version.to_owned()),
///     pins_by_descriptor: true,
///     ..HostSpec::default()
/// });
/// let holes = host("0.11.1").known_holes();
/// assert_eq!(holes[0].id(), "CVE-2026-87766");
/// assert!(holes[0].covered_by().is_some());
/// assert!(host("0.12.0").known_holes().is_empty());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownVulnerability {
    id: &'static str,
    what: &'static str,
    covered_by: Option<&'static str>,
}

impl KnownVulnerability {
    sandbox_names::getters! {
        /// Returns its number, such as `CVE-2026-87766`.
        pub id: &'static str = id;
        /// Returns a description of the hole.
        pub what: &'static str = what;
        /// Returns the mitigation on this host; `None` if the hole is open, which plans then report.
        pub covered_by: Option<&'static str> = covered_by;
    }
}

impl fmt::Display for KnownVulnerability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, what) = (self.id, self.what);
        match self.covered_by {
            Some(by) => write!(f, "{id} ({what}): covered, {by}"),
            None => write!(f, "{id} ({what}): open"),
        }
    }
}

/// The general mitigation of a hole.
#[derive(Clone, Copy)]
enum Mitigation {
    /// Only set-id programs have the hole, and those are not used.
    NotSetId,
    /// The options that we use are newer than the fix, so that a vulnerable version does not work.
    TooOld,
    Filter,
    PinsByDescriptor,
}

struct VulnerabilityEntry {
    id: &'static str,
    /// The first version with the hole, and the first without it.
    versions: [Version; 2],
    what: &'static str,
    cover: Mitigation,
}

/// The newest first.
const TABLE: [VulnerabilityEntry; 5] = [
    VulnerabilityEntry {
        id: "CVE-2026-87766",
        versions: [[0, 0, 0], [0, 12, 0]],
        what: "makes missing mount points through links",
        cover: Mitigation::PinsByDescriptor,
    },
    VulnerabilityEntry {
        id: "CVE-2026-41163",
        versions: [[0, 11, 0], [0, 11, 2]],
        what: "set-id, its set-up can be traced",
        cover: Mitigation::NotSetId,
    },
    VulnerabilityEntry {
        id: "CVE-2020-5291",
        versions: [[0, 4, 0], [0, 4, 1]],
        what: "set-id, keeps root's rights while it can be traced",
        cover: Mitigation::NotSetId,
    },
    VulnerabilityEntry {
        id: "CVE-2019-12439",
        versions: [[0, 0, 0], [0, 3, 3]],
        what: "mounts on a directory in /tmp that others can prepare",
        cover: Mitigation::TooOld,
    },
    VulnerabilityEntry {
        id: "CVE-2017-5226",
        versions: [[0, 0, 0], [0, 1, 5]],
        what: "commands push input into the caller's terminal",
        cover: Mitigation::Filter,
    },
];

impl Support {
    /// Returns the published holes of this host's bubblewrap with their mitigations. If the version
    /// cannot be parsed, returns all of them.
    #[must_use]
    pub fn known_holes(&self) -> Vec<KnownVulnerability> {
        let Some(found) = self.bubblewrap() else {
            return Vec::new();
        };
        TABLE
            .iter()
            .filter(|row| row.concerns(found))
            .map(|row| KnownVulnerability {
                id: row.id,
                what: row.what,
                covered_by: row.cover.here(self),
            })
            .collect()
    }

    /// Returns `true` if bubblewrap makes mount points inside mounts, and through links.
    pub(crate) fn makes_places_through_links(&self) -> bool {
        self.known_holes()
            .iter()
            .any(|hole| hole.id == TABLE[0].id && hole.covered_by.is_none())
    }
}

impl VulnerabilityEntry {
    fn concerns(&self, found: &Bubblewrap) -> bool {
        let [from, until] = self.versions;
        parse(found.version()).is_none_or(|version| (from..until).contains(&version))
    }
}

impl Mitigation {
    fn here(self, support: &Support) -> Option<&'static str> {
        match self {
            Mitigation::NotSetId => Some("a set-id bwrap is not used"),
            Mitigation::TooOld => Some("the options that are used came later"),
            Mitigation::Filter => support.seccomp().then_some("the filter refuses it"),
            Mitigation::PinsByDescriptor => support
                .pins_by_descriptor()
                .then_some("what lies inside mounts is made by descriptor"),
        }
    }
}

/// Parses at most three numbers. Ignores the text after the digits of a part.
fn parse(version: &str) -> Option<Version> {
    let mut out = [0; 3];
    for (index, (slot, part)) in out.iter_mut().zip(version.split('.')).enumerate() {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        match part[..digits].parse() {
            Ok(number) => *slot = number,
            Err(_) if index == 0 => return None,
            Err(_) => break,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::HostSpec;

    fn host(version: &str, pins_by_descriptor: bool, seccomp: bool) -> Support {
        Support::assume(HostSpec {
            bubblewrap: Some(version.to_owned()),
            pins_by_descriptor,
            seccomp,
            ..HostSpec::default()
        })
    }

    #[test]
    fn each_version_has_its_holes() {
        for (version, want) in [
            ("0.1.4", &["2026-87766", "2019-12439", "2017-5226"][..]),
            ("0.1.5", &["2026-87766", "2019-12439"]),
            ("0.3.3", &["2026-87766"]),
            ("0.4.0", &["2026-87766", "2020-5291"]),
            ("0.8.0", &["2026-87766"]),
            ("0.11.0", &["2026-87766", "2026-41163"]),
            ("0.11.1", &["2026-87766", "2026-41163"]),
            ("0.11.2", &["2026-87766"]),
            ("0.12", &[]),
            ("0.12.0-rc1", &[]),
            ("1", &[]),
            (
                "unknown",
                &[
                    "2026-87766",
                    "2026-41163",
                    "2020-5291",
                    "2019-12439",
                    "2017-5226",
                ],
            ),
        ] {
            let holes = host(version, true, true).known_holes();
            let ids: Vec<&str> = holes.iter().map(|hole| &hole.id["CVE-".len()..]).collect();
            assert_eq!(ids, want, "{version}");
            assert!(holes.iter().all(|hole| hole.covered_by.is_some()));
        }
    }

    #[test]
    fn what_covers_them_is_looked_at() {
        for (pins, seccomp, open) in [
            (true, true, &[][..]),
            (false, true, &["CVE-2026-87766"]),
            (true, false, &["CVE-2017-5226"]),
        ] {
            let support = host("unknown", pins, seccomp);
            let left: Vec<&str> = support
                .known_holes()
                .iter()
                .filter(|hole| hole.covered_by.is_none())
                .map(|hole| hole.id)
                .collect();
            assert_eq!(left, open);
            assert_eq!(support.makes_places_through_links(), !pins);
        }
        assert!(!host("0.12.0", false, true).makes_places_through_links());
    }
}
