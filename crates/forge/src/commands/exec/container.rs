//! `forge exec` in a container: the same command, its streams and its exit code, through the node
//! that runs there. The container has no terminal: the command sees pipes.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use forge_node::{CommandEvent as FromNode, NodeCommand};
use forge_runtime::describe_parent_proxy;
use forge_tools::{CallFailure, CommandSpec, ExitReport, FailureCode};
use os_sandbox::{Contact, Limits, Stream};
use sandbox_config::Grant;
use tokio::io::AsyncReadExt as _;

use super::end_report::{RESTORE_HINT, print_refused_hosts};
use super::exec_log::ExecLog;
use super::json_report::{CapturedOutput, report};
use super::receipt::Receipt;
use super::site::ContainerContext;
use crate::cli::{ExecArgs, Global};
use crate::commands::prelude::*;
use crate::setup;
use crate::terminal::OutputFilter;

/// Read size of standard input, in bytes.
const PIECE_BYTES: usize = 64 * 1024;

pub(super) fn execute(
    global: &Global,
    args: &ExecArgs,
    context: &ContainerContext,
    kept: ExecLog,
) -> Result<ExitKind, CliError> {
    let start = start(args, &context.directory)?;
    if let (Some(parent), Ok(policy)) = (&context.parent_proxy, context.grant.policy())
        && let Some(told) = describe_parent_proxy(&policy.with_parent_proxy(parent.clone()))
        && !global.quiet
        && !global.json
    {
        stderr::print(format!("warning: {told}"));
    }
    let receipt = args.receipt.as_deref().map(Receipt::open).transpose()?;
    let mut printed = CapturedOutput::new(&Limits::default());
    let collected = global.json.then_some(&mut printed);
    let ran = setup::until_stopped(run(context, start, collected, global.quiet));
    let ended = match ran.and_then(|ran| ran) {
        Ok(ended) => ended,
        Err(failure) => {
            kept.not_started(&failure)?;
            return Err(failure);
        }
    };
    kept.ended_there(&ended)?;
    if let Some(mut receipt) = receipt {
        receipt.write(serde_json::to_string_pretty(&ended.enforcement).unwrap_or_default())?;
        receipt.check()?;
    }
    if global.json {
        let enforcement = ended.enforcement.clone().unwrap_or_default();
        report(
            &ended.exit,
            ended.exceeded.clone(),
            &printed,
            enforcement,
            None,
        )?;
    } else {
        stderr::print_few("quarantined", &ended.quarantined, "forge quarantine list");
        if !ended.quarantined.is_empty() && !global.quiet {
            stderr::print(RESTORE_HINT);
        }
        if let Some(exceeded) = &ended.exceeded {
            stderr::print(format!("limit: the command used {exceeded}"));
        }
        if !ended.exit.success() && !global.quiet {
            print_refused_hosts(&contacts(&ended));
        }
    }
    if args.fail_on_quarantine && !ended.quarantined.is_empty() {
        return Ok(ExitKind::Quarantined);
    }
    Ok(ExitKind::Command(
        u8::try_from(ended.exit.code()).unwrap_or(255),
    ))
}

/// Returns the attempts of the command to reach hosts by name.
fn contacts(ended: &ExitReport) -> Vec<Contact> {
    let receipt = ended.enforcement.as_ref();
    let contacts = receipt.and_then(|receipt| receipt.get("contacts")).cloned();
    let contacts = contacts.and_then(|contacts| serde_json::from_value(contacts).ok());
    contacts.unwrap_or_default()
}

fn start(args: &ExecArgs, directory: &str) -> Result<CommandSpec, CliError> {
    let mut words = Vec::with_capacity(args.command.len());
    for word in &args.command {
        // The protocol with a container is text.
        let word = word.to_str().ok_or_else(|| {
            let text = "an argument that is not text cannot be given to a command in a container";
            CliError::exec_refused("exec", text)
        })?;
        words.push(word.to_owned());
    }
    let mut words = words.into_iter();
    let program = words
        .next()
        .ok_or_else(|| CliError::usage("missing command"))?;
    let mut start = CommandSpec::new(program, words);
    start.directory = Some(directory.to_owned());
    start.timeout = args.timeout.map(Duration::from_secs);
    Ok(start)
}

async fn run(
    context: &ContainerContext,
    start: CommandSpec,
    printed: Option<&mut CapturedOutput>,
    is_quiet: bool,
) -> Result<ExitReport, CliError> {
    let ContainerContext {
        containers,
        grant,
        parent_proxy,
        ..
    } = context;
    let node = containers
        .node(grant, parent_proxy.as_ref())
        .await
        .map_err(|error| setup::not_equipped(error).exits(ExitKind::ExecRefused))?;
    let command = node.start(start, true).await;
    let command = command.map_err(|failure| not_started(failure, grant))?;
    let outcome = streams(command, printed, is_quiet).await;
    // Its changes are here when forge ends, also with an engine on another host.
    let over = containers.over(node).await;
    let mut ended = outcome?;
    let over = over.map_err(|why| {
        let text = format!(
            "the command ended with {}, and what it changed may not be here: {why}",
            ended.exit
        );
        CliError::exec_refused("exec", text)
    })?;
    ended.quarantined.extend(over.quarantined);
    if let Some(Value::Object(mut receipt)) = over.receipt {
        let not_copied = receipt.get("not_copied").and_then(Value::as_array);
        for path in not_copied.into_iter().flatten() {
            stderr::print(format!(
                "not copied back: {}",
                path.as_str().unwrap_or_default()
            ));
        }
        if let Some(Value::Object(known)) = &mut ended.enforcement
            && let Some(inside) = known.remove("inside")
        {
            receipt.insert("inside".to_owned(), inside);
        }
        ended.enforcement = Some(Value::Object(receipt));
    }
    Ok(ended)
}

/// Returns the error of a command that did not start.
fn not_started(failure: CallFailure, grant: &Grant) -> CliError {
    let exit = match failure.code {
        FailureCode::CommandNotFound => ExitKind::Command(127),
        FailureCode::CommandNotExecutable => ExitKind::Command(126),
        _ => ExitKind::ExecRefused,
    };
    let refused = CliError::new(exit, "exec", failure.message);
    match failure.code {
        FailureCode::CommandNotFound => refused.hint(format!(
            "the image {} does not have it: name another one in `docker.image`, or build one \
             with `forge image build --base IMAGE`, whose programs it then has",
            grant.execution().docker().image()
        )),
        _ => refused,
    }
}

/// Its streams are ours until its end.
async fn streams(
    mut command: NodeCommand,
    mut kept: Option<&mut CapturedOutput>,
    is_quiet: bool,
) -> Result<ExitReport, CliError> {
    let mut filters = [Stream::Stdout, Stream::Stderr].map(filter_of);
    let mut input = tokio::io::stdin();
    let mut piece = vec![0; PIECE_BYTES];
    let mut open = true;
    loop {
        let printed = tokio::select! {
            printed = command.next() => printed,
            read = input.read(&mut piece), if open => {
                match read {
                    Ok(length @ 1..) => {
                        command.write(piece.get(..length).unwrap_or_default()).await;
                    }
                    // An input that cannot be read has ended.
                    Ok(0) | Err(_) => {
                        open = false;
                        command.close();
                    }
                }
                continue;
            }
        };
        let printed = printed.map_err(|failure| CliError::exec_refused("exec", failure.message))?;
        match printed {
            FromNode::Some(stream, bytes) => {
                if let Some(kept) = &mut kept {
                    kept.push(stream, &bytes);
                // A closed output ends it as a pipe would.
                } else if write_filtered(stream, &bytes, &mut filters).is_err() {
                    command.kill();
                }
            }
            FromNode::Ended(ended) => {
                end_filters(filters, is_quiet);
                return Ok(ended);
            }
        }
    }
}

/// Returns the filter of a stream that goes to a terminal.
fn filter_of(stream: Stream) -> Option<OutputFilter> {
    let is_terminal = match stream {
        Stream::Stdout => std::io::stdout().is_terminal(),
        Stream::Stderr => std::io::stderr().is_terminal(),
    };
    is_terminal.then(OutputFilter::default)
}

fn write_filtered(
    stream: Stream,
    bytes: &[u8],
    filters: &mut [Option<OutputFilter>; 2],
) -> std::io::Result<()> {
    let Some(filter) = &mut filters[stream as usize] else {
        return write_stream(stream, bytes);
    };
    let mut passed = Vec::with_capacity(bytes.len());
    filter.push(bytes, &mut passed);
    write_stream(stream, &passed)
}

fn end_filters(filters: [Option<OutputFilter>; 2], is_quiet: bool) {
    for (mut filter, stream) in filters.into_iter().zip([Stream::Stdout, Stream::Stderr]) {
        let Some(filter) = &mut filter else {
            continue;
        };
        let mut rest = Vec::new();
        filter.end(&mut rest);
        // A terminal that has gone needs nothing.
        let _gone = write_stream(stream, &rest);
        let told = filter.withheld().describe().filter(|_| !is_quiet);
        told.into_iter().for_each(stderr::print);
    }
}

fn write_stream(stream: Stream, bytes: &[u8]) -> std::io::Result<()> {
    match stream {
        Stream::Stdout => {
            let mut out = std::io::stdout().lock();
            out.write_all(bytes)?;
            out.flush()
        }
        Stream::Stderr => std::io::stderr().lock().write_all(bytes),
    }
}
