//! Commands: the rules that decide about them, and their environment.

use crate::syntax::keys::sandbox::{SOCKETS_HELP, VERDICT};
use crate::syntax::keys::shape::{Names, PROGRAM, Shape, VARIABLE};
use crate::syntax::keys::{Key, Keys, RULES_HELP, later, now};

const TEXTS: Shape = Shape::List(&Shape::Text);

const PROGRAMS: Shape = Shape::List(&Shape::Like(&PROGRAM));

const RULE_LIST: Shape = Shape::List(&Shape::Section(&RULE));

const RULES: Key = now(
    "rules",
    RULE_LIST,
    "Patterns and what they decide: `blocked` wins wherever it stands, then the first rule that matches.",
)
.default("[]");

const DEFAULT: Shape = Shape::Words(&["blocked", "ask"], &[]);

const ALLOW: Key = now(
    "allow",
    PROGRAMS,
    "The only programs that commands may start, by name or absolute path; rules still decide about consent.",
);

const DENY: Key = now(
    "deny",
    PROGRAMS,
    "Programs that commands never start, whatever `allow` and rules say.",
)
.default("[]")
.unites();

pub(crate) static SHELL: Keys = Keys {
    id: "shell",
    plural: "`shell` has",
    may_be_blank: true,
    list: &[
        RULES,
        now(
            "default",
            DEFAULT,
            "What holds for a command that no rule matches.",
        )
        .default("blocked"),
        now(
            "env",
            Shape::Section(&ENVIRONMENT),
            "The variables of commands, beside the few that forge sets.",
        ),
        ALLOW,
        DENY,
        now(
            "session",
            Shape::Words(&["call", "worker"], &[]),
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

pub(crate) static WORKER_SHELL: Keys = Keys {
    id: "worker_shell",
    plural: "`shell` of a worker has",
    may_be_blank: false,
    list: &[
        RULES,
        now(
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

pub(crate) static RULE: Keys = Keys {
    id: "rule",
    plural: "rules have",
    may_be_blank: false,
    list: &[
        now(
            "pattern",
            Shape::Text,
            "Words of a command: `(a|b)` is either, `*` is any word and at the end any rest; in a rule that asks or blocks each `*` is any number of words, as in `find * -exec *`.",
        )
        .required(),
        now("approval", VERDICT, "What is decided.")
            .required()
            .trust("when it is `preApproved`"),
        now(
            "why",
            Shape::Text,
            "The reason, which is shown to the model.",
        ),
        now(
            "examples",
            Shape::Section(&EXAMPLES),
            "Commands that the pattern must match or must not match; checked when the file is read.",
        ),
        later(
            "grants",
            Shape::Free,
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

pub(crate) static EXAMPLES: Keys = Keys {
    id: "examples",
    plural: "`examples` have",
    may_be_blank: true,
    list: &[
        now("match", TEXTS, "Commands that the pattern matches.").default("[]"),
        now(
            "no_match",
            TEXTS,
            "Commands that the pattern does not match.",
        )
        .default("[]"),
    ],
    foreign: &[],
};

pub(crate) static ENVIRONMENT: Keys = Keys {
    id: "env",
    plural: "`env` has",
    may_be_blank: true,
    list: &[
        now(
            "pass",
            Shape::List(&Shape::Like(&VARIABLE)),
            "Variables of yours that commands get, beside `LANG` and `TERM`.",
        )
        .default("[]")
        .trust("always"),
        now(
            "set",
            Shape::Map(Names::Like(&VARIABLE), &Shape::Text),
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
