//! The project file and the person's own file, at their top, and the sections without mounts and
//! commands.

use crate::keys::git::{GIT, USER_GIT};
use crate::keys::network::NETWORK_SHAPE;
use crate::keys::provider::{PROVIDERS, USER_PROVIDERS};
use crate::keys::runtime::{DOCKER, EXECUTION, EXECUTION_MODE, LOG};
use crate::keys::sandbox::{SANDBOX, SOCKETS_HELP};
use crate::keys::shell::SHELL;
use crate::keys::{APPROVAL_HELP, RULES_HELP};
use crate::syntax::key_table::key_table;
use crate::syntax::key_table::shape::ValueShape::*;
use crate::syntax::key_table::shape::{BELOW_PROJECT, KeyPattern, LINE, ValueShape, WORKER_NAME};

const TEXTS: ValueShape = List(&Text);

const DIRECTORIES: ValueShape = List(&Like(&BELOW_PROJECT));

key_table! {
    pub(crate) static PROJECT = "project", "project files", blank;
    keys {
        /// The version of this format; another one is refused.
        version: Exactly(1), default("1");
        /// The project's name; without it, the directory's.
        name: Like(&LINE), last_layer_wins;
        /// The model that workers run on, as `provider:model`, unless they name their own.
        model: Like(&LINE), last_layer_wins;
        /// The worker that `forge run` starts.
        entry: Like(&WORKER_NAME), default("main"), last_layer_wins;
        /// Directories below the project in which `*.worker` files are looked for, in this order.
        worker_paths: DIRECTORIES, default("[workers, .workers]"), last_layer_wins,
            aliases(&["workerPaths"]);
        /// What of the host's files may be touched at most.
        sandbox: Section(&SANDBOX);
        /// Whether commands may reach other hosts, and which. Where they have a network namespace
        /// they always reach what they started themselves, on 127.0.0.1 and ::1.
        network: NETWORK_SHAPE, default("false"), trust("when it is not `false`");
        /// Which calls a person is asked about.
        approval: Section(&APPROVAL), aliases(&["permissions"]);
        /// Which commands may run, and in what environment; without it there is no shell.
        shell: Section(&SHELL);
        /// Numbers that end calls, commands and runs.
        limits: Section(&LIMITS);
        /// How workers may call workers.
        delegation: Section(&DELEGATION);
        /// Files whose text every worker's instructions begin with.
        instructions_files: TEXTS, reserved, last_layer_wins;
        /// Where calls run: on this host, or in a container.
        execution: Section(&EXECUTION);
        /// Another spelling of `execution.mode`.
        execution_mode: EXECUTION_MODE;
        /// How containers are started.
        docker: Section(&DOCKER);
        /// How pods are started.
        kubernetes: Free, reserved;
        /// What commands may do to repositories, which ones workers pull from and stage for, and how.
        git: Section(&GIT);
        /// What is kept of a run.
        log: Section(&LOG);
        /// Model providers by name, beside `anthropic`, `openai` and `ollama`, which forge knows;
        /// one that your own file names is yours alone.
        providers: PROVIDERS, last_layer_wins, trust("always");
        /// MCP servers whose tools are offered.
        mcp: Free, reserved;
        /// Where run directories are made, outside every mount; without it, in the state directory.
        runs_dir: Text, last_layer_wins, trust("when it leaves the project");
        /// A directory that is mounted read-only at `/kb`; workers name it like any other mount,
        /// `kb`.
        knowledge_base: Text, trust("when it leaves the project");
        /// `guards`: what is otherwise listed as a gap (protected names, limits of a tree) refuses
        /// the command, and protected names that are absent cannot be made while it runs.
        require: Words(&["boundaries", "guards"], &[]), default("boundaries");
        /// The Agent Client Protocol.
        acp: Free, reserved;
    }
    foreign {
        "allowedTools" | "allowed_tools" | "allowed-tools" | "disallowedTools" | "disallowed_tools"
            => APPROVAL_HELP,
        "max_turns" | "maxTurns" => "did you mean `limits.max_turns`?",
        "maxDepth" | "max_depth" => "did you mean `delegation.max_depth`?",
        "allow" | "deny" => RULES_HELP,
        "zones" => "did you mean `sandbox.zones`?",
        "mode" => "did you mean `sandbox.mode`?",
        "env" => "did you mean `shell.env`?",
        "unix_sockets" => SOCKETS_HELP,
        "survivors" => "did you mean `sandbox.survivors`?",
    }
    example "\
version: 1
name: reports
model: anthropic:claude-haiku-4-5
entry: main
worker_paths: [workers]
sandbox:
  zones:
    data: { path: ./data, mode: ro }
network: false
approval: { mode: tool }
shell:
  rules:
    - { pattern: \"grep *\", approval: ask }
limits: { max_turns: 20 }
delegation: { max_depth: 2 }
execution: { mode: prefer_local }
docker: { enabled: false }
git: { mode: read_only }
require: boundaries
providers: { ollama: { context_tokens: 32000 } }
";
    example "\
execution_mode: local_only
runs_dir: ./runs
knowledge_base: ./docs
log: { transcripts: true }
";
}

// Below the top a user file has the keys of `loading/user_limits.rs`.
key_table! {
    pub(crate) static USER = "user", "user files", blank;
    keys {
        version of PROJECT;
        model of PROJECT;
        entry of PROJECT;
        worker_paths of PROJECT;
        sandbox of PROJECT;
        network of PROJECT;
        approval of PROJECT;
        shell of PROJECT;
        limits of PROJECT;
        delegation of PROJECT;
        execution of PROJECT;
        docker of PROJECT;
        git of PROJECT, shape(Section(&USER_GIT));
        require of PROJECT;
        log of PROJECT;
        providers of PROJECT, shape(USER_PROVIDERS), trust("");
        mcp of PROJECT;
    }
    example "\
version: 1
model: anthropic:claude-haiku-4-5
network: false
approval: { require_user_permission_by_risk: { exec: true } }
shell: { rules: [{ pattern: \"sudo *\", approval: blocked }] }
limits: { max_turns: 100 }
sandbox: { hide: [\"*.key\"] }
";
}

const ASKS: ValueShape = Map(KeyPattern::Any, &CONSENT);

/// Whether a person is asked, or a verdict.
const CONSENT: ValueShape = OneOf(&[Bool, Words(&["preApproved", "ask", "blocked"], &[])]);

key_table! {
    pub(crate) static APPROVAL = "approval", "`approval` has", blank;
    keys {
        /// `tool`: rules, zones and risks decide. `manual`: everything that is not read-only is
        /// asked. `auto`: every question is answered with yes, a block stays a block. `deny`: every
        /// question is answered with no.
        mode: Words(
                &["tool", "manual", "auto", "deny"],
                &["interactive", "approve_all", "auto_deny", "reject_all"],
            ),
            default("tool"), trust("when it is `auto`");
        /// By tool, or by worker for calls of it: whether a person is asked. `true` is `ask`,
        /// `false` is `preApproved`.
        require_user_permission: ASKS, default("{}"),
            trust("when a tool or worker is `false` or `preApproved`");
        /// By risk: whether a person is asked. Calling a worker is of risk `exec`; without a rule
        /// the caller's `workers` decides.
        require_user_permission_by_risk: Map(KeyPattern::Words(&RISKS), &CONSENT),
            default("{ writes_fs: true, network: true, exec: true }"),
            trust("when a hazardous risk is `false` or `preApproved`");
        /// Seconds after which an unanswered question counts as no.
        timeout_s: Count, default("300");
    }
    foreign {
        "allow" | "deny" => RULES_HELP,
        "tools" => "did you mean `require_user_permission:`?",
    }
    example "\
approval:
  mode: tool
  timeout_s: 120
  require_user_permission: { delete_file: true }
  require_user_permission_by_risk: { writes_workspace: true, exec: true }
";
}

pub(crate) const RISKS: [&str; 5] = [
    "read_only",
    "writes_workspace",
    "writes_fs",
    "network",
    "exec",
];

/// `null`: no limit.
const COUNT_OR_NONE: ValueShape = OneOf(&[Count, Null]);

key_table! {
    pub(crate) static LIMITS = "limits", "`limits` has", blank;
    keys {
        /// Seconds that a call may take when it names no time of its own.
        timeout_s_default: Count, default("30");
        /// Seconds that a call may ask for, at most; more where `timeout_s_default` is more.
        timeout_s_max: Count, default("300");
        /// KiB kept of a command's standard output.
        max_stdout_kb: Count, default("256");
        /// KiB kept of a command's standard error.
        max_stderr_kb: Count, default("64");
        /// MiB that a file may have after a call wrote, appended, edited, copied, moved or pulled
        /// it.
        max_file_write_mb: Count, default("10");
        /// Turns that a worker may take.
        max_turns: Count, default("50");
        /// Processes that a command may have at one time.
        processes: Count, default("2048");
        /// MiB of memory that a command and what it starts may use.
        memory_mb: Count, default("16384");
        /// Tokens that a worker and everybody it calls may use; `null`: no limit.
        max_tokens: COUNT_OR_NONE, default("500000");
        /// Tool calls that a worker and everybody it calls may make.
        max_tool_calls: Count, default("20000");
        /// US dollars that a worker and everybody it calls may cost; every model needs `prices`
        /// then; `null`: no limit.
        max_cost_usd: OneOf(&[Number, Null]);
        /// Seconds that a run may take, and one call of an MCP client; `null`: no limit.
        max_wall_s: COUNT_OR_NONE, default("1800");
        /// Seconds that a run may take, without waiting for answers and retries; `null`: no limit.
        max_working_s: COUNT_OR_NONE;
        /// Identical calls with identical results before the model is told; twice as many end the
        /// run; `null`: no limit.
        repeat_calls: COUNT_OR_NONE, default("3");
    }
    foreign {
        "timeout" => "use `timeout_s_default:`, in seconds",
        "max_timeout" => "use `timeout_s_max:`, in seconds",
        "maxTurns" => "did you mean `max_turns:`?",
        "max_calls" => "did you mean `max_tool_calls:`?",
        "max_cost" | "max_budget_usd" => "did you mean `max_cost_usd:`?",
        "context_tokens" => "how much fits is the model's: `providers.NAME.context_tokens`",
        "max_processes" => "did you mean `processes:`?",
        "memory" => "did you mean `memory_mb:`?",
    }
    example "\
limits:
  timeout_s_default: 60
  timeout_s_max: 600
  max_stdout_kb: 256
  max_stderr_kb: 64
  max_file_write_mb: 10
  max_turns: 20
  max_tokens: 200000
  max_tool_calls: 500
  max_cost_usd: 2.50
  max_wall_s: 900
  max_working_s: 600
  repeat_calls: 3
  processes: 64
  memory_mb: 1024
";
}

key_table! {
    pub(crate) static DELEGATION = "delegation", "`delegation` has", blank;
    keys {
        /// How deep workers may call workers; the entry worker is at depth 1.
        max_depth: Count, default("5"), aliases(&["maxDepth"]);
        /// How many calls of other workers one worker may make.
        max_children: Count, default("16");
        /// `intersect`: a called worker gets what it declares and its caller holds. `own`, for
        /// projects with `paths`: what it declares and the project allows.
        child_sandbox_policy: Words(&["own", "intersect"], &[]), default("intersect");
    }
    example "\
delegation: { max_depth: 3, max_children: 8 }
";
    example "\
sandbox:
  paths:
    notes: { root: ./notes, mode: rw }
delegation: { child_sandbox_policy: own }
";
}
