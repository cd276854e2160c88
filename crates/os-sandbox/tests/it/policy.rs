//! Policies: what they mean, what they refuse, and their name.

use os_sandbox::{
    Access, Environment, ErrorKind, Git, Limits, NamedHosts, Network, Policy, Survivors, System,
    UnixSockets,
};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn project() -> Policy {
    Policy::builder()
        .mount("/p", "/", Access::ALL)
        .mount("/p/vendor", "/vendor", Access::READ | Access::EXECUTE)
        .mount("/p/vendor/out", "/vendor/out", Access::READ | Access::WRITE)
        .mount("/p/private", "/private", Access::NONE)
        .mount("/d", "/data", Access::READ)
        .protect(".git/hooks")
        .hide(".env*")
        .build()
        .expect("a policy")
}

#[test]
fn the_longest_mount_decides() {
    let policy = project();
    for (path, want) in [
        ("/p", "read+write+execute"),
        ("/p/src/a.rs", "read+write+execute"),
        ("/p/vendor", "read+execute"),
        ("/p/vendor/lib.rs", "read+execute"),
        ("/p/vendorx", "read+write+execute"),
        ("/p/vendor/out/x", "read+write"),
        ("/p/private/key", "nothing"),
        ("/p/.git/HEAD", "read+write+execute"),
        ("/p/.git/hooks/pre-commit", "read+execute"),
        ("/p/sub/.git/hooks", "read+execute"),
        ("/p/.env.local", "nothing"),
        ("/d/a", "read"),
        ("/d/.env", "nothing"),
        ("/dd", "nothing"),
        ("/", "nothing"),
        ("relative", "nothing"),
        ("/p/../d/a", "nothing"),
        ("/usr/bin/env", "read+execute"),
        ("/usr/../etc/shadow", "nothing"),
        ("/etc/hosts", "read"),
        ("/etc/shadow", "nothing"),
        ("/etc/ssl/private/key", "nothing"),
        ("/root/.ssh/id", "nothing"),
        ("/run/docker.sock", "nothing"),
        ("/proc/self/status", "read"),
        ("/proc/sys/kernel/core_pattern", "read"),
        ("/sys/class", "nothing"),
        ("/dev/null", "read+write"),
        ("/dev/sda", "nothing"),
    ] {
        assert_eq!(access(&policy, path).to_string(), want, "{path}");
    }
}

#[test]
fn system_profiles() {
    for (system, path, want) in [
        (System::None, "/usr/bin/env", "nothing"),
        (System::None, "/dev/null", "read+write"),
        (System::Minimal, "/etc/fstab", "nothing"),
        (System::BroadRead, "/etc/fstab", "read"),
        (System::BroadRead, "/opt/tool", "read"),
        (System::BroadRead, "/root", "nothing"),
        (System::BroadRead, "/home/me", "nothing"),
    ] {
        let policy = Policy::builder().system(system).build().unwrap();
        assert_eq!(access(&policy, path).to_string(), want, "{system:?} {path}");
    }
}

#[test]
fn what_makes_no_sense_is_told() {
    let refused = |error: os_sandbox::Error| {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        // As `unwrap()` and a `main` that returns it print it.
        assert_eq!(format!("{error:?}"), error.to_string());
        format!("{error}\n{}", error.hint().unwrap_or_default())
    };
    let error = Policy::builder()
        .mount("/a", "/usr", Access::READ)
        .build()
        .unwrap_err();
    insta::assert_snapshot!(refused(error), @r"
    /usr is a reserved name
    the system lives at /bin /boot /dev /etc /home /lib /lib32 /lib64 /proc /root /run /sbin /sys /tmp /usr /var /work /libx32; choose another name
    ");
    let error = Policy::builder()
        .mount("/proc/1", "/data", Access::READ)
        .build()
        .unwrap_err();
    insta::assert_snapshot!(refused(error), @"/proc/1 belongs to the kernel and cannot be a mount");
    let error = Policy::builder()
        .mount("/", "/data", Access::READ)
        .build()
        .unwrap_err();
    insta::assert_snapshot!(refused(error), @r"
    the whole file system cannot be a mount
    name the directories, or use the broad-read system profile
    ");
    let error = Policy::builder()
        .mount("/p", "/", Access::ALL)
        .mount("/a", "/data/x", Access::READ)
        .build()
        .unwrap_err();
    insta::assert_snapshot!(refused(error), @r"
    /data/x is not a part of another mount
    beside a root mount a name has one component, such as /data; deeper ones are parts of a mount
    ");
    let error = Policy::builder()
        .mount("/p/data/x", "/work/data/x", Access::ALL)
        .mount("/a", "/data", Access::READ)
        .build()
        .unwrap_err();
    insta::assert_snapshot!(refused(error), @r"
    /data and /work/data/x meet in the working directory
    a mount in another one must be a part of it on the host too
    ");
    let hook = Environment::clean().pass("LD_PRELOAD");
    let error = Policy::builder().env(hook).build().unwrap_err();
    insta::assert_snapshot!(refused(error), @r"
    LD_PRELOAD makes programs run other code and is never passed on
    set it to a value of your own instead of passing the caller's on
    ");
    let error = Policy::builder().protect("//absolute").build().unwrap_err();
    insta::assert_snapshot!(refused(error), @r#"
    not a name pattern: "//absolute"
    write names joined by single slashes, such as .git/hooks, *.pem or /private
    "#);
}

#[test]
fn a_guard_of_one_mount_needs_the_mount() {
    let policy = Policy::builder().mount("/p", "/data", Access::ALL);
    let error = policy.hide_in("/date", "/keys").build().unwrap_err();
    insta::assert_snapshot!(error.to_string(), @r#"unknown mount "/date" of "/keys""#);
}

#[test]
fn the_hash_names_exactly_this_policy() {
    let base = || Policy::builder().mount("/p", "/", Access::ALL);
    let same = base().build().unwrap().hash();
    assert_eq!(same, base().build().unwrap().hash());
    assert_eq!(same.len(), 64);
    for other in [
        base().network(Network::Unrestricted),
        base().system(System::None),
        base().protect(".env"),
        base().hide(".env"),
        base().git(Git::Commit),
        base().git(Git::ReadOnly),
        base().survivors(Survivors::Left),
        base().env(Environment::clean().pass("CI")),
        base().env(Environment::clean().set("CI", "1")),
        base().limits(Limits {
            wall: None,
            ..Limits::default()
        }),
        base().mount("/q", "/q", Access::READ),
        Policy::builder().mount("/p", "/", Access::READ),
        Policy::builder().mount("/p", "/p", Access::ALL),
        base().protect_in("/", "/a"),
        base().hide_in("/", "/a"),
    ] {
        assert_ne!(same, other.build().unwrap().hash());
    }
    // Checked in: a receipt of today names the same policy tomorrow and elsewhere.
    insta::assert_snapshot!(Policy::builder().build().unwrap().hash(), @"ebc954faf8edb7e570c5b974d3c7269818ca7cb841a2f76c9329a17321471138");
}

#[test]
fn what_git_modes_mean() {
    let policy = |git| {
        let policy = Policy::builder().mount("/p", "/", Access::ALL).git(git);
        policy.build().unwrap()
    };
    let modes = [Git::Unaware, Git::Commit, Git::ReadOnly].map(policy);
    for (path, want) in [
        ("/p/src/main.rs", [true, true, true]),
        ("/p/.git/index", [true, true, false]),
        ("/p/.git/objects/aa/bb", [true, true, false]),
        ("/p/.git/refs/heads/config", [true, true, false]),
        ("/p/.git/hooks/pre-commit", [true, false, false]),
        ("/p/.git/config", [true, false, false]),
        ("/p/.git/config.worktree", [true, false, false]),
        ("/p/.git/commondir", [true, false, false]),
        ("/p/.git/info/attributes", [true, false, false]),
        ("/p/a/b/.git/hooks/x", [true, false, false]),
        ("/p/.git/modules/lib/hooks/x", [true, false, false]),
        ("/p/.git/modules/lib/index", [true, true, false]),
        (
            "/p/.git/modules/lib/objects/info/packs",
            [true, true, false],
        ),
        ("/p/.git/modules/libs/a/config", [true, false, false]),
        ("/p/.git/worktrees/x/gitdir", [true, false, false]),
        ("/p/.git/worktrees/x/HEAD", [true, true, false]),
        ("/p/hooks/x", [true, true, true]),
    ] {
        let got = modes
            .each_ref()
            .map(|policy| policy.allows(Path::new(path), Access::WRITE));
        assert_eq!(got, want, "{path}");
        assert!(modes[1].allows(Path::new(path), Access::READ), "{path}");
    }
}

proptest! {
    #[test]
    fn building_never_panics(
        host in any::<String>(), shown in any::<String>(), pattern in any::<String>(), name in any::<String>(),
    ) {
        let _ = Policy::builder()
            .mount(&host, shown.clone(), Access::ALL)
            .mount(format!("/{host}"), format!("/{shown}"), Access::READ)
            .protect(pattern.clone())
            .hide(pattern)
            .env(Environment::clean().pass(name.clone()).set(name, host))
            .build();
    }

    #[test]
    fn nothing_outside_is_ever_allowed(path in "/(p|d|x|\\.\\.|\\.|usr|etc)(/(p|\\.\\.|\\.|a)){0,4}") {
        let policy = Policy::builder().mount("/p", "/", Access::ALL).system(System::None).build().unwrap();
        let inside = Path::new(&path).starts_with("/p") && !path.contains("..");
        prop_assert_eq!(policy.allows(Path::new(&path), Access::WRITE), inside);
    }
}

fn access(policy: &Policy, path: &str) -> Access {
    let path = PathBuf::from(path);
    [Access::READ, Access::WRITE, Access::EXECUTE]
        .into_iter()
        .filter(|one| policy.allows(&path, *one))
        .fold(Access::NONE, Access::union)
}

#[test]
fn named_sockets_are_paths_of_the_host() {
    let policy = Policy::builder()
        .unix_socket("/run//b.sock")
        .unix_socket("/run/a.sock")
        .unix_socket("/run/b.sock/")
        .build()
        .unwrap();
    let want = ["/run/a.sock", "/run/b.sock"].map(PathBuf::from).to_vec();
    assert_eq!(policy.unix_sockets(), &UnixSockets::Named(want.clone()));
    let at_once = Policy::builder().unix_sockets(UnixSockets::Named(want));
    assert_eq!(at_once.build().unwrap().hash(), policy.hash());
    let other = Policy::builder()
        .unix_socket("/run/a.sock")
        .build()
        .unwrap();
    assert_ne!(other.hash(), policy.hash());
    // A list of nobody is nobody.
    let nobody = Policy::builder().unix_sockets(UnixSockets::Named(Vec::new()));
    assert_eq!(nobody.build().unwrap().unix_sockets(), &UnixSockets::Closed);
}

#[test]
fn ports_that_cannot_be_published() {
    let hosts = |port| Network::Hosts(NamedHosts::new(["a.org"]).port(port));
    let service = NamedHosts::new(["a.org"]).address("127.0.0.1:8080".parse().unwrap());
    for (ports, network, want) in [
        (vec![0], Network::Denied, Some(ErrorKind::Invalid)),
        (vec![1023], Network::Denied, Some(ErrorKind::Invalid)),
        (vec![1024, 65535], Network::Denied, None),
        (vec![8080], Network::Loopback, None),
        (vec![8080], hosts(443), None),
        (vec![8080], hosts(8080), Some(ErrorKind::Invalid)),
        (
            vec![8080],
            Network::Hosts(service),
            Some(ErrorKind::Invalid),
        ),
        (vec![8080], Network::Unrestricted, Some(ErrorKind::Invalid)),
        ((2000..2016).collect(), Network::Denied, None),
        (
            (2000..2017).collect(),
            Network::Denied,
            Some(ErrorKind::Limit),
        ),
    ] {
        let ports = || ports.iter().copied();
        let builder = ports().fold(Policy::builder(), |policy, port| policy.publish_port(port));
        let built = builder.clone().network(network.clone()).build();
        let kind = built.as_ref().err().map(os_sandbox::Error::kind);
        assert_eq!(kind, want, "{:?} {network:?}", ports().collect::<Vec<_>>());
        if let (Ok(policy), Ok(plain)) = (&built, Policy::builder().network(network).build()) {
            assert!(ports().eq(policy.published_ports().iter().copied()));
            assert_ne!(policy.hash(), plain.hash());
        }
        // The network may come later.
        if let (Ok(policy), None) = (builder.build(), want) {
            assert!(policy.clone().with_network(Network::Unrestricted).is_err());
            assert!(policy.with_network(Network::Denied).is_ok());
        }
    }
}

#[test]
fn sockets_that_make_no_sense() {
    for (path, want) in [
        ("run/a.sock".to_owned(), ErrorKind::Invalid),
        (String::new(), ErrorKind::Invalid),
        ("\0abstract".to_owned(), ErrorKind::Invalid),
        ("/run/a\0b".to_owned(), ErrorKind::Invalid),
        ("/run/../a".to_owned(), ErrorKind::Invalid),
        ("/".to_owned(), ErrorKind::Invalid),
        ("/proc/1/root/run/a".to_owned(), ErrorKind::Invalid),
        ("/dev/log".to_owned(), ErrorKind::Invalid),
        (format!("/{}", "x".repeat(107)), ErrorKind::Limit),
        // A command could put another socket in its place.
        ("/p/.agent.sock".to_owned(), ErrorKind::Invalid),
        ("/p/vendor/out/sock".to_owned(), ErrorKind::Invalid),
    ] {
        let policy = Policy::builder()
            .mount("/p", "/", Access::ALL)
            .mount("/p/vendor", "/vendor", Access::READ)
            .mount("/p/vendor/out", "/vendor/out", Access::ALL)
            .unix_socket(&path);
        assert_eq!(policy.build().unwrap_err().kind(), want, "{path:?}");
    }
    let longest = format!("/{}", "x".repeat(106));
    assert!(Policy::builder().unix_socket(longest).build().is_ok());
    let below_read_only = Policy::builder()
        .mount("/p", "/", Access::ALL)
        .mount("/p/vendor", "/vendor", Access::READ)
        .unix_socket("/p/vendor/sock");
    assert!(below_read_only.build().is_ok());
    let many = (0..65).fold(Policy::builder(), |policy, n| {
        policy.unix_socket(format!("/run/{n}"))
    });
    assert_eq!(many.build().unwrap_err().kind(), ErrorKind::Limit);
    let both = Policy::builder()
        .unix_sockets(UnixSockets::Open)
        .unix_socket("/run/a.sock");
    assert_eq!(both.build().unwrap_err().kind(), ErrorKind::Invalid);
    let left = Policy::builder()
        .survivors(Survivors::Left)
        .unix_socket("/run/a.sock");
    assert_eq!(left.build().unwrap_err().kind(), ErrorKind::Invalid);
}
