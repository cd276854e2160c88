//! The front matter of worker files.

use crate::grant::attachments::ATTACHMENTS;
use crate::grant::limits::LIMITS;
use crate::grant::mount::Mode;
use crate::keys::git::WORKER_GIT;
use crate::keys::network::NETWORK_SHAPE;
use crate::keys::project::RISKS;
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
        /// The worker's name, and that of its tool when others call it; without it, the file's.
        name: Like(&WORKER_NAME);
        /// What it is for; the description of its tool when others call it.
        description: Text;
        /// The model it runs on, as `provider:model`; without it, the project's.
        model: Text;
        /// What it needs of the project's files; without it, `sandbox.default` of the project.
        sandbox: OneOf(&[Words(&["none", "inherit"], &[]), Section(&WORKER_SANDBOX)]);
        /// Whether its commands may reach other hosts; at most what its caller may.
        network: NETWORK_SHAPE, default("false");
        /// That it may run commands, by the project's rules and these; without it there is no
        /// shell.
        shell: Section(&WORKER_SHELL);
        /// The repositories it works with; without it there are no git tools.
        git: Section(&WORKER_GIT);
        /// The only tools it gets; without it, all that its rights make possible.
        tools: TEXTS;
        /// The workers it may call.
        workers: List(&Like(&DELEGATE)), default("[]");
        /// What is asked of a person beyond what the project asks; nothing is asked less.
        approval: Section(&WORKER_APPROVAL);
        /// Numbers that end its calls, commands and run; the smaller one holds.
        limits: Section(&LIMITS);
        /// Its instructions, if nothing stands below the front matter.
        instructions: Text;
        /// Patterns of models it runs on (`*`: anything, `?`: one character); on another it is not
        /// started.
        compatible_models: TEXTS;
        /// Tools by family, as golem spells it; read as `tools` and `workers`, with a note.
        toolsets: Section(&TOOLSETS);
        /// What may be attached to its input.
        attachment_policy: Section(&ATTACHMENTS);
        /// JSON Schema (draft 2020-12) of what it is called with, or a file of the project that
        /// holds it; `{}`: a text.
        input_schema: SCHEMA, default("{}");
        /// JSON Schema (draft 2020-12) of its answer, or a file of the project that holds it; `{}`:
        /// any text.
        output_schema: SCHEMA, default("{}"), aliases(&["output_schema_ref"]);
        /// Whether others may call it with nothing to do.
        allow_empty_input: Bool, default("false");
        /// A licence, carried along.
        license: Text;
        /// Anything, carried along.
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
    example "\
---
name: formatter
description: Formats data files
model: anthropic:claude-haiku-4-5
sandbox: none
network: false
shell:
  rules: [{ pattern: \"grep *\", approval: ask }]
git: { repositories: [octo/reports] }
tools: [read_file, list_files]
workers: [validator]
limits: { max_turns: 10 }
instructions: Format what you are given.
---
";
    example "\
---
compatible_models: [\"anthropic:*\"]
input_schema: { type: object, properties: { path: { type: string } }, required: [path] }
output_schema: { type: object, properties: { ok: { type: boolean } }, required: [ok] }
attachment_policy: { max_attachments: 2 }
allow_empty_input: true
license: MIT
metadata: { author: me }
toolsets: { filesystem: {}, shell: {}, workers: { allowed_workers: [validator] } }
---
Work.
";
}

key_table! {
    pub(crate) static WORKER_SANDBOX = "worker_sandbox", "`sandbox` of a worker has";
    keys {
        /// The zones it needs.
        zones: List(&Section(&WORKER_ZONE));
        /// The only directory it needs, as its caller sees it; for projects without zones.
        restrict: Like(&SANDBOX_PATH);
        /// `true`: it only reads. `false`: it must be able to write.
        readonly: Bool;
        /// Whether `restrict` becomes `/`, for it and for whom it calls.
        rebase: Bool, default("false");
        /// Old form. Read with a warning where the project has one root; elsewhere an error that
        /// prints the new form.
        paths: Map(KeyPattern::Like(&MOUNT_NAME), &Section(&NAMED_PATH));
        /// Old form, as `paths`.
        mounts: List(&Section(&MOUNT));
        /// `false`: held to be passed on; its own tools cannot touch it.
        use: Bool, default("true");
        /// What is asked of a person, or blocked, in all of it; never less than its caller is
        /// asked. For projects without zones, where each zone says it.
        approval: Section(&ZONE_APPROVAL), default("{}");
        /// Local sockets that its commands may connect to; at most what its caller has.
        unix_sockets: OneOf(&[Words(&["closed", "inherit"], &[]), List(&Text)]), default("closed");
    }
    foreign {
        "root" => "the root belongs to the project file",
        "mode" => "a mode belongs to each zone: `zones: [{ name: data, mode: ro }]`",
        "child_sandbox" => "there is no such key: a child's rights follow from its own declaration",
    }
    example "\
---
sandbox:
  zones:
    - { name: workspace, mode: ro }
  unix_sockets: closed
---
Read everything; write nothing.
";
    example "\
---
sandbox: { restrict: /src, readonly: true, rebase: false, use: true, approval: { read: ask } }
---
Say what is wrong with the sources.
";
}

key_table! {
    pub(crate) static WORKER_ZONE = "worker_zone", "zones of a worker have";
    keys {
        /// A zone of the project.
        name: Text, required;
        /// `ro`: read only. `rw`: read and write.
        mode: Mode::SHAPE, default("rw");
        /// `false`: held only to be passed on; its own tools cannot touch it.
        use: Bool, default("true");
        approval of ZONE;
        suffixes of ZONE;
        max_file_bytes of ZONE;
    }
    foreign {
        "readOnly" | "read_only" | "readonly" | "write" | "access" => MODE_HELP,
        "path" => "the path belongs to the project file; a worker names the zone",
        "zone" => "did you mean `name:`?",
    }
    example "\
---
sandbox:
  zones:
    - { name: data, mode: ro, suffixes: [.csv], max_file_bytes: 1000000 }
    - { name: workspace, use: false, approval: { delete: blocked } }
---
Hand each file of data to a worker that writes.
";
}

key_table! {
    pub(crate) static TOOLSETS = "toolsets", "`toolsets` has", blank;
    keys {
        /// The tools for files.
        filesystem: Section(&NO_OPTIONS);
        /// The tool for commands.
        shell: Section(&NO_OPTIONS);
        /// The tools that call workers.
        workers: Section(&WORKER_TOOLSET);
    }
    example "\
---
toolsets:
  filesystem: {}
  shell: {}
  workers: {}
---
Work.
";
}

key_table! {
    pub(crate) static NO_OPTIONS = "no_options", "no keys are read here", blank;
    keys {}
}

key_table! {
    pub(crate) static WORKER_TOOLSET = "worker_toolset", "`toolsets.workers` has", blank;
    keys {
        /// The workers it may call.
        allowed_workers: List(&Like(&DELEGATE)), default("[]");
    }
    example "\
---
toolsets:
  workers:
    allowed_workers: [validator]
---
Work.
";
}

key_table! {
    pub(crate) static WORKER_APPROVAL = "worker_approval", "`approval` of a worker has", blank;
    keys {
        /// `manual`: everything that is not read-only is asked. `deny`: every question is answered
        /// with no. `tool`: as the project has it.
        mode: Words(&["tool", "manual", "deny"], &[]), default("tool");
        /// The tools, and workers to call, that a person is asked about, or that are blocked.
        require_user_permission: Map(KeyPattern::Any, &MORE), default("{}");
        /// The risks that a person is asked about, or that are blocked.
        require_user_permission_by_risk: Map(KeyPattern::Words(&RISKS), &MORE), default("{}");
    }
    foreign {
        "allow" | "deny" => RULES_HELP,
        "tools" => "did you mean `require_user_permission:`?",
        "timeout_s" => "how long a question waits is the project's: `approval.timeout_s` in the project file",
    }
    example "\
---
approval:
  mode: manual
  require_user_permission: { shell: true }
  require_user_permission_by_risk: { read_only: true }
---
Ask before you look at anything.
";
}

const MORE: ValueShape = OneOf(&[True, Words(&["ask", "blocked"], &[])]);
