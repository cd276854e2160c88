//! The head of a request passes only if a plain reader finds no other host in it, in whichever parts
//! it arrives.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[expect(dead_code, reason = "the targets use less of it than the crate")]
#[path = "../../src/host.rs"]
mod host;
#[path = "../../src/broker/tunnel/host_header.rs"]
mod host_header;

use host::{Host, HostName};
use host_header::{HostHeaderCheck, HostHeaderError};

fn check(name: &HostName, bytes: &[u8], size: usize) -> Result<bool, HostHeaderError> {
    let mut check = HostHeaderCheck::new(name);
    for part in bytes.chunks(size) {
        check.push(part)?;
    }
    Ok(check.is_done())
}

fuzz_target!(|bytes: &[u8]| {
    let name = HostName::parse("a.example").expect("a name");
    let whole = check(&name, bytes, usize::MAX);
    assert_eq!(whole, check(&name, bytes, 1));
    let mut headers = [httparse::EMPTY_HEADER; 100];
    let mut request = httparse::Request::new(&mut headers);
    if whole.is_err() || !matches!(request.parse(bytes), Ok(httparse::Status::Complete(_))) {
        return;
    }
    let named = request.headers.iter();
    let named = named.filter(|header| header.name.eq_ignore_ascii_case("host"));
    for header in named.filter(|header| !header.value.is_empty()) {
        let text = std::str::from_utf8(header.value).expect("a host is text");
        let (host, _) = Host::parse_with_optional_port(text.trim()).expect("a host");
        assert_eq!(host, Host::Name(name.clone()), "{bytes:?}");
    }
});
