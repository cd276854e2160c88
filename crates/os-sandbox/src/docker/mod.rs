//! Containers of a Docker engine.

mod engine;
mod images;
mod name;

pub use engine::Engine;
pub use images::Image;
pub use name::ImageName;
