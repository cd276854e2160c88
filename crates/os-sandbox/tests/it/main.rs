//! What is pure: policies, plans on described hosts, and their texts.

#[cfg(target_os = "macos")]
mod on_macos;
mod plan;
mod policy;
mod seatbelt;
