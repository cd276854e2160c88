//! Finds out whether an engine shares the host's files: it makes a file and looks for it through
//! the engine. No program of an image runs, because the container that shows the file never starts.

use super::containers::Containers;
use super::engine::Engine;
use super::transfer_container::{carrier, fetch_file};
use bollard::models::{Mount, MountType};
use os_sandbox::mechanism::{Scratch, random, static_program};
use os_sandbox::{
    Access, Backend, Command, Directories, Error, ErrorKind, Exit, Plan, Policy, Requirement,
    Sandbox, Stdio, Support,
};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Bound on the time of a program that does nothing.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// Exit code of the small program if it gets no instructions.
const UNTOLD: i32 = 125;
/// Path of the private directory in the container.
const INSIDE: &str = "/os-sandbox-probe";
/// Text in an engine's error for a mount without a source, and the status code of that answer.
const NO_SOURCE: &str = "bind source path does not exist";
const BAD_REQUEST: u16 = 400;

/// Result of trying an engine and an image.
///
/// ```no_run
/// use os_sandbox_docker::{Containers, Engine, ImageName, Settings};
///
/// let settings = Settings::new(ImageName::parse("debian:12")?);
/// let containers = Containers::new(Engine::connect(None)?, settings)?;
/// let probed = containers.probe(None)?;
/// assert!(probed.shares_files, "mounts will be copied");
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Probed {
    /// `true` if the engine shares the host's files; if not, mounts are copied.
    pub shares_files: bool,
    /// `true` if a program ran in a container; `false` if no program is available for the
    /// container's processor.
    pub ran: bool,
}

impl Containers {
    /// Tests whether commands can run: makes a container with everything that a command's container
    /// has, runs a small program of this crate in it, and removes it. No program of the image runs.
    ///
    /// # Errors
    /// The first reason against a command: [`ErrorKind::Unsupported`] if the engine does not answer
    /// any more, or cannot enforce the promises about a container; [`ErrorKind::Enforcement`] if a
    /// container does not start, or ends in an unexpected way.
    pub fn probe(&self, state_dir: Option<&Path>) -> Result<Probed, Error> {
        let engine = self.engine().ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "the container engine is only described",
            )
        })?;
        engine.ping()?;
        let shares_files = self.shares_files(state_dir)?;
        let same = self
            .image()
            .is_some_and(|image| image.architecture() == image_architecture());
        let Some(program) = static_program().filter(|_| same) else {
            return Ok(Probed {
                shares_files,
                ran: false,
            });
        };
        let scratch = Scratch::in_state(state_dir)?;
        let path = scratch.tmp().join("program");
        fs::write(&path, program)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
            .map_err(|error| Error::io("could not write into a private directory", error))?;
        let policy = Policy::builder()
            .mount(scratch.tmp(), "/", Access::READ.union(Access::EXECUTE))
            .mount(scratch.home(), "/data", Access::ALL)
            .build()?;
        let support = Support::detect().with_docker(self.support());
        let plan = Plan::with_mechanism(&policy, &support, Requirement::Enforce, Backend::Docker)?;
        let mut directories = Directories::user();
        if let Some(state_dir) = state_dir {
            directories = directories.with_state(state_dir);
        }
        let command = Command::new(
            &Sandbox::with_mechanism(plan, directories, self.clone()),
            "/work/program",
        )
        .stdin(Stdio::Null)
        .timeout(ENDS_WITHIN);
        match command.output() {
            // The program ends like this if it gets no instructions.
            Ok(output) if output.exit == Exit::Code(UNTOLD) => {}
            // The container was complete, and only the permission to execute was missing: the host
            // may forbid the execution of temporary files.
            Err(error) if error.kind() == ErrorKind::NotExecutable => {}
            Ok(output) => {
                let exit = output.exit;
                let text = format!("a container that was tried out ended with {exit}");
                return Err(Error::new(ErrorKind::Enforcement, text));
            }
            Err(error) => return Err(error),
        }
        Ok(Probed {
            shares_files,
            ran: true,
        })
    }

    /// Returns `true` if the engine shares the host's files. The process finds that out once. If
    /// the engine does not share them, the broker copies mounts to it before a command starts, and
    /// copies changes back after the command has ended. Meanwhile, a program in a running container
    /// does not see changes of the host's files.
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
        // The lock is held during the probe, so that a second caller does not repeat it.
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shares) = known.get(&key) {
            return Ok(*shares);
        }
        let shares = engine.shares_files(self.digest(), state_dir)?;
        known.insert(key, shares);
        Ok(shares)
    }
}

/// Returns this processor, in the words of images.
fn image_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

impl Engine {
    /// Returns `true` if the engine shares the host's files: the engine must show a file that was
    /// just made in a private directory. If it does not, mounts have to be copied
    /// ([`MountCopies`](super::MountCopies)).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the engine does not answer, [`ErrorKind::Enforcement`] if it
    /// does not make a container of this image, [`ErrorKind::Io`] if a private directory cannot be
    /// made.
    pub fn shares_files(&self, image: &str, state_dir: Option<&Path>) -> Result<bool, Error> {
        let scratch = Scratch::in_state(state_dir)?;
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
