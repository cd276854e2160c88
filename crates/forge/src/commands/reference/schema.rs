//! `forge schema`: the JSON Schemas of project, worker and playbook files, of audit records and of events, for editors
//! and other programs.

use sandbox_config::schema;

use crate::cli::{SchemaArgs, SchemaKind};
use crate::exit::{CliError, ExitKind};
use crate::output::stdout::print_text;

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
    print_text(text)?;
    Ok(ExitKind::Done)
}
