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

const fn shape(
    kind: &'static str,
    prefix: &'static str,
    alphabet: Alphabet,
    min: usize,
    max: usize,
) -> KeyFormat {
    KeyFormat {
        kind,
        prefix,
        alphabet,
        min,
        max,
        digits: false,
    }
}

const fn with_digits(shape: KeyFormat) -> KeyFormat {
    KeyFormat {
        digits: true,
        ..shape
    }
}

use Alphabet::{Alnum, Base64, Dashed, Dotted, Hex, Path, Upper, Word};

/// The longer prefix first where one begins another.
pub(super) const SHAPES: &[KeyFormat] = &[
    // Models.
    shape("anthropic-key", "sk-ant-", Dashed, 16, MANY),
    with_digits(shape("api-key", "sk-", Dashed, 20, MANY)),
    shape("hugging-face-token", "hf_", Alnum, 30, 64),
    shape("hugging-face-token", "api_org_", Alnum, 30, 64),
    shape("groq-key", "gsk_", Alnum, 40, 128),
    shape("xai-key", "xai-", Alnum, 60, 128),
    with_digits(shape("perplexity-key", "pplx-", Alnum, 40, 128)),
    shape("replicate-token", "r8_", Alnum, 36, 48),
    // Code.
    shape("github-token", "github_pat_", Word, 22, MANY),
    shape("github-token", "ghp_", Alnum, 30, 255),
    shape("github-token", "gho_", Alnum, 30, 255),
    shape("github-token", "ghu_", Alnum, 30, 255),
    shape("github-token", "ghs_", Alnum, 30, 255),
    shape("github-token", "ghr_", Alnum, 30, 255),
    shape("gitlab-token", "glpat-", Dotted, 20, 300),
    shape("gitlab-token", "gldt-", Dashed, 20, 255),
    shape("gitlab-token", "glrt-", Dotted, 20, 300),
    shape("gitlab-token", "glptt-", Dashed, 20, 255),
    shape("gitlab-token", "glft-", Dashed, 20, 255),
    shape("gitlab-token", "glimt-", Dashed, 20, 255),
    shape("gitlab-token", "glagent-", Dashed, 20, 255),
    shape("gitlab-token", "gloas-", Dashed, 20, 255),
    shape("gitlab-token", "glcbt-", Dashed, 20, 255),
    shape("gitlab-token", "glsoat-", Dashed, 20, 255),
    with_digits(shape("atlassian-token", "ATATT3", Dashed, 50, 300)),
    shape("npm-token", "npm_", Alnum, 36, 64),
    shape("pypi-token", "pypi-AgE", Dashed, 50, MANY),
    shape("rubygems-key", "rubygems_", Hex, 48, 48),
    shape("docker-token", "dckr_pat_", Dashed, 20, 64),
    // Clouds.
    shape("aws-key", "AKIA", Upper, 16, 16),
    shape("aws-key", "ASIA", Upper, 16, 16),
    shape("aws-key", "ABIA", Upper, 16, 16),
    shape("aws-key", "ACCA", Upper, 16, 16),
    shape("google-key", "AIza", Dashed, 35, 35),
    shape("google-secret", "GOCSPX-", Dashed, 28, 28),
    with_digits(shape("google-token", "ya29.", Dotted, 40, MANY)),
    shape("azure-key", "AccountKey=", Base64, 40, 128),
    shape("azure-key", "SharedAccessKey=", Base64, 40, 128),
    shape("digitalocean-token", "dop_v1_", Hex, 64, 64),
    shape("digitalocean-token", "doo_v1_", Hex, 64, 64),
    shape("digitalocean-token", "dor_v1_", Hex, 64, 64),
    shape("databricks-token", "dapi", Hex, 32, 34),
    shape("vault-token", "hvs.", Dashed, 24, 300),
    shape("vault-token", "hvb.", Dashed, 24, 300),
    shape("supabase-token", "sbp_", Hex, 40, 40),
    shape("planetscale-token", "pscale_tkn_", Dotted, 32, 64),
    // Money.
    shape("stripe-key", "sk_live_", Alnum, 16, 255),
    shape("stripe-key", "rk_live_", Alnum, 16, 255),
    shape("stripe-key", "sk_test_", Alnum, 16, 255),
    shape("stripe-key", "rk_test_", Alnum, 16, 255),
    shape("stripe-key", "whsec_", Alnum, 32, 64),
    shape("square-token", "sq0atp-", Dashed, 22, 64),
    shape("square-secret", "sq0csp-", Dashed, 40, 64),
    shape("shopify-token", "shpat_", Hex, 32, 32),
    shape("shopify-token", "shpss_", Hex, 32, 32),
    shape("shopify-token", "shpca_", Hex, 32, 32),
    shape("shopify-token", "shppa_", Hex, 32, 32),
    // Messages and services.
    shape("slack-token", "xoxb-", Dashed, 10, MANY),
    shape("slack-token", "xoxp-", Dashed, 10, MANY),
    shape("slack-token", "xoxa-", Dashed, 10, MANY),
    shape("slack-token", "xoxr-", Dashed, 10, MANY),
    shape("slack-token", "xoxs-", Dashed, 10, MANY),
    shape("slack-token", "xoxe-", Dashed, 10, MANY),
    shape("slack-token", "xapp-", Dashed, 30, MANY),
    shape("slack-webhook", "hooks.slack.com/services/", Path, 30, 128),
    shape("sendgrid-key", "SG.", Dotted, 60, 80),
    shape("linear-key", "lin_api_", Alnum, 40, 64),
    shape("notion-token", "ntn_", Alnum, 40, 64),
    shape("grafana-token", "glsa_", Word, 40, 64),
    shape("grafana-token", "glc_", Base64, 32, 400),
    shape("new-relic-key", "NRAK-", Upper, 27, 27),
    shape("postman-key", "PMAK-", Dashed, 50, 64),
    shape("figma-token", "figd_", Dashed, 40, 64),
    shape("age-key", "AGE-SECRET-KEY-1", Upper, 58, 58),
    shape("sentry-token", "sntrys_", Base64, 60, 400),
];

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

/// How the names end to which secrets are assigned, in small letters; they are looked for in any
/// case.
pub(super) const NAMES: &[(&str, NameMeaning)] = &[
    ("password", NameMeaning::Password),
    ("passwd", NameMeaning::Password),
    ("passphrase", NameMeaning::Password),
    ("_pass", NameMeaning::Password),
    ("pwd", NameMeaning::Password),
    ("secret", NameMeaning::Secret),
    ("token", NameMeaning::Secret),
    ("api_key", NameMeaning::Secret),
    ("api-key", NameMeaning::Secret),
    ("apikey", NameMeaning::Secret),
    ("access_key", NameMeaning::Secret),
    ("access-key", NameMeaning::Secret),
    ("accesskey", NameMeaning::Secret),
    ("secret_key", NameMeaning::Secret),
    ("secret-key", NameMeaning::Secret),
    ("secretkey", NameMeaning::Secret),
    ("private_key", NameMeaning::Secret),
    ("private-key", NameMeaning::Secret),
    ("privatekey", NameMeaning::Secret),
    ("account_key", NameMeaning::Secret),
    ("accountkey", NameMeaning::Secret),
    ("auth_key", NameMeaning::Secret),
    ("authkey", NameMeaning::Secret),
    ("signing_key", NameMeaning::Secret),
    ("encryption_key", NameMeaning::Secret),
    ("master_key", NameMeaning::Secret),
    ("credentials", NameMeaning::Secret),
];

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
