//! A worker file without a project. No file grants it access, so it may touch nothing:
//! least of all the directory in which a person happens to start it.

use std::path::Path;

use crate::grant::Grant;
use crate::grant::declaration::{Declaration, MountRequest};
use crate::grant::network::NetworkAccess;
use crate::grant::published_ports::PublishedPorts;
use crate::project::Project;
use crate::syntax::diagnostic::{DiagnosticCode, Diagnostics};
use crate::syntax::read::read;
use crate::syntax::text::Layer;
use crate::syntax::yaml;
use crate::worker::{Worker, front_matter};

impl Project {
    /// Returns a worker in a file that is on no search path, and its grant when a person starts it
    /// by that file: no files, no commands, no network. Its declarations of commands and of the
    /// network have no effect.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let file = dir.path().join("haiku.worker");
    /// use sandbox_config::{load, Sources};
    /// let project = load(&Sources::new(dir.path())).unwrap();
    /// std::fs::write(&file, "---\n---\nWrite a haiku.\n").unwrap();
    /// let (worker, grant) = project.worker_alone(&file).unwrap();
    /// assert_eq!(worker.name(), "haiku");
    /// assert!(grant.mounts().next().is_none() && grant.shell().is_none());
    ///
    /// std::fs::write(&file, "---\nsandbox: { restrict: / }\n---\nWrite a haiku.\n").unwrap();
    /// let mistake = project.worker_alone(&file).unwrap_err().to_string();
    /// assert!(mistake.contains("a worker that is run by its file has no files"));
    /// ```
    ///
    /// # Errors
    /// The file holds mistakes, or asks for directories.
    pub fn worker_alone(&self, file: &Path) -> Result<(Worker, Grant), Diagnostics> {
        self.refuse_directories(file)?;
        let nothing = Grant {
            mounts: [].into(),
            pool: None,
            network: NetworkAccess::Denied,
            published_ports: PublishedPorts::default(),
            shell: None,
            ..self.read.ceiling.clone()
        };
        let worker = self.library.read(file, &nothing)?;
        let wish = Declaration {
            mounts: MountRequest::Nothing,
            network: None,
            shell: None,
            ..worker.declaration().clone()
        };
        match nothing.child(&wish) {
            Ok(grant) => Ok((worker, grant)),
            Err(escalation) => {
                let message = escalation.for_person();
                Err(DiagnosticCode::ExceedsParent
                    .error(message)
                    .in_file(worker.shown())
                    .into())
            }
        }
    }

    /// Before anything else is read: which forms the key may have depends on a project, and the
    /// answer would be about one that is not there.
    fn refuse_directories(&self, file: &Path) -> Result<(), Diagnostics> {
        let shown = self.library.shown(file);
        let text = read(file, &shown, Layer::Project).map_err(|one| Diagnostics::from(*one))?;
        let Some(front) = front_matter(&text.text) else {
            return Ok(());
        };
        // The reader of the whole file reports its mistakes.
        let Ok(Some(root)) = yaml::parse_part(&text, front) else {
            return Ok(());
        };
        let mut entries = root.as_map().into_iter().flatten();
        let asks = entries.find(|entry| {
            let keys = entry.node.as_map();
            entry.key == "sandbox" && keys.is_some_and(|keys| !keys.is_empty())
        });
        match asks {
            None => Ok(()),
            Some(entry) => Err(DiagnosticCode::ExceedsParent.at(&entry.key_span, "a worker that is run by its file has no files")
            .label("asks for directories")
            .note("only a project says which directories there are; the working directory is none")
            .help(
                "make a project with `forge init`, move the worker into its `workers` directory, \
                 and run it by name",
            )
            .into()),
        }
    }
}
