//! Probing of a container engine: runs a container in the way of later calls, and works with copies
//! where the engine does not see the files of this machine.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use os_sandbox_docker::{Address, Containers, Engine, ImageName, Settings};
use sandbox_config::{ContainerNetwork, Reuse};

use super::NODE;
use super::node_containers::{ContainersUnavailable, NodeContainers, NodeContainersInner};
use crate::containers::image::VERSION_LABEL;
use crate::containers::{INSIDE, ProgramBundle};

/// Different engines or images that one process knows.
const MAX_KNOWN: usize = 16;

/// A source of containers: an engine, and the program that runs in them. The engine is probed by
/// running a container, once for each image, when a worker needs it. The default has no engine.
///
/// ```
/// use forge_runtime::ContainerSource;
/// // Nothing has been looked for yet.
/// let docker = ContainerSource::new().host("tcp://127.0.0.1:9");
/// # let _ = docker;
/// ```
#[derive(Debug, Clone, Default)]
pub struct ContainerSource {
    /// `false`: no engine is used, even if one is installed.
    reached: bool,
    host: Option<String>,
    certificates: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    ssh: Option<(PathBuf, OsString)>,
    program: Option<fn() -> Result<ProgramBundle, String>>,
    path_check: Option<PathCheck>,
    known: Arc<Mutex<Vec<ProbedEngine>>>,
}

/// A function that returns a path with its fault, if commands can change where it ends.
type PathFault = dyn Fn(&Path) -> Option<String> + Send + Sync;

#[derive(Clone)]
struct PathCheck(Arc<PathFault>);

impl fmt::Debug for PathCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathCheck").finish_non_exhaustive()
    }
}

/// The result of a probe.
type ProbeResult = Result<NodeContainers, ContainersUnavailable>;

#[derive(Debug)]
struct ProbedEngine {
    asked: sandbox_config::DockerSettings,
    tried: ProbeResult,
}

impl ContainerSource {
    /// The engine at the usual place.
    pub fn new() -> Self {
        ContainerSource {
            reached: true,
            ..ContainerSource::default()
        }
    }

    sandbox_names::setters! {
        /// The engine at `host`, written as in `DOCKER_HOST`. A project that names one has its own.
        host(host: impl Into<String>) = Some(host.into());
        /// Sets the directory of the TLS certificates for the engine, as in `DOCKER_CERT_PATH`.
        certificates(directory: impl Into<PathBuf>) = Some(directory.into());
        /// Sets the state directory, which identifies the containers of this program where several
        /// programs share an engine.
        state_dir(directory: impl Into<PathBuf>) = Some(directory.into());
        /// Sets the ssh program that reaches an engine, and its `PATH`. Without them they are the
        /// system's own.
        ssh(program: Option<(PathBuf, OsString)>) = program;
        /// Sets the function that provides the program for containers whose image does not contain
        /// forge, or the reason why that is impossible.
        program(program: fn() -> Result<ProgramBundle, String>) = Some(program);
    }

    /// The hint for an engine that commands could replace.
    pub const UNTRUSTED_HINT: &str = "move the socket or the certificates to a directory in which \
         no command writes, and name it in DOCKER_HOST or DOCKER_CERT_PATH";

    /// Returns the refusal of an engine, with the path that commands could change and its fault.
    pub fn untrusted(why: &str) -> String {
        format!("a command could choose the container engine: {why}")
    }

    /// Sets the check of the engine's local socket and certificates. An engine is not used if the
    /// check returns a fault: its answers are what forge reports, and it gets the files of mounts.
    #[must_use]
    pub fn path_check(
        mut self,
        fault: impl Fn(&Path) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.path_check = Some(PathCheck(Arc::new(fault)));
        self
    }

    /// Probes the engine once for the life of this process and returns the cached result later.
    /// Blocks until the engine answers.
    ///
    /// # Errors
    /// [`ContainersUnavailable`].
    pub fn probe(
        &self,
        asked: &sandbox_config::DockerSettings,
    ) -> Result<NodeContainers, ContainersUnavailable> {
        // Held while it is tried, so that it is done once.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.iter().find(|known| known.asked == *asked) {
            return found.tried.clone();
        }
        let tried = self.look(asked);
        if known.len() == MAX_KNOWN {
            known.remove(0);
        }
        known.push(ProbedEngine {
            asked: asked.clone(),
            tried: tried.clone(),
        });
        tried
    }

    fn look(&self, asked: &sandbox_config::DockerSettings) -> ProbeResult {
        if !self.reached {
            return Err(ContainersUnavailable::new(
                "nothing that runs containers is available",
            ));
        }
        let engine = self.engine(asked)?;
        let name = ImageName::parse(asked.image())?;
        let image = engine.image(&name)?;
        let image = image.ok_or_else(|| {
            ContainersUnavailable::new(format!(
                "the container engine does not have the image {name}"
            ))
            .hint("build it with `forge image build`, or name one that is there in `docker.image`")
        })?;
        let mut settings = settings_for(asked, name)?;
        let own = image.labels().get(VERSION_LABEL);
        let own = own.is_some_and(|version| version == env!("CARGO_PKG_VERSION"));
        let own = own && image.entrypoint().ends_with(&NODE.map(str::to_owned));
        let command = match own {
            // It says by itself how forge is started in it.
            true => image.entrypoint().to_vec(),
            false => {
                let program = self.program_for(&settings)?;
                for part in program.parts() {
                    settings = settings.mount(part.host(), format!("{INSIDE}/{}", part.name()))?;
                }
                [program.command(), NODE.map(str::to_owned).to_vec()].concat()
            }
        };
        let ready = |engine, settings| {
            Ok::<_, ContainersUnavailable>(NodeContainers(Arc::new(NodeContainersInner {
                containers: Containers::new(engine, settings)?,
                reuse: asked.reuse(),
                state_dir: self.state_dir.clone(),
                command: command.clone(),
            })))
        };
        // Almost every engine has our files, and to find that out costs another container.
        let here = ready(engine.clone(), settings.clone().shares_files(true))?;
        let Err(why) = here.prove() else {
            return Ok(here);
        };
        let there = ready(engine, settings)?;
        match there.0.containers.shares_files(self.state_dir.as_deref()) {
            Ok(false) => {}
            Ok(true) | Err(_) => return Err(why),
        }
        check_copies(asked.reuse(), own)?;
        there.prove()?;
        Ok(there)
    }

    /// Returns the program for an image without forge.
    fn program_for(&self, settings: &Settings) -> Result<ProgramBundle, ContainersUnavailable> {
        let Some(program) = &self.program else {
            return Err(ContainersUnavailable::new(format!(
                "the image {} has no forge of this version",
                settings.image()
            ))
            .hint("build one with `forge image build`"));
        };
        program().map_err(ContainersUnavailable::new)
    }

    /// Connects to the engine.
    fn engine(
        &self,
        asked: &sandbox_config::DockerSettings,
    ) -> Result<Engine, ContainersUnavailable> {
        let mut address = match asked.host().or(self.host.as_deref()) {
            Some(host) => Address::parse(host)?,
            None => Address::default(),
        };
        if let Some(PathCheck(fault)) = &self.path_check {
            let mut paths = address.paths(self.certificates.as_deref()).into_iter();
            if let Some(why) = paths.find_map(|path| fault(&path)) {
                let refused = ContainersUnavailable::new(ContainerSource::untrusted(&why));
                return Err(refused.hint(ContainerSource::UNTRUSTED_HINT));
            }
        }
        if let Some((program, path)) = &self.ssh {
            address = address.ssh(program, path);
        }
        if let Some(directory) = &self.certificates {
            address = address.with_certificates(directory)?;
        }
        let engine = Engine::at(address)?;
        engine.reap_once(self.state_dir.as_deref());
        Ok(engine)
    }
}

/// Returns the settings of containers for `asked`.
fn settings_for(
    asked: &sandbox_config::DockerSettings,
    name: ImageName,
) -> Result<Settings, ContainersUnavailable> {
    let settings = Settings::new(name)
        .cpu_milli(asked.cpu_limit_milli())
        .memory_bytes(asked.mem_limit_bytes())
        .pids(asked.pids_limit())
        .read_only_root(asked.read_only_root())
        .own_program(true)
        .network(match asked.network() {
            ContainerNetwork::None => "none",
            ContainerNetwork::Bridge => "bridge",
        })?;
    Ok(settings)
}

/// Checks that copies of the files can replace mounts on an engine without them.
fn check_copies(reuse: Reuse, own: bool) -> Result<(), ContainersUnavailable> {
    let elsewhere = "the container engine does not see the files of this machine";
    match (reuse, own) {
        (Reuse::Call, true) => Ok(()),
        (Reuse::Session, _) => Err(ContainersUnavailable::new(format!(
            "{elsewhere}, and a container that lives through many calls would not bring \
                 them back after each"
        ))
        .hint("set `docker.reuse: call`, or use an engine of this machine")),
        (Reuse::Call, false) => Err(ContainersUnavailable::new(format!(
            "{elsewhere}, and so not forge; there is no forge of this version in the image"
        ))
        .hint("build one there with `forge image build --base IMAGE`")),
    }
}
