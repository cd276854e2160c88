//! Keys that stay outside: commands get a placeholder, and the network broker puts the key in its
//! place on the way to the one server that it is for.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::sync::Arc;

use forge_tools::CredentialService;
use os_sandbox::{NamedHosts, Network, Plan, Policy};
use sandbox_config::{PresetCredential, PresetSet, ServerUrl};
use sandbox_network::{CredentialServer, HeaderCredential, TlsTermination};
use serde_json::{Value, json};

use super::run_authority::RunAuthority;
use crate::ambient::Ambient;

/// The keys of a person that presets can keep outside.
#[derive(Debug, Default)]
pub(crate) struct OutsideKeys {
    /// One for each variable with a base URL, whose services are in this order, and one for each server
    /// with terminated TLS.
    servers: Vec<KeyServer>,
    /// Keys that cannot stay outside, each with the reason.
    unfit: Vec<(String, String)>,
}

/// A server, and the keys for it.
#[derive(Debug)]
struct KeyServer {
    road: KeyRoad,
    url: ServerUrl,
    /// `true` if the person's own variable names it, and not the preset.
    is_own: bool,
    keys: Vec<OutsideKey>,
    /// Without the keys.
    server: CredentialServer,
}

/// The road of a program to the server of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyRoad {
    /// To a service in its own network: the base URL is in this variable.
    BaseUrl(String),
    /// To the server's own name, by TLS that ends at forge.
    Tls,
}

#[derive(Debug)]
struct OutsideKey {
    entry: PresetCredential,
    credential: HeaderCredential,
}

impl KeyServer {
    fn new(road: KeyRoad, url: &ServerUrl, is_own: bool) -> Result<KeyServer, String> {
        let (host, port) = (url.host().clone(), url.port());
        let server = match url.is_https() {
            true => Ok(CredentialServer::https(host, port)),
            false => CredentialServer::loopback_http(host, port),
        };
        Ok(KeyServer {
            road,
            url: url.clone(),
            is_own,
            keys: Vec::new(),
            server: server.map_err(|error| error.to_string())?,
        })
    }

    /// Returns the base URL for the command.
    fn url_inside(&self, address: SocketAddrV4) -> String {
        format!("http://{address}{}", self.url.path())
    }

    fn with_keys(&self) -> CredentialServer {
        let keys = self.keys.iter();
        keys.fold(self.server.clone(), |server, key| {
            server.with(key.credential.clone())
        })
    }
}

/// `true` if two entries lead to one server in one way.
fn is_same(one: &PresetCredential, other: &PresetCredential) -> bool {
    let parts = |of: &PresetCredential| {
        let (server, variable) = (of.server.clone(), of.base_url.clone());
        (server, variable, of.header.clone(), of.placeholder.clone())
    };
    parts(one) == parts(other)
}

/// The services of keys under a plan.
pub(crate) struct KeyServices<'a> {
    services: Vec<(SocketAddrV4, &'a KeyServer)>,
    /// Servers with terminated TLS.
    terminated: Vec<&'a KeyServer>,
    authority: Option<&'a RunAuthority>,
    /// The reason why the command has no services.
    why_not: Option<&'static str>,
}

impl OutsideKeys {
    /// Finds the keys that are set. `terminates_tls`: those for servers with terminated TLS, too.
    pub(super) fn find(set: &PresetSet, ambient: &Ambient, terminates_tls: bool) -> OutsideKeys {
        let mut found = OutsideKeys::default();
        let mut known: BTreeMap<&str, &PresetCredential> = BTreeMap::new();
        for one in set.credentials() {
            let Some(key) = ambient.var(&one.key) else {
                continue;
            };
            let why = match known.insert(&one.key, one) {
                None if one.base_url.is_none() && !terminates_tls => Some(
                    "its program speaks TLS to the server; to keep it outside: --terminate-tls"
                        .to_owned(),
                ),
                None => found.add(one, key, ambient).err(),
                Some(other) if is_same(other, one) => continue,
                // Each of the programs would send it to the other's server.
                Some(_) => Some("two presets name different servers for it".to_owned()),
            };
            if let Some(why) = why {
                found.remove(&one.key);
                found.unfit.push((one.key.clone(), why));
            }
        }
        found
    }

    fn remove(&mut self, key: &str) {
        self.unfit.retain(|(other, _)| other != key);
        for server in &mut self.servers {
            server.keys.retain(|other| other.entry.key != key);
        }
        self.servers.retain(|server| !server.keys.is_empty());
    }

    fn add(&mut self, one: &PresetCredential, key: &str, ambient: &Ambient) -> Result<(), String> {
        let road = match &one.base_url {
            Some(variable) => KeyRoad::BaseUrl(variable.clone()),
            None => KeyRoad::Tls,
        };
        let variable = one.base_url.as_deref().unwrap_or_default();
        let own_url = ambient.var(variable);
        let url = match own_url {
            None => one.server.clone(),
            Some(text) => {
                ServerUrl::parse(text).map_err(|why| format!("{variable} is set, and {why}"))?
            }
        };
        let credential = HeaderCredential::new(&one.header, &one.placeholder, key);
        let credential = credential.map_err(|error| error.to_string())?;
        let is_same = |server: &KeyServer| match road {
            KeyRoad::BaseUrl(_) => server.road == road,
            KeyRoad::Tls => server.road == road && server.url == url,
        };
        let index = match self.servers.iter().position(is_same) {
            Some(known) => known,
            None if self.servers.len() == NamedHosts::MAX_SERVICES => {
                return Err("the presets name too many servers".to_owned());
            }
            None => {
                let server = KeyServer::new(road, &url, own_url.is_some())?;
                self.servers.push(server);
                self.servers.len() - 1
            }
        };
        let server = &mut self.servers[index];
        if server.url != url {
            return Err(format!("{variable} cannot name two servers"));
        }
        server.keys.push(OutsideKey {
            entry: one.clone(),
            credential,
        });
        Ok(())
    }

    /// Returns each key's variable and server.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&str, &ServerUrl)> {
        self.places().map(|(key, url, _)| (key, url))
    }

    /// Returns each key's variable, its server, and whether TLS to it ends at forge.
    pub(super) fn places(&self) -> impl Iterator<Item = (&str, &ServerUrl, bool)> {
        let servers = self.servers.iter();
        servers.flat_map(|one| {
            let keys = one.keys.iter().map(|key| key.entry.key.as_str());
            keys.map(|key| (key, &one.url, one.road == KeyRoad::Tls))
        })
    }

    /// Returns `true` if no key can stay outside.
    pub(super) fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Returns the keys for servers that a preset names, and not the person.
    pub(super) fn of_presets(&self) -> impl Iterator<Item = &str> {
        let servers = self.servers.iter().filter(|one| !one.is_own);
        servers.flat_map(|one| one.keys.iter().map(|key| key.entry.key.as_str()))
    }

    /// Returns the keys that cannot stay outside, each with the reason.
    pub(super) fn unfit(&self) -> impl Iterator<Item = (&str, &str)> {
        let unfit = self.unfit.iter();
        unfit.map(|(key, why)| (key.as_str(), why.as_str()))
    }

    /// Returns a policy with the services of the keys. One that names no hosts stays as it is.
    pub(super) fn with_services(&self, policy: Policy) -> Result<Policy, os_sandbox::Error> {
        let Network::Hosts(hosts) = policy.network() else {
            return Ok(policy);
        };
        let mut hosts = hosts.clone();
        for _ in self.with_base_url() {
            hosts.add_service();
        }
        policy.with_network(Network::Hosts(hosts))
    }

    fn with_base_url(&self) -> impl Iterator<Item = &KeyServer> {
        let servers = self.servers.iter();
        servers.filter(|one| one.road != KeyRoad::Tls)
    }

    /// Returns the servers with terminated TLS, with their keys.
    pub(super) fn terminated(&self) -> Vec<CredentialServer> {
        let servers = self.servers.iter();
        let terminated = servers.filter(|one| one.road == KeyRoad::Tls);
        terminated.map(KeyServer::with_keys).collect()
    }

    /// Returns the services that a plan has for the keys.
    pub(super) fn services<'a>(
        &'a self,
        plan: &Plan,
        authority: Option<&'a RunAuthority>,
    ) -> KeyServices<'a> {
        let hosts = plan
            .proxied_hosts()
            .filter(|_| !plan.needs_proxy_variables());
        let addresses: Option<Vec<SocketAddrV4>> = hosts.map(|hosts| hosts.services().collect());
        let wanted = self.with_base_url().count();
        if let Some(addresses) = addresses.filter(|addresses| addresses.len() == wanted) {
            let servers = self.servers.iter();
            return KeyServices {
                services: addresses.into_iter().zip(self.with_base_url()).collect(),
                terminated: servers.filter(|one| one.road == KeyRoad::Tls).collect(),
                authority,
                why_not: None,
            };
        }
        KeyServices {
            services: Vec::new(),
            terminated: Vec::new(),
            authority: None,
            why_not: Some(match plan.policy().network() {
                Network::Hosts(_) => "under Landlock alone a command has no network of its own",
                Network::Unrestricted => "the network is open",
                _ => "the network is off",
            }),
        }
    }
}

impl KeyServices<'_> {
    /// Returns the servers behind the services.
    pub(crate) fn credentials(&self) -> Vec<CredentialService> {
        let services = self.services.iter();
        let each = services.map(|(address, one)| CredentialService {
            port: address.port(),
            server: Arc::new(one.with_keys()),
        });
        each.collect()
    }

    /// Returns the termination of TLS to the servers of keys.
    pub(crate) fn termination(&self) -> Option<Arc<TlsTermination>> {
        self.authority.map(RunAuthority::termination)
    }

    /// Returns the variables with placeholders, base URLs and the authority of the run.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let mut variables = Vec::new();
        for (address, one) in &self.services {
            if let KeyRoad::BaseUrl(variable) = &one.road {
                variables.push((variable.clone(), one.url_inside(*address)));
            }
        }
        let servers = self.services.iter().map(|(_, one)| one);
        for one in servers.chain(&self.terminated) {
            let keys = one.keys.iter().map(|key| &key.entry);
            variables.extend(keys.map(|one| (one.key.clone(), one.placeholder.clone())));
        }
        variables.extend(self.authority.iter().flat_map(|one| one.variables()));
        variables
    }

    /// Returns the arguments that lead a program to the services.
    pub(crate) fn arguments(&self, program: &str) -> Vec<String> {
        let mut arguments = Vec::new();
        for (address, one) in &self.services {
            let url = one.url_inside(*address);
            let keys = one.keys.iter();
            arguments.extend(keys.flat_map(|key| key.entry.arguments(program, &url)));
        }
        arguments
    }

    /// Returns the reason why keys cannot stay outside under the plan.
    pub(super) fn why_not(&self) -> Option<&'static str> {
        self.why_not
    }
}

/// Returns a key as receipts have it. `terminates`: TLS to its server ends at forge.
pub(super) fn to_json(
    key: &str,
    server: Option<&ServerUrl>,
    is_outside: bool,
    terminates: bool,
) -> Value {
    json!({
        "key": key,
        "server": server.map(ToString::to_string),
        "outside": is_outside,
        "terminates_tls": is_outside && terminates,
    })
}
