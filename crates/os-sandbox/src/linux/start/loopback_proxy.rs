//! The listener for named hosts where a command has no network namespace: on the host's loopback,
//! only for as long as the command runs. The connector connects the command to it and to nothing
//! else (`launcher/connector/`), and a password in the proxy variables keeps other programs out.

use crate::error::Error;
use crate::host_proxy::{ProxyPassword, ProxySockets};
use crate::policy::NamedHosts;
use rustix::rand::{GetRandomFlags, getrandom};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// The listener, and what a client has to know.
pub(super) struct LoopbackProxy {
    listener: TcpListener,
    address: SocketAddr,
    password: ProxyPassword,
    /// Addresses that the command reaches besides.
    loopback: Vec<SocketAddr>,
}

impl LoopbackProxy {
    /// Makes the listener.
    pub(super) fn listen(hosts: &NamedHosts) -> Result<LoopbackProxy, Error> {
        let failed = |error| {
            Error::io(
                "could not listen on 127.0.0.1 for the command's connections",
                error,
            )
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        Ok(LoopbackProxy {
            address: listener.local_addr().map_err(failed)?,
            listener,
            password: password()?,
            loopback: loopback(hosts).collect(),
        })
    }

    /// Returns the addresses that the connector connects the command to.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        let others = self.loopback.iter().copied();
        std::iter::once(self.address).chain(others).collect()
    }

    /// Returns the URL for the proxy variables, with the password.
    pub(super) fn url(&self) -> String {
        format!("http://sandbox:{}@{}", self.password.as_str(), self.address)
    }

    /// Returns the sockets for the proxy of the caller.
    pub(super) fn into_sockets(self) -> ProxySockets {
        ProxySockets {
            proxies: vec![self.listener],
            password: Some(self.password),
            ..ProxySockets::default()
        }
    }
}

/// Returns the services of the host's loopback that the policy names. The connector needs no help of
/// the proxy for them.
fn loopback(hosts: &NamedHosts) -> impl Iterator<Item = SocketAddr> {
    hosts.addresses().filter(|one| one.ip().is_loopback())
}

/// Returns 32 random bytes in hexadecimal.
fn password() -> Result<ProxyPassword, Error> {
    let mut bytes = [0u8; 32];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|errno| Error::io("the system gives no random bytes", errno.into()))?;
    if filled < bytes.len() {
        let short = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        return Err(Error::io("the system gives too few random bytes", short));
    }
    Ok(ProxyPassword::new(sandbox_names::hex(bytes)))
}
