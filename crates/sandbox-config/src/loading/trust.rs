//! Privileged settings: requests of a file that came with a repository to the host. A person says
//! yes to exactly these keys with exactly these values, in exactly this project; change one and the
//! yes is gone.

use std::path::Path;

use sha2::{Digest, Sha256};

use crate::loading::sources::TrustedSettings;
use crate::loading::trust_rules::TrustRule;
use crate::syntax::text::{ConfigOrigin, Span};

/// One key of a project or worker file that widens.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::write(dir.path().join("golem-forge.config.yaml"), "network: true\n").unwrap();
/// use sandbox_config::{load, NetworkAccess, Sources, TrustedSettings};
/// let mut sources = Sources::new(dir.path());
/// let project = load(&sources).unwrap();
/// // Nobody has agreed: the key is ignored, and a warning says so.
/// assert_eq!(project.ceiling().network(), &NetworkAccess::Denied);
/// let key = &project.privileged_settings()[0];
/// assert_eq!((key.key(), key.is_trusted()), ("network", false));
/// // Agreed: `forge trust` stores the hash.
/// sources.trust = TrustedSettings::Store([key.hash().to_owned()].into());
/// assert_eq!(load(&sources).unwrap().ceiling().network(), &NetworkAccess::Unrestricted);
/// ```
#[derive(Clone, Debug)]
pub struct PrivilegedSetting {
    key: String,
    value: String,
    origin: ConfigOrigin,
    hash: String,
    trusted: bool,
    rule: &'static TrustRule,
}

impl PrivilegedSetting {
    /// `project` is the canonical project directory; `value` is the effect of the key (for a path:
    /// the resolved one), so that a change of the environment asks again; `context` is the rest
    /// that decides the meaning of the key, if any.
    pub(crate) fn new(
        project: &Path,
        rule: &'static TrustRule,
        key: String,
        value: String,
        context: &str,
        span: &Span,
        trust: &TrustedSettings,
    ) -> PrivilegedSetting {
        let mut hasher = Sha256::new();
        for part in [
            project.as_os_str().as_encoded_bytes(),
            key.as_bytes(),
            value.as_bytes(),
            context.as_bytes(),
        ] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let hash = sandbox_names::hex(hasher.finalize());
        let trusted = match trust {
            TrustedSettings::Given => true,
            TrustedSettings::Store(hashes) => hashes.contains(&hash),
        };
        PrivilegedSetting {
            key,
            value,
            origin: span.origin(),
            hash,
            trusted,
            rule,
        }
    }

    sandbox_names::getters! {
        /// The row of the table that it falls under.
        pub rule: &'static TrustRule = rule;
        /// The dotted key: `sandbox.zones.registry.path`.
        pub key: &str = &key;
        /// Returns its effect.
        pub value: &str = &value;
        /// Returns its location.
        pub origin: &ConfigOrigin = &origin;
        /// Returns the SHA-256 over the project's directory, the key, its value and its context, in
        /// hex: `forge trust` stores it, outside the project.
        pub hash: &str = &hash;
        /// Returns `true` if a person has agreed.
        pub is_trusted: bool = trusted;
    }
}
