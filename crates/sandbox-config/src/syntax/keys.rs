//! Every documented key, as data: what has an effect now, what has not yet, and which of other
//! tools' spellings mean something of ours. A key that is none of these is a mistake.

/// One key of a mapping.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// Other spellings that are read the same way.
    pub(crate) aliases: &'static [&'static str],
    /// False: documented, refused by name until it has an effect.
    pub(crate) now: bool,
}

/// The keys of one kind of mapping.
#[derive(Debug)]
pub(crate) struct Keys {
    /// For "zones have: path, mode, …".
    pub(crate) plural: &'static str,
    pub(crate) list: &'static [Key],
    /// Spellings of other tools, and ours.
    pub(crate) foreign: &'static [(&'static str, &'static str)],
}

const fn now(name: &'static str) -> Key {
    Key {
        name,
        aliases: &[],
        now: true,
    }
}

const fn now_as(name: &'static str, aliases: &'static [&'static str]) -> Key {
    Key {
        name,
        aliases,
        now: true,
    }
}

const fn later(name: &'static str) -> Key {
    Key {
        name,
        aliases: &[],
        now: false,
    }
}

const TOOLS_HELP: &str =
    "forge spells it `tools:`. As written this worker would get every tool its grants allow.";
const TOOLS_ALLOW_HELP: &str = "forge lists what is allowed: `tools: [read_file, …]`";
const APPROVAL_HELP: &str = "forge spells it `approval:` with `require_user_permission` and `require_user_permission_by_risk`";
const RULES_HELP: &str =
    "forge spells it `shell.rules:` with `approval: preApproved`, `ask` or `blocked`";
const MODE_HELP: &str = "forge spells it `mode: ro` or `mode: rw`";

pub(crate) static PROJECT: Keys = Keys {
    plural: "project files",
    list: &[
        now("version"),
        now("name"),
        now("model"),
        now("entry"),
        now_as("worker_paths", &["workerPaths"]),
        now("sandbox"),
        now("network"),
        now("approval"),
        now("shell"),
        now("limits"),
        now("delegation"),
        later("instructions_files"),
        later("execution"),
        later("execution_mode"),
        later("docker"),
        later("kubernetes"),
        later("git"),
        later("log"),
        later("providers"),
        later("mcp"),
        later("permissions"),
        later("unix_sockets"),
        later("runs_dir"),
        later("knowledge_base"),
        later("require"),
        later("acp"),
    ],
    foreign: &[
        ("allowedTools", APPROVAL_HELP),
        ("allowed_tools", APPROVAL_HELP),
        ("allowed-tools", APPROVAL_HELP),
        ("disallowedTools", APPROVAL_HELP),
        ("disallowed_tools", APPROVAL_HELP),
        ("max_turns", "forge spells it `limits.max_turns`"),
        ("maxTurns", "forge spells it `limits.max_turns`"),
        ("maxDepth", "forge spells it `delegation.max_depth`"),
        ("max_depth", "forge spells it `delegation.max_depth`"),
        ("allow", RULES_HELP),
        ("deny", RULES_HELP),
        ("zones", "forge spells it `sandbox.zones`"),
        ("mode", "forge spells it `sandbox.mode`"),
        ("env", "forge spells it `shell.env`"),
    ],
};

pub(crate) static USER: Keys = Keys {
    plural: "user files",
    list: &[
        now("version"),
        now("model"),
        later("entry"),
        later("worker_paths"),
        later("sandbox"),
        later("network"),
        later("approval"),
        later("shell"),
        later("limits"),
        later("delegation"),
        later("execution"),
        later("docker"),
        later("git"),
        later("log"),
        later("providers"),
        later("mcp"),
    ],
    foreign: &[],
};

pub(crate) static SANDBOX: Keys = Keys {
    plural: "`sandbox` has",
    list: &[
        now("mode"),
        now("root"),
        now("zones"),
        now("default"),
        now("require_os_sandbox"),
        now("protect"),
        now("hide"),
        later("readonly"),
        later("paths"),
        later("mounts"),
        later("read_paths"),
        later("write_paths"),
        later("strict_paths"),
        later("unix_sockets"),
        later("hardlinks"),
        later("quota"),
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
        ("network", "forge spells it `network:`, at the top level"),
        ("allow", "name directories under `zones:`"),
        ("deny", "forge spells it `hide:` or `protect:`"),
        (
            "child_sandbox",
            "there is no such key: a child's rights follow from its own declaration",
        ),
    ],
};

pub(crate) static ZONE: Keys = Keys {
    plural: "zones have",
    list: &[
        now("path"),
        now("mode"),
        now("suffixes"),
        now("max_file_bytes"),
        now("approval"),
        later("quota"),
        later("hardlinks"),
        later("strict_paths"),
        later("unix_sockets"),
    ],
    foreign: &[
        ("readOnly", MODE_HELP),
        ("read_only", MODE_HELP),
        ("readonly", MODE_HELP),
        ("write", MODE_HELP),
        ("access", MODE_HELP),
        ("root", "zones spell it `path:`"),
        ("source", "zones spell it `path:`"),
        ("allow", "forge spells it `suffixes:` or `approval:`"),
        (
            "deny",
            "forge spells it `approval:` here, or `sandbox.hide:`",
        ),
    ],
};

pub(crate) static ZONE_APPROVAL: Keys = Keys {
    plural: "`approval` of a zone has",
    list: &[now("read"), now("write"), now("delete")],
    foreign: &[],
};

pub(crate) static APPROVAL: Keys = Keys {
    plural: "`approval` has",
    list: &[
        now("mode"),
        now("require_user_permission"),
        now("require_user_permission_by_risk"),
        later("timeout_s"),
    ],
    foreign: &[
        ("allow", RULES_HELP),
        ("deny", RULES_HELP),
        ("tools", "forge spells it `require_user_permission:`"),
    ],
};

pub(crate) static SHELL: Keys = Keys {
    plural: "`shell` has",
    list: &[
        now("rules"),
        now("default"),
        now("env"),
        later("allow"),
        later("deny"),
        later("unix_sockets"),
    ],
    foreign: &[
        ("allowed_commands", RULES_HELP),
        ("allowedCommands", RULES_HELP),
        ("blocked_commands", RULES_HELP),
    ],
};

pub(crate) static WORKER_SHELL: Keys = Keys {
    plural: "`shell` of a worker has",
    list: &[now("rules"), now("default"), later("allow"), later("deny")],
    foreign: &[(
        "env",
        "the environment is the project's: `shell.env` in the project file",
    )],
};

pub(crate) static RULE: Keys = Keys {
    plural: "rules have",
    list: &[
        now("pattern"),
        now("approval"),
        now("why"),
        now("examples"),
        later("grants"),
    ],
    foreign: &[
        ("command", "forge spells it `pattern:`"),
        ("allow", "forge spells it `approval: preApproved`"),
        ("deny", "forge spells it `approval: blocked`"),
        (
            "approval_required",
            "forge spells it `approval: ask` or `approval: preApproved`",
        ),
    ],
};

pub(crate) static NETWORK: Keys = Keys {
    plural: "`network` has",
    list: &[now("allow")],
    foreign: &[
        ("allowedDomains", "forge spells it `allow:`"),
        ("allowed_domains", "forge spells it `allow:`"),
        ("hosts", "forge spells it `allow:`"),
        ("deny", "forge lists whom commands may reach: `allow:`"),
        (
            "deniedDomains",
            "forge lists whom commands may reach: `allow:`",
        ),
        ("enabled", "write `network: true` or `network: false`"),
        ("mode", "write `network: true` or `network: false`"),
    ],
};

pub(crate) static EXAMPLES: Keys = Keys {
    plural: "`examples` have",
    list: &[now("match"), now("no_match")],
    foreign: &[],
};

pub(crate) static ENVIRONMENT: Keys = Keys {
    plural: "`env` has",
    list: &[now("pass"), now("set")],
    foreign: &[
        ("allow", "forge spells it `pass:`"),
        ("inherit", "forge spells it `pass:`"),
    ],
};

pub(crate) static LIMITS: Keys = Keys {
    plural: "`limits` has",
    list: &[
        now("timeout_s_default"),
        now("max_stdout_kb"),
        now("max_stderr_kb"),
        now("max_file_write_mb"),
        now("max_turns"),
        now("processes"),
        now("memory_mb"),
        now("max_tokens"),
        later("max_cost_usd"),
        now("max_wall_s"),
        now("max_working_s"),
        now("repeat_calls"),
    ],
    foreign: &[
        (
            "timeout",
            "forge spells it `timeout_s_default:`, in seconds",
        ),
        ("maxTurns", "forge spells it `max_turns:`"),
        ("max_processes", "forge spells it `processes:`"),
        ("memory", "forge spells it `memory_mb:`"),
    ],
};

pub(crate) static DELEGATION: Keys = Keys {
    plural: "`delegation` has",
    list: &[
        now_as("max_depth", &["maxDepth"]),
        now("max_children"),
        later("child_sandbox_policy"),
    ],
    foreign: &[],
};

pub(crate) static WORKER: Keys = Keys {
    plural: "worker files",
    list: &[
        now("name"),
        now("description"),
        now("model"),
        now("sandbox"),
        now("network"),
        now("shell"),
        now("tools"),
        now("workers"),
        now("limits"),
        now("instructions"),
        later("compatible_models"),
        later("toolsets"),
        later("attachment_policy"),
        later("input_schema"),
        later("output_schema"),
        later("output_schema_ref"),
        later("allow_empty_input"),
        later("license"),
        later("metadata"),
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
            "forge spells it `sandbox:`, `tools:` and `shell:`",
        ),
        ("max_turns", "forge spells it `limits.max_turns`"),
        ("maxTurns", "forge spells it `limits.max_turns`"),
        ("allow", RULES_HELP),
        ("deny", RULES_HELP),
        ("readOnly", "forge spells it `mode: ro` on a zone"),
        ("readonly", "forge spells it `mode: ro` on a zone"),
        ("zones", "forge spells it `sandbox.zones`"),
        (
            "child_sandbox",
            "there is no such key: a child's rights follow from its own declaration",
        ),
        ("agents", "forge spells it `workers:`"),
    ],
};

pub(crate) static WORKER_SANDBOX: Keys = Keys {
    plural: "`sandbox` of a worker has",
    list: &[
        now("zones"),
        later("restrict"),
        later("readonly"),
        later("rebase"),
    ],
    foreign: &[
        (
            "paths",
            "this project has zones. Name the ones this worker needs:\nsandbox:\n  zones:\n    - { name: cache, mode: rw }",
        ),
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
    plural: "zones of a worker have",
    list: &[
        now("name"),
        now("mode"),
        now("use"),
        now("approval"),
        now("suffixes"),
        now("max_file_bytes"),
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
        ("zone", "forge spells it `name:`"),
    ],
};

/// The documented spelling of a project key that has another one.
pub(crate) fn canonical(key: &str) -> &str {
    PROJECT
        .list
        .iter()
        .chain(DELEGATION.list)
        .find(|known| known.aliases.contains(&key))
        .map_or(key, |known| known.name)
}
