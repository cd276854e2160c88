//! Named hosts for confined programs.
//!
//! A confined program has a network of its own, in which nothing answers but a *network broker*.
//! The broker decides by name: which hosts the [rules](HostRules) allow, which addresses their names
//! may lead to, and it connects to exactly the address that it has checked.
//!
//! Without features the crate is its types, which are pure: [`HostPattern`] (as people write them),
//! [`HostRules`] (two lists of patterns), [`Host`] (as clients name them), [`AddressClass`].
//!
//! ```
//! use sandbox_network::{AddressClass, Decision, Host, HostPattern, HostRules};
//!
//! let rules = HostRules::new([HostPattern::parse("*.example.com:443")?], []);
//! // Allowed.
//! let host = Host::parse("WWW.Example.com.")?;
//! assert!(matches!(rules.decide(&host, 443), Decision::Allowed(_)));
//! // Denied: another port, and what no rule names.
//! assert_eq!(rules.decide(&host, 22), Decision::Unlisted);
//! assert_eq!(rules.decide(&Host::parse("127.0.0.1")?, 443), Decision::Unlisted);
//! // Never an answer to a public name.
//! assert_eq!(AddressClass::of("169.254.169.254".parse()?), AddressClass::Metadata);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod address;
mod host;
mod pattern;
mod rules;

pub use address::{AddressClass, is_public};
pub use host::{Host, HostError, HostName};
pub use pattern::HostPattern;
pub use rules::{DEFAULT_PORTS, Decision, HostRules};
