//! Settings of git that change its ways and its output, and no program that it runs.

/// The keys, in lower case. Forge passes on a person's own values for them to git in commands.
pub const KEYS: [&str; 31] = [
    "branch.autosetupmerge",
    "branch.autosetuprebase",
    "branch.sort",
    "commit.cleanup",
    "commit.status",
    "commit.verbose",
    "core.autocrlf",
    "core.eol",
    "core.ignorecase",
    "core.quotepath",
    "core.safecrlf",
    "core.whitespace",
    "diff.algorithm",
    "diff.colormoved",
    "diff.context",
    "diff.mnemonicprefix",
    "diff.noprefix",
    "diff.renames",
    "fetch.prune",
    "help.autocorrect",
    "init.defaultbranch",
    "merge.conflictstyle",
    "merge.ff",
    "pull.ff",
    "pull.rebase",
    "push.autosetupremote",
    "push.default",
    "push.followtags",
    "rebase.autosquash",
    "rebase.autostash",
    "rerere.enabled",
];

/// Returns `true` if a command may give a repository this value for good. Some keys change the next
/// push, comparison or mistyped command of a person.
pub(crate) fn may_stay(name: &str, value: &str) -> bool {
    match name {
        "core.ignorecase" | "help.autocorrect" | "push.followtags" => false,
        "push.default" => matches!(value, "simple" | "current" | "upstream" | "nothing"),
        name => KEYS.contains(&name),
    }
}
