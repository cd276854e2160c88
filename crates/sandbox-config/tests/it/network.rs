//! `network` with lists of hosts: its keys, their mistakes, and which line decides about a host.

use std::collections::BTreeSet;

use os_sandbox::Network;
use sandbox_config::{
    AccessQuery, GrantChain, NetworkAccess, PersonalRules, Project, TrustedSettings, Verdict, load,
};

use crate::support::Scratch;

const CONFIG: &str = "\
network:
  allow: [\"*.example.org\", \"example.com:8443\"]
  deny: [ads.example.org, \"www.example.org:80\"]
  loopback_out: [\"127.0.0.1:5432\"]
";

fn trusted(scratch: &Scratch) -> Project {
    let mut sources = scratch.sources();
    sources.trust = TrustedSettings::Given;
    load(&sources).unwrap()
}

/// Returns the diagnostics of a project file, the warnings of one without a mistake included.
fn told(text: &str) -> String {
    let scratch = Scratch::with_config(text);
    let mut sources = scratch.sources();
    sources.trust = TrustedSettings::Given;
    match load(&sources) {
        Err(mistakes) => mistakes.to_string(),
        Ok(project) => {
            let warnings: Vec<String> = project
                .warnings()
                .iter()
                .map(|one| one.to_string())
                .collect();
            warnings.join("\n\n")
        }
    }
}

#[test]
fn the_lists_arrive_in_the_policy() {
    let scratch = Scratch::with_config(CONFIG);
    let project = trusted(&scratch);
    let policy = project.ceiling().policy().unwrap();
    let Network::Hosts(hosts) = policy.network() else {
        panic!("{:?}", policy.network());
    };
    assert_eq!(
        hosts.patterns(),
        ["example.com:8443", "*.example.org", "127.0.0.1:5432",]
    );
    assert_eq!(hosts.denied(), ["ads.example.org", "www.example.org:80"]);
    assert_eq!(hosts.ports().collect::<Vec<_>>(), [22, 80, 443, 8443]);
    let addresses: Vec<String> = hosts.addresses().map(|one| one.to_string()).collect();
    assert_eq!(addresses, ["127.0.0.1:5432"]);
}

/// A service of the loopback is one grant, whichever key names it.
#[test]
fn loopback_out_is_another_spelling() {
    for (one, other) in [
        (
            "network: { loopback_out: ['127.0.0.1:5432'] }",
            "network: { allow: ['127.0.0.1:5432'] }",
        ),
        (
            "network: { loopback_out: ['LOCALHOST:1', '[0::1]:2', '127.9.9.9:3'] }",
            "network: { allow: ['localhost:1', '[::1]:2', '127.9.9.9:3'] }",
        ),
        (
            "network: { loopback_out: ['localhost:1'], deny: ['[::1]:1'] }",
            "network: { allow: ['localhost:1'], deny: ['[::1]:1'] }",
        ),
    ] {
        let access = |text: &str| {
            let scratch = Scratch::with_config(text);
            let project = trusted(&scratch);
            assert_eq!(told(text), "", "{text}");
            project.ceiling().network().clone()
        };
        assert_ne!(access(one), NetworkAccess::Denied, "{one}");
        assert_eq!(access(one), access(other), "{one}");
    }
}

#[test]
fn lists_that_allow_nothing_are_told() {
    insta::assert_snapshot!(told("network:\n  allow: [a.org, x.b.org]\n  deny: [a.org, \"*.b.org\"]\n"), @r#"
    warning[config.no_effect]: `network.deny` names every host of `network.allow`, so no host is allowed
      --> golem-forge.config.yaml:3:10
       |
     3 |   deny: [a.org, "*.b.org"]
       |          ^^^^^
       = help: `network: false` says so
    "#);
    insta::assert_snapshot!(told("network: { deny: [a.org] }\n"), @r#"
    warning[config.no_effect]: `network` allows no host
      --> golem-forge.config.yaml:1:10
       |
     1 | network: { deny: [a.org] }
       |          ^
       = help: `network: false` says so
    "#);
    insta::assert_snapshot!(told("network: {}\n"), @r#"
    warning[config.no_effect]: `network` allows no host
      --> golem-forge.config.yaml:1:10
       |
     1 | network: {}
       |          ^
       = help: `network: false` says so
    "#);
}

/// A port beside its own host on every port is one that only the proxy reaches.
#[test]
fn a_port_without_a_listener_is_told() {
    for (list, lost) in [
        ("[one.test, 'one.test:2200']", true),
        ("['*.test', 'one.test:2200']", true),
        ("[one.test, 'one.test:443']", false),
        ("['one.test:443', 'one.test:2200']", false),
        ("['*.test:2200', 'one.test:2200']", false),
        ("[two.test, 'one.test:2200']", false),
    ] {
        let told = told(&format!("network: {{ allow: {list} }}\n"));
        let text = "which programs that use no proxy reach on 22, 80 and 443 only";
        assert_eq!(told.contains(text), lost, "{list}: {told}");
    }
}

#[test]
fn more_listeners_than_a_command_gets_are_an_error() {
    let ports = |count: u16| {
        let hosts: Vec<String> = (0..count)
            .map(|at| format!("\"a.org:{}\"", 1000 + at))
            .collect();
        format!("network:\n  allow: [{}]\n", hosts.join(", "))
    };
    assert_eq!(told(&ports(32)), "");
    let error = told(&ports(33));
    assert!(
        error.contains("`network` names more than 32 ports"),
        "{error}"
    );
    assert!(error.contains("too_complex"), "{error}");
    let addresses = |count: u16| {
        let services: Vec<String> = (0..count)
            .map(|at| format!("    - localhost:{}\n", 1000 + at))
            .collect();
        format!("network:\n  loopback_out:\n{}", services.concat())
    };
    assert_eq!(told(&addresses(8)), "");
    insta::assert_snapshot!(told(&addresses(9)), @r#"
    error[config.too_complex]: `network` names more than 16 addresses
       --> golem-forge.config.yaml:11:7
        |
     11 |     - localhost:1008
        |       ^^^^^^^^^^^^^^
        = help: `localhost` counts as two addresses: name fewer of them
    "#);
}

#[test]
fn ports_that_cannot_be_published_are_told() {
    let taken = "network:\n  allow: [\"a.org:8080\"]\n  loopback_out: [\"localhost:9090\"]\n  \
                 loopback_in: [8080, 9090, 3000]\n";
    insta::assert_snapshot!(told(taken), @r"
    error[config.bad_value]: 8080 cannot be published: it is a port of an allowed host
      --> golem-forge.config.yaml:4:17
       |
     4 |   loopback_in: [8080, 9090, 3000]
       |                 ^^^^
       = help: commands connect to that host on it and cannot listen there: publish another port

    error[config.bad_value]: 9090 cannot be published: it is a port of an allowed host
      --> golem-forge.config.yaml:4:23
       |
     4 |   loopback_in: [8080, 9090, 3000]
       |                       ^^^^
       = help: commands connect to that host on it and cannot listen there: publish another port
    ");
    let single = told("network: { loopback_in: 8080 }\n");
    assert!(single.contains("must be a list"), "{single}");
    let ports: Vec<String> = (0..17).map(|at| (3000 + at).to_string()).collect();
    let listed = |count: usize| {
        told(&format!(
            "network: {{ loopback_in: [{}] }}\n",
            ports[..count].join(", ")
        ))
    };
    assert_eq!(listed(16), "");
    let error = listed(17);
    assert!(error.contains("names more than 16 ports"), "{error}");
}

#[test]
fn a_worker_publishes_what_its_caller_does() {
    let worker = |name: &str, network: &str| {
        format!("---\nname: {name}\nsandbox: inherit\nnetwork: {network}\n---\nWork.\n")
    };
    let scratch = Scratch::with_config("network: { loopback_in: [3000, 8080] }\n")
        .file(
            "workers/less.worker",
            worker("less", "{ loopback_in: [8080] }"),
        )
        .file(
            "workers/more.worker",
            worker("more", "{ loopback_in: [8080, 9090] }"),
        )
        .file("workers/off.worker", worker("off", "false"));
    let project = trusted(&scratch);
    let grant = |name: &str| {
        let worker = project.worker(name).unwrap();
        project.ceiling().child(worker.declaration())
    };
    let ports = |name: &str| {
        grant(name)
            .unwrap()
            .published_ports()
            .list()
            .collect::<Vec<_>>()
    };
    assert_eq!(ports("less"), [8080]);
    assert!(ports("off").is_empty());
    let policy = grant("less").unwrap().policy_as_written().unwrap();
    assert!(policy.published_ports().iter().eq(&[8080]));
    let refused = grant("more").unwrap_err();
    insta::assert_snapshot!(refused.for_person(), @r"
    error[worker.exceeds_parent]: Child requests published ports 9090 but parent doesn't have them
      --> workers/more.worker:4:10
       |
     4 | network: { loopback_in: [8080, 9090] }
       |          ^
       = note: the parent publishes: 3000, 8080
    ");
    let sentence = "Child requests published ports 9090 but parent doesn't have them";
    assert_eq!(refused.for_model(), sentence);
    let missing = project.ceiling().excess_over(&grant("off").unwrap());
    assert!(
        missing.contains(&"no published ports".to_owned()),
        "{missing:?}"
    );
}

/// The project's list and the user's hosts for it are each within the bound, and not together.
#[test]
fn more_listeners_in_all_lists_together_are_an_error() {
    let on_ports = |from: u16, host: fn(u16) -> String| -> Vec<String> {
        (from..from + 20).map(host).collect()
    };
    let list = on_ports(1000, |port| format!("\"a.org:{port}\""));
    let rules = on_ports(2000, |port| format!("host:b.org:{port}\n")).concat();
    let scratch = Scratch::with_config(&format!("network: {{ allow: [{}] }}\n", list.join(", ")));
    assert!(trusted(&scratch).ceiling().policy().is_ok());
    let mut sources = scratch.sources();
    sources.trust = TrustedSettings::Given;
    let of_user = tempfile::tempdir().unwrap();
    let file = of_user
        .path()
        .join(PersonalRules::file_name(&scratch.path()));
    std::fs::write(file, rules).unwrap();
    sources.personal_rules = Some(of_user.path().to_owned());
    let error = load(&sources).unwrap().ceiling().policy().unwrap_err();
    assert!(error.to_string().contains("name 40 ports"), "{error}");
}

#[test]
fn a_host_is_decided_by_a_line() {
    let worker = "---\nsandbox: inherit\nnetwork:\n  allow: [\"*.example.org\"]\n  deny: [b.example.org]\n---\n";
    let scratch = Scratch::with_config(CONFIG).file("workers/w.worker", worker);
    let project = trusted(&scratch);
    let workers = project.workers().unwrap();
    let chain = GrantChain::from_project(&project)
        .entry(&workers[0])
        .unwrap();
    let table = |name: &str, port: u16| -> String {
        let query = AccessQuery::Host {
            name: name.into(),
            port,
        };
        let row = |answer: &sandbox_config::AccessAnswer| {
            let at = answer.origin.as_ref().map(ToString::to_string);
            let (who, verdict, rule) = (&answer.who, answer.verdict, &answer.rule);
            format!(
                "{name}:{port} {who}: {verdict} ({rule}) {}\n",
                at.unwrap_or_default()
            )
        };
        chain.ask(&query).iter().map(row).collect()
    };
    let hosts = [
        ("a.example.org", 443),
        ("ads.example.org", 443),
        ("b.example.org", 443),
        ("www.example.org", 80),
        ("example.com", 8443),
        ("127.0.0.1", 5432),
        ("elsewhere.org", 443),
        ("not a host", 443),
    ];
    let rows: String = hosts
        .into_iter()
        .map(|(name, port)| table(name, port))
        .collect();
    insta::assert_snapshot!(rows, @r#"
    a.example.org:443 the project: preApproved (network.allow: *.example.org) golem-forge.config.yaml:2:11
    a.example.org:443 w: preApproved (network.allow: *.example.org) workers/w.worker:4:11
    ads.example.org:443 the project: blocked (network.deny: ads.example.org) golem-forge.config.yaml:3:10
    ads.example.org:443 w: blocked (network.deny: ads.example.org, inherited) workers/w.worker:4:3
    b.example.org:443 the project: preApproved (network.allow: *.example.org) golem-forge.config.yaml:2:11
    b.example.org:443 w: blocked (network.deny: b.example.org) workers/w.worker:5:10
    www.example.org:80 the project: blocked (network.deny: www.example.org:80) golem-forge.config.yaml:3:27
    www.example.org:80 w: blocked (network.deny: www.example.org:80, inherited) workers/w.worker:4:3
    example.com:8443 the project: preApproved (network.allow: example.com:8443) golem-forge.config.yaml:2:28
    example.com:8443 w: blocked (`network.allow` does not name it: *.example.org but not ads.example.org, b.example.org, www.example.org:80) workers/w.worker:4:3
    127.0.0.1:5432 the project: preApproved (network.loopback_out: 127.0.0.1:5432) golem-forge.config.yaml:4:18
    127.0.0.1:5432 w: blocked (`network.allow` does not name it: *.example.org but not ads.example.org, b.example.org, www.example.org:80) workers/w.worker:4:3
    elsewhere.org:443 the project: blocked (`network.allow` does not name it: example.com:8443, *.example.org, 127.0.0.1:5432 but not ads.example.org, www.example.org:80) golem-forge.config.yaml:2:3
    elsewhere.org:443 w: blocked (`network.allow` does not name it: *.example.org but not ads.example.org, b.example.org, www.example.org:80) workers/w.worker:4:3
    not a host:443 the project: blocked (`network.allow` does not name it: example.com:8443, *.example.org, 127.0.0.1:5432 but not ads.example.org, www.example.org:80) golem-forge.config.yaml:2:3
    not a host:443 w: blocked (`network.allow` does not name it: *.example.org but not ads.example.org, b.example.org, www.example.org:80) workers/w.worker:4:3
    "#);
}

/// A worker that asks for what its caller names gets it, without what the caller denies; only a
/// name that is denied as a whole is asked for in vain.
#[test]
fn denials_are_inherited() {
    let scratch = Scratch::with_config(CONFIG);
    let ceiling = trusted(&scratch).ceiling().clone();
    let asks = |list: &[&str]| {
        let patterns = list
            .iter()
            .map(|text| sandbox_config::HostPattern::parse(text).unwrap());
        let wish = NetworkAccess::hosts(patterns);
        ceiling.child(&sandbox_config::Declaration::inherit().with_network(wish))
    };
    let child = asks(&["*.example.org"]).unwrap();
    assert_eq!(
        child.network().to_string(),
        "*.example.org but not ads.example.org, www.example.org:80"
    );
    assert!(child.network().is_within(ceiling.network()));
    assert_eq!(
        asks(&["www.example.org"]).unwrap().network().to_string(),
        "www.example.org but not ads.example.org, www.example.org:80"
    );
    insta::assert_snapshot!(asks(&["ads.example.org", "x.example.org"]).unwrap_err().for_model(), @r#"
    Child requests network access to 'ads.example.org' but parent doesn't have it
    Allowed hosts: example.com:8443, *.example.org, 127.0.0.1:5432 but not ads.example.org, www.example.org:80
    "#);
}

/// A yes is bound to both lists: what the file denied at that time stays denied without another.
#[test]
fn a_yes_does_not_cover_what_was_denied() {
    let holds = |then: &str, now: &str| {
        let scratch = Scratch::with_config(then);
        let mut sources = scratch.sources();
        let settings = load(&sources).unwrap();
        let hashes: BTreeSet<String> = settings
            .privileged_settings()
            .iter()
            .map(|key| key.hash().to_owned())
            .collect();
        sources.trust = TrustedSettings::Store(hashes);
        let _scratch = scratch.file(crate::support::CONFIG, now);
        *load(&sources).unwrap().ceiling().network() != NetworkAccess::Denied
    };
    assert!(holds(CONFIG, CONFIG));
    assert!(holds(CONFIG, &format!("name: other\n{CONFIG}")));
    assert!(!holds(CONFIG, &CONFIG.replace("ads.example.org, ", "")));
    assert!(!holds(
        CONFIG,
        &CONFIG.replace("127.0.0.1:5432", "127.0.0.1:5433")
    ));
    let published = |ports: &str| format!("{CONFIG}  loopback_in: [{ports}]\n");
    assert!(holds(&published("8080"), &published("8080")));
    assert!(!holds(CONFIG, &published("8080")));
    assert!(!holds(&published("8080"), &published("8080, 9090")));
    // Denials alone widen nothing.
    let scratch = Scratch::with_config("network: { deny: [a.org] }\n");
    assert_eq!(scratch.load().unwrap().privileged_settings().len(), 0);
}

#[test]
fn the_fingerprint_has_both_lists() {
    let of = |text: &str| trusted(&Scratch::with_config(text)).ceiling().facts();
    let before = of(CONFIG);
    for (from, to) in [
        ("ads.example.org", "x.example.org"),
        ("5432", "5433"),
        ("*.example.org", "*.example.net"),
    ] {
        let after = of(&CONFIG.replace(from, to));
        assert_ne!(before["network"], after["network"], "{from}");
    }
    let project = trusted(&Scratch::with_config(CONFIG));
    let query = AccessQuery::Host {
        name: "ads.example.org".into(),
        port: 443,
    };
    let answer = GrantChain::from_project(&project).decisive(&query);
    assert_eq!(answer.verdict, Verdict::Block);
}

/// A person is asked about no host that a list denies, whichever list allows nothing, and only within
/// the person's own file.
#[test]
fn the_hosts_that_may_be_asked_about_are_bounded() {
    let worker = |name: &str, network: &str| {
        format!("---\nname: {name}\nsandbox: inherit\nnetwork: {network}\n---\n")
    };
    let scratch = Scratch::with_config(CONFIG)
        .file(
            "workers/a.worker",
            worker("a", "{ allow: [\"*.example.org\"], deny: [b.org] }"),
        )
        .file(
            "user.yaml",
            "network: { allow: [\"*.org\"], deny: [c.org] }\n",
        );
    let mut sources = scratch.sources();
    sources.trust = TrustedSettings::Given;
    let contains = |grant: &sandbox_config::Grant, host: &str| {
        let host = sandbox_network::Host::parse(host).unwrap();
        grant.askable_hosts().contains(&host, 443)
    };
    let project = load(&sources).unwrap();
    let worker = project.worker("a").unwrap();
    let held = project.entry_grant(&worker).unwrap();
    let ceiling = project.ceiling();
    for (host, of_project, of_worker) in [
        ("new.org", true, true),
        ("b.org", true, false),
        ("ads.example.org", false, false),
        ("192.0.2.1", false, false),
        ("localhost", false, false),
    ] {
        assert_eq!(contains(ceiling, host), of_project, "{host}");
        assert_eq!(contains(&held, host), of_worker, "{host}");
    }
    sources.user_file = Some(scratch.path().join("user.yaml"));
    let project = load(&sources).unwrap();
    for (host, expected) in [
        ("new.org", true),
        ("new.com", false),
        ("c.org", false),
        ("ads.example.org", false),
    ] {
        assert_eq!(contains(project.ceiling(), host), expected, "{host}");
    }
    // A list that allows nothing still denies.
    let denies = Scratch::with_config("network: { deny: [a.org] }\n");
    let project = trusted(&denies);
    assert!(!contains(project.ceiling(), "a.org") && contains(project.ceiling(), "b.org"));
}

/// The person's rules lift no denial of a project whose list allows nothing.
#[test]
fn rules_of_a_person_lift_no_denial() {
    let scratch = Scratch::with_config("network: { deny: [a.org] }\n");
    let of_user = tempfile::tempdir().unwrap();
    let file = of_user
        .path()
        .join(PersonalRules::file_name(&scratch.path()));
    std::fs::write(file, "host:a.org\nhost:b.org\n").unwrap();
    let mut sources = scratch.sources();
    sources.personal_rules = Some(of_user.path().to_owned());
    let project = load(&sources).unwrap();
    assert_eq!(
        project.ceiling().network().to_string(),
        "b.org but not a.org"
    );
}

#[test]
fn a_port_alone_and_keys_at_the_top_are_corrected() {
    for (text, says) in [
        (
            "network: { loopback_out: ['5432'] }\n",
            "write `localhost:5432`",
        ),
        (
            "network: { loopback_out: [5432] }\n",
            "`network.loopback_out[0]` must be a string",
        ),
        (
            "network: { allow: 5432 }\n",
            "`network.allow` must be a list",
        ),
        ("allow: [example.com]\n", "`network: { allow: "),
        ("hide: [x]\n", "did you mean `sandbox.hide`?"),
    ] {
        let told = told(text);
        assert!(told.contains(says), "{text}: {told}");
    }
}
