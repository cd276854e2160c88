//! `sandbox` of a project file: the front-ends, and the guards that hold for every mount.

use sandbox_names::{HIDDEN, PROTECTED, PROTECTED_OF_GIT};

use crate::keys::MODE_HELP;
use crate::keys::network::NETWORK_SHAPE;
use crate::syntax::key_table::shape::{
    BELOW_PROJECT, KeyPattern, MOUNT_NAME, MOUNT_TARGET, SUFFIX, ValueShape,
};
use crate::syntax::key_table::{KeySpec, KeyTable};

const TEXTS: ValueShape = ValueShape::List(&ValueShape::Text);

/// The one name of git's that `unprotect` may name: git replaces it, and it is looked at afterwards.
pub(crate) const GIT_CONFIG: &str = ".git/config";

/// Names that `unprotect` accepts: nothing else that git executes or obeys.
pub(crate) const UNPROTECTABLE: [&str; PROTECTED.len() - PROTECTED_OF_GIT + 1] = {
    let mut names = [GIT_CONFIG; PROTECTED.len() - PROTECTED_OF_GIT + 1];
    let mut at = 1;
    while at < names.len() {
        names[at] = PROTECTED[PROTECTED_OF_GIT + at - 1];
        at += 1;
    }
    names
};

pub(crate) const MODE: ValueShape = ValueShape::Words(&["ro", "rw"], &[]);

pub(crate) const VERDICT: ValueShape = ValueShape::Words(&["preApproved", "ask", "blocked"], &[]);

const ENDINGS: ValueShape = ValueShape::Some(&ValueShape::Like(&SUFFIX));

pub(crate) const SUFFIXES: KeySpec = KeySpec::new(
    "suffixes",
    ENDINGS,
    "File tools touch only files that end in one of these, in any case; commands are not bound by it.",
);

pub(crate) const MAX_FILE_BYTES: KeySpec = KeySpec::new(
    "max_file_bytes",
    ValueShape::Count,
    "File tools read and write no larger file.",
);

pub(crate) const APPROVAL: KeySpec = KeySpec::new(
    "approval",
    ValueShape::Section(&ZONE_APPROVAL),
    "Whether a person is asked, by operation.",
);

/// These four are at `sandbox`, for every mount, and at a mount, which takes precedence.
const HARD_LINKS: KeySpec = KeySpec::new(
    "hardlinks",
    ValueShape::Words(&["allow", "read_only", "deny"], &[]),
    "What file tools do with files that have more than one name.",
)
.default("read_only")
.trust("when it is `allow`");

const QUOTA_KEY: KeySpec = KeySpec::new(
    "quota",
    ValueShape::Section(&QUOTA),
    "How much file tools may put into each directory.",
);

const STRICT_PATHS: KeySpec = KeySpec::new(
    "strict_paths",
    ValueShape::Bool,
    "File tools refuse every path that holds `..`, also those that stay inside.",
)
.default("false");

const DURABLE: KeySpec = KeySpec::new(
    "durable",
    ValueShape::Bool,
    "What file tools change is on the disk before the call returns, and decisions of the audit log before calls are made.",
)
.default("false");

pub(crate) static QUOTA: KeyTable = KeyTable {
    id: "quota",
    plural: "`quota` has",
    may_be_blank: true,
    list: &[
        KeySpec::new(
            "max_bytes",
            ValueShape::Count,
            "Bytes of all files of the directory together.",
        ),
        KeySpec::new("max_files", ValueShape::Count, "Files in the directory."),
    ],
    foreign: &[
        ("bytes", "did you mean `max_bytes:`?"),
        ("files", "did you mean `max_files:`?"),
    ],
};

pub(crate) const SOCKETS_HELP: &str = "use `unix_sockets:` below `sandbox:`";

pub(crate) static SANDBOX: KeyTable = KeyTable {
    id: "sandbox",
    plural: "`sandbox` has",
    may_be_blank: true,
    list: &[
        KeySpec::new(
            "mode",
            ValueShape::Words(&["sandboxed", "direct"], &[]),
            "`sandboxed`: the paths of zones are below `root`. `direct`: below the project, or elsewhere.",
        )
        .default("sandboxed"),
        KeySpec::new(
            "root",
            ValueShape::Like(&BELOW_PROJECT),
            "With zones: the directory that holds them, `.sandbox` without a word. Without `zones` and `mode` it is the front-end of a root project: this directory of the project, which exists, is the whole tree.",
        )
        .trust("when it is written in place"),
        KeySpec::new(
            "zones",
            ValueShape::Map(KeyPattern::Like(&MOUNT_NAME), &ValueShape::Section(&ZONE)),
            "Directories by name; each appears to workers as `/NAME`.",
        )
        .default("{ cache: { path: ./cache }, workspace: { path: ./workspace } }"),
        KeySpec::new(
            "readonly",
            ValueShape::Bool,
            "With a root project: nothing is written.",
        )
        .default("false"),
        KeySpec::new(
            "paths",
            ValueShape::Map(KeyPattern::Like(&MOUNT_NAME), &ValueShape::Section(&NAMED_PATH)),
            "Front-end: named directories, read-only unless they say otherwise.",
        ),
        KeySpec::new(
            "mounts",
            ValueShape::List(&ValueShape::Section(&MOUNT)),
            "Front-end: directories, and the places at which they appear: `/`, `/NAME`, or a place below another mount.",
        ),
        KeySpec::new(
            "read_paths",
            TEXTS,
            "Front-end: directories that may be read; each is named after itself.",
        )
        .trust("when one leads out of the project, or through a link"),
        KeySpec::new(
            "write_paths",
            TEXTS,
            "Front-end: directories that may be written; inside a readable one they keep their place there.",
        )
        .trust("when one leads out of the project or through a link, or is written in place"),
        KeySpec::new(
            "default",
            ValueShape::Words(&["none", "inherit"], &[]),
            "What a called worker gets that declares no `sandbox` of its own: nothing, or what its caller holds. Without a word: nothing in a project with zones, and all of it in every other.",
        ),
        KeySpec::new(
            "require_os_sandbox",
            ValueShape::Bool,
            "Refuse to run commands where the operating system cannot confine them.",
        )
        .default("false"),
        KeySpec::new(
            "protect",
            TEXTS,
            "Names at any depth (`*.lock`, `a/b`) and paths as workers see them (`/data/p`) that are never written, beside the built-in ones. `*` is any text in one name, and case does not matter.",
        )
        .default("[]")
        .unites(),
        KeySpec::new(
            "hide",
            TEXTS,
            "Names and paths, as for `protect`, that are not readable and listed as absent, beside the built-in ones.",
        )
        .default("[]")
        .unites(),
        KeySpec::new(
            "network",
            NETWORK_SHAPE,
            "The same as `network` at the top level, which it may not stand beside.",
        )
        .default("false")
        .trust("when it is not `false`"),
        KeySpec::new(
            "show",
            ValueShape::List(&ValueShape::Words(&HIDDEN, &[])),
            "Built-in names of `hide` (`.env*`, `*.pem`, `.ssh`) that are files like others here, as far as reading goes.",
        )
        .last_layer_wins()
        .default("[]")
        .trust("always"),
        KeySpec::new(
            "unprotect",
            ValueShape::List(&ValueShape::Words(&UNPROTECTABLE, &[])),
            "Built-in names of `protect` that may be written here, such as `.vscode`. `.git/config` may be changed by git in commands (`git remote add`, `git push -u`), and is put back after the end if it then executes, obeys or redirects anything; the other names below `.git` are for `git.mode`.",
        )
        .last_layer_wins()
        .default("[]")
        .trust("always"),
        HARD_LINKS,
        QUOTA_KEY,
        STRICT_PATHS,
        DURABLE,
        KeySpec::new(
            "unix_sockets",
            ValueShape::OneOf(&[
                ValueShape::Words(&["closed", "open"], &[]),
                ValueShape::List(&ValueShape::Text),
            ]),
            "Local sockets of the host that commands may connect to: none, these by path, or all they can name. With `closed` a command's own work where bubblewrap tells them from the host's, unless `require: guards`.",
        )
        .default("closed")
        .trust("when it is not `closed`"),
        KeySpec::new(
            "programs",
            TEXTS,
            "Directories with programs of yours, such as `~/.cargo/bin` or `~/.nvm`, that commands may read and execute, at their own paths. Links in them are followed. `PATH` has those of yours that lie there, in your order. Containers have the programs of their image instead.",
        )
        .last_layer_wins()
        .default("[]")
        .trust("always"),
        KeySpec::new(
            "survivors",
            ValueShape::Words(&["ended", "left"], &[]),
            "What becomes of processes that a command leaves behind; `left` gives up a boundary by name.",
        )
        .default("ended")
        .trust("when it is `left`"),
    ],
    foreign: &[
        (
            "enabled",
            "the sandbox is always on; `require_os_sandbox: true` refuses to run commands without one",
        ),
        (
            "restrict",
            "`restrict` narrows a worker: it stands in the worker's file",
        ),
        ("path", "use `programs:`, a list of directories"),
        ("sockets", "did you mean `unix_sockets:`?"),
        ("allow", "name directories under `zones:`"),
        ("deny", "use `hide:` or `protect:`"),
        (
            "child_sandbox",
            "there is no such key: a child's rights follow from its own declaration",
        ),
    ],
};

pub(crate) static ZONE: KeyTable = KeyTable {
    id: "zone",
    plural: "zones have",
    may_be_blank: false,
    list: &[
        KeySpec::new(
            "path",
            ValueShape::Text,
            "The directory; `~`, `${VAR}` and `${VAR:-default}` are expanded. `run:workspace`: one that each run has of its own.",
        )
        .required()
        .trust("when it leads out of the project or through a link, or is written in place"),
        KeySpec::new("mode", MODE, "`ro`: read only. `rw`: read and write.").default("rw"),
        SUFFIXES,
        MAX_FILE_BYTES,
        APPROVAL,
        HARD_LINKS,
        QUOTA_KEY,
        STRICT_PATHS,
        DURABLE,
    ],
    foreign: &[
        ("readOnly", MODE_HELP),
        ("read_only", MODE_HELP),
        ("readonly", MODE_HELP),
        ("write", MODE_HELP),
        ("access", MODE_HELP),
        ("unix_sockets", SOCKETS_HELP),
        ("root", "did you mean `path:`?"),
        ("source", "did you mean `path:`?"),
        ("allow", "use `suffixes:` or `approval:`"),
        (
            "deny",
            "use `approval:` here, or `sandbox.hide:`",
        ),
    ],
};

pub(crate) static ZONE_APPROVAL: KeyTable = KeyTable {
    id: "zone_approval",
    plural: "`approval` of a zone has",
    may_be_blank: true,
    list: &[
        KeySpec::new("read", VERDICT, "Reading files.").default("preApproved"),
        KeySpec::new("write", VERDICT, "Writing and creating files.").default("ask"),
        KeySpec::new("delete", VERDICT, "Deleting files.")
            .default("ask")
            .trust("when it is `preApproved`"),
    ],
    foreign: &[],
};

pub(crate) static NAMED_PATH: KeyTable = KeyTable {
    id: "path",
    plural: "paths have",
    may_be_blank: false,
    list: &[
        KeySpec::new(
            "root",
            ValueShape::Text,
            "The directory; `~`, `${VAR}` and `${VAR:-default}` are expanded. `run:workspace`: one that each run has of its own.",
        )
        .required()
        .trust("when it leads out of the project or through a link, or is written in place"),
        KeySpec::new("mode", MODE, "`ro`: read only. `rw`: read and write.").default("ro"),
        SUFFIXES,
        MAX_FILE_BYTES,
        APPROVAL,
        HARD_LINKS,
        QUOTA_KEY,
        STRICT_PATHS,
        DURABLE,
    ],
    foreign: &[
        ("readOnly", MODE_HELP),
        ("read_only", MODE_HELP),
        ("readonly", MODE_HELP),
        ("write", MODE_HELP),
        ("access", MODE_HELP),
        ("path", "did you mean `root:`?"),
        ("source", "did you mean `root:`?"),
        ("allow", "use `suffixes:` or `approval:`"),
        (
            "deny",
            "use `approval:` here, or `sandbox.hide:`",
        ),
    ],
};

const READONLY_HELP: &str = "did you mean `readonly: true`?";
const SOURCE_HELP: &str = "did you mean `source:`?";

pub(crate) static MOUNT: KeyTable = KeyTable {
    id: "mount",
    plural: "mounts have",
    may_be_blank: false,
    list: &[
        KeySpec::new(
            "source",
            ValueShape::Text,
            "The directory, which exists; `~`, `${VAR}` and `${VAR:-default}` are expanded. `run:workspace`: one that each run has of its own.",
        )
        .required()
        .trust("when it leads out of the project or through a link, or is written in place"),
        KeySpec::new(
            "target",
            ValueShape::Like(&MOUNT_TARGET),
            "Where it appears: `/`, `/NAME`, or a place below another mount, which then covers what that mount has there.",
        )
        .required(),
        KeySpec::new("readonly", ValueShape::Bool, "Nothing is written.").default("false"),
    ],
    foreign: &[
        ("readOnly", READONLY_HELP),
        ("read_only", READONLY_HELP),
        ("mode", READONLY_HELP),
        ("path", SOURCE_HELP),
        ("root", SOURCE_HELP),
        ("src", SOURCE_HELP),
        ("host", SOURCE_HELP),
        ("name", "did you mean `target: /NAME`?"),
        ("dst", "did you mean `target:`?"),
        ("destination", "did you mean `target:`?"),
    ],
};
