//! Forge's own directories: trust decisions, the user file, the requests that wait for an answer,
//! and the records of runs. A program that could write there could agree in the person's name, so
//! no mount may contain one of them, or be inside one. Directories are compared by inode and not by
//! spelling, and a missing directory by the path where it would be made.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use crate::grant::front_end::FrontEnd;
use crate::grant::mount::{Mode, Mount};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::fields::Reports;

/// A file or directory that no mount may hold or lie in. It need not exist.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use sandbox_config::{load, ReservedPath, Sources, WithoutDirectories};
/// let mut sources = Sources::new(dir.path());
/// sources.without_directories = WithoutDirectories::WholeDirectory;
/// assert!(load(&sources).is_ok());
/// let state = dir.path().join("state");
/// sources.out_of_reach = vec![ReservedPath::new(state, "the state directory", "FORGE_STATE_DIR")];
/// let refused = load(&sources).unwrap_err();
/// assert_eq!(refused.iter().next().unwrap().code().as_str(), "config.own_directory");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedPath {
    path: PathBuf,
    noun: String,
    moved_by: String,
}

impl ReservedPath {
    /// `path` is absolute; `noun` describes it, and `moved_by` names the variable or key that puts
    /// it elsewhere.
    pub fn new(
        path: impl Into<PathBuf>,
        noun: impl Into<String>,
        moved_by: impl Into<String>,
    ) -> ReservedPath {
        ReservedPath {
            path: path.into(),
            noun: noun.into(),
            moved_by: moved_by.into(),
        }
    }

    sandbox_names::getters! {
        pub(crate) path: &Path = &path;
        pub(crate) noun: &str = &noun;
    }
}

/// Most links that are followed on the way to one path; a kernel follows as many.
const MAX_LINKS: usize = 40;

/// Where a path leads.
#[derive(Debug, Clone)]
struct PathTarget {
    /// The existing part of it, without links.
    dir: PathBuf,
    /// The missing part of it.
    rest: Vec<OsString>,
}

/// A path followed to its end.
struct FollowedPath {
    end: PathTarget,
    /// The directories of the links on the way: a program that writes there redirects the way.
    links_in: Vec<PathBuf>,
}

/// Device and inode.
type InodeId = (u64, u64);

/// Compares places, each directory looked at once.
#[derive(Default)]
struct PathComparer {
    ids: HashMap<PathBuf, Option<InodeId>>,
}

/// Refuses every mount that contains one of `kept_out`, or is inside one.
pub(crate) fn report(
    reports: &mut Reports,
    mounts: &[Mount],
    front: FrontEnd,
    kept_out: &[ReservedPath],
) {
    let own: Vec<(&ReservedPath, FollowedPath)> = kept_out
        .iter()
        .map(|own| (own, follow(&own.path)))
        .collect();
    let mut places = PathComparer::default();
    for mount in mounts {
        let at = PathTarget {
            dir: mount.anchor.clone(),
            rest: names(mount.host.strip_prefix(&mount.anchor).ok()),
        };
        let clashes: Vec<(&ReservedPath, &str)> = own
            .iter()
            .filter_map(|(own, followed)| Some((*own, places.clash(mount, &at, followed)?)))
            .collect();
        if let Some(problem) = refusal(mount, front, &clashes) {
            reports.add(problem);
        }
    }
}

/// Returns the path of `kept_out` that is or contains this path.
pub(crate) fn lies_in<'o>(path: &Path, kept_out: &'o [ReservedPath]) -> Option<&'o ReservedPath> {
    let mut places = PathComparer::default();
    let end = follow(path).end;
    kept_out
        .iter()
        .find(|own| places.holds(&follow(&own.path).end, &end))
}

/// Returns the path of `kept_out` that this path is, contains or is inside of.
pub(crate) fn meets<'o>(path: &Path, kept_out: &'o [ReservedPath]) -> Option<&'o ReservedPath> {
    let mut places = PathComparer::default();
    let end = follow(path).end;
    kept_out.iter().find(|own| {
        let own = follow(&own.path).end;
        places.holds(&own, &end) || places.holds(&end, &own)
    })
}

fn refusal(
    mount: &Mount,
    front: FrontEnd,
    clashes: &[(&ReservedPath, &str)],
) -> Option<Diagnostic> {
    let ((first, verb), rest) = clashes.split_first()?;
    let what = |own: &ReservedPath| format!("{} {}", own.noun, own.path.display());
    let message = format!(
        "{} `{}` {verb} {}, which no worker may reach",
        front.noun(),
        mount.name,
        what(first)
    );
    let mut problem = DiagnosticCode::OwnDirectory
        .error(message)
        .at_origin(&mount.origin);
    let mut elsewhere = vec![first.moved_by.as_str()];
    for (own, verb) in rest {
        problem = problem.note(format!("it also {verb} {}", what(own)));
        if !elsewhere.contains(&own.moved_by.as_str()) {
            elsewhere.push(&own.moved_by);
        }
    }
    Some(problem.help(format!(
        "show a narrower directory, such as one of its own for the project, or keep forge's own \
         elsewhere: {}",
        elsewhere.join(", ")
    )))
}

impl PathComparer {
    fn clash(
        &mut self,
        mount: &Mount,
        at: &PathTarget,
        own: &FollowedPath,
    ) -> Option<&'static str> {
        if self.holds(at, &own.end) {
            return Some("holds");
        }
        if self.holds(&own.end, at) {
            return Some("lies in");
        }
        let leads_there = mount.mode == Mode::ReadWrite
            && own.links_in.iter().any(|dir| {
                let dir = PathTarget {
                    dir: dir.clone(),
                    rest: Vec::new(),
                };
                self.holds(at, &dir)
            });
        leads_there.then_some("holds a link that leads to")
    }

    /// Returns `true` if `inner` is `outer` or below it.
    fn holds(&mut self, outer: &PathTarget, inner: &PathTarget) -> bool {
        if outer.rest.is_empty() {
            return inner.dir.starts_with(&outer.dir)
                || self
                    .id(&outer.dir)
                    .is_some_and(|id| inner.dir.ancestors().any(|dir| self.id(dir) == Some(id)));
        }
        let same = inner.dir == outer.dir
            || self
                .id(&outer.dir)
                .is_some_and(|id| self.id(&inner.dir) == Some(id));
        // Two spellings that differ in case may turn out to be one directory.
        let folded = |name: &OsString| name.to_string_lossy().to_lowercase();
        same && inner.rest.len() >= outer.rest.len()
            && outer
                .rest
                .iter()
                .zip(&inner.rest)
                .all(|(outer, inner)| folded(outer) == folded(inner))
    }

    fn id(&mut self, dir: &Path) -> Option<InodeId> {
        if let Some(known) = self.ids.get(dir) {
            return *known;
        }
        let id = std::fs::metadata(dir)
            .ok()
            .map(|found| (found.dev(), found.ino()));
        self.ids.insert(dir.to_owned(), id);
        id
    }
}

/// Follows a path as the kernel would, also where it does not exist. A worker has the user's own
/// rights on the host, so a directory that we may not read counts as absent.
fn follow(path: &Path) -> FollowedPath {
    let mut links_in = Vec::new();
    let mut dir = PathBuf::from("/");
    let mut rest: Vec<OsString> = Vec::new();
    let mut ahead: Vec<PathBuf> = vec![path.to_owned()];
    while let Some(path) = ahead.pop() {
        let mut components = path.components();
        let Some(first) = components.next() else {
            continue;
        };
        ahead.push(components.as_path().to_owned());
        match first {
            Component::RootDir | Component::Prefix(_) => {
                dir = PathBuf::from("/");
                rest.clear();
            }
            Component::CurDir => {}
            Component::ParentDir => {
                if rest.pop().is_none() {
                    dir.pop();
                }
            }
            Component::Normal(name) if !rest.is_empty() => rest.push(name.to_owned()),
            Component::Normal(name) => {
                let next = dir.join(name);
                match std::fs::symlink_metadata(&next) {
                    Ok(found) if found.is_symlink() && links_in.len() < MAX_LINKS => {
                        links_in.push(dir.clone());
                        match std::fs::read_link(&next) {
                            Ok(target) => ahead.push(target),
                            Err(_) => rest.push(name.to_owned()),
                        }
                    }
                    Ok(found) if !found.is_symlink() => dir = next,
                    Ok(_) | Err(_) => rest.push(name.to_owned()),
                }
            }
        }
    }
    FollowedPath {
        end: PathTarget { dir, rest },
        links_in,
    }
}

fn names(path: Option<&Path>) -> Vec<OsString> {
    let components = path.into_iter().flat_map(Path::components);
    components
        .map(|component| component.as_os_str().to_owned())
        .collect()
}
