//! A grant's usable mounts, opened: the one place where a grant becomes handles (feature `files`).

use std::path::Path;

use cap_std::AmbientAuthority;
use file_sandbox::{FileSandbox, Limits, RootStyle, SandboxPath};
use sandbox_names::QUARANTINE;

use crate::grant::Grant;
use crate::grant::file_rules::{FileRules, HardLinks};
use crate::grant::front_end::FrontEnd;
use crate::grant::mount::{Mode, Mount};
use crate::open::guards::MountGuardPatterns;
use crate::open::host_dirs::{GrantError, ensure};

/// Returns the mount for the path of a host directory.
pub type MountOpener =
    dyn Fn(&Path) -> Result<file_sandbox::Mount, file_sandbox::Error> + Send + Sync;

type OpenResult = Result<file_sandbox::Mount, GrantError>;

impl Grant {
    /// Opens the usable mounts. Missing directories inside the project are made, through no link.
    /// `None` if no mount is usable, so that no file tool can be offered.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use sandbox_config::{load, Grant, Sources};
    /// let project = load(&Sources::new(dir.path())).unwrap();
    /// let files = project.ceiling().files(cap_std::ambient_authority()).unwrap().unwrap();
    /// assert_eq!(files.writable_roots(), ["/cache", "/workspace"]);
    /// assert!(Grant::empty().files(cap_std::ambient_authority()).unwrap().is_none());
    /// ```
    ///
    /// # Errors
    /// A directory is absent, not a directory, or may not be opened.
    pub fn files(&self, authority: AmbientAuthority) -> Result<Option<FileSandbox>, GrantError> {
        self.files_beside(authority, None)
    }

    /// As [`Grant::files`], with a mount beside them that is not the grant's: files that a caller
    /// hands over.
    ///
    /// # Errors
    /// Those of [`Grant::files`], and a place where a mount is.
    pub fn files_beside(
        &self,
        authority: AmbientAuthority,
        place: Option<file_sandbox::Mount>,
    ) -> Result<Option<FileSandbox>, GrantError> {
        self.opened(place, &|mount, target, mode| {
            ensure(mount)?;
            let opened = file_sandbox::Mount::open_ambient(target, &mount.host, mode, authority)
                .map_err(|error| GrantError::of(mount, &error.to_string()))?;
            // The path was resolved when the config was read; a link that has come since leads
            // elsewhere.
            if opened.host() != Some(mount.host.as_path()) {
                return Err(GrantError::of(mount, "its directory has moved"));
            }
            Ok(opened)
        })
    }

    /// As [`Grant::files`] with mounts of another program: `open` returns a mount for its host
    /// path, such as a tree in memory. The host is not read. The grant takes rights away from these
    /// mounts, and adds none: modes, limits, protected and hidden names apply as for directories of
    /// the host.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use file_sandbox::{Mode, Mount, SandboxPath};
    /// use sandbox_config::{Sources, load};
    /// let project = load(&Sources::new(dir.path())).unwrap();
    /// let memory = Mount::memory(SandboxPath::root(), Mode::ReadWrite);
    /// let files = project.ceiling().files_of(&move |_| Ok(memory.clone()), None).unwrap().unwrap();
    /// let note = files.path("/workspace/note.md").unwrap();
    /// files.write(&note, "hello", Default::default()).unwrap();
    /// assert!(!dir.path().join(".sandbox").exists());
    /// ```
    ///
    /// # Errors
    /// `open` fails, or a place is where a mount is.
    pub fn files_of(
        &self,
        open: &MountOpener,
        place: Option<file_sandbox::Mount>,
    ) -> Result<Option<FileSandbox>, GrantError> {
        self.opened(place, &|mount, target, mode| {
            let told = |error: file_sandbox::Error| GrantError::of(mount, &error.to_string());
            let given = open(&mount.host).map_err(told)?;
            let opened = given.submount(&SandboxPath::root(), target).map_err(told)?;
            Ok(match mode {
                file_sandbox::Mode::ReadOnly => opened.read_only(),
                file_sandbox::Mode::ReadWrite => opened,
            })
        })
    }

    fn opened(
        &self,
        place: Option<file_sandbox::Mount>,
        opens: &impl Fn(&Mount, SandboxPath, file_sandbox::Mode) -> OpenResult,
    ) -> Result<Option<FileSandbox>, GrantError> {
        let style = match self.front {
            FrontEnd::Paths => RootStyle::Relative,
            FrontEnd::Zones | FrontEnd::Root | FrontEnd::Mounts | FrontEnd::PathLists => {
                RootStyle::Absolute
            }
        };
        let mut builder = FileSandbox::builder().root_style(style);
        let mut nothing = true;
        for mount in self.mounts().filter(|mount| mount.usable()) {
            let opened = self.open(mount, opens);
            builder = builder.mount(opened.map_err(|error| error.shown_by(self.front))?);
            nothing = false;
        }
        if nothing {
            return Ok(None);
        }
        if let Some(place) = place {
            builder = builder.mount(place);
        }
        let files = builder.build();
        let told = |error: file_sandbox::Error| GrantError::new("the mounts", error.to_string());
        files.map(Some).map_err(told)
    }

    fn open(
        &self,
        mount: &Mount,
        opens: &impl Fn(&Mount, SandboxPath, file_sandbox::Mode) -> OpenResult,
    ) -> OpenResult {
        let refuse = |why: String| GrantError {
            host: Some(mount.host.clone()),
            ..GrantError::of(mount, &why)
        };
        let told = |error: file_sandbox::Error| refuse(error.to_string());
        let mut limits = Limits::new();
        if let Some(suffixes) = &mount.suffixes {
            limits = limits.suffixes(suffixes);
        }
        if let Some(max) = mount.max_file_bytes {
            limits = limits.max_file_bytes(max);
        }
        limits = limits.max_write_bytes(self.limits.max_file_write_bytes(), MAX_FILE_WRITE);
        limits = ruled(limits, &mount.file_rules);
        let protected: Vec<&String> = self.protected_in(mount).collect();
        let hidden: Vec<&String> = self.hidden_in(mount).collect();
        let kept = MountGuardPatterns::on_whole(mount, protected.iter().copied());
        let unseen = MountGuardPatterns::on_whole(mount, hidden.iter().copied());
        if unseen.everything {
            return Err(refuse("its directory does not exist".into()));
        }
        let mode = match mount.open_mode() {
            Mode::ReadWrite if !kept.everything => file_sandbox::Mode::ReadWrite,
            Mode::ReadOnly | Mode::ReadWrite => file_sandbox::Mode::ReadOnly,
        };
        // A part is opened from the whole, on handles and through no link.
        let target = SandboxPath::parse(&mount.target).map_err(told)?;
        let opened = opens(mount, target.clone(), mode)?
            .with_limits(limits)
            .protect(protected.iter().copied().chain(inside(&kept, &protected)))
            .map_err(told)?
            .hide(
                (hidden.iter().copied())
                    .chain(&self.held_inside(mount))
                    .chain(inside(&unseen, &hidden)),
            )
            .map_err(told)?;
        // Commands find it empty, and its content was judged.
        let quarantine = [format!("{QUARANTINE}*")];
        let opened = opened.protect(&quarantine).map_err(told)?;
        let opened = opened.hide(&quarantine).map_err(told)?;
        let Some(part) = &mount.part else {
            return Ok(opened);
        };
        let below = SandboxPath::parse(&format!("/{}", part.below)).map_err(told)?;
        opened.submount(&below, target).map_err(told)
    }
}

/// Returns the patterns that count from the mount's top, without those of a list.
fn inside<'g>(
    guards: &'g MountGuardPatterns,
    known: &[&String],
) -> impl Iterator<Item = &'g String> {
    guards
        .inside
        .iter()
        .filter(|pattern| !known.contains(pattern))
}

impl Grant {
    /// Patterns for the places in a mount that belong to mounts which are held without being used.
    fn held_inside(&self, outer: &Mount) -> Vec<String> {
        let whole = outer.part.as_ref().map(|part| format!("/{}", part.below));
        let whole = whole.unwrap_or_default();
        self.unused_parts(outer)
            .map(|part| format!("{whole}/{}", part.way_in(outer)))
            .collect()
    }
}

/// The keys that refusals name.
const MAX_FILE_WRITE: &str = "limits.max_file_write_mb";
const MAX_TOTAL: &str = "quota.max_bytes";
const MAX_FILES: &str = "quota.max_files";

fn ruled(limits: Limits, rules: &FileRules) -> Limits {
    let limits = limits
        .strict_paths(rules.strict_paths())
        .durable(rules.durable())
        .hard_links(match rules.hard_links() {
            HardLinks::Allow => file_sandbox::HardLinks::Allow,
            HardLinks::ReadOnly => file_sandbox::HardLinks::ReadOnly,
            HardLinks::Deny => file_sandbox::HardLinks::Deny,
        });
    let limits = match rules.max_total_bytes() {
        Some(max) => limits.max_total_bytes(max, MAX_TOTAL),
        None => limits,
    };
    match rules.max_files() {
        Some(max) => limits.max_files(max, MAX_FILES),
        None => limits,
    }
}
