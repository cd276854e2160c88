//! What is pure: policies, plans on described hosts, and their texts.

mod plan;
mod policy;
mod seatbelt;
