//! Any text is a pattern or an error, and a directory on the way to a match is never given up.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The crate shows patterns only through its operations; here they are driven directly.
#[allow(dead_code, reason = "the targets use less of it than the crate")]
#[path = "../../src/glob.rs"]
mod glob;

fuzz_target!(|texts: (&str, &str)| {
    let (pattern, path) = texts;
    let Ok(glob) = glob::Glob::parse(pattern) else {
        return;
    };
    let mut states = vec![glob.start()];
    for name in path.split('/').filter(|name| !name.is_empty()).take(64) {
        let next = glob.step(&states[states.len() - 1], name);
        states.push(next);
    }
    let (last, before) = states.split_last().expect("there is a first one");
    if glob.accepts(last) {
        assert!(
            before.iter().all(|state| glob.may_go_on(state)),
            "{pattern:?} {path:?}"
        );
    }
    let Ok(anywhere) = glob.clone().anywhere() else {
        return;
    };
    let names = path.split('/').filter(|name| !name.is_empty()).take(64);
    let end = names.fold(anywhere.start(), |state, name| anywhere.step(&state, name));
    assert!(
        !glob.accepts(last) || anywhere.accepts(&end),
        "{pattern:?} {path:?}"
    );
});
