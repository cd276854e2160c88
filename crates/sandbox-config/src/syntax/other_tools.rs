//! How other tools spell a restriction, and how forge does. A restriction that is spelled in
//! another tool's words and ignored would not hold: its author must be told, and told forge's word.
//! These apply in every mapping; a spelling with a meaning in one mapping only is in that mapping's
//! own table, which is asked first.

/// Our words for a spelling of other tools. `allowedTools`, `allowed_tools` and `allowed-tools`
/// are one spelling.
pub(crate) fn our_words(key: &str) -> Option<&'static str> {
    // No spelling below is longer, and a foreign word may be of any length.
    if key.len() > 48 {
        return None;
    }
    let plain: String = key
        .chars()
        .filter(|c| !matches!(c, '_' | '-' | '.' | ' '))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    rows()
        .find(|(spellings, _)| spellings.split(' ').any(|one| one == plain))
        .map(|(_, words)| words)
}

fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut lines = ROWS.lines().map(str::trim_start);
    std::iter::from_fn(move || lines.next().zip(lines.next()))
}

/// Spellings without separators, in lower case, and below them ours.
const ROWS: &str = r#"allowedtools allowtools enabledtools includetools coretools
    use `tools:`, in a worker's file; which calls ask is `approval:` in the project file
disallowedtools deniedtools denytools excludetools blockedtools disabledtools
    forge lists what is allowed: `tools: [read_file, …]`, in a worker's file
permissions permission privileges capabilities
    use `sandbox:` for files, `network:`, `shell.rules:` for commands, and `approval:` for what asks
permissionmode approvalpolicy askforapproval defaultmode approvalmode
    did you mean `approval.mode:`? It is tool, manual, auto or deny
autoapprove autoapproval alwaysallow trustedtools yolo dangerouslyskippermissions bypasspermissions
    use `approval.mode: auto`, or `approval.require_user_permission:` by tool; in a project file both need a person's yes
allow deny ask allowlist denylist whitelist blacklist
    use `shell.rules:` with `approval: preApproved`, `ask` or `blocked` for commands, and `network: { allow: […] }` for hosts
additionaldirectories adddirs includedirectories allowedpaths alloweddirectories allowedroots roots
    forge names directories under `sandbox:`, as `zones`, `paths`, `mounts`, or `read_paths` and `write_paths`
writableroots writablepaths allowwrite writeallow
    use `sandbox.write_paths:`, or `mode: rw` on a mount
readableroots readablepaths allowread readallow
    use `sandbox.read_paths:`, or `mode: ro` on a mount
denywrite readonlypaths protectedpaths protectedfiles
    did you mean `sandbox.protect:`?
denyread deniedpaths blockedpaths ignorepatterns ignorepaths excludepaths secrets
    did you mean `sandbox.hide:`?
sandboxmode sandboxpolicy sandboxpermissions
    use `sandbox:`; a mount that is not written is `mode: ro`
readonly readonlymode writeable writable
    use `mode: ro` or `mode: rw` on a mount; a root project has `sandbox.readonly:`
networkaccess allownetwork enablenetwork networkenabled internet allowinternet
    use `network:` with `false`, `true` or `{ allow: [host] }`
alloweddomains allowdomains allowedhosts allowedurls domainallowlist networkallowlist
    did you mean `network: { allow: ["example.com:443", "*.example.org"] }`?
denieddomains blockeddomains deniedhosts domaindenylist
    use `network: { allow: […], deny: […] }`; hosts that `allow` does not name are refused anyway
mcpservers mcp
    forge starts no MCP servers of a project: it is one itself, `forge mcp`
hooks prehooks posthooks pretooluse posttooluse
    forge runs no hooks: what must not happen is a `blocked` rule in `shell.rules:` or an `approval:`
shellrules commandrules execpolicy execrules bashrules
    use `shell.rules:`, each with `pattern:` and `approval: preApproved`, `ask` or `blocked`
allowedcommands allowcommands commandallowlist safecommands trustedcommands
    use `shell.rules:` with `approval: preApproved`
deniedcommands denycommands blockedcommands disallowedcommands excludedcommands commanddenylist
    use `shell.rules:` with `approval: blocked`
env environment inheritenv passenv envvars shellenvironmentpolicy
    use `shell.env: { pass: […], set: {…} }`, in the project file
maxturns maxiterations maxsteps recursionlimit
    did you mean `limits.max_turns:`?
maxtokens tokenbudget maxoutputtokens
    did you mean `limits.max_tokens:`?
maxcost maxbudget maxbudgetusd costlimit
    did you mean `limits.max_cost_usd:`?
timeout timeoutms timeoutsec timeoutseconds
    use `limits.timeout_s_default:`, in seconds
maxdepth maxrecursion
    did you mean `delegation.max_depth:`?
agents subagents delegates handoffs allowedagents allowedworkers
    use `workers:`, in a worker's file
childsandbox
    there is no such key: a child's rights follow from its own declaration
systemprompt prompt developermessage
    use `instructions:`, or write it below the front matter of a worker
cwd workdir workingdirectory
    commands start where the mounts are shown; where a project is, `-C DIR` says
include includes extends imports inherits inheritfrom
    one file holds everything: nothing is read in from elsewhere"#;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn one_spelling_means_one_thing() {
        let mut seen = BTreeSet::new();
        for spelling in rows().flat_map(|(spellings, _)| spellings.split(' ')) {
            assert!(seen.insert(spelling), "{spelling} twice");
            assert!(
                spelling.chars().all(|c| c.is_ascii_lowercase()),
                "{spelling}"
            );
        }
    }
}
