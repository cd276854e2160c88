//! The checker itself, from outside: it must not be possible for a case to be wrong and pass. The
//! program gets fixtures of its own, each with one mistake, and has to say which.

use std::fs;
use std::path::Path;
use std::process::Command;

const TREES: &str = r#"
[[tree]]
name = "small"
files = ["data/a.txt", "data/two.txt", "ref/r.txt", "outside/secret.txt"]
hard = { "data/second.txt" = "data/two.txt" }
"#;
const POLICIES: &str = r#"
[[policy]]
name = "small"
mounts = [["/data", "data", "rwx"], ["/ref", "ref", "r-x"]]
"#;
const DIFFERENCES: &str = r#"
[[difference]]
id = "hard links"
why = "of this test"
decision = "of this test"
"#;
/// Shows the one difference, so that it is none of the mistakes.
const GOOD: &str = r#"
title = "small"
tree = "small"
policy = "small"
promise = "write outside"

[[case]]
name = "good"
do = ["write", "/data/two.txt"]
expect = "allow"
except = [{ at = ["files", "files-walk"], is = "deny", difference = "hard links" }]
why = "of this test"
"#;

/// Whether the program was content, and what it said.
fn run(args: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_conformance"))
        .args(args)
        .output()
        .expect("the program starts");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

fn with_case(case: &str, more: &[&str]) -> (bool, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("a file");
    write("trees.toml", TREES);
    write("policies.toml", POLICIES);
    write("differences.toml", DIFFERENCES);
    write("cases.toml", &format!("{GOOD}\n{case}"));
    let dir = dir.path().display().to_string();
    run(&[&["--fixtures", &dir], more].concat())
}

/// A case of one verb and a path; `rest` is what else it says.
fn case(attempt: &str, expect: &str, rest: &str) -> String {
    format!(
        "[[case]]\nname = \"bad\"\ndo = {attempt}\nexpect = \"{expect}\"\nwhy = \"test\"\n{rest}"
    )
}

#[test]
fn what_is_right_passes() {
    let (good, text) = with_case("", &[]);
    assert!(good, "{text}");
    assert!(text.contains("1 cases, 0 wrong"), "{text}");
}

#[test]
fn a_wrong_expectation_fails_in_every_column() {
    let wrong = case(r#"["read", "{outside}/secret.txt"]"#, "allow", "");
    let (good, text) = with_case(&wrong, &[]);
    assert!(!good, "{text}");
    for column in ["policy", "files", "files-walk", "memory", "seatbelt-judged"] {
        let line = format!("WRONG {column}: \"bad\": denied without a difference");
        assert!(text.contains(&line), "{column}\n{text}");
    }
    let tried = |column: &str| !text.contains(&format!("not here: {column}:"));
    for column in [
        "landlock-7",
        "bubblewrap",
        "layered",
        "namespaces",
        "birdcage",
    ] {
        let line = format!("WRONG {column}: \"bad\": denied without a difference");
        assert!(!tried(column) || text.contains(&line), "{column}\n{text}");
    }
}

#[test]
fn what_gets_through_silently_fails() {
    for attempt in [r#"["read", "/data/a.txt"]"#, r#"["delete", "/data/a.txt"]"#] {
        let (good, text) = with_case(&case(attempt, "deny", ""), &[]);
        assert!(!good, "{text}");
        for column in ["policy", "memory", "seatbelt-judged"] {
            let line = format!("WRONG {column}: \"bad\":");
            assert!(text.contains(&line), "{column}\n{text}");
        }
        let silently = text.matches("SILENTLY ALLOWED").count();
        let changed = text.matches("nothing was to be changed").count();
        assert!(silently + changed >= 4, "{text}");
    }
}

#[test]
fn a_change_is_seen_whatever_was_said() {
    let delete = case(r#"["delete", "/data/a.txt"]"#, "deny", "");
    let (_, text) = with_case(&delete, &[]);
    let seen = "WRONG files: \"bad\": nothing was to be changed, and ";
    assert!(text.contains(seen), "{text}");
    assert!(text.contains("a.txt is gone"), "{text}");
}

#[test]
fn an_unexplained_difference_fails() {
    // Without its exception the good case is one.
    let unexplained = case(r#"["append", "/data/two.txt"]"#, "allow", "");
    let (good, text) = with_case(&unexplained, &[]);
    assert!(!good, "{text}");
    let line = "WRONG files: \"bad\": denied without a difference";
    assert!(text.contains(line), "{text}");
    // And it cannot be hidden without a name.
    let nameless = "except = [{ at = [\"files\"], is = \"deny\" }]";
    let (good, text) = with_case(&case(r#"["read", "/data/a.txt"]"#, "allow", nameless), &[]);
    assert!(
        !good && text.contains("another answer takes a difference"),
        "{text}"
    );
}

#[test]
fn a_difference_that_does_not_show_fails() {
    let stale = "except = [{ at = [\"memory\"], is = \"deny\", difference = \"hard links\" }]";
    let (good, text) = with_case(&case(r#"["read", "/data/a.txt"]"#, "allow", stale), &[]);
    assert!(!good, "{text}");
    let line = "WRONG memory: \"bad\": the difference does not show any more";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_gap_is_what_the_plan_lists() {
    let attempt = r#"["write", "{outside}/secret.txt"]"#;
    let kept = "except = [{ at = [\"bubblewrap\"], is = \"gap\" }]";
    let (good, text) = with_case(&case(attempt, "deny", kept), &["--sound"]);
    assert!(!good, "{text}");
    assert!(
        text.contains("bubblewrap: a gap that the plan does not list"),
        "{text}"
    );
    // Listed at this version, because truncating by path gets through; writing does not.
    let stale = "except = [{ at = [\"landlock-1\"], is = \"gap\" }]";
    let (good, text) = with_case(&case(attempt, "deny", stale), &[]);
    let here = !text.contains("not here: landlock-1:");
    assert!(
        !here || (!good && text.contains("no gap any more")),
        "{text}"
    );
}

#[test]
fn what_nobody_means_fails() {
    for (bad, what) in [
        (
            case(r#"["read", "/data/a.txt"]"#, "allow", "tree = \"none\""),
            "no such tree",
        ),
        (
            case(r#"["fly", "/data/a.txt"]"#, "allow", ""),
            "unknown variant",
        ),
        (case(r#"["read"]"#, "allow", ""), "takes 1 words"),
        (
            case(r#"["read", "/data/a.txt"]"#, "allow", "promise = \"peace\""),
            "no such promise",
        ),
        (
            case(
                r#"["read", "/data/a.txt"]"#,
                "allow",
                "except = [{ at = [\"windows\"], is = \"not-posed\", because = \"test\" }]",
            ),
            "no such column",
        ),
        (
            case(r#"["read", "/data/a.txt"]"#, "allow", "").replace("bad", "good"),
            "two cases",
        ),
    ] {
        let (good, text) = with_case(&bad, &["--sound"]);
        assert!(!good && text.contains(what), "{what}\n{text}");
    }
}

#[test]
fn the_fixtures_are_sound_and_the_page_is_fresh() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
    assert!(page.is_file());
    let (good, text) = run(&["--sound", "--check"]);
    assert!(good, "{text}");
    let count = text.lines().last().and_then(|line| line.split(' ').next());
    let count: usize = count.and_then(|count| count.parse().ok()).expect("a count");
    assert!(count >= 150, "{count} cases");
}
