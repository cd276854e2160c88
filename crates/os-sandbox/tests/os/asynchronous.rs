//! The async face, on both kinds of runtime: what it gives, that it does not hold up other tasks,
//! and that a future dropped at any point leaves nothing behind.

use crate::fixture::{Mechanism, World};
use crate::outcome::{Outcome, expect, say};
use crate::report::Report;
use os_sandbox::{Command, ErrorKind, Exit, Limits, Sandbox, Stdio, Stream};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::runtime::{Builder, Runtime};

/// A watchdog, not a measure.
const WITHIN: Duration = Duration::from_secs(120);
const DROPS: u32 = 60;

type Case = fn(&Runtime, &World) -> Outcome;

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    let world = World::new(mechanism);
    report.case("async: outside of a runtime", outside(&world.plan()));
    let flavours = [
        ("current thread", Builder::new_current_thread()),
        ("multi thread", Builder::new_multi_thread()),
    ];
    for (flavour, mut builder) in flavours {
        let runtime = builder.enable_all().build().expect("a runtime");
        let cases: [(&str, Case); 9] = [
            ("output and its caps", output),
            ("what the pipes hold at the end", left_in_pipes),
            ("streams", streams),
            ("waiting again", waiting_again),
            ("other tasks go on", other_tasks),
            ("neither stream waits for the other", both_streams),
            ("ends", ends),
            ("a program that is not there", missing),
            ("dropped anywhere, nothing is left", dropped),
        ];
        for (name, case) in cases {
            report.case(&format!("async, {flavour}: {name}"), case(&runtime, &world));
        }
    }
}

fn outside(plan: &Sandbox) -> Outcome {
    let mut start = pin!(Command::new(plan, "true").spawn_async());
    match start.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Err(error)) if error.kind() == ErrorKind::Invalid => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

fn output(runtime: &Runtime, world: &World) -> Outcome {
    let limits = Limits {
        stdout_bytes: 10,
        stderr_bytes: 1 << 20,
        ..Limits::default()
    };
    let plan = world
        .mechanism
        .plan(&world.policy().limits(limits).build().expect("a policy"));
    let script = "printf begin; head -c 3000000 /dev/zero; printf ended; \
                  head -c 70000 /dev/zero >&2; exit 3";
    let command = Command::new(&plan, "sh").args(["-c", script]);
    let got = runtime.block_on(command.output_async()).map_err(say)?;
    expect(got.enforcement.policy.clone(), plan.plan().policy().hash())?;
    let seen = (
        got.exit,
        String::from_utf8_lossy(&got.stdout.bytes()).into_owned(),
        got.stdout.total_bytes(),
        got.stderr.bytes().len(),
    );
    expect(
        seen,
        (Exit::Code(3), "beginended".to_owned(), 3_000_010, 70_000),
    )
}

/// The end is seen before the runtime has heard of anything in the pipes.
fn left_in_pipes(runtime: &Runtime, world: &World) -> Outcome {
    let over = format!("{}/over", world.inside("rw"));
    let script = format!("head -c 60000 /dev/zero; head -c 50000 /dev/zero >&2; echo > {over}");
    runtime.block_on(async {
        let child = Command::new(&world.plan(), "sh")
            .args(["-c", &script])
            .spawn_async()
            .await
            .map_err(say)?;
        let until = Instant::now() + WITHIN;
        while !world.host("rw/over").exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        // The supervisor has a little more to say.
        std::thread::sleep(Duration::from_millis(300));
        let got = child.wait_with_output().await.map_err(say)?;
        let _ = std::fs::remove_file(world.host("rw/over"));
        expect(
            (got.stdout.bytes().len(), got.stderr.bytes().len()),
            (60_000, 50_000),
        )
    })
}

fn streams(runtime: &Runtime, world: &World) -> Outcome {
    runtime.block_on(async {
        let mut child = Command::new(&world.plan(), "cat")
            .stdin(Stdio::Piped)
            .spawn_async()
            .await
            .map_err(say)?;
        let mut stdin = child.stdin.take().ok_or("no stdin")?;
        let mut stdout = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        for line in ["one\n", "two\n"] {
            stdin.write_all(line.as_bytes()).await.map_err(say)?;
            let mut back = String::new();
            stdout.read_line(&mut back).await.map_err(say)?;
            expect(back.as_str(), line)?;
        }
        drop(stdin);
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).await.map_err(say)?;
        expect(rest.len(), 0)?;
        expect(child.enforcement().backend, world.plan().plan().backend())?;
        expect(child.wait().await.map_err(say)?, Exit::Code(0))
    })
}

fn waiting_again(runtime: &Runtime, world: &World) -> Outcome {
    runtime.block_on(async {
        let mut child = Command::new(&world.plan(), "sh")
            .args(["-c", "sleep 0.05; exit 7"])
            .spawn_async()
            .await
            .map_err(say)?;
        let until = Instant::now() + WITHIN;
        // Dropped at whatever await it has come to.
        for micros in (0..).step_by(50) {
            let waited = tokio::time::timeout(Duration::from_micros(micros), child.wait()).await;
            match waited {
                Ok(exit) => {
                    expect(exit.map_err(say)?, Exit::Code(7))?;
                    break;
                }
                Err(_) if Instant::now() > until => return Err("never ended".to_owned()),
                Err(_) => {}
            }
        }
        expect(child.wait().await.map_err(say)?, Exit::Code(7))?;
        expect(child.killer().map_err(say)?.is_none(), true)
    })
}

/// Two commands are waited for while a third task ends both: on one thread, none of the waits may
/// hold it.
fn other_tasks(runtime: &Runtime, world: &World) -> Outcome {
    let plan = world.plan();
    runtime.block_on(async {
        let sleep = || Command::new(&plan, "sleep").arg("300").spawn_async();
        let mut first = sleep().await.map_err(say)?;
        let mut second = sleep().await.map_err(say)?;
        let killers = [&first, &second]
            .map(|child| child.killer().ok().flatten())
            .map(|killer| killer.expect("it runs"));
        let waiting = tokio::spawn(async move { first.wait().await });
        tokio::spawn(async move { killers.iter().for_each(os_sandbox::Killer::kill) });
        expect(second.wait().await.map_err(say)?, Exit::Signal(9))?;
        expect(waiting.await.map_err(say)?.map_err(say)?, Exit::Signal(9))
    })
}

fn both_streams(runtime: &Runtime, world: &World) -> Outcome {
    runtime.block_on(async {
        let script = "yes & sleep 0.1; echo here >&2; wait";
        let mut child = Command::new(&world.plan(), "sh")
            .args(["-c", script])
            .timeout(WITHIN)
            .spawn_async()
            .await
            .map_err(say)?;
        let killer = child.killer().map_err(say)?.ok_or("ended")?;
        let exit = child
            .wait_streaming(|stream, _| match stream {
                // Slow enough that the pipe is full again.
                Stream::Stdout => std::thread::sleep(Duration::from_millis(1)),
                Stream::Stderr => killer.kill(),
            })
            .await
            .map_err(say)?;
        expect(exit, Exit::Signal(9))
    })
}

fn ends(runtime: &Runtime, world: &World) -> Outcome {
    let plan = world.plan();
    let sleep = || Command::new(&plan, "sleep").arg("300");
    runtime.block_on(async {
        let mut killed = sleep().spawn_async().await.map_err(say)?;
        killed.kill();
        expect(killed.wait().await.map_err(say)?, Exit::Signal(9))?;
        let timed = sleep().timeout(Duration::from_millis(50)).output_async();
        expect(timed.await.map_err(say)?.exit, Exit::TimedOut)
    })
}

fn missing(runtime: &Runtime, world: &World) -> Outcome {
    let command = Command::new(&world.plan(), "no-such-program");
    match runtime.block_on(command.spawn_async()) {
        Err(error) => expect(error.exit_code(), 127),
        Ok(child) => Err(format!("{child:?}")),
    }
}

/// Own children and descriptors are as many as before, once the last end has been waited for.
fn dropped(runtime: &Runtime, world: &World) -> Outcome {
    let plan = world.plan();
    let script = "echo begin; sleep 0.01; echo end";
    let run = || {
        Command::new(&plan, "sh")
            .args(["-c", script])
            .output_async()
    };
    let hold = || Command::new(&plan, "sleep").arg("300").spawn_async();
    let children = held().0;
    // What is made once, such as the thread that waits for dropped ones, is there afterwards.
    runtime
        .block_on(async { hold().await.map(drop) })
        .map_err(say)?;
    settled(|now| now.0 == children)?;
    let before = held();
    runtime.block_on(async {
        for turn in 0..DROPS {
            // Cut off at the start, in the middle, and while the end is waited for.
            let after = Duration::from_micros(u64::from(turn) * 400);
            let _ = tokio::time::timeout(after, run()).await;
            // A runtime that is busy elsewhere does not poll a start again.
            let mut start = Box::pin(hold());
            let _ = start.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            drop(start);
            drop(hold().await.map_err(say)?);
        }
        Ok::<(), String>(())
    })?;
    // The plan may keep the locks of a few groups.
    settled(|now| now.0 == before.0 && now.1 < before.1 + DROPS as usize)
}

/// Waits for a count of children and descriptors.
fn settled(wanted: impl Fn((usize, usize)) -> bool) -> Outcome {
    let until = Instant::now() + WITHIN;
    while !wanted(held()) {
        if Instant::now() > until {
            return Err(format!("children and descriptors that stay: {:?}", held()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Children and open descriptors of this process.
fn held() -> (usize, usize) {
    let tasks = std::fs::read_dir("/proc/self/task").expect("tasks");
    let children = tasks
        .flatten()
        .map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default())
        .map(|list| list.split_whitespace().count())
        .sum();
    let open = std::fs::read_dir("/proc/self/fd")
        .expect("descriptors")
        .count();
    (children, open)
}
