//! Any bytes as an answer of git or of a credential helper: taken apart or refused, never a panic, and
//! never more than was there.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|answer: &[u8]| forge_git::fuzzed::answer(answer));
