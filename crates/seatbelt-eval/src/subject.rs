//! Subjects: the objects of operations.

use std::fmt;

/// The object of an operation of a process.
///
/// ```
/// use seatbelt_eval::{Host, Subject};
///
/// let file = Subject::path(b"/private/etc/hosts");
/// let server = Subject::Address { host: Host::Other, port: 443 };
/// assert_ne!(file, server);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A file, by the path that the kernel knows it by, and the extensions that the process
    /// holds for it.
    Path {
        /// Absolute, links followed.
        path: Vec<u8>,
        /// Classes of extensions.
        extensions: Vec<String>,
        /// `true` if it is a directory.
        directory: bool,
    },
    /// A local socket with a path.
    UnixSocket(Vec<u8>),
    /// The address that a socket connects to, or is bound to.
    Address {
        /// The host of the address.
        host: Host,
        /// The port.
        port: u16,
    },
    /// A new socket.
    Socket {
        /// As the language names it, such as `AF_UNIX`.
        domain: String,
        /// The protocol.
        protocol: u32,
    },
    /// A name: of a service, of a kernel variable, of a driver's class.
    Name(String),
    /// A call of a kernel policy.
    Call {
        /// Its policy.
        policy: String,
        /// Its number.
        number: u32,
    },
    /// Another process.
    Process(Target),
    /// Nothing that a filter could ask about.
    Nothing,
}

/// The host of an address.
///
/// ```
/// assert_ne!(seatbelt_eval::Host::Loopback, seatbelt_eval::Host::Other);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// 127.0.0.0/8 or ::1.
    Loopback,
    /// Any other, the wildcard included.
    Other,
}

/// Which process, seen from the one that asks.
///
/// ```
/// assert_ne!(seatbelt_eval::Target::SameSandbox, seatbelt_eval::Target::Other);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A process of this process tree.
    SameSandbox,
    /// Any other.
    Other,
}

impl Subject {
    /// A file, without extensions.
    #[must_use]
    pub fn path(path: impl AsRef<[u8]>) -> Subject {
        Subject::Path {
            path: path.as_ref().to_vec(),
            extensions: Vec::new(),
            directory: false,
        }
    }

    /// A directory, without extensions.
    #[must_use]
    pub fn directory(path: impl AsRef<[u8]>) -> Subject {
        Subject::Path {
            path: path.as_ref().to_vec(),
            extensions: Vec::new(),
            directory: true,
        }
    }

    /// A name.
    #[must_use]
    pub fn name(name: impl Into<String>) -> Subject {
        Subject::Name(name.into())
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Path { path, .. } | Subject::UnixSocket(path) => {
                write!(f, "{}", path.escape_ascii())
            }
            Subject::Address { host, port } => write!(f, "{host:?}:{port}"),
            Subject::Socket { domain, protocol } => write!(f, "{domain}, protocol {protocol}"),
            Subject::Name(name) => f.write_str(name),
            Subject::Call { policy, number } => write!(f, "{policy} {number}"),
            Subject::Process(target) => write!(f, "{target:?}"),
            Subject::Nothing => f.write_str("nothing"),
        }
    }
}
