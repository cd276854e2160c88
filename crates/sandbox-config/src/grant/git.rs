//! The repositories that a worker may pull from and stage for, compared by exact address: a chain
//! of grants can only lose repositories, and the right to stage for one.

use std::sync::Arc;

use crate::grant::declaration::{Declaration, RepositoryRequest};
use crate::grant::escalation::Violation;
use crate::grant::mount::Mode;
use crate::syntax::text::{ConfigOrigin, Span};

/// A repository that may be used.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::write(dir.path().join("golem-forge.config.yaml"), "
/// # git:
/// #   repositories:
/// #     - { repo: ./remotes/x.git, access: ro }
/// # ").unwrap();
/// use sandbox_config::{Declaration, Mode, Sources, load};
/// let project = load(&Sources::new(dir.path())).unwrap();
/// let repository = &project.ceiling().repositories()[0];
/// assert_eq!((repository.name(), repository.access()), ("./remotes/x.git", Mode::ReadOnly));
/// assert!(repository.address().ends_with("/remotes/x.git"));
/// // A worker that does not ask for it does not get it, and none gets more of it.
/// assert!(project.ceiling().child(&Declaration::none()).unwrap().repositories().is_empty());
/// let more = [(repository.address(), Mode::ReadWrite)];
/// assert!(project.ceiling().child(&Declaration::none().with_repositories(more)).is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    pub(crate) address: String,
    pub(crate) name: String,
    pub(crate) access: Mode,
    pub(crate) origin: ConfigOrigin,
}

impl Repository {
    sandbox_names::getters! {
        /// Where it is: `file://` and an absolute path, or an address in the spelling of
        /// [`Sources::repository_check`](crate::Sources::repository_check). Decides.
        pub address: &str = &address;
        /// Returns the name, as the file that grants it spells it. Shows no path of the host that the
        /// file does not.
        pub name: &str = &name;
        /// `ro`: pulled from. `rw`: staged for, too.
        pub access: Mode = access;
        /// Returns the row that grants it or, if a worker asked for less of it, that one.
        pub origin: &ConfigOrigin = &origin;
    }

    /// Returns `true` if it is a directory of this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.address.starts_with("file://")
    }
}

impl Declaration {
    /// Ask for repositories, by address.
    #[must_use]
    pub fn with_repositories(
        mut self,
        repositories: impl IntoIterator<Item = (impl Into<String>, Mode)>,
    ) -> Declaration {
        let wish = |(address, access): (_, Mode)| {
            let address: String = Into::into(address);
            RepositoryRequest {
                name: address.clone(),
                address,
                access,
                at: None,
                implied: false,
            }
        };
        self.repositories = Some(repositories.into_iter().map(wish).collect());
        self
    }
}

/// Returns the held part of the requests; the rest is noted.
pub(crate) fn meet(
    held: &[Repository],
    wishes: &[RepositoryRequest],
    violations: &mut Vec<Violation>,
) -> Arc<[Repository]> {
    let mut met: Vec<Repository> = Vec::new();
    for wish in wishes {
        let at = wish.at.as_ref();
        let Some(found) = held.iter().find(|held| held.address == wish.address) else {
            let names = held.iter().map(Repository::name);
            violations.push(Violation::no_repository(at, &wish.name, names));
            continue;
        };
        if wish.access > found.access {
            let (implied, parent) = (wish.implied, &found.origin);
            violations.push(Violation::repository(at, implied, &wish.name, parent));
        }
        let narrows = wish.access < found.access;
        let access = wish.access.min(found.access);
        let own = at.filter(|_| narrows).map(Span::origin);
        let origin = own.unwrap_or_else(|| found.origin.clone());
        match met.iter_mut().find(|one| one.address == wish.address) {
            Some(twin) => twin.access = twin.access.min(access),
            None => met.push(Repository {
                access,
                origin,
                ..found.clone()
            }),
        }
    }
    met.into()
}
