//! Makes the terminal of a command: a pseudo-terminal of the devpts that this process sees, so that
//! its name is true inside (pty(7), ioctl_tty(2)). The command's streams that are terminals of the
//! broker become this one, with their modes and size.
//!
//! The supervisor is the leader of the session, as a shell would be, and the command has a process
//! group of its own in it. The kernel stops such a group on Ctrl-Z: a group without a parent in its
//! own session it lets run (setpgid(2), "orphaned process group").
//!
//! A command of a pipeline begins in the background of its terminal: other programs may read the
//! person's. The kernel stops it once it reads its terminal or changes its modes, and the broker then
//! gives it the foreground.

use crate::job::Run;
use crate::sys::{self, CStr, Errno, network, terminal};
use crate::wire;
use crate::{CONTROL, Failure, at, record, tell};

const SOCK_STREAM: i32 = 1;

/// Our ends: the command's side of the terminal, and the socket on which the broker learns that the
/// command has stopped, and says that it goes on.
#[derive(Clone, Copy)]
pub struct CommandTerminal {
    pub side: i32,
    pub jobs: i32,
    /// Standard input and output are terminals.
    pub has_keys: bool,
}

impl CommandTerminal {
    /// Returns `true` if the supervisor needs this descriptor to give the command the foreground.
    pub fn is_needed(self, end: i32) -> bool {
        end == self.side && !self.has_keys
    }
}

/// Makes the terminal, hands the broker its side, and puts the command's into its streams.
pub fn open(run: &mut Run<'_>) -> Result<(), Failure> {
    let made = make(run).map_err(at(wire::STAGE_TERMINAL))?;
    for stream in &mut run.stdio {
        if terminal::modes(*stream).is_ok() {
            sys::close(*stream);
            *stream = made.side;
        }
    }
    if let Some(ruleset) = run.ruleset
        && run.terminal_rights != 0
    {
        sys::landlock_allow(ruleset, made.side, run.terminal_rights)
            .map_err(at(wire::STAGE_LATE_RULE))?;
    }
    run.terminal = Some(made);
    Ok(())
}

fn make(run: &Run<'_>) -> Result<CommandTerminal, Errno> {
    let is_terminal = |stream: &i32| terminal::modes(*stream).is_ok();
    let like = run.stdio.iter().copied().find(is_terminal);
    let path = CStr::new(b"/dev/ptmx\0").ok_or(sys::EINVAL)?;
    // The broker polls it.
    let flags = sys::O_RDWR | sys::O_NOCTTY | sys::O_NONBLOCK | sys::O_CLOEXEC;
    let master = sys::open(path, flags, 0)?;
    terminal::unlock(master)?;
    let side = terminal::peer(master)?;
    if let Some(like) = like {
        let modes = terminal::modes(like)?;
        // Others are those of the line editor of a shell that started us in the background.
        if terminal::collects_lines(&modes) {
            terminal::set_modes(side, &modes)?;
        }
        terminal::set_size(side, terminal::size(like)?)?;
    }
    // A broker that does not listen never holds the supervisor.
    let kind = SOCK_STREAM | sys::O_CLOEXEC | sys::O_NONBLOCK;
    let [jobs, theirs] = sys::attempts::socket_pair(kind)?;
    let made = record(wire::RECORD_TERMINAL, 0, 0, 0);
    network::send_with_descriptors(CONTROL, &made, [master, theirs])?;
    sys::close(master);
    sys::close(theirs);
    Ok(CommandTerminal {
        side,
        jobs,
        has_keys: run.stdio[..2].iter().all(is_terminal),
    })
}

/// Makes the supervisor the leader of a session with this controlling terminal.
pub fn lead_session(own: CommandTerminal) -> Result<(), Failure> {
    let failed = at(wire::STAGE_TERMINAL);
    sys::setsid().map_err(&failed)?;
    terminal::control(own.side).map_err(&failed)
}

/// Gives the command, which calls it, a process group, and that group the terminal if keys are for it.
pub fn lead_group(own: CommandTerminal) -> Result<(), Failure> {
    let failed = at(wire::STAGE_TERMINAL);
    terminal::lead_group().map_err(&failed)?;
    if !own.has_keys {
        return Ok(());
    }
    // All signals are blocked, so that the kernel does not stop us for it (SIGTTOU).
    terminal::set_foreground(own.side, sys::getpid()).map_err(&failed)
}

/// Tells the broker that the command has stopped.
pub fn tell_stop(jobs: i32, signal: i32) {
    // A broker that does not listen is not told.
    let _ = sys::write(jobs, &[signal as u8]);
}

/// Waits for the end of the broker, and gives its terminal the modes of now if it is raw then. In a
/// session of its own, signals for the broker's process group are not ours.
pub fn guard(side: i32) -> Result<(), Failure> {
    let failed = at(wire::STAGE_TERMINAL);
    sys::setsid().map_err(&failed)?;
    let before = terminal::modes(side).map_err(&failed)?;
    tell(wire::RECORD_STARTED, 0, 0, 0);
    // A byte says that the broker has given its terminal back. Another program may have it by then.
    let is_killed = !matches!(sys::read(CONTROL, &mut [0u8; 1]), Ok(1));
    if is_killed
        && terminal::collects_lines(&before)
        && terminal::modes(side).is_ok_and(|now| terminal::is_raw(&now))
    {
        terminal::set_modes(side, &before).map_err(&failed)?;
    }
    Ok(())
}

/// Sends the command the signal that the broker says, or gives it the foreground. Returns `false` if the
/// broker never will.
pub fn answer(own: CommandTerminal, target: i32) -> bool {
    let mut byte = [0u8; 1];
    match sys::read(own.jobs, &mut byte) {
        Ok(0) => false,
        Ok(_) => {
            let signal = match byte[0] {
                wire::TAKE_FOREGROUND => {
                    let _ = terminal::set_foreground(own.side, target);
                    // A broker that does not listen is not told.
                    let _ = sys::write(own.jobs, &[wire::TAKE_FOREGROUND]);
                    sys::SIGCONT
                }
                signal => i32::from(signal),
            };
            // It may have ended meanwhile.
            let _ = sys::kill(-target, signal);
            true
        }
        Err(errno) => errno == sys::EAGAIN,
    }
}
