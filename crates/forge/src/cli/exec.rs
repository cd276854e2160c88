//! Options of `forge exec`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use sandbox_config::HostGroup;

#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/exec.txt"))]
pub(crate) struct ExecArgs {
    /// Run under what this worker holds instead of what the project holds.
    #[arg(long, value_name = "WORKER", conflicts_with = "presets")]
    pub(crate) worker: Option<String>,
    #[command(flatten)]
    pub(crate) rights: CommandRights,
    /// Keep its changes apart: the project is not touched, and what the command changed is listed at
    /// the end, for you to apply or discard (`forge review`). `sandbox.review: true` makes this the
    /// default. `copy` makes the changes in a bounded copy of the project, where no overlay can be
    /// mounted.
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "overlay")]
    pub(crate) review: Option<ReviewLayer>,
    /// Ask on the terminal about each host that no rule names, while the command waits: for this
    /// command, or always, by a rule of yours for this project. Denied hosts are not asked about.
    #[arg(long)]
    pub(crate) ask_hosts: bool,
    /// Reach named hosts through the proxy of HTTPS_PROXY, ALL_PROXY or HTTP_PROXY, except those in
    /// NO_PROXY. It resolves their names, so private addresses behind them are not refused.
    #[arg(long)]
    pub(crate) parent_proxy: bool,
    /// Set a variable for it: `NAME=VALUE`, or `NAME` for the value that you have. May be repeated.
    /// Of your variables it gets only `LANG`, `LC_*`, `TERM`, `COLORTERM`, `NO_COLOR`, `TZ` and `CI`.
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub(crate) variables: Vec<String>,
    /// Use this mechanism, or fail.
    #[arg(long, value_name = "NAME")]
    pub(crate) mechanism: Option<MechanismName>,
    /// End the command, and everything it started, after this many seconds: SIGTERM first, and 5 seconds
    /// later the rest.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
    /// Write what was really enforced to this file, as JSON; `-` is the same as --json.
    #[arg(long, value_name = "FILE")]
    pub(crate) receipt: Option<PathBuf>,
    /// Say at the end everything that the command was refused, also if it succeeded, with the
    /// program that tried it. `full` adds refused reads, what was touched, and the smallest grants that
    /// would let it pass; every open of a file then takes longer. `off` reports nothing, which is faster for commands that make many
    /// files, and lets the command trace its own system calls by a filter.
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    pub(crate) trace: Option<TraceReport>,
    /// With --trace: the same as --trace=full.
    #[arg(long, requires = "trace")]
    pub(crate) full: bool,
    /// Exit with 123 if something that the command created was moved to the quarantine.
    #[arg(long)]
    pub(crate) fail_on_quarantine: bool,
    /// Run without any OS sandbox: the command can do whatever you can.
    #[arg(long, conflicts_with_all = NEEDS_OS_SANDBOX)]
    pub(crate) no_os_sandbox: bool,
    /// Run it in a container, or here, whatever the project prefers.
    #[arg(long, value_name = "WHERE")]
    pub(crate) runner: Option<RunnerName>,
    /// The command and its arguments. Options of forge stand before it; `--` in between is optional.
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Rights of a typed command beside those of the project: for `forge exec` and `forge explain`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CommandRights {
    /// Nothing of the project may be written. The home directory that is kept for a preset stays
    /// writable.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Give the command the needs of this program: hosts, programs, a home directory that is kept for the project,
    /// variables. `forge preset list` shows the presets. Several are separated by commas. They replace
    /// those of the project (`sandbox.presets`).
    #[arg(long = "preset", value_name = "NAME", value_delimiter = ',')]
    pub(crate) presets: Vec<String>,
    /// Let the command reach this group of hosts of its presets, too.
    #[arg(
        long = "host-group",
        value_name = "GROUP",
        value_delimiter = ',',
        value_parser = host_group()
    )]
    pub(crate) host_groups: Vec<HostGroup>,
    /// Share the login, the history and the keys of yours that its presets name, without a question.
    #[arg(long, conflicts_with = "no_share")]
    pub(crate) share: bool,
    /// Share nothing of yours with its presets: it starts with a home directory of its own.
    #[arg(long)]
    pub(crate) no_share: bool,
    /// Keep the keys of its presets outside also for programs that encrypt their requests themselves:
    /// forge ends their TLS with a certificate authority that exists for this command, and adds the
    /// key. Programs that do not trust the authority cannot reach these servers.
    #[arg(long)]
    pub(crate) terminate_tls: bool,
    /// Let it open URLs of this origin in your browser, beside those of its presets:
    /// `https://example.com`. May be repeated.
    #[arg(long = "open-url", value_name = "ORIGIN", value_parser = origin)]
    pub(crate) open_urls: Vec<String>,
    /// Let the command reach this host by name, instead of the hosts in `network.allow`: `example.com`,
    /// `*.example.com`, `example.com:8443`, `localhost:5432`. What the project denies stays denied.
    /// May be repeated.
    #[arg(long = "host", value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
}

fn origin(text: &str) -> Result<String, String> {
    match sandbox_config::is_origin(text) {
        true => Ok(text.to_owned()),
        false => {
            Err("write `https://`, a host in lower case and maybe a port, and no path".to_owned())
        }
    }
}

impl CommandRights {
    /// Returns `true` if a right is given or taken.
    pub(crate) fn is_given(&self) -> bool {
        self.read_only
            || self.share
            || self.no_share
            || self.terminate_tls
            || !(self.open_urls.is_empty()
                && self.presets.is_empty()
                && self.host_groups.is_empty()
                && self.hosts.is_empty())
    }
}

impl ExecArgs {
    /// Returns the correction if the command's name is the value of an option before it:
    /// `--review copy`.
    pub(crate) fn flag_of_value(&self, program: &OsStr) -> Option<String> {
        let program = program.to_str()?;
        let flag = match program {
            "copy" | "overlay" if self.review.is_some() => "review",
            "all" | "full" | "off" if self.trace.is_some() => "trace",
            _ => return None,
        };
        Some(format!("did you mean --{flag}={program}?"))
    }
}

/// Options that an OS sandbox carries out: without one they would do nothing.
#[rustfmt::skip]
const NEEDS_OS_SANDBOX: [&str; 14] = [
    "ask_hosts", "fail_on_quarantine", "host_groups", "hosts", "mechanism", "open_urls",
    "parent_proxy", "presets", "read_only", "review", "share", "terminate_tls", "trace", "worker",
];

/// The place for the changes of a command under review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReviewLayer {
    /// In the upper directory of an overlay.
    Overlay,
    /// In a copy.
    Copy,
}

/// The reports of `forge exec` about refused attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceReport {
    All,
    Full,
    Off,
}

/// A mechanism that `exec` can be told to use.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum MechanismName {
    /// Namespaces, Landlock and seccomp inside.
    Namespaces,
    /// Namespaces by bubblewrap, Landlock and seccomp inside.
    Bubblewrap,
    /// Landlock and seccomp.
    Landlock,
}

/// Parses a group of hosts of a preset that is off by default.
fn host_group() -> impl TypedValueParser<Value = HostGroup> {
    let optional = HostGroup::ALL
        .iter()
        .filter(|(group, _)| !group.is_default());
    PossibleValuesParser::new(optional.map(|(_, key)| *key)).try_map(|word| {
        let found = HostGroup::ALL.iter().find(|(_, key)| *key == word);
        found.map(|(group, _)| *group).ok_or("unknown group")
    })
}

/// Where calls run.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum RunnerName {
    /// In a container, or not at all: `-c execution.mode=docker_required -c docker.enabled=true`.
    Docker,
    /// Here: `-c execution.mode=local_only`.
    Local,
}

impl RunnerName {
    /// The same, as settings of the command line.
    pub(crate) fn settings(self) -> &'static [&'static str] {
        match self {
            RunnerName::Docker => &["execution.mode=docker_required", "docker.enabled=true"],
            RunnerName::Local => &["execution.mode=local_only"],
        }
    }
}
