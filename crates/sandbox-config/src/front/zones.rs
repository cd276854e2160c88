//! Front-end Z: named zones, lowered to mounts. `sandboxed`: below the sandbox root; `direct`:
//! below the project, or elsewhere if a person agrees.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::grant::mount::{Mode, Mount, RESERVED};
use crate::grant::verdict::{MountApproval, Operation, Verdict};
use crate::project::expand::expand;
use crate::project::walk::Walk;
use crate::project::widening;
use crate::syntax::diagnostic::{Code, Diagnostic};
use crate::syntax::fields::{self, Fields, Reports};
use crate::syntax::keys;
use crate::syntax::text::{Origin, Span};
use crate::syntax::yaml::{Entry, Node};

/// `sandbox.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Zone paths are below the sandbox root and cannot leave it.
    Sandboxed,
    /// Zone paths are below the project directory, or absolute.
    Direct,
}

pub(crate) const PLACEMENTS: [(&str, Placement); 2] = [
    ("sandboxed", Placement::Sandboxed),
    ("direct", Placement::Direct),
];

pub(crate) const MODES: [(&str, Mode); 2] = [("ro", Mode::ReadOnly), ("rw", Mode::ReadWrite)];

pub(crate) const VERDICTS: [(&str, Verdict); 3] = [
    ("preApproved", Verdict::Allow),
    ("ask", Verdict::Ask),
    ("blocked", Verdict::Block),
];

/// Where zones are put.
#[derive(Clone, Debug)]
pub(crate) struct Placing {
    pub(crate) placement: Placement,
    /// `sandbox.root` as a directory, for sandboxed zones.
    pub(crate) root: PathBuf,
}

/// The zones that hold without any `zones` key: `cache` and `workspace`, read-write.
pub(crate) fn default_zones(walk: &mut Walk<'_>, placing: &Placing) -> Vec<Mount> {
    let mut mounts = Vec::new();
    for name in ["cache", "workspace"] {
        match place(walk, name, placing) {
            Err(problem) => {
                let message = format!("the default zone `{name}`: {}", problem.message());
                walk.reports.add(Diagnostic::error(Code::HostPath, message));
            }
            Ok(host) => mounts.push(Mount {
                name: name.to_owned(),
                target: format!("/{name}"),
                host: host.path,
                part: None,
                anchor: host.anchor,
                create: true,
                mode: Mode::ReadWrite,
                suffixes: None,
                max_file_bytes: None,
                approval: MountApproval::ASKING,
                usable: true,
                own_files: Vec::new(),
                origin: Origin::built_in(),
                mode_origin: Origin::built_in(),
            }),
        }
    }
    mounts
}

/// Read `sandbox.zones`.
pub(crate) fn read(walk: &mut Walk<'_>, node: &Node, placing: &Placing) -> Vec<Mount> {
    let Some(entries) = fields::free_mapping(&mut walk.reports, node, "sandbox.zones") else {
        return Vec::new();
    };
    let mut mounts: Vec<(Mount, Span)> = Vec::new();
    let mut folded: BTreeMap<String, &Entry> = BTreeMap::new();
    for entry in entries {
        if let Some(problem) = name_problem(&entry.key) {
            walk.reports.add(problem.at(&entry.key_span));
            continue;
        }
        match folded.insert(entry.key.to_lowercase(), entry) {
            None => {}
            Some(twin) => walk.reports.add(
                Diagnostic::error(
                    Code::MountName,
                    format!(
                        "zones `{}` and `{}` differ in case only",
                        twin.key, entry.key
                    ),
                )
                .at(&entry.key_span)
                .related(&twin.key_span, "the other one")
                .help("rename one: some file systems cannot tell them apart"),
            ),
        }
        mounts.extend(zone(walk, entry, placing));
    }
    report_overlaps(&mut walk.reports, &mounts);
    mounts.into_iter().map(|(mount, _)| mount).collect()
}

fn zone(walk: &mut Walk<'_>, entry: &Entry, placing: &Placing) -> Option<(Mount, Span)> {
    let name = &entry.key;
    let path = format!("sandbox.zones.{name}");
    let zone = Fields::open(&mut walk.reports, &entry.node, &path, &keys::ZONE)?;
    let mode = zone.word(&mut walk.reports, "mode", &MODES);
    let mode_origin = zone
        .get("mode")
        .map_or(entry.key_span.origin(), |entry| entry.node.span.origin());
    let suffixes = zone
        .get("suffixes")
        .and_then(|entry| suffixes(&mut walk.reports, &entry.node, &zone.dotted("suffixes")));
    let max_file_bytes = zone.count(&mut walk.reports, "max_file_bytes");
    let approval = approval(walk, &zone);
    let Some(path_entry) = zone.get("path") else {
        let example = format!("name the directory: `path: ./{name}`");
        zone.missing(&mut walk.reports, "path", &example);
        return None;
    };
    let text = fields::string(&mut walk.reports, &path_entry.node, &zone.dotted("path"))?;
    let span = &path_entry.node.span;
    let host = match place(walk, text, placing) {
        Ok(host) => host,
        Err(problem) => {
            walk.reports.add(problem.at(span));
            return None;
        }
    };
    let outside = !host.path.starts_with(walk.dir);
    let mode_held = mode.unwrap_or(Mode::ReadWrite);
    let in_place = mode_held == Mode::ReadWrite
        && placing.placement == Placement::Direct
        && holds_files(&host.path)
        && !in_repository(&host.path, walk.sources.home.as_deref());
    let rule = if outside {
        Some(&widening::OUTSIDE)
    } else if host.through_link {
        Some(&widening::THROUGH_LINK)
    } else if in_place {
        Some(&widening::IN_PLACE)
    } else {
        None
    };
    if let Some(rule) = rule {
        let value = format!("{} {mode_held}", host.path.display());
        walk.agreed(rule, &zone.dotted("path"), &value, span);
    }
    let mount = Mount {
        name: name.clone(),
        target: format!("/{name}"),
        host: host.path,
        part: None,
        anchor: host.anchor,
        create: !outside,
        mode: mode_held,
        suffixes,
        max_file_bytes,
        approval,
        usable: true,
        own_files: Vec::new(),
        origin: entry.key_span.origin(),
        mode_origin,
    };
    Some((mount, span.clone()))
}

/// What is wrong with a zone's name: it becomes a directory at the sandbox's root, a tool
/// argument, and a word in messages.
fn name_problem(name: &str) -> Option<Diagnostic> {
    let plain = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !plain || !starts_well || name.len() > 64 {
        return Some(
            Diagnostic::error(Code::MountName, format!("`{name}` cannot be a zone's name")).help(
                "letters, digits, `_`, `-` and `.`, a letter or digit first, at most 64 of them",
            ),
        );
    }
    let reserved = RESERVED.contains(&name.to_lowercase().as_str());
    reserved.then(|| {
        Diagnostic::error(Code::MountName, format!("`{name}` is a reserved name")).help(format!(
            "commands need the system's /{name}; reserved are: {}",
            RESERVED.join(", ")
        ))
    })
}

/// `approval: {read, write, delete}` of a zone in the project file.
fn approval(walk: &mut Walk<'_>, zone: &Fields<'_>) -> MountApproval {
    let mut approval = MountApproval::ASKING;
    for (operation, verdict, entry) in stated(&mut walk.reports, zone) {
        let allowed = match (operation, verdict) {
            (Operation::Delete, Verdict::Allow) => walk.agreed(
                &widening::DELETE,
                &format!("{}.approval.delete", zone.path),
                "preApproved",
                &entry.node.span,
            ),
            (Operation::Read | Operation::Write | Operation::Delete, _) => true,
        };
        approval.say(operation, if allowed { verdict } else { Verdict::Ask });
    }
    approval
}

/// The verdicts that an `approval` key states; for workers, too.
pub(crate) fn stated<'n>(
    reports: &mut Reports,
    zone: &Fields<'n>,
) -> Vec<(Operation, Verdict, &'n Entry)> {
    let Some(entry) = zone.get("approval") else {
        return Vec::new();
    };
    let path = zone.dotted("approval");
    let Some(approval) = Fields::open(reports, &entry.node, &path, &keys::ZONE_APPROVAL) else {
        return Vec::new();
    };
    [
        ("read", Operation::Read),
        ("write", Operation::Write),
        ("delete", Operation::Delete),
    ]
    .into_iter()
    .filter_map(|(key, operation)| {
        let verdict = approval.word(reports, key, &VERDICTS)?;
        Some((operation, verdict, approval.get(key)?))
    })
    .collect()
}

/// A list of suffixes, lower case; for workers, too.
pub(crate) fn suffixes(reports: &mut Reports, node: &Node, path: &str) -> Option<Vec<String>> {
    let list = fields::strings(reports, node, path)?;
    if list.is_empty() {
        reports.add(
            Diagnostic::error(
                Code::BadValue,
                format!("`{path}` is empty: no file would do"),
            )
            .at(&node.span)
            .help("leave it out to allow every suffix"),
        );
    }
    for (suffix, node) in &list {
        if !suffix.starts_with('.') || suffix.len() < 2 || suffix.contains('/') {
            reports.add(
                Diagnostic::error(Code::BadValue, format!("`{suffix}` is not a suffix"))
                    .at(&node.span)
                    .help(format!(
                        "write `.{}`",
                        suffix.trim_start_matches(['.', '*'])
                    )),
            );
        }
    }
    Some(
        list.iter()
            .map(|(suffix, _)| suffix.to_lowercase())
            .collect(),
    )
}

/// Whether there is anything in a directory that could be lost; one that cannot be listed may.
fn holds_files(dir: &Path) -> bool {
    match std::fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// Whether version control keeps what a directory held: a `.git` at it or above, below the home
/// directory.
fn in_repository(dir: &Path, home: Option<&Path>) -> bool {
    let home = home.and_then(|home| home.canonicalize().ok());
    dir.ancestors()
        .take_while(|above| home.as_deref() != Some(*above))
        .any(|above| std::fs::symlink_metadata(above.join(".git")).is_ok())
}

/// A host directory, resolved as far as it exists.
struct Host {
    path: PathBuf,
    /// The existing part of it.
    anchor: PathBuf,
    /// The way as written holds a symbolic link.
    through_link: bool,
}

fn place(walk: &Walk<'_>, text: &str, placing: &Placing) -> Result<Host, Box<Diagnostic>> {
    let refuse = |message: String| Box::new(Diagnostic::error(Code::HostPath, message));
    let expanded = expand(text, &walk.sources.env, walk.sources.home.as_deref())
        .map_err(|problem| refuse(format!("cannot expand `{text}`: {problem}")))?;
    if expanded.is_empty() || expanded.contains('\0') {
        return Err(refuse("the path is empty or holds a NUL".into()));
    }
    let written = Path::new(&expanded);
    let base = match placing.placement {
        Placement::Direct => walk.dir,
        Placement::Sandboxed => {
            if written.is_absolute() || climbs(written) {
                let leaves =
                    Diagnostic::error(Code::HostPath, format!("`{text}` leaves the sandbox root"));
                return Err(Box::new(leaves.help(
                    "in sandboxed mode zone paths are below `sandbox.root`; other places need `mode: direct`",
                )));
            }
            &placing.root
        }
    };
    let host = resolve(base, written).map_err(refuse)?;
    let holds_everything = host.path.parent().is_none();
    if holds_everything {
        return Err(refuse(
            "the root of the file system cannot be a zone".into(),
        ));
    }
    if placing.placement == Placement::Sandboxed && host.through_link {
        let message = format!("`{text}` leads through a symbolic link");
        let link = Diagnostic::error(Code::HostPath, message);
        return Err(Box::new(link.help(
            "below the sandbox root there are no links on the way to a zone",
        )));
    }
    Ok(host)
}

/// Whether a relative path goes above its base at any point.
pub(crate) fn climbs(path: &Path) -> bool {
    let mut depth = 0usize;
    for component in path.components() {
        match component {
            Component::ParentDir => match depth.checked_sub(1) {
                Some(up) => depth = up,
                None => return true,
            },
            Component::Normal(_) => depth += 1,
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    false
}

/// `..` is resolved in the text first; then what exists is resolved by the system.
fn resolve(base: &Path, written: &Path) -> Result<Host, String> {
    let plain = normal(&base.join(written));
    if let Ok(found) = std::fs::symlink_metadata(&plain) {
        if found.is_symlink() {
            return Err(format!(
                "`{}` is a symbolic link; name its target",
                written.display()
            ));
        }
        if !found.is_dir() {
            return Err(format!("`{}` is not a directory", written.display()));
        }
    }
    let existing = plain
        .ancestors()
        .find(|dir| std::fs::symlink_metadata(dir).is_ok())
        .unwrap_or(Path::new("/"));
    let anchor = existing
        .canonicalize()
        .map_err(|error| format!("`{}` cannot be resolved: {error}", existing.display()))?;
    if !anchor.is_dir() {
        return Err(format!("`{}` is not a directory", existing.display()));
    }
    let rest = plain.strip_prefix(existing).unwrap_or(Path::new(""));
    let path = if rest.as_os_str().is_empty() {
        anchor.clone()
    } else {
        anchor.join(rest)
    };
    Ok(Host {
        through_link: path != plain,
        path,
        anchor,
    })
}

fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) | Component::Normal(_) => out.push(component),
        }
    }
    out
}

/// Sorted by components, whatever lies below a directory follows it directly.
fn report_overlaps(reports: &mut Reports, mounts: &[(Mount, Span)]) {
    let mut sorted: Vec<&(Mount, Span)> = mounts.iter().collect();
    sorted.sort_by(|(a, _), (b, _)| a.host.cmp(&b.host));
    let mut outer: Option<&(Mount, Span)> = None;
    for inner in sorted {
        let Some(holder) = outer.filter(|(mount, _)| inner.0.host.starts_with(&mount.host)) else {
            outer = Some(inner);
            continue;
        };
        let (above, below) = (&holder.0, &inner.0);
        let what = if above.host == below.host {
            format!(
                "zones `{}` and `{}` are the same directory",
                above.name, below.name
            )
        } else {
            format!("zone `{}` lies inside zone `{}`", below.name, above.name)
        };
        reports.add(
            Diagnostic::error(Code::Overlap, what)
                .at(&inner.1)
                .related(&holder.1, format!("zone `{}`", above.name))
                .help(
                    "one file must have one set of rights: give each zone a directory of its own",
                ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn climbing_is_seen_at_any_point() {
        for (path, expected) in [
            ("a/b", false),
            ("./a/../b", false),
            ("..", true),
            ("a/../../a", true),
            (".", false),
        ] {
            assert_eq!(climbs(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn names() {
        for good in ["data", "Data-1", "a.b_c", "9"] {
            assert!(name_problem(good).is_none(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "etc", "Work", "-a", "a b", "ä", "a\n"] {
            assert!(name_problem(bad).is_some(), "{bad}");
        }
    }
}
