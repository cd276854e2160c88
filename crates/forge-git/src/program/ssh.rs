//! How git starts ssh: with every setting of ours and no file of the person's but the list of host
//! keys, and no key, only an agent that signs. No setting of it starts a program.

use std::path::Path;

/// Where the host keys appear, from the working directory.
pub(super) const KNOWN_HOSTS: &str = "known_hosts";

/// Seconds until a server must have answered the first time.
const CONNECT_S: u8 = 20;

const SETTINGS: &[&str] = &[
    // Questions are never asked.
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "GlobalKnownHostsFile=/dev/null",
    "UpdateHostKeys=no",
    "VerifyHostKeyDNS=no",
    "CanonicalizeHostname=no",
    // Keys are the agent's, and it is not forwarded.
    "IdentityFile=none",
    // By its variable: as a path it would be a pattern.
    "IdentityAgent=SSH_AUTH_SOCK",
    "AddKeysToAgent=no",
    "PreferredAuthentications=publickey",
    "PasswordAuthentication=no",
    "KbdInteractiveAuthentication=no",
    "HostbasedAuthentication=no",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "Tunnel=no",
    "ProxyCommand=none",
    "PermitLocalCommand=no",
    "ControlMaster=no",
    "ControlPath=none",
    "RequestTTY=no",
    "EscapeChar=none",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
    "LogLevel=ERROR",
];

/// The words for `GIT_SSH_COMMAND`, which a shell takes apart.
pub(super) fn command(program: &Path) -> String {
    let mut words = vec![
        quoted(&program.to_string_lossy()),
        "-F".to_owned(),
        "none".to_owned(),
    ];
    let ours = [
        format!("UserKnownHostsFile={KNOWN_HOSTS}"),
        format!("ConnectTimeout={CONNECT_S}"),
    ];
    let settings = SETTINGS.iter().map(|one| (*one).to_owned()).chain(ours);
    for setting in settings {
        words.push("-o".to_owned());
        words.push(quoted(&setting));
    }
    words.join(" ")
}

/// One word of a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
