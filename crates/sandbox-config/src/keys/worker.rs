//! The front matter of worker files.

use crate::grant::attachments::ATTACHMENTS;
use crate::grant::limits::LIMITS;
use crate::grant::mount::Mode;
use crate::grant::verdict::Risk;
use crate::keys::git::WORKER_GIT;
use crate::keys::network::NETWORK_SHAPE;
use crate::keys::sandbox::{MOUNT, NAMED_PATH, ZONE, ZONE_APPROVAL};
use crate::keys::shell::WORKER_SHELL;
use crate::keys::{MODE_HELP, RULES_HELP};
use crate::syntax::key_table::key_table;
use crate::syntax::key_table::shape::ValueShape::*;
use crate::syntax::key_table::shape::{
    DELEGATE, KeyPattern, MOUNT_NAME, SANDBOX_PATH, SCHEMA_FILE, ValueShape, WORKER_NAME,
};
use crate::syntax::word::ConfigWord;

const TEXTS: ValueShape = List(&Text);

const SCHEMA: ValueShape = OneOf(&[Schema, Like(&SCHEMA_FILE)]);

const TOOLS_HELP: &str =
    "did you mean `tools:`? As written this worker would get every tool its grants allow.";
const TOOLS_ALLOW_HELP: &str = "forge lists what is allowed: `tools: [read_file, …]`";

key_table! {
    pub(crate) static WORKER = "worker", "worker files", blank;
    keys {
        /// Name of the worker, and of its tool when other workers call it. If left out: the name of
        /// the file without `.worker`.
        name: Like(&WORKER_NAME);
        /// Purpose of the worker. Other workers get it as the description of the tool that calls
        /// this one.
        description: Text;
        /// Model of the worker, as `provider:model`. If left out: the project's.
        model: Text;
        /// Directories that the worker needs: none, all of its caller's (`inherit`), or those in
        /// the section. If left out: `sandbox.default` of the project; for the entry worker,
        /// everything that the project gives.
        sandbox: OneOf(&[Words(&["none", "inherit"], &[]), Section(&WORKER_SANDBOX)]);
        /// Access of the worker's commands to other hosts, at most its caller's. An entry worker
        /// without `sandbox` gets the project's if it leaves this out.
        network: NETWORK_SHAPE, default("false");
        /// Permission to run commands, under the project's rules and these. If left out: no shell;
        /// an entry worker without `sandbox` has the project's.
        shell: Section(&WORKER_SHELL);
        /// Repositories of the worker. If left out: no git tools; an entry worker without `sandbox`
        /// has the project's repositories.
        git: Section(&WORKER_GIT);
        /// The only tools that the worker gets. If left out: all that its rights make possible and
        /// its caller's list permits.
        tools: TEXTS;
        /// Workers that it may call.
        workers: List(&Like(&DELEGATE)), default("[]");
        /// Calls that need a person's approval in addition to those that the project names. It
        /// cannot remove a question.
        approval: Section(&WORKER_APPROVAL);
        /// Limits on the worker's calls, commands and run. Of these and its caller's, the smaller
        /// one holds.
        limits: Section(&LIMITS);
        /// Instructions of the worker, if no text follows the front matter.
        instructions: Text;
        /// Patterns of the models on which the worker may start, such as `anthropic:*`. `*` matches
        /// any text, `?` one character. If left out: every model.
        compatible_models: TEXTS;
        /// Tools by family, in golem's spelling. forge reads it as `tools` and `workers`, with a
        /// warning.
        toolsets: Section(&TOOLSETS);
        /// Limits on the files that may be attached to the worker's input.
        attachment_policy: Section(&ATTACHMENTS);
        /// JSON Schema (draft 2020-12) of the worker's input, in place or as the path of a JSON
        /// file below the project. It describes an object; with `{}` the input is text.
        input_schema: SCHEMA, default("{}");
        /// JSON Schema (draft 2020-12) of the worker's answer, in place or as the path of a JSON
        /// file below the project. With `{}` the answer is any text.
        output_schema: SCHEMA, default("{}"), aliases(&["output_schema_ref"]);
        /// Allows other workers to call it with an empty input.
        allow_empty_input: Bool, default("false");
        /// Licence of the worker. It has no effect.
        license: Text;
        /// Data for other programs, in any form. It has no effect.
        metadata: Free;
    }
    foreign {
        "allowedTools" | "allowed_tools" | "allowed-tools" => TOOLS_HELP,
        "disallowedTools" | "disallowed_tools" | "disallowed-tools" => TOOLS_ALLOW_HELP,
        "permissions" => "use `sandbox:`, `tools:` and `shell:`",
        "max_turns" | "maxTurns" => "did you mean `limits.max_turns`?",
        "allow" | "deny" => RULES_HELP,
        "readOnly" => "use `mode: ro` on a zone",
        "readonly" => "use `mode: ro` on a zone, or `sandbox.readonly`",
        "restrict" => "did you mean `sandbox.restrict`?",
        "zones" => "did you mean `sandbox.zones`?",
        "child_sandbox" => "there is no such key: a child's rights follow from its own declaration",
        "agents" => "did you mean `workers:`?",
        "repositories" => "did you mean `git: { repositories: […] }`?",
    }
}

key_table! {
    pub(crate) static WORKER_SANDBOX = "worker_sandbox", "`sandbox` of a worker has";
    keys {
        /// Zones of the project that the worker needs.
        zones: List(&Section(&WORKER_ZONE));
        /// The only directory that the worker needs, as its caller sees it, such as `/src`. For
        /// projects without zones.
        restrict: Like(&SANDBOX_PATH);
        /// Access of the worker: `true` to read only, `false` to insist on writing, which is a
        /// mistake if its caller cannot write. If left out: its caller's access.
        readonly: Bool;
        /// Makes the directory of `restrict` the root `/` of the worker and of the workers that it
        /// calls.
        rebase: Bool, default("false");
        /// Old form of `sandbox`. In a project with one root it is read with a warning; elsewhere
        /// it is an error that prints the new form.
        paths: Map(KeyPattern::Like(&MOUNT_NAME), &Section(&NAMED_PATH));
        /// Old form of `sandbox`, read like `paths`.
        mounts: List(&Section(&MOUNT));
        /// `false`: the worker's own tools and commands cannot use the directories; it only passes
        /// them on to workers that it calls.
        use: Bool, default("true");
        /// Verdicts about operations on the files of the worker, in projects without zones. They
        /// are at least as strict as its caller's; an operation that is left out keeps its
        /// caller's.
        approval: Section(&ZONE_APPROVAL), default("{}");
        /// Local sockets of the host that the worker's commands may connect to: none (`closed`),
        /// its caller's (`inherit`), or some of its caller's by path.
        unix_sockets: OneOf(&[Words(&["closed", "inherit"], &[]), List(&Text)]), default("closed");
    }
    foreign {
        "root" => "the root belongs to the project file",
        "mode" => "a mode belongs to each zone: `zones: [{ name: data, mode: ro }]`",
        "child_sandbox" => "there is no such key: a child's rights follow from its own declaration",
    }
}

key_table! {
    pub(crate) static WORKER_ZONE = "worker_zone", "zones of a worker have";
    keys {
        /// Name of a zone of the project.
        name: Text, required("name a zone of the project");
        /// Access that the worker needs: `ro` to read, `rw` to read and write. More than its caller
        /// has is a mistake.
        mode: Mode::SHAPE, default("rw");
        /// `false`: the worker's own tools and commands cannot use the zone; it only passes it on
        /// to workers that it calls.
        use: Bool, default("true");
        /// Verdicts about operations on the files of the zone. They cannot loosen a verdict that
        /// the project or a caller sets; an operation that is left out keeps its caller's.
        approval: Section(&ZONE_APPROVAL);
        suffixes of ZONE;
        max_file_bytes of ZONE;
    }
    foreign {
        "readOnly" | "read_only" | "readonly" | "write" | "access" => MODE_HELP,
        "path" => "the path belongs to the project file; a worker names the zone",
        "zone" => "did you mean `name:`?",
    }
}

key_table! {
    pub(crate) static TOOLSETS = "toolsets", "`toolsets` has", blank;
    keys {
        /// File tools.
        filesystem: Section(&NO_OPTIONS);
        /// The `shell` tool.
        shell: Section(&NO_OPTIONS);
        /// Tools that call workers.
        workers: Section(&WORKER_TOOLSET);
    }
}

key_table! {
    pub(crate) static NO_OPTIONS = "no_options", "no keys are read here", blank;
    keys {}
}

key_table! {
    pub(crate) static WORKER_TOOLSET = "worker_toolset", "`toolsets.workers` has", blank;
    keys {
        /// Workers that it may call.
        allowed_workers: List(&Like(&DELEGATE)), default("[]");
    }
}

key_table! {
    pub(crate) static WORKER_APPROVAL = "worker_approval", "`approval` of a worker has", blank;
    keys {
        /// Treatment of the calls that need approval. `tool`: the project's mode. `manual`: a
        /// person is asked about everything that is not read-only. `deny`: no.
        mode: Words(&["tool", "manual", "deny"], &[]), default("tool");
        /// Tools, and workers to call, that a person is asked about (`true` or `ask`) or that are
        /// `blocked`, by name.
        require_user_permission: Map(KeyPattern::Any, &MORE), default("{}");
        /// Risks that a person is asked about (`true` or `ask`) or that are `blocked`.
        require_user_permission_by_risk: Map(KeyPattern::Words(Risk::NAMES), &MORE), default("{}");
    }
    foreign {
        "allow" | "deny" => RULES_HELP,
        "tools" => "did you mean `require_user_permission:`?",
        "timeout_s" => "how long a question waits is the project's: `approval.timeout_s` in the project file",
    }
}

const MORE: ValueShape = OneOf(&[True, Words(&["ask", "blocked"], &[])]);
