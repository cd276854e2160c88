//! Lines about the refused attempts that explain the failure of a command.

use os_sandbox::{Denial, DenialReason};

/// Bound on the lines.
const MAX_LINES: usize = 5;
/// A shorter name occurs in too many texts.
const MIN_NAME_BYTES: usize = 3;
/// Words of programs that were refused a file or a local socket.
const NOT_PERMITTED: [&str; 8] = [
    "Permission denied",
    "Read-only file system",
    "Operation not permitted",
    "Device or resource busy",
    "EACCES",
    "EPERM",
    "EROFS",
    "EBUSY",
];
/// Words of programs that did not reach a host.
const NOT_REACHED: [&str; 4] = [
    "Network is unreachable",
    "ENETUNREACH",
    "Connection refused",
    "ECONNREFUSED",
];

/// Returns the denials that explain why a command failed. `said` is the end of its error output, if
/// that is known: denials of objects that it names; without any, those of the kind that it speaks of,
/// and all if it says nothing. A denial that a program expected and got over explains nothing.
///
/// ```
/// use os_sandbox::{Denial, DenialReason, DeniedOperation};
///
/// let denial = |object: &str| Denial {
///     operation: DeniedOperation::Create,
///     object: object.into(),
///     reason: DenialReason::Outside,
///     program: "python3".into(),
/// };
/// let denials = [denial("/usr/lib/__pycache__"), denial("/etc/app.conf")];
/// let said = "cannot create /etc/app.conf: Permission denied";
/// assert_eq!(forge_tools::relevant_denials(&denials, Some(said)), [&denials[1]]);
/// assert!(forge_tools::relevant_denials(&denials, Some("1 test failed")).is_empty());
/// ```
pub fn relevant_denials<'a>(denials: &'a [Denial], said: Option<&str>) -> Vec<&'a Denial> {
    // Name resolution asks a local daemon before it asks the network (nscd(8)).
    let is_of_network = |denial: &Denial| {
        let same = |one: &&Denial| one.program == denial.program;
        let mut others = denials.iter().filter(same);
        others.any(|one| one.reason == DenialReason::NetworkOff)
    };
    let is_expected = |denial: &Denial| {
        denial.reason == DenialReason::LocalSocketsClosed && is_of_network(denial)
    };
    let denials = denials.iter().filter(|denial| !is_expected(denial));
    let Some(said) = said.filter(|said| !said.trim().is_empty()) else {
        return denials.collect();
    };
    let is_named = |denial: &&Denial| {
        let object = denial.object.as_str();
        let last = object.rsplit('/').next().unwrap_or(object);
        said.contains(object) || last.len() >= MIN_NAME_BYTES && said.contains(last)
    };
    let named: Vec<&Denial> = denials.clone().filter(is_named).collect();
    if !named.is_empty() {
        return named;
    }
    let speaks = |words: &[&str]| words.iter().any(|words| said.contains(words));
    let (not_permitted, not_reached) = (speaks(&NOT_PERMITTED), speaks(&NOT_REACHED));
    denials
        .filter(|denial| match denial.reason {
            DenialReason::NetworkOff | DenialReason::NotNamed => not_reached,
            _ => not_permitted,
        })
        .collect()
}

/// Returns how much a denial says about a hostile command: first names that other programs obey and
/// secrets, then connections.
fn rank(denial: &Denial) -> usize {
    use DenialReason::{
        GitConfig, Hidden, Holds, LocalSocketsClosed, NetworkOff, NotNamed, Protected,
        ProtectedPart, Quarantine, SocketNotNamed,
    };
    match denial.reason {
        Protected(_) | Hidden(_) | Holds { .. } | GitConfig(_) | ProtectedPart | Quarantine => 0,
        NetworkOff | NotNamed | LocalSocketsClosed | SocketNotNamed => 1,
        _ => 2,
    }
}

/// Returns a line for each of a few denials, and one about further ones. If there are more, the first
/// ones of each kind are listed. `writable`: the paths that
/// the command can write, which the first line about another path names. `omitted`: there were
/// attempts that are not among the denials.
///
/// ```
/// use os_sandbox::{Denial, DenialReason, DeniedOperation};
///
/// let denial = Denial {
///     operation: DeniedOperation::Write,
///     object: "/etc/hosts".into(),
///     reason: DenialReason::Outside,
///     program: "sh".into(),
/// };
/// let lines = forge_tools::describe_denials(&[&denial], &["/work".to_owned()], false);
/// assert_eq!(lines, ["refused: write /etc/hosts (outside; writable: /work)"]);
/// ```
pub fn describe_denials(denials: &[&Denial], writable: &[String], omitted: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut has_listed = false;
    let mut listed: Vec<&Denial> = denials.to_vec();
    if listed.len() > MAX_LINES {
        let mut count = [0_usize; 3];
        listed.sort_by_cached_key(|denial| {
            let rank = rank(denial);
            count[rank] += 1;
            (count[rank] > MAX_LINES / 2, rank, count[rank])
        });
    }
    for denial in listed.iter().take(MAX_LINES) {
        let Denial {
            operation, reason, ..
        } = denial;
        let object = shortened(&denial.object);
        let line = match reason {
            DenialReason::Outside if !has_listed => {
                has_listed = true;
                let writable = match writable {
                    [] => "none".to_owned(),
                    paths => paths.join(", "),
                };
                format!("refused: {operation} {object} (outside; writable: {writable})")
            }
            _ => format!("refused: {operation} {object} ({reason})"),
        };
        lines.push(line);
    }
    let more = denials.len().saturating_sub(MAX_LINES);
    match (more, omitted) {
        (0, false) => {}
        (0, true) => lines.push("refused: more, which are not listed".to_owned()),
        (more, false) => lines.push(format!("refused: {more} more")),
        (more, true) => lines.push(format!("refused: more than {more} more")),
    }
    lines
}

/// Returns the beginning and the end of a long path.
fn shortened(object: &str) -> String {
    const MAX_CHARS: usize = 200;
    let length = object.chars().count();
    if length <= MAX_CHARS {
        return object.to_owned();
    }
    let half = MAX_CHARS / 2;
    let start = object.chars().take(half);
    let end = object.chars().skip(length - half);
    start.chain("...".chars()).chain(end).collect()
}
