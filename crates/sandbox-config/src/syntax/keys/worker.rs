//! The front matter of worker files.

use crate::syntax::keys::git::WORKER_GIT;
use crate::syntax::keys::project::{LIMITS, NETWORK_SHAPE};
use crate::syntax::keys::sandbox::{APPROVAL, MAX_FILE_BYTES, MODE, SUFFIXES, ZONE_APPROVAL};
use crate::syntax::keys::sandbox::{MOUNT, NAMED_PATH};
use crate::syntax::keys::shape::{
    DELEGATE, MOUNT_NAME, Names, SANDBOX_PATH, SCHEMA_FILE, SUFFIX, Shape, WORKER_NAME,
};
use crate::syntax::keys::shell::WORKER_SHELL;
use crate::syntax::keys::{Keys, MODE_HELP, RULES_HELP, now};

const TEXTS: Shape = Shape::List(&Shape::Text);

const SCHEMA: Shape = Shape::OneOf(&[Shape::Schema, Shape::Like(&SCHEMA_FILE)]);

const TOOLS_HELP: &str =
    "did you mean `tools:`? As written this worker would get every tool its grants allow.";
const TOOLS_ALLOW_HELP: &str = "forge lists what is allowed: `tools: [read_file, …]`";

pub(crate) static WORKER: Keys = Keys {
    id: "worker",
    plural: "worker files",
    may_be_blank: true,
    list: &[
        now(
            "name",
            Shape::Like(&WORKER_NAME),
            "The worker's name, and that of its tool when others call it; without it, the file's.",
        ),
        now(
            "description",
            Shape::Text,
            "What it is for; the description of its tool when others call it.",
        ),
        now(
            "model",
            Shape::Text,
            "The model it runs on, as `provider:model`; without it, the project's.",
        ),
        now(
            "sandbox",
            Shape::OneOf(&[
                Shape::Words(&["none", "inherit"], &[]),
                Shape::Section(&WORKER_SANDBOX),
            ]),
            "What it needs of the project's files; without it, `sandbox.default` of the project.",
        ),
        now(
            "network",
            NETWORK_SHAPE,
            "Whether its commands may reach other hosts; at most what its caller may.",
        )
        .default("false"),
        now(
            "shell",
            Shape::Section(&WORKER_SHELL),
            "That it may run commands, by the project's rules and these; without it there is no shell.",
        ),
        now(
            "git",
            Shape::Section(&WORKER_GIT),
            "The repositories it works with; without it there are no git tools.",
        ),
        now(
            "tools",
            TEXTS,
            "The only tools it gets; without it, all that its rights make possible.",
        ),
        now(
            "workers",
            Shape::List(&Shape::Like(&DELEGATE)),
            "The workers it may call.",
        )
        .default("[]"),
        now(
            "approval",
            Shape::Section(&WORKER_APPROVAL),
            "What is asked of a person beyond what the project asks; nothing is asked less.",
        ),
        now(
            "limits",
            Shape::Section(&LIMITS),
            "Numbers that end its calls, commands and run; the smaller one holds.",
        ),
        now(
            "instructions",
            Shape::Text,
            "Its instructions, if nothing stands below the front matter.",
        ),
        now(
            "compatible_models",
            TEXTS,
            "Patterns of models it runs on (`*`: anything, `?`: one character); on another it is not started.",
        ),
        now(
            "toolsets",
            Shape::Section(&TOOLSETS),
            "Tools by family, as golem spells it; read as `tools` and `workers`, with a note.",
        ),
        now(
            "attachment_policy",
            Shape::Section(&ATTACHMENTS),
            "What may be attached to its input.",
        ),
        now(
            "input_schema",
            SCHEMA,
            "JSON Schema (draft 2020-12) of what it is called with, or a file of the project that holds it; `{}`: a text.",
        )
        .default("{}"),
        now(
            "output_schema",
            SCHEMA,
            "JSON Schema (draft 2020-12) of its answer, or a file of the project that holds it; `{}`: any text.",
        )
        .default("{}")
        .aliases(&["output_schema_ref"]),
        now(
            "allow_empty_input",
            Shape::Bool,
            "Whether others may call it with nothing to do.",
        )
        .default("false"),
        now("license", Shape::Text, "A licence, carried along."),
        now("metadata", Shape::Free, "Anything, carried along."),
    ],
    foreign: &[
        ("allowedTools", TOOLS_HELP),
        ("allowed_tools", TOOLS_HELP),
        ("allowed-tools", TOOLS_HELP),
        ("disallowedTools", TOOLS_ALLOW_HELP),
        ("disallowed_tools", TOOLS_ALLOW_HELP),
        ("disallowed-tools", TOOLS_ALLOW_HELP),
        (
            "permissions",
            "use `sandbox:`, `tools:` and `shell:`",
        ),
        ("max_turns", "did you mean `limits.max_turns`?"),
        ("maxTurns", "did you mean `limits.max_turns`?"),
        ("allow", RULES_HELP),
        ("deny", RULES_HELP),
        ("readOnly", "use `mode: ro` on a zone"),
        (
            "readonly",
            "use `mode: ro` on a zone, or `sandbox.readonly`",
        ),
        ("restrict", "did you mean `sandbox.restrict`?"),
        ("zones", "did you mean `sandbox.zones`?"),
        (
            "child_sandbox",
            "there is no such key: a child's rights follow from its own declaration",
        ),
        ("agents", "did you mean `workers:`?"),
        ("repositories", "did you mean `git: { repositories: […] }`?"),
    ],
};

pub(crate) static WORKER_SANDBOX: Keys = Keys {
    id: "worker_sandbox",
    plural: "`sandbox` of a worker has",
    may_be_blank: false,
    list: &[
        now(
            "zones",
            Shape::List(&Shape::Section(&WORKER_ZONE)),
            "The zones it needs.",
        ),
        now(
            "restrict",
            Shape::Like(&SANDBOX_PATH),
            "The only directory it needs, as its caller sees it; for projects without zones.",
        ),
        now(
            "readonly",
            Shape::Bool,
            "`true`: it only reads. `false`: it must be able to write.",
        ),
        now(
            "rebase",
            Shape::Bool,
            "Whether `restrict` becomes `/`, for it and for whom it calls.",
        )
        .default("false"),
        now(
            "paths",
            Shape::Map(Names::Like(&MOUNT_NAME), &Shape::Section(&NAMED_PATH)),
            "Old form. Read with a warning where the project has one root; elsewhere an error that prints the new form.",
        ),
        now(
            "mounts",
            Shape::List(&Shape::Section(&MOUNT)),
            "Old form, as `paths`.",
        ),
        now(
            "use",
            Shape::Bool,
            "`false`: held to be passed on; its own tools cannot touch it.",
        )
        .default("true"),
        now(
            "approval",
            Shape::Section(&ZONE_APPROVAL),
            "What is asked of a person, or blocked, in all of it; never less than its caller is asked. For projects without zones, where each zone says it.",
        )
        .default("{}"),
        now(
            "unix_sockets",
            Shape::OneOf(&[
                Shape::Words(&["closed", "inherit"], &[]),
                Shape::List(&Shape::Text),
            ]),
            "Local sockets that its commands may connect to; at most what its caller has.",
        )
        .default("closed"),
    ],
    foreign: &[
        ("root", "the root belongs to the project file"),
        (
            "mode",
            "a mode belongs to each zone: `zones: [{ name: data, mode: ro }]`",
        ),
        (
            "child_sandbox",
            "there is no such key: a child's rights follow from its own declaration",
        ),
    ],
};

pub(crate) static WORKER_ZONE: Keys = Keys {
    id: "worker_zone",
    plural: "zones of a worker have",
    may_be_blank: false,
    list: &[
        now("name", Shape::Text, "A zone of the project.").required(),
        now("mode", MODE, "`ro`: read only. `rw`: read and write.").default("rw"),
        now(
            "use",
            Shape::Bool,
            "`false`: held only to be passed on; its own tools cannot touch it.",
        )
        .default("true"),
        APPROVAL,
        SUFFIXES,
        MAX_FILE_BYTES,
    ],
    foreign: &[
        ("readOnly", MODE_HELP),
        ("read_only", MODE_HELP),
        ("readonly", MODE_HELP),
        ("write", MODE_HELP),
        ("access", MODE_HELP),
        (
            "path",
            "the path belongs to the project file; a worker names the zone",
        ),
        ("zone", "did you mean `name:`?"),
    ],
};

pub(crate) static TOOLSETS: Keys = Keys {
    id: "toolsets",
    plural: "`toolsets` has",
    may_be_blank: true,
    list: &[
        now(
            "filesystem",
            Shape::Section(&NO_OPTIONS),
            "The tools for files.",
        ),
        now(
            "shell",
            Shape::Section(&NO_OPTIONS),
            "The tool for commands.",
        ),
        now(
            "workers",
            Shape::Section(&WORKER_TOOLSET),
            "The tools that call workers.",
        ),
    ],
    foreign: &[],
};

pub(crate) static NO_OPTIONS: Keys = Keys {
    id: "no_options",
    plural: "no keys are read here",
    may_be_blank: true,
    list: &[],
    foreign: &[],
};

pub(crate) static WORKER_TOOLSET: Keys = Keys {
    id: "worker_toolset",
    plural: "`toolsets.workers` has",
    may_be_blank: true,
    list: &[now(
        "allowed_workers",
        Shape::List(&Shape::Like(&DELEGATE)),
        "The workers it may call.",
    )
    .default("[]")],
    foreign: &[],
};

pub(crate) static ATTACHMENTS: Keys = Keys {
    id: "attachment_policy",
    plural: "`attachment_policy` has",
    may_be_blank: true,
    list: &[
        now("max_attachments", Shape::Count, "How many.").default("4"),
        now("max_total_bytes", Shape::Count, "Bytes, together.").default("10000000"),
        now(
            "allowed_suffixes",
            Shape::List(&Shape::Like(&SUFFIX)),
            "Only files that end in one of these.",
        )
        .default("[]"),
        now(
            "denied_suffixes",
            Shape::List(&Shape::Like(&SUFFIX)),
            "No files that end in one of these.",
        )
        .default("[]"),
    ],
    foreign: &[],
};

pub(crate) static WORKER_APPROVAL: Keys = Keys {
    id: "worker_approval",
    plural: "`approval` of a worker has",
    may_be_blank: true,
    list: &[
        now(
            "mode",
            Shape::Words(&["tool", "manual", "deny"], &[]),
            "`manual`: everything that is not read-only is asked. `deny`: every question is answered with no. `tool`: as the project has it.",
        )
        .default("tool"),
        now(
            "require_user_permission",
            Shape::Map(Names::Any, &MORE),
            "The tools, and workers to call, that a person is asked about, or that are blocked.",
        )
        .default("{}"),
        now(
            "require_user_permission_by_risk",
            Shape::Map(Names::Words(&RISKS), &MORE),
            "The risks that a person is asked about, or that are blocked.",
        )
        .default("{}"),
    ],
    foreign: &[
        ("allow", RULES_HELP),
        ("deny", RULES_HELP),
        ("tools", "did you mean `require_user_permission:`?"),
        (
            "timeout_s",
            "how long a question waits is the project's: `approval.timeout_s` in the project file",
        ),
    ],
};

const MORE: Shape = Shape::OneOf(&[Shape::True, Shape::Words(&["ask", "blocked"], &[])]);

const RISKS: [&str; 5] = [
    "read_only",
    "writes_workspace",
    "writes_fs",
    "network",
    "exec",
];
