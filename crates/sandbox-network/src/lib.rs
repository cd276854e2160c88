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
//! // Denied: another port, and hosts that no rule names.
//! assert_eq!(rules.decide(&host, 22), Decision::Unlisted);
//! assert_eq!(rules.decide(&Host::parse("127.0.0.1")?, 443), Decision::Unlisted);
//! // Never an answer to a public name.
//! assert_eq!(AddressClass::of("169.254.169.254".parse()?), AddressClass::Metadata);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With the feature `broker` it has `Broker`, which serves listeners that somebody made in the
//! program's network: a resolver, a proxy (HTTP and SOCKS 5) and forwarders for programs that know
//! no proxy. It knows nothing of namespaces, configuration files or the program itself.
#![forbid(unsafe_code)]

mod address;
#[cfg(feature = "broker")]
mod broker;
mod host;
mod pattern;
mod rules;

pub use address::{AddressClass, is_public};
#[cfg(feature = "broker")]
pub use broker::{
    AllowedBy, AskHost, Broker, BrokerLimits, BrokerOptions, BrokerService, ConfinedSockets,
    ConnectionEvent, ConnectionEventKind, ConnectionRecord, ConnectionTotal, ConnectionVerdict,
    CredentialListener, CredentialServer, EventListener, HeaderCredential, HostAdvice, HostAnswer,
    InboundListener, InboundPorts, InboundTime, InvalidCredential, Listeners, ParentProxy,
    Protocol, ProxyToken, Refusal, Resolve, ServiceReport, SystemResolver, TlsName, TlsTermination,
};
pub use host::{Host, HostError, HostName};
pub use pattern::HostPattern;
pub use rules::{AskableHosts, DEFAULT_PORTS, Decision, HostRules};

#[cfg(all(doctest, feature = "broker"))]
#[doc = include_str!("../README.md")]
mod readme {}
