//! An opened plan: the directories and the live resources that its commands share. A [`Plan`] is
//! data, a [`Sandbox`] owns the scratch directories, control groups and compiled filters that one
//! command hands on to the next.

use crate::backend::Starter;
use crate::command::Command;
use crate::error::{Error, ErrorKind};
use crate::host_proxy::HostProxy;
use crate::plan::Plan;
use crate::platform::{self, ScratchPool};
use crate::process::StartedCommand;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directories outside the policy that a sandbox may write. The caller that opens the sandbox
/// chooses them.
///
/// ```
/// use os_sandbox::Directories;
///
/// let own = Directories::new("/var/lib/service/sandbox");
/// assert_eq!(own.state(), Some("/var/lib/service/sandbox".as_ref()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directories {
    state: Option<PathBuf>,
    cache: bool,
}

impl Directories {
    /// Returns the user's own directories: state in `os-sandbox` in `$XDG_STATE_HOME` or
    /// `~/.local/state`, else, except for containers, in one for the user in the temporary directory;
    /// passed probes in
    /// `os-sandbox` in `$XDG_CACHE_HOME` or `~/.cache`.
    #[must_use]
    pub fn user() -> Directories {
        Directories {
            state: None,
            cache: true,
        }
    }

    /// Returns directories with their state at `state`, an absolute path. It is made if it is
    /// missing, for the caller alone. Passed probes are not cached.
    ///
    /// The state lists the placeholders in mounts while commands run, so that a later start can
    /// clean up after a caller that was killed. All callers that share a mount should share it. It
    /// also has the files that a container engine mounts beside the policy's mounts, which an engine
    /// opens by path, and HOME and TMPDIR of commands under Landlock alone: no command of any caller
    /// may have it in a mount that it can write.
    pub fn new(state: impl Into<PathBuf>) -> Directories {
        Directories {
            state: Some(state.into()),
            cache: false,
        }
    }

    /// Returns the same directories with another state directory.
    #[must_use]
    pub fn with_state(self, state: impl Into<PathBuf>) -> Directories {
        Directories {
            state: Some(state.into()),
            ..self
        }
    }

    sandbox_names::getters! {
        /// Returns the state directory. `None` if it is the user's own.
        pub state: Option<&Path> = state.as_deref();
        /// Returns `true` if passed probes are cached in the user's cache directory.
        pub(crate) caches_probes: bool = cache;
    }
}

/// A plan that commands can be started under. Clones share its resources, which are released with
/// the last clone and the last command.
///
/// ```
/// use os_sandbox::{Command, Directories, Exit, Plan, Policy, Requirement, Sandbox, Support};
///
/// # if !cfg!(target_os = "linux") { return Ok(()); }
/// let plan = Plan::new(&Policy::builder().build()?, &Support::detect(), Requirement::Enforce)?;
/// let sandbox = Sandbox::open(plan, Directories::user());
/// assert_eq!(Command::new(&sandbox, "true").output()?.exit, Exit::Code(0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Sandbox(Arc<OpenPlan>);

#[derive(Debug)]
struct OpenPlan {
    plan: Plan,
    directories: Directories,
    mechanism: Arc<dyn Mechanism>,
    proxy: Option<Arc<dyn HostProxy>>,
    pool: ScratchPool,
}

impl Sandbox {
    /// Opens a plan. The sandbox creates resources when a command first needs them.
    pub fn open(plan: Plan, directories: Directories) -> Sandbox {
        Sandbox::with_mechanism(plan, directories, SystemMechanisms)
    }

    /// Starts the process that confines the next command, while its program still prepares the plan.
    /// The first start of this program then finds it ready; without a start, it ends with the program.
    pub fn warm_up() {
        platform::warm_up();
    }

    /// Opens a plan for a mechanism of another crate.
    pub fn with_mechanism(
        plan: Plan,
        directories: Directories,
        mechanism: impl Mechanism + 'static,
    ) -> Sandbox {
        Sandbox(Arc::new(OpenPlan {
            plan,
            directories,
            mechanism: Arc::new(mechanism),
            proxy: None,
            pool: ScratchPool::default(),
        }))
    }

    /// Opens the same plan once more, with other directories.
    pub fn reopen(&self, directories: Directories) -> Sandbox {
        self.open_again(directories, self.0.proxy.clone())
    }

    /// Opens the same plan once more, with a proxy that connects its commands with the hosts that
    /// the policy names. A policy that names hosts needs one.
    pub fn with_host_proxy(&self, proxy: Arc<dyn HostProxy>) -> Sandbox {
        self.open_again(self.0.directories.clone(), Some(proxy))
    }

    fn open_again(&self, directories: Directories, proxy: Option<Arc<dyn HostProxy>>) -> Sandbox {
        Sandbox(Arc::new(OpenPlan {
            plan: self.0.plan.clone(),
            directories,
            mechanism: Arc::clone(&self.0.mechanism),
            proxy,
            pool: ScratchPool::default(),
        }))
    }

    sandbox_names::getters! {
        pub(crate) host_proxy: Option<&dyn HostProxy> = 0.proxy.as_deref();
        /// Returns the plan.
        pub plan: &Plan = &0.plan;
        /// Returns the directories.
        pub directories: &Directories = &0.directories;
        pub(crate) pool: &ScratchPool = &0.pool;
    }

    pub(crate) fn mechanism(&self) -> Arc<dyn Mechanism> {
        Arc::clone(&self.0.mechanism)
    }
}

/// Starter of commands under the plans of a sandbox.
pub trait Mechanism: fmt::Debug + Send + Sync {
    /// Starts a command, and returns when the program itself runs.
    ///
    /// # Errors
    /// If the program does not run exactly as its plan says. Nothing is left running then.
    fn start(&self, command: Command) -> Result<StartedCommand, Error>;
}

/// The mechanisms of this system.
#[derive(Debug)]
struct SystemMechanisms;

impl Mechanism for SystemMechanisms {
    fn start(&self, command: Command) -> Result<StartedCommand, Error> {
        match command.plan().backend().properties().starter {
            Starter::Engine => {
                let what = "the plan's containers are only described";
                Err(ErrorKind::Unsupported.error(what))
            }
            Starter::Launcher | Starter::Program | Starter::SandboxExec => platform::start(command),
        }
    }
}
