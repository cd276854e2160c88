//! `providers`: the services that answer turns, their addresses, credentials and prices.

use crate::syntax::key_table::key_table;
use crate::syntax::key_table::shape::ValueShape::*;
use crate::syntax::key_table::shape::{
    BASE_URL, KEY_VARIABLE, KeyPattern, PROVIDER_NAME, ValueShape,
};

/// In a project file.
pub(crate) const PROVIDERS: ValueShape = Map(KeyPattern::Like(&PROVIDER_NAME), &Section(&PROVIDER));

/// In the person's own file.
pub(crate) const USER_PROVIDERS: ValueShape =
    Map(KeyPattern::Like(&PROVIDER_NAME), &Section(&USER_PROVIDER));

const VARIABLE_OR_NONE: ValueShape = OneOf(&[Like(&KEY_VARIABLE), Null]);

const BY_MODEL: ValueShape = Map(KeyPattern::Any, &Section(&MODEL_FACTS));

key_table! {
    pub(crate) static PROVIDER = "provider", "providers have", blank;
    keys {
        /// Protocol of the provider, which forge never guesses from a model's name. Required unless
        /// the provider is built in.
        wire: Words(&["anthropic", "openai-chat", "openai-responses"], &[]);
        /// Address to which `/messages`, `/chat/completions` or `/responses` is appended. Required
        /// unless the provider is built in.
        base_url: Like(&BASE_URL);
        /// Environment variable that contains the key; `null` for a provider without keys. If left
        /// out: the variable of a built-in provider, unless a project file changes its `base_url`;
        /// otherwise no key is sent.
        api_key_env: VARIABLE_OR_NONE;
        /// Allows a `base_url` with `http` on another host. Everyone on the way can read all that
        /// is sent, including the key.
        plain_http: Bool, default("false");
        prices of MODEL_FACTS;
        max_tokens of MODEL_FACTS, default("8192");
        context_tokens of MODEL_FACTS;
        /// Receives answers in pieces, as the model writes them. Some servers return tool calls
        /// only without it.
        stream: Bool, default("true");
        /// Seconds, from the first failure on, in which forge tries a turn again that failed
        /// temporarily.
        retry_s: Count, default("120");
        /// Values for single models, by name. A value that is left out is the provider's.
        models: BY_MODEL;
    }
    foreign {
        "api_key_command" => "a program that prints a key is named in your own file only: a file that came with a repository must not choose what runs",
        "api_key" | "apiKey" | "key" | "token" => KEY_HELP,
        "url" | "baseURL" | "baseUrl" | "endpoint" => "did you mean `base_url:`?",
        "type" | "protocol" => "did you mean `wire:`?",
        "max_output_tokens" => "did you mean `max_tokens:`?",
        "context_window" => "did you mean `context_tokens:`?",
        "pricing" => "did you mean `prices:`?",
        "timeout" => "did you mean `retry_s:`?",
    }
}

const KEY_HELP: &str =
    "keys stand in no file of forge's: name the variable that holds it, `api_key_env:`";

key_table! {
    pub(crate) static USER_PROVIDER = "user_provider", "providers have", blank;
    keys {
        wire of PROVIDER;
        base_url of PROVIDER;
        api_key_env of PROVIDER;
        /// Program with its arguments that prints the key, in place of `api_key_env`. It runs
        /// without a shell. Only your own file can name one.
        api_key_command: NonEmpty(&Text);
        plain_http of PROVIDER;
        prices of MODEL_FACTS;
        max_tokens of MODEL_FACTS, default("8192");
        context_tokens of MODEL_FACTS;
        stream of PROVIDER;
        retry_s of PROVIDER;
        models of PROVIDER;
    }
    foreign = PROVIDER.foreign;
}

key_table! {
    pub(crate) static MODEL_FACTS = "model_facts", "models of a provider have", blank;
    keys {
        /// Prices of tokens, for `limits.max_cost_usd` and for the cost that a run reports.
        prices: Section(&PRICE);
        /// Largest number of tokens of one answer.
        max_tokens: Count;
        /// Largest number of tokens of a conversation. From four fifths on, forge leaves the oldest
        /// results out. If left out: forge never does.
        context_tokens: Count;
    }
}

key_table! {
    pub(crate) static PRICE = "prices", "`prices` has";
    keys {
        /// US dollars for a million tokens that the model reads.
        input: Number, required("both are needed; `0` is a price, too");
        /// US dollars for a million tokens that the model writes.
        output: Number, required("both are needed; `0` is a price, too");
        /// US dollars for a million tokens that the model reads from the provider's cache. If left
        /// out: the price of `input`.
        cache_read: Number;
        /// US dollars for a million tokens that the provider writes into its cache. If left out:
        /// the price of `input`.
        cache_write: Number;
    }
    foreign {
        "prompt" => "did you mean `input:`?",
        "completion" => "did you mean `output:`?",
    }
}
