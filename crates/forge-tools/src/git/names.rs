//! The names that git is given. Each is taken apart once, so that what reaches git is never an
//! option, a transport that starts programs, or two lines.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use super::error::{GitError, GitErrorKind};
use crate::escape::escape_controls;

/// Most bytes of an address.
const MAX_REPO_BYTES: usize = 1024;
/// Most bytes of a branch's name; the longest that a file system takes as one name.
const MAX_BRANCH_BYTES: usize = 255;

fn invalid(what: &str, text: &str, why: &str) -> GitError {
    let shown: String = text.chars().take(200).collect();
    let shown = escape_controls(&shown);
    GitError::new(
        GitErrorKind::Invalid,
        format!("Not the {what}: '{shown}' ({why})."),
    )
}

/// Where a repository is.
///
/// ```
/// use forge_tools::git::Repo;
///
/// assert_eq!(Repo::parse("octo/reports")?.to_string(), "https://github.com/octo/reports.git");
/// assert!(Repo::parse("file:///srv/reports.git").is_ok());
/// for hostile in ["ext::sh -c id", "-u./x", "https://me:key@host/x", "http://host/x", "../x"] {
///     assert!(Repo::parse(hostile).is_err(), "{hostile}");
/// }
/// # Ok::<(), forge_tools::git::GitError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Repo {
    place: Place,
}

/// The ways to reach one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Place {
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

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Where a person can look at a commit.
    pub(crate) fn url_of(&self, commit: &ObjectId) -> String {
        match &self.place {
            Place::Web { origin, path } if origin == "https://github.com" => {
                let path = path.trim_end_matches(".git");
                format!("{origin}{path}/commit/{commit}")
            }
            Place::Web { .. } | Place::Local(_) | Place::Ssh { .. } => self.to_string(),
        }
    }
}

impl fmt::Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Local(path) => write!(f, "file://{}", path.display()),
            Place::Web { origin, path } => write!(f, "{origin}{path}"),
            Place::Ssh {
                user,
                host,
                port,
                path,
            } => {
                f.write_str("ssh://")?;
                if let Some(user) = user {
                    write!(f, "{user}@")?;
                }
                f.write_str(host)?;
                if let Some(port) = port {
                    write!(f, ":{port}")?;
                }
                f.write_str(path)
            }
        }
    }
}

fn local(path: &str) -> Result<Place, &'static str> {
    let path = Path::new(path);
    if !path.is_absolute() {
        return Err("a path must be absolute");
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err("'..' is not allowed here");
    }
    Ok(Place::Local(path.components().collect()))
}

fn web(scheme: &str, rest: &str) -> Result<Place, &'static str> {
    let (authority, path) = rest.split_once('/').ok_or("it has no path")?;
    if authority.contains('@') {
        return Err("a name or a password does not belong into it");
    }
    let (host, port) = host_and_port(authority)?;
    let here = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    if scheme == "http" && !here {
        return Err("http is readable by everybody on the way: use https");
    }
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    Ok(Place::Web {
        origin: format!("{scheme}://{}{port}", host.to_ascii_lowercase()),
        path: remote_path(path)?,
    })
}

fn ssh(rest: &str) -> Result<Place, &'static str> {
    let (authority, path) = rest.split_once('/').ok_or("it has no path")?;
    let (user, authority) = user_of(authority)?;
    let (host, port) = host_and_port(authority)?;
    Ok(Place::Ssh {
        user,
        host: host.to_owned(),
        port,
        path: remote_path(path)?,
    })
}

fn short_ssh(host: &str, path: &str) -> Result<Place, &'static str> {
    let (user, host) = user_of(host)?;
    // Without a name it could as well be a drive, or a transport.
    if user.is_none() {
        return Err("write ssh://host/path, or user@host:path");
    }
    let (host, _) = host_and_port(host)?;
    Ok(Place::Ssh {
        user,
        host: host.to_owned(),
        port: None,
        path: remote_path(path.trim_start_matches('/'))?,
    })
}

fn github(text: &str) -> Result<Place, &'static str> {
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
    Ok(Place::Web {
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
        return Err("the name before '@' is not one");
    }
    Ok((Some(user.to_owned()), host))
}

fn host_and_port(authority: &str) -> Result<(&str, Option<u16>), &'static str> {
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
        !host.is_empty() && !host.starts_with(['-', '.']) && host.chars().all(letter)
    };
    if !is_name(host) && !is_address(host) {
        return Err("its host is not one");
    }
    let port = match port.map(str::parse) {
        None => None,
        Some(Ok(port)) if port > 0 => Some(port),
        Some(_) => return Err("its port is not one"),
    };
    Ok((host, port))
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
    Ok(format!("/{path}"))
}

/// The name of a branch, as git accepts it.
///
/// ```
/// use forge_tools::git::Branch;
///
/// assert_eq!(Branch::default().as_str(), "main");
/// assert!(Branch::parse("feature/one").is_ok());
/// for bad in ["", "-d", "a b", "a..b", "x.lock", "a\nb", "refs/heads/x", "@{0}", "a:b"] {
///     assert!(Branch::parse(bad).is_err(), "{bad:?}");
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Branch(String);

impl Default for Branch {
    fn default() -> Self {
        Branch("main".to_owned())
    }
}

impl Branch {
    /// Parses the name of a branch, without `refs/heads/`.
    ///
    /// # Errors
    /// Git has no such branches, or it could be read as something else.
    pub fn parse(text: &str) -> Result<Self, GitError> {
        let bad = |why: &str| Err(invalid("name of a branch", text, why));
        if text.is_empty() || text.len() > MAX_BRANCH_BYTES {
            return bad("it must have 1 to 255 bytes");
        }
        let never = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
        if text.contains(never) || text.contains("..") || text.contains("@{") {
            return bad("it has characters that git does not allow in one");
        }
        if text.starts_with('-') || text == "@" || text == "HEAD" || text.starts_with("refs/") {
            return bad("it would be read as something else");
        }
        let part_is_bad = |part: &str| {
            part.is_empty()
                || part.starts_with('.')
                || part.ends_with('.')
                || part.to_ascii_lowercase().ends_with(".lock")
        };
        if text.split('/').any(part_is_bad) {
            return bad("one of its parts is not allowed in one");
        }
        Ok(Branch(text.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What git calls an object: a commit, or the content of a file.
///
/// ```
/// use forge_tools::git::ObjectId;
/// assert!(ObjectId::parse("4b825dc642cb6eb9a060e54bf8d69288fbee4904").is_some());
/// assert!(ObjectId::parse("--help").is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(String);

impl ObjectId {
    /// Parses 40 or 64 hexadecimal digits in lower case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        (digits && matches!(text.len(), 40 | 64)).then(|| ObjectId(text.to_owned()))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a staged commit: when, and a number that nobody can guess.
///
/// ```
/// use forge_tools::git::StagedId;
/// assert!(StagedId::parse("00000000000000000123456789abcdef").is_ok());
/// assert!(StagedId::parse("../x").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StagedId(String);

impl StagedId {
    /// Parses 32 hexadecimal digits in lower case.
    ///
    /// # Errors
    /// It is something else.
    pub fn parse(text: &str) -> Result<Self, GitError> {
        let digits = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !digits || text.len() != 32 {
            return Err(invalid(
                "id of a staged commit",
                text,
                "32 hexadecimal digits",
            ));
        }
        Ok(StagedId(text.to_owned()))
    }

    /// One for a commit of this time; those of later times come after it.
    pub(crate) fn new(nanoseconds: u64, random: [u8; 8]) -> Self {
        let random = crate::hex::hex(&random);
        StagedId(format!("{nanoseconds:016x}{random}"))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StagedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who a commit is by.
///
/// ```
/// use forge_tools::git::Author;
/// assert_eq!(Author::default().to_string(), "forge <forge@localhost>");
/// assert!(Author::parse("me\n<a@b>").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    name: String,
    address: String,
}

impl Default for Author {
    fn default() -> Self {
        Author {
            name: "forge".to_owned(),
            address: "forge@localhost".to_owned(),
        }
    }
}

impl Author {
    /// Parses `name <address>`.
    ///
    /// # Errors
    /// It is something else.
    pub fn parse(text: &str) -> Result<Self, GitError> {
        let bad = || invalid("author of a commit", text, "name <address>");
        if text.contains(char::is_control) {
            return Err(bad());
        }
        let (name, rest) = text.split_once('<').ok_or_else(bad)?;
        let address = rest.strip_suffix('>').ok_or_else(bad)?;
        let (name, address) = (name.trim(), address.trim());
        let plain =
            |part: &str| !part.is_empty() && part.len() <= 200 && !part.contains(['<', '>']);
        if !plain(name) || !plain(address) {
            return Err(bad());
        }
        Ok(Author {
            name: name.to_owned(),
            address: address.to_owned(),
        })
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <{}>", self.name, self.address)
    }
}
