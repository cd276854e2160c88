//! A broker that is killed leaves its containers and volumes behind; the next one removes them, and
//! nothing that is anybody else's.

use crate::daemon::{Daemon, IMAGE};
use os_sandbox_docker::Engine;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

/// A broker that has a container and a volume, and waits to be killed.
pub(crate) fn broker(arguments: &[String]) -> ExitCode {
    let [host, name] = arguments else {
        return ExitCode::FAILURE;
    };
    let Ok(engine) = Engine::connect(Some(host)) else {
        return ExitCode::FAILURE;
    };
    let labels = engine.labels(None);
    let labels = labels.iter().map(|(name, value)| format!("{name}={value}"));
    let labels: Vec<String> = labels
        .flat_map(|label| ["--label".to_owned(), label])
        .collect();
    let made = |arguments: &[&str], after: &[&str]| {
        let mut docker = Command::new("docker");
        docker
            .args(["--host", host])
            .args(arguments)
            .args(&labels)
            .args(after);
        docker.stdout(Stdio::null());
        docker.status().is_ok_and(|status| status.success())
    };
    let mount = format!("{name}:/data");
    let container = [
        "run",
        "--detach",
        "--network",
        "none",
        "--name",
        name,
        "--volume",
        &mount,
    ];
    if !made(&["volume", "create"], &[name]) || !made(&container, &[IMAGE, "sleep", "1000"]) {
        return ExitCode::FAILURE;
    }
    let _told = writeln!(std::io::stdout(), "ready");
    std::thread::sleep(std::time::Duration::from_secs(600));
    ExitCode::FAILURE
}

fn start(engine: &Daemon, name: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("own path"))
        .args(["--broker", engine.host(), name])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a broker");
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().expect("a pipe"));
    said.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    child
}

pub(crate) fn killed(engine: &Daemon) {
    let connected = Engine::connect(Some(engine.host())).expect("an engine");
    let (mut dead, mut alive) = (start(engine, "of-the-dead"), start(engine, "of-the-living"));
    let count = |name: &str| {
        let all = engine.everything();
        all.iter().filter(|line| line.contains(name)).count()
    };
    let reaped = connected.reap(None).expect("asked");
    assert_eq!((reaped.containers, reaped.volumes), (0, 0), "both live");
    // SIGKILL: nothing of it runs any more, once the kernel has ended it.
    dead.kill().expect("killed");
    // Before its parent has asked for its end, too: this waits, and leaves it a zombie.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(&dead)), ended).expect("ended");
    let reaped = connected.reap(None).expect("asked");
    assert_eq!(reaped.problems, Vec::<String>::new());
    assert_eq!((reaped.containers, reaped.volumes), (1, 1));
    assert_eq!((count("of-the-dead"), count("of-the-living")), (0, 2));
    dead.wait().expect("ended");
    alive.kill().expect("killed");
    alive.wait().expect("ended");
    assert_eq!(connected.reap(None).expect("asked").containers, 1);
    assert_eq!(engine.everything(), Vec::<String>::new());
}

pub(crate) fn others(engine: &Daemon) {
    let connected = Engine::connect(Some(engine.host())).expect("an engine");
    let mut ended = Command::new("true").spawn().expect("a process");
    ended.wait().expect("ended");
    let dead = ended.id().to_string();
    let create = |state: Option<&Path>, change: &[(&str, &str)]| {
        let mut labels = connected.labels(state);
        // Of a process that is no more.
        labels.insert("os-sandbox.pid".to_owned(), dead.clone());
        for (name, value) in change {
            labels.insert((*name).to_owned(), (*value).to_owned());
        }
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut arguments = vec!["volume", "create"];
        for label in &labels {
            arguments.extend(["--label", label]);
        }
        engine.docker(&arguments)
    };
    let stay = [
        create(None, &[("os-sandbox.boot", "another machine's")]),
        create(None, &[("os-sandbox.owner", "somebody")]),
        create(None, &[("os-sandbox.pid-namespace", "pid:[1]")]),
        create(None, &[("os-sandbox.pid", "no number")]),
        create(Some(Path::new("/elsewhere")), &[]),
        engine.docker(&["volume", "create"]),
    ];
    let goes = create(None, &[]);
    let reaped = connected.reap(None).expect("asked");
    assert_eq!((reaped.containers, reaped.volumes), (0, 1));
    let there = engine.docker(&["volume", "ls", "--quiet"]);
    assert!(!there.contains(&goes));
    for volume in &stay {
        assert!(there.contains(volume.as_str()), "{volume} is gone");
        engine.docker(&["volume", "rm", volume]);
    }
}
