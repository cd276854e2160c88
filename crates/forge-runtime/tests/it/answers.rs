//! Answers of a given shape, and inputs of one.

use forge_runtime::{Message, RunOutcome};
use serde_json::json;

use crate::listed::{Listed, call, calls, said};
use crate::support::{CONFIG, World};

const SHAPED: &str = "\
output_schema: { type: object, required: [n], properties: { n: { type: integer } } }
";

#[test]
fn an_answer_that_does_not_fit_gets_one_second_try() {
    let end = |answers: &[&str]| {
        let world = World::new(CONFIG, &[("main", SHAPED)]);
        let model = Listed::new(answers.iter().map(|answer| said(answer)));
        let end = world.run_with(model.clone()).end;
        (end, model)
    };
    let fits = RunOutcome::Answered {
        answer: r#"{"n": 1}"#.into(),
    };
    let (first, model) = end(&[r#"{"n": 1}"#]);
    assert_eq!(first, fits);
    let told = &model.last_request().instructions;
    assert!(told.contains(r#""required":["n"]"#), "{told}");
    assert_eq!(end(&["```json\n{\"n\": 1}\n```"]).0, fits);

    let (second, model) = end(&[r#"{"m": 1}"#, "Sorry:\n```\n{\"n\": 1}\n```"]);
    assert_eq!(second, fits);
    let request = model.last_request();
    let Some(Message::Input { text }) = request.messages.last() else {
        panic!("{:?}", request.messages);
    };
    insta::assert_snapshot!(text, @r#"
    Your answer does not fit the JSON Schema:
    - /: "n" is a required property
    Answer again, with the whole JSON value and nothing else.
    "#);

    let (unfit, model) = end(&["no", r#"{"n": "x"}"#, r#"{"n": 1}"#]);
    let problems = vec![r#"/n: "x" is not of type "integer""#.to_owned()];
    assert_eq!(
        unfit,
        RunOutcome::SchemaMismatch {
            answer: r#"{"n": "x"}"#.into(),
            problems
        }
    );
    assert_eq!(model.turns_taken(), 2);
}

#[test]
fn a_called_worker_gives_its_value() {
    let world = World::new(CONFIG, &[("main", "workers: [child]\n"), ("child", SHAPED)]);
    let model = Listed::new([
        calls([call("1", "child", json!({"input": "x"}))]),
        said("```json\n{\"n\": 7}\n```"),
    ]);
    assert!(world.run_with(model.clone()).end.is_answer());
    let request = model.last_request();
    let Some(Message::ToolResult(result)) = request.messages.last() else {
        panic!("{:?}", request.messages);
    };
    assert_eq!(result.content, r#"{"n": 7}"#);
    assert_eq!(result.detail["structured"]["answer"], json!({"n": 7}));

    let model = Listed::new([
        calls([call("1", "child", json!({"input": "x"}))]),
        said("seven"),
        said("7"),
    ]);
    let world = World::new(CONFIG, &[("main", "workers: [child]\n"), ("child", SHAPED)]);
    assert!(world.run_with(model).end.is_answer());
    assert_eq!(
        world.results(),
        "✗ child: Worker 'child' did not finish: the answer does not fit the output schema: \
         /: 7 is not of type \"object\""
    );
}

#[test]
fn a_worker_says_what_it_is_to_be_called_with() {
    let object = "input_schema: { type: object, required: [path], properties: \
                  { path: { type: string } }, additionalProperties: false }\n";
    for (schema, tool, arguments, input) in [
        (
            object,
            "child",
            json!({"path": "/a"}),
            Ok(r#"{"path":"/a"}"#),
        ),
        (
            object,
            "child",
            json!({"input": "x"}),
            Err("Additional properties are not allowed"),
        ),
        (
            object,
            "call_worker",
            json!({"worker": "child", "input": r#"{"path": "/a"}"#}),
            Ok(r#"{"path": "/a"}"#),
        ),
        (
            object,
            "call_worker",
            json!({"worker": "child", "input": "go"}),
            Err("not JSON"),
        ),
    ] {
        let world = World::new(CONFIG, &[("main", "workers: [child]\n"), ("child", schema)]);
        let model = Listed::new([calls([call("1", tool, arguments.clone())])]);
        assert!(world.run_with(model.clone()).end.is_answer());
        let results = world.results();
        match input {
            Ok(input) => {
                let asked = model.asked.lock().unwrap();
                let expected = Message::Input { text: input.into() };
                assert_eq!(asked[1].messages, [expected], "{arguments}: {results}");
                assert_eq!(world.started().len(), 2);
            }
            Err(text) => {
                assert!(results.contains(text), "{arguments}: {results}");
                assert!(results.starts_with("✗ "), "{arguments}: {results}");
                assert_eq!(world.started(), ["main"], "{arguments}");
            }
        }
    }
}
