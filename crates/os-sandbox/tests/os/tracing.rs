//! Debuggers and sanitizers: a command traces what is its own, and nothing else. The words of the
//! probe that do it are at the end.

use crate::fixture::{Mechanism, World, said};
use crate::outcome::{ensure, say};
use crate::raw;
use crate::report::Report;
use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use os_sandbox::{Command, Exit, Limits, Network, Sandbox, Stdio, Support};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::path::PathBuf;
use std::process::Command as Outside;
use std::time::Duration;

type Done = Result<(), String>;

/// A watchdog, not a measure.
const WITHIN: Duration = Duration::from_secs(600);

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    let world = World::new(mechanism);
    if Support::detect().landlock_abi() == 0 || mechanism.is_alone() {
        report.case("tracing: closed without Landlock", closed(&world));
        return;
    }
    report.case("tracing: a child", own(&world));
    report.case("tracing: anybody else", others(&world));
    report.case("tracing: asks its parent", asks_parent(&world));
    for how in ["entry", "filter"] {
        let name = format!("tracing: another call at the {how}");
        match changes_calls() {
            true => report.case(&name, swapped(&world, how)),
            false => report.not_posed(&name, "the number of a call is no plain register here"),
        }
    }
    for (program, args, want) in PROGRAMS {
        let name = format!("tracing: {program}");
        match is_installed(program) {
            true => report.case(&name, debugger(&world, program, args, want)),
            false => report.not_posed(&name, "not installed"),
        }
    }
    for sanitizer in ["address", "undefined", "thread"] {
        let name = format!("sanitizer: {sanitizer}");
        let built = build(&world, sanitizer);
        match built {
            Ok(()) => report.case(&name, sanitized(&world, sanitizer)),
            Err(reason) => report.not_posed(&name, &reason),
        }
    }
}

/// Each with something that it prints only if it could trace, and stop where it was told to.
const PROGRAMS: [(&str, &[&str], &str); 2] = [
    ("strace", &["-f", "sh", "-c", "exit 7"], "exit_group(7)"),
    (
        "gdb",
        &[
            "-q",
            "-nx",
            "-batch",
            "-ex",
            "set breakpoint pending on",
            "-ex",
            "tbreak exit",
            "-ex",
            "run",
            "-ex",
            "continue",
            "/bin/true",
        ],
        "Temporary breakpoint 1, ",
    ),
];

fn is_installed(program: &str) -> bool {
    Outside::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Only where the kernel's interface has it.
fn changes_calls() -> bool {
    cfg!(target_arch = "x86_64")
}

fn probe(world: &World, plan: &Sandbox, words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    world.probe(plan, &words)
}

fn closed(world: &World) -> Done {
    let refused = format!("errno {}", libc::EPERM);
    let seen = probe(world, &world.plan(), &["trace-child"]);
    ensure(seen == refused, || seen)
}

fn own(world: &World) -> Done {
    let seen = probe(world, &world.plan(), &["trace-child"]);
    ensure(seen == "ok sleep", || seen)
}

/// The broker, the supervisor, the first process, a victim outside, and all that belongs to another
/// command of the same plan.
fn others(world: &World) -> Done {
    let plan = world.plan();
    let mut victim = Outside::new("sleep").arg("600").spawn().map_err(say)?;
    let mut other = Command::new(&plan, "/probe")
        .args(["--probe", "spin"])
        .arg(world.host("other").as_os_str())
        .stdout(Stdio::Null)
        .spawn()
        .map_err(say)?;
    let result = attempts(world, &plan, victim.id());
    other.kill();
    other.wait().map_err(say)?;
    victim.kill().and_then(|()| victim.wait()).map_err(say)?;
    result
}

fn attempts(world: &World, plan: &Sandbox, victim: u32) -> Done {
    let mut pids = vec![1, std::process::id(), victim];
    pids.extend(children_of_all(std::process::id()));
    ensure(pids.len() > 4, || format!("no other command: {pids:?}"))?;
    let mut words = vec!["trace".to_owned(), "parent".to_owned()];
    words.extend(pids.iter().map(u32::to_string));
    let seen = world.probe(plan, &words);
    // Nothing could be traced, read, or written to.
    ensure(seen == "ok", || format!("{seen} of {pids:?}"))
}

/// Everything below a process that is there now: what the other command is, with its launcher.
fn children_of_all(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut open = vec![pid];
    while let Some(pid) = open.pop() {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let list = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = list
                .split_whitespace()
                .filter_map(|word| word.parse::<u32>().ok());
            open.extend(children.clone());
            found.extend(children);
        }
    }
    found
}

/// The parent of a command is the supervisor. It takes a stop for no end, and lets go.
fn asks_parent(world: &World) -> Done {
    let plan = world.plan();
    for how in ["signal", "exec", "trap"] {
        let output = Command::new(&plan, "/probe")
            .args(["--probe", "trace-me", how])
            .timeout(WITHIN)
            .output();
        let seen = said(output);
        ensure(seen == "ok went on", || format!("{how}: {seen}"))?;
    }
    Ok(())
}

/// A tracer puts another call in the place of one that is allowed. The filter looks after it.
fn swapped(world: &World, how: &str) -> Done {
    let outside = Outside::new(crate::fixture::probe_program())
        .args(["--probe", "swap", how])
        .output()
        .map_err(say)?;
    // Where nothing is confined, the other call is made: so it is really put there.
    ensure(outside.stdout == b"ok ok 0\n", || format!("{outside:?}"))?;
    let seen = probe(world, &world.plan(), &["swap", how]);
    ensure(seen == format!("ok errno {}", libc::EPERM), || seen)
}

fn debugger(world: &World, program: &str, args: &[&str], want: &str) -> Done {
    let output = Command::new(&world.plan(), program)
        .args(args)
        .timeout(WITHIN)
        .output()
        .map_err(say)?;
    let seen = format!("{}{}", output.stdout.text(), output.stderr.text());
    let refused = ["Operation not permitted", "couldn't", "Couldn't"];
    ensure(
        seen.contains(want) && !refused.iter().any(|text| seen.contains(text)),
        || format!("{}: {seen}", output.exit),
    )
}

fn sanitized_program(world: &World, sanitizer: &str) -> PathBuf {
    world.host("rw").join(format!("sanitized-{sanitizer}"))
}

/// Built outside; a compiler without the library is a reason not to try.
fn build(world: &World, sanitizer: &str) -> Result<(), String> {
    let source = world.host("rw").join(format!("{sanitizer}.c"));
    std::fs::write(&source, include_str!("sanitized.c")).map_err(say)?;
    let output = Outside::new("cc")
        .args(["-g", "-O1", "-pthread", &format!("-fsanitize={sanitizer}")])
        .arg("-o")
        .args([sanitized_program(world, sanitizer), source])
        .output()
        .map_err(|error| format!("needs cc: {error}"))?;
    if !output.status.success() {
        return Err(format!("cc: {}", String::from_utf8_lossy(&output.stderr)));
    }
    // Old ones do not start on kernels that spread addresses more than they know.
    let outside = Outside::new(sanitized_program(world, sanitizer))
        .output()
        .map_err(say)?;
    match outside.status.success() {
        true => Ok(()),
        false => Err(format!("it fails outside: {outside:?}")),
    }
}

/// Well where the program is, and with its report where not: with the default limits, once with
/// whatever limits memory here, and once with the supervisor's looks.
fn sanitized(world: &World, sanitizer: &str) -> Done {
    let policy = world.policy().network(Network::Denied);
    let policy = policy.limits(Limits::default()).build().map_err(say)?;
    let host = Support::detect();
    for host in [host.clone().without_cgroups(), host] {
        let plan = world.mechanism.plan_on(&policy, host);
        let run = |fault: &str| {
            Command::new(
                &plan,
                sanitized_program(world, sanitizer)
                    .file_name()
                    .expect("a name"),
            )
            .env("PATH", world.inside("rw"))
            .args(fault.split_whitespace())
            .timeout(WITHIN)
            .output()
            .map_err(say)
        };
        let well = run("")?;
        ensure(
            well.exit == Exit::Code(0) && well.stdout.text() == "well\n",
            || format!("{well:?}"),
        )?;
        let faults: &[(&str, &str)] = match sanitizer {
            // The last one is found by a process that traces the program at its end.
            "address" => &[
                ("overflow", "heap-buffer-overflow"),
                ("leak", "detected memory leaks"),
            ],
            "thread" => &[("race", "data race")],
            _ => &[("shift", "runtime error")],
        };
        for (fault, want) in faults {
            let output = run(fault)?;
            ensure(output.stderr.text().contains(want), || {
                format!("{output:?}")
            })?;
        }
    }
    Ok(())
}

// Attempts of the probe.

/// `None`: not a word of this list.
pub(crate) fn run(words: &[&str]) -> Option<io::Result<String>> {
    Some(match *words {
        ["trace-child"] => trace_child(),
        ["trace", ref pids @ ..] => trace(pids),
        ["read-memory", pid] => read_memory(pid),
        ["write-memory", pid] => write_memory(pid),
        ["trace-me", how] => trace_me(how),
        ["swap", how] => swap(how),
        ["swapped", how] => swapped_call(how),
        _ => return None,
    })
}

/// Its own child: stops it, and reads its name by way of its memory.
fn trace_child() -> io::Result<String> {
    let mut child = Outside::new("sleep").arg("600").spawn()?;
    let pid = Pid::from_raw(child.id().cast_signed());
    let result = (|| {
        ptrace::seize(pid, ptrace::Options::empty())?;
        ptrace::interrupt(pid)?;
        waitpid(pid, None)?;
        std::fs::File::open(format!("/proc/{pid}/mem"))?;
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline"))?;
        Ok(line.split('\0').next().unwrap_or_default().to_owned())
    })();
    child.kill()?;
    child.wait()?;
    result
}

/// Tells what could be done with processes of others.
fn trace(pids: &[&str]) -> io::Result<String> {
    let mut done = Vec::new();
    for word in pids {
        let pid: u32 = match *word {
            "parent" => std::os::unix::process::parent_id(),
            word => word.parse().map_err(io::Error::other)?,
        };
        let memory = |result: io::Result<String>| {
            !matches!(
                result.map_err(|error| error.raw_os_error()),
                Err(Some(libc::EPERM | libc::ESRCH))
            )
        };
        let call = |number: i64, args: [u64; 6]| raw::call(number, args, &mut [0; 4096]).is_ok();
        let target = u64::from(pid);
        const SEIZE: u64 = 0x4206;
        for (what, could) in [
            ("seize", call(libc::SYS_ptrace, [SEIZE, target, 0, 0, 0, 0])),
            ("memory by call", memory(read_memory(&pid.to_string()))),
            (
                "memory",
                std::fs::File::open(format!("/proc/{pid}/mem")).is_ok(),
            ),
            (
                "environment",
                std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|bytes| !bytes.is_empty()),
            ),
            (
                "root",
                std::fs::read_dir(format!("/proc/{pid}/root/")).is_ok(),
            ),
        ] {
            if could {
                done.push(format!("{what} {word}"));
            }
        }
    }
    Ok(done.join(", "))
}

/// At an address where nothing is: who may is told EFAULT. Of no bytes at all the kernel asks
/// nobody.
fn nothing() -> RemoteIoVec {
    RemoteIoVec { base: 8, len: 8 }
}

fn target(pid: &str) -> io::Result<Pid> {
    Ok(Pid::from_raw(pid.parse().map_err(io::Error::other)?))
}

fn read_memory(pid: &str) -> io::Result<String> {
    let mut bytes = [0; 8];
    let read = process_vm_readv(
        target(pid)?,
        &mut [IoSliceMut::new(&mut bytes)],
        &[nothing()],
    )?;
    Ok(read.to_string())
}

fn write_memory(pid: &str) -> io::Result<String> {
    let written = process_vm_writev(target(pid)?, &[IoSlice::new(&[0; 8])], &[nothing()])?;
    Ok(written.to_string())
}

fn trace_me(how: &str) -> io::Result<String> {
    ptrace::traceme()?;
    match how {
        // One that does nothing to who is not traced.
        "signal" => raise(Signal::SIGCHLD)?,
        "trap" => raise(Signal::SIGTRAP)?,
        _ => {
            use std::os::unix::process::CommandExt as _;
            return Err(Outside::new("echo").args(["ok", "went", "on"]).exec());
        }
    }
    Ok("went on".to_owned())
}

/// The call in whose place another one is put; it takes no arguments, and nobody forbids it.
const HARMLESS: i64 = libc::SYS_getppid;

/// Traces a child that makes a harmless call, and puts one in its place that the filter refuses and
/// the kernel would not: `kcmp` of the child with itself. Returns what the child saw.
#[cfg(target_arch = "x86_64")]
fn swap(how: &str) -> io::Result<String> {
    use std::io::Read as _;
    let mut child = Outside::new(std::env::current_exe()?)
        .args(["--probe", "swapped", how])
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    let pid = Pid::from_raw(child.id().cast_signed());
    waitpid(pid, Some(WaitPidFlag::WUNTRACED))?;
    let options = ptrace::Options::PTRACE_O_TRACESECCOMP | ptrace::Options::PTRACE_O_TRACESYSGOOD;
    ptrace::seize(pid, options)?;
    kill(pid, Signal::SIGCONT)?;
    let put = |entering: bool| -> nix::Result<bool> {
        let mut registers = ptrace::getregs(pid)?;
        if !entering || registers.orig_rax != HARMLESS.cast_unsigned() {
            return Ok(false);
        }
        registers.orig_rax = libc::SYS_kcmp.cast_unsigned();
        registers.rdi = pid.as_raw().cast_unsigned().into();
        registers.rsi = registers.rdi;
        (registers.rdx, registers.r10, registers.r8) = (0, 0, 0);
        ptrace::setregs(pid, registers)?;
        Ok(true)
    };
    let mut swapped = false;
    loop {
        let status = waitpid(pid, None)?;
        let event = match status {
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => break,
            // At its entry a call has returned nothing yet.
            WaitStatus::PtraceSyscall(_) => how == "entry",
            WaitStatus::PtraceEvent(_, _, event) => {
                event == ptrace::Event::PTRACE_EVENT_SECCOMP as i32
            }
            _ => false,
        };
        swapped = swapped || put(event)?;
        match how {
            "entry" if !swapped => ptrace::syscall(pid, None)?,
            _ => ptrace::cont(pid, None)?,
        }
    }
    if !swapped {
        return Err(io::Error::other("no call was seen"));
    }
    let mut text = String::new();
    if let Some(out) = &mut child.stdout {
        out.read_to_string(&mut text)?;
    }
    Ok(text.trim().to_owned())
}

#[cfg(not(target_arch = "x86_64"))]
fn swap(_: &str) -> io::Result<String> {
    Err(io::Error::from_raw_os_error(libc::ENOTSUP))
}

/// The child: stops until it is traced; with `filter`, a filter of its own asks the tracer.
fn swapped_call(how: &str) -> io::Result<String> {
    raise(Signal::SIGSTOP)?;
    if how == "filter" {
        ask_tracer(HARMLESS).map_err(|error| io::Error::other(error.to_string()))?;
    }
    raw::call(HARMLESS, [0; 6], &mut [])
        .map(|value| value.to_string())
        .map_err(io::Error::from_raw_os_error)
}

/// Installs a filter of its own that asks the tracer about one call.
fn ask_tracer(call: i64) -> Result<(), Box<dyn std::error::Error>> {
    let filter = SeccompFilter::new(
        BTreeMap::from([(call, vec![])]),
        SeccompAction::Allow,
        SeccompAction::Trace(0),
        std::env::consts::ARCH.try_into()?,
    )?;
    Ok(apply_filter(&BpfProgram::try_from(filter)?)?)
}
