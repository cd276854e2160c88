//! Termination of TLS, for programs that know no base URL of their server. A client speaks TLS to the
//! server's own name, ends it at the broker and trusts an authority that exists for one run.

use std::fmt;
use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, KeyPair, KeyUsagePurpose, NameConstraints,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::super::connect::Admission;
use super::super::context::ServiceContext;
use super::super::http::BufferedStream;
use super::super::record::{Protocol, Refusal, TlsName, shown};
use super::super::tunnel::{self, TunnelError};
use super::{CredentialServer, InvalidCredential, KeylessRequests, serve};
use crate::host::Host;

/// Life of the certificates, around the time at which they are made.
const BEFORE: time::Duration = time::Duration::days(1);
const AFTER: time::Duration = time::Duration::days(90);

/// The servers to which a command speaks TLS that ends at the broker, and the certificate authority that
/// it trusts for this. The authority's key is in memory alone, and the authority is valid for the names
/// of these servers alone (RFC 5280, section 4.2.1.10).
///
/// Clients speak HTTP/1.1: another protocol is not agreed on.
///
/// ```
/// use sandbox_network::{CredentialServer, HeaderCredential, Host, TlsTermination};
/// let server = CredentialServer::https(Host::parse("api.example.com")?, 443)
///     .with(HeaderCredential::new("x-api-key", "placeholder", "key")?);
/// let termination = TlsTermination::new([server])?;
/// assert!(termination.authority_pem().starts_with("-----BEGIN CERTIFICATE-----"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TlsTermination {
    authority_pem: String,
    servers: Vec<TerminatedServer>,
}

/// A server, and the certificate that clients see in place of its own.
pub(in super::super) struct TerminatedServer {
    server: Arc<CredentialServer>,
    config: Arc<ServerConfig>,
}

impl TlsTermination {
    /// Makes the authority of a run.
    ///
    /// # Errors
    /// A server has no name or is reached without TLS, or a certificate cannot be made.
    pub fn new(
        servers: impl IntoIterator<Item = CredentialServer>,
    ) -> Result<TlsTermination, InvalidCredential> {
        let servers: Vec<CredentialServer> = servers.into_iter().collect();
        let with_name = |one: &CredentialServer| match &one.host {
            Host::Name(name) if one.tls.is_some() => Ok(name.as_str().to_owned()),
            _ => Err(InvalidCredential(
                "TLS ends here for servers with a name only",
            )),
        };
        let names: Vec<String> = servers.iter().map(with_name).collect::<Result<_, _>>()?;
        let failed = |_: rcgen::Error| InvalidCredential("a certificate cannot be made");
        let authority = authority(&names).map_err(failed)?;
        let terminated = names.iter().zip(servers).map(|(name, server)| {
            Ok(TerminatedServer {
                server: Arc::new(server),
                config: server_config(name, &authority).map_err(failed)?,
            })
        });
        Ok(TlsTermination {
            servers: terminated.collect::<Result<_, _>>()?,
            authority_pem: to_pem(authority.der()),
        })
    }

    /// Returns the certificate of the authority, which a command has to trust.
    #[must_use]
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    pub(in super::super) fn server(&self, host: &Host, port: u16) -> Option<&TerminatedServer> {
        let mut servers = self.servers.iter();
        servers.find(|one| one.server.host == *host && one.server.port == port)
    }
}

impl fmt::Debug for TlsTermination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<String> = self
            .servers
            .iter()
            .map(|one| one.server.host.with_port(one.server.port))
            .collect();
        f.debug_struct("TlsTermination")
            .field("servers", &servers)
            .finish_non_exhaustive()
    }
}

/// Serves a client that has been told that it is connected to the server.
pub(in super::super) async fn serve_terminated(
    state: &Arc<ServiceContext>,
    terminated: &TerminatedServer,
    client: TcpStream,
    admission: Admission,
) {
    let CredentialServer { host, port, .. } = &*terminated.server;
    let refuse = |reason| state.refuse(shown(host), *port, Protocol::Credential, reason);
    let limit = state.shared.options.limits.handshake_timeout;
    let first = match tunnel::read_checked_flight(&client, host, limit).await {
        Ok(first) if first.tls_name == TlsName::NotTls => {
            Err(Refusal::InvalidHello("the server speaks TLS"))
        }
        Ok(first) => Ok(first.bytes),
        Err(TunnelError::Refused(reason)) => Err(reason),
        Err(TunnelError::Io) => return tunnel::reset(&client),
    };
    let first = match first {
        Ok(first) => first,
        Err(reason) => {
            tunnel::tell_refusal(state, &client, host, *port, &reason);
            return refuse(reason);
        }
    };
    let acceptor = TlsAcceptor::from(Arc::clone(&terminated.config));
    let accepted = timeout(limit, acceptor.accept(BufferedStream::new(client, first))).await;
    let late = |_| Err(io::Error::from(io::ErrorKind::TimedOut));
    match accepted.unwrap_or_else(late) {
        Ok(stream) => {
            let server = Arc::clone(&terminated.server);
            serve(state, server, stream, admission, KeylessRequests::Passed).await;
        }
        Err(error) => refuse(Refusal::TlsIncomplete(error.to_string())),
    }
}

/// Makes an authority for the names alone.
fn authority(names: &[String]) -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = params(Vec::new(), "forge, for one run")?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: names.iter().cloned().map(GeneralSubtree::DnsName).collect(),
        excluded_subtrees: Vec::new(),
    });
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

fn server_config(
    name: &str,
    authority: &CertifiedIssuer<'static, KeyPair>,
) -> Result<Arc<ServerConfig>, rcgen::Error> {
    let mut params = params(vec![name.to_owned()], name)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, authority)?;
    let key = PrivateKeyDer::try_from(key.serialize_der());
    let key = key.map_err(|_| rcgen::Error::CouldNotParseKeyPair)?;
    let invalid = |_| rcgen::Error::CouldNotParseKeyPair;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(invalid)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .map_err(invalid)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Returns a certificate as text (RFC 7468).
fn to_pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines: Vec<_> = lines.collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}

fn params(names: Vec<String>, common_name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    let now = time::OffsetDateTime::now_utc();
    (params.not_before, params.not_after) = (now - BEFORE, now + AFTER);
    Ok(params)
}
