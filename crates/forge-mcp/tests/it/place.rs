//! The place of the tests: this process.

use file_sandbox::FileSandbox;
use forge_tools::ToolboxBuilder;

/// With these files, and tools for them.
pub(crate) fn with_files(builder: ToolboxBuilder, files: FileSandbox) -> ToolboxBuilder {
    builder.files(files)
}
