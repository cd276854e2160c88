//! `git`: what commands may do to repositories, which ones workers pull from and stage for, and how
//! forge says there who is asking.

use crate::syntax::keys::shape::{AUTHOR, KEY_VARIABLE, Names, ORIGIN, REPOSITORY, Shape, TRAILER};
use crate::syntax::keys::{Key, Keys, now};

const MODE: Key = now(
    "mode",
    Shape::Words(&["unaware", "read_only", "commit"], &[]),
    "What commands may do to repositories: what protected names leave, nothing, or all but what git executes or obeys.",
)
.default("unaware")
.trust("when it is `commit`");

const AUTHOR_KEY: Key = now(
    "author",
    Shape::Like(&AUTHOR),
    "Who staged commits are by, as `name <address>`.",
)
.default("forge <forge@localhost>")
.strongest();

const TRAILER_KEY: Key = now(
    "trailer",
    Shape::Like(&TRAILER),
    "The last line of what staged commits say: `assisted-by` for `Assisted-by: forge`, `none`, or a line of your own, `Word: text`.",
)
.default("assisted-by")
.strongest();

const EXECUTABLE_CONFIG: Key = now(
    "allow_executable_config",
    Shape::Bool,
    "Whether files may be staged that programs obey or servers run, such as `.github/workflows`.",
)
.default("false")
.trust("when it is `true`");

const REPOSITORY_LIST: Shape = Shape::List(&Shape::OneOf(&[
    Shape::Like(&REPOSITORY),
    Shape::Section(&GIT_REPOSITORY),
]));

const REPOSITORIES: Key = now(
    "repositories",
    REPOSITORY_LIST,
    "What workers may pull from and stage for: `owner/name` (at GitHub), a URL, or a path from the project's directory on; without it there are no git tools.",
)
.default("[]")
.trust("but for a directory of the project");

const CREDENTIALS_DOC: &str =
    "By origin, the credentials that forge uses; no worker gets any of them.";

pub(crate) static GIT: Keys = Keys {
    id: "git",
    plural: "`git` has",
    may_be_blank: true,
    list: &[
        MODE,
        AUTHOR_KEY,
        TRAILER_KEY,
        EXECUTABLE_CONFIG,
        REPOSITORIES,
        now(
            "credentials",
            Shape::Map(Names::Like(&ORIGIN), &Shape::Section(&GIT_CREDENTIAL)),
            CREDENTIALS_DOC,
        )
        .strongest()
        .trust("always"),
    ],
    foreign: FOREIGN,
};

/// In the person's own file.
pub(crate) static USER_GIT: Keys = Keys {
    id: "user_git",
    plural: "`git` has",
    may_be_blank: true,
    list: &[
        MODE,
        AUTHOR_KEY,
        TRAILER_KEY,
        EXECUTABLE_CONFIG,
        REPOSITORIES,
        now(
            "credentials",
            Shape::Map(Names::Like(&ORIGIN), &Shape::Section(&USER_GIT_CREDENTIAL)),
            CREDENTIALS_DOC,
        )
        .strongest(),
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

pub(crate) static GIT_REPOSITORY: Keys = Keys {
    id: "git_repository",
    plural: "repositories have",
    may_be_blank: false,
    list: &[
        now(
            "repo",
            Shape::Like(&REPOSITORY),
            "Where it is: `owner/name` (at GitHub), a URL, or a path.",
        )
        .required(),
        now(
            "access",
            Shape::Words(&["ro", "rw"], &[]),
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

const TOKEN_ENV: Key = now(
    "token_env",
    Shape::Like(&KEY_VARIABLE),
    "For https: the variable that holds a token.",
);

const AGENT: Key = now(
    "agent",
    Shape::True,
    "For ssh: whether your agent (`SSH_AUTH_SOCK`) is asked to sign.",
);

const KNOWN_HOSTS: Key = now(
    "known_hosts",
    Shape::Text,
    "For ssh: the file that says which keys hosts have; without it, `~/.ssh/known_hosts`.",
);

pub(crate) static GIT_CREDENTIAL: Keys = Keys {
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

pub(crate) static USER_GIT_CREDENTIAL: Keys = Keys {
    id: "user_git_credential",
    plural: "credentials have",
    may_be_blank: false,
    list: &[
        TOKEN_ENV,
        now(
            "helper",
            Shape::Some(&Shape::Text),
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
pub(crate) static WORKER_GIT: Keys = Keys {
    id: "worker_git",
    plural: "`git` of a worker has",
    may_be_blank: true,
    list: &[now(
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
