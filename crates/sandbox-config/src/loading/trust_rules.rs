//! Every key that needs a person's yes when it comes from a file of the repository (interfaces
//! 2.6), as one table: keys, reasons, and the result without the yes. The readers ask by rule,
//! `docs/configuration.md` prints the table, and a test tries every example both ways.

/// A kind of privileged setting, and its treatment without the user's agreement.
///
/// ```
/// use sandbox_config::{Untrusted, TrustRule};
/// let rule = TrustRule::all().find(|rule| rule.keys().any(|key| key == "network")).unwrap();
/// assert_eq!(rule.why(), "lets commands use the network");
/// assert!(matches!(rule.untrusted(), Untrusted::Ignored("the network stays off")));
/// ```
#[derive(Debug)]
pub struct TrustRule {
    /// Dotted keys (`*`: any name) with a project or worker file that says them.
    keys: &'static [(&'static str, &'static str)],
    why: &'static str,
    untrusted: Untrusted,
    /// The effect says more than the key: shown in the message.
    shows_value: bool,
    /// The value in place of the ignored one; `None`: as if the key were absent.
    fallback: Option<&'static str>,
}

/// The treatment of a widening key without consent: it is ignored if that narrows, else loading
/// fails.
///
/// ```
/// use sandbox_config::{Untrusted, TrustRule};
/// assert!(TrustRule::all().any(|rule| *rule.untrusted() == Untrusted::Refused));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untrusted {
    /// `config.untrusted`, exit 2: without the key the rest would mean something else.
    Refused,
    /// Ignored with a warning; this holds instead.
    Ignored(&'static str),
}

impl TrustRule {
    /// The whole table.
    pub fn all() -> impl Iterator<Item = &'static TrustRule> {
        ALL.iter().copied()
    }

    /// Returns the keys of the rule; `*` matches any name.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().map(|(key, _)| *key)
    }

    /// For each key, a project file that says it; a worker file if it begins with `---`.
    pub fn examples(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.keys.iter().copied()
    }

    /// Returns the effect, as a message says it after the key.
    #[must_use]
    pub fn why(&self) -> &'static str {
        self.why
    }

    /// Returns the treatment without the user's agreement.
    #[must_use]
    pub fn untrusted(&self) -> &Untrusted {
        &self.untrusted
    }

    pub(crate) fn shows_value(&self) -> bool {
        self.shows_value
    }

    /// Returns the value in place of the key without the user's agreement; `None`: as if the key
    /// were absent.
    #[must_use]
    pub fn fallback(&self) -> Option<&'static str> {
        self.fallback
    }
}

const fn refused(keys: &'static [(&'static str, &'static str)], why: &'static str) -> TrustRule {
    TrustRule {
        keys,
        why,
        untrusted: Untrusted::Refused,
        shows_value: true,
        fallback: None,
    }
}

const fn ignored(
    keys: &'static [(&'static str, &'static str)],
    why: &'static str,
    instead: &'static str,
) -> TrustRule {
    TrustRule {
        keys,
        why,
        untrusted: Untrusted::Ignored(instead),
        shows_value: false,
        fallback: None,
    }
}

/// The message shows the effect of the key.
const fn with_value(mut rule: TrustRule) -> TrustRule {
    rule.shows_value = true;
    rule
}

/// Like [`ignored`], with the value that holds instead.
const fn fallback(mut rule: TrustRule, value: &'static str) -> TrustRule {
    rule.fallback = Some(value);
    rule
}

pub(crate) static OUTSIDE: TrustRule = refused(
    &[
        (
            "sandbox.zones.*.path",
            "sandbox: { mode: direct, zones: { a: { path: ../outside, mode: ro } } }",
        ),
        (
            "sandbox.paths.*.root",
            "sandbox: { paths: { a: { root: ../outside } } }",
        ),
        (
            "sandbox.mounts[*].source",
            "sandbox: { mounts: [{ source: ../outside, target: /a }] }",
        ),
        (
            "sandbox.read_paths[*]",
            "sandbox: { read_paths: [../outside] }",
        ),
        (
            "sandbox.write_paths[*]",
            "sandbox: { write_paths: [../outside] }",
        ),
        ("knowledge_base", "knowledge_base: ../outside"),
    ],
    "reaches outside the project",
);

pub(crate) static THROUGH_LINK: TrustRule = refused(
    &[
        (
            "sandbox.zones.*.path",
            "sandbox: { mode: direct, zones: { a: { path: ./way/sub, mode: ro } } }",
        ),
        (
            "sandbox.paths.*.root",
            "sandbox: { paths: { a: { root: ./way/sub } } }",
        ),
        (
            "sandbox.mounts[*].source",
            "sandbox: { mounts: [{ source: ./way/sub, target: /a }] }",
        ),
        (
            "sandbox.read_paths[*]",
            "sandbox: { read_paths: [./way/sub] }",
        ),
        (
            "sandbox.write_paths[*]",
            "sandbox: { write_paths: [./way/sub] }",
        ),
    ],
    "leads through a symbolic link",
);

/// Writing in place where no version control could bring anything back.
pub(crate) static IN_PLACE: TrustRule = refused(
    &[
        (
            "sandbox.zones.*.path",
            "sandbox: { mode: direct, zones: { a: { path: ./full } } }",
        ),
        (
            "sandbox.zones.*.path",
            "sandbox: { root: full, zones: { a: { path: ./sub } } }",
        ),
        ("sandbox.root", "sandbox: { root: full }"),
        (
            "sandbox.paths.*.root",
            "sandbox: { paths: { a: { root: ./full, mode: rw } } }",
        ),
        (
            "sandbox.mounts[*].source",
            "sandbox: { mounts: [{ source: ./full, target: /a }] }",
        ),
        (
            "sandbox.write_paths[*]",
            "sandbox: { write_paths: [./full] }",
        ),
    ],
    "is written in place, holds files and belongs to no git repository",
);

pub(crate) static NETWORK: TrustRule = ignored(
    &[
        ("network", "network: true"),
        ("network", "network: { allow: [example.com] }"),
    ],
    "lets commands use the network",
    "the network stays off",
);

pub(crate) static MODE_AUTO: TrustRule = ignored(
    &[("approval.mode", "approval: { mode: auto }")],
    "answers every question with yes",
    "the rules decide",
);

pub(crate) static UNASKED: TrustRule = ignored(
    &[
        (
            "approval.require_user_permission.*",
            "approval: { require_user_permission: { shell: false } }",
        ),
        (
            "approval.require_user_permission_by_risk.*",
            "approval: { require_user_permission_by_risk: { exec: false } }",
        ),
    ],
    "runs without asking",
    "it asks as before",
);

/// A pre-approved command runs a program without asking, for any pattern.
pub(crate) static COMMAND: TrustRule = fallback(
    ignored(
        &[(
            "shell.rules[*].approval",
            "shell: { rules: [{ pattern: \"grep *\", approval: preApproved }] }",
        )],
        "runs commands without asking",
        "it asks",
    ),
    "ask",
);

pub(crate) static DELETE: TrustRule = fallback(
    ignored(
        &[
            (
                "sandbox.zones.*.approval.delete",
                "sandbox: { zones: { a: { path: ./a, approval: { delete: preApproved } } } }",
            ),
            (
                "workers.*.sandbox.zones.*.approval.delete",
                "---\nsandbox: { zones: [{ name: cache, approval: { delete: preApproved } }] }\n---\nWork.\n",
            ),
        ],
        "deletes without asking",
        "deleting asks",
    ),
    "ask",
);

pub(crate) static PASS: TrustRule = ignored(
    &[("shell.env.pass[*]", "shell: { env: { pass: [CC] } }")],
    "hands a variable of yours to commands",
    "it is not passed",
);

pub(crate) static HOOK: TrustRule = ignored(
    &[(
        "shell.env.set.*",
        "shell: { env: { set: { LD_PRELOAD: x } } }",
    )],
    "changes what every command runs",
    "it is not set",
);

pub(crate) static DOCKER_IMAGE: TrustRule = ignored(
    &[("docker.image", "docker: { image: other }")],
    "decides what runs in containers",
    "the default image is used",
);

pub(crate) static DOCKER_HOST: TrustRule = ignored(
    &[("docker.host", "docker: { host: 'tcp://example.com' }")],
    "hands files to a docker engine",
    "the local engine is used",
);

pub(crate) static DOCKER_NETWORK: TrustRule = ignored(
    &[(
        "docker.network_default",
        "docker: { network_default: bridge }",
    )],
    "gives containers a network",
    "they have none",
);

/// Named or all: a daemon has rights of its own.
pub(crate) static SOCKETS: TrustRule = ignored(
    &[
        ("sandbox.unix_sockets", "sandbox: { unix_sockets: open }"),
        (
            "sandbox.unix_sockets",
            "sandbox: { unix_sockets: [/run/agent.sock] }",
        ),
    ],
    "lets commands talk to local daemons",
    "sockets stay closed",
);

/// Files beside the programs can be read, too.
pub(crate) static PROGRAMS: TrustRule = ignored(
    &[(
        "sandbox.programs[*]",
        "sandbox: { programs: [/opt/tools/bin] }",
    )],
    "lets commands read and run what lies there",
    "commands do not see it",
);

pub(crate) static SHOW: TrustRule = ignored(
    &[("sandbox.show[*]", "sandbox: { show: [\"*.pem\"] }")],
    "shows names of secrets",
    "they stay hidden",
);

pub(crate) static UNPROTECT: TrustRule = ignored(
    &[("sandbox.unprotect[*]", "sandbox: { unprotect: [.vscode] }")],
    "lets workers and commands write what other programs obey",
    "it stays protected",
);

pub(crate) static SURVIVORS: TrustRule = ignored(
    &[("sandbox.survivors", "sandbox: { survivors: left }")],
    "lets processes outlive their command",
    "they are ended",
);

/// In a linked worktree it shows the repository outside.
pub(crate) static GIT_COMMIT: TrustRule = ignored(
    &[("git.mode", "git: { mode: commit }")],
    "shows commands the repository that a linked worktree belongs to",
    "repositories are files like others",
);

/// Staging, reading, and telling a server about it.
pub(crate) static GIT_REPOSITORY: TrustRule = with_value(ignored(
    &[
        (
            "git.repositories[*]",
            "git: { repositories: [octo/reports] }",
        ),
        (
            "git.repositories[*]",
            "git: { repositories: [{ repo: ../outside, access: ro }] }",
        ),
    ],
    "lets workers pull from a repository elsewhere, and stage for it",
    "no worker has it",
));

/// A key of the person's goes where the project says.
pub(crate) static GIT_CREDENTIAL: TrustRule = with_value(ignored(
    &[
        (
            "git.credentials.*",
            "git: { credentials: { 'https://example.com': { token_env: GITHUB_TOKEN } } }",
        ),
        (
            "git.credentials.*",
            "git: { credentials: { 'ssh://git@example.com': { agent: true } } }",
        ),
    ],
    "says to a server of its choosing who you are",
    "the server gets no credentials",
));

pub(crate) static EXECUTABLE_CONFIG: TrustRule = ignored(
    &[(
        "git.allow_executable_config",
        "git: { allow_executable_config: true }",
    )],
    "lets workers stage what programs obey or servers run",
    "such files are refused",
);

/// One of the names may lie outside.
pub(crate) static HARD_LINKS: TrustRule = ignored(
    &[
        ("sandbox.hardlinks", "sandbox: { hardlinks: allow }"),
        (
            "sandbox.paths.*.hardlinks",
            "sandbox: { paths: { a: { root: ./a, hardlinks: allow } } }",
        ),
        (
            "sandbox.zones.*.hardlinks",
            "sandbox: { zones: { a: { path: ./a, hardlinks: allow } } }",
        ),
    ],
    "writes files that have other names elsewhere",
    "they are read only",
);

pub(crate) static RUNS_DIR: TrustRule = ignored(
    &[
        ("runs_dir", "runs_dir: ../outside"),
        ("log.dir", "log: { dir: ../outside }"),
    ],
    "keeps runs outside the project or behind a link",
    "they are kept in the state directory",
);

/// Everything that workers read goes there, and a key with it.
pub(crate) static PROVIDER: TrustRule = with_value(ignored(
    &[
        (
            "providers.*",
            "providers: { local: { wire: openai-chat, base_url: 'https://example.com/v1', api_key_env: OPENAI_API_KEY } }",
        ),
        (
            "providers.*",
            "providers: { anthropic: { prices: { input: 0, output: 0 } } }",
        ),
    ],
    "says where what workers read is sent, and a key of yours with it",
    "no model of it is used",
));

static ALL: &[&TrustRule] = &[
    &OUTSIDE,
    &THROUGH_LINK,
    &IN_PLACE,
    &NETWORK,
    &MODE_AUTO,
    &UNASKED,
    &COMMAND,
    &DELETE,
    &PASS,
    &HOOK,
    &RUNS_DIR,
    &DOCKER_IMAGE,
    &DOCKER_HOST,
    &DOCKER_NETWORK,
    &SOCKETS,
    &PROGRAMS,
    &SHOW,
    &UNPROTECT,
    &SURVIVORS,
    &GIT_COMMIT,
    &GIT_REPOSITORY,
    &GIT_CREDENTIAL,
    &EXECUTABLE_CONFIG,
    &HARD_LINKS,
    &PROVIDER,
];
