//! Where containers come from, and nodes in them: from an engine that was tried out once, by running
//! something, to a node that holds what one worker holds.
//!
//! What runs inside is forge itself. An image that was built for that has it; into containers of any
//! other image this program is shown, read-only, with what it needs to run
//! ([`ProgramBundle`](crate::containers::ProgramBundle)).

mod engine;
mod node_containers;
mod nodes;
mod thread;

pub use engine::ContainerSource;
pub use node_containers::{ContainersUnavailable, NodeContainers};
pub(crate) use nodes::WorkerNodes;

/// Where calls are said to run.
const PLACE: &str = "docker";
/// What forge is told to be inside.
const NODE: [&str; 3] = ["node", "serve", "--stdio"];
