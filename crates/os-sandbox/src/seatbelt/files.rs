//! Rules for files. For each group of operations: the mounts from the outermost to the innermost,
//! each followed by its excepted names, then the rules of the system and of the run itself.

use super::fixed::own_terminals;
use super::layout::{SeatbeltLayout, SeatbeltMount};
use super::text::{ProfileText, literal, named, subpath};
use super::{pattern, system};
use crate::access::Access;
use crate::policy::{Pattern, Policy};

/// A group of operations that a mount allows as a whole or denies.
struct OperationGroup {
    access: Access,
    operations: &'static str,
    /// `true` if protected names are excepted too.
    protects: bool,
}

/// `file-test-existence` is a sibling of `file-read*`, not a child. Links have an operation of
/// their own, and so do clones, which no rule here allows by name.
const GROUPS: [OperationGroup; 3] = [
    OperationGroup {
        access: Access::READ,
        operations: "file-read* file-test-existence",
        protects: false,
    },
    OperationGroup {
        access: Access::WRITE,
        operations: "file-write* file-link",
        protects: true,
    },
    OperationGroup {
        access: Access::EXECUTE,
        operations: "process-exec* file-map-executable",
        protects: false,
    },
];

pub(super) fn write(text: &mut ProfileText, policy: &Policy, layout: &SeatbeltLayout) {
    for group in &GROUPS {
        text.section(&format!("files: {}", group.access));
        for mount in &layout.mounts {
            write_mount(text, policy, mount, group);
        }
        let private: Vec<String> = layout
            .private
            .iter()
            .flat_map(|place| place.names())
            .map(|name| subpath(&name))
            .collect();
        text.allow(group.operations, &private);
        let given = match group.access {
            Access::READ => read_of_system(policy, layout),
            Access::WRITE => devices(),
            _ => {
                let mut programs = quoted("subpath", &system::programs(policy.system()));
                programs.extend(own_programs(layout));
                programs
            }
        };
        text.allow(group.operations, &given);
    }

    text.section("devices");
    let mut asked = named("literal", &system::ASKED);
    asked.extend(own_terminals());
    text.allow("file-ioctl", &asked);

    text.section("directories on the way");
    let mut way = named("literal", system::on_the_way(policy.system()));
    way.extend(layout.above.iter().map(|above| literal(&above.name)));
    text.allow("file-read-metadata file-test-existence", &way);
}

/// Writes the denials that come last: a command cannot move away excepted names, the directories
/// around them, or the directories between two mounts.
pub(super) fn write_last(text: &mut ProfileText, policy: &Policy, layout: &SeatbeltLayout) {
    text.section("last: what stays where it is");
    let mut fixed: Vec<String> = Vec::new();
    let mounts = layout.mounts.iter().map(|mount| &mount.at);
    for place in mounts.chain(&layout.private).chain(&layout.shown) {
        fixed.extend(place.names().iter().map(|name| literal(name)));
    }
    let between = layout.above.iter().filter(|above| above.in_mount);
    fixed.extend(between.map(|above| literal(&above.name)));
    text.deny("file-write-unlink", &fixed);

    let mut around: Vec<String> = Vec::new();
    let mut around_by_any_name: Vec<String> = Vec::new();
    let mut clones: Vec<String> = Vec::new();
    for mount in &layout.mounts {
        let access = policy.mounts()[mount.index].access();
        if access.contains(Access::WRITE) {
            around.extend(excepted(
                mount,
                &guards(policy, mount, true),
                pattern::above,
            ));
            let names = excepted(
                mount,
                &guards(policy, mount, true),
                pattern::above_by_any_name,
            );
            around_by_any_name.extend(
                names
                    .iter()
                    .map(|name| format!("(require-all (vnode-type DIRECTORY) {name})")),
            );
        }
        if access.contains(Access::READ) {
            clones.extend(excepted(mount, &guards(policy, mount, false), covering));
        }
    }
    text.deny("file-write-create file-write-unlink", &around);
    text.deny("file-write-unlink", &around_by_any_name);
    text.deny("file-clone file-link", &clones);
    text.deny_all("file-write-setugid");
}

fn write_mount(
    text: &mut ProfileText,
    policy: &Policy,
    mount: &SeatbeltMount,
    group: &OperationGroup,
) {
    let here = mount.at.names().map(|name| subpath(&name));
    if !policy.mounts()[mount.index].access().contains(group.access) {
        if mount.nested {
            text.deny(group.operations, &here);
        }
        return;
    }
    text.allow(group.operations, &here);
    let names = excepted(mount, &guards(policy, mount, group.protects), covering);
    text.deny(group.operations, &names);
}

fn covering(pattern: &Pattern, depth: usize) -> Vec<String> {
    vec![pattern::covering(pattern, depth)]
}

/// A pattern, and the depths of the directory that it counts from.
type Guard = (Pattern, [usize; 2]);

/// Returns the guards of a mount. Patterns at any depth count from the root or named mount that
/// this mount is a part of; patterns with a leading `/` count from each mount on the way there.
fn guards(policy: &Policy, mount: &SeatbeltMount, protects: bool) -> Vec<Guard> {
    let outermost = mount.outward.last().map_or([0; 2], |(_, depths)| *depths);
    let mut all: Vec<Guard> = Vec::new();
    for protect in [false, true].into_iter().filter(|one| !one || protects) {
        for (index, depths) in &mount.outward {
            let guards = policy.guards_of(*index);
            let patterns = if protect { guards.protect } else { guards.hide };
            for pattern in patterns {
                let depths = if pattern.is_from_top() {
                    *depths
                } else {
                    outermost
                };
                if !all.contains(&(pattern.clone(), depths)) {
                    all.push((pattern, depths));
                }
            }
        }
    }
    all
}

/// Returns the filters for the names in a mount that the expressions match, one for each spelling
/// of its path.
fn excepted(
    mount: &SeatbeltMount,
    guards: &[Guard],
    expressions: impl Fn(&Pattern, usize) -> Vec<String>,
) -> Vec<String> {
    let filter = |(spelling, name): (usize, String)| {
        let names: Vec<String> = guards
            .iter()
            .flat_map(|(pattern, depths)| expressions(pattern, depths[spelling]))
            .map(|regex| format!("(regex #\"{regex}\")"))
            .collect();
        (!names.is_empty()).then(|| {
            format!(
                "(require-all {}\n    (require-any\n      {}))",
                subpath(&name),
                names.join("\n      ")
            )
        })
    };
    mount
        .at
        .names()
        .into_iter()
        .enumerate()
        .filter_map(filter)
        .collect()
}

/// Returns the filters for the policy's own programs.
fn own_programs(layout: &SeatbeltLayout) -> Vec<String> {
    let names = layout.programs.iter().flat_map(|place| place.names());
    names.map(|name| subpath(&name)).collect()
}

fn read_of_system(policy: &Policy, layout: &SeatbeltLayout) -> Vec<String> {
    // Names in the root directory: without them a command cannot open any absolute path.
    let mut out = vec!["(literal \"/\")".to_owned()];
    for place in &layout.shown {
        out.extend(place.names().iter().map(|name| subpath(name)));
    }
    out.extend(own_programs(layout));
    out.extend(quoted("subpath", &system::read(policy.system())));
    out.extend(devices());
    out.extend(named(
        "literal",
        &[
            "/dev/autofs_nowait",
            "/dev/stdin",
            "/dev/stdout",
            "/dev/stderr",
        ],
    ));
    out.push("(subpath \"/dev/fd\")".to_owned());
    out
}

/// Returns the filters for the devices that are read and written.
fn devices() -> Vec<String> {
    let mut out = named("literal", &system::DEVICE_FILES);
    out.push("(literal \"/dev/dtracehelper\")".to_owned());
    out.extend(own_terminals());
    out
}

fn quoted(kind: &str, paths: &[String]) -> Vec<String> {
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    named(kind, &paths)
}
