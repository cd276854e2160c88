//! Parts of mounts, as commands are shown them.

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
