//! The meet of a mount table and named wishes. Rights differ by place: a part of a mount may have
//! rights of its own, and then it goes where the whole goes.

use std::collections::{BTreeMap, BTreeSet};

use crate::grant::declaration::ZoneDeclaration;
use crate::grant::escalation::Violation;
use crate::grant::mount::{Mount, is_below};

sandbox_names::word_enum! {
    /// The other side of the meet with a worker's own declaration of directories.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # std::fs::write(dir.path().join("golem-forge.config.yaml"), "\
    /// # sandbox: { paths: { a: { root: ./a, mode: rw } } }
    /// # delegation: { child_sandbox_policy: own }
    /// # ".replace("\n# ", "\n")).unwrap();
    /// # let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
    /// use sandbox_config::{Declaration, MountSource, Mode, ZoneDeclaration};
    /// let nothing = project.ceiling().child(&Declaration::none()).unwrap();
    /// let own = Declaration::zones([ZoneDeclaration::new("a", Mode::ReadOnly)]);
    /// // The caller holds nothing, and the project lets each worker have the rights that it declares.
    /// let child = nothing.child(&own).unwrap();
    /// assert_eq!(child.drawn_from(), MountSource::Project);
    /// assert_eq!(child.mount_access("a"), Some(Mode::ReadOnly));
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum MountSource {
        /// The caller's directories: own declaration ∩ caller.
        Caller = "caller",
        /// The project's directories: own declaration ∩ project. For the project itself, too.
        Project = "project",
    }
    fn word
}

sandbox_names::display!(MountSource = word());

/// In the parent's order; a zone named twice counts once.
pub(crate) fn meet_zones(
    held: &[Mount],
    zones: &[ZoneDeclaration],
    violations: &mut Vec<Violation>,
) -> Vec<Mount> {
    let wishes: BTreeMap<&str, &ZoneDeclaration> = zones
        .iter()
        .rev()
        .map(|zone| (zone.name.as_str(), zone))
        .collect();
    let names: BTreeSet<&str> = held.iter().map(Mount::name).collect();
    for zone in zones.iter().filter(|zone| !names.contains(zone.name())) {
        violations.push(Violation::missing(
            zone.name_span.as_ref(),
            &zone.name,
            held,
        ));
    }
    let asked: Vec<(&Mount, &ZoneDeclaration)> = held
        .iter()
        .filter_map(|mount| Some((mount, *wishes.get(mount.name())?)))
        .collect();
    held.iter()
        .filter_map(|mount| match wishes.get(mount.name()) {
            Some(wish) => Some(mount.meet(wish, violations)),
            None => Some(mount.meet_as_part(enclosing_request(mount, &asked)?)),
        })
        .collect()
}

/// Returns the request for the innermost mount that is asked for and has this one below it. A
/// nested mount comes along: without its row a part of the outer mount would have the rights of the
/// whole, and a covered directory would be uncovered.
fn enclosing_request<'w>(
    part: &Mount,
    asked: &[(&Mount, &'w ZoneDeclaration)],
) -> Option<&'w ZoneDeclaration> {
    asked
        .iter()
        .filter(|(mount, _)| part.is_nested_in(mount))
        .max_by_key(|(mount, _)| mount.target.len())
        .map(|(_, wish)| *wish)
}

impl Mount {
    /// Returns the mount as far as the request for the whole asks for this part, too; never an
    /// escalation, because the declaration does not name this part.
    fn meet_as_part(&self, wish: &ZoneDeclaration) -> Mount {
        let mut unasked = Vec::new();
        let mut wish = wish.clone();
        wish.approval
            .retain(|(operation, wanted, _)| *wanted >= self.approval.stated(*operation).ceiling());
        self.meet(&wish, &mut unasked)
    }

    /// Returns `true` if the mount point is below that of another mount.
    pub(crate) fn is_nested_in(&self, outer: &Mount) -> bool {
        self.target != outer.target && is_below(&self.target, &outer.target)
    }

    /// Returns `true` if this is a directory inside another mount, shown at its own path there.
    #[cfg(feature = "process")]
    pub(crate) fn is_part_of(&self, outer: &Mount) -> bool {
        self.is_nested_in(outer) && self.host().starts_with(outer.host())
    }

    /// The place of a nested mount from the directory that is held of the outer one: `vendor/lib`.
    #[cfg(any(feature = "files", feature = "process"))]
    pub(crate) fn way_in<'m>(&'m self, outer: &Mount) -> &'m str {
        let way = self.target.strip_prefix(outer.target()).unwrap_or_default();
        way.trim_start_matches('/')
    }
}
