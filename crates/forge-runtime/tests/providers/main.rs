//! Providers, against servers on the loopback that speak the vendors' wires: the real client on
//! one side, bytes on the other.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod asked;
mod bounds;
mod events;
mod fixture;
mod lossless;
mod recorded;
mod retries;
mod server;
mod tolerated;
