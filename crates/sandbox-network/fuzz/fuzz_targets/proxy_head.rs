//! Any bytes are a request or an error, and a tunnel's target is the one that a plain reader finds.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../src/broker/proxy/head.rs"]
mod head;
#[expect(dead_code, reason = "the targets use less of it than the crate")]
#[path = "../../src/host.rs"]
mod host;

use head::ProxyRequest;
use host::Host;

fuzz_target!(|bytes: &[u8]| {
    let _ = head::target_of(bytes);
    let Ok(Some(ProxyRequest::Connect { host, port, .. })) = head::parse(bytes) else {
        return;
    };
    let text = std::str::from_utf8(bytes).expect("a head of a tunnel is text");
    let target = text
        .strip_prefix("CONNECT ")
        .and_then(|rest| rest.split(' ').next());
    assert_eq!(target.map(Host::parse_with_port), Some(Ok((host, port))));
    assert!(text.ends_with("\r\n\r\n"), "nothing follows");
});
