//! Model providers: address, protocol, credentials and prices. The author of these values matters:
//! a file that came with a repository must not send a user's key, or files that workers read, to a
//! server of its own choosing. So a provider is one unit: the user file names it whole, or the
//! project does and a person has agreed to exactly that, and never a part of each.

pub(crate) mod address;
mod known;
pub(crate) mod read;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::syntax::diagnostic::nearest;
use crate::syntax::text::ConfigOrigin;
use crate::syntax::word::words;

/// A provider of models.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::write(dir.path().join("golem-forge.config.yaml"), "name: demo\n").unwrap();
/// use sandbox_config::{ApiKey, Sources, Wire, load};
/// let project = load(&Sources::new(dir.path())).unwrap();
/// let provider = project.provider("anthropic").unwrap();
/// assert_eq!(provider.wire(), Wire::Anthropic);
/// assert_eq!(provider.base_url(), "https://api.anthropic.com/v1");
/// assert_eq!(provider.key(), &ApiKey::Variable("ANTHROPIC_API_KEY".into()));
/// assert_eq!(provider.retry_s(), 120);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderSettings {
    name: String,
    wire: Wire,
    base_url: String,
    key: ApiKey,
    stream: bool,
    retry_s: u64,
    /// For the models without facts of their own.
    properties: ModelProperties,
    models: BTreeMap<String, ModelProperties>,
    origin: ConfigOrigin,
}

/// The known properties of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ModelProperties {
    prices: Option<TokenPrices>,
    max_tokens: Option<u64>,
    context_tokens: Option<u64>,
}

words! {
    /// The protocol that a provider speaks, and over which a playbook is played.
    ///
    /// ```
    /// assert_eq!(sandbox_config::Wire::OpenAiChat.to_string(), "openai-chat");
    /// ```
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
    )]
    #[serde(rename_all = "kebab-case")]
    pub enum Wire {
        /// `anthropic`: Anthropic Messages. The one that carries most, so a playbook is played over it
        /// unless it names another.
        #[default]
        Anthropic = "anthropic",
        /// `openai-chat`: Chat Completions, which most local servers speak.
        #[serde(rename = "openai-chat")]
        OpenAiChat = "openai-chat",
        /// `openai-responses`: Responses.
        #[serde(rename = "openai-responses")]
        OpenAiResponses = "openai-responses",
    }
}

impl Wire {
    /// All of them.
    pub const ALL: [Wire; 3] = [Wire::Anthropic, Wire::OpenAiChat, Wire::OpenAiResponses];
}

/// Where a provider's key comes from; never the key itself.
///
/// ```
/// let key = sandbox_config::ApiKey::Command(vec!["pass".into(), "show".into(), "work".into()]);
/// assert_eq!(key.to_string(), "what `pass show work` prints");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiKey {
    /// It wants none.
    None,
    /// This variable holds it.
    Variable(String),
    /// This program prints it, run with these arguments and without a shell. Only the person's
    /// own file can say that.
    Command(Vec<String>),
}

impl std::fmt::Display for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ApiKey::None => f.write_str("no key"),
            ApiKey::Variable(name) => write!(f, "the key in {name}"),
            ApiKey::Command(words) => write!(f, "what `{}` prints", words.join(" ")),
        }
    }
}

/// The price of a token, in billionths of a US dollar. A fraction of one is rounded up, so that a
/// limit on money is never kept too late.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::write(dir.path().join("user.yaml"), "
/// # providers: { work: { wire: openai-chat, base_url: 'https://x.example/v1',
/// #   prices: { input: 3, output: 15, cache_read: 0.3 } } }
/// # ").unwrap();
/// use sandbox_config::{Sources, load};
/// // prices: { input: 3, output: 15, cache_read: 0.3 }
/// let mut sources = Sources::new(dir.path());
/// sources.user_file = Some(dir.path().join("user.yaml"));
/// let prices = load(&sources).unwrap().provider("work").unwrap().prices("any").unwrap();
/// assert_eq!((prices.input, prices.output), (3_000, 15_000));
/// assert_eq!((prices.cache_read, prices.cache_write), (Some(300), None));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenPrices {
    /// A token that the model reads.
    pub input: u64,
    /// A token that it writes.
    pub output: u64,
    /// A token that it reads from its provider's cache; `None`: as any other.
    pub cache_read: Option<u64>,
    /// A token that it writes into that cache; `None`: as any other.
    pub cache_write: Option<u64>,
}

impl ProviderSettings {
    sandbox_names::getters! {
        /// Its name, the part of `provider:model` before the colon.
        pub name: &str = &name;
        /// The protocol it speaks.
        pub wire: Wire = wire;
        /// Returns its base address, without a slash at the end: `/messages`, `/chat/completions` or
        /// `/responses` is appended to it. It is `https`, or on this host, or `plain_http` is set.
        pub base_url: &str = &base_url;
        /// Where its key comes from.
        pub key: &ApiKey = &key;
        /// Returns `true` if answers are taken piece by piece.
        pub streams: bool = stream;
        /// Returns the seconds, from the first failure on, in which a turn that failed temporarily is tried
        /// again.
        pub retry_s: u64 = retry_s;
        /// Where it is named; built in for those that forge knows.
        pub origin: &ConfigOrigin = &origin;
    }

    /// Returns the prices of a model; `None` if unknown.
    #[must_use]
    pub fn prices(&self, model: &str) -> Option<TokenPrices> {
        self.property(model, |properties| properties.prices)
    }

    /// Tokens that one answer of a model may have.
    #[must_use]
    pub fn max_tokens(&self, model: &str) -> u64 {
        const UNSAID: u64 = 8_192;
        self.property(model, |properties| properties.max_tokens)
            .unwrap_or(UNSAID)
    }

    /// Returns the number of tokens that a conversation with a model may have; `None` if unknown.
    #[must_use]
    pub fn context_tokens(&self, model: &str) -> Option<u64> {
        self.property(model, |properties| properties.context_tokens)
    }

    /// The model's own word, else the provider's.
    fn property<T>(&self, model: &str, of: impl Fn(&ModelProperties) -> Option<T>) -> Option<T> {
        let own = self.models.get(model).and_then(&of);
        own.or_else(|| of(&self.properties))
    }
}

/// A provider that cannot be used here.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use sandbox_config::{Sources, load};
/// let project = load(&Sources::new(dir.path())).unwrap();
/// let unknown = project.provider("antropic").unwrap_err();
/// assert_eq!(unknown.to_string(), "unknown provider `antropic`");
/// assert_eq!(unknown.help(), "did you mean `anthropic`?");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UnknownProvider {
    pub(crate) message: String,
    pub(crate) help: String,
    pub(crate) is_untrusted: bool,
}

impl UnknownProvider {
    fn untrusted(name: &str) -> UnknownProvider {
        UnknownProvider {
            message: format!(
                "the provider `{name}` is the project's own, and you have not agreed to it"
            ),
            help: "`forge trust --show` shows where it is; if you trust this project: `forge trust`, or `--trust` for one run".to_owned(),
            is_untrusted: true,
        }
    }

    sandbox_names::getters! {
        /// Returns a suggestion.
        pub help: &str = &help;
        /// `true` if the project names the provider and the user has not consented.
        pub is_untrusted: bool = is_untrusted;
    }
}

/// The providers of a project.
#[derive(Clone, Debug, Default)]
pub(crate) struct Providers {
    pub(crate) by_name: BTreeMap<String, ProviderSettings>,
    /// Providers without the user's agreement, and those whose address cannot be used.
    unusable: BTreeMap<String, UnknownProvider>,
}

impl Providers {
    /// The built-in ones. The environment may give them other addresses.
    pub(crate) fn built_in(env: &[(String, String)]) -> Providers {
        let mut all = Providers::default();
        for (name, provider) in known::all(env) {
            match provider {
                Ok(provider) => all.insert(provider),
                Err(why) => all.refuse(name, why),
            }
        }
        all
    }

    /// Adds a provider in place of any other of its name.
    fn insert(&mut self, provider: ProviderSettings) {
        self.unusable.remove(&provider.name);
        self.by_name.insert(provider.name.clone(), provider);
    }

    /// No provider of this name can be used.
    fn refuse(&mut self, name: &str, why: UnknownProvider) {
        self.by_name.remove(name);
        self.unusable.insert(name.to_owned(), why);
    }

    pub(crate) fn get(&self, name: &str) -> Result<&ProviderSettings, UnknownProvider> {
        if let Some(provider) = self.by_name.get(name) {
            return Ok(provider);
        }
        if let Some(why) = self.unusable.get(name) {
            return Err(why.clone());
        }
        let names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
        let help = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "providers are: {}; others are named under `providers` in your own file",
                names.join(", ")
            ),
        };
        Err(UnknownProvider {
            message: format!("unknown provider `{name}`"),
            help,
            is_untrusted: false,
        })
    }
}
