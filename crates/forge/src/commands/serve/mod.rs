//! Commands that serve tools to other programs, and the settings of those programs.

mod file_watch;
pub(crate) mod http_endpoint;
pub(crate) mod install;
pub(crate) mod mcp;
pub(crate) mod node;
mod stdio_stream;
