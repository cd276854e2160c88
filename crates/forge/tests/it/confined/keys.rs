//! Keys of the project file that somebody else enforces (files, kernel, tools): each flips what
//! can be seen from outside.

use std::os::unix::net::UnixListener;

use super::exec;
use crate::support::World;

const FILE: &str = "golem-forge.config.yaml";

/// One call of forge under two project files that differ in one key.
struct Flip {
    key: &'static str,
    without: &'static str,
    with: &'static str,
    args: &'static [&'static str],
    /// Exit code, and what standard output and error hold: without the key, and with it.
    then: [(i32, &'static str); 2],
}

/// Every row runs in a project with `d/one`, and `d/twin`, whose other name lies outside.
fn rows() -> Vec<Flip> {
    const D: &str = "sandbox: { mode: direct, zones: { d: { path: ./d, approval: { write: preApproved } } } }\n";
    const LIST: &[&str] = &["tools", "call", "list_files", r#"{"path":"/d/../d"}"#];
    const WRITE: &[&str] = &[
        "tools",
        "call",
        "write_file",
        r#"{"path":"/d/new","content":"four"}"#,
    ];
    const TWIN: &[&str] = &[
        "tools",
        "call",
        "write_file",
        r#"{"path":"/d/twin","content":"x"}"#,
    ];
    const READ: &[&str] = &["tools", "call", "read_file", r#"{"path":"/d/one"}"#];
    const ECHO: &[&str] = &[
        "tools",
        "call",
        "--yes",
        "shell",
        r#"{"command":"echo hello"}"#,
    ];
    // The answer is an address of the command's own network, so no question leaves the machine.
    const RESOLVE: &[&str] = &[
        "exec",
        "--",
        "sh",
        "-c",
        "getent hosts www.example.com >/dev/null && echo resolved || echo unknown",
    ];
    const CONNECT_LOOPBACK: &[&str] = &[
        "exec",
        "--",
        "perl",
        "-e",
        "use Socket; socket(S, AF_INET, SOCK_STREAM, 0); \
         print connect(S, pack_sockaddr_in(5432, INADDR_LOOPBACK)) ? 'connected' : 'nobody listens'",
    ];
    const LOUD: &[&str] = &[
        "tools",
        "call",
        "--yes",
        "--json",
        "shell",
        r#"{"command":"sh -c 'seq 9999; seq 9999 >&2'"}"#,
    ];
    vec![
        Flip {
            key: "network.allow",
            without: "network: false",
            with: "network: { allow: [example.com] }",
            args: &[
                "exec",
                "--mechanism",
                "landlock",
                "--",
                "sh",
                "-c",
                "echo \"${http_proxy:+a proxy}\"",
            ],
            then: [(0, ""), (0, "a proxy")],
        },
        Flip {
            key: "network.deny",
            without: "network: { allow: ['*.example.com'] }",
            with: "network: { allow: ['*.example.com'], deny: [www.example.com] }",
            args: RESOLVE,
            then: [(0, "resolved"), (0, "unknown")],
        },
        Flip {
            key: "network.loopback_out",
            without: "network: { allow: [example.com] }",
            with: "network: { allow: [example.com], loopback_out: ['127.0.0.1:5432'] }",
            args: CONNECT_LOOPBACK,
            then: [(0, "nobody listens"), (0, "connected")],
        },
        Flip {
            key: "network.loopback_in",
            without: "network: false",
            with: "network: { loopback_in: [8080] }",
            args: &["exec", "--mechanism", "landlock", "--", "echo", "ran"],
            then: [
                (0, "ran"),
                (125, "a published port needs a network namespace"),
            ],
        },
        Flip {
            key: "sandbox.strict_paths",
            without: D,
            with: "sandbox: { mode: direct, strict_paths: true, zones: { d: { path: ./d } } }",
            args: LIST,
            then: [(0, "one"), (1, "'..' is not allowed here")],
        },
        Flip {
            key: "sandbox.zones.*.strict_paths",
            without: "sandbox: { mode: direct, strict_paths: true, zones: { d: { path: ./d, strict_paths: false } } }",
            with: "sandbox: { mode: direct, zones: { d: { path: ./d, strict_paths: true }, e: { path: ./e } } }",
            args: LIST,
            then: [(0, "one"), (1, "'..' is not allowed here")],
        },
        Flip {
            key: "quota.max_files",
            without: D,
            with: "sandbox: { mode: direct, quota: { max_files: 2 }, zones: { d: { path: ./d, approval: { write: preApproved } } } }",
            args: WRITE,
            then: [(0, "Written"), (1, "no room for more")],
        },
        Flip {
            key: "quota.max_bytes of one zone",
            without: "sandbox: { mode: direct, zones: { d: { path: ./d, quota: { max_bytes: 100 }, approval: { write: preApproved } } } }",
            with: "sandbox: { mode: direct, zones: { d: { path: ./d, quota: { max_bytes: 9 }, approval: { write: preApproved } } } }",
            args: WRITE,
            then: [(0, "Written"), (1, "no room for more")],
        },
        Flip {
            key: "hardlinks: allow",
            without: D,
            with: "sandbox: { mode: direct, hardlinks: allow, zones: { d: { path: ./d, approval: { write: preApproved } } } }",
            args: TWIN,
            then: [(1, "hard link"), (0, "Written")],
        },
        Flip {
            key: "hardlinks: deny",
            without: D,
            with: "sandbox: { mode: direct, zones: { d: { path: ./d, hardlinks: deny } } }",
            args: &["tools", "call", "read_file", r#"{"path":"/d/twin"}"#],
            then: [(0, "text"), (1, "hard link")],
        },
        Flip {
            key: "approval.read",
            without: D,
            with: "sandbox: { mode: direct, zones: { d: { path: ./d, approval: { read: ask } } } }",
            args: READ,
            then: [(0, "text"), (3, "nobody could be asked")],
        },
        Flip {
            key: "approval.mode: deny",
            without: "sandbox: { mode: direct, zones: { d: { path: ./d } } }",
            with: "approval: { mode: deny }\nsandbox: { mode: direct, zones: { d: { path: ./d } } }",
            args: WRITE,
            then: [(3, "nobody could be asked"), (1, "approval mode `deny`")],
        },
        Flip {
            key: "permissions.require_user_permission",
            without: D,
            with: "permissions: { require_user_permission: { read_file: true } }\nsandbox: { mode: direct, zones: { d: { path: ./d } } }",
            args: READ,
            then: [(0, "text"), (3, "nobody could be asked")],
        },
        Flip {
            key: "log.redact",
            without: "log: { redact: [another text] }\nsandbox: { mode: direct, zones: { d: { path: ./d } } }",
            with: "log: { redact: [the customer] }\nsandbox: { mode: direct, zones: { d: { path: ./d } } }",
            args: &["tools", "call", "read_file", r#"{"path":"/d/named"}"#],
            then: [(0, "for the customer"), (0, "for [redacted: text ")],
        },
        Flip {
            key: "log.redact, in what commands print",
            without: "shell: { default: ask }",
            with: "log: { redact: ['hello, world'] }\nshell: { default: ask }",
            args: &[
                "tools",
                "call",
                "--yes",
                "shell",
                r#"{"command":"echo hello, world"}"#,
            ],
            then: [(0, "hello, world"), (0, "[redacted: text ")],
        },
        Flip {
            key: "require: guards",
            without: "require: boundaries",
            with: "require: guards",
            // Bubblewrap can keep them all.
            args: &["exec", "--mechanism", "landlock", "--", "true"],
            then: [(0, ""), (125, "without `require: guards`")],
        },
        Flip {
            key: "git.mode: read_only",
            without: D,
            with: "git: { mode: read_only }\nsandbox: { mode: direct, zones: { d: { path: ./d } } }",
            args: &[
                "exec",
                "--",
                "sh",
                "-c",
                "cd d && mkdir .git/objects && echo made",
            ],
            then: [(0, "made"), (1, ".git")],
        },
        Flip {
            key: "git.mode: commit",
            without: D,
            with: "git: { mode: commit }\nsandbox: { mode: direct, zones: { d: { path: ./d } } }",
            args: &[
                "exec",
                "--",
                "sh",
                "-c",
                "cd d && echo x > .git/modules/a/b/config && echo made",
            ],
            then: [(0, "made"), (2, "config")],
        },
        Flip {
            key: "shell.allow",
            without: "shell: { default: ask }",
            with: "shell: { default: ask, allow: [cat, ls] }",
            args: ECHO,
            then: [(0, "hello"), (1, "Allowed programs: cat, ls")],
        },
        Flip {
            key: "shell.allow, resolved",
            without: "shell: { allow: [echo] }",
            with: "shell: { allow: [/usr/bin/echo] }",
            args: ECHO,
            then: [(0, "hello"), (0, "hello")],
        },
        Flip {
            key: "shell.deny",
            without: "shell: { allow: [echo] }",
            with: "shell: { allow: [echo], deny: [echo] }",
            args: ECHO,
            then: [(0, "hello"), (1, "denied here")],
        },
        Flip {
            key: "shell.session",
            without: "shell: { default: ask }",
            with: "shell: { default: ask, session: worker }",
            args: &[
                "tools",
                "call",
                "--yes",
                "--json",
                "shell",
                r#"{"command":"exit 3"}"#,
            ],
            then: [
                (1, "COMMAND_NOT_FOUND"),
                (1, "the shell did not reach its end"),
            ],
        },
        Flip {
            key: "limits.max_stdout_kb",
            without: "shell: { default: ask }",
            with: "shell: { default: ask }\nlimits: { max_stdout_kb: 1 }",
            args: LOUD,
            then: [(0, r#""truncated":false"#), (0, "[cut here: ")],
        },
        Flip {
            key: "limits.max_stderr_kb",
            without: "shell: { default: ask }",
            with: "shell: { default: ask }\nlimits: { max_stderr_kb: 1 }",
            args: LOUD,
            then: [(0, r#""truncated":false"#), (0, r#""truncated":true"#)],
        },
        Flip {
            key: "limits.timeout_s_default",
            without: "shell: { default: ask }",
            with: "shell: { default: ask }\nlimits: { timeout_s_default: 1 }",
            args: &[
                "tools",
                "call",
                "--yes",
                "shell",
                r#"{"command":"sleep 2"}"#,
            ],
            then: [(0, ""), (1, "ended after 1 second")],
        },
        Flip {
            key: "limits.timeout_s_max",
            without: "shell: { default: ask }\nlimits: { timeout_s_max: 3 }",
            with: "shell: { default: ask }\nlimits: { timeout_s_max: 2 }",
            args: &[
                "tools",
                "call",
                "--yes",
                "shell",
                r#"{"command":"true","timeout_s":3}"#,
            ],
            then: [(0, ""), (2, "must be between 1 and 2, not 3")],
        },
        Flip {
            key: "limits.max_wall_s",
            without: "shell: { default: ask }",
            with: "shell: { default: ask }\nlimits: { max_wall_s: 2 }",
            args: &[
                "tools",
                "call",
                "--yes",
                "shell",
                r#"{"command":"true","timeout_s":3}"#,
            ],
            then: [(0, ""), (2, "must be between 1 and 2, not 3")],
        },
    ]
}

#[test]
fn every_key_can_be_seen_from_outside() {
    let mut wrong = String::new();
    for row in rows() {
        for (text, (code, says)) in [row.without, row.with].into_iter().zip(row.then) {
            let world = World::new(&[
                (FILE, text),
                ("d/one", "text"),
                ("d/named", "for the customer\n"),
            ]);
            std::fs::write(world.outside().join("twin"), "text").unwrap();
            std::fs::hard_link(world.outside().join("twin"), world.project().join("d/twin"))
                .unwrap();
            if row.key.starts_with("git") {
                // The default names end at modules whose own names have no slash.
                let module = world.project().join("d/.git/modules/a/b");
                std::fs::create_dir_all(&module).unwrap();
                std::fs::write(module.join("config"), "").unwrap();
            }
            let ran = world.forge(&[&["--trust", "--quiet"], row.args].concat());
            let both = format!("{}{}", ran.stdout, ran.stderr);
            if ran.code != code || !both.contains(says) {
                let (key, got) = (row.key, ran.code);
                wrong += &format!("{key}: {got}, not {code} and {says:?}\n{text}\n{both}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn one_call_writes_no_more_than_its_limit() {
    // In YAML two bytes for a line separator, which is three of them in the file.
    let content = "\\L".repeat(400_000);
    for (limits, written) in [("", true), ("limits: { max_file_write_mb: 1 }\n", false)] {
        let world = World::new(&[
            (
                FILE,
                &format!(
                    "model: scripted:p.yaml\nsandbox: {{ zones: {{ w: {{ path: w }} }} }}\n{limits}"
                ),
            ),
            (
                "p.yaml",
                &format!(
                    "version: 1\nworkers:\n  main:\n    - calls: [{{ tool: write_file, args: {{ path: /w/a, content: \"{content}\" }} }}]\n    - say: done\n"
                ),
            ),
            ("workers/main.worker", "---\nname: main\n---\nWrite.\n"),
        ]);
        world.forge(&["run", "--yes"]).code(0);
        let file = world.project().join(".sandbox/w/a");
        assert_eq!(file.exists(), written, "{limits}");
    }
}

#[test]
fn a_list_of_hosts_never_turns_into_every_host() {
    let config = "network: { allow: [example.com] }\nshell: { default: ask }\n";
    let world = World::new(&[(FILE, config)]);
    // Processes that stay have no proxy, so nothing but a network namespace holds them to it.
    let landlock = ["exec", "--mechanism", "landlock", "--", "true"];
    let left = ["--trust", "-c", "sandbox.survivors=left"];
    let ran = world.forge(&[&left[..], &landlock[..]].concat());
    ran.code(125);
    ran.says(&[
        "a list of hosts needs a network namespace where processes may stay after the end",
        "hint: nothing here holds a command to the hosts in `network.allow`: install bubblewrap",
        "-c network=false",
    ]);
    assert!(!ran.stderr.contains("--no-os-sandbox"), "{}", ran.stderr);
    // The remedy in the text is one.
    for args in [
        &landlock[..],
        &["exec", "--mechanism", "namespaces", "--", "true"],
    ] {
        let off = [&left[..], &["-c", "network=false"], args].concat();
        world.forge(&off).code(0);
    }
    // Without a network namespace, the proxy is all there is.
    let script = "echo ${http_proxy%%:*}://sandbox; getent ahosts example.com || \
                  (exec 3<>/dev/tcp/192.0.2.1/443) 2>&1 | tail -c 23";
    let exec = [
        "exec",
        "--mechanism",
        "landlock",
        "--",
        "bash",
        "-c",
        script,
    ];
    let ran = world.forge(&[&["--trust"], &exec[..]].concat());
    assert_eq!(ran.stdout, "http://sandbox\nNetwork is unreachable\n");
    // In namespaces the list holds: a name that it has is resolved, no other is, and no address
    // is reached.
    for (script, says) in [
        (
            "getent ahosts example.com >/dev/null && echo resolved",
            "resolved",
        ),
        (
            "getent ahosts example.org >/dev/null || echo unknown",
            "unknown",
        ),
        (
            "(exec 3<>/dev/tcp/192.0.2.1/443) 2>/dev/null || echo refused",
            "refused",
        ),
        ("echo ${https_proxy:-none}", "http://127.0.0.53:3128"),
    ] {
        let exec = [
            "--trust",
            "exec",
            "--mechanism",
            "namespaces",
            "--",
            "bash",
            "-c",
            script,
        ];
        let ran = world.forge(&exec);
        ran.code(0);
        assert_eq!(ran.stdout.trim_end(), says, "{script}");
    }
    // Without a yes there is no network at all, and nothing to refuse.
    world.forge(&["exec", "--", "true"]).code(0);
}

/// Perl is in every Debian and in macOS; the script says what became of a connect.
const CONNECT: &str = "use Socket; \
    socket(S, AF_UNIX, SOCK_STREAM, 0) or do { print 'no socket'; exit }; \
    print connect(S, pack_sockaddr_un($ARGV[0])) ? 'connected' : 'refused'";

#[test]
fn local_sockets_open_by_name_and_by_declaration() {
    let world = World::new(&[("d/one", "text")]);
    let agent = world.outside().join("agent.sock");
    let _listening = UnixListener::bind(&agent).unwrap();
    let agent = agent.display().to_string();
    let worker = |name: &str, sandbox: &str| {
        let text = format!("---\nname: {name}\nsandbox: {sandbox}\n---\nConnect.\n");
        world.write(&format!("workers/{name}.worker"), &text);
    };
    worker("heir", "inherit");
    worker("asks", "{ zones: [{ name: d }], unix_sockets: inherit }");
    worker("silent", "{ zones: [{ name: d }] }");
    worker(
        "greedy",
        "{ zones: [{ name: d }], unix_sockets: [/run/other.sock] }",
    );
    let named = format!("[{agent}]");
    // Under Landlock alone its own are closed as well: the host's cannot be told from them.
    let mechanism = exec::mechanisms(&world)[0];
    let closed = match mechanism {
        "namespaces" => "refused",
        _ => "no socket",
    };
    for (sockets, trust, worker, outcome) in [
        ("closed", "--trust", None, Ok(closed)),
        (&named, "--trust", None, Ok("connected")),
        ("[/run/other.sock]", "--trust", None, Ok("refused")),
        (&named, "--quiet", None, Ok(closed)),
        (&named, "--trust", Some("heir"), Ok("connected")),
        (&named, "--trust", Some("asks"), Ok("connected")),
        (&named, "--trust", Some("silent"), Ok(closed)),
        (
            &named,
            "--trust",
            Some("greedy"),
            Err("requests local sockets"),
        ),
    ] {
        let config = format!(
            "sandbox: {{ mode: direct, zones: {{ d: {{ path: ./d }} }}, unix_sockets: {sockets} }}\n"
        );
        world.write(FILE, &config);
        let mut args = vec![trust, "exec", "--mechanism", mechanism];
        args.extend(worker.iter().flat_map(|worker| ["--worker", worker]));
        args.extend(["--", "perl", "-e", CONNECT, &agent]);
        let ran = world.forge(&args);
        match outcome {
            Ok(printed) => assert_eq!(ran.stdout, printed, "{sockets} {worker:?}\n{}", ran.stderr),
            Err(says) => {
                ran.code(125).says(&[says]);
            }
        }
    }
}

#[test]
fn what_is_left_behind_is_ended_unless_the_receipt_says_otherwise() {
    let world = World::new(&[]);
    let args = [
        "exec",
        "--mechanism",
        "landlock",
        "--receipt",
        "/dev/stdout",
        "--",
        "true",
    ];
    if world.forge(&args).code != 0 {
        eprintln!("skipped: no landlock here");
        return;
    }
    for (word, trust, left) in [
        ("ended", "--trust", false),
        ("left", "--quiet", false),
        ("left", "--trust", true),
    ] {
        world.write(FILE, &format!("sandbox: {{ survivors: {word} }}\n"));
        let ran = world.forge(&[&[trust], &args[..]].concat());
        ran.code(0);
        assert_eq!(
            ran.stdout.contains("left by request"),
            left,
            "{word} {trust}"
        );
    }
}

#[test]
fn a_question_on_a_terminal_ends() {
    let world = World::new(&[(
        FILE,
        "approval: { timeout_s: 1 }\nshell: { default: ask }\n",
    )]);
    let forge = crate::support::forge_program().display();
    let command = format!("exec {forge} tools call shell '{{\"command\":\"echo hello\"}}'");
    // script(1) gives it a terminal, on which nobody types before it has ended.
    let mut child = world
        .command(
            std::path::Path::new("script"),
            &["-qec", &command, "/dev/null"],
        )
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let keys = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(keys);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("nobody answered within 1 seconds"), "{said}");
    assert_eq!(output.status.code(), Some(3), "{said}");
}

/// A worker may ask for more than the project does, and for nothing less; whoever it calls is asked
/// about no less either.
#[test]
fn a_worker_asks_for_more_and_never_for_less() {
    let read = r#"{"path":"/d/one"}"#;
    let write = r#"{"path":"/d/new","content":"x"}"#;
    for (approval, tool, arguments, code, says) in [
        ("{}", "read_file", read, 0, ""),
        ("{}", "write_file", write, 0, ""),
        (
            "{ require_user_permission: { read_file: true } }",
            "read_file",
            read,
            3,
            "",
        ),
        (
            "{ require_user_permission: { read_file: true } }",
            "write_file",
            write,
            0,
            "",
        ),
        (
            "{ require_user_permission_by_risk: { writes_workspace: true } }",
            "write_file",
            write,
            3,
            "",
        ),
        ("{ mode: tool }", "write_file", write, 0, ""),
        ("{ mode: manual }", "write_file", write, 3, ""),
        ("{ mode: manual }", "read_file", read, 0, ""),
        (
            "{ mode: deny, require_user_permission: { read_file: true } }",
            "read_file",
            read,
            1,
            "",
        ),
        // Less is a mistake of the file.
        ("{ mode: auto }", "read_file", read, 2, "approval.mode"),
        (
            "{ require_user_permission: { read_file: false } }",
            "read_file",
            read,
            2,
            "can only ask for more",
        ),
        (
            "{ require_user_permission_by_risk: { exec: false } }",
            "read_file",
            read,
            2,
            "can only ask for more",
        ),
        (
            "{ timeout_s: 9 }",
            "read_file",
            read,
            2,
            "approval.timeout_s",
        ),
    ] {
        let world = World::new(&[
            (
                FILE,
                "sandbox: { mode: direct, zones: { d: { path: ./d, approval: { write: preApproved } } } }\n",
            ),
            ("d/one", "text"),
            (
                "workers/careful.worker",
                &format!(
                    "---\nname: careful\nsandbox: inherit\napproval: {approval}\n---\nWork.\n"
                ),
            ),
        ]);
        let args = ["tools", "call", "--worker", "careful", tool, arguments];
        let ran = world.forge(&args);
        let both = format!("{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.code, code, "{approval} {tool}\n{both}");
        assert!(both.contains(says), "{approval} {tool}\n{both}");
        if code == 3 {
            let explained = world.forge(&["explain", "--worker", "careful", tool]);
            let text = &explained.code(0).stdout;
            assert!(
                text.contains("a worker's own file asks for this by `approval.")
                    && text.contains("`  (workers/careful.worker:4:"),
                "{approval} {tool}\n{text}"
            );
        }
    }
}

/// `log.dir` is `runs_dir` by another name.
/// Each risk, and a call that has it and no other one.
const RISKS: [(&str, &str, &str); 5] = [
    ("read_only", "read_file", r#"{"path":"/d/one"}"#),
    (
        "writes_workspace",
        "write_file",
        r#"{"path":"/d/new","content":"x"}"#,
    ),
    (
        "writes_fs",
        "write_file",
        r#"{"path":"/away/new","content":"x"}"#,
    ),
    (
        "network",
        "git_pull",
        r#"{"repo":"../none.git","paths":["notes"],"into":"/d"}"#,
    ),
    ("exec", "shell", r#"{"command":"echo hello"}"#),
];

/// A rule for a risk is about calls that have it, and about no others.
#[test]
fn every_risk_has_an_effect_on_its_own_calls_only() {
    assert_eq!(
        RISKS.map(|(risk, ..)| risk),
        sandbox_config::Risk::ALL.map(|risk| risk.to_string())
    );
    for (blocked, ..) in RISKS {
        let world = World::new(&[
            (
                FILE,
                &format!(
                    "sandbox:\n  mode: direct\n  zones:\n    d: {{ path: ./d, approval: {{ write: preApproved }} }}\n    \
                     away: {{ path: ../away, approval: {{ write: preApproved }} }}\n\
                     git: {{ repositories: [../none.git] }}\nshell: {{ default: ask }}\n\
                     approval: {{ require_user_permission_by_risk: {{ {blocked}: blocked }} }}\n"
                ),
            ),
            ("d/one", "text"),
        ]);
        std::fs::create_dir(world.outside().join("away")).unwrap();
        world.forge(&["trust", "--yes"]).code(0);
        for (risk, tool, arguments) in RISKS {
            let ran = world.forge(&["tools", "call", "--yes", tool, arguments]);
            let both = format!("{}{}", ran.stdout, ran.stderr);
            // A tool of which no call could pass is not offered at all.
            let is_blocked = both.contains("blocked") || both.contains("There is no tool named");
            assert_eq!(
                is_blocked,
                risk == blocked,
                "{blocked} is blocked: {risk}\n{both}"
            );
        }
    }
}

#[test]
fn runs_are_kept_where_the_project_says() {
    for (keys, kept) in [
        ("", false),
        ("log: { dir: ./records }", true),
        ("runs_dir: ./records", true),
    ] {
        let world = World::new(&[
            (FILE, &format!("model: scripted:p.yaml\n{keys}\n")),
            ("p.yaml", "version: 1\nworkers: { main: [{ say: done }] }\n"),
            ("workers/main.worker", "---\nname: main\n---\nTalk.\n"),
        ]);
        world.forge(&["run"]).code(0);
        let runs = |dir: std::path::PathBuf| std::fs::read_dir(dir).map_or(0, Iterator::count);
        let here = runs(world.project().join("records"));
        let state = runs(world.outside().join("state/runs"));
        assert_eq!((here, state), if kept { (1, 0) } else { (0, 1) }, "{keys}");
    }
}
