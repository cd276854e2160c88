//! TLS to the server of a key. Certificates are judged as the system does.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::host::Host;

/// TLS to one server.
#[derive(Clone)]
pub(in super::super) struct UpstreamTls {
    host: String,
    /// Why: made before the command starts, which could change the files of the roots.
    config: Result<Arc<ClientConfig>, rustls::Error>,
}

impl UpstreamTls {
    pub(super) fn new(host: &Host) -> UpstreamTls {
        UpstreamTls {
            host: host.to_string(),
            config: client_config(),
        }
    }

    pub(super) fn trusting_for_tests(self, config: Arc<ClientConfig>) -> UpstreamTls {
        UpstreamTls {
            config: Ok(config),
            ..self
        }
    }

    /// Starts TLS on a connection to the server.
    pub(in super::super) async fn connect<S>(
        &self,
        stream: S,
        limit: Duration,
    ) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
        let config = self.config.clone();
        let connector = TlsConnector::from(config.map_err(io::Error::other)?);
        let late = || io::Error::new(io::ErrorKind::TimedOut, "the server does not answer");
        let connected = timeout(limit, connector.connect(name, stream)).await;
        connected.map_err(|_| late())?
    }
}

impl fmt::Debug for UpstreamTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamTls")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

fn client_config() -> Result<Arc<ClientConfig>, rustls::Error> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth();
    Ok(Arc::new(config))
}
