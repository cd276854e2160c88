//! The shape of a value, as far as it does not depend on the rest of the file.

use crate::syntax::key_table::KeyTable;

/// The shape of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueShape {
    /// A string.
    Text,
    /// A string of a certain form.
    Like(&'static StringPattern),
    /// `true` or `false`.
    Bool,
    /// `true`: a setting that can only be asked for.
    True,
    /// A whole number above 0.
    Count,
    /// A port that needs no privilege.
    Port,
    /// A number that is not negative.
    Number,
    /// Exactly this whole number.
    Exactly(u64),
    /// One of these words. Other words for them, which are read with a note.
    Words(&'static [&'static str], &'static [&'static str]),
    /// A list, which may be empty.
    List(&'static ValueShape),
    /// A list of at least one.
    NonEmpty(&'static ValueShape),
    /// A mapping with free keys.
    Map(KeyPattern, &'static ValueShape),
    /// A mapping with known keys.
    Section(&'static KeyTable),
    /// The first of these shapes that fits.
    OneOf(&'static [ValueShape]),
    /// `null`, in words.
    Null,
    /// A mapping that forge hands on without looking into it.
    Free,
    /// A JSON Schema of a mapping.
    Schema,
}

/// The values of [`ValueShape::Port`].
pub(crate) const PORTS: std::ops::RangeInclusive<u16> = 1024..=u16::MAX;

/// The keys of a mapping that are not known beforehand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyPattern {
    /// Anything.
    Any,
    /// Of a certain form.
    Like(&'static StringPattern),
    /// A closed list.
    Words(&'static [&'static str]),
}

/// A form of strings.
#[derive(Debug)]
pub(crate) struct StringPattern {
    /// The noun in "must be …".
    pub(crate) noun: &'static str,
    /// A regular expression that JSON Schema validators share (ECMA 262).
    pub(crate) pattern: &'static str,
    /// One that is.
    pub(crate) valid: &'static str,
    /// One that is not; for tests.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests try it"))]
    pub(crate) invalid: &'static str,
}

/// Declares forms of strings: the noun, the pattern, a string that is one and a string that is not.
macro_rules! string_patterns {
    ($($(#[$meta:meta])* $name:ident = $noun:literal, $pattern:literal, $valid:literal, $invalid:literal;)+) => {
        $(
            $(#[$meta])*
            pub(crate) static $name: StringPattern = StringPattern {
                noun: $noun,
                pattern: $pattern,
                valid: $valid,
                invalid: $invalid,
            };
        )+
    };
}

string_patterns! {
    LINE = "a line of text",
        r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$", "demo", " ";
    WORKER_NAME = "a worker's name", "^[a-z][a-z0-9_-]{0,63}$", "reader", "Reader";
    DELEGATE = "a worker's name, or `*` for every worker",
        r"^([a-z][a-z0-9_-]{0,63}|\*)$", "reader", "Reader";
    MOUNT_NAME = "a name of letters, digits, `_`, `-` and `.`",
        "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", "data", "a/b";
    MOUNT_TARGET = "a place in the tree, from `/` on", "^/[^*?{}]*$", "/data", "data";
    SUFFIX = "a suffix such as `.md`", r"^\.[^/]+$", ".md", "md";
    VARIABLE = "a variable's name; `PATH`, `HOME` and `TMPDIR` are forge's own",
        "^(?!(PATH|HOME|TMPDIR)$)[A-Za-z_][A-Za-z0-9_]*$", "CI", "1A";
    HOST = "a host, without scheme and path",
        r"^((\*\.)?[^\s\u0000-\u001f\u007f-\u009f/@:*\[\]]+|\[[0-9A-Fa-f:.]+\])(:[1-9][0-9]{0,4})?$", "example.com", "https://example.com/";
    LOOPBACK_ADDRESS = "an address of the loopback with its port, such as `127.0.0.1:5432`",
        r"^(127(\.[0-9]{1,3}){3}|\[[0:]*:0*1\]|[Ll][Oo][Cc][Aa][Ll][Hh][Oo][Ss][Tt]\.?):[1-9][0-9]{0,4}$", "127.0.0.1:5432", "example.com:5432";
    IMAGE = "an image such as `forge-sandbox:1`",
        "^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,511}$", "debian:12", "--privileged";
    ENGINE = "an engine's address: `unix://…`, `tcp://…` or `ssh://…`",
        "^(unix|tcp|ssh)://[!-~]+$", "unix:///run/docker.sock", "/run/docker.sock";
    PROGRAM = "a program's name or absolute path, without arguments",
        r"^(/([^/\s]+/)*)?[^/\s]+$", "git", "git log";
    PRESET_NAME = "a preset's name", "^[a-z][a-z0-9_-]{0,63}$", "claude", "Claude";
    DATE = "a day, `YYYY-MM-DD`", "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "2026-11-27", "27.11.2026";
    PROVIDER_NAME = "a provider's name; `scripted` is forge's own",
        "^(?!scripted$)[a-z][a-z0-9_-]{0,63}$", "ollama", "scripted";
    BASE_URL = "a URL with a host, without a password, `?` and `#`",
        r"^https?://[A-Za-z0-9.:\[\]_-]+(/[A-Za-z0-9._~%/+:=@-]*)?$", "https://api.example.com/v1", "api.example.com";
    HTTPS_ORIGIN = "an https origin: `https://`, a host, and maybe a port",
        r"^https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[1-9][0-9]{0,4})?$", "https://example.com", "http://example.com/";
    HEADER = "a header's name, in lower case", "^[a-z0-9-]{1,64}$", "x-api-key", "X-Api-Key: 1";
    PLACEHOLDER = "8 to 256 letters, digits, `_`, `-` and `.`",
        "^[A-Za-z0-9_.-]{8,256}$", "sk-placeholder", "sk";
    KEY_VARIABLE = "a variable's name", "^[A-Za-z_][A-Za-z0-9_]*$", "EXAMPLE_API_KEY", "sk-123";
    AUTHOR = "`name <address>`",
        r"^[^<>\u0000-\u001f\u007f-\u009f]*[^<>\s\u0000-\u001f\u007f-\u009f][^<>\u0000-\u001f\u007f-\u009f]*<[^<>\u0000-\u001f\u007f-\u009f]*[^<>\s\u0000-\u001f\u007f-\u009f][^<>\u0000-\u001f\u007f-\u009f]*>$", "forge <forge@localhost>", "forge";
    TRAILER = "`assisted-by`, `none`, or a line `Word: text`",
        r"^(assisted-by|none|[A-Za-z0-9-]+: [^\u0000-\u001f\u007f-\u009f]+)$", "Assisted-by: forge", "Assisted by forge";
    REPOSITORY = "`owner/name`, a URL or a path",
        r"^[^\u0000-\u001f\u007f-\u009f-][^\u0000-\u001f\u007f-\u009f]*$", "octo/reports", "--upload-pack=id";
    ORIGIN = "an origin such as `https://github.com` or `ssh://git@example.com`",
        r"^(https?|ssh)://([A-Za-z0-9_.-]+@)?[A-Za-z0-9\[][A-Za-z0-9.:\[\]-]*$", "https://github.com", "github.com";
    SCHEMA_FILE = "a file of JSON below the project",
        "^[^/]", "schemas/answer.json", "/tmp/answer.json";
    SECRET = "a text of 8 to 4096 bytes, without control characters",
        r"^[^\u0000-\u001f\u007f-\u009f]{8,4096}$", "tr0ub4dor&3", "secret";
    BELOW_PROJECT = "a path below the project", "^[^/]", "tmp", "/tmp";
    SANDBOX_PATH = "a path inside, from `/` on", "^/", "/src", "src";
}

impl ValueShape {
    /// The tables that a value of this shape is read by.
    pub(crate) fn tables(&self, found: &mut Vec<&'static KeyTable>) {
        match self {
            ValueShape::Section(keys) => found.push(keys),
            ValueShape::List(item) | ValueShape::NonEmpty(item) | ValueShape::Map(_, item) => {
                item.tables(found)
            }
            ValueShape::OneOf(shapes) => {
                for shape in *shapes {
                    shape.tables(found);
                }
            }
            _ => {}
        }
    }
}
