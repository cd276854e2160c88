//! Any bytes as an audit log, in one file or two (a byte 0 stands between them): an outcome, never a
//! panic, and the same one however the bytes come in.
#![no_main]

use std::io::BufReader;

use forge_tools::audit::{Verifier, verify};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|files: &[u8]| {
    let mut files = files.splitn(2, |byte| *byte == 0);
    let (first, second) = (files.next().unwrap_or(&[]), files.next().unwrap_or(&[]));
    let whole = verify(first).expect("memory does not fail");
    let mut verifier = Verifier::new();
    verifier
        .segment(BufReader::with_capacity(3, first))
        .expect("memory does not fail");
    verifier.segment(second).expect("memory does not fail");
    let both = verifier.finish();
    assert!(both.lines >= whole.lines && both.segments == 2);
    assert!(!both.integrity.to_string().is_empty());
});
