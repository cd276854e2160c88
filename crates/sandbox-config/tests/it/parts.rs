//! Parts of mounts, as commands are shown them.

use os_sandbox::Access;
use sandbox_config::{Declaration, Grant, Restrict};

use crate::support::Scratch;

const ROOT: &str = "{ root: . }";
const NESTED: &str = "{ mounts: [{ source: ., target: / }, \
                      { source: ./src/lib, target: /src/lib, readonly: true }] }";
const NAMED: &str = "{ mode: direct, zones: { src: { path: src } } }";

fn scratch(sandbox: &str) -> Scratch {
    Scratch::with_config(&format!("sandbox: {sandbox}\n"))
        .file(".git/hooks/pre-commit", "")
        .file("src/lib/deep/a", "")
        .file("src/src/a", "")
        .file("lib/a", "")
}

/// Of workers that call each other and restrict themselves to these places, the last one's. `!`: as
/// `/`.
fn restricted(scratch: &Scratch, places: &[&str]) -> Grant {
    let mut grant = scratch.load().unwrap().ceiling().clone();
    for place in places {
        let wish = match place.strip_prefix('!') {
            Some(place) => Restrict::to(place).unwrap().rebased(),
            None => Restrict::to(place).unwrap(),
        };
        grant = grant.child(&Declaration::restrict(wish)).unwrap();
    }
    grant
}

#[test]
fn a_part_is_seen_where_the_whole_would_show_it() {
    for (sandbox, places, shown) in [
        (ROOT, &[][..], &["/"][..]),
        (ROOT, &["/src"], &["/work/src"]),
        (ROOT, &["/src/lib"], &["/work/src/lib"]),
        (ROOT, &["/lib"], &["/work/lib"]),
        (ROOT, &["!/src"], &["/"]),
        (ROOT, &["!/src", "/lib"], &["/work/lib"]),
        (ROOT, &["!/src", "!/lib"], &["/"]),
        (ROOT, &["/src/lib", "!/src"], &["/work/lib"]),
        (NESTED, &[], &["/", "/src/lib"]),
        (NESTED, &["/src"], &["/work/src", "/work/src/lib"]),
        (NESTED, &["!/src"], &["/", "/lib"]),
        (NESTED, &["!/src", "/lib"], &["/work/lib"]),
        (NAMED, &[], &["/src"]),
        (NAMED, &["/src/lib"], &["/src/lib"]),
        (NAMED, &["/src/src"], &["/src/src"]),
        (NAMED, &["!/src"], &["/"]),
        (NAMED, &["!/src", "/lib"], &["/work/lib"]),
    ] {
        let policy = restricted(&scratch(sandbox), places).policy().unwrap();
        let mut seen: Vec<&str> = policy.mounts().iter().map(|m| m.shown_at()).collect();
        seen.sort_unstable();
        assert_eq!(seen, shown, "{sandbox} {places:?}");
    }
}

/// The directory of a mount whose `read` is blocked is not shown, by the project or by a worker.
#[test]
fn commands_do_not_see_a_mount_that_is_not_read() {
    let zones = |zones: &str| {
        let zones = zones.replace('!', ", approval: { read: blocked }");
        let config = format!("{{ mode: direct, zones: {{ {zones} }} }}");
        let scratch = scratch(&config);
        let ceiling = scratch.load().unwrap().ceiling().clone();
        (scratch, ceiling)
    };
    for (written, places, shown) in [
        (
            "src: { path: src }, books: { path: lib! }",
            &[][..],
            &["/src"][..],
        ),
        (
            "books: { path: lib!, mode: ro }, src: { path: src }",
            &[],
            &["/src"],
        ),
        ("books: { path: lib! }", &[], &[]),
        (
            "src: { path: src }, books: { path: lib! }",
            &["/src/lib"],
            &["/src/lib"],
        ),
        (
            "src: { path: src! }, books: { path: lib }",
            &["/src/lib"],
            &[],
        ),
        ("src: { path: src! }, books: { path: lib }", &["!/src"], &[]),
    ] {
        let (scratch, mut grant) = zones(written);
        for place in places {
            let wish = Restrict::to(place.trim_start_matches('!')).unwrap();
            let wish = if place.starts_with('!') {
                wish.rebased()
            } else {
                wish
            };
            grant = grant.child(&Declaration::restrict(wish)).unwrap();
        }
        let policy = grant.policy();
        let policy = policy.unwrap_or_else(|error| panic!("{written} {places:?}: {error}"));
        let seen: Vec<&str> = policy.mounts().iter().map(|m| m.shown_at()).collect();
        assert_eq!(seen, shown, "{written} {places:?}");
        for file in ["src/src/a", "lib/a"] {
            let is_shown = shown.contains(&"/src") && file.starts_with("src");
            let allows = policy.allows(scratch.path().join(file), Access::READ);
            assert_eq!(allows, is_shown, "{written} {places:?}: {file}");
        }
    }
}

#[test]
fn commands_are_not_shown_too_much() {
    let over = os_sandbox::Policy::MAX_MOUNTS + 1;
    for (count, expected) in [
        (over - 1, None),
        (
            over,
            Some(
                "cannot open the mounts: there are 257, parts that are held without being used \
                 included, and commands can be shown at most 256",
            ),
        ),
    ] {
        let zones: Vec<String> = (0..count)
            .map(|n| format!("z{n}: {{ path: ./z{n} }}"))
            .collect();
        let scratch = Scratch::with_config(&format!(
            "sandbox: {{ zones: {{ {} }} }}\n",
            zones.join(", ")
        ));
        let policy = scratch.load().unwrap().ceiling().policy();
        let said = policy.err().map(|error| error.to_string());
        assert_eq!(said.as_deref(), expected);
    }
}
