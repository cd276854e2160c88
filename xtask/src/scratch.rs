//! A temporary directory of our own that goes away with the value. By hand, because the usual
//! crate would make the first build on a fresh machine twice as long.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::failure::{Context, Failure};

/// How often a taken name is answered with the next one.
const TRIES: u32 = 100;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A directory that only its owner can enter, removed on drop.
#[derive(Debug)]
#[must_use]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub(crate) fn new() -> Result<Self, Failure> {
        let mut last = None;
        for _ in 0..TRIES {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("xtask-{}-{number}", std::process::id()));
            // mkdir never follows or takes over what somebody else put there.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Scratch { path }),
                Err(error) => last = Some(error),
            }
        }
        let why = last.map_or_else(String::new, |error| error.to_string());
        Err(Failure::new(format!("no temporary directory: {why}")))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it, not made yet.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nobody is left to tell; what stays behind is in the temporary directory.
        let _ = fs::remove_dir_all(&self.path).context("removing a temporary directory");
    }
}
