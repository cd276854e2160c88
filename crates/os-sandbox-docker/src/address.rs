//! Addresses of engines, parsed once and written as in `DOCKER_HOST`. The parser accepts only text
//! that cannot become an option of a program or a line of a protocol.

use super::tls::{self, Tls};
use os_sandbox::Error;
use os_sandbox::mechanism::visible;
use std::ffi::OsString;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

/// Address of the engine if the caller names none.
const USUAL: &str = "/var/run/docker.sock";
/// Bound on the text of an address; a person writes it on one line.
const MAX_BYTES: usize = 1024;
const PLAIN_PORT: u16 = 2375;
const TLS_PORT: u16 = 2376;

/// Address of an engine, with the way to reach it.
///
/// This crate reads no other source: not a variable, and not a context of the docker client's
/// configuration. A program that wants those reads them and passes the result.
///
/// ```
/// use os_sandbox_docker::Address;
///
/// let there = Address::parse("ssh://build@example.org:2222")?;
/// assert_eq!(there.to_string(), "ssh://build@example.org:2222");
/// let wrong = Address::parse("ssh://-oProxyCommand=true").unwrap_err();
/// assert!(wrong.to_string().contains("invalid host name"));
/// assert_eq!(Address::default().to_string(), "unix:///var/run/docker.sock");
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Address {
    pub(super) endpoint: Endpoint,
}

#[derive(Clone, Debug)]
pub(super) enum Endpoint {
    Unix(PathBuf),
    Tcp {
        host: String,
        port: Option<u16>,
        tls: Option<Tls>,
    },
    Ssh(Ssh),
}

/// Target of the ssh program.
#[derive(Clone, Debug)]
pub(super) struct Ssh {
    pub(super) user: Option<String>,
    pub(super) host: String,
    pub(super) port: Option<u16>,
    /// The program, and its `PATH`; `None`: those of the system.
    pub(super) program: Option<(PathBuf, OsString)>,
}

impl Address {
    /// Parses `unix:///path`, `tcp://host[:port]` and `ssh://[user@]host[:port]`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](os_sandbox::ErrorKind::Invalid) if the text has none of these forms.
    pub fn parse(written: &str) -> Result<Address, Error> {
        let wrong = |why: &str| {
            // The error does not repeat text that looks like a password.
            let shown = match written.split_once('@') {
                Some((before, after)) if before.matches(':').count() > 1 => format!("…@{after}"),
                _ => written.to_owned(),
            };
            let shown: String = visible(&shown).chars().take(200).collect();
            Error::invalid(format!("the engine's address {shown:?}: {why}"))
                .with_hint("addresses are unix:///path, tcp://host:port and ssh://user@host:port")
        };
        if written.len() > MAX_BYTES {
            return Err(wrong("it is too long"));
        }
        if written.chars().any(char::is_control) {
            return Err(wrong("it has a control character"));
        }
        let Some((scheme, rest)) = written.split_once("://") else {
            return Err(wrong("it does not say how the engine is reached"));
        };
        let endpoint = match scheme {
            "unix" if rest.starts_with('/') => Endpoint::Unix(PathBuf::from(rest)),
            "unix" => return Err(wrong("the path is not absolute")),
            "tcp" => {
                let (host, port) = place(rest.strip_suffix('/').unwrap_or(rest)).map_err(wrong)?;
                Endpoint::Tcp {
                    host,
                    port,
                    tls: None,
                }
            }
            "ssh" => {
                let rest = rest.strip_suffix('/').unwrap_or(rest);
                let (user, rest) = match rest.rsplit_once('@') {
                    Some((user, rest)) => (Some(user), rest),
                    None => (None, rest),
                };
                if user.is_some_and(|user| user.contains(':')) {
                    return Err(wrong("a password has no place in it"));
                }
                if user.is_some_and(|user| !is_name(user)) {
                    return Err(wrong("missing or invalid user name before the @"));
                }
                let (host, port) = place(rest).map_err(wrong)?;
                Endpoint::Ssh(Ssh {
                    user: user.map(str::to_owned),
                    host,
                    port,
                    program: None,
                })
            }
            _ => return Err(wrong("engines are not reached that way")),
        };
        Ok(Address { endpoint })
    }

    /// Returns the address with TLS, configured by `ca.pem`, `cert.pem` and `key.pem` of a
    /// directory, as in `DOCKER_CERT_PATH`. Only the authority in `ca.pem` can confirm the engine's
    /// identity. As with docker, TLS applies to `tcp://` only; the method does not change other
    /// addresses.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](os_sandbox::ErrorKind::Invalid) if a file is missing or has the wrong
    /// content.
    pub fn with_certificates(self, directory: impl AsRef<Path>) -> Result<Address, Error> {
        let endpoint = match self.endpoint {
            Endpoint::Tcp { host, port, tls: _ } => Endpoint::Tcp {
                tls: Some(tls::read(directory.as_ref(), &host)?),
                host,
                port,
            },
            other @ (Endpoint::Unix(_) | Endpoint::Ssh(_)) => other,
        };
        Ok(Address { endpoint })
    }

    /// Returns the address with the ssh program that reaches it, by its absolute path, and the `PATH`
    /// of that program. Without them they are the system's own. A caller leaves out those that a
    /// confined command can change.
    #[must_use]
    pub fn ssh(mut self, program: impl Into<PathBuf>, path: impl Into<OsString>) -> Address {
        if let Endpoint::Ssh(ssh) = &mut self.endpoint {
            ssh.program = Some((program.into(), path.into()));
        }
        self
    }

    /// Returns the paths that decide which engine answers: a local socket, or the files of TLS in
    /// the directory for [`Address::with_certificates`], if the engine is reached by TCP.
    #[must_use]
    pub fn paths(&self, certificates: Option<&Path>) -> Vec<PathBuf> {
        match (&self.endpoint, certificates) {
            (Endpoint::Unix(path), _) => vec![path.clone()],
            (Endpoint::Tcp { .. }, Some(directory)) => {
                tls::FILES.iter().map(|name| directory.join(name)).collect()
            }
            (Endpoint::Tcp { .. }, None) | (Endpoint::Ssh(_), _) => Vec::new(),
        }
    }

    /// Returns `true` if the engine is reached over a local socket.
    pub(super) fn is_local(&self) -> bool {
        match &self.endpoint {
            Endpoint::Unix(_) => true,
            Endpoint::Tcp { .. } | Endpoint::Ssh(_) => false,
        }
    }

    /// Returns the advice to the user if no engine answers at the address.
    pub(super) fn hint(&self) -> &'static str {
        match &self.endpoint {
            Endpoint::Unix(_) => {
                "start the engine, or say where it is in DOCKER_HOST; who asks it must be allowed \
                 to use its socket (group docker)"
            }
            Endpoint::Tcp { tls: None, .. } => {
                "start the engine; if it wants TLS, set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH"
            }
            Endpoint::Tcp { tls: Some(_), .. } => {
                "start the engine, and look whether DOCKER_CERT_PATH has its authority (ca.pem) and \
                 a certificate that it accepts"
            }
            Endpoint::Ssh(_) => {
                "try the same by hand: ssh HOST docker system dial-stdio; it must ask for nothing"
            }
        }
    }
}

/// The default is the usual socket.
impl Default for Address {
    fn default() -> Self {
        Address {
            endpoint: Endpoint::Unix(PathBuf::from(USUAL)),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.endpoint {
            Endpoint::Unix(path) => write!(f, "unix://{}", path.display()),
            Endpoint::Tcp { host, port, tls } => {
                let port = port.unwrap_or_else(|| default_port(tls.as_ref()));
                write!(f, "tcp://{}:{port}", bracketed(host))
            }
            Endpoint::Ssh(ssh) => {
                f.write_str("ssh://")?;
                if let Some(user) = &ssh.user {
                    write!(f, "{user}@")?;
                }
                f.write_str(&bracketed(&ssh.host))?;
                ssh.port.map_or(Ok(()), |port| write!(f, ":{port}"))
            }
        }
    }
}

pub(super) fn default_port(tls: Option<&Tls>) -> u16 {
    match tls {
        Some(_) => TLS_PORT,
        None => PLAIN_PORT,
    }
}

fn bracketed(host: &str) -> String {
    match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    }
}

/// Parses `host`, `host:port`, `[v6]` and `[v6]:port`.
fn place(text: &str) -> Result<(String, Option<u16>), &'static str> {
    let number = |port: &str| {
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse() {
            Ok(port) if digits && port > 0 => Ok(Some(port)),
            _ => Err("missing or invalid port after the colon"),
        }
    };
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or("a bracket is not closed")?;
        if host.parse::<Ipv6Addr>().is_err() {
            return Err("missing or invalid address in the brackets");
        }
        let port = match after.strip_prefix(':') {
            Some(port) => number(port)?,
            None if after.is_empty() => None,
            None => return Err("unexpected text after the bracket"),
        };
        return Ok((host.to_owned(), port));
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, number(port)?),
        None => (text, None),
    };
    if !is_name(host) {
        return Err("missing or invalid host name");
    }
    Ok((host.to_owned(), port))
}

/// Returns `true` if the text is a name that no program takes for an option and that no shell
/// interprets.
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let starts = text.bytes().next();
    starts.is_some_and(|byte| byte != b'-' && byte != b'.') && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses() {
        for (written, shown) in [
            ("unix:///run/docker.sock", "unix:///run/docker.sock"),
            ("unix:///a b,c:d", "unix:///a b,c:d"),
            ("tcp://127.0.0.1:2222", "tcp://127.0.0.1:2222"),
            ("tcp://engine", "tcp://engine:2375"),
            ("tcp://engine/", "tcp://engine:2375"),
            ("tcp://[::1]:1", "tcp://[::1]:1"),
            ("ssh://engine", "ssh://engine"),
            ("ssh://me@engine:22", "ssh://me@engine:22"),
            ("ssh://me@[::1]", "ssh://me@[::1]"),
        ] {
            let parsed = Address::parse(written).expect(written);
            assert_eq!(parsed.to_string(), shown);
        }
        for (written, why) in [
            ("", "how the engine is reached"),
            ("engine:2375", "how the engine is reached"),
            ("unix://run/docker.sock", "not absolute"),
            ("unix://", "not absolute"),
            ("unix:///run/\n", "control character"),
            ("npipe:////./pipe/docker", "not reached that way"),
            ("http://engine", "not reached that way"),
            ("tcp://", "invalid host name"),
            ("tcp://a/b", "invalid host name"),
            ("tcp://a:0", "invalid port"),
            ("tcp://a:+1", "invalid port"),
            ("tcp://a:65536", "invalid port"),
            ("tcp://[a]:1", "invalid address in the brackets"),
            ("tcp://[::1]x", "after the bracket"),
            ("tcp://me@a", "invalid host name"),
            ("ssh://-oProxyCommand=touch", "invalid host name"),
            ("ssh://-l@a", "invalid user name"),
            ("ssh://@a", "invalid user name"),
            ("ssh://a b", "invalid host name"),
            ("ssh://a;b", "invalid host name"),
            ("ssh://a/var/run/docker.sock", "invalid host name"),
            ("ssh://a\nb", "control character"),
        ] {
            let error = Address::parse(written).expect_err(written).to_string();
            assert!(error.contains(why), "{written}: {error}");
        }
        let secret = Address::parse("ssh://me:secret@a").unwrap_err();
        assert!(!secret.to_string().contains("secret"), "{secret}");
        let long = format!("tcp://{}", "a".repeat(5000));
        assert!(Address::parse(&long).unwrap_err().to_string().len() < 500);
    }

    proptest! {
        #[test]
        fn what_is_parsed_is_nothing_but_names(text in "(ssh|tcp)://.{0,40}") {
            if let Ok(parsed) = Address::parse(&text) {
                let shown = parsed.to_string();
                prop_assert!(shown.is_ascii() && !shown.contains("//-") && !shown.contains("@-"));
                prop_assert_eq!(Address::parse(&shown).expect("again").to_string(), shown);
            }
        }
    }
}
