//! Commands: the rules that decide about them, and their environment.

use crate::keys::RULES_HELP;
use crate::keys::sandbox::{SOCKETS_HELP, VERDICT};
use crate::syntax::key_table::shape::{KeyPattern, PROGRAM, VARIABLE, ValueShape};
use crate::syntax::key_table::{KeySpec, KeyTable};

const TEXTS: ValueShape = ValueShape::List(&ValueShape::Text);

const PROGRAMS: ValueShape = ValueShape::List(&ValueShape::Like(&PROGRAM));

const RULE_LIST: ValueShape = ValueShape::List(&ValueShape::Section(&RULE));

const RULES: KeySpec = KeySpec::new(
    "rules",
    RULE_LIST,
    "Patterns and what they decide: `blocked` wins wherever it stands, then the first rule that matches.",
)
.default("[]");

const DEFAULT: ValueShape = ValueShape::Words(&["blocked", "ask"], &[]);

const ALLOW: KeySpec = KeySpec::new(
    "allow",
    PROGRAMS,
    "The only programs that commands may start, by name or absolute path; rules still decide about consent.",
);

const DENY: KeySpec = KeySpec::new(
    "deny",
    PROGRAMS,
    "Programs that commands never start, whatever `allow` and rules say.",
)
.default("[]")
.unites();

pub(crate) static SHELL: KeyTable = KeyTable {
    id: "shell",
    plural: "`shell` has",
    may_be_blank: true,
    list: &[
        RULES,
        KeySpec::new(
            "default",
            DEFAULT,
            "What holds for a command that no rule matches.",
        )
        .default("blocked"),
        KeySpec::new(
            "env",
            ValueShape::Section(&ENVIRONMENT),
            "The variables of commands, beside the few that forge sets.",
        ),
        ALLOW,
        DENY,
        KeySpec::new(
            "session",
            ValueShape::Words(&["call", "worker"], &[]),
            "Where commands begin: `call`, each at the beginning; `worker`, each in the directory and with the variables that the worker's command before it left. Nothing keeps running either way.",
        )
        .default("call"),
    ],
    foreign: &[
        ("unix_sockets", SOCKETS_HELP),
        ("allowed_commands", RULES_HELP),
        ("allowedCommands", RULES_HELP),
        ("blocked_commands", RULES_HELP),
    ],
};

pub(crate) static WORKER_SHELL: KeyTable = KeyTable {
    id: "worker_shell",
    plural: "`shell` of a worker has",
    may_be_blank: false,
    list: &[
        RULES,
        KeySpec::new(
            "default",
            DEFAULT,
            "What holds for a command that no rule of the worker matches; without it, the project's answer.",
        ),
        ALLOW,
        DENY,
    ],
    foreign: &[
        (
            "env",
            "the environment is the project's: `shell.env` in the project file",
        ),
        (
            "session",
            "sessions are the project's: `shell.session` in the project file",
        ),
    ],
};

pub(crate) static RULE: KeyTable = KeyTable {
    id: "rule",
    plural: "rules have",
    may_be_blank: false,
    list: &[
        KeySpec::new(
            "pattern",
            ValueShape::Text,
            "Words of a command: `(a|b)` is either, `*` is any word and at the end any rest; in a rule that asks or blocks each `*` is any number of words, as in `find * -exec *`.",
        )
        .required(),
        KeySpec::new("approval", VERDICT, "What is decided.")
            .required()
            .trust("when it is `preApproved`"),
        KeySpec::new(
            "why",
            ValueShape::Text,
            "The reason, which is shown to the model.",
        ),
        KeySpec::new(
            "examples",
            ValueShape::Section(&EXAMPLES),
            "Commands that the pattern must match or must not match; checked when the file is read.",
        ),
        KeySpec::reserved(
            "grants",
            ValueShape::Free,
            "Rights that the command gets in addition.",
        ),
    ],
    foreign: &[
        ("command", "did you mean `pattern:`?"),
        ("allow", "did you mean `approval: preApproved`?"),
        ("deny", "did you mean `approval: blocked`?"),
        (
            "approval_required",
            "use `approval: ask` or `approval: preApproved`",
        ),
    ],
};

pub(crate) static EXAMPLES: KeyTable = KeyTable {
    id: "examples",
    plural: "`examples` have",
    may_be_blank: true,
    list: &[
        KeySpec::new("match", TEXTS, "Commands that the pattern matches.").default("[]"),
        KeySpec::new(
            "no_match",
            TEXTS,
            "Commands that the pattern does not match.",
        )
        .default("[]"),
    ],
    foreign: &[],
};

pub(crate) static ENVIRONMENT: KeyTable = KeyTable {
    id: "env",
    plural: "`env` has",
    may_be_blank: true,
    list: &[
        KeySpec::new(
            "pass",
            ValueShape::List(&ValueShape::Like(&VARIABLE)),
            "Variables of yours that commands get, beside `LANG` and `TERM`.",
        )
        .default("[]")
        .trust("always"),
        KeySpec::new(
            "set",
            ValueShape::Map(KeyPattern::Like(&VARIABLE), &ValueShape::Text),
            "Variables with these values.",
        )
        .default("{}")
        .trust("when the variable makes a loader or an interpreter run other code"),
    ],
    foreign: &[
        ("allow", "did you mean `pass:`?"),
        ("inherit", "did you mean `pass:`?"),
    ],
};
