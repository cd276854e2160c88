//! The certificate authority of one command, and the file by which its programs trust it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox_network::TlsTermination;

use crate::ambient::Ambient;
use crate::bounded;
use crate::setup::command_dir::CommandDir;

/// The file with all authorities that programs trust.
const FILE: &str = "authorities.pem";
/// Bound on a file with authorities.
const MAX_BYTES: u64 = 8 << 20;
/// Variables that name such a file: OpenSSL, Go, Ruby and rustls; Node; requests; curl; git; cargo; pip;
/// the AWS clients; Deno; Nix.
pub(super) const VARIABLES: [&str; 10] = [
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "PIP_CERT",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
    "NIX_SSL_CERT_FILE",
];

/// An authority, and a file with it behind those that the system and the person trust.
#[derive(Debug)]
pub(crate) struct RunAuthority {
    termination: Arc<TlsTermination>,
    dir: CommandDir,
}

impl RunAuthority {
    /// Writes the file below `state`.
    pub(super) fn create(
        termination: TlsTermination,
        state: &Path,
        ambient: &Ambient,
    ) -> io::Result<RunAuthority> {
        let dir = CommandDir::create(state, "authority")?;
        let own = VARIABLES.iter().filter_map(|name| ambient.var(name));
        let own = own.map(PathBuf::from);
        let of_system = openssl_probe::probe().cert_file;
        let trusted: BTreeSet<PathBuf> = own.chain(of_system).collect();
        let mut all = String::new();
        for file in trusted {
            let text = bounded::read_text(&file, MAX_BYTES);
            all += &text.map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", file.display()))
            })?;
            all += "\n";
        }
        all += termination.authority_pem();
        std::fs::write(dir.path().join(FILE), all)?;
        Ok(RunAuthority {
            termination: Arc::new(termination),
            dir,
        })
    }

    pub(super) fn termination(&self) -> Arc<TlsTermination> {
        Arc::clone(&self.termination)
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the variables by which programs find the file.
    pub(super) fn variables(&self) -> impl Iterator<Item = (String, String)> {
        let file = self.dir().join(FILE).display().to_string();
        VARIABLES
            .map(|name| (name.to_owned(), file.clone()))
            .into_iter()
    }
}
