//! The objects that a command touched, as lines for a person: directories with counts.

use std::collections::BTreeMap;

use os_sandbox::Touched;

/// Bound on the directories of one operation.
const MAX_DIRECTORIES: usize = 5;

/// Returns at most a screen of lines; the rest is counted.
pub(super) fn describe(touched: &Touched) -> Vec<String> {
    let mut lines = Vec::new();
    for (operation, objects) in [
        ("read", &touched.read),
        ("written", &touched.written),
        ("executed", &touched.executed),
        ("connected", &touched.connected),
    ] {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for object in objects {
            *counts.entry(group(object)).or_default() += 1;
        }
        let mut groups: Vec<(&str, usize)> = counts.into_iter().collect();
        groups.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (name, count) in groups.iter().take(MAX_DIRECTORIES) {
            lines.push(match objects.iter().any(|object| object == name) {
                true if *count == 1 => format!("touched: {operation} {name}"),
                _ => format!("touched: {operation} {count} in {name}"),
            });
        }
        let rest = groups.get(MAX_DIRECTORIES..).unwrap_or_default();
        let count: usize = rest.iter().map(|(_, count)| count).sum();
        if count > 0 {
            let directories = match rest.len() {
                1 => "1 directory".to_owned(),
                several => format!("{several} directories"),
            };
            lines.push(format!(
                "touched: {operation} {count} more, in {directories}"
            ));
        }
    }
    if touched.more {
        lines.push("touched: more, which is not listed".to_owned());
    }
    lines
}

/// Returns the directory of a path; an address is its own group.
fn group(object: &str) -> &str {
    match object.rfind('/') {
        Some(0) => "/",
        Some(slash) => &object[..slash],
        None => object,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_counted_and_the_rest_is_told() {
        let read = (0..40).map(|number| format!("/d{}/{number}", number % 8));
        let touched = Touched {
            read: read.collect(),
            connected: vec!["127.0.0.1:80".into()],
            more: true,
            ..Touched::default()
        };
        let one = Touched {
            read: (0..6).map(|number| format!("/d{number}/a")).collect(),
            ..Touched::default()
        };
        assert_eq!(describe(&one)[5], "touched: read 1 more, in 1 directory");
        let lines = describe(&touched);
        assert_eq!(lines[0], "touched: read 5 in /d0");
        assert_eq!(
            lines[5..],
            [
                "touched: read 15 more, in 3 directories",
                "touched: connected 127.0.0.1:80",
                "touched: more, which is not listed",
            ]
        );
    }
}
