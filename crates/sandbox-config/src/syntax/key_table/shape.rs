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

pub(crate) static LINE: StringPattern = StringPattern {
    noun: "a line of text",
    pattern: r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$",
    valid: "demo",
    invalid: " ",
};

pub(crate) static WORKER_NAME: StringPattern = StringPattern {
    noun: "a worker's name",
    pattern: "^[a-z][a-z0-9_-]{0,63}$",
    valid: "reader",
    invalid: "Reader",
};

pub(crate) static DELEGATE: StringPattern = StringPattern {
    noun: "a worker's name, or `*` for every worker",
    pattern: r"^([a-z][a-z0-9_-]{0,63}|\*)$",
    valid: "reader",
    invalid: "Reader",
};

pub(crate) static MOUNT_NAME: StringPattern = StringPattern {
    noun: "a name of letters, digits, `_`, `-` and `.`",
    pattern: "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$",
    valid: "data",
    invalid: "a/b",
};

pub(crate) static MOUNT_TARGET: StringPattern = StringPattern {
    noun: "a place in the tree, from `/` on",
    pattern: "^/[^*?{}]*$",
    valid: "/data",
    invalid: "data",
};

pub(crate) static SUFFIX: StringPattern = StringPattern {
    noun: "a suffix such as `.md`",
    pattern: r"^\.[^/]+$",
    valid: ".md",
    invalid: "md",
};

pub(crate) static VARIABLE: StringPattern = StringPattern {
    noun: "a variable's name; `PATH`, `HOME` and `TMPDIR` are forge's own",
    pattern: "^(?!(PATH|HOME|TMPDIR)$)[A-Za-z_][A-Za-z0-9_]*$",
    valid: "CI",
    invalid: "1A",
};

pub(crate) static HOST: StringPattern = StringPattern {
    noun: "a host, without scheme and path",
    pattern: r"^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[1-9][0-9]{0,4})?$",
    valid: "example.com",
    invalid: "https://example.com/",
};

pub(crate) static IMAGE: StringPattern = StringPattern {
    noun: "an image such as `forge-sandbox:1`",
    pattern: "^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,511}$",
    valid: "debian:12",
    invalid: "--privileged",
};

pub(crate) static ENGINE: StringPattern = StringPattern {
    noun: "an engine's address: `unix://…`, `tcp://…` or `ssh://…`",
    pattern: "^(unix|tcp|ssh)://[!-~]+$",
    valid: "unix:///run/docker.sock",
    invalid: "/run/docker.sock",
};

pub(crate) static PROGRAM: StringPattern = StringPattern {
    noun: "a program's name or absolute path, without arguments",
    pattern: r"^(/([^/\s]+/)*)?[^/\s]+$",
    valid: "git",
    invalid: "git log",
};

pub(crate) static PROVIDER_NAME: StringPattern = StringPattern {
    noun: "a provider's name; `scripted` is forge's own",
    pattern: "^(?!scripted$)[a-z][a-z0-9_-]{0,63}$",
    valid: "ollama",
    invalid: "scripted",
};

pub(crate) static BASE_URL: StringPattern = StringPattern {
    noun: "a URL with a host, without a password, `?` and `#`",
    pattern: r"^https?://[A-Za-z0-9.:\[\]_-]+(/[A-Za-z0-9._~%/+:=@-]*)?$",
    valid: "https://api.example.com/v1",
    invalid: "api.example.com",
};

pub(crate) static KEY_VARIABLE: StringPattern = StringPattern {
    noun: "a variable's name",
    pattern: "^[A-Za-z_][A-Za-z0-9_]*$",
    valid: "EXAMPLE_API_KEY",
    invalid: "sk-123",
};

pub(crate) static AUTHOR: StringPattern = StringPattern {
    noun: "`name <address>`",
    pattern: r"^[^<>\u0000-\u001f\u007f-\u009f]*[^<>\s\u0000-\u001f\u007f-\u009f][^<>\u0000-\u001f\u007f-\u009f]*<[^<>\u0000-\u001f\u007f-\u009f]*[^<>\s\u0000-\u001f\u007f-\u009f][^<>\u0000-\u001f\u007f-\u009f]*>$",
    valid: "forge <forge@localhost>",
    invalid: "forge",
};

pub(crate) static TRAILER: StringPattern = StringPattern {
    noun: "`assisted-by`, `none`, or a line `Word: text`",
    pattern: r"^(assisted-by|none|[A-Za-z0-9-]+: [^\u0000-\u001f\u007f-\u009f]+)$",
    valid: "Assisted-by: forge",
    invalid: "Assisted by forge",
};

pub(crate) static REPOSITORY: StringPattern = StringPattern {
    noun: "`owner/name`, a URL or a path",
    pattern: r"^[^\u0000-\u001f\u007f-\u009f-][^\u0000-\u001f\u007f-\u009f]*$",
    valid: "octo/reports",
    invalid: "--upload-pack=id",
};

pub(crate) static ORIGIN: StringPattern = StringPattern {
    noun: "an origin such as `https://github.com` or `ssh://git@example.com`",
    pattern: r"^(https?|ssh)://([A-Za-z0-9_.-]+@)?[A-Za-z0-9\[][A-Za-z0-9.:\[\]-]*$",
    valid: "https://github.com",
    invalid: "github.com",
};

pub(crate) static SCHEMA_FILE: StringPattern = StringPattern {
    noun: "a file of JSON below the project",
    pattern: "^[^/]",
    valid: "schemas/answer.json",
    invalid: "/tmp/answer.json",
};

pub(crate) static SECRET: StringPattern = StringPattern {
    noun: "a text of 8 to 4096 bytes, without control characters",
    pattern: r"^[^\u0000-\u001f\u007f-\u009f]{8,4096}$",
    valid: "tr0ub4dor&3",
    invalid: "secret",
};

pub(crate) static BELOW_PROJECT: StringPattern = StringPattern {
    noun: "a path below the project",
    pattern: "^[^/]",
    valid: "tmp",
    invalid: "/tmp",
};

pub(crate) static SANDBOX_PATH: StringPattern = StringPattern {
    noun: "a path inside, from `/` on",
    pattern: "^/",
    valid: "/src",
    invalid: "src",
};

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
            ValueShape::Text
            | ValueShape::Like(_)
            | ValueShape::Bool
            | ValueShape::True
            | ValueShape::Count
            | ValueShape::Number
            | ValueShape::Exactly(_)
            | ValueShape::Words(..)
            | ValueShape::Null
            | ValueShape::Free
            | ValueShape::Schema => {}
        }
    }
}
