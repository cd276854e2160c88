//! Addresses of repositories. An address is parsed once, so that git never receives an option, a
//! transport that starts programs, or two lines.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use super::error::GitError;
use super::names::{ObjectId, invalid};

/// Most bytes of an address.
const MAX_REPO_BYTES: usize = 1024;

/// Where a repository is.
///
/// ```
/// use forge_git::Repo;
///
/// assert_eq!(Repo::parse("octo/reports")?.to_string(), "https://github.com/octo/reports.git");
/// assert!(Repo::parse("file:///srv/reports.git").is_ok());
/// for hostile in ["ext::sh -c id", "-u./x", "https://me:key@host/x", "http://host/x", "../x"] {
///     assert!(Repo::parse(hostile).is_err(), "{hostile}");
/// }
/// # Ok::<(), forge_git::GitError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Repo {
    place: RepoLocation,
}

/// The ways to reach one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum RepoLocation {
    /// A directory of this machine.
    Local(PathBuf),
    /// `https`, or `http` to this machine.
    Web {
        /// `https://host:port`, as git matches settings by.
        origin: String,
        /// With its slash.
        path: String,
    },
    /// `ssh`.
    Ssh {
        user: Option<String>,
        host: String,
        port: Option<u16>,
        /// With its slash.
        path: String,
    },
}

impl Repo {
    /// Parses `owner/name` (at GitHub), an absolute path, `file://`, `https://`, `ssh://` or
    /// `user@host:path`; `http://` only to this machine.
    ///
    /// # Errors
    /// It is none of them, or carries a password.
    pub fn parse(text: &str) -> Result<Self, GitError> {
        let bad = |why: &str| invalid("address of a repository", text, why);
        if text.is_empty() || text.len() > MAX_REPO_BYTES {
            return Err(bad("it must have 1 to 1024 bytes"));
        }
        if text.chars().any(char::is_control) {
            return Err(bad("it contains control characters"));
        }
        let place = match text.split_once("://") {
            Some(("file", path)) => local(path).map_err(bad)?,
            Some(("https", rest)) => web("https", rest).map_err(bad)?,
            Some(("http", rest)) => web("http", rest).map_err(bad)?,
            Some(("ssh", rest)) => ssh(rest).map_err(bad)?,
            Some(_) => return Err(bad("only file, https and ssh are used")),
            None if text.starts_with('/') => local(text).map_err(bad)?,
            None if text.contains("::") => return Err(bad("only file, https and ssh are used")),
            None => match text.split_once(':') {
                Some((host, path)) => short_ssh(host, path).map_err(bad)?,
                None => github(text).map_err(bad)?,
            },
        };
        Ok(Repo { place })
    }

    pub(crate) fn place(&self) -> &RepoLocation {
        &self.place
    }

    /// The server that it is at; none for a directory of this machine.
    ///
    /// ```
    /// use forge_git::{ServerOrigin, Repo};
    ///
    /// let repo = Repo::parse("git@git.example.com:octo/reports.git")?;
    /// assert_eq!(repo.origin(), Some(ServerOrigin::parse("ssh://git@git.example.com")?));
    /// assert_eq!(Repo::parse("/srv/reports.git")?.origin(), None);
    /// # Ok::<(), forge_git::GitError>(())
    /// ```
    pub fn origin(&self) -> Option<ServerOrigin> {
        match &self.place {
            RepoLocation::Local(_) => None,
            RepoLocation::Web { origin, .. } => Some(ServerOrigin(origin.clone())),
            RepoLocation::Ssh {
                user, host, port, ..
            } => Some(ServerOrigin(ssh_origin(user.as_deref(), host, *port))),
        }
    }

    /// Where a person can look at a commit.
    pub(crate) fn url_of(&self, commit: &ObjectId) -> String {
        match &self.place {
            RepoLocation::Web { origin, path } if origin == "https://github.com" => {
                let path = path.trim_end_matches(".git");
                format!("{origin}{path}/commit/{commit}")
            }
            RepoLocation::Web { .. } | RepoLocation::Local(_) | RepoLocation::Ssh { .. } => {
                self.to_string()
            }
        }
    }
}

impl fmt::Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            RepoLocation::Local(path) => write!(f, "file://{}", path.display()),
            RepoLocation::Web { origin, path } => write!(f, "{origin}{path}"),
            RepoLocation::Ssh {
                user,
                host,
                port,
                path,
            } => {
                f.write_str(&ssh_origin(user.as_deref(), host, *port))?;
                f.write_str(path)
            }
        }
    }
}

/// A server with a user name: credentials belong to it.
///
/// ```
/// use forge_git::ServerOrigin;
///
/// let origin = ServerOrigin::parse("https://GitHub.com:443/")?;
/// assert_eq!(origin.as_str(), "https://github.com");
/// assert!(ServerOrigin::parse("ssh://git@git.example.com:2222")?.is_ssh());
/// for none in ["/srv", "octo/reports", "https://github.com/octo", "https://me:key@host"] {
///     assert!(ServerOrigin::parse(none).is_err(), "{none}");
/// }
/// # Ok::<(), forge_git::GitError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerOrigin(String);

impl ServerOrigin {
    /// Parses `https://host[:port]` or `ssh://[user@]host[:port]`; `http` only to this machine.
    ///
    /// # Errors
    /// It is neither, or carries a path or a password.
    pub fn parse(text: &str) -> Result<Self, GitError> {
        let bad = |why: &str| invalid("origin of repositories", text, why);
        const SHAPE: &str = "write https://host or ssh://user@host";
        let short = text.strip_suffix('/').unwrap_or(text);
        let (_, authority) = short.split_once("://").ok_or_else(|| bad(SHAPE))?;
        if authority.contains('/') {
            return Err(bad(
                "it is for all repositories of a server: leave the path out",
            ));
        }
        let repo = Repo::parse(&format!("{short}/x")).map_err(|error| {
            let why = error.message().rsplit_once(" (");
            bad(why.map_or(SHAPE, |(_, why)| why.trim_end_matches(").")))
        })?;
        repo.origin().ok_or_else(|| bad(SHAPE))
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `true` if it is reached over ssh.
    pub fn is_ssh(&self) -> bool {
        self.0.starts_with("ssh://")
    }

    /// How it is reached, and its host with its port, as git's credential helpers are asked.
    pub(crate) fn parts(&self) -> (&str, &str) {
        self.0.split_once("://").unwrap_or(("", &self.0))
    }
}

sandbox_names::display!(ServerOrigin = &0);

fn ssh_origin(user: Option<&str>, host: &str, port: Option<u16>) -> String {
    let user = user.map(|user| format!("{user}@")).unwrap_or_default();
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    format!("ssh://{user}{host}{port}")
}

fn local(path: &str) -> Result<RepoLocation, &'static str> {
    let path = Path::new(path);
    if !path.is_absolute() {
        return Err("a path must be absolute");
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err("'..' is not allowed here");
    }
    Ok(RepoLocation::Local(path.components().collect()))
}

fn web(scheme: &str, rest: &str) -> Result<RepoLocation, &'static str> {
    let (authority, path) = rest.split_once('/').ok_or("it has no path")?;
    if authority.contains('@') {
        return Err("a name or a password does not belong into it");
    }
    let (host, port) = host_and_port(authority)?;
    let here = matches!(host.as_str(), "localhost" | "127.0.0.1" | "[::1]");
    if scheme == "http" && !here {
        return Err("http is readable by everybody on the way: use https");
    }
    let usual = if scheme == "http" { 80 } else { 443 };
    let port = port.filter(|port| *port != usual);
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    Ok(RepoLocation::Web {
        origin: format!("{scheme}://{host}{port}"),
        path: remote_path(path)?,
    })
}

fn ssh(rest: &str) -> Result<RepoLocation, &'static str> {
    let (authority, path) = rest.split_once('/').ok_or("it has no path")?;
    let (user, authority) = user_of(authority)?;
    let (host, port) = host_and_port(authority)?;
    Ok(RepoLocation::Ssh {
        user,
        host,
        port: port.filter(|port| *port != 22),
        path: remote_path(path)?,
    })
}

fn short_ssh(host: &str, path: &str) -> Result<RepoLocation, &'static str> {
    let (user, host) = user_of(host)?;
    // Without a name it could as well be a drive, or a transport.
    if user.is_none() {
        return Err("write ssh://host/path, or user@host:path");
    }
    let (host, _) = host_and_port(host)?;
    Ok(RepoLocation::Ssh {
        user,
        host,
        port: None,
        path: remote_path(path.trim_start_matches('/'))?,
    })
}

fn github(text: &str) -> Result<RepoLocation, &'static str> {
    const SHAPE: &str = "write owner/name, an absolute path, or a URL";
    let (owner, name) = text.split_once('/').ok_or(SHAPE)?;
    let name = name.strip_suffix(".git").unwrap_or(name);
    let is_owner = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let is_name = |c: char| is_owner(c) || matches!(c, '_' | '.');
    let fits = !owner.is_empty()
        && !owner.starts_with('-')
        && owner.chars().all(is_owner)
        && !name.is_empty()
        && !name.starts_with(['-', '.'])
        && name.chars().all(is_name);
    if !fits {
        return Err(SHAPE);
    }
    Ok(RepoLocation::Web {
        origin: "https://github.com".to_owned(),
        path: format!("/{owner}/{name}.git"),
    })
}

fn user_of(authority: &str) -> Result<(Option<String>, &str), &'static str> {
    let Some((user, host)) = authority.rsplit_once('@') else {
        return Ok((None, authority));
    };
    if user.contains(':') {
        return Err("a password does not belong into it");
    }
    let is_user = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if user.is_empty() || user.starts_with('-') || !user.chars().all(is_user) {
        return Err("invalid user name before '@'");
    }
    Ok((Some(user.to_owned()), host))
}

/// In lower case: servers and keys are found by name, and a name has no case.
fn host_and_port(authority: &str) -> Result<(String, Option<u16>), &'static str> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        Some(_) | None => (authority, None),
    };
    let is_address = |host: &str| {
        let inner = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        inner.is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
    };
    let is_name = |host: &str| {
        let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        !host.is_empty()
            && !host.starts_with(['-', '.'])
            && !host.ends_with('.')
            && host.chars().all(letter)
    };
    if !is_name(host) && !is_address(host) {
        return Err("invalid host name");
    }
    let port = match port.map(str::parse) {
        None => None,
        Some(Ok(port)) if port > 0 => Some(port),
        Some(_) => return Err("invalid port"),
    };
    Ok((host.to_ascii_lowercase(), port))
}

fn remote_path(path: &str) -> Result<String, &'static str> {
    let plain = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '~' | '+' | '%' | ' ')
    };
    if path.is_empty() || !path.chars().all(plain) {
        return Err("its path has characters that are not used in one");
    }
    if path.split('/').any(|name| name == "..") {
        return Err("'..' is not allowed here");
    }
    if !path.split('%').skip(1).all(stands_for_itself) {
        return Err("its path has a '%' that stands for what is not used in one");
    }
    Ok(format!("/{path}"))
}

/// `true` if the bytes after a `%` still have their meaning once they are decoded.
fn stands_for_itself(after: &str) -> bool {
    let digits = after
        .get(..2)
        .filter(|two| two.bytes().all(|b| b.is_ascii_hexdigit()));
    let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
    byte.is_some_and(|byte| byte >= 0x20 && byte != 0x7f && !b"./\\%".contains(&byte))
}
