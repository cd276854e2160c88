//! The mapping from host directories to the names that a command sees. Only this module tells the
//! five forms apart:
//!
//! - the root mount, `/`, appears at `/work`, the working directory;
//! - a named mount, `/data`, appears at `/data`, and as `data` in the working directory; a deeper
//!   name, `/data/out`, likewise, in a read-only `/data` that contains only the directories on the
//!   way;
//! - `/work/src/lib` appears at that path, in a read-only `/work` that contains only the
//!   directories on the way: a part of a root mount, for commands that see no more of it;
//! - a carve-out, `/data/out` or `/vendor` of a root mount, is a part of another mount with an
//!   access of its own; its host path must be that part;
//! - a covering mount, `/data/cache` below `/data` or `/work/cache` below a root mount, shows
//!   another directory in the place of one that the outer mount has there. The command does not see
//!   the covered directory.
//!
//! With [`Paths::OfHost`], each mount appears at its own path of the host instead. A mount that
//! covers a directory of another one appears at the path of that directory.

use crate::access::Access;
use crate::error::Error;
use sandbox_names::SYSTEM_DIRECTORIES;
use std::path::{Component, Path, PathBuf};

/// Host directories that a mount cannot open, whole or in part: the kernel's own files.
const NEVER: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Bound on the mounts of one policy. bubblewrap takes 9000 arguments in all.
pub(super) const MAX_MOUNTS: usize = 256;

/// The path of the root mount, and of the parts of a root mount that is not shown.
const WORK: &str = "/work";

/// Paths that the sandbox uses itself. A mount at one of them, or around it, would hide it.
pub(super) const OWN_PLACES: [&str; 2] = ["/tmp", "/home/sandbox"];

/// The paths of mounts under a mount layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Paths {
    /// Their names: `/work`, `/data`.
    #[default]
    OfSandbox,
    /// Their paths on the host.
    OfHost,
}

/// A host directory or file, its name in the sandbox, and its access.
///
/// ```
/// use os_sandbox::{Access, Policy};
///
/// let policy = Policy::builder().mount("/srv/report", "/report", Access::READ).build()?;
/// let mount = &policy.mounts()[0];
/// assert_eq!((mount.shown_at(), mount.inside()), ("/report", "/report"));
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    host: PathBuf,
    shown_at: String,
    access: Access,
    links: LinkPolicy,
    place: MountPlacement,
    inside: String,
    paths: Paths,
    overlay: Option<OverlayDirs>,
}

/// The directories of an overlay beside its lower one, which is the mount's directory on the host
/// ([`PolicyBuilder::overlay`](crate::PolicyBuilder::overlay)). The words are those of overlayfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayDirs {
    /// The directory that takes every change.
    pub upper: PathBuf,
    /// An empty directory of the kernel's own, on the file system of the upper one.
    pub work: PathBuf,
}

/// The treatment of links in the host path of a mount, at each start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkPolicy {
    Followed,
    /// The caller has followed all links. A link that exists now is newer than that.
    Refused,
}

/// A mount as the caller requested it.
#[derive(Clone, Debug)]
pub(super) struct UnresolvedMount {
    pub(super) host: PathBuf,
    pub(super) shown_at: String,
    pub(super) access: Access,
    pub(super) links: LinkPolicy,
    pub(super) overlay: Option<OverlayDirs>,
}

/// The form of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountPlacement {
    /// The root mount.
    Root,
    /// A mount at a name of its own.
    Named,
    /// A mount below `/work`, without a root mount.
    InWork,
    /// A part of another mount, by that mount's index.
    NestedIn(usize),
    /// A cover of a directory in another mount, by that mount's index.
    Covers(usize),
}

impl Mount {
    sandbox_names::getters! {
        /// Returns the directory on the host, as the policy names it.
        pub host: &Path = &host;
        /// Returns the name in the policy: `/`, `/name`, or a path below one of them or below `/work`.
        pub shown_at: &str = &shown_at;
        /// Returns the access below the mount.
        pub access: Access = access;
        /// Returns the path under a mount layer: `/work` for the root mount, the name for a named one,
        /// or the path of the host for each ([`Policy::at_host_paths`](crate::Policy::at_host_paths)).
        pub inside: &str = &inside;
        /// Returns the form of the mount.
        pub place: MountPlacement = place;
        /// Returns the upper and the work directory, if the mount is an overlay.
        pub overlay: Option<&OverlayDirs> = overlay.as_ref();
        pub(crate) links: LinkPolicy = links;
    }

    /// Returns the name in a view with the working directory as `/`: `/src` for `/work/src`.
    #[must_use]
    pub fn seen_as(&self) -> &str {
        // A directory called `work` in a root mount is shown at /work/work.
        let is_place = match self.paths {
            Paths::OfSandbox => self.inside == self.shown_at,
            Paths::OfHost => matches!(
                self.place,
                MountPlacement::InWork | MountPlacement::Covers(_)
            ),
        };
        match self.shown_at.strip_prefix(WORK) {
            Some(rest) if rest.starts_with('/') && is_place => rest,
            _ => &self.shown_at,
        }
    }

    /// Returns the name of the mount's link in a working directory that the sandbox creates. `None`
    /// if it has none.
    #[must_use]
    pub fn in_work(&self) -> Option<&str> {
        match self.place {
            MountPlacement::Named | MountPlacement::InWork => {
                Some(self.seen_as().trim_start_matches('/'))
            }
            MountPlacement::Root | MountPlacement::NestedIn(_) | MountPlacement::Covers(_) => None,
        }
    }

    pub(crate) fn is_at_host_path(&self) -> bool {
        self.paths == Paths::OfHost
    }

    /// Returns the mount as the caller requested it.
    pub(super) fn wanted(&self) -> UnresolvedMount {
        UnresolvedMount {
            host: self.host.clone(),
            shown_at: self.shown_at.clone(),
            access: self.access,
            links: self.links,
            overlay: self.overlay.clone(),
        }
    }

    /// Returns the path of another mount's mount point relative to this one, as commands see it.
    pub(crate) fn way_to(&self, inner: &Mount) -> Option<PathBuf> {
        let way = Path::new(&inner.inside).strip_prefix(&self.inside).ok()?;
        (!way.as_os_str().is_empty()).then(|| way.to_owned())
    }
}

/// Returns the directories below a mount that commands do not see, because other mounts cover them.
pub(crate) fn covered<'m>(
    mounts: &'m [Mount],
    outer: &'m Mount,
) -> impl Iterator<Item = PathBuf> + 'm {
    mounts
        .iter()
        .filter(|mount| matches!(mount.place, MountPlacement::Covers(_)))
        .filter_map(|mount| outer.way_to(mount))
}

/// Resolves the mounts that the builder collected.
pub(super) fn resolve(wanted: &[UnresolvedMount], paths: Paths) -> Result<Vec<Mount>, Error> {
    if wanted.len() > MAX_MOUNTS {
        return Err(Error::new(
            crate::error::ErrorKind::Limit,
            format!("{} mounts, at most {MAX_MOUNTS}", wanted.len()),
        ));
    }
    let mut parsed = Vec::with_capacity(wanted.len());
    for one in wanted {
        let (host, shown_at) = (check_host(&one.host)?, check_shown(&one.shown_at)?);
        parsed.push((host, shown_at, one.access));
    }
    for (index, (host, shown_at, _)) in parsed.iter().enumerate() {
        for (other_host, other_shown, _) in &parsed[..index] {
            if shown_at == other_shown {
                return Err(Error::invalid(format!("two mounts at {shown_at}")));
            }
            if host == other_host {
                return Err(Error::invalid(format!(
                    "{shown_at} and {other_shown} are the same directory"
                ))
                .with_hint("show a directory once; its access is one set"));
            }
        }
    }
    let on_host = match paths {
        Paths::OfHost => all_on_host(&parsed),
        Paths::OfSandbox => None,
    };
    let (paths, insides) = match on_host {
        Some(insides) => (Paths::OfHost, insides),
        None => {
            let insides = (0..parsed.len()).map(|index| inside(&parsed, index));
            (Paths::OfSandbox, insides.collect())
        }
    };
    let mut mounts: Vec<Mount> = Vec::with_capacity(parsed.len());
    for (index, (host, shown_at, access)) in parsed.iter().enumerate() {
        mounts.push(Mount {
            host: host.clone(),
            shown_at: shown_at.clone(),
            access: *access,
            links: wanted[index].links,
            place: place_of(&parsed, &insides, index)?,
            inside: insides[index].clone(),
            paths,
            overlay: wanted[index].overlay.clone(),
        });
    }
    refuse_meeting(&mounts)?;
    (0..mounts.len()).try_for_each(|index| check_overlay(&mounts, index))?;
    Ok(mounts)
}

/// Returns the overlay that takes the changes in a mount, by its index: the mount itself, or the one
/// that it is a part of. Each step has a shorter name, so the loop ends.
pub(super) fn overlay_around(mounts: &[Mount], index: usize) -> Option<usize> {
    let mut at = index;
    loop {
        let mount = mounts.get(at)?;
        match (&mount.overlay, mount.place) {
            (Some(_), _) => return Some(at),
            (None, MountPlacement::NestedIn(outer)) => at = outer,
            (None, _) => return None,
        }
    }
}

/// Makes the mount at a name an overlay.
pub(super) fn make_overlay(
    mounts: &mut [Mount],
    shown_at: &str,
    dirs: OverlayDirs,
) -> Result<(), Error> {
    let index = mounts.iter().position(|mount| mount.shown_at == shown_at);
    let index =
        index.ok_or_else(|| Error::invalid(format!("unknown mount {shown_at:?} of an overlay")))?;
    mounts[index].overlay = Some(OverlayDirs {
        upper: check_path(&dirs.upper)?,
        work: check_path(&dirs.work)?,
    });
    // Also those of before: two overlays do not share a directory.
    (0..mounts.len()).try_for_each(|index| check_overlay(mounts, index))
}

/// Takes the directories of mounts at and below `from` from `to`.
pub(super) fn relocate(mounts: &mut [Mount], from: &Path, to: &Path) -> Result<(), Error> {
    let to = check_path(to)?;
    let moves: Vec<bool> = mounts
        .iter()
        .map(|one| one.host.starts_with(from))
        .collect();
    for mount in mounts.iter_mut() {
        if let Ok(below) = mount.host.strip_prefix(from) {
            mount.host = to.components().chain(below.components()).collect();
            // The one around it has another directory there now.
            if let MountPlacement::NestedIn(outer) = mount.place
                && !moves[outer]
            {
                mount.place = MountPlacement::Covers(outer);
            }
        } else if from.starts_with(&mount.host) && mount.access.contains(Access::WRITE) {
            return Err(Error::invalid(format!(
                "the mount at {} shows a directory around it, where it is not taken from elsewhere",
                mount.shown_at
            ))
            .with_hint("take that mount out, or make it read-only"));
        }
    }
    Ok(())
}

/// Refuses an overlay that would not take every change below its name, or whose own directories
/// commands could see.
fn check_overlay(mounts: &[Mount], index: usize) -> Result<(), Error> {
    let mount = &mounts[index];
    let Some(overlay) = &mount.overlay else {
        return Ok(());
    };
    let name = &mount.shown_at;
    if !mount.access.contains(Access::WRITE) {
        return Err(Error::invalid(format!(
            "{name} is read-only, so nothing is there for an overlay to take"
        )));
    }
    if let MountPlacement::NestedIn(outer) | MountPlacement::Covers(outer) = mount.place {
        return Err(Error::invalid(format!(
            "the overlay at {name} lies in the mount at {}",
            mounts[outer].shown_at
        ))
        .with_hint("make the outer mount the overlay: it takes the changes of its parts too"));
    }
    for (other, around) in mounts.iter().zip((0..).map(|i| overlay_around(mounts, i))) {
        let overlaps = other.host.starts_with(&mount.host) || mount.host.starts_with(&other.host);
        let covers = Path::new(&other.inside).starts_with(&mount.inside);
        if (overlaps || covers) && around != Some(index) {
            return Err(Error::invalid(format!(
                "the mount at {} shows a directory in or around the overlay at {name}, and changes \
                 there would not go to its upper directory",
                other.shown_at
            ))
            .with_hint("take that mount out, or start the command without an overlay"));
        }
        for own in [&overlay.upper, &overlay.work] {
            if own.starts_with(&other.host) || other.host.starts_with(own) {
                return Err(Error::invalid(format!(
                    "{} is a directory of the overlay at {name}, and lies in or around the mount \
                     at {}",
                    own.display(),
                    other.shown_at
                ))
                .with_hint("use directories outside of every mount"));
            }
        }
    }
    let own: Vec<&PathBuf> = mounts
        .iter()
        .filter_map(|mount| mount.overlay.as_ref())
        .flat_map(|overlay| [&overlay.upper, &overlay.work])
        .collect();
    for (index, one) in own.iter().enumerate() {
        let meets = |other: &&&PathBuf| one.starts_with(other) || other.starts_with(one);
        if let Some(other) = own[..index].iter().find(meets) {
            return Err(Error::invalid(format!(
                "{} and {} are directories of overlays, and one lies in the other",
                one.display(),
                other.display()
            )));
        }
    }
    Ok(())
}

/// Refuses names that meet in the working directory. There `/data` and `/data/out` are one name,
/// and `/work/data` is another.
fn refuse_meeting(mounts: &[Mount]) -> Result<(), Error> {
    let placed: Vec<(&Mount, &str)> = mounts
        .iter()
        .filter_map(|mount| Some((mount, mount.in_work()?)))
        .collect();
    let first = |name: &str| name.split('/').next().unwrap_or_default().to_owned();
    for (index, (one, name)) in placed.iter().enumerate() {
        for (other, other_name) in &placed[..index] {
            let meet = match one.place == other.place {
                true => {
                    Path::new(name).starts_with(other_name)
                        || Path::new(other_name).starts_with(name)
                }
                false => first(name) == first(other_name),
            };
            if meet {
                return Err(Error::invalid(format!(
                    "{} and {} meet in the working directory",
                    one.shown_at, other.shown_at
                ))
                .with_hint("a mount in another one must be a part of it on the host too"));
            }
        }
    }
    Ok(())
}

type Parsed = (PathBuf, String, Access);

/// Returns the longest other mount whose name and host path both contain those of this one.
fn whole_of(all: &[Parsed], index: usize) -> Option<usize> {
    let (host, shown_at, _) = &all[index];
    let mut best: Option<usize> = None;
    for (other, (other_host, other_shown, _)) in all.iter().enumerate() {
        let Ok(rest) = Path::new(shown_at).strip_prefix(other_shown) else {
            continue;
        };
        let is_part = other != index && host == &other_host.join(rest);
        let longer = best.is_none_or(|best| all[best].1.len() < other_shown.len());
        if is_part && longer {
            best = Some(other);
        }
    }
    best
}

/// Returns the path of a mount in the sandbox. Follows carve-outs of carve-outs. Each step has a
/// shorter name, so the recursion ends.
fn inside(all: &[Parsed], index: usize) -> String {
    let mut outermost = index;
    while let Some(outer) = whole_of(all, outermost) {
        outermost = outer;
    }
    let shown_at = &all[index].1;
    match (all[outermost].1.as_str(), shown_at.as_str()) {
        ("/", "/") => WORK.to_owned(),
        ("/", _) => format!("{WORK}{shown_at}"),
        _ => shown_at.clone(),
    }
}

/// Returns the paths of all mounts at their paths of the host. `None` if one of these is not text,
/// would hide a path that the sandbox uses itself, or is inside a directory that another mount
/// covers.
fn all_on_host(all: &[Parsed]) -> Option<Vec<String>> {
    let hides_own = |host: &Path| {
        OWN_PLACES
            .iter()
            .any(|own| Path::new(own).starts_with(host))
    };
    if all
        .iter()
        .any(|(host, ..)| host.to_str().is_none() || hides_own(host))
    {
        return None;
    }
    let insides: Vec<String> = (0..all.len()).map(|index| on_host(all, index)).collect();
    let moved = |index: usize| Path::new(&insides[index]) != all[index].0;
    let buried = (0..all.len()).filter(|index| moved(*index)).any(|cover| {
        (0..all.len()).any(|other| {
            let lies_there = Path::new(&insides[other]).starts_with(&insides[cover]);
            other != cover && !moved(other) && lies_there
        })
    });
    (!buried).then_some(insides)
}

/// Returns the path of the host. For a mount that covers a directory of another one, returns the
/// path of that directory. Each step has a shorter name, so the recursion ends.
fn on_host(all: &[Parsed], index: usize) -> String {
    let (host, shown_at, _) = &all[index];
    let own = || host.to_string_lossy().into_owned();
    if whole_of(all, index).is_some() {
        return own();
    }
    // Paths below the root mount's directories are named by way of the working directory.
    let seen = |shown_at: &str| match shown_at {
        "/" => WORK.to_owned(),
        other => other.to_owned(),
    };
    let around = (0..all.len())
        .filter(|other| *other != index)
        .filter_map(|other| {
            let rest = Path::new(shown_at).strip_prefix(seen(&all[other].1)).ok()?;
            Some((other, rest))
        })
        .min_by_key(|(_, rest)| rest.components().count());
    match around {
        Some((other, rest)) => {
            let around = on_host(all, other);
            Path::new(&around).join(rest).display().to_string()
        }
        None => own(),
    }
}

fn place_of(all: &[Parsed], insides: &[String], index: usize) -> Result<MountPlacement, Error> {
    let (_, shown_at, access) = &all[index];
    if shown_at == "/" {
        if access.is_none() {
            return Err(Error::invalid("the mount at / has no access at all"));
        }
        return Ok(MountPlacement::Root);
    }
    let whole = whole_of(all, index);
    let below =
        |other: &usize| *other != index && Path::new(&insides[index]).starts_with(&insides[*other]);
    let nearest = (0..all.len())
        .filter(below)
        .max_by_key(|other| insides[*other].len());
    match (whole, nearest) {
        // A part of the directory around it, not of a directory that is covered there.
        (Some(whole), Some(nearest)) if whole == nearest => {
            return Ok(MountPlacement::NestedIn(whole));
        }
        // A mount at its own path, inside another mount, is a part of that one.
        (None, Some(nearest)) if Path::new(&insides[index]) == all[index].0 => {
            return Ok(MountPlacement::NestedIn(nearest));
        }
        (_, Some(nearest)) if !access.is_none() => return Ok(MountPlacement::Covers(nearest)),
        (Some(whole), _) => return Ok(MountPlacement::NestedIn(whole)),
        (None, _) => {}
    }
    let mut names = shown_at.trim_start_matches('/').split('/');
    let name = names.next().unwrap_or_default();
    let deeper = names.next().is_some();
    let in_work = deeper && name == WORK.trim_start_matches('/');
    let root = all.iter().any(|(_, other, _)| other == "/");
    if deeper && root {
        let hint = "beside a root mount a name has one component, such as /data; deeper ones are \
                    parts of a mount";
        let reason = format!("{shown_at} is not a part of another mount");
        return Err(Error::invalid(reason).with_hint(hint));
    }
    if SYSTEM_DIRECTORIES.contains(&name) && !in_work {
        return Err(
            Error::invalid(format!("{shown_at} is a reserved name")).with_hint(format!(
                "the system lives at /{}; choose another name",
                SYSTEM_DIRECTORIES.join(" /")
            )),
        );
    }
    if access.is_none() {
        let hint = "a mount without access closes a part of another mount; leave others out";
        let reason = format!("the mount at {shown_at} has no access at all");
        return Err(Error::invalid(reason).with_hint(hint));
    }
    Ok(match in_work {
        true => MountPlacement::InWork,
        false => MountPlacement::Named,
    })
}

pub(super) fn check_host(host: &Path) -> Result<PathBuf, Error> {
    let host = check_path(host)?;
    check_not_kernel(&host)?;
    Ok(host)
}

/// Refuses a path of the host that is relative or climbs.
pub(super) fn check_path(host: &Path) -> Result<PathBuf, Error> {
    let shown = host.display();
    if !host.is_absolute() {
        return Err(Error::invalid(format!("not an absolute path: {shown}")));
    }
    if host.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(Error::invalid("a path with a NUL byte"));
    }
    if host.components().any(|part| part == Component::ParentDir) {
        return Err(Error::invalid(format!("a path with ..: {shown}")));
    }
    // Rebuilt from components, so that equal directories compare equal.
    Ok(host.components().collect())
}

/// Refuses the kernel's own directories. Also called for the path of a mount after its links were
/// followed.
pub(crate) fn check_not_kernel(host: &Path) -> Result<(), Error> {
    if host == Path::new("/") {
        return Err(Error::invalid("the whole file system cannot be a mount")
            .with_hint("name the directories, or use the broad-read system profile"));
    }
    if NEVER.iter().any(|kernel| host.starts_with(kernel)) {
        return Err(Error::invalid(format!(
            "{} belongs to the kernel and cannot be a mount",
            host.display()
        )));
    }
    Ok(())
}

fn check_shown(shown_at: &str) -> Result<String, Error> {
    let Some(rest) = shown_at.strip_prefix('/') else {
        return Err(Error::invalid(format!(
            "a mount name starts with /: {shown_at:?}"
        )));
    };
    if shown_at.contains('\0') || shown_at.len() > 4095 {
        return Err(Error::invalid(
            "a mount name with a NUL byte, or far too long",
        ));
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.is_empty() {
        return Ok("/".to_owned());
    }
    if rest
        .split('/')
        .any(|name| matches!(name, "" | "." | "..") || name.len() > 255)
    {
        return Err(Error::invalid(format!("not a mount name: {shown_at:?}")));
    }
    Ok(format!("/{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(host: &str, shown_at: &str) -> UnresolvedMount {
        UnresolvedMount {
            host: PathBuf::from(host),
            shown_at: shown_at.to_owned(),
            access: Access::READ,
            links: LinkPolicy::Followed,
            overlay: None,
        }
    }

    fn inside(wanted: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(host, shown)| one(host, shown))
            .collect();
        resolve(&wanted, Paths::OfSandbox)
            .map(|mounts| mounts.iter().map(|m| m.inside().to_owned()).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn where_mounts_appear() {
        let ok = |wanted: &[(&str, &str)]| inside(wanted).unwrap();
        assert_eq!(ok(&[("/p", "/"), ("/d/", "/data")]), ["/work", "/data"]);
        assert_eq!(
            ok(&[("/p", "/"), ("/p/vendor", "/vendor")]),
            ["/work", "/work/vendor"]
        );
        assert_eq!(
            ok(&[("/p", "/"), ("/p/a", "/a"), ("/p/a/b", "/a/b")]),
            ["/work", "/work/a", "/work/a/b"]
        );
        assert_eq!(
            ok(&[("/d", "/data"), ("/d/out", "/data/out")]),
            ["/data", "/data/out"]
        );
        assert_eq!(
            ok(&[("/p", "/"), ("/p/usr", "/usr")]),
            ["/work", "/work/usr"]
        );
        assert_eq!(
            ok(&[("/p/src/lib", "/work/src/lib"), ("/p/lib", "/work/lib")]),
            ["/work/src/lib", "/work/lib"]
        );
        assert_eq!(
            ok(&[("/p/lib", "/work/lib"), ("/p/lib/a", "/work/lib/a")]),
            ["/work/lib", "/work/lib/a"]
        );
        assert_eq!(
            ok(&[("/d/a/b", "/data/a/b"), ("/d/c", "/data/c")]),
            ["/data/a/b", "/data/c"]
        );
        for covering in [
            &[("/p", "/"), ("/a", "/work/b")][..],
            &[("/p", "/"), ("/p/v", "/v"), ("/a", "/work/v/b")],
            &[
                ("/p", "/"),
                ("/a", "/work/b"),
                ("/a/c", "/work/b/c"),
                ("/d", "/work/b/c/d"),
            ],
            &[("/p", "/"), ("/a", "/work/b"), ("/p/b/c", "/b/c")],
            &[("/a", "/a"), ("/b", "/a/b")],
            &[("/b", "/a/b"), ("/a", "/a")],
            &[("/a", "/work/a"), ("/b", "/work/a/b")],
        ] {
            let expected: Vec<String> = covering
                .iter()
                .map(|(_, shown)| match *shown {
                    "/" => "/work".to_owned(),
                    shown if shown.starts_with("/work") || covering[0].1 != "/" => shown.to_owned(),
                    shown => format!("/work{shown}"),
                })
                .collect();
            assert_eq!(ok(covering), expected, "{covering:?}");
        }
    }

    #[test]
    fn mounts_that_are_taken_from_elsewhere() {
        use MountPlacement::{Covers, NestedIn};
        let relocated = |mounts: &[(&str, &str, Access)], from: &str| {
            let wanted: Vec<_> = mounts
                .iter()
                .map(|(host, shown, access)| UnresolvedMount {
                    access: *access,
                    ..one(host, shown)
                })
                .collect();
            let mut mounts = resolve(&wanted, Paths::OfHost).unwrap();
            relocate(&mut mounts, Path::new(from), Path::new("/copy")).map(|()| {
                let last = mounts.pop().unwrap();
                (last.host, last.place)
            })
        };
        let write = Access::ALL;
        // With the mount around it, a part stays a part; without, it covers what is there.
        for (outer, from, host, place) in [
            (write, "/p", "/copy/v", NestedIn(0)),
            (Access::READ, "/p/v", "/copy", Covers(0)),
        ] {
            let found = relocated(&[("/p", "/", outer), ("/p/v", "/v", write)], from);
            assert_eq!(found.unwrap(), (host.into(), place));
        }
        // Commands would change the original in a directory around it.
        for mounts in [
            [("/p", "/", write), ("/p/v", "/v", write)],
            [("/q/p", "/p", write), ("/q", "/q", write)],
        ] {
            let from = match mounts[0].0 {
                "/p" => "/p/v",
                other => other,
            };
            assert!(relocated(&mounts, from).is_err(), "{mounts:?}");
        }
    }

    #[test]
    fn where_mounts_appear_at_host_paths() {
        let at = |wanted: &[(&str, &str)]| {
            let wanted: Vec<_> = wanted
                .iter()
                .map(|(host, shown)| one(host, shown))
                .collect();
            let mounts = resolve(&wanted, Paths::OfHost).unwrap();
            let all = mounts.iter().map(|m| (m.inside().to_owned(), m.place()));
            all.collect::<Vec<_>>()
        };
        let own = |wanted: &[(&str, &str)], places: &[MountPlacement]| {
            let expected: Vec<_> = wanted
                .iter()
                .zip(places)
                .map(|((host, _), place)| ((*host).to_owned(), *place))
                .collect();
            assert_eq!(at(wanted), expected, "{wanted:?}");
        };
        use MountPlacement::{Covers, InWork, Named, NestedIn, Root};
        own(&[("/p", "/"), ("/d", "/data")], &[Root, Named]);
        own(&[("/p", "/"), ("/p/v", "/v")], &[Root, NestedIn(0)]);
        own(&[("/p", "/"), ("/p/v", "/other")], &[Root, NestedIn(0)]);
        own(&[("/p/a", "/a"), ("/p/b", "/b")], &[Named, Named]);
        own(&[("/p/a/b", "/work/a/b")], &[InWork]);
        // A covering mount appears at the directory that it covers.
        assert_eq!(
            at(&[
                ("/p", "/"),
                ("/c", "/work/cache"),
                ("/n", "/work/cache/npm")
            ]),
            [
                ("/p".to_owned(), Root),
                ("/p/cache".to_owned(), Covers(0)),
                ("/p/cache/npm".to_owned(), Covers(1)),
            ]
        );
        // If host paths are impossible, all mounts have the names of the sandbox.
        for wanted in [
            &[("/home", "/")][..],
            &[("/tmp", "/")],
            &[("/p", "/"), ("/c", "/work/cache"), ("/p/cache", "/old")],
            &[("/p", "/"), ("/c", "/work/cache"), ("/p/cache/x", "/old")],
        ] {
            assert_eq!(at(wanted)[0].0, "/work", "{wanted:?}");
        }
    }

    #[test]
    fn what_makes_no_sense() {
        for wanted in [
            &[("rel", "/data")][..],
            &[("/a/../b", "/data")],
            &[("/", "/data")],
            &[("/proc/self", "/data")],
            &[("/sys", "/data")],
            &[("/a", "data")],
            &[("/a", "/usr")],
            &[("/a", "/usr/b")],
            &[("/a", "/work")],
            &[("/p", "/"), ("/a", "/a/b")],
            &[("/a", "/work/a/c"), ("/b", "/a")],
            &[("/a", "/work/a/c"), ("/b", "/a/b")],
            &[("/a", "/..")],
            &[("/a", "/x\0y")],
            &[("/a", "/x"), ("/b", "/x/")],
            &[("/a", "/x"), ("/a/", "/y")],
        ] {
            assert!(inside(wanted).is_err(), "{wanted:?}");
        }
    }
}
