//! One run of the git program: its access, its settings, and the limits of its output.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use os_sandbox::{
    Access, Captured, Command, Directories, Environment, Exceeded, Exit, Limits, Network, Plan,
    Policy, PolicyBuilder, Requirement, Sandbox, Stdio, Stream, Support, System,
};

use super::ssh;
use crate::error::{GitError, GitErrorKind};

/// Git's error messages are short.
const MAX_COMPLAINT_BYTES: usize = 16 << 10;
/// One file that git writes: a pack, with all that a branch's head is made of.
const MAX_FILE_BYTES: u64 = 1 << 30;
const MAX_MEMORY_BYTES: u64 = 2 << 30;
const MAX_PROCESSES: u64 = 64;

/// Where the cache and a repository of this machine appear to git, from its working directory.
pub(super) const CACHE: &str = "cache";
pub(super) const OTHER: &str = "other";
/// The certificate authorities for web servers.
const CERTIFICATES: &str = "certificates";

/// Settings that no file can change: those of a command line are read last. Each of them names a
/// program that git would otherwise start, or something that it would otherwise do by itself.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.sshCommand=false",
    "core.gitProxy=",
    "core.askPass=",
    "core.pager=cat",
    "core.editor=false",
    "core.alternateRefsCommand=true",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "core.symlinks=false",
    "credential.helper=",
    "diff.external=",
    "gc.auto=0",
    "maintenance.auto=false",
    "receive.autogc=false",
    "receive.denyCurrentBranch=refuse",
    "receive.updateServerInfo=false",
    "fetch.recurseSubmodules=false",
    "push.recurseSubmodules=no",
    "push.gpgSign=false",
    "commit.gpgSign=false",
    "submodule.recurse=false",
    "transfer.bundleURI=false",
    // One file for each transfer, which is bounded, and nothing large in memory.
    "fetch.unpackLimit=1",
    "core.bigFileThreshold=32m",
    "http.followRedirects=false",
    "http.cookieFile=",
    "http.proxy=",
    "protocol.allow=never",
];

/// A command for git.
pub(super) struct GitCommand {
    pub(super) args: Vec<String>,
    pub(super) stdin: Vec<u8>,
    /// More than this of an answer ends it.
    pub(super) max_answer_bytes: usize,
    pub(super) wall: Duration,
    pub(super) reach: Remote,
}

/// The remote side of a command.
#[derive(Clone)]
pub(super) enum Remote {
    /// Only the cache.
    Cache,
    /// A repository of this machine, and whether it may change it.
    Local(PathBuf, Access),
    /// A web server, the header for it, and the certificate authorities, if not the system's own
    /// list.
    Web {
        protocol: &'static str,
        origin: String,
        header: Option<String>,
        certificates: Option<PathBuf>,
    },
    /// A server reached by ssh: its name here, the agent, and the trusted host keys.
    Ssh {
        program: PathBuf,
        agent: PathBuf,
        known_hosts: PathBuf,
    },
}

/// The output of git.
pub(super) struct GitOutput {
    pub(super) exit: Exit,
    pub(super) answer: Vec<u8>,
    pub(super) complaint: String,
}

impl GitCommand {
    pub(super) fn new<S: Into<String>>(args: impl IntoIterator<Item = S>) -> Self {
        GitCommand {
            args: args.into_iter().map(Into::into).collect(),
            stdin: Vec::new(),
            max_answer_bytes: 64 << 10,
            wall: Duration::from_secs(120),
            reach: Remote::Cache,
        }
    }
}

/// A setting for git as an argument of a shell's command, as `--receive-pack` takes one.
pub(super) fn remote_command(program: &str) -> String {
    let settings = SETTINGS.iter().map(|setting| format!(" -c {setting}"));
    format!("git{} {program}", settings.collect::<String>())
}

/// The settings and options before the command of git.
fn arguments(remote: &Remote) -> Vec<String> {
    let mut args: Vec<String> = Vec::new();
    for setting in SETTINGS {
        args.extend(["-c".to_owned(), (*setting).to_owned()]);
    }
    let protocol = match remote {
        Remote::Cache => None,
        Remote::Local(..) => Some("file"),
        Remote::Web { protocol, .. } => Some(*protocol),
        Remote::Ssh { .. } => Some("ssh"),
    };
    if let Some(protocol) = protocol {
        args.extend(["-c".to_owned(), format!("protocol.{protocol}.allow=always")]);
    }
    args.extend(["--no-pager", "--literal-pathspecs", "--git-dir", CACHE].map(str::to_owned));
    args
}

/// Runs git once, confined.
pub(super) fn run(
    support: &Support,
    git: &str,
    cache: &std::path::Path,
    job: GitCommand,
) -> Result<GitOutput, GitError> {
    let plan = plan(support, cache, &job).map_err(unavailable)?;
    let mut child = Command::new(&Sandbox::open(plan, Directories::user()), git)
        .args(arguments(&job.reach))
        .args(job.args)
        .stdin(Stdio::Piped)
        .timeout(job.wall)
        .spawn()
        .map_err(unavailable)?;
    let killer = child.killer().map_err(unavailable)?;
    let (pipe, input) = (child.stdin.take(), job.stdin);
    let mut answer = Vec::new();
    let mut complaint = Captured::new(MAX_COMPLAINT_BYTES);
    let mut too_long = false;
    let exit = std::thread::scope(|scope| {
        // Git may answer before it has read everything.
        scope.spawn(move || {
            if let Some(mut pipe) = pipe {
                let _it_says_itself_why = pipe.write_all(&input);
            }
        });
        child.wait_streaming(|stream, bytes| match stream {
            Stream::Stderr => complaint.push(bytes),
            Stream::Stdout if answer.len() + bytes.len() > job.max_answer_bytes => {
                too_long = true;
                killer.kill();
            }
            Stream::Stdout => answer.extend_from_slice(bytes),
        })
    });
    let exit =
        exit.map_err(|error| GitErrorKind::Failed.error(format!("git was lost: {error}.")))?;
    if too_long {
        return Err(GitErrorKind::TooLarge.error(format!(
            "git answered with more than {} bytes.",
            job.max_answer_bytes
        )));
    }
    if let Some(limit) = child.exceeded() {
        return Err(ended(&limit));
    }
    Ok(GitOutput {
        exit,
        answer,
        complaint: complaint.text().into_owned(),
    })
}

fn unavailable(why: impl fmt::Display) -> GitError {
    GitErrorKind::Unavailable
        .error(format!("git cannot be run confined: {why}."))
        .hint("forge doctor says what this machine lacks.")
}

/// The error for a run that a limit ended.
fn ended(limit: &Exceeded) -> GitError {
    let kind = match limit {
        Exceeded::Wall(_) | Exceeded::Cpu(_) => GitErrorKind::TimeLimit,
        Exceeded::Memory(_) | Exceeded::Processes(_) | Exceeded::FileSize(_) => {
            GitErrorKind::TooLarge
        }
    };
    GitError::new(kind, format!("git was ended: {limit}."))
}

fn plan(
    support: &Support,
    cache: &std::path::Path,
    job: &GitCommand,
) -> Result<Plan, os_sandbox::Error> {
    let mut variables = BTreeMap::from(
        [
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "false"),
            ("SSH_ASKPASS", "false"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_FLUSH", "1"),
            // Its complaints are read.
            ("LC_ALL", "C"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    let policy = Policy::builder()
        .system(System::Minimal)
        .mount(cache, format!("/{CACHE}"), Access::READ | Access::WRITE)
        .limits(Limits {
            wall: Some(job.wall),
            cpu: Some(job.wall),
            file_bytes: Some(MAX_FILE_BYTES),
            memory_bytes: Some(MAX_MEMORY_BYTES),
            processes: Some(MAX_PROCESSES),
            ..Limits::default()
        });
    let policy = grant_remote(policy, &job.reach, &mut variables);
    let variables = variables.into_iter();
    let environment = variables.fold(Environment::clean(), |all, (name, value)| {
        all.set(name, value)
    });
    let policy = policy.env(environment).build()?;
    Ok(Plan::new(&policy, support, Requirement::Enforce)?)
}

/// Grants the access that a command on this remote needs, and adds its variables.
fn grant_remote(
    policy: PolicyBuilder,
    remote: &Remote,
    variables: &mut BTreeMap<String, String>,
) -> PolicyBuilder {
    match remote {
        Remote::Cache => policy.network(Network::Denied),
        Remote::Local(path, access) => {
            policy
                .network(Network::Denied)
                .mount_resolved(path, format!("/{OTHER}"), *access)
        }
        Remote::Web {
            origin,
            header,
            certificates,
            ..
        } => {
            let mut settings = Vec::new();
            if let Some(header) = header {
                // In no argument, which others could list, and for this server only.
                settings.push((format!("http.{origin}/.extraHeader"), header.clone()));
            }
            let mut policy = policy.network(Network::Unrestricted);
            if let Some(file) = certificates {
                settings.push(("http.sslCAInfo".to_owned(), CERTIFICATES.to_owned()));
                policy = policy.mount(file, format!("/{CERTIFICATES}"), Access::READ);
            }
            variables.insert("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string());
            for (n, (key, value)) in settings.into_iter().enumerate() {
                variables.insert(format!("GIT_CONFIG_KEY_{n}"), key);
                variables.insert(format!("GIT_CONFIG_VALUE_{n}"), value);
            }
            policy
        }
        Remote::Ssh {
            program,
            agent,
            known_hosts,
        } => {
            let ssh = [
                ("GIT_SSH_COMMAND", ssh::command(program)),
                ("GIT_SSH_VARIANT", "ssh".to_owned()),
                ("SSH_AUTH_SOCK", agent.to_string_lossy().into_owned()),
            ];
            variables.extend(ssh.map(|(name, value)| (name.to_owned(), value)));
            policy
                .network(Network::Unrestricted)
                .unix_socket(agent)
                .mount(known_hosts, format!("/{}", ssh::KNOWN_HOSTS), Access::READ)
        }
    }
}
