//! Ten thousand calls of anything with anything: an answer to each, in bounds, that names no place
//! of the host and not the word that models must not see.

use forge_tools::CallRequest;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::{World, block_on};

const CALLS: u32 = 100;

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec![
            "/", "/data", "/data/readme.md", "data/notes.md", "/out/a.md", "out", "/out/sub/b.txt",
            "/data/out-link/secret.txt", "/etc/passwd", "../..", "/work/data", "~", "", "hello",
            "0123", "**/*", "[", "(", "*.md", "/data/picture.png", "C:\\x", "/data/\u{0}",
        ])
        .prop_map(str::to_owned),
        1 => "\\PC{0,40}",
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        6 => texts().prop_map(Value::String),
        1 => any::<i64>().prop_map(|n| json!(n)),
        1 => (0_i64..5).prop_map(|n| json!(n)),
        1 => any::<f64>().prop_map(|n| json!(n)),
        1 => any::<bool>().prop_map(|b| json!(b)),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec(("\\PC{0,8}", inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn calls(tools: Vec<(String, Vec<String>)>) -> impl Strategy<Value = (String, Value)> {
    let known = prop::sample::select(tools).prop_flat_map(|(tool, names)| {
        let name = prop_oneof![9 => prop::sample::select(names), 1 => "\\PC{0,8}"];
        let fields = prop::collection::vec((name, values()), 0..5)
            .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>()));
        (Just(tool), fields)
    });
    prop_oneof![
        8 => known,
        1 => (texts(), values()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(test_sample::count("calls: anything", 2_500, 10_000) / CALLS))]

    #[test]
    fn anything_is_answered(
        calls in prop::collection::vec(
            calls(
                World::new()
                    .toolbox()
                    .specs()
                    .map(|spec| {
                        let schema = spec.params.to_json_schema();
                        let names = schema["properties"].as_object().unwrap().keys().cloned();
                        (spec.name.clone(), names.collect())
                    })
                    .collect(),
            ),
            CALLS as usize,
        ),
    ) {
        let world = World::new();
        let toolbox = world.builder().max_result_chars(2000).build().unwrap();
        let host = world.host.path().to_str().unwrap();
        block_on(async {
            for (tool, arguments) in calls {
                // What the call itself says may come back in the answer.
                let asked = format!("{tool} {arguments}");
                let result = toolbox.call(CallRequest::new(&tool, arguments)).await;
                let said = result.to_json();
                let said = format!("{} {} {:?}", said["content"], said["structured"], result.error);
                assert!(!said.contains(host), "{asked}\n{said}");
                assert!(asked.contains("zone") || !said.contains("zone"), "{asked}\n{said}");
                assert!(result.content.chars().count() <= 2000 + 200, "{asked}\n{said}");
                assert!(said.len() <= 40_000, "{asked}\n{said}");
                assert_eq!(result.ok, result.error.is_none());
            }
        });
        let secret = std::fs::read_to_string(world.host.path().join("outside/secret.txt"));
        prop_assert_eq!(secret.unwrap(), "the secret");
    }
}

#[cfg(target_os = "linux")]
proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// Anything as a command: it is taken apart and refused, by the rule or because it is no command,
    /// and nothing is run.
    #[test]
    fn any_command_line_is_answered(
        lines in prop::collection::vec(
            prop_oneof![
                "\\PC{0,60}",
                "((echo|rm|\\$\\(|`|'|\"|\\||&&|;|>|<|\\{|\\}|\\\\|\n|X=1|a|/out/a\\.md|\\*) ?){0,12}",
            ],
            50,
        ),
    ) {
        use crate::support::Always;

        let dir = tempfile::tempdir().unwrap();
        let toolbox = forge_tools::Toolbox::builder()
            .processes(crate::commands::processes(dir.path()))
            .gate(Always(forge_tools::Verdict::Block))
            .build()
            .unwrap();
        let host = dir.path().to_str().unwrap();
        block_on(async {
            for line in lines {
                let result = toolbox.call(CallRequest::new("shell", json!({"command": line}))).await;
                let error = result.error.unwrap();
                assert!(["BLOCKED", "COMMAND_SYNTAX"].contains(&error.code.as_str()), "{line}: {error:?}");
                assert!(line.contains("zone") || !result.content.contains("zone"), "{line}: {error:?}");
                assert!(!result.content.contains(host), "{line}: {error:?}");
            }
        });
    }
}
