//! `forge schema`: the JSON Schemas of project, worker and playbook files, of audit records and of events, for editors
//! and other programs.

use std::io::Write as _;

use sandbox_config::schema;

use crate::cli::{SchemaArgs, SchemaKind};
use crate::exit::{CliError, ExitKind};

pub(crate) fn run(args: &SchemaArgs) -> Result<ExitKind, CliError> {
    let text = match args.of {
        SchemaKind::Audit => forge_tools::audit::SCHEMA.to_owned(),
        SchemaKind::Config => schema::project(),
        SchemaKind::Events => crate::run_view::SCHEMA.to_owned(),
        SchemaKind::Playbook => forge_runtime::Playbook::SCHEMA.to_owned(),
        SchemaKind::Preset => schema::preset(),
        SchemaKind::Transcript => forge_runtime::transcript::SCHEMA.to_owned(),
        SchemaKind::Worker => schema::worker(),
    };
    std::io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .map_err(CliError::stdout)?;
    Ok(ExitKind::Done)
}
