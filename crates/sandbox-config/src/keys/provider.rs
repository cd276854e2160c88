//! `providers`: the services that answer turns, their addresses, credentials and prices.

use crate::syntax::key_table::shape::{
    BASE_URL, KEY_VARIABLE, KeyPattern, PROVIDER_NAME, ValueShape,
};
use crate::syntax::key_table::{KeySpec, KeyTable};

/// In a project file.
pub(crate) const PROVIDERS: ValueShape = ValueShape::Map(
    KeyPattern::Like(&PROVIDER_NAME),
    &ValueShape::Section(&PROVIDER),
);

/// In the person's own file.
pub(crate) const USER_PROVIDERS: ValueShape = ValueShape::Map(
    KeyPattern::Like(&PROVIDER_NAME),
    &ValueShape::Section(&USER_PROVIDER),
);

const WIRE: KeySpec = KeySpec::new(
    "wire",
    ValueShape::Words(&["anthropic", "openai-chat", "openai-responses"], &[]),
    "The protocol it speaks; never guessed from a model's name.",
);

const BASE: KeySpec = KeySpec::new(
    "base_url",
    ValueShape::Like(&BASE_URL),
    "Where it is reached: what `/messages`, `/chat/completions` or `/responses` is appended to.",
);

const VARIABLE_OR_NONE: ValueShape =
    ValueShape::OneOf(&[ValueShape::Like(&KEY_VARIABLE), ValueShape::Null]);

const API_KEY_ENV: KeySpec = KeySpec::new(
    "api_key_env",
    VARIABLE_OR_NONE,
    "The variable that holds the key; `null`: it wants none.",
);

const PLAIN_HTTP: KeySpec = KeySpec::new(
    "plain_http",
    ValueShape::Bool,
    "Whether a `base_url` that is neither `https` nor on this host is used all the same: anybody between reads everything, the key too.",
)
.default("false");

const PRICES: KeySpec = KeySpec::new(
    "prices",
    ValueShape::Section(&PRICE),
    "What its tokens cost, for `limits.max_cost_usd` and for what a run says at its end.",
);

const MAX_TOKENS: KeySpec = KeySpec::new(
    "max_tokens",
    ValueShape::Count,
    "Tokens that one answer may have.",
);

const CONTEXT_TOKENS: KeySpec = KeySpec::new(
    "context_tokens",
    ValueShape::Count,
    "Tokens that a conversation may have; near it the oldest results are left out.",
);

const STREAM: KeySpec = KeySpec::new(
    "stream",
    ValueShape::Bool,
    "Whether answers are taken piece by piece.",
)
.default("true");

const RETRY_S: KeySpec = KeySpec::new(
    "retry_s",
    ValueShape::Count,
    "Seconds for which a turn that failed in a way that passes is tried again, in all.",
)
.default("120");

const BY_MODEL: ValueShape = ValueShape::Map(KeyPattern::Any, &ValueShape::Section(&MODEL_FACTS));

const MODELS: KeySpec = KeySpec::new(
    "models",
    BY_MODEL,
    "By model, what is otherwise than for the rest of the provider's.",
);

pub(crate) static PROVIDER: KeyTable = KeyTable {
    id: "provider",
    plural: "providers have",
    may_be_blank: true,
    list: &[
        WIRE,
        BASE,
        API_KEY_ENV,
        PLAIN_HTTP,
        PRICES,
        MAX_TOKENS.default("8192"),
        CONTEXT_TOKENS,
        STREAM,
        RETRY_S,
        MODELS,
    ],
    foreign: &[
        (
            "api_key_command",
            "a program that prints a key is named in your own file only: a file that came with a repository must not choose what runs",
        ),
        ("api_key", KEY_HELP),
        ("apiKey", KEY_HELP),
        ("key", KEY_HELP),
        ("token", KEY_HELP),
        ("url", "did you mean `base_url:`?"),
        ("baseURL", "did you mean `base_url:`?"),
        ("baseUrl", "did you mean `base_url:`?"),
        ("endpoint", "did you mean `base_url:`?"),
        ("type", "did you mean `wire:`?"),
        ("protocol", "did you mean `wire:`?"),
        ("max_output_tokens", "did you mean `max_tokens:`?"),
        ("context_window", "did you mean `context_tokens:`?"),
        ("pricing", "did you mean `prices:`?"),
        ("timeout", "did you mean `retry_s:`?"),
    ],
};

const KEY_HELP: &str =
    "keys stand in no file of forge's: name the variable that holds it, `api_key_env:`";

pub(crate) static USER_PROVIDER: KeyTable = KeyTable {
    id: "user_provider",
    plural: "providers have",
    may_be_blank: true,
    list: &[
        WIRE,
        BASE,
        API_KEY_ENV,
        KeySpec::new(
            "api_key_command",
            ValueShape::Some(&ValueShape::Text),
            "A program and its arguments, run without a shell, that prints the key; only in your own file.",
        ),
        PLAIN_HTTP,
        PRICES,
        MAX_TOKENS.default("8192"),
        CONTEXT_TOKENS,
        STREAM,
        RETRY_S,
        MODELS,
    ],
    foreign: PROVIDER.foreign,
};

pub(crate) static MODEL_FACTS: KeyTable = KeyTable {
    id: "model_facts",
    plural: "models of a provider have",
    may_be_blank: true,
    list: &[PRICES, MAX_TOKENS, CONTEXT_TOKENS],
    foreign: &[],
};

pub(crate) static PRICE: KeyTable = KeyTable {
    id: "prices",
    plural: "`prices` has",
    may_be_blank: false,
    list: &[
        KeySpec::new(
            "input",
            ValueShape::Number,
            "US dollars for a million tokens that it reads.",
        )
        .required(),
        KeySpec::new(
            "output",
            ValueShape::Number,
            "US dollars for a million tokens that it writes.",
        )
        .required(),
        KeySpec::new(
            "cache_read",
            ValueShape::Number,
            "US dollars for a million tokens that it reads from its cache; without it, as `input`.",
        ),
        KeySpec::new(
            "cache_write",
            ValueShape::Number,
            "US dollars for a million tokens that it writes into its cache; without it, as `input`.",
        ),
    ],
    foreign: &[
        ("prompt", "did you mean `input:`?"),
        ("completion", "did you mean `output:`?"),
    ],
};
