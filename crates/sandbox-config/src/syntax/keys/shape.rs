//! What a value may look like, as far as that can be said without knowing the rest of the file.

use crate::syntax::keys::Keys;

/// The shape of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// A string.
    Text,
    /// A string of a certain form.
    Like(&'static Like),
    /// `true` or `false`.
    Bool,
    /// `true`: what can only be asked for.
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
    List(&'static Shape),
    /// A list of at least one.
    Some(&'static Shape),
    /// A mapping with free keys.
    Map(Names, &'static Shape),
    /// A mapping with known keys.
    Section(&'static Keys),
    /// Whatever else is accepted, by the first that fits.
    OneOf(&'static [Shape]),
    /// `null`, in words.
    Null,
    /// A mapping that forge hands on without looking into it.
    Free,
    /// A JSON Schema of a mapping.
    Schema,
}

/// The keys of a mapping that are not known beforehand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Names {
    /// Anything.
    Any,
    /// Of a certain form.
    Like(&'static Like),
    /// A closed list.
    Words(&'static [&'static str]),
}

/// A form of strings.
#[derive(Debug)]
pub(crate) struct Like {
    /// What it is, for "must be …".
    pub(crate) what: &'static str,
    /// A regular expression that JSON Schema validators share (ECMA 262).
    pub(crate) pattern: &'static str,
    /// One that is.
    pub(crate) good: &'static str,
    /// One that is not; for tests.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests try it"))]
    pub(crate) bad: &'static str,
}

pub(crate) static LINE: Like = Like {
    what: "a line of text",
    pattern: r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$",
    good: "demo",
    bad: " ",
};

pub(crate) static WORKER_NAME: Like = Like {
    what: "a worker's name",
    pattern: "^[a-z][a-z0-9_-]{0,63}$",
    good: "reader",
    bad: "Reader",
};

pub(crate) static DELEGATE: Like = Like {
    what: "a worker's name, or `*` for every worker",
    pattern: r"^([a-z][a-z0-9_-]{0,63}|\*)$",
    good: "reader",
    bad: "Reader",
};

pub(crate) static MOUNT_NAME: Like = Like {
    what: "a name of letters, digits, `_`, `-` and `.`",
    pattern: "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$",
    good: "data",
    bad: "a/b",
};

pub(crate) static MOUNT_TARGET: Like = Like {
    what: "a place in the tree, from `/` on",
    pattern: "^/[^*?{}]*$",
    good: "/data",
    bad: "data",
};

pub(crate) static SUFFIX: Like = Like {
    what: "a suffix such as `.md`",
    pattern: r"^\.[^/]+$",
    good: ".md",
    bad: "md",
};

pub(crate) static VARIABLE: Like = Like {
    what: "a variable's name; `PATH`, `HOME` and `TMPDIR` are forge's own",
    pattern: "^(?!(PATH|HOME|TMPDIR)$)[A-Za-z_][A-Za-z0-9_]*$",
    good: "CI",
    bad: "1A",
};

pub(crate) static HOST: Like = Like {
    what: "a host, without scheme and path",
    pattern: r"^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[1-9][0-9]{0,4})?$",
    good: "example.com",
    bad: "https://example.com/",
};

pub(crate) static IMAGE: Like = Like {
    what: "an image such as `forge-sandbox:1`",
    pattern: "^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,511}$",
    good: "debian:12",
    bad: "--privileged",
};

pub(crate) static ENGINE: Like = Like {
    what: "an engine's address: `unix://…`, `tcp://…` or `ssh://…`",
    pattern: "^(unix|tcp|ssh)://[!-~]+$",
    good: "unix:///run/docker.sock",
    bad: "/run/docker.sock",
};

pub(crate) static PROGRAM: Like = Like {
    what: "a program's name or absolute path, without arguments",
    pattern: r"^(/([^/\s]+/)*)?[^/\s]+$",
    good: "git",
    bad: "git log",
};

pub(crate) static PROVIDER_NAME: Like = Like {
    what: "a provider's name; `scripted` is forge's own",
    pattern: "^(?!scripted$)[a-z][a-z0-9_-]{0,63}$",
    good: "ollama",
    bad: "scripted",
};

pub(crate) static BASE_URL: Like = Like {
    what: "a URL with a host, without a password, `?` and `#`",
    pattern: r"^https?://[A-Za-z0-9.:\[\]_-]+(/[A-Za-z0-9._~%/+:=@-]*)?$",
    good: "https://api.example.com/v1",
    bad: "api.example.com",
};

pub(crate) static KEY_VARIABLE: Like = Like {
    what: "a variable's name",
    pattern: "^[A-Za-z_][A-Za-z0-9_]*$",
    good: "EXAMPLE_API_KEY",
    bad: "sk-123",
};

pub(crate) static AUTHOR: Like = Like {
    what: "`name <address>`",
    pattern: r"^[^<>\u0000-\u001f\u007f-\u009f]*[^<>\s\u0000-\u001f\u007f-\u009f][^<>\u0000-\u001f\u007f-\u009f]*<[^<>\u0000-\u001f\u007f-\u009f]*[^<>\s\u0000-\u001f\u007f-\u009f][^<>\u0000-\u001f\u007f-\u009f]*>$",
    good: "forge <forge@localhost>",
    bad: "forge",
};

pub(crate) static TRAILER: Like = Like {
    what: "`assisted-by`, `none`, or a line `Word: text`",
    pattern: r"^(assisted-by|none|[A-Za-z0-9-]+: [^\u0000-\u001f\u007f-\u009f]+)$",
    good: "Assisted-by: forge",
    bad: "Assisted by forge",
};

pub(crate) static REPOSITORY: Like = Like {
    what: "`owner/name`, a URL or a path",
    pattern: r"^[^\u0000-\u001f\u007f-\u009f-][^\u0000-\u001f\u007f-\u009f]*$",
    good: "octo/reports",
    bad: "--upload-pack=id",
};

pub(crate) static ORIGIN: Like = Like {
    what: "an origin such as `https://github.com` or `ssh://git@example.com`",
    pattern: r"^(https?|ssh)://([A-Za-z0-9_.-]+@)?[A-Za-z0-9\[][A-Za-z0-9.:\[\]-]*$",
    good: "https://github.com",
    bad: "github.com",
};

pub(crate) static SCHEMA_FILE: Like = Like {
    what: "a file of JSON below the project",
    pattern: "^[^/]",
    good: "schemas/answer.json",
    bad: "/tmp/answer.json",
};

pub(crate) static SECRET: Like = Like {
    what: "a text of 8 to 4096 bytes, without control characters",
    pattern: r"^[^\u0000-\u001f\u007f-\u009f]{8,4096}$",
    good: "tr0ub4dor&3",
    bad: "secret",
};

pub(crate) static BELOW_PROJECT: Like = Like {
    what: "a path below the project",
    pattern: "^[^/]",
    good: "tmp",
    bad: "/tmp",
};

pub(crate) static SANDBOX_PATH: Like = Like {
    what: "a path inside, from `/` on",
    pattern: "^/",
    good: "/src",
    bad: "src",
};

impl Shape {
    /// The tables that a value of this shape is read by.
    pub(crate) fn tables(&self, found: &mut Vec<&'static Keys>) {
        match self {
            Shape::Section(keys) => found.push(keys),
            Shape::List(item) | Shape::Some(item) | Shape::Map(_, item) => item.tables(found),
            Shape::OneOf(shapes) => {
                for shape in *shapes {
                    shape.tables(found);
                }
            }
            Shape::Text
            | Shape::Like(_)
            | Shape::Bool
            | Shape::True
            | Shape::Count
            | Shape::Number
            | Shape::Exactly(_)
            | Shape::Words(..)
            | Shape::Null
            | Shape::Free
            | Shape::Schema => {}
        }
    }
}
