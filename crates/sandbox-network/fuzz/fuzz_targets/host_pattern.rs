//! Any text is a pattern or an error, and a pattern that is shown is read again; likewise hosts.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[expect(dead_code, reason = "the targets use less of it than the crate")]
#[path = "../../src/host.rs"]
mod host;
#[expect(dead_code, reason = "the targets use less of it than the crate")]
#[path = "../../src/pattern.rs"]
mod pattern;

use host::Host;
use pattern::HostPattern;

fuzz_target!(|text: &str| {
    if let Ok(pattern) = HostPattern::parse(text) {
        assert_eq!(HostPattern::parse(&pattern.to_string()), Ok(pattern));
    }
    if let Ok(host) = Host::parse(text) {
        assert_eq!(Host::parse(&host.to_string()), Ok(host.clone()));
        if let Some(exactly) = HostPattern::exactly(&host, 443) {
            assert!(exactly.matches_host(&host, 443), "{text:?}");
        }
    }
});
