//! Commands: the rules that decide about them, and their environment.

use crate::grant::verdict::Verdict;
use crate::keys::RULES_HELP;
use crate::keys::sandbox::SOCKETS_HELP;
use crate::syntax::key_table::shape::ValueShape::*;
use crate::syntax::key_table::shape::{KeyPattern, PROGRAM, VARIABLE, ValueShape};
use crate::syntax::key_table::{MeetRule, key_table};
use crate::syntax::word::ConfigWord;

const TEXTS: ValueShape = List(&Text);

const PROGRAMS: ValueShape = List(&Like(&PROGRAM));

const RULE_LIST: ValueShape = List(&Section(&RULE));

const DEFAULT: ValueShape = Words(&["blocked", "ask"], &[]);

key_table! {
    pub(crate) static SHELL = "shell", "`shell` has", blank;
    keys {
        /// Rules about commands. A matching rule with `blocked` wins, wherever it is; otherwise the
        /// first rule that matches.
        rules: RULE_LIST, default("[]"), user_limit(MeetRule::Blocked);
        /// Verdict about commands that no rule matches. With `allow` and without `rules`, the
        /// default is `ask`.
        default: DEFAULT, default("blocked"),
            project_only("your own file only blocks commands: list them under `rules`");
        /// Environment variables of commands, in addition to the few that forge sets.
        env: Section(&ENVIRONMENT);
        /// The only programs that command lines may start, by name or absolute path. The rules
        /// still decide about approval. If left out: every program.
        allow: PROGRAMS, user_limit(MeetRule::Only);
        /// Programs that no command line may start, by name or absolute path, whatever `allow` and
        /// the rules say.
        deny: PROGRAMS, default("[]"), unites;
        /// State in which each command starts. `call`: the working directory and the variables of
        /// `env`. `worker`: the directory and the exported variables that the worker's previous
        /// command left. No process continues to run in either case.
        session: Words(&["call", "worker"], &[]), default("call"), stricter(&["worker", "call"]);
    }
    foreign {
        "unix_sockets" => SOCKETS_HELP,
        "allowed_commands" | "allowedCommands" | "blocked_commands" => RULES_HELP,
    }
}

key_table! {
    pub(crate) static WORKER_SHELL = "worker_shell", "`shell` of a worker has";
    keys {
        rules of SHELL;
        /// Verdict about commands that no rule of the worker matches. If left out: the project's.
        default: DEFAULT;
        allow of SHELL;
        deny of SHELL;
    }
    foreign {
        "env" => "the environment is the project's: `shell.env` in the project file",
        "session" => "sessions are the project's: `shell.session` in the project file",
    }
}

key_table! {
    pub(crate) static RULE = "rule", "rules have";
    keys {
        /// Words of a command. `(a|b)` matches either word; `*` matches one word, and at the end
        /// any number of words. In a rule that asks or blocks, each `*` matches any number of
        /// words: `find * -exec *`.
        pattern: Text, required("for example `pattern: \"grep *\"`");
        /// Verdict about the commands that match.
        approval: Verdict::SHAPE, required("write `approval: preApproved`, `ask` or `blocked`"), trust("when it is `preApproved`");
        /// Reason for the verdict. The model sees it.
        why: Text;
        /// Commands that the pattern must or must not match. forge checks them when it reads the
        /// file.
        examples: Section(&EXAMPLES);
        /// Rights that the command gets in addition.
        grants: Free, reserved;
    }
    foreign {
        "command" => "did you mean `pattern:`?",
        "allow" => "did you mean `approval: preApproved`?",
        "deny" => "did you mean `approval: blocked`?",
        "approval_required" => "use `approval: ask` or `approval: preApproved`",
    }
}

key_table! {
    pub(crate) static EXAMPLES = "examples", "`examples` have", blank;
    keys {
        /// Commands that the pattern must match.
        match: TEXTS, default("[]");
        /// Commands that the pattern must not match.
        no_match: TEXTS, default("[]");
    }
}

key_table! {
    pub(crate) static ENVIRONMENT = "env", "`env` has", blank;
    keys {
        /// Names of your own variables that commands get, in addition to `LANG`, `LC_*`, `TERM`, `COLORTERM`, `NO_COLOR`, `TZ` and `CI`.
        pass: List(&Like(&VARIABLE)), default("[]"), trust("always"), user_limit(MeetRule::Within);
        /// Variables with fixed values.
        set: Map(KeyPattern::Like(&VARIABLE), &Text), default("{}"),
            trust("when the variable makes a loader or an interpreter run other code"),
            project_only("what commands are given is for each project to say");
    }
    foreign {
        "allow" | "inherit" => "did you mean `pass:`?",
    }
}
