//! Packages of npm, exactly those of a lock file, by digest. No script of a package is run.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Context, Failure};
use crate::process;
use crate::workspace;

/// The files that npm installs from.
const FILES: [&str; 2] = ["package.json", "package-lock.json"];

/// Written last, as a copy of the lock file: its packages are complete.
const COMPLETE: &str = "installed.json";

/// The packages of one lock file.
pub(super) struct Packages {
    source: PathBuf,
    dir: PathBuf,
}

/// When they were installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Installed {
    Before,
    Now,
}

impl Packages {
    /// The packages of the directory `source` of this checkout, installed below `dir`.
    pub(super) fn new(source: &str, dir: PathBuf) -> Self {
        Packages {
            source: workspace::root().join(source),
            dir,
        }
    }

    /// Returns the path of a file of an installed package.
    pub(super) fn file(&self, path: impl AsRef<Path>) -> PathBuf {
        self.dir.join("node_modules").join(path)
    }

    pub(super) fn are_installed(&self) -> bool {
        fs::read(self.dir.join(COMPLETE)).is_ok_and(|text| Some(text) == self.lock().ok())
    }

    /// Installs them, unless they are there.
    ///
    /// # Errors
    ///
    /// npm fails.
    pub(super) fn install(&self) -> Result<Installed, Failure> {
        if self.are_installed() {
            return Ok(Installed::Before);
        }
        fs::create_dir_all(&self.dir).context(self.dir.display())?;
        for file in FILES {
            let (from, to) = (self.source.join(file), self.dir.join(file));
            fs::copy(&from, &to).context(from.display())?;
        }
        let mut npm = process::command("npm");
        npm.arg("ci").current_dir(&self.dir).args([
            // Nothing of what is installed runs but what we start ourselves.
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
            // The npm of this machine may run on a Node that is too old for them.
            "--loglevel=error",
        ]);
        process::quiet(&mut npm)?;
        let complete = self.dir.join(COMPLETE);
        fs::write(&complete, self.lock()?).context(complete.display())?;
        Ok(Installed::Now)
    }

    /// Returns the text of the lock file.
    pub(super) fn lock(&self) -> Result<Vec<u8>, Failure> {
        let path = self.source.join("package-lock.json");
        fs::read(&path).context(path.display())
    }
}

#[cfg(test)]
mod tests {
    use crate::mcp::{judges, settings};
    use serde_json::Value;

    /// The digests pin what is installed; where it comes from is the machine's own business.
    #[test]
    fn every_package_is_pinned_by_its_digest_and_no_place_is_named() {
        for (packages, at_least) in [
            (judges::packages(), 100),
            (settings::packages().expect("there is a home"), 10),
        ] {
            let text = packages.lock().expect("it is in the repository");
            let lock: Value = serde_json::from_slice(&text).expect("npm wrote it");
            let packages = lock["packages"].as_object().expect("there are some");
            assert!(packages.len() > at_least, "{}", packages.len());
            for (name, package) in packages.iter().filter(|(name, _)| !name.is_empty()) {
                let digest = package["integrity"].as_str().unwrap_or_default();
                assert!(digest.starts_with("sha512-"), "{name} {digest}");
                assert_eq!(package.get("resolved"), None, "{name}");
            }
        }
    }
}
