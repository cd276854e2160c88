//! The hosts that a command reaches, by the proxy and by plain connections, and the texts about the
//! others.

use super::servers::Servers;
use super::{servers, skipped};

/// A command, and the outcome through each of the two doors.
struct Row {
    about: &'static str,
    hosts: &'static [&'static str],
    /// `CURL` is curl with the options of the door.
    script: &'static str,
    succeeds: bool,
    proxied: Option<Expected>,
    direct: Option<Expected>,
}

#[derive(Clone, Copy)]
struct Expected {
    /// Texts in the command's output.
    output: &'static [&'static str],
    contacts: &'static [&'static str],
}

const CURL: &str = "curl -sS --fail-with-body --max-time 240 --cacert ca.crt";

const fn row(about: &'static str, hosts: &'static [&'static str], script: &'static str) -> Row {
    Row {
        about,
        hosts,
        script,
        succeeds: false,
        proxied: None,
        direct: None,
    }
}

impl Row {
    /// Both doors reach it.
    const fn reaches(
        mut self,
        output: &'static [&'static str],
        contacts: &'static [&'static str],
    ) -> Row {
        let expected = Some(Expected { output, contacts });
        self.succeeds = true;
        self.proxied = expected;
        self.direct = expected;
        self
    }

    const fn proxied(
        mut self,
        output: &'static [&'static str],
        contacts: &'static [&'static str],
    ) -> Row {
        self.proxied = Some(Expected { output, contacts });
        self
    }

    const fn direct(
        mut self,
        output: &'static [&'static str],
        contacts: &'static [&'static str],
    ) -> Row {
        self.direct = Some(Expected { output, contacts });
        self
    }
}

const ONE: &[&str] = &["one.example"];

const REACHED: &[Row] = &[
    row("a name", ONE, "CURL http://one.example/").reaches(
        &["hello of one.example"],
        &["connected one.example:80 at 93.184.215.14 by one.example"],
    ),
    row("a name, by TLS", ONE, "CURL https://one.example/").reaches(
        &["hello of one.example"],
        &["connected one.example:443 at 93.184.215.14 by one.example"],
    ),
    row(
        "another port",
        &["one.example:8080"],
        "CURL http://one.example:8080/",
    )
    .reaches(
        &["hello of one.example:8080"],
        &["connected one.example:8080 at 93.184.215.14 by one.example:8080"],
    ),
    row(
        "case and a final dot",
        &["ONE.Example."],
        "CURL http://oNe.eXample/",
    )
    .reaches(
        &["hello of "],
        &["connected one.example:80 at 93.184.215.14 by one.example"],
    ),
    row(
        "by IPv4 inside",
        &["six.example"],
        "CURL -4 http://six.example/",
    )
    .reaches(
        &["hello of six.example"],
        &["connected six.example:80 at 2a00:1450::5 by six.example"],
    ),
    row("by IPv6 inside", ONE, "CURL -6 http://one.example/")
        .direct(
            &["hello of one.example"],
            &["connected one.example:80 at 93.184.215.14 by one.example"],
        )
        .succeeding(),
    row(
        "names below a name",
        &["*.one.example"],
        "CURL http://www.one.example/ && CURL http://deep.www.one.example/",
    )
    .reaches(
        &["hello of www.one.example", "hello of deep.www.one.example"],
        &[
            "connected deep.www.one.example:80 at 93.184.215.14 by *.one.example",
            "connected www.one.example:80 at 93.184.215.14 by *.one.example",
        ],
    ),
    row(
        "an address",
        &["93.184.215.14:80"],
        "CURL http://93.184.215.14/",
    )
    .reaches(
        &["hello of 93.184.215.14"],
        &["connected 93.184.215.14:80 at 93.184.215.14 by 93.184.215.14:80"],
    ),
    row(
        "an IPv6 address",
        &["[2a00:1450::5]:80"],
        "CURL 'http://[2a00:1450::5]/'",
    )
    .reaches(
        &["hello of [2a00:1450::5]"],
        &["connected 2a00:1450::5:80 at 2a00:1450::5 by [2a00:1450::5]:80"],
    ),
    row(
        "a private address that is named",
        &["private.example", "10.0.0.5:80"],
        "CURL http://private.example/",
    )
    .reaches(
        &["hello of private.example"],
        &["connected private.example:80 at 10.0.0.5 by private.example"],
    ),
    row(
        "the host's loopback",
        &["localhost:8080"],
        "CURL http://localhost:8080/",
    )
    .reaches(
        &["hello of localhost:8080"],
        &["connected 127.0.0.1:8080 at 127.0.0.1 by localhost:8080"],
    ),
    row(
        "SOCKS",
        ONE,
        "CURL --proxy ${http_proxy/http/socks5h} http://one.example/",
    )
    .proxied(
        &["hello of one.example"],
        &["connected one.example:80 at 93.184.215.14 by one.example"],
    )
    .succeeding(),
    row(
        "a host that speaks first",
        &["one.example:2200"],
        "exec 3<>/dev/tcp/one.example/2200 && read -r line <&3 && echo $line && echo hello >&3",
    )
    .direct(
        &["SSH-2.0-own"],
        &["connected one.example:2200 at 93.184.215.14 by one.example:2200"],
    )
    .succeeding(),
    row(
        "a client that closes its side first",
        &["one.example:9000"],
        "python3 -c \"
import socket
s = socket.create_connection(('one.example', 9000))
s.sendall(b'x' * 1000000); s.shutdown(socket.SHUT_WR)
print(sum(len(part) for part in iter(lambda: s.recv(65536), b'')))\"",
    )
    .direct(
        &["1000000\n"],
        &["connected one.example:9000 at 93.184.215.14 by one.example:9000"],
    )
    .succeeding(),
];

const REFUSED: &[Row] = &[
    row("another name", ONE, "CURL http://two.example/")
        .proxied(
            &[
                "error: 403",
                "two.example:80 is refused: no rule names it",
                "A person can allow it: forge allow host:two.example:80",
            ],
            &["refused two.example:80 (no rule names it)"],
        )
        .direct(
            &["Could not resolve host: two.example"],
            &["refused two.example:0 (no rule names it)"],
        ),
    row("another name, by TLS", ONE, "CURL https://two.example/")
        .proxied(
            &["response 403"],
            &["refused two.example:443 (no rule names it)"],
        )
        .direct(
            &["Could not resolve host: two.example"],
            &["refused two.example:0 (no rule names it)"],
        ),
    row(
        "the name above",
        &["*.one.example"],
        "CURL http://one.example/",
    )
    .proxied(
        &["one.example:80 is refused: no rule names it"],
        &["refused one.example:80 (no rule names it)"],
    )
    .direct(
        &["Could not resolve host: one.example"],
        &["refused one.example:0 (no rule names it)"],
    ),
    row(
        "a name with the name in it",
        ONE,
        "CURL http://one.example.evil.example/",
    )
    .proxied(
        &["one.example.evil.example:80 is refused: no rule names it"],
        &["refused one.example.evil.example:80 (no rule names it)"],
    )
    .direct(
        &["Could not resolve host"],
        &["refused one.example.evil.example:0 (no rule names it)"],
    ),
    row(
        "another port",
        &["one.example:80"],
        "CURL http://one.example:9999/",
    )
    .proxied(
        &[
            "one.example:9999 is refused: no rule names it",
            "A person can allow it: forge allow host:one.example:9999",
        ],
        &["refused one.example:9999 (no rule names it)"],
    )
    // No socket listens there.
    .direct(&["Failed to connect to one.example port 9999"], &[]),
    row(
        "a port of another name",
        &["one.example:80", "two.example:8080"],
        "CURL http://one.example:8080/",
    )
    .proxied(
        &["one.example:8080 is refused: no rule names it"],
        &["refused one.example:8080 (no rule names it)"],
    )
    .direct(&[], &["refused one.example:8080 (no rule names it)"]),
    row(
        "a name with a private address",
        &["private.example"],
        "CURL http://private.example/",
    )
    .proxied(
        &[
            "private.example:80 is refused: it resolves to 10.0.0.5, a private address",
            "A person can allow it: forge allow host:10.0.0.5:80",
        ],
        &[PRIVATE],
    )
    .direct(&[], &[PRIVATE]),
    row(
        "a name with a loopback address",
        &["loop.example"],
        "CURL http://loop.example/",
    )
    .proxied(
        &["loop.example:80 is refused: it resolves to 127.0.0.1, a loopback address"],
        &[LOOPBACK],
    )
    .direct(&[], &[LOOPBACK]),
    row(
        "the metadata service",
        &["metadata.example"],
        "CURL http://metadata.example/",
    )
    .proxied(
        &["it resolves to 169.254.169.254, the metadata service of a cloud"],
        &[METADATA],
    )
    .direct(&[], &[METADATA]),
    row(
        "the host's loopback",
        ONE,
        "CURL http://localhost:8080/ || CURL http://127.0.0.1:8080/",
    )
    .proxied(&["Failed to connect"], &[])
    .direct(&["Failed to connect"], &[]),
    row(
        "the host's loopback, by the proxy",
        ONE,
        "CURL --noproxy '' --proxy $http_proxy http://localhost:8080/",
    )
    .proxied(
        &["localhost:8080 is refused: no rule names it"],
        &["refused localhost:8080 (no rule names it)"],
    ),
    row("an address", ONE, "CURL http://93.184.215.14/")
        .proxied(
            &["93.184.215.14:80 is refused: no rule names it"],
            &["refused 93.184.215.14:80 (no rule names it)"],
        )
        .direct(&["Failed to connect"], &[]),
    row("an IPv6 address", ONE, "CURL 'http://[2a00:1450::5]/'")
        .proxied(
            &["[2a00:1450::5]:80 is refused: no rule names it"],
            &["refused 2a00:1450::5:80 (no rule names it)"],
        )
        .direct(&["Failed to connect"], &[]),
    row(
        "an address of names that no name has",
        ONE,
        "CURL http://198.18.9.9/",
    )
    .proxied(
        &["198.18.9.9:80 is refused: no rule names it"],
        &["refused 198.18.9.9:80 (no rule names it)"],
    )
    .direct(&[], &["refused 198.18.9.9:80 (no name has this address)"]),
    row(
        "TLS for another host",
        ONE,
        "CURL --connect-to evil.example:443:one.example:443 https://evil.example/",
    )
    .proxied(&["unrecognized name"], &[FRONTED])
    .direct(&["unrecognized name"], &[FRONTED]),
    row(
        "a request whose Host is another",
        ONE,
        "CURL -H 'Host: evil.example' http://one.example/",
    )
    .proxied(
        &["its Host header is not its target"],
        &["refused one.example:0 (invalid request: its Host header is not its target)"],
    )
    .direct(
        &["one.example:80 is refused: HTTP asks for `evil.example`"],
        &["refused one.example:80 at 93.184.215.14 by one.example (HTTP asks for `evil.example` on \
           a connection to another host)"],
    ),
    row(
        "a host that cannot be reached",
        &["gone.example"],
        "CURL http://gone.example/",
    )
    .proxied(&["gone.example:80: cannot connect: "], &[GONE])
    .direct(&[], &[GONE]),
    row(
        "a name without an address",
        &["*.example"],
        "CURL http://absent.example/",
    )
    .proxied(&["absent.example:80: cannot resolve the name: "], &[ABSENT])
    .direct(&[], &[ABSENT]),
];

const PRIVATE: &str = "refused private.example:80 at 10.0.0.5 by private.example (it resolves to 10.0.0.5, a \
                       private address, which no rule names with this port)";
const LOOPBACK: &str = "refused loop.example:80 at 127.0.0.1 by loop.example (it resolves to 127.0.0.1, a \
                        loopback address, which no rule names with this port)";
const METADATA: &str = "refused metadata.example:80 at 169.254.169.254 by metadata.example (it resolves to \
                        169.254.169.254, the metadata service of a cloud, which no rule names with \
                        this port)";
const FRONTED: &str = "refused one.example:443 at 93.184.215.14 by one.example (TLS asks for \
                       `evil.example` on a connection to another host)";
const GONE: &str = "failed gone.example:80 by gone.example (cannot connect: Network is unreachable \
                    (os error 101))";
const ABSENT: &str = "failed absent.example:80 by *.example (cannot resolve the name: failed to \
                      lookup address information: Temporary failure in name resolution)";

impl Row {
    const fn succeeding(mut self) -> Row {
        self.succeeds = true;
        self
    }

    fn check(
        &self,
        servers: &Servers,
        (mechanism, options): (&str, &str),
        expected: Option<Expected>,
    ) {
        let Some(expected) = expected else { return };
        let script = self.script.replace("CURL", &format!("{CURL}{options}"));
        let told = servers.exec_under(mechanism, self.hosts, &[], &script);
        let all = format!(
            "{}: {script}\n{}\n{:#?}",
            self.about,
            told.output,
            told.contacts()
        );
        assert_eq!(
            told.code.map(|code| code == 0),
            Some(self.succeeds),
            "{all}"
        );
        for text in expected.output {
            assert!(told.output.contains(text), "no {text:?}: {all}");
        }
        assert_eq!(told.contacts(), expected.contacts, "{all}");
    }
}

fn check(rows: &[Row]) {
    let Some(servers) = servers() else { return };
    for row in rows {
        row.check(&servers, ("namespaces", ""), row.proxied);
        row.check(&servers, ("namespaces", " --noproxy '*'"), row.direct);
    }
}

/// The hint names the rule that lifts the refusal, for a network that can be a company's, and
/// `forge allow --last` never offers it: the address is the answer of a name server.
#[test]
fn a_hint_names_the_rule_for_an_address() {
    let Some(servers) = servers() else { return };
    for (host, rule) in [
        ("private.example", Some("forge allow host:10.0.0.5:80")),
        ("loop.example", None),
        ("metadata.example", None),
    ] {
        let script = format!("curl -sS --fail http://{host}/");
        let ended = servers.forge(&["exec", "--host", host, "--", "bash", "-c", &script]);
        assert!(ended.stderr.contains("it resolves to"), "{}", ended.stderr);
        assert!(
            !ended.stderr.contains("forge allow --last"),
            "{}",
            ended.stderr
        );
        let offered = servers.forge(&["allow", "--last"]);
        for text in [&ended.stderr, &offered.stderr] {
            let rule = rule.unwrap_or("forge allow host:");
            assert_eq!(text.contains(rule), host == "private.example", "{text}");
        }
        assert!(!offered.stdout.contains("host:"), "{}", offered.stdout);
    }
}

/// Without a network namespace the proxy of the variables decides alike, and nothing else leads out.
#[test]
fn the_proxy_decides_alike_without_a_network_namespace() {
    let Some(servers) = servers() else { return };
    if !servers.connects_under_landlock() {
        skipped("named hosts under Landlock alone");
        return;
    }
    for row in REACHED.iter().chain(REFUSED) {
        // The connector connects it, and not the proxy, which has the records.
        let is_connected_directly = row.hosts == ["localhost:8080"];
        let expected = row.proxied.map(|expected| Expected {
            contacts: if is_connected_directly {
                &[]
            } else {
                expected.contacts
            },
            ..expected
        });
        row.check(&servers, ("landlock", ""), expected);
        if is_connected_directly || row.direct.is_none() {
            continue;
        }
        let script = row.script.replace("CURL", &format!("{CURL} --noproxy '*'"));
        let told = servers.exec_under("landlock", row.hosts, &[], &script);
        let all = format!("{}: {script}\n{}", row.about, told.output);
        assert_ne!(told.code, Some(0), "{all}");
        assert!(told.contacts().is_empty(), "{all}");
        assert!(!told.output.contains("hello of"), "{all}");
    }
}

/// The password is a part of the URL, and without it the proxy connects nothing.
#[test]
fn the_proxy_on_the_loopback_needs_its_password() {
    let Some(servers) = servers() else { return };
    if !servers.connects_under_landlock() {
        skipped("named hosts under Landlock alone");
        return;
    }
    for (proxy, expected) in [
        ("http://${http_proxy#*@}", false),
        ("http://sandbox:0123456789abcdef@${http_proxy#*@}", false),
        ("socks5h://${http_proxy#*@}", false),
        ("http://anyone:${http_proxy#http://*:}", true),
    ] {
        let script = format!("{CURL} --proxy {proxy} http://one.example/");
        let told = servers.exec_under("landlock", &["one.example"], &[], &script);
        let all = format!("{script}: {}\n{:#?}", told.output, told.contacts());
        assert_eq!(told.output.contains("hello of"), expected, "{all}");
        let is_refused = |contact: &String| contact.starts_with("refused ");
        assert_eq!(told.contacts().iter().any(is_refused), !expected, "{all}");
    }
}

#[test]
fn named_hosts_are_reached_through_both_doors() {
    check(REACHED);
}

#[test]
fn other_hosts_are_refused_at_once_with_the_reason() {
    check(REFUSED);
}

/// Asks the resolver, by UDP and by TCP, and prints type, code and number of answers.
const QUESTIONS: &str = r#"
import socket, struct
def ask(name, kind, stream):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    message = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", kind, 1)
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM)
    s.settimeout(240)
    s.connect(("127.0.0.53", 53))
    s.sendall(struct.pack(">H", len(message)) + message if stream else message)
    answer = s.recv(4096)[2 if stream else 0:]
    _, flags, _, answers, _, _ = struct.unpack(">6H", answer[:12])
    print(kind, flags & 15, answers)
long = ".".join(["tunnel" + "x" * 50] * 3)
for below in ["two.example", "one.example", "example"]:
    for kind in [1, 28, 16, 10, 15, 5, 33, 65]:
        for stream in [False, True]:
            ask(long + "." + below, kind, stream)
"#;

#[test]
fn a_question_carries_nothing_out() {
    let Some(servers) = servers() else { return };
    servers.world.write("ask.py", QUESTIONS);
    let told = servers.exec(&["one.example"], &[], "python3 ask.py");
    assert_eq!(told.code, Some(0), "{}", told.output);
    let all: Vec<&str> = told.output.lines().collect();
    assert_eq!(all.len(), 48, "{}", told.output);
    // The name does not exist, whatever is asked about it.
    assert!(
        all.iter().all(|line| line.ends_with(" 3 0")),
        "{}",
        told.output
    );
    // Below a name that is allowed there are addresses, and no other answers.
    let told = servers.exec(&["*.two.example"], &[], "python3 ask.py | head -16");
    for line in told.output.lines() {
        let expected = match line.split(' ').next().unwrap() {
            kind @ ("1" | "28") => format!("{kind} 0 1"),
            kind => format!("{kind} 0 0"),
        };
        assert_eq!(line, expected);
    }
    assert_eq!(told.output.lines().count(), 16);
    let arrived = servers.datagrams();
    assert!(!arrived.contains("tunnel"), "{arrived}");
}

/// Sends datagrams to names and addresses, allowed ones and others.
const DATAGRAMS: &str = r#"
import socket
for host, port in [("one.example", 443), ("one.example", 53), ("93.184.215.14", 443),
                   ("93.184.215.14", 53), ("93.184.215.15", 443), ("10.0.0.5", 53)]:
    for family, kind, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
        try:
            s = socket.socket(family, kind)
            s.sendto(b"marker", address)
            s.sendto(b"marker", address)
            print("sent")
        except OSError as error:
            print(error)
"#;

#[test]
fn datagrams_reach_no_host() {
    let Some(servers) = servers() else { return };
    servers.world.write("send.py", DATAGRAMS);
    let hosts = ["one.example", "93.184.215.14:443"];
    let told = servers.exec(&hosts, &[], "python3 send.py");
    assert_eq!(told.code, Some(0), "{}", told.output);
    assert!(told.output.contains("unreachable"), "{}", told.output);
    let arrived = servers.datagrams();
    assert!(!arrived.contains("marker"), "{arrived}");
}

#[test]
fn a_person_is_told_after_a_failure_and_the_code_is_the_command_s() {
    let Some(servers) = servers() else { return };
    let script = "curl -sS http://two.example/; curl -s --noproxy '*' http://evil.example; \
                  curl -s -H 'Host: a.example' http://one.example/; exit 7";
    let ran = servers.forge(&["exec", "--host", "one.example", "--", "sh", "-c", script]);
    ran.code(7).says(&[
        "refused: connect two.example:80 (no rule names it)\n",
        "refused: resolve evil.example (no rule names it)\n",
        "refused: request one.example (invalid request: its Host header is not its target)\n",
        "hint: allow hosts of the last run: forge allow --last; or for one run: forge exec --host HOST\n",
    ]);
    // Of a command that succeeded the audit says it.
    let script = "curl -sS http://two.example/";
    let ran = servers.forge(&["exec", "--host", "one.example", "--", "sh", "-c", script]);
    ran.code(0);
    assert_eq!(ran.stderr, "");
    let audit = audit(&servers);
    for text in [
        r#""host":"two.example","port":80"#,
        r#""host":"evil.example","port":0"#,
        r#""reason":"no rule names it""#,
    ] {
        assert!(audit.contains(text), "{text}\n{audit}");
    }
}

const PLAYBOOK: &str = r#"
version: 1
workers:
  main:
    - calls:
        - { tool: shell, args: { command: "curl -sS http://one.example/" }, as: allowed }
        - { tool: shell, args: { command: "curl -sS --fail http://two.example/" }, as: refused }
        - { tool: shell, args: { command: "curl -sS --noproxy * http://two.example/" }, as: direct }
    - expect:
        - { that: "results.allowed.ok", else: "not reached: {{ results.allowed.content }}" }
      say: "{{ results.allowed.content }} {{ results.refused.content }} {{ results.direct.content }}"
"#;

#[test]
fn a_worker_is_told_which_connection_was_refused() {
    let Some(servers) = servers() else { return };
    let world = &servers.world;
    world.write(
        "forge.yaml",
        "sandbox: { root: . }\nmodel: scripted:play.yaml\nnetwork: { allow: [one.example] }\n\
         shell: { rules: [{ pattern: 'curl *', approval: preApproved }] }\n",
    );
    world.write("play.yaml", PLAYBOOK);
    world.write(
        "workers/main.worker",
        "---\nname: main\nshell: {}\n---\nGo.\n",
    );
    let ran = servers.forge(&["--trust", "run", "--yes"]);
    ran.code(0);
    for text in [
        "hello of one.example",
        "refused: connect two.example:80 (no rule names it)",
        "refused: resolve two.example (no rule names it)",
    ] {
        assert!(
            ran.stdout.contains(text),
            "{text}\n{}\n{}",
            ran.stdout,
            ran.stderr
        );
    }
    let audit = audit(&servers);
    for text in [
        r#""host":"one.example","port":80,"address":"93.184.215.14""#,
        r#""host":"two.example","port":80"#,
    ] {
        assert!(audit.contains(text), "{text}\n{audit}");
    }
}

/// Returns the audits of all runs.
pub(super) fn audit(servers: &Servers) -> String {
    let runs = servers.world.outside().join("state/runs");
    let runs = std::fs::read_dir(runs).unwrap();
    let files = runs.map(|run| run.unwrap().path().join("audit.jsonl"));
    files
        .map(|file| std::fs::read_to_string(file).unwrap_or_default())
        .collect()
}

/// An agent that was refused something may end well and without the thing it was asked for.
#[test]
fn a_session_under_a_preset_ends_with_its_hosts_and_refusals() {
    let Some(servers) = servers() else { return };
    let script = "for host in one one two; do curl -s -m 20 http://$host.example/hello; done; true";
    let exec = |flags: &[&str]| {
        let words = ["--", "bash", "-c", script];
        let all = [&["exec", "--host", "one.example:80"], flags, &words].concat();
        servers.forge(&all).code(0).stderr.clone()
    };
    let told = exec(&["--preset", "git-https", "--no-share"]);
    let lines = [
        "connected: one.example:80 (2 times, sent ",
        "refused: connect two.example:80 (no rule names it)",
        "forge allow --last",
    ];
    assert!(lines.iter().all(|line| told.contains(line)), "{told}");
    assert!(!told.contains("connected: two"), "{told}");
    // A command that ended well has nothing to say otherwise.
    let told = exec(&[]);
    assert!(!lines.iter().any(|line| told.contains(line)), "{told}");
}
