//! The network broker between real sockets on the loopback. Names are resolved by the tests.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![cfg_attr(
    target_os = "linux",
    expect(clippy::print_stderr, reason = "a test that is skipped says so")
)]

mod addresses;
mod admission;
mod asking;
mod fronting;
mod inbound;
mod interrupted;
mod lifecycle;
mod load;
#[cfg(target_os = "linux")]
mod own_addresses;
mod parent;
mod proxy;
mod resolver;
mod sharing;
mod socks;
#[cfg(target_os = "linux")]
mod termination;
mod tls;
#[cfg(target_os = "linux")]
mod transparent;
mod world;
