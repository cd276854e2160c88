//! The property behind every grant: for any declaration, a child holds no right that its parent
//! does not hold. Random ceilings, random chains of declarations.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use crate::grant::confinement::{Confinement, SocketRequest, UnixSockets};
use crate::grant::declaration::{Declaration, ZoneDeclaration};
use crate::grant::file_rules::FileRules;
use crate::grant::front_end::{DefaultAccess, FrontEnd};
use crate::grant::git::Repository;
use crate::grant::limits::{LIMITS, RunLimits};
use crate::grant::mount::{Mode, Mount, Rooted};
use crate::grant::network::NetworkAccess;
use crate::grant::published_ports::PublishedPorts;
use crate::grant::shell::{CommandPattern, CommandRule, ProgramLists, RuleList, ShellRules};
use crate::grant::verdict::{MountApproval, Operation, Verdict, VerdictSetting};
use crate::grant::{EnvironmentGrant, Grant};
use crate::syntax::text::ConfigOrigin;
use sandbox_network::HostPattern;

/// `a/d` is another directory below the mount point of `a`.
const NAMES: [&str; 4] = ["a", "b", "c", "a/d"];
const TOOLS: [&str; 3] = ["read_file", "write_file", "shell"];
const COMMANDS: [&[&str]; 5] = [
    &["grep"],
    &["grep", "-r", "x"],
    &["rm", "x"],
    &["git", "log"],
    &["ls"],
];

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::ReadOnly), Just(Mode::ReadWrite)]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        Just(Verdict::Allow),
        Just(Verdict::Ask),
        Just(Verdict::Block)
    ]
}

fn stated() -> impl Strategy<Value = VerdictSetting> {
    prop_oneof![
        verdict().prop_map(VerdictSetting::Default),
        verdict().prop_map(VerdictSetting::Explicit)
    ]
}

fn published_ports() -> impl Strategy<Value = PublishedPorts> {
    let some = proptest::sample::subsequence(vec![3000u16, 8080, 9090], 0..=3);
    prop_oneof![
        1 => Just(PublishedPorts::Every),
        4 => some.prop_map(|ports| PublishedPorts::Only(ports.into_iter().collect())),
    ]
}

fn network() -> impl Strategy<Value = NetworkAccess> {
    let names = [
        "*.a.com",
        "b.a.com",
        "b.a.com:443",
        "z.org",
        "127.0.0.1:5432",
    ];
    let host =
        proptest::sample::select(names.to_vec()).prop_map(|text| HostPattern::parse(text).unwrap());
    let list = |range| proptest::collection::vec(host.clone(), range);
    prop_oneof![
        1 => Just(NetworkAccess::Denied),
        2 => Just(NetworkAccess::Unrestricted),
        3 => (list(1..4), list(0..3))
            .prop_map(|(allow, deny)| NetworkAccess::hosts_except(allow, deny)),
    ]
}

fn suffixes() -> impl Strategy<Value = Option<Vec<String>>> {
    proptest::option::of(proptest::collection::vec(
        prop_oneof![Just(".md".to_owned()), Just(".csv".to_owned())],
        1..3,
    ))
}

fn limits() -> impl Strategy<Value = RunLimits> {
    let numbers = proptest::collection::vec(proptest::option::of(1..100u64), LIMITS.list.len());
    numbers.prop_map(|numbers| {
        let mut numbers = numbers.into_iter();
        RunLimits::from_numbers(|| numbers.next().flatten())
    })
}

fn tools() -> impl Strategy<Value = Option<Vec<String>>> {
    proptest::option::of(proptest::sample::subsequence(
        TOOLS.to_vec(),
        0..=TOOLS.len(),
    ))
    .prop_map(|tools| tools.map(|tools| tools.into_iter().map(str::to_owned).collect()))
}

fn rules(default: Option<Option<Verdict>>) -> impl Strategy<Value = RuleList> {
    let patterns = prop_oneof![
        Just("grep *"),
        Just("grep"),
        Just("rm *"),
        Just("git (log|show) *"),
        Just("*")
    ];
    let rule = (patterns, verdict()).prop_map(|(pattern, verdict)| CommandRule {
        pattern: CommandPattern::parse(pattern).unwrap(),
        verdict,
        why: None,
        origin: ConfigOrigin::built_in(),
    });
    let fallback = match default {
        Some(fixed) => Just(fixed).boxed(),
        None => proptest::option::of(verdict()).boxed(),
    };
    (proptest::collection::vec(rule, 0..4), fallback).prop_map(|(rules, default)| RuleList {
        rules: rules.into(),
        default,
        programs: ProgramLists::default(),
        origin: ConfigOrigin::built_in(),
    })
}

fn personal_rules() -> impl Strategy<Value = Vec<CommandRule>> {
    rules(Some(None)).prop_map(|list| {
        let allow = |rule: &CommandRule| CommandRule {
            verdict: Verdict::Allow,
            ..rule.clone()
        };
        list.rules.iter().map(allow).collect()
    })
}

fn mount(name: &'static str) -> impl Strategy<Value = Mount> {
    (
        (mode(), any::<bool>()),
        suffixes(),
        proptest::option::of(1..100u64),
        proptest::array::uniform3(stated()),
        any::<bool>(),
    )
        .prop_map(
            move |((mode, staged), suffixes, max_file_bytes, [read, write, delete], usable)| {
                Mount {
                    name: name.to_owned(),
                    target: format!("/{name}"),
                    host: format!("/host/{name}").into(),
                    part: None,
                    anchor: "/host".into(),
                    create: false,
                    mode,
                    staged,
                    suffixes,
                    max_file_bytes,
                    approval: MountApproval {
                        read,
                        write,
                        delete,
                    },
                    usable,
                    file_rules: FileRules::default(),
                    way: Vec::new(),
                    own_files: Vec::new(),
                    outside: false,
                    rooted: Rooted::default(),
                    origin: ConfigOrigin::built_in(),
                    mode_origin: ConfigOrigin::built_in(),
                }
            },
        )
}

fn sockets() -> impl Strategy<Value = UnixSockets> {
    let path = proptest::sample::select(vec!["/run/a.sock", "/run/b.sock"]);
    prop_oneof![
        1 => Just(UnixSockets::Closed),
        1 => Just(UnixSockets::Open),
        3 => proptest::collection::vec(path, 0..3).prop_map(UnixSockets::named),
    ]
}

fn confinement() -> impl Strategy<Value = Confinement> {
    (sockets(), any::<bool>()).prop_map(|(unix_sockets, require_guards)| Confinement {
        unix_sockets,
        require_guards,
        ..Confinement::default()
    })
}

fn repository() -> impl Strategy<Value = (&'static str, Mode)> {
    (
        proptest::sample::select(vec!["https://h/a", "https://h/b", "file:///c"]),
        mode(),
    )
}

fn repositories() -> impl Strategy<Value = Arc<[Repository]>> {
    proptest::collection::btree_map(
        proptest::sample::select(vec!["https://h/a", "https://h/b", "file:///c"]),
        mode(),
        0..3,
    )
    .prop_map(|held| {
        let one = |(address, access): (&str, Mode)| Repository {
            address: address.to_owned(),
            name: address.to_owned(),
            access,
            origin: ConfigOrigin::built_in(),
        };
        held.into_iter().map(one).collect()
    })
}

fn ceiling() -> impl Strategy<Value = Grant> {
    let mounts = proptest::sample::subsequence(NAMES.to_vec(), 0..=NAMES.len())
        .prop_flat_map(|names| names.into_iter().map(mount).collect::<Vec<_>>());
    (
        mounts,
        (network(), published_ports()),
        proptest::option::of((rules(Some(Some(Verdict::Block))), personal_rules())),
        limits(),
        tools(),
        any::<bool>(),
        any::<bool>(),
        confinement(),
        (repositories(), any::<bool>()),
    )
        .prop_map(
            |(
                mounts,
                (network, published_ports),
                shell,
                limits,
                tools,
                require_os_sandbox,
                inherit,
                confinement,
                (repositories, executable_config),
            )| {
                Grant {
                    confinement,
                    repositories,
                    executable_config,
                    front: FrontEnd::Zones,
                    mounts: mounts.into(),
                    network,
                    published_ports,
                    shell: shell.map(|(list, personal)| ShellRules {
                        lists: vec![list],
                        personal: personal.into(),
                    }),
                    environment: Arc::new(EnvironmentGrant {
                        pass: vec!["LANG".into()],
                        set: BTreeMap::new(),
                        session: false,
                    }),
                    limits,
                    require_os_sandbox,
                    tools: tools.map(|tools| Arc::new(tools.into_iter().collect())),
                    protect: [".git/hooks".into()].into(),
                    hide: [".env*".into()].into(),
                    undeclared: if inherit {
                        DefaultAccess::Inherit
                    } else {
                        DefaultAccess::Nothing
                    },
                    ..Grant::empty()
                }
            },
        )
}

fn wish() -> impl Strategy<Value = ZoneDeclaration> {
    let approval = proptest::collection::vec(
        (proptest::sample::select(Operation::ALL.to_vec()), verdict()),
        0..3,
    );
    (
        proptest::sample::select(NAMES.to_vec()),
        mode(),
        any::<bool>(),
        approval,
        suffixes(),
        proptest::option::of(1..100u64),
    )
        .prop_map(|(name, mode, usable, approval, suffixes, max_file_bytes)| {
            let mut wish = ZoneDeclaration::new(name, mode);
            wish.usable = usable;
            wish.suffixes = suffixes.map(|list| (list, None));
            wish.max_file_bytes = max_file_bytes;
            for (operation, verdict) in approval {
                wish = wish.approval(operation, verdict);
            }
            wish
        })
}

fn declaration() -> impl Strategy<Value = Declaration> {
    let mounts = prop_oneof![
        1 => Just(Declaration::undeclared()),
        1 => Just(Declaration::none()),
        2 => Just(Declaration::inherit()),
        4 => proptest::collection::vec(wish(), 0..4).prop_map(Declaration::zones),
    ];
    (
        mounts,
        proptest::option::weighted(0.3, (network(), published_ports())),
        proptest::option::weighted(0.5, proptest::option::of(rules(None))),
        tools(),
        limits(),
        proptest::option::weighted(0.5, proptest::option::weighted(0.6, sockets())),
        proptest::option::weighted(0.3, proptest::collection::vec(repository(), 0..3)),
    )
        .prop_map(
            |(mut declaration, network, shell, tools, limits, sockets, repositories)| {
                if let Some(wishes) = repositories {
                    declaration = declaration.with_repositories(wishes);
                }
                declaration.unix_sockets = sockets.map(|these| {
                    (
                        these.map_or(SocketRequest::Inherit, SocketRequest::These),
                        None,
                    )
                });
                if let Some((access, ports)) = network {
                    declaration.network = Some((access, None));
                    declaration.published_ports = ports;
                }
                declaration.shell = shell.map(|list| (list, None));
                declaration.tools = tools;
                declaration.limits = limits;
                declaration
            },
        )
}

/// Every right, compared one by one.
fn assert_at_most(child: &Grant, parent: &Grant) {
    for mount in child.mounts() {
        let held = parent.mount(mount.name()).expect("a mount from nowhere");
        assert!(mount.mode() <= held.mode());
        assert!(mount.is_staged() || !held.is_staged());
        assert_eq!(mount.host(), held.host());
        assert_eq!(mount.target(), held.target());
        assert_eq!(mount.own_files(), held.own_files());
        for operation in Operation::ALL {
            let (child, parent) = (
                mount.approval.stated(operation).ceiling(),
                held.approval.stated(operation).ceiling(),
            );
            assert!(child >= parent, "{operation} became looser");
        }
        if let Some(held) = held.suffixes() {
            let own = mount.suffixes().expect("suffixes fell away");
            assert!(own.iter().all(|suffix| held.contains(suffix)));
        }
        if let Some(held) = held.max_file_bytes() {
            assert!(mount.max_file_bytes().expect("the size limit fell away") <= held);
        }
    }
    for covering in parent.mounts() {
        if child.mounts().any(|outer| covering.is_nested_in(outer)) {
            let kept = child.mount(covering.name());
            kept.expect("a mount point was uncovered");
        }
    }
    for one in child.repositories() {
        let held = parent.repository(one.address());
        let held = held.expect("a repository from nowhere");
        assert!(one.access() <= held.access());
        assert_eq!(one.name(), held.name());
        let twins = child.repositories().iter();
        let twins = twins.filter(|twin| twin.address() == one.address());
        assert_eq!(twins.count(), 1);
    }
    assert_eq!(
        child.allows_executable_config(),
        parent.allows_executable_config()
    );
    assert!(child.network().is_within(parent.network()));
    let ports = (child.published_ports(), parent.published_ports());
    assert!(ports.0.is_within(ports.1), "{ports:?}");
    let (own, held) = (child.confinement(), parent.confinement());
    assert!(own.unix_sockets().is_within(held.unix_sockets()));
    assert_eq!((own.git(), own.survivors()), (held.git(), held.survivors()));
    assert!(own.requires_guards() >= held.requires_guards());
    if let Some(rules) = child.shell() {
        let held = parent.shell().expect("a shell from nowhere");
        for command in COMMANDS {
            let words: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            assert!(rules.decide(&words).verdict() >= held.decide(&words).verdict());
        }
    }
    assert_eq!(child.limits().meet(*parent.limits()), *child.limits());
    for tool in TOOLS {
        assert!(!child.allows_tool(tool) || parent.allows_tool(tool));
    }
    assert!(child.require_os_sandbox() >= parent.require_os_sandbox());
    assert_eq!(child.execution(), parent.execution());
    assert_eq!(child.environment(), parent.environment());
    assert_eq!(child.approval(), parent.approval());
    assert_eq!(child.protect(), parent.protect());
    assert_eq!(child.hide(), parent.hide());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_chain_only_narrows(ceiling in ceiling(), chain in proptest::collection::vec(declaration(), 1..5)) {
        let mut held = ceiling.clone();
        for declaration in &chain {
            if let Ok(child) = held.child(declaration) {
                assert_at_most(&child, &held);
                assert_at_most(&child, &ceiling);
                held = child;
            }
        }
    }

    /// Fields that no declaration changes are stored once for all workers of a project.
    #[test]
    fn a_child_copies_nothing_that_it_does_not_change(ceiling in ceiling(), declaration in declaration()) {
        if let Ok(child) = ceiling.child(&declaration) {
            prop_assert!(Arc::ptr_eq(&child.protect, &ceiling.protect));
            prop_assert!(Arc::ptr_eq(&child.hide, &ceiling.hide));
            prop_assert!(Arc::ptr_eq(&child.environment, &ceiling.environment));
            prop_assert!(Arc::ptr_eq(&child.approval, &ceiling.approval));
            prop_assert!(Arc::ptr_eq(&child.execution, &ceiling.execution));
            if let (Some(rules), Some(held)) = (child.shell(), ceiling.shell()) {
                for (list, held) in rules.lists.iter().zip(&held.lists) {
                    prop_assert!(Arc::ptr_eq(&list.rules, &held.rules));
                }
            }
        }
    }

    #[test]
    fn the_entry_holds_at_most_the_ceiling(ceiling in ceiling(), declaration in declaration()) {
        if let Ok(entry) = ceiling.entry(&declaration) {
            assert_at_most(&entry, &ceiling);
        }
    }

    #[test]
    fn nothing_declared_is_refused_nothing(ceiling in ceiling()) {
        prop_assert!(ceiling.child(&Declaration::undeclared()).is_ok());
        prop_assert!(ceiling.child(&Declaration::inherit()).is_ok());
        prop_assert!(ceiling.child(&Declaration::none()).is_ok());
    }
}
