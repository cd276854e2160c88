//! What becomes of a command when something is lost on the way: its engine, its broker, whoever
//! waits for it. And the same for callers of other kinds: an ordinary user, an async one.

use crate::daemon::Daemon;
use crate::fixture::{World, open_at, plan, settings};
use os_sandbox::{Access, ErrorKind, Exit, Policy, Stdio};
use os_sandbox_docker::{Containers, Engine, ImageName, Settings};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

/// Generous: only that it ends is asked.
pub(crate) const WITHIN: Duration = Duration::from_secs(600);

/// A program that runs when its engine crashes: an error that says so, and no wait for ever.
pub(crate) fn engine(_: &Daemon) {
    let own = Daemon::start_in(&std::env::temp_dir(), |_| Vec::new());
    let mut own = own.expect("an engine of its own");
    let world = World::of(0);
    let plan = world.plan(&own, world.policy());
    let sleep = || {
        let command = world
            .command(&plan, "sh")
            .args(["-c", "echo here; sleep 1000"]);
        let mut child = command.stdin(Stdio::Piped).spawn().expect("a container");
        let mut line = [0; 5];
        let stdout = child.stdout.as_mut().expect("a pipe");
        stdout.read_exact(&mut line).expect("it runs");
        child
    };
    let (mut waits, dropped) = (sleep(), sleep());
    let left = processes(&own);
    own.kill();
    let begun = Instant::now();
    let lost = waits.wait().expect_err("nobody knows how it ended");
    assert_eq!(lost.kind(), ErrorKind::Enforcement);
    assert!(
        lost.to_string().contains("was lost while the command ran"),
        "{lost}"
    );
    assert!(lost.hint().is_some_and(|hint| hint.contains("next start")));
    drop(dropped);
    assert!(begun.elapsed() < WITHIN, "{:?}", begun.elapsed());
    let refused = world.command(&plan, "true").spawn().expect_err("no engine");
    assert!(refused.to_string().contains("engine"), "{refused}");
    drop(left);
    assert!(begun.elapsed() < WITHIN, "{:?}", begun.elapsed());
}

/// The first process of each container, and what stands by it: nobody else ends them after a crash.
fn processes(engine: &Daemon) -> Left {
    let ids = engine.docker(&["ps", "--quiet"]);
    let mut left = Vec::new();
    for id in ids.lines() {
        let pid = engine.docker(&["inspect", "--format", "{{.State.Pid}}", id]);
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        let parent: i32 = parent
            .expect("its parent")
            .trim()
            .parse()
            .expect("a number");
        left.extend([pid.parse().expect("a number"), parent]);
    }
    Left(left)
}

struct Left(Vec<i32>);

impl Drop for Left {
    fn drop(&mut self) {
        for pid in &self.0 {
            let pid = nix::unistd::Pid::from_raw(*pid);
            let _ended = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
    }
}

/// An image that is not there is never fetched.
pub(crate) fn image(engine: &Daemon) {
    let connected = Engine::connect(Some(engine.host())).expect("an engine");
    let absent = Settings::new(ImageName::parse("os-sandbox-test:absent").expect("a name"));
    let missing = Containers::new(connected, absent).expect_err("it is not there");
    assert_eq!(missing.kind(), ErrorKind::Unsupported);
    assert!(
        missing.to_string().contains("os-sandbox-test:absent"),
        "{missing}"
    );
    assert!(
        missing
            .hint()
            .is_some_and(|hint| hint.contains("docker pull"))
    );

    // One that is gone by now.
    let world = World::of(0);
    engine.docker(&["tag", crate::daemon::IMAGE, "os-sandbox-test:other"]);
    let other = Settings::new(ImageName::parse("os-sandbox-test:other").expect("a name"));
    let policy = world.policy().build().expect("a policy");
    let plan = plan(engine.host(), other, &policy);
    engine.docker(&["rmi", "os-sandbox-test:other"]);
    // Its digest is what counts, and that is still there.
    assert_eq!(world.sh(&plan, "true").exit, Exit::Code(0));
}

/// One that runs commands, and is killed.
pub(crate) fn life(arguments: &[String]) -> ExitCode {
    let (kind, host, project, state) = match arguments {
        [kind, host, project, state, port] if kind == "hosts" => {
            return crate::hosts::life(host, project.as_ref(), state.as_ref(), port);
        }
        [kind, host, project, state] => (kind, host, project, state),
        _ => return ExitCode::FAILURE,
    };
    let policy = Policy::builder().mount(project, "/", Access::ALL).build();
    let plan = plan(host, settings(), &policy.expect("a policy"));
    let command = |program: &str| os_sandbox::Command::new(&open_at(&plan, state), program);
    match kind.as_str() {
        "broker" => {
            // One ends with its input, one does not.
            let reads = command("cat")
                .stdin(Stdio::Piped)
                .spawn()
                .expect("a container");
            let stays = command("sleep").arg("1000").spawn().expect("a container");
            let _told = writeln!(std::io::stdout(), "ready");
            std::thread::sleep(Duration::from_secs(600));
            drop((reads, stays));
            ExitCode::FAILURE
        }
        "user" => {
            let script = "id -u; id -g; echo x > made; echo x > $HOME/a; \
                          cat .env 2>/dev/null || echo closed";
            let output = command("sh")
                .args(["-c", script])
                .output()
                .expect("it runs");
            let text = format!("{}{}", output.stdout.text(), output.stderr.text());
            let _told = write!(std::io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        _ => ExitCode::FAILURE,
    }
}

pub(crate) fn live(kind: &str, engine: &Daemon, world: &World) -> Command {
    // Where everybody can reach it.
    let program = world.path("program");
    // By another process: a file that a child of another thread holds open for writing cannot be
    // executed (ETXTBSY).
    let copied = Command::new("cp")
        .arg(std::env::current_exe().expect("own path"))
        .arg(&program)
        .status();
    assert!(copied.expect("cp").success());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("for everybody");
    let mut command = Command::new(program);
    command
        .args(["--life", kind, engine.host()])
        .args([world.path("project"), world.path("state")])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped());
    command
}

fn running(engine: &Daemon) -> Vec<String> {
    let listed = engine.docker(&["ps", "--format", "{{.Command}}", "--no-trunc"]);
    listed.lines().map(str::to_owned).collect()
}

/// Its containers end with their input, or by the next start of the same state directory.
pub(crate) fn broker(engine: &Daemon) {
    let world = World::of(0);
    let mut killed: Child = live("broker", engine, &world).spawn().expect("a broker");
    let mut line = String::new();
    let mut said = BufReader::new(killed.stdout.take().expect("a pipe"));
    said.read_line(&mut line).expect("it says so");
    assert_eq!(line, "ready\n");
    assert_eq!(running(engine).len(), 2);
    killed.kill().expect("it was there");
    killed.wait().expect("its end");
    let begun = Instant::now();
    while running(engine).len() > 1 {
        assert!(begun.elapsed() < WITHIN, "{:?}", running(engine));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(
        running(engine)[0].contains("sleep"),
        "{:?}",
        running(engine)
    );
    let plan = world.plan(engine, world.policy());
    assert_eq!(world.sh(&plan, "true").exit, Exit::Code(0));
    assert_eq!(engine.everything(), Vec::<String>::new());
}

/// An ordinary user who may use the engine.
pub(crate) fn user(engine: &Daemon) {
    const NOBODY: u32 = 65534;
    let world = World::of(NOBODY);
    std::os::unix::fs::chown(world.path("state"), Some(NOBODY), Some(NOBODY)).expect("its owner");
    fs::write(world.path("project/.env"), "key\n").expect("a file");
    let socket = engine.host().trim_start_matches("unix://").to_owned();
    for path in Path::new(&socket).ancestors().take(2) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("for everybody");
    }
    let own = live("user", engine, &world);
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(own.get_program())
        .args(own.get_args())
        .env("HOME", world.path("state"))
        .env("TMPDIR", std::env::temp_dir())
        .output()
        .expect("setpriv");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, "65534\n65534\nkey\n", "{errors}");
    let made = fs::metadata(world.path("project/made")).expect("it was made");
    assert_eq!((made.uid(), made.gid()), (NOBODY, NOBODY));

    // What is somebody else's.
    std::os::unix::fs::chown(world.path("project"), Some(0), Some(0)).expect("root's");
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(own.get_program())
        .args(own.get_args())
        .env("HOME", world.path("state"))
        .output()
        .expect("setpriv");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("the caller is user 65534"), "{errors}");
    assert_eq!(engine.everything(), Vec::<String>::new());
}

/// The async face is the same.
pub(crate) fn asynchronous(engine: &Daemon) {
    let world = World::of(0);
    let plan = world.plan(engine, world.policy());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let command = || world.command(&plan, "cat").stdin(Stdio::Piped);
        let mut child = command().spawn_async().await.expect("a container");
        // To and fro, as a protocol does.
        let mut answer = [0; 4];
        for _ in 0..3 {
            let stdin = child.stdin.as_mut().expect("a pipe");
            stdin.write_all(b"ping").await.expect("it is taken");
            let stdout = child.stdout.as_mut().expect("a pipe");
            stdout.read_exact(&mut answer).await.expect("an answer");
            assert_eq!(&answer, b"ping");
        }
        assert_eq!(child.wait().await.expect("its end"), Exit::Code(0));

        let sleep = || world.command(&plan, "sleep").arg("1000");
        let mut child = sleep().spawn_async().await.expect("a container");
        child.kill();
        assert_eq!(child.wait().await.expect("its end"), Exit::Signal(9));

        let short = Duration::from_millis(200);
        let mut child = sleep()
            .timeout(short)
            .spawn_async()
            .await
            .expect("a container");
        assert_eq!(child.wait().await.expect("its end"), Exit::TimedOut);

        // Dropped, it is ended behind the caller's back.
        drop(sleep().spawn_async().await.expect("a container"));
    });
    let begun = Instant::now();
    while !engine.everything().is_empty() {
        assert!(begun.elapsed() < WITHIN, "{:?}", engine.everything());
        std::thread::sleep(Duration::from_millis(20));
    }
}
