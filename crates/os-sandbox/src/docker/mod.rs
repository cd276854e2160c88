//! Containers of a Docker engine.

mod address;
mod containers;
mod copy;
mod dial;
mod engine;
mod images;
mod labels;
mod name;
mod reaper;
mod settings;
mod tls;

pub use address::Address;
pub use containers::Containers;
pub use copy::{BroughtBack, Copies, CopyLimits};
pub use engine::Engine;
pub use images::Image;
pub(crate) use labels::Life;
pub use name::ImageName;
pub use reaper::Reaped;
pub use settings::Settings;
