//! Filters: which subjects a rule is about. Each is accepted only where it means something.

use crate::Error;
use crate::operations::About;
use crate::regex::Regex;
use crate::sexpr::Node;
use crate::subject::{Host, Subject, Target};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// A condition on the subject.
#[derive(Clone, Debug)]
pub(crate) enum Filter {
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
    Path(Bytes),
    UnixSocket(Option<Bytes>),
    Address {
        loopback_only: bool,
        port: Option<u16>,
    },
    SocketDomain(String),
    SocketProtocol(u32),
    Extension(String),
    Directory,
    SameSandbox,
    Name(Bytes),
    Policy(String),
    CallNumber(u32),
}

/// A condition on a string of bytes.
#[derive(Clone, Debug)]
pub(crate) enum Bytes {
    Literal(Vec<u8>),
    Subpath(Vec<u8>),
    Prefix(Vec<u8>),
    Regex(Regex),
}

/// The parameters of a profile, and which of them were used.
pub(crate) struct Parameters<'a> {
    given: &'a [(&'a str, &'a [u8])],
    used: RefCell<BTreeSet<usize>>,
}

impl<'a> Parameters<'a> {
    pub(crate) fn new(given: &'a [(&'a str, &'a [u8])]) -> Result<Self, Error> {
        for (index, (name, value)) in given.iter().enumerate() {
            let what = if given[..index].iter().any(|(other, _)| other == name) {
                "given twice"
            } else if value.contains(&0) || value.contains(&b'\n') {
                "has a NUL byte or a line end"
            } else {
                continue;
            };
            return Err(Error::Parameter {
                name: (*name).to_owned(),
                what,
            });
        }
        Ok(Parameters {
            given,
            used: RefCell::default(),
        })
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, Error> {
        let found = self.given.iter().position(|(given, _)| *given == name);
        let index = found.ok_or_else(|| Error::Parameter {
            name: name.to_owned(),
            what: "used and not given",
        })?;
        self.used.borrow_mut().insert(index);
        Ok(self.given[index].1.to_vec())
    }

    /// A parameter that no rule uses indicates a forgotten rule.
    pub(crate) fn all_used(&self) -> Result<(), Error> {
        let used = self.used.borrow();
        match (0..self.given.len()).find(|index| !used.contains(index)) {
            None => Ok(()),
            Some(index) => Err(Error::Parameter {
                name: self.given[index].0.to_owned(),
                what: "given and not used",
            }),
        }
    }
}

const DOMAINS: [&str; 5] = ["AF_UNIX", "AF_INET", "AF_INET6", "AF_SYSTEM", "AF_ROUTE"];

/// Filters by a whole name.
const NAMES: [&str; 6] = [
    "global-name",
    "local-name",
    "sysctl-name",
    "ipc-posix-name",
    "iokit-registry-entry-class",
    "iokit-user-client-class",
];

/// Reads one filter of a rule about `about`.
pub(crate) fn parse(node: &Node, about: About, given: &Parameters<'_>) -> Result<Filter, Error> {
    let unknown = || Error::Unknown {
        what: "filter",
        text: node.to_string(),
    };
    let Node::List(items) = node else {
        return Err(unknown());
    };
    let Some((Node::Symbol(name), rest)) = items.split_first() else {
        return Err(unknown());
    };
    let many = || -> Result<Vec<Filter>, Error> {
        if rest.is_empty() {
            return Err(unknown());
        }
        rest.iter().map(|one| parse(one, about, given)).collect()
    };
    let number = |text: &String| text.parse().map_err(|_| unknown());
    match (name.as_str(), about, rest) {
        ("require-all", _, _) => many().map(Filter::All),
        ("require-any", _, _) => many().map(Filter::Any),
        ("require-not", _, [one]) => Ok(Filter::Not(Box::new(parse(one, about, given)?))),
        ("literal" | "subpath" | "prefix" | "regex", About::Path, [value]) => {
            path(name, value, given).map(Filter::Path)
        }
        ("extension", About::Path, [Node::Text(class)]) => Ok(Filter::Extension(class.clone())),
        ("vnode-type", About::Path, [Node::Symbol(kind)]) if kind == "DIRECTORY" => {
            Ok(Filter::Directory)
        }
        ("remote", About::Remote, _) | ("local", About::Local, _) => {
            endpoint(rest, given, &unknown)
        }
        ("socket-domain", About::Socket, [Node::Symbol(domain)])
            if DOMAINS.contains(&domain.as_str()) =>
        {
            Ok(Filter::SocketDomain(domain.clone()))
        }
        ("socket-protocol", About::Socket, [Node::Symbol(text)]) => {
            number(text).map(Filter::SocketProtocol)
        }
        ("target", About::Process, [Node::Symbol(target)]) if target == "same-sandbox" => {
            Ok(Filter::SameSandbox)
        }
        ("mac-policy-name", About::Call, [Node::Text(policy)]) => {
            Ok(Filter::Policy(policy.clone()))
        }
        ("mac-syscall-number", About::Call, [Node::Symbol(text)]) => {
            number(text).map(Filter::CallNumber)
        }
        (name, About::Name, [value]) => {
            let bytes = name_of(name, value)?;
            bytes.map(Filter::Name).ok_or_else(unknown)
        }
        _ => Err(unknown()),
    }
}

/// Reads a filter by a name; `None` for an unknown one.
fn name_of(filter: &str, value: &Node) -> Result<Option<Bytes>, Error> {
    Ok(match (filter, value) {
        ("fsctl-command", Node::Symbol(text)) => Some(Bytes::Literal(text.clone().into_bytes())),
        (filter, Node::Text(text)) if NAMES.contains(&filter) => {
            Some(Bytes::Literal(text.clone().into_bytes()))
        }
        ("sysctl-name-prefix" | "ipc-posix-name-prefix", Node::Text(text)) => {
            Some(Bytes::Prefix(text.clone().into_bytes()))
        }
        ("ipc-posix-name-regex", Node::Regex(text)) => Some(Bytes::Regex(Regex::new(text)?)),
        _ => None,
    })
}

/// `(remote ip "localhost:*")`, `(local unix-socket (subpath …))` and the like.
fn endpoint(
    rest: &[Node],
    given: &Parameters<'_>,
    unknown: &dyn Fn() -> Error,
) -> Result<Filter, Error> {
    match rest {
        [Node::Symbol(kind), Node::Text(address)] if kind == "ip" => {
            let (host, port) = address.split_once(':').ok_or_else(unknown)?;
            // The language takes no other host.
            let loopback_only = match host {
                "localhost" => true,
                "*" => false,
                _ => return Err(unknown()),
            };
            let port = match port {
                "*" => None,
                number => Some(number.parse().map_err(|_| unknown())?),
            };
            Ok(Filter::Address {
                loopback_only,
                port,
            })
        }
        [Node::Symbol(kind)] if kind == "unix-socket" => Ok(Filter::UnixSocket(None)),
        [Node::Symbol(kind), Node::List(inner)] if kind == "unix-socket" => {
            match inner.as_slice() {
                [Node::Symbol(name), value] => {
                    let name = match name.as_str() {
                        "path-literal" => "literal",
                        "subpath" => "subpath",
                        _ => return Err(unknown()),
                    };
                    path(name, value, given).map(|path| Filter::UnixSocket(Some(path)))
                }
                _ => Err(unknown()),
            }
        }
        _ => Err(unknown()),
    }
}

fn path(kind: &str, value: &Node, given: &Parameters<'_>) -> Result<Bytes, Error> {
    let unknown = || Error::Unknown {
        what: "path",
        text: value.to_string(),
    };
    if let Node::Regex(regex) = value {
        return match kind {
            "regex" => Regex::new(regex).map(Bytes::Regex),
            _ => Err(unknown()),
        };
    }
    let bytes = match value {
        Node::Text(text) => text.clone().into_bytes(),
        Node::List(items) => match items.as_slice() {
            [Node::Symbol(param), Node::Text(name)] if param == "param" => given.get(name)?,
            _ => return Err(unknown()),
        },
        Node::Symbol(_) | Node::Regex(_) => return Err(unknown()),
    };
    // `subpath "/a/"` matches nothing: the kernel's paths have no slash at the end.
    if bytes.first() != Some(&b'/') || bytes.len() > 1 && bytes.ends_with(b"/") {
        return Err(unknown());
    }
    match kind {
        "literal" => Ok(Bytes::Literal(bytes)),
        "subpath" => Ok(Bytes::Subpath(bytes)),
        "prefix" => Ok(Bytes::Prefix(bytes)),
        _ => Err(unknown()),
    }
}

impl Filter {
    pub(crate) fn matches(&self, subject: &Subject) -> bool {
        match (self, subject) {
            (Filter::All(parts), _) => parts.iter().all(|part| part.matches(subject)),
            (Filter::Any(parts), _) => parts.iter().any(|part| part.matches(subject)),
            (Filter::Not(part), _) => !part.matches(subject),
            (Filter::Path(wanted), Subject::Path { path, .. }) => wanted.matches(path),
            (Filter::Extension(class), Subject::Path { extensions, .. }) => {
                extensions.contains(class)
            }
            (Filter::Directory, Subject::Path { directory, .. }) => *directory,
            (Filter::UnixSocket(wanted), Subject::UnixSocket(path)) => {
                wanted.as_ref().is_none_or(|wanted| wanted.matches(path))
            }
            (
                Filter::Address {
                    loopback_only,
                    port: wanted,
                },
                Subject::Address { host, port },
            ) => {
                (!loopback_only || *host == Host::Loopback)
                    && wanted.is_none_or(|wanted| wanted == *port)
            }
            (Filter::SocketDomain(wanted), Subject::Socket { domain, .. }) => wanted == domain,
            (Filter::SocketProtocol(wanted), Subject::Socket { protocol, .. }) => {
                wanted == protocol
            }
            (Filter::SameSandbox, Subject::Process(target)) => *target == Target::SameSandbox,
            (Filter::Name(wanted), Subject::Name(name)) => wanted.matches(name.as_bytes()),
            (Filter::Policy(wanted), Subject::Call { policy, .. }) => wanted == policy,
            (Filter::CallNumber(wanted), Subject::Call { number, .. }) => wanted == number,
            _ => false,
        }
    }
}

impl Bytes {
    fn matches(&self, bytes: &[u8]) -> bool {
        match self {
            Bytes::Literal(wanted) => wanted == bytes,
            Bytes::Subpath(root) if root == b"/" => bytes.starts_with(b"/"),
            Bytes::Subpath(root) => bytes
                .strip_prefix(root.as_slice())
                .is_some_and(|rest| rest.is_empty() || rest[0] == b'/'),
            Bytes::Prefix(wanted) => bytes.starts_with(wanted),
            Bytes::Regex(regex) => regex.matches(bytes),
        }
    }
}
