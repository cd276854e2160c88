//! File tools: `FileSandbox` with the mounts and rules that a policy means for them.

use crate::case::Case;
use crate::verb::Verb;
use crate::verdict::Seen;
use crate::world::{WRITTEN, World};
use file_sandbox::{
    Error, FileSandbox, ListOptions, Mount, MoveOptions, SandboxPath, WriteOptions,
};

/// Far above any file of a tree.
const MAX_BYTES: u64 = 1 << 20;

pub(crate) fn attempt(world: &World<'_>, cases: &[&Case]) -> Result<Vec<Seen>, String> {
    let authority = cap_std::ambient_authority();
    let files = world.spec.files(|target, dir, mode| {
        Mount::open_ambient(target.clone(), world.top.join(dir), mode, authority)
            .map_err(|error| error.to_string())
    })?;
    Ok(cases
        .iter()
        .map(|case| one(&files, case.verb, &world.for_tools(case)))
        .collect())
}

pub(crate) fn one(files: &FileSandbox, verb: Verb, words: &[String]) -> Seen {
    match tried(files, verb, words) {
        Ok(text) => Seen::Through(text),
        Err(error) => Seen::Denied(format!("{}: {error}", error.kind())),
    }
}

fn tried(files: &FileSandbox, verb: Verb, words: &[String]) -> Result<String, Error> {
    let path = |index: usize| SandboxPath::parse(words.get(index).map_or("", String::as_str));
    let none = |_| String::new();
    let first = path(0)?;
    let options = WriteOptions::new;
    let replace = || MoveOptions::new().overwrite(true);
    match verb {
        Verb::Read => files
            .read_bytes(&first, MAX_BYTES)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        Verb::List => files
            .list(&first, ListOptions::new())
            .map(|listing| listing.entries.len().to_string()),
        Verb::Stat => files.stat(&first).map(|_| String::new()),
        Verb::Write => files
            .write(&first, WRITTEN, options())
            .map(|_| String::new()),
        Verb::Create => files
            .write(&first, WRITTEN, options().create_new(true))
            .map(|_| String::new()),
        Verb::Append => files
            .append(&first, WRITTEN.as_bytes())
            .map(|_| String::new()),
        Verb::Truncate => files.write(&first, "", options()).map(|_| String::new()),
        Verb::Delete | Verb::Rmdir => files.delete(&first).map(none),
        Verb::Mkdir => files.create_dir(&first).map(|_| String::new()),
        Verb::Copy => files
            .copy(&first, &path(1)?, replace())
            .map(|_| String::new()),
        Verb::Rename => files
            .rename(&first, &path(1)?, replace())
            .map(|_| String::new()),
        // Not asked: the columns do not have them.
        Verb::Readlink
        | Verb::Hardlink
        | Verb::Symlink
        | Verb::Chmod
        | Verb::Times
        | Verb::Setid
        | Verb::Execute
        | Verb::Tcp
        | Verb::Udp
        | Verb::Listen
        | Verb::OwnLoopback
        | Verb::Unix
        | Verb::Abstract
        | Verb::Pair
        | Verb::Bind
        | Verb::Signal
        | Verb::SignalOwn
        | Verb::Descriptor
        | Verb::Variable => Ok(String::new()),
    }
}
