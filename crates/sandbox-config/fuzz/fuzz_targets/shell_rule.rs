//! Any text is a pattern or an error; a pattern says the same of the same words, and nothing of
//! none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_config::{CommandPattern, Verdict};

fuzz_target!(|texts: (&str, Vec<String>)| {
    let (text, words) = texts;
    let Ok(pattern) = CommandPattern::parse(text) else {
        return;
    };
    assert_eq!(pattern.text(), text);
    assert!(!pattern.matches(&[]));
    let first = pattern.matches(&words);
    let again = CommandPattern::parse(pattern.text()).expect("it was read before");
    assert_eq!(again.matches(&words), first);
    // A rule that forbids reads its pattern at least as widely as one that allows.
    for verdict in [Verdict::Ask, Verdict::Block] {
        let forbids = pattern.matches_in(verdict, &words);
        assert!(forbids || !first);
        let mut longer = words.clone();
        longer.push("x".to_owned());
        assert!(
            !text.trim_end().ends_with(" *") || !forbids || pattern.matches_in(verdict, &longer)
        );
    }
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
