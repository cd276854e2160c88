//! A command in a container, beside the engine's own client with the same flags: in a container of
//! its own, in one with a node of ours in it, and in one that stays.

use std::error::Error;
use std::path::Path;
use std::process;
use std::time::Duration;

use forge_node::{
    CommandEvent, NodeClient, NodeConnectOptions, PathMapping, ServeOptions, Setup, serve,
};
use forge_runtime::containers::{INSIDE, ProgramBundle};
use forge_tools::CommandSpec;
use os_sandbox::{
    Access, AsyncChild, Backend, Directories, Exit, Limits, Plan, Policy, Requirement, Sandbox,
    Stdio, Support,
};
use os_sandbox_docker::{Containers, Engine, ImageName, Settings};
use tokio::runtime::Runtime;

use crate::compare::{Measure, Outcome, Work, medians};
use crate::daemon::{Daemon, IMAGE};

const ONE_SHOT: &str = "container, a command of its own";
const WITH_NODE: &str = "container, a call of its own (node)";
const POOLED: &str = "call in a container that is there (node)";

/// Says to this program that it is the node.
pub(crate) const FLAG: &str = "--node";

/// A container takes long, and what it takes varies.
const ROUNDS: usize = 40;
const CALLS: u32 = 4;

const MEMORY_BYTES: u64 = 512 << 20;
const PROCESSES: u64 = 256;
const CPU_MILLI: u64 = 1000;
/// The bench ends what it starts; this is for when it cannot.
const WITHIN: Duration = Duration::from_secs(600);

/// What os-sandbox asks of the engine, in the words of its client.
const FLAGS: &str = "--init --network none --read-only --cap-drop ALL \
    --security-opt no-new-privileges --pids-limit 256 --memory 512m --memory-swap 512m --cpus 1 \
    --hostname sandbox --ipc private --cgroupns private --ulimit core=0 --log-driver none \
    --no-healthcheck --workdir /work --tmpfs /tmp:rw,exec,nosuid,nodev,size=256m,mode=1777 \
    --tmpfs /home/sandbox:rw,exec,nosuid,nodev,size=256m,mode=0700";

pub(crate) fn measures() -> Result<Vec<Measure>, Box<dyn Error>> {
    let daemon = match Daemon::start() {
        Ok(daemon) => daemon,
        Err(why) => {
            let not_here = |name| Measure {
                name,
                outcome: Outcome::NotHere(why.clone()),
            };
            return Ok([ONE_SHOT, WITH_NODE, POOLED].map(not_here).into());
        }
    };
    let project = tempfile::tempdir()?;
    let policy = policy(project.path())?;
    let plan = plan(&daemon, &policy, Ok)?;
    let inside = Inner::new(&daemon, policy)?;
    let run = client(&daemon, project.path(), &["--rm"], "/bin/true", &[])?;
    let [one_shot, with_node, other] =
        medians(ROUNDS, 1, [confined(&plan), inside.one_shot(), ran(&run)])?;

    let stays = client(
        &daemon,
        project.path(),
        &["--rm", "--detach"],
        "/bin/sleep",
        &["600"],
    )?;
    let stays = printed(&stays)?;
    let exec = ["--host", daemon.host(), "exec", &stays, "/bin/true"].map(str::to_owned);
    let node = inside.start()?;
    let pooled = medians(ROUNDS, CALLS, [inside.call(&node), ran(&exec)]);
    inside.end(node)?;
    let _gone = printed(&["--host", daemon.host(), "kill", &stays].map(str::to_owned));
    let [pooled, exec] = pooled?;

    let ratio = |name, ours, other, other_name| Measure {
        name,
        outcome: Outcome::Ratio {
            ours,
            other,
            other_name,
            target: Some(1.15),
        },
    };
    let with_flags = "docker run --rm, the same flags";
    Ok(vec![
        ratio(ONE_SHOT, one_shot, other, with_flags),
        ratio(WITH_NODE, with_node, other, with_flags),
        ratio(POOLED, pooled, exec, "docker exec"),
    ])
}

/// This program as the node: what it says and hears goes over its standard streams.
pub(crate) fn node() -> Result<(), Box<dyn Error>> {
    Runtime::new()?.block_on(async {
        let inside = ServeOptions::new(cap_std::ambient_authority());
        serve(tokio::io::stdin(), tokio::io::stdout(), inside).await
    })?;
    Ok(())
}

/// A node in a container, and who speaks with it.
struct Inner {
    runtime: Runtime,
    sandbox: Sandbox,
    policy: Policy,
    command: Vec<String>,
}

/// A running one.
struct Running {
    node: NodeClient,
    child: AsyncChild,
}

impl Inner {
    fn new(daemon: &Daemon, policy: Policy) -> Result<Inner, Box<dyn Error>> {
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        let program = ProgramBundle::of(&std::env::current_exe()?, &maps)?;
        let plan = plan(daemon, &policy, |mut settings| {
            for part in program.parts() {
                let host = part.host().canonicalize()?;
                settings = settings.mount(host, format!("{INSIDE}/{}", part.name()))?;
            }
            Ok(settings.own_program(true))
        })?;
        let mut command = program.command();
        command.push(FLAG.to_owned());
        Ok(Inner {
            runtime: Runtime::new()?,
            sandbox: plan,
            policy,
            command,
        })
    }

    fn start(&self) -> Result<Running, Box<dyn Error>> {
        self.runtime.block_on(async {
            let (program, arguments) = self.command.split_first().ok_or("no program")?;
            let mut child = os_sandbox::Command::new(&self.sandbox, program)
                .args(arguments)
                .stdin(Stdio::Piped)
                .stdout(Stdio::Piped)
                .stderr(Stdio::Inherit)
                .spawn_async()
                .await?;
            let reader = child.stdout.take().ok_or("no output")?;
            let writer = child.stdin.take().ok_or("no input")?;
            let places = PathMapping::of(&self.policy);
            let setup = Setup::new().commands(&self.policy, Requirement::BestEffort, &places)?;
            let node =
                NodeClient::connect(reader, writer, setup, NodeConnectOptions::new("docker"))
                    .await?;
            Ok(Running { node, child })
        })
    }

    /// Waits until the container is gone, as `docker run --rm` does.
    fn end(&self, running: Running) -> Result<(), Box<dyn Error>> {
        let Running { node, mut child } = running;
        drop(node);
        let ended = async { tokio::time::timeout(WITHIN, child.wait()).await };
        match self.runtime.block_on(ended)?? {
            Exit::Code(0) => Ok(()),
            other => Err(format!("the node ended with {other:?}").into()),
        }
    }

    fn once(&self, running: &Running) -> Result<(), Box<dyn Error>> {
        self.runtime.block_on(async {
            let start = CommandSpec::new("/bin/true", Vec::<String>::new());
            let started = running.node.start(start, false).await;
            let mut command = started.map_err(|failure| failure.message)?;
            loop {
                match command.next().await.map_err(|failure| failure.message)? {
                    CommandEvent::Some(..) => {}
                    CommandEvent::Ended(ended) if ended.exit == Exit::Code(0) => return Ok(()),
                    CommandEvent::Ended(ended) => {
                        return Err(format!("the command ended with {:?}", ended.exit).into());
                    }
                }
            }
        })
    }

    fn one_shot(&self) -> Work<'_> {
        Box::new(|| {
            let running = self.start()?;
            self.once(&running)?;
            self.end(running)
        })
    }

    fn call<'a>(&'a self, running: &'a Running) -> Work<'a> {
        Box::new(|| self.once(running))
    }
}

fn policy(project: &Path) -> Result<Policy, Box<dyn Error>> {
    Ok(Policy::builder()
        .mount(project, "/", Access::ALL)
        .limits(Limits {
            memory_bytes: Some(MEMORY_BYTES),
            processes: Some(PROCESSES),
            ..Limits::default()
        })
        .build()?)
}

fn plan(
    daemon: &Daemon,
    policy: &Policy,
    more: impl FnOnce(Settings) -> Result<Settings, Box<dyn Error>>,
) -> Result<Sandbox, Box<dyn Error>> {
    let settings = Settings::new(ImageName::parse(IMAGE)?)
        .cpu_milli(CPU_MILLI)
        .memory_bytes(MEMORY_BYTES)
        .pids(PROCESSES);
    let engine = Engine::connect(Some(daemon.host()))?;
    let containers = Containers::new(engine, more(settings)?)?;
    let support = Support::detect().with_docker(containers.support());
    let plan = Plan::with_mechanism(policy, &support, Requirement::Enforce, Backend::Docker)?;
    Ok(Sandbox::with_mechanism(
        plan,
        Directories::user(),
        containers,
    ))
}

fn confined(sandbox: &Sandbox) -> Work<'_> {
    Box::new(|| {
        let mut child = os_sandbox::Command::new(sandbox, "/bin/true")
            .stdout(Stdio::Null)
            .stderr(Stdio::Null)
            .spawn()?;
        match child.wait()? {
            Exit::Code(0) => Ok(()),
            other => Err(format!("the command ended with {other:?}").into()),
        }
    })
}

/// The words after `docker`.
fn client(
    daemon: &Daemon,
    project: &Path,
    more: &[&str],
    program: &str,
    arguments: &[&str],
) -> Result<Vec<String>, Box<dyn Error>> {
    let project = project
        .to_str()
        .ok_or("the temporary directory is not UTF-8")?;
    let mount = format!("type=bind,src={project},dst=/work,bind-propagation=rprivate");
    let user = format!("{}:{}", nix::unistd::geteuid(), nix::unistd::getegid());
    let mut words = vec!["--host", daemon.host(), "run", "--user", &user];
    words.extend(more);
    words.extend(FLAGS.split_whitespace());
    words.extend(["--mount", &mount, "--entrypoint", program, IMAGE]);
    words.extend(arguments);
    Ok(words.into_iter().map(str::to_owned).collect())
}

fn ran(words: &[String]) -> Work<'_> {
    Box::new(move || {
        let status = process::Command::new("docker")
            .args(words)
            .stdin(process::Stdio::null())
            .stdout(process::Stdio::null())
            .stderr(process::Stdio::null())
            .status()?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("docker {words:?}: {status}").into()),
        }
    })
}

/// What it printed.
fn printed(words: &[String]) -> Result<String, Box<dyn Error>> {
    let output = process::Command::new("docker").args(words).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?.trim().to_owned()),
        false => Err(format!("docker {words:?}: {}", output.status).into()),
    }
}
