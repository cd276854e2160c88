//! `Survivors::Left`: nobody ends what the command leaves behind, asked for by name. Everything
//! else holds, for what stays as well.

use crate::fixture::{Mechanism, World, open, set_mode};
use crate::outcome::{Outcome, expect, say};
use crate::report::Report;
use nix::libc;
use os_sandbox::{
    Backend, Command, ErrorKind, Exit, Plan, Promise, PromiseState, Requirement, Sandbox,
};
use os_sandbox::{Stdio, Support, Survivors};
use std::path::Path;
use std::time::{Duration, Instant};

/// A watchdog, not a measure.
const WITHIN: Duration = Duration::from_secs(600);

pub(crate) fn all() -> usize {
    let mut report = Report::new(Mechanism::Landlock);
    for backend in [Backend::Landlock, Backend::None] {
        let world = World::new(Mechanism::Landlock);
        let plan = plan(&world, backend);
        for (name, outcome) in [
            ("the plan says so", listed(&plan)),
            ("ends", ends(&plan)),
            ("starts that fail", failures(&world, &plan)),
            ("streams", streams(&plan)),
        ] {
            report.case(&format!("survivors left, {backend}: {name}"), outcome);
        }
    }
    let world = World::new(Mechanism::Landlock);
    let plan = plan(&world, Backend::Landlock);
    report.case(
        "survivors left: the command is confined",
        confined(&world, &plan),
    );
    for detach in ["", "setsid "] {
        report.case(
            &format!("survivors left: {detach}what stays is confined"),
            stays(&world, &plan, detach),
        );
    }
    report.case("survivors left: the self-test", proven(&plan));
    #[cfg(feature = "tokio")]
    report.case("survivors left: async", asynchronous(&plan));
    report.failures()
}

fn plan(world: &World, backend: Backend) -> Sandbox {
    let policy = world.policy().survivors(Survivors::Left);
    let requirement = match backend {
        Backend::None => Requirement::BestEffort,
        // Not a reason to refuse.
        _ => Requirement::Enforce,
    };
    let policy = policy.build().expect("a policy");
    open(Plan::with_mechanism(&policy, &Support::detect(), requirement, backend).expect("a plan"))
}

fn listed(plan: &Sandbox) -> Outcome {
    let mut child = Command::new(plan, "true").spawn().map_err(say)?;
    child.wait().map_err(say)?;
    for entries in [plan.plan().entries(), &child.enforcement().promises] {
        let entry = entries
            .iter()
            .find(|entry| entry.promise == Promise::Survivors)
            .ok_or("not listed")?;
        expect(entry.state, PromiseState::Absent)?;
        expect(entry.reason.as_deref(), Some("left by request"))?;
    }
    Ok(())
}

fn ends(plan: &Sandbox) -> Outcome {
    let sh = |script: &str| Command::new(plan, "sh").args(["-c", script]);
    for (script, want) in [
        ("exit 3", Exit::Code(3)),
        ("kill -9 $$", Exit::Signal(9)),
        ("exec sleep 0.01", Exit::Code(0)),
    ] {
        expect(sh(script).output().map_err(say)?.exit, want)?;
    }
    let sleep = || Command::new(plan, "sleep").arg("300");
    let mut killed = sleep().spawn().map_err(say)?;
    expect(killed.try_wait().map_err(say)?, None)?;
    killed.kill();
    expect(killed.wait().map_err(say)?, Exit::Signal(9))?;
    let mut child = sleep().spawn().map_err(say)?;
    let killer = child.killer().map_err(say)?;
    killer.kill();
    expect(child.wait().map_err(say)?, Exit::Signal(9))?;
    // Too late for anybody.
    killer.kill();
    let timed = sleep().timeout(Duration::from_millis(50)).output();
    expect(timed.map_err(say)?.exit, Exit::TimedOut)?;
    drop(sleep().spawn().map_err(say)?);
    expect(children(), 0)
}

fn failures(world: &World, plan: &Sandbox) -> Outcome {
    let text = world.host("rw").join("text");
    std::fs::write(&text, "no program").expect("a file");
    set_mode(&text, 0o755);
    for (command, want) in [
        (Command::new(plan, "no-such-program"), ErrorKind::NotFound),
        (Command::new(plan, "/rw/file"), ErrorKind::NotExecutable),
        (Command::new(plan, "/rw/text"), ErrorKind::NotExecutable),
        (
            Command::new(plan, "true").cwd("/rw/none"),
            ErrorKind::Invalid,
        ),
    ] {
        match command.spawn() {
            Err(error) if error.kind() == want => {}
            other => return Err(format!("{other:?} instead of {want:?}")),
        }
    }
    expect(children(), 0)
}

fn streams(plan: &Sandbox) -> Outcome {
    use std::io::Write;
    let mut child = Command::new(plan, "sh")
        .args(["-c", "cat; echo error >&2; exit 4"])
        .stdin(Stdio::Piped)
        .spawn()
        .map_err(say)?;
    let mut stdin = child.stdin.take().ok_or("no stdin")?;
    stdin.write_all(b"through").map_err(say)?;
    drop(stdin);
    let output = child.wait_with_output().map_err(say)?;
    let seen = (output.exit, output.stdout.text(), output.stderr.text());
    expect(seen, (Exit::Code(4), "through".into(), "error\n".into()))
}

fn confined(world: &World, plan: &Sandbox) -> Outcome {
    let kill = format!("call {} {} 0", libc::SYS_kill, std::process::id());
    let inet = format!("call {} 2 1 0", libc::SYS_socket);
    for (op, want) in [
        ("read {outside}/file", format!("errno {}", libc::EACCES)),
        ("write {outside}/new", format!("errno {}", libc::EACCES)),
        ("write {ro}/new", format!("errno {}", libc::EACCES)),
        ("write {rw}/new", "ok".to_owned()),
        ("fds", "ok 0 1 2".to_owned()),
        ("status NoNewPrivs", "ok 1".to_owned()),
        ("status Seccomp", "ok 2".to_owned()),
        ("status CapEff", "ok 0000000000000000".to_owned()),
        ("status SigBlk", "ok 0000000000000000".to_owned()),
        (&kill, format!("errno {}", libc::EPERM)),
        (&inet, format!("errno {}", libc::ENETUNREACH)),
    ] {
        let words: Vec<String> = op.split_whitespace().map(str::to_owned).collect();
        let said = world.probe(plan, &words);
        if said != want {
            return Err(format!("{op}: {said} instead of {want}"));
        }
    }
    world.unharmed()
}

fn proven(plan: &Sandbox) -> Outcome {
    let proof = plan.prove().map_err(say)?;
    let failures: Vec<_> = proof.failures().collect();
    expect(failures, Vec::new())
}

/// A process that goes on after its command, tries to read outside, and is then told to go.
fn stays(world: &World, plan: &Sandbox, detach: &str) -> Outcome {
    let rw = world.host("rw");
    std::fs::write(rw.join("stay"), "").map_err(say)?;
    let script = "while [ -e {rw}/stay ]; do sleep 0.01; done; \
                  cat {outside}/file > {rw}/stolen; kill -0 BROKER && echo > {rw}/signalled; \
                  echo > {rw}/gone"
        .replace("BROKER", &std::process::id().to_string());
    let script = format!("{detach}sh -c '{script}' > /dev/null 2>&1 &");
    let output = world.sh(plan, &script).map_err(say)?;
    expect(output.exit, Exit::Code(0))?;
    expect(rw.join("gone").exists(), false)?;
    std::fs::remove_file(rw.join("stay")).map_err(say)?;
    appears(&rw.join("gone"))?;
    let stolen = std::fs::read_to_string(rw.join("stolen")).map_err(say)?;
    expect(stolen.as_str(), "")?;
    expect(rw.join("signalled").exists(), false)?;
    std::fs::remove_file(rw.join("gone")).map_err(say)
}

#[cfg(feature = "tokio")]
fn asynchronous(plan: &Sandbox) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let sleep = || Command::new(plan, "sleep").arg("300");
    runtime.block_on(async {
        let command = Command::new(plan, "sh").args(["-c", "echo out; sleep 0.05; exit 5"]);
        let output = command.output_async().await.map_err(say)?;
        expect(output.exit, Exit::Code(5))?;
        expect(output.stdout.text().as_ref(), "out\n")?;
        let mut killed = sleep().spawn_async().await.map_err(say)?;
        killed.kill();
        expect(killed.wait().await.map_err(say)?, Exit::Signal(9))?;
        let timed = sleep().timeout(Duration::from_millis(50)).output_async();
        expect(timed.await.map_err(say)?.exit, Exit::TimedOut)?;
        drop(sleep().spawn_async().await.map_err(say)?);
        Ok::<(), String>(())
    })?;
    let until = Instant::now() + WITHIN;
    while children() > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    expect(children(), 0)
}

fn appears(path: &Path) -> Outcome {
    let until = Instant::now() + WITHIN;
    while !path.exists() {
        if Instant::now() > until {
            return Err("it did not stay".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Children of this process.
fn children() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("tasks");
    tasks
        .flatten()
        .map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default())
        .map(|list| list.split_whitespace().count())
        .sum()
}
