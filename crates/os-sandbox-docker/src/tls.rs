//! TLS to an engine, with one authority, the caller's, and a certificate for the broker. The
//! system's authorities cannot confirm an engine.

use os_sandbox::Error;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Bound on a file; certificates and keys are small.
const MAX_BYTES: u64 = 1 << 20;
/// Files of the directory.
pub(super) const FILES: [&str; 3] = ["ca.pem", "cert.pem", "key.pem"];

#[derive(Clone)]
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
}

/// The output never contains the key.
impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Reads the TLS configuration from the files of a directory.
pub(super) fn read(directory: &Path, host: &str) -> Result<Tls, Error> {
    let wrong = |path: &Path, why: &dyn std::fmt::Display| {
        Error::invalid(format!("{}: {why}", path.display()))
            .with_hint("DOCKER_CERT_PATH is a directory with ca.pem, cert.pem and key.pem")
    };
    let bytes = |name: &str| {
        let path = directory.join(name);
        let mut bytes = Vec::new();
        let read = File::open(&path)
            .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|error| wrong(&path, &error))?;
        match read as u64 > MAX_BYTES {
            true => Err(wrong(&path, &"it is too large for a certificate")),
            false => Ok((path, bytes)),
        }
    };
    let certificates = |name: &str| {
        let (path, bytes) = bytes(name)?;
        let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&bytes).collect();
        match found {
            Ok(found) if found.is_empty() => Err(wrong(&path, &"it holds no certificate")),
            Ok(found) => Ok((path, found)),
            Err(_) => Err(wrong(&path, &"not a certificate")),
        }
    };
    let mut authorities = RootCertStore::empty();
    let (path, found) = certificates("ca.pem")?;
    for one in found {
        let added = authorities.add(one);
        added.map_err(|error| wrong(&path, &error))?;
    }
    let (path, own) = certificates("cert.pem")?;
    let (key_path, key) = bytes("key.pem")?;
    // The library's error could contain parts of the key.
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|_| wrong(&key_path, &"it holds no private key"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(directory, &error))?
        .with_root_certificates(authorities)
        .with_client_auth_cert(own, key)
        .map_err(|error| wrong(&path, &error))?;
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| Error::invalid(format!("{host} is not a name that a certificate can have")))?;
    Ok(Tls {
        config: Arc::new(config),
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named_and_no_key_is_shown() {
        let directory = tempfile::tempdir().unwrap();
        let said = || read(directory.path(), "engine").unwrap_err().to_string();
        assert!(said().contains("ca.pem"), "{}", said());
        std::fs::write(directory.path().join("ca.pem"), "nothing").unwrap();
        assert!(said().contains("no certificate"), "{}", said());
        std::fs::write(directory.path().join("ca.pem"), vec![b'-'; 2 << 20]).unwrap();
        assert!(said().contains("too large"), "{}", said());
    }
}
