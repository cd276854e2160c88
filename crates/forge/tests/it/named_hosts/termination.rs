//! Keys that stay outside for programs that speak TLS to their server: `forge exec --terminate-tls`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::servers::{Servers, find_program};
use super::{servers, skipped};
use crate::support::Ran;

const KEY: &str = "sk-real-0123456789-of-the-person";
const PRESET: &str = "\
preset: mine
about: a test
commands: [sh]
hosts: { api: [\"two.example:443\"] }
env: { keys: [TEST_API_KEY] }
credentials:
  - { key: TEST_API_KEY, server: \"https://one.example\", header: authorization, placeholder: sk-real-placeholder }
";
/// Without the proxy.
const DIRECT: &str = "unset $(env | cut -d= -f1 | grep -i _proxy); ";

/// A program, and a script in which it shows its key to the server.
const PROGRAMS: [(&str, &str); 5] = [
    (
        "curl",
        "curl -sS -m 60 -H \"Authorization: Bearer $TEST_API_KEY\" https://one.example/key",
    ),
    (
        "python3",
        "python3 -c 'import os, urllib.request as u
key = {\"Authorization\": \"Bearer \" + os.environ[\"TEST_API_KEY\"]}
print(u.urlopen(u.Request(\"https://one.example/key\", headers=key)).read().decode())'",
    ),
    (
        "node",
        "node -e 'const headers = { authorization: \"Bearer \" + process.env.TEST_API_KEY };
require(\"https\").get(\"https://one.example/key\", { headers }, r => r.pipe(process.stdout))'",
    ),
    (
        "git",
        "git -c http.extraHeader=\"Authorization: Bearer $TEST_API_KEY\" \
         ls-remote https://one.example/key 2>&1 | grep -q 'not valid\\|not found' && echo noted",
    ),
    (
        "openssl",
        "printf 'GET /key HTTP/1.1\\r\\nHost: one.example\\r\\nAuthorization: Bearer %s\\r\\n\
         Connection: close\\r\\n\\r\\n' \"$TEST_API_KEY\" | openssl s_client -quiet -verify_return_error \
         -connect one.example:443 -servername one.example 2>/dev/null",
    ),
];

struct Bench {
    servers: Servers,
    ca: String,
}

impl Bench {
    fn new() -> Option<Bench> {
        let servers = servers()?;
        let home = servers.world.outside().join("home/.config/forge/presets");
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("mine.yaml"), PRESET).unwrap();
        // Commands write in the project.
        let ca = servers.world.outside().join("own-ca.crt");
        fs::copy(servers.world.project().join("ca.crt"), &ca).unwrap();
        let ca = ca.display().to_string();
        Some(Bench { servers, ca })
    }

    fn exec(&self, flags: &[&str], script: &str) -> Ran {
        let fixed = [
            "--json",
            "exec",
            "--preset",
            "mine",
            "--share",
            "--timeout",
            "300",
        ];
        let args = [&fixed, flags, &["--", "bash", "-c", script]].concat();
        let variables = [("SSL_CERT_FILE", &*self.ca), ("TEST_API_KEY", KEY)];
        self.servers.forge_with(&variables, &args)
    }

    /// Returns the keys that the server has seen since the last question.
    fn keys(&self) -> String {
        let file = self.servers.world.outside().join("own/keys");
        let seen = fs::read_to_string(&file).unwrap_or_default();
        let _ = fs::remove_file(&file);
        seen
    }
}

fn report(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}{}", ran.stdout, ran.stderr))
}

fn output(report: &Value) -> String {
    let text = |stream: &str| report[stream]["text"].as_str().unwrap().to_owned();
    text("stdout") + &text("stderr")
}

#[test]
fn programs_use_a_key_that_they_never_get() {
    let Some(bench) = Bench::new() else { return };
    for (program, script) in PROGRAMS {
        if find_program(program, &bench.servers.path).is_none() {
            skipped(&format!("{program} is not installed"));
            continue;
        }
        for mechanism in ["namespaces", "bubblewrap"] {
            // The second knows no proxy, and some programs never use one.
            for door in ["", DIRECT] {
                let script = format!("{door}{script}; env; cat /proc/*/environ");
                let flags = ["--terminate-tls", "--mechanism", mechanism];
                let ran = bench.exec(&flags, &script);
                let told = report(&ran);
                let all = format!("{mechanism}, {program}: {door}\n{}", output(&told));
                assert!(output(&told).contains("noted"), "{all}");
                assert!(!output(&told).contains(KEY), "{all}");
                let keys = bench.keys();
                assert!(!keys.is_empty(), "{all}");
                assert!(
                    keys.lines().all(|line| line == format!("Bearer {KEY}")),
                    "{all}{keys}"
                );
                let key = &told["enforcement"]["presets"]["keys"][0];
                assert_eq!(
                    (&key["outside"], &key["terminates_tls"]),
                    (&true.into(), &true.into())
                );
            }
        }
    }
}

/// A server whose TLS does not end at forge, a program that does not trust the authority, and commands
/// that have no network of their own.
#[test]
fn what_cannot_stay_outside_is_told() {
    let Some(bench) = Bench::new() else { return };
    let terminate = ["--terminate-tls", "--mechanism", "namespaces"];
    let curl = "curl -sS -m 60 -H \"Authorization: Bearer $TEST_API_KEY\"";

    // Another server sees the placeholder, over its own TLS.
    let other = bench.exec(&terminate, &format!("{curl} https://two.example/key"));
    assert!(
        output(&report(&other)).contains("noted"),
        "{}",
        other.stdout
    );
    assert_eq!(bench.keys(), "Bearer sk-real-placeholder\n");

    // A key of the command's own does not get out by the server.
    let own = bench.exec(
        &terminate,
        "curl -sS -H 'X-Api-Key: mine' https://one.example/key",
    );
    let told = report(&own);
    assert!(
        output(&told).contains("does not show the placeholder"),
        "{}",
        own.stdout
    );
    assert_eq!(bench.keys(), "");

    // A program with authorities of its own: forge's certificate is for nobody else.
    let distrusting = format!("{curl} --cacert {} https://one.example/key", bench.ca);
    let told = report(&bench.exec(&terminate, &distrusting));
    assert!(output(&told).contains("certificate"), "{told:#}");
    let contacts = told["enforcement"]["contacts"].to_string();
    assert!(
        contacts.contains("did not complete TLS with forge"),
        "{contacts}"
    );
    assert_eq!(bench.keys(), "");

    // Without the option it is handed in, and that is said.
    let inside = bench.exec(&["--mechanism", "namespaces"], "echo \"got $TEST_API_KEY\"");
    assert!(
        output(&report(&inside)).contains(&format!("got {KEY}")),
        "{}",
        inside.stdout
    );
    let without_json = ["exec", "--preset", "mine", "--share", "--", "true"];
    let variables = [("TEST_API_KEY", KEY)];
    let said = bench.servers.forge_with(&variables, &without_json);
    said.says(&["TEST_API_KEY is handed in", "--terminate-tls"]);
    let without_key = [
        "exec",
        "--preset",
        "mine",
        "--share",
        "--terminate-tls",
        "--",
        "true",
    ];
    let said = bench.servers.forge_with(&[], &without_key);
    said.says(&["--terminate-tls has no effect"]);

    // Commands cannot change what others would trust, and nothing is left in the state directory.
    let state = bench.servers.world.outside();
    let told = report(&bench.exec(&terminate, "echo x >> \"$SSL_CERT_FILE\""));
    assert!(output(&told).contains("Read-only"), "{told:#}");
    let left = walk(state, "authority-");
    assert_eq!(left, Vec::<String>::new());
}

/// Returns the paths below a directory with a name that begins like this.
fn walk(top: &std::path::Path, start: &str) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(top) else {
        return found;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.starts_with(start) {
            found.push(path.display().to_string());
        }
        let about = path.symlink_metadata();
        if about.is_ok_and(|about| about.is_dir() && about.permissions().mode() & 0o700 == 0o700) {
            found.extend(walk(&path, start));
        }
    }
    found
}
