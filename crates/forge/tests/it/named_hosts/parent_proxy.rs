//! Named hosts through a parent proxy that the environment names.

use serde_json::Value;

use super::servers;
use super::servers::Servers;
use crate::support::Ran;

const URL: &str = "http://me:s3cret@parent.example:3129";
const CURL: &str = "curl -sS --fail-with-body --max-time 240 ";

fn exec(servers: &Servers, variables: &[(&str, &str)], options: &[&str], script: &str) -> Ran {
    let script = script.replace("CURL ", CURL);
    let command = ["--", "bash", "-c", &script];
    let ran = servers.forge_with(variables, &[&["exec"], options, &command].concat());
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.contains("s3cret") && !text.contains("bWU6"), "{text}");
    }
    ran
}

fn contacts(receipt: &str) -> Vec<String> {
    assert!(
        !receipt.contains("s3cret") && !receipt.contains("bWU6"),
        "{receipt}"
    );
    let receipt: Value = serde_json::from_str(receipt).unwrap();
    let network = receipt["promises"].as_array().unwrap().iter();
    let mut reasons = network.filter_map(|promise| promise["reason"].as_str());
    let said = "through the parent proxy parent.example:3129, which resolves names";
    assert!(reasons.any(|reason| reason.contains(said)), "{receipt:#}");
    let contacts = receipt["contacts"].as_array().unwrap().iter();
    let shown = contacts.map(|one| {
        let (outcome, host) = (
            one["outcome"].as_str().unwrap(),
            one["host"].as_str().unwrap(),
        );
        format!(
            "{outcome} {host} {}",
            one["reason"].as_str().unwrap_or_default()
        )
    });
    shown.collect()
}

#[test]
fn a_name_is_reached_through_the_proxy_that_the_environment_names() {
    let Some(servers) = servers() else { return };
    let receipt = servers.world.outside().join("receipt.json");
    let shown = receipt.to_str().unwrap();
    // A name that only the parent resolves, through both doors.
    let hosts = [
        "--parent-proxy",
        "--host",
        "*.unknown.example",
        "--host",
        "*.internal",
    ];
    let options = [&hosts[..], &["--receipt", shown]].concat();
    let variables = [("HTTPS_PROXY", URL), ("NO_PROXY", "localhost,two.example")];
    let script = "CURL http://a.unknown.example/ && CURL --noproxy '*' http://b.unknown.example/";
    let ran = exec(&servers, &variables, &options, script);
    assert!(ran.stdout.contains("hello of a.unknown.example"), "{ran:?}");
    assert!(ran.stdout.contains("hello of b.unknown.example"), "{ran:?}");
    let note = "warning: hosts are reached through the parent proxy parent.example:3129";
    assert!(ran.stderr.contains(note), "{ran:?}");
    let text = std::fs::read_to_string(&receipt).unwrap();
    let through = "the parent proxy resolved the name; the address is the proxy's";
    assert_eq!(
        contacts(&text),
        [
            format!("connected a.unknown.example {through}"),
            format!("connected b.unknown.example {through}"),
        ]
    );
    let targets = "a.unknown.example:80 True\nb.unknown.example:80 True\n";
    assert_eq!(servers.parent_targets(), targets);
    // The log of the run has no password either.
    let log = servers.forge(&["log", "show", "--json"]);
    assert!(log.stdout.contains("unknown.example"), "{log:?}");
    assert!(!log.stdout.contains("s3cret"), "{log:?}");

    // Decided by name as ever, and refused where the name is one of a private network.
    for (script, said) in [
        (
            "CURL http://two.example/",
            "two.example:80 is refused: no rule names it",
        ),
        (
            "CURL http://10.0.0.5/",
            "10.0.0.5:80 is refused: no rule names it",
        ),
        (
            "CURL http://metadata.internal/",
            "metadata.internal:80 is refused: it is a name of a private network",
        ),
    ] {
        let ran = exec(&servers, &variables, &options, script);
        assert!(ran.stdout.contains(said), "{ran:?}");
    }
    // An exception is connected directly, with the check of its address.
    let excepted = [("https_proxy", URL), ("no_proxy", "private.example")];
    let options = ["--parent-proxy", "--host", "private.example"];
    let ran = exec(
        &servers,
        &excepted,
        &options,
        "CURL http://private.example/",
    );
    assert!(ran.stdout.contains("it resolves to 10.0.0.5"), "{ran:?}");
    assert_eq!(servers.parent_targets(), targets);
}

#[test]
fn a_proxy_is_used_only_if_it_is_asked_for_and_can_be_used() {
    let Some(servers) = servers() else { return };
    let variables = [("HTTPS_PROXY", URL)];
    let ran = exec(
        &servers,
        &variables,
        &["--host", "one.example"],
        "CURL http://one.example/",
    );
    assert!(ran.stdout.contains("hello of one.example"), "{ran:?}");
    assert_eq!(servers.parent_targets(), "");
    // Its name cannot be resolved here.
    let script = "CURL http://a.unknown.example/";
    let ran = exec(
        &servers,
        &variables,
        &["--host", "a.unknown.example"],
        script,
    );
    let hint =
        "hint: HTTPS_PROXY is set; reach hosts through that proxy: forge exec --parent-proxy";
    assert!(ran.stderr.contains(hint), "{ran:?}");

    let named = ["--parent-proxy", "--host", "one.example"];
    let wrong = [("HTTPS_PROXY", "http://me:other@parent.example:3129")];
    let ran = exec(&servers, &wrong, &named, "CURL http://one.example/");
    assert!(
        ran.stdout.contains("the parent proxy asks for credentials"),
        "{ran:?}"
    );
    for (variables, options, said) in [
        (&[][..], &named[..], "missing parent proxy"),
        (
            &[("HTTPS_PROXY", "socks5://me:s3cret@parent.example:1")],
            &named,
            "invalid HTTPS_PROXY: it is not an `http` URL",
        ),
        (
            &[("HTTPS_PROXY", URL)],
            &["--parent-proxy"],
            "--parent-proxy has no effect",
        ),
    ] {
        let ran = exec(&servers, variables, options, "true");
        assert_eq!(ran.code, 125, "{ran:?}");
        assert!(ran.stderr.contains(said), "{ran:?}");
    }
}

const PLAYBOOK: &str = r#"
version: 1
workers:
  main:
    - calls:
        - { tool: shell, args: { command: "curl -sS http://a.unknown.example/" }, as: reached }
    - expect: []
      say: "{{ results.reached.content }}"
"#;

#[test]
fn a_worker_reaches_a_name_through_the_proxy_and_a_warning_says_so() {
    let Some(servers) = servers() else { return };
    let world = &servers.world;
    world.write(
        "forge.yaml",
        "sandbox: { root: . }\nmodel: scripted:play.yaml\n\
         network: { allow: [a.unknown.example] }\n\
         shell: { rules: [{ pattern: 'curl *', approval: preApproved }] }\n",
    );
    world.write("play.yaml", PLAYBOOK);
    world.write(
        "workers/main.worker",
        "---\nname: main\nshell: {}\n---\nGo.\n",
    );
    let variables = [("HTTPS_PROXY", URL)];
    let warning = "warning: hosts are reached through the parent proxy parent.example:3129";
    let told = |ran: &Ran| format!("{}{}", ran.stdout, ran.stderr);
    let without = servers.forge_with(&variables, &["--trust", "run", "--yes"]);
    assert!(!told(&without).contains("hello of"), "{without:?}");
    assert!(!told(&without).contains(warning), "{without:?}");
    let run = ["--trust", "run", "--yes", "--parent-proxy"];
    let ran = servers.forge_with(&variables, &run);
    assert!(ran.stdout.contains("hello of a.unknown.example"), "{ran:?}");
    assert!(ran.stderr.contains(warning), "{ran:?}");
    let call = ["--trust", "tools", "call", "shell", "--parent-proxy"];
    let input = r#"{"command": "curl -sS http://a.unknown.example/"}"#;
    let called = servers.forge_with(&variables, &[&call[..], &[input]].concat());
    assert!(
        told(&called).contains("hello of a.unknown.example"),
        "{called:?}"
    );
    let audit = super::decisions::audit(&servers);
    let through = "the parent proxy resolved the name";
    assert!(audit.contains(through), "{audit}");
    for text in [told(&ran), told(&called), audit] {
        assert!(!text.contains("s3cret") && !text.contains("bWU6"), "{text}");
    }
    // Asked for, and not to be had.
    let ran = servers.forge_with(&[], &run);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("missing parent proxy"), "{ran:?}");
}
