//! Labels that name the owner of a container or volume: the broker, the machine and its boot. A
//! killed broker cannot remove its containers; the labels tell the next broker that their owner is
//! gone.

use crate::owner::{self, OwnerId};
use nix::unistd::geteuid;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Label of everything that this crate makes.
pub(super) const OWNER: &str = "os-sandbox.owner";
const OURS: &str = "os-sandbox";
const PID: &str = "os-sandbox.pid";
const STARTED: &str = "os-sandbox.started";
const NAMESPACE: &str = "os-sandbox.pid-namespace";
const BOOT: &str = "os-sandbox.boot";
const STATE: &str = "os-sandbox.state";

/// Returns the labels for containers and volumes of this process, for runs with their state in
/// `state_dir`.
pub(super) fn labels(state_dir: Option<&Path>) -> HashMap<String, String> {
    let pid = std::process::id();
    let started = match owner::life(pid) {
        OwnerId::Since(started) => Some(started),
        OwnerId::Gone | OwnerId::Unknown => None,
    };
    [
        (OWNER, Some(OURS.to_owned())),
        (PID, Some(pid.to_string())),
        (STARTED, started),
        (NAMESPACE, owner::namespace()),
        (BOOT, owner::boot()),
        (STATE, Some(state(state_dir))),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect()
}

/// Returns the filters of a request for everything that this crate made.
pub(super) fn filters() -> HashMap<String, Vec<String>> {
    HashMap::from([("label".to_owned(), vec![format!("{OWNER}={OURS}")])])
}

/// Returns `true` if the labels name a broker of this machine that has ended. Returns `false` if
/// that cannot be decided, because the owner may be alive.
pub(super) fn is_orphan(labels: &HashMap<String, String>, state_dir: Option<&Path>) -> bool {
    is_orphan_of(
        labels,
        state_dir,
        owner::boot(),
        owner::namespace(),
        owner::life,
    )
}

fn is_orphan_of(
    labels: &HashMap<String, String>,
    state_dir: Option<&Path>,
    boot: Option<String>,
    namespace: Option<String>,
    life: impl Fn(u32) -> OwnerId,
) -> bool {
    let is =
        |name: &str, value: Option<String>| value.is_some() && labels.get(name) == value.as_ref();
    let near = is(OWNER, Some(OURS.to_owned()))
        && is(STATE, Some(state(state_dir)))
        && is(BOOT, boot)
        && is(NAMESPACE, namespace);
    let pid = labels.get(PID).and_then(|pid| pid.parse().ok());
    match (near, pid, labels.get(STARTED)) {
        (true, Some(pid), Some(started)) => match life(pid) {
            OwnerId::Since(now) => now != *started,
            OwnerId::Gone => true,
            OwnerId::Unknown => false,
        },
        _ => false,
    }
}

/// Returns an id of the user and the state directory. Only a broker with the same id removes a
/// container, so those of other users and installations stay.
fn state(state_dir: Option<&Path>) -> String {
    let mut hash = Sha256::new();
    hash.update(geteuid().as_raw().to_le_bytes());
    if let Some(path) = state_dir {
        hash.update(path.as_os_str().as_bytes());
    }
    hash.finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_surely_nobodys_is_an_orphan() {
        let ours = labels(None);
        let me = std::process::id();
        let of = |labels: &HashMap<String, String>, life: OwnerId| {
            is_orphan_of(labels, None, owner::boot(), owner::namespace(), |pid| {
                assert_eq!(pid, me);
                life.clone()
            })
        };
        let since = ours.get(STARTED).cloned().unwrap();
        for (life, orphan) in [
            (OwnerId::Gone, true),
            (OwnerId::Unknown, false),
            (OwnerId::Since(since), false),
            (OwnerId::Since("another time".to_owned()), true),
        ] {
            assert_eq!(of(&ours, life.clone()), orphan, "{life:?}");
        }
        for name in [OWNER, PID, STARTED, NAMESPACE, BOOT, STATE] {
            let mut other = ours.clone();
            other.remove(name);
            assert!(!of(&other, OwnerId::Gone), "without {name}");
            if !matches!(name, PID | STARTED) {
                other.insert(name.to_owned(), "another".to_owned());
                assert!(!of(&other, OwnerId::Gone), "another {name}");
            }
        }
        assert!(!is_orphan(&ours, None), "we are alive");
        assert!(!is_orphan_of(&ours, None, None, None, |_| OwnerId::Gone));
        assert!(!is_orphan(&labels(Some(Path::new("/elsewhere"))), None));
    }

    #[test]
    fn an_ended_process_is_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(owner::life(pid), OwnerId::Gone);
    }
}
