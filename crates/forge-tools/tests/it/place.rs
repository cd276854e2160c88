//! The place of the tests: this process. forge-node runs the same tests with the work in nodes, and
//! has a module of this name for it.

use std::path::Path;

use file_sandbox::FileSandbox;
use forge_tools::ToolboxBuilder;

/// The name of another place than this process.
pub(crate) const ELSEWHERE_NAME: &str = "elsewhere";

/// Commands are confined on Linux only, so far.
pub(crate) const HAS_COMMANDS: bool = cfg!(target_os = "linux");

/// Runs the check in every place.
pub(crate) fn everywhere(check: impl Fn()) {
    insta::allow_duplicates!(check());
}

/// Returns `true` if the work is done in a node.
pub(crate) fn is_elsewhere() -> bool {
    false
}

/// With these files, and tools for them.
pub(crate) fn with_files(builder: ToolboxBuilder, files: FileSandbox) -> ToolboxBuilder {
    builder.files(files)
}

/// With commands that see this directory, where commands are confined.
pub(crate) fn with_commands(builder: ToolboxBuilder, directory: &Path) -> ToolboxBuilder {
    #[cfg(target_os = "linux")]
    let builder = builder.processes(crate::commands::processes(directory));
    let _ = directory;
    builder
}

/// Commands under this plan.
pub(crate) fn processes(plan: os_sandbox::Plan) -> forge_tools::Processes {
    forge_tools::Processes::new(plan)
}
