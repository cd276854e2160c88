//! Plans on described hosts: which gaps refuse, which are listed, and how it reads.

use os_sandbox::mechanism::ContainerSupport;
use os_sandbox::{
    Access, Backend, Error, ErrorKind, HostSpec, NamedHosts, Network, Plan, Policy, PolicyBuilder,
    Promise, PromiseState, Rank, Requirement, Support, Survivors,
};

fn host(abi: u32, bubblewrap: bool) -> Support {
    Support::assume(HostSpec {
        landlock_abi: abi,
        landlock_errata: 0,
        seccomp: true,
        bubblewrap: bubblewrap.then(|| "0.12.0".to_owned()),
        pins_by_descriptor: bubblewrap,
        connector: true,
        ..HostSpec::default()
    })
}

fn policy() -> Policy {
    Policy::builder()
        .mount("/p", "/", Access::ALL)
        .build()
        .expect("a policy")
}

#[test]
fn the_best_mechanism_of_a_host() {
    for (abi, bubblewrap, want) in [
        (7, true, Backend::Bubblewrap),
        (0, true, Backend::Bubblewrap),
        (7, false, Backend::Landlock),
        (6, false, Backend::Landlock),
    ] {
        let plan = Plan::new(&policy(), &host(abi, bubblewrap), Requirement::Enforce).unwrap();
        assert_eq!(plan.backend(), want, "{abi} {bubblewrap}");
    }
}

#[test]
fn each_landlock_version_says_what_it_lacks() {
    let gaps = |abi: u32| -> Vec<String> {
        match Plan::new(&policy(), &host(abi, false), Requirement::Enforce) {
            Ok(_) => Vec::new(),
            Err(refused) => refused
                .gaps()
                .iter()
                .map(|gap| gap.promise.to_string())
                .collect(),
        }
    };
    assert_eq!(gaps(1), ["write outside", "signals", "survivors"]);
    assert_eq!(gaps(2), ["write outside", "signals", "survivors"]);
    assert_eq!(gaps(3), ["signals", "survivors"]);
    assert_eq!(gaps(5), ["signals", "survivors"]);
    assert!(gaps(6).is_empty());
    assert!(gaps(9).is_empty());
}

#[test]
fn nothing_to_enforce_with() {
    let bare = Support::assume(HostSpec::default());
    let refused = Plan::new(&policy(), &bare, Requirement::Enforce).unwrap_err();
    assert_eq!(format!("{refused:?}"), refused.to_string());
    let error = Error::from(refused);
    assert_eq!(
        (error.kind(), error.exit_code()),
        (ErrorKind::Unsupported, 125)
    );
    assert!(
        error
            .gaps()
            .iter()
            .all(|gap| gap.promise.rank() == Rank::Boundary)
    );
    insta::assert_snapshot!(format!("{error}\nhint: {}", error.hint().unwrap()), @r"
    no mechanism works on this host, so it cannot keep read outside and 11 more promises
    hint: namespaces: assumed to be missing
    bubblewrap: assumed to be missing
    landlock: assumed to be missing
    seccomp: assumed to be missing
    ");

    let plan = Plan::new(&policy(), &bare, Requirement::BestEffort).unwrap();
    assert_eq!(plan.backend(), Backend::None);
    assert_eq!(
        plan.gaps()
            .filter(|gap| gap.state == PromiseState::Enforced)
            .count(),
        0
    );
}

#[test]
fn guards_are_listed_or_required() {
    let policy = Policy::builder()
        .mount("/p", "/", Access::ALL)
        .protect(".git/hooks")
        .build()
        .unwrap();
    let plan = Plan::new(&policy, &host(7, false), Requirement::Enforce).unwrap();
    let names: Vec<&str> = plan.gaps().map(|gap| gap.promise.name()).collect();
    assert_eq!(names, ["protected names", "metadata", "process list"]);
    assert!(Plan::new(&policy, &host(7, false), Requirement::EnforceGuards).is_err());
}

#[test]
fn what_a_policy_asks_of_the_network() {
    for (network, landlock, bubblewrap) in [
        (Network::Denied, true, true),
        (Network::Loopback, false, true),
        (Network::Hosts(NamedHosts::new(["example.org"])), true, true),
        (Network::Hosts(NamedHosts::default()), true, true),
        (Network::Unrestricted, true, true),
    ] {
        let policy = Policy::builder().network(network.clone()).build().unwrap();
        let keeps = |backend| {
            Plan::with_mechanism(&policy, &host(7, true), Requirement::Enforce, backend).is_ok()
        };
        assert_eq!(keeps(Backend::Landlock), landlock, "{network:?}");
        assert_eq!(keeps(Backend::Bubblewrap), bubblewrap, "{network:?}");
        assert!(!keeps(Backend::None));
    }
    // An engine keeps a list if its containers can pass sockets; otherwise its reason is told.
    let hosts = Network::Hosts(NamedHosts::new(["example.org"]));
    let policy_of_hosts = Policy::builder().network(hosts).build().unwrap();
    let in_container = |named_hosts: Result<(), String>| {
        let containers = ContainerSupport {
            named_hosts,
            ..ContainerSupport::default()
        };
        let support = host(7, true).with_docker(containers);
        let required = Requirement::Enforce;
        Plan::with_mechanism(&policy_of_hosts, &support, required, Backend::Docker)
    };
    let plan = in_container(Ok(())).unwrap();
    assert!(plan.proxied_hosts().is_some());
    assert!(plan.to_string().contains("but example.org"), "{plan}");
    let refused = in_container(Err("another kernel".to_owned())).unwrap_err();
    assert!(refused.to_string().contains("another kernel"), "{refused}");
    // Inside, whoever started the container holds its commands to the list.
    let hosts = |own_network: bool| {
        let inside = host(7, false).in_own_container(own_network);
        Plan::new(&policy_of_hosts, &inside, Requirement::Enforce)
    };
    assert!(hosts(false).is_err());
    let plan = hosts(true).unwrap();
    assert!(plan.proxied_hosts().is_none(), "no proxy is made inside");
    assert!(plan.to_string().contains("but example.org"), "{plan}");
    // Without filters, sockets that no namespace holds (VSOCK) are open.
    let unfiltered = Support::assume(HostSpec {
        landlock_abi: 7,
        bubblewrap: Some("0.12.0".to_owned()),
        ..HostSpec::default()
    });
    let refused = Plan::new(&policy(), &unfiltered, Requirement::Enforce).unwrap_err();
    assert!(
        refused
            .gaps()
            .iter()
            .any(|gap| gap.promise == Promise::Network)
    );
}

/// Without a network namespace a list of hosts takes a process outside that connects, and a kernel
/// and a policy in which nothing else can.
#[test]
fn hosts_without_a_network_namespace() {
    let all = HostSpec {
        landlock_abi: 7,
        seccomp: true,
        connector: true,
        ..HostSpec::default()
    };
    let listed = || Policy::builder().network(Network::Hosts(NamedHosts::new(["example.org"])));
    let entry = |policy: PolicyBuilder, host: HostSpec, inside: bool| {
        let mut support = Support::assume(host);
        if inside {
            support = support.in_own_container(false);
        }
        let policy = policy.build().unwrap();
        let best = Requirement::BestEffort;
        let plan = Plan::with_mechanism(&policy, &support, best, Backend::Landlock).unwrap();
        let is_network = |entry: &&os_sandbox::Entry| entry.promise == Promise::Network;
        let entry = plan.entries().iter().find(is_network).unwrap();
        let reason = entry.reason.clone().unwrap_or_default();
        assert_eq!(
            entry.state == PromiseState::Enforced,
            plan.needs_proxy_variables(),
            "{entry}"
        );
        (entry.state, reason)
    };
    let (state, reason) = entry(listed(), all.clone(), false);
    assert_eq!(state, PromiseState::Enforced);
    assert_eq!(
        reason,
        "but example.org; a program reaches them by the proxy variables and in no other way, and \
         none can listen"
    );
    let old = HostSpec {
        landlock_abi: 3,
        ..all.clone()
    };
    let alone = HostSpec {
        connector: false,
        ..all.clone()
    };
    let unfiltered = HostSpec {
        seccomp: false,
        ..all.clone()
    };
    for (policy, host, inside, part) in [
        (listed(), old, false, "Landlock ABI 4"),
        (listed(), alone, false, "a process outside that connects"),
        (listed(), unfiltered, false, "system call filters"),
        (
            listed().unix_sockets(os_sandbox::UnixSockets::Open),
            all.clone(),
            false,
            "local sockets",
        ),
        (
            listed().survivors(Survivors::Left),
            all.clone(),
            false,
            "may stay after the end",
        ),
        (listed(), all, true, "needs bubblewrap"),
    ] {
        let (state, reason) = entry(policy, host, inside);
        assert_eq!(state, PromiseState::Absent, "{reason}");
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn published_ports_need_a_network_namespace() {
    let policy = policy_with_port(8080);
    let namespaces = HostSpec {
        landlock_abi: 7,
        seccomp: true,
        namespaces: true,
        connector: true,
        bubblewrap: Some("0.12.0".to_owned()),
        pins_by_descriptor: true,
        birdcage: true,
        docker: true,
        ..HostSpec::default()
    };
    let support = Support::assume(namespaces);
    for backend in [Backend::Namespaces, Backend::Bubblewrap, Backend::Docker] {
        let plan = Plan::with_mechanism(&policy, &support, Requirement::Enforce, backend).unwrap();
        assert_eq!(plan.published_ports().collect::<Vec<_>>(), [8080]);
        let mut entries = plan.entries().iter();
        let network = entries
            .find(|entry| entry.promise == Promise::Network)
            .unwrap();
        assert_eq!(network.state, PromiseState::Enforced);
        let reason = network.reason.as_deref();
        assert_eq!(
            reason,
            Some("clients of the host's loopback reach its port 8080")
        );
    }
    for backend in [Backend::Landlock, Backend::Birdcage, Backend::None] {
        let refused = Plan::with_mechanism(&policy, &support, Requirement::Enforce, backend);
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("a published port needs"),
            "{backend}: {refused}"
        );
        let gap = Plan::with_mechanism(&policy, &support, Requirement::BestEffort, backend);
        assert_eq!(gap.unwrap().published_ports().count(), 0, "{backend}");
    }
}

fn policy_with_port(port: u16) -> Policy {
    let policy = Policy::builder().mount("/p", "/", Access::ALL);
    policy
        .publish_port(port)
        .build()
        .expect("the policy is valid")
}

#[test]
fn less_inside_more_needs_a_mount_layer() {
    let narrowed = |inner| {
        Policy::builder()
            .mount("/p", "/", Access::ALL)
            .mount("/p/v", "/v", inner)
            .build()
            .unwrap()
    };
    let keeps = |policy: &Policy, backend| {
        Plan::with_mechanism(policy, &host(7, true), Requirement::Enforce, backend).is_ok()
    };
    let read_only = narrowed(Access::READ | Access::EXECUTE);
    assert!(keeps(&read_only, Backend::Bubblewrap));
    assert!(!keeps(&read_only, Backend::Landlock));
    assert!(keeps(&narrowed(Access::NONE), Backend::Bubblewrap));
    assert!(!keeps(&narrowed(Access::READ), Backend::Bubblewrap));
    // Not executable inside executable: nothing here can.
    assert!(!keeps(
        &narrowed(Access::READ | Access::WRITE),
        Backend::Bubblewrap
    ));
    // More inside less is what Landlock is made for.
    let widened = Policy::builder()
        .mount("/p", "/", Access::READ | Access::EXECUTE)
        .mount("/p/out", "/out", Access::ALL)
        .build()
        .unwrap();
    assert!(keeps(&widened, Backend::Landlock));
}

/// A bind mount that can be written can be read: only Landlock takes reading away, and not from a
/// part of what it allows.
#[test]
fn writing_without_reading_needs_landlock() {
    let gaps = |policy: PolicyBuilder, abi: u32| -> Vec<String> {
        let policy = policy.build().expect("a policy");
        match Plan::new(&policy, &host(abi, true), Requirement::Enforce) {
            Ok(_) => Vec::new(),
            Err(refused) => refused
                .gaps()
                .iter()
                .map(|gap| gap.promise.to_string())
                .collect(),
        }
    };
    let inbox = || Policy::builder().mount("/inbox", "/inbox", Access::WRITE);
    assert!(gaps(inbox(), 7).is_empty());
    assert_eq!(gaps(inbox(), 0), ["read outside", "execute outside"]);
    let part = || {
        Policy::builder()
            .mount("/p", "/", Access::READ)
            .mount("/p/inbox", "/inbox", Access::WRITE)
    };
    for abi in [0, 7] {
        assert!(
            gaps(part(), abi).contains(&"narrower inside".to_owned()),
            "{abi}"
        );
    }
}

#[test]
fn a_plan_reads_like_a_table() {
    let policy = Policy::builder()
        .mount("/p", "/", Access::ALL)
        .protect(".git/hooks")
        .hide(".env")
        .build()
        .unwrap();
    let plan = Plan::new(&policy, &host(7, true), Requirement::Enforce).unwrap();
    insta::assert_snapshot!(plan, @r"
    mechanism: bubblewrap
    read outside     enforced  bubblewrap + landlock
    write outside    enforced  bubblewrap + landlock
    execute outside  enforced  bubblewrap + landlock
    kernel settings  enforced  bubblewrap + landlock
    set-id bits      enforced  seccomp
    network          enforced  bubblewrap + seccomp
    unix sockets     enforced  seccomp
    descriptors      enforced  launcher
    environment      enforced  launcher
    signals          enforced  bubblewrap + landlock
    tracing          enforced  bubblewrap + landlock
    terminal input   enforced  seccomp
    kernel surface   enforced  seccomp
    survivors        enforced  bubblewrap + launcher
    protected names  detected  bubblewrap + launcher (those that are there cannot be changed; new ones are moved to a quarantine after the end)
    hidden names     detected  bubblewrap + launcher (those that are there at the start cannot be read; what appears while it runs is the command's own, and what somebody else replaces meanwhile is told)
    metadata         enforced  bubblewrap
    process list     enforced  bubblewrap
    devices          enforced  bubblewrap
    memory limit     detected  launcher (what is used is counted ten times a second, and the tree is ended; in between it can use more; a writable control group keeps it exactly)
    process limit    enforced  rlimits
    ");
    let plan = Plan::new(&policy, &host(6, false), Requirement::Enforce).unwrap();
    insta::assert_snapshot!(plan, @r"
    mechanism: landlock
    read outside     enforced  landlock
    write outside    enforced  landlock
    execute outside  enforced  landlock
    kernel settings  enforced  landlock
    set-id bits      enforced  seccomp
    network          enforced  seccomp (its own loopback is closed too, since it has no network of its own)
    unix sockets     enforced  seccomp
    descriptors      enforced  launcher
    environment      enforced  launcher
    signals          enforced  landlock
    tracing          enforced  landlock
    terminal input   enforced  seccomp
    kernel surface   enforced  seccomp
    survivors        enforced  landlock + launcher
    protected names  degraded  (only after the end: new ones are moved to a quarantine, changed ones are told; needs a mount layer, such as bubblewrap, to be prevented)
    hidden names     absent    (needs a mount layer, such as bubblewrap)
    metadata         absent    (needs a mount layer, such as bubblewrap)
    process list     absent    (needs a mount layer, such as bubblewrap)
    devices          enforced  landlock
    memory limit     detected  launcher (what is used is counted ten times a second, and the tree is ended; in between it can use more; a writable control group keeps it exactly)
    process limit    detected  launcher (looked at ten times a second, and ended; a writable control group keeps it exactly)
    ");
}

#[test]
fn a_receipt_can_be_stored() {
    let plan = Plan::new(&policy(), &host(7, false), Requirement::Enforce).unwrap();
    let json = serde_json::to_value(plan.entries()).unwrap();
    assert_eq!(
        json[0],
        serde_json::json!({"promise": "read outside", "state": "enforced", "by": ["landlock"]})
    );
}

#[test]
fn an_old_bubblewrap_is_named_where_it_matters() {
    let protect = |policy: PolicyBuilder| policy.protect(".git/hooks");
    let part = |policy: PolicyBuilder| policy.mount("/p/v", "/v", Access::NONE);
    let nothing = |policy: PolicyBuilder| policy;
    let remark = |version: &str, by_descriptor, inside: &dyn Fn(PolicyBuilder) -> PolicyBuilder| {
        let support = Support::assume(HostSpec {
            landlock_abi: 7,
            seccomp: true,
            bubblewrap: Some(version.to_owned()),
            pins_by_descriptor: by_descriptor,
            ..HostSpec::default()
        });
        let policy = Policy::builder().mount("/p", "/", Access::ALL);
        let plan = Plan::new(
            &inside(policy).build().unwrap(),
            &support,
            Requirement::Enforce,
        );
        let plan = plan.unwrap();
        let entry = plan
            .entries()
            .iter()
            .find(|entry| entry.promise == Promise::WriteOutside)
            .unwrap();
        assert_eq!(entry.state, PromiseState::Enforced);
        entry.reason.clone().unwrap_or_default()
    };
    for version in ["0.8.0", "0.11.1", "unknown"] {
        for inside in [&protect as &dyn Fn(_) -> _, &part] {
            let said = remark(version, false, inside);
            assert!(said.contains("CVE-2026-87766"), "{version}");
            // Our own first process makes them.
            assert_eq!(remark(version, true, inside), "");
        }
        // Nothing is made in a tree that others can write.
        assert_eq!(remark(version, false, &nothing), "");
    }
    for version in ["0.12.0", "0.12", "1.0.0"] {
        assert_eq!(remark(version, false, &protect), "", "{version}");
    }
}

#[test]
fn survivors_that_were_asked_for_are_listed_and_no_reason_to_refuse() {
    let left = || {
        let policy = Policy::builder().survivors(Survivors::Left);
        policy.build().expect("a policy")
    };
    let state = |plan: &Plan| {
        let entry = plan
            .entries()
            .iter()
            .find(|e| e.promise == Promise::Survivors);
        entry.map(|entry| (entry.state, entry.reason.clone()))
    };
    let plan = Plan::new(&left(), &host(7, false), Requirement::Enforce).unwrap();
    let request = Some("left by request".to_owned());
    assert_eq!(state(&plan), Some((PromiseState::Absent, request)));
    let plan = Plan::new(&left(), &host(7, true), Requirement::Enforce).unwrap();
    assert_eq!(state(&plan), Some((PromiseState::Enforced, None)));

    // What was not asked for still refuses, and nothing but that is named.
    let refused = Plan::new(&left(), &host(5, false), Requirement::Enforce).unwrap_err();
    let names: Vec<Promise> = refused.gaps().iter().map(|gap| gap.promise).collect();
    assert_eq!(names, [Promise::Signals]);
    let guards = Plan::new(&left(), &host(7, false), Requirement::EnforceGuards).unwrap_err();
    assert!(
        guards
            .gaps()
            .iter()
            .all(|gap| gap.promise != Promise::Survivors)
    );
}

#[test]
fn named_sockets_need_somebody_who_connects_them() {
    let policy = Policy::builder()
        .unix_socket("/run/docker.sock")
        .build()
        .unwrap();
    for (bubblewrap, landlock_abi) in [(true, 7), (true, 0), (false, 7)] {
        let host = |connector: bool| {
            Support::assume(HostSpec {
                landlock_abi,
                seccomp: true,
                bubblewrap: bubblewrap.then(|| "0.12.0".to_owned()),
                connector,
                ..HostSpec::default()
            })
        };
        let plan = Plan::new(&policy, &host(true), Requirement::Enforce).unwrap();
        let line = plan
            .to_string()
            .lines()
            .find(|line| line.starts_with("unix sockets"))
            .map(str::to_owned);
        insta::allow_duplicates! {
            insta::assert_snapshot!(line.unwrap(), @"unix sockets     enforced  seccomp + launcher (but /run/docker.sock)");
        }
        let refused = Plan::new(&policy, &host(false), Requirement::Enforce).unwrap_err();
        assert_eq!(refused.gaps().len(), 1);
        assert_eq!(refused.gaps()[0].promise, Promise::UnixSockets);
        assert!(
            refused.hint().contains("named sockets"),
            "{}",
            refused.hint()
        );
    }
}

#[test]
fn limits_of_a_whole_tree() {
    let state = |assumed: HostSpec, backend: Backend, promise: Promise| {
        let support = Support::assume(HostSpec {
            landlock_abi: 7,
            seccomp: true,
            bubblewrap: Some("0.12.0".to_owned()),
            ..assumed
        });
        let plan =
            Plan::with_mechanism(&policy(), &support, Requirement::BestEffort, backend).unwrap();
        let entry = plan.entries().iter().find(|entry| entry.promise == promise);
        entry.unwrap().to_string()
    };
    let groups = |uid_zero, memory_bytes| HostSpec {
        memory_cgroup: true,
        process_cgroup: true,
        memory_bytes,
        uid_zero,
        ..HostSpec::default()
    };
    let (memory, processes) = (Promise::MemoryLimit, Promise::ProcessLimit);
    let got = [
        state(groups(true, None), Backend::Bubblewrap, memory),
        state(groups(true, Some(8 << 30)), Backend::Landlock, memory),
        state(groups(false, Some(64 << 30)), Backend::None, memory),
        state(groups(true, None), Backend::Bubblewrap, processes),
        state(groups(false, None), Backend::Bubblewrap, processes),
        state(groups(false, None), Backend::Landlock, processes),
        state(
            HostSpec {
                uid_zero: true,
                ..HostSpec::default()
            },
            Backend::Bubblewrap,
            processes,
        ),
        state(
            HostSpec {
                memory_bytes: Some(1 << 30),
                ..HostSpec::default()
            },
            Backend::Landlock,
            memory,
        ),
    ];
    insta::assert_snapshot!(got.join("\n"), @r"
    memory limit     enforced  cgroup
    memory limit     enforced  cgroup (less than was asked for, because the host has no more)
    memory limit     degraded  cgroup (it could leave its group)
    process limit    enforced  cgroup
    process limit    enforced  cgroup + rlimits
    process limit    enforced  cgroup
    process limit    detected  launcher (looked at ten times a second, and ended; a writable control group keeps it exactly)
    memory limit     detected  launcher (what is used is counted ten times a second, and the tree is ended; in between it can use more; a writable control group keeps it exactly; less than was asked for, because the host has no more)
    ");
}

#[test]
fn birdcage_is_there_by_name_and_says_what_it_lacks() {
    let host = |landlock_abi, uid_zero| {
        Support::assume(HostSpec {
            landlock_abi,
            seccomp: true,
            birdcage: true,
            connector: true,
            uid_zero,
            ..HostSpec::default()
        })
    };
    let plan = |policy: &Policy, support: &Support| {
        Plan::with_mechanism(policy, support, Requirement::Enforce, Backend::Birdcage)
    };
    let gaps = |policy: Policy, support: Support| -> Vec<&'static str> {
        match plan(&policy, &support) {
            Ok(_) => Vec::new(),
            Err(refused) => refused
                .gaps()
                .iter()
                .map(|gap| gap.promise.name())
                .collect(),
        }
    };
    // It would keep everything here, and is not taken.
    assert!(plan(&policy(), &host(0, false)).is_ok());
    assert!(Plan::new(&policy(), &host(0, false), Requirement::Enforce).is_err());
    // Its /proc/sys is open to uid 0, unless Landlock closes it.
    assert_eq!(gaps(policy(), host(0, true)), ["kernel settings"]);
    assert!(gaps(policy(), host(1, true)).is_empty());
    let with = |build: fn(PolicyBuilder) -> PolicyBuilder| {
        build(Policy::builder().mount("/p", "/", Access::ALL))
            .build()
            .unwrap()
    };
    let loopback = with(|policy| policy.network(Network::Loopback));
    assert_eq!(gaps(loopback, host(7, false)), ["network"]);
    let named = with(|policy| policy.unix_socket("/run/agent"));
    assert_eq!(gaps(named, host(7, false)), ["unix sockets"]);
    for (access, kept) in [
        (Access::READ | Access::EXECUTE, true),
        (Access::READ, true),
        (Access::READ | Access::WRITE, true),
        (Access::NONE, false),
        (Access::WRITE, false),
    ] {
        let policy = Policy::builder()
            .mount("/p", "/", Access::ALL)
            .mount("/p/v", "/v", access)
            .build()
            .unwrap();
        let open = gaps(policy, host(7, false));
        assert_eq!(!open.contains(&"narrower inside"), kept, "{access:?}");
    }
    let guarded = with(|policy| policy.protect(".git/hooks").hide(".env"));
    insta::assert_snapshot!(plan(&guarded, &host(7, false)).unwrap(), @r"
    mechanism: birdcage
    read outside     enforced  birdcage + landlock
    write outside    enforced  birdcage + landlock (for the command; birdcage, raced by another command in the same directory while it starts, can leave an empty file outside)
    execute outside  enforced  birdcage + landlock
    kernel settings  enforced  birdcage + landlock
    set-id bits      enforced  seccomp
    network          enforced  birdcage + seccomp
    unix sockets     enforced  seccomp
    descriptors      enforced  launcher
    environment      enforced  launcher
    signals          enforced  birdcage + landlock
    tracing          enforced  birdcage + landlock (debuggers do not work: birdcage's own filter refuses ptrace)
    terminal input   enforced  seccomp
    kernel surface   enforced  seccomp
    survivors        enforced  birdcage + launcher
    protected names  detected  birdcage (those that are there cannot be changed; new ones are moved to a quarantine after the end)
    hidden names     absent    (birdcage covers nothing: what lies in a mount that is read can be read)
    metadata         enforced  birdcage
    process list     enforced  birdcage
    devices          enforced  birdcage
    memory limit     detected  launcher (what is used is counted ten times a second, and the tree is ended; in between it can use more; a writable control group keeps it exactly)
    process limit    enforced  rlimits
    ");
    // Where nobody has named its program, it says how.
    let refused = plan(&policy(), &Support::assume(HostSpec::default())).unwrap_err();
    assert!(refused.hint().contains("feature birdcage"));
}
