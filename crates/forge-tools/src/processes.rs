//! A worker's way to run commands: their runner, their policy, and the words that go with it.

use std::sync::Arc;
use std::time::Duration;

use os_sandbox::{GitConfig, Network, Plan, Policy};
use sandbox_network::AskableHosts;

use crate::call_result::CallFailure;
use crate::command_line::CommandLine;
use crate::command_runner::{CommandRunner, LocalCommandRunner};
use crate::programs::ProgramList;
use crate::shell_session::ShellSession;

/// Longest time of one command, even if the call asks for more.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Commands of one worker: their confinement, and the notes for the model when the sandbox stops
/// one.
///
/// ```
/// use forge_tools::Processes;
/// use os_sandbox::{Plan, Policy, Requirement, Support};
///
/// let policy = Policy::builder().build().unwrap();
/// if let Ok(plan) = Plan::new(&policy, &Support::detect(), Requirement::Enforce) {
///     let processes = Processes::new(plan);
///     assert!(processes.is_confined());
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Processes {
    starter: Arc<dyn CommandRunner>,
    policy: Arc<Policy>,
    default_timeout: Duration,
    max_timeout: Duration,
    writable: Vec<String>,
    network: bool,
    programs: Vec<ProgramList>,
    session: Option<Arc<ShellSession>>,
    askable_hosts: AskableHosts,
}

impl Processes {
    /// Commands under `plan`, on this system.
    pub fn new(plan: Plan) -> Self {
        let policy = plan.policy().clone();
        Processes::started_by(LocalCommandRunner::new(plan), policy)
    }

    /// Commands under `policy`, which `starter` keeps.
    ///
    /// ```
    /// use forge_tools::{CallFailure, Processes, CommandSpec, RunningCommand, CommandRunner};
    ///
    /// #[derive(Debug)]
    /// struct Nowhere;
    ///
    /// impl CommandRunner for Nowhere {
    ///     fn place(&self) -> &'static str {
    ///         "nowhere"
    ///     }
    ///     fn is_confined(&self) -> bool {
    ///         true
    ///     }
    ///     fn start(&self, start: CommandSpec) -> Result<Box<dyn RunningCommand>, CallFailure> {
    ///         let message = format!("Cannot run `{}` there.", start.program);
    ///         Err(CallFailure::new(forge_tools::FailureCode::IsolationUnavailable, message))
    ///     }
    /// }
    ///
    /// let policy = os_sandbox::Policy::builder().build().unwrap();
    /// assert_eq!(Processes::started_by(Nowhere, policy).place(), "nowhere");
    /// ```
    pub fn started_by(starter: impl CommandRunner, policy: Policy) -> Self {
        Processes {
            starter: Arc::new(starter),
            policy: Arc::new(policy),
            default_timeout: Duration::from_secs(30),
            max_timeout: MAX_TIMEOUT,
            writable: Vec::new(),
            network: false,
            programs: Vec::new(),
            session: None,
            askable_hosts: AskableHosts::default(),
        }
    }

    /// Sets the writable paths that the notes after a failed command name, and if they may mention
    /// that the network is off.
    pub fn notes(mut self, writable: Vec<String>, network: bool) -> Self {
        self.writable = writable;
        self.network = network;
        self
    }

    sandbox_names::setters! {
        /// How long a command may take unless the call says otherwise.
        default_timeout(limit: Duration) = limit.min(MAX_TIMEOUT);
        /// Sets how long a call may let a command take, at most. The tool's schema says it.
        max_timeout(limit: Duration) = limit.clamp(Duration::from_secs(1), MAX_TIMEOUT);
    }

    sandbox_names::getters! {
        pub(crate) longest_timeout: Duration = max_timeout;
        pub(crate) askable: &AskableHosts = &askable_hosts;
        pub(crate) current_session: Option<&ShellSession> = session.as_deref();
        /// Returns `true` if anything confines commands of this worker.
        pub is_confined: bool = starter.is_confined();
        /// Where commands of this worker run; see [`CommandRunner::place`].
        pub place: &'static str = starter.place();
        /// Returns `true` if commands of this worker may talk to other machines.
        pub has_network: bool = network;
        /// The policy of this worker's commands.
        pub policy: &Policy = &policy;
        /// Returns the paths that commands can write, as the notes after a failed command name them.
        pub(crate) writable: &[String] = &writable;
    }

    sandbox_names::setters! {
        /// Which programs may be started: every list is asked.
        programs(lists: Vec<ProgramList>) = lists;
        /// Sets the hosts about which a person may be asked while a command runs; by default, all names.
        askable_hosts(hosts: AskableHosts) = hosts;
    }

    /// `true` if commands of this worker reach hosts by a list of names.
    pub(crate) fn names_hosts(&self) -> bool {
        matches!(self.policy.network(), Network::Hosts(_))
    }

    /// Each command begins where the one before ended: in its directory, with its variables.
    /// Nothing keeps running for it.
    pub fn session(mut self) -> Self {
        self.session = Some(Arc::default());
        self
    }

    /// A line as it would run now.
    pub(crate) fn begin(&self, line: CommandLine) -> CommandLine {
        match &self.session {
            Some(session) => line.in_session(session.state()),
            None => line,
        }
    }

    pub(crate) fn check_programs(&self, line: &CommandLine) -> Result<(), CallFailure> {
        ProgramList::check(&self.programs, line, &self.policy)
    }

    pub(crate) fn starter(&self) -> &dyn CommandRunner {
        &*self.starter
    }

    pub(crate) fn timeout(&self, asked: Option<u64>) -> Duration {
        asked
            .map_or(self.default_timeout, Duration::from_secs)
            .min(self.max_timeout)
    }

    /// Returns the notes for the model after a command failed, from its output: also about
    /// read-only file systems, refused operations, and name resolution with the network off. `unreachable` is `true` if it is known to have tried another host.
    pub(crate) fn notes_after(&self, stderr: &str, unreachable: bool) -> Vec<String> {
        let mut notes = Vec::new();
        let refused = [
            "Permission denied",
            "Read-only file system",
            "Operation not permitted",
        ];
        if refused.iter().any(|words| stderr.contains(words)) {
            let writable = if self.writable.is_empty() {
                "none".to_owned()
            } else {
                self.writable.join(", ")
            };
            notes.push(format!(
                "Note: This worker's writable paths are: {writable}"
            ));
        }
        if stderr.contains("could not write config file") {
            notes.extend(match self.policy.git_config() {
                GitConfig::Kept => Some(
                    "Note: The configuration of a repository (.git/config) is kept as it is."
                        .to_owned(),
                ),
                GitConfig::Judged => Some(
                    "Note: git can add remotes and branches to the configuration of a repository \
                     (.git/config), and change the committer's name and address there. Everything \
                     else is kept as it is."
                        .to_owned(),
                ),
                _ => None,
            });
        }
        let no_host = [
            "Network is unreachable",
            "Could not resolve",
            "Temporary failure in name resolution",
            "Name or service not known",
            "getaddrinfo",
        ];
        // By a loopback on which only the command itself may listen.
        let nobody = ["Connection refused", "ECONNREFUSED"];
        let no_network = "Note: Network access is disabled for this worker.";
        let met =
            |words: &[&str]| !self.network && words.iter().any(|words| stderr.contains(words));
        if unreachable || met(&no_host) {
            notes.push(no_network.to_owned());
        } else if met(&nobody) {
            notes.push(format!(
                "{no_network} On 127.0.0.1 and ::1 a command reaches only what it has started \
                 itself."
            ));
        }
        notes
    }
}
