//! Whether an engine has our files: found out by looking for one there that was just made. Nothing of
//! an image runs for it: the container that shows the file is never started.

use super::carrier::{carrier, fetch_file};
use super::containers::Containers;
use super::engine::Engine;
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

/// How long a program may take that does nothing.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// How the small program ends if it is told nothing.
const UNTOLD: i32 = 125;
/// Where the private directory is in the container.
const INSIDE: &str = "/os-sandbox-probe";
/// What engines say of a mount whose source they do not have, and the code of that answer.
const NO_SOURCE: &str = "bind source path does not exist";
const BAD_REQUEST: u16 = 400;

/// What came of trying an engine and an image out.
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
    /// `true` if the engine has our files; if not, mounts are copied.
    pub shares_files: bool,
    /// `true` if a program ran in a container. Without: there is none at hand for its processor.
    pub ran: bool,
}

impl Containers {
    /// Finds out by running something whether commands can be run: a container with everything that a
    /// command's has is made, a small program of ours runs in it, and it is gone again. Nothing of the
    /// image runs.
    ///
    /// # Errors
    /// The one reason why not: [`ErrorKind::Unsupported`] if the engine does not answer any more,
    /// or cannot keep what is promised of a container; [`ErrorKind::Enforcement`] if a container
    /// does not start, or ends otherwise than it should.
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
            .is_some_and(|image| image.architecture() == here());
        let Some(program) = static_program().filter(|_| same) else {
            return Ok(Probed {
                shares_files,
                ran: false,
            });
        };
        let scratch = Scratch::create()?;
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
            // What it says if nobody tells it to do anything.
            Ok(output) if output.exit == Exit::Code(UNTOLD) => {}
            // Everything was there but the permission: files for a moment may not be executable.
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

/// This processor, in the words of images.
fn here() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

impl Engine {
    /// Whether what is mounted from here is the same there: a file that was just made, in a private
    /// directory, has to be seen through the engine. If it is not, mounts have to be copied
    /// ([`MountCopies`](super::MountCopies)).
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
