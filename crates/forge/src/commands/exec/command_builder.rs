//! The command of `forge exec` for a plan.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use forge_tools::{CommandServices, NamedHostProxy, TemporaryPorts};
use os_sandbox::{Command, Directories, Plan, Policy, ReportLevel, Stdio};

use super::ask_hosts::CommandHostQuestions;
use crate::cli::{ExecArgs, Global, TraceReport};
use crate::output::stderr;
use crate::setup::presets::{ActivePresets, KeyServices};
use crate::signals::STOP_GRACE;
use crate::terminal;

/// The command line of `forge exec`, for the first plan or for one that is made again.
pub(super) struct CommandBuilder<'a> {
    pub(super) global: &'a Global,
    pub(super) args: &'a ExecArgs,
    pub(super) program: &'a OsString,
    pub(super) arguments: &'a [OsString],
    /// The variables of the committer, of the person's settings of git, and of their programs.
    pub(super) of_person: Vec<(&'static str, String)>,
    pub(super) directory: String,
    /// `None`: hosts that no rule names are refused.
    pub(super) questions: Option<&'a CommandHostQuestions>,
    pub(super) presets: Option<&'a ActivePresets>,
    /// The ports of logins.
    pub(super) ports: TemporaryPorts,
}

impl CommandBuilder<'_> {
    pub(super) fn build(&self, plan: &Plan) -> Command {
        if let Some(told) = plan.fallback()
            && self.args.mechanism.is_none()
            && !self.global.quiet
        {
            stderr::print(format!("warning: {told}"));
        }
        let sandbox = forge_tools::open_sandbox(plan.clone(), Directories::user());
        let program = self.program.to_string_lossy();
        let inner = self.presets.map(|presets| presets.inner_sandbox(&program));
        let (first, variables) = inner.unwrap_or((&[], &[]));
        // An argument that is given decides.
        let is_given =
            |argument: &String| self.arguments.iter().any(|own| own == argument.as_str());
        let first = if first.iter().any(is_given) {
            &[]
        } else {
            first
        };
        let keys = self.presets.map(|presets| presets.key_services(plan));
        let with_url = keys.as_ref().map(|keys| keys.arguments(&program));
        let command = Command::new(&sandbox, self.program)
            .args(first)
            .args(with_url.unwrap_or_default())
            .args(self.arguments)
            .cwd(self.directory.clone())
            .reports(report_level(self.args, plan.policy()))
            .session(terminal::session(plan))
            .stdin(Stdio::Inherit);
        let command = match self.global.json {
            // Standard output is for the object, which holds the command's output.
            true => command.stdout(Stdio::Piped).stderr(Stdio::Piped),
            false => command.stdout(Stdio::Inherit).stderr(Stdio::Inherit),
        };
        let command = self.with_host_proxy(command, plan, keys.as_ref());
        let placeholders = keys.as_ref().map(KeyServices::variables);
        let placeholders = placeholders.unwrap_or_default();
        let command = self
            .of_person
            .iter()
            .fold(command, |command, (name, value)| command.env(*name, value));
        let of_presets = self.preset_variables(plan);
        let of_tools = self.presets.map(ActivePresets::settings_variables);
        let of_tools = unset_all(of_tools.unwrap_or_default(), plan.policy());
        let variables = variables.iter().chain(&placeholders).chain(&of_presets);
        let variables = variables.chain(of_tools);
        let command = variables.fold(command, |command, (name, value)| command.env(name, value));
        let command = command.grace(STOP_GRACE);
        match self.args.timeout {
            Some(seconds) => command.timeout(Duration::from_secs(seconds)),
            None => command,
        }
    }

    /// Lets a command ask about hosts, and use keys that stay outside.
    fn with_host_proxy(
        &self,
        command: Command,
        plan: &Plan,
        keys: Option<&KeyServices<'_>>,
    ) -> Command {
        let services = CommandServices {
            ask: self.questions.map(CommandHostQuestions::asker),
            credentials: keys.map(KeyServices::credentials).unwrap_or_default(),
            termination: keys.and_then(KeyServices::termination),
        };
        let urls = self.presets.and_then(ActivePresets::urls);
        let ports = urls.filter(|_| plan.can_publish_ports());
        let ports = ports.map(|_| self.ports.clone());
        let is_needed = services.ask.is_some()
            || !services.credentials.is_empty()
            || services.termination.is_some()
            || ports.is_some();
        if !is_needed {
            return command;
        }
        let none = || ports.is_some().then(NamedHostProxy::without_hosts);
        match NamedHostProxy::new(plan).or_else(none) {
            Some(proxy) => command.host_proxy(proxy.for_command(services, ports)),
            None => command,
        }
    }

    /// Returns the search path of the command.
    pub(super) fn search_path(&self, policy: &Policy) -> String {
        let own = self.of_person.iter().find(|(name, _)| *name == "PATH");
        let of_policy = || policy.environment().search_path();
        own.map_or_else(
            || of_policy().to_string_lossy().into_owned(),
            |(_, path)| path.clone(),
        )
    }

    /// Returns the variables by which programs find the opener of URLs, and the programs that commands
    /// have installed in the kept home directory: after all others.
    fn preset_variables(&self, plan: &Plan) -> Vec<(String, String)> {
        let Some(presets) = self.presets else {
            return Vec::new();
        };
        let urls = presets.urls();
        let mut path: Vec<String> = urls
            .map(|urls| urls.dir().display().to_string())
            .into_iter()
            .collect();
        path.push(self.search_path(plan.policy()));
        let home = presets.dirs().home.iter();
        path.extend(
            home.flat_map(|home| INSTALLED.map(|dir| home.join(dir).display().to_string())),
        );
        let browser = urls.map(|urls| ("BROWSER".to_owned(), urls.opener().display().to_string()));
        let path = ("PATH".to_owned(), path.join(":"));
        browser.into_iter().chain([path]).collect()
    }
}

/// Directories of a home directory into which tools install programs.
const INSTALLED: [&str; 3] = [".local/bin", ".cargo/bin", ".npm-global/bin"];

/// Returns the degree of the reports about the command: that of the project, or the one typed.
pub(super) fn report_level(args: &ExecArgs, policy: &Policy) -> ReportLevel {
    match args.trace {
        Some(TraceReport::Off) => ReportLevel::Off,
        Some(TraceReport::Full) => ReportLevel::Full,
        Some(TraceReport::All) if args.full => ReportLevel::Full,
        Some(TraceReport::All) => ReportLevel::Refused.max(policy.reports()),
        None => policy.reports(),
    }
}

/// Like [`unset`], of variables in a list.
fn unset_all<'v>(
    variables: &'v [(String, String)],
    policy: &'v Policy,
) -> impl Iterator<Item = &'v (String, String)> {
    let set = policy.environment().variables();
    let is_free = move |(name, _): &&(String, String)| !set.contains_key(OsStr::new(name));
    variables.iter().filter(is_free)
}

/// Returns those of the variables that the policy does not set itself.
pub(super) fn unset(
    variables: impl Iterator<Item = (&'static str, String)>,
    policy: &Policy,
) -> Vec<(&'static str, String)> {
    let set = policy.environment().variables();
    variables
        .filter(|(name, _)| !set.contains_key(OsStr::new(name)))
        .collect()
}
