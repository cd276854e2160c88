//! The inputs of a load, and the context that all readers share: sources, location, trust and
//! reserved paths. No reader is imported here.

pub(crate) mod discover;
pub(crate) mod expand;
pub(crate) mod load_context;
pub(crate) mod location;
pub(crate) mod reserved_paths;
pub(crate) mod sources;
pub(crate) mod trust;
pub(crate) mod trust_rules;
pub(crate) mod user_limits;
pub(crate) mod worker_names;
pub(crate) mod writable_places;
