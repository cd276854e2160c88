//! `git`: operations of commands on repositories, the repositories that workers pull from and stage
//! for, and forge's credentials for servers.

use crate::grant::confinement::GitMode;
use crate::grant::mount::Mode;
use crate::syntax::key_table::shape::ValueShape::*;
use crate::syntax::key_table::shape::{
    AUTHOR, KEY_VARIABLE, KeyPattern, ORIGIN, REPOSITORY, TRAILER, ValueShape,
};
use crate::syntax::key_table::{MeetRule, key_table};
use crate::syntax::word::ConfigWord;

const REPOSITORY_LIST: ValueShape = List(&OneOf(&[Like(&REPOSITORY), Section(&GIT_REPOSITORY)]));

key_table! {
    pub(crate) static GIT = "git", "`git` has", blank;
    keys {
        /// Changes that commands may make to git repositories. `unaware`: all but those to
        /// protected names. `read_only`: none. `commit`: all but those to files that git executes
        /// or obeys; in a linked worktree, also to the repository that it belongs to.
        mode: GitMode::SHAPE, default("unaware"),
            trust("when it is `commit`"), stricter(&["commit", "unaware", "read_only"]);
        /// Author of staged commits.
        author: Like(&AUTHOR), default("forge <forge@localhost>"), last_layer_wins;
        /// Last line in the message of staged commits: `assisted-by` for `Assisted-by: forge`,
        /// `none`, or a line of your own, such as `Reviewed-by: the desk`.
        trailer: Like(&TRAILER), default("assisted-by"), last_layer_wins;
        /// Allows workers to stage files that programs obey or servers run, such as
        /// `.github/workflows`.
        allow_executable_config: Bool, default("false"), trust("when it is `true`"),
            user_limit(MeetRule::FALSE);
        /// Repositories that workers may pull from and stage commits for: `owner/name` (at GitHub),
        /// a URL, or a path relative to the project. Without any, workers have no git tools.
        repositories: REPOSITORY_LIST, default("[]"), trust("unless it is a directory of the project"),
            user_limit(MeetRule::Repositories);
        /// Credentials that forge uses for git servers, by origin. Each has exactly one of
        /// `token_env`, `agent` and, in your own file, `helper`. No worker gets them.
        credentials: Map(KeyPattern::Like(&ORIGIN), &Section(&GIT_CREDENTIAL)), last_layer_wins,
            trust("always"), user_owns_each;
    }
    foreign = FOREIGN;
}

// In the person's own file.
key_table! {
    pub(crate) static USER_GIT = "user_git", "`git` has", blank;
    keys {
        mode of GIT;
        author of GIT;
        trailer of GIT;
        allow_executable_config of GIT;
        repositories of GIT;
        credentials of GIT, trust(""),
            shape(Map(KeyPattern::Like(&ORIGIN), &Section(&USER_GIT_CREDENTIAL)));
    }
    foreign = FOREIGN;
}

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

key_table! {
    pub(crate) static GIT_REPOSITORY = "git_repository", "repositories have";
    keys {
        /// Repository: `owner/name` (at GitHub), a URL, or a path relative to the project.
        repo: Like(&REPOSITORY), required("for example `repo: octo/reports`");
        /// Use of the repository: `ro` to pull from it, `rw` also to stage commits for it.
        access: Mode::SHAPE, default("rw");
    }
    foreign {
        "mode" => "use `access: ro` or `access: rw`",
        "readonly" | "readOnly" | "read_only" => "did you mean `access: ro`?",
        "url" | "path" | "name" => "did you mean `repo:`?",
        "branch" => "a branch is named by who pulls or stages",
        "token" => KEY_HELP,
    }
}

const KEY_HELP: &str = "keys stand in no file of forge's: name the variable that holds it, `credentials: { \"https://github.com\": { token_env: GITHUB_TOKEN } }`";

key_table! {
    pub(crate) static GIT_CREDENTIAL = "git_credential", "credentials have";
    keys {
        /// Environment variable that contains a token, for a server with `https`.
        token_env: Like(&KEY_VARIABLE);
        /// Lets your ssh agent (`SSH_AUTH_SOCK`) sign, for a server with `ssh`.
        agent: True;
        /// File with the accepted host keys, for a server with `ssh`. If left out:
        /// `~/.ssh/known_hosts`.
        known_hosts: Text;
    }
    foreign {
        "helper" => "a program that prints a key is named in your own file only: a file that came with a repository must not choose what runs",
        "token" | "password" | "key" => KEY_HELP,
        "api_key_env" | "env" => "did you mean `token_env:`?",
        "username" => NAME_HELP,
        "identity_file" => IDENTITY_HELP,
    }
}

const NAME_HELP: &str = "the name belongs to the origin: `ssh://git@example.com`";
const IDENTITY_HELP: &str = "keys of ssh stay with your agent: `agent: true`";

key_table! {
    pub(crate) static USER_GIT_CREDENTIAL = "user_git_credential", "credentials have";
    keys {
        token_env of GIT_CREDENTIAL;
        /// Program with its arguments that speaks the protocol of git's credential helpers, for a
        /// server with `https`. It runs without a shell. Only your own file can name one.
        helper: NonEmpty(&Text);
        agent of GIT_CREDENTIAL;
        known_hosts of GIT_CREDENTIAL;
    }
    foreign {
        "token" | "password" | "key" => KEY_HELP,
        "api_key_env" | "env" => "did you mean `token_env:`?",
        "username" => NAME_HELP,
        "identity_file" => IDENTITY_HELP,
    }
}

// In worker files.
key_table! {
    pub(crate) static WORKER_GIT = "worker_git", "`git` of a worker has", blank;
    keys {
        /// Repositories that the worker may pull from and stage commits for, at most its caller's.
        repositories: REPOSITORY_LIST, default("[]");
    }
    foreign {
        "repos" => "did you mean `repositories:`?",
        "mode" | "author" | "trailer" | "allow_executable_config" | "credentials" => PROJECT_HELP,
    }
}

const PROJECT_HELP: &str = "it belongs to the project file";
