//! Containers of a Docker engine.

mod address;
mod containers;
mod dial;
mod engine;
mod images;
mod name;
mod settings;
mod tls;

pub use address::Address;
pub use containers::Containers;
pub use engine::Engine;
pub use images::Image;
pub use name::ImageName;
pub use settings::Settings;
