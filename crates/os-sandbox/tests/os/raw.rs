//! Raw system calls for the probe: some of what must be refused has no safe wrapper anywhere.

use nix::libc;

/// Makes a call with plain numbers for arguments, or the address of `data` where an argument is
/// [`DATA`], of its second half where it is [`DATA_MIDDLE`].
pub(crate) fn call(number: i64, args: [u64; 6], data: &mut [u8]) -> Result<i64, i32> {
    let pointer = data.as_mut_ptr() as u64;
    let middle = pointer + data.len() as u64 / 2;
    let a = args.map(|arg| match arg {
        DATA => pointer,
        DATA_MIDDLE => middle,
        other => other,
    });
    // SAFETY: every call that the tests make either takes numbers only, or reads or writes at most
    // `data`, which is larger than any structure concerned and outlives the call. Calls are made
    // in a single-threaded probe that exits right after.
    let out = unsafe { libc::syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]) };
    if out == -1 {
        Err(nix::errno::Errno::last_raw())
    } else {
        Ok(out)
    }
}

/// Has SIGALRM do nothing; interrupted calls go on if `restart`.
pub(crate) fn on_alarm(restart: bool) {
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
    extern "C" fn nothing(_: i32) {}
    let flags = if restart {
        SaFlags::SA_RESTART
    } else {
        SaFlags::empty()
    };
    let action = SigAction::new(SigHandler::Handler(nothing), flags, SigSet::empty());
    // SAFETY: the handler does nothing at all.
    unsafe { sigaction(Signal::SIGALRM, &action) }.expect("an action");
}

/// Starts or (with zero) stops an alarm clock of the process.
pub(crate) fn alarm_every(time: std::time::Duration) {
    let micros = i64::try_from(time.as_micros()).expect("short");
    // struct itimerval: interval, then time to the first; seconds and microseconds each.
    let mut timer: Vec<u8> = [0i64, micros, 0, micros]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    call(libc::SYS_setitimer, [0, DATA, 0, 0, 0, 0], &mut timer).expect("a timer");
}

/// Stands for the address of the probe's buffer.
pub(crate) const DATA: u64 = u64::MAX - 1;

/// Stands for the address of the second half of the probe's buffer.
pub(crate) const DATA_MIDDLE: u64 = u64::MAX - 2;
