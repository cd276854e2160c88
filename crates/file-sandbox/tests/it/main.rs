//! The crate from outside: what it does on a real file system, and what it refuses.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its scene has failed"
)]
#![expect(
    clippy::print_stdout,
    reason = "a matrix says which cells ran; `--nocapture` shows it"
)]

mod again;
mod bare;
mod both;
mod by_content;
mod closed;
mod edit_texts;
mod escapes;
mod faults;
mod git_files;
mod kinds;
mod link_targets;
mod model;
mod mounts;
mod name_patterns;
mod nested;
mod operations;
#[cfg(target_os = "linux")]
mod race;
mod restrict;
mod scene;
mod search;
mod texts;
mod whole;
