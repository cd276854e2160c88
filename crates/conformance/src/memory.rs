//! File tools in memory: the tree and rules of a case without a host.

use crate::case::Case;
use crate::files;
use crate::policy::PolicySpec;
use crate::tree::Tree;
use crate::verdict::Seen;
use crate::world::words;
use file_sandbox::{
    EntryKind, FileSandbox, Mode, Mount, Restriction, SandboxPath, WalkOptions, WriteOptions,
};
use std::collections::BTreeMap;

/// The target of links and words that name the host.
const NOWHERE: &str = "/no/such/host";

/// Tries one case in a fresh tree. A denied attempt must not have changed the tree.
pub(crate) fn attempt(tree: &Tree, spec: &PolicySpec, case: &Case) -> Result<Seen, String> {
    let say = |error: file_sandbox::Error| error.to_string();
    let whole = plant(tree, spec)?;
    let read_only = whole
        .restrict(&Restriction::new().read_only(true))
        .map_err(say)?;
    let files = spec.files(|target, _, mode| {
        let of = if mode.can_write() { &whole } else { &read_only };
        let found = of.mounts().iter().find(|mount| mount.target() == target);
        found
            .cloned()
            .ok_or_else(|| format!("no mount at {target}"))
    })?;
    let values = BTreeMap::from([("outside".to_owned(), format!("{NOWHERE}/outside"))]);
    let before = picture(&whole)?;
    let words = words(case, &values, str::to_owned);
    let seen = files::one(&files, case.verb, &words);
    let same = picture(&whole)? == before;
    match &seen {
        Seen::Denied(text) if !same => Err(format!("denied ({text}), and something was changed")),
        Seen::Through(_) if same && case.verb.changes() => {
            Err("it said so, and nothing was changed".to_owned())
        }
        Seen::Denied(_) | Seen::Through(_) => Ok(seen),
    }
}

/// Returns a sandbox of every readable mount, writable and without rules. A submount gets a mount
/// of its own.
fn plant(tree: &Tree, spec: &PolicySpec) -> Result<FileSandbox, String> {
    let say = |error: file_sandbox::Error| error.to_string();
    let owner = |name: &str| {
        spec.mounts
            .iter()
            .filter(|[_, dir, letters]| {
                let rest = name.strip_prefix(dir.as_str());
                letters.contains('r') && rest.is_some_and(|rest| rest.starts_with('/'))
            })
            .max_by_key(|[_, dir, _]| dir.len())
    };
    let mut mounts = Vec::new();
    for [shown, dir, letters] in &spec.mounts {
        if !letters.contains('r') {
            continue;
        }
        let mut mount = Mount::memory(SandboxPath::parse(shown).map_err(say)?, Mode::ReadWrite);
        for (name, text) in &tree.links {
            if owner(name).is_some_and(|[_, other, _]| other == dir) {
                let below = SandboxPath::parse(&name[dir.len() + 1..]).map_err(say)?;
                let text = text.replace("{top}", NOWHERE);
                mount = mount.with_link(&below, text).map_err(say)?;
            }
        }
        mounts.push(mount);
    }
    let whole = FileSandbox::new(mounts).map_err(say)?;
    let place = |name: &str| -> Result<Option<SandboxPath>, String> {
        let Some([shown, dir, _]) = owner(name) else {
            return Ok(None);
        };
        let below = &name[dir.len()..];
        let path = format!("{}{below}", shown.trim_end_matches('/'));
        let path = SandboxPath::parse(&path).map_err(say)?;
        // A path that another mount covers is unreachable.
        let covers = |[other, _, _]: &[String; 3]| {
            other.len() > shown.len()
                && SandboxPath::parse(other).is_ok_and(|other| path.starts_with(&other))
        };
        Ok((!spec.mounts.iter().any(covers)).then_some(path))
    };
    for name in &tree.dirs {
        if let Some(path) = place(name)? {
            whole.create_dir(&path).map_err(say)?;
        }
    }
    for (name, text) in tree.files() {
        if let Some(path) = place(name)? {
            whole.write(&path, text, WriteOptions::new()).map_err(say)?;
        }
    }
    Ok(whole)
}

fn picture(whole: &FileSandbox) -> Result<Vec<(String, Vec<u8>)>, String> {
    let say = |error: file_sandbox::Error| error.to_string();
    let all = whole
        .walk(&SandboxPath::root(), WalkOptions::new())
        .map_err(say)?;
    all.entries
        .into_iter()
        .map(|entry| {
            let path = SandboxPath::parse(&format!("/{}", entry.name)).map_err(say)?;
            let bytes = match entry.kind {
                EntryKind::File => whole.read_bytes(&path, 1 << 20).map_err(say)?,
                EntryKind::Directory | EntryKind::Link | EntryKind::Other => Vec::new(),
            };
            Ok((entry.name, bytes))
        })
        .collect()
}
