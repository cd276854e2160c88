//! The forge command line: parse, call, exit code. The only crate with ambient
//! authority: arguments, environment, terminal, our own files.
#![forbid(unsafe_code)]

mod ambient;
mod bounded;
mod cli;
mod commands;
mod completion;
mod exit;
mod foreign_flags;
mod install;
mod output;
mod queue;
mod run_view;
mod setup;
mod signals;
mod state;
mod terminal;
mod topics;
mod written_file;

use std::io::IsTerminal as _;

fn main() -> std::process::ExitCode {
    if let Some(code) = completion::answer_shell() {
        return code;
    }
    signals::survive_file_limit();
    let mut cli = match cli::Cli::from_process() {
        Ok(cli) => cli,
        Err(error) => return end(exit::unusable(&error)),
    };
    if let Err(failure) = cli.normalize() {
        return end(exit_of(&cli, failure).report(cli.wants_json()));
    }
    let ambient = ambient::Ambient::from_env(cli.global.clone());
    output::stderr::set_colour(ambient.colour);
    if cli.command.uses_state_files()
        && let Err(failure) = ambient
            .check()
            .and_then(|()| setup::start_dir::check(&ambient))
    {
        return end(exit_of(&cli, failure).report(cli.wants_json()));
    }
    let outcome = run(&cli, &ambient);
    // No command outlives forge, and leftovers are cleaned up.
    let found = forge_runtime::ContainerSource::wait_for_dropped(setup::SETTLED_WITHIN);
    output::stderr::print_few("quarantined", &found, "forge quarantine list");
    match outcome {
        Ok(exit) => end(exit),
        Err(failure) if failure.code() == exit::USAGE => {
            end(exit_of(&cli, failure).report(cli.wants_json()))
        }
        Err(failure) => end(failure.report(cli.wants_json())),
    }
}

/// Returns the code to end with. On a terminal an interrupted forge ends by the signal, and this does not
/// return: a shell leaves its loop or script only then, and reports this code.
fn end(exit: exit::ExitKind) -> std::process::ExitCode {
    let is_at_terminal = std::io::stdin().is_terminal()
        || std::io::stdout().is_terminal()
        || std::io::stderr().is_terminal();
    if exit == exit::ExitKind::Interrupted && is_at_terminal {
        signals::end_as_interrupted();
    }
    exit.code().into()
}

/// Returns a failure before the work began. Its exit code is none of those that a command of
/// `forge exec` often has.
fn exit_of(cli: &cli::Cli, failure: exit::CliError) -> exit::CliError {
    match &cli.command {
        cli::ForgeCommand::Exec(_) => failure.exits(exit::ExitKind::ExecRefused),
        _ => failure,
    }
}

fn run(cli: &cli::Cli, ambient: &ambient::Ambient) -> Result<exit::ExitKind, exit::CliError> {
    match &cli.command {
        cli::ForgeCommand::Allow(args) => commands::project::allow::run(args, ambient),
        cli::ForgeCommand::Approve(args) => commands::approve::run(args, ambient),
        cli::ForgeCommand::Check(args) => commands::project::check::run(args, ambient),
        cli::ForgeCommand::Clean(args) => commands::clean::run(args, ambient),
        cli::ForgeCommand::Completions(args) => commands::reference::pages::completions(args),
        cli::ForgeCommand::Config(args) => commands::project::config::run(args, ambient),
        cli::ForgeCommand::Doctor(args) => commands::doctor::run(args, ambient),
        cli::ForgeCommand::Exec(args) => commands::exec::run(args, ambient),
        cli::ForgeCommand::Explain(args) => commands::project::explain::run(args, ambient),
        cli::ForgeCommand::Help(args) => commands::reference::help::run(&cli.global, args),
        cli::ForgeCommand::Image(args) => commands::image::run(args, ambient),
        cli::ForgeCommand::Init(args) => commands::project::init::run(args, ambient),
        cli::ForgeCommand::Log(args) => commands::log::run(args, ambient),
        cli::ForgeCommand::Man(args) => commands::reference::pages::man(&cli.global, args),
        cli::ForgeCommand::Mcp(args) => match &args.action {
            None => commands::serve::mcp::run(args, ambient),
            Some(cli::McpAction::Install(args)) => commands::serve::install::run(args, ambient),
        },
        cli::ForgeCommand::Node(args) => commands::serve::node::run(args),
        cli::ForgeCommand::Preset(args) => commands::preset::run(args, ambient),
        cli::ForgeCommand::Quarantine(args) => commands::quarantine::run(args, ambient),
        cli::ForgeCommand::Review(args) => commands::review::run(args, ambient),
        cli::ForgeCommand::Run(args) => commands::run::run(args, ambient),
        cli::ForgeCommand::Schema(args) => commands::reference::schema::run(args),
        cli::ForgeCommand::Stage(args) => commands::stage::run(args, ambient),
        cli::ForgeCommand::Tools(args) => commands::project::tools::run(args, ambient),
        cli::ForgeCommand::Trust(args) => commands::project::trust::run(args, ambient),
        cli::ForgeCommand::Worker(args) => commands::project::worker::run(args, ambient),
    }
}
