//! A container with a node in it, from its start to its end.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use file_sandbox::{FileSandbox, SandboxPath};
use forge_node::{CallCompletion, NodeClient, NodeConnectOptions, PathMapping, Setup};
use os_sandbox::mechanism::Scratch;
use os_sandbox::{
    Access, AsyncChild, Backend, Command, Directories, HostProxy, HostSpec, Plan, Policy,
    Requirement, Sandbox, Stdio, Support,
};
use os_sandbox_docker::{Containers, Engine};
use sandbox_config::Reuse;
use tokio::io::AsyncReadExt as _;

use super::PLACE;
use super::thread::{in_nodes, on_nodes};

/// Longest start of a container and its node.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Largest part of a node's standard error that is recorded.
const MAX_SAID_BYTES: usize = 4 * 1024;

/// An engine with an image that a node was run in.
///
/// ```no_run
/// let docker = forge_runtime::ContainerSource::new();
/// let containers = docker.probe(&sandbox_config::DockerSettings::default())?;
/// println!("{} {}", containers.engine_version(), containers.digest());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct NodeContainers(pub(super) Arc<NodeContainersInner>);

#[derive(Debug)]
pub(super) struct NodeContainersInner {
    pub(super) containers: Containers,
    pub(super) reuse: Reuse,
    pub(super) state_dir: Option<PathBuf>,
    /// The command that starts forge inside.
    pub(super) command: Vec<String>,
}

impl NodeContainers {
    /// The version of the engine.
    pub fn engine_version(&self) -> &str {
        self.0.containers.engine().map_or("", Engine::version)
    }

    /// Returns the digest of the image.
    pub fn digest(&self) -> &str {
        self.0.containers.digest()
    }

    /// Runs a node and lets it read a file of this machine with random content. This proves that
    /// the engine starts containers, that forge runs in them, and that directories match inside.
    pub(super) fn prove(&self) -> Result<(), ContainersUnavailable> {
        let failed = |error: &dyn fmt::Display| {
            ContainersUnavailable::new(format!("cannot prepare a file for a container: {error}"))
        };
        let dir = Scratch::in_state(self.0.state_dir.as_deref()).map_err(|error| failed(&error))?;
        let dir_path = dir.tmp();
        let token = dir_path.to_string_lossy().into_owned();
        std::fs::write(dir_path.join("token"), &token).map_err(|error| failed(&error))?;
        let policy = Policy::builder()
            .mount(&dir_path, "/probe", Access::READ | Access::EXECUTE)
            .build()
            .map_err(|error| failed(&error))?;
        let target = SandboxPath::parse("/probe").map_err(|error| failed(&error))?;
        let mount = file_sandbox::Mount::open_ambient(
            target,
            &dir_path,
            file_sandbox::Mode::ReadOnly,
            cap_std::ambient_authority(),
        );
        let files = mount
            .and_then(|mount| FileSandbox::new(vec![mount]))
            .map_err(|error| failed(&error))?;
        let setup = Setup::new().files(&files, &PathMapping::of(&policy));
        let setup = setup.map_err(|error| failed(&error))?;
        let plan = self.plan(&policy, Requirement::Enforce);
        let plan =
            plan.map_err(|error| ContainersUnavailable::new(error.to_string()).hint(error.hint()))?;
        let path = SandboxPath::parse("/probe/token").map_err(|error| failed(&error))?;
        let this = self.clone();
        let read = in_nodes(async move {
            let node = this.start(&plan, setup, None).await?;
            let read = node.read_file(&path, 4096).await;
            read.map_err(|failure| ContainersUnavailable::new(failure.message))
        });
        match read
            .map_err(ContainersUnavailable::new)?
            .map_err(|why| ContainersUnavailable {
                why: format!("forge does not run in a container of it: {}", why.why),
                ..why
            })? {
            bytes if bytes == token.as_bytes() => Ok(()),
            _ => Err(ContainersUnavailable::new(
                "a container of it has other files than this machine",
            )),
        }
    }

    pub(super) fn plan(
        &self,
        policy: &Policy,
        requirement: Requirement,
    ) -> Result<Plan, os_sandbox::PlanError> {
        let host = Support::assume(HostSpec::default()).with_docker(self.0.containers.support());
        Plan::with_mechanism(policy, &host, requirement, Backend::Docker)
    }

    /// A container with a node in it. The proxy connects it with the hosts that the plan names.
    pub(super) async fn start(
        &self,
        plan: &Plan,
        setup: Setup,
        proxy: Option<Arc<dyn HostProxy>>,
    ) -> Result<NodeClient, ContainersUnavailable> {
        let none = || ContainersUnavailable::new("there is no program");
        let (program, rest) = self.0.command.split_first().ok_or_else(none)?;
        let mut directories = Directories::user();
        if let Some(state) = &self.0.state_dir {
            directories = directories.with_state(state);
        }
        let containers = self.0.containers.clone();
        let sandbox = Sandbox::with_mechanism(plan.clone(), directories, containers);
        let command = Command::new(&sandbox, program)
            .args(rest)
            .stdin(Stdio::Piped)
            .stdout(Stdio::Piped)
            .stderr(Stdio::Piped);
        let command = match proxy {
            Some(proxy) => command.host_proxy(proxy),
            None => command,
        };
        let mut child = command.spawn_async().await?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(mut stderr)) = streams else {
            return Err(ContainersUnavailable::new("its streams are not there"));
        };
        let heard = Arc::new(Mutex::new(Vec::new()));
        let words = Arc::clone(&heard);
        tokio::spawn(async move {
            let mut piece = [0; 1024];
            while let Ok(read @ 1..) = stderr.read(&mut piece).await {
                let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
                let room = MAX_SAID_BYTES.saturating_sub(words.len());
                words.extend_from_slice(piece.get(..read.min(room)).unwrap_or_default());
            }
        });
        let receipt = serde_json::to_value(child.enforcement()).unwrap_or_default();
        let connect = NodeConnectOptions::new(PLACE)
            .enforcement(receipt)
            .within(READY_WITHIN);
        let held = ContainerGuard(Mutex::new(Some(child)));
        let connected = NodeClient::connect_keeping(stdout, stdin, setup, connect, held).await;
        connected.map_err(|error| {
            let words = heard.lock().unwrap_or_else(PoisonError::into_inner);
            let words = forge_tools::escape_controls(String::from_utf8_lossy(&words).trim());
            ContainersUnavailable::new(match words.is_empty() {
                true => error.to_string(),
                false => format!("{error}; it said: {words}"),
            })
        })
    }
}

/// Owns a node's container; ends it on drop.
struct ContainerGuard(Mutex<Option<AsyncChild>>);

impl NodeContainers {
    /// Ends a node and waits for its container. Where files are copied, changes are then copied
    /// back and files under protected names are quarantined.
    ///
    /// # Errors
    /// In words for people: the changes were not copied back, or their state is unknown.
    pub async fn over(&self, node: NodeClient) -> Result<CallCompletion, String> {
        on_nodes(async move {
            let child = node.kept::<ContainerGuard>().and_then(|held| {
                let mut child = held.0.lock().unwrap_or_else(PoisonError::into_inner);
                child.take()
            });
            node.bye();
            let mut child = child.ok_or("its container is gone")?;
            child.wait().await.map_err(|error| said(&error))?;
            let quarantined = child.quarantined().iter();
            Ok(CallCompletion {
                exceeded: child
                    .exceeded()
                    .map(|limit| format!("{limit} (`docker.mem_limit_mb`)")),
                quarantined: quarantined
                    .map(|found| forge_tools::escape_controls(&found.path.to_string_lossy()))
                    .collect(),
                receipt: serde_json::to_value(child.enforcement()).ok(),
            })
        })
        .await
        .and_then(|over| over)
    }
}

fn said(error: &os_sandbox::Error) -> String {
    match error.hint() {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}

/// The reason why containers are unavailable, with a remediation; for people.
///
/// ```
/// let docker = forge_runtime::ContainerSource::new().host("unix:///nonexistent/docker.sock");
/// let unusable = docker.probe(&sandbox_config::DockerSettings::default()).unwrap_err();
/// assert!(!unusable.to_string().is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ContainersUnavailable {
    why: String,
    hint: Option<String>,
}

impl ContainersUnavailable {
    pub(super) fn new(why: impl Into<String>) -> Self {
        ContainersUnavailable {
            why: why.into(),
            hint: None,
        }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the remediation.
    pub fn remediation(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Both, in one text.
    pub(crate) fn with_remediation(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; to do: {hint}", self.why),
            None => self.why.clone(),
        }
    }
}

impl From<os_sandbox::Error> for ContainersUnavailable {
    fn from(error: os_sandbox::Error) -> Self {
        ContainersUnavailable {
            hint: error.hint().map(str::to_owned),
            why: error.to_string(),
        }
    }
}
