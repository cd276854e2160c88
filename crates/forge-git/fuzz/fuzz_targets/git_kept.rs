//! Any bytes as the description of a staged commit: refused in words that move no cursor, or the same
//! commit when it is written down again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| forge_git::fuzzed::kept(text));
