//! Older and stricter machines, each through the real program: what it finds, what it says to a
//! person, which mechanism a command gets, and that nothing is ever weaker in silence.
//!
//! A machine is a line of data: what the kernel hides (the `hide` example of os-sandbox), and a
//! script that changes mounts in a namespace of the test's own. The rest is one check, whose
//! findings are compared with a text. What differs between machines (versions, paths, `sudo`) is
//! left out of it. Where the kernel does not let us play, or has no bubblewrap and Landlock to hide,
//! a test says so and is skipped.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::OnceLock;

use super::hide_program;
use crate::support::{Ran, World, forge_program, ran};

const FILE: &str = "golem-forge.config.yaml";
const PROJECT: &str = "\
sandbox:
  mode: direct
  zones:
    data: { path: ./data, mode: ro }
    workspace: { path: ./workspace }
";
const SECRET: &str = "what nobody may read";

/// A machine that is in no container, whatever the tests run in, and whose distribution is Debian.
/// Descriptor 9 is one that a careless caller has left open.
const PLAIN: &str = "\
set -e
for mark in /.dockerenv /run/.containerenv; do
    if [ -f $mark ]; then mount --bind /dev/null $mark; fi
done
if [ -d /run/secrets/kubernetes.io ]; then mount -t tmpfs none /run/secrets/kubernetes.io; fi
if [ -f /etc/os-release ]; then mount --bind \"$PLAY/os-release\" /etc/os-release; fi
for profile in /etc/apparmor.d /usr/share/apparmor/extra-profiles; do
    profile=$profile/bwrap-userns-restrict
    if [ -f $profile ]; then mount --bind /dev/null $profile; fi
done
exec 9<\"$PLAY/secret\"
";

/// Every place where one would be trusted.
const NO_BWRAP: &str = "\
for bwrap in /usr/bin/bwrap /bin/bwrap /usr/local/bin/bwrap; do
    if [ -f $bwrap ]; then mount --bind /dev/null $bwrap; fi
done
";

const ANOTHER_BWRAP: &str = "mount --bind \"$PLAY/bwrap\" /usr/bin/bwrap\n";

/// 0.3.1 has none of the options of 0.5.
const OLD_BWRAP: &str = "\
#!/bin/sh
if [ \"$1\" = --version ]; then echo bubblewrap 0.3.1; exit; fi
echo 'bwrap: Unknown option --clearenv' >&2
exit 1
";

const BROKEN_BWRAP: &str = "#!/bin/sh\necho broken >&2\nexit 3\n";

/// What the real one says where AppArmor gives it a namespace without rights.
const APPARMOR_BWRAP: &str = "\
#!/bin/sh
if [ \"$1\" = --version ]; then echo bubblewrap 0.9.0; exit; fi
echo 'bwrap: setting up uid map: Permission denied' >&2
exit 1
";

/// As container engines do it: parts of it are covered, so the kernel gives no new one.
const MASKED_PROC: &str = "\
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
";

const NO_CGROUPS: &str = "\
grep -w -e cgroup -e cgroup2 /proc/self/mounts | cut -d ' ' -f 2 | while read -r group; do
    mount -o remount,bind,ro \"$group\"
done
";

/// A setting of a pid namespace (Linux 6.3).
const NO_EXEC: &str = "\
set -- unshare --pid --fork --mount-proc sh -c \\
    'echo 2 >/proc/sys/vm/memfd_noexec && exec \"$@\"' sh \"$@\"
";

/// A machine.
#[derive(Clone, Copy, Default)]
struct Host {
    /// What the kernel does not have or refuses.
    hides: &'static [&'static str],
    mounts: &'static str,
    /// What lies at `/usr/bin/bwrap`, and its mode.
    bwrap: Option<(&'static str, u32)>,
}

/// How a private mount namespace is made here, or why the tests are skipped.
fn playing() -> Result<&'static [&'static str], String> {
    static HOW: OnceLock<Result<&'static [&'static str], String>> = OnceLock::new();
    HOW.get_or_init(|| {
        let ways: [&[&str]; 2] = [
            &["--mount", "--propagation", "private"],
            &[
                "--user",
                "--map-root-user",
                "--mount",
                "--propagation",
                "private",
            ],
        ];
        let works = |way: &&&[&str]| {
            Command::new("unshare")
                .args(**way)
                .args(["sh", "-c", "mount --bind /dev/null /etc/passwd"])
                .output()
                .is_ok_and(|out| out.status.success())
        };
        let way = ways
            .iter()
            .find(works)
            .ok_or("this user may not make mount namespaces here")?;
        let world = World::new(&[]);
        let json = start(&world, way, Host::default(), &["--json", "doctor"]);
        let found: serde_json::Value = serde_json::from_str(&json.stdout)
            .map_err(|error| format!("{error}: {}{}", json.stdout, json.stderr))?;
        let found = &found["sandbox"];
        let all = found["pins_by_descriptor"] == true
            && found["landlock_abi"].as_u64() >= Some(6)
            && missing(found).iter().all(|what| what.ends_with("cgroup"));
        if !all {
            return Err(format!("there is too little to hide: {found}"));
        }
        Ok(*way)
    })
    .clone()
}

fn missing(found: &serde_json::Value) -> Vec<&str> {
    let all = found["missing"].as_array().unwrap();
    all.iter()
        .map(|one| one["what"].as_str().unwrap())
        .collect()
}

fn start(world: &World, way: &[&str], host: Host, args: &[&str]) -> Ran {
    let play = world.outside().join("play");
    std::fs::create_dir_all(&play).unwrap();
    std::fs::write(play.join("os-release"), "ID=debian\n").unwrap();
    std::fs::write(play.join("secret"), SECRET).unwrap();
    let mut script = PLAIN.to_owned();
    if let Some((text, mode)) = host.bwrap {
        let file = play.join("bwrap");
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        script.push_str(ANOTHER_BWRAP);
    }
    script.push_str(host.mounts);
    script.push_str("exec \"$@\"\n");
    let mut all: Vec<&str> = way.to_vec();
    let hide = hide_program();
    all.extend(["--", "sh", "-c", &script, "sh", hide.to_str().unwrap()]);
    all.extend(host.hides);
    all.extend(["--", forge_program().to_str().unwrap()]);
    all.extend(args);
    let mut command = world.command("unshare".as_ref(), &all);
    ran(command.env("PLAY", play).output().unwrap())
}

/// Not by a macro, whose words cargo keeps to itself if a test passes.
fn skipped(why: &str) {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(std::io::stderr(), "{name}: skipped: {why}");
}

/// What the program makes of a machine; `None` if it cannot be played here.
fn told(host: Host) -> Option<String> {
    let way = match playing() {
        Ok(way) => way,
        Err(why) => {
            skipped(&why);
            return None;
        }
    };
    let world = World::new(&[(FILE, PROJECT), ("data/a.md", "text"), ("workspace/x", "")]);
    let secret = world.outside().join("secret");
    std::fs::write(&secret, SECRET).unwrap();
    std::os::unix::fs::symlink(&secret, world.project().join("data/link")).unwrap();
    let forge = |args: &[&str]| start(&world, way, host, args);
    let mut out = String::new();

    let doctor = forge(&["-v", "doctor"]);
    // They are not for everybody, and nobody needs them.
    let groups = host.mounts == NO_CGROUPS;
    let others = |name: &str| {
        let is_group = name.starts_with("memory") || name.starts_with("process");
        !["named hosts", "review"].contains(&name) && (groups || !is_group)
    };
    out.push_str(&rows(&doctor.stdout, others));
    let json: serde_json::Value =
        serde_json::from_str(&forge(&["--json", "doctor"]).stdout).unwrap();
    let json = &json["sandbox"];
    let backend = json["backend"].as_str();
    assert_eq!(json["enforceable"], doctor.code == 0, "{json}");
    assert_eq!(json["enforceable"], backend.is_some(), "{json}");
    named_hosts(&forge, &doctor.stdout, json);
    let reviewed = forge(&["exec", "--review", "--", "true"]);
    assert_eq!(
        json["review"] == true,
        reviewed.code == 0,
        "{json}\n{}",
        reviewed.stderr
    );

    let exec = forge(&["exec", "--receipt", "receipt.json", "--", "true"]);
    match backend {
        Some(backend) => {
            exec.code(0);
            // One line where less is kept than could be, and else not a word.
            let weaker = backend == "landlock";
            let told = exec
                .stderr
                .contains("Landlock alone does not keep: protected names");
            assert_eq!(
                (told, exec.stderr.lines().count()),
                (weaker, usize::from(weaker))
            );
            let quiet = forge(&["-q", "exec", "--", "true"]);
            assert_eq!(quiet.stderr, "");
            let receipt = std::fs::read_to_string(world.project().join("receipt.json")).unwrap();
            let receipt: serde_json::Value = serde_json::from_str(&receipt).unwrap();
            assert_eq!(receipt["backend"], backend);
        }
        None => {
            exec.code(125);
            let _ = write!(out, "\n{}", exec.stderr);
        }
    }
    refusals(&world, &forge, backend);
    for (name, works) in [
        ("namespaces", json["namespaces"] == true),
        ("bubblewrap", !json["bubblewrap"].is_null()),
        ("landlock", json["landlock_abi"] != 0),
    ] {
        let ran = forge(&["exec", "--mechanism", name, "--", "true"]);
        if !works {
            assert_eq!(ran.code, 125, "{}\n{json}", ran.stderr);
            ran.says(&[&format!("{name} does not work on this host"), "hint: "]);
        }
        let _ = writeln!(out, "exec --mechanism {name}: {}", ran.code);
    }
    files(&forge);
    let required = PROJECT.replace("sandbox:\n", "sandbox:\n  require_os_sandbox: true\n");
    world.write(FILE, &required);
    // The same commands under the same mechanism, and without one nothing at all.
    forge(&["exec", "--", "true"]).code(if backend.is_some() { 0 } else { 125 });
    forge(&["exec", "--no-os-sandbox", "--", "true"]).code(125);
    Some(comparable(&out))
}

/// A list of hosts holds under bubblewrap, and for programs that use the proxy under Landlock alone;
/// elsewhere no command starts. Every text says so.
fn named_hosts(forge: &dyn Fn(&[&str]) -> Ran, doctor: &str, json: &serde_json::Value) {
    let missing_sockets = missing(json).iter().any(|what| what.contains("sockets"));
    let (holds, note) = match json["backend"].as_str() {
        Some("namespaces" | "bubblewrap") => (true, "commands reach the named hosts only"),
        Some("landlock") if !missing_sockets => (
            true,
            "without namespaces only programs that use the proxy variables reach",
        ),
        _ => (
            false,
            "every command is refused: nothing here holds a command",
        ),
    };
    assert_eq!(json["named_hosts"], holds, "{json}");
    let row = doctor.lines().find(|line| line.contains("named hosts"));
    let word = if holds { "yes" } else { "no" };
    assert_eq!(
        row.and_then(|row| row.split_whitespace().next()),
        Some(word),
        "{doctor}"
    );
    let hosts = ["-c", "network={allow: [example.com]}"];
    let with = |args: &[&str]| forge(&[&hosts, args].concat());
    let exec = with(&["exec", "--", "true"]);
    assert_eq!(exec.code, if holds { 0 } else { 125 }, "{}", exec.stderr);
    for args in [
        &["explain", "host:example.com"][..],
        &["explain", "--", "true"],
        &["check"],
    ] {
        let ran = with(args);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        let of_host = args[1..] == ["host:example.com"];
        let is_told =
            of_host || !matches!(json["backend"].as_str(), Some("namespaces" | "bubblewrap"));
        assert_eq!(said.contains(note), is_told, "{args:?}: {said}");
    }
}

/// What no command may do, whatever confines it. Where nothing does, it never starts.
fn refusals(world: &World, forge: &dyn Fn(&[&str]) -> Ran, backend: Option<&str>) {
    let secret = world.outside().join("secret");
    let made = world.outside().join("made");
    let inherited = "cat <&9";
    let read = format!("cat {}", secret.display());
    let write = format!("echo made > {}", made.display());
    for script in [inherited, &read, &write] {
        let ran = forge(&["exec", "--", "sh", "-c", script]);
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!all.contains(SECRET), "{script}: {all}");
        assert!(ran.code != 0, "{script}: {all}");
        assert_eq!(ran.code == 125, backend.is_none(), "{script}: {all}");
    }
    assert!(!made.exists());
    if backend.is_some() {
        // It is the script that was refused, and not every script.
        let ran = forge(&[
            "exec",
            "--",
            "sh",
            "-c",
            "cat data/a.md && echo done > workspace/x",
        ]);
        ran.code(0);
        assert_eq!(ran.stdout, "text");
    }
}

/// Files need none of it, and are kept all the same.
fn files(forge: &dyn Fn(&[&str]) -> Ran) {
    let ran = forge(&["tools", "call", "read_file", r#"{"path":"/data/a.md"}"#]);
    ran.code(0);
    assert_eq!(ran.stdout, "text\n");
    for path in ["/data/../../secret", "/data/link", "/etc/passwd"] {
        let arguments = serde_json::json!({ "path": path }).to_string();
        let ran = forge(&["tools", "call", "read_file", &arguments]);
        assert_eq!(ran.code, 1, "{path}: {}{}", ran.stdout, ran.stderr);
        assert!(!ran.stdout.contains(SECRET) && !ran.stdout.contains("root:"));
    }
    let new = r#"{"path":"/data/new","content":"x"}"#;
    assert_eq!(forge(&["tools", "call", "write_file", new]).code, 1);
}

/// The verdict, what the plan does not fully keep, and the mechanisms: those that work without
/// their details.
fn rows(doctor: &str, wanted: impl Fn(&str) -> bool) -> String {
    let mut out = String::new();
    // Of rows that are left out, all is left out.
    let mut shows = true;
    for line in doctor.lines() {
        let cells: Vec<&str> = line
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .collect();
        let row = match (line.starts_with("  "), cells.as_slice()) {
            (false, _) if line.contains("promises are enforced") => String::new(),
            (false, _) if line.starts_with("What this machine") => continue,
            (false, _) => line.to_owned(),
            (true, [word @ ("yes" | "no"), name, details @ ..]) => {
                shows = wanted(name) && *word == "no";
                let name = match *name {
                    "memory cgroup" => "memory",
                    "process cgroup" => "processes",
                    name => name,
                };
                match (*word, shows) {
                    ("no", true) => format!("{name:<11} no   {}", details.join("  ")),
                    ("yes", _) if wanted(name) => format!("{name:<11} yes"),
                    _ => continue,
                }
            }
            (true, ["enforced", ..]) => {
                shows = false;
                continue;
            }
            (
                true,
                [
                    state @ ("absent" | "degraded" | "detected"),
                    promise,
                    rest @ ..,
                ],
            ) => {
                shows = wanted(promise);
                if !shows {
                    continue;
                }
                let rest = match rest {
                    [by, reason] => format!(" {by} ({reason})"),
                    [reason] => format!(" ({reason})"),
                    _ => String::new(),
                };
                format!("{promise:<16} {state:<9}{rest}")
            }
            (true, _) if shows => format!("{:<17}{}", "", line.trim_start()),
            (true, _) => continue,
        };
        let _ = writeln!(out, "{row}");
    }
    while out.contains("\n\n\n") {
        out = out.replace("\n\n\n", "\n\n");
    }
    out.trim_end().to_owned() + "\n"
}

/// Without what differs from machine to machine.
fn comparable(text: &str) -> String {
    let mut out = String::new();
    for line in text.replace("sudo ", "").lines() {
        let line = match line.split_once(", likely because") {
            Some((before, after)) => match after.split_once("; ") {
                Some((_, how)) => format!("{before}; {how}"),
                None => before.to_owned(),
            },
            None => line.to_owned(),
        };
        let line = match line.split_once("none can be made in ") {
            Some((before, after)) => {
                let why = after.split_once(": ").map_or("", |(_, why)| why);
                format!("{before}none can be made in […]: {why}")
            }
            None => line,
        };
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[test]
fn as_it_is() {
    let host = Host::default();
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands are confined by namespaces.

    hidden names     detected  namespaces (those that are there at the start cannot be read; what appears while it runs is the command's own, and what somebody else replaces meanwhile is told)

    namespaces  yes
    bubblewrap  yes
    pins        yes
    landlock    yes
    seccomp     yes
    sockets     yes
    launcher    yes
    exec --mechanism namespaces: 0
    exec --mechanism bubblewrap: 0
    exec --mechanism landlock: 0
    "#);
}

/// Before Linux 5.6, and under container filters that do not know it.
#[test]
fn without_openat2() {
    let host = Host {
        hides: &["openat2"],
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands are confined by bubblewrap.

    hidden names     detected  bubblewrap (those that are there at the start cannot be read; what appears while it runs is the command's own, and what somebody else replaces meanwhile is told)

    namespaces  no   the command's root directory could not be built: mount /usr: Function not implemented (os error 38)
                     Linux 5.12 or later, and no outer filter that hides openat2
    bubblewrap  yes
    pins        no   the mounts inside mounts could not be made: Function not implemented (os error 38)
                     Linux 5.12 or later, and no outer system call filter that does not know openat2, open_tree, move_mount and mount_setattr
    landlock    yes
    seccomp     yes
    sockets     no   a command that tried could not connect to a named socket
                     Linux 5.9 or later, no outer filter that asks as well or hides openat2, and a kernel.yama.ptrace_scope of at most 1 (with bubblewrap 2)
    launcher    yes
    exec --mechanism namespaces: 125
    exec --mechanism bubblewrap: 0
    exec --mechanism landlock: 0
    "#);
}

/// Before Linux 5.13.
#[test]
fn without_landlock() {
    let host = Host {
        hides: &["landlock"],
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands are confined by namespaces.

    hidden names     detected  namespaces (those that are there at the start cannot be read; what appears while it runs is the command's own, and what somebody else replaces meanwhile is told)

    namespaces  yes
    bubblewrap  yes
    pins        yes
    landlock    no   the kernel does not offer Landlock
                     Linux 5.13 or later, built with CONFIG_SECURITY_LANDLOCK, and no outer filter that does not know its system calls
    seccomp     yes
    sockets     yes
    launcher    yes
    exec --mechanism namespaces: 0
    exec --mechanism bubblewrap: 0
    exec --mechanism landlock: 125
    "#);
}

#[test]
fn with_landlock_switched_off() {
    let host = Host {
        hides: &["landlock-off"],
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands are confined by namespaces.

    hidden names     detected  namespaces (those that are there at the start cannot be read; what appears while it runs is the command's own, and what somebody else replaces meanwhile is told)

    namespaces  yes
    bubblewrap  yes
    pins        yes
    landlock    no   the kernel has Landlock and does not use it
                     add landlock to the list of /sys/kernel/security/lsm by lsm= on the kernel's command line, and restart the machine
    seccomp     yes
    sockets     yes
    launcher    yes
    exec --mechanism namespaces: 0
    exec --mechanism bubblewrap: 0
    exec --mechanism landlock: 125
    "#);
}

#[test]
fn without_user_namespaces() {
    let host = Host {
        hides: &["userns"],
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands are confined by landlock.

    protected names  absent    (needs a mount layer, such as bubblewrap)
    hidden names     absent    (needs a mount layer, such as bubblewrap)
    metadata         absent    (needs a mount layer, such as bubblewrap)

    namespaces  no   the namespaces could not be made: Operation not permitted (os error 1)
                     whatever started this program forbids user namespaces: a system call filter, or RestrictNamespaces= of a systemd service
    bubblewrap  no   /usr/bin/bwrap does not work: bwrap: No permissions to create new namespace
                     whatever started this program forbids user namespaces: a system call filter, or RestrictNamespaces= of a systemd service
    landlock    yes
    seccomp     yes
    sockets     yes
    launcher    yes
    exec --mechanism namespaces: 125
    exec --mechanism bubblewrap: 125
    exec --mechanism landlock: 0
    "#);
}

/// Ubuntu 24.04 with AppArmor's profile for bwrap.
#[test]
fn without_mounts_by_descriptor() {
    let host = Host {
        hides: &["mounts"],
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands are confined by bubblewrap.

    hidden names     detected  bubblewrap (those that are there at the start cannot be read; what appears while it runs is the command's own, and what somebody else replaces meanwhile is told)

    namespaces  no   the namespaces could not be made: Operation not permitted (os error 1)
                     whatever started this program forbids user namespaces: a system call filter, or RestrictNamespaces= of a systemd service
    bubblewrap  yes
    pins        no   the mounts inside mounts could not be made: Operation not permitted (os error 1)
                     a user namespace within another with its capabilities: user.max_user_namespaces and AppArmor's profile for what bwrap starts decide
    landlock    yes
    seccomp     yes
    sockets     yes
    launcher    yes
    exec --mechanism namespaces: 125
    exec --mechanism bubblewrap: 0
    exec --mechanism landlock: 0
    "#);
}

/// Before Linux 5.9.
#[test]
fn without_close_range() {
    let host = Host {
        hides: &["close_range"],
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands are confined by namespaces.

    hidden names     detected  namespaces (those that are there at the start cannot be read; what appears while it runs is the command's own, and what somebody else replaces meanwhile is told)

    namespaces  yes
    bubblewrap  yes
    pins        yes
    landlock    yes
    seccomp     yes
    sockets     yes
    launcher    yes
    exec --mechanism namespaces: 0
    exec --mechanism bubblewrap: 0
    exec --mechanism landlock: 0
    "#);
}

/// Before Linux 5.1.
#[test]
fn without_process_descriptors() {
    let host = Host {
        hides: &["pidfd"],
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands are confined by namespaces.

    hidden names     detected  namespaces (those that are there at the start cannot be read; what appears while it runs is the command's own, and what somebody else replaces meanwhile is told)

    namespaces  yes
    bubblewrap  yes
    pins        yes
    landlock    yes
    seccomp     yes
    sockets     no   a command that tried could not connect to a named socket
                     Linux 5.9 or later, no outer filter that asks as well or hides openat2, and a kernel.yama.ptrace_scope of at most 1 (with bubblewrap 2)
    launcher    yes
    exec --mechanism namespaces: 0
    exec --mechanism bubblewrap: 0
    exec --mechanism landlock: 0
    "#);
}

#[test]
fn without_memory_files() {
    let host = Host {
        hides: &["memfd"],
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands cannot be confined on this machine: no mechanism works on this host, so it cannot keep read outside and 12 more promises

    launcher: could not put the launcher into memory: Function not implemented (os error 38); an outer system call filter has to let memfd_create pass

    namespaces  no   cannot be tried without the launcher
    bubblewrap  no   cannot be tried without the launcher
    landlock    no   cannot be tried without the launcher
    seccomp     no   cannot be tried without the launcher
    sockets     no   cannot be tried without the mechanism
    launcher    no   could not put the launcher into memory: Function not implemented (os error 38)
                     an outer system call filter has to let memfd_create pass

    error: OS sandbox required but unavailable: no mechanism works on this host, so it cannot keep read outside and 12 more promises

    hint: launcher: could not put the launcher into memory: Function not implemented (os error 38); an outer system call filter has to let memfd_create pass
    or run it without any confinement: forge exec --no-os-sandbox -- …
    exec --mechanism namespaces: 125
    exec --mechanism bubblewrap: 125
    exec --mechanism landlock: 125
    "#);
}

#[test]
fn without_programs_in_memory() {
    if !std::path::Path::new("/proc/sys/vm/memfd_noexec").exists() {
        skipped("this kernel has no such setting");
        return;
    }
    let host = Host {
        mounts: NO_EXEC,
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands cannot be confined on this machine: no mechanism works on this host, so it cannot keep read outside and 12 more promises

    launcher: could not start the launcher: Permission denied (os error 13); memory that is executed must be allowed: sysctl -w vm.memfd_noexec=1

    namespaces  no   cannot be tried without the launcher
    bubblewrap  no   cannot be tried without the launcher
    landlock    no   cannot be tried without the launcher
    seccomp     no   cannot be tried without the launcher
    sockets     no   cannot be tried without the mechanism
    launcher    no   could not start the launcher: Permission denied (os error 13)
                     memory that is executed must be allowed: sysctl -w vm.memfd_noexec=1

    error: OS sandbox required but unavailable: no mechanism works on this host, so it cannot keep read outside and 12 more promises

    hint: launcher: could not start the launcher: Permission denied (os error 13); memory that is executed must be allowed: sysctl -w vm.memfd_noexec=1
    or run it without any confinement: forge exec --no-os-sandbox -- …
    exec --mechanism namespaces: 125
    exec --mechanism bubblewrap: 125
    exec --mechanism landlock: 125
    "#);
}

/// A filter around us that lets nobody add another.
#[test]
fn without_filters() {
    let host = Host {
        hides: &["filters"],
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands cannot be confined on this machine: this host cannot keep: set-id bits, network, unix sockets, terminal input, kernel surface (needs system call filters)

    seccomp: system call filters cannot be installed; a kernel with CONFIG_SECCOMP_FILTER, and no outer filter that forbids seccomp(2)

    namespaces  yes
    bubblewrap  yes
    pins        yes
    landlock    yes
    seccomp     no   system call filters cannot be installed
                     a kernel with CONFIG_SECCOMP_FILTER, and no outer filter that forbids seccomp(2)
    sockets     no   cannot be tried without the mechanism
    launcher    yes

    error: OS sandbox required but unavailable: this host cannot keep: set-id bits, network, unix sockets, terminal input, kernel surface (needs system call filters)

    hint: seccomp: system call filters cannot be installed; a kernel with CONFIG_SECCOMP_FILTER, and no outer filter that forbids seccomp(2)
    or run it without any confinement: forge exec --no-os-sandbox -- …
    exec --mechanism namespaces: 125
    exec --mechanism bubblewrap: 125
    exec --mechanism landlock: 125
    "#);
}

/// Ubuntu 20.04.
#[test]
fn linux_5_4() {
    let host = Host {
        hides: &["landlock", "openat2", "close_range", "tracing"],
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands are confined by bubblewrap.

    hidden names     detected  bubblewrap (those that are there at the start cannot be read; what appears while it runs is the command's own, and what somebody else replaces meanwhile is told)

    namespaces  no   the command's root directory could not be built: mount /usr: Function not implemented (os error 38)
                     Linux 5.12 or later, and no outer filter that hides openat2
    bubblewrap  yes
    pins        no   the mounts inside mounts could not be made: Function not implemented (os error 38)
                     Linux 5.12 or later, and no outer system call filter that does not know openat2, open_tree, move_mount and mount_setattr
    landlock    no   the kernel does not offer Landlock
                     Linux 5.13 or later, built with CONFIG_SECURITY_LANDLOCK, and no outer filter that does not know its system calls
    seccomp     yes
    sockets     no   a command that tried could not connect to a named socket
                     Linux 5.9 or later, no outer filter that asks as well or hides openat2, and a kernel.yama.ptrace_scope of at most 1 (with bubblewrap 2)
    launcher    yes
    exec --mechanism namespaces: 125
    exec --mechanism bubblewrap: 0
    exec --mechanism landlock: 125
    "#);
}

#[test]
fn without_bubblewrap() {
    let host = Host {
        mounts: NO_BWRAP,
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands are confined by namespaces.

    hidden names     detected  namespaces (those that are there at the start cannot be read; what appears while it runs is the command's own, and what somebody else replaces meanwhile is told)

    namespaces  yes
    bubblewrap  no   bwrap is not installed
                     apt-get install bubblewrap
    landlock    yes
    seccomp     yes
    sockets     yes
    launcher    yes
    exec --mechanism namespaces: 0
    exec --mechanism bubblewrap: 125
    exec --mechanism landlock: 0
    "#);
}

#[test]
fn with_bubblewrap_set_user_id() {
    let host = Host {
        bwrap: Some(("", 0o4755)),
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands are confined by namespaces.

    hidden names     detected  namespaces (those that are there at the start cannot be read; what appears while it runs is the command's own, and what somebody else replaces meanwhile is told)

    namespaces  yes
    bubblewrap  no   /usr/bin/bwrap is set-user-id, which is not used (CVE-2026-41163)
                     chmod u-s,g-s /usr/bin/bwrap (user namespaces make the bit unnecessary)
    landlock    yes
    seccomp     yes
    sockets     yes
    launcher    yes
    exec --mechanism namespaces: 0
    exec --mechanism bubblewrap: 125
    exec --mechanism landlock: 0
    "#);
}

#[test]
fn with_bubblewrap_too_old() {
    let host = Host {
        bwrap: Some((OLD_BWRAP, 0o755)),
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands are confined by namespaces.

    hidden names     detected  namespaces (those that are there at the start cannot be read; what appears while it runs is the command's own, and what somebody else replaces meanwhile is told)

    namespaces  yes
    bubblewrap  no   /usr/bin/bwrap (0.3.1) is too old: bwrap: Unknown option --clearenv
                     bubblewrap 0.5 or later is needed: apt-get install bubblewrap
    landlock    yes
    seccomp     yes
    sockets     yes
    launcher    yes
    exec --mechanism namespaces: 0
    exec --mechanism bubblewrap: 125
    exec --mechanism landlock: 0
    "#);
}

#[test]
fn with_bubblewrap_that_fails() {
    let host = Host {
        bwrap: Some((BROKEN_BWRAP, 0o755)),
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands are confined by namespaces.

    hidden names     detected  namespaces (those that are there at the start cannot be read; what appears while it runs is the command's own, and what somebody else replaces meanwhile is told)

    namespaces  yes
    bubblewrap  no   /usr/bin/bwrap does not work: the launcher ended before the command was started: broken
                     to see it fail by hand: /usr/bin/bwrap --unshare-all --ro-bind / / --dev /dev --proc /proc true
    landlock    yes
    seccomp     yes
    sockets     yes
    launcher    yes
    exec --mechanism namespaces: 0
    exec --mechanism bubblewrap: 125
    exec --mechanism landlock: 0
    "#);
}

/// Ubuntu 24.04 as it comes.
#[test]
fn under_apparmor() {
    let host = Host {
        bwrap: Some((APPARMOR_BWRAP, 0o755)),
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands are confined by namespaces.

    hidden names     detected  namespaces (those that are there at the start cannot be read; what appears while it runs is the command's own, and what somebody else replaces meanwhile is told)

    namespaces  yes
    bubblewrap  no   /usr/bin/bwrap does not work: bwrap: setting up uid map: Permission denied
                     AppArmor restricts user namespaces here; its profile for bwrap allows them: apt-get install apparmor-profiles && install -m 644 /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/bwrap-userns-restrict && apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict
    landlock    yes
    seccomp     yes
    sockets     yes
    launcher    yes
    exec --mechanism namespaces: 0
    exec --mechanism bubblewrap: 125
    exec --mechanism landlock: 0
    "#);
}

#[test]
fn with_proc_masked() {
    let host = Host {
        mounts: MASKED_PROC,
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands are confined by landlock.

    protected names  absent    (needs a mount layer, such as bubblewrap)
    hidden names     absent    (needs a mount layer, such as bubblewrap)
    metadata         absent    (needs a mount layer, such as bubblewrap)

    namespaces  no   the command's root directory could not be built: mount a new /proc: Operation not permitted (os error 1)
                     an outer container or service masks parts of /proc, and must show all of it (docker: --security-opt systempaths=unconfined, podman: --security-opt unmask=ALL, systemd: ProtectKernelTunables=no)
    bubblewrap  no   /usr/bin/bwrap does not work: bwrap: Can't mount proc on /newroot/proc: Operation not permitted
                     an outer container or service masks parts of /proc, and must show all of it (docker: --security-opt systempaths=unconfined, podman: --security-opt unmask=ALL, systemd: ProtectKernelTunables=no)
    landlock    yes
    seccomp     yes
    sockets     yes
    launcher    yes
    exec --mechanism namespaces: 125
    exec --mechanism bubblewrap: 125
    exec --mechanism landlock: 0
    "#);
}

#[test]
fn without_control_groups() {
    let missing = World::new(&[]).forge(&["--json", "doctor"]).stdout;
    if missing.contains("memory cgroup") || missing.contains("process cgroup") {
        skipped("this user has no control groups to take away");
        return;
    }
    let host = Host {
        mounts: NO_CGROUPS,
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands are confined by namespaces.

    hidden names     detected  namespaces (those that are there at the start cannot be read; what appears while it runs is the command's own, and what somebody else replaces meanwhile is told)
    memory limit     detected  launcher (what is used is counted ten times a second, and the tree is ended; in between it can use more; a writable control group keeps it exactly)
    process limit    detected  launcher (looked at ten times a second, and ended; a writable control group keeps it exactly)

    namespaces  yes
    bubblewrap  yes
    pins        yes
    landlock    yes
    seccomp     yes
    sockets     yes
    launcher    yes
    memory      no   none can be made in […]: Read-only file system (os error 30)
    processes   no   none can be made in […]: Read-only file system (os error 30)
    exec --mechanism namespaces: 0
    exec --mechanism bubblewrap: 0
    exec --mechanism landlock: 0
    "#);
}

#[test]
fn in_a_container_with_an_old_profile() {
    let host = Host {
        hides: &["landlock", "userns"],
        mounts: MASKED_PROC,
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands cannot be confined on this machine: no mechanism works on this host, so it cannot keep read outside and 11 more promises

    namespaces: the namespaces could not be made: Operation not permitted (os error 1); whatever started this program forbids user namespaces: a system call filter, or RestrictNamespaces= of a systemd service
    bubblewrap: /usr/bin/bwrap does not work: bwrap: No permissions to create new namespace; whatever started this program forbids user namespaces: a system call filter, or RestrictNamespaces= of a systemd service
    landlock: the kernel does not offer Landlock; Linux 5.13 or later, built with CONFIG_SECURITY_LANDLOCK, and no outer filter that does not know its system calls

    namespaces  no   the namespaces could not be made: Operation not permitted (os error 1)
                     whatever started this program forbids user namespaces: a system call filter, or RestrictNamespaces= of a systemd service
    bubblewrap  no   /usr/bin/bwrap does not work: bwrap: No permissions to create new namespace
                     whatever started this program forbids user namespaces: a system call filter, or RestrictNamespaces= of a systemd service
    landlock    no   the kernel does not offer Landlock
                     Linux 5.13 or later, built with CONFIG_SECURITY_LANDLOCK, and no outer filter that does not know its system calls
    seccomp     yes
    sockets     no   cannot be tried without the mechanism
    launcher    yes

    error: OS sandbox required but unavailable: no mechanism works on this host, so it cannot keep read outside and 11 more promises

    hint: namespaces: the namespaces could not be made: Operation not permitted (os error 1); whatever started this program forbids user namespaces: a system call filter, or RestrictNamespaces= of a systemd service
    bubblewrap: /usr/bin/bwrap does not work: bwrap: No permissions to create new namespace; whatever started this program forbids user namespaces: a system call filter, or RestrictNamespaces= of a systemd service
    landlock: the kernel does not offer Landlock; Linux 5.13 or later, built with CONFIG_SECURITY_LANDLOCK, and no outer filter that does not know its system calls
    or run it without any confinement: forge exec --no-os-sandbox -- …
    exec --mechanism namespaces: 125
    exec --mechanism bubblewrap: 125
    exec --mechanism landlock: 125
    "#);
}

#[test]
fn with_nothing() {
    let host = Host {
        hides: &[
            "landlock",
            "userns",
            "openat2",
            "close_range",
            "pidfd",
            "memfd",
            "filters",
        ],
        mounts: NO_BWRAP,
        ..Host::default()
    };
    let Some(told) = told(host) else { return };
    insta::assert_snapshot!(told, @r#"
    Commands cannot be confined on this machine: no mechanism works on this host, so it cannot keep read outside and 12 more promises

    launcher: could not put the launcher into memory: Function not implemented (os error 38); an outer system call filter has to let memfd_create pass

    namespaces  no   cannot be tried without the launcher
    bubblewrap  no   cannot be tried without the launcher
    landlock    no   cannot be tried without the launcher
    seccomp     no   cannot be tried without the launcher
    sockets     no   cannot be tried without the mechanism
    launcher    no   could not put the launcher into memory: Function not implemented (os error 38)
                     an outer system call filter has to let memfd_create pass

    error: OS sandbox required but unavailable: no mechanism works on this host, so it cannot keep read outside and 12 more promises

    hint: launcher: could not put the launcher into memory: Function not implemented (os error 38); an outer system call filter has to let memfd_create pass
    or run it without any confinement: forge exec --no-os-sandbox -- …
    exec --mechanism namespaces: 125
    exec --mechanism bubblewrap: 125
    exec --mechanism landlock: 125
    "#);
}

/// The report of doctor at each version of Landlock, beside namespaces and alone.
const EVERY_LANDLOCK: &str = "\
landlock=1, Commands are confined by namespaces.
landlock=1 userns, Commands cannot be confined on this machine: this host cannot keep: write outside (needs Landlock ABI 3, Linux 6.2; this kernel has 1); signals, survivors (needs Landlock ABI 6, Linux 6.12; this kernel has 1)
landlock=2, Commands are confined by namespaces.
landlock=2 userns, Commands cannot be confined on this machine: this host cannot keep: write outside (needs Landlock ABI 3, Linux 6.2; this kernel has 2); signals, survivors (needs Landlock ABI 6, Linux 6.12; this kernel has 2)
landlock=3, Commands are confined by namespaces.
landlock=3 userns, Commands cannot be confined on this machine: this host cannot keep: signals, survivors (needs Landlock ABI 6, Linux 6.12; this kernel has 3)
landlock=4, Commands are confined by namespaces.
landlock=4 userns, Commands cannot be confined on this machine: this host cannot keep: signals, survivors (needs Landlock ABI 6, Linux 6.12; this kernel has 4)
landlock=5, Commands are confined by namespaces.
landlock=5 userns, Commands cannot be confined on this machine: this host cannot keep: signals, survivors (needs Landlock ABI 6, Linux 6.12; this kernel has 5)
landlock=6, Commands are confined by namespaces.
landlock=6 userns, Commands are confined by landlock.
";

/// Landlock as Linux 5.13, 5.19, 6.2, 6.7, 6.10 and 6.12 had it. Beside bubblewrap each is a second
/// layer; alone only the last one keeps everything, and the others are no silent substitute.
#[test]
fn landlock_by_version() {
    if !cfg!(target_arch = "x86_64") {
        skipped("only the registers of x86_64 are known");
        return;
    }
    let versions: Vec<(&[&str], &[&str])> = vec![
        (&["landlock=1"], &["landlock=1", "userns"]),
        (&["landlock=2"], &["landlock=2", "userns"]),
        (&["landlock=3"], &["landlock=3", "userns"]),
        (&["landlock=4"], &["landlock=4", "userns"]),
        (&["landlock=5"], &["landlock=5", "userns"]),
        (&["landlock=6"], &["landlock=6", "userns"]),
    ];
    // One of those with the same answer.
    let versions = test_sample::cases("doctor: versions of Landlock", versions, |at, _| {
        [0, 2, 5].contains(&at)
    });
    let count = 2 * versions.len();
    let mut all = BTreeSet::new();
    for (beside, alone) in versions {
        for hides in [beside, alone] {
            let Some(told) = told(Host {
                hides,
                ..Host::default()
            }) else {
                return;
            };
            let verdict = told
                .lines()
                .find(|line| line.starts_with("Commands "))
                .unwrap();
            all.insert(format!("{}, {verdict}", hides.join(" ")));
            assert_eq!(
                told.contains("\nerror: "),
                hides == alone && hides[0] != "landlock=6",
                "{told}"
            );
        }
    }
    let expected: BTreeSet<String> = EVERY_LANDLOCK.lines().map(str::to_owned).collect();
    let wrong: Vec<&String> = all.difference(&expected).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(all.len(), count, "{all:#?}");
}
