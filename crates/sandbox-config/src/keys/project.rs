//! The project file and the person's own file, at their top, and the sections without mounts and
//! commands.

use crate::grant::docker::DOCKER;
use crate::grant::execution::ExecutionMode;
use crate::grant::limits::LIMITS;
use crate::grant::verdict::Verdict;
use crate::keys::git::{GIT, USER_GIT};
use crate::keys::network::NETWORK_SHAPE;
use crate::keys::provider::{PROVIDERS, USER_PROVIDERS};
use crate::keys::runtime::{EXECUTION, LOG};
use crate::keys::sandbox::{SANDBOX, SOCKETS_HELP};
use crate::keys::shell::SHELL;
use crate::keys::{APPROVAL_HELP, DIRECTORIES, RULES_HELP};
use crate::syntax::key_table::shape::ValueShape::*;
use crate::syntax::key_table::shape::{BELOW_PROJECT, KeyPattern, LINE, ValueShape, WORKER_NAME};
use crate::syntax::key_table::{MeetRule, UserKeyRole, key_table};
use crate::syntax::word::ConfigWord;

const TEXTS: ValueShape = List(&Text);

const PATHS: ValueShape = List(&Like(&BELOW_PROJECT));

key_table! {
    pub(crate) static PROJECT = "project", "project files", blank;
    keys {
        /// The version of this format; another one is refused.
        version: Exactly(1), default("1"), user(UserKeyRole::Own);
        /// The project's name; without it, the directory's.
        name: Like(&LINE), last_layer_wins, project_only("it names one project");
        /// The model that workers run on, as `provider:model`, unless they name their own.
        model: Like(&LINE), last_layer_wins;
        /// The worker that `forge run` starts.
        entry: Like(&WORKER_NAME), default("main"), last_layer_wins;
        /// Directories below the project in which `*.worker` files are looked for, in this order.
        worker_paths: PATHS, default("[workers, .workers]"), last_layer_wins,
            aliases(&["workerPaths"]);
        /// What of the host's files may be touched at most.
        sandbox: Section(&SANDBOX);
        /// Whether commands may reach other hosts, and which. Where they have a network namespace
        /// they always reach what they started themselves, on 127.0.0.1 and ::1.
        network: NETWORK_SHAPE, default("false"), trust("when it is not `false`"),
            user_limit(MeetRule::Network);
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
        execution_mode: ExecutionMode::SHAPE, project_only("write `execution: { mode: … }`");
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
        providers: PROVIDERS, last_layer_wins, trust("always"), user_owns_each;
        /// MCP servers whose tools are offered.
        mcp: Free, reserved;
        /// Where run directories are made, outside every mount; without it, in the state directory.
        runs_dir: Text, last_layer_wins, trust("when it leaves the project");
        /// A directory that is mounted read-only at `/kb`; workers name it like any other mount,
        /// `kb`.
        knowledge_base: Text, trust("when it leaves the project"), project_only(DIRECTORIES);
        /// `guards`: what is otherwise listed as a gap (protected names, limits of a tree) refuses
        /// the command, and protected names that are absent cannot be made while it runs.
        require: Words(&["boundaries", "guards"], &[]), default("boundaries"),
            stricter(&["boundaries", "guards"]);
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

// Below the top a user file has the keys of projects whose rows give them a role there.
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
const CONSENT: ValueShape = OneOf(&[Bool, Verdict::SHAPE]);

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
            default("tool"), trust("when it is `auto`"), user_limit(MeetRule::Mode);
        /// By tool, or by worker for calls of it: whether a person is asked. `true` is `ask`,
        /// `false` is `preApproved`.
        require_user_permission: ASKS, default("{}"),
            trust("when a tool or worker is `false` or `preApproved`"),
            user_limits_each(MeetRule::Consent);
        /// By risk: whether a person is asked. Calling a worker is of risk `exec`; without a rule
        /// the caller's `workers` decides.
        require_user_permission_by_risk: Map(KeyPattern::Words(&RISKS), &CONSENT),
            default("{ writes_fs: true, network: true, exec: true }"),
            trust("when a hazardous risk is `false` or `preApproved`"),
            user_limits_each(MeetRule::Consent);
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

key_table! {
    pub(crate) static DELEGATION = "delegation", "`delegation` has", blank;
    keys {
        /// How deep workers may call workers; the entry worker is at depth 1.
        max_depth: Count, default("5"), aliases(&["maxDepth"]);
        /// How many calls of other workers one worker may make.
        max_children: Count, default("16");
        /// `intersect`: a called worker gets what it declares and its caller holds. `own`, for
        /// projects with `paths`: what it declares and the project allows.
        child_sandbox_policy: Words(&["own", "intersect"], &[]), default("intersect"),
            stricter(&["own", "intersect"]);
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
