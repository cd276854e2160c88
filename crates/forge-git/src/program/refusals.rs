//! The meanings of git's error messages, and advice.

use super::login::CredentialUsed;
use super::run::GitOutput;
use crate::address::{Repo, ServerOrigin};
use crate::error::{GitError, GitErrorKind};
use crate::names::BranchName;

/// A push would leave the working files of that directory behind.
pub(super) fn checked_out(repo: &Repo, branch: &BranchName) -> GitError {
    GitErrorKind::Rejected
        .error(format!(
            "{repo} did not take it: branch '{branch}' is checked out there."
        ))
        .hint("Push to a bare repository, or to another branch.")
}

/// Most lines of git's or a server's output in an error.
const MAX_LINES: usize = 20;

/// As git and ssh say it of a server that they do not get to.
const NOBODY_ANSWERS: &[&str] = &[
    "Could not resolve host",
    "Could not resolve proxy",
    "Couldn't connect to server",
    "Failed to connect to",
    "Connection refused",
    "Connection timed out",
    "Network is unreachable",
    "No route to host",
];

/// The error for a server's refusal of a push.
pub(super) fn refused(
    repo: &Repo,
    branch: &BranchName,
    shown: &CredentialUsed,
    done: &GitOutput,
) -> GitError {
    let answer = String::from_utf8_lossy(&done.answer);
    let rows: Vec<&str> = answer.lines().filter(|row| row.starts_with('!')).collect();
    // The row of the branch has the reason of a refusal; the output of a hook does not count.
    let row_has = |words: &[&str]| {
        let has = |row: &&str| words.iter().any(|word| row.contains(word));
        rows.iter().any(has)
    };
    let lost_the_race = row_has(&["failed to update ref"])
        && ["but expected", "already exists", "File exists"]
            .iter()
            .any(|words| done.complaint.contains(words));
    if lost_the_race || row_has(&["stale info", "fetch first", "non-fast-forward"]) {
        return GitErrorKind::Moved
            .error(format!(
                "Branch '{branch}' of {repo} moved meanwhile; nothing was pushed."
            ))
            .hint("Push again: it is compared with what is there now.");
    }
    if row_has(&["branch is currently checked out"]) {
        return checked_out(repo, branch);
    }
    if rows.is_empty() {
        return failure(repo, shown, done);
    }
    // The verdict first: the output of a hook may be long.
    let rows: Vec<&str> = rows.iter().map(|row| verdict(row)).collect();
    let said = told(&format!("{}\n{}", rows.join("\n"), done.complaint));
    let error = GitErrorKind::Rejected.error(format!("{repo} did not take it:\n{said}"));
    match row_has(&["protected", "hook declined", "pre-receive"]) {
        true => error.hint(
            "Its own rules say no to this branch. Stage it for another branch, or ask whoever \
             keeps it.",
        ),
        false => error,
    }
}

/// `!<tab>FROM:TO<tab>[remote rejected] (WHY)`, without the refs.
fn verdict(row: &str) -> &str {
    row.splitn(3, '\t').nth(2).unwrap_or(row)
}

/// The answer of a run that went well, of the cache alone.
pub(super) fn expect(done: GitOutput, repo: &Repo) -> Result<Vec<u8>, GitError> {
    match done.exit.success() {
        true => Ok(done.answer),
        false => Err(failure(repo, &CredentialUsed::NoServer, &done)),
    }
}

pub(super) fn failure(repo: &Repo, shown: &CredentialUsed, done: &GitOutput) -> GitError {
    let said = &done.complaint;
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let missing = has(&[
        "does not appear to be a git repository",
        "not found",
        "does not exist",
        "ot a git repository",
    ]);
    if let Some(error) = rejected_credentials(repo, shown, done, missing) {
        return error;
    }
    if has(&["certificate", "SSL", "gnutls_handshake", "TLS"]) {
        return GitErrorKind::Failed
            .error(format!(
                "The server of {repo} does not prove that it is the one:\n{}",
                told(said)
            ))
            .hint(
                "If its certificate is by an authority of your own, name that authority's file \
             (SSL_CERT_FILE).",
            );
    }
    if !matches!(shown, CredentialUsed::NoServer) && has(NOBODY_ANSWERS) {
        return GitErrorKind::Unreachable
            .error(format!("{repo} cannot be reached:\n{}", told(said)))
            .hint("Try again when its server answers. Proxies are not used.");
    }
    if missing {
        return not_found(repo);
    }
    GitErrorKind::Failed.error(format!(
        "git failed with {repo} ({}):\n{}",
        done.exit,
        told(said)
    ))
}

/// The error for a server that refused the credentials, or wants some.
fn rejected_credentials(
    repo: &Repo,
    shown: &CredentialUsed,
    done: &GitOutput,
    missing: bool,
) -> Option<GitError> {
    let forbidden = is_unknown(done) || done.complaint.contains("error: 403");
    let (origin, text) = match shown {
        CredentialUsed::Agent(origin) => return over_ssh(repo, origin, &done.complaint),
        CredentialUsed::Login(origin, _) if forbidden => (
            origin,
            format!("{repo} rejected the configured credentials."),
        ),
        // Services hide repositories that only members may see.
        CredentialUsed::None(origin, why) if forbidden || missing => {
            let asks = match missing {
                true => "does not exist, or is hidden without credentials",
                false => "requires credentials",
            };
            let why = why.as_ref().map(|why| format!(", and {why}"));
            (origin, format!("{repo} {asks}{}.", why.unwrap_or_default()))
        }
        CredentialUsed::NoServer | CredentialUsed::Login(..) | CredentialUsed::None(..) => {
            return None;
        }
    };
    Some(
        GitErrorKind::Authentication
            .error(text)
            .hint(two_ways(origin)),
    )
}

fn over_ssh(repo: &Repo, origin: &ServerOrigin, said: &str) -> Option<GitError> {
    let (_, authority) = origin.parts();
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        Some(_) | None => (host, None),
    };
    let scan = port.map(|port| format!("-p {port} ")).unwrap_or_default();
    let listed = port.map_or(name.to_owned(), |port| format!("[{name}]:{port}"));
    let error = |text: String| GitErrorKind::Authentication.error(text);
    if said.contains("HOST IDENTIFICATION HAS CHANGED") || said.contains("REVOKED HOST KEY") {
        return Some(
            error(format!(
                "The host key of {host} is not the one that is known: it is another server, or it \
                 has a new key."
            ))
            .hint(format!(
                "Compare its key with what its operator publishes. If it is new: `ssh-keygen -R \
                 '{listed}' -f KNOWN_HOSTS` and `ssh-keyscan {scan}{name} >> KNOWN_HOSTS`, with \
                 the file that `known_hosts` names."
            )),
        );
    }
    if said.contains("Host key verification failed") {
        return Some(
            error(format!("The host key of {host} is not known.")).hint(format!(
                "Compare what `ssh-keyscan {scan}{name}` prints with what its operator publishes, \
                 and put it into the file that `known_hosts` names: `ssh-keyscan {scan}{name} >> \
                 KNOWN_HOSTS`."
            )),
        );
    }
    if said.contains("Permission denied (") || said.contains("Too many authentication failures") {
        return Some(
            error(format!(
                "{repo} takes no key of the ssh agent, or the agent does not answer."
            ))
            .hint(
                "Add a key that the server knows to the agent (`ssh-add -l` lists what it has), or \
                 use the https address with a token or a credential helper.",
            ),
        );
    }
    None
}

/// The file of certificate authorities is missing.
pub(super) fn no_authorities(repo: &Repo) -> GitError {
    GitErrorKind::Unavailable
        .error(format!(
            "{repo} is not reached: the file with the authorities for servers is not there."
        ))
        .hint("SSL_CERT_FILE names it; without that, the system's list is taken.")
}

/// The agent for an ssh server is missing.
pub(super) fn no_agent(repo: &Repo, origin: &ServerOrigin, why: Option<&str>) -> GitError {
    let why = why.unwrap_or("no ssh agent is named for it");
    GitErrorKind::Authentication
        .error(format!("{repo} is not reached: {why}."))
        .hint(format!(
            "Name the agent in the configuration, or use the https address with a token or a \
         credential helper:\ngit:\n  credentials:\n    \"{origin}\": {{ agent: true, known_hosts: \
         ~/.ssh/known_hosts }}"
        ))
}

/// The possible entries of the configuration, for that server.
fn two_ways(origin: &ServerOrigin) -> String {
    let variable = match origin.as_str() {
        "https://github.com" => "GITHUB_TOKEN",
        _ => "GIT_TOKEN",
    };
    format!(
        "Name a variable that holds a token, or a credential helper, in the configuration:\ngit:\n  \
         credentials:\n    \"{origin}\": {{ token_env: {variable} }}\nor\n    \"{origin}\": {{ \
         helper: [git-credential-libsecret] }}"
    )
}

/// `true` if the server rejected or missed the credentials.
pub(super) fn is_unknown(done: &GitOutput) -> bool {
    let words = [
        "could not read Username",
        "could not read Password",
        "Authentication failed",
        "error: 401",
    ];
    !done.exit.success() && words.iter().any(|word| done.complaint.contains(word))
}

/// `true` if the cache may be damaged, after a loss of power say. A server's words for its own
/// damage are equal; then a second try does no harm.
pub(super) fn is_damaged(done: &GitOutput) -> bool {
    let words = [
        "bad object",
        "corrupt",
        "invalid sha1 pointer",
        "loose object",
        "reference broken",
        "shallow file has changed",
        "unable to read",
    ];
    words.iter().any(|word| done.complaint.contains(word))
}

/// Returns `true` if a server gives objects by the names of branches only.
pub(super) fn wants_no_single(done: &GitOutput) -> bool {
    let words = ["unadvertised object", "not our ref", " not valid"];
    words.iter().any(|word| done.complaint.contains(word))
}

/// The output of git or a server, for a person: readable in length, and without control characters.
fn told(said: &str) -> String {
    let lines = said
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty());
    // Cut between words: a part of a secret is not known as such.
    let line = |line: &str| match line.char_indices().nth(500) {
        None => forge_tools::escape_controls(line),
        Some((end, _)) => {
            let words = line[..end].rsplit_once(' ').map_or("", |(words, _)| words);
            forge_tools::escape_controls(&format!("{words} …"))
        }
    };
    let mut lines = lines.map(line);
    let mut shown: Vec<String> = lines.by_ref().take(MAX_LINES).collect();
    if lines.next().is_some() {
        shown.push("…".to_owned());
    }
    shown.join("\n")
}

pub(super) fn not_found(repo: &Repo) -> GitError {
    GitErrorKind::NotFound.error(format!("There is no repository at {repo}."))
}

pub(super) fn unreadable(repo: &Repo) -> GitError {
    GitErrorKind::Failed.error(format!(
        "What git said of {repo} is not what was asked for."
    ))
}
