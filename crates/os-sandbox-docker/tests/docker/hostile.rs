//! What goes wrong with an engine, and what somebody names an image: a typed error or a command that
//! ran, within bounds, and nothing is left behind.

use crate::daemon::{Daemon, IMAGE};
use crate::fixture::{World, open_at, plan, settings};
use os_sandbox::{
    Backend, Command, Directories, Error, ErrorKind, Exit, Output, Plan, Requirement, Sandbox,
    Support,
};
use os_sandbox_docker::{Containers, Engine, ImageName, Settings};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bound on anything here.
const BOUND: Duration = Duration::from_secs(600);
/// An engine takes a moment to forget what it was told to remove.
const FORGETS_WITHIN: Duration = Duration::from_secs(600);

/// What may come of a row.
enum Want {
    Runs(&'static str),
    Fails(&'static [ErrorKind], &'static str),
}

/// The one check: what came of it is what may, in time, and nothing is left.
fn check(name: &str, engine: &Daemon, since: Instant, came: Result<Output, Error>, want: &Want) {
    assert!(since.elapsed() < BOUND, "{name}: {:?}", since.elapsed());
    match (came, want) {
        (Ok(output), Want::Runs(text)) => {
            assert_eq!(output.exit, Exit::Code(0), "{name}: {output:?}");
            assert_eq!(output.stdout.text(), *text, "{name}");
        }
        (Err(error), Want::Fails(kinds, says)) => {
            assert!(
                kinds.contains(&error.kind()),
                "{name}: {:?}: {error}",
                error.kind()
            );
            assert!(
                error.to_string().contains(says),
                "{name}: {says:?} is not in {error}"
            );
        }
        (Ok(output), Want::Fails(..)) => panic!("{name}: it ran: {output:?}"),
        (Err(error), Want::Runs(_)) => panic!("{name}: {error}"),
    }
    nothing_left(name, engine);
}

fn nothing_left(name: &str, engine: &Daemon) {
    let until = Instant::now() + FORGETS_WITHIN;
    loop {
        let left = engine.everything();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "{name}: left behind: {left:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn with_settings(engine: &Daemon, world: &World, settings: Settings) -> Result<Sandbox, Error> {
    let connected = Engine::connect(Some(engine.host()))?;
    let containers = Containers::new(connected, settings)?;
    let support = Support::detect().with_docker(containers.support());
    let policy = world.policy().build()?;
    let plan = Plan::with_mechanism(&policy, &support, Requirement::Enforce, Backend::Docker);
    Ok(Sandbox::with_mechanism(
        plan?,
        Directories::user(),
        containers,
    ))
}

fn hello(world: &World, plan: &Sandbox) -> Result<Output, Error> {
    world.command(plan, "echo").arg("hello").output()
}

pub(crate) fn images(engine: &Daemon) {
    let world = World::of(0);
    let long = "a".repeat(300);
    for (name, says) in [
        ("--privileged", "--privileged"),
        ("-v", "-v"),
        ("", "image"),
        ("../../containers/json?all=1", "image"),
        ("a b", "image"),
        ("a\nb", "image"),
        ("a\0b", "image"),
        ("a/../b", "image"),
        ("a?b", "image"),
        ("a#b", "image"),
        ("a%2fb", "image"),
        ("http://a/b", "image"),
        (long.as_str(), "image"),
    ] {
        let since = Instant::now();
        let came = ImageName::parse(name)
            .and_then(|name| with_settings(engine, &world, Settings::new(name)))
            .and_then(|plan| hello(&world, &plan));
        let error = came.expect_err(name);
        let kinds = [ErrorKind::Invalid, ErrorKind::Unsupported, ErrorKind::Limit];
        assert!(kinds.contains(&error.kind()), "{name:?}: {error}");
        assert!(error.to_string().contains(says), "{name:?}: {error}");
        assert!(!error.to_string().contains('\n') && !error.to_string().contains('\0'));
        assert!(since.elapsed() < BOUND);
        nothing_left(name, engine);
    }
    let missing = ImageName::parse("no-such-image:1").expect("a name");
    let since = Instant::now();
    let came = with_settings(engine, &world, Settings::new(missing));
    let came = came.and_then(|plan| hello(&world, &plan));
    let want = Want::Fails(&[ErrorKind::Unsupported], "no-such-image:1");
    check("a missing image", engine, since, came, &want);
    // Gone after it was looked at.
    engine.docker(&["tag", IMAGE, "os-sandbox-test:short-lived"]);
    let plan = with_settings(
        engine,
        &world,
        Settings::new(ImageName::parse("os-sandbox-test:short-lived").expect("a name")),
    );
    engine.docker(&["rmi", "os-sandbox-test:short-lived"]);
    let since = Instant::now();
    let came = plan.and_then(|plan| hello(&world, &plan));
    // It was meant by its digest, and that is still there.
    check(
        "a name that went",
        engine,
        since,
        came,
        &Want::Runs("hello\n"),
    );
}

pub(crate) fn many(engine: &Daemon) {
    let world = Arc::new(World::of(0));
    let plan = Arc::new(world.plan(engine, world.policy()));
    let since = Instant::now();
    let threads: Vec<_> = (0..50)
        .map(|at| {
            let (world, plan) = (Arc::clone(&world), Arc::clone(&plan));
            std::thread::spawn(move || {
                let script =
                    format!("echo {at}; echo {at} > /work/{at}; head -c 100000 /dev/zero | wc -c");
                (
                    at,
                    world.command(&plan, "sh").args(["-c", &script]).output(),
                )
            })
        })
        .collect();
    for thread in threads {
        let (at, output) = thread.join().expect("a thread");
        let output = output.unwrap_or_else(|error| panic!("{at}: {error}"));
        assert_eq!(output.exit, Exit::Code(0), "{at}: {output:?}");
        assert_eq!(output.stdout.text(), format!("{at}\n100000\n"));
        let made = std::fs::read_to_string(world.path(&format!("project/{at}")));
        assert_eq!(made.expect("it was made"), format!("{at}\n"));
    }
    assert!(since.elapsed() < BOUND * 3, "{:?}", since.elapsed());
    nothing_left("fifty at once", engine);
}

/// Engines that are ended, so each has its own.
pub(crate) fn dead_engines(_: &Daemon) {
    let world = World::of(0);
    for how in ["crashes", "ends"] {
        let mut engine = match Daemon::start_in(&std::env::temp_dir(), |_| Vec::new()) {
            Ok(engine) => engine,
            Err(reason) => {
                println!("  skipped: {reason}");
                return;
            }
        };
        let plan = world.plan(&engine, world.policy());
        let mut child = world
            .command(&plan, "sleep")
            .arg("1000")
            .spawn()
            .expect("a container");
        let since = Instant::now();
        match how {
            "crashes" => engine.kill(),
            _ => drop(engine),
        }
        let came = child.wait();
        assert!(since.elapsed() < BOUND, "{how}: {:?}", since.elapsed());
        match came {
            // An engine that is told to end ends what runs in it, if it still can.
            Ok(Exit::Signal(_) | Exit::Code(_)) if how == "ends" => {}
            Ok(exit) => panic!("{how}: {exit}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Enforcement, "{how}: {error}");
                assert!(error.hint().is_some(), "{how}: {error}");
            }
        }
        // And then there is none.
        let since = Instant::now();
        let came = hello(&world, &plan).expect_err("no engine");
        assert!(since.elapsed() < BOUND, "{how}: {:?}", since.elapsed());
        let kinds = [ErrorKind::Enforcement, ErrorKind::Unsupported];
        assert!(kinds.contains(&came.kind()), "{how}: {came}");
    }
}

pub(crate) fn full_disk(_: &Daemon) {
    let world = World::of(0);
    let engine = match Daemon::start_small("24m") {
        Ok(engine) => engine,
        Err(reason) => {
            println!("  skipped: {reason}");
            return;
        }
    };
    let writable = || settings().read_only_root(false);
    let policy = world.policy().build().expect("a policy");
    let (plan, plain) = (
        plan(engine.host(), writable(), &policy),
        world.plan(&engine, world.policy()),
    );
    let fill = |plan: &Sandbox| {
        let script = "head -c 100000000 /dev/zero > /filled; echo $? done";
        world.command(plan, "sh").args(["-c", script]).output()
    };
    // One container that fills it finds out by itself, and what it filled goes with it.
    let since = Instant::now();
    let output = fill(&plan).expect("it runs");
    assert_eq!(output.stdout.text(), "1 done\n", "{output:?}");
    nothing_left("a container that fills the disk", &engine);
    // One that stays, and others after it.
    let filler = [
        "run",
        "--detach",
        "--name",
        "filler",
        "--network",
        "none",
        IMAGE,
        "sh",
        "-c",
    ];
    let script = "head -c 100000000 /dev/zero > /filled; sleep 1000";
    engine.docker(&[&filler[..], &[script]].concat());
    let full = || {
        engine
            .docker(&["exec", "filler", "df", "/"])
            .contains("100%")
    };
    let until = Instant::now() + FORGETS_WITHIN;
    while !full() {
        assert!(Instant::now() < until, "it is never full");
        std::thread::sleep(Duration::from_millis(50));
    }
    for plan in [&plan, &plain] {
        match hello(&world, plan) {
            Ok(output) => assert_eq!(output.stdout.text(), "hello\n", "{output:?}"),
            Err(error) => {
                let text = error.to_string();
                assert_eq!(error.kind(), ErrorKind::Enforcement, "{text}");
                assert!(text.contains("no space left"), "{text}");
            }
        }
    }
    assert!(since.elapsed() < BOUND, "{:?}", since.elapsed());
    engine.docker(&["rm", "--force", "filler"]);
    nothing_left("a full disk", &engine);
    check(
        "with room again",
        &engine,
        Instant::now(),
        hello(&world, &plain),
        &Want::Runs("hello\n"),
    );
}

/// Long, and with everything that an option, a list or a shell could take for its own.
pub(crate) fn long_paths(engine: &Daemon) {
    let world = World::of(0);
    let name = "a,b:c d\n\"e\\f'$(g);readonly,".repeat(8);
    let deep = world.path("project").join(&name[..200]).join(&name[..200]);
    std::fs::create_dir_all(&deep).expect("a directory");
    std::fs::write(deep.join("file"), "deep\n").expect("a file");
    let policy = os_sandbox::Policy::builder().mount(&deep, "/", os_sandbox::Access::ALL);
    let plan = world.plan(engine, policy);
    let since = Instant::now();
    let came = world
        .command(&plan, "sh")
        .args(["-c", "cat file; cp file copy"])
        .output();
    check("a long path", engine, since, came, &Want::Runs("deep\n"));
    assert!(deep.join("copy").exists());
    // Gone between the plan and the start.
    std::fs::remove_dir_all(&deep).expect("removed");
    let since = Instant::now();
    let came = Command::new(&open_at(&plan, world.path("state")), "true").output();
    let kinds = &[ErrorKind::Io, ErrorKind::Invalid, ErrorKind::Enforcement];
    check(
        "a mount that went",
        engine,
        since,
        came,
        &Want::Fails(kinds, ""),
    );
}
