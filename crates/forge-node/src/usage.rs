//! The resources that a control group has used, from its files; missing ones are left out.

use std::fs;
use std::path::Path;

use crate::message::Stats;

/// The files of a control group say numbers of a few digits.
const MAX_FILE_BYTES: u64 = 16 * 1024;

/// Fills in the figures of the control group at `group`.
pub(crate) fn fill(stats: &mut Stats, group: &Path) {
    let number = |name: &str| text(&group.join(name))?.trim().parse::<u64>().ok();
    let usage = text(&group.join("cpu.stat"));
    stats.cpu_us = usage.as_deref().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("usage_usec "))?;
        line.split_whitespace().nth(1)?.parse().ok()
    });
    stats.memory_bytes = number("memory.current");
    stats.memory_peak_bytes = number("memory.peak");
    stats.processes = number("pids.current");
}

/// How many processes the kernel has ended because the group's memory was used up.
pub(crate) fn out_of_memory(group: &Path) -> Option<u64> {
    let events = text(&group.join("memory.events"));
    let events = events.or_else(|| text(&group.join("memory/memory.oom_control")))?;
    let line = events
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?;
    line.trim().parse().ok()
}

/// Most bytes of memory that the group may use.
pub(crate) fn memory_limit(group: &Path) -> Option<u64> {
    let limit = text(&group.join("memory.max"));
    let limit = limit.or_else(|| text(&group.join("memory/memory.limit_in_bytes")))?;
    limit.trim().parse().ok()
}

fn text(path: &Path) -> Option<String> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = fs::File::open(path).ok()?;
    file.take(MAX_FILE_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_group_is_read_and_what_is_missing_is_not_known() {
        let group = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("cpu.stat", "usage_usec 1234\nuser_usec 1000\n"),
            ("memory.current", "4096\n"),
            ("pids.current", "max\n"),
        ] {
            fs::write(group.path().join(name), text).unwrap();
        }
        let mut stats = Stats::default();
        fill(&mut stats, group.path());
        let known = (stats.cpu_us, stats.memory_bytes);
        assert_eq!(known, (Some(1234), Some(4096)));
        assert_eq!((stats.memory_peak_bytes, stats.processes), (None, None));
    }

    #[test]
    fn both_interfaces_tell_of_memory_that_was_used_up() {
        let cases: [(&[(&str, &str)], _); 4] = [
            (
                &[
                    ("memory.events", "low 0\noom 3\noom_kill 2\n"),
                    ("memory.max", "1024\n"),
                ],
                (Some(2), Some(1024)),
            ),
            (
                &[
                    (
                        "memory/memory.oom_control",
                        "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n",
                    ),
                    ("memory/memory.limit_in_bytes", "2048\n"),
                ],
                (Some(7), Some(2048)),
            ),
            (&[("memory.max", "max\n")], (None, None)),
            (&[], (None, None)),
        ];
        for (files, want) in cases {
            let group = tempfile::tempdir().unwrap();
            fs::create_dir(group.path().join("memory")).unwrap();
            for (name, text) in files {
                fs::write(group.path().join(name), text).unwrap();
            }
            let found = (out_of_memory(group.path()), memory_limit(group.path()));
            assert_eq!(found, want, "{files:?}");
        }
    }
}
