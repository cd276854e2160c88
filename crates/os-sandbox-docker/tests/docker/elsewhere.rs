//! Commands in containers of an engine that has not our files: the same as anywhere, by copies.

use crate::daemon::{Daemon, IMAGE};
use crate::fixture::{World, plan, settings};
use os_sandbox::{Access, Environment, ErrorKind, Exit, Policy};
use os_sandbox_docker::{Containers, CopyLimits, Engine, Settings};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

pub(crate) fn commands(_: &Daemon) {
    let engine = match Daemon::start_elsewhere() {
        Ok(engine) => engine,
        Err(reason) => {
            println!("  skipped: {reason}");
            return;
        }
    };
    let connected = Engine::connect(Some(engine.host())).expect("an engine");
    let containers = Containers::new(connected, settings()).expect("the image");
    let world = World::of(1234);
    let state = world.path("state");
    assert!(!containers.shares_files(Some(&state)).expect("asked"));
    let probed = containers.probe(Some(&state)).expect("it can be used");
    assert_eq!((probed.shares_files, probed.ran), (false, true));
    assert_eq!(engine.everything(), Vec::<String>::new());
    run(&engine, &world, settings());
    not_brought_back(&engine, &world);
    // Names of their own, links to them, and a working directory of ours.
    let policy = Policy::builder()
        .mount(world.path("project"), "/project", Access::ALL)
        .mount(
            world.path("data"),
            "/deep/data",
            Access::READ.union(Access::EXECUTE),
        );
    let plan = world.plan(&engine, policy);
    let output = world.sh(
        &plan,
        "pwd; ls; cat project/file deep/data/file; echo x > /project/named",
    );
    assert_eq!(
        output.stdout.text(),
        "/work\ndeep\nproject\nin the project\nin the data\n",
        "{output:?}"
    );
    assert_eq!(
        fs::read_to_string(world.path("project/named")).expect("it"),
        "x\n"
    );
    assert_eq!(engine.everything(), Vec::<String>::new());
}

/// The same with an engine that has our files and is told to do without.
pub(crate) fn told_so(engine: &Daemon) {
    let world = World::of(1234);
    run(engine, &world, settings().shares_files(false));
    // What ends early is brought back too.
    let policy = world.policy().build().expect("a policy");
    let plan = plan(engine.host(), settings().shares_files(false), &policy);
    // A slow machine needs longer until it has written.
    for seconds in [3, 30, 300] {
        let child = world
            .command(&plan, "sh")
            .args(["-c", "echo x > early; sleep 1000"]);
        let mut child = child
            .timeout(Duration::from_secs(seconds))
            .spawn()
            .expect("a container");
        assert_eq!(child.wait().expect("its end"), Exit::TimedOut);
        if world.path("project/early").exists() {
            break;
        }
    }
    assert_eq!(
        fs::read_to_string(world.path("project/early")).expect("it"),
        "x\n"
    );
    assert_eq!(engine.everything(), Vec::<String>::new());
}

fn run(engine: &Daemon, world: &World, settings: Settings) {
    fs::create_dir_all(world.path("project/.git/hooks")).expect("a directory");
    fs::create_dir_all(world.path("project/.ssh")).expect("a directory");
    fs::write(world.path("project/.ssh/id"), "a key").expect("a file");
    fs::write(world.path("project/.env"), "a key").expect("a file");
    let policy = world
        .policy()
        .env(Environment::clean())
        .protect(".git/hooks")
        .protect(".envrc")
        .hide(".env")
        .hide(".ssh")
        .build()
        .expect("a policy");
    let limits = CopyLimits::default().bytes(1 << 20);
    let plan = plan(engine.host(), settings.copy_limits(limits), &policy);
    let script = "id -u; cat file /data/file; ls -a; echo made > made; rm file; \
                  (echo x > /data/made) 2>/dev/null || echo read-only; \
                  echo x > .git/hooks/pre-commit; echo x > .envrc; echo x > $HOME/x; exit 3";
    let mut child = world
        .command(&plan, "sh")
        .args(["-c", script])
        .spawn()
        .expect("a container");
    let mut said = String::new();
    let mut stdout = child.stdout.take().expect("a pipe");
    std::io::Read::read_to_string(&mut stdout, &mut said).expect("its output");
    assert_eq!(child.wait().expect("its end"), Exit::Code(3));
    assert_eq!(
        said,
        "1234\nin the project\nin the data\n.\n..\n.git\nfile\nread-only\n"
    );
    let made = fs::metadata(world.path("project/made")).expect("it was made");
    assert_eq!((made.uid(), made.gid()), (1234, 1234));
    assert!(!world.path("project/file").exists());
    for kept in [".envrc", ".git/hooks/pre-commit"] {
        assert!(!world.path("project").join(kept).exists(), "{kept}");
    }
    let not = &child.enforcement().not_copied;
    for name in [".envrc", "pre-commit"] {
        let told = not
            .iter()
            .any(|line| line.contains(name) && line.contains("protected"));
        assert!(told, "{name} is not in {not:?}");
    }
    drop(child);
    fs::remove_file(world.path("project/made")).expect("removed");
    fs::write(world.path("project/file"), "in the project\n").expect("a file");
    std::os::unix::fs::chown(world.path("project/file"), Some(1234), Some(1234))
        .expect("its owner");
    assert_eq!(engine.everything(), Vec::<String>::new());
    // More than may go out, and more than may come back.
    let output = world
        .command(&plan, "sh")
        .args(["-c", "echo x > made; head -c 3000000 /dev/zero > big"]);
    let refused = output.output().expect_err("too much");
    assert_eq!(refused.kind(), ErrorKind::Limit, "{refused}");
    assert!(
        refused.to_string().contains("1 MiB") && refused.hint().is_some(),
        "{refused}"
    );
    assert!(!world.path("project/made").exists() && !world.path("project/big").exists());
    assert_eq!(engine.everything(), Vec::<String>::new());
    fs::write(world.path("data/big"), vec![0; 2 << 20]).expect("a file");
    let refused = world.command(&plan, "true").output().expect_err("too much");
    assert_eq!(refused.kind(), ErrorKind::Limit, "{refused}");
    fs::remove_file(world.path("data/big")).expect("removed");
    assert_eq!(engine.everything(), Vec::<String>::new());
}

fn not_brought_back(engine: &Daemon, world: &World) {
    let plan = world.plan(engine, world.policy());
    let mut child = world
        .command(&plan, "sh")
        .args(["-c", "echo theirs > file; echo ready; cat; echo done"])
        .stdin(os_sandbox::Stdio::Piped)
        .spawn()
        .expect("a container");
    let mut stdout = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("a line");
    fs::write(world.path("project/file"), "mine, written meanwhile\n").expect("a file");
    drop(child.stdin.take());
    assert_eq!(child.wait().expect("its end"), Exit::Code(0));
    let file = fs::read_to_string(world.path("project/file")).expect("it");
    assert_eq!(file, "mine, written meanwhile\n");
    let not = &child.enforcement().not_copied;
    assert!(
        not.len() == 1 && not[0].contains("changed here too"),
        "{not:?}"
    );
    fs::write(world.path("project/file"), "in the project\n").expect("a file");
    assert!(engine.docker(&["images", "--quiet", IMAGE]).len() > 3);
}

/// Whether commands can be run, and the one reason why not.
pub(crate) fn probes(engine: &Daemon) {
    let connected = Engine::connect(Some(engine.host())).expect("an engine");
    let containers = Containers::new(connected, settings()).expect("the image");
    let world = World::of(0);
    let state = world.path("state");
    let probed = containers.probe(Some(&state)).expect("it can be used");
    assert_eq!((probed.shares_files, probed.ran), (true, true));
    assert_eq!(engine.everything(), Vec::<String>::new());
    let own = Daemon::start_in(&std::env::temp_dir(), |_| Vec::new());
    let mut own = own.expect("an engine of its own");
    let connected = Engine::connect(Some(own.host())).expect("an engine");
    let containers = Containers::new(connected, settings()).expect("the image");
    own.docker(&["rmi", "--force", IMAGE]);
    let error = containers
        .probe(Some(&state))
        .expect_err("the image is gone");
    assert!(error.to_string().contains("No such image"), "{error}");
    own.kill();
    let error = containers
        .probe(Some(&state))
        .expect_err("the engine is gone");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(
        error.to_string().contains("does not answer any more"),
        "{error}"
    );
}
