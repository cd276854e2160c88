//! Reviews of real layers: of overlays that are mounted in namespaces of the tests' own, and of
//! layers that are laid out by hand.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its scene has failed"
)]
#![expect(
    clippy::print_stderr,
    reason = "a test says that it is skipped, and a child that it has begun"
)]

mod applying;
mod copies;
mod kills;
mod listing;
mod model;
mod scene;
mod users;
