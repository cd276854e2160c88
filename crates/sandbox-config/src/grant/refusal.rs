//! Why a grant does not let something happen to a path. For people in the words of config files;
//! for models without them.

use crate::grant::Grant;
use crate::grant::escalation::list;
use crate::grant::front_end::FrontEnd;
use crate::grant::mount::Mode;
use crate::grant::verdict::Operation;
use crate::syntax::text::ConfigOrigin;

/// The right that a grant lacks for an operation on a path. Consent is a different question
/// ([`Grant::mount_approval`]), and so are suffixes, sizes and guarded names, which file tools
/// keep.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
/// use sandbox_config::{Declaration, Mode, Operation, ZoneDeclaration};
/// let reader = Declaration::zones([ZoneDeclaration::new("cache", Mode::ReadOnly)]);
/// let reader = project.ceiling().child(&reader).unwrap();
///
/// assert!(reader.refusal("/cache/a", Operation::Read).is_none());
/// let denied = reader.refusal("/cache/a", Operation::Write).unwrap();
/// assert_eq!(denied.for_person(), "Zone 'cache' is read-only for this worker");
/// assert_eq!(denied.for_model(), "'/cache' is read-only for this worker");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct AccessRefusal {
    lack: MissingRight,
    /// The name in config files; `None` if nothing has a name there.
    zone: Option<String>,
    target: String,
    available: Vec<String>,
    origin: Option<ConfigOrigin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MissingRight {
    NotHeld,
    HeldOnly,
    ReadOnly,
}

impl Grant {
    /// Returns why this may not happen to a path, as far as the held mounts decide it.
    pub fn refusal(&self, path: &str, operation: Operation) -> Option<AccessRefusal> {
        self.missing_right(path, operation)
            .or_else(|| self.holds_only(path))
    }

    fn holds_only(&self, path: &str) -> Option<AccessRefusal> {
        let mount = self.mount_at(path).filter(|mount| !mount.usable)?;
        Some(self.refused(MissingRight::HeldOnly, mount.target(), None))
    }

    fn refused(
        &self,
        lack: MissingRight,
        target: &str,
        origin: Option<&ConfigOrigin>,
    ) -> AccessRefusal {
        AccessRefusal {
            lack,
            zone: self.zone_of(target),
            target: target.to_owned(),
            available: self.usable_targets(),
            origin: origin.filter(|origin| origin.name().is_some()).cloned(),
        }
    }

    /// Why this could not be passed on, either.
    pub(crate) fn missing_right(&self, path: &str, operation: Operation) -> Option<AccessRefusal> {
        let Some(mount) = self.mount_at(path) else {
            // Listing the top shows the names of the held mounts.
            if path == "/" && operation == Operation::Read && !self.mounts.is_empty() {
                return None;
            }
            return Some(self.refused(MissingRight::NotHeld, &top(path), None));
        };
        let changes = match operation {
            Operation::Read => false,
            Operation::Write | Operation::Delete => true,
        };
        (changes && mount.mode == Mode::ReadOnly).then(|| {
            self.refused(
                MissingRight::ReadOnly,
                mount.target(),
                Some(&mount.mode_origin),
            )
        })
    }

    fn usable_targets(&self) -> Vec<String> {
        let usable = self.mounts.iter().filter(|mount| mount.usable);
        usable.map(|mount| mount.target.clone()).collect()
    }

    /// The name of a place, where places have names.
    fn zone_of(&self, target: &str) -> Option<String> {
        match self.front {
            FrontEnd::Zones => {
                let name = target.trim_start_matches('/').split('/').next()?;
                (!name.is_empty()).then(|| name.to_owned())
            }
            FrontEnd::Root | FrontEnd::Paths | FrontEnd::Mounts | FrontEnd::PathLists => None,
        }
    }
}

/// `/cache` for `/cache/a/b`: deeper names are not disclosed.
fn top(path: &str) -> String {
    let name = path.trim_start_matches('/').split('/').next();
    format!("/{}", name.unwrap_or_default())
}

impl AccessRefusal {
    /// With config words.
    #[must_use]
    pub fn for_person(&self) -> String {
        match &self.zone {
            Some(zone) => format!("Zone '{zone}' {}", self.what()),
            None => self.sentence(),
        }
    }

    /// Renders it without config words and host paths; alternatives follow on a second line.
    #[must_use]
    pub fn for_model(&self) -> String {
        let sentence = self.sentence();
        match self.lack {
            MissingRight::ReadOnly => sentence,
            MissingRight::NotHeld | MissingRight::HeldOnly => {
                let available = list(self.available.iter().map(String::as_str));
                format!("{sentence}\nAvailable: {available}")
            }
        }
    }

    /// Where it is decided, if a file says it.
    #[must_use]
    pub fn origin(&self) -> Option<&ConfigOrigin> {
        self.origin.as_ref()
    }

    fn sentence(&self) -> String {
        format!("'{}' {}", self.target, self.what())
    }

    fn what(&self) -> &'static str {
        match self.lack {
            MissingRight::NotHeld => "not available to this worker",
            MissingRight::HeldOnly => "is held by this worker to be passed on, not to be used",
            MissingRight::ReadOnly => "is read-only for this worker",
        }
    }
}
