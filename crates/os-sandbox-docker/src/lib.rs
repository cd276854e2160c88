//! Containers of a Docker engine.

mod address;
mod carrier;
mod config;
mod containers;
mod copy;
mod copy_streams;
mod dial;
mod elsewhere;
mod engine;
mod filter;
mod images;
mod labels;
mod made;
mod name;
mod place;
mod probe;
mod reaper;
mod running;
mod settings;
mod start;
mod supervise;
mod tls;

pub use address::Address;
pub use containers::Containers;
pub use copy::{CopyBackReport, CopyLimits, MountCopies};
pub use engine::Engine;
pub use images::Image;
pub(crate) use labels::OwnerId;
pub use name::ImageName;
pub use probe::Probed;
pub use reaper::Reaped;
pub use settings::Settings;

pub(crate) use start::start;
