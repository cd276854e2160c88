//! Containers and the nodes in them: from an engine that was probed once, by running a container,
//! to a node with the grant of one worker.
//!
//! Forge itself runs inside. An image of `forge image build` contains it; containers of any other
//! image get this program as a read-only mount, together with its dependencies
//! ([`ProgramBundle`](crate::containers::ProgramBundle)).

mod engine;
mod node_containers;
mod nodes;
mod thread;

pub use engine::ContainerSource;
pub use node_containers::{ContainersUnavailable, NodeContainers};
pub(crate) use nodes::WorkerNodes;

/// The runner's name in reports.
const PLACE: &str = "docker";
/// Arguments of forge inside.
const NODE: [&str; 3] = ["node", "serve", "--stdio"];
