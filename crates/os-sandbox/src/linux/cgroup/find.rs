//! Finds the parent for control groups: the caller's own group, or the one above it, as the kernel
//! describes them.

use super::{CgroupLimit, CommandCgroup, Resource, open_directory, read};
use crate::support::{Availability, ControlGroup, GroupVersion};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Returns the parents of groups for memory and for processes, each tested by creating a group.
pub(crate) fn find() -> [Availability<ControlGroup>; 2] {
    let texts = read(Path::new("/proc/self/cgroup"))
        .and_then(|own| Ok((own, read(Path::new("/proc/self/mountinfo"))?)));
    [Resource::Memory, Resource::Processes].map(|resource| {
        let found = match &texts {
            Err(error) => Err(format!("/proc cannot be read: {error}")),
            Ok((own, mounts)) => candidates(own, mounts, controller(resource))
                .and_then(|candidates| first_that_works(resource, candidates)),
        };
        match found {
            Ok(group) => Availability::Works(group),
            Err(reason) => Availability::missing(&reason, advice(&reason)),
        }
    })
}

fn controller(resource: Resource) -> &'static str {
    match resource {
        Resource::Memory => "memory",
        Resource::Processes => "pids",
    }
}

fn advice(reason: &str) -> &'static str {
    if reason.contains("cgroup2") {
        "in a login session of systemd: systemd-run --user --scope COMMAND"
    } else {
        ""
    }
}

fn first_that_works(
    resource: Resource,
    candidates: Vec<CgroupCandidate>,
) -> Result<ControlGroup, String> {
    let mut last = "there is nowhere to make one".to_owned();
    for candidate in candidates {
        let (path, version) = (candidate.path.clone(), candidate.version);
        match attempt(resource, candidate) {
            Ok(group) => return Ok(group),
            Err(error) => {
                let kind = match version {
                    GroupVersion::One => "cgroup",
                    GroupVersion::Two => "cgroup2",
                };
                last = format!("none can be made in {} ({kind}): {error}", path.display());
            }
        }
    }
    Err(last)
}

fn attempt(resource: Resource, candidate: CgroupCandidate) -> io::Result<ControlGroup> {
    open_directory(&candidate.path)?;
    let mut at = ControlGroup {
        parent: candidate.path,
        version: candidate.version,
        ceiling: None,
    };
    if at.version == GroupVersion::Two {
        enable(&at.parent, controller(resource))?;
    }
    if let Some(own) = candidate.beside {
        // A group beside the caller's is not below its limit, so that limit is taken over.
        let file = match resource {
            Resource::Memory => "memory.max",
            Resource::Processes => "pids.max",
        };
        // Without the file there is no controller and no limit; "max" is no number.
        at.ceiling = read(&own.join(file))
            .ok()
            .and_then(|text| text.trim().parse().ok());
    }
    let made = CommandCgroup::make(&[CgroupLimit {
        resource,
        at: at.clone(),
        limit: 1 << 20,
    }])?;
    // A process tests later, once for both resources, that a group can be entered.
    made.directories
        .iter()
        .try_for_each(|directory| directory.open(directory.door()).map(drop))?;
    Ok(at)
}

/// Makes a group of version 2 pass a controller on to the groups below it. The kernel refuses
/// (EBUSY) for any group but the root as long as it has processes.
fn enable(group: &Path, controller: &str) -> io::Result<()> {
    let has = |file: &str| -> io::Result<bool> {
        let text = read(&group.join(file))?;
        Ok(text.split_whitespace().any(|word| word == controller))
    };
    if has("cgroup.subtree_control")? {
        return Ok(());
    }
    if !has("cgroup.controllers")? {
        return Err(io::Error::other(format!(
            "the controller {controller} is not delegated to it"
        )));
    }
    OpenOptions::new()
        .write(true)
        .open(group.join("cgroup.subtree_control"))?
        .write_all(format!("+{controller}").as_bytes())
}

/// A group in which ours could be made.
#[derive(Debug, PartialEq, Eq)]
struct CgroupCandidate {
    path: PathBuf,
    version: GroupVersion,
    /// The caller's own group, if the candidate is the one above it.
    beside: Option<PathBuf>,
}

/// Returns the candidates of /proc/self/cgroup and /proc/self/mountinfo, in the order of
/// preference. A group of version 2, other than the root, cannot have both processes and groups
/// below it: so the group above the caller's comes next, which systemd gives to the user of a user
/// session.
fn candidates(own: &str, mounts: &str, controller: &str) -> Result<Vec<CgroupCandidate>, String> {
    let mut groups = own.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        Some((controllers, path))
    });
    let one = groups
        .clone()
        .find(|(controllers, _)| controllers.split(',').any(|name| name == controller));
    let (version, path) =
        match one.or_else(|| groups.find(|(controllers, _)| controllers.is_empty())) {
            Some(("", path)) => (GroupVersion::Two, path),
            Some((_, path)) => (GroupVersion::One, path),
            None => return Err("the kernel has no control groups".to_owned()),
        };
    let mut out = Vec::new();
    for (root, point) in mounts
        .lines()
        .filter_map(|line| hierarchy(line, version, controller))
    {
        let Ok(below) = Path::new(path).strip_prefix(&root) else {
            continue;
        };
        // "/.." is how a namespace shows a group outside of it.
        if below.components().any(|name| name.as_os_str() == "..") {
            continue;
        }
        // Joining nothing would leave a slash at the end.
        let own = if below.as_os_str().is_empty() {
            point
        } else {
            point.join(below)
        };
        out.push(CgroupCandidate {
            path: own.clone(),
            version,
            beside: None,
        });
        if version == GroupVersion::Two
            && !below.as_os_str().is_empty()
            && let Some(above) = own.parent()
        {
            out.push(CgroupCandidate {
                path: above.to_owned(),
                version,
                beside: Some(own.clone()),
            });
        }
    }
    if out.is_empty() {
        return Err(format!("the hierarchy of {controller} is not mounted here"));
    }
    Ok(out)
}

/// Returns root and mount point of a line of mountinfo, if it is the requested hierarchy.
fn hierarchy(line: &str, version: GroupVersion, controller: &str) -> Option<(PathBuf, PathBuf)> {
    let (mount, source) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(3);
    let (root, point) = (unescaped(fields.next()?), unescaped(fields.next()?));
    let mut fields = source.split(' ');
    let (kind, _, options) = (fields.next()?, fields.next()?, fields.next()?);
    let right = match version {
        GroupVersion::One => {
            kind == "cgroup" && options.split(',').any(|option| option == controller)
        }
        GroupVersion::Two => kind == "cgroup2",
    };
    right.then(|| (root.into(), point.into()))
}

/// Decodes mountinfo, which writes blanks and backslashes as three octal digits.
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        match after
            .get(..3)
            .and_then(|octal| u8::from_str_radix(octal, 8).ok())
        {
            Some(byte) => {
                out.push(char::from(byte));
                rest = &after[3..];
            }
            None => {
                out.push('\\');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &str = "9:name=systemd:/
8:pids:/
4:memory,hugetlb:/jobs/a b
0::/";
    const BOTH_MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:3 - cgroup cgroup rw,memory,hugetlb
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
    const TWO_MOUNTS: &str =
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";

    fn shown(own: &str, mounts: &str, controller: &str) -> Vec<String> {
        match candidates(own, mounts, controller) {
            Ok(found) => found
                .into_iter()
                .map(|one| {
                    let beside = one.beside.map_or("", |_| " beside");
                    format!("{:?} {}{beside}", one.version, one.path.display())
                })
                .collect(),
            Err(reason) => vec![reason],
        }
    }

    #[test]
    fn where_a_group_could_be_made() {
        let session = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope";
        let below = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice";
        let contained = "40 1 0:9 /docker/1 /sys/fs/cgroup/me\\040mory ro - cgroup c rw,memory";
        for (own, mounts, controller, want) in [
            // Version 1, each controller in its own hierarchy.
            (
                BOTH,
                BOTH_MOUNTS,
                "memory",
                vec!["One /sys/fs/cgroup/memory/jobs/a b".to_owned()],
            ),
            (
                BOTH,
                BOTH_MOUNTS,
                "pids",
                vec!["One /sys/fs/cgroup/pids".to_owned()],
            ),
            // A controller that version 1 does not hold is looked for in version 2.
            (
                BOTH,
                BOTH_MOUNTS,
                "io",
                vec!["Two /sys/fs/cgroup/unified".to_owned()],
            ),
            (
                session,
                TWO_MOUNTS,
                "memory",
                vec![
                    format!("Two {below}/x.scope"),
                    format!("Two {below} beside"),
                ],
            ),
            // The root has nothing above it.
            (
                "0::/",
                TWO_MOUNTS,
                "pids",
                vec!["Two /sys/fs/cgroup".to_owned()],
            ),
            // Part of a hierarchy, mounted in a container.
            (
                "4:memory:/docker/1/sub",
                contained,
                "memory",
                vec!["One /sys/fs/cgroup/me mory/sub".to_owned()],
            ),
        ] {
            assert_eq!(shown(own, mounts, controller), want, "{own} {controller}");
        }
        let nowhere = ["the hierarchy of memory is not mounted here"];
        // Outside of the mounted part, or outside of the namespace.
        assert_eq!(shown("4:memory:/docker/2", contained, "memory"), nowhere);
        assert_eq!(shown("0::/../other", TWO_MOUNTS, "memory"), nowhere);
        assert_eq!(shown("4:memory:/", TWO_MOUNTS, "memory"), nowhere);
        assert_eq!(
            shown("garbage\n", "a - b\n\n - ", "memory"),
            ["the kernel has no control groups"]
        );
    }
}
