//! Attempts of a command that its policy refused. Linux reports them ([`Command::reports`]).
//!
//! [`Command::reports`]: crate::Command::reports

use crate::access::Access;
use crate::escape::visible;
use crate::git_config::GitConfigChange;
use crate::policy::{Mount, NameGuard, Network, Policy};
use crate::quarantine::QUARANTINE;
use crate::reports::Touched;
use nix::sys::statvfs::{FsFlags, statvfs};
use std::fmt;
use std::path::{Path, PathBuf};

/// One attempt of a command that its policy refused. It is a report: the system refused the call, and
/// another process compared the arguments of the call with the policy. A program that wants to
/// mislead can exchange its arguments meanwhile.
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
/// assert_eq!(denial.to_string(), "write /etc/hosts (outside)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Denial {
    /// The operation.
    pub operation: DeniedOperation,
    /// The path as the policy shows it, `ADDRESS:PORT`, or the family of a socket. Invisible
    /// characters are escaped.
    pub object: String,
    /// The reason.
    pub reason: DenialReason,
    /// The name of the program, which the kernel cuts after 15 bytes. Empty if the program had ended.
    pub program: String,
}

sandbox_names::word_enum! {
    /// The operation of a [`Denial`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    #[non_exhaustive]
    pub enum DeniedOperation {
        /// Opening for reading, or listing a directory.
        Read = "read",
        /// Starting a program.
        Execute = "execute",
        /// Opening for writing, or changing the length.
        Write = "write",
        /// Making a file, directory, link or other name.
        Create = "create",
        /// Removing a name.
        Remove = "remove",
        /// Moving a name away, or over another one.
        Move = "move",
        /// Changing a mode.
        ChangeMode = "change the mode of",
        /// Binding a local socket to a path.
        Bind = "bind",
        /// Connecting a socket.
        Connect = "connect",
        /// Making a socket.
        MakeSocket = "make",
    }
    fn word
}

/// The reason of a [`Denial`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DenialReason {
    /// No mount shows the path.
    Outside,
    /// No mount shows the path, so that it is missing for the command, and it exists outside.
    NotShown,
    /// The mount of the path cannot be read: its name in the policy.
    NotReadable(String),
    /// Programs in the mount of the path cannot be executed: its name in the policy.
    NotExecutable(String),
    /// The mount of the path cannot be written: its name in the policy.
    ReadOnly(String),
    /// The path is a mount of the policy, which cannot be removed or replaced.
    Mount,
    /// A mount that the command can neither read nor write covers the path: its name in the policy.
    Closed(String),
    /// The path is a directory with names in it that cannot be moved or removed.
    Holds {
        /// The first of these names, as the policy shows it.
        path: String,
        /// The reasons for which they cannot, each once.
        reasons: Vec<DenialReason>,
    },
    /// The path is the quarantine, or in it.
    Quarantine,
    /// A pattern protects the path.
    Protected(String),
    /// A pattern hides the path.
    Hidden(String),
    /// git's configuration is written for it only after a look ([`GitConfig::Judged`]): the reason why
    /// it was not.
    ///
    /// [`GitConfig::Judged`]: crate::GitConfig::Judged
    GitConfig(String),
    /// git obeys the file, and the policy's [`Git`](crate::Git) does not let commands change it; or
    /// another part of the mount that is not writable.
    ProtectedPart,
    /// The policy lets the command reach no other host.
    NetworkOff,
    /// The policy names hosts, and neither a name nor this address and port is among them.
    NotNamed,
    /// The policy closes local sockets.
    LocalSocketsClosed,
    /// The policy names local sockets, and this one is not among them.
    SocketNotNamed,
}

/// The denials of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Denials {
    /// The first denials, each once, in the order of the attempts.
    pub listed: Vec<Denial>,
    /// `true` if the bound on reports was reached, and later attempts are not listed.
    pub more: bool,
    /// The objects that the command touched, with full reports.
    pub touched: Option<Touched>,
}

impl Denials {
    /// Names the reasons for which git's configuration was not changed.
    pub(crate) fn explain_configs(&mut self, changes: &[GitConfigChange]) {
        for denial in &mut self.listed {
            let is_move = denial.operation == DeniedOperation::Move;
            let about = |change: &&GitConfigChange| is_move && change.path == denial.object;
            let refused = changes
                .iter()
                .filter(about)
                .find_map(|one| one.refused.clone());
            if let Some(why) = refused {
                denial.reason = DenialReason::GitConfig(why);
            }
        }
    }
}

sandbox_names::display!(DeniedOperation = word());

impl fmt::Display for DenialReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DenialReason::Outside => f.write_str("outside"),
            DenialReason::NotShown => f.write_str("no mount shows it"),
            DenialReason::NotReadable(mount) => write!(f, "{mount} is not readable"),
            DenialReason::NotExecutable(mount) => write!(f, "{mount} is not executable"),
            DenialReason::ReadOnly(mount) => write!(f, "{mount} is read-only"),
            DenialReason::Mount => f.write_str("it is a mount"),
            DenialReason::Closed(mount) => write!(f, "{mount} is closed"),
            DenialReason::Holds { path, reasons } => match reasons.first() {
                Some(reason) => write!(f, "it holds {path}: {reason}"),
                None => write!(f, "it holds {path}"),
            },
            DenialReason::Quarantine => f.write_str("the quarantine"),
            DenialReason::Hidden(pattern) => write!(f, "hidden name {pattern}"),
            DenialReason::Protected(pattern) => write!(f, "protected name {pattern}"),
            DenialReason::GitConfig(why) => f.write_str(why),
            DenialReason::ProtectedPart => f.write_str("a protected part"),
            DenialReason::NetworkOff => f.write_str("the network is off"),
            DenialReason::NotNamed => f.write_str("no rule names it"),
            DenialReason::LocalSocketsClosed => f.write_str("local sockets are closed"),
            DenialReason::SocketNotNamed => f.write_str("not a named socket"),
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.operation, self.object, self.reason)
    }
}

/// A path that a command could not change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefusedPath<'a> {
    /// As the command sees it, without links.
    pub(crate) path: &'a Path,
    /// `true` if the system has a mount there that cannot be written or moved.
    pub(crate) is_fixed: bool,
    /// `true` if the path does not exist where the command looked.
    pub(crate) is_absent: bool,
    /// `true` if the name was to be changed, and not the file.
    pub(crate) is_name: bool,
    /// The paths below mounts that a mount layer covers, as the command sees them.
    pub(crate) guarded: &'a [PathBuf],
}

/// Returns the path as the policy shows it, and the reason for which a change is refused. `None` if
/// the policy allows it, or if the change fails without a policy. `maps_paths`: the command sees
/// mounts at their paths in the sandbox, as under a mount layer; elsewhere it sees paths of the
/// host, protected names are not enforced, and an absent path is absent for everyone.
pub(crate) fn judge_path(
    policy: &Policy,
    refused: RefusedPath<'_>,
    maps_paths: bool,
) -> Option<(String, DenialReason)> {
    let path = refused.path;
    if refused.is_absent && !maps_paths {
        return None;
    }
    let Some((mount, below)) = mount_of(policy, path, maps_paths) else {
        return Some((text(path), DenialReason::Outside));
    };
    // Missing in a mount, so missing for everyone.
    if refused.is_absent {
        return None;
    }
    let shown = shown_below(mount, &below, path, maps_paths);
    if !mount.access().contains(Access::WRITE) {
        let name = policy_name(mount);
        let reason = match mount.access().is_none() {
            true => DenialReason::Closed(name),
            false => DenialReason::ReadOnly(name),
        };
        return Some((text(&shown), reason));
    }
    if refused.is_name && below.as_os_str().is_empty() {
        return Some((text(&shown), DenialReason::Mount));
    }
    // A mount layer alone keeps the rest.
    if !maps_paths || !refused.is_fixed {
        return None;
    }
    let reason = match guard_reason(policy, mount, &below) {
        DenialReason::ProtectedPart if refused.is_name => held_names(policy, refused),
        reason => Some(reason),
    };
    match reason.unwrap_or(DenialReason::ProtectedPart) {
        DenialReason::ProtectedPart if is_read_only(&join_host(mount.host(), &below)) => None,
        reason => Some((text(&shown), reason)),
    }
}

/// Returns `true` if the file system of the host itself is read-only at a path, which may not exist.
fn is_read_only(path: &Path) -> bool {
    let mut around = path.ancestors();
    let flags = around.find_map(|path| Some(statvfs(path).ok()?.flags()));
    flags.is_some_and(|flags| flags.contains(FsFlags::ST_RDONLY))
}

/// Returns the reason for which a path below a mount cannot be changed.
fn guard_reason(policy: &Policy, mount: &Mount, below: &Path) -> DenialReason {
    if below.starts_with(QUARANTINE) {
        return DenialReason::Quarantine;
    }
    match policy.guard_of(&join_host(mount.host(), below)) {
        Some(NameGuard::Hidden(pattern)) => DenialReason::Hidden(pattern),
        Some(NameGuard::Protected(pattern)) => DenialReason::Protected(pattern),
        None => DenialReason::ProtectedPart,
    }
}

/// Returns the reason for which a directory with guarded names cannot be moved or removed.
fn held_names(policy: &Policy, refused: RefusedPath<'_>) -> Option<DenialReason> {
    let held = refused.guarded.iter();
    let held = held.filter(|path| path.starts_with(refused.path) && *path != refused.path);
    let mut first = None;
    let mut reasons = Vec::new();
    for path in held {
        let Some((mount, below)) = mount_of(policy, path, true) else {
            continue;
        };
        let reason = guard_reason(policy, mount, &below);
        first.get_or_insert_with(|| text(&shown_below(mount, &below, path, true)));
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    let path = first?;
    Some(DenialReason::Holds { path, reasons })
}

/// A path that a command could not read or execute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefusedLookup<'a> {
    /// As the command sees it, without links.
    pub(crate) path: &'a Path,
    /// [`Access::READ`] or [`Access::EXECUTE`].
    pub(crate) access: Access,
    /// `true` if a mount covers the path that cannot be used.
    pub(crate) is_closed: bool,
}

/// Returns the path of an existing object as the policy shows it, and the reason for which it cannot
/// be read or executed. `None` if the policy allows it. `maps_paths`: as in [`judge_path`].
pub(crate) fn judge_lookup(
    policy: &Policy,
    refused: RefusedLookup<'_>,
    maps_paths: bool,
) -> Option<(String, DenialReason)> {
    let RefusedLookup {
        path,
        access,
        is_closed,
    } = refused;
    let Some((mount, below)) = mount_of(policy, path, maps_paths) else {
        // A mount layer shows nothing outside that cannot be read.
        let is_allowed =
            policy.system_access(path).contains(access) || maps_paths && access == Access::READ;
        return (!is_allowed).then(|| (text(path), DenialReason::Outside));
    };
    let name = policy_name(mount);
    let reason = match mount.access() {
        none if none.is_none() => DenialReason::Closed(name),
        given if !given.contains(access) && access == Access::READ => {
            DenialReason::NotReadable(name)
        }
        given if !given.contains(access) => DenialReason::NotExecutable(name),
        _ if maps_paths && is_closed => {
            match policy.guard_of(&join_host(mount.host(), &below)) {
                Some(NameGuard::Hidden(pattern)) => DenialReason::Hidden(pattern),
                // The mode of the file is the reason.
                Some(NameGuard::Protected(_)) | None => return None,
            }
        }
        _ => return None,
    };
    Some((text(&shown_below(mount, &below, path, maps_paths)), reason))
}

/// Returns `true` if a path that is missing for a command can be one that no mount shows.
pub(crate) fn is_outside(policy: &Policy, path: &Path) -> bool {
    mount_of(policy, path, true).is_none() && policy.system_access(path).is_none()
}

/// Returns a path as the policy shows it.
pub(crate) fn shown_path(policy: &Policy, path: &Path, maps_paths: bool) -> String {
    match mount_of(policy, path, maps_paths) {
        Some((mount, below)) => text(&shown_below(mount, &below, path, maps_paths)),
        None => text(path),
    }
}

/// Returns the mount of a path, and the path below it.
fn mount_of<'a>(policy: &'a Policy, path: &Path, maps_paths: bool) -> Option<(&'a Mount, PathBuf)> {
    let mounts = policy.mounts().iter();
    let found = mounts.filter_map(|mount| {
        let at: &Path = match maps_paths {
            true => Path::new(mount.inside()),
            false => mount.host(),
        };
        Some((mount, at, path.strip_prefix(at).ok()?.to_owned()))
    });
    let (mount, _, below) = found.max_by_key(|(_, at, _)| at.as_os_str().len())?;
    Some((mount, below))
}

fn shown_below(mount: &Mount, below: &Path, path: &Path, maps_paths: bool) -> PathBuf {
    match maps_paths || mount.is_at_host_path() {
        true => path.to_owned(),
        false => join(mount.shown_at(), below),
    }
}

fn policy_name(mount: &Mount) -> String {
    match mount.is_at_host_path() {
        true => mount.inside().to_owned(),
        false => mount.shown_at().to_owned(),
    }
}

/// Returns the reason for which an address of another host is refused. `None` if the policy lets a
/// command reach every host.
pub(crate) fn judge_address(policy: &Policy) -> Option<DenialReason> {
    match policy.network() {
        Network::Denied | Network::Loopback => Some(DenialReason::NetworkOff),
        Network::Hosts(_) => Some(DenialReason::NotNamed),
        Network::Unrestricted => None,
    }
}

fn join(mount: &str, below: &Path) -> PathBuf {
    join_host(Path::new(mount), below)
}

/// Joins without a slash at the end.
fn join_host(mount: &Path, below: &Path) -> PathBuf {
    match below.as_os_str().is_empty() {
        true => mount.to_owned(),
        false => mount.join(below),
    }
}

fn text(path: &Path) -> String {
    visible(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        let builder = Policy::builder()
            .mount("/usr", "/data", Access::READ)
            .protect(".envrc");
        builder.build().expect("a policy")
    }

    #[test]
    fn paths_of_the_host_are_shown_as_mounts() {
        let refused = |path| RefusedPath {
            path: Path::new(path),
            is_fixed: false,
            guarded: &[],
            is_absent: false,
            is_name: false,
        };
        let (shown, reason) = judge_path(&policy(), refused("/usr/lib/a"), false).expect("refused");
        assert_eq!(shown, "/data/lib/a");
        assert_eq!(reason, DenialReason::ReadOnly("/data".to_owned()));
        let (shown, reason) = judge_path(&policy(), refused("/usr/lib/a"), true).expect("refused");
        assert_eq!(
            (shown.as_str(), reason),
            ("/usr/lib/a", DenialReason::Outside)
        );
    }

    #[test]
    fn a_name_cannot_forge_a_line() {
        let refused = RefusedPath {
            path: Path::new("/x\nrefused: write /y"),
            is_fixed: false,
            guarded: &[],
            is_absent: false,
            is_name: false,
        };
        let (shown, _) = judge_path(&policy(), refused, true).expect("refused");
        assert_eq!(shown, "/x\\nrefused: write /y");
    }
}
