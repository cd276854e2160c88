//! An agent's own screen, in the terminal that forge gives it.

use std::process::Command;

use super::{AGENTS, AgentWorld, HELLO, programs};
use crate::terminal::pty::{Setup, Terminal, USUAL};

/// All three streams on the terminal.
const INTERACTIVE: Setup<'static> = Setup {
    piped: false,
    ..USUAL
};

/// The same command with the terminal as its controlling one.
fn with_terminal(of: &Command) -> Command {
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait"]);
    command.arg(of.get_program()).args(of.get_args());
    command
        .current_dir(of.get_current_dir().unwrap())
        .env_clear();
    let variables = of.get_envs();
    command.envs(variables.filter_map(|(name, value)| Some((name, value?))));
    command
}

#[test]
fn a_conversation_on_the_screen_survives_sizes_and_a_pause() {
    let Some(programs) = programs() else { return };
    let agent = &AGENTS[0];
    let world = AgentWorld::new(agent, &programs);
    let command = with_terminal(&world.command(agent, false, &[]));
    let terminal = Terminal::start_command(INTERACTIVE, command);
    // Its questions at the first start in a directory, and about a key.
    terminal.until("trust this folder");
    terminal.type_text("\r");
    terminal.until("Do you want to use this API key?");
    terminal.type_text("\x1b[A");
    terminal.until("❯ 1. Yes");
    terminal.type_text("\r");
    terminal.until("for shortcuts");
    terminal.type_text("hi there");
    terminal.until("hi there");
    terminal.type_text("\r");
    terminal.until(HELLO);
    terminal.resize(60, 30);
    terminal.until("for shortcuts");
    terminal.type_text("once more");
    terminal.until("once more");
    terminal.type_text("\r");
    terminal.until_times(HELLO, 2);
    terminal.type_text("/exit\r");
    let ended = terminal.end_with_command();
    assert_eq!(ended.code, Some(0), "{}", ended.raw);
    assert!(
        ended.raw.contains("connected: 127.0.0.1:8181"),
        "{}",
        ended.raw
    );
}
