//! A command in a container, beside the engine's own client with the same flags.

use std::error::Error;
use std::path::Path;
use std::process;

use os_sandbox::docker::{Containers, Engine, ImageName, Settings};
use os_sandbox::{Access, Backend, Exit, Limits, Plan, Policy, Requirement, Stdio, Support};

use crate::compare::{Measure, Outcome, Work, medians};
use crate::daemon::{Daemon, IMAGE};

const ONE_SHOT: &str = "container, a command of its own";

/// A container takes long, and what it takes varies.
const ROUNDS: usize = 40;

const MEMORY_BYTES: u64 = 512 << 20;
const PROCESSES: u64 = 256;
const CPU_MILLI: u64 = 1000;

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
            let outcome = Outcome::NotHere(why);
            return Ok(vec![Measure {
                name: ONE_SHOT,
                outcome,
            }]);
        }
    };
    let project = tempfile::tempdir()?;
    let plan = plan(&daemon, project.path())?;
    let client = client(&daemon, project.path())?;
    let [ours, other] = medians(ROUNDS, 1, [confined(&plan), ran(&client)])?;
    Ok(vec![Measure {
        name: ONE_SHOT,
        outcome: Outcome::Ratio {
            ours,
            other,
            other_name: "docker run --rm, the same flags",
            target: Some(1.15),
        },
    }])
}

fn plan(daemon: &Daemon, project: &Path) -> Result<Plan, Box<dyn Error>> {
    let settings = Settings::new(ImageName::parse(IMAGE)?)
        .cpu_milli(CPU_MILLI)
        .memory_bytes(MEMORY_BYTES)
        .pids(PROCESSES);
    let containers = Containers::new(Engine::connect(Some(daemon.host()))?, settings)?;
    let support = Support::detect().with_docker(containers);
    let policy = Policy::builder()
        .mount(project, "/", Access::ALL)
        .limits(Limits {
            memory_bytes: Some(MEMORY_BYTES),
            processes: Some(PROCESSES),
            ..Limits::default()
        })
        .build()?;
    Ok(Plan::with_mechanism(
        &policy,
        &support,
        Requirement::Enforce,
        Backend::Docker,
    )?)
}

fn confined(plan: &Plan) -> Work<'_> {
    Box::new(|| {
        let mut child = os_sandbox::Command::new(plan, "/bin/true")
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
fn client(daemon: &Daemon, project: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let project = project
        .to_str()
        .ok_or("the temporary directory is not UTF-8")?;
    let mount = format!("type=bind,src={project},dst=/work,bind-propagation=rprivate");
    let user = format!("{}:{}", nix::unistd::geteuid(), nix::unistd::getegid());
    let mut words = vec!["--host", daemon.host(), "run", "--rm", "--user", &user];
    words.extend(FLAGS.split_whitespace());
    words.extend(["--mount", &mount, "--entrypoint", "/bin/true", IMAGE]);
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
