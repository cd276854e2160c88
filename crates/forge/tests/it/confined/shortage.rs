//! Too few processes or descriptors, or too little room: a command runs as the policy says and is
//! recorded, or not at all.

use std::path::Path;

use super::exec::mechanisms;
use crate::support::{Ran, World, copy_forge, forge_program, ran};

/// A user without other processes: their number is limited per user (setrlimit(2)).
const USER: &str = "64999";

const SCRIPT: &str = "echo started; cat .env; : > .git/hooks/post-checkout";

/// The limits of `prlimit`, from those with which forge refuses to those with which it starts.
const LIMITS: [(&str, [u32; 15]); 2] = [
    (
        "nproc",
        [2, 4, 6, 8, 10, 12, 14, 16, 17, 18, 20, 24, 32, 60, 200],
    ),
    (
        "nofile",
        [20, 24, 26, 27, 28, 29, 30, 32, 34, 38, 42, 46, 50, 60, 200],
    ),
];

const FILES: &[(&str, &str)] = &[
    (
        "forge.yaml",
        "sandbox: { root: ., readonly: false, protect: [Makefile] }\n",
    ),
    (".env", "SECRET\n"),
    (".vscode/settings.json", "{}\n"),
    ("Makefile", "all:\n"),
    ("workers/main.worker", "---\nname: main\n---\nWork.\n"),
];

#[test]
fn a_shortage_weakens_nothing() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start a user without other processes");
        return;
    }
    let world = World::new(FILES);
    world.shell("git init -q");
    copy_forge(&world.outside().join("forge"), b"");
    let top = world.outside().to_owned();
    let mut own = std::process::Command::new("chown");
    own.arg("-Rh").arg(format!("{USER}:{USER}")).arg(&top);
    assert!(own.status().unwrap().success());
    for (limit, counts) in LIMITS {
        let mut started = Vec::new();
        for count in counts {
            // Without the results of an earlier start, each mechanism is tried again.
            let _ = std::fs::remove_dir_all(world.outside().join("home/.cache"));
            let ran = run(&world, &format!("--{limit}={count}"));
            let about = format!("{limit}={count}: {}{}", ran.stdout, ran.stderr);
            let has_started = ran.stdout.contains("started");
            assert!(!ran.stdout.contains("SECRET"), "{about}");
            assert_ne!(ran.code, 0, "{about}");
            let at = |name: &str| world.project().join(name);
            assert!(!at(".git/hooks/post-checkout").exists(), "{about}");
            for (name, text) in FILES {
                let now = std::fs::read_to_string(at(name)).ok();
                assert_eq!(now.as_deref(), Some(*text), "{name}: {about}");
            }
            started.push(has_started);
        }
        let both = started.contains(&true) && started.contains(&false);
        assert!(both, "{limit}: {started:?}");
    }
}

/// The project and forge's state on one disk, which the command fills.
#[test]
fn a_command_that_fills_the_disk_is_recorded() {
    const DISK: &str = "mkdir disk; mount -t tmpfs -o size=24m tmpfs disk; cd disk; \
        export FORGE_STATE_DIR=$PWD/.state; mkdir project; cd project; code=0; \
        \"$0\" exec --mechanism \"$1\" -- sh -c \"$2\" || code=$?; rm fill rest; \
        \"$0\" log verify; \"$0\" log show last --json; exit $code";
    // The log's last block would have room for a short receipt.
    const FILL: &str = "for i in $(seq 99); do echo x > .env$i; done; dd if=/dev/zero of=fill bs=1M 2>/dev/null; \
        dd if=/dev/zero of=rest bs=1 count=100000 2>/dev/null; exit 3";
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root mounts a small disk");
        return;
    }
    for mechanism in mechanisms(&World::new(&[])) {
        let world = World::new(&[]);
        let forge = forge_program();
        let own = ["-m", "--propagation", "private", "/bin/sh", "-ec", DISK];
        let words = [&own[..], &[forge.to_str().unwrap(), mechanism, FILL]].concat();
        let ran = ran(world.command("unshare".as_ref(), &words).output().unwrap());
        assert!(
            ran.code(3).stdout.contains("1 whole"),
            "{mechanism}: {ran:?}"
        );
        assert!(ran.stdout.contains(".env99"), "{mechanism}: {ran:?}");
    }
}

fn run(world: &World, limit: &str) -> Ran {
    let forge = world.outside().join("forge");
    let user = [
        "--reuid",
        USER,
        "--regid",
        USER,
        "--clear-groups",
        "prlimit",
        limit,
    ];
    let command = [forge.to_str().unwrap(), "exec", "--", "sh", "-c", SCRIPT];
    let words = [&user[..], &command].concat();
    ran(world
        .command(Path::new("setpriv"), &words)
        .output()
        .unwrap())
}
