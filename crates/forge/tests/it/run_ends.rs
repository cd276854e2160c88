//! How `forge run` ends: one exit code and one error code for each end, on standard error as the
//! last line, with the report on standard output if anything began.

use std::fs::File;
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{PROJECT, Ran, World, forge_program, ran};
use crate::vendor::{Vendor, call, refusal, says};

const FILE: &str = "golem-forge.config.yaml";

const MAIN: &str = "---\nname: main\n---\nGo.\n";

/// What a run is expected to come to: exit code, error code, the report's end. No end: nothing
/// began, and there is no report.
type Expected = (i32, Option<&'static str>, Option<&'static str>);

#[track_caller]
fn check(what: &str, ran: &Ran, expected: Expected) {
    let (exit, code, end) = expected;
    let about = format!("{what}\n{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(ran.code, exit, "{about}");
    let error = ran.stderr.lines().last().map(serde_json::from_str);
    let error: Value = match (code, error) {
        (Some(_), Some(Ok(error))) => error,
        (None, None | Some(Err(_))) => Value::Null,
        (_, error) => panic!("{error:?}: {about}"),
    };
    assert_eq!(error["error"]["code"].as_str(), code, "{about}");
    assert_eq!(
        ran.stdout.lines().count(),
        usize::from(end.is_some()),
        "{about}"
    );
    if let Some(end) = end {
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(report["report"]["end"], end, "{about}");
        assert!(report["attempts"].is_array(), "{about}");
        let kept = report["run"].as_str().unwrap();
        let kept = std::fs::read_to_string(format!("{kept}/run.json")).unwrap();
        let kept: Value = serde_json::from_str(&kept).unwrap();
        assert_eq!(kept["report"], report["report"], "{about}");
    }
}

/// What the playbook plays goes over a real wire to a real client.
#[test]
fn a_playbooks_ends() {
    let list = "calls: [{ tool: list_files, args: { path: /data } }]";
    let again = format!("{list} }}, {{ {list}");
    let used = format!("{list}, usage: {{ input_tokens: 900, output_tokens: 100 }}");
    let rows: [(&str, &str, &[&str], Expected); 20] = [
        ("answered", "say: yes", &[], (0, None, Some("answered"))),
        (
            "refused",
            "say: no, stop: refused",
            &[],
            (1, Some("model.refused"), Some("refused")),
        ),
        (
            "out of tokens",
            "say: half, stop: out_of_tokens",
            &[],
            (1, Some("model.out_of_tokens"), Some("out_of_tokens")),
        ),
        (
            "unfit",
            "say: 'no number' }, { say: 'again none'",
            &["--json-schema", "number.json"],
            (1, Some("answer.unfit"), Some("unfit_answer")),
        ),
        (
            "fit",
            "say: '7'",
            &["--json-schema", "number.json"],
            (0, None, Some("answered")),
        ),
        (
            "expected otherwise",
            "expect: [{ that: 'false', else: not so }], say: x",
            &[],
            (1, Some("run.failed"), Some("model_failed")),
        ),
        (
            "key not taken",
            "fail: { status: 401, times: 9 }, say: x",
            &[],
            (4, Some("model.credentials"), Some("model_failed")),
        ),
        (
            "request not taken",
            "fail: { status: 400, times: 9 }, say: x",
            &[],
            (1, Some("model.rejected"), Some("model_failed")),
        ),
        (
            "busy for too long",
            "fail: { status: 529, retry_after_s: 9999, times: 9 }, say: x",
            &[],
            (7, Some("model.unreachable"), Some("model_failed")),
        ),
        (
            "busy at first",
            "fail: { status: 503, times: 2 }, say: x",
            &[],
            (0, None, Some("answered")),
        ),
        (
            "turns",
            list,
            &["--max-turns", "1"],
            (5, Some("limit"), Some("turn_limit")),
        ),
        (
            "calls",
            &again,
            &["--max-tool-calls", "1"],
            (5, Some("limit"), Some("call_limit")),
        ),
        (
            "tokens",
            &used,
            &["--max-tokens", "500"],
            (5, Some("limit"), Some("token_limit")),
        ),
        (
            "wall",
            "stream: { slow_ms: 60000 }, say: late",
            &["--max-wall", "1"],
            (5, Some("limit"), Some("wall_limit")),
        ),
        (
            "working",
            "stream: { slow_ms: 60000 }, say: late",
            &["-c", "limits.max_working_s=1"],
            (5, Some("limit"), Some("working_limit")),
        ),
        (
            "the same again",
            &[list; 9].join(" }, { "),
            &["-c", "limits.repeat_calls=2"],
            (5, Some("limit"), Some("repeated")),
        ),
        (
            "no isolation",
            "say: x",
            &[
                "-c",
                "sandbox.require_os_sandbox=true",
                "run",
                "--no-os-sandbox",
            ],
            (6, Some("isolation.unavailable"), Some("not_equipped")),
        ),
        (
            "a directory that is a door",
            "say: x",
            &["-c", "sandbox.zones.data.path=/dev"],
            (1, Some("mount.unavailable"), Some("not_equipped")),
        ),
        (
            "another model",
            "say: x",
            &["picky"],
            (2, Some("model.incompatible"), None),
        ),
        (
            "no worker",
            "say: x",
            &["nobody", "x"],
            (2, Some("worker.unknown"), None),
        ),
    ];
    for (what, turn, flags, expected) in rows {
        // An answer is the last turn.
        let last = if turn.contains("say:") {
            ""
        } else {
            ", { say: end }"
        };
        let playbook = format!("version: 1\nworkers: {{ main: [{{ {turn} }}{last}] }}\n");
        let world = World::new(&[
            (FILE, &format!("{PROJECT}model: scripted:play.yaml\n")),
            ("workers/main.worker", MAIN),
            (
                "workers/picky.worker",
                "---\nname: picky\ncompatible_models: ['live:*']\n---\nGo.\n",
            ),
            ("number.json", "{\"type\": \"integer\"}"),
            ("data/a.md", "alpha\n"),
            ("play.yaml", &playbook),
        ]);
        let args = match flags {
            ["-c", set] => vec!["--trust", "--json", "-c", set, "run"],
            ["-c", ..] => [&["--trust", "--json"], flags].concat(),
            flags => [&["--trust", "--json", "run"], flags].concat(),
        };
        check(what, &world.forge(&args), expected);
    }
}

/// A world whose model is at `url`.
fn world(url: &str, provider: &str) -> World {
    let world = World::new(&[
        (FILE, &format!("{PROJECT}model: mine:m\n")),
        ("workers/main.worker", MAIN),
        ("data/a.md", "alpha\n"),
    ]);
    let own = world.outside().join("home/.config/forge");
    std::fs::create_dir_all(&own).unwrap();
    let text = format!(
        "providers: {{ mine: {{ wire: openai-chat, base_url: '{url}', retry_s: 1, {provider} }} }}\n"
    );
    std::fs::write(own.join("config.yaml"), text).unwrap();
    world
}

/// What it is, what the vendor replies, keys of the provider, flags.
type Provided<'a> = (&'a str, Vec<String>, &'a str, &'a [&'a str], Expected);

#[test]
fn a_providers_ends() {
    let listing = || says(&[call("c", "list_files", &json!({"path": "/data"}))]);
    let error = |status| refusal(status, &json!({"error": {"message": "no"}}));
    let done = || says(&[json!({"content": "Done."})]);
    let dollar_a_token = "prices: { input: 10000, output: 10000 }";
    let rows: [Provided; 9] = [
        (
            "answered",
            vec![done()],
            "stream: true",
            &[],
            (0, None, Some("answered")),
        ),
        (
            "no key",
            vec![done()],
            "api_key_env: NOT_SET",
            &[],
            (4, Some("model.credentials"), None),
        ),
        (
            "key not taken",
            vec![error(401)],
            "stream: true",
            &[],
            (4, Some("model.credentials"), Some("model_failed")),
        ),
        (
            "request not taken",
            vec![error(404)],
            "stream: true",
            &[],
            (1, Some("model.rejected"), Some("model_failed")),
        ),
        (
            "busy",
            vec![error(503)],
            "stream: true",
            &[],
            (7, Some("model.unreachable"), Some("model_failed")),
        ),
        (
            "cost",
            vec![listing(), done()],
            dollar_a_token,
            &["--max-cost", "0.1"],
            (5, Some("limit"), Some("cost_limit")),
        ),
        (
            "no prices",
            vec![done()],
            "stream: true",
            &["--max-cost", "1"],
            (2, Some("model.no_prices"), Some("no_prices")),
        ),
        (
            "context",
            vec![listing(), done()],
            "context_tokens: 20",
            &[],
            (5, Some("limit"), Some("context_full")),
        ),
        (
            "wall",
            vec![String::new()],
            "stream: true",
            &["--max-wall", "1"],
            (5, Some("limit"), Some("wall_limit")),
        ),
    ];
    for (what, replies, provider, flags, expected) in rows {
        let vendor = Vendor::start(replies);
        let world = world(&vendor.url, provider);
        let args = [&["--trust", "--json", "run"], flags].concat();
        check(what, &world.forge(&args), expected);
    }
    let nobody = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}/v1", nobody.local_addr().unwrap());
    drop(nobody);
    let world = world(&url, "stream: true");
    let ran = world.forge(&["--trust", "--json", "run"]);
    check(
        "nobody there",
        &ran,
        (7, Some("model.unreachable"), Some("model_failed")),
    );
}

/// While the provider is waited for.
#[test]
fn a_signals_ends() {
    for (signal, exit) in [("-INT", 130), ("-TERM", 143)] {
        let vendor = Vendor::start(vec![String::new()]);
        let world = world(&vendor.url, "stream: true");
        let mut command = world.command(forge_program(), &["--trust", "--json", "run"]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let running = command.spawn().unwrap();
        let begun = Instant::now();
        while vendor.asked().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(600));
            std::thread::sleep(Duration::from_millis(10));
        }
        let id = running.id().to_string();
        let told = std::process::Command::new("kill")
            .args([signal, &id])
            .status();
        assert!(told.unwrap().success());
        let ran = ran(running.wait_with_output().unwrap());
        check(signal, &ran, (exit, Some("interrupted"), Some("cancelled")));
    }
}

/// Whoever asked for an answer and does not get it is told by the exit code.
#[test]
fn an_answer_that_cannot_be_written_is_no_success() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    // Not closed, but as good as that: standard libraries take it for success.
    let read_only = || File::open("/dev/null").unwrap();
    let world = World::new(&[
        (FILE, &format!("{PROJECT}model: scripted:play.yaml\n")),
        ("workers/main.worker", MAIN),
        ("play.yaml", "version: 1\nworkers: { main: [{ say: x }] }\n"),
    ]);
    for flags in [
        &["run"][..],
        &["--json", "run"],
        &["--output", "stream-json", "run"],
        &["run", "--dry-run"],
    ] {
        for (what, out) in [("full", full()), ("read-only", read_only())] {
            let args = [&["--trust"], flags].concat();
            let mut command = world.command(forge_program(), &args);
            let done = command.stdout(out).output().unwrap();
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert_eq!(done.status.code(), Some(1), "{what} {flags:?}: {said}");
        }
    }
}

/// A proxy of the environment sees a tunnel and no key, and what it is told to be let in with is
/// in no text. The loopback has none.
#[test]
fn a_proxy_of_the_environment() {
    for (url, is_asked) in [
        ("https://model.invalid/v1", true),
        ("https://127.0.0.1:1/v1", false),
        ("http://127.0.0.1:1/v1", false),
    ] {
        let proxy = Vendor::start(vec![refusal(407, &json!({}))]);
        let world = world(url, "api_key_env: MODEL_KEY");
        let mut command = world.command(forge_program(), &["--trust", "--json", "run"]);
        let address = proxy.url.replace("http://", "http://me:let-me-in-4711@");
        command.env("MODEL_KEY", "key-of-the-model-4711");
        for variable in ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"] {
            command.env(variable, &address);
        }
        let ran = ran(command.output().unwrap());
        assert_eq!(ran.code, 7, "{url}: {}", ran.stderr);
        let asked = proxy.asked();
        assert_eq!(!asked.is_empty(), is_asked, "{url}: {asked:?}");
        for asked in asked {
            assert!(
                asked.head.starts_with("CONNECT model.invalid:443 "),
                "{asked:?}"
            );
            assert!(
                !format!("{asked:?}").contains("key-of-the-model"),
                "{asked:?}"
            );
        }
        let texts = ran.stdout + &ran.stderr;
        assert!(!texts.contains("4711"), "{texts}");
    }
}

/// The printed command works, with a larger limit, whoever set the one that was met; and it keeps the
/// options of the run.
#[test]
fn a_run_that_met_a_limit_goes_on_as_it_is_typed() {
    let playbook = "version: 1\nworkers: { main: [{ calls: [{ tool: list_files, args: { path: / } }] }, { say: done }] }\n";
    let limits = "limits: { max_turns: 1 }\n";
    let sandbox = "sandbox: { mode: direct, zones: { data: { path: /var/tmp } } }\n";
    for (project, flags, keeps) in [
        ("", &["--max-turns", "1"][..], ""),
        (limits, &[], ""),
        (
            "",
            &["--max-turns", "1", "-c", "limits.max_tool_calls=7"],
            "-c limits.max_tool_calls=7",
        ),
        (sandbox, &["--max-turns", "1", "--trust"], "--trust"),
        ("", &["--max-turns", "1", "--approve", "all"], "--yes"),
        ("", &["--max-turns", "1", "--no-input"], "--no-input"),
    ] {
        let files = [
            (FILE, project),
            ("workers/main.worker", MAIN),
            ("play.yaml", playbook),
        ];
        let world = World::new(&files);
        let run = ["run", "-m", "scripted:play.yaml"];
        let ran = world.forge(&[&run[..], flags, &["main", "go"]].concat());
        let typed = ran.code(5).stderr.lines();
        let mut typed = typed.filter_map(|line| line.strip_prefix("it goes on with: forge "));
        let typed = typed.next().unwrap();
        assert!(typed.contains(keeps), "{typed}");
        let words: Vec<&str> = typed.split(' ').collect();
        assert_eq!(world.forge(&words).code(0).stdout, "done\n", "{typed}");
    }
}

/// No option raises a limit of one's own file, and none gives a model prices.
#[test]
fn a_limit_that_no_option_raises_is_not_raised() {
    let playbook = "version: 1\nworkers: { main: [{ calls: [{ tool: list_files, args: { path: / } }] }, { say: done }] }\n";
    let files = [("workers/main.worker", MAIN), ("play.yaml", playbook)];
    let world = World::new(&files);
    let dir = world.outside().join("home/.config/forge");
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("config.yaml");
    std::fs::write(&file, "limits: { max_turns: 1 }\n").unwrap();
    let ran = world.forge(&["run", "-m", "scripted:play.yaml", "main", "go"]);
    ran.code(5).says(&[
        "it goes on, once `limits.max_turns` of your own file allows more, with: forge run",
        "hint: `limits.max_turns` of your own file sets it (",
        "config.yaml:1:22)",
    ]);
    std::fs::write(&file, "limits: { max_turns: 2 }\n").unwrap();
    let mut typed = ran
        .stderr
        .lines()
        .filter_map(|line| line.split_once(" with: forge "));
    let words: Vec<&str> = typed.next().unwrap().1.split(' ').collect();
    assert_eq!(world.forge(&words).code(0).stdout, "done\n", "{words:?}");
}

/// A call that a model writes as text does nothing.
#[test]
fn a_call_as_text_is_no_answer() {
    for (say, is_call) in [
        (
            r#"{"name": "read_file", "arguments": {"path": "/a"}}"#,
            true,
        ),
        ("<function=list_files>{}</function>", true),
        ("I used \"read_file\" before.", false),
    ] {
        let turn = json!({ "say": say, "verbatim": true });
        let playbook = json!({ "version": 1, "workers": { "main": [turn] } }).to_string();
        let files = [("workers/main.worker", MAIN), ("play.yaml", &playbook)];
        let ran = World::new(&files).forge(&["run", "-m", "scripted:play.yaml", "main", "go"]);
        let told = ran.code(0).stderr.contains("forge doctor --model");
        assert_eq!(told, is_call, "{say}: {}", ran.stderr);
    }
}

/// The printed command works: with the model that was refused it would fail in the same way.
#[test]
fn a_run_whose_model_was_refused_goes_on_with_another() {
    for (model, more) in [
        (
            "fail: { status: 404, times: 9 }, say: x",
            " -m PROVIDER:MODEL --accept-changes",
        ),
        ("fail: { status: 401, times: 9 }, say: x", ""),
    ] {
        let playbook = format!("version: 1\nworkers: {{ main: [{{ {model} }}] }}\n");
        let files = [("workers/main.worker", MAIN), ("play.yaml", &playbook)];
        let world = World::new(&files);
        let ran = world.forge(&["run", "-m", "scripted:play.yaml", "main", "go"]);
        let hint = ran
            .stderr
            .lines()
            .find_map(|line| line.strip_prefix("it goes on with: "));
        let hint = hint.unwrap_or_else(|| panic!("{}", ran.stderr));
        let run = hint.strip_prefix("forge run --resume main_").unwrap();
        assert_eq!(
            run.split_once(' ').map_or("", |(_, more)| more),
            more.trim(),
            "{hint}"
        );
    }
}
