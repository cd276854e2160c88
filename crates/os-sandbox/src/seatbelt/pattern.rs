//! Protected and hidden names as regular expressions: the only place where text of a policy gets
//! into a profile. The expressions use a few constructs that every reader of the language
//! understands alike: no escapes, no dots, no counts, printable ASCII only. A pattern that they
//! cannot express exactly is matched a little too broadly, never too narrowly.

use crate::policy::Pattern;

/// Returns the expression for the names that the pattern matches, and everything below them, in a
/// mount whose patterns count from a directory with `depth` components.
pub(super) fn covering(pattern: &Pattern, depth: usize) -> String {
    anchored(
        pattern,
        &pattern.each_name().collect::<Vec<_>>(),
        depth,
        "(/|$)",
    )
}

/// Returns the expressions for the directories around a pattern's name, as far as the pattern names
/// them. A command that moves one away, or another one into its place, would bypass the guard.
pub(super) fn above(pattern: &Pattern, depth: usize) -> Vec<String> {
    parents(pattern)
        .filter(|names| !names.last().is_some_and(|name| is_any(name)))
        .map(|names| anchored(pattern, &names, depth, "$"))
        .collect()
}

/// Returns the expressions for directories whose name the pattern leaves open, such as the third in
/// `.git/modules/*/hooks`. The profile can deny moving them away. It cannot deny moving new ones
/// into place, because it cannot tell them from others that a command has to make
/// (`.git/modules/m/objects`).
pub(super) fn above_by_any_name(pattern: &Pattern, depth: usize) -> Vec<String> {
    parents(pattern)
        .filter(|names| names.last().is_some_and(|name| is_any(name)))
        .map(|names| anchored(pattern, &names, depth, "$"))
        .collect()
}

/// Returns the proper prefixes of a pattern, except those that match everything: `*/x` also matches
/// after a move of its directory.
fn parents(pattern: &Pattern) -> impl Iterator<Item = Vec<&str>> {
    let names: Vec<&str> = pattern.each_name().collect();
    (1..names.len())
        .map(move |count| names[..count].to_vec())
        .filter(|names| !names.iter().all(|name| is_any(name)))
}

fn is_any(name: &str) -> bool {
    name.bytes().all(|byte| byte == b'*')
}

/// Returns the expression for the directory with `depth` components, followed by the names from
/// where the pattern counts below it.
fn anchored(pattern: &Pattern, names: &[&str], depth: usize, end: &str) -> String {
    let mut out = String::from("^");
    out.push_str(&"/[^/]+".repeat(depth));
    if !pattern.is_from_top() {
        out.push_str("(/[^/]+)*");
    }
    for name in names {
        out.push('/');
        one_name(name, &mut out);
    }
    out.push_str(end);
    out
}

fn one_name(name: &str, out: &mut String) {
    let chars: Vec<char> = name.chars().collect();
    let mut marked = false;
    for (at, &c) in chars.iter().enumerate() {
        let next = chars.get(at + 1).copied();
        let last = at.checked_sub(1).map(|at| chars[at]);
        // A letter and its marks are one character or several, depending on the volume.
        if !c.is_ascii() || c != '*' && next.is_some_and(|next| !next.is_ascii()) {
            if !marked {
                out.push_str("[^/]+");
            }
            marked = true;
            continue;
        }
        marked = false;
        if is_folded_to(last, c, next) {
            let (lower, upper) = (c.to_ascii_lowercase(), c.to_ascii_uppercase());
            out.push_str(&format!("([{lower}{upper}]|[^ -~]+)"));
        } else {
            one_char(c, out);
        }
    }
}

/// Returns `true` if a volume that folds case may keep this letter as something outside ASCII: the
/// Kelvin sign, the long s, the sharp s for two, the ligatures of f and st (`CaseFolding.txt` of
/// Unicode).
fn is_folded_to(last: Option<char>, c: char, next: Option<char>) -> bool {
    let is = |c: Option<char>, of: &str| c.is_some_and(|c| of.contains(c.to_ascii_lowercase()));
    match c.to_ascii_lowercase() {
        'k' | 's' => true,
        'f' => is(last, "f") || is(next, "fil"),
        'i' | 'l' => is(last, "f"),
        't' => is(last, "s"),
        _ => false,
    }
}

fn one_char(c: char, out: &mut String) {
    match c {
        '*' => out.push_str("[^/]*"),
        c if c.is_ascii_alphabetic() => {
            out.extend(['[', c.to_ascii_lowercase(), c.to_ascii_uppercase(), ']']);
        }
        c if c.is_ascii_digit() || "_- ,:;=@~%!#&'<>`".contains(c) => out.push(c),
        '.' | '$' | '+' | '?' | '(' | ')' | '{' | '}' | '|' => out.extend(['[', c, ']']),
        // With their neighbours: none of these could represent itself without an escape.
        '"' => out.push_str("[!-#]"),
        '[' | '\\' | ']' | '^' => out.push_str("[Z-_]"),
        // Control characters.
        _ => out.push_str("[^ -~]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        let regex = |pattern: &str, depth| covering(&Pattern::parse(pattern).unwrap(), depth);
        assert_eq!(
            regex(".git/hooks", 2),
            "^/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[hH][oO][oO]([kK]|[^ -~]+)([sS]|[^ -~]+)(/|$)"
        );
        assert_eq!(regex("*.p", 0), "^(/[^/]+)*/[^/]*[.][pP](/|$)");
        assert_eq!(regex("/a/*.p", 1), "^/[^/]+/[aA]/[^/]*[.][pP](/|$)");
        assert_eq!(
            regex("a\"\\\n1", 0),
            "^(/[^/]+)*/[aA][!-#][Z-_][^ -~]1(/|$)"
        );
        assert_eq!(regex("cléé1", 0), "^(/[^/]+)*/[cC][^/]+1(/|$)");
        assert_eq!(regex("é*ü", 0), "^(/[^/]+)*/[^/]+[^/]*[^/]+(/|$)");
        assert_eq!(
            regex("fi/it", 0),
            "^(/[^/]+)*/([fF]|[^ -~]+)([iI]|[^ -~]+)/[iI][tT](/|$)"
        );
        let above = |pattern: &str| above(&Pattern::parse(pattern).unwrap(), 0);
        assert!(above("a").is_empty());
        assert!(above("*/b").is_empty());
        assert_eq!(above("a/*/b"), ["^(/[^/]+)*/[aA]$"]);
        assert_eq!(above("/a/b"), ["^/[aA]$"]);
        let any = |pattern: &str| above_by_any_name(&Pattern::parse(pattern).unwrap(), 0);
        assert_eq!(any("a/*/b"), ["^(/[^/]+)*/[aA]/[^/]*$"]);
        assert!(any("*/*/b").is_empty());
    }
}
