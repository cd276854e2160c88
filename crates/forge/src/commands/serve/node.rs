//! `forge node serve --stdio`: the part of forge inside a container. Another forge decides about
//! calls and sends them over standard input and output; `docs/node.md` describes the protocol. It
//! reads no configuration, asks no person, and ends with its input.

use std::os::fd::AsFd as _;

use forge_node::{ServeOptions, serve};

use crate::cli::{NodeAction, NodeArgs};
use crate::commands::serve::mcp::take_standard_output;
use crate::commands::serve::stdio_stream::StdioStream;
use crate::exit::{CliError, ExitKind};
use crate::setup;

/// The control group of the container, which counts the resources of all processes in it.
const CONTROL_GROUP: &str = "/sys/fs/cgroup";

pub(crate) fn run(args: &NodeArgs) -> Result<ExitKind, CliError> {
    let NodeAction::Serve(serving) = &args.action;
    debug_assert!(serving.stdio, "the only way there is so far");
    let output = take_standard_output().map_err(CliError::stdout)?;
    let served = setup::until_stopped(async {
        let input = std::io::stdin().as_fd().try_clone_to_owned();
        let input = input.map_err(|error| failed(&error))?;
        let inside = ServeOptions::new(cap_std::ambient_authority()).control_group(CONTROL_GROUP);
        let (input, output) = (StdioStream::reader(input), StdioStream::writer(output));
        let served = serve(input, output, inside).await;
        served.map_err(|error| failed(&error))
    })?;
    // Threads that still wait for something end with this process, and commands with it.
    served.map(|()| ExitKind::Done)
}

fn failed(error: &dyn std::error::Error) -> CliError {
    CliError::negative("node", error.to_string())
}
