//! `forge schema`: the JSON Schemas of project, worker and playbook files, of audit records and of events, for editors
//! and other programs.

use std::io::Write as _;

use sandbox_config::schema;

use crate::cli::{Schema as Args, SchemaOf};
use crate::exit::{Exit, Failure};

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let text = match args.of {
        SchemaOf::Audit => forge_tools::audit::SCHEMA.to_owned(),
        SchemaOf::Config => schema::project(),
        SchemaOf::Events => crate::show::SCHEMA.to_owned(),
        SchemaOf::Playbook => forge_runtime::Playbook::SCHEMA.to_owned(),
        SchemaOf::Transcript => forge_runtime::transcript::SCHEMA.to_owned(),
        SchemaOf::Worker => schema::worker(),
    };
    std::io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .map_err(Failure::stdout)?;
    Ok(Exit::Done)
}
