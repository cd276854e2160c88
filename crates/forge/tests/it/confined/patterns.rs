//! `fixtures/name-patterns.tsv`, for commands: what `hide` and `protect` cover is what file tools
//! take them to cover, whoever enforces it.

use std::collections::BTreeMap;

use super::exec::mechanisms;
use crate::support::World;

/// Paths by pattern, with whether the pattern covers them.
pub(crate) fn rows() -> BTreeMap<&'static str, Vec<(&'static str, bool)>> {
    let mut rows = BTreeMap::new();
    let table = include_str!("../../../../../fixtures/name-patterns.tsv");
    for row in table.lines().filter(|line| !line.starts_with('#')) {
        let [pattern, path, covers] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{row:?}");
        };
        let paths: &mut Vec<_> = rows.entry(pattern).or_default();
        paths.push((path, covers == "yes"));
    }
    rows
}

/// A project whose file says `key: [pattern]`.
pub(crate) fn world(key: &str, pattern: &str) -> World {
    World::new(&[(
        "forge.yaml",
        &format!("sandbox: {{ root: ., {key}: [\"{pattern}\"] }}\n"),
    )])
}

/// A command that does something with each path.
pub(crate) fn script(paths: &[(&str, bool)], each: &str) -> String {
    let each = |(path, _): &(&str, bool)| {
        let (around, _) = path.rsplit_once('/').unwrap_or((".", path));
        each.replace("PATH", &format!("'{path}'"))
            .replace("AROUND", &format!("'{around}'"))
    };
    paths.iter().map(each).collect::<Vec<_>>().join("; ")
}

#[test]
fn what_is_hidden_is_not_read_and_what_is_protected_not_written() {
    for (pattern, paths) in rows() {
        for mechanism in mechanisms(&World::new(&[])) {
            if mechanism == "landlock" {
                // Without mounts what is there stays as it is, which the plan says.
                continue;
            }
            let hidden = world("hide", pattern);
            let protected = world("protect", pattern);
            for (path, _) in &paths {
                hidden.write(path, "old");
                protected.write(path, "old");
            }
            let read = script(&paths, "cat PATH 2>/dev/null; echo");
            let run = ["exec", "--mechanism", mechanism, "--", "sh", "-c"];
            let ran = hidden.forge(&[&run[..], &[&read]].concat());
            let seen: Vec<&str> = ran.stdout.lines().collect();
            let write = script(&paths, "echo new > PATH");
            protected.forge(&[&run[..], &[&write]].concat());
            for ((path, covers), seen) in paths.iter().zip(seen) {
                assert_eq!(
                    seen.is_empty(),
                    *covers,
                    "{mechanism} hide {pattern} {path}"
                );
                let text = std::fs::read_to_string(protected.project().join(path)).unwrap();
                assert_eq!(
                    text == "old",
                    *covers,
                    "{mechanism} protect {pattern} {path}"
                );
            }
        }
    }
}

#[test]
fn what_is_made_under_a_protected_name_does_not_stay() {
    for (pattern, paths) in rows() {
        for mechanism in mechanisms(&World::new(&[])) {
            let world = world("protect", pattern);
            let make = script(&paths, "mkdir -p AROUND; echo new > PATH");
            let run = ["exec", "--mechanism", mechanism, "--", "sh", "-c"];
            world.forge(&[&run[..], &[&make]].concat()).code(0);
            for (path, covers) in &paths {
                let stays = world.project().join(path).exists();
                assert_eq!(!stays, *covers, "{mechanism} {pattern} {path}");
            }
        }
    }
}

/// A pattern with a leading `/` is a path as workers see it, so it counts in one mount. Startup files
/// of shells are protected at the top of each mount.
#[test]
fn a_path_counts_in_its_mount_only() {
    let project = "sandbox:
  zones: { data: { path: data }, ws: { path: ws } }
  hide: [/data/private]
  protect: [/ws/lib/*.lock]
";
    let names = [
        ("data/private/a", true),
        ("data/src/private/a", false),
        ("ws/private/a", false),
        ("ws/data/private/a", false),
        ("ws/lib/x.lock", true),
        ("ws/src/lib/x.lock", false),
        ("data/lib/x.lock", false),
        ("data/ws/lib/x.lock", false),
        ("ws/.bashrc", true),
        ("ws/skel/.bashrc", false),
    ];
    for mechanism in mechanisms(&World::new(&[])) {
        if mechanism == "landlock" {
            continue;
        }
        let world = World::new(&[("forge.yaml", project)]);
        let place = |name: &str| world.project().join(".sandbox").join(name);
        for (name, _) in names {
            std::fs::create_dir_all(place(name).parent().unwrap()).unwrap();
            std::fs::write(place(name), "old").unwrap();
        }
        let run = ["exec", "--mechanism", mechanism, "--", "sh", "-c"];
        let write = names.map(|(name, _)| format!("echo new > /work/{name}"));
        world.forge(&[&run[..], &[&write.join("; ")]].concat());
        for (name, kept) in names {
            let text = std::fs::read_to_string(place(name)).unwrap();
            assert_eq!(text == "old", kept, "{mechanism} {name}");
        }
    }
}
