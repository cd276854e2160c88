//! `forge doctor --model`, against servers that make calls, write them as text, refuse, or are
//! not there.

use serde_json::{Value, json};

use crate::support::World;
use crate::vendor::{Vendor, call, refusal, says, says_whole};

const AS_TEXT: &str = "<tool_call>{\"name\": \"report_weather\"}</tool_call>\u{1b}[2J";

/// Asked once in a stream, then once in one piece.
fn world(url: &str, more: &str) -> World {
    let world = World::new(&[("golem-forge.config.yaml", "model: mine:m\n")]);
    let dir = world.outside().join("home/.config/forge");
    std::fs::create_dir_all(&dir).unwrap();
    let provider = format!("wire: openai-chat, base_url: '{url}'{more}");
    std::fs::write(
        dir.join("config.yaml"),
        format!("providers: {{ mine: {{ {provider} }} }}\n"),
    )
    .unwrap();
    world
}

fn right() -> Value {
    call("c1", "report_weather", &json!({"city": "Reykjavik"}))
}

#[test]
fn what_is_found() {
    let text = json!({"content": AS_TEXT});
    let other = call("c1", "report_weather", &json!({"town": 7}));
    struct Row {
        what: &'static str,
        stream: String,
        whole: String,
        config: &'static str,
        code: i32,
        says: &'static [&'static str],
    }
    let rows = [
        Row {
            what: "both work",
            stream: says(&[right()]),
            whole: says_whole(&right()),
            config: "",
            code: 0,
            says: &[
                "mine:m at http://",
                "ok       in a stream   one call, after",
                "ok       in one piece",
            ],
        },
        Row {
            what: "text in a stream",
            stream: says(std::slice::from_ref(&text)),
            whole: says_whole(&right()),
            config: "",
            code: 1,
            says: &[
                "failed   in a stream   tool call returned as text: <tool_call>",
                "try: forge doctor --model mine:m -c providers.mine.stream=false",
                "ok       in one piece",
            ],
        },
        Row {
            what: "the same where streams are not used",
            stream: says(std::slice::from_ref(&text)),
            whole: says_whole(&right()),
            config: ", stream: false",
            code: 0,
            says: &[
                "warning  in a stream   tool call returned as text",
                "ok       in one piece",
            ],
        },
        Row {
            what: "text in both",
            stream: says(std::slice::from_ref(&text)),
            whole: says_whole(&text),
            config: "",
            code: 1,
            says: &[
                "tool call returned as text",
                "try: llama-server --jinja --model FILE",
            ],
        },
        Row {
            what: "no call, and another",
            stream: says(&[json!({"content": "It rains."})]),
            whole: says_whole(&other),
            config: "",
            code: 1,
            says: &[
                "no call: it said: It rains.",
                "not the call that was asked for: report_weather {\"town\":7}",
                "try: forge doctor --model mine:ANOTHER",
            ],
        },
        Row {
            what: "the key",
            stream: refusal(401, &json!({"error": {"message": "no such key"}})),
            whole: refusal(401, &json!({"error": {"message": "no such key"}})),
            config: "",
            code: 4,
            says: &[
                "wants a key (401): no such key",
                "-c providers.mine.api_key_env=NAME",
            ],
        },
        Row {
            what: "busy, and not tried again",
            stream: refusal(529, &json!({"error": {"message": "later"}})),
            whole: says_whole(&right()),
            config: "",
            code: 1,
            says: &["the provider is busy (529): later"],
        },
    ];
    for row in rows {
        let vendor = Vendor::start(vec![row.stream, row.whole]);
        let world = world(&vendor.url, row.config);
        let forge = world.forge(&["doctor", "--model"]);
        assert_eq!(
            forge.code, row.code,
            "{}: {}{}",
            row.what, forge.stdout, forge.stderr
        );
        for text in row.says {
            assert!(
                forge.stdout.contains(text),
                "{}: no {text:?} in\n{}",
                row.what,
                forge.stdout
            );
        }
        assert!(!forge.stdout.contains('\u{1b}'), "{}", row.what);
        let asked = vendor.asked();
        assert_eq!(asked.len(), 2, "{}", row.what);
        assert!(asked[0].body.contains("\"stream\":true"), "{}", row.what);
        assert!(asked[1].body.contains("\"stream\":false"), "{}", row.what);
        assert!(asked[0].body.contains("report_weather"), "{}", row.what);
    }
}

/// What it says to type works as it stands.
#[test]
fn what_it_says_to_try() {
    let text = json!({"content": AS_TEXT});
    let vendor = Vendor::start(vec![says(&[text]), says_whole(&right())]);
    let world = world(&vendor.url, "");
    let forge = world.forge(&["doctor", "--model", "mine:m"]);
    let hint = forge
        .stdout
        .lines()
        .find_map(|line| line.trim().strip_prefix("try: forge "));
    let vendor = Vendor::start(vec![says(&[right()]), says_whole(&right())]);
    let words: Vec<&str> = hint.unwrap().split(' ').collect();
    let url = format!("providers.mine.base_url={}", vendor.url);
    let mut again = words.clone();
    again.extend(["-c", &url, "--json"]);
    let forge = world.forge(&again);
    let facts: Value = serde_json::from_str(&forge.code(0).stdout).unwrap();
    let facts = &facts["model"];
    assert_eq!(facts["ok"], true);
    assert_eq!(facts["name"], "mine:m");
    assert_eq!(facts["wire"], "openai-chat");
    assert_eq!(facts["base_url"], vendor.url);
    let checks = facts["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 2);
    for check in checks {
        assert_eq!(check["state"], "ok");
        assert_eq!(check["help"], Value::Null);
    }
}

#[test]
fn a_server_of_this_machine_that_is_not_there_is_said_at_once() {
    let world = world("http://127.0.0.1:1/v1", "");
    world.write("workers/main.worker", "---\nname: main\n---\nGo.\n");
    let ran = world.forge(&["run", "do it"]);
    ran.code(7)
        .says(&["no server listens at 127.0.0.1:1; start the server of the provider `mine`"]);
    assert!(!ran.stderr.contains("again in"), "{}", ran.stderr);
}

#[test]
fn whom_it_cannot_ask() {
    let world = world("http://127.0.0.1:1/v1", "");
    let forge = world.forge(&["doctor", "--model"]);
    assert!(
        forge
            .code(7)
            .stdout
            .contains("no server listens at 127.0.0.1:1; start the server of the provider `mine`")
    );
    assert!(forge.stdout.contains("try: curl -v http://127.0.0.1:1/v1"));
    let rows = [
        ("nobody:m", 2, "unknown provider `nobody`"),
        ("m", 2, "names no provider"),
        ("ollama", 2, "`ollama` is a provider: write `ollama:` and"),
        ("anthropic:", 2, "the model `anthropic:` names no model"),
        (":m", 2, "unknown provider ``"),
        ("scripted:a.yaml", 2, "there is no endpoint to probe"),
        ("anthropic:m", 4, "ANTHROPIC_API_KEY is not set"),
    ];
    for (named, code, why) in rows {
        world
            .forge(&["doctor", "--model", named])
            .code(code)
            .says(&[why]);
    }
}

/// The option that it says to try is one of the provider's.
#[test]
fn the_hint_fits_the_provider() {
    let missing = refusal(404, &json!({"error": {"message": "404 page not found"}}));
    let text = json!({"content": AS_TEXT});
    for (name, wire, answers, hint) in [
        (
            "mine",
            "openai-responses",
            vec![missing.clone(), missing],
            "try: forge doctor --model mine:m -c providers.mine.wire=openai-chat",
        ),
        (
            "ollama",
            "openai-chat",
            vec![says(std::slice::from_ref(&text)), says_whole(&text)],
            "try: forge doctor --model ollama:ANOTHER",
        ),
    ] {
        let vendor = Vendor::start(answers);
        let world = World::new(&[]);
        let setting = |key: &str, value: &str| format!("providers.{name}.{key}={value}");
        let (wire, url) = (setting("wire", wire), setting("base_url", &vendor.url));
        let model = format!("{name}:m");
        let ran = world.forge(&["doctor", "--model", &model, "-c", &wire, "-c", &url]);
        assert!(
            ran.code(1).stdout.contains(hint),
            "{}{}",
            ran.stdout,
            ran.stderr
        );
    }
}

#[test]
fn a_model_that_ollama_lacks_is_told_with_the_command_that_gets_it() {
    let missing = refusal(
        404,
        &json!({"error": {"message": "model 'llama9' not found"}}),
    );
    for (args, code) in [
        (&["run", "-m", "ollama:llama9", "main", "go"][..], 1),
        (&["doctor", "--model", "ollama:llama9"], 1),
    ] {
        let vendor = Vendor::start(vec![missing.clone(), missing.clone()]);
        let world = World::new(&[("workers/main.worker", "---\nname: main\n---\nGo.\n")]);
        let url = format!("providers.ollama.base_url={}", vendor.url);
        let ran = world.forge(&[args, &["-c", &url]].concat());
        let said = ran.stdout.clone() + &ran.stderr;
        assert_eq!(ran.code, code, "{said}");
        let told = "model 'llama9' not found; run `ollama pull llama9`";
        assert!(said.contains(told), "{said}");
    }
}
