//! `--ask-hosts`: the person at the terminal is asked about each host that no rule names, while the
//! command waits.

use std::sync::Arc;

use os_sandbox::{NamedHosts, Network, Plan, Policy, Session};
use sandbox_config::{AskableHosts, Grant, Project};
use tokio::runtime::Runtime;

use forge_tools::{HostQuestions, with_asked_ports};
use sandbox_network::AskHost;

use super::exec_log::ExecLog;
use crate::cli::{ExecArgs, Global};
use crate::commands::prelude::*;
use crate::output::escape::shell_word;
use crate::output::prompt::TerminalApprover;
use crate::output::prompt_terminal::PromptTerminal;
use crate::setup;
use crate::setup::host_rules::host_rule_writer;
use crate::setup::repositories;
use crate::terminal;

/// Hint about the way without questions.
const NAME_HOSTS: &str = "name the hosts instead: forge exec --host HOST";

/// Checks that a person can be asked.
pub(super) fn check(args: &ExecArgs, ambient: &Ambient) -> Result<(), CliError> {
    if !args.ask_hosts {
        return Ok(());
    }
    let reason = if ambient.no_questions(ambient.global.no_input) {
        "questions are turned off"
    } else {
        match PromptTerminal::has_foreground() {
            Ok(true) => return Ok(()),
            Ok(false) => "forge runs in the background",
            Err(_) => "there is no terminal",
        }
    };
    let message = format!("--ask-hosts cannot ask: {reason}");
    Err(CliError::exec_refused("terminal", message).hint(NAME_HOSTS))
}

/// Warns that a command without a terminal of its own can write over a question.
pub(super) fn warn_of_a_shared_terminal(args: &ExecArgs, plan: &Plan, global: &Global) {
    if args.ask_hosts
        && terminal::session(plan) == Session::Inherit
        && !global.quiet
        && !global.json
    {
        stderr::print(
            "warning: the command shares your terminal and can write over a question: look at the \
             host in `forge log show last`",
        );
    }
}

pub(super) fn not_in_container() -> CliError {
    let message = "--ask-hosts cannot ask about hosts of a command in a container";
    CliError::exec_refused("isolation.unavailable", message)
        .hint("run it on this host: --runner local")
}

/// Returns a policy with the hosts that the project names, and listeners for those that are asked
/// about. A network that is off or open becomes an empty list.
pub(super) fn asking_policy(policy: Policy, askable: &AskableHosts) -> Result<Policy, CliError> {
    if askable.is_empty() {
        let message = "--ask-hosts cannot ask: `network` in your own file allows no host";
        return Err(CliError::exec_refused("network", message));
    }
    let policy = match policy.network() {
        Network::Hosts(_) => policy,
        _ => {
            let denied = askable.denied().iter().map(ToString::to_string);
            return with_named_hosts(policy, denied.fold(NamedHosts::default(), NamedHosts::deny));
        }
    };
    Ok(with_asked_ports(policy))
}

/// Returns a policy with a list of hosts, and listeners for the others.
pub(super) fn with_named_hosts(policy: Policy, hosts: NamedHosts) -> Result<Policy, CliError> {
    let named = policy.with_network(Network::Hosts(hosts));
    named
        .map(with_asked_ports)
        .map_err(|error| CliError::exec_refused("mount.unavailable", error.to_string()))
}

/// The questions about the hosts of one command, and the threads on which they are asked.
pub(super) struct CommandHostQuestions {
    questions: HostQuestions,
    askable: AskableHosts,
    runtime: Runtime,
}

impl CommandHostQuestions {
    pub(super) fn new(
        args: &ExecArgs,
        project: &Project,
        grant: &Grant,
        ambient: &Ambient,
        log: &ExecLog,
    ) -> Result<Self, CliError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| CliError::exec_refused("runtime", error.to_string()))?;
        let approver = TerminalApprover::new(
            setup::approval_timeout(project),
            ambient.colour,
            None,
            host_rule_writer(project, ambient),
        );
        let approver = Arc::new(approver.on_controlling_terminal());
        let words = args.command.iter().map(|word| word.to_string_lossy());
        let command: Vec<String> = words.map(|word| shell_word(&word)).collect();
        let questions = HostQuestions::new(
            super::exec_log::TOOL,
            &command.join(" "),
            approver,
            log.recorder(),
        )
        .redacted_by(ambient.redactor(&repositories::secrets_of(project, ambient)));
        Ok(CommandHostQuestions {
            questions,
            askable: grant.askable_hosts().clone(),
            runtime,
        })
    }

    /// Returns the asker of a command.
    pub(super) fn asker(&self) -> Arc<dyn AskHost> {
        self.questions.asker(&self.askable, self.runtime.handle())
    }
}
