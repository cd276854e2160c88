//! Every key that needs a person's yes when it comes from a file of the repository, as one table:
//! keys, reasons, and the result without the yes. The readers ask by rule, `docs/configuration.md`
//! prints the table, and a test tries every example both ways.

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
    /// `true` if the message shows the value, not only the key.
    shows_value: bool,
    /// The value in place of the ignored one; `None`: as if the key were absent.
    fallback: Option<&'static str>,
}

/// The treatment of a privileged setting without consent: it is ignored if that narrows, else
/// loading fails.
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

    sandbox_names::getters! {
        /// For each key, a project file that says it; a worker file if it begins with `---`.
        pub examples: impl Iterator<Item = (&'static str, &'static str)> = keys.iter().copied();
        /// Returns the effect, as a message says it after the key.
        pub why: &'static str = why;
        /// Returns the treatment without the user's agreement.
        pub untrusted: &Untrusted = &untrusted;
        pub(crate) shows_value: bool = shows_value;
        /// Returns the value in place of the key without the user's agreement; `None`: as if the key
        /// were absent.
        pub fallback: Option<&'static str> = fallback;
    }
}

type KeyExamples = &'static [(&'static str, &'static str)];

impl TrustRule {
    const fn refused(keys: KeyExamples, why: &'static str) -> TrustRule {
        TrustRule {
            keys,
            why,
            untrusted: Untrusted::Refused,
            shows_value: true,
            fallback: None,
        }
    }

    const fn ignored(keys: KeyExamples, why: &'static str, instead: &'static str) -> TrustRule {
        TrustRule {
            keys,
            why,
            untrusted: Untrusted::Ignored(instead),
            shows_value: false,
            fallback: None,
        }
    }

    /// The message shows the effect of the key.
    const fn with_value(mut self) -> TrustRule {
        self.shows_value = true;
        self
    }

    /// Sets the value that holds instead.
    const fn falls_back_to(mut self, value: &'static str) -> TrustRule {
        self.fallback = Some(value);
        self
    }
}

/// Declares the rules in the order of the page: the effect, the treatment, and for each key a file
/// that says it.
macro_rules! trust_rules {
    ($(
        $(#[$meta:meta])*
        $rule:ident = $why:literal, $untrusted:ident $(($instead:literal))?
        $(, $modifier:ident $(($argument:literal))?)* {
            $($key:literal => $example:literal,)+
        }
    )+) => {
        $(
            $(#[$meta])*
            pub(crate) static $rule: TrustRule =
                TrustRule::$untrusted(&[$(($key, $example)),+], $why $(, $instead)?)
                $(.$modifier($($argument)?))*;
        )+

        static ALL: &[&TrustRule] = &[$(&$rule),+];
    };
}

trust_rules! {
    OUTSIDE = "reaches outside the project", refused {
        "sandbox.zones.*.path" => "sandbox: { mode: direct, zones: { a: { path: ../outside, mode: ro } } }",
        "sandbox.paths.*.root" => "sandbox: { paths: { a: { root: ../outside } } }",
        "sandbox.mounts[*].source" => "sandbox: { mounts: [{ source: ../outside, target: /a }] }",
        "sandbox.read_paths[*]" => "sandbox: { read_paths: [../outside] }",
        "sandbox.write_paths[*]" => "sandbox: { write_paths: [../outside] }",
        "knowledge_base" => "knowledge_base: ../outside",
    }
    THROUGH_LINK = "leads through a symbolic link", refused {
        "sandbox.zones.*.path" => "sandbox: { mode: direct, zones: { a: { path: ./way/sub, mode: ro } } }",
        "sandbox.paths.*.root" => "sandbox: { paths: { a: { root: ./way/sub } } }",
        "sandbox.mounts[*].source" => "sandbox: { mounts: [{ source: ./way/sub, target: /a }] }",
        "sandbox.read_paths[*]" => "sandbox: { read_paths: [./way/sub] }",
        "sandbox.write_paths[*]" => "sandbox: { write_paths: [./way/sub] }",
    }
    /// Writing in place where no version control could bring anything back.
    IN_PLACE = "is written in place, holds files and belongs to no git repository", refused {
        "sandbox.zones.*.path" => "sandbox: { mode: direct, zones: { a: { path: ./full } } }",
        "sandbox.zones.*.path" => "sandbox: { root: full, zones: { a: { path: ./sub } } }",
        "sandbox.root" => "sandbox: { root: full }",
        "sandbox.paths.*.root" => "sandbox: { paths: { a: { root: ./full, mode: rw } } }",
        "sandbox.mounts[*].source" => "sandbox: { mounts: [{ source: ./full, target: /a }] }",
        "sandbox.write_paths[*]" => "sandbox: { write_paths: [./full] }",
    }
    /// Commands see the names of directories.
    VARIABLE = "shows commands a variable of yours, in a path", refused, with_value {
        "sandbox.zones.*.path" => "sandbox: { zones: { a: { path: 'a${CC}' } } }",
        "sandbox.root" => "sandbox: { root: '${CC}/sub' }",
        "sandbox.paths.*.root" => "sandbox: { paths: { a: { root: './${CC}/sub' } } }",
        "sandbox.mounts[*].source" => "sandbox: { mounts: [{ source: './${CC}/sub', target: /a }] }",
        "sandbox.read_paths[*]" => "sandbox: { read_paths: ['./${CC}/sub'] }",
        "sandbox.write_paths[*]" => "sandbox: { write_paths: ['./${CC}/sub'] }",
        "knowledge_base" => "knowledge_base: './${CC}/sub'",
    }
    NETWORK = "lets commands use the network", ignored("the network stays off") {
        "network" => "network: true",
        "network" => "network: { allow: [example.com] }",
    }
    NETWORK_AND_PORTS = "lets commands use the network, and programs of this host connect to servers of commands", ignored("the network stays off, and no port is published") {
        "network" => "network: { allow: [example.com], loopback_in: [8080] }",
    }
    /// The network stays off.
    PUBLISHED_PORTS = "lets programs of this host connect to servers of commands", ignored("no port is published") {
        "network" => "network: { loopback_in: [8080] }",
    }
    MODE_AUTO = "answers every question with yes", ignored("the rules decide") {
        "approval.mode" => "approval: { mode: auto }",
    }
    UNASKED = "runs without asking", ignored("it asks as before") {
        "approval.require_user_permission.*" => "approval: { require_user_permission: { shell: false } }",
        "approval.require_user_permission_by_risk.*" => "approval: { require_user_permission_by_risk: { exec: false } }",
    }
    /// A pre-approved command runs a program without asking, for any pattern.
    COMMAND = "runs commands without asking", ignored("it asks"), falls_back_to("ask") {
        "shell.rules[*].approval" => "shell: { rules: [{ pattern: \"grep *\", approval: preApproved }] }",
    }
    DELETE = "deletes without asking", ignored("deleting asks"), falls_back_to("ask") {
        "sandbox.zones.*.approval.delete" => "sandbox: { zones: { a: { path: ./a, approval: { delete: preApproved } } } }",
        "workers.*.sandbox.zones.*.approval.delete" => "---\nsandbox: { zones: [{ name: cache, approval: { delete: preApproved } }] }\n---\nWork.\n",
    }
    PASS = "hands a variable of yours to commands", ignored("it is not passed") {
        "shell.env.pass[*]" => "shell: { env: { pass: [CC] } }",
    }
    HOOK = "changes what every command runs", ignored("it is not set") {
        "shell.env.set.*" => "shell: { env: { set: { LD_PRELOAD: x } } }",
    }
    RUNS_DIR = "keeps runs outside the project or behind a link", ignored("they are kept in the state directory") {
        "runs_dir" => "runs_dir: ../outside",
        "log.dir" => "log: { dir: ../outside }",
    }
    DOCKER_IMAGE = "decides what runs in containers", ignored("the default image is used") {
        "docker.image" => "docker: { image: other }",
    }
    DOCKER_HOST = "hands files to a docker engine", ignored("the local engine is used") {
        "docker.host" => "docker: { host: 'tcp://example.com' }",
    }
    DOCKER_NETWORK = "gives containers a network", ignored("they have none") {
        "docker.network_default" => "docker: { network_default: bridge }",
    }
    /// Named or all: a daemon has rights of its own.
    SOCKETS = "lets commands talk to local daemons", ignored("sockets stay closed") {
        "sandbox.unix_sockets" => "sandbox: { unix_sockets: open }",
        "sandbox.unix_sockets" => "sandbox: { unix_sockets: [/run/agent.sock] }",
    }
    /// Files beside the programs can be read, too.
    PROGRAMS = "lets commands read and run what lies there", ignored("commands do not see it") {
        "sandbox.programs[*]" => "sandbox: { programs: [/opt/tools/bin] }",
    }
    /// Bound to the contents of the presets.
    PRESETS = "gives commands the hosts, programs and variables of presets", ignored("no preset is used"), with_value {
        "sandbox.presets" => "sandbox: { presets: [rust] }",
    }
    SHOW = "shows names of secrets", ignored("they stay hidden") {
        "sandbox.show[*]" => "sandbox: { show: [\"*.pem\"] }",
    }
    UNPROTECT = "lets workers and commands write what other programs obey", ignored("it stays protected") {
        "sandbox.unprotect[*]" => "sandbox: { unprotect: [.vscode] }",
    }
    SURVIVORS = "lets processes outlive their command", ignored("they are ended") {
        "sandbox.survivors" => "sandbox: { survivors: left }",
    }
    /// In a linked worktree it shows the repository outside.
    GIT_COMMIT = "shows commands the repository that a linked worktree belongs to", ignored("repositories are files like others") {
        "git.mode" => "git: { mode: commit }",
    }
    /// Staging, reading, and telling a server about it.
    GIT_REPOSITORY = "lets workers pull from a repository elsewhere, and stage for it", ignored("no worker has it"), with_value {
        "git.repositories[*]" => "git: { repositories: [octo/reports] }",
        "git.repositories[*]" => "git: { repositories: [{ repo: ../outside, access: ro }] }",
    }
    /// Sends the user's credentials to a server that the project chooses.
    GIT_CREDENTIAL = "says to a server of its choosing who you are", ignored("the server gets no credentials"), with_value {
        "git.credentials.*" => "git: { credentials: { 'https://example.com': { token_env: GITHUB_TOKEN } } }",
        "git.credentials.*" => "git: { credentials: { 'ssh://git@example.com': { agent: true } } }",
    }
    EXECUTABLE_CONFIG = "lets workers stage what programs obey or servers run", ignored("such files are refused") {
        "git.allow_executable_config" => "git: { allow_executable_config: true }",
    }
    /// One of the names may lie outside.
    HARD_LINKS = "writes files that have other names elsewhere", ignored("they are read only") {
        "sandbox.hardlinks" => "sandbox: { hardlinks: allow }",
        "sandbox.paths.*.hardlinks" => "sandbox: { paths: { a: { root: ./a, hardlinks: allow } } }",
        "sandbox.zones.*.hardlinks" => "sandbox: { zones: { a: { path: ./a, hardlinks: allow } } }",
    }
    /// Everything that workers read goes there, and a key with it.
    PROVIDER = "sends what workers read, and a key of yours if one is named, to a server that the project chooses", ignored("no model of it is used"), with_value {
        "providers.*" => "providers: { local: { wire: openai-chat, base_url: 'https://example.com/v1', api_key_env: OPENAI_API_KEY } }",
        "providers.*" => "providers: { anthropic: { prices: { input: 0, output: 0 } } }",
    }
}
