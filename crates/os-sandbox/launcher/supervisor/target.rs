//! The target's own stage: a fork of the supervisor (or the launcher itself) that gives up everything and execs. The order
//! is the argument: descriptors first, then Landlock while its descriptor is still there, then
//! every other descriptor closed, then the filter, which could forbid what comes before it.

use crate::job::Run;
use crate::listing;
use crate::probe;
use crate::supervisor::terminal;
use crate::sys::{self, Errno};
use crate::wire;
use crate::{CONTROL, Failure, at, tell_on};

/// Where failures are reported; closed by a successful exec, which is how success is seen.
pub const ERRORS: i32 = 3;
/// The channel to the connector, until the filter's listener has been sent.
const CHANNEL: i32 = 4;

const PR_SET_PDEATHSIG: usize = 1;
const PR_CAPBSET_DROP: usize = 24;
const PR_SET_NO_NEW_PRIVS: usize = 38;
const PR_CAP_AMBIENT: usize = 47;
const PR_CAP_AMBIENT_CLEAR_ALL: usize = 4;

/// Never returns: execs, or reports why not on `errors` and exits.
pub fn become_target(run: &Run<'_>, supervisor: i32, errors: i32, channel: Option<i32>) -> ! {
    let mut errors = errors;
    let (stage, errno) = match prepare(run, supervisor, &mut errors, channel) {
        Ok(()) if run.has(wire::FLAG_PROBE) => {
            let mut answers = [0u8; probe::MAX_BYTES];
            let bytes = probe::run(run, &mut answers);
            let _ = sys::write(ERRORS, &answers[..bytes]);
            sys::exit(0)
        }
        Ok(()) => exec(run),
        Err((stage, errno)) => (stage, errno),
    };
    let mut message = [0u8; 8];
    message[0..4].copy_from_slice(&stage.to_ne_bytes());
    message[4..8].copy_from_slice(&errno.to_ne_bytes());
    let _ = sys::write(errors, &message);
    sys::exit(125)
}

/// The same without a supervisor: this very process confines itself and execs. Whoever is told of
/// a failure sees the end of the control socket after it, and that end alone after a success.
pub fn become_target_alone(run: &Run<'_>) -> ! {
    let mut control = CONTROL;
    let (stage, errno) = match prepare_alone(run, &mut control) {
        Ok(()) => {
            tell_on(control, wire::RECORD_CONFINED, 0, 0, 0);
            exec(run)
        }
        Err(failure) => failure,
    };
    tell_on(control, wire::RECORD_FAILED, stage, errno, 0);
    sys::exit(125)
}

fn prepare_alone(run: &Run<'_>, control: &mut i32) -> Result<(), Failure> {
    if !run.has(wire::FLAG_UNCONFINED) {
        give_up_privileges()?;
    }
    // Out of the way of the target's own streams.
    *control = sys::dup_above(CONTROL, wire::MAX_FDS as i32 + 3).map_err(at(wire::STAGE_STDIO))?;
    confine(run, control, run.channel)
}

/// Gives up for good what the supervisor does not need either: new privileges and capabilities.
/// The supervisor calls this before it forks.
pub fn give_up_privileges() -> Result<(), Failure> {
    let failed = at(wire::STAGE_PRIVILEGES);
    sys::prctl(PR_SET_NO_NEW_PRIVS, 1, 0).map_err(&failed)?;
    // Kernels before 4.3 have no ambient set to clear.
    let _ = sys::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0);
    for capability in 0..64 {
        // Ends at the last capability that the kernel has. Without CAP_SETPCAP all of them stay;
        // no_new_privs keeps an exec from drawing on them.
        if sys::prctl(PR_CAPBSET_DROP, capability, 0).is_err() {
            break;
        }
    }
    sys::drop_capabilities().map_err(&failed)?;
    if sys::has_capabilities() {
        return Err(failed(sys::EPERM));
    }
    Ok(())
}

fn prepare(
    run: &Run<'_>,
    supervisor: i32,
    errors: &mut i32,
    channel: Option<i32>,
) -> Result<(), Failure> {
    // One more string to the end of the tree: if the supervisor goes, so does its child.
    sys::prctl(PR_SET_PDEATHSIG, sys::SIGKILL as usize, 0).map_err(at(wire::STAGE_PARENT))?;
    if sys::getppid() != supervisor {
        return Err((wire::STAGE_PARENT, sys::ECHILD));
    }
    confine(run, errors, channel)
}

/// `errors` is moved to [`ERRORS`] on the way. The filter's listener leaves over `channel`.
fn confine(run: &Run<'_>, errors: &mut i32, channel: Option<i32>) -> Result<(), Failure> {
    // While it is the only process of the tree, so that everything after it is inside.
    for group in run.groups {
        // "Whoever writes this": of one thread, which is all of us.
        sys::write(*group, b"0").map_err(at(wire::STAGE_GROUP))?;
    }
    if run.has(wire::FLAG_SETSID) {
        sys::setsid().map_err(at(wire::STAGE_PARENT))?;
    }
    if let Some(own) = run.terminal {
        terminal::lead_group(own)?;
    }
    // The received descriptors lie at 3 and above, so none is overwritten before its turn.
    let stdio = at(wire::STAGE_STDIO);
    for (to, from) in run.stdio.iter().enumerate() {
        sys::dup_to(*from, to as i32, false).map_err(&stdio)?;
    }
    sys::dup_to(*errors, ERRORS, true).map_err(&stdio)?;
    *errors = ERRORS;

    if let Some(ruleset) = run.ruleset {
        sys::landlock_restrict(ruleset).map_err(at(wire::STAGE_LANDLOCK))?;
    }
    let last = match channel {
        None => ERRORS,
        Some(channel) if channel == CHANNEL => CHANNEL,
        Some(channel) => {
            sys::dup_to(channel, CHANNEL, true).map_err(&stdio)?;
            CHANNEL
        }
    };
    listing::close_from(last as u32 + 1).map_err(at(wire::STAGE_DESCRIPTORS))?;
    let limits = at(wire::STAGE_LIMITS);
    for (resource, soft, hard) in run.limits() {
        // Limits only go down; a lower one of the caller stays.
        let (_, highest) = sys::get_limit(resource).map_err(&limits)?;
        sys::set_limit(resource, soft.min(highest), hard.min(highest)).map_err(&limits)?;
    }
    sys::chdir(run.directory).map_err(at(wire::STAGE_DIRECTORY))?;
    sys::block_signals(false).map_err(at(wire::STAGE_PARENT))?;
    if !run.filter.is_empty() {
        let listener =
            sys::install_filter(run.filter, channel.is_some()).map_err(at(wire::STAGE_FILTER))?;
        if let Some(listener) = listener {
            // The connector's alone from here on: a target that held it could answer itself.
            let sent = sys::network::send_with_descriptor(CHANNEL, &[0], listener);
            sys::close(listener);
            sys::close(CHANNEL);
            sent.map_err(at(wire::STAGE_CONNECT))?;
        }
    }
    Ok(())
}

/// As `execvp`: the first candidate that is there decides, unless it is merely not permitted.
fn exec(run: &Run<'_>) -> (i32, Errno) {
    let mut worst = sys::ENOENT;
    for candidate in run.candidates() {
        match sys::exec(candidate, run.argv, run.envp) {
            sys::ENOENT | sys::ENOTDIR => {}
            sys::EACCES => worst = sys::EACCES,
            errno => return (wire::STAGE_EXEC, errno),
        }
    }
    (wire::STAGE_EXEC, worst)
}
