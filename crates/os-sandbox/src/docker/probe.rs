//! Whether an engine has our files: found out by looking for one there that was just made. Nothing of
//! an image runs for it: the container that shows the file is never started.

use super::carrier::{carrier, fetch_file};
use super::containers::Containers;
use super::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::scratch::{Scratch, random};
use bollard::models::{Mount, MountType};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Where the private directory is in the container.
const INSIDE: &str = "/os-sandbox-probe";
/// What engines say of a mount whose source they do not have, and the code of that answer.
const NO_SOURCE: &str = "bind source path does not exist";
const BAD_REQUEST: u16 = 400;

impl Containers {
    /// Whether its engine has our files; found out once in this process. Where it has not, mounts are
    /// copied to it before a command starts, and what was changed comes back after its end. A program
    /// in a container that lives on sees nothing of what is changed here meanwhile.
    ///
    /// # Errors
    /// Those of [`Engine::shares_files`].
    pub fn shares_files(&self, state_dir: Option<&Path>) -> Result<bool, Error> {
        static KNOWN: Mutex<BTreeMap<(String, String), bool>> = Mutex::new(BTreeMap::new());
        if let Some(said) = self.settings().shares_files {
            return Ok(said);
        }
        let Some(engine) = self.engine() else {
            return Ok(true);
        };
        let key = (engine.address().to_string(), self.digest().to_owned());
        // Held meanwhile: whoever asks second need not find it out again.
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shares) = known.get(&key) {
            return Ok(*shares);
        }
        let shares = engine.shares_files(self.digest(), state_dir)?;
        known.insert(key, shares);
        Ok(shares)
    }
}

impl Engine {
    /// Whether what is mounted from here is the same there: a file that was just made, in a private
    /// directory, has to be seen through the engine. If it is not, mounts have to be copied
    /// ([`Copies`](super::Copies)).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the engine does not answer, [`ErrorKind::Enforcement`] if it
    /// makes no container of this image, [`ErrorKind::Io`] if there is no private directory.
    pub fn shares_files(&self, image: &str, state_dir: Option<&Path>) -> Result<bool, Error> {
        let scratch = Scratch::create()?;
        let token = format!("{:016x}{:016x}", random(), random());
        let path = scratch.tmp().join("token");
        fs::write(&path, &token)
            .map_err(|error| Error::io("could not write into a private directory", error))?;
        let source = scratch
            .tmp()
            .into_os_string()
            .into_string()
            .map_err(|path| {
                let path = path.display();
                Error::new(
                    ErrorKind::Invalid,
                    format!("the directory {path} is not UTF-8"),
                )
            })?;
        let mount = Mount {
            target: Some(INSIDE.to_owned()),
            source: Some(source),
            typ: Some(MountType::BIND),
            read_only: Some(true),
            ..Mount::default()
        };
        let container = match carrier(self, image, vec![mount], self.labels(state_dir))? {
            Ok(container) => container,
            Err(bollard::errors::Error::DockerResponseServerError {
                status_code: BAD_REQUEST,
                message,
            }) if message.contains(NO_SOURCE) => return Ok(false),
            Err(error) => return Err(self.failed("make a container to try it out", &error)),
        };
        let path = format!("{INSIDE}/token");
        let seen = fetch_file(self, container.id(), &path, token.len() as u64)?;
        Ok(seen.is_some_and(|bytes| bytes == token.as_bytes()))
    }
}
