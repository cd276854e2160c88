//! Any bytes are a hello, the start of one, or something else; more bytes never make a complete hello
//! another one.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The crate shows hellos only through its connections; here they are driven directly.
#[path = "../../src/broker/tunnel/client_hello.rs"]
mod client_hello;

use client_hello::HelloStatus;

fuzz_target!(|bytes: &[u8]| {
    let whole = client_hello::parse(bytes);
    for end in [
        bytes.len() / 3,
        bytes.len() / 2,
        bytes.len().saturating_sub(1),
    ] {
        let part = client_hello::parse(&bytes[..end]);
        if part != HelloStatus::Incomplete {
            assert_eq!(part, whole, "{end} of {bytes:?}");
        }
    }
});
