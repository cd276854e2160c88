//! Directories of runs under Landlock alone. A plan keeps them for its next commands, together with
//! the ruleset that opens them.

use super::super::cgroup::Groups;
use super::super::pool::Pool;
use super::ruleset::{LandlockRuleset, RulesetSpec};
use crate::error::Error;
use crate::scratch::Scratch;
use crate::seccomp;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

/// Resources that a plan keeps for its next commands: directories that its commands left unchanged,
/// one shared directory, the compiled filter, control groups.
#[derive(Debug, Default)]
pub(crate) struct ScratchPool {
    kept: Pool<Arc<ScratchDir>>,
    shared: Mutex<Option<Arc<ScratchDir>>>,
    filter: OnceLock<(seccomp::FilterSpec, Vec<u8>)>,
    pub(crate) groups: Groups,
}

impl ScratchPool {
    /// Returns a directory with exactly these links in it: a kept one, or `create`'s.
    pub(crate) fn take(
        &self,
        links: &[(String, PathBuf)],
        create: impl FnOnce() -> Result<Scratch, Error>,
    ) -> Result<Arc<ScratchDir>, Error> {
        if let Some(kept) = self.kept.take()
            && kept.scratch.has(links)
        {
            return Ok(kept);
        }
        ScratchDir::with(links, create()?)
    }

    /// Returns the directory that all commands of the plan share: the end of the last background
    /// process that uses it is unknown.
    pub(crate) fn share(
        &self,
        links: &[(String, PathBuf)],
        create: impl FnOnce() -> Result<Scratch, Error>,
    ) -> Result<Arc<ScratchDir>, Error> {
        let mut shared = self
            .shared
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(shared) = &*shared
            && shared.scratch.has(links)
        {
            return Ok(Arc::clone(shared));
        }
        let made = ScratchDir::with(links, create()?)?;
        *shared = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Returns the compiled filter, which the plan keeps: compiling costs as much as installing.
    pub(crate) fn filter(&self, wanted: seccomp::FilterSpec) -> Option<Vec<u8>> {
        let compile = || {
            let program = seccomp::compile(&seccomp::table(wanted))?;
            Some((wanted, seccomp::bytes(&program)))
        };
        match self.filter.get() {
            Some((kept, bytes)) if *kept == wanted => Some(bytes.clone()),
            _ => {
                let made = compile()?;
                // Another thread may have been faster, with the same result.
                let _ = self.filter.set(made.clone());
                Some(made.1)
            }
        }
    }

    /// Keeps a directory in which the command left no files; removes any other.
    pub(crate) fn give_back(&self, place: Arc<ScratchDir>) {
        self.kept.give_back(place, |place| place.is_fresh());
    }
}

/// A private directory, and the ruleset that opens it.
#[derive(Debug)]
pub(crate) struct ScratchDir {
    scratch: Scratch,
    rules: Mutex<Option<Arc<LandlockRuleset>>>,
}

impl ScratchDir {
    pub(crate) fn create_for_probe() -> Result<ScratchDir, Error> {
        Scratch::create_for_probe().map(ScratchDir::from)
    }

    /// Creates a private directory in a directory that the caller names.
    pub(crate) fn create_in(base: &Path) -> Result<ScratchDir, Error> {
        Scratch::create_in(base).map(ScratchDir::from)
    }

    fn with(links: &[(String, PathBuf)], scratch: Scratch) -> Result<Arc<ScratchDir>, Error> {
        Ok(Arc::new(ScratchDir::from(scratch.with(links)?)))
    }

    /// Returns the ruleset of the directory: the previous one, if it still applies.
    pub(crate) fn rules(&self, wanted: &RulesetSpec<'_>) -> Result<Arc<LandlockRuleset>, Error> {
        let mut kept = self
            .rules
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(kept) = &*kept
            && kept.hold_for(wanted)
        {
            return Ok(Arc::clone(kept));
        }
        let made = Arc::new(LandlockRuleset::build(wanted)?);
        *kept = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Returns `true` if the next command finds the directory as the last one did.
    fn is_fresh(&self) -> bool {
        let top = self.home();
        let top = top.parent().unwrap_or(&top);
        self.scratch.is_fresh()
            && [top, &self.home(), &self.tmp(), &self.work()]
                .into_iter()
                .all(is_unmarked)
            && self.scratch.ways().all(|way| is_unmarked(&way))
    }

    sandbox_names::getters! {
        pub(crate) home: PathBuf = scratch.home();
        pub(crate) tmp: PathBuf = scratch.tmp();
        pub(crate) work: PathBuf = scratch.work();
    }
}

/// Returns `true` if a directory has no metadata that a command could have left: extended
/// attributes and access control lists. An unreadable directory counts as marked.
fn is_unmarked(path: &Path) -> bool {
    let mut names = [0u8; 4096];
    match rustix::fs::llistxattr(path, &mut names[..]) {
        Ok(bytes) => names[..bytes].split(|byte| *byte == 0).all(|name| {
            // Attributes that the system sets, as SELinux does for every file.
            name.is_empty() || name.starts_with(b"security.")
        }),
        Err(errno) => errno == rustix::io::Errno::NOTSUP,
    }
}

impl From<Scratch> for ScratchDir {
    fn from(scratch: Scratch) -> ScratchDir {
        ScratchDir {
            scratch,
            rules: Mutex::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_directory_that_was_written_on_is_not_used_again() {
        let base = tempfile::tempdir().expect("a directory");
        let private = ScratchDir::create_in(base.path()).expect("a private directory");
        assert!(private.is_fresh());
        let flags = rustix::fs::XattrFlags::empty();
        match rustix::fs::setxattr(private.home(), "user.note", b"x", flags) {
            Ok(()) => assert!(!private.is_fresh()),
            // This file system has none.
            Err(errno) => assert_eq!(errno, rustix::io::Errno::NOTSUP),
        }
    }

    /// Another command, which may write where programs have their temporary files, puts a link in
    /// the place of a directory that this one is about to own.
    #[test]
    fn a_link_in_the_place_of_a_private_directory_opens_nothing() {
        let abi = crate::support::Support::detect_fresh().landlock_abi();
        if abi == 0 {
            // Without Landlock a ruleset cannot be built.
            return;
        }
        let base = tempfile::tempdir().expect("a directory");
        let policy = Policy::builder().build().expect("a policy");
        for swapped in ["home", "tmp", ""] {
            let private = ScratchDir::create_in(base.path()).expect("a private directory");
            let (home, tmp) = (private.home(), private.tmp());
            let own = [home.as_path(), tmp.as_path()];
            let wanted = RulesetSpec {
                policy: &policy,
                abi,
                mounts: &[],
                private: &own,
                listed: &[],
                host_etc: true,
                host_proc: true,
                own_loopback: false,
                image: None,
            };
            private.rules(&wanted).expect("rules");
            let top = home.parent().expect("a directory");
            let elsewhere = base.path().join(format!("elsewhere{swapped}"));
            std::fs::create_dir_all(elsewhere.join("home")).expect("a directory");
            std::fs::create_dir_all(elsewhere.join("tmp")).expect("a directory");
            let place = top.join(swapped);
            let place = place.components().as_path();
            std::fs::rename(place, base.path().join(format!("aside{swapped}"))).expect("moved");
            symlink(&elsewhere, place).expect("a link");
            assert!(private.rules(&wanted).is_err(), "{swapped:?}");
        }
    }
}
