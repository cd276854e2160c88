//! Commands as people run them: what must work, how ends are told, and many at once.

use crate::fixture::{Mechanism, World, set_mode};
use crate::outcome::{ensure, say};
use crate::report::Report;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::Signal;
use os_sandbox::{
    Access, Command, ErrorKind, Exit, Limits, Policy, Session, Stdio, Stream, TerminalEvent,
};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    let world = World::new(mechanism);
    for (name, script, want) in [
        ("pipes", "printf 'b\\na\\n' | sort | tr '\\n' ' '", "a b "),
        ("here document", "cat <<E\nx\nE", "x\n"),
        (
            "temporary files",
            "f=$(mktemp) && echo t > $f && cat $f",
            "t\n",
        ),
        ("the home", "cd && echo h > .x && cat .x", "h\n"),
        (
            "redirect to /dev/null",
            "echo x > /dev/null; echo y 2>/dev/null",
            "y\n",
        ),
        ("read /dev/urandom", "head -c 3 /dev/urandom | wc -c", "3\n"),
        ("background and wait", "sleep 0 & wait; echo done", "done\n"),
        ("subshells", "(cd /usr; pwd)", "/usr\n"),
        (
            "relative mounts",
            "cat ro/file; echo new > rw/relative; cat rw/relative",
            "ro contentnew\n",
        ),
        (
            "process substitution of the shell",
            "echo x | cat /dev/stdin",
            "x\n",
        ),
        ("no terminal", "test -t 0 || echo none", "none\n"),
        ("empty input", "cat; echo end", "end\n"),
        ("dates", "TZ=UTC date -d @0 +%Y", "1970\n"),
        (
            "find and grep",
            "find ro/ -name file | xargs grep -c content",
            "1\n",
        ),
    ] {
        let got = world.sh(&world.plan(), script);
        report.case(
            name,
            match got {
                Ok(output) if output.exit.success() && output.stdout.text() == want => Ok(()),
                Ok(output) => Err(format!(
                    "{} {:?} {:?}",
                    output.exit,
                    output.stdout.text(),
                    output.stderr.text()
                )),
                Err(error) => Err(error.to_string()),
            },
        );
    }
    report.case("user name", user_name(&world));
    report.case("exits", exits(&world));
    report.case("failures to start", failures(&world));
    report.case("output is bounded", flood(&world));
    report.case("input and streaming", streaming(&world));
    report.case("working directory", directories(&world));
    report.case("the root mount", root(mechanism));
    report.case("strange names", names(mechanism));
    report.case("limits", limits(&world));
    report.case("session", session(&world));
    report.case("the group of the caller", group(&world));
    report.case("a terminal of its own", terminal(&world));
    report.case(
        "a terminal in the background",
        terminal_in_background(&world),
    );
    report.case("a directory for a stream", directory_stream(&world));
    // birdcage hides nothing; what it protects is a case of its own.
    if mechanism.family() != "birdcage" {
        report.case("guards", guards(mechanism));
    }
    report.case("many at once", many(&world));
    report.case("nothing left behind", leftovers(&world));
    match which(&["/usr/bin/git", "/usr/local/bin/git"]) {
        Some(_) => report.case("git commit", git(mechanism)),
        None => report.not_posed("git commit", "git is not installed"),
    }
    match which(&["/usr/bin/python3", "/usr/local/bin/python3"]) {
        Some(python) => report.case("python", run_python(&world, python)),
        None => report.not_posed("python", "python3 is not installed"),
    }
}

fn which(paths: &[&'static str]) -> Option<&'static str> {
    paths.iter().copied().find(|path| Path::new(path).exists())
}

fn user_name(world: &World) -> Result<(), String> {
    let output = world.sh(&world.plan(), "id -un").map_err(say)?;
    ensure(
        output.exit.success() && !output.stdout.text().is_empty(),
        || format!("{output:?}"),
    )
}

fn exits(world: &World) -> Result<(), String> {
    let plan = world.plan();
    for (script, want) in [
        ("exit 0", Exit::Code(0)),
        ("exit 7", Exit::Code(7)),
        ("exit 255", Exit::Code(255)),
        ("kill -TERM $$", Exit::Signal(15)),
        ("kill -KILL $$", Exit::Signal(9)),
    ] {
        let got = world.sh(&plan, script).map_err(say)?.exit;
        ensure(got == want, || format!("{script}: {got:?}"))?;
    }
    let got = Command::new(&plan, "sleep")
        .arg("600")
        .timeout(Duration::from_millis(50))
        .output()
        .map_err(say)?;
    ensure(got.exit == Exit::TimedOut, || format!("{got:?}"))
}

fn failures(world: &World) -> Result<(), String> {
    let plan = world.plan();
    let plain = world.host("rw").join("plain");
    std::fs::write(&plain, "text").map_err(say)?;
    let garbage = world.host("rw").join("garbage");
    std::fs::write(&garbage, [0u8, 1, 2, 3]).map_err(say)?;
    set_mode(&garbage, 0o755);
    for (program, want, code) in [
        ("no-such-program", ErrorKind::NotFound, 127),
        ("/rw/nothing", ErrorKind::NotFound, 127),
        ("/rw/plain", ErrorKind::NotExecutable, 126),
        ("/rw/garbage", ErrorKind::NotExecutable, 126),
        ("/rw", ErrorKind::NotExecutable, 126),
        ("", ErrorKind::Invalid, 125),
        ("nul\0byte", ErrorKind::Invalid, 125),
    ] {
        let Err(error) = Command::new(&plan, program).spawn() else {
            return Err(format!("{program:?} was started"));
        };
        ensure(error.kind() == want && error.exit_code() == code, || {
            format!("{program:?}: {error:?}")
        })?;
    }
    let Err(error) = Command::new(&plan, "true").cwd("/rw/nowhere").spawn() else {
        return Err("started nowhere".to_owned());
    };
    ensure(error.kind() == ErrorKind::Invalid, || format!("{error:?}"))?;
    let Err(error) = Command::new(&plan, "true").arg("x".repeat(200_000)).spawn() else {
        return Err("a huge argument".to_owned());
    };
    ensure(error.kind() == ErrorKind::Limit, || format!("{error:?}"))?;
    let missing = Policy::builder()
        .mount(world.host("missing"), "/missing", Access::READ)
        .build()
        .map_err(say)?;
    let Err(error) = Command::new(&world.mechanism.plan(&missing), "true").spawn() else {
        return Err("a missing mount".to_owned());
    };
    ensure(error.hint().is_some(), || format!("{error:?}"))
}

fn flood(world: &World) -> Result<(), String> {
    let limits = Limits {
        stdout_bytes: 1000,
        stderr_bytes: 10,
        ..Limits::default()
    };
    let policy = world.policy().limits(limits).build().map_err(say)?;
    let plan = world.mechanism.plan(&policy);
    let output = world
        .sh(
            &plan,
            "printf begin; yes | head -c 19999990; printf ended; yes | head -c 20000 >&2",
        )
        .map_err(say)?;
    ensure(
        output.exit.success()
            && output.stdout.bytes().len() == 1000
            && output.stdout.bytes().starts_with(b"begin")
            && output.stdout.bytes().ends_with(b"ended")
            && output.stdout.total_bytes() == 20_000_000
            && output.stderr.bytes().len() == 10
            && output.stderr.total_bytes() == 20_000
            && output.stdout.truncated(),
        || {
            format!(
                "{} {} {}",
                output.exit,
                output.stdout.bytes().len(),
                output.stdout.total_bytes()
            )
        },
    )
}

fn streaming(world: &World) -> Result<(), String> {
    let mut child = Command::new(&world.plan(), "cat")
        .stdin(Stdio::Piped)
        .spawn()
        .map_err(say)?;
    let mut input = child.stdin.take().ok_or("no input")?;
    let mut output = child.stdout.take().ok_or("no output")?;
    input.write_all(b"one\n").map_err(say)?;
    let mut line = [0; 4];
    output.read_exact(&mut line).map_err(say)?;
    drop(input);
    ensure(&line == b"one\n", || format!("{line:?}"))?;
    ensure(child.wait().map_err(say)?.success(), || {
        "cat failed".to_owned()
    })?;
    ensure(
        child.try_wait().map_err(say)? == Some(Exit::Code(0)),
        || "asked twice".to_owned(),
    )?;

    let mut seen = (0usize, 0usize);
    let mut child = Command::new(&world.plan(), "sh")
        .args([
            "-c",
            "head -c 100000 /dev/zero; echo err >&2; sleep 600 & exit 3",
        ])
        .spawn()
        .map_err(say)?;
    let exit = child
        .wait_streaming(|stream, bytes| match stream {
            Stream::Stdout => seen.0 += bytes.len(),
            Stream::Stderr => seen.1 += bytes.len(),
        })
        .map_err(say)?;
    ensure(exit == Exit::Code(3) && seen == (100_000, 4), || {
        format!("{exit:?} {seen:?}")
    })
}

fn directories(world: &World) -> Result<(), String> {
    std::fs::create_dir_all(world.host("rw").join("sub")).map_err(say)?;
    for cwd in ["/rw/sub", "rw/sub", "/work/rw/sub"] {
        let output = Command::new(&world.plan(), "sh")
            .args(["-c", "echo here > where; pwd"])
            .cwd(cwd)
            .output()
            .map_err(say)?;
        let path = world.host("rw").join("sub/where");
        ensure(output.exit.success() && path.exists(), || {
            format!("{cwd}: {output:?}")
        })?;
        std::fs::remove_file(path).map_err(say)?;
    }
    let output = world.sh(&world.plan(), "ls; echo x > here").map_err(say)?;
    ensure(
        output.stdout.text() == "probe\nro\nrw\n" && !output.exit.success(),
        || format!("{output:?}"),
    )
}

fn root(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    std::fs::create_dir_all(world.host("rw").join("vendor")).map_err(say)?;
    std::fs::write(world.host("rw").join("vendor/lib"), "vendored").map_err(say)?;
    std::fs::create_dir_all(world.host("rw").join("deep/er")).map_err(say)?;
    std::fs::write(world.host("rw").join("deep/er/lib"), "deep").map_err(say)?;
    let policy = Policy::builder().mount(world.host("rw"), "/", Access::ALL);
    let plan = mechanism.plan(&policy.clone().build().map_err(say)?);
    let output = world
        .sh(&plan, "cat vendor/lib; echo > made; pwd")
        .map_err(say)?;
    let text = output.stdout.text();
    let want = if mechanism.moves() {
        "/work".to_owned()
    } else {
        world.host("rw").display().to_string()
    };
    ensure(text == format!("vendored{want}\n"), || {
        format!("{output:?}")
    })?;
    ensure(world.host("rw").join("made").exists(), || {
        "not made".to_owned()
    })?;

    // A part that allows less: kept by a mount layer, refused by a plan without one.
    let narrow = policy
        .mount(
            world.host("rw").join("vendor"),
            "/vendor",
            Access::READ | Access::EXECUTE,
        )
        .mount(
            world.host("rw").join("deep/er"),
            "/deep/er",
            Access::READ | Access::EXECUTE,
        )
        .build()
        .map_err(say)?;
    if !mechanism.has_mount_layer() {
        let refused = os_sandbox::Plan::with_mechanism(
            &narrow,
            &os_sandbox::Support::detect(),
            os_sandbox::Requirement::Enforce,
            os_sandbox::Backend::Landlock,
        );
        return ensure(refused.is_err(), || "planned".to_owned());
    }
    let plan = mechanism.plan(&narrow);
    planted(&world, &plan)?;
    let output = world
        .sh(
            &plan,
            "cat vendor/lib; echo x > vendor/lib; mv vendor aside; rm -rf vendor; echo ok > x",
        )
        .map_err(say)?;
    let kept = std::fs::read_to_string(world.host("rw").join("vendor/lib")).map_err(say)?;
    ensure(kept == "vendored" && output.exit.success(), || {
        format!("{kept} {output:?}")
    })?;
    // Nor can a directory around it be moved aside and another be put there.
    let output = world
        .sh(
            &plan,
            "mv deep moved; mkdir -p deep/er; echo planted > deep/er/lib; echo ok > deep/y",
        )
        .map_err(say)?;
    let kept = std::fs::read_to_string(world.host("rw").join("deep/er/lib")).map_err(say)?;
    ensure(kept == "deep" && output.exit.success(), || {
        format!("{kept} {output:?}")
    })
}

/// A command that may write in the root mount puts a link in the place of a part of it: the next
/// start must not follow it out.
fn planted(world: &World, plan: &os_sandbox::Sandbox) -> Result<(), String> {
    let vendor = world.host("rw").join("vendor");
    let aside = world.host("rw").join("aside");
    std::fs::rename(&vendor, &aside).map_err(say)?;
    std::os::unix::fs::symlink(world.host("outside"), &vendor).map_err(say)?;
    let got = world.sh(plan, "cat vendor/file");
    std::fs::remove_file(&vendor).map_err(say)?;
    std::fs::rename(&aside, &vendor).map_err(say)?;
    match got {
        Err(error) if error.kind() == ErrorKind::Invalid => Ok(()),
        other => Err(format!("a planted link: {other:?}")),
    }
}

fn names(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    for name in [
        "with space",
        "quote\"'`",
        "new\nline",
        "comma,=",
        "-dash",
        "\u{fc}nicode",
        "$(x)",
    ] {
        let host = world.host("outside").join(name);
        std::fs::create_dir(&host).map_err(say)?;
        let policy = Policy::builder()
            .mount(&host, format!("/{name}"), Access::ALL)
            .build()
            .map_err(say)?;
        let plan = mechanism.plan(&policy);
        let output = Command::new(&plan, "sh")
            .args(["-c", "echo x > \"./$1/file\"", "sh", name])
            .output()
            .map_err(|error| format!("{name:?}: {error}"))?;
        ensure(output.exit.success() && host.join("file").exists(), || {
            format!("{name:?}: {output:?}")
        })?;
    }
    Ok(())
}

fn limits(world: &World) -> Result<(), String> {
    let limits = Limits {
        file_bytes: Some(4096),
        open_files: Some(32),
        cpu: Some(Duration::from_secs(1)),
        ..Limits::default()
    };
    let policy = world.policy().limits(limits).build().map_err(say)?;
    let plan = world.mechanism.plan(&policy);
    let output = world
        .sh(
            &plan,
            "ulimit -n; head -c 100000 /dev/zero > {rw}/big; ulimit -c",
        )
        .map_err(say)?;
    ensure(output.stdout.text() == "32\n0\n", || format!("{output:?}"))?;
    let size = std::fs::metadata(world.host("rw").join("big"))
        .map_err(say)?
        .len();
    ensure(size == 4096, || format!("{size} bytes"))?;
    if world.mechanism.has_mount_layer() && !nix::unistd::geteuid().is_root() {
        let limits = Limits {
            processes: Some(20),
            ..Limits::default()
        };
        let policy = world.policy().limits(limits).build().map_err(say)?;
        let plan = world.mechanism.plan(&policy);
        let script = "for i in $(seq 60); do sleep 600 & done; echo all";
        let output = world.sh(&plan, script).map_err(say)?;
        ensure(output.stdout.text() != "all\n", || {
            "60 processes of 20".to_owned()
        })?;
    }
    let output = world.sh(&plan, "while :; do :; done").map_err(say)?;
    ensure(matches!(output.exit, Exit::Signal(24 | 9)), || {
        format!("{output:?}")
    })
}

fn session(world: &World) -> Result<(), String> {
    let read = |session| -> Result<String, String> {
        let output = Command::new(&world.plan(), "sh")
            .args([
                "-c",
                "cut -d' ' -f6 /proc/self/stat; cut -d' ' -f5 /proc/self/stat",
            ])
            .session(session)
            .output()
            .map_err(say)?;
        Ok(output.stdout.text().into_owned())
    };
    let (own, inherited) = (read(Session::New)?, read(Session::Inherit)?);
    ensure(own != inherited && !own.is_empty(), || {
        format!("{own} {inherited}")
    })
}

/// The command has a terminal with a name and the caller's window size, reads from it, and is told
/// of when it stops.
fn terminal(world: &World) -> Result<(), String> {
    const SCRIPT: &str = "tty; stty size; read line; echo got $line; kill -TSTP $$; echo continued";
    let sandbox = world.plan();
    let size = Winsize {
        ws_row: 31,
        ws_col: 97,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let pair = openpty(Some(&size), None).map_err(say)?;
    let callers = || std::fs::File::from(pair.slave.try_clone().expect("the descriptor is open"));
    let command = Command::new(&sandbox, "sh")
        .args(["-c", SCRIPT])
        .session(Session::Terminal)
        .stdin(callers())
        .stdout(callers())
        .stderr(callers());
    let started = command.spawn();
    if !sandbox.plan().makes_terminals() {
        return match started {
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
            other => Err(format!("{other:?}")),
        };
    }
    let mut child = started.map_err(say)?;
    let terminal = child.terminal.take().ok_or("no terminal was handed over")?;
    let mut output = String::new();
    let mut until = |text: &str| -> Result<(), String> {
        while !output.contains(text) {
            wait_readable(terminal.as_fd(), &output)?;
            let mut bytes = [0; 1024];
            let count = (&terminal).read(&mut bytes).map_err(say)?;
            output += &String::from_utf8_lossy(&bytes[..count]);
        }
        Ok(())
    };
    until("31 97")?;
    (&terminal).write_all(b"typed\n").map_err(say)?;
    until("got typed")?;
    wait_readable(terminal.events(), "the stop")?;
    let stop = terminal.next_event().map_err(say)?;
    let wanted = TerminalEvent::Stopped(Signal::SIGTSTP as i32);
    ensure(stop == Some(wanted), || format!("{stop:?}"))?;
    terminal.resume().map_err(say)?;
    until("continued")?;
    let exit = child.wait().map_err(say)?;
    ensure(exit == Exit::Code(0), || format!("{exit:?}"))?;
    let name = output.lines().next().unwrap_or_default().trim();
    let is_own = match world.mechanism.family() {
        "landlock" => name.starts_with("/dev/pts/"),
        _ => name == "/dev/pts/0",
    };
    ensure(is_own, || output.clone())
}

/// A command of a pipeline is stopped when it reads its terminal. Ctrl-C reaches it once its terminal says
/// that it has the foreground.
fn terminal_in_background(world: &World) -> Result<(), String> {
    let sandbox = world.plan();
    if !sandbox.plan().makes_terminals() {
        return Ok(());
    }
    let pair = openpty(None, None).map_err(say)?;
    let mut child = Command::new(&sandbox, "cat")
        .session(Session::Terminal)
        .stdin(std::fs::File::from(pair.slave))
        .stdout(Stdio::Null)
        .stderr(Stdio::Null)
        .spawn()
        .map_err(say)?;
    let terminal = child.terminal.take().ok_or("no terminal was handed over")?;
    let next = || {
        wait_readable(terminal.events(), "an event")?;
        terminal.next_event().map_err(say)
    };
    let stop = next()?;
    let wanted = TerminalEvent::Stopped(Signal::SIGTTIN as i32);
    ensure(stop == Some(wanted), || format!("{stop:?}"))?;
    terminal.take_foreground().map_err(say)?;
    let took = next()?;
    ensure(took == Some(TerminalEvent::TookForeground), || {
        format!("{took:?}")
    })?;
    (&terminal).write_all(b"\x03").map_err(say)?;
    let exit = child.wait().map_err(say)?;
    ensure(exit == Exit::Signal(Signal::SIGINT as i32), || {
        format!("{exit:?}")
    })
}

/// Waits for at most ten seconds.
fn wait_readable(from: BorrowedFd<'_>, what: &str) -> Result<(), String> {
    let mut fds = [PollFd::new(from, PollFlags::POLLIN)];
    let count = poll(&mut fds, PollTimeout::from(10_000_u16)).map_err(say)?;
    ensure(count == 1, || format!("nothing came after: {what}"))
}

/// In the caller's group, `kill(0)` reaches the caller: a pid namespace does not keep it in.
fn group(world: &World) -> Result<(), String> {
    let kill = |session| {
        let call = [
            "--probe",
            "call",
            &nix::libc::SYS_kill.to_string(),
            "0",
            "0",
        ];
        crate::fixture::said(
            Command::new(&world.plan(), "/probe")
                .args(call)
                .session(session)
                .output(),
        )
    };
    // With Landlock its scope decides for each member; the target itself is one it reaches.
    let want = match world.mechanism {
        Mechanism::Namespaces
        | Mechanism::Bubblewrap
        | Mechanism::BubblewrapByPath
        | Mechanism::Landlock => "ok 0",
        Mechanism::NamespacesAlone | Mechanism::BubblewrapAlone => "errno 1",
        #[cfg(feature = "birdcage")]
        Mechanism::Birdcage => "ok 0",
        #[cfg(feature = "birdcage")]
        Mechanism::BirdcageAlone => "errno 1",
    };
    for (session, want) in [(Session::New, "ok 0"), (Session::Inherit, want)] {
        let said = kill(session);
        ensure(said == want, || format!("{session:?}: {said}"))?;
    }
    Ok(())
}

fn directory_stream(world: &World) -> Result<(), String> {
    let outside = std::fs::File::open(world.host("outside")).map_err(say)?;
    let refused = Command::new(&world.plan(), "true").stdin(outside).output();
    match refused {
        Err(error) if error.kind() == ErrorKind::Invalid => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

fn guards(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let repository = world.host("rw").join("nested");
    std::fs::create_dir_all(repository.join(".git/hooks")).map_err(say)?;
    std::fs::write(repository.join(".git/config"), "[core]").map_err(say)?;
    std::fs::write(repository.join(".env"), "SECRET=1").map_err(say)?;
    std::fs::create_dir(repository.join(".ssh")).map_err(say)?;
    std::fs::write(repository.join(".ssh/key"), "secret").map_err(say)?;
    let policy = world
        .policy()
        .protect(".git/hooks")
        .protect(".git/config")
        .hide(".env*")
        .hide(".ssh")
        .build()
        .map_err(say)?;
    let plan = mechanism.plan(&policy);
    if !mechanism.has_mount_layer() {
        let plan = plan.plan();
        let absent = plan
            .gaps()
            .filter(|gap| gap.state == os_sandbox::PromiseState::Absent)
            .count();
        return ensure(absent >= 2, || format!("{plan}"));
    }
    let script = "cd rw/nested
        echo x > .git/hooks/pre-commit
        echo x > .git/config
        mv .git aside
        rm -rf .git
        mv .git/hooks aside
        cat .env .ssh/key
        chmod 700 .ssh && ls .ssh
        rm -rf .env .ssh
        cd .. && mv nested other
        echo data > nested/.git/index && echo written";
    let output = world.sh(&plan, script).map_err(say)?;
    let text = output.stdout.text();
    ensure(text == "written\n", || format!("{output:?}"))?;
    let kept = std::fs::read_to_string(repository.join(".git/config")).map_err(say)? == "[core]"
        && std::fs::read_dir(repository.join(".git/hooks"))
            .map_err(say)?
            .count()
            == 0
        && repository.join(".env").exists()
        && repository.join(".ssh/key").exists()
        && repository.join(".git/index").exists();
    ensure(kept, || format!("changed: {output:?}"))
}

fn many(world: &World) -> Result<(), String> {
    let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let before = descriptors();
    let plan = world.plan();
    let secret = world.host("outside").join("file").display().to_string();
    let failures: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let (plan, secret) = (&plan, &secret);
                scope.spawn(move || {
                    (0..50)
                        .filter_map(|round| {
                            // A busy broker: memory and files come and go while processes start.
                            let busy = vec![round as u8; 1 << 16];
                            let output = Command::new(plan, "cat").arg(secret).output();
                            match output {
                                Ok(output)
                                    if output.exit == Exit::Code(1)
                                        && output.stdout.bytes().is_empty() =>
                                {
                                    None
                                }
                                other => {
                                    Some(format!("{thread}/{round} ({}): {other:?}", busy.len()))
                                }
                            }
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_default())
            .collect()
    });
    ensure(failures.is_empty(), || failures.join("; "))?;
    // The plan keeps a few places and groups, a lock each; nothing else of 400 commands stays open.
    let kept = descriptors().saturating_sub(before);
    ensure(kept <= 8 * 4 + 4, || format!("{kept} descriptors more"))?;
    // The broker itself is as free as before.
    std::fs::read_to_string(world.host("outside").join("file")).map_err(say)?;
    std::net::TcpListener::bind("127.0.0.1:0")
        .map(drop)
        .map_err(say)
}

fn leftovers(world: &World) -> Result<(), String> {
    let mut child = Command::new(&world.plan(), "sh")
        .args([
            "-c",
            "mkdir -p $TMPDIR/a/b $HOME/c; touch $TMPDIR/a/b/x; chmod 0 $TMPDIR/a $TMPDIR; echo $TMPDIR",
        ])
        .stdout(Stdio::Piped)
        .spawn()
        .map_err(say)?;
    let mut text = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut text).map_err(say)?;
    }
    child.wait().map_err(say)?;
    let path = Path::new(text.trim());
    let gone = world.mechanism.moves() || !path.exists();
    ensure(gone && path.is_absolute(), || {
        format!("{text:?} is still there")
    })
}

fn git(mechanism: Mechanism) -> Result<(), String> {
    let world = World::new(mechanism);
    let project = world.host("outside").join("project");
    std::fs::create_dir(&project).map_err(say)?;
    let policy = Policy::builder()
        .mount(&project, "/", Access::ALL)
        .build()
        .map_err(say)?;
    let output = world
        .sh(
            &mechanism.plan(&policy),
            "git init -q . && echo x > a && git add a && \
             git -c user.name=a -c user.email=a@b commit -qm first && git log --format=%s && git status --short",
        )
        .map_err(say)?;
    ensure(
        output.exit.success() && output.stdout.text() == "first\n",
        || format!("{output:?}"),
    )
}

fn run_python(world: &World, python: &str) -> Result<(), String> {
    let script = "import subprocess, tempfile, threading
t = threading.Thread(target=lambda: None); t.start(); t.join()
with tempfile.NamedTemporaryFile() as f: f.write(b'x')
print(subprocess.run(['echo', 'sub'], capture_output=True, text=True).stdout.strip())";
    let output = Command::new(&world.plan(), python)
        .args(["-c", script])
        .output()
        .map_err(say)?;
    ensure(output.stdout.text() == "sub\n", || format!("{output:?}"))
}
