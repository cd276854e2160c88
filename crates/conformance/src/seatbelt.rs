//! The judge: evaluates the profile for macOS for each operation of an attempt. The README of
//! `seatbelt-eval` says how much that proves.

use crate::case::Case;
use crate::fixtures::Fixtures;
use crate::policy::assumed_top;
use crate::reference::{assumed_places, assumed_words};
use crate::verb::Verb;
use crate::verdict::Seen;
use os_sandbox::{SeatbeltProfile, SeatbeltRun};
use seatbelt_eval::{Host, Profile, Subject, Target};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

pub(crate) fn ask(fixtures: &Fixtures, case: &Case) -> Result<Seen, String> {
    let policy = fixtures.policy(case).policy(&assumed_top(), None)?;
    let run = SeatbeltRun::default();
    let profile = SeatbeltProfile::new(&policy, &run).map_err(|error| error.to_string())?;
    let given: Vec<(&str, &[u8])> = profile
        .parameters()
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    let judge = Profile::parse(profile.text(), &given).map_err(|error| error.to_string())?;
    let Some(asked) = operations(fixtures, case) else {
        return Ok(Seen::Denied("a loop".to_owned()));
    };
    for (operation, subject) in asked {
        let allowed = judge.allows(operation, &subject);
        if !allowed.map_err(|error| error.to_string())? {
            return Ok(Seen::Denied(format!("{operation} of {subject}")));
        }
    }
    Ok(Seen::Through(String::new()))
}

/// Returns the operations that the kernel would check. `None` for a loop of links.
fn operations(fixtures: &Fixtures, case: &Case) -> Option<Vec<(&'static str, Subject)>> {
    let places: Vec<PathBuf> = assumed_places(fixtures, case)
        .into_iter()
        .collect::<Option<_>>()?;
    let at = |operation, index: usize| {
        let path = places[index].as_os_str().as_bytes();
        (operation, Subject::path(path))
    };
    let replaced = |index: usize| {
        let name = places[index].strip_prefix(assumed_top()).ok();
        let name = name.and_then(Path::to_str)?;
        let tree = fixtures.tree(case);
        let exists = tree.files().any(|(file, _)| file == name);
        exists.then(|| at("file-write-unlink", index))
    };
    let domain = "AF_UNIX".to_owned();
    let socket = (
        "system-socket",
        Subject::Socket {
            domain,
            protocol: 0,
        },
    );
    let address = |operation| {
        let host = Host::Loopback;
        (operation, Subject::Address { host, port: 4000 })
    };
    let signal = |target| ("signal", Subject::Process(target));
    Some(match case.verb {
        Verb::Read | Verb::List | Verb::Readlink => vec![at("file-read-data", 0)],
        Verb::Stat => vec![at("file-read-metadata", 0)],
        Verb::Write | Verb::Append | Verb::Truncate => vec![at("file-write-data", 0)],
        Verb::Create | Verb::Mkdir => vec![at("file-write-create", 0)],
        Verb::Delete | Verb::Rmdir => vec![at("file-write-unlink", 0)],
        Verb::Copy => vec![at("file-read-data", 0), at("file-write-data", 1)],
        Verb::Rename => [at("file-write-unlink", 0), at("file-write-create", 1)]
            .into_iter()
            .chain(replaced(1))
            .collect(),
        Verb::Hardlink => vec![at("file-link", 0), at("file-write-create", 1)],
        Verb::Symlink => vec![at("file-write-create", 0)],
        Verb::Chmod => vec![at("file-write-mode", 0)],
        Verb::Setid => vec![at("file-write-mode", 0), at("file-write-setugid", 0)],
        Verb::Times => vec![at("file-write-times", 0)],
        Verb::Execute => vec![at("process-exec*", 0), at("file-read-data", 0)],
        Verb::Tcp | Verb::Udp => vec![address("network-outbound")],
        Verb::Listen => vec![address("network-bind")],
        Verb::OwnLoopback => vec![address("network-bind"), address("network-outbound")],
        Verb::Unix => {
            let path = assumed_words(fixtures, case).first()?.clone();
            let server = Subject::UnixSocket(path.into_bytes());
            vec![socket, ("network-outbound", server)]
        }
        Verb::Signal => vec![signal(Target::Other)],
        Verb::SignalOwn => vec![signal(Target::SameSandbox)],
        // Not asked: the column does not have them.
        Verb::Abstract | Verb::Pair | Verb::Bind | Verb::Descriptor | Verb::Variable => Vec::new(),
    })
}
