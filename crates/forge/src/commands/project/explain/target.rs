//! The subject of a question to `forge explain`: a path, a host, a repository, a tool, a worker or a
//! command, as a person types it.

use std::net::Ipv6Addr;
use std::path::Path;

use file_sandbox::SandboxPath;
use forge_tools::{CommandLine, Spec};
use sandbox_config::{Mount, Operation, Project, Worker};
use url::Url;

use crate::cli::{ExplainArgs, Global};
use crate::commands::prelude::*;
use crate::output::escape::shell_word;
use crate::setup::offered_tools;

/// The subject of the question.
#[derive(Debug)]
pub(super) enum ExplainTarget {
    Path {
        path: SandboxPath,
        operation: Operation,
        /// About the path of this host that was typed.
        note: Option<String>,
    },
    Host {
        name: String,
        port: u16,
        /// About the URL that was typed.
        note: Option<String>,
    },
    /// An address, or a repository's name in a file.
    Repository {
        name: String,
        staging: bool,
    },
    Tool(Spec),
    /// A call of `name` by `caller`, the last worker of the chain.
    Worker {
        name: String,
        caller: Option<Box<Worker>>,
    },
    Command(CommandLine),
}

impl ExplainTarget {
    /// Reads the target from the arguments.
    pub(super) fn of(
        global: &Global,
        project: &Project,
        last: Option<Worker>,
        args: &ExplainArgs,
    ) -> Result<ExplainTarget, CliError> {
        let Some(word) = args.subject.as_deref() else {
            return command(&args.command).map(ExplainTarget::Command);
        };
        let operation = operation(args);
        if let Some(host) = word.strip_prefix("host:") {
            return host_of(host).ok_or_else(|| CliError::usage(reason_against_host(host)));
        }
        if let Some(name) = word.strip_prefix("repo:") {
            return Ok(ExplainTarget::Repository {
                name: name.to_owned(),
                staging: args.write,
            });
        }
        if word.contains("://") {
            return host_of_url(word)
                .ok_or_else(|| CliError::usage(format!("`{word}` is not a URL of a host")));
        }
        let tools = offered_tools::all_tools()?;
        if let Some(spec) = tools.iter().find(|spec| spec.answers_to(word)) {
            return Ok(ExplainTarget::Tool(spec.clone()));
        }
        if project
            .workers()?
            .iter()
            .any(|worker| worker.name() == word)
        {
            return Ok(ExplainTarget::Worker {
                name: word.to_owned(),
                caller: last.map(Box::new),
            });
        }
        if let Some(path) = existing_path(global, project, word) {
            return Ok(ExplainTarget::Path {
                path,
                operation,
                note: None,
            });
        }
        check_slashes(word)?;
        if word.contains('/') {
            return typed_path(project, word, operation);
        }
        check_not_a_key(project, word)?;
        if (word.contains(['.', ':']) || word == "localhost")
            && let Some(host) = host_of(word)
        {
            return Ok(host);
        }
        let names: Vec<&str> = tools.iter().map(|spec| spec.name.as_str()).collect();
        Err(CliError::usage(format!("`{word}` is not a sandbox path, host, tool or worker")).hint(format!(
            "a path begins with `/`, a host with `host:`, a repository with `repo:`, a command comes after `--`; tools are: {}",
            names.join(", ")
        )))
    }
}

fn operation(args: &ExplainArgs) -> Operation {
    match (args.write, args.delete) {
        (true, _) => Operation::Write,
        (false, true) => Operation::Delete,
        (false, false) => Operation::Read,
    }
}

/// Returns the sandbox path of a file in the working directory, whose name can look like a host.
fn existing_path(global: &Global, project: &Project, word: &str) -> Option<SandboxPath> {
    if word.starts_with('/') {
        return None;
    }
    let here = global.directory.as_deref().unwrap_or(Path::new("."));
    let file = here.join(word);
    let name = file.file_name()?;
    std::fs::symlink_metadata(&file).ok()?;
    // The parent alone: a link is answered about by its own name.
    let host = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    let host = host
        .unwrap_or(Path::new("."))
        .canonicalize()
        .ok()?
        .join(name);
    // A file outside of every mount keeps its name, which is then not a host's.
    let inside = project.ceiling().sandbox_path(&host);
    let inside = inside.or_else(|| Some(format!("/{}", word.trim_start_matches("./"))));
    SandboxPath::parse(&inside?).ok()
}

/// Refuses `https:/example.com`: it is no file, and a URL has two slashes.
fn check_slashes(word: &str) -> Result<(), CliError> {
    let scheme = word.split_once(":/").map_or("", |(scheme, _)| scheme);
    if scheme.is_empty() || scheme.bytes().any(|byte| !byte.is_ascii_alphabetic()) {
        return Ok(());
    }
    let text = format!("`{word}` is neither a file nor a URL: a URL has two slashes");
    let hint = format!("for a file of this name: forge explain ./{word}");
    Err(CliError::usage(text).hint(hint))
}

/// Returns the path that a word is, as file tools take it: a path of this host in a mount, unless the
/// literal path exists.
fn typed_path(
    project: &Project,
    word: &str,
    operation: Operation,
) -> Result<ExplainTarget, CliError> {
    let literal = SandboxPath::parse(word)
        .map_err(|error| CliError::usage(format!("`{word}` is not a sandbox path: {error}")))?;
    let ceiling = project.ceiling();
    let mount = ceiling.mount_at(literal.as_str());
    let exists = mount.is_some_and(|mount| !is_absent(mount, &literal));
    let inside = match word.starts_with('/') && !exists {
        true => ceiling.sandbox_path(Path::new(word)),
        false => None,
    };
    let inside = inside.and_then(|path| SandboxPath::parse(&path).ok());
    let note = match &inside {
        Some(path) => Some(format!("this host's {word} is {path} inside")),
        None if exists => None,
        None => address_note(word),
    };
    Ok(ExplainTarget::Path {
        path: inside.unwrap_or(literal),
        operation,
        note,
    })
}

/// Returns a note for a path that can be meant as an address: `github.com/octo/repo`.
fn address_note(word: &str) -> Option<String> {
    let (first, _) = word.split_once('/')?;
    let is_meant = first.contains('.') && host_of(first).is_some();
    is_meant.then(|| format!("this is about a path; for the host: `forge explain host:{first}`"))
}

/// Refuses a key of the configuration, which looks like a host.
fn check_not_a_key(project: &Project, word: &str) -> Result<(), CliError> {
    if !word.contains('.') || project.settings().get(word).is_err() {
        return Ok(());
    }
    let hint = format!("run `forge config get {word}`; a host is written `host:{word}`");
    Err(CliError::usage(format!("`{word}` is a key of the configuration")).hint(hint))
}

/// Returns the host of a URL, and the port that its scheme stands for.
fn host_of_url(url: &str) -> Option<ExplainTarget> {
    let url = Url::parse(url).ok()?;
    let port = url.port_or_known_default().or(match url.scheme() {
        "ssh" => Some(22),
        "git" => Some(9418),
        _ => None,
    })?;
    let mut host = host_of(&format!("{}:{port}", url.host_str()?))?;
    if let ExplainTarget::Host { note, .. } = &mut host {
        *note = Some("of a URL the host and the port are judged".to_owned());
    }
    Some(host)
}

/// Returns the reason for which a text is not a host.
fn reason_against_host(text: &str) -> String {
    let port = text.rsplit_once(':').map_or("", |(_, port)| port);
    match port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_err() {
        true if !port.is_empty() => format!("`{port}` is not a port"),
        _ => format!("`{text}` is not a host"),
    }
}

fn host_of(text: &str) -> Option<ExplainTarget> {
    let (name, port) = match text.rsplit_once(':') {
        // An IPv6 address in brackets, or a name with a port.
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => {
            (name, port.parse().ok()?)
        }
        Some(_) | None => (text, 443),
    };
    let bare = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_name = |name: &str| {
        let labels = name.strip_suffix('.').unwrap_or(name);
        labels
            .split('.')
            .all(|label| !label.is_empty() && label.chars().all(fits))
    };
    let is_host = match bare {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<Ipv6Addr>().is_ok() || is_name(name),
    };
    let name = bare.unwrap_or(name);
    is_host.then(|| ExplainTarget::Host {
        name: name.to_ascii_lowercase(),
        port,
        note: None,
    })
}

/// One word is a whole line, as a model writes it; several are the words of one command.
fn command(words: &[String]) -> Result<CommandLine, CliError> {
    let line = match words {
        [line] => line.clone(),
        words => words
            .iter()
            .map(|word| shell_word(word))
            .collect::<Vec<_>>()
            .join(" "),
    };
    CommandLine::parse(&line).map_err(|error| CliError::usage(format!("the command: {error}")))
}

/// `true` if no file of the host is at `path`, which is in `mount`.
pub(super) fn is_absent(mount: &Mount, path: &SandboxPath) -> bool {
    let Some(below) = path.as_str().strip_prefix(mount.target()) else {
        return false;
    };
    let at = mount.host().join(below.trim_start_matches('/'));
    let found = std::fs::symlink_metadata(at);
    found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}
