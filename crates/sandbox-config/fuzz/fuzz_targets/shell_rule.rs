//! Any text is a pattern or an error; a pattern says the same of the same words, and nothing of
//! none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_config::Pattern;

fuzz_target!(|texts: (&str, Vec<String>)| {
    let (text, words) = texts;
    let Ok(pattern) = Pattern::parse(text) else {
        return;
    };
    assert_eq!(pattern.text(), text);
    assert!(!pattern.matches(&[]));
    let first = pattern.matches(&words);
    let again = Pattern::parse(pattern.text()).expect("it was read before");
    assert_eq!(again.matches(&words), first);
    // A word that nobody wrote is matched by a `*` only.
    if !text.contains('*') && first {
        let strange = words
            .iter()
            .map(|word| format!("{word}\u{1}"))
            .collect::<Vec<_>>();
        assert!(
            !pattern.matches(&strange)
                || words
                    .iter()
                    .all(|word| text.contains(&format!("{word}\u{1}")))
        );
    }
});
