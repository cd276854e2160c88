//! Names that every command needs.

pub(super) use serde_json::{Value, json};

pub(super) use crate::ambient::Ambient;
pub(super) use crate::cli::Global;
pub(super) use crate::exit::{CliError, ExitKind};
pub(super) use crate::output::escape::{escape, escape_path};
pub(super) use crate::output::stderr;
pub(super) use crate::output::stdout::{print_json, print_line, print_result, print_text};
