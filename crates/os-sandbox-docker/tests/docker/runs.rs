//! Commands in containers, as the policy has it.

use crate::daemon::Daemon;
use crate::fixture::{World, plan, settings};
use os_sandbox::{
    Access, Environment, Exceeded, Exit, Limits, Network, Output, PromiseState, Stdio, Stream,
    UnixSockets,
};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, Instant};

fn text(output: &Output) -> String {
    format!(
        "{}: {}{}",
        output.exit,
        output.stdout.text(),
        output.stderr.text()
    )
}

/// A script, and what it comes to.
pub(crate) fn scripts(engine: &Daemon) {
    let world = World::of(0);
    let plan = world.plan(
        engine,
        world
            .policy()
            .env(Environment::clean().set("OWN", "a value")),
    );
    for (script, want) in [
        ("echo hello", "exit code 0: hello\n"),
        ("echo no >&2; exit 3", "exit code 3: no\n"),
        ("pwd; cat file", "exit code 0: /work\nin the project\n"),
        ("cat /data/file", "exit code 0: in the data\n"),
        ("kill -TERM $$", "signal 15: "),
        ("exec no-such-program 2>/dev/null", "exit code 127: "),
        ("id -u; id -g", "exit code 0: 0\n0\n"),
        ("echo x > made && cat made", "exit code 0: x\n"),
        ("echo x > /tmp/a && cat /tmp/a", "exit code 0: x\n"),
        ("cd && echo x > a && pwd", "exit code 0: /home/sandbox\n"),
        // Each of these has no answer.
        (
            "echo x 2>/dev/null > /data/made || echo no",
            "exit code 0: no\n",
        ),
        ("echo x 2>/dev/null > /made || echo no", "exit code 0: no\n"),
        (
            "cat /etc/shadow 2>/dev/null || echo no",
            "exit code 0: no\n",
        ),
        (
            "echo 1 2>/dev/null > /proc/sys/vm/swappiness || echo no",
            "exit code 0: no\n",
        ),
        (
            "mount -t tmpfs x /tmp 2>/dev/null || echo no",
            "exit code 0: no\n",
        ),
        ("chmod u+s file 2>/dev/null || echo no", "exit code 0: no\n"),
        ("chown 1:1 file 2>/dev/null || echo no", "exit code 0: no\n"),
        (
            "unshare -r true 2>/dev/null || echo no",
            "exit code 0: no\n",
        ),
        ("mknod d b 1 1 2>/dev/null || echo no", "exit code 0: no\n"),
        ("grep -c . /proc/net/dev", "exit code 0: 3\n"),
        (
            "grep CapEff /proc/self/status",
            "exit code 0: CapEff:\t0000000000000000\n",
        ),
        (
            "grep NoNewPrivs /proc/self/status",
            "exit code 0: NoNewPrivs:\t1\n",
        ),
        (
            "grep Seccomp: /proc/self/status",
            "exit code 0: Seccomp:\t2\n",
        ),
        (
            // Without those that the caller of the tests happens to have: a CI service sets `CI`.
            "env | grep -v -e '^CI=' -e '^COLORTERM=' -e '^LANGUAGE=' -e '^LC_' -e '^NO_COLOR=' \
             -e '^TZ=' | sort",
            "exit code 0: HOME=/home/sandbox\nLANG=C.UTF-8\nOS_SANDBOX=docker\nOWN=a value\n\
             PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nPWD=/work\n\
             SHLVL=1\nTERM=dumb\nTMPDIR=/tmp\n",
        ),
    ] {
        let output = world
            .command(&plan, "sh")
            .args(["-c", script])
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            .output()
            .unwrap_or_else(|error| panic!("{script}: {error}"));
        assert_eq!(text(&output), want, "{script}");
    }
    assert_eq!(
        fs::read_to_string(world.path("project/made")).expect("it"),
        "x\n"
    );
    assert!(!world.path("data/made").exists());
    assert_eq!(engine.everything(), Vec::<String>::new());
}

/// What runs belongs to whoever owns the workspace, also when the caller is root.
pub(crate) fn owners(engine: &Daemon) {
    let world = World::of(1234);
    let plan = world.plan(engine, world.policy());
    let output = world.sh(
        &plan,
        "id -u; echo x > made; echo x > $HOME/a; echo x > $TMPDIR/a",
    );
    assert_eq!(text(&output), "exit code 0: 1234\n");
    let made = fs::metadata(world.path("project/made")).expect("it was made");
    assert_eq!((made.uid(), made.gid()), (1234, 1234));

    let two = world
        .policy()
        .mount(world.path("state"), "/two", Access::ALL);
    std::os::unix::fs::chown(world.path("state"), Some(99), Some(99)).expect("its owner");
    let plan = world.plan(engine, two);
    let refused = world
        .command(&plan, "true")
        .spawn()
        .expect_err("two owners");
    assert_eq!(refused.kind(), os_sandbox::ErrorKind::Invalid);
    assert!(refused.to_string().contains("user 99"), "{refused}");
}

/// The receipt names the image by its digest, and everything that was set.
pub(crate) fn receipts(engine: &Daemon) {
    let world = World::of(0);
    let policy = world.policy().build().expect("a policy");
    let settings = settings().cpu_milli(500).memory_bytes(64 << 20).pids(32);
    let plan = plan(engine.host(), settings, &policy);
    let mut child = world
        .command(&plan, "sh")
        .args([
            "-c",
            "cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max 2>/dev/null",
        ])
        .spawn()
        .expect("a container");
    let enforcement = child.enforcement().clone();
    let mut said = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut said).expect("its output");
    }
    child.wait().expect("its end");
    assert_eq!(said, "32\n");
    let shown = enforcement.container.as_ref().expect("a container");
    let id = engine.docker(&[
        "image",
        "inspect",
        "--format",
        "{{.Id}}",
        crate::daemon::IMAGE,
    ]);
    assert_eq!(shown.digest, id);
    assert_eq!(
        (
            shown.cpu_milli,
            shown.memory_bytes,
            shown.pids,
            shown.read_only_root
        ),
        (Some(500), Some(64 << 20), Some(32), true)
    );
    assert_eq!((&*shown.user, &*shown.network), ("0:0", "none"));
    assert!(enforcement.seccomp);
    assert!(enforcement.to_string().contains(&id), "{enforcement}");
    let open: Vec<String> = plan.plan().gaps().map(ToString::to_string).collect();
    assert_eq!(open, Vec::<String>::new());
}

/// Everything that is written comes through whole and in order, and a reader that is slow holds up
/// the command.
pub(crate) fn streams(engine: &Daemon) {
    let world = World::of(0);
    let plan = world.plan(engine, world.policy());
    let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at % 251) as u8).collect();
    let mut child = world
        .command(&plan, "cat")
        .stdin(Stdio::Piped)
        .spawn()
        .expect("a container");
    let mut stdin = child.stdin.take().expect("a pipe");
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent));
    let mut got = Vec::new();
    let mut stdout = child.stdout.take().expect("a pipe");
    std::thread::sleep(Duration::from_millis(300));
    stdout.read_to_end(&mut got).expect("its output");
    writer.join().expect("a thread").expect("all was taken");
    assert_eq!(child.wait().expect("its end"), Exit::Code(0));
    assert_eq!(got.len(), bytes.len());
    assert!(got == bytes, "the same bytes");

    // Nobody reads: what is produced is bounded by the pipes on the way.
    let mut child = world
        .command(&plan, "sh")
        .args(["-c", "yes | head -c 100000000; echo done > made"])
        .spawn()
        .expect("a container");
    std::thread::sleep(Duration::from_secs(1));
    assert!(!world.path("project/made").exists(), "it ran ahead");
    let mut total = 0;
    child
        .wait_streaming(|stream, bytes| {
            assert_eq!(stream, Stream::Stdout);
            total += bytes.len();
        })
        .expect("its end");
    assert_eq!(total, 100_000_000);

    // A file, and nothing.
    let log = world.path("other/log");
    let file = fs::File::create(&log).expect("a file");
    let input = fs::File::open(world.path("other/secret")).expect("a file");
    let exit = world
        .command(&plan, "sh")
        .args(["-c", "cat; echo err >&2"])
        .stdin(input)
        .stdout(file)
        .stderr(Stdio::Null)
        .spawn()
        .and_then(|mut child| child.wait());
    assert_eq!(exit.expect("its end"), Exit::Code(0));
    assert_eq!(
        fs::read_to_string(log).expect("a file"),
        "nobody's business\n"
    );
    assert_eq!(engine.everything(), Vec::<String>::new());
}

/// However it ends, it is said how, and nothing is left.
pub(crate) fn ends(engine: &Daemon) {
    let world = World::of(0);
    let plan = world.plan(engine, world.policy());
    let sleep = || {
        world
            .command(&plan, "sh")
            .args(["-c", "sleep 1000 & sleep 1000"])
    };
    let begun = Instant::now();

    let short = Duration::from_millis(300);
    let mut child = sleep().timeout(short).spawn().expect("a container");
    assert_eq!(child.wait().expect("its end"), Exit::TimedOut);
    assert_eq!(child.exceeded(), Some(Exceeded::Wall(short)));

    let mut child = sleep().spawn().expect("a container");
    child.kill();
    assert_eq!(child.wait().expect("its end"), Exit::Signal(9));

    let mut child = sleep().spawn().expect("a container");
    let killer = child.killer().expect("a killer");
    assert_eq!(child.try_wait().expect("it runs"), None);
    let thread = std::thread::spawn(move || killer.kill());
    assert_eq!(child.wait().expect("its end"), Exit::Signal(9));
    thread.join().expect("a thread");

    drop(sleep().spawn().expect("a container"));
    assert_eq!(engine.everything(), Vec::<String>::new());

    // Killed and removed from outside.
    for how in [&["kill"][..], &["rm", "--force"]] {
        let mut child = sleep().spawn().expect("a container");
        let id = engine.docker(&["ps", "--quiet"]);
        engine.docker(&[how, &[&id]].concat());
        assert_eq!(child.wait().expect("its end"), Exit::Signal(9), "{how:?}");
    }
    assert_eq!(engine.everything(), Vec::<String>::new());
    assert!(
        begun.elapsed() < Duration::from_secs(600),
        "{:?}",
        begun.elapsed()
    );
}

/// The limits of the whole tree.
pub(crate) fn limits(engine: &Daemon) {
    let world = World::of(0);
    let limits = Limits {
        memory_bytes: Some(32 << 20),
        processes: Some(20),
        open_files: Some(64),
        ..Limits::default()
    };
    let plan = world.plan(engine, world.policy().limits(limits));
    let hungry = "x=0123456789abcdef; while true; do x=$x$x; done";
    let output = world.sh(&plan, hungry);
    assert!(!output.exit.success(), "{}", text(&output));
    assert_eq!(
        output.exceeded,
        Some(Exceeded::Memory(32 << 20)),
        "{}",
        text(&output)
    );
    let many = "i=0; while [ $i -lt 100 ]; do sleep 5 & i=$((i+1)); done; wait";
    let output = world.sh(&plan, many);
    assert!(!output.exit.success(), "{}", text(&output));
    assert_eq!(text(&world.sh(&plan, "ulimit -n")), "exit code 0: 64\n");
}

/// Names in a writable mount.
pub(crate) fn names(engine: &Daemon) {
    let world = World::of(0);
    fs::create_dir_all(world.path("project/.git/hooks")).expect("a directory");
    fs::write(world.path("project/.git/hooks/old"), "old\n").expect("a file");
    fs::create_dir(world.path("project/.ssh")).expect("a directory");
    fs::write(world.path("project/.ssh/id"), "key\n").expect("a file");
    fs::write(world.path("project/.env"), "key\n").expect("a file");
    let policy = world
        .policy()
        .protect(".git/hooks")
        .protect(".envrc")
        .protect("*.key")
        .hide(".env")
        .hide(".ssh");
    let swept = world.plan(engine, policy.clone());
    let plan = world.plan(engine, policy.hold_absent());
    for (script, want) in [
        ("cat .git/hooks/old", "exit code 0: old\n"),
        ("cat .env 2>/dev/null", "exit code 1: "),
        ("(echo x > .env) 2>/dev/null", "exit code 1: "),
        ("cat .ssh/id 2>/dev/null", "exit code 1: "),
        ("ls .ssh 2>/dev/null", "exit code 1: "),
        ("chmod 700 .ssh .env 2>/dev/null", "exit code 1: "),
        (
            "ls .ssh 2>/dev/null; (echo x > .ssh/new) 2>/dev/null",
            "exit code 1: ",
        ),
        ("echo x 2>/dev/null > .git/hooks/new", "exit code 1: "),
        ("mv .git aside 2>/dev/null", "exit code 1: "),
        (
            "rm -rf .git 2>/dev/null; cat .git/hooks/old",
            "exit code 0: old\n",
        ),
        ("(echo x > .envrc) 2>/dev/null", "exit code 1: "),
        ("mkdir sub; echo x > sub/a.key", "exit code 0: "),
    ] {
        let output = world.sh(&plan, script);
        let want_exit = want.split(':').next().unwrap_or_default();
        assert_eq!(text(&output), want, "{script}");
        assert_eq!(output.exit.to_string(), want_exit);
    }
    assert!(
        !world.path("project/.envrc").exists(),
        "the placeholder is gone"
    );
    let output = world.sh(&swept, "echo x > .envrc");
    assert_eq!(text(&output), "exit code 0: ");
    assert_eq!(
        output.enforcement.quarantined.len(),
        1,
        "{:?}",
        output.enforcement.quarantined
    );
    assert!(!world.path("project/.envrc").exists(), "it is swept");
    let output = world.sh(&plan, "echo x > b.key");
    assert_eq!(
        output.enforcement.quarantined.len(),
        1,
        "{:?}",
        output.enforcement.quarantined
    );
    assert!(!world.path("project/b.key").exists());
    let hidden = plan
        .plan()
        .entries()
        .iter()
        .find(|one| one.promise == os_sandbox::Promise::HiddenNames);
    assert_eq!(hidden.map(|one| one.state), Some(PromiseState::Detected));
}

/// Paths of the host in which something could mean something.
pub(crate) fn paths(engine: &Daemon) {
    let world = World::of(0);
    for name in [
        "a,b",
        "a:b",
        "a b",
        "a\nb",
        "a\"b",
        "a'b",
        "a\\b",
        "a\tb",
        "$HOME",
        "-v",
        "a=b,ro",
        "é",
        "{{.Name}}",
        "%2e",
        " a ",
    ] {
        let path = world.path("other").join(name);
        fs::create_dir(&path).expect("a directory");
        fs::write(path.join("file"), name).expect("a file");
        let policy = os_sandbox::Policy::builder().mount(&path, "/", Access::ALL);
        let plan = world.plan(engine, policy);
        let output = world.sh(&plan, "cat file && cp file copy");
        assert_eq!(text(&output), format!("exit code 0: {name}"), "{name:?}");
        assert_eq!(fs::read_to_string(path.join("copy")).expect("it"), name);
        // And inside it, as names that are protected and hidden.
        let policy = os_sandbox::Policy::builder()
            .mount(world.path("other"), "/", Access::ALL)
            .protect(name)
            .hide("secret");
        if let Ok(policy) = policy.build() {
            let plan = plan_of(engine, &policy);
            let script = "for f in */file; do (echo x > \"$f\") 2>/dev/null; done; cat secret";
            let output = world
                .command(&plan, "sh")
                .args(["-c", script])
                .output()
                .expect("it runs");
            assert!(!output.exit.success());
            assert_eq!(fs::read_to_string(path.join("file")).expect("it"), name);
        }
        fs::remove_dir_all(&path).expect("gone");
    }
    assert_eq!(engine.everything(), Vec::<String>::new());
}

fn plan_of(engine: &Daemon, policy: &os_sandbox::Policy) -> os_sandbox::Sandbox {
    plan(engine.host(), settings(), policy)
}

/// Where things lie if there is no root mount, and by which names.
pub(crate) fn places(engine: &Daemon) {
    let world = World::of(0);
    fs::create_dir_all(world.path("project/bin")).expect("a directory");
    let tool = world.path("project/bin/tool");
    fs::write(&tool, "#!/bin/sh\necho tool $0\n").expect("a file");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("a program");
    let policy = os_sandbox::Policy::builder()
        .mount(world.path("project"), "/project", Access::ALL)
        .mount(
            world.path("data"),
            "/deep/data",
            Access::READ | Access::EXECUTE,
        )
        .mount(
            world.path("other"),
            "/work/src/other",
            Access::READ | Access::EXECUTE,
        );
    let plan = world.plan(engine, policy);
    let output = world.sh(
        &plan,
        "ls; cat project/file deep/data/file src/other/secret",
    );
    assert_eq!(
        text(&output),
        "exit code 0: deep\nproject\nsrc\nin the project\nin the data\nnobody's business\n"
    );
    let output = world
        .command(&plan, "/project/bin/tool")
        .output()
        .expect("it runs");
    assert_eq!(text(&output), "exit code 0: tool /project/bin/tool\n");
    for (cwd, want) in [("project", "/project"), ("/project/bin", "/project/bin")] {
        let output = world
            .command(&plan, "pwd")
            .arg("-P")
            .cwd(cwd)
            .output()
            .expect("it runs");
        assert_eq!(text(&output), format!("exit code 0: {want}\n"));
    }
    let refused = world.command(&plan, "pwd").cwd("project/absent").output();
    assert_eq!(
        refused.expect_err("absent").kind(),
        os_sandbox::ErrorKind::Invalid
    );
    assert!(!world.path("project/absent").exists());
}

/// A container without a network has a loopback interface, and no other.
pub(crate) fn network(engine: &Daemon) {
    let world = World::of(0);
    let script = "nc -l -p 7777 -e echo hi & n=0; until nc 127.0.0.1 7777 </dev/null || \
                  [ $n -ge 6000 ]; do n=$((n+1)); sleep 0.1; done; \
                  grep -o '^ *[a-z0-9]*:' /proc/net/dev; ip route | wc -l";
    for (network, sockets) in [
        (Network::Denied, UnixSockets::Closed),
        (Network::Loopback, UnixSockets::Closed),
        // The largest filter.
        (Network::Loopback, UnixSockets::Open),
    ] {
        let policy = world
            .policy()
            .network(network.clone())
            .unix_sockets(sockets);
        let output = world.sh(&world.plan(engine, policy), script);
        let words: Vec<String> = (output.stdout.text().split_whitespace())
            .map(str::to_owned)
            .collect();
        assert_eq!(words, ["hi", "lo:", "0"], "{network:?} {}", text(&output));
    }
}
