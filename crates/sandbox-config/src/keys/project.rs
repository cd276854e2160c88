//! The project file and the person's own file, at their top, and the sections without mounts and
//! commands.

use crate::keys::git::{GIT, USER_GIT};
use crate::keys::network::NETWORK_SHAPE;
use crate::keys::provider::{PROVIDERS, USER_PROVIDERS};
use crate::keys::runtime::{DOCKER, EXECUTION, EXECUTION_MODE, LOG};
use crate::keys::sandbox::{SANDBOX, SOCKETS_HELP};
use crate::keys::shell::SHELL;
use crate::keys::{APPROVAL_HELP, RULES_HELP};
use crate::syntax::key_table::shape::{BELOW_PROJECT, KeyPattern, LINE, ValueShape, WORKER_NAME};
use crate::syntax::key_table::{KeySpec, KeyTable};

const TEXTS: ValueShape = ValueShape::List(&ValueShape::Text);

const VERSION: KeySpec = KeySpec::new(
    "version",
    ValueShape::Exactly(1),
    "The version of this format; another one is refused.",
)
.default("1");

const MODEL: KeySpec = KeySpec::new(
    "model",
    ValueShape::Like(&LINE),
    "The model that workers run on, as `provider:model`, unless they name their own.",
)
.last_layer_wins();

const ENTRY: KeySpec = KeySpec::new(
    "entry",
    ValueShape::Like(&WORKER_NAME),
    "The worker that `forge run` starts.",
)
.default("main")
.last_layer_wins();

const DIRECTORIES: ValueShape = ValueShape::List(&ValueShape::Like(&BELOW_PROJECT));

const WORKER_PATHS: KeySpec = KeySpec::new(
    "worker_paths",
    DIRECTORIES,
    "Directories below the project in which `*.worker` files are looked for, in this order.",
)
.default("[workers, .workers]")
.last_layer_wins()
.aliases(&["workerPaths"]);

const SANDBOX_KEY: KeySpec = KeySpec::new(
    "sandbox",
    ValueShape::Section(&SANDBOX),
    "What of the host's files may be touched at most.",
);

const NETWORK_KEY: KeySpec = KeySpec::new(
    "network",
    NETWORK_SHAPE,
    "Whether commands may reach other hosts, and which. Where they have a network namespace they always reach what they started themselves, on 127.0.0.1 and ::1.",
)
.default("false")
.trust("when it is not `false`");

const APPROVAL_KEY: KeySpec = KeySpec::new(
    "approval",
    ValueShape::Section(&APPROVAL),
    "Which calls a person is asked about.",
)
.aliases(&["permissions"]);

const SHELL_KEY: KeySpec = KeySpec::new(
    "shell",
    ValueShape::Section(&SHELL),
    "Which commands may run, and in what environment; without it there is no shell.",
);

const LIMITS_KEY: KeySpec = KeySpec::new(
    "limits",
    ValueShape::Section(&LIMITS),
    "Numbers that end calls, commands and runs.",
);

const DELEGATION_KEY: KeySpec = KeySpec::new(
    "delegation",
    ValueShape::Section(&DELEGATION),
    "How workers may call workers.",
);

const EXECUTION_KEY: KeySpec = KeySpec::new(
    "execution",
    ValueShape::Section(&EXECUTION),
    "Where calls run: on this host, or in a container.",
);

const DOCKER_KEY: KeySpec = KeySpec::new(
    "docker",
    ValueShape::Section(&DOCKER),
    "How containers are started.",
);

const GIT_DOC: &str =
    "What commands may do to repositories, which ones workers pull from and stage for, and how.";

const GIT_KEY: KeySpec = KeySpec::new("git", ValueShape::Section(&GIT), GIT_DOC);

const REQUIRE: KeySpec = KeySpec::new(
    "require",
    ValueShape::Words(&["boundaries", "guards"], &[]),
    "`guards`: what is otherwise listed as a gap (protected names, limits of a tree) refuses the command, and protected names that are absent cannot be made while it runs.",
)
.default("boundaries");

const LOG_KEY: KeySpec = KeySpec::new("log", ValueShape::Section(&LOG), "What is kept of a run.");

const PROVIDERS_DOC: &str = "Model providers by name, beside `anthropic`, `openai` and `ollama`, which forge knows; one that your own file names is yours alone.";

const PROVIDERS_KEY: KeySpec = KeySpec::new("providers", PROVIDERS, PROVIDERS_DOC)
    .last_layer_wins()
    .trust("always");

const MCP_KEY: KeySpec = KeySpec::reserved(
    "mcp",
    ValueShape::Free,
    "MCP servers whose tools are offered.",
);

pub(crate) static PROJECT: KeyTable = KeyTable {
    id: "project",
    plural: "project files",
    may_be_blank: true,
    list: &[
        VERSION,
        KeySpec::new(
            "name",
            ValueShape::Like(&LINE),
            "The project's name; without it, the directory's.",
        )
        .last_layer_wins(),
        MODEL,
        ENTRY,
        WORKER_PATHS,
        SANDBOX_KEY,
        NETWORK_KEY,
        APPROVAL_KEY,
        SHELL_KEY,
        LIMITS_KEY,
        DELEGATION_KEY,
        KeySpec::reserved(
            "instructions_files",
            TEXTS,
            "Files whose text every worker's instructions begin with.",
        )
        .last_layer_wins(),
        EXECUTION_KEY,
        KeySpec::new(
            "execution_mode",
            EXECUTION_MODE,
            "Another spelling of `execution.mode`.",
        ),
        DOCKER_KEY,
        KeySpec::reserved("kubernetes", ValueShape::Free, "How pods are started."),
        GIT_KEY,
        LOG_KEY,
        PROVIDERS_KEY,
        MCP_KEY,
        KeySpec::new(
            "runs_dir",
            ValueShape::Text,
            "Where run directories are made, outside every mount; without it, in the state directory.",
        )
        .last_layer_wins()
        .trust("when it leaves the project"),
        KeySpec::new(
            "knowledge_base",
            ValueShape::Text,
            "A directory that is mounted read-only at `/kb`; workers name it like any other mount, `kb`.",
        )
        .trust("when it leaves the project"),
        REQUIRE,
        KeySpec::reserved("acp", ValueShape::Free, "The Agent Client Protocol."),
    ],
    foreign: &[
        ("allowedTools", APPROVAL_HELP),
        ("allowed_tools", APPROVAL_HELP),
        ("allowed-tools", APPROVAL_HELP),
        ("disallowedTools", APPROVAL_HELP),
        ("disallowed_tools", APPROVAL_HELP),
        ("max_turns", "did you mean `limits.max_turns`?"),
        ("maxTurns", "did you mean `limits.max_turns`?"),
        ("maxDepth", "did you mean `delegation.max_depth`?"),
        ("max_depth", "did you mean `delegation.max_depth`?"),
        ("allow", RULES_HELP),
        ("deny", RULES_HELP),
        ("zones", "did you mean `sandbox.zones`?"),
        ("mode", "did you mean `sandbox.mode`?"),
        ("env", "did you mean `shell.env`?"),
        ("unix_sockets", SOCKETS_HELP),
        ("survivors", "did you mean `sandbox.survivors`?"),
    ],
};

/// Below the top a user file has the keys of `loading/user_limits.rs`.
pub(crate) static USER: KeyTable = KeyTable {
    id: "user",
    plural: "user files",
    may_be_blank: true,
    list: &[
        VERSION,
        MODEL,
        ENTRY,
        WORKER_PATHS,
        SANDBOX_KEY,
        NETWORK_KEY,
        APPROVAL_KEY,
        SHELL_KEY,
        LIMITS_KEY,
        DELEGATION_KEY,
        EXECUTION_KEY,
        DOCKER_KEY,
        KeySpec::new("git", ValueShape::Section(&USER_GIT), GIT_DOC),
        REQUIRE,
        LOG_KEY,
        KeySpec::new("providers", USER_PROVIDERS, PROVIDERS_DOC).last_layer_wins(),
        MCP_KEY,
    ],
    foreign: &[],
};

const ASKS: ValueShape = ValueShape::Map(KeyPattern::Any, &CONSENT);

/// Whether a person is asked, or a verdict.
const CONSENT: ValueShape = ValueShape::OneOf(&[
    ValueShape::Bool,
    ValueShape::Words(&["preApproved", "ask", "blocked"], &[]),
]);

pub(crate) static APPROVAL: KeyTable = KeyTable {
    id: "approval",
    plural: "`approval` has",
    may_be_blank: true,
    list: &[
        KeySpec::new(
            "mode",
            ValueShape::Words(
                &["tool", "manual", "auto", "deny"],
                &["interactive", "approve_all", "auto_deny", "reject_all"],
            ),
            "`tool`: rules, zones and risks decide. `manual`: everything that is not read-only is asked. `auto`: every question is answered with yes, a block stays a block. `deny`: every question is answered with no.",
        )
        .default("tool")
        .trust("when it is `auto`"),
        KeySpec::new(
            "require_user_permission",
            ASKS,
            "By tool, or by worker for calls of it: whether a person is asked. `true` is `ask`, `false` is `preApproved`.",
        )
        .default("{}")
        .trust("when a tool or worker is `false` or `preApproved`"),
        KeySpec::new(
            "require_user_permission_by_risk",
            ValueShape::Map(
                KeyPattern::Words(&["read_only", "writes_workspace", "writes_fs", "network", "exec"]),
                &CONSENT,
            ),
            "By risk: whether a person is asked. Calling a worker is of risk `exec`; without a rule the caller's `workers` decides.",
        )
        .default("{ writes_fs: true, network: true, exec: true }")
        .trust("when a hazardous risk is `false` or `preApproved`"),
        KeySpec::new(
            "timeout_s",
            ValueShape::Count,
            "Seconds after which an unanswered question counts as no.",
        )
        .default("300"),
    ],
    foreign: &[
        ("allow", RULES_HELP),
        ("deny", RULES_HELP),
        ("tools", "did you mean `require_user_permission:`?"),
    ],
};

/// `null`: no limit.
const COUNT_OR_NONE: ValueShape = ValueShape::OneOf(&[ValueShape::Count, ValueShape::Null]);

pub(crate) static LIMITS: KeyTable = KeyTable {
    id: "limits",
    plural: "`limits` has",
    may_be_blank: true,
    list: &[
        KeySpec::new(
            "timeout_s_default",
            ValueShape::Count,
            "Seconds that a call may take when it names no time of its own.",
        )
        .default("30"),
        KeySpec::new(
            "timeout_s_max",
            ValueShape::Count,
            "Seconds that a call may ask for, at most; more where `timeout_s_default` is more.",
        )
        .default("300"),
        KeySpec::new(
            "max_stdout_kb",
            ValueShape::Count,
            "KiB kept of a command's standard output.",
        )
        .default("256"),
        KeySpec::new(
            "max_stderr_kb",
            ValueShape::Count,
            "KiB kept of a command's standard error.",
        )
        .default("64"),
        KeySpec::new(
            "max_file_write_mb",
            ValueShape::Count,
            "MiB that a file may have after a call wrote, appended, edited, copied, moved or pulled it.",
        )
        .default("10"),
        KeySpec::new(
            "max_turns",
            ValueShape::Count,
            "Turns that a worker may take.",
        )
        .default("50"),
        KeySpec::new(
            "processes",
            ValueShape::Count,
            "Processes that a command may have at one time.",
        )
        .default("2048"),
        KeySpec::new(
            "memory_mb",
            ValueShape::Count,
            "MiB of memory that a command and what it starts may use.",
        )
        .default("16384"),
        KeySpec::new(
            "max_tokens",
            COUNT_OR_NONE,
            "Tokens that a worker and everybody it calls may use; `null`: no limit.",
        )
        .default("500000"),
        KeySpec::new(
            "max_tool_calls",
            ValueShape::Count,
            "Tool calls that a worker and everybody it calls may make.",
        )
        .default("20000"),
        KeySpec::new(
            "max_cost_usd",
            ValueShape::OneOf(&[ValueShape::Number, ValueShape::Null]),
            "US dollars that a worker and everybody it calls may cost; every model needs `prices` then; `null`: no limit.",
        ),
        KeySpec::new(
            "max_wall_s",
            COUNT_OR_NONE,
            "Seconds that a run may take, and one call of an MCP client; `null`: no limit.",
        )
        .default("1800"),
        KeySpec::new(
            "max_working_s",
            COUNT_OR_NONE,
            "Seconds that a run may take, without waiting for answers and retries; `null`: no limit.",
        ),
        KeySpec::new(
            "repeat_calls",
            COUNT_OR_NONE,
            "Identical calls with identical results before the model is told; twice as many end the run; `null`: no limit.",
        )
        .default("3"),
    ],
    foreign: &[
        (
            "timeout",
            "use `timeout_s_default:`, in seconds",
        ),
        ("max_timeout", "use `timeout_s_max:`, in seconds"),
        ("maxTurns", "did you mean `max_turns:`?"),
        ("max_calls", "did you mean `max_tool_calls:`?"),
        ("max_cost", "did you mean `max_cost_usd:`?"),
        ("max_budget_usd", "did you mean `max_cost_usd:`?"),
        (
            "context_tokens",
            "how much fits is the model's: `providers.NAME.context_tokens`",
        ),
        ("max_processes", "did you mean `processes:`?"),
        ("memory", "did you mean `memory_mb:`?"),
    ],
};

pub(crate) static DELEGATION: KeyTable = KeyTable {
    id: "delegation",
    plural: "`delegation` has",
    may_be_blank: true,
    list: &[
        KeySpec::new(
            "max_depth",
            ValueShape::Count,
            "How deep workers may call workers; the entry worker is at depth 1.",
        )
        .default("5")
        .aliases(&["maxDepth"]),
        KeySpec::new(
            "max_children",
            ValueShape::Count,
            "How many calls of other workers one worker may make.",
        )
        .default("16"),
        KeySpec::new(
            "child_sandbox_policy",
            ValueShape::Words(&["own", "intersect"], &[]),
            "`intersect`: a called worker gets what it declares and its caller holds. `own`, for projects with `paths`: what it declares and the project allows.",
        )
        .default("intersect"),
    ],
    foreign: &[],
};
