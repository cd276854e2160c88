//! A container engine for tests: one of our own, with its data in a temporary directory, if root can
//! start it. `cargo xtask test` starts it once, for every program that it starts afterwards.

use std::env;
use std::fs::{self, File};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::{Context, Failure};
use crate::process;
use crate::scratch::Scratch;
use crate::steps::Outcome;

/// Says to test programs where it answers.
pub(crate) const VARIABLE: &str = "FORGE_TEST_ENGINE";

/// How long an engine may take to answer, and to end.
const WITHIN: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(100);

/// Where the one for everybody answers.
static SHARED: OnceLock<String> = OnceLock::new();

/// Where the engine answers that was started for all, if there is one.
pub(crate) fn shared() -> Option<&'static str> {
    SHARED.get().map(String::as_str)
}

/// A container engine: our own, or one that answers.
pub(crate) struct Engine {
    /// The daemon that we started, to be ended by us.
    own: Option<Child>,
    host: Option<String>,
    /// Removed after the end.
    _scratch: Option<Scratch>,
}

impl Engine {
    /// Starts the one for everybody. It ends with the value.
    pub(crate) fn for_all() -> (Option<Engine>, Outcome) {
        let skipped = |why: &str| (None, Outcome::Skipped(why.to_owned()));
        if let Ok(host) = env::var(VARIABLE) {
            return skipped(&format!("{VARIABLE} names one already: {host}"));
        }
        if !process::is_root() {
            return skipped("only root can start one");
        }
        match Engine::reach() {
            Ok(Ok(engine)) => {
                if let Some(host) = &engine.host {
                    let _ = SHARED.set(host.clone());
                }
                (Some(engine), Outcome::Passed)
            }
            Ok(Err(why)) => skipped(&why),
            Err(failure) => (None, Outcome::Failed(failure.to_string())),
        }
    }

    /// One that can be used: `Ok(Err(reason))` if there is none here.
    pub(crate) fn reach() -> Result<Result<Engine, String>, Failure> {
        if process::find("docker").is_none() {
            return Ok(Err("docker is not installed (cargo xtask setup)".to_owned()));
        }
        let named = shared()
            .map(str::to_owned)
            .or_else(|| env::var(VARIABLE).ok());
        if named.is_none() && process::is_root() && process::find("dockerd").is_some() {
            return Engine::start();
        }
        let engine = Engine {
            own: None,
            host: named,
            _scratch: None,
        };
        Ok(match silent(engine.docker().arg("version")) {
            Ok(()) => Ok(engine),
            Err(_) => Err("no container engine answers, and only root can start one".to_owned()),
        })
    }

    /// One beside the shared one; `None` if none can be started here.
    pub(crate) fn own() -> Result<Option<Engine>, Failure> {
        match process::is_root() && process::find("dockerd").is_some() {
            true => Engine::start().map(Result::ok),
            false => Ok(None),
        }
    }

    /// Where it answers.
    pub(crate) fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// One that nobody else uses: own socket, own data, no network of its own.
    fn start() -> Result<Result<Engine, String>, Failure> {
        let scratch = Scratch::new()?;
        let host = format!("unix://{}", scratch.file("docker.sock").display());
        let log = scratch.file("dockerd.log");
        let output = File::create(&log).context(log.display())?;
        let errors = output.try_clone().context(log.display())?;
        let own = process::command("dockerd")
            .arg("--data-root")
            .arg(scratch.file("data"))
            .arg("--exec-root")
            .arg(scratch.file("exec"))
            .arg("--pidfile")
            .arg(scratch.file("dockerd.pid"))
            .args(["--host", &host, "--bridge=none", "--iptables=false"])
            .stdout(output)
            .stderr(errors)
            .spawn()
            .context("dockerd")?;
        let mut engine = Engine {
            own: Some(own),
            host: Some(host),
            _scratch: Some(scratch),
        };
        let until = Instant::now() + WITHIN;
        while silent(engine.docker().arg("version")).is_err() {
            let ended = match &mut engine.own {
                Some(own) => own.try_wait().context("dockerd")?.is_some(),
                None => true,
            };
            if ended || Instant::now() > until {
                let text = fs::read_to_string(&log).unwrap_or_default();
                let last = text.lines().last().unwrap_or("it said nothing").to_owned();
                return Ok(Err(format!("dockerd does not start here: {last}")));
            }
            thread::sleep(POLL);
        }
        Ok(Ok(engine))
    }

    /// The client, which asks this one.
    pub(crate) fn docker(&self) -> Command {
        let mut command = process::command("docker");
        if let Some(host) = &self.host {
            command.args(["--host", host]);
        }
        command
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let Some(own) = &mut self.own else { return };
        // SIGKILL would leave its containerd behind.
        let _ = silent(process::command("kill").arg(own.id().to_string()));
        let until = Instant::now() + WITHIN;
        while matches!(own.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(POLL);
        }
        let _ = own.kill();
        let _ = own.wait();
    }
}

/// Whether it worked is all that matters.
pub(crate) fn silent(command: &mut Command) -> Result<(), Failure> {
    match process::captured(command)? {
        (status, _) if status.success() => Ok(()),
        (status, _) => Err(Failure::new(status.to_string())),
    }
}
