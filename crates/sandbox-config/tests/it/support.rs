//! A project in a temporary directory.

use std::path::{Path, PathBuf};

use sandbox_config::{Diagnostics, Project, Sources, load};

pub(crate) struct Scratch {
    dir: tempfile::TempDir,
}

pub(crate) const CONFIG: &str = "golem-forge.config.yaml";

impl Scratch {
    /// In a repository, as projects are: writing in place asks for nothing.
    pub(crate) fn new() -> Scratch {
        Scratch::loose().dir(".git")
    }

    /// Outside of any.
    pub(crate) fn loose() -> Scratch {
        Scratch {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn with_config(text: &str) -> Scratch {
        Scratch::new().file(CONFIG, text)
    }

    /// A file, and the directories above it.
    pub(crate) fn file(self, path: &str, text: impl AsRef<[u8]>) -> Scratch {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn dir(self, path: &str) -> Scratch {
        std::fs::create_dir_all(self.path().join(path)).unwrap();
        self
    }

    pub(crate) fn link(self, target: &str, path: &str) -> Scratch {
        std::os::unix::fs::symlink(target, self.path().join(path)).unwrap();
        self
    }

    /// Without links on the way (macOS keeps temporary files behind one).
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(crate) fn sources(&self) -> Sources {
        Sources::new(self.path())
    }

    pub(crate) fn load(&self) -> Result<Project, Diagnostics> {
        load(&self.sources())
    }

    /// The project's own place cut out of a text.
    pub(crate) fn anonymous(&self, text: &str) -> String {
        text.replace(&self.path().display().to_string(), "<project>")
    }

    /// All mistakes, as people read them.
    pub(crate) fn mistakes(&self) -> String {
        match self.load() {
            Ok(_) => "no mistakes".to_owned(),
            Err(mistakes) => self.anonymous(&mistakes.to_string()),
        }
    }
}

pub(crate) fn codes(mistakes: &Diagnostics) -> Vec<&'static str> {
    mistakes.iter().map(|one| one.code().as_str()).collect()
}

pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}
