//! The shapes of keys, as data: how the keys of each vendor begin and go on, after the vendors' own
//! documentation. A new kind of key is a new row; a test looks for a key of each row.

/// The bytes that a key is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alphabet {
    Upper,
    Hex,
    Alnum,
    Word,
    Dashed,
    Dotted,
    Base64,
    Path,
}

impl Alphabet {
    /// The number of alphabets.
    pub(super) const COUNT: usize = Alphabet::Path as usize + 1;

    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            Alphabet::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Alphabet::Hex => byte.is_ascii_hexdigit(),
            Alphabet::Alnum => byte.is_ascii_alphanumeric(),
            Alphabet::Word => Alphabet::Alnum.has(byte) || byte == b'_',
            Alphabet::Dashed => Alphabet::Word.has(byte) || byte == b'-',
            Alphabet::Dotted => Alphabet::Dashed.has(byte) || byte == b'.',
            Alphabet::Base64 => Alphabet::Alnum.has(byte) || matches!(byte, b'+' | b'/' | b'='),
            Alphabet::Path => Alphabet::Alnum.has(byte) || byte == b'/',
        }
    }
}

/// A key that begins with fixed letters and goes on with letters of one alphabet.
pub(super) struct KeyFormat {
    pub(super) kind: &'static str,
    pub(super) prefix: &'static str,
    pub(super) alphabet: Alphabet,
    /// How many letters follow at least.
    pub(super) min: usize,
    /// Most letters; a longer text is not such a key.
    pub(super) max: usize,
    /// `true` if digits must be among them: words with dashes have none.
    pub(super) digits: bool,
}

/// No key of any vendor is longer.
pub(super) const MANY: usize = 1024;

macro_rules! shapes {
    ($($kind:literal, $alphabet:ident, $min:literal..=$max:tt $letters:ident: $($prefix:literal)+;)+) => {
        &[$($(KeyFormat {
            kind: $kind,
            prefix: $prefix,
            alphabet: Alphabet::$alphabet,
            min: $min,
            max: $max,
            digits: shapes!(@ $letters),
        },)+)+]
    };
    (@ any) => { false };
    (@ digits) => { true };
}

/// The longer prefix first where one begins another.
pub(super) const SHAPES: &[KeyFormat] = shapes! {
    // Models.
    "anthropic-key", Dashed, 16..=MANY any: "sk-ant-";
    "api-key", Dashed, 20..=MANY digits: "sk-";
    "hugging-face-token", Alnum, 30..=64 any: "hf_" "api_org_";
    "groq-key", Alnum, 40..=128 any: "gsk_";
    "xai-key", Alnum, 60..=128 any: "xai-";
    "perplexity-key", Alnum, 40..=128 digits: "pplx-";
    "replicate-token", Alnum, 36..=48 any: "r8_";
    // Code.
    "github-token", Word, 22..=MANY any: "github_pat_";
    "github-token", Alnum, 30..=255 any: "ghp_" "gho_" "ghu_" "ghs_" "ghr_";
    "gitlab-token", Dotted, 20..=300 any: "glpat-";
    "gitlab-token", Dashed, 20..=255 any: "gldt-";
    "gitlab-token", Dotted, 20..=300 any: "glrt-";
    "gitlab-token", Dashed, 20..=255 any:
        "glptt-" "glft-" "glimt-" "glagent-" "gloas-" "glcbt-" "glsoat-";
    "atlassian-token", Dashed, 50..=300 digits: "ATATT3";
    "npm-token", Alnum, 36..=64 any: "npm_";
    "pypi-token", Dashed, 50..=MANY any: "pypi-AgE";
    "rubygems-key", Hex, 48..=48 any: "rubygems_";
    "docker-token", Dashed, 20..=64 any: "dckr_pat_";
    // Clouds.
    "aws-key", Upper, 16..=16 any: "AKIA" "ASIA" "ABIA" "ACCA";
    "google-key", Dashed, 35..=35 any: "AIza";
    "google-secret", Dashed, 28..=28 any: "GOCSPX-";
    "google-token", Dotted, 40..=MANY digits: "ya29.";
    "azure-key", Base64, 40..=128 any: "AccountKey=" "SharedAccessKey=";
    "digitalocean-token", Hex, 64..=64 any: "dop_v1_" "doo_v1_" "dor_v1_";
    "databricks-token", Hex, 32..=34 any: "dapi";
    "vault-token", Dashed, 24..=300 any: "hvs." "hvb.";
    "supabase-token", Hex, 40..=40 any: "sbp_";
    "planetscale-token", Dotted, 32..=64 any: "pscale_tkn_";
    // Money.
    "stripe-key", Alnum, 16..=255 any: "sk_live_" "rk_live_" "sk_test_" "rk_test_";
    "stripe-key", Alnum, 32..=64 any: "whsec_";
    "square-token", Dashed, 22..=64 any: "sq0atp-";
    "square-secret", Dashed, 40..=64 any: "sq0csp-";
    "shopify-token", Hex, 32..=32 any: "shpat_" "shpss_" "shpca_" "shppa_";
    // Messages and services.
    "slack-token", Dashed, 10..=MANY any: "xoxb-" "xoxp-" "xoxa-" "xoxr-" "xoxs-" "xoxe-";
    "slack-token", Dashed, 30..=MANY any: "xapp-";
    "slack-webhook", Path, 30..=128 any: "hooks.slack.com/services/";
    "sendgrid-key", Dotted, 60..=80 any: "SG.";
    "linear-key", Alnum, 40..=64 any: "lin_api_";
    "notion-token", Alnum, 40..=64 any: "ntn_";
    "grafana-token", Word, 40..=64 any: "glsa_";
    "grafana-token", Base64, 32..=400 any: "glc_";
    "new-relic-key", Upper, 27..=27 any: "NRAK-";
    "postman-key", Dashed, 50..=64 any: "PMAK-";
    "figma-token", Dashed, 40..=64 any: "figd_";
    "age-key", Upper, 58..=58 any: "AGE-SECRET-KEY-1";
    "sentry-token", Base64, 60..=400 any: "sntrys_";
};

/// No key of any shape is shorter, and nothing that is assigned to a name with the name before it.
pub(super) const SHORTEST: usize = 12;

/// The meaning of a name for the value that is assigned to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameMeaning {
    /// A person thought of it: it may be short.
    Password,
    /// A program made it.
    Secret,
}

macro_rules! names {
    ($($meaning:ident: $($name:literal)+;)+) => { &[$($(($name, NameMeaning::$meaning),)+)+] };
}

/// How the names end to which secrets are assigned, in small letters; they are looked for in any
/// case.
pub(super) const NAMES: &[(&str, NameMeaning)] = names! {
    Password:
        "password" "passwd" "passphrase" "_pass" "pwd";
    Secret:
        "secret" "token" "api_key" "api-key" "apikey" "access_key" "access-key" "accesskey"
        "secret_key" "secret-key" "secretkey" "private_key" "private-key" "privatekey"
        "account_key" "accountkey" "auth_key" "authkey" "signing_key" "encryption_key"
        "master_key" "credentials";
};

/// Words before `token` that make it a place in a list instead of a secret.
pub(super) const PLACES: &[&str] = &[
    "next",
    "page",
    "paging",
    "continuation",
    "continue",
    "progress",
    "pagination",
    "start",
];
