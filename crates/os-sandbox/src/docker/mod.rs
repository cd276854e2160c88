//! Containers of a Docker engine.

mod engine;

pub use engine::Engine;
