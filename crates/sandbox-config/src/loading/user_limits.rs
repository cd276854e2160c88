//! Every key of projects, and its role in the user file: a limit over every project with the meet
//! of two values, a preference, or no effect, with the reason. A test wants a row for every key
//! that is read, so a new key of projects neither limits nothing by accident nor is forgotten.

use crate::grant::docker::DOCKER;
use crate::grant::limits::LIMITS;
use crate::keys;
use crate::syntax::key_table::KeyTable;

/// The role of a key in a user file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UserKeyRole {
    /// Its value holds at most.
    Limit(MeetRule),
    /// Its value gives way to every stronger layer.
    Preference,
    /// One unit: a project's of that name has no part in it.
    Whole,
    /// About this text alone.
    Own,
    /// Refused, because.
    No(&'static str),
}

/// How two values of one key meet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MeetRule {
    /// `false`, then fewer hosts, then `true`.
    Network,
    /// `closed`, then fewer sockets, then `open`.
    Sockets,
    /// `approval.mode`, by strictness.
    Mode,
    /// The stricter verdict; `true` is `ask`.
    Consent,
    /// `true` if either says so.
    True,
    /// `false` if either says so; it is the default.
    False,
    /// The stricter word.
    Stricter(WordOrder),
    /// The smaller number; this table has the default.
    Least(&'static KeyTable),
    /// Both lists.
    Unite,
    /// The blocked rules of both; a user file has no others.
    Blocked,
    /// The intersection of both lists; nothing is the default.
    Within,
    /// The repositories of both lists, with the smaller access; none is the default.
    Repositories,
    /// The intersection of both lists; everything is the default.
    Only,
}

/// The words of a key, and the default among them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WordOrder {
    /// From the loosest to the strictest.
    pub(crate) order: &'static [&'static str],
    pub(crate) unsaid: &'static str,
}

impl WordOrder {
    pub(crate) fn strictness(&self, word: &str) -> Option<usize> {
        self.order.iter().position(|known| *known == word)
    }
}

const fn stricter(order: &'static [&'static str], unsaid: &'static str) -> UserKeyRole {
    UserKeyRole::Limit(MeetRule::Stricter(WordOrder { order, unsaid }))
}

const fn at_most(table: &'static KeyTable) -> UserKeyRole {
    UserKeyRole::Limit(MeetRule::Least(table))
}

/// Keys of `sandbox` that a mount may have for itself, too: there they are met as well.
pub(crate) const OF_MOUNTS: [&str; 4] = ["durable", "hardlinks", "quota", "strict_paths"];

const DIRECTORIES: UserKeyRole =
    UserKeyRole::No("which directories there are is for each project to say");

/// By pattern (`*`: any name); a row speaks for everything below its key.
pub(crate) static ROWS: &[(&str, UserKeyRole)] = &[
    ("version", UserKeyRole::Own),
    ("name", UserKeyRole::No("it names one project")),
    ("model", UserKeyRole::Preference),
    ("entry", UserKeyRole::Preference),
    ("worker_paths", UserKeyRole::Preference),
    ("runs_dir", UserKeyRole::Preference),
    ("log.dir", UserKeyRole::Preference),
    ("log.transcripts", UserKeyRole::Preference),
    ("knowledge_base", DIRECTORIES),
    ("network", UserKeyRole::Limit(MeetRule::Network)),
    ("approval.mode", UserKeyRole::Limit(MeetRule::Mode)),
    (
        "approval.require_user_permission.*",
        UserKeyRole::Limit(MeetRule::Consent),
    ),
    (
        "approval.require_user_permission_by_risk.*",
        UserKeyRole::Limit(MeetRule::Consent),
    ),
    ("approval.timeout_s", at_most(&keys::APPROVAL)),
    ("shell.rules", UserKeyRole::Limit(MeetRule::Blocked)),
    (
        "shell.default",
        UserKeyRole::No("your own file only blocks commands: list them under `rules`"),
    ),
    ("shell.allow", UserKeyRole::Limit(MeetRule::Only)),
    ("shell.deny", UserKeyRole::Limit(MeetRule::Unite)),
    ("shell.session", stricter(&["worker", "call"], "call")),
    ("shell.env.pass", UserKeyRole::Limit(MeetRule::Within)),
    (
        "shell.env.set",
        UserKeyRole::No("what commands are given is for each project to say"),
    ),
    ("sandbox.mode", DIRECTORIES),
    ("sandbox.root", DIRECTORIES),
    ("sandbox.zones", DIRECTORIES),
    ("sandbox.readonly", DIRECTORIES),
    ("sandbox.paths", DIRECTORIES),
    ("sandbox.mounts", DIRECTORIES),
    ("sandbox.read_paths", DIRECTORIES),
    ("sandbox.write_paths", DIRECTORIES),
    (
        "sandbox.default",
        UserKeyRole::No("what workers of a project hold is for the project to say"),
    ),
    (
        "sandbox.network",
        UserKeyRole::No("write `network` at the top"),
    ),
    ("sandbox.protect", UserKeyRole::Limit(MeetRule::Unite)),
    ("sandbox.hide", UserKeyRole::Limit(MeetRule::Unite)),
    (
        "sandbox.require_os_sandbox",
        UserKeyRole::Limit(MeetRule::True),
    ),
    ("sandbox.strict_paths", UserKeyRole::Limit(MeetRule::True)),
    ("sandbox.durable", UserKeyRole::Limit(MeetRule::True)),
    (
        "sandbox.hardlinks",
        stricter(&["allow", "read_only", "deny"], "read_only"),
    ),
    ("sandbox.quota.*", at_most(&keys::QUOTA)),
    ("sandbox.programs", UserKeyRole::Preference),
    ("sandbox.show", UserKeyRole::Preference),
    ("sandbox.unprotect", UserKeyRole::Preference),
    (
        "sandbox.unix_sockets",
        UserKeyRole::Limit(MeetRule::Sockets),
    ),
    ("sandbox.survivors", stricter(&["left", "ended"], "ended")),
    ("require", stricter(&["boundaries", "guards"], "boundaries")),
    (
        "git.mode",
        stricter(&["commit", "unaware", "read_only"], "unaware"),
    ),
    ("git.author", UserKeyRole::Preference),
    ("git.trailer", UserKeyRole::Preference),
    (
        "git.allow_executable_config",
        UserKeyRole::Limit(MeetRule::False),
    ),
    (
        "git.repositories",
        UserKeyRole::Limit(MeetRule::Repositories),
    ),
    ("git.credentials.*", UserKeyRole::Whole),
    ("log.redact", UserKeyRole::Limit(MeetRule::Unite)),
    ("limits.*", at_most(&LIMITS)),
    ("providers.*", UserKeyRole::Whole),
    (
        "execution_mode",
        UserKeyRole::No("write `execution: { mode: … }`"),
    ),
    (
        "execution.mode",
        stricter(
            &[
                "local_only",
                "prefer_local",
                "prefer_docker",
                "docker_required",
            ],
            "prefer_local",
        ),
    ),
    ("execution.runners", UserKeyRole::Limit(MeetRule::Only)),
    ("docker.enabled", UserKeyRole::Limit(MeetRule::False)),
    (
        "docker.image",
        UserKeyRole::No("say it for a run: `-c docker.image=…`, or `FORGE__DOCKER__IMAGE`"),
    ),
    (
        "docker.host",
        UserKeyRole::No("say it for a run: `-c docker.host=…`, or `FORGE__DOCKER__HOST`"),
    ),
    (
        "docker.network_default",
        stricter(&["bridge", "none"], "none"),
    ),
    ("docker.cpu_limit", at_most(&DOCKER)),
    ("docker.mem_limit_mb", at_most(&DOCKER)),
    ("docker.pids_limit", at_most(&DOCKER)),
    ("docker.read_only_root", UserKeyRole::Limit(MeetRule::True)),
    ("docker.reuse", stricter(&["session", "call"], "call")),
    ("delegation.max_depth", at_most(&keys::DELEGATION)),
    ("delegation.max_children", at_most(&keys::DELEGATION)),
    (
        "delegation.child_sandbox_policy",
        stricter(&["own", "intersect"], "intersect"),
    ),
];

/// The row of a key.
pub(crate) fn role(names: &[&str]) -> Option<UserKeyRole> {
    let row = ROWS.iter().find(|(pattern, _)| fits(pattern, names));
    row.map(|(_, role)| *role)
}

pub(crate) fn fits(pattern: &str, names: &[&str]) -> bool {
    let mut names = names.iter();
    pattern.split('.').all(|part| {
        names
            .next()
            .is_some_and(|name| part == "*" || part == *name)
    }) && names.next().is_none()
}
