//! A parent proxy, such as a company's: hosts are reached through it, and it resolves their names.

mod variables;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::super::context::ServiceContext;
use super::super::record::Refusal;
use super::super::resolve::resolve;
use super::connect_any;
use crate::host::{Host, HostError};
use crate::pattern::HostPattern;

/// Most bytes of the parent's answer.
const MAX_ANSWER: usize = 32 * 1024;

/// An HTTP proxy through which hosts are reached.
///
/// The rules decide by name as without one. Private networks cannot be told from public ones then,
/// because the parent resolves the names: only names that are common in private networks are refused
/// ([`HostName::is_private`](crate::HostName::is_private)). Addresses and the loopback are always
/// connected directly.
///
/// ```
/// use sandbox_network::ParentProxy;
/// let parent = ParentProxy::parse("http://proxy.example.com:3128").unwrap();
/// assert!(ParentProxy::parse("http://user:secret@proxy.example.com:3128").is_err());
/// let parent = parent.with_credentials("user", "secret");
/// assert!(!format!("{parent:?}").contains("secret"));
///
/// // As environments write it.
/// let written = "http://user:secret@proxy.example.com:3128";
/// let parent = ParentProxy::from_variables(written, "localhost,.example.org").unwrap();
/// assert_eq!(parent.address(), "proxy.example.com:3128");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ParentProxy {
    host: Host,
    port: u16,
    authorization: Option<String>,
    direct: Vec<HostPattern>,
}

impl ParentProxy {
    /// Returns the parent at `http://host:port`. The port of `http` is 80 if it is left out.
    ///
    /// # Errors
    /// It is not such a URL, or it contains credentials or a path.
    pub fn parse(url: &str) -> Result<ParentProxy, HostError> {
        let Some(rest) = url.strip_prefix("http://") else {
            let help = "write `http://proxy.example.com:3128`";
            return Err(HostError::new("it is not an `http` URL", help));
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains('@') {
            return Err(HostError::new(
                "it contains credentials",
                "give them apart from the URL",
            ));
        }
        let (host, port) = Host::parse_with_optional_port(authority)?;
        Ok(ParentProxy {
            host,
            port: port.unwrap_or(80),
            authorization: None,
            direct: Vec::new(),
        })
    }

    /// Authenticates with a user and a password (RFC 7617).
    #[must_use]
    pub fn with_credentials(mut self, user: &str, password: &str) -> ParentProxy {
        self.authorization = Some(STANDARD.encode(format!("{user}:{password}")));
        self
    }

    /// Connects these hosts directly, with the checks of their addresses.
    #[must_use]
    pub fn with_direct(mut self, hosts: impl IntoIterator<Item = HostPattern>) -> ParentProxy {
        self.direct.extend(hosts);
        self
    }

    /// Returns the host and port, for a person.
    #[must_use]
    pub fn address(&self) -> String {
        self.host.with_port(self.port)
    }

    /// `true` if the host is reached through this parent.
    pub(in crate::broker) fn carries(&self, host: &Host, port: u16) -> bool {
        let named = host.as_name().is_some_and(|name| !name.is_localhost());
        let direct = |pattern: &HostPattern| pattern.matches_host(host, port);
        named && !self.direct.iter().any(direct)
    }

    fn request(&self, host: &Host, port: u16) -> String {
        let target = host.with_port(port);
        let authorization = match &self.authorization {
            Some(basic) => format!("Proxy-Authorization: Basic {basic}\r\n"),
            None => String::new(),
        };
        format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{authorization}\r\n")
    }
}

impl fmt::Debug for ParentProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParentProxy")
            .field("at", &self.address())
            .field("authenticates", &self.authorization.is_some())
            .field("direct", &self.direct)
            .finish()
    }
}

/// Connects to a host through the parent. Returns the bytes that followed the parent's answer too.
pub(super) async fn connect(
    state: &Arc<ServiceContext>,
    parent: &ParentProxy,
    host: &Host,
    port: u16,
) -> Result<(TcpStream, Vec<u8>), Refusal> {
    let failed = |why: String| Refusal::Unreachable(format!("the parent proxy {why}"));
    let addresses = match &parent.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => resolve(state, name).await?,
    };
    let addresses: Vec<SocketAddr> = addresses
        .into_iter()
        .map(|address| SocketAddr::new(address, parent.port))
        .collect();
    let limits = &state.shared.options.limits;
    let mut stream = connect_any(state, &addresses)
        .await
        .map_err(|error| failed(format!("cannot be connected: {error}")))?;
    let request = parent.request(host, port);
    let exchange = async {
        stream.write_all(request.as_bytes()).await?;
        read_answer(&mut stream).await
    };
    let limit: Duration = limits.connect_total_timeout;
    let answer = timeout(limit, exchange)
        .await
        .map_err(|_| failed("does not answer".to_owned()))?
        .map_err(|error| failed(format!("failed: {error}")))?;
    let (status, early) = answer.ok_or_else(|| failed("gave an invalid answer".to_owned()))?;
    match status {
        200..=299 => Ok((stream, early)),
        407 => Err(failed("asks for credentials".to_owned())),
        _ => Err(failed(format!("answered with status {status}"))),
    }
}

/// Reads the head of the parent's answer. Returns its status and the bytes that followed. `None` if
/// it is not HTTP, too long, or cut off.
async fn read_answer(stream: &mut TcpStream) -> std::io::Result<Option<(u16, Vec<u8>)>> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await? == 0 || bytes.len() > MAX_ANSWER {
            return Ok(None);
        }
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut response = httparse::Response::new(&mut headers);
        match response.parse(&bytes) {
            Ok(httparse::Status::Complete(length)) => {
                let status = response.code;
                return Ok(status.map(|status| (status, bytes.split_off(length))));
            }
            Ok(httparse::Status::Partial) => {}
            Err(_) => return Ok(None),
        }
    }
}
