//! Containers of a Docker engine.

mod address;
mod dial;
mod engine;
mod images;
mod name;
mod tls;

pub use address::Address;
pub use engine::Engine;
pub use images::Image;
pub use name::ImageName;
