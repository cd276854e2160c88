//! The settings of MCP clients: which file, what stands in it (`clients`, `entry`), and how it
//! gets there without harm to the rest (`edit`, one module a format, and `target`).

mod clients;
mod edit;
mod entry;
mod json;
mod server_command;
mod settings_file;
mod toml;
mod yaml;

pub(crate) use clients::{McpClient, Scope, SettingsPath, SettingsRoots};
pub(crate) use edit::{EditError, SettingsEdit, edit};
pub(crate) use entry::{ServerCommand, ServerEntry};
pub(crate) use server_command::{Audience, OUR_PLACES, absolute, in_path, own_places, start};
pub(crate) use settings_file::{SettingsFile, SettingsFileError};
