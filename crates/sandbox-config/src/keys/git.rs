//! `git`: operations of commands on repositories, the repositories that workers pull from and stage
//! for, and forge's credentials for servers.

use crate::syntax::key_table::shape::{
    AUTHOR, KEY_VARIABLE, KeyPattern, ORIGIN, REPOSITORY, TRAILER, ValueShape,
};
use crate::syntax::key_table::{KeySpec, KeyTable};

const MODE: KeySpec = KeySpec::new(
    "mode",
    ValueShape::Words(&["unaware", "read_only", "commit"], &[]),
    "What commands may do to repositories: what protected names leave, nothing, or all but what git executes or obeys.",
)
.default("unaware")
.trust("when it is `commit`");

const AUTHOR_KEY: KeySpec = KeySpec::new(
    "author",
    ValueShape::Like(&AUTHOR),
    "Who staged commits are by, as `name <address>`.",
)
.default("forge <forge@localhost>")
.last_layer_wins();

const TRAILER_KEY: KeySpec = KeySpec::new(
    "trailer",
    ValueShape::Like(&TRAILER),
    "The last line of what staged commits say: `assisted-by` for `Assisted-by: forge`, `none`, or a line of your own, `Word: text`.",
)
.default("assisted-by")
.last_layer_wins();

const EXECUTABLE_CONFIG: KeySpec = KeySpec::new(
    "allow_executable_config",
    ValueShape::Bool,
    "Whether files may be staged that programs obey or servers run, such as `.github/workflows`.",
)
.default("false")
.trust("when it is `true`");

const REPOSITORY_LIST: ValueShape = ValueShape::List(&ValueShape::OneOf(&[
    ValueShape::Like(&REPOSITORY),
    ValueShape::Section(&GIT_REPOSITORY),
]));

const REPOSITORIES: KeySpec = KeySpec::new(
    "repositories",
    REPOSITORY_LIST,
    "What workers may pull from and stage for: `owner/name` (at GitHub), a URL, or a path from the project's directory on; without it there are no git tools.",
)
.default("[]")
.trust("but for a directory of the project");

const CREDENTIALS_DOC: &str =
    "By origin, the credentials that forge uses; no worker gets any of them.";

pub(crate) static GIT: KeyTable = KeyTable {
    id: "git",
    plural: "`git` has",
    may_be_blank: true,
    list: &[
        MODE,
        AUTHOR_KEY,
        TRAILER_KEY,
        EXECUTABLE_CONFIG,
        REPOSITORIES,
        KeySpec::new(
            "credentials",
            ValueShape::Map(
                KeyPattern::Like(&ORIGIN),
                &ValueShape::Section(&GIT_CREDENTIAL),
            ),
            CREDENTIALS_DOC,
        )
        .last_layer_wins()
        .trust("always"),
    ],
    foreign: FOREIGN,
};

/// In the person's own file.
pub(crate) static USER_GIT: KeyTable = KeyTable {
    id: "user_git",
    plural: "`git` has",
    may_be_blank: true,
    list: &[
        MODE,
        AUTHOR_KEY,
        TRAILER_KEY,
        EXECUTABLE_CONFIG,
        REPOSITORIES,
        KeySpec::new(
            "credentials",
            ValueShape::Map(
                KeyPattern::Like(&ORIGIN),
                &ValueShape::Section(&USER_GIT_CREDENTIAL),
            ),
            CREDENTIALS_DOC,
        )
        .last_layer_wins(),
    ],
    foreign: FOREIGN,
};

const FOREIGN: &[(&str, &str)] = &[
    ("repos", "did you mean `repositories:`?"),
    ("repository", "use `repositories:`, a list"),
    ("remotes", "did you mean `repositories:`?"),
    ("user", "did you mean `author: \"name <address>\"`?"),
    ("email", "did you mean `author: \"name <address>\"`?"),
    ("token", KEY_HELP),
    ("push", "a push is a person's: `forge stage push`"),
    ("auto_push", "a push is a person's: `forge stage push`"),
];

pub(crate) static GIT_REPOSITORY: KeyTable = KeyTable {
    id: "git_repository",
    plural: "repositories have",
    may_be_blank: false,
    list: &[
        KeySpec::new(
            "repo",
            ValueShape::Like(&REPOSITORY),
            "Where it is: `owner/name` (at GitHub), a URL, or a path.",
        )
        .required(),
        KeySpec::new(
            "access",
            ValueShape::Words(&["ro", "rw"], &[]),
            "`ro`: pull from it. `rw`: stage for it, too.",
        )
        .default("rw"),
    ],
    foreign: &[
        ("mode", "use `access: ro` or `access: rw`"),
        ("readonly", "did you mean `access: ro`?"),
        ("readOnly", "did you mean `access: ro`?"),
        ("read_only", "did you mean `access: ro`?"),
        ("url", "did you mean `repo:`?"),
        ("path", "did you mean `repo:`?"),
        ("name", "did you mean `repo:`?"),
        ("branch", "a branch is named by who pulls or stages"),
        ("token", KEY_HELP),
    ],
};

const KEY_HELP: &str = "keys stand in no file of forge's: name the variable that holds it, `credentials: { \"https://github.com\": { token_env: GITHUB_TOKEN } }`";

const TOKEN_ENV: KeySpec = KeySpec::new(
    "token_env",
    ValueShape::Like(&KEY_VARIABLE),
    "For https: the variable that holds a token.",
);

const AGENT: KeySpec = KeySpec::new(
    "agent",
    ValueShape::True,
    "For ssh: whether your agent (`SSH_AUTH_SOCK`) is asked to sign.",
);

const KNOWN_HOSTS: KeySpec = KeySpec::new(
    "known_hosts",
    ValueShape::Text,
    "For ssh: the file that says which keys hosts have; without it, `~/.ssh/known_hosts`.",
);

pub(crate) static GIT_CREDENTIAL: KeyTable = KeyTable {
    id: "git_credential",
    plural: "credentials have",
    may_be_blank: false,
    list: &[TOKEN_ENV, AGENT, KNOWN_HOSTS],
    foreign: &[
        (
            "helper",
            "a program that prints a key is named in your own file only: a file that came with a repository must not choose what runs",
        ),
        ("token", KEY_HELP),
        ("password", KEY_HELP),
        ("key", KEY_HELP),
        ("api_key_env", "did you mean `token_env:`?"),
        ("env", "did you mean `token_env:`?"),
        ("username", NAME_HELP),
        ("identity_file", IDENTITY_HELP),
    ],
};

const NAME_HELP: &str = "the name belongs to the origin: `ssh://git@example.com`";
const IDENTITY_HELP: &str = "keys of ssh stay with your agent: `agent: true`";

pub(crate) static USER_GIT_CREDENTIAL: KeyTable = KeyTable {
    id: "user_git_credential",
    plural: "credentials have",
    may_be_blank: false,
    list: &[
        TOKEN_ENV,
        KeySpec::new(
            "helper",
            ValueShape::Some(&ValueShape::Text),
            "For https: a program and its arguments that speaks git's protocol of credential helpers, run without a shell; only in your own file.",
        ),
        AGENT,
        KNOWN_HOSTS,
    ],
    foreign: &[
        ("token", KEY_HELP),
        ("password", KEY_HELP),
        ("key", KEY_HELP),
        ("api_key_env", "did you mean `token_env:`?"),
        ("env", "did you mean `token_env:`?"),
        ("username", NAME_HELP),
        ("identity_file", IDENTITY_HELP),
    ],
};

/// In worker files.
pub(crate) static WORKER_GIT: KeyTable = KeyTable {
    id: "worker_git",
    plural: "`git` of a worker has",
    may_be_blank: true,
    list: &[KeySpec::new(
        "repositories",
        REPOSITORY_LIST,
        "The repositories it may pull from and stage for; at most what its caller has.",
    )
    .default("[]")],
    foreign: &[
        ("repos", "did you mean `repositories:`?"),
        ("mode", PROJECT_HELP),
        ("author", PROJECT_HELP),
        ("trailer", PROJECT_HELP),
        ("allow_executable_config", PROJECT_HELP),
        ("credentials", PROJECT_HELP),
    ],
};

const PROJECT_HELP: &str = "it belongs to the project file";
