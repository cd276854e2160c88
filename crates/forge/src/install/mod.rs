//! The settings of MCP clients: the file and its content (`clients`, `entry`), and edits that leave
//! the rest intact (`edit`, one module a format, and `settings_file`).

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
