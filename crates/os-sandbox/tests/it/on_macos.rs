//! Commands under the real Seatbelt: a few of each promise. What profiles mean in detail is asked
//! of the judge, on every system (`seatbelt`).

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use os_sandbox::{
    Access, Backend, Command, Directories, Environment, Exit, Limits, Plan, Policy, Requirement,
    Sandbox, Support,
};
use std::fs;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// A project with something to protect and to hide, and a file outside of it.
fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for sub in ["p/.git/hooks", "p/closed", "p/sub"] {
        fs::create_dir_all(dir.path().join(sub)).expect("a directory");
    }
    for (name, text) in [
        ("outside", "secret"),
        ("p/note", "note"),
        ("p/.env", "hidden"),
        ("p/closed/x", "closed"),
    ] {
        fs::write(dir.path().join(name), text).expect("a file");
    }
    dir
}

fn policy(dir: &Path) -> Policy {
    Policy::builder()
        .mount(dir.join("p"), "/", Access::ALL)
        .mount(dir.join("p/closed"), "/closed", Access::NONE)
        .protect(".git/hooks")
        .hide(".env*")
        .env(
            Environment::clean()
                .set("OUT", dir.join("outside"))
                .set("BROKER", std::process::id().to_string()),
        )
        .limits(Limits {
            wall: Some(Duration::from_secs(600)),
            ..Limits::default()
        })
        .build()
        .expect("a policy")
}

fn open(policy: &Policy) -> Sandbox {
    let support = Support::detect();
    assert!(support.seatbelt(), "{support}");
    let plan = Plan::new(policy, &support, Requirement::BestEffort).expect("a plan");
    assert_eq!(plan.backend(), Backend::Seatbelt);
    Sandbox::open(plan, Directories::user())
}

#[test]
fn what_works_and_what_does_not() {
    let dir = tree();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    // Open here, a child would inherit it, and it is not declared.
    let leak = fs::File::open(dir.path().join("outside")).expect("a file");
    fcntl(&leak, FcntlArg::F_SETFD(FdFlag::empty())).expect("a flag");
    let inherited = leak.as_raw_fd();
    let sandbox = open(&policy(dir.path()));
    let mut wrong = Vec::new();
    for (script, works) in [
        ("cat note", true),
        ("echo x > new && cat new && rm new", true),
        ("echo x > \"$TMPDIR/t\" && cat \"$TMPDIR/t\"", true),
        ("cd sub && pwd && cp ../note . && mv note other", true),
        ("ln note hard && cat hard", true),
        (
            "printf '#!/bin/sh\\necho run\\n' > tool && chmod 755 tool && ./tool",
            true,
        ),
        ("ls / && ls /usr/bin > /dev/null", true),
        ("id -un", true),
        ("cat \"$OUT\"", false),
        ("echo x > \"$OUT\"", false),
        ("rm \"$OUT\"", false),
        ("stat \"$OUT\"", false),
        ("ln \"$OUT\" got", false),
        ("ln -s \"$OUT\" link && cat link", false),
        ("cat closed/x", false),
        ("mv closed aside", false),
        ("cat .env", false),
        ("cat .ENV", false),
        ("mv .env aside", false),
        ("ln .env aside", false),
        ("echo x > .git/hooks/pre-commit", false),
        ("echo x > .GIT/HOOKS/pre-commit", false),
        ("mv .git aside", false),
        ("mkdir -p a/.git/hooks", false),
        ("chmod u+s note", false),
        ("kill -0 $BROKER", false),
        ("ps -A | grep -q launchd", false),
    ] {
        let output = Command::new(&sandbox, "/bin/sh")
            .args(["-c", script])
            .output()
            .expect("a shell");
        if output.exit.success() != works {
            wrong.push(format!(
                "{script}: {:?} {}",
                output.exit,
                output.stderr.text()
            ));
        }
    }
    for script in [
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}"),
        format!("cat <&{inherited}"),
    ] {
        let output = Command::new(&sandbox, "/bin/bash")
            .args(["-c", &script])
            .output()
            .expect("a shell");
        if output.exit.success() {
            wrong.push(script);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let note = fs::metadata(dir.path().join("p/note")).expect("a file");
    assert_eq!(note.permissions().mode() & 0o6000, 0);
}

#[test]
fn a_time_limit_ends_the_group() {
    let dir = tree();
    let sandbox = open(&policy(dir.path()));
    let output = Command::new(&sandbox, "/bin/sh")
        .args(["-c", "sleep 60 & sleep 60"])
        .timeout(Duration::from_secs(2))
        .output()
        .expect("a shell");
    assert_eq!(output.exit, Exit::TimedOut);
}
