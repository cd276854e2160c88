//! `sandbox` of a project file: the front-ends, and the guards that hold for every mount.

use sandbox_names::{HIDDEN, PROTECTED, PROTECTED_OF_GIT};

use crate::syntax::keys::project::NETWORK_SHAPE;
use crate::syntax::keys::shape::{BELOW_PROJECT, MOUNT_NAME, MOUNT_TARGET, Names, SUFFIX, Shape};
use crate::syntax::keys::{Key, Keys, MODE_HELP, now};

const TEXTS: Shape = Shape::List(&Shape::Text);

/// The one name of git's that `unprotect` may name: git replaces it, and it is looked at afterwards.
pub(crate) const GIT_CONFIG: &str = ".git/config";

/// What `unprotect` may name: nothing else that git executes or obeys.
pub(crate) const UNPROTECTABLE: [&str; PROTECTED.len() - PROTECTED_OF_GIT + 1] = {
    let mut names = [GIT_CONFIG; PROTECTED.len() - PROTECTED_OF_GIT + 1];
    let mut at = 1;
    while at < names.len() {
        names[at] = PROTECTED[PROTECTED_OF_GIT + at - 1];
        at += 1;
    }
    names
};

pub(crate) const MODE: Shape = Shape::Words(&["ro", "rw"], &[]);

pub(crate) const VERDICT: Shape = Shape::Words(&["preApproved", "ask", "blocked"], &[]);

const ENDINGS: Shape = Shape::Some(&Shape::Like(&SUFFIX));

pub(crate) const SUFFIXES: Key = now(
    "suffixes",
    ENDINGS,
    "File tools touch only files that end in one of these, in any case; commands are not bound by it.",
);

pub(crate) const MAX_FILE_BYTES: Key = now(
    "max_file_bytes",
    Shape::Count,
    "File tools read and write no larger file.",
);

pub(crate) const APPROVAL: Key = now(
    "approval",
    Shape::Section(&ZONE_APPROVAL),
    "Whether a person is asked, by operation.",
);

/// These four stand at `sandbox`, for every mount, and at a mount, where they hold instead.
const HARD_LINKS: Key = now(
    "hardlinks",
    Shape::Words(&["allow", "read_only", "deny"], &[]),
    "What file tools do with files that have more than one name.",
)
.default("read_only")
.trust("when it is `allow`");

const QUOTA_KEY: Key = now(
    "quota",
    Shape::Section(&QUOTA),
    "How much file tools may put into each directory.",
);

const STRICT_PATHS: Key = now(
    "strict_paths",
    Shape::Bool,
    "File tools refuse every path that holds `..`, also those that stay inside.",
)
.default("false");

const DURABLE: Key = now(
    "durable",
    Shape::Bool,
    "What file tools change is on the disk before the call returns, and decisions of the audit log before calls are made.",
)
.default("false");

pub(crate) static QUOTA: Keys = Keys {
    id: "quota",
    plural: "`quota` has",
    may_be_blank: true,
    list: &[
        now(
            "max_bytes",
            Shape::Count,
            "Bytes of all files of the directory together.",
        ),
        now("max_files", Shape::Count, "Files in the directory."),
    ],
    foreign: &[
        ("bytes", "did you mean `max_bytes:`?"),
        ("files", "did you mean `max_files:`?"),
    ],
};

pub(crate) const SOCKETS_HELP: &str = "use `unix_sockets:` below `sandbox:`";

pub(crate) static SANDBOX: Keys = Keys {
    id: "sandbox",
    plural: "`sandbox` has",
    may_be_blank: true,
    list: &[
        now(
            "mode",
            Shape::Words(&["sandboxed", "direct"], &[]),
            "`sandboxed`: the paths of zones are below `root`. `direct`: below the project, or elsewhere.",
        )
        .default("sandboxed"),
        now(
            "root",
            Shape::Like(&BELOW_PROJECT),
            "With zones: the directory that holds them, `.sandbox` without a word. Without `zones` and `mode` it is the front-end of a root project: this directory of the project, which exists, is the whole tree.",
        )
        .trust("when it is written in place"),
        now(
            "zones",
            Shape::Map(Names::Like(&MOUNT_NAME), &Shape::Section(&ZONE)),
            "Directories by name; each appears to workers as `/NAME`.",
        )
        .default("{ cache: { path: ./cache }, workspace: { path: ./workspace } }"),
        now(
            "readonly",
            Shape::Bool,
            "With a root project: nothing is written.",
        )
        .default("false"),
        now(
            "paths",
            Shape::Map(Names::Like(&MOUNT_NAME), &Shape::Section(&NAMED_PATH)),
            "Front-end: named directories, read-only unless they say otherwise.",
        ),
        now(
            "mounts",
            Shape::List(&Shape::Section(&MOUNT)),
            "Front-end: directories, and the places at which they appear: `/`, `/NAME`, or a place below another mount.",
        ),
        now(
            "read_paths",
            TEXTS,
            "Front-end: directories that may be read; each is named after itself.",
        )
        .trust("when one leads out of the project, or through a link"),
        now(
            "write_paths",
            TEXTS,
            "Front-end: directories that may be written; inside a readable one they keep their place there.",
        )
        .trust("when one leads out of the project or through a link, or is written in place"),
        now(
            "default",
            Shape::Words(&["none", "inherit"], &[]),
            "What a called worker gets that declares no `sandbox` of its own: nothing, or what its caller holds. Without a word: nothing in a project with zones, and all of it in every other.",
        ),
        now(
            "require_os_sandbox",
            Shape::Bool,
            "Refuse to run commands where the operating system cannot confine them.",
        )
        .default("false"),
        now(
            "protect",
            TEXTS,
            "Names at any depth (`*.lock`, `a/b`) and paths as workers see them (`/data/p`) that are never written, beside the built-in ones. `*` is any text in one name, and case does not matter. Commands are held to a path at any depth of every mount.",
        )
        .default("[]")
        .unites(),
        now(
            "hide",
            TEXTS,
            "Names and paths, as for `protect`, that are not readable and listed as absent, beside the built-in ones.",
        )
        .default("[]")
        .unites(),
        now(
            "network",
            NETWORK_SHAPE,
            "The same as `network` at the top level, which it may not stand beside.",
        )
        .default("false")
        .trust("when it is not `false`"),
        now(
            "show",
            Shape::List(&Shape::Words(&HIDDEN, &[])),
            "Built-in names of `hide` (`.env*`, `*.pem`, `.ssh`) that are files like others here, as far as reading goes.",
        )
        .strongest()
        .default("[]")
        .trust("always"),
        now(
            "unprotect",
            Shape::List(&Shape::Words(&UNPROTECTABLE, &[])),
            "Built-in names of `protect` that may be written here, such as `.vscode`. `.git/config` may be changed by git in commands (`git remote add`, `git push -u`), and is put back after the end if it then executes, obeys or redirects anything; the other names below `.git` are for `git.mode`.",
        )
        .strongest()
        .default("[]")
        .trust("always"),
        HARD_LINKS,
        QUOTA_KEY,
        STRICT_PATHS,
        DURABLE,
        now(
            "unix_sockets",
            Shape::OneOf(&[
                Shape::Words(&["closed", "open"], &[]),
                Shape::List(&Shape::Text),
            ]),
            "Local sockets of the host that commands may connect to: none, these by path, or all they can name. With `closed` a command's own work where bubblewrap tells them from the host's, unless `require: guards`.",
        )
        .default("closed")
        .trust("when it is not `closed`"),
        now(
            "programs",
            TEXTS,
            "Directories with programs of yours, such as `~/.cargo/bin` or `~/.nvm`, that commands may read and execute, at their own paths. Links in them are followed. `PATH` has those of yours that lie there, in your order. Containers have the programs of their image instead.",
        )
        .strongest()
        .default("[]")
        .trust("always"),
        now(
            "survivors",
            Shape::Words(&["ended", "left"], &[]),
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

pub(crate) static ZONE: Keys = Keys {
    id: "zone",
    plural: "zones have",
    may_be_blank: false,
    list: &[
        now(
            "path",
            Shape::Text,
            "The directory; `~`, `${VAR}` and `${VAR:-default}` are expanded. `run:workspace`: one that each run has of its own.",
        )
        .required()
        .trust("when it leads out of the project or through a link, or is written in place"),
        now("mode", MODE, "`ro`: read only. `rw`: read and write.").default("rw"),
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

pub(crate) static ZONE_APPROVAL: Keys = Keys {
    id: "zone_approval",
    plural: "`approval` of a zone has",
    may_be_blank: true,
    list: &[
        now("read", VERDICT, "Reading files.").default("preApproved"),
        now("write", VERDICT, "Writing and creating files.").default("ask"),
        now("delete", VERDICT, "Deleting files.")
            .default("ask")
            .trust("when it is `preApproved`"),
    ],
    foreign: &[],
};

pub(crate) static NAMED_PATH: Keys = Keys {
    id: "path",
    plural: "paths have",
    may_be_blank: false,
    list: &[
        now(
            "root",
            Shape::Text,
            "The directory; `~`, `${VAR}` and `${VAR:-default}` are expanded. `run:workspace`: one that each run has of its own.",
        )
        .required()
        .trust("when it leads out of the project or through a link, or is written in place"),
        now("mode", MODE, "`ro`: read only. `rw`: read and write.").default("ro"),
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

pub(crate) static MOUNT: Keys = Keys {
    id: "mount",
    plural: "mounts have",
    may_be_blank: false,
    list: &[
        now(
            "source",
            Shape::Text,
            "The directory, which exists; `~`, `${VAR}` and `${VAR:-default}` are expanded. `run:workspace`: one that each run has of its own.",
        )
        .required()
        .trust("when it leads out of the project or through a link, or is written in place"),
        now(
            "target",
            Shape::Like(&MOUNT_TARGET),
            "Where it appears: `/`, `/NAME`, or a place below another mount, which then covers what that mount has there.",
        )
        .required(),
        now("readonly", Shape::Bool, "Nothing is written.").default("false"),
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
