//! The providers that need no key in any file. Their prices are not built in: a price that has
//! changed since would make a limit on money a promise that is not kept.

use std::collections::BTreeMap;

use crate::provider::{ApiKey, ModelProperties, ProviderSettings, UnknownProvider, Wire, address};
use crate::syntax::text::ConfigOrigin;

/// Default number of seconds of trying again.
pub(super) const RETRY_S: u64 = 120;

/// A provider that is known.
struct KnownProvider {
    name: &'static str,
    wire: Wire,
    base_url: &'static str,
    key_variable: Option<&'static str>,
    /// The variable in which the vendor's own programs find another address, and its reading.
    address_variable: &'static str,
    address: fn(&str) -> String,
}

/// A new provider on a wire that is known is a new row; `docs/models.md`, `docs/configuration.md` and
/// the key `providers` list the names.
const PROVIDERS: [KnownProvider; 3] = [
    KnownProvider {
        name: "anthropic",
        wire: Wire::Anthropic,
        base_url: "https://api.anthropic.com/v1",
        key_variable: Some("ANTHROPIC_API_KEY"),
        address_variable: "ANTHROPIC_BASE_URL",
        address: |text| format!("{}/v1", text.trim_end_matches('/')),
    },
    KnownProvider {
        name: "openai",
        wire: Wire::OpenAiResponses,
        base_url: "https://api.openai.com/v1",
        key_variable: Some("OPENAI_API_KEY"),
        address_variable: "OPENAI_BASE_URL",
        address: str::to_owned,
    },
    KnownProvider {
        name: "ollama",
        wire: Wire::OpenAiChat,
        base_url: "http://127.0.0.1:11434/v1",
        key_variable: None,
        address_variable: "OLLAMA_HOST",
        address: ollama_address,
    },
];

/// `HOST`, `HOST:PORT` or a URL. A server that listens at every address is reached at loopback.
fn ollama_address(text: &str) -> String {
    let text = text.trim_end_matches('/');
    let (scheme, place) = text.split_once("://").unwrap_or(("http", text));
    let has_port = place
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.ends_with(']'));
    let port = if has_port || text.contains("://") {
        ""
    } else {
        ":11434"
    };
    let place = match place.strip_prefix("0.0.0.0") {
        Some(rest) => format!("127.0.0.1{rest}"),
        None => place.replacen("[::]", "[::1]", 1),
    };
    format!("{scheme}://{place}{port}/v1")
}

/// Returns the provider of a name at its built-in address.
pub(super) fn named(name: &str) -> Option<ProviderSettings> {
    let known = PROVIDERS.iter().find(|known| known.name == name)?;
    Some(known.settings())
}

/// Returns all of them by name, each at the address that its variable gives.
pub(super) fn all(
    env: &[(String, String)],
) -> impl Iterator<Item = (&'static str, Result<ProviderSettings, UnknownProvider>)> {
    PROVIDERS.iter().map(|known| {
        let value = env.iter().find(|(name, _)| name == known.address_variable);
        let settings = match value {
            Some((_, value)) if !value.is_empty() => known.at(value),
            _ => Ok(known.settings()),
        };
        (known.name, settings)
    })
}

impl KnownProvider {
    fn settings(&self) -> ProviderSettings {
        ProviderSettings {
            name: self.name.to_owned(),
            wire: self.wire,
            base_url: self.base_url.to_owned(),
            key: self
                .key_variable
                .map_or(ApiKey::None, |name| ApiKey::Variable(name.to_owned())),
            stream: true,
            retry_s: RETRY_S,
            properties: ModelProperties::default(),
            models: BTreeMap::new(),
            origin: ConfigOrigin::built_in(),
        }
    }

    /// If the address cannot be used, the built-in one does not take its place.
    fn at(&self, value: &str) -> Result<ProviderSettings, UnknownProvider> {
        let KnownProvider {
            name,
            address_variable,
            ..
        } = self;
        let address = address::parse(&(self.address)(value));
        let (why, more) = match address {
            Ok(address) if !address.is_open => {
                return Ok(ProviderSettings {
                    base_url: address.text,
                    ..self.settings()
                });
            }
            Ok(_) => (
                "everything, the key too, would go there in the open",
                ", plain_http: true",
            ),
            Err(why) => (why, ""),
        };
        Err(UnknownProvider {
            message: format!("{address_variable} gives no address for `{name}`: {why}"),
            help: format!(
                "unset it, or write in your own file: `providers: {{ {name}: {{ base_url: URL{more} }} }}`"
            ),
            is_untrusted: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_of_vendors_give_addresses() {
        for (variable, value, expected) in [
            (
                "ANTHROPIC_BASE_URL",
                "https://gate.example/",
                Ok("https://gate.example/v1"),
            ),
            (
                "OPENAI_BASE_URL",
                "http://localhost:8000/v1",
                Ok("http://localhost:8000/v1"),
            ),
            ("OPENAI_BASE_URL", "", Ok("https://api.openai.com/v1")),
            ("OPENAI_BASE_URL", "http://10.0.0.7/v1", Err("in the open")),
            (
                "OPENAI_BASE_URL",
                "https://me:secret@x.example",
                Err("a password"),
            ),
            ("OLLAMA_HOST", "127.0.0.1", Ok("http://127.0.0.1:11434/v1")),
            (
                "OLLAMA_HOST",
                "localhost:8080",
                Ok("http://localhost:8080/v1"),
            ),
            ("OLLAMA_HOST", "0.0.0.0", Ok("http://127.0.0.1:11434/v1")),
            ("OLLAMA_HOST", "0.0.0.0:9", Ok("http://127.0.0.1:9/v1")),
            ("OLLAMA_HOST", "[::]", Ok("http://[::1]:11434/v1")),
            ("OLLAMA_HOST", "[::1]:9", Ok("http://[::1]:9/v1")),
            (
                "OLLAMA_HOST",
                "https://models.example",
                Ok("https://models.example/v1"),
            ),
            ("OLLAMA_HOST", "models.example", Err("in the open")),
        ] {
            let env = [(variable.to_owned(), value.to_owned())];
            let of = |known: &KnownProvider| known.address_variable == variable;
            let name = PROVIDERS.iter().find(|known| of(known)).unwrap().name;
            let (_, found) = all(&env).find(|(each, _)| *each == name).unwrap();
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.base_url, expected, "{value}"),
                (Err(found), Err(why)) => {
                    assert!(found.message.contains(why), "{}", found.message);
                    assert!(!found.message.contains("secret"), "{}", found.message);
                }
                (found, _) => panic!("{variable}={value}: {found:?}"),
            }
        }
    }
}
