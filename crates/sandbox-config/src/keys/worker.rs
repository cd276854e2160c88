//! The front matter of worker files.

use crate::keys::git::WORKER_GIT;
use crate::keys::network::NETWORK_SHAPE;
use crate::keys::project::LIMITS;
use crate::keys::sandbox::{
    APPROVAL, MAX_FILE_BYTES, MODE, MOUNT, NAMED_PATH, SUFFIXES, ZONE_APPROVAL,
};
use crate::keys::shell::WORKER_SHELL;
use crate::keys::{MODE_HELP, RULES_HELP};
use crate::syntax::key_table::shape::{
    DELEGATE, KeyPattern, MOUNT_NAME, SANDBOX_PATH, SCHEMA_FILE, SUFFIX, ValueShape, WORKER_NAME,
};
use crate::syntax::key_table::{KeySpec, KeyTable};

const TEXTS: ValueShape = ValueShape::List(&ValueShape::Text);

const SCHEMA: ValueShape = ValueShape::OneOf(&[ValueShape::Schema, ValueShape::Like(&SCHEMA_FILE)]);

const TOOLS_HELP: &str =
    "did you mean `tools:`? As written this worker would get every tool its grants allow.";
const TOOLS_ALLOW_HELP: &str = "forge lists what is allowed: `tools: [read_file, …]`";

pub(crate) static WORKER: KeyTable = KeyTable {
    id: "worker",
    plural: "worker files",
    may_be_blank: true,
    list: &[
        KeySpec::new(
            "name",
            ValueShape::Like(&WORKER_NAME),
            "The worker's name, and that of its tool when others call it; without it, the file's.",
        ),
        KeySpec::new(
            "description",
            ValueShape::Text,
            "What it is for; the description of its tool when others call it.",
        ),
        KeySpec::new(
            "model",
            ValueShape::Text,
            "The model it runs on, as `provider:model`; without it, the project's.",
        ),
        KeySpec::new(
            "sandbox",
            ValueShape::OneOf(&[
                ValueShape::Words(&["none", "inherit"], &[]),
                ValueShape::Section(&WORKER_SANDBOX),
            ]),
            "What it needs of the project's files; without it, `sandbox.default` of the project.",
        ),
        KeySpec::new(
            "network",
            NETWORK_SHAPE,
            "Whether its commands may reach other hosts; at most what its caller may.",
        )
        .default("false"),
        KeySpec::new(
            "shell",
            ValueShape::Section(&WORKER_SHELL),
            "That it may run commands, by the project's rules and these; without it there is no shell.",
        ),
        KeySpec::new(
            "git",
            ValueShape::Section(&WORKER_GIT),
            "The repositories it works with; without it there are no git tools.",
        ),
        KeySpec::new(
            "tools",
            TEXTS,
            "The only tools it gets; without it, all that its rights make possible.",
        ),
        KeySpec::new(
            "workers",
            ValueShape::List(&ValueShape::Like(&DELEGATE)),
            "The workers it may call.",
        )
        .default("[]"),
        KeySpec::new(
            "approval",
            ValueShape::Section(&WORKER_APPROVAL),
            "What is asked of a person beyond what the project asks; nothing is asked less.",
        ),
        KeySpec::new(
            "limits",
            ValueShape::Section(&LIMITS),
            "Numbers that end its calls, commands and run; the smaller one holds.",
        ),
        KeySpec::new(
            "instructions",
            ValueShape::Text,
            "Its instructions, if nothing stands below the front matter.",
        ),
        KeySpec::new(
            "compatible_models",
            TEXTS,
            "Patterns of models it runs on (`*`: anything, `?`: one character); on another it is not started.",
        ),
        KeySpec::new(
            "toolsets",
            ValueShape::Section(&TOOLSETS),
            "Tools by family, as golem spells it; read as `tools` and `workers`, with a note.",
        ),
        KeySpec::new(
            "attachment_policy",
            ValueShape::Section(&ATTACHMENTS),
            "What may be attached to its input.",
        ),
        KeySpec::new(
            "input_schema",
            SCHEMA,
            "JSON Schema (draft 2020-12) of what it is called with, or a file of the project that holds it; `{}`: a text.",
        )
        .default("{}"),
        KeySpec::new(
            "output_schema",
            SCHEMA,
            "JSON Schema (draft 2020-12) of its answer, or a file of the project that holds it; `{}`: any text.",
        )
        .default("{}")
        .aliases(&["output_schema_ref"]),
        KeySpec::new(
            "allow_empty_input",
            ValueShape::Bool,
            "Whether others may call it with nothing to do.",
        )
        .default("false"),
        KeySpec::new("license", ValueShape::Text, "A licence, carried along."),
        KeySpec::new("metadata", ValueShape::Free, "Anything, carried along."),
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

pub(crate) static WORKER_SANDBOX: KeyTable = KeyTable {
    id: "worker_sandbox",
    plural: "`sandbox` of a worker has",
    may_be_blank: false,
    list: &[
        KeySpec::new(
            "zones",
            ValueShape::List(&ValueShape::Section(&WORKER_ZONE)),
            "The zones it needs.",
        ),
        KeySpec::new(
            "restrict",
            ValueShape::Like(&SANDBOX_PATH),
            "The only directory it needs, as its caller sees it; for projects without zones.",
        ),
        KeySpec::new(
            "readonly",
            ValueShape::Bool,
            "`true`: it only reads. `false`: it must be able to write.",
        ),
        KeySpec::new(
            "rebase",
            ValueShape::Bool,
            "Whether `restrict` becomes `/`, for it and for whom it calls.",
        )
        .default("false"),
        KeySpec::new(
            "paths",
            ValueShape::Map(KeyPattern::Like(&MOUNT_NAME), &ValueShape::Section(&NAMED_PATH)),
            "Old form. Read with a warning where the project has one root; elsewhere an error that prints the new form.",
        ),
        KeySpec::new(
            "mounts",
            ValueShape::List(&ValueShape::Section(&MOUNT)),
            "Old form, as `paths`.",
        ),
        KeySpec::new(
            "use",
            ValueShape::Bool,
            "`false`: held to be passed on; its own tools cannot touch it.",
        )
        .default("true"),
        KeySpec::new(
            "approval",
            ValueShape::Section(&ZONE_APPROVAL),
            "What is asked of a person, or blocked, in all of it; never less than its caller is asked. For projects without zones, where each zone says it.",
        )
        .default("{}"),
        KeySpec::new(
            "unix_sockets",
            ValueShape::OneOf(&[
                ValueShape::Words(&["closed", "inherit"], &[]),
                ValueShape::List(&ValueShape::Text),
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

pub(crate) static WORKER_ZONE: KeyTable = KeyTable {
    id: "worker_zone",
    plural: "zones of a worker have",
    may_be_blank: false,
    list: &[
        KeySpec::new("name", ValueShape::Text, "A zone of the project.").required(),
        KeySpec::new("mode", MODE, "`ro`: read only. `rw`: read and write.").default("rw"),
        KeySpec::new(
            "use",
            ValueShape::Bool,
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

pub(crate) static TOOLSETS: KeyTable = KeyTable {
    id: "toolsets",
    plural: "`toolsets` has",
    may_be_blank: true,
    list: &[
        KeySpec::new(
            "filesystem",
            ValueShape::Section(&NO_OPTIONS),
            "The tools for files.",
        ),
        KeySpec::new(
            "shell",
            ValueShape::Section(&NO_OPTIONS),
            "The tool for commands.",
        ),
        KeySpec::new(
            "workers",
            ValueShape::Section(&WORKER_TOOLSET),
            "The tools that call workers.",
        ),
    ],
    foreign: &[],
};

pub(crate) static NO_OPTIONS: KeyTable = KeyTable {
    id: "no_options",
    plural: "no keys are read here",
    may_be_blank: true,
    list: &[],
    foreign: &[],
};

pub(crate) static WORKER_TOOLSET: KeyTable = KeyTable {
    id: "worker_toolset",
    plural: "`toolsets.workers` has",
    may_be_blank: true,
    list: &[KeySpec::new(
        "allowed_workers",
        ValueShape::List(&ValueShape::Like(&DELEGATE)),
        "The workers it may call.",
    )
    .default("[]")],
    foreign: &[],
};

pub(crate) static ATTACHMENTS: KeyTable = KeyTable {
    id: "attachment_policy",
    plural: "`attachment_policy` has",
    may_be_blank: true,
    list: &[
        KeySpec::new("max_attachments", ValueShape::Count, "How many.").default("4"),
        KeySpec::new("max_total_bytes", ValueShape::Count, "Bytes, together.").default("10000000"),
        KeySpec::new(
            "allowed_suffixes",
            ValueShape::List(&ValueShape::Like(&SUFFIX)),
            "Only files that end in one of these.",
        )
        .default("[]"),
        KeySpec::new(
            "denied_suffixes",
            ValueShape::List(&ValueShape::Like(&SUFFIX)),
            "No files that end in one of these.",
        )
        .default("[]"),
    ],
    foreign: &[],
};

pub(crate) static WORKER_APPROVAL: KeyTable = KeyTable {
    id: "worker_approval",
    plural: "`approval` of a worker has",
    may_be_blank: true,
    list: &[
        KeySpec::new(
            "mode",
            ValueShape::Words(&["tool", "manual", "deny"], &[]),
            "`manual`: everything that is not read-only is asked. `deny`: every question is answered with no. `tool`: as the project has it.",
        )
        .default("tool"),
        KeySpec::new(
            "require_user_permission",
            ValueShape::Map(KeyPattern::Any, &MORE),
            "The tools, and workers to call, that a person is asked about, or that are blocked.",
        )
        .default("{}"),
        KeySpec::new(
            "require_user_permission_by_risk",
            ValueShape::Map(KeyPattern::Words(&RISKS), &MORE),
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

const MORE: ValueShape = ValueShape::OneOf(&[
    ValueShape::True,
    ValueShape::Words(&["ask", "blocked"], &[]),
]);

const RISKS: [&str; 5] = [
    "read_only",
    "writes_workspace",
    "writes_fs",
    "network",
    "exec",
];
