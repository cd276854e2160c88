//! Derives a narrower sandbox from a wider one. The child cannot regain the difference.

use std::ffi::OsString;

use crate::backend::{AnyDir, BackendDir as _, FileKind, block_on_ready};
use crate::error::{Error, ErrorKind, ErrorReason, Verb};
use crate::mount::mode::Mode;
use crate::mount::{Mount, hidden_by};
use crate::path::{SandboxPath, names_below};
use crate::resolve::path_walk::{FinalLink, Lookup, WalkBudget, WalkRoot, walk};
use crate::resolve::refusals::{not_found, wrong_type};
use crate::sandbox::{FileSandbox, MountTable};

/// The part of its parent's sandbox that a child keeps. By default all of it.
///
/// ```
/// use file_sandbox::{ErrorKind, FileSandbox, Mode, Mount, Restriction, SandboxPath};
///
/// # let host = tempfile::tempdir()?;
/// # let authority = cap_std::ambient_authority();
/// let data = SandboxPath::parse("/data")?;
/// let mount = Mount::open_ambient(data.clone(), host.path(), Mode::ReadOnly, authority)?;
/// let parent = FileSandbox::new(vec![mount])?;
///
/// let child = parent.restrict(&Restriction::new().keep(data.clone()))?;
/// assert_eq!(child.readable_roots(), ["/data"]);
///
/// let denied = parent.restrict(&Restriction::new().keep_as(data, Mode::ReadWrite)).unwrap_err();
/// assert_eq!(denied.kind(), ErrorKind::PermissionEscalation);
/// assert_eq!(denied.to_string(), "Child requests 'rw' on 'data' but parent only has 'ro'");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restriction {
    places: Option<Vec<(SandboxPath, Option<Mode>)>>,
    read_only: Option<bool>,
    rebase: Option<SandboxPath>,
}

impl Restriction {
    /// No restriction yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps only the paths named by further calls.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            places: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// Keeps this root or directory with its mode, and drops everything that no call keeps. Its
    /// path is unchanged: `/src/a` is still `/src/a`.
    #[must_use]
    pub fn keep(self, place: SandboxPath) -> Self {
        self.push(place, None)
    }

    /// Like [`keep`](Self::keep), with a mode, which must not exceed the one it has.
    #[must_use]
    pub fn keep_as(self, place: SandboxPath, mode: Mode) -> Self {
        self.push(place, Some(mode))
    }

    sandbox_names::setters! {
        /// `true` makes everything read-only. `false` insists that nothing is read-only already.
        read_only(read_only: bool) = Some(read_only);
        /// Keeps this directory only and makes it the child's `/`: `/src/a` becomes `/a`.
        ///
        /// ```
        /// use file_sandbox::{FileSandbox, Mode, Mount, Restriction, SandboxPath};
        ///
        /// let root = Mount::memory(SandboxPath::root(), Mode::ReadWrite);
        /// let parent = FileSandbox::new(vec![root])?;
        /// parent.write(&parent.path("/src/a.rs")?, "fn a() {}", Default::default())?;
        ///
        /// let child = parent.restrict(&Restriction::new().rebase(parent.path("/src")?))?;
        /// assert_eq!(child.read(&child.path("/a.rs")?, Default::default())?.content, "fn a() {}");
        /// assert!(!child.exists(&child.path("/src/a.rs")?)?);
        /// # Ok::<(), file_sandbox::Error>(())
        /// ```
        rebase(place: SandboxPath) = Some(place);
    }

    fn push(mut self, place: SandboxPath, mode: Option<Mode>) -> Self {
        self.places.get_or_insert_default().push((place, mode));
        self
    }
}

impl FileSandbox {
    /// Returns a sandbox with at most the permissions of this one, which is unchanged.
    ///
    /// # Errors
    /// `PERMISSION_ESCALATION` if more is requested than the parent has, or if the path to a future
    /// root contains a link; `NOT_FOUND` and `NOT_A_FILE` if it is not a directory.
    pub fn restrict(&self, to: &Restriction) -> Result<Self, Error> {
        let mut mounts: Vec<Mount> = Vec::new();
        match &to.places {
            None => mounts.extend(self.table.mounts.iter().cloned()),
            Some(places) => {
                for (place, mode) in places {
                    for mount in self.kept(place, *mode)? {
                        merge(&mut mounts, mount);
                    }
                }
            }
        }
        if let Some(place) = &to.rebase {
            let narrowed = match &to.places {
                None => self.kept(place, None)?,
                // The kept directories, as far as they are below the new top.
                Some(_) => self.with_mounts(mounts)?.kept(place, None)?,
            };
            mounts = narrowed.into_iter().map(|m| m.rebased(place)).collect();
        }
        match to.read_only {
            Some(false) if mounts.iter().any(|mount| !mount.mode().can_write()) => {
                return Err(Error::new("/", ErrorReason::Upgrade));
            }
            Some(true) => mounts = mounts.into_iter().map(Mount::read_only).collect(),
            Some(false) | None => {}
        }
        self.with_mounts(mounts)
    }

    fn with_mounts(&self, mounts: Vec<Mount>) -> Result<Self, Error> {
        let files = MountTable::new(mounts, self.table.style).map(Self::from_table)?;
        Ok(Self {
            mask: self.mask.clone(),
            ..files
        })
    }

    /// The mounts that make up one place: the one that covers it and those below it.
    fn kept(&self, place: &SandboxPath, mode: Option<Mode>) -> Result<Vec<Mount>, Error> {
        let table = &self.table;
        let mut kept = Vec::new();
        let below = |mount: &&Mount| mount.target() != place && mount.target().starts_with(place);
        kept.extend(table.mounts.iter().filter(below).cloned());
        if let Some(index) = table.mount_of(place) {
            match self.subtree(index, place) {
                Ok(mount) => kept.insert(0, mount),
                // The place is shown because of the mounts below it, and the outer mount has no
                // directory there.
                Err(error) if error.kind() == ErrorKind::NotFound && !kept.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
        if kept.is_empty() {
            let available = table
                .mounts
                .iter()
                .map(|mount| name_of(mount.target()))
                .collect();
            let place = name_of(place);
            return Err(Error::new(
                &*place,
                ErrorReason::ChildLacks {
                    place: place.clone(),
                    available,
                },
            ));
        }
        match mode {
            Some(Mode::ReadWrite) if kept.iter().any(|mount| !mount.mode().can_write()) => {
                let place_name = name_of(place);
                Err(place.error(ErrorReason::ChildMode { place: place_name }))
            }
            Some(Mode::ReadOnly) => Ok(kept.into_iter().map(Mount::read_only).collect()),
            Some(Mode::ReadWrite) | None => Ok(kept),
        }
    }

    /// Returns a directory below a mount as a mount of its own. Links are refused, so that the
    /// granted directory is the named one.
    fn subtree(&self, index: usize, place: &SandboxPath) -> Result<Mount, Error> {
        let mount = &self.table.mounts[index];
        let names = names_below(place, mount.target()).unwrap_or_default();
        if names.is_empty() {
            return Ok(mount.clone());
        }
        if hidden_by(mount, &names).is_some() {
            return Err(not_found(place, Vec::new()));
        }
        let dir = block_on_ready(self.open_subtree(index, place, &names))?;
        Ok(mount.narrowed(
            SandboxPath::from_normal(place.as_str().to_owned()),
            dir,
            &names,
        ))
    }

    async fn open_subtree(
        &self,
        index: usize,
        place: &SandboxPath,
        names: &[OsString],
    ) -> Result<AnyDir, Error> {
        let link = || {
            let place_name = name_of(place);
            place.error(ErrorReason::ChildLink { place: place_name })
        };
        let tree = WalkRoot {
            root: &self.table.mounts[index].dir,
            nested: &self.table.nested[index],
        };
        let walked = walk(
            tree,
            names.to_vec(),
            FinalLink::Keep,
            &mut WalkBudget::new(),
        )
        .await;
        let walked = walked.map_err(|_| link())?;
        if walked.real != names {
            return Err(link());
        }
        match (&walked.found, names.last()) {
            (Lookup::Missing { .. }, _) => Err(not_found(place, Vec::new())),
            (Lookup::Entry { parent, meta }, Some(name)) => match meta.kind {
                FileKind::Directory => parent
                    .open_dir(name)
                    .await
                    .map_err(|fault| self.backend_error(place, Verb::Access, fault)),
                FileKind::Link => Err(link()),
                other => Err(wrong_type(place, Verb::List, other)),
            },
            (Lookup::Root | Lookup::Entry { .. }, _) => Err(link()),
        }
    }
}

/// A path that is named twice gets the stricter mode.
fn merge(mounts: &mut Vec<Mount>, new: Mount) {
    match mounts
        .iter_mut()
        .find(|known| known.target() == new.target())
    {
        Some(known) if new.mode() < known.mode() => *known = new,
        Some(_) => {}
        None => mounts.push(new),
    }
}

/// `data` for `/data`: declarations name roots without the slash.
fn name_of(place: &SandboxPath) -> String {
    match place.as_str() {
        "/" => "/".to_owned(),
        path => path[1..].to_owned(),
    }
}
