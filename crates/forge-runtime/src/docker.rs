//! Where containers come from, and nodes in them: from an engine that was tried out once, by running
//! something, to a node that holds what one worker holds.
//!
//! What runs inside is forge itself. An image that was built for that has it; into containers of any
//! other image this program is shown, read-only, with what it needs to run ([`Program`]).

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use file_sandbox::{FileSandbox, SandboxPath};
use forge_tools::node::{Connect, Node, NodeRunner, NodeSource, NodeStarter, Over, Places, Setup};
use forge_tools::{
    BoxFuture, Code, EventKind, Failure, PolicyEvent, Processes, Ran, ToolboxBuilder,
};
use os_sandbox::docker::{Address, Engine, ImageName, Settings};
use os_sandbox::{
    Access, Assumed, AsyncChild, Backend, Command, Plan, Policy, Quarantined, Requirement, Stdio,
    Support, docker,
};
use sandbox_config::{ContainerNetwork, Grant, Reuse};
use tokio::io::AsyncReadExt as _;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::containers::image::VERSION_LABEL;
use crate::containers::{INSIDE, Program};
use crate::equip::{EquipError, hosts_not_kept, programs};

/// Where calls are said to run.
const PLACE: &str = "docker";
/// What forge is told to be inside.
const NODE: [&str; 3] = ["node", "serve", "--stdio"];
/// How long a container and the node in it may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// What is kept of what a node says on standard error.
const MAX_SAID_BYTES: usize = 4 * 1024;
/// Different engines or images that one process knows.
const MAX_KNOWN: usize = 16;

/// Where containers come from: an engine, and the program that runs in them. What it can do is found
/// out by running something, once for each image, when a worker needs it. The default is from nowhere.
///
/// ```
/// use forge_runtime::Docker;
/// // Nothing has been looked for yet.
/// let docker = Docker::new().host("tcp://127.0.0.1:9");
/// # let _ = docker;
/// ```
#[derive(Debug, Clone, Default)]
pub struct Docker {
    /// Otherwise there is no engine, wherever one may be.
    reached: bool,
    host: Option<String>,
    certificates: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    program: Option<fn() -> Result<Program, String>>,
    known: Arc<Mutex<Vec<Known>>>,
}

/// What came of trying.
type Tried = Result<Containers, Unusable>;

#[derive(Debug)]
struct Known {
    asked: sandbox_config::Docker,
    tried: Tried,
}

/// Why no containers can be run, and what to do about it; for people.
///
/// ```
/// let docker = forge_runtime::Docker::new().host("unix:///nonexistent/docker.sock");
/// let unusable = docker.try_out(&sandbox_config::Docker::default()).unwrap_err();
/// assert!(!unusable.to_string().is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unusable {
    why: String,
    hint: Option<String>,
}

impl Unusable {
    fn new(why: impl Into<String>) -> Self {
        Unusable {
            why: why.into(),
            hint: None,
        }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What to do.
    #[must_use]
    pub fn what_to_do(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl From<os_sandbox::Error> for Unusable {
    fn from(error: os_sandbox::Error) -> Self {
        Unusable {
            hint: error.hint().map(str::to_owned),
            why: error.to_string(),
        }
    }
}

/// An engine with an image that a node was run in.
///
/// ```no_run
/// let docker = forge_runtime::Docker::new();
/// let containers = docker.try_out(&sandbox_config::Docker::default())?;
/// println!("{} {}", containers.engine_version(), containers.digest());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Containers(Arc<Ready>);

#[derive(Debug)]
struct Ready {
    containers: docker::Containers,
    reuse: Reuse,
    state_dir: Option<PathBuf>,
    /// How forge is started inside.
    command: Vec<String>,
}

impl Docker {
    /// The engine at the usual place.
    #[must_use]
    pub fn new() -> Self {
        Docker {
            reached: true,
            ..Docker::default()
        }
    }

    /// The engine at `host`, written as in `DOCKER_HOST`. A project that names one has its own.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// What speaks for an engine that is reached over TLS, as in `DOCKER_CERT_PATH`.
    #[must_use]
    pub fn certificates(mut self, directory: impl Into<PathBuf>) -> Self {
        self.certificates = Some(directory.into());
        self
    }

    /// Whose containers they are, where several programs share an engine.
    #[must_use]
    pub fn state_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(directory.into());
        self
    }

    /// Finds what is to run in containers whose image has no forge of its own: this program, or why
    /// that cannot be.
    #[must_use]
    pub fn program(mut self, program: fn() -> Result<Program, String>) -> Self {
        self.program = Some(program);
        self
    }

    /// Tries it out, if nobody has yet: the answer is the same as long as this process lives. Waits
    /// for the engine.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn try_out(&self, asked: &sandbox_config::Docker) -> Result<Containers, Unusable> {
        // Held while it is tried, so that it is done once.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.iter().find(|known| known.asked == *asked) {
            return found.tried.clone();
        }
        let tried = self.look(asked);
        if known.len() == MAX_KNOWN {
            known.remove(0);
        }
        known.push(Known {
            asked: asked.clone(),
            tried: tried.clone(),
        });
        tried
    }

    /// The same, in a sentence.
    pub(crate) fn containers(&self, asked: &sandbox_config::Docker) -> Result<Containers, String> {
        self.try_out(asked).map_err(|error| error.to_string())
    }

    fn look(&self, asked: &sandbox_config::Docker) -> Tried {
        if !self.reached {
            return Err(Unusable::new("nothing that runs containers is available"));
        }
        let mut address = match asked.host().or(self.host.as_deref()) {
            Some(host) => Address::parse(host)?,
            None => Address::default(),
        };
        if let Some(directory) = &self.certificates {
            address = address.with_certificates(directory)?;
        }
        let engine = Engine::at(address)?;
        engine.reap_once(self.state_dir.as_deref());
        let name = ImageName::parse(asked.image())?;
        let image = engine.image(&name)?;
        let image = image.ok_or_else(|| {
            Unusable::new(format!(
                "the container engine does not have the image {name}"
            ))
            .hint("build it with `forge image build`, or name one that is there in `docker.image`")
        })?;
        let mut settings = Settings::new(name)
            .cpu_milli(asked.cpu_limit_milli())
            .memory_bytes(asked.mem_limit_bytes())
            .pids(asked.pids_limit())
            .read_only_root(asked.read_only_root())
            .own_program(true)
            .network(match asked.network() {
                ContainerNetwork::None => "none",
                ContainerNetwork::Bridge => "bridge",
            })?;
        let own = image.labels().get(VERSION_LABEL);
        let own = own.is_some_and(|version| version == env!("CARGO_PKG_VERSION"));
        let own = own && image.entrypoint().ends_with(&NODE.map(str::to_owned));
        let command = match own {
            // It says by itself how forge is started in it.
            true => image.entrypoint().to_vec(),
            false => {
                let program = match &self.program {
                    Some(program) => program().map_err(Unusable::new)?,
                    None => {
                        return Err(Unusable::new(format!(
                            "there is no forge of this version in the image {}",
                            settings.image()
                        ))
                        .hint("build one with `forge image build`"));
                    }
                };
                for part in program.parts() {
                    settings = settings.mount(part.host(), format!("{INSIDE}/{}", part.name()))?;
                }
                [program.command(), NODE.map(str::to_owned).to_vec()].concat()
            }
        };
        let ready = |engine, settings| {
            Ok::<_, Unusable>(Containers(Arc::new(Ready {
                containers: docker::Containers::new(engine, settings)?,
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
        let elsewhere = "the container engine does not see the files of this machine";
        match (asked.reuse(), own) {
            (Reuse::Call, true) => {}
            (Reuse::Session, _) => {
                return Err(Unusable::new(format!(
                    "{elsewhere}, and a container that lives through many calls would not bring \
                     them back after each"
                ))
                .hint("set `docker.reuse: call`, or use an engine of this machine"));
            }
            (Reuse::Call, false) => {
                return Err(Unusable::new(format!(
                    "{elsewhere}, and so not forge; there is no forge of this version in the image"
                ))
                .hint("build one there with `forge image build --base IMAGE`"));
            }
        }
        there.prove()?;
        Ok(there)
    }
}

impl Containers {
    /// The version of the engine.
    #[must_use]
    pub fn engine_version(&self) -> &str {
        self.0.containers.engine().map_or("", Engine::version)
    }

    /// What the image is called by its content.
    #[must_use]
    pub fn digest(&self) -> &str {
        self.0.containers.digest()
    }

    /// Runs a node, and has it read a file of this machine that nobody knows: the engine starts
    /// containers, forge runs in them, and directories are the same inside.
    fn prove(&self) -> Result<(), Unusable> {
        let failed = |error: &dyn fmt::Display| {
            Unusable::new(format!("cannot prepare a file for a container: {error}"))
        };
        let dir = tempfile::tempdir().map_err(|error| failed(&error))?;
        let dir_path = dir.path().canonicalize().map_err(|error| failed(&error))?;
        let token = dir.path().to_string_lossy().into_owned();
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
        let setup = Setup::new().files(&files, &Places::of(&policy));
        let setup = setup.map_err(|error| failed(&error))?;
        let plan = self.plan(&policy, Requirement::Enforce);
        let plan = plan.map_err(|error| Unusable::new(error.to_string()).hint(error.hint()))?;
        let path = SandboxPath::parse("/probe/token").map_err(|error| failed(&error))?;
        let this = self.clone();
        let read = in_nodes(async move {
            let node = this.start(&plan, setup).await?;
            node.read_file(&path, 4096)
                .await
                .map_err(|failure| failure.message)
        });
        match read.map_err(Unusable::new)?.map_err(|why| {
            Unusable::new(format!("forge does not run in a container of it: {why}"))
        })? {
            bytes if bytes == token.as_bytes() => Ok(()),
            _ => Err(Unusable::new(
                "a container of it has other files than this machine",
            )),
        }
    }

    fn plan(
        &self,
        policy: &Policy,
        requirement: Requirement,
    ) -> Result<Plan, os_sandbox::PlanError> {
        let host = Support::assume(Assumed::default()).with_docker(self.0.containers.clone());
        Plan::with_mechanism(policy, &host, requirement, Backend::Docker)
    }

    /// A container with a node in it. In words for people what went wrong.
    async fn start(&self, plan: &Plan, setup: Setup) -> Result<Node, String> {
        let (program, rest) = self.0.command.split_first().ok_or("there is no program")?;
        let mut command = Command::new(plan, program)
            .args(rest)
            .stdin(Stdio::Piped)
            .stdout(Stdio::Piped)
            .stderr(Stdio::Piped);
        if let Some(directory) = &self.0.state_dir {
            command = command.state_dir(directory);
        }
        let mut child = command.spawn_async().await.map_err(|error| said(&error))?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(mut stderr)) = streams else {
            return Err("its streams are not there".to_owned());
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
        let connect = Connect::new(PLACE)
            .enforcement(receipt)
            .within(READY_WITHIN);
        let held = Held(Mutex::new(Some(child)));
        let connected = Node::connect_keeping(stdout, stdin, setup, connect, held).await;
        connected.map_err(|error| {
            let words = heard.lock().unwrap_or_else(PoisonError::into_inner);
            let words = forge_tools::escape_controls(String::from_utf8_lossy(&words).trim());
            match words.is_empty() {
                true => error.to_string(),
                false => format!("{error}; it said: {words}"),
            }
        })
    }
}

/// What holds a node's container, and ends it when it is dropped.
struct Held(Mutex<Option<AsyncChild>>);

impl Containers {
    /// Nothing more is asked of this node: its container is waited for. Where files are copied,
    /// what it changed is here then; and what it left under protected names was taken away.
    ///
    /// # Errors
    /// What it changed is not here, or nobody knows; for people.
    pub async fn over(&self, node: Node) -> Result<Over, String> {
        on_nodes(async move {
            let child = node.kept::<Held>().and_then(|held| {
                let mut child = held.0.lock().unwrap_or_else(PoisonError::into_inner);
                child.take()
            });
            node.bye();
            let mut child = child.ok_or("its container is gone")?;
            child.wait().await.map_err(|error| said(&error))?;
            let quarantined = child.quarantined().iter();
            Ok(Over {
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

/// Nodes that hold what one worker holds.
pub(crate) struct Nodes {
    source: Arc<Source>,
    policy: Policy,
}

struct Source {
    containers: Containers,
    plan: Plan,
    setup: Setup,
    /// The one of this session, with `docker.reuse: session`.
    kept: tokio::sync::Mutex<Option<Node>>,
}

impl Nodes {
    pub(crate) fn of(
        containers: &Containers,
        grant: &Grant,
        files: Option<&FileSandbox>,
        commands: bool,
    ) -> Result<Self, EquipError> {
        let isolation = |reason: String| EquipError::Isolation { reason, hint: None };
        let policy = grant.policy()?;
        let plan = containers.plan(&policy, grant.requirement());
        let plan = plan.map_err(|error| {
            let hint = hosts_not_kept(&policy, &error);
            EquipError::Isolation {
                hint: Some(hint.map_or_else(|| error.hint(), str::to_owned)),
                reason: error.to_string(),
            }
        })?;
        let places = Places::of(&policy);
        let mut setup = Setup::new().max_write_bytes(grant.limits().max_file_write_bytes());
        if let Some(files) = files {
            let there = setup.files(files, &places);
            setup = there.map_err(|error| isolation(error.to_string()))?;
        }
        if commands {
            // The container keeps the promises; what can be applied inside of it comes on top.
            let there = setup.commands(&policy, Requirement::BestEffort, &places);
            setup = there
                .map_err(|error| isolation(error.to_string()))?
                .programs(&programs(grant));
        }
        Ok(Nodes {
            source: Arc::new(Source {
                containers: containers.clone(),
                plan,
                setup,
                kept: tokio::sync::Mutex::new(None),
            }),
            policy,
        })
    }

    /// The worker's commands, in them.
    pub(crate) fn processes(&self) -> Processes {
        let source = Arc::clone(&self.source);
        Processes::started_by(NodeStarter::shared(source), self.policy.clone())
    }

    /// A toolbox whose file tools do their work in them.
    pub(crate) fn files(&self, builder: ToolboxBuilder) -> ToolboxBuilder {
        builder.runner(NodeRunner::shared(
            Arc::clone(&self.source) as Arc<dyn NodeSource>
        ))
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.source.plan
    }
}

impl Containers {
    /// A node for commands under what `grant` holds, in a container of its own that ends with it:
    /// for a command that a person typed. No list of programs holds there.
    ///
    /// # Errors
    /// The grant cannot be kept in a container, or none could be started.
    pub async fn node(&self, grant: &Grant) -> Result<Node, EquipError> {
        let Nodes { source, .. } = Nodes::of(self, grant, None, true)?;
        let setup = source.setup.clone().programs(&[]);
        source
            .try_start(setup)
            .await
            .map_err(|why| EquipError::Isolation {
                reason: format!("no container: {why}"),
                hint: None,
            })
    }
}

impl Source {
    async fn try_start(&self, setup: Setup) -> Result<Node, String> {
        let (containers, plan) = (self.containers.clone(), self.plan.clone());
        let started = on_nodes(async move { containers.start(&plan, setup).await }).await;
        started.and_then(|node| node)
    }

    async fn start(&self) -> Result<Node, Failure> {
        self.try_start(self.setup.clone()).await.map_err(|why| {
            // The model is told of no place; the record is for people.
            let event = PolicyEvent::new(EventKind::Refused, format!("no container: {why}"));
            Failure::new(
                Code::IsolationUnavailable,
                "The isolation that this call needs is not available; nothing was done.",
            )
            .ran(Ran {
                runner: "none",
                enforcement: None,
                events: vec![event],
                artifacts: Vec::new(),
            })
        })
    }
}

impl NodeSource for Source {
    fn place(&self) -> &'static str {
        PLACE
    }

    fn node(&self) -> BoxFuture<'_, Result<Node, Failure>> {
        Box::pin(async move {
            match self.containers.0.reuse {
                Reuse::Call => self.start().await,
                Reuse::Session => {
                    let mut kept = self.kept.lock().await;
                    if let Some(node) = kept.as_ref().filter(|node| node.ended().is_none()) {
                        return Ok(node.clone());
                    }
                    let node = self.start().await?;
                    *kept = Some(node.clone());
                    Ok(node)
                }
            }
        })
    }

    fn over(&self, node: Node) -> BoxFuture<'_, Result<Over, Failure>> {
        Box::pin(async move {
            match self.containers.0.reuse {
                Reuse::Session => Ok(Over::default()),
                Reuse::Call => self.containers.over(node).await.map_err(|why| {
                    let why = format!("the end of its container is not known: {why}");
                    let event = PolicyEvent::new(EventKind::Refused, why);
                    Failure::new(
                        Code::IsolationEnded,
                        "The call was made, and the isolation that it ran in did not end as it \
                         should: what it changed may not be there.",
                    )
                    .hint("Look at what it has done before you try again.")
                    .ran(Ran {
                        runner: PLACE,
                        enforcement: None,
                        events: vec![event],
                        artifacts: Vec::new(),
                    })
                }),
            }
        })
    }
}

/// What carries what nodes say: it goes on as long as the process, whoever waits for a call.
static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);

fn runtime() -> Result<Handle, String> {
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = &*runtime {
        return Ok(runtime.handle().clone());
    }
    let made = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("nodes")
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the thread of nodes: {error}"))?;
    Ok(runtime.insert(made).handle().clone())
}

impl Docker {
    /// For a program before its own end: waits, so long at most, until every container and every
    /// command that nobody holds any more has ended. What was taken away then that had a protected
    /// name, and that no result says, is what it gives.
    ///
    /// ```
    /// use std::time::Duration;
    /// assert!(forge_runtime::Docker::settle(Duration::from_secs(1)).is_empty());
    /// ```
    #[must_use]
    pub fn settle(within: Duration) -> Vec<Quarantined> {
        let runtime = RUNTIME
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(runtime) = runtime {
            runtime.shutdown_timeout(within);
        }
        os_sandbox::settle(within)
    }
}

async fn on_nodes<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, String> {
    let done = runtime()?.spawn(work).await;
    done.map_err(|_| "the thread of nodes was lost".to_owned())
}

/// The same for who may wait, on a runtime or not.
fn in_nodes<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, String> {
    let (done, answer) = std::sync::mpsc::sync_channel(1);
    runtime()?.spawn(async move {
        let answered = work.await;
        // Who asked waits for it.
        let _gone = done.send(answered);
    });
    let lost = |_| "the thread of nodes was lost".to_owned();
    answer.recv().map_err(lost)
}
