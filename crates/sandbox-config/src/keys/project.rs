//! The project file and the person's own file, at their top, and the sections without mounts and
//! commands.

use crate::grant::docker::DOCKER;
use crate::grant::execution::ExecutionMode;
use crate::grant::limits::LIMITS;
use crate::grant::verdict::{Risk, Verdict};
use crate::keys::git::{GIT, USER_GIT};
use crate::keys::network::NETWORK_SHAPE;
use crate::keys::provider::{PROVIDERS, USER_PROVIDERS};
use crate::keys::runtime::{EXECUTION, LOG};
use crate::keys::sandbox::{SANDBOX, SOCKETS_HELP};
use crate::keys::shell::SHELL;
use crate::keys::{APPROVAL_HELP, DIRECTORIES, RULES_AND_HOSTS_HELP, RULES_HELP};
use crate::syntax::key_table::shape::ValueShape::*;
use crate::syntax::key_table::shape::{BELOW_PROJECT, KeyPattern, LINE, ValueShape, WORKER_NAME};
use crate::syntax::key_table::{MeetRule, UserKeyRole, key_table};
use crate::syntax::word::ConfigWord;

const TEXTS: ValueShape = List(&Text);

const PATHS: ValueShape = List(&Like(&BELOW_PROJECT));

key_table! {
    pub(crate) static PROJECT = "project", "project files", blank;
    keys {
        /// Version of this file format. forge refuses any other.
        version: Exactly(1), default("1"), user(UserKeyRole::Own);
        /// Name of the project. If left out: the name of its directory.
        name: Like(&LINE), last_layer_wins, project_only("it names one project");
        /// Model of the workers that name none, as `provider:model`. `--model` and `FORGE_MODEL`
        /// replace it for one run.
        model: Like(&LINE), last_layer_wins;
        /// Worker that `forge run` starts if the command line names none.
        entry: Like(&WORKER_NAME), default("main"), last_layer_wins;
        /// Directories below the project that contain `*.worker` files, without their
        /// subdirectories. `forge worker new` writes into the first.
        worker_paths: PATHS, default("[workers, .workers]"), last_layer_wins,
            aliases(&["workerPaths"]);
        /// Directories that workers and commands can use, and the rules that hold in all of them.
        sandbox: Section(&SANDBOX);
        /// Access of commands to other hosts: all (`true`), none (`false`), or only those in
        /// `allow`, which takes namespaces or Landlock. In a network namespace of its own, a command
        /// always reaches the servers that it started itself, on 127.0.0.1 and ::1.
        network: NETWORK_SHAPE, default("false"), trust("when it is not `false`"),
            user_limit(MeetRule::Network);
        /// Calls that need a person's approval.
        approval: Section(&APPROVAL), aliases(&["permissions"]);
        /// Commands that may run, and their environment. Workers have a shell only if the section
        /// has `rules`, `default` or `allow`.
        shell: Section(&SHELL);
        /// Limits on the time, output and resources of calls, commands and runs.
        limits: Section(&LIMITS);
        /// Limits on workers that call workers.
        delegation: Section(&DELEGATION);
        /// Files whose text is put before the instructions of every worker.
        instructions_files: TEXTS, reserved, last_layer_wins;
        /// Place where calls run: on this host, or in a container.
        execution: Section(&EXECUTION);
        /// Another spelling of `execution.mode`.
        execution_mode: ExecutionMode::SHAPE, project_only("write `execution: { mode: … }`");
        /// Properties of containers.
        docker: Section(&DOCKER);
        /// Properties of pods.
        kubernetes: Free, reserved;
        /// Changes that commands may make to git repositories, repositories that workers pull from
        /// and stage commits for, and forge's credentials for their servers.
        git: Section(&GIT);
        /// Contents and directory of the records of runs.
        log: Section(&LOG);
        /// Model providers by name, in addition to `anthropic`, `openai` and `ollama`, which are
        /// built in. A provider in your own file replaces the project's provider of that name.
        providers: PROVIDERS, last_layer_wins, trust("always"), user_owns_each;
        /// MCP servers whose tools workers can use.
        mcp: Free, reserved;
        /// Directory in which each run gets a directory, relative to the project and outside every
        /// mount. If left out: `runs` in forge's state directory.
        runs_dir: Text, last_layer_wins, trust("when it leaves the project");
        /// Directory that workers see read-only at `/kb`, relative to the project. A worker
        /// declares it by the name `kb`, like any other mount.
        knowledge_base: Text, trust("when it leaves the project or has a variable in it"), project_only(DIRECTORIES);
        /// Promises that the host has to enforce in full, or a confined command is refused.
        /// `boundaries`: those about files outside the mounts, network, sockets and processes.
        /// `guards`: also those about protected names and the limits of a process tree, which are
        /// otherwise listed as gaps. With `guards`, commands need an OS sandbox, and cannot create
        /// absent protected names in the directories that are there when they start; those in a
        /// new directory, or by a pattern, are moved away after the end, as they are without it.
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
        "allow" | "deny" => RULES_AND_HOSTS_HELP,
        "hide" => "did you mean `sandbox.hide`?",
        "protect" => "did you mean `sandbox.protect`?",
        "zones" => "did you mean `sandbox.zones`?",
        "mode" => "did you mean `sandbox.mode`?",
        "env" => "did you mean `shell.env`?",
        "unix_sockets" => SOCKETS_HELP,
        "survivors" => "did you mean `sandbox.survivors`?",
    }
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
}

const ASKS: ValueShape = Map(KeyPattern::Any, &CONSENT);

/// Whether a person is asked, or a verdict.
const CONSENT: ValueShape = OneOf(&[Bool, Verdict::SHAPE]);

key_table! {
    pub(crate) static APPROVAL = "approval", "`approval` has", blank;
    keys {
        /// Treatment of the calls that need approval. `tool`: a person is asked. `manual`: a person
        /// is asked about everything that is not read-only. `auto`: yes, except where only a person
        /// can answer; a block stays a block. `deny`: no.
        mode: Words(
                &["tool", "manual", "auto", "deny"],
                &["interactive", "approve_all", "auto_deny", "reject_all"],
            ),
            default("tool"), trust("when it is `auto`"), user_limit(MeetRule::Mode);
        /// Verdicts about single tools and about calls of single workers, by name. `true` is `ask`,
        /// `false` is `preApproved`.
        require_user_permission: ASKS, default("{}"),
            trust("when a tool or worker is `false` or `preApproved`"),
            user_limits_each(MeetRule::Consent);
        /// Verdicts about all tools of a risk. Calling a worker has the risk `exec`; without a
        /// rule, the caller's `workers` list decides about it.
        require_user_permission_by_risk: Map(KeyPattern::Words(Risk::NAMES), &CONSENT),
            default("{ writes_fs: true, network: true, exec: true }"),
            trust("when a hazardous risk is `false` or `preApproved`"),
            user_limits_each(MeetRule::Consent);
        /// Seconds after which a question without an answer counts as no.
        timeout_s: Count, default("300");
    }
    foreign {
        "allow" | "deny" => RULES_HELP,
        "tools" => "did you mean `require_user_permission:`?",
    }
}

key_table! {
    pub(crate) static DELEGATION = "delegation", "`delegation` has", blank;
    keys {
        /// Largest depth to which workers may call workers. The entry worker is at depth 1.
        max_depth: Count, default("5"), aliases(&["maxDepth"]);
        /// Number of workers that one run of a worker may start, one after another or side by side.
        max_children: Count, default("16");
        /// Directories of a called worker: those that it declares and its caller holds
        /// (`intersect`), or those that it declares and the project has (`own`, only in projects
        /// with `sandbox.paths`).
        child_sandbox_policy: Words(&["own", "intersect"], &[]), default("intersect"),
            stricter(&["own", "intersect"]);
    }
}
