//! Seatbelt profiles, held against the policy that they were made from by `seatbelt-eval`. What
//! that proves and what not stands in the README of that crate.

mod properties;
mod text;

use os_sandbox::{
    Access, Backend, Error, ErrorKind, Git, HostSpec, NamedHosts, Network, Plan, Policy,
    PolicyBuilder, Promise, PromiseState, Requirement, SeatbeltProfile, SeatbeltRun, Support,
    Survivors, System, UnixSockets,
};
use seatbelt_eval::{Host, Profile, Subject, Target};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Operations that a mount allows together.
const READS: [&str; 2] = ["file-read-data", "file-read-xattr"];
const WRITES: [&str; 6] = [
    "file-write-data",
    "file-write-flags",
    "file-write-mode",
    "file-write-owner",
    "file-write-times",
    "file-write-xattr",
];
const EXECUTES: [&str; 2] = ["process-exec*", "file-map-executable"];

fn profile(policy: &Policy) -> SeatbeltProfile {
    SeatbeltProfile::new(policy, &SeatbeltRun::default()).expect("a profile")
}

/// The profile as the judge reads it.
struct Judge(Profile);

impl Judge {
    fn new(profile: &SeatbeltProfile) -> Judge {
        let given: Vec<(&str, &[u8])> = profile
            .parameters()
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        let read = Profile::parse(profile.text(), &given);
        Judge(read.unwrap_or_else(|error| panic!("{error}\n{}", profile.text())))
    }

    fn of(policy: &Policy) -> Judge {
        Judge::new(&profile(policy))
    }

    fn allows(&self, operation: &str, subject: &Subject) -> bool {
        self.0
            .allows(operation, subject)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn path(&self, operation: &str, path: impl AsRef<OsStr>) -> bool {
        self.allows(operation, &Subject::path(path.as_ref().as_bytes()))
    }

    /// What a path gives, if all operations of a kind agree.
    fn access(&self, path: &Path) -> Access {
        let mut access = Access::NONE;
        for (one, operations) in [
            (Access::READ, &READS[..]),
            (Access::WRITE, &WRITES[..]),
            (Access::EXECUTE, &EXECUTES[..]),
        ] {
            let answers: Vec<bool> = operations.iter().map(|op| self.path(op, path)).collect();
            assert!(
                answers.iter().all(|answer| *answer == answers[0]),
                "{one} of {path:?}: {operations:?} {answers:?}"
            );
            if answers[0] {
                access = access | one;
            }
        }
        access
    }
}

fn access_of(policy: &Policy, path: &Path) -> Access {
    [Access::READ, Access::WRITE, Access::EXECUTE]
        .into_iter()
        .filter(|one| policy.allows(path, *one))
        .fold(Access::NONE, Access::union)
}

fn project() -> PolicyBuilder {
    Policy::builder()
        .mount("/Users/me/p", "/", Access::ALL)
        .mount("/Users/me/p/vendor", "/vendor", Access::READ)
        .mount("/tmp/data", "/data", Access::READ)
        .protect(".git/hooks")
        .hide(".env*")
}

#[test]
fn patterns_mean_what_they_mean_elsewhere() {
    let table = include_str!("../../../../../fixtures/name-patterns.tsv");
    for row in table.lines().filter(|line| !line.starts_with('#')) {
        let [pattern, path, covers] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{row:?}");
        };
        let mount = || Policy::builder().mount("/Users/me/q", "/", Access::ALL);
        let path = Path::new("/Users/me/q").join(path);
        let hidden = Judge::of(&mount().hide(pattern).build().unwrap());
        let protected = Judge::of(&mount().protect(pattern).build().unwrap());
        let found = (
            !hidden.path("file-read-data", &path),
            !protected.path("file-write-data", &path),
        );
        // A sign beyond ASCII is any sign to a profile: too much, and never too little.
        let broader = !pattern.is_ascii();
        let wanted = covers == "yes" || broader;
        assert_eq!(found, (wanted, wanted), "{row}");
    }
}

#[test]
fn mounts_system_and_what_lies_between() {
    let judge = Judge::of(&project().build().unwrap());
    for (path, want) in [
        ("/Users/me/p", "read+write+execute"),
        ("/Users/me/p/src/a.rs", "read+write+execute"),
        ("/Users/me/px", "nothing"),
        ("/Users/me", "nothing"),
        ("/Users/me/.ssh/id", "nothing"),
        ("/System/Volumes/Data/Users/me/.ssh/id", "nothing"),
        ("/Users/me/p/vendor/a", "read"),
        ("/Users/me/p/.env", "nothing"),
        ("/Users/me/p/a/.ENV.local/x", "nothing"),
        ("/Users/me/p/.git/HEAD", "read+write+execute"),
        ("/Users/me/p/.git/hooks", "read+execute"),
        ("/Users/me/p/a/.Git/HOOKS/pre-commit", "read+execute"),
        ("/Users/me/p/.git/hooksx", "read+write+execute"),
        ("/Users/me/p/vendor/.env", "nothing"),
        ("/tmp/data/a", "read"),
        ("/private/tmp/data/a", "read"),
        ("/private/tmp/a", "nothing"),
        ("/bin/sh", "read+execute"),
        ("/usr/bin/git", "read+execute"),
        ("/usr/lib/dyld", "read+execute"),
        (
            "/Library/Developer/CommandLineTools/usr/bin/git",
            "read+execute",
        ),
        ("/opt/homebrew/bin/python3", "read+execute"),
        ("/opt/homebrew/etc/openssl@3/cert.pem", "read"),
        ("/opt/homebrew/var/postgres/secret", "nothing"),
        ("/usr/local/var/mysql", "nothing"),
        ("/usr/share/zoneinfo", "read"),
        ("/private/etc/hosts", "read"),
        ("/etc/hosts", "read"),
        ("/private/etc/ssl/cert.pem", "read"),
        ("/private/etc/master.passwd", "nothing"),
        ("/private/etc/sudoers", "nothing"),
        ("/private/var/db/xcode_select_link", "read"),
        ("/private/var/db/dslocal/nodes", "nothing"),
        ("/Library/Keychains/System.keychain", "nothing"),
        ("/dev/null", "read+write"),
        ("/dev/tty", "read+write"),
        ("/dev/disk0", "nothing"),
        ("/dev/ttys001", "nothing"),
        ("/", "read"),
    ] {
        assert_eq!(judge.access(Path::new(path)).to_string(), want, "{path}");
    }
    for (path, looked_at) in [
        ("/Users", true),
        ("/Users/me", true),
        ("/Users/other", false),
        ("/private/tmp", true),
        ("/private/tmp/x", false),
        ("/Users/me/p/.env", false),
        ("/opt/homebrew", true),
    ] {
        assert_eq!(judge.path("file-read-metadata", path), looked_at, "{path}");
    }
}

#[test]
fn system_profiles() {
    for (system, path, want) in [
        (System::None, "/bin/sh", "nothing"),
        (System::None, "/dev/null", "read+write"),
        (System::None, "/private/etc/hosts", "nothing"),
        (System::Minimal, "/private/etc/ssh/ssh_config", "nothing"),
        (System::BroadRead, "/private/etc/ssh/ssh_config", "read"),
        (System::BroadRead, "/etc/ssh/ssh_config", "read"),
        (System::BroadRead, "/opt/tool", "read"),
        (System::BroadRead, "/usr/local/var/x", "read"),
        (System::BroadRead, "/usr/local/bin/x", "read+execute"),
        (System::BroadRead, "/Users/me/x", "nothing"),
    ] {
        let judge = Judge::of(&Policy::builder().system(system).build().unwrap());
        assert_eq!(
            judge.access(Path::new(path)).to_string(),
            want,
            "{system:?} {path}"
        );
    }
}

#[test]
fn what_stays_where_it_is() {
    let policy = Policy::builder()
        .mount("/p", "/", Access::ALL)
        .mount("/p/a/b/locked", "/a/b/locked", Access::READ)
        .protect(".git/modules/*/hooks")
        .protect("*/x")
        .hide("secrets/key")
        .build()
        .unwrap();
    let run = SeatbeltRun {
        private: vec!["/private/var/x/home".into()],
        ..SeatbeltRun::default()
    };
    let judge = Judge::new(&SeatbeltProfile::new(&policy, &run).unwrap());
    for (path, create, unlink) in [
        // The roots, and what lies between two mounts.
        ("/p", true, false),
        ("/p/a", true, false),
        ("/p/a/b", true, false),
        ("/p/a/b/locked", false, false),
        ("/p/a/c", true, true),
        ("/private/var/x/home", true, false),
        ("/private/var/x/home/a", true, true),
        // The directories around protected and hidden names, wherever they are.
        ("/p/.git", false, false),
        ("/p/c/.GIT", false, false),
        ("/p/.git/modules", false, false),
        // A directory by any name can be made, and stays.
        ("/p/.git/modules/m", true, false),
        ("/p/.git/modules/m/hooks", false, false),
        ("/p/.git/modules/m/config", true, true),
        ("/p/.git/HEAD", true, true),
        ("/p/secrets", false, false),
        ("/p/secrets/key", false, false),
        ("/p/secrets/other", true, true),
        // `*/x` is matched wherever its directory goes.
        ("/p/d", true, true),
        ("/p/d/x", false, false),
    ] {
        let directory = Subject::directory(path);
        let (creates, unlinks) = (
            judge.allows("file-write-create", &directory),
            judge.allows("file-write-unlink", &directory),
        );
        assert_eq!((creates, unlinks), (create, unlink), "{path}");
    }
    // Files of a module come and go.
    assert!(judge.path("file-write-unlink", "/p/.git/modules/index.lock"));
    for path in ["/p/f", "/p/.git/HEAD", "/private/var/x/home/a"] {
        assert!(judge.path("file-link", path), "{path}");
        assert!(!judge.path("file-write-setugid", path), "{path}");
    }
    for path in [
        "/p/.git/modules/m/hooks",
        "/p/secrets/key",
        "/p/a/b/locked/f",
        "/q",
    ] {
        assert!(!judge.path("file-link", path), "{path}");
        assert!(!judge.path("file-clone", path), "{path}");
    }
}

/// What git needs for a commit, and what it executes or obeys.
#[test]
fn commits_and_nothing_more() {
    let policy = Policy::builder()
        .mount("/p", "/", Access::ALL)
        .git(Git::Commit)
        .build()
        .unwrap();
    let judge = Judge::of(&policy);
    for path in [
        "/p/.git",
        "/p/sub/.git",
        "/p/.git/modules/m",
        "/p/.git/modules/lib/m",
    ] {
        for (below, directory, works) in [
            ("index.lock", false, true),
            ("HEAD.lock", false, true),
            ("objects/ab", true, true),
            ("objects/ab/cdef", false, true),
            ("refs/heads/b", false, true),
            ("rebase-merge", true, true),
            ("config.lock", false, true),
            ("config", false, false),
            ("hooks", true, false),
            ("hooks/pre-commit", false, false),
            ("info/attributes", false, false),
        ] {
            // The pattern for it would also be the objects/info of /p/.git/modules/lib.
            let works = works || below == "info/attributes" && path == "/p/.git/modules/lib/m";
            let below = format!("{path}/{below}");
            let subject = if directory {
                Subject::directory(&below)
            } else {
                Subject::path(&below)
            };
            assert_eq!(
                judge.allows("file-write-create", &subject),
                works,
                "{below}"
            );
            if !directory {
                assert_eq!(
                    judge.allows("file-write-unlink", &subject),
                    works,
                    "{below}"
                );
            }
        }
        let moved = judge.allows("file-write-unlink", &Subject::directory(path));
        assert!(!moved, "{path}");
    }
}

#[test]
fn the_network() {
    let hosts = Network::Hosts(NamedHosts::new(["example.org"]));
    for (network, port, loopback, proxy, other, server, open_server) in [
        (Network::Denied, None, false, false, false, false, false),
        (
            Network::Denied,
            Some(8080),
            false,
            false,
            false,
            false,
            false,
        ),
        (Network::Loopback, None, true, true, false, true, false),
        (hosts.clone(), None, false, false, false, false, false),
        (hosts, Some(8080), false, true, false, false, false),
        (Network::Unrestricted, None, true, true, true, true, true),
    ] {
        let policy = Policy::builder().network(network.clone()).build().unwrap();
        let run = SeatbeltRun {
            proxy_port: port,
            ..SeatbeltRun::default()
        };
        let judge = Judge::new(&SeatbeltProfile::new(&policy, &run).unwrap());
        let to = |host, port| judge.allows("network-outbound", &Subject::Address { host, port });
        assert_eq!(to(Host::Loopback, 1), loopback, "{network:?}");
        assert_eq!(to(Host::Loopback, 8080), proxy, "{network:?}");
        assert_eq!(to(Host::Other, 8080), other, "{network:?}");
        for operation in ["network-bind", "network-inbound"] {
            let at = |host| judge.allows(operation, &Subject::Address { host, port: 3000 });
            assert_eq!(at(Host::Loopback), server, "{network:?}");
            assert_eq!(at(Host::Other), open_server, "{network:?}");
        }
        let resolver = Subject::UnixSocket(b"/private/var/run/mDNSResponder".to_vec());
        assert_eq!(
            judge.allows("network-outbound", &resolver),
            other,
            "{network:?}"
        );
        for (service, allowed) in [
            ("com.apple.trustd.agent", other),
            ("com.apple.SystemConfiguration.DNSConfiguration", other),
            ("com.apple.SecurityServer", false),
            ("com.apple.system.logger", true),
        ] {
            let asked = judge.allows("mach-lookup", &Subject::name(service));
            assert_eq!(asked, allowed, "{network:?} {service}");
        }
    }
}

#[test]
fn local_sockets() {
    let policy = |sockets| {
        Policy::builder()
            .mount("/p", "/", Access::ALL)
            .mount("/p/closed", "/closed", Access::NONE)
            .mount("/p/closed/in", "/closed/in", Access::READ)
            .network(Network::Unrestricted)
            .unix_sockets(sockets)
            .build()
            .unwrap()
    };
    let (closed, open) = (
        Judge::of(&policy(UnixSockets::Closed)),
        Judge::of(&policy(UnixSockets::Open)),
    );
    let socket = Subject::Socket {
        domain: "AF_UNIX".to_owned(),
        protocol: 0,
    };
    assert!(!closed.allows("system-socket", &socket));
    assert!(open.allows("system-socket", &socket));
    let named = Judge::of(&policy(UnixSockets::Named(vec!["/var/run/a.sock".into()])));
    assert!(named.allows("system-socket", &socket));
    for (path, connect) in [
        ("/private/var/run/a.sock", true),
        ("/var/run/a.sock", true),
        ("/private/var/run/a.sockx", false),
        ("/p/s", false),
    ] {
        let at = Subject::UnixSocket(path.into());
        assert_eq!(named.allows("network-outbound", &at), connect, "{path}");
        assert!(!named.allows("network-bind", &at), "{path}");
    }
    for (path, connect, make) in [
        ("/p/s", true, true),
        ("/p/closed/s", false, false),
        ("/p/closed/in/s", true, false),
        ("/private/var/run/docker.sock", false, false),
        ("/tmp/s", false, false),
    ] {
        let at = Subject::UnixSocket(path.into());
        assert_eq!(open.allows("network-outbound", &at), connect, "{path}");
        assert_eq!(open.allows("network-bind", &at), make, "{path}");
        assert!(!closed.allows("network-outbound", &at), "{path}");
        assert!(!closed.allows("network-bind", &at), "{path}");
    }
}

#[test]
fn processes_facts_and_devices() {
    let judge = Judge::of(&project().network(Network::Unrestricted).build().unwrap());
    assert!(judge.allows("process-fork", &Subject::Nothing));
    for operation in ["signal", "process-info*"] {
        assert!(judge.allows(operation, &Subject::Process(Target::SameSandbox)));
        assert!(!judge.allows(operation, &Subject::Process(Target::Other)));
    }
    for target in [Target::SameSandbox, Target::Other] {
        assert!(!judge.allows("mach-priv-task-port", &Subject::Process(target)));
    }
    for (operation, name, allowed) in [
        ("sysctl-read", "hw.ncpu", true),
        ("sysctl-read", "kern.proc.all", false),
        ("sysctl-read", "kern.procargs2", false),
        ("sysctl-write", "kern.tcsm_enable", true),
        ("sysctl-write", "kern.hostname", false),
        (
            "mach-lookup",
            "com.apple.system.opendirectoryd.libinfo",
            true,
        ),
        (
            "mach-lookup",
            "com.apple.coreservices.launchservicesd",
            false,
        ),
        ("mach-lookup", "com.apple.cfprefsd.agent", false),
        ("mach-lookup", "com.apple.securityd", false),
        ("mach-register", "anything", false),
        ("iokit-open", "AppleKeyStoreUserClient", false),
        ("ipc-posix-shm*", "/__KMP_REGISTERED_LIB_77", true),
        ("ipc-posix-shm*", "/other", false),
    ] {
        assert_eq!(
            judge.allows(operation, &Subject::name(name)),
            allowed,
            "{name}"
        );
    }
    assert!(!judge.allows("user-preference-read", &Subject::Nothing));
    let own_terminal = Subject::Path {
        path: b"/dev/ttys001".to_vec(),
        extensions: vec!["com.apple.sandbox.pty".to_owned()],
        directory: false,
    };
    for (subject, asked) in [
        (Subject::path("/dev/null"), true),
        (Subject::path("/dev/ptmx"), true),
        (own_terminal.clone(), true),
        // TIOCSTI.
        (Subject::path("/dev/tty"), false),
        (Subject::path("/dev/ttys001"), false),
        (Subject::path("/dev/disk0"), false),
        (Subject::path("/Users/me/p/a"), false),
    ] {
        assert_eq!(judge.allows("file-ioctl", &subject), asked, "{subject}");
    }
    assert!(judge.allows("file-write-data", &own_terminal));
}

#[test]
fn a_path_is_never_text() {
    let policy = Policy::builder()
        .mount("/Users/a\"b\\c", "/", Access::READ)
        .mount("/Users/x)(allow default)", "/x", Access::READ)
        .build()
        .unwrap();
    let profile = profile(&policy);
    for piece in ["a\"b", "b\\c", "(allow default)", "Users/me"] {
        assert!(!profile.text().contains(piece), "{piece}");
    }
    let judge = Judge::new(&profile);
    assert!(judge.path("file-read-data", "/Users/a\"b\\c/f"));
    assert!(!judge.path("file-read-data", "/Users/a"));
    assert!(!judge.path("file-write-data", "/Users/a\"b\\c/f"));
    assert!(!judge.path("process-exec*", "/Users/x)(allow default)/f"));
}

#[test]
fn what_cannot_be_told() {
    let one = |host: &str| {
        Policy::builder()
            .mount(host, "/", Access::READ)
            .build()
            .unwrap()
    };
    let kind = |policy: &Policy, run: &SeatbeltRun| -> ErrorKind {
        let error: Error = SeatbeltProfile::new(policy, run).unwrap_err();
        error.kind()
    };
    let plain = SeatbeltRun::default();
    assert_eq!(kind(&one("/a\nb"), &plain), ErrorKind::Invalid);
    for path in ["/a\nb", "/a\0b", "a", "/a/../b"] {
        let run = SeatbeltRun {
            private: vec![path.into()],
            ..SeatbeltRun::default()
        };
        assert_eq!(kind(&one("/p"), &run), ErrorKind::Invalid, "{path:?}");
    }
    for tag in ["a b", "a\"", "(", "ä", &"x".repeat(65)] {
        let run = SeatbeltRun {
            tag: tag.to_owned(),
            ..SeatbeltRun::default()
        };
        assert_eq!(kind(&one("/p"), &run), ErrorKind::Invalid, "{tag}");
    }
    // Names of links: where they lead decides.
    let parts = Policy::builder()
        .mount("/p", "/", Access::ALL)
        .mount("/p/sub", "/sub", Access::READ)
        .build()
        .unwrap();
    let real = |paths: &[&str]| SeatbeltRun {
        real: paths.iter().map(PathBuf::from).collect(),
        ..SeatbeltRun::default()
    };
    assert_eq!(kind(&parts, &real(&["/p"])), ErrorKind::Invalid);
    assert_eq!(
        kind(&parts, &real(&["/q", "/elsewhere"])),
        ErrorKind::Invalid
    );
    assert_eq!(kind(&parts, &real(&["/q", "/q"])), ErrorKind::Invalid);
    let moved = SeatbeltProfile::new(&parts, &real(&["/q", "/q/sub"])).unwrap();
    let judge = Judge::new(&moved);
    assert!(judge.path("file-write-data", "/q/a"));
    assert!(!judge.path("file-write-data", "/q/sub/a"));
    // A part named in another way than what it is a part of: patterns would not count in it.
    let unlike = |part: &str| {
        Policy::builder()
            .mount("/var/v", "/", Access::READ)
            .mount(part, "/k.pem", Access::READ)
            .hide("*.pem")
            .build()
            .unwrap()
    };
    let error = SeatbeltProfile::new(&unlike("/private/var/v/k.pem"), &plain).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("/k.pem is a part of /, and named by another path"),
        "{error}"
    );
    let alike = SeatbeltProfile::new(&unlike("/var/v/k.pem"), &plain).unwrap();
    assert!(!Judge::new(&alike).path("file-read-data", "/private/var/v/k.pem"));
    // A socket that the command could put another one in the place of, once links are followed.
    let socket = Policy::builder()
        .mount("/link", "/", Access::ALL)
        .unix_socket("/tmp/p/s")
        .build()
        .unwrap();
    assert_eq!(
        kind(&socket, &real(&["/private/tmp/p"])),
        ErrorKind::Invalid
    );
    // More than a command line holds.
    let mut many = Policy::builder();
    for index in 0..200 {
        many = many.mount(format!("/p{index}"), format!("/p{index}"), Access::ALL);
        many = many.hide(format!("some-long-name-{index}"));
    }
    assert_eq!(kind(&many.build().unwrap(), &plain), ErrorKind::Limit);
}

#[test]
fn what_a_plan_says() {
    let mac = Support::assume(HostSpec {
        seatbelt: true,
        ..HostSpec::default()
    });
    let gaps = |policy: &Policy| -> Vec<(Promise, PromiseState)> {
        let plan = Plan::new(policy, &mac, Requirement::BestEffort).unwrap();
        assert_eq!(plan.backend(), Backend::Seatbelt);
        plan.gaps().map(|gap| (gap.promise, gap.state)).collect()
    };
    let usual = [
        (Promise::Survivors, PromiseState::Degraded),
        (Promise::ProcessList, PromiseState::Degraded),
        (Promise::MemoryLimit, PromiseState::Absent),
        (Promise::ProcessLimit, PromiseState::Absent),
    ];
    assert_eq!(gaps(&project().build().unwrap()), usual);
    let loopback = project().network(Network::Loopback).build().unwrap();
    assert_eq!(
        gaps(&loopback)[0],
        (Promise::Network, PromiseState::Degraded)
    );
    let hosts = project()
        .network(Network::Hosts(NamedHosts::default()))
        .build()
        .unwrap();
    assert_eq!(gaps(&hosts)[0], (Promise::Network, PromiseState::Absent));

    // A boundary that is kept in part refuses the plan, unless it is given up by name.
    let refused = Plan::new(&project().build().unwrap(), &mac, Requirement::Enforce).unwrap_err();
    assert!(refused.to_string().contains("survivors"), "{refused}");
    let left = project().survivors(Survivors::Left).build().unwrap();
    assert!(Plan::new(&left, &mac, Requirement::Enforce).is_ok());
}
